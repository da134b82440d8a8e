"""Trade-off curves: how well a promise lets anybody tell two neighbouring tables apart, and what many guesses refute.

An attacker raises an alarm: an event E of the output. A promise bounds its power, P[E] under the one table, by a
function of its false alarms, P[E] under the other. That function is the curve (Dong, Roth and Su, *Gaussian
Differential Privacy*, JRSS B 2022, draw 1 minus it). All curves here are concave, increasing and stay the same when
the two tables are exchanged. Proofs: docs/proofs/audit-bounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from scipy import special

from adumbra.accounting import calibrate
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import between, one_of
from adumbra.noise.lattice import compiled

__all__ = [
    "FAMILIES",
    "ApproximateCurve",
    "Curve",
    "GaussianCurve",
    "LaplaceCurve",
    "check_delta",
    "check_family",
    "claimed",
    "refutes",
]

Probability = TypeVar("Probability", float, Reals)

FAMILIES = ("approximate", "gaussian", "laplace")
_LARGE = 700.0  # exponents are clipped here: e^700 is still a float, and no probability is as small as its inverse


@dataclass(frozen=True)
class ApproximateCurve:
    """(epsilon, delta)-privacy in both directions: the curve is three straight lines.

    `loss` is the promise's epsilon; the method of that name answers for any delta.

    >>> curve = ApproximateCurve(1.0, 0.0)
    >>> round(curve.power(0.1), 4), round(curve.needed(0.5), 4), curve.epsilon(0.0)
    (0.2718, 0.1839, 1.0)
    """

    loss: float
    delta: float

    def __post_init__(self) -> None:
        _at_least_zero(epsilon=self.loss)
        check_delta(self.delta)

    def power(self, false_alarms: Probability) -> Probability:
        """Largest P[E | one] that the promise allows when P[E | other] is `false_alarms`."""
        x, growth = _probability(false_alarms), math.exp(min(self.loss, _LARGE))
        rising = np.minimum(growth * x + self.delta, 1 - (1 - self.delta - x) / growth)
        return _like(false_alarms, np.minimum(rising, 1.0))

    def needed(self, power: Probability) -> Probability:
        """Least P[E | other] that the promise allows when P[E | one] is `power`."""
        p, growth = _probability(power), math.exp(min(self.loss, _LARGE))
        least = np.maximum((p - self.delta) / growth, 1 - self.delta - growth * (1 - p))
        return _like(power, np.maximum(least, 0.0))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at this delta that the curve implies; inf below the curve's own delta."""
        check_delta(delta)
        if delta < self.delta:
            return math.inf
        shrunk = 1 - (delta - self.delta) * (1 + math.exp(-self.loss)) / (1 - self.delta)
        return max(0.0, self.loss + math.log(shrunk)) if shrunk > 0 else 0.0


@dataclass(frozen=True)
class GaussianCurve:
    """Gaussian noise on an answer that moves by `mu` deviations: N(mu, 1) against N(0, 1).

    >>> curve = GaussianCurve(1.0)
    >>> round(curve.power(0.05), 4), round(curve.needed(0.5), 4), round(curve.epsilon(1e-5), 2)
    (0.2595, 0.1587, 4.38)
    """

    mu: float

    def __post_init__(self) -> None:
        _at_least_zero(mu=self.mu)

    def power(self, false_alarms: Probability) -> Probability:
        """Largest P[E | one] when P[E | other] is `false_alarms`."""
        return _like(false_alarms, special.ndtr(special.ndtri(_probability(false_alarms)) + self.mu))

    def needed(self, power: Probability) -> Probability:
        """Least P[E | other] when P[E | one] is `power`."""
        return _like(power, special.ndtr(special.ndtri(_probability(power)) - self.mu))

    def epsilon(self, delta: float) -> float:
        """Exact epsilon at this delta, rounded up as a promise is; inf at delta 0 unless mu is 0."""
        return calibrate.eps_for(self.mu, delta)


