"""A Gaussian model of scores, class by class, from two rounds of noisy moments.

The noise of a second moment goes with the square of the radius of the ball that holds the rows. In wide tables most of
that radius is class means and a few leading directions, which a first round (the pilot) already finds. The second round
measures what is left of the rows after the pilot's class means, in coordinates where the pilot's covariance is the
identity: the noise then falls evenly on directions of equal variance, which is the metric of a linear classifier, for
class means as well as for the covariance.

All functions take noisy numbers and the known size of their noise. The two rounds are the house's own; their parts are
standard empirical Bayes (a prior whose scale is averaged over its marginal likelihood; precision weighting of two
measurements) and the spectrum of a symmetric matrix in noise (docs/proofs/spectrum.md): noise alone fills it up to
2 sd sqrt(width), so what lies above that edge is kept, shrunk.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from adumbra.common.types import Reals
from adumbra.models.shrinkage import class_counts, predicted_correlation_error

__all__ = [
    "Latent",
    "NoisyMoments",
    "Pilot",
    "correlation_error",
    "fit_pilot",
    "noise_rows",
    "refined",
]


_FLOOR = 0.05  # smallest variance of a direction within classes, where every column has total variance 1
_REFINED_FLOOR = 0.1  # smallest final variance of a direction, where the pilot says 1
_SHARED = 0.95  # a column shares at most this part of its variance with others


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Released counts, class sums and second moment per row, in the units of the rows, and the sd of their noise."""

    counts: Reals
    sums: Reals
    second: Reals
    count_sd: float
    sum_sd: float
    second_sd: float
    """Of an entry off the diagonal; on it, sqrt(2) times as much."""
    rows: float


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the first round says. "Scaled" means divided by `scale`: every column then has total variance 1."""

    centre: Reals
    scale: Reals
    total: Reals
    """Scaled noisy covariance, as measured."""
    total_sd: float
    prior_values: Reals
    """Spectrum of the denoised total correlation: the prior of the class means."""
    prior_basis: Reals
    means: Reals
    """Scaled class means, as deviations from the centre."""
    basis: Reals
    """Directions of the covariance within classes, and its standard deviations along them."""
    spread: Reals

    def whitening(self, radius: float) -> tuple[Reals, Reals]:
        """Matrix and class centres that take scores in a ball of this radius to the pilot's own coordinates."""
        to_white = self.basis / self.spread
        return to_white * (radius / self.scale)[:, None], (self.centre / self.scale + self.means) @ to_white


@dataclass(frozen=True, eq=False)
class Latent:
    """Shares of the classes, their means and a root of the covariance within them: every column has variance 1."""

    shares: Reals
    means: Reals
    root: Reals
    shift: Reals
    """Where the mean of each column lies, in its standard deviations, seen from the tables' mean."""


def _above(values: Reals, edge: Reals | float, cautious: bool) -> Reals:
    """How much of eigenvalues (as deviations) is real, where those of noise alone reach up to `edge`.

    sqrt(y^2 - e^2) makes the squared error of the matrix least. Its inverse, which a classifier works with, suffers
    more from a direction that is kept by mistake: the geometric mean with the soft threshold y - e is the cautious one.
    """
    size = np.abs(values)
    soft = np.maximum(size - edge, 0.0)
    least_squares = np.sqrt(soft * (size + edge))
    return np.asarray(np.sign(values) * (np.sqrt(soft * least_squares) if cautious else least_squares))


def _spikes(noisy: Reals, sd: float, cautious: bool) -> Reals:
    """The part of a covariance above the edge of the spectrum of symmetric noise."""
    values, vectors = np.linalg.eigh(noisy)
    real = _above(values - max(float(np.median(values)), 0.0), 2 * sd * np.sqrt(len(values)), cautious)
    kept = real > 0
    return np.asarray((vectors[:, kept] * real[kept]) @ vectors[:, kept].T)


def _wiener_factors(squares: Reals, prior: Reals, noise: Reals, reference: float) -> Reals:
    """Factors of the posterior mean for a prior variance in proportion to `prior`.

    The proportion is averaged over a grid with the marginal likelihood as its weight.
    """
    prior = prior / prior.mean()
    grid = np.geomspace(1e-4, 100, 49) * reference
    variances = grid[:, None, None] * prior + noise[None, :, None]
    fit = -0.5 * (np.log(variances) + squares / variances).sum(axis=(1, 2))
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    out = np.zeros_like(squares)
    for share, size, variance in zip(weight, grid, variances, strict=True):
        if share > 1e-6:
            out += share * size * prior / variance
    return out


