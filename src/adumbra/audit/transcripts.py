"""Everything noisy that a mechanism ever saw, run after run, and how well it tells two tables apart.

What a release publishes is made from noisy answers and public facts. So the strongest attacker on a pair of tables
sees the noisy answers themselves, knows the questions that were asked and the noise that was stated, and compares
likelihoods: by Neyman and Pearson nothing tells the tables apart better, if the noise is what it is said to be. (Where
it is not, the counts of `audit.bounds` still hold: they never use the stated noise.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.audit.choices import log_chances
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.declare.guarantee import Budget
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge, Row
from adumbra.families.contract import Chooser, Measurer, Mechanism, Query
from adumbra.pipeline import Job, prepare
from adumbra.privacy.meter import Calibration, Meter
from adumbra.queries.query import Part, RowAnswers
from adumbra.rehearsal import rehearse
from adumbra.request import Request
from adumbra.tables.read import open_table
from adumbra.tables.row_source import encoded_rows

__all__ = [
    "Canaries",
    "Measurement",
    "Pair",
    "Runs",
    "Witness",
    "canaries",
    "encoded",
    "job_of",
    "loss_of",
    "numbers",
    "runs",
    "stated_loss",
    "transcript",
]

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Measurement:
    """One noisy answer: what was asked, which noise was stated, and the numbers, as one weighted vector."""

    line: str
    query: Query
    calibration: Calibration
    vector: Reals

    @property
    def event(self) -> Event:
        """The stated noise."""
        return self.calibration.event


class Witness:
    """A meter's answers, handed on as they are and noted down."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.measurements: list[Measurement] = []

    def measure(self, line: str, query: Query[Answer]) -> Answer:
        """Measure `query` on `line`, and note down."""
        rows, sums = query.halves(self._meter.measure(line, query))
        seen: list[Reals] = []
        if rows is not None:
            numbers = np.concatenate(list(rows.batches))
            rows = RowAnswers(iter([numbers]))
            seen.append(numbers.ravel())
        if sums is not None and query.summed is not None:
            seen.append(sums.values["choice"] if query.chooses else _weighted(query.summed.parts, sums.values))
        self.measurements.append(Measurement(line, query, self._meter.done[line], np.concatenate(seen)))
        return query.answered(rows, sums)


def _weighted(parts: Sequence[Part], values: Mapping[str, Reals]) -> Reals:
    return np.concatenate([values[part.name].ravel() * part.weight for part in parts])


def _answer(query: Query, rows: Reals) -> Reals:
    """The exact answer, as `Measurement.vector` has the noisy one."""
    exact = query.answer(rows)
    return _weighted(query.parts, {part.name: exact[part.name] * part.step for part in query.parts})


@dataclass(frozen=True)
class Pair:
    """Two tables (or only the rows in which they differ) as the meter sees them."""

    one: Reals
    other: Reals
    challenge: Challenge | None = None
    """Where they come from, if rows that they share are left out."""

    @cached_property
    def whole(self) -> Pair:
        """With the rows that they share."""
        return self if self.challenge is None else encoded(self.challenge)

    def answers(self, query: Query) -> tuple[Reals, Reals]:
        """Both exact answers, or what the rows that differ add to them, where that makes the same difference."""
        pair = self if query.linear else self.whole  # else rows that both share matter too
        return _answer(query, pair.one), _answer(query, pair.other)


def _frame_of(rows: Sequence[Row], schema: Schema) -> pl.DataFrame:
    """Rows of text cells as a table, with the columns that are not measured where rows have them."""
    held = rows[0] if rows else {column.name: None for column in schema.measured}
    names = [column.name for column in schema.columns if column.name in held]
    return pl.DataFrame({n: [row[n] for row in rows] for n in names}, schema=dict.fromkeys(names, pl.String))


def encoded(challenge: Challenge, *, differing: bool = False) -> Pair:
    """Both tables encoded and bounded, as the pipeline does it; `differing` leaves out the rows they share."""
    skipped = len(challenge.shared) if differing else 0
    one, other = (_encoded(rows[skipped:], challenge) for rows in challenge.tables())
    return Pair(one, other, challenge if differing else None)


def _encoded(rows: Sequence[Row], challenge: Challenge) -> Reals:
    if len(rows) > 1:
        return _bounded(_frame_of(rows, challenge.schema), challenge.schema, challenge.row_bound)
    # a search asks for the same few rows again and again
    cells = tuple(tuple(row[column.name] for column in challenge.schema.measured) for row in rows)
    return _encoded_row(cells, challenge.schema, challenge.row_bound)


@lru_cache(maxsize=4096)
def _encoded_row(cells: tuple[tuple[str | None, ...], ...], schema: Schema, row_bound: float | None) -> Reals:
    names = [column.name for column in schema.measured]
    return _bounded(_frame_of([dict(zip(names, row, strict=True)) for row in cells], schema), schema, row_bound)


def _bounded(frame: pl.DataFrame, schema: Schema, row_bound: float | None) -> Reals:
    return encoded_rows(frame, schema, schema.space(row_bound).row_bound)


