"""The trade-off of utility-aware releases: how well the service does against how well the best adversary does.

Every recipe is fitted on one part of a public table, releases the records of a second as their owner would, and is
attacked by whoever holds the third. The parts are drawn anew for every split, so a recipe that was lucky once shows it
in its deviation.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adumbra.audit.adversaries import STATEMENT, WITHIN, AdversaryReport, SeededCoins, attack_jupa
from adumbra.audit.frontier_picture import frontier_svg
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Progress
from adumbra.common.validation import at_least
from adumbra.jupa.features import Features, Guard, Target
from adumbra.jupa.learning.classifiers import fit_public_model
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe, recipe_options
from adumbra.jupa.release_catalogue import release_kinds, users_of
from adumbra.numerics.splits import parts
from adumbra.releases.staging import move_into_place, staged
from adumbra.tables.read import open_table

__all__ = ["CAUTION", "Frontier", "compare", "default_recipes", "frontier", "labels"]

SHARES = (0.4, 0.2, 0.4)
"""Of the public table: fitted on, released by the owner, held by service and adversary."""
CAUTION = (
    "The best of many recipes looks better than it is, because chance helped to choose it: audit the one you pick on "
    "records that this comparison did not see."
)

_FEWEST = 5
_NO_OPTION = ("utility", "privacy", "release")


@dataclass(frozen=True)
class Frontier:
    """What was measured of every recipe: means and deviations over the splits, as shares of right answers.

    A row `holds` if its worst adaptive adversary, on average, is at most 3 points above chance. `refused` are recipes
    that could not be fitted to this table, with the reason.
    """

    rows: list[dict[str, Any]]
    utility: tuple[str, ...]
    privacy: tuple[str, ...]
    splits: int
    records: tuple[int, int, int]
    """In the first split: fitted on, released by the owner, held by service and adversary."""
    refused: tuple[tuple[str, str], ...] = ()

    def table(self) -> list[dict[str, Any]]:
        """Rows that hold, the most useful first; then the others, the most useful first."""
        return sorted(self.rows, key=lambda row: (not row["holds"], -_or(row["utility"], -1.0)))

    @property
    def best(self) -> dict[str, Any] | None:
        """The most useful row that holds; None if none does."""
        first = self.table()[0]
        return first if first["holds"] else None

    def save(self, folder: Path) -> None:
        """Write picture and tables to a new folder: tradeoff.svg, tradeoff.csv, tradeoff.json."""
        files = {"tradeoff.svg": self.svg(), "tradeoff.csv": self.to_csv(), "tradeoff.json": self.to_json()}
        with staged(folder, numbers=sum(map(len, files.values())), csv=False) as (partial, place):
            for name, text in files.items():
                (partial / name).write_text(text, encoding="utf-8")
            move_into_place(partial, place)

    def to_csv(self) -> str:
        """The table as text, one line for each row; empty where there is no number."""
        rows = [{key: _or(value, "") for key, value in _flat(row).items()} for row in self.table()]
        out = io.StringIO()
        names = list(dict.fromkeys(name for row in rows for name in row))  # not every release has every adversary
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def to_json(self) -> str:
        """The table with everything needed to read it."""
        content = {
            "format": "adumbra-frontier/1",
            "statement": STATEMENT,
            "caution": CAUTION,
            "utility": list(self.utility),
            "privacy": list(self.privacy),
            "splits": self.splits,
            "records": dict(zip(("fitted", "released", "adversary"), self.records, strict=True)),
            "within": WITHIN,
            "rows": [{key: _or(value, None) for key, value in row.items()} for row in self.table()],
            "refused": [{"label": label, "reason": reason} for label, reason in self.refused],
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def svg(self, title: str | None = None) -> str:
        """The picture: one mark for every row."""
        said = title or f"Serve {' and '.join(self.utility)}, hide {' and '.join(self.privacy)}"
        chance = float(np.mean([row["chance"] for row in self.rows]))
        marks = {kind.name: (kind.mark.colour, kind.mark.shape) for kind in release_kinds().values()}
        rows = [row | {"mark": marks.get(row["release"])} for row in self.table()]
        return frontier_svg(rows, chance=chance, within=WITHIN, title=said)


def frontier(
    public: pl.DataFrame,
    recipes: Sequence[JupaRecipe],
    *,
    splits: int = 5,
    seed: int = 0,
    quick: bool = False,
    progress: Progress | None = None,
) -> Frontier:
    """Compare `recipes` for one pair of targets on a `public` table.

    Each of `splits` times the table is split 40 / 20 / 40, every combination of classes by its share; see `SHARES`. All
    recipes see the same splits. The same `seed` gives the same splits and coins (a Laplace release has noise of its
    own). `quick` trains smaller adversaries: for a first impression, not for a decision. `progress(step, done, total)`
    is called before each fit.
    """
    at_least(1, "compare on at least one split", splits=splits)
    recipes = list(dict.fromkeys(recipes))
    utility, privacy = _targets(recipes)
    strata, names = _strata(public, utility, privacy), labels(recipes)
    reports: list[list[AdversaryReport]] = [[] for _ in recipes]
    refused: dict[int, InputError] = {}
    sizes: tuple[int, int, int] | None = None
    for split in range(splits):
        drawn = PublicSeed.given(f"frontier {seed}, split {split}")
        train, owner, adversary = (public[part] for part in parts(drawn.value, strata, SHARES))
        sizes = sizes or (train.height, owner.height, adversary.height)
        trained: dict[bytes, Any] = {}
        for number, recipe in enumerate(recipes):
            if progress is not None:
                progress(f"split {split + 1}: {names[number]}", split * len(recipes) + number, splits * len(recipes))
            if number in refused:
                continue
            try:
                model = fit_jupa(train, recipe, seed=drawn)
                coins = SeededCoins(int.from_bytes(drawn.value, "big"))
                report = attack_jupa(model, adversary, owner, coins=coins, quick=quick, trained=trained)
            except InputError as reason:
                refused[number] = reason
                continue
            reports[number].append(report)
    if len(refused) == len(recipes):
        raise next(iter(refused.values()))
    rows = [
        _row(*each) for number, each in enumerate(zip(recipes, names, reports, strict=True)) if number not in refused
    ]
    assert sizes is not None
    return Frontier(
        rows, utility, privacy, splits, sizes, tuple((names[number], str(why)) for number, why in refused.items())
    )


def compare(
    public: Any,
    shared: Mapping[str, Any],
    *,
    splits: int = 5,
    seed: int = 0,
    quick: bool = False,
    delimiter: str | None = None,
    progress: Progress | None = None,
) -> tuple[Frontier, str | None]:
    """Compare `default_recipes` on the table `public`, a file or a frame (`delimiter`: of a text file).

    `shared` are keywords of `JupaRecipe` that all of them have: utility, privacy, encoding, drop, and the model of
    those that predict. Where the model is left open it is chosen once, and named beside the result. `splits`, `seed`,
    `quick` and `progress` as in `frontier`.
    """
    opened = open_table(public, delimiter=delimiter)
    frame = pl.concat(opened.batches(opened.columns))
    utility, privacy = shared["utility"], shared["privacy"]
    target = Target.fit(frame, utility, "utility")
    recipes = default_recipes(utility, privacy, len(target.classes), quick=quick)
    common = {key: value for key, value in shared.items() if key not in ("utility", "privacy", "model")}
    model, chosen = shared.get("model", "auto"), None
    if model == "auto":  # settled once: every recipe of every split would compare the same models again
        if progress is not None:
            progress("choosing a model", 0, 0)
        model = chosen = _best_model(frame, target, JupaRecipe(utility, privacy, **common))
    predicting = users_of("model")
    recipes = [
        dataclasses.replace(recipe, **common, **({"model": model} if recipe.release in predicting else {}))
        for recipe in recipes
    ]
    return frontier(frame, recipes, splits=splits, seed=seed, quick=quick, progress=progress), chosen


def _best_model(frame: pl.DataFrame, target: Target, recipe: JupaRecipe) -> str:
    """The kind of model that predicts the utility class best, by cross-validation."""
    left_out = {*recipe.utility, *recipe.privacy, *recipe.drop}
    columns = [name for name in frame.columns if name not in left_out]
    rows = Features.fit(frame, columns=columns, encoding=recipe.encoding).encode(frame)
    known = Guard.of(rows).mend(rows)
    return fit_public_model("auto", known, target.of(frame), len(target.classes), seed=b"tradeoff").kind


def default_recipes(
    utility: str | Sequence[str],
    privacy: str | Sequence[str],
    classes: int,
    *,
    columns: int | None = None,
    quick: bool = False,
) -> list[JupaRecipe]:
    """Recipes worth comparing for a `utility` target of `classes` classes and a `privacy` target.

    `quick` gives about half of them, with a linear model of the utility target where the best of several would be
    sought. Repair is for two classes only.

    `columns` is how many numbers a record has, if known: no projection has more components.
    """
    at_least(2, "give the number of classes of the utility target", classes=classes)
    kinds = release_kinds().values()
    return list(
        dict.fromkeys(
            JupaRecipe(utility, privacy, kind=release)
            for kind in kinds
            for release in kind.compared(classes, columns, quick)
        )
    )


def labels(recipes: Sequence[JupaRecipe]) -> list[str]:
    """Short names: the release, and the options in which these recipes differ."""
    used = [recipe.used() for recipe in recipes]
    names = dict.fromkeys(name for options in used for name in options if name not in _NO_OPTION)
    varied = {key for key in names if len({str(options[key]) for options in used if key in options}) > 1}
    found: dict[str, int] = {}
    out = []
    for recipe, options in zip(recipes, used, strict=True):
        words = _words(recipe, options, varied)
        found[words] = found.get(words, 0) + 1
        out.append(words if found[words] == 1 else f"{words} ({found[words]})")
    return out


def _words(recipe: JupaRecipe, options: Mapping[str, Any], varied: set[str]) -> str:
    out = [recipe.kind.label()]
    declared = {one.name: one for one in recipe_options()}
    for key, value in options.items():
        notes, default = declared[key].notes, declared[key].default
        if key in _NO_OPTION or value is None or value is False or (key not in varied and not notes.always_labelled):
            continue
        if _tuple(value) == _tuple(default) and not notes.always_labelled:
            continue
        said = ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in _tuple(value))
        words = notes.label.format(said) if notes.label else key if value is True else f"{key}={said}"
        out += [words] if words not in out else []
    return " ".join(out)


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _targets(recipes: Sequence[JupaRecipe]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The one pair of targets that all recipes have."""
    if not recipes:
        raise InputError("recipes to compare", "none", "use default_recipes(utility, privacy, classes)")
    pairs = {(recipe.utility, recipe.privacy) for recipe in recipes}
    if len(pairs) > 1:
        raise InputError(
            "recipes for one utility and one privacy target", f"{len(pairs)} pairs", "compare each pair for itself"
        )
    return pairs.pop()


