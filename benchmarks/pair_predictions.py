"""What `pairs` predicts of its error on pairs of columns, beside what the truth shows.

    python benchmarks/pair_predictions.py --data DIR [--sets adult,nltcs,br2000,bank,nist] [--epsilons 0.3,1,4,10]
                                          [--relations replace,add-remove] [--releases 3]

DIR holds adult.csv.gz, nltcs.csv.gz, br2000.csv.gz, bank_full.csv.gz and nist/national2019.csv.gz. Printed for each
set, epsilon and relation, as means over the releases: the total variation of a pair of columns as `evaluate` measures
it and as the card and the plan predict it, both predictions over what was seen, and which dependence is kept by the
card and by the plan. A plan for add-remove knows no number of rows and predicts nothing. delta is 1e-5. Schemas stand
for public code books: kinds, ranges and lists of values.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common.tables import markdown, say

import adumbra as ad
from adumbra.compare import table_comparison
from adumbra.mechanisms.pairs import Pairs

logging.getLogger("adumbra.owner").setLevel(logging.ERROR)  # counts of empty cells, for every release
SETS = {
    "adult": ("adult.csv.gz", ["?"], ["split"], "income"),
    "nltcs": ("nltcs.csv.gz", [], [], ""),
    "br2000": ("br2000.csv.gz", [], [], ""),
    "bank": ("bank_full.csv.gz", [], [], "y"),
    "nist": ("nist/national2019.csv.gz", ["N"], ["INDP"], ""),
}
_CODES = ("MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "SEX", "DVET", "DREM", "DPHY", "DEYE", "DEAR", "PUMA")
"""Columns of NIST's rows that are numbers by name only."""


def table(name: str, data: Path) -> tuple[pl.DataFrame, ad.Schema]:
    """Rows, and a schema of them."""
    file, blank, dropped, label = SETS[name]
    frame = pl.read_csv(data / file, null_values=blank, infer_schema_length=None).drop(dropped)
    columns = {column: _declared(column, frame[column]) for column in frame.columns}
    if label:
        columns[label]["role"] = "label"
    return frame, ad.Schema.from_dict({"table": {"name": name}, "columns": columns})


def _declared(name: str, cells: pl.Series) -> dict[str, Any]:
    known = cells.drop_nulls().unique().sort()
    if cells.dtype == pl.String or name in _CODES:
        return {"kind": "category", "values": known.to_list()}
    if known.to_list() == [0, 1]:
        return {"kind": "flag"}
    ends = {"low": float(known.min()), "high": float(known.max())}  # type: ignore[arg-type] # numbers
    return {"kind": "number", **ends, "integer": cells.dtype.is_integer()}


def measured(frame: pl.DataFrame, schema: ad.Schema, budget: ad.Budget, releases: int) -> list[str]:
    """Seen and predicted, for one line of the table."""
    rows = []
    for _ in range(releases):
        release = ad.release(frame, schema, "pairs", budget)
        found = ad.evaluate_release(release, frame)
        rows.append((found.two_way.mean, found.predicted["pair_tv"], release.facts.joint.kept_above))
    seen, card, kept = np.mean(rows, axis=0)
    out = [f"{seen:.4f}", f"{card:.4f}", f"{card / seen:.2f}"]
    plan = ad.plan(frame, schema, "pairs", budget)
    mechanism = plan.job.mechanism
    assert isinstance(mechanism, Pairs)
    told = mechanism.expected(plan.job.setting, {line: own.event for line, own in plan.calibrations.items()})
    if told is None:
        return [*out, "-", "-", f"{kept:.3f}", "-"]
    return [*out, f"{told.error:.4f}", f"{told.error / seen:.2f}", f"{kept:.3f}", f"{told.kept_above:.3f}"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default="0.3,1,4,10")
    parser.add_argument("--relations", default="replace,add-remove")
    parser.add_argument("--releases", type=int, default=3)
    given = parser.parse_args()
    setattr(table_comparison, "labels_of", lambda *_: [])  # noqa: B010 - no models are trained
    heads = (
        "set",
        "epsilon",
        "relation",
        "seen",
        "card",
        "card / seen",
        "plan",
        "plan / seen",
        "kept",
        "kept, by plan",
    )
    lines = []
    for name in given.sets.split(","):
        frame, schema = table(name, given.data)
        for epsilon in given.epsilons.split(","):
            for relation in given.relations.split(","):
                say(f"{name}, epsilon {epsilon}, {relation} ...")
                budget = ad.Budget(float(epsilon), 1e-5, relation=relation)
                lines.append([name, epsilon, relation, *measured(frame, schema, budget, given.releases)])
    print(markdown(heads, lines))


if __name__ == "__main__":
    main()
