"""Orthogonal matching pursuit: the few columns of a matrix whose combination comes close to a signal.

Greedy: take the column that points most along what is left, fit the signal by least squares on all columns taken so
far, go on with what is left. Stop after a number of columns or at a noise level that the caller knows. Nothing here
knows of privacy; the result is a function of its arguments alone.

Many signals and one matrix (`pursue`, `pursue_gram`) go through the Gram matrix G = D'D of the unit columns, as in
Batch-OMP (Rubinstein, Zibulevsky and Elad 2008), whose progressive Cholesky factor is kept in another form. With q_1,
q_2, ... the chosen columns made orthonormal one after the other, the kernel keeps their images u_i = D'q_i. Then
L[k, i] = u_i[j] is the factor's row for a new column j, without a solve;

    u_k = (G[j] - sum_i L[k, i] u_i) / L[k, k]

reads one row of G and the images, which stay in the core's own cache where rows of G, chosen anew for every signal,
would not; and what is left has the correlations alpha - (alpha[j] / L[k, k]) u_k.

One signal and a matrix that is never formed (`pursue_operator`) keeps the q_i themselves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least
from adumbra.linalg.rows import compiled, one_thread_each

__all__ = ["MatrixOperator", "Operator", "Sparse", "pursue", "pursue_gram", "pursue_operator"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

NIL = 2.0**-40
"""Correlations below this share of a signal's first one are rounding: nothing is left to be found."""
IN_SPAN = 2.0**-40
"""A column of which no more than this share of its squared length lies outside the span of others counts as in it."""
SHORTEST = 1e-145
"""A column no longer than this counts as zero: its square has lost digits."""
BLOCK = 128  # signals that one worker takes at a time; the same for any number of threads, and so are all bits
CHUNK = 128  # atoms that are brought up to date together
_SIZE = np.int64(2**63 - 1)  # all bits of a float64 but its sign
GEMV = 16  # how much more a product with one vector costs, by the number, than one with many


@dataclass(frozen=True, eq=False)
class Sparse:
    """What was found, one row for each signal."""

    support: NDArray[np.int64]
    """Atoms in the order found, -1 where fewer were used: (signals, most)."""
    coefficients: NDArray[np.float64]
    """Theirs, least squares on the columns as given; 0 where fewer were used."""
    used: NDArray[np.int64]
    """How many atoms each signal got."""
    residual: NDArray[np.float64]
    """Squared length of what is left of each signal; not a number where the signal's own length was not given."""

    def dense(self, atoms: int) -> NDArray[np.float64]:
        """The coefficients of all atoms, zeros included: (signals, atoms).

        >>> found = pursue(np.eye(3), np.array([[0.0, 5.0, -7.0]]), atoms=1)
        >>> found.dense(3).tolist()
        [[0.0, 0.0, -7.0]]
        """
        highest = int(self.support.max(initial=-1))
        atoms = at_least(highest + 1, "give the number of columns of the matrix", atoms=atoms)
        out = np.zeros((len(self.support), atoms))
        row, place = np.nonzero(self.support >= 0)
        out[row, self.support[row, place]] = self.coefficients[row, place]
        return out


class Operator(Protocol):
    """A matrix that is never formed."""

    @property
    def shape(self) -> tuple[int, int]:
        """Measurements and atoms."""

    @property
    def lengths(self) -> Vector:
        """Length of every column; one of length 0 is never chosen."""

    def correlate(self, residual: Vector) -> Vector:
        """The product of every column with a vector of measurements."""

    def column(self, atom: int) -> Vector:
        """One column, as a vector of measurements."""


class MatrixOperator:
    """A matrix at hand, as an operator.

    >>> MatrixOperator(np.array([[3.0, 0.0], [4.0, 2.0]])).lengths.tolist()
    [5.0, 2.0]
    """

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = _numbers(matrix, 2, "matrix")
        self.shape: tuple[int, int] = (self._matrix.shape[0], self._matrix.shape[1])
        self.lengths: Vector = np.sqrt(_squares(self._matrix.T, "matrix"))

    def correlate(self, residual: Vector) -> Vector:
        """The product of every column with a vector of measurements."""
        return np.asarray(residual @ self._matrix)

    def column(self, atom: int) -> Vector:
        """One column."""
        return self._matrix[:, atom]


