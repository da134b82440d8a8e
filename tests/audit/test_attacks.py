"""Attacks: each succeeds on a broken target, and none gets further with ours than the promise allows.

An attack that finds nothing is worth something only if it would have found a leak. So every one is also run on releases
with a planted leak: the noise left out, or added in floating point.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra import pipeline
from adumbra.audit import attacks
from adumbra.audit.attacks import BEYOND, FAILS, WITHIN, WORKS, common, timing
from adumbra.audit.attacks import subset_sums as sums
from adumbra.audit.attacks.last_bits import too_fine
from adumbra.audit.attacks.members import pairs_of
from adumbra.audit.attacks.views import encoded, measured_sums, views
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Relation
from adumbra.declare.schema import Schema
from adumbra.mechanisms.pairs import Pairs
from adumbra.noise import add as noise
from adumbra.privacy.meter import check_countable
from adumbra.request import Request
from adumbra.tables import encode as encoding
from adumbra.tables.read import open_table
from tests.repeatable import repeatable  # noqa: F401

PEOPLE = common.digits(150, 450, 16, common.generator(7))
FEW = common.digits(60, 700, 16, common.generator(7))
DRAWN = {"rows": 300}
KINDS = {
    "dppro": ad.DPPro(),
    "dprp": ad.DPRP(),
    "moments": ad.Moments(**DRAWN),
    "tables": ad.Tables(**DRAWN),
    "hybrid": ad.Hybrid(**DRAWN),
    "pairs": Pairs(**DRAWN),
}


def no_noise(kind, exact, t, step, threads=1):
    return np.asarray(exact * step, dtype=np.float64)


@pytest.fixture
def leaking(monkeypatch):
    """A planted leak: answers leave without noise, and everything else stays as it is."""
    monkeypatch.setattr(noise, "add_noise", no_noise)


def release(kind, epsilon=1.0, people=PEOPLE, **more):
    return common.released(people.truth, people.schema, kind, ad.Budget(epsilon, **more))


def in_words(result: attacks.Attack) -> attacks.Attack:
    """What holds for every result."""
    assert result.low <= result.success <= result.high
    assert result.verdict in (BEYOND, WITHIN, WORKS, FAILS)
    assert result.runs > 0 and result.seconds >= 0
    assert result.explanation.endswith(".") and result.meaning
    json.dumps(result.to_json(), allow_nan=False)
    return result


# ---- what a promise allows


def test_what_a_promise_allows():
    assert common.allowed_guess(0.0, 0.0) == 0.5 and common.allowed_guess(800.0, 0.0) == 1.0
    assert common.allowed_guess(1.0, 0.0) == pytest.approx(math.e / (1 + math.e))
    assert common.allowed_share(0.2, 0.0, 0.0) == pytest.approx(0.2)
    assert common.allowed_share(0.0, 3.0, 0.01) == pytest.approx(0.01)
    assert common.allowed_share(1.0, 1.0, 0.0) == 1.0
    for epsilon in (0.1, 1.0, 5.0):  # the guess of a fair coin is the largest mean of "in" right and "out" right
        outside = np.linspace(0, 1, 2001)
        inside = np.array([common.allowed_share(q, epsilon, 1e-3) for q in outside])
        assert ((inside + 1 - outside) / 2).max() == pytest.approx(common.allowed_guess(epsilon, 1e-3), abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_verdict_on_pairs_keeps_its_confidence(epsilon):
    """Randomised response is exactly as good as allowed: its pairs are called beyond the promise by chance only."""
    rng = common.generator(3)
    truthful = common.allowed_guess(epsilon, 0.0)
    verdicts = []
    for _ in range(200):
        right = (rng.random(100) < truthful).astype(float)
        verdicts.append(common.paired(right, 1 - right, epsilon, 0.0, 0.95, rng)[0])
    assert np.mean(verdicts) <= 0.06  # 2.5 % on one side, and the sample
    better = (rng.random(400) < common.allowed_guess(epsilon + 1, 0.0)).astype(float)
    assert common.paired(better, 1 - better, epsilon, 0.0, 0.95, rng)[0]
    assert common.paired(np.ones(50), np.ones(50), epsilon, 0.0, 0.95, rng) == (False, 0.0)


# ---- views


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("name", ["dprp", "moments", "tables", "hybrid", "pairs"])
def test_questions_are_known_exactly(name, relation, leaking):
    """Without noise the people's contributions add up to the published answers, every number of every one."""
    if name == "dprp" and relation is Relation.ADD_REMOVE:
        pytest.skip("row-aligned: refused")
    opened = release(KINDS[name], relation=relation)
    found = measured_sums(opened.card, opened.arrays, PEOPLE.truth.height, None)
    of_all_lines = len(opened.card.noise) - (relation is Relation.ADD_REMOVE)  # the number of rows is not published
    assert len(found) == {"dprp": 1, "moments": 2, "tables": 1}.get(name, of_all_lines)
    rows = encoded(PEOPLE.truth, opened.card)
    for each in found:
        np.testing.assert_allclose(each.contributions(rows).sum(axis=0), each.seen, rtol=1e-9, atol=1e-6)


