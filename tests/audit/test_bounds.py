"""Lower bounds on epsilon: they come near a known epsilon, and exceed it no more often than their confidence says.

Laws with a known curve stand in for mechanisms: Gaussian, Laplace, randomised response, and randomised response that
now and then gives everything away. Scores are log-likelihood ratios. Every draw has a fixed seed.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import linprog

from adumbra.accounting import calibrate
from adumbra.audit import bounds
from adumbra.audit import hypothesis_curves as tradeoff
from adumbra.audit.bounds import (
    by_classifier,
    by_family,
    by_threshold,
    clopper_pearson,
    from_counts,
    measured_curve,
    one_run,
)
from adumbra.audit.hypothesis_curves import ApproximateCurve, GaussianCurve, LaplaceCurve, claimed, refutes
from adumbra.common.errors import InputError

CURVES = [
    *(GaussianCurve(mu) for mu in (0.0, 0.3, 1.0, 4.0)),
    *(LaplaceCurve(loss) for loss in (0.0, 0.5, 2.0, 8.0)),
    *(ApproximateCurve(loss, delta) for loss in (0.0, 1.0, 5.0) for delta in (0.0, 1e-3, 0.2)),
]


# --- Laws that stand in for mechanisms ---


def normal_ratios(rng, runs, mu):
    return tuple(mu * (rng.standard_normal(runs) + shift) - mu * mu / 2 for shift in (mu, 0.0))


def laplace_ratios(rng, runs, loss):
    return tuple(np.clip(2 * (rng.laplace(size=runs) + shift) - loss, -loss, loss) for shift in (loss, 0.0))


def flipped_bits(rng, runs, loss, leak=0.0):
    """Randomised response; with probability `leak` the truth is plain, and the ratio infinite."""
    pair = []
    for sign in (1, -1):
        kept = rng.random(runs) < 1 / (1 + math.exp(-loss))
        pair.append(sign * np.where(rng.random(runs) < leak, np.inf, np.where(kept, loss, -loss)))
    return tuple(pair)


@dataclass(frozen=True)
class Law:
    draw: object
    family: str
    delta: float
    epsilon: float


LAWS = {
    "gaussian": Law(lambda rng, n: normal_ratios(rng, n, 1.0), "gaussian", 0.05, calibrate.eps_for(1.0, 0.05)),
    "gaussian, small delta": Law(lambda rng, n: normal_ratios(rng, n, 0.5), "gaussian", 1e-5, 1.9930914),
    "laplace": Law(lambda rng, n: laplace_ratios(rng, n, 1.0), "laplace", 0.0, 1.0),
    "bits": Law(lambda rng, n: flipped_bits(rng, n, 1.0), "approximate", 0.0, 1.0),
    "bits and a leak": Law(lambda rng, n: flipped_bits(rng, n, 0.5, 0.3), "approximate", 0.3, 0.5),
    "nothing to tell": Law(lambda rng, n: rng.standard_normal((2, n)), "approximate", 0.0, 0.0),
    "nothing to tell, rounded": Law(lambda rng, n: np.rint(rng.standard_normal((2, n))), "laplace", 0.0, 0.0),
    "nothing to tell, gaussian": Law(lambda rng, n: rng.standard_normal((2, n)), "gaussian", 1e-9, 0.0),
    "all scores equal": Law(lambda rng, n: np.zeros((2, n)), "laplace", 0.0, 0.0),
}


def with_secrets(rng, pair):
    """Canaries, each in or out by a fair coin."""
    secrets = rng.random(len(pair[0])) < 0.5
    return np.where(secrets, *pair), secrets


# --- Curves ---


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_power_and_needed_undo_each_other_and_exchanging_the_tables_changes_nothing(curve):
    x = np.concatenate([np.logspace(-12, -0.31, 400), np.linspace(0.5, 1.0, 300)])
    power = curve.power(x)
    inside = power < 1 - 1e-12
    assert np.allclose(curve.needed(power)[inside], x[inside], rtol=1e-7, atol=1e-15)
    assert np.allclose(curve.needed(x), 1 - curve.power(1 - x), rtol=1e-7, atol=1e-14)
    assert np.all(np.diff(power) >= -1e-15) and np.all(power >= x - 1e-15)
    for left, right in itertools.pairwise((0.0, 1e-9, 1e-4, 0.03, 0.2, 0.45, 0.55, 0.9, 1 - 1e-6, 1.0)):
        middle = curve.power((left + right) / 2)
        assert middle >= (curve.power(left) + curve.power(right)) / 2 - 1e-15, "not concave"
    assert curve.power(1.0) == curve.needed(1.0) == 1.0 or isinstance(curve, ApproximateCurve)
    assert isinstance(curve.power(0.5), float) and curve.power(0.5) == curve.power(np.array([0.5]))[0]


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_the_gaussian_curve_is_the_one_that_noise_is_calibrated_by(mu):
    x = np.concatenate([[0.0], np.logspace(-14, 0, 20_001)])
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        most = float(np.max(GaussianCurve(mu).power(x) - math.exp(epsilon) * x))
        assert most == pytest.approx(calibrate.gaussian_delta(epsilon, mu), rel=1e-4, abs=1e-13)
    assert GaussianCurve(mu).epsilon(1e-5) == calibrate.eps_for(mu, 1e-5)
    assert claimed("gaussian", 1.0, 1e-6) == GaussianCurve(calibrate.mu_for(1.0, 1e-6))


@pytest.mark.parametrize(
    "curve", [LaplaceCurve(0.7), LaplaceCurve(3.0), ApproximateCurve(1.0, 0.0), ApproximateCurve(2.0, 0.01)], ids=repr
)
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2, 0.6])
def test_epsilon_at_delta_is_where_the_line_touches_the_curve(curve, delta):
    x = np.concatenate([[0.0], np.logspace(-6, 0, 40_001)])
    epsilon = curve.epsilon(delta)
    most = float(np.max(curve.power(x) - math.exp(epsilon) * x))
    assert most <= delta + 1e-9
    assert epsilon == 0 or most == pytest.approx(delta, rel=1e-3)


def test_the_laplace_curve_is_that_of_laplace_noise():
    cuts = np.linspace(-8, 12, 401)
    for loss in (0.0, 0.4, 3.0):
        assert np.allclose(LaplaceCurve(loss).power(stats.laplace.sf(cuts)), stats.laplace.sf(cuts - loss), rtol=1e-9)


def test_a_curve_without_meaning_is_refused():
    for make in (
        lambda: ApproximateCurve(-1.0, 0.0),
        lambda: ApproximateCurve(1.0, 1.0),
        lambda: GaussianCurve(math.nan),
    ):
        with pytest.raises(InputError):
            make()
    for wrong in (("laplace", 1.0, 1e-5), ("gaussian", 1.0, 0.0), ("cauchy", 1.0, 0.0), ("approximate", -1.0, 0.0)):
        with pytest.raises(InputError):
            claimed(*wrong)
    with pytest.raises(InputError):
        LaplaceCurve(1.0).power(1.5)
    assert ApproximateCurve(1.0, 0.1).epsilon(0.05) == math.inf


# --- Counts ---


def test_clopper_pearson_has_its_known_values_and_its_tails():
    assert clopper_pearson(0, 10, 0.95) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert clopper_pearson(10, 10, 0.95) == pytest.approx((0.6915, 1.0), abs=1e-4)
    for hits, runs, confidence in [(3, 17, 0.9), (500, 1000, 0.99), (1, 10**6, 0.999999), (7, 7, 0.5)]:
        low, high = clopper_pearson(hits, runs, confidence)
        exact = stats.binomtest(hits, runs).proportion_ci(confidence, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-8)
        assert stats.binom.sf(hits - 1, runs, low) == pytest.approx((1 - confidence) / 2 if low else 1.0)


def test_a_bound_from_counts_is_the_formula():
    low, high = clopper_pearson(400, 1000, 0.9)[0], clopper_pearson(50, 2000, 0.9)[1]
    assert from_counts(400, 1000, 50, 2000, 0.1, 0.9) == pytest.approx(math.log((low - 0.1) / high))
    assert from_counts(5, 1000, 50, 2000, 0.0, 0.9) == 0.0
    assert from_counts(400, 1000, 0, 2000, 0.5, 0.9) == 0.0, "delta alone explains the event"


# --- Near the truth where there are runs enough ---


@pytest.mark.parametrize(
    ("mu", "delta", "share"),
    [(1.0, 0.1, 0.97), (1.0, 1e-2, 0.92), (1.0, 1e-3, 0.8), (1.0, 1e-5, 0.6), (0.5, 0.1, 0.92)],
)
def test_a_threshold_recovers_gaussian_noise_as_far_as_its_event_is_seen(mu, delta, share):
    """At delta 1e-5 the best event has probability 5e-5: 1e6 runs do not see it well, and nothing can be done."""
    exact = calibrate.eps_for(mu, delta)
    found = by_threshold(*normal_ratios(np.random.default_rng(11), 500_000, mu), delta, 0.95)
    assert share * exact < found.epsilon <= exact
    assert (found.method, found.confidence, found.runs) == ("threshold", 0.95, 1_000_000)


@pytest.mark.parametrize("loss", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("draw", [laplace_ratios, flipped_bits])
def test_a_threshold_recovers_a_bounded_ratio_within_four_per_cent(draw, loss):
    pair = draw(np.random.default_rng(12), 500_000, loss)
    assert 0.96 * loss < by_threshold(*pair, 0.0, 0.95).epsilon <= loss
    turned = by_threshold(-pair[0], -pair[1], 0.0, 0.95).epsilon
    assert 0.96 * loss < turned <= loss, "scores of the wrong sign tell as much"


def test_a_threshold_uses_delta():
    pair = flipped_bits(np.random.default_rng(13), 300_000, 1.0, 0.05)
    assert 0.97 < by_threshold(*pair, 0.05, 0.95).epsilon <= 1.0
    assert by_threshold(*pair, 0.0, 0.95).epsilon > 5
    assert by_threshold(*pair, 0.9, 0.95).epsilon == 0.0


@pytest.mark.parametrize("cut", [0.0, None])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_right_family_recovers_gaussian_noise_within_three_per_cent_at_any_delta(mu, delta, cut):
    exact = calibrate.eps_for(mu, delta)
    pair = normal_ratios(np.random.default_rng(14), 500_000, mu)
    assert 0.97 * exact < by_family(*pair, "gaussian", delta, 0.95, cut).epsilon <= exact


@pytest.mark.parametrize("cut", [0.0, None])
@pytest.mark.parametrize("loss", [0.5, 1.0, 3.0])
def test_the_right_family_recovers_laplace_noise_and_flipped_bits_within_three_per_cent(loss, cut):
    rng = np.random.default_rng(15)
    noise, bits = laplace_ratios(rng, 500_000, loss), flipped_bits(rng, 500_000, loss, 0.02)
    assert 0.97 * loss < by_family(*noise, "laplace", 0.0, 0.95, cut).epsilon <= loss
    assert 0.97 * loss < by_family(*bits, "approximate", 0.02, 0.95, cut).epsilon <= loss


def chance_of_counts(curve, misses, alarms, runs):
    """Fisher's test at the likeliest rate of false alarms, by brute force."""
    rates = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 20_001), np.geomspace(1e-9, 1e-3, 2000)])
    few_alarms = stats.binom.cdf(alarms, runs, rates)
    few_misses = stats.binom.cdf(misses, runs, 1 - np.array([float(curve.power(rate)) for rate in rates]))
    joint = float((few_alarms * few_misses).max())
    return joint * (1 - math.log(joint))


