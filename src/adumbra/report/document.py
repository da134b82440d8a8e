"""A document: sections of text, facts, tables, figures and notes. Built where the facts are, rendered elsewhere.

A document holds values, not layout: a number stays a number until a renderer writes it, and names that came from an
owner's table stay as they were until a renderer makes them harmless. Nothing in it is read back by code; what code
needs is `Document.data`, which the JSON renderer writes as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = [
    "PRIVATE",
    "Document",
    "Facts",
    "Figure",
    "Gauge",
    "Inline",
    "Link",
    "Mark",
    "Note",
    "Part",
    "Section",
    "Table",
    "Text",
    "Tone",
    "Value",
    "Verbatim",
    "in_words",
]

PRIVATE = "Private: made from the truth, for its owner alone. Do not publish it."
"""What every renderer says of a private document, first."""

Tone = Literal["plain", "bad"]


@dataclass(frozen=True)
class Text:
    """Words of the library's own, as a paragraph or in a cell; `code` in backticks is the only markup."""

    text: str


@dataclass(frozen=True)
class Verbatim:
    """What is read letter by letter: a hash in a cell, or a command in a block of its own."""

    text: str


@dataclass(frozen=True)
class Mark:
    """A word that stands out in a cell: a verdict."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Gauge:
    """A share in a cell, drawn where that is possible: 1 is full, and more than that sticks out."""

    text: str
    share: float
    tone: Tone = "plain"


@dataclass(frozen=True)
class Link:
    """A name in a cell that leads to the figure of the name `to` in the same document."""

    text: str
    to: str


Inline = Text | Verbatim | Mark | Gauge | Link
Value = str | int | float | bool | None | Inline | Sequence["Value"] | Mapping[str, "Value"]
"""What a cell of a table or a fact may hold. None is "no bound" or "not known": the builder says which in words."""


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be overlooked."""

    text: str
    weight: Literal["note", "caution", "private"] = "note"
    """`private`: for the owner's eyes; renderers mark it so that it cannot be mistaken for part of a release."""
    lead: str = ""
    """The words that come first, in strong type."""


@dataclass(frozen=True)
class Facts:
    """Pairs of a label and a value, in order."""

    rows: tuple[tuple[str | Text, Value], ...]
    heads: tuple[str, str] | None = ("what", "value")
    """Over the two columns, on a terminal; None for none."""


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    """A remark on each row, "" for none; or no remarks at all."""
    long: str = ""
    """The column whose cells take several lines where there is little room; "" for all but the first."""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Value]], caption: str = "") -> Table:
        """From `rows` with the same keys, under a `caption`.

        >>> Table.of([{"column": "age", "error": 0.1}]).columns
        ('column', 'error')
        """
        columns = tuple(rows[0]) if rows else ()
        return cls(columns, tuple(tuple(row[name] for name in columns) for row in rows), caption)


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture: SVG, drawn when a renderer asks for it, and what it shows in words."""

    name: str
    """A file name without its ending: letters, digits, hyphens and underscores."""
    draw: Callable[[], str | tuple[str, ...]]
    """One SVG, or several that stand beside each other where there is room."""
    alt: str
    """What it shows, for those who cannot see it; stands below the picture too."""
    title: str = ""
    mark: Mark | None = None
    """A verdict before the title."""
    legend: tuple[tuple[str, str], ...] = ()
    """A small SVG and what it means, for each kind of line or area."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; sections may hold sections."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False
    """Background that few need: a page unfolds it on demand, a terminal leaves it out."""


Part = Text | Verbatim | Note | Facts | Table | Figure | Section


@dataclass(frozen=True)
class Document:
    """Everything there is to show about one thing."""

    title: str
    """Left out on a terminal where a section begins the document: its own title is enough there."""
    parts: tuple[Part, ...]
    data: Any = field(default_factory=dict)
    """The same facts for machines: what `--json` prints."""
    private: bool = False
    """Whether it was made from the truth: for the owner alone."""

    def with_section(self, section: Section, data: Mapping[str, Any] | None = None) -> Document:
        """The same document with one `section` more at its end, and its `data` for machines beside the others.

        >>> more = Section("Weather", (Text("It rains."),))
        >>> Document("Report", (), {"rows": 3}).with_section(more, {"rain": True}).data
        {'rows': 3, 'rain': True}
        """
        return replace(self, parts=(*self.parts, section), data=self.data if data is None else {**self.data, **data})


def in_words(
    value: Value, plain: Callable[[str], str], inline: Callable[[Inline], str], *, between: str = "; ", digits: int = 6
) -> str:
    """A value as text, the same for every renderer but for what is passed in.

    `plain` makes a string harmless, `inline` writes text, code, marks, gauges and links; `between` stands between the
    items of a list; numbers that are not whole have so many `digits`. None is "-", true and false are "yes" and "no".
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
    if isinstance(value, Inline):
        return inline(value)
    if isinstance(value, Mapping):
        return ", ".join(
            f"{plain(str(key))} {in_words(item, plain, inline, between=between, digits=digits)}"
            for key, item in value.items()
        )
    return between.join(in_words(item, plain, inline, between=between, digits=digits) for item in value)
