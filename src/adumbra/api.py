"""The main job from Python: `adumbra.release` and `adumbra.plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adumbra import pipeline
from adumbra.answer.release import Release
from adumbra.core.guarantee import Budget
from adumbra.core.mechanism import Chooser, Mechanism
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import read_signing_key
from adumbra.core.schema import Schema
from adumbra.privacy.ledger import Ledger
from adumbra.table.read import open_table

__all__ = ["plan", "release"]


def release(
    table: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    *,
    ledger: Ledger | None = None,
    out: str | Path | None = None,
    seed: PublicSeed | None = None,
    row_bound: float | None = None,
    name: str | None = None,
    csv: bool = False,
    signing_key: str | Path | None = None,
) -> Release:
    """Release a table privately.

    Guarantee: what comes back is (epsilon, delta) differentially private for the budget's unit and relation;
    the card says so in words. The ledger, if given, is charged before any noisy number exists.

    Edge cases: bad input raises `InputError` and spends nothing; a full budget raises `Refused` and spends nothing.
    `table` is a pandas, polars or pyarrow frame or a path; `release.table` comes back in the same library. `out`
    writes the folder at once, otherwise `Release.save` does. A `mechanism` that chooses (`Auto`) does so from public
    facts, before anything is charged; the card names the mechanism it chose and says why.

    >>> import polars as pl
    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 110}}})
    >>> people = pl.DataFrame({"age": [34, 71, 8, 52]})
    >>> from adumbra.mechanisms.dppro import DPPro
    >>> done = release(people, schema, DPPro(dimension=1), Budget(epsilon=1.0, unit="cell"))
    >>> done.table.shape
    (4, 1)
    >>> done.verify()
    []
    """
    job = _job(table, schema, mechanism, budget, seed, row_bound, name)
    folder, _ = pipeline.release(
        job,
        None if out is None else Path(out),
        ledger=ledger,
        csv=csv,
        signing_key=None if signing_key is None else read_signing_key(signing_key),
    )
    return Release(folder, job.table.native, temporary=out is None)


def plan(
    table: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    *,
    seed: PublicSeed | None = None,
    row_bound: float | None = None,
) -> pipeline.Plan:
    """What `release` would measure, with which noise and at which cost; reads the table's shape only."""
    planned = pipeline.plan(_job(table, schema, mechanism, budget, seed, row_bound, None))
    if seed is not None:
        seed.claim_freshness()  # the plan shows the matrix, so a release with this seed may no longer call it fresh
    return planned


def _job(
    table: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    seed: PublicSeed | None,
    row_bound: float | None,
    name: str | None,
) -> pipeline.Job:
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    return pipeline.prepare(open_table(table), declared, mechanism, budget, seed=seed, row_bound=row_bound, name=name)
