"""The papers' own forms under attack: for each, a pair of neighbours and a score of one output.

Sources: the papers' theorems as cited in `mechanisms.bibliography`; the pairs where their proofs break are worked out
in docs/proofs/published-*.md. The draws come from a statistical generator. All tables are made up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from adumbra.accounting.calibrate import chi2_cells, eps_for, gaussian_delta, mu_for, smallest
from adumbra.common.types import Reals
from adumbra.published.csm_paper import READINGS, csm, measurement_matrix, sensitivity
from adumbra.published.dppro_paper import noisy_projection, theorem_2_sigma
from adumbra.published.dprp_paper import MOMENT_SHARE, PROJECTION_SHARE, theorem_a_sigma, theorem_b_sigma
from adumbra.published.lip_paper import lip, lip_scale
from adumbra.published.lop_paper import lop, lop_scale

__all__ = ["PUBLISHED", "Case", "Evidence", "PaperPromise", "row_space", "worst_moment_pair"]

Generator = np.random.Generator

_BATCH = 1 << 14


@dataclass(frozen=True)
class PaperPromise:
    """What a paper says its noise keeps, and how much of that noise is added (1 but in controls)."""

    epsilon: float
    delta: float
    noise: float = 1.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Scores of independent outputs on each of the two tables; larger speaks for `one`."""

    one: Reals
    other: Reals
    exact: float
    family: str = "approximate"
    cut: float | None = None
    """Where to tell the tables apart, if that is known beforehand; else half of the draws choose it."""
    note: str = ""


@dataclass(frozen=True)
class Case:
    """One form of one paper at one pair of neighbours."""

    reading: str
    neighbours: str
    pair: str
    attack: Callable[[PaperPromise, int, Generator], Evidence]
    cost: int = 1
    """An output costs about this many plain draws, so there are that many times fewer of them."""
    pure: bool = False
    """The paper promises delta = 0."""


def _batches(runs: int, size: int = _BATCH) -> Iterator[int]:
    for start in range(0, runs, size):
        yield min(size, runs - start)


def _laplace_ratio(outputs: Reals, one: Reals, other: Reals, scale: float) -> Reals:
    """Log-likelihood ratio of rows of outputs: independent Laplace noise of this scale around `one` or `other`."""
    return np.asarray((np.abs(outputs - other) - np.abs(outputs - one)).sum(axis=-1) / scale)


# -------------------------------------------------------------------------------------------------- LIP and LOP


