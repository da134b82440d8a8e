"""Facts about two columns come back, whatever the columns are; odd tables, other promises, and who gets `pairs`."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.audit.attacks.views import _Replay
from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Promise
from adumbra.families.contract import Setting
from adumbra.mechanisms.auto import Auto
from adumbra.mechanisms.catalogue import build
from adumbra.mechanisms.pairs import CLEAR, Pairs
from adumbra.privacy.preview import NoisePreview
from tests import at_the_noise
from tests.repeatable import repeatable  # noqa: F401

WARDS = [f"w{k}" for k in range(8)]
DEGREES = [f"d{k}" for k in range(16)]
COLUMNS = {
    "ward": {"kind": "category", "values": WARDS},
    "job": {"kind": "category", "values": ["a", "b", "c", "d", "e"]},
    "pay": {"kind": "number", "low": 0, "high": 10_000},
    "degree": {"kind": "category", "values": DEGREES},
    "years": {"kind": "ordinal", "values": list(range(16))},
    "sex": {"kind": "category", "values": ["f", "m"]},
    "birth": {"kind": "flag"},
    "gain": {"kind": "number", "low": 0, "high": 100_000},
    "tax": {"kind": "number", "low": 0, "high": 50_000},
    "start": {"kind": "number", "low": 0, "high": 23, "integer": True},
    "end": {"kind": "number", "low": 0, "high": 23, "integer": True},
    "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
}
SCHEMA = ad.Schema.from_dict({"columns": COLUMNS})
FEW = ("ward", "job", "sex", "birth", "ill")
SMALL = ad.Schema.from_dict({"columns": {name: COLUMNS[name] for name in FEW}})


def people(rows=20_000, seed=0):
    """Jobs by ward, pay by job, years by degree, no births of men, tax by gain, start and end missing together."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 8, rows)
    job = np.where(rng.random(rows) < 0.7, ward % 5, rng.integers(0, 5, rows))
    degree = np.minimum(rng.geometric(0.15, rows) - 1, 15)
    sex = rng.integers(0, 2, rows)
    gain = np.where(rng.random(rows) < 0.6, 0.0, np.minimum(np.exp(rng.normal(7, 1.2, rows)), 100_000))
    hour = rng.integers(0, 18, rows).astype(float)
    gone = rng.random(rows) < 0.15
    return pl.DataFrame(
        {
            "ward": np.array(WARDS)[ward],
            "job": np.array(list("abcde"))[job],
            "pay": np.clip(1000 + 1200 * job + rng.normal(0, 500, rows), 0, 10_000),
            "degree": np.array(DEGREES)[degree],
            "years": degree,
            "sex": np.array(["f", "m"])[sex],
            "birth": (sex == 0) & (rng.random(rows) < 0.3),
            "gain": gain,
            "tax": np.minimum(0.3 * gain * rng.uniform(0.8, 1.2, rows), 50_000),
            "start": np.where(gone, np.nan, hour),
            "end": np.where(gone, np.nan, np.minimum(hour + rng.integers(0, 6, rows), 23)),
            "ill": np.where(rng.random(rows) < np.where(job == 0, 0.5, 0.1), "yes", "no"),
        }
    ).with_columns(pl.col("start", "end").fill_nan(None))


@cache
def truth():
    return people()


@cache
def known():
    """One release at a large epsilon, of which all facts are asked."""
    return ad.release(truth(), SCHEMA, Pairs(), ad.Budget(20.0, 1e-6))


def released(table, schema=SCHEMA, epsilon=30.0, delta=1e-6, relation=None, **options):
    return ad.release(table, schema, Pairs(**options), ad.Budget(epsilon, delta, relation=relation))


def shares(table, *columns):
    return {key: own.height / table.height for key, own in table.group_by(*columns)}


def total_variation(one, two, *columns):
    here, there = shares(one, *columns), shares(two, *columns)
    return 0.5 * sum(abs(here.get(key, 0) - there.get(key, 0)) for key in {*here, *there})


# ---- facts about two columns


def test_shares_of_two_categories():
    assert total_variation(truth(), known().table, "ward", "job") < 0.02
    assert total_variation(truth(), known().table, "ward", "ill") < 0.02


def test_means_of_a_number_by_category():
    real, own = (dict(t.group_by("job").agg(pl.col("pay").mean()).iter_rows()) for t in (truth(), known().table))
    assert max(abs(real[job] - own[job]) for job in "abcde") < 100  # of means that are 1200 apart
    spread = [
        t.group_by("job").agg(pl.col("pay").std()).sort("job")["pay"].to_numpy() for t in (truth(), known().table)
    ]
    assert spread[1] == pytest.approx(spread[0], rel=0.3)


