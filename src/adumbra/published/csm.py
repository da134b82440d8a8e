"""CSM (compressed sensing mechanism) as the paper prints it, for studies and audits; `release` cannot reach it.

Zheng, Wang, Wen, Mumtaz, Bashir, Chauhdary (2019), Differentially private high-dimensional data publication in
Internet of Things, IEEE Internet of Things Journal, doi 10.1109/JIOT.2019.2955503. Claimed (Proposition 1): epsilon,
delta = 0, one tuple added, removed or modified.

What does not hold (docs/proofs/published-csm.md):

- The proof of Theorem 2 compares a table with its own noisy version, not with a neighbour, and its number 2 tau
  epsilon / Delta is below the exact epsilon for every Delta and every matrix with columns of L1 norm above 2.
- The noise scale is never fixed. Of three readings of the sensitivity (`sensitivity`) two give an epsilon tens of times
  the claimed one, and the third gives far more noise than needed.
- Algorithm 1, line 1, codes the table sparsely first. With a dictionary that is not orthogonal a greedy solver does it,
  and a solver that jumps has no sensitivity to speak of. Here the table is measured linearly, as in the paper's (5).
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here: tau is the compression ratio s / N; the magnitude function H is 1;
one tuple counts 1 in one of N cells, so that the query of Definition 5 changes by one entry of Psi; the matrix has
entries of +-1/sqrt(s) (the paper names Gaussian, Bernoulli, Fourier and Hadamard). Reconstruction (lines 5 and 6) is
post-processing and not here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least, one_of, positive

__all__ = ["READINGS", "csm", "measurement_matrix", "sensitivity", "theorem_2_epsilon"]

Reals = NDArray[np.float64]

READINGS = ("one-coefficient", "distribution-parameter", "number-of-vectors")
"""Definition 5 with H = 1; and Proposition 1's "the distribution parameter or the number of vectors"."""


def measurement_matrix(measurements: int, cells: int, rng: np.random.Generator) -> Reals:
    """Psi, s x N, with independent entries +-1/sqrt(s): columns of L2 norm 1 and L1 norm sqrt(s)."""
    at_least(1, "give the number of measurements (s)", measurements=measurements)
    at_least(1, "give the number of cells (N)", cells=cells)
    return np.asarray(rng.choice((-1.0, 1.0), (measurements, cells)) / math.sqrt(measurements))


def sensitivity(matrix: Reals, reading: str) -> float:
    """Delta as the paper may be read; one of `READINGS`.

    >>> matrix = measurement_matrix(4, 16, np.random.default_rng(0))
    >>> [sensitivity(matrix, reading) for reading in READINGS]
    [2.0, 0.5, 4.0]
    """
    one_of(READINGS, reading=reading)
    measurements, cells = matrix.shape
    if reading == "one-coefficient":
        return float(cells / measurements * np.abs(matrix).max())
    if reading == "distribution-parameter":
        return 1.0 / math.sqrt(measurements)
    return float(measurements)


def theorem_2_epsilon(matrix: Reals, epsilon: float, delta_ss: float) -> float:
    """What Theorem 2 says noise of scale Delta / epsilon keeps: 2 tau epsilon / Delta."""
    measurements, cells = matrix.shape
    return float(2.0 * measurements / cells * epsilon / delta_ss)


def csm(
    counts: Reals, epsilon: float, matrix: Reals, rng: np.random.Generator, reading: str = READINGS[0]
) -> tuple[Reals, float]:
    """Algorithm 1, lines 2 to 4: returns (I*, lambda) with I* = Psi D + Lap(lambda), lambda = Delta / epsilon.

    `counts` is D: one histogram of N cells, or a matrix with a histogram in each column.
    """
    positive(epsilon=epsilon)
    if counts.shape[:1] != matrix.shape[1:] or not np.isfinite(counts).all():
        raise InputError(f"{matrix.shape[1]} finite counts", f"shape {counts.shape}", "give one number for each cell")
    scale = sensitivity(matrix, reading) / epsilon
    measured = matrix @ counts
    return np.asarray(measured + rng.laplace(0.0, scale, measured.shape)), scale
