"""Random public sketches of a histogram: s sums over N cells, for s well below N.

| kind | entry of row j, cell i | columns | size |
|---|---|---|---|
| signs | +-1/sqrt(s) | length 1 | the matrix is held: N s at most 2^26 |
| gaussian | normal, columns scaled to length 1 | length 1 | as signs |
| hadamard | +-1/sqrt(s): s random rows of a Hadamard matrix, cells with random signs | length 1 | any |
| fourier | cosines and sines of s/2 random frequencies, cells with random signs | length 1 | any |
| sparse-signs | q entries +-1/sqrt(q) a column | length 1 | any |

The random signs of cells make hadamard and fourier as good for sparse waves as for sparse cells. Row j may count w_j
times (the magnitude function of the CSM paper): it is measured times w_j, and so gets 1/w_j of the noise.

Everything follows from a public key. `exact` works on whole numbers; `forward` and `adjoint` are the same map in
float64, for decoders, through fast transforms where there is one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import COUNT_STEPS
from adumbra.numerics.fast_transforms import hadamard
from adumbra.numerics.integer_kernels import compiled
from adumbra.numerics.strategies import padded

__all__ = ["KINDS", "DenseSensing", "FourierSensing", "Hadamard", "Sensing", "SparseSigns"]


KINDS = ("signs", "gaussian", "hadamard", "fourier", "sparse-signs")
LARGEST_MATRIX = 2**26
"""Entries of a matrix that is held in memory."""
FINE = 2.0**18
"""Whole steps of an entry of 1 (gaussian) or of the largest entry (fourier)."""
WEIGHT_STEPS = 1024
"""Weights are whole multiples of this part of the largest."""
_EXACT_FLOATS = 2**22
"""A larger matrix is multiplied in float32, by decoders only."""


class Sensing(ABC):
    """A sketch: `numbers` sums over `cells`."""

    kind: str
    cells: int
    numbers: int
    gains: Integers
    """What each row is multiplied by, in steps of a weight; all 1 where they are equal."""

    @property
    def _per_gain(self) -> float:
        return 1.0 if int(self.gains.max(initial=1)) == 1 else float(WEIGHT_STEPS)

    @property
    @abstractmethod
    def unit(self) -> float:
        """What one whole step of an unweighted entry stands for."""

    @property
    @abstractmethod
    def entry(self) -> float:
        """The largest unweighted entry, in steps."""

    @property
    def fine(self) -> float:
        """Steps that a whole entry is divided into before noise is added."""
        return 1.0

    @property
    def step(self) -> float:
        """What one whole step of an answer stands for."""
        return self.unit / self._per_gain / self.fine

    @property
    def largest(self) -> float:
        """Most that one count adds to a number, in steps."""
        return self.entry * float(self.gains.max(initial=1)) * self.fine

    @property
    def weights(self) -> Reals:
        """The weight of every row; the largest is 1."""
        return np.asarray(self.gains / self._per_gain)

    def exact(self, counts: Reals) -> Reals:
        """All weighted sums, in whole steps."""
        return np.asarray(self._whole(counts) * self.gains * self.fine)

    @abstractmethod
    def _whole(self, counts: Reals) -> Reals:
        """All sums, unweighted, in whole steps of an entry."""

    @abstractmethod
    def forward(self, values: Reals) -> Reals:
        """Psi x for real x, weighted."""

    @abstractmethod
    def adjoint(self, sums: Reals) -> Reals:
        """Psi' y, weighted."""

    @abstractmethod
    def columns(self, cells: Integers) -> Integers:
        """Columns of these cells, unweighted, in whole steps: (numbers, len(cells))."""

    @property
    def crosstalk(self) -> float:
        """What a sketch mixes into one cell from all others: this share of their squared counts, over s."""
        return 1.0

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} {self.kind} sums"


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class DenseSensing(Sensing):
    """A matrix of whole numbers that is held in memory."""

    matrix: NDArray[np.int32]
    scale: float
    kind: str
    gains: Integers

    @property
    def unit(self) -> float:
        """What one step of the matrix stands for."""
        return self.scale

    @property
    def numbers(self) -> int:  # type: ignore[override]  # from the matrix
        """Rows of the matrix."""
        return int(self.matrix.shape[0])

    @property
    def cells(self) -> int:  # type: ignore[override]  # from the matrix
        """Columns of the matrix."""
        return int(self.matrix.shape[1])

    @cached_property
    def entry(self) -> float:
        """The largest entry."""
        return float(np.abs(self.matrix).max(initial=1))

    @property
    def fine(self) -> float:
        """Signs are few steps of a count; a normal entry has many."""
        return float(COUNT_STEPS) if self.kind == "signs" else 1.0

    def _whole(self, counts: Reals) -> Reals:
        out = np.empty(self.numbers)
        for start in range(0, self.numbers, 256):  # whole numbers below 2^53: exact in any order
            out[start : start + 256] = self.matrix[start : start + 256].astype(np.float64) @ counts
        return out

    @cached_property
    def _real(self) -> NDArray[Any]:
        precise = np.float64 if self.matrix.size <= _EXACT_FLOATS else np.float32
        return (self.matrix * (self.unit * self.weights)[:, None]).astype(precise)

    def forward(self, values: Reals) -> Reals:
        """Psi x."""
        return np.asarray(self._real @ values.astype(self._real.dtype), dtype=np.float64)

    def adjoint(self, sums: Reals) -> Reals:
        """Psi' y."""
        return np.asarray(self._real.T @ sums.astype(self._real.dtype), dtype=np.float64)

    def columns(self, cells: Integers) -> Integers:
        """Columns of the matrix."""
        return self.matrix[:, cells].astype(np.int64)


