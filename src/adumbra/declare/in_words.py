"""A schema in words, for plans and cards: what each column was declared to be, and what becomes of an empty cell."""

from __future__ import annotations

from adumbra.declare.column import Column
from adumbra.declare.schema import Schema

__all__ = ["columns_in_words", "rules_in_words", "unmeasured_in_words"]

_MOST_COLUMNS, _MOST_RULES, _MOST_VALUES = 40, 20, 6


def columns_in_words(schema: Schema) -> list[dict[str, str]]:
    """A line for each released column, at most 40 of them.

    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 110, "integer": True}}})
    >>> columns_in_words(schema)
    [{'column': 'age', 'declared': 'number from 0 to 110, by 1', 'an empty cell': 'is kept'}]
    """
    lines = [
        {"column": c.name, "declared": _declared(c, schema), "an empty cell": _empty(c, schema)}
        for c in schema.released[:_MOST_COLUMNS]
    ]
    left = len(schema.released) - len(lines)
    if left > 0:
        lines.append({"column": f"and {left} more", "declared": "see card.json", "an empty cell": ""})
    return lines


def rules_in_words(schema: Schema) -> list[dict[str, str]]:
    """A line for each rule between columns, at most 20 of them."""
    texts = schema.rules.texts()
    more = [f"and {len(texts) - _MOST_RULES} more: see card.json"] * (len(texts) > _MOST_RULES)
    return [{"rule": text} for text in (*texts[:_MOST_RULES], *more)]


def unmeasured_in_words(schema: Schema) -> str:
    """Which released columns cost nothing, and why; "" if there are none."""
    ids = [c.name for c in schema.released if c.role == "id"]
    computed = [c.name for c in schema.released if c.name in schema.rules.unmeasured]
    parts = [f"{', '.join(names)} ({why})" for names, why in ((ids, "fresh ids"), (computed, "computed")) if names]
    return "; ".join(parts)


def _declared(column: Column, schema: Schema) -> str:
    if column.role == "id":
        return "id" + ("" if column.pattern is None else f" like {column.pattern}")
    if column.derived is not None:
        return f"{column.kind}, computed: {column.derived}"
    if column.name in schema.rules.unmeasured:
        return f"{column.kind}, looked up in a rule"
    words = str(column.kind) + (f" ({column.role})" if column.role in ("label", "group") else "")
    if column.values:
        shown = ", ".join(str(value) for value in column.values[:_MOST_VALUES])
        left = len(column.values) - _MOST_VALUES
        words += f": {shown}" + (f" and {left} more" if left > 0 else "")
    elif column.low is not None:
        words += f" from {_brief(column.low)} to {_brief(column.high)}"
    step = "1" if column.integer else column.step if column.step is not None else _decimals(column)
    parts = [f"by {_brief(step)}"] if step is not None else []
    parts += ["on a logarithmic scale"] if column.scale else []
    parts += [f"with spikes at {', '.join(_brief(spike) for spike in column.spikes)}"] if column.spikes else []
    parts += [f"at most {column.most} in a cell"] if column.most is not None else []
    return ", ".join([words, *parts])


def _decimals(column: Column) -> float | None:
    return None if column.decimals is None else float(10.0**-column.decimals)


def _empty(column: Column, schema: Schema) -> str:
    if column.role == "id" or column.derived is not None or column.name in schema.rules.unmeasured:
        return "is not read"
    return "is kept" if column.missing is None else f"counts as {_brief(column.missing)}"


def _brief(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
