"""What one pass over a column has seen, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from adumbra.declare.spelling import blank, key, numbers, texts
from adumbra.tables.drafting.distinct import Distinct
from adumbra.tables.drafting.item_look import ItemLook, ShapeLook
from adumbra.tables.drafting.moment_look import MomentLook
from adumbra.tables.drafting.number_look import NumberLook

__all__ = ["MOST_VALUES", "Look"]

MOST_VALUES = 1000
_MOST_WORDS = 3
_FEW_VALUES = 10


@dataclass(repr=False, eq=False)
class Look:
    """One column: its values as long as they are at most `MOST_VALUES`, then only those that many cells hold."""

    room: int
    kind: pl.DataType | None = None
    """The type its cells came in."""
    seen: Counter[str] = field(default_factory=Counter)
    many: bool = False
    rows: int = 0
    blank: int = 0
    number: NumberLook = field(default_factory=NumberLook)
    moment: MomentLook = field(default_factory=MomentLook)
    shape: ShapeLook = field(default_factory=ShapeLook)
    items: ItemLook = field(default_factory=ItemLook)
    words: Counter[str] = field(default_factory=Counter)
    """Texts without a digit, as long as there are few: what a column of numbers or dates may hold besides."""
    padded: bool = False
    """Whether some text has digits that begin with 0, such as 00501."""
    numeric: bool = True
    """Whether all other texts are numbers."""
    distinct: Distinct = field(init=False)

    def __post_init__(self) -> None:
        self.distinct = Distinct(self.room)

    def add(self, series: pl.Series) -> None:
        """Take in one batch."""
        self.kind = series.dtype
        filled = series.filter(~pl.Series(blank(series)))
        self.rows += len(series)
        self.blank += len(series) - len(filled)
        if not len(filled):
            return
        native = filled.dtype
        if native.is_numeric():
            self._add_numbers(filled)
        elif native.is_temporal():
            self._add_values(texts(filled) if native != pl.Duration else filled.cast(pl.Int64).cast(pl.String))
            self.moment.add(filled.unique())
        elif native == pl.Boolean:
            self._add_values(filled.cast(pl.String))
        else:
            self._add_texts(filled, texts(filled))

    def _add_numbers(self, filled: pl.Series) -> None:
        found = pl.Series(numbers(filled, words=False), nan_to_null=True)
        self._add_values(found)
        if found.null_count() or not found.is_finite().all():
            self.numeric = False
        elif self.numeric:
            self.number.add(found.to_numpy(), short=filled.dtype == pl.Float32)

    def _add_texts(self, filled: pl.Series, text: pl.Series) -> None:
        counts = self._add_values(text)
        values, times = counts.to_series(0), counts.to_series(1)
        worded = ~values.str.contains(r"\d")
        for word, number in counts.filter(worded).head(_MOST_WORDS + 1).iter_rows():
            if len(self.words) <= _MOST_WORDS:
                self.words[word] += number
        if len(self.words) > _MOST_WORDS:
            self.numeric, self.moment.open = False, {}
        if self.numeric:
            self.padded = self.padded or bool(values.str.contains(r"^0\d").any())
            self._add_read_numbers(filled, text)
        self.moment.add(values.filter(~worded))
        self.shape.add(values, times)
        if not self.numeric and not self.moment.open:
            self.items.add(values, times)

    def _add_read_numbers(self, filled: pl.Series, text: pl.Series) -> None:
        digits = np.asarray(text.str.contains(r"\d"))
        found = numbers(filled, words=False)[digits]
        if np.isfinite(found).all():
            self.number.add(found)
        else:
            self.numeric = False

    def _add_values(self, cells: pl.Series) -> pl.DataFrame:
        counts = cells.rename("cell").value_counts(name="times")
        values, times = counts.to_series(0), counts.to_series(1)
        self.distinct.add(values, times)
        kept = counts
        if self.many or len(counts) > MOST_VALUES:
            self._forget()
            kept = counts.filter(times > max(1, len(cells) // 100))
        for cell, number in kept.iter_rows():
            whole = isinstance(cell, float) and cell.is_integer()
            self.seen[str(int(cell) if whole else cell)] += number
        if not self.many and len(self.seen) > MOST_VALUES:
            self._forget()
        return counts

    def _forget(self) -> None:
        """Of many values, only those that many cells hold are kept."""
        self.many = True
        if len(self.seen) > MOST_VALUES // 4:
            least = max(1, self.full // 200)
            self.seen = Counter({cell: times for cell, times in self.seen.items() if times > least})

    @property
    def full(self) -> int:
        """Cells that hold something."""
        return self.rows - self.blank

    @property
    def different(self) -> int:
        """How many different values there are; an estimate if `Distinct` could not count them all."""
        return self.distinct.number if self.many else len(self.seen)

    @property
    def own(self) -> bool:
        """Whether every cell that is there is known to have a value of its own."""
        counted = self.numbers and self.number.whole and self.number.counts_up and self.full == self.number.cells
        return counted or (self.distinct.exact and not self.distinct.repeat)

    @property
    def few(self) -> bool:
        """Whether the values are few enough to be codes."""
        return not self.many and self.different <= _FEW_VALUES

    @property
    def numbers(self) -> bool:
        """Whether it is a column of numbers, but for a few words beside them."""
        if not self.numeric or not self.number.cells or (self.kind is not None and self.kind.is_temporal()):
            return False
        if self.padded and self.shape.one and not self.number.clock:
            return False  # of one length: written so on purpose
        if not self.words:
            return True
        return self.number.cells >= 0.005 * self.full and len(self.sizes()) >= 2 * len(self.words)

    @property
    def moments(self) -> list[tuple[str, str]]:
        """Forms of dates and times that all cells have, but for a few words beside them."""
        if not self.moment.open or (self.words and self.words.total() > 0.95 * self.full):
            return []
        return list(self.moment.open)

    def sizes(self) -> Counter[float]:
        """The numbers among the values, each with how many cells hold it."""
        found: Counter[float] = Counter()
        for text, times in self.seen.items():
            size = key(text)
            if isinstance(size, float):
                found[size] += times
        return found
