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

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.declare.spelling import spelled, texts
from adumbra.tables.matrix import plain_numbers
from adumbra.tables.table import (
    CellType,
    Native,
    Opener,
    Table,
    arrow_type,
    arrow_types,
    calendar_only,
    check_arrow,
    check_names,
    reading,
    sliced,
    within_the_day,
)

__all__ = ["ArrowTable", "ParquetTable", "give_back", "open_frame"]

_ROWS = 16384


def give_back(frame: pl.DataFrame, native: Native, schema: Schema | None = None) -> Any:
    """Hand a frame back in the library its table came from.

    `frame` has the rows, `native` says which library that is, `schema` declares its columns where it is a table of one.
    pandas has types for numbers and Booleans of which some are missing, beside those of numpy: whole numbers and
    Booleans come in them where the schema lets cells be empty, whether or not one is.

    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 99, "integer": True}}})
    >>> give_back(pl.DataFrame({"age": [3, 5]}), "pandas", schema).dtypes.to_dict()
    {'age': Int64Dtype()}
    """
    if native == "pandas":
        return _to_pandas(frame, {} if schema is None else {column.name: column for column in schema.released})
    return frame.to_arrow() if native == "pyarrow" else frame


def _to_pandas(frame: pl.DataFrame, declared: dict[str, Column]) -> Any:
    import pandas as pd  # not needed by those who have no frame of it

    columns = {}
    for cells in frame.get_columns():
        column = declared.get(cells.name)
        keeps = cells.null_count() > 0 if column is None else column.role != "id" and column.missing is None
        if cells.dtype.is_integer() and keeps:
            plain, gone = cells.fill_null(0).to_numpy(), cells.is_null().to_numpy()
            columns[cells.name] = pd.Series(pd.arrays.IntegerArray(plain.copy(), gone.copy()))
        elif cells.dtype == pl.Boolean and keeps:
            plain, gone = cells.fill_null(False).to_numpy(), cells.is_null().to_numpy()
            columns[cells.name] = pd.Series(pd.arrays.BooleanArray(plain.copy(), gone.copy()))
        elif cells.dtype == pl.Date:  # objects, to pandas, would have no methods for days
            columns[cells.name] = cells.cast(pl.Datetime("us")).to_pandas()
        else:
            columns[cells.name] = cells.to_pandas()
        if cells.dtype == pl.Enum and column is not None:
            ordered = columns[cells.name].cat.set_categories(list(column.values), ordered=column.kind == "ordinal")
            columns[cells.name] = ordered
    return pd.DataFrame(columns)


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
        with reading(name, "Parquet file"):
            schemas = [self._file(opener).schema_arrow for opener in openers]
            names = [schema.names for schema in schemas]  # a damaged name is no text
            types = [arrow_types(schema) for schema in schemas]
        self.columns = check_names(names[0], name)
        self._types = types[0]
        for position in range(1, len(schemas)):
            check_names(names[position], name)
            if types[position] != self._types:
                raise InputError(
                    "Parquet files with the same columns and types",
                    f"file {position + 1} (in order of name) differs from the first",
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

    def _records(self, columns: list[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        for opener in self._openers:
            with self._file(opener) as file:
                for batch in file.iter_batches(batch_size=rows, columns=columns):
                    batch = within_the_day(batch)
                    check_arrow(batch)
                    yield batch if columns is None else batch.select(columns)

    def _rows(self) -> int:
        # The footer knows the number, but only reading shows that every page is sound.
        with reading(self.name, "Parquet file"):
            return _proved(self._records(None, _ROWS), self._types)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        with reading(self.name, "Parquet file"):
            for batch in self._records(columns, rows):
                yield from sliced(batch, rows)


class ArrowTable(Table):
    """An Arrow (Feather) file, or a saved Arrow stream."""

    def __init__(self, opener: Opener, name: str) -> None:
        self.name = name
        self._opener = opener
        with reading(name, "Arrow file"):
            schema = self._reader().schema
            names, self._types = schema.names, arrow_types(schema)  # a damaged name is no text
        self.columns = check_names(names, name)

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
        reader = self._reader()
        if isinstance(reader, pa.RecordBatchFileReader):
            batches = (reader.get_batch(position) for position in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in map(within_the_day, batches):
            check_arrow(batch)
            yield batch

    def _rows(self) -> int:
        with reading(self.name, "Arrow file"):
            return _proved(self._records(), self._types)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        with reading(self.name, "Arrow file"):
            for batch in self._records():
                yield from sliced(batch.select(columns), rows)


class _FrameTable(Table):
    def __init__(self, frame: Any, native: Native) -> None:
        self._frame, self.native = frame, native
        self.columns = check_names(list(nw.from_native(frame, eager_only=True).columns), "the frame")

    @cached_property
    def types(self) -> dict[str, CellType]:
        """Cell type of each column; what pandas and polars keep as objects is text, whatever a cell of it holds.

        So is what one odd cell would make objects of (dates, periods, sparse columns, ...): a private cell must not
        decide what is refused.
        """
        if self.native == "pyarrow":
            return arrow_types(self._frame.schema)
        if self.native == "polars":
            return {name: _polars_type(dtype) for name, dtype in self._frame.schema.items()}
        return {name: _pandas_type(dtype) for name, dtype in self._frame.dtypes.items()}

    @property
    def categories(self) -> dict[str, tuple[tuple[str, ...], bool]]:
        """Categories of pandas and enumerations of polars."""
        if self.native == "polars":
            enums = {name: kind for name, kind in self._frame.schema.items() if kind == pl.Enum}
            return {name: (tuple(kind.categories), False) for name, kind in enums.items()}
        if self.native != "pandas":
            return {}
        listed = {name: kind for name, kind in self._frame.dtypes.items() if hasattr(kind, "categories")}
        return {name: (tuple(map(spelled, kind.categories)), bool(kind.ordered)) for name, kind in listed.items()}

    def _rows(self) -> int:
        for _ in self._batches(self._unproved(), _ROWS):
            pass
        return len(self._frame)

    def _unproved(self) -> list[str]:
        """Columns whose cells might not become a frame: polars keeps its own sound, and so are numbers of numpy."""
        if self.native == "polars":
            return []
        plain = [name for name, kind in self.types.items() if kind != "other"]
        return plain if self.native == "pyarrow" else [n for n in plain if not _is_numpy_number(self._frame.dtypes[n])]

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        with reading("the frame", "frame"):
            for start in range(0, len(self._frame), rows) if columns else ():
                if self.native == "polars":
                    # select() would take the name "*" for a pattern
                    yield _without_objects(calendar_only(self._frame[columns].slice(start, rows)))
                elif self.native == "pyarrow":
                    part = within_the_day(self._frame.select(columns).slice(start, rows))
                    check_arrow(part)
                    yield from sliced(part, rows)
                else:
                    # rows first: taking the columns copies them
                    yield _from_pandas(self._frame.iloc[start : start + rows][columns])

    def blocks(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame | NDArray[Any]]:
        """Arrays where a pandas frame keeps plain numbers, else frames."""
        names = list(columns)
        if self.native != "pandas" or not all(name in self.types for name in names):
            return self.batches(names, rows)
        if not all(_is_numpy_number(kind) for kind in self._frame.dtypes[names]):
            return self.batches(names, rows)
        self.count()
        return (
            self._frame.iloc[start : start + rows][names].to_numpy(np.float64)
            for start in range(0, len(self._frame), rows)
        )


def _without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of anything become text, cell by cell."""
    for name, dtype in frame.schema.items():
        if dtype == pl.Object:
            cells = [None if cell is None else spelled(cell) for cell in frame.get_column(name).to_list()]
            frame = frame.with_columns(pl.Series(name, cells, dtype=pl.String))
    return frame


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Convert a slice so that each cell's result depends on that cell alone.

    But for plain numbers, Booleans and Arrow's text and times, a column may hold anything, or would if one cell of it
    were another; letting a converter infer its type would make one cell's reading depend on its neighbours, so those
    cells become text one by one.
    """
    columns: dict[str, pl.Series] = {}
    for name in frame.columns:
        column: Any = frame[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            columns[name] = pl.Series(name, plain_numbers(column.to_numpy()), nan_to_null=True)
        elif _is_arrow(column.dtype):
            part = within_the_day(pa.table({name: column.array.__arrow_array__()}))
            check_arrow(part)
            columns[name] = pl.concat(sliced(part, _ROWS)).to_series()
        elif _is_masked(column.dtype):
            columns[name] = cast(pl.Series, pl.from_pandas(column.reset_index(drop=True)))
        elif getattr(column.dtype, "kind", "") in "mM" and not hasattr(column.dtype, "pyarrow_dtype"):
            columns[name] = _times(column)
        else:
            if hasattr(column.dtype, "pyarrow_dtype"):
                check_arrow(column.array.__arrow_array__())
            pairs = zip(_cells(column), column.isna(), strict=True)
            cells = [None if missing or cell is None else spelled(cell) for cell, missing in pairs]
            columns[name] = pl.Series(name, cells, dtype=pl.String)
    return pl.DataFrame(columns)


def _times(column: Any) -> pl.Series:
    """Moments or durations of pandas as text, as `spelled` would have each: objects, if one cell were a word."""
    if column.dtype.kind == "m":
        return texts(_ticks(column.to_numpy()))
    zone = getattr(column.dtype, "tz", None)
    there = column if zone is None else column.dt.tz_localize(None)
    text = calendar_only(_ticks(there.to_numpy()).to_frame("x"))["x"].dt.to_string("%Y-%m-%d %H:%M:%S%.f")
    if zone is None:
        return text
    away = (there - column.dt.tz_convert("UTC").dt.tz_localize(None)).dt.total_seconds().to_numpy()
    each = {second: _offset(int(second)) for second in np.unique(away[~np.isnan(away)])}
    return text + pl.Series([each.get(second) for second in away], dtype=pl.String)


def _ticks(array: NDArray[Any]) -> pl.Series:
    """Native times in a unit that polars has."""
    return pl.Series(array.astype(f"{array.dtype.str[:3]}[ms]") if array.dtype.str.endswith("[s]") else array)


def _offset(seconds: int) -> str:
    """How far a clock is ahead of UTC, as its moments write it."""
    away = abs(seconds)
    tail = f":{away % 60:02}" if away % 60 else ""
    return f"{'-' if seconds < 0 else '+'}{away // 3600:02}:{away // 60 % 60:02}{tail}"


def _cells(column: Any) -> list[Any]:
    try:
        return list(column)
    except (OverflowError, ValueError):  # a time of an Arrow column outside Python's calendar: that one is missing
        return [_cell(column, place) for place in range(len(column))]


def _cell(column: Any, place: int) -> Any:
    try:
        return column.iloc[place]
    except (OverflowError, ValueError):
        return None


def _is_numpy_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiu"


def _is_masked(dtype: Any) -> bool:
    """Whether it is a type of pandas for numbers or Booleans with a mask for missing cells."""
    return hasattr(dtype, "numpy_dtype") and type(dtype).__module__.split(".")[0] == "pandas" and dtype.kind in "fiub"


def _is_arrow(dtype: Any) -> bool:
    """Whether pandas keeps plain numbers, Booleans, text or times of day as Arrow does."""
    if hasattr(dtype, "pyarrow_dtype"):
        kind = dtype.pyarrow_dtype
        return arrow_type(kind) in ("number", "boolean", "text") or bool(pa.types.is_time(kind))
    return getattr(dtype, "storage", None) == "pyarrow"


def _pandas_type(dtype: Any) -> CellType:
    """Text for all but plain numbers and Booleans: which other type pandas gives to a column, one cell may decide."""
    if hasattr(dtype, "pyarrow_dtype"):
        return arrow_type(dtype.pyarrow_dtype) if _is_arrow(dtype) else "text"
    if not (isinstance(dtype, np.dtype) or _is_masked(dtype)) or dtype.kind not in "fiub":
        return "text"
    return "boolean" if dtype.kind == "b" else "number"


def _polars_type(dtype: pl.DataType) -> CellType:
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Object):
        return "text"
    if isinstance(dtype, pl.List | pl.Array):
        return "list" if _polars_type(dtype.inner) in ("text", "number") else "other"  # type: ignore[arg-type]  # never a class
    return "time" if dtype in (pl.Date, pl.Datetime, pl.Time, pl.Duration) else "other"


def _proved(records: Iterator[pa.RecordBatch], types: dict[str, CellType]) -> int:
    """Number of rows, after every batch was turned into frames as it will be later."""
    total = 0
    plain = [name for name, kind in types.items() if kind != "other"]
    for batch in records:
        total += batch.num_rows
        for _ in sliced(batch.select(plain), _ROWS):
            pass
    return total
