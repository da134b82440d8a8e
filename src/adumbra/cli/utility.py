"""`adumbra jupa`: utility-aware releases. Learn from a public table, apply to private records, compare choices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adumbra.cli.jobs import (
    DelimiterOption,
    FormulaOption,
    JsonOption,
    NameOption,
    SeedOption,
    csv_of,
    note_interrupted,
)
from adumbra.cli.ledgers import LedgerOption, book_of
from adumbra.cli.output import (
    Reporter,
    emit,
    emit_json,
    emit_json_text,
    note,
    print_markdown,
    print_table,
    printing_what_is_in,
)
from adumbra.core.errors import InputError
from adumbra.core.files import new_file
from adumbra.core.interrupts import stop_if_asked

if TYPE_CHECKING:
    import polars as pl

    from adumbra.jupa.features import Target
    from adumbra.jupa.recipe import JupaRecipe

__all__ = ["app"]

app = typer.Typer(
    help="Utility-aware releases: serve one purpose, hide another. NOT differential privacy, unless it says so.",
    no_args_is_help=True,
)

PublicArgument = Annotated[
    str, typer.Argument(metavar="PUBLIC", help="a PUBLIC table with features and both labels; never the private one")
]
UtilityOption = Annotated[list[str], typer.Option(help="label column that the release is to serve; may be repeated")]
PrivacyOption = Annotated[list[str], typer.Option(help="label column that the release is to hide; may be repeated")]
DropOption = Annotated[list[str] | None, typer.Option(help="column that is no feature; may be repeated")]


@app.command()
def fit(
    public: PublicArgument,
    utility: UtilityOption,
    privacy: PrivacyOption,
    out: Annotated[Path, typer.Option(help="model folder to create; must not exist")],
    release: Annotated[
        str,
        typer.Option(help="coarse, fine, resample, respond, repair or laplace; what each promises: docs/jupa.md"),
    ] = "resample",
    projection: Annotated[str, typer.Option(help="jupa, dca, mdr, ruca, pca, random or none")] = "jupa",
    components: Annotated[
        int | None, typer.Option(help="K, numbers that a record becomes", show_default="utility classes - 1")
    ] = None,
    rho0: Annotated[float, typer.Option(help="floor of the denominator, relative to trace/d")] = 1e-3,
    rho1: Annotated[
        list[float] | None, typer.Option(help="weight of a privacy target in the denominator", show_default="1")
    ] = None,
    rho1_prime: Annotated[
        list[float] | None,
        typer.Option(help="weight of a privacy target in the numerator; no privacy knob", show_default="1"),
    ] = None,
    kernel: Annotated[str, typer.Option(help="linear, rbf, laplacian or polynomial projections")] = "linear",
    landmarks: Annotated[int, typer.Option(help="public records that a kernel is spanned by")] = 400,
    epsilon: Annotated[
        float | None, typer.Option(help="respond: for the privacy label; laplace: for the whole record")
    ] = None,
    equalise: Annotated[
        bool, typer.Option("--equalise", help="resample: predictions equally frequent in every privacy class")
    ] = False,
    pool: Annotated[float, typer.Option(help="resample: share of the public records of a class that may be drawn")] = 1
    / 3,
    whole: Annotated[bool, typer.Option("--whole", help="resample: release whole public records")] = False,
    model: Annotated[str, typer.Option(help="who predicts the utility: linear, kernel, boosting or auto")] = "auto",
    bins: Annotated[int, typer.Option(help="repair: how finely the rank is told")] = 2,
    fine_kernel: Annotated[
        str, typer.Option(help="fine: rbf, laplacian, inverse-multiquadric, cauchy or auto")
    ] = "auto",
    bandwidth: Annotated[
        float | None, typer.Option(help="fine: in median distances", show_default="by cross-validation")
    ] = None,
    step: Annotated[float, typer.Option(help="fine: step size in units of the bandwidth")] = 1.0,
    most_steps: Annotated[int, typer.Option(help="fine: steps after which a record has not reached its class")] = 200,
    keep_unreached: Annotated[
        bool, typer.Option("--keep-unreached", help="fine: release records that did not reach their class too")
    ] = False,
    source: Annotated[
        str, typer.Option(help="fine: whose class a record leaves; only 'predicted' (the true one would leak)")
    ] = "predicted",
    clip: Annotated[float, typer.Option(help="laplace: cut each number to so many deviations")] = 2.0,
    encoding: Annotated[str, typer.Option(help="of categories: onehot, or binary as in the paper")] = "onehot",
    drop: DropOption = None,
    seed: SeedOption = None,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Learn a release from a PUBLIC table. The model is public too: it may hold public records."""
    from adumbra.core.randomness import PublicSeed
    from adumbra.jupa.model import fit_jupa
    from adumbra.jupa.recipe import JupaRecipe
    from adumbra.publish import check_target

    check_target(out)
    recipe = JupaRecipe(
        utility=tuple(utility),
        privacy=tuple(privacy),
        projection=projection,
        components=components,
        rho0=rho0,
        rho1=tuple(rho1 or (1.0,)),
        rho1_prime=tuple(rho1_prime or (1.0,)),
        kernel=kernel,
        landmarks=landmarks,
        release=release,
        epsilon=epsilon,
        equalise=equalise,
        pool=pool,
        whole=whole,
        model=model,
        bins=bins,
        fine_kernel=fine_kernel,
        bandwidth=bandwidth,
        step=step,
        most_steps=most_steps,
        keep_unreached=keep_unreached,
        source=source,
        clip=clip,
        encoding=encoding,
        drop=tuple(drop or ()),
    )
    with Reporter("models") as reporter:
        made = fit_jupa(
            public,
            recipe,
            seed=None if seed is None else PublicSeed.given(seed),
            delimiter=delimiter,
            progress=reporter,
        )
        made.save(out)
    facts: dict[str, Any] = {
        "release": f"{recipe.release}: {made.words.title}",
        "serves": f"{', '.join(recipe.utility)} ({len(made.utility.classes)} classes)",
        "hides": f"{', '.join(recipe.privacy)} ({len(made.privacy.classes)} classes)",
        "public records": made.public_rows,
        "features": f"{len(made.features.columns)} columns, {made.features.width} numbers",
        "released": ", ".join(made.columns[:8]) + (" ..." if len(made.columns) > 8 else ""),
        "promise": made.promise,
        "to whom": made.words.to_whom,
        "care": made.words.caution,
    }
    if json:
        emit_json(facts | {"out": str(out), "recipe": recipe.to_dict(), "accuracy_bound": made.words.accuracy_bound})
    else:
        print_table("", ("model", str(out)), list(facts.items()))
    note("the model holds records of PUBLIC or numbers worked out from them: anybody may come to see it")
    note(f"next: adumbra jupa apply {out} TABLE --out DIR; and adumbra audit jupa --model {out} --records LABELLED")


