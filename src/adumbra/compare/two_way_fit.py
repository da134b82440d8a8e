"""How well pairs of columns match: joint tables of released rows beside the true ones (owner's side: all is private).

A distance between two tables says little by itself. Beside it stand the distance that a release would have whose
columns are as released but independent of each other, which is what a pair that was not kept looks like, and the one
that as many rows drawn at random from the truth would have on average. Rows that are drawn to match tables can come
nearer than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from adumbra.common.types import Reals
from adumbra.compare.comparison import share
from adumbra.compare.table_fit import total_variation
from adumbra.compare.table_tally import Tally
from adumbra.report.document import Section, Table

__all__ = ["PairTableFit", "TwoWayFit", "two_way_fit"]

_WORST = 10


@dataclass(frozen=True)
class PairTableFit:
    """The joint table of two columns: total variations from the true one."""

    a: str
    b: str
    error: float
    """Of the released rows."""
    independent: float
    """Of the product of the two released columns."""
    chance: float
    """Of as many rows as the release has, drawn from the truth: the mean of that."""


@dataclass(frozen=True)
class TwoWayFit:
    """Total variation of the joint tables of pairs of columns, in which an empty cell is one more value."""

    mean: float
    max: float
    independent: float
    """The mean, had the released columns been independent of each other."""
    chance: float
    """The mean of as many rows drawn from the truth."""
    pairs: int
    of_pairs: int
    """All there are; more than `pairs` where a fixed public sample was taken."""
    worst: tuple[PairTableFit, ...]

    def errors(self, predicted: float | None) -> list[tuple[str, str | None, str | None]]:
        """Lines for people: what, seen, and what was `predicted` of the mean."""
        return [
            (f"total variation of a pair of columns, mean of {self.pairs}", share(self.mean), share(predicted)),
            ("the same, largest", share(self.max), None),
            ("the same, mean, had the released columns been independent", share(self.independent), None),
            ("the same, mean, of as many rows drawn from the truth", share(self.chance), None),
        ]

    def section(self) -> Section:
        """The worst pairs."""
        lines = tuple((p.a, p.b, share(p.error), share(p.independent), share(p.chance)) for p in self.worst)
        heads = ("one", "other", "total variation", "were they independent", "rows drawn from the truth")
        return Section("pairs of columns that are off most", (Table(heads, lines),))


def two_way_fit(truth: Tally, release: Tally) -> TwoWayFit | None:
    """Total variation of two-way tables over the layout's pairs; None where there is only one column."""
    layout = truth.layout
    if not layout.pairs:
        return None
    found = np.empty((len(layout.pairs), 3))
    for k, (a, b) in enumerate(layout.pairs):
        shape = layout.pair_cells[a].count, layout.pair_cells[b].count
        true = (truth.pair_counts[k] / truth.rows).reshape(shape)
        made = (release.pair_counts[k] / release.rows).reshape(shape)
        apart = np.outer(made.sum(axis=1), made.sum(axis=0))
        found[k] = total_variation(true, made), total_variation(true, apart), _by_chance(true, release.rows)
    mean, independent, chance = (float(value) for value in found.mean(axis=0))
    names = layout.names
    worst = tuple(
        PairTableFit(names[layout.pairs[k][0]], names[layout.pairs[k][1]], *map(float, found[k]))
        for k in np.argsort(-found[:, 0], kind="stable")[:_WORST]
    )
    return TwoWayFit(mean, float(found[:, 0].max()), independent, chance, len(found), layout.all_pairs, worst)


def _by_chance(shares: Reals, rows: int) -> float:
    """Mean total variation between `shares` and those of so many `rows` drawn from them.

    A cell is binomial, and its mean absolute deviation is known in closed form (de Moivre).
    """
    inside = shares[(shares > 0) & (shares < 1)]
    next_up = np.floor(rows * inside) + 1  # the least whole number above the mean
    ways = gammaln(rows + 1) - gammaln(next_up + 1) - gammaln(rows - next_up + 1)
    chance = ways + xlogy(next_up, inside) + xlog1py(rows - next_up + 1, -inside)
    return float((next_up / rows * np.exp(chance)).sum())
