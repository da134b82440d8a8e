"""Laplace: noise on the count of every cell; the plain mechanism that all others must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adumbra.families.contract import Reference, Setting
from adumbra.families.counting import LeastSquares
from adumbra.numerics.strategies import Identity

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(LeastSquares):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    """

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "noisy counts of all cells"
    releases: ClassVar[str] = "an estimated count for every cell of a domain, which answers any counting query"
    suits: ClassVar[str] = "counts of single cells, and short ranges; domains of few cells"
    caution: ClassVar[str] = "the error of a range grows with the root of its cells: long ranges are better elsewhere"
    theorem: ClassVar[str] = (
        "Laplace mechanism (Dwork, McSherry, Nissim, Smith 2006), or the Gaussian one where delta is allowed, on the "
        "counts (docs/proofs/strategies.md)"
    )
    differs: ClassVar[str] = (
        "From the paper: cells are declared, noise is drawn exactly on whole numbers, and with a positive delta the "
        "noise is Gaussian."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Dwork, McSherry, Nissim, Smith (2006), Calibrating Noise to Sensitivity in Private Data Analysis, TCC",
            "@inproceedings{dwork2006calibrating, title={Calibrating Noise to Sensitivity in Private Data Analysis}, "
            "author={Dwork, Cynthia and McSherry, Frank and Nissim, Kobbi and Smith, Adam}, booktitle={TCC}, "
            "year={2006}}",
        ),
    )

    def strategy(self, setting: Setting) -> Identity:
        """The counts themselves."""
        return Identity(self.domain(setting).shape)
