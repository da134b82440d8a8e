"""Questions whose answer is a sum over rows: tables, centres and scales, moments.

Each row contributes a vector of public features; the answer is their sum, so it has the same size for any number of
rows. A sum is made of parts. In the vector that is measured, every number of a part counts `weight` times itself, and
all of them get noise of one scale: a part of weight w gets noise of sd sigma / w on its own numbers. An off-diagonal
entry of a symmetric matrix stands for two and has weight sqrt(2) (the matrix is then measured isometrically).

`privacy.sensitivity` says how far one person can move the weighted vector. Answers are exact integers, for as many rows
as `most_rows` says (docs/proofs/sums.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.core.cells import Cells, Groups
from adumbra.core.centred import Centred
from adumbra.core.errors import InputError
from adumbra.core.query import EXACT, WHOLE, PureNoise, RowMap, check_contraction, contraction
from adumbra.core.scores import BALL, Scores
from adumbra.core.space import CATEGORY_STEPS, GRID, HALF, Block, Space

__all__ = [
    "COUNT_STEPS",
    "CentreScale",
    "Count",
    "Gram",
    "GramTimes",
    "Moments",
    "Part",
    "RowsAndGram",
    "Sum",
    "Tables",
    "Total",
    "Whole",
    "symmetric",
]

Reals = NDArray[np.float64]
Whole = NDArray[np.float64] | NDArray[np.int64]
"""Whole numbers: as float64 below 2^53, as integers beyond."""

COUNT_STEPS = 1024
"""Integer steps of a count of one, so that noise well below one count can be drawn."""
_TILE = 128


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

    pure: PureNoise = "laplace"
    """Noise where the promise is pure epsilon."""
    linear: ClassVar[bool] = True
    """Whether the answer of a table is the sum of those of its rows, taken one by one."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The arrays of the answer."""

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """The sum over a batch, part by part, in whole steps."""
        return {name: value.astype(np.float64) for name, value in self.finished(self.gathered(batch)).items()}

    @abstractmethod
    def gathered(self, batch: Reals) -> dict[str, Reals]:
        """Arrays of whole numbers that add up over batches, in whatever shape is quickest to add."""

    def finished(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The parts of the answer, in whole steps, from the sum of what was gathered."""
        return total

    @property
    def exact_rows(self) -> int:
        """Rows whose gathered numbers add up exactly in float64, whatever they hold."""
        return (int(EXACT) - 1) // self._largest

    @property
    def most_rows(self) -> int:
        """Rows whose answer is exact in 64-bit integers, whatever they hold; a longer table is refused."""
        return (WHOLE - 1) // self._largest if self.exact_rows else 0

    @property
    def _largest(self) -> int:
        return math.ceil(max(part.largest for part in self.parts))

    def revealed(self, noisy: dict[str, Reals]) -> dict[str, Reals]:
        """What is handed out of the noisy parts: all of them, unless the proof rests on showing less."""
        return noisy

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

    def gathered(self, batch: Reals) -> dict[str, Reals]:
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

    def gathered(self, batch: Reals) -> dict[str, Reals]:
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

    def gathered(self, batch: Reals) -> dict[str, Reals]:
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

    def gathered(self, batch: Reals) -> dict[str, Reals]:
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
            out["matrix"] = (
                np.stack([_squared(x[group == c]) for c in range(self.classes)]) if self.by_class else _squared(x)
            )
        return out

    def finished(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
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
class Total(Sum):
    """The sum of the encoded rows, in encoded units."""

    width: int
    pure: PureNoise = "laplace"

    @property
    def parts(self) -> tuple[Part, ...]:
        """`sums`, one for each coordinate."""
        return (Part("sums", (self.width,), 1.0, 1 / GRID, float(CATEGORY_STEPS)),)

    def gathered(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        return {"sums": batch.sum(axis=0)}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"mean of {self.width} coordinates"


@dataclass(frozen=True, eq=False)
class Gram(Sum):
    """The second moment X'X of the encoded rows, in encoded units; with `groups`, one for each class.

    With `view` the rows are first taken about a centre and cut to a length. With `triangle` an entry off the diagonal
    counts once, as if the triangle were a plain list of numbers (the layout of independent Laplace noise of one scale),
    and not sqrt(2) times.
    """

    width: int
    groups: Groups | None = None
    weight: float = 1.0
    view: Centred | None = None
    triangle: bool = False
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        _weight(weight=self.weight)
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
        most = float(CATEGORY_STEPS) if self.view is None else self.view.largest
        return tuple(_matrix_parts(self.width, self.weight, float(GRID), most, classes, self.off_diagonal))

    def gathered(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums of products."""
        rows = batch if self.view is None else self.view.of(batch)
        if self.groups is None:
            return {"matrix": _squared(rows)}
        group = self.groups.of(batch)
        return {"matrix": np.stack([_squared(rows[group == c]) for c in range(self.groups.count)])}

    def finished(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The matrix as diagonal and upper triangle."""
        return _triangular(total)

    def describe(self) -> str:
        """A few words for a plan."""
        by = "" if self.groups is None else f" for each of {self.groups.count} classes"
        return f"second moment of {self.width} coordinates{by}"


@dataclass(frozen=True, eq=False)
class GramTimes(Sum):
    """The second moment times a few directions, X'X Q, in encoded units; the matrix X'X is never formed.

    Rows are first cut to a length (`view`). Q has orthonormal columns, as whole multiples of `BASIS_STEP`, and
    lengthens no row. A row x adds x t, where t is x Q cut towards zero to whole multiples of a coarser grid: |t| <=
    |x|, whatever Q an earlier look suggested.
    """

    basis: NDArray[np.int64]
    view: Centred
    pure: PureNoise = "laplace"

    BASIS_STEP: ClassVar[float] = 2.0**-26

    def __post_init__(self) -> None:
        own = np.array(self.basis, dtype=np.int64)
        own.setflags(write=False)
        object.__setattr__(self, "basis", own)
        check_contraction(own, self.BASIS_STEP)
        if not self.view.bound / self.BASIS_STEP < EXACT:
            raise InputError("rows short enough to be multiplied exactly", "very long rows", "give a smaller row bound")

    @staticmethod
    def of(directions: Reals, view: Centred) -> GramTimes:
        """From orthonormal columns."""
        return GramTimes(contraction(directions, GramTimes.BASIS_STEP), view)

    @property
    def coarse(self) -> float:
        """One step of t, in grid steps: a power of two that leaves t some 2^15 steps."""
        return 2.0 ** max(0, math.ceil(math.log2(self.view.bound)) - 15)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`products`: coordinates x directions."""
        longest = self.view.largest * (self.view.bound / self.coarse)
        return (Part("products", self.basis.shape, 1.0, self.coarse / GRID**2, longest),)

    def gathered(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        rows = self.view.of(batch)
        # whole numbers below 2^53, so exact in any order; scaled by powers of two, so exact again
        along = np.trunc((rows @ self.basis.astype(np.float64)) * (self.BASIS_STEP / self.coarse))
        return {"products": rows.T @ along}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"second moment of {self.basis.shape[0]} coordinates times {self.basis.shape[1]} directions"


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


def _matrix_parts(
    width: int, weight: float, scale: float, largest: float, classes: int | None, off_diagonal: float = math.sqrt(2.0)
) -> list[Part]:
    lead = () if classes is None else (classes,)
    step, most = 1 / scale**2, largest**2
    parts = [Part("diagonal", (*lead, width), weight, step, most)]
    if width > 1:
        parts.append(Part("upper", (*lead, width * (width - 1) // 2), weight * off_diagonal, step, most))
    return parts


def _squared(rows: Reals) -> Reals:
    """The product of rows with themselves, which numpy works out for one triangle only."""
    return np.asarray(rows.T @ rows)


def _triangular(total: Mapping[str, Whole]) -> Mapping[str, Whole]:
    """The upper triangle of the matrix, row after row, and its diagonal; nothing below the diagonal is looked at."""
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
