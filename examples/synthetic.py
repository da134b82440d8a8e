"""A synthetic table from Python: schema, plan, release, and a model trained on the released rows.

    python examples/synthetic.py OUT [REPEATS]

The owner releases three quarters of scikit-learn's breast cancer table at epsilon 1. The analyst trains a model on the
release and sees nothing else. The last quarter judges it, beside a model trained on the true rows and beside always
saying the commoner class. One release is one throw of the noise; with REPEATS more are thrown and the spread is shown
(only to learn how much to expect: each would be charged in earnest).
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from statistics import median

import polars as pl
from demo import HELD_OUT, breast_cancer, schema_text
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import adumbra as ad

LABEL = "diagnosis"


BUDGET = ad.Budget(epsilon=1.0, delta=1e-6)
MECHANISM = ad.Auto(rows=10_000)


def owner(table: pl.DataFrame, schema: ad.Schema, out: Path) -> Path:
    """A frame in, a folder that may be published out."""
    planned = ad.plan(table, schema, MECHANISM, BUDGET)  # free: looks at the schema and the number of rows only
    print(f"mechanism: {planned.job.mechanism.name}, because: {planned.job.choice}")
    for line, calibration in planned.calibrations.items():
        print(f"  {line}: {planned.shares[line]:.0%} of the budget, {calibration.event.noise} noise")
    ledger = ad.Ledger(out / "ledger.db")
    release = ad.release(table, schema, MECHANISM, BUDGET, ledger=ledger, out=out / "release")
    print(f"released {release.card.rows} drawn rows from {release.card.table_rows} true ones")
    return release.path


def analyst(folder: Path) -> object:
    """A model from the folder alone."""
    return fitted(ad.load(folder).table)


def fitted(table: pl.DataFrame) -> object:
    """A linear model of the diagnosis."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(table.drop(LABEL).to_numpy(), table[LABEL].to_numpy())


def accuracy(model: object, test: pl.DataFrame) -> float:
    """Share of true rows that the model gets right."""
    return float(model.score(test.drop(LABEL).to_numpy(), test[LABEL].to_numpy()))  # type: ignore[attr-defined]


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    table = breast_cancer().with_row_index("row")
    train = table.filter(pl.col("row") % HELD_OUT > 0).drop("row")
    test = table.filter(pl.col("row") % HELD_OUT == 0).drop("row")
    schema = ad.Schema.from_dict(tomllib.loads(schema_text(train.height)))
    folder = owner(train, schema, out)
    commoner = train[LABEL].mode().item()
    print(f"\naccuracy on {test.height} rows that were kept back (owner's side: it needs true rows)")
    print(f"  trained on the release:   {accuracy(analyst(folder), test):.3f}")
    print(f"  trained on the true rows: {accuracy(fitted(train), test):.3f}")
    print(f"  always {commoner}:            {(test[LABEL] == commoner).mean():.3f}")
    report = ad.evaluate_release(folder, train, test)  # the same and much more; private
    worst = max(report.columns, key=lambda column: column.total_variation)
    print(f"\nfrom the owner's report: the column that is off most is {worst.name} ({worst.total_variation:.2f})")
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if repeats:
        again = [accuracy(fitted(ad.release(train, schema, MECHANISM, BUDGET).table), test) for _ in range(repeats)]
        print(f"accuracy of {repeats} more releases: {min(again):.2f} to {max(again):.2f}, median {median(again):.2f}")


if __name__ == "__main__":
    main()
