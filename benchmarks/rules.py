"""Rules on tables without any relation: python benchmarks/rules.py [--quick] [--data ../shared/data].

Columns are shuffled independently, then brought to obey the rules. Printed: rows times rules that were broken, the
largest total variation between a column before and after, CPU seconds. Two of the tables are public files (adult and
flights) in the folder --data and are skipped without it; the others are made up. --quick takes a tenth of the rows.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adumbra.declare.column import Column
from adumbra.declare.rules.rules import Rules
from adumbra.models.rule_repair import obeying

ROWS = 336_776
MARRIED = "marital_status in ['Married-civ-spouse', 'Married-AF-spouse']"
ADULT = [
    "if relationship = 'Husband' then sex = 'Male'",
    "if relationship = 'Wife' then sex = 'Female'",
    f"if relationship in ['Husband', 'Wife'] then {MARRIED}",
]
FLIGHTS = [
    "if dep_time is missing then dep_delay is missing",
    "if dep_delay is missing then dep_time is missing",
    "if dep_time is missing then arr_time is missing",
    "if arr_time is missing then arr_delay is missing",
    "if arr_delay is missing then air_time is missing",
    "sched_dep_time % 100 < 60",
]
DERIVED = {"hour": "sched_dep_time // 100", "minute": "sched_dep_time % 100"}


def columns(frame: pl.DataFrame, derived: dict[str, str]) -> list[Column]:
    """Columns as they would be declared; the files are public, so ranges may be read from them."""
    made = []
    for cells in frame:
        if cells.dtype == pl.String:
            made.append(Column(cells.name, "category", values=tuple(sorted(cells.drop_nulls().unique()))))
        elif cells.dtype.is_temporal():
            made.append(Column(cells.name, role="drop"))
        else:
            low, high = float(cells.min()), float(cells.max())  # type: ignore[arg-type] # numbers
            high += low == high
            made.append(Column(cells.name, "number", low, high, integer=True, derived=derived.get(cells.name)))
    return made


def variation(before: pl.Series, after: pl.Series) -> float:
    """Total variation between two columns."""
    counts = [cells.alias("v").value_counts() for cells in (before, after)]
    both = counts[0].join(counts[1], on="v", how="full", nulls_equal=True).fill_null(0)
    return float((both["count"].cast(pl.Int64) - both["count_right"].cast(pl.Int64)).abs().sum() / 2 / len(before))


def tried(name: str, frame: pl.DataFrame, rules: Rules, random: np.random.Generator) -> None:
    """One line: shuffle, mend, compare."""
    measured = [cells for cells in frame if cells.name not in rules.unmeasured]
    apart = pl.DataFrame([cells.gather(random.permutation(len(frame))) for cells in measured])
    broken = sum(int(one.sum()) for one in rules.broken(apart))
    start = time.process_time()
    done = obeying(apart, rules, np.random.default_rng(0))
    seconds = time.process_time() - start
    assert not any(one.any() for one in rules.broken(done))
    worst = max(variation(apart[cells.name], done[cells.name]) for cells in measured)
    print(f"{name:34} {len(frame):>8,} rows {broken:>8,} broken   {worst:.6f} variation   {seconds:5.2f} s")


def dates(rows: int, stay: Any, random: np.random.Generator) -> tuple[pl.DataFrame, Rules]:
    """Admissions within three years, and discharges after stays of so many days; none means any other day."""
    start = random.integers(0, 1_000, rows)
    end = random.integers(0, 1_000, rows) if stay is None else start + random.geometric(1 / (stay + 1), rows) - 1
    days = pl.DataFrame({"admission": start, "discharge": end})
    frame = days.select((pl.all() + 17_897).cast(pl.Int32).cast(pl.Date))
    ends = {"low": "2019-01-01", "high": "2023-12-31"}
    declared = [Column(name, "date", **ends) for name in frame.columns]
    return frame, Rules.of([{"check": "discharge >= admission"}], declared)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    given = parser.parse_args()
    part = 10 if given.quick else 1
    random = np.random.default_rng(0)
    if (given.data / "adult.csv.gz").exists():
        adult = pl.read_csv(given.data / "adult.csv.gz", null_values=["?"])[::part]
        pairs = {"columns": ["education", "education_num"]}
        pairs["rows"] = [list(row) for row in adult.select("education", "education_num").unique().rows()]
        rules = Rules.of([*({"check": text} for text in ADULT), pairs], columns(adult, {}))
        tried("adult", adult, rules, random)
    if (given.data / "flights.parquet").exists():
        flights = pl.read_parquet(given.data / "flights.parquet")[::part]
        flights = flights.with_columns(pl.col(pl.Float64).cast(pl.Int64))
        tried("flights", flights, Rules.of([{"check": t} for t in FLIGHTS], columns(flights, DERIVED)), random)
    for name, stay in (("dates, stays of 9 days", 9), ("dates of one distribution", None)):
        tried(name, *dates(ROWS // part, stay, random), random)


if __name__ == "__main__":
    main()
