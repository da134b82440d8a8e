"""Cells to grid steps and back.

Encoding is a fixed function of one cell and its declared column: it looks at no other cell, so replacing a
cell moves only its own block and batches may be cut anywhere. Every result is a whole number within the
block's bounds of `declare/space.py`, whatever the cell holds (docs/proofs/grid.md). What a cell means, whatever type
its column has, is said in `declare/spelling.py`.

Repairs (missing cells, unknown values, clipped numbers) are silent for the release, because refusing would
tell something about a row. They are counted for the owner, and the counts are private.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF, Block
from adumbra.declare.spelling import answers, blank, numbers, places
from adumbra.tables.matrix import Unnamed, as_frame
from adumbra.tables.numbers import Ranges

__all__ = ["Encoded", "Repairs", "check_columns", "decode", "decode_cells", "encode"]


@dataclass(frozen=True)
class Repairs:
    """How many cells of a column were repaired. Private: for the owner, never for the release."""

    missing: int = 0
    unknown: int = 0
    clipped: int = 0

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(self.missing + other.missing, self.unknown + other.unknown, self.clipped + other.clipped)


_NONE = Repairs()


@dataclass(frozen=True)
class Encoded:
    """Encoded rows (float64, exact whole numbers, one row each) and the repairs of each released column."""

    values: NDArray[np.float64] = field(repr=False)
    repairs: dict[str, Repairs] = field(repr=False)

    @property
    def repaired(self) -> dict[str, Repairs]:
        """The repairs without columns that are known to need none."""
        return {name: found for name, found in self.repairs.items() if found is not _NONE}


def check_columns(schema: Schema, columns: Iterable[str], types: Mapping[str, str] | None = None) -> None:
    """Refuse a table whose columns are not the declared ones; with `Table.types`, also cells of a wrong type.

    A dropped column may be absent. Columns without names are the released ones, in order.
    """
    if isinstance(columns, Unnamed):
        _check_unnamed(schema, columns, types)
        return
    present = dict.fromkeys(columns)
    absent = [c.name for c in schema.released if c.name not in present]
    if absent:
        raise InputError(
            "every released column of the schema in the table",
            f"no {_some(absent)}",
            'correct the name, or write role = "drop" or delete it in the schema',
        )
    declared = {c.name for c in schema.columns}
    extra = [name for name in present if name not in declared]
    if extra:
        raise InputError(
            "every column of the table in the schema",
            f"{_some(extra)} undeclared",
            'declare each under [columns."NAME"]; write role = "drop" to leave it out of the release',
        )
    for column in schema.released if types is not None else ():
        _check_type(column, cast(Mapping[str, str], types)[column.name])


def _check_unnamed(schema: Schema, columns: Unnamed, types: Mapping[str, str] | None) -> None:
    if len(columns) != len(schema.released):
        raise InputError(
            f"an array of {len(schema.released)} columns, one for each released column of the schema, in order",
            f"{len(columns)} columns",
            "give the array of these columns, or a data frame, whose columns have names",
        )
    for column, name in zip(schema.released if types is not None else (), columns, strict=False):
        _check_type(column, cast(Mapping[str, str], types)[name])


@dataclass(frozen=True, eq=False)
class _Layout:
    """What encoding needs of a schema, worked out once for all batches of a table."""

    schema: Schema
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    names: list[str]
    width: int
    every: tuple[int, ...]
    all_numbers: bool
    ranges: dict[tuple[int, ...], tuple[list[str], Ranges]] = field(default_factory=dict)

    @staticmethod
    def of(schema: Schema) -> _Layout:
        global _last
        layout = _last
        if layout is None or layout.schema is not schema:
            space = schema.space()
            columns = tuple(schema.released)
            names, every = [c.name for c in columns], tuple(range(len(columns)))
            numbers = all(c.kind == "number" for c in columns)
            layout = _Layout(schema, columns, space.blocks, names, space.width, every, numbers)
            _last = layout
        return layout

    def ranges_of(self, places: tuple[int, ...]) -> tuple[list[str], Ranges]:
        """Names and ranges of the number columns at these places."""
        if places not in self.ranges:
            columns = [self.columns[i] for i in places]
            self.ranges[places] = [column.name for column in columns], Ranges.of(columns)
        return self.ranges[places]


_last: _Layout | None = None


def encode(frame: pl.DataFrame | NDArray[Any], schema: Schema) -> Encoded:
    """Encode the released columns of a frame, or of an array that holds just these, in order.

    Guarantee: one row for each row of the frame, in order; whole numbers; each block within its bounds; each
    block a function of its own cell. Edge cases: an empty frame gives no rows; further columns are ignored.

    >>> schema = Schema.parse('[columns.age]\\nkind = "number"\\nlow = 0\\nhigh = 100')
    >>> encode(pl.DataFrame({"age": ["0", "50", "", "1e999"]}), schema).values.ravel().tolist()
    [-32768.0, 1.0, 0.0, 32768.0]
    """
    layout = _Layout.of(schema)
    every = layout.every
    if isinstance(frame, np.ndarray):
        if layout.all_numbers and frame.dtype.kind in "fiu":
            return _numbers(frame, layout, every)
        frame = as_frame(frame, layout.names)
    if frame.columns != layout.names:
        declared = {c.name for c in schema.columns}
        check_columns(schema, [name for name in frame.columns if name in declared])
        frame = frame[layout.names]
    types = frame.dtypes
    for column, dtype in zip(layout.columns, types, strict=True):
        _check_type(column, _cell_type(dtype))
    plain = tuple(i for i in every if layout.columns[i].kind == "number" and _plain_number(types[i]))
    if plain == every:
        return _numbers(_matrix(frame, types), layout, every)
    values = np.zeros((frame.height, layout.width))
    repairs = dict.fromkeys(layout.names, _NONE)
    if plain:
        some = frame[[layout.names[i] for i in plain]]
        found = _numbers(_matrix(some, [types[i] for i in plain]), layout, plain)
        values[:, [layout.blocks[i].start for i in plain]] = found.values
        repairs |= found.repairs
    for i in sorted(set(every) - set(plain)):
        block, column, series = layout.blocks[i], layout.columns[i], frame.to_series(i)
        if column.kind == "category":
            repairs[column.name] = _one_hot(series, column, values[:, block.start : block.stop])
        else:
            fill = _number if column.kind == "number" else _flag
            repairs[column.name] = fill(series, column, values[:, block.start])
    return Encoded(values, repairs)


def _plain_number(dtype: pl.DataType) -> bool:
    """Whether a cast gives the cells' numbers; decimals are read as they are written."""
    return dtype.is_numeric() and not dtype.is_decimal()


