"""What `pairs` says of its own error before and with a release, beside what the truth shows."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import adumbra as ad

SPEC = {
    "age": {"kind": "number", "low": 0, "high": 100},
    "pay": {"kind": "number", "low": 0, "high": 1000, "integer": True},
    "job": {"kind": "category", "values": [f"j{k}" for k in range(12)]},
    "town": {"kind": "category", "values": ["a", "b", "c"]},
    "home": {"kind": "flag"},
    "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
}
SCHEMA = ad.Schema.from_dict({"columns": SPEC})


def people(count: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 15, count), 0, 100)
    job = np.minimum(rng.geometric(0.25, count) - 1 + (age > 50), 11)
    pay = np.clip(np.rint(age * 4 * (1 + job / 12) * rng.uniform(0.5, 1.5, count)), 0, 1000)
    home = rng.random(count) < np.where(age > 40, 0.7, 0.2)
    return pl.DataFrame(
        {
            "age": np.where(rng.random(count) < 0.05, None, age),
            "pay": pay,
            "job": np.array([f"j{k}" for k in range(12)])[job],
            "town": np.array(["a", "b", "c"])[np.minimum(job % 4, 2)],
            "home": home,
            "ill": np.array(["no", "yes"])[(rng.random(count) < age / 200).astype(int)],
        },
        strict=False,
    )


@pytest.fixture
def no_models(monkeypatch):
    monkeypatch.setattr("adumbra.compare.table_comparison.labels_of", lambda *_: [])


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_error_of_pairs_is_predicted_within_a_factor_of_two(epsilon, relation, no_models):
    rows = people(12_000)
    release = ad.release(rows, SCHEMA, "pairs", ad.Budget(epsilon, 1e-6, relation=relation))
    found = ad.evaluate_release(release, rows)
    assert 1 / 2 < found.predicted["pair_tv"] / found.two_way.mean < 2
    assert found.predicted["pair_tv"] > found.predicted["marginal_tv"]
    joint = release.facts.joint
    assert (joint.pairs, joint.columns) == (15, tuple(SPEC)) and 0 < joint.kept_above < 0.2
    assert joint.kept >= 10 and {joint.strongest[0].a, joint.strongest[0].b} == {"job", "town"}


def test_a_plan_predicts_it_too(no_models):
    rows = people(12_000)
    plan = ad.plan(rows, SCHEMA, "pairs", ad.Budget(1.0, 1e-6))
    noise = {line: own.event for line, own in plan.calibrations.items()}
    lines = dict(plan.job.mechanism.outlook(plan.job.setting, plan.job.promise, noise))
    assert lines["pairs of columns measured"] == "15 of 15"
    told = float(re.search(r"about ([0-9.]+)", lines["a pair of columns"]).group(1))
    release = ad.release(rows, SCHEMA, "pairs", ad.Budget(1.0, 1e-6))
    found = ad.evaluate_release(release, rows)
    assert 1 / 2.5 < told / found.two_way.mean < 2.5
    kept = float(re.search(r"above about ([0-9.]+)", lines["dependence that is kept"]).group(1))
    assert 1 / 4 < kept / release.facts.joint.kept_above < 4


def test_the_card_tells_it(tmp_path):
    release = ad.release(people(3000), SCHEMA, "pairs", ad.Budget(2.0, 1e-6), out=tmp_path / "out")
    page = (tmp_path / "out" / "card.md").read_text()
    assert "all 15 pairs of 6 columns" in page and "Pairs of columns that depend on each other most" in page
    assert "dependence that is told from noise" in page
    assert f"pair_tv {release.facts.predicted_error.pair_tv:.4g}" in page
