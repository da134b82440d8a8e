"""Rows from noisy, perhaps projected rows and a second moment: linear maps that know nothing of privacy.

Model: a row x with second moment C = E x'x is seen as y = xR + N(0, s^2 I), with R a public d x k matrix (`None`
means the identity, k = d). Everything is a function of (R, s, C), so a map is made once and applied batch by batch.

| map | y times | use |
|---|---|---|
| `pseudo_inverse` | (V'R)^+ V', V the leading eigenvectors | what the DPRP paper prints; ignores the noise |
| `wiener` | (R'CR + s^2 I)^-1 R'C | least squared error of all linear maps; rows shrink towards 0 |
| `moment_matched` | the transport of Wiener's rows to the second moment C | rows of the right spread and correlation |
| `posterior_draw` | Wiener's, plus a draw of what y leaves open | second moment C even where y says nothing |

Several projections of the same rows are one: stack the matrices side by side, [R1 | R2 | ...]. Where their noise
differs, divide each block of R and of y by its own sd first and give noise_sd 1.

All work goes through one singular value decomposition of F'R, where C = FF'. No matrix is inverted, so s = 0, C = 0
and R of any shape and rank need no case of their own: at s = 0 each map is its limit for s -> 0. Eigenvalues of C and
singular values of F'R within rounding of 0 (d or k times 2^-52 of the largest) count as 0.

Wiener's map is standard (linear least squares), `pseudo_inverse` is DPRP's (bibliography of mechanisms/dprp.py), the
edge of the semicircle is derived in docs/proofs/spectrum.md; `moment_matched` is proved below and the house's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between

__all__ = [
    "Reconstruction",
    "expected_row_error",
    "moment_matched",
    "posterior_draw",
    "pseudo_inverse",
    "pseudo_inverse_ensemble",
    "second_moment",
    "wiener",
]


_ROUNDING = float(np.finfo(np.float64).eps)
_SKEW = 1e-8  # asymmetry and negative eigenvalues below this share of the largest entry are taken for rounding
_SD_REMEDY = "give the standard deviation of the noise, 0 where there is none"


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A linear map of rows (k x d) and, for a random one, what each row's draw is multiplied with (r x d)."""

    matrix: Reals
    spread: Reals | None = None

    def apply(self, batch: Reals, generator: np.random.Generator | None = None) -> Reals:
        """Reconstruct the rows of `batch` (n x k).

        Batch after batch with one generator gives the rows that one large batch would. `generator` is used for
        post-processing only, so it may be seeded; it is needed exactly where there is a spread.
        """
        if batch.ndim != 2 or batch.shape[1] != self.matrix.shape[0]:
            raise InputError(
                f"a batch of rows with {self.matrix.shape[0]} numbers each",
                f"shape {batch.shape}",
                "give the rows as measured with the same projection",
            )
        rows = batch @ self.matrix
        if self.spread is None:
            return np.asarray(rows)
        if generator is None:
            raise InputError("a generator for the draw", "none", "give np.random.default_rng(), or use `wiener`")
        return np.asarray(rows + generator.standard_normal((len(batch), len(self.spread))) @ self.spread)


def second_moment(noisy: Reals, rows: int, noise_sd: float) -> Reals:
    """A positive semidefinite second moment per row from `noisy`, the symmetric X'X + noise.

    `noise_sd` is the sd of the noise off the diagonal. Such noise alone has eigenvalues up to 2 noise_sd sqrt(d) (the
    edge of the semicircle), so every eigenvalue is lowered by that edge and cut at 0; what the trace, which is
    measured far better than single directions, then lacks is spread evenly. Where negative eigenvalues are so large
    that lowering by the edge leaves too much, it is lowered further until the trace is right: the trace is kept
    always, except that a negative one becomes C = 0.

    >>> second_moment(np.diag([30.0, 2.0]), 10, 0.0)
    array([[3. , 0. ],
           [0. , 0.2]])
    """
    noisy = _symmetric(noisy)
    at_least(1, "give the number of rows behind the matrix", rows=rows)
    between(0.0, math.inf, _SD_REMEDY, noise_sd=noise_sd)
    values, vectors = np.linalg.eigh(noisy / rows)
    total = float(values.sum())
    if total <= len(values) * _ROUNDING * float(np.abs(values).max()):
        return np.zeros_like(noisy)
    # Lowered by the edge, or by what the projection on {w >= 0, sum w = total} takes where that is more.
    ordered = values[::-1]
    lowered = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    on_simplex = float(lowered[np.flatnonzero(ordered > lowered)[-1]])
    kept = np.maximum(values - max(2.0 * noise_sd * math.sqrt(len(values)) / rows, on_simplex), 0.0)
    rest = max(total - float(kept.sum()), 0.0) / len(values)
    return _mirror((vectors * (kept + rest)) @ vectors.T)


