"""What dates, moments, times of day and durations share: numbers of equal steps of time from a declared end.

A cell is read for itself: native types as they are, text by the declared format or as ISO 8601, never by a format that
was guessed from other cells. A cell between two steps belongs to the one before it, as on a clock.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from adumbra.common.errors import is_panic
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.cell_kind import CellKind, CellsRead, countable, level_at, on_grid, stored_type, wrong
from adumbra.declare.space import GRID, HALF
from adumbra.declare.spelling import emptied, number_texts, numbers, texts

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["DAY", "STEPS", "CalendarKind", "clock_text", "whole_seconds"]

STEPS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
DAY = 86400
_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%j": 3, "%y": 2}
_MOST_DIGITS = {
    "int16": 4,
    "uint16": 4,
    "int32": 9,
    "uint32": 9,
    "int64": 18,
    "uint64": 18,
    "float32": 7,
    "float64": 15,
}
"""Digits of every whole number that a type holds."""
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_TRIED = 997
"""Cells that a declared format must write and read."""


class CalendarKind(CellKind):
    """What all four share: ends and step in seconds, and cells as whole steps between them."""

    block = "number"
    keys: ClassVar[tuple[str, ...]] = ("low", "high", "step", "format", "spikes")
    default_step: ClassVar[str] = "second"
    steps: ClassVar[tuple[str, ...]] = tuple(STEPS)
    example: ClassVar[str]

    @classmethod
    def check(cls, column: Column) -> None:
        """Ends of this kind in order, a known step, spikes and fallback inside."""
        step = cls._usual_step(column.format) if column.step is None else column.step
        if step not in cls.steps:
            known = " or ".join(cls.steps)
            raise wrong(column, f"step {known}", f"step = {said(step)}", f'write step = "{cls.default_step}"')
        column.settle(step=step)
        low, high = (cls._declared(column, key) for key in ("low", "high"))
        column.settle(low=cls.spell(low), high=cls.spell(high))
        if not low < high:
            raise wrong(column, "low before high", f"low = {column.low}, high = {column.high}", "exchange them,")
        if (high - low) % STEPS[str(step)]:
            got = f"low = {column.low}, high = {column.high}"
            raise wrong(column, f"whole steps ({step}) from low to high", got, "write ends that are, or a finer step,")
        if column.missing is not None:
            column.settle(missing=cls._inside(column, "missing", column.missing, (low, high)))
        column.settle(spikes=tuple(cls._inside(column, "spikes", value, (low, high)) for value in column.spikes))
        _check_form(column)

    @classmethod
    def _usual_step(cls, form: str | None) -> str:
        """As fine as the declared format is, where there is one."""
        parts = set(re.findall("%.", form or ""))
        for step, finer in (("second", "STXcsr"), ("minute", "MR"), ("hour", "HIkl")):
            if parts & {f"%{letter}" for letter in finer}:
                return step if step in cls.steps else cls.default_step
        return cls.default_step

    @classmethod
    def _inside(cls, column: Column, key: str, value: object, ends: tuple[int, int]) -> str:
        """A declared value between both ends, in its one form."""
        found = cls.parse(value)
        if found is None or not ends[0] <= found <= ends[1]:
            expected = f"{key} between low = {column.low} and high = {column.high}"
            got = f"{key} = {said(value)}"
            raise wrong(column, expected, got, f"write {key} inside the range, or delete it,")
        return cls.spell(found)

    @classmethod
    def _declared(cls, column: Column, key: str) -> int:
        value = getattr(column, key)
        if value is None:
            remedy = f"write {key} = one known without looking at the rows, for example {cls.example}"
            raise wrong(column, f"a declared {key}", "none", remedy)
        found = cls.parse(value)
        if found is None:
            raise wrong(column, f"{key} as a {cls.name}", said(value), f"for example, write {key} = {cls.example}")
        return found

    @staticmethod
    @abstractmethod
    def parse(value: object) -> int | None:
        """Seconds of a declared value; None if it is none."""

    @staticmethod
    @abstractmethod
    def spell(seconds: int) -> str:
        """A declared value in its one form."""

    @abstractmethod
    def _native_seconds(self, cells: pl.Series) -> Reals | None:
        """Seconds of cells of a type of their own, nan where there are none; None for cells of other types."""

    @abstractmethod
    def _text_seconds(self, text: pl.Series) -> Reals:
        """Seconds of text in the common form, nan where it has another."""

    @abstractmethod
    def _native(self, seconds: Integers) -> pl.Series:
        """Cells in the type of their own."""

    def _parsed(self, text: pl.Series) -> Reals:
        """Seconds of text in the declared format."""
        raise NotImplementedError  # a kind without formats has none to read

    native_text: ClassVar[str] = ""
    """How a native cell looks that a library gave as text: it is read so beside any declared format."""
    common_part: ClassVar[str] = ""
    """What a format holds whose text could be taken for the common form; beside another one, that is read too."""

    def _seconds(self, cells: pl.Series) -> Reals:
        """Seconds of cells, nan where there are none."""
        found = self._native_seconds(cells)
        if found is not None:
            return found
        text = texts(cells)
        if self.column.format is None:
            return self._text_seconds(text)
        found = self._parsed(self._digits_filled(cells, text))
        left = np.isnan(found)
        if self.common_part in self.column.format:
            left &= text.str.contains(self.native_text).fill_null(False).to_numpy()
        if left.any():
            found = found.copy()
            found[left] = self._text_seconds(text.filter(pl.Series(left)))
        return found

    def _digits_filled(self, cells: pl.Series, text: pl.Series) -> pl.Series:
        """Text for a format of nothing but digits with its leading zeros: 0517 for 517, however that is written."""
        width = _digits(str(self.column.format))
        if not width:
            return text
        number = pl.Series(numbers(cells, words=False), nan_to_null=True)
        plain = number_texts(number)
        return plain.str.zfill(width).zip_with(number.is_not_null() & (number >= 0), text)

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
        return STEPS[str(self.column.step)]

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
        return tuple(sorted({self._place(value) for value in self.column.spikes}))

    @property
    def fallback(self) -> int | None:
        """Of the declared value, which has one form whatever format cells have."""
        return None if self.column.missing is None else self._place(self.column.missing)

    def _place(self, value: object) -> int:
        """Grid position of a declared value."""
        return int(on_grid(self._share(np.array([self.parse(value) or 0], dtype=np.float64)))[0])

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
        found = self.low + self._step * np.rint(share * self._last).astype(np.int64)
        for spike in self.column.spikes:  # the grid is coarser than the steps: what lies on a spike is the spike
            at = float(self.parse(spike) or 0)
            found[np.rint(codes) == on_grid(self._share(np.array([at])))[0]] = round(at)
        return np.asarray(found)

    def write(self, codes: Reals) -> pl.Series:
        """In the type of their own."""
        empty = np.isnan(codes)
        found = self._native(self.seconds(np.where(empty, -HALF, codes)))
        return emptied(found, empty) if empty.any() else found

    def exact(self, cells: pl.Series) -> pl.Series:
        """The step that each cell is in, however fine steps are beside the grid."""
        seconds = self._seconds(cells)
        empty = np.isnan(seconds)
        place = np.clip(np.floor((np.where(empty, self.low, seconds) - self.low) / self._step), 0, self._last)
        found = self._native(self.low + self._step * place.astype(np.int64))
        return emptied(found, empty) if empty.any() else found

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


def clock_text(seconds: int) -> str:
    """Hours, minutes and seconds.

    >>> clock_text(18420)
    '05:07:00'
    """
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def whole_seconds(cells: pl.Series) -> Reals:
    """Moments without a zone, times or durations in whole seconds, without parts of one; nan where there is none."""
    unit = "ns" if cells.dtype == pl.Time else str(getattr(cells.dtype, "time_unit", "us"))
    # divided as whole numbers: in the far future a float has no microseconds
    return (cells.to_physical() // _TICKS[unit]).cast(pl.Float64).to_numpy().copy()


def _digits(form: str) -> int:
    """How many digits text of this format has, where it has nothing but digits."""
    parts = re.findall(r"%.|.", form, re.DOTALL)
    return sum(_DIGITS[part] for part in parts) if all(part in _DIGITS for part in parts) else 0


def _check_form(column: Column) -> None:
    """A format that cells survive, and a type that fits them."""
    form, kind = column.format, column.type
    if form is not None:
        if "%" not in form:
            raise wrong(column, "format as text, such as %d.%m.%Y", f"format = {said(form)}", "correct format")
        column.check_writable("a format", form)
    width = 0 if form is None else _digits(form)
    allowed = ("string", *(name for name, most in _MOST_DIGITS.items() if 0 < width <= most))
    if kind is not None and kind not in allowed:
        remedy = "delete type" if width else "delete type, or write a format of digits alone, such as %H%M,"
        raise wrong(column, f"type {' or '.join(allowed)}", f"type = {said(kind)}", remedy)
    if form is not None and not _survives(column):
        remedy = "use %Y %m %d %H %M %S and what stands between them, or a coarser step,"
        raise wrong(column, f"a format that tells every {column.step} apart", f"format = {form!r}", remedy)


def _survives(column: Column) -> bool:
    """Whether cells from end to end are the same after they were written and read."""
    cells = column.cells
    native = cells.spread(min(cells.levels or _TRIED, _TRIED))
    try:
        back = cells.read(cells.store(native))
    except (pl.exceptions.PolarsError, ValueError):
        return False
    except BaseException as error:
        if is_panic(error):
            return False
        raise
    return not back.lost.any() and bool((back.values == cells.read(native).values).all())
