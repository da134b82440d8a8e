"""Tables of two and three columns at once, measured together: all but what the tables of fewer columns tell already.

Every row counts 1 in one cell of each table. A table is *centred* along each of its columns before it meets the noise:
margins are known from elsewhere and are not paid for again. Everything is whole: counts are added up first, then
centred times the numbers of cells, times a whole weight.

`privacy.joint_sensitivity` says how far one row can move the result, from those whole weights alone.

`TableDistances` is not linear. It is answered from the same counts, and tells which tables are worth their noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.guarantee import Relation
from adumbra.declare.space import COUNT_STEPS, EXACT, WHOLE
from adumbra.numerics.integer_kernels import compiled
from adumbra.numerics.least_products import least_sum
from adumbra.queries.cells import Cells
from adumbra.queries.query import Part, SumAnswer, Whole
from adumbra.queries.sums import Sum

__all__ = ["MOST_REPLACED", "TABLE_STEP", "JointCells", "JointTablesQuery", "TableDistances"]

TABLE_STEP = 2.0**-30
"""What one whole step of a measured number stands for."""
MOST_REPLACED = {Relation.ADD_REMOVE: 1.5, Relation.REPLACE: math.sqrt(2.0), Relation.ZERO_OUT: math.sqrt(2.0)}
"""How far a replaced row may move centred tables that were made for a relation; one that comes or goes, 1 at most."""
_HEAVIEST = 4.0
"""The weight of a table, at most: only one with a column of a single cell, which costs nothing, could have more."""
_HAIR = 1e-9
_MOST_EXPECTED = 2.0**40
"""Rows of an expected table, at most: its steps and those of the counts add up within 64 bits."""

Places = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JointCells:
    """Cells of columns for tables of several: each cell of `cells` belongs to one joint cell.

    `merged` has for each column the joint cell of each of its cells, from 0 and none left out; None leaves them as they
    are. A row is in exactly one cell of each column, so a column that keeps empty cells must have one for them.
    """

    cells: Cells
    merged: tuple[Integers | None, ...]

    def __post_init__(self) -> None:
        cells = self.cells
        if any(block.keeps and not own for block, own in zip(cells.blocks, cells.missing, strict=True)):
            raise ValueError("a column that keeps empty cells needs a cell for them")
        if len(self.merged) != len(cells.blocks):
            raise ValueError("the joint cells of each column's cells, or None, for each column")
        own: list[Integers | None] = []
        for size, merged in zip(cells.sizes, self.merged, strict=True):
            if merged is not None:
                given = np.asarray(merged)
                whole = given.astype(np.int64)
                if given.shape != (size,) or not bool((whole == given).all()):
                    raise ValueError("a whole number for each cell of a column")
                if not np.array_equal(np.unique(whole), np.arange(whole.max() + 1)):
                    raise ValueError("joint cells are numbered from 0, and none is empty")
                merged = whole
                merged.setflags(write=False)
            own.append(merged)
        object.__setattr__(self, "merged", tuple(own))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Joint cells of each column."""
        own = zip(self.cells.sizes, self.merged, strict=True)
        return tuple(size if merged is None else int(merged.max()) + 1 for size, merged in own)

    def of(self, batch: Reals) -> Integers:
        """The joint cell of every value, one column for each block."""
        # No value is nowhere, but a clipped row may be 0 in a column that is never empty: it counts in the first cell.
        found = np.maximum(self.cells.of(batch), 0)
        for column, merged in zip(found.T, self.merged, strict=True):
            if merged is not None:
                column[:] = merged[column]
        return found


