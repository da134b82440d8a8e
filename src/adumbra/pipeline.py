"""The one file that joins the parts: read, encode, bound, measure, publish.

Reading it is enough to check the order that the promise rests on:

1. what can be refused is refused (arguments, schema, columns, a full parse of the table, the place to write);
2. the noise is calibrated from public facts;
3. the release is run once on a small made-up table, and memory is looked at: what can fail has then failed;
4. the meter charges the ledger, durably;
5. rows are read again, answered exactly and noised, batch by batch, into a temporary folder;
6. the card is written, and the folder is renamed into place in one step.

A crash before 4 costs nothing; after 4 the charge stays, and an error is `AfterCharge`; before 6 no release folder
exists.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from adumbra.core.checkpoint import checkpoint
from adumbra.core.errors import PAID, AdumbraError, AfterCharge, InputError
from adumbra.core.events import Event
from adumbra.core.guarantee import Budget, Neighbours, Promise, Relation, Unit
from adumbra.core.interrupts import asked_to_stop, stop_if_asked
from adumbra.core.mechanism import Chooser, Door, Draft, Mechanism, Query, Setting, check_supported, promised_delta
from adumbra.core.memory import check_memory
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import ReleaseFolder
from adumbra.core.rows import PrivateRows
from adumbra.core.schema import Schema
from adumbra.core.space import GRID, Space
from adumbra.core.sums import RowsAndGram
from adumbra.core.tabular import Csv
from adumbra.core.validation import positive, table_name
from adumbra.privacy.ledger import Ledger
from adumbra.privacy.meter import Calibration, Meter, calibrated, check_countable, noise_threads, preview_sd
from adumbra.publish import Facts, Publication, costs_of, publish
from adumbra.synthesis.drawn import DrawnTable
from adumbra.table.bound import clip_rows, kept_for_next_time, regrouped
from adumbra.table.encode import Repairs, check_columns, encode
from adumbra.table.made_up import MADE_UP_ROWS, cell_types, made_up_table
from adumbra.table.table import CellType, Table
from adumbra.warm_up import Unclaimed, build_noise_tables, bytes_needed, narrowed, start_threads

__all__ = ["Job", "OwnerNotes", "Plan", "plan", "prepare", "rehearse", "release"]

Progress = Callable[[str, int, int], None]
"""`progress(step, done, total)`, called between batches."""


def _silent(step: str, done: int, total: int) -> None:
    """Say nothing."""


@dataclass
class OwnerNotes:
    """What the owner may want to know about the table. Private: never part of a release.

    `repairs` counts, for each released column, cells that were missing, unknown or out of range; `clipped_rows` counts
    rows that were longer than the row bound.
    """

    HEADING: ClassVar[str] = (
        "for the owner only (private, not in the release): cells that went to a fallback or were clipped"
    )

    repairs: dict[str, Repairs] = field(default_factory=dict)
    clipped_rows: int = 0

    def add(self, repairs: Mapping[str, Repairs]) -> None:
        """Count one batch."""
        for column, found in repairs.items():
            self.repairs[column] = self.repairs[column] + found if column in self.repairs else found

    def lines(self, most: int = 20) -> list[str]:
        """One line for each column with repaired cells, at most so many, and one for clipped rows; none if none."""
        changed = {column: r for column, r in self.repairs.items() if r.missing or r.unknown or r.clipped}
        found = [
            f"{column}: {r.missing} missing, {r.unknown} unknown, {r.clipped} out of range"
            for column, r in list(changed.items())[:most]
        ]
        found += [f"and {len(changed) - most} more columns"] * (len(changed) > most)
        return found + [f"rows clipped to the row bound: {self.clipped_rows}"] * bool(self.clipped_rows)


@dataclass(frozen=True, eq=False)
class Job:
    """A release that has passed every check and measured nothing. It holds the private table: the owner's own."""

    table: Table = field(repr=False)
    schema: Schema
    mechanism: Mechanism
    promise: Promise
    setting: Setting
    name: str
    count: int = field(repr=False)
    """Rows of the table: private under add-remove, and used only to check that the table did not change."""
    choice: str | None = None
    """Why this mechanism, where it was chosen by rule."""

    @property
    def space(self) -> Space:
        """The encoded rows' public shape."""
        return self.setting.space