def _matrix(frame: pl.DataFrame, types: list[pl.DataType]) -> NDArray[np.float64]:
    """Columns of numbers as one array, nan where a cell is missing."""
    if any(dtype != pl.Float64 for dtype in types):
        frame = frame.cast(pl.Float64)
    return np.asarray(frame.to_numpy(), dtype=np.float64)


def _numbers(cells: NDArray[Any], layout: _Layout, places: tuple[int, ...]) -> Encoded:
    """Number columns whose cells are numbers or missing, in one pass."""
    names, ranges = layout.ranges_of(places)
    steps = ranges.steps(cells)
    repairs = dict.fromkeys(names, _NONE)
    for j in np.flatnonzero(steps.missing | steps.clipped):
        repairs[names[j]] = Repairs(int(steps.missing[j]), 0, int(steps.clipped[j]))
    return Encoded(steps.values, repairs)


def decode(values: NDArray[Any], schema: Schema) -> pl.DataFrame:
    """Turn grid steps, or any real numbers near them, back into a table of the declared types.

    A number is clipped to its range (and rounded where `integer`), a category is the value with the largest
    coordinate (the first of equals, so an empty cell becomes the first value), a flag is yes above 0.
    """
    space = schema.space()
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != space.width:
        raise InputError(f"rows of {space.width} numbers", f"shape {array.shape}", "decode with its own schema")
    if np.isnan(array).any():
        raise InputError("numbers to decode", "nan", "report this: a release must not hold nan")
    columns = {}
    for block, column in zip(space.blocks, schema.released, strict=True):
        part = array[:, block.start : block.stop]
        if column.kind == "number":
            columns[column.name] = _decode_number(part[:, 0], column)
        elif column.kind == "flag":
            columns[column.name] = pl.Series(part[:, 0] > 0)
        else:
            columns[column.name] = pl.Series(list(column.values)).gather(part.argmax(axis=1))
    return pl.DataFrame(columns)


