"""The door: `Meter.measure(line, query)` is the only code that turns private rows into numbers.

It reads the bound from the rows, the sensitivity from the query, the scale from the promise; charges the
ledger; and only then opens the rows, answers exactly in integers and adds integer noise. What it hands out may be
published. A line can be measured once.

A row map is answered row by row, as a stream; a sum over rows (`core.sums`) is answered as a whole, part by part.

`calibrated` does the same arithmetic without rows: planning and releasing cannot disagree.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.events import Event, FreshProjection, Law
from adumbra.core.guarantee import Promise, Relation, Unit
from adumbra.core.query import EXACT, RowMap
from adumbra.core.rows import PrivateRows
from adumbra.core.space import CATEGORY_STEPS, GRID, Space
from adumbra.core.sums import Part, RowsAndGram, Sum, Whole
from adumbra.linalg.l2_laplace import LARGEST_LENGTH
from adumbra.linalg.lattice_tables import LARGEST_T
from adumbra.linalg.projections import ROUNDING, gaussian_matrix
from adumbra.linalg.rows import OFF_GRID, OUTSIDE, crowded, fault, one_thread_each
from adumbra.privacy import calibrate, noise
from adumbra.privacy.sensitivity import Query, bounds, row_distance, sensitivity
from adumbra.privacy.totals import Totals

__all__ = [
    "Calibration",
    "Meter",
    "NoisyJoint",
    "NoisyRows",
    "NoisySum",
    "PartNoise",
    "Till",
    "calibrated",
    "check_countable",
    "noise_threads",
    "preview_sd",
]

Reals = NDArray[np.float64]
Answer = TypeVar("Answer")
_LINES = 8
_LARGEST_ANSWER = 2**27
"""A sum is held in memory whole: a gigabyte of numbers at most."""
_RUNNING_BYTES = 2**29
"""Each worker adds up a total of its own, as long as all of them together are no larger."""
ROWS = "rows"
"""Name of a row map's only part."""