def stated_loss(measurements: Sequence[Measurement], pair: Pair) -> float:
    """How far apart the exact answers are, in units of the stated noise: mu (gaussian) or epsilon (pure)."""
    losses = [loss_of(measurement, pair) for measurement in measurements]
    return math.fsum(losses) if measurements[0].event.is_pure else math.hypot(*losses)


def loss_of(measurement: Measurement, pair: Pair) -> float:
    """The same of one measurement: at most its stated sensitivity over its scale.

    Of a noisy choice twice the score that moves most counts, however many there are (docs/proofs/strategies.md).
    """
    one, other = pair.answers(measurement.query)
    change = one - other
    if measurement.query.chooses:
        moved = 2.0 * float(np.abs(change).max())
    elif measurement.event.noise == "laplace":
        moved = float(np.abs(change).sum())
    elif measurement.event.noise == "l2-laplace":
        moved = float(_lengths(change, measurement).sum())
    else:
        moved = float(np.linalg.norm(change))
    return moved / measurement.event.scale


def _lengths(vector: Reals, measurement: Measurement) -> Reals:
    """L2 length of every group of numbers that share theirs: a row of a row map, a sum as a whole."""
    return np.asarray(np.sqrt(np.square(vector.reshape(-1, measurement.event.numbers)).sum(axis=1)))


def _ratios(measurement: Measurement, pair: Pair) -> list[float]:
    """Log-likelihood of the numbers under table one, less that under the other: part by part."""
    one, other = _answer(measurement.query, pair.one), _answer(measurement.query, pair.other)
    seen = measurement.vector
    if measurement.query.chooses:
        (part,), place = measurement.calibration.parts.values(), int(seen[0])
        chances = [log_chances(tuple(np.rint(u / part.step).astype(int).tolist()), part.steps) for u in (one, other)]
        return [float(chances[0][place] - chances[1][place])]
    if measurement.event.noise == "l2-laplace":  # the parts share one length, so their likelihood is one
        ratio = (
            _lengths(seen - other, measurement) - _lengths(seen - one, measurement)
        ).sum() / measurement.event.scale
        return [float(ratio), *([0.0] * len(_part_ends(measurement.query, len(seen))))]
    if measurement.event.noise == "laplace":
        each = (np.abs(seen - other) - np.abs(seen - one)) / measurement.event.scale
    else:
        each = (seen - (one + other) / 2) * (one - other) / measurement.event.scale**2
    return [float(part.sum()) for part in np.split(each, _part_ends(measurement.query, len(each)))]


def _part_ends(query: Query, length: int) -> list[int]:
    """Where one part of an answer ends and the next begins; what is answered row by row takes the rest."""
    sizes = [length - query.held if part.per_row else part.size for part in query.parts]
    return [int(end) for end in np.cumsum(sizes)[:-1]]


def transcript(
    mechanism: Mechanism | Chooser,
    challenge: Challenge,
    budget: Budget,
    rows: Sequence[Row] | None = None,
) -> list[Measurement]:
    """One run of `mechanism` at `budget`, on `rows`: all that was measured, in order.

    `challenge` has the schema and the row bound; where `rows` is None, its table `one` is run on.
    """
    return next(_watched(job_of(mechanism, challenge, budget, challenge.tables()[0] if rows is None else rows), 1))


def job_of(mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, rows: Sequence[Row]) -> Job:
    """A release of these `rows` that has passed every check and measured nothing.

    `mechanism` and `budget` as for `adumbra.release`; `challenge` has the schema, the row bound, and whether public
    choices are drawn anew at each release.
    """
    table = open_table(_frame_of(rows, challenge.schema))
    seed = PublicSeed.fresh() if challenge.fresh else PublicSeed.given("audit")
    return prepare(Request(table, challenge.schema, mechanism, budget, seed, challenge.row_bound, "audit"))


def _watched(job: Job, times: int) -> Iterator[list[Measurement]]:
    seen: list[Witness] = []

    def watched(meter: Meter) -> Measurer:
        seen.append(Witness(meter))
        return seen[-1]

    for _ in rehearse(job, watched, times):
        yield seen.pop().measurements


def _transcripts(
    mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, rows: Sequence[Row], times: int
) -> Iterator[list[Measurement]]:
    if not challenge.fresh:
        return _watched(job_of(mechanism, challenge, budget, rows), times)
    return (next(_watched(job_of(mechanism, challenge, budget, rows), 1)) for _ in range(times))


@dataclass(frozen=True, eq=False)
class Runs:
    """Log-likelihood ratios of many runs on each table, and what the pair costs as stated."""

    one: Reals
    other: Reals
    parts_one: Reals
    parts_other: Reals
    """The same, part by part of every measurement: a line sums up to its ratio."""
    stated: float
    """`stated_loss`; where later measurements depend on earlier ones, the (quadratic) mean over the runs."""
    noise: str
    fresh: bool
    """Whether the promise averages over a fresh projection."""


