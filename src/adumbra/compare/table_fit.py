"""How well released rows match the true ones, column by column and pair by pair (owner's side: all of it is private).

Both tables are read the same way: through `tables.encode`, in the schema's own terms. Numbers are clipped to the
declared range, missing and unknown cells go to the declared fallback. What is compared, and where the bins lie, follows
from the schema alone, never from a row. A table is read once, batch by batch; what is kept of it are counts, sums and
a bounded number of rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID, HALF
from adumbra.tables.encode import Repairs
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = [
    "EMPTY",
    "CellLayout",
    "ColumnFit",
    "CorrelationFit",
    "PairFit",
    "Share",
    "Tally",
    "TwoWayFit",
    "column_fits",
    "correlation_fit",
    "levels",
    "public_order",
    "read_tally",
    "two_way_fit",
]

EMPTY = "(empty)"
MAX_LEVELS = 20
_BINS, _PAIR_BINS = 10, 5
_MAX_PAIRS = 200
_MAX_PAIR_VALUES = 100
_MAX_COORDINATES = 2000
_WORST = 5

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """How much of each table falls in one cell: a value, a level or a bin."""

    value: str
    truth: float
    release: float


@dataclass(frozen=True)
class ColumnFit:
    """One column in both tables. Mean and sd are in the column's own units (flags: yes is 1), None for categories."""

    name: str
    kind: str
    total_variation: float
    truth_mean: float | None
    release_mean: float | None
    truth_sd: float | None
    release_sd: float | None
    repairs: Repairs
    """Cells of the truth that were missing, unknown or out of range."""
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class PairFit:
    """Two columns or coordinates: the value in each table (correlations), or their distance alone (two-way tables)."""

    a: str
    b: str
    error: float
    truth: float | None = None
    release: float | None = None


@dataclass(frozen=True)
class CorrelationFit:
    """Absolute differences of correlations over pairs of coordinates; a constant coordinate correlates 0."""

    mean: float
    max: float
    """Between two columns, as in `worst`: that values of one category exclude each other says little of a release."""
    pairs: int
    coordinates: int
    of_coordinates: int
    """All there are; more than `coordinates` where a fixed public sample was taken."""
    worst: tuple[PairFit, ...]


@dataclass(frozen=True)
class TwoWayFit:
    """Total variation of the joint tables of pairs of columns."""

    mean: float
    max: float
    pairs: int
    of_pairs: int
    """All there are; more than `pairs` where a fixed public sample was taken."""
    worst: tuple[PairFit, ...]


