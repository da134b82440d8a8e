"""Answers from projected rows (DPPro): distances, neighbours, column means and counts, covariance, least squares.

Everything here reads a release and nothing else. Each answer comes with a standard error that covers both the noise
and the projection: over the draw of both, value +- 1.96 standard errors holds the truth about 95 times in 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least, is_whole, names_once, said
from adumbra.counting.tail_bounds import checked_mu
from adumbra.declare import spelling
from adumbra.declare.schema import Schema
from adumbra.declare.space import CATEGORY_STEPS, GRID, Block, Space
from adumbra.kinds.conditions import checked_weight
from adumbra.kinds.estimates import Estimate
from adumbra.kinds.projected_bands import ProjectedBand, bands_of, covariance_error, moment_bias
from adumbra.numerics.dictionaries import Dictionary, rebuilt
from adumbra.numerics.distances import distance_variance
from adumbra.numerics.projections import ProjectionKind
from adumbra.numerics.pursuit import pursue
from adumbra.tables.encode import decode
from adumbra.tables.released_rows import as_released

if TYPE_CHECKING:
    from adumbra.kinds.kind import Content
    from adumbra.kinds.projected_rows import ProjectedRowsFacts

__all__ = ["ProjectedAnswers"]


MOST_PAIRS = 1_000_000
"""Random pairs at a time; a million take about 130 MB."""
_REFERENCE_PAIRS = 20_000


class ProjectedAnswers:
    """The analyst's view of a release of projected rows."""

    def __init__(self, content: Content, facts: ProjectedRowsFacts) -> None:
        card, arrays = content.card, content.arrays()
        self._schema = Schema.from_dict(card.table_schema)
        self._space: Space = self._schema.space(None)
        self.projection = facts.projection
        self._mechanism = card.mechanism
        self._law = card.noise[facts.line].law
        self._bands = bands_of(content, facts, self._space)
        self.rows = self._bands[0].rows.shape[0]
        self._dictionary = None if facts.dictionary is None else rebuilt(facts.dictionary, arrays.get("dictionary"))
        self._atoms = facts.atoms

    @property
    def dimensions(self) -> list[int]:
        """Of each band."""
        return [band.dimension for band in self._bands]

    # ---- distances

    def distances(self, pairs: Sequence[tuple[int, int]] | Integers) -> pl.DataFrame:
        """Squared distance of each pair of rows (numbered from 0): columns i, j, squared_distance, standard_error.

        Unbiased, so close rows may well come out negative; clip only where a method insists.
        """
        table = _pairs(pairs)
        self._check_rows(table)
        i, j = table[:, 0], table[:, 1]
        value = self._combined(i, j)
        value[i == j] = 0.0
        error = np.where(i == j, 0.0, self._distance_error(value))
        return pl.DataFrame({"i": i, "j": j, "squared_distance": value, "standard_error": error})

    def random_pairs(self, count: int, seed: int = 0) -> Integers:
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
        if not is_whole(k) or not 1 <= k < self.rows:
            raise InputError(f"1 <= k < {self.rows}", f"k = {said(k)}", "ask for fewer neighbours")
        if not is_whole(row):
            raise InputError("a row by its number", f"row = {said(row)}", "rows are numbered from 0")
        row, k = int(row), int(k)
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

    def _combined(self, i: Integers, j: Integers) -> Reals:
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

    def _band_variance(self, band: ProjectedBand, squared: Reals | float) -> Reals:
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

    def _check_rows(self, indices: Integers) -> Integers:
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
        if not isinstance(weights, Mapping):
            raise InputError("weights of columns, by name", f"a {type(weights).__name__}", 'write {"age": 1.0}')
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

    def count(self, column: str, given: Any, where: Mapping[str, Any] | None = None, mu: float = 0.05) -> Estimate:
        """How many rows have the value `given` in a category or flag `column`; it answers no conditions (`where`).

        `mu` is for releases of counted cells: the error here is a standard error.
        """
        if where:
            raise InputError(
                "a release of counted cells for several conditions",
                f"one of {self._mechanism}",
                "ask for one value of one column",
            )
        checked_mu(mu)
        block, value = self._block(column), str(given)
        vector, offset = np.zeros(self._space.width), 0.0
        if block.kind == "category":
            place = spelling.place(value, self._schema.column(column).values)
            if place is None:
                raise InputError(f"one of the declared values of {column}", f"{value!r}", "see the schema on the card")
            vector[block.start + place] = self.rows * GRID / CATEGORY_STEPS
        elif block.kind == "flag":
            read = self._schema.column(column).cells.read(pl.Series([value]))
            if read.lost[0]:
                raise InputError(f"yes or no for the flag {column}", f"{value!r}", "write yes or no")
            vector[block.start] = self.rows if read.values[0, 0] > 0 else -self.rows
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
            own = value * value if self.projection in (ProjectionKind.GAUSSIAN, ProjectionKind.ORTHOGONAL) else 0.0
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
        """Covariances of number and flag columns in the table's own units, a row for each pair.

        They are a, b, value, standard_error. Unbiased over noise and projection; the matrix of values need not be
        positive.
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
        plain, diagonal, leak = moment_bias(self.projection, band.dimension, self._space.width)
        rows = band.matrix[picked]
        value = rows @ inner @ rows.T / plain
        np.fill_diagonal(value, (np.diag(value) * plain - leak * trace) / diagonal)
        error = covariance_error(band, self.projection, self._space, picked, value) / plain
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

    def reconstruct(self) -> pl.DataFrame:
        """Rows back in the schema's columns and types: by matching pursuit in the declared dictionary (csm), else by
        least squares (minimum norm when k < coordinates).
        """
        if self._dictionary is not None:
            return as_released(decode(self._pursued(self._dictionary) * GRID, self._schema), self._schema)
        stacked = np.hstack([b.rows / math.sqrt(b.noise_variance) for b in self._bands])
        matrix = np.hstack([b.matrix / math.sqrt(b.noise_variance) for b in self._bands])
        back = np.linalg.lstsq(matrix.T, stacked.T, rcond=None)[0].T
        return as_released(decode(back * GRID, self._schema), self._schema)

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
        found = declared.cells.range
        if found is None or not declared.cells.linear:
            got = f"{column}, whose values are in order but not equally far apart"
            raise InputError("a column whose mean can be read from a projection", got, "ask for another column")
        return found


def _pairs(given: Any) -> Integers:
    """Pairs of row numbers as two columns; what is no whole number is refused, not cut."""
    try:
        found = np.asarray(given)
        if found.size % 2 or (found.size and found.dtype.kind not in "iuf") or not np.isfinite(found).all():
            raise ValueError
        whole = found.astype(np.int64)
        if (whole != found).any():
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            "pairs of row numbers", f"a {type(given).__name__} of something else", "write [(0, 1), (0, 2)], for example"
        ) from None
    return whole.reshape(-1, 2)
