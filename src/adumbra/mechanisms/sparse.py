"""Sparse: noise on the counts themselves, then the few atoms that exceed it; the honest rival of csm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from adumbra.common.validation import at_least
from adumbra.families.contract import Reference, Setting, SumAnswer
from adumbra.families.counting import OneMeasurement, rows_in_cells
from adumbra.kinds.counts import CountsFacts, DomainFacts
from adumbra.models.sparse_recovery import Decoded, check_dictionary, named_dictionary, thresholded
from adumbra.numerics.dictionaries import Dictionary
from adumbra.numerics.strategies import Identity

__all__ = ["Sparse"]


@dataclass(frozen=True)
class Sparse(OneMeasurement):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    * `dictionary`: in which atoms the counts are sparse: identity (few cells hold all rows), dct (smooth), haar
      (steps), walsh-hadamard; or a .npy file learnt from a PUBLIC table (`adumbra dictionary`).
    * `atoms`: at most so many atoms are kept; default: all that exceed the noise.
    """

    dictionary: str = "identity"
    atoms: int | None = None

    name: ClassVar[str] = "sparse"
    title: ClassVar[str] = "noisy counts, of which few atoms are kept"
    releases: ClassVar[str] = "an estimated count for every cell of a domain, even where nothing exceeds the noise"
    suits: ClassVar[str] = "large domains with few occupied cells; smooth histograms in the dct or haar dictionary"
    caution: ClassVar[str] = (
        "what does not exceed the noise is lost: cells with few rows get one estimate, and the standard errors say so"
    )
    theorem: ClassVar[str] = (
        "Laplace or Gaussian mechanism on the counts; what is kept depends on noisy counts and the noise level only "
        "(docs/proofs/strategies.md)"
    )
    differs: ClassVar[str] = (
        "This mechanism is our own: the rule is that of universal thresholding (Donoho, Johnstone 1994), at the noise "
        "level that is known here; rows of cells below it are spread evenly over the cells. For pure epsilon it does "
        "what csm does with 1/s of the noise on each atom."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Donoho, Johnstone (1994), Ideal Spatial Adaptation by Wavelet Shrinkage, Biometrika 81(3)",
            "@article{donoho1994ideal, title={Ideal Spatial Adaptation by Wavelet Shrinkage}, author={Donoho, David L. "
            "and Johnstone, Iain M.}, journal={Biometrika}, volume={81}, number={3}, year={1994}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_dictionary(self.dictionary)
        if self.atoms is not None:
            at_least(1, "keep at least one atom", atoms=self.atoms)

    def strategy(self, setting: Setting) -> Identity:
        """The counts themselves."""
        self._dictionary(setting)  # refused before anything is charged
        return Identity(self.domain(setting).shape)

    def decoded(self, noisy: SumAnswer, setting: Setting) -> Decoded:
        """Threshold."""
        atoms = self._dictionary(setting)
        total = rows_in_cells(setting)
        measured, sd = noisy.values["measured"], noisy.sd("measured")
        return thresholded(measured, sd, setting.pure, atoms, self.atoms, total)

    def facts(self, setting: Setting, decoded: Decoded) -> CountsFacts:
        """Noisy counts, of which some atoms were kept."""
        return CountsFacts(
            domain=DomainFacts(**self.domain(setting).facts()),
            decoder="pursuit" if decoded.pursued else "sparse",
            strategy=self.strategy(setting).recipe(),
            dictionary=self._dictionary(setting).recipe(),
            atoms_kept=decoded.atoms_kept,
        )

    def shown_options(self) -> dict[str, str]:
        """Of a file no more than its name, since the card is public."""
        return {"dictionary": Path(self.dictionary).name}

    @lru_cache(maxsize=4)  # noqa: B019 - a file is read before anything is charged, and never after
    def _dictionary(self, setting: Setting) -> Dictionary:
        return named_dictionary(self.dictionary, self.domain(setting).shape)
