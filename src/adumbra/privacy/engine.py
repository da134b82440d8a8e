"""Engines: where the partitions of private rows are worked on.

The meter hands an engine a partial (`RowPartial`, `SumPartial`) and the partitions of the rows, and gets back exact
results: in order for what is answered row by row, folded into one total for a sum. An engine draws no noise and decides
nothing; the meter adds noise to the folded total, once. An engine from elsewhere (processes, a cluster) needs these two
methods and no change of meter or mechanisms: a partial can be pickled, and `merged` adds up what it returns.

An engine belongs to the owner's side: whatever it runs on holds private rows, or exact results of them. `map` therefore
gets two functions. `partial` may run anywhere among the owner's machines. `finish` adds the noise of the rows; it runs
in this process, where the meter keeps the sampler and its keys, so a remote engine sends exact rows back to it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import AdumbraError, InputError
from adumbra.common.types import Integers, Reals
from adumbra.declare.space import EXACT, GRID, Space
from adumbra.numerics.integer_kernels import OFF_GRID, OUTSIDE, crowded, fault, one_thread_each, worker_threads
from adumbra.queries.query import Whole
from adumbra.queries.row_map import RowMap
from adumbra.queries.sums import Sum

__all__ = [
    "FOLDED",
    "BoundBroken",
    "Engine",
    "LocalThreads",
    "RowPartial",
    "SumPartial",
    "Totals",
    "at_work",
    "check_bounded",
    "merged",
]

FOLDED = "rows folded"
"""In every partial result of a sum: how many rows are in it. A row that is folded twice would count twice."""


# Exact totals over any number of rows, added up by several workers.
#
# Float64 adds whole numbers without error as long as no sum can reach 2^53, and adds them fastest. So every worker has
# a total of its own in float64, for at most so many rows that this is certain whatever the rows hold (`Sum.exact_rows`,
# from public facts). A total that is full is emptied into one of 64-bit integers, which all workers share. A table that
# no worker's total can overflow, nor all of them together, never needs it.


class _Running:
    """A worker's total: float64, how many rows are in it, and how many it was ever given."""

    def __init__(self, numbers: dict[str, Reals]) -> None:
        self.numbers = numbers
        self.rows = self.given = 0


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
        partial.given += len(batch)
        self._idle.append(partial)

    def result(self) -> dict[str, Whole]:
        """The sum over all rows and, as `FOLDED`, how many they were. Once, when all is added."""
        rows = sum(partial.given for partial in self._partials)
        return {**self.found(), FOLDED: np.array(rows, dtype=np.int64)}

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


# What is worked out of one partition of the rows, wherever an engine does it: small, frozen and picklable.
#
# A partial result is exact and private: it has met no noise. So an engine may move it only between places that may hold
# the rows themselves, and hands it back to the meter and to nobody else.


@dataclass(frozen=True, eq=False)
class RowPartial:
    """The exact answers of a row map for the rows of a partition, in whole steps."""

    query: RowMap
    space: Space

    def __call__(self, partition: Reals) -> Reals:
        """One row of whole numbers, as float64, for each row of the partition, in order."""
        check_bounded(partition, self.space)
        return self.query.mapped(partition)


@dataclass(frozen=True, eq=False)
class SumPartial:
    """What the rows of a partition add to a sum."""

    query: Sum
    space: Space

    def __call__(self, partition: Reals) -> dict[str, Integers]:
        """In 64-bit integers, which add up to the total in any order and any grouping (`merged`)."""
        totals = Totals(self.query, self.space.width)
        self.add(partition, totals)
        return {name: value.astype(np.int64) for name, value in totals.result().items()}

    def add(self, partition: Reals, totals: Totals) -> None:
        """Add it to `totals` of this process, without an array of its own for each partition."""
        check_bounded(partition, self.space)
        totals.add(partition)

    def nothing(self) -> dict[str, Integers]:
        """What no rows add."""
        return self(np.zeros((0, self.space.width)))


def merged(one: Mapping[str, Whole], other: Mapping[str, Whole]) -> dict[str, Integers]:
    """The sum of two partial results, in 64-bit integers: exact, as the meter refuses tables that could overflow."""
    if {name: value.shape for name, value in one.items()} != {name: value.shape for name, value in other.items()}:
        raise RuntimeError("partial results of two different queries")
    return {name: value.astype(np.int64) + other[name].astype(np.int64) for name, value in one.items()}


class BoundBroken(RuntimeError):
    """Rows at the door break the bound that the noise was calibrated to: a defect of adumbra, not of an engine."""


