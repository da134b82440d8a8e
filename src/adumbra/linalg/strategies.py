"""What to measure of a histogram, so that sums over ranges of cells come out well: cells, wavelets, trees, waves.

`Identity`, `Haar` and `Tree` work along each axis of the domain by itself, so the whole is a Kronecker product: an
estimate is made axis by axis, and the noise on a box of cells is a product over the axes. `Waves` are the lowest
frequencies of the domain's cells in order.

`recipe` writes a strategy down in plain values; `rebuilt` makes it again. Exact answers are whole numbers (`core.
histogram.Strategy`); how far a row can move them is in `privacy.strategies`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.core.sums import COUNT_STEPS

__all__ = ["Haar", "Identity", "Linear", "Separable", "Tree", "Waves", "padded", "rebuilt"]

Reals = NDArray[np.float64]

_WAVE_STEPS = 2.0**18


def padded(cells: int, branching: int = 2) -> tuple[int, int]:
    """The least power of `branching` that holds so many cells, and its exponent.

    >>> padded(256), padded(100), padded(17, 4), padded(1)
    ((256, 8), (128, 7), (64, 3), (1, 0))
    """
    size, levels = 1, 0
    while size < cells:
        size, levels = size * branching, levels + 1
    return size, levels


class Linear(ABC):
    """A strategy whose estimate of the counts is linear in what was measured.

    An estimated query w is then its exact value plus <v, noise> for a vector v, its dual; `dual` finds it.
    """

    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Cells of the domain."""
        return math.prod(self.shape)

    @property
    @abstractmethod
    def numbers(self) -> int:
        """Numbers measured."""

    @abstractmethod
    def estimate(self, measured: Reals) -> Reals:
        """Least-squares counts of all cells, in C order; vectorised over leading axes."""

    @abstractmethod
    def dual(self, weights: Reals) -> Reals:
        """(..., cells) weights of queries -> (..., numbers): how the noise enters each of them."""

    @abstractmethod
    def recipe(self) -> dict[str, Any]:
        """Plain values to make it again from."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for a plan."""


class Separable(Linear):
    """A Kronecker product over the axes of the domain."""

    @property
    def step(self) -> float:
        """One step of a count."""
        return 1.0 / COUNT_STEPS

    @property
    def largest(self) -> float:
        """Every entry is -1, 0 or 1."""
        return float(COUNT_STEPS)

    @abstractmethod
    def measured_along(self, axis: int) -> int:
        """Numbers measured along an axis."""

    @abstractmethod
    def _forward(self, values: Reals, axis: int) -> Reals:
        """Measure along the last axis of an array, which is axis number `axis` of the domain."""

    @abstractmethod
    def _backward(self, values: Reals, axis: int) -> Reals:
        """Least-squares cells along the last axis."""

    @abstractmethod
    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """(..., cells of the axis) -> (..., numbers along it)."""

    @property
    def numbers(self) -> int:
        """Numbers measured."""
        return math.prod(self.measured_along(axis) for axis in range(len(self.shape)))

    def exact(self, counts: Reals) -> Reals:
        """All numbers, in whole steps. Only sums and differences of whole numbers."""
        return self._along_all(counts * COUNT_STEPS, self.shape, self._forward)

    def estimate(self, measured: Reals) -> Reals:
        """Least-squares counts."""
        sizes = tuple(self.measured_along(axis) for axis in range(len(self.shape)))
        return self._along_all(measured, sizes, self._backward)

    def dual(self, weights: Reals) -> Reals:
        """How the noise enters queries with any weights."""
        return self._along_all(weights, self.shape, self.axis_dual)

    def _along_all(self, values: Reals, sizes: tuple[int, ...], step: Any) -> Reals:
        lead = values.shape[:-1]
        out = values.reshape(*lead, *sizes)
        for axis in range(len(sizes)):
            place = len(lead) + axis
            out = np.moveaxis(step(np.moveaxis(out, place, -1), axis), -1, place)
        return np.ascontiguousarray(out).reshape(*lead, -1)


@dataclass(frozen=True, eq=False)
class Identity(Separable):
    """Every cell's count."""

    shape: tuple[int, ...]

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

    def recipe(self) -> dict[str, Any]:
        """Plain values."""
        return {"strategy": "identity", "shape": list(self.shape)}