def runs(
    mechanism: Mechanism | Chooser,
    challenge: Challenge,
    budget: Budget,
    count: int,
) -> Runs:
    """`count` runs of the mechanism on each table, through the real meter."""
    pair, differing = encoded(challenge), encoded(challenge, differing=True)
    tables: list[list[dict[tuple[str, int], float]]] = []
    losses: list[float] = []
    measurements: list[Measurement] = []
    for rows in challenge.tables():
        own: list[dict[tuple[str, int], float]] = []
        for measurements in _transcripts(mechanism, challenge, budget, rows, count):
            ratios = ((each.line, _ratios(each, pair)) for each in measurements)
            own.append({(line, part): ratio for line, found in ratios for part, ratio in enumerate(found)})
            losses.append(stated_loss(measurements, differing))
        tables.append(own)
    # a later measurement may have a part more or less, as a noisy number of rows suggests
    places = list(dict.fromkeys(place for own in tables for run in own for place in run))
    scores = [np.array([[run.get(place, 0.0) for place in places] for run in own]) for own in tables]
    noise = measurements[0].event.noise
    power = 1 if measurements[0].event.is_pure else 2
    stated = float(np.mean(np.power(losses, power))) ** (1 / power)
    sums = [parts.sum(axis=1) for parts in scores]
    return Runs(sums[0], sums[1], scores[0], scores[1], stated, noise, _is_fresh(measurements))


def _is_fresh(measurements: Sequence[Measurement]) -> bool:
    return any(measurement.calibration.account == "fresh-projection" for measurement in measurements)


def numbers(
    mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, count: int, most: int
) -> tuple[Reals, Reals]:
    """For each run on each table (one per line), the noisy numbers that differ most between the tables.

    Each is standardised: the midpoint of its two exact values (one per table) is subtracted, and the rest divided by
    their difference. Values are then comparable across runs even if later measurements depend on earlier ones.
    `mechanism` runs at `budget` on both tables of `challenge`, `count` times each; the `most` numbers that differ most
    in units of their noise are kept. Which, a first run decides that is not counted.
    """
    pair = encoded(challenge)
    first = _by_number(transcript(mechanism, challenge, budget))
    places = _most_moved(first, encoded(challenge, differing=True), most)
    out = []
    for rows in challenge.tables():
        lines = []
        for measurements in _transcripts(mechanism, challenge, budget, rows, count):
            line = []
            for measurement, chosen in zip(_by_number(measurements), places, strict=True):
                one, other = _answer(measurement.query, pair.one), _answer(measurement.query, pair.other)
                kept = chosen[chosen < len(one)]  # a later measurement may have found fewer cells
                change = (one - other)[kept]
                part = np.zeros(len(chosen))
                np.divide(
                    (measurement.vector - (one + other) / 2)[kept], change, out=part[: len(kept)], where=change != 0
                )
                line.append(part)
            lines.append(np.concatenate(line))
        out.append(np.stack(lines))
    return out[0], out[1]


def _by_number(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Those whose numbers leave as they are; the place of a choice is none of its scores."""
    return [measurement for measurement in measurements if not measurement.query.chooses]


def _most_moved(measurements: Sequence[Measurement], differing: Pair, most: int) -> list[NDArray[np.int64]]:
    """Places of the numbers that move most in units of their noise, measurement by measurement."""
    moves = []
    for measurement in measurements:
        alone = differing.answers(measurement.query)
        moved = np.abs(alone[0] - alone[1]) / measurement.event.scale
        # rows that both tables share stand before the one that differs
        moves.append(np.concatenate([np.zeros(len(measurement.vector) - len(moved)), moved]))
    cut = np.sort(np.concatenate(moves))[::-1][:most][-1]
    return [np.flatnonzero((moved >= cut) & (moved > 0)) for moved in moves]


@dataclass(frozen=True, eq=False)
class Canaries:
    """One run on a table in which each row is, by a coin, the one or the other; and a score for each row."""

    scores: Reals
    secrets: NDArray[np.bool_]
    stated: float
    """`stated_loss` of one canary."""
    noise: str


def canaries(
    mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, count: int, coins: np.random.Generator
) -> Canaries | None:
    """A single run with `count` canaries; None where the answers are not row by row."""
    secrets = coins.random(count) < 0.5
    if challenge.other is None:
        return None
    measurements = transcript(mechanism, challenge, budget, [challenge.one if s else challenge.other for s in secrets])
    pair, scores = encoded(challenge, differing=True), np.zeros(count)
    for measurement in measurements:
        of_rows = measurement.query.per_row
        if of_rows is None:
            return None
        seen = measurement.vector[: count * of_rows.dimension].reshape(count, -1)
        one, other = _answer(of_rows, pair.one), _answer(of_rows, pair.other)
        if measurement.event.noise == "laplace":
            scores += (np.abs(seen - other) - np.abs(seen - one)).sum(axis=1) / measurement.event.scale
        elif measurement.event.noise == "l2-laplace":
            scores += (
                _lengths(seen - other, measurement) - _lengths(seen - one, measurement)
            ) / measurement.event.scale
        else:
            scores += (seen - (one + other) / 2) @ (one - other) / measurement.event.scale**2
    return Canaries(scores, secrets, stated_loss(measurements, pair), measurements[0].event.noise)
