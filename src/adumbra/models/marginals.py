"""The distribution of single columns from noisy tables, and what follows: scores to measure next, quantiles to draw.

Forms and cells of columns: `models.column_cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from adumbra.common.types import Reals
from adumbra.declare.space import GRID, Block
from adumbra.models.column_cells import Form, equal_cells, form_of, unit_edges
from adumbra.models.denoising import ColumnTables
from adumbra.queries.cells import Cells

__all__ = ["Marginal", "expected_shares", "flat_marginals", "marginals_of"]

_LARGEST_SCORE = 2.5
_NARROWEST = 0.003  # of the range: no standard deviation is taken to be smaller
_RAREST = 0.02  # variance of an indicator, likewise
_LEAST = 1e-6  # of a column: no ordered value is left impossible, so that ranks can be mapped both ways


@dataclass(frozen=True, eq=False)
class Marginal:
    """The released distribution of one column's values, and the share of its cells that are empty.

    For a number, `edges` are the ends of its cells in units of its range, and `levels` how many values it can have
    (None where it is not stepped).
    """

    form: Form
    shares: Reals
    edges: Reals | None = None
    levels: int | None = None
    missing: float = 0.0

    @staticmethod
    def of(
        form: Form, table: Reals, edges: Reals | None = None, levels: int | None = None, missing: float = 0.0
    ) -> Marginal:
        """The marginal of a column of this `form` whose cells have the masses in `table`, of any sum.

        `edges` are the ends of a number's cells, None for other forms; `levels` its number of values, if it is stepped.
        `missing` is the share of cells that are empty.
        """
        if form != "values":
            width = np.full(len(table), 1 / len(table)) if edges is None else np.diff(edges)
            table = table + float(table.sum()) * _LEAST * width
        return Marginal(form, table / table.sum(), edges, levels, missing)

    @cached_property
    def below(self) -> Reals:
        """Share below each edge."""
        out: Reals = np.concatenate([[0.0], np.cumsum(self.shares)])
        out[-1] = 1.0
        return out

    def quantile(self, u: Reals) -> Reals:
        """Values at these shares: in [0, 1] for a number, on a level if it is stepped; else the position of the level.

        A cell of one level gives that level, one of several any of them alike.
        """
        cell = np.clip(np.searchsorted(self.below, u, side="right") - 1, 0, len(self.shares) - 1)
        if self.edges is None:
            return cell.astype(np.float64)
        width = np.diff(self.edges)
        slope = width / np.maximum(self.shares, 1e-300)
        values = self.edges[cell] + np.clip((u - self.below[cell]) * slope[cell], 0.0, width[cell])
        if self.levels is not None:
            last = max(self.levels - 1, 1)
            return np.asarray(np.clip(np.rint(values * last), 0, last) / last)
        alone = width < 1.5 / GRID
        if alone.any():
            middle = (self.edges[1:] + self.edges[:-1]) / 2
            values = np.where(alone[cell], middle[cell], values)
        return np.clip(values, 0.0, 1.0)

    @cached_property
    def standard(self) -> tuple[float, float, float]:
        """Mean and standard deviation of a number, and the root mean square of its standardised, cut value."""
        values = self.quantile((np.arange(400) + 0.5) / 400)
        mean, sd = float(values.mean()), max(float(values.std()), _NARROWEST)
        cut = np.clip((values - mean) / sd, -_LARGEST_SCORE, _LARGEST_SCORE)
        return mean, sd, max(float(np.sqrt((cut**2).mean())), 0.3)

    @cached_property
    def vectors(self) -> Reals:
        """The scores of each cell (levels and values)."""
        if self.form == "levels":
            at = ndtri(np.clip(self.below, 1e-12, 1 - 1e-12))
            density = np.exp(-at * at / 2) / np.sqrt(2 * np.pi)
            density[[0, -1]] = 0.0
            score = np.clip((density[:-1] - density[1:]) / self.shares, -2.75, 2.75)
            return np.asarray(score[:, None])
        count = len(self.shares)
        sd = np.sqrt(np.maximum(self.shares * (1 - self.shares), _RAREST) * max(count - 1, 1))
        return np.asarray((np.eye(count) - self.shares) / sd)

    @property
    def width(self) -> int:
        """Scores of the column."""
        return len(self.shares) if self.form == "values" else 1

    @cached_property
    def variances(self) -> Reals:
        """Variance of each score under this distribution; an empty cell has a score of 0."""
        if self.form == "number":
            return np.full(1, 1.0 - self.missing)
        mean = self.shares @ self.vectors
        return np.maximum(self.shares @ self.vectors**2 - mean**2, 1e-3) * (1.0 - self.missing)

    def scores(self, values: Reals) -> Reals:
        """Scores of values as `quantile` gives them."""
        if self.form == "number":
            mean, sd, unit = self.standard
            return np.asarray(np.clip((values - mean) / sd, -_LARGEST_SCORE, _LARGEST_SCORE) / unit)[:, None]
        return self.vectors[values.astype(np.int64)]

    def linear(self) -> tuple[float, float, float]:
        """A number's score as centre, scale and limit, the first two in grid steps."""
        mean, sd, unit = self.standard
        return (mean - 0.5) * GRID, sd * unit * GRID, _LARGEST_SCORE / unit

    @cached_property
    def presence(self) -> Marginal:
        """Of two levels: that a cell is there, and that it is not."""
        return Marginal.of("levels", np.array([1.0 - self.missing, self.missing]))


def marginals_of(blocks: Sequence[Block], tables: ColumnTables, cells: Cells) -> list[Marginal]:
    """The marginals of the columns `blocks` whose `cells` have the shares in `tables`."""
    return [
        Marginal.of(form_of(block), table, unit_edges(cells, j), block.levels, float(lost))
        for j, (block, table, lost) in enumerate(zip(blocks, tables.values, tables.missing, strict=True))
    ]


def flat_marginals(blocks: Sequence[Block]) -> list[Marginal]:
    """Those of columns of which nothing is known; columns of one form and number of cells share one."""
    cells = equal_cells(blocks, 10)
    made: dict[tuple[Form, int, int | None], Marginal] = {}
    out = []
    for index, (block, count) in enumerate(zip(blocks, cells.counts, strict=True)):
        key = (form_of(block), count, block.levels)
        if key not in made:
            made[key] = Marginal.of(key[0], np.full(count, 1.0 / count), unit_edges(cells, index), block.levels)
        out.append(made[key])
    return out


def expected_shares(marginal: Marginal, edges: Reals | None) -> Reals:
    """Shares that the `marginal` gives to cells with these `edges` (the first and last are the ends of the range)."""
    if edges is None or marginal.edges is None:
        return marginal.shares
    at = np.interp(edges[1:-1], marginal.edges, marginal.below)
    return np.diff(np.concatenate([[0.0], at, [1.0]]))
