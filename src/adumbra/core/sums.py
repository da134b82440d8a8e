"""Questions whose answer is a sum over rows: tables, centres and scales, moments.

Each row contributes a vector of public features; the answer is their sum, so it has the same size for any number of
rows. A sum is made of parts. In the vector that is measured, every number of a part counts `weight` times itself, and
all of them get noise of one scale: a part of weight w gets noise of sd sigma / w on its own numbers. An off-diagonal
entry of a symmetric matrix stands for two and has weight sqrt(2) (the matrix is then measured isometrically).

`privacy.sensitivity` says how far one person can move the weighted vector. Answers are exact integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adumbra.core.cells import Cells, Groups
from adumbra.core.query import RowMap
from adumbra.core.scores import BALL, Scores
from adumbra.core.space import CATEGORY_STEPS, GRID, HALF, Block, Space

__all__ = [
    "COUNT_STEPS",
    "CentreScale",
    "Count",
    "Gram",
    "Moments",
    "Part",
    "RowsAndGram",
    "Sum",
    "Tables",
    "symmetric",
]

Reals = NDArray[np.float64]

COUNT_STEPS = 1024
"""Integer steps of a count of one, so that noise well below one count can be drawn."""


@dataclass(frozen=True)
class Part:
    """One array of an answer: its numbers are whole multiples of `step`."""

    name: str
    shape: tuple[int, ...]
    weight: float
    step: float
    largest: float
    """Most that one row adds to a number of the part, in steps."""

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)


class Sum(ABC):
    """A question that sums public features over the rows."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The arrays of the answer."""

    @abstractmethod
    def answer(self, batch: Reals) -> dict[str, Reals]:
        """The sum over a batch, part by part, in whole steps."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for a plan."""

    @property
    def size(self) -> int:
        """Numbers in the answer."""
        return sum(part.size for part in self.parts)


def _steps_of(counts: NDArray[np.int64]) -> Reals:
    return counts.astype(np.float64) * COUNT_STEPS


def _weight(**weights: float) -> None:
    for name, weight in weights.items():
        # within this range squares neither vanish nor overflow; the bound on the whole would not notice
        if not (weight == 0 or 1e-60 <= weight <= 1e60):
            raise ValueError(f"{name} needs a weight of 0, or from 1e-60 to 1e60")


def _something(parts: tuple[Part, ...]) -> None:
    if not sum(part.size for part in parts):
        raise ValueError("a question must ask for something")


@dataclass(frozen=True, eq=False)
class Count(Sum):
    """The number of rows (for relations under which it is private)."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """One number."""
        return (Part("rows", (1,), 1.0, 1 / COUNT_STEPS, COUNT_STEPS),)

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """How many rows there are."""
        return {"rows": np.array([float(len(batch) * COUNT_STEPS)])}

    def describe(self) -> str:
        """A few words for a plan."""
        return "number of rows"


@dataclass(frozen=True, eq=False)
class Tables(Sum):
    """Counts of every column's cells: over all rows (`pooled`), and class by class (`grouped`)."""

    cells: Cells
    groups: Groups | None = None
    pooled: float = 1.0
    grouped: float = 0.0

    def __post_init__(self) -> None:
        _weight(pooled=self.pooled, grouped=self.grouped)
        if self.grouped > 0 and self.groups is None:
            raise ValueError("tables by class need classes")
        _something(self.parts)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`pooled`: all cells in a row; `grouped`: the same for every class."""
        parts = []
        if self.pooled > 0:
            parts.append(Part("pooled", (self.cells.total,), self.pooled, 1 / COUNT_STEPS, COUNT_STEPS))
        if self.grouped > 0 and self.groups is not None:
            shape = (self.groups.count, self.cells.total)
            parts.append(Part("grouped", shape, self.grouped, 1 / COUNT_STEPS, COUNT_STEPS))
        return tuple(parts)

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """Counts, in steps."""
        total = self.cells.total
        # an empty cell is counted in one more place, which is then left out
        found = self.cells.of(batch)
        place = np.where(found < 0, total, found + self.cells.starts)
        out: dict[str, Reals] = {}
        if self.pooled > 0:
            out["pooled"] = _steps_of(np.bincount(place.ravel(), minlength=total + 1)[:total])
        if self.grouped > 0 and self.groups is not None:
            group = self.groups.of(batch)
            known = group >= 0
            joint = (place[known] + group[known, None] * (total + 1)).ravel()
            counts = np.bincount(joint, minlength=self.groups.count * (total + 1))
            out["grouped"] = _steps_of(counts.reshape(self.groups.count, total + 1)[:, :total])
        return out

    def describe(self) -> str:
        """A few words for a plan."""
        by = "" if self.groups is None or self.grouped == 0 else f", by {self.groups.count} classes"
        return f"tables of {len(self.cells.blocks)} columns, {self.cells.total} cells{by}"


@dataclass(frozen=True, eq=False)
class CentreScale(Sum):
    """Sum and sum of squares of every number in [-1, 1]; counts of every value of a flag or category."""

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        _something(self.parts)

    @cached_property
    def _numbers(self) -> list[int]:
        return [b.start for b in self.blocks if b.kind == "number"]

    @cached_property
    def _others(self) -> Cells:
        return Cells.even([b for b in self.blocks if b.kind != "number"], 1)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`sums` and `squares` of numbers, `shares` of the values of the rest; each column moves by at most 2."""
        count, parts = len(self._numbers), []
        if count:
            parts.append(Part("sums", (count,), 1.0, 1 / HALF, HALF))
            parts.append(Part("squares", (count,), 1.0, 1 / HALF**2, HALF**2))
        if self._others.blocks:
            parts.append(Part("shares", (self._others.total,), math.sqrt(2.0), 1 / COUNT_STEPS, COUNT_STEPS))
        return tuple(parts)

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        out: dict[str, Reals] = {}
        if self._numbers:
            values = batch[:, self._numbers]
            out["sums"] = values.sum(axis=0)
            out["squares"] = np.einsum("ij,ij->j", values, values)
        if self._others.blocks:
            out["shares"] = Tables(self._others).answer(batch)["pooled"]
        return out

    def describe(self) -> str:
        """A few words for a plan."""
        return f"centre and scale of {len(self.blocks)} columns"


