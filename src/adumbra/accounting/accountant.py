"""What recorded events cost: epsilon for any delta, and delta for any epsilon.

Three facts make one formula (docs/proofs/composition.md):

* Gaussian answers on the same pair of tables compose exactly: mu^2 adds.
* A fresh projection is a Gaussian answer whose mu^2 is random with a known law, the same for both tables.
* A pure answer (Laplace, L2-Laplace) of cost e is dominated by randomised response, whose privacy loss is +e or -e.

So any mixture of events has a law of summed losses and a law of summed mu^2, and its delta is the average of
the exact Gaussian curve at (epsilon - loss, mu). Both laws may be rounded up, never down: the averages are
sums of positive terms, without Fourier transforms, so the result is an upper bound at delta = 1e-12 as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from adumbra.accounting.calibrate import chi2_cells, eps_for, gaussian_delta_upper, smallest
from adumbra.accounting.events import LAWS, Composition, Event, FreshProjection
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import between
from adumbra.declare.guarantee import Neighbours, Promise

__all__ = [
    "at_most",
    "check_event",
    "composed",
    "costs_of",
    "delta_of",
    "epsilon_of",
    "epsilon_of_all",
    "keeps",
    "mu_of",
]


_ATOMS = 4000  # most values a law keeps when the other law is a single number
_ATOMS_BOTH = 400  # ... and when it is not: the formula costs one evaluation per pair
_MOST_NUMBERS = 2**53  # whole numbers that float64 holds
_DUST = 1e-21  # upper tail of a sum that may be charged as if it revealed everything


def check_event(event: Event) -> None:
    """Refuse an event whose numbers have no meaning; a NaN must never compare as "within the cap".

    >>> check_event(Event("gaussian", 2.0, {"row/replace": 1.0}))
    """
    numbers = [event.slack, *event.sensitivity.values()]
    for fresh in event.fresh.values():
        numbers += [fresh.distance, fresh.rounding]
    sound = (
        event.noise in LAWS
        and math.isfinite(event.scale)
        and event.scale > 0
        and all(math.isfinite(x) and x >= 0 for x in numbers)
        and event.slack <= 1
        and 0 <= event.numbers < _MOST_NUMBERS
        and all(1 <= fresh.dimension < _MOST_NUMBERS for fresh in event.fresh.values())
    )
    if not sound:
        raise InputError(
            "an event with a positive finite scale and finite bounds of at least 0",
            f"noise {event.noise!r}, scale {event.scale}, bounds {sorted(event.sensitivity.values())}, "
            f"slack {event.slack}",
            "leave out neighbours for which there is no finite bound",
        )


@dataclass(frozen=True)
class _Law:
    """A discrete law that lies above the true one; `lost` is mass whose value is unbounded."""

    values: Reals
    weights: Reals
    lost: float = 0.0

    @staticmethod
    def point(value: float) -> _Law:
        return _Law(np.array([value]), np.array([1.0]))

    def plus(self, other: _Law) -> _Law:
        """Law of the sum of two independent values."""
        if min(len(self.values), len(other.values)) == 1:
            return _Law(self.values + other.values, self.weights * other.weights, self.lost + other.lost)
        one, two = self.thinned(_ATOMS // 4), other.thinned(_ATOMS // 4)
        values = np.add.outer(one.values, two.values).ravel()
        weights = np.multiply.outer(one.weights, two.weights).ravel()
        return _Law(values, weights, one.lost + two.lost).thinned(_ATOMS)

    def thinned(self, most: int) -> _Law:
        """At most `most` values: near-equal ones joined, then bins of equal width, each at its largest."""
        if len(self.values) <= 1:
            return self
        order = np.argsort(self.values)
        values, weights, lost = self.values[order], self.weights[order], self.lost
        cut = len(values) - int(np.searchsorted(np.cumsum(weights[::-1]), _DUST))
        if 0 < cut < len(values):
            lost += float(weights[cut:].sum())
            values, weights = values[:cut], weights[:cut]
        spread = max(float(values[-1] - values[0]), 1e-300)
        joined = np.flatnonzero(np.diff(values) > 1e-13 * spread) + 1
        starts = np.concatenate([[0], joined])
        if len(starts) > most:
            bins = np.minimum((values - values[0]) / spread * most, most - 1).astype(np.int64)
            starts = np.concatenate([[0], np.flatnonzero(np.diff(bins)) + 1])
        ends = np.append(starts[1:], len(values)) - 1
        return _Law(values[ends], np.add.reduceat(weights, starts), lost)


def _times(law: _Law, count: int) -> _Law:
    """Law of the sum of `count` independent values of one law, by doubling."""
    parts = []
    while count:
        if count % 2:
            parts.append(law)
        count //= 2
        law = law.plus(law) if count else law
    return _sum(parts[::-1])


def _sum(laws: list[_Law]) -> _Law:
    """Law of the sum; pairs first, so that rounding up happens log2(n) times instead of n times."""
    if not laws:
        return _Law.point(0.0)
    while len(laws) > 1:
        odd = laws[-1:] if len(laws) % 2 else []
        laws = [a.plus(b) for a, b in zip(laws[::2], laws[1::2], strict=False)] + odd
    return laws[0]


@dataclass(frozen=True)
class _Account:
    """One sound way to account for all events: law of the summed losses, law of the summed mu^2."""

    losses: _Law
    squares: _Law

    @staticmethod
    def of(losses: _Law, squares: _Law) -> _Account:
        most = _ATOMS if min(len(losses.values), len(squares.values)) == 1 else _ATOMS_BOTH
        return _Account(losses.thinned(most), squares.thinned(most))

    @property
    def lost(self) -> float:
        return self.losses.lost + self.squares.lost

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta(epsilon)."""
        mu = np.sqrt(self.squares.values)
        grid = gaussian_delta_upper(epsilon - self.losses.values[:, None], mu[None, :])
        return min(1.0, self.lost + float(self.losses.weights @ grid @ self.squares.weights) * (1 + 1e-12))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at delta, rounded up."""
        if self.lost >= delta:
            return math.inf
        single = len(self.losses.values) == 1 and len(self.squares.values) == 1
        if single and self.losses.values[0] == 0.0:
            return eps_for(math.sqrt(self.squares.values[0]), delta - self.lost)
        if self.delta(0.0) <= delta:
            return 0.0
        return smallest(lambda e: self.delta(e) <= delta, 1.0, relative=1e-10)


@dataclass(frozen=True)
class _Costs:
    """The events that can be noticed at all, in the units of their own noise."""

    account: _Account
    pure: float | None
    """Sum of epsilons when every event is pure: what holds at delta 0."""
    slack: float

    @staticmethod
    def of(past: Composition) -> _Costs | None:
        """None when some event has no finite bound for these neighbours, or one beyond all use."""
        if not past.bounded:
            return None
        costs = sorted(past.losses.items())  # one order for all: laws are rounded up on the way
        total = _sum([_times(_response(cost), count) for cost, count in costs])
        squares = _sum([_times(_projected(*key), count) for key, count in sorted(past.fresh.items())])
        squares = squares.plus(_Law.point(float(past.squares)))
        pure = None if past.gaussian else float(sum(Fraction(cost) * count for cost, count in costs))
        return _Costs(_Account.of(total, squares), pure, float(past.slack))

    def epsilon(self, delta: float) -> float:
        """Without the sampler's slack."""
        best = self.pure if self.pure is not None else math.inf
        if delta > 0.0:
            best = min(best, self.account.epsilon(delta))
        return best

    def delta(self, epsilon: float) -> float:
        """Without the sampler's slack."""
        if self.pure is not None and epsilon >= self.pure:
            return 0.0
        return self.account.delta(epsilon)


