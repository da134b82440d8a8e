"""Moving rows from one class to another along the distance of kernel means: equations (10) to (14) of the JUPA paper.

A class is its mean in the space of a kernel, m_l = mean of phi(x) over its public rows. The label of a row z is the
class whose mean is nearest (equation 10),

    |m_l - phi(z)|^2 = mean of k(x, x') - 2 mean of k(x, z) + k(z, z),

and a row is moved to a target class t by going down |m_t - phi(z)|^2 - |m_s - phi(z)|^2 (equation 12) until its label
is t. The label is taken with one half of the public rows, the slope with the other.

What differs from the paper, and why:

    z is the row plus theta, where theta is all of the way so far. Read literally, equations (11) and (14) add theta
    again in every step: rows gather speed and fly to where every kernel is 0.
    Everything is counted in bandwidths h: the step is alpha = step h^2 and the damping lambda = damping / h^2, so that
    another unit of the rows changes nothing. As in equation (13), the slope is half of that of the two kernel
    distances.
    theta is kept within `farthest` bandwidths.
    The source s is always the label by equation (10). With the true class instead, the way that a row went would tell
    that class to whoever runs the same steps.

Nothing here is private, and nothing here makes a release private: an adversary who trains on moved rows often reads
the class as well as before. A row may also have no way to its target; `Moved.reached` says so.

With k = f(q), q = |x - z|^2 / h^2, the kernels f are exp(-q/2), exp(-sqrt q), 1/sqrt(1 + q) and 1/(1 + q/2). But for
the second, f is 1 - q/2 near 0, so that a bandwidth means the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import at_least, between, one_of, positive
from adumbra.jupa.learning.kernel_passes import distances_to_means, mean_within, move_rows
from adumbra.numerics.integer_kernels import worker_threads

__all__ = [
    "KERNELS",
    "Choice",
    "FineStep",
    "LabelRule",
    "Moved",
    "check_steps",
    "checked_bandwidth",
    "labelled_rows",
    "rows_of_numbers",
]


KERNELS = ("rbf", "laplacian", "inverse-multiquadric", "cauchy")
LARGEST = 1e100
"""Numbers beyond it are refused: the square of a distance must be a number."""
BLOCK = 32  # rows that one worker takes at a time; the same for any number of threads, and so are all bits


# ---- the label of equation (10)


@dataclass(frozen=True, eq=False)
class LabelRule:
    """The class whose mean is nearest in the space of a kernel, by public rows and their labels 0 .. classes - 1.

    Every class needs a row. Of classes that are equally near, the first counts: far from all rows, where every
    kernel is 0, that is one class for everybody.

    >>> rule = LabelRule(np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1]), 2, "rbf", 1.0)
    >>> rule.label(np.array([[0.4], [4.0]])).tolist()
    [0, 1]
    """

    rows: Reals
    labels: Integers
    classes: int
    kernel: str
    bandwidth: float

    def __post_init__(self) -> None:
        classes = at_least(2, "give the number of classes", classes=self.classes)
        rows, labels = labelled_rows(self.rows, self.labels, classes)
        for name, value in (("rows", rows), ("labels", labels), ("classes", classes)):
            object.__setattr__(self, name, value)
        one_of(KERNELS, kernel=self.kernel)
        object.__setattr__(self, "bandwidth", checked_bandwidth(bandwidth=self.bandwidth))

    def distances(self, z: Reals) -> Reals:
        """The squared distance of each row to the mean of each class, first line of equation (10): (n, classes)."""
        given = _like(z, self.rows.shape[1], "z")
        out = np.empty((len(given), self.classes))
        ready = self._compiled

        def run(block: slice) -> None:
            distances_to_means(ready, given[block], out[block])

        _each(run, len(given), None)
        return out

    def label(self, z: Reals) -> Integers:
        """The class of the nearest mean for each row; of equally near ones, the first."""
        return np.asarray(np.argmin(self.distances(z), axis=1), dtype=np.int64)

    @cached_property
    def _compiled(self) -> tuple[Reals, Integers, Reals, int, float]:
        """What compiled passes want: columns by class, where classes start, their constant terms, kernel, 1 / h."""
        columns, starts = _by_class(self.rows, self.labels, self.classes)
        kind, scale = KERNELS.index(self.kernel), 1.0 / self.bandwidth
        means = np.empty(self.classes)
        mean_within(columns, starts, kind, scale, means)
        return columns, starts, 1.0 + means, kind, scale


# ---- the steps of equations (11) to (14)


@dataclass(frozen=True, eq=False)
class Moved:
    """What became of rows, one entry for each."""

    rows: Reals
    """Where they are now."""
    reached: NDArray[np.bool_]
    """Whether their label is now the target. Rows for which it is not lie somewhere on the way: do not release them
    as if they had arrived."""
    steps: Integers
    """Steps taken; 0 where the label was the target from the start, and the row is as it was."""
    source: Integers
    """Labels by equation (10) before the first step."""


@dataclass(frozen=True)
class Choice:
    """A kernel and its bandwidth, and how all that were tried came out."""

    kernel: str
    bandwidth: float
    table: list[dict[str, Any]]
    """For each: kernel, factor (bandwidth over `median_distance`), reach and label (shares of held-out rows that
    reached a random target, and whose label by equation (10) is the true one). For the card."""


@dataclass(frozen=True, eq=False)
class FineStep:
    """Moves rows until their label, by `rule`, is a target; the way is found with other public rows, `rows`.

    `step`, `damping` and `farthest` are counted in bandwidths: alpha = step * bandwidth^2, lambda = damping /
    bandwidth^2, and no row ends farther than farthest * bandwidth from where it began.

    >>> rows, labels = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1])
    >>> fine = FineStep(rows, labels, LabelRule(rows, labels, 2, "cauchy", 2.0), "cauchy", 2.0)
    >>> moved = fine.move(np.array([[0.5], [0.5]]), np.array([0, 1]))
    >>> moved.reached.tolist(), moved.source.tolist(), fine.rule.label(moved.rows).tolist()
    ([True, True], [0, 0], [0, 1])
    """

    rows: Reals
    labels: Integers
    rule: LabelRule
    kernel: str
    bandwidth: float
    step: float = 1.0
    damping: float = 1e-3
    most_steps: int = 200
    farthest: float = 10.0
    choice: Choice | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rows, labels = labelled_rows(self.rows, self.labels, self.rule.classes)
        if rows.shape[1] != self.rule.rows.shape[1]:
            raise InputError(
                "rows as wide as those of the rule",
                f"{rows.shape[1]} and {self.rule.rows.shape[1]} columns",
                "take both from the same projection",
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "labels", labels)
        one_of(KERNELS, kernel=self.kernel)
        object.__setattr__(self, "bandwidth", checked_bandwidth(bandwidth=self.bandwidth))
        check_steps(self.step, self.damping, self.most_steps, self.farthest)

    def move(self, z: Reals, targets: Integers, *, progress: Progress | None = None) -> Moved:
        """Move each row to its target class, which the caller has drawn; `z` is left as it is.

        A row stops at the first step after which its label is the target, or after `most_steps`. Rows whose label is
        the target from the start stay where they are. `progress` is called with ("fine step", rows done, rows).

        Guarantee: each result depends on its own row and target, and on public rows; not on other rows, nor on the
        number of threads. The true class of a row is not asked for. Memory: a few numbers for each public row and
        worker, beside arguments and result.
        """
        given = _like(z, self.rows.shape[1], "z")
        wanted = _classes(targets, self.rule.classes, "targets")
        if len(wanted) != len(given):
            raise InputError(
                "a target for each row", f"{len(wanted)} targets, {len(given)} rows", "draw one for each row"
            )
        count = len(given)
        moved = Moved(given.copy(), np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count, np.int64))
        ground, rule = self._compiled, self.rule._compiled
        settings = self.step, self.damping, self.most_steps, self.farthest * self.bandwidth

        def run(block: slice) -> None:
            results = moved.reached[block], moved.steps[block], moved.source[block]
            move_rows(ground, rule, settings, moved.rows[block], wanted[block], results)

        _each(run, count, progress)
        return moved

    @cached_property
    def _compiled(self) -> tuple[Reals, Integers, int, float]:
        columns, starts = _by_class(self.rows, self.labels, self.rule.classes)
        return columns, starts, KERNELS.index(self.kernel), 1.0 / self.bandwidth

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything in plain arrays, for a file that holds no code."""
        numbers = [self.bandwidth, self.rule.bandwidth, self.step, self.damping, self.farthest]
        table = [] if self.choice is None else self.choice.table
        return {
            "ground": self.rows,
            "ground_labels": self.labels,
            "verification": self.rule.rows,
            "verification_labels": self.rule.labels,
            "kernels": np.array([self.kernel, self.rule.kernel]),
            "counts": np.array([self.rule.classes, self.most_steps], dtype=np.int64),
            "numbers": np.array(numbers, dtype=np.float64),
            "tried_kernels": np.array([row["kernel"] for row in table], dtype="U"),
            "tried": np.array([[row[name] for name in _TRIED] for row in table], dtype=np.float64).reshape(-1, 3),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> FineStep:
        """What `arrays` gave, again; arrays that are missing or of another form are an error."""
        try:
            kernel, rule_kernel = (str(name) for name in arrays["kernels"])
            classes, most_steps = (int(count) for count in arrays["counts"])
            bandwidth, rule_bandwidth, step, damping, farthest = (float(number) for number in arrays["numbers"])
            table = [
                {"kernel": str(name), **dict(zip(_TRIED, map(float, numbers), strict=True))}
                for name, numbers in zip(arrays["tried_kernels"], arrays["tried"], strict=True)
            ]
            ground, verification = ((arrays[half], arrays[f"{half}_labels"]) for half in ("ground", "verification"))
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "the arrays of a fine step", "others, or not all of them", "give the file that was saved"
            ) from None
        rule = LabelRule(*verification, classes, rule_kernel, rule_bandwidth)
        choice = Choice(kernel, bandwidth, table) if table else None
        return cls(*ground, rule, kernel, bandwidth, step, damping, most_steps, farthest, choice)


