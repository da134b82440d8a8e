"""Cells of drawn rows are moved towards wanted tables: never away from them, never out of range, no row lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.models.chained_regressions import WantedTable
from adumbra.models.row_moves import _POWER, _SOFT, moved


def counted(rows, columns, shape):
    return np.bincount(np.ravel_multi_index([rows[:, c] for c in columns], shape), minlength=np.prod(shape)).reshape(
        shape
    )


def objective(rows, targets):
    """As the module's own words have it."""
    total = 0.0
    for columns, target in targets.items():
        goal = target.shares * len(rows)
        total += float(((counted(rows, columns, goal.shape) - goal) ** 2 / (goal + _SOFT) ** _POWER).sum())
    return total


def wanted(columns, shares):
    return {columns: WantedTable(columns, shares, 0.0)}


@given(st.integers(1, 120), st.lists(st.integers(1, 5), min_size=3, max_size=5), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_objective_never_rises_and_rows_stay_rows(rows, counts, seed):
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.integers(0, c, rows) for c in counts], axis=1).astype(np.int32)
    targets = {}
    for columns in ((0, 1), (1, 2), (0, 1, 2), (0, len(counts) - 1)):
        shape = tuple(counts[c] for c in columns)
        targets |= wanted(columns, rng.dirichlet(np.full(np.prod(shape), 0.5)).reshape(shape))
    before = drawn.copy()
    found = moved(drawn, counts, targets)
    assert np.array_equal(drawn, before), "what was given is left as it is"
    assert found.shape == drawn.shape and found.dtype == drawn.dtype
    assert (found >= 0).all() and (found < np.array(counts)).all()
    assert objective(found, targets) <= objective(drawn, targets) + 1e-6
    untouched = [c for c in range(len(counts)) if not any(c in columns for columns in targets)]
    assert np.array_equal(found[:, untouched], drawn[:, untouched])
    assert np.array_equal(found, moved(drawn, counts, targets)), "the same rows give the same rows"


def test_tables_that_rows_can_have_are_met_almost_to_the_row():
    rng = np.random.default_rng(0)
    counts = (4, 5, 3)
    truth = np.stack([rng.integers(0, c, 5000) for c in counts], axis=1).astype(np.int32)
    truth[:, 1] = (truth[:, 0] + rng.integers(0, 2, 5000)) % 5
    targets = {}
    for columns in ((0, 1), (0, 2), (1, 2)):
        targets |= wanted(columns, counted(truth, columns, tuple(counts[c] for c in columns)) / 5000)
    drawn = np.stack([rng.permutation(truth[:, j]) for j in range(3)], axis=1)
    found = moved(drawn, counts, targets)
    away = [0.5 * np.abs(counted(found, c, t.shares.shape) / 5000 - t.shares).sum() for c, t in targets.items()]
    assert max(away) < 0.004
    assert (
        max(0.5 * np.abs(counted(drawn, c, t.shares.shape) / 5000 - t.shares).sum() for c, t in targets.items()) > 0.1
    )


def test_a_cell_that_should_be_empty_is_emptied():
    rng = np.random.default_rng(1)
    shares = np.array([[0.3, 0.2], [0.5, 0.0]])
    drawn = np.stack([rng.random(2000) < 0.5, rng.random(2000) < 0.2], axis=1).astype(np.int32)
    found = moved(drawn, (2, 2), wanted((0, 1), shares))
    assert counted(drawn, (0, 1), (2, 2))[1, 1] > 100 and counted(found, (0, 1), (2, 2))[1, 1] == 0
    assert counted(found, (0, 1), (2, 2)) / 2000 == pytest.approx(shares, abs=0.002)


def test_nothing_wanted_moves_nothing():
    drawn = np.arange(12, dtype=np.int32).reshape(6, 2) % 3
    assert np.array_equal(moved(drawn, (3, 3), {}), drawn)
    assert moved(drawn[:0], (3, 3), wanted((0, 1), np.full((3, 3), 1 / 9))).shape == (0, 2)
