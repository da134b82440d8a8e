"""Private principal components beside computing X'X and its eigenvectors with no guarantee at all.

    python benchmarks/pca.py [--rows 100000] [--columns 500] [--threads 1,2] [--rounds 5] [--wide] [--memory]
                             [--peers FOLDER] [--json] [--quick]

The floor is numpy's `X.T @ X` (float64) and numpy's `eigh`. Ours is the whole release by `AnalyzeGauss(components=10)`:
checks, encoding to the grid, the check at the door, cutting rows to their length, the exact second moment, noise,
axes with error bars, a folder with its card on disk. Everything runs in turns, `--rounds` times, on the same cores and
with the same number of threads for both; ratios are taken within a round, and their median is shown. CPU seconds are
those of all threads. On a shared machine look at CPU with one thread first.

`--wide` takes d = 2,000 and 5,000 at fewer rows. `--memory` streams a Parquet file in a process of its own and shows
the peak. `--peers` makes a virtual environment for each of diffprivlib (with an older scikit-learn) and OpenDP in
FOLDER, once, and has them fit the same array in turns with the rest. Peers take the data as it is, bound its rows to
the same length and publish axes; none of them writes a card or keeps exact integers. Their samplers draw by rejection
and hardly end where a few directions hold most of the variance, as in this table; `--even` has all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common.timing import timed

PEERS = {
    "diffprivlib": ["diffprivlib", "scikit-learn<1.6"],
    "opendp": ["opendp[scikit-learn]"],
}

_PEER = """
import json, signal, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
name, path, bound, patience = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
class TooLong(Exception): pass
def stop(*_): raise TooLong(f"one fit took more than {patience:g} CPU seconds")
signal.signal(signal.SIGPROF, stop)
X = np.load(path)
n, d = X.shape
if name == "diffprivlib":
    import diffprivlib
    from diffprivlib.models import PCA
    version = diffprivlib.__version__
    def fit():
        PCA(n_components=10, epsilon=1.0, centered=True, data_norm=bound).fit(X)
else:
    import opendp, opendp.prelude as dp
    from importlib.metadata import version as version_of
    version = version_of("opendp")
    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    try:
        from opendp.extras.sklearn.decomposition import PCA
    except ImportError:
        from opendp.sklearn.decomposition import PCA
    def fit():
        PCA(epsilon=1.0, row_norm=bound, n_samples=n, n_features=d, n_components=10).fit(X)
