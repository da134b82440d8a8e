"""`adumbra answer DIR ...`: what an analyst asks a release. Every answer carries a value and a standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from adumbra.answer.projected import Estimate
from adumbra.answer.release import Release, load
from adumbra.cli.output import notes, print_frame
from adumbra.core.errors import InputError
from adumbra.core.validation import at_least

__all__ = ["app"]

app = typer.Typer(help="Ask a release: distances, neighbours, counts, means, moments.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]


@app.callback()
def opened(
    ctx: typer.Context, folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")]
) -> None:
    """Ask a release: distances, neighbours, counts, means, moments."""
    if not ctx.resilient_parsing:
        ctx.obj = folder


def _release(ctx: typer.Context) -> Release:
    return load(ctx.obj)


@app.command()
def distance(
    ctx: typer.Context,
    pairs: Annotated[Path | None, typer.Option(help="CSV with columns i, j (rows numbered from 0)")] = None,
    random: Annotated[int | None, typer.Option(help="this many random pairs instead")] = None,
    seed: Annotated[int, typer.Option(help="which random pairs")] = 0,
    json: JsonOption = False,
) -> None:
    """Squared distances between released rows: i, j, squared_distance, standard_error."""
    release = _release(ctx)
    if (pairs is None) == (random is None):
        raise InputError("either --pairs FILE.csv or --random N", "both or neither", "give one of them")
    if random is not None:
        at_least(1, "ask for at least one pair", random=random)
        wanted = release.random_pairs(random, seed)
    else:
        assert pairs is not None
        wanted = _read_pairs(pairs)
    print_frame(release.distances(wanted), json)


def _read_pairs(path: Path):  # type: ignore[no-untyped-def] # an integer array
    try:
        frame = pl.read_csv(path, columns=["i", "j"], schema_overrides={"i": pl.Int64, "j": pl.Int64})
        if frame.null_count().sum_horizontal().item():
            raise ValueError
        return frame.to_numpy()
    except (OSError, ValueError, pl.exceptions.PolarsError):
        raise InputError(
            "a CSV of pairs with whole-number columns i and j",
            f"{path}",
            "write a header i,j and row numbers from 0",
        ) from None


@app.command()
def neighbours(
    ctx: typer.Context,
    row: Annotated[int, typer.Option(help="row number, from 0")],
    k: Annotated[int, typer.Option(help="how many")] = 10,
    json: JsonOption = False,
) -> None:
    """The rows that come out nearest to one row."""
    print_frame(_release(ctx).neighbours(row, k), json)


def _print(estimate: Estimate, as_json: bool) -> None:
    print_frame(pl.DataFrame([{"value": estimate.value, "standard_error": estimate.standard_error}]), as_json)


@app.command()
def count(
    ctx: typer.Context,
    where: Annotated[str, typer.Option(help="COLUMN=VALUE of a category or flag")],
    json: JsonOption = False,
) -> None:
    """How many rows have a value."""
    column, equals, value = where.partition("=")
    if not equals:
        raise InputError("--where COLUMN=VALUE", f"{where!r}", "put = between them")
    _print(_release(ctx).count(column, value), json)


@app.command()
def mean(
    ctx: typer.Context,
    column: Annotated[str, typer.Option(help="a number or flag column")],
    json: JsonOption = False,
) -> None:
    """Mean of a number column, share of yes of a flag, in the table's own units."""
    _print(_release(ctx).mean(column), json)


@app.command()
def linear(
    ctx: typer.Context,
    weights: Annotated[str, typer.Option(help="COLUMN=WEIGHT,COLUMN=WEIGHT of number and flag columns")],
    json: JsonOption = False,
) -> None:
    """Mean over rows of a weighted sum of columns."""
    parsed = {}
    for part in weights.split(","):
        name, equals, weight = part.partition("=")
        try:
            parsed[name.strip()] = float(weight) if equals else float("nan")
        except ValueError:
            parsed[name.strip()] = float("nan")
    if any(w != w for w in parsed.values()):
        raise InputError("--weights COLUMN=WEIGHT,...", f"{weights!r}", "give each column a number")
    _print(_release(ctx).linear(parsed), json)


@app.command()
def moment(
    ctx: typer.Context,
    columns: Annotated[str, typer.Option(help="A,B,...: number and flag columns")],
    json: JsonOption = False,
) -> None:
    """Covariances of columns: a, b, value, standard_error."""
    print_frame(_release(ctx).covariance([c.strip() for c in columns.split(",")]), json)


@app.command()
def reconstruct(
    ctx: typer.Context, out: Annotated[Path, typer.Option(help="CSV or Parquet file to write")]
) -> None:
    """Least-squares rows in the schema's own columns and types (noisy; for single rows mostly noise)."""
    if out.exists() or out.suffix not in (".csv", ".parquet"):
        raise InputError("a new .csv or .parquet file", f"{out}", "choose another --out")
    frame: pl.DataFrame = _release(ctx).reconstruct()
    try:
        frame.write_csv(out) if out.suffix == ".csv" else frame.write_parquet(out)
    except OSError as error:
        raise InputError("a place to write", f"{out} ({error.strerror})", "choose another --out") from None
    notes.print(f"{len(frame)} rows written to {out}")
