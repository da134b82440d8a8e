"""The rows of a table as a release reads them: encoded by the schema, clipped to the row bound, in partitions.

This is the only reader of encoded rows. A release, an evaluation, an audit and an estimator that read the same table
with the same schema and bound see the same rows to the last bit, because they see them through here.

A *partition* is a run of consecutive rows in the order of the table: exactly `partition_rows` of them, but for the
last, which may be shorter. Where one ends follows from the width of a row alone, which is public; where the batches of
a file end depends on its private text, and that must not leave (docs/proofs/release.md). A row is encoded and clipped
by itself, so that partitions may be worked on in any order, in any place, and whole numbers added up over them are the
same however they are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.interrupts import stop_if_asked
from adumbra.common.types import Reals
from adumbra.declare.schema import Schema
from adumbra.tables.clip import clip_rows
from adumbra.tables.encode import Encoded, Repairs, check_columns, encode
from adumbra.tables.read import open_table
from adumbra.tables.table import Table

__all__ = ["KEPT_BYTES", "OwnerNotes", "RowSource", "clipped_rows", "encoded_rows", "partition_rows", "regrouped"]


KEPT_BYTES = 2**28
"""Rows up to this size, in 32 bits a number, are kept for the next reading."""


@dataclass
class OwnerNotes:
    """What the owner may want to know about the table. Private: never part of a release.

    `repairs` counts, for each released column, cells that were missing, unknown or out of range; `clipped_rows` counts
    rows that were longer than the row bound.
    """

    HEADING: ClassVar[str] = (
        "for the owner only (private, not in the release): cells that are missing, cannot be read, or were clipped"
    )

    repairs: dict[str, Repairs] = field(default_factory=dict)
    clipped_rows: int = 0

    def add(self, repairs: Mapping[str, Repairs]) -> None:
        """Count one batch."""
        for column, found in repairs.items():
            self.repairs[column] = self.repairs[column] + found if column in self.repairs else found

    def lines(self, most: int = 20) -> list[str]:
        """One line for each column with repaired cells, at most so many, and one for clipped rows; none if none."""
        changed = {column: r for column, r in self.repairs.items() if r.missing or r.unknown or r.clipped}
        found = [
            f"{column}: {r.missing} missing, {r.unknown} unknown, {r.clipped} out of range"
            for column, r in list(changed.items())[:most]
        ]
        found += [f"and {len(changed) - most} more columns"] * (len(changed) > most)
        return found + [f"rows clipped to the row bound: {self.clipped_rows}"] * bool(self.clipped_rows)


class RowSource:
    """Rows of `table`, encoded by `schema` and clipped to `row_bound` grid steps (`Space.row_bound`; None clips none).

    Nothing is read until `partitions` is; each call reads from the top. With `keep`, a table that is small enough
    stays in memory once it was read to its end, and is not read again. `notes` has what the owner may want to know,
    from the last reading that came to its end. All of it is the owner's: a `PrivateRows` shows it to the meter alone.

    Edge cases: a source of a file or pattern can be pickled, as the way to it (its place, never a row), and opens it
    again; one of a stream, a frame or an array cannot.

    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 100}}})
    >>> ages = RowSource.open(pl.DataFrame({"age": [0, 50, 100, 200]}), schema)
    >>> [rows.ravel().tolist() for rows in ages.partitions()], ages.notes.lines()
    ([[-32768.0, 1.0, 32768.0, 32768.0]], ['age: 0 missing, 0 unknown, 1 out of range'])
    """

    def __init__(
        self,
        schema: Schema,
        table: Table,
        row_bound: int | None = None,
        *,
        notes: OwnerNotes | None = None,
        keep: bool = False,
    ) -> None:
        self.schema = schema
        self.table = table
        self.row_bound = row_bound
        self.notes = OwnerNotes() if notes is None else notes
        self.keep = keep
        self._names = [column.name for column in schema.measured]
        self._width = sum(column.width for column in schema.measured)
        self._rows = partition_rows(self._width)
        self._kept: list[NDArray[np.int32]] | None = None

    @staticmethod
    def open(given: Any, schema: Schema, *, delimiter: str | None = None) -> RowSource:
        """Rows of anything that `open_table` opens, unclipped, after a check that its columns are the declared ones.

        `given` is a path, frame or array, `schema` declares its columns, `delimiter` separates the cells of a text.
        """
        table = open_table(given, delimiter=delimiter)
        check_columns(schema, table.columns, table.types)
        return RowSource(schema, table)

    def partitions(self) -> Iterator[Reals]:
        """The rows in order, a partition at a time."""
        if self._kept is not None:
            yield from (rows.astype(np.float64) for rows in self._kept)
            return
        kept: list[NDArray[np.int32]] | None = [] if self.keep else None
        size = 0
        for rows in regrouped(self._read(), self._rows):
            size += rows.size * 4
            if size > KEPT_BYTES:
                kept = None
            if kept is not None:
                kept.append(rows.astype(np.int32))  # exact: whole numbers below 2^31
            yield rows
        self._kept = kept

    def whole(self) -> Reals:
        """All rows at once, for tables that are known to be small."""
        return np.concatenate([np.empty((0, self._width)), *self.partitions()])

    def rows_at(self, places: NDArray[np.int64]) -> Reals:
        """The rows at these places of the table (from 0), in the order asked for; no other row is encoded."""
        wanted = np.unique(places)
        found, start = [np.empty((0, self._width))], 0
        for cells in self.table.blocks(self._names, self._rows):
            here = wanted[(wanted >= start) & (wanted < start + len(cells))] - start
            if len(here):
                found.append(encoded_rows(cells[here.tolist()], self.schema, self.row_bound))
            start += len(cells)
        return np.asarray(np.concatenate(found)[np.searchsorted(wanted, places)])

    def _read(self) -> Iterator[Reals]:
        """Batches as the reader cuts them; the notes are complete at the end."""
        found = OwnerNotes()
        for cells in self.table.blocks(self._names, self._rows):
            stop_if_asked()
            encoded, shortened = _encoded(cells, self.schema, self.row_bound)
            found.add(encoded.repaired if found.repairs else encoded.repairs)
            found.clipped_rows += shortened
            yield encoded.values
        self.notes.repairs, self.notes.clipped_rows = found.repairs, found.clipped_rows  # each reading finds the same

    def __reduce__(self) -> tuple[Any, ...]:
        if self.table.origin is None:
            raise TypeError("rows of a stream, a frame or an array are neither copied nor pickled")
        return _reopened, (self.schema, *self.table.origin, self.row_bound, self.keep)

    def __repr__(self) -> str:
        # how many rows there are is private under add-remove
        return f"RowSource({self._width} coordinates, rows withheld)"


def _reopened(schema: Schema, place: str, delimiter: str | None, row_bound: int | None, keep: bool) -> RowSource:
    """A source that was pickled."""
    opened = RowSource.open(place, schema, delimiter=delimiter)
    return RowSource(schema, opened.table, row_bound, keep=keep)


def encoded_rows(cells: pl.DataFrame | NDArray[Any], schema: Schema, row_bound: int | None = None) -> Reals:
    """Rows that are in memory already (made up, or released before), as a source of the same would give them.

    `cells` has the released columns of `schema`; rows are clipped to `row_bound` grid steps, if it is given.
    """
    return _encoded(cells, schema, row_bound)[0].values


def clipped_rows(rows: Reals, row_bound: int | None) -> Reals:
    """Encoded rows clipped to the bound, if there is one."""
    return rows if row_bound is None else clip_rows(rows, row_bound)[0]


def _encoded(cells: pl.DataFrame | NDArray[Any], schema: Schema, row_bound: int | None) -> tuple[Encoded, int]:
    """Encode, then clip; and how many rows were shortened."""
    encoded = encode(cells, schema)
    if row_bound is None:
        return encoded, 0
    values, shortened = clip_rows(encoded.values, row_bound)
    return Encoded(values, encoded.repairs), shortened


def partition_rows(width: int) -> int:
    """Rows of a partition of `width` numbers each: near 8 MB, to stay in the cache.

    But a measurement of thousands of columns pays from a thousand rows; at most 64 MB.
    """
    width = max(width, 1)
    return max(1, min(8192, max(2**20 // width, min(1024, 2**23 // width))))


def regrouped(batches: Iterator[Reals], rows: int) -> Iterator[Reals]:
    """The same rows in the same order, exactly `rows` at a time (the last batch may be shorter)."""
    waiting: list[Reals] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += len(batch)
        while held >= rows:
            joined = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            yield joined[:rows]
            held -= rows
            waiting = [joined[rows:]] if held else []
    if held:
        yield np.concatenate(waiting)
