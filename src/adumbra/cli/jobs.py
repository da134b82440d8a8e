"""`adumbra schema`, `plan` and `release`: from a table to a folder that may be published."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from adumbra.cli.ledgers import LedgerOption, begun, book_of
from adumbra.cli.output import Reporter, emit, emit_json, note, print_markdown, printing_what_is_in
from adumbra.core.errors import PAID, InputError
from adumbra.core.files import new_file
from adumbra.core.guarantee import DEFAULT_DELTA, Budget, Relation, Unit
from adumbra.core.interrupts import stop_if_asked
from adumbra.core.validation import split_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adumbra.core.schema import Schema
    from adumbra.core.tabular import Csv
    from adumbra.pipeline import Job, OwnerNotes
    from adumbra.privacy.ledger import Ledger

__all__ = [
    "EXTRA_OPTIONS",
    "FormulaOption",
    "JsonOption",
    "MechanismCommand",
    "basis",
    "csv_of",
    "dictionary",
    "extra_options",
    "note_interrupted",
    "plan",
    "release",
    "schema",
]

EXTRA_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


class MechanismCommand(TyperCommand):
    """A command that also takes the chosen mechanism's own options; its help lists them, from the catalogue."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Look mechanisms up only when help is asked for."""
        from adumbra.mechanisms.catalogue import catalogue, options

        words = {name: ", ".join("--" + key.replace("_", "-") for key in options(name)) for name in catalogue()}
        found = [f"{name}: {own or 'none'}" for name, own in words.items()]
        # the mark keeps one mechanism a line
        self.epilog = "\n".join(["\b", "Options of each mechanism, as --name value:", *found])
        super().format_epilog(ctx, formatter)


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet or Arrow file (.gz and .zst too), a glob of Parquet files, or -",
    ),
]
SchemaOption = Annotated[Path, typer.Option(help="schema.toml: columns, ranges, categories")]
EpsilonOption = Annotated[float, typer.Option(help="privacy loss allowed, for example 1.0")]
DeltaOption = Annotated[float, typer.Option(help="what epsilon leaves out; well below 1/rows; 0 asks for pure epsilon")]
MechanismOption = Annotated[
    str | None,
    typer.Option(
        help="which mechanism; auto chooses by the table's shape; see adumbra mechanisms", show_default="auto"
    ),
]
UnitOption = Annotated[
    Unit | None,
    typer.Option(help="row: one person's whole row; cell: one value. Default: the schema's, else row"),
]
RelationOption = Annotated[
    Relation, typer.Option(help="replace: another row instead; zero-out: an empty one; add-remove: n private")
]
BoundOption = Annotated[
    float | None, typer.Option(help="clip rows to this length about the middle of the ranges (row unit only)")
]
SeedOption = Annotated[
    str | None,
    typer.Option(help="public seed of projections and drawn rows, never of noise; left out, a fresh one"),
]
LabelOption = Annotated[
    str | None, typer.Option(help="column to predict, or several with commas; default: the labels of the schema")
]
RowsOption = Annotated[
    int | None, typer.Option(help="rows to draw; default: as the table has, at least 40,000 (10,000 if wide)")
]
DelimiterOption = Annotated[str | None, typer.Option(help="field separator of a text table, for example ';'")]
FormulaOption = Annotated[
    bool,
    typer.Option(
        "--formula-safe", help="in CSV, put an apostrophe before text that a spreadsheet would run (=, +, -, @)"
    ),
]
NameOption = Annotated[str | None, typer.Option(help="the table's name in the ledger; default: schema, then file")]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


