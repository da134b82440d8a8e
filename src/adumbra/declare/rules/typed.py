"""Trees whose types are known, and what their values can be: intervals that follow from declared ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adumbra.declare.rules.literals import micros
from adumbra.declare.rules.rule_column import Declared

__all__ = ["LARGEST", "Typed", "call_interval", "interval", "literal", "walk"]

LARGEST = 2.0**53
_DAY = 86_400e6
_PARTS = {"month": (1, 12), "day": (1, 31), "weekday": (1, 7), "hour": (0, 23), "minute": (0, 59)}
_LENGTHS = {"days": _DAY, "hours": 3_600e6, "minutes": 60e6, "seconds": 1e6}


@dataclass(frozen=True)
class Typed:
    """One operation: the type of its value, and the least and largest it can be."""

    op: str
    type: str
    args: tuple[Typed, ...] = ()
    value: Any = None
    whole: bool = False
    low: float = 0.0
    high: float = 1.0
    column: Declared | None = None

    @property
    def names(self) -> frozenset[str]:
        """Columns that it names."""
        return frozenset(node.column.name for node in walk(self) if node.column is not None)


def walk(node: Typed) -> Iterator[Typed]:
    """All nodes of a tree."""
    yield node
    for arg in node.args:
        yield from walk(arg)


def literal(kind: str, value: Any) -> Typed:
    """A constant of that `kind` of value."""
    if kind == "text":
        return Typed("literal", kind, value=value)
    at = micros(value)
    return Typed("literal", kind, value=value, whole=at == math.floor(at), low=at, high=at)


def interval(op: str, a: Typed, b: Typed) -> tuple[float, float]:
    """Ends of what an operation `op` on two values, `a` and `b`, can give."""
    if op == "+":
        return a.low + b.low, a.high + b.high
    if op == "-":
        return a.low - b.high, a.high - b.low
    if op == "*":
        return _corners(a, (b.low, b.high), lambda x, y: x * y)
    if op == "%":
        most = max(abs(b.low), abs(b.high))
        return (0.0 if b.low > 0 else -most), (0.0 if b.high < 0 else most)
    if b.low <= 0 <= b.high:  # a division by zero is empty; by something near it, as large as you like
        most = max(abs(a.low), abs(a.high)) if b.whole else math.inf
        return -most - 1, most + 1
    low, high = _corners(a, (b.low, b.high), lambda x, y: x / y)
    return (math.floor(low), math.floor(high)) if op == "//" and math.isfinite(high - low) else (low, high)


def call_interval(name: str, args: tuple[Typed, ...]) -> tuple[float, float]:
    """Ends of what a function can give."""
    first = args[0]
    if name in ("min", "max"):
        pick = min if name == "min" else max
        return pick(a.low for a in args), pick(a.high for a in args)
    if name == "abs":
        ends = (abs(first.low), abs(first.high))
        return (0.0 if first.low <= 0 <= first.high else min(ends)), max(ends)
    if name == "round":
        return first.low - 0.5, first.high + 0.5
    if name == "year":
        years = [1970 + end / (365.2425 * _DAY) for end in (first.low, first.high)]
        return math.floor(years[0]) - 1 if math.isfinite(years[0]) else 1, (
            math.ceil(years[1]) + 1 if math.isfinite(years[1]) else 9999
        )
    if name in _LENGTHS:
        return first.low * _LENGTHS[name], first.high * _LENGTHS[name]
    if name == "date":
        return (first.low // _DAY) * _DAY, first.high
    if name == "time":
        return 0.0, _DAY
    return _PARTS.get(name, (first.low, first.high))


def _corners(a: Typed, other: tuple[float, float], of: Any) -> tuple[float, float]:
    found = [of(x, y) for x in (a.low, a.high) for y in other]
    found = [0.0 if math.isnan(v) else v for v in found]
    return min(found), max(found)
