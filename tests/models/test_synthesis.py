"""Post-processing: what is made of noisy numbers is a proper model, and better than taking them as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.declare.space import GRID, HALF, Block, Space
from adumbra.models.column_cells import as_cells, equal_cells, form_of, mass_cells, unit_edges
from adumbra.models.columns import Columns, drawing, in_batches
from adumbra.models.denoising import denoised, shrunk_deviations
from adumbra.models.marginals import Marginal
from adumbra.models.sharpening import sharpened
from adumbra.models.shrinkage import apportion, class_counts, onto_simplex, shrunk_to, soft_spectrum, stein_means
from adumbra.models.two_round_gaussian import Latent, NoisyMoments, fit_pilot, noise_rows, refined
from adumbra.queries.cells import Cells


def numbers(count):
    return [Block(f"c{i}", "number", i, 1) for i in range(count)]


# ---- columns


def test_a_mistyped_label_is_told_the_nearest_and_how_many_more_there_are():
    space = Space((*numbers(14), Block("income", "flag", 14, 1)))
    with pytest.raises(InputError) as refused:
        Columns.split(space, ("incme",), ())
    assert refused.value.remedy.startswith("did you mean 'income'? use one of: 'c0', ")
    assert refused.value.remedy.endswith(" and 5 more")


# ---- shares


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.1, 10))
@settings(max_examples=200, deadline=None)
def test_the_nearest_shares_are_shares_and_nothing_is_nearer(values, total):
    noisy = np.array(values)
    found = onto_simplex(noisy, total)
    assert found.min() >= 0 and found.sum() == pytest.approx(total)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = rng.dirichlet(np.ones(len(noisy))) * total
        assert ((found - noisy) ** 2).sum() <= ((other - noisy) ** 2).sum() + 1e-9


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_apportioned_rows_add_up_and_are_within_one_of_their_share(shares, total):
    found = apportion(np.array(shares), total)
    assert found.sum() == total
    assert np.abs(found - np.array(shares) / sum(shares) * total).max() < 1 + 1e-9


def test_batches_add_up():
    assert sum(in_batches(100_003, 500)) == 100_003
    assert list(in_batches(5, 10**9)) == [1] * 5


def test_draws_repeat_with_the_seed_and_differ_by_purpose():
    seed = PublicSeed.given("x")
    assert drawing(seed, "a").random() == drawing(seed, "a").random() != drawing(seed, "b").random()


# ---- tables


def test_pure_noise_around_a_guess_is_taken_out():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.02, (200, 10))
    left = shrunk_deviations(noise, np.asarray(0.02**2), True)
    assert (left**2).mean() < 0.03 * (noise**2).mean()


def test_what_is_far_above_the_noise_stays():
    rng = np.random.default_rng(2)
    real = np.outer(rng.normal(size=50), np.sin(np.arange(10)))
    real -= real.mean(axis=1, keepdims=True)  # both tables add up to 1
    left = shrunk_deviations(real + rng.normal(0, 0.01, real.shape), np.asarray(0.01**2), True)
    assert np.abs(left - real).mean() < 0.02


@pytest.mark.parametrize("rows", [300, 3000, 300_000])
def test_denoised_tables_are_nearer_the_truth_than_noisy_ones(rows):
    rng = np.random.default_rng(3)
    blocks = [*numbers(20), Block("k", "category", 20, 4), Block("f", "flag", 24, 1)]
    cells = equal_cells(blocks, 10)
    truth = []
    for count in cells.counts:
        table = np.exp(-0.5 * ((np.arange(count) - rng.uniform(0, count)) / rng.uniform(1, 3)) ** 2) + 1e-3
        truth.append(table / table.sum())
    sd = 25.0
    noisy = np.concatenate(truth) * rows + rng.normal(0, sd, cells.total)
    clean = denoised(noisy, sd, rows, cells).values
    raw = [onto_simplex(noisy[s : s + c] / rows) for s, c in zip(cells.starts, cells.counts, strict=True)]

    def error(tables):
        return np.mean([np.abs(a - b).sum() for a, b in zip(tables, truth, strict=True)])

    assert error(clean) <= error(raw) * 1.03
    if rows == 300:
        assert error(clean) < 0.7 * error(raw)
    assert all(table.min() >= 0 and table.sum() == pytest.approx(1) for table in clean)


def test_forms_follow_the_schema():
    assert form_of(Block("a", "number", 0, 1)) == "number"
    assert form_of(Block("a", "number", 0, 1, levels=5)) == "levels"
    assert form_of(Block("a", "number", 0, 1, levels=50)) == "number"
    assert form_of(Block("a", "flag", 0, 1)) == form_of(Block("a", "category", 0, 2)) == "levels"
    assert form_of(Block("a", "category", 0, 3)) == form_of(Block("a", "category", 0, 1)) == "values"


def test_cells_of_equal_mass_hold_equal_mass_and_the_ends_apart():
    rng = np.random.default_rng(4)
    values = rng.beta(0.6, 6, 50_000)
    values[:5000] = 0.0
    first = equal_cells(numbers(1), 40)
    table = np.bincount(as_cells(values, first, 0), minlength=40) / len(values)
    marginal = Marginal.of("number", table, unit_edges(first, 0))
    fine = mass_cells(first, [marginal.quantile], 16)
    counts = np.bincount(as_cells(values, fine, 0), minlength=fine.counts[0])
    assert counts[0] == (np.rint(values * GRID) == 0).sum() and counts[-1] == 0
    assert counts[1:-1].max() < 3 * len(values) / 16
    sharper = sharpened([marginal], 1.0, counts * 1.0, 1.0, len(values), fine)[0]
    assert sharper.shares[0] == pytest.approx(counts[0] / len(values), abs=0.01)  # the atom at 0
    assert set(sharper.quantile(np.linspace(0, 0.99 * counts[0] / len(values), 9))) == {0.0}
    wanted = np.quantile(values, [0.2, 0.5, 0.9])
    found = sharper.quantile(np.array([0.2, 0.5, 0.9]))
    assert np.abs(found - wanted).max() < 0.01


def test_scores_are_standardised_under_their_own_table():
    rng = np.random.default_rng(5)
    for form, count in (("number", 20), ("levels", 6), ("values", 5)):
        table = rng.dirichlet(np.ones(count))
        edges = np.linspace(0, 1, count + 1) if form == "number" else None
        marginal = Marginal.of(form, table, edges)
        drawn = marginal.quantile(rng.random(200_000)) if form != "values" else rng.choice(count, 200_000, p=table)
        scores = marginal.scores(np.asarray(drawn, float))
        assert np.abs(scores.mean(axis=0)).max() < 0.05
        assert scores.var(axis=0) == pytest.approx(marginal.variances, rel=0.1, abs=0.02)


def test_linear_scores_agree_with_scores():
    marginal = Marginal.of("number", np.array([0.5, 0.3, 0.1, 0.1]), np.linspace(0, 1, 5))
    centre, scale, limit = marginal.linear()
    values = np.linspace(0, 1, 50)
    steps = (values - 0.5) * GRID
    assert np.clip((steps - centre) / scale, -limit, limit) == pytest.approx(marginal.scores(values)[:, 0])
    assert abs(centre) <= HALF


# ---- moments


def test_class_counts_add_up_and_never_vanish():
    rng = np.random.default_rng(6)
    for _ in range(50):
        counts = class_counts(rng.normal(50, 200, 7), 200.0, 350.0)
        assert counts.sum() == pytest.approx(350) and counts.min() > 0
    assert class_counts(np.array([100.0, 300.0, 600.0]), 1.0, 1000.0) == pytest.approx([100, 300, 600], abs=2)


def test_means_and_values_shrink_as_the_noise_says():
    rng = np.random.default_rng(7)
    counts = np.array([100.0, 100.0])
    noise = rng.normal(0, 50, (2, 400))
    _, deviations = stein_means(noise, counts, 50.0)
    assert (deviations**2).sum() < 0.1 * ((noise / 100) ** 2).sum()
    assert shrunk_to(0.0, noise[0], 50.0**2).std() < 10
    assert shrunk_to(0.0, np.array([100.0, -100.0]), 1.0) == pytest.approx([100, -100], rel=1e-3)


def test_the_spectrum_keeps_its_trace_and_drops_noise():
    rng = np.random.default_rng(8)
    truth = np.eye(60)
    truth[0, 0] = 30.0
    noise = rng.normal(0, 0.5, (60, 60))
    noisy = truth + (noise + noise.T) / np.sqrt(2)
    vectors, values = soft_spectrum(noisy, 0.5)
    assert values.sum() == pytest.approx(np.trace(noisy), rel=0.02) and values.min() > 0
    assert values[-1] > 15 and values[-2] < 5
    assert abs(vectors[0, -1]) > 0.95


def world(seed=9, rows=20_000, width=12, classes=3):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(width, 3))
    within = factor @ factor.T / 4 + np.eye(width) * 0.5
    means = rng.normal(size=(classes, width))
    shares = np.array([0.5, 0.3, 0.2])
    means = means - shares @ means
    total = within + (means.T * shares) @ means
    unit = np.sqrt(np.diag(total))
    return rng, shares, means / unit, within / np.outer(unit, unit), rows


def moments_of(shares, means, second, rows, sd, rng):
    """Noisy moments of a population, as a look would give them (nothing cut)."""
    width = means.shape[1]
    noise = rng.normal(0, sd / rows * np.sqrt(2), (width, width))
    return NoisyMoments(
        shares * rows + rng.normal(0, sd, len(shares)),
        means * (shares * rows)[:, None] + rng.normal(0, sd, means.shape),
        second + (noise + noise.T) / 2,
        sd,
        sd,
        sd / rows,
        rows,
    )


def two_rounds(sd, cautious=False):
    rng, shares, means, within, rows = world()
    total = within + (means.T * shares) @ means
    first = moments_of(shares, means, total, rows, sd, rng)
    pilot = fit_pilot(first, np.ones(means.shape[1]), cautious)
    matrix, centres = pilot.whitening(1.0)
    white = means @ matrix - centres
    second = moments_of(shares, white, matrix.T @ within @ matrix + (white.T * shares) @ white, rows, sd, rng)
    return refined(first, second, pilot, cautious), shares, means, within


def test_without_noise_both_rounds_give_the_model_back():
    latent, shares, means, within = two_rounds(1e-3)
    unit = np.sqrt(np.diag(within) + shares @ means**2)
    assert latent.shares == pytest.approx(shares, abs=1e-3)
    assert latent.means == pytest.approx(means / unit, abs=0.05)
    assert latent.root @ latent.root.T == pytest.approx(within / np.outer(unit, unit), abs=0.06)


@pytest.mark.parametrize("sd", [10.0, 200.0, 5000.0, 1e6])
@pytest.mark.parametrize("cautious", [True, False])
def test_any_noise_gives_a_proper_model(sd, cautious):
    latent, *_ = two_rounds(sd, cautious)
    covariance = latent.root @ latent.root.T
    assert np.isfinite(covariance).all() and np.linalg.eigvalsh(covariance)[0] > 0
    total = covariance + (latent.means.T * latent.shares) @ latent.means
    assert np.diag(total) == pytest.approx(np.ones(len(total)))
    assert latent.shares.min() > 0 and latent.shares.sum() == pytest.approx(1)


def test_more_noise_means_smaller_means():
    sizes = [float((two_rounds(sd)[0].means ** 2).sum()) for sd in (10.0, 2000.0, 50_000.0)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_drawn_rows_have_the_models_own_moments():
    rng, shares, means, within, _ = world()
    unit = np.sqrt(np.diag(within) + shares @ means**2)
    root = np.linalg.cholesky(within / np.outer(unit, unit))
    latent = Latent(shares, means / unit, root, np.zeros(len(unit)))
    groups = np.repeat(np.arange(3), [500, 300, 200])
    drawn = noise_rows(latent, groups, rng)
    for group in range(3):
        assert drawn[groups == group].mean(axis=0) == pytest.approx(latent.means[group], abs=1e-4)
    residual = drawn - latent.means[groups]
    assert residual.T @ residual / len(drawn) == pytest.approx(root @ root.T, abs=1e-3)


def test_cells_know_their_levels_and_edges():
    cells = Cells.even([Block("a", "number", 0, 1, levels=5), Block("b", "number", 1, 1)], 4)
    assert cells.counts == (5, 4)
    assert cells.level_positions(0).tolist() == [-HALF, -HALF / 2, 1, HALF / 2, HALF]  # 0 is for what is missing
    assert cells.level_positions(1) is None
    assert cells.edges(1) == pytest.approx(np.linspace(-HALF, HALF, 5))