@app.command()
def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model folder of adumbra jupa fit")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="private records: CSV, TSV, Parquet or Arrow, or -")],
    out: Annotated[Path, typer.Option(help="folder to create; must not exist")],
    ledger: LedgerOption = None,
    delimiter: DelimiterOption = None,
    name: NameOption = None,
    csv: Annotated[bool, typer.Option("--csv", help="also write data.csv")] = False,
    formula_safe: FormulaOption = False,
    sign: Annotated[Path | None, typer.Option(help="Ed25519 private key (PEM) to sign the card with")] = None,
    json: JsonOption = False,
) -> None:
    """Release private records by a fitted model, into a folder that may be published. The card comes with it.

    A ledger is charged for a laplace release only: the others are not differentially private.
    """
    from adumbra.core.card_text import card_markdown
    from adumbra.core.release import UtilityFolder
    from adumbra.core.utility_card_text import utility_card_markdown
    from adumbra.jupa.apply import apply_jupa
    from adumbra.jupa.model import JupaModel
    from adumbra.publish import check_target

    check_target(out)
    fitted = JupaModel.load(model)
    private = fitted.recipe.release == "laplace"
    book = book_of(ledger) if private or ledger is not None else None
    owner: list[str] = []
    try:
        with Reporter("records") as reporter:
            folder = apply_jupa(
                fitted,
                table,
                out,
                ledger=book,
                csv=csv_of(csv, formula_safe),
                signing_key=sign,
                name=name,
                delimiter=delimiter,
                progress=reporter,
                tell=owner.append,
            )
        stop_if_asked()
    except KeyboardInterrupt as stopped:
        note_interrupted(stopped, out, book if private else None)
        raise typer.Exit(130) from None
    with printing_what_is_in(out, charged=private and book is not None):
        if json:
            emit_json(folder.card.model_dump(mode="json") | {"folder": str(out)})
        elif isinstance(folder, UtilityFolder):
            print_markdown(utility_card_markdown(folder.card))
        else:
            print_markdown(card_markdown(folder.card))
    if isinstance(folder, UtilityFolder) and folder.card.not_reached:
        kept = "released all the same" if folder.card.rows == folder.card.table_rows else "left out"
        note(f"{folder.card.not_reached} of {folder.card.table_rows} records did not reach their class and were {kept}")
    if owner:
        note("for the owner only (private, not in the release):")
    for line in owner[:20]:
        note(line)
    charged = f"; charged to {book.path}" if book is not None and private else ""
    note(f"released to {out}{charged}")


