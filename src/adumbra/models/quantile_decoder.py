"""From latent rows to values: the ranks of each column, mapped through its released quantiles.

A Gaussian copula, which is standard: dependence comes from a normal model, each column's distribution from its own
table. How place and width are calibrated to noisy moments of clipped rows is the house's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, HALF, Block
from adumbra.models.columns import Columns, classes_to_draw, in_batches
from adumbra.models.marginals import Marginal, alike, as_cells, centred, form_of, shrunk_deviations, unit_edges
from adumbra.models.shrinkage import apportion, onto_simplex
from adumbra.models.two_round_gaussian import Latent, NoisyMoments, Pilot, noise_rows
from adumbra.queries.cells import Cells

__all__ = ["ClassTables", "Decoder", "drawn_rows"]

Draws = NDArray[np.float32]
_SAMPLE = 2000  # rows that calibration and category offsets look at


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Noisy counts of cells, class by class, with the sd of their noise."""

    cells: Cells
    counts: Reals
    sd: float


@dataclass(frozen=True, eq=False)
class Decoder:
    """How latent rows become columns. `positions` says where each column's scores stand in a latent row."""

    blocks: tuple[Block, ...]
    marginals: tuple[Marginal, ...]
    positions: tuple[int, ...]
    shift: Reals
    spread: Reals
    by_class: ClassTables | None
    class_rows: Reals

    @staticmethod
    def calibrated(
        blocks: tuple[Block, ...],
        marginals: Sequence[Marginal],
        positions: Sequence[int],
        latent: Latent,
        sample: Draws,
        seen: NoisyMoments,
        pilot: Pilot,
        radius: float,
        by_class: ClassTables | None = None,
    ) -> Decoder:
        """Place and width of every ordered column on the normal scale.

        Chosen so that decoded rows, scored and clipped to the ball as the private rows were, have the released first
        and second moments: those know both better than the tables do, and a formula would have to undo the clipping.

        `blocks` are the columns, `marginals` their distributions and `positions` where the scores of each begin in a
        latent row. `latent` is the model and `sample` some rows of it; `seen` and `pilot` are the moments of the first
        round and what was made of them, for scores in a ball of this `radius`. `by_class`: counts of cells class by
        class, None where there are none.
        """
        shift, spread = latent.shift.copy(), np.ones(len(latent.shift))
        draft = Decoder(blocks, tuple(marginals), tuple(positions), shift, spread, by_class, latent.shares * seen.rows)
        ordered = [j for j, m in enumerate(marginals) if m.form != "values"]
        if not ordered:
            return draft
        sample = sample[:_SAMPLE]
        at = np.array([positions[j] for j in ordered])
        scores = np.empty(sample.shape[::-1])  # a row for each score: columns are filled one by one
        for j, marginal in enumerate(marginals):
            if marginal.form == "values":
                start = positions[j]
                scores[start : start + marginal.width] = marginal.vectors[draft._category(sample, j)].T
        orders = np.argsort(sample.T[at], axis=1)
        normal = ndtri((np.arange(len(sample)) + 0.5) / len(sample))
        for step in range(3):
            for j, a, order in zip(ordered, at, orders, strict=True):
                marginal = marginals[j]
                scores[a, order] = marginal.scores(marginal.quantile(ndtr(spread[a] * normal + shift[a])))[:, 0]
            length = np.sqrt(np.einsum("ij,ij->j", scores, scores))
            cut = scores[at] / np.maximum(length / radius, 1.0)
            first, second = cut.mean(axis=1), (cut**2).mean(axis=1)
            if step == 0:
                wanted = _targets(seen, at, first, second)
            shift[at] = np.clip(shift[at] + (wanted[0] - first) / pilot.scale[at], -1.5, 1.5)
            stretch = np.sqrt(np.clip(wanted[1] / np.maximum(second, 1e-3), 0.5, 2.0))
            spread[at] = np.clip(spread[at] * stretch, 0.5, 1.6)
        return draft

    def values(self, latent: Draws, groups: Integers) -> dict[str, Reals]:
        """Columns of these rows, as `Columns.written` wants them."""
        normal = ndtri((np.arange(len(latent)) + 0.5) / len(latent))
        upright = np.ascontiguousarray(latent.T)
        out = []
        for j, (marginal, a) in enumerate(zip(self.marginals, self.positions, strict=True)):
            if marginal.form == "values":
                out.append(self._category(latent, j).astype(np.float64))
                continue
            column = np.empty(len(latent))
            order = np.argsort(upright[a])
            column[order] = marginal.quantile(ndtr(self.spread[a] * normal + self.shift[a]))
            out.append(column)
        if self.by_class is not None:
            self._correct_by_class(out, latent, groups, self.by_class)
        return {block.column: _written(block, column) for block, column in zip(self.blocks, out, strict=True)}

    def _category(self, latent: Draws, j: int, shares: Reals | None = None) -> Integers:
        """The largest of latent value plus offset, with offsets moved until the shares are met."""
        own = self.marginals[j].shares
        shares = own if shares is None else shares
        start = self.positions[j]
        part = latent[:, start : start + len(own)] * np.sqrt(own * (1 - own) + 1e-9)
        few, offset = part[: 2 * _SAMPLE], shares.copy()
        for _ in range(40):
            found = np.bincount((few + offset).argmax(axis=1), minlength=len(own)) / max(len(few), 1)
            offset += 0.3 * (shares - found) / np.sqrt(shares * (1 - shares) + 0.01)
        return np.asarray((part + offset).argmax(axis=1))

    def _correct_by_class(self, columns: list[Reals], latent: Draws, groups: Integers, seen: ClassTables) -> None:
        """Give every class the distribution its own released tables tell of.

        First guess: the class's table among the rows already decoded, so that without evidence nothing changes.
        """
        cells = seen.cells
        for group in range(len(self.class_rows)):
            members = np.flatnonzero(groups == group)
            if not len(members):
                continue
            variance = np.asarray((seen.sd / self.class_rows[group]) ** 2)
            for ordered, count, alike_columns in alike(cells):
                guess = np.stack(
                    [
                        np.bincount(as_cells(columns[j][members], cells, j), minlength=count) / len(members)
                        for j in alike_columns
                    ]
                )
                own = seen.counts[group][cells.starts[alike_columns][:, None] + np.arange(count)]
                measured = centred(own / self.class_rows[group])
                tables = onto_simplex(guess + shrunk_deviations(measured - guess, variance, ordered))
                for j, table in zip(alike_columns, tables, strict=True):
                    columns[j][members] = self._within(int(j), latent[members], table, unit_edges(cells, int(j)))

    def _within(self, j: int, latent: Draws, table: Reals, edges: Reals | None) -> Reals:
        """Values of a column whose cells have these shares; inside a cell the distribution of all rows is kept."""
        marginal = self.marginals[j]
        if marginal.form == "values":
            return self._category(latent, j, table).astype(np.float64)
        u = np.empty(len(latent))
        u[np.argsort(latent[:, self.positions[j]])] = (np.arange(len(latent)) + 0.5) / len(latent)
        table = table + 1e-9
        below = np.concatenate([[0.0], np.cumsum(table / table.sum())])
        below[-1] = 1.0
        if edges is None or marginal.edges is None:
            level = np.searchsorted(below, u, side="right") - 1
            return np.clip(level, 0, len(table) - 1).astype(np.float64)
        inner = np.interp(edges[2:-2], marginal.edges[1:-1], marginal.below[1:-1])
        pooled = np.concatenate([[0.0, marginal.below[1]], inner, [marginal.below[-2], 1.0]])
        return marginal.quantile(np.interp(u, below, pooled))


