"""Engines: where the partitions of private rows are worked on.

The meter hands an engine a partial (`privacy.partials`) and the partitions of the rows, and gets back exact results: in
order for what is answered row by row, folded into one total for a sum. An engine draws no noise and decides nothing;
the meter adds noise to the folded total, once. An engine from elsewhere (processes, a cluster) needs these two methods
and no change of meter or mechanisms: a partial can be pickled, and `merged` adds up what it returns.

An engine belongs to the owner's side: whatever it runs on holds private rows, or exact results of them. `map` therefore
gets two functions. `partial` may run anywhere among the owner's machines. `finish` adds the noise of the rows; it runs
in this process, where the meter keeps the sampler and its keys, so a remote engine sends exact rows back to it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from adumbra.common.types import Reals
from adumbra.numerics.integer_kernels import one_thread_each
from adumbra.privacy.partials import RowPartial, SumPartial
from adumbra.privacy.totals import Totals
from adumbra.queries.query import Whole

__all__ = ["Engine", "LocalThreads", "noise_threads"]

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
        """

    def fold(self, partial: SumPartial, partitions: Iterable[Reals]) -> Mapping[str, Whole]:
        """The sum of `partial(partition)` over all `partitions`, in any order; `partial.nothing()` if there are none.

        Whole numbers: 64-bit integers, or float64 where every number on the way stayed below 2^53.
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
        return _ahead(lambda partition: finish(partial(partition)), partitions, noise_threads())

    def fold(self, partial: SumPartial, partitions: Iterable[Reals]) -> Mapping[str, Whole]:
        """A worker adds to a total of its own, and those are added up in the end."""
        totals = Totals(partial.query, partial.space.width)
        workers = noise_threads()
        if workers > 1 and workers * totals.nbytes <= _RUNNING_BYTES:
            with one_thread_each():  # or the linear algebra would bring threads of its own for each of ours
                deque(_ahead(lambda partition: partial.add(partition, totals), partitions, workers), maxlen=0)
        else:
            deque(_ahead(lambda partition: partial.add(partition, totals), partitions, 1), maxlen=0)
        return totals.found()


def noise_threads() -> int:
    """Worker threads for answering and noise; `ADUMBRA_THREADS` overrides the number of usable cores."""
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 8))


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