@dataclass(frozen=True, eq=False)
class Haar(Separable):
    """Total, and for every node of a binary tree over an axis the count of its left half less that of its right.

    These are Privelet's coefficients times the cells below them, which is what its weights divide the noise by: with
    noise of one scale on all of them the two mechanisms are the same. Along a `plain` axis cells stay as they are.
    """

    shape: tuple[int, ...]
    plain: tuple[int, ...] = ()

    def measured_along(self, axis: int) -> int:
        """The axis, filled up to a power of two with cells that are never counted in."""
        return self.shape[axis] if axis in self.plain else padded(self.shape[axis])[0]

    def _forward(self, values: Reals, axis: int) -> Reals:
        if axis in self.plain:
            return values
        size = self.measured_along(axis)
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

    def _backward(self, values: Reals, axis: int) -> Reals:
        if axis in self.plain:
            return values
        total = values[..., :1]
        size = 1
        while size < values.shape[-1]:
            difference = values[..., size : 2 * size]
            both = np.empty((*values.shape[:-1], 2 * size))
            both[..., 0::2] = (total + difference) / 2.0
            both[..., 1::2] = (total - difference) / 2.0
            total, size = both, 2 * size
        return np.ascontiguousarray(total[..., : self.shape[axis]])

    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """Rows are orthogonal, so the transpose of the inverse is the transform over their squared lengths."""
        if axis in self.plain:
            return weights
        return self._forward(weights, axis) / self._squares(self.measured_along(axis))

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

    def recipe(self) -> dict[str, Any]:
        """Plain values."""
        return {"strategy": "haar", "shape": list(self.shape), "plain": list(self.plain)}


@dataclass(frozen=True, eq=False)
class Tree(Separable):
    """The count of every node of a tree over an axis, from the root to the cells.

    The estimate is the least-squares one, by two passes over the tree (Hay et al. 2010): the counts of children then
    add up to that of their parent.

    A tree has as many levels as one of `branching` branches needs; on each axis it then has as few branches as so many
    levels need, so that few cells are added to fill it up. Along a `plain` axis there is no tree, only the cells.
    """

    shape: tuple[int, ...]
    branching: int = 2
    plain: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.branching < 2:
            raise ValueError("a tree needs at least two branches")

    def levels(self, axis: int) -> int:
        """Levels of the tree over an axis, root and cells among them."""
        return 1 if axis in self.plain else padded(self.shape[axis], self.branching)[1] + 1

    def branches(self, axis: int) -> int:
        """Branches of the tree over an axis."""
        depth = self.levels(axis) - 1
        return next(b for b in range(2, self.branching + 1) if b**depth >= self.shape[axis])

    def measured_along(self, axis: int) -> int:
        """Nodes of the tree."""
        if axis in self.plain:
            return self.shape[axis]
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

    def _forward(self, values: Reals, axis: int) -> Reals:
        return values if axis in self.plain else np.concatenate(self._sums(values, axis), axis=-1)

    def _backward(self, values: Reals, axis: int) -> Reals:
        if axis in self.plain:
            return values
        ends = np.cumsum([self.branches(axis) ** level for level in range(self.levels(axis))])[:-1]
        levels = [np.asarray(level) for level in np.split(values, ends, axis=-1)]
        return self._consistent(levels, axis)[..., : self.shape[axis]]

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

    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """A (A'A)^-1 w; the estimate from leaves that hold w, and nothing above them, is (A'A)^-1 w.

        The domain's own cells are estimated as if those it was filled up with could hold rows too.
        """
        if axis in self.plain:
            return weights
        sums = self._sums(weights, axis)
        only_leaves = [np.zeros_like(level) for level in sums[:-1]] + [sums[-1]]
        return np.concatenate(self._sums(self._consistent(only_leaves, axis), axis), axis=-1)

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} nodes of a tree of {self.branching} branches"

    def recipe(self) -> dict[str, Any]:
        """Plain values."""
        facts = {"strategy": "tree", "shape": list(self.shape), "branching": self.branching}
        return facts | {"plain": list(self.plain)}


