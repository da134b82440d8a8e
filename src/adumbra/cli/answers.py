"""`adumbra answer DIR ...`: what an analyst asks a release. Every answer carries a value and a standard error."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from adumbra.cli.keys import PublicKeyOption, TrustedOption, keys_of
from adumbra.cli.output import emit_json, note, print_frame
from adumbra.cli.release_command import EXTRA_OPTIONS, FormulaOption, extra_options
from adumbra.common.errors import InputError
from adumbra.common.files import new_file
from adumbra.common.validation import split_names

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from adumbra.kinds.estimates import Estimate
    from adumbra.result import Release

__all__ = ["app"]


class _Questions(TyperGroup):
    """Options that all questions share may stand anywhere: before the folder, or among those of the question."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring the shared ones to the front, where the group reads them."""
        shared, own, rest = [], [], list(args)
        while rest:
            word = rest.pop(0)
            if word in ("--trusted", "--formula-safe") or word.startswith("--public-key="):
                shared.append(word)
            elif word == "--public-key" and rest:
                shared += [word, rest.pop(0)]
            else:
                own.append(word)
        return super().parse_args(ctx, shared + own)


app = typer.Typer(
    cls=_Questions,
    help="Ask a release: distances, counts, ranges, workloads, means, moments, principal axes, or whatever it answers.",
    no_args_is_help=True,
)

JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable output")]
MuOption = Annotated[float, typer.Option(help="share of answers that may be further off than eta")]


@dataclass(frozen=True)
class _FolderAsked:
    """What all questions share: the folder, who must have signed it, and how CSV is written."""

    folder: Path
    public_key: Path | None
    trusted: bool
    formula_safe: bool


@app.callback()
def opened(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")],
    public_key: PublicKeyOption = None,
    trusted: TrustedOption = False,
    formula_safe: FormulaOption = False,
) -> None:
    """Ask a release: distances, counts, ranges, workloads, means, moments, principal axes, or whatever it answers."""
    if not ctx.resilient_parsing:
        ctx.obj = _FolderAsked(folder, public_key, trusted, formula_safe)


def _release(ctx: typer.Context) -> Release:
    from adumbra.result import load

    release = load(ctx.obj.folder)
    release.demand(keys_of(ctx.obj.public_key, ctx.obj.trusted))  # a changed file would carry a wrong error bar
    return release


def _show(ctx: typer.Context, frame: pl.DataFrame, json: bool) -> None:
    print_frame(frame, json, formula_safe=ctx.obj.formula_safe)


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
        wanted = release.random_pairs(random, seed)
    else:
        assert pairs is not None
        wanted = _read_pairs(pairs)
    _show(ctx, release.distances(wanted), json)


def _read_pairs(path: Path) -> NDArray[np.int64]:
    import polars as pl

    try:
        # read as text: a cell that is no whole number must be refused, not become null or be cut
        frame = pl.read_csv(path, columns=["i", "j"], infer_schema=False).cast(pl.Int64)
        if frame.null_count().sum_horizontal().sum():
            raise ValueError
    except (OSError, ValueError, pl.exceptions.PolarsError):
        raise InputError(
            "a CSV of pairs with whole-number columns i and j",
            f"{path}",
            "write a header i,j and row numbers from 0",
        ) from None
    return frame.select("i", "j").to_numpy()


@app.command()
def neighbours(
    ctx: typer.Context,
    row: Annotated[int, typer.Option(help="row number, from 0")],
    k: Annotated[int, typer.Option(help="how many")] = 10,
    json: JsonOption = False,
) -> None:
    """The rows that come out nearest to one row."""
    _show(ctx, _release(ctx).neighbours(row, k), json)


def _print(ctx: typer.Context, estimate: Estimate, json: bool) -> None:
    from dataclasses import asdict

    import polars as pl

    _show(ctx, pl.DataFrame([asdict(estimate)]), json)


@app.command()
def count(
    ctx: typer.Context,
    where: Annotated[
        list[str],
        typer.Option(
            help="COLUMN=VALUE; of counted cells also COLUMN=LOW..HIGH, and COLUMN= for missing ones; repeatable"
        ),
    ],
    mu: MuOption = 0.05,
    json: JsonOption = False,
) -> None:
    """How many rows have a value (counted cells: how many fulfil all conditions)."""
    (column, value), *others = _conditions(where).items()
    _print(ctx, _release(ctx).count(column, value, dict(others), mu), json)


def _conditions(given: list[str]) -> dict[str, str]:
    from adumbra.kinds.conditions import condition, with_condition

    out: dict[str, str] = {}
    for text in given:
        out = with_condition(*condition(text), out)
    return out


@app.command()
def mean(
    ctx: typer.Context,
    column: Annotated[str, typer.Option(help="a number or flag column")],
    json: JsonOption = False,
) -> None:
    """Mean of a number column, share of yes of a flag, in the table's own units."""
    _print(ctx, _release(ctx).mean(column), json)


