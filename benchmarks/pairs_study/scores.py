"""How alike two tables are, by tables of one, two and three columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

import adumbra as ad

Codes = NDArray[np.int64]
"""A row of whole numbers for each row of a table, from 0 to a column's number of cells."""

_WIDTHS = 10


def shares(codes: Codes, sizes: Sequence[int], columns: Iterable[int]) -> NDArray[np.float64]:
    """The share of rows in each cell of the table of these columns."""
    place, cells = np.zeros(len(codes), dtype=np.int64), 1
    for column in columns:
        place = place * sizes[column] + codes[:, column]
        cells *= sizes[column]
    return np.bincount(place, minlength=cells) / max(len(codes), 1)


def variations(
    truth: Codes, release: Codes, sizes: Sequence[int], tables: Iterable[tuple[int, ...]]
) -> NDArray[np.float64]:
    """The total variation of each table, from 0 (alike) to 1."""
    return np.array([0.5 * np.abs(shares(truth, sizes, t) - shares(release, sizes, t)).sum() for t in tables])


def k_marginal(truth: Codes, release: Codes, sizes: Sequence[int], k: int = 2, group: int | None = None) -> float:
    """NIST's score: 1000 for equal tables, 0 for tables that share no cell; all tables of k columns.

    With a `group`, that column is part of every table and not one of the k.
    """
    free = [column for column in range(truth.shape[1]) if column != group]
    lead = () if group is None else (group,)
    tables = [lead + chosen for chosen in combinations(free, k)]
    return float(1000.0 * (1.0 - variations(truth, release, sizes, tables).mean()))


def coded(frame: pl.DataFrame, schema: ad.Schema) -> tuple[Codes, list[int]]:
    """A category by its value, a number in ten cells of equal width, an empty cell for itself where one is kept."""
    parts, sizes = [], []
    for column in schema.released:
        series = frame[column.name]
        if column.kind == "category":
            place = {value: index for index, value in enumerate(column.values)}
            cells = len(column.values)
            found = np.array([cells if v is None else place[v] for v in series.to_list()])
        else:
            cells = _WIDTHS
            numbers = series.cast(pl.Float64).fill_nan(None)
            if column.missing is not None:
                numbers = numbers.fill_null(column.missing)
            value = numbers.to_numpy()
            scaled = np.floor((value - column.low) / (column.high - column.low) * cells)
            found = np.where(np.isnan(scaled), cells, np.clip(np.nan_to_num(scaled), 0, cells - 1)).astype(np.int64)
        parts.append(found)
        sizes.append(cells + 1)
    return np.stack(parts, 1), sizes


def fidelity(truth: pl.DataFrame, release: pl.DataFrame, schema: ad.Schema, label: str) -> dict[str, float]:
    """Mean total variation of columns, of pairs of columns, and of the label with each pair of others."""
    one, sizes = coded(truth, schema)
    two, _ = coded(release, schema)
    places = range(len(sizes))
    known = [column.name for column in schema.released].index(label)
    pairs = list(combinations(places, 2))
    with_label = [(known, *pair) for pair in pairs if known not in pair]
    return {
        "total variation of a column": float(variations(one, two, sizes, [(j,) for j in places]).mean()),
        "total variation of a pair": float(variations(one, two, sizes, pairs).mean()),
        "total variation of label x pair": float(variations(one, two, sizes, with_label).mean()),
    }


def logit(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of a plain logistic regression (no penalty; the intercept comes first), by Newton's method."""
    scale = x.std(0)
    scale[scale == 0] = 1.0
    z = np.column_stack([np.ones(len(x)), x / scale])
    beta = np.zeros(z.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(z @ beta, -30, 30)))
        curve = (z * (chance * (1 - chance))[:, None]).T @ z
        step = np.linalg.solve(curve + 1e-9 * np.eye(len(curve)), z.T @ (y - chance))
        beta = beta + step
        if np.abs(step).max() < 1e-8:
            break
    return np.concatenate([beta[:1], beta[1:] / scale])
