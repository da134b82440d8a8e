"""Neighbouring tables to attack: extreme rows of every kind, and a small search from the worst of them.

A mechanism brings the pair that its theory calls worst (`challenges`). Here others are derived from it that a theory
may have forgotten: opposite corners, rows at right angles, another value of a category, nothing but empty cells, a
value against an empty cell, cells in the very middle or on a spike, out of range or unreadable, a table of a single
row, a table whose leading direction hangs on one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from adumbra.declare.column import Column
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge, Row, emptied

__all__ = ["extremes", "mixed", "searched"]

_SWEEPS = 3


def mixed(neighbours: Neighbours, row_bound: float | None = None) -> Challenge:
    """A table with every kind of column, for promises a mechanism brought no such table for.

    A day, a logarithm with a fallback, a number with a spike, a flag, a category and a label; some cells are empty.
    What is not measured is there too: ids, a derived column that says something else in the table, and a rule that half
    of the rows break, the one that differs among them.
    """
    schema = Schema.from_dict(
        {
            "columns": {
                "patient": {"role": "id", "pattern": "P-###"},
                "seen": {"kind": "date", "low": "2020-01-01", "high": "2020-02-29"},
                "weight": {"kind": "number", "low": 0, "high": 200, "scale": "log", "missing": 150},
                "children": {"kind": "number", "low": 0, "high": 5, "integer": True, "spikes": [2]},
                "smoker": {"kind": "flag"},
                "ward": {"kind": "category", "values": ["a", "b", "c"]},
                "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
                "beds": {"kind": "number", "low": 0, "high": 6, "integer": True, "derived": "children + 1"},
            },
            "rules": [{"check": "if ward = 'a' then smoker = true"}],
        }
    )
    low: Row = {"patient": "1", "seen": "2020-01-01", "weight": "0", "children": "0"}
    low = {**low, "smoker": "no", "ward": "a", "ill": "no", "beds": "6"}
    high: Row = {"patient": "2", "seen": "2020-02-29", "weight": "200", "children": "5"}
    high = {**high, "smoker": "yes", "ward": "b", "ill": "yes", "beds": "0"}
    some: Row = {**high, "seen": None, "children": None, "ill": None}
    others: dict[Relation, Row | None] = {
        Relation.REPLACE: high if neighbours.unit is Unit.ROW else {**low, "ward": "b"},
        Relation.ZERO_OUT: emptied(low) if neighbours.unit is Unit.ROW else {**low, "ward": None},
        Relation.ADD_REMOVE: None,
    }
    shared = (low, high, low, high, low, some, high) * 6
    return Challenge(neighbours, schema, low, others[neighbours.relation], "all kinds", shared, row_bound=row_bound)


def extremes(challenge: Challenge) -> list[Challenge]:
    """Pairs of the same neighbours and schema whose rows are extreme; the same pair in other company."""
    return [*_other_company(challenge), *_other_rows(challenge)]


def _other_company(challenge: Challenge) -> Iterator[Challenge]:
    yield replace(challenge, shared=(), why="alone in its table")
    if challenge.other is not None and challenge.neighbours.relation is Relation.REPLACE:
        halves = (challenge.one,) * 10 + (challenge.other,) * 10
        yield replace(challenge, shared=halves, why="the row that tips the leading direction")


def _other_rows(challenge: Challenge) -> Iterator[Challenge]:
    schema, neighbours = challenge.schema, challenge.neighbours
    rows = {name: {**challenge.one, **row} for name, row in _extreme_rows(schema).items()}
    if neighbours.unit is Unit.CELL:
        yield from _cells(challenge, rows["in the lowest corner"])
        return
    for name, row in rows.items():
        if neighbours.relation is Relation.ADD_REMOVE:
            yield replace(challenge, one=row, why=f"a row {name} is there or not")
        elif neighbours.relation is Relation.ZERO_OUT:
            yield replace(challenge, one=row, other=emptied(row), why=f"a row {name} is emptied")
    if neighbours.relation is Relation.REPLACE:
        for (first, one), (second, other) in combinations(rows.items(), 2):
            yield replace(challenge, one=one, other=other, why=f"a row {first} against one {second}")


def _cells(challenge: Challenge, base: Row) -> Iterator[Challenge]:
    for column in challenge.schema.measured:
        found = _extreme_cells(column)
        if challenge.neighbours.relation is Relation.ZERO_OUT:
            for cell in found:
                one = {**base, column.name: cell}
                yield replace(challenge, one=one, other={**one, column.name: None}, why=f"{column.kind} emptied")
        else:
            for a, b in combinations(found, 2):
                one, other = {**base, column.name: a}, {**base, column.name: b}
                yield replace(challenge, one=one, other=other, why=f"{column.kind} from {a!r} to {b!r}")


def _extreme_rows(schema: Schema) -> dict[str, Row]:
    """Rows by what they are like."""
    cells = {column.name: _extreme_cells(column) for column in schema.measured}

    def every(pick: Callable[[int, list[str | None]], str | None]) -> Row:
        return {name: pick(i, found) for i, (name, found) in enumerate(cells.items())}

    return {
        "in the lowest corner": every(lambda i, c: c[0]),
        "in the highest corner": every(lambda i, c: c[1]),
        "in a mixed corner": every(lambda i, c: c[i % 2]),
        "in the opposite mixed corner": every(lambda i, c: c[(i + 1) % 2]),
        "along the first axis": every(lambda i, c: c[1] if i == 0 else None),
        "along the last axis": every(lambda i, c: c[1] if i == len(cells) - 1 else None),
        "with nothing in it": every(lambda i, c: None),
        "far out of range": every(lambda i, c: c[3]),
        "half empty": every(lambda i, c: c[0] if i % 2 else None),
        "in the middle": every(lambda i, c: c[-1]),
    }


def _extreme_cells(column: Column) -> list[str | None]:
    """Lowest, highest, empty, out of range, unreadable; then the middle and spikes, or further values of a category."""
    cells = column.cells
    if column.kind == "flag" and not column.values:
        return ["no", "yes", None, "2", "nonsense"]
    ends = [str(cell) for cell in cells.examples()]
    if cells.block == "number":
        outside = "9999-12-31" if column.kind in ("date", "datetime") else "1e30"
        places = np.array([*cells.spikes, 0], dtype=np.float64)
        middle = [str(cell) for cell in cells.store(cells.write(places)).to_list()]
        return [ends[0], ends[1], None, outside, "nonsense", *middle]
    values = [str(value) for value in column.values]
    return [values[0], values[-1], None, "no such value", *values[1:-1][:6]]


def searched(challenge: Challenge, cost: Callable[[Challenge], float]) -> Challenge:
    """Climb from a pair to a worse one, a cell at a time."""
    best, most = challenge, cost(challenge)
    for _ in range(_SWEEPS):
        before = most
        for column in challenge.schema.measured:
            for candidate in _variations(best, column):
                found = cost(candidate)
                if found > most * (1 + 1e-9):
                    best, most = replace(candidate, why=f"{challenge.why}, made worse by a search"), found
        if most == before:
            break
    return best


def _variations(challenge: Challenge, column: Column) -> Iterator[Challenge]:
    neighbours, name = challenge.neighbours, column.name
    cells = _extreme_cells(column)
    if column.cells.block == "number":
        cells += [str(cell) for cell in column.cells.store(column.cells.spread(9)).to_list()[1:-1]]
    for cell in cells:
        one = {**challenge.one, name: cell}
        if cell is None and neighbours.unit is Unit.CELL and neighbours.relation is Relation.ZERO_OUT:
            continue  # nothing is left to be emptied
        if challenge.other is None or neighbours.relation is Relation.ZERO_OUT:
            # an emptied row stays what it is; where one cell is emptied, the rest of both rows is the same
            other = challenge.other
            if other is not None and neighbours.unit is Unit.CELL and other[name] is not None:
                other = {**other, name: cell}
            yield replace(challenge, one=one, other=other)
        elif neighbours.unit is Unit.ROW:
            yield replace(challenge, one=one)
            yield replace(challenge, other={**challenge.other, name: cell})
        elif challenge.one[name] != challenge.other[name]:
            yield replace(challenge, one=one)
        else:
            yield replace(challenge, one=one, other={**challenge.other, name: cell})
