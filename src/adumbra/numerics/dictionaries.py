"""Dictionaries: the atoms in which a histogram, or an encoded row, is taken to be sparse.

A signal is a histogram over a cross-product of columns, of shape (n1, ..., nd), as one vector of N = n1 ... nd
numbers in C order. A dictionary Phi has one atom, a vector of N numbers, in each of its columns. `synthesis` adds
atoms up (Phi c), `analysis` multiplies a signal by every atom (Phi' x); both go through fast transforms, so that
only a learnt Phi is ever a matrix.

All but the learnt one satisfy Phi Phi' = I: `synthesis(analysis(x))` is x. The identity and the DCT are orthonormal
bases. Haar and Walsh-Hadamard need axes of a power of two; other axes are continued by cells that do not exist, and
an atom is what the longer basis has on the cells that do. Such atoms are more than N, may be shorter than 1, and some
of Haar are zero, with a length of exactly 0.

An axis that is continued is less than doubled, but axes multiply: 2^20 cells have at most 2^26 atoms.

The bases are those of any textbook (Mallat, "A Wavelet Tour of Signal Processing", 3rd edition, 2009); continued axes
are our own.
Nothing here knows of privacy. A dictionary must not be made from private rows; see `models/dictionary_learning.py`.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
from scipy import fft

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import one_of
from adumbra.numerics.fast_transforms import batch_of, haar, haar_back, hadamard, next_power, sealed

__all__ = ["LARGEST", "NAMES", "Dictionary", "dictionary", "rebuilt"]


NAMES = ("identity", "dct", "haar", "walsh-hadamard", "learnt")
LARGEST = 1 << 20  # cells of a domain

_UNIT = 1e-9  # a column this near to length 1 is left as it is, so that normalising twice changes no bit


class Dictionary(Protocol):
    """Atoms, and products with all of them. Leading axes are batches; everything is float64."""

    @property
    def name(self) -> str:
        """One of `NAMES`."""

    @property
    def cells(self) -> int:
        """Numbers in a signal."""

    @property
    def atoms(self) -> int:
        """Atoms, those that are zero included."""

    def synthesis(self, coefficients: Reals) -> Reals:
        """The sum of all atoms, each times its coefficient: (..., atoms) to (..., cells)."""

    def analysis(self, signal: Reals) -> Reals:
        """The product of a signal with every atom: (..., cells) to (..., atoms)."""

    def atom(self, index: int) -> Reals:
        """One atom, in an array of its own: (cells,)."""

    @property
    def lengths(self) -> Reals:
        """The Euclidean length of each atom, exactly 0 for those that are zero; not to be written to."""

    def recipe(self) -> dict[str, Any]:
        """What `rebuilt` needs, ready for JSON; a learnt one also needs its matrix."""


def dictionary(name: str, shape: tuple[int, ...], matrix: Reals | None = None) -> Dictionary:
    """The dictionary of this name for signals over a domain of this shape.

    `matrix` (cells, atoms) is for the learnt one and for no other; its columns are scaled to length 1. Edge cases: a
    column of zeros, a number that is not finite, and a domain of more than 2^20 cells are refused.

    >>> haar = dictionary("haar", (3,))
    >>> haar.analysis(np.array([4.0, 2.0, 6.0])).round(3).tolist()
    [6.0, 0.0, 1.414, 4.243]
    """
    one_of(NAMES, name=name)
    sizes = _sizes(shape)
    if (matrix is not None) != (name == "learnt"):
        raise InputError(
            "a matrix for the learnt dictionary, and for no other",
            f"name = {name!r} and {'no' if matrix is None else 'a'} matrix",
            "learn one from a public table, or leave the matrix out",
        )
    if matrix is not None:
        return _Learnt(sizes, matrix)
    return _FIXED[name](sizes)


def rebuilt(recipe: Mapping[str, Any], matrix: Reals | None = None) -> Dictionary:
    """The dictionary that gave this recipe.

    Guarantee: a learnt one is refused unless its matrix is the very one, to the last bit.
    """
    if not isinstance(recipe.get("name"), str) or not isinstance(recipe.get("shape"), Sequence):
        raise InputError("a recipe with name and shape", f"keys {', '.join(map(str, recipe))}", "use `recipe()`'s")
    found = dictionary(recipe["name"], tuple(recipe["shape"]), matrix)
    if found.recipe() != dict(recipe):
        raise InputError(
            "the matrix that this recipe was made of",
            "another one, or another recipe",
            "take both from the same release",
        )
    return found


def _sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = tuple(shape)
    whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in sizes)
    if not sizes or not whole or min(sizes) < 1 or math.prod(map(int, sizes)) > LARGEST:
        raise InputError(
            f"a domain of 1 to {LARGEST} cells",
            f"shape {' x '.join(map(str, sizes)) or 'of no axes'}",
            "take fewer columns, or coarser cells",
        )
    return tuple(map(int, sizes))


class _Base(ABC):
    """What all dictionaries share: checks, and batches made one axis."""

    name: str

    def __init__(self, shape: tuple[int, ...], atoms: int) -> None:
        self.shape = shape
        self.cells = math.prod(shape)
        self.atoms = atoms

    def synthesis(self, coefficients: Reals) -> Reals:
        given = batch_of(coefficients, self.atoms, "coefficients")
        return self._synthesis(given.reshape(-1, self.atoms)).reshape(*given.shape[:-1], self.cells)

    def analysis(self, signal: Reals) -> Reals:
        given = batch_of(signal, self.cells, "cells")
        return self._analysis(given.reshape(-1, self.cells)).reshape(*given.shape[:-1], self.atoms)

    def atom(self, index: int) -> Reals:
        if not 0 <= index < self.atoms:
            raise InputError(f"an atom from 0 to {self.atoms - 1}", f"atom {index}", "pick one of them")
        return self._atom(int(index))

    @cached_property
    def lengths(self) -> Reals:
        return sealed(np.ones(self.atoms))

    def recipe(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape)}

    @abstractmethod
    def _synthesis(self, coefficients: Reals) -> Reals:
        """Of rows of coefficients, which may not be written to; the answer is an array of its own."""

    @abstractmethod
    def _analysis(self, signals: Reals) -> Reals:
        """Of rows of signals, which may not be written to; the answer is an array of its own."""

    @abstractmethod
    def _atom(self, index: int) -> Reals: ...


class _CellAtoms(_Base):
    """An atom is a cell: for histograms with few cells in use."""

    name = "identity"

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape, math.prod(shape))

    def _synthesis(self, coefficients: Reals) -> Reals:
        return coefficients.copy()

    def _analysis(self, signals: Reals) -> Reals:
        return signals.copy()

    def _atom(self, index: int) -> Reals:
        out = np.zeros(self.cells)
        out[index] = 1.0
        return out


class _AxisProducts(_Base):
    """An atom is a product of one atom of each axis."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        # An axis of one cell has one atom, the number 1. Without them there are at most 20.
        self.axes = tuple(size for size in shape if size > 1) or (1,)
        self.grid = tuple(map(self._axis_atoms, self.axes))
        super().__init__(shape, math.prod(self.grid))
        self._real = (slice(None), *map(slice, self.axes))

    @staticmethod
    @abstractmethod
    def _axis_atoms(size: int) -> int:
        """Atoms of an axis of this many cells."""

    @staticmethod
    @abstractmethod
    def _axis_atom(size: int, index: int) -> Reals:
        """One atom of an axis of this many cells."""

    def _atom(self, index: int) -> Reals:
        places = np.unravel_index(index, self.grid)
        return reduce(_outer, map(self._axis_atom, self.axes, map(int, places)))

    def _continued(self, signals: Reals) -> Reals:
        """Signals on the grid, zero where there is no cell; an array of its own."""
        if self.atoms == self.cells:
            return signals.reshape(-1, *self.grid).copy()
        out = np.zeros((len(signals), *self.grid))
        out[self._real] = signals.reshape(-1, *self.axes)
        return out

    def _cut(self, values: Reals) -> Reals:
        return values.reshape(-1, *self.grid)[self._real].reshape(-1, self.cells)


