"""Public maps from an encoded row to a vector of length at most 1.

Whatever the centre and the scale are, and wherever they came from (the schema, or numbers that were already
published), the result lies in the unit ball, on a grid of 1/BALL. So a measurement of scores has a sensitivity that
does not depend on them, and a plan can state the noise of a second measurement before the first has been made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.queries.cells import Cells, Groups

__all__ = ["BALL", "Linear", "Lookup", "Residuals", "Scores"]


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
    """`(value - centre) / scale`, clipped at +-limit, for numbers and flags (in grid steps); of an empty cell 0.

    Not for coordinates of a category, whose zeros are values too: they are looked up.
    """

    coordinates: Integers
    centre: Reals
    scale: Reals
    limit: Reals

    def __post_init__(self) -> None:
        coordinates = np.array(self.coordinates, dtype=np.int64)
        coordinates.setflags(write=False)
        object.__setattr__(self, "coordinates", coordinates)
        for name in ("centre", "scale", "limit"):
            object.__setattr__(self, name, _own(np.broadcast_to(getattr(self, name), self.coordinates.shape)))
        if bool((self.scale <= 0).any()) or bool((self.limit <= 0).any()):
            raise ValueError("scores need positive scales and limits")

    def of(self, batch: Reals) -> Reals:
        """One score per coordinate."""
        values = batch[:, self.coordinates]
        with np.errstate(over="ignore"):
            scores = (values - self.centre) / self.scale
        np.clip(scores, -self.limit, self.limit, out=scores)
        scores *= values != 0
        return scores


@dataclass(frozen=True, eq=False)
class Lookup:
    """A vector for each cell of a column; an empty cell gets zeros, unless the column has a cell for it."""

    column: int
    """Position among the columns of `Scores.cells`."""
    vectors: Reals

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", _own(self.vectors))


@dataclass(frozen=True, eq=False)
class Residuals:
    """A second map, of scores already in their ball: `x matrix - centre of the row's class`, over a radius of its own.

    A row whose class is empty gets no centre. What results is put into the unit ball again, so that whatever matrix and
    centres an earlier measurement suggested, nothing about the bound rests on them. The matrix is rounded to whole
    multiples of a power of two, small enough that its product with whole scores is exact: a row's residuals are then
    the same wherever it stands in whatever batch.
    """

    matrix: Reals
    groups: Groups | None
    centres: Reals
    radius: float

    def __post_init__(self) -> None:
        classes = 1 if self.groups is None else self.groups.count
        if self.centres.shape != (classes, self.matrix.shape[1]):
            raise ValueError("one centre for each class")
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise ValueError("residuals need a positive radius")
        matrix = _own(self.matrix)
        if bool((np.abs(matrix) > 1e100).any()):
            raise ValueError("residuals need a matrix of ordinary size")
        # every partial sum of a product is at most |x| |column| <= BALL |column| (Cauchy-Schwarz), and 2^38 BALL = 2^52
        longest = max(float(np.sqrt((matrix**2).sum(axis=0)).max(initial=0.0)), 2.0**-300)
        grid = 2.0 ** (37 - math.ceil(math.log2(longest)))
        object.__setattr__(self, "matrix", _own(np.rint(matrix * grid) / grid))
        object.__setattr__(self, "centres", _own(self.centres))

    def of(self, scores: Reals, batch: Reals) -> Reals:
        """Residuals of whole scores (of 1/BALL), in units of the radius."""
        out = scores @ self.matrix
        out /= BALL
        if self.groups is None:
            out -= self.centres[0]
        else:
            group = self.groups.of(batch)
            known = group >= 0
            out[known] -= self.centres[group[known]]
        out /= self.radius
        return out


@dataclass(frozen=True, eq=False)
class Scores:
    """The linear scores, then those looked up; over the radius; into the ball; and then, perhaps, their residuals."""

    linear: Linear
    cells: Cells
    lookups: tuple[Lookup, ...]
    radius: float
    residuals: Residuals | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise ValueError("scores need a positive radius")
        if any(len(lookup.vectors) != self.cells.sizes[lookup.column] for lookup in self.lookups):
            raise ValueError("one vector for each cell")
        if self.residuals is not None and len(self.residuals.matrix) != self._width:
            raise ValueError("a matrix with a row for each score")

    @property
    def _width(self) -> int:
        return len(self.linear.coordinates) + sum(int(lookup.vectors.shape[1]) for lookup in self.lookups)

    @property
    def dimension(self) -> int:
        """Numbers per row."""
        return self._width if self.residuals is None else int(self.residuals.matrix.shape[1])

    def of(self, batch: Reals) -> Reals:
        """Whole numbers of 1/BALL; the exact squared length of every row is at most BALL^2."""
        scores = np.empty((len(batch), self._width))
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
        with np.errstate(over="ignore"):
            scores /= self.radius
        scores = _in_ball(scores)
        return scores if self.residuals is None else _in_ball(self.residuals.of(scores, batch))


def _in_ball(rows: Reals) -> Reals:
    """Rows as whole numbers of 1/BALL, those longer than 1 clipped; in place.

    Everything before the square root is exact, and everything after works on single numbers: a row's result depends on
    that row alone, to the last bit. Towards zero, so that no coordinate grows: float64 had a say by less than 1e-12 of
    BALL^2 = 2^28 in all, and the squared length is whole, so it cannot exceed BALL^2.
    """
    most = math.floor(math.sqrt(2.0**52 / max(rows.shape[1], 1)))  # squares then add up to less than 2^53
    with np.errstate(over="ignore"):
        rows *= BALL
    np.clip(rows, -most, most, out=rows)
    np.trunc(rows, out=rows)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows *= (BALL / np.maximum(length, BALL))[:, None]
    np.trunc(rows, out=rows)
    if not bool((np.einsum("ij,ij->i", rows, rows) <= float(BALL) ** 2).all()):
        raise RuntimeError("scores to be measured exceed their ball")
    return rows
