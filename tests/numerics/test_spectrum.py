"""Spectra under noise: bounds hold as often as they say and are not much wider than they must be."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, chi2, norm

from adumbra.common.errors import InputError
from adumbra.families.scree import MOST, scree_svg
from adumbra.numerics import spectrum
from adumbra.numerics.spectrum import (
    LAWS,
    LEVELS,
    SymmetricNoise,
    angle_bound,
    axis_bounds,
    chosen,
    components_above,
    debiased,
    interval,
    leading,
    principal_angles,
    subspace_error,
)

ROOT2 = math.sqrt(2)


def noise_of(law, width, ratio=ROOT2, spread=1.0):
    return SymmetricNoise(law, width, ratio * spread, spread)


# ---- draws and laws, and how the tables were made


def draws(noise, runs, seed):
    """Matrices E of that law, one after the other along the first axis."""
    rng = np.random.default_rng(seed)
    d = noise.width
    shape = (runs, d, d)
    entries = rng.laplace(size=shape) / ROOT2 if noise.law == "laplace" else rng.standard_normal(shape)
    upper = np.triu(entries, 1) * noise.off_diagonal
    out = upper + upper.transpose(0, 2, 1)
    out[:, range(d), range(d)] = entries[:, range(d), range(d)] * noise.diagonal
    if noise.law == "l2-laplace":
        m = d * (d + 1) // 2
        out *= np.sqrt(rng.chisquare(m + 1, size=runs) / (m + 1))[:, None, None]
    return out


def norms(noise, runs, seed):
    batch = max(1, 400_000 // noise.width**2)
    found = []
    for start in range(0, runs, batch):
        values = np.linalg.eigvalsh(draws(noise, min(batch, runs - start), [*np.atleast_1d(seed), start]))
        found.append(np.maximum(values[:, -1], -values[:, 0]))
    return np.concatenate(found)


def log_weight(d, b):
    """Logarithm of the weight of "all d eigenvalues within +-b", s = 1, without its constant: a determinant."""
    nodes, weights = np.polynomial.legendre.leggauss(2 * d + 60)
    x, weights = np.append(b * (nodes + 1) / 2, b).astype(np.longdouble), weights * b / 2  # exp(-x^2) below 1e-308
    psi = [np.exp(-x * x / 4) / (2 * np.pi) ** 0.25]
    psi.append(x * psi[0])
    for n in range(1, d):
        psi.append((x * psi[n] - np.sqrt(n) * psi[n - 1]) / np.sqrt(n + 1))
    beyond = []  # integrals of odd functions from x to b
    for n in range(0, d - 1, 2):
        before = np.sqrt(n) * beyond[-1] if n else 0.0
        beyond.append((before + 2 * (psi[n] - psi[n][-1])[:-1]) / np.sqrt(n + 1))
    even = np.array(psi[:d:2])[:, :-1].astype(float) * weights
    columns = np.array(beyond, dtype=float).reshape(len(beyond), len(nodes)).T
    if d % 2:
        columns = np.column_stack([columns, np.ones(len(nodes))])
    return np.linalg.slogdet(even @ columns)[1]


def gaussian_level(d, b):
    """P(|E| <= b) for the rotation-free normal matrix of width d with s = 1."""
    return math.exp(log_weight(d, b) - log_weight(d, 2 * math.sqrt(d) + 10))


def l2_laplace_level(d, b):
    """P(factor |E| <= b): the normal one, averaged over the common factor."""
    scores, weights = np.polynomial.legendre.leggauss(80)
    scores, weights = 7 * scores, 7 * weights * norm.pdf(7 * scores)
    free = d * (d + 1) // 2 + 1
    factor = np.sqrt(np.where(scores < 0, chi2.ppf(norm.cdf(scores), free), chi2.isf(norm.sf(scores), free)) / free)
    whole = log_weight(d, 2 * math.sqrt(d) + 10)
    far = 2 * math.sqrt(d) + 10
    return float(weights @ [math.exp(log_weight(d, min(b / r, far)) - whole) for r in factor])


def laplace_excess(d, runs, ratio, level):
    """A cell of the Laplace tables: the upper 99.9% confidence limit of a simulated quantile, less 2 sqrt d."""
    rng = np.random.default_rng([d, 20])
    found = []
    while len(found) < runs:
        batch = min(runs - len(found), max(1, 200_000 // d**2))
        matrix = np.tril(rng.laplace(size=(batch, d, d)) / ROOT2, -1)
        matrix += matrix.transpose(0, 2, 1)
        matrix[:, range(d), range(d)] = rng.laplace(size=(batch, d)) / ROOT2 * ratio
        values = np.linalg.eigvalsh(matrix)
        found += np.maximum(values[:, -1], -values[:, 0]).tolist()
    return sorted(found)[min(int(binom.ppf(0.999, runs, level)), runs - 1)] - 2 * math.sqrt(d)


# ---- the norm of the noise


def test_the_determinant_is_the_law_of_the_norm():
    """Width 1 is one normal number; width 2 has a closed form; others agree with draws."""
    for b in (0.3, 1.0, 3.0):
        assert gaussian_level(1, b) == pytest.approx(1 - 2 * norm.sf(b / ROOT2), abs=1e-12)
        # eigenvalues t +- r, t normal of sd 1, r^2 exponential of mean 2
        t = np.linspace(-b, b, 20001)
        closed = np.trapezoid(norm.pdf(t) * -np.expm1(-((b - np.abs(t)) ** 2) / 2), t)
        assert gaussian_level(2, b) == pytest.approx(closed, abs=1e-7)
    for d in (3, 8):
        seen = norms(noise_of("gaussian", d), 20_000, d)
        for share in (0.2, 0.8, 0.97):
            b = np.quantile(seen, share)
            assert gaussian_level(d, b) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000))
    for d, b in ((2, 3.5), (7, 6.5)):
        seen = (norms(noise_of("l2-laplace", d), 20_000, d) <= b).mean()
        assert l2_laplace_level(d, b) == pytest.approx(seen, abs=4 * math.sqrt(seen * (1 - seen) / 20_000))


@pytest.mark.parametrize("level", LEVELS)
def test_the_table_of_normal_noise_is_exact_and_rounded_up(level):
    for d in (w for w in spectrum._WIDTHS if w <= 192):
        bound = noise_of("gaussian", d).norm(level)
        assert gaussian_level(d, bound) >= level > gaussian_level(d, bound - 0.001)


@pytest.mark.parametrize("level", LEVELS)
def test_between_tabulated_widths_normal_noise_keeps_its_level(level):
    for d in [*range(13, 64), 70, 80, 95, 97, 112, 127, 129, 150, 193]:
        bound = noise_of("gaussian", d).norm(level)
        assert level <= gaussian_level(d, bound) < level + 0.01


@pytest.mark.parametrize("level", LEVELS)
def test_the_table_of_l2_laplace_is_exact_and_rounded_up(level):
    for d in (1, 2, 4, 9, 20, 32):
        bound = noise_of("l2-laplace", d).norm(level)
        assert l2_laplace_level(d, bound) >= level - 1e-7
        assert l2_laplace_level(d, bound - 0.0011) < level
    for d in (14, 28):
        assert level <= l2_laplace_level(d, noise_of("l2-laplace", d).norm(level)) < level + 0.01
    one = brentq(lambda b: -math.expm1(-b) - level, 0.1, 20)  # at width 1 it is a Laplace law, here of scale 1
    assert noise_of("l2-laplace", 1).norm(level) == pytest.approx(one, abs=0.001)


def test_the_laplace_tables_can_be_made_again():
    for d in (1, 2, 3):
        at = spectrum._WIDTHS.index(d)
        for row, ratio in (("laplace", ROOT2), ("laplace-even", 1.0)):
            again = laplace_excess(d, 200_000, ratio, 0.95)
            assert spectrum._EXCESS[row, 0.95][at] == pytest.approx(math.ceil(again * 1000) / 1000, abs=1e-9)
    at = spectrum._WIDTHS.index(384)
    assert len({len(row) for row in spectrum._EXCESS.values()} | {len(spectrum._WIDTHS)}) == 1
    for row in spectrum._EXCESS.values():  # what is taken beyond the table, and between wide widths, falls
        assert row[at - 6] > row[at - 4] > row[at - 2] > row[at]


@pytest.mark.parametrize(("row", "ratio"), [("laplace", ROOT2), ("laplace-even", 1.0)])
def test_the_laplace_tables_agree_with_draws(row, ratio):
    """Cells that are too small would break the level, cells that are too large would widen error bars for nothing."""
    for d, runs in (
        (4, 9000),
        (6, 9000),
        (8, 9000),
        (11, 9000),
        (16, 6000),
        (20, 6000),
        (24, 4000),
        (32, 2000),
        (64, 700),
    ):
        seen = norms(noise_of("laplace", d, ratio), runs, [d, 40])
        for level, below, over in ((0.95, 0.08, 0.15), (0.99, 0.2, 0.4)):
            excess = spectrum._EXCESS[row, level][spectrum._WIDTHS.index(d)]
            assert -below < excess - (np.quantile(seen, level) - 2 * math.sqrt(d)) < over


CASES = [(law, ROOT2) for law in LAWS] + [("laplace", 1.0), ("laplace", 1 / ROOT2), ("gaussian", 1.0)]


@pytest.mark.parametrize(("law", "ratio"), CASES)
@pytest.mark.parametrize("width", [1, 2, 5, 14, 26, 40, 80])
def test_the_norm_stays_below_its_bound_as_often_as_it_says(law, ratio, width):
    runs = 6000 if width < 20 else 1500 if width < 50 else 300
    noise = noise_of(law, width, ratio, 0.7)
    seen = norms(noise, runs, width)
    for level in LEVELS:
        bound = noise.norm(level)
        assert (seen <= bound).mean() >= level - 3 * math.sqrt(level * (1 - level) / runs)
    assert noise.norm(0.95) < noise.norm(0.99)
    tight = 1.35 if width < 20 else 1.06
    assert noise.norm(0.95) < tight * np.quantile(seen, 0.95)


def test_the_norm_of_wide_noise():
    """Beyond the tables too: a few draws suffice, as the norm hardly varies."""
    for law, ratio in (("gaussian", ROOT2), ("laplace", 1.0), ("laplace", ROOT2)):
        noise = noise_of(law, 600, ratio)
        seen = norms(noise, 12, 6)
        assert (seen <= noise.norm(0.99)).all()
        assert noise.norm(0.95) < 1.03 * np.median(seen)


@pytest.mark.parametrize("level", LEVELS)
def test_normal_noise_lies_below_what_is_proved_for_every_width(level):
    """The bound by comparison and concentration that the page proves."""
    for d in [*range(1, 40), 64, 100, 200, 512, 513, 1000, 5000]:
        mean_length = ROOT2 * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        assert noise_of("gaussian", d).norm(level) <= 2 * mean_length + ROOT2 * norm.isf((1 - level) / 2)


def test_more_variance_never_lowers_the_bound_and_it_scales():
    for law in LAWS:
        for width in (1, 2, 30):
            for diagonal in (0.0, 0.5, 1.0, ROOT2, 3.0):
                noise = SymmetricNoise(law, width, diagonal, 1.0)
                assert noise.norm() <= SymmetricNoise(law, width, diagonal + 0.1, 1.0).norm()
                assert noise.norm() <= SymmetricNoise(law, width, diagonal, 1.1).norm()
                assert 3 * noise.norm() == pytest.approx(SymmetricNoise(law, width, 3 * diagonal, 3.0).norm())
    assert SymmetricNoise("gaussian", 1, 1.0, 0.0).norm() == SymmetricNoise("gaussian", 1, 1.0, 99.0).norm()
    assert SymmetricNoise("laplace", 9, 0.0, 0.0).norm() == SymmetricNoise("laplace", 9, 0.0, 0.0).edge == 0.0


def test_the_edge_is_where_the_noise_ends():
    for law in LAWS:
        noise = noise_of(law, 400, spread=0.3)
        assert np.linalg.eigvalsh(draws(noise, 1, 5)[0])[-1] == pytest.approx(noise.edge, rel=0.03)
    assert SymmetricNoise("gaussian", 1, ROOT2, 0.0).edge == pytest.approx(2.0)


def test_what_is_not_a_law_is_refused():
    for bad in (("cauchy", 3, 1.0, 1.0), ("gaussian", 0, 1.0, 1.0), ("gaussian", 3, -1.0, 1.0)):
        with pytest.raises(InputError):
            SymmetricNoise(*bad)
    with pytest.raises(InputError):
        SymmetricNoise("gaussian", 3, 1.0, math.nan)
    with pytest.raises(InputError, match=r"0\.95 or 0\.99"):
        noise_of("gaussian", 3).norm(0.9)


# ---- eigenvalues and axes


def spiked(variances, noise, seed):
    """A with those variances along random axes, the axes, and A + E."""
    rng = np.random.default_rng([seed, 1])
    axes = np.linalg.qr(rng.standard_normal((noise.width, len(variances))))[0]
    true = (axes * np.asarray(variances)) @ axes.T
    return true, axes, true + draws(noise, 1, [seed, 2])[0]


@pytest.mark.parametrize(("width", "count"), [(1, 1), (2, 2), (7, 3), (60, 60), (300, 10), (1100, 8)])
def test_leading_agrees_with_all_eigenvalues(width, count):
    _, _, matrix = spiked([9.0 * math.sqrt(width)], noise_of("gaussian", width), width)
    values, vectors = leading(matrix, count)
    want, axes = np.linalg.eigh(matrix)
    assert values == pytest.approx(want[::-1][:count], abs=1e-8)
    assert vectors.T @ vectors == pytest.approx(np.eye(count), abs=1e-8)
    assert matrix @ vectors == pytest.approx(vectors * values, abs=1e-6)
    assert np.abs(np.sum(vectors * axes[:, ::-1][:, :count], axis=0)) == pytest.approx(1, abs=1e-8)
    top = np.argmax(np.abs(vectors), axis=0)
    assert (vectors[top, range(count)] > 0).all()
    again = leading(matrix.copy(), count)
    assert np.array_equal(values, again[0]) and np.array_equal(vectors, again[1])


def test_wide_matrices_go_through_lanczos_and_back_if_it_fails(monkeypatch):
    _, _, matrix = spiked([500.0, 300.0], noise_of("gaussian", 1000), 3)
    want, axes = leading(matrix, 2)
    tried = []

    def stubborn(*args, **more):
        tried.append(1)
        raise spectrum.ArpackError(1)

    def forgetful(real):
        def without_the_first(*args, k, **more):
            tried.append(1)
            values, vectors = real(*args, k=k + 1, **more)
            order = np.argsort(values)[:-1]
            return values[order], vectors[:, order]

        return without_the_first

    for broken in (stubborn, forgetful(spectrum.eigsh)):
        monkeypatch.setattr(spectrum, "eigsh", broken)
        values, vectors = leading(matrix, 2)
        assert values == pytest.approx(want, rel=1e-9)
        assert vectors == pytest.approx(axes, abs=1e-7)
    assert len(tried) == 2


def test_ties_and_no_noise():
    for width in (4, 1000):
        values, vectors = leading(np.diag([3.0] * 4 + [0.0] * (width - 4)), 4)
        assert values == pytest.approx([3.0] * 4)
        assert vectors.T @ vectors == pytest.approx(np.eye(4), abs=1e-9)
        assert np.linalg.norm(vectors[:4]) == pytest.approx(2.0)
    assert leading(np.zeros((1000, 1000)), 2)[0] == pytest.approx([0.0, 0.0])
    assert leading([[-2.0]], 1)[1].tolist() == [[1.0]]
    # two entries of the same size: the first is positive, whatever rounding says
    assert (leading([[0.0, -1.0], [-1.0, 0.0]], 2)[1][0] > 0).all()


def test_what_has_no_spectrum_is_refused():
    for bad, count in (([[1.0, 2.0]], 1), ([[1.0, 2.0], [0.0, 1.0]], 1), ([[math.nan]], 1), ([[1.0]], 2), ([[1.0]], 0)):
        with pytest.raises(InputError):
            leading(bad, count)


# ---- what noise does to one component


@pytest.mark.parametrize("law", LAWS)
def test_debiased_variances_are_right_on_average(law):
    """Width 200, two components clear of the edge and of each other."""
    noise, runs = noise_of(law, 200, spread=0.1), 60
    true = np.array([7.0, 2.6])  # s sqrt d is 1.41
    seen = []
    for run in range(runs):
        _, _, matrix = spiked(true, noise, [run, len(law)])
        seen.append(leading(matrix, 2)[0])
    raw, estimates = np.array(seen), np.array([debiased(values, noise) for values in seen])
    assert (raw.mean(axis=0) / true - 1 > 0.03).all()  # there is something to correct
    assert estimates.mean(axis=0) == pytest.approx(true, rel=0.015)


def test_narrow_matrices_are_debiased_with_one_direction_less():
    """At width 5 the axis itself is a fifth of all directions; counting it would correct too much."""
    noise = noise_of("gaussian", 5)
    rng = np.zeros((5, 5))
    rng[0, 0] = 30.0
    top = np.linalg.eigvalsh(rng + draws(noise, 40_000, 9))[:, -1]
    assert top.mean() - 30 == pytest.approx(4 / 30, abs=0.02)
    assert debiased(top, noise).mean() == pytest.approx(30.0, abs=0.02)
    assert debiased([30 + 4 / 30], noise) == pytest.approx([30.0])


def test_below_the_edge_nothing_is_known():
    noise = noise_of("gaussian", 100)
    values = [noise.edge, 3.0, -5.0]
    assert debiased(values, noise).tolist() == [0.0] * 3
    just = debiased([noise.edge * (1 + 1e-12)], noise)[0]
    assert just == pytest.approx(noise.edge / 2, rel=0.11)  # half of what is seen
    alone = noise_of("gaussian", 1)
    assert debiased([5.0], alone).tolist() == [5.0]
    still = SymmetricNoise("gaussian", 9, 0.0, 0.0)
    assert debiased([2.0, 0.0], still).tolist() == [2.0, 0.0]


# ---- bounds that hold for every matrix


@given(st.integers(1, 7), st.integers(0, 10**6), st.sampled_from([0.01, 0.3, 1.0]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_intervals_and_angles_hold_whenever_the_norm_does(width, seed, size):
    rng = np.random.default_rng([seed, 3])
    axes = np.linalg.qr(rng.standard_normal((width, width)))[0]
    true = np.sort(rng.exponential(size=width) ** 2)[::-1] * (rng.random() < 0.9)
    error = draws(noise_of("gaussian", width, spread=size), 1, [seed, 4])[0]
    reach = np.abs(np.linalg.eigvalsh(error)).max()
    values, vectors = leading((axes * true) @ axes.T + error, width)
    low, high = interval(values, reach)
    assert (low <= true + 1e-9).all() and (true <= high + 1e-9).all() and (low >= 0).all()
    for kept in range(width + 1):
        bound = angle_bound(values, kept, reach, width)
        sine = principal_angles(vectors[:, :kept], axes[:, :kept])[0] if kept else 0.0
        assert sine <= bound + 1e-7
    each = np.array([principal_angles(vectors[:, [i]], axes[:, [i]])[0] for i in range(width)])
    assert (each <= axis_bounds(values, reach, width) + 1e-7).all()
    assert components_above(values, reach * (1 + 1e-9)) <= (true > 0).sum()


def test_bounds_at_their_level_cover_as_often_as_they_say():
    """Intervals and angles with the 95% norm, all at once; the error bars are those of a release."""
    noise, runs, fine = noise_of("laplace", 30, 1.0, 0.05), 300, 0
    for run in range(runs):
        _, axes, matrix = spiked([9.0, 4.0, 1.0], noise, [run, 8])
        values, vectors = leading(matrix, 30)
        low, high = interval(values, noise.norm())
        want = np.array([9.0, 4.0, 1.0] + [0.0] * 27)
        inside = (low <= want + 1e-9).all() and (want <= high).all()
        sine = principal_angles(vectors[:, :2], axes[:, :2])[0]
        bound, real = angle_bound(values, 2, noise.norm()), components_above(values, noise.norm())
        fine += bool(inside and sine <= bound and real <= 3)
        assert bound < 8 * sine and real >= 2
    assert fine >= 0.95 * runs - 3 * math.sqrt(0.95 * 0.05 * runs)


@pytest.mark.parametrize("size", [0.01, 0.3, 0.49])
def test_no_smaller_angle_bound_holds(size):
    """A pair that reaches it: noise that turns two axes as far as its norm can."""
    seen, half = np.diag([1.0, 0.0]), math.asin(2 * size) / 2
    turned = np.array([[-math.sin(2 * half), math.cos(2 * half)], [math.cos(2 * half), math.sin(2 * half)]]) * size
    assert np.abs(np.linalg.eigvalsh(turned)).max() == pytest.approx(size)
    true = leading(seen + turned, 2)[1]
    assert principal_angles(true[:, :1], np.eye(2)[:, :1])[0] == pytest.approx(math.sin(half), rel=1e-6)
    assert angle_bound([1.0, 0.0], 1, size) == pytest.approx(math.sin(half), rel=1e-9)


def test_angle_bound_at_its_ends():
    assert angle_bound([5.0, 3.0], 1, 1.0) == 1.0  # a gap of twice the norm may have closed
    assert angle_bound([5.0, 2.999], 1, 1.0) < ROOT2 / 2
    assert angle_bound([5.0, 3.0], 0, 9.0) == 0.0
    assert angle_bound([5.0, 3.0], 2, 9.0, width=2) == 0.0
    assert angle_bound([5.0, 3.0], 2, 0.1) == 1.0  # there may be more of them
    assert angle_bound([3.0, 3.0], 1, 0.0) == 1.0 and angle_bound([3.0, 2.0], 1, 0.0) == 0.0
    assert angle_bound([5.0], 1, 1.0, width=1) == 0.0
    assert axis_bounds([9.0], 1.0).tolist() == [] and axis_bounds([9.0], 1.0, 1).tolist() == [0.0]
    # alone between two neighbours: by itself, and as the difference of two spans where the gap is small
    assert axis_bounds([9.0, 5.0, 1.0], 0.4)[1] == pytest.approx(0.4 / 3.6)
    assert axis_bounds([9.0, 5.0, 1.0], 1.9)[1] == pytest.approx(ROOT2 * angle_bound([5.0, 1.0], 1, 1.9))
    assert axis_bounds([9.0, 5.0, 4.0], 1.0, 3).tolist() == pytest.approx([0.258819, 1.0, 1.0])
    for values, kept in (([1.0, 2.0], 1), ([2.0, 1.0], 3), ([2.0, 1.0], -1)):
        with pytest.raises(InputError):
            angle_bound(values, kept, 0.1)


def test_components_of_noise_alone():
    for law in LAWS:
        noise = noise_of(law, 50)
        values = np.linalg.eigvalsh(draws(noise, 200, 11))
        assert np.mean([components_above(v, noise.norm()) > 0 for v in values]) < 0.06
        assert np.mean([components_above(v, noise.edge) for v in values]) < 1.0
    assert components_above([3.0, 2.0, 2.0, 1.0], 2.0) == 1


# ---- how many to keep


def test_chosen_on_spectra_made_by_hand():
    still = SymmetricNoise("gaussian", 4, 0.0, 0.0)
    values = [5.0, 3.0, 1.5, 0.5]
    for share, want in ((0.1, 1), (0.5, 1), (0.51, 2), (0.8, 2), (0.81, 3), (0.95, 3), (0.96, 4), (1.0, 4)):
        assert chosen(values, 10.0, still, share) == want
    assert chosen([0.1] * 10, 1.0, SymmetricNoise("gaussian", 10, 0.0, 0.0), 0.8) == 8  # sums that round


def test_chosen_looks_at_debiased_variances_and_stops_at_the_edge():
    noise = noise_of("gaussian", 101, spread=0.1)  # edge 2.01
    seen = [5.0 + 1 / 5.0, 3.0 + 1 / 3.0, 1.9, 1.8]
    assert debiased(seen, noise) == pytest.approx([5.0, 3.0, 0.0, 0.0])
    assert chosen(seen, 10.0, noise, 0.5) == 1  # 5.2 is seen, 5 is there
    assert chosen(seen, 10.3, noise, 0.5) == 2
    assert chosen(seen, 10.0, noise, 0.99) == 2  # the rest is hidden
    assert chosen([1.9, 1.8], 10.0, noise, 0.5) == 1
    assert chosen(seen, -3.0, noise, 0.6) == 1 and chosen(seen, -3.0, noise, 0.7) == 2  # 5 of 8 at least
    for bad in (0.0, -1.0, 1.1, math.nan):
        with pytest.raises(InputError):
            chosen(seen, 10.0, noise, bad)


# ---- spans


def test_principal_angles_and_the_error_between_spans():
    eye, tilt = np.eye(4), 1e-9
    assert principal_angles(eye[:, :2], eye[:, 1:3]) == pytest.approx([1.0, 0.0])
    turned = np.column_stack([eye[:, 0], math.cos(tilt) * eye[:, 1] + math.sin(tilt) * eye[:, 2]])
    assert principal_angles(eye[:, :2], turned) == pytest.approx([tilt, 0.0], rel=1e-6, abs=1e-16)
    assert principal_angles(eye[:, :3], eye[:, 2:]) == pytest.approx([1.0, 0.0])
    rng = np.random.default_rng(2)
    a, b = (np.linalg.qr(rng.standard_normal((9, 3)))[0] for _ in range(2))
    direct = np.linalg.norm(a @ a.T - b @ b.T) / math.sqrt(6)
    assert subspace_error(a, b) == pytest.approx(direct)
    cosines = np.linalg.svd(a.T @ b, compute_uv=False)
    assert principal_angles(a, b)[::-1] == pytest.approx(np.sqrt(1 - cosines**2))
    assert subspace_error(a, -a) == pytest.approx(0.0, abs=1e-15)
    assert subspace_error(eye[:, :2], eye[:, 2:]) == 1.0
    with pytest.raises(InputError):
        subspace_error(eye[:, :2], eye[:, :3])


# ---- the picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(values, edge, kept, norm=1.0, **more):
    low, high = interval(values, norm)
    return ElementTree.fromstring(scree_svg(values, low, high, edge, kept, **({"title": "Spectrum"} | more)))


def points(root):
    return [c for c in root.iter(f"{SVG}circle") if c.get("class", "").startswith("point")]


@pytest.mark.parametrize("count", [1, 2, 7, 30, 31, MOST])
def test_the_picture_holds_every_component_in_its_place(count):
    values = np.linspace(9.0, -1.0, count) if count > 1 else np.array([4.0])
    root = drawn(values, 2.0, (count + 1) // 2)
    found = points(root)
    assert len(found) == count
    x, y = ([float(p.get(axis)) for p in found] for axis in ("cx", "cy"))
    assert x == sorted(x) and y == sorted(y)  # to the right, and down
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(0 < at < width for at in x) and all(0 < at < height for at in y)
    assert sum("kept" in p.get("class") for p in found) == (count + 1) // 2
    assert sum("above" in p.get("class") for p in found) == (values > 2.0).sum()
    dashed = [p for p in root.iter(f"{SVG}path") if p.get("stroke-dasharray")]
    line = float(dashed[0].get("d").split()[1].split("H")[0])
    assert len(dashed) == 1
    assert all((at < line) == (value > 2.0) for at, value in zip(y, values, strict=True))
    greys = {p.get("fill") for p in found if "below" in p.get("class")}
    assert len(greys) <= 1 and not greys & {p.get("fill") for p in found if "above" in p.get("class")}


def test_error_bars_end_where_the_intervals_end():
    root = drawn([8.0, 4.0], 1.0, 1, norm=2.0)
    bars = [p.get("d") for p in root.iter(f"{SVG}path") if "V" in p.get("d")]
    ends = [tuple(map(float, bar.split("M")[1].split()[1].split("V"))) for bar in bars]
    middles = [float(p.get("cy")) for p in points(root)]
    per_unit = (middles[1] - middles[0]) / 4.0
    for (low, high), middle in zip(ends, middles, strict=True):
        assert (low - middle, middle - high) == pytest.approx((2 * per_unit, 2 * per_unit), abs=0.11)


def test_the_picture_escapes_and_stands_alone():
    title = 'A < B & "C"\x00\u202e</svg><script>'
    text = scree_svg([3.0], [2.0], [4.0], 1.0, 1, title=title, unit="<m&l>")
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script")) and not list(root.iter(f"{SVG}style"))
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    words = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert 'A < B & "C"\ufffd\ufffd</svg><script>' in words and "<m&l>" in words
    first = next(root.iter(f"{SVG}rect"))
    assert first.get("fill") == "#ffffff" and first.get("width") == root.get("width")
    assert len({e.get("y") for e in drawn([3.0], 1.0, 1, title="word " * 60).iter(f"{SVG}text")}) > 8  # broken up


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 123.0, 3e7])
def test_ticks_are_round_at_every_scale(scale):
    root = drawn(np.array([9.7, 4.0, -0.8]) * scale, 2.0 * scale, 1, norm=scale)
    words = ["".join(node.itertext()) for node in root.iter(f"{SVG}text") if node.get("text-anchor") == "end"]
    ticks = [float(word.replace("−", "-")) for word in words]
    steps = np.diff(ticks)
    assert 3 <= len(ticks) <= 9 and 0.0 in ticks and steps == pytest.approx(steps[0])
    assert f"{steps[0]:.0e}"[0] in "125" and max(map(len, words)) <= 6


@pytest.mark.parametrize("edge", [0.000839, 0.00000839123, 2.0, 123456.7, 8e-8])
def test_the_name_of_the_edge_is_not_cut(edge):
    """7 pixels a letter are more than any usual font takes at this size."""
    root = drawn(np.array([5.0, 2.0]) * max(edge, 0.001), edge, 1, norm=0.0)
    (text,) = [node for node in root.iter(f"{SVG}text") if "".join(node.itertext()).startswith("noise: ")]
    assert float(text.get("x")) + 7 * len("".join(text.itertext())) <= float(root.get("width"))


def test_pictures_of_noise_alone_and_of_nothing():
    assert {p.get("class") for p in points(drawn([0.5, -0.5], 2.0, 1))} == {"point kept below", "point left below"}
    assert len(points(drawn([0.0], 0.0, 0, norm=0.0))) == 1
    assert "2 above the noise" in drawn([5.0, 4.0], 1.0, 1).get("aria-label")
    assert "1 above the noise" in drawn([5.0, 4.0], 1.0, 1, real=1).get("aria-label")
    for values, edge, kept in (([], 1.0, 0), ([1.0] * (MOST + 1), 1.0, 1), ([math.inf], 1.0, 1), ([1.0], 1.0, 2)):
        with pytest.raises(InputError):
            scree_svg(values, values, values, edge, kept, title="")
    with pytest.raises(InputError):
        scree_svg([1.0], [1.0, 0.0], [2.0], 1.0, 1, title="")
