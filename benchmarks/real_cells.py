"""Do tables come back as they were? Missing cells, times, levels, spikes, codes and rules of default releases.

    python benchmarks/real_cells.py --data DIR [--sets flights,covid,adult,levels] [--relations replace,add-remove]
                                    [--epsilon 1] [--releases 10] [--quick] [--out results.json]

For each table, relation and epsilon: so many default releases (delta 1e-6), each asked what an analyst would ask; mean
and standard deviation over the releases beside the truth and the goal. DIR holds the files of the public data sets;
`levels` is made up: 60,000 rows of a day, an hour, a month, a category and a number. --quick: two releases of the first
20,000 rows.

The schemas stand in for public code books: kinds, ranges and lists of values as anybody may know them, and rules that
hold by definition. The number that a release is asked for is never used to make it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common.tables import markdown, say

import adumbra as ad

Question = tuple[str, Callable[[pl.DataFrame], float], float | None, float]
"""What is asked, of which frame, the goal (None: the truth), and how far from it a mean may be."""

_NAMED = {"kind": "category"}


def _values(frame: pl.DataFrame, column: str) -> dict[str, Any]:
    return {"kind": "category", "values": sorted(frame[column].drop_nulls().unique().to_list())}


def _whole(low: int, high: int, **more: Any) -> dict[str, Any]:
    return {"kind": "number", "low": low, "high": high, "integer": True, **more}


def _hhmm() -> dict[str, Any]:
    return {"kind": "time", "step": "minute", "format": "%H%M", "type": "int64"}


def flights(data: Path) -> tuple[pl.DataFrame, dict[str, Any], list[Question]]:
    """Times as hhmm, cells of cancelled flights that are not there, columns that follow from others."""
    frame = pl.read_parquet(data / "flights.parquet")
    columns = {
        "year": {"kind": "category", "values": [2013]},
        "month": _whole(1, 12),
        "day": _whole(1, 31),
        "dep_time": _hhmm(),
        "sched_dep_time": _whole(0, 2359, derived="hour * 100 + minute"),
        "dep_delay": _whole(-60, 1440),
        "arr_time": _hhmm(),
        "sched_arr_time": _hhmm(),
        "arr_delay": _whole(-120, 1440),
        "carrier": _values(frame, "carrier"),
        "flight": _whole(1, 9999),
        "tailnum": {"role": "drop"},
        "origin": _values(frame, "origin"),
        "dest": _values(frame, "dest"),
        "air_time": _whole(0, 900),
        "distance": _whole(0, 5000),
        "hour": _whole(0, 23),
        "minute": _whole(0, 59),
        "time_hour": {"role": "drop"},
    }
    rules = [
        {"check": "if dep_time is missing then dep_delay is missing and arr_time is missing"},
        {"check": "if dep_delay is missing then dep_time is missing"},
        {"check": "if arr_time is missing then arr_delay is missing and air_time is missing"},
        {"check": "if arr_delay is missing then air_time is missing"},
        {"check": "if air_time is missing then arr_delay is missing"},
    ]
    times = ["dep_time", "sched_dep_time", "arr_time", "sched_arr_time"]
    questions: list[Question] = [
        ("mean delay of flights that left", lambda f: f["dep_delay"].mean(), None, 0.02 * 12.64),
        ("dep_time is missing, %", lambda f: _missing(f, "dep_time"), None, 0.2),
        ("arr_delay is missing, %", lambda f: _missing(f, "arr_delay"), None, 0.2),
        ("rows with all times valid as hhmm, %", lambda f: 100 * f.select(_valid(times)).to_series().mean(), 100, 0),
        (
            "hour = sched_dep_time div 100, %",
            lambda f: _share(f, pl.col("hour") == pl.col("sched_dep_time") // 100),
            100,
            0,
        ),
        ("dep_time and dep_delay missing together, %", _together, 100, 0),
        ("0.99 quantile of dep_delay", lambda f: f["dep_delay"].quantile(0.99), None, 0.1 * 191),
        ("total variation of hour", _variation(frame, "hour"), 0, 0.01),
        ("total variation of day", _variation(frame, "day"), 0, 0.01),
    ]
    return frame, {"columns": columns, "rules": rules}, questions


def covid(data: Path) -> tuple[pl.DataFrame, dict[str, Any], list[Question]]:
    """A hospital's tests: nearly half of the payors are missing, a date follows from a day number."""
    frame = pl.read_csv(data / "covid_tests.csv.gz", try_parse_dates=True)
    columns = {
        "subject_id": {"role": "id"},
        "fake_first_name": {"role": "drop"},
        "fake_last_name": {"role": "drop"},
        "gender": _values(frame, "gender"),
        "pan_day": _whole(0, 120),
        "test_date": {
            "kind": "date",
            "low": "2020-03-01",
            "high": "2020-06-29",
            "derived": "date('2020-03-01') + days(pan_day)",
        },
        "test_id": _values(frame, "test_id"),
        "clinic_name": _values(frame, "clinic_name"),
        "result": _values(frame, "result"),
        "demo_group": _values(frame, "demo_group"),
        "age": {"kind": "number", "low": 0, "high": 140, "decimals": 1},
        "drive_thru_ind": {"kind": "flag", "values": [0, 1]},
        "ct_result": {"kind": "number", "low": 10, "high": 45, "decimals": 2, "spikes": [45]},
        "orderset": {"kind": "flag", "values": [0, 1]},
        "payor_group": _values(frame, "payor_group"),
        "patient_class": _values(frame, "patient_class"),
        "col_rec_tat": {"kind": "number", "low": 0, "high": 100000, "decimals": 1, "scale": "log"},
        "rec_ver_tat": {"kind": "number", "low": -20, "high": 250, "decimals": 1},
    }
    day = pl.col("test_date") == pl.date(2020, 3, 1) + pl.duration(days=pl.col("pan_day"))
    questions: list[Question] = [
        ("payor is missing, %", lambda f: _missing(f, "payor_group"), None, 1.0),
        ("charity care, %", lambda f: _share(f, pl.col("payor_group") == "charity care"), 0, 0.4),
        ("test_date agrees with pan_day, %", lambda f: _share(f, day), 100, 0),
        ("ct_result is missing, %", lambda f: _missing(f, "ct_result"), None, 1.0),
        ("mean ct_result", lambda f: f["ct_result"].mean(), None, 0.3),
        ("0.99 quantile of rec_ver_tat", lambda f: f["rec_ver_tat"].quantile(0.99), None, 5.0),
        ("median of col_rec_tat", lambda f: f["col_rec_tat"].median(), None, 0.3),
        ("ages with more than one decimal, %", lambda f: _share(f, pl.col("age") != pl.col("age").round(1)), 0, 0),
        ("flags other than 0 and 1, %", lambda f: _share(f, ~pl.col("orderset").is_in([0, 1])), 0, 0),
    ]
    return frame, {"columns": columns}, questions


