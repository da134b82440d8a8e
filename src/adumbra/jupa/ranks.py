"""Predictions that can be compared over privacy classes: cross-fitted models, ranks inside a class, equal rates.

A rank or a rate only means for a private record what it means for public ones if neither was used to make the model
that scores them. So reference records are scored out of fold: each of the five models is trained without one fold, and
a private record is scored by the model of a randomly drawn fold (docs/proofs/jupa.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.jupa.features import Guard
from adumbra.jupa.learning.classifiers import fit_public_model
from adumbra.jupa.scoring import PublicModel
from adumbra.numerics.splits import folds

__all__ = ["FOLDS", "Arrays", "CrossFitted", "Equaliser", "Integers", "Public", "Ranks", "Reals", "margin_of", "under"]

Arrays = dict[str, NDArray[Any]]

FOLDS = 5
_CLEAR = 0.4
"""Share of a bin that is left empty beside the edge where the utility classes part: a service's threshold is never
exactly there. What is drawn depends on the bin alone, wherever in it."""
_FEWEST_REFERENCES = 5
"""Public records of a privacy class in a fold below which a rank among them says nothing."""


@dataclass(frozen=True, eq=False)
class Public:
    """Public records as numbers (NaN where one is missing), with their classes."""

    rows: Reals
    utility: Integers
    privacy: Integers
    utility_parts: list[Integers]
    privacy_parts: list[Integers]
    utilities: int
    privacies: int
    seed: bytes

    def joint(self) -> Integers:
        """Utility and privacy class as one number."""
        return self.utility * self.privacies + self.privacy


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays whose name has a prefix, without it."""
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Models that each left out one fold of the public records, and what they say of that fold.

    A private record draws a fold and is scored by the model that did not see it, so that its score and those of the
    fold's public records of its class are exchangeable if the records are.
    """

    models: tuple[PublicModel, ...]
    guards: tuple[Guard, ...]
    scores: Reals
    """Of the public records, out of fold."""
    folds: Integers
    spread: Reals
    """Of each model's margin between two classes on its fold, so that models of different kinds have one unit."""

    @staticmethod
    def fit(kind: str, public: Public, progress: Progress | None = None) -> CrossFitted:
        """Train a model of this `kind` (as `JupaRecipe.model`) for every fold of the `public` records, on the others.

        `progress(step, done, total)` is called before each fold.
        """
        # Folds are stratified by privacy class only. Stratifying by utility class as well would make the contents of
        # folds depend on each other, so that a new record would no longer be exchangeable with those of its fold.
        numbers = folds(public.seed, public.privacy, FOLDS)
        scores, spread = np.empty((len(public.rows), public.utilities)), np.ones(FOLDS)
        models, guards = [], []
        for fold in range(FOLDS):
            if progress is not None:
                progress("learning to predict the utility", fold, FOLDS)
            inside = numbers == fold
            _check_classes(public, ~inside)
            guard = Guard.of(public.rows[~inside])
            known, labels = guard.mend(public.rows[~inside]), public.utility[~inside]
            seed = public.seed + f"/fold {fold}".encode()
            model = fit_public_model(kind, known, labels, public.utilities, seed=seed)
            scores[inside] = model.scores(guard.mend(public.rows[inside]))
            spread[fold] = margin_of(scores[inside]).std() or 1.0
            models.append(model)
            guards.append(guard)
        return CrossFitted(tuple(models), tuple(guards), scores, numbers, spread)

    def score(self, rows: Reals, fold: Integers) -> Reals:
        """Scores of records, each by the model of its fold."""
        out = np.empty((len(rows), self.scores.shape[1]))
        for number, (model, guard) in enumerate(zip(self.models, self.guards, strict=True)):
            mine = fold == number
            if mine.any():
                out[mine] = model.scores(guard.mend(rows[mine]))
        return out

    def margin(self, rows: Reals, fold: Integers) -> Reals:
        """How far the second of two classes is ahead, by the model of each record's fold."""
        return np.asarray(margin_of(self.score(rows, fold)) / self.spread[fold])

    def public_margin(self) -> Reals:
        """The same of the public records."""
        return np.asarray(margin_of(self.scores) / self.spread[self.folds])

    def mean_margin(self, rows: Reals) -> Reals:
        """The same, of all models together."""
        each = [self.margin(rows, np.full(len(rows), fold, dtype=np.int64)) for fold in range(len(self.models))]
        return np.asarray(np.mean(each, axis=0))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out: Arrays = {"scores": self.scores, "folds": self.folds, "spread": self.spread}
        for i, (model, guard) in enumerate(zip(self.models, self.guards, strict=True)):
            out |= {f"model{i}.{key}": value for key, value in (model.arrays() | guard.arrays()).items()}
        return out

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> CrossFitted:
        """Read back."""
        each = [under(f"model{i}.", arrays) for i in range(len(arrays["spread"]))]
        guards = tuple(Guard.from_arrays(one) for one in each)
        models = tuple(PublicModel.from_arrays({k: v for k, v in one.items() if k != "guard"}) for one in each)
        return CrossFitted(models, guards, arrays["scores"], arrays["folds"], arrays["spread"])


