"""Tables with holes: what is missing comes back missing, as often and where it was, and a value stays what it is."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.mechanisms.catalogue import build
from tests.repeatable import repeatable  # noqa: F401

NAMES = ("hybrid", "moments", "tables", "pairs", "auto")
SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "day": {"kind": "number", "low": 1, "high": 31, "integer": True},
            "delay": {"kind": "number", "low": -60, "high": 1400, "integer": True},
            "payor": {"kind": "category", "values": ["self", "state", "charity"]},
            "seen": {"kind": "flag"},
            "filled": {"kind": "number", "low": 0, "high": 10, "missing": 4},
            "left": {"kind": "category", "values": ["no", "yes"], "role": "label"},
        }
    }
)


def holes(rows=20_000, unlabelled=0.0, seed=0):
    """Who left has no delay; the payor of late days is often unknown."""
    rng = np.random.default_rng(seed)
    left = rng.random(rows) < 0.2
    day = np.minimum(rng.geometric(0.08, rows), 31)
    delay = np.where(left, np.nan, np.minimum(np.rint(rng.exponential(30, rows)) - 10, 1400))
    unknown = rng.random(rows) < np.where(day > 10, 0.8, 0.2)
    return pl.DataFrame(
        {
            "day": day,
            "delay": pl.Series(delay).fill_nan(None).cast(pl.Int64),
            "payor": pl.Series(rng.choice(["self", "state"], rows)).set(pl.Series(unknown), None),
            "seen": pl.Series(rng.random(rows) < 0.3).set(pl.Series(rng.random(rows) < 0.05), None),
            "filled": pl.Series(rng.random(rows) * 10).set(pl.Series(rng.random(rows) < 0.5), None),
            "left": pl.Series(np.where(left, "yes", "no")).set(pl.Series(rng.random(rows) < unlabelled), None),
        }
    )


def released(name, table, epsilon=4.0, delta=1e-5, relation=None, schema=SCHEMA, **options):
    return ad.release(table, schema, build(name, options), ad.Budget(epsilon, delta, relation=relation))


def missing(table):
    return {name: table[name].null_count() / table.height for name in table.columns}


@pytest.mark.parametrize("relation", ["replace", "zero-out", "add-remove"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_comes_back_as_often_and_what_is_not_does_not(name, relation):
    truth, out = holes(), released(name, holes(), relation=relation).table
    found, wanted = missing(out), missing(truth)
    for column in ("delay", "payor", "seen"):
        assert found[column] == pytest.approx(wanted[column], abs=0.02), column
    assert found["day"] == found["filled"] == found["left"] == 0
    assert (out["payor"] == "charity").sum() < 0.01 * out.height


@pytest.mark.parametrize("name", ["hybrid", "moments", "pairs"])
def test_what_is_missing_goes_with_the_class_and_with_other_columns(name):
    truth, out = holes(), released(name, holes(), epsilon=8.0).table

    def share(frame, column, where):
        return frame.filter(where)[column].null_count() / frame.filter(where).height

    late, left = pl.col("day") > 10, pl.col("left") == "yes"
    for column, where in (("payor", late), ("delay", left)):
        apart = share(truth, column, where) - share(truth, column, ~where)
        assert share(out, column, where) - share(out, column, ~where) > 0.5 * apart, column


def test_the_tables_of_a_class_have_what_is_missing_in_it():
    out = released("tables", holes(), epsilon=8.0).table
    left = out.filter(pl.col("left") == "yes")
    assert left["delay"].null_count() == pytest.approx(left.height, rel=0.03)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_mean_is_that_of_the_cells_that_are_there(relation, repeatable):  # noqa: F811
    truth = holes(40_000)
    found = [released("auto", truth, epsilon=1.0, relation=relation).table["delay"].mean() for _ in range(3)]
    assert np.mean(found) == pytest.approx(truth["delay"].mean(), rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_a_label_is_drawn_where_there_are_some(name):
    out = released(name, holes(unlabelled=0.1))
    assert missing(out.table)["left"] == pytest.approx(0.1, abs=0.02) and out.facts.classes == 3
    none = released(name, holes())
    assert none.table["left"].null_count() == 0 and none.facts.classes == 2


@pytest.mark.parametrize("name", NAMES)
def test_pure_epsilon_keeps_what_is_missing_and_pays_for_no_more_scores(name):
    out = released(name, holes(), epsilon=20.0, delta=0.0).table
    assert missing(out)["payor"] == pytest.approx(missing(holes())["payor"], abs=0.03)
    assert out["day"].null_count() == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_column_that_is_all_but_empty_and_a_table_of_few_rows_break_nothing(name, recwarn):
    for rows, epsilon in ((20_000, 8.0), (30, 1.0)):
        table = holes(rows).with_columns(pl.lit(None, dtype=pl.Int64).alias("delay"))
        out = released(name, table, epsilon=epsilon).table
        assert out.height == rows
        if rows > 1000:
            assert missing(out)["delay"] > 0.95
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


# ---- whole numbers


def total_variation(truth, out, column, low, high):
    one, two = (np.bincount(f[column].to_numpy() - low, minlength=high - low + 1) / f.height for f in (truth, out))
    return 0.5 * np.abs(one - two).sum()


def clock(rows=60_000):
    rng = np.random.default_rng(5)
    shares = np.exp(-0.5 * ((np.arange(24) - 14) / 5) ** 2) + 0.05
    shares[8] *= 2
    return pl.DataFrame(
        {
            "hour": rng.choice(24, rows, p=shares / shares.sum()),
            "day": rng.choice(31, rows, p=rng.dirichlet(np.full(31, 8.0))) + 1,
            "gain": np.where(rng.random(rows) < 0.9, 0, np.rint(rng.exponential(3000, rows))).astype(int),
        }
    )


CLOCK = ad.Schema.from_dict(
    {
        "columns": {
            "hour": {"kind": "number", "low": 0, "high": 23, "integer": True},
            "day": {"kind": "number", "low": 1, "high": 31, "integer": True},
            "gain": {"kind": "number", "low": 0, "high": 99_999, "integer": True},
        }
    }
)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_whole_numbers_come_back_level_by_level_and_better_with_epsilon(relation):
    truth, errors = clock(), {}
    for epsilon in (1.0, 8.0):
        out = released("auto", truth, epsilon, relation=relation, schema=CLOCK).table
        errors[epsilon] = [total_variation(truth, out, *c) for c in (("hour", 0, 23), ("day", 1, 31))]
        assert (out["gain"] == 0).mean() == pytest.approx((truth["gain"] == 0).mean(), abs=0.01)
        assert out["gain"].quantile(0.99) == pytest.approx(truth["gain"].quantile(0.99), rel=0.25)
    assert max(errors[1.0]) < 0.01 and max(errors[8.0]) < 0.5 * max(errors[1.0])


def test_the_plan_says_when_more_rows_help_a_model():
    jobs = [ad.plan(clock(rows), CLOCK, build("auto", {}), ad.Budget(1.0, 1e-5)) for rows in (500, 60_000)]
    few, many = (
        dict(
            plan.job.mechanism.outlook(
                plan.job.setting, plan.job.promise, {k: c.event for k, c in plan.calibrations.items()}
            )
        )
        for plan in jobs
    )
    assert "--rows" in few["more rows"] and "more rows" not in many
    assert few["rows drawn"] == "500" and many["rows drawn"] == "60000"
