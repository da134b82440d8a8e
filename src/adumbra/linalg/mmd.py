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

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least, between, one_of, positive
from adumbra.linalg.rows import compiled
from adumbra.linalg.splits import folds as fold_numbers
from adumbra.linalg.splits import parts, public_generator

__all__ = [
    "FACTORS",
    "KERNELS",
    "Choice",
    "FineStep",
    "LabelRule",
    "Moved",
    "choose_kernel",
    "fit_fine_step",
    "median_distance",
]

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str, int, int], None]

KERNELS = ("rbf", "laplacian", "inverse-multiquadric", "cauchy")
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Bandwidths that are tried, in units of `median_distance`."""
CHOICES = ("reach", "label")
LARGEST = 1e100
"""Numbers beyond it are refused: the square of a distance must be a number."""
BLOCK = 32  # rows that one worker takes at a time; the same for any number of threads, and so are all bits
MEDIAN_ROWS = 2000  # rows whose distances to each other are looked at for their median
CHOICE_ROWS = 1500  # rows that kernels and bandwidths are tried on
_LOG2E = math.log2(math.e)
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # ends in zeros, so that a whole multiple of it is exact
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_WHOLE = 1.5 * 2.0**52  # added to a small number, it leaves the nearest whole number in the lowest bits
_LOWEST = -708.0  # e to this is just a normal number


# ---- passes over the rows of one class, which lie side by side: columns[c, start:stop]


def _fused(function: Any) -> Any:
    """Compile with leave to round a product and a sum together."""
    return compiled(function, fastmath={"contract"})


def _in_any_order(function: Any) -> Any:
    """Compile with leave to add in any order, several numbers at a time."""
    return compiled(function, fastmath={"contract", "reassoc"})


@_fused
def _exponentials(powers: Any, bits: Any, turns: Any, turn_bits: Any) -> None:
    """e to the power of numbers not above 0, in place, to about 2^-52 of the result; `bits` are the same memory.

    The library's function is called for one number at a time. This one is arithmetic, which is done for several.
    """
    for j in range(powers.size):
        power = max(powers[j], _LOWEST)
        turn = power * _LOG2E + _WHOLE
        turns[j] = turn
        whole = turn - _WHOLE
        x = power - whole * _LN2_HIGH - whole * _LN2_LOW
        y = 1.0 / 479001600.0
        y = y * x + 1.0 / 39916800.0
        y = y * x + 1.0 / 3628800.0
        y = y * x + 1.0 / 362880.0
        y = y * x + 1.0 / 40320.0
        y = y * x + 1.0 / 5040.0
        y = y * x + 1.0 / 720.0
        y = y * x + 1.0 / 120.0
        y = y * x + 1.0 / 24.0
        y = y * x + 1.0 / 6.0
        y = y * x + 0.5
        y = y * x + 1.0
        powers[j] = y * x + 1.0
    for j in range(powers.size):
        bits[j] += turn_bits[j] << 52  # times 2 to that whole number


@_fused
def _squares(columns: Any, start: Any, z: Any, scale: Any, out: Any) -> None:
    """Squared distances of a row to `out.size` rows, in units of 1 / scale."""
    for j in range(out.size):
        away = (columns[0, start + j] - z[0]) * scale
        out[j] = away * away
    for c in range(1, columns.shape[0]):
        for j in range(out.size):
            away = (columns[c, start + j] - z[c]) * scale
            out[j] += away * away


@_in_any_order
def _total(numbers: Any) -> Any:
    total = 0.0
    for j in range(numbers.size):
        total += numbers[j]
    return total


@_in_any_order
def _towards(columns: Any, start: Any, z: Any, weights: Any) -> Any:
    """The weighted sum of the ways from a number to the numbers of one column."""
    total = 0.0
    for j in range(weights.size):
        total += weights[j] * (columns[start + j] - z)
    return total


@_fused
def _weigh(columns: Any, start: Any, stop: Any, z: Any, kind: Any, scale: Any, slope: Any, work: Any) -> Any:
    """For rows [start, stop), in the memory of `work`: f(q), or with `slope` the factor -2 f'(q) of its gradient."""
    count = stop - start
    q, roots = work[0, :count], work[2, :count]
    _squares(columns, start, z, scale, q)
    if kind < 2:
        bits = work.view(np.int64)
        for j in range(count):
            roots[j] = np.sqrt(q[j])
            q[j] = -0.5 * q[j] if kind == 0 else -roots[j]
        _exponentials(q, bits[0, :count], work[1, :count], bits[1, :count])
        if slope and kind == 1:
            for j in range(count):
                q[j] = q[j] / roots[j] if roots[j] > 0.0 else 0.0  # at a row itself is a peak, which has no slope
    elif kind == 2:
        for j in range(count):
            root = 1.0 / np.sqrt(1.0 + q[j])
            q[j] = root * root * root if slope else root
    else:
        for j in range(count):
            part = 1.0 / (1.0 + 0.5 * q[j])
            q[j] = part * part if slope else part
    return q


