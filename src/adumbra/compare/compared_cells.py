"""How one column is compared: cut into cells, and as numbers that have a mean. All of it follows from the schema alone.

A column is cut into one cell for each value, level or bin, and a last one for what is empty. The cells of a set are its
items, of which a row may be in several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.declare.cell_kinds.calendar import CalendarKind, Duration
from adumbra.declare.cell_kinds.category import Ordinal
from adumbra.declare.cell_kinds.cell_kind import level_at
from adumbra.declare.column import Column
from adumbra.declare.space import GRID, HALF

__all__ = ["EMPTY", "MAX_LEVELS", "CellCodes", "ColumnCells", "ColumnNumbers", "is_set", "single_values"]

EMPTY = "(empty)"
MAX_LEVELS = 20

CellCodes = NDArray[np.int64]


def is_set(column: Column) -> bool:
    """Whether a cell of the column may hold several values."""
    primitive: str = column.cells.block
    return primitive == "set"


def single_values(column: Column) -> int | None:
    """How many values a column can take, if they are counted one by one: declared ones, or few equal steps.

    >>> single_values(Column("visits", "number", low=0, high=9, integer=True))
    10
    """
    cells = column.cells
    if cells.block == "number":
        levels = cells.levels
        few = levels is not None and (levels <= MAX_LEVELS or isinstance(cells, Ordinal))
        return levels if few else None
    return 2 if cells.block == "flag" else cells.width


@dataclass(frozen=True)
class ColumnCells:
    """Cells of one column. The last one is for the empty.

    `bins` are of equal width along the range (of equal ratio on a logarithmic scale), and of whole levels where the
    column has any. Neighbours share a cell where there are more than `most_values`. With `spiked`, every declared
    spike has a cell of its own beside the bins.
    """

    column: Column
    bins: int
    most_values: int | None = None
    spiked: bool = False

    @cached_property
    def values(self) -> int | None:
        """Cells of single values, or of as many neighbours; None where there are bins. Of a set: its items."""
        single = single_values(self.column)
        return single if single is None or self.most_values is None else min(single, self.most_values)

    @cached_property
    def _spikes(self) -> CellCodes:
        chosen = self.column.cells.spikes if self.spiked and self.values is None else ()
        return np.array(chosen, dtype=np.int64)

    @cached_property
    def count(self) -> int:
        """How many there are, with the last."""
        return (self.bins + len(self._spikes) if self.values is None else self.values) + 1

    def of(self, block: Reals) -> CellCodes:
        """The cell of each row, from the column's encoded coordinates; a set is where its first item is."""
        cells, last = self.column.cells, self.count - 1
        if cells.block not in ("number", "flag"):
            return np.where(block.max(axis=1) <= 0, last, self._shared(block.argmax(axis=1), cells.width))
        first = block[:, 0]
        if cells.block == "flag":
            found = (first > 0).astype(np.int64)
        elif cells.levels is not None:
            found = self._shared(level_at(first, cells.levels), cells.levels)
        else:
            found = np.minimum((first + HALF) * self.bins // GRID, self.bins - 1).astype(np.int64)
        if len(self._spikes):
            place = np.minimum(np.searchsorted(self._spikes, first), len(self._spikes) - 1)
            found = np.where(self._spikes[place] == first, self.bins + place, found)
        return np.where(first == 0, last, found)

    def of_places(self, places: CellCodes) -> CellCodes:
        """The cell of each row of a category, from the places of its values; one behind the last is empty."""
        width = self.column.cells.width
        return np.where(places >= width, self.count - 1, self._shared(places, width))

    def _shared(self, place: CellCodes, places: int) -> CellCodes:
        """Cells of neighbours, from one place for each value."""
        return place * (self.bins if self.values is None else self.values) // places

    def counts(self, block: Reals, codes: CellCodes) -> CellCodes:
        """Rows in each cell, of which `codes` are the cells by `of`; those of a set count for each item."""
        if not is_set(self.column):
            return np.bincount(codes, minlength=self.count)
        return np.append(np.count_nonzero(block > 0, axis=0), np.count_nonzero(codes == self.count - 1))

    def names(self) -> list[str]:
        """What each cell is called, in the column's own terms."""
        column, cells = self.column, self.column.cells
        if column.values:
            return [*map(str, column.values), EMPTY]
        if cells.block == "flag":
            return ["no", "yes", EMPTY]
        numbers = ColumnNumbers(column)
        if self.values is not None:
            return [*(_text(numbers.level(k)) for k in range(self.values)), EMPTY]
        if cells.levels is not None:  # bins of whole levels: from the first to the last of them
            firsts = [-(-b * cells.levels // self.bins) for b in range(self.bins + 1)]
            ends = [(numbers.level(a), numbers.level(b - 1)) for a, b in pairwise(firsts)]
        else:
            ends = list(pairwise(numbers.edges(self.bins)))
        return [*(f"{_text(a)} to {_text(b)}" for a, b in ends), *self._spike_names(), EMPTY]

    def _spike_names(self) -> list[str]:
        declared = {int(self.column.cells.read(pl.Series([s])).values[0, 0]): _text(s) for s in self.column.spikes}
        return [declared[int(place)] for place in self._spikes]


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.10g}"


@dataclass(frozen=True)
class ColumnNumbers:
    """A column whose cells have a mean, as the numbers that are added up and as they are told.

    What is added up are levels or grid steps, which are whole, so that sums are exact; on a logarithmic scale it is
    the numbers themselves, since a mean of logarithms is not the logarithm of a mean.
    """

    column: Column

    @cached_property
    def known(self) -> bool:
        """Whether cells have a mean."""
        return self.column.cells.range is not None

    @cached_property
    def _ends(self) -> tuple[float, float]:
        ends = self.column.cells.range
        assert ends is not None
        return ends

    def added(self, first: Reals) -> Reals:
        """What is added up for each row, from its encoded coordinate."""
        cells = self.column.cells
        if not cells.linear:
            return np.asarray(cells.write(first).cast(pl.Float64).to_numpy())
        if cells.levels is not None:
            return level_at(first, cells.levels).astype(np.float64)
        return first

    def mean(self, added: float) -> float:
        """The mean in the units of the column, from that of what was added up."""
        low, high = self._ends
        if not self.column.cells.linear:
            return added
        return (
            low + self._steps * added
            if self.column.cells.levels is not None
            else (low + high) / 2 + self._steps * added
        )

    def deviation(self, added: float) -> float:
        """The standard deviation in the units of the column."""
        return self._steps * added

    @cached_property
    def _steps(self) -> float:
        """Units of the column in one of what is added up."""
        cells, (low, high) = self.column.cells, self._ends
        if not cells.linear:
            return 1.0
        return (high - low) / (GRID if cells.levels is None else cells.levels - 1)

    def level(self, place: int) -> float | str:
        """A level, told."""
        return self.told(self.mean(place))

    def edges(self, bins: int) -> list[float | str]:
        """Ends of equal bins, told."""
        low, high = self._ends
        if self.column.cells.linear:
            return [self.told(low + (high - low) * i / bins) for i in range(bins + 1)]
        codes = np.linspace(-HALF, HALF, bins + 1)
        return [float(f"{value:.4g}") for value in self.column.cells.write(codes)]

    def told(self, value: float) -> float | str:
        """A mean for people: a date is one."""
        return self.column.cells.tell(value)

    def told_deviation(self, value: float) -> float | str:
        """A standard deviation for people: of dates and times, how long."""
        return Duration.spell(round(value)) if isinstance(self.column.cells, CalendarKind) else value