@app.command()
def reference(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model folder of adumbra jupa fit")],
    table: Annotated[str, typer.Argument(metavar="PUBLIC", help="PUBLIC records; never private ones")],
    out: Annotated[Path, typer.Option(help="reference.parquet to write")],
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """PUBLIC records in the coordinates of the release, unprotected, with their labels: what a service trains on."""
    import polars as pl

    from adumbra.core.tabular import write_parquet
    from adumbra.jupa.model import JupaModel
    from adumbra.table.read import open_table

    if os.path.lexists(out) or out.suffix != ".parquet":
        raise InputError("a new .parquet file", f"{out}", "choose another --out")
    fitted = JupaModel.load(model)
    opened = open_table(table, delimiter=delimiter)
    frame = pl.concat(opened.batches(opened.columns))
    plain = fitted.unperturbed(frame)
    labels = [name for name in (*fitted.utility.columns, *fitted.privacy.columns) if name in frame.columns]
    found = pl.DataFrame({name: plain[:, i] for i, name in enumerate(fitted.columns)}).hstack(frame[labels])
    with new_file(out) as file:
        write_parquet(found, file)
    if json:
        emit_json({"out": str(out), "records": found.height, "columns": found.columns})
    note(f"{found.height} records written to {out}: nothing about them is protected")


@app.command()
def tradeoff(
    public: PublicArgument,
    utility: UtilityOption,
    privacy: PrivacyOption,
    out: Annotated[Path, typer.Option(help="folder to create: tradeoff.svg, tradeoff.csv, tradeoff.json")],
    splits: Annotated[int, typer.Option(help="fresh splits to average over")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="fewer releases, smaller adversaries: a first look")] = False,
    model: Annotated[str, typer.Option(help="who predicts the utility: linear, kernel, boosting or auto")] = "auto",
    encoding: Annotated[str, typer.Option(help="of categories: onehot, or binary as in the paper")] = "onehot",
    drop: DropOption = None,
    seed: Annotated[int, typer.Option(help="of the splits")] = 0,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Compare releases on a PUBLIC table: how useful, and how much the best adversary found learns all the same."""
    import polars as pl

    from adumbra.audit.adversaries import STATEMENT
    from adumbra.audit.frontier import CAUTION, default_recipes, frontier
    from adumbra.jupa.features import Target
    from adumbra.table.read import open_table

    if os.path.lexists(out):
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")
    opened = open_table(public, delimiter=delimiter)
    frame = pl.concat(opened.batches(opened.columns))
    target = Target.fit(frame, utility, "utility")
    recipes = default_recipes(utility, privacy, len(target.classes), quick=quick)
    with Reporter("fits") as reporter:
        if model == "auto":  # settled once: every recipe of every split would compare the same models again
            reporter("choosing a model", 0, 0)
            model = _best_model(frame, target, {*utility, *privacy, *(drop or ())}, encoding)
            note(f"the utility is predicted by the {model} model")
        recipes = _with(recipes, model, encoding, tuple(drop or ()))
        found = frontier(frame, recipes, splits=splits, seed=seed, quick=quick, progress=reporter)
    _write(out, {"tradeoff.svg": found.svg(), "tradeoff.csv": found.to_csv(), "tradeoff.json": found.to_json()})
    if json:
        emit_json_text(found.to_json())
    else:
        print_table(
            f"serve {', '.join(utility)}, hide {', '.join(privacy)}: per cent, means of fresh splits: {splits}",
            ("release", "service", "retrained", "paper's adversary", "worst adaptive", "chance", "holds", "unreached"),
            [
                (
                    row["label"],
                    _with_sd(row["utility"], row["utility_sd"]),
                    _percent(row["retrained"]),
                    _percent(row["papers"]),
                    _with_sd(row["worst"], row["worst_sd"]),
                    _percent(row["chance"]),
                    "yes" if row["holds"] else "no",
                    _percent(row["not_reached"]),
                )
                for row in found.table()
            ],
        )
        for label, reason in found.refused:
            note(f"not tried: {label} ({reason})")
        emit(f"{STATEMENT} {CAUTION}\n")
    note(f"picture and tables in {out}")


def _best_model(frame: pl.DataFrame, target: Target, left_out: set[str], encoding: str) -> str:
    """The kind of model that predicts the utility class best, by cross-validation."""
    from adumbra.jupa.features import Features, Guard
    from adumbra.jupa.scoring import fit_public_model

    rows = Features.fit(
        frame, columns=[name for name in frame.columns if name not in left_out], encoding=encoding
    ).encode(frame)
    known = Guard.of(rows).mend(rows)
    return fit_public_model("auto", known, target.of(frame), len(target.classes), seed=b"tradeoff").kind


def _with(recipes: list[JupaRecipe], model: str, encoding: str, drop: tuple[str, ...]) -> list[JupaRecipe]:
    """The same recipes for these records."""
    import dataclasses

    predicting = ("resample", "respond", "repair")
    return [
        dataclasses.replace(
            recipe, encoding=encoding, drop=drop, model=model if recipe.release in predicting else recipe.model
        )
        for recipe in recipes
    ]


def _write(folder: Path, files: dict[str, str]) -> None:
    from adumbra.publish import check_target, staged

    with staged(folder, numbers=sum(map(len, files.values())), csv=False) as (partial, place):
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8")
        check_target(place)
        partial.rename(place)


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f}"  # NaN where nothing was released


def _with_sd(share: float, deviation: float) -> str:
    return _percent(share) + ("" if deviation != deviation else f" ± {100 * deviation:.1f}")
