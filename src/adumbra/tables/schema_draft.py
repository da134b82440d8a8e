"""A first schema file for a table, for its owner to finish.

Names and likely kinds are written out. Everything that could only be known by looking at the rows (ranges,
categories, fallbacks, which column is a yes/no flag) is a commented suggestion. Such a draft does not load:
the owner confirms each suggestion from public knowledge by deleting its "# ", or writes a better one. So
nothing read from private rows gets into a release unseen.

Lines that begin with "## " are remarks; lines that begin with "# " are suggestions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

import polars as pl

from adumbra.common.errors import InputError
from adumbra.declare.column import Column, Value, heading, toml_text, writable
from adumbra.declare.spelling import answer, blank, key, numbers, texts
from adumbra.tables.table import Table

__all__ = ["draft_schema"]

MOST_VALUES = 1000
_FEW_VALUES = 10
_ID_NAME = re.compile(r"(^|[_ .-])(id|uuid|guid|ssn|index|row|key)$", re.IGNORECASE)

_HEAD = """\
## Draft: this file does not load before you have finished it.
##
## Lines that begin with a single # are suggestions. They were READ FROM THE PRIVATE ROWS, and everything in
## a schema is published. Confirm each from public knowledge (a code book, a form, physics) by deleting its
## "# ", or write a better value. Do not keep a bound only because the rows happen to reach it.
##
## kind = "number" needs low and high; kind = "category" needs values; kind = "flag" is yes or no.
## missing = VALUE says where missing or unreadable cells go; without it they count as no value.
## role = "label" marks what an analyst will predict; role = "drop" leaves a column out.

