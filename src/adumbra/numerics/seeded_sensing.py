"""Sensing operators drawn from a public seed.

Random sketches of sparse histograms, with weighted rows, are those of CSM (Zheng, Wang, Wen, Mumtaz, Bashir, Chauhdary,
"Differentially private high-dimensional data publication in Internet of Things", 2019); the ensembles are those of
compressed sensing (Foucart, Rauhut, "A Mathematical Introduction to Compressive Sensing", Birkhäuser, 2013).
All follow from a key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers
from adumbra.noise.lattice import KeyStream, rounded_gaussian
from adumbra.numerics.sensing import (
    FINE,
    LARGEST_MATRIX,
    WEIGHT_STEPS,
    DenseSensing,
    FourierSensing,
    Hadamard,
    Sensing,
    SparseSigns,
    frozen,
)
from adumbra.numerics.strategies import padded

__all__ = ["gains_of", "sensing"]


def gains_of(weights: Sequence[float], numbers: int) -> Integers:
    """Weights as whole numbers: a few are spread over all rows in equal runs; the largest becomes 1."""
    if not len(weights):
        return np.ones(numbers, dtype=np.int64)
    given = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(given).all() and (given > 0).all() and len(given) <= numbers):
        raise InputError(
            f"positive weights, at most one for each of {numbers} measurements",
            f"{len(given)} weights" if np.isfinite(given).all() and (given > 0).all() else "other numbers",
            "give --weights 2,1 for instance: the first half counts twice",
        )
    spread = given[(np.arange(numbers) * len(given)) // numbers]
    if float(spread.min()) == float(spread.max()):
        return np.ones(numbers, dtype=np.int64)
    return np.asarray(np.maximum(np.rint(spread / spread.max() * WEIGHT_STEPS), 1.0), dtype=np.int64)


def sensing(
    kind: str, key: bytes, cells: int, numbers: int, *, nonzeros: int = 4, weights: Sequence[float] = ()
) -> Sensing:
    """Draw a sketch of `cells` cells from a public key. A fourier sketch has an even number of sums."""
    stream = KeyStream(hashlib.sha256(key + b"\0sensing/" + kind.encode()).digest())
    if kind in ("signs", "gaussian"):
        if cells * numbers > LARGEST_MATRIX:
            raise InputError(
                f"at most {LARGEST_MATRIX} entries of a {kind} matrix, which is held in memory",
                f"{numbers} x {cells}",
                "use --sensing hadamard, fourier or sparse-signs, which need no matrix; or fewer measurements",
            )
        gains = gains_of(weights, numbers)
        if kind == "signs":
            matrix = _random_signs(stream, cells * numbers).reshape(numbers, cells).astype(np.int32)
            return DenseSensing(frozen(matrix), 1.0 / math.sqrt(numbers), kind, frozen(gains))
        return DenseSensing(frozen(_unit_columns(stream, numbers, cells)), 1.0 / FINE, kind, frozen(gains))
    if kind == "hadamard":
        size = padded(cells)[0]
        rows = _some_of(stream, size, min(numbers, size))
        gains = gains_of(weights, len(rows))
        return Hadamard(cells, frozen(rows), frozen(_random_signs(stream, cells)), frozen(gains))
    if kind == "fourier":
        most = (cells - 1) // 2
        if most < 1:
            raise InputError("at least 3 cells for a fourier sketch", f"{cells}", "use --sensing hadamard")
        frequencies = 1 + _some_of(stream, most, min(-(-numbers // 2), most))
        gains = gains_of(weights, 2 * len(frequencies))
        return FourierSensing(cells, frozen(frequencies), frozen(_random_signs(stream, cells)), frozen(gains))
    q = min(nonzeros, numbers)
    # one place in each of q equal stretches of the sums, so that no two of a cell's places are the same
    edges = (np.arange(q + 1) * numbers) // q
    widths = np.diff(edges)
    drawn = (stream.words(cells * q) >> np.uint64(11)).reshape(cells, q).astype(np.float64) / 2.0**53
    places = edges[:-1] + np.minimum((drawn * widths).astype(np.int64), widths - 1)
    signs = _random_signs(stream, cells * q).reshape(cells, q)
    return SparseSigns(cells, numbers, frozen(places), frozen(signs), frozen(gains_of(weights, numbers)))


def _random_signs(stream: KeyStream, count: int) -> Integers:
    bits = np.unpackbits(stream.words(-(-count // 64)).view(np.uint8))[:count]
    return 2 * bits.astype(np.int64) - 1


def _some_of(stream: KeyStream, size: int, count: int) -> Integers:
    """`count` different numbers below `size`, ascending: those of the smallest of `size` random words."""
    words = stream.words(size)
    return np.sort(np.argpartition(words, count - 1)[:count]).astype(np.int64)


def _unit_columns(stream: KeyStream, numbers: int, cells: int) -> NDArray[np.int32]:
    """Normal entries, columns scaled to length 1, slightly short so that rounding makes none longer."""
    out = np.empty(numbers * cells, dtype=np.int64)
    rounded_gaussian(stream, 2.0**40, out)
    columns = out.reshape(cells, numbers).T / 2.0**40
    columns = columns / np.linalg.norm(columns, axis=0, keepdims=True)
    short = FINE - math.sqrt(numbers)
    return np.asarray(np.rint(columns * max(short, FINE / 2)), dtype=np.int32)
