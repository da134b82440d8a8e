"""What a utility-aware release leaves behind, and what its card may not claim."""

from __future__ import annotations

import json

import pytest

import adumbra as ad
from adumbra.common.errors import InputError
from adumbra.jupa.apply import apply_jupa
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.releases.folder import open_folder
from tests.jupa.labelled_table import SEED, table


def test_no_temporary_folder_is_left_when_the_table_does_not_open(monkeypatch, tmp_path):
    """Nothing is made before the table is known to open."""
    model = fit_jupa(table(100, 0), JupaRecipe("wants", "secret", release="coarse"), seed=SEED)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InputError):
        apply_jupa(model, "nowhere.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_utility_card_cannot_claim_differential_privacy(tmp_path):
    """A card that claims differential privacy is no card of this kind."""
    model = fit_jupa(table(100, 0), JupaRecipe("wants", "secret", release="coarse"), seed=SEED)
    card = apply_jupa(model, table(20, 1), tmp_path / "out").card
    text = json.dumps(card.model_dump() | {"differential_privacy": True})
    (tmp_path / "out" / "card.json").write_text(text)
    with pytest.raises(InputError):
        open_folder(tmp_path / "out")


def test_a_ledger_may_be_named_by_its_path(tmp_path):
    recipe = JupaRecipe("wants", "secret", release="laplace", epsilon=1.0)
    model = fit_jupa(table(100, 0), recipe, seed=SEED)
    apply_jupa(model, table(20, 1), tmp_path / "out", ledger=str(tmp_path / "ledger.db"), name="people")
    assert [entry.table for entry in ad.Ledger(tmp_path / "ledger.db").entries() if entry.kind == "charge"] == [
        "people"
    ]


@pytest.mark.parametrize("release", ["laplace", "coarse"])
@pytest.mark.parametrize(
    "wrong",
    [{"ledger": 5}, {"ledger": object()}, {"out": 5}, {"delimiter": 5}, {"name": 5}, {"name": ""}, {"name": "\ud800"}],
)
def test_what_is_no_ledger_folder_or_name_is_refused(tmp_path, monkeypatch, release, wrong):
    """Before anything is charged, and without a word about a charge."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    recipe = JupaRecipe("wants", "secret", release=release, **({"epsilon": 1.0} if release == "laplace" else {}))
    model = fit_jupa(table(100, 0), recipe, seed=SEED)
    with pytest.raises(InputError):
        apply_jupa(model, table(20, 1), **wrong)
    assert list(tmp_path.iterdir()) == []