def test_one_category_that_follows_from_another():
    own = known().table
    rank = pl.col("degree").str.slice(1).cast(pl.Int64)
    assert own.select((rank == pl.col("years").cast(pl.Int64)).mean()).item() >= 0.97


def test_what_cannot_be_stays_impossible():
    own = known().table
    assert own.filter((pl.col("sex") == "m") & pl.col("birth")).height <= 0.002 * own.height
    assert own["birth"].mean() == pytest.approx(truth()["birth"].mean(), abs=0.01)


def test_cells_that_are_missing_together():
    own = known().table
    gone = [pl.col(c).is_null() for c in ("start", "end")]
    assert own.select(gone[0].mean()).item() == pytest.approx(0.15, abs=0.015)
    assert own.filter(gone[0] != gone[1]).height <= 0.01 * own.height


def test_numbers_with_long_tails_stay_correlated():
    real, own = (np.corrcoef(t["gain"], t["tax"])[0, 1] for t in (truth(), known().table))
    assert real > 0.98 and own > 0.87
    real, own = (t.select("start", "end").drop_nulls() for t in (truth(), known().table))
    assert np.corrcoef(*own.to_numpy().T)[0, 1] == pytest.approx(np.corrcoef(*real.to_numpy().T)[0, 1], abs=0.04)
    for column in ("gain", "pay"):
        assert known().table[column].mean() == pytest.approx(truth()[column].mean(), rel=0.07)


def test_columns_of_the_schema_in_its_types_and_missing_only_where_they_were():
    own = known().table
    assert own.columns == list(COLUMNS) and own.height == truth().height
    assert own.schema["ward"] == pl.String and own.schema["birth"] == pl.Boolean and own.schema["start"] == pl.Int64
    assert {c for c in own.columns if own[c].null_count()} == {"start", "end"}
    assert own["gain"].min() >= 0 and own["gain"].max() <= 100_000


def test_facts_and_card_tell_what_was_measured(tmp_path):
    joint = known().facts.joint
    assert joint.columns == tuple(COLUMNS) and (joint.pairs, joint.triples) == (66, 55)
    assert {frozenset((p.a, p.b)) for p in joint.strongest[:4]} >= {frozenset(("degree", "years"))}
    assert 5 <= joint.kept <= 66 and 0 < joint.pair_sd < 5 and 0 < joint.kept_above < 0.1
    known().save(tmp_path / "out")
    page = (tmp_path / "out" / "card.md").read_text()
    assert "all 66 pairs of 12 columns" in page and "degree" in page
    assert set(known().card.measured) == {"tables", "fine tables", "joint tables"}


# ---- the label with pairs of others


XOR = ad.Schema.from_dict(
    {
        "columns": {c: {"kind": "flag"} for c in "ab"}
        | {"c": {"kind": "number", "low": 0, "high": 1}, "y": {"kind": "flag", "role": "label"}}
    }
)


def parity(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, rows)) < 0.5
    return pl.DataFrame({"a": a, "b": b, "c": rng.random(rows), "y": a ^ b})


def as_parity(table):
    return table.select((pl.col("a").xor(pl.col("b")) == pl.col("y")).mean()).item()


def test_a_label_that_two_columns_decide_together_is_learnt_where_a_model_is_needed():
    assert as_parity(released(parity(), XOR).table) > 0.97
    release = released(parity(), XOR, need="correlations")
    assert as_parity(release.table) == pytest.approx(0.5, abs=0.05) and release.facts.joint.triples == 0
    named = released(parity().with_columns(pl.col("y").alias("c").cast(float)), XOR, label=("y", "a")).facts
    assert named.label == ("a", "y") and named.classes == 4


def test_a_label_of_many_levels_and_two_labels_and_none():
    columns = {name: COLUMNS[name] for name in ("sex", "birth", "gain", "tax")}
    schema, table = ad.Schema.from_dict({"columns": columns}), people(3000)
    for label, classes in (("gain", None), (("birth", "sex"), 4), ((), 1)):
        release = released(table.select(*columns), schema, label=label, rows=1000)
        assert release.table.height == 1000 and release.verify() == []
        assert classes is None or release.facts.classes == classes
        assert np.corrcoef(release.table["gain"], release.table["tax"])[0, 1] > 0.55


# ---- promises


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "replace"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_other_promises_keep_the_facts(relation, delta):
    table = people(8000).select(FEW)
    own = released(table, SMALL, 10.0 if delta else 60.0, delta, relation).table
    assert total_variation(table, own, "ward", "job") < 0.05
    assert own.filter((pl.col("sex") == "m") & pl.col("birth")).height <= 0.01 * own.height
    assert own.height == 8000 if relation != "add-remove" else 0 < abs(own.height - 8000) < 40


