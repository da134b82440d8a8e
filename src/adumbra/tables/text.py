"""Text tables: CSV and its relatives, plain or packed.

Types are never guessed from the cells: every cell arrives as text and the schema says what it means. So one
row's reading cannot depend on another row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv

from adumbra.common.errors import InputError
from adumbra.tables.table import CellType, Opener, Table, check_names, empty_file, reading, sliced

__all__ = ["TextTable"]

_BLOCK = 2**20  # the reader holds about twenty blocks; larger ones cost memory and gain no time
_LARGEST_BLOCK = 64 * 2**20  # a row must fit into one; a few bytes of packed text can hold a row without end
_LARGEST_HEADER = 16 * 2**20
_PATIENCE = 0.1  # seconds for a reader at work to see the end; one that waits for room never looks


class _Ended(io.RawIOBase):
    """A stream for the CSV reader's own thread, followed by `mark`; it can be ended early.

    The reader reads ahead, and goes on when its batches are no longer wanted.
    """

    def __init__(self, stream: Any, mark: bytes = b"") -> None:
        super().__init__()
        self._stream, self._mark = stream, mark
        self._last = b""
        self._turn = Lock()
        self._stopped, self._seen = False, Event()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with self._turn:
            data = b"" if self._stopped else self._more(size)
        if not data:
            self._seen.set()
        return data

    def stop(self) -> None:
        """Wait for the read under way, then let the reader see the end; the stream is not touched afterwards."""
        with self._turn:
            self._stopped = True
        self._seen.wait(_PATIENCE)

    def _more(self, size: int) -> bytes:
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


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The first lines, which hold the header; csv.Error where they go on and on."""
    left = _LARGEST_HEADER
    while line := text.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise csv.Error("a header too long")
        yield line


class TextTable(Table):
    """A text file with a header line; `opener` gives its bytes anew each time, `packing` says how they are packed."""

    def __init__(self, opener: Opener, name: str, packing: str | None, delimiter: str, *, guessed: bool) -> None:
        self.name = name
        self._opener, self._packing, self._delimiter = opener, packing, delimiter
        self._block = _BLOCK
        self.columns = self._header(guessed)

    @property
    def types(self) -> dict[str, CellType]:
        """Text, in every column."""
        return dict.fromkeys(self.columns, "text")

    def _stream(self) -> Any:
        raw = self._opener()
        return raw if self._packing is None else pa.CompressedInputStream(raw, self._packing)

    @contextmanager
    def _source(self, mark: bytes = b"") -> Iterator[_Ended]:
        with self._stream() as stream:
            source = _Ended(stream, mark)
            try:
                yield source
            finally:
                source.stop()

    def _header(self, guessed: bool) -> tuple[str, ...]:
        with self._translated(), self._stream() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
            header = next(csv.reader(_lines(text), delimiter=self._delimiter, strict=True), None)
        if header is None:
            raise empty_file(self.name)
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
        return check_names([column.strip() for column in header], self.name)

    def _not_utf8(self) -> InputError:
        return InputError("text in UTF-8", f"other bytes in {self.name}", "convert the file to UTF-8")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with reading(self.name, "text file" if self._packing is None else f"{self._packing} text file"):
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
                "a header line of quoted or plain names", "one that does not parse, or does not end", "check its quotes"
            ) from None

    def _records(self, columns: Sequence[str], source: _Ended) -> Iterator[pa.RecordBatch]:
        ragged: list[pacsv.InvalidRow] = []

        def note(row: pacsv.InvalidRow) -> str:
            ragged.append(row)
            return "error"

        try:
            yield from pacsv.open_csv(
                pa.PythonFile(source, "r"),
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
        # A row of empty cells after the last one: a quote left open would swallow it.
        mark = b'\n""' + self._delimiter.encode() * (len(self.columns) - 1) + b"\n"
        with self._translated_but_straddling(), self._source(mark) as source:
            for batch in self._records(self.columns, source):
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
        with self._translated(), self._source() as source:
            # A block of text holds few rows of a wide table, and every frame costs the encoder a fixed time a column.
            waiting, held = list[pa.RecordBatch](), 0
            for batch in self._records(columns, source):
                waiting.append(batch)
                held += batch.num_rows
                if held >= rows:
                    joined = pa.Table.from_batches(waiting)
                    whole = held - held % rows
                    yield from sliced(joined.slice(0, whole), rows)
                    waiting, held = joined.slice(whole).to_batches(), held - whole
            if held:
                yield from sliced(pa.Table.from_batches(waiting), rows)