print(json.dumps(version), flush=True)
for line in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, patience)
        fit()
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {str(error)[:200]}"), flush=True)
"""

_STREAM = """
import sys
import adumbra as ad
from adumbra.mechanisms.analyze_gauss import AnalyzeGauss
def peak():  # of this program alone: getrusage remembers what started it
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
start = peak()
ad.release(sys.argv[1], sys.argv[2], AnalyzeGauss(components=10), ad.Budget(1.0, 1e-6))
print(start, peak())
"""


class Peer:
    """Another library, in an environment and a process of its own, that fits when it is told to."""

    def __init__(self, name: str, folder: Path, array: Path, bound: float, patience: float) -> None:
        self.name, self.problem = name, ""
        home = folder / name
        python = home / "bin" / "python"
        if not (home / "ready").exists():
            venv.create(home, with_pip=True)
            made = subprocess.run(
                [python, "-m", "pip", "install", "-q", *PEERS[name]], capture_output=True, text=True, check=False
            )
            if made.returncode:
                self.problem = "could not be installed: " + (made.stderr.strip().splitlines() or ["?"])[-1]
                return
            (home / "ready").touch()
        self.process = subprocess.Popen(
            [python, "-c", _PEER, name, array, str(bound), str(patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        version = self._line()
        self.label = f"{name} {version}" if not self.problem else name

    def _line(self) -> Any:
        text = self.process.stdout.readline() if self.process.stdout else ""
        if not text:
            errors = self.process.stderr.read() if self.process.stderr else ""
            self.problem = "could not be run: " + (errors.strip().splitlines() or ["?"])[-1]
            return None
        return json.loads(text)

    def fit(self) -> tuple[float, float] | None:
        """Wall and CPU seconds of one fit; None if it failed."""
        if self.problem or self.process.stdin is None:
            return None
        self.process.stdin.write("fit\n")
        self.process.stdin.flush()
        found = self._line()
        if isinstance(found, str):
            self.problem = found
        return None if self.problem else (found[0], found[1])

    def close(self) -> None:
        """Let it end."""
        if hasattr(self, "process"):
            self.process.communicate()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One size, in this process, whose threads are already set."""
    import numpy as np
    import polars as pl

    import adumbra as ad
    from adumbra.declare.space import GRID
    from adumbra.mechanisms.analyze_gauss import AnalyzeGauss
    from adumbra.numerics import spectrum
    from adumbra.numerics.integer_kernels import add_squares, fault
    from adumbra.tables.encode import encode

    rows, columns = options.rows, options.columns
    rng = np.random.default_rng(0)
    table = np.empty((rows, columns))
    mix = rng.normal(size=(8, columns)) / 8 * (not options.even)
    for start in range(0, rows, 10_000):
        part = table[start : start + 10_000]
        part[:] = np.tanh(rng.normal(size=(len(part), 8)) @ mix + rng.normal(size=part.shape) / 4)
    names = [f"x{i}" for i in range(columns)]
    schema = ad.Schema.from_dict({"columns": {name: {"kind": "number", "low": -1, "high": 1} for name in names}})
    mechanism, budget = AnalyzeGauss(components=10), ad.Budget(1.0, 1e-6)

    def release(source: object) -> object:
        return ad.release(source, schema, mechanism, budget)

    plan = ad.plan(table[:1], schema, mechanism, budget)
    clip = next(iter(plan.queries.values())).clip
    size = max(1024, 2**19 // columns)
    square, limit = np.zeros((columns, columns)), np.full(columns, GRID / 2)
    block = table[:size]
    encoded = encode(block, schema).values
    times = range(max(1, rows // size))

    def repeated(work: Callable[[], object]) -> Callable[[], object]:
        def again() -> None:
            for _ in times:
                work()

        return again

    work: dict[str, Callable[[], object]] = {
        "X'X and eigh": lambda: np.linalg.eigh(table.T @ table),
        "release of the array": lambda: release(table),
    }
    if not options.wide_child:
        frame = pl.DataFrame(table, schema=names, orient="row")
        work["release of a polars frame"] = lambda: release(frame)
    try:
        from adumbra.sklearn import PrivatePCA

        estimator = PrivatePCA(low=-1.0, high=1.0, n_components=10, epsilon=1.0, delta=1e-6)
        work["PrivatePCA.fit"] = lambda: estimator.fit(table)
    except (ImportError, TypeError):
        pass
    if options.parts:
        moment = table[: 4 * columns].T @ table[: 4 * columns]
        work |= {
            "  part: X'X alone": lambda: table.T @ table,
            "  part: eigh alone": lambda: np.linalg.eigh(moment),
            "  part: encoding": repeated(lambda: encode(block, schema)),
            "  part: check at the door": repeated(lambda: fault(encoded, -limit, limit, np.inf)),
            "  part: rows clipped to length": repeated(lambda: clip.of(encoded)),
            "  part: exact second moment": repeated(lambda: add_squares(encoded, square)),
            "  part: axes with error bars": lambda: spectrum.leading(moment, 40),
        }
    peers: list[Peer] = []
    with tempfile.TemporaryDirectory() as place:
        if options.peers is not None:
            np.save(Path(place) / "array.npy", table)
            bound = 2 * clip.bound / GRID  # a range of 2 is 1 in encoded units
            peers = [Peer(name, options.peers, Path(place) / "array.npy", bound, options.patience) for name in PEERS]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
        failed = {peer.name: peer.problem for peer in peers if peer.problem}
        found |= {peer.label: [] for peer in peers if not peer.problem}
        for name in work:
            if name.startswith(("release", "PrivatePCA")):
                work[name]()  # what a process pays once: libraries, compiled code from its cache
        for _ in range(options.rounds):
            for name, each in work.items():
                found[name].append(timed(each)[:2])
            for peer in peers:
                one = peer.fit()
                if one is not None:
                    found[peer.label].append(one)
                elif peer.problem:
                    failed[peer.name] = peer.problem
        for peer in peers:
            peer.close()
    floor = found["X'X and eigh"]
    lines = []
    for name, each in found.items():
        if each:
            ratio = [np.median([a[i] / b[i] for a, b in zip(each, floor, strict=False)]) for i in (0, 1)]
            lines.append({"what": name} | dict(zip(("wall", "cpu"), map(float, np.median(each, axis=0)), strict=True)))
            lines[-1] |= {"wall_ratio": float(ratio[0]), "cpu_ratio": float(ratio[1])}
    return {"rows": rows, "columns": columns, "threads": options.threads, "lines": lines, "failed": failed}


def streamed(rows: int, columns: int) -> dict[str, Any]:
    """Peak memory of a release from a Parquet file, at n and 3 n rows."""
    import numpy as np
    import polars as pl
    import pyarrow.parquet as pq

    names = [f"x{i}" for i in range(columns)]
    peaks = {}
    with tempfile.TemporaryDirectory() as place:
        schema = Path(place) / "schema.toml"
        schema.write_text("\n".join(f'[columns.{name}]\nkind = "number"\nlow = -1\nhigh = 1\n' for name in names))
        for count in (rows, 3 * rows):
            path, rng = Path(place) / f"{count}.parquet", np.random.default_rng(0)
            writer = None
            for start in range(0, count, 4096):
                part = pl.DataFrame(rng.uniform(-1, 1, (min(4096, count - start), columns)), schema=names).to_arrow()
                writer = writer or pq.ParquetWriter(path, part.schema, use_dictionary=False)
                writer.write_table(part)
            if writer is not None:
                writer.close()
            done = subprocess.run(
                [sys.executable, "-c", _STREAM, path, schema], capture_output=True, text=True, check=True
            )
            start_kb, peak_kb = map(int, done.stdout.split())
            peaks[count] = {"start_mb": start_kb / 1024, "peak_mb": peak_kb / 1024, "array_mb": count * columns / 2**17}
            path.unlink()
    return {"columns": columns, "peaks": peaks}


def child(options: argparse.Namespace, rows: int, columns: int, threads: int, wide: bool) -> dict[str, Any]:
    """`measure` in a process whose libraries have that many threads."""
    command = [sys.executable, __file__, "--child", "--rows", str(rows), "--columns", str(columns)]
    command += ["--threads", str(threads), "--rounds", str(max(1, options.rounds if not wide else options.rounds // 2))]
    command += ["--wide-child"] * wide + ["--parts"] * options.parts + ["--even"] * options.even
    if options.peers is not None and not wide:
        command += ["--peers", str(options.peers), "--patience", str(options.patience)]
    one = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        command, env=os.environ | one | {"ADUMBRA_THREADS": str(threads)}, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['rows']} x {found['columns']}, threads: {found['threads']}")
    print(f"{'':32} {'wall s':>8} {'ratio':>7} {'CPU s':>8} {'ratio':>7}")
    for line in found["lines"]:
        ours = f"{line['wall']:8.3f} {line['wall_ratio']:7.2f} {line['cpu']:8.3f} {line['cpu_ratio']:7.2f}"
        print(f"{line['what']:32} {ours}")
    for name, problem in found["failed"].items():
        print(f"{name:32} {problem}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=500)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--threads", default=f"1,{cores}" if cores > 1 else "1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", action="store_true", help="also the parts of a release, one by one")
    parser.add_argument("--even", action="store_true", help="a table whose directions all have the same variance")
    parser.add_argument("--wide", action="store_true", help="d = 2,000 and 5,000")
    parser.add_argument("--memory", action="store_true", help="peak memory, streaming from Parquet")
    parser.add_argument("--peers", type=Path, help="a folder for the peers' environments")
    parser.add_argument("--patience", type=float, default=120.0, help="CPU seconds that a peer's fit may take")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a small table, once")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--wide-child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options)))
        return
    if options.quick:
        options.rows, options.columns, options.rounds, options.threads, options.parts = 4000, 60, 1, "1", True
    threads = [int(each) for each in options.threads.split(",")]
    sizes = [(options.rows, options.columns, False)]
    if options.wide:
        sizes += [(20_000, 2_000, True), (10_000, 5_000, True)]
    results = [child(options, rows, columns, each, wide) for rows, columns, wide in sizes for each in threads]
    memory = []
    if options.memory:
        memory = [streamed(options.rows // 3, options.columns), *([streamed(4_000, 5_000)] if options.wide else [])]
    if options.json:
        print(json.dumps({"times": results, "memory": memory}, indent=2))
        return
    for found in results:
        show(found)
    for found in memory:
        for count, peak in found["peaks"].items():
            size = f"{count} x {found['columns']}, an array of {peak['array_mb']:.0f} MB"
            print(f"{size}, streamed: peak {peak['peak_mb']:.0f} MB, {peak['start_mb']:.0f} MB of it before the table")


if __name__ == "__main__":
    main()
