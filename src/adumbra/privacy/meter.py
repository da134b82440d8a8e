"""`Meter.measure(line, query)` is the only code that turns private rows into numbers.

Reading `Meter.measure` is enough to check the order that the promise rests on:

1. the sensitivity comes from the query's type, the bound from the rows' space, the scale from the promise;
2. what cannot be measured exactly is refused;
3. the line is spent, and the charge rule (`privacy.charge`) records it durably;
4. only then are the rows read, by the engine (`privacy.engine`), which answers exactly in integers;
5. integer noise is added, and what is handed out may be published. A line can be measured once.

What a query answers row by row comes as a stream; its sum over rows (`queries.sums`) as a whole, part by part.
`calibrated` does the same arithmetic without rows: planning and releasing cannot disagree.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from adumbra.accounting import calibrate
from adumbra.accounting.events import Event, FreshProjection, Law
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.declare.guarantee import Promise, Relation, Unit
from adumbra.declare.space import EXACT, Space
from adumbra.noise import add as noise
from adumbra.noise.l2_laplace import LARGEST_LENGTH
from adumbra.noise.lattice_tables import LARGEST_T
from adumbra.numerics.integer_kernels import worker_threads
from adumbra.numerics.projections import ROUNDING, gaussian_matrix
from adumbra.privacy.charge import ChargeFn
from adumbra.privacy.engine import FOLDED, Engine, LocalThreads, RowPartial, SumPartial, at_work
from adumbra.privacy.private_rows import PrivateRows
from adumbra.privacy.sensitivity import bounds, row_distance, sensitivity
from adumbra.queries.query import Part, Query, RowAnswers, SumAnswer, Whole
from adumbra.queries.row_map import ROWS, RowMap
from adumbra.queries.sums import Sum

__all__ = ["Calibration", "Meter", "PartNoise", "calibrated", "check_countable", "preview_sd"]

Answer = TypeVar("Answer")
_LINES = 8
_LARGEST_ANSWER = 2**27
"""A sum is held in memory whole: a gigabyte of numbers at most."""


@dataclass(frozen=True)
class PartNoise:
    """The noise on the numbers of one part of an answer."""

    steps: float
    """Scale in integer steps of the answer."""
    step: float
    """Value of one step."""
    sd: float
    """Standard deviation, in the units of the part."""


@dataclass(frozen=True)
class Calibration:
    """The noise a query gets: what the ledger records, and the scale in integer steps of each part of the answer."""

    event: Event
    parts: Mapping[str, PartNoise]
    account: str
    """Which proof the scale rests on: "per-matrix", "fresh-projection", "sum" or "pure"."""

    @property
    def coarsest(self) -> PartNoise:
        """The part whose grid is coarsest beside its noise."""
        return min(self.parts.values(), key=lambda part: part.steps)


@dataclass(frozen=True)
class _NoiseScale:
    """The noise of one line, before its cost for other neighbours is worked out."""

    law: Law
    scale: float
    account: str
    slack: float = 0.0
    projections: dict[str, FreshProjection] = field(default_factory=dict)
    numbers: int = 0
    """For l2-laplace: how many numbers share one length."""


def calibrated(query: Query, space: Space, promise: Promise, *, share: float, rows: int, fresh: bool) -> Calibration:
    """Noise for `query` on a line that may use `share` of the `promise`, for rows of `space`.

    The number of `rows` counts only where a query answers row by row; `fresh` says that its matrix was drawn for this
    release and used nowhere else.

    Guarantee: the event, accounted at the promise's neighbours and delta, costs at most the line's share: mu^2
    shares add up to the whole for Gaussian lines, epsilon shares for Laplace lines. It has no bound for neighbours that
    a release of this promise tells apart by what it publishes beside the answer.
    """
    scale = _scale(query, space, promise, share, rows, fresh)
    sensitivities = bounds(query, space, "l1" if scale.law == "laplace" else "l2")
    alone = Event(scale.law, scale.scale, sensitivities, scale.projections, scale.slack, scale.numbers)
    event = alone.within(promise.neighbours)
    noises = {
        part.name: PartNoise(_steps(scale.scale, part), part.step, event.sd / part.weight) for part in query.parts
    }
    return Calibration(event, noises, scale.account)


def preview_sd(query: Query, space: Space, promise: Promise, *, share: float, rows: int, fresh: bool) -> float:
    """Standard deviation that `calibrated` would give to a number of weight 1, not counting other neighbours.

    `query`, `space`, `promise`, `share`, `rows` and `fresh` are those of `calibrated`.
    """
    scale = _scale(query, space, promise, share, rows, fresh)
    return Event(scale.law, scale.scale, {}, numbers=scale.numbers).sd


def _scale(query: Query, space: Space, promise: Promise, share: float, rows: int, fresh: bool) -> _NoiseScale:
    if promise.epsilon > 80.0:
        raise InputError(
            "an epsilon that promises something (at most 80)",
            f"epsilon = {promise.epsilon:g}",
            "give a smaller epsilon",
        )
    if promise.neighbours.unit is Unit.CELL and space.row_bound is not None:
        raise InputError(
            "no row bound with unit cell (clipping a row couples its cells)",
            "unit cell with a row bound",
            "leave out --row-bound, or use --unit row",
        )
    largest = query.largest_sum(space)
    if largest >= EXACT:
        raise InputError(
            "sums that stay exact (below 2^53)",
            f"a map over {space.width} coordinates whose sums can reach {largest:.3g}",
            "use fewer columns or a coarser map",
        )
    parts, sums_only = query.parts, query.per_row is None
    if promise.delta == 0.0:
        law: Law = query.pure
        bound = sensitivity(query, space, promise.neighbours, "l1" if law == "laplace" else "l2")
        numbers = sum(part.size for part in parts) if law == "l2-laplace" else 0
        scale = _drawable(bound / (promise.epsilon * share), parts, numbers)
        return _NoiseScale(law, scale, "pure", numbers=numbers)
    # An earlier answer may give a sum more cells than were planned: each is charged for as many draws as any may have.
    slack = noise.gaussian_slack_per_draw() * max(query.draws(rows), _LARGEST_ANSWER if sums_only else 0)
    # The lines of a release share one delta, and each must leave room for the slack of all: no mechanism asks for more
    # than _LINES of them.
    reserve = noise.gaussian_slack_per_draw() * _LARGEST_ANSWER * _LINES if sums_only else 0.0
    delta = promise.delta - _slack_delta(promise, max(slack, reserve))
    projections: dict[str, FreshProjection] = {}
    alone = query.per_row if query.summed is None else None  # nothing is proved for what stands beside a sum
    if alone is not None and fresh and share == 1.0 and promise.neighbours.unit is Unit.ROW:
        projections = _fresh_projections(alone, space)
    mixture = projections.get(str(promise.neighbours))
    if mixture is None:
        mu = calibrate.mu_for(promise.epsilon, delta) * math.sqrt(share)
        bound = sensitivity(query, space, promise.neighbours)
        account = "sum" if sums_only else "per-matrix"
        return _NoiseScale("gaussian", _drawable(bound / mu, parts), account, slack, projections)
    # Not "whichever is smaller": the fresh account averages over the matrix, so the choice of account (and of
    # everything else about the noise) must not depend on the matrix drawn.
    sigma = calibrate.fresh_sigma_for(promise.epsilon, delta, mixture.dimension, mixture.distance, mixture.rounding)
    return _NoiseScale("gaussian", _drawable(sigma, parts), "fresh-projection", slack, projections)


def _steps(scale: float, part: Part) -> float:
    return scale / part.weight / part.step


def _drawable(scale: float, parts: tuple[Part, ...], numbers: int = 0) -> float:
    """Slightly more noise than asked, so that no rounding of float64 can make it less; and at least 16 steps.

    `numbers` share one length where noise is drawn by length: each is then usually sqrt(numbers + 1) times the scale.
    """
    finest = max(part.weight * part.step for part in parts)
    scale = max(scale, 16.0 * finest) * (1.0 + 1e-12)
    largest = LARGEST_LENGTH / math.sqrt(numbers + 1.0) if numbers else LARGEST_T
    if max(_steps(scale, part) for part in parts) > largest:
        raise InputError(
            "noise that the sampler can draw",
            f"a scale of {scale:.3g} in encoded units",
            "give a larger epsilon, or release fewer columns",
        )
    return scale


def _slack_delta(promise: Promise, slack: float) -> float:
    """What the sampler's total-variation slack takes out of delta: (1 + e^epsilon) * slack."""
    taken = (1.0 + math.exp(promise.epsilon)) * slack
    if taken > promise.delta / 2:
        raise InputError("a delta above the sampler's own slack", f"delta = {promise.delta:g}", "give a larger delta")
    return taken


