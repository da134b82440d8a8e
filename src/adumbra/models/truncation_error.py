"""How much a decoder left out, by size of a range, estimated from the noisy numbers alone.

A decoder that keeps few atoms leaves something of the table behind. What it left, plus noise, can be seen in its
residual; the noise is known, so the mean square of what was left in ranges of one size can be estimated without bias.
It is what the standard error of an answer needs beside the noise on the atoms that were kept. The estimate is the
house's own: a method of moments, block size by block size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.numerics.dictionaries import Dictionary

__all__ = ["block_sums", "left_by_size", "share_kept", "sizes_of"]

_PRODUCTS = 2**27


def sizes_of(cells: int) -> list[int]:
    """1, 2, 4, ... up to the whole domain."""
    out = [1]
    while 2 * out[-1] <= cells:
        out.append(2 * out[-1])
    return out


def block_sums(values: Reals, size: int) -> Reals:
    """Sums over consecutive blocks of so many cells; what does not fill a block is left out."""
    whole = len(values) // size * size
    return np.asarray(values[:whole].reshape(-1, size).sum(axis=1))


def left_by_size(left: Reals, noise: dict[int, float]) -> tuple[Reals, Reals]:
    """Sizes of blocks, and for each the mean square of the sum of the residual `left` over a block.

    `noise` is the variance of the noise in the sum over a block, by size. Lower bound: residuals of neighbouring cells
    are treated as independent, so their mean square grows linearly with block size. If the observed block sums exceed
    their noise by more than two standard errors (residuals correlate), the observed value is used if it is larger.
    """
    sizes = sizes_of(len(left))
    found: list[float] = []
    for size in sizes:
        squares = np.square(block_sums(left, size))
        # E (left + noise)^2 = left^2 + variance, so the difference is unbiased. The mean of n squares of noise of
        # variance v has the standard error v sqrt(2 / n); below two of them it is taken for chance.
        seen, unsure = float(squares.mean()) - noise[size], 2.0 * noise[size] * math.sqrt(2.0 / len(squares))
        by_chance = size * found[0] if found else max(seen, 0.0)
        found.append(max(by_chance, seen if seen > unsure else 0.0))
    return np.array(sizes, dtype=np.float64), np.array(found)


def share_kept(atoms: Dictionary, support: NDArray[np.int64]) -> dict[int, float]:
    """For blocks of each size, the share of their squared length that lies in the atoms kept (orthonormal ones)."""
    cells = atoms.cells
    even = {size: len(support) / cells for size in sizes_of(cells)}
    if atoms.name == "identity" or len(support) * cells > _PRODUCTS:
        return even
    total = dict.fromkeys(even, 0.0)
    for index in support:
        atom = atoms.atom(int(index))
        for size in total:
            total[size] += float(np.square(block_sums(atom, size)).mean()) / size
    return {size: min(share, 1.0) for size, share in total.items()}