class Till(Protocol):
    """Where charges are written before anything is measured (`privacy.ledger.Ledger`, bound to one release)."""

    def __call__(self, line: str, event: Event) -> None:
        """Record the charge durably, or raise and let nothing be measured."""


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


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Noisy answers, batch by batch, once. All of it may be published."""

    batches: Iterator[Reals]
    dimension: int
    rows: int
    calibration: Calibration


@dataclass(frozen=True, eq=False)
class NoisySum:
    """A noisy sum, part by part, and the standard deviation of the noise on each part. All of it may be published."""

    values: Mapping[str, Reals]
    calibration: Calibration

    def sd(self, part: str) -> float:
        """Standard deviation of the noise on each number of a part."""
        return self.calibration.parts[part].sd


@dataclass(frozen=True, eq=False)
class NoisyJoint:
    """Noisy rows and the noisy second moment that was measured with them."""

    rows: NoisyRows
    gram: NoisySum


@dataclass(frozen=True)
class _Scale:
    """The noise of one line, before its cost for other neighbours is worked out."""

    law: Law
    scale: float
    account: str
    slack: float = 0.0
    projections: dict[str, FreshProjection] = field(default_factory=dict)
    numbers: int = 0
    """For l2-laplace: how many numbers share one length."""


def calibrated(query: Query, space: Space, promise: Promise, *, share: float, rows: int, fresh: bool) -> Calibration:
    """Noise for one line that may use `share` of the promise. `rows` counts only where a query answers row by row.

    Guarantee: the event, accounted at the promise's neighbours and delta, costs at most the line's share: mu^2
    shares add up to the whole for Gaussian lines, epsilon shares for Laplace lines. It has no bound for neighbours that
    a release of this promise tells apart by what it publishes beside the answer.
    """
    scale = _scale(query, space, promise, share, rows, fresh)
    sensitivities = bounds(query, space, "l1" if scale.law == "laplace" else "l2")
    alone = Event(scale.law, scale.scale, sensitivities, scale.projections, scale.slack, scale.numbers)
    event = alone.within(promise.neighbours)
    noises = {
        part.name: PartNoise(_steps(scale.scale, part), part.step, event.sd / part.weight) for part in _parts(query)
    }
    return Calibration(event, noises, scale.account)


def preview_sd(query: Query, space: Space, promise: Promise, *, share: float, rows: int, fresh: bool) -> float:
    """Standard deviation that `calibrated` would give to a number of weight 1, not counting other neighbours."""
    scale = _scale(query, space, promise, share, rows, fresh)
    return Event(scale.law, scale.scale, {}, numbers=scale.numbers).sd


def _parts(query: Query) -> tuple[Part, ...]:
    """What gets noise: the parts of a sum; the rows of a row map, which is one part of weight 1."""
    if isinstance(query, Sum):
        return query.parts
    of_rows = query.map if isinstance(query, RowsAndGram) else query
    rows = Part(ROWS, (of_rows.dimension,), 1.0, of_rows.answer_step, 0.0)
    return (rows, *query.gram.parts) if isinstance(query, RowsAndGram) else (rows,)


def _draws(query: Query, rows: int) -> int:
    return sum(part.size * (rows if part.name == ROWS and not isinstance(query, Sum) else 1) for part in _parts(query))


def _scale(query: Query, space: Space, promise: Promise, share: float, rows: int, fresh: bool) -> _Scale:
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
    largest = 0.0 if isinstance(query, Sum) else query.largest_sum(space)
    if largest >= EXACT:
        raise InputError(
            "sums that stay exact (below 2^53)",
            f"a map over {space.width} coordinates whose sums can reach {largest:.3g}",
            "use fewer columns or a coarser map",
        )
    parts = _parts(query)
    if promise.delta == 0.0:
        law: Law = "laplace" if isinstance(query, RowsAndGram) else query.pure
        bound = sensitivity(query, space, promise.neighbours, "l1" if law == "laplace" else "l2")
        numbers = sum(part.size for part in parts) if law == "l2-laplace" else 0
        scale = _drawable(bound / (promise.epsilon * share), parts, numbers)
        return _Scale(law, scale, "pure", numbers=numbers)
    slack = noise.gaussian_slack_per_draw() * _draws(query, rows)
    # The lines of a release share one delta, and each must leave room for the slack of all: sums are at most
    # _LARGEST_ANSWER draws each, and no mechanism asks for more than _LINES of them.
    reserve = noise.gaussian_slack_per_draw() * _LARGEST_ANSWER * _LINES if isinstance(query, Sum) else 0.0
    delta = promise.delta - _slack_delta(promise, max(slack, reserve))
    projections: dict[str, FreshProjection] = {}
    if isinstance(query, RowMap) and fresh and share == 1.0 and promise.neighbours.unit is Unit.ROW:
        projections = _fresh_projections(query, space)
    mixture = projections.get(str(promise.neighbours))
    if mixture is None:
        mu = calibrate.mu_for(promise.epsilon, delta) * math.sqrt(share)
        bound = sensitivity(query, space, promise.neighbours)
        account = "sum" if isinstance(query, Sum) else "per-matrix"
        return _Scale("gaussian", _drawable(bound / mu, parts), account, slack, projections)
    # Not "whichever is smaller": the fresh account averages over the matrix, so the choice of account (and of
    # everything else about the noise) must not look at the matrix.
    sigma = calibrate.fresh_sigma_for(promise.epsilon, delta, mixture.dimension, mixture.distance, mixture.rounding)
    return _Scale("gaussian", _drawable(sigma, parts), "fresh-projection", slack, projections)


def _steps(scale: float, part: Part) -> float:
    return scale / part.weight / part.step


def _drawable(scale: float, parts: tuple[Part, ...], numbers: int = 0) -> float:
    """A hair more noise than asked, so that no rounding of float64 can make it a hair less; and at least 16 steps.

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
        # and a column changes at most two coordinates
        changed = sum(min(block.width, 2) for block in space.blocks)
        rounding = distance * math.sqrt(changed * query.dimension) * ROUNDING / 2
        out[f"{Unit.ROW.value}/{relation.value}"] = FreshProjection(query.dimension, distance, rounding)
    return out


