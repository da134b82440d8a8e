"""Orthogonal matching pursuit against scikit-learn's: python benchmarks/omp.py [--quick] [--json] [--signals 10000].

    pursue_gram        against `sklearn.linear_model.orthogonal_mp_gram` on the same Gram matrix and products, both
                       computed beforehand: CPU time of one process whose libraries have one thread, rounds in turn,
                       medians; and, on all signals of both, the largest difference of a coefficient and the share of
                       signals with the same atoms. Signals are combinations of as many columns of a random matrix as
                       are looked for, with noise of a tenth of their length.
    two threads        wall time over that of one, medians of more rounds, then the shortest of each, then CPU time.
                       The spin column says what two threads can give here at all: 0.50 on two free cores, 1.00 where
                       only one is to be had.
    pursue_operator    against pursue: one signal at a time through the matrix, not its Gram matrix.
    a fast transform   one signal of 4,000 places of a wave of 2^20, 200 atoms: seconds, and the peak of memory.

Ratios of one run compare across machines, seconds do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import threadpoolctl  # type: ignore[import-untyped]  # it ships no types
from common.timing import in_turn, spin, spin_threads, timed
from numpy.typing import NDArray
from scipy.fft import dct
from sklearn.linear_model import orthogonal_mp_gram

from adumbra.numerics.operator_pursuit import MatrixOperator, pursue_operator
from adumbra.numerics.pursuit import pursue, pursue_gram

Reals = NDArray[np.float64]
Row = dict[str, Any]
SPIN = 50_000_000
SHAPES = [(256, 128, 10), (256, 128, 20), (1024, 256, 10), (1024, 256, 20)]


def problem(width: int, measurements: int, atoms: int, count: int) -> tuple[Reals, Reals]:
    """A matrix of unit columns, and noisy signals that are made of few of them."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(measurements, width))
    matrix /= np.linalg.norm(matrix, axis=0)
    code = np.zeros((count, width))
    for row in code:
        row[rng.choice(width, atoms, replace=False)] = rng.normal(size=atoms)
    signals = code @ matrix.T
    noise = rng.normal(size=signals.shape)
    noise *= 0.1 * np.linalg.norm(signals, axis=1, keepdims=True) / np.sqrt(measurements)
    return matrix, signals + noise


def compare(width: int, measurements: int, atoms: int, count: int, rounds: int) -> Row:
    matrix, signals = problem(width, measurements, atoms, count)
    gram, products = matrix.T @ matrix, signals @ matrix
    by_columns = np.ascontiguousarray(products.T)
    operator, few = MatrixOperator(matrix), signals[: min(count, 100)]
    work: dict[str, Callable[[], Any]] = {
        "gram": lambda: pursue_gram(gram, products, atoms=atoms, threads=1),
        "sklearn": lambda: orthogonal_mp_gram(gram, by_columns, n_nonzero_coefs=atoms),
        "pursue": lambda: pursue(matrix, signals, atoms=atoms, threads=1),
        "operator": lambda: [pursue_operator(operator, signal, atoms=atoms) for signal in few],
    }
    for name in ("pursue", "gram"):  # compile, and load what is loaded once
        work[name]()
    pursue_operator(operator, signals[0], atoms=atoms)
    wall, cpu, results = in_turn(work, rounds)
    pairs: dict[str, Callable[[], Any]] = {
        "gram": work["gram"],
        "gram 2": lambda: pursue_gram(gram, products, atoms=atoms, threads=2),
        "pursue": work["pursue"],
        "pursue 2": lambda: pursue(matrix, signals, atoms=atoms, threads=2),
        "spin": lambda: spin_threads(1, SPIN),
        "spin 2": lambda: spin_threads(2, SPIN),
    }
    spin(10)
    paired, paired_cpu, _ = in_turn(pairs, 5 * rounds)
    ours, theirs = results["gram"].dense(width), results["sklearn"].reshape(width, count).T
    direct = results["pursue"].dense(width)
    singly = np.concatenate([found.dense(width) for found in results["operator"]])
    ratios = sorted(a / b for a, b in zip(cpu["sklearn"], cpu["gram"], strict=True))
    used = {name: statistics.median(times) for name, times in cpu.items()}
    return {
        "atoms": width,
        "measurements": measurements,
        "nonzeros": atoms,
        "signals": count,
        "rounds": rounds,
        "cpu_ratio": used["sklearn"] / used["gram"],
        "lowest_cpu_ratio": ratios[0],
        "wall_ratio": statistics.median(wall["sklearn"]) / statistics.median(wall["gram"]),
        "us_cpu": used["gram"] / count * 1e6,
        "pursue_cpu_ratio": used["sklearn"] / used["pursue"],
        "largest_difference": float(np.abs(ours - theirs).max()),
        "same_atoms": float(((ours != 0) == (theirs != 0)).all(axis=1).mean()),
        "pursue_difference": float(np.abs(direct - ours).max()),
        "two_threads": {
            name: [
                statistics.median(paired[f"{name} 2"]) / statistics.median(paired[name]),
                min(paired[f"{name} 2"]) / min(paired[name]),
                statistics.median(paired_cpu[f"{name} 2"]) / statistics.median(paired_cpu[name]),
            ]
            for name in ("gram", "pursue", "spin")
        },
        "operator_cost": used["operator"] / len(few) / (used["pursue"] / count),
        "operator_difference": float(np.abs(singly - direct[: len(few)]).max()),
    }


