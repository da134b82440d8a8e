"""Dates, moments and times of day; `CalendarKind` (`timed.py`) has what they share with durations."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from adumbra.common.types import Integers, Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.cell_kind import wrong
from adumbra.declare.cell_kinds.duration import Duration
from adumbra.declare.cell_kinds.timed import DAY, STEPS, CalendarKind, clock_text, whole_seconds

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["CalendarKind", "Date", "Datetime", "Duration", "TimeOfDay"]

_EPOCH = datetime.datetime(1970, 1, 1)
_OFFSET = r"(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?))?"
_HOUR = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
_ISO = rf"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[T ]{_HOUR}{_OFFSET})?$"
_CLOCK = rf"^{_HOUR.replace('{2}', '{1,2}', 1)}{_OFFSET}$"
_STAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
_END_OF_DAY = r"^24(?:\D*00){1,2}(?:\.0+)?$"
"""24:00, which is the midnight that 00:00 is."""


def _days(day: pl.Series) -> Reals:
    """Seconds of days; the years 1 to 9999, as every library has them."""
    found = day.to_physical().cast(pl.Float64).to_numpy() * DAY
    return np.where(found < _FIRST, np.nan, found)


def _of_4_digits(seconds: Reals) -> Reals:
    """Without years below 1000, of which a format would read 20 as one."""
    return np.where(seconds < _YEAR_1000, np.nan, seconds)


def _clock(hour: pl.Series, minute: pl.Series, second: pl.Series) -> Reals:
    """Seconds of the parts of a clock's text, nan where there is no such time; 24:00 is the end of the day."""
    h, m, s = (part.cast(pl.Float64, strict=False).to_numpy() for part in (hour, minute, second.fill_null("0")))
    found = h * 3600 + m * 60 + s
    return np.where((m < 60) & (s < 60) & (found <= DAY), found, np.nan)


def _iso(text: pl.Series) -> tuple[Reals, Reals]:
    """Seconds of ISO text by the clock it is written in, and how far ahead of UTC that clock is (nan: not said)."""
    parts = text.to_frame("t").select(pl.col("t").str.extract_groups(_ISO)).unnest("t")
    day, hour, minute, second, offset = (parts.to_series(place) for place in range(5))
    seconds = _days(day.str.strptime(pl.Date, "%Y-%m-%d", strict=False))
    seconds = seconds + np.where(hour.is_null().to_numpy(), 0.0, _clock(hour, minute, second))
    if offset.null_count() == len(offset):
        return seconds, np.full(len(seconds), np.nan)
    digits = offset.str.replace("Z", "+00").str.replace_all(":", "").str.pad_end(7, "0")
    away = sum(
        digits.str.slice(start, 2).cast(pl.Float64, strict=False).to_numpy() * unit
        for start, unit in ((1, 3600), (3, 60), (5, 1))
    )
    return seconds, np.where(digits.str.starts_with("-").fill_null(False).to_numpy(), -away, away)