@compiled
def _add_slope(
    columns: Any, starts: Any, label: Any, z: Any, kind: Any, scale: Any, factor: Any, work: Any, slope: Any
) -> None:
    """Add to `slope` the factor times h^2 times the gradient, in z, of the mean of k(x, z) over one class."""
    start, stop = starts[label], starts[label + 1]
    weights = _weigh(columns, start, stop, z, kind, scale, True, work)
    for c in range(columns.shape[0]):
        slope[c] += factor / (stop - start) * _towards(columns[c], start, z[c], weights)


@compiled
def _within(columns: Any, starts: Any, kind: Any, scale: Any, out: Any) -> None:
    """The mean of k(x, x') over all pairs of each class, a row with itself included."""
    longest = np.max(starts[1:] - starts[:-1])
    work = np.empty((3, longest))
    z = np.empty(columns.shape[0])
    for label in range(out.size):
        total = 0.0
        count = starts[label + 1] - starts[label]
        for i in range(starts[label], starts[label + 1]):
            z[:] = columns[:, i]
            total += _total(_weigh(columns, i + 1, starts[label + 1], z, kind, scale, False, work))
        out[label] = (count + 2.0 * total) / (float(count) * count)


@compiled
def _distance(columns: Any, starts: Any, means: Any, label: Any, z: Any, kind: Any, scale: Any, work: Any) -> Any:
    """The squared distance to the mean of one class; `means` are its first and last term."""
    start, stop = starts[label], starts[label + 1]
    total = _total(_weigh(columns, start, stop, z, kind, scale, False, work))
    return means[label] - 2.0 * total / (stop - start)


@compiled
def _distances(columns: Any, starts: Any, means: Any, kind: Any, scale: Any, rows: Any, out: Any) -> None:
    """The squared distances of rows to the means of all classes."""
    work = np.empty((3, np.max(starts[1:] - starts[:-1])))
    for i in range(rows.shape[0]):
        for label in range(means.size):
            out[i, label] = _distance(columns, starts, means, label, rows[i], kind, scale, work)


