"""End to end, CSV to a verified folder, against the same arithmetic done in memory without any guarantee.

    python benchmarks/release.py [--quick] [--json]

A table of 90 numbers and 10 categories (208 encoded coordinates), k = 32. The peer reads the whole CSV with polars,
one-hot encodes, multiplies, adds numpy normals and writes Parquet without dictionary: no schema, no clipping, no grid,
no ledger, no card, one pass. Each run is a process of its own; CPU seconds and peak memory are the child's. Ratios
only: the machine is shared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from common.timing import child_usage

NUMBERS, CATEGORIES, VALUES, DIMENSION = 90, 10, 12, 32

_PEER = """
import sys, numpy as np, polars as pl, pyarrow as pa, pyarrow.parquet as pq
frame = pl.read_csv(sys.argv[1])
numbers = frame.select(pl.selectors.numeric()).to_numpy()
codes = frame.select(pl.selectors.string()).cast(pl.Categorical).to_dummies().to_numpy()
x = np.hstack([numbers, codes]).astype(float)
rng = np.random.default_rng()
y = x @ rng.normal(0, 32 ** -0.5, (x.shape[1], 32)) + rng.normal(0, 4, (len(x), 32))
table = pa.table({f"p{i}": y[:, i] for i in range(32)})
pq.write_table(table, sys.argv[2], use_dictionary=False)
"""

_OURS = """
import sys, adumbra as ad
release = ad.release(sys.argv[1], sys.argv[3], ad.DPPro(dimension=32), ad.Budget(1.0, 1e-6, ad.Unit.CELL),
                     ledger=ad.Ledger(sys.argv[2] + ".db"), out=sys.argv[2])
assert release.verify() == []
"""


def make_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    words = np.array([f"value-{i}" for i in range(VALUES)])
    columns: dict[str, np.ndarray] = {f"n{i}": rng.random(rows).round(5) for i in range(NUMBERS)}
    columns |= {f"c{i}": words[rng.integers(0, VALUES, rows)] for i in range(CATEGORIES)}
    pl.DataFrame(columns).write_csv(path)


def make_schema(path: Path) -> None:
    values = json.dumps([f"value-{i}" for i in range(VALUES)])
    text = [f'[columns.n{i}]\nkind = "number"\nlow = 0\nhigh = 1\n' for i in range(NUMBERS)]
    text += [f'[columns.c{i}]\nkind = "category"\nvalues = {values}\n' for i in range(CATEGORIES)]
    path.write_text("\n".join(text))


def run(code: str, *arguments: str) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of a child process."""
    return child_usage([sys.executable, "-c", code, *arguments], OPENBLAS_NUM_THREADS="1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    base, rounds = (20_000, 1) if arguments.quick else (100_000, 3)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_schema(place / "schema.toml")
        empty = place / "one.csv"
        make_table(empty, 1)
        start = run(_OURS, str(empty), str(place / "warm"), str(place / "schema.toml"))[0]
        start = min(start, run(_OURS, str(empty), str(place / "start"), str(place / "schema.toml"))[0])
        for size in (base, 3 * base):
            table = place / f"{size}.csv"
            make_table(table, size)
            ours, peer = [], []
            for index in range(rounds):
                peer.append(run(_PEER, str(table), str(place / f"peer-{size}-{index}.parquet")))
                ours.append(run(_OURS, str(table), str(place / f"ours-{size}-{index}"), str(place / "schema.toml")))
            cpu = float(np.median([c for c, _ in ours])), float(np.median([c for c, _ in peer]))
            memory = float(np.median([m for _, m in ours])), float(np.median([m for _, m in peer]))
            rows.append(
                {
                    "rows": size,
                    "cpu_ratio": cpu[0] / cpu[1],
                    "cpu_ratio_without_start_up": (cpu[0] - start) / cpu[1],
                    "our_peak_mb": memory[0],
                    "peer_peak_mb": memory[1],
                }
            )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("rows      CPU, ours / peer   (start-up taken off)   peak MB, ours   peer")
    for r in rows:
        print(
            f"{r['rows']:8d} {r['cpu_ratio']:14.2f} {r['cpu_ratio_without_start_up']:20.2f} "
            f"{r['our_peak_mb']:18.0f} {r['peer_peak_mb']:9.0f}"
        )
    print(f"rows x3: our peak grows by {rows[1]['our_peak_mb'] / rows[0]['our_peak_mb'] - 1:.0%}")


if __name__ == "__main__":
    main()