def test_options_on_the_card_make_the_same_questions_again():
    """However many bins there are: none is guessed."""
    frame = pl.DataFrame({"size": common.generator(0).random(200)})
    schema = Schema.from_dict({"columns": {"size": {"kind": "number", "low": 0, "high": 1}}})
    for bins in (7, 100):
        opened = common.released(frame, schema, ad.Tables(rows=50, bins=bins), ad.Budget(1.0))
        assert opened.card.options == {"label": [], "rows": 50, "bins": bins}
        (found,) = measured_sums(opened.card, opened.arrays, 200, None)
        assert found.query.size == bins + 1  # one more for empty cells
        assert "likelihood" in views(opened, 200, encoded(frame, opened.card))


# ---- membership


@pytest.mark.parametrize("name", list(KINDS))
def test_membership_stays_within_the_promise(name):
    result = in_words(attacks.membership(release(KINDS[name]), PEOPLE.truth, PEOPLE.holdout, most=150))
    assert result.verdict == WITHIN and result.allowed == pytest.approx(0.731, abs=1e-3)
    assert result.high < 0.8
    caught = result.details["caught at 10% false alarms"]
    assert caught["interval"][0] <= caught["allowed"]


@pytest.mark.parametrize("name", [name for name in KINDS if name != "pairs"])  # asks so few people for no pair
def test_membership_finds_missing_noise(name, leaking):
    result = in_words(attacks.membership(release(KINDS[name], 0.5, FEW), FEW.truth, FEW.holdout))
    assert result.verdict == BEYOND and result.low > result.allowed
    assert result.details["epsilon at least"] > 0.5


@pytest.mark.parametrize("name", ["dppro", "tables"])
def test_membership_has_power_where_the_promise_is_weak(name):
    result = attacks.membership(release(KINDS[name], 64.0), PEOPLE.truth, PEOPLE.holdout, most=150)
    assert result.low > 0.7 and result.verdict == WITHIN


def test_membership_of_a_cell_promise_is_held_to_its_row_cost():
    opened = release(ad.DPPro(), 2.0, unit="cell")
    result = attacks.membership(opened, PEOPLE.truth, PEOPLE.holdout, most=60)
    assert result.details["epsilon promised (row/replace)"] == opened.card.costs["row/replace"] > 4
    assert result.verdict == WITHIN


def test_membership_of_people_who_are_not_in_is_a_coin():
    """A release of other people, without noise: nothing but chance is left."""
    others = common.digits(150, 450, 16, common.generator(8))
    opened = common.released(others.truth, others.schema, ad.Tables(**DRAWN), ad.Budget(8.0))
    first, rest = PEOPLE.holdout.head(150), PEOPLE.holdout.slice(150)
    results = [attacks.membership(opened, first, rest, most=150, seed=seed) for seed in range(4)]
    assert all(0.3 < r.success < 0.7 for r in results)


def test_membership_from_a_folder_and_files(tmp_path):
    release(KINDS["tables"]).save(tmp_path / "r")
    PEOPLE.truth.write_csv(tmp_path / "truth.csv")
    PEOPLE.holdout.write_parquet(tmp_path / "holdout.parquet")
    result = attacks.membership(tmp_path / "r", tmp_path / "truth.csv", tmp_path / "holdout.parquet", most=40)
    again = attacks.membership(tmp_path / "r", PEOPLE.truth, PEOPLE.holdout, most=40)
    assert (result.success, result.details["view"]) == (again.success, again.details["view"])


def test_membership_says_what_is_wrong():
    opened = release(KINDS["tables"])
    with pytest.raises(InputError, match="150 rows"):
        attacks.membership(opened, PEOPLE.truth.head(100), PEOPLE.holdout)
    with pytest.raises(InputError, match=r"in the schema|in the table"):
        attacks.membership(opened, PEOPLE.truth, PEOPLE.holdout.drop("digit"))
    with pytest.raises(InputError, match="holdout"):
        attacks.membership(opened, PEOPLE.truth, PEOPLE.holdout.head(5))