@compiled
def _move(
    ground: Any,
    ground_starts: Any,
    ground_kind: Any,
    ground_scale: Any,
    columns: Any,
    starts: Any,
    means: Any,
    kind: Any,
    scale: Any,
    step: Any,
    damping: Any,
    most: Any,
    farthest: Any,
    rows: Any,
    targets: Any,
    reached: Any,
    steps: Any,
    source: Any,
) -> None:
    """Move rows, in place, one after the other. The first four arguments are for the slope, the next five for labels.

    Whether a label is the target needs the distances to all classes only where it is. Else one class that is nearer
    shows that it is not, and the class that showed it last mostly still does.
    """
    longest = max(np.max(starts[1:] - starts[:-1]), np.max(ground_starts[1:] - ground_starts[:-1]))
    work = np.empty((3, longest))
    width = rows.shape[1]
    first, theta, slope = np.empty(width), np.empty(width), np.empty(width)
    for i in range(rows.shape[0]):
        z, target = rows[i], targets[i]
        nearest = np.inf
        for other in range(means.size):
            away = _distance(columns, starts, means, other, z, kind, scale, work)
            if away < nearest:
                source[i], nearest = other, away
        label = source[i]
        reached[i] = label == target
        steps[i] = 0
        first[:] = z
        theta[:] = 0.0
        nearer = label
        while not reached[i] and steps[i] < most:
            slope[:] = 0.0
            _add_slope(ground, ground_starts, label, z, ground_kind, ground_scale, 1.0, work, slope)
            _add_slope(ground, ground_starts, target, z, ground_kind, ground_scale, -1.0, work, slope)
            length = 0.0
            for c in range(width):
                theta[c] -= step * (slope[c] + damping * theta[c])
                length += theta[c] * theta[c]
            if length > farthest * farthest:
                theta *= farthest / np.sqrt(length)
            for c in range(width):
                z[c] = first[c] + theta[c]
            steps[i] += 1
            away = _distance(columns, starts, means, target, z, kind, scale, work)
            beaten = False
            for turn in range(-1, means.size):
                other = nearer if turn < 0 else turn
                if other == target:
                    continue
                rival = _distance(columns, starts, means, other, z, kind, scale, work)
                if rival < away or (rival == away and other < target):
                    beaten, nearer = True, other
                    break
            reached[i] = not beaten


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
        rows, labels = _labelled(self.rows, self.labels, classes)
        for name, value in (("rows", rows), ("labels", labels), ("classes", classes)):
            object.__setattr__(self, name, value)
        one_of(KERNELS, kernel=self.kernel)
        object.__setattr__(self, "bandwidth", _bandwidth(bandwidth=self.bandwidth))

    def distances(self, z: Reals) -> Reals:
        """The squared distance of each row to the mean of each class, first line of equation (10): (n, classes)."""
        given = _like(z, self.rows.shape[1], "z")
        out = np.empty((len(given), self.classes))
        ready = self._compiled

        def run(block: slice) -> None:
            _distances(*ready, given[block], out[block])

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
        _within(columns, starts, kind, scale, means)
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
        rows, labels = _labelled(self.rows, self.labels, self.rule.classes)
        if rows.shape[1] != self.rule.rows.shape[1]:
            raise InputError(
                "rows as wide as those of the rule",
                f"{rows.shape[1]} and {self.rule.rows.shape[1]} columns",
                "take both from the same projection",
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "labels", labels)
        one_of(KERNELS, kernel=self.kernel)
        object.__setattr__(self, "bandwidth", _bandwidth(bandwidth=self.bandwidth))
        _settings(self.step, self.damping, self.most_steps, self.farthest)

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
        ready = *self._compiled, *self.rule._compiled
        settings = self.step, self.damping, self.most_steps, self.farthest * self.bandwidth

        def run(block: slice) -> None:
            results = moved.reached[block], moved.steps[block], moved.source[block]
            _move(*ready, *settings, moved.rows[block], wanted[block], *results)

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
_MORE = "merge rare classes or add public rows"


# ---- choosing and fitting, on public rows only


