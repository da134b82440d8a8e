"""How noise enters a box of cells, from the ends of the box alone; and what of a query lies in some frequencies.

Within a tree only the nodes that hold an end of a range, and their children, differ from their neighbours, so the time
does not grow with the cells as it does for `workloads.gains`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.core.workload import Workload
from adumbra.linalg.strategies import Haar, Identity, Linear, Tree, padded
from adumbra.synthesis.workloads import gains

__all__ = ["box_gains", "dense_energy", "wave_energy"]

Reals = NDArray[np.float64]

_PIECE = 2**21
"""Numbers that are worked on at a time."""


def box_gains(strategy: Linear, workload: Workload) -> tuple[Reals, Reals]:
    """What `gains` finds for queries of one box each, in time that does not grow with the cells.

    Edge cases: strategies without a tree of their own, and queries of several boxes, go the long way.
    """
    if not isinstance(strategy, Identity | Haar | Tree) or not workload.one_box_each:
        return gains(strategy, workload)
    squares, largest = np.ones(len(workload)), np.ones(len(workload))
    for axis, cells in enumerate(workload.shape):
        low = workload.low[:, axis]
        high = np.maximum(workload.high[:, axis], low)
        if isinstance(strategy, Identity) or axis in strategy.plain:
            square, most = _cells_entering(low, high)
        elif isinstance(strategy, Haar):
            square, most = _wavelets_entering(low, high, padded(cells)[0])
        else:
            square, most = _nodes_entering(low, high, strategy.branches(axis), strategy.levels(axis))
        squares *= square
        largest *= most
    return np.sqrt(squares) * np.abs(workload.weight), largest * np.abs(workload.weight)


def _overlap(low: Reals, high: Reals, start: Reals, width: float) -> Reals:
    """How much of the cells from `start` on lies in a range."""
    return np.asarray(np.maximum(np.minimum(high, start + width) - np.maximum(low, start), 0.0))


def _cells_entering(low: Reals, high: Reals) -> tuple[Reals, Reals]:
    """Cells are covered wholly, but for the first and the last."""
    first, last = np.floor(low), np.maximum(np.ceil(high), np.floor(low) + 1.0) - 1.0
    starting, ending = _overlap(low, high, first, 1.0), np.where(last > first, _overlap(low, high, last, 1.0), 0.0)
    whole = np.maximum(last - first - 1.0, 0.0)
    return starting**2 + ending**2 + whole, np.maximum(np.maximum(starting, ending), whole > 0.0)


def _wavelets_entering(low: Reals, high: Reals, size: int) -> tuple[Reals, Reals]:
    """A wavelet that holds neither end has as much on its left as on its right."""
    total = (high - low) / size
    squares, largest = total**2, total
    width = size
    while width > 1:
        left, right = np.floor(low / width), np.floor(high / width)
        for node in (left, np.where(right > left, right, np.nan)):
            first = _overlap(low, high, node * width, width / 2)
            found = np.nan_to_num((first - _overlap(low, high, node * width + width / 2, width / 2)) / width)
            squares, largest = squares + found**2, np.maximum(largest, np.abs(found))
        width //= 2
    return squares, largest


def _nodes_entering(low: Reals, high: Reals, branches: int, levels: int) -> tuple[Reals, Reals]:
    """Least squares from the root down: a child gets a share of its parent's entry, and what it is covered more.

    Below a node that is covered wholly or not at all the entry is shared out evenly, level by level.
    """
    kept = [0.0, 1.0]  # of the cover of a node of each height, what the nodes below leave to be said by it
    for height in range(2, levels + 1):
        kept.append(kept[-1] * (branches ** (height - 1) - 1.0) / (branches**height - 1.0))
    entry = kept[levels] * (high - low)
    squares, largest = entry**2, np.abs(entry)
    nodes, entries = [np.zeros(len(low)), np.full(len(low), np.nan)], [entry, np.zeros(len(low))]
    for height in range(levels - 1, 0, -1):
        width = float(branches ** (height - 1))
        below = sum(float(branches) ** -k for k in range(height))
        last = branches ** (levels - height) - 1.0
        ends = [np.minimum(np.floor(low / width), last), np.minimum(np.floor(high / width), last)]
        following: list[Reals] = []
        for side in (0, 1):  # the node that holds the lower end, and the one with the upper where that is another
            children = np.asarray(nodes[side][:, None] * branches + np.arange(branches), dtype=np.float64)
            covers = _overlap(low[:, None], high[:, None], children * width, width)
            found = kept[height] * (covers - covers.mean(axis=1, keepdims=True)) + entries[side][:, None] / branches
            found = np.where(np.isnan(children), 0.0, found)
            at_end = (children == ends[0][:, None]) | (children == ends[1][:, None])
            squares = squares + np.where(at_end, found**2, below * found**2).sum(axis=1)
            largest = np.maximum(largest, np.abs(found).max(axis=1))
            following += [
                np.where(children == ends[0][:, None], found, 0.0).sum(axis=1),
                np.where(children == ends[1][:, None], found, 0.0).sum(axis=1),
            ]
        entries = [following[0] + following[2], following[1] + following[3]]
        nodes = [ends[0], np.where(ends[1] > ends[0], ends[1], np.nan)]
    return squares, largest


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
    """Sums of exp(2 pi i j turn / cells) over places j up to each end: (ends, turns)."""
    whole = np.floor(ends).astype(np.int64)
    at_end = np.exp((2j * np.pi / cells) * ((whole[:, None] * turns) % cells))
    step = np.exp((2j * np.pi / cells) * turns) - 1.0
    still = turns == 0
    sums = np.where(still, whole[:, None] + 0j, (at_end - 1.0) / np.where(still, 1.0, step))
    return np.asarray(sums + (ends - whole)[:, None] * at_end)
