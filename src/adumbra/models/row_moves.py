"""Drawn rows moved, one cell at a time, until their tables are as near to the wanted ones as rows can be.

What drawing adds by chance, and what regressions leave, goes away. A move is made if it lowers the sum over all cells
of all tables of (rows - wanted)^2 / (wanted + _SOFT)^_POWER: a cell that should be empty counts most, so what cannot be
stays impossible. Rows are visited in order, and the result is the same for the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.models.chained_regressions import WantedTable
from adumbra.numerics.integer_kernels import compiled

__all__ = ["moved", "sweeps_for"]

_SOFT = 1.0
_POWER = 0.75
_MANY = 2**18
_SWEEPS, _FEW = 12, 0.002
"""Visits to all rows, at most; the last is that which moves fewer of their cells than this."""


def sweeps_for(rows: int) -> int:
    """Visits when so many rows are drawn in all: fewer for many, whose tables are nearer to begin with.

    >>> sweeps_for(48_842), sweeps_for(1_000_000), sweeps_for(10**8)
    (12, 3, 2)
    """
    return int(min(max(_SWEEPS * _MANY // max(rows, 1), 2), _SWEEPS))


def moved(
    rows: NDArray[np.int32],
    counts: Sequence[int],
    targets: Mapping[tuple[int, ...], WantedTable],
    sweeps: int = _SWEEPS,
) -> NDArray[np.int32]:
    """The `rows` with cells moved towards the tables of `targets`; columns have so many cells (`counts`).

    All rows are visited `sweeps` times at most.
    """
    tables = list(targets.values())
    if not tables:
        return rows
    sizes = np.array([t.shares.size for t in tables], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    wanted = np.concatenate([t.shares.ravel() for t in tables]) * len(rows)
    worth = 1.0 / (wanted + _SOFT) ** _POWER
    gap = -wanted
    others, steps = np.zeros((len(tables), 3), dtype=np.int64), np.zeros((len(tables), 3), dtype=np.int64)
    member: list[list[int]] = [[] for _ in counts]
    for t, target in enumerate(tables):
        step, place = 1, np.full(len(rows), starts[t])
        for m, (column, count) in enumerate(zip(target.columns[::-1], target.shares.shape[::-1], strict=True)):
            others[t, m], steps[t, m] = column, step
            place += rows[:, column].astype(np.int64) * step
            step *= count
            member[column].append(t)
        gap += np.bincount(place, minlength=len(gap))
    of_column = np.full((len(counts), max(map(len, member))), -1, dtype=np.int64)
    for c, own in enumerate(member):
        of_column[c, : len(own)] = own
    order = np.array([c for c, own in enumerate(member) if own], dtype=np.int64)
    out = rows.copy()
    for _ in range(sweeps):
        moves = _sweep(out, np.array(counts, dtype=np.int64), order, of_column, others, steps, starts, gap, worth)
        if moves <= _FEW * out.size:
            break
    return out


@compiled
def _sweep(
    rows: NDArray[np.int32],
    counts: Integers,
    order: Integers,
    of_column: Integers,
    others: Integers,
    steps: Integers,
    starts: Integers,
    gap: Reals,
    worth: Reals,
) -> int:
    """One visit to every row; how many cells were moved."""
    cost = np.empty(counts.max())
    base, stride = np.empty(of_column.shape[1], dtype=np.int64), np.empty(of_column.shape[1], dtype=np.int64)
    moves = 0
    for i in range(rows.shape[0]):
        for place in range(len(order)):
            j = order[place]
            width, now = counts[j], rows[i, j]
            used, staying = 0, 0.0
            for m in range(of_column.shape[1]):
                t = of_column[j, m]
                if t < 0:
                    break
                at, step = starts[t], 0
                for c in range(3):
                    if others[t, c] == j and steps[t, c] > 0:
                        step = steps[t, c]
                    else:
                        at += steps[t, c] * rows[i, others[t, c]]
                base[m], stride[m], used = at, step, m + 1
                here = at + now * step
                staying += worth[here] * (2.0 * gap[here] - 1.0)
            if staying <= 0.0:  # its cells want rows: hardly any other wants this one more
                continue
            cost[:width] = 0.0
            for m in range(used):
                at, step = base[m], stride[m]
                gap[at + now * step] -= 1.0  # as if the row had no cell in this column
                for v in range(width):
                    cost[v] += worth[at + v * step] * (2.0 * gap[at + v * step] + 1.0)
            best = int(cost[:width].argmin())
            if cost[now] <= cost[best] + 1e-9:
                best = now
            for m in range(used):
                gap[base[m] + best * stride[m]] += 1.0
            if best != now:
                rows[i, j] = best
                moves += 1
    return moves
