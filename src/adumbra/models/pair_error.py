"""What noise on tables of two columns leaves of error, and how much dependence is lost in it.

A table is measured centred: its margins are known. Noise of standard deviation sd meets every count, and no count
comes out below 0, so what is left of it in a cell that holds few rows is about what the cell holds. Both together are
taken as one variance, sd^2 m^2 / (m^2 + 3 sd^2) for a cell that is expected to hold m rows. The 3 is measured: with it
the formula is within a factor of 1.4 of releases of five public data sets at epsilon 0.3 to 10, where the margins are
known (`benchmarks/pair_predictions.py`). Where noise drowns a pair whose columns do depend on each other, its error is
that dependence, which nobody knows beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from adumbra.common.types import Reals

__all__ = ["PairColumn", "kept_above", "predicted_pair_error", "single_error"]

_THINNED = 3.0
_COMPARED, _HALF_RANGE = 10, 4.0
"""A number is compared in 10 cells of equal width; one that is made up has 4 standard deviations to either side."""
_MEAN_SIZE = math.sqrt(2.0 / math.pi)
"""Of a normal deviate of variance 1."""


@dataclass(frozen=True, eq=False)
class PairColumn:
    """A column in tables of two: the `shares` of its cells, and how these lie in the cells that it is `compared` by.

    `compared` has a row for each cell of the comparison and says which part of each cell lies in it; None compares
    cells as they are. `error` is what the column by itself is off by, in total variation.
    """

    shares: Reals
    compared: Reals | None = None
    error: float = 0.0

    @classmethod
    def supposed(cls, cells: int, *, ordered: bool) -> PairColumn:
        """A column of so many `cells` as many are, where nothing of it is known.

        If it is `ordered`, a number in cells of equal mass, bell-shaped, compared in cells of equal width; else the
        second value is a quarter as common as the first, the third a ninth, and so on.
        """
        if not ordered or cells <= _COMPARED:
            shares = 1.0 / np.arange(1, cells + 1) ** 2
            return cls(shares / shares.sum())
        mass = np.arange(cells + 1) / cells
        ends = ndtr(np.linspace(-_HALF_RANGE, _HALF_RANGE, _COMPARED + 1))
        ends[0], ends[-1] = 0.0, 1.0
        low, high = np.maximum(ends[:-1, None], mass[None, :-1]), np.minimum(ends[1:, None], mass[None, 1:])
        return cls(np.full(cells, 1.0 / cells), np.maximum(high - low, 0.0) * cells)


def predicted_pair_error(a: PairColumn, b: PairColumn, sd: float, rows: float) -> float:
    """Total variation between the denoised table of columns `a` and `b` and the true one, on average.

    `sd` is the standard deviation of the noise on a count before its table was centred, in rows; `rows` is the number
    of rows of the table. The columns' own errors are added to it, as squares.

    >>> flag = PairColumn(np.array([0.5, 0.5]))
    >>> round(predicted_pair_error(flag, flag, 50.0, 10_000), 4)
    0.004
    """
    held = rows * np.outer(a.shares, b.shares)
    left = _left(held, sd) * (1.0 - 1.0 / len(a.shares)) * (1.0 - 1.0 / len(b.shares))
    if a.compared is not None:
        left = a.compared @ left
    if b.compared is not None:
        left = left @ b.compared.T
    noise = 0.5 * _MEAN_SIZE * float(np.sqrt(left).sum()) / rows
    return min(math.sqrt(noise**2 + a.error**2 + b.error**2), 1.0)


def _left(held: Reals, sd: float) -> Reals:
    """The variance that noise of this `sd` leaves in cells that are expected to hold so many rows."""
    return np.asarray(sd**2 * held**2 / np.maximum(held**2 + _THINNED * sd**2, 1e-300))


def single_error(column: PairColumn, sd: float, rows: float) -> float:
    """Total variation of a `column` by itself with noise of this `sd` on its counts, in rows, of so many `rows`."""
    held = column.shares if column.compared is None else column.compared @ column.shares
    left = _left(rows * held, sd) * (1.0 - 1.0 / len(held))
    return min(0.5 * _MEAN_SIZE * float(np.sqrt(left).sum()) / rows, 1.0)


def kept_above(a: PairColumn, b: PairColumn, sd: float, rows: float) -> float:
    """The dependence of columns `a` and `b`, as total variation from independence, that stands out of the noise.

    A table of noise has a largest singular value of sd (sqrt(k - 1) + sqrt(l - 1)), with k and l cells; dependence of
    one kind (a number that rises with another, a value that goes with one of another) has one of its own, and is lost
    below that. Its total variation follows from how many cells the rows are spread over. `sd` is the standard
    deviation of the noise on a count, in rows, and `rows` the number of rows.
    """
    largest = sd * sum(math.sqrt(len(column.shares) - 1) for column in (a, b))
    spread = math.prod(_evenness(column.shares) for column in (a, b))
    return min(0.5 * largest * spread / rows, 1.0)


def _evenness(shares: Reals) -> float:
    """The sum of sizes of a unit vector that is spread as rows are; two cells always move against each other alike."""
    return math.sqrt(2.0) if len(shares) == 2 else _MEAN_SIZE / math.sqrt(float((shares**2).sum()))