def adult(data: Path) -> tuple[pl.DataFrame, dict[str, Any], list[Question]]:
    """Spikes and public knowledge about marriages and schools."""
    frame = pl.read_csv(data / "adult.csv.gz").drop("split")
    named = [name for name, kind in frame.schema.items() if kind == pl.String]
    frame = frame.with_columns(
        pl.when(pl.col(name) == "?").then(None).otherwise(pl.col(name)).alias(name) for name in named
    )
    columns: dict[str, Any] = {name: _values(frame, name) for name in named}
    columns["income"]["role"] = "label"
    columns |= {
        "age": _whole(17, 90),
        "fnlwgt": _whole(0, 2_000_000),
        "education_num": _whole(1, 16),
        "capital_gain": _whole(0, 99_999),
        "capital_loss": _whole(0, 5_000),
        "hours_per_week": _whole(1, 99),
    }
    schools = frame.select("education", "education_num").unique().sort("education_num").rows()
    married = "marital_status in ['Married-civ-spouse', 'Married-AF-spouse']"
    rules = [
        {"check": "if relationship = 'Husband' then sex = 'Male'"},
        {"check": "if relationship = 'Wife' then sex = 'Female'"},
        {"check": f"if relationship = 'Husband' then {married}"},
        {"check": f"if relationship = 'Wife' then {married}"},
        {"columns": ["education", "education_num"], "rows": [list(row) for row in schools]},
    ]
    husband = (pl.col("relationship") == "Husband") & (pl.col("sex") == "Female")
    doctorate = pl.col("education") == "Doctorate"
    questions: list[Question] = [
        ("exactly 40 hours, %", lambda f: _share(f, pl.col("hours_per_week") == 40), None, 1.0),
        ("exactly 50 hours, %", lambda f: _share(f, pl.col("hours_per_week") == 50), None, 1.0),
        ("zero capital gain, %", lambda f: _share(f, pl.col("capital_gain") == 0), None, 1.0),
        ("0.99 quantile of capital gain", lambda f: f["capital_gain"].quantile(0.99), None, 1500),
        ("female husbands", lambda f: f.filter(husband).height, 0, 0),
        ("education_num of a doctorate", lambda f: f.filter(doctorate)["education_num"].mean(), 16, 0),
        ("occupation is missing, %", lambda f: _missing(f, "occupation"), None, 0.5),
        ("total variation of age", _variation(frame, "age"), 0, 0.02),
        ("share above 50K, men - women", _gap, None, 2.0),
    ]
    order = {name: columns[name] for name in frame.columns}
    return frame, {"columns": order, "rules": rules}, questions


