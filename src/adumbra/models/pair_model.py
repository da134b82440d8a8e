"""A model of tables of two and three columns, and rows drawn from it.

Noisy residuals become tables (`models.residual_tables`); each column is drawn given those before it
(`models.chained_regressions`); cells of drawn rows are moved until their tables are the wanted ones
(`models.row_moves`); and a value is drawn within its cell as the column's own table tells (`models.joint_layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.models.chained_regressions import Chain, WantedTable, fit_chain
from adumbra.models.columns import Columns
from adumbra.models.joint_layout import JointLayout
from adumbra.models.residual_tables import JointTable, Residual, denoised_pairs, denoised_triple
from adumbra.models.row_moves import moved, sweeps_for
from adumbra.models.within_cells import Coupling, couplings
from adumbra.numerics.integer_kernels import worker_threads

__all__ = ["PairModel"]

_RIDGE = 4.0
"""Times the variance of the noise on a share: how strongly weights are shrunk."""
_LEAST_RIDGE = 1e-6
_AT_ONCE = 2**16
"""Rows drawn, and moved, together."""

Places = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PairModel:
    """Joint cells, tables of pairs and triples that hold more than noise, and the regressions fitted to them."""

    layout: JointLayout
    pairs: Mapping[tuple[int, int], JointTable]
    triples: Mapping[Places, JointTable]
    targets: Mapping[Places, WantedTable]
    chain: Chain
    couplings: Mapping[int, Coupling]

    @staticmethod
    def fitted(
        layout: JointLayout,
        residuals: Mapping[Places, Residual],
        first: Sequence[int],
        generator: np.random.Generator,
    ) -> PairModel:
        """The model of columns with this `layout` from noisy `residuals` of tables, in shares.

        Columns in `first` are drawn before all others, which follow by how much they tell of others; in a table of
        three columns one of them stands first, if there is one. `generator` draws the rows that regressions are fitted
        on.
        """
        _compile()
        pairs = denoised_pairs(layout.shares, {(t[0], t[1]): r for t, r in residuals.items() if len(t) == 2})
        targets: dict[Places, WantedTable] = {pair: _target(pair, own) for pair, own in pairs.items() if own.strength}
        triples: dict[Places, JointTable] = {}
        for places, residual in residuals.items():
            if len(places) == 3 and (found := _triple(layout, pairs, places, residual, first)) is not None:
                triples[places] = found
                targets[places] = _target(places, found)
        told = np.zeros(len(layout.shares))
        for (j, k), own in pairs.items():
            told[[j, k]] += own.strength
        told[list(first)] += len(told) + np.arange(len(first), 0, -1)
        order = [int(j) for j in np.argsort(-told, kind="stable")]
        chain = fit_chain(layout.cells.counts, layout.shares, targets, order, generator)
        return PairModel(layout, pairs, triples, targets, chain, couplings(pairs, layout.ordered, order))

    def drawn(self, rows: int, generator: np.random.Generator, sweeps: int) -> NDArray[np.int32]:
        """So many `rows` of joint cells that `generator` draws, moved towards the tables in so many `sweeps`."""
        return moved(self.chain.draw(rows, generator), self.layout.cells.counts, self.targets, sweeps)

    def values(self, cells: NDArray[np.int32], columns: Columns, generator: np.random.Generator) -> Reals:
        """Rows of the table `columns` are those of, with values that `generator` draws within these joint `cells`."""
        features, places = dict[str, Reals](), dict[int, Reals]()
        for j in self.chain.order:
            own, u = cells[:, j].astype(np.int64), generator.random(len(cells))
            if (link := self.couplings.get(j)) is not None:
                chance = generator.random(len(cells))
                u = link.places(own, cells[:, link.other].astype(np.int64), places[link.other], u, chance)
            places[j] = u
            features[columns.features[j].column] = self.layout.values(j, own, u)
        return columns.written(features, np.zeros(len(cells), dtype=np.int64))

    def batches(self, columns: Columns, rows: int, generator: np.random.Generator) -> Iterator[Reals]:
        """So many `rows` of `columns`, some at a time, in bounded memory; `generator` draws them.

        Each batch has a generator of its own, so that several are drawn at once, and always the same.
        """
        sizes, sweeps = [], sweeps_for(rows)
        while rows > 0:
            sizes.append(rows if rows < 1.5 * _AT_ONCE else _AT_ONCE)
            rows -= sizes[-1]
        keys = generator.integers(0, 2**63, size=(len(sizes), 2), dtype=np.uint64)

        def batch(place: int) -> Reals:
            own = np.random.Generator(np.random.Philox(key=keys[place]))
            return self.values(self.drawn(sizes[place], own, sweeps), columns, own)

        together = worker_threads()
        if together == 1 or len(sizes) == 1:
            yield from map(batch, range(len(sizes)))
            return
        with ThreadPoolExecutor(together) as pool:
            for start in range(0, len(sizes), together):
                yield from pool.map(batch, range(start, min(start + together, len(sizes))))


@cache
def _compile() -> None:
    """Run every compiled pass once, whatever tables hold.

    A release is tried on made-up rows before it is charged, so that nothing is left to fail afterwards; but whether
    their tables hold anything that is fitted to and moved towards is chance.
    """
    half, generator = np.full(2, 0.5), np.random.Generator(np.random.Philox(key=0))
    some: dict[Places, WantedTable] = {(0, 1): WantedTable((0, 1), np.outer(half, half), 1.0)}
    moved(fit_chain((2, 2), (half, half), some, (0, 1), generator).draw(2, generator), (2, 2), some)


def _target(places: Places, found: JointTable) -> WantedTable:
    return WantedTable(places, found.shares, _RIDGE * (len(places) - 1) * found.sd**2 + _LEAST_RIDGE)


def _triple(
    layout: JointLayout,
    pairs: Mapping[tuple[int, int], JointTable],
    places: Places,
    residual: Residual,
    first: Sequence[int],
) -> JointTable | None:
    lead = next((j for j in first if j in places), places[0])
    j, k = (c for c in places if c != lead)
    axis = places.index(lead)
    one, two, three = (_pair_table(layout, pairs, a, b) for a, b in ((lead, j), (lead, k), (j, k)))
    found = denoised_triple(one, two, three, Residual(np.moveaxis(residual.table, axis, 0), residual.sd))
    return None if found is None else JointTable(np.moveaxis(found.shares, 0, axis), found.sd, found.strength)


def _pair_table(layout: JointLayout, pairs: Mapping[tuple[int, int], JointTable], a: int, b: int) -> Reals:
    own = pairs.get((min(a, b), max(a, b)))
    if own is None:
        return np.outer(layout.shares[a], layout.shares[b])
    return own.shares if a < b else own.shares.T
