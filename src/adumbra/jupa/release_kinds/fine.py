"""Release `fine`: the projected record, moved towards a random privacy class (equations 10 to 14). A heuristic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import at_least, positive
from adumbra.jupa.learning.kernel_choice import fit_fine_step
from adumbra.jupa.learning.mmd import KERNELS, FineStep
from adumbra.jupa.projecting import Projected, ProjectingRelease, Subspace
from adumbra.jupa.ranks import Arrays, Public, under
from adumbra.jupa.release_kind import NO_DP, FittedRelease, JupaRelease, Outcome, PictureMark, Statement, option

__all__ = ["Fine", "FittedFine"]


@dataclass(frozen=True)
class Fine(ProjectingRelease):
    """Moved until it looks like a record of a random privacy class."""

    name: ClassVar[str] = "fine"
    title: ClassVar[str] = "projected records, moved towards a random privacy class (heuristic)"
    mark: ClassVar[PictureMark] = PictureMark("orange", "triangle")
    place: ClassVar[int] = 2
    promises: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = True

    fine_kernel: str = option(
        "auto", "rbf, laplacian, inverse-multiquadric, cauchy or auto", choices=("auto", *KERNELS)
    )
    bandwidth: float | None = option(None, "in median distances", default_words="by cross-validation")
    step: float = option(1.0, "step size in units of the bandwidth")
    most_steps: int = option(200, "steps after which a record has not reached its class")
    keep_unreached: bool = option(False, "release records that did not reach their class too")
    source: str = option("predicted", "whose class a record leaves; only 'predicted' (the true one would leak)")

    def check_options(self) -> None:
        """Positive sizes, and a source that gives nothing away."""
        super().check_options()
        at_least(1, "allow at least one step", most_steps=self.most_steps)
        positive("give a positive step in units of the bandwidth", step=self.step)
        if self.bandwidth is not None:
            positive("give a positive multiple of the median distance", bandwidth=self.bandwidth)
        if self.source != "predicted":
            raise InputError(
                "the source class of the fine step as its own rule predicts it (equation 10)",
                f"source = {self.source!r}",
                "leave it out: with the true label as source the moved record gives the label away (an adversary who "
                "simulates the step read 53 % of 30 identities that way, 11 % before)",
            )

    def fit(self, public: Public, progress: Progress | None = None) -> FittedFine:
        """Learn the projection, and in its coordinates the step."""
        subspace = self.fit_subspace(public)
        step = fit_fine_step(
            subspace.apply(public.rows),
            public.privacy,
            public.privacies,
            seed=public.seed,
            kernel=self.fine_kernel,
            bandwidth=self.bandwidth,
            step=self.step,
            most_steps=self.most_steps,
        )
        return FittedFine(self, subspace, step, public.privacies)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedFine:
        """Read back."""
        step = FineStep.from_arrays(under("fine.", arrays))
        return FittedFine(self, Subspace.from_arrays(arrays), step, int(arrays["fine_classes"]))

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """Many numbers."""
        return [("fine, K = 5", cls(components=5))]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """As it comes, whatever `classes`, `columns` and `quick` are."""
        return [cls()]


@dataclass(frozen=True, eq=False)
class FittedFine(Projected, FittedRelease):
    """The projected record, moved until its label by equation (10) is a class drawn at random."""

    kind: Fine
    subspace: Subspace
    step: FineStep
    classes: int

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Project the `rows` and move each to a class that `coins` draw; `progress` follows the moves.

        The true `privacy` class takes no part, even where it is known.
        """
        moved = self.step.move(self.subspace.apply(rows), coins.below(self.classes, len(rows)), progress=progress)
        kept = np.arange(len(rows)) if self.kind.keep_unreached else np.flatnonzero(moved.reached)
        return Outcome(moved.rows[kept], kept, int((~moved.reached).sum()))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        step = {f"fine.{key}": value for key, value in self.step.arrays().items()}
        return self.subspace.arrays() | step | {"fine_classes": np.asarray(self.classes)}

    def statement(self, utilities: int, privacies: int) -> Statement:
        """A heuristic promises nothing."""
        return Statement(
            self.kind.title,
            f"{NO_DP} Nothing is promised. The step is a heuristic against an adversary who learnt from unmoved "
            "records; one who moves records of their own by the same public rule and learns from those is not held "
            "back by it (the paper's Theorem 1 is false against them).",
            "Nobody.",
            "Records that did not reach their class are left out unless the recipe keeps them; which ones are left "
            "out may itself tell something.",
        )

    def nothing_released(self, records: int) -> InputError:
        """No record reached its class."""
        return InputError(
            "at least one record that the fine step can move to the class drawn for it",
            f"none of {records}",
            "fit again with another --bandwidth or --most-steps, or with --keep-unreached; or use resample",
        )
