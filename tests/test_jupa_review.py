"""What a hostile reader would try on utility-aware releases: rare classes, unseen values, edited models, words."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from adumbra.audit.adversaries import SeededCoins
from adumbra.audit.findings import REFUTED
from adumbra.audit.jupa import audit_jupa
from adumbra.core.errors import InputError
from adumbra.core.randomness import PublicSeed
from adumbra.jupa.apply import apply_jupa
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.sklearn import JUPA

SEED = PublicSeed.given("review")


def _records(rows: int, seed: int, *, rare: float = 0.5, shown: float = 0.0, unequal: float = 0.0) -> pl.DataFrame:
    """u shows in column a; s is 1 for a share `rare`, shows in column b, and shifts the rates of u."""
    rng = np.random.default_rng(seed)
    s = (rng.random(rows) < rare).astype(np.int64)
    u = (rng.random(rows) < 0.5 + unequal * (2 * s - 1)).astype(np.int64)
    x = rng.normal(size=(rows, 3))
    x[:, 0] += 2.5 * u
    x[:, 1] += shown * s
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "u": u, "s": s})


def _fitted(public: pl.DataFrame, **options: Any) -> JupaModel:
    if options.get("release", "resample") in ("resample", "respond", "repair"):
        options = {"model": "linear"} | options
    return fit_jupa(public, JupaRecipe(("u",), ("s",), **options), seed=SEED)


def _guessed(model: JupaModel, private: pl.DataFrame) -> float:
    """Accuracy, for equally likely classes, of the best guess from what a row shows."""
    told = model.told_by(model.release_rows(private, SeededCoins(1)).rows)
    assert told is not None
    s = model.labels_of(private, "privacy")
    rates = [np.bincount(told[s == k], minlength=told.max() + 1) / (s == k).sum() for k in range(s.max() + 1)]
    return float(np.max(rates, axis=0).sum() / len(rates))


# ---- a promise for equally likely classes is judged by equally likely classes


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


# ---- records and references are exchangeable, whatever the code of a value


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


# ---- words and numbers on the card


def test_a_stated_accuracy_holds_without_an_if() -> None:
    """Predictions tell the label at 80 %, so that a response of epsilon 0.1 bounds nothing at 52 %."""
    model = _fitted(_records(900, 5, unequal=0.35), release="respond", epsilon=0.1)
    private = _records(4000, 6, unequal=0.35)
    stated = model.words.accuracy_bound
    assert stated is None or _guessed(model, private) <= stated + 0.02


def test_the_estimator_states_no_accuracy_that_depends_on_an_if() -> None:
    records = _records(900, 5, unequal=0.35)
    fitted = JUPA(release="respond", epsilon=0.1, model="linear", seed=1)
    fitted.fit(records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), privacy=records["s"].to_numpy())
    assert fitted.accuracy_bound_ is None or fitted.accuracy_bound_ >= 0.75


def test_what_predictions_tell_is_that_of_the_predictions_that_are_told() -> None:
    """After equalising, the class that is told says little, and the card must not say 80 %."""
    model = _fitted(_records(900, 5, unequal=0.35), equalise=True)
    assert model.words.told is None or abs(model.words.told - _guessed(model, _records(4000, 6, unequal=0.35))) < 0.05


def test_equalising_promises_no_single_record_anything() -> None:
    words = _fitted(_records(900, 5), release="respond", epsilon=1.0, equalise=True).words
    assert "Every record" not in words.to_whom


# ---- a model folder that somebody edited

Edit = Callable[[dict[str, Any], dict[str, Any]], None]


def _edited(model: JupaModel, folder: Path, edit: Edit) -> JupaModel:
    model.save(folder)
    content = json.loads((folder / "model.json").read_text())
    with np.load(folder / "model.npz") as stored:
        arrays = dict(stored)
    edit(content, arrays)
    np.savez(folder / "model.npz", allow_pickle=False, **arrays)
    (folder / "model.json").write_text(json.dumps(content))
    return JupaModel.load(folder)


def _weaker(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["recipe"] |= {"release": "coarse", "epsilon": None, "model": "auto"}


def _other_number(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["told"] = np.asarray(0.5)


def _looks_at_the_label(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["features"]["columns"][2]["name"] = "s"


def _one_more_class(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["privacy"]["classes"].append(["2"])


def _no_mean(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["features"]["mean"][0] = None


def _short_mean(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["features"]["mean"] = [0.0]


def _starts_elsewhere(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["starts"] = arrays["starts"] * 1000


def _too_few_starts(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["starts"] = arrays["starts"][:2]


def _rows_of_nan(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["public_rows"] = arrays["public_rows"] * np.nan


@pytest.mark.parametrize("edit", [_weaker, _other_number, _looks_at_the_label, _one_more_class])
def test_an_edited_model_is_refused(tmp_path: Path, edit: Edit) -> None:
    model = _fitted(_records(200, 7), release="respond", epsilon=0.1)
    with pytest.raises(InputError):
        _edited(model, tmp_path / "model", edit)


@pytest.mark.parametrize(
    "edit",
    [_looks_at_the_label, _one_more_class, _no_mean, _short_mean, _starts_elsewhere, _too_few_starts, _rows_of_nan],
)
def test_a_model_that_does_not_fit_together_is_refused_even_if_its_hash_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    """Anybody can write the hash anew: whoever is given a model relies on what is checked beside it."""
    monkeypatch.setattr(JupaModel, "fingerprint", lambda self: "right")
    model = _fitted(_records(200, 7), release="respond", epsilon=0.1)
    with pytest.raises(InputError):
        _edited(model, tmp_path / "model", edit)


def test_a_model_of_a_hundred_thousand_brackets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("[" * 100_000)
    with pytest.raises(InputError):
        JupaModel.load(tmp_path)


def test_a_card_names_the_whole_records_and_the_classes_of_its_model() -> None:
    model = _fitted(_records(200, 7), whole=True)
    assert model.records is not None
    assert replace(model, records=model.records.reverse()).fingerprint() != model.fingerprint()
    other = replace(model.privacy, classes=model.privacy.classes[::-1])
    assert replace(model, privacy=other).fingerprint() != model.fingerprint()


# ---- input


def test_true_and_false_mean_the_same_however_they_are_written() -> None:
    """A public Parquet file and a private CSV file: one has booleans, the other words, or Python's, or numbers."""
    public = _records(200, 8).with_columns(f=pl.col("a") > 1.0)
    model = _fitted(public, release="coarse")
    word = public["f"].cast(pl.String)
    for column in (word, word.str.to_titlecase(), word.str.to_uppercase(), public["f"].cast(pl.Float64)):
        np.testing.assert_array_equal(model.unperturbed(public.with_columns(f=column)), model.unperturbed(public))


