"""Is anything slower than it was? CPU time of four benchmarks in two trees: another commit's and this one.

    python benchmarks/common/before_after.py REF [--rounds 3] [--only noise,release,wide,pca] [--quick] [--limit 1.05]

The trees take turns, each with its own benchmarks and its own package, in processes of their own. For each case stands
the least CPU number of the rounds (of `release`, whose JSON has no seconds, the ratio to its peer) and after / before.
Exits with 1 if a case is slower than --limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.tables import markdown, say

HOME = Path(__file__).resolve().parents[2]
NUMBERS: dict[str, Callable[[Any], dict[str, float]]] = {
    "noise": lambda found: {r["case"]: r["ns_cpu"] for r in found["results"] if r["case"].startswith("adumbra")},
    "release": lambda found: {f"{row['rows']} rows, beside the peer": row["cpu_ratio"] for row in found},
    "wide": lambda found: {row["mechanism"]: row["later"] for row in found},
    "pca": lambda found: {
        f"{each['rows']} x {each['columns']}, {each['threads']} threads: {line['what']}": line["cpu"]
        for each in found["times"]
        for line in each["lines"]
        if line["what"].startswith(("release", "PrivatePCA"))
    },
}
"""From a benchmark's JSON, the numbers that are ours: less is better."""


def run(tree: Path, name: str, quick: bool) -> dict[str, float]:
    """One run of a tree's benchmark on its own package."""
    words = [sys.executable, str(tree / "benchmarks" / f"{name}.py"), "--json", *(["--quick"] if quick else [])]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(words, env=environment, cwd=tree, stdout=subprocess.PIPE, text=True, check=True)
    return NUMBERS[name](json.loads(done.stdout))


def compared(
    before: Path, after: Path, names: list[str], rounds: int, quick: bool
) -> list[tuple[str, str, float, float]]:
    """Benchmark, case, and its least number before and after, over rounds in which the trees take turns."""
    out = []
    for name in names:
        least: dict[Path, dict[str, float]] = {before: {}, after: {}}
        for turn in range(rounds):
            for tree in (before, after) if turn % 2 == 0 else (after, before):
                for case, number in run(tree, name, quick).items():
                    least[tree][case] = min(number, least[tree].get(case, number))
            say(f"{name}: round {turn + 1} of {rounds}")
        shared = [case for case in least[before] if case in least[after]]
        out += [(name, case, least[before][case], least[after][case]) for case in shared]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(NUMBERS))
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        git = ["git", "-C", str(HOME), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), options.ref], check=True)
        try:
            found = compared(before, HOME, options.only.split(","), options.rounds, options.quick)
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    rows = [(name, case, f"{old:.4g}", f"{new:.4g}", f"{new / old:.3f}") for name, case, old, new in found]
    print(markdown(["benchmark", "case", f"before ({options.ref})", "after", "after / before"], rows))
    slower = [case for _, case, old, new in found if new / old > options.limit]
    print(f"\nslower than {options.limit:g} times: {', '.join(slower) or 'nothing'}")
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
