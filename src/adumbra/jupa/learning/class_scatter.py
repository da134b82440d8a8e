"""Sums of squares and products of public rows within and between classes (Fisher 1936).

Class means are subtracted block by block, so that a table is read a few times and never copied whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.jupa.learning.row_blocks import as_table, row_blocks, too_large

__all__ = ["FLAT", "ClassSpread", "Scatter", "class_numbers", "column_means", "scatter"]

Labels = NDArray[np.integer[Any]]

FLAT = 1e-12  # a sd beside the size of the numbers that is rounding
_LARGEST_SCATTER = 1e250  # so that weights and sums cannot overflow


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums of squares and products about the class means, and of the class means about the mean of all rows.

    Their sum is the scatter of the rows about their mean. Neither is divided by the number of rows.
    """

    within: Reals
    between: Reals


def scatter(rows: ArrayLike, labels: ArrayLike) -> Scatter:
    """Within- and between-class scatter, in float64 whatever the rows are in.

    >>> found = scatter([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    >>> round(found.within.item(), 6), round(found.between.item(), 6)
    (4.0, 100.0)
    """
    table = as_table(rows)
    spread = ClassSpread.of(table, [class_numbers(labels, len(table), "")])
    return Scatter(spread.within(0), spread.between(0))


@dataclass(frozen=True, eq=False)
class ClassSpread:
    """The scatter of all rows and, for each target, a factor of the scatter between its classes."""

    mean: Reals
    total: Reals
    means: list[Reals]  # class by column: (class mean - mean) * sqrt(rows of the class)

    @staticmethod
    def of(table: NDArray[Any], targets: Sequence[Labels]) -> ClassSpread:
        """Of the rows of a table and the class numbers of each target."""
        mean = column_means(table)
        width = len(mean)
        total = np.zeros((width, width))
        means = [np.zeros((int(target.max()) + 1, width)) for target in targets]
        start = 0
        for block in row_blocks(table):
            centred = block - mean
            with np.errstate(over="ignore", invalid="ignore"):
                total += centred.T @ centred
            for target, sums in zip(targets, means, strict=True):
                sums += _membership(target[start : start + len(block)], len(sums)) @ centred
            start += len(block)
        if not np.abs(total).max() < _LARGEST_SCATTER:
            raise too_large()
        # A column that does not vary is its mean's rounding error by now, which would count as a direction.
        flat = np.sqrt(np.diag(total) / len(table)) <= FLAT * np.abs(mean)
        total[flat] = total[:, flat] = 0.0
        for target, sums in zip(targets, means, strict=True):
            sums /= np.sqrt(np.bincount(target))[:, None]
            sums[:, flat] = 0.0
        return ClassSpread(mean, total, means)

    def between(self, index: int) -> Reals:
        """The scatter between the classes of a target."""
        return np.asarray(self.means[index].T @ self.means[index])

    def within(self, index: int) -> Reals:
        """The scatter within them."""
        return np.asarray(self.total - self.between(index))


def class_numbers(labels: ArrayLike, count: int, who: str) -> Labels:
    """The `labels` of `count` rows as numbers 0, 1, ... without gaps; `who` begins the message if they are none."""
    given = np.asarray(labels)
    if given.shape != (count,):
        raise InputError(
            f"{who}one label for each of {count} rows", f"labels of shape {given.shape}", "give one list each"
        )
    if given.dtype.kind not in "iub":
        raise InputError(f"{who}class numbers", f"labels of type {given.dtype}", "number the classes from 0")
    classes, numbers = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{who}two classes or more", "one class in all rows", "choose a target that varies")
    return numbers


def column_means(table: NDArray[Any]) -> Reals:
    """Taken twice, the second time about the first: right to the last digit for columns far from 0 too."""
    mean = np.zeros(table.shape[1])
    for _ in range(2):
        mean = mean + sum((block - mean).sum(axis=0) for block in row_blocks(table)) / len(table)
    return mean


def _membership(labels: Labels, classes: int) -> Any:
    """Class by row: 1 where the row is of the class. Sparse, so that many classes cost nothing."""
    count = len(labels)
    return scipy.sparse.csr_array((np.ones(count), (labels, np.arange(count))), shape=(classes, count))
