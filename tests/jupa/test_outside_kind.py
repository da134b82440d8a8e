"""A kind of release that is defined outside the package: found, fitted, applied, saved, loaded, drawn and attacked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

from adumbra.audit.utility_audit import audit_bundled, audit_jupa, bundled_records
from adumbra.audit.utility_frontier import default_recipes, frontier, labels
from adumbra.common import plugins
from adumbra.common.errors import InputError
from adumbra.jupa.apply import apply_jupa
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe, recipe_options
from adumbra.jupa.release_catalogue import ENTRY_POINTS, release_kinds
from adumbra.jupa.release_kind import NO_DP, FittedRelease, JupaRelease, Outcome, PictureMark, Statement, option


@dataclass(frozen=True)
class Coin(JupaRelease):
    """The utility class of the nearest class mean, told truly with a probability, else as a coin falls."""

    name: ClassVar[str] = "coin"
    title: ClassVar[str] = "the predicted utility class, or what a coin says"
    mark: ClassVar[PictureMark] = PictureMark("#ff00ff", "diamond")

    truth: float = option(0.5, "how often the prediction is told", label="truth {}", always_labelled=True, column=True)

    def check_options(self):
        if not 0 <= self.truth <= 1:
            raise InputError("0 <= truth <= 1", f"truth = {self.truth:g}", "give a probability")

    def fit(self, public, progress=None):
        rows = np.nan_to_num(public.rows)
        return FittedCoin(self, np.stack([rows[public.utility == u].mean(axis=0) for u in range(public.utilities)]))

    def load(self, arrays):
        return FittedCoin(self, arrays["means"])

    @classmethod
    def audited(cls, epsilon):
        return [("coin, half of the time", cls())]

    @classmethod
    def compared(cls, classes, columns, quick):
        return [cls(truth=truth) for truth in (0.1, 0.9)]


@dataclass(frozen=True, eq=False)
class FittedCoin(FittedRelease):
    kind: Coin
    means: np.ndarray

    columns = ("said",)

    def unperturbed(self, rows):
        away = ((np.nan_to_num(rows)[:, None] - self.means) ** 2).sum(axis=2)
        return away.argmin(axis=1)[:, None].astype(float)

    def apply(self, rows, privacy, coins, progress):
        true = coins.uniform(len(rows)) < self.kind.truth
        tossed = coins.below(len(self.means), len(rows))
        said = np.where(true, self.unperturbed(rows)[:, 0], tossed)
        return Outcome(said[:, None].astype(float), np.arange(len(rows)))

    def told_by(self, released):
        return released[:, 0].astype(np.int64)

    def statement(self, utilities, privacies):
        return Statement(self.kind.title, f"{NO_DP} One of {utilities} classes is told.", "Everybody.", "None.")

    def arrays(self):
        return {"means": self.means}


class Point:
    """An entry point of an installed package."""

    name, group = "coin", ENTRY_POINTS

    def load(self):
        return Coin


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [Point()] if group == ENTRY_POINTS else [])
    release_kinds.cache_clear()
    yield
    monkeypatch.undo()
    release_kinds.cache_clear()


def people(count: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    u, s = rng.integers(0, 2, count), rng.integers(0, 2, count)
    return pl.DataFrame(
        {"a": rng.normal(2 * u), "b": rng.normal(s), "u": np.array(["no", "yes"])[u], "s": np.array(["f", "m"])[s]}
    )


def test_it_is_found_last_and_its_option_is_declared_once():
    assert list(release_kinds())[-1] == "coin"
    (truth,) = (one for one in recipe_options() if one.name == "truth")
    assert truth.help == "coin: how often the prediction is told"
    with pytest.raises(InputError, match="truth only with release coin"):
        JupaRecipe("u", "s", truth=0.25)
    with pytest.raises(InputError, match="0 <= truth <= 1"):
        JupaRecipe("u", "s", release="coin", truth=2.0)
    with pytest.raises(InputError, match="bins only with release repair"):
        JupaRecipe("u", "s", release="coin", bins=3)


def test_it_is_fitted_applied_saved_and_loaded(tmp_path: Path):
    model = fit_jupa(people(200, 0), JupaRecipe("u", "s", release="coin", truth=0.75), seed=1)
    model.save(tmp_path / "m")
    again = JupaModel.load(tmp_path / "m")
    assert again.recipe == model.recipe and again.fingerprint() == model.fingerprint()
    folder = apply_jupa(again, people(100, 1).select("a", "b"), tmp_path / "out")
    assert folder.verify() == [] and folder.card.kind == "coin"
    assert folder.card.options["truth"] == 0.75 and JupaRecipe.from_dict(folder.card.options) == model.recipe
    assert folder.table().columns == ["said"] and folder.table().height == 100


def test_a_model_of_a_kind_that_is_not_installed_says_so(tmp_path: Path, monkeypatch):
    fit_jupa(people(200, 0), JupaRecipe("u", "s", release="coin"), seed=1).save(tmp_path / "m")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    release_kinds.cache_clear()
    with pytest.raises(InputError, match="unknown 'truth'"):
        JupaModel.load(tmp_path / "m")


def test_other_models_are_read_whoever_else_is_installed(tmp_path: Path, monkeypatch):
    fit_jupa(people(200, 0), JupaRecipe("u", "s", release="coarse"), seed=1).save(tmp_path / "m")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    release_kinds.cache_clear()
    assert JupaModel.load(tmp_path / "m").recipe.release == "coarse"


def test_it_is_audited():
    model = fit_jupa(people(200, 0), JupaRecipe("u", "s", release="coin"), seed=1)
    found = audit_jupa(model, people(300, 2), quick=True)
    assert found.adversaries.release == "coin" and found.verdict == "no bound"
    assert "reader" in found.adversaries.adaptive


def test_the_bundled_audit_attacks_it_too(monkeypatch):
    monkeypatch.setattr("adumbra.audit.utility_audit.bundled_records", lambda: bundled_records()[::6])
    only = {"coin": release_kinds()["coin"]}
    monkeypatch.setattr("adumbra.audit.utility_audit.release_kinds", lambda: only)
    assert [one.title for one in audit_bundled(1.0)] == ["coin, half of the time"]


def test_it_is_compared_and_drawn():
    recipes = [recipe for recipe in default_recipes("u", "s", 2, quick=True) if recipe.release == "coin"]
    assert labels(recipes) == ["coin truth 0.1", "coin truth 0.9"]
    found = frontier(people(300, 0), recipes, splits=1, quick=True)
    assert [row["truth"] for row in found.rows] == [0.1, 0.9]
    assert "#ff00ff" in found.svg()


def test_the_command_line_has_its_option(cli, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(200, 0).write_csv("public.csv")
    words = ("jupa", "fit", "public.csv", "--utility", "u", "--privacy", "s", "--release", "coin", "--truth", "0.25")
    done = cli(*words, "--out", "m", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["recipe"]["truth"] == 0.25
