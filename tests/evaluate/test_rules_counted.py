"""Rows that break declared rules, and columns that follow from others, in the owner's report."""

from __future__ import annotations

import json

import polars as pl
import pytest

import adumbra as ad
from adumbra.compare.rule_fit import ANY_RULE

COLUMNS = {
    "id": {"role": "id"},
    "sched": {"kind": "number", "low": 0, "high": 2359, "integer": True},
    "hour": {"kind": "number", "low": 0, "high": 23, "integer": True, "derived": "sched // 100"},
    "school": {"kind": "category", "values": ["none", "degree"]},
    "years": {"kind": "ordinal", "values": [1, 13]},
    "came": {"kind": "date", "low": "2020-01-01", "high": "2020-12-31", "format": "%d.%m.%Y"},
    "left": {"kind": "date", "low": "2020-01-01", "high": "2021-12-31"},
}
RULES = [{"check": "left >= came"}, {"columns": ["school", "years"], "rows": [["none", 1], ["degree", 13]]}]
SCHEMA = ad.Schema.from_dict({"columns": COLUMNS, "rules": RULES})
TRUTH = pl.DataFrame(
    {
        "id": ["a", "b", "c", "d", "e"],
        "sched": ["517", "1740", " 2359", "", "9999"],  # the last is clipped to 2359
        "hour": ["5", "16", "23", "7", "23"],  # the second is wrong, the fourth cannot be judged
        "school": ["none", "degree", "none", "?", "degree"],
        "years": ["1", "13", "13", "1", None],  # the third is wrong
        "came": ["01.03.2020", "05.03.2020", "07.03.2020", "31.12.2020", None],
        "left": ["2020-03-02", "2020-03-04", "2020-03-07", "2021-01-01", "2020-01-01"],  # the second is before
    }
)
RELEASE = pl.DataFrame(
    {
        "id": [1, 2],
        "sched": [517, None],
        "hour": [5, None],
        "school": ["none", "degree"],
        "years": [1, 1],  # the second is wrong
        "came": ["01.03.2020", None],
        "left": ["2020-03-02", "2020-04-02"],
    }
)


def counted(found: ad.Evaluation) -> dict[str, tuple[int, int]]:
    return {fit.rule: (fit.truth_rows, fit.release_rows) for fit in found.rules}


def test_rows_that_break_rules_by_hand(make, cli, home):
    folder = make(RELEASE, SCHEMA)
    found = ad.evaluate_release(folder, TRUTH)
    texts = SCHEMA.rules.texts()
    order, derived = (next(t for t in texts if part in t) for part in ("left >= came", "sched // 100"))
    (table,) = set(texts) - {order, derived}
    assert counted(found) == {ANY_RULE: (2, 1), order: (1, 0), derived: (1, 0), table: (1, 1)}
    assert (found.rules[0].truth_share, found.rules[0].release_share) == pytest.approx((0.4, 0.5))
    plain = json.loads(found.to_json())["rules"]
    assert plain[0] == {
        "rule": ANY_RULE, "truth_rows": 2, "truth_share": 0.4, "release_rows": 1, "release_share": 0.5,
    }  # fmt: skip
    TRUTH.write_csv("truth.csv")
    done = cli("evaluate", folder, "--truth", "truth.csv")
    text = " ".join(done.out.split())
    assert done.code == 0 and "rules rule truth: rows that break it" in text and "any of them 2 0.4000 1 0.5000" in text
    assert "clipped to the range, rounded to the step" in text and "leaves open is not broken" in text


def test_every_released_column_but_ids_is_compared(make):
    found = ad.evaluate_release(make(RELEASE, SCHEMA), TRUTH)
    assert [c.name for c in found.columns] == ["sched", "hour", "school", "years", "came", "left"]
    hour = found.columns[1]
    assert (hour.truth_mean, hour.release_mean, hour.release_missing) == pytest.approx((74 / 5, 5.0, 0.5))
    assert not any("not compared" in text for text in found.notes)


