"""Tables from noisy residuals: proper tables with the margins they must have, and no more of them than is real."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.models.residual_tables import Residual, centred_table, denoised_pairs, denoised_triple


def margins_of(table):
    return [table.sum(axis=1), table.sum(axis=0)]


def noisy(table, sd, rng):
    """What is measured of a table: centred, and noise that was centred too."""
    return Residual(centred_table(table) + centred_table(rng.normal(0, sd, table.shape)), sd)


def of_pair(table, sd, rng, margins=None):
    return denoised_pairs(margins or margins_of(table), {(0, 1): noisy(table, sd, rng)})[0, 1]


def distance(one, two):
    return 0.5 * np.abs(one - two).sum()


def independent(table):
    return np.outer(*margins_of(table))


def permuted(cells, rng, strength=0.98):
    """Each value of one column goes with one of the other, nearly always."""
    table = np.full((cells, cells), (1 - strength) / cells**2)
    table[np.arange(cells), rng.permutation(cells)] += strength / cells
    return table


def smooth(cells):
    """Two numbers that are correlated."""
    x = np.linspace(-2, 2, cells)
    table = np.exp(-(x[:, None] ** 2 + x**2 - 1.2 * x[:, None] * x) / 1.28)
    return table / table.sum()


@given(st.integers(1, 9), st.integers(1, 9), st.floats(1e-5, 0.02), st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_every_table_has_its_margins_and_no_negative_cell(rows, columns, sd, seed):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(rows * columns, 0.3)).reshape(rows, columns)
    own = [np.maximum(m, 1e-6) / np.maximum(m, 1e-6).sum() for m in margins_of(table)]
    found = of_pair(table, sd, rng, own)
    assert found.shares.min() >= 0 and found.shares.sum() == pytest.approx(1)
    assert found.shares.sum(axis=0) == pytest.approx(own[1], abs=1e-6)
    assert found.shares.sum(axis=1) == pytest.approx(own[0], abs=5e-3), "as nearly as fitting goes"
    assert found.sd == sd and 0 <= found.strength < 1


def test_no_evidence_leaves_columns_independent():
    """Noise alone, in tables of many shapes: nearly all are taken for what they are, and no other is far off."""
    rng = np.random.default_rng(0)
    kept, off = [], []
    for cells in ((2, 2), (2, 8), (3, 9), (8, 8), (16, 16), (32, 5)):
        margins = [rng.dirichlet(np.full(c, 5.0)) for c in cells]
        table = np.outer(*margins)
        for _ in range(40):
            measured = noisy(table, 0.02 / np.sqrt(table.size), rng)
            found = denoised_pairs(margins, {(0, 1): measured})[0, 1]
            kept.append(found.strength > 0)
            off.append(distance(found.shares, table) / np.abs(measured.table - centred_table(table)).sum())
            if not found.strength:
                assert found.shares == pytest.approx(table, abs=1e-9)
    assert np.mean(kept) < 0.16 and np.mean(off) < 0.05


@pytest.mark.parametrize("make", [lambda rng: smooth(20), lambda rng: permuted(12, rng)])
def test_more_evidence_brings_the_table_back_with_error_that_falls_with_the_noise(make):
    rng = np.random.default_rng(1)
    table = make(rng)
    errors = [np.mean([distance(of_pair(table, sd, rng).shares, table) for _ in range(5)]) for sd in (3e-3, 1e-3, 1e-4)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.02
    assert errors[0] < distance(independent(table), table) * 0.75
    assert of_pair(table, 1e-7, rng).shares == pytest.approx(table, abs=2e-4)


def test_the_better_of_two_ways_is_taken():
    """Empty cells are known to be empty; a smooth table is known to be smooth: each gains by what it is."""
    rng = np.random.default_rng(2)
    for table, sd in ((permuted(20, rng, 1.0), 4e-3), (smooth(24), 1e-3)):
        for _ in range(5):
            measured = noisy(table, sd, rng)
            found = denoised_pairs(margins_of(table), {(0, 1): measured})[0, 1]
            as_it_is = np.maximum(measured.table + independent(table) - centred_table(independent(table)), 0)
            assert distance(found.shares, table) < 0.62 * distance(as_it_is / as_it_is.sum(), table)
    empty = permuted(20, rng, 1.0)
    found = of_pair(empty, 4e-3, rng)
    assert found.shares[empty == 0].sum() < 0.1 and found.strength > 0.8


def test_a_third_column_explains_what_noise_hides():
    """Two columns that follow a third: their own table is lost in noise, and comes back through it."""
    rng = np.random.default_rng(3)
    third = np.full(6, 1 / 6)
    one = np.full((6, 6), 0.1 / 6) + 0.9 * np.eye(6)
    joint = np.einsum("m,mj,mk->jk", third, one, one)
    shares = [joint.sum(axis=1), joint.sum(axis=0), third]
    tables = {(0, 1): joint, (0, 2): one.T * third, (1, 2): one.T * third}
    sds = {(0, 1): 0.02, (0, 2): 1e-3, (1, 2): 1e-3}
    alone, helped = [], []
    for _ in range(30):
        residuals = {pair: noisy(tables[pair], sds[pair], rng) for pair in tables}
        helped.append(distance(denoised_pairs(shares, residuals)[0, 1].shares, joint))
        alone.append(distance(denoised_pairs(shares[:2], {(0, 1): residuals[0, 1]})[0, 1].shares, joint))
    assert np.mean(helped) < 0.65 * np.mean(alone)
    assert np.max(np.array(helped) / alone) < 1.1, "and never worse"


def xor(cells=4, share=0.9):
    """A label that is the parity of two columns, nine times in ten: no pair tells anything."""
    table = np.zeros((2, cells, cells))
    for j in range(cells):
        for k in range(cells):
            table[:, j, k] = (1 - share, share) if (j + k) % 2 else (share, 1 - share)
    return table / table.sum()


def of_triple(table, sd, rng):
    residual = Residual(centred_table(table) + centred_table(rng.normal(0, sd, table.shape)), sd)
    return denoised_triple(table.sum(axis=2), table.sum(axis=1), table.sum(axis=0), residual)


def test_what_three_columns_tell_comes_back_and_their_pairs_stay():
    rng = np.random.default_rng(4)
    table = xor()
    found = of_triple(table, 1e-3, rng)
    assert distance(found.shares, table) < 0.03 and found.strength == pytest.approx(0.4, abs=0.05)
    for axis in range(3):
        assert found.shares.sum(axis=axis) == pytest.approx(table.sum(axis=axis), abs=1e-3)
    assert found.shares.min() >= 0


def test_three_columns_that_their_pairs_explain_are_no_table_of_three():
    rng = np.random.default_rng(5)
    label = np.array([0.3, 0.7])
    one, two = (rng.dirichlet(np.full(6, 2.0), 2) for _ in range(2))
    table = np.einsum("y,yj,yk->yjk", label, one, two)
    found = [of_triple(table, 2e-3, rng) for _ in range(20)]
    assert sum(own is not None for own in found) <= 3
