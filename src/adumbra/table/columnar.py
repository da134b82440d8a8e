"""Tables whose columns have types of their own: Parquet and Arrow files, and frames in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.spelling import spelled
from adumbra.table.table import CellType, Native, Opener, Table, check_names, reading, sliced

__all__ = ["ArrowTable", "ParquetTable", "give_back", "open_frame"]

_CONTAINERS = (list, tuple, dict, set, frozenset, bytes, bytearray, memoryview)


def give_back(frame: pl.DataFrame, native: Native) -> Any:
    """Hand a frame back in the library its table came from."""
    if native == "pandas":
        return frame.to_pandas()
    return frame.to_arrow() if native == "pyarrow" else frame


def open_frame(source: Any) -> Table:
    """A frame of any library that narwhals reads, as a table."""
    if not isinstance(source, pl.LazyFrame):  # before narwhals raises errors of its own
        names = source.column_names if isinstance(source, pa.Table) else getattr(source, "columns", None)
        if names is not None:
            check_names(list(names), "the frame")
    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        raise InputError(
            "a path or a data frame (pandas, polars, pyarrow, or another that narwhals reads)",
            f"a {type(source).__name__}",
            "give one of these",
        ) from None
    if isinstance(frame, nw.LazyFrame):
        # Collected once: a lazy frame may answer differently each time it is asked.
        return _FrameTable(frame.collect(backend="polars").to_native(), "polars")
    native = frame.implementation.name.lower()
    if native not in ("polars", "pandas", "pyarrow"):
        return _FrameTable(frame.to_arrow(), "pyarrow")
    return _FrameTable(frame.to_native(), cast(Native, native))


class ParquetTable(Table):
    """One or more Parquet files with the same columns and types, one after the other."""

    def __init__(self, openers: Sequence[Opener], name: str) -> None:
        self.name = name
        self._openers = openers
        with reading(name, "Parquet"):
            schemas = [self._file(opener).schema_arrow for opener in openers]
        self.columns = check_names(schemas[0].names, name)
        self._types = _arrow_types(schemas[0])
        for position, schema in enumerate(schemas[1:], start=2):
            check_names(schema.names, name)
            if _arrow_types(schema) != self._types:
                raise InputError(
                    "Parquet files with the same columns and types",
                    f"file {position} (in order of name) differs from the first",
                    "narrow the pattern, or write the files alike",
                )

    @staticmethod
    def _file(opener: Opener) -> pq.ParquetFile:
        # not fetched ahead: what was fetched of every row group would stay in memory until the file is closed
        return pq.ParquetFile(opener(), pre_buffer=False, buffer_size=1 << 16)

    @property
    def types(self) -> dict[str, CellType]:
        """Cell type of each column, from the file's own schema."""
        return dict(self._types)

    def _rows(self) -> int:
        # The footer knows the number, but only reading shows that every page is sound.
        return sum(batch.num_rows for batch in self._records(None, 16384))

    def _records(self, columns: list[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        for opener in self._openers:
            with reading(self.name, "Parquet"), self._file(opener) as file:
                for batch in file.iter_batches(batch_size=rows, columns=columns):
                    yield batch if columns is None else batch.select(columns)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for batch in self._records(columns, rows):
            yield from sliced(batch, rows)


class ArrowTable(Table):
    """An Arrow (Feather) file, or a saved Arrow stream."""

    def __init__(self, opener: Opener, name: str) -> None:
        self.name = name
        self._opener = opener
        with reading(name, "Arrow"):
            schema = self._reader().schema
        self.columns = check_names(schema.names, name)
        self._types = _arrow_types(schema)

    def _reader(self) -> Any:
        try:
            return pa.ipc.open_file(self._opener())
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(self._opener())

    @property
    def types(self) -> dict[str, CellType]:
        """Cell type of each column, from the file's own schema."""
        return dict(self._types)

    def _records(self) -> Iterator[pa.RecordBatch]:
        with reading(self.name, "Arrow"):
            reader = self._reader()
            if isinstance(reader, pa.RecordBatchFileReader):
                for position in range(reader.num_record_batches):
                    yield reader.get_batch(position)
            else:
                yield from reader

    def _rows(self) -> int:
        return sum(batch.num_rows for batch in self._records())

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for batch in self._records():
            yield from sliced(batch.select(columns), rows)


class _FrameTable(Table):
    def __init__(self, frame: Any, native: Native) -> None:
        self._frame, self.native = frame, native
        self.columns = check_names(list(nw.from_native(frame, eager_only=True).columns), "the frame")

    @cached_property
    def types(self) -> dict[str, CellType]:
        """Cell type of each column; a pandas object column is text unless a cell of it is a container.

        Dates and durations of pandas are text: one cell that is none makes objects of all, and must not decide what is
        refused.
        """
        if self.native == "pyarrow":
            return _arrow_types(self._frame.schema)
        types = _cell_types(self._frame.head(0))
        if self.native == "polars":
            return types | {name: "text" for name, dtype in self._frame.schema.items() if dtype == pl.Null}
        for name in self.columns:
            column = self._frame[name]
            if str(column.dtype).startswith(("datetime64", "timedelta64")):
                types[name] = "text"
            if column.dtype == object:
                types[name] = "other" if any(isinstance(cell, _CONTAINERS) for cell in column) else "text"
        return types

    def _rows(self) -> int:
        return len(self._frame)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for start in range(0, len(self._frame), rows):
            if self.native == "polars":
                yield self._frame[columns].slice(start, rows)  # select() would take the name "*" for a pattern
            elif self.native == "pyarrow":
                yield from sliced(self._frame.select(columns).slice(start, rows), rows)
            else:
                # rows first: taking the columns copies them
                yield _from_pandas(self._frame.iloc[start : start + rows][columns])

    def blocks(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame | NDArray[Any]]:
        """Arrays where a pandas frame keeps plain numbers, else frames."""
        names = list(columns)
        if self.native != "pandas" or not all(name in self.types for name in names):
            return self.batches(names, rows)
        if not all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in self._frame.dtypes[names]):
            return self.batches(names, rows)
        self.count()
        return (
            self._frame.iloc[start : start + rows][names].to_numpy(np.float64)
            for start in range(0, len(self._frame), rows)
        )


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Convert a slice so that each cell's result depends on that cell alone.

    An object or category column may hold anything; letting a converter infer its type would make one cell's
    reading depend on its neighbours, so those cells become text one by one.
    """
    columns: dict[str, pl.Series] = {}
    for name in frame.columns:
        column: Any = frame[name]
        # dates too: pandas keeps them as objects once one cell of the column is something else
        if column.dtype == object or str(column.dtype) == "category" or getattr(column.dtype, "kind", "") in "mM":
            cells = [None if missing else spelled(cell) for cell, missing in zip(column, column.isna(), strict=True)]
            columns[name] = pl.Series(name, cells, dtype=pl.String)
        else:
            columns[name] = cast(pl.Series, pl.from_pandas(column.reset_index(drop=True)))
    return pl.DataFrame(columns)


def _cell_types(empty: Any) -> dict[str, CellType]:
    frame = nw.from_native(empty, eager_only=True)
    return {name: _cell_type(dtype) for name, dtype in frame.schema.items()}


def _cell_type(dtype: Any) -> CellType:
    if dtype.is_numeric():
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if isinstance(dtype, nw.String | nw.Categorical | nw.Enum):
        return "text"
    if dtype == nw.Date or dtype == nw.Datetime or dtype == nw.Time:
        return "time"
    return "other"


def _arrow_types(schema: pa.Schema) -> dict[str, CellType]:
    types = _cell_types(schema.empty_table())
    for entry in schema:
        if pa.types.is_null(entry.type):  # nothing but missing cells
            types[entry.name] = "text"
        elif pa.types.is_dictionary(entry.type) and not _is_text(entry.type.value_type):
            types[entry.name] = "other"
    return types


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
