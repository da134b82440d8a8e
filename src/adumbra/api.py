"""The main jobs from Python: `adumbra.release`, `adumbra.plan`, and public tables beside them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.answer.release import Release, load
from adumbra.core.cells import Cells, cell_count
from adumbra.core.centred import Centred
from adumbra.core.domain import Domain
from adumbra.core.errors import InputError
from adumbra.core.guarantee import Budget
from adumbra.core.mechanism import Chooser, Mechanism
from adumbra.core.randomness import PublicSeed
from adumbra.core.schema import Schema
from adumbra.core.signature import read_signing_key
from adumbra.core.space import GRID
from adumbra.core.sums import Gram, symmetric
from adumbra.core.tabular import Csv, csv_form
from adumbra.core.validation import at_least, one_of, said
from adumbra.linalg.spectrum import leading
from adumbra.privacy.ledger import Ledger
from adumbra.synthesis.columns import check_width, parse_label
from adumbra.synthesis.learnt import learn_dictionary, training_signals
from adumbra.synthesis.principal import even_length
from adumbra.table.columnar import give_back
from adumbra.table.encode import check_columns, encode
from adumbra.table.read import open_table

__all__ = ["plan", "project", "public_axes", "public_dictionary", "release"]

_OWNER = logging.getLogger("adumbra.owner")
_MOST_TRAINING_ROWS = 20_000
_OTHER_BINS = 16
"""Cells of a number that only serves to split a public table into parts."""


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
    csv: Csv = False,
    signing_key: str | Path | None = None,
    notes: pipeline.OwnerNotes | None = None,
) -> Release:
    """Release a table privately.

    Guarantee: what comes back is (epsilon, delta) differentially private for the budget's unit and relation;
    the card says so in words. The ledger that is given, or that the schema names, is charged before any noisy number
    exists; without either nothing is recorded.

    Edge cases: bad input raises `InputError` and spends nothing; a full budget raises `Refused` and spends nothing;
    whatever fails once the ledger is charged raises `AfterCharge`, and the charge stays.
    `table` is a pandas, polars or pyarrow frame or a path; `release.table` comes back in the same library. `out`
    writes the folder at once, otherwise `Release.save` does; `csv` adds data.csv, and "formula-safe" one whose text no
    spreadsheet takes for a formula. A `mechanism` that chooses (`Auto`) does so from public facts, before anything is
    charged; the card names the mechanism it chose and says why. `notes` is filled with exact counts of repaired cells,
    which are private; without it they go to the log `adumbra.owner`.

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
    form = csv_form(csv)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InputError("a Ledger, or none", f"a {type(ledger).__name__}", "give Ledger(path)")
    target = None if out is None else _path(out, "a folder to create, as text or path")
    key = None if signing_key is None else read_signing_key(_path(signing_key, "the path of an Ed25519 private key"))
    job = _job(table, schema, mechanism, budget, seed, row_bound, name)
    if ledger is None and job.schema.table.ledger is not None:
        ledger = Ledger(job.schema.table.ledger)
    folder, found = pipeline.release(job, target, ledger=ledger, csv=form, signing_key=key, notes=notes)
    lines = found.lines() if notes is None else []
    if lines:  # logged, not warned: a warning turned into an error would throw away a release that is paid for
        _OWNER.warning("%s: %s", found.HEADING, "; ".join(lines))
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


def public_axes(
    table: Any, schema: Schema | str | Path, components: int = 10, *, delimiter: str | None = None
) -> NDArray[np.float64]:
    """The principal axes of a PUBLIC table, one a row, as a basis for `LOP`. Never call it on the private table.

    Rows are encoded by the schema and taken about the middle of the declared ranges, as the private ones will be.

    >>> import polars as pl
    >>> schema = Schema.from_dict({"columns": {n: {"kind": "number", "low": -1, "high": 1} for n in "ab"}})
    >>> public_axes(pl.DataFrame({"a": [0.5, -0.5], "b": [0.5, -0.5]}), schema, 1).round(3).tolist()
    [[0.707, 0.707]]
    """
    declared = _declared(schema)
    space = declared.space()
    check_width(space.width)
    kept = at_least(1, "ask for at least one axis", components=components)
    if kept > space.width:
        raise InputError(f"at most {space.width} axes, one for each encoded coordinate", f"{kept}", "ask for fewer")
    query = Gram(space.width, view=Centred.about(None, 0.25 * even_length(space), space))
    totals: dict[str, NDArray[np.float64]] = {}
    for rows in _encoded(table, declared, delimiter):
        for name, part in query.answer(rows).items():
            totals[name] = totals.get(name, np.zeros(part.shape)) + part
    second = symmetric(totals["diagonal"], totals.get("upper"))
    return np.ascontiguousarray(leading(second, kept)[1].T)


