"""How far an answer can be off: the least eta that is proved, with P(|error| >= eta) <= mu.

The error of a query is <v, noise>, noise of one law on every number measured. Of v only two things are used, its
length g and its largest entry a; what is proved holds for every such v (docs/proofs/usefulness.md). Noise is on a
grid: the little by which that differs from noise on the real line is added.

`box_gains` finds g and a of a box from its ends alone: within a tree only the nodes that hold an end, and their
children, differ from their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri

from adumbra.core.validation import between
from adumbra.core.workload import Workload
from adumbra.linalg.strategies import Haar, Identity, Linear, Tree, padded
from adumbra.synthesis.workloads import gains

__all__ = [
    "SMALLEST_MU",
    "box_gains",
    "checked_mu",
    "dense_energy",
    "gaussian_eta",
    "l2_laplace_eta",
    "laplace_eta",
    "likely_square",
    "normal_eta",
    "wave_energy",
]

Reals = NDArray[np.float64]

SMALLEST_MU = 1e-9
_FOR_THE_GRID = 1e-3
"""Share of mu that goes to the difference between the grid and the real line."""
_BEND = 1.0 / 3.0
"""Where P(|sqrt(u) Z| > 1), Z normal, turns from convex in u to concave; beyond it a tangent takes its place."""
_AT_BEND = 2.0 * math.exp(-1.5) * math.sqrt(27.0) / math.sqrt(8.0 * math.pi)
"""Slope of that tangent."""
_FINE = 0.01
"""Relative width of a step of the sums below, all of which err upwards."""
_PIECE = 2**21
"""Numbers that are worked on at a time."""
_WHOLE = 32
"""Up to here the number of equal terms is taken in eighths, beyond in steps of 1 %; rounded up."""


def checked_mu(mu: float) -> float:
    """Refuse a mu that is no probability, or too small to be worth a statement."""
    return between(SMALLEST_MU, 1.0, "give --mu 0.05, say: the share of answers that may be further off", mu=mu)


def normal_eta(error: Reals, mu: float) -> Reals:
    """The quantile of a normal error of this standard deviation."""
    return np.asarray(error * -float(ndtri(mu / 2.0)))


def gaussian_eta(length: Reals, sigma: float, step: float, mu: float) -> Reals:
    """For round(sigma / step Z) on each number, in steps. Exact but for the grid."""
    grid = step * math.sqrt(math.log(2.0 / (_FOR_THE_GRID * mu)) / 2.0)
    return normal_eta(length * sigma, mu * (1.0 - _FOR_THE_GRID)) + length * grid


def laplace_eta(length: Reals, largest: Reals, scale: float, step: float, mu: float) -> Reals:
    """For whole steps with P(x) ~ exp(-|x| step / scale) on each number.

    Exact, but for the grid, where a single number enters (g = a); a few per cent above the worst v otherwise. An error
    that is always 0 has eta 0.
    """
    out = np.zeros(len(length))
    some = largest > 0.0
    ratio = np.square(length[some] / largest[some])
    nodes = _rounded_up(np.maximum(ratio, 1.0))
    distinct, place = np.unique(nodes, return_inverse=True)
    grid = step * math.sqrt(math.log(2.0 / (_FOR_THE_GRID * mu)))
    units = np.array([_worst_sum(float(node), mu * (1.0 - _FOR_THE_GRID)) for node in distinct])
    out[some] = largest[some] * scale * units[place] + length[some] * grid
    return out


def l2_laplace_eta(length: Reals, scale: float, numbers: int, mu: float) -> Reals:
    """For a vector of `numbers` whole steps whose likelihood falls like exp(-|x| step / scale). By Chernoff's bound."""
    tilt = np.geomspace(1e-9, 1.0 - 1e-9, 20_001)
    bounds = (math.log(2.0 / mu) - (numbers + 1) / 2.0 * np.log1p(-np.square(tilt))) / tilt
    return np.asarray(length * (scale * float(bounds.min())))


def likely_square(seen: float, error: float) -> float:
    """Mean square of a length that came out as `seen`, if before that every length was as likely.

    The unbiased seen^2 - error^2 would be 0 for many a length that is not, and an error bar without it too short.
    """
    if error <= 0.0:
        return seen * seen
    z = max(seen / error, -8.0)
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    return error * error * (1.0 + z * z + z * density / _upper_normal(-z))


def _rounded_up(ratio: Reals) -> Reals:
    """g^2 / a^2 on a coarse scale: more of it means a longer eta, so up is safe. Rounding of floats is let go."""
    fine = np.ceil(ratio * 8.0 * (1.0 - 1e-9)) / 8.0
    levels = np.ceil(np.log(np.maximum(ratio, _WHOLE) / _WHOLE) / math.log(1.01) - 1e-6)
    return np.where(ratio <= _WHOLE, np.maximum(fine, 1.0), np.ceil(_WHOLE * 1.01**levels))


@lru_cache(maxsize=4096)
def _worst_sum(ratio: float, mu: float) -> float:
    """Eta for all v with largest entry 1 and squared length `ratio`, and noise of scale 1."""
    if ratio == 1.0:  # a single number
        return -math.log(mu)
    terms = math.floor(ratio)
    more = ratio - terms

    def tail(eta: float) -> float:
        found = (1.0 - more) * _tail(terms, eta, mu)
        return found + more * _tail(terms + 1, eta, mu) if more else found

    # the standard deviation is sqrt(2 ratio), and an error of one number alone has the quantile -ln(mu)
    return _root(tail, math.sqrt(2.0 * ratio) * -float(ndtri(mu / 2.0)), mu)


def _tail(terms: int, eta: float, mu: float) -> float:
    """At least E h(2 G / eta^2), G of the Gamma law of shape `terms`: P(|sum of so many| >= eta) is at most that."""
    places, weights, rest = _steps_of(mu)
    half = eta * eta / 2.0
    bend = half * _BEND
    above = terms / half * float(gammaincc(terms + 1, bend)) - _BEND * float(gammaincc(terms, bend))
    return rest + float(weights @ gammaincc(terms, half * places)) + _AT_BEND * max(above, 0.0)


@lru_cache(maxsize=64)
def _steps_of(mu: float) -> tuple[Reals, Reals, float]:
    """Where h(u) = P(|sqrt(u) Z| > 1) takes its steps below the bend, how high they are, and what lies below all."""
    top = 2.0 * float(_upper_normal(math.sqrt(1.0 / _BEND)))
    least = _FOR_THE_GRID * min(mu, top)
    heights = np.geomspace(least, top, math.ceil(math.log(top / least) / math.log1p(_FINE)) + 1)
    # each step counts from its lower end, where the chance to be beyond is larger
    return 1.0 / np.square(ndtri(heights[:-1] / 2.0)), np.diff(heights), least


def _upper_normal(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _root(tail: Callable[[float], float], start: float, mu: float) -> float:
    """Where a falling tail reaches mu, from above, to one part in ten thousand."""
    low = high = start
    while tail(high) > mu:
        low, high = high, high * 1.25
    while tail(low) <= mu:
        low, high = low / 1.25, low
    left, right = math.log(tail(low) / mu), math.log(tail(high) / mu)
    while high > low * 1.0001:
        # where the straight line between the ends is 0, but never too near to one of them
        guess = low + (high - low) * min(max(left / (left - right), 0.02), 0.98)
        value = math.log(tail(guess) / mu)
        if value > 0.0:
            low, left = guess, value
        else:
            high, right = guess, value
    return high


# ---- length and largest entry of v, for a box


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
