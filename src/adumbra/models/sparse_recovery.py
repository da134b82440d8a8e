"""Counts from noisy numbers, where a table is taken to be sparse: few atoms of a public dictionary describe it.

How much is left out by them is estimated too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.array_files import read_matrix
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.numerics.dictionaries import NAMES, Dictionary, dictionary
from adumbra.numerics.operator_pursuit import pursue_operator
from adumbra.numerics.sensing import Sensing

__all__ = [
    "PLAIN",
    "Decoded",
    "SensedAtoms",
    "block_sums",
    "check_dictionary",
    "learnt_atoms",
    "left_by_size",
    "named_dictionary",
    "pursued",
    "share_kept",
    "sizes_of",
    "thresholded",
]


# What a decoder of noisy counts hands back.


@dataclass(frozen=True, eq=False)
class Decoded:
    """Estimated counts of all cells, and what the model should hold beside them."""

    counts: NDArray[np.float64]
    atoms_kept: int | None = None
    """Where the counts are put together of few atoms."""
    pursued: bool = False
    """Whether those were found one by one."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


# How much a decoder left out, by size of a range, estimated from the noisy numbers alone.
#
# A decoder that keeps few atoms leaves something of the table behind. What it left, plus noise, can be seen in its
# residual; the noise is known, so the mean square of what was left in ranges of one size can be estimated without bias.
# It is what the standard error of an answer needs beside the noise on the atoms that were kept. The estimate is the
# house's own: a method of moments, block size by block size.

_PRODUCTS = 2**27


def sizes_of(cells: int) -> list[int]:
    """1, 2, 4, ... up to the whole domain."""
    out = [1]
    while 2 * out[-1] <= cells:
        out.append(2 * out[-1])
    return out


def block_sums(values: Reals, size: int) -> Reals:
    """Sums over consecutive blocks of so many cells; what does not fill a block is left out."""
    whole = len(values) // size * size
    return np.asarray(values[:whole].reshape(-1, size).sum(axis=1))


def left_by_size(left: Reals, noise: dict[int, float]) -> tuple[Reals, Reals]:
    """Sizes of blocks, and for each the mean square of the sum of the residual `left` over a block.

    `noise` is the variance of the noise in the sum over a block, by size. Lower bound: residuals of neighbouring cells
    are treated as independent, so their mean square grows linearly with block size. If the observed block sums exceed
    their noise by more than two standard errors (residuals correlate), the observed value is used if it is larger.
    """
    sizes = sizes_of(len(left))
    found: list[float] = []
    for size in sizes:
        squares = np.square(block_sums(left, size))
        # E (left + noise)^2 = left^2 + variance, so the difference is unbiased. The mean of n squares of noise of
        # variance v has the standard error v sqrt(2 / n); below two of them it is taken for chance.
        seen, unsure = float(squares.mean()) - noise[size], 2.0 * noise[size] * math.sqrt(2.0 / len(squares))
        by_chance = size * found[0] if found else max(seen, 0.0)
        found.append(max(by_chance, seen if seen > unsure else 0.0))
    return np.array(sizes, dtype=np.float64), np.array(found)


def share_kept(atoms: Dictionary, support: NDArray[np.int64]) -> dict[int, float]:
    """For blocks of each size, the share of their squared length that lies in the atoms kept (orthonormal ones)."""
    cells = atoms.cells
    even = {size: len(support) / cells for size in sizes_of(cells)}
    if atoms.name == "identity" or len(support) * cells > _PRODUCTS:
        return even
    total = dict.fromkeys(even, 0.0)
    for index in support:
        atom = atoms.atom(int(index))
        for size in total:
            total[size] += float(np.square(block_sums(atom, size)).mean()) / size
    return {size: min(share, 1.0) for size, share in total.items()}


PLAIN = tuple(name for name in NAMES if name != "learnt")
"""Dictionaries that have a name and need no file."""
_MOST_ATOMS = 512
_PLACES = 4
"""Rows that a sketch did not find may lie anywhere: errors are stated as if in so many places."""
_FEW = 8
"""Atoms are few where there are so many times more numbers."""
_FOLDS = 5
"""Parts of the numbers, each predicted from the others."""


def check_dictionary(text: str) -> None:
    """Refuse what is neither a name nor a file."""
    if not isinstance(text, str) or (text not in PLAIN and Path(text).suffix != ".npy"):
        raise InputError(
            f"a dictionary: {', '.join(PLAIN)}, or a .npy file",
            f"{text!r}",
            "adumbra dictionary PUBLIC-TABLE --schema S --out atoms.npy learns one from a public table",
        )


