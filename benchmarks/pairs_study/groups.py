"""Means of groups that nobody declared, in a hospital's tests and in a year of flights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import real_cells

import adumbra as ad

DELTA = 1e-6
SMALLEST = 0.01
"""Groups below this share of the rows are not asked for."""

Answers = dict[str, tuple[float, float]]
Means = dict[tuple[str, str], tuple[float, float, float, int]]
"""Of a level of a group: truth, release, the standard error of a plain sample of that size, and the size."""


@cache
def table(name: str, data: Path) -> tuple[pl.DataFrame, ad.Schema]:
    """The table and its public schema: kinds and derived columns, no rules and no label."""
    frame, declared, _ = real_cells.SETS[name](data)
    if name == "flights":
        frame = frame.drop("tailnum", "time_hour")
        declared["columns"] = {key: value for key, value in declared["columns"].items() if key in frame.columns}
    return frame, ad.Schema.from_dict({"table": {"name": name}, "columns": declared["columns"]})


def _asked(name: str, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """The frame with what is averaged and grouped by, and which by which."""
    if name == "flights":
        by = ("month", "carrier", "origin")
        return frame, [(value, group) for value in ("dep_delay", "arr_delay") for group in by]
    positive = (pl.col("result") == "positive").cast(pl.Float64) * 100.0
    month = pl.col("test_date").dt.month()
    frame = frame.with_columns(positive.alias("positive, %"), month.alias("month"))
    return frame, [("positive, %", group) for group in ("patient_class", "month", "demo_group", "gender")]


def means(name: str, truth: pl.DataFrame, made: pl.DataFrame) -> Means:
    """Of every group of more than a hundredth of the rows; an empty cell is a group of its own."""
    (one, wanted), (two, _) = _asked(name, truth), _asked(name, made)
    out: Means = {}
    for value, group in wanted:
        with_cell = one.filter(pl.col(value).is_not_null())
        found = with_cell.group_by(group).agg(
            pl.col(value).mean().alias("mean"), pl.col(value).std().alias("sd"), pl.len()
        )
        other = dict(two.group_by(group).agg(pl.col(value).mean()).rows())
        for level, mean, sd, rows in sorted(found.rows(), key=str):
            if rows >= SMALLEST * truth.height:
                answer = other.get(level)
                key = (f"{value} by {group}", "missing" if level is None else str(level))
                out[key] = (mean, float("nan") if answer is None else answer, sd / np.sqrt(rows), rows)
    return out


def measured(name: str, truth: pl.DataFrame, made: pl.DataFrame) -> Answers:
    """Every group's mean beside the truth's, how far off they are, and what is missing together."""
    out: Answers = {}
    errors: dict[str, list[tuple[float, float]]] = {}
    for (what, level), (true, found, plain, _) in means(name, truth, made).items():
        out[f"{what}: {level}"] = (true, found)
        errors.setdefault(what, []).append((abs(found - true), plain))
    for what, pairs in errors.items():
        off, plain = np.array(pairs).T
        out[f"mean error of {what} (truth: standard error of a plain sample)"] = (
            float(plain.mean()),
            float(np.nanmean(off)),
        )
        out[f"largest error of {what} (truth: the same)"] = (float(plain.max()), float(np.nanmax(off)))
    for key, ask in (_FLIGHTS if name == "flights" else _COVID).items():
        out[key] = (ask(truth), ask(made))
    return out


def _together(one: str, other: str) -> Callable[[pl.DataFrame], float]:
    """The share, %, of cells of one column that are missing where those of another are."""

    def ask(frame: pl.DataFrame) -> float:
        rows = frame.filter(pl.col(other).is_null())
        return 100.0 * rows[one].null_count() / rows.height if rows.height else float("nan")

    return ask


def _correlation(one: str, other: str) -> Callable[[pl.DataFrame], float]:
    def ask(frame: pl.DataFrame) -> float:
        rows = frame.select(pl.col(one, other).cast(pl.Float64)).drop_nulls()
        return float(np.corrcoef(rows.to_numpy().T)[0, 1])

    return ask


def _of(value: pl.Expr, among: pl.Expr) -> Callable[[pl.DataFrame], float]:
    def ask(frame: pl.DataFrame) -> float:
        found = frame.filter(among).select(value).item()
        return float("nan") if found is None else float(found)

    return ask


_FLIGHTS: dict[str, Callable[[pl.DataFrame], float]] = {
    "arr_time missing where dep_time is, %": _together("arr_time", "dep_time"),
    "dep_delay missing where dep_time is, %": _together("dep_delay", "dep_time"),
    "air_time missing where arr_delay is, %": _together("air_time", "arr_delay"),
    "dep_time missing where arr_delay is, %": _together("dep_time", "arr_delay"),
    "correlation of dep_delay and arr_delay": _correlation("dep_delay", "arr_delay"),
    "correlation of air_time and distance": _correlation("air_time", "distance"),
    "mean distance to BOS": _of(pl.col("distance").mean(), pl.col("dest") == "BOS"),
    "mean distance to LAX": _of(pl.col("distance").mean(), pl.col("dest") == "LAX"),
    "flights of HA to HNL, %": _of((pl.col("dest") == "HNL").mean() * 100.0, pl.col("carrier") == "HA"),
    "mean dep_delay at 6 o'clock": _of(pl.col("dep_delay").mean(), pl.col("hour") == 6),
    "mean dep_delay at 19 o'clock": _of(pl.col("dep_delay").mean(), pl.col("hour") == 19),
}
_COVID: dict[str, Callable[[pl.DataFrame], float]] = {
    "payor missing where patient_class is, %": _together("payor_group", "patient_class"),
    "patient_class missing where payor is, %": _together("patient_class", "payor_group"),
    "median age of clients": _of(pl.col("age").median(), pl.col("demo_group") == "client"),
    "median ct of positive tests": _of(pl.col("ct_result").median(), pl.col("result") == "positive"),
    "negative tests with ct below 45, %": _of(
        (pl.col("ct_result") < 45).mean() * 100.0, pl.col("result") == "negative"
    ),
    "drive-through tests among positive, %": _of(
        pl.col("drive_thru_ind").mean() * 100.0, pl.col("result") == "positive"
    ),
}