class _OfTables(Sum):
    """A query that is answered from the counts of some tables of joint cells, one after another."""

    cells: JointCells
    tables: tuple[Places, ...]

    def _check_tables(self) -> None:
        columns = len(self.cells.counts)
        known = all(
            1 <= len(table) <= 3 and list(table) == sorted(set(table)) and table[0] >= 0 and table[-1] < columns
            for table in self.tables
        )
        if not self.tables or not known or len(set(self.tables)) < len(self.tables):
            raise ValueError("tables of one to three columns each, in ascending order, and every table once")

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Cells of each table."""
        return tuple(tuple(self.cells.counts[j] for j in table) for table in self.tables)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each table ends in the list of all cells."""
        return tuple(np.cumsum([math.prod(shape) for shape in self.shapes]).tolist())

    @property
    def exact_rows(self) -> int:
        """A row counts 1."""
        return int(EXACT) - 1

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """The counts."""
        total = {"counts": np.zeros(self.ends[-1])}
        self.add_partial(batch, total)
        return total

    def add_partial(self, batch: Reals, total: dict[str, Reals]) -> None:
        """Add the counts of `batch` to a running `total`, in place."""
        if total["counts"].shape != self.ends[-1:]:
            raise RuntimeError("an answer has another shape than its query says")
        _count(np.ascontiguousarray(self.cells.of(batch).T), self._layout, total["counts"])

    @cached_property
    def _layout(self) -> Integers:
        """For each table its first cell, and the columns and strides of the places it has; others have stride 0."""
        out = np.zeros((len(self.tables), 7), dtype=np.int64)
        for row, table, shape, end in zip(out, self.tables, self.shapes, self.ends, strict=True):
            row[0] = end - math.prod(shape)
            row[1 : 1 + len(table)] = table
            row[4 : 4 + len(table)] = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        return out

    def each(self, values: Any) -> list[Any]:
        """A list of all cells as one array for each table."""
        own = zip(np.split(values, self.ends[:-1]), self.shapes, strict=True)
        return [part.reshape(shape) for part, shape in own]

    @property
    def _what(self) -> str:
        """Which tables, in words."""
        names = {1: "column", 2: "pair", 3: "triple"}
        sizes = [len(table) for table in self.tables]
        many = [f"{sizes.count(k):,} {names[k]}{'s' * (sizes.count(k) != 1)}" for k in (1, 2, 3) if k in sizes]
        columns = len({j for table in self.tables for j in table})
        listed = many[0] if len(many) == 1 else f"{', '.join(many[:-1])} and {many[-1]}"
        return f"{listed} of {columns} columns, {self.ends[-1]:,} cells"


@compiled
def _count(columns: Any, layout: Any, out: Any) -> Any:
    """Add one for every row to its cell of every table."""
    for t in range(layout.shape[0]):
        first, second, third = columns[layout[t, 1]], columns[layout[t, 2]], columns[layout[t, 3]]
        start, a, b, c = layout[t, 0], layout[t, 4], layout[t, 5], layout[t, 6]
        if c:
            for i in range(first.size):
                out[start + first[i] * a + second[i] * b + third[i]] += 1.0
        elif b:
            for i in range(first.size):
                out[start + first[i] * a + second[i]] += 1.0
        else:
            for i in range(first.size):
                out[start + first[i]] += 1.0


@dataclass(frozen=True, eq=False)
class JointTablesQuery(_OfTables):
    """All `tables` of joint cells with noise of one scale, each times a weight.

    `weights` are relative, one for each table; the whole ones that are measured, `factors`, are as large as `relation`
    allows. A table that is not `centred` is measured as it is, margins and all: for pure epsilon, whose noise follows
    the L1 norm, where centring has no bound.
    """

    cells: JointCells
    tables: tuple[Places, ...]
    weights: Reals
    relation: Relation
    centred: bool = True

    most_rows: ClassVar[int] = (WHOLE - 1) // int(_HEAVIEST / TABLE_STEP)
    """For the heaviest table there can be: a query whose cells were found later refuses no rows that a plan took."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(tuple(int(j) for j in table) for table in self.tables))
        self._check_tables()
        weights = np.array(self.weights, dtype=np.float64)
        if weights.shape != (len(self.tables),) or not bool((np.isfinite(weights) & (weights > 0)).all()):
            raise ValueError("a positive weight for each table")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "relation", Relation(self.relation))
        if min(self.factors) < 1:
            raise ValueError("a table's weight is too small beside the others'")

    @cached_property
    def _sizes(self) -> Reals:
        """Cells of each table where it is centred: what its counts are multiplied with to stay whole."""
        return np.array([math.prod(shape) if self.centred else 1 for shape in self.shapes], dtype=np.float64)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The whole weight of each table."""
        moving = np.array([not self.centred or min(shape) > 1 for shape in self.shapes])
        relative = self.weights / self.weights[moving if moving.any() else slice(None)].max()
        scale = _HEAVIEST
        for _ in range(100):
            weights = np.minimum(relative * scale, _HEAVIEST)
            whole = np.floor(weights / (self._sizes * TABLE_STEP)).astype(np.int64)
            over = self._over(whole * self._sizes * TABLE_STEP)
            if over <= 1.0:
                return tuple(whole.tolist())
            scale *= (1.0 - _HAIR) / over
        raise RuntimeError("no weights found")

    def _over(self, weights: Reals) -> float:
        """How many times the largest move that may be stated these weights have; 1 and a little less is best."""
        if not self.centred:
            return float(weights.sum())
        squares = np.square(weights)
        high = 1.0 - 1.0 / np.array(self.cells.counts)
        one = float(sum(s * np.prod(high[list(table)]) for s, table in zip(squares, self.tables, strict=True)))
        apart = 2.0 * (one - least_sum(self.cells.counts, self.tables, squares))
        return max(math.sqrt(one), math.sqrt(apart) / MOST_REPLACED[self.relation]) * (1.0 + _HAIR)

    @property
    def scales(self) -> Reals:
        """What a count of each table is multiplied with in the measured vector."""
        return np.asarray(np.array(self.factors) * self._sizes * TABLE_STEP)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`tables`: all tables in a row."""
        # more than one row adds: it holds for all numbers on the way as well
        largest = float((np.array(self.factors) * self._sizes).max())
        return (Part("tables", (self.ends[-1],), 1.0, TABLE_STEP, largest),)

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The tables, centred times their numbers of cells, times their factors: whole numbers."""
        counts = self.each(total["counts"].astype(np.int64))
        tables = [
            factor * (_whole_centred(table) if self.centred else table)
            for factor, table in zip(self.factors, counts, strict=True)
        ]
        return {"tables": np.concatenate([table.ravel() for table in tables])}

    def read(self, answer: SumAnswer) -> list[tuple[Reals, float]]:
        """Each table in counts, and the standard deviation of the independent noise on an entry.

        Where tables are centred the noise is centred here as well: what it has along a margin says nothing.
        """
        tables = self.each(answer.values["tables"])
        sds = self.sds(answer.sd("tables"))
        return [
            (_centred(table / scale) if self.centred else table / scale, sd)
            for table, scale, sd in zip(tables, self.scales.tolist(), sds, strict=True)
        ]

    def sds(self, sd: float) -> list[float]:
        """The standard deviation on an entry of each table, before it is centred, from the one of the part."""
        return [sd / scale for scale in self.scales.tolist()]

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{'centred ' * self.centred}tables of {self._what}"


