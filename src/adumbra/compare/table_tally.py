"""What one pass over a table keeps of it: counts, sums and a bounded number of rows (owner's side: all is private).

Both tables are read the same way, through `tables.encode`. A cell that is empty (missing, or nothing that its column
can read) is counted as such, and is in no mean, standard deviation or correlation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.compare.compared_cells import CellCodes
from adumbra.compare.table_layout import CellLayout, public_order
from adumbra.declare.space import GRID
from adumbra.tables.encode import Repairs
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = ["Tally", "read_tally"]

_ROUNDING = 1e-12
"""A variance below this share of the mean square is 0, and what is left of it the last digits of a difference."""


class _ColumnSums:
    """Number, sum and sum of squares of what each column adds up, over the cells that are there.

    Sums are counted from the first cell: exact for whole steps of two million rows and more (2^53 / 2^32), and a
    column that hardly moves loses no digits to its own mean.
    """

    def __init__(self, columns: int) -> None:
        self.there = np.zeros(columns, dtype=np.int64)
        self.sums, self.squares, self.origin = np.zeros(columns), np.zeros(columns), np.zeros(columns)

    def add(self, index: int, added: Reals) -> None:
        """Cells of one column that are there."""
        if len(added) == 0:
            return
        if self.there[index] == 0:
            self.origin[index] = added[0]
        moved = added - self.origin[index]
        self.there[index] += len(added)
        self.sums[index] += moved.sum()
        self.squares[index] += moved @ moved


class _PairSums:
    """Sums of products of the chosen coordinates over the rows in which both cells are there.

    A coordinate counts from its first cell that is there, and is 0 where its cell is empty. What empty cells of the
    other column take away is summed up apart, for the columns that have any.
    """

    def __init__(self, layout: CellLayout) -> None:
        self._layout = layout
        width, columns = len(layout.coordinates), len(layout.columns)
        self._origin = np.full(width, np.nan)
        self._rows = 0
        self._sums, self._products = np.zeros(width), np.zeros((width, width))
        self._lost_sums, self._lost_squares = np.zeros((width, columns)), np.zeros((width, columns))
        self._lost = np.zeros((columns, columns))

    def add(self, values: Reals, absent: NDArray[np.bool_]) -> None:
        """One batch, and which of its cells are empty."""
        layout = self._layout
        part = values[:, layout.coordinates]
        gone = np.flatnonzero(absent.any(axis=0))
        new = np.isnan(self._origin)
        if new.any():
            first = (~absent).argmax(axis=0)[layout.column_of]
            there = ~np.asarray(absent.all(axis=0))[layout.column_of]
            found = part[first, np.arange(len(first))]
            self._origin = np.where(new & there, found, self._origin)
        part = part - np.nan_to_num(self._origin)
        if len(gone):
            part[absent[:, layout.column_of]] = 0.0
            lost = absent[:, gone].astype(np.float64)
            self._lost_sums[:, gone] += part.T @ lost
            self._lost_squares[:, gone] += (part * part).T @ lost
            self._lost[np.ix_(gone, gone)] += lost.T @ lost
        self._rows += len(part)
        self._sums += part.sum(axis=0)
        self._products += part.T @ part

    def correlations(self) -> Reals:
        """Of every two coordinates, 0 where one is constant in the rows that have both."""
        column = self._layout.column_of
        empty = np.diag(self._lost)[column]
        rows = self._rows - empty[:, None] - empty[None, :] + self._lost[np.ix_(column, column)]
        rows = np.maximum(rows, 1.0)
        mean = (self._sums[:, None] - self._lost_sums[:, column]) / rows
        square = (np.diag(self._products)[:, None] - self._lost_squares[:, column]) / rows
        variance = square - mean**2
        variance[variance <= _ROUNDING * square] = np.inf
        covariance = self._products / rows - mean * mean.T
        return np.asarray(np.clip(covariance / np.sqrt(variance) / np.sqrt(variance.T), -1.0, 1.0))


@dataclass
class Tally:
    """What is kept of one table."""

    layout: CellLayout
    rows: int
    kept: NDArray[np.float32]
    """A fixed public choice of rows, in encoded units (exact in 32 bits), for training and testing."""
    counts: list[CellCodes] = field(init=False)
    pair_counts: list[CellCodes] = field(init=False)
    repairs: dict[str, Repairs] = field(init=False)

    def __post_init__(self) -> None:
        layout = self.layout
        self.counts = [np.zeros(cells.count, dtype=np.int64) for cells in layout.cells]
        self.pair_counts = [
            np.zeros(layout.pair_cells[a].count * layout.pair_cells[b].count, dtype=np.int64) for a, b in layout.pairs
        ]
        self.repairs = {name: Repairs() for name in layout.names}
        self._moments, self._products = _ColumnSums(len(layout.columns)), _PairSums(layout)

    def add(self, values: Reals) -> None:
        """Count one batch of encoded rows; one without rows changes nothing."""
        if len(values) == 0:
            return
        layout = self.layout
        absent = np.zeros((len(values), len(layout.columns)), dtype=np.bool_)
        joint = []
        for index, (cells, pair_cells) in enumerate(zip(layout.cells, layout.pair_cells, strict=True)):
            block = values[:, layout.block(index)]
            codes = cells.of(block)
            absent[:, index] = codes == cells.count - 1
            self.counts[index] += cells.counts(block, codes)
            joint.append(pair_cells.of(block))
            if layout.numbers[index].known:
                there = block[~absent[:, index], 0]
                self._moments.add(index, layout.numbers[index].added(there))
        for (a, b), found in zip(layout.pairs, self.pair_counts, strict=True):
            found += np.bincount(joint[a] * layout.pair_cells[b].count + joint[b], minlength=len(found))
        self._products.add(values, absent)

    def missing(self, index: int) -> int:
        """Empty cells of a column."""
        return int(self.counts[index][-1])

    def centre(self, index: int) -> tuple[float, float] | None:
        """Mean and standard deviation (divided by the number of cells) of the cells that are there.

        In the column's own units; None where none are there, or cells have no mean.
        """
        found, numbers = self._moments, self.layout.numbers[index]
        if not found.there[index]:
            return None
        count = found.there[index]
        mean = found.sums[index] / count
        deviation = np.sqrt(max(found.squares[index] / count - mean**2, 0.0))
        return numbers.mean(float(found.origin[index] + mean)), numbers.deviation(float(deviation))

    def constant(self, index: int) -> bool:
        """Whether a number never leaves its first cell: exact."""
        return bool(self._moments.squares[index] == 0)

    def correlations(self) -> Reals:
        """Correlations of the chosen coordinates in encoded units, 0 where one is constant."""
        return self._products.correlations()


def read_tally(table: Table, layout: CellLayout, keep: int) -> Tally:
    """Read a table once. `keep` rows (or all, if fewer) are kept, chosen by their number in the table alone.

    `layout` says what is counted.
    """
    rows = table.count()
    chosen = np.sort(public_order(rows, "rows")[:keep]) if keep < rows else np.arange(rows)
    tally = Tally(layout, rows, np.empty((len(chosen), layout.space.width), dtype=np.float32))
    start = done = 0
    source = RowSource(layout.schema, table)
    for values in source.partitions():
        tally.add(values)
        stop = start + len(values)
        inside = chosen[done : np.searchsorted(chosen, stop)] - start
        tally.kept[done : done + len(inside)] = values[inside] / GRID
        start, done = stop, done + len(inside)
    tally.repairs.update(source.notes.repairs)
    return tally
