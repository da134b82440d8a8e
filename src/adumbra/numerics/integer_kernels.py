"""Compiled passes over rows of whole numbers, and their second moment added up in place.

Nothing here knows of privacy. A pass works on one row at a time. Sums of squares may be added in any order, because
whole numbers whose sums stay below 2^53 are exact in float64.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
import numpy as np
import threadpoolctl  # type: ignore[import-untyped]  # it ships no types
from numba.extending import get_cython_function_address
from scipy.linalg import cython_blas

from adumbra.common.types import Reals

__all__ = [
    "LONG",
    "OFF_GRID",
    "OUTSIDE",
    "add_squares",
    "clipped",
    "compiled",
    "crowded",
    "fault",
    "one_thread_each",
    "worker_threads",
]

Function = TypeVar("Function", bound=Callable[..., Any])

OFF_GRID, OUTSIDE, LONG = 1, 2, 3
"""What can be wrong with a row."""


def compiled(function: Function, **options: Any) -> Function:
    """Compile without the interpreter lock, divisions by zero as numpy has them; cached where that is possible."""
    fast: Any
    try:
        fast = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # numba found nowhere to keep its cache
        fast = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return cast(Function, fast)


def _in_any_order(function: Function) -> Function:
    """Compile with leave to add in any order, several numbers at a time: for exact sums only."""
    return compiled(function, fastmath={"reassoc"})


def worker_threads(otherwise: int | None = None) -> int:
    """Threads to work with: `ADUMBRA_THREADS`, else `otherwise`, else the usable cores, at most 8."""
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        if otherwise is not None:
            return otherwise
        return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 8))


@_in_any_order
def _measured(row: Any) -> Any:
    """The squared length of a row; -1 if it is not of whole numbers."""
    broken = False
    total = 0.0
    for j in range(row.size):
        broken |= row[j] != np.rint(row[j])
        total += row[j] * row[j]
    return -1.0 if broken else total


@_in_any_order
def _scaled_down(row: Any, factor: Any, out: Any) -> Any:
    """A row times `factor`, rounded towards zero, and its squared length."""
    total = 0.0
    for j in range(row.size):
        number = np.trunc(row[j] * factor)
        out[j] = number
        total += number * number
    return total


@compiled
def clipped(rows: Any, bound: Any, limit: Any, out: Any) -> Any:
    """Copy `rows` to `out`, those with a squared length above `limit` (`bound` squared) clipped: scaled down to it.

    Coordinates are rounded towards zero, and again until the row is within the limit. Returns how many were clipped; or
    minus OFF_GRID for a number that is not whole, minus LONG for a row whose squared length is no exact number (2^53
    and above).
    """
    long = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        squared = _measured(row)
        if squared < 0:
            return -OFF_GRID
        if not squared < 2.0**53:
            return -LONG
        if squared <= limit:
            out[i] = row
            continue
        long += 1
        factor = bound / np.sqrt(squared)
        nudge = 2.0**-50
        # A product that rounds up to the next whole number can leave a row slightly too long: shrink again.
        while _scaled_down(row, factor, out[i]) > limit:
            factor *= 1 - nudge
            nudge *= 2
    return long


@_in_any_order
def fault(rows: Any, low: Any, high: Any, limit: Any) -> Any:
    """What is wrong with the first wrong row: not whole, outside [low, high], or longer than `limit`; else 0."""
    for i in range(rows.shape[0]):
        row = rows[i]
        broken = False
        outside = False
        squared = 0.0
        for j in range(row.size):
            value = row[j]
            broken |= value != np.rint(value)
            outside |= (value < low[j]) | (value > high[j])
            squared += value * value
        if broken:
            return OFF_GRID
        if outside:
            return OUTSIDE
        if not squared <= limit:
            return LONG
    return 0


@compiled
def crowded(rows: Any, starts: Any, stops: Any, most: Any) -> Any:
    """Whether some of the `rows` has more than its own of `most` numbers other than 0 in a block.

    Blocks reach from one of `starts` up to its own of `stops`.
    """
    for i in range(rows.shape[0]):
        for block in range(starts.size):
            filled = 0
            for j in range(starts[block], stops[block]):
                filled += rows[i, j] != 0
            if filled > most[block]:
                return True
    return False


def _syrk() -> Any:
    """The library's rank-k update, called without the interpreter lock; None where it counts in other integers."""
    signature = str(cython_blas.__pyx_capi__["dsyrk"])
    if signature.count(" int *") != 4:
        return None
    number, real = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
    kinds = (ctypes.c_char_p, ctypes.c_char_p, number, number, real, ctypes.c_void_p, number, real)
    address = get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
    return ctypes.CFUNCTYPE(None, *kinds, ctypes.c_void_p, number)(address)


_SYRK = _syrk()


def add_squares(rows: Reals, total: Reals) -> None:
    """Add rows' rows to the diagonal and the upper triangle of `total`, a C-contiguous square; the rest is left alone.

    Exact for whole numbers whose sums stay below 2^53. Nothing of the size of the square is allocated.

    >>> square = np.zeros((2, 2))
    >>> add_squares(np.array([[1.0, 2.0], [3.0, 4.0]]), square)
    >>> square.tolist()
    [[10.0, 14.0], [0.0, 20.0]]
    """
    count, width = rows.shape
    square = total.shape == (width, width) and total.dtype == np.float64 and total.flags.c_contiguous
    if not square or not total.flags.writeable:
        raise ValueError("a second moment is added to a contiguous square of its own width")
    if count == 0 or width == 0:
        return
    if _SYRK is None or count >= 2**31:
        total += np.triu(rows.T @ rows)
        return
    given = np.ascontiguousarray(rows, dtype=np.float64)
    # by columns, as the library reads it, `given` is its own transpose, and the lower triangle is our upper one
    wide, deep, one = ctypes.c_int(width), ctypes.c_int(count), ctypes.c_double(1.0)
    _SYRK(b"L", b"N", wide, deep, one, given.ctypes.data, wide, one, total.ctypes.data, wide)


class _Threads:
    """How many releases want the linear algebra on one thread each, and how to give the threads back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wanted = 0
        self.controller: Any = None
        self.limits: Any = None


_THREADS = _Threads()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let the linear algebra use the calling thread only, for callers that bring threads of their own.

    Threads of the library around threads of ours would wait for each other, spinning. The setting is the process's,
    and a thread that has set it sees its own: so everybody sets it, and everybody restores what the first one found.
    Where several overlap, those who stay longer may go on with more threads: slower, and nothing else.
    """
    state = _THREADS
    with state.lock:
        state.controller = state.controller or threadpoolctl.ThreadpoolController()
        limits = state.controller.limit(limits=1, user_api="blas")
        state.limits = state.limits if state.wanted else limits
        state.wanted += 1
    try:
        yield
    finally:
        with state.lock:
            state.wanted -= 1
            state.limits.restore_original_limits()