def test_a_column_of_other_things_is_told_to_the_owner_and_not_refused() -> None:
    """Every cell of a number column is a word: nobody should get that unawares, and no refusal may depend on cells."""
    public, told = _records(200, 8), []
    apply_jupa(_fitted(public), public.with_columns(a=pl.lit("abc")), tell=told.append)
    assert any("a: no number in the whole table" in line for line in told)


# ---- the estimator


def test_a_noisy_transform_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    records = _records(100, 9)
    rows = records.select("a", "b", "c").to_numpy()
    fitted = JUPA(release="laplace", epsilon=1.0, n_components=1).fit(
        rows, records["u"].to_numpy(), privacy=records["s"]
    )
    fitted.transform(rows)
    assert list(tmp_path.iterdir()) == []


def test_an_audit_of_the_estimator_refuses_labels_it_never_saw() -> None:
    records = _records(100, 9)
    rows, u, s = records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), records["s"].to_numpy()
    fitted = JUPA(release="coarse").fit(rows, u, privacy=s)
    with pytest.raises(ValueError, match="label"):
        fitted.audit(rows, u + 7, s, quick=True)


def test_privacy_labels_that_are_missing_are_refused_with_words() -> None:
    records = _records(100, 9)
    labels = np.array(["x", None] * 50, dtype=object)
    with pytest.raises(ValueError, match="label"):
        JUPA(release="coarse").fit(records.select("a", "b", "c").to_numpy(), records["u"].to_numpy(), privacy=labels)