@dataclass(frozen=True, eq=False)
class Moments(Sum):
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
        _weight(counts=self.counts, sums=self.sums, second=self.second)
        _something(self.parts)

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

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        x = self.scores.of(batch)
        group = np.zeros(len(batch), dtype=np.int64) if self.groups is None else self.groups.of(batch)
        known = group >= 0
        out: dict[str, Reals] = {}
        if self.counts > 0:
            out["counts"] = _steps_of(np.bincount(group[known], minlength=self.classes))
        if self.sums > 0:
            out["sums"] = np.stack([x[group == c].sum(axis=0) for c in range(self.classes)])
        if self.second > 0:
            if self.by_class:
                out |= _matrix_answers(np.stack([x[group == c].T @ x[group == c] for c in range(self.classes)]))
            else:
                out |= _matrix_answers(x.T @ x)
        return out

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
    """The second moment X'X of the encoded rows, in encoded units; with `groups`, one for each class."""

    width: int
    groups: Groups | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        _weight(weight=self.weight)
        if self.weight == 0:
            raise ValueError("a second moment needs a positive weight")

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`diagonal` and `upper` triangle."""
        # a coordinate is at most CATEGORY_STEPS
        classes = None if self.groups is None else self.groups.count
        return tuple(_matrix_parts(self.width, self.weight, float(GRID), float(CATEGORY_STEPS), classes))

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums of products."""
        if self.groups is None:
            return _matrix_answers(batch.T @ batch)
        group = self.groups.of(batch)
        return _matrix_answers(np.stack([batch[group == c].T @ batch[group == c] for c in range(self.groups.count)]))

    def describe(self) -> str:
        """A few words for a plan."""
        by = "" if self.groups is None else f" for each of {self.groups.count} classes"
        return f"second moment of {self.width} coordinates{by}"


@dataclass(frozen=True, eq=False)
class RowsAndGram:
    """A row map and the second moment of the same rows, calibrated together at the same pair of rows.

    In the measured vector a number of the row map counts once and the second moment (in encoded units) `second` times.
    """

    map: RowMap
    second: float

    def __post_init__(self) -> None:
        _weight(second=self.second)
        if self.second == 0:
            raise ValueError("a second moment needs a positive weight")

    @property
    def gram(self) -> Gram:
        """The part that is a sum."""
        return Gram(self.map.matrix.shape[0], None, self.second)

    def largest_sum(self, space: Space) -> float:
        """Bound on every partial sum of the row map."""
        return self.map.largest_sum(space)

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.map.describe()} with {self.gram.describe()}"


def _matrix_parts(width: int, weight: float, scale: float, largest: float, classes: int | None) -> list[Part]:
    lead = () if classes is None else (classes,)
    step, most = 1 / scale**2, largest**2
    parts = [Part("diagonal", (*lead, width), weight, step, most)]
    if width > 1:
        parts.append(Part("upper", (*lead, width * (width - 1) // 2), weight * math.sqrt(2.0), step, most))
    return parts


def _matrix_answers(matrix: Reals) -> dict[str, Reals]:
    width = matrix.shape[-1]
    out = {"diagonal": np.diagonal(matrix, axis1=-2, axis2=-1).copy()}
    if width > 1:
        out["upper"] = matrix[..., *np.triu_indices(width, 1)]
    return out


def symmetric(diagonal: Reals, upper: Reals | None) -> Reals:
    """The matrix of these parts.

    >>> symmetric(np.array([1.0, 2.0]), np.array([5.0])).tolist()
    [[1.0, 5.0], [5.0, 2.0]]
    """
    width = diagonal.shape[-1]
    out = np.zeros((*diagonal.shape, width))
    out[..., np.arange(width), np.arange(width)] = diagonal
    if upper is not None:
        rows, columns = np.triu_indices(width, 1)
        out[..., rows, columns] = upper
        out[..., columns, rows] = upper
    return out
