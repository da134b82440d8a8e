"""Release `respond`: as `resample`, with the privacy class answered by randomised response."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from adumbra.common.types import Progress
from adumbra.families.contract import Reference
from adumbra.jupa.ranks import Public
from adumbra.jupa.release_kind import JupaRelease, PictureMark, Statement, check_epsilon, option, percent
from adumbra.jupa.release_kinds.resample import CAUTION, EVERY_RECORD, SAME_POPULATION, FittedResample, Resample
from adumbra.mechanisms.bibliography import JUPA, RANDOMISED_RESPONSE

__all__ = ["FittedRespond", "Respond"]


@dataclass(frozen=True)
class Respond(Resample):
    """A public record with the predicted utility class and a privacy class by randomised response."""

    name: ClassVar[str] = "respond"
    title: ClassVar[str] = "public records of the predicted utility class and a privacy class by randomised response"
    mark: ClassVar[PictureMark] = PictureMark("teal", "diamond")
    place: ClassVar[int] = 4
    cites: ClassVar[tuple[Reference, ...]] = (JUPA, RANDOMISED_RESPONSE)

    epsilon: float | None = option(None, "for the privacy label", always_labelled=True, column=True)

    def check_options(self) -> None:
        """An epsilon that promises something."""
        super().check_options()
        check_epsilon(self, self.epsilon, "give a positive one; resample is respond at epsilon 0")

    @property
    def needs_privacy_label(self) -> bool:
        """It is what is answered."""
        return True

    @property
    def response(self) -> float:
        """Epsilon of the answer."""
        return self.epsilon or 0.0

    def fit(self, public: Public, progress: Progress | None = None) -> FittedRespond:
        """As `resample`."""
        return _responding(super().fit(public, progress))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedRespond:
        """Read back."""
        return _responding(super().load(arrays))

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """At the epsilon asked for."""
        return [(f"respond, epsilon {epsilon:g}", cls(components=5, epsilon=epsilon, model="kernel"))]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """Some epsilons, one with a linear model if `quick`, whatever `classes` and `columns` are."""
        return [
            cls(epsilon=epsilon, model="linear" if quick else "auto")
            for epsilon in ((1.0,) if quick else (0.5, 1.0, 2.0))
        ]


class FittedRespond(FittedResample):
    """A public record of the predicted utility class and of a privacy class answered by randomised response."""

    def statement(self, utilities: int, privacies: int) -> Statement:
        """Epsilon for the label alone; none where equalising looks at the label too."""
        epsilon = self.kind.response
        caution = f"{CAUTION} Releasing a record again adds its epsilon again."
        promise = f"{self.beginning(utilities)} and of a privacy class answered by randomised response. "
        if self.kind.equalise:
            promise += (
                "Equalising looks at the label too, so no epsilon is stated for it: the response alone would have "
                f"epsilon = {epsilon:g}."
            )
            return Statement(self.kind.title, promise, SAME_POPULATION, caution)
        promise += (
            f"For the privacy label alone, given the rest of the record: epsilon = {epsilon:g}, that is odds for or "
            f"against a label change by at most e^epsilon = {math.exp(epsilon):.3g} times. If predictions say nothing "
            f"about the label, no guess among {privacies} equally likely classes is right more than "
            f"{percent(self.bound())} of the time; from predictions alone it was {percent(self.told)} on public "
            "records."
        )
        # no accuracy is bounded: it would be if predictions said nothing, and `told` says whether they do
        return Statement(self.kind.title, promise, EVERY_RECORD, caution, label_epsilon=epsilon, told=self.told)


def _responding(fitted: FittedResample) -> FittedRespond:
    """The same, with its own words."""
    return FittedRespond(**vars(fitted))
