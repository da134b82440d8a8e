"""Scores of other people's suites, which need environments of their own: adumbra is not imported here.

    PYTHON benchmarks/pairs_study/judge.py sdnist NIST-FOLDER RELEASE.csv
    PYTHON benchmarks/pairs_study/judge.py sdmetrics TRUTH.csv RELEASE.csv

PYTHON has the suite that is named: `sdnist` (2.4) or `sdmetrics`. Printed is a dictionary of scores, as JSON.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import pandas as pd


def sdnist(folder: Path, release: Path) -> dict[str, float]:
    """SDNist's k-marginal score and its share of inconsistent rows, %."""
    import sdnist.report as suite  # first: its parts import each other
    from sdnist import utils
    from sdnist.load import TestDatasetName
    from sdnist.metrics.inconsistency import Inconsistencies
    from sdnist.metrics.kmarginal import KMarginal

    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "national").mkdir()
        for file in folder.glob("*.json"):
            shutil.copyfile(file, root / file.name)
        shutil.copyfile(folder / "national2019.json", root / "national" / "national2019.json")
        rows = gzip.decompress((folder / "national2019.csv.gz").read_bytes())
        (root / "national" / "national2019.csv").write_bytes(rows)
        found = suite.Dataset(release, utils.SimpleLogger(), TestDatasetName.national2019, root, download=False)
        areas = ["PUMA"] if "PUMA" in found.d_target_data.columns else []
        score = float(KMarginal(found.d_target_data, found.d_synthetic_data, areas).compute_score())
        rules = Inconsistencies(found.c_synthetic_data, root)
        rules.compute()
        shares = {
            f"{line['Inconsistency Group']} inconsistencies, %": float(
                str(line["Percent Records Inconsistent"]).rstrip("%")
            )
            for line in rules.stats["summary"]
        }
    return {"k-marginal": score} | shares


def sdmetrics(truth: Path, release: Path) -> dict[str, float]:
    """The quality score of SDMetrics with its two parts."""
    from sdmetrics.reports.single_table import QualityReport

    real, made = pd.read_csv(truth), pd.read_csv(release)
    kinds = {
        name: {"sdtype": "numerical" if pd.api.types.is_numeric_dtype(real[name]) else "categorical"} for name in real
    }
    report = QualityReport()
    try:
        report.generate(real, made, {"columns": kinds}, verbose=False)
    except Exception:  # newer releases want tables by name
        report.generate({"table": real}, {"table": made}, {"tables": {"table": {"columns": kinds}}}, verbose=False)
    parts = report.get_properties()
    named = {str(row["Property"]): float(row["Score"]) for _, row in parts.iterrows()}
    return {"quality": float(report.get_score())} | named


def main() -> None:
    """Score two tables."""
    suite, truth, release = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        found = sdnist(truth, release) if suite == "sdnist" else sdmetrics(truth, release)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
