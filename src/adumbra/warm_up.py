"""What a release needs besides its table, made ready before anything is charged.

Compiled code is loaded or compiled, tables of the noise are built, threads are started, files are written: each can
fail, and none of it says anything about a row. `pipeline.release` runs the whole release once on a small made-up table
and with the parts below, and charges only then.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from adumbra.core.errors import InputError
from adumbra.core.mechanism import Query
from adumbra.core.query import RowMap
from adumbra.core.schema import Schema
from adumbra.core.sums import RowsAndGram, Sum
from adumbra.linalg.lattice_tables import GaussianTable, LaplaceTable
from adumbra.privacy.meter import Calibration, Meter

__all__ = ["Unclaimed", "build_noise_tables", "bytes_needed", "narrowed", "start_threads"]

_WIDTH = 128
"""Coordinates that are enough to run all code there is for a mechanism."""
_BASE_BYTES = 64 << 20
_KEPT_BYTES = 2**28


class Unclaimed:
    """The door for a made-up table: asks the same, but leaves the freshness of the seed to the real release."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def measure(self, line: str, query: Any) -> Any:
        """Measure through the meter, as for a projection that was used before."""
        if isinstance(query, RowMap):
            query = dataclasses.replace(query, recipe=None)
        elif isinstance(query, RowsAndGram):
            query = dataclasses.replace(query, map=dataclasses.replace(query.map, recipe=None))
        return self._meter.measure(line, query)


def narrowed(schema: Schema, mechanism: object) -> Schema:
    """A few columns of a wide schema: those a mechanism names, labels, one of every form, and some more in order."""
    if schema.space().width <= _WIDTH:
        return schema
    named = set(_texts(getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)))  # type: ignore[arg-type]
    forms: set[Any] = set()
    kept, width = [], 0
    for column in schema.released:
        form = (column.kind, column.integer, column.missing is None, column.values and column.value_type)
        if column.name in named or column.role == "label" or form not in forms or width + column.width <= _WIDTH // 2:
            kept.append(column)
            width += column.width
        forms.add(form)
    return Schema(schema.table, tuple(kept))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | list):
            yield from _texts(value)


def build_noise_tables(calibrations: Mapping[str, Calibration]) -> None:
    """The tables that numbers of the calibrated scales are drawn by; kept for the release."""
    for calibration in calibrations.values():
        law = calibration.event.noise
        for part in calibration.parts.values() if law != "l2-laplace" else ():
            (GaussianTable if law == "gaussian" else LaplaceTable).build(part.steps)


def start_threads(count: int) -> None:
    """See whether as many threads can run at once as the release will want."""
    done = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count if count > 1 else 0):
            started.append(threading.Thread(target=done.wait, daemon=True))
            started[-1].start()
    except RuntimeError:
        started.pop()
        raise InputError(
            f"{count} threads at once", "fewer", "set ADUMBRA_THREADS=1, or raise the limit; nothing was charged"
        ) from None
    finally:
        done.set()
        for thread in started:
            thread.join()


def bytes_needed(
    queries: Iterable[Query], *, width: int, rows: int | None, batch: int, published: tuple[int, int], workers: int
) -> int:
    """About how much memory a release takes at its peak, from public facts; `rows` None where they are private.

    Batches on their way, rows kept for a second look, sums with a copy for noise and a few for what is made of them.
    """
    looks, answers, largest = 0, 0, 0
    for query in queries:
        looks += 2 if isinstance(query, RowsAndGram) else 1
        sums = query.gram if isinstance(query, RowsAndGram) else query
        size = sums.size * 8 if isinstance(sums, Sum) else 0
        answers, largest = answers + size, max(largest, size)
    most = batch if rows is None else min(batch, rows)
    batches = (workers + 2) * most * width * 8 * 3
    kept = 0 if looks < 2 else _KEPT_BYTES if rows is None else min(rows * width * 4, _KEPT_BYTES)
    drawn = published[0] * 16
    return _BASE_BYTES + batches + kept + answers + 4 * largest + drawn