def test_pure_epsilon_measures_plain_tables_and_no_triples():
    release = released(people(2000).select(FEW), SMALL, 60.0, 0.0)
    assert release.card.delta == 0 and release.facts.joint.triples == 0 and release.facts.joint.pairs == 10
    assert {noise.law for noise in release.card.noise.values()} == {"laplace"}


def test_a_plan_for_a_private_number_of_rows_supposes_one():
    """What is charged is the same for a handful of rows and for many; what is asked then follows the noisy number."""
    budget = ad.Budget(1.0, 1e-6, relation="add-remove")
    plans = [ad.plan(people(rows), SCHEMA, Pairs(), budget) for rows in (5, 300, 20_000)]
    events = [{line: own.event for line, own in plan.calibrations.items()} for plan in plans]
    assert events[0] == events[1] == events[2] and "size" in events[0]
    clear = [plan.job.mechanism.clarity(plan.job.setting) for plan in plans]
    assert clear[0] == clear[1] == clear[2] > 0
    asked = [ad.release(people(rows), SCHEMA, Pairs(rows=5), budget).facts.joint for rows in (60, 20_000)]
    assert asked[0].pairs <= 11 and asked[1].pairs == 66, "of few rows the label with each column, and nothing else"


# ---- odd tables


def test_one_column_and_columns_of_one_cell():
    number = {"a": {"kind": "number", "low": 0, "high": 1}}
    table = pl.DataFrame({"a": np.random.default_rng(0).random(500)})
    release = released(table, ad.Schema.from_dict({"columns": number}))
    assert release.facts.joint is None and release.table["a"].mean() == pytest.approx(0.5, abs=0.05)
    only = {c: {"kind": "category", "values": ["x"], "missing": "x"} for c in "ab"}
    release = released(pl.DataFrame({"a": ["x"] * 50, "b": ["x"] * 50}), ad.Schema.from_dict({"columns": only}))
    assert set(release.table.rows()) == {("x", "x")} and release.facts.joint is None
    mixed = ad.Schema.from_dict({"columns": {**only, "n": number["a"], "f": {"kind": "flag", "role": "label"}}})
    table = pl.DataFrame({"a": ["x"] * 200, "b": ["x"] * 200, "n": [0.25] * 200, "f": [True, False] * 100})
    release = released(table, mixed)
    assert release.table["n"].mean() == pytest.approx(0.25, abs=0.02) and release.table.height == 200


def test_all_cells_empty():
    columns = {"n": {"kind": "number", "low": 0, "high": 1}, "c": {"kind": "category", "values": ["a", "b", "c"]}}
    table = pl.DataFrame({"n": [None] * 300, "c": [None] * 300}, schema={"n": pl.Float64, "c": pl.String})
    own = released(table, ad.Schema.from_dict({"columns": columns})).table
    assert own["n"].null_count() >= 295 and own["c"].null_count() >= 295


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("relation", [None, "add-remove"])
def test_tables_of_hardly_any_rows(rows, relation, recwarn):
    try:
        hybrid = ad.release(people(5).head(rows), SCHEMA, ad.Hybrid(rows=20), ad.Budget(1.0, 1e-6, relation=relation))
    except ad.InputError:
        with pytest.raises(ad.InputError):
            released(people(5).head(rows), epsilon=1.0, relation=relation, rows=20)
    else:
        own = released(people(5).head(rows), epsilon=1.0, relation=relation, rows=20)
        assert own.table.shape == hybrid.table.shape
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_sets_beside_the_other_columns():
    schema = ad.Schema.from_dict(
        {
            "columns": {
                **{c: {"kind": "flag"} for c in "ab"},
                "y": {"kind": "flag", "role": "label"},
                "bag": {"kind": "set", "values": list("pqr"), "most": 2, "separator": " "},
            }
        }
    )
    table = parity().drop("c").with_columns(pl.Series("bag", ["p", "p q", "", "r"] * 1000))
    own = released(table, schema).table
    assert as_parity(own) > 0.95
    assert own["bag"].fill_null("").str.contains("p").mean() == pytest.approx(0.5, abs=0.05)