def _fresh_projections(query: RowMap, space: Space) -> dict[str, FreshProjection]:
    """The fresh-projection account for whole rows; only for a matrix that its recipe reproduces exactly."""
    recipe = query.recipe
    if recipe is None or query.step != ROUNDING:
        return {}
    again = gaussian_matrix(recipe.seed.value, space.width, recipe.dimension)
    if recipe.dimension != query.dimension or not np.array_equal(again, query.matrix):
        return {}
    out = {}
    for relation in (Relation.REPLACE, Relation.ZERO_OUT):
        distance = row_distance(space, relation)
        # |z E| <= |z|_1 sqrt(k) ROUNDING/2 for a rounding error E of the matrix; |z|_1 <= |z|_2 sqrt(non-zeros),
        # and a column changes at most two coordinates, a set two for each value it can hold
        changed = sum(block.changed for block in space.blocks)
        rounding = distance * math.sqrt(changed * query.dimension) * ROUNDING / 2
        out[f"{Unit.ROW.value}/{relation.value}"] = FreshProjection(query.dimension, distance, rounding)
    return out


class Meter:
    """Holds the private rows, the promise and its lines; hands out noisy answers."""

    def __init__(
        self,
        rows: PrivateRows,
        promise: Promise,
        lines: Mapping[str, float],
        charge: ChargeFn,
        engine: Engine | None = None,
    ) -> None:
        """Measure `rows` under `promise`, each of the `lines` with its share of it, after `charge` has been called.

        `engine` is where the rows are worked on: by default threads of this process.
        """
        total = sum(lines.values())
        if len(lines) > _LINES:
            raise ValueError(f"at most {_LINES} budget lines")
        if not lines or min(lines.values()) <= 0 or total > 1.0 + 1e-12:
            raise ValueError(f"shares of the budget lines must be positive and sum to at most 1, got {dict(lines)}")
        self._rows = rows
        self._promise = promise
        self._open = dict(lines)
        self._charge = charge
        self._engine: Engine = LocalThreads() if engine is None else engine
        self.done: dict[str, Calibration] = {}
        """What was charged, line by line: public, and what the card states."""

    def __repr__(self) -> str:
        return f"Meter({self._rows!r}, lines left: {sorted(self._open)})"

    def measure(self, line: str, query: Query[Answer]) -> Answer:
        """Charge the line, then answer the query with noise.

        Raises before anything is charged when the line is unknown or spent, or the query cannot be answered
        under the promise's neighbours. Once charged, a failure further on never gives the charge back: some
        noisy number may have been seen.
        """
        if line not in self._open:
            raise ValueError(f"budget line {line!r} is unknown or already spent; left: {sorted(self._open)}")
        rows = self._rows
        fresh = query.recipe is not None and query.recipe.seed.claim_freshness()
        calibration = calibrated(query, rows.space, self._promise, share=self._open[line], rows=rows.count, fresh=fresh)
        check_countable(query, rows.count)
        del self._open[line]
        self._charge(line, calibration.event)
        self.done[line] = calibration
        sums, answers = None, None
        # Both halves are calibrated at the same pair of rows, so both must have seen the same table.
        same = _SameTable() if query.readings > 1 else None
        if query.summed is not None:
            sds = {name: part.sd for name, part in calibration.parts.items()}
            sums = SumAnswer(_summed(rows, query.summed, calibration, self._engine, same), sds)
        if query.per_row is not None:
            answers = RowAnswers(_answers(rows, query.per_row, calibration, self._engine, same))
        return query.answered(answers, sums)


