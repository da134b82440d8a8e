"""The noise step: exact sums, fresh keys, the right scale, nothing shared, nothing betrayed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Literal

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adumbra.common.errors import InputError
from adumbra.noise import add as noise
from adumbra.noise.add import CHUNK, SUM_LIMIT, add_noise, gaussian_slack_per_draw
from adumbra.noise.lattice import LIMIT, KeyStream, Sampler
from adumbra.noise.lattice_tables import LARGEST_T, GaussianTable, LaplaceTable

Kind = Literal["gaussian", "laplace"]
KINDS: list[Kind] = ["gaussian", "laplace"]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Replace the operating system by known keys, a new one each time; the list says which were taken."""
    taken: list[bytes] = []

    def key() -> bytes:
        taken.append(len(taken).to_bytes(32, "little"))
        return taken[-1]

    monkeypatch.setattr(noise, "operating_system_key", key)
    yield taken


def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "operating_system_key", lambda: b"s" * 32)


# ---- the sum is exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("t", [0.4, 1e3, 2.0**57])
def test_noise_does_not_depend_on_the_answer(
    kind: Kind, dtype: type, t: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_key(monkeypatch)
    answer = np.random.default_rng(0).integers(-(2**53) + 1, 2**53, (211, 90)).astype(dtype)
    pure = np.empty(answer.size, np.int64)
    table = GaussianTable.build(t) if kind == "gaussian" else LaplaceTable.build(t)
    Sampler(table, KeyStream(b"s" * 32)).draw(pure)
    sums = [int(n) + int(a) for n, a in zip(pure, answer.ravel(), strict=True)]
    assert add_noise(kind, answer, t, 0.25).ravel().tolist() == [float(v) * 0.25 for v in sums]


@settings(max_examples=25, deadline=None)
@given(st.integers(-30, 8), st.sampled_from(KINDS), st.sampled_from([0.3, 77.7, 1e5 / 3, 2.0**30]))
def test_results_are_multiples_of_the_step(power: int, kind: Kind, t: float) -> None:
    step = 2.0**power
    answer = np.arange(-3000, 3000).reshape(60, 100)
    out = add_noise(kind, answer, t, step) / step
    assert np.array_equal(out, np.rint(out))


@pytest.mark.parametrize("kind", KINDS)
def test_every_integer_can_be_reached(kind: Kind) -> None:
    """A float sampler leaves holes whose places depend on the answer; the integers of ours have none."""
    out = add_noise(kind, np.full((200, 500), 7), 25.0, 1.0)
    centre = out[np.abs(out - 7) <= 25]
    assert set(centre.astype(int).tolist()) == set(range(-18, 33))


# ---- keys


def test_every_call_and_every_thread_takes_its_own_key(keys: list[bytes]) -> None:
    zeros = np.zeros((4, CHUNK))
    first = add_noise("gaussian", zeros, 2.0**40, 1.0)
    assert len(keys) == 1
    second = add_noise("gaussian", zeros, 2.0**40, 1.0)
    assert len(keys) == 2
    add_noise("gaussian", zeros, 2.0**40, 1.0, threads=2)
    assert len(keys) == 4
    assert not np.intersect1d(first, second).size > first.size // 100


@pytest.mark.parametrize("kind", KINDS)
def test_two_calls_never_share_noise(kind: Kind) -> None:
    zeros = np.zeros((30, 30))
    first, second = (add_noise(kind, zeros, 2.0**56, 1.0) for _ in range(2))
    assert not np.intersect1d(first, second).size


def test_operating_system_key_is_fresh() -> None:
    drawn = {noise.operating_system_key() for _ in range(50)}
    assert len(drawn) == 50
    assert {len(key) for key in drawn} == {32}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_other_noise() -> None:
    zeros = np.zeros((1, 64))
    add_noise("gaussian", zeros, 2.0**56, 1.0)  # whatever state a call could leave behind is there now
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, add_noise("gaussian", zeros, 2.0**56, 1.0).tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), np.float64)
    os.waitpid(child, 0)
    ours = add_noise("gaussian", zeros, 2.0**56, 1.0)
    assert theirs.size == 64
    assert not np.intersect1d(theirs, ours).size


# ---- the law