def median_distance(rows: Reals) -> float:
    """The median heuristic for a bandwidth: the root of half the median squared distance of two rows that differ.

    Of more than 2,000 rows, as many at even spaces stand for all.

    >>> median_distance(np.array([[0.0], [0.0], [2.0]]))
    1.414...
    """
    given = _numbers(rows, "rows")
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
    """The kernel and bandwidth that serve best on public rows that were held out.

    `by="reach"`: by which the most of them reach a random target; of equals, by which the most labels are true.
    `by="label"`: by which the most labels of equation (10) are true, as in the paper; of equals, the most reach. Where
    the rule is near chance, that takes the smallest bandwidth, and then few rows move at all.

    What is still equal is decided by the order of `kernels` and `factors`. Cost is bounded: at most about 1,500 rows,
    the same number of every class, are tried. Every class needs rows enough for both halves of a training part, three
    at the least. `progress` is called with ("kernel", tried, all).
    """
    classes = at_least(2, "give the number of classes", classes=classes)
    folds = at_least(2, "give the number of parts for cross-validation", folds=folds)
    one_of(CHOICES, by=by)
    for kernel in kernels:
        one_of(KERNELS, kernel=kernel)
    for factor in factors:
        _bandwidth(factor=factor)
    if not kernels or not factors:
        raise InputError("at least one kernel and one factor", "none", "leave the default")
    _settings(step, damping, most_steps, farthest)
    given, known = _labelled(rows, labels, classes)
    unit = median_distance(given)
    some = _at_most(CHOICE_ROWS // classes, known, public_generator(seed, "rows to choose a kernel by"))
    given, known = given[some], known[some]
    number = fold_numbers(seed, known, folds)
    rounds = []
    for fold in range(folds):
        kept, held = np.flatnonzero(number != fold), np.flatnonzero(number == fold)
        halves = _halves(seed, known[kept], classes, _MORE + ", or give kernel and bandwidth")
        targets = public_generator(seed, f"targets of fold {fold}").integers(0, classes, len(held))
        rounds.append((kept, *(kept[half] for half in halves), held, targets))
    table: list[dict[str, Any]] = []
    for kernel in kernels:
        for factor in factors:
            width, reached, right = factor * unit, 0, 0
            for kept, ground, verification, held, targets in rounds:
                rule = LabelRule(given[verification], known[verification], classes, kernel, width)
                fine = FineStep(given[ground], known[ground], rule, kernel, width, step, damping, most_steps, farthest)
                reached += int(fine.move(given[held], targets).reached.sum())
                whole = LabelRule(given[kept], known[kept], classes, kernel, width)
                right += int((whole.label(given[held]) == known[held]).sum())
            shares = {"reach": reached / len(known), "label": right / len(known)}
            table.append({"kernel": kernel, "factor": float(factor), **shares})
            if progress is not None:
                progress("kernel", len(table), len(kernels) * len(factors))
    then = "label" if by == "reach" else "reach"
    best = max(table, key=lambda row: (row[by], row[then]))
    return Choice(best["kernel"], best["factor"] * unit, table)


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
    """A fine step from public rows, one half of each class for the way and one for the label.

    `bandwidth` is a factor of `median_distance`. What is left open, the kernel ("auto"), the bandwidth (None) or both,
    is chosen by `choose_kernel`, and the table of what was tried is kept in `choice`. The same rows and seed give the
    same result. Every class needs two rows, and three where something is chosen.
    """
    classes = at_least(2, "give the number of classes", classes=classes)
    one_of(("auto", *KERNELS), kernel=kernel)
    one_of(CHOICES, by=by)
    given, known = _labelled(z_public, labels, classes)
    ground, verification = _halves(seed, known, classes, _MORE)
    if bandwidth is None or kernel == "auto":
        choice = choose_kernel(
            given,
            known,
            classes,
            kernels=KERNELS if kernel == "auto" else (kernel,),
            factors=FACTORS if bandwidth is None else (_bandwidth(bandwidth=bandwidth),),
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
        choice, width = None, _bandwidth(bandwidth=bandwidth) * median_distance(given)
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


# ---- blocks, and arguments


def _each(run: Callable[[slice], None], count: int, progress: Progress | None) -> None:
    """Run all blocks of rows, on as many threads as there are cores (`ADUMBRA_THREADS` overrides that)."""
    blocks = [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    workers = min(_workers(), len(blocks))
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


def _workers() -> int:
    try:
        return max(1, int(os.environ["ADUMBRA_THREADS"]))
    except (KeyError, ValueError):
        return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 8))


def _by_class(rows: Reals, labels: Integers, classes: int) -> tuple[Reals, Integers]:
    """Columns of rows in the order of their classes, and where each class starts; the last entry is the end."""
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))]).astype(np.int64)
    return np.ascontiguousarray(rows[order].T), starts


def _numbers(values: object, name: str) -> Reals:
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
    out = _numbers(values, name)
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


def _labelled(rows: object, labels: object, classes: int) -> tuple[Reals, Integers]:
    """Public rows and their labels, with at least one row of every class."""
    given, known = _numbers(rows, "rows"), _classes(labels, classes, "labels")
    if len(given) != len(known):
        raise InputError("a label for each row", f"{len(known)} labels, {len(given)} rows", "give one for each row")
    counts = np.bincount(known, minlength=classes)
    if np.any(counts == 0):
        raise InputError(
            f"public rows of all {classes} classes", f"none of class {np.argmin(counts)}", "leave that class out"
        )
    return given, known


def _bandwidth(**named: float) -> float:
    """A positive number whose square and inverse square are numbers too."""
    ((name, value),) = named.items()
    positive(**named)
    return float(between(1.0 / LARGEST, LARGEST, "rescale the rows", **{name: value}))


def _settings(step: float, damping: float, most_steps: int, farthest: float) -> None:
    """Limits within which no step leads to a number that is not finite."""
    positive(step=step)
    between(0.0, 1e6, "give a number near 1", step=step)
    between(0.0, 1e6, "give 0 or a small number, such as 0.001", damping=damping)
    at_least(1, "give the most steps that a row may take", most_steps=most_steps)
    positive(farthest=farthest)
    between(0.0, 1e6, "give a number near 10", farthest=farthest)
