"""Moments and durations as Python's own types, from text, numbers or what a TOML file holds."""

from __future__ import annotations

import datetime
import re
from typing import Any

__all__ = ["MICROSECOND", "TEMPORAL", "micros", "moment", "moment_text"]

TEMPORAL = ("date", "datetime", "time", "duration")
_EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
_LAST = datetime.time(23, 59, 59, 999999)
_CLOCK = re.compile(
    r"(?:(?P<days>\d+)\s*d(?:ays?)?,?\s*)?(?:(?P<h>\d+):(?P<m>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?)?", re.ASCII
)
_ISO = re.compile(
    r"P(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def moment(kind: str, value: Any) -> Any:
    """The date, datetime, time or timedelta that a value means in a column of that `kind`; None if it means none.

    >>> moment("date", "2020-01-31"), moment("time", "24:00"), moment("duration", "P1DT2H")
    (datetime.date(2020, 1, 31), datetime.time(23, 59, 59, 999999), datetime.timedelta(days=1, seconds=7200))
    """
    try:
        return _READERS[kind](value)
    except (ValueError, OverflowError, TypeError):
        return None


def micros(value: Any) -> float:
    """A moment as microseconds: since 1970, since midnight, or how long. What is a number stays one."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) / MICROSECOND
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.toordinal()) * 86_400e6
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1e6 + value.microsecond
    if isinstance(value, datetime.timedelta):
        return value / MICROSECOND
    return float(value)


def moment_text(value: Any) -> Any:
    """A moment as JSON can hold it; what is none stays what it is."""
    if isinstance(value, datetime.timedelta):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _date(value: Any) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    found = _datetime(value)
    return None if found is None or found.time() != datetime.time() else found.date()


def _datetime(value: Any) -> datetime.datetime | None:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, str):
        return None
    return datetime.datetime.fromisoformat(value.strip()).replace(tzinfo=None)


def _time(value: Any) -> datetime.time | None:
    if isinstance(value, datetime.time):
        return value.replace(tzinfo=None)
    if not isinstance(value, str):
        return None
    if re.fullmatch(r"24:00(:00(\.0+)?)?", value.strip()):
        return _LAST
    return datetime.time.fromisoformat(value.strip()).replace(tzinfo=None)


def _duration(value: Any) -> datetime.timedelta | None:
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.timedelta(seconds=value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-").strip()
    found = _ISO.fullmatch(text)
    if found is not None and len(text) > 2:
        part = {key: float(number) for key, number in found.groupdict(default="0").items()}
        hours = datetime.timedelta(hours=part["h"], minutes=part["m"], seconds=part["s"])
        return sign * (hours + datetime.timedelta(weeks=part["w"], days=part["d"]))
    clock = _CLOCK.fullmatch(text)
    if clock is None or not text:
        return None
    got = clock.groupdict(default="0")
    length = datetime.timedelta(days=int(got["days"]), hours=int(got["h"]), minutes=int(got["m"]))
    return sign * (length + datetime.timedelta(seconds=float(got["s"])))


_READERS = {"date": _date, "datetime": _datetime, "time": _time, "duration": _duration}
