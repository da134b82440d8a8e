"""Adversaries of a utility-aware release: who trained on untouched records, and who runs the release itself.

The papers' adversary learns the privacy target from unperturbed records and meets the release unprepared. An adaptive
one knows the public algorithm, runs it on labelled records of its own and learns from what comes out; nothing stops a
real one from doing so. Both are reported side by side, and the highest accuracy among the adaptive ones counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import polars as pl
import threadpoolctl  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.core.errors import InputError
from adumbra.core.randomness import CoinsLike
from adumbra.core.validation import at_least, one_of
from adumbra.jupa.local import job_of
from adumbra.linalg.splits import folds, parts

__all__ = [
    "ADVERSARIES",
    "READER",
    "STATEMENT",
    "WITHIN",
    "AdversaryReport",
    "Attackable",
    "ReleasedRows",
    "SeededCoins",
    "attack_jupa",
    "rehearsed",
    "train_and_score",
]

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str, int, int], None]

ADVERSARIES = ("svm", "forest", "boosting")
READER = "reader"
WITHIN = 0.03
"""A release holds if no adversary is further above chance than this."""
STATEMENT = (
    "Guesses of the privacy class are averaged over its classes, as if all were equally likely. They are a lower bound "
    "on what can be learnt from the release: an adversary can show a leak, never prove that there is none."
)

_SEED = b"adversaries"
_CHOOSE_ON, _LEARN_FROM = 1500, 6000
"""Records on which a support vector machine's options are compared, and on which it is then trained."""
# (C, gamma times the number of columns): a smooth boundary, a firm one, and one that sees narrow islands
_ALL = ((0.5, 0.25), (0.5, 1.0), (0.5, 8.0), (10.0, 0.25), (10.0, 1.0), (10.0, 8.0))
_FEW = ((1.0, 1.0), (10.0, 1.0), (10.0, 8.0))
_ONE = ((2.0, 1.0),)