@dataclass(frozen=True)
class Plan:
    """What a release would do, from shape and schema alone. It holds the private table: the owner's own."""

    job: Job
    queries: Mapping[str, Query]
    shares: Mapping[str, float]
    calibrations: Mapping[str, Calibration]
    costs: Mapping[str, float | None]


def prepare(
    table: Table,
    schema: Schema,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    *,
    seed: PublicSeed | None = None,
    row_bound: float | None = None,
    name: str | None = None,
    progress: Progress = _silent,
) -> Job:
    """Check everything that can be checked before a charge; reads the table's shape, uses none of its values."""
    neighbours = Neighbours(budget.unit or schema.table.unit or Unit.ROW, budget.relation or Relation.REPLACE)
    promise = Promise(budget.epsilon, budget.delta, neighbours)
    if row_bound is not None:
        positive("give a positive row bound in encoded units, for example 1.0", row_bound=row_bound)
    if not isinstance(mechanism, Chooser):
        check_supported(mechanism, neighbours)
        promise = Promise(budget.epsilon, promised_delta(mechanism, budget.delta), neighbours)
    check_columns(schema, table.columns, table.types)
    progress("checking the table", 0, 0)
    rows = table.count()
    if schema.table.rows is not None and neighbours.relation is Relation.ADD_REMOVE:
        raise InputError(
            "no [table] rows in the schema under add-remove, where the number of rows is private",
            f"rows = {schema.table.rows}",
            "delete that line, or use --relation replace",
        )
    if schema.table.rows is not None and schema.table.rows != rows:
        raise InputError(
            f"{schema.table.rows} rows, as the schema declares",
            f"{rows} rows",
            "correct [table] rows in the schema, or leave it out",
        )
    setting = _setting(schema, schema.space(row_bound), promise, seed or PublicSeed.fresh(), rows)
    choice = None
    if isinstance(mechanism, Chooser):
        mechanism, choice = mechanism.choose(setting)
        check_supported(mechanism, neighbours)
    given = None if name is None else table_name(name, "--name")
    name = _name(given or schema.table.name or table.name, schema)
    return Job(table, schema, mechanism, promise, setting, name, rows, choice)


def _setting(schema: Schema, space: Space, promise: Promise, seed: PublicSeed, rows: int) -> Setting:
    """The public facts; `rows` counts the table's."""

    def preview(share: float, query: Query) -> float:
        return preview_sd(query, space, promise, share=share, rows=rows, fresh=seed.is_fresh)

    # Under add-remove the number of rows is private: nothing that is published or decided may look at it.
    public_rows = None if promise.neighbours.relation is Relation.ADD_REMOVE else rows
    return Setting(space, public_rows, promise.neighbours, seed, preview, schema.labels, schema, promise.delta == 0.0)