def levels(_: Path) -> tuple[pl.DataFrame, dict[str, Any], list[Question]]:
    """Whole numbers whose levels are not alike, and codes with gaps."""
    generator = np.random.default_rng(11)
    rows = 60_000
    hours = np.array([1, 1, 1, 1, 1, 2, 4, 7, 8, 6, 5, 5, 6, 5, 5, 6, 6, 7, 6, 5, 4, 3, 2, 1], dtype=float)
    days = 1 + 0.3 * np.sin(np.arange(31)) + np.where(np.arange(31) % 7 < 2, 0.0, 0.5)
    codes = [1, 2, 3, 8, 15, 16]
    marks = [0, 25, 50, 75, 100]
    month = generator.integers(1, 13, rows)
    frame = pl.DataFrame(
        {
            "day": generator.choice(np.arange(1, 32), rows, p=days / days.sum()),
            "hour": generator.choice(24, rows, p=hours / hours.sum()),
            "month": month,
            "code": generator.choice(codes, rows, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05]),
            "mark": generator.choice(marks, rows, p=[0.1, 0.2, 0.4, 0.2, 0.1]),
            "ward": generator.choice(["a", "b", "c"], rows),
            "weight": generator.normal(70, 12, rows).round(1) + month / 2,
        }
    )
    columns = {
        "day": _whole(1, 31),
        "hour": _whole(0, 23),
        "month": _whole(1, 12),
        "code": {"kind": "number", "values": codes},
        "mark": {"kind": "ordinal", "values": marks},
        "ward": _values(frame, "ward"),
        "weight": {"kind": "number", "low": 0, "high": 200, "decimals": 1},
    }
    questions: list[Question] = [
        ("total variation of day", _variation(frame, "day"), 0, 0.01),
        ("total variation of hour", _variation(frame, "hour"), 0, 0.01),
        ("total variation of month", _variation(frame, "month"), 0, 0.01),
        ("total variation of code", _variation(frame, "code"), 0, 0.01),
        (
            "codes outside the declared list, %",
            lambda f: _share(f, ~pl.col("code").is_in(codes) | ~pl.col("mark").is_in(marks)),
            0,
            0,
        ),
        ("mean weight", lambda f: f["weight"].mean(), None, 0.5),
    ]
    return frame, {"columns": columns}, questions


SETS = {"flights": flights, "covid": covid, "adult": adult, "levels": levels}


