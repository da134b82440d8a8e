"""Ranges to suggest: rounded outward from what the rows reach, so that they do not quote the extreme rows."""

from __future__ import annotations

import math

__all__ = ["outward", "round_up", "years"]

_NARROW = 20


def years(low: float, high: float) -> tuple[float, float]:
    """Whole decades around years.

    >>> years(2013, 2013), years(1987, 2010), years(2010, 2010)
    ((2010, 2020), (1980, 2010), (2010, 2020))
    """
    start, end = math.floor(low / 10) * 10, math.ceil(high / 10) * 10
    return start, max(end, start + 10)


def round_up(number: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ... from there on.

    >>> round_up(7.3), round_up(20), round_up(0.03)
    (10.0, 20.0, 0.05)
    """
    power = math.floor(math.log10(number))
    for digit, more in ((1, 0), (2, 0), (5, 0), (1, 1)):
        step = float(f"{digit}e{power + more}")
        if step >= number * (1 - 1e-12):
            return step
    return step


def outward(low: float, high: float, decimals: int | None) -> tuple[float, float]:
    """A seen range, rounded outward to a tenth of its width or so, in numbers of `decimals` digits after the point.

    Few whole numbers are left as they are: such ends are codes, which many rows hold.

    >>> outward(17, 90, 0), outward(1, 5, 0), outward(5, 5, 0), outward(0.12, 0.47, 2)
    ((10.0, 90.0), (1, 5), (0.0, 10.0), (0.1, 0.5))
    """
    if not low < high:
        return _around(low, decimals)
    width = high - low
    if not 1e-280 < width < 1e299 or width < 1e-9 * max(-low, high):
        return low, high  # no schema would take it, or only just
    if decimals == 0 and width < _NARROW:
        return low, high
    unit = round_up(width / 10)
    if decimals is not None:
        unit = max(unit, float(f"1e{-decimals}"))
    return _down(low, unit), -_down(-high, unit)


def _down(number: float, unit: float) -> float:
    """The largest multiple of the unit below; powers of ten below 1 are not exact in binary, so divide by the whole."""
    if unit >= 1:
        return math.floor(number / unit) * unit + 0.0
    parts = float(round(1 / unit))
    near = float(round(number * parts))
    return (near if near / parts <= number else math.floor(number * parts)) / parts + 0.0


def _around(number: float, decimals: int | None) -> tuple[float, float]:
    """A range around a single number, which stays inside and is not told."""
    size = abs(number)
    if not 1e-280 < size < 1e290:
        return (0.0, 1.0) if size < 1 else (number, number)
    if decimals == 0 and size <= 1:
        return (0.0, 1.0) if number >= 0 else (-1.0, 0.0)
    end = round_up(size * 1.5)
    return (0.0, end) if number > 0 else (-end, 0.0)
