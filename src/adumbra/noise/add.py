"""Noise that is safe to publish: exact integers plus exact integer noise, keyed by the operating system.

The answer arrives as exact integers (grid steps). Integer noise is added to it in 64-bit integers, where
nothing rounds, and only the sum, which may be published, becomes a float. So the low bits of a result say
nothing that the proof does not know of (docs/proofs/noise-gaussian.md, docs/proofs/noise-laplace.md,
docs/proofs/noise-l2-laplace.md).

Every call takes a new key from the operating system and forgets it: no state of a generator outlives a call,
a fork or a pickle, and there is no seed to give.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.common.validation import at_least, one_of, positive
from adumbra.declare.space import EXACT, WHOLE
from adumbra.noise.l2_laplace import L2Sampler, require_scale
from adumbra.noise.lattice import LIMIT, KeyStream, Sampler, compiled
from adumbra.noise.lattice_tables import GaussianTable, LaplaceTable, NoiseTable

__all__ = [
    "MAX_DRAWS",
    "add_l2_noise",
    "add_l2_noise_by_row",
    "add_noise",
    "gaussian_slack_per_draw",
    "operating_system_key",
]

MAX_DRAWS = 2**50
CHUNK = 1 << 14  # draws at a time, so that words, noise and sums stay in the cache
L2_CHUNK = 1 << 18  # more, as what is refused in one round is drawn in the next, and the last rounds are short
# The noise saturates at LIMIT. Sums are cut WHOLE below it, so that a saturated draw is cut whatever the answer was:
# the cut then depends on the sum alone, and is post-processing. It is the same for answers of either type, because
# under add-remove the type says how long the table is.
SUM_LIMIT = LIMIT - WHOLE


def operating_system_key() -> bytes:
    """32 bytes of operating-system entropy; the only source of noise there is."""
    return os.urandom(32)


def gaussian_slack_per_draw() -> float:
    """Total variation between one draw and the rounded Gaussian it stands for, at most: 2 Phi(-16).

    Add it once per draw to `Event.slack`. Laplace draws are exact: their slack is 0.

    >>> gaussian_slack_per_draw() * MAX_DRAWS < 1e-41
    True
    """
    # 2 Phi(-16) < 2 exp(-128) / (16 sqrt(2 pi)) = 1.2826e-57 (Mills' ratio)
    return 1.283e-57


_SUM_LIMIT = np.int64(SUM_LIMIT)


def _finish(exact: NDArray[Any], noise: Any, step: float, out: NDArray[np.float64]) -> bool:
    """out = (exact + noise) * step, the sum in integers; False if an answer is no integer that is certainly exact.

    A float64 of 2^53 or more may have been rounded on its way here; a 64-bit integer was not.
    """
    limit = EXACT if exact.dtype == np.float64 else WHOLE
    return bool(_add_within(exact, noise, step, np.int64(limit), out))


@compiled
def _add_within(exact: Any, noise: Any, step: Any, limit: Any, out: Any) -> Any:
    sound = True
    for i in range(exact.size):
        answer = exact[i]
        if not (-limit < answer < limit):
            sound = False
            answer = exact.dtype.type(0)
        whole = np.int64(answer)
        if whole != answer:
            sound = False
        out[i] = np.float64(max(-_SUM_LIMIT, min(_SUM_LIMIT, whole + noise[i]))) * step
    return sound


def _run(table: NoiseTable, exact: NDArray[Any], step: float, out: NDArray[np.float64]) -> bool:
    sampler = Sampler(table, KeyStream(operating_system_key()))
    noise = np.empty(min(CHUNK, exact.size), np.int64)
    sound = True
    for start in range(0, exact.size, CHUNK):
        part = slice(start, min(start + CHUNK, exact.size))
        fresh = noise[: part.stop - start]
        sampler.draw(fresh)
        sound &= _finish(exact[part], fresh, step, out[part])
    return sound


def add_noise(
    kind: Literal["gaussian", "laplace"],
    exact: NDArray[np.float64] | NDArray[np.int64],
    t: float,
    step: float,
    threads: int = 1,
) -> NDArray[np.float64]:
    """Return (exact + noise) * step in a new float64 array: one independent draw per number.

    Guarantee: `gaussian` noise is round(t Z), so the result is post-processing of `exact` + N(0, t^2) but for
    `gaussian_slack_per_draw`; `laplace` noise has P(x) ~ exp(-|x| / t) on all integers, with no slack.
    Edge cases: an empty array stays empty; sums beyond 2^61 are cut there (post-processing). An answer that is not an
    integer below 2^53 in magnitude (2^61 in an array of integers) breaks the caller's proof: nothing is returned.

    >>> add_noise("laplace", np.zeros((2, 3), np.int64), t=40.0, step=0.25).shape
    (2, 3)
    """
    one_of(("gaussian", "laplace"), kind=kind)
    positive(step=step)
    at_least(1, "give a number of threads of 1 or more", threads=threads)
    _require_exact_type(exact)
    if exact.size > MAX_DRAWS:
        raise RuntimeError("internal error: more numbers in one answer than the slack accounts for")
    table: NoiseTable = GaussianTable.build(t) if kind == "gaussian" else LaplaceTable.build(t)
    if not table.has_tail and table.reach > LIMIT:
        raise RuntimeError("internal error: the noise could leave 64-bit integers")
    flat = np.ascontiguousarray(exact).reshape(-1)
    out = np.empty(flat.size, np.float64)
    share = -(-flat.size // (threads * CHUNK)) * CHUNK
    parts = [slice(start, start + share) for start in range(0, flat.size, max(share, 1))]
    if len(parts) <= 1:
        sound = all(_run(table, flat[part], step, out[part]) for part in parts)
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            sound = all(list(pool.map(lambda part: _run(table, flat[part], step, out[part]), parts)))
    _require_sound(sound)
    return out.reshape(exact.shape)


def _require_exact_type(exact: NDArray[Any]) -> None:
    if exact.dtype not in (np.dtype(np.float64), np.dtype(np.int64)):
        raise TypeError("internal error: exact answers must be float64 or int64")


def _require_sound(sound: bool) -> None:
    if not sound:
        raise RuntimeError("internal error: an answer is not an integer that is exact, no noise was published")


def add_l2_noise(arrays: Sequence[tuple[NDArray[Any], float, float]]) -> list[NDArray[np.float64]]:
    """Return (exact + noise) * step for each (exact, t, step): one random length for all numbers of all arrays.

    Guarantee: if neighbours move the arrays by vectors d_1, d_2, ... of integer steps, what is returned is
    epsilon-DP with delta = 0 and epsilon = sqrt(sum of (|d_j|_2 / t_j)^2), with no slack: the likelihood of a noise
    vector falls like exp(-length), where array j is measured in units of t_j. A number gets a standard deviation of
    about t sqrt(m + 1), m being how many there are in all arrays.
    Edge cases: t lies in [2^-5, 2^56 / sqrt(m + 1)]; empty arrays stay empty; sums beyond 2^61 are cut there
    (post-processing). An answer that is not an integer below 2^53 in magnitude (2^61 in an array of integers) breaks
    the caller's proof: nothing is returned.

    >>> triangle, total = add_l2_noise([(np.zeros((2, 3), np.int64), 40.0, 0.25), (np.zeros(1, np.int64), 9.0, 1.0)])
    >>> triangle.shape, total.shape
    ((2, 3), (1,))
    """
    m = sum(exact.size for exact, _, _ in arrays)
    for exact, t, step in arrays:
        positive(step=step)
        _require_exact_type(exact)
        require_scale(t, m)
    out = [np.empty(exact.shape, np.float64) for exact, _, _ in arrays]
    if m == 0:
        return out
    sampler = L2Sampler(KeyStream(operating_system_key()))
    length = sampler.lengths(1, m)
    noise = np.empty(min(L2_CHUNK, m), np.int64)
    sound = True
    for (exact, t, step), noisy in zip(arrays, out, strict=True):
        flat, result = np.ascontiguousarray(exact).reshape(-1), noisy.reshape(-1)
        for start in range(0, flat.size, L2_CHUNK):
            part = slice(start, min(start + L2_CHUNK, flat.size))
            fresh = noise[: part.stop - start]
            sampler.draw(length, t, fresh.reshape(1, -1))
            sound &= _finish(flat[part], fresh, step, result[part])
    _require_sound(sound)
    return out


def _run_l2_rows(exact: NDArray[Any], t: float, step: float, out: NDArray[np.float64]) -> bool:
    sampler = L2Sampler(KeyStream(operating_system_key()))
    rows, width = exact.shape
    batch = max(1, L2_CHUNK // width)
    noise = np.empty((min(batch, rows), width), np.int64)
    sound = True
    for start in range(0, rows, batch):
        part = slice(start, min(start + batch, rows))
        fresh = noise[: part.stop - start]
        sampler.draw(sampler.lengths(len(fresh), width), t, fresh)
        sound &= _finish(exact[part].reshape(-1), fresh.reshape(-1), step, out[part].reshape(-1))
    return sound


def add_l2_noise_by_row(exact: NDArray[Any], t: float, step: float, threads: int = 1) -> NDArray[np.float64]:
    """Return (exact + noise) * step for a table of n rows of k numbers: every row gets noise of a length of its own.

    `exact` are integers; `t` is the scale of the noise in those integers and `step` the value of one of them; `threads`
    is the number of threads that draw, from 1, and changes no law.
    Guarantee: if neighbours differ in one row, by a vector d of integer steps, what is returned is epsilon-DP with
    delta = 0 and epsilon = |d|_2 / t, with no slack. Rows are independent, so distances of several rows add up. A
    number gets a standard deviation of about t sqrt(k + 1).
    Edge cases: as `add_l2_noise`, with m = k.

    >>> add_l2_noise_by_row(np.zeros((5, 3), np.int64), t=40.0, step=0.25).shape
    (5, 3)
    """
    if exact.ndim != 2:
        raise TypeError("internal error: rows of numbers have two dimensions")
    positive(step=step)
    at_least(1, "give a number of threads of 1 or more", threads=threads)
    _require_exact_type(exact)
    rows, width = exact.shape
    require_scale(t, width)
    out = np.empty((rows, width), np.float64)
    if out.size == 0:
        return out
    given = np.ascontiguousarray(exact)
    share = max(-(-rows // threads), -(-CHUNK // width))
    parts = [slice(start, start + share) for start in range(0, rows, share)]
    if len(parts) == 1:
        sound = _run_l2_rows(given, t, step, out)
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            sound = all(list(pool.map(lambda part: _run_l2_rows(given[part], t, step, out[part]), parts)))
    _require_sound(sound)
    return out
