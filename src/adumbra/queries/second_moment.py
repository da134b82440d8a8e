"""Queries about the second moment of rows: whole or by classes, times a few directions, beside a row map.

A second moment is added up in one triangle of a square, in place (`numerics.integer_kernels.add_squares`), and handed
on as its diagonal and the triangle above it. Proofs: docs/proofs/second-moment.md, docs/proofs/sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.declare.space import CATEGORY_STEPS, COUNT_STEPS, EXACT, GRID, Space
from adumbra.numerics.integer_kernels import add_squares
from adumbra.queries.cells import Groups
from adumbra.queries.query import GaussianRecipe, JointAnswer, Part, PureNoise, Query, RowAnswers, SumAnswer, Whole
from adumbra.queries.row_map import RowClip, RowMap, check_contraction, contraction
from adumbra.queries.scores import BALL, Scores
from adumbra.queries.sums import Sum, check_asks, check_weight, in_steps

__all__ = ["Gram", "GramTimes", "MomentsQuery", "RowsAndGram", "symmetric"]

_TILE = 128


@dataclass(frozen=True, eq=False)
class MomentsQuery(Sum):
    """Class counts, class sums and the second moment of scores, each with its weight, in one measurement.

    A row of class y with scores x contributes `[counts e_y, sums e_y (x) x, second svec(x x')]`. Without `groups` all
    rows are one class. With `by_class` the second moment is taken class by class. A row whose class is empty adds to
    the pooled second moment only.
    """

    scores: Scores
    groups: Groups | None
    counts: float
    sums: float
    second: float
    by_class: bool = False

    def __post_init__(self) -> None:
        check_weight(counts=self.counts, sums=self.sums, second=self.second)
        check_asks(self.parts)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return 1 if self.groups is None else self.groups.count

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`counts`, `sums` (classes x scores), `diagonal` and `upper` triangle of the second moment."""
        classes, d, parts = self.classes, self.scores.dimension, []
        if self.counts > 0:
            parts.append(Part("counts", (classes,), self.counts, 1 / COUNT_STEPS, COUNT_STEPS))
        if self.sums > 0:
            parts.append(Part("sums", (classes, d), self.sums, 1 / BALL, BALL))
        if self.second > 0:
            parts += _matrix_parts(d, self.second, float(BALL), float(BALL), classes if self.by_class else None)
        return tuple(parts)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        x = self.scores.of(batch)
        group = np.zeros(len(batch), dtype=np.int64) if self.groups is None else self.groups.of(batch)
        known = group >= 0
        out: dict[str, Reals] = {}
        if self.counts > 0:
            out["counts"] = in_steps(np.bincount(group[known], minlength=self.classes))
        if self.sums > 0:
            out["sums"] = np.stack([x[group == c].sum(axis=0) for c in range(self.classes)])
        if self.second > 0:
            out["matrix"] = _second_moments(x, [group == c for c in range(self.classes)] if self.by_class else None)
        return out

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The matrix as diagonal and upper triangle."""
        return _triangular(total)

    def describe(self) -> str:
        """A few words for a plan."""
        what = [
            *(["class counts"] if self.counts > 0 and self.groups is not None else []),
            *(["sums"] if self.sums > 0 else []),
            *(["second moment" + (" by class" if self.by_class else "")] if self.second > 0 else []),
        ]
        by = "" if self.groups is None else f", {self.classes} classes"
        return f"{', '.join(what)} of {self.scores.dimension} scores{by}"


@dataclass(frozen=True, eq=False)
class Gram(Sum):
    """The second moment X'X of the encoded rows, in encoded units; with `groups`, one for each class.

    With `clip` the rows are first taken about a centre and clipped to a length. With `triangle` an entry off the
    diagonal counts once, as if the triangle were a plain list of numbers (the layout of independent Laplace noise of
    one scale), and not sqrt(2) times.
    """

    width: int
    groups: Groups | None = None
    weight: float = 1.0
    clip: RowClip | None = None
    triangle: bool = False
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        check_weight(weight=self.weight)
        if self.weight == 0:
            raise ValueError("a second moment needs a positive weight")

    @property
    def off_diagonal(self) -> float:
        """How much more an entry off the diagonal counts than one on it."""
        return 1.0 if self.triangle else math.sqrt(2.0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`diagonal` and `upper` triangle."""
        classes = None if self.groups is None else self.groups.count
        most = float(CATEGORY_STEPS) if self.clip is None else self.clip.largest
        return tuple(_matrix_parts(self.width, self.weight, float(GRID), most, classes, self.off_diagonal))

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums of products: diagonal and upper triangle of a square."""
        lead = () if self.groups is None else (self.groups.count,)
        total = {"matrix": np.zeros((*lead, self.width, self.width))}
        self.add_partial(batch, total)
        return total

    def add_partial(self, batch: Reals, total: dict[str, Reals]) -> None:
        """Without ever making a second square."""
        rows = batch if self.clip is None else self.clip.of(batch)
        if self.groups is None:
            add_squares(rows, total["matrix"])
            return
        group = self.groups.of(batch)
        for c in range(self.groups.count):
            add_squares(rows[group == c], total["matrix"][c])

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The matrix as diagonal and upper triangle."""
        return _triangular(total)

    def describe(self) -> str:
        """A few words for a plan."""
        by = "" if self.groups is None else f" for each of {self.groups.count} classes"
        return f"second moment of {self.width} coordinates{by}"