[table]
unit = "row"
"""


@dataclass
class _Look:
    """What one pass over a column has seen; never more than `MOST_VALUES` different values."""

    seen: Counter[str] = field(default_factory=Counter)
    many: bool = False
    rows: int = 0
    blank: int = 0
    number: bool = True
    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    counts_up: bool = True
    last: float = math.nan

    def add(self, series: pl.Series) -> None:
        """Take in one batch."""
        filled = series.filter(~pl.Series(blank(series)))
        cells = filled.cast(pl.Float64) if filled.dtype.is_numeric() else texts(filled)
        self.rows += len(series)
        self.blank += len(series) - len(cells)
        if not self.many:
            self._add_values(cells.rename("cell"))
        if self.number and len(cells):
            self._add_numbers(pl.Series(numbers(filled, words=False), nan_to_null=True))

    def _add_values(self, cells: pl.Series) -> None:
        if cells.n_unique() > MOST_VALUES:
            self.many = True
            return
        for cell, times in cells.value_counts().iter_rows():
            whole = isinstance(cell, float) and cell.is_integer()
            self.seen[str(int(cell) if whole else cell)] += times
        self.many = len(self.seen) > MOST_VALUES

    def _add_numbers(self, numbers: pl.Series) -> None:
        if numbers.null_count() or not numbers.is_finite().all():
            self.number = False
            return
        self.whole = self.whole and bool((numbers == numbers.round()).all())
        self.low = min(self.low, float(numbers.min()))  # type: ignore[arg-type] # never empty here
        self.high = max(self.high, float(numbers.max()))  # type: ignore[arg-type] # never empty here
        self.total += float(numbers.sum())
        steps = numbers.diff().drop_nulls()
        follows = math.isnan(self.last) or numbers[0] == self.last + 1
        self.counts_up = self.counts_up and follows and bool((steps == 1).all())
        self.last = float(numbers[-1])

    @property
    def full(self) -> int:
        """Cells that hold something."""
        return self.rows - self.blank

    @property
    def own(self) -> bool:
        """Whether every row is known to have a value of its own."""
        counted = self.number and self.whole and self.counts_up
        return counted or (not self.many and len(self.seen) == self.full)

    @property
    def few(self) -> bool:
        """Whether the values are few enough to be codes."""
        return not self.many and len(self.seen) <= _FEW_VALUES


def draft_schema(table: Table) -> str:
    """Text of a schema file with names and kinds; the rest as commented suggestions.

    Guarantee: `Schema.parse` refuses the text as it stands. Deleting every leading "# " gives a file that
    loads, if any column is worth releasing. The text is private until its owner has confirmed it.
    """
    names = [name for name in table.columns if table.types[name] != "other"]
    looks = {name: _Look() for name in names}
    rows = table.count()
    for batch in table.batches(names) if names else ():
        for name in names:
            looks[name].add(batch.get_column(name))
    parts = [_HEAD + f"# name = {toml_text(table.name)}\n# rows = {rows}\n"]
    for name in table.columns:
        lines = _column(name, looks[name], table.types[name]) if name in looks else _unreadable()
        parts.append("\n".join([heading(name), *lines]) + "\n")
    return "\n".join(parts)


def _unreadable() -> list[str]:
    return ["## lists, records or raw bytes: convert it, or leave it out", '# role = "drop"']


def _column(name: str, look: _Look, cell_type: str) -> list[str]:
    if not writable(name):
        return ["## no file can hold this name: give the column another, or leave it out", '# role = "drop"']
    if look.full == 0:
        return ["## no cell holds anything", '# role = "drop"']
    if cell_type == "boolean" or {answer(value) for value in look.seen} == {False, True}:
        return ["## two values that read as yes and no", '# kind = "flag"', *_fallback(look, flag=True)]
    if look.number:
        return _number(name, look)
    return _category(name, look)


def _number(name: str, look: _Look) -> list[str]:
    named = _ID_NAME.search(name) and (look.own or not look.few)
    if look.rows > 1 and look.whole and (look.counts_up or named):
        return ['kind = "number"', *_identifier(look), '# role = "drop"']
    low, high = _outward(look.low, look.high)
    whole = look.whole and max(-low, high) <= 2**53
    if whole:
        low, high = math.floor(low), math.ceil(high)
    try:
        Column(name, "number", low=low, high=high, integer=whole)
    except InputError:
        return ['kind = "number"', "## numbers too large or too close for one grid", '# role = "drop"']
    lines = ['kind = "number"', *(["integer = true"] if whole else [])]
    if whole and look.few:
        lines.append('## few whole numbers: if they are codes, write kind = "category" and values = [...]')
    lines += [f"# low = {toml_text(low)}", f"# high = {toml_text(high)}"]
    if look.blank:
        mean = look.total / look.full
        middle = min(max(mean if math.isfinite(mean) else low, low), high)
        lines.append(f"# missing = {toml_text(round(middle) if whole else _short(middle, low, high))}")
    return lines


def _category(name: str, look: _Look) -> list[str]:
    for text in [text for text in look.seen if not writable(text)]:  # cannot be declared: such a cell is unknown
        look.blank += look.seen.pop(text)
    if not look.seen and not look.many:
        return ["## no value that a file can hold", '# role = "drop"']
    unique = look.full >= 20 and len(look.seen) > 0.9 * look.full
    if look.many or unique or (_ID_NAME.search(name) and len(look.seen) == look.full > 1):
        return ['kind = "category"', *_identifier(look), '# role = "drop"']
    remarks = _identifier(look) if _ID_NAME.search(name) and not look.few else []
    spellings: dict[str | float, str] = {}  # a value may be written in several ways, of which the commonest is declared
    for text, _ in sorted(look.seen.items(), key=lambda seen: (-seen[1], seen[0])):
        spellings.setdefault(key(text), text)
    values: list[Value] = sorted(spellings.values())
    return ['kind = "category"', *remarks, f"# values = {toml_text(values)}", *_fallback(look, flag=False)]


def _identifier(look: _Look) -> list[str]:
    """What a column that looks like an identifier may mean; of many values it is not known whether they repeat."""
    if look.own:
        return ["## every row has its own value: an identifier or free text tells who the row is"]
    if look.many:
        seen, verb = f"more than {MOST_VALUES} values, which may repeat", "may have"
    else:
        seen, verb = "values that look like an identifier, and repeat", "has"
    return [
        f"## {seen}: an identifier or free text tells who the row is. If it names",
        f'## people, one person {verb} several rows, and unit = "row" protects one of them (docs/pitfalls.md)',
    ]


def _fallback(look: _Look, *, flag: bool) -> list[str]:
    if not look.blank:
        return []
    common = max(sorted(look.seen), key=lambda value: look.seen[value])
    return [f"# missing = {toml_text(bool(answer(common)) if flag else common)}"]


def _outward(low: float, high: float) -> tuple[float, float]:
    """Round a seen range outward, to two digits of its width, so that it does not quote the extreme rows."""
    if not low < high:
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    width = high - low
    if not 1e-280 < width < 1e299 or width < 1e-9 * max(-low, high):
        return low, high  # no schema would take it, or only just
    exponent = math.floor(math.log10(width)) - 1
    # Powers of ten below 1 are not exact in binary: divide by the whole power instead.
    if exponent >= 0:
        unit = 10**exponent
        return float(math.floor(low / unit) * unit), float(math.ceil(high / unit) * unit)
    parts = 10.0**-exponent
    return math.floor(low * parts) / parts, math.ceil(high * parts) / parts


def _short(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.4g}"), low), high)
