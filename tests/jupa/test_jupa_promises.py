"""Stated promises and accuracies hold: for rare classes, unseen values, equalised and repaired predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from adumbra.audit.findings import REFUTED
from adumbra.audit.utility_audit import audit_jupa
from adumbra.common.errors import InputError
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from tests.jupa.labelled_table import SEED, Fixed, table
from tests.jupa.records import _fitted, _guessed, _records


@pytest.mark.parametrize(
    "options",
    [{"release": "repair"}, {"release": "resample", "equalise": True}, {"release": "laplace", "epsilon": 0.5}],
)
def test_a_promise_that_holds_is_not_refuted_because_a_class_is_rare(options: dict[str, Any]) -> None:
    model = _fitted(_records(900, 1, rare=0.1), **options)
    found = audit_jupa(model, _records(900, 2, rare=0.1), quick=True)
    assert found.verdict != REFUTED, (found.surely, found.claimed, found.adversaries.chance)


def test_a_rare_class_that_can_be_read_off_does_not_hold() -> None:
    """One of twelve is of class 1, and a threshold on a released column names 3 of 4 of either class rightly."""
    model = _fitted(_records(1500, 1, rare=0.08, shown=1.3), release="coarse", projection="none")
    assert not audit_jupa(model, _records(1500, 2, rare=0.08, shown=1.3), quick=True).adversaries.holds()


@pytest.mark.parametrize("encoding", ["onehot", "binary"])
@pytest.mark.parametrize("options", [{"release": "repair"}, {"release": "resample", "equalise": True}])
def test_values_that_nobody_else_has_keep_the_promise(encoding: str, options: dict[str, Any]) -> None:
    """Every record of class 1 has a value of its own: public ones are in the code book, private ones never."""

    def records(rows: int, seed: int) -> pl.DataFrame:
        plain = _records(rows, seed, unequal=0.3)
        own = np.random.default_rng(seed).integers(0, 10**9, rows)
        return plain.with_columns(
            pl.Series("town", [f"t{own[i]}" if s else "a" for i, s in enumerate(plain["s"])]), pl.col("a") / 2.5
        )

    try:
        model = _fitted(records(800, 3), encoding=encoding, **options)
    except InputError:
        return  # refusing is an honest answer too
    bound = model.words.accuracy_bound
    assert bound is not None
    assert _guessed(model, records(4000, 4)) <= bound + 0.02


def test_a_stated_accuracy_holds_without_an_if() -> None:
    """Predictions tell the label at 80 %, so that a response of epsilon 0.1 bounds nothing at 52 %."""
    model = _fitted(_records(900, 5, unequal=0.35), release="respond", epsilon=0.1)
    private = _records(4000, 6, unequal=0.35)
    stated = model.words.accuracy_bound
    assert stated is None or _guessed(model, private) <= stated + 0.02


def test_what_predictions_tell_is_that_of_the_predictions_that_are_told() -> None:
    """After equalising, the class that is told says little, and the card must not say 80 %."""
    model = _fitted(_records(900, 5, unequal=0.35), equalise=True)
    assert model.words.told is None or abs(model.words.told - _guessed(model, _records(4000, 6, unequal=0.35))) < 0.05


def test_equalising_promises_no_single_record_anything() -> None:
    words = _fitted(_records(900, 5), release="respond", epsilon=1.0, equalise=True).words
    assert "Every record" not in words.to_whom


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
