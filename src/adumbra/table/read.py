"""Tables in: files, streams and frames, read in batches.

A table can be read any number of times and is never held whole by the reader (a frame that is already in
memory stays there). Types are never guessed from the cells of a text file: every cell arrives as text and the
schema says what it means. So one row's reading cannot depend on another row.

`Table.count()` reads everything once. Whatever is wrong with the shape of a file is found there, before any
budget is spent. No message carries the content of a cell.
"""

from __future__ import annotations

import csv
import io
import mmap
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, cast

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from adumbra.core.errors import InputError

__all__ = ["CellType", "Native", "Table", "give_back", "open_table"]

Native = Literal["polars", "pandas", "pyarrow"]
CellType = Literal["text", "number", "boolean", "time", "other"]

_BLOCK = 2**20  # the reader holds about twenty blocks; larger ones cost memory and gain no time
_LARGEST_BLOCK = 512 * 2**20
_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_FORMATS = "CSV, TSV, Parquet or Arrow (.csv .tsv .csv.gz .csv.zst .parquet .arrow .feather)"
_MAGIC = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"\x1f\x8b": ".csv.gz", b"\x28\xb5\x2f\xfd": ".csv.zst"}

_Opener = Callable[[], Any]


class Table(ABC):
    """A private table that can be read again and again.

    `columns` are its column names, `types` what kind of cell each holds, `name` the file's stem or "table",
    `native` the library that frames should come back in. Text files hold nothing but text.
    """

    columns: tuple[str, ...]
    name: str = "table"
    native: Native = "polars"

    @property
    @abstractmethod
    def types(self) -> dict[str, CellType]:
        """Cell type of each column: known from the file's own schema or the frame's types."""

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
        return self._batches(list(columns), rows)

    def __repr__(self) -> str:
        return f"<Table {self.name!r}, {len(self.columns)} columns>"


def open_table(source: Any, *, delimiter: str | None = None) -> Table:
    """Open a path, "-" (standard input), a glob of Parquet files, or any frame narwhals reads.

    `delimiter` separates the cells of a text file: one character, or "tab". Nothing but the head of a file is
    read here; `Table.count` reads it all.

    >>> import polars as pl
    >>> open_table(pl.DataFrame({"age": [34, 51]})).count()
    2
    """
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError("a delimiter of one character", repr(delimiter), "write --delimiter ';' (or tab), say")
    if not isinstance(source, str | Path):
        return _open_frame(source)
    path = Path(source)
    if str(source) == "-":
        return _open_spooled(sys.stdin.buffer, delimiter)
    if any(mark in str(source) for mark in "*?[") and not path.exists():
        return _open_glob(path)
    _check_readable(path)
    if not path.is_file():  # a pipe such as /dev/fd/63 can be read only once
        with path.open("rb") as pipe:
            return _open_spooled(pipe, delimiter)
    return _open_file(partial(pa.OSFile, str(path)), path.name, delimiter)


def give_back(frame: pl.DataFrame, native: Native) -> Any:
    """Hand a frame back in the library its table came from."""
    if native == "pandas":
        return frame.to_pandas()
    return frame.to_arrow() if native == "pyarrow" else frame


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise InputError(
            "a table file", f"{path} is a directory", f'give a file, or a pattern such as "{path}/*.parquet"'
        )
    try:
        size = path.stat().st_size
        if path.is_file():
            path.open("rb").close()
    except FileNotFoundError:
        raise InputError("a table file", f"no file {path}", "check the path") from None
    except OSError as error:
        raise InputError("a file that can be read", f"{path}: {error.strerror}", "check its permissions") from None
    if path.is_file() and size == 0:
        raise _empty(path.name)


def _empty(name: str) -> InputError:
    return InputError("a table with a header and rows", f"{name} is empty", "give a file with data")


