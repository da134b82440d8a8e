"""Everything noisy that a mechanism ever saw, run after run, and how well it tells two tables apart.

What a release publishes is made from noisy answers and public facts. So the strongest attacker on a pair of tables
sees the noisy answers themselves, knows the questions that were asked and the noise that was stated, and compares
likelihoods: by Neyman and Pearson nothing tells the tables apart better, if the noise is what it is said to be. (Where
it is not, the counts of `audit.bounds` still hold: they never look at the stated noise.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.audit.choices import log_chances
from adumbra.core.challenge import Challenge, Row
from adumbra.core.events import Event
from adumbra.core.guarantee import Budget
from adumbra.core.histogram import TailChoice
from adumbra.core.mechanism import Chooser, Door, Mechanism, Query
from adumbra.core.query import RowMap
from adumbra.core.randomness import PublicSeed
from adumbra.core.schema import Schema
from adumbra.core.sums import RowsAndGram, Sum
from adumbra.pipeline import Job, prepare, rehearse
from adumbra.privacy.meter import Calibration, Meter, NoisyJoint, NoisyRows, NoisySum
from adumbra.table.bound import clip_rows
from adumbra.table.encode import encode
from adumbra.table.read import open_table

__all__ = [
    "Canaries",
    "Look",
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

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Look:
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
    """A door that notes down all that passes."""

    def __init__(self, door: Meter) -> None:
        self._door = door
        self.looks: list[Look] = []

    @overload
    def measure(self, line: str, query: RowMap) -> NoisyRows: ...
    @overload
    def measure(self, line: str, query: Sum) -> NoisySum: ...
    @overload
    def measure(self, line: str, query: RowsAndGram) -> NoisyJoint: ...
    def measure(self, line: str, query: Query) -> NoisyRows | NoisySum | NoisyJoint:
        """Measure, and note down."""
        if isinstance(query, Sum):
            summed = self._door.measure(line, query)
            seen = summed.values["choice"] if _chooses(query) else _weighted(query, dict(summed.values))
            self._note(line, query, summed.calibration, seen)
            return summed
        if isinstance(query, RowMap):
            rows, again = _read(self._door.measure(line, query))
            self._note(line, query, again.calibration, rows.ravel())
            return again
        both = self._door.measure(line, query)
        rows, again = _read(both.rows)
        parts = _weighted(query.gram, dict(both.gram.values))
        self._note(line, query, again.calibration, np.concatenate([rows.ravel(), parts]))
        return NoisyJoint(again, both.gram)

    def _note(self, line: str, query: Query, calibration: Calibration, vector: Reals) -> None:
        self.looks.append(Look(line, query, calibration, vector))


def _read(noisy: NoisyRows) -> tuple[Reals, NoisyRows]:
    rows = np.concatenate(list(noisy.batches))
    return rows, dataclasses.replace(noisy, batches=iter([rows]))


def _chooses(query: Query) -> bool:
    """Whether only the place of the smallest noisy number leaves."""
    return isinstance(query, TailChoice)


def _adds_up(query: Query) -> bool:
    """Whether the rows that two tables share cannot matter for what tells them apart."""
    return not isinstance(query, Sum) or query.linear


def _weighted(query: Sum, values: dict[str, Reals]) -> Reals:
    return np.concatenate([values[part.name].ravel() * part.weight for part in query.parts])


def _answer(query: Query, rows: Reals) -> Reals:
    """The exact answer, as `Look.vector` has the noisy one."""
    if isinstance(query, RowMap):
        return np.asarray(query.answer(rows) * query.answer_step, dtype=np.float64).ravel()
    if isinstance(query, RowsAndGram):
        return np.concatenate([_answer(query.map, rows), _answer(query.gram, rows)])
    exact = query.answer(rows)
    return _weighted(query, {part.name: exact[part.name] * part.step for part in query.parts})


@dataclass(frozen=True)
class Pair:
    """Two tables (or only the rows in which they differ) as the door sees them."""

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
        pair = self if _adds_up(query) else self.whole
        return _answer(query, pair.one), _answer(query, pair.other)


def _frame_of(rows: Sequence[Row], schema: Schema) -> pl.DataFrame:
    """Rows of text cells as a table."""
    names = [column.name for column in schema.released]
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
    cells = tuple(tuple(row[column.name] for column in challenge.schema.released) for row in rows)
    return _encoded_row(cells, challenge.schema, challenge.row_bound)


@lru_cache(maxsize=4096)
def _encoded_row(cells: tuple[tuple[str | None, ...], ...], schema: Schema, row_bound: float | None) -> Reals:
    names = [column.name for column in schema.released]
    return _bounded(_frame_of([dict(zip(names, row, strict=True)) for row in cells], schema), schema, row_bound)


def _bounded(frame: pl.DataFrame, schema: Schema, row_bound: float | None) -> Reals:
    bound = schema.space(row_bound).row_bound
    values = encode(frame, schema).values
    return values if bound is None else clip_rows(values, bound)[0]


def stated_loss(looks: Sequence[Look], pair: Pair) -> float:
    """How far apart the exact answers are, in units of the stated noise: mu (gaussian) or epsilon (pure)."""
    losses = [loss_of(look, pair) for look in looks]
    return math.fsum(losses) if looks[0].event.is_pure else math.hypot(*losses)


def loss_of(look: Look, pair: Pair) -> float:
    """The same of one look: at most its stated sensitivity over its scale.

    Of a noisy choice twice the score that moves most counts, however many there are (docs/proofs/strategies.md).
    """
    one, other = pair.answers(look.query)
    change = one - other
    if _chooses(look.query):
        moved = 2.0 * float(np.abs(change).max())
    elif look.event.noise == "laplace":
        moved = float(np.abs(change).sum())
    elif look.event.noise == "l2-laplace":
        moved = float(_lengths(change, look).sum())
    else:
        moved = float(np.linalg.norm(change))
    return moved / look.event.scale


def _lengths(vector: Reals, look: Look) -> Reals:
    """L2 length of every group of numbers that share theirs: a row of a row map, a sum as a whole."""
    return np.asarray(np.sqrt(np.square(vector.reshape(-1, look.event.numbers)).sum(axis=1)))


def _ratios(look: Look, pair: Pair) -> list[float]:
    """Log-likelihood of the numbers under table one, less that under the other: part by part."""
    one, other = _answer(look.query, pair.one), _answer(look.query, pair.other)
    seen = look.vector
    if _chooses(look.query):
        (part,), place = look.calibration.parts.values(), int(seen[0])
        chances = [log_chances(tuple(np.rint(u / part.step).astype(int).tolist()), part.steps) for u in (one, other)]
        return [float(chances[0][place] - chances[1][place])]
    if look.event.noise == "l2-laplace":  # the parts share one length, so their likelihood is one
        ratio = (_lengths(seen - other, look) - _lengths(seen - one, look)).sum() / look.event.scale
        return [float(ratio), *([0.0] * len(_part_ends(look.query, len(seen))))]
    if look.event.noise == "laplace":
        each = (np.abs(seen - other) - np.abs(seen - one)) / look.event.scale
    else:
        each = (seen - (one + other) / 2) * (one - other) / look.event.scale**2
    return [float(part.sum()) for part in np.split(each, _part_ends(look.query, len(each)))]


def _part_ends(query: Query, length: int) -> list[int]:
    """Where one part of an answer ends and the next begins."""
    if isinstance(query, RowMap):
        return []
    parts = query.gram.parts if isinstance(query, RowsAndGram) else query.parts
    sizes = [part.size for part in parts]
    rows = [length - sum(sizes)] if isinstance(query, RowsAndGram) else []
    return [int(end) for end in np.cumsum([*rows, *sizes])[:-1]]


def transcript(
    mechanism: Mechanism | Chooser,
    challenge: Challenge,
    budget: Budget,
    rows: Sequence[Row] | None = None,
) -> list[Look]:
    """One run on these rows (the challenge's table `one`, if none are given)."""
    return next(_watched(job_of(mechanism, challenge, budget, challenge.tables()[0] if rows is None else rows), 1))


def job_of(mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, rows: Sequence[Row]) -> Job:
    """A release of these rows that has passed every check and measured nothing."""
    table = open_table(_frame_of(rows, challenge.schema))
    seed = PublicSeed.fresh() if challenge.fresh else PublicSeed.given("audit")
    bound = challenge.row_bound
    return prepare(table, challenge.schema, mechanism, budget, seed=seed, row_bound=bound, name="audit")


def _watched(job: Job, times: int) -> Iterator[list[Look]]:
    seen: list[Witness] = []

    def watched(meter: Meter) -> Door:
        seen.append(Witness(meter))
        return seen[-1]

    for _ in rehearse(job, watched, times):
        yield seen.pop().looks


def _transcripts(
    mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, rows: Sequence[Row], times: int
) -> Iterator[list[Look]]:
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
    """The same, part by part of every look: a line sums up to its ratio."""
    stated: float
    """`stated_loss`; where later looks depend on earlier ones, the (quadratic) mean over the runs."""
    noise: str
    fresh: bool
    """Whether the promise averages over a fresh projection."""


def runs(
    mechanism: Mechanism | Chooser,
    challenge: Challenge,
    budget: Budget,
    count: int,
) -> Runs:
    """`count` runs of the mechanism on each table, through the real door."""
    pair, differing = encoded(challenge), encoded(challenge, differing=True)
    scores: list[Reals] = []
    losses: list[float] = []
    looks: list[Look] = []
    for rows in challenge.tables():
        own: list[list[float]] = []
        for looks in _transcripts(mechanism, challenge, budget, rows, count):
            own.append([ratio for look in looks for ratio in _ratios(look, pair)])
            losses.append(stated_loss(looks, differing))
        scores.append(np.array(own))
    noise = looks[0].event.noise
    power = 1 if looks[0].event.is_pure else 2
    stated = float(np.mean(np.power(losses, power))) ** (1 / power)
    sums = [parts.sum(axis=1) for parts in scores]
    return Runs(sums[0], sums[1], scores[0], scores[1], stated, noise, _is_fresh(looks))


def _is_fresh(looks: Sequence[Look]) -> bool:
    return any(look.calibration.account == "fresh-projection" for look in looks)


def numbers(
    mechanism: Mechanism | Chooser, challenge: Challenge, budget: Budget, count: int, most: int
) -> tuple[Reals, Reals]:
    """For each run on each table (one a line), the noisy numbers that the tables move most, at most so many.

    Each is taken from the middle of its exact values, in units of their distance, so that it means the same in all
    runs, whatever later looks made of earlier ones. Which numbers, a first run decides that is not counted.
    """
    pair = encoded(challenge)
    first = _by_number(transcript(mechanism, challenge, budget))
    places = _most_moved(first, encoded(challenge, differing=True), most)
    out = []
    for rows in challenge.tables():
        lines = []
        for looks in _transcripts(mechanism, challenge, budget, rows, count):
            line = []
            for look, chosen in zip(_by_number(looks), places, strict=True):
                one, other = _answer(look.query, pair.one), _answer(look.query, pair.other)
                kept = chosen[chosen < len(one)]  # a later look may have found fewer cells
                change = (one - other)[kept]
                part = np.zeros(len(chosen))
                np.divide((look.vector - (one + other) / 2)[kept], change, out=part[: len(kept)], where=change != 0)
                line.append(part)
            lines.append(np.concatenate(line))
        out.append(np.stack(lines))
    return out[0], out[1]


def _by_number(looks: Sequence[Look]) -> list[Look]:
    """Those whose numbers leave as they are; the place of a choice is none of its scores."""
    return [look for look in looks if not _chooses(look.query)]


def _most_moved(looks: Sequence[Look], differing: Pair, most: int) -> list[NDArray[np.int64]]:
    """Places of the numbers that move most in units of their noise, look by look."""
    moves = []
    for look in looks:
        alone = differing.answers(look.query)
        moved = np.abs(alone[0] - alone[1]) / look.event.scale
        # rows that both tables share stand before the one that differs
        moves.append(np.concatenate([np.zeros(len(look.vector) - len(moved)), moved]))
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
    looks = transcript(mechanism, challenge, budget, [challenge.one if s else challenge.other for s in secrets])
    pair, scores = encoded(challenge, differing=True), np.zeros(count)
    for look in looks:
        if isinstance(look.query, Sum):
            return None
        of_rows = look.query if isinstance(look.query, RowMap) else look.query.map
        seen = look.vector[: count * of_rows.dimension].reshape(count, -1)
        one, other = _answer(of_rows, pair.one), _answer(of_rows, pair.other)
        if look.event.noise == "laplace":
            scores += (np.abs(seen - other) - np.abs(seen - one)).sum(axis=1) / look.event.scale
        elif look.event.noise == "l2-laplace":
            scores += (_lengths(seen - other, look) - _lengths(seen - one, look)) / look.event.scale
        else:
            scores += (seen - (one + other) / 2) @ (one - other) / look.event.scale**2
    return Canaries(scores, secrets, stated_loss(looks, pair), looks[0].event.noise)