def named_dictionary(text: str, shape: tuple[int, ...]) -> Dictionary:
    """By name, or learnt from a public table and kept in a file."""
    check_dictionary(text)
    if text in PLAIN:
        return dictionary(text, shape)
    matrix = read_matrix(Path(text), "--dictionary", "one atom a column", "write it with adumbra dictionary")
    if matrix.shape[0] != math.prod(shape):
        raise InputError(
            f"atoms of {math.prod(shape)} numbers, one for each cell of the domain",
            f"{matrix.shape[0]} numbers",
            "learn the dictionary for the same columns and bins",
        )
    return dictionary("learnt", shape, matrix)


class SensedAtoms:
    """Atoms as a sketch sees them: the matrix Psi Phi, never formed."""

    def __init__(self, sketch: Sensing | None, atoms: Dictionary) -> None:
        self.sketch, self.atoms = sketch, atoms
        self.shape = (atoms.cells if sketch is None else sketch.numbers, atoms.atoms)

    @cached_property
    def lengths(self) -> Reals:
        """Of atoms before they are sketched: a sketch keeps lengths, nearly, and all by the same factor."""
        if self.sketch is None:
            return self.atoms.lengths
        return np.asarray(self.atoms.lengths * math.sqrt(float(np.square(self.sketch.weights).mean())))

    def correlate(self, residual: Reals) -> Reals:
        """Phi' Psi' r."""
        return self.atoms.analysis(residual if self.sketch is None else self.sketch.adjoint(residual))

    def column(self, atom: int) -> Reals:
        """Psi phi."""
        shape = self.atoms.atom(atom)
        return shape if self.sketch is None else self.sketch.forward(shape)


def learnt_atoms(atoms: Dictionary) -> dict[str, NDArray[Any]]:
    """For the model, where the dictionary is nowhere else."""
    return {} if atoms.name != "learnt" else {"dictionary": atoms.synthesis(np.eye(atoms.atoms)).T}


def threshold(sd: float, atoms: int, laplace: bool) -> float:
    """What noise alone stays below in nearly all of so many atoms: sd sqrt(2 ln N), or b ln N for Laplace tails."""
    gaussian = sd * math.sqrt(2.0 * math.log(max(atoms, 2)))
    return max(gaussian, sd / math.sqrt(2.0) * math.log(max(atoms, 2))) if laplace else gaussian


def thresholded(
    noisy: Reals, sd: float, laplace: bool, atoms: Dictionary, most: int | None, total: float | None = None
) -> Decoded:
    """Of noisy counts the coefficients above the noise, at most so many; the rest become 0.

    Where cells are the atoms, what the kept ones do not hold of all rows is spread evenly over the others: `total` of
    them, if that is public, else as many as the noisy counts add up to.
    """
    if atoms.name == "learnt":  # no tight frame: atoms overlap, so they are found one by one
        return pursued(noisy, sd, laplace, None, atoms, most)
    coefficients, lengths = atoms.analysis(noisy), atoms.lengths
    # noise in a coefficient is that of one cell only where an atom is one cell
    heavy = laplace and atoms.name == "identity"
    cut = threshold(sd, int((lengths > 0).sum()), heavy)
    standing = np.abs(coefficients) > cut * np.where(lengths > 0, lengths, np.inf)
    if atoms.name == "identity":  # no count is negative
        standing &= coefficients > 0
    support = np.flatnonzero(standing)
    if most is not None and len(support) > most:
        by_size = np.argsort(-np.abs(coefficients[support]), kind="stable")[:most]
        support = np.sort(support[by_size])
    kept = np.zeros(atoms.atoms)
    kept[support] = coefficients[support]
    counts = atoms.synthesis(kept)
    known = float(noisy.sum()) if total is None else total
    level = 0.0
    if atoms.name == "identity":
        counts = _evened(counts, support, known)
        # how far the even level may be off: by the noise of what it was worked out from
        unsure = len(counts) if total is None else len(support)
        level = sd**2 * unsure / max(len(counts) - len(support), 1) ** 2
    in_kept = share_kept(atoms, support)
    sizes, squares = left_by_size(noisy - counts, {s: sd**2 * s * (1.0 - in_kept[s]) for s in sizes_of(len(counts))})
    squares = squares + level * np.square(sizes)
    return Decoded(
        counts,
        len(support),
        arrays={
            "support": support,
            "coefficients": coefficients[support],
            "missing_sizes": sizes,
            "missing_squares": squares,
            **learnt_atoms(atoms),
        },
    )


def _evened(counts: Reals, support: NDArray[np.int64], total: float) -> Reals:
    """What the cells found do not hold of all rows, spread over the others."""
    others = len(counts) - len(support)
    if not others:
        return counts
    out = np.full(len(counts), max(total - float(counts.sum()), 0.0) / others)
    out[support] = counts[support]
    return out


