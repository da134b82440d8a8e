"""The law of a noisy choice: how likely each candidate is to have the smallest score once noise is added.

From the stated noise alone, so that an attacker can weigh a choice like any other noisy answer.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from adumbra.common.types import Reals

__all__ = ["log_chances"]

_REACH = 45.0
"""Scales of noise that are summed over: what lies beyond has a chance below 1e-19."""
_PLACES = 4096
"""Places summed over for each scale of noise, at most: all of them while the scale is no larger, else evenly spaced."""


@lru_cache(maxsize=256)
def log_chances(scores: tuple[int, ...], t: float) -> Reals:
    """Logarithms of the chances to win, for whole scores and noise with P(x) ~ exp(-|x| / t); the first wins a tie.

    >>> np.exp(log_chances((3, 3), 2.0)).round(3).tolist()
    [0.565, 0.435]
    """
    best = min(scores)
    # the winning sum, from where no candidate can be to where the best one is almost surely below it
    stride = max(1, int(t / _PLACES))
    sums = np.arange(best - int(_REACH * t) - 1, best + int(_REACH * t) + 2, stride).astype(np.float64)
    # P(noise >= k), without a difference of numbers near 1
    ratio = np.exp(-1.0 / t)

    def above(k: Reals) -> Reals:
        far = np.exp(-np.abs(k) / t)
        return np.asarray(np.where(k > 0, far / (1.0 + ratio), 1.0 - far * ratio / (1.0 + ratio)))

    out = np.empty(len(scores))
    for i, own in enumerate(scores):
        chance = (1.0 - ratio) / (1.0 + ratio) * np.exp(-np.abs(sums - own) / t)
        for j, other in enumerate(scores):
            if j != i:  # one before it must be beaten, one after it may tie
                chance = chance * above(sums - other + (1 if j < i else 0))
        out[i] = stride * chance.sum()
    with np.errstate(divide="ignore"):
        logs = np.log(out)
    logs.setflags(write=False)
    return np.asarray(logs)
