"""Exact integer draws from a stream of random words: rounded Gaussian and discrete Laplace.

`rounded_gaussian` fills an array with round(t Z), `discrete_laplace` with integers of P(x) ~ exp(-|x| / t).
The kernels decide nearly every draw with two integer comparisons, a few with one float64 exponential whose
error is bounded, and hand the rare draw that falls inside that bound to rational arithmetic, which reveals
further bits until it is decided. Nothing here knows of privacy, and the stream may be keyed by anything:
a public seed draws projections, an operating-system key draws noise (docs/proofs/noise-gaussian.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from adumbra.noise.lattice_tables import (
    CELLS,
    HALF_SHIFT,
    SIGN_SHIFT,
    THRESHOLD_SHIFT,
    GaussianTable,
    LaplaceTable,
    NoiseTable,
)

__all__ = ["LIMIT", "KeyStream", "Sampler", "WordStream", "compiled", "discrete_laplace", "rounded_gaussian"]

LIMIT = 2**62  # magnitudes saturate here; only the Laplace law can reach it
BAND = 2.0**-32  # the float gap is off by less than 2^-38, so its sign is trusted outside this band
BUFFER_WORDS = 1 << 15  # changing it changes what a public seed draws
AMBIGUOUS_ROWS = 64

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile with numba, without the interpreter lock; cached on disk where a directory can be written."""
    fast: Any
    try:
        fast = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found nowhere to keep its cache
        fast = numba.njit(nogil=True)(function)
    return cast(Function, fast)


class WordStream(Protocol):
    """Anything that fills arrays with independent uniform 64-bit words."""

    def fill(self, out: NDArray[np.uint64]) -> None:
        """Overwrite `out` with the next words of the stream."""


