"""A column as rules see it: the type of its values, its ends as numbers, what it may hold."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from adumbra.declare.column import Column
from adumbra.declare.rules.literals import TEMPORAL, micros, moment

__all__ = ["Declared", "declared"]

_STEPS = {"day": 86_400e6, "hour": 3_600e6, "minute": 60e6, "second": 1e6}
_NEAR = 1e-6
_EPOCH = datetime.datetime(1970, 1, 1)
_DTYPES: dict[str, Any] = {
    "text": pl.String(),
    "truth": pl.Boolean(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
    "time": pl.Time(),
    "duration": pl.Duration("us"),
}
_DEFAULT_STEP = {"date": 86_400e6, "datetime": 1e6, "time": 1e6, "duration": 1e6}


@dataclass(frozen=True)
class Declared:
    """What a rule may know of a column. Ends and steps of moments are in microseconds."""

    name: str
    kind: str
    type: str
    """number, text, truth, date, datetime, time or duration; "" where no rule can speak of it."""
    low: float = -math.inf
    high: float = math.inf
    step: float | None = None
    decimals: int | None = None
    values: tuple[Any, ...] = ()
    keeps: bool = True
    """Whether its cells may be empty."""
    zone: str | None = None
    role: str | None = None
    derived: str | None = None

    @property
    def whole(self) -> bool:
        """Whether all its numbers are whole."""
        return self.type == "number" and self.dtype == pl.Int64

    @cached_property
    def levels(self) -> int | None:
        """How many values it may have; None where they are not counted."""
        if self.values:
            return len(self.values)
        if self.type == "truth":
            return 2
        if self.step is None or not math.isfinite(self.high - self.low):
            return None
        return math.floor((self.high - self.low) / self.step + _NEAR) + 1

    @property
    def dtype(self) -> Any:
        """How its values are held while rules are applied."""
        if self.type != "number":
            return _DTYPES[self.type]
        if self.values:
            return pl.Int64() if all(isinstance(v, int) for v in self.values) else pl.Float64()
        whole = self.step is not None and self.step == math.floor(self.step) and self.low == math.floor(self.low)
        return pl.Int64() if whole else pl.Float64()

    def has(self, value: Any) -> bool:
        """Whether a value of its type, as Python holds it, is one that it may take."""
        if self.values:
            return any(type(v) is type(value) and v == value for v in self.values) or (
                self.type == "number" and value in self.values
            )
        if self.type == "truth":
            return isinstance(value, bool)
        number = micros(value)
        if not self.low <= number <= self.high:
            return False
        if self.step is None:
            return True
        steps = (number - self.low) / self.step
        return abs(steps - round(steps)) <= _NEAR

    def at(self, index: int) -> Any:
        """The value of a level, as Python holds it."""
        if self.values:
            return self.values[index]
        if self.type == "truth":
            return bool(index)
        return self.value_of(self.low + index * (self.step or 0.0))

    def value_of(self, number: float) -> Any:
        """A number, or microseconds, as a value of the column's type."""
        if self.type not in TEMPORAL:
            if self.dtype == pl.Int64:
                return round(number)
            return round(number, self.decimals) if self.decimals is not None else float(number)
        length = datetime.timedelta(microseconds=round(number))
        if self.type == "duration":
            return length
        found = _EPOCH + length
        return {"date": found.date, "time": found.time}.get(self.type, lambda: found)()


def declared(columns: Sequence[Column]) -> dict[str, Declared]:
    """Columns by name, as rules see them."""
    return {column.name: _declared(column) for column in columns}


def _declared(column: Column) -> Declared:
    def get(key: str) -> Any:
        return getattr(column, key, None)

    kind, values, role = str(column.kind or ""), tuple(column.values), column.role
    missing = get("missing")
    shared = {
        "name": column.name,
        "kind": kind,
        "role": role,
        "derived": get("derived"),
        "zone": get("zone"),
        "keeps": missing is None or (missing == "keep" and "keep" not in values),
    }
    if role in ("drop", "id") or kind in ("", "set"):
        return Declared(type="", **shared)
    if values:
        return _listed(values, shared)
    if kind == "flag":
        return Declared(type="truth", low=0.0, high=1.0, **shared)
    step: float | None
    if kind in TEMPORAL:
        low, high = (_end(kind, get(key), key) for key in ("low", "high"))
        step = _STEPS.get(str(get("step")), _DEFAULT_STEP[kind])
        return Declared(type=kind, low=low, high=high, step=step, **shared)
    decimals, step = get("decimals"), get("step")
    if column.integer:
        step = 1.0
    elif step is None and decimals is not None:
        step = 10.0**-decimals
    ends = [float(get("low")), float(get("high"))]
    return Declared(type="number", low=ends[0], high=ends[1], step=step, decimals=decimals, **shared)


def _listed(values: tuple[Any, ...], shared: dict[str, Any]) -> Declared:
    if isinstance(values[0], str):
        return Declared(type="text", values=tuple(v.strip() for v in values), **shared)
    if isinstance(values[0], bool):
        return Declared(type="truth", low=0.0, high=1.0, values=values, **shared)
    return Declared(type="number", low=float(min(values)), high=float(max(values)), values=values, **shared)


def _end(kind: str, value: Any, key: str) -> float:
    """An end of a column of moments in microseconds; a time without one has the whole day."""
    found = moment(kind, value)
    if found is None:
        if kind == "time":
            return 0.0 if key == "low" else 86_399_999_999.0
        return -math.inf if key == "low" else math.inf
    return micros(found)