def test_a_table_too_wide_is_refused_before_any_charge_and_told_what_to_do(tmp_path):
    columns = {f"c{i}": {"kind": "flag"} for i in range(161)}
    table = pl.DataFrame({name: [True, False] for name in columns})
    schema, ledger = ad.Schema.from_dict({"columns": columns}), ad.Ledger(tmp_path / "ledger.db")
    for act in (ad.release, ad.plan):
        with pytest.raises(ad.InputError) as refused:
            act(table, schema, Pairs(), ad.Budget(1.0, 1e-6), ledger=ledger)
        assert "160 columns" in str(refused.value) and "--mechanism hybrid" in refused.value.remedy
        assert "161 columns" in str(refused.value)
    assert not (tmp_path / "ledger.db").exists()
    assert Pairs().clarity(ad.plan(table, schema, ad.Hybrid(), ad.Budget(1.0)).job.setting) == 0.0
    many = {f"k{i}": {"kind": "category", "values": [f"v{v}" for v in range(700)]} for i in range(20)}
    wide = pl.DataFrame({name: ["v0", "v1"] for name in many})
    with pytest.raises(ad.InputError, match="cells in tables of two"):
        ad.plan(wide, ad.Schema.from_dict({"columns": many}), Pairs(), ad.Budget(1.0))


def test_as_many_rows_as_asked_for():
    for rows in (1, 3000):
        assert released(people(200).select(FEW), SMALL, rows=rows).table.height == rows
    with pytest.raises(ad.InputError, match="need"):
        Pairs(need="all")


# ---- the same rows again


def redrawn(release, schema, rows):
    """The rows again, from nothing but what the release folder has, before they are decoded."""
    card, space = release.card, schema.space()
    promise, seed = Promise(card.epsilon, card.delta, card.neighbours), PublicSeed.given(card.seed.value)
    preview = NoisePreview(space, promise, rows, seed)
    setting = Setting(space, card.table_rows, card.neighbours, seed, preview, schema.labels, schema, card.delta == 0)
    draft = build(card.mechanism, card.options).run(_Replay(card, release.arrays, rows), setting)
    return np.concatenate(list(draft.batches))


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_same_seed_draws_the_same_rows_from_the_same_noisy_numbers(delta, tmp_path):
    names = ("job", "degree", "years", "ill")
    schema = ad.Schema.from_dict({"columns": {name: COLUMNS[name] for name in names}})
    budget, seed = ad.Budget(3.0, delta), ad.PublicSeed.given("s")
    release = ad.release(people(600).select(names), schema, Pairs(rows=900), budget, seed=seed, out=tmp_path / "out")
    steps = redrawn(ad.load(tmp_path / "out"), schema, 600)
    for place in (0, 1, 3):
        values = np.array(COLUMNS[names[place]]["values"], dtype=object)
        assert values[steps[:, place].astype(int)].tolist() == release.table[names[place]].to_list()


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_cells_and_tables_follow_noisy_tables_alone(relation):
    """Another table, the same noisy answers: the same is asked of pairs, with the same noise, and the same leaves."""
    budget = ad.Budget(5.0, 1e-6, relation=relation)
    first = at_the_noise.released(people(2000).select(FEW), SMALL, Pairs(rows=50), budget)
    turned = {
        name: dict(zip(values, values[::-1], strict=True)) for name, values in (("ward", WARDS), ("job", "abcde"))
    }
    other = people(2000).select(FEW).with_columns(pl.col(name).replace(known) for name, known in turned.items())
    for table in (other, other.with_columns(ward=pl.lit("w1"))):
        second = at_the_noise.released(table, SMALL, Pairs(rows=50), budget, like=first)
        at_the_noise.same_in_public(first.folder, second.folder)
    assert first.folder.facts.joint.cells[0] > 2


# ---- which tables get it


def chosen(table, schema, epsilon, **budget):
    job = ad.plan(table, schema, Auto(), ad.Budget(epsilon, 1e-6, **budget)).job
    return job.mechanism.name, Pairs().clarity(job.setting), job.choice


def test_auto_takes_pairs_from_a_clarity_on_and_hybrid_below():
    seen = set()
    for rows in (1000, 4000, 20_000):
        for epsilon in (0.1, 1.0, 10.0):
            name, clarity, why = chosen(people(rows), SCHEMA, epsilon)
            assert name == ("pairs" if clarity >= CLEAR else "hybrid"), (rows, epsilon)
            assert ("every pair" in why) == (name == "pairs")
            seen.add(name)
    assert seen == {"pairs", "hybrid"}


def test_the_choice_depends_on_public_facts_alone():
    """Other values, and under add-remove another number of rows: the same mechanism, for the same stated reason."""
    table = people(3000)
    blank = table.with_columns(pl.lit(None, dtype=table.schema[c]).alias(c) for c in table.columns)
    for epsilon in (0.3, 1.0, 3.0):
        assert chosen(table, SCHEMA, epsilon) == chosen(blank, SCHEMA, epsilon)
        private = [chosen(t, SCHEMA, epsilon, relation="add-remove") for t in (table, table.head(50), people(9000))]
        assert private[0] == private[1] == private[2]
