"""Noise from promises and promises from noise: mu, epsilon, delta, and the fresh-projection mixture.

Gaussian noise of deviation sigma on an answer of L2 sensitivity s has one number, mu = s / sigma, and
one exact curve delta(epsilon). Everything here is that curve, its inverses and its average over a random
projection. Wherever a number is handed to a promise it is rounded to the safe side: sigma and epsilon up, mu
down. Proofs: docs/proofs/gaussian-calibration.md and docs/proofs/fresh-projection.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import overload

import numpy as np
from scipy import special

from adumbra.accounting.events import FreshProjection
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between, positive

__all__ = [
    "chi2_cells",
    "eps_for",
    "fresh_delta",
    "fresh_sigma_for",
    "gaussian_delta",
    "gaussian_delta_upper",
    "mu_for",
    "paper_lemma4_applies",
    "paper_lemma4_sigma",
    "paper_sigma",
    "smallest",
]


_DELTA_REMEDY = "give a delta above 0 and below 1, for example 1e-6; for delta 0 use Laplace noise"
_TAIL = 1e-20  # chi-square mass that no cell covers; charged as if it revealed everything
_CELLS_PER_DECADE = 200


def _curve(epsilon: float | Reals, mu: float | Reals) -> tuple[Reals, Reals]:
    """delta(epsilon) and a bound on the rounding error of that number.

    With a = mu/2 - epsilon/mu, b = -mu/2 - epsilon/mu the curve is Phi(a) - e^epsilon Phi(b). As
    b^2 - a^2 = 2 epsilon, the ratio of the two terms is erfcx(-b/sqrt 2) / erfcx(-a/sqrt 2): no large
    exponents meet. Negative epsilon (needed when composing) is mirrored into positive.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    m = np.asarray(mu, dtype=np.float64)
    size = np.abs(eps)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = size / m
        a = m / 2 - shift
        head = special.ndtr(a)
        ratio = special.erfcx((m / 2 + shift) / math.sqrt(2)) / special.erfcx(-a / math.sqrt(2))
        value = head * (1 - ratio)
        # First term: erfcx and the subtraction. Second: a itself is rounded, and Phi(a) reacts by |a| to it.
        error = head * 8e-15 + value * (1 + np.abs(a)) * (1 + m + shift) * 1e-15
    value = np.where(head > 0, value, 0.0)
    error = np.where(head > 0, error, 1e-300)
    # mu = inf: the two laws never overlap.
    value, error = np.where(np.isposinf(m), 1.0, value), np.where(np.isposinf(m), 0.0, error)
    value, error = np.where(m > 0, value, 0.0), np.where(m > 0, error, 0.0)
    factor = np.exp(-size)
    mirrored = -np.expm1(-size) + factor * value
    value = np.where(eps < 0, mirrored, value)
    error = np.where(eps < 0, factor * error + 1e-15, error)
    return np.clip(value, 0.0, 1.0), error