@dataclass(frozen=True, eq=False)
class GramTimes(Sum):
    """The second moment times a few directions, X'X Q, in encoded units; the matrix X'X is never formed.

    Rows are first clipped to a length (`clip`). Q has orthonormal columns, as whole multiples of `BASIS_STEP`, and
    lengthens no row. A row x adds x t, where t is x Q rounded towards zero to whole multiples of a coarser grid: |t| <=
    |x|, whatever Q an earlier measurement suggested.
    """

    basis: NDArray[np.int64]
    clip: RowClip
    pure: PureNoise = "laplace"

    BASIS_STEP: ClassVar[float] = 2.0**-26

    def __post_init__(self) -> None:
        own = np.array(self.basis, dtype=np.int64)
        own.setflags(write=False)
        object.__setattr__(self, "basis", own)
        check_contraction(own, self.BASIS_STEP)
        if not self.clip.bound / self.BASIS_STEP < EXACT:
            raise InputError("rows short enough to be multiplied exactly", "very long rows", "give a smaller row bound")

    @staticmethod
    def of(directions: Reals, clip: RowClip) -> GramTimes:
        """From orthonormal columns."""
        return GramTimes(contraction(directions, GramTimes.BASIS_STEP), clip)

    @property
    def coarse(self) -> float:
        """One step of t, in grid steps: a power of two that leaves t some 2^15 steps."""
        return 2.0 ** max(0, math.ceil(math.log2(self.clip.bound)) - 15)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`products`: coordinates x directions."""
        longest = self.clip.largest * (self.clip.bound / self.coarse)
        return (Part("products", self.basis.shape, 1.0, self.coarse / GRID**2, longest),)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        rows = self.clip.of(batch)
        # whole numbers below 2^53, so exact in any order; scaled by powers of two, so exact again
        along = np.trunc((rows @ self.basis.astype(np.float64)) * (self.BASIS_STEP / self.coarse))
        return {"products": rows.T @ along}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"second moment of {self.basis.shape[0]} coordinates times {self.basis.shape[1]} directions"


@dataclass(frozen=True, eq=False)
class RowsAndGram(Query[JointAnswer]):
    """A row map and the second moment of the same rows, calibrated together at the same pair of rows.

    In the measured vector a number of the row map counts once and the second moment (in encoded units) `second` times.
    """

    map: RowMap
    second: float

    def __post_init__(self) -> None:
        check_weight(second=self.second)
        if self.second == 0:
            raise ValueError("a second moment needs a positive weight")

    @property
    def gram(self) -> Gram:
        """The half that is a sum."""
        return Gram(self.map.matrix.shape[0], None, self.second)

    @property
    def per_row(self) -> RowMap:
        """The row map."""
        return self.map

    @property
    def summed(self) -> Gram:
        """The second moment."""
        return self.gram

    @property
    def parts(self) -> tuple[Part, ...]:
        """The rows, then the second moment."""
        return (*self.map.parts, *self.gram.parts)

    @property
    def recipe(self) -> GaussianRecipe | None:
        """That of the row map."""
        return self.map.recipe

    def without_recipe(self) -> RowsAndGram:
        """The same matrix, for which no freshness is claimed."""
        return replace(self, map=self.map.without_recipe())

    @property
    def most_rows(self) -> int:
        """Those of the second moment."""
        return self.gram.most_rows

    def largest_sum(self, space: Space) -> float:
        """Bound on every partial sum of the row map."""
        return self.map.largest_sum(space)

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """Both halves."""
        return self.map.answer(batch) | self.gram.answer(batch)

    def answered(self, rows: RowAnswers | None, sums: SumAnswer | None) -> JointAnswer:
        """Both halves: the noisy `rows`, and the noisy second moment in `sums`."""
        assert rows is not None and sums is not None
        return JointAnswer(rows, sums)

    def halves(self, answer: JointAnswer) -> tuple[RowAnswers, SumAnswer]:
        """The noisy rows and the noisy second moment."""
        return answer.rows, answer.gram

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.map.describe()} with {self.gram.describe()}"


def _matrix_parts(
    width: int, weight: float, scale: float, largest: float, classes: int | None, off_diagonal: float = math.sqrt(2.0)
) -> list[Part]:
    lead = () if classes is None else (classes,)
    step, most = 1 / scale**2, largest**2
    parts = [Part("diagonal", (*lead, width), weight, step, most)]
    if width > 1:
        parts.append(Part("upper", (*lead, width * (width - 1) // 2), weight * off_diagonal, step, most))
    return parts


def _second_moments(rows: Reals, classes: list[NDArray[np.bool_]] | None) -> Reals:
    """Of all rows, or of the rows of each class: diagonal and upper triangle of a square."""
    width = rows.shape[1]
    if classes is None:
        out = np.zeros((width, width))
        add_squares(rows, out)
        return out
    out = np.zeros((len(classes), width, width))
    for square, chosen in zip(out, classes, strict=True):
        add_squares(rows[chosen], square)
    return out


def _triangular(total: Mapping[str, Whole]) -> Mapping[str, Whole]:
    """The upper triangle of the matrix, row after row, and its diagonal; nothing below the diagonal is read."""
    out = {name: value for name, value in total.items() if name != "matrix"}
    if "matrix" in total:
        matrix: NDArray[Any] = total["matrix"]
        width = matrix.shape[-1]
        out["diagonal"] = np.diagonal(matrix, axis1=-2, axis2=-1).copy()
        if width > 1:
            upper = np.empty_like(matrix, shape=(*matrix.shape[:-2], width * (width - 1) // 2))
            for i, part in _triangle_rows(width):
                upper[..., part] = matrix[..., i, i + 1 :]
            out["upper"] = upper
    return out


def _triangle_rows(width: int) -> Iterator[tuple[int, slice]]:
    """Where each row of the triangle above the diagonal lies in the list of its numbers."""
    start = 0
    for i in range(width - 1):
        yield i, slice(start, start + width - 1 - i)
        start += width - 1 - i


def symmetric(diagonal: Reals, upper: Reals | None) -> Reals:
    """The matrix of these parts.

    >>> symmetric(np.array([1.0, 2.0]), np.array([5.0])).tolist()
    [[1.0, 5.0], [5.0, 2.0]]
    """
    width = diagonal.shape[-1]
    out = np.zeros((*diagonal.shape, width))
    out[..., np.arange(width), np.arange(width)] = diagonal
    if upper is None:
        return out
    for i, part in _triangle_rows(width):
        out[..., i, i + 1 :] = upper[..., part]
    # mirrored tile by tile, so that neither reading nor writing leaves the cache
    for top in range(0, width, _TILE):
        rows = slice(top, top + _TILE)
        for left in range(0, top, _TILE):
            columns = slice(left, left + _TILE)
            out[..., rows, columns] = np.swapaxes(out[..., columns, rows], -1, -2)
        square = out[..., rows, rows]
        square += np.swapaxes(np.triu(square, 1), -1, -2)
    return out