class SeededCoins:
    """Repeatable coins, for simulations only: whoever knows the seed can undo what they hid.

    >>> SeededCoins(1).below(6, 3).tolist() == SeededCoins(1).below(6, 3).tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def below(self, sides: int, size: int) -> Integers:
        """`size` independent whole numbers, each of 0 .. sides - 1 equally likely."""
        return self._generator.integers(0, sides, size, dtype=np.int64)

    def uniform(self, size: int) -> Reals:
        """`size` independent numbers in [0, 1), of 53 bits."""
        return self._generator.random(size)


class ReleasedRows(Protocol):
    """What an adversary sees of a release, and which records it came from."""

    @property
    def rows(self) -> Reals:
        """One row for every record that was released."""

    @property
    def kept(self) -> Integers:
        """Positions of those records."""

    @property
    def not_reached(self) -> int:
        """Records that the fine step could not bring to their target label."""


class Attackable(Protocol):
    """What of a fitted model an adversary runs: all of it is public."""

    @property
    def recipe(self) -> Any:
        """Its options; `release` names the kind of release."""

    def labels_of(self, frame: pl.DataFrame, which: Literal["utility", "privacy"], /) -> Integers:
        """The class of every record."""

    def unperturbed(self, frame: pl.DataFrame, /) -> Reals:
        """What a service trains on that never saw the release."""

    def release_rows(self, frame: pl.DataFrame, coins: CoinsLike, /) -> ReleasedRows:
        """One release of these records."""


@dataclass(frozen=True)
class AdversaryReport:
    """Shares of right answers over the records that were released; NaN where none was.

    Guesses of the privacy class are counted class by class and averaged over the classes, as if all were equally
    likely: a rare class that can be read off is not hidden by the frequent one that everybody guesses. `chance` is then
    one over the number of classes among ALL records of the owner, so that a release that leaves out the records of some
    classes is not excused by what it left.

    Exact counts over the records that were attacked: where those are private, the report is the owner's own.
    """

    release: str
    chance: float
    utility: float
    """A service that was trained on unperturbed records (support vector machine)."""
    retrained: float
    """A service that was trained on simulated releases (forest)."""
    papers: float
    """The papers' adversary: a support vector machine trained on unperturbed records."""
    adaptive: dict[str, float]
    """Adversaries trained on releases that they simulated."""
    worst: float
    """The highest of the adaptive ones. Taking the highest on the records that judge it adds about a point."""
    standard_error: float
    """Of `worst`, from the number of records alone."""
    not_reached: float
    """Share of the records that the fine step could not bring to their target label."""
    records: int
    """Released ones that were attacked."""
    hits: dict[str, list[tuple[int, int]]] = field(default_factory=dict, repr=False)
    """Of every adaptive adversary: for each privacy class, how many records it guessed and how many there were."""

    @property
    def strongest(self) -> str:
        """The adversary that found most; empty where nothing was released."""
        return max(self.adaptive, key=self.adaptive.__getitem__) if self.records else ""

    @property
    def margin(self) -> float:
        """How far the worst adversary is above chance."""
        return self.worst - self.chance

    def holds(self, within: float = WITHIN) -> bool:
        """Whether no adversary tried is more than `within` above chance. False where nothing was released."""
        return self.margin <= within + 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, None for what could not be measured, with the statement of what they mean."""
        return {
            **_plain(asdict(self)),
            "strongest": self.strongest,
            "margin": _plain(self.margin),
            "holds": self.holds(),
            "statement": STATEMENT,
        }


def attack_jupa(
    model: Attackable,
    adversary: pl.DataFrame,
    test: pl.DataFrame,
    *,
    coins: CoinsLike | None = None,
    repeats: int = 2,
    quick: bool = False,
    progress: Progress | None = None,
    trained: dict[bytes, Any] | None = None,
) -> AdversaryReport:
    """Attack one release of the records of `test` with what can be learnt from the records of `adversary`.

    Both tables hold the utility and the privacy target; they share no records with each other or with what the model
    was fitted on, or the result says nothing about other owners. A record without a known label of both is refused.
    The adversary releases its own records `repeats` times (once, if the release has no chance in it) and learns from
    the outcome. A model fitted to the same rows may be shared between attacks through `trained`. The coins are
    repeatable unless given, so the same attack gives the same numbers; a release that goes through the noise meter
    has noise of its own.
    """
    at_least(1, "simulate at least one release", repeats=repeats)
    coins = SeededCoins(0) if coins is None else coins
    trained = {} if trained is None else trained
    step = _steps(progress, 5 + len(ADVERSARIES))
    if not len(adversary) or not len(test):
        raise InputError("records to learn from and records to attack", "none", "give labelled records")
    own_u, own_s = model.labels_of(adversary, "utility"), model.labels_of(adversary, "privacy")
    test_u, test_s = model.labels_of(test, "utility"), model.labels_of(test, "privacy")

    step("simulating releases")
    simulated, sources = _simulated(model, adversary, coins, repeats)
    step("releasing the records under attack")
    released = _released(model, test, coins)
    rows, kept = np.asarray(released.rows, dtype=np.float64), np.asarray(released.kept, dtype=np.int64)
    chance = 1.0 / len(np.unique(test_s))
    missed = released.not_reached / len(test_s)
    kind = str(model.recipe.release)
    if not len(rows) or not len(simulated):
        nothing = dict.fromkeys(ADVERSARIES, math.nan)
        return AdversaryReport(
            kind, chance, math.nan, math.nan, math.nan, nothing, math.nan, math.nan, missed, len(rows)
        )

    plain = np.asarray(model.unperturbed(adversary), dtype=np.float64)
    step("training the service")
    utility = _accuracy(_shared(trained, plain, own_u, quick).predict(rows), test_u[kept])
    step("training the papers' adversary")
    papers = _mean_recall(_hits(_shared(trained, plain, own_s, quick, balanced=True).predict(rows), test_s[kept]))
    guesses: dict[str, Integers] = {}
    for name in ADVERSARIES:
        step(f"training the adaptive adversary: {name}")
        guesses[name] = _trained(name, simulated, own_s[sources], sources, quick, balanced=True).predict(rows)
    guesses |= _reader(model, simulated, own_s[sources], rows)
    hits = {name: _hits(guess, test_s[kept]) for name, guess in guesses.items()}
    adaptive = {name: _mean_recall(found) for name, found in hits.items()}
    step("training the service on simulated releases")
    retrained = train_and_score(simulated, own_u[sources], rows, test_u[kept], ("forest",), quick, groups=sources)
    worst = max(adaptive.values())
    error = _standard_error(hits[max(adaptive, key=adaptive.__getitem__)])
    return AdversaryReport(
        kind, chance, utility, retrained["forest"], papers, adaptive, worst, error, missed, len(rows), hits
    )


def train_and_score(
    za: Reals,
    sa: NDArray[np.integer],
    zt: Reals,
    st: NDArray[np.integer],
    names: Sequence[str] = ADVERSARIES,
    quick: bool = False,
    *,
    groups: NDArray[np.integer] | None = None,
) -> dict[str, float]:
    """Accuracy on (zt, st) of models trained on (za, sa): the same every time; NaN where there is nothing to test.

    `groups` says which record a training row came from: releases of one record stay on one side when options are
    compared, or the option that remembers records would look best. One class in `sa` gives a constant answer.
    """
    for name in names:
        one_of(ADVERSARIES, adversary=name)
    rows, fresh = np.asarray(za, dtype=np.float64), np.asarray(zt, dtype=np.float64)
    labels, truth = np.asarray(sa, dtype=np.int64), np.asarray(st, dtype=np.int64)
    if not len(rows):
        raise InputError("records to learn from", "none", "give the adversary labelled records")
    width = rows.shape[1:]
    if len(width) != 1 or fresh.shape[1:] != width or len(rows) != len(labels) or len(fresh) != len(truth):
        raise InputError(
            "rows of one width, with a label each",
            f"{rows.shape} with {len(labels)} labels, {fresh.shape} with {len(truth)}",
            "release both with one model",
        )
    if not len(fresh):
        return dict.fromkeys(names, math.nan)
    origin = np.arange(len(rows)) if groups is None else np.asarray(groups, dtype=np.int64)
    return {name: _accuracy(_trained(name, rows, labels, origin, quick).predict(fresh), truth) for name in names}


def _hits(guesses: NDArray[Any], truth: Integers) -> list[tuple[int, int]]:
    """For each class among the records: guessed rightly, and there."""
    return [(int((guesses[truth == s] == s).sum()), int((truth == s).sum())) for s in np.unique(truth)]


def _mean_recall(hits: Sequence[tuple[int, int]]) -> float:
    return float(np.mean([right / there for right, there in hits])) if hits else math.nan


def _standard_error(hits: Sequence[tuple[int, int]]) -> float:
    each = [right / there * (1.0 - right / there) / there for right, there in hits]
    return math.sqrt(sum(each)) / len(each)


def _reader(model: Attackable, simulated: Reals, own: Integers, rows: Reals) -> dict[str, Integers]:
    """The adversary who reads off a row what it was made from, and guesses the class that most often gives it.

    Pools and bins are public, so nobody has to learn to tell them apart; learners on few records sometimes cannot.
    """
    told_by = getattr(model, "told_by", None)  # other systems under attack may have nothing of the kind
    seen, met = (None, None) if told_by is None else (told_by(simulated), told_by(rows))
    if seen is None or met is None:
        return {}
    table = np.zeros((max(int(seen.max()), int(met.max())) + 1, int(own.max()) + 1))
    np.add.at(table, (seen, own), 1.0)
    often = table / np.maximum(table.sum(axis=0), 1.0)  # of a class's records; all classes count alike
    return {READER: often.argmax(axis=1)[met].astype(np.int64)}


@dataclass(frozen=True)
class _Noisy:
    """A simulated release of every record."""

    rows: Reals
    kept: Integers
    not_reached: int = 0


def _released(model: Attackable, frame: pl.DataFrame, coins: CoinsLike) -> ReleasedRows:
    """One release; noise through the meter is rehearsed, which charges nothing and is for labelled records only."""
    if model.recipe.release != "laplace":
        return model.release_rows(frame, coins)
    plain = np.asarray(model.unperturbed(frame), dtype=np.float64)
    names = tuple(f"z{i + 1}" for i in range(plain.shape[1]))
    noisy = rehearsed(job_of(plain, names, model.recipe.clip, model.recipe.epsilon, "records"))
    return _Noisy(noisy, np.arange(len(noisy)))


def rehearsed(job: pipeline.Job) -> Reals:
    """What a release would hold; charges and writes nothing."""
    (draft,) = pipeline.rehearse(job, lambda meter: meter)
    return np.concatenate(list(draft.batches))


def _simulated(model: Attackable, own: pl.DataFrame, coins: CoinsLike, repeats: int) -> tuple[Reals, Integers]:
    """Releases of the adversary's own records, and where each row came from."""
    rows: list[Reals] = []
    sources: list[Integers] = []
    for _ in range(repeats):
        released = _released(model, own, coins)
        rows.append(np.asarray(released.rows, dtype=np.float64))
        sources.append(np.asarray(released.kept, dtype=np.int64))
        if len(rows) == 2 and np.array_equal(rows[0], rows[1]) and np.array_equal(sources[0], sources[1]):
            return rows[0], sources[0]  # no chance in it: further copies teach nothing and cost time
    return np.concatenate(rows), np.concatenate(sources)


