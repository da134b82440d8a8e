"""Rows about a public centre, cut to a public length.

Whatever the centre is, and wherever it came from (the middle of the ranges, or a mean that was already published), a
row comes out in whole grid steps and at most `bound` long: the sensitivity of what is measured of such rows does not
depend on the centre, so a plan can state the noise before the centre has been measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.space import CATEGORY_STEPS, GRID, Space

__all__ = ["Centred"]

Reals = NDArray[np.float64]
_EXACT = 2.0**53
_MOST_COORDINATES = 2**19
"""Squares of at most 2 CATEGORY_STEPS each then add up to less than 2^53."""


@dataclass(frozen=True, eq=False)
class Centred:
    """`x - centre`, shortened to `bound` where it is longer, in grid steps. No centre: the middle of the ranges."""

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
    def about(mean: Reals | None, length: float, space: Space) -> Centred:
        """Of a length and a centre in encoded units; the centre is moved into the ranges."""
        if space.width > _MOST_COORDINATES:
            raise InputError(
                f"at most {_MOST_COORDINATES} encoded coordinates, so that lengths are exact",
                f"{space.width}",
                "drop columns or values of categories",
            )
        bound = max(1, math.floor(length * GRID))
        if mean is None:
            return Centred(bound)
        reach = np.repeat(space.reaches, space.widths)
        return Centred(bound, np.rint(np.clip(mean * GRID, -reach, reach)).astype(np.int64))

    @property
    def largest(self) -> float:
        """Most that a coordinate can be, in grid steps."""
        return float(min(self.bound, 2 * CATEGORY_STEPS))

    @property
    def keeps_empty(self) -> bool:
        """Whether a row of zeros stays one."""
        return self.centre is None

    def of(self, batch: Reals) -> Reals:
        """Whole numbers; the exact squared length of every row is at most the square of the bound.

        Each row's result depends on that row alone: squared lengths are exact sums of whole numbers, and all that
        follows works on single numbers, cut towards zero.
        """
        rows = batch.copy() if self.centre is None else batch - self.centre
        squared = np.einsum("ij,ij->i", rows, rows)
        if not float(squared.max(initial=0.0)) < _EXACT:
            raise RuntimeError("rows too long to be measured exactly")
        limit = float(self.bound) ** 2
        left = np.flatnonzero(squared > limit)
        factor, nudge = self.bound / np.sqrt(squared[left]), 2.0**-50
        while len(left):
            cut = np.trunc(rows[left] * factor[:, None])
            # a product that rounds up to the next whole number can leave a row a hair too long: shrink again
            long = np.einsum("ij,ij->i", cut, cut) > limit
            rows[left[~long]] = cut[~long]
            left, factor = left[long], factor[long] * (1 - nudge)
            nudge *= 2
        return rows