# ---- many signals


@compiled
def _begin(products: Any, scale: Any, alpha: Any) -> Any:
    """Write a signal's correlations with unit columns; whether they are all finite."""
    spoilt = False
    for j in range(products.size):
        value = products[j] * scale[j]
        alpha[j] = value
        spoilt |= not abs(value) < np.inf
    return not spoilt


@compiled
def _largest(bits: Any) -> Any:
    """The first place of the number that is largest by size.

    `bits` are the numbers as integers. Without their signs these have the same order, and unlike numbers they are
    compared several at a time.
    """
    best, where = np.int64(-1), 0
    for start in range(0, bits.size, CHUNK):
        part = bits[start : start + CHUNK]
        high = np.int64(0)
        for t in range(CHUNK):
            high = max(high, part[t] & _SIZE)
        if high > best:
            best, where = high, start
    while bits[where] & _SIZE != best:
        where += 1
    return where


def _fused(function: Any) -> Any:
    """Compile with leave to round a product and a sum together."""
    return compiled(function, fastmath={"contract"})


@_fused
def _add(row: Any, images: Any, k: Any, factor: Any, root: Any, step: Any, alpha: Any) -> Any:
    """Write the image of the column chosen as number k, and take its part out of the correlations."""
    for c in range(images.shape[0]):
        start = c * CHUNK
        given = row[start : start + CHUNK]
        rest = alpha[start : start + CHUNK]
        fresh = images[c, k]
        for t in range(CHUNK):
            fresh[t] = given[t]
        i = 0
        while i + 4 <= k:  # four at a time, or the new image would be loaded and stored for each
            f0, f1, f2, f3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
            u0, u1, u2, u3 = images[c, i], images[c, i + 1], images[c, i + 2], images[c, i + 3]
            for t in range(CHUNK):
                fresh[t] = fresh[t] - f0 * u0[t] - f1 * u1[t] - f2 * u2[t] - f3 * u3[t]
            i += 4
        while i < k:
            f0, u0 = factor[i], images[c, i]
            for t in range(CHUNK):
                fresh[t] = fresh[t] - f0 * u0[t]
            i += 1
        for t in range(CHUNK):
            image = fresh[t] * root
            fresh[t] = image
            rest[t] = rest[t] - step * image


