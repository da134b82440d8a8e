"""Queries whose answer is a sum over rows: counts, tables, centres and scales, totals; second moments stand beside.

Each row contributes a vector of public features; the answer is their sum, so it has the same size for any number of
rows. A sum is made of parts. In the vector that is measured, every number of a part counts `weight` times itself, and
all of them get noise of one scale: a part of weight w gets noise of sd sigma / w on its own numbers. An off-diagonal
entry of a symmetric matrix stands for two and has weight sqrt(2) (the matrix is then measured isometrically).

`privacy.sensitivity` says how far one person can move the weighted vector. Answers are exact integers, for as many rows
as `most_rows` says (docs/proofs/sums.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.declare.space import CATEGORY_STEPS, COUNT_STEPS, EXACT, GRID, HALF, WHOLE, Block
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.query import Part, PureNoise, Query, RowAnswers, SumAnswer, Whole

__all__ = ["CentreScale", "Count", "Sum", "TablesQuery", "Total", "check_asks", "check_weight", "in_steps"]


class Sum(Query[SumAnswer]):
    """A query that sums public features over the rows: `partial` over each batch, added up, then `finalize` once.

    Noise meets what `finalize` returns, and `postprocess` what is then noisy.
    """

    @property
    def summed(self) -> Sum:
        """All of it."""
        return self

    @abstractmethod
    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Arrays of whole numbers that add up over batches, in whatever shape is quickest to add."""

    def add_partial(self, batch: Reals, total: dict[str, Reals]) -> None:
        """Add `partial(batch)` to a running `total`, in place."""
        for name, value in self.partial(batch).items():
            if total[name].shape != value.shape:
                raise RuntimeError("an answer has another shape than its query says")
            total[name] += value

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The parts of the answer, in whole steps, from the sum of all partial ones."""
        return total

    def postprocess(self, noisy: dict[str, Reals]) -> dict[str, Reals]:
        """What is handed out of the noisy parts: all of them, unless the proof rests on showing less."""
        return noisy

    def answer(self, batch: Reals) -> dict[str, Reals]:
        """The sum over a batch, part by part, in whole steps."""
        return {name: value.astype(np.float64) for name, value in self.finalize(self.partial(batch)).items()}

    @property
    def exact_rows(self) -> int:
        """Rows whose partial sums add up exactly in float64, whatever they hold."""
        return (int(EXACT) - 1) // self._largest

    @property
    def most_rows(self) -> int:
        """Rows whose answer is exact in 64-bit integers, whatever they hold; a longer table is refused."""
        return (WHOLE - 1) // self._largest if self.exact_rows else 0

    @property
    def _largest(self) -> int:
        return math.ceil(max(part.largest for part in self.parts))

    def answered(self, rows: RowAnswers | None, sums: SumAnswer | None) -> SumAnswer:
        """The noisy `sums`; there are no `rows`."""
        assert sums is not None
        return sums

    def halves(self, answer: SumAnswer) -> tuple[None, SumAnswer]:
        """The noisy sum."""
        return None, answer

    @property
    def size(self) -> int:
        """Numbers in the answer."""
        return sum(part.size for part in self.parts)


def in_steps(counts: NDArray[np.int64]) -> Reals:
    """Counts as whole steps of a part of counts."""
    return counts.astype(np.float64) * COUNT_STEPS


def check_weight(**weights: float) -> None:
    """Refuse weights whose squares vanish or overflow: the bound on the whole would not notice."""
    for name, weight in weights.items():
        if not (weight == 0 or 1e-60 <= weight <= 1e60):
            raise ValueError(f"{name} needs a weight of 0, or from 1e-60 to 1e60")


def check_asks(parts: tuple[Part, ...]) -> None:
    """Refuse a query without a number."""
    if not sum(part.size for part in parts):
        raise ValueError("a question must ask for something")


@dataclass(frozen=True, eq=False)
class Count(Sum):
    """The number of rows (for relations under which it is private)."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """One number."""
        return (Part("rows", (1,), 1.0, 1 / COUNT_STEPS, COUNT_STEPS),)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """How many rows there are."""
        return {"rows": np.array([float(len(batch) * COUNT_STEPS)])}

    def describe(self) -> str:
        """A few words for a plan."""
        return "number of rows"


@dataclass(frozen=True, eq=False)
class TablesQuery(Sum):
    """Counts of every column's cells: over all rows (`pooled`), and class by class (`grouped`)."""

    cells: Cells
    groups: Groups | None = None
    pooled: float = 1.0
    grouped: float = 0.0

    def __post_init__(self) -> None:
        check_weight(pooled=self.pooled, grouped=self.grouped)
        if self.grouped > 0 and self.groups is None:
            raise ValueError("tables by class need classes")
        check_asks(self.parts)

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

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Counts, in steps."""
        total = self.cells.total
        # an empty cell is counted in one more place, which is then left out
        found = self.cells.of(batch)
        place = np.where(found < 0, total, found + self.cells.starts)
        out: dict[str, Reals] = {}
        if self.pooled > 0:
            out["pooled"] = in_steps(np.bincount(place.ravel(), minlength=total + 1)[:total])
        if self.grouped > 0 and self.groups is not None:
            group = self.groups.of(batch)
            known = group >= 0
            joint = (place[known] + group[known, None] * (total + 1)).ravel()
            counts = np.bincount(joint, minlength=self.groups.count * (total + 1))
            out["grouped"] = in_steps(counts.reshape(self.groups.count, total + 1)[:, :total])
        return out

    def describe(self) -> str:
        """A few words for a plan."""
        by = "" if self.groups is None or self.grouped == 0 else f", by {self.groups.count} classes"
        return f"tables of {len(self.cells.blocks)} columns, {self.cells.total} cells{by}"


@dataclass(frozen=True, eq=False)
class CentreScale(Sum):
    """Sum and sum of squares of every number in [-1, 1]; counts of every value of a flag or category.

    With a weight for those `present`, also how many cells of a number are there, where empty ones are kept; of flags
    and categories their counts tell.
    """

    blocks: tuple[Block, ...]
    present: float = 0.0

    def __post_init__(self) -> None:
        check_weight(present=self.present)
        check_asks(self.parts)

    @cached_property
    def _numbers(self) -> list[int]:
        return [b.start for b in self.blocks if b.kind == "number"]

    @cached_property
    def counted(self) -> tuple[Block, ...]:
        """Numbers whose cells are counted."""
        return tuple(b for b in self.blocks if b.kind == "number" and b.keeps) if self.present > 0 else ()

    @cached_property
    def _others(self) -> Cells:
        return Cells.even([b for b in self.blocks if b.kind != "number"], 1)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`sums` and `squares` of numbers, how many are `present`, `shares` of the values of the rest."""
        count, parts = len(self._numbers), []
        if count:
            parts.append(Part("sums", (count,), 1.0, 1 / HALF, HALF))
            parts.append(Part("squares", (count,), 1.0, 1 / HALF**2, HALF**2))
        if self.counted:
            parts.append(Part("present", (len(self.counted),), self.present, 1 / COUNT_STEPS, COUNT_STEPS))
        if self._others.blocks:
            parts.append(Part("shares", (self._others.total,), math.sqrt(2.0), 1 / COUNT_STEPS, COUNT_STEPS))
        return tuple(parts)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        out: dict[str, Reals] = {}
        if self._numbers:
            values = batch[:, self._numbers]
            out["sums"] = values.sum(axis=0)
            out["squares"] = np.einsum("ij,ij->j", values, values)
        if self.counted:
            out["present"] = in_steps(np.count_nonzero(batch[:, [b.start for b in self.counted]], axis=0))
        if self._others.blocks:
            out["shares"] = TablesQuery(self._others).answer(batch)["pooled"]
        return out

    def describe(self) -> str:
        """A few words for a plan."""
        return f"centre and scale of {len(self.blocks)} columns"


@dataclass(frozen=True, eq=False)
class Total(Sum):
    """The sum of the encoded rows, in encoded units."""

    width: int
    pure: PureNoise = "laplace"

    @property
    def parts(self) -> tuple[Part, ...]:
        """`sums`, one for each coordinate."""
        return (Part("sums", (self.width,), 1.0, 1 / GRID, float(CATEGORY_STEPS)),)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Exact sums."""
        return {"sums": batch.sum(axis=0)}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"sums of {self.width} coordinates"
