"""The distribution of single columns from noisy tables, and what follows: scores to measure next, quantiles to draw.

A column is of one of three forms:

| form | which | cells | scores |
|---|---|---|---|
| `number` | numbers with many values | parts of the range | one: the standardised value |
| `levels` | flags, two-valued categories, small whole numbers | one a level | one: the normal score of the level |
| `values` | other categories | one a value | one a value: the standardised indicator |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import isotonic_regression
from scipy.special import betainc, ndtr, ndtri

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, HALF, Block
from adumbra.models.shrinkage import onto_simplex
from adumbra.queries.cells import Cells

__all__ = [
    "Form",
    "Marginal",
    "alike",
    "as_cells",
    "centred",
    "denoised",
    "equal_cells",
    "form_of",
    "mass_cells",
    "predicted_table_error",
    "sharpened",
    "shrunk_deviations",
    "unit_edges",
]

Form = Literal["number", "levels", "values"]

_LEVELS = 20
_LARGEST_SCORE = 2.5
_NARROWEST = 0.003  # of the range: no standard deviation is taken to be smaller
_RAREST = 0.02  # variance of an indicator, likewise


def form_of(block: Block) -> Form:
    """How a column is treated."""
    if block.kind == "flag" or (block.kind == "category" and block.width == 2):
        return "levels"
    if block.kind == "category":
        return "values"
    return "levels" if block.levels is not None and block.levels <= _LEVELS else "number"


def equal_cells(blocks: Sequence[Block], bins: int) -> Cells:
    """Cells that follow from the schema alone."""
    return Cells.even(blocks, bins, _LEVELS)


def mass_cells(blocks: Sequence[Block], marginals: Sequence[Marginal] | None, parts: int) -> Cells:
    """Cells of equal released mass, and one for each end of the range: resolution goes where the column is.

    `blocks` are the columns; a number among them gets `parts` cells between its two ends. The number of cells does not
    depend on the `marginals`; where these are None, edges stand at equal distances.
    """
    counts: list[int] = []
    cuts: list[Reals | None] = []
    for index, block in enumerate(blocks):
        if form_of(block) != "number":
            counts.append(equal_cells([block], 1).counts[0])
            cuts.append(None)
            continue
        inner = np.arange(1, parts) / parts
        if marginals is not None:
            inner = marginals[index].quantile(inner)
        # whole positions: a value at an end of the range, and no other, falls in the outermost cell
        inside = np.clip(np.rint((inner - 0.5) * GRID), -HALF + 1, HALF)
        cuts.append(np.concatenate([[-HALF + 1], inside, [HALF]]))
        counts.append(parts + 2)
    return Cells(tuple(blocks), tuple(counts), tuple(cuts))


def alike(cells: Cells) -> list[tuple[bool, int, Integers]]:
    """Columns whose tables can be read together: (in order, number of cells, which columns)."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for index, (block, count) in enumerate(zip(cells.blocks, cells.counts, strict=True)):
        groups.setdefault((form_of(block) != "values", count), []).append(index)
    return [(ordered, count, np.array(members)) for (ordered, count), members in groups.items()]


def _gathered(tables: Reals, cells: Cells, members: Integers, count: int) -> Reals:
    """The tables of these columns, from a list of all cells (its last axis), as (..., column, cell)."""
    return np.asarray(tables[..., cells.starts[members][:, None] + np.arange(count)])


def centred(tables: Reals) -> Reals:
    """Every table is known to sum to 1: the error of its sum is spread over its cells."""
    return np.asarray(tables + (1.0 - tables.sum(axis=-1, keepdims=True)) / tables.shape[-1])


# ---- noise out of tables


def shrunk_deviations(deviations: Reals, variance: Reals, ordered: bool) -> Reals:
    """What of noisy `deviations` (columns x cells) from a first guess is likely to be real.

    `variance` is that of the noise in a cell, one for all columns or one for each; `ordered` says whether neighbouring
    cells are alike, so that low frequencies carry more. Empirical Bayes, the house's own combination of standard parts.
    The variance of the real part is estimated frequency by frequency across the columns (falling, where cells are in
    order), and its level also for each column, as far as its own energy tells. The noise that passes this filter is
    then taken out cell by cell, so that empty tails stay empty. No evidence leaves the guess as it was.
    """
    columns, cells = deviations.shape
    if cells < 2:
        return np.zeros_like(deviations)
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), columns)[:, None]
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


