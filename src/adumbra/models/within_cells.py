"""Where in its cell a number lies, if a related number is known: what neighbouring cells show goes on inside them.

A table of two numbers says in which cells they are and nothing of where in them, and in the long tail of a column one
cell may hold most of its variance. Around a pair of cells the odds ratio of neighbouring ones says how strongly the two
rise together; by Yule's Q of it, the second number is as high in its cell as the first is in its own, or as low, or
anywhere. So the distribution within a cell stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.models.residual_tables import JointTable

__all__ = ["Coupling", "couplings"]


@dataclass(frozen=True, eq=False)
class Coupling:
    """The column a number follows within its cell, and how closely for each pair of their cells, from -1 to 1."""

    other: int
    closeness: Reals
    """A row for each cell of the other column."""

    def places(self, cells: Integers, others: Integers, known: Reals, u: Reals, chance: Reals) -> Reals:
        """Where rows in these `cells` lie in them: as the others do, that are at `known` in `others`, or at `u`.

        `chance` decides which, a number from 0 to 1 for each row.
        """
        close = self.closeness[others, cells]
        return np.where(chance < np.abs(close), np.where(close > 0, known, 1 - known), u)


def couplings(
    pairs: Mapping[tuple[int, int], JointTable], ordered: Sequence[int], order: Sequence[int]
) -> dict[int, Coupling]:
    """For each column of numbers the one before it in `order` that tells most of it, if one tells anything.

    `ordered` says how many cells of each column are in order, 0 for a category; `pairs` are the tables of two columns.
    """
    out: dict[int, Coupling] = {}
    for place, j in enumerate(order):
        best, most = None, 0.0
        for k in order[:place]:
            own = pairs.get((min(j, k), max(j, k)))
            if own is not None and own.strength > most and min(ordered[j], ordered[k]) > 2:
                best, most = (k, own), own.strength
        if best is not None:
            k, own = best
            table = own.shares if k < j else own.shares.T
            out[j] = Coupling(k, _closeness(table, ordered[k], ordered[j], own.sd))
    return out


def _closeness(table: Reals, rows: int, columns: int, sd: float) -> Reals:
    """Yule's Q of the cells around each, those in order only; noise of this `sd` makes it no larger.

    Four neighbouring cells get as much more as their noise may have hidden, in the shares they would have without any
    relation: the same for each would make one where a full cell stands beside empty ones.
    """
    inner = table[:rows, :columns]
    a, b, c, d = inner[:-1, :-1], inner[:-1, 1:], inner[1:, :-1], inner[1:, 1:]
    more = 4 * sd / np.maximum(a + b + c + d, 1e-150) ** 2
    one = (a + more * (a + b) * (a + c)) * (d + more * (c + d) * (b + d))
    two = (b + more * (a + b) * (b + d)) * (c + more * (c + d) * (a + c))
    q = np.pad((one - two) / np.maximum(one + two, 1e-300), 1)
    weight = np.pad(np.ones((rows - 1, columns - 1)), 1)
    total = sum(q[i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1))
    count = sum(weight[i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1))
    out = np.zeros(table.shape)
    out[:rows, :columns] = total / np.maximum(count, 1)
    return out
