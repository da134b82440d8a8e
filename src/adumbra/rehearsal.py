"""The door to private rows, for a release that is charged and for a rehearsal on a made-up table, which is not.

The one file that makes a `PrivateRows` and a `Meter`; an architecture test holds who may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adumbra.common.errors import InputError
from adumbra.families.contract import Draft, Measurer
from adumbra.job import Job, Plan
from adumbra.privacy.charge import ChargeFn
from adumbra.privacy.engine import Engine
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.tables.row_source import OwnerNotes, RowSource

__all__ = ["check_collaborators", "open_meter", "rehearse"]


def check_collaborators(notes: object, engine: object) -> None:
    """Refuse `notes` that nothing can be written to, and an `engine` that is none: after the charge it is too late."""
    if notes is not None and not isinstance(notes, OwnerNotes):
        got = notes.__name__ if isinstance(notes, type) else f"a {type(notes).__name__}"
        raise InputError("OwnerNotes to fill, or none", f"notes = {got}", "give notes=OwnerNotes(), with its brackets")
    works = (getattr(engine, name, None) for name in ("map", "fold"))
    if engine is not None and (isinstance(engine, type) or not all(map(callable, works))):
        got = engine.__name__ if isinstance(engine, type) else f"a {type(engine).__name__}"
        raise InputError("an engine with map and fold, or none", f"engine = {got}", "make one, or leave engine out")


def open_meter(planned: Plan, charge: ChargeFn, notes: OwnerNotes, engine: Engine | None = None) -> Meter:
    """The door to the rows of a release that was `planned`; nothing is read until it is asked.

    Before it measures, it calls `charge`; `notes` is filled with what the owner may want to know; `engine` is where
    the rows are worked on.
    """
    rows = _private_rows(planned.job, notes, planned.readings)
    return Meter(rows, planned.job.promise, planned.shares, charge, engine)


def rehearse(
    job: Job, watched: Callable[[Meter], Measurer], times: int = 1, engine: Engine | None = None
) -> Iterator[Draft]:
    """Measure as `pipeline.release` does, again and again; charge and write nothing.

    For tables that were made up, by an audit or before a charge, and for no others. The mechanism of `job` measures
    through what `watched` makes of each meter, so many `times`; `engine` is where its rows are worked on.
    """
    rows, lines = _private_rows(job, OwnerNotes(), 2), job.mechanism.lines(job.setting)
    for _ in range(times):
        meter = Meter(rows, job.promise, lines, lambda line, event: None, engine)
        yield job.mechanism.run(watched(meter), job.setting)


def _private_rows(job: Job, notes: OwnerNotes, readings: int) -> PrivateRows:
    """The rows behind the wall; nothing is read until the meter asks, once for each reading."""
    source = RowSource(job.schema, job.table, job.space.row_bound, notes=notes, keep=readings > 1)
    return PrivateRows(job.space, job.count, source.partitions)
