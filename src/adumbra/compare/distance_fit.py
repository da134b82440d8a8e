"""How well released distances match the truth (owner's side: the numbers are private)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.numerics.projections import ProjectionKind
from adumbra.report.document import Section
from adumbra.report.document import Table as Shown
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = ["DistanceCheck", "Distances", "check_distances"]


class Distances(Protocol):
    """What estimates distances of rows, and how."""

    @property
    def projection(self) -> ProjectionKind:
        """The law of the projections."""

    @property
    def dimensions(self) -> list[int]:
        """Of each band."""

    @property
    def weights(self) -> list[float]:
        """Share of each band in an estimate."""

    def distances(self, pairs: NDArray[np.int64]) -> pl.DataFrame:
        """Columns squared_distance and standard_error."""


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

    def section(self) -> Section:
        """Seen beside predicted."""
        rows = (
            (
                "error (root mean square; predicted: mean standard error)",
                self.root_mean_squared_error,
                self.mean_standard_error,
            ),
            ("pairs within 1.96 standard errors", self.coverage, 0.95),
            (f"mean error (standard error {self.mean_error_standard_error:.3g})", self.mean_error, 0.0),
            ("mean true squared distance", self.mean_truth, None),
        )
        return Section("squared distances of pairs of rows", (Shown(("what", "seen", "predicted"), rows),))


def _changes(table: Table, schema: Schema, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    rows = RowSource(schema, table).rows_at(pairs.ravel()).reshape(*pairs.shape, -1) / GRID
    return np.asarray(rows[:, 0] - rows[:, 1])


def check_distances(released: Distances, table: Table, schema: Schema, pairs: NDArray[np.int64]) -> DistanceCheck:
    """Bias and coverage of 95 % intervals: `released` distances of `pairs` beside those of `table`, read by `schema`.

    All pairs share one projection and some share a row, so their errors are not independent: the standard error of
    the mean error adds what pairs with a common row have in common, and the spread of the mean over projections.
    """
    change = _changes(table, schema, pairs)
    truth = np.einsum("ij,ij->i", change, change)
    answers = released.distances(pairs)
    error = answers["squared_distance"].to_numpy() - truth
    spread = answers["standard_error"].to_numpy()
    variance = _shared_row_variance(error - error.mean(), pairs) + _projection_variance(released, schema, change)
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


def _projection_variance(released: Distances, schema: Schema, change: NDArray[np.float64]) -> float:
    """Variance over R of the mean of |zR|^2: (2/k)|A|_F^2 with A the mean of zz', less what unit rows keep exactly.

    Bands have independent projections, each with its weight in the estimate.
    """
    mean = change.T @ change / len(change)
    return sum(
        weight**2 * _one_projection(released.projection, k, schema, mean)
        for weight, k in zip(released.weights, released.dimensions, strict=True)
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