def test_pairs_are_people_and_their_places():
    card = release(KINDS["dppro"]).card
    pairs = pairs_of(card, PEOPLE.truth, PEOPLE.holdout, 100, 0)
    np.testing.assert_array_equal(pairs.inside, encoded(PEOPLE.truth, card)[pairs.places])
    known = {row.tobytes() for row in encoded(PEOPLE.holdout, card)}
    assert all(row.tobytes() in known for row in np.concatenate([pairs.outside, pairs.reference]))
    assert len(pairs.inside) == len(pairs.outside) == 100 and len(pairs.reference) == 350


# ---- attribute


@pytest.mark.parametrize("name", ["dppro", "tables"])
def test_the_missing_cell_stays_within_the_promise(name):
    opened = release(KINDS[name])
    for column in ("digit", "p27"):
        result = in_words(attacks.attribute(opened, PEOPLE.truth, PEOPLE.holdout, column, most=60))
        assert result.verdict == WITHIN
        assert abs(result.details["leak"]) < 0.3


def test_the_missing_cell_is_found_without_noise_in_rows(leaking):
    result = in_words(attacks.attribute(release(ad.DPPro(), 1.0, FEW), FEW.truth, FEW.holdout, "p27"))
    assert result.success > 0.8 and result.details["leak"] > 0.4
    assert result.verdict == BEYOND


@pytest.mark.parametrize("noisy", [True, False])
def test_the_missing_cell_is_found_without_noise_in_sums(noisy, monkeypatch):
    people = common.survey(60, 200, 200, common.generator(2))
    if not noisy:
        monkeypatch.setattr(noise, "add_noise", no_noise)
    opened = release(ad.Tables(rows=10), 0.5, people)
    result = in_words(attacks.attribute(opened, people.truth, people.holdout, "secret"))
    assert 0.3 < result.details["without the release"] < 0.7
    assert (result.verdict == WITHIN) == noisy
    assert (result.details["leak"] > 0.25) == (not noisy)


def test_what_the_population_tells_is_no_leak():
    """A flag that copies another column: guessed for everybody, in the table or not, and nothing is broken."""
    rng = common.generator(1)
    kind = rng.random(400) < 0.5
    frame = pl.DataFrame({"kind": kind, "copy": kind, "size": rng.random(400)})
    columns = {"kind": {"kind": "flag"}, "copy": {"kind": "flag"}, "size": {"kind": "number", "low": 0, "high": 1}}
    schema = Schema.from_dict({"columns": columns})
    opened = common.released(frame.head(150), schema, ad.Tables(rows=50), ad.Budget(1.0))
    result = attacks.attribute(opened, frame.head(150), frame.slice(150), "copy", most=100)
    assert result.success > 0.95 and result.chance > 0.95
    assert result.verdict == WITHIN and abs(result.details["leak"]) < 0.05


@pytest.mark.parametrize("kind", [ad.DPPro(), ad.Moments(rows=50)])
def test_bounded_rows_and_frames_of_other_libraries(kind):
    """A row bound is applied after the missing cell is filled in; the right answer is the cell's own, not a clipped."""
    opened = ad.release(PEOPLE.truth.to_pandas(), PEOPLE.schema, kind, ad.Budget(1.0), row_bound=0.5)
    assert in_words(attacks.membership(opened, PEOPLE.truth.to_pandas(), PEOPLE.holdout, most=40)).verdict == WITHIN
    bounded, free = (
        attacks.attribute(found, PEOPLE.truth, PEOPLE.holdout, "p27", most=40) for found in (opened, release(kind))
    )
    assert bounded.verdict == WITHIN
    assert bounded.details["without the release"] == free.details["without the release"]


def test_attribute_says_what_is_wrong():
    opened = release(KINDS["tables"])
    with pytest.raises(InputError, match="released column"):
        attacks.attribute(opened, PEOPLE.truth, PEOPLE.holdout, "nobody")


# ---- the row space


def test_published_rows_give_the_missing_pixel_away():
    for claim in (0.01, 1.0):
        lip = in_words(attacks.row_space("published/lip", epsilon=claim, rows=100))
        assert lip.success == 1.0 and lip.verdict == BEYOND
        assert lip.details["largest error"] < 1e-12
    lop = in_words(attacks.row_space("published/lop", rows=100))
    assert lop.success == 1.0 and lop.verdict == BEYOND and lop.details["largest error"] < 1e-9


