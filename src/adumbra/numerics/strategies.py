"""What to measure of a histogram, so that sums over ranges of cells come out well: cells, wavelets, trees.

Each works along each axis of the domain by itself, so the whole is a Kronecker product: an estimate is made axis by
axis, and the noise on a box of cells is a product over the axes. `numerics.waves` has the lowest frequencies of the
domain's cells in order. References: Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms" (2011); Hay,
Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through consistency" (2010);
Qardaji, Yang, Li, "Understanding hierarchical methods for differentially private histograms" (2013).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from adumbra.common.types import Reals
from adumbra.numerics.strategy_base import LinearStrategy, Separable, padded, rebuilt
from adumbra.numerics.waves import Waves

__all__ = [
    "Haar",
    "Identity",
    "LinearStrategy",
    "OrderedStrategy",
    "Separable",
    "Tree",
    "Waves",
    "padded",
    "rebuilt",
]


_BRANCHINGS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_MOST_NODES = 2**23


@dataclass(frozen=True, eq=False)
class Identity(Separable):
    """Every cell's count."""

    kind: ClassVar[str] = "identity"
    mechanism: ClassVar[str] = "laplace"

    shape: tuple[int, ...]

    @classmethod
    def candidates(cls, shape: tuple[int, ...], plain: tuple[int, ...], apart: tuple[int, ...] = ()) -> Sequence[Self]:
        """One, whatever the `shape` and the axes that are `plain` or have a cell `apart`."""
        return (cls(shape),)

    def entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """The cells between `low` and `high`, along any `axis`."""
        return _cells_entering(low, high)

    def measured_along(self, axis: int) -> int:
        """As many as cells."""
        return self.shape[axis]

    def _forward(self, values: Reals, axis: int) -> Reals:
        return values

    def _backward(self, values: Reals, axis: int) -> Reals:
        return values

    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """The weights."""
        return weights

    def describe(self) -> str:
        """A few words for a plan."""
        return "counts"


class OrderedStrategy(Separable):
    """A tree of some kind over the cells of every axis but the `plain` ones, whose cells stay as they are.

    The last cell of an axis that is `apart` is outside the order (it holds what is missing): it is measured by itself,
    beside the tree over the others, and so costs them nothing.
    """

    plain: tuple[int, ...]
    apart: tuple[int, ...]

    @abstractmethod
    def _tree_size(self, axis: int) -> int:
        """Numbers measured of the ordered cells of an axis."""

    @abstractmethod
    def _measure(self, values: Reals, axis: int) -> Reals:
        """Those numbers, of cells along the last axis of an array."""

    @abstractmethod
    def _solve(self, values: Reals, axis: int) -> Reals:
        """Least-squares cells of such numbers."""

    @abstractmethod
    def _weigh(self, weights: Reals, axis: int) -> Reals:
        """How the noise of such numbers enters weighted sums of the cells."""

    @abstractmethod
    def _range_entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """`entering`, of ranges of ordered cells."""

    def ordered(self, axis: int) -> int:
        """Cells of an axis that are in order."""
        return self.shape[axis] - (axis in self.apart)

    def measured_along(self, axis: int) -> int:
        """The numbers of the tree, and the cell that is apart."""
        return self.shape[axis] if axis in self.plain else self._tree_size(axis) + (axis in self.apart)

    def _forward(self, values: Reals, axis: int) -> Reals:
        return self._in_parts(values, axis, self.ordered(axis), self._measure)

    def _backward(self, values: Reals, axis: int) -> Reals:
        return self._in_parts(values, axis, self.measured_along(axis) - 1, self._solve)

    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """Of the tree over the cells in order; a cell that is apart enters as it is."""
        return self._in_parts(weights, axis, self.ordered(axis), self._weigh)

    def _in_parts(self, values: Reals, axis: int, split: int, step: Callable[[Reals, int], Reals]) -> Reals:
        if axis in self.plain:
            return values
        if axis not in self.apart:
            return step(values, axis)
        return np.concatenate([step(values[..., :split], axis), values[..., split:]], axis=-1)

    def entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """The numbers along the `axis` that hold `low` or `high`; the cells between them, if it is plain."""
        if axis in self.plain:
            return _cells_entering(low, high)
        if axis not in self.apart:
            return self._range_entering(axis, low, high)
        last = float(self.ordered(axis))
        squares, largest = self._range_entering(axis, np.minimum(low, last), np.minimum(high, last))
        alone = _overlap(low, high, np.full(len(low), last), 1.0)
        return squares + alone**2, np.maximum(largest, alone)