def noise_threads() -> int:
    """Worker threads for answering and noise; `ADUMBRA_THREADS` overrides the number of usable cores."""
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 8))


class Meter:
    """Holds the private rows, the promise and its lines; hands out noisy answers."""

    def __init__(self, rows: PrivateRows, promise: Promise, lines: Mapping[str, float], till: Till) -> None:
        total = sum(lines.values())
        if len(lines) > _LINES:
            raise ValueError(f"at most {_LINES} budget lines")
        if not lines or min(lines.values()) <= 0 or total > 1.0 + 1e-12:
            raise ValueError(f"shares of the budget lines must be positive and sum to at most 1, got {dict(lines)}")
        self._rows = rows
        self._promise = promise
        self._open = dict(lines)
        self._till = till
        self.done: dict[str, Calibration] = {}
        """What was charged, line by line: public, and what the card states."""

    def __repr__(self) -> str:
        return f"Meter({self._rows!r}, lines left: {sorted(self._open)})"

    @overload
    def measure(self, line: str, query: RowMap) -> NoisyRows: ...
    @overload
    def measure(self, line: str, query: Sum) -> NoisySum: ...
    @overload
    def measure(self, line: str, query: RowsAndGram) -> NoisyJoint: ...
    def measure(self, line: str, query: Query) -> NoisyRows | NoisySum | NoisyJoint:
        """Charge the line, then answer the query with noise.

        Raises before anything is charged when the line is unknown or spent, or the query cannot be answered
        under the promise's neighbours. Once charged, a failure further on never gives the charge back: some
        noisy number may have been seen.
        """
        if line not in self._open:
            raise ValueError(f"budget line {line!r} is unknown or already spent; left: {sorted(self._open)}")
        rows = self._rows
        recipe = None if isinstance(query, Sum) else (query if isinstance(query, RowMap) else query.map).recipe
        fresh = recipe is not None and recipe.seed.claim_freshness()
        calibration = calibrated(query, rows.space, self._promise, share=self._open[line], rows=rows.count, fresh=fresh)
        check_countable(query, rows.count)
        del self._open[line]
        self._till(line, calibration.event)
        self.done[line] = calibration
        if isinstance(query, Sum):
            return NoisySum(_summed(rows, query, calibration), calibration)
        if isinstance(query, RowMap):
            return NoisyRows(_answers(rows, query, calibration), query.dimension, rows.count, calibration)
        # Both halves are calibrated at the same pair of rows, so both must have seen the same table.
        same = _SameTable()
        gram = NoisySum(_summed(rows, query.gram, calibration, same), calibration)
        batches = _answers(rows, query.map, calibration, same)
        return NoisyJoint(NoisyRows(batches, query.map.dimension, rows.count, calibration), gram)


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


def check_countable(query: Query, rows: int) -> None:
    """Refuse what cannot be summed exactly or drawn, before any charge."""
    if _draws(query, rows) > noise.MAX_DRAWS:
        raise InputError(f"at most {noise.MAX_DRAWS} noisy numbers", f"{_draws(query, rows)}", "release fewer rows")
    if isinstance(query, Sum) and query.size > _LARGEST_ANSWER:
        raise InputError(
            f"an answer of at most {_LARGEST_ANSWER:.1e} numbers",
            f"{query.size:.1e} numbers: {query.describe()}",
            "release fewer columns or values, name fewer labels, or use --mechanism tables",
        )
    summed = query.gram if isinstance(query, RowsAndGram) else query
    if isinstance(summed, Sum) and rows > summed.most_rows:
        raise InputError(
            f"at most {summed.most_rows:,} rows, whose sums stay exact", "more rows", "release the table in parts"
        )