def _open_spooled(stream: Any, delimiter: str | None) -> Table:
    """Copy a stream once to an unlinked temporary file, so that it can be read again."""
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(stream, spool, _BLOCK)
        spool.flush()
        if spool.tell() == 0:
            raise _empty("the input")
        view = mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ)
    suffix = next((s for magic, s in _MAGIC.items() if view[: len(magic)] == magic), ".csv")
    return _open_file(lambda: pa.BufferReader(pa.py_buffer(view)), "table" + suffix, delimiter)


def _open_file(opener: _Opener, filename: str, delimiter: str | None) -> Table:
    *front, last = [s.lower() for s in Path(filename).suffixes] or [""]
    packing = _PACKED.get(last)
    kind = last if packing is None else (front[-1] if front else "")
    name = filename.split(".")[0] or "table"
    if kind in _TEXT or delimiter is not None:
        return _TextTable(opener, name, packing, delimiter or _TEXT[kind], guessed=delimiter is None)
    if packing is None and kind in _PARQUET:
        return _ParquetTable([opener], name)
    if packing is None and kind in _ARROW:
        return _ArrowTable(opener, name)
    got = f"{filename}: compressed {kind}" if packing and kind in _PARQUET + _ARROW else f"{filename}"
    raise InputError(
        f"a table as {_FORMATS}", got, "convert or rename it; for other text files give --delimiter as well"
    )


def _open_glob(pattern: Path) -> Table:
    base = Path(pattern.anchor)
    found = sorted(base.glob(str(pattern.relative_to(base))))
    if not found:
        raise InputError("files that match the pattern", f"none match {pattern}", "check the pattern")
    for path in found:
        _check_readable(path)
        if path.suffix.lower() not in _PARQUET:
            raise InputError("Parquet files only in a pattern", path.name, "end the pattern in .parquet")
    return _ParquetTable([partial(pa.OSFile, str(path)) for path in found], "table")


