"""Queries on estimated counts: their values, and how the noise of a measurement enters them.

An estimate that is linear in what was measured errs by <v, noise>; v of a box is a product over the axes where the
strategy is a Kronecker product. Both that and sums over boxes read off running sums (prefix sums) are standard.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.counting.workload import Workload
from adumbra.numerics.dictionaries import Dictionary
from adumbra.numerics.strategy_base import LinearStrategy, Separable

__all__ = ["atom_products", "box_sums", "gains"]

_PIECE = 2**22


def box_sums(counts: Reals, workload: Workload) -> Reals:
    """The value of every query on these counts (cells in C order)."""
    terms = len(workload.query)
    array = counts.reshape(workload.shape)
    order = int(np.argmax(workload.shape))  # running sums along the longest axis, plain ones along the others
    array = np.moveaxis(array, order, 0)
    others = [axis for axis in range(len(workload.shape)) if axis != order]
    running = np.concatenate([np.zeros((1, *array.shape[1:])), np.cumsum(array, axis=0)])
    rest = math.prod(array.shape[1:])
    out = np.empty(terms)
    size = max(1, _PIECE // max(rest, 1))
    for start in range(0, terms, size):
        part = slice(start, min(start + size, terms))
        found = _at(running, np.maximum(workload.high[part, order], workload.low[part, order]))
        found = found - _at(running, workload.low[part, order])
        for axis in others:
            found = np.einsum("ti,ti...->t...", workload.along(axis, part), found)
        out[part] = found
    return np.asarray(np.bincount(workload.query, weights=out * workload.weight, minlength=len(workload)), np.float64)


def _at(running: Reals, places: Reals) -> Reals:
    """Running sums at these places, between whole ones in proportion."""
    whole = np.clip(np.floor(places).astype(np.int64), 0, len(running) - 2)
    part = (places - whole).reshape(-1, *([1] * (running.ndim - 1)))
    return np.asarray(running[whole] * (1.0 - part) + running[whole + 1] * part)


def gains(strategy: LinearStrategy, workload: Workload) -> tuple[Reals, Reals]:
    """For every query the length and the largest entry of the vector v with error <v, noise>."""
    count = len(workload)
    squares, largest = np.ones(count), np.ones(count)
    if isinstance(strategy, Separable) and workload.one_box_each:
        for axis, cells in enumerate(workload.shape):
            size = max(1, _PIECE // max(cells, strategy.measured_along(axis)))
            for start in range(0, count, size):
                part = slice(start, min(start + size, count))
                entering = strategy.axis_dual(workload.along(axis, part), axis)
                squares[part] *= np.square(entering).sum(axis=1)
                largest[part] *= np.abs(entering).max(axis=1)
        return np.sqrt(squares) * np.abs(workload.weight), largest * np.abs(workload.weight)
    for part in workload.pieces():
        entering = strategy.dual(workload.dense(part))
        squares[part] = np.square(entering).sum(axis=1)
        largest[part] = np.abs(entering).max(axis=1)
    return np.sqrt(squares), largest


def atom_products(atoms: Dictionary, chosen: NDArray[np.int64], workload: Workload) -> Reals:
    """The product of every query of `workload` with each of the `chosen` atoms of the dictionary `atoms`.

    `chosen` holds positions of atoms; the answer is (queries, chosen).
    """
    if atoms.name == "identity":
        places = np.stack(np.unravel_index(chosen, workload.shape), axis=1)
        covered = np.ones((len(workload.query), len(chosen)))
        for axis in range(len(workload.shape)):
            low, high = workload.low[:, axis, None], workload.high[:, axis, None]
            cell = places[None, :, axis]
            covered *= np.clip(np.minimum(high, cell + 1.0) - np.maximum(low, cell), 0.0, 1.0)
        covered *= workload.weight[:, None]
        if workload.one_box_each:
            return covered
        out = np.zeros((len(workload), len(chosen)))
        np.add.at(out, workload.query, covered)
        return out
    return np.stack([box_sums(atoms.atom(int(index)), workload) for index in chosen], axis=1, dtype=np.float64)