def check_countable(query: Query, rows: int) -> None:
    """Refuse what cannot be summed exactly or drawn, before any charge."""
    if query.draws(rows) > noise.MAX_DRAWS:
        raise InputError(f"at most {noise.MAX_DRAWS} noisy numbers", f"{query.draws(rows)}", "release fewer rows")
    if query.per_row is None and query.held > _LARGEST_ANSWER:
        raise InputError(
            f"an answer of at most {_LARGEST_ANSWER:.1e} numbers",
            f"{query.held:.1e} numbers: {query.describe()}",
            "release fewer columns or values, name fewer labels, or use --mechanism tables",
        )
    if rows > query.most_rows:
        raise InputError(
            f"at most {query.most_rows:,} rows, whose sums stay exact", "more rows", "release the table in parts"
        )


class _SameTable:
    """Notices a table that changed between two readings."""

    def __init__(self) -> None:
        self._before: bytes | None = None
        self._now = hashlib.blake2b()

    def saw(self, batch: Reals) -> None:
        self._now.update((batch + 0.0).data)  # -0.0 is 0.0

    def done(self) -> bool:
        """Whether this reading was like the one before."""
        before, self._before, self._now = self._before, self._now.digest(), hashlib.blake2b()
        return before is None or before == self._before


class _Reading:
    """The partitions of the rows, read once from the start."""

    def __init__(self, rows: PrivateRows, same: _SameTable | None) -> None:
        self._rows, self._same, self._seen = rows, same, 0

    def __iter__(self) -> Iterator[Reals]:
        for batch in self._rows._for_the_meter():
            self._seen += len(batch)
            if self._seen > self._rows.count:
                raise self._changed()
            if self._same is not None:
                self._same.saw(batch)
            yield batch

    def check_complete(self) -> None:
        """Refuse a table that changed since it was counted, and an engine that did not read all of it."""
        if self._seen != self._rows.count or (self._same is not None and not self._same.done()):
            raise self._changed()

    @staticmethod
    def _changed() -> InputError:
        still = "the table changed while it was read; keep it still and release again"
        return InputError("the rows seen before the release", "other rows while reading again", still)


