"""The command line: parse, call, print.

Exit codes: 0 done, 1 the answer is no (verification failed, ledger exhausted or damaged), 2 bad usage or bad input,
130 interrupted. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from adumbra.cli import answers, ledgers
from adumbra.cli.output import Reporter, emit_json, notes, print_error, print_markdown, print_table
from adumbra.core.errors import AdumbraError, InputError, Refused
from adumbra.core.guarantee import DEFAULT_DELTA, Budget, Relation, Unit
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import ReleaseFolder, read_public_key, read_signing_key
from adumbra.core.schema import Schema
from adumbra.mechanisms.catalogue import DEFAULT, build, catalogue, options

__all__ = ["app", "run"]

_EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}


def _mechanism_help() -> str:
    """One line for each mechanism's own options, from the catalogue."""
    return "Options of a mechanism: " + "; ".join(
        f"{name}: {', '.join('--' + key.replace('_', '-') for key in options(name))}" for name in catalogue()
    )


app = typer.Typer(
    help="Release wide tables privately, and prove what it gives away.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(answers.app, name="answer")
app.add_typer(ledgers.app, name="ledger")

TableArgument = Annotated[
    str,
    typer.Argument(help="CSV, TSV, Parquet or Arrow file (.gz and .zst too), a glob of Parquet files, or -"),
]
SchemaOption = Annotated[Path, typer.Option(help="schema.toml: columns, ranges, categories")]
EpsilonOption = Annotated[float, typer.Option(help="privacy loss allowed, for example 1.0")]
DeltaOption = Annotated[float, typer.Option(help="probability of exceeding it; 0 asks for pure epsilon")]
MechanismOption = Annotated[str, typer.Option(help="which mechanism; see adumbra mechanisms")]
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
    typer.Option(help="public seed of the projection; left out, the operating system gives a fresh one"),
]
LabelOption = Annotated[str | None, typer.Option(help="column to treat as the label")]
RowsOption = Annotated[int | None, typer.Option(help="rows to release (mechanisms that sample rows)")]
DelimiterOption = Annotated[str | None, typer.Option(help="field separator of a text table, for example ';'")]
NameOption = Annotated[
    str | None, typer.Option(help="the table's name in the ledger; default: schema, then file")
]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


