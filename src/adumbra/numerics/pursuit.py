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

The pursuit of one signal in a matrix that is never formed keeps the q_i themselves (`numerics/operator_pursuit.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.numerics.integer_kernels import compiled, one_thread_each, worker_threads
from adumbra.numerics.operator_pursuit import MatrixOperator, pursue_one
from adumbra.numerics.sparse_codes import (
    IN_SPAN,
    NIL,
    SparseCodes,
    array_of,
    finite_array,
    inverse_lengths,
    most_atoms,
    nothing_found,
    squared_lengths,
    stopping_level,
)

__all__ = ["pursue", "pursue_gram"]


BLOCK = 128  # signals that one worker takes at a time; the same for any number of threads, and so are all bits
CHUNK = 128  # atoms that are brought up to date together
_SIZE = np.int64(2**63 - 1)  # all bits of a float64 but its sign
GEMV = 16  # how much more a product with one vector costs, by the number, than one with many


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
    matrix: Reals, signals: Reals, *, atoms: int, residual: float | None = None, threads: int | None = None
) -> SparseCodes:
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
    given = finite_array(matrix, 2, "matrix")
    rows = finite_array(signals, 2, "signals")
    measurements, width = given.shape
    if rows.shape[1] != measurements:
        raise InputError(
            f"signals of {measurements} numbers, one for each row of the matrix",
            f"signals of {rows.shape[1]} numbers",
            "give one signal in each row",
        )
    most = most_atoms(atoms, measurements, width)
    limit = stopping_level("residual", residual)
    workers = _threads(threads)
    squares = squared_lengths(rows, "signals")
    if width > GEMV * len(rows) * most:
        return _one_by_one(given, rows, most, limit, workers)
    scale = inverse_lengths(np.sqrt(squared_lengths(given.T, "matrix")))
    unit = np.zeros((measurements, _whole(width)))
    np.multiply(given, scale, out=unit[:, :width])
    with one_thread_each():
        return _in_blocks(unit.T @ unit, scale, lambda block: rows[block] @ given, squares, most, limit, workers)


def pursue_gram(
    gram: Reals,
    products: Reals,
    squares: Reals | None = None,
    *,
    atoms: int,
    residual: float | None = None,
    threads: int | None = None,
) -> SparseCodes:
    """As `pursue`, from what is needed of matrix D and signals alone: `gram` = D'D, `products` = signals D.

    `products` has the shape (signals, atoms): one row for each signal. `squares` are the squared lengths of the
    signals. They are needed where `residual` is given; without them the result's `residual` is not a number.

    Columns are compared as if they had length 1. (scikit-learn's `orthogonal_mp_gram` leaves that to the caller; it
    takes the products by columns, its `tol` overrides the number of atoms, and it takes one atom at least.)
    """
    given = finite_array(gram, 2, "gram")
    images = array_of(products, 2, "products")
    width = len(given)
    if given.shape != (width, width):
        raise InputError("a square Gram matrix", f"shape {given.shape}", "give D'D for the matrix D")
    if images.shape[1] != width:
        raise InputError(
            f"products with {width} atoms", f"rows of {images.shape[1]} numbers", "give one row for each signal"
        )
    most = most_atoms(atoms, None, width)
    limit = stopping_level("residual", residual)
    if squares is None:
        if residual is not None:
            raise InputError("squares beside residual", "none", "give the squared length of every signal")
        lengths = np.full(len(images), math.nan)
    else:
        lengths = finite_array(squares, 1, "squares")
        if len(lengths) != len(images) or np.any(lengths < 0):
            raise InputError(
                f"{len(images)} squared lengths, none below 0", f"shape {lengths.shape}", "give one for each signal"
            )
    workers = _threads(threads)
    square, scale = _unit_gram(given)
    return _in_blocks(square, scale, lambda block: images[block], lengths, most, limit, workers)


def _unit_gram(gram: Reals) -> tuple[Reals, Reals]:
    """The Gram matrix of unit columns, filled up to whole chunks, and one over the lengths."""
    width = len(gram)
    diagonal = np.diagonal(gram)
    if np.any(diagonal < 0):
        raise InputError("a Gram matrix", "squared lengths below 0 on its diagonal", "give D'D for the matrix D")
    scale = inverse_lengths(np.sqrt(diagonal))
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
    gram: Reals,
    scale: Reals,
    products: Callable[[slice], Reals],
    squares: Reals,
    most: int,
    limit: float,
    workers: int,
) -> SparseCodes:
    """Blocks of signals through the kernel; `gram` and `scale` as it wants them."""
    found = nothing_found(len(squares), most)

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


def _one_by_one(matrix: Reals, signals: Reals, most: int, limit: float, workers: int) -> SparseCodes:
    """Few signals, for which a Gram matrix would cost more than it saves."""
    operator = MatrixOperator(matrix)
    scale = inverse_lengths(operator.lengths)
    with one_thread_each():
        parts = _each(
            lambda s: pursue_one(operator, scale, signals[s], most, limit, 0.0, None), range(len(signals)), workers
        )
    if not parts:
        return nothing_found(0, most)
    return SparseCodes(
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


def _whole(width: int) -> int:
    """The width filled up to whole chunks."""
    return -(-width // CHUNK) * CHUNK


def _threads(threads: int | None) -> int:
    if threads is not None:
        return at_least(1, "give the number of worker threads", threads=threads)
    return worker_threads()
