"""Clip rows to a declared L2 norm, in exact whole numbers.

A row longer than the bound is shrunk along its own direction and every coordinate is rounded towards zero, so
that its exact squared length, a whole number, is at most the square of the bound. Nothing about other rows is
used (docs/proofs/grid.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.validation import at_least
from adumbra.numerics.integer_kernels import LONG, OFF_GRID, clipped

__all__ = ["clip_rows"]


def clip_rows(values: NDArray[Any], row_bound: int) -> tuple[NDArray[np.float64], int]:
    """Rows with norm at most `row_bound` (both in grid steps), and how many had to be shrunk (private).

    Guarantee: the exact sum of squares of every returned row is at most `row_bound ** 2`; rows within the
    bound come back unchanged; each row's result depends on that row alone. Edge cases: rows that are not
    whole numbers, or too long for exact sums (norm^2 >= 2^53), are refused.

    >>> clip_rows(np.array([[3, 4], [30, 40]]), 5)
    (array([[3., 4.],
           [3., 4.]]), 1)
    """
    at_least(1, "give a row bound of at least one grid step", row_bound=row_bound)
    rows = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 2:
        raise InputError("rows of whole grid steps", "something else", "encode the table first")
    out = np.empty(rows.shape)
    cut = clipped(rows, float(row_bound), float(min(row_bound * row_bound, 2**53)), out)
    if cut == -OFF_GRID:
        raise InputError("rows of whole grid steps", "something else", "encode the table first")
    if cut == -LONG:
        raise InputError("rows with a squared norm below 2^53", "a longer row", "encode the table first")
    return out, int(cut)