def fit_pilot(seen: NoisyMoments, variances: Reals, cautious: bool) -> Pilot:
    """Centre, scales, class means and covariance from one round; `variances` are what the tables say of each score."""
    classes, width = seen.sums.shape
    counts = class_counts(seen.counts, seen.count_sd, seen.rows)
    shares = counts / counts.sum()
    centre = seen.sums.sum(axis=0) / seen.rows
    noise = width * classes * (seen.sum_sd / seen.rows) ** 2
    centre = centre * max(0.0, 1.0 - noise / max(float((centre**2).sum()), 1e-300))
    total = seen.second - np.outer(centre, centre)
    low_rank = _spikes(total, seen.second_sd, cautious)
    # Column variances: the tables' times what clipping to the ball left, moved by as much as the diagonal tells. The
    # diagonal alone is noisy, so its ratio to the tables is shrunk towards 1 by signal / (signal + noise).
    left = max(float(np.trace(total)) / float(variances.sum()), 0.05)
    ratio = np.diag(total) / (left * variances)
    ratio_noise = 2 * (seen.second_sd / (left * variances)) ** 2
    signal = max(0.0, float(np.mean((ratio - 1) ** 2 - ratio_noise)))
    ratio = np.clip(1 + (ratio - 1) * signal / (signal + ratio_noise), 0.2, 5.0)
    scale = np.sqrt(np.maximum(ratio * left * variances, np.diag(low_rank) / _SHARED))
    correlation = low_rank / np.outer(scale, scale)
    correlation[np.diag_indices(width)] = 1.0
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, 1e-3)
    inverse = float(np.mean(1 / scale**2))
    if classes == 1:
        means, within, basis = np.zeros((1, width)), values, vectors
    else:
        along = ((seen.sums / counts[:, None] - centre) / scale) @ vectors
        kept = _wiener_factors(along**2, values, (seen.sum_sd / counts) ** 2 * inverse, 1.0)
        means = (along * kept) @ vectors.T
        means = means - shares @ means
        within, basis = np.linalg.eigh(correlation - (means.T * shares) @ means)
    return Pilot(
        centre,
        scale,
        total / np.outer(scale, scale),
        seen.second_sd * inverse,
        values,
        vectors,
        means,
        basis,
        np.sqrt(np.maximum(within, _FLOOR)),
    )


def refined(first: NoisyMoments, second: NoisyMoments, pilot: Pilot, cautious: bool) -> Latent:
    """The model of both rounds, in the pilot's coordinates, where the pilot's covariance is the identity.

    `first` are the moments that made the `pilot`, `second` those of the residuals in its coordinates. `cautious`
    shrinks eigenvalues harder, for models that invert the covariance.
    """
    classes, width = first.sums.shape
    precision = 1 / first.count_sd**2 + 1 / second.count_sd**2
    pooled = (first.counts / first.count_sd**2 + second.counts / second.count_sd**2) / precision
    counts = class_counts(pooled, precision**-0.5, first.rows)
    shares = counts / counts.sum()
    from_white = pilot.basis * pilot.spread
    means, uncertainty, covariance = pilot.means, np.zeros((width, width)), second.second
    if classes > 1:
        old = (pilot.means @ pilot.basis) / pilot.spread
        new, uncertainty = _posterior_means(first, second, pilot, counts, old)
        covariance = covariance - ((new - old).T * shares) @ (new - old)
        means = new @ from_white.T
    left = float(np.clip(np.trace(covariance) / width, 0.2, 1.0))  # what clipping to the ball left
    covariance, second_variance = covariance / left, (second.second_sd / left) ** 2
    outer = np.outer(pilot.spread, pilot.spread)
    from_first = pilot.basis.T @ (pilot.total - (means.T * shares) @ means) @ pilot.basis / outer
    first_variance = (pilot.total_sd / outer) ** 2
    both = first_variance + second_variance
    # each entry is weighted by its precision: the second round is more exact where the pilot's spread is small
    covariance = (covariance * first_variance + from_first * second_variance) / both
    values, vectors = np.linalg.eigh(covariance - np.eye(width))
    # the noise differs from entry to entry: its edge along a direction is that of the rows the direction touches
    edge = 2 * np.sqrt((vectors**2).T @ (first_variance * second_variance / both).sum(axis=1))
    real = 1 + _above(values, edge, cautious)
    # Rows carry what is not known of the means: a classifier then trusts badly known directions less.
    within = (vectors * np.maximum(real, _REFINED_FLOOR)) @ vectors.T + uncertainty
    return _unit_variance(shares, means, from_white @ np.linalg.cholesky(within), pilot)


