"""What a release is stands on its card as a type: questions, comparison, card and attacks follow from it alone."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.audit import attacks
from adumbra.audit.attacks.views import encoded, views
from adumbra.kinds.kind import KindFacts, kinds
from adumbra.mechanisms.catalogue import build, catalogue, options
from adumbra.publish import write_card

SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 100, "integer": True},
            "size": {"kind": "number", "low": 0, "high": 1},
            "sex": {"kind": "category", "values": ["f", "m"]},
            "ill": {"kind": "flag"},
        }
    }
)
NUMBERS = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(4)}})
BUDGET = ad.Budget(30.0, 1e-6)
COUNTS = {"columns": ("age", "sex"), "bins": 8}
RELEASES: dict[str, tuple[str, dict[str, object], str]] = {
    "dppro": ("dppro", {"dimension": 3}, "projected_rows"),
    "dprp": ("dprp", {}, "reconstructed_rows"),
    "tables": ("tables", {"rows": 60, "bins": 70}, "synthetic_table"),
    "moments": ("moments", {"rows": 60}, "synthetic_table"),
    "hybrid": ("hybrid", {"rows": 60}, "synthetic_table"),
    "pairs": ("pairs", {"rows": 60}, "synthetic_table"),
    "noisy_rows": ("noisy_rows", {}, "noisy_coordinates"),
    "laplace": ("laplace", COUNTS, "counts"),
    "privelet": ("privelet", COUNTS, "counts"),
    "hierarchical": ("hierarchical", COUNTS, "counts"),
    "fourier": ("fourier", COUNTS, "counts"),
    "sparse": ("sparse", COUNTS, "counts"),
    "csm": ("csm", COUNTS, "counts"),
    "items": ("items", {}, "item_counts"),
    "csm_records": ("csm", {"input": "records"}, "projected_rows"),
    "lip": ("lip", {"components": 2}, "components"),
    "lip_samples": ("lip", {"components": 2, "result": "samples", "rows": 60}, "components"),
    "analyze_gauss": ("analyze_gauss", {"components": 2, "result": "approximation"}, "components"),
    "power_method": ("power_method", {"components": 2, "result": "coordinates"}, "components"),
    "lop": ("lop", {"components": 2}, "components"),
    "lop_approximation": ("lop", {"components": 2, "result": "approximation"}, "components"),
}
ALIGNED = {"dppro", "csm_records", "dprp", "noisy_rows", "analyze_gauss", "power_method", "lop", "lop_approximation"}
DRAWN = {"tables", "moments", "hybrid", "pairs", "lip_samples"}


def people(count: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 101, count),
            "size": rng.random(count).round(6),
            "sex": rng.choice(["f", "m"], count),
            "ill": rng.choice(["yes", "no"], count),
        }
    )


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """One release of each, made once."""
    place = tmp_path_factory.mktemp("kinds")
    found = {}

    def release(name: str) -> ad.Release:
        if name not in found:
            mechanism = build(*RELEASES[name][:2])
            found[name] = ad.release(people(120, 0), SCHEMA, mechanism, BUDGET, out=place / name)
        return found[name]

    return release


def test_every_mechanism_that_writes_cards_is_among_these():
    assert {name for name, _, _ in RELEASES.values()} == {n for n, m in catalogue().items() if hasattr(m, "run")}
    assert {kind for _, _, kind in RELEASES.values()} == set(kinds())


@pytest.mark.parametrize("name", RELEASES)
def test_kind_options_and_facts_stand_on_the_card(name, released):
    release, (mechanism, given, kind) = released(name), RELEASES[name]
    card = json.loads((release.path / "card.json").read_text())
    assert (card["format"], card["kind"]) == ("adumbra-card/2", kind)
    made = build(mechanism, given)
    assert list(card["options"]) == list(options(mechanism))
    assert build(card["mechanism"], card["options"]) == made
    assert isinstance(release.facts, KindFacts) and release.facts.row_aligned == (name in ALIGNED)
    assert card["facts"] == release.facts.model_dump(mode="json")
    assert set(card["answers"]) <= set(release.kind.questions)


@pytest.mark.parametrize("name", RELEASES)
def test_only_drawn_rows_are_called_drawn(name, released):
    page = (released(name).path / "card.md").read_text()
    assert ("Its rows are drawn" in page) == (name in DRAWN)
    if name == "dprp":
        assert "in the order of the table, and is about that person" in page


def test_a_card_of_axes_says_once_how_many_and_what_a_row_is(released):
    pages = {
        name: (released(name).path / "card.md").read_text() for name in RELEASES if RELEASES[name][2] == "components"
    }
    assert len(pages) >= 4
    for name, page in pages.items():
        assert page.count("| components |") == 1, name
        assert re.search(
            r"\| result \| (axes: a row of this release|coordinates: a row|approximation: a row|samples: rows)", page
        )


@pytest.mark.parametrize("name", RELEASES)
def test_no_code_reads_the_words(name, released, tmp_path):
    """A card whose words all say something else is answered, compared and attacked the same."""
    release = released(name)
    other = tmp_path / "other"
    release.save(other)
    for file in ("card.json", "card.md"):
        (other / file).unlink()
    words = {"row": "sheep", "facts": {"bands": 3, "domain": "x", "rows cut to": 9}, "tables": {"Components": []}}
    prose = dict.fromkeys(("title", "releases", "caution", "promise", "theorem", "differs"), "row-aligned")
    changed = release.card.model_copy(update=prose | {"words": release.card.words.model_copy(update=words)})
    write_card(other, changed, None)
    one, two = (ad.evaluate_release(folder, people(120, 0)).to_dict() for folder in (release.path, other))
    assert one == two
    rows = encoded(people(30, 1), release.card)
    first, second = (views(ad.load(folder), 120, rows) for folder in (release.path, other))
    assert list(first) == list(second)
    for view in first:
        assert np.array_equal(first[view](rows, np.arange(30)), second[view](rows, np.arange(30)))


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_can_be_attacked(name, released, tmp_path, cli):
    people(120, 0).write_csv("truth.csv")
    people(120, 1).write_csv("holdout.csv")
    done = cli("audit", released(name).path, "--truth", "truth.csv", "--holdout", "holdout.csv", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert "own place" in json.dumps(report) if name in ALIGNED else "likelihood" in json.dumps(report)


@pytest.mark.parametrize("name", ["dppro", "laplace", "lop", "noisy_rows"])
def test_a_folder_whose_arrays_are_others_is_refused(name, released, tmp_path):
    other = tmp_path / "other"
    released(name).save(other)
    for file in ("card.json", "card.md", "model.npz"):
        (other / file).unlink()
    np.savez(other / "model.npz", something=np.zeros(3))
    write_card(other, released(name).card, None)
    for ask in (
        lambda: ad.evaluate_release(other, people(120, 0)),
        lambda: views(ad.load(other), 120, encoded(people(30, 1), released(name).card)),
    ):
        with pytest.raises(ad.InputError, match="fit together"):
            ask()


def test_questions_that_a_kind_does_not_answer_are_refused(released):
    for name, (_, _, kind) in RELEASES.items():
        release = released(name)
        asked = {
            "distance": lambda release: release.distances([(0, 1)]),
            "range": lambda release: release.range("age", 1, 20),
            "axes": lambda release: release.axes(),
        }
        for question, ask in asked.items():
            if question in kinds()[kind].questions:
                assert ask(release).standard_error is not None if question == "range" else len(ask(release))
                continue
            with pytest.raises(ad.InputError, match=f"a release that answers {question}"):
                ask(release)


# ---- what used to go wrong


def test_axes_of_lop_are_compared_with_rows_clipped_as_its_card_says():
    rows = pl.DataFrame(np.random.default_rng(0).random((300, 4)) ** 3, schema=["c0", "c1", "c2", "c3"])
    release = ad.release(rows, NUMBERS, ad.LOP(components=2), BUDGET)
    found = ad.evaluate_release(release, rows)
    assert found.axes.clipped_to == release.facts.rows_clipped_to == pytest.approx(0.577, abs=1e-3)
    assert "clipped to a length of 0.577" in found.notes[0]
    scaled = rows.to_numpy() - 0.5
    clipped = scaled * np.minimum(1.0, 0.57735 / np.linalg.norm(scaled, axis=1))[:, None]
    axes = release.arrays["axes"]
    angles = []
    for x in (clipped, scaled):
        best = np.linalg.eigh(x.T @ x)[1][:, -2:]
        angles.append(np.degrees(np.arcsin(np.linalg.norm(axes - axes @ best @ best.T, 2))))
    assert found.axes.largest_angle == pytest.approx(angles[0], abs=0.05) and abs(angles[0] - angles[1]) > 0.5
    gauss = ad.release(rows, NUMBERS, ad.AnalyzeGauss(components=2), BUDGET)
    assert ad.evaluate_release(gauss, rows).axes.clipped_to == pytest.approx(0.144, abs=1e-3)
    whole = ad.release(rows, NUMBERS, ad.LOP(components=2), ad.Budget(30.0, unit="cell"))
    assert ad.evaluate_release(whole, rows).axes.clipped_to is None


@pytest.mark.parametrize("mechanism", [ad.LOP(components=4, result="approximation"),
                                       ad.AnalyzeGauss(components=4, result="approximation")])  # fmt: skip
def test_approximations_are_attacked_at_their_own_place(mechanism):
    """A released row is its person's own: at epsilon 30 most people are told from others by it."""
    rows, others = (
        pl.DataFrame(np.random.default_rng(seed).random((400, 4)), schema=["c0", "c1", "c2", "c3"]) for seed in (0, 1)
    )
    release = ad.release(rows, NUMBERS, mechanism, BUDGET)
    found = attacks.membership(release, rows, others, most=200)
    assert found.details["view"] == "own place"
    assert found.success > (0.9 if isinstance(mechanism, ad.LOP) else 0.7)


