"""LIP in sound form: the second moment with Laplace noise, its leading axes, and rows only with noise of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Promise
from adumbra.declare.space import GRID, Space
from adumbra.families.contract import Deltas, Reference, Setting
from adumbra.families.second_moment_axes import MOMENT, SecondMomentAxes
from adumbra.mechanisms.bibliography import LIP_AND_LOP
from adumbra.queries.query import PureNoise
from adumbra.queries.second_moment import Gram
from adumbra.queries.sums import Total

__all__ = ["LIP"]


@dataclass(frozen=True)
class LIP(SecondMomentAxes):
    """Parameters, all public.

    * `components`: how many to keep; default: as many as hold `contribution` of the variance, among those that stand
      out of the noise. Results that publish rows need the number beforehand.
    * `contribution`: share of the variance to keep (alpha).
    * `result`: axes, coordinates (every row along the axes, with noise), approximation (Z, the same in the schema's
      columns) or samples (rows drawn from the private mean and covariance).
    * `noise`: laplace (independent in the triangle, as in the paper) or l2-laplace (by the Frobenius norm of the whole
      matrix: about 0.7 of that noise).
    * `row_noise`: l2-laplace (by the length of a row's vector: less for more than one component) or laplace
      (independent numbers).
    * `axes_share`: share of the budget for the axes where rows are published too.
    * `rows`: rows to draw for samples.
    * `centred`: measure the mean first, for a fifth of the budget, and take the axes about it; default: about the
      middle of the declared ranges. Worth it where the rows lie far from that middle.
    """

    noise: PureNoise = "laplace"
    row_noise: PureNoise = "l2-laplace"

    name: ClassVar[str] = "lip"
    title: ClassVar[str] = "principal axes of a second moment with Laplace noise"
    releases: ClassVar[str] = "principal axes with error bars; or noisy rows along them, or rows drawn from them"
    suits: ClassVar[str] = "principal components where delta must be 0"
    caution: ClassVar[str] = (
        "axes below the noise edge are noise; rows along the axes say little about a person below an epsilon of about "
        "twice the number of components; with more than some six columns analyze_gauss has less noise, where a small "
        "delta is allowed"
    )
    theorem: ClassVar[str] = (
        "Laplace mechanism on the triangle, or by Frobenius norm, then on rows along published axes; pure epsilon adds "
        "up (docs/proofs/second-moment.md, docs/proofs/noise-l2-laplace.md)"
    )
    differs: ClassVar[str] = (
        "The paper publishes exact projections onto the noisy axes, which no epsilon describes; here rows get noise of "
        "their own, for a share of the budget, or are not published. The noise on the second moment is smaller than "
        "the paper's for the same epsilon: 2.5 times with 10 columns, 2.8 times with many. No mean and no scale is "
        "taken from the table unpaid: rows are taken about the middle of their declared ranges, or a mean that was "
        "measured with noise, and clipped to a public length. Delta is 0 whatever was allowed."
    )
    deltas: ClassVar[Deltas] = "zero"
    cites: ClassVar[tuple[Reference, ...]] = (LIP_AND_LOP,)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(("laplace", "l2-laplace"), noise=self.noise)
        one_of(("laplace", "l2-laplace"), row_noise=self.row_noise)

    @classmethod
    def _worst_rows(cls) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """The eigenvectors of [[1, 1/2], [1/2, -1]]: the signs for which the triangle moves most."""
        angle = math.atan2(1.0, 2.0) / 2
        one = {"a": str(math.cos(angle)), "b": str(math.sin(angle))}
        other = {"a": str(-math.sin(angle)), "b": str(math.cos(angle))}
        return one, other, {"a": str(math.sqrt(0.5)), "b": str(math.sqrt(0.5))}

    def _mean_query(self, space: Space) -> Total:
        return Total(space.width, pure=self.noise)

    def _moment_query(self, space: Space, mean: NDArray[np.float64] | None) -> Gram:
        """The triangle as a plain list for independent noise, isometric for noise by length."""
        gram = super()._moment_query(space, mean)
        return Gram(gram.width, clip=gram.clip, triangle=self.noise == "laplace", pure=self.noise)

    def _law(self) -> PureNoise:
        return self.noise

    def _row_law(self) -> PureNoise:
        return self.row_noise

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """Where the spectrum of the `noise` ends in this `setting`, beside the paper's for this `promise`."""
        sd = noise[MOMENT].sd
        off = sd if self.noise == "laplace" else sd / math.sqrt(2.0)
        out = self.expected(setting, sd, off, noise)
        if setting.rows:
            reach = self.axes_clip(setting.space).bound / GRID
            share = self.lines(setting)[MOMENT]
            papers = 2.0 * setting.space.width * reach**2 / (setting.rows * promise.epsilon * share)
            ours = off / math.sqrt(2.0) / setting.rows
            out.append(("the paper's noise", f"{papers / ours:.2f} times as much: scale {papers:.3g} on each entry"))
        return out
