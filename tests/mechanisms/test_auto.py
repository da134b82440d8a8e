"""The rule that picks a mechanism: public facts in, a mechanism and a reason out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.mechanisms.auto import Auto


def table(rows, numbers=8, categories=0, classes=2, flags=0, levels=0):
    rng = np.random.default_rng(0)
    data = {f"n{i}": rng.random(rows) for i in range(numbers)}
    data |= {f"k{i}": rng.choice(["a", "b", "c"], rows).tolist() for i in range(categories)}
    columns = {f"n{i}": {"kind": "number", "low": 0, "high": 1} for i in range(numbers)}
    columns |= {f"k{i}": {"kind": "category", "values": ["a", "b", "c"]} for i in range(categories)}
    data |= {f"f{i}": rng.integers(0, 2, rows) for i in range(flags)}
    columns |= {f"f{i}": {"kind": "flag"} for i in range(flags)}
    data |= {f"l{i}": rng.integers(0, 9, rows) for i in range(levels)}
    columns |= {f"l{i}": {"kind": "number", "low": 0, "high": 8, "integer": True} for i in range(levels)}
    if classes:
        values = [str(i) for i in range(classes)]
        columns["y"] = {"kind": "category", "values": values, "role": "label"}
        data["y"] = rng.choice(values, rows).tolist()
    return pl.DataFrame(data), ad.Schema.from_dict({"columns": columns})


def chosen(shape, epsilon=1.0, mechanism=None, **budget):
    frame, schema = table(**shape)
    job = ad.plan(frame, schema, mechanism or Auto(), ad.Budget(epsilon, 1e-5, **budget)).job
    return job.mechanism, job.choice


@pytest.mark.parametrize(
    ("shape", "epsilon", "name"),
    [
        ({"rows": 400, "numbers": 30}, 1.0, "moments"),
        ({"rows": 400, "numbers": 30}, 8.0, "hybrid"),
        ({"rows": 5000, "numbers": 30}, 1.0, "hybrid"),
        ({"rows": 400, "numbers": 30, "classes": 0}, 1.0, "hybrid"),
        ({"rows": 100, "numbers": 1, "categories": 5}, 1.0, "tables"),
        ({"rows": 400, "numbers": 1, "categories": 5}, 1.0, "hybrid"),
        # many classes of numbers: class means share directions with the rows, which hybrid uses
        ({"rows": 360, "numbers": 90, "classes": 15}, 1.0, "hybrid"),
        ({"rows": 360, "numbers": 90, "classes": 15}, 4.0, "hybrid"),
        ({"rows": 360, "numbers": 90, "classes": 5}, 4.0, "moments"),
        ({"rows": 360, "numbers": 0, "levels": 60, "classes": 10}, 4.0, "moments"),
        # categories and flags whose class means are lost in noise
        ({"rows": 400, "numbers": 1, "categories": 5, "classes": 6}, 1.0, "tables"),
        ({"rows": 400, "numbers": 1, "categories": 5, "classes": 6}, 8.0, "hybrid"),
        ({"rows": 900, "numbers": 0, "flags": 100, "classes": 10}, 1.0, "tables"),
        ({"rows": 1100, "numbers": 0, "flags": 100, "classes": 10}, 1.0, "hybrid"),
        # about as many of either
        ({"rows": 400, "numbers": 4, "categories": 3, "flags": 2}, 1.0, "hybrid"),
    ],
)
def test_the_choice_follows_rows_kinds_label_and_epsilon(shape, epsilon, name):
    mechanism, reason = chosen(shape, epsilon)
    assert mechanism.name == name and len(reason) > 30


@pytest.mark.parametrize("need", ["correlations", "marginals"])
def test_needs_reach_the_hybrid(need):
    mechanism, _ = chosen({"rows": 400, "numbers": 30}, mechanism=Auto(need=need))
    assert mechanism.name == "hybrid" and mechanism.need == need


def test_without_a_label_there_is_no_model_to_train():
    mechanism, _ = chosen({"rows": 5000, "classes": 0})
    assert mechanism.need == "correlations"


def test_aligned_rows_cells_and_row_bounds_go_to_dppro():
    assert chosen({"rows": 50}, mechanism=Auto(need="aligned-rows"))[0].name == "dppro"
    assert chosen({"rows": 50}, unit=ad.Unit.CELL)[0].name == "dppro"
    frame, schema = table(50)
    assert ad.plan(frame, schema, Auto(), ad.Budget(1.0), row_bound=1.0).job.mechanism.name == "dppro"


def test_rows_and_label_are_passed_on():
    frame, schema = table(300, categories=1)
    out = ad.release(frame, schema, Auto(label="k0", rows=77), ad.Budget(1.0))
    assert out.table.height == 77 and out.facts.classes == 3
    assert out.card.choice and out.card.mechanism in ("moments", "hybrid")


def test_the_rule_never_sees_the_rows():
    """Other content, same shape: same choice. And under add-remove not even the number of rows counts."""
    frame, schema = table(400, numbers=30)
    other = frame.with_columns(pl.col("^n.*$") * 0, pl.lit("0").alias("y"))
    for budget in (ad.Budget(1.0, 1e-5), ad.Budget(1.0, 1e-5, relation="add-remove")):
        first, second = (ad.plan(t, schema, Auto(), budget).job for t in (frame, other))
        assert (first.mechanism, first.choice) == (second.mechanism, second.choice)
    budget = ad.Budget(1.0, 1e-5, relation="add-remove")
    few = ad.plan(frame.head(20), schema, Auto(), budget)
    many = ad.plan(pl.concat([frame] * 20), schema, Auto(), budget)
    assert few.job.mechanism == many.job.mechanism and few.job.choice == many.job.choice
    assert {k: c.event for k, c in few.calibrations.items()} == {k: c.event for k, c in many.calibrations.items()}


def test_an_unknown_need_is_refused():
    with pytest.raises(ad.InputError, match="need"):
        Auto(need="everything")