@overload
def gaussian_delta(epsilon: float, mu: float) -> float: ...
@overload
def gaussian_delta(epsilon: float | Reals, mu: Reals) -> Reals: ...
def gaussian_delta(epsilon: float | Reals, mu: float | Reals) -> float | Reals:
    """Exact delta at which Gaussian noise with mu = sensitivity / sigma is (epsilon, delta)-private.

    Balle and Wang (2018), Theorem 8. Vectorised; mu = 0 gives 0 (for epsilon >= 0), mu = inf gives 1.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    value, _ = _curve(epsilon, mu)
    return float(value) if value.ndim == 0 else value


@overload
def gaussian_delta_upper(epsilon: float, mu: float) -> float: ...
@overload
def gaussian_delta_upper(epsilon: float | Reals, mu: Reals) -> Reals: ...
def gaussian_delta_upper(epsilon: float | Reals, mu: float | Reals) -> float | Reals:
    """`gaussian_delta` plus a bound on its own rounding error: never below the true curve.

    >>> gaussian_delta_upper(1.0, 1.0) >= gaussian_delta(1.0, 1.0)
    True
    """
    value, error = _curve(epsilon, mu)
    upper = np.minimum(value + error, 1.0)
    return float(upper) if upper.ndim == 0 else upper


def smallest(holds: Callable[[float], bool], start: float, *, relative: float = 1e-13) -> float:
    """Smallest x > 0 at which `holds` (false below some point, true above it); inf if there is none.

    The value returned was itself tested, so it errs upwards by at most `relative`.

    >>> 2.0 <= smallest(lambda x: x * x >= 4.0, 1.0) < 2.0 + 1e-9
    True
    """
    high = start
    while not holds(high):
        high *= 2.0
        if high > 1e200:
            return math.inf
    low = high / 2.0
    while holds(low):
        high, low = low, low / 2.0
        if high < 1e-200:
            return high
    while high - low > relative * high:
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _check_delta(delta: float) -> None:
    between(0.0, 1.0, _DELTA_REMEDY, delta=delta)
    if delta == 0:
        raise InputError("delta > 0 for Gaussian noise", "delta = 0", _DELTA_REMEDY)


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError("epsilon >= 0 and finite", f"epsilon = {epsilon}", "give a finite epsilon, for example 1.0")


@functools.lru_cache(maxsize=256)
def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu that keeps (epsilon, delta), rounded down; sigma = sensitivity / mu.

    >>> round(1 / mu_for(1.0, 1e-5), 2)
    3.73
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    # Smallest multiplier 1/mu, so the tested value is on the safe side. The last factor leaves room for the
    # caller's own division and multiplication by the sensitivity.
    multiplier = smallest(lambda x: gaussian_delta_upper(epsilon, 1.0 / x) <= delta, 1.0)
    return (1.0 - 1e-13) / multiplier


@functools.lru_cache(maxsize=256)
def eps_for(mu: float, delta: float) -> float:
    """Smallest epsilon that Gaussian noise of this mu keeps at delta, rounded up.

    0.0 where delta is met already; inf for delta = 0 (and mu > 0).

    >>> round(eps_for(1.0, 1e-5), 2)
    4.38
    >>> eps_for(1.0, 0.0), eps_for(0.0, 0.0), eps_for(1e-3, 0.01)
    (inf, 0.0, 0.0)
    """
    if math.isnan(mu) or mu < 0:
        raise InputError("mu >= 0", f"mu = {mu}", "give sensitivity / sigma")
    between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
    if mu == 0:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    if gaussian_delta_upper(0.0, mu) <= delta:
        return 0.0
    return smallest(lambda x: gaussian_delta_upper(x, mu) <= delta, 1.0)


@functools.lru_cache(maxsize=64)
def chi2_cells(dimension: int) -> tuple[Reals, Reals, float]:
    """A law above chi2_dimension / dimension: right ends of cells, their masses, the mass past the last one.

    Cells are equal steps of the logarithm of the survival function, because small deltas live in the upper
    tail. Every cell's mass sits at its right end, so the average of any increasing function only grows.

    >>> ends, masses, rest = chi2_cells(4)
    >>> bool(abs(masses.sum() + rest - 1) < 1e-12), rest
    (True, 1e-20)
    """
    decades = round(-math.log10(_TAIL))
    survival = np.logspace(0, -decades, decades * _CELLS_PER_DECADE + 1)
    survival[-1] = _TAIL
    # The quantile routine is good to about 1e-12; the factor moves each end safely past it.
    ends = special.chdtri(dimension, survival[1:]) * (1 + 1e-9) / dimension
    masses = survival[:-1] - survival[1:]
    ends.setflags(write=False)
    masses.setflags(write=False)
    return ends, masses, _TAIL


def fresh_delta(epsilon: float, sigma: float, fresh: FreshProjection) -> float:
    """Upper bound on delta(epsilon) of (R, xR + N(0, sigma^2)) for a fresh Gaussian projection R.

    `sigma` > 0 is the standard deviation of the noise, `epsilon` >= 0; `fresh` has dimension, distance and rounding.
    The average of `gaussian_delta` over c ~ chi2_k at mu = (distance * sqrt(c / k) + rounding) / sigma. Holds
    for a pair of tables fixed before R is drawn; never below 1e-20.

    >>> round(fresh_delta(1.0, 4.32, FreshProjection(16, 1.0, 0.0)), 6)
    1e-05
    """
    _check_epsilon(epsilon)
    positive(sigma=sigma)
    ends, masses, rest = chi2_cells(fresh.dimension)
    mu = (fresh.distance * np.sqrt(ends) + fresh.rounding) / sigma
    total = rest + float(masses @ gaussian_delta_upper(epsilon, mu))
    return min(1.0, total * (1 + 1e-12))


@functools.lru_cache(maxsize=64)
def fresh_sigma_for(epsilon: float, delta: float, dimension: int, distance: float, rounding: float = 0.0) -> float:
    """Smallest sigma, rounded up, that keeps (`epsilon`, `delta`) under the fresh-projection account.

    `dimension` is the number of projected coordinates, `distance` the L2 distance of neighbouring rows, `rounding` what
    the matrix's grid adds to it once projected, 0 for an exact matrix.

    >>> round(fresh_sigma_for(1.0, 1e-5, 16, 1.0), 2)
    4.32
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    at_least(1, "give the number of projected coordinates", dimension=dimension)
    positive("give the largest distance between two neighbouring rows", distance=distance)
    if not (math.isfinite(rounding) and rounding >= 0):
        raise InputError("rounding >= 0 and finite", f"rounding = {rounding}", "give 0 for an exact matrix")
    if delta < 10 * _TAIL:
        raise InputError(f"delta >= {10 * _TAIL:g}", f"delta = {delta:g}", "give a larger delta, for example 1e-12")
    fresh = FreshProjection(dimension, distance, rounding)
    sigma = smallest(lambda s: fresh_delta(epsilon, s, fresh) <= delta, distance + rounding, relative=1e-12)
    return sigma * (1 + 1e-13)


