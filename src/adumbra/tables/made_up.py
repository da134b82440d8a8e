"""A small table made up from a schema: the cells it declares, in the types that the real table's columns have.

It serves to run a release once before anything is charged. Nothing of the real table is in it but the types of its
columns, which are its form and not protected.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import polars as pl

from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.tables.read import open_table
from adumbra.tables.table import CellType, Table

__all__ = ["MADE_UP_ROWS", "cell_types", "made_up_table"]

MADE_UP_ROWS = 8
_DAY = datetime.date(2000, 1, 1)
_FRAMES: dict[CellType, tuple[Any, Callable[[Any], Any]]] = {
    "text": (pl.String, str),
    "number": (pl.Float64, float),
    "boolean": (pl.Boolean, bool),
    "time": (pl.Date, lambda _: _DAY),
}


def cell_types(schema: Schema, table: Table) -> dict[str, CellType]:
    """The type of each released column's cells; columns without names are the released ones, in order."""
    types = table.types
    names = [column.name for column in schema.released]
    found = types if all(name in types for name in names) else dict(zip(names, types.values(), strict=True))
    return {name: found[name] for name in names}


def made_up_table(schema: Schema, types: Mapping[str, CellType]) -> Table:
    """A few rows: both ends of every range, what lies between, every value in turn, and an empty cell.

    >>> schema = Schema.parse('[columns.age]\\nkind = "number"\\nlow = 0\\nhigh = 7')
    >>> made_up_table(schema, {"age": "number"}).count()
    8
    """
    columns = {}
    for place, column in enumerate(schema.released):
        dtype, read = _FRAMES[types[column.name]]
        cells = [_converted(cell, read) for cell in _cells(column)]
        cells[place % MADE_UP_ROWS] = None
        columns[column.name] = pl.Series(column.name, _turned(cells, 3 * place), dtype=dtype)
    return open_table(pl.DataFrame(columns))


def _cells(column: Column) -> list[Any]:
    if column.kind == "number":
        low, high = cast(float, column.low), cast(float, column.high)
        return [low * (1 - share) + high * share for share in (i / (MADE_UP_ROWS - 1) for i in range(MADE_UP_ROWS))]
    values: Sequence[Any] = (1, 0) if column.kind == "flag" else column.values
    return [values[i % len(values)] for i in range(MADE_UP_ROWS)]


def _converted(cell: Any, read: Callable[[Any], Any]) -> Any:
    """A declared value as a cell of the column's type; one that has no such form is left out."""
    try:
        return read(cell)
    except ValueError:
        return None


def _turned(cells: list[Any], by: int) -> list[Any]:
    """Columns that do not run in step."""
    by %= len(cells)
    return cells[by:] + cells[:by]
