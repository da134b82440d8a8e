"""Distances and clustering from pandas: release a frame, then work with the release alone.

    python examples/clustering.py OUT

The owner's side makes the release; the analyst's side below it uses nothing but the folder. The last lines step back
to the owner's side to compare with the truth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from demo import breast_cancer, schema_text
from sklearn.cluster import KMeans

import adumbra as ad


def owner(out: Path) -> Path:
    """A pandas frame in, a release folder out."""
    patients = breast_cancer().to_pandas()
    (out / "patients.toml").write_text(schema_text(), encoding="utf-8")
    release = ad.release(
        patients,
        out / "patients.toml",
        ad.DPPro(dimension=16),
        ad.Budget(epsilon=8.0, delta=1e-6, unit=ad.Unit.CELL),
        ledger=ad.Ledger(out / "ledger.db"),
        out=out / "release",
    )
    print(release)
    print(type(release.table).__module__.split(".")[0], "frame of", release.table.shape)
    return release.path


def analyst(folder: Path) -> np.ndarray:
    """Group the people by the released rows and compare the groups by distance."""
    release = ad.load(folder)
    groups = KMeans(n_clusters=2, n_init=10, random_state=0).fit_predict(release.table.to_numpy())
    squared = release.distance_matrix(clip=False)  # unbiased, so averages of it are averages of true distances
    print("\nmean squared distance (estimated)")
    for a, b, name in ((0, 0, "within group 0"), (1, 1, "within group 1"), (0, 1, "between them")):
        block = squared[np.ix_(groups == a, groups == b)]
        count = block.size - (len(block) if a == b else 0)
        print(f"  {name}: {block.sum() / count:6.2f}")
    print("  (a group chosen on noisy rows looks tighter than it is: the noise chose with it)")
    print("\nnearest rows to row 0, with standard errors")
    print(release.neighbours(0, 3))
    return groups


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    groups = analyst(owner(out))
    malignant = (breast_cancer()["diagnosis"] == "malignant").to_numpy()
    agree = max(np.mean(groups == malignant), np.mean(groups != malignant))
    print(f"\nowner's side: the two groups agree with the diagnosis for {agree:.0%} of the people")


if __name__ == "__main__":
    main()
