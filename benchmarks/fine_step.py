"""The fine step against plain loops: python benchmarks/fine_step.py [--quick] [--json] [--rounds 3] [--kernel all].

    a loop over records    numpy, one record at a time: the slope from the rows of its two classes, the label from the
                           distances to all classes, the constant terms computed beforehand
    all records at once    numpy, every step for all records that are not there yet: squared distances by a matrix
                           product, class sums by another, all classes in both
    two threads            wall time of ours with two threads over that with one; 0.50 at best, 1.00 where only one
                           core is to be had

CPU time of one process whose libraries have one thread, rounds in turn, medians; both over ours. Public rows and
records are normal clouds in the shapes of two of the paper's tables: HAR (1,440 public rows, 720 records, 5 numbers,
30 classes) and Adult (1,200, 600, 1 number, 2 classes). A record-step is one step of one record. All three must take
the same steps; the largest difference of a number is printed (with the laplacian kernel, whose slope jumps at every
public row, rounding grows from step to step in records that circle such a row). Ratios of one run compare across
machines, seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import threadpoolctl  # type: ignore[import-untyped]  # it ships no types
from common.timing import in_turn
from numpy.typing import NDArray

from adumbra.jupa.learning.kernel_choice import fit_fine_step
from adumbra.jupa.learning.mmd import KERNELS, FineStep

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Answer = tuple[Reals, Integers]

SHAPES = {"HAR": (1440, 720, 5, 30, 0.4), "Adult": (1200, 600, 1, 2, 0.6)}


def kernel_values(kernel: str, q: Reals) -> Reals:
    """The kernel, where q is a squared distance in bandwidths."""
    if kernel == "rbf":
        return np.asarray(np.exp(-0.5 * q))
    if kernel == "laplacian":
        return np.asarray(np.exp(-np.sqrt(q)))
    return np.asarray(1 / np.sqrt(1 + q) if kernel == "inverse-multiquadric" else 1 / (1 + 0.5 * q))


def slopes(kernel: str, q: Reals) -> Reals:
    """What the way to a public row counts in the gradient."""
    values = kernel_values(kernel, q)
    if kernel == "laplacian":
        return np.asarray(np.divide(values, np.sqrt(q), out=np.zeros_like(q), where=q > 0))
    return np.asarray(values ** {"rbf": 1, "inverse-multiquadric": 3, "cauchy": 2}[kernel])


def squared(a: Reals, b: Reals, h: float) -> Reals:
    sums = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(sums, 0) / h**2)


def constants(fine: FineStep) -> Reals:
    rule = fine.rule
    groups = [rule.rows[rule.labels == label] for label in range(rule.classes)]
    return np.array([kernel_values(rule.kernel, squared(rows, rows, rule.bandwidth)).mean() for rows in groups])


def one_by_one(fine: FineStep, records: Reals, targets: Integers) -> Answer:
    h, rule, first_terms = fine.bandwidth, fine.rule, constants(fine)
    groups = [fine.rows[fine.labels == label] for label in range(rule.classes)]
    order = np.argsort(rule.labels, kind="stable")
    rows, counts = rule.rows[order], np.bincount(rule.labels)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])

    def label(z: Reals) -> int:
        away = rows - z
        values = kernel_values(rule.kernel, np.einsum("ij,ij->i", away, away) / h**2)
        return int(np.argmin(first_terms - 2 * np.add.reduceat(values, starts) / counts))

    def pull(members: Reals, z: Reals) -> Reals:
        away = members - z
        return np.asarray(slopes(fine.kernel, np.einsum("ij,ij->i", away, away) / h**2) @ away / len(members))

    out, steps = records.copy(), np.zeros(len(records), np.int64)
    for i, target in enumerate(targets):
        source = now = label(records[i])
        theta = np.zeros(records.shape[1])
        while now != target and steps[i] < fine.most_steps:
            z = records[i] + theta
            theta = theta - fine.step * (pull(groups[source], z) - pull(groups[target], z) + fine.damping * theta)
            length = float(np.sqrt(theta @ theta))
            if length > fine.farthest * h:
                theta *= fine.farthest * h / length
            steps[i] += 1
            now = label(records[i] + theta)
        out[i] = records[i] + theta
    return out, steps


def all_at_once(fine: FineStep, records: Reals, targets: Integers) -> Answer:
    h, rule, first_terms = fine.bandwidth, fine.rule, constants(fine)
    ground = np.eye(rule.classes)[fine.labels] / np.bincount(fine.labels)
    shares = np.eye(rule.classes)[rule.labels] / np.bincount(rule.labels)

    def label(z: Reals) -> Integers:
        values = kernel_values(rule.kernel, squared(z, rule.rows, h)) @ shares
        return np.asarray((first_terms - 2 * values).argmin(axis=1))

    out, theta, steps = records.copy(), np.zeros_like(records), np.zeros(len(records), np.int64)
    source = label(records)
    left = np.flatnonzero(source != targets)
    for _ in range(fine.most_steps):
        if not len(left):
            break
        z = out[left]
        weights = slopes(fine.kernel, squared(z, fine.rows, h)) * (ground[:, source[left]] - ground[:, targets[left]]).T
        slope = weights @ fine.rows - weights.sum(axis=1, keepdims=True) * z
        theta[left] -= fine.step * (slope + fine.damping * theta[left])
        lengths = np.linalg.norm(theta[left], axis=1, keepdims=True)
        theta[left] *= np.minimum(1.0, fine.farthest * h / np.maximum(lengths, 1e-300))
        out[left] = records[left] + theta[left]
        steps[left] += 1
        left = left[label(out[left]) != targets[left]]
    return out, steps


def problem(shape: str, kernel: str, share: float, most_steps: int) -> tuple[FineStep, Reals, Integers]:
    """A fitted step, records and their random targets."""
    public, count, width, classes, apart = SHAPES[shape]
    rng = np.random.default_rng(0)
    centres = apart * rng.normal(size=(classes, width))
    labels = np.arange(public) % classes
    rows = centres[labels] + rng.normal(size=(public, width))
    count = int(share * count)
    records = centres[np.arange(count) % classes] + rng.normal(size=(count, width))
    fine = fit_fine_step(rows, labels, classes, seed=b"0", kernel=kernel, bandwidth=1.0, most_steps=most_steps)
    return fine, records, rng.integers(0, classes, count)


def ours(fine: FineStep, records: Reals, targets: Integers, threads: int) -> Answer:
    os.environ["ADUMBRA_THREADS"] = str(threads)
    moved = fine.move(records, targets)
    return moved.rows, moved.steps


def compare(shape: str, kernel: str, options: argparse.Namespace) -> dict[str, Any]:
    fine, records, targets = problem(shape, kernel, 0.1 if options.quick else 1.0, 30 if options.quick else 200)
    fine.move(records[:1], targets[:1])  # compile
    work: dict[str, Callable[[], Answer]] = {
        "ours": lambda: ours(fine, records, targets, 1),
        "two": lambda: ours(fine, records, targets, 2),
        "loop": lambda: one_by_one(fine, records, targets),
        "at once": lambda: all_at_once(fine, records, targets),
    }
    wall, cpu, answers = in_turn(work, 1 if options.quick else options.rounds)
    rows, steps = answers["ours"]
    for name in ("two", "loop", "at once"):
        assert np.mean(answers[name][1] == steps) > 0.99, f"{name} takes other steps"
    same = np.all([answers[name][1] == steps for name in answers], axis=0)
    used = {name: statistics.median(times) for name, times in cpu.items()}
    total = int(steps.sum())
    return {
        "shape": shape,
        "kernel": kernel,
        "records": len(records),
        "record_steps": total,
        "reached": float(np.mean(fine.rule.label(rows) == targets)),
        "loop_over_ours": used["loop"] / used["ours"],
        "at_once_over_ours": used["at once"] / used["ours"],
        "two_threads": statistics.median(wall["two"]) / statistics.median(wall["ours"]),
        "us_per_record_step": used["ours"] / total * 1e6,
        "seconds": used["ours"],
        "same_steps": float(same.mean()),
        "largest_difference": max(float(np.abs(answers[name][0] - rows)[same].max()) for name in ("loop", "at once")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernel", choices=(*KERNELS, "all"), default="rbf")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, at most 30 steps, once")
    options = parser.parse_args()
    kernels = KERNELS if options.kernel == "all" else (options.kernel,)
    with threadpoolctl.threadpool_limits(1):
        rows = [compare(shape, kernel, options) for shape in SHAPES for kernel in kernels]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print("CPU time of a loop over records, and of all records at once, over ours")
    heads = ["records", "record-steps", "reached", "loop", "at once", "2 threads", "us a step", "same steps", "diff"]
    print(f"{'shape, kernel':28} {' '.join(f'{head:>12}' for head in heads)}")
    for row in rows:
        title = f"{row['shape']}, {row['kernel']}"
        counts = f"{row['records']:12} {row['record_steps']:12} {row['reached']:12.1%}"
        ratios = f"{row['loop_over_ours']:12.1f} {row['at_once_over_ours']:12.1f} {row['two_threads']:12.2f}"
        rest = f"{row['us_per_record_step']:12.1f} {row['same_steps']:12.2%} {row['largest_difference']:12.1e}"
        print(f"{title:28} {counts} {ratios} {rest}")


if __name__ == "__main__":
    main()
