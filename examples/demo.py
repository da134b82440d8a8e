"""What `make demo` runs: release a real table, look at the card, use the rows, see how good they are, ask distances.

    python examples/demo.py OUT

Everything is written below OUT, the ledger too. The table is the Wisconsin breast cancer data that comes with
scikit-learn (569 women, 30 measurements and a diagnosis). Its documentation prints the range of every column, so
ranges are public here; they stand below as constants, rounded outwards. For your own table take them from a code
book, a form or physics, never from the rows.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
from sklearn.datasets import load_breast_cancer

# measure: (low, high) of its mean over the nuclei, of its standard error, and of the mean of its three largest
BOUNDS = {
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 45), (0, 5), (10, 50)),
    "perimeter": ((40, 200), (0, 25), (50, 260)),
    "area": ((100, 2600), (0, 600), (150, 4300)),
    "smoothness": ((0.04, 0.18), (0, 0.04), (0.06, 0.25)),
    "compactness": ((0, 0.4), (0, 0.15), (0, 1.1)),
    "concavity": ((0, 0.5), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.25), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.35), (0, 0.08), (0.15, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.22)),
}
RANGES: dict[str, tuple[float, float]] = {
    f"{kind} {measure}": bounds[index]
    for index, kind in enumerate(("mean", "error of", "worst"))
    for measure, bounds in BOUNDS.items()
}

# Every fourth row is kept back: how good a release is should be judged on rows that it was not made from.
HELD_OUT = 4
# A rotation: as many numbers a row as there are encoded coordinates (30 numbers, 2 categories). Distances then carry
# noise but no projection error.
ROTATION = ["--projection", "orthogonal", "--dimension", "32"]


def breast_cancer() -> pl.DataFrame:
    """The table: 30 numbers and a diagnosis, under plain names."""
    data = load_breast_cancer()
    names = [name.replace(" error", "") for name in map(str, data.feature_names)]
    names = [n if n.startswith(("mean ", "worst ")) else f"error of {n}" for n in names]
    diagnosis = [str(data.target_names[t]) for t in data.target]
    return pl.DataFrame(data.data, schema=names).with_columns(pl.Series("diagnosis", diagnosis))


def schema_text(rows: int = 569) -> str:
    """The schema the owner would write by hand."""
    lines = ["[table]", 'name = "breast cancer"', f"rows = {rows}", ""]
    for column, (low, high) in RANGES.items():
        lines += [f'[columns."{column}"]', 'kind = "number"', f"low = {low}", f"high = {high}", ""]
    lines += ["[columns.diagnosis]", 'kind = "category"', 'values = ["benign", "malignant"]', 'role = "label"', ""]
    return "\n".join(lines)


def say(text: str) -> None:
    print(f"\n== {text}\n", flush=True)


def adumbra(folder: Path, *arguments: str, quiet: bool = False) -> None:
    """Show the command, run the installed program in `folder`, stop the demo if it fails."""
    print("$ adumbra " + " ".join(shlex.quote(a) for a in arguments), flush=True)
    beside = Path(sys.executable).with_name("adumbra")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "adumbra.cli.main"]
    environment = {k: v for k, v in os.environ.items() if k != "ADUMBRA_LEDGER"}
    output = subprocess.DEVNULL if quiet else None
    done = subprocess.run([*command, *arguments], cwd=folder, env=environment, stdout=output)
    print(flush=True)
    if done.returncode:
        raise SystemExit(done.returncode)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    out.mkdir(parents=True, exist_ok=True)
    table = breast_cancer().with_row_index("row")
    train = table.filter(pl.col("row") % HELD_OUT > 0).drop("row")
    held_out = table.filter(pl.col("row") % HELD_OUT == 0).drop("row")

    say("1. A table and its schema: columns, kinds and ranges from public knowledge")
    train.write_csv(out / "patients.csv")
    held_out.write_csv(out / "held-out.csv")
    (out / "patients.toml").write_text(schema_text(train.height), encoding="utf-8")
    print(f"{out / 'patients.csv'}: {train.height} rows, {train.width} columns ({held_out.height} rows are kept back)")
    print(f"{out / 'patients.toml'}, which begins:")
    print("\n".join("    " + line for line in schema_text(train.height).splitlines()[:8]))

    options = ["patients.csv", "--schema", "patients.toml", "--ledger", "ledger.db"]
    say("2. What would it cost, and what would it be good for? (nothing is measured, nothing is charged)")
    synthetic = ["--epsilon", "1", "--rows", "10000"]  # rows are free; fewer make the report below quick
    adumbra(out, "plan", *options, *synthetic)

    say("3. Release it: the ledger is charged first, then each number gets its noise. This is the card:")
    adumbra(out, "release", *options, *synthetic, "--out", "release")
    adumbra(out, "verify", "release")

    say("4. What an analyst has: a table like the one it was made from, for any tool. No row of it is a person")
    columns = ["diagnosis", "mean radius", "mean texture", "worst area", "worst concavity"]
    drawn = pl.read_parquet(out / "release" / "data.parquet")
    print(drawn.select(columns).head(3))
    for name, frame in (("released", drawn), ("true, which the analyst does not have", train)):
        share = (frame["diagnosis"] == "malignant").mean()
        print(f"{name}: {share:.1%} malignant, mean radius {frame['mean radius'].mean():.2f}")

    say("5. How good is it? The owner's report, on rows that were kept back. It reads the truth: not for publishing")
    adumbra(out, "evaluate", "release", "--truth", "patients.csv", "--test", "held-out.csv")

    say("6. Another kind of release, for distances between people: one noisy row each, here protecting single cells")
    cells = ["--mechanism", "dppro", "--unit", "cell", "--epsilon", "4", *ROTATION]
    adumbra(out, "release", *options, *cells, "--out", "distances", quiet=True)
    adumbra(out, "answer", "distances", "distance", "--random", "3")
    print("   (one pair of people is mostly noise at this epsilon: that is the promise at work)\n")

    say("7. What has been spent on this table")
    adumbra(out, "ledger", "show", "--ledger", "ledger.db")
    adumbra(out, "ledger", "check", "--ledger", "ledger.db")
    print(f"Done. {out / 'release'} may be published; {out / 'ledger.db'} and the tables may not.")


if __name__ == "__main__":
    main()
