"""Every kind of cell in the owner's report, and what is missing beside what is there: truth worked out by hand."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.compare import compared_cells
from adumbra.compare.compared_cells import ColumnCells
from adumbra.compare.label_models import _filled
from adumbra.compare.table_fit import ColumnFit, column_fits, correlation_fit
from adumbra.compare.two_way_fit import two_way_fit
from tests.evaluate.people import tallies

NUMBER = {"kind": "number", "low": -60, "high": 1320, "integer": True}


def schema_of(**columns: dict[str, Any]) -> ad.Schema:
    return ad.Schema.from_dict({"columns": columns})


def fit_of(spec: dict[str, Any], truth: list[Any], release: list[Any]) -> ColumnFit:
    frames = [pl.DataFrame({"x": cells}, strict=False) for cells in (truth, release)]
    return column_fits(*tallies(*frames, schema_of(x=spec)))[0]


def shares(fit: ColumnFit) -> dict[str, tuple[float, float]]:
    return {each.value: (each.truth, each.release) for each in fit.shares if each.truth or each.release}


# ---- missing cells


def test_missing_numbers_are_not_in_the_mean(make, cli, home):
    """2.4 % of the delays are not there; put to the middle of the range they would add 15 minutes to the mean."""
    delays = [0, 5, 10, 35] * 244
    truth = pl.DataFrame({"delay": [*delays, *[None] * 24], "month": [1, 2] * 500})
    schema = schema_of(delay=NUMBER, month={"kind": "number", "low": 1, "high": 12, "integer": True})
    folder = make(truth.with_columns(pl.col("delay").fill_null(630)), schema)
    found = ad.evaluate_release(folder, truth)
    delay, month = found.columns
    assert (delay.truth_mean, delay.truth_sd) == pytest.approx((12.5, np.std([0, 5, 10, 35])))
    assert delay.release_mean == pytest.approx(12.5 * 0.976 + 630 * 0.024)
    assert (delay.truth_missing, delay.release_missing) == pytest.approx((0.024, 0.0))
    assert delay.total_variation == pytest.approx(0.024)  # from (empty) to the bin of the middle
    assert shares(delay)["(empty)"] == pytest.approx((0.024, 0.0))
    assert (month.truth_missing, month.release_missing) == (0.0, 0.0) and "(empty)" not in shares(month)
    plain = json.loads(found.to_json())["columns"]
    assert [(c["truth_missing"], c["release_missing"]) for c in plain] == [(0.024, 0.0), (0.0, 0.0)]
    truth.write_csv("truth.csv")
    done = cli("evaluate", folder, "--truth", "truth.csv")
    text = " ".join(done.out.split())
    assert done.code == 0 and "missing: truth release" in text and "12.5 27.32" in text and "0.0240 0.0000" in text
    assert "of the cells that are there" in text
    whole = truth.drop_nulls()
    whole.write_csv("truth.csv")
    done = cli("evaluate", make(whole, schema, "whole"), "--truth", "truth.csv")
    assert "missing" not in done.out and "(empty)" not in done.out


EMPTIES = [
    # declared, cells of the truth, its share of empty ones (missing or unknown)
    ({"kind": "number", "low": 0, "high": 9}, ["1", "", "abc", None], 0.75),
    ({"kind": "number", "low": 0, "high": 9, "missing": 4}, ["1", "", "abc", None], 0.0),
    ({"kind": "number", "low": -9, "high": 9, "blank": [-9]}, ["1", "-9", "2", "3"], 0.25),
    ({"kind": "flag"}, ["yes", "", "perhaps", "no"], 0.5),
    ({"kind": "flag", "values": ["n", "y"]}, ["n", "y", "q", "y"], 0.25),
    ({"kind": "ordinal", "values": [1, 2, 8]}, ["1", "3", "8", "2"], 0.25),
    ({"kind": "category", "values": ["a", "b"]}, ["a", None, "c", "b"], 0.5),
    ({"kind": "date", "low": "2020-01-01", "high": "2020-12-31"}, ["2020-05-01", "", "05/01/2020", "2020-06-01"], 0.5),
    ({"kind": "time"}, ["10:00", "25:00", None, "11:00"], 0.5),
]


@pytest.mark.parametrize(("spec", "cells", "share"), EMPTIES)
def test_empty_is_one_more_cell_of_every_kind(spec, cells, share):
    there = [cells[0]] * 4
    fit = fit_of(spec, cells, there)
    assert (fit.truth_missing, fit.release_missing) == (share, 0.0) and fit.kind == spec["kind"]
    assert shares(fit).get("(empty)", (0.0, 0.0)) == (share, 0.0)
    assert fit_of(spec, there, cells).release_missing == share
    assert fit.total_variation >= share and fit_of(spec, cells, cells[::-1]).total_variation == 0.0


def test_a_column_without_a_cell_has_no_mean():
    fit = fit_of(NUMBER, [None, None], [3, None])
    assert (fit.truth_mean, fit.truth_sd, fit.release_mean) == (None, None, 3.0)
    assert fit.total_variation == fit.off == 0.5 and (fit.truth_missing, fit.release_missing) == (1.0, 0.5)


# ---- kinds of cells

WEEK = {"kind": "date", "low": "2020-01-01", "high": "2020-01-07"}
DATE = {"kind": "date", "low": "2020-01-01", "high": "2020-12-31"}
KINDS = [
    # declared, truth, mean and sd, and shares of the cells it is in
    (
        {"kind": "number", "low": 1, "high": 10_000, "scale": "log"},
        [1, 10, 100, 10_000],
        (2527.75, np.std([1, 10, 100, 10_000])),
        {"1 to 2.512": 0.25, "6.31 to 15.85": 0.25, "100 to 251.2": 0.25, "3981 to 10000": 0.25},
    ),
    (
        {"kind": "number", "low": 0, "high": 23, "integer": True},
        [0, 2, 3, 23],
        (7.0, np.std([0, 2, 3, 23])),
        {"0 to 2": 0.5, "3 to 4": 0.25, "22 to 23": 0.25},
    ),
    (
        {"kind": "number", "low": 0, "high": 1, "decimals": 1},
        [0.1, 0.3, 0.3, 1],
        (0.425, np.std([0.1, 0.3, 0.3, 1])),
        {"0.1": 0.25, "0.3": 0.5, "1": 0.25},
    ),
    (
        {"kind": "number", "low": 0, "high": 100, "spikes": [0, 40]},
        [0, 40, 41, 3],
        (21.0, np.std([0, 40, 41, 3])),
        {"0 to 10": 0.25, "40 to 50": 0.25, "0": 0.25, "40": 0.25},
    ),
    (
        {"kind": "ordinal", "values": [0, 25, 50, 75, 100]},
        [0, 25, 25, 100],
        (37.5, np.std([0, 25, 25, 100])),
        {"0": 0.25, "25": 0.5, "100": 0.25},
    ),
    ({"kind": "ordinal", "values": [1, 2, 3, 8, 15]}, [1, 8, 8, 15], None, {"1": 0.25, "8": 0.5, "15": 0.25}),
    ({"kind": "ordinal", "values": ["low", "high"]}, ["low", "high"], None, {"low": 0.5, "high": 0.5}),
    ({"kind": "flag", "values": ["n", "y"]}, ["n", "y", "y", "y"], (0.75, 0.75**0.5 / 2), {"n": 0.25, "y": 0.75}),
    (
        DATE,
        [dt.date(2020, 1, 1), dt.date(2020, 1, 3), dt.date(2020, 12, 31), None],
        ("2020-05-02", "171d 14:14:11"),
        {"2020-01-01 to 2020-02-06": 0.5, "2020-11-26 to 2020-12-31": 0.25, "(empty)": 0.25},
    ),
    (
        WEEK,
        ["2020-01-02", "2020-01-02", "2020-01-06", "2020-01-06"],
        ("2020-01-04", "2d 00:00:00"),
        {"2020-01-02": 0.5, "2020-01-06": 0.5},
    ),
    (
        {"kind": "datetime", "low": "2020-01-01T00:00:00", "high": "2020-01-11T00:00:00", "step": "minute"},
        ["2020-01-02T06:00:00", "2020-01-02 18:00"],
        ("2020-01-02T12:00:00", "06:00:00"),
        {"2020-01-02T00:01:00 to 2020-01-03T00:00:00": 1.0},
    ),
    (
        {"kind": "time", "format": "%H%M", "step": "minute"},
        [517, 1743],
        ("11:30:00", "06:13:00"),
        {"04:48:00 to 07:11:00": 0.5, "16:48:00 to 19:11:00": 0.5},
    ),
    (
        {"kind": "duration", "low": "00:00:00", "high": "10d", "step": "hour"},
        ["1d 00:00:00", "PT72H"],
        ("2d 00:00:00", "1d 00:00:00"),
        {"1d 01:00:00 to 2d 00:00:00": 0.0, "2d 01:00:00 to 3d 00:00:00": 0.5},
    ),
]


@pytest.mark.parametrize(("spec", "cells", "centre", "wanted"), KINDS)
def test_kinds_of_cells_in_their_own_terms(spec, cells, centre, wanted):
    fit = fit_of(spec, cells, cells)
    found = (fit.truth_mean, fit.truth_sd)
    if centre is None:
        assert found == (None, None)
    elif isinstance(centre[0], str):
        assert found == centre
    else:
        assert found == pytest.approx(centre, rel=3e-4)
    seen = {each.value: each.truth for each in fit.shares}
    assert sum(seen.values()) == pytest.approx(1.0)
    assert {name: seen[name] for name in wanted} == wanted
    assert fit.total_variation == fit.off == 0.0


def test_whole_levels_are_added_up_exactly():
    """The grid has no step for most whole numbers of this range: read from it, all of them are a little off."""
    year = {"kind": "number", "low": 1900, "high": 2100, "integer": True}
    fit = fit_of(year, [2013, 2013, 2000], [2013] * 3)
    assert (fit.release_mean, fit.release_sd, fit.truth_mean) == pytest.approx((2013.0, 0.0, 6026 / 3), abs=1e-12)


@pytest.mark.parametrize(("levels", "bins"), [(21, 10), (24, 10), (31, 5), (366, 10), (65_536, 10)])
def test_bins_hold_whole_levels(levels, bins):
    """Every level is in the bin that its name says, and bins differ by one level at most."""
    column = ad.Schema.from_dict(
        {"columns": {"x": {"kind": "number", "low": 0, "high": levels - 1, "integer": True}}}
    ).columns[0]
    cells = ColumnCells(column, bins)
    every = np.arange(levels)
    codes = cells.of(column.cells.read(pl.Series(every)).values)
    sizes = np.bincount(codes, minlength=cells.count)
    assert sizes[-1] == 0 and sizes[:-1].max() - sizes[:-1].min() <= 1
    for code, name in enumerate(cells.names()[:-1]):
        low, high = (int(end) for end in name.split(" to "))
        assert every[codes == code].tolist() == list(range(low, high + 1))


def test_a_set_counts_each_item(monkeypatch):
    """A row is in as many cells as its set has items; the first of them is where it is in two-way tables."""
    monkeypatch.setattr(compared_cells, "is_set", lambda column: True)
    column = schema_of(x={"kind": "category", "values": ["a", "b", "c"]}).columns[0]
    cells = ColumnCells(column, 10)
    rows = np.array([[1.0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0]])
    codes = cells.of(rows)
    assert codes.tolist() == [0, 1, 3, 1]
    assert cells.counts(rows, codes).tolist() == [1, 3, 1, 1] and cells.names()[-1] == "(empty)"


# ---- pairs


def test_correlations_of_the_rows_that_have_both_cells():
    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, (20_000, 3)) @ [[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]]
    frames = []
    for share in (0.3, 0.0):
        cells = np.where(rng.random(x.shape) < share * np.array([1, 1, 0]), np.nan, np.clip(x, 0, 100))
        frames.append(pl.DataFrame(cells, schema=["a", "b", "c"]).fill_nan(None))
    kind = rng.choice(["u", "v"], 20_000)
    frames = [f.with_columns(k=pl.when(pl.col("a") > 60).then(None).otherwise(pl.Series(kind))) for f in frames]
    spec = {name: {"kind": "number", "low": 0, "high": 100} for name in "abc"}
    schema = schema_of(**spec, k={"kind": "category", "values": ["u", "v"]})
    truth, release = tallies(*frames, schema)
    for tally, frame in ((truth, frames[0]), (release, frames[1])):
        found = tally.correlations()
        coordinates = {n: frame[n] for n in "abc"} | {f"k={v}": (frame["k"] == v).cast(pl.Float64) for v in "uv"}
        for i, one in enumerate(coordinates.values()):
            for j, other in enumerate(coordinates.values()):
                both = pl.DataFrame({"i": one, "j": other}).drop_nulls()
                assert found[i, j] == pytest.approx(np.corrcoef(both["i"], both["j"])[0, 1], abs=1e-4)
    assert correlation_fit(truth, release).max < 0.1  # 30 % are missing at random, and nothing was put in their place


def test_what_is_constant_where_both_are_there_correlates_0():
    spec = {"kind": "number", "low": 0, "high": 100}
    rows = pl.DataFrame({"a": [77.3, 3.1, 3.1, 3.1, 3.1], "b": [None, 10.0, 33.3, 51.7, 99.1]})
    apart = pl.DataFrame({"a": [1.0, 2.0, None, None], "b": [None, None, 1.0, 2.0]})
    truth, release = tallies(rows, apart, schema_of(a=spec, b=spec))
    assert truth.correlations()[0, 1] == release.correlations()[0, 1] == 0.0


def test_missing_is_a_value_of_two_way_tables():
    """Cells are missing together in the truth, apart in the release; each column alone is the same."""
    schema = schema_of(x=NUMBER, k={"kind": "category", "values": ["u"]})
    truth = pl.DataFrame({"x": [1, 1, None, None], "k": ["u", "u", None, None]})
    release = pl.DataFrame({"x": [1, None, 1, None], "k": ["u", "u", None, None]})
    both = tallies(truth, release, schema)
    assert [fit.total_variation for fit in column_fits(*both)] == [0.0, 0.0]
    assert two_way_fit(*both).max == pytest.approx(0.5)


# ---- models


def test_empty_cells_take_the_mean_of_the_training_rows():
    nan = np.float32(np.nan)
    train = np.array([[1, 0], [3, 0], [nan, 1]], dtype=np.float32)
    test = np.array([[nan, 1], [9, 0]], dtype=np.float32)
    known, asked = _filled(train, test)
    assert known.tolist() == [[1, 0], [3, 0], [2, 1]] and asked.tolist() == [[2, 1], [9, 0]]
    none, other = _filled(np.array([[nan]], dtype=np.float32), np.array([[nan]], dtype=np.float32))
    assert (none.tolist(), other.tolist()) == ([[0.0]], [[0.0]])


def test_models_see_whether_a_cell_is_there(make, quick):
    """The label is whether a number is missing, which its values say nothing of; labels that are empty are left out."""
    rng = np.random.default_rng(0)

    def rows(count: int) -> pl.DataFrame:
        gone = rng.random(count) < 0.4
        x = np.where(gone, None, rng.uniform(40, 60, count))
        late = pl.Series(gone).cast(pl.Int8).cast(pl.Float64) * 50 + rng.random(count)
        frame = pl.DataFrame({"x": pl.Series(x.tolist(), dtype=pl.Float64), "ill": gone, "late": late})
        some = pl.int_range(count) < count // 4
        return frame.with_columns(pl.when(some).then(None).otherwise(pl.col(c)).alias(c) for c in ("ill", "late"))

    number = {"kind": "number", "low": 0, "high": 100}
    schema = schema_of(x=number, ill={"kind": "flag", "role": "label"}, late=number | {"role": "label"})
    found = ad.evaluate_release(make(rows(400), schema), rows(400), rows(200))
    ill, late = found.labels
    assert (ill.release_rows, ill.truth_rows, ill.test_rows) == (300, 300, 150)
    assert (late.release_rows, late.truth_rows, late.test_rows) == (300, 300, 150)
    for fit, metric in ((ill, "accuracy"), (late, "r_squared")):
        for score in fit.scores:
            if score.trained_on in ("release", "truth") and score.model not in ("majority class", "mean"):
                assert score.metrics[metric] > 0.95, (fit.label, score)


CLASSES = [
    ({"kind": "ordinal", "values": [1, 2, 8]}, [1, 2, 8], "classification"),
    ({"kind": "flag", "values": ["n", "y"]}, ["n", "y", "y"], "classification"),
    (WEEK, ["2020-01-02", "2020-01-03", "2020-01-06"], "classification"),
    (DATE, ["2020-01-02", "2020-07-03", "2020-09-06"], "regression"),
    ({"kind": "number", "low": 1, "high": 1000, "scale": "log"}, [3, 80, 700], "regression"),
]


@pytest.mark.parametrize(("spec", "values", "task"), CLASSES)
def test_labels_of_every_kind(make, quick, spec, values, task):
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, 300)
    rows = pl.DataFrame({"x": place * 40.0 + rng.random(300), "y": [values[p] for p in place]})
    schema = schema_of(x={"kind": "number", "low": 0, "high": 100}, y=spec)
    (fit,) = ad.evaluate_release(make(rows, schema), rows, rows, label="y").labels
    assert fit.task == task
    best = next(score for score in fit.scores if (score.model, score.trained_on) == ("random forest", "release"))
    assert best.metrics["accuracy" if task == "classification" else "r_squared"] > 0.95
