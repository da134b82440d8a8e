"""The query that is answered row by row (every row times a public matrix), and the clipping of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.declare.space import CATEGORY_STEPS, GRID, WHOLE, Space
from adumbra.numerics.integer_kernels import clipped
from adumbra.queries.query import GaussianRecipe, Part, PureNoise, Query, RowAnswers, SumAnswer

__all__ = ["ROWS", "RowClip", "RowMap", "check_contraction", "contraction"]


# Rows about a public centre, clipped to a public length.
#
# Whatever the centre is, and wherever it came from (the middle of the ranges, or a mean that was already published), a
# row comes out in whole grid steps and at most `bound` long: the sensitivity of what is measured of such rows does not
# depend on the centre, so a plan can state the noise before the centre has been measured.

_MOST_COORDINATES = 2**19
"""Squares of at most 2 CATEGORY_STEPS each then add up to less than 2^53."""


@dataclass(frozen=True, eq=False)
class RowClip:
    """`x - centre`, clipped to the length `bound`, in grid steps. No centre: the middle of the ranges."""

    bound: int
    centre: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError("rows need a length of at least one grid step")
        if self.centre is not None:
            own = np.array(self.centre, dtype=np.int64)
            own.setflags(write=False)
            object.__setattr__(self, "centre", own)
            if bool((np.abs(own) > CATEGORY_STEPS).any()):
                raise ValueError("a centre lies within the ranges")

    @staticmethod
    def about(mean: Reals | None, length: float, space: Space) -> RowClip:
        """Of a `length` and a centre (`mean`) in encoded units of a `space`; the centre is moved into the ranges."""
        if space.width > _MOST_COORDINATES:
            raise InputError(
                f"at most {_MOST_COORDINATES} encoded coordinates, so that lengths are exact",
                f"{space.width}",
                "drop columns or values of categories",
            )
        bound = max(1, math.floor(length * GRID))
        if mean is None:
            return RowClip(bound)
        most = np.repeat(space.steps, space.widths)
        return RowClip(bound, np.rint(np.clip(mean * GRID, -most, most)).astype(np.int64))

    @property
    def largest(self) -> float:
        """Most that a coordinate can be, in grid steps."""
        return float(min(self.bound, 2 * CATEGORY_STEPS))

    @property
    def keeps_empty(self) -> bool:
        """Whether a row of zeros stays one."""
        return self.centre is None

    def of(self, batch: Reals) -> Reals:
        """The clipped rows, in an array of their own, in whole numbers of grid steps.

        Guarantee: the exact sum of squares of every row returned is at most `bound ** 2`, and each depends on its own
        row alone: squared lengths are exact sums of whole numbers, and all that follows works on single numbers,
        rounded towards zero. Edge cases: numbers that are not whole, and rows too long to be measured exactly, are an
        error.
        """
        given = np.ascontiguousarray(batch if self.centre is None else batch - self.centre, dtype=np.float64)
        out = np.empty(given.shape)
        if clipped(given, float(self.bound), float(self.bound) ** 2, out) < 0:
            raise RuntimeError("rows too long to be measured exactly")
        return out


ROWS = "rows"
"""Name of a row map's only part."""


def contraction(basis: Reals, step: float) -> NDArray[np.int64]:
    """Orthonormal columns as whole multiples of `step`, shrunk by so little that no row grows under them.

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
class RowMap(Query[RowAnswers]):
    """One vector per row: `x -> x M`, for a public integer matrix M of shape (coordinates, dimension).

    `step` is what one unit of M stands for, so the real matrix is `M * step` and the answer, in encoded units,
    is `(x M) * step / GRID` with x in grid steps. It answers row by row, so it publishes the number of rows.

    With `clip` the map is applied to rows that were clipped to a length first. Its matrix lengthens no row, which is
    checked, and its sensitivity rests on that alone: it is the same for every such matrix, so a plan can state it
    before an earlier measurement has found the matrix.
    """

    matrix: NDArray[np.int64]
    step: float
    recipe: GaussianRecipe | None = None
    clip: RowClip | None = None
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        """Keep a copy nobody can write to: what is charged for is what will be multiplied."""
        if not np.issubdtype(self.matrix.dtype, np.integer) or self.matrix.ndim != 2:
            raise TypeError("a row map needs a two-dimensional matrix of integers")
        own = np.array(self.matrix, dtype=np.int64)
        own.setflags(write=False)
        object.__setattr__(self, "matrix", own)
        if self.clip is not None:
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

        A category has one non-zero coordinate, so its block contributes its largest entry, not their total; a set has
        as many as it can hold, and contributes at most so many times that.
        """
        if self.clip is not None:  # whatever the matrix: a column is at most 1/step long, and so is each part of it
            return self.clip.bound / self.step
        largest = np.maximum.reduceat(np.abs(self.matrix), space.starts, axis=0).astype(np.float64)
        return float(((space.steps * space.filled) @ largest).max(initial=0.0))

    @property
    def per_row(self) -> RowMap:
        """All of it."""
        return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """`rows`, of weight 1."""
        return (Part(ROWS, (self.dimension,), 1.0, self.answer_step, 0.0, per_row=True),)

    @property
    def most_rows(self) -> int:
        """Any number: rows are never added up."""
        return WHOLE

    def without_recipe(self) -> RowMap:
        """The same matrix, for which no freshness is claimed."""
        return replace(self, recipe=None)

    def mapped(self, batch: Reals) -> Reals:
        """Exact integers, as float64: valid while `largest_sum` stays below `EXACT` (the meter checks)."""
        rows = batch if self.clip is None else self.clip.of(batch)
        return rows @ self.matrix.astype(np.float64)

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """The rows of the batch, in whole steps."""
        return {ROWS: self.mapped(batch)}

    def answered(self, rows: RowAnswers | None, sums: SumAnswer | None) -> RowAnswers:
        """The noisy `rows`; there are no `sums`."""
        assert rows is not None
        return rows

    def halves(self, answer: RowAnswers) -> tuple[RowAnswers, None]:
        """The noisy rows."""
        return answer, None

    def describe(self) -> str:
        """A few words for a plan."""
        return f"row map {self.matrix.shape[0]} x {self.dimension}"
