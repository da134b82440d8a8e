"""Shares from noisy counts, and a Gaussian model of each class from noisy counts, sums and a second moment.

Means are shrunk as by James and Stein (positive part), with the known variance of the noise in the place of an
estimated one; other shrinkage is the same method of moments: signal = seen - noise. Both are standard. The edge of the
noise's own spectrum is derived in docs/proofs/spectrum.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals

__all__ = [
    "apportion",
    "class_counts",
    "clear_counts",
    "onto_simplex",
    "predicted_correlation_error",
    "shrunk_to",
    "soft_spectrum",
    "stein_means",
]


# Shares from noisy counts: Euclidean projection onto a simplex by sorting, and largest remainders; both standard.


def onto_simplex(values: Reals, total: float = 1.0) -> Reals:
    """The nearest vector (for each row of a matrix) with no negative entry and this sum.

    >>> onto_simplex(np.array([0.9, 0.3, -0.4])).round(3).tolist()
    [0.8, 0.2, 0.0]
    """
    rows = np.atleast_2d(values)
    ordered = -np.sort(-rows, axis=1)
    excess = (np.cumsum(ordered, axis=1) - total) / np.arange(1, rows.shape[1] + 1)
    kept = np.maximum((ordered > excess).sum(axis=1), 1)
    out: Reals = np.maximum(rows - excess[np.arange(len(rows)), kept - 1][:, None], 0.0)
    return out.reshape(values.shape)


def apportion(shares: Reals, total: int) -> NDArray[np.int64]:
    """Whole numbers with this total, each within one of its share of it (largest remainders).

    >>> apportion(np.array([0.5, 0.3, 0.2]), 7).tolist()
    [4, 2, 1]
    """
    exact = shares / shares.sum() * total
    out: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = total - int(out.sum())
    out[np.argsort(out - exact, kind="stable")[:missing]] += 1
    return out


def class_counts(noisy: Reals, sd: float, rows: float) -> Reals:
    """Class counts that add up to `rows` and are never 0: no class vanishes because of noise.

    `noisy` has a count per class, each with noise of standard deviation `sd`, in rows.
    With more than two classes they are shrunk towards equal ones by as much as the noise explains.
    """
    classes = len(noisy)
    even = rows / classes
    spread = noisy - noisy.mean()
    if classes > 2:
        seen = float((spread**2).sum()) / (classes - 1)
        spread = spread * (max(seen - sd**2, 0.0) / max(seen, 1e-300))
    counts: Reals = np.maximum(onto_simplex(even + spread, rows), max(2.0, 0.002 * rows))
    return counts * (rows / float(counts.sum()))


def clear_counts(counts: Reals, sd: float, tests: int) -> Reals:
    """Counts that exceed what noise of this `sd` makes of nothing in so many `tests`; the others are 0."""
    clear = max(3.5, math.sqrt(2.0 * math.log(max(tests, 1))) + 1.0) * sd
    return np.where(counts > clear, counts, 0.0)


def stein_means(sums: Reals, counts: Reals, sd: float) -> tuple[Reals, Reals]:
    """The overall mean, and each class's deviation from it, shrunk by as much as the noise explains.

    `sums` (classes, columns) have noise of standard deviation `sd` on each number; `counts` are the rows per class.
    """
    centre = sums.sum(axis=0) / counts.sum()
    deviations = sums / counts[:, None] - centre
    noise = sums.shape[1] * (sd / counts) ** 2
    seen = np.maximum((deviations**2).sum(axis=1), 1e-300)
    # Even where nothing clears the noise a twentieth is kept: some direction is better than none.
    kept = np.maximum(1.0 - noise / seen, 0.05)
    return centre, deviations * kept[:, None]


def soft_spectrum(noisy: Reals, sd: float, floor: float = 1e-4) -> tuple[Reals, Reals]:
    """Eigenvectors and eigenvalues of a covariance whose entries carry symmetric noise (off the diagonal of sd `sd`).

    Eigenvalues are reduced by the edge of the noise's own spectrum, 2 sd sqrt(d), and the trace that is lost is
    spread evenly: what cannot be told from noise becomes noise of the right size.
    """
    width = len(noisy)
    values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
    trace = max(float(values.sum()), width * floor)
    kept = np.maximum(values - 2.0 * sd * np.sqrt(width), 0.0)
    rest = max(trace - float(kept.sum()), 0.0) / width
    return vectors, np.maximum(kept + rest, floor)


def shrunk_to(common: float, values: Reals, variance: float) -> Reals:
    """`values` pulled towards `common` by as much as noise of this `variance` explains their spread about it."""
    if not len(values):
        return values
    spread = max(float(((values - common) ** 2).mean()) - variance, 0.0)
    return common + (values - common) * (spread / max(spread + variance, 1e-300))


def predicted_correlation_error(seen: Reals, sd: float, model: Reals, kept: int) -> float:
    """Mean size of the error of a correlation, from released numbers alone.

    The energy of the covariance that was seen, less that of its noise, is the true one; what of it the model does not
    hold is lost. At least the noise that stays on the `kept` directions of the model. Columns count by their variance.
    """
    width = len(seen)
    if width < 2:
        return 0.0
    off = ~np.eye(width, dtype=bool)
    variances = np.diag(model)
    lost = float((seen[off] ** 2).mean()) - sd**2 - float((model[off] ** 2).mean())
    floor = sd**2 * min(1.0, 4.0 * kept / width)
    unit = float(np.outer(variances, variances)[off].mean())
    return min(float(np.sqrt(2 / np.pi * max(lost, floor) / unit)), 1.0)
