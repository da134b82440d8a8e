"""Arrays and frames in files, which somebody else may have written: no pickles, and errors of one kind.

A few bytes can claim a million million numbers, and a packed file can hold them. So an array is only read if its head
claims just what follows it; packed arrays, which adumbra never writes, are refused.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.lib import format as npy
from numpy.typing import NDArray

from adumbra.common.errors import InputError, is_panic

__all__ = ["load_array", "load_arrays", "load_frame", "read_matrix", "save_arrays"]


_MALFORMED = (SyntaxError, TokenError, TypeError, KeyError, EOFError, OverflowError, RecursionError, MemoryError)
"""What numpy raises, beside ValueError, about the head of an array that numpy did not write."""


def load_array(file: Path) -> NDArray[Any]:
    """The array of a .npy file; ValueError or OSError if it is no whole one."""
    with file.open("rb") as stream:
        return _array(stream, file.stat().st_size)


def load_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file, by name; ValueError or OSError if it is no whole one."""
    arrays = {}
    try:
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            if sum(member.file_size for member in members) > file.stat().st_size:
                raise ValueError("more in it than the file has bytes")
            for member in members:
                with packed.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _array(stream, member.file_size)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise ValueError("no .npz file that numpy writes") from error
    return arrays


def save_arrays(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays under their names to a .npz file, unpacked (noise does not compress) and never as pickles."""
    # one by one: `np.savez` of older versions takes `allow_pickle` for the name of an array
    with zipfile.ZipFile(file, "w") as packed:
        for name, array in arrays.items():
            with packed.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, np.asarray(array), allow_pickle=False)


def load_frame(file: Path) -> pl.DataFrame:
    """The rows of a Parquet file; ValueError or OSError if it is no whole one."""
    try:
        return pl.read_parquet(file, glob=False)  # a folder may be called a[b]
    except (pl.exceptions.PolarsError, MemoryError) as error:
        raise ValueError("no Parquet file") from error
    except BaseException as error:
        if is_panic(error):
            raise ValueError("no Parquet file") from None
        raise


def _array(stream: IO[bytes], size: int) -> NDArray[Any]:
    try:
        version = npy.read_magic(stream)
        heads = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in heads:  # newer ones are for records with names, which are no numbers
            raise ValueError(f"version {version}")
        shape, _, dtype = heads[version](stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != size - stream.tell():
            raise ValueError("another length than its head claims")
        stream.seek(0)
        return np.asarray(npy.read_array(stream, allow_pickle=False))
    except _MALFORMED as error:
        raise ValueError("no array that numpy writes") from error


# Public matrices that a user keeps in a file: a basis, a dictionary.

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