@dataclass(frozen=True, eq=False)
class Waves(Linear):
    """The mean and the `kept` lowest frequencies (a cosine and a sine each) of the cells in order.

    Rows are those of an orthonormal basis over `divisor`, a hair short, on a fine grid: one row of the table moves all
    numbers together by at most 1 in absolute terms and a row that changes its cell by at most sqrt(2), whatever `kept`
    is.
    """

    shape: tuple[int, ...]
    kept: int

    def __post_init__(self) -> None:
        if not 0 <= self.kept <= self.cells // 2:
            raise ValueError(f"from 0 to {self.cells // 2} frequencies")

    @property
    def numbers(self) -> int:
        """A mean, and two for each frequency; the highest of an even number of cells has no sine."""
        return min(2 * self.kept + 1, self.cells)

    @property
    def divisor(self) -> float:
        """The lesser of sqrt(m), since |v|_1 <= sqrt(m) |v|_2, and m sqrt(2/N), since |cos| + |sin| <= sqrt(2)."""
        return min(math.sqrt(self.numbers), self.numbers * math.sqrt(2.0 / self.cells))

    @property
    def step(self) -> float:
        """A fine part of the largest entry."""
        return math.sqrt(2.0 / self.cells) / self.divisor / _WAVE_STEPS

    @property
    def largest(self) -> float:
        """The largest entry."""
        return _WAVE_STEPS

    @cached_property
    def _table(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cosine and sine of every place on the circle, as whole numbers."""
        angle = 2.0 * math.pi * np.arange(self.cells) / self.cells
        short = _WAVE_STEPS * (1.0 - 2.0**-17)
        return np.rint(short * np.cos(angle)).astype(np.int64), np.rint(short * np.sin(angle)).astype(np.int64)

    def _row(self, index: int) -> NDArray[np.int64]:
        """Row number `index`, in whole steps: mean, cos 1, sin 1, cos 2, ..."""
        cosine, sine = self._table
        if index == 0:
            return np.full(self.cells, math.floor(_WAVE_STEPS * (1.0 - 2.0**-17) / math.sqrt(2.0)), dtype=np.int64)
        frequency = (index + 1) // 2
        places = (np.arange(self.cells) * frequency) % self.cells
        row = (cosine if index % 2 else sine)[places]
        if 2 * frequency == self.cells:  # +-1 everywhere, whose square does not average to a half
            row = np.sign(row) * math.floor(_WAVE_STEPS * (1.0 - 2.0**-17) / math.sqrt(2.0))
        return np.asarray(row)

    def exact(self, counts: Reals) -> Reals:
        """All numbers, in whole steps."""
        # whole numbers below 2^53 in every partial sum, so exact in any order
        return np.array([float(self._row(index).astype(np.float64) @ counts) for index in range(self.numbers)])

    def estimate(self, measured: Reals) -> Reals:
        """Counts of the waves alone: what they leave out is not there."""
        cells, own = self.cells, measured * self.divisor
        full = np.zeros((*measured.shape[:-1], cells // 2 + 1), dtype=np.complex128)
        full[..., 0] = own[..., 0] * math.sqrt(cells)
        cosines, sines = own[..., 1::2], own[..., 2::2]
        full[..., 1 : 1 + cosines.shape[-1]] = cosines
        full[..., 1 : 1 + sines.shape[-1]] -= 1j * sines
        full[..., 1:] *= math.sqrt(cells / 2.0)
        if 2 * self.kept == cells:  # the highest frequency is its own mirror image
            full[..., -1] *= math.sqrt(2.0)
        return np.asarray(np.fft.irfft(full, cells))

    def dual(self, weights: Reals) -> Reals:
        """The orthonormal waves, applied to the weights, times the divisor."""
        cells = self.cells
        found = np.fft.rfft(weights)[..., : self.kept + 1] * math.sqrt(2.0 / cells)
        out = np.empty((*weights.shape[:-1], 2 * self.kept + 1))
        out[..., 0] = found[..., 0].real / math.sqrt(2.0)
        out[..., 1::2] = found[..., 1:].real
        out[..., 2::2] = -found[..., 1:].imag
        if 2 * self.kept == cells:
            out[..., -2] /= math.sqrt(2.0)
        return np.asarray(out[..., : self.numbers] * self.divisor)

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} Fourier coefficients"

    def recipe(self) -> dict[str, Any]:
        """Plain values."""
        return {"strategy": "waves", "shape": list(self.shape), "kept": self.kept}


def rebuilt(recipe: Mapping[str, Any]) -> Linear:
    """The strategy that wrote this recipe down."""
    shape = tuple(int(n) for n in recipe["shape"])
    kind = recipe["strategy"]
    if kind == "identity":
        return Identity(shape)
    if kind == "haar":
        return Haar(shape, tuple(recipe["plain"]))
    if kind == "tree":
        return Tree(shape, int(recipe["branching"]), tuple(recipe["plain"]))
    if kind == "waves":
        return Waves(shape, int(recipe["kept"]))
    raise LookupError(f"no strategy {kind!r}")
