"""What a release needs besides its table, made ready before anything is charged.

Compiled code is loaded or compiled, tables of the noise are built, threads are started, files are written if there
will be any: each can fail, and none of it says anything about a row. So a release is run once on a small table made up
from its schema, then memory is checked, and only then `pipeline.release` charges. No function here is given a private
row, and what was drawn for the made-up table is thrown away: noise has a new key at every call.
"""

from __future__ import annotations

import datetime
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.memory import check_memory
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.families.contract import Measurer
from adumbra.families.synthetic import DrawnTable
from adumbra.job import Job, Plan
from adumbra.noise.lattice_tables import GaussianTable, LaplaceTable
from adumbra.numerics.integer_kernels import worker_threads
from adumbra.privacy.engine import Engine
from adumbra.privacy.meter import Calibration, Meter
from adumbra.privacy.preview import NoisePreview
from adumbra.publish import CardFacts, Publication
from adumbra.queries.query import Query
from adumbra.rehearsal import rehearse
from adumbra.tables.read import open_table
from adumbra.tables.row_source import KEPT_BYTES, partition_rows
from adumbra.tables.table import CellType, Table

__all__ = ["MADE_UP_ROWS", "bytes_needed", "cell_types", "made_up_table", "narrowed", "warm_up"]


# A small table made up from a schema: the cells it declares, in the types that the real table's columns have.
#
# It serves to run a release once before anything is charged. Nothing of the real table is in it but the types of its
# columns, which are its form and not protected.

MADE_UP_ROWS = 8
_DAY = datetime.date(2000, 1, 1)
_FRAMES: dict[CellType, tuple[Any, Callable[[Any], Any]]] = {
    "text": (pl.String, str),
    "number": (pl.Float64, float),
    "boolean": (pl.Boolean, bool),
    "time": (pl.Date, lambda _: _DAY),
    "list": (pl.List(pl.String), lambda cell: [cell]),
}


def cell_types(schema: Schema, table: Table) -> dict[str, CellType]:
    """The type of each released column's cells; columns without names are the released ones, in order."""
    types = table.types
    names = [column.name for column in schema.measured]
    found = types if all(name in types for name in names) else dict(zip(names, types.values(), strict=True))
    return {name: found[name] for name in names}


def made_up_table(schema: Schema, types: Mapping[str, CellType]) -> Table:
    """A few rows: both ends of every range, what lies between, every value in turn, and an empty cell.

    >>> schema = Schema.parse('[columns.age]\\nkind = "number"\\nlow = 0\\nhigh = 7')
    >>> made_up_table(schema, {"age": "number"}).count()
    8
    """
    columns = {}
    for place, column in enumerate(schema.measured):
        native = column.cells.spread(MADE_UP_ROWS)
        dtype, read = _FRAMES[types[column.name]]
        if types[column.name] == "time" and native.dtype.is_temporal():
            dtype, cells = native.dtype, native.to_list()
        else:
            cells = [_converted(cell, read) for cell in column.cells.store(native).to_list()]
        cells[place % MADE_UP_ROWS] = None
        columns[column.name] = pl.Series(column.name, _turned(cells, 3 * place), dtype=dtype)
    return open_table(pl.DataFrame(columns))


def _converted(cell: Any, read: Callable[[Any], Any]) -> Any:
    """A declared value as a cell of the column's type; one that has no such form is left out."""
    try:
        return read(cell)
    except (TypeError, ValueError):
        return None


def _turned(cells: list[Any], by: int) -> list[Any]:
    """Columns that do not run in step."""
    by %= len(cells)
    return cells[by:] + cells[:by]


Answer = TypeVar("Answer")
_WIDTH = 128
"""Coordinates that are enough to run all code there is for a mechanism."""
_BASE_BYTES = 64 << 20
_DRAWN = 2**23
"""Numbers drawn at a time."""
_HELD = 16
"""Bytes of a released cell that stays in memory: 8 for a number, 16 for a word."""
_MODEL = 24
"""Matrices of the size of the largest answer that are in use at once, unless a mechanism says how many (`in_use`); the
most that was seen is 22 (hybrid)."""
_warm: set[int] = set()
"""Releases of which this process has run a like one."""


