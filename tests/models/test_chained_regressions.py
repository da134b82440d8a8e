"""Rows drawn column by column: tables they were fitted to come back, and what nothing says is independent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.models.chained_regressions import WantedTable, fit_chain, raked

ROWS = 40_000


def table_of(rows, columns, counts):
    shape = tuple(counts[c] for c in columns)
    return np.bincount(np.ravel_multi_index([rows[:, c] for c in columns], shape), minlength=np.prod(shape)).reshape(
        shape
    ) / len(rows)


def log_linear(counts, rng, strength):
    """A distribution of all columns with random effects of pairs and none of three."""
    grid = np.indices(counts)
    logs = np.zeros(counts)
    for j in range(len(counts)):
        logs += rng.normal(0, 0.5, counts[j])[grid[j]]
        for k in range(j + 1, len(counts)):
            logs += rng.normal(0, strength, (counts[j], counts[k]))[grid[j], grid[k]]
    return np.exp(logs) / np.exp(logs).sum()


def wanted(joint, *which, ridge=1e-6):
    out = {}
    for columns in which:
        others = tuple(axis for axis in range(joint.ndim) if axis not in columns)
        out[columns] = WantedTable(columns, joint.sum(axis=others), ridge)
    return out


def shares_of(joint):
    return [joint.sum(axis=tuple(a for a in range(joint.ndim) if a != j)) for j in range(joint.ndim)]


@pytest.mark.parametrize("seed", range(3))
def test_tables_of_a_log_linear_model_come_back_within_what_drawing_adds(seed):
    rng = np.random.default_rng(seed)
    counts = (4, 3, 5, 2)
    joint = log_linear(counts, rng, 0.8)
    pairs = [(j, k) for j in range(4) for k in range(j + 1, 4)]
    targets = wanted(joint, *pairs)
    chain = fit_chain(counts, shares_of(joint), targets, rng.permutation(4).tolist(), rng)
    drawn = chain.draw(ROWS, rng)
    for pair in pairs:
        # 8,000 rows were fitted on: what they have by chance in the columns before is in what is drawn
        assert 0.5 * np.abs(table_of(drawn, pair, counts) - targets[pair].shares).sum() < 0.02
    assert 0.5 * np.abs(table_of(drawn, (0, 1, 2, 3), counts) - joint).sum() < 0.05, "and the model itself"


def test_a_table_of_three_columns_comes_back():
    joint = np.array([[[0.23, 0.02], [0.02, 0.23]], [[0.02, 0.23], [0.23, 0.02]]])
    rng = np.random.default_rng(0)
    chain = fit_chain((2, 2, 2), shares_of(joint), wanted(joint, (0, 1, 2)), [0, 1, 2], rng)
    assert table_of(chain.draw(ROWS, rng), (0, 1, 2), (2, 2, 2)) == pytest.approx(joint, abs=0.02)
    alone = fit_chain((2, 2, 2), shares_of(joint), wanted(joint, (0, 1), (0, 2), (1, 2)), [0, 1, 2], rng)
    assert table_of(alone.draw(ROWS, rng), (0, 1, 2), (2, 2, 2)) == pytest.approx(np.full((2, 2, 2), 1 / 8), abs=0.02)


def test_columns_without_a_table_are_independent_and_have_their_shares():
    rng = np.random.default_rng(1)
    shares = [rng.dirichlet(np.ones(count)) for count in (3, 6, 1)]
    chain = fit_chain((3, 6, 1), shares, {}, [1, 0, 2], rng)
    drawn = chain.draw(ROWS, rng)
    assert table_of(drawn, (0, 1), (3, 6)) == pytest.approx(np.outer(shares[0], shares[1]), abs=0.01)
    assert not drawn[:, 2].any()
    first = np.bincount(drawn[:, 1], minlength=6)
    assert np.abs(first - shares[1] * ROWS).max() <= 1, "the first column is dealt out, not drawn"


def test_a_ridge_holds_back_and_none_gives_it_all():
    joint = np.array([[0.45, 0.05], [0.05, 0.45]])
    rng = np.random.default_rng(2)
    agree = []
    for ridge in (1e-6, 0.1, 100.0):
        chain = fit_chain((2, 2), shares_of(joint), wanted(joint, (0, 1), ridge=ridge), [0, 1], rng)
        agree.append(np.trace(table_of(chain.draw(ROWS, rng), (0, 1), (2, 2))))
    assert agree[0] == pytest.approx(0.9, abs=0.01) and agree[2] == pytest.approx(0.5, abs=0.01)
    assert agree[0] > agree[1] + 0.05 > agree[2] + 0.1


def test_the_same_seed_draws_the_same_rows():
    joint = log_linear((3, 4), np.random.default_rng(3), 1.0)
    chains = [
        fit_chain((3, 4), shares_of(joint), wanted(joint, (0, 1)), [1, 0], np.random.default_rng(7)) for _ in range(2)
    ]
    one, two = (chain.draw(1000, np.random.default_rng(8)) for chain in chains)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, chains[0].draw(1000, np.random.default_rng(9)))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_raking_meets_both_margins_and_keeps_odds(rows, columns, seed):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(rows * columns, 2.0)).reshape(rows, columns)
    one, two = rng.dirichlet(np.full(rows, 5.0)), rng.dirichlet(np.full(columns, 5.0))
    found = raked(table, one, two, 100)
    assert found.sum(axis=1) == pytest.approx(one, abs=1e-6) and found.sum(axis=0) == pytest.approx(two, abs=1e-9)
    ratio = np.log(found / table)
    assert ratio - ratio[:1] - ratio[:, :1] + ratio[0, 0] == pytest.approx(np.zeros(ratio.shape), abs=1e-6)
