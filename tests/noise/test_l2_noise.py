"""Noise of random length: its law on the lattice, its slope, exact decisions, lengths that are shared and that are not.

Keys are fixed wherever a verdict is statistical, so every p-value is the same on every run.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from adumbra.common.errors import InputError
from adumbra.noise import add as noise
from adumbra.noise import l2_laplace
from adumbra.noise.add import CHUNK, L2_CHUNK, SUM_LIMIT, add_l2_noise, add_l2_noise_by_row
from adumbra.noise.exact_bounds import cosine_pi, minus_log
from adumbra.noise.l2_laplace import BAND, PRECISION, L2Sampler, LazyGamma, Lengths, keeps
from adumbra.noise.lattice import LIMIT, KeyStream
from adumbra.noise.lattice_tables import LaplaceTable

ACCEPT, REJECT = 1e-3, 1e-9
BIG = 2.0**30 / 3
WORD = 2**64


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Replace the operating system by known keys, a new one each time; the list says which were taken."""
    taken: list[bytes] = []

    def key() -> bytes:
        taken.append(len(taken).to_bytes(32, "little"))
        return taken[-1]

    monkeypatch.setattr(noise, "operating_system_key", key)
    yield taken


# ---- what the law should be, by quadrature over the random length


GRID = np.exp(np.linspace(math.log(1e-9), math.log(600), 1500))  # of G; in its logarithm the integrand is smooth


def theta(v: np.ndarray) -> np.ndarray:
    """Sum of exp(-z^2 / (2 v)) over all integers, by whichever of its two series is short."""
    k = np.arange(1, 40)[:, None]
    small = np.minimum(v, 1.0)
    direct = 1 + 2 * np.exp(-(k**2) / (2 * small)).sum(0)
    large = np.maximum(v, 1.0)
    dual = np.sqrt(2 * np.pi * large) * (1 + 2 * np.exp(-2 * np.pi**2 * k**2 * large).sum(0))
    return np.where(v <= 1.0, direct, dual)


def weight(scales: Sequence[float], shape: float | None = None) -> np.ndarray:
    """Density of G (per log G) over the normalising sums of the numbers, up to a factor."""
    shape = (len(scales) + 1) / 2 if shape is None else shape
    log = shape * np.log(GRID) - GRID - special.gammaln(shape)
    for t, times in Counter(scales).items():
        log = log - times * np.log(theta(2 * t * t * GRID))
    return log


def log_mass(radii: np.ndarray, scales: Sequence[float], shape: float | None = None) -> np.ndarray:
    """log P(z) at each r = |(z_i / t_i)|_2."""
    unique, back = np.unique(radii, return_inverse=True)
    log = weight(scales, shape)[None, :] - unique[:, None] ** 2 / (4 * GRID)[None, :]
    return (special.logsumexp(log, axis=1) + math.log(math.log(GRID[1] / GRID[0])))[back]


def law_p_value(sample: np.ndarray, scales: Sequence[float], reach: int) -> float:
    """Chi-square of vectors of integers, vector by vector where they are common, the rest in one."""
    vectors = list(itertools.product(range(-reach, reach + 1), repeat=len(scales)))
    places = np.array(vectors, float)
    expected = np.exp(log_mass(np.sqrt(((places / np.array(scales)) ** 2).sum(1)), scales)) * len(sample)
    assert expected.sum() <= len(sample) * (1 + 1e-9)
    seen = Counter(map(tuple, sample.astype(int).tolist()))
    observed = np.array([seen[vector] for vector in vectors], float)
    common = expected >= 10
    observed = np.append(observed[common], len(sample) - observed[common].sum())
    expected = np.append(expected[common], max(len(sample) - expected[common].sum(), 1e-9))
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1))


SMALL = [(1, 0.25, 6), (1, 3.0, 60), (2, 0.25, 4), (2, 1.5, 14), (3, 0.25, 3), (3, 0.7, 6), (4, 0.5, 3)]


def test_the_quadrature_is_a_law() -> None:
    for k, t, reach in SMALL[:5]:
        places = np.array(list(itertools.product(range(-3 * reach, 3 * reach + 1), repeat=k)), float)
        assert np.exp(log_mass(np.sqrt((places**2).sum(1)) / t, [t] * k)).sum() == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize(("k", "t", "reach"), SMALL)