def _check_classes(public: Public, inside: NDArray[np.bool_]) -> None:
    if len(np.unique(public.utility[inside])) < public.utilities:
        raise InputError(
            f"at least {FOLDS} public records of every utility class",
            "fewer of one class",
            "give more public records, or leave the rare class out",
        )


@dataclass(frozen=True, eq=False)
class Ranks:
    """The place of a score among public records of the same privacy class, to a few bins.

    `references[s][k]` are the sorted scores of the public records of class s in fold k. The bins have an edge where
    the public share of the second utility class begins, so that the purpose is not blurred; for the ranks of a fold
    (`fold_edges[k]`) that is the share among the other folds.
    """

    references: tuple[tuple[Reals, ...], ...]
    fold_edges: Reals
    edges: Reals
    base: float
    """The edge at which the utility classes part."""

    @staticmethod
    def fit(margin: Reals, folds_of: Integers, public: Public, bins: int) -> Ranks:
        """References of every class and fold, and the edges of the `bins`.

        `margin` is the score and `folds_of` the fold of each of the `public` records.
        """
        references = []
        for s in range(public.privacies):
            mine = public.privacy == s
            each = tuple(np.sort(margin[mine & (folds_of == k)]) for k in range(FOLDS))
            if min(len(part) for part in each) < _FEWEST_REFERENCES:
                raise InputError(
                    f"at least {FOLDS * _FEWEST_REFERENCES} public records of every privacy class",
                    f"{int(mine.sum())} of one class",
                    "give more public records, or group rare classes; resample needs fewer",
                )
            references.append(each)
        fewest = min(len(part) for each in references for part in each)
        if bins > fewest:
            raise InputError(
                f"at most {fewest} bins, as many as the smallest privacy class has public records in a fold",
                f"{bins} bins",
                "give fewer: every bin tells more, and two serve most purposes",
            )
        first = public.utility == 0
        own_edges = [_edges(float(np.mean(first[folds_of != k])), bins) for k in range(FOLDS)]
        base = float(np.mean(first))
        return Ranks(tuple(references), np.stack(own_edges), _edges(base, bins), base)

    def bins(self, margin: Reals, privacy: Integers, fold: Integers, coins: CoinsLike) -> Integers:
        """The bin of every record: its rank among the references of its class in its fold, ties broken at random.

        `margin` is its score, `privacy` its class and `fold` the fold of the model that scored it; `coins` break ties.
        """
        out = np.zeros(len(margin), dtype=np.int64)
        luck = coins.uniform(len(margin))
        for s, each in enumerate(self.references):
            for k, reference in enumerate(each):
                mine = (privacy == s) & (fold == k)
                below = np.searchsorted(reference, margin[mine], side="left")
                equal = np.searchsorted(reference, margin[mine], side="right") - below
                rank = (below + luck[mine] * (equal + 1)) / (len(reference) + 1)
                out[mine] = np.searchsorted(self.fold_edges[k][1:-1], rank, side="right")
        return out

    def drawn(self, bins: Integers, coins: CoinsLike) -> Reals:
        """A rank in each bin; beside the edge where the utility classes part, in the part of it that is clear of it."""
        low, high = self.edges[bins], self.edges[bins + 1]
        clear = _CLEAR * (high - low)
        start = np.where(low == self.base, low + clear, low)
        end = np.where(high == self.base, high - clear, high)
        return np.asarray(start + coins.uniform(len(bins)) * (end - start))

    def bound(self) -> float:
        """Accuracy of guessing one of equally likely classes from the bin, expected over the public records."""
        shares = np.diff(self.fold_edges, axis=1)
        far = []
        for each in self.references:
            sizes = np.array([len(reference) for reference in each])
            far.append(float(0.5 * np.sqrt(shares * (1 - shares) / (sizes[:, None] + 2)).sum(axis=1).mean()))
        return min(1.0, (1.0 + sum(far)) / len(far))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out: Arrays = {
            "edges": self.edges,
            "fold_edges": self.fold_edges,
            "base": np.asarray(self.base),
            "classes": np.asarray(len(self.references)),
        }
        for s, each in enumerate(self.references):
            out |= {f"reference{s}.{k}": reference for k, reference in enumerate(each)}
        return out

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Ranks:
        """Read back."""
        references = tuple(
            tuple(arrays[f"reference{s}.{k}"] for k in range(FOLDS)) for s in range(int(arrays["classes"]))
        )
        return Ranks(references, arrays["fold_edges"], arrays["edges"], float(arrays["base"]))