def pseudo_inverse(moment: Reals, projection: Reals | None, rank: int) -> Reconstruction:
    """DPRP's line 7: y (V'R)^+ V', V the `rank` eigenvectors of largest absolute eigenvalue, as an SVD orders them.

    Any symmetric `moment` will do, also a raw noisy one. Exact without noise for rows in the span of V where
    V'R has full row rank (which needs k >= rank). Blind to the noise: small singular values of V'R blow it up. Tied
    eigenvalues, such as the even rest of `second_moment`, leave V arbitrary there.
    """
    moment = _symmetric(moment)
    width = len(moment)
    if not 1 <= rank <= width or int(rank) != rank:
        raise InputError(f"a rank from 1 to {width}", f"rank = {rank}", "give the number of directions to keep")
    values, vectors = np.linalg.eigh(moment)
    leading = vectors[:, np.argsort(-np.abs(values), kind="stable")[: int(rank)]]
    return Reconstruction(np.asarray(np.linalg.pinv(leading.T @ _matrix(projection, width)) @ leading.T))


def pseudo_inverse_ensemble(moment: Reals, projections: Sequence[Reals], rank: int) -> Reconstruction:
    """The plain average of `pseudo_inverse` over members; applies to their rows side by side, [y1 | y2 | ...].

    `moment` and `rank` are those of `pseudo_inverse`; `projections` are the matrices R of the members, d x k each.
    For rows in the span of V, equal noise and full row rank it is never better than `pseudo_inverse` of the stacked
    matrix [R1 | R2 | ...]: both are unbiased there, and the stacked one is least squares (Gauss-Markov).
    """
    if not projections:
        raise InputError("at least one projection", "none", "give the matrices of all members")
    members = [pseudo_inverse(moment, one, rank).matrix for one in projections]
    return Reconstruction(np.vstack(members) / len(members))


def wiener(moment: Reals, projection: Reals | None, noise_sd: float) -> Reconstruction:
    """The linear map of least expected squared row error, y (R'CR + s^2 I)^-1 R'C.

    `moment` is C (d x d), `projection` is R (d x k, None for the identity), `noise_sd` is s >= 0.
    Its rows have less spread than C: by `expected_row_error` in all, and none where y says nothing.
    """
    return Reconstruction(_parts(moment, projection, noise_sd).wiener)


def posterior_draw(moment: Reals, projection: Reals | None, noise_sd: float) -> Reconstruction:
    """Wiener's map plus N(0, C - CR (R'CR + s^2 I)^-1 R'C): for Gaussian rows a draw from x given y.

    `moment` is C (d x d), `projection` is R (d x k, None for the identity), `noise_sd` is s >= 0.
    The second moment is C for rows of any law, since what Wiener's rows lack is just what is added. The squared row
    error is twice Wiener's.
    """
    parts = _parts(moment, projection, noise_sd)
    # What y leaves open of each direction: s / sqrt(a^2 + s^2) where y shows it, all of it where it does not.
    open_share = np.ones(parts.left.shape[1])
    open_share[: len(parts.gain)] = parts.noise_sd / parts.size
    return Reconstruction(parts.wiener, (parts.left * open_share).T)


def expected_row_error(moment: Reals, projection: Reals | None, noise_sd: float) -> float:
    """E |x - y wiener|^2 = trace(C - CR (R'CR + s^2 I)^-1 R'C), at most trace C; for R = I the sum of l s^2/(l + s^2).

    `moment` is C (d x d), `projection` is R (d x k, None for the identity), `noise_sd` is s >= 0.

    >>> round(expected_row_error(np.diag([3.0, 1.0]), None, 1.0), 12)
    1.25
    """
    spread = posterior_draw(moment, projection, noise_sd).spread
    return 0.0 if spread is None else float(np.sum(spread * spread))


