"""Utility-aware releases: what each lets out of a record, how far its promise holds, and what reaches the disk."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import adumbra as ad
from adumbra.audit.adversaries import rehearsed
from adumbra.common.errors import InputError
from adumbra.common.randomness import Coins, PublicSeed
from adumbra.jupa import apply as apply_module
from adumbra.jupa import local, ranks
from adumbra.jupa.apply import apply_jupa, batches_of
from adumbra.jupa.features import Features, Guard, Target
from adumbra.jupa.learning.mmd import FineStep, Moved
from adumbra.jupa.model import FORMAT, JupaModel, fit_jupa
from adumbra.jupa.ranks import FOLDS, CrossFitted, Equaliser, Public, Ranks
from adumbra.jupa.recipe import JupaRecipe, recipe_options
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.jupa.scoring import PublicModel
from adumbra.ledger.ledger import Ledger
from adumbra.noise import add as noise
from adumbra.numerics.splits import folds, parts
from adumbra.releases.card import UTILITY_FORMAT, UtilityCard
from adumbra.releases.folder import ReleaseFolder, UtilityFolder, open_folder
from tests.repeatable import repeatable  # noqa: F401

SEED = PublicSeed.given("a public seed")
RELEASES = tuple(release_kinds())
ONE_IN_A_THOUSAND = 1e-3
BEYOND_DOUBT = 1e-9
NOT_DP = [release for release in RELEASES if release != "laplace"]
RECIPES = {
    "coarse": {},
    "fine": {"fine_kernel": "rbf", "bandwidth": 1.0, "most_steps": 40},
    "resample": {"model": "linear"},
    "respond": {"model": "linear", "epsilon": 1.0},
    "repair": {"model": "linear", "bins": 3},
    "laplace": {"epsilon": 2.0},
    "equalise": {"release": "resample", "model": "linear", "equalise": True},
    "whole": {"release": "resample", "model": "linear", "whole": True},
    "kernel": {"release": "coarse", "kernel": "rbf", "landmarks": 20},
}


def table(rows, seed, privacies=2):
    """Records whose utility class shows in `a` and whose privacy class shows in `b` and in the utility class."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, privacies, rows)
    u = (rng.random(rows) < np.where(s == 1, 0.7, 0.35)).astype(int)
    return pl.DataFrame(
        {
            "a": rng.normal(1.6 * u, 1.0),
            "b": rng.normal(s, 1.0),
            "c": rng.choice(["x", "y", "z"], rows),
            "wants": np.where(u == 1, "yes", "no"),
            "secret": np.array(["F", "M", "O", "P"])[s],
        }
    )


PUBLIC, PRIVATE = table(240, 0), table(60, 1)
BLIND = PRIVATE.select("a", "b", "c")


def recipe_of(name):
    return JupaRecipe("wants", "secret", **({"release": name} | RECIPES[name]))


@pytest.fixture(scope="module")
def model_of():
    """Each model of RECIPES, fitted once."""
    known = {}

    def model(name):
        if name not in known:
            known[name] = fit_jupa(PUBLIC, recipe_of(name), seed=SEED)
        return known[name]

    return model


class Fixed:
    """Coins that fall the same way every time."""

    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)

    def below(self, sides, size):
        return self.generator.integers(0, sides, size, dtype=np.int64)

    def uniform(self, size):
        return self.generator.random(size)


class Told:
    """Coins that fall as told, call by call; the last word is said again for ever."""

    def __init__(self, below=(0,), uniform=(0.0,)):
        self.numbers, self.shares, self.sides = list(below), list(uniform), []

    def below(self, sides, size):
        self.sides.append(sides)
        return np.broadcast_to(np.asarray(_next(self.numbers), dtype=np.int64), (size,))

    def uniform(self, size):
        return np.broadcast_to(np.asarray(_next(self.shares), dtype=float), (size,))


def _next(words):
    return words.pop(0) if len(words) > 1 else words[0]


def fits(counts, shares) -> float:
    counts = np.asarray(counts, dtype=float)
    return float(stats.chisquare(counts, np.asarray(shares) * counts.sum()).pvalue)


def same_release(one, other) -> bool:
    return (
        one.rows.tobytes() == other.rows.tobytes()
        and one.kept.tolist() == other.kept.tolist()
        and one.not_reached == other.not_reached
        and one.frame.equals(other.frame)
    )


# ---- public splits


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(2, 6), st.binary(max_size=4))
def test_folds_share_every_stratum_out(strata, count, seed):
    given_strata = np.array(strata)
    found = folds(seed, given_strata, count)
    assert (found >= 0).all()
    assert (found < count).all()
    for stratum in np.unique(given_strata):
        sizes = np.bincount(found[given_strata == stratum], minlength=count)
        assert sizes.max() - sizes.min() <= 1
    assert (folds(seed, given_strata, count) == found).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.lists(st.floats(0.1, 1.0), min_size=1, max_size=4))
def test_parts_hold_every_record_once(strata, shares):
    given_strata = np.array(strata)
    found = parts(b"s", given_strata, shares)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(strata)))
    for stratum in np.unique(given_strata):
        total = int((given_strata == stratum).sum())
        for part, share in zip(found, shares, strict=True):
            assert abs((given_strata[part] == stratum).sum() - total * share / sum(shares)) <= 1 + 1e-9


def test_another_seed_splits_differently():
    strata = np.zeros(50, dtype=int)
    assert folds(b"a", strata, 5).tolist() != folds(b"b", strata, 5).tolist()
    assert parts(b"a", strata, (1, 1))[0].tolist() != parts(b"b", strata, (1, 1))[0].tolist()


# ---- records as numbers


def test_numbers_and_categories():
    public = pl.DataFrame({"n": [0.0, 10.0, 20.0, 10.0], "c": ["x", "y", "x", "y"]})
    book = Features.fit(public, columns=["n", "c"])
    assert book.columns == ["n", "c"]
    assert book.width == 3
    rows = book.encode(public)
    assert rows.mean(axis=0) == pytest.approx(0)
    assert rows.std(axis=0) == pytest.approx(1)
    guard = Guard.of(rows)
    assert (guard.mend(rows) == rows).all()
    odd = book.encode(pl.DataFrame({"n": [-1e9, 1e9, None, math.nan, math.inf, 10.0], "c": ["x"] * 5 + ["new"]}))
    assert np.isnan(odd[2:5, 0]).all()
    assert odd[5, 1:] == pytest.approx((0 - book.mean[1:]) / book.deviation[1:])  # an unknown category is no place
    mended = guard.mend(odd)
    assert mended[:2, 0] == pytest.approx(rows[[0, 2], 0])  # beyond the public range counts as its end
    assert mended[2:5, 0] == pytest.approx(0)  # nothing, or no number, is the mean
    assert mended[5] == pytest.approx(odd[5])
    assert np.isfinite(mended).all()


def test_a_guard_makes_one_thing_of_all_that_its_records_do_not_know():
    """A value that only the left-out records hold is to the others what a value that nobody holds is."""
    known = np.array([[0.0, 5.0, np.nan], [0.0, 7.0, np.nan], [0.0, np.nan, np.nan]])
    guard = Guard.of(known)
    mended = guard.mend(np.array([[30.0, 99.0, 4.0], [0.0, np.nan, np.nan], [-1.0, -99.0, -4.0]]))
    assert mended.tolist() == [[0.0, 7.0, 0.0], [0.0, 6.0, 0.0], [0.0, 5.0, 0.0]]
    again = Guard.from_arrays(guard.arrays())
    assert again.mend(known).tobytes() == guard.mend(known).tobytes()


