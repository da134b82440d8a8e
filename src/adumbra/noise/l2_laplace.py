"""Exact integer vectors whose likelihood falls like exp(-length / t): "L2-Laplace" draws.

A vector of m numbers shares one random real G of the Gamma law with shape (m + 1) / 2. Given G, its numbers are
independent discrete Gaussians, P(z) ~ exp(-z^2 / (2 v)) with v = 2 t^2 G. Averaged over G, the logarithm of the
likelihood of a vector changes by at most |z - z'| / t from any vector to any other (docs/proofs/noise-l2-laplace.md).

G is never rounded. It is a function of uniform reals of which only the first 64 digits are drawn; more are drawn
when a decision needs them. A discrete Gaussian is a discrete Laplace draw (`lattice.py`) that is kept with
probability exp(-(|z| - v / s)^2 / (2 v)), where s, the scale of the Laplace draw, may be anything near sqrt(v).
Float64 decides nearly always, inside a proved error; the rest is decided by intervals of rationals, which take
further digits of G and of the deciding uniform until they are on one side.

Nothing here knows of privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.noise.exact_bounds import cosine_pi, exp_minus, minus_log
from adumbra.noise.lattice import LIMIT, KeyStream, Sampler, compiled
from adumbra.noise.lattice_tables import LARGEST_T, SMALLEST_T, LaplaceTable

__all__ = ["BAND", "LARGEST_LENGTH", "L2Sampler", "LazyGamma", "Lengths", "require_scale"]

LARGEST_LENGTH = 2.0**56  # of t sqrt(m + 1), so that a Laplace table near sqrt(v) exists but for odds of e^-36
BAND = 2.0**-32  # the float gap is off by less than 2^-34, if G is known to PRECISION and the proposal is near
PRECISION = 2.0**-38
LARGEST_CENTRE = 8.0
AT_ONCE = 1 << 14  # proposals at a time, so that they stay in the cache
_LN2 = math.log(2.0)
_HALF_PI = math.pi / 2
_ALWAYS = 2.0  # a band that no gap leaves
_LIMIT = np.int64(LIMIT)
_ELEVEN = np.uint64(11)


def require_scale(t: float, m: int) -> None:
    """Refuse a scale for which a vector of m numbers could not be drawn: t in [2^-5, 2^56 / sqrt(m + 1)]."""
    if not SMALLEST_T <= t <= LARGEST_LENGTH / math.sqrt(m + 1):
        raise InputError(
            f"a noise scale between 2^-5 and 2^56 / sqrt({m + 1}) grid steps for {m} numbers",
            f"{t:g} grid steps",
            "give a larger epsilon if the scale is too large, a smaller one if it is too small",
        )


def _uniforms(m: int) -> tuple[int, int]:
    """How many uniform reals make G: factors of a product, and the two of a half where m is even."""
    return (m + 1) // 2, 2 * (m % 2 == 0)


@compiled
def _float_gamma(words: Any, factors: Any, gamma: Any, error: Any) -> None:
    """G of each row of leading digits, and a bound of its error, whatever the digits not yet drawn."""
    for row in range(words.shape[0]):
        product, exponent, slack = 1.0, 0, factors * 2.0**-50
        for i in range(factors):
            word = np.float64(words[row, i])
            product *= word + 0.5
            slack += 1.0 / word if word > 0.0 else np.inf
            if i & 7 == 7:  # 8 factors stay below 2^512
                product, shift = math.frexp(product)
                exponent += shift
        product, shift = math.frexp(product)
        total = -(math.log(product) + (exponent + shift - 64 * factors) * _LN2)
        if words.shape[1] > factors:
            word = np.float64(words[row, factors])
            slack += 2.0**-50 + (1.0 / word if word > 0.0 else np.inf)
            fall = -math.log((word + 0.5) * 2.0**-64)
            cosine = math.cos(_HALF_PI * (np.float64(words[row, factors + 1]) * 2.0**-64))
            total += fall * cosine * cosine
            slack += fall * 2.0**-46
        gamma[row] = total
        error[row] = slack + abs(total) * 2.0**-46


@compiled
def _chances(proposals: Any, rows: Any, inverse: Any, centre: Any, out: Any) -> None:
    """The chance to keep each proposal, exp(-(|z| inverse - centre)^2 / 2), in floats off by less than 2^-40."""
    for i in range(proposals.size):
        away = np.float64(abs(proposals[i])) * inverse[rows[i]] - centre[rows[i]]
        out[i] = min(0.5 * away * away, 64.0)
    for i in range(proposals.size):
        # e^-x from eight terms of e^(-x / 64), squared six times: no call, so the loop is done four at a time
        x = out[i] * (-1.0 / 64)
        y = 1.0 + x * (1 / 7 + x * (1 / 56))
        y = 1.0 + x * (1 / 5 + x * (1 / 30) * y)
        y = 1.0 + x * (1 / 3 + x * (1 / 12) * y)
        y = 1.0 + x * (1.0 + x * 0.5 * y)
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        out[i] = y


@compiled
def _decide(
    proposals: Any, uniforms: Any, chance: Any, rows: Any, places: Any, band: Any, out: Any, undecided: Any
) -> Any:
    """Write the proposals that are kept; move the places of refused ones to the front, note the undecided ones."""
    refused = count = 0
    for i in range(proposals.size):
        row, place, z = rows[i], places[i], proposals[i]
        gap = np.float64(np.int64(uniforms[i] >> _ELEVEN)) * 2.0**-53 - chance[i]
        out[place] = z  # a refused place will be written again
        if abs(gap) <= band[row] or abs(z) >= _LIMIT:
            undecided[count, 0] = row
            undecided[count, 1] = place
            undecided[count, 2] = i
            count += 1
            continue
        rows[refused] = row
        places[refused] = place
        refused += gap > 0.0  # without a branch, which would be mispredicted every third time
    return refused, count


@compiled
def _enlist(chosen: Any, width: Any, filled: Any, count: Any, rows: Any, places: Any) -> Any:
    """Append places of the chosen rows to those that wait, from number `filled` of them on, while there is room."""
    wanted = chosen.size * width
    while count < rows.size and filled < wanted:
        row, column = chosen[filled // width], filled % width
        run = min(width - column, rows.size - count)
        for i in range(run):
            rows[count + i] = row
            places[count + i] = row * width + column + i
        count += run
        filled += run
    return filled, count


class LazyGamma:
    """A real number of the Gamma law with shape (m + 1) / 2, known by the leading digits of uniform reals.

    G = -log(U_1 ... U_n), n = (m + 1) // 2, and for even m also -log(U') cos(pi U'' / 2)^2. `bounds` encloses every
    value that the digits drawn so far allow; `reveal` draws 64 more of each uniform.
    """

    def __init__(self, words: list[int], m: int, next_word: Callable[[], int]) -> None:
        self._factors, half = _uniforms(m)
        if len(words) != self._factors + half:
            raise ValueError("one word for each uniform")
        self._uniforms = words
        self._next_word = next_word
        self.digits = 64
        self._bounds: tuple[Fraction, Fraction] | None = None

    def reveal(self) -> None:
        """Draw the next 64 binary digits of every uniform."""
        self._uniforms = [value << 64 | self._next_word() for value in self._uniforms]
        self.digits += 64
        self._bounds = None

    def bounds(self) -> tuple[Fraction, Fraction]:
        """Rationals 0 < low <= G <= high; draws digits while G cannot yet be told from zero or from infinity."""
        while self._bounds is None:
            if all(value > 0 for value in self._uniforms):
                low, high = self._enclosed()
                if low > 0:
                    self._bounds = low, high
                    break
            self.reveal()
        return self._bounds

    def to_float(self) -> float:
        """G to PRECISION, relatively, drawing digits where it needs them."""
        low, high = self.bounds()
        while high - low > low / 2**45:
            self.reveal()
            low, high = self.bounds()
        return float(low)

    def _enclosed(self) -> tuple[Fraction, Fraction]:
        low, high = self._minus_log(self._uniforms[: self._factors])
        if len(self._uniforms) > self._factors:
            fall, turn = self._uniforms[self._factors :]
            fall_low, fall_high = self._minus_log([fall])
            # (1 + cos(pi U)) / 2 = cos(pi U / 2)^2
            least, most = cosine_pi(turn, self.digits)
            low += fall_low * max(1 + least, Fraction(0)) / 2
            high += fall_high * min(1 + most, Fraction(2)) / 2
        return low, high

    def _minus_log(self, uniforms: list[int]) -> tuple[Fraction, Fraction]:
        """-log of the product of uniforms: each lies between its digits and its digits plus one unit."""
        bits = self.digits + 64
        places = self.digits * len(uniforms)
        low, low_shift = _product(uniforms, bits, up=False)
        high, high_shift = _product([value + 1 for value in uniforms], bits, up=True)
        least, most = minus_log(high, places - high_shift, bits)[0], minus_log(low, places - low_shift, bits)[1]
        return max(least, Fraction(0)), most


def _product(values: list[int], bits: int, up: bool) -> tuple[int, int]:
    """(p, e) with p 2^e below (above) the product of positive integers, by a relative error of 2^-bits or so."""
    product, shift = 1, 0
    keep = bits + len(values).bit_length() + 8
    for start in range(0, len(values), 64):
        product *= math.prod(values[start : start + 64])
        excess = product.bit_length() - keep
        if excess > 0:
            product = -(-product >> excess) if up else product >> excess
            shift += excess
    return product, shift


class Lengths:
    """One Gamma real for each of some vectors of m numbers: exactly, and as floats right to PRECISION, relatively."""

    def __init__(self, words: NDArray[np.uint64], m: int, next_word: Callable[[], int]) -> None:
        rows = words.shape[0]
        factors, half = _uniforms(m)
        if words.shape[1] != factors + half:
            raise ValueError("one word for each uniform")
        self.m = m
        self._words = words
        self._next_word = next_word
        self._lazy: dict[int, LazyGamma] = {}
        self.gamma, error = np.empty(rows), np.empty(rows)
        _float_gamma(words, factors, self.gamma, error)
        for row in np.flatnonzero(~(error <= self.gamma * PRECISION)).tolist():
            self.gamma[row] = self.exact(row).to_float()

    def exact(self, row: int) -> LazyGamma:
        """The real number itself: all who ask for a row share its digits."""
        if row not in self._lazy:
            self._lazy[row] = LazyGamma(self._words[row].tolist(), self.m, self._next_word)
        return self._lazy[row]


def keeps(z: int, v_of_gamma: Fraction, s: Fraction, u: int, gamma: LazyGamma, next_word: Callable[[], int]) -> bool:
    """Decide u < exp(-(|z| - v / s)^2 / (2 v)), v = v_of_gamma G, exactly; u: the first 64 digits of a uniform."""
    digits = 64
    while True:
        low, high = (v_of_gamma * end for end in gamma.bounds())
        away = sorted((abs(z) - low / s, abs(z) - high / s))
        nearest = Fraction(0) if away[0] <= 0 <= away[1] else min(abs(away[0]), abs(away[1]))
        farthest = max(abs(away[0]), abs(away[1]))
        bits = digits + 64
        if Fraction(u + 1, 1 << digits) <= Fraction(exp_minus(farthest**2 / (2 * low), bits)[0], 1 << bits):
            return True
        if Fraction(u, 1 << digits) >= Fraction(exp_minus(nearest**2 / (2 * high), bits)[1], 1 << bits):
            return False
        u, digits = u << 64 | next_word(), digits + 64
        if gamma.digits < digits:
            gamma.reveal()


class L2Sampler:
    """Draws vectors from one stream of words, reusing tables and buffers from call to call.

    `band` is the half-width inside which the float decision is not trusted; a wider one only costs time.
    """

    def __init__(self, stream: KeyStream, band: float = BAND) -> None:
        if band < BAND:
            raise ValueError("the band may be widened, not narrowed")
        self.band = band
        self.exact_decisions = 0
        self._stream = stream
        self._samplers: dict[int, Sampler] = {}
        self._proposals, self._rows, self._places = (np.empty(AT_ONCE, np.int64) for _ in range(3))
        self._uniforms = np.empty(AT_ONCE, np.uint64)
        self._chance = np.empty(AT_ONCE)
        self._undecided = np.empty((AT_ONCE, 3), np.int64)

    def lengths(self, rows: int, m: int) -> Lengths:
        """New random lengths for `rows` independent vectors of m numbers each."""
        return Lengths(self._stream.words(rows * sum(_uniforms(m))).reshape(rows, -1), m, self._next_word)

    def draw(self, lengths: Lengths, t: float, out: NDArray[np.int64]) -> None:
        """Overwrite a contiguous `out` (one row per length) with numbers of those vectors, at scale t.

        A vector may be drawn in several calls, each with its own t: give the same `lengths`, and ask for no more
        than m numbers a row in all. Numbers saturate at +-2^62.
        """
        if out.ndim != 2 or out.dtype != np.int64 or not out.flags.c_contiguous or len(out) != lengths.gamma.size:
            raise ValueError("draws go into a contiguous int64 array with a row for each length")
        require_scale(t, lengths.m)
        scale = t * np.sqrt(2.0 * lengths.gamma)
        step = _ladder(scale, t * math.sqrt(lengths.m + 1))
        centre = scale / _SCALES[step]
        band = np.where(centre <= LARGEST_CENTRE, self.band, _ALWAYS)
        for found in np.flatnonzero(np.bincount(step)).tolist():
            self._fill(found, np.flatnonzero(step == found), lengths, t, out, 1.0 / scale, centre, band)

    def _fill(
        self,
        step: int,
        chosen: NDArray[np.intp],
        lengths: Lengths,
        t: float,
        out: NDArray[np.int64],
        inverse: NDArray[np.float64],
        centre: NDArray[np.float64],
        band: NDArray[np.float64],
    ) -> None:
        """Fill the chosen rows, whose proposals come from one table. Refused places wait for the next round."""
        if step not in self._samplers:
            self._samplers[step] = Sampler(LaplaceTable.build(float(_SCALES[step])), self._stream)
        sampler = self._samplers[step]
        flat, width = out.reshape(-1), out.shape[1]
        begun = waiting = 0
        while True:
            begun, waiting = _enlist(chosen, width, begun, waiting, self._rows, self._places)
            if not waiting:
                return
            proposals, uniforms = self._proposals[:waiting], self._uniforms[:waiting]
            chance = self._chance[:waiting]
            sampler.draw(proposals)
            self._stream.fill(uniforms)
            _chances(proposals, self._rows, inverse, centre, chance)
            waiting, count = _decide(proposals, uniforms, chance, self._rows, self._places, band, flat, self._undecided)
            for row, place, at in self._undecided[:count].tolist():
                flat[place] = self._exact(sampler, t, lengths.exact(row), int(proposals[at]), int(uniforms[at]))
                self.exact_decisions += 1

    def _exact(self, sampler: Sampler, t: float, gamma: LazyGamma, z: int, u: int) -> int:
        """One number by exact decisions, from the proposal and the digits already drawn."""
        v_of_gamma, s = 2 * Fraction(t) ** 2, Fraction(sampler.table.t)
        while True:
            z = _unsaturated(z, sampler)
            if keeps(z, v_of_gamma, s, u, gamma, self._next_word):
                return max(-LIMIT, min(LIMIT, z))
            z, u = _one(sampler), self._next_word()

    def _next_word(self) -> int:
        return int(self._stream.words(1)[0])


def _one(sampler: Sampler) -> int:
    out = np.empty(1, np.int64)
    sampler.draw(out)
    return int(out[0])


def _unsaturated(z: int, sampler: Sampler) -> int:
    """The Laplace draw that a saturated one stands for: by how much it passes the limit is geometric again."""
    sign, size, last = (-1 if z < 0 else 1), abs(z), abs(z)
    while last >= LIMIT:
        last = -1
        while last < 0:  # two-sided draws that are not negative are the one-sided law
            last = _one(sampler)
        size += last
    return sign * size


# Scales of proposals, from the smallest table to the largest by sqrt 2, so that few tables serve all lengths.
_SCALES = SMALLEST_T * np.exp2(np.arange(round(2 * math.log2(LARGEST_T / SMALLEST_T)) + 1) / 2)


def _ladder(scale: NDArray[np.float64], typical: float) -> NDArray[np.int64]:
    """Which of the scales serves each standard deviation: the nearest; far below the typical one, every sixth.

    Any would give the same law. Short lengths are rare: it is cheaper to refuse a few more proposals for them than to
    build a table for each.
    """
    lowest = round(2 * math.log2(typical / SMALLEST_T)) - 6
    near = np.rint(2.0 * np.log2(np.maximum(scale, SMALLEST_T) / SMALLEST_T))
    coarse = near + np.maximum(lowest - near, 0) % 6
    step: NDArray[np.int64] = np.minimum(coarse, _SCALES.size - 1).astype(np.int64)
    return step
