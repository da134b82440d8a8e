"""Rows of numbers to grid steps, in one compiled pass over each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.declare.column import Column
from adumbra.declare.space import GRID, HALF
from adumbra.numerics.integer_kernels import compiled

__all__ = ["Ranges", "Steps"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows in grid steps; how many cells of each column were missing, and how many were outside its range."""

    values: Reals
    missing: Counts
    clipped: Counts


@dataclass(frozen=True, eq=False)
class Ranges:
    """The declared ranges of some number columns, and where an empty cell of each goes."""

    low: Reals
    high: Reals
    middle: Reals
    width: Reals
    empty: Reals

    @staticmethod
    def of(columns: Sequence[Column]) -> Ranges:
        """Of number columns."""
        lows = [cast(float, column.low) for column in columns]
        highs = [cast(float, column.high) for column in columns]
        low, high = np.array(lows, dtype=np.float64), np.array(highs, dtype=np.float64)
        width = high - low
        plain = Ranges(low, high, low + width / 2, width, np.zeros(len(columns)))
        # a column without a fallback keeps 0, where the pass puts a cell that is no number
        falls = [np.nan if column.missing is None else float(column.missing) for column in columns]
        empty = plain.steps(np.array([falls], dtype=np.float64)).values[0]
        return Ranges(low, high, plain.middle, width, empty)

    def steps(self, cells: NDArray[Any]) -> Steps:
        """Rows of cells (nan where there is none) in grid steps.

        Guarantee: whole numbers from -HALF to HALF, 0 just for a cell that is not there and has no fallback; a cell's
        result depends on that cell and its column alone.
        """
        rows = np.ascontiguousarray(cells, dtype=np.float64)
        out = np.empty(rows.shape)
        missing, clipped = np.zeros(rows.shape[1], dtype=np.int64), np.zeros(rows.shape[1], dtype=np.int64)
        _encode(rows, self.low, self.high, self.middle, self.width, self.empty, out, missing, clipped)
        return Steps(out, missing, clipped)


_GRID, _HALF = float(GRID), float(HALF)


@compiled
def _row(cells: Any, low: Any, high: Any, middle: Any, width: Any, empty: Any, out: Any) -> Any:
    """One row; whether some cell of it was missing or outside. No branches, so that it runs on vectors."""
    repaired = False
    for j in range(cells.size):
        cell, least, most, fallback = cells[j], low[j], high[j], empty[j]
        repaired |= not ((cell >= least) & (cell <= most))
        # Clipped before any arithmetic, so nothing below can overflow: |number - middle| <= width / 2.
        number = least if cell < least else cell
        number = most if number > most else number
        steps = np.rint((number - middle[j]) / width[j] * _GRID)
        steps = -_HALF if steps < -_HALF else steps
        steps = _HALF if steps > _HALF else steps
        steps = 1.0 if steps == 0.0 else steps  # 0 is for cells that are not there
        out[j] = fallback if cell != cell else steps
    return repaired


@compiled
def _count(cells: Any, low: Any, high: Any, missing: Any, clipped: Any) -> Any:
    for j in range(cells.size):
        missing[j] += cells[j] != cells[j]
    for j in range(cells.size):
        clipped[j] += (cells[j] < low[j]) | (cells[j] > high[j])


@compiled
def _encode(
    rows: Any, low: Any, high: Any, middle: Any, width: Any, empty: Any, out: Any, missing: Any, clipped: Any
) -> Any:
    for i in range(rows.shape[0]):
        if _row(rows[i], low, high, middle, width, empty, out[i]):
            _count(rows[i], low, high, missing, clipped)
