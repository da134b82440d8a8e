"""Flags and few levels: rows drawn from the corrected model have the correlations the model tells of."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.declare.space import Block
from adumbra.mechanisms import hybrid
from adumbra.models.attenuation import latent_correlations, unattenuated
from adumbra.models.marginals import Marginal
from adumbra.models.score_layout import ScoreLayout
from adumbra.models.two_round_gaussian import Latent, noise_rows

CLEAR = 0.01  # sd of the noise on a correlation


def layout(*tables, numbers=0, missing=0.0):
    """Columns of few levels with these tables of shares, the first of them sometimes empty, after some numbers."""
    blocks = [Block(f"n{i}", "number", i, 1) for i in range(numbers)]
    blocks += [Block(f"c{i}", "flag", numbers + i, 1) for i in range(len(tables))]
    edges = np.linspace(0, 1, 11)
    marginals = [Marginal.of("number", np.ones(10), edges) for _ in range(numbers)]
    marginals += [Marginal.of("levels", np.array(t), missing=0.0 if i else missing) for i, t in enumerate(tables)]
    return ScoreLayout(tuple(blocks), tuple(marginals), (numbers,) if missing else ())


def model(total, means=None):
    """A model with these total correlations and class means, classes of equal size."""
    means = np.zeros((1, len(total))) if means is None else means - np.mean(means, axis=0)
    shares = np.full(len(means), 1 / len(means))
    return Latent(shares, means, np.linalg.cholesky(total - (means.T * shares) @ means), np.zeros(len(total)))


def one_factor(loads):
    total = np.outer(loads, loads)
    np.fill_diagonal(total, 1.0)
    return total


def decoded(latent, where, rows=60_000):
    """Correlations of the scores of drawn rows, and their class means in standard deviations."""
    groups = np.repeat(np.arange(len(latent.shares)), rows // len(latent.shares))
    drawn = noise_rows(latent, groups, np.random.default_rng(1)).astype(np.float64)
    for j, marginal in enumerate(where.marginals):
        order, place = np.argsort(drawn[:, where.positions[j]]), where.positions[j]
        drawn[order, place] = marginal.scores(marginal.quantile((np.arange(len(order)) + 0.5) / len(order)))[:, 0]
    drawn = (drawn - drawn.mean(axis=0)) / drawn.std(axis=0)
    return np.corrcoef(drawn.T), np.stack([drawn[groups == g].mean(axis=0) for g in range(len(latent.shares))])


def test_even_flags_have_the_known_answer():
    """The correlation of two signs is 2 / pi times the arc sine of the latent one (Sheppard)."""
    flags = np.linspace(-0.75, 0.75, 11)
    series = np.zeros((40, 1, 2))  # Hermite coefficients of a sign: 0 for the even ones
    one = 2 / np.sqrt(2 * np.pi)
    for k in range(1, 41, 2):
        series[k - 1] = one / np.sqrt(k)
        one = -one * np.sqrt(k / (k + 1))  # the polynomials at 0
    for wanted in flags:
        found = latent_correlations(np.array([[1, wanted], [wanted, 1]]), series, np.ones(1))[0, 1]
        assert found == pytest.approx(np.sin(np.pi / 2 * wanted), abs=0.003)


def told_by(truth, where):
    """The model that moments of rows drawn from the `truth` would tell of: correlations and class means of scores."""
    correlation, means = decoded(truth, where)
    return model(correlation, means)


def test_the_latent_correlations_of_flags_and_levels_are_found_again():
    where = layout([0.5, 0.5], [0.8, 0.2], [0.3, 0.7], [0.3, 0.4, 0.2, 0.1], [0.6, 0.4])
    truth = model(one_factor(np.array([0.85, 0.75, 0.7, 0.9, -0.8])))
    told = told_by(truth, where)
    found = unattenuated(told, where, CLEAR)
    wanted, before, after = (each.root @ each.root.T for each in (truth, told, found))
    off = ~np.eye(5, dtype=bool)
    assert np.abs(before - wanted)[off].mean() > 0.15 and np.abs(after - wanted)[off].max() < 0.02
    drawn, drawn_before = decoded(found, where)[0], decoded(told, where)[0]
    assert np.abs(drawn - before)[off].max() < 0.02 and np.abs(drawn_before - before)[off].mean() > 0.1


def test_so_are_class_means():
    where = layout(*[[1 - p, p] for p in (0.5, 0.4, 0.3, 0.6, 0.2, 0.5)])
    means = np.array(
        [[0.4, 0.5, -0.3, 0.0, 0.4, 0.6], [-0.4, 0.0, -0.5, 0.4, 0.2, -0.6], [0.0, -0.5, 0.8, -0.4, -0.6, 0]]
    )
    truth = model(one_factor(np.full(6, 0.65)), np.array(means) / 1.5)
    told = told_by(truth, where)
    found = unattenuated(told, where, CLEAR)
    off = ~np.eye(6, dtype=bool)
    within, before, after = (each.root @ each.root.T for each in (truth, told, found))
    assert np.abs(told.means - truth.means).max() > 0.06 and np.abs(found.means - truth.means).max() < 0.03
    assert np.abs(before - within)[off].mean() > 0.1 and np.abs(after - within)[off].max() < 0.05


def test_numbers_keep_their_correlations_and_nothing_is_drawn():
    where = layout([0.5, 0.5], [0.7, 0.3], [0.4, 0.6], numbers=2)
    told = model(one_factor(np.array([0.7, 0.6, 0.5, 0.6, 0.4])))
    new, again = (unattenuated(told, where, CLEAR) for _ in range(2))
    assert np.array_equal(new.root, again.root) and np.array_equal(new.means, again.means)
    before, after = told.root @ told.root.T, new.root @ new.root.T
    assert after[:2] == pytest.approx(before[:2], abs=1e-9)
    assert (after[2:, 2:] > before[2:, 2:] + 0.05).sum() == 6


@pytest.mark.parametrize("seed", range(8))
def test_whatever_noise_tells_the_model_stays_one(seed):
    """Wild correlations and class means: unit variances, no direction lost, no correlation too strong."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 30))
    where = layout(*[[1 - p, p] for p in rng.uniform(0.001, 0.999, count)], missing=0.3 * (seed % 2))
    width = where.scores.dimension
    root = rng.normal(size=(width, rng.integers(1, 5))) * rng.uniform(0.3, 3)
    means = rng.normal(size=(int(rng.integers(1, 7)), width)) * rng.uniform(0, 1.5)
    means -= means.mean(axis=0)
    covariance = root @ root.T + 0.1 * np.eye(width) + means.T @ means / len(means)
    unit = 1 / np.sqrt(np.diag(covariance))
    told = model(covariance * np.outer(unit, unit), means * unit)
    new = unattenuated(told, where, CLEAR)
    total = new.root @ new.root.T + (new.means.T * new.shares) @ new.means
    assert np.diag(total) == pytest.approx(1.0) and np.isfinite(total).all()
    assert np.linalg.eigvalsh(new.root @ new.root.T)[0] > 0
    assert new.shares @ new.means == pytest.approx(0.0, abs=1e-9)


