"""Tables for drawing integers exactly: a rounded Gaussian and a two-sided geometric ("discrete Laplace").

Both laws are symmetric and fall with the magnitude, so both are drawn the same way. Magnitudes are cut into
bins of 2^width_bits integers. A bin is picked with probability weight / 2^62 (integer weights, so the pick is
exact), a place in it uniformly, and the place is kept with probability

    acceptance = scale * density(place) / weight      (the weight is never below scale * density(left end))

which leaves exactly the wanted density, whatever the weights. Every number here is an integer or a rational
with a proven bound; the floats serve only to decide quickly when the answer is not close.
`check` proves all of it again for every bin of a table, through a second exponential (mpmath intervals).

Two random words make one attempt. Word a: 10 bits pick a cell, 1 is the sign, 1 says in which half of its
integer a real magnitude lies, 52 are the alias threshold. Word b: the low `width_bits` bits are the place in
the bin, the rest are the first bits of a uniform real u; the place is kept if u < acceptance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.noise.exact_bounds import BITS, exp_minus

__all__ = ["LARGEST_T", "SMALLEST_T", "GaussianTable", "LaplaceTable", "NoiseTable", "bit_layout"]

SMALLEST_T = 2.0**-5
LARGEST_T = 2.0**57
CELL_BITS = 10
CELLS = 1 << CELL_BITS
SIGN_SHIFT = 10
HALF_SHIFT = 11
THRESHOLD_SHIFT = 12
CAPACITY = 1 << 52  # mass of one alias cell
TOTAL = CELLS * CAPACITY
REACH = 16  # the bins cover at least this many t
_CHAIN = BITS + 64


def _times(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    """Bounds of a product of numbers in [0, 1], rounded outward."""
    return (one[0] * two[0]) >> _CHAIN, -((-one[1] * two[1]) >> _CHAIN)


def _outward(bounds: tuple[Fraction, Fraction]) -> tuple[int, int]:
    """Bounds in units of 2^-_CHAIN."""
    return (bounds[0] * (1 << _CHAIN)) // 1, -(-(bounds[1] * (1 << _CHAIN)) // 1)


def _chained(count: int, ratio: tuple[int, int], growth: tuple[int, int]) -> list[tuple[int, int]]:
    """Bounds of 1, r, r (r g), r (r g) (r g^2), ...: each from the one before, so that only one exponential is summed.

    A product loses two units in the last of _CHAIN binary digits; a thousand of them leave BITS good ones.
    """
    density = (1 << _CHAIN, 1 << _CHAIN)
    out: list[tuple[int, int]] = []
    for _ in range(count):
        out.append(density)
        density, ratio = _times(density, ratio), _times(ratio, growth)
    return out


def bit_layout(width_bits: int) -> tuple[dict[str, int], dict[str, int]]:
    """Which bits of word a and of word b serve what, as masks.

    >>> {name: mask.bit_count() for name, mask in bit_layout(20)[1].items()}
    {'place': 20, 'uniform': 44}
    """
    word = (1 << 64) - 1
    place = (1 << width_bits) - 1
    first = {
        "cell": CELLS - 1,
        "sign": 1 << SIGN_SHIFT,
        "half": 1 << HALF_SHIFT,
        "threshold": word >> THRESHOLD_SHIFT << THRESHOLD_SHIFT,
    }
    return first, {"place": place, "uniform": word ^ place}


def _alias(weights: list[int]) -> NDArray[np.uint64]:
    """Walker's alias table on integers; cell = threshold << 12 | alias. A full cell points at itself."""
    left = list(weights)
    small = [i for i in range(CELLS) if left[i] < CAPACITY]
    large = [i for i in range(CELLS) if left[i] >= CAPACITY]
    cells = list(range(CELLS))
    while small:
        i, j = small.pop(), large[-1]
        cells[i] = left[i] << THRESHOLD_SHIFT | j
        left[j] -= CAPACITY - left[i]
        if left[j] < CAPACITY:
            small.append(large.pop())
    return np.array(cells, np.uint64)


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """What the kernels read: `bins` cells with a bin each, then perhaps a tail cell; the rest weigh 0."""

    t: float
    width_bits: int
    bins: int
    scale: int
    weights: tuple[int, ...]
    cells: NDArray[np.uint64]
    squeeze: NDArray[np.uint64]
    height: NDArray[np.float64]

    has_tail = False
    continuous = True

    def __post_init__(self) -> None:
        for array in (self.cells, self.squeeze, self.height):
            array.setflags(write=False)  # tables are shared by all who ask for the same t

    @property
    def reach(self) -> int:
        """Magnitudes below this lie in the bins."""
        return self.bins << self.width_bits

    @staticmethod
    def exponent(t: Fraction, place: Fraction) -> Fraction:
        """-log density at a magnitude."""
        raise NotImplementedError

    def rate(self) -> float:
        """The factor of the float exponent in the kernels."""
        raise NotImplementedError

    def far_end(self, cell: int) -> Fraction:
        """The largest magnitude of a bin (its supremum for a real magnitude)."""
        return Fraction(((cell + 1) << self.width_bits) - (0 if self.continuous else 1))

    def density(self, cell: int, place: Fraction, bits: int = BITS) -> tuple[Fraction, Fraction]:
        """Proven bounds of the density at a `place`, a magnitude in the bin of `cell`, about 2^-`bits` apart.

        Of the tail cell: of its mass over the width of a bin, whatever the place.
        """
        t = Fraction(self.t)
        if not self._is_tail(cell):
            low, high = exp_minus(self.exponent(t, place), bits)
            return Fraction(low, 1 << bits), Fraction(high, 1 << bits)
        # sum of exp(-x / t) over x >= reach is exp(-reach / t) / (1 - exp(-1 / t))
        low, high = exp_minus(self.exponent(t, Fraction(self.reach)), bits)
        low_one, high_one = exp_minus(1 / t, bits)
        unit = 1 << bits
        width = 1 << self.width_bits
        return Fraction(low, (unit - low_one) * width), Fraction(high, (unit - high_one) * width)

    def acceptance(self, cell: int, near: Fraction, far: Fraction, bits: int = BITS) -> tuple[Fraction, Fraction]:
        """Bounds of the acceptance probability for every place between `near` and `far` of a cell."""
        low = self.density(cell, far, bits)[0]
        high = self.density(cell, near, bits)[1]
        return low * self.scale / self.weights[cell], high * self.scale / self.weights[cell]

    def keeps(self, cell: int, place: tuple[int, int], u: tuple[int, int], next_word: Callable[[], int]) -> bool:
        """Decide u < acceptance exactly, revealing further bits of both reals until it is decided.

        `place` and `u` are (integer, binary digits after the point): the leading digits of two real numbers.
        """
        (place_int, place_bits), (u_int, u_bits) = place, u
        bits = 128
        while True:
            near = Fraction(place_int, 1 << place_bits)
            far = Fraction(place_int + 1, 1 << place_bits) if self.continuous else near
            low, high = self.acceptance(cell, near, far, bits)
            if Fraction(u_int + 1, 1 << u_bits) <= low:
                return True
            if Fraction(u_int, 1 << u_bits) >= high:
                return False
            u_int, u_bits = u_int << 64 | next_word(), u_bits + 64
            if self.continuous:
                place_int, place_bits = place_int << 64 | next_word(), place_bits + 64
            bits *= 2

    def _is_tail(self, cell: int) -> bool:
        return self.has_tail and cell == self.bins

    @classmethod
    def _make(cls, t: float, bins: int | None) -> Any:
        _require_range(t)
        width_bits = 0
        while (CELLS // REACH << width_bits) < t:
            width_bits += 1
        wanted = -(-REACH * Fraction(t) // (1 << width_bits))
        bins = min(wanted, CELLS - cls.has_tail) if bins is None else bins
        blank = np.zeros(CELLS, np.uint64)
        table = cls(t, width_bits, bins, 0, (0,) * CELLS, blank, blank, np.zeros(CELLS))
        used = bins + cls.has_tail
        bounds = table._start_densities()
        if cls.has_tail:
            bounds.append(_outward(table.density(bins, Fraction(table.reach))))
        scale = ((TOTAL - used) << _CHAIN) // sum(high for _, high in bounds)
        weights = [-(-scale * high >> _CHAIN) for _, high in bounds]
        weights[0] += TOTAL - sum(weights)  # a heavier bin is still an envelope
        weights += [0] * (CELLS - used)
        table = cls(t, width_bits, bins, scale, tuple(weights), blank, blank, np.zeros(CELLS))
        squeeze = np.zeros(CELLS, np.uint64)
        height = np.zeros(CELLS)
        digits = 64 - width_bits
        lowest = table._far_densities([low for low, _ in bounds])
        for cell, (low, _) in enumerate(bounds):
            kept = min((lowest[cell] * scale << digits) // (weights[cell] << _CHAIN), (1 << digits) - 1)
            squeeze[cell] = kept << width_bits
            height[cell] = (low * scale) / (weights[cell] << _CHAIN)
        return cls(t, width_bits, bins, scale, tuple(weights), _alias(weights), squeeze, height)

    def _start_densities(self) -> list[tuple[int, int]]:
        """Proven bounds of the density at the start of every bin, in units of 2^-_CHAIN."""
        raise NotImplementedError

    def _far_densities(self, starts: list[int]) -> list[int]:
        """Lower bounds of the density at the far end of every cell, from those at its start, in the same units."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """Prove the table again in rational arithmetic, every cell; the list of faults, empty if none."""
        return _check(self)


class GaussianTable(NoiseTable):
    """Bins for the real magnitude of t Z, Z standard normal, cut at `reach` >= 16 t; the kernel rounds it."""

    @staticmethod
    def exponent(t: Fraction, place: Fraction) -> Fraction:
        """place^2 / (2 t^2)."""
        return place * place / (2 * t * t)

    def rate(self) -> float:
        """1 / (2 t^2)."""
        return 0.5 / self.t / self.t

    def _start_densities(self) -> list[tuple[int, int]]:
        # exp(-a (c+1)^2) = exp(-a c^2) exp(-a (2c+1)), with a = width^2 / (2 t^2)
        step = exp_minus(self.exponent(Fraction(self.t), Fraction(1 << self.width_bits)), _CHAIN)
        return _chained(self.bins, step, _times(step, step))

    def _far_densities(self, starts: list[int]) -> list[int]:
        return [*starts[1:], _outward(self.density(self.bins - 1, Fraction(self.reach)))[0]]

    @staticmethod
    def build(t: float) -> GaussianTable:
        """The table for this t (cached)."""
        return _gaussian(float(t))


class LaplaceTable(NoiseTable):
    """Bins for integers x with P(x) proportional to exp(-|x| / t), and one cell for everything beyond."""

    has_tail = True
    continuous = False

    @staticmethod
    def exponent(t: Fraction, place: Fraction) -> Fraction:
        """place / t."""
        return place / t

    def rate(self) -> float:
        """1 / t."""
        return 1.0 / self.t

    def _start_densities(self) -> list[tuple[int, int]]:
        step = exp_minus(self.exponent(Fraction(self.t), Fraction(1 << self.width_bits)), _CHAIN)
        return _chained(self.bins, step, (1 << _CHAIN, 1 << _CHAIN))

    def _far_densities(self, starts: list[int]) -> list[int]:
        fall = _outward(self.density(0, self.far_end(0)))[0]  # the same ratio in every bin
        return [start if self._is_tail(cell) else start * fall >> _CHAIN for cell, start in enumerate(starts)]

    @staticmethod
    def build(t: float, bins: int | None = None) -> LaplaceTable:
        """The table for this t (cached). Fewer `bins` send more draws to the tail cell, same law."""
        return _laplace(float(t), bins)


@lru_cache(maxsize=64)
def _gaussian(t: float) -> GaussianTable:
    table: GaussianTable = GaussianTable._make(t, None)
    return table


@lru_cache(maxsize=64)
def _laplace(t: float, bins: int | None) -> LaplaceTable:
    table: LaplaceTable = LaplaceTable._make(t, bins)
    return table


def _require_range(t: float) -> None:
    if not SMALLEST_T <= t <= LARGEST_T:
        raise InputError(
            "a noise scale between 2^-5 and 2^57 grid steps",
            f"{t:g} grid steps",
            "give a larger epsilon if the scale is too large, a smaller one if it is too small",
        )


def _check(table: NoiseTable) -> list[str]:
    """See `NoiseTable.check`. Uses mpmath intervals, not `exp_minus`, so that neither vouches for itself."""
    used = table.bins + table.has_tail
    if len(table.weights) != CELLS or not 0 < used <= CELLS or any(table.weights[used:]):
        return ["cells: some weight lies outside the bins"]
    return _check_bits(table) + _check_mass(table) + _check_floats(table) + _check_bins(table, used)


def _check_bits(table: NoiseTable) -> list[str]:
    faults = []
    for name, masks in zip("ab", bit_layout(table.width_bits), strict=True):
        union = 0
        for mask in masks.values():
            union |= mask
        if union != (1 << 64) - 1 or sum(mask.bit_count() for mask in masks.values()) != 64:
            faults.append(f"word {name}: bits overlap or are left out")
    if (1 << table.width_bits) > 1 and Fraction(1 << table.width_bits) > Fraction(table.t) / 32:
        faults.append("bins: wider than t / 32")
    if not table.has_tail and table.reach < REACH * Fraction(table.t):
        faults.append("reach: below 16 t")
    return faults


def _check_mass(table: NoiseTable) -> list[str]:
    mass = [0] * CELLS
    for cell, packed in enumerate(table.cells.tolist()):
        threshold, alias = packed >> THRESHOLD_SHIFT, packed & ((1 << THRESHOLD_SHIFT) - 1)
        if alias >= CELLS:
            return [f"cell {cell}: alias out of range"]
        mass[cell] += threshold
        mass[alias] += CAPACITY - threshold
    wrong = [cell for cell in range(CELLS) if mass[cell] != table.weights[cell]]
    faults = [f"cell {cell}: alias mass is not the weight" for cell in wrong]
    return faults + (["total: weights do not sum to 2^62"] if sum(table.weights) != TOTAL else [])


def _check_floats(table: NoiseTable) -> list[str]:
    """The premises of the error bound of the float decision (docs/proofs/noise-gaussian.md)."""
    t, width = Fraction(table.t), 1 << table.width_bits
    faults = []
    exact_rate = table.exponent(t, Fraction(1))
    if abs(Fraction(table.rate()) - exact_rate) > exact_rate / 2**51:
        faults.append("rate: float coefficient off by more than 2^-51")
    if table.continuous:
        last = (table.bins - 1) * width
        if Fraction(width * (2 * last + width)) * exact_rate > 2**9:
            faults.append("exponent: above 2^9 inside a bin")
        if 2 * (last + width) * exact_rate > 2**11:
            faults.append("slope: exponent changes by more than 2^11 per unit")
    return faults


def _check_bins(table: NoiseTable, used: int) -> list[str]:
    context = MPIntervalContext()
    context.prec = BITS

    def bounds(x: Fraction) -> tuple[Fraction, Fraction]:
        value = context.exp(-(context.mpf(x.numerator) / context.mpf(x.denominator)))
        return _fraction(value.a), _fraction(value.b)

    faults = []
    t, width = Fraction(table.t), Fraction(1 << table.width_bits)
    for cell in range(used):
        low, high = bounds(table.exponent(t, cell * width))
        if table._is_tail(cell):
            one_low, one_high = bounds(1 / t)
            low, high = low / (1 - one_low) / width, high / (1 - one_high) / width
            far = low
        else:
            far = bounds(table.exponent(t, table.far_end(cell)))[0]
        weight = table.weights[cell]
        if weight < table.scale * high:
            faults.append(f"cell {cell}: weight below the envelope")
            continue
        squeeze = int(table.squeeze[cell])
        if squeeze % (1 << table.width_bits):
            faults.append(f"cell {cell}: squeeze reads bits of the place")
        if Fraction(squeeze, 1 << 64) > table.scale * far / weight:
            faults.append(f"cell {cell}: squeeze above the acceptance at the far end")
        height = Fraction(float(table.height[cell])) * weight
        margin = table.scale * high / 2**50
        if not table.scale * high - margin <= height <= table.scale * low + margin:
            faults.append(f"cell {cell}: float height off by more than 2^-50")
    return faults


def _fraction(value: Any) -> Fraction:
    """The exact value of an interval's end."""
    sign, mantissa, exponent, _ = value._mpi_[0]
    number = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -number if sign else number
