"""Tables that are one two-dimensional array of numbers, whose columns take their names from the schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.tables.table import CellType, Table

__all__ = ["MatrixTable", "Unnamed", "as_frame", "plain_numbers"]

_FRAME = "give a data frame, whose columns have names and types of their own"


class Unnamed(tuple[str, ...]):
    """Columns that have positions and no names: a schema's released columns name them, in order."""

    __slots__ = ()


class MatrixTable(Table):
    """An array of rows and columns of numbers (or of true and false), read where it lies and never copied whole.

    The columns have no names of their own: `batches` and `blocks` call them by the names they are asked for, one for
    each column, in order. A masked cell is a missing one.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        if array.ndim != 2:
            raise InputError("an array of two dimensions, rows and columns", f"{array.ndim}", "reshape it")
        if array.dtype.kind not in "fiub":
            raise InputError("an array of numbers", "an array of another type", _FRAME)
        if array.shape[1] == 0:
            raise InputError("a table with columns", "the array has none", "give a table with data")
        self._array = array
        self.columns = Unnamed(f"column {position + 1}" for position in range(array.shape[1]))

    @cached_property
    def types(self) -> dict[str, CellType]:
        """The same for every column."""
        return dict.fromkeys(self.columns, "boolean" if self._array.dtype.kind == "b" else "number")

    def _rows(self) -> int:
        return len(self._array)

    def blocks(self, columns: Sequence[str], rows: int = 16384) -> Iterator[NDArray[Any]]:
        """All columns, at most `rows` rows at a time, each block a view of the array where that is possible."""
        if len(columns) != len(self.columns):
            raise InputError(
                f"one name for each of the {len(self.columns)} columns of the array", f"{len(columns)} names", _FRAME
            )
        self.count()
        return (plain_numbers(self._array[start : start + rows]) for start in range(0, len(self._array), rows))

    def batches(self, columns: Sequence[str], rows: int = 16384) -> Iterator[pl.DataFrame]:
        """The same as frames, with the names given."""
        return (as_frame(block, columns) for block in self.blocks(columns, rows))

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        return self.batches(columns, rows)


def as_frame(block: NDArray[Any], names: Sequence[str]) -> pl.DataFrame:
    """Columns of an array as a frame."""
    return pl.DataFrame(dict(zip(names, block.T, strict=True)))


def plain_numbers(block: NDArray[Any]) -> NDArray[Any]:
    """In a type of this machine that frames know as well; what is masked becomes nan."""
    if isinstance(block, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(block.astype(np.float64), np.nan))
    kind = block.dtype
    if kind.kind == "f" and kind.itemsize not in (4, 8):
        kind = np.dtype(np.float32 if kind.itemsize == 2 else np.float64)
    return np.asarray(block, dtype=kind.newbyteorder("="))
