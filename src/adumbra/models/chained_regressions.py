"""Rows drawn column by column: a multinomial logistic regression of each column on those before it.

The gradient of such a regression is the difference between the tables its rows have and the tables they should have, so
it is fitted to tables alone, never to private rows. A feature of a row is one place: the cell it has in an earlier
column, or in two of them together. Every fit is convex. It stops when no cell of a table is further off than `_CLOSE`
times the root of the product of its margins (a tenth of what chance does to a table of `_FIT_ROWS` rows), or after
`_STEPS` steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from adumbra.common.types import Integers, Reals
from adumbra.models.shrinkage import apportion
from adumbra.numerics.integer_kernels import compiled

__all__ = ["Chain", "WantedTable", "fit_chain", "raked"]

_STEPS = 100
_REMEMBERED, _OF_MANY, _MANY = 12, 4, 2**20
"""Steps that a fit looks back at, each as large as two of its tables; fewer for so many weights, for the memory."""
_CLOSE = 1e-3
_FIT_ROWS = 8000
_LEAST = 1e-9
Places = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WantedTable:
    """What the rows' table of some columns should be, in shares, and how strongly a feature made of it is shrunk."""

    columns: tuple[int, ...]
    shares: Reals
    ridge: float


@dataclass(frozen=True, eq=False)
class _ChainLink:
    """The regression of one column: its features, where each begins among the weights, and the weights."""

    column: int
    features: tuple[tuple[int, ...], ...]
    starts: Integers
    weights: Reals


@dataclass(frozen=True, eq=False)
class Chain:
    """All regressions, in the order in which columns are drawn."""

    counts: tuple[int, ...]
    first: Reals
    order: tuple[int, ...]
    links: tuple[_ChainLink, ...]

    def draw(self, rows: int, generator: np.random.Generator) -> Places:
        """So many rows, as a cell for each column."""
        out = np.zeros((rows, len(self.counts)), dtype=np.int32)
        own = np.repeat(np.arange(self.counts[self.order[0]], dtype=np.int32), apportion(self.first, rows))
        generator.shuffle(own)
        out[:, self.order[0]] = own
        for link in self.links:
            places = _places(out, self.counts, link)
            out[:, link.column] = _drawn(link.weights, places, generator.random(rows))
        return out


def raked(table: Reals, rows: Reals, columns: Reals, rounds: int) -> Reals:
    """The `table` nearest to this with these sums of `rows` and `columns`, by iterative proportional fitting."""
    out = np.maximum(table, _LEAST * 1e-3)
    for _ in range(rounds):
        out *= (rows / np.maximum(out.sum(axis=1), 1e-300))[:, None]
        out *= columns / np.maximum(out.sum(axis=0), 1e-300)
    return np.asarray(out)


def fit_chain(
    counts: Sequence[int],
    shares: Sequence[Reals],
    targets: Mapping[tuple[int, ...], WantedTable],
    order: Sequence[int],
    generator: np.random.Generator,
) -> Chain:
    """Regressions of columns with so many cells (`counts`), which have these `shares`, in this `order`.

    `targets` are tables of two or three columns; of one of three that is not among them nothing is asked. `generator`
    draws the rows that each regression is fitted on, which are those drawn from the ones before it.
    """
    counts = tuple(int(count) for count in counts)
    rows = np.zeros((_FIT_ROWS, len(counts)), dtype=np.int32)
    own = np.repeat(np.arange(counts[order[0]], dtype=np.int32), apportion(shares[order[0]], _FIT_ROWS))
    generator.shuffle(own)
    rows[:, order[0]] = own
    links: list[_ChainLink] = []
    for place, column in enumerate(order):
        if place == 0:
            continue
        link = _fitted(column, counts, shares[column], _features(column, order[:place], targets), rows)
        rows[:, column] = _drawn(link.weights, _places(rows, counts, link), generator.random(_FIT_ROWS))
        links.append(link)
    return Chain(counts, shares[order[0]], tuple(order), tuple(links))


def _features(
    column: int, before: Sequence[int], targets: Mapping[tuple[int, ...], WantedTable]
) -> list[tuple[tuple[int, ...], WantedTable]]:
    """Tables that tell of this column and of none that is not yet drawn."""
    known, found = {*before, column}, []
    for columns, target in targets.items():
        if column in columns and known.issuperset(columns):
            found.append((tuple(c for c in columns if c != column), target))
    return found


