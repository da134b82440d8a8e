"""Counting queries with error bars: a plan that compares mechanisms, one release, and what can be asked of it.

    python examples/counting_queries.py OUT

The table is made up: 30,000 trips with an hour, a length in minutes and a kind of ticket. The owner releases counts of
their cells once; the analyst's side uses nothing but the folder. Lines that begin with "owner's side" compare with the
truth, which nobody else can do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import adumbra as ad

TRIPS = 30_000
SCHEMA = ad.Schema.from_dict(
    {
        "table": {"name": "trips"},
        "columns": {  # ranges that a timetable and a price list say, not the trips
            "hour": {"kind": "number", "low": 0, "high": 23, "integer": True},
            "minutes": {"kind": "number", "low": 0, "high": 119, "integer": True},
            "ticket": {"kind": "category", "values": ["single", "day", "month"]},
        },
    }
)


def trips() -> pl.DataFrame:
    """Two rush hours, and mostly short trips."""
    generator = np.random.default_rng(0)
    rush = np.where(generator.random(TRIPS) < 0.5, 8.0, 17.0)
    return pl.DataFrame(
        {
            "hour": np.clip(generator.normal(rush, 2.5), 0, 23).astype(int),
            "minutes": np.clip(generator.gamma(3.0, 8.0, TRIPS), 0, 119).astype(int),
            "ticket": generator.choice(["single", "day", "month"], TRIPS, p=[0.3, 0.1, 0.6]).tolist(),
        }
    )


def owner(table: pl.DataFrame, out: Path) -> Path:
    """Compare mechanisms, which is free, and release once."""
    budget = ad.Budget(epsilon=0.5, delta=0.0)
    for columns in (("minutes",), ("hour", "minutes"), ("minutes", "ticket")):
        planned = ad.plan(table, SCHEMA, ad.Histogram(columns=columns), budget)
        print(f"{' x '.join(columns)}: {planned.job.mechanism.name}, {planned.job.choice}")
    release = ad.release(
        table,
        SCHEMA,
        ad.Histogram(columns=("minutes", "ticket")),
        budget,
        ledger=ad.Ledger(out / "counting-ledger.db"),
        out=out / "counts",
    )
    print(f"\n{release}")
    return release.path


def said(name: str, answer: ad.CountEstimate) -> None:
    """A count as it should be quoted."""
    print(f"  {name}: {answer.value:.0f} +- {answer.standard_error:.0f}", end="; ")
    print(f"within {answer.eta:.0f} at least {1 - answer.mu:.0%} of the time ({answer.basis})")


def analyst(folder: Path) -> pl.DataFrame:
    """Ranges, a marginal, and a thousand queries at once."""
    release = ad.load(folder)
    print("\nranges")
    said("trips of at least an hour", release.range("minutes", 60))
    said("half an hour to an hour, monthly ticket", release.range("minutes", 30, 60, where={"ticket": "month"}))
    print("\na marginal")
    print(release.marginal(["ticket"]))
    generator = np.random.default_rng(1)
    ends = np.sort(generator.integers(0, 120, (1000, 2)), axis=1).tolist()
    queries = [{"name": f"range {i}", "where": {"minutes": pair}} for i, pair in enumerate(ends)]
    long_less_short = [{"where": {"minutes": [60, 119]}}, {"where": {"minutes": [0, 9]}, "weight": -1}]
    answers = release.workload([*queries, {"name": "long less short", "terms": long_less_short}])
    print("\nthe first and the last of 1,001 queries")
    print(answers[[0, -1]])
    return answers[:-1].with_columns(low=pl.Series([a for a, _ in ends]), high=pl.Series([b for _, b in ends]))


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    table = trips()
    answers = analyst(owner(table, out))
    below = np.searchsorted(np.sort(table["minutes"].to_numpy()), np.arange(121))
    truth = below[answers["high"].to_numpy() + 1] - below[answers["low"].to_numpy()]
    off = answers["value"].to_numpy() - truth
    stated = np.sqrt(np.square(answers["standard_error"].to_numpy()).mean())
    print(f"\nowner's side: root mean square error of the ranges {np.sqrt(np.square(off).mean()):.1f}", end=", ")
    print(f"stated {stated:.1f}; {np.mean(np.abs(off) < answers['eta'].to_numpy()):.1%} within eta")
    print("  (answers of one release share their noise: both numbers hold on the average over releases)")


if __name__ == "__main__":
    main()
