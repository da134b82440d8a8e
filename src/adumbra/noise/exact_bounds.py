"""Proven bounds on exponentials, logarithms and cosines, in rational arithmetic, for draws that float64 cannot decide.

Series with their remainders bounded (any textbook; the argument reductions and the bounds are worked out in
docs/proofs/noise-gaussian.md and docs/proofs/noise-l2-laplace.md). Every function returns a lower and an upper bound.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

__all__ = ["BITS", "cosine_pi", "exp_minus", "minus_log"]

BITS = 384  # of the proven bounds; the smallest density of a bin of a noise table is e^-128, about 2^-185


def exp_minus(x: Fraction, bits: int = BITS) -> tuple[int, int]:
    """Integers (low, high) with low <= exp(-x) * 2^bits <= high, for any rational x >= 0.

    e^(x / 2^k) is summed from positive terms, each rounded down (up), then squared k times, then inverted.

    >>> low, high = exp_minus(Fraction(1), 64)
    >>> round(low / 2**64, 12), high - low <= 2
    (0.367879441171, True)
    """
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1) + 8
    precision = bits + 2 * halvings + 32
    r_low = (x.numerator << precision) // (x.denominator << halvings)
    one = 1 << precision
    low = high = one
    term_low = term_high = one
    n = 0
    while term_high > 1:
        n += 1
        term_low = ((term_low * r_low) >> precision) // n
        term_high = -((-(term_high * (r_low + 1)) >> precision) // n)
        low += term_low
        high += term_high
    high += 2  # every later term is below half of the one before, and the last was at most 1
    for _ in range(halvings):
        low = (low * low) >> precision
        high = -(-(high * high) >> precision)
    numerator = 1 << (precision + bits)
    return numerator // high, -(-numerator // low)


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _power_sums(n: int, d: int, bits: int) -> tuple[list[int], list[int]]:
    """Bounds, in units of 2^-bits, of the sum of z^(2 i + 1) / (2 i + 1) over even i and over odd i.

    z = n / d lies in [0, 1/3]. All terms are positive and rounded one way; after the last, each is below a ninth of
    the one before.
    """
    low_power, high_power = (n << bits) // d, _up(n << bits, d)
    low, high = [0, 0], [2, 2]
    i = 0
    while high_power > 1:
        low[i % 2] += low_power // (2 * i + 1)
        high[i % 2] += _up(high_power, 2 * i + 1)
        low_power, high_power = low_power * n * n // (d * d), _up(high_power * n * n, d * d)
        i += 1
    return low, high


@lru_cache(maxsize=8)
def _log_two(bits: int) -> tuple[int, int]:
    low, high = _power_sums(1, 3, bits)
    return 2 * sum(low), 2 * sum(high)


@lru_cache(maxsize=8)
def _pi(bits: int) -> tuple[int, int]:
    """By 16 atan(1/5) - 4 atan(1/239)."""
    (a, b), (c, d) = _power_sums(1, 5, bits)
    (e, f), (g, h) = _power_sums(1, 239, bits)
    return 16 * (a - d) - 4 * (g - f), 16 * (c - b) - 4 * (e - h)


def minus_log(p: int, e: int, bits: int) -> tuple[Fraction, Fraction]:
    """Bounds of -log(`p` / 2^`e`), for integers 0 < p <= 2^e; about 2^-`bits` apart.

    >>> low, high = minus_log(1, 3, 100)
    >>> float(low), high - low < Fraction(1, 1 << 100)
    (2.0794415416798357, True)
    """
    whole = 1 << (p.bit_length() - 1)
    halvings = e - p.bit_length() + 1
    digits = bits + 8 + halvings.bit_length()
    low, high = _power_sums(p - whole, p + whole, digits)  # log y = 2 atanh((y - 1) / (y + 1))
    two_low, two_high = _log_two(digits)
    unit = 1 << digits
    return Fraction(halvings * two_low - 2 * sum(high), unit), Fraction(halvings * two_high - 2 * sum(low), unit)


def cosine_pi(turn: int, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds of cos(pi U) for all U from turn / 2^digits to (turn + 1) / 2^digits, within [0, 1].

    >>> low, high = cosine_pi(1 << 63, 64)
    >>> low < 0 < high, high - low < Fraction(1, 1 << 60)
    (True, True)
    """
    bits = digits + 64
    low_pi, high_pi = _pi(bits)
    low = _cosine_sums(low_pi * (turn + 1) >> digits, _up(high_pi * (turn + 1), 1 << digits), bits)[0]
    high = _cosine_sums(low_pi * turn >> digits, _up(high_pi * turn, 1 << digits), bits)[1]
    return Fraction(low, 1 << bits), Fraction(high, 1 << bits)


def _cosine_sums(low_x: int, high_x: int, bits: int) -> tuple[int, int]:
    """Bounds of cos x for all x from low_x to high_x, 0 <= x < 4, everything in units of 2^-bits."""
    low, high = [0, 0], [2, 2]
    low_term = high_term = 1 << bits
    i = 0
    while high_term > 1 or i < 8:  # from the eighth on, a term is below a tenth of the one before
        low[i % 2] += low_term
        high[i % 2] += high_term
        i += 1
        below = (2 * i - 1) * (2 * i) << (2 * bits)
        low_term, high_term = low_term * low_x**2 // below, _up(high_term * high_x**2, below)
    return low[0] - high[1], high[0] - low[1]
