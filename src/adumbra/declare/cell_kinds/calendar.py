"""Dates, moments, times of day and durations: numbers of equal steps (days, hours, minutes, seconds) from a declared end.

A cell is read for itself: native types as they are, text by the declared format or as ISO 8601, never by a format that
was guessed from other cells. A cell between two steps belongs to the one before it, as on a clock.
"""

from __future__ import annotations

import datetime
import math
import re
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from adumbra.common.types import Integers, Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.cell_kind import CellKind, CellsRead, countable, level_at, on_grid, stored_type, wrong
from adumbra.declare.space import GRID, HALF
from adumbra.declare.spelling import numbers, texts

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["CalendarKind", "Date", "Datetime", "Duration", "TimeOfDay"]

_STEPS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
_DAY = 86400
_EPOCH = datetime.datetime(1970, 1, 1)
_ISO = r"^([0-9]{4}-[0-9][0-9]-[0-9][0-9])(?:[T ]([0-9][0-9]:[0-9][0-9])(?::([0-9][0-9])(?:[.,][0-9]+)?)?" + (
    r"(?: ?(Z|[+-][0-9][0-9]:?[0-9][0-9]))?)?$"
)
_CLOCK = r"^([0-9][0-9]?):([0-9][0-9])(?::([0-9][0-9])(?:[.,][0-9]+)?)?$"
_END_OF_DAY = r"^24\D*(00\D*)*(\.0)?$"
"""24:00, which is the midnight that 00:00 is."""
_SPAN = r"^(-)?(?:([0-9]+) ?d(?:ays?)?,? ?)?(?:([0-9]+):([0-9][0-9])(?::([0-9][0-9])(?:[.,][0-9]+)?)?)?$"
_ISO_SPAN = r"^(-)?P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,][0-9]+)?S)?)?$"
_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%j": 3, "%y": 2}


