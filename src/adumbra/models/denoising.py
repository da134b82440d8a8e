"""Noise out of tables: what of noisy counts is likely to be real.

Cells in order are taken for a smooth curve and a few that stand out of it. Little data gives a smooth shape, much data
the table itself; a cell that stands out by more than noise explains is kept as it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import isotonic_regression
from scipy.special import betainc, ndtr

from adumbra.common.types import Integers, Reals
from adumbra.models.column_cells import alike, by_value, unit_edges
from adumbra.models.shrinkage import clear_counts, onto_simplex
from adumbra.queries.cells import Cells

__all__ = [
    "ColumnTables",
    "centred",
    "denoised",
    "gathered",
    "joined",
    "missing_shares",
    "predicted_table_error",
    "shrunk_deviations",
]

_NEIGHBOURS = (-2, -1, 1, 2)
_SPREAD = 1.2
"""Standard deviation of a cell less the median of its neighbours, where that of a cell is 1."""


@dataclass(frozen=True, eq=False)
class ColumnTables:
    """The shares of each column's values among cells that are there, and the share of those that are not."""

    values: list[Reals]
    missing: Reals


def gathered(tables: Reals, cells: Cells, members: Integers, count: int) -> Reals:
    """Tables as (..., column, cell), from `tables` that have all `cells` of all columns along their last axis.

    `members` are the columns, of which each has `count` cells of values.
    """
    return np.asarray(tables[..., cells.starts[members][:, None] + np.arange(count)])


def centred(tables: Reals) -> Reals:
    """Every table is known to sum to 1: the error of its sum is spread over its cells."""
    return np.asarray(tables + (1.0 - tables.sum(axis=-1, keepdims=True)) / tables.shape[-1])


def empty_cells(noisy: Reals, rows: float, cells: Cells) -> Reals:
    """How many cells of each column are empty, by the `noisy` counts of all `cells` of so many `rows`.

    Every column is known to add up to the rows: the error of its sum is spread over its cells.
    """
    out = np.zeros(len(cells.blocks))
    for j, (start, size, missing) in enumerate(zip(cells.starts, cells.sizes, cells.missing, strict=True)):
        if missing:
            own = noisy[start : start + size]
            out[j] = own[-1] + (rows - own.sum()) / size
    return out


def missing_shares(measured: Sequence[tuple[Reals, float, Cells]], rows: float) -> Reals:
    """The share of each column's cells that are empty, where that is clear of the noise; else 0.

    `measured` have each the noisy counts of all cells, the standard deviation of their noise, and the cells; `rows` is
    what a column adds up to. No column is taken to be all but empty: something has to be drawn from its values.
    """
    weights = np.array([1 / sd**2 for _, sd, _ in measured])
    found = weights @ np.stack([empty_cells(noisy, rows, cells) for noisy, _, cells in measured]) / weights.sum()
    return np.minimum(clear_counts(found, float(weights.sum()) ** -0.5, len(found)) / rows, 0.995)


def joined(first: tuple[Reals, float, Cells], second: tuple[Reals, float, Cells]) -> tuple[Reals, Reals]:
    """Counts of a `first` measurement and the sd of their noise, joined with a `second` where it had the same cells.

    A measurement has the noisy counts, the standard deviation of their noise, and the cells.
    """
    (counts, sd, cells), (again, again_sd, fine) = first, second
    out, sds = counts.copy(), np.full(len(cells.blocks), sd)
    trust = again_sd**2 / (sd**2 + again_sd**2)
    for j, (start, size) in enumerate(zip(cells.starts, cells.sizes, strict=True)):
        if by_value(cells, j):
            at = fine.starts[j]
            out[start : start + size] = trust * counts[start : start + size] + (1 - trust) * again[at : at + size]
            sds[j] = sd * trust**0.5
    return out, sds


