"""DPRP as printed: the algorithm is the paper's, and each number of docs/proofs/published-dprp.md is reproduced."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from scipy import integrate, stats

from adumbra.accounting.calibrate import gaussian_delta, paper_sigma
from adumbra.common.errors import InputError
from adumbra.models.reconstruct import pseudo_inverse
from adumbra.published.dprp_paper import (
    MOMENT_SHARE,
    PROJECTION_SHARE,
    SEARCH_SHARE,
    Reconstructed,
    default_rank,
    dprp,
    experiment,
    imputed,
    search_dimension,
    theorem_a_sigma,
    theorem_b_sigma,
    unit_rows,
)

ROOT = Path(__file__).parents[2]
CLAIMED = 0.95e-4


@pytest.fixture(scope="module")
def numbers() -> ModuleType:
    """The example that prints the page's numbers."""
    spec = importlib.util.spec_from_file_location("example_published_dprp", ROOT / "examples" / "published_dprp.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def people(n: int = 40, width: int = 7) -> np.ndarray:
    return unit_rows(np.random.default_rng(0).normal(size=(n, width)))


# ------------------------------------------------------------------------------------------------ the algorithm


def test_equations_6_and_8():
    """Written out once more, with the paper's letters."""
    eps, delta, k1, z = 3.2, 8e-5, 40, 1.5
    log = math.log
    six = z * (1 / math.sqrt(k1)) * math.sqrt(k1 + 2 * math.sqrt(k1 * log(2 / delta)) + 2 * log(2 / delta))
    assert theorem_a_sigma(eps, delta, k1, z) == pytest.approx(six * math.sqrt(2 * (log(1 / (2 * delta)) + eps)) / eps)
    assert theorem_b_sigma(0.6, 1.5e-5, z) == pytest.approx(z**2 * math.sqrt(2 * log(1.25 / 1.5e-5)) / 0.6)


@pytest.mark.parametrize("dimension", (3, 7, 30))
def test_the_algorithm_line_by_line(dimension):
    """The same draws, put together once more; line 7 through the numerics of `linalg`."""
    table = people()
    run = dprp(table, 4.0, 1e-4, dimension, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    r = rng.normal(size=(7, dimension)) / math.sqrt(dimension)
    p = table @ r + theorem_a_sigma(3.2, 0.8e-4, dimension) * rng.normal(size=(40, dimension))
    noise = theorem_b_sigma(0.6, 1.5e-5) * rng.normal(size=(7, 7))
    below = np.tril_indices(7, -1)
    noise[below] = noise.T[below]
    np.testing.assert_allclose(run.matrix, r, atol=1e-12)
    np.testing.assert_allclose(run.projected, p, atol=1e-10)
    np.testing.assert_allclose(run.noisy_moment, table.T @ table + noise, atol=1e-10)
    np.testing.assert_allclose(run.rows, pseudo_inverse(run.noisy_moment, r, 4).apply(p), atol=1e-7)
    assert np.linalg.matrix_rank(run.rows) == min(4, dimension)


def test_noise_has_the_printed_size():
    table = people(2000, 60)
    run = dprp(table, 4.0, 1e-4, 80, np.random.default_rng(1))
    assert (run.sigma_1, run.sigma_2) == (theorem_a_sigma(3.2, 0.8e-4, 80), theorem_b_sigma(0.6, 1.5e-5))
    assert np.std(run.projected - table @ run.matrix) == pytest.approx(run.sigma_1, rel=0.01)
    noise = run.noisy_moment - table.T @ table
    np.testing.assert_allclose(noise, noise.T, atol=1e-9)
    assert np.std(noise[np.triu_indices(60, 1)]) == pytest.approx(run.sigma_2, rel=0.05)
    assert np.std(np.diag(noise)) == pytest.approx(run.sigma_2, rel=0.3)
    assert np.std(run.matrix) == pytest.approx(1 / math.sqrt(80), rel=0.05)


def test_without_noise_the_reconstruction_is_exact():
    """A huge epsilon: rows of rank k2 come back."""
    rng = np.random.default_rng(2)
    table = unit_rows(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 7)))
    run = dprp(table, 1e9, 1e-4, 20, rng)
    np.testing.assert_allclose(run.rows, table, atol=1e-3)


