"""Counting queries: weighted sums over boxes of cells.

A box reaches along every axis of a domain from one position to another, in cells; a cell that it covers in part counts
in part, as if rows lay evenly in it. A query is one box, or a weighted sum of several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adumbra.common.types import Integers, Reals

__all__ = ["Workload", "random_ranges"]

_HELD = 2**22
"""Weights of cells that are worked out at a time."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Terms of queries: term t adds `weight[t]` times its box to query `query[t]` (ascending, from 0)."""

    shape: tuple[int, ...]
    names: tuple[str, ...]
    query: Integers
    weight: Reals
    low: Reals
    """(terms, axes)"""
    high: Reals
    """(terms, axes)"""

    def __post_init__(self) -> None:
        terms, axes = len(self.query), len(self.shape)
        if self.low.shape != (terms, axes) or self.high.shape != (terms, axes) or self.weight.shape != (terms,):
            raise ValueError("one box for each term, with a place on each axis")

    @staticmethod
    def boxes(shape: tuple[int, ...], low: Reals, high: Reals, names: tuple[str, ...] | None = None) -> Workload:
        """One box per query, over a domain of this `shape`.

        `low` and `high` (queries, axes) are the ends of the boxes, in cells from 0; parts of cells are allowed. `names`
        are those of the queries; None numbers them.
        """
        count = len(low)
        named = tuple(str(i) for i in range(count)) if names is None else names
        return Workload(shape, named, np.arange(count), np.ones(count), np.asarray(low, float), np.asarray(high, float))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def one_box_each(self) -> bool:
        """Whether every query is a single box."""
        return len(self.query) == len(self.names) and bool((self.query == np.arange(len(self.names))).all())

    @cached_property
    def sizes(self) -> Reals:
        """Cells of every query's boxes together, each counted with the size of its weight."""
        cells = np.prod(self.high - self.low, axis=1) * np.abs(self.weight)
        return np.asarray(np.bincount(self.query, weights=cells, minlength=len(self.names)), dtype=np.float64)

    def along(self, axis: int, terms: slice = slice(None)) -> Reals:
        """How much of every cell of an axis each of these terms covers: (terms, cells of the axis)."""
        edges = np.arange(self.shape[axis] + 1, dtype=np.float64)
        low, high = self.low[terms, axis, None], self.high[terms, axis, None]
        return np.asarray(np.diff(np.clip(edges, low, np.maximum(high, low)), axis=1))

    def dense(self, queries: slice) -> Reals:
        """Weights of all cells for some queries: (queries, cells)."""
        first, last, _ = queries.indices(len(self.names))
        terms = slice(*np.searchsorted(self.query, [first, last]).tolist())
        out = np.zeros((last - first, math.prod(self.shape)))
        size = max(1, _HELD // out.shape[1])  # one query may have very many terms
        for start in range(terms.start, terms.stop, size):
            part = slice(start, min(start + size, terms.stop))
            own = self.query[part] - first
            weights = np.ones((len(own), 1)) * self.weight[part, None]
            for axis in range(len(self.shape)):
                weights = (weights[:, :, None] * self.along(axis, part)[:, None, :]).reshape(len(own), -1)
            np.add.at(out, own, weights)
        return out

    def pieces(self, numbers: int = _HELD) -> Iterator[slice]:
        """Slices of queries whose weights over all cells are about so many numbers."""
        size = max(1, numbers // math.prod(self.shape))
        for start in range(0, len(self.names), size):
            yield slice(start, min(start + size, len(self.names)))


def random_ranges(shape: tuple[int, ...], count: int, seed: int = 0) -> Workload:
    """A workload of `count` boxes of whole cells over a domain of this `shape`.

    Along every axis two cells are drawn uniformly, and the box reaches from the lower to the higher, both included.
    The same `seed`, a public number, gives the same boxes.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    ends = np.stack([rng.integers(0, n, (count, 2)) for n in shape], axis=1)
    return Workload.boxes(shape, ends.min(axis=2), ends.max(axis=2) + 1.0)
