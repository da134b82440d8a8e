"""Analyze Gauss: the second moment with symmetric Gaussian noise, and its leading axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from adumbra.accounting.events import Event
from adumbra.declare.guarantee import Promise
from adumbra.families.contract import Deltas, Reference, Setting
from adumbra.families.second_moment_axes import MOMENT, SecondMomentAxes
from adumbra.mechanisms.bibliography import ANALYZE_GAUSS

__all__ = ["AnalyzeGauss"]


@dataclass(frozen=True)
class AnalyzeGauss(SecondMomentAxes):
    """Parameters, all public.

    * `components`: how many to keep; default: as many as hold `contribution` of the variance, among those that stand
      out of the noise. Results that publish rows need the number beforehand.
    * `contribution`: share of the variance to keep (alpha).
    * `result`: axes, coordinates (every row along the axes, with noise), approximation (the same in the schema's
      columns) or samples (rows drawn from the private mean and covariance).
    * `axes_share`: share of the budget for the axes where rows are published too.
    * `rows`: rows to draw for samples.
    * `centred`: measure the mean first, for a fifth of the budget, and take the axes about it; default: about the
      middle of the declared ranges. Worth it where the rows lie far from that middle.
    """

    name: ClassVar[str] = "analyze_gauss"
    title: ClassVar[str] = "principal axes of a second moment with Gaussian noise"
    releases: ClassVar[str] = "principal axes with error bars; or noisy rows along them, or rows drawn from them"
    suits: ClassVar[str] = (
        "principal components where a small delta is allowed: the least noise from about six columns on"
    )
    caution: ClassVar[str] = (
        "axes below the noise edge are noise; rows along the axes say little about a person below an epsilon of about "
        "twice the number of components"
    )
    theorem: ClassVar[str] = (
        "Gaussian mechanism (Balle and Wang 2018, Theorem 8) on the isometric triangle; docs/proofs/second-moment.md"
    )
    differs: ClassVar[str] = (
        "The paper's noise is calibrated by its own tail bound, here by the exact Gaussian curve, and rows may change "
        "to any other. The rows' centre is the middle of the declared ranges, their bound is public. Error bars and "
        "the number of components that exceed the noise come with the axes."
    )
    deltas: ClassVar[Deltas] = "positive"
    cites: ClassVar[tuple[Reference, ...]] = (ANALYZE_GAUSS,)

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """Where the spectrum of the `noise` will end in this `setting`, whatever the `promise`."""
        return self.expected(setting, noise[MOMENT].sd, noise[MOMENT].sd / math.sqrt(2.0), noise)
