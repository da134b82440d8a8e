"""What the LIP/LOP paper says of its two algorithms' noise and error: theta, eta, Theorems 3 and 4, as measured."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adumbra.common.errors import InputError
from adumbra.published.lip_paper import (
    Reduced,
    approximation_error,
    leading_rank,
    lip,
    noise_magnitude,
    prepared,
)
from adumbra.published.lop_paper import (
    error_ratio,
    lop,
    noise_ratio,
    noise_ratio_expected,
    residual,
    theorem_3_order,
    theorem_4_bound,
)

PAGE = Path(__file__).parents[2] / "docs" / "proofs" / "published-lop.md"
PAPER_SETS = {  # records, attributes, and the factor that section 5.1 multiplies theta by
    "Secom": (1567, 590, 1e0),
    "Covtype": (581012, 54, 1e5),
    "Musk": (6598, 166, 1e2),
    "Handwritten": (1593, 256, 1e2),
    "Waveform": (5000, 21, 1e3),
}


def people(n: int = 40, width: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return prepared(rng.normal(size=(n, width)) * np.arange(width, 0, -1) + rng.normal(size=width))


def root_mean_square(values: list[float]) -> float:
    return math.sqrt(float(np.mean(np.square(values))))


# --------------------------------------------------------------------------------------------- section 5's preparation


def test_prepared_by_hand():
    table = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]])
    np.testing.assert_allclose(prepared(table), [[-0.5, -0.5], [0.5, -0.5], [0, 1]])
    np.testing.assert_array_equal(prepared(np.full((4, 3), 7.0)), np.zeros((4, 3)))
    for bad in (np.full((2, 2), np.nan), np.zeros((0, 3)), np.zeros(3)):
        with pytest.raises(InputError):
            prepared(bad)


def test_prepared_tables_have_mean_zero_and_largest_norm_one():
    found = people(30, 4)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-12)
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(1, abs=1e-12)


def test_one_record_moves_every_prepared_row():
    """Why Theorems 1 and 2 do not speak of the experiments: a neighbour differs in all rows, not in one."""
    rng = np.random.default_rng(2)
    table = rng.normal(size=(30, 4))
    neighbour = table.copy()
    neighbour[0] = 40.0
    moved = np.abs(prepared(table) - prepared(neighbour)).max(axis=1)
    assert (moved > 0.05).all()


# ------------------------------------------------------------------------------------------------ theta and Theorem 3


def test_noise_of_a_run_is_what_was_added():
    table = people()
    inside, outside = lip(table, 0.7, 2, np.random.default_rng(1)), lop(table, 0.7, 2, np.random.default_rng(1))
    np.testing.assert_allclose(inside.moment - inside.noise, table.T @ table / 40, atol=1e-12)
    np.testing.assert_allclose(outside.coordinates - outside.noise, table @ outside.basis, atol=1e-12)
    assert inside.noise.shape == (5, 5) and outside.noise.shape == (40, 2)
    assert noise_magnitude(inside) == pytest.approx(math.sqrt((inside.noise**2).sum()))
    assert noise_ratio(inside, outside) == pytest.approx(noise_magnitude(inside) / noise_magnitude(outside))


def drawn_theta(rows: int, width: int, rank: int, runs: int, epsilon: float = 1.0, seed: int = 0) -> np.ndarray:
    """N1 and N2 of runs on a table of zeros: the noise does not look at the table."""
    rng, table = np.random.default_rng(seed), np.zeros((rows, width))
    return np.array(
        [
            [noise_magnitude(lip(table, epsilon, rank, rng)), noise_magnitude(lop(table, epsilon, rank, rng))]
            for _ in range(runs)
        ]
    )


@pytest.mark.parametrize(("rows", "width", "rank"), ((30, 12, 3), (200, 20, 1), (50, 6, 6), (9, 3, 2)))
def test_theorem_3_is_the_ratio_of_squares(rows, width, rank):
    """E|E1|_F^2 / E|E2|_F^2 = d^2 / (n^3 k) exactly; so its root is what Frobenius norms give."""
    magnitudes = drawn_theta(rows, width, rank, 1500)
    # With q = 24 b^4 the fourth moment: relative variance of |E1|^2 is 5 (2d - 1) / d^3, of |E2|^2 it is 5 / (n k).
    error = math.sqrt((5 * (2 * width - 1) / width**3 + 5 / (rows * rank)) / 1500)
    squares = (magnitudes**2).mean(axis=0)
    assert squares[0] / squares[1] == pytest.approx(theorem_3_order(rows, width, rank), rel=4.5 * error)
    means = magnitudes.mean(axis=0)
    low, high = 1 - 5 * (2 * width - 1) / (2 * width**3), 1 / (1 - 5 / (2 * rows * rank))
    assert low - 3 * error <= means[0] / means[1] / noise_ratio_expected(rows, width, rank) <= high + 3 * error


def test_the_printed_order_is_not_that_of_the_measured_ratio():
    """Section 5.1's theta: twice the k takes sqrt 2 off, twice the n 2 sqrt 2; the printed order says 2 and 8."""

    def theta(rows: int, rank: int) -> float:
        magnitudes = drawn_theta(rows, 24, rank, 300)
        return float((magnitudes[:, 0] / magnitudes[:, 1]).mean())

    start = theta(60, 2)
    assert start / theta(60, 4) == pytest.approx(math.sqrt(2), rel=0.03)
    assert start / theta(120, 2) == pytest.approx(2 * math.sqrt(2), rel=0.03)
    assert start == pytest.approx(noise_ratio_expected(60, 24, 2), rel=0.03)
    assert start > 15 * theorem_3_order(60, 24, 2)