def _name(name: str, schema: Schema) -> str:
    """A name and a schema the card can carry: found out before the charge, not when the card is written."""
    try:
        name.encode()
        json.dumps(schema.to_dict(), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError("names and values in UTF-8", repr(name), "pass --name; mend the schema") from None
    return name


def plan(job: Job) -> Plan:
    """What would be measured, with which noise, at which cost."""
    queries = job.mechanism.queries(job.setting)
    shares = job.mechanism.lines(job.setting)
    fresh = job.setting.seed.is_fresh
    calibrations = {
        line: calibrated(query, job.space, job.promise, share=shares[line], rows=job.count, fresh=fresh)
        for line, query in queries.items()
    }
    for query in queries.values():
        check_countable(query, job.count)
    costs = costs_of([c.event for c in calibrations.values()], job.promise.delta)
    stated = costs[str(job.promise.neighbours)]
    if stated is None or stated > job.promise.epsilon * (1 + 1e-6):
        raise InputError(
            "an epsilon and a delta that can be kept to the last digit",
            f"epsilon = {job.promise.epsilon:g}, delta = {job.promise.delta:g}",
            "give a larger epsilon or delta",
        )
    return Plan(job, queries, shares, calibrations, costs)


def release(
    job: Job,
    out: Path | None,
    *,
    ledger: Ledger | None = None,
    csv: Csv = False,
    signing_key: Ed25519PrivateKey | None = None,
    progress: Progress = _silent,
    notes: OwnerNotes | None = None,
) -> tuple[ReleaseFolder, OwnerNotes]:
    """Charge, measure and publish. `out` None keeps the folder in a temporary place (the caller's to remove)."""
    planned = plan(job)  # every refusal that needs the calibration happens here, before anything is written
    target = Path(tempfile.mkdtemp(prefix="adumbra-")) / "release" if out is None else Path(out)
    notes = OwnerNotes() if notes is None else notes
    facts = Facts(secrets.token_hex(8), job.name, job.mechanism, job.promise, job.setting, job.schema, job.choice)
    till = _Till(planned, ledger, facts.release_id)
    looks = sum(2 if isinstance(query, RowsAndGram) else 1 for query in planned.queries.values())
    meter = Meter(_private_rows(job, notes, looks), job.promise, planned.shares, till)
    rows, columns = job.mechanism.size(job.setting)
    try:
        with publish(target, facts, numbers=rows * columns, csv=csv, signing_key=signing_key) as publication:
            _warm_up(planned, facts, publication)
            draft = job.mechanism.run(meter, job.setting)
            for done in publication.rows(draft):
                checkpoint("measured a batch")
                stop_if_asked()
                progress("releasing", done, rows)
            publication.finish(draft, meter.done, till.head)
        checkpoint("released")
        return ReleaseFolder.open(target), notes
    except BaseException as error:
        if out is None:
            shutil.rmtree(target.parent, ignore_errors=True)
        if till.charged:
            raise till.explained(error, target) from None
        raise


class _Till:
    """Charges all lines together with the first: a cap cannot refuse the second look after the first was paid."""

    def __init__(self, planned: Plan, ledger: Ledger | None, release_id: str) -> None:
        self._planned, self._ledger, self._release_id = planned, ledger, release_id
        self.charged: dict[str, Event] = {}
        self.head: str | None = None
        """Hash of the ledger after the charge."""

    def __call__(self, line: str, event: Event) -> None:
        if not self.charged:
            events = {name: c.event for name, c in self._planned.calibrations.items()} | {line: event}
            job = self._planned.job
            stop_if_asked()
            if self._ledger is not None:
                receipts = self._ledger.charge(
                    table=job.name,
                    release_id=self._release_id,
                    mechanism=job.mechanism.name,
                    promise=job.promise,
                    events=events,
                )
                self.head = receipts[-1].hash
            self.charged.update(events)
            checkpoint("charged")
        if self.charged.get(line) != event:
            raise RuntimeError("a measurement differs from the one that was planned and charged")

    def explained(self, error: BaseException, target: Path) -> BaseException:
        """What to raise for a failure after the charge; a defect stays what it is, with a note that says so."""
        paid = "the charge stays" if self._ledger is not None else "count it as spent"
        state = f"{target} is complete" if target.exists() else "no release was written"
        if asked_to_stop():  # a library may have made an error of its own of the interrupt
            return KeyboardInterrupt()
        if isinstance(error, AdumbraError):
            return AfterCharge(error.expected, error.got, f"{paid}, and {state}; {error.remedy}")
        if isinstance(error, OSError | MemoryError):  # its text is left out: a library may have put a cell there
            reason = getattr(error, "strerror", None) or type(error).__name__
            return AfterCharge("to finish the release", reason, f"{paid}, and {state}")
        error.add_note(f"{PAID}{paid}, and {state}")
        return error


_warm: set[int] = set()
"""Releases of which this process has run a like one."""


def _warm_up(planned: Plan, facts: Facts, publication: Publication) -> None:
    """Fail now if at all: run the same on a table made up from the schema, then see whether memory is left.

    A wide table stands for itself with a few of its columns, unless its mechanism needs them all.
    """
    job, workers = planned.job, noise_threads()
    build_noise_tables(planned.calibrations)
    start_threads(workers)
    types = cell_types(job.schema, job.table)
    # a hash, so that no schema is kept for it
    like = hash(
        (job.mechanism, job.schema, job.promise, job.space, job.setting.rows, *types.values(), publication.form)
    )
    if like not in _warm:
        few = narrowed(job.schema, job.mechanism)
        try:
            _run_made_up(job, few, types, facts, publication)
        except Exception:
            if few is job.schema:
                raise
            _run_made_up(job, job.schema, types, facts, publication)
        _warm.add(like)
    needed = bytes_needed(
        planned.queries.values(),
        width=job.space.width,
        rows=job.setting.rows,
        batch=_batch_rows(job.space),
        published=job.mechanism.size(job.setting),
        workers=workers,
    )
    check_memory(needed, workers)


def _run_made_up(
    job: Job, schema: Schema, types: Mapping[str, CellType], facts: Facts, publication: Publication
) -> None:
    """Measure and write a made-up table of this schema, without a charge; nothing of it is kept."""
    setting, mechanism, bound = job.setting, job.mechanism, job.space.row_bound
    if schema is not job.schema:
        space = schema.space(None if bound is None else bound / GRID)
        setting = replace(_setting(schema, space, job.promise, setting.seed, job.count), rows=setting.rows)
    if isinstance(mechanism, DrawnTable):
        mechanism = replace(mechanism, rows=MADE_UP_ROWS)
    table = made_up_table(schema, types)
    made = replace(job, table=table, schema=schema, mechanism=mechanism, setting=setting, count=table.count())
    meters: list[Meter] = []

    def watched(meter: Meter) -> Door:
        meters.append(meter)
        return Unclaimed(meter)

    for draft in rehearse(made, watched):
        publication.try_out(replace(facts, mechanism=mechanism, setting=setting, schema=schema), draft, meters[-1].done)


def rehearse(job: Job, watched: Callable[[Meter], Door], times: int = 1) -> Iterator[Draft]:
    """Measure as `release` does, again and again; charge and write nothing.

    For tables that were made up, by an audit or before a charge, and for no others.
    """
    rows, lines = _private_rows(job, OwnerNotes(), 2), job.mechanism.lines(job.setting)
    for _ in range(times):
        meter = Meter(rows, job.promise, lines, lambda line, event: None)
        yield job.mechanism.run(watched(meter), job.setting)


def _batch_rows(space: Space) -> int:
    """Near 8 MB, to stay in the cache; but a look at thousands of columns pays from a thousand rows; at most 64 MB."""
    width = max(space.width, 1)
    return max(1, min(8192, max(2**20 // width, min(1024, 2**23 // width))))


def _private_rows(job: Job, notes: OwnerNotes, looks: int) -> PrivateRows:
    """Bind reading, encoding and clipping; nothing is read until the meter asks, once for each look."""
    names = [column.name for column in job.schema.released]
    bound = job.space.row_bound
    rows = _batch_rows(job.space)

    def encoded_batches() -> Iterator[NDArray[np.float64]]:
        found = OwnerNotes()
        for cells in job.table.blocks(names, rows):
            stop_if_asked()
            encoded = encode(cells, job.schema)
            found.add(encoded.repaired if found.repairs else encoded.repairs)
            if bound is None:
                yield encoded.values
            else:
                clipped, count = clip_rows(encoded.values, bound)
                found.clipped_rows += count
                yield clipped
        notes.repairs, notes.clipped_rows = found.repairs, found.clipped_rows  # each look finds the same

    # Where the reader's batches end depends on the private text; what leaves must not.
    def batches() -> Iterator[NDArray[np.float64]]:
        return regrouped(encoded_batches(), rows)

    return PrivateRows(job.space, job.count, kept_for_next_time(batches) if looks > 1 else batches)
