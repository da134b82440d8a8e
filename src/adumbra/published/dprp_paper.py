"""DPRP exactly as the paper prints it, for studies and audits. `release` cannot reach this module.

Gondara and Wang (2020), Differentially private small dataset release using random projections, UAI.

What does not hold (docs/proofs/published-dprp.md):

- `theorem_a_sigma`, equation (6): sound for rows at most `bound` apart. Unit rows are up to 2 apart (sqrt 2 if no entry
  is negative), while the experiments' scaling suggests 1. The slack of (6) covers rows without negative entries at
  every k1 checked; for rows of both signs the claim is false at k1 = 320 and above.
- `theorem_b_sigma`, equation (8): sound for emptying a row of norm `bound`. Replacing it moves X'X by up to sqrt(2)
  times that, and at delta_2 = 1.5e-5 the claim is false from epsilon_2 = 0.42 on.
- `imputed`: column means. One record moves every imputed cell of its columns, so neighbours differ in many rows.
- `search_dimension`: the paper sets 5 % aside for it and states no account. Every candidate is a full run.
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here: (8) stands where a variance is expected and is read as a standard
deviation, like the paper's N(0, 1/sqrt(k1)) for R; k2 = 0.6 d is rounded down; no grid of k1 and no score is printed,
so the caller gives both; rows of norm 0 stay 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between, positive

__all__ = [
    "Reconstructed",
    "default_rank",
    "dprp",
    "experiment",
    "imputed",
    "search_dimension",
    "theorem_a_sigma",
    "theorem_b_sigma",
    "unit_rows",
]


PROJECTION_SHARE = 0.80
MOMENT_SHARE = 0.15
SEARCH_SHARE = 0.05
"""Section 4.2: shares of epsilon and of delta alike. Nothing here draws on the last one; see `search_dimension`."""


@dataclass(frozen=True, eq=False)
class Reconstructed:
    """What Algorithm 1 makes; the paper publishes `rows`, its proof covers `projected` and `noisy_moment`."""

    rows: Reals
    """X' (line 7)."""
    matrix: Reals
    """R (line 1)."""
    projected: Reals
    """P' (line 3)."""
    noisy_moment: Reals
    """X_C + M_2 (line 5)."""
    sigma_1: float
    sigma_2: float


def theorem_a_sigma(epsilon: float, delta: float, dimension: int, bound: float = 1.0) -> float:
    """Equation (6): noise on XR for rows at most `bound` (the paper's Z) apart.

    >>> round(theorem_a_sigma(1.0, 1e-4, 16), 2)
    8.52
    """
    positive(epsilon=epsilon)
    _check_delta(delta)
    at_least(1, "give the number of projected coordinates", dimension=dimension)
    positive(bound=bound)
    tail = math.log(2.0 / delta)
    stretch = math.sqrt(dimension + 2.0 * math.sqrt(dimension * tail) + 2.0 * tail) / math.sqrt(dimension)
    return bound * stretch * math.sqrt(2.0 * (math.log(1.0 / (2.0 * delta)) + epsilon)) / epsilon


def theorem_b_sigma(epsilon: float, delta: float, bound: float = 1.0) -> float:
    """Equation (8), read as a standard deviation: noise on the upper triangle of X'X for rows of norm `bound`.

    >>> round(theorem_b_sigma(0.6, 1.5e-5), 2)
    7.93
    """
    positive(epsilon=epsilon)
    _check_delta(delta)
    positive(bound=bound)
    return bound**2 * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def imputed(table: Reals) -> Reals:
    """Section 4.1: every missing (NaN) cell becomes the mean of its column. Outside the paper's proof."""
    missing = np.isnan(table)
    if missing.all(axis=0).any():
        raise InputError("a value in every column", "a column that is empty", "drop the column")
    means = np.where(missing, 0.0, table).sum(axis=0) / (~missing).sum(axis=0)
    return np.where(missing, means, table)


def unit_rows(table: Reals) -> Reals:
    """Section 4.3: every row divided by its own L2 norm. Each row's own affair, so it needs no account."""
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(norms > 0, norms, 1.0))


