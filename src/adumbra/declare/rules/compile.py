"""From trees to polars: expressions over prepared columns, with unknown where a cell is empty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any

import polars as pl

from adumbra.common.errors import InputError
from adumbra.declare.rules.literals import TEMPORAL
from adumbra.declare.rules.rule_column import Declared
from adumbra.declare.rules.typed import Typed

__all__ = ["compiled", "finished", "prepared"]

_US = pl.Duration("us")
_DAY = 86_400_000_000
_UNITS = {"days": _DAY, "hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
_CLOSE = 1e-9
"""Numbers nearer than this share of their size are equal: 0.1 + 0.2 is 0.3."""


def prepared(frame: pl.DataFrame, columns: Iterable[Declared]) -> pl.DataFrame:
    """The columns that rules read, each in the one type that expressions are written for."""
    found = []
    for column in columns:
        if column.name not in frame.columns:
            raise InputError("every column that a rule names", f"no {column.name!r}", "give the whole table")
        found.append(_cast(frame[column.name], column))
    return pl.DataFrame(found)


def _cast(cells: pl.Series, column: Declared) -> pl.Series:
    kind = cells.dtype
    if column.type == "number":
        if kind.is_integer():
            return cells if kind == pl.Int64 else cells.cast(pl.Int64)
        return cells.cast(pl.Float64, strict=False).fill_nan(None)
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is not None:
            cells = cells.dt.convert_time_zone(column.zone or "UTC").dt.replace_time_zone(None)
        cells = cells.cast(pl.Datetime("us"))
    return cells if cells.dtype == column.dtype else cells.cast(column.dtype, strict=False)


def compiled(node: Typed) -> pl.Expr:
    """The expression of a tree."""
    op, args = node.op, node.args
    if op == "literal":
        return pl.lit(node.value, dtype=_dtype(node))
    if op == "column" and node.column is not None:
        return pl.col(node.column.name)
    if op == "compare":
        return _compared(node)
    if op == "in":
        return _among(node)
    if op == "missing":
        return compiled(args[0]).is_null()
    if op == "not":
        return ~compiled(args[0])
    if op == "implies":
        return ~compiled(args[0]) | compiled(args[1])
    if op in ("and", "or"):
        return _joined(op, [compiled(arg) for arg in args])
    if op == "choose":
        condition = compiled(args[0])
        chosen = pl.when(condition).then(compiled(args[1])).otherwise(compiled(args[2]))
        return pl.when(condition.is_not_null()).then(chosen)
    if op == "call":
        return _called(node)
    if op == "negative":
        return _back(-_number(args[0]), node)
    return _calculated(node)


def _joined(op: str, parts: list[pl.Expr]) -> pl.Expr:
    """Conditions joined in pairs, and pairs of pairs: a long row of them would be a deep expression."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [
            pair[0] if len(pair) == 1 else pair[0] & pair[1] if op == "and" else pair[0] | pair[1] for pair in pairs
        ]
    return parts[0]


def _dtype(node: Typed) -> Any:
    if node.type == "number":
        return pl.Int64 if isinstance(node.value, int) else pl.Float64
    return Declared("", "", node.type).dtype


def _number(node: Typed) -> pl.Expr:
    """A value as a number: moments and durations in microseconds."""
    made = compiled(node)
    if node.type == "date":
        return made.cast(pl.Datetime("us")).cast(pl.Int64)
    if node.type == "time":
        return made.cast(pl.Int64) // 1000
    return made.cast(pl.Int64) if node.type in TEMPORAL else made