@dataclass(frozen=True, eq=False)
class Haar(OrderedStrategy):
    """Total, and for every node of a binary tree over an axis the count of its left half less that of its right.

    These are Privelet's coefficients times the cells below them, which is what its weights divide the noise by: with
    noise of one scale on all of them the two mechanisms are the same.
    """

    kind: ClassVar[str] = "haar"
    mechanism: ClassVar[str] = "privelet"

    shape: tuple[int, ...]
    plain: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    @classmethod
    def candidates(cls, shape: tuple[int, ...], plain: tuple[int, ...], apart: tuple[int, ...] = ()) -> Sequence[Self]:
        """One for a `shape` with these `plain` axes, and these whose last cell is `apart`."""
        return (cls(shape, plain, apart),)

    def _range_entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        return _wavelets_entering(low, high, self._tree_size(axis))

    def _tree_size(self, axis: int) -> int:
        """The axis, filled up to a power of two with cells that are never counted in."""
        return padded(self.ordered(axis))[0]

    def _measure(self, values: Reals, axis: int) -> Reals:
        size = self._tree_size(axis)
        out = np.zeros((*values.shape[:-1], size))
        rest = np.zeros((*values.shape[:-1], size))
        rest[..., : values.shape[-1]] = values
        while size > 1:
            left, right = rest[..., 0::2], rest[..., 1::2]
            size //= 2
            out[..., size : 2 * size] = left - right
            rest = left + right
        out[..., :1] = rest
        return out

    def _solve(self, values: Reals, axis: int) -> Reals:
        total = values[..., :1]
        size = 1
        while size < values.shape[-1]:
            difference = values[..., size : 2 * size]
            both = np.empty((*values.shape[:-1], 2 * size))
            both[..., 0::2] = (total + difference) / 2.0
            both[..., 1::2] = (total - difference) / 2.0
            total, size = both, 2 * size
        return np.ascontiguousarray(total[..., : self.ordered(axis)])

    def _weigh(self, weights: Reals, axis: int) -> Reals:
        """Rows are orthogonal, so the transpose of the inverse is the transform over their squared lengths."""
        return self._measure(weights, axis) / self._squares(self._tree_size(axis))

    @staticmethod
    def _squares(size: int) -> Reals:
        out = np.full(size, float(size))
        level = 1
        while level < size:
            out[level : 2 * level] = size / level
            level *= 2
        return out

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} Haar wavelet coefficients"


