"""Coins and randomised response: exactly uniform, never repeated, and no answer likelier than the promise allows."""

from __future__ import annotations

import inspect
import itertools
import math
import os

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adumbra.common.errors import InputError
from adumbra.common.randomness import Coins, randomised_response
from tests.repeatable import repeatable  # noqa: F401

ONE_IN_A_THOUSAND = 1e-3
BEYOND_DOUBT = 1e-9
UNEVEN = (3, 5, 6, 7, 10, 100, 257)  # their multiples do not fill 2^64
EPSILONS = (0.0, 1e-300, 1e-12, 0.01, 0.1, 0.5, math.log(2), 1.0, math.log(3), 2.0, math.log(1000), 7.3, 19.9, 20.0)


def fits(counts, shares) -> float:
    """How likely counts at least as odd as these are, if the shares are right."""
    counts = np.asarray(counts, dtype=float)
    return float(stats.chisquare(counts, np.asarray(shares) * counts.sum()).pvalue)


class Chosen:
    """Coins that fall as told, and remember how many sides were asked for."""

    def __init__(self, draws=(0,)) -> None:
        self.draws = np.asarray(draws, dtype=np.int64)
        self.sides = 0

    def below(self, sides, size):
        self.sides = sides
        return np.broadcast_to(self.draws, (size,))


def sides_of(epsilon, classes) -> int:
    coins = Chosen()
    randomised_response(epsilon, np.array([0]), classes, coins)
    return coins.sides