def public_order(count: int, purpose: str) -> Codes:
    """A fixed shuffle of 0 .. count - 1: the same for every table of this size, so it says nothing of its rows.

    >>> sorted(public_order(5, "doc").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(_public_words(count, f"{purpose} {count}"), kind="stable")


def _public_words(count: int, purpose: str) -> NDArray[np.uint64]:
    stream = hashlib.shake_256(b"adumbra evaluate\0" + purpose.encode()).digest(8 * count)
    return np.frombuffer(stream, dtype="<u8")


def levels(column: Column) -> int | None:
    """How many whole numbers an integer column can take, if they are few enough to count one by one."""
    if column.kind != "number" or not column.integer:
        return None
    count = int(cast(float, column.high)) - int(cast(float, column.low)) + 1
    return count if count <= MAX_LEVELS else None


@dataclass(frozen=True)
class _ColumnCells:
    """How one column is cut into cells. The last cell of a category or flag is for the empty."""

    column: Column
    bins: int
    most_values: int | None = None
    """Neighbouring values of a longer category share a cell."""

    @property
    def count(self) -> int:
        if self.column.kind == "number":
            return levels(self.column) or self.bins
        return self._values + 1

    @property
    def _values(self) -> int:
        declared = 2 if self.column.kind == "flag" else len(self.column.values)
        return declared if self.most_values is None else min(declared, self.most_values)

    def of(self, block: Reals) -> Codes:
        """The cell of each row, from the column's encoded coordinates."""
        first = block[:, 0]
        if self.column.kind == "flag":
            return np.where(first == 0, 2, first > 0).astype(np.int64)
        if self.column.kind == "category":
            code = block.argmax(axis=1) * self._values // len(self.column.values)
            return np.where(block.max(axis=1) == 0, self._values, code).astype(np.int64)
        count = levels(self.column)
        if count is not None:
            return np.rint((first / GRID + 0.5) * (count - 1)).astype(np.int64)
        return np.minimum((first + HALF) * self.bins // GRID, self.bins - 1).astype(np.int64)

    def names(self) -> list[str]:
        if self.column.kind == "flag":
            return ["no", "yes", EMPTY]
        if self.column.kind == "category":
            return [*map(str, self.column.values), EMPTY]
        low, high = cast(float, self.column.low), cast(float, self.column.high)
        count = levels(self.column)
        if count is not None:
            return [str(int(low) + i) for i in range(count)]
        edges = [low + (high - low) * i / self.bins for i in range(self.bins + 1)]
        return [f"{a:g} to {b:g}" for a, b in pairwise(edges)]


class CellLayout:
    """What is compared: cells, coordinates and pairs, all from the schema alone."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.space = schema.space()
        self.columns = schema.measured
        self.names = [column.name for column in self.columns]
        self.cells = [_ColumnCells(column, _BINS) for column in self.columns]
        self.pair_cells = [_ColumnCells(column, _PAIR_BINS, _MAX_PAIR_VALUES) for column in self.columns]
        self.pairs, self.all_pairs = _pairs(len(self.columns))
        width = self.space.width
        chosen = public_order(width, "coordinates")[:_MAX_COORDINATES] if width > _MAX_COORDINATES else np.arange(width)
        self.coordinates: Codes = np.sort(chosen)

    def block(self, index: int) -> slice:
        """Encoded coordinates of a column."""
        return slice(self.space.blocks[index].start, self.space.blocks[index].stop)

    def coordinate_names(self) -> list[str]:
        """`column`, or `column=value` for a category."""
        every = [
            name for column in self.columns for name in ([f"{column.name}={v}" for v in column.values] or [column.name])
        ]
        return [every[i] for i in self.coordinates]


def _pairs(columns: int) -> tuple[list[tuple[int, int]], int]:
    """All pairs of columns, or a fixed sample that depends on the number of columns only; and how many there are."""
    total = columns * (columns - 1) // 2
    chosen: Sequence[int] = range(total)
    if total > _MAX_PAIRS:
        words = (_public_words(20 * _MAX_PAIRS, f"pairs {columns}") % np.uint64(total)).tolist()
        chosen = sorted(list(dict.fromkeys(words))[:_MAX_PAIRS])
    found = []
    for rank in chosen:  # rank = b (b - 1) / 2 + a with a < b
        b = (1 + math.isqrt(1 + 8 * rank)) // 2
        found.append((rank - b * (b - 1) // 2, b))
    return found, total


@dataclass
class Tally:
    """What one pass keeps of a table.

    Sums are of whole grid steps, counted from the first row: exact for two million rows and more (2^53 / 2^32), and
    a column that hardly moves loses no digits to its own mean.
    """

    layout: CellLayout
    rows: int
    kept: NDArray[np.float32]
    """A fixed public choice of rows, in encoded units (exact in 32 bits), for training and testing."""
    counts: list[Codes] = field(init=False)
    pair_counts: list[Codes] = field(init=False)
    repairs: dict[str, Repairs] = field(init=False)

    def __post_init__(self) -> None:
        layout = self.layout
        self.counts = [np.zeros(cells.count, dtype=np.int64) for cells in layout.cells]
        self.pair_counts = [
            np.zeros(layout.pair_cells[a].count * layout.pair_cells[b].count, dtype=np.int64) for a, b in layout.pairs
        ]
        self.repairs = {name: Repairs() for name in layout.names}
        width = len(layout.coordinates)
        self._sums, self._squares = np.zeros(layout.space.width), np.zeros(layout.space.width)
        self._products = np.zeros((width, width))
        self._origin: Reals | None = None

    def add(self, values: Reals) -> None:
        """Count one batch of encoded rows; one without rows changes nothing."""
        if len(values) == 0:
            return
        layout = self.layout
        joint = []
        for index, (cells, pair_cells) in enumerate(zip(layout.cells, layout.pair_cells, strict=True)):
            block = values[:, layout.block(index)]
            self.counts[index] += np.bincount(cells.of(block), minlength=cells.count)
            joint.append(pair_cells.of(block))
        for (a, b), found in zip(layout.pairs, self.pair_counts, strict=True):
            found += np.bincount(joint[a] * layout.pair_cells[b].count + joint[b], minlength=len(found))
        if self._origin is None:
            self._origin = values[0].copy()
        moved = values - self._origin
        self._sums += moved.sum(axis=0)
        self._squares += np.einsum("ij,ij->j", moved, moved)
        part = moved[:, layout.coordinates]
        self._products += part.T @ part

    @cached_property
    def means(self) -> Reals:
        """Mean of each coordinate, in grid steps."""
        return np.asarray(self._sums / self.rows + (0.0 if self._origin is None else self._origin))

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Whether a coordinate is the same in every row: exact, since it then never leaves the first one."""
        return np.asarray(self._squares == 0)

    @cached_property
    def deviations(self) -> Reals:
        """Standard deviation of each coordinate, in grid steps (divided by the number of rows)."""
        variance = np.maximum(self._squares / self.rows - (self._sums / self.rows) ** 2, 0.0)
        return np.asarray(np.sqrt(variance))

    def correlations(self) -> Reals:
        """Correlations of the chosen coordinates, 0 where one is constant."""
        chosen = self.layout.coordinates
        mean = self._sums[chosen] / self.rows
        covariance = self._products / self.rows - np.outer(mean, mean)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        spread[spread == 0] = np.inf
        return np.asarray(np.clip(covariance / np.outer(spread, spread), -1.0, 1.0))


def read_tally(table: Table, layout: CellLayout, keep: int) -> Tally:
    """Read a table once. `keep` rows (or all, if fewer) are kept, chosen by their number in the table alone."""
    rows = table.count()
    chosen = np.sort(public_order(rows, "rows")[:keep]) if keep < rows else np.arange(rows)
    width = layout.space.width
    tally = Tally(layout, rows, np.empty((len(chosen), width), dtype=np.float32))
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


def column_fits(truth: Tally, release: Tally) -> tuple[ColumnFit, ...]:
    """Every column: total variation over its cells, mean and sd, the shares of the cells."""
    layout = truth.layout
    return tuple(
        ColumnFit(
            column.name,
            str(column.kind),
            _total_variation(truth.counts[index], release.counts[index]),
            *_centre(column, layout.space.blocks[index].start, truth, release),
            truth.repairs[column.name],
            _shares(layout.cells[index].names(), truth.counts[index], release.counts[index]),
        )
        for index, column in enumerate(layout.columns)
    )


def _total_variation(truth: Codes, release: Codes) -> float:
    return float(np.abs(truth / truth.sum() - release / release.sum()).sum() / 2)


def _centre(
    column: Column, start: int, *tallies: Tally
) -> tuple[float | None, float | None, float | None, float | None]:
    """Means of both tables, then standard deviations, in the column's own units."""
    if column.kind == "category":
        return None, None, None, None
    low, high = (0.0, 1.0) if column.kind == "flag" else (cast(float, column.low), cast(float, column.high))
    mean_a, mean_b = (float(low + (t.means[start] / GRID + 0.5) * (high - low)) for t in tallies)
    sd_a, sd_b = (float(t.deviations[start] / GRID * (high - low)) for t in tallies)
    return mean_a, mean_b, sd_a, sd_b


def _shares(names: list[str], truth: Codes, release: Codes) -> tuple[Share, ...]:
    a, b = truth / truth.sum(), release / release.sum()
    return tuple(
        Share(name, float(x), float(y))
        for name, x, y in zip(names, a, b, strict=True)
        if name != EMPTY or x > 0 or y > 0
    )


def correlation_fit(truth: Tally, release: Tally) -> CorrelationFit | None:
    """Differences of correlations over all pairs of coordinates; None where there is only one column."""
    layout = truth.layout
    count = len(layout.coordinates)
    columns = np.searchsorted([block.start for block in layout.space.blocks], layout.coordinates, side="right")
    if count < 2 or columns[0] == columns[-1]:
        return None
    a, b = truth.correlations(), release.correlations()
    upper = np.triu_indices(count, 1)
    error = np.abs(a - b)[upper]
    between = np.where(columns[upper[0]] != columns[upper[1]], error, -1.0)
    names = layout.coordinate_names()
    worst = tuple(
        PairFit(names[i], names[j], float(error[k]), float(a[i, j]), float(b[i, j]))
        for k in _largest(between)
        for i, j in [(int(upper[0][k]), int(upper[1][k]))]
        if between[k] >= 0
    )
    return CorrelationFit(float(error.mean()), float(between.max()), len(error), count, layout.space.width, worst)


def two_way_fit(truth: Tally, release: Tally) -> TwoWayFit | None:
    """Total variation of two-way tables over the layout's pairs; None where there is only one column."""
    layout = truth.layout
    if not layout.pairs:
        return None
    error = np.array([_total_variation(a, b) for a, b in zip(truth.pair_counts, release.pair_counts, strict=True)])
    worst = tuple(
        PairFit(layout.names[layout.pairs[k][0]], layout.names[layout.pairs[k][1]], float(error[k]))
        for k in _largest(error)
    )
    return TwoWayFit(float(error.mean()), float(error.max()), len(error), layout.all_pairs, worst)


def _largest(error: Reals) -> list[int]:
    """Positions of the largest, the first of equals first."""
    return [int(k) for k in np.argsort(-error, kind="stable")[:_WORST]]
