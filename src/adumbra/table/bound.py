"""Clip rows to a declared L2 norm, in exact whole numbers, and hand them on in batches of one size.

A row longer than the bound is shrunk along its own direction and every coordinate is cut towards zero, so
that its exact squared length, a whole number, is at most the square of the bound. Nothing about other rows is
used (docs/proofs/grid.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least
from adumbra.linalg.rows import LONG, OFF_GRID, clipped

__all__ = ["clip_rows", "kept_for_next_time", "regrouped"]

Batches = Callable[[], Iterator[NDArray[np.float64]]]
_KEPT_BYTES = 2**28


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


def regrouped(batches: Iterator[NDArray[np.float64]], rows: int) -> Iterator[NDArray[np.float64]]:
    """The same rows in the same order, exactly `rows` at a time (the last batch may be shorter)."""
    waiting: list[NDArray[np.float64]] = []
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


def kept_for_next_time(open_batches: Batches) -> Batches:
    """The same batches, kept in memory after the first reading if they are small: a second look need not read again.

    Encoded values are whole numbers below 2^31, so that 32 bits hold them exactly.
    """
    kept: list[NDArray[np.int32]] = []
    whole = False

    def batches() -> Iterator[NDArray[np.float64]]:
        nonlocal whole
        if whole:
            yield from (batch.astype(np.float64) for batch in kept)
            return
        kept.clear()
        size, small = 0, True
        for batch in open_batches():
            size += batch.size * 4
            small = small and size <= _KEPT_BYTES
            if small:
                kept.append(batch.astype(np.int32))
            else:
                kept.clear()
            yield batch
        whole = small

    return batches
