"""What becomes of a record: each release, fitted on public records, as a map from coded records to released ones.

A step sees standardised public records with their classes when it is fitted, and private ones when it is applied; it
takes its randomness from `coins`, which in a release are the operating system's. Proofs of what each step promises
are in docs/proofs/jupa.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.randomness import CoinsLike, truthful
from adumbra.jupa.features import Guard
from adumbra.jupa.ranks import FOLDS, Arrays, CrossFitted, Equaliser, Integers, Public, Ranks, Reals, under
from adumbra.jupa.recipe import JupaRecipe
from adumbra.jupa.scoring import PublicModel, fit_public_model, lead, out_of_fold
from adumbra.linalg.discriminant import KernelMap, Projection, fit_projection, kernel_map
from adumbra.linalg.mmd import FineStep, fit_fine_step

__all__ = ["Outcome", "Step", "Subspace", "fit_step", "fit_subspace", "step_from_arrays"]

Progress = Callable[[str, int, int], None]

_SMALLEST_POOL = 3


@dataclass(frozen=True, eq=False)
class Outcome:
    """Released rows, and which records they belong to (positions, in order)."""

    rows: Reals
    kept: Integers
    not_reached: int = 0


class Step(Protocol):
    """A fitted release."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the released numbers."""

    def unperturbed(self, rows: Reals) -> Reals:
        """What the same records look like without the protection: what a service trains on."""

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Release records."""

    def told_by(self, released: Reals) -> Integers | None:
        """What anybody can read off a released row: a class or a bin; None where the row is the record's own."""

    def bound(self) -> float | None:
        """Accuracy that no adversary exceeds in guessing one of equally likely privacy classes, as the promise says."""

    def arrays(self) -> Arrays:
        """Everything that was learnt, as plain arrays."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """Rows to K numbers: mended by what public records hold, a kernel's features if there is one, then projected."""

    guard: Guard
    projection: Projection
    kernel: KernelMap | None = None

    def apply(self, rows: Reals) -> Reals:
        """Projected rows, each number of unit variance on the public records."""
        mended = self.guard.mend(rows)
        return self.projection.apply(mended if self.kernel is None else self.kernel.apply(mended))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the K numbers."""
        return tuple(f"z{i + 1}" for i in range(self.projection.matrix.shape[1]))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        kernel = {} if self.kernel is None else {f"kernel.{k}": v for k, v in self.kernel.arrays().items()}
        return {f"projection.{k}": v for k, v in self.projection.arrays().items()} | kernel | self.guard.arrays()

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Subspace:
        """Read back."""
        kernel = under("kernel.", arrays)
        return Subspace(
            Guard.from_arrays(arrays),
            Projection.from_arrays(under("projection.", arrays)),
            KernelMap.from_arrays(kernel) if kernel else None,
        )


def fit_subspace(recipe: JupaRecipe, public: Public) -> Subspace:
    """Learn the projection of a recipe."""
    guard = Guard.of(public.rows)
    rows, kernel = guard.mend(public.rows), None
    if recipe.kernel != "linear":
        kernel = kernel_map(recipe.kernel, rows, min(recipe.landmarks, len(rows)), None, public.seed)
        rows = kernel.apply(rows)
    components = recipe.components or max(1, min(public.utilities - 1, rows.shape[1]))
    projection = fit_projection(
        "none" if recipe.whole else recipe.projection,
        rows,
        public.utility_parts,
        public.privacy_parts,
        components,
        rho0=recipe.rho0,
        rho1=recipe.rho1,
        rho1_prime=recipe.rho1_prime,
        seed=public.seed,
    )
    return Subspace(guard, projection, kernel)


# --------------------------------------------------------------------------------------------- without protection


@dataclass(frozen=True, eq=False)
class Coarse:
    """The projected record, as it is."""

    subspace: Subspace

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each component."""
        return self.subspace.columns

    def unperturbed(self, rows: Reals) -> Reals:
        """The same."""
        return self.subspace.apply(rows)

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Project."""
        return Outcome(self.subspace.apply(rows), np.arange(len(rows)))

    def told_by(self, released: Reals) -> Integers | None:
        """None: all of it is the record's own."""
        return None

    def bound(self) -> float | None:
        """None: nothing is promised."""
        return None

    def arrays(self) -> Arrays:
        """As plain arrays."""
        return self.subspace.arrays()