def _outer(first: Reals, second: Reals) -> Reals:
    return np.multiply.outer(first, second).reshape(-1)


class _Cosines(_AxisProducts):
    """Orthonormal DCT-II along each axis: for smooth histograms over ordered cells."""

    name = "dct"

    @staticmethod
    def _axis_atoms(size: int) -> int:
        return size

    @staticmethod
    def _axis_atom(size: int, index: int) -> Reals:
        scale = math.sqrt((1 if index == 0 else 2) / size)
        # Whole angles are reduced before the cosine, so that its error does not grow with them.
        angles = (2 * np.arange(size, dtype=np.int64) + 1) * index % (4 * size)
        out: Reals = np.cos(angles * (math.pi / (2 * size))) * scale
        return out

    def _synthesis(self, coefficients: Reals) -> Reals:
        return self._along_axes(coefficients, fft.idctn)

    def _analysis(self, signals: Reals) -> Reals:
        return self._along_axes(signals, fft.dctn)

    def _along_axes(self, rows: Reals, transform: Any) -> Reals:
        values = rows.reshape(-1, *self.axes)
        longer = [axis + 1 for axis, size in enumerate(self.axes) if size > 2]
        values = np.ascontiguousarray(transform(values, type=2, norm="ortho", axes=longer)) if longer else values.copy()
        # The cosines of two cells are sum and difference: neighbouring axes of two go through `hadamard` together,
        # which is many times as fast.
        first, pairs = 0, 0
        for two, run in itertools.groupby(self.axes, lambda size: size == 2):
            behind = first + len(list(run))
            if two:
                hadamard(values.reshape(-1, 1 << (behind - first), math.prod(self.axes[behind:])), axis=1)
                pairs += behind - first
            first = behind
        if pairs:
            values *= math.sqrt(0.5**pairs)
        return values.reshape(-1, self.cells)