def test_correlations_that_no_flags_can_have_change_nothing():
    """As noise makes them: of any sign, so strong that the latent ones would be no covariance."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(30, 3))
    root /= np.sqrt((root**2).sum(axis=1) / 0.8)[:, None]
    told = model(root @ root.T + 0.2 * np.eye(30))
    where = layout(*[[1 - p, p] for p in rng.uniform(0.02, 0.98, 30)])
    assert unattenuated(told, where, CLEAR) is told


def test_noise_rare_flags_and_single_columns_change_nothing():
    where, told = layout([0.5, 0.5], [0.5, 0.5]), model(one_factor(np.array([0.7, 0.7])))
    assert unattenuated(told, where, CLEAR) is not told
    assert unattenuated(told, where, 0.3) is told
    assert unattenuated(told, layout([0.5, 0.5], [0.9995, 0.0005]), CLEAR) is told
    assert unattenuated(told, layout([0.5, 0.5], numbers=1), CLEAR) is told


def test_what_is_missing_together_is_drawn_together():
    """Whether a cell is there is a flag like any other, beside those of values."""
    where = layout([0.5, 0.5], [0.7, 0.3], missing=0.4)
    total = np.eye(3)
    total[1, 2] = total[2, 1] = 0.5  # the second flag, and whether the first is there
    new = unattenuated(model(total), where, CLEAR)
    after = new.root @ new.root.T
    assert after[1, 2] > 0.6 and abs(after[0, 1]) < 1e-4 and abs(after[0, 2]) < 1e-4


def tied_flags(rows, columns=12):
    rng = np.random.default_rng(5)
    common = rng.normal(size=(rows, 1))
    flags = (0.6 * common + 0.8 * rng.normal(size=(rows, columns))) > rng.uniform(-1, 1, columns)
    data = {f"c{j:02d}": flags[:, j].astype(int) for j in range(columns)}
    data["y"] = np.where(common[:, 0] + rng.normal(size=rows) > 0, "b", "a").tolist()
    schema = {name: {"kind": "flag"} for name in data if name != "y"}
    schema["y"] = {"kind": "category", "values": ["a", "b"], "role": "label"}
    return pl.DataFrame(data), ad.Schema.from_dict({"columns": schema})


def correlations(frame):
    return np.corrcoef(frame.drop("y").cast(pl.Float64).to_numpy().T)


def test_released_flags_are_as_correlated_as_the_private_ones(monkeypatch):
    """Mean error .03, and .08 with the model's correlations as they are: a bias that no epsilon takes away."""
    frame, schema = tied_flags(6000)
    off = ~np.eye(12, dtype=bool)

    def error():
        drawn = ad.release(frame, schema, hybrid.Hybrid(), ad.Budget(4.0, 1e-4)).table
        return np.abs(correlations(drawn) - correlations(frame))[off].mean()

    assert error() < 0.05
    monkeypatch.setattr(hybrid, "unattenuated", lambda latent, *_: latent)
    assert error() > 0.065
