"""Counting queries, weighted sums over boxes of cells: their values, and how noise enters them.

A box reaches along every axis of a domain from one position to another, in cells; a cell that it covers in part counts
in part, as if rows lay evenly in it. A query is one box, or a weighted sum of several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.numerics.dictionaries import Dictionary
from adumbra.numerics.strategy_base import LinearStrategy, Separable

__all__ = [
    "Workload",
    "atom_products",
    "box_gains",
    "box_sums",
    "dense_energy",
    "gains",
    "random_ranges",
    "wave_energy",
]


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


def random_ranges(
    shape: tuple[int, ...], count: int, seed: int = 0, *, within: tuple[int, ...] | None = None
) -> Workload:
    """A workload of `count` boxes of whole cells over a domain of this `shape`.

    Along every axis two cells are drawn uniformly, and the box reaches from the lower to the higher, both included. The
    same `seed`, a public number, gives the same boxes. `within` keeps them to the first cells of each axis, those that
    hold values; None: all.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    ends = np.stack([rng.integers(0, n, (count, 2)) for n in within or shape], axis=1)
    return Workload.boxes(shape, ends.min(axis=2), ends.max(axis=2) + 1.0)


# Queries on estimated counts: their values, and how the noise of a measurement enters them.
#
# An estimate that is linear in what was measured errs by <v, noise>; v of a box is a product over the axes where the
# strategy is a Kronecker product. Both that and sums over boxes read off running sums (prefix sums) are standard.

_PIECE = 2**22