def moment_matched(moment: Reals, projection: Reals | None, noise_sd: float) -> Reconstruction:
    """Rows nearest to x in mean square among linear maps of y whose output has second moment C where y can reach.

    `moment` is C (d x d), `projection` is R (d x k, None for the identity), `noise_sd` is s >= 0.

    *Reachable subspace*: E = range(CR). For v orthogonal to E the correlation of xv with y is v'CR = 0: y says
    nothing linear about xv, and Wiener's row has nothing there. Let P be the orthogonal projector on E. **The output
    has second moment PCP**: that is v'Cw for all v, w in E, and C itself where rank(CR) = rank(C), for then
    E = range(C).

    *Proof.* Let C = FF' and F'R = U diag(a) Q', with only a > 0 kept in U, a, Q. Then R'CR + s^2 I is Q diag(a^2 +
    s^2) Q' on range(Q) and s^2 beside it, so z = y Q diag(a^2 + s^2)^-1/2 has second moment I. Wiener's row is zG'
    with G = F U diag(a (a^2 + s^2)^-1/2), and GG', its second moment, has range F range(F'R) = E. Let B be an
    orthonormal basis of E (columns), K a square root, KK' = B'CB, and O the orthogonal polar factor of K'B'G (square,
    and invertible because B'G and K are). The output is zH' with H = BKO, and HH' = BKK'B' = BB'CBB' = PCP.

    *Nearest.* For a map y -> yA, E|x - yA|^2 = E|x - zG'|^2 + E|zG' - yA|^2, because x - zG' is uncorrelated with y.
    With both second moments given, only E<zG', yA> is free. It is tr(G'J) for J = E (yA)'z. The joint second moment
    of yA and z is positive semidefinite, with blocks PCP, J and I, so J = BKM for some M of norm at most 1. Hence
    tr(G'J) = tr(G'BKM) is at most the nuclear norm of K'B'G, and M = O reaches it. The map is the optimal transport of
    Wiener's rows.

    For R = I it is y (C + s^2 I)^-1/2 C^1/2. Where y barely shows a direction, the output there is noise of the
    right size. A direction leaves E only when its singular value is within rounding of 0, so E jumps there.
    """
    parts = _parts(moment, projection, noise_sd)
    shown = parts.left[:, : len(parts.gain)]  # F U
    basis, in_basis = np.linalg.qr(shown)
    # K' from a QR decomposition of F'B: K K' = B'C B without squaring the condition.
    _, root = np.linalg.qr(parts.factor.T @ basis)
    first, _, second = np.linalg.svd(root @ (in_basis * parts.gain), full_matrices=False)
    target = basis @ root.T @ first @ second
    return Reconstruction((parts.right / parts.size) @ target.T)


@dataclass(frozen=True, eq=False)
class _Parts:
    """C = FF' and F'R = U diag(a) Q' with rank p: what every noise-aware map is made of."""

    factor: Reals
    """F, d x r, of full column rank."""
    left: Reals
    """F U, d x r: all of U, the p directions that y shows first."""
    right: Reals
    """Q, k x p."""
    size: Reals
    """sqrt(a^2 + s^2), p."""
    gain: Reals
    """a / sqrt(a^2 + s^2), p: 1 where the noise is nothing beside the row."""
    noise_sd: float

    @property
    def wiener(self) -> Reals:
        """Q diag(a / (a^2 + s^2)) U'F' = (R'CR + s^2 I)^-1 R'C, k x d."""
        return np.asarray((self.right * (self.gain / self.size)) @ self.left[:, : len(self.gain)].T)


def _parts(moment: Reals, projection: Reals | None, noise_sd: float) -> _Parts:
    moment = _symmetric(moment)
    between(0.0, math.inf, _SD_REMEDY, noise_sd=noise_sd)
    values, vectors = np.linalg.eigh(moment)
    largest = float(values.max(initial=0.0))
    if float(values.min(initial=0.0)) < -_SKEW * float(np.abs(values).max(initial=0.0)):
        raise InputError(
            "a positive semidefinite second moment",
            "one with a negative eigenvalue",
            "pass a noisy matrix through `second_moment` first",
        )
    real = (values > len(values) * _ROUNDING * largest) & (values > 0)
    factor = vectors[:, real] * np.sqrt(values[real])
    seen = factor.T @ _matrix(projection, len(moment))
    left, singular, right = np.linalg.svd(seen, full_matrices=False)
    shown = int(np.count_nonzero(singular > max(seen.shape) * _ROUNDING * singular.max(initial=0.0)))
    if shown < left.shape[0]:
        # The directions that y does not show: an orthonormal completion of those it does.
        completed, _ = np.linalg.qr(left[:, :shown], mode="complete")
        left = np.hstack([left[:, :shown], completed[:, shown:]])
    singular = singular[:shown]
    size = np.hypot(singular, noise_sd)
    return _Parts(factor, factor @ left, right[:shown].T, size, singular / size, noise_sd)


def _matrix(projection: Reals | None, width: int) -> Reals:
    if projection is None:
        return np.eye(width)
    if projection.ndim != 2 or projection.shape[0] != width or projection.shape[1] == 0:
        raise InputError(
            f"a projection with {width} rows and at least one column",
            f"shape {projection.shape}",
            "give the matrix that the rows were multiplied with, or None for the identity",
        )
    if not np.isfinite(projection).all():
        raise InputError("a finite projection", "infinite or missing entries", "give the matrix as published")
    return projection


def _symmetric(matrix: Reals) -> Reals:
    """Refuse what is not square, finite and symmetric; take rounding off the rest."""
    remedy = "give the whole symmetric matrix, both triangles"
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InputError("a square matrix of second moments", f"shape {matrix.shape}", remedy)
    if not np.isfinite(matrix).all():
        raise InputError("finite second moments", "infinite or missing entries", "give the matrix as measured")
    if np.abs(matrix - matrix.T).max() > _SKEW * np.abs(matrix).max():
        raise InputError("a symmetric matrix of second moments", "triangles that differ", remedy)
    return _mirror(matrix)


def _mirror(matrix: Reals) -> Reals:
    return np.asarray((matrix + matrix.T) / 2.0)
