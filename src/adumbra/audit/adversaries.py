"""Adversaries of a utility-aware release: who trained on untouched records, and who runs the release itself.

The papers' adversary learns the privacy target from unperturbed records and meets the release unprepared. An adaptive
one knows the public algorithm, runs it on labelled records of its own and learns from what comes out; nothing stops a
real one from doing so. Both are reported side by side, and the highest accuracy among the adaptive ones counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.audit.adversary_models import (
    ADVERSARIES,
    accuracy,
    class_hits,
    mean_recall,
    shared_machine,
    trained_adversary,
)
from adumbra.common.errors import InputError
from adumbra.common.randomness import CoinsLike
from adumbra.common.types import Integers, Progress, Reals
from adumbra.common.validation import at_least, one_of
from adumbra.rehearsal import rehearse

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


READER = "reader"
WITHIN = 0.03
"""A release holds if no adversary is further above chance than this."""
STATEMENT = (
    "Guesses of the privacy class are averaged over its classes, as if all were equally likely. They are a lower bound "
    "on what can be learnt from the release: an adversary can show a leak, never prove that there is none."
)


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
    """Attack one release by `model` of the records of `test` with what can be learnt from those of `adversary`.

    Both tables hold the utility and the privacy target; they share no records with each other or with what the model
    was fitted on, or the result says nothing about other owners. A record without a known label of both is refused.
    The adversary releases its own records `repeats` times (once, if the release has no chance in it) and learns from
    the outcome. A model fitted to the same rows may be shared between attacks through `trained`. The `coins` are
    repeatable unless given, so the same attack gives the same numbers; a release that goes through the noise meter
    has noise of its own. `quick` trains smaller models; `progress(step, done, total)` is called before each.
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
        return _nothing_seen(kind, chance, missed, len(rows))
    plain = np.asarray(model.unperturbed(adversary), dtype=np.float64)
    step("training the service")
    utility = accuracy(shared_machine(trained, plain, own_u, quick).predict(rows), test_u[kept])
    step("training the papers' adversary")
    papers = mean_recall(
        class_hits(shared_machine(trained, plain, own_s, quick, balanced=True).predict(rows), test_s[kept])
    )
    own = _Simulations(simulated, sources, own_s[sources])
    hits = {name: class_hits(guess, test_s[kept]) for name, guess in _guesses(model, own, rows, quick, step).items()}
    adaptive = {name: mean_recall(found) for name, found in hits.items()}
    step("training the service on simulated releases")
    retrained = train_and_score(simulated, own_u[sources], rows, test_u[kept], ("forest",), quick, groups=sources)
    worst = max(adaptive.values())
    error = _standard_error(hits[max(adaptive, key=adaptive.__getitem__)])
    return AdversaryReport(
        kind, chance, utility, retrained["forest"], papers, adaptive, worst, error, missed, len(rows), hits
    )


def _nothing_seen(kind: str, chance: float, missed: float, records: int) -> AdversaryReport:
    nan = math.nan
    nothing = dict.fromkeys(ADVERSARIES, nan)
    return AdversaryReport(kind, chance, nan, nan, nan, nothing, nan, nan, missed, records)


@dataclass(frozen=True)
class _Simulations:
    """What an adaptive adversary learns from: released rows, which record each came from, and its privacy class."""

    rows: Reals
    sources: Integers
    labels: Integers


def _guesses(
    model: Attackable, own: _Simulations, rows: Reals, quick: bool, step: Callable[[str], None]
) -> dict[str, Integers]:
    """What each adaptive adversary guesses of the released rows."""
    out: dict[str, Integers] = {}
    for name in ADVERSARIES:
        step(f"training the adaptive adversary: {name}")
        out[name] = trained_adversary(name, own.rows, own.labels, own.sources, quick, balanced=True).predict(rows)
    return out | _reader(model, own.rows, own.labels, rows)


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
    """Accuracy on rows `zt` with labels `st` of models trained on `za` with `sa`; NaN where there is nothing to test.

    `names` are of `ADVERSARIES`, `quick` trains smaller ones, and all are the same every time.
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
    return {
        name: accuracy(trained_adversary(name, rows, labels, origin, quick).predict(fresh), truth) for name in names
    }


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
    often = table / np.maximum(table.sum(axis=0), 1.0)  # of a class's records; all classes weigh equally
    return {READER: often.argmax(axis=1)[met].astype(np.int64)}


@dataclass(frozen=True)
class _Noisy:
    """A simulated release of every record."""

    rows: Reals
    kept: Integers
    not_reached: int = 0


def _released(model: Attackable, frame: pl.DataFrame, coins: CoinsLike) -> ReleasedRows:
    """One release; noise through the meter is rehearsed, which charges nothing and is for labelled records only."""
    charged_job = getattr(model, "charged_job", None)  # other systems under attack may have nothing of the kind
    job = None if charged_job is None else charged_job(frame)
    if job is None:
        return model.release_rows(frame, coins)
    noisy = rehearsed(job)
    return _Noisy(noisy, np.arange(len(noisy)))


def rehearsed(job: pipeline.Job) -> Reals:
    """What a release would hold; charges and writes nothing."""
    (draft,) = rehearse(job, lambda meter: meter)
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
