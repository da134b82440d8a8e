"""Documents as Markdown, and text that is none of ours made harmless in it.

Names and values come from owners, and a card may come from anybody: whatever would be markup in Markdown or HTML is
escaped, so that a table called `</td><script>` is shown as that and does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from adumbra.common.shown import shown
from adumbra.report.document import (
    PRIVATE,
    Document,
    Facts,
    Figure,
    Inline,
    Note,
    Part,
    Section,
    Table,
    Text,
    Value,
    Verbatim,
    in_words,
)

__all__ = ["code", "markdown", "one_line", "prose", "shows", "table_lines"]

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.svg")
_MARKS = re.compile(
    r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|(?i:(?<=https)|(?<=http)|(?<=ftp))(?=:)|(?i:(?<=www))(?=\.)"
)
"""What Markdown would take for markup; an underscore inside a word is none. Addresses become no links."""
_TAGS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(document: Document) -> str:
    """The whole document. A figure is a link to `NAME.svg` beside the page."""
    head = [f"# {one_line(document.title)}", ""]
    banner = [f"> **{PRIVATE}**", ""] if document.private else []
    return "\n".join([*head, *banner, *(line for part in document.parts for line in _part(part, 2))])


def _part(part: Part, level: int) -> list[str]:
    """Lines of one part, an empty one at their end."""
    match part:
        case Text(text):
            return [prose(text), ""]
        case Verbatim(text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))  # longer than any inside
            return [fence, *(shown(line) for line in text.splitlines()), fence, ""]
        case Note(text, weight, lead):
            first = lead or {"note": "", "caution": "Caution.", "private": "Private."}[weight]
            return [f"> **{prose(first)}** {prose(text)}" if first else f"> {prose(text)}", ""]
        case Facts(rows):
            return [*table_lines(("", ""), [(label, value) for label, value in rows]), ""]
        case Table():
            return _table(part)
        case Figure():
            return _figure(part, level)
        case Section(title, parts):
            inner = [line for one in parts for line in _part(one, level + 1)]
            return [f"{'#' * min(level, 6)} {one_line(title)}", "", *inner]
        case _:
            assert_never(part)


def _table(table: Table) -> list[str]:
    said = [note for note in table.notes if note]
    notes = [f"- {one_line(note)}" for note in dict.fromkeys(said)]
    caption = [prose(table.caption), ""] if table.caption else []
    return [*caption, *table_lines(table.columns, table.rows), "", *notes, *([""] if notes else [])]


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[str]:
    """A table with these `heads` over its `rows`."""
    written = [one_line(head) for head in heads]
    top = "|" + "|".join(f" {head} " if head else " " for head in written) + "|"
    return [top, "|" + "---|" * len(heads), *("| " + " | ".join(map(_value, row)) + " |" for row in rows)]


def _figure(figure: Figure, level: int) -> list[str]:
    name = f"{figure.name}.svg"
    mark = "" if figure.mark is None else f"{one_line(figure.mark.text)}: "
    title = [f"{'#' * min(level, 6)} {mark}{one_line(figure.title)}", ""] if figure.title else []
    link = [f"![{one_line(figure.name)}]({name})", ""] if shows(name) else []
    return [*title, *link, prose(figure.alt), ""]


def shows(name: str) -> bool:
    """Whether this is the name of a picture that a page may show: a file beside it, and no address."""
    return _FILE_NAME.fullmatch(name) is not None


# ----------------------------------------------------------------------------------------------- text made harmless


def one_line(text: str) -> str:
    r"""A name or value of the owner as plain text in Markdown: it breaks no table and starts no markup.

    >>> print(one_line("a|b"), one_line("</td><b>"), one_line("[x](javascript:y)"), one_line("patient_age"))
    a\|b &lt;/td&gt;&lt;b&gt; \[x\](javascript:y) patient_age
    """
    plain = _MARKS.sub(r"\\\g<0>", shown(" ".join(text.split())))
    return re.sub("[&<>]", lambda match: _TAGS[match[0]], plain)


def code(text: str) -> str:
    """A short value in the type of code; as plain text if it holds what would end the code or the cell."""
    flat = shown(" ".join(text.split()))
    return f"`{flat}`" if flat and not set(flat) & set("`|<&") else one_line(text)


def prose(text: str) -> str:
    """A sentence of the library's own, which may hold code: no other markup, whoever wrote the card."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a mark without its fellow
        parts = [text]
    plain = "".join(one_line(f".{part}.")[1:-1] if i % 2 == 0 else code(part) for i, part in enumerate(parts))
    return re.sub(r"^[#+=-]", r"\\\g<0>", plain)  # which would begin a heading or a list


def _value(value: Value) -> str:
    return in_words(value, one_line, _inline)


def _inline(value: Inline) -> str:
    if isinstance(value, Text):
        return prose(value.text)
    return code(value.text) if isinstance(value, Verbatim) else one_line(value.text)
