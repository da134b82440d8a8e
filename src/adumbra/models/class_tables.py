"""Tables of the classes: what noisy counts tell of each class beyond the model, and beside the tables of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.models.column_cells import as_cells, form_of, unit_edges
from adumbra.models.denoising import centred, shrunk_deviations
from adumbra.models.marginals import Marginal, expected_shares
from adumbra.models.shrinkage import onto_simplex
from adumbra.queries.cells import Cells

__all__ = ["ClassTables"]

_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Noisy counts of cells, class by class, with the sd of their noise, and the rows of each class.

    `missing` is the share of empty cells, class by column.
    """

    cells: Cells
    counts: Reals
    sd: float
    rows: Reals
    missing: Reals

    @staticmethod
    def of(cells: Cells, counts: Reals, sd: float, rows: Reals, pooled: Sequence[Marginal]) -> ClassTables:
        """From the noisy `counts` (class x cell) of `cells`, with noise of this `sd`, for classes of so many `rows`.

        `pooled` are the columns' marginals over all classes: of what is missing a class keeps of its own deviation
        what noise does not explain, and together the classes miss what all rows do.
        """
        missing = np.zeros((len(rows), len(pooled)))
        variance, weight = (sd / rows) ** 2, rows / rows.sum()
        for j, (marginal, start, size) in enumerate(zip(pooled, cells.starts, cells.sizes, strict=True)):
            if marginal.missing <= 0:
                continue
            own = counts[:, start : start + size]
            seen = (own[:, -1] + (rows - own.sum(axis=1)) / size) / rows
            apart = seen - marginal.missing
            kept = apart * np.maximum(1 - variance / np.maximum(apart**2, 1e-300), 0.0)
            missing[:, j] = np.clip(marginal.missing + kept - weight @ kept, 0.0, 0.995)
        return ClassTables(cells, counts, sd, rows, missing)

    def corrected(self, j: int, column: Reals, members: Sequence[Integers], pooled: Marginal) -> list[Reals]:
        """The shares of column `j`'s cells in each class, which together are those of all rows.

        First guess: the class's table among the rows already decoded (`column`, of each class its `members`), so that
        without evidence nothing changes. `pooled` is the column's marginal.
        """
        count, start = self.cells.counts[j], self.cells.starts[j]
        ordered = form_of(self.cells.blocks[j]) != "values"
        wanted = expected_shares(pooled, unit_edges(self.cells, j))
        guess = np.tile(wanted, (len(members), 1))
        for own, rows in zip(guess, members, strict=True):
            if len(rows):
                own[:] = np.bincount(as_cells(column[rows], self.cells, j), minlength=count) / len(rows)
        there = self.rows * (1 - self.missing[:, j])
        measured = centred(self.counts[:, start : start + count] / there[:, None])
        # what stands out of all rows is in the guess; a class deviates from it over many cells
        apart = shrunk_deviations(measured - guess, (self.sd / there) ** 2, ordered, spikes=False)
        tables = onto_simplex(guess + apart)
        return list(_raked(tables, there / there.sum(), wanted))

    def values(self, j: int, table: Reals, u: Reals, pooled: Marginal) -> Reals:
        """Values of column `j` at shares `u` of a class whose cells have the shares in `table`.

        Inside a cell the distribution is that of all rows (`pooled`).
        """
        table = table + 1e-12
        below = np.concatenate([[0.0], np.cumsum(table / table.sum())])
        below[-1] = 1.0
        edges = unit_edges(self.cells, j)
        if edges is None or pooled.edges is None:
            level = np.searchsorted(below, u, side="right") - 1
            return np.clip(level, 0, len(table) - 1).astype(np.float64)
        inner = np.interp(edges[1:-1], pooled.edges, pooled.below)
        return pooled.quantile(np.interp(u, below, np.concatenate([[0.0], inner, [1.0]])))


def _raked(tables: Reals, weights: Reals, wanted: Reals) -> Reals:
    """The tables nearest to these (by iterative proportional fitting) whose weighted mean is the `wanted` one."""
    out = tables * (1 - 1e-3) + 1e-3 * wanted
    for _ in range(_ROUNDS):
        out *= wanted / np.maximum(weights @ out, 1e-300)
        out /= np.maximum(out.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(out)
