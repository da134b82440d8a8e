"""Moments and durations in one spelling each, whichever library or file wrote them.

A library writes a whole column of them in another way on account of one cell: pandas writes 0 days 01:00:00 to a file,
and 1:00:00 where a word stands among them.
"""

from __future__ import annotations

import datetime
import re

import numpy as np
import polars as pl

__all__ = ["is_timed", "moment_text", "moment_texts", "span_texts", "timed_text"]

_MOMENT = re.compile(
    r"(?:(?P<day>\d{4}-\d\d-\d\d)[T ])?(?P<minute>\d\d:\d\d)(?P<second>:\d\d(?:\.\d+)?)?"
    r" ?(?P<offset>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_SPAN = re.compile(
    r"(?P<sign>-)?(?:(?P<days>\d{1,9}) ?d(?:ays?)?(?P<comma>,)? )?(?P<plus>[+-])?"
    r"(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,9}))?",
    re.ASCII,
)
_LIKE_ONE = (
    r"^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{2}:[0-9]{2}"
    r"|^-?(?:[0-9]+ ?d(?:ays?)?,? )?[+-]?[0-9]{1,2}:[0-9]{2}:"
)
_IN_ONE_SPELLING = re.compile(r"\d{4}-\d\d-\d\d|-?(?:\d+d )?\d\d:\d\d", re.ASCII)


def is_timed(text: str) -> bool:
    """Whether text in its one spelling begins like a day, a time or a duration."""
    return _IN_ONE_SPELLING.match(text) is not None


def moment_text(text: str) -> str:
    """A moment without trailing zeros, without a midnight, an offset counted back to zero; a duration; else the text.

    >>> moment_text("2020-01-02T00:00"), moment_text("2020-01-02 01:30:00.0+02:30"), moment_text("1 day, 4:00:00")
    ('2020-01-02', '2020-01-01 23:00:00+00:00', '1d 04:00:00')
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        return _duration_text(text)
    day, offset = found["day"], found["offset"]
    whole, _, fraction = (found["second"] or ":00").partition(".")
    fraction = fraction.rstrip("0")
    clock = found["minute"] + whole
    tail = f".{fraction}" if fraction else ""
    if offset is None:
        if day is None:
            return clock + tail
        return day if clock + tail == "00:00:00" else f"{day} {clock}{tail}"
    if day is None:
        return text
    try:
        away = datetime.timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:])) if offset != "Z" else None
        moment = datetime.datetime.fromisoformat(f"{day} {clock}")
        moment -= (away or datetime.timedelta()) * (-1 if offset[0] == "-" else 1)
    except (ValueError, OverflowError):  # no such day
        return text
    return f"{moment.isoformat(sep=' ')}{tail}+00:00"


def _duration_text(text: str) -> str:
    found = _SPAN.fullmatch(text)
    if found is None:
        return text
    clock = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + int(found["second"])
    ticks = clock * 10**9 + int((found["part"] or "").ljust(9, "0"))
    days = int(found["days"] or 0) * 86400 * 10**9
    if found["comma"] or found["plus"]:  # the day alone has the first sign
        return _span(days * (-1 if found["sign"] else 1) + ticks * (-1 if found["plus"] == "-" else 1), 10**9)
    return _span((days + ticks) * (-1 if found["sign"] else 1), 10**9)


def _span(count: int, ticks: int) -> str:
    """So many ticks of which a second has `ticks`: days where there are any, a clock, and what is left of a second.

    >>> _span(-100_800_500, 1000)
    '-1d 04:00:00.5'
    """
    whole, rest = divmod(abs(count), ticks)
    days, clock = divmod(whole, 86400)
    tail = f".{rest:0{len(str(ticks)) - 1}}".rstrip("0").rstrip(".")
    head = ("-" if count < 0 else "") + (f"{days}d " if days else "")
    return f"{head}{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}{tail}"


def timed_text(cell: object) -> str | None:
    """A day with its midnight, which no format takes for other text; a duration in its one form; None for others."""
    if isinstance(cell, np.datetime64 | np.timedelta64):
        cell = cell.astype(f"{cell.dtype.str[1:3]}[us]").item()
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        return f"{cell.isoformat()} 00:00:00"
    if not isinstance(cell, datetime.timedelta):
        return str(cell) if isinstance(cell, datetime.datetime) else None
    micros = (cell.days * 86400 + cell.seconds) * 10**6 + cell.microseconds
    return _span(micros * 1000 + int(getattr(cell, "nanoseconds", 0)), 10**9)  # of which Python has none, but pandas


def moment_texts(text: pl.Series) -> pl.Series:
    """Texts with every moment and duration in its one spelling."""
    like = text.filter(text.str.contains(_LIKE_ONE).fill_null(False)).unique()
    return text.replace(like, pl.Series([moment_text(one) for one in like], dtype=pl.String)) if len(like) else text


def span_texts(cells: pl.Series) -> pl.Series:
    """Native durations as text, as `timed_text` has them."""
    ticks = {"ms": 10**3, "us": 10**6, "ns": 10**9}[str(getattr(cells.dtype, "time_unit", "us"))]
    found = cells.to_physical()
    each = found.drop_nulls().unique()
    words = [_span(one, ticks) for one in each]
    return found.replace_strict(each, pl.Series(words, dtype=pl.String), default=None, return_dtype=pl.String)
