"""Privelet: noise on Haar wavelet coefficients, so that a range meets few of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adumbra.families.contract import Reference, Setting
from adumbra.families.counting import LeastSquares
from adumbra.numerics.strategies import Haar

__all__ = ["Privelet"]


@dataclass(frozen=True)
class Privelet(LeastSquares):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    """

    name: ClassVar[str] = "privelet"
    title: ClassVar[str] = "noisy Haar wavelet coefficients of the counts"
    releases: ClassVar[str] = "an estimated count for every cell of a domain, whose noise nearly cancels in long ranges"
    suits: ClassVar[str] = "ranges of ordered columns with many cells"
    caution: ClassVar[str] = "single cells and short ranges are noisier than with laplace; each further column costs"
    theorem: ClassVar[str] = (
        "Laplace or Gaussian mechanism on wavelet coefficients, with the exact sensitivity of the weighted transform "
        "(Xiao, Wang, Gehrke 2011, Lemma 4; docs/proofs/strategies.md)"
    )
    differs: ClassVar[str] = (
        "From the paper: a replaced row leaves the total as it is, so the noise is that of 2 log N and not of 2 + 2 "
        "log N levels; with a positive delta it is Gaussian. A category or flag is counted by its values, "
        "without a wavelet of its own."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Xiao, Wang, Gehrke (2011), Differential Privacy via Wavelet Transforms, IEEE TKDE 23(8)",
            "@article{xiao2011wavelet, title={Differential Privacy via Wavelet Transforms}, author={Xiao, Xiaokui and "
            "Wang, Guozhang and Gehrke, Johannes}, journal={IEEE Transactions on Knowledge and Data Engineering}, "
            "volume={23}, number={8}, year={2011}}",
        ),
    )

    def strategy(self, setting: Setting) -> Haar:
        """Wavelets along each number, values of the rest."""
        domain = self.domain(setting)
        return Haar(domain.shape, domain.unordered, domain.apart)
