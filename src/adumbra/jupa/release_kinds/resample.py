"""Release `resample`: a public record of the predicted utility class and of a random privacy class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike, randomised_response
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import positive
from adumbra.jupa.features import Target
from adumbra.jupa.learning.classifiers import fit_public_model, out_of_fold
from adumbra.jupa.projecting import Projected, ProjectingRelease, Subspace
from adumbra.jupa.ranks import Arrays, CrossFitted, Equaliser, Public, under
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
from adumbra.jupa.scoring import MODELS, PublicModel, lead

__all__ = ["FittedResample", "Resample", "model_option"]

_SMALLEST_POOL = 3
EVERY_RECORD = "Every record, whatever the adversary knows, as far as the recipient can learn from the release alone."
SAME_POPULATION = "Records of the same population as the public ones, on average."
CAUTION = (
    "The predicted utility class is disclosed by design. It is a classifier with extra steps: what it says about other "
    "attributes is what the utility class says about them."
)


def model_option() -> Any:
    """Which classifier predicts the utility class: the option of kinds that have one."""
    return option("auto", "who predicts the utility: linear, kernel, boosting or auto", choices=("auto", *MODELS))


@dataclass(frozen=True)
class Resample(ProjectingRelease):
    """A public record with the predicted utility class and a random privacy class."""

    name: ClassVar[str] = "resample"
    title: ClassVar[str] = "public records of the predicted utility class and a random privacy class"
    mark: ClassVar[PictureMark] = PictureMark("blue", "square")
    place: ClassVar[int] = 3

    equalise: bool = option(
        False,
        "predictions equally frequent in every privacy class",
        label="equalised",
        always_labelled=True,
        column=True,
    )
    pool: float = option(1 / 3, "share of the public records of a class that may be drawn")
    whole: bool = option(
        False, "release whole public records", label="whole records", always_labelled=True, column=True
    )
    model: str = model_option()

    def check_options(self) -> None:
        """A share that is one."""
        super().check_options()
        if positive("give the share of public records to draw from", pool=self.pool) > 1.0:
            raise InputError("0 < pool <= 1", f"pool = {self.pool:g}", "give the share of public records to draw from")

    def unused(self, name: str) -> str:
        """Whole records are not projected."""
        if self.whole and name in ProjectingRelease.__dataclass_fields__:
            return "without whole, which projects nothing"
        return super().unused(name)

    def check_recipe(self, privacies: int, encoding: str) -> None:
        """Equalising compares a record with those of its class."""
        super().check_recipe(privacies, encoding)
        if self.equalise:
            refuse_binary(encoding)

    def check_public(self, utility: Target, privacy: Target, u: Integers, s: Integers) -> None:
        """There must be public records of every pair of a `utility` and a `privacy` class to draw.

        `u` and `s` are the classes of each public record, as numbers from 0.
        """
        table = np.zeros((len(utility.classes), len(privacy.classes)), dtype=np.int64)
        np.add.at(table, (u, s), 1)
        empty = [f"{utility.names[a]} with {privacy.names[b]}" for a, b in np.argwhere(table == 0)]
        if empty:
            more = "" if len(empty) <= 5 else f" and {len(empty) - 5} more"
            raise InputError(
                "public records of every pair of a utility and a privacy class",
                f"{len(empty)} of {table.size} pairs without one: {', '.join(empty[:5])}{more}",
                "give more public records, or group rare classes (a number into a few ranges)",
            )

    @property
    def needs_privacy_label(self) -> bool:
        """Only to equalise."""
        return self.equalise

    @property
    def fitted_projection(self) -> str:
        """None for whole records."""
        return "none" if self.whole else self.projection

    @property
    def response(self) -> float:
        """Epsilon of the answered privacy class; 0 where it is drawn without looking."""
        return 0.0

    def fit(self, public: Public, progress: Progress | None = None) -> FittedResample:
        """Learn to predict the utility class, and which public records are typical of their classes."""
        counts = np.bincount(public.joint(), minlength=public.utilities * public.privacies)
        if counts.min() == 0:
            raise InputError(
                "public records of every pair of a utility and a privacy class",
                f"{int((counts == 0).sum())} of {len(counts)} pairs without one",
                "give more public records, or group rare classes",
            )
        subspace = self.fit_subspace(public)
        models = CrossFitted.fit(self.model, public, progress)
        scores = models.scores
        if not self.whole:  # a service will see the projected record, so that is what has to be typical
            projected = subspace.apply(public.rows)
            scores = out_of_fold("linear", projected, public.utility, public.utilities, models.folds, seed=public.seed)
        origin, starts = _pools(lead(scores, public.utility), public.joint(), len(counts), self.pool)
        known = subspace.guard.mend(public.rows)
        model = None
        if not self.equalise:
            model = fit_public_model(self.model, known, public.utility, public.utilities, seed=public.seed)
        return FittedResample(
            self,
            subspace,
            model,
            Equaliser.fit(models, public) if self.equalise else None,
            public.privacies,
            public.utilities,
            known[origin] if self.whole else subspace.apply(public.rows[origin]),
            starts,
            origin,
            _told(models.scores.argmax(axis=1), public),
        )

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> FittedResample:
        """Read back."""
        model, equaliser = under("model.", arrays), under("equaliser.", arrays)
        classes, utilities = (int(n) for n in arrays["sizes"])
        starts, count = arrays["starts"], len(arrays["public_rows"])
        whole = len(starts) == classes * utilities + 1 and starts[0] == 0 and starts[-1] == count
        if not whole or (np.diff(starts) < 1).any() or len(arrays["origin"]) != count:
            raise ValueError("pools that do not fit together")
        return FittedResample(
            self,
            Subspace.from_arrays(arrays),
            PublicModel.from_arrays(model) if model else None,
            Equaliser.from_arrays(equaliser) if equaliser else None,
            classes,
            utilities,
            arrays["public_rows"],
            arrays["starts"],
            arrays["origin"],
            float(arrays["told"]),
        )

    @classmethod
    def audited(cls, epsilon: float) -> Sequence[tuple[str, JupaRelease]]:
        """As it comes, and equalised."""
        return [
            ("resample", cls(components=5, model="kernel")),
            ("resample, equalised", cls(components=5, equalise=True, model="kernel")),
        ]

    @classmethod
    def compared(cls, classes: int, columns: int | None, quick: bool) -> Sequence[JupaRelease]:
        """As it comes, equalised, and unless `quick` with whole records; the same for all `classes` and `columns`."""
        model = "linear" if quick else "auto"
        out = [cls(equalise=equalise, model=model) for equalise in (False, True)]
        return out if quick else [*out, cls(whole=True)]


@dataclass(frozen=True, eq=False)
class FittedResample(Projected, FittedRelease):
    """A public record of the predicted utility class and of a privacy class drawn without looking, or nearly so."""

    kind: Resample
    subspace: Subspace
    model: PublicModel | None
    equaliser: Equaliser | None
    classes: int
    utilities: int
    public_rows: Reals
    """The records of the pools, as they are released."""
    starts: Integers
    """Where the pool of (utility class, privacy class) starts in `public_rows`; one more than there are pools."""
    origin: Integers
    """Which public record each of `public_rows` is."""
    told: float
    """Accuracy of the best guess of one of equally likely privacy classes from the prediction, on public records."""

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each component, or for each coded feature."""
        if not self.kind.whole:
            return self.subspace.columns
        return tuple(f"x{i + 1}" for i in range(self.public_rows.shape[1]))

    @property
    def whole_records(self) -> Integers | None:
        """Those of the pools, if the recipe says so."""
        return self.origin if self.kind.whole else None

    def unperturbed(self, rows: Reals) -> Reals:
        """The record itself, coded or projected."""
        return self.subspace.guard.mend(rows) if self.kind.whole else self.subspace.apply(rows)

    def draw(self, rows: Reals, privacy: Integers | None, coins: CoinsLike) -> Integers:
        """Which row of the pools stands for each of `rows`.

        `privacy` classes are needed where the kind equalises or answers them at random, None otherwise; `coins` draw.
        """
        if self.equaliser is not None:
            said = self.equaliser.predict(rows, needed(privacy), coins)
        elif self.model is not None:
            said = self.model.predict(self.subspace.guard.mend(rows))
        else:
            raise TypeError("resampling needs a model")
        if self.kind.response > 0:
            answer = randomised_response(self.kind.response, needed(privacy), self.classes, coins)
        else:
            answer = coins.below(self.classes, len(rows))
        pool = said * self.classes + answer
        size = self.starts[pool + 1] - self.starts[pool]
        inside = np.minimum((coins.uniform(len(rows)) * size).astype(np.int64), size - 1)
        return np.asarray(self.starts[pool] + inside)

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Draw a public record for each of `rows`; `privacy` and `coins` as for `draw`. `progress` is not called."""
        drawn = self.draw(rows, privacy, coins)
        return Outcome(self.public_rows[drawn], np.arange(len(rows)), drawn=drawn)

    def answered(self, rows: Reals, privacy: Integers, coins: CoinsLike) -> Integers:
        """The privacy class of the pool that was drawn from, for `rows` with `privacy` classes, by `coins`."""
        drawn = self.draw(rows, privacy, coins)
        return np.asarray((np.searchsorted(self.starts, drawn, side="right") - 1) % self.classes)

    def told_by(self, released: Reals) -> Integers:
        """The pool that a row came from, or its utility class alone where the privacy class was drawn blindly."""
        places = {row.tobytes(): place for place, row in enumerate(np.ascontiguousarray(self.public_rows))}
        found = np.array([places.get(row.tobytes(), 0) for row in np.ascontiguousarray(released)], dtype=np.int64)
        pool = np.searchsorted(self.starts, found, side="right") - 1
        return np.asarray(pool if self.kind.response > 0 else pool // self.classes)

    def bound(self) -> float | None:
        """For equally likely privacy classes: by the response if predictions say nothing, or by the equaliser."""
        factor = math.exp(self.kind.response)
        if self.equaliser is None:
            return factor / (factor + self.classes - 1) if self.kind.response > 0 else None
        return None if self.kind.response > 0 else self.equaliser.bound()

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out = self.subspace.arrays() | {
            "public_rows": self.public_rows,
            "starts": self.starts,
            "origin": self.origin,
            "told": np.asarray(self.told),
            "sizes": np.array([self.classes, self.utilities]),
        }
        if self.model is not None:
            out |= {f"model.{k}": v for k, v in self.model.arrays().items()}
        if self.equaliser is not None:
            out |= {f"equaliser.{k}": v for k, v in self.equaliser.arrays().items()}
        return out

    def check_classes(self, utilities: int, privacies: int) -> None:
        """Pools of the classes that there are."""
        if (self.utilities, self.classes) != (utilities, privacies):
            raise ValueError("pools of other classes")

    def statement(self, utilities: int, privacies: int) -> Statement:
        """Only the predicted class is told."""
        promise = f"{self.beginning(utilities)} and of a privacy class drawn without looking at the record. "
        if self.kind.equalise:
            promise += (
                "The prediction is equalised: for records of the population that the public ones were drawn from, a "
                f"guess among {privacies} equally likely privacy classes is right at most {percent(self.bound())} of "
                "the time, on average over the draw of the public records. Nothing is promised for other populations, "
                "or for one person about whom more is known."
            )
            caution = f"{CAUTION} The bound holds for one release of a record; a second one draws another fold and "
            return Statement(
                self.kind.title, promise, SAME_POPULATION, f"{caution}tells more.", accuracy_bound=self.bound()
            )
        promise += (
            "What the released record says about the privacy label is what the predicted class says: on public records "
            f"the best guess from it, among {privacies} equally likely classes, was right {percent(self.told)} of the "
            "time."
        )
        return Statement(self.kind.title, promise, EVERY_RECORD, CAUTION, told=self.told)

    def beginning(self, utilities: int) -> str:
        """How the promise begins, whatever the privacy class of what is released."""
        return (
            f"{NO_DP} Of a record only its predicted utility class is told (one of {utilities}, at most "
            f"{math.log2(utilities):.2g} bits); what is released is a public record of that class"
        )


def _pools(typical: Reals, pair_of: Integers, pairs: int, share: float) -> tuple[Integers, Integers]:
    """For every pair of classes its most typical records, the first `share` of them; and where each pool starts."""
    order, starts = [], [0]
    for pair in range(pairs):
        mine = np.flatnonzero(pair_of == pair)
        best = mine[np.argsort(-typical[mine], kind="stable")]
        order.append(best[: max(math.ceil(share * len(best)), min(_SMALLEST_POOL, len(best)))])
        starts.append(starts[-1] + len(order[-1]))
    return np.concatenate(order), np.array(starts, dtype=np.int64)


def _told(said: Integers, public: Public) -> float:
    """Accuracy of the best guess among equally likely privacy classes from out-of-fold predictions."""
    table = np.zeros((public.utilities, public.privacies))
    np.add.at(table, (said, public.privacy), 1.0)
    table /= table.sum(axis=0) * public.privacies
    return float(table.max(axis=1).sum())