def _standing_out(deviations: Reals, sd: Reals) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which deviations (columns x cells) differ from their neighbours by more than the noise of all cells explains."""
    columns, cells = deviations.shape
    if cells < 6:
        return np.zeros(deviations.shape, dtype=bool)
    padded = np.pad(deviations, ((0, 0), (2, 2)), mode="reflect")
    around = np.stack([padded[:, 2 + by : 2 + by + cells] for by in _NEIGHBOURS])
    around.sort(axis=0)
    level = (around[1] + around[2]) / 2
    most = _SPREAD * math.sqrt(2.0 * math.log(columns * cells)) * sd
    return np.asarray(np.abs(deviations - level) > most)


def shrunk_deviations(deviations: Reals, variance: Reals, ordered: bool, *, spikes: bool = True) -> Reals:
    """What of noisy `deviations` (columns x cells) from a first guess is likely to be real.

    `variance` is that of the noise in a cell, one for all columns or one for each; `ordered` says whether neighbouring
    cells are alike, so that low frequencies carry more, and with `spikes` single cells may stand out. Those are kept as
    they are; the rest is smoothed.
    """
    columns, cells = deviations.shape
    if cells < 2:
        return np.zeros_like(deviations)
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), columns)[:, None]
    if not (ordered and spikes):
        return _smoothed(deviations, noise, ordered)
    spiked = _standing_out(deviations, np.sqrt(noise))
    rest, places = deviations.copy(), np.arange(cells)
    for j in np.flatnonzero(spiked.any(axis=1)):
        if not spiked[j].all():
            rest[j, spiked[j]] = np.interp(places[spiked[j]], places[~spiked[j]], deviations[j, ~spiked[j]])
    # without the cells that stand out, the rest no longer adds up to nothing
    level = np.where(spiked.any(axis=1), rest.mean(axis=1), 0.0)[:, None]
    return np.where(spiked, deviations, level + _smoothed(rest - level, noise, True))


def _smoothed(deviations: Reals, noise: Reals, ordered: bool) -> Reals:
    """Empirical Bayes, the house's own combination of standard parts.

    The variance of the real part is estimated frequency by frequency across the columns (falling, where cells are in
    order), and its level also for each column, as far as its own energy tells. The noise that passes this filter is
    then taken out cell by cell, so that empty tails stay empty. No evidence leaves the guess as it was.
    """
    columns, cells = deviations.shape
    waves = np.asarray(dct(deviations, axis=1, norm="ortho"))[:, 1:]
    excess = np.average(waves**2 - noise, axis=0, weights=1 / noise[:, 0] ** 2)
    falling = isotonic_regression(excess, increasing=False).x if ordered else np.full(cells - 1, excess.mean())
    signal = np.maximum(falling, 0.0)
    level = float(signal.mean())
    if level <= 0:
        return np.zeros_like(deviations)
    own = (waves**2 - noise).mean(axis=1, keepdims=True) / level
    trust = level**2 * (cells - 1) / 2 / noise**2  # 1 / relative variance of `own`
    own = np.maximum(1.0 + (own - 1.0) * trust / (trust + 1.0), 0.0)
    kept = own * signal / (own * signal + noise)
    real = np.asarray(idct(np.hstack([np.zeros((columns, 1)), waves * kept]), axis=1, norm="ortho"))
    passed = noise * (kept**2).mean(axis=1, keepdims=True)
    return np.asarray(real * (real**2 / (real**2 + 0.5 * passed + 1e-30)))


_FINE = 512


@lru_cache(maxsize=1)
def _shapes() -> Reals:
    """Public dictionary of single-peaked, skewed, U- and J-shaped columns: beta distributions on a fine grid."""
    means, sizes = np.meshgrid(ndtr(np.linspace(-2.4, 2.4, 33)), np.geomspace(1, 300, 13))
    mean, size = means.ravel()[:, None], sizes.ravel()[:, None]
    return np.asarray(
        betainc(np.maximum(mean * size, 0.05), np.maximum((1 - mean) * size, 0.05), np.linspace(0, 1, _FINE + 1)[None])
    )


def _shapes_of(edges: Reals) -> Reals:
    """The tables that the dictionary gives to cells with these ends."""
    at = (edges - edges[0]) / (edges[-1] - edges[0]) * _FINE
    low = np.minimum(at.astype(np.int64), _FINE - 1)
    below = _shapes()
    below = below[:, low] + (below[:, low + 1] - below[:, low]) * (at - low)
    tables = np.diff(below, axis=1)
    return np.asarray(tables / tables.sum(axis=1, keepdims=True))


def _denoised_ordered(tables: Reals, variance: Reals, edges: Sequence[Reals], rounds: int = 30) -> Reals:
    """Noisy tables of cells in order, with these ends: little data gives a smooth shape, much data the table itself.

    First guess: the posterior mean over the dictionary, whose weights are learnt across the columns. What the
    dictionary misses comes back through `shrunk_deviations`.
    """
    variance = np.broadcast_to(np.asarray(variance, dtype=np.float64), len(tables))
    different = {ends.tobytes(): ends for ends in edges}
    made = {key: _shapes_of(ends) for key, ends in different.items()}
    fit = np.empty((len(tables), len(_shapes())))
    for table, own, ends, out in zip(tables, variance, edges, fit, strict=True):
        shapes = made[ends.tobytes()]
        out[:] = -((table**2).sum() - 2 * shapes @ table + (shapes**2).sum(axis=1)) / (2 * own)
    fit = np.exp(fit - fit.max(axis=1, keepdims=True))
    weight = np.full(fit.shape[1], 1.0 / fit.shape[1])
    for _ in range(rounds):
        posterior = fit * weight
        weight = 0.9 * (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0) + 0.1 / fit.shape[1]
    posterior = fit * weight
    posterior /= posterior.sum(axis=1, keepdims=True)
    guess = np.stack([own @ made[ends.tobytes()] for own, ends in zip(posterior, edges, strict=True)])
    return onto_simplex(guess + shrunk_deviations(tables - guess, variance, True))


def denoised(noisy: Reals, sd: Reals | float, rows: float, cells: Cells, missing: Reals | None = None) -> ColumnTables:
    """Tables of shares for each column of `cells`.

    `noisy` are the counts of all cells, column after column, with noise of standard deviation `sd` (one, or one for
    each column); `rows` is what a column's counts add up to. `missing` is the share of it that is empty; None asks the
    counts.
    """
    sd = np.broadcast_to(np.asarray(sd, dtype=np.float64), len(cells.blocks))
    if missing is None:
        missing = missing_shares([(noisy, float(sd.max()), cells)], rows)
    out: list[Reals] = [np.empty(0)] * len(cells.blocks)
    for ordered, count, members in alike(cells):
        there = rows * (1 - missing[members])
        tables = centred(gathered(noisy, cells, members, count) / there[:, None])
        if ordered and count > 2:
            edges = [_ends(cells, int(j)) for j in members]
            clean = _denoised_ordered(tables, (sd[members] / there) ** 2, edges)
        else:
            clean = onto_simplex(tables)
        for index, table in zip(members, clean, strict=True):
            out[index] = table
    return ColumnTables(out, missing)


def _ends(cells: Cells, index: int) -> Reals:
    edges = unit_edges(cells, index)
    return np.linspace(0, 1, cells.counts[index] + 1, dtype=np.float64) if edges is None else edges


def predicted_table_error(
    tables: ColumnTables, sd: Reals | float, rows: float, cells: Cells, generator: np.random.Generator
) -> float:
    """Mean total variation of a denoised table, by a parametric bootstrap: the same noise is added once more.

    `tables` are the denoised shares of the columns of `cells`; `sd`, in rows, is that of the noise on a count (one,
    or one for each column) and `rows` the number of rows. `generator` draws noise that is post-processing and protects
    nothing.
    """
    counts = []
    for table, lost, empty in zip(tables.values, tables.missing, cells.missing, strict=True):
        counts += [table * (1 - lost), [lost] if empty else []]
    each = np.repeat(np.broadcast_to(np.asarray(sd, dtype=np.float64), len(cells.blocks)), cells.sizes)
    again = np.concatenate(counts) * rows + generator.normal(0.0, each)
    pairs = zip(tables.values, denoised(again, sd, rows, cells).values, strict=True)
    return float(np.mean([0.5 * np.abs(one - two).sum() for one, two in pairs]))