@dataclass(frozen=True)
class LaplaceCurve:
    """Laplace noise on one number that moves by `loss` scales; a vector's noise can be worse (see Approximate).

    >>> curve = LaplaceCurve(1.0)
    >>> round(curve.power(0.1), 4), round(curve.needed(0.5), 4), round(curve.epsilon(0.1), 4)
    (0.2718, 0.1839, 0.7893)
    """

    loss: float

    def __post_init__(self) -> None:
        _at_least_zero(epsilon=self.loss)

    def power(self, false_alarms: Probability) -> Probability:
        """Largest P[E | one] when P[E | other] is `false_alarms`."""
        x, growth = _probability(false_alarms), math.exp(min(self.loss, _LARGE))
        middle = 1 - 1 / (4 * growth * np.clip(x, 0.5 / growth, 0.5))
        found = np.where(x < 0.5 / growth, growth * x, np.where(x > 0.5, 1 - (1 - x) / growth, middle))
        return _like(false_alarms, found)

    def needed(self, power: Probability) -> Probability:
        """Least P[E | other] when P[E | one] is `power`."""
        p, growth = _probability(power), math.exp(min(self.loss, _LARGE))
        # Exchanged tables have the same curve, so this is the power of the alarm's silence, turned round.
        middle = 1 / (4 * growth * np.clip(1 - p, 0.5 / growth, 0.5))
        found = np.where(p < 0.5, p / growth, np.where(1 - p < 0.5 / growth, 1 - growth * (1 - p), middle))
        return _like(power, found)

    def epsilon(self, delta: float) -> float:
        """Exact epsilon at this delta, `loss` + 2 log(1 - delta)."""
        check_delta(delta)
        return max(0.0, self.loss + 2 * math.log1p(-delta))


Curve: TypeAlias = ApproximateCurve | GaussianCurve | LaplaceCurve


def claimed(family: str, epsilon: float, delta: float) -> Curve:
    """Make the curve of a promise (epsilon, delta) whose noise has the shape `family`.

    >>> claimed("laplace", 1.0, 0.0)
    LaplaceCurve(loss=1.0)
    """
    check_family(family, delta)
    if family == "gaussian":
        return GaussianCurve(calibrate.mu_for(epsilon, delta))
    return LaplaceCurve(epsilon) if family == "laplace" else ApproximateCurve(epsilon, delta)


def check_family(family: str, delta: float) -> None:
    """Refuse an unknown family, and a delta that its promise cannot have."""
    one_of(FAMILIES, family=family)
    check_delta(delta)
    if family == "laplace" and delta > 0:
        raise InputError("delta = 0 for the family laplace", f"delta = {delta:g}", "give delta 0 or another family")
    if family == "gaussian" and delta == 0:
        raise InputError("delta > 0 for the family gaussian", "delta = 0", "give a delta such as 1e-6")


def refutes(curve: Curve, correct: int, guesses: int, canaries: int, significance: float) -> bool:
    """Whether no mechanism under this curve guesses so well with probability `significance` or more.

    `canaries` independent fair coins were hidden, `guesses` of them guessed, `correct` of those right. True says:
    under the curve, P[at least `correct` right] < `significance`. False says nothing.
    """
    if isinstance(curve, GaussianCurve):
        kind, parameter, delta = 1, curve.mu, 0.0
    elif isinstance(curve, LaplaceCurve):
        kind, parameter, delta = 2, curve.loss, 0.0
    else:
        kind, parameter, delta = 0, curve.loss, curve.delta
    if kind != 1 and delta == 0 and correct > 0:
        # A bounded log-ratio: no law of the number of right guesses has a heavier tail than the binomial.
        right = 1 / (1 + math.exp(-min(parameter, _LARGE)))
        if special.betainc(correct, guesses - correct + 1, right) * (1 + 1e-9) < significance:
            return True
    return bool(_overfull(kind, min(parameter, _LARGE), delta, correct, guesses, canaries, significance))


# --- The recursion of docs/proofs/audit-bounds.md, compiled: it takes a step for every right guess. ---


