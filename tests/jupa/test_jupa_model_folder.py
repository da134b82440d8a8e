"""A model folder that somebody edited is refused, and a fingerprint covers all that was learnt."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adumbra.common.errors import InputError
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from tests.jupa.labelled_table import SEED, table
from tests.jupa.records import _fitted, _records

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


def test_the_fingerprint_covers_labels_and_whole_records():
    """Everything that was learnt: both targets and the records released whole too."""
    model = fit_jupa(table(200, 0), JupaRecipe("wants", "secret", model="linear", whole=True), seed=SEED)
    other = dataclasses.replace(model, records=model.records.reverse())
    assert other.fingerprint() != model.fingerprint()
    renamed = dataclasses.replace(model.utility, classes=tuple(reversed(model.utility.classes)))
    assert dataclasses.replace(model, utility=renamed).fingerprint() != model.fingerprint()


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
