"""The least value of a sum of products of two-valued numbers: exactly where they are few, else a bound from below.

Every variable g_j has one of two values, f_j or f_j - 1, with f_j = 1 - 1/c_j. Wanted is the least value of

    q(g) = sum over terms t of s_t * product of g_j over the places j of t,   s_t >= 0, one to three places each.

Inner products of the centred tables of two rows are such sums. Proof of the bound: docs/proofs/pairs.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Reals

__all__ = ["MOST_ENUMERATED", "least_sum"]

MOST_ENUMERATED = 16
"""Variables whose values are all tried."""
_MOST_FIXED = 6
"""Variables that are fixed in turn, so that what is left of terms of three places has two."""
_STEPS = 200
_TURNS = 10_000
_ROUNDING = 1e-12
"""Of the largest number on the way and the squared number of variables: far above what float64 rounds in such sums."""

Place = tuple[int, ...]


def least_sum(counts: Sequence[int], places: Sequence[Place], squares: Reals) -> float:
    """A number that `q` is never below, for variables of `counts` values, terms at `places` with factors `squares`.

    The least value itself (less a hair for float64) where at most `MOST_ENUMERATED` variables can take two values. A
    variable with a count of 1 is 0 and so is every term it is in.
    """
    terms: dict[Place, float] = {}
    for place, square in zip(places, squares.tolist(), strict=True):
        if all(counts[j] > 1 for j in place):
            terms[place] = terms.get(place, 0.0) + square
    used = sorted({j for place in terms for j in place})
    if not used:
        return 0.0
    rank = {j: i for i, j in enumerate(used)}
    high = 1.0 - 1.0 / np.array([counts[j] for j in used], dtype=np.float64)
    ranked = {tuple(rank[j] for j in place): s for place, s in terms.items()}
    size = sum(s * float(np.prod(np.maximum(high, 1.0 - high)[list(place)])) for place, s in ranked.items())
    found = _enumerated(high, ranked) if len(used) <= MOST_ENUMERATED else _bounded(high, ranked)
    return found - _ROUNDING * len(used) ** 2 * size


def _enumerated(high: Reals, terms: dict[Place, float]) -> float:
    """All values of all variables, beside one another."""
    columns = len(high)
    signs = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    values = (high - signs).T
    total = np.zeros(2**columns)
    for first in range(columns):
        inner = np.zeros(2**columns)
        for place, square in terms.items():
            if place[0] == first:
                inner += square * (values[list(place[1:])].prod(axis=0) if len(place) > 1 else 1.0)
        total += inner * values[first]
    return float(total.min())


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """`constant + b'g + g'Wg/2`, W with a zero diagonal, over variables with the upper values `high`."""

    high: Reals
    constant: float
    b: Reals
    matrix: Reals


def _bounded(high: Reals, terms: dict[Place, float]) -> float:
    """Some variables are fixed in turn, so that the rest is quadratic; what is left of three places stands alone."""
    fixed = _fixed(terms)
    left = 0.0
    kept = {}
    for place, square in terms.items():
        if len(place) == 3 and not set(place) & set(fixed):
            values = (np.array([high[j], high[j] - 1.0]) for j in place)
            left += square * min(float(np.prod(some)) for some in itertools.product(*values))
        else:
            kept[place] = square
    return left + min(
        _least_quadratic(_reduced(high, kept, dict(zip(fixed, (high[list(fixed)] - signs).tolist(), strict=True))))
        for signs in (np.array(some) for some in itertools.product((0.0, 1.0), repeat=len(fixed)))
    )


def _fixed(terms: dict[Place, float]) -> tuple[int, ...]:
    """Variables of terms of three places, that of the heaviest ones first, until none is left or enough are fixed."""
    left = {place: square for place, square in terms.items() if len(place) == 3}
    out: list[int] = []
    while left and len(out) < _MOST_FIXED:
        weight: dict[int, float] = {}
        for place, square in left.items():
            for j in place:
                weight[j] = weight.get(j, 0.0) + square
        out.append(max(weight, key=lambda j: weight[j]))
        left = {place: square for place, square in left.items() if out[-1] not in place}
    return tuple(out)


def _reduced(high: Reals, terms: dict[Place, float], given: dict[int, float]) -> _Quadratic:
    """What is left of the sum with some variables `given`."""
    free = [j for j in range(len(high)) if j not in given]
    rank = {j: i for i, j in enumerate(free)}
    constant, b, matrix = 0.0, np.zeros(len(free)), np.zeros((len(free), len(free)))
    for place, square in terms.items():
        factor = square
        for j in place:
            factor *= given.get(j, 1.0)
        rest = [rank[j] for j in place if j in rank]
        if not rest:
            constant += factor
        elif len(rest) == 1:
            b[rest[0]] += factor
        else:
            matrix[rest[0], rest[1]] += factor
            matrix[rest[1], rest[0]] += factor
    return _Quadratic(high[free], constant, b, matrix)


def _least_quadratic(q: _Quadratic) -> float:
    """The better of two bounds, each valid for any point y and any diagonal that makes the matrix semidefinite."""
    if not q.matrix.any():
        return q.constant + float(np.minimum(q.b * q.high, q.b * (q.high - 1.0)).sum())
    bases = (np.ones(len(q.b)), _multipliers(q))
    return max(_with_diagonal(q, _lifting(q.matrix, np.maximum(base, 1e-3 * base.max()))) for base in bases)


def _multipliers(q: _Quadratic) -> Reals:
    """About the best diagonal: of the relaxation whose variables are unit vectors instead of signs, turned in turn.

    With g = f - 1/2 + s/2 and signs s, the sum is `s'Ws/8 + s'(W(f - 1/2) + b)/2` and a constant.
    """
    linear = (q.matrix @ (q.high - 0.5) + q.b) * 2.0
    size = len(linear)
    rank = math.isqrt(2 * size) + 2
    vectors = np.cos(np.outer(np.arange(1.0, size + 1.0), np.sqrt(np.arange(2.0, rank + 2.0))))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pull = np.zeros(size)
    for _ in range(_TURNS // size + 1):
        for j in range(size):
            towards = q.matrix[j] @ vectors
            towards[0] += linear[j]  # the first axis stands for the sign that is fixed
            pull[j] = math.sqrt(float(towards @ towards))
            if pull[j] > 0:
                vectors[j] = -towards / pull[j]
    return pull


def _lifting(matrix: Reals, base: Reals) -> Reals:
    """The least multiple of `base` that makes the matrix positive semidefinite as its diagonal, and a hair more."""
    root = np.sqrt(base)
    scaled = matrix / np.outer(root, root)
    least = float(np.linalg.eigvalsh(scaled)[0])
    return base * (max(-least, 0.0) + _ROUNDING * len(base) ** 2 * float(np.abs(scaled).max()))


def _with_diagonal(q: _Quadratic, diagonal: Reals) -> float:
    """The bound for this diagonal, at a point that gradient steps on the box of all values find."""
    matrix = q.matrix + np.diag(diagonal)
    linear = q.b - diagonal * (2.0 * q.high - 1.0) / 2.0
    offset = q.constant - float((diagonal * q.high * (1.0 - q.high)).sum()) / 2.0
    step = 1.0 / max(float(np.linalg.eigvalsh(matrix)[-1]), 1e-300)
    y = last = q.high - 0.5
    best, pace = -np.inf, 1.0
    for _ in range(_STEPS):
        slope = matrix @ y + linear
        bound = offset + float(np.minimum(slope * q.high, slope * (q.high - 1.0)).sum()) - float(y @ matrix @ y) / 2.0
        best = max(best, bound)
        found = np.clip(y - step * slope, q.high - 1.0, q.high)
        faster = (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        y, last, pace = found + (pace - 1.0) / faster * (found - last), found, faster
    return best