def _shapes(cells: int) -> Reals:
    """Public dictionary of single-peaked, skewed, U- and J-shaped tables: beta distributions on a grid."""
    means, sizes = np.meshgrid(ndtr(np.linspace(-2.4, 2.4, 33)), np.geomspace(1, 300, 13))
    mean, size = means.ravel()[:, None], sizes.ravel()[:, None]
    below = betainc(
        np.maximum(mean * size, 0.05), np.maximum((1 - mean) * size, 0.05), np.linspace(0, 1, cells + 1)[None]
    )
    tables = np.diff(below, axis=1)
    return np.asarray(tables / tables.sum(axis=1, keepdims=True))


def _denoised_ordered(tables: Reals, variance: Reals, rounds: int = 30) -> Reals:
    """Noisy tables of cells in order: little data gives a smooth shape, much data the table itself.

    First guess: the posterior mean over the dictionary, whose weights are learnt across the columns. What the
    dictionary misses comes back through `shrunk_deviations`.
    """
    variance = np.broadcast_to(np.asarray(variance, dtype=np.float64), len(tables))
    shapes = _shapes(tables.shape[1])
    distance = (tables**2).sum(axis=1)[:, None] - 2 * tables @ shapes.T + (shapes**2).sum(axis=1)
    fit = -distance / (2 * variance[:, None])
    fit = np.exp(fit - fit.max(axis=1, keepdims=True))
    weight = np.full(len(shapes), 1.0 / len(shapes))
    for _ in range(rounds):
        posterior = fit * weight
        weight = 0.9 * (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0) + 0.1 / len(shapes)
    posterior = fit * weight
    guess = posterior / posterior.sum(axis=1, keepdims=True) @ shapes
    return onto_simplex(guess + shrunk_deviations(tables - guess, variance, True))


def denoised(noisy: Reals, sd: float, rows: float, cells: Cells) -> list[Reals]:
    """One table of shares for each column of `cells`.

    `noisy` are the counts of all cells, column after column, with noise of standard deviation `sd`; `rows` is what a
    column's counts add up to.
    """
    out: list[Reals] = [np.empty(0)] * len(cells.blocks)
    for ordered, count, members in alike(cells):
        tables = centred(_gathered(noisy, cells, members, count) / rows)
        clean = (
            _denoised_ordered(tables, np.asarray((sd / rows) ** 2)) if ordered and count > 2 else onto_simplex(tables)
        )
        for index, table in zip(members, clean, strict=True):
            out[index] = table
    return out


def predicted_table_error(
    tables: Sequence[Reals], sd: float, rows: float, cells: Cells, generator: np.random.Generator
) -> float:
    """Mean total variation of a denoised table, by a parametric bootstrap: the same noise is added once more.

    `tables` are the denoised shares of the columns of `cells`; `sd`, in rows, is that of the noise on a count and
    `rows` the number of rows. `generator` draws noise that is post-processing and protects nothing.
    """
    again = np.concatenate(tables) * rows + generator.normal(0.0, sd, cells.total)
    pairs = zip(tables, denoised(again, sd, rows, cells), strict=True)
    return float(np.mean([0.5 * np.abs(one - two).sum() for one, two in pairs]))


# ---- a column


