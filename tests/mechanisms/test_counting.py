"""Counting queries end to end: domains, mechanisms that count cells, sketches of rows, learnt dictionaries."""

from __future__ import annotations

import datetime
import json

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.counting.workload import Workload, box_sums, random_ranges
from adumbra.mechanisms.catalogue import build
from adumbra.models.sparse_recovery import pursued, thresholded
from adumbra.noise import add as noise
from adumbra.numerics.dictionaries import dictionary
from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.sensing import KINDS
from adumbra.queries.domain import Domain
from adumbra.tables.encode import encode

SCHEMA = ad.Schema.from_dict(
    {
        "table": {"name": "visits"},
        "columns": {
            "age": {"kind": "number", "low": 18, "high": 81, "integer": True},
            "ward": {"kind": "category", "values": ["a", "b", "c"]},
            "smoker": {"kind": "flag"},
            "weight": {"kind": "number", "low": 0, "high": 200},
        },
    }
)
COUNTING = ("laplace", "privelet", "hierarchical", "fourier", "sparse", "csm")


def visits(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.binomial(63, 0.4, count) + 18,
            "ward": rng.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]).tolist(),
            "smoker": rng.random(count) < 0.25,
            "weight": rng.normal(75, 15, count).clip(0, 200),
        }
    )


def domain(*columns, bins=None):
    return Domain.of(SCHEMA, SCHEMA.space(), columns, bins)


def silence(monkeypatch):
    def exact(values, step):
        return np.asarray(values, dtype=float) * step

    monkeypatch.setattr(noise, "add_noise", lambda law, values, t, step, **_: exact(values, step))
    monkeypatch.setattr(noise, "add_l2_noise", lambda arrays: [exact(values, step) for values, _, step in arrays])
    monkeypatch.setattr(noise, "add_l2_noise_by_row", lambda values, t, step, **_: exact(values, step))


# ---------------------------------------------------------------------------------------------------- domains


def test_every_value_falls_where_its_positions_say():
    found = domain("age", "ward", "smoker")
    assert found.values == (64, 3, 2) and found.shape == (65, 4, 3) and found.size == 780
    assert found.between("age", 18, 18) == (0.0, 1.0)
    assert found.between("age", 30.5, 45) == (13.0, 28.0)  # 31 .. 45
    assert found.between("age", -5, 200) == (0.0, 64.0)
    assert found.between("age", 30.2, 30.8) == (0.0, 0.0)
    assert found.value("ward", "b") == (1.0, 2.0) and found.value("smoker", "yes") == (1.0, 2.0)
    assert found.value("age", "19") == (1.0, 2.0)
    assert found.unordered == (1, 2) and found.apart == (0,)
    assert found.absent("age") == (64.0, 65.0) and found.absent("smoker") == (2.0, 3.0)


def test_bins_of_a_number_and_positions_inside_them():
    found = domain("weight", "age", bins=16)
    assert found.values == (16, 16) and found.shape == (17, 17)
    assert found.between("weight", 0, 200) == (0.0, 16.0)
    assert found.between("weight", 6.25, 12.5) == (0.5, 1.0)
    low, high = found.between("age", 18, 81)
    assert (low, high) == (0.0, 16.0)
    # bins of whole numbers end between two of them: four each here
    assert found.between("age", 18, 21) == (0.0, 1.0) and found.between("age", 22, 29) == (1.0, 3.0)
    assert found.between("age", 20, 20) == (0.5, 0.75)


@pytest.mark.parametrize("bins", [1, 2, 5, 7, 13, 63])
def test_bins_of_whole_numbers_cut_none_of_them(bins, monkeypatch):
    silence(monkeypatch)
    table = visits(2000)
    done = ad.release(table, SCHEMA, ad.Laplace("age", bins=bins), ad.Budget(1.0))
    cells = done.table
    assert cells.height == bins + 1 and cells["count"].sum() == 2000
    assert cells.row(-1) == (None, None, 0.0)
    assert (cells["age_from"][0], cells["age_to"][-2]) == (18, 81)
    assert (cells["age_from"][1:-1] == cells["age_to"][:-2] + 1).all()
    for first, last, count in cells.rows()[:-1]:  # whole numbers from the first to the last
        assert count == table.filter(pl.col("age").is_between(first, last)).height
        assert done.range("age", first, last).value == pytest.approx(count)