@pytest.mark.parametrize(
    ("family", "delta"), [("gaussian", 1e-3), ("laplace", 0.0), ("approximate", 0.0), ("approximate", 0.04)]
)
def test_the_bound_is_where_the_counts_stop_being_a_freak_of_chance(family, delta):
    for hits_one, hits_other in [(30, 5), (90, 40), (60, 1)]:
        one, other = (np.repeat([1.0, -1.0], [hits, 100 - hits]) for hits in (hits_one, hits_other))
        epsilon = by_family(one, other, family, delta, 0.9, 0.0).epsilon
        assert epsilon > 0
        below, above = (claimed(family, factor * epsilon, delta) for factor in (0.99, 1.01))
        assert chance_of_counts(below, 100 - hits_one, hits_other, 100) < 0.1
        assert chance_of_counts(above, 100 - hits_one, hits_other, 100) > 0.1 * 0.99


@pytest.mark.parametrize("runs", [100, 10_000, 10**6, 10**7, 10**9])
@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0), ("approximate", 0.0)])
def test_any_number_of_runs_is_judged_alike(family, delta, runs):
    """Counts exactly as the curve of epsilon 1 has them are no freak of chance; with more runs a smaller one is."""
    curve = claimed(family, 1.0, delta)
    for alarms in (0.02, 0.2689, 0.4):
        misses = round((1 - float(curve.power(alarms))) * runs)
        assert bounds._chance(curve, misses, runs, round(alarms * runs), runs) > 0.4
        if runs > 100:
            smaller = claimed(family, 1.0 - 60 / math.sqrt(runs), delta)
            assert bounds._chance(smaller, misses, runs, round(alarms * runs), runs) < 0.02


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_no_rate_of_false_alarms_makes_the_fit_fail_more_often_than_stated(confidence):
    """All outcomes of 12 runs of each table, for Gaussian noise cut anywhere: no sampling."""
    runs, mu, delta = 12, 1.0, 1e-3
    exact = calibrate.eps_for(mu, delta)
    counts = np.arange(runs + 1)
    exceeds = np.array(
        [
            [
                by_family(
                    *(np.repeat([1.0, -1.0], [c, runs - c]) for c in (a, b)), "gaussian", delta, confidence, 0.0
                ).epsilon
                > exact
                for b in counts
            ]
            for a in counts
        ]
    )
    assert exceeds.any()
    for cut in np.linspace(-2.0, 3.0, 26):
        one, other = (stats.binom.pmf(counts, runs, stats.norm.sf(cut - m)) for m in (mu, 0.0))
        assert one @ exceeds @ other <= 1 - confidence