def _response(cost: float) -> _Law:
    """Privacy loss of randomised response, which dominates every mechanism of that epsilon."""
    small = math.exp(-cost)
    return _Law(np.array([-cost, cost]), np.array([small, 1.0]) / (1.0 + small))


def _projected(fresh: FreshProjection, scale: float) -> _Law:
    """Law of mu^2 over the draw of a fresh projection."""
    ends, masses, rest = chi2_cells(fresh.dimension)
    return _Law(((fresh.distance * np.sqrt(ends) + fresh.rounding) / scale) ** 2, masses, rest)


def composed(events: Sequence[Event], neighbours: Neighbours) -> Composition:
    """All events added up for these neighbours; one whose numbers have no meaning is refused."""
    for event in events:
        check_event(event)
    return Composition().plus(events, neighbours)


def epsilon_of(events: Sequence[Event], neighbours: Neighbours, delta: float) -> float:
    """Smallest epsilon, rounded up, for which all these answers together are (epsilon, delta)-private.

    `events` are what was done, `neighbours` who must not notice, `delta` the probability left out.

    Edge cases: no events, or only events that these neighbours cannot move: 0. An event without a bound for
    these neighbours, delta = 0 with Gaussian noise, or a sampler slack that delta cannot cover: inf.

    >>> row = Neighbours.parse("row/replace")
    >>> epsilon_of([Event("laplace", 2.0, {"row/replace": 1.0})] * 2, row, 0.0)
    1.0
    >>> epsilon_of([Event("gaussian", 2.0, {"cell/replace": 1.0})], row, 1e-6)
    inf
    """
    between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
    return epsilon_of_all(composed(events, neighbours), delta)


