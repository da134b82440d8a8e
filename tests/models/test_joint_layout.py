"""Joint cells: whole cells that were counted, none too rare, what is missing apart; and how values lie in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.declare.space import Block
from adumbra.models.column_cells import first_cells, mass_cells
from adumbra.models.denoising import ColumnTables
from adumbra.models.joint_layout import JointLayout, supposed_layout
from adumbra.models.marginals import marginals_of

NUMBER = Block("n", "number", 0, 1)
AGE = Block("age", "number", 0, 1, levels=91)
FLAG = Block("f", "flag", 0, 1)
WORD = Block("w", "category", 0, 8)


def columns_of(blocks, rng, missing=0.1, skew=0.4):
    """Fine cells and the marginals of columns with random shares."""
    first = first_cells(blocks, 1000)
    made = ColumnTables([rng.dirichlet(np.full(count, skew)) for count in first.counts], np.full(len(blocks), missing))
    marginals = marginals_of(blocks, made, first)
    return mass_cells(first, [marginal.quantile for marginal in marginals], 64), marginals


@given(
    st.integers(4, 48), st.sampled_from([0.0, 0.001, 0.03]), st.sampled_from([0.05, 0.4, 5.0]), st.integers(0, 2**32)
)
@settings(max_examples=80, deadline=None)
def test_joint_cells_are_whole_fine_cells_and_hold_at_least_what_was_asked(parts, least, skew, seed):
    blocks = (NUMBER, AGE, FLAG, WORD)
    fine, marginals = columns_of(blocks, np.random.default_rng(seed), skew=skew)
    layout = JointLayout.of(fine, marginals, parts, least)
    for j, (merged, shares) in enumerate(zip(layout.cells.merged, layout.shares, strict=True)):
        assert len(merged) == fine.sizes[j] and set(merged) == set(range(layout.cells.counts[j]))
        assert shares.sum() == pytest.approx(1) and len(shares) == layout.cells.counts[j]
        assert merged[-1] == merged[:-1].max() + 1 and shares[-1] == pytest.approx(0.1, abs=1e-4), "missing is apart"
        if j < 3:  # in order: a joint cell is a run of neighbours
            assert (np.diff(merged) >= 0).all() and layout.ordered[j] == merged[-2] + 1
            assert layout.cells.counts[j] == 2 or shares[:-1].min() >= least - 1e-9
        else:
            assert layout.ordered[j] == 0
            own = marginals[j].shares * 0.9
            assert (np.bincount(merged[:-1])[merged[:-1]] == 1)[own >= least].all(), "only what is rare shares a cell"
            assert ((own < least).sum() < 2) or len(set(merged[:-1][own < least])) == 1 or (own < least).all()


def test_about_as_many_cells_as_asked_for_and_a_heavy_value_alone_with_cells_left_for_its_tail():
    rng = np.random.default_rng(0)
    fine, marginals = columns_of((NUMBER,), rng, skew=50.0)
    counts = [JointLayout.of(fine, marginals, parts, 0.0).ordered[0] for parts in (8, 16, 32)]
    assert [abs(count - parts) <= 3 for count, parts in zip(counts, (8, 16, 32), strict=True)] == [True] * 3
    shares = np.full(91, 0.08 / 90)
    shares[0] = 0.92
    cells = first_cells((AGE,), 1000)
    heavy = marginals_of((AGE,), ColumnTables([shares], np.zeros(1)), cells)
    layout = JointLayout.of(cells, heavy, 16, 0.0)
    assert (layout.cells.merged[0][:-1] == 0).sum() == 1 and layout.shares[0][0] == pytest.approx(0.92, abs=1e-3)
    assert layout.ordered[0] >= 8, "most rows at one value, and the others are still told apart"


def test_rare_values_share_a_cell_but_for_columns_that_stay_whole():
    shares = np.array([0.5, 0.3, 0.17, 0.01, 0.01, 0.004, 0.003, 0.003])
    cells = first_cells((WORD, Block("y", "category", 8, 8)), 100)
    marginals = marginals_of(cells.blocks, ColumnTables([shares, shares], np.zeros(2)), cells)
    layout = JointLayout.of(cells, marginals, 16, 0.02, whole=(1,))
    assert layout.cells.merged[0][:8].tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    assert layout.cells.merged[1][:8].tolist() == list(range(8))
    none = JointLayout.of(cells, marginals, 16, 0.004)
    assert none.cells.merged[0][:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 6], "from the rarest, and no more than needed"


def test_no_missing_cell_is_no_joint_cell():
    fine, marginals = columns_of((NUMBER, WORD), np.random.default_rng(1), missing=0.0)
    layout = JointLayout.of(fine, marginals, 16, 0.0)
    for j in (0, 1):
        merged = layout.cells.merged[j]
        assert merged[-1] in set(merged[:-1]), "a row that turns up all the same is counted somewhere"
        assert not np.isnan(
            layout.values(j, np.arange(layout.cells.counts[j]), np.full(layout.cells.counts[j], 0.5))
        ).any()
    kept = JointLayout.of(*columns_of((NUMBER,), np.random.default_rng(1), missing=0.2), 16, 0.0)
    drawn = kept.values(0, np.array([kept.cells.counts[0] - 1]), np.array([0.5]))
    assert np.isnan(drawn).all()


@given(st.integers(0, 2**32), st.sampled_from([0.1, 1.0]))
@settings(max_examples=30, deadline=None)
def test_values_lie_in_their_cells_and_cells_with_their_shares_give_the_column_back(seed, skew):
    blocks = (NUMBER, AGE, FLAG, WORD)
    rng = np.random.default_rng(seed)
    fine, marginals = columns_of(blocks, rng, skew=skew)
    layout = JointLayout.of(fine, marginals, 16, 0.01)
    for j, block in enumerate(blocks):
        cell = rng.choice(layout.cells.counts[j], 20_000, p=layout.shares[j])
        values = layout.values(j, cell, rng.random(20_000))
        there = ~np.isnan(values)
        assert (~there).mean() == pytest.approx(0.1, abs=0.01)
        alone = Block(block.column, block.kind, 0, block.width, levels=block.levels)
        own = type(fine)((alone,), (fine.counts[j],), (fine.cuts[j],), (fine.missing[j],))
        encoded = np.eye(8)[values[there].astype(int)] if block.kind == "category" else values[there][:, None]
        found = own.of(encoded)[:, 0]
        assert (layout.cells.merged[j][found] == cell[there]).mean() >= 0.999  # a value may sit on an edge
        if block.kind == "category":
            assert np.abs(np.bincount(found, minlength=8) / there.sum() - marginals[j].shares).max() < 0.02
        if block.kind == "number":
            at = (values[there] / 65536 + 0.5)[:, None]
            for u in (0.1, 0.5, 0.9):
                edge = float(marginals[j].quantile(np.array([u]))[0])
                assert (at < edge - 0.006).mean() <= u + 0.02 <= (at <= edge + 0.006).mean() + 0.04


def test_a_layout_of_nothing_known_has_a_cell_for_every_value_and_equal_ones_for_numbers():
    layout = supposed_layout((NUMBER, AGE, FLAG, WORD), 16)
    assert layout.cells.counts[2:] == (3, 9)
    assert all(14 <= count <= 20 for count in layout.cells.counts[:2])
