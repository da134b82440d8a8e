"""One request: all that is asked of a release, in one object, whoever asks.

The command line, Python, scikit-learn, audits and utility-aware releases make a `Request`, and `pipeline.prepare` makes
a job of it. `Request.of` takes every form in which a caller may write a part (a schema as a dictionary or a file, a
mechanism by name, a budget as a number) and refuses all others in three parts: expected, got, what to do. It reads the
schema, a signing key and the head of the table; nothing of a row.

Libraries are imported where they are needed: the command line takes its words from here before it loads any of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from adumbra.common.errors import InputError
from adumbra.common.validation import finite, path_of, positive, said, table_name
from adumbra.declare.guarantee import DEFAULT_DELTA, Budget, Neighbours, Promise, Relation, Unit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from adumbra.common.csv_forms import Csv
    from adumbra.common.randomness import PublicSeed
    from adumbra.declare.schema import Schema
    from adumbra.families.contract import Chooser, Mechanism
    from adumbra.ledger.ledger import Ledger
    from adumbra.tables.table import Table

__all__ = ["WORDS", "Request", "RequestTerms", "ledger_of", "schema_of", "seed_of", "spelled_out"]

WORDS: Mapping[str, str] = {
    "table": "CSV, TSV, Parquet or Arrow file (.gz and .zst too), a glob of Parquet files, or -",
    "schema": "schema.toml: columns, ranges, categories",
    "mechanism": "which mechanism; auto chooses by the table's shape; see adumbra mechanisms",
    "epsilon": "privacy loss allowed, for example 1.0",
    "delta": "probability not covered by epsilon; choose it far below 1/rows; 0 asks for pure epsilon",
    "unit": "row: one person's whole row; cell: one value. Default: the schema's, else row",
    "relation": "replace: another row instead; zero-out: an empty one; add-remove: n private",
    "row_bound": "clip rows to this length about the middle of the ranges (row unit only)",
    "seed": "public seed of projections and drawn rows, never of noise; left out, a fresh one",
    "name": "the table's name in the ledger; default: schema, then file",
    "delimiter": "field separator of a text table, for example ';'",
    "ledger": "ledger file; default: [table] ledger of the schema, $ADUMBRA_LEDGER, else one per user",
    "out": "folder to create; must not exist",
    "csv": "also write data.csv",
    "signing_key": "Ed25519 private key (PEM) to sign the card with",
}
"""A line on each part of a request, for whoever shows them to people: help texts, forms."""


class RequestTerms(TypedDict, total=False):
    """What may be said of a release besides table, schema, mechanism and budget. None is as good as left out."""

    options: Mapping[str, Any] | None
    delta: float | None
    unit: Unit | str | None
    relation: Relation | str | None
    seed: PublicSeed | str | int | None
    row_bound: float | None
    name: str | None
    delimiter: str | None
    ledger: Ledger | str | Path | None
    out: str | Path | None
    csv: Csv
    signing_key: str | Path | None


@dataclass(frozen=True)
class Request:
    """What is asked of one release, settled: each part has one type, and unit and relation are no longer open.

    Two requests are equal if they ask the same of whatever table; the ledger and the key are compared by nobody.

    * `table`: opened, not read. `schema`: what its owner declares about it.
    * `mechanism`: how it is released, or a rule that chooses. `budget`: epsilon, delta, unit and relation.
    * `seed`: of projections and drawn rows, public; None draws a fresh one. `row_bound`: a length to clip rows to.
    * `name`: of the table, in the ledger and on the card; None is the schema's, then the file's.
    * `ledger`: what is charged; None charges nothing. `out`: the folder to write. `csv`: whether with data.csv, and of
      which form. `signing_key`: signs the card.
    """

    table: Table = field(repr=False, compare=False)
    schema: Schema
    mechanism: Mechanism | Chooser
    budget: Budget
    seed: PublicSeed | None = None
    row_bound: float | None = None
    name: str | None = None
    ledger: Ledger | None = field(default=None, compare=False)
    out: Path | None = None
    csv: Csv = False
    signing_key: Ed25519PrivateKey | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        unit = self.budget.unit or self.schema.table.unit or Unit.ROW
        relation = self.budget.relation or Relation.REPLACE
        Neighbours(unit, relation)  # not every pair makes sense
        object.__setattr__(self, "budget", replace(self.budget, unit=unit, relation=relation))
        if self.row_bound is not None:
            positive("give a positive row bound in encoded units, for example 1.0", row_bound=self.row_bound)
        if self.name is not None:
            table_name(self.name, "--name")

    @property
    def promise(self) -> Promise:
        """What may be promised at most; a mechanism may promise a smaller delta."""
        unit, relation = self.budget.unit or Unit.ROW, self.budget.relation or Relation.REPLACE  # settled when made
        return Promise(self.budget.epsilon, self.budget.delta, Neighbours(unit, relation))

    @staticmethod
    def of(
        table: Any,
        schema: Schema | Mapping[str, Any] | str | Path,
        mechanism: Mechanism | Chooser | str | None = None,
        budget: Budget | float | None = None,
        **terms: Unpack[RequestTerms],
    ) -> Request:
        """Settle a request from what a caller wrote; whatever cannot be meant is an `InputError`.

        `table` is a frame, an array or a path; `schema` a `Schema`, its dictionary or its file; `mechanism` one that
        was made, or its name with its `options` among the `terms` (None is "auto"); `budget` a `Budget`, or epsilon
        as a number with `delta`, `unit` and `relation` among the `terms`. The ledger of the schema is taken where
        none is given.

        >>> import polars as pl
        >>> schema = {"columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
        >>> asked = Request.of(pl.DataFrame({"age": [34, 51]}), schema, "tables", 1, seed=7)
        >>> asked.mechanism.name, str(asked.promise.neighbours), asked == replace(asked)
        ('tables', 'row/replace', True)
        """
        for key in terms:
            if key not in RequestTerms.__annotations__:
                near = get_close_matches(key, RequestTerms.__annotations__, n=1)
                known = ", ".join(RequestTerms.__annotations__)
                raise InputError(
                    f"a part of a request: {known}", key, f"did you mean {near[0]}?" if near else "drop it"
                )
        declared = schema_of(schema)
        given: dict[str, Any] = {
            "schema": declared,
            "mechanism": _mechanism(mechanism, terms.get("options")),
            "budget": _budget(budget, terms),
            "seed": seed_of(terms.get("seed")),
            "row_bound": terms.get("row_bound"),
            "name": terms.get("name"),
            "ledger": ledger_of(declared.table.ledger if terms.get("ledger") is None else terms["ledger"]),
            "out": None if terms.get("out") is None else _target(terms["out"]),
            "csv": _csv(terms.get("csv")),
            "signing_key": None if terms.get("signing_key") is None else _key(terms["signing_key"]),
        }
        if given["signing_key"] is not None and given["out"] is None:
            raise InputError(
                "out with signing_key: a signature is made over the files of a folder",
                "signing_key without out",
                "give out, or sign when you save: release.save(FOLDER, signing_key=...)",
            )
        return Request(_table(table, terms.get("delimiter")), **given)  # a stream is read when all else is in order


_Called = TypeVar("_Called", bound=Callable[..., Any])


def spelled_out(function: _Called) -> _Called:
    """Show each term of a request in the signature of a function that takes them as keywords, for help and editors."""
    shown = inspect.signature(function)
    defaults = {part.name: part.default for part in fields(Request)} | {"options": None, "delta": None}
    given = [p for p in shown.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    given += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=hint)
        for name, hint in ((n, getattr(h, "__forward_arg__", h)) for n, h in RequestTerms.__annotations__.items())
    ]
    function.__signature__ = shown.replace(parameters=given)  # type: ignore[attr-defined] # read by `inspect` alone
    return function


def schema_of(given: Schema | Mapping[str, Any] | str | Path) -> Schema:
    """A schema, from itself, its dictionary or its file."""
    from adumbra.declare.schema import Schema

    if isinstance(given, Schema):
        return given
    if isinstance(given, Mapping):
        return Schema.from_dict(given)
    return Schema.load(path_of(given, "a Schema, its dictionary, or the path of its file"))


def seed_of(given: PublicSeed | str | int | None) -> PublicSeed | None:
    """A public seed, from itself, text or a whole number; None, which draws a fresh one, stays None.

    >>> seed_of(7) == seed_of("7")
    True
    """
    from adumbra.common.randomness import PublicSeed

    if given is None or isinstance(given, PublicSeed):
        return given
    if isinstance(given, str):
        return PublicSeed.given(given)
    if not _is_a(Integral, given) or not finite(given):  # a number beyond all floats is too long to be written out
        got = said(given) if _is_a(Integral, given) else f"a {type(given).__name__}"
        raise InputError("a seed: a PublicSeed, text or a whole number", got, 'write seed="study 1", for example')
    return PublicSeed.given(str(int(given)))


def ledger_of(given: Ledger | str | Path | None) -> Ledger | None:
    """A ledger, from itself or the path of its file; None, which charges nothing, stays None."""
    from adumbra.ledger.ledger import Ledger

    if given is None or isinstance(given, Ledger):
        return given
    return Ledger(path_of(given, "a Ledger, or the path of its file"))


def _mechanism(given: object, options: object) -> Any:
    from adumbra.mechanisms.catalogue import DEFAULT, build

    if options is not None and not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
        raise InputError(
            "options of the mechanism, by name",
            f"a {type(options).__name__}",
            'write options={"rows": 500}, for example',
        )
    if given is None or isinstance(given, str):
        return build(DEFAULT if given is None else given, options or {})
    if options:
        raise InputError(
            "options beside the name of a mechanism",
            f"options beside a {type(given).__name__}",
            "give them where it is made, or give its name",
        )
    runs = hasattr(given, "run") or hasattr(given, "choose")  # numpy's numbers have a choose of their own, but no name
    if isinstance(given, type) or not runs or not hasattr(given, "name"):
        is_budget = isinstance(given, Budget) or _is_a(Real, given)
        raise InputError(
            "a mechanism, such as Hybrid() or DPPro(), or its name",
            given.__name__ if isinstance(given, type) else said(given),
            "name the budget: budget=1.0, for example" if is_budget else 'give "auto" or Hybrid(), for example',
        )
    return given


def _budget(given: object, terms: RequestTerms) -> Budget:
    beside = [name for name in ("delta", "unit", "relation") if terms.get(name) is not None]
    if isinstance(given, Budget):
        if beside:
            raise InputError(
                f"{beside[0]} inside the Budget, or beside a number",
                f"{beside[0]} beside a Budget",
                f"write Budget(epsilon, {beside[0]}=...), or give epsilon as a number",
            )
        return given
    if not _is_a(Real, given):
        got = "none" if given is None else f"a {type(given).__name__}"
        raise InputError("a budget: epsilon as a number, or a Budget", got, "give budget=1.0, for example")
    delta: Any = terms.get("delta")
    unit: Any = terms.get("unit")
    relation: Any = terms.get("relation")
    epsilon: Any = given
    return Budget(epsilon, DEFAULT_DELTA if delta is None else delta, unit, relation)  # which checks them all


def _is_a(number: type, given: object) -> bool:
    """Whether it is such a number, of numpy too; yes and no are none."""
    return isinstance(given, number) and not isinstance(given, bool)


def _table(given: Any, delimiter: object) -> Table:
    from adumbra.tables.read import open_table

    if delimiter is not None and not isinstance(delimiter, str):
        raise InputError("a delimiter of one character", f"a {type(delimiter).__name__}", 'write delimiter=";"')
    return open_table(given, delimiter=delimiter)


def _target(given: object) -> Path:
    from adumbra.releases.staging import check_target

    path = path_of(given, "a folder to create, as text or path")
    check_target(path)
    return path


def _csv(given: object) -> Csv:
    from adumbra.common.csv_forms import csv_form

    return csv_form(False if given is None else given)


def _key(given: object) -> Ed25519PrivateKey:
    from adumbra.releases.signature import read_signing_key

    return read_signing_key(path_of(given, "the path of an Ed25519 private key"))
