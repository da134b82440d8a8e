"""What is worked out of one partition of the rows, wherever an engine does it: small, frozen and picklable.

A partial result is exact and private: it has met no noise. So an engine may move it only between places that may hold
the rows themselves, and hands it back to the meter and to nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import CATEGORY_STEPS, EXACT, GRID, Space
from adumbra.numerics.integer_kernels import OFF_GRID, OUTSIDE, crowded, fault
from adumbra.privacy.totals import Totals
from adumbra.queries.query import Whole
from adumbra.queries.row_map import RowMap
from adumbra.queries.sums import Sum

__all__ = ["RowPartial", "SumPartial", "check_bounded", "merged"]


@dataclass(frozen=True, eq=False)
class RowPartial:
    """The exact answers of a row map for the rows of a partition, in whole steps."""

    query: RowMap
    space: Space

    def __call__(self, partition: Reals) -> Reals:
        """One row of whole numbers, as float64, for each row of the partition, in order."""
        check_bounded(partition, self.space)
        return self.query.mapped(partition)


@dataclass(frozen=True, eq=False)
class SumPartial:
    """What the rows of a partition add to a sum."""

    query: Sum
    space: Space

    def __call__(self, partition: Reals) -> dict[str, Integers]:
        """In 64-bit integers, which add up to the total in any order and any grouping (`merged`)."""
        totals = Totals(self.query, self.space.width)
        self.add(partition, totals)
        return {name: value.astype(np.int64) for name, value in totals.found().items()}

    def add(self, partition: Reals, totals: Totals) -> None:
        """Add it to `totals` of this process, without an array of its own for each partition."""
        check_bounded(partition, self.space)
        totals.add(partition)

    def nothing(self) -> dict[str, Integers]:
        """What no rows add."""
        return self(np.zeros((0, self.space.width)))


def merged(one: Mapping[str, Whole], other: Mapping[str, Whole]) -> dict[str, Integers]:
    """The sum of two partial results, in 64-bit integers: exact, as the meter refuses tables that could overflow."""
    if {name: value.shape for name, value in one.items()} != {name: value.shape for name, value in other.items()}:
        raise RuntimeError("partial results of two different queries")
    return {name: value.astype(np.int64) + other[name].astype(np.int64) for name, value in one.items()}


def check_bounded(batch: Reals, space: Space) -> None:
    """Refuse to answer on rows that break the bound the noise was calibrated to (a defect, not a user's error)."""
    if batch.shape[1] != space.width or batch.dtype != np.float64:
        raise RuntimeError("rows at the door are not on the grid of their space")
    # squares of grid steps, below 2^32 each: exact in float64 up to two million coordinates
    if space.row_bound is not None and space.width * float(GRID) ** 2 >= EXACT:
        raise RuntimeError("too many coordinates to check the row bound exactly")
    rows = np.ascontiguousarray(batch)
    category = space.reaches == CATEGORY_STEPS  # of the kinds, only a category reaches that far
    high = np.repeat(space.reaches, space.widths)
    low = np.where(np.repeat(category, space.widths), 0.0, -high)
    found = fault(rows, low, high, np.inf if space.row_bound is None else float(space.row_bound) ** 2)
    if found == OFF_GRID:
        raise RuntimeError("rows at the door are not on the grid of their space")
    starts = space.starts[category]
    if found == OUTSIDE or (len(starts) and crowded(rows, starts, starts + space.widths[category])):
        raise RuntimeError("rows at the door exceed the declared range of a column")
    if found:
        raise RuntimeError("rows at the door exceed the row bound")
