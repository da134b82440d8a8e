"""Release `repair`: a utility score that keeps only its rank inside its privacy class, to a few bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import at_least
from adumbra.jupa.ranks import FOLDS, Arrays, CrossFitted, Public, Ranks, under
from adumbra.jupa.release_kind import (
    NO_DP,
    FittedRelease,
    JupaRelease,
    Outcome,
    PictureMark,
    Statement,
    needed,
    option,
    percent,
    refuse_binary,
)
from adumbra.jupa.release_kinds.resample import model_option

__all__ = ["FittedRepair", "Repair"]


@dataclass(frozen=True)
class Repair(JupaRelease):
    """A utility score whose rank among public records of the same privacy class is kept, to `bins` places."""

    name: ClassVar[str] = "repair"
    title: ClassVar[str] = "utility scores with the rank inside their privacy class, to a few bins"
    mark: ClassVar[PictureMark] = PictureMark("purple", "wedge")
    place: ClassVar[int] = 5

    model: str = model_option()
    bins: int = option(2, "how finely the rank is told", label="{} bins", always_labelled=True, column=True)

    def check_options(self) -> None:
        """Bins that say something."""
        at_least(2, "give at least two bins: one would say nothing", bins=self.bins)

    def check_recipe(self, privacies: int, encoding: str) -> None:
        """A rank compares a record with those of its class."""
        refuse_binary(encoding)

    @property
    def needs_privacy_label(self) -> bool:
        """A rank is one inside a class."""
        return True

    def fit(self, public: Public, progress: Progress | None = None) -> FittedRepair:
        """Learn out-of-fold scores of all features, in no subspace, and their ranks."""
        if public.utilities != 2:
            raise InputError(
                "a utility target of two classes for release repair, which keeps one score",
                f"{public.utilities} classes",
                "use release resample, with --equalise if predictions differ between privacy classes",
            )
        models = CrossFitted.fit(self.model, public, progress)
        margin = models.public_margin()
        ranks = Ranks.fit(margin, models.folds, public, self.bins)
        quantiles = tuple(np.sort(margin[public.privacy == s]) for s in range(public.privacies))
        deviation = float(margin.std())
        centre = float(np.quantile(margin, ranks.base))
        return FittedRepair(self, models, ranks, quantiles, centre, deviation if deviation > 0 else 1.0)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedRepair:
        """Read back."""
        ranks = Ranks.from_arrays(under("ranks.", arrays))
        quantiles = tuple(arrays[f"quantiles{s}"] for s in range(len(ranks.references)))
        models = CrossFitted.from_arrays(under("models.", arrays))
        centre, scale = (float(number) for number in arrays["numbers"])
        return FittedRepair(self, models, ranks, quantiles, centre, scale)

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """The fewest bins."""
        return [("repair, 2 bins", cls(bins=2, model="kernel"))]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """Some numbers of bins, two if `quick`; for two `classes` only, and any `columns`."""
        model = "linear" if quick else "auto"
        return [cls(bins=bins, model=model) for bins in ((2, 8) if quick else (2, 4, 8, 16))] if classes == 2 else []


@dataclass(frozen=True, eq=False)
class FittedRepair(FittedRelease):
    """A utility score of the same rank, to a few bins, from the average of the privacy classes' scores.

    The number released depends on the record only through its bin: a rank anywhere in the bin is drawn, and the
    average of the classes' quantile functions is taken there.
    """

    kind: Repair
    models: CrossFitted
    ranks: Ranks
    quantiles: tuple[Reals, ...]
    """For each privacy class, the sorted out-of-fold scores of all public records."""
    centre: float
    """The score at which the utility classes part."""
    scale: float

    @property
    def columns(self) -> tuple[str, ...]:
        """A single number."""
        return ("score",)

    def unperturbed(self, rows: Reals) -> Reals:
        """The score as it is, 0 where the utility classes part."""
        return ((self.models.mean_margin(rows) - self.centre) / self.scale)[:, None]

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Score the `rows`, rank them within their `privacy` class, draw a public score of the bin by `coins`.

        It is quick: `progress` is not called.
        """
        fold = coins.below(FOLDS, len(rows))
        bins = self.ranks.bins(self.models.margin(rows, fold), needed(privacy), fold, coins)
        return Outcome(self._value(self.ranks.drawn(bins, coins))[:, None], np.arange(len(rows)))

    def _value(self, rank: Reals) -> Reals:
        """The average of the classes' scores at a rank, 0 where the utility classes part."""
        at = np.append(rank, self.ranks.base)
        mean = np.mean([np.quantile(scores, at) for scores in self.quantiles], axis=0)
        return np.asarray((mean[:-1] - mean[-1]) / self.scale)

    def told_by(self, released: Reals) -> Integers:
        """The bin."""
        return np.asarray(np.searchsorted(self._value(self.ranks.edges[1:-1]), released[:, 0], side="right"))

    def bound(self) -> float:
        """Expected over the public records, for records of the same population."""
        return self.ranks.bound()

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out = {f"models.{k}": v for k, v in self.models.arrays().items()}
        out |= {f"ranks.{k}": v for k, v in self.ranks.arrays().items()}
        out |= {f"quantiles{s}": q for s, q in enumerate(self.quantiles)}
        return out | {"numbers": np.array([self.centre, self.scale])}

    def statement(self, utilities: int, privacies: int) -> Statement:
        """A distributional guarantee."""
        return Statement(
            self.kind.title,
            f"{NO_DP} A distributional guarantee: of a record only one of {self.kind.bins} bins of its rank among "
            "public records of its own privacy class is told. For records of the population that the public ones were "
            f"drawn from, a guess among {privacies} equally likely privacy classes is right at most "
            f"{percent(self.bound())} of the time, on average over the draw of the public records.",
            "Records of the same population as the public ones, on average; the owner must know their privacy class.",
            "It fails if private and public records come from different populations. More bins tell more. Where the "
            "score says nothing about the label, repairing it can only add a leak: try it with adumbra audit jupa. It "
            "holds for one release of a record; a second one draws another fold and tells more.",
            accuracy_bound=self.bound(),
        )
