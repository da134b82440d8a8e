"""LIP, LOP and CSM as printed: the algorithms are the papers', and the numbers on their pages are computed again."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import orthogonal_mp

from adumbra.audit.paper_cases import row_space, worst_moment_pair
from adumbra.common.errors import InputError
from adumbra.numerics.dictionaries import dictionary
from adumbra.published import dppro_paper as dppro
from adumbra.published.csm_paper import (
    MATRICES,
    READINGS,
    algorithm_1,
    csm,
    measurement_matrix,
    proposition_2_probability,
    reconstruct,
    sensitivity,
    theorem_2_epsilon,
)
from adumbra.published.lip_paper import CONTRIBUTION, leading_rank, lip, lip_scale
from adumbra.published.lop_paper import lop, lop_scale

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"


def people(n: int = 40, width: int = 5, seed: int = 0) -> np.ndarray:
    table = np.random.default_rng(seed).normal(size=(n, width)) * np.arange(width, 0, -1)
    return table / np.linalg.norm(table, axis=1).max()


def assert_page_tables(page: str, rows: list[str]) -> None:
    """Each given row stands on the page, and each row of numbers on the page is one of them."""
    text = (PROOFS / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for row in rows:
        assert row in lines, row
    for line in lines:
        if re.search(r"\|[^|a-z]*\d[^|a-z]*\|", line):
            assert line in rows, f"no test computes: {line}"


# --------------------------------------------------------------------------------------------------- LIP and LOP


def test_lip_line_by_line():
    """The same draws, put together once more with other numerics."""
    table = people()
    run = lip(table, 2.0, 2, np.random.default_rng(5))
    noise = np.random.default_rng(5).laplace(size=(5, 5)) * (2 * 5 / (40 * 2.0))
    for i in range(5):
        for j in range(i):
            noise[i, j] = noise[j, i]
    moment = sum(np.outer(x, x) for x in table) / 40 + noise
    np.testing.assert_allclose(run.moment, moment, atol=1e-12)
    values, vectors = np.linalg.eig(moment)
    best = vectors[:, np.argsort(-values)[:2]]
    np.testing.assert_allclose(run.rows, table @ best @ np.linalg.pinv(best), atol=1e-10)
    np.testing.assert_allclose(np.abs(run.coordinates), np.abs(table @ best), atol=1e-10)
    assert run.scale == lip_scale(40, 5, 2.0) == 2 * 5 / (40 * 2.0)


def test_lop_line_by_line():
    table = people()
    run = lop(table, 2.0, 2, np.random.default_rng(5))
    _, _, right = np.linalg.svd(table)
    v = right[:2].T
    v = v * np.sign(v[np.abs(v).argmax(axis=0), [0, 1]])
    y = table @ v + np.random.default_rng(5).laplace(size=(40, 2)) * (2 * 5 / 2.0)
    np.testing.assert_allclose(run.basis, v, atol=1e-10)
    np.testing.assert_allclose(run.coordinates, y, atol=1e-9)
    np.testing.assert_allclose(run.rows, y @ v.T, atol=1e-9)
    assert run.scale == lop_scale(5, 2.0) == 5.0


def test_small_cases_by_hand():
    """Two records on the axes, noise next to nothing: the longer axis is kept, the other one vanishes."""
    table = np.array([[1.0, 0.0], [0.0, 0.5]])
    for algorithm in (lip, lop):
        run = algorithm(table, 1e12, 1, np.random.default_rng(0))
        np.testing.assert_allclose(run.rows, [[1, 0], [0, 0]], atol=1e-9)
        np.testing.assert_allclose(run.basis, [[1], [0]], atol=1e-9)
        np.testing.assert_allclose(run.moment, [[0.5, 0], [0, 0.125]], atol=1e-9)
    # Shares 0.8 and 0.2: 85 % wants both directions, and then LIP gives the table itself away.
    np.testing.assert_allclose(lip(table, 1e12, None, np.random.default_rng(0)).rows, table, atol=1e-12)


def test_noise_is_laplace_of_the_printed_scale():
    table, rng = people(8, 60), np.random.default_rng(1)
    run = lip(table, 1.0, 3, rng)
    noise = run.moment - table.T @ table / 8
    np.testing.assert_allclose(noise, noise.T, atol=1e-12)
    assert stats.kstest(noise[np.triu_indices(60)], "laplace", args=(0, 15.0)).pvalue > 1e-3
    run = lop(np.tile(table, (50, 1)), 1.0, 3, rng)
    noise = run.coordinates - np.tile(table, (50, 1)) @ run.basis
    assert stats.kstest(noise.ravel(), "laplace", args=(0, 120.0)).pvalue > 1e-3


def test_rank_by_contribution():
    """Equation (3): the least k, reached exactly or passed; negative eigenvalues count."""
    assert CONTRIBUTION == 0.85
    assert leading_rank(np.array([85.0, 10.0, 5.0])) == 1
    assert leading_rank(np.array([84.9, 10.1, 5.0])) == 2
    assert leading_rank(np.array([5.0, 50.0, 45.0]), 1.0) == 3
    assert leading_rank(np.array([10.0, -9.0])) == 1
    assert leading_rank(np.zeros(3)) == 1
    assert lip(people(), 1e9, None, np.random.default_rng(0)).basis.shape[1] == leading_rank(
        np.linalg.eigvalsh(people().T @ people())
    )


def test_mistakes_are_refused():
    rng, table = np.random.default_rng(0), people()
    for algorithm in (lip, lop):
        for bad, epsilon, rank in (
            (table, 0.0, 2),
            (table, math.nan, 2),
            (table, 1.0, 0),
            (table, 1.0, 6),
            (table[0], 1.0, 2),
            (table[:0], 1.0, 2),
            (np.full((3, 2), np.nan), 1.0, 2),
        ):
            with pytest.raises(InputError):
                algorithm(bad, epsilon, rank, rng)
    matrix, basis = measurement_matrix(3, 8, rng), dictionary("identity", (8,))
    for call in (
        lambda: csm(np.zeros(7), 1.0, matrix, rng),
        lambda: csm(np.full(8, np.inf), 1.0, matrix, rng),
        lambda: csm(np.zeros(8), 0.0, matrix, rng),
        lambda: csm(np.zeros(8), 1.0, matrix, rng, "another"),
        lambda: measurement_matrix(0, 8, rng),
        lambda: measurement_matrix(3, 8, rng, "another"),
        lambda: measurement_matrix(9, 8, rng, "fourier"),
        lambda: measurement_matrix(9, 7, rng, "hadamard"),
        lambda: reconstruct(np.zeros(4), matrix, basis, 1),
        lambda: reconstruct(np.zeros(3), matrix, basis, 0),
        lambda: reconstruct(np.zeros(3), matrix, basis, 4),
        lambda: algorithm_1(np.zeros(8), 0.0, matrix, basis, 1, rng),
        lambda: algorithm_1(np.zeros(8), 1.0, matrix, basis, 1, rng, "another"),
    ):
        with pytest.raises(InputError):
            call()
    for cells, other in (
        (8, dictionary("identity", (7,))),
        (6, dictionary("haar", (6,))),
        (8, dictionary("learnt", (8,), np.eye(8))),
    ):
        with pytest.raises(InputError, match="an orthogonal basis"):
            reconstruct(np.zeros(3), measurement_matrix(3, cells, rng), other, 1)


def test_dppro_in_two_steps_is_dppro():
    """`noisy_projection` is the last line of Algorithm 1, drawn after the matrix."""
    table = people()
    matrix, released, sigma = dppro.dppro(table, 1.0, 1e-5, 7, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    again = rng.normal(0, 1 / math.sqrt(7), (5, 7))
    np.testing.assert_array_equal(matrix, again)
    np.testing.assert_array_equal(released, dppro.noisy_projection(table, again, sigma, rng))


# ------------------------------------------------------------------------------------ how far one row moves X'X in L1


def moved(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sum of |xx' - yy'| over the upper triangle, for stacks of rows."""
    change = np.einsum("...i,...j->...ij", x, x) - np.einsum("...i,...j->...ij", y, y)
    i, j = np.triu_indices(x.shape[-1])
    return np.abs(change[..., i, j]).sum(axis=-1)