def check_bounded(batch: Reals, space: Space) -> None:
    """Refuse to answer on rows that break the bound the noise was calibrated to (a defect, not a user's error)."""
    if batch.shape[1] != space.width or batch.dtype != np.float64:
        raise BoundBroken("rows at the door are not on the grid of their space")
    # squares of grid steps, below 2^32 each: exact in float64 up to two million coordinates
    if space.row_bound is not None and space.width * float(GRID) ** 2 >= EXACT:
        raise BoundBroken("too many coordinates to check the row bound exactly")
    rows = np.ascontiguousarray(batch)
    placed = space.by_place  # a category, or a set: 0 or some steps in each coordinate, and few of them
    high = np.repeat(space.steps, space.widths)
    low = np.where(np.repeat(placed, space.widths), 0.0, -high)
    found = fault(rows, low, high, np.inf if space.row_bound is None else float(space.row_bound) ** 2)
    if found == OFF_GRID:
        raise BoundBroken("rows at the door are not on the grid of their space")
    starts = space.starts[placed]
    stops, most = starts + space.widths[placed], space.filled[placed]
    if found == OUTSIDE or (len(starts) and crowded(rows, starts, stops, most)):
        raise BoundBroken("rows at the door exceed the declared range of a column")
    if found:
        raise BoundBroken("rows at the door exceed the row bound")


Result = TypeVar("Result")

_RUNNING_BYTES = 2**29
"""Each worker adds up a total of its own, as long as all of them together are no larger."""


class Engine(Protocol):
    """Maps a partial over partitions."""

    def map(
        self, partial: RowPartial, finish: Callable[[Reals], Result], partitions: Iterable[Reals]
    ) -> Iterator[Result]:
        """`finish(partial(partition))` for each of the `partitions`, in their order; all of them are read.

        `partial` may be pickled and sent away; `finish` may not, and runs in this process, once for each partition.
        What it returns is handed on as it is: the meter takes nothing else, and takes it once.
        """

    def fold(self, partial: SumPartial, partitions: Iterable[Reals]) -> Mapping[str, Whole]:
        """The sum of `partial(partition)` over all `partitions`, in any order; `partial.nothing()` if there are none.

        Whole numbers: 64-bit integers, or float64 where every number on the way stayed below 2^53. Each row counts
        once: a partition that is worked on again, after a worker was lost, takes the place of the first result.
        """


class LocalThreads:
    """Threads of this process, a few partitions ahead; `ADUMBRA_THREADS` overrides the number of usable cores."""

    def map(
        self, partial: RowPartial, finish: Callable[[Reals], Result], partitions: Iterable[Reals]
    ) -> Iterator[Result]:
        """`finish(partial(partition))` for each of the `partitions`, in order.

        Both `partial` and `finish` run on worker threads: drawing noise takes longer than the products, and needs no
        lock.
        """
        return _ahead(lambda partition: finish(partial(partition)), partitions, worker_threads())

    def fold(self, partial: SumPartial, partitions: Iterable[Reals]) -> Mapping[str, Whole]:
        """A worker adds to a total of its own, and those are added up in the end."""
        totals = Totals(partial.query, partial.space.width)
        workers = worker_threads()
        if workers > 1 and workers * totals.nbytes <= _RUNNING_BYTES:
            with one_thread_each():  # or the linear algebra would bring threads of its own for each of ours
                deque(_ahead(lambda partition: partial.add(partition, totals), partitions, workers), maxlen=0)
        else:
            deque(_ahead(lambda partition: partial.add(partition, totals), partitions, 1), maxlen=0)
        return totals.result()


@contextlib.contextmanager
def at_work(engine: Engine) -> Iterator[None]:
    """What fails in an engine from elsewhere is no defect of adumbra. Its text is left out: it may quote a cell."""
    try:
        yield
    except (AdumbraError, BoundBroken, OSError, MemoryError):
        raise
    except Exception as error:
        if type(engine) is LocalThreads:
            raise
        name = type(engine).__name__
        raise InputError(
            f"an engine that works on every row once ({name})", type(error).__name__, "mend the engine"
        ) from error


def _ahead(task: Callable[[Reals], Result], partitions: Iterable[Reals], workers: int) -> Iterator[Result]:
    """Results in order, a few partitions ahead of whoever reads them."""
    if workers == 1:  # starting a thread takes longer than a small table does
        yield from map(task, partitions)
        return
    with ThreadPoolExecutor(workers) as pool:
        ahead: deque[Future[Result]] = deque()
        for partition in partitions:
            ahead.append(pool.submit(task, partition))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
