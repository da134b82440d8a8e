"""LOP (Laplace output perturbation) exactly as the paper prints it, for studies and audits; `release` cannot reach it.

Xu, Yang and Bai (2019), the same paper as `lip`. Claimed (Theorem 2): epsilon, delta = 0, one row replaced, rows of
norm at most 1.

What does not hold (docs/proofs/published-lop.md):

- The released rows Z2 have no epsilon at all: their row space is the span of the exact eigenvectors, so it can be read
  off without any noise.
- The noisy coordinates alone have none that holds for every number of rows: one record can turn the basis and with it
  every other person's coordinates. The proof's step (19) drops the second basis.
- Mean, largest norm and the number of directions are taken from the table.
- The noise is float64 from a statistical generator.

What the paper leaves open, and how it is read here: line 6 prints V'_k, which Algorithm 2 does not have; (26) shows
that V_k is meant. Number of directions and signs as in `lip`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adumbra.core.validation import positive
from adumbra.published.lip import Reduced, checked, directions

__all__ = ["lop", "lop_scale"]

Reals = NDArray[np.float64]


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
    coordinates = table @ basis + rng.laplace(0.0, scale, (rows, basis.shape[1]))
    return Reduced(coordinates @ basis.T, coordinates, basis, moment, scale)