_TRIED = ("factor", "reach", "label")


# ---- blocks, and arguments


def _each(run: Callable[[slice], None], count: int, progress: Progress | None) -> None:
    """Run all blocks of rows, on as many threads as there are cores (`ADUMBRA_THREADS` overrides that)."""
    blocks = [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    workers = min(worker_threads(), len(blocks))
    if workers <= 1:
        for block in blocks:
            run(block)
            _tell(progress, block.stop, count)
        return
    with ThreadPoolExecutor(workers) as pool:
        for block, _ in zip(blocks, pool.map(run, blocks), strict=True):
            _tell(progress, block.stop, count)


def _tell(progress: Progress | None, done: int, count: int) -> None:
    if progress is not None:
        progress("fine step", done, count)


def _by_class(rows: Reals, labels: Integers, classes: int) -> tuple[Reals, Integers]:
    """Columns of rows in the order of their classes, and where each class starts; the last entry is the end."""
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))]).astype(np.int64)
    return np.ascontiguousarray(rows[order].T), starts


def rows_of_numbers(values: object, name: str) -> Reals:
    """Rows of finite numbers whose squares are finite too."""
    try:
        out = np.asarray(values)
    except ValueError:  # rows of different lengths
        out = np.asarray(None)
    if out.dtype.kind not in "biuf" or out.ndim != 2 or out.shape[1] == 0:
        raise InputError(
            f"{name} as real numbers in rows and columns", f"{out.dtype} of shape {out.shape}", "give such an array"
        )
    out = np.ascontiguousarray(out, dtype=np.float64)
    if not np.all(np.abs(out) <= LARGEST):  # also where one is not a number
        raise InputError(f"{name} of finite numbers, up to {LARGEST:g}", "others", "leave them out, or rescale")
    return out


