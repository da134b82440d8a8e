"""The exact integer samplers: their tables bin by bin, the kernels word by word, and the laws they draw.

Keys are fixed, so every statistical test gives the same p-value on every run.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adumbra.common.errors import InputError
from adumbra.noise import lattice
from adumbra.noise.exact_bounds import exp_minus
from adumbra.noise.lattice import LIMIT, KeyStream, Sampler, discrete_laplace, exact_draw, rounded_gaussian
from adumbra.noise.lattice_tables import CELLS, GaussianTable, LaplaceTable, NoiseTable

SPREAD = [2.0**-5, 0.0626, 0.3, 1.0, 16.0, 63.999, 64.0, 1e3 / 3, 2.0**20 + 1, math.pi * 1e9, 2.0**57]
LAWS: list[type[GaussianTable] | type[LaplaceTable]] = [GaussianTable, LaplaceTable]
ACCEPT, REJECT = 1e-3, 1e-9


class Replay:
    """A stream of given words; a second reader can follow it word by word."""

    def __init__(self, words: np.ndarray) -> None:
        self.words, self.position = words, 0

    def fill(self, out: np.ndarray) -> None:
        out[:] = self.words[self.position : self.position + out.size]
        self.position += out.size

    def next_word(self) -> int:
        self.position += 1
        return int(self.words[self.position - 1])


def draws(table: NoiseTable, n: int, tag: bytes = b"", band: float = lattice.BAND) -> np.ndarray:
    out = np.empty(n, np.int64)
    Sampler(table, KeyStream((tag + b"k" * 32)[:32]), band).draw(out)
    return out


def mass(table_type: type, t: float, x: np.ndarray) -> np.ndarray:
    """P(draw = x), from scipy."""
    if table_type is GaussianTable:
        m = np.abs(x)
        return stats.norm.sf((m - 0.5) / t) - stats.norm.sf((m + 0.5) / t)
    q = math.exp(-1 / t)
    return (1 - q) / (1 + q) * np.exp(-np.abs(x) / t)


def p_value(table_type: type, t: float, sample: np.ndarray) -> float:
    """Chi-square on single integers while they are common, Kolmogorov-Smirnov on a fine grid."""
    if t > 200:
        law = stats.norm(scale=t) if table_type is GaussianTable else stats.laplace(scale=t)
        # The grid is far finer than the test sees: shift by a uniform to have no ties.
        smooth = sample + np.random.default_rng(0).uniform(-0.5, 0.5, sample.size)
        return float(stats.kstest(smooth, law.cdf).pvalue)
    reach = int(40 * t) + 5
    x = np.arange(-reach, reach + 1)
    expected = mass(table_type, t, x) * sample.size
    counts = np.array([np.count_nonzero(sample == v) for v in x], float)
    common = expected >= 10
    rest = np.array([sample.size - counts[common].sum(), sample.size - expected[common].sum()])
    observed, wanted = counts[common], expected[common]
    if rest[1] > 5 or rest[0] > 5:
        observed, wanted = np.append(observed, rest[0]), np.append(wanted, max(rest[1], 1e-9))
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    return float(stats.chi2.sf(statistic, max(observed.size - 1, 1)))


# ---- bounds and tables


@settings(max_examples=60, deadline=None)
@given(st.fractions(min_value=0, max_value=700, max_denominator=10**12), st.sampled_from([64, 128, 384]))
def test_exponential_bounds_hold_and_are_tight(x: Fraction, bits: int) -> None:
    low, high = exp_minus(x, bits)
    with mpmath.workprec(3 * bits + 1100):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("t", SPREAD)
def test_every_bin_of_the_tables_is_proved(law: type[GaussianTable] | type[LaplaceTable], t: float) -> None:
    assert law.build(t).check() == []


@pytest.mark.parametrize("bins", [1, 3, 200])
def test_laplace_table_with_a_short_reach_is_proved(bins: int) -> None:
    assert LaplaceTable.build(50.0, bins).check() == []


@pytest.mark.parametrize("t", SPREAD)
def test_gaussian_reach_is_what_the_slack_assumes(t: float) -> None:
    table = GaussianTable.build(t)
    assert table.reach >= 16 * Fraction(t)
    assert table.reach <= 2**61


def moved(table: NoiseTable, cell: int) -> NoiseTable:
    """One unit of mass taken from a cell, consistently in the weights and in the alias table."""
    weights, cells = list(table.weights), table.cells.copy()
    donor = next(i for i, packed in enumerate(cells.tolist()) if packed & 4095 == cell and packed >> 12)
    weights[cell] -= 1
    weights[donor] += 1
    cells[donor] += np.uint64(1 << 12)
    return replace(table, weights=tuple(weights), cells=cells)


def changed(table: NoiseTable, name: str, cell: int, change: Callable[[int], int]) -> NoiseTable:
    array = getattr(table, name).copy()
    array[cell] = change(int(array[cell]))
    return replace(table, **{name: array})


DAMAGE: dict[str, Callable[[NoiseTable, int], NoiseTable]] = {
    "weight one too small": lambda x, c: replace(x, weights=tuple(w - (i == c) for i, w in enumerate(x.weights))),
    "threshold one too large": lambda x, c: changed(x, "cells", c, lambda v: v + (1 << 12)),
    "alias elsewhere": lambda x, c: changed(x, "cells", c, lambda v: v ^ 1),
    "squeeze one too high": lambda x, c: changed(x, "squeeze", c, lambda v: v + (1 << x.width_bits)),
    "height off": lambda x, c: replace(x, height=x.height * (1 + 2.0**-45 * (np.arange(CELLS) == c))),
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(DAMAGE)),
    st.sampled_from([GaussianTable.build(12.5), LaplaceTable.build(12.5), LaplaceTable.build(70.0, 100)]),
    st.integers(0, CELLS - 1),
)
def test_any_single_damaged_entry_is_caught(kind: str, table: NoiseTable, cell: int) -> None:
    harmful: Sequence[int] = range(table.bins + table.has_tail)
    if kind == "threshold one too large":  # in a cell that points at itself the threshold decides nothing
        harmful = [i for i, packed in enumerate(table.cells.tolist()) if packed & 4095 != i]
    elif kind == "alias elsewhere":
        harmful = range(CELLS)
    cell = harmful[cell % len(harmful)]
    assert DAMAGE[kind](table, cell).check()


@pytest.mark.parametrize("law", LAWS)
def test_mass_moved_consistently_below_the_envelope_is_caught(
    law: type[GaussianTable] | type[LaplaceTable],
) -> None:
    table = law.build(12.5)
    targets = sorted({int(packed) & 4095 for packed in table.cells if int(packed) >> 12} - {0})
    assert targets
    for cell in targets[:5]:
        assert any("below the envelope" in fault for fault in moved(table, cell).check())


@pytest.mark.parametrize("law", LAWS)
def test_wrong_scale_width_and_reach_are_caught(law: type[GaussianTable] | type[LaplaceTable]) -> None:
    table = law.build(1000.0)
    assert replace(table, scale=table.scale + table.scale // 2**50).check()
    assert replace(table, width_bits=table.width_bits + 1).check()
    assert replace(table, t=1000.0001).check()
    assert replace(table, bins=table.bins - 1).check()


@pytest.mark.parametrize("t", [0.0, -1.0, 2.0**-6, 2.0**58, math.inf, math.nan])
@pytest.mark.parametrize("law", LAWS)
def test_scales_out_of_range_are_refused(law: type[GaussianTable] | type[LaplaceTable], t: float) -> None:
    with pytest.raises(InputError, match="grid steps"):
        law.build(t)


def test_shared_tables_cannot_be_written() -> None:
    table = LaplaceTable.build(12.5)
    assert table is LaplaceTable.build(12.5)
    with pytest.raises(ValueError, match="read-only"):
        table.squeeze[0] = 0


# ---- kernels


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("t", [2.0**-5, 0.3, 1.0, 17.3, 1e4 + 0.1, 2.0**40 / 3, 2.0**57])
@pytest.mark.parametrize("squeezed", [True, False])
def test_kernel_follows_rational_arithmetic_word_by_word(
    law: type[GaussianTable] | type[LaplaceTable], t: float, squeezed: bool
) -> None:
    """Without the squeeze every draw goes through the float decision."""
    table = law.build(t) if squeezed else replace(law.build(t), squeeze=np.zeros(CELLS, np.uint64))
    words = KeyStream(b"w" * 32).words(lattice.BUFFER_WORDS)
    fast = np.empty(100 if t < 0.1 else 1000, np.int64)
    sampler = Sampler(table, Replay(words))
    sampler.draw(fast)
    assert sampler.exact_decisions == 0
    reader = Replay(words)
    assert fast.tolist() == [exact_draw(table, reader.next_word) for _ in range(fast.size)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("t", [2.5, 1e5 / 3, 2.0**57])
def test_kernel_and_rational_arithmetic_agree_at_every_edge(
    law: type[GaussianTable] | type[LaplaceTable], t: float
) -> None:
    """Words on both sides of every alias threshold and of every squeeze: one in 2^52, never met by chance."""
    table = law.build(t)
    spare = KeyStream(b"e" * 32).words(8 * CELLS).tolist()
    words: list[int] = []
    for cell in range(CELLS):
        packed = int(table.cells[cell])
        threshold, alias = packed >> 12, packed & 4095
        for level, target in ((threshold - 1, cell), (threshold, alias)):
            if level < 0:
                continue
            limit = int(table.squeeze[target])
            for b in (max(limit - 1, 0), limit):
                words += [level << 12 | (spare[cell] & 0xC00) | cell, b]
                words += [spare[cell + CELLS], spare[cell + 2 * CELLS]] if b >= limit else []
    stream = np.array(words + spare[-2000:], np.uint64)
    reader, fast, size = Replay(stream), np.empty(1, np.int64), lattice.BUFFER_WORDS
    sampler = Sampler(table, Replay(np.concatenate([stream, np.zeros(size, np.uint64)])))
    assert stream.size < size
    while reader.position < len(words):
        sampler.draw(fast)
        assert fast[0] == exact_draw(table, reader.next_word)
    assert sampler._used == reader.position


def test_exact_decision_waits_until_it_is_decided() -> None:
    """From two bits of each real: the share kept is the part of the box under the acceptance curve."""
    table = GaussianTable.build(0.5)
    stream = Replay(KeyStream(b"d" * 32).words(40000))
    place, u = (2, 2), (1, 2)  # magnitude in [1/2, 3/4), u in [1/4, 1/2)
    kept = sum(table.keeps(0, place, u, stream.next_word) for _ in range(4000)) / 4000
    x = np.linspace(0.5, 0.75, 10001)
    curve = float(table.scale / table.weights[0]) * np.exp(-2 * x * x)
    expected = float(np.clip((curve - 0.25) / 0.25, 0, 1).mean())
    assert 0.2 < expected < 0.9
    assert abs(kept - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)


def test_float_decision_errs_far_less_than_the_band() -> None:
    """The proof allows the exponential 2^-40; see how far the one in use really is."""

    @numba.njit
    def exp(x: float) -> float:
        return np.exp(x)  # type: ignore[no-any-return]

    rng = np.random.default_rng(5)
    for x in np.concatenate([-rng.uniform(0, 1, 500), -rng.uniform(0, 513, 500)]).tolist():
        with mpmath.workprec(200):
            assert abs(mpmath.mpf(exp(x)) / mpmath.exp(x) - 1) < 2.0**-48


def test_band_may_not_be_narrowed() -> None:
    with pytest.raises(ValueError, match="widened"):
        Sampler(GaussianTable.build(16.0), KeyStream(bytes(32)), 2.0**-40)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("t", [0.6, 5.3])
def test_law_is_unchanged_when_every_decision_is_made_exactly(
    law: type[GaussianTable] | type[LaplaceTable], t: float
) -> None:
    table = replace(law.build(t), squeeze=np.zeros(CELLS, np.uint64))
    sampler = Sampler(table, KeyStream(b"x" * 32), band=2.0)
    out = np.empty(6000, np.int64)
    sampler.draw(out)
    assert sampler.exact_decisions == out.size
    assert p_value(law, t, out) > ACCEPT


@pytest.mark.parametrize("law", LAWS)
def test_law_is_unchanged_when_half_of_the_float_decisions_are_ambiguous(
    law: type[GaussianTable] | type[LaplaceTable],
) -> None:
    table = law.build(8.0) if law is GaussianTable else LaplaceTable.build(8.0, 5)
    table = replace(table, squeeze=np.zeros(CELLS, np.uint64))
    sampler = Sampler(table, KeyStream(b"y" * 32), band=0.5)
    out = np.empty(12000, np.int64)
    sampler.draw(out)
    assert 1000 < sampler.exact_decisions < 11000
    assert p_value(law, 8.0, out) > ACCEPT


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [4, 6])
def test_law_does_not_depend_on_where_buffers_end(
    law: type[GaussianTable] | type[LaplaceTable], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt given up because its third word was missing would make the values that need it rarer.

    Half of the bins need it here, and a buffer holds hardly more than one attempt.
    """
    monkeypatch.setattr(lattice, "BUFFER_WORDS", size)
    squeeze = law.build(5.0).squeeze.copy()
    squeeze[np.arange(CELLS) // 4 % 2 == 0] = 0
    assert p_value(law, 5.0, draws(replace(law.build(5.0), squeeze=squeeze), 20000)) > ACCEPT


# ---- laws


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("t", [0.35, 0.8, 3.7, 30.5, 1e6, 2.0**50 / 3])
def test_law_is_accepted_at_its_scale_and_rejected_at_others(
    law: type[GaussianTable] | type[LaplaceTable], t: float
) -> None:
    out = draws(law.build(t), 60000)
    assert p_value(law, t, out) > ACCEPT
    assert p_value(law, t * 2 / 3, out) < REJECT
    assert p_value(law, t * 3 / 2, out) < REJECT


@pytest.mark.parametrize("bins", [1, 2, 7, 40])
def test_laplace_tail_beyond_the_reach_has_the_same_law(bins: int) -> None:
    table = LaplaceTable.build(10.0, bins)
    out = draws(table, 60000)
    assert np.count_nonzero(np.abs(out) >= table.reach) > 500
    assert p_value(LaplaceTable, 10.0, out) > ACCEPT


def test_laplace_tail_over_wide_bins() -> None:
    out = draws(LaplaceTable.build(1e6, 20), 60000)
    assert p_value(LaplaceTable, 1e6, out) > ACCEPT
    tail = np.abs(out[np.abs(out) >= 2_000_000]) - 2_000_000
    assert stats.kstest(tail, stats.expon(scale=1e6).cdf).pvalue > ACCEPT


@pytest.mark.parametrize("law", LAWS)
def test_sign_low_bits_and_neighbours_are_independent(law: type[GaussianTable] | type[LaplaceTable]) -> None:
    t = 1e6 + 0.5
    out = draws(law.build(t), 200_000)
    sigmas = 5 / math.sqrt(out.size)
    sign = np.sign(out).astype(float)
    assert abs(sign.mean()) < sigmas
    size = np.abs(out)
    ranks = (size - size.mean()) / size.std()
    assert abs((sign * ranks).mean()) < sigmas
    for bit in range(14):
        low = (size >> bit & 1) * 2.0 - 1
        assert abs(low.mean()) < sigmas
        assert abs((low * sign).mean()) < sigmas
        assert abs((low * ranks).mean()) < sigmas
    x = out / out.std()
    for lag in (1, 2, 3, 8, 64, 4096, 8192, 16384):
        assert abs((x[:-lag] * x[lag:]).mean()) < 1.2 * sigmas
        assert abs((ranks[:-lag] * ranks[lag:]).mean()) < 1.2 * sigmas


def test_laplace_saturates_where_the_true_draw_would_pass_the_limit() -> None:
    table = LaplaceTable.build(2.0**57)
    tail = table.bins
    assert int(table.cells[tail]) >> 12 > 0
    for sign in (0, 1):
        far = [tail, 0] * 9  # nine times the tail cell, then bin 0
        home = next(i for i in range(CELLS) if int(table.cells[i]) == i or int(table.cells[i]) >> 12)
        words = np.array([*far, home | sign << 10, 5], np.uint64)
        words = np.concatenate([words, np.zeros(lattice.BUFFER_WORDS, np.uint64)])[: lattice.BUFFER_WORDS]
        out = np.empty(1, np.int64)
        Sampler(table, Replay(words)).draw(out)
        assert out[0] == (-LIMIT if sign else LIMIT)
        assert exact_draw(table, Replay(words).next_word) == out[0]


# ---- an independent implementation


def opendp_sample(kind: str, scale: float, n: int) -> np.ndarray:
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP, the independent sampler, is not installed")
    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=int), scale=scale)
    return np.array(measurement([0] * n))


