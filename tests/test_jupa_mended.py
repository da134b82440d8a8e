"""What a hostile reading of the utility-aware releases found, and what it found must stay mended."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from adumbra.core.errors import InputError
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import open_folder
from adumbra.jupa.apply import apply_jupa
from adumbra.jupa.features import Features
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe

SEED = PublicSeed.given("a public seed")
RESPOND = JupaRecipe("wants", "secret", release="respond", epsilon=0.1, model="linear")


class Fixed:
    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)

    def below(self, sides, size):
        return self.generator.integers(0, sides, size, dtype=np.int64)

    def uniform(self, size):
        return self.generator.random(size)


def table(rows, seed, names=False):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, rows)
    u = (rng.random(rows) < np.where(s == 1, 0.7, 0.3)).astype(int)
    columns = {"a": rng.normal(1.5 * u, 1.0), "b": rng.normal(s, 1.0), "c": rng.choice(["x", "y", "z"], rows)}
    if names:  # one privacy class has rare values
        columns["name"] = [f"n{rng.integers(10**9)}" if k else "same" for k in s]
    return pl.DataFrame(columns | {"wants": np.where(u == 1, "yes", "no"), "secret": np.where(s == 1, "F", "M")})


@pytest.mark.parametrize("release", ["repair", "resample"])
@pytest.mark.parametrize("kind", ["linear", "boosting", "kernel"])
def test_rare_categories_do_not_break_ranks(kind, release):
    """A value that only left-out records hold must mean to a model what any unknown value means."""
    public, fresh = table(600, 0, True), table(3000, 5, True)
    model = fit_jupa(
        public, JupaRecipe("wants", "secret", model=kind, release=release, equalise=release == "resample"), seed=SEED
    )
    labels = model.labels_of(fresh, "privacy")
    rows = model.features.encode(fresh)
    if release == "repair":
        up = model.release_rows(fresh, Fixed()).rows[:, 0] >= 0
    else:
        up = model.step.equaliser.predict(rows, labels, Fixed()) == 1
    rates = np.array([up[labels == s].mean() for s in (0, 1)])
    assert (rates.max() + (1 - rates).max()) / 2 <= model.step.bound()


@pytest.mark.parametrize("bins", [2, 3, 5])
def test_every_fold_has_as_many_bins_below_the_threshold(bins):
    """Else a bin would lie below the threshold in one fold and above it in another, and the purpose would be lost."""
    for draw in range(6):
        public = table(240, draw)
        model = fit_jupa(public, JupaRecipe("wants", "secret", release="repair", model="linear", bins=bins), seed=SEED)
        found = model.step.ranks
        where = int(np.flatnonzero(found.edges == found.base)[0])
        first = (public["wants"] == "no").to_numpy()
        for fold, edges in enumerate(found.fold_edges):
            share = first[model.step.models.folds != fold].mean()
            assert edges[where] == pytest.approx(share)


def test_no_temporary_folder_is_left_when_the_table_does_not_open(monkeypatch, tmp_path):
    """Nothing is made before the table is known to open."""
    model = fit_jupa(table(100, 0), JupaRecipe("wants", "secret", release="coarse"), seed=SEED)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InputError):
        apply_jupa(model, "nowhere.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_covers_labels_and_whole_records():
    """Everything that was learnt: both targets and the records released whole too."""
    model = fit_jupa(table(200, 0), JupaRecipe("wants", "secret", model="linear", whole=True), seed=SEED)
    other = dataclasses.replace(model, records=model.records.reverse())
    assert other.fingerprint() != model.fingerprint()
    renamed = dataclasses.replace(model.utility, classes=tuple(reversed(model.utility.classes)))
    assert dataclasses.replace(model, utility=renamed).fingerprint() != model.fingerprint()


@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": 5},
        {"projection": "dca", "rho1": 5.0},
        {"projection": "dca", "rho1_prime": 5.0},
        {"projection": "ruca", "rho1_prime": 3.0},
        {"projection": "mdr", "rho1": 3.0},
        {"projection": "mdr", "rho1_prime": 3.0},
        {"projection": "pca", "rho0": 0.5},
        {"projection": "pca", "rho1": 0.5},
        {"projection": "random", "rho0": 0.5},
        {"projection": "none", "components": 3},
        {"projection": "none", "rho0": 0.5},
        {"whole": True, "projection": "pca"},
        {"whole": True, "components": 3},
        {"whole": True, "rho1": 3.0},
        {"whole": True, "kernel": "rbf"},
        {"drop": ("wants",)},
    ],
    ids=str,
)
def test_an_option_that_would_be_ignored_is_refused(options):
    """Ignored because of another option, not of the release: a card would print them as if they were used."""
    with pytest.raises(InputError):
        JupaRecipe("wants", "secret", **options)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("recipe",), []),
        (("features", "columns"), []),
        (("features", "columns", 0, "kind"), "x"),
        (("features", "columns", 2, "values"), ["a"]),
        (("features", "mean"), [0.0]),
        (("utility", "classes"), [["no"]]),
        (("recipe", "epsilon"), 5.0),
        (("promise",), "Differential privacy."),
    ],
    ids=str,
)
def test_an_edited_model_json_is_refused(tmp_path, path, value):
    """Not a traceback later, and not another epsilon."""
    model = fit_jupa(
        table(200, 0), JupaRecipe("wants", "secret", release="respond", epsilon=0.5, model="linear"), seed=SEED
    )
    model.save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    content = json.loads(file.read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(InputError):
        JupaModel.load(tmp_path / "m")


def test_true_and_false_are_the_same_however_they_are_stored():
    """A Boolean column of the public table and the text of a private CSV are the same values."""
    book = Features.fit(pl.DataFrame({"a": [True, False, True, True]}), columns=["a"])
    as_text = book.encode(pl.DataFrame({"a": ["true", "false"]}))
    assert as_text.tolist() == book.encode(pl.DataFrame({"a": [True, False]})).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"pool": "x"},
        {"rho1": "abc"},
        {"rho1": None},
        {"utility": 3},
        {"equalise": "no"},
        {"whole": "no"},
        {"drop": None},
    ],
    ids=str,
)
def test_recipes_of_the_wrong_types(options):
    """An error that says what to do; no text counts as yes."""
    with pytest.raises(InputError):
        JupaRecipe(**({"utility": "wants", "privacy": "secret"} | options))


def test_a_utility_card_cannot_claim_differential_privacy(tmp_path):
    """A card that claims differential privacy is no card of this kind."""
    model = fit_jupa(table(100, 0), JupaRecipe("wants", "secret", release="coarse"), seed=SEED)
    card = apply_jupa(model, table(20, 1), tmp_path / "out").card
    text = json.dumps(card.model_dump() | {"differential_privacy": True})
    (tmp_path / "out" / "card.json").write_text(text)
    with pytest.raises(InputError):
        open_folder(tmp_path / "out")


def test_what_an_equalised_prediction_tells_is_not_what_the_plain_one_would():
    """What the plain prediction tells is not released there."""
    model = fit_jupa(table(1500, 0), JupaRecipe("wants", "secret", model="linear", equalise=True), seed=SEED)
    assert model.words.told is None or model.words.told <= model.words.accuracy_bound


def test_the_bound_of_a_response_covers_what_the_prediction_tells():
    """A card must not state less than it says is told already."""
    model = fit_jupa(
        table(1500, 0), JupaRecipe("wants", "secret", release="respond", epsilon=0.1, model="linear"), seed=SEED
    )
    assert model.words.accuracy_bound is None or model.words.accuracy_bound >= model.words.told