@dataclass(frozen=True, eq=False)
class Fine:
    """The projected record, moved until it looks like one of a random privacy class (equations 10 to 14)."""

    subspace: Subspace
    step: FineStep
    classes: int
    keep_unreached: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each component."""
        return self.subspace.columns

    def unperturbed(self, rows: Reals) -> Reals:
        """The projected record."""
        return self.subspace.apply(rows)

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Project and move. The true class takes no part, even where it is known."""
        moved = self.step.move(self.subspace.apply(rows), coins.below(self.classes, len(rows)), progress=progress)
        kept = np.arange(len(rows)) if self.keep_unreached else np.flatnonzero(moved.reached)
        return Outcome(moved.rows[kept], kept, int((~moved.reached).sum()))

    def told_by(self, released: Reals) -> Integers | None:
        """None: all of it is the record's own."""
        return None

    def bound(self) -> float | None:
        """None: a heuristic promises nothing."""
        return None

    def arrays(self) -> Arrays:
        """As plain arrays."""
        step = {f"fine.{key}": value for key, value in self.step.arrays().items()}
        return self.subspace.arrays() | step | {"fine_classes": np.asarray(self.classes)}


# ----------------------------------------------------------------------------------------------------- resampling


@dataclass(frozen=True, eq=False)
class Resample:
    """A public record of the predicted utility class and of a privacy class drawn without looking, or nearly so."""

    subspace: Subspace
    whole: bool
    model: PublicModel | None
    equaliser: Equaliser | None
    epsilon: float
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
        return tuple(f"x{i + 1}" for i in range(self.public_rows.shape[1])) if self.whole else self.subspace.columns

    def unperturbed(self, rows: Reals) -> Reals:
        """The record itself, coded or projected."""
        return self.subspace.guard.mend(rows) if self.whole else self.subspace.apply(rows)

    def draw(self, rows: Reals, privacy: Integers | None, coins: CoinsLike) -> Integers:
        """Which row of the pools stands for each record."""
        if self.equaliser is not None:
            said = self.equaliser.predict(rows, _needed(privacy), coins)
        elif self.model is not None:
            said = self.model.predict(self.subspace.guard.mend(rows))
        else:
            raise TypeError("resampling needs a model")
        if self.epsilon > 0:
            answer = truthful(self.epsilon, _needed(privacy), self.classes, coins)
        else:
            answer = coins.below(self.classes, len(rows))
        pool = said * self.classes + answer
        size = self.starts[pool + 1] - self.starts[pool]
        inside = np.minimum((coins.uniform(len(rows)) * size).astype(np.int64), size - 1)
        return np.asarray(self.starts[pool] + inside)

    def apply(self, rows: Reals, privacy: Integers | None, coins: CoinsLike, progress: Progress | None) -> Outcome:
        """Draw a public record for each."""
        return Outcome(self.public_rows[self.draw(rows, privacy, coins)], np.arange(len(rows)))

    def told_by(self, released: Reals) -> Integers | None:
        """The pool that a row came from, or its utility class alone where the privacy class was drawn blindly."""
        places = {row.tobytes(): place for place, row in enumerate(np.ascontiguousarray(self.public_rows))}
        found = np.array([places.get(row.tobytes(), 0) for row in np.ascontiguousarray(released)], dtype=np.int64)
        pool = np.searchsorted(self.starts, found, side="right") - 1
        return np.asarray(pool if self.epsilon > 0 else pool // self.classes)

    def bound(self) -> float | None:
        """For equally likely privacy classes: by the response if predictions say nothing, or by the equaliser."""
        answered = math.exp(self.epsilon) / (math.exp(self.epsilon) + self.classes - 1)
        if self.equaliser is None:
            return answered if self.epsilon > 0 else None
        return None if self.epsilon > 0 else self.equaliser.bound()

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


def _needed(privacy: Integers | None) -> Integers:
    if privacy is None:
        raise InputError(
            "the privacy class of every record", "none", "this release looks at it; give it, or choose resample"
        )
    return privacy


def _fit_resample(recipe: JupaRecipe, public: Public, subspace: Subspace, progress: Progress | None) -> Resample:
    counts = np.bincount(public.joint(), minlength=public.utilities * public.privacies)
    if counts.min() == 0:
        raise InputError(
            "public records of every pair of a utility and a privacy class",
            f"{int((counts == 0).sum())} of {len(counts)} pairs without one",
            "give more public records, or group rare classes",
        )
    models = CrossFitted.fit(recipe.model, public, progress)
    said = models.scores.argmax(axis=1)
    scores = models.scores
    if not recipe.whole:  # a service will see the projected record, so that is what has to be typical
        projected = subspace.apply(public.rows)
        scores = out_of_fold("linear", projected, public.utility, public.utilities, models.folds, seed=public.seed)
    typical = lead(scores, public.utility)
    order, starts = [], [0]
    for pair in range(len(counts)):
        mine = np.flatnonzero(public.joint() == pair)
        best = mine[np.argsort(-typical[mine], kind="stable")]
        order.append(best[: max(math.ceil(recipe.pool * len(best)), min(_SMALLEST_POOL, len(best)))])
        starts.append(starts[-1] + len(order[-1]))
    origin = np.concatenate(order)
    table = np.zeros((public.utilities, public.privacies))
    np.add.at(table, (said, public.privacy), 1.0)
    table /= table.sum(axis=0) * public.privacies
    known = subspace.guard.mend(public.rows)
    rows = known[origin] if recipe.whole else subspace.apply(public.rows[origin])
    plain = not recipe.equalise
    return Resample(
        subspace,
        recipe.whole,
        fit_public_model(recipe.model, known, public.utility, public.utilities, seed=public.seed) if plain else None,
        None if plain else Equaliser.fit(models, public),
        recipe.epsilon or 0.0,
        public.privacies,
        public.utilities,
        rows,
        np.array(starts, dtype=np.int64),
        origin,
        float(table.max(axis=1).sum()),
    )


# --------------------------------------------------------------------------------------------------------- repair


@dataclass(frozen=True, eq=False)
class Repair:
    """A utility score of the same rank, to a few bins, from the average of the privacy classes' scores.

    The number released depends on the record only through its bin: a rank anywhere in the bin is drawn, and the
    average of the classes' quantile functions is taken there.
    """

    models: CrossFitted
    ranks: Ranks
    quantiles: tuple[Reals, ...]
    """For each privacy class, the sorted scores of all public records, each by the model that did not see it."""
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
        """Score, rank, draw."""
        fold = coins.below(FOLDS, len(rows))
        bins = self.ranks.bins(self.models.margin(rows, fold), _needed(privacy), fold, coins)
        return Outcome(self._value(self.ranks.drawn(bins, coins))[:, None], np.arange(len(rows)))

    def _value(self, rank: Reals) -> Reals:
        """The average of the classes' scores at a rank, 0 where the utility classes part."""
        at = np.append(rank, self.ranks.base)
        mean = np.mean([np.quantile(scores, at) for scores in self.quantiles], axis=0)
        return np.asarray((mean[:-1] - mean[-1]) / self.scale)

    def told_by(self, released: Reals) -> Integers | None:
        """The bin."""
        return np.asarray(np.searchsorted(self._value(self.ranks.edges[1:-1]), released[:, 0], side="right"))

    def bound(self) -> float | None:
        """Expected over the public records, for records of the same population."""
        return self.ranks.bound()

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out = {f"models.{k}": v for k, v in self.models.arrays().items()}
        out |= {f"ranks.{k}": v for k, v in self.ranks.arrays().items()}
        out |= {f"quantiles{s}": q for s, q in enumerate(self.quantiles)}
        return out | {"numbers": np.array([self.centre, self.scale])}


def _fit_repair(recipe: JupaRecipe, public: Public, progress: Progress | None) -> Repair:
    if public.utilities != 2:
        raise InputError(
            "a utility target of two classes for release repair, which keeps one score",
            f"{public.utilities} classes",
            "use release resample, with --equalise if predictions differ between privacy classes",
        )
    models = CrossFitted.fit(recipe.model, public, progress)
    margin = models.public_margin()
    ranks = Ranks.fit(margin, models.folds, public, recipe.bins)
    quantiles = tuple(np.sort(margin[public.privacy == s]) for s in range(public.privacies))
    deviation = float(margin.std())
    centre = float(np.quantile(margin, ranks.base))
    return Repair(models, ranks, quantiles, centre, deviation if deviation > 0 else 1.0)


# -------------------------------------------------------------------------------------------------------- all of it


def fit_step(recipe: JupaRecipe, public: Public, progress: Progress | None = None) -> Step:
    """The release of a recipe, learnt from public records. The noise of `laplace` is added elsewhere (jupa.local)."""
    if recipe.release == "repair":  # scores by a classifier of all features, in no subspace
        return _fit_repair(recipe, public, progress)
    subspace = fit_subspace(recipe, public)
    if recipe.release in ("resample", "respond"):
        return _fit_resample(recipe, public, subspace, progress)
    if recipe.release == "fine":
        step = fit_fine_step(
            subspace.apply(public.rows),
            public.privacy,
            public.privacies,
            seed=public.seed,
            kernel=recipe.fine_kernel,
            bandwidth=recipe.bandwidth,
            step=recipe.step,
            most_steps=recipe.most_steps,
        )
        return Fine(subspace, step, public.privacies, recipe.keep_unreached)
    return Coarse(subspace)


def step_from_arrays(recipe: JupaRecipe, arrays: Mapping[str, NDArray[Any]]) -> Step:
    """Read back a fitted step."""
    if recipe.release == "repair":
        ranks = Ranks.from_arrays(under("ranks.", arrays))
        quantiles = tuple(arrays[f"quantiles{s}"] for s in range(len(ranks.references)))
        models = CrossFitted.from_arrays(under("models.", arrays))
        centre, scale = (float(number) for number in arrays["numbers"])
        return Repair(models, ranks, quantiles, centre, scale)
    subspace = Subspace.from_arrays(arrays)
    if recipe.release in ("resample", "respond"):
        model, equaliser = under("model.", arrays), under("equaliser.", arrays)
        classes, utilities = (int(n) for n in arrays["sizes"])
        starts, count = arrays["starts"], len(arrays["public_rows"])
        whole = len(starts) == classes * utilities + 1 and starts[0] == 0 and starts[-1] == count
        if not whole or (np.diff(starts) < 1).any() or len(arrays["origin"]) != count:
            raise ValueError("pools that do not fit together")
        return Resample(
            subspace,
            recipe.whole,
            PublicModel.from_arrays(model) if model else None,
            Equaliser.from_arrays(equaliser) if equaliser else None,
            recipe.epsilon or 0.0,
            classes,
            utilities,
            arrays["public_rows"],
            arrays["starts"],
            arrays["origin"],
            float(arrays["told"]),
        )
    if recipe.release == "fine":
        fine = FineStep.from_arrays(under("fine.", arrays))
        return Fine(subspace, fine, int(arrays["fine_classes"]), recipe.keep_unreached)
    return Coarse(subspace)
