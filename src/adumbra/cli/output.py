"""What the command line prints: results to stdout, everything else to stderr, JSON where asked.

Names and values come from folders and tables of others: nothing reaches the terminal before `common/shown.py` has
made it harmless. The one exception is data (`emit_data`), which must stay exact.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer
from rich.console import Console
from rich.text import Text

from adumbra.common.errors import AdumbraError, AfterCharge, InputError
from adumbra.common.files import new_file
from adumbra.common.shown import shown, shown_json, shown_lines
from adumbra.report import terminal
from adumbra.report.as_json import as_json
from adumbra.report.document import Document, Table, Value

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress, TaskID

__all__ = [
    "HtmlOption",
    "Reporter",
    "check_new",
    "emit",
    "emit_data",
    "emit_json",
    "emit_json_text",
    "emit_line",
    "note",
    "print_error",
    "print_frame",
    "print_markdown",
    "print_table",
    "printing",
    "printing_what_is_in",
    "show",
    "write_page",
]

HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="also write it as a page: one HTML file, for a browser")
]


class _Stderr:
    """Standard error, whatever it is by now. A full disk or a terminal that went away is not worth an error.

    Notes and progress must not end a release that is paid for, nor change its exit code; not even from the thread
    that draws a progress bar.
    """

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            _stream().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            _stream().flush()

    def isatty(self) -> bool:
        return _stream().isatty()

    def fileno(self) -> int:
        return _stream().fileno()

    @property
    def encoding(self) -> str:
        return _stream().encoding or "utf-8"


def _stream() -> TextIO:
    # while a progress bar is shown, rich puts a stand-in there that comes back to us
    return cast(TextIO, getattr(sys.stderr, "rich_proxied_file", sys.stderr))


_notes = Console(file=cast(IO[str], _Stderr()), highlight=False)
_out = Console(highlight=False)


def note(text: str) -> None:
    """One line for people, on stderr; never wrapped, so that scripts can search it."""
    _say(Text(shown(text)))


def _say(text: Text) -> None:
    _notes.print(text, soft_wrap=True)


def print_error(error: AdumbraError) -> None:
    """The three parts of an error, one a line."""
    _say(Text.assemble(("error", "bold red"), f": expected {error.expected}"))
    _say(Text(f"       got {error.got}"))  # the parts are safe to show already
    _say(Text(f"       to do: {error.remedy}"))


def emit(text: str) -> None:
    """Results to stdout, of as many lines as the text has."""
    emit_data(shown_lines(text))


def emit_line(text: str) -> None:
    """One line of results: a line break inside a name makes no second one."""
    emit_data(shown(text) + "\n")


def emit_data(text: str) -> None:
    """Exactly this to stdout. A reader that has seen enough (`| head`) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_json(value: Any) -> None:
    """One JSON document on stdout."""
    emit_json_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_json_text(text: str) -> None:
    """JSON that is written already; where stdout has no place for a letter, escaped as JSON does."""
    text = shown_json(text)
    if not _can_be_written(text):  # outside of strings JSON is ASCII
        text = "".join(letter if letter.isascii() else json.dumps(letter)[1:-1] for letter in text)
    emit_data(text)


def _can_be_written(text: str) -> bool:
    """Whether stdout has a place for every letter; what it has none for would come out as `\\xfc`."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def print_markdown(text: str) -> None:
    """Rendered on a terminal, plain when piped."""
    if _out.is_terminal:
        from rich.markdown import Markdown

        _out.print(Markdown(shown_lines(text)))
    else:
        emit(text)


def show(document: Document, *, json: bool = False, html: Path | None = None) -> None:
    """A `document` on stdout, as `json` where asked; and as a page at `html`, which `check_new` has checked."""
    if html is not None:
        write_page(document, html)
    if json:
        emit_json_text(as_json(document))
    elif _out.is_terminal:
        terminal.show(document, _out)
    else:
        emit_data(terminal.plain_text(document))


def write_page(document: Document, place: Path) -> None:
    """The document as one HTML file. A private one can be read by its owner alone."""
    from adumbra.report.html import html_page

    with new_file(place, private=document.private) as file:
        file.write(html_page(document).encode())
    note(f"page written to {place}")


def check_new(place: Path | None, option: str) -> None:
    """Refuse, before any work, a `place` for a new file (that of this `option`) that exists or cannot be made."""
    if place is None:
        return
    if os.path.lexists(place):
        raise InputError(f"an {option} that does not exist yet", f"{place} exists", "choose another name")
    if not place.absolute().parent.is_dir():
        raise InputError(f"an {option} in a folder that exists", f"{place}", "make the folder, or choose another place")


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A small table under its `title` ("" for none), with the names of its columns in `header`.

    Each of `rows` has a cell per column; a cell that is a list has a line for each item.
    """
    show(Document(title, (Table(tuple(header), tuple(map(tuple, rows))),)))


def print_frame(frame: pl.DataFrame, as_json: bool, *, formula_safe: bool = False) -> None:
    """Answers in `frame`: CSV when piped, to the letter; a table on a terminal, records in JSON if `as_json`.

    `formula_safe` marks CSV cells that a spreadsheet would run as a formula.
    """
    if as_json:
        emit_json(frame.to_dicts())
    elif _out.is_terminal:
        first = frame.head(50)
        print_table("", first.columns, [tuple(map(_cell, row)) for row in first.rows()])
        if len(frame) > len(first):
            note(f"({len(frame) - len(first)} more rows: pipe the output or use --json to get them all)")
    else:
        from adumbra.common.csv_forms import FORMULA_SAFE, write_csv

        page = io.BytesIO()
        write_csv(frame, page, FORMULA_SAFE if formula_safe else True)
        text = page.getvalue().decode()
        if not _can_be_written(text):
            raise InputError(
                "a standard output that takes every letter of the answers",
                f"one of encoding {sys.stdout.encoding}",
                "set PYTHONIOENCODING=utf-8, or use --json",
            )
        emit_data(text)


def _cell(value: object) -> Value:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@contextlib.contextmanager
def printing(what: str, done: str) -> Iterator[None]:
    """Say of output that cannot be written (a full disk behind stdout) what was done all the same."""
    try:
        yield
    except Exception as error:  # whatever it is, the work is done: nobody may take it for undone
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise AfterCharge(f"a standard output that takes {what}", reason, done) from None


def printing_what_is_in(folder: Path, *, charged: bool) -> contextlib.AbstractContextManager[None]:
    """Say of a card that cannot be printed that the release is there, and what it cost."""
    spent = "what was charged for it stays" if charged else "nothing was charged for it"
    return printing("the card", f"{folder} is complete, and {spent}; its card is in card.md and card.json")


class Reporter:
    """A progress bar on a terminal, plain lines when not; `counted` names what `done` counts."""

    def __init__(self, counted: str = "rows") -> None:
        self._counted = counted
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._step = ""
        self._tenth = -1

    def __enter__(self) -> Reporter:
        if _notes.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=_notes,
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
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(step, total=total or None)
            self._bar.update(self._task, completed=done, total=total or None)
        elif total == 0:
            if step != self._step:
                note(f"{step} ...")
        else:
            tenth = 10 * done // total
            if tenth > self._tenth:
                note(f"{step}: {done} of {total} {self._counted}")
                self._tenth = tenth
        self._step = step
