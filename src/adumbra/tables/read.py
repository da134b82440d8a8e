"""Tables in: a path, a stream, a pattern, a frame or an array becomes a `Table`, read in batches.

A file is known by how its name ends. Text, Parquet and Arrow are built in; a package that is installed adds a format
by an entry point in the group `adumbra.formats`, which names a `TableFormat` (CONTRIBUTING.md). What is built in
cannot be replaced.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from adumbra.common.errors import InputError
from adumbra.tables.columnar import ArrowTable, ParquetTable, give_back, open_frame
from adumbra.tables.matrix import MatrixTable
from adumbra.tables.table import CellType, Native, Opener, Table, empty_file
from adumbra.tables.text import TextTable

__all__ = ["CellType", "Native", "Table", "TableFormat", "give_back", "open_table"]

_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_PARQUET = (".parquet", ".pq")
_GROUP = "adumbra.formats"
_MAGIC = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"\x1f\x8b": ".csv.gz", b"\x28\xb5\x2f\xfd": ".csv.zst"}


@dataclass(frozen=True)
class TableFormat:
    """A file format: its name for people, how its files end, and what opens one.

    `open(opener, name)` makes the `Table`: `opener()` gives the file from its start, as a binary file, any number of
    times, and `name` is what messages call it. It reads the head of the file at most.
    """

    name: str
    suffixes: tuple[str, ...]
    """In small letters, with the dot."""
    open: Callable[[Opener, str], Table]


_BUILT_IN = (
    TableFormat("Parquet", _PARQUET, lambda opener, name: ParquetTable([opener], name)),
    TableFormat("Arrow", (".arrow", ".feather", ".ipc"), ArrowTable),
)


def open_table(source: Any, *, delimiter: str | None = None) -> Table:
    """Open a path, "-" (standard input), a glob of Parquet files, any frame narwhals reads, or a numpy array.

    `delimiter` separates the cells of a text file: one character, or "tab". Nothing but the head of a file is
    read here; `Table.count` reads it all. The columns of an array are named by the schema's released columns, in order.

    >>> import polars as pl
    >>> open_table(pl.DataFrame({"age": [34, 51]})).count()
    2
    """
    if delimiter is not None and not isinstance(delimiter, str):
        raise InputError("a delimiter of one character", f"a {type(delimiter).__name__}", 'write delimiter=";"')
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError("a delimiter of one character", repr(delimiter), "for example, write --delimiter ';' (or tab)")
    if not isinstance(source, str | Path):
        return MatrixTable(source) if isinstance(source, np.ndarray) else open_frame(source)
    path = Path(source)
    if str(source) == "-":
        if sys.stdin is None:  # closed by the caller
            raise empty_file("the input")
        return _open_spooled(sys.stdin.buffer, delimiter)
    if any(mark in str(source) for mark in "*?[") and not _exists(path):
        return _of_place(_open_glob(path), path, None)
    _check_readable(path)
    if not path.is_file():  # a pipe such as /dev/fd/63 can be read only once
        with path.open("rb") as pipe:
            return _open_spooled(pipe, delimiter)
    return _of_place(_open_file(partial(pa.OSFile, str(path)), path.name, delimiter), path, delimiter)


def _of_place(table: Table, path: Path, delimiter: str | None) -> Table:
    """The table with the place where it can be opened again."""
    table.origin = (str(path.absolute()), delimiter)
    return table


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long for the file system, or a folder that may not be searched
        return False


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(
                "a table file", f"{path} is a directory", f'give a file, or a pattern such as "{path}/*.parquet"'
            )
        size = path.stat().st_size
        if path.is_file():
            path.open("rb").close()
    except FileNotFoundError:
        raise InputError("a table file", f"no file {path}", "check the path") from None
    except OSError as error:
        raise InputError(
            "a file that can be read", f"{path}: {error.strerror}", "check the path and its permissions"
        ) from None
    except ValueError:
        raise InputError("a path", f"{str(path)!r}, which none can be", "check the path") from None
    if path.is_file() and size == 0:
        raise empty_file(path.name)


def _open_spooled(stream: Any, delimiter: str | None) -> Table:
    """Copy a stream once to an unlinked temporary file, so that it can be read again.

    The copy holds the private table. It goes into the folder that was named for such files and into no other: Python
    itself would go on to other folders, the current one at last.
    """
    folder = os.environ.get("TMPDIR") or (tempfile.gettempdir() if os.name == "nt" else "/tmp")
    try:
        with tempfile.TemporaryFile(dir=folder) as spool:
            shutil.copyfileobj(stream, spool, 2**20)
            spool.flush()
            if spool.tell() == 0:
                raise empty_file("the input")
            view = mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(
            "a folder with room for a copy of the input",
            f"{folder}: {error.strerror or type(error).__name__}",
            "set TMPDIR to a folder for private temporary files, or give a file instead of a stream",
        ) from None
    suffix = next((s for magic, s in _MAGIC.items() if view[: len(magic)] == magic), ".csv")
    return _open_file(lambda: pa.BufferReader(pa.py_buffer(view)), "table" + suffix, delimiter)


def _open_file(opener: Opener, filename: str, delimiter: str | None) -> Table:
    *front, last = [s.lower() for s in Path(filename).suffixes] or [""]
    packing = _PACKED.get(last)
    kind = last if packing is None else (front[-1] if front else "")
    name = filename.split(".")[0] or "table"
    if kind in _TEXT or delimiter is not None:
        return TextTable(opener, name, packing, delimiter or _TEXT[kind], guessed=delimiter is None)
    found = _format_of(kind)
    if found is not None and packing is None:
        return found.open(opener, name)
    more = "".join(f", {offered.name}" for offered in map(_loaded, entry_points(group=_GROUP)))
    raise InputError(
        f"a table as CSV, TSV{more}, Parquet or Arrow (.csv .tsv .csv.gz .csv.zst .parquet .arrow .feather)",
        f"{filename}: compressed {kind}" if found is not None else f"{filename}",
        "convert or rename it; for other text files give --delimiter as well",
    )


def _format_of(suffix: str) -> TableFormat | None:
    """The format of files that end so: one that is built in, or one of an installed package."""
    built_in = next((known for known in _BUILT_IN if suffix in known.suffixes), None)
    if built_in is not None:
        return built_in
    return next((found for found in map(_loaded, entry_points(group=_GROUP)) if suffix in found.suffixes), None)


def _loaded(offered: EntryPoint) -> TableFormat:
    try:
        found = offered.load()
    except Exception as error:  # code of others: whatever it raises, the table was not opened
        found = error
    if not isinstance(found, TableFormat):
        raise InputError(
            f"a TableFormat at every entry point of {_GROUP}",
            f"{offered.name} ({offered.value}): {type(found).__name__}",
            "repair or remove the package that offers it",
        )
    return found


def _open_glob(pattern: Path) -> Table:
    base = Path(pattern.anchor)
    try:
        found = sorted(base.glob(str(pattern.relative_to(base))))
    except (OSError, ValueError):  # a part too long for the file system, "**" beside other characters, a null byte
        found = []
    if not found:
        raise InputError("files that match the pattern", f"none match {pattern}", "check the pattern")
    for path in found:
        _check_readable(path)
        if path.suffix.lower() not in _PARQUET:
            raise InputError("Parquet files only in a pattern", path.name, "end the pattern in .parquet")
    return ParquetTable([partial(pa.OSFile, str(path)) for path in found], "table")
