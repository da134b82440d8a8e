"""LOP (Laplace output perturbation) exactly as the paper prints it, for studies and audits; `release` cannot reach it.

Xu, Yang and Bai (2019), the same paper as `lip`. Claimed (Theorem 2): epsilon, delta = 0, one row replaced, rows of
norm at most 1.

What does not hold (docs/proofs/published-lop.md):

- The released rows Z2 have no epsilon at all: their row space is the span of the exact eigenvectors, so it can be read
  off without any noise.
- The noisy coordinates alone have none that holds for every number of rows: one record can turn the basis and with it
  every other person's coordinates. The proof's step (19) drops the second basis.
- Mean, largest norm and the number of directions are taken from the table.
- Theorem 3 states the order of the squared noise ratio; the experiments measure the ratio itself, which is the root.
  Neither depends on the table.
- Theorem 4 bounds eta = MSE1 / MSE2 from below and concludes that it is below 1. It need not be. Where it is, LOP's
  noise is larger than the table, and any basis would do as well as LIP's.
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here: line 6 prints V'_k, which Algorithm 2 does not have; (26) shows
that V_k is meant. Number of directions and signs as in `lip`.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, positive
from adumbra.published.lip_paper import Reduced, approximation_error, checked, directions, noise_magnitude

__all__ = [
    "error_ratio",
    "lop",
    "lop_scale",
    "noise_ratio",
    "noise_ratio_expected",
    "residual",
    "theorem_3_order",
    "theorem_4_bound",
]


def lop_scale(width: int, epsilon: float) -> float:
    """Line 4: 2 d / epsilon.

    >>> lop_scale(6, 0.5)
    24.0
    """
    positive(epsilon=epsilon)
    return 2.0 * width / epsilon


def lop(table: Reals, epsilon: float, rank: int | None, rng: np.random.Generator) -> Reduced:
    """Algorithm 2, line by line. `rank` is k; None takes it from equation (3), on the exact eigenvalues."""
    rows, width = checked(table)
    scale = lop_scale(width, epsilon)
    moment = np.asarray(table.T @ table / rows)
    basis = directions(moment, rank)
    noise = rng.laplace(0.0, scale, (rows, basis.shape[1]))
    coordinates = table @ basis + noise
    return Reduced(coordinates @ basis.T, coordinates, basis, moment, scale, noise)


def noise_ratio(input_run: Reduced, output_run: Reduced) -> float:
    """Section 5.1's theta = N1 / N2, of a run of LIP and a run of LOP: a ratio of Frobenius norms."""
    return noise_magnitude(input_run) / noise_magnitude(output_run)


def noise_ratio_expected(rows: int, width: int, rank: int) -> float:
    """d / sqrt(n^3 k): the root of E|E1|_F^2 / E|E2|_F^2, which theta of section 5.1 keeps close to.

    n is the number of `rows`, d the `width`, k the `rank`.
    Exact, whatever epsilon and the table; the proof and how close are in docs/proofs/published-lop.md.

    >>> round(noise_ratio_expected(5000, 21, 4), 7)
    2.97e-05
    """
    return math.sqrt(theorem_3_order(rows, width, rank))


def theorem_3_order(rows: int, width: int, rank: int) -> float:
    """Theorem 3 as printed: d^2 / (n^3 k), with n `rows`, d the `width` and k the `rank`.

    It is E|E1|_F^2 / E|E2|_F^2 exactly; section 5.1's theta goes with its root.

    >>> theorem_3_order(10, 5, 1)
    0.025
    """
    at_least(1, "give the number of records (n)", rows=rows)
    at_least(1, "give the number of attributes (d)", width=width)
    at_least(1, "give the directions to keep (k)", rank=rank)
    return width**2 / (rows**3 * rank)


def residual(table: Reals, rank: int) -> float:
    """Equation (29): what the best k directions leave, sqrt((lambda_k+1 + ... + lambda_d) / (all)) |X|_F.

    >>> residual(np.diag([1.0, 0.6, 0.8]), 1), residual(np.diag([1.0, 0.6, 0.8]), 2)
    (1.0, 0.6)
    """
    rows, width = checked(table)
    at_least(1, "give the directions to keep (k)", rank=rank)
    if rank > width:
        raise InputError(f"a rank of at most {width}", f"rank = {rank}", "keep no more directions than columns")
    values = np.linalg.eigvalsh(table.T @ table / rows)
    return math.sqrt(rows * max(float(values[: width - rank].sum()), 0.0))


def error_ratio(table: Reals, input_run: Reduced, output_run: Reduced) -> float:
    """Section 4.3's eta = MSE1 / MSE2, of a run of LIP (`input_run`) and one of LOP (`output_run`) on `table`."""
    return approximation_error(table, input_run) / approximation_error(table, output_run)


def theorem_4_bound(table: Reals, output_run: Reduced) -> float:
    """The right side of (35): eta is at least this; equal where k = d, so the paper's strict sign does not hold.

    A lower bound: it says nothing about eta being below 1. |E2 V_k^T|_F is |E2|_F, since V_k is orthonormal.
    """
    left = residual(table, output_run.basis.shape[1])
    return left / (left + noise_magnitude(output_run))
