"""Walsh-Hadamard and Haar transforms of many rows, in place and in the cache.

The stages of the Walsh-Hadamard transform are those of Fino and Algazi, "Unified Matrix Treatment of the Fast
Walsh-Hadamard Transform" (IEEE Transactions on Computers, 1976); the pyramid of the Haar transform that of Mallat,
"A Theory for Multiresolution Signal Decomposition: The Wavelet Representation" (IEEE Transactions on Pattern Analysis
and Machine Intelligence, 1989). How stages are grouped so that numbers stay in the cache is our own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.numerics.integer_kernels import compiled

__all__ = ["batch_of", "haar", "haar_back", "hadamard", "next_power", "sealed"]


_BLOCK = 1 << 14  # numbers that are taken through their stages while they stay in the cache


_HALF = math.sqrt(0.5)


def hadamard(values: Reals, axis: int = -1) -> Reals:
    """Multiply along an axis by the Hadamard matrix (-1)^popcount(i & j), in place; returns `values`.

    Nothing is scaled: twice is n times, for an axis of n numbers, a power of two. Guarantee: whole numbers stay exact
    while the sum of their magnitudes along the axis stays below 2^53. Any float64 array that can be written to will
    do; one that is not contiguous costs a copy.

    >>> hadamard(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or not values.flags.writeable:
        got = f"{values.dtype} numbers" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise InputError("float64 numbers in an array that can be written to", got, "copy them into one")
    if not -values.ndim <= axis < values.ndim:
        raise InputError(f"an axis of {values.ndim}", f"axis {axis}", "name one that is there")
    length = values.shape[axis]
    if length < 1 or length & (length - 1):
        raise InputError("an axis whose length is a power of two", f"length {length}", "continue it with zeros")
    inner = math.prod(values.shape[axis % values.ndim + 1 :])
    if values.size == 0:
        return values
    if values.flags.c_contiguous:
        _butterflies(values.reshape(-1), inner, inner * length)
    else:
        flat = np.ascontiguousarray(values).reshape(-1)
        _butterflies(flat, inner, inner * length)
        values[...] = flat.reshape(values.shape)
    return values


@compiled
def _pairs(values: Any, stride: Any) -> None:
    """One stage: x, y at this distance become x + y, x - y."""
    for start in range(0, values.size, 2 * stride):
        for i in range(start, start + stride):
            a, b = values[i], values[i + stride]
            values[i] = a + b
            values[i + stride] = a - b


@compiled
def _fours(values: Any, stride: Any) -> None:
    """Two stages at once, at `stride` and twice that: memory is gone through half as often."""
    for start in range(0, values.size, 4 * stride):
        one = values[start : start + stride]
        two = values[start + stride : start + 2 * stride]
        three = values[start + 2 * stride : start + 3 * stride]
        four = values[start + 3 * stride : start + 4 * stride]
        for i in range(stride):
            a, b = one[i] + two[i], one[i] - two[i]
            c, d = three[i] + four[i], three[i] - four[i]
            one[i] = a + c
            two[i] = b + d
            three[i] = a - c
            four[i] = b - d


@compiled
def _eights(values: Any) -> None:
    """The three stages at strides 1, 2 and 4."""
    for i in range(0, values.size, 8):
        a, b = values[i] + values[i + 1], values[i] - values[i + 1]
        c, d = values[i + 2] + values[i + 3], values[i + 2] - values[i + 3]
        e, f = values[i + 4] + values[i + 5], values[i + 4] - values[i + 5]
        g, h = values[i + 6] + values[i + 7], values[i + 6] - values[i + 7]
        a, b, c, d = a + c, b + d, a - c, b - d
        e, f, g, h = e + g, f + h, e - g, f - h
        values[i] = a + e
        values[i + 1] = b + f
        values[i + 2] = c + g
        values[i + 3] = d + h
        values[i + 4] = a - e
        values[i + 5] = b - f
        values[i + 6] = c - g
        values[i + 7] = d - h


@compiled
def _stages(values: Any, first: Any, last: Any) -> None:
    """All stages at strides first, 2 first, ... below `last`."""
    stride = first
    if stride == 1 and last >= 8:
        _eights(values)
        stride = 8
    while 4 * stride <= last:
        _fours(values, stride)
        stride *= 4
    if stride < last:
        _pairs(values, stride)


@compiled
def _butterflies(values: Any, first: Any, last: Any) -> None:
    """The stages of every stretch of `last` numbers: those of short strides block by block, then the others."""
    if last <= _BLOCK:
        block = last * (_BLOCK // last)
        inside = last
    else:
        inside = first
        while 2 * inside <= _BLOCK and inside < last:
            inside *= 2
        block = inside
    if inside > first:
        for start in range(0, values.size, block):
            _stages(values[start : start + block], first, inside)
    if inside < last:
        _stages(values, inside, last)


@compiled
def haar(values: Any, work: Any) -> None:
    """Haar coefficients along the middle axis of (outer, n, inner), in place: the mean, then details, coarse to fine.

    Coefficient 2^k + j is the detail of stretch j of n / 2^k cells: its left half less its right half.
    """
    for outer in range(values.shape[0]):
        block = values[outer]
        size = block.shape[0]
        while size > 1:
            half = size // 2
            for i in range(half):
                for j in range(block.shape[1]):
                    a, b = block[2 * i, j], block[2 * i + 1, j]
                    block[i, j] = (a + b) * _HALF
                    work[i, j] = (a - b) * _HALF
            for i in range(half):
                for j in range(block.shape[1]):
                    block[half + i, j] = work[i, j]
            size = half


@compiled
def haar_back(values: Any, work: Any) -> None:
    """The transpose of `haar`, which is its inverse."""
    for outer in range(values.shape[0]):
        block = values[outer]
        half = 1
        while half < block.shape[0]:
            for i in range(half):
                for j in range(block.shape[1]):
                    work[i, j] = block[half + i, j]
            for i in range(half - 1, -1, -1):  # from the end, so that no number is overwritten before it was read
                for j in range(block.shape[1]):
                    a, b = block[i, j], work[i, j]
                    block[2 * i, j] = (a + b) * _HALF
                    block[2 * i + 1, j] = (a - b) * _HALF
            half *= 2


def batch_of(values: Reals, width: int, what: str) -> Reals:
    """`values` as float64, if the last axis holds `width` numbers; `what` they are is for the error."""
    found: Reals = np.asarray(values, dtype=np.float64)
    if found.ndim < 1 or found.shape[-1] != width:
        raise InputError(f"{width} {what} on the last axis", f"an array of shape {found.shape}", "reshape it")
    return found


def sealed(values: Reals) -> Reals:
    """The same array, which cannot be written to any more."""
    values.flags.writeable = False
    return values


def next_power(size: int) -> int:
    """The smallest power of two that is no smaller."""
    return 1 << (size - 1).bit_length()
