"""How far one row can move each strategy for a histogram. Proofs: docs/proofs/strategies.md.

A row counts 1 in one cell, or in none if it is empty in a column that has no cell for that. So a row that comes or goes
moves the answer by one column of the strategy, and a row that is replaced by the difference of two columns, or by one.
Each function returns both, for L1 and L2, in real units.

`Identity`, `Haar` and `Tree` have exact formulas. A sketch is searched exhaustively over all pairs of cells while that
is cheap; above, signs and hadamard have exact or all but exact formulas, and the others a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from adumbra.declare.guarantee import Relation
from adumbra.declare.space import COUNT_STEPS
from adumbra.numerics.fast_transforms import hadamard
from adumbra.numerics.integer_kernels import compiled
from adumbra.numerics.sensing import DenseSensing, FourierSensing, Hadamard, Sensing, SparseSigns
from adumbra.numerics.strategies import Haar, Identity, OrderedStrategy, Tree, Waves, padded
from adumbra.queries.histograms import HistogramQuery, Strategy, TailChoice, TailSize

__all__ = ["Moves", "add_bound", "histogram", "moves", "tail_choice", "tail_size"]


_ALL_PAIRS = 2**29
"""Entries compared in a search over all pairs of cells, at most."""
_PRODUCTS = 2**38
"""Products of a matrix with itself, at most."""
_LOOKED_UP = 2**28


@dataclass(frozen=True)
class Moves:
    """Largest L1 and L2 norms of one column, and of the difference of two columns (or of one, where that is more)."""

    one_l1: float
    one_l2: float
    two_l1: float
    two_l2: float

    def of(self, relation: Relation, norm: str) -> float:
        """What one row can do."""
        if relation is Relation.ADD_REMOVE:
            return self.one_l1 if norm == "l1" else self.one_l2
        # An emptied row may count in no cell, or in another: that for what is missing, or its fallback's.
        return max(self.one_l1, self.two_l1) if norm == "l1" else max(self.one_l2, self.two_l2)


def histogram(query: HistogramQuery, space: Any, relation: Relation, norm: str) -> float:
    """How far one row moves the answers of `query`, in this `norm` ("l1" or "l2") and `relation`, whatever the `space`.

    An emptied row changes its cell, unless a column of the domain has neither a cell for what is missing nor a
    fallback: it then just goes.
    """
    if relation is Relation.ZERO_OUT and _emptied_is_nowhere(query):
        relation = Relation.ADD_REMOVE
    return moves(query.strategy).of(relation, norm)


def _emptied_is_nowhere(query: HistogramQuery) -> bool:
    cells = query.domain.cells
    return any(block.keeps and not own for block, own in zip(cells.blocks, cells.missing, strict=True))


def moves(strategy: Strategy) -> Moves:
    """Of the strategies known here, by their very type; another has no bound, and so no noise."""
    found = _FOUND.get(strategy)
    if found is None:
        known = _KNOWN.get(type(strategy))
        if known is None:
            raise TypeError(f"no bound is known for {type(strategy).__name__}")
        found = _FOUND[strategy] = known(strategy)
    return found


def add_bound(kind: type, bound: Callable[[Any], Moves]) -> None:
    """State the bound of a new `kind` of strategy: `bound(strategy)` for each of them, proved for that very type.

    Whoever calls it answers for the proof (CONTRIBUTING.md, "What every privacy claim needs"). A type that has a bound
    keeps it.
    """
    if kind in _KNOWN:
        raise ValueError(f"{kind.__name__} has a bound already")
    _KNOWN[kind] = bound


_FOUND: WeakKeyDictionary[Strategy, Moves] = WeakKeyDictionary()
"""By identity, as long as a strategy lives: it cannot change, and is asked about again and again."""


def _identity(strategy: Identity) -> Moves:
    several = strategy.cells > 1
    return Moves(1.0, 1.0, 2.0 if several else 0.0, math.sqrt(2.0) if several else 0.0)


def _waves(strategy: Waves) -> Moves:
    """In L1 the divisor sees to it, for any number of waves."""
    return Moves(1.0, 1.0 / strategy.divisor, math.sqrt(2.0), math.sqrt(2.0) / strategy.divisor)


def _haar(strategy: Haar) -> Moves:
    """Every column has one +-1 at each level of each axis, and the total; one 1 along an axis where it is apart.

    Of two columns, those entries cancel that stand in the same place with the same sign: none where the cells differ
    along a plain axis, or where one is apart; else the fewest where they lie in different halves of every axis, and
    then half of the 2^d entries of totals and roots do.
    """
    axes = [axis for axis in range(len(strategy.shape)) if axis not in strategy.plain]
    entries = math.prod(1 + padded(strategy.ordered(axis))[1] for axis in axes)
    split = sum(strategy.ordered(axis) > 1 for axis in axes)
    same = 0.0 if _differ_plainly(strategy) else 2.0 ** (split - 1)
    values = (2.0 * (entries - same), 2.0 * entries) if split or _differ_plainly(strategy) else (0.0, 0.0)
    beside = _beside(entries, [1 + padded(strategy.ordered(axis))[1] for axis in strategy.apart])
    return Moves(float(entries), math.sqrt(entries), max(values[0], beside), math.sqrt(max(values[1], beside)))


def _tree(strategy: Tree) -> Moves:
    """Every column has a one at each level of each axis (one alone where it is apart); two share at least the roots'.

    Cells that differ along a plain axis, or of which one is apart, share none.
    """
    axes = range(len(strategy.shape))
    entries = math.prod(strategy.levels(axis) for axis in axes)
    values = 2.0 * entries if _differ_plainly(strategy) else 2.0 * (entries - 1)
    two = max(values, _beside(entries, [strategy.levels(axis) for axis in strategy.apart]))
    return Moves(float(entries), math.sqrt(entries), two, math.sqrt(two))


def _beside(entries: int, along: list[int]) -> float:
    """Entries of a cell and of one that is apart from it: they have no place in common.

    `along` has the entries that a cell in order has on each axis with a cell apart, of which the other has one.
    """
    return entries + entries / min(along) if along else 0.0


def _differ_plainly(strategy: OrderedStrategy) -> bool:
    return any(strategy.shape[axis] > 1 for axis in strategy.plain)


def _sketch(sketch: Sensing) -> Moves:
    """Columns times the rows' weights."""
    if sketch.cells**2 * sketch.numbers <= _ALL_PAIRS:
        whole = sketch.columns(np.arange(sketch.cells)) * sketch.gains[:, None]
        found = _all_pairs(np.ascontiguousarray(whole.T.astype(np.float64)))
        unit = sketch.step * sketch.fine
        return Moves(*(float(value) * unit for value in found))
    one = _longest_column(sketch)
    two_l1, two_l2 = _widest(sketch)
    return Moves(*one, min(2.0 * one[0], two_l1), min(2.0 * one[1], two_l2))