@app.command()
def schema(
    table: TableArgument,
    out: Annotated[Path | None, typer.Option(help="write the draft here instead of to stdout")] = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Draft a schema: names and kinds. Ranges and categories come as commented suggestions for you to confirm."""
    from adumbra.table.draft import draft_schema
    from adumbra.table.read import open_table

    text = draft_schema(open_table(table, delimiter=delimiter))
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name") from None
    except OSError as error:
        raise InputError(
            "a place to write the draft", f"{out} ({error.strerror})", "choose another --out"
        ) from None
    notes.print(f"draft written to {out}: confirm each suggestion from public knowledge, then release")


def _job(
    ctx: typer.Context,
    table: str,
    schema_file: Path,
    epsilon: float,
    delta: float,
    mechanism: str,
    unit: Unit | None,
    relation: Relation,
    row_bound: float | None,
    seed: str | None,
    label: str | None,
    rows: int | None,
    delimiter: str | None,
    name: str | None,
    reporter: Reporter,
) -> Any:
    from adumbra import pipeline
    from adumbra.table.read import open_table

    parameters: dict[str, Any] = _extra(ctx.args)
    for key, value in (("label", label), ("rows", rows)):
        if value is not None:
            parameters[key] = value
    budget = Budget(epsilon, delta, unit, relation)
    chosen = build(mechanism, parameters)
    declared = Schema.load(schema_file)
    public = None if seed is None else PublicSeed.given(seed)
    source = open_table(table, delimiter=delimiter)
    return pipeline.prepare(
        source, declared, chosen, budget, seed=public, row_bound=row_bound, name=name, progress=reporter
    )


def _extra(args: list[str]) -> dict[str, Any]:
    """`--dimension 16` and `--dimension=16`, left over for the mechanism."""
    found: dict[str, Any] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        if not key.startswith("--") or (not equals and not rest):
            raise InputError(
                "options in the form --name value", f"{word}", "see --help and adumbra mechanisms"
            )
        found[key[2:]] = value if equals else rest.pop(0)
    return found


@app.command(context_settings=_EXTRA, epilog=_mechanism_help())
def plan(
    ctx: typer.Context,
    table: TableArgument,
    schema: SchemaOption,
    epsilon: EpsilonOption,
    delta: DeltaOption = DEFAULT_DELTA,
    mechanism: MechanismOption = DEFAULT,
    unit: UnitOption = None,
    relation: RelationOption = Relation.REPLACE,
    row_bound: BoundOption = None,
    seed: SeedOption = None,
    label: LabelOption = None,
    rows: RowsOption = None,
    ledger: ledgers.LedgerOption = None,
    delimiter: DelimiterOption = None,
    name: NameOption = None,
    json: JsonOption = False,
) -> None:
    """Dry run: what would be measured, with which noise and cost. Reads shape and schema, never values."""
    from adumbra import pipeline
    from adumbra.cli.plans import plan_facts, print_plan

    with Reporter() as reporter:
        job = _job(
            ctx, table, schema, epsilon, delta, mechanism, unit, relation, row_bound, seed, label, rows, delimiter,
            name, reporter,
        )  # fmt: skip
        planned = pipeline.plan(job)
    facts = plan_facts(planned, ledgers.existing(ledger))
    if json:
        emit_json(facts)
    else:
        print_plan(facts)


@app.command(context_settings=_EXTRA, epilog=_mechanism_help())
def release(
    ctx: typer.Context,
    table: TableArgument,
    schema: SchemaOption,
    epsilon: EpsilonOption,
    out: Annotated[Path, typer.Option(help="folder to create; must not exist")],
    delta: DeltaOption = DEFAULT_DELTA,
    mechanism: MechanismOption = DEFAULT,
    unit: UnitOption = None,
    relation: RelationOption = Relation.REPLACE,
    row_bound: BoundOption = None,
    seed: SeedOption = None,
    label: LabelOption = None,
    rows: RowsOption = None,
    ledger: ledgers.LedgerOption = None,
    delimiter: DelimiterOption = None,
    name: NameOption = None,
    csv: Annotated[bool, typer.Option("--csv", help="also write data.csv")] = False,
    sign: Annotated[Path | None, typer.Option(help="Ed25519 private key (PEM) to sign the card with")] = None,
    json: JsonOption = False,
) -> None:
    """Release the table: charge the ledger, measure with noise, write a folder that may be published."""
    from adumbra import pipeline
    from adumbra.card_text import card_markdown
    from adumbra.privacy.ledger import Ledger

    key = None if sign is None else read_signing_key(sign)
    book = Ledger(ledgers.path_of(ledger))
    try:
        with Reporter() as reporter:
            job = _job(
                ctx, table, schema, epsilon, delta, mechanism, unit, relation, row_bound, seed, label, rows,
                delimiter, name, reporter,
            )  # fmt: skip
            folder, owner = pipeline.release(
                job, out, ledger=book, csv=csv, signing_key=key, progress=reporter
            )
    except KeyboardInterrupt:
        notes.print(
            "interrupted: no release was written. A charge already in the ledger stays (adumbra ledger show)"
        )
        raise typer.Exit(130) from None
    if json:
        emit_json(folder.card.model_dump(mode="json") | {"folder": str(out)})
    else:
        print_markdown(card_markdown(folder.card))
    _print_owner_notes(owner)
    notes.print(f"released to {out}; charged to {book.path}, table {job.name}")


def _print_owner_notes(owner: Any) -> None:
    changed = {column: r for column, r in owner.repairs.items() if r.missing or r.unknown or r.clipped}
    if not changed and not owner.clipped_rows:
        return
    notes.print(
        "for the owner only (private, not in the release): cells that went to a fallback or were clipped"
    )
    for column, repairs in list(changed.items())[:20]:
        notes.print(
            f"  {column}: {repairs.missing} missing, {repairs.unknown} unknown, {repairs.clipped} out of range",
            markup=False,
        )
    if len(changed) > 20:
        notes.print(f"  and {len(changed) - 20} more columns")
    if owner.clipped_rows:
        notes.print(f"  rows clipped to the row bound: {owner.clipped_rows}")


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="release folder")],
    public_key: Annotated[Path | None, typer.Option(help="the signer's Ed25519 public key (PEM)")] = None,
    json: JsonOption = False,
) -> None:
    """Check a release folder against its card: hashes, no extra file, signature if signed."""
    found = ReleaseFolder.open(folder)
    problems = found.verify(None if public_key is None else read_public_key(public_key))
    if json:
        emit_json(
            {"folder": str(folder), "verified": not problems, "signed": found.signed, "problems": problems}
        )
    if problems:
        raise Refused("a folder as its card describes", "; ".join(problems), "get it again from its owner")
    if not json:
        state = "signed" if found.signed else "not signed"
        typer.echo(f"verified: {len(found.card.files)} files as the card says, {state}")


@app.command()
def mechanisms(json: JsonOption = False) -> None:
    """The catalogue: what each mechanism releases, protects and can answer."""
    found = [
        {
            "name": m.name,
            "title": m.title,
            "units": list(m.units),
            "relations": list(m.relations),
            "guarantee": m.theorem,
            "releases": m.releases,
            "suits": m.suits,
            "caution": m.caution,
            "answers": list(m.answers),
            "options": {key: str(field.type) for key, field in options(name).items()},
            "references": [r.text for r in m.cites],
        }
        for name, m in catalogue().items()
    ]
    if json:
        emit_json(found)
        return
    for entry in found:
        rows = [
            (key, ", ".join(map(str, value)) if isinstance(value, list) else value)
            for key, value in entry.items()
        ]
        options_text = ", ".join(f"--{k.replace('_', '-')} ({v})" for k, v in entry["options"].items())  # type: ignore[attr-defined] # a dict, by construction
        rows = [(k, options_text if k == "options" else v) for k, v in rows]
        print_table("", ("mechanism", str(entry["name"])), rows[1:])


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="private key to write; FILE.pub gets the public one")],
) -> None:
    """Make an Ed25519 key pair for signing releases."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(private)
        with file.with_name(file.name + ".pub").open("xb") as out:
            out.write(public)
    except OSError as error:
        raise InputError(
            "a new file for the key", f"{file} ({error.strerror})", "choose another name"
        ) from None
    typer.echo(f"private key in {file}, public key in {file}.pub")


def run() -> None:
    """Entry point: user errors become three lines and an exit code, never a traceback."""
    try:
        app()
    except AdumbraError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        notes.print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    run()