def test_paths_of_the_owners_machine_are_on_no_card(tmp_path):
    rows = pl.DataFrame(np.random.default_rng(0).random((50, 4)), schema=["c0", "c1", "c2", "c3"])
    secret = tmp_path / "secret-folder"
    secret.mkdir()
    np.save(secret / "axes.npy", np.eye(4)[:2])
    release = ad.release(rows, NUMBERS, ad.LOP(basis=str(secret / "axes.npy")), BUDGET)
    text = release.card.model_dump_json()
    assert "secret-folder" not in text and release.card.options["basis"] == "axes.npy"
    assert len(release.facts.basis_sha256) == 64
    np.save(secret / "atoms.npy", np.eye(9))  # one for what is missing
    few = ad.Schema.from_dict({"columns": {"c0": {"kind": "number", "low": 0, "high": 1}}})
    for mechanism in (ad.Sparse(bins=8, dictionary=str(secret / "atoms.npy")),
                      ad.CSM(bins=8, dictionary=str(secret / "atoms.npy"))):  # fmt: skip
        release = ad.release(rows.select("c0"), few, mechanism, BUDGET)
        assert "secret-folder" not in release.card.model_dump_json()
        assert release.card.options["dictionary"] == "atoms.npy"
        assert "likelihood" in views(release, 50, encoded(rows.select("c0"), release.card))
