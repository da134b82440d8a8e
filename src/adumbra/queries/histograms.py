"""Queries about the counts of a domain: the cells of one column, or of a cross-product of several.

Every row counts 1 in one cell (in none if it is empty in a column that has no cell for that). What is measured is a
linear combination of the counts for every number of a public strategy: the counts themselves, sums over a tree, wavelet
coefficients, a random sketch. The counts are added up first, in whole numbers, and the strategy is applied to them
once, exactly; `privacy.strategy_sensitivity` says how far one row can move the result.

`TailChoice` and `TailSize` are the two queries that are not linear. They are answered from the same counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from adumbra.common.types import Reals
from adumbra.declare.space import COUNT_STEPS, EXACT
from adumbra.queries.cells import Groups
from adumbra.queries.query import Part, PureNoise, Whole
from adumbra.queries.sums import Sum

__all__ = ["LARGEST_DOMAIN", "HistogramQuery", "Strategy", "TailChoice", "TailSize", "spectrum_tails"]


LARGEST_DOMAIN = 2**20
"""Cells of a domain, at most."""
_ROWS_IN_A_SPECTRUM = 2**30
"""Rows whose counts go through a float64 transform with a rounding below a step."""
_BLOCK = 1024


class Strategy(Protocol):
    """Public whole-number combinations of the counts."""

    @property
    def cells(self) -> int:
        """Cells of the domain."""

    @property
    def numbers(self) -> int:
        """How many combinations."""

    @property
    def step(self) -> float:
        """What one whole step of an answer stands for."""

    @property
    def largest(self) -> float:
        """Most that one count adds to any number on the way, in steps."""

    def exact(self, counts: Reals) -> Reals:
        """All combinations of these counts, in whole steps: exact while `largest` times the rows stays below 2^53."""

    def describe(self) -> str:
        """A few words for a plan."""


class _OfCounts(Sum):
    """A query that is answered from the counts of a domain."""

    domain: Groups

    @property
    def exact_rows(self) -> int:
        """A row counts 1."""
        return int(EXACT) - 1

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """The counts."""
        cell = self.domain.of(batch)
        return {"counts": np.bincount(cell[cell >= 0], minlength=self.domain.count).astype(np.float64)}


@dataclass(frozen=True, eq=False)
class HistogramQuery(_OfCounts):
    """The numbers of a strategy, all with noise of one scale."""

    domain: Groups
    strategy: Strategy
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        if self.strategy.cells != self.domain.count:
            raise ValueError(f"a strategy for {self.strategy.cells} cells cannot measure {self.domain.count}")

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """`measured`: one number for each combination."""
        strategy = self.strategy
        return (Part("measured", (strategy.numbers,), 1.0, strategy.step, strategy.largest),)

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The strategy, applied to the counts: of as many rows at a time as it is exact for in float64."""
        counts = total["counts"].astype(np.float64)
        most = (int(EXACT) - 1) // self._largest
        if counts.sum() <= most:
            return {"measured": self.strategy.exact(counts)}
        measured = np.zeros(self.strategy.numbers, np.int64)
        for some in _dealt(counts, most):
            measured += self.strategy.exact(some).astype(np.int64)
        return {"measured": measured}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.strategy.describe()} of {self.domain.count} cells"


def _dealt(counts: Reals, most: int) -> Iterator[Reals]:
    """Counts that add up to these, of at most so many rows each: the rows in the order of their cells, dealt evenly.

    >>> [some.tolist() for some in _dealt(np.array([3.0, 0.0, 4.0]), 5)]
    [[3.0, 0.0, 2.0], [0.0, 0.0, 2.0]]
    """
    ends = np.cumsum(counts.astype(np.int64))
    for start in range(0, int(ends[-1]), most):
        yield np.diff(np.clip(ends, start, start + most), prepend=start).astype(np.float64)


def spectrum_tails(counts: Reals) -> Reals:
    """For k = 0, 1, ...: length of what is left of the counts without their k lowest frequencies and their mean.

    The real Fourier coefficients are those of an orthonormal basis, so a count that changes by 1 moves each by at most
    1 and a row that changes its cell by at most sqrt(2).

    >>> spectrum_tails(np.array([3.0, 1.0, 3.0, 1.0])).round(6).tolist()
    [2.0, 2.0, 0.0]
    """
    cells = len(counts)
    energy = np.square(np.abs(np.fft.rfft(counts))) / cells
    energy[1 : (cells + 1) // 2] *= 2.0  # a frequency and its mirror image; the highest of an even number has none
    # Summed from the highest down, never as a difference: what is small stays exact beside what is large. In blocks, so
    # that no sum has more than some thousand terms, whose roundings would add up.
    down = energy[:0:-1]
    blocks = -(-len(down) // _BLOCK)
    within = np.cumsum(np.append(down, np.zeros(blocks * _BLOCK - len(down))).reshape(blocks, _BLOCK), axis=1)
    before = np.append(0.0, np.cumsum(within[:, -1])[:-1]) if blocks else np.zeros(0)
    return np.asarray(np.sqrt(np.append((within + before[:, None]).ravel()[: len(down)][::-1], 0.0)))


@dataclass(frozen=True, eq=False)
class TailChoice(_OfCounts):
    """How many frequencies to keep: the candidate with the least tail plus public cost, by noisy minimum.

    Every candidate's score gets noise and only the place of the smallest is handed out, which is why the whole list
    costs no more than twice one score (docs/proofs/strategies.md).
    """

    domain: Groups
    candidates: tuple[int, ...]
    costs: tuple[float, ...]

    linear: ClassVar[bool] = False
    chooses: ClassVar[bool] = True
    most_rows: ClassVar[int] = _ROWS_IN_A_SPECTRUM - 1

    def __post_init__(self) -> None:
        most = self.domain.count // 2
        if not self.candidates or len(self.candidates) != len(self.costs) or max(self.candidates) > most:
            raise ValueError(f"candidates from 0 to {most}, each with a cost")

    @property
    def parts(self) -> tuple[Part, ...]:
        """One score for each candidate."""
        return (Part("scores", (len(self.candidates),), 1.0, 1 / COUNT_STEPS, COUNT_STEPS),)

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """Scores, in whole steps."""
        tails = spectrum_tails(total["counts"].astype(np.float64))[list(self.candidates)]
        return {"scores": np.floor(tails * COUNT_STEPS) + np.floor(np.array(self.costs) * COUNT_STEPS)}

    def postprocess(self, noisy: dict[str, Reals]) -> dict[str, Reals]:
        """The place of the smallest score, and nothing else."""
        return {"choice": np.array([float(np.argmin(noisy["scores"]))])}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"choice among {len(self.candidates)} numbers of frequencies"


@dataclass(frozen=True, eq=False)
class TailSize(_OfCounts):
    """The length of what is left without the `kept` lowest frequencies."""

    domain: Groups
    kept: int

    linear: ClassVar[bool] = False
    most_rows: ClassVar[int] = _ROWS_IN_A_SPECTRUM - 1

    @property
    def parts(self) -> tuple[Part, ...]:
        """One number."""
        return (Part("tail", (1,), 1.0, 1 / COUNT_STEPS, COUNT_STEPS),)

    def finalize(self, total: Mapping[str, Whole]) -> Mapping[str, Whole]:
        """The tail, in whole steps."""
        return {
            "tail": np.array(
                [math.floor(float(spectrum_tails(total["counts"].astype(np.float64))[self.kept]) * COUNT_STEPS)]
            )
            * 1.0
        }

    def describe(self) -> str:
        """A few words for a plan."""
        return "size of what the frequencies leave out"