def box_sums(counts: Reals, workload: Workload) -> Reals:
    """The value of every query on these counts (cells in C order)."""
    terms = len(workload.query)
    array = counts.reshape(workload.shape)
    order = int(np.argmax(workload.shape))  # running sums along the longest axis, plain ones along the others
    array = np.moveaxis(array, order, 0)
    others = [axis for axis in range(len(workload.shape)) if axis != order]
    running = np.concatenate([np.zeros((1, *array.shape[1:])), np.cumsum(array, axis=0)])
    rest = math.prod(array.shape[1:])
    out = np.empty(terms)
    size = max(1, _PIECE // max(rest, 1))
    for start in range(0, terms, size):
        part = slice(start, min(start + size, terms))
        found = _at(running, np.maximum(workload.high[part, order], workload.low[part, order]))
        found = found - _at(running, workload.low[part, order])
        for axis in others:
            found = np.einsum("ti,ti...->t...", workload.along(axis, part), found)
        out[part] = found
    return np.asarray(np.bincount(workload.query, weights=out * workload.weight, minlength=len(workload)), np.float64)


def _at(running: Reals, places: Reals) -> Reals:
    """Running sums at these places, between whole ones in proportion."""
    whole = np.clip(np.floor(places).astype(np.int64), 0, len(running) - 2)
    part = (places - whole).reshape(-1, *([1] * (running.ndim - 1)))
    return np.asarray(running[whole] * (1.0 - part) + running[whole + 1] * part)


def gains(strategy: LinearStrategy, workload: Workload) -> tuple[Reals, Reals]:
    """For every query the length and the largest entry of the vector v with error <v, noise>."""
    count = len(workload)
    squares, largest = np.ones(count), np.ones(count)
    if isinstance(strategy, Separable) and workload.one_box_each:
        for axis, cells in enumerate(workload.shape):
            size = max(1, _PIECE // max(cells, strategy.measured_along(axis)))
            for start in range(0, count, size):
                part = slice(start, min(start + size, count))
                entering = strategy.axis_dual(workload.along(axis, part), axis)
                squares[part] *= np.square(entering).sum(axis=1)
                largest[part] *= np.abs(entering).max(axis=1)
        return np.sqrt(squares) * np.abs(workload.weight), largest * np.abs(workload.weight)
    for part in workload.pieces():
        entering = strategy.dual(workload.dense(part))
        squares[part] = np.square(entering).sum(axis=1)
        largest[part] = np.abs(entering).max(axis=1)
    return np.sqrt(squares), largest


def atom_products(atoms: Dictionary, chosen: NDArray[np.int64], workload: Workload) -> Reals:
    """The product of every query of `workload` with each of the `chosen` atoms of the dictionary `atoms`.

    `chosen` holds positions of atoms; the answer is (queries, chosen).
    """
    if atoms.name == "identity":
        places = np.stack(np.unravel_index(chosen, workload.shape), axis=1)
        covered = np.ones((len(workload.query), len(chosen)))
        for axis in range(len(workload.shape)):
            low, high = workload.low[:, axis, None], workload.high[:, axis, None]
            cell = places[None, :, axis]
            covered *= np.clip(np.minimum(high, cell + 1.0) - np.maximum(low, cell), 0.0, 1.0)
        covered *= workload.weight[:, None]
        if workload.one_box_each:
            return covered
        out = np.zeros((len(workload), len(chosen)))
        np.add.at(out, workload.query, covered)
        return out
    return np.stack([box_sums(atoms.atom(int(index)), workload) for index in chosen], axis=1, dtype=np.float64)


# How noise enters a box of cells, from the ends of the box alone; and what of a query lies in some frequencies.
#
# `box_gains` asks the strategy for the length of the dual along each axis (`LinearStrategy.entering`); the formulas and
# their sources are with the strategies. `wave_energy` is Parseval's identity for the frequencies that a strategy of
# waves measures: the energy of a query outside them is what truncation loses (EFPA: Acs, Castelluccia, Chen,
# "Differentially private histogram publishing through lossy compression", ICDM 2012). The closed form for boxes is the
# house's own.


_PIECE = 2**21
"""Numbers that are worked on at a time."""


def box_gains(strategy: LinearStrategy, workload: Workload) -> tuple[Reals, Reals]:
    """What `gains` finds for queries of one box each, in time that does not grow with the cells.

    Edge cases: a strategy that knows no shorter way (`entering`), and queries of several boxes, go the long way.
    """
    if not workload.one_box_each:
        return gains(strategy, workload)
    squares, largest = np.ones(len(workload)), np.ones(len(workload))
    for axis in range(len(workload.shape)):
        low = workload.low[:, axis]
        found = strategy.entering(axis, low, np.maximum(workload.high[:, axis], low))
        if found is None:
            return gains(strategy, workload)
        squares *= found[0]
        largest *= found[1]
    return np.sqrt(squares) * np.abs(workload.weight), largest * np.abs(workload.weight)


# ---- what of a query lies in some frequencies


def dense_energy(weights: Reals, shares: Reals) -> Reals:
    """Squared lengths of weights of all cells, (queries, cells), in the lowest frequencies: (queries, columns).

    Row f of `shares` says how much of frequency f counts in each column.
    """
    cells = weights.shape[1]
    found = np.fft.rfft(weights, axis=1)[:, : len(shares)]
    return np.asarray((found.real**2 + found.imag**2) @ _mirrored(shares, cells) / cells)


def wave_energy(workload: Workload, shares: Reals) -> Reals:
    """The same for boxes: over the cells in order a wave is a product of waves along the axes, and sums in each."""
    if not workload.one_box_each:
        return np.concatenate([dense_energy(workload.dense(part), shares) for part in workload.pieces()])
    cells, queries = math.prod(workload.shape), len(workload)
    frequencies = np.arange(len(shares), dtype=np.int64)
    counted = _mirrored(shares, cells) / cells
    out = np.zeros((queries, shares.shape[1]))
    size = max(1, _PIECE // len(frequencies))
    for start in range(0, queries, size):
        part = slice(start, min(start + size, queries))
        product: NDArray[np.complex128] = np.ones((part.stop - start, len(frequencies)), dtype=np.complex128)
        stride = cells
        # Cell (i1, i2, ...) has the number sum of i_a * stride_a, so exp(2 pi i f number / cells) is a product over
        # the axes, and so is its sum over a box: no cell is visited.
        for axis, along in enumerate(workload.shape):
            stride //= along
            turns = frequencies * stride % cells
            high = np.maximum(workload.high[part, axis], workload.low[part, axis])
            product *= _sum_to(high, turns, cells) - _sum_to(workload.low[part, axis], turns, cells)
        squares = product.real**2 + product.imag**2
        out[part] = squares @ counted * np.square(workload.weight[part, None])
    return out


def _mirrored(shares: Reals, cells: int) -> Reals:
    """A frequency stands for its mirror image too; the mean and the highest of an even number have none."""
    number = np.arange(len(shares))
    return np.asarray(shares * np.where((number > 0) & (2 * number < cells), 2.0, 1.0)[:, None])


def _sum_to(ends: Reals, turns: NDArray[np.int64], cells: int) -> NDArray[np.complex128]:
    """Sums of exp(2 pi i j turn / cells) over places j up to each end: (ends, turns).

    A geometric sum, (w^n - 1) / (w - 1), plus the part of the last cell that is covered. Angles are reduced in whole
    numbers before the exponential, so that the error does not grow with the number of cells.
    """
    whole = np.floor(ends).astype(np.int64)
    at_end = np.exp((2j * np.pi / cells) * ((whole[:, None] * turns) % cells))
    step = np.exp((2j * np.pi / cells) * turns) - 1.0
    still = turns == 0
    sums = np.where(still, whole[:, None] + 0j, (at_end - 1.0) / np.where(still, 1.0, step))
    return np.asarray(sums + (ends - whole)[:, None] * at_end)