def epsilon_of_all(past: Composition, delta: float) -> float:
    """Smallest epsilon, rounded up, at `delta` for events that are already added up."""
    costs = _Costs.of(past)
    if costs is None:
        return math.inf
    if costs.slack == 0.0:
        return costs.epsilon(delta)
    # delta(e) + (1 + e^e) slack falls and then rises. Guess what slack takes, solve for e with that much less
    # delta, and accept once e is no larger than the guess; the overshoot doubles, so this ends.
    guess, overshoot = 0.0, 1e-9
    while guess < 700.0:
        left = delta - (1.0 + math.exp(guess)) * costs.slack
        if left < 0.0:
            return math.inf
        found = costs.epsilon(left)
        if found <= guess:
            return found
        guess, overshoot = found * (1.0 + overshoot) + 1e-12, 2.0 * overshoot
    return math.inf


def at_most(past: Composition, epsilon: float, delta: float) -> bool:
    """Whether events that are added up (`past`) cost at most `epsilon` at `delta`, as `epsilon_of_all` says.

    Where all of them are pure, the plain sum is tried first: the law of the sum of many takes long.
    """
    if past.bounded and not past.gaussian and past.slack == 0:
        plain = float(sum(Fraction(cost) * count for cost, count in past.losses.items()))
        if plain <= epsilon:
            return True
    return epsilon_of_all(past, delta) <= epsilon


def delta_of(events: Sequence[Event], neighbours: Neighbours, epsilon: float) -> float:
    """Smallest delta, rounded up, for which all `events` together are (`epsilon`, delta)-private.

    `neighbours` say whose change must not be noticed; 1.0 where some event has no bound for them.

    >>> delta_of([Event("laplace", 2.0, {"row/replace": 1.0})], Neighbours.parse("row/replace"), 0.5)
    0.0
    """
    if not epsilon >= 0.0:
        raise InputError("epsilon >= 0", f"epsilon = {epsilon}", "give an epsilon, for example 1.0")
    costs = _Costs.of(composed(events, neighbours))
    if costs is None:
        return 1.0
    if costs.slack == 0.0:
        return costs.delta(epsilon)
    if epsilon > 700.0:
        return 1.0
    return min(1.0, costs.delta(epsilon) + (1.0 + math.exp(epsilon)) * costs.slack)


def mu_of(events: Sequence[Event], neighbours: Neighbours) -> float | None:
    """The one number of an all-Gaussian account, or None where it does not tell the whole story.

    >>> mu_of([Event("gaussian", 1.0, {"row/replace": 3.0}), Event("gaussian", 1.0, {"row/replace": 4.0})],
    ...       Neighbours.parse("row/replace"))
    5.0
    """
    squares = []
    for event in events:
        check_event(event)
        bound = event.bound(neighbours)
        if bound is None or event.noise != "gaussian" or str(neighbours) in event.fresh:
            return None
        squares.append((bound / event.scale) ** 2)
    return math.sqrt(math.fsum(squares))


def costs_of(events: Sequence[Event], delta: float) -> dict[str, float | None]:
    """Epsilon at this delta for every unit and relation; None where there is no finite one."""
    costs = {str(n): epsilon_of(events, n, delta) for n in Neighbours.every()}
    return {key: value if np.isfinite(value) else None for key, value in costs.items()}


def keeps(promise: Promise, costs: Mapping[str, float | None]) -> bool:
    """Whether these costs are within the promise, but for the last digits of the calibration."""
    stated = costs[str(promise.neighbours)]
    return stated is not None and stated <= promise.epsilon * (1 + 1e-6)