def test_the_code_of_a_record_depends_on_it_alone():
    book = Features.fit(PUBLIC, columns=["a", "b", "c"])
    whole = book.encode(PRIVATE)
    for i in (0, 7, 59):
        assert book.encode(PRIVATE[i : i + 1]).tobytes() == whole[i : i + 1].tobytes()


@pytest.mark.parametrize("values", [1, 2, 3, 5, 8])
def test_binary_codes_tell_categories_apart(values):
    names = [f"v{i}" for i in range(values)]
    public = pl.DataFrame({"c": names * 3})
    book = Features.fit(public, columns=["c"], encoding="binary")
    assert book.width == max(1, math.ceil(math.log2(values)))
    assert len(np.unique(book.encode(public), axis=0)) == values
    raw = book.encode(pl.DataFrame({"c": ["unknown", None]})) * book.deviation + book.mean
    assert raw == pytest.approx(0)


def test_labels_and_categories_are_the_same_however_they_are_stored():
    whole = pl.DataFrame({"label": [0, 1, 1]})
    target = Target.fit(whole, ["label"], "utility")
    for stored in ([0.0, 1.0, 1.0], ["0", "1", "1"], [" 0", "1 ", "1"]):
        assert target.of(pl.DataFrame({"label": stored})).tolist() == [0, 1, 1]
    book = Features.fit(pl.DataFrame({"n": ["1", "2", " 3 "]}), columns=["n"])
    assert book.codes[0].kind == "number"
    assert (
        book.encode(pl.DataFrame({"n": [1, 2, 3]})).tolist()
        == book.encode(pl.DataFrame({"n": ["1", "2", "3"]})).tolist()
    )


@pytest.mark.parametrize("blank", ["", "?", "NA", "n/a", "NaN", None])
def test_blanks_are_nothing(blank):
    public = pl.DataFrame({"n": ["1", "2", blank, "4"], "c": ["x", "y", blank, "x"]})
    book = Features.fit(public, columns=["n", "c"])
    assert [code.kind for code in book.codes] == ["number", "category"]
    assert book.codes[1].values == ("x", "y")
    coded = book.encode(public)
    assert np.isnan(coded[2, 0])
    assert Guard.of(coded).mend(coded)[2, 0] == pytest.approx(0)
    with pytest.raises(InputError, match="without one"):
        Target.fit(public, ["c"], "privacy")


def test_a_column_that_does_not_vary_is_nothing():
    book = Features.fit(pl.DataFrame({"n": [7, 7, 7]}), columns=["n"])
    guard = Guard.of(book.encode(pl.DataFrame({"n": [7, 7, 7]})))
    assert guard.mend(book.encode(pl.DataFrame({"n": [7, 8, None]}))).tolist() == [[0.0]] * 3


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"n": [None, "", "NA"]}, "empty"),
        ({"n": [f"person {i}" for i in range(1001)]}, "1001 in 'n'"),
    ],
)
def test_columns_that_cannot_be_coded(columns, words):
    with pytest.raises(InputError, match=words) as refused:
        Features.fit(pl.DataFrame(columns), columns=["n"])
    assert "--drop n" in refused.value.remedy


def test_tables_that_cannot_be_coded():
    public = pl.DataFrame({"a": [1, 2]})
    with pytest.raises(InputError, match="features"):
        Features.fit(public, columns=[])
    with pytest.raises(InputError, match="'q'"):
        Features.fit(public, columns=["q"])
    with pytest.raises(InputError, match="encoding"):
        Features.fit(public, columns=["a"], encoding="other")
    with pytest.raises(InputError, match="no 'a'"):
        Features.fit(public, columns=["a"]).encode(pl.DataFrame({"b": [1]}))
    with pytest.raises(InputError, match="between 2 and 1000 classes"):
        Target.fit(pl.DataFrame({"s": ["x", "x"]}), ["s"], "privacy")
    with pytest.raises(InputError, match="between 2 and 1000 classes"):
        Target.fit(pl.DataFrame({"s": list(range(1001))}), ["s"], "privacy")


def test_several_label_columns_are_one_label_and_each_its_own():
    frame = pl.DataFrame({"p": ["x", "x", "y", "y"], "q": [1, 2, 1, 1]})
    target = Target.fit(frame, ["p", "q"], "privacy")
    assert target.names == ["x / 1", "x / 2", "y / 1"]
    joint = target.of(frame)
    assert joint.tolist() == [0, 1, 2, 2]
    assert [part.tolist() for part in target.parts(joint)] == [[0, 0, 1, 1], [0, 1, 0, 0]]
    assert target.of(pl.DataFrame({"p": ["y", None], "q": [2, 1]})).tolist() == [-1, -1]


# ---- recipes

ELSEWHERE = {  # an option, a value that is not the default, and the releases that use it
    "projection": ("pca", {"coarse", "fine", "resample", "respond", "laplace"}),
    "components": (1, {"coarse", "fine", "resample", "respond", "laplace"}),
    "rho0": (0.5, {"coarse", "fine", "resample", "respond", "laplace"}),
    "rho1": (7.0, {"coarse", "fine", "resample", "respond", "laplace"}),
    "rho1_prime": (7.0, {"coarse", "fine", "resample", "respond", "laplace"}),
    "kernel": ("rbf", {"coarse", "fine", "resample", "respond", "laplace"}),
    "epsilon": (0.5, {"respond", "laplace"}),
    "equalise": (True, {"resample", "respond"}),
    "pool": (0.5, {"resample", "respond"}),
    "whole": (True, {"resample", "respond"}),
    "model": ("linear", {"resample", "respond", "repair"}),
    "bins": (3, {"repair"}),
    "fine_kernel": ("rbf", {"fine"}),
    "bandwidth": (1.5, {"fine"}),
    "step": (0.5, {"fine"}),
    "most_steps": (7, {"fine"}),
    "keep_unreached": (True, {"fine"}),
    "clip": (3.0, {"laplace"}),
}
NEEDED = {"respond": {"epsilon": 1.0}, "laplace": {"epsilon": 1.0}}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("option", ELSEWHERE)
def test_an_option_that_would_be_ignored_is_refused(option, release):
    value, users = ELSEWHERE[option]
    options = {"release": release} | NEEDED.get(release, {}) | {option: value}
    if release in users:
        used = JupaRecipe("wants", "secret", **options).used()
        assert used[option] in (value, [value])
    else:
        with pytest.raises(InputError, match=option):
            JupaRecipe("wants", "secret", **options)
        assert option not in JupaRecipe("wants", "secret", release=release, **NEEDED.get(release, {})).used()


def test_every_option_is_known_here():
    told = {*ELSEWHERE, "landmarks", "source", "encoding", "drop", "utility", "privacy", "release"}
    assert {one.name for one in recipe_options()} == told


@pytest.mark.parametrize("release", RELEASES)
def test_the_true_label_is_never_the_source(release):
    with pytest.raises(InputError, match="source"):
        JupaRecipe("wants", "secret", release=release, source="true", **NEEDED.get(release, {}))


