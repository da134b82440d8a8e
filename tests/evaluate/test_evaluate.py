"""The owner's utility report: every number against one worked out by hand or by brute force, and every refusal."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.compare import label_models, table_comparison, table_layout
from adumbra.compare.compared_cells import single_values
from adumbra.compare.table_fit import column_fits, correlation_fit
from adumbra.compare.table_layout import CellLayout
from adumbra.compare.table_tally import read_tally
from adumbra.compare.two_way_fit import two_way_fit
from adumbra.kinds.projected_rows import DistanceComparison
from adumbra.numerics.integer_kernels import worker_threads
from adumbra.releases.folder import sha256
from adumbra.tables.read import open_table
from tests.evaluate.people import SPEC, people, tallies


def state(path: Path) -> dict[str, tuple[str, int]]:
    return {p.name: (sha256(p), p.stat().st_mtime_ns) for p in path.iterdir()} | {".": ("", path.stat().st_mtime_ns)}


# ---- columns


def test_columns_by_hand():
    truth = pl.DataFrame(
        {
            "age": ["5", "15", "", "250"],  # the empty one goes to 45, the last is clipped to 100
            "visits": ["0", "9", "9", "3"],
            "sex": ["F", "M", "M", "X"],  # no fallback: the last has no value
            "smoker": ["yes", "no", "no", "no"],
            "outcome": ["well", "ill", "ill", "dead"],
        }
    )
    release = pl.DataFrame(
        {
            "age": [5.0, 45.0],
            "visits": [0, 3],
            "sex": ["F", "M"],
            "smoker": [True, True],
            "outcome": ["well", "well"],
        }
    )
    age, visits, sex, smoker, outcome = column_fits(*tallies(truth, release))
    # bins of age 0, 1, 4, 9 in the truth, a quarter each; 0 and 4 in the release, a half each
    assert age.total_variation == pytest.approx(0.5)
    assert (age.truth_mean, age.release_mean) == pytest.approx((165 / 4, 25), abs=1e-3)
    assert (age.truth_sd, age.release_sd) == pytest.approx((np.std([5, 15, 45, 100]), 20), abs=1e-3)
    assert (age.repairs.missing, age.repairs.clipped, sex.repairs.unknown) == (1, 1, 1)
    assert [share.value for share in age.shares][:2] == ["0 to 10", "10 to 20"]
    assert visits.total_variation == pytest.approx(0.5) and len(visits.shares) == 10  # one cell a level
    assert {s.value: s.truth for s in visits.shares if s.truth} == {"0": 0.25, "3": 0.25, "9": 0.5}
    assert [(s.value, s.truth, s.release) for s in sex.shares] == [
        ("F", 0.25, 0.5), ("M", 0.5, 0.5), ("(empty)", 0.25, 0.0),
    ]  # fmt: skip
    assert sex.total_variation == pytest.approx(0.25) and sex.truth_mean is None
    assert smoker.total_variation == pytest.approx(0.75)
    assert (smoker.truth_mean, smoker.release_mean, smoker.release_sd) == pytest.approx((0.25, 1.0, 0.0))
    assert [s.value for s in smoker.shares] == ["no", "yes"]
    assert outcome.total_variation == pytest.approx(0.75)


def test_ten_bins_against_brute_force():
    a, b = people(400, 1), people(300, 2)
    ages = [np.histogram(rows["age"], bins=10, range=(0, 100))[0] / len(rows) for rows in (a, b)]
    found = column_fits(*tallies(a, b))[0]
    assert [share.truth for share in found.shares] == pytest.approx(ages[0].tolist())
    assert [share.release for share in found.shares] == pytest.approx(ages[1].tolist())
    assert found.total_variation == pytest.approx(np.abs(ages[0] - ages[1]).sum() / 2)


def test_an_empty_flag_is_neither_yes_nor_no():
    schema = ad.Schema.from_dict({"columns": {"smoker": SPEC["smoker"]}})
    truth, release = pl.DataFrame({"smoker": ["yes", "no", "", "maybe"]}), pl.DataFrame({"smoker": [True, False]})
    (found,) = column_fits(*tallies(truth, release, schema))
    assert [(s.value, s.truth, s.release) for s in found.shares] == [
        ("no", 0.25, 0.5), ("yes", 0.25, 0.5), ("(empty)", 0.5, 0.0),
    ]  # fmt: skip
    assert (found.repairs.missing, found.repairs.unknown) == (1, 1)
    fallback = ad.Schema.from_dict({"columns": {"smoker": SPEC["smoker"] | {"missing": True}}})
    assert [s.truth for s in column_fits(*tallies(truth, release, fallback))[0].shares] == [0.25, 0.75]


def test_a_table_equals_itself_in_any_order():
    rows = people(3000)
    other = rows[::-1]
    truth, release = tallies(rows, other)
    assert max(column.total_variation for column in column_fits(truth, release)) == 0.0
    assert correlation_fit(truth, release).max < 1e-12
    assert two_way_fit(truth, release).max == 0.0


def test_means_and_deviations_survive_columns_that_hardly_move():
    """A variance taken as mean of squares less square of the mean would lose these digits."""
    schema = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": 0, "high": 65536} for c in "ab"}})
    rows = pl.DataFrame({"a": [60000.0] * 99_999 + [60001.0], "b": [60001.0] * 99_999 + [60002.0]})
    truth, release = tallies(rows, rows, schema)
    sd = math.sqrt(1e-5 * (1 - 1e-5))
    assert column_fits(truth, release)[0].truth_sd == pytest.approx(sd, rel=1e-9)
    assert truth.correlations()[0, 1] == pytest.approx(1.0, abs=1e-9)


def test_integer_columns_of_few_levels():
    def column(high: int, **extra: object) -> ad.Schema:
        return ad.Schema.from_dict({"columns": {"x": {"kind": "number", "low": 1, "high": high} | extra}})

    assert single_values(column(20, integer=True).released[0]) == 20
    assert single_values(column(21, integer=True).released[0]) is None
    assert single_values(column(20).released[0]) is None
    every = pl.DataFrame({"x": list(range(1, 21))})
    truth, _ = tallies(every, every, column(20, integer=True))
    assert truth.counts[0].tolist() == [1] * 20 + [0]


# ---- pairs


def brute_coordinates(rows: pl.DataFrame) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, spec in SPEC.items():
        if spec["kind"] == "category":
            found |= {f"{name}={v}": (rows[name] == v).to_numpy().astype(float) for v in spec["values"]}
        else:
            found[name] = rows[name].cast(pl.Float64).to_numpy()
    return found


def test_correlations_against_brute_force():
    a, b = people(500, 1), people(300, 2)
    b = b.with_columns(pl.lit(7).alias("visits"))  # constant in the release: correlates 0
    found = correlation_fit(*tallies(a, b))
    x, y = brute_coordinates(a), brute_coordinates(b)
    with np.errstate(invalid="ignore"):
        wanted = {
            (i, j): abs(np.nan_to_num(np.corrcoef(x[i], x[j])[0, 1]) - np.nan_to_num(np.corrcoef(y[i], y[j])[0, 1]))
            for i, j in combinations(x, 2)
        }
    assert found.pairs == len(wanted) == 28 and found.coordinates == found.of_coordinates == 8
    assert found.mean == pytest.approx(np.mean(list(wanted.values())), abs=1e-4)
    between = {(i, j): error for (i, j), error in wanted.items() if i.split("=")[0] != j.split("=")[0]}
    assert len(between) == 24
    assert found.max == pytest.approx(max(between.values()), abs=1e-4)
    assert [(p.a, p.b) for p in found.worst] == sorted(between, key=lambda pair: -between[pair])[:5]
    for pair in found.worst:
        assert pair.error == pytest.approx(abs(pair.truth - pair.release))


def test_values_of_one_category_are_no_pair_of_columns():
    """They exclude each other; how strongly follows from their shares, which are shown elsewhere."""
    spec = {"c": {"kind": "category", "values": ["a", "b", "d"]}, "f": {"kind": "flag"}}
    truth = pl.DataFrame({"c": ["a", "b"] * 50, "f": [True, True, False, False] * 25})
    release = pl.DataFrame({"c": ["a", "b", "d", "d", "d"] * 20, "f": [True, False] * 50})
    found = correlation_fit(*tallies(truth, release, ad.Schema.from_dict({"columns": spec})))
    assert {p.b for p in found.worst} == {"f"} and found.max < 0.3 < found.mean
    alone = ad.Schema.from_dict({"columns": {"c": spec["c"]}})
    assert correlation_fit(*tallies(truth.select("c"), release.select("c"), alone)) is None


def test_columns_shuffled_apart_keep_their_margins_and_lose_their_pairs():
    rows = people(2000)
    apart = rows.select(pl.col(name).shuffle(seed=i) for i, name in enumerate(rows.columns))
    truth, release = tallies(rows, apart)
    assert max(column.total_variation for column in column_fits(truth, release)) == 0.0
    assert correlation_fit(truth, release).max > 0.5
    assert two_way_fit(truth, release).max > 0.3


def wide(count: int) -> ad.Schema:
    return ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(count)}})


def test_many_pairs_are_a_fixed_sample_of_different_ones():
    assert sorted(CellLayout(wide(60)).pairs) == list(combinations(range(60), 2))
    layout = CellLayout(wide(70))
    assert len(layout.pairs) == len(set(layout.pairs)) == 1770 and layout.all_pairs == 2415
    assert all(0 <= a < b < 70 for a, b in layout.pairs)
    assert layout.pairs == CellLayout(wide(70)).pairs
    assert {i for pair in layout.pairs for i in pair} == set(range(70))
    assert sorted(CellLayout(wide(6)).pairs) == list(combinations(range(6), 2))


def test_very_wide_tables_and_long_categories_stay_small(make, monkeypatch):
    monkeypatch.setattr(table_layout, "_MAX_COORDINATES", 30)
    spec = {f"c{i}": {"kind": "category", "values": [f"v{k}" for k in range(150)]} for i in range(2)}
    schema = ad.Schema.from_dict({"columns": spec})
    rows = pl.DataFrame({f"c{i}": [f"v{(k * (i + 1)) % 150}" for k in range(600)] for i in range(2)})
    found = ad.evaluate_release(make(rows, schema), rows)
    assert (found.correlation.coordinates, found.correlation.of_coordinates) == (30, 300)
    assert any("30 of 300 coordinates" in text for text in found.notes)
    assert [len(counts) for counts in read_tally(open_table(rows), CellLayout(schema), 0).pair_counts] == [21 * 21]
    assert len(found.columns[0].shares) == 150 and found.two_way.max == 0.0


# ---- rows kept for the models


def test_kept_rows_are_whole_rows_chosen_by_their_number():
    rows = people(20_000).with_columns(age=np.linspace(0, 100, 20_000))  # more than one batch, no two rows alike
    tally, other = tallies(rows, rows.with_columns(age=pl.lit(3.0)), keep=500)
    every, _ = tallies(rows, rows, keep=20_000)
    assert every.kept.shape == (20_000, 8) and tally.kept.shape == (500, 8) and tally.rows == 20_000
    place = np.searchsorted(every.kept[:, 0], tally.kept[:, 0])
    assert np.array_equal(every.kept[place], tally.kept)
    assert np.array_equal(other.kept[:, 1:], tally.kept[:, 1:])  # the choice did not look at the ages
    assert len(set(place.tolist())) == 500 and abs(place.mean() - 10_000) < 1500  # from all over the table
    assert every.kept[:, 0] == pytest.approx(np.linspace(-0.5, 0.5, 20_000), abs=1e-4)


# ---- models


def scores(fit) -> dict[tuple[str, str], dict[str, float | None]]:
    return {(score.model, score.trained_on): score.metrics for score in fit.scores}


MODELS = ("random forest", "logistic regression")


def test_models_tell_a_good_release_from_a_bad_one(make):
    """The real forests of scikit-learn, once."""
    truth, test = people(700, 1), people(700, 2)
    good = ad.evaluate_release(make(people(700, 3), name="good"), truth, test)
    bad_rows = people(700, 3).with_columns(pl.col("outcome").shuffle(seed=0))
    bad = ad.evaluate_release(make(bad_rows, name="bad"), truth, test)
    (good_fit,), (bad_fit,) = good.labels, bad.labels
    assert good_fit.task == "classification" and good_fit.positive is None and good_fit.test_rows == 700
    a, b = scores(good_fit), scores(bad_fit)
    majority = a["majority class", "truth"]
    share = test["outcome"].value_counts()["count"].max() / 700
    assert majority["accuracy"] == pytest.approx(share)
    assert majority["balanced_accuracy"] == pytest.approx(1 / 3)
    assert majority["auprc"] == pytest.approx(1 / 3)  # the mean prevalence of the classes
    for model in MODELS:
        for metric in ("accuracy", "balanced_accuracy", "auprc"):
            real = a[model, "truth"][metric]
            assert real > 0.75 and a[model, "release"][metric] == pytest.approx(real, abs=0.06)
            assert b[model, "release"][metric] < real - 0.2
            assert a[model, "truth, labels shuffled"][metric] < real - 0.2
            assert b[model, "truth"][metric] == real  # the same seeds, the same rows


def test_scores_against_scikit_learn(make, quick):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score
    from sklearn.preprocessing import StandardScaler

    def two(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col("outcome").replace("dead", "ill"))

    truth, test, made = two(people(400, 1)), two(people(300, 2)), two(people(200, 3))
    (fit,) = ad.evaluate_release(make(made), truth, test).labels

    def features(rows: pl.DataFrame) -> np.ndarray:
        return np.column_stack([v for k, v in brute_coordinates(rows).items() if "outcome" not in k])

    rare = min(("well", "ill"), key=lambda v: (truth["outcome"] == v).sum())
    assert fit.positive == rare and fit.absent == ()
    scale = StandardScaler().fit(features(made))
    model = LogisticRegression(max_iter=1000).fit(scale.transform(features(made)), made["outcome"].to_list())
    x, y = scale.transform(features(test)), test["outcome"].to_list()
    found = scores(fit)["logistic regression", "release"]
    assert found["accuracy"] == pytest.approx(accuracy_score(y, model.predict(x)), abs=0.005)
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, model.predict(x)), abs=0.005)
    chance = model.predict_proba(x)[:, list(model.classes_).index(rare)]
    assert found["auprc"] == pytest.approx(average_precision_score([v == rare for v in y], chance), abs=0.005)
    majority = scores(fit)["majority class", "truth"]
    assert majority["auprc"] == pytest.approx(np.mean([v == rare for v in y]))
    assert (fit.release_rows, fit.truth_rows, fit.test_rows) == (200, 400, 300)


def test_without_a_test_table_the_truth_is_split(make, quick):
    """A forest tested on its own training rows is nearly perfect; here it must not be."""
    rng = np.random.default_rng(0)
    rows = people(800).with_columns(pl.Series("outcome", np.array(["well", "ill", "dead"])[rng.integers(0, 3, 800)]))
    found = ad.evaluate_release(make(rows), rows)
    (fit,) = found.labels
    assert (fit.test_rows, fit.truth_rows, fit.tested_on) == (200, 600, "a quarter of the truth")
    assert scores(fit)["random forest", "truth"]["accuracy"] < 0.55
    assert any("held-out" in text for text in found.notes)
    assert not any("held-out" in text for text in ad.evaluate_release(make(rows, name="r2"), rows, rows).notes)


def test_classes_that_the_release_lacks(make, quick):
    truth, test = people(300, 1), people(300, 2)
    (fit,) = ad.evaluate_release(make(truth.filter(pl.col("outcome") != "dead"), name="two"), truth, test).labels
    assert fit.absent == ("dead",)
    (late,) = ad.evaluate_release(make(truth.filter(pl.col("outcome") != "well"), name="late"), truth, test).labels
    assert late.absent == ("well",)
    (one,) = ad.evaluate_release(make(truth.filter(pl.col("outcome") == "ill"), name="one"), truth, test).labels
    assert one.absent == ("well", "dead")
    share = (test["outcome"] == "ill").mean()
    for model in MODELS:
        assert scores(one)[model, "release"]["accuracy"] == pytest.approx(share)
        for lacking in (fit, late):  # two classes are predicted well, the third by nobody
            assert 0.5 < scores(lacking)[model, "release"]["balanced_accuracy"] <= 2 / 3


def test_flags_levels_and_numbers_as_labels(make, quick):
    truth, test = people(400, 1), people(300, 2)
    folder = make(people(400, 3))
    flag = ad.evaluate_release(folder, truth, test, label="smoker").labels
    assert [(f.label, f.task, f.positive) for f in flag] == [("smoker", "classification", "yes")]
    (level,) = ad.evaluate_release(folder, truth, test, label="visits").labels
    assert level.task == "classification" and level.positive is None
    assert scores(level)["majority class", "truth"]["balanced_accuracy"] == pytest.approx(0.1)
    (number,) = ad.evaluate_release(folder, truth, test, label="age").labels
    assert number.task == "regression" and number.absent == ()
    found = scores(number)
    assert set(found["ridge", "release"]) == {"r_squared"}
    y = test["age"].to_numpy()
    mean = truth["age"].mean()
    assert found["mean", "truth"]["r_squared"] == pytest.approx(
        1 - ((y - mean) ** 2).sum() / ((y - y.mean()) ** 2).sum(), abs=1e-4
    )
    assert found["ridge", "truth"]["r_squared"] < 0.05  # nothing but labels of the schema knows the age


def test_regression_learns_from_other_columns(make, quick):
    schema = ad.Schema.from_dict(
        {
            "columns": {c: {"kind": "number", "low": -5, "high": 5} for c in "ab"}
            | {"y": SPEC["age"] | {"role": "label"}}
        }
    )
    rng = np.random.default_rng(0)

    def rows(count: int) -> pl.DataFrame:
        a, b = rng.standard_normal((2, count))
        return pl.DataFrame({"a": a, "b": b, "y": 50 + 8 * a - 4 * b + rng.standard_normal(count)})

    truth, test = rows(400), rows(300)
    (fit,) = ad.evaluate_release(make(rows(300), schema), truth, test).labels
    found = scores(fit)
    assert found["ridge", "release"]["r_squared"] > 0.95 and found["random forest", "release"]["r_squared"] > 0.8
    assert found["ridge", "truth, labels shuffled"]["r_squared"] < 0.1
    constant = test.with_columns(y=pl.lit(50.0))
    (none,) = ad.evaluate_release(make(rows(50), schema, "r2"), truth, constant).labels
    assert found.keys() == scores(none).keys() and set(scores(none)["ridge", "truth"].values()) == {None}


def test_several_labels_do_not_predict_each_other(make, quick):
    """Two equal labels, noise beside them: a model that saw the other label would be perfect."""
    spec = {"x": {"kind": "number", "low": 0, "high": 1}} | {c: {"kind": "flag", "role": "label"} for c in "ab"}
    schema = ad.Schema.from_dict({"columns": spec})
    rng = np.random.default_rng(0)
    flag = rng.random(600) < 0.5
    rows = pl.DataFrame({"x": rng.random(600), "a": flag, "b": flag})
    found = ad.evaluate_release(make(rows, schema), rows)
    assert [fit.label for fit in found.labels] == ["a", "b"]
    for fit in found.labels:
        assert scores(fit)["random forest", "truth"]["accuracy"] < 0.65
    only = ad.Schema.from_dict({"columns": {"a": spec["a"], "b": spec["b"]}})
    nothing = ad.evaluate_release(make(rows.drop("x"), only, "r2"), rows.drop("x"))
    assert nothing.labels == () and any("no models" in text for text in nothing.notes)
    with pytest.raises(ad.InputError, match="to predict from"):
        ad.evaluate_release(make(rows.drop("x"), only, "r3"), rows.drop("x"), label="a")


def test_rows_are_capped_and_the_report_says_so(make, quick, monkeypatch):
    monkeypatch.setattr(table_comparison, "_MAX_ROWS", 100)
    found = ad.evaluate_release(make(people(400, 3)), people(400, 1), people(400, 2))
    (fit,) = found.labels
    assert (fit.release_rows, fit.truth_rows, fit.test_rows) == (100, 100, 100)
    assert any("at most 100 rows" in text for text in found.notes)
    assert found.truth_rows == found.release_rows == 400  # the rest of the report reads every row


def test_rows_without_a_class_are_left_out(make, quick):
    truth = people(200, 1)
    holes = truth.with_columns(pl.when(pl.int_range(200) < 50).then(None).otherwise(pl.col("outcome")).alias("outcome"))
    found = ad.evaluate_release(make(people(100, 3)), holes, people(100, 2))
    assert found.labels[0].truth_rows == 150
    assert any("is empty: one more value" in text for text in found.notes)


def test_same_input_same_report(make, quick, monkeypatch):
    folder, truth, test = make(people(200, 3)), people(200, 1), people(100, 2)
    once = ad.evaluate_release(folder, truth, test).to_json()
    assert ad.evaluate_release(ad.load(folder), truth.to_pandas(), test).to_json() == once
    monkeypatch.setenv("ADUMBRA_THREADS", "2")
    assert ad.evaluate_release(str(folder), truth, test).to_json() == once
    # threads add up votes in any order, which is too rare a difference to wait for: trained with two, asked with one
    forest = label_models._fitted("random forest", np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]))
    assert forest.n_jobs == 1 and worker_threads(otherwise=1) == 2


# ---- the report as a whole


def test_report_is_marked_plain_and_leaves_the_folder_alone(make, quick):
    folder = make(people(200, 3), predicted_error={"marginal_tv": 0.03, "correlation": 0.04})
    before = state(folder)
    found = ad.evaluate_release(folder, people(200, 1))
    assert state(folder) == before
    assert isinstance(found, ad.Evaluation) and found.predicted == {"marginal_tv": 0.03, "correlation": 0.04}
    plain = json.loads(found.to_json())
    assert next(iter(plain)) == "notice" and "PRIVATE" in plain["notice"] and "without noise" in plain["notice"]
    assert plain["columns"][0]["name"] == "age" and plain["labels"][0]["scores"][0]["trained_on"] == "release"
    assert plain["marginal_tv"] == pytest.approx(np.mean([c["total_variation"] for c in plain["columns"]]))
    assert "0.0" not in repr(found)
    with pytest.raises(AttributeError):
        found.marginal_tv = 0.0


def test_odd_predictions_are_not_believed(make, quick):
    for index, given in enumerate(({"correlation": None}, {})):
        folder = make(people(50, 3), name=f"r{index}", predicted_error=given)
        assert ad.evaluate_release(folder, people(50, 1)).predicted is None
    for index, given in enumerate((None, "small", {"marginal_tv": "x"}, {"another": 1.0})):
        folder = make(people(50, 3), name=f"odd{index}", predicted_error=given)
        with pytest.raises(ad.InputError, match="facts of its kind"):
            ad.evaluate_release(folder, people(50, 1))


def test_command_prints_the_report(make, quick, cli, home):
    people(200, 1).write_csv("truth.csv", separator=";")
    people(100, 2).write_parquet("test.parquet")
    folder = make(people(150, 3), predicted_error={"marginal_tv": 0.0312, "correlation": 0.0456})
    before = state(folder)
    done = cli("evaluate", folder, "--truth", "truth.csv", "--delimiter", ";")
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert "PRIVATE" in first and "not part of the release" in first and "without noise" in first
    for text in ("0.0312", "0.0456", "unit cell", "relation replace", "200 true rows, 150 released rows"):
        assert text in done.out
    for text in ("age", "outcome", "majority class", "labels shuffled", "logistic regression", "held-out"):
        assert text in done.out
    assert state(folder) == before and home.leftovers() == []
    people(200, 1).write_csv("truth.csv")
    done = cli("evaluate", folder, "--truth", "truth.csv", "--test", "test.parquet", "--label", "smoker", "--json")
    assert done.code == 0, done.err
    plain = json.loads(done.out)
    assert plain["notice"].startswith("CONTAINS PRIVATE") and plain["labels"][0]["label"] == "smoker"
    assert plain["labels"][0]["test_rows"] == 100


def test_wide_tables_show_the_worst_columns(make, cli, home):
    rng = np.random.default_rng(0)
    truth = pl.DataFrame({f"c{i}": rng.random(200) for i in range(30)})
    truth.write_csv("truth.csv")
    changed = truth.with_columns(c7=pl.lit(0.01))
    done = cli("evaluate", make(changed, wide(30)), "--truth", "truth.csv")
    assert done.code == 0, done.err
    assert "columns, worst first (10 more in --json)" in done.out
    lines = done.out.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("columns, worst first"))
    assert lines[header + 2].split()[0] == "c7"
    assert "mean of 435" in done.out and "sample of" not in done.out


def test_a_column_ruined_within_one_bin_is_among_the_worst(make, cli, home):
    """Nearly all rows lie in the first of ten bins; the mean is twenty times the true one."""
    rng = np.random.default_rng(0)
    spec = {name: {"kind": "number", "low": 0, "high": 1} for name in ("even", "still")}
    schema = ad.Schema.from_dict({"columns": spec | {"skewed": {"kind": "number", "low": 0, "high": 2000}}})
    truth = pl.DataFrame({"even": rng.random(500), "still": [0.5] * 500, "skewed": rng.exponential(7.0, 500)})
    truth.write_csv("truth.csv")
    made = truth.with_columns(even=pl.Series(rng.random(500)), skewed=pl.Series(rng.uniform(90.0, 190.0, 500)))
    done = cli("evaluate", make(made, schema), "--truth", "truth.csv")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("columns, worst first"))
    assert [line.split()[0] for line in lines[header + 2 : header + 5]] == ["skewed", "even", "still"]
    assert "at least 95% of the true rows lie in one bin" in " ".join(done.out.split())


def test_projected_rows_report_seen_and_predicted_error(cli, home):
    rng = np.random.default_rng(0)
    truth = pl.DataFrame({f"c{i}": rng.random(300) for i in range(12)})
    release = ad.release(truth, wide(12), ad.DPPro(dimension=6), ad.Budget(4.0, unit="cell"))
    found = ad.evaluate_release(release, truth)
    check = found.distances
    assert found.kind == "projected_rows" and check.pairs == 2000
    assert isinstance(found.comparison, DistanceComparison) and not hasattr(found, "columns")
    assert 0.3 < check.root_mean_squared_error / check.mean_standard_error < 3 and check.coverage > 0.8
    release.save("out")
    truth.write_csv("truth.csv", separator=";")
    done = cli("evaluate", "out", "--truth", "truth.csv", "--delimiter", ";", "--json")
    assert json.loads(done.out)["distances"]["mean_truth"] == pytest.approx(check.mean_truth, rel=1e-6)
    truth.write_csv("truth.csv")
    done = cli("evaluate", "out", "--truth", "truth.csv")
    assert done.code == 0 and "PRIVATE" in done.out.splitlines()[0] and "root mean square" in done.out
    done = cli("evaluate", "out", "--truth", "truth.csv", "--label", "c1")
    assert done.code == 2 and "projected rows" in done.err
    truth[:200].write_csv("short.csv")
    done = cli("evaluate", "out", "--truth", "short.csv")
    assert done.code == 2 and "200 rows" in done.err


# ---- refusals


def refused(cli, *words: object) -> str:
    done = cli("evaluate", *words)
    assert done.code in (1, 2) and done.out == "" and "Traceback" not in done.err
    assert "expected" in done.err and "to do" in done.err
    return done.err


def test_refusals(make, cli, home):
    truth, folder = people(60, 1), make(people(60, 3))
    truth.write_csv("truth.csv")
    truth.drop("age").write_csv("less.csv")
    truth.with_columns(extra=pl.lit(1)).write_csv("more.csv")
    truth[:0].write_csv("none.csv")
    home.write("empty.csv", "")
    truth.with_columns(outcome=pl.lit("ill")).write_csv("constant.csv")
    truth.with_columns(outcome=pl.lit("other")).write_csv("nolabel.csv")
    cases = [
        (("nowhere", "--truth", "truth.csv"), "release folder"),
        ((folder, "--truth", "nowhere.csv"), "no file"),
        ((folder, "--truth", "less.csv"), "the truth with the columns of the release's schema"),
        ((folder, "--truth", "more.csv"), "'extra'"),
        ((folder, "--truth", "none.csv"), "the truth: a table with rows"),
        (
            (folder, "--truth", "truth.csv", "--test", "less.csv"),
            "the test table with the columns of the release's schema",
        ),
        ((folder, "--truth", "truth.csv", "--test", "none.csv"), "the test table: a table with rows"),
        ((folder, "--truth", "truth.csv", "--test", "empty.csv"), "empty"),
        ((folder, "--truth", "truth.csv", "--test", "nolabel.csv"), "test rows with the label 'outcome'"),
        ((folder, "--truth", "truth.csv", "--label", "outcom"), "'outcom'"),
        ((folder, "--truth", "constant.csv"), "at least two values"),
        ((folder, "--truth", "nolabel.csv"), "at least two values"),
    ]
    for words, message in cases:
        err = refused(cli, *words)
        assert message in err, (words, err)
        assert "ill" not in err.replace("still", "").replace("filled", "")  # no cell


def test_label_refusals(make, cli, home):
    values = [f"v{k}" for k in range(60)]
    spec = {"x": {"kind": "number", "low": 0, "high": 1}, "id": {"role": "drop"}}
    spec |= {"city": {"kind": "category", "values": values, "role": "label"}}
    schema = ad.Schema.from_dict({"columns": spec})
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"x": rng.random(120), "city": values * 2})
    rows.write_csv("truth.csv")
    folder = make(rows, schema)
    assert "which the schema drops" in refused(cli, folder, "--truth", "truth.csv", "--label", "id")
    assert "at most 50 values" in refused(cli, folder, "--truth", "truth.csv", "--label", "city")
    done = cli("evaluate", folder, "--truth", "truth.csv")  # a long label of the schema costs only its models
    assert done.code == 0 and "no models for labels of more than 50 values: city" in done.out
    rows.with_columns(x=pl.lit(0.5)).write_csv("truth.csv")
    assert "at least two values" in refused(cli, folder, "--truth", "truth.csv", "--label", "x")


def test_changed_or_foreign_folders_are_refused(make, cli, home):
    people(60, 1).write_csv("truth.csv")
    folder = make(people(60, 3))
    people(60, 4).write_parquet(folder / "data.parquet")
    assert "as its card describes" in refused(cli, folder, "--truth", "truth.csv")
    with pytest.raises(ad.Refused):
        ad.evaluate_release(folder, people(60, 1))
    other = make(people(60, 3).rename({"age": "p1"}), name="other")
    assert "rows in the schema's own columns" in refused(cli, other, "--truth", "truth.csv")
    hollow = make(people(60, 3)[:0], name="hollow")
    assert "the release: a table with rows" in refused(cli, hollow, "--truth", "truth.csv")


def test_real_table_end_to_end(shared_data, make, quick):
    """Adult: half of it as the release and half as the truth are nearly the same table."""
    rows = pl.read_csv(shared_data / "adult.csv.gz").sample(6000, seed=0, shuffle=True)
    spec = {
        "age": {"kind": "number", "low": 0, "high": 120, "integer": True},
        "hours_per_week": {"kind": "number", "low": 0, "high": 100},
        "education_num": {"kind": "number", "low": 1, "high": 16, "integer": True},
        "sex": {"kind": "category", "values": ["Female", "Male"]},
        "marital_status": {"kind": "category", "values": sorted(rows["marital_status"].unique())},
        "income": {"kind": "category", "values": ["<=50K", ">50K"], "role": "label"},
    }
    schema = ad.Schema.from_dict({"columns": spec})
    chosen = rows.select(list(spec))
    found = ad.evaluate_release(make(chosen[:2500], schema), chosen[2500:5000], chosen[5000:])
    assert found.marginal_tv < 0.04 and found.correlation.mean < 0.04 and found.two_way.mean < 0.12
    for model in MODELS:
        made, real = (scores(found.labels[0])[model, on]["auprc"] for on in ("release", "truth"))
        assert real > 0.5 and made == pytest.approx(real, abs=0.08)
    assert scores(found.labels[0])["majority class", "truth"]["auprc"] < 0.3