def test_law_on_the_lattice_by_row(k: int, t: float, reach: int, keys: list[bytes]) -> None:
    sample = add_l2_noise_by_row(np.zeros((60000, k), np.int64), t, 1.0)
    assert law_p_value(sample, [t] * k, reach) > ACCEPT
    assert law_p_value(sample, [t * 2 / 3] * k, reach) < REJECT
    assert law_p_value(sample, [t * 3 / 2] * k, reach) < REJECT


def test_law_of_parts_with_different_steps() -> None:
    sampler = L2Sampler(KeyStream(b"parts".ljust(32)))
    lengths = sampler.lengths(60000, 3)
    parts = [np.empty((60000, width), np.int64) for width in (1, 2)]
    for part, t in zip(parts, (2.0, 0.4), strict=True):
        sampler.draw(lengths, t, part)
    sample = np.hstack(parts)
    assert law_p_value(sample, [2.0, 0.4, 0.4], 8) > ACCEPT
    assert law_p_value(sample, [2.0 * 1.2, 0.4, 0.4], 8) < REJECT
    assert law_p_value(sample, [0.4, 0.4, 2.0], 8) < REJECT


def test_law_of_one_common_length(keys: list[bytes]) -> None:
    zero = np.zeros(1, np.int64)
    sample = np.array([np.hstack(add_l2_noise([(zero, 2.0, 1.0), (zero, 0.5, 1.0)])) for _ in range(1500)])
    assert law_p_value(sample, [2.0, 0.5], 10) > ACCEPT
    assert law_p_value(sample, [3.0, 0.75], 10) < REJECT
    assert law_p_value(sample, [1.33, 0.33], 10) < REJECT


# ---- fine grids: Gamma lengths, uniform directions


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9, 50, 51])
def test_lengths_are_gamma_and_directions_uniform(k: int, keys: list[bytes]) -> None:
    sample = add_l2_noise_by_row(np.zeros((20000, k), np.int64), BIG, 2.0**-10) * 2.0**10
    length = np.sqrt((sample**2).sum(1))
    assert stats.kstest(length, stats.gamma(k, scale=BIG).cdf).pvalue > ACCEPT
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(length, stats.gamma(k, scale=BIG * factor).cdf).pvalue < REJECT
    assert stats.kstest(length, stats.gamma(k + 0.5, scale=BIG).cdf).pvalue < REJECT
    assert abs(np.sign(sample).mean(0)).max() < 5 / math.sqrt(20000)
    if k > 1:
        direction = sample / length[:, None]
        for axis in (direction[:, 0], direction[:, -1], direction.sum(1) / math.sqrt(k)):
            assert stats.kstest(axis**2, stats.beta(0.5, (k - 1) / 2).cdf).pvalue > ACCEPT
        assert abs(stats.spearmanr(direction[:, 0] ** 2, length).statistic) < 5 / math.sqrt(20000)


def test_each_number_has_the_marginal_of_its_mixture(keys: list[bytes]) -> None:
    sample = add_l2_noise_by_row(np.zeros((30000, 6), np.int64), BIG, 1.0)[:, 2]
    nodes = stats.gamma(3.5).ppf((np.arange(2000) + 0.5) / 2000)

    def cdf(x: np.ndarray, t: float) -> np.ndarray:
        return stats.norm.cdf(x[:, None] / (t * np.sqrt(2 * nodes))).mean(1)

    some = sample[:5000]
    assert stats.kstest(some, lambda x: cdf(x, BIG)).pvalue > ACCEPT
    assert stats.kstest(some, lambda x: cdf(x, BIG * 2 / 3)).pvalue < REJECT
    assert stats.kstest(some, lambda x: cdf(x, BIG * 3 / 2)).pvalue < REJECT
    assert sample.std() == pytest.approx(BIG * math.sqrt(7), rel=0.03)


def test_one_length_for_all_numbers_of_all_arrays(keys: list[bytes]) -> None:
    """In units of its own t each array has the common spread, and the whole has a Gamma length."""
    lengths, ratios = [], []
    for _ in range(150):
        left, right = add_l2_noise([(np.zeros((20, 20)), 1e6, 1.0), (np.zeros(401), 1e3, 0.5)])
        left, right = left / 1e6, right / 0.5 / 1e3
        lengths.append(math.sqrt((left**2).sum() + (right**2).sum()))
        ratios.append((left**2).mean() / (right**2).mean())
    assert stats.kstest(lengths, stats.gamma(801).cdf).pvalue > ACCEPT
    assert stats.kstest(lengths, stats.gamma(801 * 1.02).cdf).pvalue < 1e-6
    assert stats.kstest(ratios, stats.f(400, 401).cdf).pvalue > ACCEPT


