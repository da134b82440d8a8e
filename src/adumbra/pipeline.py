"""The one file that joins the parts: read, encode, bound, measure, publish.

Reading it is enough to check the order that the promise rests on:

1. what can be refused is refused (arguments, schema, columns, a full parse of the table, the place to write);
2. the noise is calibrated from public facts;
3. the release is run once on a small made-up table, and memory is checked: what can fail has then failed;
4. the meter charges the ledger, durably;
5. rows are read again, answered exactly and noised, batch by batch, into a temporary folder (or into memory);
6. the card is written, and the folder is renamed into place in one step.

A crash before 4 costs nothing; after 4 the charge stays, and an error is `AfterCharge`; before 6 no release folder
exists. Without a place to write nothing is: the release is then an object in memory, and `Release.save` does 6.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adumbra.accounting.accountant import costs_of, keeps
from adumbra.common.csv_forms import Csv
from adumbra.common.errors import InputError, after_charge
from adumbra.common.interrupts import asked_to_stop, checkpoint, stop_if_asked
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Progress, silent
from adumbra.declare.guarantee import Relation
from adumbra.declare.schema import Schema
from adumbra.families.contract import Chooser, Setting, check_sets, check_supported, promised_delta
from adumbra.families.synthetic import DrawnTable
from adumbra.job import Job, Plan
from adumbra.ledger.ledger import Ledger
from adumbra.privacy.charge import Charge, PlannedCharge
from adumbra.privacy.engine import Engine
from adumbra.privacy.meter import calibrated, check_countable
from adumbra.privacy.preview import NoisePreview
from adumbra.publish import CardFacts, publish
from adumbra.rehearsal import check_collaborators, open_meter
from adumbra.releases.record import ReleaseRecord
from adumbra.request import Request
from adumbra.tables.encode import check_columns
from adumbra.tables.released_rows import check_ids
from adumbra.tables.row_source import OwnerNotes
from adumbra.warm_up import warm_up

__all__ = ["Job", "OwnerNotes", "Plan", "plan", "prepare", "release"]


def prepare(request: Request, progress: Progress = silent) -> Job:
    """Check everything that can be checked before a charge; reads the table's shape, uses none of its values."""
    table, schema, mechanism, promise = request.table, request.schema, request.mechanism, request.promise
    neighbours = promise.neighbours
    if not isinstance(mechanism, Chooser):
        check_supported(mechanism, neighbours)
        promise = replace(promise, delta=promised_delta(mechanism, promise.delta))
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
    space = schema.space(request.row_bound)
    seed = request.seed or PublicSeed.fresh()
    preview = NoisePreview(space, promise, rows, seed)
    # Under add-remove the number of rows is private: nothing that is published or decided may look at it.
    public_rows = None if neighbours.relation is Relation.ADD_REMOVE else rows
    setting = Setting(space, public_rows, neighbours, seed, preview, schema.labels, schema, promise.delta == 0.0)
    choice = None
    check_sets(mechanism, space)
    if isinstance(mechanism, Chooser):
        mechanism, choice = mechanism.choose(setting)
        check_supported(mechanism, neighbours)
        check_sets(mechanism, space)
    name = _name(request.name or schema.table.name or table.name, schema)
    return Job(table, schema, mechanism, promise, setting, name, rows, choice)


def _name(name: str, schema: Schema) -> str:
    """A name and a schema the card can carry: found out before the charge, not when the card is written."""
    try:
        name.encode()
        json.dumps(schema.to_dict(), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError("names and values in UTF-8", repr(name), "pass --name; correct the schema") from None
    return name


def plan(job: Job) -> Plan:
    """What would be measured, with which noise, at which cost."""
    if isinstance(job.mechanism, DrawnTable) and _drawn_is_known(job):
        check_ids(job.schema, job.mechanism.size(job.setting)[0])
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
    if not keeps(job.promise, costs):
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
    progress: Progress = silent,
    notes: OwnerNotes | None = None,
    engine: Engine | None = None,
) -> tuple[ReleaseRecord, OwnerNotes]:
    """Charge, measure and publish.

    `job` was prepared and measures nothing yet. `out` is the folder to write; None keeps the release in memory and
    writes nothing. `ledger` is charged first; `csv` adds data.csv; `signing_key` signs the card of a folder;
    `progress(step, done, total)` is called as it goes on; `notes` is filled with what the owner may want to know;
    `engine` is where the rows are worked on, by default threads of this process.
    """
    check_collaborators(notes, engine)
    planned = plan(job)  # every refusal that needs the calibration happens here, before anything is written
    notes = OwnerNotes() if notes is None else notes
    facts = CardFacts(secrets.token_hex(8), job.name, job.mechanism, job.promise, job.setting, job.schema, job.choice)
    events = {line: calibration.event for line, calibration in planned.calibrations.items()}
    charge = Charge(PlannedCharge(job.name, facts.release_id, job.mechanism.name, job.promise, events), ledger)
    meter = open_meter(planned, charge, notes, engine)
    rows, columns = job.mechanism.size(job.setting)
    try:
        with publish(out, facts, numbers=rows * columns, csv=csv, signing_key=signing_key) as publication:
            warm_up(planned, facts, publication, engine)
            draft = job.mechanism.run(meter, job.setting)
            for done in publication.rows(draft):
                checkpoint("measured a batch")
                stop_if_asked()
                progress("releasing", done, rows if _drawn_is_known(job) else 0)
            released = publication.finish(draft, meter.done, charge.head)
        checkpoint("released")
        return released, notes
    except BaseException as error:
        if charge.charged:
            raise _explained(charge, error, out) from None
        raise


def _drawn_is_known(job: Job) -> bool:
    """Whether the number of rows to come is public before anything is measured."""
    return job.setting.rows is not None or getattr(job.mechanism, "rows", None) is not None


def _explained(charge: Charge, error: BaseException, out: Path | None) -> BaseException:
    """What to raise for a failure after the charge."""
    if asked_to_stop():  # a library may have made an error of its own of the interrupt
        error = KeyboardInterrupt()
    paid = "the charge stays" if charge.recorded else "count it as spent"
    written = out is not None and out.exists()
    return after_charge(error, paid, f"{out} is complete" if written else "no release was written")