def _check_names(names: Sequence[object], name: str) -> tuple[str, ...]:
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
def _reading(name: str, what: str) -> Iterator[None]:
    """Turn a reader's error, whose text may quote cells, into ours, which does not."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError):
        raise InputError(f"a readable {what} file", f"{name} is damaged or cut short", "write it again") from None


class _Ended(io.RawIOBase):
    """A text stream followed by one row of empty cells, which a quote left open would swallow."""

    def __init__(self, stream: Any, width: int, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._mark = b'\n""' + delimiter.encode() * (width - 1) + b"\n"
        self._last = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = cast(bytes, self._stream.read(size))
        while len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                if (data[-1:] or self._last) == b"\n" and self._mark[:1] == b"\n":
                    self._mark = self._mark[1:]  # the last line is closed: no blank one before the mark
                left = size - len(data)
                data, self._mark = data + self._mark[:left], self._mark[left:]
                break
            data += more
        self._last = data[-1:] or self._last
        return data


class _TextTable(Table):
    def __init__(self, opener: _Opener, name: str, packing: str | None, delimiter: str, *, guessed: bool) -> None:
        self.name = name
        self._opener, self._packing, self._delimiter = opener, packing, delimiter
        self._block = _BLOCK
        self.columns = self._header(guessed)

    @property
    def types(self) -> dict[str, CellType]:
        return dict.fromkeys(self.columns, "text")

    def _stream(self) -> Any:
        raw = self._opener()
        return raw if self._packing is None else pa.CompressedInputStream(raw, self._packing)

    def _header(self, guessed: bool) -> tuple[str, ...]:
        with self._translated(), self._stream() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
            header = next(csv.reader(text, delimiter=self._delimiter, strict=True), None)
        if header is None:
            raise _empty(self.name)
        if any("\0" in column for column in header):
            raise self._not_utf8()
        if not any(column.strip() for column in header):
            raise InputError("column names in the first line", "a blank line", "delete the lines above the header")
        other = next((mark for mark in ",;\t|" if mark in header[0]), None)
        if guessed and len(header) == 1 and other is not None:
            word = "tab" if other == "\t" else f"'{other}'"
            raise InputError(
                f"cells separated by {'tab' if self._delimiter == chr(9) else repr(self._delimiter)}",
                f"a header without it but with {word}",
                f"pass --delimiter {word} (in Python: delimiter={other!r}), or the present one to insist",
            )
        return _check_names([column.strip() for column in header], self.name)

    def _not_utf8(self) -> InputError:
        return InputError("text in UTF-8", f"other bytes in {self.name}", "convert the file to UTF-8")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with _reading(self.name, "text" if self._packing is None else f"{self._packing} text"):
                try:
                    yield
                except UnicodeDecodeError:
                    raise self._not_utf8() from None
                except pa.ArrowInvalid as error:
                    if "invalid UTF8" in str(error):
                        raise self._not_utf8() from None
                    raise
        except csv.Error:
            raise InputError(
                "a header line of quoted or plain names", "one that does not parse", "check its quotes"
            ) from None

    def _records(self, columns: Sequence[str], stream: Any) -> Iterator[pa.RecordBatch]:
        ragged: list[pacsv.InvalidRow] = []

        def note(row: pacsv.InvalidRow) -> str:
            ragged.append(row)
            return "error"

        try:
            yield from pacsv.open_csv(
                stream,
                pacsv.ReadOptions(
                    use_threads=False,  # the reader then knows the number of a bad row
                    block_size=self._block,
                    column_names=list(self.columns),
                    skip_rows_after_names=1,
                ),
                pacsv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=True,
                    # in a table of one column a blank line is a row whose only cell is empty
                    ignore_empty_lines=len(self.columns) > 1,
                    invalid_row_handler=note,
                ),
                pacsv.ConvertOptions(
                    column_types=dict.fromkeys(self.columns, pa.string()),
                    include_columns=list(columns),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            if not ragged:
                raise
            row = ragged[0]
            raise InputError(
                f"{row.expected_columns} cells in every row",
                f"{row.actual_columns} in row {row.number} of {self.name} (the header is row 1)",
                "correct that row: look for a stray delimiter or quote, or for a missing cell",
            ) from None

    def _rows(self) -> int:
        while True:
            try:
                return self._one_count()
            except pa.ArrowInvalid:  # a row longer than the block
                self._block *= 4
                if self._block > _LARGEST_BLOCK:
                    raise self._open_quote() from None

    def _open_quote(self) -> InputError:
        return InputError(
            "every quoted cell closed",
            f"a quote in {self.name} that is never closed, or a row of over {_LARGEST_BLOCK >> 20} MB",
            "close it, or double a quote that is part of the text",
        )

    def _one_count(self) -> int:
        total, last = 0, None
        with self._translated_but_straddling(), self._stream() as stream:
            ended = pa.PythonFile(_Ended(stream, len(self.columns), self._delimiter), "r")
            for batch in self._records(self.columns, ended):
                if batch.num_rows:
                    total, last = total + batch.num_rows, batch.slice(batch.num_rows - 1)
        if last is None or any(cell[0].as_py() for cell in last.columns):
            raise self._open_quote()
        return total - 1

    @contextmanager
    def _translated_but_straddling(self) -> Iterator[None]:
        straddling: pa.ArrowInvalid | None = None
        with self._translated():
            try:
                yield
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error):
                    raise
                straddling = error
        if straddling is not None:
            raise straddling

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        with self._translated(), self._stream() as stream:
            for batch in self._records(columns, stream):
                yield from _sliced(batch, rows)


def _sliced(batch: pa.RecordBatch | pa.Table, rows: int) -> Iterator[pl.DataFrame]:
    for start in range(0, batch.num_rows, rows):
        yield cast(pl.DataFrame, pl.from_arrow(batch.slice(start, rows)))


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


class _ParquetTable(Table):
    def __init__(self, openers: Sequence[_Opener], name: str) -> None:
        self.name = name
        self._openers = openers
        with _reading(name, "Parquet"):
            schemas = [self._file(opener).schema_arrow for opener in openers]
        self.columns = _check_names(schemas[0].names, name)
        self._types = _arrow_types(schemas[0])
        for position, schema in enumerate(schemas[1:], start=2):
            _check_names(schema.names, name)
            if _arrow_types(schema) != self._types:
                raise InputError(
                    "Parquet files with the same columns and types",
                    f"file {position} (in order of name) differs from the first",
                    "narrow the pattern, or write the files alike",
                )

    @staticmethod
    def _file(opener: _Opener) -> pq.ParquetFile:
        return pq.ParquetFile(opener())

    @property
    def types(self) -> dict[str, CellType]:
        return dict(self._types)

    def _rows(self) -> int:
        # The footer knows the number, but only reading shows that every page is sound.
        return sum(batch.num_rows for batch in self._records(None, 16384))

    def _records(self, columns: list[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        for opener in self._openers:
            with _reading(self.name, "Parquet"), self._file(opener) as file:
                for batch in file.iter_batches(batch_size=rows, columns=columns):
                    yield batch if columns is None else batch.select(columns)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for batch in self._records(columns, rows):
            yield from _sliced(batch, rows)


class _ArrowTable(Table):
    def __init__(self, opener: _Opener, name: str) -> None:
        self.name = name
        self._opener = opener
        with _reading(name, "Arrow"):
            schema = self._reader().schema
        self.columns = _check_names(schema.names, name)
        self._types = _arrow_types(schema)

    def _reader(self) -> Any:
        try:
            return pa.ipc.open_file(self._opener())
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(self._opener())

    @property
    def types(self) -> dict[str, CellType]:
        return dict(self._types)

    def _records(self) -> Iterator[pa.RecordBatch]:
        with _reading(self.name, "Arrow"):
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
            yield from _sliced(batch.select(columns), rows)


def _open_frame(source: Any) -> Table:
    if not isinstance(source, pl.LazyFrame):  # before narwhals raises errors of its own
        names = source.column_names if isinstance(source, pa.Table) else getattr(source, "columns", None)
        if names is not None:
            _check_names(list(names), "the frame")
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


class _FrameTable(Table):
    def __init__(self, frame: Any, native: Native) -> None:
        self._frame, self.native = frame, native
        self.columns = _check_names(list(nw.from_native(frame, eager_only=True).columns), "the frame")

    @cached_property
    def types(self) -> dict[str, CellType]:
        """Cell type of each column; a pandas object column is text unless a cell of it is a container."""
        if self.native == "pyarrow":
            return _arrow_types(self._frame.schema)
        types = _cell_types(self._frame.head(0))
        if self.native == "polars":
            return types | {name: "text" for name, dtype in self._frame.schema.items() if dtype == pl.Null}
        for name in self.columns:
            column = self._frame[name]
            if column.dtype == object:
                types[name] = "other" if any(isinstance(cell, _CONTAINERS) for cell in column) else "text"
        return types

    def _rows(self) -> int:
        return len(self._frame)

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for start in range(0, len(self._frame), rows):
            if self.native == "polars":
                yield self._frame.select(columns).slice(start, rows)
            elif self.native == "pyarrow":
                yield from _sliced(self._frame.select(columns).slice(start, rows), rows)
            else:
                yield _from_pandas(self._frame[columns].iloc[start : start + rows])


_CONTAINERS = (list, tuple, dict, set, frozenset, bytes, bytearray, memoryview)


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
            cells = [None if missing else str(cell) for cell, missing in zip(column, column.isna(), strict=True)]
            columns[name] = pl.Series(name, cells, dtype=pl.String)
        else:
            columns[name] = cast(pl.Series, pl.from_pandas(column.reset_index(drop=True)))
    return pl.DataFrame(columns)
