"""The classifiers that adversaries and services train: an RBF support vector machine, a forest, boosted trees.

Everything is seeded and on one thread, so that the same records give the same numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import threadpoolctl  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.numerics.splits import folds, parts

__all__ = ["ADVERSARIES", "accuracy", "class_hits", "mean_recall", "shared_machine", "trained_adversary"]


ADVERSARIES = ("svm", "forest", "boosting")
_SEED = b"adversaries"
_CHOOSE_ON, _LEARN_FROM = 1500, 6000
"""Records on which a support vector machine's options are compared, and on which it is then trained."""
# (C, gamma times the number of columns): a smooth boundary, a firm one, and one that sees narrow islands
_ALL = ((0.5, 0.25), (0.5, 1.0), (0.5, 8.0), (10.0, 0.25), (10.0, 1.0), (10.0, 8.0))
_FEW = ((1.0, 1.0), (10.0, 1.0), (10.0, 8.0))
_ONE = ((2.0, 1.0),)


def class_hits(guesses: NDArray[Any], truth: Integers) -> list[tuple[int, int]]:
    """For each class among the records: guessed rightly, and there."""
    return [(int((guesses[truth == s] == s).sum()), int((truth == s).sum())) for s in np.unique(truth)]


def mean_recall(hits: Sequence[tuple[int, int]]) -> float:
    """Share of right guesses, averaged over the classes."""
    return float(np.mean([right / there for right, there in hits])) if hits else math.nan


def shared_machine(
    trained: dict[bytes, Any], rows: Reals, labels: Integers, quick: bool, *, balanced: bool = False
) -> Any:
    """A support vector machine on these rows, trained once however many releases it is used against.

    `trained` holds the machines of earlier calls and gets this one. `rows` are features of records, `labels` their
    classes from 0. `quick` compares fewer options; `balanced` weighs all classes equally, however many rows they have.
    """
    key = hashlib.sha256(
        b"%d %d %d %d\0" % (*rows.shape, quick, balanced) + np.ascontiguousarray(rows).tobytes() + labels.tobytes()
    ).digest()
    if key not in trained:
        trained[key] = trained_adversary("svm", rows, labels, np.arange(len(rows)), quick, balanced=balanced)
    return trained[key]


def trained_adversary(
    name: str, rows: Reals, labels: Integers, groups: Integers, quick: bool, *, balanced: bool = False
) -> Any:
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


def accuracy(guesses: NDArray[Any], labels: Integers) -> float:
    """Share of right guesses."""
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
    """Share of right answers over all folds; where classes weigh equally, averaged over them."""
    guesses = np.empty(len(labels), dtype=np.int64)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        if len(np.unique(labels[~held])) < 2:
            guesses[held] = labels[~held][0] if (~held).any() else -1
            continue
        model = _machine(rows.shape[1], firm, narrow, weight).fit(rows[~held], labels[~held])
        guesses[held] = model.predict(rows[held])
    return accuracy(guesses, labels) if weight is None else mean_recall(class_hits(guesses, labels))


def _machine(columns: int, firm: float, narrow: float, weight: str | None) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(C=firm, gamma=narrow / columns, cache_size=500, class_weight=weight))
