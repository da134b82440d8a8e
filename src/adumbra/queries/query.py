"""What a query is: the numbers that are wanted of private rows, never what they are.

A query has one or two halves. One is answered row by row (`per_row`: a vector for each row, so the number of rows is
part of its answer); the other is a sum over all rows (`summed`). The meter, the sensitivities, the audit and the plan
ask a query for its halves and their parts, and never what kind of query it is. How far one person can move each kind is
known to `privacy.sensitivity`, by its very type: a kind that is not known there gets no noise and no release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.declare.space import Space

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from adumbra.queries.row_map import RowMap
    from adumbra.queries.sums import Sum

    AnswerT = TypeVar("AnswerT", default=Any)
else:  # the type checker knows of default types before the interpreter does
    from typing import TypeVar

    AnswerT = TypeVar("AnswerT")

__all__ = [
    "GaussianRecipe",
    "JointAnswer",
    "Part",
    "PureNoise",
    "Query",
    "RowAnswers",
    "SumAnswer",
    "Whole",
]

Whole = NDArray[np.float64] | NDArray[np.int64]
"""Whole numbers: as float64 below 2^53, as integers beyond."""

PureNoise = Literal["laplace", "l2-laplace"]
"""Noise of an answer whose promise is pure epsilon: independent numbers, or a vector by its length."""


@dataclass(frozen=True)
class Part:
    """One array of an answer: its numbers are whole multiples of `step`."""

    name: str
    shape: tuple[int, ...]
    """Of the whole array; with `per_row`, of what one row has."""
    weight: float
    step: float
    largest: float
    """Most that one row adds to a number of the part, in steps."""
    per_row: bool = False

    @property
    def size(self) -> int:
        """How many numbers; with `per_row`, for each row."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class GaussianRecipe:
    """How a matrix of iid N(0, 1/dimension) entries was drawn, so that the meter can draw it again and compare.

    Only a matrix whose recipe holds, from a seed that is fresh, is accounted as a fresh projection.
    """

    seed: PublicSeed
    dimension: int


# ---- answers: all of it may be published


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """Noisy numbers of every row, batch by batch, once."""

    batches: Iterator[Reals]


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """A noisy sum, part by part, and the standard deviation of the noise on each part."""

    values: Mapping[str, Reals]
    sds: Mapping[str, float]
    """Of every part of the query, the rows beside the sum among them."""

    def sd(self, part: str) -> float:
        """Standard deviation of the noise on each number of a part."""
        return self.sds[part]


@dataclass(frozen=True, eq=False)
class JointAnswer:
    """Noisy rows and the noisy second moment that was measured with them."""

    rows: RowAnswers
    gram: SumAnswer


# ---- queries


class Query(ABC, Generic[AnswerT]):
    """Public data, and picklable: what is asked, and which type of answer comes back."""

    pure: PureNoise = "laplace"
    """Noise where the promise is pure epsilon."""
    linear: ClassVar[bool] = True
    """Whether the answer of a table is the sum, or the list, of those of its rows, taken one by one."""
    chooses: ClassVar[bool] = False
    """Whether only the place of the smallest noisy number is handed out."""

    @property
    def per_row(self) -> RowMap | None:
        """The half that is answered row by row."""
        return None

    @property
    def summed(self) -> Sum | None:
        """The half that is a sum over all rows."""
        return None

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The arrays of the answer: what gets noise."""

    @property
    def readings(self) -> int:
        """How often the rows are read: once for each half."""
        return (self.per_row is not None) + (self.summed is not None)

    @property
    def held(self) -> int:
        """Numbers of the answer that are held in memory at once, whatever the number of rows."""
        return sum(part.size for part in self.parts if not part.per_row)

    def draws(self, rows: int) -> int:
        """Noisy numbers that the answer of so many `rows` has."""
        return sum(part.size * (rows if part.per_row else 1) for part in self.parts)

    @property
    def recipe(self) -> GaussianRecipe | None:
        """Where its matrix came from, if it may be accounted as a fresh projection."""
        return None

    def without_recipe(self) -> Query[AnswerT]:
        """The same with a matrix that is taken as it is: no freshness is claimed for it."""
        return self

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """Rows whose answer is exact, whatever they hold; a longer table is refused."""

    def largest_sum(self, space: Space) -> float:
        """Bound on every partial sum within one row's answer; exact in float64 while it stays below 2^53."""
        return 0.0

    @abstractmethod
    def answer(self, batch: Reals) -> dict[str, Reals]:
        """The exact answer for a batch taken as the whole table, part by part, in whole steps."""

    @abstractmethod
    def answered(self, rows: RowAnswers | None, sums: SumAnswer | None) -> AnswerT:
        """The answer of its type, from the noisy answers `rows` and `sums` of its halves (None where it has none)."""

    @abstractmethod
    def halves(self, answer: AnswerT) -> tuple[RowAnswers | None, SumAnswer | None]:
        """What `answered` was given: the noisy answers of both halves."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for a plan."""