class _Wavelets(_AxisProducts):
    """Orthonormal Haar wavelets along each axis: for histograms that are level in stretches."""

    name = "haar"

    @staticmethod
    def _axis_atoms(size: int) -> int:
        return next_power(size)

    @staticmethod
    def _axis_atom(size: int, index: int) -> Reals:
        whole = next_power(size)
        out = np.zeros(whole)
        if index == 0:
            out[:] = 1 / math.sqrt(whole)
        else:
            stretches = 1 << (index.bit_length() - 1)
            width = whole // stretches
            start = (index - stretches) * width
            out[start : start + width // 2] = 1 / math.sqrt(width)
            out[start + width // 2 : start + width] = -1 / math.sqrt(width)
        return out[:size]

    @cached_property
    def lengths(self) -> Reals:
        return sealed(reduce(_outer, map(self._axis_lengths, self.axes)))

    @staticmethod
    def _axis_lengths(size: int) -> Reals:
        """By counting the cells of each atom that exist: all of them is exactly 1, none exactly 0."""
        whole = next_power(size)
        squares = [np.array([size / whole])]
        width = whole
        while width > 1:
            starts = np.arange(0, whole, width)
            squares.append(np.clip(size - starts, 0, width) / width)
            width //= 2
        out: Reals = np.sqrt(np.concatenate(squares))
        return out

    def _synthesis(self, coefficients: Reals) -> Reals:
        return self._cut(self._along_axes(coefficients.reshape(-1, *self.grid).copy(), haar_back))

    def _analysis(self, signals: Reals) -> Reals:
        return self._along_axes(self._continued(signals), haar).reshape(-1, self.atoms)

    def _along_axes(self, values: Reals, transform: Any) -> Reals:
        inner = 1
        for size in reversed(self.grid):
            if size > 1:
                transform(values.reshape(-1, size, inner), np.empty((size // 2, inner)))
            inner *= size
        return values


class _WalshFunctions(_AxisProducts):
    """Orthonormal Walsh-Hadamard functions along each axis, in the order of `hadamard`: for tables of flags."""

    name = "walsh-hadamard"

    @staticmethod
    def _axis_atoms(size: int) -> int:
        return next_power(size)

    @staticmethod
    def _axis_atom(size: int, index: int) -> Reals:
        odd = np.bitwise_count(np.arange(size, dtype=np.int64) & index) & 1
        return np.where(odd, -1.0, 1.0) / math.sqrt(next_power(size))

    @cached_property
    def lengths(self) -> Reals:
        return sealed(np.full(self.atoms, math.sqrt(self.cells / self.atoms)))

    def _synthesis(self, coefficients: Reals) -> Reals:
        # Along all axes of powers of two is along the one axis of their product.
        return self._cut(hadamard(coefficients / math.sqrt(self.atoms)))

    def _analysis(self, signals: Reals) -> Reals:
        grids = self._continued(signals).reshape(-1, self.atoms)
        grids /= math.sqrt(self.atoms)
        return hadamard(grids)


class _Learnt(_Base):
    """Any atoms of length 1, as the columns of a matrix (cells, atoms)."""

    name = "learnt"

    def __init__(self, shape: tuple[int, ...], matrix: Reals) -> None:
        columns = np.array(matrix, dtype=np.float64, order="C")
        cells = math.prod(shape)
        if columns.ndim != 2 or columns.shape[0] != cells or columns.shape[1] < 1:
            raise InputError(
                f"a matrix of {cells} rows, with an atom in each column",
                f"an array of shape {columns.shape}",
                "learn it for this domain",
            )
        lengths = np.linalg.norm(columns, axis=0)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise InputError("finite columns that are not zero", "one that is", "leave it out")
        columns /= np.where(np.abs(lengths - 1) <= _UNIT, 1.0, lengths)
        super().__init__(shape, columns.shape[1])
        self.matrix = sealed(columns)

    def _synthesis(self, coefficients: Reals) -> Reals:
        return coefficients @ self.matrix.T

    def _analysis(self, signals: Reals) -> Reals:
        return signals @ self.matrix

    def _atom(self, index: int) -> Reals:
        return self.matrix[:, index].copy()

    def recipe(self) -> dict[str, Any]:
        digest = hashlib.sha256(np.array(self.matrix.shape, dtype="<i8").tobytes())
        digest.update(self.matrix.astype("<f8").tobytes())
        return super().recipe() | {"sha256": digest.hexdigest()}


_FIXED: dict[str, type[_CellAtoms] | type[_AxisProducts]] = {
    kind.name: kind for kind in (_CellAtoms, _Cosines, _Wavelets, _WalshFunctions)
}