def spread_p_value(kind: Kind, sample: np.ndarray, t: float) -> float:
    law = stats.norm(scale=t) if kind == "gaussian" else stats.laplace(scale=t)
    return float(stats.kstest(sample.ravel(), law.cdf).pvalue)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_scale_is_accepted_and_two_thirds_and_three_halves_are_rejected(
    kind: Kind, threads: int, keys: list[bytes]
) -> None:
    t, step = 1e6 / 3, 2.0**-10
    answer = np.arange(60000).reshape(600, 100)
    sample = add_noise(kind, answer, t, step, threads) / step - answer
    assert spread_p_value(kind, sample, t) > 1e-3
    assert spread_p_value(kind, sample, t * 2 / 3) < 1e-9
    assert spread_p_value(kind, sample, t * 3 / 2) < 1e-9


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_no_two_numbers_share_their_noise(kind: Kind, threads: int) -> None:
    """At this scale a repeated value has odds of about 10^-8: chunks, rows and threads share nothing."""
    out = add_noise(kind, np.zeros((300, 150)), LARGEST_T, 1.0, threads)
    assert np.unique(np.abs(out)).size == out.size


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_columns_are_uncorrelated(kind: Kind, keys: list[bytes]) -> None:
    rows, columns = 4096, 16  # CHUNK is a multiple of a row, so a noise shared by chunks would line up
    out = add_noise(kind, np.zeros((rows, columns)), 1e6, 1.0)
    x = out / out.std()
    between = np.corrcoef(x, rowvar=False)[np.triu_indices(columns, 1)]
    assert np.abs(between).max() < 5 / math.sqrt(rows)
    for lag in (1, 2, CHUNK // columns, 2 * CHUNK // columns):
        assert abs((x[lag:] * x[:-lag]).mean()) < 6 / math.sqrt(x[lag:].size)


def test_slack_bounds_the_cut() -> None:
    with mpmath.workprec(200):
        cut = 2 * mpmath.ncdf(-16)
        assert cut < gaussian_slack_per_draw() < 1.01 * cut
    assert GaussianTable.build(1e5 / 7).reach >= 16 * 1e5 / 7


# ---- saturation is post-processing


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_saturated_draw_is_cut_to_the_same_sum_whatever_the_answer(
    sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(self: Sampler, out: np.ndarray) -> None:
        out[:] = sign * LIMIT

    monkeypatch.setattr(Sampler, "draw", draw)
    answer = np.array([[-(2**61) + 1, -(2**53), -1, 0, 1, 2**53, 2**61 - 1]])
    out = add_noise("laplace", answer, LARGEST_T, 2.0**-3)
    assert np.array_equal(out, np.full(answer.shape, sign * float(SUM_LIMIT) / 8))


# ---- refusals


@pytest.mark.parametrize("bad", [0.5, 2.0**53, -(2.0**53), math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 3 * CHUNK - 1])
def test_an_answer_that_is_not_exact_publishes_nothing(bad: float, place: int) -> None:
    answer = np.zeros((3, CHUNK))
    answer.ravel()[place] = bad
    with pytest.raises(RuntimeError, match="not an integer") as caught:
        add_noise("gaussian", answer, 1e3, 1.0)
    assert str(bad) not in str(caught.value)


@pytest.mark.parametrize("bad", [2**61, -(2**61), -(2**63), 2**63 - 1])
def test_a_large_integer_publishes_nothing(bad: int) -> None:
    with pytest.raises(RuntimeError, match="not an integer"):
        add_noise("laplace", np.array([[1, bad]]), 1e3, 1.0, threads=2)


def test_arguments_are_checked() -> None:
    zeros = np.zeros((2, 2))
    with pytest.raises(InputError, match="kind"):
        add_noise("uniform", zeros, 1e3, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="step"):
        add_noise("gaussian", zeros, 1e3, 0.0)
    with pytest.raises(InputError, match="threads"):
        add_noise("gaussian", zeros, 1e3, 1.0, threads=0)
    with pytest.raises(InputError, match="grid steps"):
        add_noise("gaussian", zeros, 1e30, 1.0)
    with pytest.raises(TypeError, match="float64 or int64"):
        add_noise("gaussian", zeros.astype(np.float32), 1e3, 1.0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (CHUNK + 1, 1), (5,)])
@pytest.mark.parametrize("threads", [1, 4])
def test_shapes_are_kept_and_the_input_is_left_alone(shape: tuple[int, ...], threads: int) -> None:
    answer = np.ones(shape, np.int64)
    out = add_noise("laplace", answer, 5.0, 0.5, threads)
    assert out.shape == shape
    assert out.dtype == np.float64
    assert np.all(answer == 1)


def test_a_strided_answer_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    same_key(monkeypatch)
    answer = np.arange(600).reshape(20, 30)
    straight = add_noise("gaussian", answer[:, ::3].copy(), 40.0, 1.0)
    strided = add_noise("gaussian", answer[:, ::3], 40.0, 1.0)
    assert np.array_equal(straight, strided)
    fortran = add_noise("gaussian", np.asfortranarray(answer), 40.0, 1.0)
    assert np.array_equal(fortran, add_noise("gaussian", answer, 40.0, 1.0))
