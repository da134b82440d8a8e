"""LIP (Laplace input perturbation) exactly as the paper prints it, for studies and audits; `release` cannot reach it.

Xu, Yang and Bai (2019), Laplace input and output perturbation for differentially private principal components
analysis, Security and Communication Networks. Claimed (Theorem 1): epsilon, delta = 0, one row replaced, rows of norm
at most 1.

What does not hold (docs/proofs/published-lip.md):

- The released rows Z1 have no epsilon at all: the noise is in the basis only, the basis can be read off Z1, and then
  every row is an exact projection of the record.
- The noisy second moment alone keeps the claim, with noise up to 2.8 times too large. The proof bounds the largest
  column sum, where independent noise needs the sum over the whole triangle.
- The experiments subtract the table's mean and divide by the table's largest norm (`prepared`): one record moves every
  row.
- Theorems 3 and 4 compare it with LOP: see `lop` and docs/proofs/published-lop.md.
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here: the number of directions is the least k of equation (3) at 85 %,
taken from the noisy eigenvalues (negative ones count as they are), unless the caller gives it; where their sum is not
positive (3) says nothing and one direction is kept. A direction's sign is made unique: its largest entry is positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, positive

__all__ = [
    "CONTRIBUTION",
    "Reduced",
    "approximation_error",
    "checked",
    "directions",
    "leading_rank",
    "lip",
    "lip_scale",
    "noise_magnitude",
    "prepared",
]


CONTRIBUTION = 0.85
"""Section 5: the threshold alpha on the accumulated eigenvalues."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """What Algorithm 1 (or 2) makes; the paper publishes `rows`."""

    rows: Reals
    """Z1 (line 6), or Z2."""
    coordinates: Reals
    """Y1 (line 5), or the noisy Y2'."""
    basis: Reals
    """V'_k, or V_k: one column a direction."""
    moment: Reals
    """A' (line 3), or the exact A of LOP."""
    scale: float
    """Of the Laplace noise, wherever it was added."""
    noise: Reals
    """E1 (line 2), or E2 (line 4): for studies of the noise; the paper publishes neither."""


def lip_scale(rows: int, width: int, epsilon: float) -> float:
    """Line 2: 2 d / (n epsilon), n the number of `rows`, d the `width`, at this `epsilon`.

    >>> lip_scale(60, 6, 1.0)
    0.2
    """
    positive(epsilon=epsilon)
    return 2.0 * width / (rows * epsilon)


def leading_rank(eigenvalues: Reals, contribution: float = CONTRIBUTION) -> int:
    """Equation (3): the least k whose largest eigenvalues hold this share of their sum.

    >>> leading_rank(np.array([1.0, 6.0, 3.0])), leading_rank(np.array([-1.0, -2.0]))
    (2, 1)
    """
    total = float(eigenvalues.sum())
    if total <= 0:
        return 1
    reached = np.cumsum(np.sort(eigenvalues)[::-1]) / total >= contribution
    return int(np.argmax(reached)) + 1 if reached.any() else len(eigenvalues)


def directions(moment: Reals, rank: int | None) -> Reals:
    """The leading eigenvectors as columns: `rank` of them, or as many as (3) wants."""
    values, vectors = np.linalg.eigh(moment)
    kept = leading_rank(values) if rank is None else at_least(1, "give the directions to keep (k)", rank=rank)
    if kept > len(values):
        raise InputError(f"a rank of at most {len(values)}", f"rank = {rank}", "keep no more directions than columns")
    chosen = vectors[:, ::-1][:, :kept]
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(kept)]
    return np.asarray(chosen * np.where(largest < 0, -1.0, 1.0))


def checked(table: Reals) -> tuple[int, int]:
    """Number of rows and of columns, if it is a table of finite numbers. Norms are the caller's affair."""
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        raise InputError("a table of finite numbers", f"shape {table.shape}, or missing cells", "impute and scale it")
    return table.shape[0], table.shape[1]


def prepared(table: Reals) -> Reals:
    """Section 5: the table's mean subtracted, then all rows divided by the largest norm among them.

    Both are read off the table, so one record moves every row and Theorems 1 and 2 do not speak of what comes out. A
    table whose rows are all alike comes back as zeros.

    >>> prepared(np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]])).round(3).tolist()
    [[-0.5, -0.5], [0.5, -0.5], [0.0, 1.0]]
    """
    checked(table)
    centred = table - table.mean(axis=0)
    largest = float(np.linalg.norm(centred, axis=1).max())
    return np.asarray(centred / largest if largest > 0 else centred)


def noise_magnitude(run: Reduced) -> float:
    """N1 or N2 as section 5.1 measures them: the Frobenius norm of the noise. Theorem 3 speaks of its square."""
    return float(np.linalg.norm(run.noise))


def approximation_error(table: Reals, run: Reduced) -> float:
    """Equation (6): |Z - X|_F, which the paper calls MSE (it is neither squared nor a mean)."""
    if run.rows.shape != table.shape:
        raise InputError(f"the table of {run.rows.shape} that was reduced", f"shape {table.shape}", "give that table")
    return math.sqrt(float(((run.rows - table) ** 2).sum()))


def lip(table: Reals, epsilon: float, rank: int | None, rng: np.random.Generator) -> Reduced:
    """Algorithm 1, line by line. `rank` is k; None takes it from equation (3)."""
    rows, width = checked(table)
    scale = lip_scale(rows, width, epsilon)
    upper = np.triu(rng.laplace(0.0, scale, (width, width)))
    noise = upper + np.triu(upper, 1).T
    moment = table.T @ table / rows + noise
    basis = directions(moment, rank)
    coordinates = table @ basis
    return Reduced(coordinates @ basis.T, coordinates, basis, np.asarray(moment), scale, noise)
