"""A symmetric matrix seen through symmetric noise: which components are real, how large, and how far the axes moved.

Seen is A' = A + E, d x d, where A is positive semidefinite and unknown and the law of E is known. With s the sd of
an entry of E off the diagonal, noise alone fills the spectrum up to about 2 s sqrt d, its edge. What holds for every A:

    Weyl            every eigenvalue moved by at most |E|
    sin 2 theta     sin(2 angle) <= 2 |E| / (gap seen), for the span of the first k axes

with |E| the operator norm, of which `SymmetricNoise.norm` knows a quantile. What holds on average, for a component
of variance L that stands alone and clear of the edge: it is seen at L + (d - 1) s^2 / L, and the squared cosine
between the axis seen and the true one is 1 - (d - 1) s^2 / L^2. Derivations: docs/proofs/spectrum.md.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from adumbra.common.errors import InputError
from adumbra.common.types import Reals

__all__ = [
    "LAWS",
    "LEVELS",
    "SymmetricNoise",
    "angle_bound",
    "axis_bounds",
    "chosen",
    "components_above",
    "debiased",
    "interval",
    "leading",
    "principal_angles",
    "subspace_error",
]


LAWS = ("gaussian", "laplace", "l2-laplace")
LEVELS = (0.95, 0.99)

# Quantiles of |E| less 2 sqrt d, for s = 1, at these widths; the last digit is rounded up. The diagonal has sd sqrt 2,
# in "laplace-even" 1. gaussian and l2-laplace are computed, laplace is simulated (upper 99.9% confidence limits of the
# quantiles; 200,000 runs for small widths, 1,500 for the widest). tests/numerics/test_spectrum.py makes them again.
_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# fmt: off
_EXCESS = {
    ("gaussian", 0.95): (
        0.772, 0.826, 0.834, 0.831, 0.826, 0.819, 0.812, 0.806, 0.799, 0.793, 0.787, 0.782,
        0.762, 0.746, 0.732, 0.709, 0.676, 0.653, 0.619, 0.595, 0.563, 0.540, 0.509, 0.488),
    ("gaussian", 0.99): (
        1.643, 1.622, 1.588, 1.557, 1.530, 1.506, 1.484, 1.465, 1.447, 1.431, 1.417, 1.403,
        1.358, 1.322, 1.292, 1.245, 1.180, 1.134, 1.070, 1.026, 0.966, 0.925, 0.869, 0.832),
    ("l2-laplace", 0.95): (
        0.996, 1.260, 1.299, 1.280, 1.246, 1.211, 1.178, 1.147, 1.119, 1.094, 1.072, 1.051,
        0.985, 0.936, 0.899, 0.844, 0.775, 0.731, 0.676, 0.640, 0.595, 0.566, 0.527, 0.502),
    ("l2-laplace", 0.99): (
        2.606, 2.672, 2.547, 2.411, 2.291, 2.190, 2.105, 2.033, 1.970, 1.916, 1.869, 1.827,
        1.697, 1.606, 1.537, 1.438, 1.317, 1.241, 1.146, 1.086, 1.008, 0.958, 0.893, 0.850),
    ("laplace", 0.95): (
        1.038, 1.357, 1.512, 1.598, 1.653, 1.692, 1.710, 1.711, 1.716, 1.717, 1.709, 1.705,
        1.670, 1.615, 1.564, 1.481, 1.370, 1.316, 1.178, 1.027, 0.904, 0.859, 0.784, 0.729),
    ("laplace", 0.99): (
        2.667, 2.917, 3.055, 3.054, 3.062, 3.028, 3.022, 3.008, 2.965, 2.958, 2.931, 2.895,
        2.740, 2.633, 2.545, 2.368, 2.144, 2.054, 1.660, 1.560, 1.465, 1.363, 1.221, 1.254),
    ("laplace-even", 0.95): (
        0.148, 0.496, 0.723, 0.864, 0.971, 1.035, 1.106, 1.129, 1.167, 1.194, 1.203, 1.221,
        1.244, 1.238, 1.224, 1.186, 1.132, 1.113, 1.034, 0.924, 0.817, 0.796, 0.727, 0.680),
    ("laplace-even", 0.99): (
        1.300, 1.700, 1.955, 2.049, 2.141, 2.172, 2.256, 2.231, 2.259, 2.247, 2.252, 2.226,
        2.202, 2.146, 2.101, 1.973, 1.861, 1.761, 1.540, 1.414, 1.370, 1.294, 1.152, 1.232),
}
# fmt: on

_LANCZOS_FROM = 1000  # below it, all of a spectrum costs less than a fifth of a second
_SLACK = 1e-9  # of the largest eigenvalue: what is not told apart by the check on Lanczos
_RNG: dict[str, Any] = {"rng": 0} if "rng" in inspect.signature(eigsh).parameters else {}


@dataclass(frozen=True)
class SymmetricNoise:
    """The law of E: `width` x `width`, symmetric, entries of mean 0 that are independent in the upper triangle.

    - `gaussian`: normal. With off_diagonal = diagonal / sqrt 2 its law does not change under rotations.
    - `laplace`: two-sided exponential.
    - `l2-laplace`: that rotation-free normal matrix times sqrt(chi2 / (m + 1)), chi2 with m + 1 degrees of freedom,
      m = d (d + 1) / 2: density exp(-|E|_F / scale). The entries are uncorrelated, not independent.

    `diagonal` and `off_diagonal` are standard deviations and may have any ratio; bounds are tightest at sqrt 2, for
    Laplace at 1 too. At width 1 `off_diagonal` is ignored. Noise of sd 0 is allowed.
    """

    law: str
    width: int
    diagonal: float
    off_diagonal: float

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise InputError(f"a law of noise: {', '.join(LAWS)}", repr(self.law), "choose one of them")
        if self.width < 1:
            raise InputError("a matrix of width 1 or more", str(self.width), "give at least one column")
        for sd in (self.diagonal, self.off_diagonal):
            if not (math.isfinite(sd) and sd >= 0):
                raise InputError("finite standard deviations, at least 0", repr(sd), "give the noise that was added")

    @property
    def spread(self) -> float:
        """The sd off the diagonal; at width 1, what it would be beside that diagonal without a preferred direction."""
        return self.off_diagonal if self.width > 1 else self.diagonal / math.sqrt(2)

    @property
    def edge(self) -> float:
        """Where the noise's own spectrum ends, 2 s sqrt d: a component seen below it cannot be told from noise.

        >>> SymmetricNoise("gaussian", 100, 2**0.5, 1.0).edge
        20.0
        """
        return 2.0 * self.spread * math.sqrt(self.width)

    def norm(self, level: float = 0.95) -> float:
        """|E|_2 stays at or below this with at least that probability; `level` is one of `LEVELS`.

        Gaussian and l2-laplace: exact at the widths tabulated. Laplace: simulated there, with a margin. Between two
        widths the larger excess over the edge is taken, beyond the last one its excess, which only falls with width.

        >>> SymmetricNoise("gaussian", 100, 2**0.5, 1.0).norm()
        20.619
        """
        if level not in LEVELS:
            raise InputError(f"a level of {' or '.join(map(str, LEVELS))}", repr(level), "choose one of them")
        # More variance anywhere only makes large norms likelier, so entries may be taken as larger than they are.
        off = self.off_diagonal if self.width > 1 else 0.0
        least = max(off, self.diagonal / math.sqrt(2)) * self._quantile(self.law, level)
        if self.law == "laplace":
            least = min(least, max(off, self.diagonal) * self._quantile("laplace-even", level))
        return least

    def _quantile(self, row: str, level: float) -> float:
        excess, at = _EXCESS[row, level], bisect_left(_WIDTHS, self.width)
        if at == len(_WIDTHS):
            over = excess[-1]
        else:
            over = excess[at] if _WIDTHS[at] == self.width else max(excess[at - 1], excess[at])
        return 2.0 * math.sqrt(self.width) + over


def leading(matrix: ArrayLike, count: int) -> tuple[Reals, Reals]:
    """The `count` largest eigenvalues of a symmetric matrix, descending, and their vectors as columns.

    The same matrix gives the same answer; of each vector, the first entry that is as large as any is positive. Wide
    matrices go through Lanczos if few components are asked for; a factorisation then proves that none was missed, and
    where Lanczos does not get there in time, or missed one, the matrix is decomposed directly.
    """
    whole = np.asarray(matrix, dtype=float)
    if whole.ndim != 2 or whole.shape[0] != whole.shape[1] or not whole.size:
        raise InputError("a square matrix", f"shape {whole.shape}", "give one row and one column per variable")
    width = whole.shape[0]
    if not 1 <= count <= width:
        raise InputError(f"1 to {width} components", str(count), "ask for as many as there are columns, at most")
    if not np.isfinite(whole).all():
        raise InputError("finite numbers", "a matrix with others", "look at what was added up")
    if float(np.abs(whole - whole.T).max()) > 1e-9 * float(np.abs(whole).max()):
        raise InputError("a symmetric matrix", "one that differs from its transpose", "use (M + M.T) / 2")
    found = _lanczos(whole, count) if width >= _LANCZOS_FROM and 100 * count <= width else None
    values, vectors = found if found is not None else _direct(whole, count)
    return values, vectors * _signs(vectors)


def _direct(matrix: Reals, count: int) -> tuple[Reals, Reals]:
    width = matrix.shape[0]
    wanted = None if count == width else (width - count, width - 1)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=wanted, check_finite=False)
    return values[::-1].copy(), vectors[:, ::-1].copy()


def _lanczos(matrix: Reals, count: int) -> tuple[Reals, Reals] | None:
    """By Lanczos, or None if that takes longer than decomposing the matrix, or left out a component."""
    width = matrix.shape[0]
    basis = max(3 * count, count + 40)
    try:
        values, vectors = eigsh(
            matrix,
            k=count,
            which="LA",
            v0=np.random.default_rng(0).standard_normal(width),
            ncv=basis,
            maxiter=max(1, width // (4 * (basis - count))),  # restarts: d / 4 products, half a tridiagonalisation
            tol=1e-10,
            **_RNG,
        )
    except ArpackError:
        return None
    order = np.argsort(values)[::-1]
    values, vectors = values[order], vectors[:, order]
    return (values, vectors) if _nothing_above(matrix, values, vectors) else None


def _nothing_above(matrix: Reals, values: Reals, vectors: Reals) -> bool:
    """Whether no eigenvalue exceeds the last of `values`, up to the slack, but those given.

    With the given ones pushed down, (last + slack) I - matrix is positive definite just then, and has a Cholesky
    factor; a third of the work of decomposing it.
    """
    scale = max(float(np.abs(values).max()), float(np.linalg.norm(matrix)) / math.sqrt(len(matrix)))
    rest = (vectors * (values - values[-1] + scale)) @ vectors.T
    rest -= matrix
    rest[np.diag_indices_from(rest)] += values[-1] + _SLACK * scale
    try:
        scipy.linalg.cholesky(rest, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True


def _signs(vectors: Reals) -> Reals:
    """+-1 for each column. Rounding must not choose between two entries of the same size, so the first one counts."""
    size = np.abs(vectors)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def debiased(values: ArrayLike, noise: SymmetricNoise) -> Reals:
    """What the true variance would be on average, for components seen above the edge; 0 for the others.

    Noise makes variances look larger. A component of variance L alone is seen at L + (d - 1) s^2 / L; this is the
    larger L for which that is so. A component just above the edge may be half as large as it looks.

    >>> debiased([29.9, 20.0], SymmetricNoise("gaussian", 100, 2**0.5, 1.0)).round(2)
    array([26.11,  0.  ])
    """
    seen, above = _seen(values, noise)
    within = np.where(above, seen**2 - 4.0 * (noise.width - 1) * noise.spread**2, 0.0)
    return np.where(above, (seen + np.sqrt(within)) / 2.0, 0.0)


def _seen(values: ArrayLike, noise: SymmetricNoise) -> tuple[Reals, NDArray[np.bool_]]:
    seen = np.atleast_1d(np.asarray(values, dtype=float))
    return seen, seen > noise.edge


def interval(values: ArrayLike, norm: float) -> tuple[Reals, Reals]:
    """Lower and upper end for each true eigenvalue, right for all of them at once whenever |E|_2 <= norm.

    Weyl's inequality, and variances are not negative. The i-th value seen belongs to the i-th true one.
    """
    seen = np.atleast_1d(np.asarray(values, dtype=float))
    return np.maximum(seen - norm, 0.0), np.maximum(seen + norm, 0.0)


def angle_bound(values: ArrayLike, kept: int, norm: float, width: int | None = None) -> float:
    """Sine of the largest angle between the span of the first `kept` axes seen and that of the true ones, at most.

    Holds whenever |E|_2 <= norm, for the `values` seen, descending, one more than kept: with g the gap after the last
    one kept, sin(arcsin(2 norm / g) / 2) if 2 norm < g, otherwise 1: they could be any axes. No bound that knows
    only g and norm is smaller. 1 too if the next value is not given, unless all of `width` components are kept: then
    it is 0, as it is if none is.

    >>> angle_bound([10.0, 2.0], 1, 2.0)
    0.258...
    """
    seen = _descending(values)
    if not 0 <= kept <= len(seen):
        raise InputError("a value for every axis kept", f"{len(seen)} for {kept}", "give one more than that")
    if kept in (0, width):
        return 0.0
    gap = float(seen[kept - 1] - seen[kept]) if kept < len(seen) else 0.0
    return math.sin(math.asin(2.0 * norm / gap) / 2.0) if gap > 2.0 * norm else 1.0


def axis_bounds(values: ArrayLike, norm: float, width: int | None = None) -> Reals:
    """Sine of the angle between each axis seen and its true one, at most; for all `values` but the last.

    For the last one too if there are `width` of them. The smaller of two bounds: N / (g - N), g the gap to the nearer
    neighbour, and from spans: axis i lies in the span of the first i and leaves that of the first i - 1, so its
    squared sine is at most the sum of theirs.
    """
    seen = _descending(values)
    count = len(seen) if len(seen) == width else len(seen) - 1
    spans = np.array([angle_bound(seen, kept, norm, width) for kept in range(count + 1)])
    gaps = np.concatenate([[np.inf], -np.diff(seen), [np.inf]])
    nearer = np.minimum(gaps[:-1], gaps[1:])[:count]
    alone = np.divide(norm, nearer - norm, out=np.ones(count), where=nearer > 2.0 * norm)
    sines: Reals = np.minimum(np.hypot(spans[:-1], spans[1:]), alone)
    return sines


def _descending(values: ArrayLike) -> Reals:
    seen = np.atleast_1d(np.asarray(values, dtype=float))
    if (np.diff(seen) > 0).any():
        raise InputError("eigenvalues in descending order", "some that rise", "sort them, with their axes")
    return seen


def components_above(values: ArrayLike, threshold: float) -> int:
    """How many components are seen above a threshold.

    Above `SymmetricNoise.norm` they are real, all of them, at its level: noise alone, added to a matrix of lower
    rank, does not get there. Above `SymmetricNoise.edge` they probably are.
    """
    return int((np.asarray(values, dtype=float) > threshold).sum())


def chosen(values: ArrayLike, trace: float, noise: SymmetricNoise, contribution: float) -> int:
    """How many components make up a share of all variance, as far as noisy numbers can tell; at least 1.

    The least k whose debiased variances add up to `contribution` of the trace. If they never do, as many as are above
    the edge: what is missing is hidden in noise. A true trace is at least the variance that was found, so a noisy
    one below that is raised to it.
    """
    if not 0 < contribution <= 1:
        raise InputError("a share above 0, at most 1", repr(contribution), "0.9 asks for 90% of the variance")
    found = np.cumsum(debiased(_descending(values), noise))
    above = components_above(values, noise.edge)
    if not above:
        return 1
    target = contribution * max(trace, float(found[-1])) * (1 - 1e-12)  # rounding must not ask for one more
    return min(int(np.searchsorted(found, target)) + 1, above)


def principal_angles(one: ArrayLike, other: ArrayLike) -> Reals:
    """Sines of the principal angles between the spans of orthonormal columns, the largest first.

    As many as the smaller span has dimensions. From residuals, so that small angles keep their digits.
    """
    wide, slim = sorted((np.asarray(one, float), np.asarray(other, float)), key=lambda span: -span.shape[1])
    sines: Reals = np.minimum(np.linalg.svd(slim - wide @ (wide.T @ slim), compute_uv=False), 1.0)
    return sines


def subspace_error(one: ArrayLike, other: ArrayLike) -> float:
    """|P - Q|_F / sqrt(2k) for the projectors on two spans of k orthonormal columns: 0 if equal, 1 if at right angles.

    It is the root mean square of the sines of the principal angles.
    """
    if np.shape(one) != np.shape(other):
        raise InputError("spans of the same dimension", f"{np.shape(one)} and {np.shape(other)}", "compare equals")
    return float(np.sqrt(np.mean(principal_angles(one, other) ** 2)))
