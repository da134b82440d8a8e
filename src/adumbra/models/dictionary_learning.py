"""A dictionary learnt from a PUBLIC table, for private histograms over the same columns.

Nothing here is private, and nothing makes it so: atoms are made of the rows they were learnt from and are published
with the release. Rows that must be kept secret must not come here.

`training_signals` makes histograms of the public table, of all rows and of the rows in each cell of every column
outside the domain: shapes of the kind that a private table of other people will show. `learn_dictionary` looks for
atoms of which few describe each of them. It alternates two steps (K-SVD of Aharon, Elad and Bruckstein 2006, with
one power step in place of the singular vectors): code every signal by orthogonal matching pursuit, then turn each atom,
with the coefficients of the signals that use it, to what the other atoms leave of them.

A learnt dictionary spans no more than its signals. It describes with few atoms what the public table has shown it and
never describes the rest; a fixed dictionary of `numerics/dictionaries.py` describes everything, given enough atoms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import linalg

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least
from adumbra.numerics.dictionaries import LARGEST
from adumbra.numerics.integer_kernels import one_thread_each
from adumbra.numerics.pursuit import pursue

__all__ = ["LEAST_ROWS", "learn_dictionary", "training_signals"]


LEAST_ROWS = 20
"""Rows that make a histogram worth learning from; fewer show their own accidents."""

_LARGEST = 1 << 26  # numbers in a matrix: half a GiB


def training_signals(cells: Integers, counts: Sequence[int], domain: Sequence[int], least: int = LEAST_ROWS) -> Reals:
    """Histograms of a public table over the domain, (signals, N), each of length 1: of all rows, then given each cell.

    `cells` (rows, columns) is the cell of every value, -1 where there is none, `counts` the cells of each column;
    `domain` names the columns of the histogram, whose numbers are in C order of these columns. The histograms after
    the first are of the rows in one cell of one of the other columns, by column, then by cell.

    A row with no cell in a domain column is in no histogram. Edge cases: histograms of fewer than `least` rows are
    left out, all but the first, which needs one row; with no other columns the first is all there is.
    """
    given, sizes = _checked_cells(cells, counts)
    if not domain or len(set(domain)) < len(domain) or not set(domain) <= set(range(len(sizes))):
        raise InputError(
            f"a domain of one or more different columns from 0 to {len(sizes) - 1}", f"{list(domain)}", "name each once"
        )
    at_least(1, "give the number of rows that a histogram needs", least=least)
    shape = tuple(sizes[column] for column in domain)
    total = math.prod(shape)
    if total > LARGEST:
        raise InputError(f"a domain of at most {LARGEST} cells", f"{total} cells", "take fewer columns")
    given = given[(given[:, list(domain)] >= 0).all(axis=1)]
    if not len(given):
        raise InputError("a row with a value in every domain column", "none", "give a public table with such rows")
    places = np.ravel_multi_index(tuple(given[:, list(domain)].T), shape)
    groups = [places]
    for column in sorted(set(range(len(sizes))) - set(domain)):
        order = np.argsort(given[:, column], kind="stable")
        cuts = np.searchsorted(given[order, column], np.arange(sizes[column] + 1))
        found = (places[order[start:end]] for start, end in itertools.pairwise(cuts))
        groups += [group for group in found if len(group) >= least]
    if len(groups) * total > _LARGEST:
        raise InputError(
            f"at most {_LARGEST // total} histograms of {total} cells",
            f"{len(groups)} of them",
            "give a public table with fewer other columns, or take coarser cells",
        )
    out = np.empty((len(groups), total))
    for histogram, group in zip(out, groups, strict=True):
        histogram[:] = np.bincount(group, minlength=total)
        histogram /= np.linalg.norm(histogram)
    return out


def _other_than_zero(signals: Reals) -> Reals:
    """Signals in rows, of finite numbers, without those that are zero."""
    given = np.asarray(signals, dtype=np.float64)
    if given.ndim != 2:
        raise InputError("signals in rows", f"an array of shape {given.shape}", "give one signal in each row")
    lengths = np.linalg.norm(given, axis=1)
    if not np.isfinite(lengths).all():
        raise InputError("signals of finite numbers and length", "others", "check the signals")
    return given if lengths.all() else given[lengths > 0]


def learn_dictionary(signals: Reals, atoms: int, sparsity: int, rounds: int = 10, seed: int = 0) -> Reals:
    """Atoms (cells, atoms), each of length 1, of which `sparsity` describe each public signal (a row) well.

    Guarantee: the squared error on these signals, all added up and coded by `pursue`, is at most that of the start
    (so many of the signals, drawn with `seed`); the same arguments give the same atoms. Longer signals count more.
    Atoms that no signal uses are replaced by the signal described worst. Edge cases: signals that are zero are
    ignored; there must be as many others as atoms.

    >>> spikes = np.repeat(np.eye(3), 4, axis=0) * np.arange(1, 13)[:, None]
    >>> np.sort(learn_dictionary(spikes, atoms=3, sparsity=1).argmax(axis=0)).tolist()
    [0, 1, 2]
    """
    given = _other_than_zero(signals)
    atoms = at_least(1, "give the number of atoms", atoms=atoms)
    sparsity = at_least(1, "give the number of atoms for a signal", sparsity=sparsity)
    rounds = at_least(0, "give the number of rounds", rounds=rounds)
    seed = at_least(0, "give a whole number", seed=seed)
    if atoms > len(given):
        raise InputError(
            f"at most {len(given)} atoms, as many as there are signals that are not zero",
            f"{atoms} atoms",
            "learn fewer atoms, or from more columns of the public table",
        )
    if sparsity > min(atoms, given.shape[1]):
        raise InputError(
            f"a sparsity of at most {min(atoms, given.shape[1])}, the smaller of atoms and cells",
            f"sparsity {sparsity}",
            "give a smaller one",
        )
    if atoms * given.shape[1] > _LARGEST:
        raise InputError(
            f"at most {_LARGEST // given.shape[1]} atoms of {given.shape[1]} cells", f"{atoms} atoms", "learn fewer"
        )
    with one_thread_each():
        # All atoms are sums of signals: where these are few, work in coordinates of their span.
        frame, rows = None, given
        if len(given) < given.shape[1]:
            frame, triangle = linalg.qr(given.T, mode="economic", check_finite=False)
            rows = np.ascontiguousarray(triangle.T)
        found = _learnt(rows, atoms, sparsity, rounds, seed)
        if frame is not None:
            found = found @ frame.T
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return np.ascontiguousarray(found.T)


def _learnt(rows: Reals, atoms: int, sparsity: int, rounds: int, seed: int) -> Reals:
    """The best atoms of all rounds, one in each row."""
    coins = np.random.Generator(np.random.PCG64(seed))
    current = rows[np.sort(coins.permutation(len(rows))[:atoms])]
    current /= np.linalg.norm(current, axis=1, keepdims=True)
    best, least = current, math.inf
    for turn in range(rounds + 1):
        code = pursue(current.T, rows, atoms=sparsity)
        weights = code.dense(atoms)
        left = rows - weights @ current
        error = float((left**2).sum())
        if error < least:
            best, least = current, error
        if turn < rounds:
            current = _turned(current, rows, weights, left)
    return best


def _turned(atoms: Reals, rows: Reals, weights: Reals, left: Reals) -> Reals:
    """Each atom in turn, turned to what its signals need of it; `weights` and `left` are kept up to date."""
    out = atoms.copy()
    taken = np.zeros(len(rows), dtype=bool)
    for k in range(len(out)):
        users = np.flatnonzero(weights[:, k])
        if not users.size:
            worst = int(np.where(taken, -1.0, (left**2).sum(axis=1)).argmax())
            taken[worst] = True
            out[k] = rows[worst] / np.linalg.norm(rows[worst])
            continue
        wanted = left[users] + np.outer(weights[users, k], out[k])
        direction = weights[users, k] @ wanted
        length = np.linalg.norm(direction)
        if length > 0:
            out[k] = direction / length
        weights[users, k] = wanted @ out[k]
        left[users] = wanted - np.outer(weights[users, k], out[k])
    return out


def _checked_cells(cells: Integers, counts: Sequence[int]) -> tuple[Integers, list[int]]:
    given = np.asarray(cells)
    if given.ndim != 2 or given.shape[1] != len(counts) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"whole numbers in rows of {len(counts)}, one for each column",
            f"{given.dtype} numbers of shape {given.shape}",
            "give the cell of every value, and the number of cells of every column",
        )
    sizes = [at_least(1, "give the number of cells of every column", cells=count) for count in counts]
    if len(given) and ((given < -1) | (given >= np.array(sizes, dtype=np.int64))).any():
        raise InputError(
            "cells from 0 to one less than their column's number, or -1 where there is none",
            "another number",
            "give the number of cells of every column",
        )
    return given.astype(np.int64), sizes
