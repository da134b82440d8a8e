"""What every table can do, whatever it is read from, and what the readers share.

A table can be read any number of times and is never held whole by the reader (a frame that is already in
memory stays there). `Table.count()` reads everything once. Whatever is wrong with the shape of a file is found
there, before any budget is spent. No message carries the content of a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeVar, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from adumbra.common.errors import InputError, is_panic

__all__ = [
    "CellType",
    "Native",
    "Opener",
    "Table",
    "arrow_type",
    "arrow_types",
    "calendar_only",
    "check_arrow",
    "check_names",
    "empty_file",
    "reading",
    "sliced",
    "within_the_day",
]


Native = Literal["polars", "pandas", "pyarrow"]
CellType = Literal["text", "number", "boolean", "time", "list", "other"]
Opener = Callable[[], Any]


class Table(ABC):
    """A private table that can be read again and again.

    `columns` are its column names, `types` what kind of cell each holds, `name` the file's stem or "table",
    `native` the library that frames should come back in. Text files hold nothing but text.
    """

    columns: tuple[str, ...]
    name: str = "table"
    native: Native = "polars"
    origin: tuple[str, str | None] | None = None
    """Where it can be opened again, and with which delimiter: a file or a pattern; None for all else."""

    @property
    @abstractmethod
    def types(self) -> dict[str, CellType]:
        """Cell type of each column: known from the file's own schema or the frame's types."""

    @property
    def categories(self) -> dict[str, tuple[tuple[str, ...], bool]]:
        """Columns whose own type lists their values: those, in order, and whether the order says which is more."""
        return {}

    @abstractmethod
    def _rows(self) -> int: ...

    @abstractmethod
    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]: ...

    @cached_property
    def _counted(self) -> int:
        total = self._rows()
        if total == 0:
            raise InputError("a table with rows", f"{self.name} has columns but no rows", "give a table with data")
        return total

    def count(self) -> int:
        """Number of rows, after reading everything once; every structural error is raised here."""
        return self._counted

    def batches(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame]:
        """Those columns, in that order, at most `rows` rows at a time. Each call starts from the top."""
        types = self.types
        for name in columns:
            if name not in types:
                raise InputError(f"a column of {self.name}", repr(name), "check the spelling in the schema")
            if types[name] == "other":
                raise InputError(
                    f"column {name!r} with plain cells (text, numbers, true and false)",
                    "lists, records, raw bytes or another type without single values",
                    'write role = "drop" for it in the schema, or convert it',
                )
        self.count()
        return self._unchanged(list(columns), rows)

    def _unchanged(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        try:
            yield from self._batches(columns, rows)
        except InputError:  # it was sound when it was counted
            raise InputError(
                f"{self.name} as it was when its rows were counted",
                "something that no longer reads",
                "the table changed while it was read; keep it still and start again",
            ) from None

    def blocks(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame | NDArray[Any]]:
        """The same for encoding: frames, or arrays of those columns where a table holds its numbers in arrays."""
        return self.batches(columns, rows)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private table is neither copied nor pickled, nor is a plan, which holds it")

    def __repr__(self) -> str:
        return f"<Table {self.name!r}, {len(self.columns)} columns>"


def check_names(names: Sequence[object], name: str) -> tuple[str, ...]:
    """The column names of the table `name`, if there are any and each is text, not empty and there once."""
    for position, column in enumerate(names, start=1):
        if not isinstance(column, str):
            raise InputError("column names as text", f"column {position} has another type", "rename the columns")
        if not column:
            raise InputError("a name for every column", f"column {position} of {name} has none", "name it")
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError("each column name once", f"{twice[0]!r} twice in {name}", "rename one of them")
    if not names:
        raise InputError("a table with columns", f"{name} has none", "give a table with data")
    return cast(tuple[str, ...], tuple(names))


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Turn the error of a reader of `what`, whose text may quote cells, into ours, which does not."""
    damaged = InputError(f"a readable {what}", f"{name} is damaged or cut short", "write it again")
    try:
        yield
    except MemoryError:
        raise InputError(
            f"{what} whose parts fit into memory",
            f"a part of {name} that does not, or a damaged length",
            "write it again in smaller parts (batches, row groups)",
        ) from None
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, EOFError):
        raise damaged from None
    except BaseException as error:
        if is_panic(error):
            raise damaged from None
        raise


def empty_file(name: str) -> InputError:
    """The error for a file or stream without a byte."""
    return InputError("a table with a header and rows", f"{name} is empty", "give a file with data")


# Arrow data becomes frames here: which types have single cells, what is sound, and how it is handed over.
#
# Files, streams and tables in memory can all hold Arrow data that breaks the format's own rules (offsets that point
# outside, bytes that are no text, codes without a word). The library that turns them into frames trusts what it is
# given: it would read foreign memory, or end the process. So nothing is handed over that was not checked to the last
# value.

Batch = TypeVar("Batch", pa.RecordBatch, pa.Table)

# 0001-01-01 to 9999-12-31, the years that every library here can write: days, then seconds, since 1970
_DAYS = (-719162, 2932896)
_SECONDS = (_DAYS[0] * 86400, (_DAYS[1] + 1) * 86400 - 1)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def arrow_types(schema: pa.Schema) -> dict[str, CellType]:
    """Cell type of each column."""
    return {entry.name: arrow_type(entry.type) for entry in schema}


def arrow_type(kind: pa.DataType) -> CellType:
    """What cells of this type are. What is not named here (unions, intervals, ...) has no single plain cells.

    Lists of text or numbers are what a set may come as.
    """
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return "number"
    if is_.is_boolean(kind):
        return "boolean"
    if _is_text(kind) or is_.is_null(kind) or (is_.is_dictionary(kind) and _is_text(kind.value_type)):
        return "text"
    if _is_coded(kind):
        return arrow_type(kind.value_type)
    if is_.is_date(kind) or is_.is_time(kind) or is_.is_duration(kind):
        return "time"
    if is_.is_timestamp(kind) and (kind.tz is None or _is_known_zone(kind)):
        return "time"
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return "list" if arrow_type(kind.value_type) in ("text", "number") else "other"
    return "other"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_coded(kind: pa.DataType) -> bool:
    """Whether numbers or Booleans stand once in a dictionary, as pandas writes categories of them."""
    plain = pa.types.is_dictionary(kind) and not pa.types.is_dictionary(kind.value_type)
    return plain and arrow_type(kind.value_type) in ("number", "boolean")


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
    columns = [column.cast(column.type.value_type) if _is_coded(column.type) else column for column in batch.columns]
    columns = [column.cast(pa.string()) if pa.types.is_decimal(column.type) else column for column in columns]
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