def test_values_outside_the_declared_range_are_refused():
    found = domain("age", "weight")
    for name, low, high in (("age", 90, 100), ("age", 0, 17), ("weight", -5, -1)):
        with pytest.raises(ad.InputError, match="as declared"):
            found.between(name, low, high)


def test_a_row_bound_has_no_place_where_rows_are_counted():
    with pytest.raises(ad.InputError, match="no row bound"):
        ad.plan(visits(20), SCHEMA, ad.Laplace("age"), ad.Budget(1.0), row_bound=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_a_table_are_counted_in_the_cells_that_the_release_lists(seed, monkeypatch):
    silence(monkeypatch)
    table = visits(500, seed)
    done = ad.release(table, SCHEMA, ad.Laplace(("smoker", "ward", "age")), ad.Budget(1.0))
    cells = done.table
    assert cells.columns == ["smoker", "ward", "age", "count"] and cells.height == 780
    expected = table.group_by("smoker", "ward", "age").len()
    joined = cells.join(expected, on=["smoker", "ward", "age"], how="left").fill_null(0)
    assert np.allclose(joined["count"], joined["len"])


def test_bins_are_listed_with_both_ends(monkeypatch):
    silence(monkeypatch)
    table = visits(500)
    done = ad.release(table, SCHEMA, ad.Laplace("weight", bins=8), ad.Budget(1.0)).table
    assert done.columns == ["weight_from", "weight_to", "count"]
    assert done["weight_from"][0] == 0 and done["weight_to"][-2] == 200
    assert done.row(-1) == (None, None, 0.0)  # what is missing
    edges = [*done["weight_from"][:-1], 200]
    assert np.allclose(done["count"][:-1], np.histogram(table["weight"], edges)[0], atol=1)


def test_a_column_called_count_keeps_its_name(monkeypatch):
    schema = ad.Schema.from_dict({"columns": {"count": {"kind": "flag"}}})
    done = ad.release(pl.DataFrame({"count": [True, False]}), schema, ad.Laplace(), ad.Budget(1.0))
    assert done.table.columns == ["count", "count_"]


def test_a_row_with_an_empty_cell_counts_as_missing(monkeypatch):
    silence(monkeypatch)
    table = pl.DataFrame({"ward": ["a", None, "zzz", "b"], "age": ["20", "30", "40", None]})
    schema = ad.Schema.parse(
        """
        [columns.ward]
        kind = "category"
        values = ["a", "b"]
        [columns.age]
        kind = "number"
        low = 18
        high = 81
        integer = true
        """
    )
    release = ad.release(table, schema, ad.Laplace(), ad.Budget(1.0))
    done = release.table
    assert done["count"].sum() == 4.0
    assert done.filter(pl.col("count") > 0).drop("count").rows() == [("a", 20), ("b", None), (None, 30), (None, 40)]
    assert release.count("ward", None).value == 2.0 and release.count("age", "").value == 1.0
    assert release.range("age", 18, 81).value == 3.0 and release.range("age", low=18).value == 3.0
    assert release.range("age", 18, 81, where={"ward": None}).value == 2.0
    assert release.marginal("ward").select("ward", "value").rows() == [("a", 1.0), ("b", 1.0), (None, 2.0)]


def test_a_column_with_a_fallback_has_no_cell_for_what_is_missing(monkeypatch):
    silence(monkeypatch)
    schema = ad.Schema.from_dict({"columns": {"ward": {"kind": "category", "values": ["a", "b"], "missing": "b"}}})
    release = ad.release(pl.DataFrame({"ward": ["a", None]}), schema, ad.Laplace(), ad.Budget(1.0))
    assert release.table.rows() == [("a", 1.0), ("b", 1.0)]
    with pytest.raises(ad.InputError, match="no cell was counted for what is missing"):
        release.count("ward", None)


def test_many_levels_have_bins_of_whole_levels_and_few_a_cell_each():
    schema = ad.Schema.from_dict(
        {
            "columns": {
                "day": {"kind": "number", "low": 1, "high": 31, "integer": True},
                "second": {"kind": "number", "low": 0, "high": 9999, "integer": True},
            }
        }
    )
    assert Domain.of(schema, schema.space(), ["day"]).values == (31,)
    assert Domain.of(schema, schema.space(), ["second"]).values == (64,)  # more than 4,096: not a cell each
    assert Domain.of(schema, schema.space(), ["day"], 31).by_value(0)
    for bins in (3, 10, 64, 1000):
        found = Domain.of(schema, schema.space(), ["day", "second"], bins)
        for axis, (name, low, count) in enumerate((("day", 1, 31), ("second", 0, 10_000))):
            values = np.arange(count) + low
            frame = pl.DataFrame({"day": np.ones(count), "second": np.zeros(count)}).with_columns(**{name: values})
            cell = found.groups.cells.of(encode(frame, schema).values)[:, axis]
            assert cell[0] == 0 and cell[-1] == found.values[axis] - 1 and set(np.diff(cell)) <= {0, 1}
            sizes = np.bincount(cell)
            assert sizes.max() - sizes.min() <= 1
            for value, own in zip(values[:: max(1, count // 50)], cell[:: max(1, count // 50)], strict=True):
                start, stop = found.between(name, value, value)
                assert own <= start < stop <= own + 1


KINDS_OF_CELLS = ad.Schema.from_dict(
    {
        "columns": {
            "day": {"kind": "date", "low": "2020-01-01", "high": "2020-01-31"},
            "sched": {"kind": "time", "step": "minute"},
            "grade": {"kind": "ordinal", "values": ["poor", "fair", "good"]},
            "weight": {"kind": "number", "low": 0, "high": 10, "decimals": 1},
            "income": {"kind": "number", "low": 1, "high": 10000, "scale": "log"},
            "smoker": {"kind": "flag", "values": ["n", "y"]},
        }
    }
)


def stays(count=400, seed=0):
    rng = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "day": pl.Series(rng.integers(0, 31, count)).cast(pl.Int32) + 18262,
            "sched": [f"{m // 60:02d}:{m % 60:02d}" for m in rng.integers(0, 1440, count)],
            "grade": rng.choice(["poor", "fair", "good"], count),
            "weight": rng.integers(0, 101, count) / 10,
            "income": 10 ** rng.uniform(0, 4, count),
            "smoker": rng.choice(["n", "y"], count),
        }
    ).with_columns(pl.col("day").cast(pl.Date))
    gone = {name: pl.Series(rng.random(count) < 0.1) for name in table.columns}
    return table.with_columns(
        pl.when(gone[name]).then(None).otherwise(pl.col(name)).alias(name) for name in table.columns
    )


def test_every_kind_of_cell_is_counted_by_its_values(monkeypatch):
    silence(monkeypatch)
    table = stays()
    for name, size in {"day": 31, "grade": 3, "weight": 101, "smoker": 2}.items():
        done = ad.release(table, KINDS_OF_CELLS, ad.Laplace(name), ad.Budget(1.0))
        counted = done.table
        assert counted.height == size + 1 and counted[name][-1] is None
        truth = table.group_by(name).len()
        joined = counted.join(truth, on=name, how="left", nulls_equal=True).fill_null(0)
        assert joined["count"].to_list() == joined["len"].to_list() and joined["len"].sum() == 400
        assert done.count(name, None).value == table[name].null_count()


def test_ranges_of_dates_times_and_ordered_codes(monkeypatch):
    silence(monkeypatch)
    table = stays()
    day, grade, weight, sched = (pl.col(name) for name in ("day", "grade", "weight", "sched"))
    start = datetime.date(2020, 1, 5)
    for bins in (None, 6):
        done = ad.release(table, KINDS_OF_CELLS, ad.Hierarchical("day", bins=bins), ad.Budget(1.0))
        for low, high in ((start, datetime.date(2020, 1, 15)), ("2020-01-05", "2020-01-15")):
            found = done.range("day", low, high)
            wanted = table.filter(day.is_between(start, datetime.date(2020, 1, 15))).height
            assert found.value == pytest.approx(wanted, abs=1e-6 if bins is None else 30)
        with pytest.raises(ad.InputError, match="as declared, from 2020-01-01 to 2020-01-31"):
            done.range("day", "2021-01-01")
        with pytest.raises(ad.InputError, match="a date for day"):
            done.count("day", "soon")
    listed = done.table
    assert listed["day_from"][0] == datetime.date(2020, 1, 1) and listed["day_to"][-2] == datetime.date(2020, 1, 31)
    runs = (listed["day_to"][:-1] - listed["day_from"][:-1]).dt.total_days() + 1
    assert runs.sum() == 31 and set(runs) == {5, 6}  # whole days
    graded = ad.release(table, KINDS_OF_CELLS, ad.Laplace(("grade", "smoker")), ad.Budget(1.0))
    assert graded.range("grade", "fair").value == table.filter(grade.is_in(["fair", "good"])).height
    assert (
        graded.count("smoker", "y", where={"grade": "..fair"}).value
        == table.filter((pl.col("smoker") == "y") & grade.is_in(["poor", "fair"])).height
    )
    weighed = ad.release(table, KINDS_OF_CELLS, ad.Laplace("weight"), ad.Budget(1.0))
    assert weighed.range("weight", 0.3, 4.7).value == table.filter(weight.is_between(0.3, 4.7)).height
    assert weighed.count("weight", 0.3).value == table.filter(weight == 0.3).height
    timed = ad.release(table, KINDS_OF_CELLS, ad.Laplace("sched", bins=24), ad.Budget(1.0))
    assert (
        timed.range("sched", "09:00", "09:59").value
        == table.filter(sched.is_between(pl.lit("09:00"), pl.lit("09:59"))).height
    )
    assert timed.table["sched_from"][1] == datetime.time(1) and timed.table["sched_to"][0] == datetime.time(0, 59)


def test_bins_on_a_logarithmic_scale_grow_with_the_number(monkeypatch):
    silence(monkeypatch)
    done = ad.release(stays(), KINDS_OF_CELLS, ad.Laplace("income", bins=4), ad.Budget(1.0))
    assert done.table["income_to"].to_list()[:-1] == pytest.approx([10, 100, 1000, 10000], rel=1e-3)
    inside = stays().filter(pl.col("income").is_between(10, 1000)).height
    assert done.range("income", 10, 1000).value == pytest.approx(inside, abs=2)


# ------------------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("relation", ["replace", "zero-out", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", [*COUNTING, "histogram"])
def test_every_mechanism_comes_near_the_truth_at_a_large_epsilon(name, delta, relation):
    table = visits(20_000)
    mechanism = build(name, {"columns": "age,smoker", **({"ratio": "1"} if name == "csm" else {})})
    done = ad.release(table, SCHEMA, mechanism, ad.Budget(20.0, delta, relation=relation))
    counts = done.table["count"].to_numpy()
    truth = np.zeros((65, 3))
    np.add.at(truth, (table["age"].to_numpy() - 18, table["smoker"].to_numpy().astype(int)), 1)
    workload = random_ranges((65, 3), 200, 3)
    error = box_sums(counts, workload) - box_sums(truth.ravel(), workload)
    # fourier smooths two columns taken as one; a sketch keeps what stands out only
    assert np.sqrt(np.square(error).mean()) < {"fourier": 2500, "csm": 400, "sparse": 100}.get(name, 20)
    assert done.verify() == []
    assert done.card.delta == (0.0 if name == "fourier" else delta)


@pytest.mark.parametrize("name", COUNTING)
def test_without_noise_all_but_the_lossy_ones_are_exact(name, monkeypatch):
    silence(monkeypatch)
    table = visits(3000)
    options = {"columns": "age,ward"}
    options |= {"ratio": "1", "atoms": "64"} if name == "csm" else {"frequencies": "130"} if name == "fourier" else {}
    done = ad.release(table, SCHEMA, build(name, options), ad.Budget(1.0)).table
    truth = np.zeros((65, 4))
    np.add.at(truth, (table["age"].to_numpy() - 18, np.array([*"abc"]).searchsorted(table["ward"].to_numpy())), 1)
    error = np.abs(done["count"].to_numpy() - truth.ravel()).max()
    # sparse and csm cut what the (absent) noise could have been
    assert error < {"sparse": 40, "csm": 60, "fourier": 0.1}.get(name, 1e-6)


def test_a_sparse_table_is_found_among_a_million_cells():
    """Few cells of a large domain hold all rows: both decoders find them, and a sketch holds a thousandth of them."""
    rng = np.random.default_rng(1)
    values = rng.choice(np.arange(2**20), 6, replace=False)
    schema = ad.Schema.from_dict(
        {"columns": {n: {"kind": "number", "low": 0, "high": 1024, "missing": 0} for n in ("high", "low")}}
    )
    codes = np.repeat(values, 5000)
    table = pl.DataFrame({"high": codes // 1024 + 0.5, "low": codes % 1024 + 0.5})
    for mechanism in (ad.CSM(bins=1024, atoms=6), ad.Sparse(bins=1024)):
        for delta in (0.0, 1e-6):
            done = ad.release(table, schema, mechanism, ad.Budget(2.0, delta))
            found = done.table.with_row_index().sort("count", descending=True).head(6)
            assert sorted(found["index"]) == sorted(values.tolist())
            assert np.allclose(found["count"], 5000, atol=500)
            if mechanism.name == "csm":
                assert done.arrays["measured"].shape[0] < 800


def test_more_weight_means_less_noise(monkeypatch):
    """The magnitude function: a measurement that counts twice as much has half the noise of the others."""
    plain = ad.plan(visits(50), SCHEMA, ad.CSM("age", ratio=0.5, noise="laplace"), ad.Budget(1.0, 0.0))
    weighted = ad.plan(
        visits(50), SCHEMA, ad.CSM("age", ratio=0.5, noise="laplace", weights=(2.0, 1.0)), ad.Budget(1.0, 0.0)
    )
    assert plain.queries["counts"].strategy.weights.tolist() == [1.0] * 33
    assert weighted.queries["counts"].strategy.weights.tolist() == [1.0] * 17 + [0.5] * 16
    before, heavy = (p.calibrations["counts"].parts["measured"].sd for p in (plain, weighted))
    light = heavy / 0.5  # in real units: sd / weight
    assert heavy < before < light


@pytest.mark.parametrize("law", ["laplace", "l2-laplace"])
def test_the_law_of_pure_noise_can_be_chosen(law):
    done = ad.release(visits(100), SCHEMA, ad.CSM("age", noise=law), ad.Budget(1.0, 0.0))
    assert done.card.noise["counts"].law == law


def test_the_rule_for_measurements_looks_at_no_row():
    few, many = (
        ad.plan(visits(count), SCHEMA, ad.CSM("age"), ad.Budget(1.0, 0.0)).queries["counts"].strategy.numbers
        for count in (10, 5000)
    )
    assert few == many == 61  # 2 K ln(N/K) + K for K = 16, N = 65


@pytest.mark.parametrize("name", [*COUNTING, "histogram"])
def test_a_plan_compares_all_and_recommends(name, cli, home):
    visits(300).write_csv(home.path / "visits.csv")
    (home.path / "s.toml").write_text(SCHEMA.to_toml())
    plan = ["plan", "visits.csv", "--schema", "s.toml", "--epsilon", "1", "--delta", "0", "--mechanism", name]
    done = cli(*plan, "--columns", "age", "--json")
    assert done.code == 0, done.err
    outlook = json.loads(done.out)["outlook"]
    for rival in COUNTING:
        assert f"error with {rival}" in outlook
    assert (
        "hierarchical" in outlook["least error, whatever the table"]
        or "laplace" in outlook["least error, whatever the table"]
    )


def test_the_chooser_follows_the_queries_and_what_is_known_to_be_sparse():
    wide = ad.Schema.from_dict({"columns": {"x": {"kind": "number", "low": 0, "high": 1}}})
    table = pl.DataFrame({"x": [0.5] * 100})

    def chosen(**options):
        return ad.plan(table, wide, ad.Histogram(bins=4096, **options), ad.Budget(1.0, 0.0)).job.mechanism.name

    assert chosen() == "hierarchical"
    assert chosen(queries="cells") == "laplace"
    assert chosen(atoms=3) == "sparse"


# ------------------------------------------------------------------------------------------------------ decoders


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["identity", "dct", "haar", "walsh-hadamard"])
def test_a_sketch_of_few_atoms_is_decoded(kind, name):
    atoms = dictionary(name, (256,))
    rng = np.random.default_rng(5)
    coefficients = np.zeros(atoms.atoms)
    coefficients[rng.choice(atoms.atoms, 5, replace=False)] = rng.choice([-1, 1], 5) * rng.uniform(500, 900, 5)
    counts = atoms.synthesis(coefficients)
    sketch = sensing(kind, bytes(32), 256, 120, nonzeros=8)
    measured = sketch.forward(counts) + rng.normal(0, 5, sketch.numbers)
    found = pursued(measured, 5.0, False, sketch, atoms, None)
    assert set(np.flatnonzero(coefficients)) <= set(found.arrays["support"].tolist())
    assert np.linalg.norm(found.counts - counts) < 80


def test_what_a_decoder_left_is_seen_in_its_residual():
    """Many cells with little in each: nothing stands out, so all is left; the release says how much, by size."""
    rng = np.random.default_rng(2)
    counts, atoms = np.repeat([20.0, 0.0, 20.0, 0.0], 256), dictionary("identity", (1024,))

    def direct():
        return thresholded(counts + rng.normal(0, 10, 1024), 10.0, False, atoms, None)

    def sketched():
        sketch = sensing("hadamard", rng.bytes(32), 1024, 512)  # the error of a sketch averages over sketches
        return pursued(sketch.forward(counts) + rng.normal(0, 10, 512), 10.0, False, sketch, atoms, 1)

    for decode in (direct, sketched):
        stated, true = np.zeros(3), np.zeros(3)
        for _ in range(30):
            found = decode()
            left = dict(zip(found.arrays["missing_sizes"], found.arrays["missing_squares"], strict=True))
            for i, size in enumerate((4, 16, 64)):
                stated[i] += left[size]
                true[i] += np.square((counts - found.counts).reshape(-1, size).sum(axis=1)).mean()
        assert np.allclose(stated / true, 1.0, atol=0.2), decode


# ------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize("kind", KINDS)
def test_sketched_rows_come_back_where_there_is_no_noise(kind, monkeypatch):
    """Rows of few atoms, fewer numbers than coordinates; the measurement is taken of the row, never of a code of it."""
    silence(monkeypatch)
    monkeypatch.setattr("adumbra.kinds.projection_answers.ProjectedAnswers._pursued", _with_no_noise)
    names = [f"c{i}" for i in range(24)]
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": -1, "high": 1} for n in names}})
    rng = np.random.default_rng(0)
    rows = np.zeros((30, 24))
    for row in rows:
        row[rng.choice(24, 2, replace=False)] = rng.choice([-0.9, 0.9], 2)
    table = pl.DataFrame(dict(zip(names, rows.T, strict=True)))
    mechanism = ad.CSM(input="records", sensing=kind, ratio=0.75, atoms=3, nonzeros=8)
    back = []
    for _ in range(8):  # every release draws a sketch; in some the greedy decoder loses its way with a few rows
        done = ad.release(table, schema, mechanism, ad.Budget(40.0, 1e-6))
        assert done.table.width < 24 and done.table.height == 30
        back.append(np.abs(done.reconstruct().to_numpy() - rows).max(axis=1) < 1e-3)
    assert np.mean(back) > 0.9  # 0.98 over many sketches of each kind


def _with_no_noise(self, atoms):
    from adumbra.numerics.pursuit import pursue

    (band,) = self._bands
    sensed = band.matrix.T @ atoms.synthesis(np.eye(atoms.atoms)).T
    return atoms.synthesis(pursue(sensed, band.rows, atoms=3, residual=1e-9).dense(atoms.atoms))


def test_sketched_rows_answer_means_within_their_error():
    table = visits(20_000)
    done = ad.release(table, SCHEMA, ad.CSM(input="records", ratio=1.0), ad.Budget(8.0, 1e-6))
    for column in ("age", "weight"):
        found = done.mean(column)
        assert abs(found.value - table[column].mean()) < 4 * found.standard_error
    assert done.card.answers == ("distance", "neighbours", "mean", "linear", "moment", "reconstruct")
    assert done.reconstruct().columns == table.columns


def test_records_need_a_public_number_of_rows():
    with pytest.raises(ad.InputError, match="histogram"):
        ad.release(visits(50), SCHEMA, ad.CSM(input="records"), ad.Budget(1.0, relation="add-remove"))


# ------------------------------------------------------------------------------------------------ bad input, files


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": "nope"}, "columns of the schema"),
        ({"bins": "0"}, "bins"),
        ({"columns": "weight", "bins": "2000000"}, "at most 16384 bins"),
        ({"ratio": "0"}, "ratio"),
        ({"ratio": "1.5"}, "ratio"),
        ({"sensing": "sines"}, "sensing"),
        ({"dictionary": "sines"}, "a dictionary"),
        ({"dictionary": "no.npy"}, "exists"),
        ({"weights": "1,-1"}, "positive weights"),
        ({"weights": "nan"}, "positive weights"),
        ({"atoms": "0"}, "atoms"),
        ({"nonzeros": "0"}, "nonzeros"),
        ({"noise": "none"}, "noise"),
        ({"input": "records", "columns": "age"}, "records"),
        ({"sensing": "signs", "columns": "weight", "bins": "16384", "ratio": "0.5"}, "held in memory"),
    ],
)
def test_bad_options_are_refused_and_nothing_is_charged(options, says, home, cli):
    visits(40).write_csv(home.path / "visits.csv")
    (home.path / "s.toml").write_text(SCHEMA.to_toml())
    extra = [word for key, value in ({"columns": "age"} | options).items() for word in (f"--{key}", value)]
    if options.get("input") == "records" and "columns" not in options:
        extra = extra[2:]
    done = cli(
        "release", "visits.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "csm", "--out", "out", *extra
    )
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
    assert not (home.path / "out").exists() and not (home.path / "adumbra-ledger.db").exists()


def test_a_domain_too_large_says_how_large_each_column_is():
    schema = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(6)}})
    with pytest.raises(ad.InputError, match="c0 65, c1 65"):
        ad.plan(pl.DataFrame({f"c{i}": [0.5] for i in range(6)}), schema, ad.Laplace(), ad.Budget(1.0))