def paper_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """DPPro's own sufficient noise (Theorem 2), kept for comparison; `mu_for` needs less for every epsilon.

    For (`epsilon`, `delta`) with delta below 1/2; `sensitivity` is the L2 sensitivity of the projected rows.

    >>> round(paper_sigma(1.0, 1e-5, 1.0), 3)
    4.862
    """
    positive(epsilon=epsilon)
    positive(sensitivity=sensitivity)
    _check_delta(delta)
    between(0.0, 0.5, "the theorem is stated for delta below 1/2", delta=delta)
    return sensitivity * math.sqrt(2.0 * (math.log(1.0 / (2.0 * delta)) + epsilon)) / epsilon


def paper_lemma4_sigma(epsilon: float, delta: float) -> float:
    """DPPro's noise that does not look at the drawn matrix (Lemma 4); see `paper_lemma4_applies`.

    >>> round(paper_lemma4_sigma(1.0, 1e-5), 2)
    13.57
    """
    positive(epsilon=epsilon)
    _check_delta(delta)
    return 4.0 / epsilon * math.sqrt(math.log(1.0 / delta))


def paper_lemma4_applies(epsilon: float, delta: float, width: int, dimension: int) -> bool:
    """Whether Lemma 4's two conditions hold: enough projected coordinates, and epsilon below ln(1/delta).

    The promise is (`epsilon`, `delta`); the matrix has `width` rows and `dimension` columns.

    >>> paper_lemma4_applies(1.0, 1e-5, 50, 20), paper_lemma4_applies(1.0, 1e-5, 50, 40)
    (False, True)
    """
    positive(epsilon=epsilon)
    _check_delta(delta)
    at_least(1, "give the number of columns", width=width)
    enough = dimension > 2.0 * (math.log(width) + math.log(2.0 / delta))
    return enough and epsilon < math.log(1.0 / delta)
