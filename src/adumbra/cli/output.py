"""What the command line prints: results to stdout, everything else to stderr, JSON where asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from adumbra.core.errors import AdumbraError

__all__ = ["Reporter", "emit_json", "notes", "print_error", "print_frame", "print_markdown", "print_table"]

notes = Console(stderr=True, highlight=False)
_out = Console(highlight=False)


def print_error(error: AdumbraError) -> None:
    """The three parts of an error, one a line."""
    notes.print(f"[bold red]error[/]: expected {_escaped(error.expected)}")
    notes.print(f"       got {_escaped(error.got)}")
    notes.print(f"       to do: {_escaped(error.remedy)}")


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


def emit_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_markdown(text: str) -> None:
    """Rendered on a terminal, plain when piped."""
    if _out.is_terminal:
        _out.print(Markdown(text))
    else:
        sys.stdout.write(text + "\n")


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A small table."""
    table = RichTable(
        title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for index, name in enumerate(header):
        table.add_column(name, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(_escaped(_text(cell)) for cell in row))
    console = _out if _out.is_terminal else Console(highlight=False, width=140)
    console.print(table)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def print_frame(frame: pl.DataFrame, as_json: bool) -> None:
    """Answers: CSV when piped, a table on a terminal, records in JSON."""
    if as_json:
        emit_json(frame.to_dicts())
    elif _out.is_terminal:
        shown = frame.head(50)
        print_table("", shown.columns, shown.rows())
        if len(frame) > len(shown):
            notes.print(
                f"({len(frame) - len(shown)} more rows: pipe the output or use --json to get them all)"
            )
    else:
        sys.stdout.write(frame.write_csv())


class Reporter:
    """A progress bar on a terminal, plain lines when not."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._step = ""
        self._tenth = -1

    def __enter__(self) -> Reporter:
        if notes.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=notes,
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Called by the pipeline between batches."""
        if self._bar is not None:
            if step != self._step or self._task is None:
                self._task = self._bar.add_task(step, total=total or None)
            self._bar.update(self._task, completed=done, total=total or None)
        elif total == 0:
            notes.print(f"{step} ...")
        else:
            tenth = 10 * done // total
            if tenth > self._tenth:
                notes.print(f"{step}: {done} of {total} rows")
                self._tenth = tenth
        self._step = step