def _posterior_means(
    first: NoisyMoments, second: NoisyMoments, pilot: Pilot, counts: Reals, old: Reals
) -> tuple[Reals, Reals]:
    """Class means given both rounds, and the mean of their posterior covariances, in the pilot's coordinates.

    Prior: in proportion to the total correlation. The noise of the first round is even in units of scores, that of the
    second is even here; both go with 1 / count, so one diagonalisation serves all classes.
    """
    shares = counts / counts.sum()
    from_white = pilot.basis * pilot.spread
    column = pilot.scale**2 / first.sum_sd**2
    information = (from_white.T * column) @ from_white
    information[np.diag_indices(len(information))] += 1 / second.sum_sd**2
    lower = np.linalg.cholesky(information)
    rotated = solve_triangular(lower, (pilot.prior_basis.T @ from_white).T, lower=True)
    values, vectors = np.linalg.eigh((rotated / pilot.prior_values) @ rotated.T)
    prior = 1 / np.maximum(values, 1e-12)
    evidence = (((first.sums / counts[:, None] - pilot.centre) / pilot.scale) * column) @ from_white
    evidence = evidence + (second.sums / counts[:, None] + old) / second.sum_sd**2
    to_unit = solve_triangular(lower, vectors, lower=True, trans="T").T
    along = evidence @ to_unit.T
    kept = _wiener_factors(along**2, prior, 1 / counts**2, float(prior.mean()))
    new = (along * kept) @ to_unit
    uncertainty = (to_unit.T * (shares @ (kept / counts[:, None] ** 2))) @ to_unit
    return new - shares @ new, uncertainty


def _unit_variance(shares: Reals, means: Reals, root: Reals, pilot: Pilot) -> Latent:
    unit = 1 / np.sqrt((root**2).sum(axis=1) + shares @ means**2)
    return Latent(shares, means * unit, root * unit[:, None], pilot.centre / pilot.scale * unit)


def noise_rows(latent: Latent, groups: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float32]:
    """Latent rows of the model `latent`, one for each class in `groups`, drawn by `generator` (post-processing).

    The noise is centred within each class and, where there are enough rows, its covariance is made exactly what the
    model says: a table then has the model's moments, not those of one draw from it.
    """
    rows, width = len(groups), latent.means.shape[1]
    draw = generator.standard_normal((rows, width), dtype=np.float32)  # a model's draw needs no more digits
    members = np.eye(len(latent.shares), dtype=np.float32)[groups]
    # a class with a single row keeps its draw, or it would have none
    sizes = np.where(members.sum(axis=0) > 1, members.sum(axis=0), np.inf)
    draw -= ((members.T @ draw) / sizes[:, None]).astype(np.float32)[groups]
    root = latent.root
    if rows >= 2 * width + 2 * len(latent.shares):
        # a draw of few rows may have a direction too thin for its digits: it is then left as it came
        with contextlib.suppress(np.linalg.LinAlgError):
            lower = np.linalg.cholesky((draw.T @ draw).astype(np.float64) / rows)
            root = solve_triangular(lower, root.T, lower=True, trans="T").T
    out = draw @ root.T.astype(np.float32)
    out += latent.means.astype(np.float32)[groups]
    return out


def correlation_error(latent: Latent, seen: NoisyMoments, pilot: Pilot) -> float:
    """Expected absolute error of a correlation under the model `latent`, from released numbers alone.

    `seen` are the moments of the first round, with the size of their noise, and `pilot` is what was made of them.
    """
    model = latent.root @ latent.root.T + (latent.means.T * latent.shares) @ latent.means
    model *= np.outer(pilot.scale, pilot.scale)
    total = seen.second - np.outer(pilot.centre, pilot.centre)
    return predicted_correlation_error(total, seen.second_sd, model, len(latent.shares) + 2)
