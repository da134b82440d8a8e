"""DPPro exactly as the paper prints it, for studies and audits. `release` cannot reach this module.

What does not hold (docs/proofs/published-dppro.md): the unit is one attribute that moves one column by at most
1, so a one-hot category or an unscaled number breaks the claim; the experiments' sigma of 0.1 and 0.2 give an epsilon
of about 50 to 240, not 0.05 to 1.6; the noise is float64 from a statistical generator.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.common.types import Reals

__all__ = ["best_dimension", "dppro", "noisy_projection", "squared_distance", "theorem_2_sigma"]


def theorem_2_sigma(epsilon: float, delta: float, matrix: Reals) -> float:
    """Theorem 2: theta_2(R) sqrt(2 (ln(1/(2 delta)) + epsilon)) / epsilon, theta_2 the longest row of R.

    `matrix` is R; the promise is (`epsilon`, `delta`), delta below 1/2.
    """
    theta = float(np.linalg.norm(matrix, axis=1).max())
    return theta * math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


def dppro(
    table: Reals,
    epsilon: float,
    delta: float,
    dimension: int,
    rng: np.random.Generator,
    sigma: float | None = None,
) -> tuple[Reals, Reals, float]:
    """Algorithm 1: returns (R, P, sigma). `sigma` overrides Theorem 2, as the paper's experiments do."""
    matrix = rng.normal(0.0, 1.0 / math.sqrt(dimension), (table.shape[1], dimension))
    scale = theorem_2_sigma(epsilon, delta, matrix) if sigma is None else sigma
    return matrix, noisy_projection(table, matrix, scale, rng), scale


def noisy_projection(table: Reals, matrix: Reals, sigma: float, rng: np.random.Generator) -> Reals:
    """The last line of Algorithm 1, for a matrix drawn already: P = XR + N(0, sigma^2).

    `table` is X, `matrix` is R, `sigma` the standard deviation of the noise, which `rng` draws.
    """
    return np.asarray(table @ matrix + rng.normal(0.0, sigma, (table.shape[0], matrix.shape[1])))


def squared_distance(released: Reals, i: int, j: int, sigma: float) -> float:
    """Algorithm 2: |p_i - p_j|^2 - 2 k sigma^2, for rows `i` and `j` of `released`, with noise of this `sigma`."""
    change = released[i] - released[j]
    return float(change @ change - 2 * released.shape[1] * sigma**2)


def best_dimension(squared: float, sigma: float) -> float:
    """Equation (9): |y - x|^2 / (2 sigma^2)."""
    return squared / (2 * sigma**2)