def row_space(released: Reals) -> Reals:
    """The projector on the span of the released rows: the basis that LIP and LOP multiplied with.

    >>> row_space(np.array([[2.0, 0.0], [-1.0, 0.0]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    _, sizes, right = np.linalg.svd(released, full_matrices=False)
    kept = right[sizes > 1e-9 * sizes[0]]
    return np.asarray(kept.T @ kept)


def fit(released: Reals, record: Reals, row: int = 0) -> float:
    """How well a record explains its released row: digits of agreement after projection on the row space."""
    miss = float(np.linalg.norm(row_space(released) @ record - released[row]))
    return -math.log10(max(miss, 1e-300))


def _lip_rows(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
    """Z1 of 60 records in 6 columns; the first record is x or something else. The attacker knows x, not the rest."""
    one = rng.normal(size=(60, 6))
    one /= np.linalg.norm(one, axis=1).max()
    other = one.copy()
    other[0] = -0.5 * one[1]

    def scores(table: Reals) -> Reals:
        outputs = (lip(table, promise.epsilon / promise.noise, 3, rng).rows for _ in range(runs))
        return np.array([fit(rows, one[0]) for rows in outputs])

    note = "the row space is exact, so the true record fits to rounding error"
    return Evidence(scores(one), scores(other), exact=math.inf, cut=7.0, note=note)


def worst_moment_pair(width: int) -> tuple[Reals, Reals]:
    """Unit rows x, y with the largest known sum of |xx' - yy'| over the upper triangle (docs/proofs/published-lip.md).

    Largest and smallest eigenvector of half (S + diag S), S = [[1, 1], [1, -1]] in blocks of half the width.
    """
    signs = np.ones((width, width))
    signs[(width + 1) // 2 :, (width + 1) // 2 :] = -1.0
    vectors = np.linalg.eigh((signs + np.diag(np.diag(signs))) / 2)[1]
    return vectors[:, -1], vectors[:, 0]


def _lip_moment(width: int) -> Callable[[PaperPromise, int, Generator], Evidence]:
    """A' of one record (n cancels: it divides both change and noise), upper triangle, lines 2 and 3."""

    def attack(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
        triangle = np.triu_indices(width)
        one, other = (np.outer(row, row)[triangle] for row in worst_moment_pair(width))
        scale = promise.noise * lip_scale(1, width, promise.epsilon)

        def scores(truth: Reals) -> Reals:
            outputs = (truth + rng.laplace(0.0, scale, (size, len(truth))) for size in _batches(runs))
            return np.concatenate([_laplace_ratio(noisy, one, other, scale) for noisy in outputs])

        exact = float(np.abs(one - other).sum() / scale)
        note = f"exact epsilon is the claim over {promise.epsilon / exact:.2f}"
        return Evidence(scores(one), scores(other), exact=exact, note=note)

    return attack


def _lop_tables(promise: PaperPromise) -> tuple[Reals, Reals, int]:
    """m rows e1, m rows e2 and one more: e1 or e2. The more rows, the more the turned basis shows."""
    many = min(math.ceil((6.0 * promise.noise / promise.epsilon) ** 2) + 50, 4000)
    e1, e2 = np.eye(2)
    shared = np.vstack([np.tile(e1, (many, 1)), np.tile(e2, (many, 1))])
    return np.vstack([shared, e1]), np.vstack([shared, e2]), many


def _lop_rows(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
    one, other, many = _lop_tables(promise)

    def scores(table: Reals) -> Reals:
        outputs = (lop(table, promise.epsilon / promise.noise, 1, rng).rows for _ in range(runs))
        return np.array([row_space(rows)[0, 0] for rows in outputs])

    note = f"m = {many}; the row space carries no noise"
    return Evidence(scores(one), scores(other), exact=math.inf, cut=0.5, note=note)


def _lop_coordinates(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
    one, other, many = _lop_tables(promise)
    # The one direction kept is e1 or e2: coordinates 1 for those who lie on it, 0 for the others.
    means = [np.append(np.repeat([on, 1.0 - on], many), 1.0) for on in (1.0, 0.0)]
    scale = promise.noise * lop_scale(2, promise.epsilon)

    def scores(table: Reals) -> Reals:
        outputs = (lop(table, promise.epsilon / promise.noise, 1, rng).coordinates[:, 0] for _ in range(runs))
        return np.array([_laplace_ratio(noisy, means[0], means[1], scale) for noisy in outputs])

    note = f"m = {many}; epsilon grows with the number of rows"
    return Evidence(scores(one), scores(other), exact=2 * many / scale, note=note)


# ---------------------------------------------------------------------------------------------------------- CSM


def _csm(reading: str) -> Callable[[PaperPromise, int, Generator], Evidence]:
    """256 cells, 102 measurements (the paper's 0.4); one tuple more in the first cell."""

    def attack(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
        matrix = measurement_matrix(102, 256, rng)
        change, nothing = matrix[:, 0], np.zeros(102)
        scale = promise.noise * sensitivity(matrix, reading) / promise.epsilon

        def scores(count: float) -> Reals:
            found = []
            for size in _batches(runs, 4096):
                counts = np.zeros((256, size))
                counts[0] = count
                noisy, _ = csm(counts, promise.epsilon / promise.noise, matrix, rng, reading)
                found.append(_laplace_ratio(noisy.T, change, nothing, scale))
            return np.concatenate(found)

        exact = float(np.abs(change).sum() / scale)
        note = f"noise of scale {scale:.3g} on each of 102 measurements"
        return Evidence(scores(1.0), scores(0.0), exact=exact, note=note)

    return attack


# -------------------------------------------------------------------------------------------------------- DPPro

_WIDTH, _DIMENSION, _CATEGORIES = 50, 16, 10


def _dppro_matrix() -> Reals:
    """One draw of R as in Algorithm 1, that of docs/proofs/published-dppro.md. R is public, so the attack uses it."""
    rng = np.random.default_rng([0, _DIMENSION])
    return rng.normal(0.0, 1.0 / math.sqrt(_DIMENSION), (_WIDTH, _DIMENSION))


def _longest(matrix: Reals) -> tuple[Reals, Reals]:
    """A number goes from 0 to 1: the column whose row of R is longest."""
    return np.eye(_WIDTH)[int(np.linalg.norm(matrix, axis=1).argmax())], np.zeros(_WIDTH)


def _widest(matrix: Reals) -> tuple[Reals, Reals]:
    """A category changes: the two of the ten 0/1 columns whose rows of R are farthest apart."""
    block = matrix[:_CATEGORIES]
    apart = np.linalg.norm(block[:, None] - block[None], axis=2)
    i, j = divmod(int(apart.argmax()), _CATEGORIES)
    return np.eye(_WIDTH)[i], np.eye(_WIDTH)[j]


def _dppro(
    rows: Callable[[Reals], tuple[Reals, Reals]], sigma: Callable[[PaperPromise, Reals], float], remark: str = ""
) -> Callable[[PaperPromise, int, Generator], Evidence]:
    """P = XR + noise given this R, as Theorem 2 is stated and proved: the noise follows the R that was drawn.

    Rows of P are independent given R, so a table of equal rows is as many runs on a table of one row. A promise over R
    and for a pair fixed before R is drawn would be a weaker one.
    """

    def attack(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
        matrix = _dppro_matrix()
        scale = promise.noise * sigma(promise, matrix)
        one, other = rows(matrix)
        change, middle = (one - other) @ matrix, (one + other) @ matrix / 2

        def scores(row: Reals) -> Reals:
            outputs = (noisy_projection(np.tile(row, (size, 1)), matrix, scale, rng) for size in _batches(runs))
            return np.concatenate([(noisy - middle) @ change / scale**2 for noisy in outputs])

        exact = eps_for(float(np.linalg.norm(change)) / scale, promise.delta)
        note = f"sigma {scale:.4g}; given the drawn R, at its worst pair{remark}"
        return Evidence(scores(one), scores(other), exact=exact, family="gaussian", cut=0.0, note=note)

    return attack


def _theorem_2(promise: PaperPromise, matrix: Reals) -> float:
    return theorem_2_sigma(promise.epsilon, promise.delta, matrix)


def _analytic(promise: PaperPromise, matrix: Reals) -> float:
    """The exact sigma for one column at the drawn matrix: right for a number, not for a category."""
    return float(np.linalg.norm(matrix, axis=1).max()) / mu_for(promise.epsilon, promise.delta)


# --------------------------------------------------------------------------------------------------------- DPRP

_PROJECTED = 320


def _fresh_epsilon(squared: float, dimension: int, delta: float) -> float:
    """Epsilon at delta, from below, of the Gaussian curve averaged over mu^2 = squared * chi2_k / k."""
    ends, masses, _ = chi2_cells(dimension)
    starts = np.concatenate([[0.0], ends[:-1] * (1 - 3e-9)])  # left ends; undoes the cells' own rounding up
    mu = np.sqrt(squared * starts)
    if float(masses @ gaussian_delta(0.0, mu)) <= delta:
        return 0.0
    return smallest(lambda epsilon: float(masses @ gaussian_delta(epsilon, mu)) <= delta, 1.0, relative=1e-9)


def _antipodal(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
    """P' of a unit row x or -x, with a fresh R for every run; X'X is the same for both, so P' is all there is.

    epsilon and delta are those of P' and V' together, without the 5 % for the search of k1. Only the row of R that x
    picks matters. Both tables meet the same R, which saves time: each table's runs are independent of one another, and
    no more is needed to bound its own error rate.

    Why a Gaussian fit bounds a mixture of Gaussian curves from below: at likelihood ratio 1 both error rates are
    1 - p with p the mean of Phi(mu_R / 2), and along p the slope of delta(epsilon) is 2 exp(epsilon / 2 -
    epsilon^2 / (2 mu^2)), which grows. So delta is convex in p, and the mean of delta over R is at least delta at the
    mean p: the mixture's epsilon is at least the fitted one, at every delta.
    """
    shared = PROJECTION_SHARE + MOMENT_SHARE
    part = PROJECTION_SHARE / shared
    sigma = promise.noise * theorem_a_sigma(part * promise.epsilon, part * promise.delta, _PROJECTED)
    one, other = np.empty(runs), np.empty(runs)
    done = 0
    for size in _batches(runs, 1 << 11):
        matrix = rng.standard_normal((size, _PROJECTED)) / math.sqrt(_PROJECTED)
        for scores, sign in ((one, 1.0), (other, -1.0)):
            noisy = sign * matrix + sigma * rng.standard_normal(matrix.shape)
            scores[done : done + size] = np.einsum("ij,ij->i", noisy, matrix) * (2.0 / sigma**2)
        done += size
    exact = _fresh_epsilon(4.0 / sigma**2, _PROJECTED, promise.delta)
    note = f"sigma {sigma:.4g}, k1 = {_PROJECTED}; over a fresh R"
    return Evidence(one, other, exact=exact, family="gaussian", cut=0.0, note=note)


def _orthonormal(promise: PaperPromise, runs: int, rng: Generator) -> Evidence:
    """X'X + M_2 where e1 becomes e2: (1, 0, 0) or (0, 0, 1) on the upper triangle."""
    sigma = promise.noise * theorem_b_sigma(promise.epsilon, promise.delta)

    def scores(first: float, last: float) -> Reals:
        noisy = np.array([first, 0.0, last]) + rng.normal(0.0, sigma, (runs, 3))
        return np.asarray((noisy[:, 0] - noisy[:, 2]) / sigma**2)

    exact = eps_for(math.sqrt(2.0) / sigma, promise.delta)
    note = f"sigma {sigma:.4g}; all of epsilon on X'X"
    return Evidence(scores(1.0, 0.0), scores(0.0, 1.0), exact=exact, family="gaussian", cut=0.0, note=note)


PUBLISHED: Mapping[str, tuple[Case, ...]] = MappingProxyType(
    {
        "lip": (
            Case("Z1, row space", "row/replace", "60 records in 6 columns; record 1 replaced", _lip_rows, 500, True),
            Case("A' alone, 2 columns", "row/replace", "rows that move X'X most in L1", _lip_moment(2), 5, True),
            Case("A' alone, 20 columns", "row/replace", "rows that move X'X most in L1", _lip_moment(20), 20, True),
        ),
        "lop": (
            Case("Z2, row space", "row/replace", "m rows e1, m rows e2, one more e1 or e2", _lop_rows, 500, True),
            Case("Y2' alone", "row/replace", "m rows e1, m rows e2, one more e1 or e2", _lop_coordinates, 250, True),
        ),
        "csm": tuple(
            Case(reading, "row/add-remove", "one tuple more in one of 256 cells", _csm(reading), 50, True)
            for reading in READINGS
        ),
        "dppro": (
            Case("Theorem 2, a number", "cell/replace", "one number 0 or 1, 50 columns", _dppro(_longest, _theorem_2)),
            Case("sigma 0.1", "cell/replace", "one number 0 or 1, 50 columns", _dppro(_longest, lambda p, r: 0.1)),
            Case("sigma 0.2", "cell/replace", "one number 0 or 1, 50 columns", _dppro(_longest, lambda p, r: 0.2)),
            Case(
                "Theorem 2, one-hot",
                "cell/replace",
                "another of ten 0/1 columns",
                _dppro(_widest, _theorem_2, "; less on average over R, for a pair fixed beforehand"),
            ),
            Case("exact sigma, one-hot", "cell/replace", "another of ten 0/1 columns", _dppro(_widest, _analytic)),
        ),
        "dprp": (
            Case("Z = 1, signed rows", "row/replace", "a unit row x or -x", _antipodal, 1),
            Case("X'X alone", "row/replace", "a row e1 or e2", _orthonormal),
        ),
    }
)
"""Paper -> its forms under attack."""