class _Noised:
    """Rows that have met their noise: what `finish` returns, and all that an engine can hand back to the meter."""

    __slots__ = ("rows",)

    def __init__(self, rows: Reals) -> None:
        self.rows: Reals | None = rows

    @staticmethod
    def taken(found: object) -> Reals:
        """The rows of one of them, once; exact rows, and rows that were taken before, are refused."""
        if type(found) is not _Noised or found.rows is None:
            raise RuntimeError("the engine handed back rows that have met no noise, or the same rows again")
        rows, found.rows = found.rows, None
        return rows


def _answers(
    rows: PrivateRows, query: RowMap, calibration: Calibration, engine: Engine, same: _SameTable | None = None
) -> Iterator[Reals]:
    """Exact integers plus integer noise, batch by batch."""
    law, part = calibration.event.noise, calibration.parts[ROWS]

    def with_noise(exact: Reals) -> _Noised:
        if law == "l2-laplace":
            return _Noised(noise.add_l2_noise_by_row(exact, part.steps, query.answer_step))
        return _Noised(noise.add_noise(law, exact, part.steps, query.answer_step))

    reading, answered = _Reading(rows, same), 0
    with at_work(engine):
        for found in engine.map(RowPartial(query, rows.space), with_noise, reading):
            noisy = _Noised.taken(found)
            answered += len(noisy)
            if answered > rows.count:
                raise RuntimeError("the engine answered rows twice")
            yield noisy
        reading.check_complete()
        if answered != rows.count:
            raise RuntimeError("the engine did not answer every row")


def _summed(
    rows: PrivateRows, query: Sum, calibration: Calibration, engine: Engine, same: _SameTable | None = None
) -> dict[str, Reals]:
    """Exact integer sums over all rows, and then, once, noise."""
    exact = query.finalize(_total(rows, query, engine, same))
    if {name: value.shape for name, value in exact.items()} != {part.name: part.shape for part in query.parts}:
        raise RuntimeError("an answer has another shape than its query says")
    noises = [(exact[part.name], calibration.parts[part.name].steps, part.step) for part in query.parts]
    law = calibration.event.noise
    if law == "l2-laplace":
        noisy = noise.add_l2_noise(noises)
    else:
        noisy = [noise.add_noise(law, *each, threads=worker_threads()) for each in noises]
    return query.postprocess({part.name: values for part, values in zip(query.parts, noisy, strict=True)})


def _total(rows: PrivateRows, query: Sum, engine: Engine, same: _SameTable | None = None) -> Mapping[str, Whole]:
    """The partial sums of all rows, added up."""
    reading = _Reading(rows, same)
    with at_work(engine):
        total = dict(engine.fold(SumPartial(query, rows.space), reading))
        reading.check_complete()
        folded = total.pop(FOLDED, None)
        if folded is None or folded.tolist() != rows.count:
            raise RuntimeError("the engine did not add up every row once")
    return total
