"""Models and releases that version 0.2 wrote are read; what was changed since is refused, and no sentence decides.

saved_models.zip holds a model of every kind, three releases, and what version 0.2 said of them (models/said.json) and
made of public.csv (models/said.npz, by its last commit, on one machine: others may differ in the last digits).
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adumbra.audit.adversaries import SeededCoins
from adumbra.common.errors import InputError
from adumbra.jupa.model import FORMAT, JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.jupa.release_kind import FittedRelease
from adumbra.releases.folder import UtilityFolder, open_folder

SAVED = zipfile.ZipFile(Path(__file__).parent / "saved_models.zip")
SAID = json.loads(SAVED.read("models/said.json"))
MADE = dict(np.load(io.BytesIO(SAVED.read("models/said.npz"))))
PUBLIC = pl.read_csv(io.BytesIO(SAVED.read("models/public.csv")))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    SAVED.extractall(tmp_path)
    return tmp_path / "models"


def everything_that_is_fitted(cls: type = FittedRelease) -> list[type]:
    return [cls, *(found for one in cls.__subclasses__() for found in everything_that_is_fitted(one))]


@pytest.fixture
def reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sentence that a release says of itself, put otherwise."""
    release_kinds()
    for cls in everything_that_is_fitted():
        if "statement" in vars(cls):
            real = vars(cls)["statement"]

            def other(self, utilities, privacies, real=real):
                said = real(self, utilities, privacies)
                words = {name: f"In other words: {getattr(said, name).upper()}" for name in ("title", "promise")}
                return replace(said, **words, to_whom="You.", caution="Beware.")

            monkeypatch.setattr(cls, "statement", other)


@pytest.mark.parametrize("name", SAID)
def test_a_model_of_an_older_version_releases_as_it_did(saved: Path, name: str) -> None:
    model, said = JupaModel.load(saved / name), SAID[name]
    assert model.fingerprint() == said["sha256"]
    assert list(model.columns) == said["columns"]
    np.testing.assert_allclose(model.unperturbed(PUBLIC), MADE[f"{name}__u"], rtol=1e-9, atol=1e-12)
    assert (model.words.label_epsilon, model.words.told) == (said["label_epsilon"], said["told"])
    assert model.words.accuracy_bound == said["accuracy_bound"]
    if f"{name}__rows" in MADE:
        found = model.release_rows(PUBLIC, SeededCoins(1))
        np.testing.assert_allclose(found.rows, MADE[f"{name}__rows"], rtol=1e-9, atol=1e-12)
        assert found.kept.tolist() == MADE[f"{name}__kept"].tolist()


@pytest.mark.parametrize("name", SAID)
def test_a_model_of_an_older_version_keeps_its_name_when_it_is_saved_again(saved: Path, name: str) -> None:
    JupaModel.load(saved / name).save(saved / "again")
    again = JupaModel.load(saved / "again")
    assert again.fingerprint() == SAID[name]["sha256"]
    assert json.loads((saved / "again" / "model.json").read_text())["format"] == FORMAT


@pytest.mark.parametrize("name", SAID)
def test_rewording_a_promise_makes_no_model_unreadable(saved: Path, reworded: None, name: str) -> None:
    old = JupaModel.load(saved / name)
    assert old.promise.startswith("In other words: ")
    old.save(saved / "reworded")
    assert JupaModel.load(saved / "reworded").fingerprint() == old.fingerprint()


def test_a_model_saved_in_other_words_is_read_in_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit_jupa(PUBLIC, JupaRecipe("wants", "secret", release="coarse"), seed="words")
    with monkeypatch.context() as patch:
        patch.setattr(JupaModel, "promise", "Nothing, in other words.")
        model.save(tmp_path / "m")
    assert "in other words" in (tmp_path / "m" / "model.json").read_text()
    assert JupaModel.load(tmp_path / "m").promise == model.promise


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("change", ["array", "seed", "option", "class", "format"])
def test_an_older_model_that_was_changed_is_refused(saved: Path, name: str, change: str) -> None:
    file = saved / name / "model.json"
    content = json.loads(file.read_text())
    if change == "array":
        with np.load(saved / name / "model.npz") as found:
            arrays = dict(found)
        arrays["known"] = arrays["known"][::-1].copy()
        np.savez(saved / name / "model.npz", allow_pickle=False, **arrays)
    elif change == "seed":
        content["seed"]["value"] = "00" * (len(content["seed"]["value"]) // 2)
    elif change == "option":
        content["recipe"]["drop"] = ["nothing"]
    elif change == "class":
        content["privacy"]["classes"].reverse()
    else:
        content["format"] = "adumbra-jupa/2"  # the hash of its words is missing
    file.write_text(json.dumps(content))
    with pytest.raises(InputError):
        JupaModel.load(saved / name)


@pytest.mark.parametrize("name", ["coarse", "fine", "respond"])
def test_a_release_of_an_older_version_opens_and_verifies(saved: Path, name: str) -> None:
    folder = open_folder(saved.parent / "folders" / name)
    assert isinstance(folder, UtilityFolder)
    assert folder.verify() == []
    assert folder.card.kind == name
    assert (folder.card.not_reached is None) == (name != "fine")
    assert JupaRecipe.from_dict(folder.card.options) == JupaModel.load(saved / name).recipe
    assert folder.card.model_sha256 == SAID[name]["sha256"]
    assert type(folder.card).model_validate_json(folder.card.model_dump_json()) == folder.card
