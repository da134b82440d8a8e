"""How noise enters a box of cells, from the ends of the box alone; and what of a query lies in some frequencies.

`box_gains` asks the strategy for the length of the dual along each axis (`LinearStrategy.entering`); the formulas and
their sources are with the strategies. `wave_energy` is Parseval's identity for the frequencies that a strategy of waves
measures: the energy of a query outside them is what truncation loses (EFPA: Acs, Castelluccia, Chen, "Differentially
private histogram publishing through lossy compression", ICDM 2012). The closed form for boxes is the house's own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.counting.box_sums import gains
from adumbra.counting.workload import Workload
from adumbra.numerics.strategy_base import LinearStrategy

__all__ = ["box_gains", "dense_energy", "wave_energy"]


_PIECE = 2**21
"""Numbers that are worked on at a time."""


def box_gains(strategy: LinearStrategy, workload: Workload) -> tuple[Reals, Reals]:
    """What `gains` finds for queries of one box each, in time that does not grow with the cells.

    Edge cases: a strategy that knows no shorter way (`entering`), and queries of several boxes, go the long way.
    """
    if not workload.one_box_each:
        return gains(strategy, workload)
    squares, largest = np.ones(len(workload)), np.ones(len(workload))
    for axis in range(len(workload.shape)):
        low = workload.low[:, axis]
        found = strategy.entering(axis, low, np.maximum(workload.high[:, axis], low))
        if found is None:
            return gains(strategy, workload)
        squares *= found[0]
        largest *= found[1]
    return np.sqrt(squares) * np.abs(workload.weight), largest * np.abs(workload.weight)


# ---- what of a query lies in some frequencies


def dense_energy(weights: Reals, shares: Reals) -> Reals:
    """Squared lengths of weights of all cells, (queries, cells), in the lowest frequencies: (queries, columns).

    Row f of `shares` says how much of frequency f counts in each column.
    """
    cells = weights.shape[1]
    found = np.fft.rfft(weights, axis=1)[:, : len(shares)]
    return np.asarray((found.real**2 + found.imag**2) @ _mirrored(shares, cells) / cells)


def wave_energy(workload: Workload, shares: Reals) -> Reals:
    """The same for boxes: over the cells in order a wave is a product of waves along the axes, and sums in each."""
    if not workload.one_box_each:
        return np.concatenate([dense_energy(workload.dense(part), shares) for part in workload.pieces()])
    cells, queries = math.prod(workload.shape), len(workload)
    frequencies = np.arange(len(shares), dtype=np.int64)
    counted = _mirrored(shares, cells) / cells
    out = np.zeros((queries, shares.shape[1]))
    size = max(1, _PIECE // len(frequencies))
    for start in range(0, queries, size):
        part = slice(start, min(start + size, queries))
        product: NDArray[np.complex128] = np.ones((part.stop - start, len(frequencies)), dtype=np.complex128)
        stride = cells
        # Cell (i1, i2, ...) has the number sum of i_a * stride_a, so exp(2 pi i f number / cells) is a product over
        # the axes, and so is its sum over a box: no cell is visited.
        for axis, along in enumerate(workload.shape):
            stride //= along
            turns = frequencies * stride % cells
            high = np.maximum(workload.high[part, axis], workload.low[part, axis])
            product *= _sum_to(high, turns, cells) - _sum_to(workload.low[part, axis], turns, cells)
        squares = product.real**2 + product.imag**2
        out[part] = squares @ counted * np.square(workload.weight[part, None])
    return out


def _mirrored(shares: Reals, cells: int) -> Reals:
    """A frequency stands for its mirror image too; the mean and the highest of an even number have none."""
    number = np.arange(len(shares))
    return np.asarray(shares * np.where((number > 0) & (2 * number < cells), 2.0, 1.0)[:, None])


def _sum_to(ends: Reals, turns: NDArray[np.int64], cells: int) -> NDArray[np.complex128]:
    """Sums of exp(2 pi i j turn / cells) over places j up to each end: (ends, turns).

    A geometric sum, (w^n - 1) / (w - 1), plus the part of the last cell that is covered. Angles are reduced in whole
    numbers before the exponential, so that the error does not grow with the number of cells.
    """
    whole = np.floor(ends).astype(np.int64)
    at_end = np.exp((2j * np.pi / cells) * ((whole[:, None] * turns) % cells))
    step = np.exp((2j * np.pi / cells) * turns) - 1.0
    still = turns == 0
    sums = np.where(still, whole[:, None] + 0j, (at_end - 1.0) / np.where(still, 1.0, step))
    return np.asarray(sums + (ends - whole)[:, None] * at_end)
