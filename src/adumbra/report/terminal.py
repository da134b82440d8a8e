"""Documents for a terminal, and as plain text where there is none.

Names and values may come from anybody: `common/shown.py` makes them harmless here, so that none repaints the terminal.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from rich.console import Console
from rich.text import Text as Line

from adumbra.common.shown import shown, shown_lines
from adumbra.report.document import (
    PRIVATE,
    Document,
    Facts,
    Figure,
    Inline,
    Mark,
    Note,
    Part,
    Section,
    Table,
    Text,
    Value,
    Verbatim,
    in_words,
)

if TYPE_CHECKING:
    from rich.table import Table as Grid

__all__ = ["plain_text", "show"]

_WIDTH = 160
"""Letters in a line where nobody says how many fit."""


def show(document: Document, console: Console) -> None:
    """Print it on a console, in its width and with its colours."""
    for block in _blocks(document):
        console.print(block, soft_wrap=isinstance(block, Line))


def plain_text(document: Document) -> str:
    """The same without colours, in lines of at most 160 letters in tables."""
    page = io.StringIO()
    show(document, Console(file=page, highlight=False, width=_WIDTH))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def _says_so(document: Document) -> bool:
    """Whether it begins by saying that it is private, in words of its own."""
    first = document.parts[0] if document.parts else None
    return isinstance(first, Note) and first.weight == "private"


def _blocks(document: Document) -> Iterator[Line | Grid]:
    """What is printed, one after the other; an empty line before all but the first, and between lines of text none."""
    if document.private and not _says_so(document):
        yield Line(f"{PRIVATE}\n", style="bold")
    begins_with_section = bool(document.parts) and isinstance(document.parts[0], Section)
    title = "" if begins_with_section or _says_so(document) else document.title
    if title:
        yield Line(shown(title), style="bold cyan")
    after: Part | None = None
    for part, heading in _flat(document.parts):
        close = isinstance(part, Text | Note) and isinstance(after, Text | Note) and not heading
        if after is not None and not close:
            yield Line("")
        if heading:
            yield Line(shown(heading), style="bold cyan")
        yield _block(part)
        after = part


def _flat(parts: Sequence[Part], heading: str = "") -> Iterator[tuple[Part, str]]:
    """Parts in their order, the first of each section with its title; no background."""
    for part in parts:
        if not isinstance(part, Section):
            yield part, heading
            heading = ""
        elif not part.folded:
            yield from _flat(part.parts, part.title)


def _block(part: Part) -> Line | Grid:
    match part:
        case Text(text) | Verbatim(text):
            return Line(shown_lines(text))
        case Note(text, weight, lead):
            first = f"{shown(lead)} " if lead else "" if weight == "private" else f"{weight}: "
            return Line.assemble((first, "bold"), shown(text))
        case Facts(rows, heads):
            return _grid(heads, [(label, value) for label, value in rows], None)
        case Table():
            return _table(part)
        case Figure():
            return Line(shown(f"{part.title or part.name}: {part.alt}"))
        case Section():
            raise TypeError("sections are flat by now")
        case _:
            assert_never(part)


def _table(table: Table) -> Grid:
    rows = list(table.rows)
    columns = table.columns
    if any(table.notes):
        columns = (*columns, "note")
        rows = [(*row, note) for row, note in zip(rows, table.notes, strict=True)]
    return _grid(columns, rows, table.columns.index(table.long) if table.long else None, table.caption)


def _grid(heads: Sequence[str] | None, rows: Sequence[Sequence[Value]], folds: int | None, caption: str = "") -> Grid:
    """A table without lines. Where it is too wide, cells fold: all but the first column's, or only those of `folds`."""
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, header_style="bold", show_header=heads is not None)
    if caption:
        grid.title, grid.title_justify, grid.title_style = Line(shown(caption)), "left", "bold cyan"
    # numbers are compared digit by digit, so a narrow last column folds rather than cuts
    for index, name in enumerate(heads or ("", "")):
        grid.add_column(Line(shown(name)), overflow="fold", no_wrap=index == 0 if folds is None else index != folds)
    for row in rows:
        grid.add_row(*(_cell(value) for value in row))
    return grid


def _cell(value: Value) -> Line:
    """A cell that is a list has a line for each item."""
    style = "bold red" if isinstance(value, Mark) and value.tone == "bad" else ""
    return Line(in_words(value, shown, _inline, between="\n"), style=style)


def _inline(value: Inline) -> str:
    return shown(value.text)
