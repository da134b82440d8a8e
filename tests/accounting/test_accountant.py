"""Accounting: against exact formulas, an independent library, and simulation; never below the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from adumbra.accounting.accountant import delta_of, epsilon_of, mu_of
from adumbra.accounting.calibrate import eps_for, fresh_delta, fresh_sigma_for, gaussian_delta, mu_for
from adumbra.accounting.events import Event, FreshProjection
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours

ROW = Neighbours.parse("row/replace")
CELL = Neighbours.parse("cell/replace")
EPSILONS = [0.01, 0.1, 1.0, 5.0, 20.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-3]


def gaussian(mu: float, slack: float = 0.0) -> Event:
    return Event("gaussian", 2.0, {"row/replace": 2.0 * mu}, slack=slack)


def laplace(epsilon: float, slack: float = 0.0) -> Event:
    return Event("laplace", 0.5, {"row/replace": 0.5 * epsilon}, slack=slack)


def projected(dimension: int, sigma: float, rounding: float = 0.0, matrix: float = 50.0) -> Event:
    """A fresh projection of a row that moves by 1, whose own matrix could stretch it to `matrix`."""
    return Event("gaussian", sigma, {"row/replace": matrix}, {"row/replace": FreshProjection(dimension, 1.0, rounding)})


def exact(epsilon: float, mu: float) -> mp.mpf:
    with mp.workdps(50):
        e, m, root = mp.mpf(epsilon), mp.mpf(mu), mp.sqrt(2)
        return mp.erfc((e / m - m / 2) / root) / 2 - mp.exp(e) * mp.erfc((e / m + m / 2) / root) / 2


def with_responses(epsilon: float, costs: list[float], curve: Callable[[float], mp.mpf | float]) -> mp.mpf:
    """Compose a curve with randomised responses by going through every outcome."""
    total = mp.mpf(0)
    with mp.workdps(50):
        for signs in itertools.product((1, -1), repeat=len(costs)):
            weight, loss = mp.mpf(1), 0.0
            for sign, cost in zip(signs, costs, strict=True):
                weight *= 1 / (1 + mp.exp(-sign * mp.mpf(cost)))
                loss += sign * cost
            total += weight * curve(epsilon - loss)
    return total


# --- one kind of noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_answers_compose_as_one(epsilon: float, delta: float) -> None:
    mu = mu_for(epsilon, delta)
    parts = [gaussian(mu * math.sqrt(share)) for share in (0.5, 0.3, 0.2)]
    spent = epsilon_of(parts, ROW, delta)
    assert spent == pytest.approx(epsilon, rel=1e-7)
    assert exact(spent, math.sqrt(sum((e.sensitivity["row/replace"] / e.scale) ** 2 for e in parts))) <= delta
    assert mu_of(parts, ROW) == pytest.approx(mu, rel=1e-12)
    assert delta_of(parts, ROW, epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_gaussian_answers_against_an_independent_library(mu: float, delta: float) -> None:
    other = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=mu * 1e-3).self_compose(3)
    ours = epsilon_of([gaussian(mu)] * 3, ROW, delta)
    assert ours == pytest.approx(other.get_epsilon_for_delta(delta), rel=2e-3, abs=1e-6)


def test_laplace_answers_add_up_at_delta_zero() -> None:
    assert epsilon_of([laplace(0.25), laplace(0.5)], ROW, 0.0) == 0.75
    assert delta_of([laplace(0.25), laplace(0.5)], ROW, 0.75) == 0.0
    assert delta_of([laplace(0.25), laplace(0.5)], ROW, 0.74) > 0.0
    assert mu_of([laplace(0.25)], ROW) is None


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("costs", [[1.0], [0.3, 0.5, 0.9], [0.1] * 8, [2.0] * 5])
def test_laplace_answers_never_cost_more_than_their_sum(costs: list[float], delta: float) -> None:
    events = [laplace(cost) for cost in costs]
    spent = epsilon_of(events, ROW, delta)
    assert spent <= sum(costs) * (1 + 1e-12)
    truth = with_responses(spent, costs, lambda e: max(0.0, -math.expm1(e)))
    assert truth <= delta * (1 + 1e-9)
    assert spent == pytest.approx(sum(costs), rel=1e-9) or truth >= 0.9 * delta


def test_many_laplace_answers_against_an_independent_library() -> None:
    cost = 0.1
    response = pld.from_randomized_response(2 / (1 + math.exp(cost)), 2, value_discretization_interval=1e-3)
    other = response.self_compose(200)
    for delta in (1e-3, 1e-6, 1e-9):
        ours = epsilon_of([laplace(cost)] * 200, ROW, delta)
        assert ours < 20.0
        # the library rounds a loss of 0.1 up by at most 1e-3
        assert other.get_epsilon_for_delta(delta) * 0.97 <= ours <= other.get_epsilon_for_delta(delta) * 1.01


# --- mixed kinds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    ("mu", "costs"), [(0.005, [0.005]), (0.3, [0.5]), (1.0, [0.2, 0.3, 1.0]), (5.0, [5.0]), (2.0, [12.0, 0.1])]
)
def test_gaussian_with_laplace_is_exact(mu: float, costs: list[float], delta: float) -> None:
    events = [gaussian(mu), *(laplace(cost) for cost in costs)]
    spent = epsilon_of(events, ROW, delta)
    truth = with_responses(spent, costs, lambda e: exact(e, mu))
    assert truth <= delta
    assert truth >= delta * (1 - 1e-5)
    assert delta_of(events, ROW, spent) <= delta
    assert mu_of(events, ROW) is None


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("mu", "cost"), [(0.01, 0.02), (0.5, 0.5), (3.0, 4.0)])
def test_gaussian_with_laplace_against_an_independent_library(mu: float, cost: float, delta: float) -> None:
    step = min(mu, cost) * 1e-3
    noise = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
    response = pld.from_randomized_response(2 / (1 + math.exp(cost)), 2, value_discretization_interval=step)
    expected = noise.compose(response).get_epsilon_for_delta(delta)
    ours = epsilon_of([gaussian(mu), laplace(cost)], ROW, delta)
    assert ours == pytest.approx(expected, rel=3e-3)


@pytest.mark.parametrize("delta", DELTAS)
def test_huge_costs_stay_finite_and_sound(delta: float) -> None:
    spent = epsilon_of([gaussian(50.0), laplace(2000.0)], ROW, delta)
    assert spent == pytest.approx(2000.0 + eps_for(50.0, delta), rel=1e-6)
    assert epsilon_of([gaussian(1e4), laplace(1e5)], ROW, delta) == pytest.approx(1e5 + eps_for(1e4, delta), rel=1e-6)
    many = [gaussian(1.0)] * 500 + [laplace(4.0)] * 500
    assert epsilon_of(many, ROW, delta) <= 2000.0 + eps_for(math.sqrt(500), delta) + 1e-6
    fresh = projected(16, 0.02)
    assert epsilon_of([fresh, laplace(2000.0)], ROW, delta) > 2000.0
    assert math.isfinite(epsilon_of([fresh, laplace(2000.0)], ROW, delta))


def test_mixed_against_simulation() -> None:
    """Draw the privacy loss of one fresh projection, one Gaussian and two Laplace answers."""
    rng = np.random.default_rng(11)
    draws, epsilon = 400_000, 2.0
    events = [projected(6, 1.8), gaussian(0.4), laplace(0.6), laplace(0.3)]
    mu = np.sqrt(rng.chisquare(6, draws) / 6 / 1.8**2 + 0.4**2)
    loss = mu**2 / 2 + mu * rng.normal(size=draws)
    for cost in (0.6, 0.3):
        loss += np.where(rng.random(draws) < special.expit(cost), cost, -cost)
    samples = np.where(loss > epsilon, -np.expm1(epsilon - loss), 0.0)
    error = samples.std() / math.sqrt(draws)
    claimed = delta_of(events, ROW, epsilon)
    assert samples.mean() - 4 * error <= claimed <= samples.mean() * 1.05 + 4 * error


# --- fresh projections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_fresh_projection_alone_costs_what_it_was_calibrated_to(epsilon: float, delta: float) -> None:
    sigma = fresh_sigma_for(epsilon, delta, 12, 1.0, 1e-4)
    event = projected(12, sigma, 1e-4)
    assert epsilon_of([event], ROW, delta) == pytest.approx(epsilon, rel=1e-8)
    assert delta_of([event], ROW, epsilon) == pytest.approx(
        fresh_delta(epsilon, sigma, event.fresh["row/replace"]), rel=1e-6
    )
    assert mu_of([event], ROW) is None


def test_a_fresh_projection_is_always_averaged() -> None:
    """Lucky, typical or poor: the account never looks at the matrix that came out."""
    events = [projected(12, 4.0, matrix=stretch) for stretch in (0.8, 1.3, 30.0)]
    assert len({epsilon_of([event], ROW, 1e-6) for event in events}) == 1
    assert epsilon_of(events, ROW, 1e-6) == epsilon_of([events[0]] * 3, ROW, 1e-6)


def test_freshness_for_other_neighbours_does_not_count() -> None:
    event = Event(
        "gaussian",
        4.0,
        {"row/replace": 30.0, "cell/replace": 2.0},
        {"row/replace": FreshProjection(12, 1.0, 0.0)},
    )
    assert epsilon_of([event], CELL, 1e-6) == eps_for(0.5, 1e-6)
    assert mu_of([event], CELL) == 0.5


@pytest.mark.parametrize("delta", DELTAS)
def test_two_equal_projections_are_one_of_twice_the_dimension(delta: float) -> None:
    """chi2_k + chi2_k = chi2_2k, so the truth is a single integral."""
    sigma = fresh_sigma_for(1.0, delta, 8, 1.0)
    spent = epsilon_of([projected(8, sigma)] * 2, ROW, delta)

    def integrand(c: float) -> float:
        return float(stats.chi2.pdf(c, 16)) * gaussian_delta(spent, math.sqrt(c / 8) / sigma)

    truth = integrate.quad(integrand, 0, 300, points=[5, 15, 30, 60, 100, 150], epsabs=0, epsrel=1e-9, limit=400)[0]
    assert truth <= delta
    assert truth >= 0.9 * delta


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("costs", [[], [0.4]])
def test_two_unequal_projections_against_direct_integration(delta: float, costs: list[float]) -> None:
    one, two = projected(4, 6.0), projected(30, 3.0, 0.05)
    spent = epsilon_of([one, two, *(laplace(cost) for cost in costs)], ROW, delta)
    nodes, weights = special.roots_legendre(400)
    first, second = 60.0 * (nodes + 1), 100.0 * (nodes + 1)
    density = np.outer(60.0 * weights * stats.chi2.pdf(first, 4), 100.0 * weights * stats.chi2.pdf(second, 30))
    mu = np.sqrt((first / 4 / 36)[:, None] + ((np.sqrt(second / 30) + 0.05) / 3)[None, :] ** 2)

    truth = with_responses(spent, costs, lambda e: float((density * gaussian_delta(e, mu)).sum()))
    assert truth <= delta * (1 + 1e-6)
    assert truth >= 0.9 * delta


def test_two_projections_against_an_independent_library() -> None:
    """Build the mixture's loss distribution as a table and let the other library compose it."""
    step, dimension, sigma = 2e-3, 8, 3.0
    edges = np.arange(-2000, 6001) * step
    nodes, weights = special.roots_legendre(200)
    c = 60.0 * (nodes + 1)
    mass = 60.0 * weights * stats.chi2.pdf(c, dimension)
    mu = np.sqrt(c / dimension) / sigma
    below = special.ndtr((edges[:, None] - mu**2 / 2) / mu) @ mass
    table = {int(i): float(p) for i, p in zip(range(-1999, 6001), np.diff(below), strict=True) if p > 0}
    single = pld.PrivacyLossDistribution.create_from_rounded_probability(table, 0.0, step)
    double = single.compose(single)
    for delta in (1e-3, 1e-5, 1e-7, 1e-9):
        ours = epsilon_of([projected(dimension, sigma)] * 2, ROW, delta)
        assert ours == pytest.approx(double.get_epsilon_for_delta(delta), abs=2 * step + 0.003 * ours)


