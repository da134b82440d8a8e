"""Eta is never too small: exact tails of noise on the real line and on the grid, for many ways it enters a query."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from adumbra.common.errors import InputError
from adumbra.counting.tail_bounds import (
    checked_mu,
    gaussian_eta,
    l2_laplace_eta,
    laplace_eta,
    likely_square,
    normal_eta,
)
from adumbra.counting.workload import Workload, box_gains, dense_energy, gains, random_ranges, wave_energy
from adumbra.numerics.strategies import Haar, Identity, Tree, Waves

Reals = NDArray[np.float64]
FINE = 2.0**-30
MUS = (0.5, 0.2, 0.05, 0.01, 1e-4)


def laplace_tail(entries: Reals, eta: float) -> float:
    """P(|<entries, noise>| > eta) for Laplace noise of scale 1, from its characteristic function."""
    if len(entries) == 1:
        return math.exp(-eta / abs(float(entries[0])))
    spread = math.sqrt(2.0 * float(entries @ entries))
    t = np.linspace(0.0, 400.0 / spread, 40_001)[1:]
    transform = np.exp(-np.log1p(np.square(t[:, None] * entries)).sum(axis=1))
    step = t[1] - t[0]
    # Euler's rule for the end at 0, where sin(eta t) / t is eta
    return 1.0 - 2.0 / math.pi * step * float(eta / 2 + (np.sin(eta * t) / t * transform).sum())


def eta_of(entries: Reals, mu: float, scale: float = 1.0, step: float = FINE) -> float:
    length, largest = np.array([np.linalg.norm(entries)]), np.array([np.abs(entries).max()])
    return float(laplace_eta(length, largest, scale, step, mu)[0])


WAYS = {
    "one": np.ones(1),
    "two": np.ones(2),
    "eight": np.ones(8),
    "one and a little": np.array([1.0, 0.3]),
    "one and many small": np.concatenate([[1.0], np.full(50, 0.1)]),
    "halving": 0.5 ** np.arange(8),
    "uneven": np.linspace(0.05, 1.0, 30),
    "signs": np.array([1.0, -1.0, 0.7, -0.2]),
    "sixty": np.ones(60),
}


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("way", WAYS)
def test_laplace_eta_is_never_exceeded_more_often_than_mu(way: str, mu: float) -> None:
    assert laplace_tail(WAYS[way], eta_of(WAYS[way], mu)) <= mu * (1 + 1e-6)


@pytest.mark.parametrize("mu", [0.05, 0.01, 1e-4])
@pytest.mark.parametrize("way", ["one", "two", "eight", "sixty"])
def test_laplace_eta_is_within_three_per_cent_of_the_exact_quantile(way: str, mu: float) -> None:
    assert laplace_tail(WAYS[way], eta_of(WAYS[way], mu) / 1.03) > mu


def test_of_a_single_number_eta_is_its_quantile() -> None:
    for mu in MUS:
        assert eta_of(np.array([2.5]), mu, scale=3.0) == pytest.approx(-7.5 * math.log(mu), rel=2e-3)


def test_random_ways_are_covered_too() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        entries = rng.gamma(rng.uniform(0.1, 3.0), size=rng.integers(3, 20))
        assert laplace_tail(entries, eta_of(entries, 0.05)) <= 0.05


def lattice_tail(chances: Reals, numbers: int, eta: float) -> float:
    """P(|sum of so many| >= eta) of whole numbers, symmetric about the middle of `chances`."""
    total = chances
    for _ in range(numbers - 1):
        total = np.convolve(total, chances)
    reach = len(total) // 2
    return float(total[np.abs(np.arange(-reach, reach + 1)) >= eta].sum())


@pytest.mark.parametrize("numbers", [1, 2, 5])
@pytest.mark.parametrize("mu", [0.2, 0.05, 0.001])
def test_eta_holds_on_the_coarsest_grid_that_is_ever_drawn_on(numbers: int, mu: float) -> None:
    steps = 16.0  # the least scale that the door allows
    places = np.arange(-600, 601)
    laplace = np.exp(-np.abs(places) / steps)
    laplace /= laplace.sum()
    gaussian = np.diff(special.ndtr((np.arange(-600, 602) - 0.5) / steps))
    ones = np.ones(numbers)
    assert lattice_tail(laplace, numbers, eta_of(ones, mu, scale=steps, step=1.0)) <= mu
    bound = float(gaussian_eta(np.array([math.sqrt(numbers)]), steps, 1.0, mu)[0])
    assert mu * 0.5 < lattice_tail(gaussian, numbers, bound) <= mu


def test_gaussian_eta_is_the_normal_quantile_on_a_fine_grid() -> None:
    found = gaussian_eta(np.array([1.0, 2.0]), 3.0, FINE, 0.05)
    assert found == pytest.approx(np.array([3.0, 6.0]) * stats.norm.isf(0.025), rel=1e-3)
    assert normal_eta(np.array([1.0]), 0.05) == pytest.approx(1.959964, rel=1e-6)


@pytest.mark.parametrize("numbers", [1, 2, 10, 1000])
@pytest.mark.parametrize("mu", [0.2, 0.05, 0.001])
def test_l2_laplace_eta_is_never_exceeded_more_often_than_mu(numbers: int, mu: float) -> None:
    shape = (numbers + 1) / 2
    chances = (np.arange(20_000) + 0.5) / 20_000
    variances = 2.0 * special.gammaincinv(shape, chances)
    bound = float(l2_laplace_eta(np.array([1.0]), 1.0, numbers, mu)[0])
    assert float(special.erfc(bound / np.sqrt(2 * variances)).mean()) <= mu
    assert float(special.erfc(bound / 2.8 / np.sqrt(2 * variances)).mean()) > mu


def test_eta_scales_with_the_noise_and_falls_with_mu() -> None:
    for entries in WAYS.values():
        found = [eta_of(entries, mu) for mu in MUS]
        assert found == sorted(found)
        assert eta_of(7.0 * entries, 0.05, scale=2.0) == pytest.approx(14.0 * eta_of(entries, 0.05), rel=1e-6)


def test_more_noise_never_means_a_smaller_eta() -> None:
    ratios = np.concatenate([np.linspace(1.0, 40.0, 2000), np.geomspace(40.0, 2e6, 2000)])
    found = laplace_eta(np.sqrt(ratios), np.ones(len(ratios)), 1.0, FINE, 0.05)
    assert (np.diff(found) >= -1e-6 * found[1:]).all()
    assert found[-1] / math.sqrt(2 * ratios[-1]) == pytest.approx(1.96, rel=0.01)


def test_what_has_no_noise_has_no_eta() -> None:
    nothing = np.zeros(2)
    assert laplace_eta(nothing, nothing, 1.0, FINE, 0.05).tolist() == [0.0, 0.0]
    assert len(laplace_eta(nothing[:0], nothing[:0], 1.0, FINE, 0.05)) == 0


@pytest.mark.parametrize("mu", [0.0, 1.0, -0.1, 1e-12, math.nan, math.inf])
def test_mu_is_a_probability(mu: float) -> None:
    with pytest.raises(InputError, match="mu"):
        checked_mu(mu)


def test_the_likely_square_of_a_noisy_length() -> None:
    lengths = np.linspace(0.0, 40.0, 400_001)
    for seen in (-8.0, -3.0, 0.0, 1.0, 10.0):
        chance = np.exp(-np.square(lengths - seen) / 2 + min(seen, 0.0) ** 2 / 2)
        assert likely_square(2 * seen, 2.0) == pytest.approx(4 * np.average(lengths**2, weights=chance), rel=1e-3)
    assert likely_square(3.0, 0.0) == 9.0
    assert 0.0 < likely_square(-1e9, 1.0) < 0.1


SHAPES = [(1,), (2,), (7,), (64,), (100,), (6, 5, 3)]


def workloads(shape: tuple[int, ...]) -> list[Workload]:
    rng = np.random.default_rng(len(shape) + shape[0])
    ends = np.sort(rng.random((200, len(shape), 2)), axis=2) * np.array(shape)[:, None]
    all_of_it = Workload.boxes(shape, np.zeros((1, len(shape))), np.array([shape], dtype=float))
    return [
        random_ranges(shape, 200),
        Workload.boxes(shape, ends[:, :, 0], ends[:, :, 1]),
        Workload.boxes(shape, ends[:5, :, 0], ends[:5, :, 0]),
        all_of_it,
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_gains_from_the_ends_of_a_box_are_those_from_all_its_cells(shape: tuple[int, ...]) -> None:
    last = len(shape) - 1
    trees = [Tree(shape, branching) for branching in (2, 3, 8, 16)]
    for strategy in (Identity(shape), Haar(shape), Haar(shape, (0,)), *trees, Tree(shape, 4, (last,))):
        for workload in workloads(shape):
            for quick, slow in zip(box_gains(strategy, workload), gains(strategy, workload), strict=True):
                assert quick == pytest.approx(slow, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_energy_of_a_box_in_some_frequencies(shape: tuple[int, ...]) -> None:
    cells = math.prod(shape)
    for kept in {0, cells // 8, cells // 3, cells // 2}:
        waves, shares = Waves(shape, kept), np.stack([np.ones(kept + 1), np.arange(kept + 1.0) == kept], axis=1)
        for workload in workloads(shape):
            weights = workload.dense(slice(0, len(workload)))
            squares = np.square(waves.dual(weights) / waves.divisor)
            direct = np.stack([squares.sum(axis=1), squares[:, max(2 * kept - 1, 0) :].sum(axis=1)], axis=1)
            assert wave_energy(workload, shares) == pytest.approx(direct, rel=1e-4, abs=1e-9)
            assert dense_energy(weights, shares) == pytest.approx(direct, rel=1e-4, abs=1e-9)