@dataclass(frozen=True, eq=False)
class Marginal:
    """The released distribution of one column. For a number, `edges` (in [0, 1]) are the ends of its cells."""

    form: Form
    shares: Reals
    edges: Reals | None = None

    @staticmethod
    def of(form: Form, table: Reals, edges: Reals | None = None) -> Marginal:
        """The marginal of a column of this `form` whose cells have the masses in `table`, of any sum.

        `edges` are the ends of a number's cells in [0, 1], None for other forms. No ordered value is left impossible,
        so that ranks can be mapped both ways.
        """
        if form == "levels" or (form == "number" and edges is not None and not bool((np.diff(edges) == 0).any())):
            table = np.maximum(table, 1e-3 / len(table))
        elif form == "number":
            table = table + 1e-9
        return Marginal(form, table / table.sum(), edges)

    @cached_property
    def below(self) -> Reals:
        """Share below each edge."""
        out: Reals = np.concatenate([[0.0], np.cumsum(self.shares)])
        out[-1] = 1.0
        return out

    def quantile(self, u: Reals) -> Reals:
        """Values at these shares: in [0, 1] for a number, the position of the level otherwise."""
        if self.edges is not None:
            return np.interp(u, self.below, self.edges)
        return np.clip(np.searchsorted(self.below, u, side="right") - 1, 0, len(self.shares) - 1).astype(np.float64)

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
        """Variance of each score under this distribution."""
        if self.form == "number":
            return np.ones(1)
        mean = self.shares @ self.vectors
        return np.maximum(self.shares @ self.vectors**2 - mean**2, 1e-3)

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


def as_cells(values: Reals, cells: Cells, index: int) -> Integers:
    """The cell, among those of column `index` of `cells`, of `values` as `Marginal.quantile` gives them."""
    cuts = cells.cuts[index] if cells.cuts else None
    if form_of(cells.blocks[index]) != "number":
        return values.astype(np.int64)
    if cuts is None:
        return np.clip((values * cells.counts[index]).astype(np.int64), 0, cells.counts[index] - 1)
    return np.searchsorted(cuts, np.rint((values - 0.5) * GRID), side="right")


def unit_edges(cells: Cells, index: int) -> Reals | None:
    """Ends of a number's cells in [0, 1]; None for the rest."""
    if form_of(cells.blocks[index]) != "number":
        return None
    cuts = cells.cuts[index] if cells.cuts else None
    if cuts is None:
        return np.linspace(0, 1, cells.counts[index] + 1, dtype=np.float64)
    inner = np.clip(cuts[1:-1] / GRID + 0.5, 0.0, 1.0)
    return np.concatenate([[0.0, 0.0], inner, [1.0, 1.0]])


def sharpened(marginals: Sequence[Marginal], noisy: Reals, sd: float, rows: float, cells: Cells) -> list[Marginal]:
    """The `marginals` corrected by tables of finer `cells`; inside a new cell the shape stays what it was.

    `noisy` are counts of all those cells with noise of standard deviation `sd`; `rows` is what a column adds up to.
    """
    out: dict[int, Marginal] = {}
    for ordered, count, members in alike(cells):
        guess = np.stack([_expected(marginals[j], unit_edges(cells, j)) for j in members])
        seen = centred(_gathered(noisy, cells, members, count) / rows)
        new = onto_simplex(guess + shrunk_deviations(seen - guess, np.asarray((sd / rows) ** 2), ordered))
        for j, table in zip(members, new, strict=True):
            out[int(j)] = _refined(marginals[j], unit_edges(cells, j), table)
    return [out[j] for j in range(len(marginals))]


def _expected(marginal: Marginal, edges: Reals | None) -> Reals:
    """Shares that the marginal gives to cells with these ends (the first and last are the ends of the range)."""
    if edges is None or marginal.edges is None:
        return marginal.shares
    at = np.interp(edges[1:-1], marginal.edges, marginal.below)
    return np.diff(np.concatenate([[0.0], at, [1.0]]))


def _refined(marginal: Marginal, edges: Reals | None, table: Reals) -> Marginal:
    if edges is None or marginal.edges is None:
        return Marginal.of(marginal.form, table)
    borders = np.unique(np.concatenate([marginal.edges, edges]))
    mass = np.diff(np.interp(borders, marginal.edges, marginal.below))
    middle = (borders[1:] + borders[:-1]) / 2
    cell = np.clip(np.searchsorted(edges[2:-2], middle, side="right") + 1, 1, len(table) - 2)
    total = np.bincount(cell, weights=mass, minlength=len(table))
    # a cell that held nothing before is filled evenly
    width = np.diff(borders)
    share = np.where(total[cell] > 1e-12, mass, width)
    total = np.bincount(cell, weights=share, minlength=len(table))
    mass = share / np.maximum(total[cell], 1e-300) * table[cell]
    return Marginal.of(
        "number", np.concatenate([[table[0]], mass, [table[-1]]]), np.concatenate([[0.0], borders, [1.0]])
    )
