"""Dates, times, datetimes and durations, of a type of their own or as text in one of the usual forms."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from adumbra.declare.spelling import emptied

__all__ = ["MomentLook", "durations", "parsed"]

_CLOCK = ("%H:%M", "%H:%M:%S")
_DAY_FORMS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y%m%d", "%Y/%m/%d", "%d-%m-%Y", "%d-%b-%Y")
_FORMS: tuple[tuple[str, str], ...] = (
    ("date", "%Y-%m-%d"),
    *(("date", form) for form in _DAY_FORMS),
    ("datetime", "iso"),
    *(("datetime", f"{day} {clock}") for day in _DAY_FORMS for clock in _CLOCK),
    *(("time", clock) for clock in _CLOCK),
    ("duration", "clock"),
    ("duration", "iso"),
)
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?$"
_OFFSET = r" ?(Z|[+-]\d\d:?\d\d)$"
_LONG = r"^(?:(\d+)d(?:ays?)? ?)?(\d+):(\d\d):(\d\d)$"
_PERIOD = r"^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$"
_PARTS = {"%d": r"\d{1,2}", "%m": r"\d{1,2}", "%Y": r"\d{4}", "%b": "[A-Za-z]{3}", "%H": r"\d\d", "%M": r"\d\d"}
_PARTS["%S"] = r"\d\d"
_STEPS = (("day", 86_400), ("hour", 3600), ("minute", 60))


def _pattern(form: str) -> str:
    tight = form == "%Y%m%d" or form.startswith("%Y%m%d ")
    text = re.escape(form).replace(r"\ ", " ").replace("\\%", "%")
    for mark, digits in _PARTS.items():
        text = text.replace(mark, r"\d\d" if tight and mark in ("%d", "%m") else digits)
    return f"^{text}$"


def parsed(text: pl.Series, kind: str, form: str) -> pl.Series:
    """Texts in one form as moments, nothing where they are not in it.

    `kind` is date, datetime, time or duration; `form` is a format of `strptime`, or a word for a form of its own.
    """
    if kind == "duration":
        return durations(text, form)
    if kind == "datetime" and form == "iso":
        fits = text.str.contains(_ISO)
        plain = text.str.replace(_OFFSET, "").str.replace("T", " ")
        full = plain.zip_with(plain.str.len_chars().fill_null(0) > 16, plain + ":00")
        moments = full.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
        return emptied(moments, ~fits.fill_null(False))
    fits = text.str.contains(_pattern(form)).fill_null(False)
    if kind == "time":
        full = text if form == "%H:%M:%S" else text + ":00"
        return emptied(full.str.to_time("%H:%M:%S", strict=False), ~fits)
    if kind == "date":
        return emptied(text.str.to_date(form, strict=False), ~fits)
    return emptied(text.str.to_datetime(form, strict=False, time_unit="us"), ~fits)


def durations(text: pl.Series, form: str) -> pl.Series:
    """Texts such as 3d 04:00:00 (form clock) or P3DT4H (form iso) as durations."""
    fits = text.str.contains(_LONG if form == "clock" else _PERIOD) & (text.str.len_chars() > 2)
    pattern = _LONG if form == "clock" else _PERIOD
    seconds = pl.Series([0] * len(text), dtype=pl.Int64)
    for group, worth in enumerate((86_400, 3600, 60, 1), start=1):
        part = text.str.extract(pattern, group).cast(pl.Int64, strict=False).fill_null(0)
        seconds = seconds + part.clip(0, 10**10) * worth
    return emptied((seconds * 1_000_000).cast(pl.Duration("us")), ~fits.fill_null(False))


@dataclass(repr=False, eq=False)
class MomentLook:
    """Which forms all cells have had so far, and the first and last moment in each."""

    open: dict[tuple[str, str], tuple[int, int]] | None = None
    """Forms that every cell had, with the least and the greatest as microseconds or days."""
    steps: dict[tuple[str, str], int] = field(default_factory=dict)
    """Seconds that every moment is a multiple of: a day, an hour, a minute, or 1."""
    zone: str | None = None
    offsets: bool = False

    def add(self, cells: pl.Series) -> None:
        """Take in different cells of one batch: of a type for moments, or text with digits in it."""
        if not len(cells) or self.open == {}:
            return
        if cells.dtype.is_temporal():
            self._add_native(cells)
            return
        forms = list(self.open) if self.open is not None else list(_FORMS)
        first, found = cells.head(1), dict[tuple[str, str], tuple[int, int]]()
        for kind, form in forms:
            if parsed(first, kind, form).null_count():
                continue
            moments = parsed(cells, kind, form)
            if not moments.null_count():
                found[kind, form] = self._ends((kind, form), moments)
        if ("datetime", "iso") in found:
            self.offsets = self.offsets or bool(cells.str.contains(_OFFSET).any())
        self.open = found

    def _add_native(self, cells: pl.Series) -> None:
        kinds: tuple[tuple[Any, str], ...] = ((pl.Date, "date"), (pl.Time, "time"), (pl.Datetime, "datetime"))
        kind = next((word for dtype, word in kinds if cells.dtype == dtype), "duration")
        if isinstance(cells.dtype, pl.Datetime):
            self.zone = cells.dtype.time_zone
        self.open = {(kind, "native"): self._ends((kind, "native"), cells)}

    def _ends(self, form: tuple[str, str], moments: pl.Series) -> tuple[int, int]:
        ticks = moments.cast(pl.Date).to_physical() if form[0] == "date" else _microseconds(moments)
        low, high = int(ticks.min()), int(ticks.max())  # type: ignore[arg-type] # never empty here
        if form[0] != "date":
            step = self.steps.get(form, 86_400)
            for _, seconds in _STEPS:
                if seconds <= step and (ticks % (seconds * 1_000_000) == 0).all():
                    self.steps[form] = seconds
                    break
            else:
                self.steps[form] = 1
        before = (self.open or {}).get(form)
        return (low, high) if before is None else (min(low, before[0]), max(high, before[1]))

    def ends(self, form: tuple[str, str]) -> tuple[datetime.datetime, datetime.datetime]:
        """The first and last moment of a date or datetime."""
        low, high = (self.open or {})[form]
        unit = datetime.timedelta(days=1) if form[0] == "date" else datetime.timedelta(microseconds=1)
        start = datetime.datetime(1970, 1, 1)
        return start + low * unit, start + high * unit

    def step(self, form: tuple[str, str]) -> str:
        """The largest step that all moments are whole numbers of."""
        return next((word for word, seconds in _STEPS if seconds == self.steps.get(form, 1)), "second")


def _microseconds(moments: pl.Series) -> pl.Series:
    kind = moments.dtype
    if kind == pl.Time:
        return moments.to_physical() // 1000
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is not None:
            moments = moments.dt.replace_time_zone(None)
        return moments.dt.cast_time_unit("us").to_physical()
    return moments.dt.cast_time_unit("us").to_physical()