@pytest.mark.parametrize(
    "options",
    [
        {"utility": ()},
        {"privacy": ()},
        {"privacy": ("secret", "wants")},
        {"privacy": ("secret", "secret")},
        {"projection": "lda"},
        {"release": "none"},
        {"kernel": "cauchy"},
        {"encoding": "hash"},
        {"model": "forest"},
        {"rho0": -1.0},
        {"rho0": math.nan},
        {"rho1": (1.0, 2.0)},
        {"rho1": -1.0},
        {"rho1_prime": math.inf},
        {"components": 0},
        {"components": 1.5},
        {"landmarks": 0, "kernel": "rbf"},
        {"pool": 0.0},
        {"pool": 1.1},
        {"pool": math.nan},
        {"release": "repair", "bins": 1},
        {"release": "fine", "most_steps": 0},
        {"release": "fine", "step": 0.0},
        {"release": "fine", "bandwidth": -1.0},
        {"release": "fine", "fine_kernel": "sinc"},
        {"release": "laplace", "epsilon": 1.0, "clip": 0.0},
        {"release": "laplace"},
        {"release": "respond"},
        {"release": "respond", "epsilon": 0.0},
        {"release": "respond", "epsilon": -1.0},
        {"release": "respond", "epsilon": math.nan},
        {"release": "respond", "epsilon": math.inf},
        {"release": "respond", "epsilon": 20.5},
    ],
    ids=str,
)
def test_recipes_that_make_no_sense(options):
    with pytest.raises(InputError):
        JupaRecipe(**({"utility": "wants", "privacy": "secret"} | options))


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json(name):
    recipe = recipe_of(name)
    assert JupaRecipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    with pytest.raises(InputError, match="unknown 'colour'"):
        JupaRecipe.from_dict(recipe.to_dict() | {"colour": 1})


def test_code_book_and_labels_survive_json():
    book = Features.fit(PUBLIC, columns=["a", "b", "c"], encoding="binary")
    again = Features.from_dict(json.loads(json.dumps(book.to_dict())))
    assert again.encode(PRIVATE).tobytes() == book.encode(PRIVATE).tobytes()
    target = Target.fit(PUBLIC, ["wants", "secret"], "privacy")
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target


# ---- resampling: what is let out is the predicted class


def predictions(model, frame):
    return model.step.model.predict(model.features.encode(frame))


def exchanged_inside(groups, seed=3):
    """Positions permuted inside each group, so that record i becomes another one of its group."""
    rng = np.random.default_rng(seed)
    out = np.arange(len(groups))
    for group in np.unique(groups):
        out[groups == group] = np.roll(rng.permutation(np.flatnonzero(groups == group)), 1)
    return out


@pytest.mark.parametrize("name", ["resample", "whole"])
def test_resampling_lets_out_the_predicted_class_and_nothing_else(model_of, name):
    model = model_of(name)
    said = predictions(model, BLIND)
    before = model.release_rows(BLIND, Fixed())
    other = BLIND[exchanged_inside(said)]
    assert not other.equals(BLIND)
    assert same_release(model.release_rows(other, Fixed()), before)
    # a record with another prediction is another pool: the test could fail
    swapped = BLIND[np.roll(np.argsort(said, kind="stable"), int((said == 0).sum()))]
    assert not same_release(model.release_rows(swapped, Fixed()), before)


@pytest.mark.parametrize("name", ["resample", "whole", "coarse", "fine", "kernel"])
def test_labels_are_not_looked_at_where_they_are_not_needed(model_of, name):
    model = model_of(name)
    assert not model.needs_privacy_label
    before = model.release_rows(BLIND, Fixed())
    assert same_release(model.release_rows(PRIVATE, Fixed()), before)
    garbage = PRIVATE.with_columns(secret=pl.lit("what?"), wants=pl.lit(None))
    assert same_release(model.release_rows(garbage, Fixed()), before)
    known = model.step.apply(model.features.encode(BLIND), model.labels_of(PRIVATE, "privacy"), Fixed(), None)
    assert known.rows.tobytes() == before.rows.tobytes()  # not even where somebody hands it over


@pytest.mark.parametrize("name", ["respond", "repair", "equalise"])
def test_the_utility_label_is_never_read_and_the_privacy_label_is_needed(model_of, name):
    model = model_of(name)
    assert model.needs_privacy_label
    assert same_release(
        model.release_rows(PRIVATE.drop("wants"), Fixed()),
        model.release_rows(PRIVATE.with_columns(wants=pl.lit("what?")), Fixed()),
    )
    with pytest.raises(InputError, match="secret"):
        model.release_rows(BLIND, Fixed())
    odd = PRIVATE.with_columns(secret=pl.Series(["a rare disease", *PRIVATE["secret"][1:]]))
    assert len(model.release_rows(odd, Fixed()).rows) == 60  # refused for it, a table would tell that somebody has it
    with pytest.raises(InputError, match="1 of 60 records") as refused:  # an audit compares with the true classes
        model.labels_of(odd, "privacy")
    assert "rare disease" not in str(refused.value)


