"""How well released rows match the true ones, by columns and correlations (owner's side: all of it is private).

Both tables are read the same way, in the schema's own terms: numbers are clipped to the declared range, and a cell that
is missing or unknown is empty, or goes to the declared fallback. What is compared, and where the bins lie, follows from
the schema alone, never from a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Reals
from adumbra.compare.compared_cells import EMPTY, is_set
from adumbra.compare.table_tally import Tally
from adumbra.tables.encode import Repairs

__all__ = [
    "ColumnFit",
    "CorrelationFit",
    "PairFit",
    "Share",
    "column_fits",
    "correlation_fit",
    "total_variation",
]

_WORST = 5


@dataclass(frozen=True)
class Share:
    """How much of each table falls in one cell: a value, a level, a bin, an item of a set, or the empty."""

    value: str
    truth: float
    release: float


@dataclass(frozen=True)
class ColumnFit:
    """One column in both tables.

    Mean and sd are of the cells that are there, in the column's own units (flags: yes is 1; dates and times as text),
    None for categories and where no cell is there.
    """

    name: str
    kind: str
    total_variation: float
    """Over all cells, the empty one included; of a set, the largest difference of one of its items."""
    off: float
    """The same, or by how many true standard deviations the mean is off (at most 1), whichever is larger."""
    truth_missing: float
    """Share of empty cells."""
    release_missing: float
    truth_mean: float | str | None
    release_mean: float | str | None
    truth_sd: float | str | None
    release_sd: float | str | None
    repairs: Repairs
    """Cells of the truth that were missing, unknown or out of range."""
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class PairFit:
    """The correlation of two coordinates in each table."""

    a: str
    b: str
    error: float
    truth: float
    release: float


@dataclass(frozen=True)
class CorrelationFit:
    """Absolute differences of correlations over pairs of coordinates, each of the rows that have both cells.

    A constant coordinate correlates 0.
    """

    mean: float
    max: float
    """Between two columns, as in `worst`: that values of one category exclude each other says little of a release."""
    pairs: int
    coordinates: int
    of_coordinates: int
    """All there are; more than `coordinates` where a fixed public sample was taken."""
    worst: tuple[PairFit, ...]


def column_fits(truth: Tally, release: Tally) -> tuple[ColumnFit, ...]:
    """Every column: total variation over its cells, mean and sd, missing cells, the shares of the cells."""
    return tuple(_column_fit(index, truth, release) for index in range(len(truth.layout.columns)))


def _column_fit(index: int, truth: Tally, release: Tally) -> ColumnFit:
    layout = truth.layout
    column, numbers = layout.columns[index], layout.numbers[index]
    a, b = truth.counts[index] / truth.rows, release.counts[index] / release.rows
    variation = float(np.abs(a - b).max()) if is_set(column) else total_variation(a, b)
    centres = truth.centre(index), release.centre(index)
    means = [None if centre is None else numbers.told(centre[0]) for centre in centres]
    deviations = [None if centre is None else numbers.told_deviation(centre[1]) for centre in centres]
    shares = (Share(n, float(x), float(y)) for n, x, y in zip(layout.cells[index].names(), a, b, strict=True))
    return ColumnFit(
        name=column.name,
        kind=str(column.kind),
        total_variation=variation,
        off=max(variation, _mean_off(*centres)),
        truth_missing=float(a[-1]),
        release_missing=float(b[-1]),
        truth_mean=means[0],
        release_mean=means[1],
        truth_sd=deviations[0],
        release_sd=deviations[1],
        repairs=truth.repairs[column.name],
        shares=tuple(share for share in shares if share.value != EMPTY or share.truth > 0 or share.release > 0),
    )


def total_variation(truth: Reals, release: Reals) -> float:
    """Half the sum of the differences of shares."""
    return float(np.abs(truth - release).sum() / 2)


def _mean_off(truth: tuple[float, float] | None, release: tuple[float, float] | None) -> float:
    """True standard deviations between the means, at most 1: bins miss what happens within one of them."""
    if truth is None or release is None:
        return 0.0
    away = abs(release[0] - truth[0])
    if away <= 1e-9 * max(abs(truth[0]), abs(release[0])):  # rounding, also where nothing moves
        return 0.0
    return min(1.0, away / truth[1]) if truth[1] > 0 else 1.0


def correlation_fit(truth: Tally, release: Tally) -> CorrelationFit | None:
    """Differences of correlations over all pairs of coordinates; None where there is only one column."""
    layout = truth.layout
    count, columns = len(layout.coordinates), layout.column_of
    if count < 2 or columns[0] == columns[-1]:
        return None
    a, b = truth.correlations(), release.correlations()
    upper = np.triu_indices(count, 1)
    error = np.abs(a - b)[upper]
    between = np.where(columns[upper[0]] != columns[upper[1]], error, -1.0)
    names = layout.coordinate_names()
    worst = tuple(
        PairFit(names[i], names[j], float(error[k]), float(a[i, j]), float(b[i, j]))
        for k in _largest(between)
        for i, j in [(int(upper[0][k]), int(upper[1][k]))]
        if between[k] >= 0
    )
    return CorrelationFit(float(error.mean()), float(between.max()), len(error), count, layout.space.width, worst)


def _largest(error: Reals) -> list[int]:
    """Positions of the largest, the first of equals first."""
    return [int(k) for k in np.argsort(-error, kind="stable")[:_WORST]]
