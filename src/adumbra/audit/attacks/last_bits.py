"""The last bits: noise in floating point says what it was added to.

Near 0 a float64 has far finer steps than near 1. So `0 + noise`, when it falls between 0 and 1, often has bits that
`1 + noise` cannot have: what was added to 1 was rounded to steps of 2^-53 first. The last bits of a single
draw then distinguish the tables with certainty, whatever epsilon was claimed (Mironov 2012 has the stronger attack,
which also knows which values a sampler can reach). Here answer and noise are integers and only their sum becomes a
float, so the bits are those of a number that both tables can have.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from adumbra.accounting.calibrate import mu_for
from adumbra.audit.attacks.common import BEYOND, WITHIN, Attack, Clock, allowed_share, generator, interval, released
from adumbra.audit.bounds import by_threshold, from_counts
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Budget, Relation, Unit, promise_in_words
from adumbra.declare.schema import Schema
from adumbra.mechanisms.dppro import DPPro

__all__ = ["TARGETS", "demonstrate", "floating_point", "too_fine"]

TARGETS = ("naive laplace", "naive gaussian", "dppro laplace", "dppro gaussian")
_ANSWER = 0.5
"""The two answers are 0 and this (a power of two): an empty cell of a number, and the top of its range."""


def too_fine(draws: Reals, answer: float = _ANSWER) -> Reals:
    """1 where a draw lies between 0 and the answer, and has a bit that `answer + noise` cannot have there.

    Between 0 and a power of two b, b + noise is a whole multiple of b 2^-53: noise larger than b / 2 in size has no
    finer bits, and with smaller noise the sum lies above b / 2, where there are none.

    >>> too_fine(np.array([2.0**-60, 0.25, 2.0**-54, -0.1, 0.7])).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    steps = draws * (2.0**53 / answer)  # exact: a power of two
    return np.asarray((draws > 0) & (draws < answer) & (steps != np.floor(steps)), dtype=np.float64)


def _finest(draws: Reals) -> Reals:
    """The larger, the smaller the last bit of a draw: minus its exponent."""
    fraction, exponent = np.frexp(draws)
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    last = np.where(whole == 0, 1, whole & -whole)
    return np.asarray(np.where(whole == 0, -np.inf, -(exponent - 53 + np.log2(last))))


def floating_point(
    target: str = "naive laplace",
    *,
    epsilon: float = 1.0,
    runs: int = 40_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Attack:
    """Tell 0 + noise from 1/2 + noise by the last bits, in `runs` draws of each.

    `naive` targets add numpy's noise in float64, as many a script does; the others are releases of this library. Noise
    is calibrated to epsilon (Gaussian: and delta 1e-6) for this change. `success` is how often the bits give the 0
    away, `chance` how often they do so wrongly. The naive draws follow the seed, a release has none for its noise.
    """
    one_of(TARGETS, target=target)
    clock = Clock()
    delta = 1e-6 if target.endswith("gaussian") else 0.0
    if target.startswith("naive"):
        rng = generator(seed)
        draw = rng.laplace if delta == 0 else rng.normal
        scale = _ANSWER / (epsilon if delta == 0 else mu_for(epsilon, delta))
        zero, one = (answer + draw(0.0, scale, runs) for answer in (0.0, _ANSWER))
    else:
        zero, one = (_draws(value, runs, Budget(epsilon, delta, Unit.CELL, Relation.ZERO_OUT)) for value in (None, 1.0))
    hits, false = int(too_fine(zero).sum()), int(too_fine(one).sum())
    low, high = interval(hits, runs, confidence)
    bound = from_counts(hits, runs, false, runs, delta, confidence)
    searched = by_threshold(_finest(zero), _finest(one), delta, confidence).epsilon
    return Attack(
        name="floating_point",
        target=f"{target}, {promise_in_words(epsilon, delta, Unit.CELL, Relation.ZERO_OUT)}",
        success=hits / runs,
        meaning="share of draws whose last bits say that the answer was 0",
        chance=false / runs,
        allowed=allowed_share(interval(false, runs, confidence)[1], epsilon, delta),
        low=low,
        high=high,
        confidence=confidence,
        runs=2 * runs,
        seconds=clock.seconds,
        verdict=BEYOND if bound > epsilon else WITHIN,
        explanation=(
            f"The last bits say 'this was 0' in {hits} of {runs} draws where it was, and in {false} of {runs} where it "
            f"was not: epsilon is at least {bound:.2f}."
        ),
        details={"epsilon at least": bound, "epsilon at least, by the finest bit": searched},
        ours=not target.startswith("naive"),
    )


def _draws(value: float | None, runs: int, budget: Budget) -> Reals:
    """Every row of the release is a draw of its own."""
    schema = Schema.from_dict({"columns": {"n": {"kind": "number", "low": 0, "high": 1}}})
    frame = pl.DataFrame({"n": [value] * runs}, schema={"n": pl.Float64})
    kind = DPPro(dimension=1, projection="signs")
    release = released(frame, schema, kind, budget, seed=PublicSeed.given("last bits"))
    sign = np.sign(float(release.arrays["matrix"][0, 0]))
    return np.asarray(release.table.to_numpy().ravel() * sign)


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """Naive noise and this library's, both laws."""
    runs = 1_000_000 if deep else 40_000
    return tuple(floating_point(target, runs=runs, seed=seed) for target in TARGETS)
