"""Answers from projected rows (DPPro): distances, neighbours, column means and counts, covariance, least squares.

Everything here reads a release and nothing else. Each answer comes with a standard error that covers both the noise
and the projection: over the draw of both, value +- 1.96 standard errors holds the truth about 95 times in 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.answer.queries import checked_weight
from adumbra.core import spelling
from adumbra.core.errors import InputError
from adumbra.core.release import ReleaseFolder
from adumbra.core.schema import Schema
from adumbra.core.space import CATEGORY_STEPS, GRID, Block, Space
from adumbra.core.validation import at_least, names_once
from adumbra.linalg.dictionaries import Dictionary, rebuilt
from adumbra.linalg.distances import distance_variance, projection_factor
from adumbra.linalg.projections import ProjectionKind, draw
from adumbra.linalg.pursuit import pursue
from adumbra.table.encode import decode

__all__ = ["Estimate", "ProjectedRows"]

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_PAIRS = 1_000_000
"""Random pairs at a time; a million take about 130 MB."""
_REFERENCE_PAIRS = 20_000
_BOOTSTRAP = 64


@dataclass(frozen=True)
class Estimate:
    """One number with its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class _Band:
    """One projection of the stack, rescaled so that squared distances are right on average."""

    rows: Reals
    matrix: Reals
    noise_variance: float
    factor: float

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def determines_rows(self) -> bool:
        """Whether a row follows from its projection; a square of Hadamard rows may well leave something open."""
        if self.dimension < self.matrix.shape[0]:
            return False
        values = np.linalg.svd(self.matrix, compute_uv=False)
        return bool(values[-1] > 1e-6 * values[0])

    def squared(self, i: Indices, j: Indices) -> Reals:
        change = self.rows[i] - self.rows[j]
        return np.asarray(np.einsum("ij,ij->i", change, change) - 2 * self.dimension * self.noise_variance)


