"""Linear maps of public labelled rows that keep some classes apart and pull others together.

Rows carry labels of utility targets (to keep) and of privacy targets (to lose). With S_B the scatter between the
classes of a target and S_W the scatter within them, S_B + S_W = S, a map maximises w'Nw / w'Dw:

| kind | numerator N | denominator D (plus a floor) |
|---|---|---|
| jupa | sum S_BU + sum rho1' S_WP | sum S_WU + sum rho1 S_BP |
| ruca | sum S_BU | sum S_WU + sum rho1 S_BP |
| dca | sum S_BU | sum S_WU |
| mdr | sum S_BU | sum S_BP |

The sums run over the targets. The floor on the diagonal of D is rho0 * trace(D) / d: a share of D's own mean
diagonal, so that neither the number of rows nor a unit that all columns have in common matters.
ruca is jupa with rho1' = 0, dca is ruca with rho1 = 0, mdr is what ruca tends to as rho1 grows (with the same rho0).
The pencil that defines dca elsewhere, (S_BU, S + floor), has the same eigenvectors: an eigenvalue v of ours is
v / (1 + v) there. `pca`, `random` and `none` look at no label.

None of this is a privacy guarantee: a direction that is good for utility may tell the privacy target as well.

Reference: Zhuang and Chang, "Utility-aware Privacy-preserving Data Releasing", equations 1 to 9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.jupa.learning.class_scatter import FLAT, ClassSpread, class_numbers, column_means
from adumbra.jupa.learning.row_blocks import (
    as_table,
    damaged,
    map_rows,
    row_blocks,
    seeded_generator,
    stored_array,
)

__all__ = ["KINDS", "FittedProjection", "fit_projection", "floor_unit"]

KINDS = ("jupa", "dca", "mdr", "ruca", "pca", "random", "none")


_WORST_CONDITION = 1e12  # leaves four digits of a float64 to the directions
_NOTHING = 1e-14  # a share of the scatter that is rounding
_LARGEST_WEIGHT = 1e12  # beyond it the other scatter is lost to rounding


@dataclass(frozen=True, eq=False)
class FittedProjection:
    """`apply(rows) = (rows @ matrix - mean) / scale`, of mean 0 and variance 1 on the rows it was fitted to.

    The columns of `matrix` have length 1 and their largest entry in size is positive, so the same rows give the same
    numbers whatever the eigensolver returned. `values` are the ratios w'Nw / w'Dw, highest first; for `pca` the
    variances; empty for `random` and `none`.
    """

    matrix: Reals
    mean: Reals
    scale: Reals
    values: Reals

    def apply(self, rows: ArrayLike) -> Reals:
        """The projected rows, in float64."""
        return map_rows(rows, self.matrix.shape[0], self.matrix.shape[1], self._apply)

    def _apply(self, block: Reals) -> Reals:
        return (block @ self.matrix - self.mean) / self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `from_arrays` needs, for a file."""
        return {"matrix": self.matrix, "mean": self.mean, "scale": self.scale, "values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> FittedProjection:
        """The projection that `arrays` was called on."""
        matrix, mean, scale, values = (stored_array(arrays, name) for name in ("matrix", "mean", "scale", "values"))
        width = (matrix.shape[1],) if matrix.ndim == 2 else None
        if width is None or mean.shape != width or scale.shape != width or values.shape not in (width, (0,)):
            raise damaged("arrays whose shapes do not fit")
        if not (scale > 0).all():
            raise damaged("a scale that is not positive")
        return cls(matrix, mean, scale, values)


def fit_projection(
    kind: str,
    rows: ArrayLike,
    utility: Sequence[ArrayLike],
    privacy: Sequence[ArrayLike],
    components: int,
    *,
    rho0: float = 1e-3,
    rho1: Sequence[float] | float = 1.0,
    rho1_prime: Sequence[float] | float = 1.0,
    seed: bytes,
) -> FittedProjection:
    """Fit a map of this `kind` with `components` columns to public `rows`.

    `utility` and `privacy` are the labels of each target; `rho0` is the floor of the denominator.
    `rho1` and `rho1_prime` are one number for all privacy targets or one for each. Without a privacy target jupa and
    ruca are dca. Where the numerator is made of class means only (dca, ruca, mdr, or rho1_prime 0), no more
    components are defined than those means span: the classes less one, summed over the utility targets, at most.
    `seed` matters to `random` only: directions drawn uniformly and one by one. `none` keeps every column, whatever
    `components` says; a column that does not vary becomes 0.

    >>> rows = np.array([[0.0, 5.0], [1.0, 0.0], [10.0, 5.0], [11.0, 0.0]])
    >>> found = fit_projection("dca", rows, [np.array([0, 0, 1, 1])], [], 1, seed=b"")
    >>> found.apply(rows)[:, 0].round(2).tolist()
    [-1.0, -1.0, 1.0, 1.0]
    """
    table = as_table(rows)
    width = table.shape[1]
    if kind not in KINDS:
        raise InputError(f"a projection out of {', '.join(KINDS)}", repr(kind), "choose one of these")
    if kind == "none":
        return _finished(table, column_means(table), np.eye(width), np.empty(0))
    if not 1 <= components <= width:
        raise InputError(
            f"1 to {width} components, the number of encoded columns",
            f"{components} components",
            "ask for fewer" if components > width else "ask for at least one",
        )
    if kind == "random":
        drawn = seeded_generator(seed, b"random projection").standard_normal((width, components))
        return _finished(table, column_means(table), drawn, np.empty(0))
    if kind == "pca":
        spread = ClassSpread.of(table, [])
        _refuse_more_than(_rank(spread.total, np.diag(spread.total)), components, "the rows", "")
        values, matrix = _highest(spread.total, None, components)
        return _finished(table, spread.mean, matrix, values / len(table))
    pencil = _Pencil.of(kind, table, utility, privacy, rho1, rho1_prime)
    floored = pencil.floored(rho0)
    pencil.refuse_undefined(components)
    try:
        values, matrix = _highest(pencil.numerator, floored, components)
    except np.linalg.LinAlgError:
        raise pencil.singular(floored, rho0) from None
    return _finished(table, pencil.mean, matrix, values)


def floor_unit(
    kind: str,
    rows: ArrayLike,
    utility: Sequence[ArrayLike],
    privacy: Sequence[ArrayLike],
    *,
    rho1: Sequence[float] | float = 1.0,
) -> float:
    """What `fit_projection` multiplies rho0 by: an absolute floor of f on the diagonal is rho0 = f / floor_unit(...).

    For a `kind` out of jupa, dca, ruca and mdr; the others have no floor. `rows`, `utility`, `privacy` and `rho1` as in
    `fit_projection`.
    """
    if kind not in ("jupa", "dca", "ruca", "mdr"):
        raise InputError("a projection with a floor: jupa, dca, ruca or mdr", repr(kind), "choose one of these")
    return _Pencil.of(kind, as_table(rows), utility, privacy, rho1, 0.0).unit


@dataclass(frozen=True, eq=False)
class _Pencil:
    """Numerator and denominator of a kind, the latter without its floor."""

    kind: str
    numerator: Reals
    denominator: Reals
    sizes: tuple[Reals, Reals]  # the diagonals that rounding errors of the two are in proportion to
    mean: Reals
    spanned: int  # dimensions that the class means of the utility targets span
    means_only: bool  # the numerator holds nothing else

    @staticmethod
    def of(
        kind: str,
        table: NDArray[Any],
        utility: Sequence[ArrayLike],
        privacy: Sequence[ArrayLike],
        rho1: Sequence[float] | float,
        rho1_prime: Sequence[float] | float,
    ) -> _Pencil:
        targets = [class_numbers(one, len(table), f"utility target {i + 1}: ") for i, one in enumerate(utility)]
        kept = len(targets)
        if not kept:
            raise InputError("a utility target", "none", f"name one, or use pca instead of {kind}")
        targets += [class_numbers(one, len(table), f"privacy target {i + 1}: ") for i, one in enumerate(privacy)]
        lost = range(kept, len(targets))
        if kind == "mdr" and not lost:
            raise InputError("a privacy target for mdr", "none", "name one, or use dca")
        # Weights of the four sums of the table above; a kind is which of them are 0.
        apart = _weights(rho1, len(lost), "rho1") if kind != "mdr" else [1.0] * len(lost)
        blurred = _weights(rho1_prime, len(lost), "rho1_prime")
        if kind == "dca":
            apart = [0.0] * len(lost)
        if kind != "jupa":
            blurred = [0.0] * len(lost)
        spread = ClassSpread.of(table, targets)
        numerator, denominator = np.zeros((2, *spread.total.shape))
        for index in range(kept):
            numerator += spread.between(index)
            if kind != "mdr":
                denominator += spread.within(index)
        for index, between_weight, within_weight in zip(lost, apart, blurred, strict=True):
            numerator += within_weight * spread.within(index)
            denominator += between_weight * spread.between(index)
        if np.trace(denominator) <= _NOTHING * np.trace(spread.total):
            raise _no_spread(kind)
        # A scatter within classes is a difference from the total, and right up to the total's rounding.
        rounding = np.diag(spread.total)
        sizes = (np.diag(numerator) + sum(blurred) * rounding, np.diag(denominator) + (kind != "mdr") * kept * rounding)
        unit_columns = np.vstack(spread.means[:kept]) / np.sqrt(_positive(rounding))
        spanned = int(np.linalg.matrix_rank(unit_columns, tol=math.sqrt(_NOTHING)))
        return _Pencil(kind, numerator, denominator, sizes, spread.mean, spanned, not any(blurred))

    @property
    def unit(self) -> float:
        """The mean of the denominator's diagonal."""
        return float(np.trace(self.denominator)) / len(self.denominator)

    def floored(self, rho0: float) -> Reals:
        """The denominator with its floor; refused if it is singular."""
        if not 0 <= rho0 <= _LARGEST_WEIGHT:
            raise InputError(f"a rho0 from 0 to {_LARGEST_WEIGHT:g}", str(rho0), "give 0.001")
        width = len(self.denominator)
        floored = self.denominator + rho0 * self.unit * np.eye(width)
        # No eigenvalue exceeds the trace and none is below the floor, so the condition is at most d / rho0 + 1.
        if rho0 < width / _WORST_CONDITION and _rank(floored, self.sizes[1] + rho0 * self.unit) < width:
            raise self.singular(floored, rho0)
        return floored

    def singular(self, floored: Reals, rho0: float) -> InputError:
        width = len(floored)
        rank = _rank(floored, self.sizes[1] + rho0 * self.unit)
        return InputError(
            f"a denominator of full rank for {self.kind}: {width} columns",
            f"rank {rank} of {width} with rho0 {rho0:g}",
            f"give rho0 0.001 (any from {_upwards(width / _WORST_CONDITION):g} on will do)",
        )

    def refuse_undefined(self, components: int) -> None:
        """Refuse components beyond the rank of the numerator: eigenvectors of 0, which are any."""
        if components <= self.spanned:
            return
        if self.means_only:
            other = (
                "a rho1_prime above 0" if self.kind == "jupa" else "jupa with a privacy target and rho1_prime above 0"
            )
            _refuse_more_than(self.spanned, components, "the class means of the utility targets", f", or use {other}")
        else:
            _refuse_more_than(_rank(self.numerator, self.sizes[0]), components, "the rows", "")


def _highest(numerator: Reals, denominator: Reals | None, components: int) -> tuple[Reals, Reals]:
    """Highest eigenvalues, falling, and their vectors."""
    last = len(numerator) - 1
    values, vectors = scipy.linalg.eigh(numerator, denominator, subset_by_index=[last - components + 1, last])
    return values[::-1], vectors[:, ::-1]


def _finished(table: NDArray[Any], mean: Reals, directions: Reals, values: Reals) -> FittedProjection:
    """Fix length and sign of the directions, and the scale by the rows."""
    sizes = np.abs(directions)
    # Entries that tie but for rounding: the first of them decides.
    first = (sizes >= sizes.max(axis=0) * (1 - 1e-9)).argmax(axis=0)
    signs = np.sign(directions[first, np.arange(directions.shape[1])])
    matrix = directions * (signs / np.linalg.norm(directions, axis=0))
    squares = np.zeros(matrix.shape[1])
    for block in row_blocks(table):
        squares += (((block - mean) @ matrix) ** 2).sum(axis=0)
    scale = np.sqrt(squares / len(table))
    largest = np.abs(mean) @ np.abs(matrix)
    return FittedProjection(matrix, mean @ matrix, np.where(scale > FLAT * largest, _positive(scale), 1.0), values)


def _refuse_more_than(defined: int, components: int, what: str, other: str) -> None:
    if components > defined:
        raise InputError(
            f"at most {defined} components: {what} span {defined} dimensions",
            f"{components} components",
            (f"ask for {defined} or fewer" if defined else "add columns that tell the classes apart") + other,
        )


def _rank(matrix: Reals, sizes: Reals) -> int:
    """Rank of a positive semidefinite matrix whose entries are right up to rounding of sqrt(sizes_i sizes_j).

    Columns are brought to one size first, so that the unit of a column does not decide.
    """
    root = np.sqrt(_positive(sizes))
    values = scipy.linalg.eigvalsh(matrix / np.outer(root, root))
    return int((values > values[-1] / _WORST_CONDITION).sum()) if values[-1] > 0 else 0


def _positive(numbers: Reals) -> Reals:
    return np.where(numbers > 0, numbers, 1.0)


def _upwards(number: float) -> float:
    """One digit, not below the number."""
    unit = 10.0 ** math.floor(math.log10(number))
    return math.ceil(number / unit) * unit


def _weights(given: Sequence[float] | float, count: int, name: str) -> list[float]:
    listed = [float(one) for one in np.atleast_1d(np.asarray(given, dtype=np.float64))]
    if len(listed) == 1:
        listed *= count
    elif len(listed) != count:
        raise InputError(f"one {name}, or one for each of {count} privacy targets", f"{len(listed)}", "give as many")
    if not all(0 <= weight <= _LARGEST_WEIGHT for weight in listed):
        raise InputError(f"a {name} from 0 to {_LARGEST_WEIGHT:g}", str(given), "give 1")
    return listed


def _no_spread(kind: str) -> InputError:
    if kind == "mdr":
        return InputError("class means of the privacy targets that differ", "the same in every class", "use dca")
    return InputError(
        "rows that differ within classes", "equal rows in every class", "leave out what repeats the label, or use pca"
    )
