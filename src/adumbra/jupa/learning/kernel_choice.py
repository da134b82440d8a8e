"""Which kernel and bandwidth a fine step has: chosen by cross-validation, on public rows only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import at_least, one_of
from adumbra.jupa.learning.mmd import (
    KERNELS,
    Choice,
    FineStep,
    LabelRule,
    check_steps,
    checked_bandwidth,
    labelled_rows,
    rows_of_numbers,
)
from adumbra.numerics.splits import folds as fold_numbers
from adumbra.numerics.splits import parts, public_generator

__all__ = ["FACTORS", "choose_kernel", "fit_fine_step", "median_distance"]

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Bandwidths that are tried, in units of `median_distance`."""
CHOICES = ("reach", "label")
MEDIAN_ROWS = 2000  # rows whose distances to each other are computed for their median
CHOICE_ROWS = 1500  # rows that kernels and bandwidths are tried on
_MORE = "merge rare classes or add public rows"


def median_distance(rows: Reals) -> float:
    """The median heuristic for a bandwidth: the root of half the median squared distance of two rows that differ.

    Of more than 2,000 rows, as many at even spaces stand for all.

    >>> median_distance(np.array([[0.0], [0.0], [2.0]]))
    1.414...
    """
    given = rows_of_numbers(rows, "rows")
    if len(given) > MEDIAN_ROWS:
        given = given[np.linspace(0, len(given) - 1, MEDIAN_ROWS).astype(np.int64)]
    squares = pdist(given, "sqeuclidean") if len(given) > 1 else np.empty(0)
    apart = squares[squares > 0]
    if apart.size == 0:
        raise InputError("rows that differ", "rows that are all the same", "give more rows, or another projection")
    return math.sqrt(float(np.median(apart)) / 2.0)


