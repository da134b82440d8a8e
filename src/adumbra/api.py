"""The main jobs from Python: `adumbra.release`, `adumbra.plan`, and public tables beside them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.common.errors import InputError
from adumbra.common.validation import at_least, one_of
from adumbra.declare.guarantee import Budget
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID, Space
from adumbra.families.contract import Chooser, Mechanism
from adumbra.families.principal import even_length
from adumbra.models.columns import check_width, parse_label
from adumbra.models.dictionary_learning import learn_dictionary, training_signals
from adumbra.numerics.spectrum import leading
from adumbra.privacy.engine import Engine
from adumbra.queries.cells import Cells
from adumbra.queries.domain import Domain
from adumbra.queries.row_map import RowClip
from adumbra.queries.second_moment import Gram, symmetric
from adumbra.request import Request, RequestTerms, schema_of, spelled_out
from adumbra.result import Release, load
from adumbra.tables.columnar import give_back
from adumbra.tables.row_source import RowSource

__all__ = ["plan", "project", "public_axes", "public_dictionary", "release"]

_OWNER = logging.getLogger("adumbra.owner")
_MOST_TRAINING_ROWS = 20_000
_OTHER_BINS = 16
"""Cells of a number that only serves to split a public table into parts."""


@spelled_out
def release(
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    mechanism: Mechanism | Chooser | str = "auto",
    budget: Budget | float | None = None,
    *,
    notes: pipeline.OwnerNotes | None = None,
    engine: Engine | None = None,
    **terms: Unpack[RequestTerms],
) -> Release:
    """Release a table privately.

    Guarantee: what comes back is (epsilon, delta) differentially private for the budget's unit and relation;
    the card says so in words. The ledger that is given, or that the schema names, is charged before any noisy number
    exists; without either nothing is recorded.

    Edge cases: bad input raises `InputError` and spends nothing; a full budget raises `Refused` and spends nothing;
    whatever fails once the ledger is charged raises `AfterCharge`, and the charge stays. All `terms` go by name:

    * `table`: a pandas, polars or pyarrow frame, a numpy array or a path (with `delimiter` for text of another
      separator); `release.table` comes back in the same library.
    * `schema`: a `Schema`, its dictionary, or the path of its file.
    * `mechanism`: one that was made, or its name, with its `options` beside it. One that chooses ("auto") does so from
      public facts, before anything is charged; the card names the mechanism it chose and says why.
    * `budget`: a `Budget`, or epsilon as a number with `delta` (1e-6), `unit` (the schema's, else "row") and
      `relation` ("replace") beside it. It must be given.
    * `seed`: of projections and drawn rows, public: a `PublicSeed`, text or a whole number; a fresh one if left out.
      The noise has none.
    * `row_bound`: clip rows to this length, in encoded units. `ledger`: a `Ledger` or the path of its file; `name`: of
      the table in it.
    * `out`: writes the folder at once, batch by batch; without it no file is touched, and `Release.save` writes it.
      `csv` adds data.csv, and "formula-safe" one whose text no spreadsheet takes for a formula; `signing_key` is the
      path of the private key that signs the card.
    * `notes`: filled with exact counts of repaired cells, which are private; without it they go to the log
      `adumbra.owner`.
    * `engine`: where the rows are worked on, among the owner's machines (`adumbra.privacy.engine`); by default threads
      of this process.

    >>> import polars as pl
    >>> schema = {"columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
    >>> people = pl.DataFrame({"age": [34, 71, 8, 52]})
    >>> done = release(people, schema, "dppro", 1.0, unit="cell", options={"dimension": 1})
    >>> done.table.shape, done.verify()
    ((4, 1), [])
    """
    request = Request.of(table, schema, mechanism, budget, **terms)
    job = pipeline.prepare(request)
    record, found = pipeline.release(
        job,
        request.out,
        ledger=request.ledger,
        csv=request.csv,
        signing_key=request.signing_key,
        notes=notes,
        engine=engine,
    )
    lines = found.lines() if notes is None else []
    if lines:  # logged, not warned: a warning turned into an error would throw away a release that is paid for
        _OWNER.warning("%s: %s", found.HEADING, "; ".join(lines))
    return Release(record, job.table.native)


@spelled_out
def plan(
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    mechanism: Mechanism | Chooser | str = "auto",
    budget: Budget | float | None = None,
    **terms: Unpack[RequestTerms],
) -> pipeline.Plan:
    """What `release` would measure, with which noise and at which cost; reads the table's shape only.

    `table`, `schema`, `mechanism`, `budget` and the other `terms` are those of `release`, and refused like them;
    nothing is charged or written.

    >>> import polars as pl
    >>> schema = {"columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
    >>> plan(pl.DataFrame({"age": [34, 71, 8, 52]}), schema, budget=1.0).job.mechanism.name
    'hybrid'
    """
    request = Request.of(table, schema, mechanism, budget, **terms)
    planned = pipeline.plan(pipeline.prepare(request))
    if request.seed is not None:
        request.seed.claim_freshness()  # the plan shows the matrix: a release with this seed may not call it fresh
    return planned


def public_axes(
    table: Any, schema: Schema | Mapping[str, Any] | str | Path, components: int = 10, *, delimiter: str | None = None
) -> NDArray[np.float64]:
    """The principal axes of a PUBLIC table, one per row, as a basis for `LOP`. Never call it on the private table.

    Rows of `table`, a frame or a path (with the `delimiter` of its text), are encoded by `schema`, in any form that
    `release` takes, and taken about the middle of the declared ranges, as the private ones will be. `components` is the
    number of axes.

    >>> import polars as pl
    >>> schema = Schema.from_dict({"columns": {n: {"kind": "number", "low": -1, "high": 1} for n in "ab"}})
    >>> public_axes(pl.DataFrame({"a": [0.5, -0.5], "b": [0.5, -0.5]}), schema, 1).round(3).tolist()
    [[0.707, 0.707]]
    """
    declared = schema_of(schema)
    space = declared.space()
    check_width(space.width)
    kept = at_least(1, "ask for at least one axis", components=components)
    if kept > space.width:
        raise InputError(f"at most {space.width} axes, one for each encoded coordinate", f"{kept}", "ask for fewer")
    query = Gram(space.width, clip=RowClip.about(None, 0.25 * even_length(space), space))
    totals: dict[str, NDArray[np.float64]] = {}
    for rows in RowSource.open(table, declared, delimiter=delimiter).partitions():
        for name, part in query.answer(rows).items():
            totals[name] = totals.get(name, np.zeros(part.shape)) + part
    second = symmetric(totals["diagonal"], totals.get("upper"))
    return np.ascontiguousarray(leading(second, kept)[1].T)


def public_dictionary(
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    atoms: int = 64,
    sparsity: int = 8,
    *,
    input: str = "histogram",
    columns: Sequence[str] = (),
    bins: int | None = None,
    delimiter: str | None = None,
) -> NDArray[np.float64]:
    """Atoms learnt from a PUBLIC table, one per column, as a dictionary for `CSM` or `Sparse`. Not of the private one.

    * `table`: a frame or a path, with the `delimiter` of its text. `schema`: in any form that `release` takes.
    * `atoms`: how many, at most: there are no more than histograms to learn from, or rows. `sparsity`: how many should
      describe one histogram or row.
    * `input`: "histogram" learns from the counts over `columns` (all, if none are named; numbers in `bins` cells) of
      all rows and of the rows in each cell of every other column; "records" from the encoded rows themselves (at most
      20,000 of them), and takes neither.

    >>> import polars as pl
    >>> schema = Schema.from_dict({"columns": {n: {"kind": "flag"} for n in "ab"}})
    >>> public_dictionary(pl.DataFrame({"a": [True] * 40, "b": [True] * 40}), schema, columns=["a"]).shape
    (3, 2)
    """
    declared = schema_of(schema)
    at_least(1, "learn at least one atom", atoms=atoms)
    at_least(1, "use at least one atom per signal", sparsity=sparsity)
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
        signals = RowSource.open(table, declared, delimiter=delimiter).whole()[:_MOST_TRAINING_ROWS] / GRID
    else:
        source = RowSource.open(table, declared, delimiter=delimiter)
        signals = _histograms(source.partitions(), Domain.of(declared, space, named, bins), space)
    usable = int(np.abs(signals).any(axis=1).sum())
    if not usable:
        raise InputError("a public table with rows to learn from", "none", "give another public table")
    learnt = min(atoms, usable)
    return learn_dictionary(signals, learnt, min(sparsity, learnt, signals.shape[1]))


def _histograms(encoded: Iterable[NDArray[np.float64]], domain: Domain, space: Space) -> NDArray[np.float64]:
    """Counts over the domain, of all rows and of the rows in each cell of every other column."""
    counted = {column.name: axis for axis, column in enumerate(domain.columns)}
    others = Cells.even(
        [b for b in space.blocks if b.column not in counted and b.kind != "set"], _OTHER_BINS, missing=True
    )
    sizes = (*domain.shape, *others.sizes)
    own = domain.groups.cells
    found = [np.hstack([own.of(rows), others.of(rows)]) for rows in encoded]
    nothing = np.empty((0, len(sizes)), dtype=np.int64)
    return training_signals(np.concatenate([*found, nothing]), sizes, range(len(counted)))


def project(release: Release | str | Path, table: Any, *, delimiter: str | None = None) -> Any:
    """Rows of another table of the same columns along the released axes, exactly: nothing about them is protected.

    For analysts with rows of their own. `release` is one of principal axes, or its folder; `table` a frame or a path,
    with the `delimiter` of its text. Comes back as a frame of the library the rows came in, columns pc1, pc2, ...
    """
    opened = release if isinstance(release, Release) else load(release)
    axes = opened.components
    try:
        source = RowSource.open(table, axes.schema, delimiter=delimiter)
        with opened.reading():
            along = np.concatenate([axes.along(rows) for rows in source.partitions()])
    except InputError as error:  # its own remedy is to change the schema, which the release has settled
        remedy = "give rows with the released columns, the label among them if it was released, and no others"
        raise InputError(f"rows of the release's columns: {error.expected}", error.got, remedy) from None
    frame = pl.DataFrame({f"pc{i + 1}": along[:, i] for i in range(along.shape[1])})
    return give_back(frame, source.table.native)
