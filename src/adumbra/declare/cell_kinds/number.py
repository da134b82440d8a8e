"""Numbers in a declared range: whole, of so many decimals, of a step, on a logarithmic scale, or any."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.cell_kind import (
    CellKind,
    CellsRead,
    countable,
    finite_number,
    fits_type,
    level_at,
    nearest_steps,
    not_at_0,
    on_grid,
    wrong,
)
from adumbra.declare.space import GRID, HALF
from adumbra.declare.spelling import emptied, numbers

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["Number"]

_CLOSEST = 2.0**-30  # narrower than this share of its own size, a range leaves too few digits for the grid
_SMALLEST, _LARGEST = 1e-290, 1e300
_MAX_INTEGER = 2**53
_MOST_DECIMALS = 12
_FINEST = 1e-4  # of the range: where a logarithmic scale that begins at 0 turns linear, if no step says so


class Number(CellKind):
    """A number from `low` to `high`. Cells outside are clipped to it."""

    name = "number"
    block = "number"
    keys = ("low", "high", "integer", "step", "decimals", "scale", "spikes")

    @staticmethod
    def check(column: Column) -> None:
        """Ends in order, a step that fits into them, spikes and fallback inside."""
        low, high = (finite_number(column, key, getattr(column, key)) for key in ("low", "high"))
        column.settle(low=low, high=high)
        if not low < high:
            raise wrong(column, "low < high", f"low = {low:g}, high = {high:g}", "write the smaller one as low")
        width = high - low
        if not _SMALLEST < width < _LARGEST:
            raise wrong(
                column,
                f"high - low between {_SMALLEST:g} and {_LARGEST:g}",
                f"low = {low:g}, high = {high:g}",
                "write the range that the column can really take, or change its unit of measure,",
            )
        if width < _CLOSEST * max(abs(low), abs(high)):
            raise wrong(
                column,
                "low and high further apart for their size",
                f"low = {low!r}, high = {high!r}",
                "measure the column from a nearer origin (subtract a public constant), or widen the range",
            )
        _check_step(column, low, high)
        if column.scale is not None and column.scale != "log":
            raise wrong(column, "scale log, or none", f"scale = {said(column.scale)}", 'write scale = "log"')
        if column.scale is not None and not width / (low if low > 0 else 1.0) < _LARGEST:
            got = f"low = {low:g}, high = {high:g}"
            raise wrong(column, f"high below {_LARGEST:g} times low for scale log", got, "write a larger low")
        if column.type is not None:
            fits_type(column, low, high, _step_of(column) is not None and _whole(column))
        inside = {"missing": () if column.missing is None else (column.missing,), "spikes": column.spikes}
        for key, values in inside.items():
            for value in values:
                number = finite_number(column, key, value)
                if not low <= number <= high:
                    raise wrong(
                        column,
                        f"{key} between low = {low:g} and high = {high:g}",
                        f"{key} = {number:g}",
                        f"write {key} inside the range, or delete it,",
                    )
        if column.missing is not None:
            column.settle(missing=float(cast(float, column.missing)) + 0.0)
        column.settle(spikes=tuple(float(cast(float, spike)) + 0.0 for spike in column.spikes))

    @cached_property
    def low(self) -> float:
        """The smaller end."""
        return cast(float, self.column.low)

    @cached_property
    def high(self) -> float:
        """The larger end."""
        return cast(float, self.column.high)

    @property
    def range(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    @cached_property
    def step(self) -> float | None:
        """What values are multiples of, counted from `low`; None for any number."""
        return _step_of(self.column)

    @property
    def linear(self) -> bool:
        """Not on a logarithmic scale."""
        return self.column.scale is None

    @cached_property
    def levels(self) -> int | None:
        """Equally spaced values: of a step, on a linear scale."""
        return None if self.step is None or not self.linear else countable(self._steps + 1)

    @cached_property
    def _steps(self) -> float:
        return nearest_steps((self.high - self.low) / (self.step or 1.0))

    @cached_property
    def spikes(self) -> tuple[int, ...]:
        """Their grid positions."""
        found = self._places(np.array(self.column.spikes, dtype=np.float64))
        return tuple(sorted({int(place) for place in found}))

    @cached_property
    def _unit(self) -> float:
        """Where a logarithmic scale turns linear: at the smaller end, where that is above 0."""
        return self.low if self.low > 0 else self.step or (self.high - self.low) * _FINEST

    def _places(self, number: Reals) -> Reals:
        """Grid steps of numbers inside the range: |number - middle| <= width / 2, so that nothing overflows."""
        width = self.high - self.low
        if self.linear:  # to the last bit as `tables.numbers` has it
            return not_at_0(np.rint((number - (self.low + width / 2)) / width * GRID))
        return on_grid(np.log1p((number - self.low) / self._unit) / math.log1p(width / self._unit))

    def read(self, cells: pl.Series) -> CellsRead:
        """Grid steps of the numbers that cells are or spell."""
        number = numbers(cells)
        lost = np.isnan(number)
        clipped = int(np.count_nonzero((number < self.low) | (number > self.high)))
        # Clipped before any arithmetic, so nothing below can overflow.
        steps = self._places(np.clip(np.where(lost, self.low, number), self.low, self.high))
        return CellsRead(np.where(lost, 0.0, steps)[:, None], lost, clipped)

    def share_of(self, value: object, half_steps: int = 0) -> float | None:
        """Where a number lies on the grid; between two steps, the one above for -1 and that below for 1."""
        number = float(numbers(pl.Series([value], strict=False))[0])
        if not math.isfinite(number):
            return None
        if not self.low <= number <= self.high:
            return math.copysign(math.inf, number - self.low)
        if self.step is not None and half_steps:
            steps = nearest_steps((number - self.low) / self.step)
            whole = math.ceil(steps) if half_steps < 0 else math.floor(steps)
            number = self.low + self.step * (whole + 0.5 * half_steps)
        width, inside = self.high - self.low, min(max(number, self.low), self.high)
        if self.linear:
            return (inside - (self.low + width / 2)) / width + 0.5
        return math.log1p((inside - self.low) / self._unit) / math.log1p(width / self._unit)

    def write(self, codes: Reals) -> pl.Series:
        """Numbers inside the range, on the step where there is one."""
        empty = np.isnan(codes)
        return self._written(self.numbers(np.where(empty, 0.0, codes)), empty)

    def exact(self, cells: pl.Series) -> pl.Series:
        """Numbers inside the range, on the step, however fine that is beside the grid."""
        number = numbers(cells)
        empty = np.isnan(number)
        number = np.clip(np.where(empty, self.low, number), self.low, self.high)
        if self.step is not None:
            number = self._on_step(self.low + self.step * np.rint((number - self.low) / self.step))
        return self._written(number, empty)

    def _written(self, number: Reals, empty: NDArray[np.bool_]) -> pl.Series:
        if self.step is not None and _whole(self.column):
            found = pl.Series(np.rint(number).astype(np.int64))
        else:
            found = pl.Series(number)
        return emptied(found, empty) if empty.any() else found

    def numbers(self, codes: Reals) -> Reals:
        """The numbers at these grid steps (no nan)."""
        if self.levels is not None and self.step is not None:
            return self._on_step(np.asarray(self.low + self.step * level_at(codes, self.levels), dtype=np.float64))
        share = np.clip(codes, -HALF, HALF) / GRID + 0.5
        width = self.high - self.low
        if self.linear:
            number = (self.low + width / 2) + (share - 0.5) * width
        else:
            number = self.low + self._unit * np.expm1(share * math.log1p(width / self._unit))
        number = np.clip(number, self.low, self.high)
        number[codes <= -HALF] = self.low  # exact ends, free of the last bit's rounding
        number[codes >= HALF] = self.high
        if self.step is not None:
            number = self._on_step(self.low + self.step * np.rint((number - self.low) / self.step))
        for spike in self.column.spikes:  # the grid is coarser than the column: what lies on a spike is the spike
            number[np.rint(codes) == self._places(np.array([spike]))[0]] = spike
        return number

    def _on_step(self, number: Reals) -> Reals:
        """Without the last bits that a sum of decimals leaves: 0.1 + 0.2 is 0.3."""
        return np.clip(np.round(number, _decimals(self.column)), self.low, self.high)

    def examples(self) -> tuple[Any, ...]:
        """Both ends, and the middle."""
        middle = self.numbers(np.zeros(1))[0]
        found = (self.low, self.high, float(middle), *self.column.spikes)
        return tuple(int(x) for x in found) if self.step is not None and _whole(self.column) else found


def _check_step(column: Column, low: float, high: float) -> None:
    given = [key for key in ("integer", "step", "decimals") if getattr(column, key) is not None]
    if not column.integer:
        given.remove("integer")
    if len(given) > 1:
        raise wrong(column, "one of integer, step, decimals", " and ".join(given), "keep one of them")
    if column.integer and not all(v.is_integer() and abs(v) <= _MAX_INTEGER for v in (low, high)):
        raise wrong(
            column,
            "whole low and high (at most 2^53) for integer = true",
            f"low = {low!r}, high = {high!r}",
            "write whole numbers, or delete integer,",
        )
    if column.decimals is not None and (type(column.decimals) is not int or not 0 <= column.decimals <= _MOST_DECIMALS):
        got = f"decimals = {said(column.decimals)}"
        raise wrong(column, f"decimals from 0 to {_MOST_DECIMALS}", got, "write decimals = 1, for example,")
    if column.step is not None:
        column.settle(step=finite_number(column, "step", column.step))
    step = _step_of(column)
    if step is None:
        return
    steps = nearest_steps((high - low) / step) if step > 0 else 0.0
    if steps < 1 or not steps.is_integer() or steps > _MAX_INTEGER:
        raise wrong(
            column,
            "a range of whole steps",
            f"low = {low!r}, high = {high!r} and a step of {step:g}",
            "write a high that is low and so many steps, or another step,",
        )


def _step_of(column: Column) -> float | None:
    if column.integer:
        return 1.0
    if column.decimals is not None:
        return float(10.0**-column.decimals)
    return cast("float | None", column.step)


def _whole(column: Column) -> bool:
    """Whether every value is a whole number."""
    return _step_of(column) is not None and all(
        float(cast(float, value)).is_integer() for value in (_step_of(column), column.low)
    )


def _decimals(column: Column) -> int:
    """Decimals of the values, as far as the step and the smaller end have any."""
    longest = 0
    for value in (_step_of(column), column.low):
        text = f"{cast(float, value):.{_MOST_DECIMALS}f}".rstrip("0")
        longest = max(longest, len(text.partition(".")[2]))
    return longest
