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
from adumbra.declare.cell_kinds.number import Number
from adumbra.declare.column import Column, some_of
from adumbra.declare.schema import Schema
from adumbra.declare.space import CATEGORY_STEPS, Block
from adumbra.declare.spelling import Value, blank, key, places
from adumbra.tables.matrix import Unnamed, as_frame
from adumbra.tables.numbers import Ranges

__all__ = ["Encoded", "Repairs", "check_columns", "decode", "decode_cells", "encode", "read_cells"]


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
    absent = [c.name for c in schema.measured if c.name not in present]
    if absent:
        raise InputError(
            "every released column of the schema in the table",
            f"no {some_of(absent)}",
            'correct the name, or write role = "drop" or delete it in the schema',
        )
    declared = {c.name for c in schema.columns}
    extra = [name for name in present if name not in declared]
    if extra:
        raise InputError(
            "every column of the table in the schema",
            f"{some_of(extra)} undeclared",
            'declare each under [columns."NAME"]; write role = "drop" to leave it out of the release',
        )
    for column in schema.measured if types is not None else ():
        _check_type(column, cast(Mapping[str, str], types)[column.name])


def _check_unnamed(schema: Schema, columns: Unnamed, types: Mapping[str, str] | None) -> None:
    if len(columns) != len(schema.measured):
        raise InputError(
            f"an array of {len(schema.measured)} columns, one for each released column of the schema, in order",
            f"{len(columns)} columns",
            "give the array of these columns, or a data frame, whose columns have names",
        )
    for column, name in zip(schema.measured if types is not None else (), columns, strict=False):
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
    quick: frozenset[int]
    """Places of numbers on a linear scale, without words of their own for an empty cell: one pass reads them all."""
    ranges: dict[tuple[int, ...], tuple[list[str], Ranges]] = field(default_factory=dict)

    @staticmethod
    def of(schema: Schema) -> _Layout:
        global _last
        layout = _last
        if layout is None or layout.schema is not schema:
            space = schema.space()
            columns = schema.measured
            names, every = [c.name for c in columns], tuple(range(len(columns)))
            quick = frozenset(i for i, c in enumerate(columns) if _quick(c, schema.table.blank))
            layout = _Layout(schema, columns, space.blocks, names, space.width, every, quick)
            _last = layout
        return layout

    def ranges_of(self, places: tuple[int, ...]) -> tuple[list[str], Ranges]:
        """Names and ranges of the number columns at these places."""
        if places not in self.ranges:
            columns = [self.columns[i] for i in places]
            self.ranges[places] = [column.name for column in columns], Ranges.of(columns)
        return self.ranges[places]


def _quick(column: Column, blank_words: tuple[Value, ...]) -> bool:
    blank_numbers = any(isinstance(key(word), float) for word in (*column.blank, *blank_words))
    return isinstance(column.cells, Number) and column.cells.linear and not blank_numbers


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
        if len(layout.quick) == len(every) and frame.dtype.kind in "fiu":
            return _numbers(frame, layout, every)
        frame = as_frame(frame, layout.names)
    if frame.columns != layout.names:
        declared = {c.name for c in schema.columns}
        check_columns(schema, [name for name in frame.columns if name in declared])
        frame = frame[layout.names]
    types = frame.dtypes
    for column, dtype in zip(layout.columns, types, strict=True):
        _check_type(column, _cell_type(dtype))
    plain = tuple(i for i in every if i in layout.quick and _plain_number(types[i]))
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
        part = values[:, block.start : block.stop]
        repairs[column.name] = _cells(series, column, schema.table.blank, block.fallback, part)
    return Encoded(values, repairs)


def _cells(
    series: pl.Series, column: Column, blank_words: tuple[Value, ...], fallback: int | None, out: NDArray[np.float64]
) -> Repairs:
    """Cells of one column, each by itself; what cannot be read goes to the `fallback`, or stays 0."""
    series = _without_blanks(series, column, blank_words)
    read = column.cells.read(series)
    out[:] = read.values
    if fallback is not None and read.lost.any():
        if column.cells.block == "category":
            out[read.lost, fallback] = CATEGORY_STEPS
        else:
            out[read.lost, 0] = fallback
    return Repairs(*_split(series, read.lost), read.clipped)


def _without_blanks(series: pl.Series, column: Column, blank_words: tuple[Value, ...]) -> pl.Series:
    """The cells, empty where one holds a declared word (or number) for that; a declared value stays a value."""
    declared = {key(value) for value in column.values}
    found = {key(word): str(word) for word in (*column.blank, *blank_words)}  # each once, however it is written
    words = tuple(word for meant, word in found.items() if meant not in declared)
    if not words or isinstance(series.dtype, pl.List | pl.Array):
        return series
    there = pl.Series(places(series, words) < 0)
    return series if there.all() else series.zip_with(there, pl.Series([None], dtype=series.dtype))


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
    for block, column in zip(space.blocks, schema.measured, strict=True):
        codes = column.cells.codes(array[:, block.start : block.stop])
        columns[column.name] = column.cells.write(codes)
    return pl.DataFrame(columns)


def decode_cells(values: NDArray[Any], schema: Schema) -> pl.DataFrame:
    """Turn one number a column into a table of the declared types.

    A number or flag is in grid steps, as in `decode`; a category is the position of its value; nan is an empty cell.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(schema.measured):
        raise InputError(
            f"rows of {len(schema.measured)} numbers", f"shape {array.shape}", "decode with its own schema"
        )
    parts = zip(array.T, schema.measured, strict=True)
    return pl.DataFrame({column.name: column.cells.write(part) for part, column in parts})


def read_cells(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The measured columns of a frame in the types that `decode_cells` gives, spelled and formatted as they may be.

    Cells are what `encode` makes of them (clipped, on their step, empty or at the fallback), but not put on the grid.

    >>> schema = Schema.parse('[columns.age]\\nkind = "number"\\nlow = 0\\nhigh = 100\\ndecimals = 1')
    >>> read_cells(pl.DataFrame({"age": ["0.30", "", "1e999"]}), schema)["age"].to_list()
    [0.3, None, 100.0]
    """
    found = {}
    for column in schema.measured:
        cells = column.cells.exact(_without_blanks(frame.get_column(column.name), column, schema.table.blank))
        if column.missing is not None and cells.null_count():
            fallback = column.cells.exact(pl.Series([column.missing]))
            cells = cells.zip_with(cells.is_not_null(), fallback)
        found[column.name] = cells
    return pl.DataFrame(found)


def _cell_type(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return "text"
    if isinstance(dtype, pl.List | pl.Array):
        return "list"
    return "time" if dtype.is_temporal() else "other"


def _check_type(column: Column, got: str) -> None:
    """Refuse a type without single cells; of the others, a cell that the column cannot read is an unknown one."""
    if got == "other" or (got == "list" and column.cells.block != "set"):
        raise InputError(
            f"column {column.name!r} with cells that kind = {column.kind} can read",
            f"cells of type {got}",
            'convert the column, or write role = "drop"',
        )


def _split(series: pl.Series, lost: NDArray[np.bool_]) -> tuple[int, int]:
    """How many of the cells that were lost hold nothing, and how many hold what the column cannot read."""
    if not lost.any():
        return 0, 0
    cells = series.filter(pl.Series(lost))
    missing = int(np.count_nonzero(blank(cells)))
    return missing, len(cells) - missing
