"""The attacks on a mechanism's promise, each on what the mechanism really does.

* `transcript`: the mechanism runs many times on each of two neighbouring tables, through the real door; the attacker
  sees every noisy number and compares likelihoods.
* `all kinds`: the same on a table with every kind of column, a label among them, whatever its stated cost.
* `one-run`: a single release of a table in which each row is, by a coin, one of two neighbours; the attacker guesses
  the coins. For mechanisms that answer row by row.
* `numbers`: runs on a table with every kind of column, given to a classifier number by number. It does not believe the
  stated noise, and so finds a number that got less of it, or none.
* `release`: whole releases, card and files, as an analyst gets them; a classifier learns to tell the tables apart. It
  knows nothing of the mechanism, and so finds what theory overlooked: a number that slipped past the door.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adumbra import pipeline
from adumbra.accounting.calibrate import eps_for, fresh_delta, smallest
from adumbra.accounting.events import FreshProjection
from adumbra.audit import bounds
from adumbra.audit.content import content
from adumbra.audit.findings import Finding
from adumbra.audit.neighbour_search import extremes, mixed, searched
from adumbra.audit.transcripts import (
    Measurement,
    Runs,
    canaries,
    encoded,
    job_of,
    numbers,
    runs,
    stated_loss,
    transcript,
)
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Budget
from adumbra.declare.space import GRID
from adumbra.families.challenge import Challenge, Row
from adumbra.families.contract import Chooser, Mechanism, promised_delta
from adumbra.mechanisms.catalogue import build, catalogue

__all__ = ["DEEP", "QUICK", "Effort", "Task", "attack", "built"]

_SMALL_CLAIM = "claimed at a small epsilon, so that any leak shows"
_MOST_NUMBERS = 100
_EXCEEDS = 1 + 1e-6


@dataclass(frozen=True)
class Effort:
    """How many draws each attack takes."""

    transcripts: int
    """Runs on each table, at least (three times as many for pure epsilon where it is tight, half where it is not)."""
    most: int
    """Runs on each table, at most: as many as fit into `seconds`, by the time of a few runs that are not counted."""
    seconds: float
    canaries: int
    releases: int
    """Whole releases of each table, and runs whose numbers are tested one by one."""

    @staticmethod
    def of(runs: int) -> Effort:
        """So many runs on each table, and other draws to match.

        >>> Effort.of(100).canaries
        2000
        """
        at_least(100, "give at least 100 runs on each table", runs=runs)
        # with fewer releases than that, not even a perfect guesser could show an epsilon of 0.5
        return Effort(runs, runs, 0.0, canaries=20 * runs, releases=max(90, runs // 8))


QUICK = Effort(transcripts=1000, most=5000, seconds=4.0, canaries=100_000, releases=150)
DEEP = Effort(transcripts=20_000, most=100_000, seconds=600.0, canaries=500_000, releases=2000)
_TIMED = 20
_TIGHT = 0.97
"""A pair whose stated cost is this much of the claim: the theory leaves nothing over."""
_WORTH_IT = 1.03
"""How much more the table with all kinds must cost to be attacked instead of the mechanism's own, which is faster."""
_PURE_CUTS = (0.5, 0.65)
"""Of the log-likelihood ratio, as shares of epsilon, where the noise is Laplace's."""


@dataclass(frozen=True)
class Task:
    """One promise and one way to attack it."""

    kind: Literal["transcript", "all kinds", "one-run", "numbers", "release"]
    mechanism: str
    challenge: int
    """Which of the mechanism's own challenges."""
    epsilon: float
    delta: float
    effort: Effort
    options: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 0.999

    @property
    def title(self) -> str:
        """For progress lines."""
        return f"{self.mechanism} ({self.kind})"