def test_shares_and_defaults():
    assert (PROJECTION_SHARE, MOMENT_SHARE, SEARCH_SHARE) == (0.8, 0.15, 0.05)
    assert [default_rank(d) for d in (1, 2, 5, 10, 33, 49)] == [1, 1, 3, 6, 19, 29]
    run = dprp(people(), 1.0, 1e-4, 9, np.random.default_rng(0), rank=2, bound=2.0, shares=(0.4, 0.6))
    assert run.sigma_1 == pytest.approx(2 * theorem_a_sigma(0.4, 0.4e-4, 9))
    assert run.sigma_2 == pytest.approx(4 * theorem_b_sigma(0.6, 0.6e-4))
    assert np.linalg.matrix_rank(run.rows) == 2


def test_the_search_keeps_the_best_and_the_first_of_equals():
    table, seen = people(), []

    def score(rows: np.ndarray) -> float:
        seen.append(rows)
        return (1.0, 3.0, 3.0, 2.0)[len(seen) - 1]

    chosen, run = search_dimension(table, 1.0, 1e-4, [8, 14, 70, 100], score, np.random.default_rng(0))
    assert chosen == 14 and run.matrix.shape == (7, 14) and isinstance(run, Reconstructed)
    np.testing.assert_array_equal(run.rows, seen[1])


def test_the_experiment_imputes_and_scales():
    raw = np.random.default_rng(3).normal(5.0, 2.0, (30, 6))
    raw[3, 2] = raw[9, 2] = raw[0, 0] = np.nan
    chosen, run = experiment(raw, 1e9, 1e-4, [40], lambda rows: 0.0, np.random.default_rng(0))
    again = dprp(unit_rows(imputed(raw)), 1e9, 1e-4, 40, np.random.default_rng(0))
    np.testing.assert_array_equal(run.rows, again.rows)
    assert chosen == 40


def test_imputing_and_scaling():
    table = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(imputed(table), [[1, 2], [3, 4], [2, 0]])
    np.testing.assert_allclose(np.linalg.norm(unit_rows(imputed(table)), axis=1), 1)
    np.testing.assert_array_equal(unit_rows(np.zeros((2, 3))), np.zeros((2, 3)))


def test_mistakes_are_refused():
    rng, table = np.random.default_rng(0), people()
    refused = [
        lambda: dprp(np.full((3, 2), np.nan), 1.0, 1e-4, 4, rng),
        lambda: dprp(table[0], 1.0, 1e-4, 4, rng),
        lambda: dprp(table, 0.0, 1e-4, 4, rng),
        lambda: dprp(table, 1.0, 0.0, 4, rng),
        lambda: dprp(table, 1.0, 0.9, 4, rng),
        lambda: dprp(table, 1.0, 1e-4, 0, rng),
        lambda: dprp(table, 1.0, 1e-4, 4, rng, rank=8),
        lambda: dprp(table, 1.0, 1e-4, 4, rng, rank=0),
        lambda: search_dimension(table, 1.0, 1e-4, [], lambda rows: 0.0, rng),
        lambda: imputed(np.array([[np.nan, 1.0], [np.nan, 2.0]])),
    ]
    for call in refused:
        with pytest.raises(InputError):
            call()


# --------------------------------------------------------------------------------------------- what does not hold