def test_a_truth_without_derived_columns_breaks_no_rule_of_theirs(make, quick):
    """A release never reads them, so that the owner's table need not have them; the release is judged all the same."""
    wrong = RELEASE.with_columns(hour=pl.lit(9))
    folder = make(wrong, SCHEMA)
    found = ad.evaluate_release(folder, TRUTH.drop("hour", "years", "id"))
    assert [c.name for c in found.columns] == ["sched", "school", "came", "left"]
    assert any("not compared, because not every table has them: hour, years" in text for text in found.notes)
    assert list(counted(found).values()) == [(1, 2), (1, 0), (0, 1), (0, 1)]
    with pytest.raises(ad.InputError, match="a label that every table has"):
        ad.evaluate_release(folder, TRUTH.drop("hour"), label="hour")
    with pytest.raises(ad.InputError, match="a label that is released"):
        ad.evaluate_release(folder, TRUTH, label="id")
    assert ad.evaluate_release(folder, TRUTH, TRUTH, label="years").labels[0].task == "classification"


def test_an_array_holds_the_measured_columns(make):
    columns = {c: {"kind": "number", "low": 0, "high": 9, "integer": True} for c in "ab"}
    sums = {"kind": "number", "low": 0, "high": 18, "integer": True, "derived": "a + b"}
    schema = ad.Schema.from_dict({"columns": {"sum": sums} | columns, "rules": [{"check": "a <= b"}]})
    rows = pl.DataFrame({"sum": [3, 9], "a": [1, 5], "b": [2, 4]})
    found = ad.evaluate_release(make(rows, schema), rows.select("a", "b").to_numpy())
    assert [c.name for c in found.columns] == ["a", "b"] and list(counted(found).values()) == [(1, 1), (1, 1), (0, 0)]


FINE = [
    # finer than the grid: put on it, every one of these rows would break the rule that it obeys
    ({"kind": "number", "low": 0, "high": 1_000_000, "integer": True}, [123_457, 999_999], [7, 5_001]),
    ({"kind": "number", "low": 0, "high": 3}, [0.123456789, 2.2], [0.1, 0.7]),
    ({"kind": "number", "low": 0, "high": 100_000, "decimals": 2}, [12.34, 56_789.01], [0.01, 9.99]),
]


@pytest.mark.parametrize(("spec", "one", "other"), FINE)
def test_rules_judge_cells_and_not_their_place_on_the_grid(make, spec, one, other):
    total = spec | {"high": 2 * spec["high"], "derived": "a + b"}
    schema = ad.Schema.from_dict({"columns": {"a": spec, "b": spec, "total": total}})
    rows = pl.DataFrame({"a": one, "b": other}).with_columns(total=pl.col("a") + pl.col("b"))
    (fit,) = ad.evaluate_release(make(rows.with_columns(total=pl.col("a")), schema), rows).rules
    assert (fit.truth_rows, fit.release_rows) == (0, 2)


def test_moments_are_judged_to_the_second(make):
    moment = {"kind": "datetime", "low": "2019-01-01", "high": "2022-01-01"}
    wide = moment | {"high": "2024-01-01"}
    stay = {"kind": "duration", "low": "00:00:00", "high": "2000d", "derived": "left - came"}
    columns = {"came": moment, "left": wide, "stay": stay}
    schema = ad.Schema.from_dict({"columns": columns, "rules": [{"check": "came <= left"}]})
    left = [f"2020-01-01T{clock}" for clock in ("10:00:00", "10:00:01", "09:59:59")]
    rows = pl.DataFrame({"came": ["2020-01-01T10:00:00"] * 3, "left": left})
    found = ad.evaluate_release(make(rows.with_columns(stay=pl.Series([5, 1, 0])), schema), rows)
    assert list(counted(found).values()) == [(1, 2), (1, 1), (0, 1)]


def test_without_rules_there_is_no_section(make, cli, home):
    rows = pl.DataFrame({"x": [1, 2]})
    schema = ad.Schema.from_dict({"columns": {"x": {"kind": "number", "low": 0, "high": 3}}})
    rows.write_csv("truth.csv")
    done = cli("evaluate", make(rows, schema), "--truth", "truth.csv")
    assert done.code == 0 and "rule" not in done.out
    assert ad.evaluate_release(make(rows, schema, "other"), rows).rules == ()