@compiled
def _pursue_block(
    gram: Any,
    scale: Any,
    products: Any,
    squares: Any,
    limit: Any,
    support: Any,
    coefficients: Any,
    used: Any,
    residual: Any,
) -> Any:
    """Decode one signal after the other; -1, or the first signal whose numbers are not finite.

    `gram` is that of unit columns, its rows filled up with zeros to whole chunks; `scale` is one over their lengths.
    """
    most = support.shape[1]
    images = np.empty((gram.shape[1] // CHUNK, most, CHUNK))
    alpha = np.zeros(gram.shape[1])
    bits = alpha.view(np.int64)
    lower = np.empty((most, most))
    along = np.empty(most)
    for s in range(products.shape[0]):
        if not _begin(products[s], scale, alpha):
            return s
        left = squares[s]
        atom = _largest(bits)
        nil = abs(alpha[atom]) * NIL
        k = 0
        while k < most and abs(alpha[atom]) > nil and not left <= limit:
            outside = gram[atom, atom]
            for i in range(k):
                lower[k, i] = images[atom // CHUNK, i, atom % CHUNK]
                outside -= lower[k, i] * lower[k, i]
            if not outside > IN_SPAN:
                break
            lower[k, k] = np.sqrt(outside)
            along[k] = alpha[atom] / lower[k, k]
            support[s, k] = atom
            left = max(left - along[k] * along[k], 0.0)
            _add(gram[atom], images, k, lower[k], 1.0 / lower[k, k], along[k], alpha)
            atom = _largest(bits)
            k += 1
        for i in range(k - 1, -1, -1):
            value = along[i]
            for later in range(i + 1, k):
                value -= lower[later, i] * coefficients[s, later]
            coefficients[s, i] = value / lower[i, i]
        for i in range(k):
            coefficients[s, i] *= scale[support[s, i]]
        used[s] = k
        residual[s] = left
    return -1


def pursue(
    matrix: Matrix, signals: Matrix, *, atoms: int, residual: float | None = None, threads: int | None = None
) -> Sparse:
    """Every signal (a row) as a combination of few columns of the matrix.

    `matrix` has the shape (measurements, atoms), `signals` (signals, measurements). Columns may have any length; they
    are compared as if they had length 1, and coefficients belong to the columns as given. A zero column is never
    chosen. Of columns that point equally far along what is left, the first is chosen.

    A signal is done after `atoms` columns; as soon as the squared length of what is left is at most `residual`, if
    that is given (before the first column, for a signal that short); or when no column outside the span of those
    chosen points along what is left, up to rounding. What is left is known to some 1e-15 of the signal's squared
    length.

    Guarantee: chosen columns are independent, and coefficients are least squares on them. No bit depends on `threads`
    (default: usable cores, at most 8; `ADUMBRA_THREADS` overrides it). Memory beyond arguments and result: a square
    of the number of atoms, unless the signals are too few for that to pay.

    >>> dictionary = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 3.0]])
    >>> found = pursue(dictionary, np.array([[5.0, 5.0], [0.0, 1.0]]), atoms=2)
    >>> found.support.tolist(), found.used.tolist()
    ([[2, -1], [1, -1]], [1, 1])
    >>> found.coefficients.round(3).tolist()
    [[1.667, 0.0], [0.5, 0.0]]
    """
    given = _numbers(matrix, 2, "matrix")
    rows = _numbers(signals, 2, "signals")
    measurements, width = given.shape
    if rows.shape[1] != measurements:
        raise InputError(
            f"signals of {measurements} numbers, one for each row of the matrix",
            f"signals of {rows.shape[1]} numbers",
            "give one signal in each row",
        )
    most = _most(atoms, measurements, width)
    limit = _limit("residual", residual)
    workers = _threads(threads)
    squares = _squares(rows, "signals")
    if width > GEMV * len(rows) * most:
        return _one_by_one(given, rows, most, limit, workers)
    scale = _inverse(np.sqrt(_squares(given.T, "matrix")))
    unit = np.zeros((measurements, _whole(width)))
    np.multiply(given, scale, out=unit[:, :width])
    with one_thread_each():
        return _in_blocks(unit.T @ unit, scale, lambda block: rows[block] @ given, squares, most, limit, workers)


def pursue_gram(
    gram: Matrix,
    products: Matrix,
    squares: Vector | None = None,
    *,
    atoms: int,
    residual: float | None = None,
    threads: int | None = None,
) -> Sparse:
    """As `pursue`, from what is needed of matrix D and signals alone: `gram` = D'D, `products` = signals D.

    `products` has the shape (signals, atoms): one row for each signal. `squares` are the squared lengths of the
    signals. They are needed where `residual` is given; without them the result's `residual` is not a number.

    Columns are compared as if they had length 1. (scikit-learn's `orthogonal_mp_gram` leaves that to the caller; it
    takes the products by columns, its `tol` overrides the number of atoms, and it takes one atom at least.)
    """
    given = _numbers(gram, 2, "gram")
    images = _table(products, 2, "products")
    width = len(given)
    if given.shape != (width, width):
        raise InputError("a square Gram matrix", f"shape {given.shape}", "give D'D for the matrix D")
    if images.shape[1] != width:
        raise InputError(
            f"products with {width} atoms", f"rows of {images.shape[1]} numbers", "give one row for each signal"
        )
    most = _most(atoms, None, width)
    limit = _limit("residual", residual)
    if squares is None:
        if residual is not None:
            raise InputError("squares beside residual", "none", "give the squared length of every signal")
        lengths = np.full(len(images), math.nan)
    else:
        lengths = _numbers(squares, 1, "squares")
        if len(lengths) != len(images) or np.any(lengths < 0):
            raise InputError(
                f"{len(images)} squared lengths, none below 0", f"shape {lengths.shape}", "give one for each signal"
            )
    workers = _threads(threads)
    square, scale = _unit_gram(given)
    return _in_blocks(square, scale, lambda block: images[block], lengths, most, limit, workers)


def _unit_gram(gram: Matrix) -> tuple[Matrix, Vector]:
    """The Gram matrix of unit columns, filled up to whole chunks, and one over the lengths."""
    width = len(gram)
    diagonal = np.diagonal(gram)
    if np.any(diagonal < 0):
        raise InputError("a Gram matrix", "squared lengths below 0 on its diagonal", "give D'D for the matrix D")
    scale = _inverse(np.sqrt(diagonal))
    out = np.zeros((width, _whole(width)))
    unit = out[:, :width]
    np.multiply(gram, scale[:, None], out=unit)
    unit *= scale
    fault = _gram_fault(unit)
    if fault:
        got = "numbers that differ across its diagonal" if fault == 1 else "products longer than the columns allow"
        raise InputError("a Gram matrix", got, "give D'D for the matrix D")
    return out, scale


@compiled
def _gram_fault(unit: Any) -> Any:
    """1 if not symmetric, 2 if two unit columns have a product above 1, else 0; rounding is forgiven."""
    size = unit.shape[0]
    side = 32  # squares of it, so that rows and columns are both near
    for top in range(0, size, side):
        for start in range(0, top + 1, side):
            for i in range(top, min(top + side, size)):
                for j in range(start, min(start + side, i)):
                    if not abs(unit[i, j] - unit[j, i]) <= 1e-6:
                        return 1
                    if not abs(unit[i, j]) <= 1.0 + 1e-6:
                        return 2
    return 0


def _in_blocks(
    gram: Matrix,
    scale: Vector,
    products: Callable[[slice], Matrix],
    squares: Vector,
    most: int,
    limit: float,
    workers: int,
) -> Sparse:
    """Blocks of signals through the kernel; `gram` and `scale` as it wants them."""
    found = _nothing(len(squares), most)

    def run(start: int) -> int:
        block = slice(start, min(start + BLOCK, len(squares)))
        parts = found.support[block], found.coefficients[block], found.used[block], found.residual[block]
        with np.errstate(over="ignore", invalid="ignore"):
            correlations = products(block)
        bad = int(_pursue_block(gram, scale, correlations, squares[block], limit, *parts))
        if bad >= 0:
            raise InputError("finite products", f"others, in signal {start + bad}", "leave out or repair that signal")
        return bad

    _each(run, range(0, len(squares), BLOCK), workers)
    return found


def _one_by_one(matrix: Matrix, signals: Matrix, most: int, limit: float, workers: int) -> Sparse:
    """Few signals, for which a Gram matrix would cost more than it saves."""
    operator = MatrixOperator(matrix)
    scale = _inverse(operator.lengths)
    with one_thread_each():
        parts = _each(lambda s: _one(operator, scale, signals[s], most, limit, 0.0, None), range(len(signals)), workers)
    if not parts:
        return _nothing(0, most)
    return Sparse(
        np.concatenate([part.support for part in parts]),
        np.concatenate([part.coefficients for part in parts]),
        np.concatenate([part.used for part in parts]),
        np.concatenate([part.residual for part in parts]),
    )


def _each(run: Callable[[int], Any], items: range, workers: int) -> list[Any]:
    """The results for all items, in order; the first error in that order."""
    workers = min(workers, len(items))
    if workers <= 1:
        return [run(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, items))


# ---- one signal


def pursue_operator(
    operator: Operator,
    signal: Vector,
    *,
    atoms: int,
    residual: float | None = None,
    correlation: float | None = None,
    progress: Progress | None = None,
) -> Sparse:
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
    values = _numbers(signal, 1, "signal")
    if len(values) != measurements:
        raise InputError(
            f"a signal of {measurements} numbers", f"{len(values)} numbers", "give one for each measurement"
        )
    lengths = _numbers(operator.lengths, 1, "lengths")
    if len(lengths) != width or np.any(lengths < 0):
        raise InputError(f"{width} lengths, none below 0", f"shape {lengths.shape}", "give one for each column")
    _squares(values[None, :], "signal")
    most = _most(atoms, measurements, width)
    limit, floor = _limit("residual", residual), max(_limit("correlation", correlation), 0.0)
    return _one(operator, _inverse(lengths), values, most, limit, floor, progress)


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


def _one(
    operator: Operator,
    scale: Vector,
    signal: Vector,
    most: int,
    limit: float,
    floor: float,
    progress: Progress | None,
) -> Sparse:
    found = _nothing(1, most)
    rest = signal.copy()
    basis = np.empty((most, len(signal)))  # pages that are never written cost nothing
    upper = np.zeros((most, most))
    along = np.zeros(most)
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


def _answer(values: Vector, size: int, name: str) -> Vector:
    """What an operator returned, if it has the right size."""
    out = np.ascontiguousarray(values, dtype=np.float64)
    if out.shape != (size,):
        raise InputError(f"{size} numbers from {name}", f"shape {out.shape}", "check the operator")
    return out


# ---- arguments


def _nothing(signals: int, most: int) -> Sparse:
    return Sparse(
        np.full((signals, most), -1, np.int64),
        np.zeros((signals, most)),
        np.zeros(signals, np.int64),
        np.zeros(signals),
    )


def _whole(width: int) -> int:
    """The width filled up to whole chunks."""
    return -(-width // CHUNK) * CHUNK


def _table(values: object, dimensions: int, name: str) -> NDArray[np.float64]:
    """A contiguous array of float64 with that many dimensions."""
    try:
        out = np.asarray(values)
    except ValueError:  # rows of different lengths
        out = np.asarray(None)
    if out.dtype.kind not in "biuf" or out.ndim != dimensions:
        raise InputError(
            f"{name} as real numbers in {dimensions} dimension{'s' if dimensions > 1 else ''}",
            f"{out.dtype} of shape {out.shape}",
            "give an array of that form",
        )
    return np.ascontiguousarray(out, dtype=np.float64)


def _numbers(values: object, dimensions: int, name: str) -> NDArray[np.float64]:
    """The same, of finite numbers."""
    out = _table(values, dimensions, name)
    if not np.isfinite(out).all():
        raise InputError(f"{name} of finite numbers", "some that are not", "leave out or repair them")
    return out


def _squares(rows: Matrix, name: str) -> Vector:
    """Squared lengths of rows, where float64 can hold them."""
    with np.errstate(over="ignore"):
        out: Vector = np.einsum("ij,ij->i", rows, rows)
    if not np.isfinite(out).all():
        raise InputError(f"{name} whose squares float64 can hold", "larger numbers", "give them in a larger unit")
    return out


def _inverse(lengths: Vector) -> Vector:
    """One over every length, 0 for a column that counts as zero."""
    return np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > SHORTEST)


def _most(atoms: int, measurements: int | None, width: int) -> int:
    """The number of atoms, if the matrix allows so many."""
    most = at_least(1, "give the most atoms that a signal may use", atoms=atoms)
    size, what = (width, "columns") if measurements is None or width < measurements else (measurements, "measurements")
    if most > size:
        raise InputError(f"atoms <= {size}, the number of {what}", f"atoms = {most}", "ask for fewer")
    return most


def _limit(name: str, value: float | None) -> float:
    """The level to stop at; below every level where none is given."""
    if value is None:
        return -1.0
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer) or not value >= 0:
        raise InputError(f"{name} >= 0", f"{name} = {value}", "give the level of the noise, or None")
    return float(value)


def _threads(threads: int | None) -> int:
    if threads is not None:
        return at_least(1, "give the number of worker threads", threads=threads)
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 8))
