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

Reference: Zhuang and Chang, "Utility-aware Privacy-preserving Data Releasing", equations 1 to 9. Kernels: Williams
and Seeger (2001), "Using the Nystroem method to speed up kernel machines".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from adumbra.core.errors import InputError

__all__ = [
    "FEATURE_KERNELS",
    "KINDS",
    "KernelMap",
    "Projection",
    "Scatter",
    "fit_projection",
    "floor_unit",
    "kernel_map",
    "scatter",
]

KINDS = ("jupa", "dca", "mdr", "ruca", "pca", "random", "none")
FEATURE_KERNELS = ("rbf", "laplacian", "polynomial")

Reals = NDArray[np.float64]
Labels = NDArray[np.integer[Any]]

_BLOCK = 1 << 22  # numbers converted at a time: 32 MB
_WORST_CONDITION = 1e12  # leaves four digits of a float64 to the directions
_NOTHING = 1e-14  # a share of the scatter that is rounding
_FLAT = 1e-12  # a sd beside the size of the numbers that is rounding
_COPY = 1e-11  # a share of the landmarks' kernel that one which repeats others adds
_LARGEST_WEIGHT = 1e12  # beyond it the other scatter is lost to rounding
_LARGEST_SCATTER = 1e250  # so that weights and sums cannot overflow


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums of squares and products about the class means, and of the class means about the mean of all rows.

    Their sum is the scatter of the rows about their mean. Neither is divided by the number of rows.
    """

    within: Reals
    between: Reals


@dataclass(frozen=True, eq=False)
class Projection:
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
        return _mapped(rows, self.matrix.shape[0], self.matrix.shape[1], self._apply)

    def _apply(self, block: Reals) -> Reals:
        return (block @ self.matrix - self.mean) / self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `from_arrays` needs, for a file."""
        return {"matrix": self.matrix, "mean": self.mean, "scale": self.scale, "values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Projection:
        """The projection that `arrays` was called on."""
        matrix, mean, scale, values = (_stored(arrays, name) for name in ("matrix", "mean", "scale", "values"))
        width = (matrix.shape[1],) if matrix.ndim == 2 else None
        if width is None or mean.shape != width or scale.shape != width or values.shape not in (width, (0,)):
            raise _damaged("arrays whose shapes do not fit")
        if not (scale > 0).all():
            raise _damaged("a scale that is not positive")
        return cls(matrix, mean, scale, values)


@dataclass(frozen=True, eq=False)
class KernelMap:
    """Features whose inner products are nearly the kernel's: exact between landmarks, close near them.

    The landmarks are rows of the public table and are stored as they are.
    """

    kernel: str
    gamma: float
    landmarks: Reals
    weights: Reals

    def apply(self, rows: ArrayLike) -> Reals:
        """The features of the rows: at most one for each landmark."""
        return _mapped(rows, self.landmarks.shape[1], self.weights.shape[1], self._apply)

    def _apply(self, block: Reals) -> Reals:
        return _kernel(self.kernel, self.gamma, block, self.landmarks) @ self.weights

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `from_arrays` needs, for a file."""
        return {
            "kernel": np.array(self.kernel),
            "gamma": np.array(self.gamma),
            "landmarks": self.landmarks,
            "weights": self.weights,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> KernelMap:
        """The map that `arrays` was called on."""
        gamma, landmarks, weights = (_stored(arrays, name) for name in ("gamma", "landmarks", "weights"))
        kernel = str(arrays["kernel"]) if "kernel" in arrays else ""
        if kernel not in FEATURE_KERNELS:
            raise _damaged("no known kernel")
        if gamma.shape != () or landmarks.ndim != 2 or weights.ndim != 2 or len(landmarks) != len(weights):
            raise _damaged("arrays whose shapes do not fit")
        if not gamma > 0:
            raise _damaged("a gamma that is not positive")
        return cls(kernel, float(gamma), landmarks, weights)


def scatter(rows: ArrayLike, labels: ArrayLike) -> Scatter:
    """Within- and between-class scatter, in float64 whatever the rows are in.

    >>> found = scatter([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    >>> round(found.within.item(), 6), round(found.between.item(), 6)
    (4.0, 100.0)
    """
    table = _table(rows)
    spread = _Spread.of(table, [_target(labels, len(table), "")])
    return Scatter(spread.within(0), spread.between(0))


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
) -> Projection:
    """Fit a map of `components` columns to public rows.

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
    table = _table(rows)
    width = table.shape[1]
    if kind not in KINDS:
        raise InputError(f"a projection out of {', '.join(KINDS)}", repr(kind), "choose one of these")
    if kind == "none":
        return _finished(table, _mean(table), np.eye(width), np.empty(0))
    if not 1 <= components <= width:
        raise InputError(
            f"1 to {width} components, the number of encoded columns",
            f"{components} components",
            "ask for fewer" if components > width else "ask for at least one",
        )
    if kind == "random":
        drawn = _generator(seed, b"random projection").standard_normal((width, components))
        return _finished(table, _mean(table), drawn, np.empty(0))
    if kind == "pca":
        spread = _Spread.of(table, [])
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

    For jupa, dca, ruca and mdr; the others have no floor.
    """
    if kind not in ("jupa", "dca", "ruca", "mdr"):
        raise InputError("a projection with a floor: jupa, dca, ruca or mdr", repr(kind), "choose one of these")
    return _Pencil.of(kind, _table(rows), utility, privacy, rho1, 0.0).unit


def kernel_map(kernel: str, rows: ArrayLike, landmarks: int, gamma: float | None, seed: bytes) -> KernelMap:
    """Nystroem features from `landmarks` public rows, chosen by `seed` (all rows if there are not as many).

    rbf is exp(-gamma |x - y|^2), laplacian exp(-gamma sum |x_j - y_j|), polynomial (1 + gamma x'y)^3. `gamma` is
    1 / (number of columns) unless given. Landmarks that add nothing (duplicates) add no feature.
    """
    if kernel not in FEATURE_KERNELS:
        raise InputError(
            f"a kernel out of {', '.join(FEATURE_KERNELS)}", repr(kernel), "choose one of these; linear needs no map"
        )
    table = _table(rows)
    if landmarks < 1:
        raise InputError("at least one landmark", str(landmarks), "ask for some hundreds")
    if gamma is None:
        gamma = 1.0 / table.shape[1]
    if not (gamma > 0 and math.isfinite(gamma)):
        raise InputError("a gamma above 0", str(gamma), "leave it out for 1 / (number of columns)")
    order = _generator(seed, b"landmarks").permutation(len(table))
    chosen = next(_blocks(table[np.sort(order[:landmarks])], whole=True))
    values, vectors = scipy.linalg.eigh(_kernel(kernel, gamma, chosen, chosen))
    real = values > values[-1] * _COPY
    return KernelMap(kernel, float(gamma), chosen, vectors[:, real] / np.sqrt(values[real]))


@np.errstate(over="ignore", invalid="ignore")
def _kernel(kernel: str, gamma: float, rows: Reals, landmarks: Reals) -> Reals:
    if kernel == "laplacian":
        found = np.exp(-gamma * cdist(rows, landmarks, "cityblock"))
    elif kernel == "polynomial":
        found = (1.0 + gamma * (rows @ landmarks.T)) ** 3
    else:
        squared = (rows**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2.0 * (rows @ landmarks.T)
        found = np.exp(-gamma * np.maximum(squared, 0.0))
    if not np.isfinite(found).all():
        raise _too_large()
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class _Spread:
    """The scatter of all rows and, for each target, a factor of the scatter between its classes."""

    mean: Reals
    total: Reals
    means: list[Reals]  # class by column: (class mean - mean) * sqrt(rows of the class)

    @staticmethod
    def of(table: NDArray[Any], targets: Sequence[Labels]) -> _Spread:
        mean = _mean(table)
        width = len(mean)
        total = np.zeros((width, width))
        means = [np.zeros((int(target.max()) + 1, width)) for target in targets]
        start = 0
        for block in _blocks(table):
            centred = block - mean
            with np.errstate(over="ignore", invalid="ignore"):
                total += centred.T @ centred
            for target, sums in zip(targets, means, strict=True):
                sums += _membership(target[start : start + len(block)], len(sums)) @ centred
            start += len(block)
        if not np.abs(total).max() < _LARGEST_SCATTER:
            raise _too_large()
        # A column that does not vary is its mean's rounding error by now, which would count as a direction.
        flat = np.sqrt(np.diag(total) / len(table)) <= _FLAT * np.abs(mean)
        total[flat] = total[:, flat] = 0.0
        for target, sums in zip(targets, means, strict=True):
            sums /= np.sqrt(np.bincount(target))[:, None]
            sums[:, flat] = 0.0
        return _Spread(mean, total, means)

    def between(self, index: int) -> Reals:
        return np.asarray(self.means[index].T @ self.means[index])

    def within(self, index: int) -> Reals:
        return np.asarray(self.total - self.between(index))


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
        targets = [_target(one, len(table), f"utility target {i + 1}: ") for i, one in enumerate(utility)]
        kept = len(targets)
        if not kept:
            raise InputError("a utility target", "none", f"name one, or use pca instead of {kind}")
        targets += [_target(one, len(table), f"privacy target {i + 1}: ") for i, one in enumerate(privacy)]
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
        spread = _Spread.of(table, targets)
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


def _finished(table: NDArray[Any], mean: Reals, directions: Reals, values: Reals) -> Projection:
    """Fix length and sign of the directions, and the scale by the rows."""
    sizes = np.abs(directions)
    # Entries that tie but for rounding: the first of them decides.
    first = (sizes >= sizes.max(axis=0) * (1 - 1e-9)).argmax(axis=0)
    signs = np.sign(directions[first, np.arange(directions.shape[1])])
    matrix = directions * (signs / np.linalg.norm(directions, axis=0))
    squares = np.zeros(matrix.shape[1])
    for block in _blocks(table):
        squares += (((block - mean) @ matrix) ** 2).sum(axis=0)
    scale = np.sqrt(squares / len(table))
    largest = np.abs(mean) @ np.abs(matrix)
    return Projection(matrix, mean @ matrix, np.where(scale > _FLAT * largest, _positive(scale), 1.0), values)


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


def _target(labels: ArrayLike, count: int, who: str) -> Labels:
    """Class numbers 0, 1, ... without gaps."""
    given = np.asarray(labels)
    if given.shape != (count,):
        raise InputError(
            f"{who}one label for each of {count} rows", f"labels of shape {given.shape}", "give one list each"
        )
    if given.dtype.kind not in "iub":
        raise InputError(f"{who}class numbers", f"labels of type {given.dtype}", "number the classes from 0")
    classes, numbers = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{who}two classes or more", "one class in all rows", "choose a target that varies")
    return numbers


def _table(rows: ArrayLike) -> NDArray[Any]:
    """Check the shape; the numbers are checked as they are read."""
    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 1 or table.dtype.kind not in "fiub":
        raise InputError(
            "a table of numbers with two rows or more", f"{table.dtype} of shape {table.shape}", "encode the rows first"
        )
    return table


def _blocks(table: NDArray[Any], whole: bool = False) -> Iterator[Reals]:
    """The rows in float64, some at a time, refused where a number is missing."""
    step = len(table) if whole else max(1, _BLOCK // max(1, table.shape[1]))
    for start in range(0, len(table), step):
        block = np.asarray(table[start : start + step], dtype=np.float64)
        if not np.isfinite(block).all():
            raise InputError("rows of finite numbers", "an empty or infinite number", "fill or drop such rows first")
        yield block


def _mapped(rows: ArrayLike, width: int, columns: int, function: Callable[[Reals], Reals]) -> Reals:
    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != width or table.dtype.kind not in "fiub":
        raise InputError(
            f"rows of {width} numbers", f"{table.dtype} of shape {table.shape}", "encode them as the fitting rows were"
        )
    out = np.empty((len(table), columns))
    start = 0
    for block in _blocks(table):
        out[start : start + len(block)] = function(block)
        start += len(block)
    return out


def _mean(table: NDArray[Any]) -> Reals:
    """Taken twice, the second time about the first: right to the last digit for columns far from 0 too."""
    mean = np.zeros(table.shape[1])
    for _ in range(2):
        mean = mean + sum((block - mean).sum(axis=0) for block in _blocks(table)) / len(table)
    return mean


def _membership(labels: Labels, classes: int) -> Any:
    """Class by row: 1 where the row is of the class. Sparse, so that many classes cost nothing."""
    count = len(labels)
    return scipy.sparse.csr_array((np.ones(count), (labels, np.arange(count))), shape=(classes, count))


def _generator(seed: bytes, purpose: bytes) -> np.random.Generator:
    key = hashlib.sha256(seed + b"\0" + purpose).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key[:16], dtype=np.uint64)))


def _stored(arrays: Mapping[str, NDArray[Any]], name: str) -> Reals:
    if name not in arrays:
        raise _damaged(f"no {name}")
    found = np.asarray(arrays[name])
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise _damaged(f"a {name} that is not made of finite numbers")
    return found.astype(np.float64)


def _damaged(got: str) -> InputError:
    return InputError("the arrays of a fitted projection or kernel map", got, "fit it again")


def _too_large() -> InputError:
    return InputError("numbers whose squares can be added", "far larger ones", "scale the columns first")


def _no_spread(kind: str) -> InputError:
    if kind == "mdr":
        return InputError("class means of the privacy targets that differ", "the same in every class", "use dca")
    return InputError(
        "rows that differ within classes", "equal rows in every class", "leave out what repeats the label, or use pca"
    )
