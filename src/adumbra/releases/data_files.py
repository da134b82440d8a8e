"""Rows on their way into a release folder: batch by batch, so that none has to hold them all."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from adumbra.common.csv_forms import Csv, write_csv
from adumbra.releases.folder import DATA, DATA_CSV

__all__ = ["ParquetFrames", "RowFiles", "place_of", "regrouped_frames"]


class ParquetFrames(contextlib.AbstractContextManager["ParquetFrames"]):
    """A Parquet file that is written frame by frame, each a row group; `written` counts the rows."""

    def __init__(self, place: Path | BinaryIO) -> None:
        self._place = place
        self._writer: pq.ParquetWriter | None = None
        self.written = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    @property
    def first(self) -> bool:
        """Whether no frame has been written yet."""
        return self._writer is None

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; all frames have the columns of the first. A disk that is full is an OSError."""
        table = frame.to_arrow()
        if self._writer is None:
            # noise never repeats, so a dictionary of it would only cost time and room; few values do repeat
            repeating = [f.name for f in table.schema if not pa.types.is_floating(f.type)] or False
            self._writer = pq.ParquetWriter(self._place, table.schema, use_dictionary=repeating, compression="snappy")
        try:
            # a table is one row group, written out; write_batch would hold a million rows back in memory
            self._writer.write_table(table)
        except pa.ArrowException:
            raise OSError(errno.EIO, "writing stopped: is the disk full?") from None
        self.written += frame.height


class RowFiles(contextlib.AbstractContextManager["RowFiles"]):
    """data.parquet of a release folder, and data.csv if asked for, written batch by batch; `written` counts rows."""

    def __init__(self, folder: Path, csv: Csv) -> None:
        self._parquet, self._csv = ParquetFrames(folder / DATA), csv
        self._text = (folder / DATA_CSV).open("wb") if csv else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._text or contextlib.nullcontext(), self._parquet:
            pass

    @property
    def written(self) -> int:
        """Rows so far."""
        return self._parquet.written

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows; the first batch says which columns there are."""
        header = self._parquet.first
        self._parquet.write(frame)  # first: of the two it says why the system refused
        if self._text is not None:
            write_csv(frame, self._text, self._csv, header=header)


def regrouped_frames(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows, `rows` at a time: where a reader's batches end may depend on private text, and is not written."""
    held: list[pl.DataFrame] = []
    for frame in frames:
        held.append(frame)
        if sum(part.height for part in held) >= rows:
            whole = pl.concat(held)
            for start in range(0, whole.height - rows + 1, rows):
                yield whole[start : start + rows]
            held = [whole[whole.height - whole.height % rows :]]
    rest = pl.concat(held) if held else pl.DataFrame()
    if rest.height:
        yield rest


@contextlib.contextmanager
def place_of(out: str | Path | None) -> Iterator[Path]:
    """Where a release goes: `out`, or without it a temporary place, which a failure takes away again."""
    target = Path(tempfile.mkdtemp(prefix="adumbra-")) / "release" if out is None else Path(out)
    try:
        yield target
    except BaseException:
        if out is None:
            shutil.rmtree(target.parent, ignore_errors=True)
        raise
