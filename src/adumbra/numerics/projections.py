"""Public random matrices that keep squared distances on average: `E |z R|^2 = |z|^2`.

Every matrix is drawn from a public key through AES-CTR, rounded to integers times one step, and returned as those
integers: what is published, multiplied and measured for its norms is the rounded matrix itself.

| kind | rows of R | Var |zR|^2 over R (z fixed, z_a its part in block a) |
|---|---|---|
| unit-row | uniform on the sphere; orthonormal inside a category that fits | (2/k)(|z|^4 - sum |z_a|^4) |
| gaussian | iid N(0, 1/k) | (2/k)|z|^4 |
| signs | every entry +-1/sqrt(k) | (2/k)(|z|^4 - sum z_j^4) |
| sparse-signs | q = ceil(k/3) entries +-1/sqrt(q), the rest 0 | (2/k)(|z|^4 - sum z_j^4) |
| orthogonal | k columns of a Haar rotation, times sqrt(d/k) | 2|z|^4 (d-k)/(k(d+2)) |

Reference: Achlioptas (2003) for signs; Dasgupta and Gupta (2003) for subspaces; the variances are derived in
docs/proofs/distances.md and checked by simulation in tests/numerics/test_projections.py.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.declare.space import Space
from adumbra.noise.lattice import KeyStream, rounded_gaussian

__all__ = ["ROUNDING", "ProjectionKind", "RandomMatrix", "draw", "gaussian_matrix"]

ROUNDING = 2.0**-18
"""Grid of every matrix that is not made of signs. Entries are about 1/sqrt(k), so this is far below the noise."""

_FINE = 2.0**40  # sampling scale of the normals behind directions: 40 bits, then float64


class ProjectionKind(StrEnum):
    """Which law the matrix is drawn from."""

    UNIT_ROW = "unit-row"
    GAUSSIAN = "gaussian"
    SIGNS = "signs"
    SPARSE_SIGNS = "sparse-signs"
    ORTHOGONAL = "orthogonal"


@dataclass(frozen=True, eq=False)
class RandomMatrix:
    """An integer matrix and the value of its unit."""

    matrix: Integers
    step: float


def draw(kind: ProjectionKind, key: bytes, space: Space, dimension: int) -> RandomMatrix:
    """Draw the public matrix of shape (space.width, dimension) from the law `kind`.

    The same `key`, public bytes, gives the same matrix. `space` says which coordinates belong to one category, and
    `dimension` >= 1 is the number of projected coordinates.
    """
    stream = KeyStream(hashlib.sha256(key + b"\0" + kind.value.encode()).digest())
    width = space.width
    if kind is ProjectionKind.GAUSSIAN:
        return RandomMatrix(gaussian_matrix(key, width, dimension), ROUNDING)
    if kind is ProjectionKind.SIGNS:
        return RandomMatrix(_signs(stream, width, dimension), 1.0 / math.sqrt(dimension))
    if kind is ProjectionKind.SPARSE_SIGNS:
        ones = math.ceil(dimension / 3)
        return RandomMatrix(_sparse_signs(stream, width, dimension, ones), 1.0 / math.sqrt(ones))
    if kind is ProjectionKind.ORTHOGONAL:
        if dimension > width:
            raise InputError(
                f"a dimension of at most {width}, the number of encoded coordinates, for an orthogonal projection",
                f"dimension {dimension}",
                f"give --dimension {width} or less, or choose the gaussian projection",
            )
        basis = _orthonormal(_normals(stream, width, dimension)) * math.sqrt(width / dimension)
        return RandomMatrix(_to_grid(basis), ROUNDING)
    return RandomMatrix(_to_grid(_unit_rows(stream, space, dimension)), ROUNDING)


def gaussian_matrix(key: bytes, width: int, dimension: int) -> Integers:
    """iid N(0, 1/dimension) entries, each rounded to the nearest multiple of `ROUNDING`, as integers.

    `width` rows by `dimension` columns, from the public `key`.
    The rounding is exact (`lattice.rounded_gaussian`), so the unrounded matrix behind it has exactly the law
    named and differs by at most ROUNDING/2 in each entry: what the fresh-projection account relies on.
    """
    stream = KeyStream(hashlib.sha256(key + b"\0gaussian").digest())
    out = np.empty(width * dimension, dtype=np.int64)
    rounded_gaussian(stream, 1.0 / (math.sqrt(dimension) * ROUNDING), out)
    return out.reshape(width, dimension)


def _to_grid(matrix: Reals) -> Integers:
    return np.rint(matrix / ROUNDING).astype(np.int64)


def _normals(stream: KeyStream, rows: int, columns: int) -> Reals:
    out = np.empty(rows * columns, dtype=np.int64)
    rounded_gaussian(stream, _FINE, out)
    return out.reshape(rows, columns) / _FINE


def _orthonormal(tall: Reals) -> Reals:
    """Columns orthonormal and Haar distributed: QR with the signs of R's diagonal put back."""
    q, r = np.linalg.qr(tall)
    return np.asarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))


def _unit_rows(stream: KeyStream, space: Space, dimension: int) -> Reals:
    rows = _normals(stream, space.width, dimension)
    for block in space.blocks:
        # Orthonormal rows keep a category change at sqrt(2) times its steps; more values than dimensions cannot be.
        if 1 < block.width <= dimension:
            rows[block.start : block.stop] = _orthonormal(rows[block.start : block.stop].T).T
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _signs(stream: KeyStream, width: int, dimension: int) -> Integers:
    count = width * dimension
    bits = np.unpackbits(stream.words(-(-count // 64)).view(np.uint8))[:count]
    return (2 * bits.astype(np.int64) - 1).reshape(width, dimension)


def _sparse_signs(stream: KeyStream, width: int, dimension: int, ones: int) -> Integers:
    """Exactly `ones` non-zeros in each row: the positions of the smallest of `dimension` random words."""
    words = stream.words(width * dimension).reshape(width, dimension)
    chosen = np.argpartition(words, ones - 1, axis=1)[:, :ones]
    out = np.zeros((width, dimension), dtype=np.int64)
    signs = _signs(stream, width, ones)
    np.put_along_axis(out, chosen, signs, axis=1)
    return out
