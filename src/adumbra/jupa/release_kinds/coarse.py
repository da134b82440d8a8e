"""Release `coarse`: the projected record, as it is. Nothing is promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.jupa.projecting import Projected, ProjectingRelease, Subspace
from adumbra.jupa.ranks import Public
from adumbra.jupa.release_kind import NO_DP, FittedRelease, JupaRelease, Outcome, PictureMark, Statement

__all__ = ["Coarse", "FittedCoarse"]


@dataclass(frozen=True)
class Coarse(ProjectingRelease):
    """Projected, nothing else."""

    name: ClassVar[str] = "coarse"
    title: ClassVar[str] = "projected records, as they are"
    mark: ClassVar[PictureMark] = PictureMark("quiet", "circle")
    place: ClassVar[int] = 1
    promises: ClassVar[bool] = False
    random: ClassVar[bool] = False
    learns_privacy: ClassVar[bool] = False

    def fit(self, public: Public, progress: Progress | None = None) -> FittedCoarse:
        """Learn the projection."""
        return FittedCoarse(self, self.fit_subspace(public))

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedCoarse:
        """Read back."""
        return FittedCoarse(self, Subspace.from_arrays(arrays))

    def label(self) -> str:
        """The projection, which is all that is done."""
        return self.projection

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """Many numbers, and one."""
        return [(f"coarse, K = {components}", cls(components=components)) for components in (5, 1)]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """Numbers of components from the utility `classes`, at most `columns`; floors, projections; `quick`: fewer."""
        base = classes - 1 if columns is None else min(classes - 1, columns)
        more = (base,) if quick else (1, base, base + 2, 2 * base)
        floors = (1e-1,) if quick else (1e-4, 1e-2, 1e-1, 1.0)
        plain = ("pca", "dca") if quick else ("dca", "mdr", "pca", "random")
        return [
            *(cls(components=k) for k in sorted(set(more)) if columns is None or k <= columns),
            *(cls(components=base, rho0=floor) for floor in floors),
            *(cls(components=base, projection=kind) for kind in plain),
        ]


@dataclass(frozen=True, eq=False)
class FittedCoarse(Projected, FittedRelease):
    """The projected record, as it is."""

    kind: Coarse
    subspace: Subspace

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Project the `rows`; `privacy`, `coins` and `progress` have no part in it."""
        return Outcome(self.subspace.apply(rows), np.arange(len(rows)))

    def statement(self, utilities: int, privacies: int) -> Statement:
        """Nothing is promised."""
        return Statement(
            self.kind.title,
            f"{NO_DP} Nothing is promised: a projection leaves out what lies off its {self.kind.projection} "
            "directions, and nothing more. Whatever the released numbers say about the privacy target can be learnt "
            "from them.",
            "Nobody.",
            "Run adumbra audit jupa before you trust it: few components often hide a label, and sometimes do not.",
        )
