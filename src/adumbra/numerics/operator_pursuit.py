"""Orthogonal matching pursuit of one signal in a matrix that is never formed.

The pursuit of Pati, Rezaiifar and Krishnaprasad, "Orthogonal Matching Pursuit: Recursive Function Approximation with
Applications to Wavelet Decomposition" (Asilomar, 1993), by Gram-Schmidt with each new column made orthogonal twice,
which is enough ("Rounding error analysis of the classical Gram-Schmidt orthogonalization process", Giraud et al.).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from adumbra.common.errors import InputError
from adumbra.common.types import Progress, Reals
from adumbra.numerics.integer_kernels import compiled
from adumbra.numerics.sparse_codes import (
    IN_SPAN,
    NIL,
    SparseCodes,
    finite_array,
    inverse_lengths,
    most_atoms,
    nothing_found,
    squared_lengths,
    stopping_level,
)

__all__ = ["MatrixOperator", "Operator", "pursue_one", "pursue_operator"]


class Operator(Protocol):
    """A matrix that is never formed."""

    @property
    def shape(self) -> tuple[int, int]:
        """Measurements and atoms."""

    @property
    def lengths(self) -> Reals:
        """Length of every column; one of length 0 is never chosen."""

    def correlate(self, residual: Reals) -> Reals:
        """The product of every column with a vector of measurements."""

    def column(self, atom: int) -> Reals:
        """One column, as a vector of measurements."""


class MatrixOperator:
    """A matrix at hand, as an operator.

    >>> MatrixOperator(np.array([[3.0, 0.0], [4.0, 2.0]])).lengths.tolist()
    [5.0, 2.0]
    """

    def __init__(self, matrix: Reals) -> None:
        self._matrix = finite_array(matrix, 2, "matrix")
        self.shape: tuple[int, int] = (self._matrix.shape[0], self._matrix.shape[1])
        self.lengths: Reals = np.sqrt(squared_lengths(self._matrix.T, "matrix"))

    def correlate(self, residual: Reals) -> Reals:
        """The product of every column with a vector of measurements."""
        return np.asarray(residual @ self._matrix)

    def column(self, atom: int) -> Reals:
        """One column."""
        return self._matrix[:, atom]


def pursue_operator(
    operator: Operator,
    signal: Reals,
    *,
    atoms: int,
    residual: float | None = None,
    correlation: float | None = None,
    progress: Progress | None = None,
) -> SparseCodes:
    """One signal as a combination of few columns of a matrix that is never formed.

    Chooses and stops as `pursue` does; besides, it stops when no column's product with what is left, divided by the
    column's length, is above `correlation`, if that is given: what noise alone would reach. `progress` is called with
    ("pursuit", columns found, `atoms`) after each one.

    Guarantee: as `pursue`, with what is left known to rounding. One call of `correlate` and one of `column` for each
    column chosen, and a few more numbers than measurements times chosen columns, plus the atoms, in memory.

    >>> found = pursue_operator(MatrixOperator(np.eye(3)), np.array([1.0, -4.0, 2.0]), atoms=3, correlation=1.5)
    >>> found.support.tolist(), found.coefficients.tolist(), found.residual.tolist()
    ([[1, 2, -1]], [[-4.0, 2.0, 0.0]], [1.0])
    """
    measurements, width = operator.shape
    values = finite_array(signal, 1, "signal")
    if len(values) != measurements:
        raise InputError(
            f"a signal of {measurements} numbers", f"{len(values)} numbers", "give one for each measurement"
        )
    lengths = finite_array(operator.lengths, 1, "lengths")
    if len(lengths) != width or np.any(lengths < 0):
        raise InputError(f"{width} lengths, none below 0", f"shape {lengths.shape}", "give one for each column")
    squared_lengths(values[None, :], "signal")
    most = most_atoms(atoms, measurements, width)
    limit, floor = stopping_level("residual", residual), max(stopping_level("correlation", correlation), 0.0)
    return pursue_one(operator, inverse_lengths(lengths), values, most, limit, floor, progress)


@compiled
def _furthest(products: Any, scale: Any) -> Any:
    """The first column that points furthest along, and how far; -1 if a product is not finite."""
    best, where = 0.0, 0
    spoilt = 0.0
    for j in range(products.size):
        value = products[j] * scale[j]
        spoilt += value * 0.0
        if abs(value) > best:
            best, where = abs(value), j
    return (where, best) if spoilt == 0.0 else (-1, 0.0)


def pursue_one(
    operator: Operator,
    scale: Reals,
    signal: Reals,
    most: int,
    limit: float,
    floor: float,
    progress: Progress | None,
) -> SparseCodes:
    """Pursue a checked `signal` in `operator`, whose columns have lengths of one over `scale`.

    Stops after `most` columns, when what is left has a squared length of at most `limit`, or when no column has a
    product above `floor` with it. `progress` is told of each column.
    """
    found, rest = nothing_found(1, most), signal.copy()
    basis = np.empty((most, len(signal)))  # pages that are never written cost nothing
    upper, along = np.zeros((most, most)), np.zeros(most)
    left, stop, k = float(rest @ rest), -1.0, 0
    while k < most and not left <= limit:
        atom, high = _furthest(_answer(operator.correlate(rest), len(scale), "correlate"), scale)
        if atom < 0:
            raise InputError("finite products from correlate", "others", "check the operator")
        stop = max(floor, NIL * high) if k == 0 else stop
        if not high > stop:
            break
        fresh = _answer(operator.column(int(atom)), len(signal), "column") * scale[atom]
        before = basis[:k]
        for _ in range(2):  # once is not enough for a column near the span
            parts = before @ fresh
            fresh -= parts @ before
            upper[:k, k] += parts
        outside = float(fresh @ fresh)
        if not math.isfinite(outside):
            raise InputError("a finite column", "others", "check the operator")
        if outside <= IN_SPAN:
            break
        upper[k, k] = math.sqrt(outside)
        basis[k] = fresh / upper[k, k]
        along[k] = basis[k] @ rest
        rest -= along[k] * basis[k]
        left = float(rest @ rest)
        found.support[0, k] = atom
        k += 1
        if progress is not None:
            progress("pursuit", k, most)
    if k:
        chosen = found.support[0, :k]
        found.coefficients[0, :k] = solve_triangular(upper[:k, :k], along[:k]) * scale[chosen]
    found.used[0], found.residual[0] = k, left
    return found


def _answer(values: Reals, size: int, name: str) -> Reals:
    """What an operator returned, if it has the right size."""
    out = np.ascontiguousarray(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{size} numbers from {name}", f"shape {out.shape}", "check the operator")
    return out
