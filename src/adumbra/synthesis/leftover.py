"""How much a decoder left out, by size of a range, estimated from the noisy numbers alone.

A decoder that keeps few atoms leaves something of the table behind. What it left, plus noise, can be seen in its
residual; the noise is known, so the mean square of what was left in ranges of one size can be estimated without bias.
It is what the standard error of an answer needs beside the noise on the atoms that were kept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.linalg.dictionaries import Dictionary

__all__ = ["block_sums", "left_by_size", "share_kept", "sizes_of"]

Reals = NDArray[np.float64]
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
    """Sizes, and for each the mean square of what was left; `noise`: the noise in a block's sum, its variance.

    What is left adds up over a range as if by chance at least; where the blocks of a size show clearly that it adds up
    to more (parts of one sign), what they show is taken.
    """
    sizes = sizes_of(len(left))
    found: list[float] = []
    for size in sizes:
        squares = np.square(block_sums(left, size))
        # noise alone would be seen as much as this, or less, nearly always
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
