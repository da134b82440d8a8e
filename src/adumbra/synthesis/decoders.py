"""Counts from noisy numbers, where a table is taken to be sparse: few atoms of a public dictionary describe it."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.linalg.dictionaries import NAMES, Dictionary, dictionary
from adumbra.linalg.pursuit import pursue_operator
from adumbra.linalg.sensing import Sensing
from adumbra.synthesis.counted import Decoded
from adumbra.synthesis.leftover import left_by_size, share_kept, sizes_of

__all__ = ["PLAIN", "SensedAtoms", "check_dictionary", "named_dictionary", "pursued", "thresholded"]

Reals = NDArray[np.float64]
PLAIN = tuple(name for name in NAMES if name != "learnt")
"""Dictionaries that have a name and need no file."""
_MOST_ATOMS = 512


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
    file = Path(text)
    if not file.exists():
        raise InputError("a dictionary file that exists", file.name, "check the path of --dictionary")
    try:
        loaded = np.load(file, allow_pickle=False)
        if np.iscomplexobj(loaded) or loaded.ndim != 2:
            raise ValueError
        matrix = np.asarray(loaded, dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError):
        raise InputError(
            "a .npy file of real numbers, one atom a column", file.name, "write it with adumbra dictionary"
        ) from None
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


def _facts(atoms: Dictionary) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """For the card, and for the model where the dictionary is nowhere else."""
    recipe = {"dictionary": atoms.recipe()}
    if atoms.name != "learnt":
        return recipe, {}
    return recipe, {"dictionary": atoms.synthesis(np.eye(atoms.atoms)).T}


def threshold(sd: float, atoms: int, laplace: bool) -> float:
    """What noise alone stays below in nearly all of so many atoms: sd sqrt(2 ln N), or b ln N for Laplace tails."""
    gaussian = sd * math.sqrt(2.0 * math.log(max(atoms, 2)))
    return max(gaussian, sd / math.sqrt(2.0) * math.log(max(atoms, 2))) if laplace else gaussian


def thresholded(noisy: Reals, sd: float, laplace: bool, atoms: Dictionary, most: int | None) -> Decoded:
    """Of noisy counts the coefficients that stand out of the noise, at most so many; the rest become 0."""
    if atoms.name == "learnt":  # no tight frame: atoms overlap, so they are found one by one
        return pursued(noisy, sd, laplace, None, atoms, most)
    coefficients, lengths = atoms.analysis(noisy), atoms.lengths
    # noise in a coefficient is that of one cell only where an atom is one cell
    heavy = laplace and atoms.name == "identity"
    cut = threshold(sd, int((lengths > 0).sum()), heavy)
    standing = np.abs(coefficients) > cut * np.where(lengths > 0, lengths, np.inf)
    support = np.flatnonzero(standing)
    if most is not None and len(support) > most:
        by_size = np.argsort(-np.abs(coefficients[support]), kind="stable")[:most]
        support = np.sort(support[by_size])
    kept = np.zeros(atoms.atoms)
    kept[support] = coefficients[support]
    counts = atoms.synthesis(kept)
    in_kept = share_kept(atoms, support)
    sizes, squares = left_by_size(noisy - counts, {s: sd**2 * s * (1.0 - in_kept[s]) for s in sizes_of(len(counts))})
    facts, arrays = _facts(atoms)
    return Decoded(
        counts,
        {"decoder": "sparse", "atoms_kept": len(support), **facts},
        {
            "support": support,
            "coefficients": coefficients[support],
            "missing_sizes": sizes,
            "missing_squares": squares,
            **arrays,
        },
    )


def pursued(
    measured: Reals, sd: float, laplace: bool, sketch: Sensing | None, atoms: Dictionary, most: int | None
) -> Decoded:
    """Orthogonal matching pursuit, until nothing stands out of the noise; what the sketch says of the rest is kept."""
    operator = SensedAtoms(sketch, atoms)
    numbers = operator.shape[0]
    heavy = laplace and sketch is None and atoms.name == "identity"
    # a third of the numbers: with more atoms the noise would be fitted rather than seen
    limit = min(most or _MOST_ATOMS, _MOST_ATOMS, max(1, numbers // 3), operator.shape[1])
    found = pursue_operator(operator, measured, atoms=limit, correlation=threshold(sd, operator.shape[1], heavy))
    used = int(found.used[0])
    support, coefficients = found.support[0, :used], found.coefficients[0, :used]
    dense = np.zeros(atoms.atoms)
    dense[support] = coefficients
    counts = atoms.synthesis(dense)
    columns = np.stack([operator.column(int(a)) for a in support], axis=1) if used else np.zeros((numbers, 0))
    covariance = sd**2 * np.linalg.pinv(columns.T @ columns) if used else np.zeros((0, 0))
    residual = measured - columns @ coefficients
    left = residual if sketch is None else sketch.adjoint(residual)
    free = 1.0 - used / numbers
    # what the sketch mixes into a cell from all others, beside the noise
    unseen = max(float(residual @ residual) - sd**2 * (numbers - used), 0.0)
    crosstalk = 0.0 if sketch is None else unseen * sketch.crosstalk / numbers
    strength = 1.0 if sketch is None else float(np.square(sketch.weights).mean())
    noise = {size: size * (sd**2 * free * strength + crosstalk) for size in sizes_of(len(counts))}
    sizes, squares = left_by_size(left / strength, {size: value / strength**2 for size, value in noise.items()})
    facts, arrays = _facts(atoms)
    return Decoded(
        counts,
        {"decoder": "pursuit", "atoms_kept": used, **facts},
        {
            "support": support,
            "coefficients": coefficients,
            "covariance": covariance,
            "missing_sizes": sizes,
            "missing_squares": squares,
            **arrays,
        },
    )
