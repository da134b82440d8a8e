"""Rows about a public centre, clipped to a public length.

Whatever the centre is, and wherever it came from (the middle of the ranges, or a mean that was already published), a
row comes out in whole grid steps and at most `bound` long: the sensitivity of what is measured of such rows does not
depend on the centre, so a plan can state the noise before the centre has been measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.declare.space import CATEGORY_STEPS, GRID, Space
from adumbra.numerics.integer_kernels import clipped

__all__ = ["RowClip"]

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
        reach = np.repeat(space.reaches, space.widths)
        return RowClip(bound, np.rint(np.clip(mean * GRID, -reach, reach)).astype(np.int64))

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
