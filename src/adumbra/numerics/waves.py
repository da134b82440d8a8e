"""The lowest frequencies of a histogram's cells in order, as a strategy.

After Acs, Castelluccia, Chen, "Differentially Private Histogram Publishing through Lossy Compression" (ICDM 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.numerics.strategy_base import LinearStrategy

__all__ = ["Waves"]


_WAVE_STEPS = 2.0**18


@dataclass(frozen=True, eq=False)
class Waves(LinearStrategy):
    """The mean and the `kept` lowest frequencies (a cosine and a sine each) of the cells in order.

    Rows are those of an orthonormal basis over `divisor`, slightly short, on a fine grid: one row of the table moves
    all numbers together by at most 1 in absolute terms and a row that changes its cell by at most sqrt(2), whatever
    `kept` is.
    """

    kind: ClassVar[str] = "waves"

    shape: tuple[int, ...]
    kept: int

    def __post_init__(self) -> None:
        if not 0 <= self.kept <= self.cells // 2:
            raise ValueError(f"from 0 to {self.cells // 2} frequencies")

    @property
    def numbers(self) -> int:
        """A mean, and two for each frequency; the highest of an even number of cells has no sine."""
        return min(2 * self.kept + 1, self.cells)

    @property
    def divisor(self) -> float:
        """The lesser of sqrt(m), since |v|_1 <= sqrt(m) |v|_2, and m sqrt(2/N), since |cos| + |sin| <= sqrt(2)."""
        return min(math.sqrt(self.numbers), self.numbers * math.sqrt(2.0 / self.cells))

    @property
    def step(self) -> float:
        """A fine part of the largest entry."""
        return math.sqrt(2.0 / self.cells) / self.divisor / _WAVE_STEPS

    @property
    def largest(self) -> float:
        """The largest entry."""
        return _WAVE_STEPS

    @cached_property
    def _table(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cosine and sine of every place on the circle, as whole numbers."""
        angle = 2.0 * math.pi * np.arange(self.cells) / self.cells
        short = _WAVE_STEPS * (1.0 - 2.0**-17)
        return np.rint(short * np.cos(angle)).astype(np.int64), np.rint(short * np.sin(angle)).astype(np.int64)

    def _row(self, index: int) -> NDArray[np.int64]:
        """Row number `index`, in whole steps: mean, cos 1, sin 1, cos 2, ..."""
        cosine, sine = self._table
        if index == 0:
            return np.full(self.cells, math.floor(_WAVE_STEPS * (1.0 - 2.0**-17) / math.sqrt(2.0)), dtype=np.int64)
        frequency = (index + 1) // 2
        places = (np.arange(self.cells) * frequency) % self.cells
        row = (cosine if index % 2 else sine)[places]
        if 2 * frequency == self.cells:  # +-1 everywhere, whose square does not average to a half
            row = np.sign(row) * math.floor(_WAVE_STEPS * (1.0 - 2.0**-17) / math.sqrt(2.0))
        return np.asarray(row)

    def exact(self, counts: Reals) -> Reals:
        """All numbers, in whole steps."""
        # whole numbers below 2^53 in every partial sum, so exact in any order
        return np.array([float(self._row(index).astype(np.float64) @ counts) for index in range(self.numbers)])

    def estimate(self, measured: Reals) -> Reals:
        """Counts of the waves alone: what they leave out is not there."""
        cells, own = self.cells, measured * self.divisor
        full = np.zeros((*measured.shape[:-1], cells // 2 + 1), dtype=np.complex128)
        full[..., 0] = own[..., 0] * math.sqrt(cells)
        cosines, sines = own[..., 1::2], own[..., 2::2]
        full[..., 1 : 1 + cosines.shape[-1]] = cosines
        full[..., 1 : 1 + sines.shape[-1]] -= 1j * sines
        full[..., 1:] *= math.sqrt(cells / 2.0)
        if 2 * self.kept == cells:  # the highest frequency is its own mirror image
            full[..., -1] *= math.sqrt(2.0)
        return np.asarray(np.fft.irfft(full, cells))

    def dual(self, weights: Reals) -> Reals:
        """The orthonormal waves, applied to the weights, times the divisor."""
        cells = self.cells
        found = np.fft.rfft(weights)[..., : self.kept + 1] * math.sqrt(2.0 / cells)
        out = np.empty((*weights.shape[:-1], 2 * self.kept + 1))
        out[..., 0] = found[..., 0].real / math.sqrt(2.0)
        out[..., 1::2] = found[..., 1:].real
        out[..., 2::2] = -found[..., 1:].imag
        if 2 * self.kept == cells:
            out[..., -2] /= math.sqrt(2.0)
        return np.asarray(out[..., : self.numbers] * self.divisor)

    def describe(self) -> str:
        """A few words for a plan."""
        return f"{self.numbers} Fourier coefficients"