def test_theta_depends_on_neither_epsilon_nor_table():
    one, other = drawn_theta(30, 4, 2, 5, epsilon=0.01), drawn_theta(30, 4, 2, 5, epsilon=10.0)
    np.testing.assert_allclose(one[:, 0] / one[:, 1], other[:, 0] / other[:, 1])
    rng, table = np.random.default_rng(0), people(30, 4)
    runs = [(lip(table, 1.0, 2, rng), lop(table, 1.0, 2, rng)) for _ in range(5)]
    np.testing.assert_allclose([noise_ratio(*run) for run in runs], one[:, 0] / one[:, 1])


def test_theta_is_above_1_for_a_table_wider_than_long_enough():
    """(24) needs d < n; the theorem's sentence does not say so."""
    assert theorem_3_order(2, 20, 1) == 50
    magnitudes = drawn_theta(2, 20, 1, 50)
    assert (magnitudes[:, 0] / magnitudes[:, 1]).mean() > 5
    for rows in range(1, 12):
        for width in range(1, rows + 1):
            assert theorem_3_order(rows, width, 1) <= 1


# -------------------------------------------------------------------------------------------------- eta and Theorem 4


def test_approximation_error_by_hand():
    table = np.diag([1.0, 0.6, 0.8])
    runs = [algorithm(table, 1e12, 1, np.random.default_rng(0)) for algorithm in (lip, lop)]
    for run in runs:
        assert approximation_error(table, run) == pytest.approx(1.0)
    assert error_ratio(table, *runs) == pytest.approx(1.0)
    with pytest.raises(InputError):
        approximation_error(table[:2], runs[0])


def test_residual_is_what_the_best_directions_leave():
    table = people(30, 6)
    values = np.linalg.svd(table, compute_uv=False)
    for rank in range(1, 7):
        assert residual(table, rank) == pytest.approx(math.sqrt((values[rank:] ** 2).sum()), abs=1e-12)
    assert residual(table, 6) == 0.0
    for rank in (0, 7):
        with pytest.raises(InputError):
            residual(table, rank)


def test_error_of_lop_is_a_right_angle():
    """MSE2^2 = residual^2 + |E2|_F^2 exactly, sharper than (34): what the directions leave is orthogonal to them."""
    table = people(30, 6)
    for rank in (1, 3, 6):
        run = lop(table, 5.0, rank, np.random.default_rng(rank))
        both = math.hypot(residual(table, rank), noise_magnitude(run))
        assert approximation_error(table, run) == pytest.approx(both)
        most = residual(table, rank) + noise_magnitude(run)
        assert approximation_error(table, run) <= most
        assert theorem_4_bound(table, run) == pytest.approx(residual(table, rank) / most)


@pytest.mark.parametrize("epsilon", (0.1, 10.0, 1e3, 1e6))
def test_inequality_35_bounds_eta_from_below(epsilon):
    rng = np.random.default_rng(4)
    for seed in range(40):
        table = people(12, 5, seed)
        for rank in (1, 2, 4):
            runs = lip(table, epsilon, rank, rng), lop(table, epsilon, rank, rng)
            assert error_ratio(table, *runs) >= theorem_4_bound(table, runs[1]) * (1 - 1e-9)


def test_inequality_35_is_not_strict():
    """All directions kept: both sides are 0. All variances alike: (31) is an equality for every basis."""
    table, rng = people(12, 5), np.random.default_rng(0)
    runs = lip(table, 1.0, 5, rng), lop(table, 1.0, 5, rng)
    assert theorem_4_bound(table, runs[1]) == 0.0
    assert error_ratio(table, *runs) < 1e-12
    even = np.vstack([np.eye(4), -np.eye(4)])
    assert approximation_error(even, lip(even, 0.1, 2, rng)) == pytest.approx(residual(even, 2), abs=1e-12)


