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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from adumbra.audit.adversaries import STATEMENT, WITHIN, AdversaryReport, SeededCoins, attack_jupa
from adumbra.audit.frontier_picture import frontier_svg
from adumbra.core.errors import InputError
from adumbra.core.randomness import PublicSeed
from adumbra.core.validation import at_least
from adumbra.jupa.features import Target
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.linalg.splits import parts

__all__ = ["CAUTION", "Frontier", "default_recipes", "frontier", "labels"]

Progress = Callable[[str, int, int], None]

SHARES = (0.4, 0.2, 0.4)
"""Of the public table: fitted on, released by the owner, held by service and adversary."""
CAUTION = (
    "The best of many recipes looks better than it is, because chance helped to choose it: audit the one you pick on "
    "records that this comparison did not see."
)

_FEWEST = 5
_OPTIONS = ("projection", "components", "rho0", "bins", "epsilon", "equalise", "whole")
_ALWAYS = ("bins", "epsilon", "equalise", "whole")
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
        return frontier_svg(self.table(), chance=chance, within=WITHIN, title=said)


def frontier(
    public: pl.DataFrame,
    recipes: Sequence[JupaRecipe],
    *,
    splits: int = 5,
    seed: int = 0,
    quick: bool = False,
    progress: Progress | None = None,
) -> Frontier:
    """Compare recipes for one pair of targets on a public table.

    Each of `splits` times the table is cut 40 / 20 / 40, every combination of classes by its share; see `SHARES`. All
    recipes see the same cuts. The same seed gives the same cuts and coins (a Laplace release has noise of its own).
    `quick` trains smaller adversaries: for a first look, not for a decision.
    """
    at_least(1, "compare on at least one split", splits=splits)
    recipes = list(dict.fromkeys(recipes))
    utility, privacy = _targets(recipes)
    strata = _strata(public, utility, privacy)
    names = labels(recipes)
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


def default_recipes(
    utility: str | Sequence[str],
    privacy: str | Sequence[str],
    classes: int,
    *,
    columns: int | None = None,
    quick: bool = False,
) -> list[JupaRecipe]:
    """Recipes worth comparing for a utility target of `classes` classes.

    `quick` gives about half of them, with a linear model of the utility target where the best of several would be
    sought. Repair is for two classes only.

    `columns` is how many numbers a record has, if known: no projection has more components.
    """
    at_least(2, "give the number of classes of the utility target", classes=classes)
    base = classes - 1 if columns is None else min(classes - 1, columns)
    more = [k for k in ((1, base, base + 2, 2 * base) if not quick else (base,)) if columns is None or k <= columns]

    predicted: dict[str, Any] = {"model": "linear"} if quick else {}

    def made(**options: Any) -> JupaRecipe:
        return JupaRecipe(utility, privacy, **options)  # type: ignore[arg-type]  # one name is taken too

    out = [made(release="coarse", components=k) for k in sorted(set(more))]
    floors = (1e-1,) if quick else (1e-4, 1e-2, 1e-1, 1.0)
    out += [made(release="coarse", components=base, rho0=floor) for floor in floors]
    plain = ("pca", "dca") if quick else ("dca", "mdr", "pca", "random")
    out += [made(release="coarse", components=base, projection=kind) for kind in plain]
    out += [made(release="fine")]
    out += [made(release="resample", equalise=equalise, **predicted) for equalise in (False, True)]
    if not quick:
        out.append(made(release="resample", whole=True))
    if classes == 2:
        out += [made(release="repair", bins=bins, **predicted) for bins in ((2, 8) if quick else (2, 4, 8, 16))]
    labels_only = (1.0,) if quick else (0.5, 1.0, 2.0)
    out += [made(release="respond", epsilon=epsilon, **predicted) for epsilon in labels_only]
    out += [made(release="laplace", epsilon=epsilon) for epsilon in ((4.0,) if quick else (1.0, 4.0))]
    return list(dict.fromkeys(out))


def labels(recipes: Sequence[JupaRecipe]) -> list[str]:
    """Short names: the release, and the options in which these recipes differ."""
    used = [recipe.used() for recipe in recipes]
    varied = {
        key
        for key in (field.name for field in dataclasses.fields(JupaRecipe))
        if key not in _NO_OPTION and len({str(options[key]) for options in used if key in options}) > 1
    }
    found: dict[str, int] = {}
    out = []
    for recipe, options in zip(recipes, used, strict=True):
        words = _words(recipe, options, varied)
        found[words] = found.get(words, 0) + 1
        out.append(words if found[words] == 1 else f"{words} ({found[words]})")
    return out


def _words(recipe: JupaRecipe, options: dict[str, Any], varied: set[str]) -> str:
    out = [recipe.projection if recipe.release == "coarse" else recipe.release]
    if recipe.release != "coarse" and recipe.projection != "jupa" and "projection" in varied:
        out.append(recipe.projection)
    defaults = {field.name: field.default for field in dataclasses.fields(JupaRecipe)}
    for key, value in options.items():
        if key in _NO_OPTION or key == "projection" or (key not in varied and key not in _ALWAYS):
            continue
        if key == "bins":
            out.append(f"{value} bins")
        elif key == "components":
            out += [f"K={value}"] if value is not None else []
        elif value is True:
            out.append({"equalise": "equalised", "whole": "whole records"}.get(key, key))
        elif value is not False and getattr(recipe, key) != defaults[key]:
            said = ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in np.atleast_1d(value).tolist())
            out.append(f"{key}={said}")
    return " ".join(out)


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
        **{key: used.get(key) for key in _OPTIONS},
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