def test_pools_hold_public_records_of_their_pair_of_classes(model_of):
    step = model_of("whole").step
    u, s = (PUBLIC["wants"] == "yes").to_numpy(), (PUBLIC["secret"] == "M").to_numpy()
    assert len(step.starts) == 5
    for pair, (start, end) in enumerate(itertools.pairwise(step.starts)):
        inside = step.origin[start:end]
        assert len(inside) >= 3
        assert (u[inside] == pair // 2).all()
        assert (s[inside] == pair % 2).all()
        assert len(inside) == math.ceil(((u == pair // 2) & (s == pair % 2)).sum() / 3)
    coded = model_of("whole").features.encode(PUBLIC)
    assert (step.public_rows == coded[step.origin]).all()
    assert model_of("whole").records["a"].to_numpy() == pytest.approx(PUBLIC["a"].to_numpy()[step.origin])


def test_the_class_and_the_record_are_drawn_uniformly(model_of):
    step = model_of("resample").step
    rows = np.repeat(model_of("resample").features.encode(BLIND[:1]), 30_000, axis=0)
    drawn = step.draw(rows, None, Coins())
    said = int(predictions(model_of("resample"), BLIND[:1])[0])
    pools = np.searchsorted(step.starts, drawn, side="right") - 1
    assert set(pools) == {2 * said, 2 * said + 1}
    assert fits(np.bincount(pools - 2 * said, minlength=2), [0.5, 0.5]) > ONE_IN_A_THOUSAND
    for pool in set(pools):
        size = int(step.starts[pool + 1] - step.starts[pool])
        counts = np.bincount(drawn[pools == pool] - step.starts[pool], minlength=size)
        assert len(counts) == size
        assert fits(counts, np.full(size, 1 / size)) > ONE_IN_A_THOUSAND


def test_what_the_prediction_tells_is_counted(model_of):
    step = model_of("resample").step
    assert 0.5 < step.told <= 1.0
    assert f"{100 * step.told:.1f} %" in model_of("resample").promise


# ---- randomised response in a release


@pytest.fixture(scope="module")
def three():
    """A response among three privacy classes."""
    recipe = JupaRecipe("wants", "secret", release="respond", epsilon=1.3, model="linear")
    return fit_jupa(table(300, 4, privacies=3), recipe, seed=SEED)


def response_law(step, row, label):
    """How many sides of the response's coin lead to each pool; exact, by finding where the pool changes."""

    def pools(draws):
        coins = Told(below=[draws])
        rows = np.repeat(row[None], len(draws), axis=0)
        drawn = step.draw(rows, np.full(len(draws), label), coins)
        assert len(coins.sides) == 1
        return np.searchsorted(step.starts, drawn, side="right") - 1, coins.sides[0]

    _, sides = pools(np.array([0]))
    places = np.unique(np.linspace(0, sides - 1, 500).astype(np.int64))
    low, high = places[:-1], places[1:]
    apart = pools(low)[0] != pools(high)[0]
    low, high = low[apart], high[apart]
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        same = pools(middle)[0] == pools(low)[0]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    law = {}
    for start, end in itertools.pairwise([0, *high.tolist(), sides]):
        pool = int(pools(np.array([start]))[0][0])
        law[pool] = law.get(pool, 0) + end - start
    return law


def test_no_pool_is_likelier_than_promised_from_one_label_than_from_another(three):
    rows = three.features.encode(table(12, 5, privacies=3))
    worst = 0.0
    for row in rows:
        laws = [response_law(three.step, row, label) for label in range(3)]
        for one, other in itertools.permutations(laws, 2):
            assert set(one) == set(other)
            assert len(one) == 3
            worst = max(worst, *(one[pool] / other[pool] for pool in one))
    assert worst <= math.exp(1.3)
    assert worst == pytest.approx(math.exp(1.3), rel=1e-6)


def test_released_pools_follow_the_response_and_no_other_scale(three):
    frame = table(1, 6, privacies=3)
    many = pl.concat([frame] * 20_000)
    step = three.step
    label = int(three.labels_of(frame, "privacy")[0])
    drawn = step.draw(three.features.encode(many), three.labels_of(many, "privacy"), Coins())
    answers = (np.searchsorted(step.starts, drawn, side="right") - 1) % 3

    def shares(epsilon):
        weights = np.ones(3)
        weights[label] = math.exp(epsilon)
        return weights / weights.sum()

    counts = np.bincount(answers, minlength=3)
    assert fits(counts, shares(1.3)) > ONE_IN_A_THOUSAND
    assert fits(counts, shares(1.3 * 2 / 3)) < BEYOND_DOUBT
    assert fits(counts, shares(1.3 * 3 / 2)) < BEYOND_DOUBT


def test_a_response_lets_out_the_prediction_and_the_answer_alone(three):
    frame = table(60, 7, privacies=3)
    groups = three.step.model.predict(three.features.encode(frame))
    other = frame.select("a", "b", "c")[exchanged_inside(groups)].with_columns(frame["secret"])
    assert not other.equals(frame.select(other.columns))
    assert same_release(three.release_rows(other, Fixed()), three.release_rows(frame, Fixed()))


def test_the_response_is_stated(three):
    assert "epsilon = 1.3" in three.promise
    assert three.words.label_epsilon == 1.3
    share = math.exp(1.3) / (math.exp(1.3) + 2)
    assert f"{100 * share:.1f} %" in three.promise  # if predictions say nothing, which no card can promise
    assert three.words.accuracy_bound is None
    recipe = dataclasses.replace(three.recipe, equalise=True)
    both = fit_jupa(table(300, 4, privacies=3), recipe, seed=SEED)
    assert both.words.label_epsilon is None  # the equaliser looks at the label too
    assert both.words.accuracy_bound is None


def test_pairs_of_classes_without_a_public_record():
    alone = PUBLIC.filter((pl.col("wants") == "yes") | (pl.col("secret") == "M"))
    with pytest.raises(InputError, match="1 of 4 pairs"):
        fit_jupa(alone, recipe_of("resample"), seed=SEED)


# ---- ranks inside a privacy class


def scoring(weights) -> PublicModel:
    """A linear model that is given, not learnt."""
    matrix = np.asarray(weights, dtype=float)
    classes = 2 if matrix.shape[1] == 1 else matrix.shape[1]
    return PublicModel.from_arrays(
        {
            "kind": np.array("linear"),
            "classes": np.array(classes),
            "present": np.arange(classes),
            "mean": np.zeros(len(matrix)),
            "scale": np.ones(len(matrix)),
            "accuracy": np.array(math.nan),
            "weights": matrix,
            "constants": np.zeros(matrix.shape[1]),
        }
    )


@pytest.fixture
def given_scores(monkeypatch):
    """The score of a record is its one number, whatever the public records: thousands of public tables are cheap."""
    monkeypatch.setattr(ranks, "fit_public_model", lambda *args, **options: scoring([[1.0]]))


def public_of(scores, utility, privacy, seed=b"p", privacies=2, utilities=2):
    rows = scores[:, None] if scores.ndim == 1 else scores
    return Public(rows, utility, privacy, [utility], [privacy], utilities, privacies, seed)


def masses(found, margins, chances, privacy, fold):
    """The exact chance of each bin for a record of a class and fold whose margin is one of several."""
    lucks = (np.arange(40) + 0.5) / 40
    grid = np.repeat(margins, len(lucks))
    coins = Told(uniform=[np.tile(lucks, len(margins))])
    bins = found.bins(grid, np.full(len(grid), privacy), np.full(len(grid), fold), coins)
    weights = np.repeat(chances, len(lucks)) / len(lucks)
    return np.bincount(bins, weights, minlength=len(found.edges) - 1)


def studied(draws, bins, made, law, rng):
    """Over many public tables: distances of the bins' chances from their shares, errors, bounds and accuracies.

    `law(privacy, cuts)` gives a score in every place between the cuts, with its chance in the population.
    """
    distance, error, bounds, accuracy = [], [], [], []
    for draw in range(draws):
        public = made(rng, draw)
        models = CrossFitted.fit("linear", public)
        found = Ranks.fit(models.public_margin(), models.folds, public, bins)
        shares = np.diff(found.fold_edges, axis=1)
        each = np.zeros((2, *shares.shape))
        for s, k in itertools.product(range(2), range(FOLDS)):
            guard = models.guards[k]
            scores, chances = law(s, [*found.references[s][k] * models.spread[k], guard.low[0], guard.high[0]])
            margins = models.margin(np.asarray(scores)[:, None], np.full(len(scores), k))
            each[s, k] = masses(found, margins, chances, s, k)
        distance.append(0.5 * np.abs(each - shares).sum(axis=2).mean(axis=1))
        error.append((each - shares).mean(axis=1)[:, :-1])
        bounds.append(found.bound())
        accuracy.append(each.mean(axis=1).max(axis=0).sum() / 2)
    return np.array(distance), np.array(error), np.array(bounds), np.array(accuracy)


@pytest.mark.parametrize("bins", [2, 4])
def test_ranks_tell_no_more_than_the_bound_and_not_much_less(given_scores, bins):
    """Class 1 has three times the scores of class 0: its bins are as likely all the same, but for the public draw."""

    def made(rng, draw):
        s = np.arange(200) % 2
        scores = rng.random(200) * np.where(s == 1, 3.0, 1.0)
        return public_of(scores, (rng.random(200) < 0.4).astype(int), s, seed=bytes([draw % 256, draw // 256]))

    def law(privacy, cuts):
        width = 3.0 if privacy else 1.0
        ends = np.unique(np.clip([0.0, *cuts, width], 0.0, width))
        return (ends[1:] + ends[:-1]) / 2, np.diff(ends) / width

    distance, error, bounds, accuracy = studied(200, bins, made, law, np.random.default_rng(1))
    stated = (2 * bounds.mean() - 1) / 2  # of a class and fold
    assert distance.mean() <= stated
    assert distance.mean() >= 0.5 * stated
    assert accuracy.mean() <= bounds.mean()
    doubt = error.std(axis=0) / math.sqrt(len(error))
    assert (np.abs(error.mean(axis=0)) <= 4 * doubt).all()


def test_ties_are_broken_so_that_bins_keep_their_shares(given_scores):
    """Scores of three values, as of a tree: without chance among equals, whole lumps would fall into one bin."""
    values = np.array([0.0, 1.0, 2.0])
    chances = {0: np.array([0.5, 0.3, 0.2]), 1: np.array([0.1, 0.2, 0.7])}

    def made(rng, draw):
        s = np.arange(200) % 2
        scores = np.array([rng.choice(values, p=chances[k]) for k in s])
        return public_of(scores, (rng.random(200) < 0.45).astype(int), s, seed=bytes([draw % 256, draw // 256]))

    def law(privacy, cuts):
        return values, chances[privacy]

    distance, error, bounds, accuracy = studied(150, 2, made, law, np.random.default_rng(2))
    assert distance.mean() <= (2 * bounds.mean() - 1) / 2
    assert accuracy.mean() <= bounds.mean()
    doubt = error.std(axis=0) / math.sqrt(len(error))
    assert (np.abs(error.mean(axis=0)) <= 4 * doubt).all()


@pytest.mark.parametrize("references", [5, 20, 100])
@pytest.mark.parametrize("edges", [[0, 0.5, 1], [0, 0.3, 1], [0, 0.2, 0.5, 0.7, 1]])
def test_the_bound_against_the_gaps_of_a_uniform_sample(references, edges):
    """The chance of a gap between references is a Dirichlet share; a bin holds the gaps below its rank, in part."""
    rng = np.random.default_rng(references)
    gaps = rng.dirichlet(np.ones(references + 1), size=4000)
    heights = np.concatenate([np.zeros((4000, 1)), gaps.cumsum(axis=1)], axis=1)
    ranks_at = np.arange(references + 2) / (references + 1)
    at = np.array([np.interp(edges, ranks_at, height) for height in heights])
    distance = 0.5 * np.abs(np.diff(at, axis=1) - np.diff(edges)).sum(axis=1).mean()
    each = tuple(np.zeros(references) for _ in range(FOLDS))
    stated = (
        2 * Ranks((each, each), np.tile(edges, (FOLDS, 1)), np.array(edges), edges[1]).bound() - 1
    )  # of two classes together
    assert distance <= stated / 2
    assert distance >= stated / 4


@given(st.floats(0.001, 0.999), st.integers(2, 12))
def test_an_edge_lies_where_the_utility_classes_part(base, bins):
    edges = ranks._edges(base, bins)
    assert len(edges) == bins + 1
    assert edges[0] == 0
    assert edges[-1] == 1
    assert (np.diff(edges) > 0).all()
    assert base in edges


def test_the_edge_is_the_public_share_of_the_first_class(model_of):
    first = (PUBLIC["wants"] == "no").to_numpy()
    for found, numbers in (
        (model_of("repair").step.ranks, model_of("repair").step.models.folds),
        (model_of("equalise").step.equaliser.ranks, model_of("equalise").step.equaliser.models.folds),
    ):
        assert found.base == first.mean()
        assert found.base in found.edges
        for fold in range(FOLDS):  # the fold's own records have no say in where their ranks are cut
            assert first[numbers != fold].mean() in found.fold_edges[fold]


def test_a_fold_is_scored_by_the_model_that_left_it_out(monkeypatch):
    """Whatever becomes of a fold's records, its own model stays as it is; every other model changes."""
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(150, 2))
    utility = (rng.random(150) < 0.5).astype(int)
    privacy = np.arange(150) % 2
    numbers = np.arange(150) // 2 % FOLDS
    monkeypatch.setattr(ranks, "folds", lambda *args: numbers)

    def fitted(records, labels):
        return CrossFitted.fit("linear", public_of(records, labels, privacy))

    before = fitted(rows, utility)
    for fold in (0, 3):
        mine = numbers == fold
        others = [numbers == k for k in range(FOLDS) if k != fold]
        for changed in (
            fitted(rows, np.where(mine, 1 - utility, utility)),
            fitted(np.where(mine[:, None], 100.0 * rows, rows), utility),
            fitted(np.where(mine[:, None], np.nan, rows), utility),
        ):
            one, other = (models.models[fold].arrays() | models.guards[fold].arrays() for models in (before, changed))
            assert all(one[name].tobytes() == other[name].tobytes() for name in one)
            assert all((changed.scores[k] != before.scores[k]).any() for k in others)
        assert (before.scores[mine] == before.models[fold].scores(before.guards[fold].mend(rows[mine]))).all()
    # and a private record of a fold meets the same model as the references of that fold
    assert (before.score(rows, np.full(150, 3)) == before.models[3].scores(before.guards[3].mend(rows))).all()
    assert before.margin(rows, numbers) == pytest.approx(before.public_margin())


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_rare_values_do_not_tell_references_from_records(kind):
    """One privacy class has a name of its own for everybody: each reference's is unknown to its model, and must be to
    it what the unheard-of name of a private record is. A kernel would see references far away from all records."""

    def named(rows, seed):
        frame = table(rows, seed)
        names = [f"n{seed}.{i}" if secret == "M" else "same" for i, secret in enumerate(frame["secret"])]
        return frame.with_columns(name=pl.Series(names))

    recipe = JupaRecipe("wants", "secret", release="repair", model=kind)
    model = fit_jupa(named(400, 1), recipe, seed=SEED)
    fresh = named(2000, 2)
    up = model.release_rows(fresh, Fixed()).rows[:, 0] >= 0
    labels = model.labels_of(fresh, "privacy")
    rates = np.array([up[labels == s].mean() for s in (0, 1)])
    assert (rates.max() + (1 - rates).max()) / 2 <= model.step.bound()


def test_utility_labels_have_no_say_in_the_folds(given_scores):
    """Dealt out evenly, they would make a fold's records more alike than fresh ones are."""
    rng = np.random.default_rng(4)
    scores, utility, privacy = rng.random(100), np.arange(100) // 2 % 2, np.arange(100) % 2
    one = CrossFitted.fit("linear", public_of(scores, utility, privacy))
    other = CrossFitted.fit("linear", public_of(scores, rng.permutation(utility), privacy))
    assert (one.folds == other.folds).all()


def test_privacy_classes_too_small_to_rank(given_scores):
    scores = np.random.default_rng(0).random(100)
    few = (np.arange(100) < 20).astype(int)
    public = public_of(scores, np.arange(100) % 2, few)
    models = CrossFitted.fit("linear", public)
    with pytest.raises(InputError, match="at least 25 public records of every privacy class"):
        Ranks.fit(models.public_margin(), models.folds, public, 2)


# ---- repair: what is let out is the bin


def repaired_with(model, frame, fold, luck, redraw):
    return model.release_rows(frame, Told(below=[fold], uniform=[luck, redraw])).rows[:, 0]


@pytest.mark.parametrize("fold", range(FOLDS))
def test_a_repaired_score_depends_on_the_bin_alone(model_of, fold):
    model = model_of("repair")
    frame = table(300, 11)
    rows, labels = model.features.encode(frame), model.labels_of(frame, "privacy")
    where = np.full(len(rows), fold)
    bins = model.step.ranks.bins(model.step.models.margin(rows, where), labels, where, Told(uniform=[0.4]))
    released = repaired_with(model, frame, fold, 0.4, 0.7)
    assert set(bins) == {0, 1, 2}
    for number in range(3):
        assert len(np.unique(released[bins == number])) == 1
        assert len(np.unique(labels[bins == number])) == 2  # of either class, and of many scores
    assert len(np.unique(released)) == 3


def test_the_score_is_drawn_anew_inside_its_bin(model_of):
    """The luck that broke ties and placed the rank says something of the score: the redraw must not be the same."""
    model = model_of("repair")
    frame = table(300, 11)
    redraw = np.random.default_rng(1).random(300)
    one = repaired_with(model, frame, 2, 0.40, redraw)
    other = repaired_with(model, frame, 2, 0.45, redraw)
    same_bin = one == other
    assert same_bin.mean() > 0.9
    again = repaired_with(model, frame, 2, 0.40, 1 - redraw)
    assert (again != one).mean() > 0.9


def test_repaired_scores_are_the_average_of_the_classes_at_a_uniform_rank(model_of):
    model = model_of("repair")
    step = model.step
    for number, (low, high) in enumerate(itertools.pairwise(step.ranks.edges)):
        clear = ranks._CLEAR * (high - low)  # beside the edge where the utility classes part
        start, end = low + clear * (low == step.ranks.base), high - clear * (high == step.ranks.base)
        at = step.ranks.drawn(np.full(20_000, number), Coins())
        assert stats.kstest(at, "uniform", (start, end - start)).pvalue > ONE_IN_A_THOUSAND
    for rank in (0.1, step.ranks.base, 0.9):
        mean = np.mean([np.quantile(q, rank) for q in step.quantiles])
        zero = np.mean([np.quantile(q, step.ranks.base) for q in step.quantiles])
        assert step._value(np.array([rank]))[0] == pytest.approx((mean - zero) / step.scale)
    assert step._value(np.array([step.ranks.base]))[0] == 0.0


@pytest.mark.parametrize("privacies", [2, 3])
def test_repaired_records_keep_the_promise_for_the_same_population(privacies):
    """End to end, with a real model: bins of fresh records, by class, over a few public draws."""
    recipe = JupaRecipe("wants", "secret", release="repair", model="linear")
    bounds, accuracy = [], []
    for draw in range(4):
        model = fit_jupa(table(400, 100 + draw, privacies), recipe, seed=SEED)
        fresh = table(3000, 200 + draw, privacies)
        up = model.release_rows(fresh, Fixed(draw)).rows[:, 0] >= 0
        labels = model.labels_of(fresh, "privacy")
        rates = np.array([up[labels == s].mean() for s in range(privacies)])
        accuracy.append((rates.max() + (1 - rates).max()) / privacies)
        bounds.append(model.step.bound())
    assert np.mean(accuracy) <= np.mean(bounds)
    # unrepaired, the score tells the label: the promise is not kept for nothing
    plain = np.array([(model.unperturbed(fresh)[labels == s, 0] >= 0).mean() for s in range(privacies)])
    assert (plain.max() + (1 - plain).max()) / privacies > np.mean(accuracy) + 0.03


def test_repair_serves_two_utility_classes_only():
    frame = PUBLIC.with_columns(wants=pl.Series(["p", "q", "r"] * 80))
    with pytest.raises(InputError, match="3 classes"):
        fit_jupa(frame, recipe_of("repair"), seed=SEED)


# ---- equalised predictions


@pytest.mark.parametrize("fold", [0, 4])
def test_an_equalised_release_depends_on_the_bin_alone(model_of, fold):
    model = model_of("equalise")
    frame = table(300, 13)
    rows, labels = model.features.encode(frame), model.labels_of(frame, "privacy")
    equaliser, where = model.step.equaliser, np.full(300, fold)
    bins = equaliser.ranks.bins(equaliser.models.margin(rows, where), labels, where, Told(uniform=[0.4]))
    released = model.release_rows(frame, Told(below=[fold, 1], uniform=[0.4, 0.8])).rows
    for number in (0, 1):
        assert len(np.unique(released[bins == number], axis=0)) == 1
        assert len(np.unique(labels[bins == number])) == 2
    assert len(np.unique(released, axis=0)) == 2


def test_flips_make_rates_equal_and_change_as_few_as_can_be():
    rng = np.random.default_rng(3)
    for _ in range(50):
        rates = rng.dirichlet(np.ones(4), size=3)
        rates[0, 1] = 0.0
        rates[0] /= rates[0].sum()
        channel = np.diff(ranks._flips(rates), axis=2, prepend=0.0)
        assert (channel >= -1e-12).all()
        assert channel.sum(axis=2) == pytest.approx(1.0)
        goal = rates.mean(axis=0)
        for s in range(3):
            assert rates[s] @ channel[s] == pytest.approx(goal)
            changed = 1 - (rates[s] * np.diag(channel[s])).sum()
            assert changed == pytest.approx(0.5 * np.abs(rates[s] - goal).sum())


def many_classes(rng, chances, rows, seed):
    """Public records whose predicted class of three is given, by chances of their privacy class."""
    s = np.arange(rows) % 2
    said = np.array([rng.choice(3, p=chances[k]) for k in s])
    return public_of(np.eye(3)[said], rng.integers(0, 3, rows), s, seed=seed, utilities=3)


def test_equalised_predictions_of_many_classes_keep_the_bound(monkeypatch):
    monkeypatch.setattr(ranks, "fit_public_model", lambda *args, **options: scoring(np.eye(3)))
    rng = np.random.default_rng(5)
    chances = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    accuracy, bounds = [], []
    for draw in range(200):
        public = many_classes(rng, chances, 300, bytes([draw]))
        found = Equaliser.fit(CrossFitted.fit("linear", public), public)
        channel = np.diff(found.flips, axis=2, prepend=0.0)
        laws = np.array([chances[s] @ channel[s] for s in range(2)])
        accuracy.append(laws.max(axis=0).sum() / 2)
        bounds.append(found.bound())
    assert np.mean(accuracy) <= np.mean(bounds) < 1
    assert chances.max(axis=0).sum() / 2 > np.mean(bounds)  # without it the promise would be broken
    # and a prediction is changed as often as the channel says
    for s, a in ((0, 0), (1, 2)):
        said = found.predict(np.repeat(np.eye(3)[[a]], 6000, axis=0), np.full(6000, s), Coins())
        expected = channel[s, a]
        counts = np.bincount(said, minlength=3)
        assert (counts[expected < 1e-12] == 0).all()
        assert fits(counts[expected > 1e-12], expected[expected > 1e-12]) > ONE_IN_A_THOUSAND


# ---- the fine step


@pytest.mark.parametrize("most_steps", [1, 40])
def test_records_that_did_not_arrive_are_left_out_and_counted(most_steps):
    options = RECIPES["fine"] | {"most_steps": most_steps}
    left, kept = (
        fit_jupa(PUBLIC, JupaRecipe("wants", "secret", release="fine", keep_unreached=keep, **options), seed=SEED)
        for keep in (False, True)
    )
    every = kept.release_rows(BLIND, Fixed())
    some = left.release_rows(BLIND, Fixed())
    assert every.kept.tolist() == list(range(60))
    assert every.not_reached == some.not_reached
    assert len(some.kept) == 60 - some.not_reached
    assert some.rows.tobytes() == every.rows[some.kept].tobytes()
    targets = Fixed().below(2, 60)
    arrived = left.step.step.rule.label(every.rows) == targets
    assert some.kept.tolist() == np.flatnonzero(arrived).tolist()
    if most_steps == 1:
        assert 0 < some.not_reached < 60


@pytest.mark.parametrize("name", ["fine", "coarse", "resample"])
def test_every_released_row_says_whose_it_is(model_of, name, monkeypatch, tmp_path):
    """Positions count over batches, with records left out on the way."""
    model = model_of(name)
    if name == "fine":
        model = dataclasses.replace(
            model, step=dataclasses.replace(model.step, step=dataclasses.replace(model.step.step, most_steps=1))
        )
    coins = Fixed(8)
    monkeypatch.setattr(apply_module, "Coins", lambda: coins)
    monkeypatch.setattr(apply_module, "batches_of", lambda opened, fitted, tell: batches_of(opened, fitted, tell, 7))
    folder = apply_jupa(model, PRIVATE, tmp_path / "out")
    found = folder.table()
    again, expected, places = Fixed(8), [], []
    for start in range(0, 60, 7):
        released = model.release_rows(PRIVATE[start : start + 7], again)
        expected.append(released.rows)
        places += (released.kept + start).tolist()
    assert (found.select(model.columns).to_numpy() == np.concatenate(expected)).all()
    assert ("row" in found.columns) == (name == "fine")
    if name == "fine":
        assert found["row"].to_list() == places
        assert 0 < folder.card.not_reached == 60 - found.height
    assert folder.card.rows == found.height
    assert folder.card.table_rows == 60


def test_a_release_of_nobody_is_refused(model_of, monkeypatch, tmp_path):
    def nowhere(self, z, targets, *, progress=None):
        return Moved(z, np.zeros(len(z), dtype=bool), np.zeros(len(z), dtype=int), np.zeros(len(z), dtype=int))

    monkeypatch.setattr(FineStep, "move", nowhere)
    with pytest.raises(InputError, match="none of 60"):
        apply_jupa(model_of("fine"), BLIND, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# ---- Laplace noise


def job_of(rows, names, clip, epsilon):
    return local.job_for(local.ProjectedTable(lambda: iter([rows]), len(rows), names, clip), epsilon, "t")


def noise_of(components, clip, epsilon, rows=4000):
    names = tuple(f"z{i + 1}" for i in range(components))
    return rehearsed(job_of(np.zeros((rows, components)), names, clip, epsilon))


@pytest.mark.parametrize(("components", "clip", "epsilon"), [(1, 2.0, 1.0), (3, 1.5, 4.0)])
def test_the_noise_has_the_scale_that_the_box_needs_and_no_other(components, clip, epsilon):
    found = noise_of(components, clip, epsilon).ravel()
    scale = 2 * clip * components / epsilon
    assert stats.kstest(found, "laplace", (0, scale)).pvalue > ONE_IN_A_THOUSAND
    assert stats.kstest(found, "laplace", (0, scale * 2 / 3)).pvalue < BEYOND_DOUBT
    assert stats.kstest(found, "laplace", (0, scale * 3 / 2)).pvalue < BEYOND_DOUBT
    if components > 1:  # a noise of its own for every number
        numbers = found.reshape(-1, components)
        assert np.abs(np.corrcoef(numbers.T) - np.eye(components)).max() < 0.06


def test_no_record_moves_the_release_by_more_than_the_noise_covers(monkeypatch):
    """Corners, outliers and points between: two releases with the same noise differ by what the records do."""
    clip, components = 1.5, 3
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-clip, clip], repeat=components)))
    points = np.concatenate([corners, corners * 1e9, rng.normal(0, 3, (20, components)), np.zeros((1, components))])
    names = ("z1", "z2", "z3")
    scale = np.abs(noise_of(components, clip, 1.0, rows=8000)).mean()
    monkeypatch.setattr(noise, "operating_system_key", lambda: b"s" * 32)
    twice = (rehearsed(job_of(rows, names, clip, 1.0)) for rows in (points, 0 * points))
    bare = next(twice) - next(twice)
    assert bare == pytest.approx(np.clip(points, -clip, clip), abs=1e-4)
    farthest = max(np.abs(one - other).sum() for one, other in itertools.combinations(bare, 2))
    assert farthest == pytest.approx(2 * clip * components, abs=1e-3)
    assert farthest / scale == pytest.approx(1.0, rel=0.03)


def test_a_noisy_release_is_charged_and_says_its_epsilon(model_of, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    folder = apply_jupa(model_of("laplace"), BLIND, tmp_path / "out", ledger=ledger, name="clinic")
    assert isinstance(folder, ReleaseFolder)
    assert folder.verify() == []
    assert folder.card.epsilon == 2.0
    assert folder.card.delta == 0.0
    assert (folder.card.unit, folder.card.relation) == ("row", "replace")
    charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
    assert len(charges) == 1
    assert folder.table().shape == (60, 1)
    assert folder.table().columns == list(model_of("laplace").columns)
    assert "epsilon = 2" in model_of("laplace").promise
    assert not model_of("laplace").promise.startswith("No differential privacy")
    with pytest.raises(InputError, match="utility-aware"):
        UtilityFolder.open(tmp_path / "out")


def test_a_noisy_release_reads_features_only_and_cannot_be_had_without_a_charge(model_of, tmp_path):
    without = PRIVATE.drop("wants", "secret")
    assert apply_jupa(model_of("laplace"), without, tmp_path / "out").table().height == 60
    with pytest.raises(InputError, match="charged to a ledger"):
        model_of("laplace").release_rows(without)


def test_a_ledger_is_refused_where_it_could_add_nothing_up(model_of, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(InputError, match="ledger"):
        apply_jupa(model_of("coarse"), BLIND, tmp_path / "out", ledger=ledger)
    assert not (tmp_path / "out").exists()


# ---- models on disk


@pytest.mark.parametrize("name", RECIPES)
def test_a_model_read_back_releases_the_same(model_of, name, tmp_path):
    model = model_of(name)
    model.save(tmp_path / "m")
    again = JupaModel.load(tmp_path / "m")
    assert again.recipe == model.recipe
    assert again.promise == model.promise
    assert again.seed == model.seed
    assert again.fingerprint() == model.fingerprint()
    assert again.columns == model.columns
    assert again.unperturbed(PRIVATE).tobytes() == model.unperturbed(PRIVATE).tobytes()
    if name != "laplace":
        assert same_release(again.release_rows(PRIVATE, Fixed()), model.release_rows(PRIVATE, Fixed()))
    with pytest.raises(InputError, match="exist"):
        model.save(tmp_path / "m")


def test_the_same_seed_learns_the_same_and_the_fingerprint_tells_models_apart(model_of):
    again = fit_jupa(PUBLIC, recipe_of("resample"), seed=SEED)
    assert again.fingerprint() == model_of("resample").fingerprint()
    prints = {model_of(name).fingerprint() for name in RECIPES}
    prints |= {fit_jupa(table(240, 50), recipe_of("resample"), seed=SEED).fingerprint()}
    assert len(prints) == len(RECIPES) + 1


@pytest.mark.parametrize("file", ["model.npz", "records.parquet", "model.json"])
@pytest.mark.parametrize("change", ["bit", "cut", "gone", "other"])
def test_a_model_that_was_changed_is_refused(model_of, tmp_path, file, change):
    model_of("whole").save(tmp_path / "m")
    path = tmp_path / "m" / file
    content = path.read_bytes()
    if change == "gone":
        path.unlink()
    elif change == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif change == "other":
        path.write_bytes(b"{}")
    elif file == "model.json":
        path.write_text(content.decode().replace(FORMAT, "adumbra-jupa/0"))
    else:
        place = len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(InputError):
        JupaModel.load(tmp_path / "m")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="model folder"):
        JupaModel.load(tmp_path)
    with pytest.raises(InputError, match="model folder"):
        apply_jupa(tmp_path / "nowhere", BLIND, tmp_path / "out")


def test_fitting_refuses_what_it_cannot_learn_from():
    with pytest.raises(InputError, match="'q'"):
        fit_jupa(PUBLIC, JupaRecipe("q", "secret"), seed=SEED)
    with pytest.raises(InputError, match="'q'"):
        fit_jupa(PUBLIC, dataclasses.replace(recipe_of("coarse"), drop=("q",)), seed=SEED)
    with pytest.raises(InputError, match="features"):
        fit_jupa(PUBLIC, dataclasses.replace(recipe_of("coarse"), drop=("a", "b", "c")), seed=SEED)
    with pytest.raises(InputError, match="components"):
        fit_jupa(PUBLIC, dataclasses.replace(recipe_of("coarse"), components=99), seed=SEED)
    with pytest.raises(InputError, match="classes"):
        fit_jupa(PUBLIC.with_columns(secret=pl.lit("F")), recipe_of("coarse"), seed=SEED)


def test_dropped_columns_are_not_needed_later():
    model = fit_jupa(PUBLIC, dataclasses.replace(recipe_of("coarse"), drop=("b",)), seed=SEED)
    assert model.features.columns == ["a", "c"]
    assert model.release_rows(BLIND.drop("b"), Fixed()).rows.shape == (60, 1)


# ---- what reaches the disk


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "laplace"])
def test_a_card_says_first_that_there_is_no_differential_privacy(model_of, name, tmp_path):
    folder = apply_jupa(model_of(name), PRIVATE, tmp_path / "out", csv=True)
    assert isinstance(folder, UtilityFolder)
    card = folder.card
    assert card.format == UTILITY_FORMAT
    assert card.differential_privacy is False
    assert card.promise.startswith("No differential privacy. ")
    assert card.promise == model_of(name).promise
    assert card.kind == model_of(name).recipe.release
    assert JupaRecipe.from_dict(card.options) == model_of(name).recipe
    assert card.model_sha256 == model_of(name).fingerprint()
    columns = {"columns": list(model_of(name).columns), "public records": 240}
    assert card.shown == model_of(name).recipe.used() | columns
    page = (tmp_path / "out" / "card.md").read_text().splitlines()
    assert page[0].startswith("# ")
    assert page[2].startswith("> **No differential privacy.** ")
    assert UtilityCard.model_validate_json(card.model_dump_json()) == card
    assert UtilityFolder.open(tmp_path / "out") == folder
    assert set(card.files) == {"data.parquet", "data.csv", "card.md"}
    assert pl.read_csv(tmp_path / "out" / "data.csv").shape == folder.table().shape
    assert folder.verify() == []
    assert not folder.signed
    with pytest.raises(InputError, match="without that promise"):
        ReleaseFolder.open(tmp_path / "out")
    assert "wants" not in folder.table().columns
    assert "secret" not in folder.table().columns


def test_whole_records_are_public_ones_without_their_labels(model_of, tmp_path):
    found = apply_jupa(model_of("whole"), BLIND, tmp_path / "out").table()
    assert found.columns == ["a", "b", "c"]
    known = set(PUBLIC.select("a", "b", "c").rows())
    assert set(found.rows()) <= known
    assert not set(found.rows()) & set(BLIND.rows())


@pytest.mark.parametrize("change", ["data", "page", "extra", "missing"])
def test_a_release_that_was_changed_is_found_out(model_of, tmp_path, change):
    apply_jupa(model_of("resample"), BLIND, tmp_path / "out")
    target = tmp_path / "out"
    if change == "data":
        pl.read_parquet(target / "data.parquet").reverse().write_parquet(target / "data.parquet")
    elif change == "page":
        (target / "card.md").write_text("# Differentially private")
    elif change == "extra":
        (target / "more.csv").write_text("1")
    else:
        (target / "data.parquet").unlink()
    assert len(open_folder(target).verify()) == 1


@pytest.mark.parametrize("card", ["", "[]", "{", '{"format": "adumbra-utility-card/1"}', '{"format": "other"}'])
def test_a_card_that_does_not_read(model_of, tmp_path, card):
    apply_jupa(model_of("coarse"), BLIND, tmp_path / "out")
    (tmp_path / "out" / "card.json").write_text(card)
    with pytest.raises(InputError, match="does not read as one"):
        open_folder(tmp_path / "out")


def test_a_card_with_more_in_it_is_refused(model_of, tmp_path):
    card = apply_jupa(model_of("coarse"), BLIND, tmp_path / "out").card
    (tmp_path / "out" / "card.json").write_text(json.dumps(card.model_dump() | {"epsilon": 0.1}))
    with pytest.raises(InputError, match="does not read as one"):
        open_folder(tmp_path / "out")


def test_a_signature_covers_the_card(model_of, tmp_path):
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key").write_bytes(key.private_bytes(*form))
    (tmp_path / "key").chmod(0o600)
    folder = apply_jupa(model_of("coarse"), BLIND, tmp_path / "out", signing_key=tmp_path / "key")
    assert folder.signed
    assert folder.verify(key.public_key()) == []
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32).public_key()
    assert len(folder.verify(other)) == 1
    card = tmp_path / "out" / "card.json"
    card.write_text(card.read_text().replace("No differential privacy", "Yes, differential privacy"))
    page, signature = open_folder(tmp_path / "out").verify(key.public_key())
    assert page == "card.md is not what card.json says"
    assert signature.startswith("the signature does not fit card.json and the key given (fingerprint ")
    with pytest.raises(InputError, match="Ed25519"):
        apply_jupa(model_of("coarse"), BLIND, tmp_path / "out2", signing_key=tmp_path / "nokey")


@pytest.mark.parametrize("name", ["coarse", "laplace"])
@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(model_of, name, failure, monkeypatch, tmp_path):
    def fails(*args):
        raise failure

    monkeypatch.setattr(apply_module, "seal", fails)
    monkeypatch.setattr("adumbra.publish.seal", fails)
    with pytest.raises(failure):
        apply_jupa(model_of(name), BLIND, tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(failure):
        apply_jupa(model_of(name), BLIND)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_input_error(model_of, monkeypatch, tmp_path):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(InputError, match="No space left"):
        apply_jupa(model_of("coarse"), BLIND, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["coarse", "laplace"])
def test_an_existing_place_is_refused_before_any_work(model_of, name, monkeypatch, tmp_path):
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(apply_module, "open_table", lambda *args, **options: pytest.fail("the table was opened"))
    with pytest.raises(InputError, match="exists"):
        apply_jupa(model_of(name), BLIND, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_killed_before_the_rename(model_of, tmp_path):
    model_of("coarse").save(tmp_path / "m")
    BLIND.write_parquet(tmp_path / "t.parquet")
    work = "from adumbra.jupa.apply import apply_jupa; apply_jupa('m', 't.parquet', 'out')"
    process = subprocess.run(
        [sys.executable, "-c", work],
        cwd=tmp_path,
        env=os.environ | {"ADUMBRA_TEST_KILL_AT": "before the rename"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "out").exists()
    assert len([p for p in tmp_path.iterdir() if "partial" in p.name]) == 1
    folder = apply_jupa(tmp_path / "m", tmp_path / "t.parquet", tmp_path / "out")
    assert folder.verify() == []
    assert [p for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_tables_of_other_columns_are_refused(model_of, tmp_path):
    with pytest.raises(InputError, match="no 'b'"):
        apply_jupa(model_of("coarse"), BLIND.drop("b"), tmp_path / "out")
    with pytest.raises(InputError, match=r"no 'secret'.*needs the privacy column"):
        apply_jupa(model_of("repair"), BLIND, tmp_path / "out")
    with pytest.raises(InputError, match="no rows"):
        apply_jupa(model_of("coarse"), BLIND[:0], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_two_releases_differ(model_of, monkeypatch, tmp_path):
    monkeypatch.undo()  # the real operating system
    one, other = (apply_jupa(model_of("resample"), BLIND, tmp_path / name) for name in ("one", "other"))
    assert not one.table().equals(other.table())
    assert one.card.release_id != other.card.release_id


def test_the_public_names():
    assert ad.fit_jupa is fit_jupa
    assert ad.apply_jupa is apply_jupa
    assert ad.JupaModel is JupaModel
    assert ad.JupaRecipe is JupaRecipe
