"""Whether an expression makes sense for the declared columns: names, types, values, ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from adumbra.common.errors import InputError
from adumbra.common.validation import said
from adumbra.declare.column import nearest, some_of
from adumbra.declare.rules.literals import TEMPORAL, micros, moment
from adumbra.declare.rules.parse import Node, wrong
from adumbra.declare.rules.rule_column import Declared
from adumbra.declare.rules.typed import LARGEST, Typed, call_interval, interval, literal

__all__ = ["Checker", "known_column"]

_LEAST, _MOST = -62_135_596_800e6, 253_402_300_800e6  # years 1 to 9999, in microseconds since 1970
_EXAMPLES = {
    "date": "'2020-01-31'",
    "datetime": "'2020-01-31 10:00'",
    "time": "'10:00'",
    "duration": "'1d 02:00:00'",
    "number": "a number without quotes",
    "truth": "true or false",
    "text": "text in quotes",
}
_RESULTS = {
    ("+", "date", "duration"): "date",
    ("+", "duration", "date"): "date",
    ("-", "date", "duration"): "date",
    ("+", "datetime", "duration"): "datetime",
    ("+", "duration", "datetime"): "datetime",
    ("-", "datetime", "duration"): "datetime",
    ("-", "date", "date"): "duration",
    ("-", "datetime", "datetime"): "duration",
    ("-", "time", "time"): "duration",
    ("+", "duration", "duration"): "duration",
    ("-", "duration", "duration"): "duration",
    ("*", "duration", "number"): "duration",
    ("*", "number", "duration"): "duration",
    ("/", "duration", "number"): "duration",
    ("/", "duration", "duration"): "number",
}
_OF_DAYS = ("year", "month", "day", "weekday")


def known_column(name: object, columns: Mapping[str, Declared], where: str) -> Declared:
    """The column of that name, if a rule can speak of it; `where` begins the error, `columns` are all there are."""
    if not isinstance(name, str) or name not in columns:
        hint = nearest(name, tuple(columns))
        lowered = " (words of the language are written in small letters)" if str(name).isupper() else ""
        remedy = f"did you mean {hint!r}?" if hint else f"use one of: {some_of(columns)}{lowered}"
        raise wrong(where, "columns of the schema", f"no column {said(name)}", remedy)
    column = columns[name]
    if not column.type:
        why = f'role = "{column.role}"' if column.role in ("drop", "id") else f"kind = {column.kind!r}"
        raise wrong(where, "columns whose values are released", f"{name!r} with {why}", "leave it out of the rules")
    return column


class Checker:
    """Types of the expressions of one rule."""

    def __init__(self, where: str, columns: Mapping[str, Declared]) -> None:
        self.where, self.columns = where, columns

    def wrong(self, expected: str, got: str, remedy: str) -> InputError:
        """The error of this rule: what was `expected`, what it `got`, and the `remedy`."""
        return wrong(self.where, expected, got, remedy)

    def condition(self, node: Node) -> Typed:
        """A tree that is true or false; the flag's own name says that it is set."""
        found = self.typed(node)
        column = found.column
        if found.op == "column" and column is not None and column.kind == "flag" and found.type != "truth":
            return self.pair("=", found, literal(found.type, column.values[1]))
        if found.type != "truth":
            raise self.wrong("a condition", f"a {found.type}", "compare it with something: a <= b, a = 'text'")
        return found

    def typed(self, node: Node, like: Typed | None = None) -> Typed:
        """The tree with its types; a literal is read as what it is `like`."""
        op = node.op
        if op == "literal":
            return self.literal(node.value, like)
        if op == "column":
            column = known_column(node.value, self.columns, self.where)
            return Typed(op, column.type, whole=column.whole, low=column.low, high=column.high, column=column)
        if op in ("and", "or", "not", "implies"):
            return Typed(op, "truth", tuple(self.condition(arg) for arg in node.args))
        if op == "missing":
            return Typed(op, "truth", (self.typed(node.args[0]),))
        if op == "in":
            return self.among(node)
        if op == "compare":
            return self.chain(node)
        if op == "choose":
            return self.choice(node, like)
        if op == "call":
            return self.call(node)
        if op == "negative":
            only = self.typed(node.args[0])
            if only.type not in ("number", "duration"):
                raise self.wrong("a number after -", f"a {only.type}", "write the minus before a number")
            return Typed(op, only.type, (only,), whole=only.whole, low=-only.high, high=-only.low)
        return self.arithmetic(op, self.typed(node.args[0]), self.typed(node.args[1]))

    def literal(self, value: Any, like: Typed | None) -> Typed:
        """A constant, read as a value of the type it is compared with."""
        own = "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
        if like is None:
            return literal(own, value)
        column = like.column if like.op == "column" else None
        if own == "truth" and column is not None and column.kind == "flag" and column.values:
            return literal(like.type, column.values[int(value)])
        if like.type in TEMPORAL:
            found = moment(like.type, value)
            if found is None:
                raise self.wrong(f"a {like.type}", said(value), f"write it as {_EXAMPLES[like.type]}")
            return literal(like.type, found)
        if own != like.type:
            whose = f" for column {column.name!r}" if column is not None else ""
            example = _EXAMPLES[like.type]
            if column is not None and column.values:
                example = f"{column.values[0]!r}" if like.type != "truth" else example
            raise self.wrong(f"a {like.type}{whose}", said(value), f"write {example}")
        return literal(own, value.strip() if isinstance(value, str) else value)

    def chain(self, node: Node) -> Typed:
        """A comparison, or several joined: 0 <= a <= b."""
        fixed = [self.typed(arg) if arg.op != "literal" else None for arg in node.args]
        pairs = []
        for index, order in enumerate(node.value):
            first, second = node.args[index : index + 2]
            a, b = fixed[index], fixed[index + 1]
            left = a if a is not None else self.typed(first, b)
            right = b if b is not None else self.typed(second, left)
            pairs.append(self.pair(order, left, right))
        return pairs[0] if len(pairs) == 1 else Typed("and", "truth", tuple(pairs))

    def pair(self, order: str, a: Typed, b: Typed) -> Typed:
        """One comparison, by `order`, of two values `a` and `b` of one type."""
        if a.type != b.type:
            hint = (
                "write date(...) of the datetime" if {a.type, b.type} == {"date", "datetime"} else "compare like kinds"
            )
            raise self.wrong("two values of one kind", f"a {a.type} {order} a {b.type}", hint)
        for column, other in ((a.column, b), (b.column, a)):
            if column is not None and other.op == "literal":
                self.declared(column, other.value, order)
        if a.column and b.column and a.column.zone != b.column.zone:
            raise self.wrong("columns of one time zone", f"{a.column.zone} and {b.column.zone}", "declare one zone")
        if order not in ("=", "!="):
            self.ordered(order, a, b)
        return Typed("compare", "truth", (a, b), value=order)

    def ordered(self, order: str, a: Typed, b: Typed) -> None:
        """Refuse an `order` of `a` and `b` where nothing says which is more."""
        if a.type == "truth":
            raise self.wrong(
                "an order of numbers, moments or ordinals", f"true and false with {order}", "write = or !="
            )
        if a.type != "text":
            return
        orders = [one.column.values for one in (a, b) if one.column is not None and one.column.kind == "ordinal"]
        literals = sum(one.op == "literal" for one in (a, b))
        if len(orders) + literals < 2 or not orders or len(set(orders)) > 1:
            raise self.wrong(
                "an order of numbers, moments or ordinals",
                f"words with {order}",
                'write = or in [...], or declare kind = "ordinal" with the values in order',
            )

    def declared(self, column: Declared, value: Any, order: str) -> None:
        """Refuse a constant `value` that the `column` can never be, compared by `order`."""
        if column.values:
            if (order in ("=", "!=") or column.type == "text") and not column.has(value):
                hint = nearest(value, tuple(map(str, column.values)))
                remedy = f"did you mean {hint!r}?" if hint else f"write one of: {some_of(map(str, column.values))}"
                raise self.wrong(f"a declared value of {column.name!r}", said(_text(value)), remedy)
            return
        if column.type == "truth":
            return
        if not column.low <= micros(value) <= column.high:
            raise self.wrong(
                f"a value in the declared range of {column.name!r}",
                f"{said(_text(value))} outside it",
                "write one between low and high, or correct the range",
            )
        if order in ("=", "!=") and not column.has(value):
            raise self.wrong(f"a value that {column.name!r} can take", said(_text(value)), "write one of its steps")

    def among(self, node: Node) -> Typed:
        """A column and a list of its values."""
        first = self.typed(node.args[0])
        if node.args[0].op == "literal":
            raise self.wrong("a column before in", said(node.args[0].value), "write column in ['A', 'B']")
        found = []
        for value in node.value:
            one = self.literal(value, first)
            if first.column is not None:
                self.declared(first.column, one.value, "=")
            found.append(one.value)
        return Typed("in", "truth", (first,), value=tuple(found))

    def choice(self, node: Node, like: Typed | None) -> Typed:
        """If, then, else: both outcomes of one type."""
        condition = self.condition(node.args[0])
        first, second = node.args[1:]
        context = like
        if like is None:
            settled = next((arg for arg in (first, second) if arg.op not in ("literal", "choose")), None)
            context = None if settled is None else self.typed(settled)
        a, b = self.typed(first, context), self.typed(second, context)
        if a.type != b.type:
            raise self.wrong("one kind of value after then and else", f"a {a.type} and a {b.type}", "make them alike")
        low, high = min(a.low, b.low), max(a.high, b.high)
        return Typed("choose", a.type, (condition, a, b), whole=a.whole and b.whole, low=low, high=high)

    def arithmetic(self, op: str, a: Typed, b: Typed) -> Typed:
        """The operation `op` on `a` and `b`, of whatever type comes out."""
        both = (a.type, b.type)
        kind = "number" if both == ("number", "number") else _RESULTS.get((op, *both))
        if kind is None:
            hint = "calculate with numbers, and add days(n) to dates"
            if "text" in both and set(both) & set(TEMPORAL):
                hint = "write date('2020-03-01') for a date in a sum"
            raise self.wrong("numbers, dates or durations", f"a {a.type} {op} a {b.type}", hint)
        low, high = interval(op, a, b)
        whole = a.whole and b.whole and op != "/"
        return self.bounded(Typed(op, kind, (a, b), whole=whole, low=low, high=high))

    def bounded(self, node: Typed) -> Typed:
        """Refuse what can leave the numbers that are exact, or the calendar."""
        low, high = node.low, node.high
        if math.isnan(low) or math.isnan(high):
            low, high = -math.inf, math.inf
        infinite = math.isinf(low) or math.isinf(high)
        if node.type == "number" and not infinite and max(abs(low), abs(high)) > LARGEST:
            raise self.wrong(
                "numbers of at most 2^53", "larger ones within the declared ranges", "write smaller factors"
            )
        if node.type in ("date", "datetime") and not (low >= _LEAST and high <= _MOST):
            raise self.wrong("dates of the years 1 to 9999", "others within the declared ranges", "add fewer days")
        if node.type == "duration" and not max(abs(low), abs(high)) < _MOST:
            raise self.wrong(
                "durations below 8,000 years", "longer ones", "declare low and high, or write smaller factors"
            )
        return Typed(node.op, node.type, node.args, node.value, node.whole, low, high)

    def call(self, node: Node) -> Typed:
        """A function of the language."""
        name = node.value
        if name in ("date", "datetime", "time") and node.args[0].op == "literal":
            return self.literal(node.args[0].value, Typed("", name))
        args = tuple(self.typed(arg) for arg in node.args)
        first = args[0].type
        allowed = {
            **dict.fromkeys(_OF_DAYS, ("date", "datetime")),
            "hour": ("datetime", "time"),
            "minute": ("datetime", "time"),
            "date": ("datetime",),
            "datetime": ("date",),
            "time": ("datetime",),
            "min": ("number", "date", "datetime", "duration", "time"),
            "max": ("number", "date", "datetime", "duration", "time"),
            "abs": ("number", "duration"),
        }.get(name, ("number",))
        alike = name not in ("min", "max") or len({arg.type for arg in args}) == 1
        if first not in allowed or not alike:
            got = ", ".join(f"a {arg.type}" for arg in args)
            raise self.wrong(f"{name}() of {' or '.join(allowed)}", got, "give it one of these")
        if name == "round" and len(args) == 2 and (args[1].op != "literal" or args[1].value not in range(10)):
            raise self.wrong("round() to 0 to 9 decimals", "another second argument", "write round(x, 1)")
        kind = {"days": "duration", "hours": "duration", "minutes": "duration", "seconds": "duration"}.get(
            name, "number"
        )
        if name in ("date", "datetime", "time"):
            kind = name
        elif name in ("min", "max", "abs"):
            kind = first
        whole = name not in ("min", "max", "abs", "round") or all(arg.whole for arg in args)
        whole |= name == "round" and len(args) == 1
        low, high = call_interval(name, args)
        return self.bounded(Typed("call", kind, args, name, whole, low, high))


def _text(value: Any) -> Any:
    return str(value) if not isinstance(value, str | int | float) else value