@pytest.mark.parametrize("target", ["dppro", "dprp"])
def test_ours_do_not_give_the_missing_pixel_away(target):
    result = in_words(attacks.row_space(target, epsilon=1.0))
    assert result.verdict == WITHIN
    assert result.details["median error"] > result.details["median error without the release"]
    assert result.success < result.details["right without the release"] + 0.1


def test_the_pixel_attack_finds_missing_noise(leaking):
    result = attacks.row_space("dppro", epsilon=1.0, rows=100)
    assert result.verdict == BEYOND and result.success > 0.9


# ---- reconstruction


def test_careless_answers_are_reconstructed():
    for kind in ("bounded", "each"):
        result = in_words(attacks.from_careless_answers(kind))
        assert result.success > 0.95 and result.verdict == WORKS
    drowned = attacks.from_careless_answers("bounded", size=500.0)
    assert drowned.success < 0.65


def test_one_budget_keeps_the_secret_and_repeating_it_does_not():
    (once,) = attacks.from_releases((1,))
    assert once.low < 0.55 and once.verdict == WITHIN
    one, four, sixteen = map(in_words, attacks.from_releases((1, 4, 16), epsilon=4.0))
    assert one.success < sixteen.success and sixteen.success > 0.75
    assert one.details["epsilon spent"] < four.details["epsilon spent"] < sixteen.details["epsilon spent"]
    assert {r.verdict for r in (one, four, sixteen)} == {WITHIN}


def test_a_cap_stops_the_reconstruction():
    (result,) = attacks.from_releases((16,), epsilon=4.0, cap=6.0)
    assert result.details["releases"] < 4 and result.details["refused at"] == result.details["releases"] + 1
    assert result.details["epsilon spent"] <= 6.0
    assert result.success < 0.75


def test_reconstruction_finds_missing_noise(leaking):
    (result,) = attacks.from_releases((1,))
    assert result.success > 0.99 and result.verdict == BEYOND


# ---- the last bits


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_last_bits_of_naive_noise_give_the_answer_away(law):
    naive = in_words(attacks.floating_point(f"naive {law}"))
    assert naive.verdict == BEYOND and naive.chance == 0.0 and naive.success > 0.02
    assert naive.details["epsilon at least"] > 5
    ours = in_words(attacks.floating_point(f"dppro {law}"))
    assert ours.verdict == WITHIN and ours.details["epsilon at least"] == 0.0
    assert ours.details["epsilon at least, by the finest bit"] <= 1.0


def test_no_sum_has_bits_that_are_too_fine():
    """The claim of `too_fine`, by search: answer + noise between 0 and the answer never has such a bit."""
    rng = common.generator(0)
    for answer in (0.5, 1.0, 4.0):
        tiny = -answer * 2.0 ** -rng.uniform(0, 60, 100_000) * rng.random(100_000)
        sums_ = answer + np.concatenate([tiny, -rng.exponential(answer, 100_000)])
        assert not too_fine(sums_, answer).any()


def test_naive_noise_at_the_door_is_found(monkeypatch):
    """A planted leak: the meter adds noise in floating point."""
    rng = common.generator(5)

    def naive(kind, exact, t, step, threads=1):
        draw = rng.laplace if kind == "laplace" else rng.normal
        return exact * step + draw(0.0, t * step, exact.shape)

    monkeypatch.setattr(noise, "add_noise", naive)
    assert attacks.floating_point("dppro laplace").verdict == BEYOND
    assert attacks.floating_point("dppro gaussian").verdict == BEYOND


# ---- beside the release


def test_no_value_decides_a_refusal():
    result = in_words(attacks.refusals())
    assert result.verdict == FAILS and result.details["differing"] == []
    assert result.runs == 2 * len(timing.VALUES)
    assert all(text.startswith("InputError") for text in result.details["malformed files"].values())
    # known, and on the page: a table without rows is refused, under add-remove too
    assert all(text.startswith("InputError") for text in result.details["no rows"].values())
    assert "13 rows" in result.details["another number of rows than declared"]


def test_a_refusal_by_value_is_found(monkeypatch):
    """A planted leak: cells out of range are refused."""
    plain = encoding._cells

    def strict(series, column, *rest):
        found = plain(series, column, *rest)
        if found.clipped and column.kind == "number":
            raise InputError("numbers in range", "others", "correct them")
        return found

    monkeypatch.setattr(encoding, "_cells", strict)
    result = attacks.refusals()
    assert result.verdict == WORKS
    named = ("range", "float64", "infinite", "very long")
    assert all(any(word in case for word in named) for case in result.details["differing"])


