"""Tables of two and three columns from noisy residuals: what of them is likely to be real.

A residual is what a table has beyond a first guess, which the tables of fewer columns give: two columns are
independent, or related through a third where that fits better; three are related by their pairs alone. Its singular
values are shrunk by as much as noise explains, and the table is the nearest with these margins and no negative cell. No
evidence leaves the guess as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from adumbra.common.types import Reals
from adumbra.models.chained_regressions import raked

__all__ = ["JointTable", "Residual", "centred_table", "denoised_pairs", "denoised_triple"]

_FLOOR = 1e-3
"""Of the guess: no cell is held to be emptier than that."""
_PROJECTIONS, _ROUNDS, _ROUNDS_OF_THREE = 60, 15, 20
_STEP = 0.1
_CLEAR = 3.0
"""A third column explains two others where that fits better by so many standard deviations."""
_MOST_COLUMNS = 64
"""Third columns are tried in tables of no more columns: each pair asks all of them."""

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Residual:
    """A centred table, in shares, and the sd of the noise on an entry before it was centred."""

    table: Reals
    sd: float


@dataclass(frozen=True, eq=False)
class JointTable:
    """Shares of a table, and their total variation from what fewer columns tell; 0 where noise explains that."""

    shares: Reals
    sd: float
    """Of the noise on a share, as measured."""
    strength: float


def centred_table(table: Reals) -> Reals:
    """Without the means along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def denoised_pairs(shares: Sequence[Reals], residuals: Mapping[Pair, Residual]) -> dict[Pair, JointTable]:
    """Tables of pairs of columns with these `shares`, from their `residuals`."""
    first = {pair: _denoised(_product(shares, pair), shares, pair, own) for pair, own in residuals.items()}
    if len(shares) > _MOST_COLUMNS:
        return first
    return {pair: _explained(shares, first, pair, own) for pair, own in residuals.items()}


def _product(shares: Sequence[Reals], pair: Pair) -> Reals:
    return np.outer(shares[pair[0]], shares[pair[1]])


def _explained(shares: Sequence[Reals], found: Mapping[Pair, JointTable], pair: Pair, residual: Residual) -> JointTable:
    """The table of a pair again, from the guess that the third column gives which explains it best, if one does."""
    alone = _product(shares, pair)
    seen = residual.table - centred_table(alone)
    best, most = None, 0.0
    for guess in _through_others(shares, found, pair):
        apart = centred_table(guess - alone)
        size = float((apart**2).sum())
        # how much nearer it is to what was measured than independence, less what noise may make of the difference
        won = 2 * float((seen * apart).sum()) - size - _CLEAR * residual.sd * size**0.5
        if won > most:
            best, most = guess, won
    if best is None:
        return found[pair]
    return _denoised(raked(best, shares[pair[0]], shares[pair[1]], 5), shares, pair, residual)


def _through_others(shares: Sequence[Reals], found: Mapping[Pair, JointTable], pair: Pair) -> Iterator[Reals]:
    """The table of a pair if its columns are independent given a third, for each that tells something of both."""
    j, k = pair
    for m in range(len(shares)):
        one, two = found.get((min(j, m), max(j, m))), found.get((min(k, m), max(k, m)))
        if m in pair or one is None or two is None or not one.strength or not two.strength:
            continue
        left = one.shares if j < m else one.shares.T
        right = two.shares if m < k else two.shares.T
        yield (left / shares[m]) @ right


def _denoised(guess: Reals, shares: Sequence[Reals], pair: Pair, residual: Residual) -> JointTable:
    rows, columns = shares[pair[0]], shares[pair[1]]
    middle = centred_table(guess)

    def of_low_rank(table: Reals) -> Reals:
        real = _shrunk(table - middle, residual.sd)
        return _nearest_table(guess + real, rows, columns) if real.any() else guess

    def with_empty_cells(table: Reals) -> Reals:
        return _nearest_table(guess + table - middle, rows, columns)

    found = _best((of_low_rank, with_empty_cells), residual)
    if found is not guess:
        found = raked(np.maximum(found, _FLOOR * guess), rows, columns, _ROUNDS)
    return JointTable(found, residual.sd, _apart(found, np.outer(rows, columns)))


