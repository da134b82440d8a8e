"""What somebody who holds a release can work out about a candidate row: one score for each way of looking.

A view scores rows: the larger, the more it looks as if this row were in the table. Kinds of release put together the
views that fit what they publish: noisy images of rows, rows in the schema's own columns, noisy sums. Sums are viewed
by likelihood: a row's own contribution to each answer is compared with what the answer has too much.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from adumbra.common.types import Integers, Reals
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID, Space
from adumbra.queries.sums import Sum
from adumbra.releases.card import CardNoise
from adumbra.tables.row_source import encoded_rows

__all__ = ["MeasuredSum", "Sight", "View", "encoded_units", "image_views", "schema_row_views", "sum_views"]

View = Callable[[Reals, Integers], Reals]
"""`view(rows, places)`: a score for each encoded row; `places` is where in the table it would stand."""

_MOST_NUMBERS = 4 * 10**7
_LESS_NOISE = (0.1, 0.01, 0.001)


# ---- noisy images of rows


def image_views(seen: Reals, image: Callable[[Reals], Reals], noise: CardNoise, reference: Reals) -> dict[str, View]:
    """Views of noisy images of rows, one for each row of the table in order.

    `seen` are the released rows, `image` makes of encoded rows what they are without noise, `noise` is what was added
    to every number, and `reference` are encoded rows of people who are not in the table.
    """
    from scipy.special import logsumexp

    def fit(rows: Reals, noisy: Reals) -> Reals:
        """Log-likelihood of noisy rows for the rows behind them; both broadcast."""
        change = rows - noisy
        if noise.law == "laplace":
            return np.asarray(-np.abs(change).sum(axis=-1) / noise.scale)
        squares = np.square(change).sum(axis=-1)
        if noise.law == "l2-laplace":  # density falls with the length of the whole vector
            return np.asarray(-np.sqrt(squares) / noise.scale)
        return np.asarray(-squares / (2 * noise.scale**2))

    people = image(reference)
    batch = max(1, 2**22 // max(people.size, 1))
    pieces = [seen[start : start + batch] for start in range(0, len(seen), batch)]
    anybody = np.concatenate([logsumexp(fit(people[:, None], piece[None]), axis=0) for piece in pieces])

    def own_place(rows: Reals, places: Integers) -> Reals:
        return fit(image(rows), seen[places])

    def any_place(rows: Reals, places: Integers) -> Reals:
        return np.array([logsumexp(fit(row, seen) - anybody) for row in image(rows)])

    def best_match(rows: Reals, places: Integers) -> Reals:
        return np.array([fit(row, seen).max() for row in image(rows)])

    return {"own place": own_place, "any place": any_place, "best match": best_match}


# ---- rows in the schema's own columns


def encoded_units(rows: Reals) -> Reals:
    """Encoded rows, whose numbers are grid steps, as they are."""
    return np.asarray(rows / GRID)


def schema_row_views(
    frame: pl.DataFrame, sight: Sight, row_aligned: bool, image: Callable[[Reals], Reals] = encoded_units
) -> dict[str, View]:
    """Views of released rows (`frame`) in the schema's own columns.

    `sight` says how rows are encoded; `row_aligned` is whether they stand in the order of the table; `image` makes of
    encoded rows what they would be in the release but for noise.
    """
    seen = encoded_rows(frame, sight.schema, sight.space.row_bound) / GRID
    lengths = np.square(seen).sum(axis=1)

    def nearest(rows: Reals, places: Integers) -> Reals:
        scaled = image(rows)
        best = np.empty(len(rows))
        for start in range(0, len(rows), 64):
            part = scaled[start : start + 64]
            best[start : start + 64] = (lengths - 2 * part @ seen.T).min(axis=1)
        return np.asarray(-(best + np.square(scaled).sum(axis=1)))

    def own_place(rows: Reals, places: Integers) -> Reals:
        return np.asarray(-np.square(image(rows) - seen[places]).sum(axis=1))

    found: dict[str, View] = {"nearest row": nearest}
    return found | {"own place": own_place} if row_aligned else found


# ---- sums


@dataclass(frozen=True, eq=False)
class MeasuredSum:
    """A sum that was asked, the noisy answer, and the noise on each part."""

    query: Sum
    values: Mapping[str, Reals]
    sds: Mapping[str, float]

    def contributions(self, rows: Reals) -> Reals:
        """What each row adds to the answer, in units of the noise."""
        return np.stack([self._vector(self.query.answer(row[None]), exact=True) for row in rows])

    @property
    def seen(self) -> Reals:
        """The answer, in the same units."""
        return self._vector(self.values, exact=False)

    def _vector(self, answer: Mapping[str, Reals], exact: bool) -> Reals:
        return np.concatenate(
            [
                np.asarray(answer[part.name]).ravel() * ((part.step if exact else 1.0) / self.sds[part.name])
                for part in self.query.parts
            ]
        )


@dataclass(frozen=True, eq=False)
class Sight:
    """What an attacker knows beside the release."""

    schema: Schema
    space: Space
    """Of the encoded rows, with the row bound of the release."""
    rows: int
    """Of the table."""
    reference: Reals
    """Encoded rows of people who are certainly not in the table: they stand for the population."""
    measured: Callable[[], Sequence[MeasuredSum]]
    """The published sums with the questions behind them, worked out when asked for; none where those cannot be told."""


class _Contributions:
    """What rows add to all answers; several views ask for the same rows, so the last ones are kept."""

    def __init__(self, measured: Sequence[MeasuredSum]) -> None:
        self._measured = measured
        self._kept: dict[bytes, Reals] = {}

    def of(self, rows: Reals) -> Reals:
        """One row of numbers for each, in units of the noise."""
        key = hashlib.sha256(rows.tobytes()).digest()
        if key not in self._kept:
            found = np.concatenate([each.contributions(rows) for each in self._measured], axis=1)
            if sum(kept.size for kept in self._kept.values()) + found.size > _MOST_NUMBERS:
                self._kept.clear()
            self._kept[key] = found
        return self._kept[key]


def sum_views(measured: Sequence[MeasuredSum], rows: int, reference: Reals) -> dict[str, View]:
    """Views of all noisy sums (`measured`) of a table of so many `rows` together; none where there are no sums.

    Before anything is known of a candidate, the answer is that of `rows` people like the `reference`, give or take: its
    mean is theirs, its covariance is theirs, the noise and the error of the mean together. A candidate moves the mean
    by what he adds beyond the average person. `likelihood` compares both; `inner product` leaves the covariance out.
    An audit does not take the stated noise on trust: the others suppose that there is less of it.
    """
    if not measured:
        return {}
    size = sum(each.query.size for each in measured)
    contributions = _Contributions(measured)
    own = contributions.of(reference[: max(_MOST_NUMBERS // (2 * max(size, 1)), 2)])
    mean = own.mean(axis=0)
    surplus = np.concatenate([each.seen for each in measured]) - rows * mean
    people = len(own)
    spread = (own - mean) * np.sqrt((rows + rows**2 / people) / max(people - 1, 1))
    gram, along_spread = spread @ spread.T, spread @ surplus

    def likelihood_for(part: float) -> View:
        """With this part of the stated noise."""
        # inverse of part^2 + spread' spread, applied without ever building it
        inner = np.linalg.inv(part**2 * np.eye(people) + gram)
        direction = (surplus - spread.T @ (inner @ along_spread)) / part**2

        def likelihood(candidates: Reals, places: Integers) -> Reals:
            change = contributions.of(candidates) - mean
            along = change @ spread.T
            size = (np.square(change).sum(axis=1) - ((along @ inner) * along).sum(axis=1)) / part**2
            return np.asarray(change @ direction - size / 2)

        return likelihood

    def inner_product(candidates: Reals, places: Integers) -> Reals:
        return np.asarray((contributions.of(candidates) - mean) @ surplus)

    found: dict[str, View] = {"likelihood": likelihood_for(1.0), "inner product": inner_product}
    return found | {f"likelihood at {part:g} of the noise": likelihood_for(part) for part in _LESS_NOISE}