def _shared(trained: dict[bytes, Any], rows: Reals, labels: Integers, quick: bool, *, balanced: bool = False) -> Any:
    """A support vector machine on these rows, trained once however many releases it meets."""
    key = hashlib.sha256(
        b"%d %d %d %d\0" % (*rows.shape, quick, balanced) + np.ascontiguousarray(rows).tobytes() + labels.tobytes()
    ).digest()
    if key not in trained:
        trained[key] = _trained("svm", rows, labels, np.arange(len(rows)), quick, balanced=balanced)
    return trained[key]


def _trained(name: str, rows: Reals, labels: Integers, groups: Integers, quick: bool, *, balanced: bool = False) -> Any:
    """A model of these rows; `balanced`: all classes count alike, however many rows they have."""
    weight = "balanced" if balanced else None
    present = np.unique(labels)
    if len(present) < 2:
        return _Constant(int(present[0]))
    with threadpoolctl.threadpool_limits(1):  # threads change the order of sums, and so the last digits
        if name == "svm":
            return _svm(rows, labels, groups, quick, weight)
        if name == "forest":
            return _forest(weight).fit(rows, labels)
        return _boosting(len(present), rows.shape[1], quick, weight).fit(rows, labels)


@dataclass(frozen=True)
class _Constant:
    answer: int

    def predict(self, rows: Reals) -> Integers:
        return np.full(len(rows), self.answer, dtype=np.int64)