@compiled
def _normal(z: float) -> float:
    """P[N(0, 1) <= z]."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@compiled
def _lower_quantile(q: float, start: float) -> float:
    """z <= 0 with P[N(0, 1) <= z] = q, for 1e-300 <= q <= 1/2, by Newton's steps on log P from near `start`.

    log P is concave, so a tangent meets any level left of the curve: whatever the start, every step ends left of the
    root, and from there the steps rise to it. As P <= exp(-z^2/2)/2, the root is at least `floor`.
    """
    floor = -math.sqrt(max(0.0, -2.0 * math.log(2.0 * q)))
    z = min(max(start, floor), 0.0)
    for _ in range(60):
        below = _normal(z)
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        step = math.log(q / below) * below / density
        z = min(max(z + step, floor), 0.0)
        if abs(step) < 1e-8:  # the next step would be about its square
            break
    return z


@compiled
def _gaussian_needed(power: float, mu: float, start: float) -> tuple[float, float]:
    """Never above the least P[E | other] of the Gaussian curve, and a start for the next quantile."""
    if power < 1e-300:
        return 0.0, start
    if power <= 0.5:
        near = _lower_quantile(power, start)
        z = near
    elif 1.0 - power < 1e-300:
        return _normal(8.0 - mu), start  # a power of 1 needs 1; this is less
    else:
        near = _lower_quantile(1.0 - power, start)
        z = -near
    # Less than the quantile by a thousand times its rounding error, and so is the probability below.
    z -= 1e-13 * (1.0 + abs(z))
    return _normal(z - mu) * (1.0 - 1e-14), near


@compiled
def _approximate_needed(power: float, epsilon: float, delta: float) -> float:
    """Never above the least P[E | other] of (epsilon, delta)."""
    steep = (power - delta - 2e-16 * power) * math.exp(-epsilon) * (1.0 - 1e-14)
    missed = math.exp(epsilon) * (1.0 - power)
    flat = 1.0 - delta - missed - 1e-15 * (1.0 + missed)
    return max(0.0, steep, flat)


@compiled
def _laplace_needed(power: float, epsilon: float) -> float:
    """Never above the least P[E | other] of the scalar Laplace curve."""
    if power < 0.5:
        return power * math.exp(-epsilon) * (1.0 - 1e-14)
    misses = 1.0 - power
    if misses < 0.5 * math.exp(-epsilon):
        missed = math.exp(epsilon) * misses
        return max(0.0, 1.0 - missed - 1e-15 * (1.0 + missed))
    return math.exp(-epsilon) / (4.0 * misses) * (1.0 - 1e-14)


@compiled
def _overfull(
    kind: int, parameter: float, delta: float, correct: int, guesses: int, canaries: int, significance: float
) -> bool:
    """Whether P[at least `correct` right] = `significance` would force a total probability above 1.

    `right` and `wrong` bound the shares of right and wrong guesses on the event "at least j right", j going down.
    """
    share = guesses / canaries
    right = significance * (correct / guesses)
    wrong = significance * (1.0 - correct / guesses)
    start = -40.0
    for j in range(correct, 0, -1):
        if kind == 0:
            needed = _approximate_needed(share * right, parameter, delta)
        elif kind == 1:
            needed, start = _gaussian_needed(share * right, parameter, start)
        else:
            needed = _laplace_needed(share * right, parameter)
        grown = needed / share
        if grown <= wrong:  # then nothing changes any more, down to j = 0
            return False
        right += (j - 1) / (guesses - j + 1) * (grown - wrong)
        wrong = grown
        if right + wrong > 1.0 + 1e-9:  # the sums' own rounding is far below
            return True
    return False


def _probability(value: float | Reals) -> Reals:
    array = np.asarray(value, dtype=np.float64)
    if not bool(np.all((array >= 0) & (array <= 1))):
        raise InputError("probabilities, from 0 to 1", "something else", "give the chance of an event")
    return array


def _like(given: Probability, value: Reals) -> Probability:
    """Give back a float for a float, an array for an array."""
    return value if isinstance(given, np.ndarray) else float(value)


def _at_least_zero(**named: Any) -> None:
    ((name, value),) = named.items()
    if not value >= 0:
        raise InputError(f"{name} >= 0", f"{name} = {value}", "give the parameter of a promise, for example 1.0")


def check_delta(delta: float) -> None:
    """Refuse what is no delta."""
    between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
