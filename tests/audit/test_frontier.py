"""The trade-off of utility-aware releases: measured on fresh splits, sorted, flagged and drawn rightly."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from adumbra.audit import utility_frontier as module
from adumbra.audit.adversaries import ADVERSARIES, AdversaryReport
from adumbra.audit.frontier_picture import frontier_svg
from adumbra.audit.utility_frontier import default_recipes, frontier, labels
from adumbra.common.errors import InputError
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.release_catalogue import release_kinds

NAN = float("nan")


def table(size: int = 600, seed: int = 0) -> pl.DataFrame:
    """Three useful columns, one of them telling the secret too."""
    rng = np.random.default_rng(seed)
    u, s = np.arange(size) % 2, np.arange(size) // 2 % 2
    return pl.DataFrame(
        {
            "number": np.arange(size),
            "a": 2.0 * u + rng.normal(size=size),
            "b": 2.0 * u + 2.5 * s + rng.normal(size=size),
            "c": rng.normal(size=size),
            "u": np.where(u, "yes", "no"),
            "s": np.where(s, "left", "right"),
        }
    )


def report(worst: float, utility: float, chance: float = 0.5, not_reached: float = 0.0) -> AdversaryReport:
    found = {"svm": worst - 0.02, "forest": worst, "boosting": worst - 0.01}
    return AdversaryReport("coarse", chance, utility, 0.7, 0.5, found, worst, 0.01, not_reached, 100)


@dataclass
class Study:
    """Stands in for fitting and attacking: `found` gives a report for the rho0 of a recipe and the split."""

    found: object
    fitted: list
    attacked: list

    def fit(self, frame, recipe, *, seed):
        self.fitted.append((recipe.kind.rho0, frame, seed))
        return SimpleNamespace(recipe=recipe)

    def attack(self, model, adversary, test, *, coins, quick, trained):
        self.attacked.append((adversary, test, coins.uniform(1)[0], trained))
        split = sum(rho0 == model.recipe.kind.rho0 for rho0, _, _ in self.fitted) - 1
        return self.found(model.recipe.kind.rho0, split)


@pytest.fixture
def study(monkeypatch):
    made = Study(lambda rho0, split: report(0.5, 0.8), [], [])
    monkeypatch.setattr(module, "fit_jupa", made.fit)
    monkeypatch.setattr(module, "attack_jupa", made.attack)
    return made


def coarse(*floors: float) -> list[JupaRecipe]:
    return [JupaRecipe("u", "s", release="coarse", rho0=floor) for floor in floors]


def test_rows_that_hold_come_first_by_utility(study):
    results = {1.0: (0.50, 0.70), 2.0: (0.60, 0.99), 3.0: (0.53, 0.80), 4.0: (0.5301, 0.95), 5.0: (0.45, 0.75)}
    study.found = lambda rho0, split: report(*results[rho0])
    found = frontier(table(), coarse(*results, 1.0), splits=2)
    assert [row["rho0"] for row in found.rows] == [1.0, 2.0, 3.0, 4.0, 5.0], "the repeated one once"
    assert [row["rho0"] for row in found.table()] == [3.0, 5.0, 1.0, 2.0, 4.0]
    assert [row["holds"] for row in found.table()] == [True, True, True, False, False]
    assert found.best is not None and found.best["rho0"] == 3.0


def test_rows_are_means_and_deviations_over_splits(study):
    study.found = lambda rho0, split: report((0.56, 0.50, 0.53)[split], (0.7, 0.8, 0.9)[split], 0.5, 0.1 * split)
    (row,) = frontier(table(), coarse(1.0), splits=3).rows
    assert row["worst"] == pytest.approx(0.53) and row["worst_sd"] == pytest.approx(0.03)
    assert row["utility"] == pytest.approx(0.8) and row["utility_sd"] == pytest.approx(0.1)
    assert row["adaptive"]["svm"] == pytest.approx(0.51) and row["not_reached"] == pytest.approx(0.1)
    assert row["chance"] == 0.5 and row["holds"] is True
    assert row["records"] == 300


def test_chance_is_that_of_the_table_not_one_half(study):
    study.found = lambda rho0, split: report(0.7, 0.8, chance=0.68)
    (row,) = frontier(table(), coarse(1.0), splits=1).rows
    assert row["holds"] is True
    assert math.isnan(row["utility_sd"]) and math.isnan(row["worst_sd"])


def test_a_split_without_records_does_not_hold(study):
    study.found = lambda rho0, split: report(0.5, 0.8) if split else report(NAN, NAN)
    found = frontier(table(), coarse(1.0), splits=2)
    assert found.rows[0]["holds"] is False and found.best is None
    assert json.loads(found.to_json())["rows"][0]["worst"] is None
    assert next(csv.DictReader(io.StringIO(found.to_csv())))["worst"] == ""


def test_parts_are_disjoint_stratified_and_fresh(study):
    frame = table()
    frontier(frame, coarse(1.0, 2.0), splits=2, seed=3)
    cuts = []
    for (_, train, seed), (adversary, test, toss, trained) in zip(study.fitted, study.attacked, strict=True):
        numbers = [part["number"].to_list() for part in (train, test, adversary)]
        assert sorted([*numbers[0], *numbers[1], *numbers[2]]) == list(range(600))
        assert [len(part) for part in numbers] == [240, 120, 240]
        for part, size in ((train, 60), (test, 30), (adversary, 60)):
            assert part.group_by("u", "s").len()["len"].to_list() == [size] * 4
        cuts.append((tuple(numbers[1]), seed.hex, toss, id(trained)))
    assert cuts[0] == cuts[1] and cuts[2] == cuts[3], "recipes of one split see the same records and coins"
    assert all(one != other for one, other in zip(cuts[0], cuts[2], strict=True))


def test_the_seed_decides_the_cuts(study):
    for seed in (1, 1, 2):
        frontier(table(), coarse(1.0), splits=1, seed=seed)
    first, again, other = (frame["number"].to_list() for _, frame, _ in study.fitted)
    assert first == again != other


def test_a_recipe_that_does_not_fit_is_left_out_with_its_reason(study, monkeypatch):
    def fit(frame, recipe, *, seed):
        if recipe.kind.rho0 == 2.0:
            raise InputError("a pencil", "a singular one", "raise rho0")
        return study.fit(frame, recipe, seed=seed)

    monkeypatch.setattr(module, "fit_jupa", fit)
    found = frontier(table(), coarse(1.0, 2.0, 3.0), splits=2)
    assert [row["rho0"] for row in found.rows] == [1.0, 3.0]
    assert found.refused == (("jupa rho0=2", "expected a pencil; got a singular one; raise rho0"),)
    assert json.loads(found.to_json())["refused"][0]["label"] == "jupa rho0=2"
    with pytest.raises(InputError, match="singular"):
        frontier(table(), coarse(2.0), splits=2)


def test_csv_and_json_hold_the_table(study):
    study.found = lambda rho0, split: report(0.4 + 0.1 * rho0, 0.8)
    found = frontier(table(), coarse(1.0, 2.0), splits=2)
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [line["label"] for line in lines] == [row["label"] for row in found.table()]
    assert float(lines[0]["worst"]) == found.table()[0]["worst"]
    assert {*ADVERSARIES, "papers", "retrained", "chance", "holds", "not_reached"} <= set(lines[0])
    content = json.loads(found.to_json())
    assert content["format"] == "adumbra-frontier/1" and content["splits"] == 2
    assert content["records"] == {"fitted": 240, "released": 120, "adversary": 240}
    assert "never prove" in content["statement"] and "chance helped" in content["caution"]
    assert JupaRecipe.from_dict(content["rows"][0]["recipe"]) in coarse(1.0, 2.0)


def test_progress_counts_every_fit(study):
    seen = []
    frontier(table(), coarse(1.0, 2.0), splits=2, progress=lambda *step: seen.append(step))
    assert [done for _, done, _ in seen] == [0, 1, 2, 3] and {total for _, _, total in seen} == {4}
    assert seen[3][0] == "split 2: jupa rho0=2"


@pytest.mark.parametrize(
    ("recipes", "splits", "words"),
    [
        ([], 1, "recipes to compare"),
        ([JupaRecipe("u", "s"), JupaRecipe("s", "u")], 1, "one utility and one privacy"),
        ([JupaRecipe("u", "s")], 0, "splits"),
        ([JupaRecipe("u", "number")], 1, "at least 5 public records"),
        ([JupaRecipe("u", "absent")], 1, "absent"),
    ],
)
def test_mistakes_are_named(study, recipes, splits, words):
    with pytest.raises(InputError, match=words):
        frontier(table(), recipes, splits=splits)
    assert not study.fitted


def test_real_recipes_from_fit_to_picture():
    """The projection tells the secret; a public record drawn for an equalised class does not."""
    recipes = [
        JupaRecipe("u", "s", release="coarse", projection="none", drop="number"),
        JupaRecipe("u", "s", release="resample", equalise=True, model="linear", drop="number"),
    ]
    found = frontier(table(1000), recipes, splits=1, quick=True)
    coarse_row, resampled = found.rows
    assert coarse_row["worst"] > 0.75 and not coarse_row["holds"]
    assert coarse_row["papers"] > 0.75
    assert resampled["worst"] < 0.58 < 0.65 < resampled["utility"]
    assert found.table()[-1]["label"] == "none"
    assert len(marks(found.svg())) == 2


def test_default_recipes_can_be_built_and_told_apart():
    whole, quick = default_recipes("u", "s", 2), default_recipes("u", "s", 2, quick=True)
    assert {recipe.release for recipe in whole} == {recipe.release for recipe in quick} == set(release_kinds())
    assert len(quick) < 0.7 * len(whole)
    assert {r.kind.bins for r in whole if r.release == "repair"} == {2, 4, 8, 16}
    assert {r.kind.epsilon for r in whole if r.release == "respond"} == {0.5, 1.0, 2.0}
    assert {r.kind.epsilon for r in whole if r.release == "laplace"} == {1.0, 4.0}
    assert {r.kind.equalise for r in whole if r.release == "resample"} == {False, True}
    assert {getattr(r.kind, "projection", None) for r in whole} >= {"jupa", "dca", "mdr", "pca", "random"}
    floors = {r.kind.rho0 for r in whole if r.release == "coarse"}
    assert min(floors) == 1e-4 and max(floors) == 1.0 and len({r.used().get("components") for r in whole}) > 2
    for recipes in (whole, quick):
        assert len(set(labels(recipes))) == len(set(recipes)) == len(recipes)


def test_default_recipes_for_many_classes_have_no_repair_and_no_more_components_than_columns():
    recipes = default_recipes("u", "s", 6, columns=6)
    assert not [r for r in recipes if r.release == "repair"]
    assert {r.used().get("components") for r in recipes} == {None, 1, 5}
    assert {r.used().get("components") for r in default_recipes("u", "s", 6, columns=3)} == {None, 1, 3}
    with pytest.raises(InputError, match="classes"):
        default_recipes("u", "s", 1)


def test_labels_name_what_differs():
    recipes = [
        JupaRecipe("u", "s", release="coarse", components=1),
        JupaRecipe("u", "s", release="coarse", components=3, projection="pca"),
        JupaRecipe("u", "s", release="resample", whole=True, drop="x"),
        JupaRecipe("u", "s", release="repair", bins=4, drop="y"),
        JupaRecipe("u", "s", release="respond", epsilon=0.5, rho1=100.0),
        JupaRecipe("u", "s", release="fine", projection="pca"),
    ]
    assert labels(recipes) == [
        "jupa K=1",
        "pca K=3",
        "resample whole records drop=x",
        "repair 4 bins drop=y",
        "respond rho1=100 epsilon=0.5",
        "fine pca",
    ]
    assert labels([JupaRecipe("u", "s", encoding="binary")]) == ["resample"]


# the picture


def row(label: str, release: str, worst: float, utility: float, sd: float = 0.01) -> dict[str, object]:
    mark = release_kinds()[release].mark if release in release_kinds() else None
    return {
        "mark": mark and (mark.colour, mark.shape),
        "label": label,
        "release": release,
        "worst": worst,
        "worst_sd": sd,
        "utility": utility,
        "utility_sd": sd,
        "holds": worst <= 0.53,
    }


def many() -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    return [
        row(f"{release} number {i}", release, 0.49 + 0.07 * rng.random(), 0.70 + 0.1 * rng.random())
        for release in release_kinds()
        for i in range(5)
    ]


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def of_class(svg: str, name: str) -> list[ET.Element]:
    return [one for one in parsed(svg).iter() if name in one.get("class", "").split()]


def marks(svg: str) -> list[ET.Element]:
    return of_class(svg, "mark")


def place(mark: ET.Element) -> tuple[float, float]:
    """The middle of a circle."""
    return float(mark.get("cx", "nan")), float(mark.get("cy", "nan"))


def draw(rows: list[dict[str, object]], chance: float = 0.5) -> str:
    return frontier_svg(rows, chance=chance, within=0.03, title="Serve one, hide another")


def test_every_row_has_one_mark_and_its_numbers():
    rows = many()
    svg = draw(rows)
    found = marks(svg)
    assert len(found) == len(rows) == 30
    said = ["".join(one.itertext()) for one in found]
    for given, words in zip(rows, said, strict=True):
        assert words.startswith(f"{given['label']}: service {100 * given['utility']:.1f} %")
        assert f"best adversary {100 * given['worst']:.1f} % ± 1.0" in words
    assert len(of_class(svg, "holds")) == sum(bool(r["holds"]) for r in rows)
    assert len(of_class(svg, "leaks")) == sum(not r["holds"] for r in rows)
    assert len(of_class(svg, "key")) == len(release_kinds())
    shapes = {re.sub(r"[-\d.]+", "#", one.get("d", "circle")) + one.get("stroke", "") for one in of_class(svg, "key")}
    assert len(shapes) == len(release_kinds())


def test_it_is_self_contained_and_says_what_it_shows():
    svg = draw(many())
    tags = {one.tag.rpartition("}")[2] for one in parsed(svg).iter()}
    assert not tags & {"script", "style", "image", "use", "foreignObject"}
    assert "accuracy of the best adversary found" in svg and "accuracy of the service" in svg
    assert "chance, 50.0 %" in svg and "filled: holds" in svg
    assert svg.count("http") == 1, "only the name space"


def test_places_follow_the_numbers():
    rows = [row("a", "coarse", 0.5, 0.8, NAN), row("b", "coarse", 0.53, 0.9, NAN), row("c", "coarse", 0.9, 0.6, NAN)]
    svg = draw(rows)
    a, b, c = (place(mark) for mark in marks(svg))
    assert a[0] < b[0] < c[0] and b[1] < a[1] < c[1]
    assert (b[0] - a[0]) / (c[0] - a[0]) == pytest.approx(0.03 / 0.4, abs=0.002)
    (chance,), (band,) = of_class(svg, "chance"), of_class(svg, "band")
    assert chance.get("d", "").startswith(f"M{a[0]:.1f} ")
    assert float(band.get("x", "0")) + float(band.get("width", "0")) == pytest.approx(b[0], abs=0.11)
    assert not of_class(svg, "bar")


def test_bars_are_one_deviation():
    svg = draw([row("a", "coarse", 0.5, 0.8, 0.02), row("b", "coarse", 0.6, 0.7, 0.02)])
    (a, b), bars = map(place, marks(svg)), of_class(svg, "bar")
    left, right = map(float, re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", bars[0].get("d", ""))[0])
    assert right - left == pytest.approx(0.4 * (b[0] - a[0]), abs=0.3)
    assert (left + right) / 2 == pytest.approx(a[0], abs=0.2)
    low, high = map(float, re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", bars[0].get("d", ""))[0])
    assert low - high == pytest.approx(0.4 * (b[1] - a[1]), abs=0.3)
    assert (low + high) / 2 == pytest.approx(a[1], abs=0.2)


def test_the_best_that_holds_is_ringed_and_named():
    rows = [row("lower", "coarse", 0.5, 0.8), row("higher", "coarse", 0.51, 0.85), row("leaky", "coarse", 0.7, 0.95)]
    svg = draw(rows)
    (ring,) = of_class(svg, "best")
    assert place(ring) == place(marks(svg)[1])
    assert sorted(one.text or "" for one in of_class(svg, "name")) == ["best: higher", "lower"]
    assert [one.text for one in of_class(svg, "other")] == ["leaky"]  # named too, in a quieter colour
    leaky = draw(rows[2:])
    assert not of_class(leaky, "best") and not of_class(leaky, "name")


def test_names_do_not_cover_each_other_or_marks():
    rows = many()
    svg = draw(rows)
    names = of_class(svg, "name") + of_class(svg, "other")
    assert len(names) >= 8
    boxes = []
    for one in names:
        x, y = float(one.get("x", "0")), float(one.get("y", "0"))
        boxes.append((x, y - 9, x + 6.0 * len(one.text or ""), y + 2))
    for i, a in enumerate(boxes):
        assert a[0] > 70 and a[2] < 860 - 24
        for b in boxes[i + 1 :]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])
    for mark in (place(m) for m in marks(svg) if m.get("cx")):
        assert not any(a[0] < mark[0] < a[2] and a[1] < mark[1] < a[3] for a in boxes)


@pytest.mark.parametrize(("count", "trials"), [(8, 25), (50, 4)])
def test_a_name_stands_by_its_own_mark_or_has_a_line_to_it(count, trials):
    """With few marks each name is nearest to its own; in a crowd that may fail, and then a line says whose it is."""
    rng = np.random.default_rng(0)
    doubtful = 0
    for _ in range(trials):
        worst, useful = 0.49 + 0.06 * rng.random(count), 0.7 + 0.1 * rng.random(count)
        rows = [row(f"name number {i}", "coarse", worst[i], useful[i]) for i in range(count)]
        svg = draw(rows)
        spots = {given["label"]: place(mark) for given, mark in zip(rows, marks(svg), strict=True)}
        lines = [one.get("d", "") for one in of_class(svg, "leader")]
        for one in of_class(svg, "name"):
            own = spots[(one.text or "").removeprefix("best: ")]
            wide = 6.1 * len(one.text or "") * (1.08 if one.get("font-weight") else 1.0) + 4
            x, y = float(one.get("x", "0")) - 2, float(one.get("y", "0"))
            away = {
                spot: math.hypot(max(x - spot[0], 0, spot[0] - x - wide), max(y - 11 - spot[1], 0, spot[1] - y - 3))
                for spot in spots.values()
            }
            if away[own] > min(away.values()) + 1.0:
                doubtful += 1
                assert any(line.startswith(f"M{own[0]:.1f} {own[1]:.1f}L") for line in lines)
    assert doubtful == 0 if count == 8 else doubtful > 0


def test_a_row_without_numbers_is_named_below():
    rows = [row("good", "coarse", 0.5, 0.8), {**row("gone", "fine", NAN, NAN), "holds": False}]
    svg = draw(rows)
    assert len(marks(svg)) == 1 and "Nothing released by: gone" in svg
    with pytest.raises(InputError, match="a recipe with a utility"):
        draw(rows[1:])


def test_one_row_unknown_releases_and_hostile_names_are_drawn():
    rows = [{**row('<b a="1">&\x00\u202e', "other & more", 0.5, 1.0, 0.0)}]
    svg = draw(rows)
    assert len(marks(svg)) == 1
    assert "<b" not in svg and "\x00" not in svg and "\u202e" not in svg
    long = draw([row("a" * 400, "coarse", 0.5, 0.9)])
    assert len(marks(long)) == 1 and not of_class(long, "name")