def _accuracy(guesses: NDArray[Any], labels: Integers) -> float:
    return float(np.mean(guesses == labels)) if len(labels) else math.nan


def _forest(weight: str | None) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=150, min_samples_leaf=4, random_state=0, n_jobs=1, class_weight=weight)


def _boosting(classes: int, columns: int, quick: bool, weight: str | None) -> Any:
    """One tree for every class and round, so fewer rounds where there are many; wide rows show some columns a split."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rounds = 100 if classes == 2 else max(20, 200 // classes)
    return HistGradientBoostingClassifier(
        max_iter=rounds // 2 if quick else rounds,
        max_leaf_nodes=15,
        max_features=min(1.0, 50.0 / columns),
        early_stopping=False,
        random_state=0,
        class_weight=weight,
    )


def _svm(rows: Reals, labels: Integers, groups: Integers, quick: bool, weight: str | None) -> Any:
    """An RBF machine on standardised rows; its options are compared on folds that keep a record's releases together."""
    options = _ONE if quick else _ALL if len(rows) <= _CHOOSE_ON else _FEW
    some = _subsample(labels, _CHOOSE_ON)
    best = options[0]
    if len(options) > 1:
        z, s = rows[some], labels[some]
        _, first, record = np.unique(groups[some], return_index=True, return_inverse=True)
        fold = folds(_SEED, s[first], 3)[record]
        right = [_cross_validated(z, s, fold, *option, weight) for option in options]
        best = options[int(np.argmax(right))]
    most = _subsample(labels, _LEARN_FROM)
    return _machine(rows.shape[1], *best, weight).fit(rows[most], labels[most])


def _subsample(labels: Integers, most: int) -> Integers:
    """Positions of at most about `most` rows, every class by its share."""
    if len(labels) <= most:
        return np.arange(len(labels))
    return parts(_SEED, labels, (most, len(labels) - most))[0]


def _cross_validated(
    rows: Reals, labels: Integers, fold: Integers, firm: float, narrow: float, weight: str | None
) -> float:
    """Share of right answers over all folds; where classes count alike, averaged over them."""
    guesses = np.empty(len(labels), dtype=np.int64)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        if len(np.unique(labels[~held])) < 2:
            guesses[held] = labels[~held][0] if (~held).any() else -1
            continue
        model = _machine(rows.shape[1], firm, narrow, weight).fit(rows[~held], labels[~held])
        guesses[held] = model.predict(rows[held])
    return _accuracy(guesses, labels) if weight is None else _mean_recall(_hits(guesses, labels))


def _machine(columns: int, firm: float, narrow: float, weight: str | None) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(C=firm, gamma=narrow / columns, cache_size=500, class_weight=weight))


def _steps(progress: Progress | None, total: int) -> Callable[[str], None]:
    """Announce one step after the other."""
    done = 0

    def step(words: str) -> None:
        nonlocal done
        if progress is not None:
            progress(words, done, total)
        done += 1

    return step


def _plain(value: Any) -> Any:
    """NaN, which JSON lacks, as None."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