def warm_up(planned: Plan, facts: CardFacts, publication: Publication, engine: Engine | None = None) -> None:
    """Fail now if at all: do the same with a table made up from the schema, then see whether memory is left.

    A wide table stands for itself with a few of its columns, unless its mechanism needs them all.

    `planned` is the release to come, `facts` those of its card, `publication` the place it goes to; `run` measures the
    made-up table without a charge.
    """
    job, workers = planned.job, worker_threads()
    needed = bytes_needed(planned, workers, held=publication.in_memory)
    check_memory(needed, workers)  # a library that runs out of it on the way may end the process without a word
    _build_noise_tables(planned.calibrations)
    _start_threads(workers)
    types = cell_types(job.schema, job.table)
    form = (*types.values(), *publication.form)
    # a hash, so that no schema is kept for it; by name too, since two mechanisms of the same fields have one hash
    like = hash((job.mechanism.name, job.mechanism, job.schema, job.promise, job.space, job.setting.rows, form))
    if engine is not None or like not in _warm:  # nobody knows what another engine needs, or whether it still works
        few = narrowed(job.schema, job.mechanism)
        try:
            _run_made_up(_made_up(job, few, types), facts, publication, engine)
            if few is not job.schema:
                publication.try_names()
        except Exception:
            if few is job.schema:
                raise
            _run_made_up(_made_up(job, job.schema, types), facts, publication, engine)
        _warm.add(like)
    check_memory(needed, workers)


def _made_up(job: Job, schema: Schema, types: Mapping[str, CellType]) -> Job:
    """The same release of a few made-up rows, as if there were as many as there are; few rows are drawn."""
    setting, mechanism, bound = job.setting, job.mechanism, job.space.row_bound
    if schema is not job.schema:
        space = schema.space(None if bound is None else bound / GRID)
        preview = NoisePreview(space, job.promise, MADE_UP_ROWS, setting.seed)
        setting = replace(setting, space=space, schema=schema, labels=schema.labels, preview=preview)
    if isinstance(mechanism, DrawnTable):
        mechanism = replace(mechanism, rows=MADE_UP_ROWS)
    table = made_up_table(schema, types)
    return replace(job, table=table, schema=schema, mechanism=mechanism, setting=setting, count=table.count())


def _run_made_up(made: Job, facts: CardFacts, publication: Publication, engine: Engine | None) -> None:
    """Measure and write, and keep nothing."""
    meters: list[Meter] = []

    def watched(meter: Meter) -> Measurer:
        meters.append(meter)
        return _UnclaimedMeter(meter)

    for draft in rehearse(made, watched, engine=engine):
        like = replace(facts, mechanism=made.mechanism, setting=made.setting, schema=made.schema)
        publication.try_out(like, draft, meters[-1].done)
        if engine is not None:  # whether it answered every row once is known after the last
            deque(draft.batches, maxlen=0)


class _UnclaimedMeter:
    """The door for a made-up table: asks the same, but leaves the freshness of the seed to the real release."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def measure(self, line: str, query: Query[Answer]) -> Answer:
        """Measure `query` on a `line` through the meter, as for a projection that was used before."""
        return self._meter.measure(line, query.without_recipe())


def narrowed(schema: Schema, mechanism: Any) -> Schema:
    """A few columns of a wide schema: those a mechanism or a rule names, labels, one of every form, and some more."""
    if schema.space().width <= _WIDTH:
        return schema
    in_rules = schema.rules.needs()
    named = in_rules | set(_texts(getattr(mechanism, field.name) for field in fields(mechanism)))
    forms: set[Any] = set()
    kept, width = [], 0
    for column in schema.measured:
        steps = (column.integer, column.step, column.decimals, column.scale)
        form = (column.kind, steps, column.missing is None, column.values and column.value_type)
        if column.name in named or column.role == "label" or form not in forms or width + column.width <= _WIDTH // 2:
            kept.append(column.name)
            width += column.width
        forms.add(form)
    return Schema(schema.table, tuple(c for c in schema.columns if c.name in in_rules.union(kept)), schema.rules)


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


def bytes_needed(planned: Plan, workers: int, *, held: bool = False) -> int:
    """About how much memory the release that was `planned` takes at its peak, from public facts; rather more than less.

    Batches of rows on their way (`workers` at a time), rows kept for a second reading, sums with the noise and the
    model made of them, and what is drawn and written at a time; all released rows where they are `held` in memory.
    """
    job = planned.job
    rows, width = job.setting.rows, job.space.width
    answers, largest = 0, 0
    for query in planned.queries.values():
        size = query.held * 8
        answers, largest = answers + size, max(largest, size)
    most = partition_rows(width) if rows is None else min(partition_rows(width), rows)
    read = (workers + 2) * most * width * 8 * 3
    kept = 0 if planned.readings < 2 else KEPT_BYTES if rows is None else min(rows * width * 4, KEPT_BYTES)
    drawn, columns = job.mechanism.size(job.setting)
    written = 16 * drawn + 2 * 8 * min(drawn * columns, _DRAWN) + (_HELD * drawn * columns if held else 0)
    model = int(getattr(job.mechanism, "in_use", _MODEL)) * largest
    return _BASE_BYTES + read + kept + answers + model + written