class _SignSensing(Sensing):
    """Entries are 0 or of one size."""

    @property
    def entry(self) -> float:
        """One step."""
        return 1.0

    @property
    def fine(self) -> float:
        """As for counts."""
        return float(COUNT_STEPS)


@dataclass(frozen=True, eq=False)
class Hadamard(_SignSensing):
    """Rows `rows` of a Hadamard matrix, with the sign `flips[i]` on cell i."""

    cells: int
    rows: Integers
    flips: Integers
    gains: Integers
    kind: str = "hadamard"

    @property
    def numbers(self) -> int:  # type: ignore[override]  # from the rows
        """How many rows were kept."""
        return len(self.rows)

    @property
    def unit(self) -> float:
        """Entries are +-1/sqrt(s)."""
        return 1.0 / math.sqrt(self.numbers)

    @property
    def crosstalk(self) -> float:
        """Rows are orthogonal: with all of them nothing is mixed."""
        return 1.0 - self.numbers / padded(self.cells)[0]

    def _transformed(self, values: Reals) -> Reals:
        full = np.zeros(padded(self.cells)[0])
        full[: self.cells] = values * self.flips
        hadamard(full)
        return full

    def _whole(self, counts: Reals) -> Reals:
        return self._transformed(counts)[self.rows]

    def forward(self, values: Reals) -> Reals:
        """One fast transform."""
        return self._transformed(values)[self.rows] * (self.unit * self.weights)

    def adjoint(self, sums: Reals) -> Reals:
        """One fast transform."""
        full = np.zeros(padded(self.cells)[0])
        full[self.rows] = sums * (self.unit * self.weights)
        hadamard(full)
        return np.asarray(full[: self.cells] * self.flips)

    def columns(self, cells: Integers) -> Integers:
        """(-1)^(bits that row and cell share), times the cell's sign."""
        shared = np.bitwise_count(self.rows[:, None] & np.asarray(cells)[None, :])
        return np.asarray((1 - 2 * (shared & 1).astype(np.int64)) * self.flips[cells])


