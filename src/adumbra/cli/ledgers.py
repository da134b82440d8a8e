"""`adumbra ledger`: what has been spent, and whether the record is whole."""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adumbra.cli.output import HtmlOption, check_new, emit, emit_json, note, printing
from adumbra.cli.output import show as print_document
from adumbra.common.errors import InputError, Refused
from adumbra.common.validation import between
from adumbra.declare.guarantee import DEFAULT_DELTA, Neighbours, Relation, Unit

if TYPE_CHECKING:
    from adumbra.declare.schema import Schema
    from adumbra.ledger.ledger import Ledger

__all__ = ["LedgerOption", "app", "begun", "book_of"]

app = typer.Typer(help="What has been spent on a table; whether the record is whole.", no_args_is_help=True)

LedgerOption = Annotated[
    Path | None,
    typer.Option(help="ledger file; default: [table] ledger of the schema, $ADUMBRA_LEDGER, else one per user"),
]
OfSchemaOption = Annotated[Path | None, typer.Option("--schema", help="schema.toml whose [table] ledger is meant")]
TableOption = Annotated[str | None, typer.Option(help="only this table")]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


def book_of(named: Path | None, schema: Schema | None = None) -> Ledger:
    """The ledger in force: the one named, else the schema's, else that of the environment or of this user.

    The schema comes before the environment because it belongs to the table: a cap set for a table holds for whoever
    releases it, from whichever account or folder.
    """
    from adumbra.ledger.ledger import Ledger

    declared = None if schema is None else schema.table.ledger
    chosen = named or declared
    return Ledger.default(on_new=_announce) if chosen is None else Ledger(chosen, on_new=_announce)


def _announce(path: Path) -> None:
    note(f"new ledger {path}: nothing that was spent before is known to it")


def begun(book: Ledger) -> bool:
    """Whether the ledger is there already."""
    return book.exists()


def _book(named: Path | None, schema_file: Path | None) -> Ledger:
    if named is not None or schema_file is None:
        return book_of(named)
    from adumbra.declare.schema import Schema

    return book_of(None, Schema.load(schema_file))


