"""What a release needs besides its table, made ready before anything is charged.

Compiled code is loaded or compiled, tables of the noise are built, threads are started, files are written: each can
fail, and none of it says anything about a row. So a release is run once on a small table made up from its schema, then
memory is looked at, and only then `pipeline.release` charges. No function here is given a private row, and what was
drawn for the made-up table is thrown away: noise has a new key at every call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from adumbra.core.errors import InputError
from adumbra.core.mechanism import Door, Draft, Query
from adumbra.core.memory import check_memory
from adumbra.core.query import RowMap
from adumbra.core.schema import Schema
from adumbra.core.space import GRID, Space
from adumbra.core.sums import RowsAndGram, Sum
from adumbra.job import Job, Plan
from adumbra.linalg.lattice_tables import GaussianTable, LaplaceTable
from adumbra.privacy.meter import Calibration, Meter, noise_threads, preview_sd
from adumbra.publish import Facts, Publication
from adumbra.synthesis.drawn import DrawnTable
from adumbra.table.made_up import MADE_UP_ROWS, cell_types, made_up_table
from adumbra.table.table import CellType

__all__ = ["batch_rows", "bytes_needed", "narrowed", "warm_up"]

Run = Callable[[Job, Callable[[Meter], Door]], Iterable[Draft]]
"""Measures a made-up table without a charge, through the door that it is given for a meter."""

_WIDTH = 128
"""Coordinates that are enough to run all code there is for a mechanism."""
_BASE_BYTES = 64 << 20
_KEPT_BYTES = 2**28
_DRAWN = 2**23
"""Numbers drawn at a time."""
_MODEL = 24
"""Matrices of the size of the largest answer that are in use at once; the most that was seen is 22 (hybrid)."""
_warm: set[int] = set()
"""Releases of which this process has run a like one."""


def warm_up(planned: Plan, facts: Facts, publication: Publication, run: Run) -> None:
    """Fail now if at all: do the same with a table made up from the schema, then see whether memory is left.

    A wide table stands for itself with a few of its columns, unless its mechanism needs them all.
    """
    job, workers = planned.job, noise_threads()
    _build_noise_tables(planned.calibrations)
    _start_threads(workers)
    types = cell_types(job.schema, job.table)
    form = (*types.values(), *publication.form)
    # a hash, so that no schema is kept for it
    like = hash((job.mechanism, job.schema, job.promise, job.space, job.setting.rows, form))
    if like not in _warm:
        few = narrowed(job.schema, job.mechanism)
        try:
            _run_made_up(_made_up(job, few, types), facts, publication, run)
            if few is not job.schema:
                publication.try_names()
        except Exception:
            if few is job.schema:
                raise
            _run_made_up(_made_up(job, job.schema, types), facts, publication, run)
        _warm.add(like)
    check_memory(bytes_needed(planned, workers), workers)


def _made_up(job: Job, schema: Schema, types: Mapping[str, CellType]) -> Job:
    """The same release of a few made-up rows, as if there were as many as there are; few rows are drawn."""
    setting, mechanism, bound = job.setting, job.mechanism, job.space.row_bound
    if schema is not job.schema:
        space = schema.space(None if bound is None else bound / GRID)

        def preview(share: float, query: Query) -> float:
            fresh = setting.seed.is_fresh
            return preview_sd(query, space, job.promise, share=share, rows=MADE_UP_ROWS, fresh=fresh)

        setting = replace(setting, space=space, schema=schema, labels=schema.labels, preview=preview)
    if isinstance(mechanism, DrawnTable):
        mechanism = replace(mechanism, rows=MADE_UP_ROWS)
    table = made_up_table(schema, types)
    return replace(job, table=table, schema=schema, mechanism=mechanism, setting=setting, count=table.count())


def _run_made_up(made: Job, facts: Facts, publication: Publication, run: Run) -> None:
    """Measure and write, and keep nothing."""
    meters: list[Meter] = []

    def watched(meter: Meter) -> Door:
        meters.append(meter)
        return _Unclaimed(meter)

    for draft in run(made, watched):
        like = replace(facts, mechanism=made.mechanism, setting=made.setting, schema=made.schema)
        publication.try_out(like, draft, meters[-1].done)


class _Unclaimed:
    """The door for a made-up table: asks the same, but leaves the freshness of the seed to the real release."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def measure(self, line: str, query: Any) -> Any:
        """Measure through the meter, as for a projection that was used before."""
        if isinstance(query, RowMap):
            query = replace(query, recipe=None)
        elif isinstance(query, RowsAndGram):
            query = replace(query, map=replace(query.map, recipe=None))
        return self._meter.measure(line, query)


def narrowed(schema: Schema, mechanism: Any) -> Schema:
    """A few columns of a wide schema: those a mechanism names, labels, one of every form, and some more in order."""
    if schema.space().width <= _WIDTH:
        return schema
    named = set(_texts(getattr(mechanism, field.name) for field in fields(mechanism)))
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


def _build_noise_tables(calibrations: Mapping[str, Calibration]) -> None:
    """The tables that numbers of the calibrated scales are drawn by; kept for the release."""
    for calibration in calibrations.values():
        law = calibration.event.noise
        for part in calibration.parts.values() if law != "l2-laplace" else ():
            (GaussianTable if law == "gaussian" else LaplaceTable).build(part.steps)


def _start_threads(count: int) -> None:
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


def batch_rows(space: Space) -> int:
    """Near 8 MB, to stay in the cache; but a look at thousands of columns pays from a thousand rows; at most 64 MB."""
    width = max(space.width, 1)
    return max(1, min(8192, max(2**20 // width, min(1024, 2**23 // width))))


def bytes_needed(planned: Plan, workers: int) -> int:
    """About how much memory a release takes at its peak, from public facts; rather more than less.

    Batches of rows on their way, rows kept for a second look, sums with the noise and the model made of them, and what
    is drawn and written at a time.
    """
    job = planned.job
    rows, width = job.setting.rows, job.space.width
    looks, answers, largest = 0, 0, 0
    for query in planned.queries.values():
        looks += 2 if isinstance(query, RowsAndGram) else 1
        sums = query.gram if isinstance(query, RowsAndGram) else query
        size = sums.size * 8 if isinstance(sums, Sum) else 0
        answers, largest = answers + size, max(largest, size)
    most = batch_rows(job.space) if rows is None else min(batch_rows(job.space), rows)
    read = (workers + 2) * most * width * 8 * 3
    kept = 0 if looks < 2 else _KEPT_BYTES if rows is None else min(rows * width * 4, _KEPT_BYTES)
    drawn, columns = job.mechanism.size(job.setting)
    written = 16 * drawn + 2 * 8 * min(drawn * columns, _DRAWN)
    return _BASE_BYTES + read + kept + answers + _MODEL * largest + written
