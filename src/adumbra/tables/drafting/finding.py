"""What a draft will say of one column."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from adumbra.declare.column import Value, toml_text
from adumbra.tables.drafting.look import Look

__all__ = ["ColumnFinding", "empty_cells", "many_rows_remark", "question", "suggestion", "toml"]


@dataclass(repr=False, eq=False)
class ColumnFinding:
    """One column: its lines, and what the search for rules must know of it."""

    name: str
    look: Look
    lines: list[str]
    kind: str | None = None
    """The kind suggested; None if the suggestion is not to release the column, or to release fresh ids."""
    form: str | None = None
    """How moments are written: native, or a form of `moment_look`."""
    values: tuple[Value, ...] = ()
    """The values to be declared, in order."""
    blank_words: list[str] = field(default_factory=list)
    blank_numbers: list[float] = field(default_factory=list)
    low: float | None = None
    high: float | None = None
    """The suggested range of a number."""

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers that can be added and compared."""
        return self.kind == "number" or (self.kind == "ordinal" and not isinstance(self.values[0], str))

    @property
    def dated(self) -> bool:
        """Whether its cells are days or moments."""
        return self.kind in ("date", "datetime")


def toml(value: Any) -> str:
    """A value as TOML: as `toml_text` writes it, and moments without quotes."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return toml_text(value)


def suggestion(key: str, value: Any) -> str:
    """A line that the owner confirms by deleting its "# "."""
    return f"# {key} = {toml(value)}"


def question(text: str) -> str:
    """A remark that asks the owner."""
    return f"## question: {text}"


def empty_cells(look: Look, blanks: int = 0) -> list[str]:
    """A remark on how many cells hold nothing, `blanks` of them by a word, in round terms."""
    empty = look.blank + blanks
    if not empty:
        return []
    share = 100 * empty / look.rows
    if share < 1:
        return []
    said = f"about {share:.0f} %" if share <= 99 else "nearly all"
    return [f"## {said} of the cells are empty: they are kept as empty cells"]


def many_rows_remark(seen: str) -> list[str]:
    """What an identifier that repeats may mean for the unit of privacy."""
    return [
        f"## {seen}" + ("" if seen.endswith("?") else "."),
        "## An identifier or free text tells who the row is. If it names people, one person has",
        '## several rows, and unit = "row" protects one of them (docs/pitfalls.md)',
    ]