def public_dictionary(
    table: Any,
    schema: Schema | str | Path,
    atoms: int = 64,
    sparsity: int = 8,
    *,
    input: str = "histogram",
    columns: Sequence[str] = (),
    bins: int | None = None,
    delimiter: str | None = None,
) -> NDArray[np.float64]:
    """Atoms learnt from a PUBLIC table, one a column, as a dictionary for `CSM` or `Sparse`. Never of the private one.

    For histograms they are learnt from the counts over `columns` of all rows and of the rows in each cell of every
    other column; for records from the encoded rows themselves (at most 20,000 of them). There are at most as many atoms
    as histograms to learn from, or as rows.

    >>> import polars as pl
    >>> schema = Schema.from_dict({"columns": {n: {"kind": "flag"} for n in "ab"}})
    >>> public_dictionary(pl.DataFrame({"a": [True] * 40, "b": [True] * 40}), schema, columns=["a"]).shape
    (2, 2)
    """
    declared = _declared(schema)
    at_least(1, "learn at least one atom", atoms=atoms)
    at_least(1, "use at least one atom a signal", sparsity=sparsity)
    one_of(("histogram", "records"), input=input)
    named = parse_label(columns, "--columns")
    if input == "records" and (named or bins is not None):
        raise InputError(
            "columns and bins with input histogram, which counts cells",
            "input records with one of them",
            "leave them out: records are encoded whole",
        )
    space = declared.space()
    if input == "records":
        signals = np.concatenate([*_encoded(table, declared, delimiter), np.empty((0, space.width))])
        signals = signals[:_MOST_TRAINING_ROWS] / GRID
    else:
        domain = Domain.of(declared, space, named, bins)
        counted = {block.column: n for block, n in zip(domain.groups.cells.blocks, domain.shape, strict=True)}
        counts = tuple(counted.get(block.column, cell_count(block, _OTHER_BINS)) for block in space.blocks)
        cells = Cells(space.blocks, counts)
        places = [next(i for i, b in enumerate(space.blocks) if b.column == name) for name in counted]
        nothing = np.empty((0, len(counts)), dtype=np.int64)
        found = np.concatenate([*(cells.of(rows) for rows in _encoded(table, declared, delimiter)), nothing])
        signals = training_signals(found, counts, places)
    usable = int(np.abs(signals).any(axis=1).sum())
    if not usable:
        raise InputError("a public table with rows to learn from", "none", "give another public table")
    learnt = min(atoms, usable)
    return learn_dictionary(signals, learnt, min(sparsity, learnt, signals.shape[1]))


def project(release: Release | str | Path, table: Any, *, delimiter: str | None = None) -> Any:
    """Rows of another table of the same columns along the released axes, exactly: nothing about them is protected.

    For analysts with rows of their own. Comes back as a frame of the library the rows came in, columns pc1, pc2, ...
    """
    axes = (release if isinstance(release, Release) else load(release)).components
    try:
        along = np.concatenate([axes.along(rows) for rows in _encoded(table, axes.schema, delimiter)])
    except InputError as error:  # its own remedy is to change the schema, which the release has settled
        remedy = "give rows with the released columns, the label among them if it was released, and no others"
        raise InputError(f"rows of the release's columns: {error.expected}", error.got, remedy) from None
    frame = pl.DataFrame({f"pc{i + 1}": along[:, i] for i in range(along.shape[1])})
    return give_back(frame, open_table(table, delimiter=delimiter).native)


def _encoded(table: Any, schema: Schema, delimiter: str | None) -> Iterator[NDArray[np.float64]]:
    opened = open_table(table, delimiter=delimiter)
    check_columns(schema, opened.columns, opened.types)
    for frame in opened.batches([column.name for column in schema.released]):
        yield encode(frame, schema).values


def _job(
    table: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    seed: PublicSeed | None,
    row_bound: float | None,
    name: str | None,
) -> pipeline.Job:
    if not isinstance(budget, Budget):
        raise InputError("a Budget", f"a {type(budget).__name__}", "give Budget(epsilon=1.0), say")
    if isinstance(mechanism, type) or not (hasattr(mechanism, "run") or hasattr(mechanism, "choose")):
        got = mechanism.__name__ if isinstance(mechanism, type) else said(mechanism)
        raise InputError("a mechanism, such as Hybrid() or DPPro()", got, "make one: adumbra.Hybrid(), say")
    if seed is not None and not isinstance(seed, PublicSeed):
        raise InputError("a PublicSeed, or none", f"a {type(seed).__name__}", "use PublicSeed.given(text)")
    declared = _declared(schema)
    return pipeline.prepare(open_table(table), declared, mechanism, budget, seed=seed, row_bound=row_bound, name=name)


def _declared(schema: Schema | str | Path) -> Schema:
    return schema if isinstance(schema, Schema) else Schema.load(_path(schema, "a Schema, or the path of its file"))


def _path(given: str | Path, expected: str) -> Path:
    if not isinstance(given, str | Path):
        raise InputError(expected, f"a {type(given).__name__}", "give text or a pathlib.Path")
    return Path(given)