def _like(values: object, width: int, name: str) -> Reals:
    out = rows_of_numbers(values, name)
    if out.shape[1] != width:
        raise InputError(f"{name} of {width} columns", f"{out.shape[1]}", "use the projection that was fitted")
    return out


def _classes(values: object, classes: int, name: str) -> Integers:
    """Labels 0 .. classes - 1. A message says no label: it may be private."""
    try:
        out = np.asarray(values)
    except ValueError:
        out = np.asarray(None)
    if out.ndim != 1 or (out.dtype.kind not in "iu" and out.size):
        raise InputError(
            f"{name} as a list of whole numbers", f"{out.dtype} of shape {out.shape}", "number the classes"
        )
    if out.size and (out.min() < 0 or out.max() >= classes):
        raise InputError(f"{name} from 0 to {classes - 1}", "others", "number the classes from 0")
    return np.ascontiguousarray(out, dtype=np.int64)


def labelled_rows(rows: object, labels: object, classes: int) -> tuple[Reals, Integers]:
    """Public `rows` and their `labels` 0 .. `classes` - 1, with at least one row of every class."""
    given, known = rows_of_numbers(rows, "rows"), _classes(labels, classes, "labels")
    if len(given) != len(known):
        raise InputError("a label for each row", f"{len(known)} labels, {len(given)} rows", "give one for each row")
    counts = np.bincount(known, minlength=classes)
    if np.any(counts == 0):
        raise InputError(
            f"public rows of all {classes} classes", f"none of class {np.argmin(counts)}", "leave that class out"
        )
    return given, known


def checked_bandwidth(**named: float) -> float:
    """A positive number whose square and inverse square are numbers too."""
    ((name, value),) = named.items()
    positive(**named)
    return float(between(1.0 / LARGEST, LARGEST, "rescale the rows", **{name: value}))


def check_steps(step: float, damping: float, most_steps: int, farthest: float) -> None:
    """Limits of `step`, `damping`, `most_steps` and `farthest` within which every step leads to finite numbers."""
    positive(step=step)
    between(0.0, 1e6, "give a number near 1", step=step)
    between(0.0, 1e6, "give 0 or a small number, such as 0.001", damping=damping)
    at_least(1, "give the most steps that a row may take", most_steps=most_steps)
    positive(farthest=farthest)
    between(0.0, 1e6, "give a number near 10", farthest=farthest)