def test_chunks_share_the_length(keys: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "L2_CHUNK", 2)
    five = np.array([add_l2_noise([(np.zeros(5), BIG, 1.0)])[0] for _ in range(1000)])
    assert stats.kstest(np.sqrt((five**2).sum(1)) / BIG, stats.gamma(5).cdf).pvalue > ACCEPT
    sizes = np.log(np.abs(five) + 1)
    assert np.corrcoef(sizes[:, 0], sizes[:, 4])[0, 1] > 0.05


def test_a_long_vector_has_the_right_spread_in_every_chunk(keys: list[bytes]) -> None:
    size = 2 * L2_CHUNK + 77
    (out,) = add_l2_noise([(np.zeros(size, np.int64), 2.0**20, 1.0)])
    chunks = [(out[start : start + L2_CHUNK] ** 2).mean() for start in (0, L2_CHUNK)]
    assert chunks[0] / chunks[1] == pytest.approx(1, abs=6 * math.sqrt(4 / L2_CHUNK))
    spread = math.sqrt(chunks[0])
    assert spread == pytest.approx(2.0**20 * math.sqrt(size + 1), rel=0.01)
    assert stats.kstest(out[::7] / spread, stats.norm.cdf).pvalue > ACCEPT


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_independent(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "L2_CHUNK", CHUNK)
    monkeypatch.setattr(noise, "operating_system_key", (bytes([i]) * 32 for i in itertools.count()).__next__)
    k = 8
    rows = 6 * CHUNK // k
    out = add_l2_noise_by_row(np.zeros((rows, k)), 2.0**50, 1.0, threads)
    assert np.unique(np.abs(out)).size == out.size
    ranks = stats.norm.ppf((stats.rankdata((out**2).sum(1)) - 0.5) / rows)
    for lag in (1, 2, CHUNK // k, 2 * CHUNK // k):
        assert abs((ranks[lag:] * ranks[:-lag]).mean()) < 5 / math.sqrt(rows - lag)
    signs = np.sign(out)
    assert np.abs(np.corrcoef(signs, rowvar=False)[np.triu_indices(k, 1)]).max() < 5 / math.sqrt(rows)


# ---- the slope of the likelihood, which is the privacy


def slopes(scales: Sequence[float], radii: np.ndarray, shape: float | None = None) -> np.ndarray:
    """-d/dr log P in units of 1 / b: r E[1 / (2 G)] under the weight of the quadrature."""
    log = weight(scales, shape)[None, :] - radii[:, None] ** 2 / (4 * GRID)[None, :]
    share = np.exp(log - log.max(1, keepdims=True))
    return radii * (share / (2 * GRID)).sum(1) / share.sum(1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1 / 32, 40), min_size=1, max_size=4),
    st.integers(1, 60),
    st.lists(st.floats(0.01, 400), min_size=1, max_size=20),
)
def test_no_slope_exceeds_the_promise(scales: list[float], times: int, radii: list[float]) -> None:
    found = slopes(scales * times, np.array(radii))
    assert found.max() <= 1 + 1e-9
    assert found.min() >= 0


@pytest.mark.parametrize("k", [1, 2, 7, 200])
def test_the_promise_is_reached_and_a_wrong_number_of_degrees_would_break_it(k: int) -> None:
    radii = np.array([0.3, 1.0, 5.0, 30.0])
    assert slopes([40.0] * k, radii) == pytest.approx(np.ones(4), rel=1e-6)
    assert slopes([40.0] * k, radii, shape=k / 2).max() > 1.01
    assert slopes([0.25] * k, np.array([4.0])).max() < 1


@pytest.mark.parametrize(("k", "t", "reach"), SMALL[:6])
def test_no_two_vectors_differ_by_more_than_their_distance(k: int, t: float, reach: int) -> None:
    places = np.array(list(itertools.product(range(-reach, reach + 1), repeat=k)), float)
    log = log_mass(np.sqrt((places**2).sum(1)) / t, [t] * k)
    some = np.random.default_rng(0).permutation(len(places))[:200]
    distance = np.sqrt(((places[some, None, :] - places[None, :, :]) ** 2).sum(2)) / t
    assert (np.abs(log[some, None] - log[None, :]) <= distance + 1e-9).all()


