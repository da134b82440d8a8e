"""Sets drawn from counts of items: shares as counted, never more items than a row can have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.models.sets import drawn_sets, fitted_chances, item_shares


def law(chances, most):
    """Every set with its probability, by adding all of them up."""
    found = {}
    for held in itertools.product((0, 1), repeat=len(chances)):
        if sum(held) <= most:
            found[held] = float(np.prod(np.where(held, chances, 1 - np.array(chances))))
    whole = sum(found.values())
    return {held: chance / whole for held, chance in found.items()}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 0.9), min_size=1, max_size=7), st.integers(1, 4))
def test_items_have_the_shares_that_were_counted(shares, most):
    shares = item_shares(np.array(shares) * 1000, 1000, most)
    exact = law(fitted_chances(shares, most), most)
    found = sum(chance * np.array(held, dtype=float) for held, chance in exact.items())
    assert np.allclose(found, shares, atol=2e-3)


def test_sets_come_as_often_as_their_law_says():
    chances = np.array([0.5, 0.3, 0.7, 0.1])
    generator = np.random.default_rng(1)
    for most in (1, 2, 4):
        rows = drawn_sets(chances, most, 40_000, generator)
        assert set(np.unique(rows)) <= {0.0, 1.0} and rows.sum(axis=1).max() <= most
        exact = law(chances, most)
        for held, chance in exact.items():
            share = float((rows == np.array(held)).all(axis=1).mean())
            assert abs(share - chance) < 5 * np.sqrt(chance / 40_000) + 1e-4, (most, held)


def test_a_hundred_items_of_which_ten_fit():
    rng = np.random.default_rng(2)
    shares = item_shares(rng.gamma(0.4, 8000, 100), 88_000, 10)
    rows = drawn_sets(fitted_chances(shares, 10), 10, 60_000, rng)
    assert rows.sum(axis=1).max() <= 10
    assert np.abs(rows.mean(axis=0) - shares).max() < 0.01


def test_more_than_a_row_can_hold_is_scaled_down_and_nothing_stays_nothing():
    assert item_shares(np.full(10, 100.0), 100, 2).sum() == pytest.approx(1.96)
    assert not item_shares(np.zeros(3), 100, 2).any() and not item_shares(np.full(3, -5.0), 100, 2).any()
    empty = drawn_sets(np.zeros(3), 2, 5, np.random.default_rng(0))
    assert empty.shape == (5, 3) and not empty.any()
    assert drawn_sets(np.array([1.0 - 1e-9]), 1, 4, np.random.default_rng(0)).tolist() == [[1.0]] * 4
