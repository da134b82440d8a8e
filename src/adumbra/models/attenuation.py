"""Flags and numbers of few levels, drawn as strongly correlated as the moments say.

A normal value that becomes a flag loses part of its correlation with others: two even flags of latent correlation 0.5
have 0.33. The model's correlations are those of scores, which have already lost it, so latent values drawn with them
lose it twice. Here the latent values of such columns get the correlations, and the class means, that leave the model's
after the columns are decoded.

A score is a step function of a normal value, so the covariance of two scores is a power series in the latent
correlation, with the coefficients of both in Hermite polynomials (Mehler's formula). It rises with the correlation, so
one equation for each pair, solved by halving, tells it: no draw, no starting value. The matrix of all pairs need not be
a covariance; the nearest one is taken by its eigenvalues. How much of the change that takes back tells how far the
change comes from noise, or from columns that are no steps of normal values: the change is then damped, or left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from adumbra.common.types import Integers, Reals
from adumbra.models.score_layout import ScoreLayout
from adumbra.models.two_round_gaussian import Latent

__all__ = ["latent_correlations", "unattenuated"]

_TERMS = 40  # of the series: what follows is below 0.005 up to the strongest correlation
_STRONGEST = 0.95  # no latent correlation is made stronger
_HALVINGS = 20
_PAIRS = 2**16  # solved at a time, to bound the memory
_ROUNDS = 6  # of moving class means
_BETWEEN = 0.9  # classes make up at most this part of a column's variance
_FLOOR = 0.01  # smallest variance of a direction within classes, where every column has 1
_CLEAR = 0.3  # share of a score that goes with its latent value: below (flags rarer than 1 in 80, or known by their
# class) correlations of scores hardly tell of latent ones
_MOST = 2000  # columns: work grows with the square, and with so many the noise leaves nothing to correct
_NOISIEST = 0.2  # sd of the noise on a correlation: beyond, what is lost in decoding is mostly noise, and well lost
_TRUSTED, _REFUSED = 0.5, 0.7  # how much of the change may be taken back before it is damped, and left out


def unattenuated(latent: Latent, layout: ScoreLayout, noise: float) -> Latent:
    """The model whose rows, once decoded, have the correlations of `latent`, as far as these are known.

    `layout` says which columns have few levels, `noise` is the sd of the noise on a correlation.
    """
    steps = _StepScores.of(layout, latent.shares).clear(latent.means)
    at = steps.places
    if noise > _NOISIEST or not 2 <= len(at) <= _MOST:
        return latent
    shares, within = latent.shares, latent.root @ latent.root.T
    total = within + (latent.means.T * shares) @ latent.means
    means = latent.means.copy()
    means[:, at] = steps.latent_means(latent.means[:, at])
    block = np.ix_(at, at)
    apart = steps.means(means[:, at])
    apart -= shares @ apart
    wanted = total[block] * np.outer(steps.sds, steps.sds) - (apart.T * shares) @ apart
    # other entries stay as they are, but a column whose classes are further apart has less variance within them
    spread, old = np.sqrt(1 - shares @ means**2), np.sqrt(np.diag(within))
    before = within / np.outer(old, old)
    changed = np.clip(within / np.outer(spread, spread), -_STRONGEST, _STRONGEST)
    changed[block] = latent_correlations(wanted, steps.coefficients(means[:, at], _TERMS), shares)
    changed[np.diag_indices(len(changed))] = 1.0
    values, vectors = np.linalg.eigh(changed)
    root = vectors * np.sqrt(np.maximum(values, _FLOOR))
    root /= np.sqrt((root**2).sum(axis=1))[:, None]
    found = root @ root.T
    lost = float(np.linalg.norm(found - changed) / max(float(np.linalg.norm(changed - before)), 1e-300))
    trust = float(np.clip((_REFUSED - lost) / (_REFUSED - _TRUSTED), 0.0, 1.0))
    if trust == 0.0:
        return latent
    means = latent.means + trust * (means - latent.means)
    spread = np.sqrt(1 - shares @ means**2)
    mixed = np.outer(spread, spread) * (before + trust * (found - before))
    return Latent(shares, means, np.linalg.cholesky(mixed), latent.shift)


@dataclass(frozen=True, eq=False)
class _StepScores:
    """Scores as step functions of normal values: where each steps, by how much, and its standard deviation.

    One row a column; those of fewer levels end in steps of height 0. `shares` are those of the classes.
    """

    places: Integers
    cuts: Reals
    jumps: Reals
    sds: Reals
    shares: Reals

    @staticmethod
    def of(layout: ScoreLayout, shares: Reals) -> _StepScores:
        """Of the columns of few levels, and of whether cells are there."""
        levels = [(int(layout.positions[j]), m) for j, m in enumerate(layout.marginals) if m.form == "levels"]
        levels += [(place, layout.marginals[j].presence) for j, place in layout.presence.items()]
        most = max((len(marginal.shares) for _, marginal in levels), default=1) - 1
        cuts, jumps, sds = np.zeros((len(levels), most)), np.zeros((len(levels), most)), np.zeros(len(levels))
        for row, (_, marginal) in enumerate(levels):
            scores, own = marginal.vectors[:, 0], len(marginal.shares) - 1
            cuts[row, :own], jumps[row, :own] = ndtri(marginal.below[1:-1]), np.diff(scores)
            sds[row] = np.sqrt(max(float(marginal.shares @ (scores - marginal.shares @ scores) ** 2), 1e-12))
        return _StepScores(np.array([place for place, _ in levels], dtype=np.int64), cuts, jumps, sds, shares)

    def clear(self, means: Reals) -> _StepScores:
        """Those columns whose scores tell of their latent values within classes, which have these `means`."""
        along = np.sqrt(self.shares @ self.coefficients(means[:, self.places], 1)[0] ** 2)
        kept = along >= _CLEAR * self.sds
        return _StepScores(self.places[kept], self.cuts[kept], self.jumps[kept], self.sds[kept], self.shares)

    def means(self, means: Reals) -> Reals:
        """Mean scores (class x column), up to a constant for each column, of classes with these latent `means`."""
        return np.asarray((self.jumps * ndtr(-self._within(means))).sum(axis=2))

    def coefficients(self, means: Reals, terms: int) -> Reals:
        """So many coefficients of the score of each column in each class (term x class x column)."""
        at = self._within(means)
        weight = self.jumps * np.exp(-at * at / 2) / np.sqrt(2 * np.pi)
        out, before, now = np.empty((terms, *at.shape[:2])), np.zeros_like(at), np.ones_like(at)
        for k in range(terms):  # normalised Hermite polynomials, each from the two before it
            out[k] = (weight * now).sum(axis=2) / np.sqrt(k + 1)
            before, now = now, (at * now - np.sqrt(k) * before) / np.sqrt(k + 1)
        return out

    def latent_means(self, wanted: Reals) -> Reals:
        """Latent class means whose mean scores are `wanted`, in standard deviations of scores; damped and bounded."""
        means = wanted.copy()
        for _ in range(_ROUNDS if len(means) > 1 else 0):
            seen = self.means(means)
            slope = self.shares @ self.coefficients(means, 1)[0] / np.sqrt(1 - self.shares @ means**2)
            gap = wanted * self.sds - (seen - self.shares @ seen)
            means = means + np.clip(gap / np.maximum(slope, 0.05), -0.5, 0.5)
            means = means - self.shares @ means
            means *= np.sqrt(np.minimum(1.0, _BETWEEN / np.maximum(self.shares @ means**2, 1e-300)))
        return means

    def _within(self, means: Reals) -> Reals:
        """Where the steps are in each class (class x column x step), in its own standard deviations."""
        spread = np.sqrt(1 - self.shares @ means**2)
        return np.asarray((self.cuts - means[:, :, None]) / spread[:, None])


def latent_correlations(wanted: Reals, coefficients: Reals, shares: Reals) -> Reals:
    """Correlations of normal values whose step functions have the `wanted` covariances within classes.

    `coefficients` (term x class x column) are those of the step functions, `shares` those of the classes. Where no
    correlation is strong enough it is the strongest that is allowed; the diagonal is 1.
    """
    columns = len(wanted)
    out = np.eye(columns)
    rows, others = np.triu_indices(columns, 1)
    weighted = coefficients * shares[:, None]
    for start in range(0, len(rows), _PAIRS):
        one, two = rows[start : start + _PAIRS], others[start : start + _PAIRS]
        series = [(a[:, one] * b[:, two]).sum(axis=0) for a, b in zip(weighted, coefficients, strict=True)]
        target = wanted[one, two]
        middle, step = np.zeros(len(one)), _STRONGEST / 2
        for _ in range(_HALVINGS):
            value = np.zeros(len(one))
            for term in reversed(series):
                value += term
                value *= middle
            middle += np.where(value < target, step, -step)
            step /= 2
        out[one, two] = out[two, one] = middle
    return out