def _best(ways: Sequence[Callable[[Reals], Reals]], residual: Residual) -> Reals:
    """What the best of these `ways`, or their mean, makes of a noisy residual: that of the least expected error.

    A table of low rank gains by shrinking singular values, one that is mostly empty cells by knowing that none is
    negative. The squared error is estimated without the truth (Stein 1981), with the divergence from one random
    direction (Ramani, Blu, Unser 2008), which is the same for all tables of a shape. The first way is taken unless
    another is better by more than that estimate's own error.
    """
    found = [way(residual.table) for way in ways]
    shape = residual.table.shape
    direction = _direction(shape)
    step = _STEP * residual.sd
    again = [way(residual.table + step * direction) for way in ways]
    found.append(sum(found[1:], start=found[0]) / len(ways))
    again.append(sum(again[1:], start=again[0]) / len(ways))
    risks = []
    for one, two in zip(found, again, strict=True):
        misfit = float(((centred_table(one) - residual.table) ** 2).sum()) / residual.sd**2
        risks.append(misfit + 2 * float((direction * centred_table(two - one)).sum()) / step)
    doubt = (0.5 * math.prod(size - 1 for size in shape)) ** 0.5
    best = int(np.argmin([risks[0] - doubt, *risks[1:]]))
    return found[best]


@lru_cache(maxsize=256)
def _direction(shape: tuple[int, ...]) -> Reals:
    """Some random direction among centred tables of this shape, always the same.

    Its squared length is their dimension, as it is on average: one drawn short would call every way free of noise.
    """
    drawn = centred_table(np.random.Generator(np.random.Philox(key=0)).standard_normal(shape))
    wanted = math.prod(size - 1 for size in shape)
    return np.asarray(drawn * (wanted / max(float((drawn**2).sum()), 1e-300)) ** 0.5)


def _apart(one: Reals, two: Reals) -> float:
    """Total variation; what rounding leaves is nothing."""
    found = 0.5 * float(np.abs(one - two).sum())
    return found if found > 1e-9 else 0.0


def _shrunk(noisy: Reals, sd: float) -> Reals:
    """A centred matrix in noise of this `sd` with singular values shrunk for the least squared error.

    Gavish and Donoho (2017), with the known noise; centring takes one from both dimensions.
    """
    short, long = sorted(max(size - 1, 1) for size in noisy.shape)
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    beta, t = short / long, values / (sd * np.sqrt(long))
    kept = np.sqrt(np.maximum((t**2 - beta - 1) ** 2 - 4 * beta, 0.0)) / np.maximum(t, 1e-9)
    kept = np.where(t > 1 + np.sqrt(beta), kept, 0.0) * (sd * np.sqrt(long))
    return np.asarray((left * kept) @ right) if kept.any() else np.zeros_like(noisy)


def _nearest_table(table: Reals, rows: Reals, columns: Reals) -> Reals:
    """The nearest table without negative cells that has these sums of `rows` and `columns` (Dykstra's projections)."""
    out, gone = table, np.zeros_like(table)
    m, k = table.shape
    for _ in range(_PROJECTIONS):
        by_row, by_column = rows - out.sum(axis=1), columns - out.sum(axis=0)
        out = out + by_row[:, None] / k + by_column / m - by_row.sum() / (m * k)
        kept = np.maximum(out + gone, 0.0)
        gone, out = out + gone - kept, kept
    return out


def denoised_triple(one: Reals, two: Reals, three: Reals, residual: Residual) -> JointTable | None:
    """The table of three columns, of which a few values are in the first; None where their pairs explain it.

    `one` is the table of the first and second column, `two` of the first and third, `three` of the second and third;
    `residual` is what was measured of all. Noise is taken out value by value of the first column.
    """
    groups = len(one)
    start = one[:, :, None] * two[:, None, :] / np.maximum(one.sum(axis=1), 1e-12)[:, None, None]
    guess = _with_pairs(start, one, two, three)
    apart = residual.table - centred_table(guess)
    inner = residual.sd * np.sqrt(1 - 1 / groups)
    real = np.stack([_shrunk(own, inner) for own in apart])
    if not real.any():
        return None
    table = _with_pairs(np.maximum(guess + real - real.mean(axis=0), _FLOOR * guess), one, two, three)
    return JointTable(table, residual.sd, _apart(table, guess))


def _with_pairs(start: Reals, one: Reals, two: Reals, three: Reals) -> Reals:
    """The table nearest to `start` whose pairs have these tables, by iterative proportional fitting."""
    out = np.maximum(start, 1e-12)
    for _ in range(_ROUNDS_OF_THREE):
        out *= three / np.maximum(out.sum(axis=0), 1e-15)
        out *= (one / np.maximum(out.sum(axis=2), 1e-15))[:, :, None]
        out *= (two / np.maximum(out.sum(axis=1), 1e-15))[:, None, :]
    return out
