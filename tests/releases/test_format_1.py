"""Folders with cards of format 1, as an earlier version of this library wrote them: they open, verify and answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import adumbra as ad
from adumbra.audit import attacks
from adumbra.audit.attacks.views import measured_sums
from adumbra.kinds.kind import kind_named
from adumbra.releases.card import Card
from adumbra.releases.folder import ReleaseFolder
from adumbra.releases.format_1 import format_2

OLD = Path(__file__).parent / "format_1"
KINDS = {
    "dppro": "projected_rows",
    "csm_records": "projected_rows",
    "dprp": "reconstructed_rows",
    "tables": "synthetic_table",
    "moments": "synthetic_table",
    "hybrid": "synthetic_table",
    "noisy_rows": "noisy_coordinates",
    **dict.fromkeys(("laplace", "fourier", "sparse", "csm", "hierarchical", "privelet"), "counts"),
    **dict.fromkeys(("lip", "lip_samples", "analyze_gauss", "power_method", "lop", "lop_approximation"), "components"),
}
ALIGNED = {"dppro", "csm_records", "dprp", "noisy_rows", "analyze_gauss", "power_method", "lop", "lop_approximation"}
WHOLE = sorted(path.parent.name for path in OLD.glob("*/data.parquet"))
TRUTH = OLD / "truth.csv"


def test_every_kind_of_old_card_is_stored_here():
    assert set(KINDS) == {path.parent.name for path in OLD.glob("*/card.json")}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_old_card_is_read_as_one_of_format_2(name):
    old = json.loads((OLD / name / "card.json").read_text())
    card = Card.model_validate(format_2(old))
    assert card.kind == KINDS[name]
    facts = kind_named(card.kind).facts(card)
    assert facts.row_aligned == (name in ALIGNED)
    assert card.words.facts == old["parameters"] and card.words.tables == old["tables"]
    assert (card.epsilon, card.files, card.noise.keys()) == (old["epsilon"], old["files"], old["noise"].keys())
    assert kind_named(card.kind).words(facts).facts


def test_facts_of_old_components():
    cards = {n: Card.model_validate(format_2(json.loads((OLD / n / "card.json").read_text()))) for n in KINDS}
    facts = {n: kind_named(card.kind).facts(card) for n, card in cards.items()}
    assert facts["lip"].clipped_to == pytest.approx(0.239349365234375) and facts["lip"].angle == "no bound"
    assert facts["lop"].clipped_to == facts["lop"].rows_clipped_to > 0.5
    assert facts["lop"].basis == "dct" and len(facts["lop"].basis_sha256) == 64
    assert len(facts["lip"].spectrum) == 2 and facts["lip"].listed()[0]["component"] == 1
    assert facts["tables"].predicted_error.marginal_tv > 0 and facts["hybrid"].bins and facts["tables"].cells
    assert facts["csm_records"].sketch.measurements == 5 == facts["csm_records"].sketch.cells
    assert facts["fourier"].frequencies == 8


@pytest.mark.parametrize("name", WHOLE)
def test_an_old_folder_verifies_and_its_page_is_left_as_it_was(name, tmp_path):
    folder = shutil.copytree(OLD / name, tmp_path / "r")
    found = ReleaseFolder.open(folder).examine()
    assert found.problems == () and not found.page_checked
    assert found.page == "not checked: written in format adumbra-card/1"
    (folder / "card.md").write_text("another page")
    assert any("card.md" in problem for problem in ReleaseFolder.open(folder).verify())


@pytest.mark.parametrize("name", WHOLE)
def test_an_old_release_is_compared_and_attacked(name, tmp_path):
    opened = ad.load(shutil.copytree(OLD / name, tmp_path / "r"))
    found = ad.evaluate_release(opened, TRUTH)
    assert found.truth_rows == 60 and found.comparison.sections()
    table = pl.read_csv(TRUTH)
    attack = attacks.membership(opened, table, table.sample(60, seed=0, with_replacement=True), most=12)
    assert attack.runs == 8


def test_old_releases_answer(tmp_path):
    answers = {
        "dppro": lambda release: release.mean("age"),
        "laplace": lambda release: release.range("age", 20, 40),
        "lop": lambda release: release.axes(),
        "analyze_gauss": lambda release: release.axes(),
    }
    for name, ask in answers.items():
        assert ask(ad.load(shutil.copytree(OLD / name, tmp_path / name))) is not None
    frame = ad.load(tmp_path / "analyze_gauss").axes()
    assert {"variance", "share", "axis_within_degrees", "largest loadings"} < set(frame.columns)


def test_what_an_old_card_does_not_name_is_not_guessed(tmp_path):
    """Tables had no cells for what is missing then, and seven bins were asked for, which the card does not say."""
    opened = ad.load(shutil.copytree(OLD / "tables", tmp_path / "r"))
    assert "bins" not in opened.card.options
    given = ad.Tables(rows=30, bins=7)
    assert measured_sums(opened.card, opened.arrays, 60, given) == []
    assert measured_sums(opened.card, opened.arrays, 60, None) == []


@pytest.mark.parametrize(
    "change",
    [{"parameters": {}, "mechanism": "lop"}, {"parameters": 3}, {"parameters": {"domain": {}}},
     {"parameters": {"result": "axes"}}, {"parameters": {"bands": 1, "sensing": {}}}, {"noise": 1}],
)  # fmt: skip
def test_an_old_card_of_no_kind_is_refused(change, tmp_path):
    folder = shutil.copytree(OLD / "lop", tmp_path / "r")
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | change))
    with pytest.raises(ad.InputError, match="does not read as one"):
        ReleaseFolder.open(folder)


@pytest.mark.parametrize("cells", [[3_000_000_000, "x"], [10**900] * 4, [2**28] * 65, "many", [True], [0]])
def test_sizes_on_an_old_card_are_checked_before_they_are_multiplied(cells):
    old = {"parameters": {"domain": {"cells": cells}}, "mechanism": "laplace", "noise": {}, "rows": 1}
    with pytest.raises(ValueError, match="no domain"):
        format_2(old)