def choose_kernel(
    rows: Reals,
    labels: Integers,
    classes: int,
    *,
    kernels: Sequence[str] = KERNELS,
    factors: Sequence[float] = FACTORS,
    folds: int = 3,
    seed: bytes,
    by: str = "reach",
    step: float = 1.0,
    damping: float = 1e-3,
    most_steps: int = 200,
    farthest: float = 10.0,
    progress: Progress | None = None,
) -> Choice:
    """The kernel and bandwidth that serve best on public `rows`, of `labels` 0 .. `classes` - 1, that were held out.

    Out of `kernels` and `factors` of `median_distance`, by cross-validation over so many `folds`, drawn by `seed`.
    `by="reach"`: by which the most of them reach a random target; of equals, by which the most labels are true.
    `by="label"`: by which the most labels of equation (10) are true, as in the paper; of equals, the most reach. Where
    the rule is near chance, that takes the smallest bandwidth, and then few rows move at all.

    What is still equal is decided by the order of `kernels` and `factors`. Cost is bounded: at most about 1,500 rows,
    the same number of every class, are tried. Every class needs rows enough for both halves of a training part, three
    at the least. `step`, `damping`, `most_steps` and `farthest` are those of the `FineStep` that is tried. `progress`
    is called with ("kernel", tried, all).
    """
    classes = at_least(2, "give the number of classes", classes=classes)
    folds = at_least(2, "give the number of parts for cross-validation", folds=folds)
    _check_candidates(kernels, factors, by)
    check_steps(step, damping, most_steps, farthest)
    given, known = labelled_rows(rows, labels, classes)
    unit = median_distance(given)
    some = _at_most(CHOICE_ROWS // classes, known, public_generator(seed, "rows to choose a kernel by"))
    given, known = given[some], known[some]
    rounds = list(_rounds(seed, known, classes, folds))
    table: list[dict[str, Any]] = []
    for kernel in kernels:
        for factor in factors:

            def made(kept: Integers, kernel: str = kernel, width: float = factor * unit) -> LabelRule:
                return LabelRule(given[kept], known[kept], classes, kernel, width)

            reached = right = 0
            for one in rounds:
                rule, (ground, width) = made(one.verification), (one.ground, factor * unit)
                fine = FineStep(given[ground], known[ground], rule, kernel, width, step, damping, most_steps, farthest)
                reached += int(fine.move(given[one.held], one.targets).reached.sum())
                right += int((made(one.kept).label(given[one.held]) == known[one.held]).sum())
            shares = {"reach": reached / len(known), "label": right / len(known)}
            table.append({"kernel": kernel, "factor": float(factor), **shares})
            if progress is not None:
                progress("kernel", len(table), len(kernels) * len(factors))
    then = "label" if by == "reach" else "reach"
    best = max(table, key=lambda row: (row[by], row[then]))
    return Choice(best["kernel"], best["factor"] * unit, table)


def _check_candidates(kernels: Sequence[str], factors: Sequence[float], by: str) -> None:
    one_of(CHOICES, by=by)
    for kernel in kernels:
        one_of(KERNELS, kernel=kernel)
    for factor in factors:
        checked_bandwidth(factor=factor)
    if not kernels or not factors:
        raise InputError("at least one kernel and one factor", "none", "leave the default")


@dataclass(frozen=True, eq=False)
class _Round:
    """One fold held out: positions of the rows that are kept, in two halves, and of those held out with targets."""

    kept: Integers
    ground: Integers
    verification: Integers
    held: Integers
    targets: Integers


def _rounds(seed: bytes, labels: Integers, classes: int, folds: int) -> Iterator[_Round]:
    number = fold_numbers(seed, labels, folds)
    for fold in range(folds):
        kept, held = np.flatnonzero(number != fold), np.flatnonzero(number == fold)
        ground, verification = _halves(seed, labels[kept], classes, _MORE + ", or give kernel and bandwidth")
        targets = public_generator(seed, f"targets of fold {fold}").integers(0, classes, len(held))
        yield _Round(kept, kept[ground], kept[verification], held, targets)


def fit_fine_step(
    z_public: Reals,
    labels: Integers,
    classes: int,
    *,
    seed: bytes,
    kernel: str = "auto",
    bandwidth: float | None = None,
    step: float = 1.0,
    damping: float = 1e-3,
    most_steps: int = 200,
    farthest: float = 10.0,
    by: str = "reach",
    progress: Progress | None = None,
) -> FineStep:
    """A fine step from public rows `z_public`, one half of each class for the way and one for the label.

    `labels`, `classes`, `seed`, `by` and `progress` as in `choose_kernel`; `step`, `damping`, `most_steps` and
    `farthest` as in `FineStep`. `bandwidth` is a factor of `median_distance`. What is left open, the `kernel` ("auto"),
    the bandwidth (None) or both, is chosen by `choose_kernel`, and the table of what was tried is kept in `choice`. The
    same rows and seed give the same result. Every class needs two rows, and three where something is chosen.
    """
    classes = at_least(2, "give the number of classes", classes=classes)
    one_of(("auto", *KERNELS), kernel=kernel)
    one_of(CHOICES, by=by)
    given, known = labelled_rows(z_public, labels, classes)
    ground, verification = _halves(seed, known, classes, _MORE)
    if bandwidth is None or kernel == "auto":
        choice = choose_kernel(
            given,
            known,
            classes,
            kernels=KERNELS if kernel == "auto" else (kernel,),
            factors=FACTORS if bandwidth is None else (checked_bandwidth(bandwidth=bandwidth),),
            seed=seed,
            by=by,
            step=step,
            damping=damping,
            most_steps=most_steps,
            farthest=farthest,
            progress=progress,
        )
        kernel, width = choice.kernel, choice.bandwidth
    else:
        choice, width = None, checked_bandwidth(bandwidth=bandwidth) * median_distance(given)
    rule = LabelRule(given[verification], known[verification], classes, kernel, width)
    return FineStep(given[ground], known[ground], rule, kernel, width, step, damping, most_steps, farthest, choice)


def _halves(seed: bytes, labels: Integers, classes: int, remedy: str) -> list[Integers]:
    """Two disjoint halves with every class in both."""
    halves = parts(seed, labels, (0.5, 0.5))
    for half in halves:
        counts = np.bincount(labels[half], minlength=classes)
        if np.any(counts == 0):
            raise InputError("public rows of every class for each part", f"too few of class {counts.argmin()}", remedy)
    return halves


def _at_most(count: int, labels: Integers, generator: np.random.Generator) -> Integers:
    """Positions of at most that many rows of each class, and of 12 in any case, in their order."""
    chosen = [generator.permutation(np.flatnonzero(labels == label))[: max(count, 12)] for label in np.unique(labels)]
    return np.sort(np.concatenate(chosen))