def test_the_tail_of_a_projection_that_no_cell_covers_is_charged() -> None:
    assert delta_of([projected(4, 1.0)], ROW, 1000.0) >= 1e-20
    assert delta_of([projected(4, 1.0)] * 2, ROW, 1000.0) >= 2e-20


def test_many_projections_stay_close_to_the_truth() -> None:
    sigma, count, delta = 20.0, 20, 1e-6
    spent = epsilon_of([projected(8, sigma)] * count, ROW, delta)

    def integrand(c: float) -> float:
        return float(stats.chi2.pdf(c, 8 * count)) * gaussian_delta(spent, math.sqrt(c / 8) / sigma)

    truth = integrate.quad(integrand, 0, 600, points=[100, 160, 220, 300, 400], epsabs=0, limit=400)[0]
    assert 0.85 * delta <= truth <= delta


# --- rules ------------------------------------------------------------------------------------------------


def test_no_bound_costs_everything_and_no_effect_costs_nothing() -> None:
    silent = Event("gaussian", 1.0, {"row/replace": 0.0}, slack=0.5)
    assert epsilon_of([], ROW, 0.0) == 0.0
    assert epsilon_of([silent], ROW, 0.0) == 0.0
    assert delta_of([silent], ROW, 0.0) == 0.0
    assert mu_of([], ROW) == 0.0
    for events in ([gaussian(1.0)], [laplace(1.0)], [silent, laplace(1.0)]):
        assert epsilon_of(events, CELL, 1e-6) == math.inf
        assert delta_of(events, CELL, 100.0) == 1.0
        assert mu_of(events, CELL) is None
    assert epsilon_of([silent, gaussian(1.0)], ROW, 1e-6) == epsilon_of([gaussian(1.0)], ROW, 1e-6)
    assert epsilon_of([gaussian(1.0)], ROW, 0.0) == math.inf
    assert epsilon_of([projected(4, 1.0), laplace(1.0)], ROW, 0.0) == math.inf


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("events", [[gaussian(0.5)], [laplace(1.0)], [gaussian(0.5), laplace(1.0), laplace(0.2)]])
def test_sampler_slack_is_paid_for(events: list[Event], delta: float) -> None:
    slack = delta / 100
    slacked = [Event(e.noise, e.scale, e.sensitivity, slack=slack / len(events)) for e in events]
    clean, spent = epsilon_of(events, ROW, delta), epsilon_of(slacked, ROW, delta)
    assert spent > clean
    assert spent == pytest.approx(clean, rel=0.2)
    left = delta - (1 + math.exp(spent)) * slack
    assert epsilon_of(events, ROW, left) <= spent * (1 + 1e-5)
    assert delta_of(slacked, ROW, 1.0) == pytest.approx(delta_of(events, ROW, 1.0) + (1 + math.e) * slack)
    assert delta_of(slacked, ROW, spent) <= delta * (1 + 1e-9)
    assert delta_of(slacked, ROW, 0.99 * spent) > delta


