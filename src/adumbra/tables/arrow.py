"""Arrow data becomes frames here: which types have single cells, what is sound, and how it is handed over.

Files, streams and tables in memory can all hold Arrow data that breaks the format's own rules (offsets that point
outside, bytes that are no text, codes without a word). The library that turns them into frames trusts what it is given:
it would read foreign memory, or end the process. So nothing is handed over that was not checked to the last value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from adumbra.tables.table import CellType

__all__ = ["arrow_type", "arrow_types", "calendar_only", "check_arrow", "sliced", "within_the_day"]

Batch = TypeVar("Batch", pa.RecordBatch, pa.Table)

# 0001-01-01 to 9999-12-31, the years that every library here can write: days, then seconds, since 1970
_DAYS = (-719162, 2932896)
_SECONDS = (_DAYS[0] * 86400, (_DAYS[1] + 1) * 86400 - 1)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def arrow_types(schema: pa.Schema) -> dict[str, CellType]:
    """Cell type of each column."""
    return {entry.name: arrow_type(entry.type) for entry in schema}


def arrow_type(kind: pa.DataType) -> CellType:
    """What cells of this type are. What is not named here (lists, unions, intervals, ...) has no single plain cells."""
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return "number"
    if is_.is_boolean(kind):
        return "boolean"
    if _is_text(kind) or is_.is_null(kind) or (is_.is_dictionary(kind) and _is_text(kind.value_type)):
        return "text"
    if is_.is_date32(kind) or is_.is_time(kind):
        return "time"
    if is_.is_timestamp(kind) and (kind.tz is None or _is_known_zone(kind)):
        return "time"
    return "other"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_known_zone(kind: pa.DataType) -> bool:
    try:
        pl.from_arrow(pa.array([], kind))
    except pl.exceptions.PolarsError:
        return False
    return True


def check_arrow(batch: pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray) -> None:
    """Raise `pa.ArrowInvalid` unless every column keeps the rules of its type to the last value, dictionaries too."""
    batch.validate(full=True)


def within_the_day(batch: Batch) -> Batch:
    """The batch with times outside the day (24:00:00) missing: one such cell must not make the table a damaged one."""
    for place, kind in enumerate(batch.schema.types):
        if not pa.types.is_time(kind):
            continue
        column = batch.column(place)
        column.validate()  # as many cells as it says, before they are looked at
        ticks = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
        inside = pc.and_(pc.greater_equal(ticks, 0), pc.less(ticks, 86400 * _TICKS[kind.unit]))
        if pc.all(inside).as_py() is False:
            column = pc.if_else(inside, column, pa.scalar(None, kind))
            batch = batch.set_column(place, batch.schema.field(place), column)
    return batch


def sliced(batch: pa.RecordBatch | pa.Table, rows: int) -> Iterator[pl.DataFrame]:
    """The batch as frames of at most `rows` rows. Precondition: `check_arrow`; only columns of plain cells."""
    # Only the cells are handed over. What a file writes beside them (metadata) could change their types, and a name
    # may hold a null byte, which would cut it short on the way.
    # Decimals go by their text: of how many digits a column of them is depends on all its cells, and not every number
    # of digits can be handed over.
    columns = [column.cast(pa.string()) if pa.types.is_decimal(column.type) else column for column in batch.columns]
    plain = type(batch).from_arrays(columns, names=[str(place) for place in range(batch.num_columns)])
    for start in range(0, batch.num_rows, rows):
        frame = cast(pl.DataFrame, pl.from_arrow(plain.slice(start, rows)))
        frame.columns = batch.schema.names
        yield calendar_only(frame)


def calendar_only(frame: pl.DataFrame) -> pl.DataFrame:
    """Days and times outside the years 1 to 9999 become missing: writing such a one ends the process."""
    for name, kind in frame.schema.items():
        if kind == pl.Date:
            low, high = _DAYS
        elif isinstance(kind, pl.Datetime) and kind.time_unit != "ns":  # nanoseconds do not reach that far
            ticks = _TICKS[str(kind.time_unit)]
            low, high = _SECONDS[0] * ticks, _SECONDS[1] * ticks + ticks - 1
        else:
            continue
        column = frame.get_column(name)
        inside = column.to_physical().is_between(low, high).fill_null(True)
        if not inside.all():
            nothing = pl.Series(name, [None] * len(column), dtype=kind)
            frame = frame.with_columns(column.zip_with(inside, nothing))
    return frame