def _back(number: pl.Expr, node: Typed) -> pl.Expr:
    """A number as the value of a node's type; what is not finite is empty."""
    if node.type == "number":
        return number if node.whole else _finite(number)
    count = _finite(number).round().cast(pl.Int64, strict=False)
    if node.type == "date":
        return (count // _DAY).cast(pl.Int32, strict=False).cast(pl.Date)
    return count.cast(Declared("", "", node.type).dtype)


def _finite(number: pl.Expr) -> pl.Expr:
    real = number.cast(pl.Float64)
    return pl.when(real.is_finite()).then(real)


def _calculated(node: Typed) -> pl.Expr:
    a, b = _number(node.args[0]), _number(node.args[1])
    if node.op in ("/", "//", "%"):
        b = pl.when(b != 0).then(b)
        made = a.cast(pl.Float64) / b if node.op == "/" else a // b if node.op == "//" else a - (a // b) * b
    else:
        made = a + b if node.op == "+" else a - b if node.op == "-" else a * b
    return _back(made, node)


def _compared(node: Typed) -> pl.Expr:
    a, b = node.args
    order = node.value
    if a.type == "text" and order not in ("=", "!="):
        values = next(one.column.values for one in (a, b) if one.column is not None)
        return _in_order(order, _rank(a, values), _rank(b, values))
    x, y = compiled(a), compiled(b)
    if a.type != "number" or (a.whole and b.whole):
        return _in_order(order, x, y)
    x, y = x.cast(pl.Float64), y.cast(pl.Float64)
    same = (x - y).abs() <= _CLOSE * pl.max_horizontal(x.abs(), y.abs(), pl.lit(1.0))
    if order in ("=", "!="):
        return same if order == "=" else ~same
    strict = x < y if order[0] == "<" else x > y
    return strict | same if "=" in order else strict & ~same


def _in_order(order: str, x: pl.Expr, y: pl.Expr) -> pl.Expr:
    made = {"=": x.eq, "!=": x.ne, "<": x.lt, "<=": x.le, ">": x.gt, ">=": x.ge}
    return made[order](y)


def _rank(node: Typed, values: tuple[str, ...]) -> pl.Expr:
    if node.op == "literal":
        return pl.lit(values.index(node.value))
    ranks = list(range(len(values)))
    return compiled(node).replace_strict(list(values), ranks, default=None, return_dtype=pl.Int64)


def _among(node: Typed) -> pl.Expr:
    cells = compiled(node.args[0])
    if node.args[0].type == "number":
        cells = cells.cast(pl.Float64)
        listed = pl.Series([float(v) for v in node.value], dtype=pl.Float64)
    else:
        listed = pl.Series(list(node.value), dtype=Declared("", "", node.args[0].type).dtype)
    return pl.when(cells.is_not_null()).then(cells.is_in(listed.implode()))


def _called(node: Typed) -> pl.Expr:
    name, args = node.value, node.args
    first = compiled(args[0])
    if name in ("min", "max"):
        all_there = reduce(lambda a, b: a & b, (compiled(arg).is_not_null() for arg in args))
        pick = pl.min_horizontal if name == "min" else pl.max_horizontal
        return pl.when(all_there).then(pick([compiled(arg) for arg in args]))
    if name == "abs":
        return _back(_number(args[0]).abs(), node)
    if name == "round":
        factor = 10.0 ** (args[1].value if len(args) == 2 else 0)
        rounded = (first.cast(pl.Float64) * factor + 0.5).floor() / factor
        return rounded.cast(pl.Int64, strict=False) if node.whole else rounded
    if name in _UNITS:
        return _back(first * _UNITS[name], node)
    parts = {"year": first.dt.year, "month": first.dt.month, "day": first.dt.day, "weekday": first.dt.weekday}
    parts |= {"hour": first.dt.hour, "minute": first.dt.minute}
    if name in parts:
        return parts[name]().cast(pl.Int64)
    return first.dt.time() if name == "time" else first.cast(Declared("", "", node.type).dtype)


def finished(made: pl.Expr, column: Declared) -> pl.Expr:
    """A computed value as the column declares it; empty where the column cannot take it."""
    if column.kind == "flag" and column.values and column.type != "truth":
        no, yes = (pl.lit(value, dtype=column.dtype) for value in column.values[:2])
        made = pl.when(made).then(yes).when(~made).then(no)
    if column.type == "number":
        made = _stepped(made.cast(pl.Float64), column).cast(column.dtype, strict=False)
    elif column.type in TEMPORAL:
        made = made.cast(column.dtype)
    if column.values:
        listed = pl.Series(list(column.values), dtype=column.dtype)
        return pl.when(made.is_in(listed.implode())).then(made)
    if column.type == "truth":
        return made
    if not math.isfinite(column.high - column.low):
        return made
    low, high = (pl.lit(column.value_of(end), dtype=column.dtype) for end in (column.low, column.high))
    return pl.when(made.is_between(low, high)).then(made)


def _stepped(number: pl.Expr, column: Declared) -> pl.Expr:
    number = pl.when(number.is_finite()).then(number)
    if column.values or column.step is None:
        return number
    steps = ((number - column.low) / column.step + 0.5).floor()
    on = column.low + steps * column.step
    return on if column.decimals is None else (on * 10.0**column.decimals + 0.5).floor() / 10.0**column.decimals