def test_slack_that_delta_cannot_cover() -> None:
    assert epsilon_of([gaussian(0.5, slack=1e-6)], ROW, 1e-6) == math.inf
    assert epsilon_of([laplace(0.5, slack=1e-9)], ROW, 0.0) == math.inf
    assert epsilon_of([gaussian(40.0, slack=1e-15)], ROW, 1e-6) == math.inf  # e^epsilon is past all bounds
    assert delta_of([gaussian(0.5, slack=1e-15)], ROW, 5000.0) == 1.0
    assert math.isfinite(epsilon_of([gaussian(0.5, slack=1e-15)], ROW, 1e-6))


@pytest.mark.parametrize(
    "event",
    [
        Event("gaussian", math.nan, {"row/replace": 1.0}),
        Event("gaussian", 0.0, {"row/replace": 1.0}),
        Event("gaussian", 1.0, {"row/replace": math.nan}),
        Event("gaussian", 1.0, {"row/replace": -1.0}),
        Event("laplace", 1.0, {"row/replace": math.inf}),
        Event("laplace", 1.0, {"row/replace": 1.0}, slack=math.nan),
        Event("gaussian", 1.0, {"row/replace": 1.0}, {"row/replace": FreshProjection(4, math.nan, 0.0)}),
        Event("gaussian", 1.0, {"row/replace": 1.0}, {"row/replace": FreshProjection(0, 1.0, 0.0)}),
        Event("cauchy", 1.0, {"row/replace": 1.0}),  # type: ignore[arg-type]
    ],
)
def test_numbers_without_meaning_are_refused(event: Event) -> None:
    for ask in (
        lambda: epsilon_of([event], ROW, 1e-6),
        lambda: delta_of([event], ROW, 1.0),
        lambda: mu_of([event], ROW),
    ):
        with pytest.raises(InputError):
            ask()


