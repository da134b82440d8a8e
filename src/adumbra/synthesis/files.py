"""Public matrices that a user keeps in a file: a basis, a dictionary."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError

__all__ = ["read_matrix"]

_LARGEST = 1e100
"""Squares of such numbers can still be added up."""


def read_matrix(file: Path, option: str, layout: str, remedy: str) -> NDArray[np.float64]:
    """Two dimensions of real numbers from a .npy file; no pickles. `layout` says what a row or column is."""
    if not file.exists():
        raise InputError(f"a file for {option} that exists", file.name, f"check the path of {option}")
    try:
        with file.open("rb") as stream:
            _check_header(stream, file.stat().st_size)
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, TypeError, EOFError):
        raise InputError(f"a .npy file of real numbers, {layout}", file.name, remedy) from None
    if loaded.ndim != 2:
        raise InputError(f"a .npy file of two dimensions, {layout}", f"shape {loaded.shape}", remedy)
    matrix = np.array(loaded, dtype=np.float64)
    if not bool((np.abs(matrix) <= _LARGEST).all()):
        raise InputError(f"finite numbers of at most {_LARGEST:g} in size in {option}", "others", remedy)
    return matrix


def _check_header(stream: BinaryIO, size: int) -> None:
    """Refuse a header of anything but real numbers, or of more than the file holds, before memory is taken."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError("another version of the format")
    shape, _, kind = readers[version](stream)
    if kind.kind not in "fiub" or any(side < 0 for side in shape) or math.prod(shape) * kind.itemsize > size:
        raise ValueError("no array of real numbers that fits the file")
