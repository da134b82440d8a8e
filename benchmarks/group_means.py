"""Means of groups that nobody declared: are they within what the card states of its noise?

    python benchmarks/group_means.py --data DIR [--sets flights,covid] [--epsilon 1] [--releases 10] [--mechanism auto]

For each release and each group of more than a hundredth of the rows: how far its mean is from the true one, and the
standard error that follows from the card's noise on a count of a pair of columns. A share of n rows in a group has the
noise of one count, sd / n. The mean of a number adds up counts of its c cells, each times how far its values are from
the mean: about sd sqrt(c) s / n where s is the standard deviation of the number.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import polars as pl
from common.tables import markdown
from pairs_study import groups

import adumbra as ad


def stated(release: ad.Release, what: str, rows: int) -> float:
    """The standard error of a group's mean, from the card and the released table alone."""
    joint = release.card.facts["joint"]
    value = what.split(" by ")[0]
    if value == "positive, %":
        return 100.0 * float(joint["pair_sd"]) / rows
    cells = joint["cells"][joint["columns"].index(value)]
    spread = float(release.table[value].cast(pl.Float64).std() or 0.0)  # type: ignore[arg-type] # a number
    return float(joint["pair_sd"]) * float(np.sqrt(cells)) * spread / rows


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="flights,covid")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--mechanism", default="auto")
    given = parser.parse_args()
    out = []
    for name in given.sets.split(","):
        frame, schema = groups.table(name, given.data)
        found: dict[str, list[tuple[float, float]]] = {}
        used = time.process_time()
        for _ in range(given.releases):
            release = ad.release(frame, schema, given.mechanism, ad.Budget(given.epsilon, groups.DELTA))
            for (what, _), (true, seen, _, rows) in groups.means(name, frame, release.table).items():
                found.setdefault(what, []).append((abs(seen - true), stated(release, what, rows)))
        used = (time.process_time() - used) / given.releases
        for what, pairs in found.items():
            off, error = np.array(pairs).T
            within = float((off <= 3 * error).mean())
            out.append([name, what, len(off) // given.releases, off.mean(), error.mean(), 100 * within, used])
    head = ["table", "mean", "groups", "|error|, mean", "stated standard error", "within three, %", "CPU s a release"]
    print(markdown(head, [[x if isinstance(x, str) else f"{x:.4g}" for x in row] for row in out]))
    print(f"{given.releases} releases each, epsilon {given.epsilon:g}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