class CalendarKind(CellKind):
    """What all four share: ends and step in seconds, and cells as whole steps between them."""

    block = "number"
    keys: ClassVar[tuple[str, ...]] = ("low", "high", "step", "format", "spikes")
    default_step: ClassVar[str] = "second"
    steps: ClassVar[tuple[str, ...]] = tuple(_STEPS)

    @classmethod
    def check(cls, column: Column) -> None:  # type: ignore[override] # the four are told apart by their class
        """Ends of this kind in order, a known step, spikes and fallback inside."""
        step = cls.default_step if column.step is None else column.step
        if step not in cls.steps:
            known = " or ".join(cls.steps)
            raise wrong(column, f"step {known}", f"step = {said(step)}", f'write step = "{cls.default_step}"')
        column.settle(step=step)
        ends = [cls._declared(column, key) for key in ("low", "high")]
        column.settle(low=cls.spell(ends[0]), high=cls.spell(ends[1]))
        if not ends[0] < ends[1]:
            raise wrong(column, "low before high", f"low = {column.low}, high = {column.high}", "exchange them,")
        if (ends[1] - ends[0]) % _STEPS[str(step)]:
            got = f"low = {column.low}, high = {column.high}"
            raise wrong(column, f"whole steps ({step}) from low to high", got, "write ends that are, or a finer step,")
        for key, values in (("missing", (column.missing,)), ("spikes", tuple(column.spikes))):
            found = [cls.parse(value) for value in values if value is not None]
            if any(value is None or not ends[0] <= value <= ends[1] for value in found):
                raise wrong(column, f"{key} between low and high", "another", f"write {key} inside the range")
            if found and key == "missing":
                column.settle(missing=cls.spell(found[0] or 0))
            elif found:
                column.settle(spikes=tuple(cls.spell(value or 0) for value in found))
        if column.format is not None:
            _check_format(column)
        allowed = ("string", "int16", "int32", "int64") if column.format else ("string",)
        if column.type is not None and column.type not in allowed:
            raise wrong(column, f"type {' or '.join(allowed)}", f"type = {said(column.type)}", "delete type")

    @classmethod
    def _declared(cls, column: Column, key: str) -> int:
        value = getattr(column, key)
        if value is None:
            found = cls.default_end(key)
            if found is None:
                remedy = f"write {key} = one known without looking at the rows, for example {cls.example}"
                raise wrong(column, f"a declared {key}", "none", remedy)
            return found
        found = cls.parse(value)
        if found is None:
            raise wrong(column, f"{key} as a {cls.name}", said(value), f"for example, write {key} = {cls.example}")
        return found

    example: ClassVar[str]

    @classmethod
    def default_end(cls, key: str) -> int | None:
        """Seconds of an end that need not be declared."""
        return None

    @staticmethod
    @abstractmethod
    def parse(value: object) -> int | None:
        """Seconds of a declared value; None if it is none."""

    @staticmethod
    @abstractmethod
    def spell(seconds: int) -> str:
        """A declared value in its one form."""

    @abstractmethod
    def _seconds(self, cells: pl.Series) -> Reals:
        """Seconds of cells, nan where there are none."""

    @abstractmethod
    def _native(self, seconds: Integers) -> pl.Series:
        """Cells in the type of their own."""

    @cached_property
    def low(self) -> int:
        """The earlier end, in seconds."""
        return self.parse(self.column.low) or 0

    @cached_property
    def high(self) -> int:
        """The later end, in seconds."""
        return self.parse(self.column.high) or 0

    @cached_property
    def _step(self) -> int:
        return _STEPS[str(self.column.step)]

    @property
    def _last(self) -> int:
        return (self.high - self.low) // self._step

    @property
    def range(self) -> tuple[float, float]:
        """Both ends, in seconds."""
        return float(self.low), float(self.high)

    @cached_property
    def levels(self) -> int | None:
        """Steps from end to end."""
        return countable(self._last + 1)

    @cached_property
    def spikes(self) -> tuple[int, ...]:
        """Grid positions of the declared ones."""
        found = [(self.parse(value) or 0) for value in self.column.spikes]
        return tuple(sorted({int(p) for p in on_grid(self._share(np.array(found, dtype=np.float64)))}))

    def _share(self, seconds: Reals) -> Reals:
        return np.asarray(np.clip(np.floor((seconds - self.low) / self._step), 0, self._last) / self._last)

    def read(self, cells: pl.Series) -> CellsRead:
        """The step that each cell is in."""
        seconds = self._seconds(cells)
        lost = np.isnan(seconds)
        clipped = int(np.count_nonzero((seconds < self.low) | (seconds >= self.high + self._step)))
        steps = on_grid(self._share(np.where(lost, self.low, seconds)))
        return CellsRead(np.where(lost, 0.0, steps)[:, None], lost, clipped)

    def share_of(self, value: object, half_steps: int = 0) -> float | None:
        """Where a moment lies between the ends; between two steps, the one after for -1 and that before for 1."""
        seconds = float(self._seconds(pl.Series([value], strict=False))[0])
        if math.isnan(seconds):
            return None
        if not self.low <= seconds < self.high + self._step:
            return math.copysign(math.inf, seconds - self.low)
        steps = (seconds - self.low) / self._step
        if half_steps:
            steps = (math.ceil(steps) if half_steps < 0 else math.floor(steps)) + 0.5 * half_steps
        return min(max(steps / self._last, 0.0), 1.0)

    def seconds(self, codes: Reals) -> Integers:
        """Seconds at these grid steps (no nan)."""
        if self.levels is not None:
            return np.asarray(self.low + self._step * level_at(codes, self.levels))
        share = np.clip(codes, -HALF, HALF) / GRID + 0.5
        return np.asarray(self.low + self._step * np.rint(share * self._last).astype(np.int64))

    def write(self, codes: Reals) -> pl.Series:
        """In the type of their own."""
        empty = np.isnan(codes)
        found = self._native(self.seconds(np.where(empty, -HALF, codes)))
        return found.set(pl.Series(empty), None) if empty.any() else found

    def exact(self, cells: pl.Series) -> pl.Series:
        """The step that each cell is in, however fine steps are beside the grid."""
        seconds = self._seconds(cells)
        empty = np.isnan(seconds)
        place = np.clip(np.floor((np.where(empty, self.low, seconds) - self.low) / self._step), 0, self._last)
        found = self._native(self.low + self._step * place.astype(np.int64))
        return found.set(pl.Series(empty), None) if empty.any() else found

    def store(self, cells: pl.Series) -> pl.Series:
        """In the declared format, where there is one; as text or digits, where that is declared."""
        if self.column.format is not None:
            cells = cells.dt.strftime(self.column.format)
        if self.column.type is None or self.column.type == "string":
            return cells if self.column.type is None or cells.dtype == pl.String else texts(cells)
        return cells.cast(pl.Int64).cast(stored_type(self.column.type))

    def tell(self, value: float) -> str:
        """A number of `range` for people."""
        return self.spell(round(value / self._step) * self._step)

    def examples(self) -> tuple[Any, ...]:
        """Both ends."""
        return tuple(self.store(self.write(np.array([-HALF, HALF], dtype=np.float64))).to_list())

    def _by_format(self, text: pl.Series, kind: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Text read by the declared format; digits without their leading zeros (517 for 0517) too."""
        form = str(self.column.format)
        width = _digits(form)
        if width:
            text = text.str.replace(r"^(\d+)\.0+$", "$1").str.zfill(width)
        return text.str.strptime(kind, form, strict=False)


def _digits(form: str) -> int:
    """How many digits text of this format has, where it has nothing but digits."""
    parts = re.findall(r"%.|.", form)
    return sum(_DIGITS[part] for part in parts) if all(part in _DIGITS for part in parts) else 0


def _check_format(column: Column) -> None:
    form = column.format
    if not isinstance(form, str) or "%" not in form:
        raise wrong(column, "format as text, such as %d.%m.%Y", f"format = {said(form)}", "correct format")
    column.check_writable("a format", form)
    try:
        example = column.cells.examples()[0]
        back = column.cells.read(pl.Series([example]))
        sound = not back.lost[0] and back.values[0, 0] == -HALF
    except (pl.exceptions.PolarsError, ValueError):
        sound = False
    if not sound:
        remedy = "use %Y %m %d %H %M %S and what stands between them"
        raise wrong(column, "a format that writes and reads all of a cell", f"format = {form!r}", remedy)


def _wall_seconds(moments: pl.Series) -> Reals:
    """Seconds since 1970 of moments without a zone, nan where there is none; parts of a second are left out."""
    micros = moments.cast(pl.Datetime("us")).to_physical()
    return np.floor(micros.cast(pl.Float64).to_numpy() / 1e6)


def _iso_moments(text: pl.Series, zone: str | None) -> Reals:
    """Seconds of ISO text; with an offset, the clock of `zone` (or of UTC) at that moment."""
    parts = text.to_frame("t").select(pl.col("t").str.extract_groups(_ISO)).unnest("t")
    day, minute, second, offset = (parts.to_series(place) for place in range(4))
    written = day + " " + minute.fill_null("00:00") + ":" + second.fill_null("00")
    seconds = _wall_seconds(written.str.strptime(pl.Datetime("us"), "%Y-%m-%d %H:%M:%S", strict=False))
    if offset.null_count() < len(offset):
        away = offset.str.replace("Z", "+00:00").str.replace(":", "")
        minutes = away.str.slice(1, 2).cast(pl.Float64) * 60 + away.str.slice(3, 2).cast(pl.Float64)
        signed = (minutes * (1 - 2 * away.str.starts_with("-").cast(pl.Int8))).to_numpy()
        known = ~np.isnan(signed) & ~np.isnan(seconds)
        utc = seconds[known] - signed[known] * 60
        if zone is not None:
            moments = pl.Series(utc.astype(np.int64) * 10**6).cast(pl.Datetime("us", "UTC"))
            utc = _wall_seconds(moments.dt.convert_time_zone(zone).dt.replace_time_zone(None))
        seconds[known] = utc
    return seconds


class Date(CalendarKind):
    """A day."""

    name = "date"
    default_step = "day"
    steps = ("day",)
    example = "2020-01-31"

    @staticmethod
    def parse(value: object) -> int | None:
        """A date, or ISO text."""
        found = Datetime.parse(value)
        return None if found is None or found % _DAY else found

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return (_EPOCH + datetime.timedelta(seconds=seconds)).date().isoformat()

    def _seconds(self, cells: pl.Series) -> Reals:
        if cells.dtype == pl.Date:
            return cells.to_physical().cast(pl.Float64).to_numpy() * _DAY
        if isinstance(cells.dtype, pl.Datetime):
            return _wall_seconds(cells.dt.replace_time_zone(None))
        text = texts(cells)
        if self.column.format is not None:
            return self._by_format(text, pl.Date).to_physical().cast(pl.Float64).to_numpy() * _DAY
        return _iso_moments(text, None)

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series((seconds // _DAY).astype(np.int32)).cast(pl.Date)


class Datetime(CalendarKind):
    """A moment: a day and a time of it, by the clock of the declared zone."""

    name = "datetime"
    keys = (*CalendarKind.keys, "zone")
    example = "2020-01-31T10:00:00"

    @classmethod
    def check(cls, column: Column) -> None:
        """As all, and a zone that is known."""
        if column.zone is not None:
            try:
                pl.Series([_EPOCH]).dt.replace_time_zone(str(column.zone))
            except pl.exceptions.PolarsError:
                remedy = 'write zone = "Europe/Paris", for example'
                raise wrong(column, "a known time zone", f"zone = {said(column.zone)}", remedy) from None
        super().check(column)

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
        return away.days * _DAY + away.seconds

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat()

    def _seconds(self, cells: pl.Series) -> Reals:
        zone = None if self.column.zone is None else str(self.column.zone)
        if cells.dtype == pl.Date:
            return cells.to_physical().cast(pl.Float64).to_numpy() * _DAY
        if isinstance(cells.dtype, pl.Datetime):
            if cells.dtype.time_zone is not None:
                cells = cells.dt.convert_time_zone(zone or "UTC").dt.replace_time_zone(None)
            return _wall_seconds(cells)
        text = texts(cells)
        if self.column.format is not None:
            return _wall_seconds(self._by_format(text, pl.Datetime("us")))
        return _iso_moments(text, zone)

    def _native(self, seconds: Integers) -> pl.Series:
        found = pl.Series(seconds.astype(np.int64) * 10**6).cast(pl.Datetime("us"))
        if self.column.zone is None:
            return found
        zone = str(self.column.zone)
        # an hour that a clock leaves out in spring is the one after it
        there = found.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        if there.null_count() > found.null_count():
            later = found.dt.offset_by("1h").dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            there = there.zip_with(there.is_not_null(), later)
        return there


class TimeOfDay(CalendarKind):
    """A time of day."""

    name = "time"
    steps = ("hour", "minute", "second")
    example = '"10:00"'

    @classmethod
    def default_end(cls, key: str) -> int | None:
        """The whole day."""
        return 0 if key == "low" else None

    @classmethod
    def _declared(cls, column: Column, key: str) -> int:
        if key == "high" and column.high is None:
            return _DAY - _STEPS[str(column.step)]
        return super()._declared(column, key)

    @staticmethod
    def parse(value: object) -> int | None:
        """A time, or text of hours, minutes and perhaps seconds."""
        if isinstance(value, datetime.time):
            value = value.isoformat(timespec="seconds")
        found = re.fullmatch(_CLOCK, value.strip()) if isinstance(value, str) else None
        if found is None:
            return None
        hour, minute, second = (int(part or 0) for part in found.groups())
        seconds = hour * 3600 + minute * 60 + second
        return seconds if minute < 60 and second < 60 and seconds < _DAY else None

    @staticmethod
    def spell(seconds: int) -> str:
        """As ISO text."""
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _seconds(self, cells: pl.Series) -> Reals:
        if cells.dtype == pl.Time:
            return np.floor(cells.to_physical().cast(pl.Float64).to_numpy() / 1e9)
        if isinstance(cells.dtype, pl.Datetime):
            return _wall_seconds(cells.dt.replace_time_zone(None)) % _DAY
        text = texts(cells)
        if self.column.format is not None:
            found = self._by_format(text, pl.Time).to_physical().cast(pl.Float64).to_numpy() / 1e9
            midnight = text.str.contains(_END_OF_DAY).fill_null(False).to_numpy()
            return np.where(midnight & self.column.format.startswith("%H"), 0.0, np.floor(found))
        parts = text.to_frame("t").select(pl.col("t").str.extract_groups(_CLOCK)).unnest("t")
        hour, minute, second = (parts.to_series(place).cast(pl.Float64) for place in range(3))
        seconds = hour * 3600 + minute * 60 + second.fill_null(0)
        sound = ((minute < 60) & (second.fill_null(0) < 60) & (seconds <= _DAY)).fill_null(False)
        return np.where(sound.to_numpy(), seconds.to_numpy() % _DAY, np.nan)

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series(seconds.astype(np.int64) * 10**9).cast(pl.Time)


class Duration(CalendarKind):
    """How long something took."""

    name = "duration"
    keys = tuple(key for key in CalendarKind.keys if key != "format")
    example = '"3d 04:00:00"'

    @staticmethod
    def parse(value: object) -> int | None:
        """Text of days and a clock, ISO 8601, or seconds as a whole number."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value
        if isinstance(value, datetime.timedelta):
            return value.days * _DAY + value.seconds
        text = value.strip() if isinstance(value, str) else ""
        found = re.fullmatch(_SPAN, text) or re.fullmatch(_ISO_SPAN, text)
        if found is None or not any(found.groups()[1:]):
            return None
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        return (days * _DAY + hours * 3600 + minutes * 60 + seconds) * (-1 if found[1] else 1)

    @staticmethod
    def spell(seconds: int) -> str:
        """Days, where there are any, and a clock."""
        days, rest = divmod(abs(seconds), _DAY)
        return ("-" if seconds < 0 else "") + (f"{days}d " if days else "") + TimeOfDay.spell(rest)

    def _seconds(self, cells: pl.Series) -> Reals:
        if isinstance(cells.dtype, pl.Duration):
            micros = cells.cast(pl.Duration("us")).to_physical()
            return np.floor(micros.cast(pl.Float64).to_numpy() / 1e6)
        if cells.dtype == pl.Time:
            return np.floor(cells.to_physical().cast(pl.Float64).to_numpy() / 1e9)
        seconds = np.floor(numbers(cells, words=False))
        text = texts(cells)
        for form in (_SPAN, _ISO_SPAN):
            left = np.isnan(seconds)
            if left.any():
                seconds[left] = _spans(text.filter(pl.Series(left)), form)
        return seconds

    def _native(self, seconds: Integers) -> pl.Series:
        return pl.Series(seconds.astype(np.int64) * 10**6).cast(pl.Duration("us"))


def _spans(text: pl.Series, form: str) -> Reals:
    """Seconds of text of this form, nan for other text."""
    parts = text.to_frame("t").select(pl.col("t").str.extract_groups(form)).unnest("t")
    sign, *sizes = (parts.to_series(place) for place in range(5))
    some = sizes[0].is_not_null() | sizes[1].is_not_null() | sizes[2].is_not_null() | sizes[3].is_not_null()
    units = (_DAY, 3600, 60, 1)
    total = sum(size.cast(pl.Float64).fill_null(0).to_numpy() * unit for size, unit in zip(sizes, units, strict=True))
    total = np.where((sign == "-").fill_null(False).to_numpy(), -total, total)
    return np.where(some.to_numpy(), total, np.nan)
