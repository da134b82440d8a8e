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
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from adumbra.core.checkpoint import checkpoint
from adumbra.core.errors import InputError, after_charge
from adumbra.core.events import Event
from adumbra.core.guarantee import Budget, Neighbours, Promise, Relation, Unit
from adumbra.core.interrupts import asked_to_stop, stop_if_asked
from adumbra.core.mechanism import Chooser, Door, Draft, Mechanism, Query, Setting, check_supported, promised_delta
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import ReleaseFolder
from adumbra.core.rows import PrivateRows
from adumbra.core.schema import Schema
from adumbra.core.sums import RowsAndGram
from adumbra.core.tabular import Csv
from adumbra.core.validation import positive, table_name
from adumbra.job import Job, OwnerNotes, Plan
from adumbra.privacy.ledger import Ledger
from adumbra.privacy.meter import Meter, calibrated, check_countable, preview_sd
from adumbra.publish import Facts, costs_of, publish
from adumbra.table.bound import clip_rows, kept_for_next_time, regrouped
from adumbra.table.encode import check_columns, encode
from adumbra.table.table import Table
from adumbra.warm_up import batch_rows, warm_up

__all__ = ["Job", "OwnerNotes", "Plan", "plan", "prepare", "rehearse", "release"]

Progress = Callable[[str, int, int], None]
"""`progress(step, done, total)`, called between batches."""


def _silent(step: str, done: int, total: int) -> None:
    """Say nothing."""


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
    space = schema.space(row_bound)
    seed = seed or PublicSeed.fresh()

    def preview(share: float, query: Query) -> float:
        return preview_sd(query, space, promise, share=share, rows=rows, fresh=seed.is_fresh)

    # Under add-remove the number of rows is private: nothing that is published or decided may look at it.
    public_rows = None if neighbours.relation is Relation.ADD_REMOVE else rows
    setting = Setting(space, public_rows, neighbours, seed, preview, schema.labels, schema, promise.delta == 0.0)
    choice = None
    if isinstance(mechanism, Chooser):
        mechanism, choice = mechanism.choose(setting)
        check_supported(mechanism, neighbours)
    given = None if name is None else table_name(name, "--name")
    name = _name(given or schema.table.name or table.name, schema)
    return Job(table, schema, mechanism, promise, setting, name, rows, choice)


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
            warm_up(planned, facts, publication, rehearse)
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
            try:
                if self._ledger is not None:
                    receipts = self._ledger.charge(
                        table=job.name,
                        release_id=self._release_id,
                        mechanism=job.mechanism.name,
                        promise=job.promise,
                        events=events,
                    )
                    self.head = receipts[-1].hash if receipts else None
                self.charged.update(events)
            except BaseException as error:  # it may have come after the charge was written
                self.charged.update(events)
                if self._ledger is None or not self._ledger.may_hold(self._release_id, error):
                    self.charged.clear()
                raise
            checkpoint("charged")
        if self.charged.get(line) != event:
            raise RuntimeError("a measurement differs from the one that was planned and charged")

    def explained(self, error: BaseException, target: Path) -> BaseException:
        """What to raise for a failure after the charge."""
        if asked_to_stop():  # a library may have made an error of its own of the interrupt
            error = KeyboardInterrupt()
        paid = "the charge stays" if self._ledger is not None else "count it as spent"
        return after_charge(error, paid, f"{target} is complete" if target.exists() else "no release was written")


def rehearse(job: Job, watched: Callable[[Meter], Door], times: int = 1) -> Iterator[Draft]:
    """Measure as `release` does, again and again; charge and write nothing.

    For tables that were made up, by an audit or before a charge, and for no others.
    """
    rows, lines = _private_rows(job, OwnerNotes(), 2), job.mechanism.lines(job.setting)
    for _ in range(times):
        meter = Meter(rows, job.promise, lines, lambda line, event: None)
        yield job.mechanism.run(watched(meter), job.setting)


def _private_rows(job: Job, notes: OwnerNotes, looks: int) -> PrivateRows:
    """Bind reading, encoding and clipping; nothing is read until the meter asks, once for each look."""
    names = [column.name for column in job.schema.released]
    bound = job.space.row_bound
    rows = batch_rows(job.space)

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