def attack(task: Task) -> Finding:
    """Carry one attack out, at the delta that the mechanism promises where `task.delta` is allowed."""
    start = time.perf_counter()
    challenge = catalogue()[task.mechanism].challenges()[task.challenge]
    plain = build(task.mechanism, {})
    if not isinstance(plain, Chooser):
        task = replace(task, delta=promised_delta(plain, task.delta))
    budget = Budget(task.epsilon, task.delta, challenge.neighbours.unit, challenge.neighbours.relation)
    mechanism = built(task.mechanism, challenge, task.options, budget)
    attacks = {
        "transcript": _transcripts,
        "all kinds": _all_kinds,
        "one-run": _one_run,
        "numbers": _numbers,
        "release": _releases,
    }
    try:
        finding = attacks[task.kind](task, mechanism, challenge, budget)
    except (RuntimeError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        error.add_note(f"in the audit of {task.title}, challenge {task.challenge}")
        raise
    return replace(finding, seconds=time.perf_counter() - start)


def built(name: str, challenge: Challenge, options: Mapping[str, Any], budget: Budget) -> Mechanism:
    """The mechanism of this catalogue `name` with these `options`, which win over those of the `challenge`.

    If it refuses both together at this `budget`, it is built with `options` alone.
    """
    both = {**challenge.options, **options}
    try:
        mechanism = build(name, both)
        job = job_of(mechanism, challenge, budget, challenge.tables()[0])
        job.mechanism.queries(job.setting)
    except InputError:
        return build(name, options)
    return mechanism


def _finding(task: Task, challenge: Challenge, bound: bounds.Bound, **rest: Any) -> Finding:
    return Finding(
        target=task.mechanism,
        neighbours=str(challenge.neighbours),
        pair=challenge.why,
        epsilon=task.epsilon,
        delta=task.delta,
        lower_bound=bound.epsilon,
        confidence=task.confidence,
        method=bound.method,
        runs=bound.runs,
        seconds=0.0,
        **rest,
    )


# ---- many runs on two tables


def _transcripts(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> Finding:
    worst, exact, tried = _worst(task, mechanism, challenge, budget)
    return _compared(task, mechanism, worst, budget, exact, f"worst of {tried} pairs" if tried > 1 else "")


def _all_kinds(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> Finding:
    wide = replace(mixed(challenge.neighbours), why="a table with every kind of column and a label")
    measurements = transcript(mechanism, wide, budget)
    worst, cost, tried = _worst_of(measurements, wide)
    exact = _epsilon(cost, measurements[0].event.noise, task.delta)
    return _compared(task, mechanism, worst, budget, exact, f"worst of {tried} pairs")


def _compared(task: Task, mechanism: Mechanism, worst: Challenge, budget: Budget, exact: float, note: str) -> Finding:
    """Many runs on each of two tables, and the best of several bounds, which share the confidence."""
    count = _runs_to_make(mechanism, worst, budget, task.effort, task.epsilon <= exact / _TIGHT)
    made = runs(mechanism, worst, budget, count)
    # Thresholds that are fixed beforehand need no runs to choose them. At 0 both tables are as likely; a promise that
    # averages over projections has no Gaussian curve, but the fit at 0 stays below it (docs/proofs/audit-bounds.md).
    # Laplace noise of many numbers rarely leans one way in all of them, so the clearest cases are too rare to count.
    family, cuts = ("gaussian", (0.0,)) if made.noise == "gaussian" else ("approximate", _PURE_CUTS)
    each = 1 - (1 - task.confidence) / 3
    found = [_reweighted(made, task.delta, each)]
    if made.noise == "gaussian":
        found.append(bounds.by_threshold(made.one, made.other, task.delta, each))
    found += [
        bounds.by_family(made.one, made.other, family, task.delta, each, cut=share * task.epsilon) for share in cuts
    ]
    best = max(found, key=lambda bound: bound.epsilon)
    if not made.fresh:
        exact = max(exact, _epsilon(made.stated, made.noise, task.delta))
    if exact > task.epsilon * _EXCEEDS:
        # no sampling needed: the stated noise is too small for this pair
        best = replace(best, epsilon=max(best.epsilon, exact), method="exact")
        note += "; the stated noise is too small for it"
    return _finding(
        task,
        worst,
        replace(best, runs=len(made.one) + len(made.other)),
        exact=exact,
        family="gaussian" if made.noise == "gaussian" and not made.fresh else "approximate",
        measured=bounds.measured_curve(made.one, made.other),
        note=note,
    )


def _reweighted(made: Runs, delta: float, confidence: float) -> bounds.Bound:
    """A score that does not believe how much noise each part has: a third of the runs says how to weigh them."""
    third = len(made.one) // 3
    taught = made.parts_one[:third], made.parts_other[:third]
    spread = np.mean([np.atleast_2d(np.cov(part, rowvar=False)) for part in taught], axis=0)
    means = [part.mean(axis=0) for part in taught]
    # a part without any noise has no spread: a very small one keeps the weights finite, and very large
    weights = np.linalg.solve(spread + 1e-9 * np.eye(len(spread)), means[0] - means[1])
    middle = float(weights @ (means[0] + means[1]) / 2)
    one, other = made.parts_one[third:] @ weights, made.parts_other[third:] @ weights
    if made.noise != "gaussian" or made.fresh:  # no Gaussian curve is promised
        return bounds.by_threshold(one, other, delta, confidence)
    return bounds.by_family(one, other, "gaussian", delta, confidence, cut=middle)


def _runs_to_make(mechanism: Mechanism, challenge: Challenge, budget: Budget, effort: Effort, tight: bool) -> int:
    """How many runs fit: from the clock and the theory, so that the number knows nothing of the outcomes."""
    if effort.most <= effort.transcripts:
        return effort.transcripts
    # pure epsilon and fresh projections need more runs to be reached, and are worth them only where they can be
    factor = 3.0 if challenge.fresh or (budget.delta == 0 and tight) else 1.0 if budget.delta > 0 else 0.5
    least = int(effort.transcripts * factor)
    start = time.perf_counter()
    runs(mechanism, challenge, budget, _TIMED)
    each = (time.perf_counter() - start) / _TIMED
    return min(max(int(effort.seconds / each), least), effort.most)


def _worst(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> tuple[Challenge, float, int]:
    """The pair of highest stated cost, that cost as epsilon, and how many pairs were compared."""
    measurements = transcript(mechanism, challenge, budget)
    if challenge.fresh:
        return challenge, _fresh_epsilon(measurements, challenge, task.delta), 1
    worst, cost, tried = _worst_of(measurements, challenge)
    for row_bound in (None, 0.8):
        wide = replace(mixed(challenge.neighbours, row_bound), options=challenge.options)
        try:
            measurements = transcript(mechanism, wide, budget)
        except InputError:
            continue  # this mechanism takes no row bound, or its options do not fit this table
        found, own_cost, own_tried = _worst_of(measurements, wide)
        tried += own_tried
        if own_cost > cost * _WORTH_IT:
            worst, cost = found, own_cost
    return worst, _epsilon(cost, measurements[0].event.noise, task.delta), tried


def _worst_of(measurements: Sequence[Measurement], challenge: Challenge) -> tuple[Challenge, float, int]:
    tried = 0

    def cost(candidate: Challenge) -> float:
        nonlocal tried
        tried += 1
        return stated_loss(measurements, encoded(candidate, differing=True))

    worst = searched(max([challenge, *extremes(challenge)], key=cost), cost)
    return worst, cost(worst), tried


def _epsilon(loss: float, noise: str, delta: float) -> float:
    return eps_for(loss, delta) if noise == "gaussian" else loss


def _fresh_epsilon(measurements: Sequence[Measurement], challenge: Challenge, delta: float) -> float:
    """Epsilon of this pair, averaged over projections."""
    event, pair = measurements[0].event, encoded(challenge, differing=True)
    stated = event.fresh[str(challenge.neighbours)]
    own = FreshProjection(stated.dimension, float(np.linalg.norm(pair.one - pair.other)) / GRID, 0.0)
    return smallest(lambda epsilon: fresh_delta(epsilon, event.scale, own) <= delta, 1.0, relative=1e-6)


# ---- one run, many canaries


def _one_run(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> Finding:
    coins = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    count = task.effort.canaries
    made = canaries(mechanism, challenge, budget, count, coins)
    if made is None:
        raise RuntimeError("internal error: canaries need a mechanism that answers row by row")
    # Fixed beforehand: with Laplace noise every second row is as clear as can be; with Gaussian noise only a few are.
    family, guesses = ("gaussian", count // 100) if made.noise == "gaussian" else ("approximate", count // 2)
    bound = bounds.one_run(made.scores, made.secrets, family, task.delta, task.confidence, guesses)
    return _finding(
        task,
        challenge,
        bound,
        exact=_epsilon(made.stated, made.noise, task.delta),
        family=family,
        measured=bounds.measured_curve(made.scores[made.secrets], made.scores[~made.secrets]),
        note=f"{count} canaries, {guesses} guesses",
    )


# ---- every number by itself


def _numbers(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> Finding:
    wide = mixed(challenge.neighbours)
    one, other = numbers(mechanism, wide, budget, task.effort.releases, _MOST_NUMBERS)
    bound, *scores = bounds.by_classifier(one, other, task.delta, task.confidence)
    return _finding(
        task,
        wide,
        bound,
        measured=bounds.measured_curve(scores[0], scores[1]),
        note=f"{one.shape[1]} noisy numbers one by one; {_SMALL_CLAIM}",
    )


# ---- whole releases


def _releases(task: Task, mechanism: Mechanism, challenge: Challenge, budget: Budget) -> Finding:
    wide = mixed(challenge.neighbours)
    one, other = (
        [_published(mechanism, wide, rows, budget) for _ in range(task.effort.releases)] for rows in wide.tables()
    )
    width = max(len(vector) for vector in (*one, *other))
    tables = [np.stack([np.pad(v, (0, width - len(v))) for v in vectors]) for vectors in (one, other)]
    bound, *scores = bounds.by_classifier(tables[0], tables[1], task.delta, task.confidence)
    return _finding(
        task,
        wide,
        replace(bound, runs=len(one) + len(other)),
        measured=bounds.measured_curve(scores[0], scores[1]),
        note=f"whole releases, {width} numbers each; {_SMALL_CLAIM}",
    )


def _published(mechanism: Mechanism, challenge: Challenge, rows: Sequence[Row], budget: Budget) -> Reals:
    with tempfile.TemporaryDirectory(prefix="adumbra-audit-") as place:
        folder, _ = pipeline.release(job_of(mechanism, challenge, budget, rows), Path(place) / "release")
        return content(folder)