def _each_batch(
    rows: PrivateRows,
    answer: Callable[[Reals], Answer],
    same: _SameTable | None = None,
    workers: int | None = None,
) -> Iterator[Answer]:
    """Answers in order, a few batches ahead on worker threads; refuses a table that changed since it was counted."""

    def one(batch: Reals) -> Answer:
        _check_bounded(batch, rows.space)
        return answer(batch)

    workers = workers or noise_threads()
    seen = 0

    def batches() -> Iterator[Reals]:
        nonlocal seen
        for batch in rows._for_the_meter():
            seen += len(batch)
            if same is not None:
                same.saw(batch)
            yield batch

    if workers == 1:  # starting a thread takes longer than a small table does
        yield from map(one, batches())
    else:
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[Future[Answer]] = deque()
            for batch in batches():
                ahead.append(pool.submit(one, batch))
                if len(ahead) > workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
    if seen != rows.count or (same is not None and not same.done()):
        raise InputError(
            "the rows seen before the release",
            "other rows while reading again",
            "the table changed while it was read; keep it still and release again",
        )


def _answers(
    rows: PrivateRows, query: RowMap, calibration: Calibration, same: _SameTable | None = None
) -> Iterator[Reals]:
    """Exact integers plus integer noise, batch by batch."""
    law, part = calibration.event.noise, calibration.parts[ROWS]

    def answer(batch: Reals) -> Reals:
        if law == "l2-laplace":
            return noise.add_l2_noise_by_row(query.answer(batch), part.steps, query.answer_step)
        return noise.add_noise(law, query.answer(batch), part.steps, query.answer_step)

    return _each_batch(rows, answer, same)


def _summed(
    rows: PrivateRows, query: Sum, calibration: Calibration, same: _SameTable | None = None
) -> dict[str, Reals]:
    """Exact integer sums over all rows, and then, once, noise."""
    exact = query.finished(_total(rows, query, same))
    if {name: value.shape for name, value in exact.items()} != {part.name: part.shape for part in query.parts}:
        raise RuntimeError("an answer has another shape than its query says")
    noises = [(exact[part.name], calibration.parts[part.name].steps, part.step) for part in query.parts]
    law = calibration.event.noise
    if law == "l2-laplace":
        noisy = noise.add_l2_noise(noises)
    else:
        noisy = [noise.add_noise(law, *each, threads=noise_threads()) for each in noises]
    return query.revealed({part.name: values for part, values in zip(query.parts, noisy, strict=True)})


def _total(rows: PrivateRows, query: Sum, same: _SameTable | None) -> Mapping[str, Whole]:
    """What `query` gathers of all rows. A worker adds to a total of its own, and those are added up in the end."""
    totals = Totals(query, rows.space.width)
    workers = noise_threads()
    if workers > 1 and workers * totals.nbytes <= _RUNNING_BYTES:
        with one_thread_each():  # or the linear algebra would bring threads of its own for each of ours
            deque(_each_batch(rows, totals.add, same, workers), maxlen=0)
    else:
        deque(_each_batch(rows, totals.add, same, 1), maxlen=0)
    return totals.found()


def _check_bounded(batch: Reals, space: Space) -> None:
    """Refuse to answer on rows that break the bound the noise was calibrated to (a defect, not a user's error)."""
    if batch.shape[1] != space.width or batch.dtype != np.float64:
        raise RuntimeError("rows at the door are not on the grid of their space")
    # squares of grid steps, below 2^32 each: exact in float64 up to two million coordinates
    if space.row_bound is not None and space.width * float(GRID) ** 2 >= EXACT:
        raise RuntimeError("too many coordinates to check the row bound exactly")
    rows = np.ascontiguousarray(batch)
    category = space.reaches == CATEGORY_STEPS  # of the kinds, only a category reaches that far
    high = np.repeat(space.reaches, space.widths)
    low = np.where(np.repeat(category, space.widths), 0.0, -high)
    found = fault(rows, low, high, np.inf if space.row_bound is None else float(space.row_bound) ** 2)
    if found == OFF_GRID:
        raise RuntimeError("rows at the door are not on the grid of their space")
    starts = space.starts[category]
    if found == OUTSIDE or (len(starts) and crowded(rows, starts, starts + space.widths[category])):
        raise RuntimeError("rows at the door exceed the declared range of a column")
    if found:
        raise RuntimeError("rows at the door exceed the row bound")
