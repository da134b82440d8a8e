"""`adumbra jupa`: utility-aware releases. Learn from a public table, apply to private records, compare choices."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from adumbra.cli.ledgers import LedgerOption, book_of
from adumbra.cli.output import (
    Reporter,
    emit_json,
    emit_json_text,
    note,
    print_markdown,
    print_table,
    printing_what_is_in,
    show,
)
from adumbra.cli.release_command import (
    DelimiterOption,
    FormulaOption,
    JsonOption,
    NameOption,
    SeedOption,
    csv_of,
    note_interrupted,
)
from adumbra.common.errors import InputError
from adumbra.common.interrupts import stop_if_asked

if TYPE_CHECKING:
    from adumbra.releases.folder import ReleaseFolder, UtilityFolder

__all__ = ["app"]

app = typer.Typer(
    help="Utility-aware releases: serve one purpose, hide another. NOT differential privacy, unless it says so.",
    no_args_is_help=True,
)

PublicArgument = Annotated[
    str, typer.Argument(metavar="PUBLIC", help="a PUBLIC table with features and both labels; never the private one")
]


class RecipeCommand(TyperCommand):
    """A command that takes a recipe: its options are those that recipe and kinds of release declare.

    They are looked up when the command is parsed or its help is asked for, not before: that imports numerics.
    """

    taken: Sequence[str] | None = None
    """Names of the options that are taken; None takes all of them."""

    _form: Any = None
    """What makes the recipe's options; None until they are asked for."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own, with those of the recipe after the arguments and the required ones."""
        self._form = self._form or _recipe_form(self.taken)
        own = super().get_params(ctx)
        return [*(p for p in own if p.required), *self._form.params, *(p for p in own if not p.required)]

    def invoke(self, ctx: Any) -> Any:
        """The recipe's options are kept apart for `recipe_options`."""
        given = {one.name: ctx.params.pop(one.name) for one in self._form.params}
        ctx.meta[__name__] = self._form.callback(**given)
        return super().invoke(ctx)


class TargetsCommand(RecipeCommand):
    """A command that takes what recipes of all kinds have in common, and the model that predicts."""

    taken = ("utility", "privacy", "model", "encoding", "drop")


def _recipe_form(taken: Sequence[str] | None) -> Any:
    """A command of which only parameters and conversion are used: the keywords of a recipe that were given."""
    from adumbra.jupa.recipe import recipe_options

    fields = [one for one in recipe_options() if taken is None or one.name in taken]

    def form(**given: Any) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value is not None and value != []}

    parameters, hints = [], {}
    for one in fields:
        kind, default, shown = one.as_typed()
        names = [f"--{one.name.replace('_', '-')}"] if kind is bool else []
        hints[one.name] = Annotated[kind, typer.Option(*names, help=one.help, show_default=shown or True)]
        parameters.append(
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[one.name])
        )
    form.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # functions may have one
    form.__annotations__ = hints
    made = typer.Typer(add_completion=False)
    made.command()(form)
    return typer.main.get_command(made)


def recipe_options(ctx: typer.Context) -> dict[str, Any]:
    """The keywords of a recipe that the command line gave."""
    options: dict[str, Any] = ctx.meta[__name__]
    return options


@app.command(cls=RecipeCommand)
def fit(
    ctx: typer.Context,
    public: PublicArgument,
    out: Annotated[Path, typer.Option(help="model folder to create; must not exist")],
    seed: SeedOption = None,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Learn a release from a PUBLIC table. The model is public too: it may hold public records."""
    from adumbra.jupa.model import fit_jupa
    from adumbra.jupa.recipe import JupaRecipe
    from adumbra.releases.staging import check_target

    check_target(out)
    recipe = JupaRecipe(**recipe_options(ctx))
    with Reporter("models") as reporter:
        made = fit_jupa(public, recipe, seed=seed, delimiter=delimiter, progress=reporter)
        made.save(out)
    facts = made.facts()
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
    from adumbra.jupa.apply import apply_jupa
    from adumbra.jupa.model import JupaModel
    from adumbra.releases.staging import check_target

    check_target(out)
    fitted = JupaModel.load(model)
    private = fitted.recipe.kind.charged
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
        _print_card(folder, out, json)
    for line in _owner_lines(folder, owner):
        note(line)
    charged = f"; charged to {book.name}" if book is not None and private else ""
    note(f"released to {out}{charged}")


def _print_card(folder: UtilityFolder | ReleaseFolder, out: Path, json: bool) -> None:
    from adumbra.releases.card_page import card_markdown

    if json:
        emit_json(folder.card.model_dump(mode="json") | {"folder": str(out)})
    else:
        print_markdown(card_markdown(folder.card))


def _owner_lines(folder: UtilityFolder | ReleaseFolder, owner: list[str]) -> list[str]:
    from adumbra.releases.card import UtilityCard

    card, out = folder.card, []
    if isinstance(card, UtilityCard) and card.not_reached:
        kept = "released all the same" if card.rows == card.table_rows else "left out"
        out.append(f"{card.not_reached} of {card.table_rows} records did not reach their class and were {kept}")
    return [*out, *(["for the owner only (private, not in the release):"] if owner else []), *owner[:20]]


@app.command()
def reference(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model folder of adumbra jupa fit")],
    table: Annotated[str, typer.Argument(metavar="PUBLIC", help="PUBLIC records; never private ones")],
    out: Annotated[Path, typer.Option(help="reference.parquet to write")],
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """PUBLIC records in the coordinates of the release, unprotected, with their labels: what a service trains on."""
    from adumbra.jupa.model import JupaModel
    from adumbra.jupa.reference import write_reference

    if os.path.lexists(out) or out.suffix != ".parquet":
        raise InputError("a new .parquet file", f"{out}", "choose another --out")
    records, columns = write_reference(JupaModel.load(model), table, out, delimiter=delimiter)
    if json:
        emit_json({"out": str(out), "records": records, "columns": columns})
    note(f"{records} records written to {out}: nothing about them is protected")


@app.command(cls=TargetsCommand)
def tradeoff(
    ctx: typer.Context,
    public: PublicArgument,
    out: Annotated[Path, typer.Option(help="folder to create: tradeoff.svg, tradeoff.csv, tradeoff.json")],
    splits: Annotated[int, typer.Option(help="fresh splits to average over")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="fewer releases, smaller adversaries")] = False,
    seed: Annotated[int, typer.Option(help="of the splits")] = 0,
    delimiter: DelimiterOption = None,
    json: JsonOption = False,
) -> None:
    """Compare releases on a PUBLIC table: how useful, and how much the best adversary found learns all the same."""
    from adumbra.audit.frontier_document import frontier_document
    from adumbra.audit.utility_frontier import compare

    if os.path.lexists(out):
        raise InputError("an --out that does not exist yet", f"{out} exists", "choose another name")
    with Reporter("fits") as reporter:
        found, model = compare(
            public, recipe_options(ctx), splits=splits, seed=seed, quick=quick, delimiter=delimiter, progress=reporter
        )
    found.save(out)
    if model is not None:
        note(f"the utility is predicted by the {model} model")
    if json:
        emit_json_text(found.to_json())
    else:
        show(frontier_document(found))
    note(f"picture and tables in {out}")