class KeyStream:
    """The words of AES-256 in counter mode under a 32-byte key, from the start of the counter.

    The same key always gives the same words, however they are asked for.

    >>> stream = KeyStream(bytes(32))
    >>> stream.words(2)
    array([9910523521560253916, 9736928157321283757], dtype=uint64)
    """

    __slots__ = ("_cipher",)
    _zeros = memoryview(bytes(1 << 16))

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("a key has 32 bytes")
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def fill(self, out: NDArray[np.uint64]) -> None:
        """Overwrite a contiguous array with the next words."""
        view = out.data.cast("B")
        for start in range(0, len(view), len(self._zeros)):
            part = view[start : start + len(self._zeros)]
            self._cipher.update_into(self._zeros[: len(part)], part)
        if sys.byteorder == "big":
            out.byteswap(inplace=True)

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next n words, in an array of their own."""
        out = np.empty(n, np.uint64)
        if n:
            self.fill(out)
        return out

    def __reduce__(self) -> Any:
        raise TypeError("a key stream cannot be copied: two copies would give the same words")


_CELL_MASK = np.uint64(CELLS - 1)
_ALIAS_MASK = np.uint64((1 << THRESHOLD_SHIFT) - 1)
_THRESHOLD = np.uint64(THRESHOLD_SHIFT)
_SIGN = np.uint64(SIGN_SHIFT)
_HALF = np.uint64(HALF_SHIFT)
_ONE = np.uint64(1)
_LIMIT = np.int64(LIMIT)


@compiled
def _gaussian_kernel(
    words: Any,
    used: Any,
    out: Any,
    filled: Any,
    base: Any,
    cells: Any,
    squeeze: Any,
    height: Any,
    width_bits: Any,
    bins: Any,
    rate: Any,
    band: Any,
    ambiguous: Any,
) -> Any:
    """Fill `out` from `filled` on; stop when the words or the rows for ambiguous draws run out."""
    shift = np.uint64(width_bits)
    place_mask = (_ONE << shift) - _ONE
    width = np.float64(_ONE << shift)
    u_unit = width * 2.0**-64
    row = 0
    # The stop looks at counts only, never at the words of an attempt already begun: that would bias the law.
    while filled < out.size and used + 4 <= words.size and row < ambiguous.shape[0]:
        a = words[used]
        b = words[used + 1]
        used += 2
        cell = a & _CELL_MASK
        packed = cells[cell]
        # without a branch, which would be mispredicted every other time
        other = np.uint64(0) - np.uint64((a >> _THRESHOLD) >= (packed >> _THRESHOLD))
        cell ^= (cell ^ (packed & _ALIAS_MASK)) & other
        half = (a >> _HALF) & _ONE
        if b >= squeeze[cell]:
            c = words[used]
            d = words[used + 1]
            used += 2
            u = (np.float64(b >> shift) + np.float64(c) * 2.0**-64) * u_unit
            depth = np.float64(b & place_mask) + (np.float64(half) + np.float64(d) * 2.0**-64) * 0.5
            exponent = depth * (2.0 * width * np.float64(cell) + depth) * rate
            gap = u - height[cell] * np.exp(-exponent)
            if abs(gap) <= band:
                ambiguous[row, 0] = np.uint64(filled)
                ambiguous[row, 1] = a
                ambiguous[row, 2] = b
                ambiguous[row, 3] = c
                ambiguous[row, 4] = d
                row += 1
                filled += 1
                continue
            if gap > 0.0:
                continue
        value = np.int64(((cell << shift) | (b & place_mask)) + half)
        sign = np.int64((a >> _SIGN) & _ONE)
        out[filled] = (value ^ -sign) + sign
        filled += 1
    return used, filled, base, row


@compiled
def _laplace_kernel(
    words: Any,
    used: Any,
    out: Any,
    filled: Any,
    base: Any,
    cells: Any,
    squeeze: Any,
    height: Any,
    width_bits: Any,
    bins: Any,
    rate: Any,
    band: Any,
    ambiguous: Any,
) -> Any:
    """As the Gaussian kernel; `base` is what the tail cell has added so far to the draw now being made."""
    shift = np.uint64(width_bits)
    place_mask = (_ONE << shift) - _ONE
    u_unit = np.float64(_ONE << shift) * 2.0**-64
    reach = np.int64(bins) << np.int64(width_bits)
    tail = np.uint64(bins)
    row = 0
    while filled < out.size and used + 4 <= words.size and row < ambiguous.shape[0]:
        a = words[used]
        b = words[used + 1]
        used += 2
        cell = a & _CELL_MASK
        packed = cells[cell]
        # without a branch, which would be mispredicted every other time
        other = np.uint64(0) - np.uint64((a >> _THRESHOLD) >= (packed >> _THRESHOLD))
        cell ^= (cell ^ (packed & _ALIAS_MASK)) & other
        if b >= squeeze[cell]:
            c = words[used]
            d = words[used + 1]
            used += 2
            u = (np.float64(b >> shift) + np.float64(c) * 2.0**-64) * u_unit
            depth = 0.0 if cell == tail else np.float64(b & place_mask)
            gap = u - height[cell] * np.exp(-depth * rate)
            if abs(gap) <= band:
                ambiguous[row, 0] = np.uint64(filled)
                ambiguous[row, 1] = a
                ambiguous[row, 2] = b
                ambiguous[row, 3] = c
                ambiguous[row, 4] = d
                ambiguous[row, 5] = np.uint64(base)
                row += 1
                filled += 1
                base = np.int64(0)
                continue
            if gap > 0.0:
                continue
        if cell == tail:
            base = min(base + reach, _LIMIT)  # memoryless: what lies beyond the reach has the same law again
            continue
        value = np.int64((cell << shift) | (b & place_mask))
        sign = np.int64((a >> _SIGN) & _ONE)
        value += base
        if value < sign:  # minus zero: zero has one sign only
            continue
        value = min(value, _LIMIT)
        out[filled] = (value ^ -sign) + sign
        filled += 1
        base = np.int64(0)
    return used, filled, base, row


class Sampler:
    """Draws from one table and one stream of words, reusing its buffers from call to call.

    `band` is the half-width inside which the float decision is not trusted; a wider one only costs time.
    """

    def __init__(self, table: NoiseTable, words: WordStream, band: float = BAND) -> None:
        if band < BAND:
            raise ValueError("the band may be widened, not narrowed")
        self.table = table
        self.band = band
        self.exact_decisions = 0
        self._kernel = _gaussian_kernel if table.continuous else _laplace_kernel
        self._rate = table.rate()
        self._words = words
        self._buffer = np.empty(BUFFER_WORDS, np.uint64)
        self._used = BUFFER_WORDS
        self._ambiguous = np.zeros((AMBIGUOUS_ROWS, 6), np.uint64)

    def draw(self, out: NDArray[np.int64]) -> None:
        """Overwrite a contiguous one-dimensional array with independent draws."""
        if out.ndim != 1 or out.dtype != np.int64 or not out.flags.c_contiguous:
            raise ValueError("draws go into a contiguous one-dimensional int64 array")
        table = self.table
        filled, base = 0, np.int64(0)
        while filled < out.size:
            if self._used + 4 > BUFFER_WORDS:  # at most 3 words are left, and nobody has looked at them
                self._words.fill(self._buffer)
                self._used = 0
            self._used, filled, base, rows = self._kernel(
                self._buffer,
                self._used,
                out,
                filled,
                base,
                table.cells,
                table.squeeze,
                table.height,
                table.width_bits,
                table.bins,
                self._rate,
                self.band,
                self._ambiguous,
            )
            for index, *begun in self._ambiguous[:rows].tolist():
                out[index] = exact_draw(table, self._next_word, begun)
                self.exact_decisions += 1

    def _next_word(self) -> int:
        if self._used == BUFFER_WORDS:
            self._words.fill(self._buffer)
            self._used = 0
        self._used += 1
        return int(self._buffer[self._used - 1])


def exact_draw(table: NoiseTable, next_word: Callable[[], int], begun: list[int] | None = None) -> int:
    """One draw in rational arithmetic, word for word as the kernels make it.

    `begun` holds the four words of an attempt already made and the base it stood on.
    """
    w, base = table.width_bits, 0
    while True:
        more: list[int] = []
        if begun is not None:
            a, b, *more, base = begun
            begun = None
        else:
            a, b = next_word(), next_word()
        cell, packed = a & (CELLS - 1), int(table.cells[a & (CELLS - 1)])
        if a >> THRESHOLD_SHIFT >= packed >> THRESHOLD_SHIFT:
            cell = packed & ((1 << THRESHOLD_SHIFT) - 1)
        sign, half = (a >> SIGN_SHIFT) & 1, (a >> HALF_SHIFT) & 1
        value = (cell << w) | (b & ((1 << w) - 1))
        if b >= int(table.squeeze[cell]):
            c, d = more or (next_word(), next_word())
            place = ((value << 1 | half) << 64 | d, 65) if table.continuous else (value, 0)
            if not table.keeps(cell, place, ((b >> w) << 64 | c, 128 - w), next_word):
                continue
        if table.has_tail and cell == table.bins:
            base = min(base + table.reach, LIMIT)
            continue
        if table.continuous:
            value += half
        elif value == 0 and base == 0 and sign:
            continue
        value = min(base + value, LIMIT)
        return -value if sign else value


def rounded_gaussian(words: WordStream, t: float, out: NDArray[np.int64]) -> None:
    """Fill `out` with independent round(t Z), Z standard normal cut at 16 (2 Phi(-16) of total variation).

    >>> out = np.empty(4, np.int64)
    >>> rounded_gaussian(KeyStream(bytes(32)), 1000.0, out)
    """
    Sampler(GaussianTable.build(t), words).draw(out)


def discrete_laplace(words: WordStream, t: float, out: NDArray[np.int64]) -> None:
    """Fill `out` with independent integers of P(x) ~ exp(-|x| / t): exact, then saturated at +-2^62.

    >>> out = np.empty(4, np.int64)
    >>> discrete_laplace(KeyStream(bytes(32)), 1000.0, out)
    """
    Sampler(LaplaceTable.build(t), words).draw(out)
