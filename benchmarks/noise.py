"""The whole noise step against numpy's `Y + standard_normal`: python benchmarks/noise.py [--quick] [--json].

CPU time of this process (all threads), rounds interleaved, medians, as ratios to numpy = 1.00: ratios of one
run compare across machines, seconds do not. The spin rows say what two threads can give here at all: their
wall ratio is 0.50 on two free cores and 1.00 where only one is to be had.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import numpy as np
from common.timing import in_turn, spin_threads

from adumbra.noise.add import add_noise

T, STEP = 1e6 / 3, 2.0**-16


def opendp_gaussian(n: int) -> Callable[[], object] | None:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=int), scale=T)
    return lambda: measurement([0] * n)


def cases(rows: int, columns: int) -> dict[str, tuple[int, Callable[[], object]]]:
    """Name -> (numbers made per call, the call)."""
    rng = np.random.default_rng(0)
    exact = np.rint(rng.standard_normal((rows, columns)) * 2**20)
    n, small = exact.size, 2000
    out: dict[str, tuple[int, Callable[[], object]]] = {
        "numpy Y + standard_normal": (n, lambda: exact + rng.standard_normal(exact.shape)),
        "numpy Y + laplace": (n, lambda: exact + rng.laplace(size=exact.shape)),
        "adumbra gaussian": (n, lambda: add_noise("gaussian", exact, T, STEP)),
        "adumbra laplace": (n, lambda: add_noise("laplace", exact, T, STEP)),
        "adumbra gaussian, worst t": (n, lambda: add_noise("gaussian", exact, 2.0**23 + 1, STEP)),
        "adumbra gaussian, 2 threads": (n, lambda: add_noise("gaussian", exact, T, STEP, threads=2)),
        "adumbra laplace, 2 threads": (n, lambda: add_noise("laplace", exact, T, STEP, threads=2)),
        "spin control, 1 thread": (n, lambda: spin_threads(1, 20 * n)),
        "spin control, 2 threads": (n, lambda: spin_threads(2, 20 * n)),
    }
    oracle = opendp_gaussian(small)
    if oracle is not None:
        out["OpenDP vector gaussian (integers)"] = (small, oracle)
    return out


def measure(rows: int, columns: int, rounds: int) -> list[dict[str, float | str]]:
    todo = cases(rows, columns)
    for _, call in todo.values():
        call()  # compile, build tables
    wall, cpu, _ = in_turn({name: call for name, (_, call) in todo.items()}, rounds)
    for name, (n, _) in todo.items():
        wall[name], cpu[name] = [seconds / n for seconds in wall[name]], [seconds / n for seconds in cpu[name]]
    base = "numpy Y + standard_normal"
    base_cpu, base_wall = statistics.median(cpu[base]), statistics.median(wall[base])
    return [
        {
            "case": name,
            "cpu_ratio": statistics.median(cpu[name]) / base_cpu,
            "wall_ratio": statistics.median(wall[name]) / base_wall,
            "ns_cpu": statistics.median(cpu[name]) * 1e9,
        }
        for name in todo
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    rows, rounds = (20_000, 5) if options.quick else (100_000, 15)
    result = measure(rows, 20, rounds)
    if options.json:
        print(json.dumps({"rows": rows, "columns": 20, "rounds": rounds, "results": result}, indent=1))
        return
    print(f"{rows} x 20 numbers, {rounds} interleaved rounds, medians")
    print(f"{'case':36} {'CPU ratio':>10} {'wall ratio':>11} {'ns CPU':>9}")
    for row in result:
        print(f"{row['case']:36} {row['cpu_ratio']:10.2f} {row['wall_ratio']:11.2f} {row['ns_cpu']:9.1f}")
    by_name = {row["case"]: row for row in result}
    one, two = by_name["spin control, 1 thread"], by_name["spin control, 2 threads"]
    print(f"two threads spin in {float(two['wall_ratio']) / float(one['wall_ratio']):.2f} of one thread's wall time")


if __name__ == "__main__":
    main()
