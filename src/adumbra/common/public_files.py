"""Public matrices that a user keeps in a file: a basis, a dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adumbra.common.array_files import load_array
from adumbra.common.errors import InputError

__all__ = ["read_matrix"]

_LARGEST = 1e100
"""Squares of such numbers can still be added up."""


def read_matrix(file: Path, option: str, layout: str, remedy: str) -> NDArray[np.float64]:
    """Two dimensions of real numbers from a .npy file; no pickles. `layout` says what a row or column is."""
    if not file.exists():
        raise InputError(f"a file for {option} that exists", file.name, f"check the path of {option}")
    try:
        loaded = load_array(file)
        if loaded.dtype.kind not in "fiub":
            raise ValueError
    except (OSError, ValueError, TypeError):
        raise InputError(f"a .npy file of real numbers, {layout}", file.name, remedy) from None
    if loaded.ndim != 2:
        raise InputError(f"a .npy file of two dimensions, {layout}", f"shape {loaded.shape}", remedy)
    matrix = np.array(loaded, dtype=np.float64)
    if not bool((np.abs(matrix) <= _LARGEST).all()):
        raise InputError(f"finite numbers of at most {_LARGEST:g} in size in {option}", "others", remedy)
    return matrix
