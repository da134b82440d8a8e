"""Tables in: a path, a stream, a pattern, a frame or an array becomes a `Table`, read in batches."""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from adumbra.core.errors import InputError
from adumbra.table.columnar import ArrowTable, ParquetTable, give_back, open_frame
from adumbra.table.matrix import MatrixTable
from adumbra.table.table import CellType, Native, Opener, Table, empty_file
from adumbra.table.text import TextTable

__all__ = ["CellType", "Native", "Table", "give_back", "open_table"]

_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_FORMATS = "CSV, TSV, Parquet or Arrow (.csv .tsv .csv.gz .csv.zst .parquet .arrow .feather)"
_MAGIC = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"\x1f\x8b": ".csv.gz", b"\x28\xb5\x2f\xfd": ".csv.zst"}


def open_table(source: Any, *, delimiter: str | None = None) -> Table:
    """Open a path, "-" (standard input), a glob of Parquet files, any frame narwhals reads, or a numpy array.

    `delimiter` separates the cells of a text file: one character, or "tab". Nothing but the head of a file is
    read here; `Table.count` reads it all. The columns of an array are named by the schema's released columns, in order.

    >>> import polars as pl
    >>> open_table(pl.DataFrame({"age": [34, 51]})).count()
    2
    """
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError("a delimiter of one character", repr(delimiter), "write --delimiter ';' (or tab), say")
    if not isinstance(source, str | Path):
        return MatrixTable(source) if isinstance(source, np.ndarray) else open_frame(source)
    path = Path(source)
    if str(source) == "-":
        if sys.stdin is None:  # closed by the caller
            raise empty_file("the input")
        return _open_spooled(sys.stdin.buffer, delimiter)
    if any(mark in str(source) for mark in "*?[") and not _exists(path):
        return _open_glob(path)
    _check_readable(path)
    if not path.is_file():  # a pipe such as /dev/fd/63 can be read only once
        with path.open("rb") as pipe:
            return _open_spooled(pipe, delimiter)
    return _open_file(partial(pa.OSFile, str(path)), path.name, delimiter)


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
    if packing is None and kind in _PARQUET:
        return ParquetTable([opener], name)
    if packing is None and kind in _ARROW:
        return ArrowTable(opener, name)
    got = f"{filename}: compressed {kind}" if packing and kind in _PARQUET + _ARROW else f"{filename}"
    raise InputError(
        f"a table as {_FORMATS}", got, "convert or rename it; for other text files give --delimiter as well"
    )


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
