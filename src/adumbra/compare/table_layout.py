"""What of two tables is compared: columns, cells, coordinates and pairs, from the schema and names of columns alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adumbra.compare.compared_cells import CellCodes, ColumnCells, ColumnNumbers
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.tables.matrix import Unnamed
from adumbra.tables.table import Table

__all__ = ["CellLayout", "compared_schema", "pair_cells", "public_order"]

_BINS, _PAIR_CELLS = 10, 20
"""Cells of a number, and the most that any column has beside another one; the empty one is not among them."""
_MAX_PAIRS = 60 * 59 // 2
"""All pairs of 60 columns: at most 21 by 21 cells each, so 6 MB for a table."""
_MAX_COORDINATES = 2000


def public_order(count: int, purpose: str) -> CellCodes:
    """A fixed shuffle of 0 .. count - 1: the same for every table of this size, so it says nothing of its rows.

    >>> sorted(public_order(5, "doc").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(_public_words(count, f"{purpose} {count}"), kind="stable")


def _public_words(count: int, purpose: str) -> NDArray[np.uint64]:
    stream = hashlib.shake_256(b"adumbra evaluate\0" + purpose.encode()).digest(8 * count)
    return np.frombuffer(stream, dtype="<u8")


def compared_schema(schema: Schema, *tables: Table) -> Schema:
    """The released columns that every table has, but ids: what follows from other columns is read like any other.

    A table may lack a derived or dependent column, which no release reads; an array holds the measured ones.
    """
    measured = {column.name for column in schema.measured}
    held = [measured if isinstance(table.columns, Unnamed) else set(table.columns) for table in tables]
    columns = tuple(
        replace(column, derived=None)
        for column in schema.released
        if column.kind is not None and all(column.name in names for names in held)
    )
    return Schema(schema.table, columns)


class CellLayout:
    """Cells, coordinates and pairs of the measured columns of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.space = schema.space()
        self.columns = schema.measured
        self.names = [column.name for column in self.columns]
        self.cells = [ColumnCells(column, _BINS, spiked=True) for column in self.columns]
        self.pair_cells = [pair_cells(column) for column in self.columns]
        self.numbers = [ColumnNumbers(column) for column in self.columns]
        self.pairs, self.all_pairs = _pairs(len(self.columns))
        width = self.space.width
        chosen = public_order(width, "coordinates")[:_MAX_COORDINATES] if width > _MAX_COORDINATES else np.arange(width)
        self.coordinates: CellCodes = np.sort(chosen)
        self.column_of: CellCodes = np.searchsorted(self.space.starts, self.coordinates, side="right") - 1
        """The column of each chosen coordinate."""

    def block(self, index: int) -> slice:
        """Encoded coordinates of a column."""
        return slice(self.space.blocks[index].start, self.space.blocks[index].stop)

    def coordinate_names(self) -> list[str]:
        """`column`, or `column=value` where every value has a coordinate."""
        every = self.schema.coordinates
        return [every[i] for i in self.coordinates]


def pair_cells(column: Column) -> ColumnCells:
    """As the column itself is cut, where that is into few cells; else neighbours share one, and spikes have none."""
    return ColumnCells(column, _BINS, _PAIR_CELLS, spiked=len(column.cells.spikes) <= _PAIR_CELLS - _BINS)


def _pairs(columns: int) -> tuple[list[tuple[int, int]], int]:
    """All pairs of columns, or a fixed sample that depends on the number of columns only; and how many there are."""
    total = columns * (columns - 1) // 2
    chosen: Sequence[int] = range(total)
    if total > _MAX_PAIRS:
        words = (_public_words(20 * _MAX_PAIRS, f"pairs {columns}") % np.uint64(total)).tolist()
        chosen = sorted(list(dict.fromkeys(words))[:_MAX_PAIRS])
    found = []
    for rank in chosen:  # rank = b (b - 1) / 2 + a with a < b
        b = (1 + math.isqrt(1 + 8 * rank)) // 2
        found.append((rank - b * (b - 1) // 2, b))
    return found, total