def _edges(base: float, bins: int) -> Reals:
    """Edges of ranks from 0 to 1: half of the bins below the share `base` of the first utility class, half above.

    How many are below must not depend on the records: folds have shares of their own and the same bins.
    """
    below = bins // 2
    return np.concatenate([np.linspace(0, base, below + 1), np.linspace(base, 1, bins - below + 1)[1:]])


def margin_of(scores: Reals) -> Reals:
    """How far the second of two classes is ahead."""
    return np.asarray(scores[:, 1] - scores[:, 0])


@dataclass(frozen=True, eq=False)
class Equaliser:
    """A predicted utility class that is equally frequent in every privacy class (of people like the public ones).

    With two utility classes every privacy class has its own threshold, a rank; with more, surplus predictions
    are changed at random.
    """

    models: CrossFitted
    ranks: Ranks | None
    flips: Reals | None
    """`flips[s, a]`: cumulative probabilities of the class that a prediction a becomes in privacy class s."""
    rates_from: Integers
    """Public records of each privacy class in a fold, on average."""

    @staticmethod
    def fit(models: CrossFitted, public: Public) -> Equaliser:
        """Learn thresholds or flips."""
        counts = np.bincount(public.privacy, minlength=public.privacies) // FOLDS
        if public.utilities == 2:
            return Equaliser(models, Ranks.fit(models.public_margin(), models.folds, public, 2), None, counts)
        # a record draws its fold, each equally likely, so that folds weigh equally whatever their size
        table = np.zeros((FOLDS, public.privacies, public.utilities))
        np.add.at(table, (models.folds, public.privacy, models.scores.argmax(axis=1)), 1.0)
        if table.sum(axis=2).min() == 0:
            raise InputError(
                f"at least {FOLDS} public records of every privacy class to equalise over",
                "fewer of one class",
                "give more public records, or group rare classes",
            )
        rates = (table / table.sum(axis=2, keepdims=True)).mean(axis=0)
        return Equaliser(models, None, _flips(rates), counts)

    def predict(self, rows: Reals, privacy: Integers, coins: CoinsLike) -> Integers:
        """The utility class that may be released, for each of `rows` with its `privacy` class.

        `coins` draw the fold whose model is asked, and what is randomised.
        """
        fold = coins.below(FOLDS, len(rows))
        if self.ranks is not None:
            return self.ranks.bins(self.models.margin(rows, fold), privacy, fold, coins)
        said = self.models.score(rows, fold).argmax(axis=1)
        if self.flips is None:
            raise TypeError("an equaliser has ranks or flips")
        cumulative = self.flips[privacy, said]
        return np.asarray((coins.uniform(len(rows))[:, None] >= cumulative[:, :-1]).sum(axis=1), dtype=np.int64)

    def bound(self) -> float:
        """Accuracy of guessing one of equally likely privacy classes, expected over the public records."""
        if self.ranks is not None:
            return self.ranks.bound()
        classes = self.models.scores.shape[1]
        far = 0.5 * np.sqrt((classes - 1) / np.maximum(self.rates_from, 1))
        return min(1.0, float((1.0 + np.minimum(far, 1.0).sum()) / len(far)))

    def arrays(self) -> Arrays:
        """As plain arrays."""
        out = {f"models.{k}": v for k, v in self.models.arrays().items()} | {"rates_from": self.rates_from}
        if self.ranks is not None:
            return out | {f"ranks.{k}": v for k, v in self.ranks.arrays().items()}
        return out if self.flips is None else out | {"flips": self.flips}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Equaliser:
        """Read back."""
        ranks = under("ranks.", arrays)
        models = CrossFitted.from_arrays(under("models.", arrays))
        return Equaliser(models, Ranks.from_arrays(ranks) if ranks else None, arrays.get("flips"), arrays["rates_from"])


def _flips(rates: Reals) -> Reals:
    """How to change predictions so that every class's rates become the average ones, changing as few as can be."""
    goal = rates.mean(axis=0)
    out = np.zeros((*rates.shape, rates.shape[1]))
    for s, rate in enumerate(rates):
        surplus, room = np.maximum(rate - goal, 0.0), np.maximum(goal - rate, 0.0)
        for a in range(len(rate)):
            leave = surplus[a] / rate[a] if rate[a] > 0 else 0.0
            out[s, a] = leave * room / room.sum() if room.sum() > 0 else 0.0
            out[s, a, a] += 1.0 - out[s, a].sum()
    return np.cumsum(out, axis=2)