class Date(CalendarKind):
    """A day, as the cell writes it: whatever zone a moment has, its own day counts."""

    name = "date"
    default_step = "day"
    steps = ("day",)
    example = "2020-01-31"
    native_text, common_part = _STAMP, "%Y-"

    @staticmethod
    def parse(value: object) -> int | None:
        """A date, or ISO text."""
        found = Datetime.parse(value)
        return None if found is None or found % DAY else found

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return (_EPOCH + datetime.timedelta(seconds=seconds)).date().isoformat()

    def _native_seconds(self, cells: pl.Series) -> Reals | None:
        if cells.dtype == pl.Date:
            return _days(cells)
        return whole_seconds(cells.dt.replace_time_zone(None)) if isinstance(cells.dtype, pl.Datetime) else None

    def _parsed(self, text: pl.Series) -> Reals:
        return _of_4_digits(_days(text.str.strptime(pl.Date, str(self.column.format), strict=False)))

    def _text_seconds(self, text: pl.Series) -> Reals:
        return _iso(text)[0]

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series((seconds // DAY).astype(np.int32)).cast(pl.Date)


class Datetime(CalendarKind):
    """A moment: a day and a time of it, by the clock of the declared zone."""

    name = "datetime"
    keys = (*CalendarKind.keys, "zone")
    example = "2020-01-31T10:00:00"
    native_text, common_part = _STAMP, "%Y-"

    @classmethod
    def check(cls, column: Column) -> None:
        """As all, and a zone that is known, whose clock shows both ends."""
        if column.zone is not None:
            try:
                pl.Series([_EPOCH]).dt.replace_time_zone(column.zone)
            except pl.exceptions.PolarsError:
                remedy = 'write zone = "Europe/Paris", for example'
                raise wrong(column, "a known time zone", f"zone = {said(column.zone)}", remedy) from None
        super().check(column)
        for key in ("low", "high") if column.zone is not None else ():
            end = pl.Series([_EPOCH + datetime.timedelta(seconds=cls.parse(getattr(column, key)) or 0)])
            if _there(end, str(column.zone)).null_count():
                got = f"{key} = {getattr(column, key)}, which it leaves out"
                raise wrong(column, f"{key} as the clock of {column.zone} shows it", got, f"write {key} an hour later")

    @staticmethod
    def parse(value: object) -> int | None:
        """A moment or a day, as such or as ISO text, without an offset."""
        if isinstance(value, str):
            try:
                value = datetime.datetime.fromisoformat(value.strip())
            except ValueError:
                return None
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime.datetime) or value.tzinfo is not None or value.microsecond:
            return None
        away = value - _EPOCH
        return away.days * DAY + away.seconds

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat()

    def _native_seconds(self, cells: pl.Series) -> Reals | None:
        if cells.dtype == pl.Date:
            return _days(cells)
        if not isinstance(cells.dtype, pl.Datetime):
            return None
        if cells.dtype.time_zone is not None:
            cells = cells.dt.convert_time_zone(self.column.zone or "UTC").dt.replace_time_zone(None)
        return whole_seconds(cells)

    def _parsed(self, text: pl.Series) -> Reals:
        found = whole_seconds(text.str.strptime(pl.Datetime("us"), str(self.column.format), strict=False))
        return _of_4_digits(found)

    def _text_seconds(self, text: pl.Series) -> Reals:
        """With an offset, the clock of the declared zone (or of UTC) at that moment."""
        seconds, away = _iso(text)
        known = ~np.isnan(away) & ~np.isnan(seconds)
        if known.any():
            utc = seconds[known] - away[known]
            if self.column.zone is not None:
                moments = pl.Series(utc.astype(np.int64) * 10**6).cast(pl.Datetime("us", "UTC"))
                utc = whole_seconds(moments.dt.convert_time_zone(self.column.zone).dt.replace_time_zone(None))
            seconds[known] = utc
        return seconds

    def _native(self, seconds: Integers) -> pl.Series:
        found = pl.Series(seconds.astype(np.int64) * 10**6).cast(pl.Datetime("us"))
        if self.column.zone is None:
            return found
        there = _there(found, self.column.zone)
        # what a clock leaves out in spring is an hour later; a day that a country left out is the next one
        for later in ("1h", "1d"):
            if there.null_count():
                moved = _there(found.dt.offset_by(later), self.column.zone)
                there = there.zip_with(there.is_not_null(), moved)
        return there


def _there(moments: pl.Series, zone: str) -> pl.Series:
    """Moments of a zone's clock, the first where it shows an hour twice, nothing where it leaves one out."""
    return moments.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")


class TimeOfDay(CalendarKind):
    """A time of day; of a moment, what its own clock shows."""

    name = "time"
    steps = ("hour", "minute", "second")
    example = '"10:00"'
    native_text, common_part = rf"{_STAMP}|^[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}", ":"

    @classmethod
    def _declared(cls, column: Column, key: str) -> int:
        """The whole day, where nothing is declared; its end (24:00) is the last step of it."""
        value: Any = getattr(column, key)
        if key == "low" and value is None:
            return 0
        if key == "high" and (value is None or (isinstance(value, str) and value.strip() in ("24:00", "24:00:00"))):
            return DAY - STEPS[str(column.step)]
        return super()._declared(column, key)

    @staticmethod
    def parse(value: object) -> int | None:
        """A time, or text of hours, minutes and perhaps seconds."""
        if isinstance(value, datetime.time):
            value = None if value.tzinfo is not None or value.microsecond else value.isoformat(timespec="seconds")
        if not isinstance(value, str) or not value.isascii():
            return None
        found = _clock_seconds(pl.Series([value.strip()]))[0]
        return int(found) if found < DAY else None

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return clock_text(seconds)

    def _native_seconds(self, cells: pl.Series) -> Reals | None:
        if cells.dtype == pl.Time:
            return whole_seconds(cells)
        if cells.dtype == pl.Date:
            return _days(cells) % DAY
        if isinstance(cells.dtype, pl.Datetime):
            return whole_seconds(cells.dt.replace_time_zone(None)) % DAY
        return None

    def _parsed(self, text: pl.Series) -> Reals:
        found = whole_seconds(text.str.strptime(pl.Time, str(self.column.format), strict=False))
        midnight = text.str.contains(_END_OF_DAY).fill_null(False).to_numpy()
        return np.where(midnight & str(self.column.format).startswith("%H"), 0.0, found)

    def _text_seconds(self, text: pl.Series) -> Reals:
        found = _clock_seconds(text)
        left = np.isnan(found)
        if left.any():  # of a moment, the time of its day
            found[left] = _iso(text.filter(pl.Series(left)))[0]
        return found % DAY

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series(seconds.astype(np.int64) * 10**9).cast(pl.Time)


def _clock_seconds(text: pl.Series) -> Reals:
    parts = text.to_frame("t").select(pl.col("t").str.extract_groups(_CLOCK)).unnest("t")
    return _clock(*(parts.to_series(place) for place in range(3)))


_FIRST, _YEAR_1000 = (float((datetime.datetime(year, 1, 1) - _EPOCH).days * DAY) for year in (1, 1000))