class ProjectedRows:
    """The analyst's view of a DPPro release."""

    def __init__(self, folder: ReleaseFolder) -> None:
        card = folder.card
        if "bands" not in card.parameters:
            raise InputError(
                "a release of projected rows (mechanism dppro)",
                f"one of {card.mechanism}",
                f"ask it for {', '.join(card.answers)}"
                if card.answers
                else "it holds a table of the schema's own columns: read its data.parquet with any tool",
            )
        arrays = folder.arrays()
        self._schema = Schema.from_dict(card.table_schema)
        self._space: Space = self._schema.space(None)
        self._kind = ProjectionKind(card.parameters["projection"])
        noise = card.noise["rows"]
        self._law = noise.law
        values = folder.table().to_numpy()
        if not len(values):
            raise ValueError("a release without rows")
        matrix = arrays["matrix"].astype(float) * float(arrays["step"])
        width = sum(band["dimension"] for band in card.parameters["bands"])
        if values.shape[1] != width or matrix.shape != (self._space.width, width):
            raise InputError(
                f"{width} released columns and a matrix for {self._space.width} coordinates, as the card says",
                f"{values.shape[1]} columns and a matrix of shape {matrix.shape}",
                "run adumbra verify; get the folder again from its owner",
            )
        self._bands: list[_Band] = []
        start = 0
        for band in card.parameters["bands"]:
            stop = start + band["dimension"]
            scale = 1.0 / math.sqrt(band["share"])
            factor = projection_factor(self._kind, band["dimension"], self._space.width, len(self._space.blocks))
            self._bands.append(
                _Band(
                    np.ascontiguousarray(values[:, start:stop]) * scale,
                    matrix[:, start:stop] * scale,
                    (noise.standard_deviation * scale) ** 2,
                    factor,
                )
            )
            start = stop
        self.rows = values.shape[0]
        recipe = card.parameters.get("dictionary")
        self._dictionary = None if recipe is None else rebuilt(recipe, arrays.get("dictionary"))
        self._atoms: int | None = card.parameters.get("atoms")

    # ---- distances

    def distances(self, pairs: Sequence[tuple[int, int]] | Indices) -> pl.DataFrame:
        """Squared distance of each pair of rows (numbered from 0): columns i, j, squared_distance, standard_error.

        Unbiased, so close rows may well come out negative; clip only where a method insists.
        """
        table = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        self._check_rows(table)
        i, j = table[:, 0], table[:, 1]
        value = self._combined(i, j)
        value[i == j] = 0.0
        error = np.where(i == j, 0.0, self._distance_error(value))
        return pl.DataFrame({"i": i, "j": j, "squared_distance": value, "standard_error": error})

    def random_pairs(self, count: int, seed: int = 0) -> Indices:
        """Pairs of different rows, drawn evenly and repeatably."""
        if self.rows < 2:
            raise InputError("a release with at least two rows", f"{self.rows}", "there is no pair to compare")
        at_least(1, "ask for fewer at a time, with another seed each", MOST_PAIRS, random=count)
        at_least(0, "give another seed", seed=seed)
        rng = np.random.default_rng(seed)
        i = rng.integers(0, self.rows, count)
        j = (i + rng.integers(1, self.rows, count)) % self.rows
        return np.column_stack([i, j])

    def distance_blocks(self, block: int = 1024) -> Iterator[tuple[int, int, Reals]]:
        """All pairs, block by block in bounded memory: (first row, first column, squared distances)."""
        for top in range(0, self.rows, block):
            for left in range(0, self.rows, block):
                tile = np.zeros((min(block, self.rows - top), min(block, self.rows - left)))
                for weight, band in zip(self.weights, self._bands, strict=True):
                    a, b = band.rows[top : top + block], band.rows[left : left + block]
                    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * a @ b.T
                    tile += weight * (squares - 2 * band.dimension * band.noise_variance)
                if top == left:
                    np.fill_diagonal(tile, 0.0)
                yield top, left, tile

    def distance_matrix(self, *, clip: bool = True) -> Reals:
        """Distance matrix for clustering (`metric="precomputed"`): symmetric, zero diagonal.

        Squared distances; with `clip` negative estimates become 0, which methods that take roots need.
        """
        if self.rows > 30_000:
            raise InputError(
                "at most 30,000 rows for a full matrix",
                f"{self.rows}",
                "use distance_blocks, or a sample of rows",
            )
        out = np.empty((self.rows, self.rows))
        for top, left, tile in self.distance_blocks():
            out[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
        out = (out + out.T) / 2
        return np.maximum(out, 0.0) if clip else out

    def neighbours(self, row: int, k: int) -> pl.DataFrame:
        """The k rows that come out nearest to `row`: columns row, squared_distance, standard_error."""
        if not 1 <= k < self.rows:
            raise InputError(f"1 <= k < {self.rows}", f"k = {k}", "ask for fewer neighbours")
        others = np.delete(np.arange(self.rows), self._check_rows(np.array([row]))[0])
        value = self._combined(np.full_like(others, row), others)
        best = np.argsort(value, kind="stable")[:k]
        return pl.DataFrame(
            {
                "row": others[best],
                "squared_distance": value[best],
                "standard_error": self._distance_error(value[best]),
            }
        )

    def _combined(self, i: Indices, j: Indices) -> Reals:
        return np.asarray(sum(w * band.squared(i, j) for w, band in zip(self.weights, self._bands, strict=True)))

    @cached_property
    def _typical(self) -> float:
        """Mean squared distance over all pairs: twice the total variance, less the noise."""
        means = []
        for band in self._bands:
            total = float(band.rows.var(axis=0, ddof=1).sum()) if self.rows > 1 else 0.0
            means.append(max(2.0 * total - 2 * band.dimension * band.noise_variance, 0.0))
        return float(np.clip(np.mean(means), 0.0, self._largest))

    @property
    def _largest(self) -> float:
        return (self._space.span / GRID) ** 2

    @cached_property
    def weights(self) -> list[float]:
        """Share of each band in a distance: inverse variances at the typical distance."""
        precision = [1.0 / float(self._band_variance(band, self._typical)) for band in self._bands]
        return [p / sum(precision) for p in precision]

    def _band_variance(self, band: _Band, squared: Reals | float) -> Reals:
        return distance_variance(
            squared,
            factor=band.factor,
            dimension=band.dimension,
            noise_variance=band.noise_variance,
            law=self._law,
        )

    def _variance(self, squared: Reals | float) -> Reals:
        return np.asarray(
            sum(w * w * self._band_variance(b, squared) for w, b in zip(self.weights, self._bands, strict=True))
        )

    @cached_property
    def _spread(self) -> float:
        """Share of the spread of estimates over pairs that is spread of true distances, between 0 and 1."""
        if self.rows < 3:
            return 0.0
        pairs = self.random_pairs(min(_REFERENCE_PAIRS, 10 * self.rows), seed=1)
        seen = float(self._combined(pairs[:, 0], pairs[:, 1]).var())
        return max(0.0, 1.0 - float(self._variance(self._typical)) / seen) if seen > 0 else 0.0

    def _distance_error(self, value: Reals) -> Reals:
        """Standard error at the distance best believed, not at the noisy estimate itself.

        The variance depends on the true distance. Plugging the raw estimate in would tie the width of an interval to
        its own error (wide when too high, narrow when too low); so it is first drawn towards the typical distance by
        as much as noise explains.
        """
        believed = self._typical + self._spread * (value - self._typical)
        return np.asarray(np.sqrt(self._variance(np.clip(believed, 0.0, self._largest))))

    def _check_rows(self, indices: Indices) -> Indices:
        if indices.size and (indices.min() < 0 or indices.max() >= self.rows):
            raise InputError(
                f"row numbers from 0 to {self.rows - 1}",
                f"{int(indices.min())} to {int(indices.max())}",
                "rows are numbered from 0 in the order of data.parquet",
            )
        return indices

    # ---- columns

    def linear(self, weights: Mapping[str, float]) -> Estimate:
        """Mean over rows of `sum of weight * column`, for number and flag columns, in the table's own units."""
        vector = np.zeros(self._space.width)
        offset = 0.0
        for name, given in weights.items():
            block, weight = self._plain_block(name), checked_weight(given, name)
            low, high = self._range(name)
            vector[block.start] = weight * (high - low)
            offset += weight * (low + high) / 2
        return self._linear(vector, offset)

    def mean(self, column: str) -> Estimate:
        """Mean of a number column (for a flag: the share of yes)."""
        return self.linear({column: 1.0})

    def count(self, column: str, value: str) -> Estimate:
        """How many rows have this value in a category or flag column."""
        block = self._block(column)
        vector, offset = np.zeros(self._space.width), 0.0
        if block.kind == "category":
            place = spelling.place(value, self._schema.column(column).values)
            if place is None:
                raise InputError(f"one of the declared values of {column}", f"{value!r}", "see the schema on the card")
            vector[block.start + place] = self.rows * GRID / CATEGORY_STEPS
        elif block.kind == "flag":
            yes = spelling.answer(value)
            if yes is None:
                raise InputError(f"yes or no for the flag {column}", f"{value!r}", "write yes or no")
            vector[block.start] = self.rows if yes else -self.rows
            offset = self.rows / 2
        else:
            raise InputError("a category or flag column", f"{column}, a number", "ask for its mean")
        return self._linear(vector, offset)

    def _linear(self, vector: Reals, offset: float) -> Estimate:
        """`mean row . vector + offset`, each band's estimate weighted by its precision."""
        values, variances = [], []
        for band in self._bands:
            average = band.rows.mean(axis=0)
            noise = band.noise_variance / self.rows
            if band.determines_rows:  # enough equations: least squares has no projection error
                back = np.linalg.lstsq(band.matrix.T, average, rcond=None)[0]
                weights = np.linalg.lstsq(band.matrix, vector, rcond=None)[0]
                values.append(float(back @ vector))
                variances.append(noise * float(weights @ weights))
                continue
            image = band.matrix.T @ vector
            value = float(average @ image)
            length = max(float(average @ average) - band.dimension * noise, 0.0)
            # Var over the matrix of <m R, w R>, with k/2 times the factor for Gaussian entries being
            # (|m|^2 |w|^2 + <m, w>^2) / k; unit rows keep the diagonal exactly, so <m, w>^2 drops out. |m|^2 is itself
            # known only to sqrt(2/k), so it is taken one standard deviation up.
            own = value * value if self._kind in (ProjectionKind.GAUSSIAN, ProjectionKind.ORTHOGONAL) else 0.0
            likely = length * (1.0 + math.sqrt(2.0 / band.dimension))
            cross = (likely * float(vector @ vector) + own) * band.factor / 2
            values.append(value)
            variances.append(noise * float(image @ image) + cross)
        precision = np.array([1.0 / v if v > 0 else 1e300 for v in variances])
        precision /= precision.sum()
        return Estimate(
            float(precision @ np.array(values)) + offset,
            math.sqrt(float(precision**2 @ np.array(variances))),
        )

    def covariance(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Covariance of number and flag columns in the table's own units, one row a pair: a, b, value, standard_error.

        Unbiased over noise and projection; the matrix of values need not be positive.
        """
        names = (
            list(names_once(columns, "--columns"))
            if columns
            else [b.column for b in self._space.blocks if b.kind != "category"]
        )
        picked = [self._plain_block(name).start for name in names]
        band = max(self._bands, key=lambda b: b.dimension)
        if band.dimension < 2:
            raise InputError(
                "a projection of at least 2 dimensions",
                "1",
                "ask the owner for a release with --dimension 2 or more",
            )
        inner = np.cov(band.rows.T, ddof=0) - band.noise_variance * (1 - 1 / self.rows) * np.eye(band.dimension)
        trace = float(np.trace(inner))
        plain, diagonal, leak = self._moment_bias(band.dimension)
        rows = band.matrix[picked]
        value = rows @ inner @ rows.T / plain
        np.fill_diagonal(value, (np.diag(value) * plain - leak * trace) / diagonal)
        error = self._covariance_error(band, picked, value, trace) / plain
        scale = np.array([np.subtract(*self._range(name)[::-1]) for name in names])
        outer = np.abs(np.outer(scale, scale))
        return pl.DataFrame(
            [
                {
                    "a": a,
                    "b": b,
                    "value": value[x, y] * outer[x, y],
                    "standard_error": error[x, y] * outer[x, y],
                }
                for x, a in enumerate(names)
                for y, b in enumerate(names)
                if y >= x
            ]
        )

    def _moment_bias(self, k: int) -> tuple[float, float, float]:
        """E[R R' S R R'] entry by entry: (factor off the diagonal, on it, share of the trace added on it)."""
        if self._kind is ProjectionKind.GAUSSIAN:
            return 1 + 1 / k, 1 + 1 / k, 1 / k
        if self._kind is ProjectionKind.ORTHOGONAL:
            d = self._space.width
            if d == 1:
                return 1.0, 1.0, 0.0
            leak = (d / k) ** 2 * k * (d - k) / (d * (d + 2) * (d - 1))
            plain = (d / k) ** 2 * k * (k + 2) / (d * (d + 2)) - leak
            return plain, plain, leak
        return 1 + 1 / k, 1 - 1 / k, 1 / k

    def _covariance_error(self, band: _Band, picked: list[int], value: Reals, trace: float) -> Reals:
        """Noise from its formula; the projection by drawing it again over columns of the estimated variances."""
        rows, v = band.matrix[picked], band.noise_variance
        lengths = (rows * rows).sum(1)
        inner = rows @ rows.T
        spread = np.maximum(np.diag(rows @ np.cov(band.rows.T, ddof=0) @ rows.T) - v * lengths, 0.0)
        noise = (
            v * v * (np.outer(lengths, lengths) + inner**2)
            + v * (np.outer(lengths, spread) + np.outer(spread, lengths) + 2 * inner * value)
        ) / self.rows
        even = np.full(self._space.width, max(trace, 0.0) / self._space.width)
        even[picked] = np.clip(np.diag(value), 0.0, 0.25)
        draws = []
        for index in range(_BOOTSTRAP):
            again = draw(self._kind, index.to_bytes(32, "big"), self._space, band.dimension)
            matrix = again.matrix * again.step
            # a random rotation inside the column variances: independent columns, so only their variances matter
            draws.append(matrix[picked] @ ((matrix.T * even) @ matrix) @ matrix[picked].T)
        return np.asarray(np.sqrt(np.maximum(noise, 0.0) + np.var(draws, axis=0, ddof=1)))

    def reconstruct(self) -> pl.DataFrame:
        """Rows back in the schema's columns and types: by matching pursuit in the declared dictionary (csm), else by
        least squares (minimum norm when k < coordinates).
        """
        if self._dictionary is not None:
            return decode(self._pursued(self._dictionary) * GRID, self._schema)
        stacked = np.hstack([b.rows / math.sqrt(b.noise_variance) for b in self._bands])
        matrix = np.hstack([b.matrix / math.sqrt(b.noise_variance) for b in self._bands])
        back = np.linalg.lstsq(matrix.T, stacked.T, rcond=None)[0].T
        return decode(back * GRID, self._schema)

    def _pursued(self, atoms: Dictionary) -> Reals:
        """Few atoms for every row, until what is left is no more than the noise."""
        (band,) = self._bands
        sensed = band.matrix.T @ atoms.synthesis(np.eye(atoms.atoms)).T
        most = min(self._atoms or max(1, band.dimension // 3), *sensed.shape)
        level = band.dimension * band.noise_variance
        found = pursue(sensed, band.rows, atoms=most, residual=level)
        return atoms.synthesis(found.dense(atoms.atoms))

    def _block(self, column: str) -> Block:
        for block in self._space.blocks:
            if block.column == column:
                return block
        known = ", ".join(b.column for b in self._space.blocks[:12])
        raise InputError("a column of the release", f"{column!r}", f"its columns are {known}")

    def _plain_block(self, column: str) -> Block:
        block = self._block(column)
        if block.kind == "category":
            raise InputError("a number or flag column", f"{column}, a category", "ask for a count of one value")
        return block

    def _range(self, column: str) -> tuple[float, float]:
        declared = self._schema.column(column)
        if declared.kind == "flag":
            return 0.0, 1.0
        assert declared.low is not None and declared.high is not None
        return float(declared.low), float(declared.high)
