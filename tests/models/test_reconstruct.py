"""Rows from noisy rows: each map against brute force, at the limits of the noise and of the matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adumbra.common.errors import InputError
from adumbra.models.reconstruct import (
    Reconstruction,
    expected_row_error,
    moment_matched,
    posterior_draw,
    pseudo_inverse,
    pseudo_inverse_ensemble,
    second_moment,
    wiener,
)

WIDTH = 6
DIMENSIONS = (None, 1, 3, 6, 14)
NOISES = (0.0, 1e-6, 0.4, 3.0)


def moments(rank: int = WIDTH, seed: int = 0) -> np.ndarray:
    factor = np.random.default_rng(seed).normal(size=(WIDTH, rank)) * np.geomspace(1.0, 0.2, rank)
    return factor @ factor.T


def projection(k: int | None, seed: int = 1) -> np.ndarray | None:
    return None if k is None else np.random.default_rng([seed, k]).normal(0, 1 / math.sqrt(k), (WIDTH, k))


def seen(moment: np.ndarray, matrix: np.ndarray | None, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """R and the second moment of y."""
    r = np.eye(WIDTH) if matrix is None else matrix
    return r, r.T @ moment @ r + noise**2 * np.eye(r.shape[1])


def row_error(linear: np.ndarray, moment: np.ndarray, matrix: np.ndarray | None, noise: float) -> float:
    """E |x - yB|^2 by multiplying out."""
    r, total = seen(moment, matrix, noise)
    return float(np.trace(moment) - 2 * np.trace(moment @ r @ linear) + np.trace(linear.T @ total @ linear))


def output_moment(linear: np.ndarray, moment: np.ndarray, matrix: np.ndarray | None, noise: float) -> np.ndarray:
    _, total = seen(moment, matrix, noise)
    return linear.T @ total @ linear


def reachable(moment: np.ndarray, matrix: np.ndarray | None) -> np.ndarray:
    """The projector on range(CR), by a plain SVD."""
    r = np.eye(WIDTH) if matrix is None else matrix
    left, values, _ = np.linalg.svd(moment @ r)
    kept = left[:, : np.count_nonzero(values > 1e-9 * values.max())]
    return kept @ kept.T


def root(matrix: np.ndarray, power: float = 0.5) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.T


def simulated(moment: np.ndarray, matrix: np.ndarray | None, noise: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are not Gaussian (signs), with exactly this second moment on average, and what is seen of them."""
    rng = np.random.default_rng(7)
    values, vectors = np.linalg.eigh(moment)
    x = rng.choice([-1.0, 1.0], (n, WIDTH)) @ (vectors * np.sqrt(np.where(values > 1e-12, values, 0))).T
    r = np.eye(WIDTH) if matrix is None else matrix
    return x, x @ r + rng.normal(0, noise, (n, r.shape[1]))


# ------------------------------------------------------------------------------------------------ second moment


def test_without_noise_the_second_moment_is_the_plain_one():
    x = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_allclose(second_moment(x.T @ x, 50, 0.0), x.T @ x / 50, atol=1e-12)


def noise_matrix(width: int, sd: float, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed).normal(0, sd, (width, width))
    return (draw + draw.T) / math.sqrt(2)  # off-diagonal sd `sd`


def test_pure_noise_leaves_no_direction():
    """Below the edge of the semicircle everything goes into the even rest; just inside it something stays."""
    width, rows, sd = 60, 500, 2.0
    noisy = np.eye(width) + 0.9 * noise_matrix(width, sd, 0)
    found = second_moment(noisy, rows, sd)
    assert np.trace(noisy) > 0
    np.testing.assert_allclose(found, np.eye(width) * np.trace(noisy) / rows / width, atol=1e-12)
    assert np.ptp(np.linalg.eigvalsh(second_moment(noisy, rows, 0.8 * sd))) > 1e-3


def test_the_threshold_is_the_edge_of_the_semicircle():
    """One strong direction loses exactly 2 sd sqrt(d) / n, relative to the even rest."""
    width, rows, sd = 25, 100, 0.5
    strong = np.zeros((width, width))
    strong[0, 0] = 40.0
    values = np.linalg.eigvalsh(second_moment(strong, rows, sd))
    edge = 2 * sd * math.sqrt(width) / rows
    assert values[-1] - values[0] == pytest.approx(0.4 - edge)
    np.testing.assert_allclose(values[:-1], edge / width)