def _whole_centred(table: Integers) -> Integers:
    """A table less its mean along each axis, times its number of cells: whole numbers."""
    for axis, count in enumerate(table.shape):
        table = count * table - table.sum(axis=axis, keepdims=True)
    return table


def _centred(table: Reals) -> Reals:
    """A table less its mean along each axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


@dataclass(frozen=True, eq=False)
class TableDistances(_OfTables):
    """For each of the `tables` half the L1 distance of its counts from `expected`, which is public, in rows.

    An expected table is any array of its table's shape with numbers of at least 0, which are rounded to whole multiples
    of 1 / 1024. All distances share one weight, so that their number may follow from an earlier answer: a replaced row
    moves all of them together by 1 at most in `norm` (pure epsilon: "l1"), one that comes or goes by 1/2.
    """

    cells: JointCells
    tables: tuple[Places, ...]
    expected: tuple[Reals, ...]
    norm: Literal["l1", "l2"] = "l2"

    linear: ClassVar[bool] = False
    most_rows: ClassVar[int] = 2**50

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(tuple(int(j) for j in table) for table in self.tables))
        self._check_tables()
        if self.norm not in ("l1", "l2"):
            raise ValueError("distances share their weight in L1 or in L2")
        if tuple(np.shape(table) for table in self.expected) != self.shapes:
            raise ValueError("an expected table for each table, of its shape")
        own = tuple(np.array(table, dtype=np.float64) for table in self.expected)
        if not all(bool((table >= 0).all()) and float(table.sum()) <= _MOST_EXPECTED for table in own):
            raise ValueError("expected counts are numbers of at least 0, and of no more rows than there can be")
        for table in own:
            table.setflags(write=False)
        object.__setattr__(self, "expected", own)

    @cached_property
    def weight(self) -> float:
        """What each distance counts in the measured vector, so that all of them together count 1, or a little less."""
        candidates = len(self.tables)
        if self.norm == "l1":
            return _below(1.0 / candidates, lambda weight: weight * candidates <= 1)
        return _below(1.0 / math.sqrt(candidates), lambda weight: weight**2 * candidates <= 1)

    @property
    def parts(self) -> tuple[Part, ...]:
        """`distances`: one for each table, in rows."""
        return (Part("distances", (len(self.tables),), self.weight, 1 / (2 * COUNT_STEPS), COUNT_STEPS),)

    @cached_property
    def _expected(self) -> list[Integers]:
        return [np.rint(table * COUNT_STEPS).astype(np.int64) for table in self.expected]

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """Distances, in whole halves of a count's steps."""
        counts = self.each(total["counts"].astype(np.int64))
        both = zip(counts, self._expected, strict=True)
        return {"distances": np.array([np.abs(table * COUNT_STEPS - expected).sum() for table, expected in both])}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"distances from expected tables of {self._what}"


def _below(weight: float, holds: Callable[[Fraction], bool]) -> float:
    """The largest number from `weight` down that `holds`, exactly."""
    while not holds(Fraction(weight)):
        weight = math.nextafter(weight, 0.0)
    return weight
