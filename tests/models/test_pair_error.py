"""The predicted error of pairs, beside tables that were measured with noise and denoised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adumbra.common.types import Reals
from adumbra.models.pair_error import PairColumn, kept_above, predicted_pair_error

ROWS = 40_000


def centred(table: Reals) -> Reals:
    return table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()


def least_squares(noisy: Reals, a: Reals, b: Reals) -> Reals:
    """The nearest table without negative counts that has these margins, by alternating projections (Dykstra)."""
    out, back = noisy, np.zeros_like(noisy)
    for _ in range(80):
        over_a, over_b = a - out.sum(axis=1), b - out.sum(axis=0)
        out = out + over_a[:, None] / len(b) + over_b / len(a) - over_a.sum() / noisy.size
        back, out = np.minimum(out + back, 0.0), np.maximum(out + back, 0.0)
    return out


def clear_of_noise(residual: Reals, sd: float) -> Reals:
    """The same without the singular values that noise alone may have."""
    left, values, right = np.linalg.svd(residual, full_matrices=False)
    largest = sd * sum(math.sqrt(max(size - 1, 0)) for size in residual.shape)
    return (left * np.where(values > largest, values, 0.0)) @ right


def table_of(a: PairColumn, b: PairColumn, strength: float) -> Reals:
    """Counts of two columns of which high cells of one go with high cells of the other."""
    at = [np.linspace(-1, 1, len(column.shares)) for column in (a, b)]
    table = np.outer(a.shares, b.shares) * np.exp(strength * np.outer(*at))
    for _ in range(50):
        table *= (a.shares / table.sum(axis=1))[:, None]
        table *= b.shares / table.sum(axis=0)
    return table * ROWS


def seen(a: PairColumn, b: PairColumn, sd: float, strength: float, rng: np.random.Generator) -> float:
    table = table_of(a, b, strength)
    prior = np.outer(a.shares, b.shares) * ROWS
    residual = clear_of_noise(centred(table - prior) + centred(rng.normal(0, sd, table.shape)), sd)
    off = least_squares(prior + residual, table.sum(axis=1), table.sum(axis=0)) - table
    for column, axis in ((a, 0), (b, 1)):
        if column.compared is not None:
            off = np.moveaxis(column.compared @ np.moveaxis(off, axis, 0), 0, axis)
    return 0.5 * float(np.abs(off).sum()) / ROWS


def skewed(cells: int) -> PairColumn:
    return PairColumn.supposed(cells, ordered=False)


COLUMNS = {
    "flag": skewed(2),
    "value": skewed(7),
    "values": skewed(40),
    "number": PairColumn.supposed(32, ordered=True),
    "even": PairColumn(np.full(16, 1 / 16)),
}


@pytest.mark.parametrize("sd", [5.0, 20.0, 50.0])
@pytest.mark.parametrize("pair", [("flag", "flag"), ("flag", "number"), ("value", "values"), ("number", "number")])
def test_predicted_beside_seen(pair, sd):
    rng = np.random.default_rng(0)
    a, b = (COLUMNS[name] for name in pair)
    found = np.mean([seen(a, b, sd, strength, rng) for strength in (0.2, 1.0, 2.0) for _ in range(30)])
    assert 1 / 2 < predicted_pair_error(a, b, sd, ROWS) / found < 2


def test_cells_that_are_compared_together_lose_noise_and_errors_of_columns_add():
    number, value = COLUMNS["number"], COLUMNS["value"]
    alone = PairColumn(number.shares)
    assert predicted_pair_error(number, value, 50, ROWS) < 0.7 * predicted_pair_error(alone, value, 50, ROWS)
    off = PairColumn(value.shares, None, 0.03)
    error = predicted_pair_error(number, value, 50, ROWS)
    assert predicted_pair_error(number, off, 50, ROWS) == pytest.approx(math.hypot(error, 0.03))
    assert predicted_pair_error(number, value, 0.0, ROWS) == 0.0
    assert predicted_pair_error(number, PairColumn(value.shares, None, 2.0), 50, ROWS) == 1.0


def test_a_column_that_is_supposed_has_shares_and_whole_cells():
    for column in COLUMNS.values():
        assert column.shares.sum() == pytest.approx(1.0)
        if column.compared is not None:
            assert column.compared.shape == (10, 32) and column.compared.sum(axis=0) == pytest.approx(1.0)
    assert PairColumn.supposed(1, ordered=True).shares.tolist() == [1.0]
    assert predicted_pair_error(skewed(1), skewed(5), 50, ROWS) == 0.0


@pytest.mark.parametrize("pair", [("flag", "flag"), ("flag", "number"), ("value", "values"), ("number", "number")])
def test_dependence_above_what_is_kept_stands_out_of_the_noise(pair):
    """By the largest singular value, for dependence of one kind of half and of twice the strength."""
    a, b = (COLUMNS[name] for name in pair)
    rng, sd = np.random.default_rng(1), 30.0
    needed = kept_above(a, b, sd, ROWS)
    prior = np.outer(a.shares, b.shares) * ROWS
    noise = [centred(rng.normal(0, sd, prior.shape)) for _ in range(100)]
    largest = np.quantile([np.linalg.norm(each, 2) for each in noise], 0.99)
    for times, shown in ((0.4, 0.2), (2.5, 0.95)):
        strengths = np.geomspace(1e-3, 5, 200)
        table = min(
            (table_of(a, b, s) for s in strengths),
            key=lambda t: abs(0.5 * np.abs(t - prior).sum() / ROWS - times * needed),
        )
        over = np.mean([np.linalg.norm(centred(table - prior) + each, 2) > largest for each in noise])
        assert over <= shown if times < 1 else over >= shown