def _strata(public: pl.DataFrame, utility: tuple[str, ...], privacy: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """A number for every combination of a utility and a privacy class."""
    useful, secret = Target.fit(public, utility, "utility"), Target.fit(public, privacy, "privacy")
    strata = useful.of(public) * len(secret.classes) + secret.of(public)
    fewest = int(np.unique(strata, return_counts=True)[1].min())
    if fewest < _FEWEST:
        raise InputError(
            f"at least {_FEWEST} public records of every combination of a utility and a privacy class that occurs",
            f"one with {fewest}",
            "group rare classes, or leave their records out",
        )
    return strata


def _row(recipe: JupaRecipe, label: str, reports: Sequence[AdversaryReport]) -> dict[str, Any]:
    used = recipe.used()
    worst, chance = _mean([r.worst for r in reports]), _mean([r.chance for r in reports])
    return {
        "label": label,
        "release": recipe.release,
        **{one.name: used.get(one.name) for one in recipe_options() if one.notes.column},
        "utility": _mean([r.utility for r in reports]),
        "utility_sd": _deviation([r.utility for r in reports]),
        "retrained": _mean([r.retrained for r in reports]),
        "papers": _mean([r.papers for r in reports]),
        "adaptive": {name: _mean([r.adaptive[name] for r in reports]) for name in reports[0].adaptive},
        "worst": worst,
        "worst_sd": _deviation([r.worst for r in reports]),
        "chance": chance,
        "holds": worst - chance <= WITHIN + 1e-12,
        "not_reached": _mean([r.not_reached for r in reports]),
        "records": sum(r.records for r in reports),
        "recipe": recipe.to_dict(),
    }


def _mean(values: Sequence[float]) -> float:
    """NaN as soon as one split could not be measured: a mean over the others would be of easier splits."""
    return float(np.mean(values))


def _deviation(values: Sequence[float]) -> float:
    """Between splits; NaN for one split, which shows none."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row without nesting; the recipe is left to JSON."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if key == "adaptive":
            out |= value
        elif key != "recipe":
            out[key] = value
    return out


def _or(value: Any, instead: Any) -> Any:
    """`instead` of what is not a number, inside a dictionary too."""
    if isinstance(value, dict):
        return {key: _or(one, instead) for key, one in value.items()}
    return instead if value is None or (isinstance(value, float) and math.isnan(value)) else value
