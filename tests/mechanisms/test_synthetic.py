"""Mechanisms that draw a table: what comes out fits the schema, keeps what was there, and works on odd tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.noise import add as noise
from tests.repeatable import repeatable  # noqa: F401

DRAWING = [name for name, cls in catalogue().items() if "add-remove" in cls.relations and not cls.answers]
MIXED = {
    "table": {"name": "mixed"},
    "columns": {
        "age": {"kind": "number", "low": 0, "high": 100, "integer": True},
        "score": {"kind": "number", "low": -5.0, "high": 5.0},
        "children": {"kind": "number", "low": 0, "high": 9, "integer": True},
        "smoker": {"kind": "flag"},
        "ward": {"kind": "category", "values": ["north", "south", "west"]},
        "grade": {"kind": "category", "values": [1, 2, 3, 4]},
        "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
    },
}


def mixed(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(count) < 0.3
    latent = rng.normal(size=count) + 1.5 * ill
    return pl.DataFrame(
        {
            "age": np.clip(np.rint(45 + 12 * latent), 0, 100).astype(int),
            "score": np.clip(1.2 * latent + rng.normal(size=count) * 0.8, -5, 5),
            "children": np.minimum(rng.poisson(1.5, count), 9),
            "smoker": rng.random(count) < np.where(ill, 0.7, 0.2),
            "ward": np.where(ill, rng.choice(["north", "south"], count), rng.choice(["south", "west"], count)).tolist(),
            "grade": rng.choice([1, 2, 3, 4], count, p=[0.1, 0.2, 0.3, 0.4]).tolist(),
            "ill": np.where(ill, "yes", "no").tolist(),
        }
    )


SCHEMA = ad.Schema.from_dict(MIXED)


def released(name, table, schema=SCHEMA, epsilon=5.0, relation=None, **parameters):
    return ad.release(table, schema, build(name, parameters), ad.Budget(epsilon, 1e-5, relation=relation))


@pytest.mark.parametrize("name", DRAWING)
def test_the_table_has_the_schemas_columns_types_ranges_and_values(name):
    table = released(name, mixed(), rows=3000).table
    assert table.columns == [c.name for c in SCHEMA.released] and table.height == 3000
    assert table.schema["age"] == pl.Int64 and table.schema["score"] == pl.Float64
    assert table.schema["smoker"] == pl.Boolean and table.schema["ward"] == pl.String
    for column in ("age", "score", "children"):
        declared = SCHEMA.column(column)
        assert declared.low <= table[column].min() and table[column].max() <= declared.high
    assert set(table["ward"]) <= {"north", "south", "west"}
    assert set(table["grade"]) <= {1, 2, 3, 4}
    assert table.null_count().sum_horizontal().item() == 0


@pytest.mark.parametrize("name", DRAWING)
def test_marginals_class_differences_and_correlations_come_through(name):
    truth, table = mixed(), released(name, mixed(), epsilon=8.0, rows=20_000).table
    assert (table["ill"] == "yes").mean() == pytest.approx((truth["ill"] == "yes").mean(), abs=0.03)
    assert table["age"].mean() == pytest.approx(truth["age"].mean(), abs=3)
    assert table["age"].std() == pytest.approx(truth["age"].std(), rel=0.2)

    def gap(frame, column):
        sick = frame.filter(pl.col("ill") == "yes")[column].cast(float).mean()
        return sick - frame.filter(pl.col("ill") == "no")[column].cast(float).mean()

    for column in ("age", "score", "smoker"):
        assert gap(table, column) == pytest.approx(gap(truth, column), rel=0.35), column
    north = table.filter(pl.col("ward") == "north")["ill"]
    assert (north == "yes").mean() > 0.6  # only the ill are in the north ward
    if name != "tables":  # which has no relation between columns but through the label
        assert np.corrcoef(table["age"], table["score"])[0, 1] == pytest.approx(
            np.corrcoef(truth["age"], truth["score"])[0, 1], abs=0.15
        )


@pytest.mark.parametrize("name", DRAWING)
def test_without_a_label_with_several_and_with_a_number_to_regress_on(name):
    plain = {**MIXED, "columns": {k: {**v} for k, v in MIXED["columns"].items()}}
    plain["columns"]["ill"].pop("role")
    without = ad.Schema.from_dict(plain)
    truth = mixed()
    table = released(name, truth, without, epsilon=8.0, rows=5000).table
    assert table.columns == truth.columns
    assert (table["ill"] == "yes").mean() == pytest.approx(0.3, abs=0.06)
    both = released(name, truth, without, epsilon=8.0, rows=5000, label="ill,smoker").table
    agree = both.filter(pl.col("ill") == "yes")["smoker"].mean() - both.filter(pl.col("ill") == "no")["smoker"].mean()
    assert agree == pytest.approx(0.5, abs=0.12)
    target = released(name, truth, without, epsilon=8.0, rows=5000, label="score").table
    if name != "tables":
        assert np.corrcoef(target["age"], target["score"])[0, 1] > 0.4


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_tiny_tables_give_a_table_and_no_warning(name, count, recwarn):
    table = released(name, mixed(count), epsilon=1.0, rows=50).table
    assert table.height == 50
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("name", DRAWING)
def test_constant_columns_one_valued_categories_and_missing_cells(name):
    schema = ad.Schema.from_dict(
        {
            "columns": {
                "same": {"kind": "number", "low": 0, "high": 1},
                "only": {"kind": "category", "values": ["x"]},
                "hole": {"kind": "number", "low": 0, "high": 10, "missing": 4},
                "gap": {"kind": "category", "values": ["a", "b"]},
                "kind": {"kind": "category", "values": ["p", "q", "never"], "role": "label"},
            }
        }
    )
    table = pl.DataFrame(
        {
            "same": [0.5] * 300,
            "only": ["x"] * 300,
            "hole": [None, 2.0, 8.0] * 100,
            "gap": ["a", None, "zzz"] * 100,
            "kind": ["p", "q", None] * 100,
        }
    )
    out = released(name, table, schema, epsilon=2.0, rows=400).table
    assert set(out["only"]) == {"x"} and out.height == 400
    assert out["hole"].min() >= 0 and out["hole"].max() <= 10


@pytest.mark.parametrize("name", DRAWING)
def test_wider_than_long(name):
    rng = np.random.default_rng(1)
    columns = {f"c{i}": {"kind": "number", "low": -3, "high": 3} for i in range(150)}
    columns["y"] = {"kind": "flag", "role": "label"}
    x = rng.normal(size=(60, 150))
    table = pl.DataFrame(x, schema=[f"c{i}" for i in range(150)]).with_columns(pl.Series("y", x[:, 0] > 0))
    out = released(name, table, ad.Schema.from_dict({"columns": columns}), epsilon=1.0, rows=100)
    assert out.table.shape == (100, 151) and out.verify() == []


@pytest.mark.parametrize("name", DRAWING)
def test_a_thousand_mixed_columns(name):
    rng = np.random.default_rng(2)
    columns, data = {}, {}
    for i in range(1000):
        kind = i % 4
        if kind == 0:
            columns[f"c{i}"] = {"kind": "category", "values": ["a", "b", "c"]}
            data[f"c{i}"] = rng.choice(["a", "b", "c"], 300).tolist()
        elif kind == 1:
            columns[f"c{i}"] = {"kind": "flag"}
            data[f"c{i}"] = rng.random(300) < 0.4
        else:
            columns[f"c{i}"] = {"kind": "number", "low": 0, "high": 9, "integer": kind == 2}
            data[f"c{i}"] = rng.integers(0, 10, 300)
    columns["y"] = {"kind": "category", "values": ["u", "v"], "role": "label"}
    data["y"] = rng.choice(["u", "v"], 300).tolist()
    table, schema = pl.DataFrame(data), ad.Schema.from_dict({"columns": columns})
    if name == "pairs":  # half a million tables are more than it measures, and it says what does
        with pytest.raises(ad.InputError, match="use --mechanism hybrid"):
            released(name, table, schema, rows=200)
    else:
        assert released(name, table, schema, rows=200).table.shape == (200, 1001)


@pytest.mark.parametrize("name", DRAWING)
def test_as_many_rows_are_drawn_as_the_table_has_and_others_can_be_asked_for(name):
    assert released(name, mixed(50)).table.height == 50
    assert released(name, mixed(50), rows=40_000).table.height == 40_000
    assert released(name, mixed(50), rows=7).table.height == 7
    assert released(name, mixed(50), rows=7).card.rows == 7
    assert released(name, mixed(50)).card.table_rows == 50
    for bad in (0, -3, 10**10):
        with pytest.raises(ad.InputError, match="rows"):
            released(name, mixed(50), rows=bad)


@pytest.mark.parametrize("name", DRAWING)
def test_a_private_number_of_rows_is_estimated_and_not_printed(name):
    out = released(name, mixed(60_000), epsilon=2.0, relation="add-remove")
    assert out.card.table_rows is None
    assert "size" in out.card.noise
    assert out.table.height == pytest.approx(60_000, abs=300) and out.table.height != 60_000


@pytest.mark.parametrize("name", DRAWING)
def test_labels_that_do_not_exist_or_have_too_many_values_are_refused_before_any_charge(name, tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    for label, told in (("nobody", "label"), ("children,grade,ward", "combinations")):
        with pytest.raises(ad.InputError, match=told):
            ad.release(mixed(50), SCHEMA, build(name, {"label": label}), ad.Budget(1.0), ledger=ledger)
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("name", DRAWING)
def test_a_cap_refuses_all_looks_or_none(name, tmp_path):
    """A cap that has room for the first look and not for the second must not let the first be spent."""
    ledger = ad.Ledger(tmp_path / "ledger.db")
    ledger.set_cap("mixed", ad.Neighbours.parse("row/replace"), 1.0, 1e-5)
    with pytest.raises(ad.Refused):
        ad.release(mixed(50), SCHEMA, build(name, {}), ad.Budget(1.5, 1e-5), ledger=ledger)
    assert ledger.events("mixed") == []
    ad.release(mixed(50), SCHEMA, build(name, {"rows": 5}), ad.Budget(1.0, 1e-5), ledger=ledger)
    assert ledger.spent("mixed", ad.Neighbours.parse("row/replace"), 1e-5) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", DRAWING)
def test_the_rows_are_drawn_from_published_numbers_alone(name, monkeypatch):
    """Another table behind the same noisy numbers gives the same rows: nothing else reaches the model."""
    real = noise.add_noise
    log = []

    def keep(law, exact, t, step, **kw):
        log.append(real(law, exact, t, step, **kw))
        return log[-1]

    seed = ad.PublicSeed.given("same")
    budget = ad.Budget(2.0, 1e-5)
    # the first of its kind in a process also runs a made-up table, which must not be heard below
    ad.release(mixed(200, seed=3), SCHEMA, build(name, {"rows": 80}), budget, seed=seed)
    monkeypatch.setattr(noise, "add_noise", keep)
    first = ad.release(mixed(200, seed=1), SCHEMA, build(name, {"rows": 80}), budget, seed=seed).table
    played = iter(log)
    monkeypatch.setattr(noise, "add_noise", lambda *a, **kw: next(played))
    second = ad.release(mixed(200, seed=2), SCHEMA, build(name, {"rows": 80}), budget, seed=seed).table
    assert first.equals(second)