def test_durations_are_reported_as_they_are():
    result = in_words(attacks.durations(rows=20, runs=3))
    assert result.allowed is None and result.verdict in (WORKS, FAILS) and len(result.details["median ms"]) == 2


def test_a_slow_path_is_found(monkeypatch):
    """A planted leak, by a clock that only this test moves: unreadable cells take longer."""
    plain, clock, jitter = encoding._cells, [0.0], common.generator(0)

    def slow(series, column, *rest):
        found = plain(series, column, *rest)
        if column.kind == "flag":
            clock[0] += jitter.random() + (0.5 if found.unknown else 0.0)
        return found

    monkeypatch.setattr(encoding, "_cells", slow)
    monkeypatch.setattr(timing, "_now", lambda: clock[0])
    result = attacks.durations(rows=20, runs=20)
    assert result.verdict == WORKS and result.low > 0.5 and result.details["auc"] > 0.7


# ---- together


def test_every_attack_is_listed():
    assert list(attacks.ATTACKS) == [
        "membership",
        "attribute",
        "row_space",
        "reconstruction",
        "floating_point",
        "timing",
    ]
    results = attacks.ATTACKS["floating_point"](False, 0)
    assert [r.verdict for r in results] == [BEYOND, BEYOND, WITHIN, WITHIN]


def test_the_same_seed_gives_the_same_attack():
    opened = release(KINDS["dppro"])
    one, two = (attacks.membership(opened, PEOPLE.truth, PEOPLE.holdout, most=60, seed=4) for _ in range(2))
    assert (one.success, one.details) == (two.success, two.details)
    assert sums.from_careless_answers().success == sums.from_careless_answers().success


@pytest.mark.parametrize(
    "asked",
    [
        lambda: attacks.row_space("published/dprp"),
        lambda: attacks.row_space(rows=10),
        lambda: attacks.row_space(rows=1000),
        lambda: attacks.from_careless_answers("none"),
        lambda: attacks.from_releases(()),
        lambda: attacks.floating_point("naive"),
        lambda: attacks.durations(rows=5, odd=6),
        lambda: attacks.durations(runs=0),
        lambda: attacks.membership(release(KINDS["tables"]), PEOPLE.truth, PEOPLE.holdout, most=2),
    ],
)
def test_nonsense_is_refused_in_words(asked):
    with pytest.raises(InputError):
        asked()


# ---- the page


PAGE = (Path(__file__).parents[2] / "docs" / "attacks.md").read_text(encoding="utf-8")


def test_code_of_the_page_runs(capsys):
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "attacks.md", "exec"), names)  # noqa: S102 - our own page
    assert capsys.readouterr().out.count("the promise") >= 5


def test_numbers_of_the_page_that_follow_from_the_seed():
    """Rows without a star are what the attacks print, to the digits shown."""
    printed = [
        *(attacks.row_space(target) for target in ("published/lip", "published/lop")),
        *(attacks.from_careless_answers(kind) for kind in ("bounded", "each")),
        *(attacks.floating_point(f"naive {law}") for law in ("laplace", "gaussian")),
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:2] == "| "]
    kept = [row for row in rows if len(row) == 6 and row[0] in {r.name for r in printed}]
    assert len(kept) == len(printed)
    for row, found in zip(kept, printed, strict=True):
        assert row[0] == found.name and row[5] == found.verdict
        assert row[2] == f"{found.success:.3f} ({found.low:.3f} to {found.high:.3f})"
        assert row[3] == f"{found.chance:.3f}"
        assert row[4] == "-" if found.allowed is None else float(row[4]) == pytest.approx(found.allowed, abs=5e-4)
    lip, lop = printed[0].details, printed[1].details
    assert lip["largest error"] <= 1e-12 and lip["median error"] <= 3e-14 and lop["largest error"] <= 1e-11
    assert round(lip["median error without the release"], 1) == 1.6


def test_refusals_that_depend_on_a_private_number_of_rows():
    """Known, and on the page: under add-remove no rows, and far too many, are refused."""
    budget = ad.Budget(1.0, relation=Relation.ADD_REMOVE)
    job = pipeline.prepare(Request(open_table(PEOPLE.truth), PEOPLE.schema, KINDS["moments"], budget))
    query = KINDS["moments"].queries(job.setting)["moments"]
    check_countable(query, 2**33 - 1)
    with pytest.raises(InputError, match="more rows"):
        check_countable(query, 2**33)
    with pytest.raises(InputError, match="no rows"):
        release(KINDS["tables"], people=dataclasses.replace(PEOPLE, truth=PEOPLE.truth.head(0)), relation="add-remove")