def _targets(seen: NoisyMoments, at: Integers, first: Reals, second: Reals) -> tuple[Reals, Reals]:
    """Released moments, moved towards what an uncalibrated draw gives by as much as their noise explains the gap."""
    gap = seen.sums.sum(axis=0)[at] / seen.rows - first
    noise = len(seen.counts) * (seen.sum_sd / seen.rows) ** 2
    kept = max(0.0, 1.0 - len(at) * noise / max(float((gap**2).sum()), 1e-300))
    second = np.maximum(second, 1e-3)
    ratio = np.diag(seen.second)[at] / second - 1
    variance = 2 * seen.second_sd**2 / second**2
    signal = max(float(np.mean(ratio**2 - variance)), 0.0)
    return first + gap * kept, second * np.clip(1 + ratio * signal / (signal + variance), 0.5, 2.0)


def _written(block: Block, values: Reals) -> Reals:
    if block.kind == "category":
        return values
    if block.kind == "flag":
        return np.where(values > 0.5, float(HALF), float(-HALF))
    if form_of(block) == "levels":
        return np.asarray(-HALF + values * (GRID / max((block.levels or 1) - 1, 1)))
    return np.asarray((values - 0.5) * GRID)


def drawn_rows(
    columns: Columns, decoder: Decoder, latent: Latent, rows: int, generator: np.random.Generator
) -> Iterator[Reals]:
    """So many `rows` of the model (`latent`), in batches: `decoder` makes values of them, `columns` the table.

    All of it is public, and so is what `generator` draws.
    """
    groups = classes_to_draw(apportion(latent.shares, rows), generator)
    start = 0
    for size in in_batches(rows, len(latent.shift)):
        group = groups[start : start + size].astype(np.int64)
        start += size
        yield columns.written(decoder.values(noise_rows(latent, group, generator), group), group)
