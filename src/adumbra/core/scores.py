"""Public maps from an encoded row to a vector of length at most 1.

Whatever the centre and the scale are, and wherever they came from (the schema, or numbers that were already
published), the result lies in the unit ball, on a grid of 1/BALL. So a measurement of scores has a sensitivity that
does not depend on them, and a plan can state the noise of a second look before the first has been taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adumbra.core.cells import Cells, Groups

__all__ = ["BALL", "Linear", "Lookup", "Scores"]

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

BALL = 2**14
"""Integer steps of a length of 1. Sums of squares stay exact below 2^25 rows."""


def _own(values: Reals) -> Reals:
    """A finite copy nobody can write to: what is measured is what was checked."""
    own = np.array(values, dtype=np.float64)
    if not np.isfinite(own).all():
        raise ValueError("scores need finite numbers")
    own.setflags(write=False)
    return own


@dataclass(frozen=True, eq=False)
class Linear:
    """`(value - centre) / scale`, cut at +-limit, for coordinates of the encoded row (in grid steps)."""

    coordinates: Integers
    centre: Reals
    scale: Reals
    limit: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", _own(self.centre))
        object.__setattr__(self, "scale", _own(self.scale))
        if bool((self.scale <= 0).any()) or not self.limit > 0:
            raise ValueError("scores need positive scales")

    def of(self, batch: Reals) -> Reals:
        """One score a coordinate."""
        scores = (batch[:, self.coordinates] - self.centre) / self.scale
        return np.clip(scores, -self.limit, self.limit, out=scores)


@dataclass(frozen=True, eq=False)
class Lookup:
    """A vector for each cell of a column; an empty cell gets zeros."""

    column: int
    """Position among the columns of `Scores.cells`."""
    vectors: Reals

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", _own(self.vectors))


@dataclass(frozen=True, eq=False)
class Scores:
    """The linear scores, then those looked up; less the centre of the row's class; over the radius; into the ball."""

    linear: Linear
    cells: Cells
    lookups: tuple[Lookup, ...]
    radius: float
    groups: Groups | None = None
    centres: Reals | None = field(default=None)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise ValueError("scores need a positive radius")
        if any(len(lookup.vectors) != self.cells.counts[lookup.column] for lookup in self.lookups):
            raise ValueError("one vector for each cell")
        if self.centres is not None:
            if self.groups is None or self.centres.shape != (self.groups.count, self.dimension):
                raise ValueError("one centre for each class")
            object.__setattr__(self, "centres", _own(self.centres))

    @property
    def dimension(self) -> int:
        """Scores per row."""
        return len(self.linear.coordinates) + sum(int(lookup.vectors.shape[1]) for lookup in self.lookups)

    def of(self, batch: Reals) -> Reals:
        """Whole numbers of 1/BALL; the exact squared length of every row is at most BALL^2."""
        scores = np.empty((len(batch), self.dimension))
        start = len(self.linear.coordinates)
        scores[:, :start] = self.linear.of(batch)
        if self.lookups:
            cells = self.cells.of(batch)
            for lookup in self.lookups:
                stop = start + lookup.vectors.shape[1]
                cell = cells[:, lookup.column]
                scores[:, start:stop] = lookup.vectors[cell]
                scores[cell < 0, start:stop] = 0.0
                start = stop
        if self.centres is not None and self.groups is not None:
            group = self.groups.of(batch)
            known = group >= 0
            scores[known] -= self.centres[group[known]]
        scores *= BALL / self.radius
        length = np.sqrt(np.einsum("ij,ij->i", scores, scores))
        scores *= (BALL / np.maximum(length, BALL))[:, None]
        # Towards zero: no coordinate grows. Float64 had a say before, by less than 1e-12 of BALL^2 = 2^28 in all, and
        # the squared length is now whole, so it cannot exceed BALL^2.
        np.trunc(scores, out=scores)
        if bool((np.einsum("ij,ij->i", scores, scores) > float(BALL) ** 2).any()):
            raise RuntimeError("scores at the door exceed their ball")
        return scores
