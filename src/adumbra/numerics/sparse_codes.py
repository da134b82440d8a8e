"""What a pursuit finds, and what it may be asked: shared by the pursuits of many signals and of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least

__all__ = [
    "IN_SPAN",
    "NIL",
    "SparseCodes",
    "array_of",
    "finite_array",
    "inverse_lengths",
    "most_atoms",
    "nothing_found",
    "squared_lengths",
    "stopping_level",
]


NIL = 2.0**-40
"""Correlations below this share of a signal's first one are rounding: nothing is left to be found."""


IN_SPAN = 2.0**-40
"""A column of which no more than this share of its squared length lies outside the span of others counts as in it."""


SHORTEST = 1e-145
"""A column no longer than this counts as zero: its square has lost digits."""


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """What was found, one row for each signal."""

    support: Integers
    """Atoms in the order found, -1 where fewer were used: (signals, most)."""
    coefficients: Reals
    """Theirs, least squares on the columns as given; 0 where fewer were used."""
    used: Integers
    """How many atoms each signal got."""
    residual: Reals
    """Squared length of what is left of each signal; not a number where the signal's own length was not given."""

    def dense(self, atoms: int) -> Reals:
        """The coefficients of all atoms, zeros included: (signals, atoms).

        >>> from adumbra.numerics.pursuit import pursue
        >>> found = pursue(np.eye(3), np.array([[0.0, 5.0, -7.0]]), atoms=1)
        >>> found.dense(3).tolist()
        [[0.0, 0.0, -7.0]]
        """
        highest = int(self.support.max(initial=-1))
        atoms = at_least(highest + 1, "give the number of columns of the matrix", atoms=atoms)
        out = np.zeros((len(self.support), atoms))
        row, place = np.nonzero(self.support >= 0)
        out[row, self.support[row, place]] = self.coefficients[row, place]
        return out


def nothing_found(signals: int, most: int) -> SparseCodes:
    """A result to be filled in: no atom yet, for so many signals of at most `most` atoms."""
    return SparseCodes(
        np.full((signals, most), -1, np.int64),
        np.zeros((signals, most)),
        np.zeros(signals, np.int64),
        np.zeros(signals),
    )


def array_of(values: object, dimensions: int, name: str) -> Reals:
    """`values` as a contiguous array of float64 with so many `dimensions`; `name` is for the refusal of others."""
    try:
        out = np.asarray(values)
    except ValueError:  # rows of different lengths
        out = np.asarray(None)
    if out.dtype.kind not in "biuf" or out.ndim != dimensions:
        raise InputError(
            f"{name} as real numbers in {dimensions} dimension{'s' if dimensions > 1 else ''}",
            f"{out.dtype} of shape {out.shape}",
            "give an array of that form",
        )
    return np.ascontiguousarray(out, dtype=np.float64)


def finite_array(values: object, dimensions: int, name: str) -> Reals:
    """`values` as `array_of` has them (`dimensions`, and a `name` for a refusal), all of them finite."""
    out = array_of(values, dimensions, name)
    if not np.isfinite(out).all():
        raise InputError(f"{name} of finite numbers", "some that are not", "leave out or repair them")
    return out


def squared_lengths(rows: Reals, name: str) -> Reals:
    """Squared lengths of rows, where float64 can hold them."""
    with np.errstate(over="ignore"):
        out: Reals = np.einsum("ij,ij->i", rows, rows)
    if not np.isfinite(out).all():
        raise InputError(f"{name} whose squares float64 can hold", "larger numbers", "give them in a larger unit")
    return out


def inverse_lengths(lengths: Reals) -> Reals:
    """One over every length, 0 for a column that counts as zero."""
    return np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > SHORTEST)


def most_atoms(atoms: int, measurements: int | None, width: int) -> int:
    """The number of `atoms`, if a matrix of so many `measurements` (None: any number) and this `width` allows it."""
    most = at_least(1, "give the most atoms that a signal may use", atoms=atoms)
    size, what = (width, "columns") if measurements is None or width < measurements else (measurements, "measurements")
    if most > size:
        raise InputError(f"atoms <= {size}, the number of {what}", f"atoms = {most}", "ask for fewer")
    return most


def stopping_level(name: str, value: float | None) -> float:
    """The level to stop at; below every level where none is given."""
    if value is None:
        return -1.0
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer) or not value >= 0:
        raise InputError(f"{name} >= 0", f"{name} = {value}", "give the level of the noise, or None")
    return float(value)
