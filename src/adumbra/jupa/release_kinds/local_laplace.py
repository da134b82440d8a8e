"""Release `laplace`: the projected record with Laplace noise, under local differential privacy; see `jupa/local.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from adumbra.common.types import Progress, Reals
from adumbra.common.validation import positive
from adumbra.job import Job
from adumbra.jupa import local
from adumbra.jupa.projecting import Projected, ProjectingRelease, Subspace
from adumbra.jupa.ranks import Public
from adumbra.jupa.release_kind import (
    ChargedRelease,
    JupaRelease,
    PictureMark,
    Statement,
    check_epsilon,
    option,
    percent,
)

__all__ = ["FittedLocalLaplace", "LocalLaplace"]


@dataclass(frozen=True)
class LocalLaplace(ProjectingRelease):
    """The projected record, clipped to `clip` deviations, with Laplace noise: `epsilon` for the whole record."""

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "projected records with Laplace noise (local differential privacy)"
    mark: ClassVar[PictureMark] = PictureMark("olive", "cross")
    place: ClassVar[int] = 6
    charged: ClassVar[bool] = True
    learns_privacy: ClassVar[bool] = False

    epsilon: float | None = option(None, "for the whole record", always_labelled=True, column=True)
    clip: float = option(2.0, "clip each number to so many deviations")

    def check_options(self) -> None:
        """An epsilon that promises something, and a box."""
        super().check_options()
        check_epsilon(self, self.epsilon, "give a positive one")
        positive("give a positive number of deviations", clip=self.clip)

    def fit(self, public: Public, progress: Progress | None = None) -> FittedLocalLaplace:
        """Learn the projection."""
        return FittedLocalLaplace(self, self.fit_subspace(public))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedLocalLaplace:
        """Read back."""
        return FittedLocalLaplace(self, Subspace.from_arrays(arrays))

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """At the epsilon asked for."""
        return [(f"laplace, epsilon {epsilon:g}", cls(components=1, epsilon=epsilon))]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """Some epsilons, one if `quick`, whatever `classes` and `columns` are."""
        return [cls(epsilon=epsilon) for epsilon in ((4.0,) if quick else (1.0, 4.0))]


@dataclass(frozen=True, eq=False)
class FittedLocalLaplace(Projected, ChargedRelease):
    """The projected record; the noise is the meter's."""

    kind: LocalLaplace
    subspace: Subspace

    @property
    def made_by(self) -> str:
        """The projection."""
        return self.kind.projection

    def job(self, batches: Callable[[], Iterator[Reals]], records: int, name: str, made_by: str | None = None) -> Job:
        """Noise for a box of `clip` deviations each way.

        `batches`, `records`, `name` and `made_by` as in `ChargedRelease.job`.
        """
        projected = local.ProjectedTable(batches, records, self.columns, self.kind.clip)
        return local.job_for(projected, self.kind.epsilon or 0.0, name, made_by)

    def bound(self) -> None:
        """Not of the projection; that of the noise is in the statement."""
        return

    def statement(self, utilities: int, privacies: int) -> Statement:
        """Differential privacy for the whole record."""
        epsilon = self.kind.epsilon or 0.0
        factor, privacies = math.exp(epsilon), max(privacies, 2)
        bound = factor / (factor + privacies - 1)
        return Statement(
            self.kind.title,
            f"Local differential privacy, epsilon = {epsilon:g} and delta = 0 for one whole record (unit row, "
            f"relation replace): whatever its secret, a guess among {privacies} equally likely ones is right at most "
            f"{percent(bound)} of the time.",
            "Every record, whatever the adversary knows and whatever the secret.",
            "All noise falls on one record: at small epsilon little use is left.",
            accuracy_bound=bound,
        )
