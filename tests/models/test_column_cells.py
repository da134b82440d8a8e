"""Cells of columns and what noisy counts of them become: levels, spikes, tails, what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.declare.space import GRID, Block
from adumbra.models.class_tables import ClassTables
from adumbra.models.column_cells import by_value, drawn_in, first_cells, mass_cells, on_levels, unit_edges
from adumbra.models.denoising import ColumnTables, denoised, joined, missing_shares, shrunk_deviations
from adumbra.models.marginals import Marginal, marginals_of
from adumbra.models.quantile_decoder import _meet
from adumbra.models.sharpening import sharpened
from adumbra.models.shrinkage import clear_counts
from adumbra.queries.cells import Cells


def whole(levels, **more):
    return Block("x", "number", 0, 1, levels=levels, **more)


def positions(block):
    return Cells.aligned([block], [2]).levels_at(0, np.arange(block.levels))


def counted(cells, values):
    return np.bincount(cells.of(values[:, None])[:, 0], minlength=cells.sizes[0]).astype(float)


def by_level(block, shares):
    """The marginal of a column whose levels have these shares."""
    cells = Cells.aligned([block], [block.levels])
    return cells, marginals_of([block], ColumnTables([np.asarray(shares)], np.zeros(1)), cells)[0]


# ---- cells


def test_levels_have_a_cell_each_where_noise_leaves_room_and_whole_levels_share_one_where_not():
    day, age = whole(31), whole(111)
    assert first_cells([day, age], 1000).counts == (31, 111)
    assert first_cells([day, age], 200).counts == (31, 20)
    few = first_cells([day, age], 50)
    assert few.counts == (10, 10)
    assert set(counted(Cells.aligned([day], [10]), positions(day))) == {3.0, 4.0}
    assert few.missing == (True, True) and first_cells([whole(31, fallback=5)], 50).missing == (False,)


@given(st.integers(21, 3000), st.integers(2, 80), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_cells_of_equal_mass_hold_whole_levels_and_what_is_heavy_is_alone(levels, parts, seed):
    rng = np.random.default_rng(seed)
    block = whole(levels, spikes=(int(positions(whole(levels))[rng.integers(levels)]),))
    shares = rng.dirichlet(np.full(levels, 0.2))
    _, marginal = by_level(block, shares)
    first = first_cells([block], 50)
    fine = mass_cells(first, [marginal.quantile], parts)
    found = fine.of(positions(block)[:, None])[:, 0]
    assert (np.diff(found) >= 0).all() and set(found) == set(range(fine.counts[0]))
    alone = np.bincount(found)[found] == 1
    assert alone[shares > 1.01 / parts].all()
    assert alone[[0, -1]].all() and alone[positions(block) == block.spikes[0]].all()
    assert fine.counts[0] <= 3 * parts + 5 and fine.missing == (True,)


def test_a_second_look_asks_the_same_of_columns_with_a_cell_for_each_value():
    blocks = [whole(31), Block("k", "category", 1, 4), Block("y", "number", 5, 1)]
    first = first_cells(blocks, 1000)
    fine = mass_cells(first, None, 16)
    assert [by_value(fine, j) for j in range(3)] == [True, True, False] and fine.counts[:2] == (31, 4)
    noisy, again = np.arange(first.total) * 1.0, np.full(fine.total, 7.0)
    both, sds = joined((noisy, 2.0, first), (again, 2.0, fine))
    assert both[:37] == pytest.approx((noisy[:37] + 7.0) / 2) and (both[37:] == noisy[37:]).all()
    assert sds == pytest.approx([2.0**0.5, 2.0**0.5, 2.0])


# ---- values


@given(st.integers(21, 5000), st.integers(1, 40), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_drawn_values_are_on_levels_and_every_level_of_a_cell_is_as_likely(levels, most, seed):
    rng, block = np.random.default_rng(seed), whole(levels)
    cells = Cells.aligned([block], [most], missing=True)
    at = positions(block)
    assert np.array_equal(on_levels(block, at + rng.uniform(-0.4, 0.4, levels) * GRID / (levels - 1)), at)
    cell = rng.integers(0, cells.sizes[0], 300)
    drawn = drawn_in(cells, 0, cell, rng.random(300))
    assert np.array_equal(np.isnan(drawn), cell == cells.counts[0])
    there = drawn[~np.isnan(drawn)]
    assert np.isin(there, at).all() and np.array_equal(cells.of(there[:, None])[:, 0], cell[~np.isnan(drawn)])
    table = rng.dirichlet(np.ones(cells.counts[0]))
    marginal = Marginal.of("number", table, unit_edges(cells, 0), levels)
    values = marginal.quantile((np.arange(levels * 50) + 0.5) / (levels * 50)) * (levels - 1)
    assert np.abs(values - np.rint(values)).max() < 1e-6
    held = np.bincount(np.rint(values).astype(int), minlength=levels) / len(values)
    found = cells.of(at[:, None])[:, 0]
    assert held == pytest.approx((table / np.bincount(found))[found], abs=3 / len(values) + 1e-5)


def test_a_spike_of_a_number_without_levels_comes_back_exactly():
    block = Block("x", "number", 0, 1, spikes=(12_345,))
    cells = Cells.aligned([block], [10])
    at = int(cells.of(np.array([[12_345.0]]))[0, 0])
    table = np.full(cells.counts[0], 0.5 / (cells.counts[0] - 1))
    table[at] = 0.5
    values = Marginal.of("number", table, unit_edges(cells, 0)).quantile(np.linspace(0, 1, 1000))
    assert ((values - 0.5) * GRID == 12_345).mean() == pytest.approx(0.5, abs=0.01)
    assert (drawn_in(cells, 0, np.full(9, at), np.linspace(0, 1, 9)) == 12_345).all()


@given(st.integers(1, 60), st.integers(1, 7), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_values_are_chosen_as_often_as_wanted(rows, count, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, count))
    chosen = values.argmax(axis=1)
    wanted = rng.multinomial(rows, rng.dirichlet(np.ones(count)))
    _meet(chosen, values, wanted)
    assert np.array_equal(np.bincount(chosen, minlength=count), wanted)


# ---- noise out


def test_a_cell_that_stands_out_of_a_smooth_curve_is_kept_and_the_rest_is_smoothed():
    rng = np.random.default_rng(0)
    smooth = 0.01 + 0.004 * np.sin(np.arange(100) / 15)
    smooth[40] += 0.012  # six deviations of the noise, and one frequency no more than another
    smooth -= smooth.mean()
    kept, others = [], []
    for _ in range(40):
        found = shrunk_deviations((smooth + rng.normal(0, 0.002, 100))[None], np.asarray(0.002**2), True)[0]
        kept.append(found[40] - smooth[40])
        others.append(np.delete(found - smooth, 40).std())
    assert abs(np.mean(kept)) < 0.001 and np.mean(others) < 0.0011
    assert smooth[40] - shrunk_deviations(smooth[None], np.asarray(0.002**2), True, spikes=False)[0, 40] > 0.006


@pytest.mark.parametrize("sd", [4.0, 40.0, 200.0])
def test_levels_get_nearer_the_truth_with_less_noise(sd):
    rng, block = np.random.default_rng(1), whole(31)
    shares = rng.dirichlet(np.full(31, 4.0))
    cells = Cells.aligned([block], [31], missing=True)
    rows, errors = 60_000, []
    for _ in range(20):
        noisy = np.append(shares * rows, 0.0) + rng.normal(0, sd, 32)
        errors.append(0.5 * np.abs(denoised(noisy, sd, rows, cells).values[0] - shares).sum())
    assert np.mean(errors) < 1.3 * 31 * 0.4 * sd / rows


def test_a_tail_ends_where_rows_do_and_not_at_the_end_of_the_range():
    rng, block = np.random.default_rng(2), whole(1461)
    level = np.minimum(np.rint(rng.exponential(40, 300_000)) + 50, 1460).astype(int)
    values, rows, sd = positions(block)[level], 300_000, 60.0
    first = first_cells([block], rows / sd)
    means, tops = [], []
    for _ in range(10):
        noisy = counted(first, values) + rng.normal(0, sd, first.total)
        found = marginals_of([block], denoised(noisy, sd, rows, first), first)
        fine = mass_cells(first, [found[0].quantile], 128)
        again = counted(fine, values) + rng.normal(0, sd, fine.total)
        drawn = sharpened(found, sd, again, sd, rows, fine)[0].quantile((np.arange(50_000) + 0.5) / 50_000) * 1460
        means.append(drawn.mean())
        tops.append(np.quantile(drawn, 0.999))
    assert np.mean(means) == pytest.approx(level.mean(), rel=0.02)
    assert np.mean(tops) == pytest.approx(np.quantile(level, 0.999), rel=0.2)


# ---- what is missing


def test_what_is_missing_is_found_where_it_is_clear_and_nowhere_else():
    rng = np.random.default_rng(3)
    blocks = [whole(31), Block("k", "category", 1, 4), Block("f", "flag", 5, 1), whole(9, fallback=1)]
    cells = first_cells(blocks, 1000)
    rows, sd, lost = 10_000, 20.0, (0.3, 0.0, 0.02, 0.0)
    for _ in range(30):
        truth = np.concatenate(
            [
                np.append(np.full(c, (1 - m) / c), [m] * e)
                for c, e, m in zip(cells.counts, cells.missing, lost, strict=True)
            ]
        )
        noisy = truth * rows + rng.normal(0, sd, cells.total)
        found = missing_shares([(noisy, sd, cells)], rows)
        assert found == pytest.approx(lost, abs=0.01) and found[1] == found[3] == 0
        assert denoised(noisy, sd, rows, cells).values[0].sum() == pytest.approx(1)
    assert (clear_counts(rng.normal(0, 1, 100_000), 1.0, 100_000) == 0).all()


def test_a_class_misses_what_its_own_table_says_and_all_together_what_all_rows_do():
    block = whole(5)
    cells = Cells.aligned([block], [5], missing=True)
    pooled = Marginal.of("levels", np.ones(5), levels=5, missing=0.2)
    counts = np.array([[160.0] * 5 + [200.0], [150.0] * 5 + [250.0]]) * np.array([[9.0], [1.0]])
    seen = ClassTables.of(cells, counts, 5.0, counts.sum(axis=1), [pooled])
    assert seen.missing[1, 0] > seen.missing[0, 0] > 0.18
    assert seen.rows @ seen.missing[:, 0] / seen.rows.sum() == pytest.approx(0.2)
    noise = ClassTables.of(cells, counts, 500.0, counts.sum(axis=1), [pooled])
    assert noise.missing[:, 0] == pytest.approx([0.2, 0.2], abs=0.01)