@compiled
def _all_pairs(columns: Any) -> Any:
    """Largest L1 and L2 norm of a column, and of a difference of two. Whole numbers, but for the roots."""
    cells, numbers = columns.shape
    one_l1, one_square, two_l1, two_square = 0.0, 0.0, 0.0, 0.0
    for i in range(cells):
        total, square = 0.0, 0.0
        for j in range(numbers):
            total += abs(columns[i, j])
            square += columns[i, j] * columns[i, j]
        one_l1, one_square = max(one_l1, total), max(one_square, square)
        for other in range(i):
            total, square = 0.0, 0.0
            for j in range(numbers):
                change = columns[i, j] - columns[other, j]
                total += abs(change)
                square += change * change
            two_l1, two_square = max(two_l1, total), max(two_square, square)
    return one_l1, math.sqrt(one_square), two_l1, math.sqrt(two_square)


def _blocks(sketch: Sensing) -> Any:
    size = max(1, 2**22 // max(sketch.numbers, 1))
    for start in range(0, sketch.cells, size):
        cells = np.arange(start, min(start + size, sketch.cells))
        yield (sketch.columns(cells) * sketch.gains[:, None]).astype(np.float64)


def _longest_column(sketch: Sensing) -> tuple[float, float]:
    unit, gains = sketch.step * sketch.fine, sketch.gains.astype(np.float64)
    if isinstance(sketch, Hadamard) or (isinstance(sketch, DenseSensing) and sketch.kind == "signs"):
        return unit * float(gains.sum()), unit * math.sqrt(float(np.square(gains).sum()))
    if isinstance(sketch, SparseSigns):
        chosen = gains[sketch.places]
        return unit * float(chosen.sum(axis=1).max()), unit * math.sqrt(float(np.square(chosen).sum(axis=1).max()))
    if isinstance(sketch, FourierSensing) and sketch.cells * sketch.numbers > _LOOKED_UP:
        # cosine and sine of an angle: |a| + |b| <= sqrt(2), and squares that add up to 1; rounded, a step more each
        pairs = np.maximum(*np.split(gains, 2))
        most = sketch.entry + 1.0
        return unit * most * math.sqrt(2.0) * float(pairs.sum()), unit * most * math.sqrt(float((pairs**2).sum()))
    longest, square = 0.0, 0.0
    for columns in _blocks(sketch):
        longest = max(longest, float(np.abs(columns).sum(axis=0).max()))
        square = max(square, float(np.square(columns).sum(axis=0).max()))
    return unit * longest, unit * math.sqrt(square)


def _widest(sketch: Sensing) -> tuple[float, float]:
    """Differences of two columns: L1 and L2, infinite where only twice one column is known."""
    unit, gains = sketch.step * sketch.fine, sketch.gains.astype(np.float64)
    if isinstance(sketch, Hadamard):
        # Two columns agree or not as their cells' exclusive or says, up to the signs of the cells, which may be either.
        return tuple(  # type: ignore[return-value]  # two numbers
            unit * root(weight.sum() + np.abs(_signed(sketch, weight)).max())
            for weight, root in ((gains, float), (2.0 * gains**2, lambda square: math.sqrt(float(square))))
        )
    if isinstance(sketch, DenseSensing) and sketch.cells**2 * sketch.numbers <= _PRODUCTS:
        return _by_products(sketch)
    if isinstance(sketch, FourierSensing):
        # |e^ia -+ e^ib|^2 = 2 -+ 2 cos(a - b): the sum over frequencies is a transform of their squared weights
        pairs = np.maximum(*np.split(gains, 2)) ** 2
        full = np.zeros(sketch.cells)
        full[sketch.frequencies] = pairs
        agree = float(np.abs(np.fft.rfft(full).real[1:]).max())
        # a rounded column is within half a step in each of its entries
        rounding = math.sqrt(2.0 * float(pairs.sum()))
        wide = unit * (sketch.entry * math.sqrt(2.0 * (float(pairs.sum()) + agree)) * (1.0 + 1e-9) + rounding)
        return math.sqrt(sketch.numbers) * wide, wide
    return math.inf, math.inf


def _signed(sketch: Hadamard, weight: Any) -> Any:
    """For every exclusive or of two cells but 0: the rows' weights, signed by whether the columns agree in them."""
    full = np.zeros(padded(sketch.cells)[0])
    full[sketch.rows] = weight
    hadamard(full)
    return full[1:]


def _by_products(sketch: DenseSensing) -> tuple[float, float]:
    """All inner products of columns, in pieces: exact for signs; for L1 of other entries through the L2 norm."""
    unit, gains = sketch.step * sketch.fine, sketch.gains.astype(np.float64)
    if sketch.kind == "signs":
        # whole numbers below 2^24 are exact in float32 too
        small = float(np.square(gains).sum()) < 2.0**24
        matrix: Any = sketch.matrix.astype(np.float32 if small else np.float64)
        total, square = float(gains.sum()), float(np.square(gains).sum())
        agree = _least_product(matrix, gains)
        squares = agree if bool((sketch.gains == 1).all()) else _least_product(matrix, np.square(gains))
        return unit * (total - agree), unit * math.sqrt(2.0 * (square - squares))
    matrix = sketch.matrix * gains[:, None]
    lengths = np.square(matrix).sum(axis=0)
    widest = 0.0
    for start in range(0, sketch.cells, 512):
        products = matrix[:, start : start + 512].T @ matrix
        widest = max(widest, float((lengths[start : start + 512, None] + lengths[None, :] - 2.0 * products).max()))
    wide = unit * math.sqrt(widest) * (1.0 + 1e-9)
    return math.sqrt(sketch.numbers) * wide, wide


def _least_product(matrix: Any, weights: Any) -> float:
    """The smallest weighted inner product of two columns."""
    weighted = matrix * weights.astype(matrix.dtype)[:, None]
    pieces = range(0, matrix.shape[1], 512)
    return min(float((weighted[:, start : start + 512].T @ matrix).min()) for start in pieces)


def tail_choice(query: TailChoice, space: Any, relation: Relation, norm: str) -> float:
    """Twice what one score of `query` can move: the noisy minimum's own proof, for any number of candidates.

    `relation` decides how far; `norm` must be "l1"; the `space` does not matter.
    """
    if norm != "l1":
        raise ValueError("a noisy choice is proved for Laplace noise only")
    return 2.0 * _tail(relation)


def tail_size(query: TailSize, space: Any, relation: Relation, norm: str) -> float:
    """What the tail can move: the same for any `query`, `space` and `norm`, since it is one number; by `relation`."""
    return _tail(relation)


def _tail(relation: Relation) -> float:
    """The length of a part of an orthonormal transform; one step for rounding to whole steps, one for float64."""
    return (1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2.0)) + 2.0 / COUNT_STEPS


_KNOWN: dict[type, Callable[[Any], Moves]] = {
    Identity: lambda strategy: _identity(strategy),
    Haar: lambda strategy: _haar(strategy),
    Tree: lambda strategy: _tree(strategy),
    Waves: lambda strategy: _waves(strategy),
    **dict.fromkeys((DenseSensing, Hadamard, FourierSensing, SparseSigns), lambda strategy: _sketch(strategy)),
}
"""Looked up when they are needed, so that a bug planted in one of them is seen (tests/planted/)."""
