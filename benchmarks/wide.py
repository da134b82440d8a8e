"""CPU of one release of a wide table, beside the same arithmetic in numpy with no guarantee at all.

    python benchmarks/wide.py [--data DIR] [--mechanisms tables,moments,hybrid] [--rows 10299] [--columns 561] [--quick]

With --data the table is har.parquet (10,299 x 561 and a label of 6 classes); without, made-up rows of that shape. The
floor is what anybody would do who has no one to protect: read, standardise, class means, one covariance, one
eigendecomposition, draw as many rows, write Parquet. The first release of a process also pays for loading libraries;
it is shown apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from common.timing import timed

import adumbra as ad
from adumbra.mechanisms.catalogue import build


def table(data: Path | None, rows: int, columns: int) -> tuple[pl.DataFrame, ad.Schema]:
    if data is not None:
        frame = pl.read_parquet(data / "har.parquet").drop(["subject", "split"]).rename({"activity": "label"})
    else:
        rng = np.random.default_rng(0)
        label = rng.integers(0, 6, rows)
        factors = rng.normal(size=(rows, 8)) + np.eye(6)[label] @ rng.normal(size=(6, 8))
        values = np.tanh((factors @ rng.normal(size=(8, columns)) + rng.normal(size=(rows, columns))) / 4)
        frame = pl.DataFrame(values, schema=[f"c{i}" for i in range(columns)]).with_columns(pl.Series("label", label))
    declared = {c: {"kind": "number", "low": -1, "high": 1} for c in frame.columns if c != "label"}
    declared["label"] = {"kind": "category", "values": sorted(frame["label"].unique().to_list()), "role": "label"}
    return frame, ad.Schema.from_dict({"columns": {c: declared[c] for c in frame.columns}})


def floor(path: Path, out: Path) -> None:
    frame = pl.read_parquet(path)
    x = frame.drop("label").to_numpy().astype(np.float64)
    label = frame["label"].to_numpy()
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    classes, group = np.unique(label, return_inverse=True)
    means = np.stack([x[group == g].mean(0) for g in range(len(classes))])
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    draw = np.random.default_rng(0).standard_normal(x.shape) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    pl.DataFrame(draw + means[group], schema=frame.drop("label").columns).write_parquet(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--mechanisms", default="tables,moments,hybrid")
    parser.add_argument("--rows", type=int, default=10299)
    parser.add_argument("--columns", type=int, default=561)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a small table, once")
    options = parser.parse_args()
    if options.quick:
        options.data, options.rows, options.columns, options.repeats = None, 500, 60, 1
    frame, schema = table(options.data, options.rows, options.columns)
    found = []
    with tempfile.TemporaryDirectory() as place:
        source, count = Path(place) / "table.parquet", iter(range(10**6))
        frame.write_parquet(source)
        least = min(timed(lambda: floor(source, Path(place) / "floor.parquet"))[1] for _ in range(options.repeats))
        for name in options.mechanisms.split(","):
            times = [
                timed(
                    lambda name=name: ad.release(
                        source, schema, build(name, {}), ad.Budget(1.0, 1e-4), out=Path(place) / str(next(count))
                    )
                )[1]
                for _ in range(options.repeats + 1)
            ]
            found.append({"mechanism": name, "first": times[0], "later": min(times[1:]), "floor": least})
    if options.json:
        print(json.dumps(found))
        return
    print(f"{frame.height} x {frame.width}, CPU seconds; the same arithmetic with no guarantee: {least:.2f}")
    for row in found:
        ratio = row["later"] / row["floor"]
        print(f"{row['mechanism']:8} {row['later']:.2f} ({ratio:.1f} times), first in a process {row['first']:.2f}")


if __name__ == "__main__":
    main()