CANARIES = 100_000


@pytest.mark.parametrize("loss", [0.5, 1.0, 3.0])
def test_one_run_recovers_flipped_bits_and_laplace_noise_within_six_per_cent(loss):
    """Laplace noise with half of the canaries guessed: then nearly all have the largest ratio there is."""
    rng = np.random.default_rng(16)
    scores, secrets = with_secrets(rng, flipped_bits(rng, CANARIES, loss))
    assert 0.96 * loss < one_run(scores, secrets, "approximate", 0.0, 0.95).epsilon <= loss
    assert 0.95 * loss < one_run(scores, secrets, "approximate", 1e-5, 0.95).epsilon <= loss
    scores, secrets = with_secrets(rng, laplace_ratios(rng, CANARIES, loss))
    assert 0.94 * loss < one_run(scores, secrets, "laplace", 0.0, 0.95, CANARIES // 2).epsilon <= loss


@pytest.mark.parametrize(
    ("mu", "guesses", "family_share", "share"), [(0.5, 1000, 0.6, 0.5), (1.0, 1000, 0.7, 0.55), (2.0, 3000, 0.7, 0.5)]
)
def test_one_run_recovers_part_of_gaussian_noise(mu, guesses, family_share, share):
    """Few guesses are best. Even the right family stays below the truth: the bound must hold for canaries whose
    fates are tied together, and these are independent."""
    rng = np.random.default_rng(17)
    scores, secrets = with_secrets(rng, normal_ratios(rng, CANARIES, mu))
    exact = calibrate.eps_for(mu, 1e-5)
    assert family_share * exact < one_run(scores, secrets, "gaussian", 1e-5, 0.95, guesses).epsilon <= exact
    assert share * exact < one_run(scores, secrets, "approximate", 1e-5, 0.95, guesses).epsilon <= exact
    assert one_run(scores, secrets, "gaussian", 1e-5, 0.95).epsilon < 0.4 * exact, "to guess all is worse"


def vectors(rng, runs, mu, width=12):
    """Noise in every coordinate, the change in three of them, one constant and one huge column."""
    out = []
    for shift in (mu, 0.0):
        rows = rng.standard_normal((runs, width))
        rows[:, :3] += shift / math.sqrt(3)
        rows[:, 3], rows[:, 4] = 7.0, rows[:, 4] * 1e290
        out.append(rows)
    return tuple(out)


def hidden_bits(rng, runs, loss):
    """The answer is in the product of two signs, which no linear score sees."""
    out = []
    for ratios in flipped_bits(rng, runs, loss):
        rows = rng.standard_normal((runs, 6))
        rows[:, 0] = np.abs(rows[:, 0]) * np.sign(rows[:, 1]) * np.sign(ratios)
        out.append(rows)
    return tuple(out)


def test_a_classifier_recovers_gaussian_noise_among_noise_dimensions():
    pair = vectors(np.random.default_rng(18), 60_000, 1.5)
    exact = calibrate.eps_for(1.5, 0.1)
    found, scores_one, scores_other = by_classifier(*pair, 0.1, 0.95)
    assert 0.9 * exact < found.epsilon <= exact
    assert (found.method, found.runs, len(scores_one), len(scores_other)) == ("classifier", 120_000, 40_000, 40_000)
    fitted = by_family(scores_one, scores_other, "gaussian", 1e-5, 0.95).epsilon
    assert 0.92 < fitted / calibrate.eps_for(1.5, 1e-5) <= 1.0, "its scores serve the other bounds"


def test_a_classifier_finds_what_no_linear_score_sees_and_repeats_itself():
    pair = hidden_bits(np.random.default_rng(19), 30_000, 1.5)
    found, *scores = by_classifier(*pair, 0.0, 0.95, seed=3)
    assert 0.9 * 1.5 < found.epsilon <= 1.5
    again, *same = by_classifier(*pair, 0.0, 0.95, seed=3)
    assert again == found and all(np.array_equal(a, b) for a, b in zip(scores, same, strict=True))


def test_noise_added_in_floating_point_gives_itself_away():
    """Where |y| - |y - 1/2| should be exactly 1/2, its last bit tells which table: the bound may exceed the formula's
    epsilon, and rightly, as the sum rounded to float64 is not Laplace noise (docs/proofs/audit-bounds.md)."""
    rng = np.random.default_rng(20)
    one, other = rng.laplace(size=200_000) + 0.5, rng.laplace(size=200_000)
    ratios = [np.abs(y) - np.abs(y - 0.5) for y in (one, other)]
    assert by_threshold(*ratios, 0.0, 0.95).epsilon > 2.0
    assert by_threshold(*(np.round(y, 9) for y in ratios), 0.0, 0.95).epsilon <= 0.5


# --- Never above it more often than allowed ---

REPEATS, CONFIDENCE = 200, 0.9
ALLOWED = int(stats.binom.isf(1e-3, REPEATS, 1 - CONFIDENCE))
"""More exceedances than this have a chance below one in a thousand, if each has at most one in ten."""


def exceedances(name, runs, bound) -> int:
    law, rng = LAWS[name], np.random.default_rng([len(name), runs])
    return sum(bound(law, rng, law.draw(rng, runs)).epsilon > law.epsilon for _ in range(REPEATS))


def canaries_of(law, rng, pair, family, guesses):
    return one_run(*with_secrets(rng, pair), family, law.delta, CONFIDENCE, guesses)


BOUNDS = {
    "threshold": lambda law, rng, pair: by_threshold(*pair, law.delta, CONFIDENCE),
    "family": lambda law, rng, pair: by_family(*pair, law.family, law.delta, CONFIDENCE),
    "family, cut": lambda law, rng, pair: by_family(*pair, law.family, law.delta, CONFIDENCE, 0.0),
    "approximate": lambda law, rng, pair: by_family(*pair, "approximate", law.delta, CONFIDENCE),
    "one run": lambda law, rng, pair: canaries_of(law, rng, pair, law.family, None),
    "one run, few guesses": lambda law, rng, pair: canaries_of(law, rng, pair, law.family, max(1, len(pair[0]) // 8)),
    "one run, approximate": lambda law, rng, pair: canaries_of(law, rng, pair, "approximate", None),
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", LAWS)
def test_no_bound_exceeds_the_truth_more_often_than_its_confidence_allows(name, bound):
    assert exceedances(name, 300, BOUNDS[bound]) <= ALLOWED
    if LAWS[name].epsilon == 0:  # then any positive number is too much
        assert exceedances(name, 5, BOUNDS[bound]) <= ALLOWED


@pytest.mark.parametrize("name", ["gaussian", "laplace", "bits", "bits and a leak"])
def test_the_repetitions_are_not_won_by_saying_nothing(name):
    law, rng = LAWS[name], np.random.default_rng(21)
    found = [by_threshold(*law.draw(rng, 1000), law.delta, CONFIDENCE).epsilon for _ in range(50)]
    assert np.median(found) > 0.3 * law.epsilon


def test_a_classifier_finds_one_leak_among_many_numbers_in_few_runs():
    rng = np.random.default_rng(27)
    one, other = rng.standard_normal((2, 60, 80))
    one[:, 41] = 301
    other[:, 41] = 300
    assert by_classifier(one, other, 0.0, 0.999)[0].epsilon > 0.7


def test_a_classifier_exceeds_the_truth_no_more_often_than_its_confidence_allows():
    """Two tables that nothing tells apart: the model overfits its own rows, and the test must not notice."""
    rng, repeats = np.random.default_rng(22), 60
    beyond = sum(
        by_classifier(*rng.standard_normal((2, 90, 3)), 0.0, CONFIDENCE)[0].epsilon > 0 for _ in range(repeats)
    )
    assert beyond <= stats.binom.isf(1e-3, repeats, 1 - CONFIDENCE)


def test_what_chose_the_event_is_not_counted():
    """Runs that choose are told apart by every score, runs that test by none: a bound from the test alone is 0."""
    rng = np.random.default_rng(27)
    same = rng.standard_normal((2, 500))
    one, other = np.concatenate([np.full(500, 9.0), same[0]]), np.concatenate([np.full(500, -9.0), same[1]])
    assert by_threshold(one, other, 0.0, CONFIDENCE).epsilon < 0.2
    assert by_family(one, other, "approximate", 0.0, CONFIDENCE).epsilon < 0.2
    assert by_family(one, other, "gaussian", 1e-5, CONFIDENCE).epsilon < 0.6
    assert by_threshold(one[:500], other[:500], 0.0, CONFIDENCE).epsilon > 4, "there was much to be seen"
    rows_one, rows_other = (np.concatenate([part[:500], rng.standard_normal(1000)])[:, None] for part in (one, other))
    assert by_classifier(rows_one, rows_other, 0.0, CONFIDENCE)[0].epsilon < 0.2


def test_an_atom_next_to_a_continuous_part_is_found():
    """The best event is "exactly 1"; scores just below 1 are everywhere."""
    rng = np.random.default_rng(28)
    one, other = rng.random((2, 20_000))
    one[rng.random(20_000) < 0.6] = 1.0
    other[rng.random(20_000) < 0.03] = 1.0
    hits = [int(np.sum(part[10_000:] == 1.0)) for part in (one, other)]
    best = from_counts(hits[0], 10_000, hits[1], 10_000, 0.0, 0.95)
    assert best > 2.7
    for sign in (1, -1):
        assert by_threshold(sign * one, sign * other, 0.0, 0.95).epsilon == best
        assert by_threshold(sign * other, sign * one, 0.0, 0.95).epsilon == best


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_very_few_runs_give_a_small_bound_and_no_error(runs):
    one, other = np.full(runs, np.inf), np.full(runs, -np.inf)
    for delta in (0.0, 0.5):
        assert by_threshold(one, other, delta, 0.95).epsilon < 0.1
        assert by_family(one, other, "approximate", delta, 0.95).epsilon < 0.1
        assert one_run(one, np.ones(runs, dtype=bool), "approximate", delta, 0.95).epsilon < 0.1
    assert by_family(one, other, "laplace", 0.0, 0.95, 0.0).epsilon < 0.1


# --- Many guesses in one run ---


def plain_recursion(curve, correct, guesses, canaries, significance) -> bool:
    """As on the page, step by step, in the curve's own arithmetic."""
    share = guesses / canaries
    right, wrong = significance * correct / guesses, significance * (1 - correct / guesses)
    for j in range(correct, 0, -1):
        more = max(wrong, curve.needed(min(1.0, share * right)) / share)
        right, wrong = right + (j - 1) / (guesses - j + 1) * (more - wrong), more
        if right + wrong > 1:
            return True
    return False


def test_the_compiled_recursion_is_the_one_on_the_page():
    rng, seen = np.random.default_rng(23), [0, 0]
    for _ in range(400):
        canaries = int(rng.integers(1, 80))
        guesses = int(rng.integers(1, canaries + 1))
        correct = int(rng.integers((guesses + 1) // 2, guesses + 1))
        significance = float(rng.choice([0.5, 0.1, 0.01]))
        loss = float(rng.exponential(0.7))
        for curve in (
            GaussianCurve(loss),
            ApproximateCurve(loss, float(rng.choice([0.003, 0.05]))),
            LaplaceCurve(loss),
        ):
            verdict = plain_recursion(curve, correct, guesses, canaries, significance)
            binomial = (
                isinstance(curve, LaplaceCurve)
                and stats.binom.sf(correct - 1, guesses, special.expit(loss)) < significance
            )
            assert refutes(curve, correct, guesses, canaries, significance) == (verdict or binomial)
            seen[verdict] += 1
    assert min(seen) > 200


def test_a_bounded_ratio_is_judged_by_the_binomial_tail():
    """Steinke, Nasr and Jagielski (2023): exactly their test for delta 0. The recursion alone is never stricter."""
    for loss, guesses in itertools.product((0.0, 0.5, 1.0, 3.0), (1, 2, 10, 100, 2000)):
        tails = stats.binom.sf(np.arange(-1, guesses), guesses, special.expit(loss))
        for correct in {1, guesses // 2 + 1, (guesses * 3 + 3) // 4, guesses - guesses // 20, guesses}:
            tail = float(tails[correct])
            if 1e-12 < tail < 0.99:
                curve = ApproximateCurve(loss, 0.0)
                assert refutes(curve, correct, guesses, guesses, tail * (1 + 1e-6))
                assert not refutes(curve, correct, guesses, guesses, tail * (1 - 1e-6))
                assert not tradeoff._overfull(0, loss, 0.0, correct, guesses, guesses, tail * (1 - 1e-6))
                if correct == guesses:
                    assert tradeoff._overfull(0, loss, 0.0, correct, guesses, guesses, tail * (1 + 1e-6))


def best_mechanism(loss, delta, canaries, guesses) -> list[float]:
    """Largest P[at least j right], j = 0, 1, ..., of any (loss, delta)-private mechanism: a linear program.

    Its outputs are all ways to guess; its laws, one for each value of the secrets, are the unknowns, with what each
    neighbouring pair spends of delta.
    """
    secrets = list(itertools.product((0, 1), repeat=canaries))
    outputs = [
        dict(zip(told, bits, strict=True))
        for told in itertools.combinations(range(canaries), guesses)
        for bits in itertools.product((0, 1), repeat=guesses)
    ]
    pairs = [(s, secrets.index(tuple(b ^ (k == i) for i, b in enumerate(secret))))
             for s, secret in enumerate(secrets) for k in range(canaries)]  # fmt: skip
    laws, spent, n = len(secrets) * len(outputs), len(pairs) * len(outputs), len(outputs)
    above, limit = [], []
    for p, (s, t) in enumerate(pairs):
        for y in range(n):  # law_s(y) - e^loss law_t(y) - spent <= 0
            row = np.zeros(laws + spent)
            row[s * n + y], row[t * n + y], row[laws + p * n + y] = 1, -math.exp(loss), -1
            above.append(row)
            limit.append(0.0)
        row = np.zeros(laws + spent)
        row[laws + p * n : laws + (p + 1) * n] = 1
        above.append(row)
        limit.append(delta)
    total = np.zeros((len(secrets), laws + spent))
    for s in range(len(secrets)):
        total[s, s * n : (s + 1) * n] = 1
    right = np.array([[sum(secret[k] == bit for k, bit in output.items()) for output in outputs] for secret in secrets])
    found = []
    for least in range(guesses + 1):
        gain = np.concatenate([(right >= least).ravel() / -len(secrets), np.zeros(spent)])
        done = linprog(gain, np.array(above), limit, total, np.ones(len(secrets)), method="highs")
        found.append(-done.fun)
    return found


@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 2), (2, 1), (3, 3), (3, 2)])
@pytest.mark.parametrize(("loss", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.0, 0.1), (0.5, 0.05), (1.5, 0.2)])
def test_no_mechanism_at_all_is_refuted_wrongly(canaries, guesses, loss, delta):
    """All private mechanisms with a few canaries, those that tie the canaries' fates together among them."""
    for correct, chance in enumerate(best_mechanism(loss, delta, canaries, guesses)):
        assert not refutes(ApproximateCurve(loss, delta), correct, guesses, canaries, min(chance, 1.0) * (1 - 1e-6))
        if guesses == canaries == correct or (delta == 0 and correct > 0 and chance < 0.99):
            assert refutes(ApproximateCurve(loss, delta), correct, guesses, canaries, chance * (1 + 1e-6)), "not sharp"


def test_giving_everything_away_now_and_then_is_not_refuted():
    """With probability delta all secrets are told: delta is spent once for all canaries, not once for each."""
    for canaries, delta in ((1000, 0.01), (200, 0.3)):
        for guesses in (canaries, canaries // 10):
            fair = stats.binom.sf(np.arange(-1, guesses), guesses, 0.5)
            for correct in range(0, guesses + 1, max(1, guesses // 50)):
                chance = delta + (1 - delta) * float(fair[correct])
                assert not refutes(ApproximateCurve(0.0, delta), correct, guesses, canaries, chance * (1 - 1e-9))
    assert refutes(ApproximateCurve(0.0, 0.01), 1000, 1000, 1000, 0.0101)


def test_needed_is_never_overestimated():
    """Against 50 digits; too large a value could refute a true claim."""
    rng = np.random.default_rng(24)
    powers = np.concatenate(
        [10.0 ** -rng.uniform(0, 290, 60), rng.random(60), 1 - 10.0 ** -rng.uniform(1, 15.5, 30), [0.5]]
    )
    with mpmath.workdps(50):
        for power in map(float, powers):
            root = mpmath.mpf(float(special.ndtri(power)))
            for _ in range(4):  # Newton's steps on the logarithm, which is nearly quadratic
                root += mpmath.log(power / mpmath.ncdf(root)) * mpmath.ncdf(root) / mpmath.npdf(root)
            for mu in (0.0, 0.01, 1.0, 6.0):
                exact = mpmath.ncdf(root - mu)
                for start in (-40.0, -1.0, 0.0, float(min(root, -root)) - 0.01):
                    found = tradeoff._gaussian_needed(power, mu, start)[0]
                    assert exact * (1 - mpmath.mpf("1e-9")) - 1e-300 <= found <= exact
        for power, loss in itertools.product(map(float, powers), (0.0, 0.01, 1.0, 6.0)):
            p, growth = mpmath.mpf(power), mpmath.exp(mpmath.mpf(loss))
            for delta in (0.0, 1e-5, 0.3):
                exact = max(0, (p - mpmath.mpf(delta)) / growth, 1 - mpmath.mpf(delta) - growth * (1 - p))
                assert (
                    exact * (1 - mpmath.mpf("1e-9")) - 1e-12
                    <= tradeoff._approximate_needed(power, loss, delta)
                    <= exact
                )
            exact = (
                p / growth
                if p < 0.5
                else 1 / (4 * growth * (1 - p))
                if 1 - p >= 1 / (2 * growth)
                else 1 - growth * (1 - p)
            )
            assert exact * (1 - mpmath.mpf("1e-9")) - 1e-12 <= tradeoff._laplace_needed(power, loss) <= exact
    assert tradeoff._gaussian_needed(0.0, 1.0, -40.0)[0] == 0.0 and tradeoff._gaussian_needed(1.0, 1.0, -40.0)[0] <= 1.0


def test_guesses_are_the_surest_and_ties_go_to_the_earlier_canary():
    scores = np.array([3.0, -np.inf, 1.0, -1.0, 0.0, 2.0])
    secrets = np.array([True, False, False, True, False, True])
    sure = one_run(scores, secrets, "approximate", 0.0, 0.8, 3)
    assert sure.epsilon == pytest.approx(special.logit(0.2 ** (1 / 3)), rel=1e-5)
    assert sure == one_run(scores, secrets.astype(int), "approximate", 0.0, 0.8, 3)
    assert (sure.method, sure.runs) == ("one-run", 6)
    assert one_run(scores, secrets, "approximate", 0.0, 0.8, 5).epsilon < 0.5
    flat = np.array([1.0, 1.0, -1.0, -1.0])
    assert one_run(flat, np.array([1, 1, 1, 1]), "approximate", 0.0, 0.6, 2).epsilon > 0.5
    assert one_run(flat, np.array([0, 0, 1, 1]), "approximate", 0.0, 0.6, 2).epsilon == 0.0


# --- The picture, the errors, the time ---


def test_the_measured_curve_covers_the_exact_one():
    one, other = normal_ratios(np.random.default_rng(25), 20_000, 1.0)
    drawn = measured_curve(one, other, points=40)
    assert 30 <= len(drawn.power) == len(drawn.false_alarms) == len(drawn.low) == len(drawn.high) <= 40
    assert list(drawn.false_alarms) == sorted(drawn.false_alarms, reverse=True) and drawn.power[-1] in (0.0, 1 / 20_000)
    assert all(low <= power <= high for low, power, high in zip(drawn.low, drawn.power, drawn.high, strict=True))
    exact = GaussianCurve(1.0).power(np.array(drawn.false_alarms))
    assert np.mean((exact >= np.array(drawn.low) - 0.01) & (exact <= np.array(drawn.high) + 0.01)) == 1.0
    assert len(measured_curve(np.zeros(5), np.array([-np.inf, np.inf])).power) >= 3


def test_a_rare_leak_shows_in_the_picture():
    """In one run of 200 everything is given away: even cuts would step over it."""
    rng = np.random.default_rng(26)
    one, other = rng.normal(0.1, 1, 4000), rng.normal(0, 1, 4000)
    one[::200] = 50.0
    drawn = measured_curve(one, other)
    assert any(alarms == 0 and power > 0.004 for alarms, power in zip(drawn.false_alarms, drawn.power, strict=True))


GOOD = np.array([1.0, 2.0, 3.0])
BAD_CALLS = [
    *(lambda c=c: by_threshold(GOOD, GOOD, 0.0, c) for c in (0.0, 1.0, math.nan, 95)),
    lambda: by_threshold([], GOOD, 0.0, 0.95),
    lambda: by_threshold(GOOD, [1.0, math.nan], 0.0, 0.95),
    lambda: by_threshold(GOOD, GOOD, 1.0, 0.95),
    lambda: by_threshold(GOOD, GOOD[:, None], 0.0, 0.95),
    lambda: by_family(GOOD, GOOD, "cauchy", 0.0, 0.95),
    lambda: by_family(GOOD, GOOD, "laplace", 1e-5, 0.95),
    lambda: by_family(GOOD, GOOD, "gaussian", 0.0, 0.95),
    lambda: by_family(GOOD, GOOD, "gaussian", 1e-5, 0.95, math.nan),
    lambda: one_run(GOOD, [True, False], "gaussian", 1e-5, 0.95),
    lambda: one_run(GOOD, [0, 1, 2], "gaussian", 1e-5, 0.95),
    lambda: one_run(GOOD, [0, 1, 1], "gaussian", 1e-5, 0.95, 4),
    lambda: one_run(GOOD, [0, 1, 1], "gaussian", 1e-5, 0.95, 0),
    lambda: one_run(GOOD, [0, 1, 1], "laplace", 1e-5, 0.95),
    lambda: by_classifier(np.zeros((40, 2)), np.zeros((40, 3)), 0.0, 0.95),
    lambda: by_classifier(np.zeros((5, 2)), np.zeros((40, 2)), 0.0, 0.95),
    lambda: by_classifier(np.zeros(40), np.zeros(40), 0.0, 0.95),
    lambda: by_classifier(np.full((40, 2), math.nan), np.zeros((40, 2)), 0.0, 0.95),
    lambda: clopper_pearson(5, 4, 0.95),
    lambda: clopper_pearson(-1, 4, 0.95),
    lambda: clopper_pearson(0, 0, 0.95),
    lambda: measured_curve(GOOD, GOOD, points=0),
]


@pytest.mark.parametrize("call", BAD_CALLS)
def test_what_makes_no_sense_is_refused_in_words(call):
    with pytest.raises(InputError):
        call()


def test_a_hundred_thousand_scores_take_milliseconds():
    pair = normal_ratios(np.random.default_rng(26), 50_000, 1.0)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        by_threshold(*pair, 1e-3, 0.95)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.1
