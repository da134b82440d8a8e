"""Projections that stand side by side in a release of projected rows, and what they make of second moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.declare.space import Space
from adumbra.numerics.distances import projection_factor
from adumbra.numerics.projections import ProjectionKind, draw

if TYPE_CHECKING:
    from adumbra.kinds.kind import Content
    from adumbra.kinds.projected_rows import ProjectedRowsFacts

__all__ = ["ProjectedBand", "bands_of", "covariance_error", "moment_bias"]

_BOOTSTRAP = 64


@dataclass(frozen=True, eq=False)
class ProjectedBand:
    """One projection of the stack, rescaled so that squared distances are right on average."""

    rows: Reals
    matrix: Reals
    noise_variance: float
    factor: float

    @property
    def dimension(self) -> int:
        """Numbers of a row."""
        return int(self.rows.shape[1])

    @cached_property
    def determines_rows(self) -> bool:
        """Whether a row follows from its projection; a square of Hadamard rows may well leave something open."""
        if self.dimension < self.matrix.shape[0]:
            return False
        values = np.linalg.svd(self.matrix, compute_uv=False)
        return bool(values[-1] > 1e-6 * values[0])

    def squared(self, i: Integers, j: Integers) -> Reals:
        """Squared distances of rows, unbiased."""
        change = self.rows[i] - self.rows[j]
        return np.asarray(np.einsum("ij,ij->i", change, change) - 2 * self.dimension * self.noise_variance)


def bands_of(content: Content, facts: ProjectedRowsFacts, space: Space) -> list[ProjectedBand]:
    """The bands of a release, each rescaled to squared distances.

    `content` has the rows and the matrix, `facts` say which columns are whose, and `space` is what was projected.
    """
    values, arrays, noise = content.table().to_numpy(), content.arrays(), content.card.noise[facts.line]
    if not len(values):
        raise ValueError("a release without rows")
    matrix = arrays["matrix"].astype(float) * float(arrays["step"])
    width = facts.dimension
    if values.shape[1] != width or matrix.shape != (space.width, width):
        raise InputError(
            f"{width} released columns and a matrix for {space.width} coordinates, as the card says",
            f"{values.shape[1]} columns and a matrix of shape {matrix.shape}",
            "run adumbra verify; get the folder again from its owner",
        )
    bands, start = [], 0
    for band in facts.bands:
        stop = start + band.dimension
        scale = 1.0 / math.sqrt(band.share)
        bands.append(
            ProjectedBand(
                np.ascontiguousarray(values[:, start:stop]) * scale,
                matrix[:, start:stop] * scale,
                (noise.standard_deviation * scale) ** 2,
                projection_factor(facts.projection, band.dimension, space.width, len(space.blocks)),
            )
        )
        start = stop
    return bands


def moment_bias(projection: ProjectionKind, k: int, width: int) -> tuple[float, float, float]:
    """E[R R' S R R'] entry by entry: (factor off the diagonal, on it, share of the trace added on it).

    For a `projection` of `width` coordinates to `k`.
    """
    if projection is ProjectionKind.GAUSSIAN:
        return 1 + 1 / k, 1 + 1 / k, 1 / k
    if projection is ProjectionKind.ORTHOGONAL:
        d = width
        if d == 1:
            return 1.0, 1.0, 0.0
        leak = (d / k) ** 2 * k * (d - k) / (d * (d + 2) * (d - 1))
        plain = (d / k) ** 2 * k * (k + 2) / (d * (d + 2)) - leak
        return plain, plain, leak
    return 1 + 1 / k, 1 - 1 / k, 1 / k


def covariance_error(
    band: ProjectedBand, projection: ProjectionKind, space: Space, picked: list[int], value: Reals
) -> Reals:
    """Standard errors of the covariances (`value`) of the coordinates `picked`, estimated from one band.

    Noise from its formula; the `projection` by drawing it again, over columns of `space` of the estimated variances.
    """
    rows, v, count = band.matrix[picked], band.noise_variance, len(band.rows)
    lengths = (rows * rows).sum(1)
    inner = rows @ rows.T
    moment = np.cov(band.rows.T, ddof=0)
    trace = float(np.trace(moment)) - v * (1 - 1 / count) * band.dimension
    spread = np.maximum(np.diag(rows @ moment @ rows.T) - v * lengths, 0.0)
    noise = (
        v * v * (np.outer(lengths, lengths) + inner**2)
        + v * (np.outer(lengths, spread) + np.outer(spread, lengths) + 2 * inner * value)
    ) / count
    even = np.full(space.width, max(trace, 0.0) / space.width)
    even[picked] = np.clip(np.diag(value), 0.0, 0.25)
    draws = []
    for index in range(_BOOTSTRAP):
        again = draw(projection, index.to_bytes(32, "big"), space, band.dimension)
        matrix = again.matrix * again.step
        # a random rotation inside the column variances: independent columns, so only their variances matter
        draws.append(matrix[picked] @ ((matrix.T * even) @ matrix) @ matrix[picked].T)
    return np.asarray(np.sqrt(np.maximum(noise, 0.0) + np.var(draws, axis=0, ddof=1)))