@pytest.mark.parametrize(("kind", "law"), [("laplace", LaplaceTable), ("gaussian", GaussianTable)])
def test_same_law_as_opendp(kind: str, law: type[GaussianTable] | type[LaplaceTable]) -> None:
    """Discrete Laplace: the same law. Discrete Gaussian: at this scale its spread is within 1 % of ours.

    OpenDP draws from the operating system, so the threshold leaves one chance in 10^6.
    """
    t = 12.0
    theirs, ours = opendp_sample(kind, t, 20000), draws(law.build(t), 20000)
    edges = np.quantile(np.concatenate([theirs, ours]), np.linspace(0, 1, 30)[1:-1])
    table = np.array([np.bincount(np.searchsorted(edges, s), minlength=29) for s in (theirs, ours)])
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-6
    other = draws(law.build(t * 1.5), 20000)
    table[1] = np.bincount(np.searchsorted(edges, other), minlength=29)
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue < REJECT


# ---- streams


def test_key_stream_is_aes_256_in_counter_mode() -> None:
    # AES-256 of the zero block under the zero key, a well-known vector
    assert KeyStream(bytes(32)).words(2).astype("<u8").tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_key_stream_gives_the_same_words_however_asked() -> None:
    whole = KeyStream(b"a" * 32).words(20001)
    stream = KeyStream(b"a" * 32)
    parts = np.concatenate([stream.words(n) for n in (1, 0, 3, 8192, 11805)])
    assert np.array_equal(whole, parts)
    assert len(np.unique(whole)) == whole.size
    assert not np.array_equal(whole, KeyStream(b"b" * 32).words(20001))


def test_key_stream_cannot_be_copied_and_wants_32_bytes() -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(KeyStream(bytes(32)))
    with pytest.raises(ValueError, match="32 bytes"):
        KeyStream(bytes(16))


def test_same_public_key_draws_the_same_numbers() -> None:
    for draw in (rounded_gaussian, discrete_laplace):
        first, second = np.empty(50, np.int64), np.empty(50, np.int64)
        draw(KeyStream(b"p" * 32), 1000.0, first)
        draw(KeyStream(b"p" * 32), 1000.0, second)
        assert np.array_equal(first, second)


@pytest.mark.parametrize("bad", [np.empty((2, 2), np.int64), np.empty(4, np.int32), np.empty(8, np.int64)[::2]])
def test_wrong_targets_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="int64"):
        rounded_gaussian(KeyStream(bytes(32)), 16.0, bad)


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(**options: bool) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", njit)

    def add(a: int, b: int) -> int:
        return a + b

    assert lattice.compiled(add)(2, 3) == 5