def by_all_signs(width: int) -> float:
    """Largest eigenvalue minus smallest of half (S + diag S), over all symmetric sign matrices S.

    Turning a coordinate's sign or exchanging two coordinates leaves the eigenvalues, so the first row is all +1 off
    the diagonal and the diagonal is sorted; -S has the same spread, so at most half of the diagonal is -1.
    """
    free = [(i, j) for i in range(1, width) for j in range(i + 1, width)]
    bits = np.arange(1 << len(free))
    best = 0.0
    for negative in range(width // 2 + 1):
        w = np.full((len(bits), width, width), 0.5)
        for place, (i, j) in enumerate(free):
            w[:, i, j] = w[:, j, i] = ((bits >> place) & 1) - 0.5
        w[:, range(width), range(width)] = np.where(np.arange(width) < width - negative, 1.0, -1.0)
        values = np.linalg.eigvalsh(w)
        best = max(best, float((np.maximum(values[:, -1], 0) - np.minimum(values[:, 0], 0)).max()))
    return best


def constant(width: int) -> float:
    return math.sqrt((width + 2) ** 2 / 4 + (width // 2) * ((width + 1) // 2))


@pytest.mark.parametrize("width", (2, 3, 4, 5, 6))
def test_the_l1_constant_is_exact(width):
    """All sign matrices, against the closed form, against the named pair; random pairs never pass it."""
    assert by_all_signs(width) == pytest.approx(constant(width), abs=1e-12)
    assert moved(*worst_moment_pair(width)) == pytest.approx(constant(width), abs=1e-12)
    x, y = np.random.default_rng(width).normal(size=(2, 20_000, width))
    x, y = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (x, y))
    assert moved(x, y).max() <= constant(width) + 1e-12
    assert moved(x, 0.4 * y).max() <= constant(width) and moved(x, 0 * y).max() <= (width + 1) / 2 + 1e-12


@pytest.mark.parametrize("width", (2, 7, 20, 64, 561))
def test_the_l1_bound_and_the_pair_for_any_width(width):
    bound = math.sqrt(width * (width + 3) / 2)
    assert moved(*worst_moment_pair(width)) == pytest.approx(constant(width), rel=1e-9)
    assert constant(width) <= bound * (1 + 1e-12) and bound < 1.05 * constant(width)
    even = np.full(width, 1 / math.sqrt(width))
    assert moved(even, 0 * even) == pytest.approx((width + 1) / 2)


def test_a_missing_pixel_is_read_off_the_released_rows():
    """Whoever knows all of a record but one cell reads that cell off Z1: noise in the basis hides nothing."""
    table = load_digits().data
    table = table - table.mean(axis=0)
    table /= np.linalg.norm(table, axis=1).max()
    rng = np.random.default_rng(0)
    for claimed in (0.01, 0.1, 1.0):
        released = lip(table, claimed, None, rng).rows
        projector = row_space(released)
        for record, pixel in zip(rng.integers(0, len(table), 50), rng.integers(20, 40, 50), strict=True):
            known = table[record].copy()
            known[pixel] = 0.0
            trace = projector[:, pixel]
            found = trace @ (released[record] - projector @ known) / (trace @ trace)
            assert abs(found - table[record, pixel]) < 1e-11
    assert table[:, 20:40].std() > 0.05


# ---------------------------------------------------------------------------------------------------------- CSM


def test_csm_by_hand():
    matrix = np.array([[0.5, -0.5, 0.5, 0.5], [0.5, 0.5, -0.5, 0.5]])
    counts = np.array([3.0, 1.0, 0.0, 2.0])
    assert [sensitivity(matrix, r) for r in READINGS] == [pytest.approx(v) for v in (1.0, 1 / math.sqrt(2), 2.0)]
    for reading, delta in zip(READINGS, (1.0, 1 / math.sqrt(2), 2.0), strict=True):
        noisy, scale = csm(counts, 4.0, matrix, np.random.default_rng(2), reading)
        assert scale == pytest.approx(delta / 4)
        np.testing.assert_allclose(noisy, [2, 3] + np.random.default_rng(2).laplace(size=2) * delta / 4)
    many, _ = csm(np.tile(counts[:, None], (1, 3)), 4.0, matrix, np.random.default_rng(2))
    assert many.shape == (2, 3)
    assert theorem_2_epsilon(matrix, 4.0, 0.5) == pytest.approx(2 * 0.5 * 4 / 0.5)


def test_measurement_matrix():
    matrix = measurement_matrix(102, 256, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(matrix), 1 / math.sqrt(102))
    assert abs(np.sign(matrix).mean()) < 0.03
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1)


@pytest.mark.parametrize(("measurements", "cells"), [(1, 1), (5, 8), (8, 8), (6, 7), (33, 100), (102, 256)])
def test_matrices_that_the_paper_names(measurements, cells):
    """Rows of a matrix are different rows of it, from one corner to all of them; entries have variance 1/s."""
    rng = np.random.default_rng(cells)
    for kind in MATRICES:
        matrix = measurement_matrix(measurements, cells, rng, kind)
        assert matrix.shape == (measurements, cells)
        if kind in ("bernoulli", "hadamard"):
            np.testing.assert_allclose(np.abs(matrix), 1 / math.sqrt(measurements))
        if kind == "fourier" or (kind == "hadamard" and cells & (cells - 1) == 0):
            np.testing.assert_allclose(matrix @ matrix.T, np.eye(measurements) * cells / measurements, atol=1e-9)
    waves = measurement_matrix(8, 8, rng, "fourier")
    assert np.abs(np.fft.rfft(waves, axis=1)).round(9).astype(bool).sum(axis=1).max() == 1  # one frequency a row
    padded = measurement_matrix(8, 6, rng, "hadamard")
    assert len(np.unique(padded, axis=0)) >= 7 and (padded > 0).all(axis=1).any()
    normal = measurement_matrix(100, 200, rng, "gaussian")
    assert stats.kstest(normal.ravel() * 10, "norm").pvalue > 1e-3


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", ["identity", "dct", "haar", "walsh-hadamard"])
def test_algorithm_1_finds_a_sparse_table_again(kind, name):
    """Next to no noise: what is made of three atoms comes back, and the code is its coefficients.

    Not where matrix and basis are alike: then an atom may be in no measurement.
    """
    rng = np.random.default_rng(7)
    basis = dictionary(name, (64,))
    code = np.zeros((64, 2))
    code[[2, 17, 40], 0] = (300.0, -50.0, 120.0)
    code[[5, 33, 63], 1] = (80.0, 500.0, -70.0)
    counts = basis.synthesis(code.T).T
    run = algorithm_1(counts, 1e9, measurement_matrix(40, 64, rng, kind), basis, 3, rng)
    if (name, kind) in (("haar", "hadamard"), ("walsh-hadamard", "fourier"), ("walsh-hadamard", "hadamard")):
        assert np.abs(run.code - code).max() > 10
        return
    np.testing.assert_allclose(run.code, code, atol=1e-5)
    np.testing.assert_allclose(run.table, counts, atol=1e-5)
    assert run.table.shape == counts.shape


@pytest.mark.parametrize("reading", READINGS)
def test_algorithm_1_line_by_line(reading):
    """The same draws, coded first (line 1), measured through Omega (5), and solved by another OMP."""
    matrix = measurement_matrix(24, 32, np.random.default_rng(0), "gaussian")
    basis = dictionary("dct", (32,))
    counts = np.random.default_rng(1).poisson(9.0, 32) * 1.0
    counts[20:25] += 60.0
    run = algorithm_1(counts, 2.0, matrix, basis, 5, np.random.default_rng(5), reading)
    phi = basis.synthesis(np.eye(32)).T
    omega, code = matrix @ phi, np.linalg.inv(phi) @ counts
    delta = {READINGS[0]: 32 / 24 * np.abs(matrix).max(), READINGS[1]: 24**-0.5, READINGS[2]: 24.0}[reading]
    noisy = omega @ code + np.random.default_rng(5).laplace(size=24) * delta / 2
    assert run.scale == pytest.approx(delta / 2)
    np.testing.assert_allclose(run.measured, noisy, atol=1e-9)
    lengths = np.linalg.norm(omega, axis=0)
    found = orthogonal_mp(omega / lengths, noisy, n_nonzero_coefs=5) / lengths
    assert (found != 0).sum() == 5
    np.testing.assert_allclose(run.code, found, atol=1e-8)
    np.testing.assert_allclose(run.table, phi @ found, atol=1e-8)


def test_reconstruction_stops_at_the_noise_if_told_to():
    rng = np.random.default_rng(3)
    matrix, basis = measurement_matrix(60, 128, rng), dictionary("identity", (128,))
    counts = np.zeros(128)
    counts[[4, 90]] = 1000.0
    measured, scale = csm(counts, 1.0, matrix, rng)
    table, _ = reconstruct(measured, matrix, basis, 20, residual=60 * 2 * scale**2 * 1.5)
    assert np.flatnonzero(table).tolist() == [4, 90]
    assert np.count_nonzero(reconstruct(measured, matrix, basis, 20)[0]) == 20


def test_proposition_2_of_csm_is_false():
    """Almost no noise, and a table that one atom cannot describe: an answer is off by far more, always."""
    rng = np.random.default_rng(0)
    matrix = measurement_matrix(102, 256, rng)
    run = algorithm_1(np.full(256, 100.0), 1e6, matrix, dictionary("identity", (256,)), 1, rng)
    off = np.abs(run.table - 100.0)
    assert (off >= 50.0).mean() > 0.99
    assert proposition_2_probability(102, 1e6, sensitivity(matrix, READINGS[0]), 50.0) < 1e-300
    # and beside any noise: an error of 0 or more is certain, and not as likely as a coin
    assert proposition_2_probability(102, 1.0, 1.0, 0.0) == 0.5


@pytest.mark.parametrize("kind", MATRICES)
def test_two_readings_are_too_small_for_every_matrix(kind):
    """256 cells, 0.4 of them: the exact epsilon of a tuple, column over scale, is far above the claim."""
    matrix = measurement_matrix(102, 256, np.random.default_rng(0), kind)
    column = np.abs(matrix).sum(axis=0).max()
    first, second, third = (column / sensitivity(matrix, reading) for reading in READINGS)
    assert first > 8 and second > 90 and third < 0.1


def log_ratio(outputs: np.ndarray, change: np.ndarray, scale: float) -> np.ndarray:
    return (np.abs(outputs) - np.abs(outputs - change)).sum(axis=-1) / scale


@pytest.mark.parametrize("reading", READINGS)
def test_epsilon_of_the_measurements_is_the_column_over_the_scale(reading):
    """Never more than |psi|_1 / lambda, and reached where every coefficient lies beyond the change."""
    rng = np.random.default_rng(1)
    matrix = measurement_matrix(102, 256, rng)
    change, scale = matrix[:, 3], sensitivity(matrix, reading) / 0.5
    exact = np.abs(change).sum() / scale
    outputs = rng.laplace(0, scale, (2000, 102))
    assert np.abs(log_ratio(outputs, change, scale)).max() <= exact * (1 + 1e-12)
    assert log_ratio(2 * change, change, scale) == pytest.approx(exact)


def test_theorem_2_of_csm_is_false_for_every_sensitivity():
    """2 tau epsilon / Delta against |psi|_1 epsilon / Delta: Delta cancels, and |psi|_1 = sqrt(s) > 2 tau."""
    matrix = measurement_matrix(102, 256, np.random.default_rng(0))
    for delta in (1e-3, 0.099, 1.0, 102.0, 1e6):
        exact = np.abs(matrix[:, 0]).sum() / (delta / 0.5)
        assert exact > 12 * theorem_2_epsilon(matrix, 0.5, delta)


def test_sound_scales_of_csm():
    """Largest column, or largest difference of two columns, over epsilon: no output of any pair says more."""
    rng = np.random.default_rng(2)
    matrix = measurement_matrix(24, 40, rng)
    weights = rng.uniform(0.5, 2.0, 24)
    add = (weights[:, None] * np.abs(matrix)).sum(axis=0).max()
    apart = np.abs(matrix[:, :, None] - matrix[:, None, :])
    replace = (weights[:, None, None] * apart).sum(axis=0).max()
    assert add < replace <= 2 * add
    for change, rho in ((matrix.T, add), (np.moveaxis(matrix[:, :, None] - matrix[:, None, :], 0, -1), replace)):
        scale = rho / (0.7 * weights)
        worst = (np.abs(change) / scale).sum(axis=-1).max()
        assert worst == pytest.approx(0.7)


def test_the_first_reading_needs_a_square_of_cells():
    """(1/tau) max |psi| covers a column's sqrt(s) from N = s^2 on."""
    rng = np.random.default_rng(3)
    for s in (4, 10):
        for cells, enough in ((s * s - s, False), (s * s, True), (s * s + s, True)):
            matrix = measurement_matrix(s, cells, rng)
            assert (sensitivity(matrix, READINGS[0]) >= np.abs(matrix).sum(axis=0).max() * (1 - 1e-12)) == enough


# ------------------------------------------------------------------------------------------------------ the pages


def test_numbers_of_the_lip_page():
    rows = []
    for width in (2, 3, 4, 5, 6, 20, 64, 561):
        bound = math.sqrt(width * (width + 3) / 2)
        rows.append(
            f"| {width} | {constant(width):.3f} | {bound:.3f} | {(width + 1) / 2:g} | {2 * width} "
            f"| {2 * width / constant(width):.2f} |"
        )
    rng = np.random.default_rng(0)
    for epsilon in (1, 4, 10, 50):
        laplace, radial = 8 * 10**2 / epsilon**2, 4 * 10 * 11 / epsilon**2
        rows.append(f"| {epsilon} | {laplace:g} | {radial:g} |")
        iid = rng.laplace(0, 2 * math.sqrt(10) / epsilon, (40_000, 10))
        turned = rng.normal(size=(40_000, 10))
        turned *= (rng.gamma(10, 2 / epsilon, 40_000) / np.linalg.norm(turned, axis=1))[:, None]
        assert (iid**2).sum(axis=1).mean() == pytest.approx(laplace, rel=0.03)
        assert (turned**2).sum(axis=1).mean() == pytest.approx(radial, rel=0.03)
    assert_page_tables("published-lip.md", rows)


def test_numbers_of_the_csm_page():
    matrix = measurement_matrix(102, 256, np.random.default_rng(0))
    column, rows = np.abs(matrix[:, 0]).sum(), []
    for name, delta in (
        *((reading, sensitivity(matrix, reading)) for reading in READINGS),
        ("largest column in L1", column),
    ):
        rows.append(f"| {name} | {delta:.4g} | {column / delta:.3g} | {theorem_2_epsilon(matrix, 1.0, delta):.3g} |")
    for kind in MATRICES:
        matrix = measurement_matrix(102, 256, np.random.default_rng(0), kind)
        column, longest = np.abs(matrix).sum(axis=0).max(), np.linalg.norm(matrix, axis=0).max()
        exact = " | ".join(f"{column / sensitivity(matrix, reading):.3g}" for reading in READINGS)
        rows.append(f"| {kind} | {column:.3g} | {longest:.3g} | {exact} |")
    assert_page_tables("published-csm.md", rows)
