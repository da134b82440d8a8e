"""Public rows in blocks of float64, checked as they are read; stored arrays, checked as they are loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals

__all__ = ["as_table", "damaged", "map_rows", "row_blocks", "seeded_generator", "stored_array", "too_large"]


_BLOCK = 1 << 22  # numbers converted at a time: 32 MB


def as_table(rows: ArrayLike) -> NDArray[Any]:
    """Check the shape; the numbers are checked as they are read."""
    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 1 or table.dtype.kind not in "fiub":
        raise InputError(
            "a table of numbers with two rows or more", f"{table.dtype} of shape {table.shape}", "encode the rows first"
        )
    return table


def row_blocks(table: NDArray[Any], whole: bool = False) -> Iterator[Reals]:
    """The rows in float64, some at a time, refused where a number is missing."""
    step = len(table) if whole else max(1, _BLOCK // max(1, table.shape[1]))
    for start in range(0, len(table), step):
        block = np.asarray(table[start : start + step], dtype=np.float64)
        if not np.isfinite(block).all():
            raise InputError("rows of finite numbers", "an empty or infinite number", "fill or drop such rows first")
        yield block


def map_rows(rows: ArrayLike, width: int, columns: int, function: Callable[[Reals], Reals]) -> Reals:
    """What `function` makes of `rows` of `width` numbers, block by block: `columns` numbers for each."""
    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != width or table.dtype.kind not in "fiub":
        raise InputError(
            f"rows of {width} numbers", f"{table.dtype} of shape {table.shape}", "encode them as the fitting rows were"
        )
    out = np.empty((len(table), columns))
    start = 0
    for block in row_blocks(table):
        out[start : start + len(block)] = function(block)
        start += len(block)
    return out


def seeded_generator(seed: bytes, purpose: bytes) -> np.random.Generator:
    """Of public choices: the same for the same seed and purpose."""
    key = hashlib.sha256(seed + b"\0" + purpose).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key[:16], dtype=np.uint64)))


def stored_array(arrays: Mapping[str, NDArray[Any]], name: str) -> Reals:
    """An array of finite numbers."""
    if name not in arrays:
        raise damaged(f"no {name}")
    found = np.asarray(arrays[name])
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise damaged(f"a {name} that is not made of finite numbers")
    return found.astype(np.float64)


def damaged(got: str) -> InputError:
    """The error for stored arrays that are not as they were."""
    return InputError("the arrays of a fitted projection or kernel map", got, "fit it again")


def too_large() -> InputError:
    """The error for numbers whose squares are none."""
    return InputError("numbers whose squares can be added", "far larger ones", "scale the columns first")