class Waves:
    """Columns are the waves of a cosine transform, seen at some places."""

    def __init__(self, width: int, places: NDArray[np.int64]) -> None:
        self.shape = (len(places), width)
        self.places = places
        self.spent = 0.0  # seconds in transforms
        # cos^2 t = (1 + cos 2t) / 2: one transform gives the lengths of all waves
        seen = np.zeros(width)
        seen[places] = 1.0
        turns = np.exp(-1j * np.pi * np.arange(width) / width)
        squares = (len(places) + (np.fft.fft(seen) * turns).real) / width
        squares[0] = len(places) / width
        self.lengths: Reals = np.sqrt(squares)

    def correlate(self, residual: Reals) -> Reals:
        """Of all waves, by one transform."""
        start = time.perf_counter()
        spread = np.zeros(self.shape[1])
        spread[self.places] = residual
        out = np.asarray(dct(spread, norm="ortho", overwrite_x=True))
        self.spent += time.perf_counter() - start
        return out

    def column(self, atom: int) -> Reals:
        """One wave at the places."""
        height = np.sqrt((2.0 if atom else 1.0) / self.shape[1])
        return np.asarray(height * np.cos(np.pi * (2 * self.places + 1) * atom / (2 * self.shape[1])))


def transform(width: int, measurements: int, atoms: int) -> Row:
    """One long signal, in a process of its own for its memory."""
    rng = np.random.default_rng(1)
    waves = Waves(width, np.sort(rng.choice(width, measurements, replace=False)))
    for atom in (0, 5, width - 1):
        assert abs(float(np.linalg.norm(waves.column(atom))) - waves.lengths[atom]) < 1e-9
    signal = np.zeros(measurements)
    code = dict(zip(rng.choice(width, atoms, replace=False).tolist(), rng.normal(size=atoms).tolist(), strict=True))
    for atom, value in code.items():
        signal += value * waves.column(atom)
    pursue_operator(waves, signal, atoms=2)  # compile
    waves.spent = 0.0
    wall, cpu, found = timed(lambda: pursue_operator(waves, signal, atoms=atoms))
    spent = waves.spent
    tracemalloc.start()
    pursue_operator(waves, signal, atoms=atoms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    right = set(found.support[0].tolist()) & set(code)
    return {
        "atoms": width,
        "measurements": measurements,
        "nonzeros": atoms,
        "wall_s": wall,
        "cpu_s": cpu,
        "in_transforms": spent / wall,
        "peak_mb": peak / 2**20,
        "matrix_mb": width * measurements / 2**17,
        "found": len(right),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="few signals, once, and a shorter wave")
    parser.add_argument("--wave", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with threadpoolctl.threadpool_limits(1):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    if options.wave:
        print(json.dumps(transform(*map(int, options.wave.split(",")))))
        return
    if options.quick:
        options.signals, options.rounds = 300, 1
    rows = [compare(*shape, options.signals, options.rounds) for shape in SHAPES]
    size = "16384,600,40" if options.quick else "1048576,4000,200"
    done = subprocess.run([sys.executable, __file__, "--wave", size], stdout=subprocess.PIPE, check=True)
    wave = json.loads(done.stdout)
    if options.json:
        print(json.dumps({"pursuit": rows, "wave": wave}, indent=1))
        return
    print(f"{options.signals} signals, {options.rounds} rounds in turn, medians; CPU of scikit-learn over ours")
    heads = ["atoms x measured, non-zeros", "ratio", "lowest", "us CPU", "same atoms", "largest diff", "from signals"]
    print(f"{heads[0]:28} {' '.join(f'{head:>12}' for head in heads[1:])}")
    for row in rows:
        title = f"{row['atoms']} x {row['measurements']}, {row['nonzeros']}"
        numbers = f"{row['cpu_ratio']:12.1f} {row['lowest_cpu_ratio']:12.1f} {row['us_cpu']:12.1f}"
        equal = f"{row['same_atoms']:12.4%} {row['largest_difference']:12.1e} {row['pursue_cpu_ratio']:12.1f}"
        print(f"{title:28} {numbers} {equal}")
    print("\nTwo threads over one: wall time, shortest wall time, CPU time. An operator's CPU time over that of pursue")
    heads = ["atoms x measured, non-zeros", "pursue_gram", "pursue", "spin", "operator", "its diff"]
    print(f"{heads[0]:28} {' '.join(f'{head:>16}' for head in heads[1:])}")
    for row in rows:
        title = f"{row['atoms']} x {row['measurements']}, {row['nonzeros']}"
        pairs = [" ".join(f"{ratio:.2f}" for ratio in three) for three in row["two_threads"].values()]
        operator = f"{row['operator_cost']:16.1f} {row['operator_difference']:16.1e}"
        print(f"{title:28} {' '.join(f'{pair:>16}' for pair in pairs)} {operator}")
    print(
        f"\n{wave['atoms']} waves seen at {wave['measurements']} places, {wave['nonzeros']} non-zeros: "
        f"{wave['wall_s']:.1f} s, {wave['in_transforms']:.0%} of it in the transforms; {wave['found']} atoms found; "
        f"peak {wave['peak_mb']:.1f} MB beside a matrix of {wave['matrix_mb']:.0f} MB"
    )


if __name__ == "__main__":
    main()
