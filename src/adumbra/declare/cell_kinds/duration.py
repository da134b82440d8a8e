"""Durations: how long something took, in whole steps of time."""

from __future__ import annotations

import datetime
import math

import numpy as np
import polars as pl

from adumbra.common.types import Integers, Reals
from adumbra.declare.cell_kinds.timed import DAY, CalendarKind, clock_text, whole_seconds
from adumbra.declare.spelling import numbers

__all__ = ["Duration"]

_MOST = 10**11
"""Seconds of the longest duration that can be declared: three thousand years, which every library can hold."""
_SPAN = r"^([+-])?(?:([0-9]+) ?d(?:ays?)?(,)? ?)?(?:([+-])?([0-9]+):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?)?$"
"""As Python, pandas and databases write one: of `-1 day, 20:00:00` and `-1 days +20:00:00` only the day is negative."""
_ISO_SPAN = r"^([+-])?P(?:([0-9]+)D)?()()(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]+))?S)?)?$"
"""ISO 8601; the empty groups stand where `_SPAN` has the comma and the second sign."""
_SHORT = (
    r"^([+-])?(?:([0-9]+)d)?()() ?-?(?:([0-9]+)h)? ?-?(?:([0-9]+)m)? ?-?(?:([0-9]+)s)? ?-?(?:([0-9]+)(?:ms|[uµ]s|ns))?$"
)
"""As polars shows one, and writes all of a column that holds one word as well."""


class Duration(CalendarKind):
    """How long something took."""

    name = "duration"
    keys = tuple(key for key in CalendarKind.keys if key != "format")
    example = '"3d 04:00:00"'

    @staticmethod
    def parse(value: object) -> int | None:
        """Text of days and a clock, ISO 8601, or seconds as a whole number."""
        if isinstance(value, str):
            exact = _spans(pl.Series([value.strip()]))[0] if value.isascii() else math.nan
            value = float(exact)
        elif isinstance(value, datetime.timedelta):
            value = math.nan if value.microseconds else value.days * DAY + value.seconds
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST:
            return None
        return int(value) if value == int(value) else None

    @staticmethod
    def spell(seconds: int) -> str:
        """Days, where there are any, and a clock."""
        days, rest = divmod(abs(seconds), DAY)
        return ("-" if seconds < 0 else "") + (f"{days}d " if days else "") + clock_text(rest)

    def _native_seconds(self, cells: pl.Series) -> Reals | None:
        return whole_seconds(cells) if cells.dtype == pl.Time or isinstance(cells.dtype, pl.Duration) else None

    def _seconds(self, cells: pl.Series) -> Reals:
        """Numbers count seconds."""
        found = super()._seconds(cells)
        bare = np.floor(numbers(cells, words=False))
        return np.where(np.isnan(bare), found, bare)

    def _text_seconds(self, text: pl.Series) -> Reals:
        return np.floor(_spans(text))

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series(seconds.astype(np.int64) * 10**6).cast(pl.Duration("us"))


def _spans(text: pl.Series) -> Reals:
    """Seconds of text of either form, nan for other text; half a second stands for any part of one."""
    found = np.full(len(text), np.nan)
    for form in (_SPAN, _ISO_SPAN, _SHORT):
        left = np.isnan(found)
        if left.any():
            found[left] = _spans_of(text.filter(pl.Series(left)), form)
    return found


def _spans_of(text: pl.Series, form: str) -> Reals:
    parts = text.to_frame("t").select(pl.col("t").str.extract_groups(form)).unnest("t")
    sign, days, comma, clock_sign, *clock, fraction = (parts.to_series(place) for place in range(8))
    some = days.is_not_null() | fraction.is_not_null()
    total = np.zeros(len(text))
    for size, unit in zip(clock, (3600, 60, 1), strict=True):
        some = some | size.is_not_null()
        total += _size(size) * unit
    total += 0.5 * (fraction.str.strip_chars("0").fill_null("") != "").to_numpy()
    minus, clock_minus = (_is(part, "-") for part in (sign, clock_sign))
    apart = _is(comma, ",") | _is(clock_sign, "+") | clock_minus
    total = np.where(np.where(apart, clock_minus, minus), -total, total)
    total += np.where(minus, -1.0, 1.0) * _size(days) * DAY
    return np.where(some.to_numpy(), total, np.nan)


def _size(digits: pl.Series) -> Reals:
    return digits.cast(pl.Float64, strict=False).fill_null(0).to_numpy()


def _is(part: pl.Series, sign: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray((part == sign).fill_null(False).to_numpy())