# ---- exact arithmetic


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2**200), st.integers(0, 5000), st.sampled_from([64, 128, 300]))
def test_bounds_of_logarithm_hold_and_are_tight(p: int, more: int, bits: int) -> None:
    e = p.bit_length() + more
    low, high = minus_log(p, e, bits)
    with mpmath.workprec(bits + 400):
        exact = e * mpmath.log(2) - mpmath.log(p)
        assert mpmath.mpf(low.numerator) / low.denominator <= exact <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(1, 1 << (bits - 8))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, WORD - 1) | st.sampled_from([0, 1, WORD - 1, WORD // 2]), st.integers(0, 3))
def test_bounds_of_cosine_hold_and_are_tight(turn: int, more: int) -> None:
    digits = 64 * (more + 1)
    turn = turn << (64 * more) | (turn % 17 if more else 0)
    low, high = cosine_pi(turn, digits)
    with mpmath.workprec(digits + 400):
        ends = [mpmath.cospi(mpmath.mpf(turn + i) / mpmath.mpf(2) ** digits) for i in (0, 1)]
        assert mpmath.mpf(low.numerator) / low.denominator <= min(ends)
        assert max(ends) <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(8, 1 << digits)


def gamma_of(uniforms: Sequence[mpmath.mpf], m: int) -> mpmath.mpf:
    """The real number that complete uniforms stand for, by the formula of the proof."""
    factors = (m + 1) // 2
    total = -sum(mpmath.log(u) for u in uniforms[:factors])
    if m % 2 == 0:
        total -= mpmath.log(uniforms[factors]) * mpmath.cos(mpmath.pi * uniforms[factors + 1] / 2) ** 2
    return total


EXTREME = [1, 2, 12345, 2**40, WORD // 2, WORD - 2**20, WORD - 2, WORD - 1, 0]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 7), st.data())
def test_bounds_of_gamma_hold_shrink_and_nest(m: int, data: st.DataObject) -> None:
    count = (m + 1) // 2 + 2 * (m % 2 == 0)
    words = data.draw(st.lists(st.integers(0, WORD - 1) | st.sampled_from(EXTREME), min_size=count, max_size=count))
    rest = np.random.default_rng(1)
    drawn: list[int] = []

    def next_word() -> int:
        drawn.append(int(rest.integers(0, WORD, dtype=np.uint64)))
        return drawn[-1]

    lazy = LazyGamma(list(words), m, next_word)
    boxes = [lazy.bounds()]
    for _ in range(2):
        lazy.reveal()
        boxes.append(lazy.bounds())
    levels = lazy.digits // 64
    value = list(words)
    for level in range(levels - 1):
        value = [v << 64 | w for v, w in zip(value, drawn[level * count : (level + 1) * count], strict=True)]
    with mpmath.workprec(1500):
        uniforms = [(mpmath.mpf(v) + mpmath.mpf("0.37")) / mpmath.mpf(2) ** lazy.digits for v in value]
        exact = gamma_of(uniforms, m)
        for low, high in boxes:
            assert low > 0
            assert mpmath.mpf(low.numerator) / low.denominator <= exact <= mpmath.mpf(high.numerator) / high.denominator
    widths = [high - low for low, high in boxes]
    assert widths[1] <= widths[0] / 2**32 and widths[2] <= widths[1] / 2**32


@pytest.mark.parametrize("m", [1, 2, 3, 9, 10, 600])
def test_float_lengths_bound_their_own_error(m: int) -> None:
    factors, count = (m + 1) // 2, (m + 1) // 2 + 2 * (m % 2 == 0)
    words = KeyStream(bytes([m % 251]) * 32).words(300 * count).reshape(300, -1)
    for row, value in enumerate(itertools.product(EXTREME, EXTREME)):
        words[row, : count // 2 + 1], words[row, count // 2 + 1 :] = value
    gamma, error = np.empty(300), np.empty(300)
    l2_laplace._float_gamma(words, factors, gamma, error)
    for row in range(100 if m > 100 else 300):
        if math.isfinite(error[row]):
            drawn = LazyGamma(words[row].tolist(), m, lambda: 7)
            low, high = drawn._enclosed()
            assert Fraction(float(gamma[row])) - Fraction(float(error[row])) <= low, row
            assert high <= Fraction(float(gamma[row])) + Fraction(float(error[row])), row
        else:
            assert 0 in words[row]
    assert (error <= gamma * PRECISION)[100:].mean() > 0.95


@pytest.mark.parametrize("m", [1, 2, 3, 9, 10, 1000, 1001])
def test_float_lengths_are_right_to_the_precision_they_claim(m: int) -> None:
    words = KeyStream(bytes([m % 251]) * 32).words(200 * ((m + 1) // 2 + 2 * (m % 2 == 0))).reshape(200, -1)
    for row, value in enumerate(EXTREME):
        words[row, :] = value
    lengths = Lengths(words.copy(), m, lambda: 7)
    for row in range(40 if m > 100 else 200):
        low, high = lengths.exact(row).bounds()
        assert abs(Fraction(float(lengths.gamma[row])) - low) <= (low * Fraction(PRECISION) + (high - low)), row


def test_a_long_length_is_right_and_quick() -> None:
    m = 124_999
    lengths = Lengths(KeyStream(b"n" * 32).words(62_500).reshape(1, -1), m, lambda: 7)
    low, high = lengths.exact(0).bounds()
    assert high - low < low / 2**45
    assert abs(Fraction(float(lengths.gamma[0])) - low) < low / 2**40
    assert abs(float(low) - 62_500) < 6 * 250


def test_float_decision_errs_far_less_than_the_band() -> None:
    """The whole chance, from the float G to the kernel, against mpmath, for proposals near and far."""
    rng = np.random.default_rng(3)
    size = 400
    gamma = rng.gamma(2.0, size=size) * (1 + PRECISION * rng.choice([-1, 1], size))
    t, s = rng.uniform(0.1, 1e6, size), rng.uniform(0.3, 1.7, size)
    scale = t * np.sqrt(2 * gamma)
    s = np.maximum(s * scale, scale / 8)
    z = np.rint(np.abs(rng.laplace(size=size)) * s).astype(np.int64)
    out = np.empty(size)
    l2_laplace._chances(z, np.arange(size), 1 / scale, scale / s, out)
    worst = 0.0
    with mpmath.workprec(200):
        for i in range(size):
            true_gamma = mpmath.mpf(gamma[i]) / (1 + mpmath.mpf(PRECISION) * (1 if i % 2 else -1))
            v = 2 * mpmath.mpf(t[i]) ** 2 * true_gamma
            exact = mpmath.exp(-((int(z[i]) - v / mpmath.mpf(s[i])) ** 2) / (2 * v))
            worst = max(worst, abs(float(exact - mpmath.mpf(out[i]))))
    assert 2.0**-45 < worst < 2.0**-34 < BAND / 2


def test_exponential_of_the_kernel() -> None:
    z = np.arange(0, 40000)
    out = np.empty(z.size)
    l2_laplace._chances(z, np.zeros(z.size, int), np.array([1e-3]), np.array([1.5]), out)
    assert np.abs(out - np.exp(-((z * 1e-3 - 1.5) ** 2) / 2)).max() < 2.0**-42


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("nudge", [-1, 1])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_exact_decision_waits_until_it_is_decided(m: int, nudge: int, level: int) -> None:
    """The uniform agrees with the true chance in 64 * level digits, then lies one unit below or above."""
    digits = KeyStream(b"d" * 32).words(400).tolist()
    count = (m + 1) // 2 + 2 * (m % 2 == 0)
    t, s, z = Fraction(5, 2), Fraction(3), -4
    with mpmath.workprec(2000):
        full = [
            sum(mpmath.mpf(digits[i + j * count]) / mpmath.mpf(2) ** (64 * (j + 1)) for j in range(20))
            for i in range(count)
        ]
        v = 2 * mpmath.mpf(2.5) ** 2 * gamma_of(full, m)
        chance = mpmath.exp(-((abs(z) - v / 3) ** 2) / (2 * v))
        leading = int(mpmath.floor(chance * mpmath.mpf(2) ** (64 * level))) + nudge
    lazy = LazyGamma(digits[:count], m, iter(digits[count:]).__next__)
    words = [leading >> (64 * (level - 1 - j)) & (WORD - 1) for j in range(level)]
    later = iter(words[1:] + [0] * 8)
    assert keeps(z, 2 * t * t, s, words[0], lazy, later.__next__) == (nudge < 0)
    assert lazy.digits >= 64 * level


@pytest.mark.parametrize(("k", "t", "reach"), [(1, 0.25, 6), (2, 0.6, 6), (3, 0.4, 4)])
def test_law_is_unchanged_when_every_decision_is_made_exactly(k: int, t: float, reach: int) -> None:
    sampler = L2Sampler(KeyStream(bytes([k]) * 32), band=2.0)
    out = np.empty((3000 // k, k), np.int64)
    sampler.draw(sampler.lengths(len(out), k), t, out)
    assert sampler.exact_decisions == out.size
    assert law_p_value(out, [t] * k, reach) > ACCEPT
    assert law_p_value(out, [t * 2.0] * k, reach) < 1e-6
    assert law_p_value(out, [t * 0.5] * k, reach) < 1e-6


def test_law_is_unchanged_when_some_decisions_are_made_exactly() -> None:
    sampler = L2Sampler(KeyStream(b"some".ljust(32)), band=0.05)
    out = np.empty((12000, 2), np.int64)
    sampler.draw(sampler.lengths(len(out), 2), 0.6, out)
    assert 500 < sampler.exact_decisions < out.size / 4
    assert law_p_value(out, [0.6] * 2, 6) > ACCEPT


def test_float_and_exact_decisions_agree() -> None:
    """Every decision of the kernels, made again exactly on the same digits."""
    stream = KeyStream(b"agree".ljust(32))
    for m, t in ((1, 3.0), (4, 2.0**40), (6, 0.3)):
        sampler = L2Sampler(stream)
        lengths = sampler.lengths(50, m)
        s = np.full(50, t)
        z = np.rint(stats.laplace(scale=t).rvs(50, random_state=m)).astype(np.int64)
        u = stream.words(50)
        scale = t * np.sqrt(2 * lengths.gamma)
        chance, out = np.empty(50), np.full(50, -1)
        rows, places, undecided = np.arange(50), np.arange(50), np.empty((50, 3), np.int64)
        l2_laplace._chances(z, rows, 1 / scale, scale / s, chance)
        refused, count = l2_laplace._decide(z, u, chance, rows, places, np.full(50, BAND), out, undecided)
        assert count == 0
        assert (out == z).all()
        exact = [
            keeps(int(z[i]), 2 * Fraction(t) ** 2, Fraction(t), int(u[i]), lengths.exact(i), sampler._next_word)
            for i in range(50)
        ]
        assert places[:refused].tolist() == [i for i in range(50) if not exact[i]]
        assert 5 < refused < 45


# ---- draws beyond the limit


class Listed:
    """Stands for a sampler; gives the listed draws."""

    table = LaplaceTable.build(2.0**57)

    def __init__(self, values: Iterator[int]) -> None:
        self.values = values

    def draw(self, out: np.ndarray) -> None:
        out[:] = [next(self.values) for _ in range(out.size)]


def test_a_saturated_proposal_is_continued_before_it_is_judged() -> None:
    values = iter([-5, LIMIT, -1, 3, 99])
    assert l2_laplace._unsaturated(-LIMIT, Listed(values)) == -(2 * LIMIT + 3)  # type: ignore[arg-type]
    assert l2_laplace._unsaturated(LIMIT - 1, Listed(values)) == LIMIT - 1  # type: ignore[arg-type]
    assert next(values) == 99


def test_the_exact_way_judges_the_continued_proposal_and_saturates_after(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def second(z: int, *_: object) -> bool:
        judged.append(z)
        return len(judged) == 2

    monkeypatch.setattr(l2_laplace, "keeps", second)
    sampler = L2Sampler(KeyStream(bytes(32)))
    lazy = sampler.lengths(1, 1).exact(0)
    drawn = Listed(iter([7, -LIMIT, -2, 11]))
    assert sampler._exact(drawn, 2.0**55, lazy, LIMIT, 0) == -LIMIT  # type: ignore[arg-type]
    assert judged == [LIMIT + 7, -(LIMIT + 11)]


def test_all_who_ask_for_a_row_share_its_digits() -> None:
    lengths = L2Sampler(KeyStream(bytes(32))).lengths(2, 2)
    lengths.exact(0).reveal()
    assert lengths.exact(0).digits == 128
    assert lengths.exact(1).digits == 64


def test_continued_proposals_have_the_laplace_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2_laplace, "LIMIT", 3)
    rng = np.random.default_rng(5)
    cut = Listed(max(-3, min(3, int(a - b))) for a, b in iter(lambda: rng.geometric(0.3, 2).tolist(), None))
    sample = [l2_laplace._unsaturated(next(cut.values), cut) for _ in range(20000)]  # type: ignore[arg-type]
    x = np.arange(-12, 13)
    expected = 0.3 / 1.7 * 0.7 ** np.abs(x) * len(sample)
    observed = np.array([sample.count(int(v)) for v in x])
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), x.size) > ACCEPT


def test_a_saturated_proposal_always_goes_the_exact_way() -> None:
    z = np.array([LIMIT, -LIMIT, LIMIT - 1])
    undecided = np.empty((3, 3), np.int64)
    args = (np.zeros(3, np.uint64), np.ones(3), np.zeros(3, int), np.arange(3), np.array([BAND]))
    _, count = l2_laplace._decide(z, *args, np.zeros(3, np.int64), undecided)
    assert undecided[:count, 2].tolist() == [0, 1]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_saturated_draw_is_cut_to_the_same_sum_whatever_the_answer(
    sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(self: L2Sampler, lengths: Lengths, t: float, out: np.ndarray) -> None:
        out[:] = sign * LIMIT

    monkeypatch.setattr(L2Sampler, "draw", draw)
    answer = np.array([[-(2**61) + 1, -(2**53), -1, 0, 1, 2**53, 2**61 - 1]])
    wanted = np.full(answer.shape, sign * float(SUM_LIMIT) / 8)
    assert np.array_equal(add_l2_noise([(answer, 2.0**54, 2.0**-3)])[0], wanted)
    assert np.array_equal(add_l2_noise_by_row(answer, 2.0**54, 2.0**-3), wanted)


@pytest.mark.parametrize("gamma", [1e-300, 1e-12, 700.0, 1e5])
def test_extreme_lengths_are_drawn(gamma: float) -> None:
    """A length that no test would meet by chance; the numbers are Gaussians of just that spread."""
    sampler = L2Sampler(KeyStream(b"x" * 32))
    lengths = sampler.lengths(1, 400)
    lengths.gamma[:] = gamma
    out = np.empty((1, 400), np.int64)
    sampler.draw(lengths, 2.0**20, out)
    scale = 2.0**20 * math.sqrt(2 * gamma)
    if scale < 0.1:
        assert not out.any()
    else:
        assert out.std() == pytest.approx(scale, rel=0.2)


# ---- the noise step: keys, exact sums, refusals


def test_every_call_and_every_thread_takes_its_own_key(keys: list[bytes]) -> None:
    table = np.zeros((2 * CHUNK, 2))
    first = add_l2_noise_by_row(table, 2.0**40, 1.0)
    assert len(keys) == 1
    second = add_l2_noise_by_row(table, 2.0**40, 1.0)
    assert len(keys) == 2
    add_l2_noise_by_row(table, 2.0**40, 1.0, threads=2)
    assert len(keys) == 4
    add_l2_noise([(table, 2.0**40, 1.0), (table, 2.0**30, 1.0)])
    assert len(keys) == 5
    assert np.intersect1d(first, second).size < first.size // 100


def test_two_calls_never_share_noise() -> None:
    zeros = np.zeros((30, 30))
    for pair in (
        [add_l2_noise([(zeros, 2.0**50, 1.0)])[0] for _ in range(2)],
        [add_l2_noise_by_row(zeros, 2.0**50, 1.0) for _ in range(2)],
        add_l2_noise([(zeros, 2.0**50, 1.0), (zeros, 2.0**50, 1.0)]),
    ):
        assert not np.intersect1d(*pair).size


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_noise_does_not_depend_on_the_answer(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "operating_system_key", lambda: b"s" * 32)
    answer = np.random.default_rng(0).integers(-(2**53) + 1, 2**53, (211, 9)).astype(dtype)
    pure = add_l2_noise_by_row(np.zeros_like(answer), 1e3, 1.0)
    sums = [(int(a) + int(n)) * 0.25 for a, n in zip(answer.ravel(), pure.ravel(), strict=True)]
    assert add_l2_noise_by_row(answer, 1e3, 0.25).ravel().tolist() == sums
    pure_parts = add_l2_noise([(np.zeros(5), 1e3, 1.0), (np.zeros_like(answer), 5e3, 1.0)])
    parts = add_l2_noise([(np.arange(5), 1e3, 2.0), (answer, 5e3, 0.5)])
    assert parts[0].tolist() == [(i + n) * 2 for i, n in enumerate(pure_parts[0].tolist())]
    sums = [(int(a) + int(n)) * 0.5 for a, n in zip(answer.ravel(), pure_parts[1].ravel(), strict=True)]
    assert parts[1].ravel().tolist() == sums


@pytest.mark.parametrize("bad", [0.5, 2.0**53, -(2.0**53), math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 3 * CHUNK - 1])
def test_an_answer_that_is_not_exact_publishes_nothing(bad: float, place: int) -> None:
    answer = np.zeros((3, CHUNK))
    answer.ravel()[place] = bad
    with pytest.raises(RuntimeError, match="not an integer") as caught:
        add_l2_noise([(np.zeros(3), 9.0, 1.0), (answer, 1e3, 1.0)])
    assert str(bad) not in str(caught.value)
    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="not an integer"):
            add_l2_noise_by_row(answer.T, 1e3, 1.0, threads)


def test_arguments_are_checked() -> None:
    zeros = np.zeros((2, 2))
    for t in (2.0**-6, 2.0**55, math.nan, math.inf, 0.0, -1.0):
        with pytest.raises(InputError, match="grid steps"):
            add_l2_noise([(zeros, 1e3, 1.0), (zeros, t, 1.0)])
        with pytest.raises(InputError, match="grid steps"):
            add_l2_noise_by_row(np.zeros((2, 4)), t, 1.0)
    for step in (0.0, math.nan):
        with pytest.raises(InputError, match="step"):
            add_l2_noise([(zeros, 1e3, step)])
        with pytest.raises(InputError, match="step"):
            add_l2_noise_by_row(zeros, 1e3, step)
    with pytest.raises(InputError, match="threads"):
        add_l2_noise_by_row(zeros, 1e3, 1.0, threads=0)
    with pytest.raises(TypeError, match="float64 or int64"):
        add_l2_noise([(zeros.astype(np.float32), 1e3, 1.0)])
    with pytest.raises(TypeError, match="two dimensions"):
        add_l2_noise_by_row(np.zeros(3), 1e3, 1.0)
    with pytest.raises(ValueError, match="widened"):
        L2Sampler(KeyStream(bytes(32)), band=2.0**-40)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (CHUNK + 1, 1), (5, 2)])
@pytest.mark.parametrize("threads", [1, 4])
def test_shapes_are_kept_and_the_input_is_left_alone(shape: tuple[int, int], threads: int) -> None:
    answer = np.ones(shape, np.int64)
    out = add_l2_noise_by_row(answer, 5.0, 0.5, threads)
    parts = add_l2_noise([(answer, 5.0, 0.5), (np.zeros((0,)), 5.0, 0.5)])
    assert out.shape == parts[0].shape == shape
    assert parts[1].shape == (0,)
    assert out.dtype == parts[0].dtype == np.float64
    assert np.all(answer == 1)
    assert add_l2_noise([]) == []


@pytest.mark.parametrize("t", [2.0**-5, 2.0**52])
def test_scales_at_the_ends_are_drawn(t: float, keys: list[bytes]) -> None:
    """At 2^52 with 200 numbers a row, proposals come from the largest tables there are."""
    out = add_l2_noise_by_row(np.zeros((500, 200)), t, 1.0)
    if t > 1:
        assert stats.kstest(np.sqrt((out**2).sum(1)), stats.gamma(200, scale=t).cdf).pvalue > ACCEPT
    else:
        inside = np.exp(log_mass(np.zeros(1), [t] * 200))[0]
        assert abs((out == 0).all(1).mean() - inside) < 5 * math.sqrt(0.25 / 500)


def test_a_strided_answer_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "operating_system_key", lambda: b"s" * 32)
    answer = np.arange(600).reshape(20, 30)
    straight = add_l2_noise_by_row(answer[:, ::3].copy(), 40.0, 1.0)
    assert np.array_equal(straight, add_l2_noise_by_row(answer[:, ::3], 40.0, 1.0))
    assert np.array_equal(straight, add_l2_noise_by_row(np.asfortranarray(answer[:, ::3]), 40.0, 1.0))
    whole = add_l2_noise([(answer[:, ::3].copy(), 40.0, 1.0)])[0]
    assert np.array_equal(whole, add_l2_noise([(answer[:, ::3], 40.0, 1.0)])[0])