@dataclass(frozen=True, eq=False)
class Tree(OrderedStrategy):
    """The count of every node of a tree over an axis, from the root to the cells.

    The estimate is the least-squares one, by two passes over the tree (Hay et al. 2010): the counts of children then
    add up to that of their parent.

    A tree has as many levels as one of `branching` branches needs; on each axis it then has as few branches as so many
    levels need, so that few cells are added to fill it up.
    """

    kind: ClassVar[str] = "tree"
    mechanism: ClassVar[str] = "hierarchical"

    shape: tuple[int, ...]
    branching: int = 2
    plain: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.branching < 2:
            raise ValueError("a tree needs at least two branches")

    @classmethod
    def candidates(cls, shape: tuple[int, ...], plain: tuple[int, ...], apart: tuple[int, ...] = ()) -> Sequence[Self]:
        """Trees of few and of many branches for a `shape`, each tree once.

        There is none along the `plain` axes. Along those that are `apart` the last cell is outside the tree, or in it:
        the root of a low tree is then the number of rows, which a replaced row leaves as it is.
        """
        largest = max(max(shape), 2)
        branchings = sorted({min(b, largest) for b in _BRANCHINGS})
        trees = [cls(shape, b, plain, own) for own in dict.fromkeys((apart, ())) for b in branchings]
        kept: dict[tuple[tuple[int, ...], ...], Self] = {}
        for tree in trees:  # different numbers of branches may make the same tree
            kept.setdefault((tree.apart, tuple(tree.levels(a) for a in range(len(shape)))), tree)
        return [tree for tree in kept.values() if tree.numbers <= _MOST_NODES] or trees[-1:]

    def _range_entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        return _nodes_entering(low, high, self.branches(axis), self.levels(axis))

    def levels(self, axis: int) -> int:
        """Levels of the tree over an axis, root and cells among them."""
        return 1 if axis in self.plain else padded(self.ordered(axis), self.branching)[1] + 1

    def branches(self, axis: int) -> int:
        """Branches of the tree over an axis."""
        depth = self.levels(axis) - 1
        return next(b for b in range(2, self.branching + 1) if b**depth >= self.ordered(axis))

    def _tree_size(self, axis: int) -> int:
        """Nodes of the tree."""
        return sum(self.branches(axis) ** level for level in range(self.levels(axis)))

    def _sums(self, leaves: Reals, axis: int) -> list[Reals]:
        """Sums at every level, the root first."""
        b = self.branches(axis)
        full = np.zeros((*leaves.shape[:-1], b ** (self.levels(axis) - 1)))
        full[..., : leaves.shape[-1]] = leaves
        out = [full]
        while out[0].shape[-1] > 1:
            out.insert(0, out[0].reshape(*out[0].shape[:-1], -1, b).sum(axis=-1))
        return out

    def _measure(self, values: Reals, axis: int) -> Reals:
        return np.concatenate(self._sums(values, axis), axis=-1)

    def _solve(self, values: Reals, axis: int) -> Reals:
        ends = np.cumsum([self.branches(axis) ** level for level in range(self.levels(axis))])[:-1]
        levels = [np.asarray(level) for level in np.split(values, ends, axis=-1)]
        return self._consistent(levels, axis)[..., : self.ordered(axis)]

    def _consistent(self, levels: list[Reals], axis: int) -> Reals:
        """Least-squares leaves of noisy nodes, all with noise of the same size."""
        b = self.branches(axis)
        best = [levels[-1]]
        for height, own in enumerate(reversed(levels[:-1]), start=2):  # a leaf has height 1
            below = best[0].reshape(*best[0].shape[:-1], -1, b).sum(axis=-1)
            share = (float(b) ** height - float(b) ** (height - 1)) / (float(b) ** height - 1.0)
            best.insert(0, share * own + (1.0 - share) * below)
        down = best[0]
        for children in best[1:]:
            families = children.reshape(*children.shape[:-1], -1, b)
            down = (families + ((down - families.sum(axis=-1)) / b)[..., None]).reshape(children.shape)
        return down

    def _weigh(self, weights: Reals, axis: int) -> Reals:
        """A (A'A)^-1 w; the estimate from leaves that hold w, and nothing above them, is (A'A)^-1 w.

        The domain's own cells are estimated as if those it was filled up with could hold rows too.
        """
        sums = self._sums(weights, axis)
        only_leaves = [np.zeros_like(level) for level in sums[:-1]] + [sums[-1]]
        return np.concatenate(self._sums(self._consistent(only_leaves, axis), axis), axis=-1)

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} nodes of a tree of {self.branching} branches"


# ---- how noise enters a range, from its ends alone
# Within a tree only the nodes that hold an end of a range, and their children, differ from their neighbours.


