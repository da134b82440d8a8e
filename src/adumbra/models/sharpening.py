"""Numbers measured again, in cells of about equal mass: sharper in the middle, and tails that end where rows do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adumbra.common.types import Reals
from adumbra.models.column_cells import alike, by_value, unit_edges
from adumbra.models.denoising import centred, gathered, shrunk_deviations
from adumbra.models.marginals import Marginal, expected_shares
from adumbra.models.shrinkage import onto_simplex
from adumbra.queries.cells import Cells

__all__ = ["sharpened"]

_CLEAR = 3.0
_CELLS_BEFORE = 3  # of a tail, that tell how fast it falls


def sharpened(
    marginals: Sequence[Marginal], first_sd: float, noisy: Reals, sd: float, rows: float, cells: Cells
) -> list[Marginal]:
    """The `marginals` measured first, corrected by tables of finer `cells`; inside one the shape stays what it was.

    `first_sd` is the standard deviation of the noise on the first counts; `noisy` are counts of all the finer cells
    with noise of standard deviation `sd`; `rows` is what a column adds up to. Columns with a cell for each value
    stay as they are: both measurements asked them the same.
    """
    out = dict(enumerate(marginals))
    missing = np.array([m.missing for m in marginals])
    for ordered, count, group in alike(cells):
        members = np.array([j for j in group if not by_value(cells, int(j))], dtype=np.int64)
        if not len(members):
            continue
        guess = np.stack([expected_shares(marginals[j], unit_edges(cells, j)) for j in members])
        there = rows * (1 - missing[members])
        noise = (sd / there)[:, None]
        seen = centred(gathered(noisy, cells, members, count) / there[:, None])
        new = guess + shrunk_deviations(seen - guess, noise[:, 0] ** 2, ordered)
        # either end of the range has a cell of its own, which is mostly empty
        ends = np.zeros(new.shape, dtype=bool)
        ends[:, [0, -1]] = True
        new = onto_simplex(np.where(ends & (seen < _CLEAR * noise), np.minimum(new, guess), new))
        for j, table, own in zip(members, new, there, strict=True):
            edges = unit_edges(cells, int(j))
            assert edges is not None
            out[int(j)] = _refined(marginals[j], edges, table, _CLEAR * first_sd / own)
    return [out[j] for j in range(len(marginals))]


def _refined(marginal: Marginal, edges: Reals, table: Reals, clear: float) -> Marginal:
    """The marginal whose cells with these `edges` have the shares in `table`; a share above `clear` keeps its place."""
    assert marginal.edges is not None
    borders = np.unique(np.concatenate([marginal.edges, edges]))
    mass = np.diff(np.interp(borders, marginal.edges, marginal.below))
    width, middle = np.diff(borders), (borders[1:] + borders[:-1]) / 2
    cell = np.searchsorted(edges[1:-1], middle, side="right")
    seen = np.searchsorted(marginal.edges[1:-1], middle, side="right")
    for tail, way in ((len(table) - 2, -1), (1, 1)):
        own = np.flatnonzero(cell == tail)
        if len(own) > 1 and table[tail] > 0:
            kept = np.where(marginal.shares[seen[own]] > clear, mass[own], 0.0)
            ends = np.stack([borders[own], borders[own] + width[own]])
            mass[own] = _tail(kept, ends, tail, way, edges, table) if kept.sum() < table[tail] else mass[own]
    total = np.bincount(cell, weights=mass, minlength=len(table))
    # a cell that held nothing before is filled evenly
    share = np.where(total[cell] > 1e-12, mass, width)
    total = np.bincount(cell, weights=share, minlength=len(table))
    mass = share / np.maximum(total[cell], 1e-300) * table[cell]
    return Marginal.of("number", mass, borders, marginal.levels, marginal.missing)


def _tail(kept: Reals, ends: Reals, tail: int, way: int, edges: Reals, table: Reals) -> Reals:
    """How the mass of an outermost cell is spread: what is `kept` as it was seen, the rest falling off.

    It falls off as fast as cells before it say: where these hold `before` within a distance, and the tail holds
    `after`, an exponential law has the rate log(1 + before / after) / distance. `ends` are those of the
    parts of the cell `tail` of the `table` whose cells have these `edges`; `way` leads from there to the middle.
    """
    inner = tail + way * np.arange(1, 1 + _CELLS_BEFORE)
    inner = inner[(inner > 0) & (inner < len(table) - 1)]
    border = edges[tail + (way > 0)]
    distance = abs(float(edges[inner[-1] + (way > 0)] - border)) if len(inner) else 0.0
    rate = np.log1p(float(table[inner].sum()) / float(table[tail])) / distance if distance > 0 else 0.0
    away = np.sort(np.abs(ends - border), axis=0)
    falling = np.exp(-rate * away[0]) - np.exp(-rate * away[1]) if rate > 0 else away[1] - away[0]
    falling = np.where(kept > 0, 0.0, falling)
    rest = float(table[tail]) - float(kept.sum())
    return np.asarray(kept + falling * (rest / max(float(falling.sum()), 1e-300)))
