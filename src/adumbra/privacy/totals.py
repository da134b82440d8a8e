"""Exact totals over any number of rows, added up by several workers.

Float64 adds whole numbers without error as long as no sum can reach 2^53, and adds them fastest. So every worker has a
total of its own in float64, for at most so many rows that this is certain whatever the rows hold (`Sum.exact_rows`,
from public facts). A total that is full is emptied into one of 64-bit integers, which all workers share. A table that
no worker's total can overflow, nor all of them together, never needs it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.queries.query import Whole
from adumbra.queries.sums import Sum

__all__ = ["Totals"]


class _Running:
    """A worker's total: float64, and how many rows are in it."""

    def __init__(self, numbers: dict[str, Reals]) -> None:
        self.numbers = numbers
        self.rows = 0


class Totals:
    """The partial sums of all rows that were added, by any number of threads."""

    def __init__(self, query: Sum, width: int) -> None:
        self._query = query
        self._most = query.exact_rows
        self._nothing = np.zeros((0, width))
        self._partials = [_Running(query.partial(self._nothing))]
        self._idle = deque(self._partials)
        self._whole: dict[str, NDArray[np.int64]] = {}
        self._one_at_a_time = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of one worker's total."""
        return sum(value.nbytes for value in self._partials[0].numbers.values())

    def add(self, batch: Reals) -> None:
        """Add a batch to a total that no other thread is adding to."""
        try:
            partial = self._idle.pop()
        except IndexError:
            partial = _Running(self._query.partial(self._nothing))
            self._partials.append(partial)
        for piece in _pieces(batch, self._most):
            if partial.rows + len(piece) > self._most:
                self._empty(partial)
            self._query.add_partial(piece, partial.numbers)
            partial.rows += len(piece)
        self._idle.append(partial)

    def found(self) -> Mapping[str, Whole]:
        """The sum over all rows: in float64 where that is exact, else in integers. Once, when all is added."""
        first, *others = self._partials
        if not self._whole and sum(partial.rows for partial in self._partials) <= self._most:
            while others:
                _add(first.numbers, others.pop().numbers)
            return first.numbers
        while self._partials:
            self._empty(self._partials.pop())
        return self._whole

    def _empty(self, partial: _Running) -> None:
        """Move what a worker has into the integers. Each number is whole and below 2^53, so the cast is exact."""
        with self._one_at_a_time:
            for name, value in partial.numbers.items():
                if name in self._whole:
                    self._whole[name] += value.astype(np.int64)
                else:
                    self._whole[name] = value.astype(np.int64)
        for value in partial.numbers.values():
            value[...] = 0.0
        partial.rows = 0


def _pieces(batch: Reals, most: int) -> Iterator[Reals]:
    """A batch in pieces of a few megabytes: what is worked out on the way then stays in the cache.

    Not below 1024 rows, where adding to a second moment of thousands of columns would take longer than the products;
    unless so many rows would not add up exactly.
    """
    size = max(1024, 2**19 // max(batch.shape[1], 1))
    count = max(1, len(batch) // size, -(-len(batch) // most))
    return iter(np.array_split(batch, count))


def _add(total: dict[str, Reals], found: dict[str, Reals]) -> None:
    for name, value in found.items():
        total[name] += value
