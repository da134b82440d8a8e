"""Lower bounds on epsilon from runs of a mechanism, each with a stated confidence.

Every bound here answers the same question: how large must epsilon at least be, if what was counted is not a freak of
chance? It exceeds the true epsilon with probability at most 1 - confidence, for any mechanism and any scores, however
badly chosen; a bad score only makes it small. Runs must be independent and of one law, in any order that does not
depend on their outcome. A larger score speaks for table `one`; scores may be infinite, not NaN. One call has
its confidence; the best of several calls has less, and the caller divides 1 - confidence among them. Proofs:
docs/proofs/audit-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from adumbra.audit.findings import Measured
from adumbra.audit.hypothesis_curves import (
    ApproximateCurve,
    Curve,
    GaussianCurve,
    LaplaceCurve,
    check_delta,
    check_family,
    refutes,
)
from adumbra.audit.output_classifier import fitted, outputs
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least

__all__ = [
    "Bound",
    "by_classifier",
    "by_family",
    "by_threshold",
    "clopper_pearson",
    "from_counts",
    "measured_curve",
    "one_run",
]


_RANKS = 50  # candidate thresholds from each end of each sample, close together towards the ends
_CAUTION = 30  # the choice divides its error by this: the best of many candidates was lucky, the rare ones most
_SURE = 0.999  # a grid point may miss the likeliest rate slightly
_DOWN = 1 - 1e-6  # the Gaussian epsilon is rounded up by less, as a promise; a lower bound goes down


@dataclass(frozen=True)
class Bound:
    """Epsilon is at least `epsilon`, with this confidence."""

    epsilon: float
    method: str
    """threshold, approximate, gaussian, laplace, one-run or classifier."""
    confidence: float
    runs: int
    """Draws of the mechanism on both tables, those that chose the event among them; canaries, for one-run."""


def clopper_pearson(hits: int, runs: int, confidence: float) -> tuple[float, float]:
    """Exact interval for the probability of an event seen `hits` times in `runs` independent runs.

    Each side fails with probability at most (1 - `confidence`) / 2 (Clopper and Pearson 1934).

    >>> low, high = clopper_pearson(0, 10, 0.95)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    _check_confidence(confidence)
    at_least(1, "count at least one run", runs=runs)
    at_least(0, "count the runs in which the event happened", hits=hits)
    if hits > runs:
        raise InputError("at most as many hits as runs", f"{hits} hits in {runs} runs", "count each run once")
    tail = (1 - confidence) / 2
    return float(_least(np.array(hits), runs, tail)), float(_most(np.array(hits), runs, tail))


