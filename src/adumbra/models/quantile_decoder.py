"""From latent rows to values: the ranks of each column, mapped through its released quantiles.

A Gaussian copula, which is standard: dependence comes from a normal model, each column's distribution from its own
table. Whether a cell is there is drawn first, by the rank of its own latent column; values go to the rows that have
one. How place and width are calibrated to noisy moments of clipped rows is the house's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, Block
from adumbra.models.class_tables import ClassTables
from adumbra.models.column_cells import form_of, on_levels
from adumbra.models.columns import Columns, classes_to_draw, in_batches
from adumbra.models.score_layout import ScoreLayout
from adumbra.models.shrinkage import apportion
from adumbra.models.two_round_gaussian import Latent, NoisyMoments, Pilot, noise_rows
from adumbra.queries.cells import last_level

__all__ = ["Decoder", "as_steps", "drawn_rows"]

Draws = NDArray[np.float32]
_SAMPLE = 2000  # rows that calibration and category offsets look at
_MISFIT = 1e-3  # variance of a mean score that the model errs by, whatever the noise


@dataclass(frozen=True, eq=False)
class Decoder:
    """How latent rows become columns: their layout, and place and width of each score on the normal scale."""

    layout: ScoreLayout
    shift: Reals
    spread: Reals
    by_class: ClassTables | None

    @staticmethod
    def calibrated(
        layout: ScoreLayout,
        latent: Latent,
        sample: Draws,
        seen: NoisyMoments,
        pilot: Pilot,
        known: Reals,
        by_class: ClassTables | None = None,
    ) -> Decoder:
        """Place and width of every ordered column on the normal scale.

        Chosen so that decoded rows, scored and clipped to the ball as the private rows were, have the released first
        and second moments, as far as these know both better than the tables do; a formula would have to undo the
        clipping.

        `layout` says where each column's scores are, `latent` is the model and `sample` some rows of it; `seen` and
        `pilot` are the moments of the first round and what was made of them. `known` is the variance of each column's
        mean score as its table tells it. `by_class`: counts of cells class by class, None where there are none.
        """
        shift, spread = np.zeros(len(latent.shift)), np.ones(len(latent.shift))
        draft = Decoder(layout, shift, spread, by_class)
        marginals, positions = layout.marginals, layout.positions
        ordered = [j for j, m in enumerate(marginals) if m.form != "values"]
        if not ordered:
            return draft
        sample, radius = sample[:_SAMPLE], layout.scores.radius
        at = positions[ordered]
        trust = known[ordered] / (known[ordered] + len(seen.counts) * (seen.sum_sd / seen.rows) ** 2 + _MISFIT)
        shift[at] = trust * latent.shift[at]
        scores = np.zeros(sample.shape[::-1])  # a row for each score: columns are filled one by one
        there = {j: draft._lost(sample, j, None) for j in layout.watched}
        for j, place in layout.presence.items():
            scores[place] = marginals[j].presence.vectors[there[j].astype(np.int64), 0]
        members = {j: np.flatnonzero(~lost) for j, lost in there.items()}
        for j, marginal in enumerate(marginals):
            if marginal.form == "values":
                rows, start = members.get(j, slice(None)), positions[j]
                found = marginal.vectors[draft._category(sample[rows], j, exact=False)]
                scores[start : start + marginal.width, rows] = found.T
        orders = []
        for j, a in zip(ordered, at, strict=True):
            order = np.argsort(sample[members[j], a] if j in members else sample[:, a])
            orders.append(members[j][order] if j in members else order)
        for step in range(3):
            for j, a, order in zip(ordered, at, orders, strict=True):
                marginal = marginals[j]
                scores[a, order] = marginal.scores(draft._values(j, len(order)))[:, 0]
            length = np.sqrt(np.einsum("ij,ij->j", scores, scores))
            cut = scores[at] / np.maximum(length / radius, 1.0)
            first, second = cut.mean(axis=1), (cut**2).mean(axis=1)
            if step == 0:
                wanted = _targets(seen, at, first, second, trust)
            shift[at] = np.clip(shift[at] + (wanted[0] - first) / pilot.scale[at], -1.5, 1.5)
            stretch = np.sqrt(np.clip(wanted[1] / np.maximum(second, 1e-3), 0.5, 2.0))
            spread[at] = np.clip(spread[at] * stretch, 0.5, 1.6)
        return draft

    def values(self, latent: Draws, groups: Integers, generator: np.random.Generator) -> dict[str, Reals]:
        """Columns of these `latent` rows, as `Columns.written` wants them, nan where a cell is empty.

        `groups` are the classes of the rows; `generator` draws what the model does not say.
        """
        rows, seen = len(latent), self.by_class
        upright = np.ascontiguousarray(latent.T)
        members = [np.flatnonzero(groups == g) for g in range(len(seen.rows))] if seen is not None else []
        out = {}
        for j, (block, marginal) in enumerate(zip(self.layout.blocks, self.layout.marginals, strict=True)):
            there: Integers | slice = slice(None)
            if marginal.missing > 0:
                there = np.flatnonzero(~self._lost(latent, j, groups, generator))
            own, column = upright[self.layout.positions[j]][there], np.full(rows, np.nan)
            if marginal.form == "values":
                column[there] = self._category(latent[there], j, exact=seen is None)
            else:
                decoded = np.empty(len(own))
                decoded[np.argsort(own)] = self._values(j, len(own))
                column[there] = decoded
            if seen is not None:
                present = [each[~np.isnan(column[each])] for each in members] if marginal.missing > 0 else members
                self._correct_by_class(j, column, latent, present, seen)
            out[block.column] = as_steps(block, column)
        return out

    def _values(self, j: int, count: int) -> Reals:
        """The values of so many rows of an ordered column, from the lowest rank to the highest."""
        a, normal = self.layout.positions[j], ndtri((np.arange(count) + 0.5) / max(count, 1))
        return self.layout.marginals[j].quantile(ndtr(self.spread[a] * normal + self.shift[a]))

    def _lost(
        self, latent: Draws, j: int, groups: Integers | None, generator: np.random.Generator | None = None
    ) -> NDArray[np.bool_]:
        """Which rows have an empty cell: as many as the tables say, those of the highest rank."""
        place = self.layout.presence.get(j)
        chance = generator.random(len(latent)) if place is None and generator is not None else np.zeros(len(latent))
        own = chance if place is None else latent[:, place].astype(np.float64)
        out = np.zeros(len(latent), dtype=bool)
        if groups is None or self.by_class is None:
            parts = [(np.arange(len(latent)), self.layout.marginals[j].missing)]
        else:
            shares = self.by_class.missing[:, j]
            parts = [(np.flatnonzero(groups == g), float(share)) for g, share in enumerate(shares)]
        for members, share in parts:
            lost = round(share * len(members))
            if lost:
                out[members[np.argpartition(own[members], len(members) - lost)[len(members) - lost :]]] = True
        return out

    def _category(self, latent: Draws, j: int, shares: Reals | None = None, *, exact: bool = True) -> Integers:
        """The largest of latent value plus offset, with offsets moved until the shares are met, exactly or nearly."""
        own = self.layout.marginals[j].shares
        shares = own if shares is None else shares
        start = self.layout.positions[j]
        part = latent[:, start : start + len(own)] * np.sqrt(own * (1 - own) + 1e-9)
        few, offset = part[: 2 * _SAMPLE], shares.copy()
        step = 0.3 / np.sqrt(shares * (1 - shares) + 0.01)
        for _ in range(40):
            found = np.bincount((few + offset).argmax(axis=1), minlength=len(own)) / max(len(few), 1)
            offset += step * (shares - found)
        moved = part + offset
        chosen = np.asarray(moved.argmax(axis=1))
        if exact and len(moved):
            _meet(chosen, moved, apportion(shares, len(moved)))
        return chosen

    def _correct_by_class(
        self, j: int, column: Reals, latent: Draws, members: list[Integers], seen: ClassTables
    ) -> None:
        """Give every class the distribution its own released tables tell of, among its `members` that have a value."""
        tables = seen.corrected(j, column, members, self.layout.marginals[j])
        for rows, table in zip(members, tables, strict=True):
            if not len(rows):
                continue
            if self.layout.marginals[j].form == "values":
                column[rows] = self._category(latent[rows], j, table)
            else:
                place = self.layout.positions[j]
                column[rows[np.argsort(latent[rows, place])]] = seen.values(
                    j, table, (np.arange(len(rows)) + 0.5) / len(rows), self.layout.marginals[j]
                )


def _meet(chosen: Integers, values: Reals, wanted: Integers) -> None:
    """Change the value `chosen` for some rows so that each is chosen as often as `wanted`, where least is lost by it.

    `values` (rows x values) say how well each suits a row.
    """
    over = np.bincount(chosen, minlength=len(wanted)) - wanted
    short = np.flatnonzero(over < 0)
    if not len(short):
        return
    rows = []
    for value in np.flatnonzero(over > 0):
        own = np.flatnonzero(chosen == value)
        lost = values[own, value] - values[own[:, None], short].max(axis=1)
        rows.append(own[np.argpartition(lost, over[value] - 1)[: over[value]]])
    moved = np.concatenate(rows)
    best = short[values[moved[:, None], short].argmax(axis=1)]
    left = []
    for value in short:
        own = moved[best == value]
        chosen[own[: -over[value]]] = value
        left.append(own[-over[value] :])
    rest = np.concatenate(left)
    room = np.maximum(-over[short] - np.bincount(best, minlength=len(wanted))[short], 0)
    chosen[rest] = np.repeat(short, room)


def _targets(seen: NoisyMoments, at: Integers, first: Reals, second: Reals, trust: Reals) -> tuple[Reals, Reals]:
    """Released moments, moved towards what an uncalibrated draw gives by as much as noise explains the gap.

    `trust` is how much of what moments say beyond the tables is news: little where tables know a column well.
    """
    gap = seen.sums.sum(axis=0)[at] / seen.rows - first
    noise = len(seen.counts) * (seen.sum_sd / seen.rows) ** 2
    kept = max(0.0, 1.0 - len(at) * noise / max(float((gap**2).sum()), 1e-300))
    second = np.maximum(second, 1e-3)
    ratio = np.diag(seen.second)[at] / second - 1
    variance = 2 * seen.second_sd**2 / second**2
    signal = max(float(np.mean(ratio**2 - variance)), 0.0)
    moved = ratio * trust * signal / (signal + variance)
    return first + gap * kept * trust, second * np.clip(1 + moved, 0.5, 2.0)


def as_steps(block: Block, values: Reals) -> Reals:
    """As `Columns.written` wants them: positions of categories, grid steps of the rest; nan stays."""
    if block.kind == "category":
        return values
    if form_of(block) == "levels":
        values = values / last_level(block)
    return on_levels(block, (values - 0.5) * GRID)


def drawn_rows(
    columns: Columns,
    decoder: Decoder,
    latent: Latent,
    classes: Integers,
    rows: int,
    generator: np.random.Generator,
) -> Iterator[Reals]:
    """So many `rows` of the model (`latent`), in batches: `decoder` makes values of them, `columns` the table.

    `classes` says which class of the table each of the model's is. All of it is public, and so is what `generator`
    draws.
    """
    groups = classes_to_draw(apportion(latent.shares, rows), generator)
    start = 0
    for size in in_batches(rows, len(latent.shift)):
        group = groups[start : start + size].astype(np.int64)
        start += size
        values = decoder.values(noise_rows(latent, group, generator), group, generator)
        yield columns.written(values, classes[group])
