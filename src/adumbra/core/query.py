"""The questions that may be asked of private rows.

A query is public data: it says which numbers are wanted, never what they are. `privacy.sensitivity` knows how far
one person can move each kind of query, `privacy.meter` asks it and adds the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.core.centred import Centred
from adumbra.core.randomness import PublicSeed
from adumbra.core.space import GRID, Space

__all__ = ["EXACT", "WHOLE", "GaussianRecipe", "PureNoise", "RowMap", "check_contraction", "contraction"]

PureNoise = Literal["laplace", "l2-laplace"]
"""Noise of an answer whose promise is pure epsilon: independent numbers, or a vector by its length."""

EXACT = 2.0**53
"""Integers below this are exact in float64, and so is every sum of them that stays below it."""
WHOLE = 2**61
"""Answers below this meet their noise in 64-bit integers, and nothing overflows (`privacy.noise`)."""


@dataclass(frozen=True)
class GaussianRecipe:
    """How a matrix of iid N(0, 1/dimension) entries was drawn, so that the meter can draw it again and compare.

    Only a matrix whose recipe holds, from a seed that is fresh, is accounted as a fresh projection.
    """

    seed: PublicSeed
    dimension: int


def contraction(basis: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    """Orthonormal columns as whole multiples of `step`, shrunk by a hair so that no row grows under them.

    >>> bool(contraction(np.eye(2), 2.0**-18)[0, 0] * 2.0**-18 > 0.99999)
    True
    """
    # rounding moves the matrix by at most step/2 an entry, so by step/2 sqrt(entries) in norm
    shrunk = (1.0 - 1e-9) / (1.0 + step / 2 * math.sqrt(basis.size))
    matrix = np.rint(basis * (shrunk / step)).astype(np.int64)
    check_contraction(matrix, step)
    return matrix


def check_contraction(matrix: NDArray[np.int64], step: float) -> None:
    """Refuse a matrix that lengthens some row."""
    real = matrix * step
    small = real.T @ real if real.shape[0] >= real.shape[1] else real @ real.T
    # float64 errs by less than 1e-12 here; sensitivities are nudged outward by 1e-9
    if not float(np.linalg.eigvalsh(small)[-1]) <= 1.0:
        raise ValueError("the matrix of a contraction lengthens a row")


@dataclass(frozen=True, eq=False)
class RowMap:
    """One vector per row: `x -> x M`, for a public integer matrix M of shape (coordinates, dimension).

    `step` is what one unit of M stands for, so the real matrix is `M * step` and the answer, in encoded units,
    is `(x M) * step / GRID` with x in grid steps. It answers row by row, so it publishes the number of rows.

    A map of `view` is applied to rows that were cut to a length first. Its matrix lengthens no row, which is checked,
    and its sensitivity rests on that alone: it is the same for every such matrix, so a plan can state it before an
    earlier look has found the matrix.
    """

    matrix: NDArray[np.int64]
    step: float
    recipe: GaussianRecipe | None = None
    view: Centred | None = None
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        """Keep a copy nobody can write to: what is charged for is what will be multiplied."""
        if not np.issubdtype(self.matrix.dtype, np.integer) or self.matrix.ndim != 2:
            raise TypeError("a row map needs a two-dimensional matrix of integers")
        own = np.array(self.matrix, dtype=np.int64)
        own.setflags(write=False)
        object.__setattr__(self, "matrix", own)
        if self.view is not None:
            check_contraction(own, self.step)

    @property
    def dimension(self) -> int:
        """Numbers per row."""
        return int(self.matrix.shape[1])

    @property
    def answer_step(self) -> float:
        """Value of one integer step of the answer, in encoded units."""
        return self.step / GRID

    def largest_sum(self, space: Space) -> float:
        """Bound on every partial sum of the product: the sum over columns of the largest cell times |M|.

        A category has one non-zero coordinate, so its block contributes its largest entry, not their total.
        """
        if self.view is not None:  # whatever the matrix: a column is at most 1/step long, and so is each part of it
            return self.view.bound / self.step
        largest = np.maximum.reduceat(np.abs(self.matrix), space.starts, axis=0).astype(np.float64)
        return float((space.reaches @ largest).max(initial=0.0))

    def describe(self) -> str:
        """A few words for a plan."""
        return f"row map {self.matrix.shape[0]} x {self.dimension}"

    def answer(self, batch: NDArray[np.float64]) -> NDArray[np.float64]:
        """Exact integers, as float64: valid while `largest_sum` stays below `EXACT` (the meter checks)."""
        rows = batch if self.view is None else self.view.of(batch)
        return rows @ self.matrix.astype(np.float64)
