"""How far an answer can be off: the least eta that is proved, with P(|error| >= eta) <= mu.

The error of a query is <v, noise>, noise of one law on every number measured. Of v only two things are used, its
length g and its largest entry a; what is proved holds for every such v (docs/proofs/usefulness.md; the bounds are the
house's own, from a Gaussian mixture of the Laplace law). Noise is on a grid: the little by which that differs from
noise on the real line is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import gammaincc, ndtri

from adumbra.common.types import Reals
from adumbra.common.validation import between

__all__ = [
    "SMALLEST_MU",
    "checked_mu",
    "gaussian_eta",
    "l2_laplace_eta",
    "laplace_eta",
    "likely_square",
    "normal_eta",
]


SMALLEST_MU = 1e-9
_FOR_THE_GRID = 1e-3
"""Share of mu that goes to the difference between the grid and the real line."""
_BEND = 1.0 / 3.0
"""Where P(|sqrt(u) Z| > 1), Z normal, turns from convex in u to concave; beyond it a tangent takes its place."""
_AT_BEND = 2.0 * math.exp(-1.5) * math.sqrt(27.0) / math.sqrt(8.0 * math.pi)
"""Slope of that tangent."""
_FINE = 0.01
"""Relative width of a step of the sums below, all of which err upwards."""
_WHOLE = 32
"""Up to here the number of equal terms is taken in eighths, beyond in steps of 1 %; rounded up."""


def checked_mu(mu: float) -> float:
    """Refuse a mu that is no probability, or too small to be worth a statement."""
    return between(SMALLEST_MU, 1.0, "for example, give --mu 0.05: the share of answers that may be further off", mu=mu)


def normal_eta(error: Reals, mu: float) -> Reals:
    """The quantile of a normal error of this standard deviation."""
    return np.asarray(error * -float(ndtri(mu / 2.0)))


def gaussian_eta(length: Reals, sigma: float, step: float, mu: float) -> Reals:
    """For Gaussian noise of standard deviation `sigma` on each number, rounded to multiples of `step`.

    `length` is |v| of each query, and `mu` the probability of a larger error. Exact but for the grid, which a
    Hoeffding bound on the rounding errors covers.
    """
    grid = step * math.sqrt(math.log(2.0 / (_FOR_THE_GRID * mu)) / 2.0)
    return normal_eta(length * sigma, mu * (1.0 - _FOR_THE_GRID)) + length * grid


def laplace_eta(length: Reals, largest: Reals, scale: float, step: float, mu: float) -> Reals:
    """For noise of whole steps with P(x) ~ exp(-|x| step / scale) on each number; `scale` and `step` are in counts.

    `length` is |v| of each query and `largest` its largest entry; `mu` is the probability of a larger error.
    Exact, but for the grid, where a single number enters (g = a); a few per cent above the worst v otherwise. An error
    that is always 0 has eta 0.
    """
    out = np.zeros(len(length))
    some = largest > 0.0
    ratio = np.square(length[some] / largest[some])
    nodes = _rounded_up(np.maximum(ratio, 1.0))
    distinct, place = np.unique(nodes, return_inverse=True)
    grid = step * math.sqrt(math.log(2.0 / (_FOR_THE_GRID * mu)))
    units = np.array([_worst_sum(float(node), mu * (1.0 - _FOR_THE_GRID)) for node in distinct])
    out[some] = largest[some] * scale * units[place] + length[some] * grid
    return out


def l2_laplace_eta(length: Reals, scale: float, numbers: int, mu: float) -> Reals:
    """For a vector of `numbers` whole steps whose likelihood falls like exp(-|x| step / scale). By Chernoff's bound."""
    tilt = np.geomspace(1e-9, 1.0 - 1e-9, 20_001)
    bounds = (math.log(2.0 / mu) - (numbers + 1) / 2.0 * np.log1p(-np.square(tilt))) / tilt
    return np.asarray(length * (scale * float(bounds.min())))


def likely_square(seen: float, error: float) -> float:
    """Posterior mean of x^2 given `seen`, a noisy observation of x of standard `error`, under a flat prior on x >= 0.

    The unbiased estimate seen^2 - error^2 is often clipped to 0, which would make error bars too short.
    """
    if error <= 0.0:
        return seen * seen
    z = max(seen / error, -8.0)
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    return error * error * (1.0 + z * z + z * density / _upper_normal(-z))


def _rounded_up(ratio: Reals) -> Reals:
    """g^2 / a^2 on a coarse scale: more of it means a longer eta, so up is safe. Rounding of floats is let go."""
    fine = np.ceil(ratio * 8.0 * (1.0 - 1e-9)) / 8.0
    levels = np.ceil(np.log(np.maximum(ratio, _WHOLE) / _WHOLE) / math.log(1.01) - 1e-6)
    return np.where(ratio <= _WHOLE, np.maximum(fine, 1.0), np.ceil(_WHOLE * 1.01**levels))


@lru_cache(maxsize=4096)
def _worst_sum(ratio: float, mu: float) -> float:
    """Eta for all v with largest entry 1 and squared length `ratio`, and noise of scale 1."""
    if ratio == 1.0:  # a single number
        return -math.log(mu)
    terms = math.floor(ratio)
    more = ratio - terms

    def tail(eta: float) -> float:
        found = (1.0 - more) * _tail(terms, eta, mu)
        return found + more * _tail(terms + 1, eta, mu) if more else found

    # the standard deviation is sqrt(2 ratio), and an error of one number alone has the quantile -ln(mu)
    return _root(tail, math.sqrt(2.0 * ratio) * -float(ndtri(mu / 2.0)), mu)


def _tail(terms: int, eta: float, mu: float) -> float:
    """At least E h(2 G / eta^2), G of the Gamma law of shape `terms`: P(|sum of so many| >= eta) is at most that."""
    places, weights, rest = _steps_of(mu)
    half = eta * eta / 2.0
    bend = half * _BEND
    above = terms / half * float(gammaincc(terms + 1, bend)) - _BEND * float(gammaincc(terms, bend))
    return rest + float(weights @ gammaincc(terms, half * places)) + _AT_BEND * max(above, 0.0)


@lru_cache(maxsize=64)
def _steps_of(mu: float) -> tuple[Reals, Reals, float]:
    """Where h(u) = P(|sqrt(u) Z| > 1) takes its steps below the bend, how high they are, and what lies below all."""
    top = 2.0 * float(_upper_normal(math.sqrt(1.0 / _BEND)))
    least = _FOR_THE_GRID * min(mu, top)
    heights = np.geomspace(least, top, math.ceil(math.log(top / least) / math.log1p(_FINE)) + 1)
    # each step counts from its lower end, where the chance to be beyond is larger
    return 1.0 / np.square(ndtri(heights[:-1] / 2.0)), np.diff(heights), least


def _upper_normal(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _root(tail: Callable[[float], float], start: float, mu: float) -> float:
    """Where a falling tail reaches mu, from above, to one part in ten thousand."""
    low = high = start
    while tail(high) > mu:
        low, high = high, high * 1.25
    while tail(low) <= mu:
        low, high = low / 1.25, low
    left, right = math.log(tail(low) / mu), math.log(tail(high) / mu)
    while high > low * 1.0001:
        # where the straight line between the ends is 0, but never too near to one of them
        guess = low + (high - low) * min(max(left / (left - right), 0.02), 0.98)
        value = math.log(tail(guess) / mu)
        if value > 0.0:
            low, left = guess, value
        else:
            high, right = guess, value
    return high
