"""Where in its cell a number lies: with its neighbour in the table, and as in its own column all the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adumbra.models.residual_tables import JointTable
from adumbra.models.within_cells import Coupling, _closeness, couplings


def table_of(shares, strength=0.3, sd=1e-6):
    return JointTable(shares, sd, strength)


def ridge(cells, width=1.0, sign=1):
    """Two numbers that rise together (or one while the other falls)."""
    x = np.arange(cells)
    own = np.exp(-((x[:, None] - x[::sign]) ** 2) / (2 * width**2))
    return own / own.sum()


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_coupling_keeps_the_distribution_within_every_cell(seed):
    """Whatever the closeness: places are even in each cell of the column, for those at each cell of the other."""
    rng = np.random.default_rng(seed)
    link = Coupling(0, rng.uniform(-1, 1, (4, 3)))
    cells, others = rng.integers(0, 3, 30_000), rng.integers(0, 4, 30_000)
    known = rng.random(30_000)
    places = link.places(cells, others, known, rng.random(30_000), rng.random(30_000))
    assert places.min() >= 0 and places.max() <= 1
    for own in range(3):
        assert stats.kstest(places[cells == own], "uniform").pvalue > 1e-6
    for other in range(4):
        here = (others == other) & (cells == 1)
        seen = np.corrcoef(places[here], known[here])[0, 1]
        assert seen == pytest.approx(link.closeness[other, 1], abs=0.08)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_rise_together_do_so_within_cells(sign):
    table = ridge(8, 1.0, sign)
    for shares, order in ((table, (0, 1)), (table.T, (1, 0))):
        found = couplings({(0, 1): table_of(shares)}, (8, 8), order)
        (j,) = found
        assert j == order[1] and found[j].other == order[0]
        near = np.eye(8)[::sign].astype(bool)
        assert (sign * found[j].closeness[near] > 0.4).all() and np.abs(found[j].closeness).max() <= 1


@given(st.integers(3, 8), st.integers(3, 8), st.floats(1e-9, 0.1), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_independent_numbers_lie_anywhere_however_uneven_their_cells(rows, columns, sd, seed):
    """A full cell beside empty ones is no relation, and noise makes none of it."""
    rng = np.random.default_rng(seed)
    shares = np.outer(rng.dirichlet(np.full(rows, 0.5)), rng.dirichlet(np.full(columns, 0.5)))
    found = couplings({(0, 1): table_of(shares, sd=sd)}, (rows, columns), (0, 1))
    assert np.abs(found[1].closeness).max() < 1e-3


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_noise_weakens_a_coupling_and_never_strengthens_it(seed):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(4, 0.5)).reshape(2, 2)  # in three by three, so that each corner has four neighbours
    shares = np.zeros((3, 3))
    shares[:2, :2] = table
    close = [_closeness(shares, 3, 3, sd)[0, 0] for sd in (0.0, 1e-4, 1e-2, 1.0, 1e3)]
    assert (np.abs(close[1:]) <= np.abs(close[:-1]) + 1e-12).all() and (np.sign(close) == np.sign(close[0])).all()
    assert abs(close[-1]) < 0.01


def test_only_numbers_follow_only_numbers_that_tell_of_them():
    shares = ridge(5)
    pairs = {(0, 1): table_of(shares, 0.5), (0, 2): table_of(shares, 0.2), (1, 2): table_of(shares, 0.0)}
    assert couplings(pairs, (0, 5, 5), (0, 1, 2)) == {}, "a category has no order, and no strength is no link"
    found = couplings(pairs, (5, 5, 5), (0, 1, 2))
    assert {j: link.other for j, link in found.items()} == {1: 0, 2: 0}
    assert couplings(pairs, (5, 2, 5), (0, 1, 2)).keys() == {2}, "two cells in order are none to follow"


def test_the_cell_of_what_is_missing_is_close_to_nothing():
    shares = np.zeros((6, 6))
    shares[:5, :5] = ridge(5) * 0.9
    shares[5, 5] = 0.1
    found = couplings({(0, 1): table_of(shares)}, (5, 5), (0, 1))[1].closeness
    assert not found[5].any() and not found[:, 5].any() and found[0, 0] > 0.4