FLAT = np.array([[0.1, 0.0]] * 3)
"""Three records alike, d = 2; k = 1 holds all of the variance. A is diag(0.01, 0): noise in it turns the axis a lot."""


def test_eta_can_exceed_1():
    """The counterexample to Theorem 4: (35) holds, and eta is 3.3 (root of mean squares) all the same."""
    rng = np.random.default_rng(0)
    runs = [(lip(FLAT, 3000.0, 1, rng), lop(FLAT, 3000.0, 1, rng)) for _ in range(2000)]
    errors = [[approximation_error(FLAT, run) for run in both] for both in runs]
    first, second = (root_mean_square(list(column)) for column in zip(*errors, strict=True))
    # To second order in the noise: n k (d - k) 2 b^2 / gap against n k 2 (2 d / epsilon)^2, that is 1 / (n^2 gap).
    assert first / second == pytest.approx(math.sqrt(1 / (9 * 0.01)), rel=0.08)
    assert np.mean([a for a, _ in errors]) > 2.4 * np.mean([b for _, b in errors])
    assert all(error_ratio(FLAT, *both) > theorem_4_bound(FLAT, both[1]) for both in runs)
    assert np.median([error_ratio(FLAT, *both) for both in runs]) > 2


def test_eta_need_not_fall_with_k():
    """One more direction, one of little variance: eta goes from 1 to above 2."""
    table = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]])
    rng = np.random.default_rng(0)

    def eta(rank: int) -> float:
        return float(
            np.mean([approximation_error(table, lip(table, 5000.0, rank, rng)) for _ in range(400)])
            / np.mean([approximation_error(table, lop(table, 5000.0, rank, rng)) for _ in range(400)])
        )

    assert eta(1) == pytest.approx(1, abs=0.01)
    assert eta(2) > 2


def test_eta_is_below_1_for_any_basis_where_noise_drowns_the_table():
    """epsilon < d sqrt(8 k) and rows of norm 1: then E MSE2^2 > n >= MSE1^2, whatever directions LIP had found."""
    table = people(60, 6)
    for rank in (1, 3):
        epsilon = 6 * math.sqrt(8 * rank)
        rng = np.random.default_rng(rank)
        noise = root_mean_square([noise_magnitude(lop(table, epsilon, rank, rng)) for _ in range(1500)])
        assert noise == pytest.approx(math.sqrt(60), rel=0.02)
    assert np.linalg.norm(table) <= math.sqrt(60)


def with_basis(table: np.ndarray, basis: np.ndarray) -> Reduced:
    return Reduced(table @ basis @ basis.T, table @ basis, basis, table.T @ table, 0.0, np.zeros((1, 1)))


# ------------------------------------------------------------------------------------------------------------ the page


def theta_lines() -> list[str]:
    lines = []
    for name, (rows, width, factor) in PAPER_SETS.items():
        root, printed = noise_ratio_expected(rows, width, 1), theorem_3_order(rows, width, 1)
        lines.append(
            f"{name:12}{rows:8}{width:6}{factor:9.0e}{root:11.1e}{factor * root:11.1e}{printed:11.1e}"
            f"{factor * printed:11.1e}"
        )
    return lines


def eta_lines() -> list[str]:
    lines, table = [], prepared(load_digits().data)
    width = table.shape[1]
    rank = leading_rank(np.linalg.eigvalsh(table.T @ table))
    assert (len(table), width, rank) == (1797, 64, 17)
    rng = np.random.default_rng(0)
    worst = np.linalg.eigh(table.T @ table)[1][:, :rank]
    for epsilon in (0.1, 1.0, 10.0):
        found = []
        for _ in range(10):
            other = lop(table, epsilon, rank, rng)
            drawn = np.linalg.qr(rng.normal(size=(width, rank)))[0]
            choices = (lip(table, epsilon, rank, rng), with_basis(table, drawn), with_basis(table, worst))
            found.append([*(error_ratio(table, run, other) for run in choices), theorem_4_bound(table, other)])
        means = np.mean(found, axis=0)
        lines.append(f"{epsilon:7g}" + "".join(f"{value:13.1e}" for value in means))
    return lines


def test_numbers_of_the_page_on_theta_and_eta():
    """Every line of the two blocks of numbers, computed again."""
    page = PAGE.read_text(encoding="utf-8")
    for line in theta_lines() + eta_lines():
        assert "    " + line in page, line