@dataclass(frozen=True, eq=False)
class FourierSensing(Sensing):
    """Cosine and sine of each of some frequencies, with the sign `flips[i]` on cell i."""

    cells: int
    frequencies: Integers
    flips: Integers
    gains: Integers
    kind: str = "fourier"

    @property
    def numbers(self) -> int:  # type: ignore[override]  # from the frequencies
        """Two for each frequency: all cosines, then all sines."""
        return 2 * len(self.frequencies)

    @property
    def unit(self) -> float:
        """Entries are at most sqrt(2/s)."""
        return math.sqrt(2.0 / self.numbers) / FINE

    @property
    def entry(self) -> float:
        """The largest entry."""
        return FINE

    @property
    def crosstalk(self) -> float:
        """Rows are orthogonal: with all of them nothing is mixed."""
        return max(1.0 - self.numbers / self.cells, 0.0)

    @cached_property
    def table(self) -> tuple[Integers, Integers]:
        """Cosine and sine of every place on the circle, in whole steps."""
        angle = 2.0 * math.pi * np.arange(self.cells) / self.cells
        return np.rint(FINE * np.cos(angle)).astype(np.int64), np.rint(FINE * np.sin(angle)).astype(np.int64)

    def _whole(self, counts: Reals) -> Reals:
        out = np.empty(self.numbers)
        _waves(counts * self.flips, self.frequencies, np.stack(self.table, axis=1).astype(np.int32), out)
        return out

    def forward(self, values: Reals) -> Reals:
        """One fast transform."""
        found = np.fft.rfft(values * self.flips)[self.frequencies]
        return np.concatenate([found.real, -found.imag]) * (self.unit * FINE * self.weights)

    def adjoint(self, sums: Reals) -> Reals:
        """One fast transform."""
        real, imaginary = np.split(sums * (self.unit * FINE * self.weights), 2)
        full = np.zeros(self.cells // 2 + 1, dtype=np.complex128)
        full[self.frequencies] = (real - 1j * imaginary) * (self.cells / 2.0)
        return np.asarray(np.fft.irfft(full, self.cells) * self.flips)

    def columns(self, cells: Integers) -> Integers:
        """Looked up on the circle."""
        cosine, sine = self.table
        places = (self.frequencies[:, None] * np.asarray(cells)[None, :]) % self.cells
        return np.asarray(np.concatenate([cosine[places], sine[places]]) * self.flips[cells])


@dataclass(frozen=True, eq=False)
class SparseSigns(_SignSensing):
    """Every cell adds +-1/sqrt(q) to q of the sums."""

    cells: int
    numbers: int
    places: Integers
    """(cells, q): which sums."""
    signs: Integers
    """(cells, q): with which sign."""
    gains: Integers
    kind: str = "sparse-signs"

    @property
    def unit(self) -> float:
        """Entries are 0 or +-1/sqrt(q)."""
        return 1.0 / math.sqrt(self.places.shape[1])

    def _scattered(self, values: Reals) -> Reals:
        each = (values[:, None] * self.signs).ravel()
        return np.asarray(np.bincount(self.places.ravel(), weights=each, minlength=self.numbers), dtype=np.float64)

    def _whole(self, counts: Reals) -> Reals:
        return self._scattered(counts)

    def forward(self, values: Reals) -> Reals:
        """q additions a cell."""
        return self._scattered(values) * (self.unit * self.weights)

    def adjoint(self, sums: Reals) -> Reals:
        """q look-ups a cell."""
        scaled = sums * (self.unit * self.weights)
        return np.asarray((scaled[self.places] * self.signs).sum(axis=1))

    def columns(self, cells: Integers) -> Integers:
        """Mostly zeros."""
        out = np.zeros((self.numbers, len(cells)), dtype=np.int64)
        out[self.places[cells].T, np.arange(len(cells))] = self.signs[cells].T
        return out


@compiled
def _waves(counts: Any, frequencies: Any, circle: Any, out: Any) -> None:
    """Sums of counts times cosines and sines: whole numbers, exact in any order."""
    cells = counts.size
    for j in range(frequencies.size):
        step, place = frequencies[j], np.int64(0)
        a = 0.0
        b = 0.0
        for i in range(cells):
            a += counts[i] * circle[place, 0]
            b += counts[i] * circle[place, 1]
            place += step
            if place >= cells:
                place -= cells
        out[j] = a
        out[frequencies.size + j] = b