def default_rank(width: int) -> int:
    """Section 4.3: k2 = 0.6 d, rounded down, at least 1.

    >>> default_rank(32), default_rank(5), default_rank(1)
    (19, 3, 1)
    """
    return max(1, 6 * width // 10)


def dprp(
    table: Reals,
    epsilon: float,
    delta: float,
    dimension: int,
    rng: np.random.Generator,
    rank: int | None = None,
    bound: float = 1.0,
    shares: tuple[float, float] = (PROJECTION_SHARE, MOMENT_SHARE),
) -> Reconstructed:
    """Algorithm 1, line by line; `table` is imputed and scaled already.

    `dimension` is k1, `rank` is k2 (0.6 d if not given), `bound` the paper's Z, and `shares` the parts of epsilon and
    delta that go to P' and to the second moment. Where a row is longer than `bound` or two rows are farther apart, the
    paper's theorems do not speak, and nothing here clips.
    """
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        raise InputError("a table of finite numbers", f"shape {table.shape}, or missing cells", "impute and scale it")
    rows, width = table.shape
    kept = default_rank(width) if rank is None else at_least(1, "give the directions to keep (k2)", rank=rank)
    if kept > width:
        raise InputError(f"a rank of at most {width}", f"rank = {rank}", "keep no more directions than columns")
    sigma_1 = theorem_a_sigma(shares[0] * epsilon, shares[0] * delta, dimension, bound)
    sigma_2 = theorem_b_sigma(shares[1] * epsilon, shares[1] * delta, bound)

    matrix = rng.normal(0.0, 1.0 / math.sqrt(dimension), (width, dimension))
    projected = table @ matrix + rng.normal(0.0, sigma_1, (rows, dimension))
    upper = np.triu(rng.normal(0.0, sigma_2, (width, width)))
    noisy_moment = table.T @ table + upper + np.triu(upper, 1).T
    _, _, right = np.linalg.svd(noisy_moment)
    leading = right[:kept]
    made = projected @ np.linalg.pinv(leading @ matrix) @ leading
    return Reconstructed(np.asarray(made), matrix, projected, np.asarray(noisy_moment), sigma_1, sigma_2)


def search_dimension(
    table: Reals,
    epsilon: float,
    delta: float,
    dimensions: Sequence[int],
    score: Callable[[Reals], float],
    rng: np.random.Generator,
    rank: int | None = None,
    bound: float = 1.0,
) -> tuple[int, Reconstructed]:
    """The k1 of best score and its run: the first of equals.

    `score` sees the reconstructed rows of each candidate and usually compares them with real data, as the paper's
    does. The paper charges 5 % for this and gives no account that would say so: each candidate spends 80 % + 15 %
    again, and the choice among them depends on whatever `score` looks at.
    """
    if not dimensions:
        raise InputError("at least one dimension to try", "none", "give a list of values for k1")
    runs = [dprp(table, epsilon, delta, k, rng, rank, bound) for k in dimensions]
    best = int(np.argmax([score(run.rows) for run in runs]))
    return dimensions[best], runs[best]


def experiment(
    table: Reals,
    epsilon: float,
    delta: float,
    dimensions: Sequence[int],
    score: Callable[[Reals], float],
    rng: np.random.Generator,
) -> tuple[int, Reconstructed]:
    """Section 4's setting on a raw `table` with NaN for missing: impute, scale rows, Z = 1, k2 = 0.6 d, search k1.

    Each run promises (`epsilon`, `delta`), so the search as a whole does not. k1 is the one of `dimensions` whose
    reconstruction has the best `score`; `rng` draws matrix and noise.
    """
    return search_dimension(unit_rows(imputed(table)), epsilon, delta, dimensions, score, rng)


def _check_delta(delta: float) -> None:
    """The range that Theorem 2 names."""
    between(0.0, 0.5, "the theorem is stated for delta above 0 and below 1/2", delta=delta)
    positive("the theorem is stated for delta above 0", delta=delta)