def test_questions_without_meaning_are_refused() -> None:
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(InputError):
            epsilon_of([gaussian(1.0)], ROW, delta)
    for epsilon in (-1.0, math.nan):
        with pytest.raises(InputError):
            delta_of([gaussian(1.0)], ROW, epsilon)


ANY_EVENT = st.one_of(
    st.builds(gaussian, st.floats(0.01, 5.0)),
    st.builds(laplace, st.floats(0.01, 5.0)),
    st.builds(
        projected, st.sampled_from([2, 16]), st.floats(0.3, 20.0), st.just(0.0), st.sampled_from([0.9, 2.0, 50.0])
    ),
)


@settings(max_examples=20, deadline=None)
@given(events=st.lists(ANY_EVENT, min_size=1, max_size=4), more=ANY_EVENT, log_delta=st.floats(-12, -3))
def test_more_answers_never_cost_less(events: list[Event], more: Event, log_delta: float) -> None:
    delta = 10.0**log_delta
    spent = epsilon_of(events, ROW, delta)
    assert epsilon_of([*events, more], ROW, delta) >= spent * (1 - 1e-2)  # the laws are rounded up, unevenly
    assert epsilon_of(events, ROW, delta * 2) <= spent * (1 + 1e-9)
    assert delta_of(events, ROW, spent) <= delta * (1 + 1e-9)
    assert epsilon_of(events[::-1], ROW, delta) == pytest.approx(spent, rel=1e-2)
