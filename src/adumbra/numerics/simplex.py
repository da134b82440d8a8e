"""Shares from noisy counts: Euclidean projection onto a simplex by sorting, and largest remainders; both standard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals

__all__ = ["apportion", "onto_simplex"]


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