def _places(rows: Places, counts: tuple[int, ...], link: _ChainLink) -> Places:
    """Which weights each row has."""
    out = np.empty((len(rows), len(link.features)), dtype=np.int32)
    for f, (columns, start) in enumerate(zip(link.features, link.starts, strict=True)):
        cell = np.zeros(len(rows), dtype=np.int32)
        for column in columns:
            cell = cell * counts[column] + rows[:, column]
        out[:, f] = cell + start
    return out


def _fitted(
    column: int,
    counts: tuple[int, ...],
    shares: Reals,
    features: Sequence[tuple[tuple[int, ...], WantedTable]],
    rows: Places,
) -> _ChainLink:
    if not features:
        alone = np.log(np.maximum(shares, _LEAST))[None]
        return _ChainLink(column, (), np.zeros(0, dtype=np.int64), alone)
    width = counts[column]
    sizes = [math.prod(counts[c] for c in columns) for columns, _ in features]
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])[:-1].astype(np.int64)
    link = _ChainLink(column, tuple(columns for columns, _ in features), starts, np.zeros((1 + sum(sizes), width)))
    places = _places(rows, counts, link)
    wanted, ridge = [shares[None]], [np.zeros((1, 1))]
    seen = [np.ones(1)]
    for f, ((columns, target), size) in enumerate(zip(features, sizes, strict=True)):
        own = np.bincount(places[:, f] - starts[f], minlength=size) / len(rows)
        axes = [target.columns.index(c) for c in (*columns, column)]
        table = np.transpose(target.shares, axes).reshape(size, width)
        wanted.append(raked(table, own, shares, 5))
        ridge.append(np.full((size, 1), target.ridge))
        seen.append(own)
    goal, shrink = np.concatenate(wanted), np.concatenate(ridge)
    # about the root of the second derivative: steps are then as long in rare cells as in common ones
    unit = np.sqrt(np.maximum(np.concatenate(seen), 1e-4)[:, None] * np.maximum(shares, 1e-4) + shrink)
    gradient = np.empty(goal.shape)  # in rows, as it was compiled for; the goal may be in columns

    def loss(scaled: Reals) -> tuple[float, Reals]:
        weights = scaled.reshape(goal.shape) / unit
        value = _log_partition(weights, places, gradient) - float((weights * goal).sum())
        value += 0.5 * float((shrink * weights**2).sum())
        return value, ((gradient - goal + shrink * weights) / unit).ravel()

    start = np.zeros(goal.shape)
    start[0] = np.log(np.maximum(shares, 1e-6))
    remembered = _REMEMBERED if goal.size < _MANY else _OF_MANY
    found = minimize(
        loss,
        (start * unit).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "maxcor": remembered, "gtol": _CLOSE, "ftol": 0.0},
    )
    return _ChainLink(column, link.features, starts, found.x.reshape(goal.shape) / unit)


@compiled
def _chances(weights: Reals, places: Places, z: Reals) -> tuple[float, float]:
    """Chances of a row's cells up to a factor, written to `z`; the largest of their logarithms, and their sum."""
    for v in range(len(z)):
        z[v] = weights[0, v]
    for at in places:
        for v in range(len(z)):
            z[v] += weights[at, v]
    top = z[0]
    for v in range(1, len(z)):
        top = max(top, z[v])
    total = 0.0
    for v in range(len(z)):
        z[v] = math.exp(z[v] - top)
        total += z[v]
    return top, total


@compiled
def _log_partition(weights: Reals, places: Places, gradient: Reals) -> float:
    """Mean log of the sum over cells of the exponential; its gradient, the rows' expected tables, is written."""
    rows, features = places.shape
    width = weights.shape[1]
    gradient[:] = 0.0
    value = 0.0
    z = np.empty(width)
    for i in range(rows):
        top, total = _chances(weights, places[i], z)
        value += top + math.log(total)
        scale = 1.0 / (total * rows)
        for v in range(width):
            z[v] *= scale
            gradient[0, v] += z[v]
        for f in range(features):
            at = places[i, f]
            for v in range(width):
                gradient[at, v] += z[v]
    return float(value / rows)


@compiled
def _drawn(weights: Reals, places: Places, u: Reals) -> Places:
    """A cell for each row, by its own shares."""
    rows, width = len(places), weights.shape[1]
    out = np.empty(rows, dtype=np.int32)
    z = np.empty(width)
    for i in range(rows):
        _, total = _chances(weights, places[i], z)
        left = u[i] * total
        v = 0
        while v < width - 1 and left >= z[v]:
            left -= z[v]
            v += 1
        out[i] = v
    return out