def pursued(
    measured: Reals,
    sd: float,
    laplace: bool,
    sketch: Sensing | None,
    atoms: Dictionary,
    most: int | None,
    total: float | None = None,
) -> Decoded:
    """Orthogonal matching pursuit, until the residual cannot be told from noise.

    What it left is seen in its residual, while atoms are few beside the numbers. Where they are not, it has fitted
    noise too, and is judged by numbers that it did not see: the same decoder on some of them must predict the others.
    Where cells are the atoms and the number of rows is public (`total`), rows that were not found are spread evenly,
    and stated errors count them as if they lay in a few unknown places.
    """
    operator = SensedAtoms(sketch, atoms)
    numbers, columns_in_all = operator.shape
    cut = threshold(sd, columns_in_all, laplace and sketch is None and atoms.name == "identity")
    support, coefficients = _pursuit(operator, measured, cut, most)
    counts, columns = _counts(atoms, support, coefficients), _columns(operator, support)
    covariance = sd**2 * np.linalg.pinv(columns.T @ columns) if len(support) else np.zeros((0, 0))
    if _FEW * len(support) <= numbers and len(support) < _limit(operator, most):
        residual, share = measured - columns @ coefficients, 1.0 - len(support) / numbers
    else:
        residual, share = _unforeseen(operator, measured, cut, most), 1.0
    strength = 1.0 if sketch is None else float(np.square(sketch.weights).mean())
    left = residual if sketch is None else sketch.adjoint(residual) / strength
    noise = sd**2 * share / strength
    # what the sketch mixes into a cell from all others, beside the noise
    unseen = max(float(residual @ residual) / strength - noise * numbers, 0.0)
    mixed = 0.0 if sketch is None else unseen * sketch.crosstalk / numbers
    sizes, squares = left_by_size(left, {size: size * (noise + mixed) for size in sizes_of(len(counts))})
    if atoms.name == "identity" and total is not None:
        rest, covered = max(total - float(counts.sum()), 0.0), sizes / len(counts)
        counts = _evened(counts, support, total)
        squares = np.maximum(squares, rest**2 * covered * (1.0 - covered) / _PLACES)
    return Decoded(
        counts,
        len(support),
        pursued=True,
        arrays={
            "support": support,
            "coefficients": coefficients,
            "covariance": covariance,
            "missing_sizes": sizes,
            "missing_squares": squares,
            **learnt_atoms(atoms),
        },
    )


class _SomeNumbers:
    """The same atoms, seen through some of the numbers only."""

    def __init__(self, whole: SensedAtoms, kept: NDArray[np.bool_]) -> None:
        self._whole, self._kept = whole, kept
        self.shape = (int(kept.sum()), whole.shape[1])
        self.lengths: Reals = np.asarray(whole.lengths * math.sqrt(self.shape[0] / whole.shape[0]))

    def correlate(self, residual: Reals) -> Reals:
        full = np.zeros(self._whole.shape[0])
        full[self._kept] = residual
        return self._whole.correlate(full)

    def column(self, atom: int) -> Reals:
        return np.asarray(self._whole.column(atom)[self._kept])


def _pursuit(
    operator: SensedAtoms | _SomeNumbers, measured: Reals, cut: float, most: int | None
) -> tuple[NDArray[np.int64], Reals]:
    """Atoms and their coefficients."""
    found = pursue_operator(operator, measured, atoms=_limit(operator, most), correlation=cut)
    used = int(found.used[0])
    return found.support[0, :used], found.coefficients[0, :used]


def _limit(operator: SensedAtoms | _SomeNumbers, most: int | None) -> int:
    """Atoms to look for: at most a third of the numbers, with more of them noise would be fitted rather than seen."""
    numbers, atoms = operator.shape
    return min(most or _MOST_ATOMS, _MOST_ATOMS, max(1, numbers // 3), atoms)


def _unforeseen(operator: SensedAtoms, measured: Reals, cut: float, most: int | None) -> Reals:
    """What each part of the numbers differs by from what the others foretell."""
    numbers = operator.shape[0]
    folds = min(_FOLDS if operator.shape[1] <= 2**16 else 2, numbers)
    out = measured.copy()
    for fold in range(folds if folds > 1 else 0):
        hidden = np.arange(numbers) % folds == fold
        found, values = _pursuit(_SomeNumbers(operator, ~hidden), measured[~hidden], cut, most)
        out[hidden] -= (_columns(operator, found) @ values)[hidden]
    return out


def _columns(operator: SensedAtoms, support: NDArray[np.int64]) -> Reals:
    if not len(support):
        return np.zeros((operator.shape[0], 0))
    return np.stack([operator.column(int(atom)) for atom in support], axis=1)


def _counts(atoms: Dictionary, support: NDArray[np.int64], coefficients: Reals) -> Reals:
    dense = np.zeros(atoms.atoms)
    dense[support] = coefficients
    return atoms.synthesis(dense)
