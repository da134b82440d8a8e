"""Calibration: every number recomputed by other means, and always on the safe side."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.accounting.calibrate import (
    chi2_cells,
    eps_for,
    fresh_delta,
    fresh_sigma_for,
    gaussian_delta,
    gaussian_delta_upper,
    mu_for,
    paper_lemma4_applies,
    paper_lemma4_sigma,
    paper_sigma,
)
from adumbra.accounting.events import FreshProjection
from adumbra.common.errors import InputError

EPSILONS = [0.01, 0.05, 0.2, 1.0, 3.0, 8.0, 20.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-5, 1e-3]


def exact(epsilon: float, mu: float) -> mp.mpf:
    """The curve with 60 digits, straight from its definition."""
    with mp.workdps(60):
        e, m, root = mp.mpf(epsilon), mp.mpf(mu), mp.sqrt(2)
        return mp.erfc((e / m - m / 2) / root) / 2 - mp.exp(e) * mp.erfc((e / m + m / 2) / root) / 2


def exact_mixture(epsilon: float, sigma: float, fresh: FreshProjection) -> float:
    """The fresh-projection curve by quadrature over the chi-square density."""
    k = fresh.dimension

    def integrand(c: mp.mpf) -> mp.mpf:
        density = mp.exp((k / mp.mpf(2) - 1) * mp.log(c) - c / 2 - mp.loggamma(k / mp.mpf(2))) / mp.mpf(2) ** (
            k / mp.mpf(2)
        )
        return density * exact(epsilon, (fresh.distance * mp.sqrt(c / k) + fresh.rounding) / sigma)

    top = k + 20 * math.sqrt(k) + 120
    with mp.workdps(25):
        return float(mp.quad(integrand, [mp.mpf(10) ** -9, *np.linspace(0, top, 9)[1:]]))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, *EPSILONS, 100.0, 1000.0])
@pytest.mark.parametrize("delta", [*DELTAS, 0.1, 0.9])
def test_mu_keeps_the_promise_and_wastes_nothing(epsilon: float, delta: float) -> None:
    achieved = exact(epsilon, mu_for(epsilon, delta))
    assert achieved <= delta
    assert achieved >= delta * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_agrees_with_an_independent_library(epsilon: float, delta: float) -> None:
    assert 1 / mu_for(epsilon, delta) == pytest.approx(gaussian_mechanism.get_sigma_gaussian(epsilon, delta), rel=1e-7)


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 0.01, 0.3, 1.0, 5.0, 50.0, 1e3, 1e4])
@pytest.mark.parametrize("delta", [1e-100, 1e-20, *DELTAS, 0.1, 0.5, 0.999])
def test_epsilon_is_met_and_not_wasted(mu: float, delta: float) -> None:
    epsilon = eps_for(mu, delta)
    achieved = exact(epsilon, mu)
    assert achieved <= delta
    assert epsilon == 0.0 or achieved >= delta * (1 - 1e-5)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_agrees_with_an_independent_library(mu: float, delta: float) -> None:
    expected = gaussian_mechanism.get_epsilon_gaussian(1 / mu, delta)
    assert eps_for(mu, delta) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=300, deadline=None)
@given(log_mu=st.floats(-6, 4), a=st.floats(-30, 6))
def test_the_upper_curve_is_above_the_true_one(log_mu: float, a: float) -> None:
    mu = 10.0**log_mu
    epsilon = abs((mu / 2 - a) * mu)
    truth = exact(epsilon, mu)
    assert gaussian_delta_upper(epsilon, mu) >= truth
    assert abs(gaussian_delta(epsilon, mu) - truth) <= max(1e-13, 1e-9 * float(truth))


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(1e-3, 50), mu=st.floats(1e-3, 50))
def test_negative_epsilon_mirrors_the_curve(epsilon: float, mu: float) -> None:
    assert gaussian_delta(-epsilon, mu) == pytest.approx(float(exact(-epsilon, mu)), abs=1e-13)
    assert gaussian_delta_upper(-epsilon, mu) >= exact(-epsilon, mu) - mp.mpf(10) ** -16


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(0.01, 20),
    more=st.floats(1.001, 3),
    log_delta=st.floats(-12, -3),
)
def test_monotone(epsilon: float, more: float, log_delta: float) -> None:
    delta = 10.0**log_delta
    mu = mu_for(epsilon, delta)
    assert mu_for(epsilon * more, delta) > mu
    assert mu_for(epsilon, delta * more) > mu
    assert eps_for(mu * more, delta) > eps_for(mu, delta)
    assert gaussian_delta(epsilon, mu * more) > gaussian_delta(epsilon, mu)
    assert eps_for(mu, delta) == pytest.approx(epsilon, rel=1e-7)


def test_edges() -> None:
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_delta(-1.0, 0.0) == pytest.approx(1 - math.exp(-1))
    assert gaussian_delta(1e3, 1e-320) == 0.0
    assert gaussian_delta(0.0, 1.0) == pytest.approx(math.erf(1 / math.sqrt(8)))
    np.testing.assert_array_equal(gaussian_delta(1.0, np.array([0.0, math.inf])), [0.0, 1.0])
    assert eps_for(0.0, 0.0) == 0.0
    assert eps_for(1.0, 0.0) == math.inf
    assert eps_for(math.inf, 1e-6) == math.inf
    assert eps_for(1e-9, 1e-6) == 0.0
    assert mu_for(0.0, 1e-6) > 0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_delta_without_meaning(delta: float) -> None:
    for call in (mu_for, paper_lemma4_sigma):
        with pytest.raises(InputError):
            call(1.0, delta)
    with pytest.raises(InputError):
        fresh_sigma_for(1.0, delta, 4, 1.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_epsilon_without_meaning(epsilon: float) -> None:
    with pytest.raises(InputError):
        mu_for(epsilon, 1e-6)
    with pytest.raises(InputError):
        fresh_sigma_for(epsilon, 1e-6, 4, 1.0)


@pytest.mark.parametrize(
    ("dimension", "distance", "rounding", "delta"),
    [(0, 1.0, 0.0, 1e-6), (4, 0.0, 0.0, 1e-6), (4, 1.0, -1.0, 1e-6), (4, 1.0, 0.0, 1e-25)],
)
def test_a_projection_without_meaning(dimension: int, distance: float, rounding: float, delta: float) -> None:
    with pytest.raises(InputError):
        fresh_sigma_for(1.0, delta, dimension, distance, rounding)


# --- the fresh-projection mixture -------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 16, 300, 20000])
def test_the_cells_lie_above_chi_square(dimension: int) -> None:
    ends, masses, rest = chi2_cells(dimension)
    assert np.all(np.diff(ends) > 0)
    left = 1.0 - np.cumsum(masses)
    for place in (0, 3, 50, 200, 399):
        with mp.workdps(40):
            tail = mp.gammainc(mp.mpf(dimension) / 2, mp.mpf(float(ends[place])) * dimension / 2, regularized=True)
        assert tail <= left[place] * (1 + 1e-12)
        assert tail >= left[place] * (1 - 1e-5)
    with mp.workdps(40):
        past = mp.gammainc(mp.mpf(dimension) / 2, mp.mpf(float(ends[-1])) * dimension / 2, regularized=True)
    assert past <= rest


@pytest.mark.parametrize(
    ("epsilon", "delta", "dimension", "rounding"),
    [(0.1, 1e-3, 1, 0.0), (1.0, 1e-6, 4, 0.0), (1.0, 1e-12, 16, 0.02), (8.0, 1e-9, 40, 0.0), (20.0, 1e-5, 2, 0.1)],
)
def test_the_mixture_against_quadrature(epsilon: float, delta: float, dimension: int, rounding: float) -> None:
    sigma = fresh_sigma_for(epsilon, delta, dimension, 2.0, rounding)
    truth = exact_mixture(epsilon, sigma, FreshProjection(dimension, 2.0, rounding))
    assert truth <= delta
    assert truth >= 0.97 * delta


def test_the_mixture_against_simulated_projections() -> None:
    """Draw real matrices, project a real change, and average the privacy loss itself."""
    rng = np.random.default_rng(5)
    draws, width, dimension, sigma, epsilon = 200_000, 3, 4, 1.5, 0.7
    change = np.array([0.6, -0.64, 0.48])  # length 1
    matrices = rng.normal(0.0, math.sqrt(1 / dimension), (draws, width, dimension))
    mu = np.linalg.norm(np.einsum("j,ijk->ik", change, matrices), axis=1) / sigma
    loss = mu**2 / 2 + mu * rng.normal(size=draws)
    samples = np.where(loss > epsilon, -np.expm1(epsilon - loss), 0.0)
    claimed = fresh_delta(epsilon, sigma, FreshProjection(dimension, float(np.linalg.norm(change)), 0.0))
    error = samples.std() / math.sqrt(draws)
    assert samples.mean() - 4 * error <= claimed <= samples.mean() * 1.03 + 4 * error


@pytest.mark.parametrize("epsilon", [1e-3, *EPSILONS, 1000.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_fresh_noise_over_the_whole_range(epsilon: float, delta: float) -> None:
    plain = 1 / mu_for(epsilon, delta)
    few, many = (fresh_sigma_for(epsilon, delta, k, 1.0) for k in (8, 100_000))
    if epsilon >= 10 * delta:  # else the curve bends the other way and averaging over the matrix helps
        assert few > many > plain
    assert many < 1.02 * plain
    assert fresh_delta(epsilon, few, FreshProjection(8, 1.0, 0.0)) <= delta
    assert fresh_sigma_for(epsilon, delta, 8, 3.0) == pytest.approx(3 * few, rel=1e-9)
    assert fresh_sigma_for(epsilon, delta, 8, 1.0, 0.01) > few


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.01, 20),
    sigma=st.floats(0.3, 30),
    dimension=st.integers(1, 200),
    more=st.floats(1.01, 2),
)
def test_the_mixture_is_monotone(epsilon: float, sigma: float, dimension: int, more: float) -> None:
    base = fresh_delta(epsilon, sigma, FreshProjection(dimension, 1.0, 0.0))
    assert fresh_delta(epsilon, sigma, FreshProjection(dimension, more, 0.0)) >= base
    assert fresh_delta(epsilon, sigma, FreshProjection(dimension, 1.0, 0.01)) >= base
    assert fresh_delta(epsilon * more, sigma, FreshProjection(dimension, 1.0, 0.0)) <= base
    assert fresh_delta(epsilon, sigma * more, FreshProjection(dimension, 1.0, 0.0)) <= base


# --- the paper's own formulas -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "epsilon", "expected"), [(1e-4, 0.1, 41.51), (1e-5, 1.0, 4.862), (1e-5, 8.0, 0.767), (1e-6, 1.0, 5.315)]
)
def test_the_papers_theorem_2(delta: float, epsilon: float, expected: float) -> None:
    assert paper_sigma(epsilon, delta, 1.0) == pytest.approx(expected, rel=1e-3)
    assert paper_sigma(epsilon, delta, 3.0) == pytest.approx(3 * paper_sigma(epsilon, delta, 1.0))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_papers_theorem_2_is_sound_and_loose(epsilon: float, delta: float) -> None:
    assert exact(epsilon, 1 / paper_sigma(epsilon, delta, 1.0)) < delta
    assert paper_sigma(epsilon, delta, 1.0) > 1 / mu_for(epsilon, delta)


def test_the_papers_lemma_4() -> None:
    assert paper_lemma4_sigma(1.0, 1e-5) == pytest.approx(13.57, rel=1e-3)
    assert not paper_lemma4_applies(1.0, 1e-5, 50, 32)
    assert paper_lemma4_applies(1.0, 1e-5, 50, 33)
    assert not paper_lemma4_applies(12.0, 1e-5, 50, 33)
    with pytest.raises(InputError):
        paper_sigma(1.0, 0.6, 1.0)