def _overlap(low: Reals, high: Reals, start: Reals, width: float) -> Reals:
    """How much of the cells from `start` on lies in a range."""
    return np.asarray(np.maximum(np.minimum(high, start + width) - np.maximum(low, start), 0.0))


def _cells_entering(low: Reals, high: Reals) -> tuple[Reals, Reals]:
    """Cells are covered wholly, but for the first and the last."""
    first, last = np.floor(low), np.maximum(np.ceil(high), np.floor(low) + 1.0) - 1.0
    starting, ending = _overlap(low, high, first, 1.0), np.where(last > first, _overlap(low, high, last, 1.0), 0.0)
    whole = np.maximum(last - first - 1.0, 0.0)
    return starting**2 + ending**2 + whole, np.maximum(np.maximum(starting, ending), whole > 0.0)


def _wavelets_entering(low: Reals, high: Reals, size: int) -> tuple[Reals, Reals]:
    """A wavelet that holds neither end has as much on its left as on its right."""
    total = (high - low) / size
    squares, largest = total**2, total
    width = size
    while width > 1:
        left, right = np.floor(low / width), np.floor(high / width)
        for node in (left, np.where(right > left, right, np.nan)):
            first = _overlap(low, high, node * width, width / 2)
            found = np.nan_to_num((first - _overlap(low, high, node * width + width / 2, width / 2)) / width)
            squares, largest = squares + found**2, np.maximum(largest, np.abs(found))
        width //= 2
    return squares, largest


def _nodes_entering(low: Reals, high: Reals, branches: int, levels: int) -> tuple[Reals, Reals]:
    """Sum of squares and largest entry of the dual of ranges from `low` to `high`, in a tree of this fan-out and depth.

    Top-down pass of the tree least-squares estimator: a child's coefficient is an equal share of its parent's plus a
    term for how much more of the child than of its siblings the range covers. Below a node that is covered wholly or
    not at all the coefficient is shared out evenly, level by level, so only two nodes per level need be followed.
    """
    kept = [0.0, 1.0]  # of the cover of a node of each height, what the nodes below leave to be said by it
    for height in range(2, levels + 1):
        kept.append(kept[-1] * (branches ** (height - 1) - 1.0) / (branches**height - 1.0))
    entry = kept[levels] * (high - low)
    squares, largest = entry**2, np.abs(entry)
    nodes, entries = [np.zeros(len(low)), np.full(len(low), np.nan)], [entry, np.zeros(len(low))]
    for height in range(levels - 1, 0, -1):
        width = float(branches ** (height - 1))
        below = sum(float(branches) ** -k for k in range(height))
        last = branches ** (levels - height) - 1.0
        ends = [np.minimum(np.floor(low / width), last), np.minimum(np.floor(high / width), last)]
        following: list[Reals] = []
        for side in (0, 1):  # the node that holds the lower end, and the one with the upper where that is another
            children = np.asarray(nodes[side][:, None] * branches + np.arange(branches), dtype=np.float64)
            covers = _overlap(low[:, None], high[:, None], children * width, width)
            found = kept[height] * (covers - covers.mean(axis=1, keepdims=True)) + entries[side][:, None] / branches
            found = np.where(np.isnan(children), 0.0, found)
            at_end = (children == ends[0][:, None]) | (children == ends[1][:, None])
            squares = squares + np.where(at_end, found**2, below * found**2).sum(axis=1)
            largest = np.maximum(largest, np.abs(found).max(axis=1))
            following += [
                np.where(children == ends[0][:, None], found, 0.0).sum(axis=1),
                np.where(children == ends[1][:, None], found, 0.0).sum(axis=1),
            ]
        entries = [following[0] + following[2], following[1] + following[3]]
        nodes = [ends[0], np.where(ends[1] > ends[0], ends[1], np.nan)]
    return squares, largest