def _missing(frame: pl.DataFrame, column: str) -> float:
    return 100 * frame[column].null_count() / frame.height


def _share(frame: pl.DataFrame, condition: pl.Expr) -> float:
    """Of all rows; an empty cell meets no condition."""
    return 100 * frame.select(condition.fill_null(False).mean()).item()


def _valid(times: list[str]) -> pl.Expr:
    inside = [(pl.col(t).is_null() | ((pl.col(t) <= 2400) & (pl.col(t) % 100 < 60) & (pl.col(t) >= 0))) for t in times]
    return pl.all_horizontal(inside)


def _together(frame: pl.DataFrame) -> float:
    return 100 * frame.select((pl.col("dep_time").is_null() == pl.col("dep_delay").is_null()).mean()).item()


def _gap(frame: pl.DataFrame) -> float:
    share = {sex: 100 * (frame.filter(pl.col("sex") == sex)["income"] == ">50K").mean() for sex in ("Male", "Female")}
    return share["Male"] - share["Female"]


def _variation(truth: pl.DataFrame, column: str) -> Callable[[pl.DataFrame], float]:
    """Total variation by level, from the true column."""

    def shares(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by(column).agg(pl.len() / frame.height)

    def distance(frame: pl.DataFrame) -> float:
        both = shares(truth).join(shares(frame), on=column, how="full", coalesce=True, nulls_equal=True).fill_null(0)
        return float((both["len"] - both["len_right"]).abs().sum() / 2)

    return distance


def study(
    name: str, data: Path, relation: str, epsilon: float, releases: int, rows: int | None
) -> list[dict[str, Any]]:
    """Ask the truth and so many releases of a table."""
    frame, declared, questions = SETS[name](data)
    if rows is not None:
        frame = frame.head(rows)
    schema = ad.Schema.from_dict({"table": {"name": name}, **declared})
    found: list[list[float]] = []
    started = time.process_time()
    for _ in range(releases):
        made = ad.release(frame, schema, "auto", epsilon, delta=1e-6, relation=relation).table
        found.append([float(ask(made)) for _, ask, _, _ in questions])
    seconds = (time.process_time() - started) / releases
    out = []
    for place, (what, ask, goal, away) in enumerate(questions):
        truth = float(ask(frame))
        numbers = np.array([each[place] for each in found])
        mean, aim = float(numbers.mean()), truth if goal is None else goal
        out.append(
            {
                "table": name,
                "relation": relation,
                "epsilon": epsilon,
                "question": what,
                "truth": truth,
                "goal": f"{aim:.4g}" if away == 0 else f"{aim:.4g} ± {away:.3g}",
                "mean": mean,
                "sd": float(numbers.std()),
                "reached": bool(abs(mean - aim) <= away + 1e-9),
                "cpu": seconds,
            }
        )
    return out


def main() -> None:
    """Run the study and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public data sets")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--relations", default="replace,add-remove")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    releases, rows = (2, 20_000) if given.quick else (given.releases, None)
    found: list[dict[str, Any]] = []
    for name in given.sets.split(","):
        for relation in given.relations.split(","):
            for epsilon in map(float, given.epsilon.split(",")):
                found += study(name, given.data, relation, epsilon, releases, rows)
    heads = ("table", "relation", "epsilon", "question", "truth", "goal", "release: mean (sd)", "reached")
    lines = [
        (f["table"], f["relation"], f"{f['epsilon']:g}", f["question"], f"{f['truth']:.4g}", f["goal"],
         f"{f['mean']:.4g} ({f['sd']:.2g})", "yes" if f["reached"] else "no")
        for f in found
    ]  # fmt: skip
    say(markdown(heads, lines))
    seconds = {(f["table"], f["relation"]): f["cpu"] for f in found}
    say("CPU seconds a release: " + ", ".join(f"{t} {r} {s:.1f}" for (t, r), s in seconds.items()))
    say(f"{releases} releases each, load {os.getloadavg()[0]:.1f}")
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