def law_of(epsilon, truth, classes) -> dict[int, int]:
    """How many of the coin's sides lead to each answer: counted exactly, by finding where the answer changes."""
    sides = sides_of(epsilon, classes)

    def answers(draws):
        return randomised_response(epsilon, np.full(len(draws), truth), classes, Chosen(draws))

    # evenly, and closely at the end, where the answers that are not true lie even if they are rare
    places = np.concatenate([np.arange(1024) * (sides // 1024), sides - 1 - np.arange(64) * 2**29])
    places = np.unique(places[places >= 0])
    low, high = places[:-1], places[1:]
    apart = answers(low) != answers(high)
    low, high = low[apart], high[apart]
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        same = answers(middle) == answers(low)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    ends = [0, *high.tolist(), sides]
    counts: dict[int, int] = {}
    for start, end in itertools.pairwise(ends):
        answer = int(answers(np.array([start]))[0])
        counts[answer] = counts.get(answer, 0) + end - start
    return counts


# ---- coins


@pytest.mark.parametrize("sides", UNEVEN)
def test_every_side_is_equally_likely(sides):
    found = np.bincount(Coins().below(sides, 20_000), minlength=sides)
    assert len(found) == sides
    assert fits(found, np.full(sides, 1 / sides)) > ONE_IN_A_THOUSAND


def test_a_coin_of_very_many_sides_favours_none():
    """A word modulo 3 * 2^60 would fall on the first third three times for every two on the others."""
    thirds = Coins().below(3 * 2**60, 20_000) // 2**60
    assert fits(np.bincount(thirds, minlength=3), np.full(3, 1 / 3)) > ONE_IN_A_THOUSAND


def test_words_that_would_favour_a_side_are_drawn_again(monkeypatch):
    words = [2**64 - 1, 2**64 - 2, 4, 2**64 - 1, 5]  # 2^64 - 1 is the one word above the multiples of 3

    def urandom(size):
        taken, words[:] = words[: size // 8], words[size // 8 :]
        return np.array(taken, dtype=np.uint64).tobytes()

    monkeypatch.setattr(os, "urandom", urandom)
    assert Coins().below(3, 3).tolist() == [(2**64 - 2) % 3, 4 % 3, 5 % 3]
    assert words == []


@pytest.mark.parametrize("sides", [0, -1, 2**62])
def test_a_coin_that_cannot_be_tossed(sides):
    with pytest.raises(ValueError, match="sides"):
        Coins().below(sides, 1)


def test_uniform_numbers():
    found = Coins().uniform(20_000)
    assert found.min() >= 0.0
    assert found.max() < 1.0
    assert ((found * 2.0**53) % 1 == 0).all()
    assert stats.kstest(found, "uniform").pvalue > ONE_IN_A_THOUSAND


def test_the_largest_uniform_number_is_below_one(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"\xff" * size)
    assert Coins().uniform(2).tolist() == [1 - 2.0**-53] * 2


def test_coins_have_no_seed_and_do_not_repeat(monkeypatch):
    monkeypatch.undo()  # the real operating system
    assert not inspect.signature(Coins).parameters
    assert not vars(Coins())
    one, other = Coins(), Coins()
    draws = [coins.below(2**60, 4).tolist() for coins in (one, one, other)]
    draws += [coins.uniform(4).tolist() for coins in (one, one, other)]
    assert len({tuple(numbers) for numbers in draws}) == 6


def test_every_draw_is_paid_for_with_fresh_entropy(monkeypatch):
    """A generator seeded once would answer more draws than it took bytes, and a fork would repeat them."""
    taken = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: taken.append(size) or real(size))
    Coins().below(4, 100)
    Coins().uniform(100)
    assert taken == [800, 800]


# ---- randomised response


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_answer_is_likelier_than_promised_from_one_truth_than_from_another(epsilon, classes):
    laws = [law_of(epsilon, truth, classes) for truth in range(classes)]
    sides = sides_of(epsilon, classes)
    with mpmath.workdps(60):
        most = mpmath.exp(mpmath.mpf(epsilon))
        worst = mpmath.mpf(0)
        for one, other in itertools.permutations(laws, 2):
            assert set(one) == set(range(classes))
            assert sum(one.values()) == sides
            for answer in range(classes):
                ratio = mpmath.mpf(one[answer]) / other[answer]
                assert ratio <= most
                worst = max(worst, ratio)
        assert worst >= most * (1 - mpmath.mpf(2) ** -30)  # and the promise is used up


@settings(max_examples=300, deadline=None)
@given(st.floats(0.0, 20.0), st.sampled_from([2, 3, 1000]))
def test_the_truth_never_weighs_more_than_promised(epsilon, classes):
    weight = sides_of(epsilon, classes) - (classes - 1) * 2**32
    with mpmath.workdps(60):
        exact = mpmath.exp(mpmath.mpf(epsilon)) * 2**32
        assert weight <= exact
        assert weight >= exact * (1 - mpmath.mpf(2) ** -49) - 1
    assert weight >= 2**32


@pytest.mark.parametrize("whole", [2, 3, 10, 12345, 2**20])
def test_weights_beside_whole_numbers_are_not_rounded_up(whole):
    around = math.log(whole)
    for epsilon in (math.nextafter(around, 0), around, math.nextafter(around, 99)):
        weight = sides_of(epsilon, 2) - 2**32
        with mpmath.workdps(60):
            assert weight <= mpmath.exp(mpmath.mpf(epsilon)) * 2**32


@pytest.mark.parametrize(("epsilon", "classes"), [(0.5, 2), (1.0, 3), (2.0, 5)])
def test_answers_follow_the_law_and_no_other_scale(epsilon, classes):
    truth = classes - 1
    found = np.bincount(randomised_response(epsilon, np.full(100_000, truth), classes, Coins()), minlength=classes)

    def shares(stated):
        weights = np.ones(classes)
        weights[truth] = math.exp(stated)
        return weights / weights.sum()

    assert fits(found, shares(epsilon)) > ONE_IN_A_THOUSAND
    assert fits(found, shares(epsilon * 2 / 3)) < BEYOND_DOUBT
    assert fits(found, shares(epsilon * 3 / 2)) < BEYOND_DOUBT


@pytest.mark.parametrize("classes", [2, 3, 8])
def test_epsilon_zero_does_not_look(classes):
    laws = [law_of(0.0, truth, classes) for truth in range(classes)]
    assert all(set(law.values()) == {2**32} and len(law) == classes for law in laws)
    found = randomised_response(0.0, np.zeros(30_000, dtype=np.int64), classes, Coins())
    assert fits(np.bincount(found, minlength=classes), np.full(classes, 1 / classes)) > ONE_IN_A_THOUSAND


def test_each_label_is_answered_on_its_own():
    truth = np.tile([0, 1, 2], 20_000)
    found = randomised_response(1.0, truth, 3, Coins())
    table = np.zeros((3, 3))
    right = found == truth
    np.add.at(table, (right[:-1].astype(int), right[1:].astype(int)), 1)
    assert stats.chi2_contingency(table[:2, :2]).pvalue > ONE_IN_A_THOUSAND
    for label in range(3):
        assert right[truth == label].mean() == pytest.approx(math.e / (math.e + 2), abs=0.015)


def test_a_single_class_and_no_labels():
    assert randomised_response(1.0, np.zeros(5, dtype=np.int64), 1, Coins()).tolist() == [0] * 5
    assert randomised_response(1.0, np.empty(0, dtype=np.int64), 2, Coins()).tolist() == []


@pytest.mark.parametrize("epsilon", [-1e-9, 20.001, math.inf, math.nan])
def test_an_epsilon_that_cannot_be_kept(epsilon):
    with pytest.raises(InputError, match="epsilon"):
        randomised_response(epsilon, np.array([0]), 2, Coins())
