"""The owner's utility report: a release beside the table it was made from.

It reads the truth without noise, so every number in it is private. It is for the owner alone, it is no part of the
release, and nothing is ever written into the release folder. What is compared, and how, is the kind's own: here the
folder and the tables are opened and checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from adumbra.common.errors import InputError
from adumbra.common.shown import shown
from adumbra.common.types import Progress
from adumbra.compare.comparison import Beside, Comparison
from adumbra.declare.guarantee import promise_in_words
from adumbra.declare.schema import Schema
from adumbra.releases.card import Card
from adumbra.releases.signature import PublicKey
from adumbra.report.document import Document, Facts, Note, Part
from adumbra.result import Release, load
from adumbra.tables.encode import check_columns
from adumbra.tables.read import open_table
from adumbra.tables.table import Table

__all__ = ["NOTICE", "Evaluation", "evaluate_release"]

NOTICE = (
    "CONTAINS PRIVATE INFORMATION: for the owner of the table only, not part of the release. "
    "It measures the truth without noise."
)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A release beside the truth. Private: for the owner, never for the release.

    `comparison` is of the type that the kind of release has for it; its fields can be read from here as well:
    `columns`, `correlation`, `two_way`, `rules` and `labels` for rows in the schema's own columns, `distances` for
    projected rows, `axes` for principal axes, `counts` for counted cells, `coordinates` for noisy rows.
    """

    notice: str
    table: str
    mechanism: str
    kind: str
    promise: str
    truth_rows: int
    release_rows: int
    comparison: Comparison

    def __getattr__(self, name: str) -> Any:
        """A field of the comparison."""
        if name.startswith("_") or name == "comparison":  # not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self.comparison, name)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know beside the numbers."""
        return self.comparison.notes

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the notice first."""
        own = ("notice", "table", "mechanism", "kind", "promise", "truth_rows", "release_rows")
        return {name: getattr(self, name) for name in own} | self.comparison.to_dict() | {"notes": list(self.notes)}

    def to_json(self) -> str:
        """The same as one JSON document."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def document(self) -> Document:
        """The same to be read by people."""
        rows = f"{self.table}: {self.truth_rows} true rows, {self.release_rows} released rows"
        release = Facts((("table", rows), ("mechanism", self.mechanism), ("promise", self.promise)))
        notes = tuple(Note(text) for text in self.notes)
        parts: tuple[Part, ...] = (Note(self.notice, "private"), release, *self.comparison.sections(), *notes)
        return Document("release measured against the truth", parts, self.to_dict(), private=True)

    def __repr__(self) -> str:
        return f"Evaluation(private: {shown(self.table)} by {shown(self.mechanism)}, {self.truth_rows} true rows)"


def evaluate_release(
    release: Release | str | Path,
    truth: Any,
    test: Any = None,
    label: str | None = None,
    *,
    delimiter: str | None = None,
    progress: Progress | None = None,
    public_key: PublicKey | None = None,
) -> Evaluation:
    """Measure a release against the table it was made from.

    Guarantee: the truth is read as the release read it (declared ranges, fallbacks); bins, pairs and the choice of
    rows depend on the schema and on numbers of rows only; the release folder is only read; the same input gives the
    same report. It protects nothing: the result is private.

    Edge cases: without `test`, models are tested on a fixed quarter of the truth that the real and shuffled ones did
    not train on. `label` replaces the labels of the schema. Rows without a label are left out of training and testing;
    any other number that is not there takes the mean of the training table, with a coordinate that says so. A class
    that the release lacks is predicted by nobody and counts as missed. A changed folder, or one that the holder of
    `public_key` did not sign, is `Refused`; a table with other columns, an unknown or constant label is an
    `InputError`.

    >>> import polars as pl
    >>> from adumbra import Budget, DPPro
    >>> from adumbra import release as make
    >>> schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 110}}})
    >>> people = pl.DataFrame({"age": [34, 71, 8, 52]})
    >>> done = make(people, schema, DPPro(dimension=1), Budget(epsilon=1.0, unit="cell"))
    >>> evaluate_release(done, people).distances.pairs
    2000
    """
    opened = release if isinstance(release, Release) else load(release)
    opened.demand(public_key)  # a changed file would be blamed on the mechanism
    card = opened.card
    schema = Schema.from_dict(card.table_schema)
    source = _opened(truth, delimiter, schema, "the truth", "give the table that the release was made from")
    count = cache(partial(_counted, source, "the truth"))
    beside = Beside(
        schema=schema,
        truth=source,
        truth_rows=count,
        made=partial(_made, opened),
        test=None if test is None else partial(_held_out, test, delimiter, schema),
        label=label,
        progress=progress or (lambda step, done, total: None),
    )
    with opened.reading():
        comparison = opened.kind.compare(opened.content, beside)
    return Evaluation(
        notice=NOTICE,
        table=card.table,
        mechanism=card.mechanism,
        kind=card.kind,
        promise=_promise(card),
        truth_rows=count(),
        release_rows=card.rows,
        comparison=comparison,
    )


def _made(release: Release) -> Table:
    """The released rows, as a table that is read batch by batch."""
    made = open_table(release.record.data())
    _counted(made, "the release")
    return made


def _held_out(test: Any, delimiter: str | None, schema: Schema) -> Table:
    table = _opened(test, delimiter, schema, "the test table", "give rows with the columns of the truth")
    _counted(table, "the test table")
    return table


def _opened(given: Any, delimiter: str | None, schema: Schema, what: str, remedy: str) -> Table:
    table = open_table(given, delimiter=delimiter)
    try:
        check_columns(schema, table.columns, table.types)
    except InputError as error:  # its own remedy is to change the schema, which a release has settled
        raise InputError(
            f"{what} with the columns of the release's schema: {error.expected}", error.got, remedy
        ) from None
    return table


def _counted(table: Table, what: str) -> int:
    try:
        return table.count()
    except InputError as error:
        raise InputError(f"{what}: {error.expected}", error.got, error.remedy) from None


def _promise(card: Card) -> str:
    return promise_in_words(card.epsilon, card.delta, card.unit, card.relation)
