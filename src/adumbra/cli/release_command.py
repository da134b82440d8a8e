"""`adumbra schema`, `plan` and `release`: from a table to a folder that may be published."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from typer.core import TyperCommand

from adumbra.cli.ledgers import LedgerOption, begun, book_of
from adumbra.cli.output import (
    HtmlOption,
    Reporter,
    check_new,
    emit,
    emit_json,
    note,
    print_markdown,
    printing_what_is_in,
    show,
    write_page,
)
from adumbra.common.errors import PAID, InputError
from adumbra.common.files import new_file
from adumbra.common.interrupts import stop_if_asked
from adumbra.common.validation import split_names
from adumbra.declare.guarantee import DEFAULT_DELTA, Relation, Unit
from adumbra.request import WORDS, Request, RequestTerms, schema_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adumbra.common.csv_forms import Csv
    from adumbra.declare.schema import Schema
    from adumbra.ledger.ledger import Ledger
    from adumbra.pipeline import Job, OwnerNotes

__all__ = [
    "EXTRA_OPTIONS",
    "FormulaOption",
    "JsonOption",
    "MechanismCommand",
    "basis",
    "csv_of",
    "dictionary",
    "extra_options",
    "grouped",
    "note_interrupted",
    "plan",
    "release",
    "schema",
]


# Options that several commands share, declared once: a frozen dataclass, whose fields become the commands' options.


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which each field of a dataclass among its parameters is an argument or option.

    The command itself is called with the dataclass. What must be given comes first, as in every signature.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    places: dict[str, str] = {}
    found: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            found.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        of_fields = typing.get_type_hints(groups[parameter.name], include_extras=True)
        for part in inspect.signature(groups[parameter.name]).parameters.values():
            found.append(part.replace(annotation=of_fields[part.name]))
            places[part.name] = parameter.name
    found.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    @wraps(command)
    def run(**given: Any) -> None:
        parts: dict[str, dict[str, Any]] = {name: {} for name in groups}
        for name in places.keys() & given.keys():
            parts[places[name]][name] = given.pop(name)
        command(**given, **{name: groups[name](**values) for name, values in parts.items()})

    del run.__wrapped__  # its own signature is the one to be read
    run.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined] # as `inspect` looks for it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
    return run


EXTRA_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


class MechanismCommand(TyperCommand):
    """A command that also takes the chosen mechanism's own options; its help lists them, from the catalogue."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Look mechanisms up only when help is asked for."""
        from adumbra.mechanisms.catalogue import catalogue, options

        words = {name: ", ".join("--" + key.replace("_", "-") for key in options(name)) for name in catalogue()}
        found = [f"{name}: {own or 'none'}" for name, own in words.items()]
        # the mark keeps one mechanism per line
        self.epilog = "\n".join(["\b", "Options of each mechanism, as --name value:", *found])
        super().format_epilog(ctx, formatter)


TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help=WORDS["table"])]
SchemaOption = Annotated[Path, typer.Option(help=WORDS["schema"])]
SeedOption = Annotated[str | None, typer.Option(help=WORDS["seed"])]
NameOption = Annotated[str | None, typer.Option(help=WORDS["name"])]
DelimiterOption = Annotated[str | None, typer.Option(help=WORDS["delimiter"])]
FormulaOption = Annotated[
    bool,
    typer.Option(
        "--formula-safe", help="in CSV, put an apostrophe before text that a spreadsheet would run (=, +, -, @)"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


@dataclass(frozen=True)
class Asked:
    """A request as it is typed: what `plan` and `release` share."""

    table: TableArgument
    schema: SchemaOption
    epsilon: Annotated[float, typer.Option(help=WORDS["epsilon"])]
    delta: Annotated[float, typer.Option(help=WORDS["delta"])] = DEFAULT_DELTA
    mechanism: Annotated[str | None, typer.Option(help=WORDS["mechanism"], show_default="auto")] = None
    unit: Annotated[Unit | None, typer.Option(help=WORDS["unit"])] = None
    relation: Annotated[Relation, typer.Option(help=WORDS["relation"])] = Relation.REPLACE
    row_bound: Annotated[float | None, typer.Option(help=WORDS["row_bound"])] = None
    seed: SeedOption = None
    label: Annotated[
        str | None, typer.Option(help="column to predict, or several with commas; default: the labels of the schema")
    ] = None
    rows: Annotated[int | None, typer.Option(help="rows to draw; default: as many as the table has")] = None
    ledger: LedgerOption = None
    delimiter: DelimiterOption = None
    name: NameOption = None

    def declared(self) -> tuple[Schema, Ledger]:
        """The schema, and the ledger in force."""
        schema = schema_of(self.schema)
        return schema, book_of(self.ledger, schema)

    def request(self, schema: Schema, extra: list[str], **more: Unpack[RequestTerms]) -> Request:
        """The same, settled by `schema`: `extra` words are the mechanism's own options, `more` is for the result."""
        options: dict[str, Any] = extra_options(extra)
        options |= {key: value for key, value in (("label", self.label), ("rows", self.rows)) if value is not None}
        asked: RequestTerms = {
            "options": options,
            "delta": self.delta,
            "unit": self.unit,
            "relation": self.relation,
            "seed": self.seed,
            "row_bound": self.row_bound,
            "name": self.name,
            "delimiter": self.delimiter,
        }
        return Request.of(self.table, schema, self.mechanism, self.epsilon, **(asked | more))


def schema(
    table: TableArgument,
    out: Annotated[Path | None, typer.Option(help="write the draft here instead of to stdout")] = None,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Draft a schema: names and kinds. Ranges and categories come as commented suggestions for you to confirm."""
    from adumbra.tables.read import open_table
    from adumbra.tables.schema_draft import draft_schema

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
    out: Annotated[Path, typer.Option(help="atoms.npy to write: one atom per column")],
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
    out: Annotated[Path, typer.Option(help="axes.npy to write: one axis per row")],
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


CellsOption = Annotated[
    bool, typer.Option("--cells", help="also count cells that are missing, unreadable or clipped, for you alone")
]


@grouped
def plan(
    ctx: typer.Context, asked: Asked, cells: CellsOption = False, json: JsonOption = False, html: HtmlOption = None
) -> None:
    """Dry run: what would be measured, with which noise and cost. Reads shape and schema, never values.

    With --cells it reads them too and counts, for you alone, those that are missing, cannot be read or would be
    clipped: a wrong format or blank word shows before anything is paid.
    """
    from adumbra import pipeline
    from adumbra.plan_document import plan_document

    check_new(html, "--html")
    schema, book = asked.declared()
    with Reporter() as reporter:
        planned = pipeline.plan(pipeline.prepare(asked.request(schema, ctx.args), reporter))
    there = begun(book)
    show(plan_document(planned, book, there), json=json, html=html)
    if cells:
        _print_owner_notes(planned.owner_notes(), "every cell that was read is as the schema declares")
    if not there:
        note(f"new ledger {book.name}: a release would begin it")


@grouped
def release(
    ctx: typer.Context,
    asked: Asked,
    out: Annotated[Path, typer.Option(help=WORDS["out"])],
    csv: Annotated[bool, typer.Option("--csv", help=WORDS["csv"])] = False,
    formula_safe: FormulaOption = False,
    sign: Annotated[Path | None, typer.Option(help=WORDS["signing_key"])] = None,
    json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Release the table: charge the ledger, measure with noise, write a folder that may be published."""
    from adumbra import pipeline
    from adumbra.releases.card_page import card_document, card_markdown

    check_new(html, "--html")
    schema, book = asked.declared()
    form = csv_of(csv, formula_safe)
    job: Job | None = None
    try:
        with Reporter() as reporter:
            request = asked.request(schema, ctx.args, ledger=book, out=out, csv=form, signing_key=sign)
            job = pipeline.prepare(request, reporter)
            folder, owner = pipeline.release(
                job, out, ledger=book, csv=request.csv, signing_key=request.signing_key, progress=reporter
            )
        stop_if_asked()
    except KeyboardInterrupt as stopped:
        note_interrupted(stopped, out, book if job is not None else None)
        raise typer.Exit(130) from None
    with printing_what_is_in(out, charged=True):
        if html is not None:
            drawn = {name: (out / name).read_text() for name in folder.card.pictures}
            write_page(card_document(folder.card, drawn), html)
        if json:
            emit_json(folder.card.model_dump(mode="json") | {"folder": str(out)})
        else:
            print_markdown(card_markdown(folder.card))
    _print_owner_notes(owner)
    note(f"released to {out}; charged to {book.name}, table {job.name}")


def note_interrupted(stopped: BaseException, out: Path, book: Ledger | None) -> None:
    """Say what an interrupt left: a release in `out` or none, a charge in `book` or none (None: there can be none yet).

    `stopped` is the interrupt, which may carry a note that something was paid.
    """
    # The folder did not exist when we began, and it appears in one step.
    state = f"{out} is complete" if out.exists() else "no release was written"
    if book is None:
        spent = "Nothing was charged"
    elif any(line.startswith(PAID) for line in getattr(stopped, "__notes__", ())):
        spent = f"The charge stays in {book.name} (adumbra ledger show)"
    else:  # before the charge; or a second interrupt came, and took the place of the one that knew
        spent = f"If it was charged, the charge stays in {book.name} (adumbra ledger show)"
    note(f"interrupted: {state}. {spent}")


def csv_of(csv: bool, formula_safe: bool) -> Csv:
    """What is to be written besides Parquet."""
    from adumbra.common.csv_forms import FORMULA_SAFE

    if formula_safe and not csv:
        raise InputError("--formula-safe with --csv", "--formula-safe alone", "add --csv, or leave it out")
    return FORMULA_SAFE if formula_safe else csv


def _print_owner_notes(owner: OwnerNotes, none: str | None = None) -> None:
    lines = owner.lines()
    if lines:
        note(owner.HEADING)
    elif none is not None:
        note(none)
    for line in lines:
        note(f"  {line}")