def test_sensitivities_of_unit_rows():
    """2, sqrt 2 and 1 for the rows, sqrt 2 and 1 for X'X: never exceeded by random pairs, reached by the named ones."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 20_000, 3)) * rng.choice([0.05, 1.0], (2, 20_000, 3))
    for sign, rows in ((False, 2.0), (True, math.sqrt(2))):
        one, other = (unit_rows(np.abs(t) if sign else t) for t in (x, y))
        assert rows * 0.98 < np.linalg.norm(one - other, axis=1).max() <= rows + 1e-12
        moved = np.einsum("ni,nj->nij", one, one) - np.einsum("ni,nj->nij", other, other)
        assert math.sqrt(2) * 0.98 < np.linalg.norm(moved, axis=(1, 2)).max() <= math.sqrt(2) + 1e-12
    e1, e2 = np.eye(2)
    change = np.outer(e1, e1) - np.outer(e2, e2)
    assert np.linalg.norm(np.triu(change)) == pytest.approx(math.sqrt(2))  # the published noise sees all of it
    assert np.linalg.norm(e1 - e2) == pytest.approx(math.sqrt(2)) and np.linalg.norm(np.outer(e1, e1)) == 1
    np.testing.assert_array_equal(np.outer(e1, e1), np.outer(-e1, -e1))  # antipodal rows: X'X stays


def by_integral(epsilon: float, k: int, rows: float, moment: float) -> float:
    """The same mixture with scipy's own chi-square density and normal tails."""

    def curve(mu: float) -> float:
        first = stats.norm.cdf(mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)))

    def integrand(c: float) -> float:
        return float(stats.chi2.pdf(c, k)) * curve(math.sqrt(rows * c / k + moment))

    spread = math.sqrt(2 * k)
    return float(integrate.quad(integrand, max(k - 12 * spread, 1e-9), k + 25 * spread, limit=200, points=[k])[0])


@pytest.mark.parametrize("claimed", (1, 8))
@pytest.mark.parametrize("cosine", (-1.0, 0.0))
@pytest.mark.parametrize("dimension", (32, 320, 3200))
def test_exact_delta_by_another_route(numbers, claimed, cosine, dimension):
    low, high = numbers.pair_ends(0.95 * claimed, claimed, cosine, dimension)
    rows = (2 - 2 * cosine) / theorem_a_sigma(0.8 * claimed, 0.8e-4, dimension) ** 2
    moment = (2 - 2 * cosine**2) / theorem_b_sigma(0.15 * claimed, 1.5e-5) ** 2
    found = by_integral(0.95 * claimed, dimension, rows, moment)
    assert low * (1 - 1e-6) <= found <= high * (1 + 1e-6)
    assert high < 1.012 * low


def test_what_is_covered_and_what_is_not(numbers):
    for e in (1, 2, 4, 6, 8):
        for k in (32, 64, 320, 1600, 3200, 10**6):
            s1, s2 = theorem_a_sigma(0.8 * e, 0.8e-4, k), theorem_b_sigma(0.15 * e, 1.5e-5)
            assert numbers.exact_delta(0.95 * e, k, s1**-2, s2**-2)[1] < 1e-6  # emptied
            assert numbers.non_negative(0.95 * e, e, k) < CLAIMED
            assert (numbers.antipodal(0.95 * e, e, k) > CLAIMED) == (k >= 320)
            if k >= 1600:
                assert numbers.antipodal(e, e, k) > 1e-4
    # No pair without negative entries is worse than the orthogonal one.
    worst = numbers.pair_ends(3.8, 4, 0.0, 320)[0]
    assert all(numbers.pair_ends(3.8, 4, c, 320)[1] <= worst for c in np.linspace(0.05, 1, 20))


def test_an_attack_on_the_algorithm_refutes_theorem_2():
    """The likelihood test of x against -x on P' as `dprp` makes it, claimed epsilon 8: delta is eight times too large.

    Given R the rows of P' are independent draws for the same pair, and (1 - e^(epsilon - L))^+ has mean delta(epsilon).
    """
    claimed, rng = 8.0, np.random.default_rng(6)
    table = np.tile([1.0, 0.0], (250, 1))
    found = []
    for _ in range(240):
        run = dprp(table, claimed, 1e-4, 320, rng)
        loss = 2 * run.projected @ run.matrix[0] / run.sigma_1**2
        found.append(np.maximum(-np.expm1(0.95 * claimed - loss), 0.0).mean())
    mean, error = np.mean(found), np.std(found) / math.sqrt(len(found))
    assert mean - 4 * error > CLAIMED
    assert mean == pytest.approx(7.7e-4, abs=4 * error)