@app.command()
def show(
    ledger: LedgerOption = None,
    schema: OfSchemaOption = None,
    table: TableOption = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is derived")] = DEFAULT_DELTA,
    json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Check the chain; list every charge, and the total epsilon at any delta for each unit and relation."""
    from adumbra.ledger.statement import ledger_document

    between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
    check_new(html, "--html")
    report = _book(ledger, schema).report()
    print_document(ledger_document(report, table, delta), json=json, html=html)
    if report.problems:
        raise _not_whole(report.problems)


def _not_whole(problems: list[str]) -> Refused:
    return Refused(
        "a whole ledger", "; ".join(problems), "trust no total of it; correct what is named, or go back to a whole copy"
    )


@app.command()
def check(
    ledger: LedgerOption = None,
    schema: OfSchemaOption = None,
    expect: Annotated[
        list[str] | None, typer.Option(help="ledger hash of a card, which must be a line's; may be repeated")
    ] = None,
    expect_card: Annotated[
        list[Path] | None, typer.Option(help="release folder, whose charge must be a line; may be repeated")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Verify the hash chain: finds any edited, removed or reordered line; with --expect, an older copy too."""
    book = _book(ledger, schema)
    cards = [_card_head(folder) for folder in expect_card or []]
    wanted = [*(expect or []), *(head for head, _ in cards)]
    problems = book.check(expect=wanted)
    entries = book.report().entries
    problems += [
        f"line {e.sequence} is not the charge of release {release_id}"
        for e in entries
        for head, release_id in cards
        if e.hash == head and e.body.get("release_id") != release_id
    ]
    found = {e.hash: e.sequence for e in entries if e.hash in [text.strip().lower() for text in wanted]}
    if json:
        facts: dict[str, Any] = {"ledger": book.name, "whole": not problems, "problems": problems}
        emit_json(facts | {"lines": len(entries), "head": entries[-1].hash if entries else None, "expected": found})
    if problems:
        raise Refused(
            "an unbroken ledger" + (" with the lines expected" if wanted else ""),
            "; ".join(problems),
            "trust no total of it; restore the newest copy, or find the ledger that the releases were charged to",
        )
    if not json:
        emit(f"whole: {len(entries)} lines, chain unbroken\n")
        for text, sequence in found.items():
            emit(f"pinned up to line {sequence}: {text}\n")


def _card_head(folder: Path) -> tuple[str, str]:
    """The hash, as ledgers write it, and the release that a card names."""
    from adumbra.releases.card import Card
    from adumbra.releases.folder import open_folder

    card = open_folder(folder).card
    if not isinstance(card, Card) or card.ledger_head is None:
        raise InputError(
            "a release that was charged to a ledger, with its hash on the card",
            f"{folder}, which names none",
            "it was made without a ledger or by an earlier version: keep a hash of `ledger check --json` instead",
        )
    return card.ledger_head.strip().lower(), card.release_id


@app.command()
def cap(
    table: Annotated[str, typer.Argument(help="table name as in ledger show", metavar="NAME")],
    epsilon: Annotated[float | None, typer.Option(help="never spend more than this in all")] = None,
    delta: Annotated[float, typer.Option(help="delta at which it is measured")] = DEFAULT_DELTA,
    unit: Annotated[Unit, typer.Option(help="row or cell")] = Unit.ROW,
    relation: Annotated[Relation, typer.Option(help="replace, zero-out or add-remove")] = Relation.REPLACE,
    remove: Annotated[bool, typer.Option("--remove", help="withdraw the cap of this unit and relation")] = False,
    line: Annotated[int | None, typer.Option(help="with --remove: the cap of this line, readable or not")] = None,
    ledger: LedgerOption = None,
    schema: OfSchemaOption = None,
    json: JsonOption = False,
) -> None:
    """Set, replace or withdraw a cap: releases that would exceed it are refused before anything is measured."""
    if (epsilon is None) != remove or (line is not None and not remove):
        raise InputError(
            "--epsilon to set a cap, or --remove (with --line, for one line) to withdraw it",
            "both or neither" if line is None else "--line without --remove",
            "leave one out",
        )
    neighbours = Neighbours(unit, relation)
    book = _book(ledger, schema)
    if epsilon is None:
        receipt = book.remove_cap(table, neighbours if line is None else None, line=line)
        done: dict[str, Any] = {"withdrawn": True} | (
            {"line": line} if line else {"unit": unit.value, "relation": relation.value}
        )
        text = f"cap for {table} withdrawn: {neighbours if line is None else f'line {line}'}"
    else:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            receipt = book.set_cap(table, neighbours, epsilon, delta)
        for warning in said:
            note(str(warning.message))
        done = {"epsilon": epsilon, "delta": delta, "unit": unit.value, "relation": relation.value}
        text = f"cap for {table}: epsilon {epsilon:g} at delta {delta:g}, {neighbours}"
        _say_what_is_spent(book, table, neighbours, epsilon, delta)
    state = "is withdrawn" if remove else "stands"
    with printing("the receipt", f"the cap {state} in {book.name} (adumbra ledger show)"):
        if json:
            emit_json({"table": table} | done | dataclasses.asdict(receipt))
        else:
            emit(text + "\n")


def _say_what_is_spent(book: Ledger, table: str, neighbours: Neighbours, epsilon: float, delta: float) -> None:
    """Note a cap on a table that the ledger does not know, and one that admits nothing more."""
    if not any(entry.kind == "charge" for entry in book.entries(table)):
        note(f"nothing was charged to {table} in {book.name} yet: mind the spelling")
        return
    spent = book.spent(table, neighbours, delta)
    if epsilon <= spent < math.inf:  # of a past without a finite cost the ledger has warned
        note(
            f"epsilon {spent:.4g} at delta {delta:g} is already spent on {table} ({neighbours}): every further release "
            "will be refused under this cap"
        )