@pytest.mark.parametrize("seed", range(20))
def test_second_moment_is_semidefinite_and_keeps_the_trace(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 12))
    noisy = np.diag(rng.exponential(3.0, width)) + noise_matrix(width, rng.exponential(2.0), seed)
    found = second_moment(noisy, 10, float(rng.choice([0.0, 0.1, 1.0])))
    assert np.linalg.eigvalsh(found).min() >= -1e-12
    assert np.trace(found) == pytest.approx(max(np.trace(noisy), 0.0) / 10, abs=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_large_negative_eigenvalues_lower_the_rest_until_the_trace_is_right():
    found = second_moment(np.diag([5.0, 4.0, -6.0]), 1, 0.01)
    np.testing.assert_allclose(found, np.diag([2.0, 1.0, 0.0]), atol=1e-12)  # projection on the simplex of sum 3


def test_a_negative_or_cancelling_trace_gives_zero():
    for noisy in (np.diag([-2.0, 1.0]), np.zeros((3, 3)), np.diag([1.0, -1.0 + 1e-17])):
        np.testing.assert_array_equal(second_moment(noisy, 5, 1.0), np.zeros_like(noisy))


# ----------------------------------------------------------------------------------------------------- Wiener


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("noise", (0.4, 3.0))
def test_wiener_is_the_formula(k, noise):
    moment, matrix = moments(), projection(k)
    r, total = seen(moment, matrix, noise)
    np.testing.assert_allclose(wiener(moment, matrix, noise).matrix, np.linalg.solve(total, r.T @ moment), atol=1e-10)


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("rank", (2, WIDTH))
def test_no_other_linear_map_has_less_error(k, rank):
    """On simulated rows: with their own second moments Wiener's map is least squares, so no step away can help."""
    noise, moment, matrix = 0.7, moments(rank), projection(k)
    x, y = simulated(moment, matrix, noise, 4000)
    best = wiener(moment, matrix, noise)
    error = np.square(x - best.apply(y)).sum(axis=1).mean()
    assert error == pytest.approx(expected_row_error(moment, matrix, noise), rel=0.06)
    exact = row_error(best.matrix, moment, matrix, noise)
    rng = np.random.default_rng(3)
    for size in (1e-3, 0.03, 0.3, 1.0):
        for _ in range(25):
            other = best.matrix + size * rng.normal(size=best.matrix.shape)
            assert row_error(other, moment, matrix, noise) > exact - 1e-12
            if size >= 0.3:  # far enough for 4000 rows to tell
                assert np.square(x - y @ other).sum(axis=1).mean() > error
    assert row_error(best.matrix * 1.02, moment, matrix, noise) > exact
    assert row_error(best.matrix * 0.98, moment, matrix, noise) > exact


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("rank", (0, 2, WIDTH))
@pytest.mark.parametrize("noise", NOISES)
def test_expected_error_is_that_of_the_map(k, rank, noise):
    moment, matrix = moments(rank), projection(k)
    found = expected_row_error(moment, matrix, noise)
    assert found == pytest.approx(row_error(wiener(moment, matrix, noise).matrix, moment, matrix, noise), abs=1e-9)
    assert 0 <= found <= np.trace(moment) + 1e-12


def test_expected_error_in_closed_form():
    values = np.array([4.0, 1.0, 0.25, 0.0])
    assert expected_row_error(np.diag(values), None, 0.5) == pytest.approx((values * 0.25 / (values + 0.25)).sum())


@pytest.mark.parametrize("make", (wiener, moment_matched))
@pytest.mark.parametrize("k", DIMENSIONS)
def test_noise_to_zero_is_continuous(make, k):
    """At s = 0 each map is its own limit, also where y has fewer or more coordinates than the row."""
    moment, matrix = moments(), projection(k)
    limit = make(moment, matrix, 0.0).matrix
    np.testing.assert_allclose(make(moment, matrix, 1e-7).matrix, limit, atol=1e-5)
    if k is None or k >= WIDTH:
        x, y = simulated(moment, matrix, 0.0, 20)
        np.testing.assert_allclose(y @ limit, x, atol=1e-8)
        assert expected_row_error(moment, matrix, 0.0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("k", DIMENSIONS)
def test_large_noise_gives_zero_rows_or_the_prior(k):
    moment, matrix = moments(), projection(k)
    assert np.abs(wiener(moment, matrix, 1e9).matrix).max() < 1e-15
    assert expected_row_error(moment, matrix, 1e9) == pytest.approx(np.trace(moment))
    spread = posterior_draw(moment, matrix, 1e9).spread
    np.testing.assert_allclose(spread.T @ spread, moment, atol=1e-12)


# -------------------------------------------------------------------------------------------- moment matching


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("rank", (1, 3, WIDTH))
@pytest.mark.parametrize("noise", NOISES)
def test_matched_rows_have_the_second_moment_on_the_reachable_subspace(k, rank, noise):
    moment, matrix = moments(rank), projection(k)
    found = output_moment(moment_matched(moment, matrix, noise).matrix, moment, matrix, noise)
    reach = reachable(moment, matrix)
    np.testing.assert_allclose(found, reach @ moment @ reach, atol=1e-8)
    if k is None or k >= rank:
        np.testing.assert_allclose(found, moment, atol=1e-8)
    else:
        assert np.linalg.matrix_rank(found, tol=1e-8) == k


@pytest.mark.parametrize("noise", NOISES)
def test_matched_without_projection_is_the_printed_form(noise):
    moment = moments()
    wanted = root(moment + noise**2 * np.eye(WIDTH), -0.5) @ root(moment)
    np.testing.assert_allclose(moment_matched(moment, None, noise).matrix, wanted, atol=1e-9)


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("noise", (0.0, 0.4, 3.0))
def test_matched_is_the_transport_of_wieners_rows(k, noise):
    """The textbook transport between two Gaussians, W^-1/2 (W^1/2 C W^1/2)^1/2 W^-1/2, in the reachable basis."""
    moment, matrix = moments(), projection(k)
    linear = wiener(moment, matrix, noise).matrix
    values, vectors = np.linalg.eigh(reachable(moment, matrix))
    basis = vectors[:, values > 0.5]
    small = basis.T @ output_moment(linear, moment, matrix, noise) @ basis
    middle = root(root(small) @ basis.T @ moment @ basis @ root(small))
    transport = basis @ root(small, -0.5) @ middle @ root(small, -0.5) @ basis.T
    # The textbook form squares the condition of the nearly singular square matrix; the module's does not.
    np.testing.assert_allclose(moment_matched(moment, matrix, noise).matrix, linear @ transport, atol=2e-5)


@pytest.mark.parametrize("k", DIMENSIONS)
def test_no_other_map_with_that_second_moment_is_nearer(k):
    """Rivals: whiten y, turn it at random (also into coordinates of y that are pure noise), colour it."""
    noise, moment, matrix = 0.8, moments(), projection(k)
    best = moment_matched(moment, matrix, noise).matrix
    error = row_error(best, moment, matrix, noise)
    _, total = seen(moment, matrix, noise)
    wanted = output_moment(best, moment, matrix, noise)
    values, vectors = np.linalg.eigh(wanted)
    keep = values > 1e-9
    colour = (vectors[:, keep] * np.sqrt(values[keep])).T
    rng = np.random.default_rng(5)
    own = root(total) @ best @ np.linalg.pinv(colour)  # its own turn: k x p with orthonormal columns
    for size in (1e-4, 1e-2, 0.3, 10.0):
        for _ in range(20):
            turn, triangle = np.linalg.qr(own + size * rng.normal(size=own.shape))
            rival = root(total, -0.5) @ (turn * np.sign(np.diag(triangle))) @ colour
            np.testing.assert_allclose(output_moment(rival, moment, matrix, noise), wanted, atol=1e-9)
            assert row_error(rival, moment, matrix, noise) >= error - 1e-10
    assert error >= row_error(wiener(moment, matrix, noise).matrix, moment, matrix, noise)


def test_matched_rows_on_simulated_data():
    moment, matrix, noise = moments(), projection(14), 0.7
    _, y = simulated(moment, matrix, noise, 40_000)
    rows = moment_matched(moment, matrix, noise).apply(y)
    np.testing.assert_allclose(rows.T @ rows / len(rows), moment, atol=0.05 * np.trace(moment))


def test_a_direction_that_is_not_seen_stays_empty():
    """y shows only the first coordinate of independent ones: nothing is invented for the others."""
    moment, matrix = np.diag([4.0, 9.0]), np.array([[1.0, 1.0], [0.0, 0.0]])
    for made in (wiener(moment, matrix, 0.5), moment_matched(moment, matrix, 0.5)):
        assert np.abs(made.matrix[:, 1]).max() < 1e-12
    assert output_moment_of_two(moment_matched(moment, matrix, 0.5), moment, matrix, 0.5) == pytest.approx(4.0)


def output_moment_of_two(made: Reconstruction, moment: np.ndarray, matrix: np.ndarray, noise: float) -> float:
    total = matrix.T @ moment @ matrix + noise**2 * np.eye(2)
    return float((made.matrix.T @ total @ made.matrix)[0, 0])


# ---------------------------------------------------------------------------------------------- posterior draw


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("rank", (0, 2, WIDTH))
@pytest.mark.parametrize("noise", (0.0, 0.4, 3.0))
def test_draws_fill_up_the_second_moment(k, rank, noise):
    """In all directions, seen or not; and the spread is the printed covariance."""
    moment, matrix = moments(rank), projection(k)
    draw = posterior_draw(moment, matrix, noise)
    found = output_moment(draw.matrix, moment, matrix, noise) + draw.spread.T @ draw.spread
    np.testing.assert_allclose(found, moment, atol=1e-10)
    r, total = seen(moment, matrix, noise)
    printed = moment - moment @ r @ np.linalg.pinv(total, hermitian=True) @ r.T @ moment
    np.testing.assert_allclose(draw.spread.T @ draw.spread, printed, atol=1e-8)
    np.testing.assert_array_equal(draw.matrix, wiener(moment, matrix, noise).matrix)


def test_draws_on_simulated_data():
    """Second moment C, twice Wiener's error."""
    moment, matrix, noise = moments(), projection(3), 0.5
    x, y = simulated(moment, matrix, noise, 40_000)
    rows = posterior_draw(moment, matrix, noise).apply(y, np.random.default_rng(1))
    np.testing.assert_allclose(rows.T @ rows / len(rows), moment, atol=0.05 * np.trace(moment))
    twice = 2 * expected_row_error(moment, matrix, noise)
    assert np.square(x - rows).sum(axis=1).mean() == pytest.approx(twice, rel=0.03)


def test_batches_give_what_one_pass_gives():
    moment, matrix = moments(), projection(14)
    _, y = simulated(moment, matrix, 0.5, 100)
    draw = posterior_draw(moment, matrix, 0.5)
    whole = draw.apply(y, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    parts = [draw.apply(y[a:b], rng) for a, b in ((0, 1), (1, 40), (40, 40), (40, 100))]
    np.testing.assert_allclose(np.vstack(parts), whole, atol=1e-12)
    assert np.abs(whole - draw.apply(y, np.random.default_rng(3))).max() > 0.01


# ----------------------------------------------------------------------------------------------- pseudo-inverse


@pytest.mark.parametrize("k", (None, 6, 14))
def test_pseudo_inverse_is_exact_without_noise_at_full_rank(k):
    moment, matrix = moments(), projection(k)
    x, y = simulated(moment, matrix, 0.0, 20)
    np.testing.assert_allclose(pseudo_inverse(moment, matrix, WIDTH).apply(y), x, atol=1e-8)


@pytest.mark.parametrize("k", (3, 14))
def test_pseudo_inverse_is_exact_for_rows_in_the_subspace(k):
    moment = moments(2)
    x, y = simulated(moment, projection(k), 0.0, 20)
    np.testing.assert_allclose(pseudo_inverse(moment, projection(k), 2).apply(y), x, atol=1e-8)
    assert np.abs(pseudo_inverse(moment, projection(k), 1).apply(y) - x).max() > 0.1


def test_pseudo_inverse_without_projection_is_the_projector_on_the_leading_directions():
    moment = moments()
    _, vectors = np.linalg.eigh(moment)
    lead = vectors[:, -4:]
    np.testing.assert_allclose(pseudo_inverse(moment, None, 4).matrix, lead @ lead.T, atol=1e-12)


def test_pseudo_inverse_orders_as_an_svd_does():
    """A noisy matrix may have a large negative eigenvalue; the paper's SVD puts its direction first."""
    np.testing.assert_allclose(pseudo_inverse(np.diag([1.0, -5.0, 3.0]), None, 1).matrix, np.diag([0, 1.0, 0]), atol=0)


def test_an_ensemble_is_the_average_of_its_members():
    moment, members = moments(), [projection(8, 1), projection(14, 2), projection(8, 3)]
    x, _ = simulated(moment, None, 0.0, 30)
    rng = np.random.default_rng(4)
    seen_rows = [x @ one + rng.normal(0, 0.5, (30, one.shape[1])) for one in members]
    average = np.mean([pseudo_inverse(moment, r, 4).apply(y) for r, y in zip(members, seen_rows, strict=True)], axis=0)
    found = pseudo_inverse_ensemble(moment, members, 4).apply(np.hstack(seen_rows))
    np.testing.assert_allclose(found, average, atol=1e-12)


def test_stacking_beats_averaging():
    """Gauss-Markov: the noise of the stacked pseudo-inverse is never above that of the average."""
    moment, members = moments(), [projection(8, seed) for seed in range(1, 6)]
    stacked = pseudo_inverse(moment, np.hstack(members), WIDTH).matrix
    averaged = pseudo_inverse_ensemble(moment, members, WIDTH).matrix
    for linear in (stacked, averaged):
        np.testing.assert_allclose(np.hstack(members) @ linear, np.eye(WIDTH), atol=1e-9)  # both exact without noise
    gap = averaged.T @ averaged - stacked.T @ stacked
    assert np.linalg.eigvalsh(gap).min() > -1e-10
    assert np.trace(averaged.T @ averaged) > 1.2 * np.trace(stacked.T @ stacked)


def test_blocks_with_different_noise_are_divided_by_it():
    """The rule of the module's text: divide each block by its sd and give noise 1."""
    moment, first, second = moments(), projection(3, 1), projection(6, 2)
    divided = np.hstack([first / 0.5, second / 2.0])
    both = np.hstack([first, second])
    total = both.T @ moment @ both + np.diag([0.25] * 3 + [4.0] * 6)
    direct = np.linalg.solve(total, both.T @ moment)
    scale = np.array([0.5] * 3 + [2.0] * 6)
    np.testing.assert_allclose(wiener(moment, divided, 1.0).matrix / scale[:, None], direct, atol=1e-10)


# ------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("k", DIMENSIONS)
@pytest.mark.parametrize("noise", NOISES)
def test_no_second_moment_gives_zero_rows(k, noise):
    nothing, matrix = np.zeros((WIDTH, WIDTH)), projection(k)
    y = np.ones((3, WIDTH if k is None else k))
    for make in (wiener, moment_matched, posterior_draw):
        rows = make(nothing, matrix, noise).apply(y, np.random.default_rng(0))
        np.testing.assert_array_equal(rows, np.zeros((3, WIDTH)))
    assert expected_row_error(nothing, matrix, noise) == 0


def test_a_zero_projection_leaves_everything_open():
    moment, nothing = moments(), np.zeros((WIDTH, 2))
    for noise in (0.0, 1.0):
        assert not wiener(moment, nothing, noise).matrix.any()
        assert not moment_matched(moment, nothing, noise).matrix.any()
        spread = posterior_draw(moment, nothing, noise).spread
        np.testing.assert_allclose(spread.T @ spread, moment, atol=1e-12)


@pytest.mark.parametrize("unit", (1e-12, 1e12))
def test_the_unit_of_the_data_does_not_matter(unit):
    moment, matrix = moments(), projection(14)
    for make in (wiener, moment_matched):
        scaled = make(moment * unit**2, matrix, 0.5 * unit).matrix
        np.testing.assert_allclose(scaled, make(moment, matrix, 0.5).matrix, atol=1e-9)


def test_mistakes_are_refused():
    good = moments()
    skew = good + np.triu(np.ones_like(good), 1)
    broken = good.copy()
    broken[0, 0] = math.nan
    refused = [
        lambda: second_moment(good[:3], 5, 1.0),
        lambda: second_moment(skew, 5, 1.0),
        lambda: second_moment(broken, 5, 1.0),
        lambda: second_moment(good, 0, 1.0),
        lambda: second_moment(good, 5, -1.0),
        lambda: second_moment(np.zeros((0, 0)), 5, 1.0),
        lambda: wiener(good, None, math.nan),
        lambda: wiener(good, None, -0.1),
        lambda: wiener(good, np.ones((WIDTH + 1, 2)), 1.0),
        lambda: wiener(good, np.full((WIDTH, 2), math.inf), 1.0),
        lambda: wiener(good - 3 * np.eye(WIDTH), None, 1.0),
        lambda: pseudo_inverse(good, None, 0),
        lambda: pseudo_inverse(good, None, WIDTH + 1),
        lambda: pseudo_inverse_ensemble(good, [], 2),
        lambda: wiener(good, projection(3), 1.0).apply(np.ones((2, WIDTH))),
        lambda: wiener(good, None, 1.0).apply(np.ones(WIDTH)),
        lambda: posterior_draw(good, None, 1.0).apply(np.ones((2, WIDTH))),
    ]
    for call in refused:
        with pytest.raises(InputError):
            call()
