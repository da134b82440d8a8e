"""Squared distances through a random projection and noise: estimator, variance, best dimension.

For rows x, y and z = x - y, the release holds xR + noise. With per-coordinate noise variance v,

    estimate = |p_x - p_y|^2 - 2 k v
    Var      = Var|zR|^2 + 4 (2v) |z|^2 + k (kurtosis - 1) (2v)^2

where `kurtosis` is that of the difference of two noise draws: 3 for Gaussian, 4.5 for Laplace, near 4 for noise by
length. With Gaussian noise of sd sigma this is DPPro's Theorem 3: 2|z|^4/k + 8 sigma^2 |z|^2 + 8 k sigma^4. Setting its
derivative in k to zero gives k = |z|^2 / (2 sigma^2) (Lemma 5's value; the paper differentiates in the wrong variable)
as long as sigma does not depend on k. DPPro is by Xu, Ren, Zhang, Qin and Ren (bibliography of mechanisms/dppro.py).
Derivations: docs/proofs/distances.md.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.common.types import Reals
from adumbra.numerics.projections import ProjectionKind

__all__ = ["best_dimension", "distance_variance", "kurtosis", "projection_factor"]

_KURTOSIS = {"gaussian": 3.0, "laplace": 4.5}


def projection_factor(kind: ProjectionKind, dimension: int, width: int, columns: int) -> float:
    """`Var|zR|^2 / |z|^4`, for a change z spread evenly over all columns (never more for any other z).

    `kind` is the law of R, of `width` encoded coordinates by `dimension`; `columns` is the number of columns encoded.
    For unit rows and signs a change that sits in few columns is preserved better than this says.
    """
    if kind is ProjectionKind.ORTHOGONAL:
        return 2.0 * (width - dimension) / (dimension * (width + 2.0))
    if kind is ProjectionKind.GAUSSIAN:
        return 2.0 / dimension
    parts = columns if kind is ProjectionKind.UNIT_ROW else width
    return 2.0 / dimension * (1.0 - 1.0 / max(parts, 1))


def kurtosis(law: str, numbers: int) -> float:
    """Of the difference of two draws; for noise by length, what the squared length of `numbers` of them goes with.

    Noise by length is Gaussian with a variance drawn for each row; the numbers of a row then vary together.
    """
    if law == "l2-laplace":
        return 3.0 + (numbers + 2.0) / (numbers + 1.0)
    return _KURTOSIS[law]


def distance_variance(
    squared: Reals | float, *, factor: float, dimension: int, noise_variance: float, law: str
) -> Reals:
    """Variance of the estimate when the true squared distance is `squared`."""
    rho = np.asarray(squared, dtype=float)
    doubled = 2.0 * noise_variance
    return np.asarray(factor * rho**2 + 4.0 * doubled * rho + dimension * (kurtosis(law, dimension) - 1.0) * doubled**2)


def best_dimension(kind: ProjectionKind, squared: float, sigma: float, width: int) -> float:
    """Dimension of least variance for an expected `squared` distance (public), when `sigma` does not depend on it.

    `kind` is the law of the matrix and `width` its number of encoded coordinates, the most an orthogonal one can keep.

    >>> best_dimension(ProjectionKind.GAUSSIAN, 20.0, 0.6, 50)  # rho^2 / (2 sigma^2)
    27.77...
    """
    at = squared / (2.0 * sigma**2)
    if kind is ProjectionKind.ORTHOGONAL:
        return min(at * math.sqrt(width / (width + 2.0)), float(width))
    return at