def decode_cells(values: NDArray[Any], schema: Schema) -> pl.DataFrame:
    """Turn one number a column into a table of the declared types.

    A number or flag is in grid steps, as in `decode`; a category is the position of its value; nan is an empty cell.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(schema.released):
        raise InputError(
            f"rows of {len(schema.released)} numbers", f"shape {array.shape}", "decode with its own schema"
        )
    columns = {}
    for given, column in zip(array.T, schema.released, strict=True):
        empty = np.isnan(given)
        part = np.where(empty, 0.0, given)
        if column.kind == "number":
            columns[column.name] = _decode_number(part, column)
        elif column.kind == "flag":
            columns[column.name] = pl.Series(part > 0)
        else:
            place = np.clip(part, 0, column.width - 1).astype(np.int64)
            columns[column.name] = pl.Series(list(column.values)).gather(place)
        if empty.any():
            columns[column.name] = columns[column.name].zip_with(pl.Series(~empty), pl.Series([None]))
    return pl.DataFrame(columns)


def _decode_number(steps: NDArray[np.float64], column: Column) -> pl.Series:
    low, high = cast(float, column.low), cast(float, column.high)
    width = high - low
    number = (low + width / 2) + np.clip(steps, -HALF, HALF) / GRID * width
    number = np.clip(number, low, high)
    number[steps <= -HALF] = low  # exact ends, free of the last bit's rounding
    number[steps >= HALF] = high
    return pl.Series(np.rint(number).astype(np.int64) if column.integer else number)


def _cell_type(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return "text"
    return "time" if dtype in (pl.Date, pl.Datetime, pl.Time) else "other"


def _check_type(column: Column, got: str) -> None:
    """Refuse a type without single cells; of the others, a cell that the column cannot read is an unknown one."""
    if got == "other":
        raise InputError(
            f"column {column.name!r} with cells that kind = {column.kind} can read",
            f"cells of type {got}",
            'convert the column, or write role = "drop"',
        )


def _number(series: pl.Series, column: Column, out: NDArray[np.float64]) -> Repairs:
    low, high = cast(float, column.low), cast(float, column.high)
    number = numbers(series)
    lost = np.isnan(number)
    clipped = int(np.count_nonzero((number < low) | (number > high)))
    fallback = column.missing
    number[lost] = low if fallback is None else cast(float, fallback)
    # Clipped before any arithmetic, so nothing below can overflow: |number - middle| <= width / 2.
    number = np.clip(number, low, high)
    width = high - low
    steps = np.rint((number - (low + width / 2)) / width * GRID)
    out[:] = np.where(steps == 0, 1.0, np.clip(steps, -HALF, HALF))  # 0 is for cells that are not there
    if fallback is None:
        out[lost] = 0.0
    return Repairs(*_split(series, lost), clipped)


def _flag(series: pl.Series, column: Column, out: NDArray[np.float64]) -> Repairs:
    said = answers(series)
    lost = said < 0
    out[:] = np.where(said == 1, HALF, -HALF)
    out[lost] = 0.0 if column.missing is None else (HALF if column.missing else -HALF)
    return Repairs(*_split(series, lost))


def _one_hot(series: pl.Series, column: Column, out: NDArray[np.float64]) -> Repairs:
    code = places(series, column.values)
    lost = code < 0
    if column.missing is not None:
        code = np.where(lost, column.values.index(column.missing), code)
    rows = np.flatnonzero(code >= 0)
    out[rows, code[rows]] = CATEGORY_STEPS
    return Repairs(*_split(series, lost))


def _split(series: pl.Series, lost: NDArray[np.bool_]) -> tuple[int, int]:
    """How many of the cells that were lost hold nothing, and how many hold what the column cannot read."""
    if not lost.any():
        return 0, 0
    cells = series.filter(pl.Series(lost))
    missing = int(np.count_nonzero(blank(cells)))
    return missing, len(cells) - missing


def _some(names: list[str], most: int = 10) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