@app.command()
def linear(
    ctx: typer.Context,
    weights: Annotated[str, typer.Option(help="COLUMN=WEIGHT,COLUMN=WEIGHT of number and flag columns")],
    json: JsonOption = False,
) -> None:
    """Mean over rows of a weighted sum of columns."""
    parsed: dict[str, float] = {}
    for part in weights.split(","):
        name, _, weight = (piece.strip() for piece in part.rpartition("="))
        try:
            value = float(weight)
        except ValueError:
            value = math.nan
        if not (name and math.isfinite(value)):
            raise InputError("--weights COLUMN=WEIGHT,...", f"{weights!r}", "give each column a number")
        if name in parsed:
            raise InputError("each column once in --weights", f"{name!r} twice", "add its weights up")
        parsed[name] = value
    _print(ctx, _release(ctx).linear(parsed), json)


@app.command()
def moment(
    ctx: typer.Context,
    columns: Annotated[str, typer.Option(help="A,B,...: number and flag columns")],
    json: JsonOption = False,
) -> None:
    """Covariances of columns: a, b, value, standard_error."""
    _show(ctx, _release(ctx).covariance(split_names(columns, "--columns")), json)


@app.command()
def axes(
    ctx: typer.Context,
    top: Annotated[int, typer.Option(help="how many of the largest loadings to show for each")] = 3,
    loadings: Annotated[bool, typer.Option("--loadings", help="all loadings: coordinates by components")] = False,
    json: JsonOption = False,
) -> None:
    """Principal components: variance, error bars, largest loadings (lip, lop, analyze_gauss, power_method)."""
    release = _release(ctx)
    _show(ctx, release.loadings() if loadings else release.axes(top), json)


@app.command()
def project(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="another table of the same columns: your own", metavar="TABLE")],
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write")],
    delimiter: Annotated[str | None, typer.Option(help="field separator of a text table, for example ';'")] = None,
    json: JsonOption = False,
) -> None:
    """Rows of another table along the released axes, exactly: nothing about those rows is protected."""
    from adumbra.api import project as along_axes

    # the rows are the analyst's own, and exact: the file is for nobody else
    _write(ctx, along_axes(_release(ctx), table, delimiter=delimiter), out, json, private=True)


@app.command("range")
def range_(
    ctx: typer.Context,
    column: Annotated[str, typer.Option(help="a column of numbers, dates or other values in order")],
    low: Annotated[str | None, typer.Option("--from", help="smallest value counted")] = None,
    high: Annotated[str | None, typer.Option("--to", help="largest value counted")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE or COLUMN=LOW..HIGH of another column; repeatable")
    ] = None,
    mu: MuOption = 0.05,
    json: JsonOption = False,
) -> None:
    """How many rows fall in a range (releases of counted cells)."""
    _print(ctx, _release(ctx).range(column, low, high, _conditions(where or []), mu), json)


@app.command()
def marginal(
    ctx: typer.Context,
    columns: Annotated[str, typer.Option(help="A,B,...: columns of the domain")],
    mu: MuOption = 0.05,
    json: JsonOption = False,
) -> None:
    """The count of every combination of values of some columns (releases of counted cells)."""
    _show(ctx, _release(ctx).marginal(split_names(columns, "--columns"), mu), json)


@app.command()
def workload(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="CSV or JSON file of queries", metavar="FILE")],
    mu: MuOption = 0.05,
    out: Annotated[Path | None, typer.Option(help="CSV or Parquet file to write the answers to")] = None,
    json: JsonOption = False,
) -> None:
    """Many queries at once (releases of counted cells)."""
    found = _release(ctx).workload(file, mu)
    if out is None:
        _show(ctx, found, json)
    else:
        _write(ctx, found, out, json)


@app.command()
def reconstruct(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write")],
    json: JsonOption = False,
) -> None:
    """Least-squares rows in the schema's own columns and types (noisy; for single rows mostly noise)."""
    _write(ctx, _release(ctx).reconstruct(), out, json)


@app.command(context_settings=EXTRA_OPTIONS)
def ask(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="a question that the card lists", metavar="QUESTION")],
    json: JsonOption = False,
) -> None:
    """Any question that the card lists, with its terms as --name value: for kinds of release of other packages."""
    from adumbra.cli.question_terms import answer_frame, terms_of

    release = _release(ctx)
    terms = terms_of(release, question, extra_options(ctx.args))
    _show(ctx, answer_frame(release.ask(question, **terms)), json)


def _write(ctx: typer.Context, frame: pl.DataFrame, out: Path, json: bool, *, private: bool = False) -> None:
    from adumbra.common.csv_forms import FORMULA_SAFE, write_csv, write_parquet

    if os.path.lexists(out) or out.suffix not in (".csv", ".parquet"):
        raise InputError("a new .csv or .parquet file", f"{out}", "choose another --out")
    with new_file(out, private=private) as file:
        if out.suffix == ".csv":
            write_csv(frame, file, FORMULA_SAFE if ctx.obj.formula_safe else True)
        else:
            write_parquet(frame, file)
    if json:
        emit_json({"out": str(out), "rows": len(frame)})
    note(f"{len(frame)} rows written to {out}")
