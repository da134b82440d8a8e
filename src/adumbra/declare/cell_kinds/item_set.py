"""Sets: cells that hold several of the declared values, at most so many."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from adumbra.common.types import Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.category import check_values, written
from adumbra.declare.cell_kinds.cell_kind import CellKind, CellsRead, wrong
from adumbra.declare.item_sets import cut, mentioned
from adumbra.declare.space import set_steps

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["ItemSet"]

_SEPARATOR = ","


class ItemSet(CellKind):
    """Some of the declared values. Without any of them a cell is empty."""

    name = "set"
    block = "set"
    keys = ("values", "most", "separator")

    @staticmethod
    def check(column: Column) -> None:
        """Values that the separator does not part, and how many of them count in one cell."""
        if column.missing is not None:
            got = f"missing = {said(column.missing)}"
            raise wrong(column, "no missing for a set: a cell without items is an empty set", got, "delete missing")
        check_values(column)
        if column.type is not None and column.type != "string":
            raise wrong(column, "type string for a set", f"type = {said(column.type)}", "delete type")
        if column.most is None:
            remedy = "write most = how many of its values count in one cell, known without looking at the rows,"
            raise wrong(column, "a declared most", "none", remedy)
        if type(column.most) is not int or column.most < 1:
            raise wrong(column, "most as a whole number above 0", f"most = {said(column.most)}", "write most = 10")
        column.settle(separator=_SEPARATOR if column.separator is None else column.separator)
        separator = cast(str, column.separator)
        if not separator:
            raise wrong(column, "a separator", "none", 'write separator = "," or whatever stands between two values,')
        column.check_writable("a separator", separator)
        if any((separator.strip() or separator) in str(value).strip() for value in column.values):
            raise wrong(column, "values without the separator in them", f"{separator!r} in one", "correct separator")

    @property
    def width(self) -> int:
        """One for each value."""
        return len(self.column.values)

    @cached_property
    def most(self) -> int:
        """Values that count in one cell, at most."""
        return cast(int, self.column.most)

    @cached_property
    def separator(self) -> str:
        """What stands between two values."""
        return cast(str, self.column.separator)

    def read(self, cells: pl.Series) -> CellsRead:
        """One coordinate is set for each value in the cell; a cell of more than `most` counts as clipped."""
        named = mentioned(cells, self.column.values, self.separator)
        held = cut(named, self.most)
        clipped = int(np.count_nonzero(named.sum(axis=1) > self.most))
        return CellsRead(held * set_steps(self.most), np.asarray(~held.any(axis=1)), clipped)

    def write(self, codes: Reals) -> pl.Series:
        """Sets of one value each, from its position."""
        return written(self.column.values, np.where(np.isnan(codes), -1, codes)).cast(pl.String)

    def write_sets(self, held: Reals) -> pl.Series:
        """Cells from rows of coordinates: those above 0 are in the set, in declared order; none is an empty cell."""
        names = np.array([str(value).strip() for value in self.column.values], dtype=object)
        found = [self.separator.join(names[row > 0]) or None for row in held]
        return pl.Series(found, dtype=pl.String)

    def spread(self, count: int) -> pl.Series:
        """Cells of one value, of two, and so on, up to as many as count."""
        sizes = np.arange(count) % min(self.most, self.width) + 1
        held = (np.arange(self.width)[None, :] - np.arange(count)[:, None]) % self.width < sizes[:, None]
        return self.write_sets(held.astype(np.float64))

    def examples(self) -> tuple[Any, ...]:
        """As many as count from either end, and one alone."""
        names = [str(value).strip() for value in self.column.values]
        return (
            self.separator.join(names[: self.most]),
            self.separator.join(names[-self.most :]),
            names[0],
        )