def test_where_theorem_b_fails():
    """Exact delta at the distance sqrt 2 crosses the claimed one at epsilon_2 = 0.416, and stays above it."""

    def ratio(epsilon: float) -> float:
        return gaussian_delta(epsilon, math.sqrt(2) / theorem_b_sigma(epsilon, 1.5e-5)) / 1.5e-5

    assert ratio(0.415) < 1 < ratio(0.417)
    assert all(ratio(e) > 1 for e in np.linspace(0.42, 1.2, 30))
    assert all(gaussian_delta(e, 1 / theorem_b_sigma(e, 1.5e-5)) < 1.5e-5 for e in np.linspace(0.05, 1.2, 30))
    assert ratio(0.6) == pytest.approx(2.37e-5 / 1.5e-5, rel=0.01)


@pytest.mark.parametrize("missing", (1, 50, 99))
def test_one_record_moves_every_imputed_cell(missing):
    table = np.random.default_rng(8).normal(size=(100, 3))
    table[100 - missing :, 1] = np.nan
    other = table.copy()
    other[0, 1] += 1.0
    change = imputed(other) - imputed(table)
    assert np.count_nonzero(np.abs(change).max(axis=1) > 1e-12) == missing + 1
    np.testing.assert_allclose(change[100 - missing :, 1], 1 / (100 - missing))
    assert np.linalg.norm(change[1:]) == pytest.approx(math.sqrt(missing) / (100 - missing))


def test_imputation_of_the_papers_own_table(shared_data):
    """Cervical cancer: 787 of 858 cells of one column are missing, and one value moves them all."""
    column = pl.read_csv(shared_data / "cervical_cancer.csv.gz", null_values=["?"], infer_schema_length=None)[
        "STDs_Time_since_first_diagnosis"
    ]
    table = column.cast(pl.Float64).to_numpy()[:, None]
    missing = np.isnan(table[:, 0])
    assert (len(table), missing.sum()) == (858, 787)
    other = table.copy()
    span = np.nanmax(table) - np.nanmin(table)
    other[np.flatnonzero(~missing)[0], 0] += span
    change = (imputed(other) - imputed(table))[missing]
    assert np.all(change != 0)
    assert np.linalg.norm(change) / span == pytest.approx(0.40, abs=0.005)


def test_projection_does_not_diminish_noise():
    """(6) falls to the noise of no projection, not to 0, and least squares pays k1 / (k1 - d - 1) on top."""
    sigmas = [theorem_a_sigma(1.0, 1e-4, k) for k in (4, 32, 1000, 10**6, 10**12)]
    assert sigmas == sorted(sigmas, reverse=True)
    assert sigmas[-1] == pytest.approx(paper_sigma(1.0, 1e-4, 1.0), rel=1e-4) and sigmas[-1] > 4
    rng = np.random.default_rng(9)
    for k in (64, 320):
        found = []
        for _ in range(60):
            matrix = rng.normal(0, 1 / math.sqrt(k), (32, k))
            found.append(np.trace(np.linalg.inv(matrix @ matrix.T)) / 32)
        assert np.mean(found) == pytest.approx(k / (k - 33), rel=0.03)


def test_numbers_of_the_page(numbers, capsys):
    """Every row of numbers on the page is one printed line; the numbers in its prose are printed too."""
    for part in numbers.PARTS:
        part()
    number = r"\d+(?:\.\d+)?(?:e-\d+)?"
    printed = [{float(n) for n in re.findall(number, line)} for line in capsys.readouterr().out.splitlines()]
    page = (ROOT / "docs" / "proofs" / "published-dprp.md").read_text(encoding="utf-8")
    checked = 0
    for row in re.findall(r"^\|(.*)\|$", page, re.MULTILINE):
        wanted = {float(cell) for cell in row.split("|") if re.fullmatch(number, cell.strip())}
        if wanted:
            assert any(wanted <= line for line in printed), row
            checked += 1
    assert checked >= 40
    for inline in (0.416, 0.40, 1.66, 1.19):
        assert f"{inline:g}" in page.replace("0.40", "0.4") and any(inline in line for line in printed)
