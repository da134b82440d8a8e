"""Compiled passes over public rows for kernel means: distances to them, and the steps of equations (11) to (14).

See `mmd.py` for what they are for. Rows of a class lie side by side: columns[c, start:stop].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adumbra.numerics.integer_kernels import compiled

__all__ = ["distances_to_means", "mean_within", "move_rows"]

_LOG2E = math.log2(math.e)
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # ends in zeros, so that a whole multiple of it is exact
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_WHOLE = 1.5 * 2.0**52  # added to a small number, it leaves the nearest whole number in the lowest bits
_LOWEST = -708.0  # e to this is just a normal number


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
def _add_slope(ground: Any, label: Any, z: Any, factor: Any, work: Any, slope: Any) -> None:
    """Add to `slope` the factor times h^2 times the gradient, in z, of the mean of k(x, z) over one class."""
    columns, starts, kind, scale = ground
    start, stop = starts[label], starts[label + 1]
    weights = _weigh(columns, start, stop, z, kind, scale, True, work)
    for c in range(columns.shape[0]):
        slope[c] += factor / (stop - start) * _towards(columns[c], start, z[c], weights)


@compiled
def mean_within(columns: Any, starts: Any, kind: Any, scale: Any, out: Any) -> None:
    """The mean of k(x, x') over all pairs of each class, a row with itself included.

    `columns[c, i]` is number c of row i, with the rows of class s at [`starts`[s], `starts`[s + 1]). `kind` is the
    number of the kernel, `scale` the reciprocal of its width. `out` has a place for each class and gets the means.
    """
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
def _distance(rule: Any, label: Any, z: Any, work: Any) -> Any:
    """The squared distance to the mean of one class; `means` of the rule are its first and last term."""
    columns, starts, means, kind, scale = rule
    start, stop = starts[label], starts[label + 1]
    total = _total(_weigh(columns, start, stop, z, kind, scale, False, work))
    return means[label] - 2.0 * total / (stop - start)


@compiled
def distances_to_means(rule: Any, rows: Any, out: Any) -> None:
    """The squared distances of `rows` to the means of all classes, into `out`; `rule` as in `move_rows`."""
    starts, means = rule[1], rule[2]
    work = np.empty((3, np.max(starts[1:] - starts[:-1])))
    for i in range(rows.shape[0]):
        for label in range(means.size):
            out[i, label] = _distance(rule, label, rows[i], work)


@compiled
def _nearest(rule: Any, z: Any, work: Any) -> Any:
    """The class of the nearest mean; of equally near ones, the first."""
    label, nearest = 0, np.inf
    for other in range(rule[2].size):
        away = _distance(rule, other, z, work)
        if away < nearest:
            label, nearest = other, away
    return label


@compiled
def _nearer_class(rule: Any, target: Any, last: Any, z: Any, work: Any) -> Any:
    """A class whose mean is nearer than the target's, or -1: then the label is the target.

    That needs the distances to all classes only where there is none. Else one class that is nearer shows it, and the
    class that showed it last mostly still does.
    """
    away = _distance(rule, target, z, work)
    for turn in range(-1, rule[2].size):
        other = last if turn < 0 else turn
        if other == target:
            continue
        rival = _distance(rule, other, z, work)
        if rival < away or (rival == away and other < target):
            return other
    return -1


@compiled
def move_rows(ground: Any, rule: Any, settings: Any, rows: Any, targets: Any, results: Any) -> None:
    """Move `rows` to the classes `targets`, in place, one after the other.

    `ground` (columns, starts, kernel, 1 / bandwidth) is for the slope, `rule` (columns, starts, means, kernel,
    1 / bandwidth) for labels, `settings` (step, damping, most steps, farthest). `results` are written: whether a row
    reached its target, after how many steps, and its label at the start.
    """
    step, damping, most, farthest = settings
    reached, steps, source = results
    starts, ground_starts = rule[1], ground[1]
    longest = max(np.max(starts[1:] - starts[:-1]), np.max(ground_starts[1:] - ground_starts[:-1]))
    work = np.empty((3, longest))
    width = rows.shape[1]
    first, theta, slope = np.empty(width), np.empty(width), np.empty(width)
    for i in range(rows.shape[0]):
        z, target = rows[i], targets[i]
        source[i] = label = nearer = _nearest(rule, z, work)
        reached[i] = label == target
        steps[i] = 0
        first[:] = z
        theta[:] = 0.0
        while not reached[i] and steps[i] < most:
            slope[:] = 0.0
            _add_slope(ground, label, z, 1.0, work, slope)
            _add_slope(ground, target, z, -1.0, work, slope)
            length = 0.0
            for c in range(width):
                theta[c] -= step * (slope[c] + damping * theta[c])
                length += theta[c] * theta[c]
            if length > farthest * farthest:
                theta *= farthest / np.sqrt(length)
            for c in range(width):
                z[c] = first[c] + theta[c]
            steps[i] += 1
            found = _nearer_class(rule, target, nearer, z, work)
            reached[i] = found < 0
            nearer = nearer if found < 0 else found
