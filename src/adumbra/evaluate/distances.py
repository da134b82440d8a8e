"""How well released distances match the truth (owner's side: the numbers are private)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.answer.release import Release
from adumbra.core.schema import Schema
from adumbra.core.space import GRID
from adumbra.linalg.projections import ProjectionKind
from adumbra.table.encode import encode
from adumbra.table.read import open_table

__all__ = ["DistanceCheck", "check_distances", "true_squared_distances"]


@dataclass(frozen=True)
class DistanceCheck:
    """Released against true squared distances over many pairs."""

    pairs: int
    mean_truth: float
    mean_error: float
    mean_error_standard_error: float
    """With what the pairs share: rows, and one projection."""
    independent_standard_error: float
    """As if the pairs were independent: too small, above all for few dimensions."""
    coverage: float
    mean_standard_error: float
    root_mean_squared_error: float


def true_squared_distances(table: Any, schema: Schema, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distances of the private rows themselves, in encoded units."""
    change = _changes(table, schema, pairs)
    return np.asarray(np.einsum("ij,ij->i", change, change))


def _changes(table: Any, schema: Schema, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    names = [column.name for column in schema.released]
    wanted = np.unique(pairs)
    kept, start = [], 0
    for frame in open_table(table).batches(names):
        inside = wanted[(wanted >= start) & (wanted < start + len(frame))] - start
        kept.append(encode(frame[inside.tolist()], schema).values / GRID)
        start += len(frame)
    rows = np.concatenate(kept)
    return np.asarray(rows[np.searchsorted(wanted, pairs[:, 0])] - rows[np.searchsorted(wanted, pairs[:, 1])])


def check_distances(release: Release, table: Any, schema: Schema, pairs: NDArray[np.int64]) -> DistanceCheck:
    """Bias and coverage of 95 % intervals.

    All pairs share one projection and some share a row, so their errors are not independent: the standard error of
    the mean error adds what pairs with a common row have in common, and the spread of the mean over projections.
    """
    change = _changes(table, schema, pairs)
    truth = np.einsum("ij,ij->i", change, change)
    answers = release.distances(pairs)
    error = answers["squared_distance"].to_numpy() - truth
    spread = answers["standard_error"].to_numpy()
    variance = _shared_row_variance(error - error.mean(), pairs) + _projection_variance(release, schema, change)
    return DistanceCheck(
        pairs=len(pairs),
        mean_truth=float(truth.mean()),
        mean_error=float(error.mean()),
        mean_error_standard_error=math.sqrt(variance),
        independent_standard_error=float(error.std(ddof=1) / math.sqrt(len(error))),
        coverage=float((np.abs(error) <= 1.96 * spread).mean()),
        mean_standard_error=float(spread.mean()),
        root_mean_squared_error=float(np.sqrt((error**2).mean())),
    )


def _shared_row_variance(error: NDArray[np.float64], pairs: NDArray[np.int64]) -> float:
    """Variance of a mean over pairs, with the covariance of every two pairs that have a row in common."""
    by_row = np.bincount(pairs.ravel(), weights=np.repeat(error, 2))
    alone = float((error**2).sum())
    return max(float((by_row**2).sum()) - alone, alone / 2) / len(error) ** 2


def _projection_variance(release: Release, schema: Schema, change: NDArray[np.float64]) -> float:
    """Variance over R of the mean of |zR|^2: (2/k)|A|_F^2 with A the mean of zz', less what unit rows keep exactly.

    Bands have independent projections, each with its weight in the estimate.
    """
    kind = ProjectionKind(release.card.parameters["projection"])
    dimensions = [int(band["dimension"]) for band in release.card.parameters["bands"]]
    mean = change.T @ change / len(change)
    return sum(
        weight**2 * _one_projection(kind, k, schema, mean)
        for weight, k in zip(release.band_weights, dimensions, strict=True)
    )


def _one_projection(kind: ProjectionKind, k: int, schema: Schema, mean: NDArray[np.float64]) -> float:
    total = float((mean**2).sum())
    if kind is ProjectionKind.ORTHOGONAL:
        width = mean.shape[0]
        return float(2.0 / k * total * (width - k) / (width + 2.0))
    if kind is ProjectionKind.UNIT_ROW:
        for block in schema.space().blocks:
            part = slice(block.start, block.stop)
            kept = mean[part, part] if block.width <= k else np.diag(mean)[part]
            total -= float((kept**2).sum())
    elif kind is not ProjectionKind.GAUSSIAN:
        total -= float((np.diag(mean) ** 2).sum())
    return 2.0 / k * total