def schema(
    table: TableArgument,
    out: Annotated[Path | None, typer.Option(help="write the draft here instead of to stdout")] = None,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Draft a schema: names and kinds. Ranges and categories come as commented suggestions for you to confirm."""
    from adumbra.table.draft import draft_schema
    from adumbra.table.read import open_table

    if out is not None and os.path.lexists(out):
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")
    text = draft_schema(open_table(table, delimiter=delimiter))
    if out is None:
        emit_json({"draft": text}) if json else emit(text)
        return
    with new_file(out, private=True) as file:  # its suggestions were read from the rows
        file.write(text.encode())
    if json:
        emit_json({"out": str(out)})
    note(f"draft written to {out}: confirm each suggestion from public knowledge, then plan and release")


def dictionary(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="a PUBLIC table with the columns of the schema")],
    schema: SchemaOption,
    out: Annotated[Path, typer.Option(help="atoms.npy to write: one atom a column")],
    atoms: Annotated[int, typer.Option(help="how many atoms, at most")] = 64,
    sparsity: Annotated[int, typer.Option(help="atoms that should describe one histogram or row")] = 8,
    input: Annotated[str, typer.Option(help="histogram or records, as for csm")] = "histogram",
    columns: Annotated[
        str | None, typer.Option(help="A,B: the domain that will be counted; default: all columns")
    ] = None,
    bins: Annotated[int | None, typer.Option(help="cells of a number, as for the release")] = None,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Atoms learnt from a PUBLIC table, for csm and sparse. Not private: never run it on the table you protect."""
    from adumbra.api import public_dictionary

    named = () if columns is None else split_names(columns, "--columns")
    _new_file(out)
    found = public_dictionary(
        table,
        schema,
        atoms,
        sparsity,
        input=input,
        columns=named,
        bins=bins,
        delimiter=delimiter,
    )
    _write_array(found, out)
    if json:
        emit_json({"out": str(out), "atoms": found.shape[1], "cells": found.shape[0]})
    note(f"{found.shape[1]} atoms of {found.shape[0]} numbers written to {out}: use --dictionary {out}")


def _new_file(out: Path) -> None:
    if os.path.lexists(out) or out.suffix != ".npy":
        raise InputError("a new .npy file", f"{out}", "choose another --out")


def _write_array(array: NDArray[np.float64], out: Path) -> None:
    import numpy as np

    with new_file(out) as file:
        np.save(file, array, allow_pickle=False)


def basis(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="a PUBLIC table with the columns of the schema")],
    schema: SchemaOption,
    out: Annotated[Path, typer.Option(help="axes.npy to write: one axis a row")],
    components: Annotated[int, typer.Option(help="how many axes")] = 10,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Principal axes of a PUBLIC table, as a basis for lop. Not private: never run it on the table you protect."""
    from adumbra.api import public_axes

    _new_file(out)
    axes = public_axes(table, schema, components, delimiter=delimiter)
    _write_array(axes, out)
    if json:
        emit_json({"out": str(out), "axes": len(axes), "coordinates": axes.shape[1]})
    note(f"{len(axes)} axes of {axes.shape[1]} coordinates written to {out}: use --mechanism lop --basis {out}")


def _job(
    ctx: typer.Context,
    table: str,
    declared: Schema,
    epsilon: float,
    delta: float,
    mechanism: str | None,
    unit: Unit | None,
    relation: Relation,
    row_bound: float | None,
    seed: str | None,
    label: str | None,
    rows: int | None,
    delimiter: str | None,
    name: str | None,
    reporter: Reporter,
) -> Job:
    from adumbra import pipeline
    from adumbra.core.randomness import PublicSeed
    from adumbra.mechanisms.catalogue import DEFAULT, build
    from adumbra.table.read import open_table

    parameters: dict[str, Any] = extra_options(ctx.args)
    for key, value in (("label", label), ("rows", rows)):
        if value is not None:
            parameters[key] = value
    budget = Budget(epsilon, delta, unit, relation)
    chosen = build(DEFAULT if mechanism is None else mechanism, parameters)
    public = None if seed is None else PublicSeed.given(seed)
    source = open_table(table, delimiter=delimiter)
    return pipeline.prepare(
        source, declared, chosen, budget, seed=public, row_bound=row_bound, name=name, progress=reporter
    )


def extra_options(args: list[str]) -> dict[str, Any]:
    """`--dimension 16` and `--dimension=16`, left over for the mechanism."""
    found: dict[str, Any] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        if not key.startswith("--") or (not equals and (not rest or rest[0].startswith("--"))):
            raise InputError("options in the form --name value", f"{word}", "see --help and adumbra mechanisms")
        if key[2:] in found:
            raise InputError(f"{key} once", "twice", "leave one out")
        found[key[2:]] = value if equals else rest.pop(0)
    return found


def plan(
    ctx: typer.Context,
    table: TableArgument,
    schema: SchemaOption,
    epsilon: EpsilonOption,
    delta: DeltaOption = DEFAULT_DELTA,
    mechanism: MechanismOption = None,
    unit: UnitOption = None,
    relation: RelationOption = Relation.REPLACE,
    row_bound: BoundOption = None,
    seed: SeedOption = None,
    label: LabelOption = None,
    rows: RowsOption = None,
    ledger: LedgerOption = None,
    delimiter: DelimiterOption = None,
    name: NameOption = None,
    json: JsonOption = False,
) -> None:
    """Dry run: what would be measured, with which noise and cost. Reads shape and schema, never values."""
    from adumbra import pipeline
    from adumbra.cli.plans import plan_facts, print_plan
    from adumbra.core.schema import Schema

    declared = Schema.load(schema)
    book = book_of(ledger, declared)
    with Reporter() as reporter:
        job = _job(
            ctx, table, declared, epsilon, delta, mechanism, unit, relation, row_bound, seed, label, rows, delimiter,
            name, reporter,
        )  # fmt: skip
        planned = pipeline.plan(job)
    facts = plan_facts(planned, book, begun(book))
    if json:
        emit_json(facts)
    else:
        print_plan(facts)
    if facts["ledger_is_new"]:
        note(f"new ledger {book.path}: a release would begin it")


def release(
    ctx: typer.Context,
    table: TableArgument,
    schema: SchemaOption,
    epsilon: EpsilonOption,
    out: Annotated[Path, typer.Option(help="folder to create; must not exist")],
    delta: DeltaOption = DEFAULT_DELTA,
    mechanism: MechanismOption = None,
    unit: UnitOption = None,
    relation: RelationOption = Relation.REPLACE,
    row_bound: BoundOption = None,
    seed: SeedOption = None,
    label: LabelOption = None,
    rows: RowsOption = None,
    ledger: LedgerOption = None,
    delimiter: DelimiterOption = None,
    name: NameOption = None,
    csv: Annotated[bool, typer.Option("--csv", help="also write data.csv")] = False,
    formula_safe: FormulaOption = False,
    sign: Annotated[Path | None, typer.Option(help="Ed25519 private key (PEM) to sign the card with")] = None,
    json: JsonOption = False,
) -> None:
    """Release the table: charge the ledger, measure with noise, write a folder that may be published."""
    from adumbra import pipeline
    from adumbra.core.card_text import card_markdown
    from adumbra.core.schema import Schema
    from adumbra.core.signature import read_signing_key
    from adumbra.publish import check_target

    check_target(out)
    key = None if sign is None else read_signing_key(sign)
    declared = Schema.load(schema)
    book = book_of(ledger, declared)
    job: Job | None = None
    try:
        with Reporter() as reporter:
            job = _job(
                ctx, table, declared, epsilon, delta, mechanism, unit, relation, row_bound, seed, label, rows,
                delimiter, name, reporter,
            )  # fmt: skip
            folder, owner = pipeline.release(
                job, out, ledger=book, csv=csv_of(csv, formula_safe), signing_key=key, progress=reporter
            )
        stop_if_asked()
    except KeyboardInterrupt as stopped:
        note_interrupted(stopped, out, book if job is not None else None)
        raise typer.Exit(130) from None
    with printing_what_is_in(out, charged=True):
        if json:
            emit_json(folder.card.model_dump(mode="json") | {"folder": str(out)})
        else:
            print_markdown(card_markdown(folder.card))
    _print_owner_notes(owner)
    note(f"released to {out}; charged to {book.path}, table {job.name}")


def note_interrupted(stopped: BaseException, out: Path, book: Ledger | None) -> None:
    """Say what an interrupt left: a release or none, a charge or none; `book` is None before there can be one."""
    # The folder did not exist when we began, and it appears in one step.
    state = f"{out} is complete" if out.exists() else "no release was written"
    if book is None:
        spent = "Nothing was charged"
    elif any(line.startswith(PAID) for line in getattr(stopped, "__notes__", ())):
        spent = f"The charge stays in {book.path} (adumbra ledger show)"
    else:  # before the charge; or a second interrupt came, and took the place of the one that knew
        spent = f"If it was charged, the charge stays in {book.path} (adumbra ledger show)"
    note(f"interrupted: {state}. {spent}")


def csv_of(csv: bool, formula_safe: bool) -> Csv:
    """What is to be written besides Parquet."""
    from adumbra.core.tabular import FORMULA_SAFE

    if formula_safe and not csv:
        raise InputError("--formula-safe with --csv", "--formula-safe alone", "add --csv, or leave it out")
    return FORMULA_SAFE if formula_safe else csv


def _print_owner_notes(owner: OwnerNotes) -> None:
    lines = owner.lines()
    if lines:
        note(owner.HEADING)
    for line in lines:
        note(f"  {line}")
