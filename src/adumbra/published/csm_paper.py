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
- Proposition 2 counts the noise of one measurement and nothing of what K atoms leave out.
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here:

- tau is the compression ratio s / N; the magnitude function H is 1; one tuple counts 1 in one of N cells, so that the
  query of Definition 5 changes by one entry of Psi.
- Line 2 says Psi X where (5) says Psi D = Psi Phi X. With an orthogonal Phi the first is Psi Phi' D: one more random
  matrix in the place of Psi. (5) is taken.
- Matrices (`measurement_matrix`) have columns of length 1, on the average at least, so that (7) can hold.
- The number K of atoms is nowhere given and nowhere chosen: it is the caller's, and so is a residual to stop at.
- Negative counts are left as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, one_of, positive
from adumbra.numerics.dictionaries import Dictionary
from adumbra.numerics.fast_transforms import hadamard
from adumbra.numerics.pursuit import pursue

__all__ = [
    "MATRICES",
    "READINGS",
    "Reconstructed",
    "algorithm_1",
    "csm",
    "measurement_matrix",
    "proposition_2_probability",
    "reconstruct",
    "sensitivity",
    "theorem_2_epsilon",
]


MATRICES = ("bernoulli", "gaussian", "fourier", "hadamard")
"""Proposition 1: drawn entry by entry (the first two), or as rows of a matrix (the others)."""

READINGS = ("one-coefficient", "distribution-parameter", "number-of-vectors")
"""Definition 5 with H = 1; and Proposition 1's "the distribution parameter or the number of vectors"."""


def measurement_matrix(measurements: int, cells: int, rng: np.random.Generator, kind: str = "bernoulli") -> Reals:
    """Psi, s x N: `measurements` (s) rows and `cells` (N) columns, drawn by `rng`; `kind` is one of `MATRICES`.

    * bernoulli: independent entries +-1/sqrt(s); columns of L2 norm 1 and L1 norm sqrt(s).
    * gaussian: independent N(0, 1/s); columns of L2 norm 1 on the average, not normalised.
    * fourier: s different rows of the real Fourier basis (mean, cosines, sines) times sqrt(N/s); columns as gaussian.
    * hadamard: s different rows of the Hadamard matrix of the next power of two over sqrt(s), its first N columns.

    >>> measurement_matrix(2, 3, np.random.default_rng(0), "hadamard").shape
    (2, 3)
    """
    at_least(1, "give the number of measurements (s)", measurements=measurements)
    at_least(1, "give the number of cells (N)", cells=cells)
    one_of(MATRICES, kind=kind)
    root = math.sqrt(measurements)
    if kind == "bernoulli":
        return np.asarray(rng.choice((-1.0, 1.0), (measurements, cells)) / root)
    if kind == "gaussian":
        return np.asarray(rng.normal(0.0, 1.0 / root, (measurements, cells)))
    available = cells if kind == "fourier" else 1 << (cells - 1).bit_length()
    if measurements > available:
        raise InputError(f"at most {available} rows of a {kind} matrix", f"{measurements}", "take fewer measurements")
    rows = rng.choice(available, measurements, replace=False)
    if kind == "fourier":
        return np.asarray(_real_fourier(cells)[rows] * math.sqrt(cells / measurements))
    return np.asarray(hadamard(np.eye(available)[rows])[:, :cells] / root)


def _real_fourier(cells: int) -> Reals:
    """Orthonormal, one wave a row: the mean, cosines from the lowest frequency up, then sines."""
    angle = 2.0 * math.pi / cells * np.arange(cells)
    cosines = np.cos(np.outer(np.arange(cells // 2 + 1), angle))
    sines = np.sin(np.outer(np.arange(1, (cells + 1) // 2), angle))
    waves = np.concatenate([cosines, sines])
    return np.asarray(waves / np.linalg.norm(waves, axis=1, keepdims=True))


def sensitivity(matrix: Reals, reading: str) -> float:
    """Delta as the paper may be read; one of `READINGS`.

    The distribution parameter is that of entries with variance 1/s, of rows of a matrix too, which have none.

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
    """What Theorem 2 says noise of scale Delta / `epsilon` keeps: 2 tau epsilon / Delta.

    `delta_ss` is the paper's Delta; tau is the ratio of rows to columns of `matrix`.
    """
    measurements, cells = matrix.shape
    return float(2.0 * measurements / cells * epsilon / delta_ss)


def proposition_2_probability(measurements: int, epsilon: float, delta_ss: float, error: float) -> float:
    """Of an answer's being off by `error` or more, as Proposition 2 has it: exp(-error epsilon / (s Delta)) / 2."""
    return 0.5 * math.exp(-error * epsilon / (measurements * delta_ss))


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


@dataclass(frozen=True, eq=False)
class Reconstructed:
    """What Algorithm 1 makes; the paper publishes `table`."""

    table: Reals
    """D* (line 6): estimated counts, shaped as the counts were."""
    code: Reals
    """X* (line 5): coefficients of the atoms, most of them 0."""
    measured: Reals
    """I* (line 4)."""
    scale: float
    """lambda."""


def reconstruct(
    measured: Reals, matrix: Reals, basis: Dictionary, sparsity: int, residual: float | None = None
) -> tuple[Reals, Reals]:
    """Algorithm 1, lines 5 and 6: returns (D*, X*), with X* by OMP from I* = Omega X, Omega = Psi Phi, and D* = Phi X*.

    `sparsity` is K, the atoms of one histogram at most; a histogram is done earlier if the squared length of what is
    left is at most `residual`. The basis has to be orthogonal: with another, line 1 has no linear form.
    """
    cells = matrix.shape[1]
    if basis.cells != cells or basis.atoms != cells or basis.name == "learnt":
        raise InputError(
            f"an orthogonal basis of {cells} cells",
            f"{basis.name}: {basis.atoms} atoms of {basis.cells} cells",
            "take identity or dct; haar and walsh-hadamard are bases for powers of two",
        )
    if measured.shape[:1] != matrix.shape[:1]:
        raise InputError(f"{len(matrix)} measurements", f"shape {measured.shape}", "give those of this matrix")
    signals = measured.reshape(len(matrix), -1).T
    code = pursue(basis.analysis(matrix), signals, atoms=sparsity, residual=residual).dense(cells)
    shape = (cells, *measured.shape[1:])
    return np.asarray(basis.synthesis(code).T.reshape(shape)), np.asarray(code.T.reshape(shape))


def algorithm_1(
    counts: Reals,
    epsilon: float,
    matrix: Reals,
    basis: Dictionary,
    sparsity: int,
    rng: np.random.Generator,
    reading: str = READINGS[0],
    residual: float | None = None,
) -> Reconstructed:
    """All of Algorithm 1, for an orthogonal basis Phi: line 1 is then X = Phi' D, and Psi Phi X is Psi D.

    `counts` (N) are released at `epsilon` through `matrix` (s x N), with the `reading` of the sensitivity that `csm`
    takes, by noise from `rng`. `basis` is Phi; at most `sparsity` atoms are found, or fewer once the squared
    length of what is left is at most `residual`, None for no such stop.

    As private as `csm` with the same arguments: what comes after I* sees no counts.
    """
    measured, scale = csm(counts, epsilon, matrix, rng, reading)
    table, code = reconstruct(measured, matrix, basis, sparsity, residual)
    return Reconstructed(table, code, measured, scale)