def from_counts(
    hits_one: int, runs_one: int, hits_other: int, runs_other: int, delta: float, confidence: float
) -> float:
    """Lower bound on epsilon at `delta` from one event, fixed beforehand, that is likelier under table `one`.

    The event happened `hits_one` times in `runs_one` runs on that table, `hits_other` times in `runs_other` runs on the
    other. log((p - delta) / q) with p the lower end for `one` and q the upper end for `other`, both ends together at
    this `confidence`; 0.0 where that is negative.

    >>> round(from_counts(500, 1000, 100, 1000, 0.0, 0.95), 2)
    1.36
    """
    check_delta(delta)
    low, _ = clopper_pearson(hits_one, runs_one, confidence)
    _, high = clopper_pearson(hits_other, runs_other, confidence)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def by_threshold(one: ArrayLike, other: ArrayLike, delta: float, confidence: float) -> Bound:
    """Lower bound on epsilon at `delta`, no shape assumed: an event "score above" or "not above" a threshold.

    `one` and `other` are scores of independent runs on the two tables. The first half of the runs chooses threshold,
    side and direction; the second half, which the choice has not seen, is counted once and gets the whole `confidence`.
    With fewer than two runs of a table nothing can be chosen: 0.0.
    """
    _check_confidence(confidence)
    check_delta(delta)
    scores = _scores("one", one), _scores("other", other)
    runs = sum(map(len, scores))
    (choose_one, test_one), (choose_other, test_other) = map(_halves, scores)
    if not len(choose_one) or not len(choose_other):
        return Bound(0.0, "threshold", confidence, runs)
    cuts, above_one, above_other = _alarms(choose_one, choose_other)
    tail = (1 - confidence) / 2 / _CAUTION
    likelier = [  # hits and runs of the likelier table, then of the other: two sides, two directions
        (above_one, len(choose_one), above_other, len(choose_other)),
        (len(choose_one) - above_one, len(choose_one), len(choose_other) - above_other, len(choose_other)),
    ]
    likelier += [(c, d, a, b) for a, b, c, d in likelier]
    gains = np.array([_gain(_least(a, b, tail), _most(c, d, tail), delta) for a, b, c, d in likelier])
    event = int(np.argmax(gains.max(axis=1)))
    tied = np.flatnonzero(gains[event] == gains[event].max())
    place = tied[len(tied) // 2]  # the middle of a gap between the tables, not its edge
    silent, exchanged = bool(event % 2), event >= 2
    counts = [(int(np.sum((part > cuts[place]) != silent)), len(part)) for part in (test_one, test_other)]
    if exchanged:
        counts.reverse()
    return Bound(from_counts(*counts[0], *counts[1], delta, confidence), "threshold", confidence, runs)


def by_family(
    one: ArrayLike, other: ArrayLike, family: str, delta: float, confidence: float, cut: float | None = None
) -> Bound:
    """Lower bound on epsilon at delta for a promise whose trade-off curve is known up to its parameter.

    The alarm is "score above the cut". The largest parameter of the family under which so few false alarms and misses
    would be a freak of chance is turned into epsilon at delta. Much tighter than `by_threshold` for small delta,
    because a frequent event speaks for the rare ones. For `gaussian` and `laplace` it refutes "this noise, at this
    epsilon", which is more than the epsilon alone; `approximate` assumes nothing.

    A `cut` given beforehand (0 for a log-likelihood ratio) is tested on all runs; without one the first half chooses
    it and the second half tests.
    """
    _check_confidence(confidence)
    check_family(family, delta)
    test_one, test_other = _scores("one", one), _scores("other", other)
    runs = len(test_one) + len(test_other)
    if cut is None:
        (choose_one, test_one), (choose_other, test_other) = _halves(test_one), _halves(test_other)
        if not len(choose_one) or not len(choose_other):
            return Bound(0.0, family, confidence, runs)
        cuts, above_one, above_other = _alarms(choose_one, choose_other)
        sizes = len(choose_one), len(choose_other)
        tail = (1 - confidence) / 2 / _CAUTION
        cut = float(cuts[np.argmax(_parameter(family, delta, tail, above_one, above_other, *sizes))])
    elif math.isnan(cut):
        raise InputError("a number as the cut", "NaN", "give the score above which the alarm is raised")
    misses, alarms = int(np.sum(test_one <= cut)), int(np.sum(test_other > cut))

    def refuted(parameter: float) -> bool:
        curve = _curve(family, parameter, delta)
        return _chance(curve, misses, len(test_one), alarms, len(test_other)) < (1 - confidence) * _SURE

    return Bound(_as_epsilon(family, _refuted_up_to(refuted), delta), family, confidence, runs)


def one_run(
    scores: ArrayLike, secrets: ArrayLike, family: str, delta: float, confidence: float, guesses: int | None = None
) -> Bound:
    """Lower bound on epsilon at delta from one run with many canaries.

    Each canary was put in or left out by its own fair coin, its secret (True: in); canary by canary, the run with it
    and the run without it are neighbours. The `guesses` largest |scores| are guessed, True where the score is above
    0; the rest abstain. Ties go to the earlier canary. All canaries are guessed if `guesses` is None; the number must
    be fixed before looking. Epsilon is the smallest of the family that does not make so many right guesses rarer than
    1 - confidence.
    """
    _check_confidence(confidence)
    check_family(family, delta)
    values = _scores("scores", scores)
    hidden = np.asarray(secrets)
    if hidden.shape != values.shape or not bool(np.all((hidden == 0) | (hidden == 1))):
        raise InputError("one secret, True or False, for each score", "something else", "give one bit for each canary")
    canaries = len(values)
    guesses = canaries if guesses is None else at_least(1, "guess at least one canary", guesses=guesses)
    if guesses > canaries:
        raise InputError("at most one guess for each canary", f"{guesses} guesses", f"give at most {canaries}")
    told = np.argsort(-np.abs(values), kind="stable")[:guesses]
    correct = int(np.sum((values[told] > 0) == (hidden[told] == 1)))

    def refuted(parameter: float) -> bool:
        return refutes(_curve(family, parameter, delta), correct, guesses, canaries, 1 - confidence)

    return Bound(_as_epsilon(family, _refuted_up_to(refuted), delta), "one-run", confidence, canaries)


def by_classifier(
    one: ArrayLike, other: ArrayLike, delta: float, confidence: float, seed: int = 0
) -> tuple[Bound, Reals, Reals]:
    """Lower bound on epsilon at `delta` for outputs whose likelihood nobody can write down.

    A row of `one` and of `other` is one output of the mechanism on that table. The first third of each table's rows
    teaches three models (the best single number, logistic regression, boosted trees), of which the one that ranks a
    quarter of them best is taken; the second third chooses the threshold, the last third is counted at this
    `confidence` (`by_threshold`). Also returns the scores of the last two thirds. The same rows and `seed` give the
    same bound.
    """
    _check_confidence(confidence)
    check_delta(delta)
    rows = outputs("one", one), outputs("other", other)
    if rows[0].shape[1] != rows[1].shape[1]:
        got = f"{rows[0].shape[1]} and {rows[1].shape[1]} numbers"
        raise InputError("outputs of one length", got, "flatten each output of the mechanism in the same way")
    thirds = [len(part) // 3 for part in rows]
    model = fitted([part[:third] for part, third in zip(rows, thirds, strict=True)], seed)
    scores_one, scores_other = (model(part[third:]) for part, third in zip(rows, thirds, strict=True))
    bound = by_threshold(scores_one, scores_other, delta, confidence)
    return Bound(bound.epsilon, "classifier", confidence, sum(map(len, rows))), scores_one, scores_other


def measured_curve(one: ArrayLike, other: ArrayLike, confidence: float = 0.95, points: int = 60) -> Measured:
    """False alarms and power of "score above t" for growing t, with an interval for each power by itself.

    `one` are scores of runs on the table to be found, `other` of runs on its neighbour. Each interval has this
    `confidence`; the curve has about `points` thresholds, closest together at both ends.
    """
    _check_confidence(confidence)
    at_least(1, "ask for at least one point", points=points)
    values, others = np.sort(_scores("one", one)), np.sort(_scores("other", other))
    pooled = np.sort(np.concatenate([values, others]))
    # a third of the points evenly, the rest close together towards both ends: a rare leak shows only there
    ranks = np.geomspace(1, max(1.0, len(pooled) / 2), max(points // 6, 1)).astype(np.int64) - 1
    ends = pooled[np.concatenate([ranks, len(pooled) - 1 - ranks])]
    even = pooled[np.linspace(0, len(pooled) - 1, max(points - 4 * len(ranks), 1)).astype(np.int64)]
    cuts = np.unique(np.concatenate([even, ends, np.nextafter(ends, -np.inf)]))
    hits = len(values) - np.searchsorted(values, cuts, side="right")
    alarms = (len(others) - np.searchsorted(others, cuts, side="right")) / len(others)
    tail = (1 - confidence) / 2
    low, high = _least(hits, len(values), tail), _most(hits, len(values), tail)
    lines = (alarms, hits / len(values), low, high)
    return Measured(*(tuple(np.asarray(line, dtype=float).tolist()) for line in lines))


def _least(hits: NDArray[np.int64], runs: int, tail: float) -> Reals:
    """Lower Clopper-Pearson ends: the probability at which so many hits or more have chance `tail`."""
    return np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), runs - hits + 1, tail), 0.0)


def _most(hits: NDArray[np.int64], runs: int, tail: float) -> Reals:
    """Upper Clopper-Pearson ends: the probability at which so few hits or fewer have chance `tail`."""
    return np.where(hits < runs, special.betainccinv(hits + 1, np.maximum(runs - hits, 1), tail), 1.0)


def _gain(low: Reals, high: Reals, delta: float) -> Reals:
    """log((low - delta) / high); minus infinity where delta alone explains the event."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0)) - np.log(high)


def _alarms(one: Reals, other: Reals) -> tuple[Reals, NDArray[np.int64], NDArray[np.int64]]:
    """Candidate cuts from both samples, and how many scores of each lie above.

    Ranks lie close together towards both ends, where the rare events are. Each score v stands for "above v" and, as
    the cut just below it, for "v or above": without the second, an atom next to a continuous part would be missed.
    """
    found, samples = [], [np.sort(one), np.sort(other)]
    for ordered in samples:
        ranks = np.geomspace(1, max(1.0, len(ordered) / 2), _RANKS).astype(np.int64) - 1
        found += [ordered[ranks], ordered[len(ordered) - 1 - ranks]]
    values = np.concatenate(found)
    cuts = np.unique(np.concatenate([values, np.nextafter(values, -np.inf)]))
    above = [len(ordered) - np.searchsorted(ordered, cuts, side="right") for ordered in samples]
    return cuts, above[0], above[1]


def _parameter(
    family: str,
    delta: float,
    tail: float,
    above_one: NDArray[np.int64],
    above_other: NDArray[np.int64],
    runs_one: int,
    runs_other: int,
) -> Reals:
    """Smallest parameter whose curve allows the upper ends of both error rates; may be negative."""
    misses = _most(runs_one - above_one, runs_one, tail)
    alarms = _most(above_other, runs_other, tail)
    with np.errstate(divide="ignore"):
        if family == "gaussian":
            return np.asarray(-special.ndtri(misses) - special.ndtri(alarms))
        if family == "approximate":
            return np.maximum(_gain(1 - misses, alarms, delta), _gain(1 - alarms, misses, delta))
        # Laplace: power 1 - misses lies on the first line, on the last, or on the hyperbola between them.
        middle = -np.log(4 * alarms * misses)
        line = np.where(misses > 0.5, np.log(1 - misses) - np.log(alarms), np.log(1 - alarms) - np.log(misses))
        return np.where((misses > 0.5) | (alarms > 0.5), line, middle)


def _refuted_up_to(refuted: Callable[[float], bool]) -> float:
    """Largest parameter that was seen to be refuted; 0.0 if none was."""
    low, high = 0.0, 1.0
    if not refuted(low):
        return 0.0
    while high < 512 and refuted(high):  # no count refutes as much; a loop without end would hide a mistake
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _chance(curve: Curve, misses: int, runs_one: int, alarms: int, runs_other: int) -> float:
    """Chance that a promise with this curve gives so few misses and so few false alarms, at the likeliest alarm rate.

    If the true rate of false alarms is x, so few of them have chance a(x), and so few misses at most b(x), the chance
    at the smallest rate of misses that the curve leaves. Both are independent, and Fisher's test joins them.
    """

    def product(probits: Reals) -> Reals:
        rate = special.ndtr(probits)
        missing = 1 - np.asarray(curve.power(rate), dtype=np.float64)
        return np.asarray(special.bdtr(alarms, runs_other, rate) * special.bdtr(misses, runs_one, missing))

    # Below `low` a(x) is 1 but for a millionth and b falls; above `high` b(x) is, and a falls: the likeliest rate lies
    # between. Many runs make the interval narrow; a grid over all rates could step over it.
    fewest_alarms = special.betaincinv(alarms + 1, runs_other - alarms, 1e-6) if alarms < runs_other else 1.0
    fewest_misses = special.betaincinv(misses + 1, runs_one - misses, 1e-6) if misses < runs_one else 1.0
    ends = np.clip([fewest_alarms, float(curve.needed(1 - fewest_misses))], 1e-300, 1 - 1e-16)
    low, high = special.ndtri(ends)
    if low >= high:
        return 1.0
    best = 0.0
    for _ in range(6):  # a grid, and finer ones around its best point
        grid = np.linspace(low, high, 201)
        found = product(grid)
        place = int(np.argmax(found))
        best = max(best, float(found[place]))
        low, high = grid[max(place - 2, 0)], grid[min(place + 2, 200)]
    return best * (1 - math.log(best)) if best > 0 else 0.0


def _curve(family: str, parameter: float, delta: float) -> Curve:
    if family == "gaussian":
        return GaussianCurve(parameter)
    return LaplaceCurve(parameter) if family == "laplace" else ApproximateCurve(parameter, delta)


def _as_epsilon(family: str, parameter: float, delta: float) -> float:
    epsilon = _curve(family, parameter, delta).epsilon(delta)
    return epsilon * _DOWN if family == "gaussian" else epsilon


def _halves(scores: Reals) -> tuple[Reals, Reals]:
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def _scores(name: str, values: ArrayLike) -> Reals:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(f"a list of scores as {name}, not empty", f"shape {array.shape}", "give each run one score")
    if bool(np.isnan(array).any()):
        raise InputError(f"numbers as {name}", "NaN among them", "give every run a score, infinite if need be")
    return array


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError("0 < confidence < 1", f"confidence = {confidence}", "give for example 0.95")