def test_a_learnt_dictionary_from_the_command_line(home, cli):
    visits(2000, seed=9).write_csv(home.path / "public.csv")
    visits(2000, seed=1).write_csv(home.path / "private.csv")
    (home.path / "s.toml").write_text(SCHEMA.to_toml())
    made = cli("dictionary", "public.csv", "--schema", "s.toml", "--columns", "age", "--out", "atoms.npy", "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["cells"] == 65
    assert np.load(home.path / "atoms.npy").shape[0] == 65
    for mechanism in ("sparse", "csm"):
        released = cli(
            "release", "private.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", mechanism,
            "--columns", "age", "--dictionary", "atoms.npy", "--out", mechanism,
        )  # fmt: skip
        assert released.code == 0, released.err
        done = ad.load(home.path / mechanism)
        assert done.facts.dictionary["name"] == "learnt"
        assert str(home.path) not in (home.path / mechanism / "card.json").read_text()
        assert done.arrays["dictionary"].shape[0] == 65
        truth = np.bincount(visits(2000, seed=1)["age"] - 18, minlength=65)
        assert np.linalg.norm(done.table["count"].to_numpy() - truth) < 0.5 * np.linalg.norm(truth)
    again = cli("dictionary", "public.csv", "--schema", "s.toml", "--columns", "age", "--out", "atoms.npy")
    assert again.code == 2 and "new .npy file" in again.err


def test_a_dictionary_of_rows():
    atoms = ad.public_dictionary(visits(500, seed=9), SCHEMA, 6, 2, input="records")
    assert atoms.shape == (SCHEMA.space().width, 6)
    assert np.allclose(np.linalg.norm(atoms, axis=0), 1.0)


def test_random_ranges_are_whole_and_repeatable():
    one, two = random_ranges((10, 3), 500, 4), random_ranges((10, 3), 500, 4)
    assert np.array_equal(one.low, two.low) and np.array_equal(one.high, two.high)
    assert (one.high > one.low).all() and (one.high <= [10, 3]).all()
    assert set(one.low[:, 0]) == set(range(10))


def test_a_workload_needs_a_box_for_each_term():
    with pytest.raises(ValueError, match="one box"):
        Workload((4,), ("q",), np.array([0]), np.array([1.0]), np.zeros((1, 2)), np.zeros((1, 2)))


# ----------------------------------------------------------------------------- what a hostile reading found


def test_columns_that_are_called_like_the_ends_of_a_bin_keep_their_names(monkeypatch):
    silence(monkeypatch)
    schema = ad.Schema.from_dict(
        {
            "columns": {
                "a": {"kind": "number", "low": 0, "high": 100},
                "a_from": {"kind": "category", "values": ["x", "y"]},
            }
        }
    )
    table = pl.DataFrame({"a": [10.0, 90.0], "a_from": ["x", "y"]})
    done = ad.release(table, schema, ad.Laplace(bins=4), ad.Budget(1.0))
    assert done.table.columns == ["a_from_", "a_to", "a_from", "count"]
    assert done.table.filter(pl.col("count") > 0)["a_from"].to_list() == ["x", "y"]
    assert done.count("a_from", "x").value == pytest.approx(1.0)


@pytest.mark.parametrize("name", COUNTING)
def test_more_columns_than_an_array_can_have_are_refused_before_the_charge(name, home):
    names = [f"c{i}" for i in range(70)]
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": 0, "high": 1} for n in names}})
    ledger = ad.Ledger(home.ledger)
    with pytest.raises(ad.InputError, match="at most 32 columns"):
        ad.release(
            pl.DataFrame({n: [0.5] for n in names}), schema, build(name, {"bins": "1"}), ad.Budget(1.0), ledger=ledger
        )
    assert not home.ledger.exists()


def test_a_dictionary_file_of_another_kind_is_refused(tmp_path):
    np.savez(tmp_path / "pack.npz", a=np.eye(65))
    (tmp_path / "pack.npz").rename(tmp_path / "pack.npy")
    (tmp_path / "broken.npy").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "nan.npy").write_bytes(b"")
    for file in ("pack.npy", "broken.npy", "nan.npy"):
        with pytest.raises(ad.InputError, match="npy file of real numbers"):
            ad.plan(visits(5), SCHEMA, ad.Sparse("age", dictionary=str(tmp_path / file)), ad.Budget(1.0))
    np.save(tmp_path / "wrong.npy", np.eye(5))
    with pytest.raises(ad.InputError, match="atoms of 65 numbers"):
        ad.plan(visits(5), SCHEMA, ad.CSM("age", dictionary=str(tmp_path / "wrong.npy")), ad.Budget(1.0))


@pytest.mark.parametrize("mechanism", [ad.Sparse, ad.CSM])
def test_a_dictionary_is_read_before_the_charge_and_not_again(mechanism, tmp_path, monkeypatch):
    file = tmp_path / "atoms.npy"
    np.save(file, np.eye(65))
    original = np.load

    def once(place, **options):
        found = original(place, **options)
        if str(place).endswith("atoms.npy"):
            file.unlink()
        return found

    monkeypatch.setattr(np, "load", once)
    assert ad.release(visits(50), SCHEMA, mechanism("age", dictionary=str(file)), ad.Budget(1.0)).verify() == []


def test_bins_are_checked_for_dictionaries_too():
    for bins in (-1, 0):
        with pytest.raises(ad.InputError, match="bins"):
            ad.public_dictionary(visits(50), SCHEMA, columns=["weight"], bins=bins)
