"""`adumbra ledger`: what has been spent, and whether the record is whole."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adumbra.cli.output import emit, emit_json, print_table
from adumbra.core.errors import InputError, Refused
from adumbra.core.guarantee import DEFAULT_DELTA, Neighbours, Relation, Unit

if TYPE_CHECKING:
    from adumbra.privacy.ledger import Entry, Ledger

__all__ = ["LedgerOption", "app", "existing", "path_of"]

app = typer.Typer(help="What has been spent on a table; whether the record is whole.", no_args_is_help=True)

LedgerOption = Annotated[
    Path | None, typer.Option(help="ledger file; default: $ADUMBRA_LEDGER, else adumbra-ledger.db here")
]
TableOption = Annotated[str | None, typer.Option(help="only this table")]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


def path_of(ledger: Path | None) -> Path:
    """The ledger in force."""
    return ledger or Path(os.environ.get("ADUMBRA_LEDGER") or "adumbra-ledger.db")


def _book(ledger: Path | None) -> Ledger:
    from adumbra.privacy.ledger import Ledger

    return Ledger(path_of(ledger))


def existing(ledger: Path | None) -> Ledger | None:
    """The ledger in force if it has been begun."""
    return _book(ledger) if os.path.lexists(path_of(ledger)) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _words(entry: Entry) -> tuple[str, str]:
    """What a line did and what it promised, for people."""
    body = entry.body
    stated = body["promise"] if entry.kind == "charge" else body
    promise = f"epsilon {stated['epsilon']:g}, delta {stated['delta']:g}, {stated['neighbours']}"
    if entry.kind == "cap":
        return "cap", promise
    return f"{body['mechanism']} {body['line']}, release {body['release_id']}", promise


@app.command()
def show(
    ledger: LedgerOption = None,
    table: TableOption = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is derived")] = DEFAULT_DELTA,
    json: JsonOption = False,
) -> None:
    """Every charge, and the total epsilon at any delta for each unit and relation."""
    book = _book(ledger)
    entries = book.entries(table)
    if table is not None and not entries:
        raise InputError("a table of the ledger", f"{table!r}", f"use one of: {', '.join(book.tables()) or 'none yet'}")
    totals = {
        name: {str(n): _finite(book.spent(name, n, delta)) for n in Neighbours.every()}
        for name in ([table] if table else book.tables())
    }
    if json:
        emit_json({"delta": delta, "entries": [dataclasses.asdict(e) for e in entries], "totals": totals})
        return
    print_table(
        "charges and caps",
        ("line", "time", "kind", "table", "what", "promise"),
        [(e.sequence, e.time, e.kind, e.table, *_words(e)) for e in entries],
    )
    print_table(
        f"spent, at delta = {delta:g}",
        ("table", "unit/relation", "epsilon"),
        [
            (name, key, "no finite epsilon" if value is None else value)
            for name, costs in totals.items()
            for key, value in costs.items()
        ],
    )


@app.command()
def check(ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """Verify the hash chain: finds any edited, removed or reordered line."""
    book = _book(ledger)
    problems = book.check()
    if json:
        emit_json({"ledger": str(book.path), "whole": not problems, "problems": problems})
    if problems:
        raise Refused(
            "an unbroken ledger",
            "; ".join(problems),
            "restore the ledger from a backup; trust no total of it",
        )
    if not json:
        emit(f"whole: {len(book.entries())} lines, chain unbroken\n")


@app.command()
def cap(
    table: Annotated[str, typer.Argument(help="table name as in ledger show", metavar="NAME")],
    epsilon: Annotated[float, typer.Option(help="never spend more than this in all")],
    delta: Annotated[float, typer.Option(help="delta at which it is measured")] = DEFAULT_DELTA,
    unit: Annotated[Unit, typer.Option(help="row or cell")] = Unit.ROW,
    relation: Annotated[Relation, typer.Option(help="replace, zero-out or add-remove")] = Relation.REPLACE,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Set a cap: releases that would exceed it are refused before anything is measured."""
    neighbours = Neighbours(unit, relation)
    receipt = _book(ledger).set_cap(table, neighbours, epsilon, delta)
    if json:
        emit_json(
            {"table": table, "epsilon": epsilon, "delta": delta, "unit": unit.value, "relation": relation.value}
            | dataclasses.asdict(receipt)
        )
    else:
        emit(f"cap for {table}: epsilon {epsilon:g} at delta {delta:g}, {neighbours}\n")
