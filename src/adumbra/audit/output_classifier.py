"""A classifier of a mechanism's outputs: a score for outputs whose likelihood nobody can write down."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from adumbra.common.errors import InputError
from adumbra.common.types import Reals

__all__ = ["OutputScore", "fitted", "outputs"]


_FEWEST = 30  # runs of each table without which no classifier is worth fitting
_BOOSTED_ROWS = 20_000  # boosting is the slow one, and learns little from more


def outputs(name: str, rows: ArrayLike) -> Reals:
    """Rows of outputs as finite numbers; refuses too few of them, and NaN."""
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or len(array) < _FEWEST or not array.shape[1]:
        remedy = "give one row of numbers for each run"
        raise InputError(f"at least {_FEWEST} rows of outputs as {name}", f"shape {array.shape}", remedy)
    if bool(np.isnan(array).any()):
        raise InputError(f"numbers as {name}", "NaN among them", "replace it by a number that no output has")
    return np.clip(array, -1e300, 1e300)


class _ScaledColumns:
    """Columns brought to [-1, 1] on the rows of the fit, so that squares of huge outputs do not overflow."""

    def __init__(self, rows: Reals) -> None:
        largest = np.abs(rows).max(axis=0)
        self.scale = np.where(largest > 0, largest, 1.0)

    def __call__(self, rows: Reals) -> Reals:
        with np.errstate(over="ignore"):
            return np.clip(rows / self.scale, -1e6, 1e6)


class OutputScore:
    """A fitted classifier as a score: larger says table `one`."""

    def __init__(self, estimator: Any, scaled: _ScaledColumns) -> None:
        self.estimator, self.scaled = estimator, scaled

    def __call__(self, rows: Reals) -> Reals:
        """A score for each row."""
        return np.asarray(self.estimator.decision_function(self.scaled(rows)), dtype=np.float64)


class _OneColumn:
    """The one number that tells the tables apart best: a leak by itself among many that are noise."""

    def fit(self, rows: Reals, answers: NDArray[np.int64]) -> None:
        ones = int(answers.sum())
        ranks = stats.rankdata(rows, axis=0)[answers == 1].sum(axis=0) - ones * (ones + 1) / 2
        area = ranks / (ones * (len(answers) - ones)) - 0.5
        self.column = int(np.argmax(np.abs(area)))
        self.sign = 1.0 if area[self.column] >= 0 else -1.0

    def decision_function(self, rows: Reals) -> Reals:
        return self.sign * rows[:, self.column]


def fitted(parts: list[Reals], seed: int) -> OutputScore:
    """The best of three models; `parts` are rows of `one` and `other` that no test will see, `seed` is boosting's."""
    # Imported here: scikit-learn takes a second, and the other bounds do without.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fits = [part[: -(len(part) // 4)] for part in parts]
    checks = [part[len(fit) :] for part, fit in zip(parts, fits, strict=True)]
    scaled = _ScaledColumns(np.concatenate(fits))
    choices: list[tuple[Any, int]] = [
        (_OneColumn(), len(max(fits, key=len))),
        (make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)), len(max(fits, key=len))),
        (
            HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed),
            _BOOSTED_ROWS // 2,
        ),
    ]
    best: tuple[float, OutputScore] | None = None
    for estimator, limit in choices:
        taught = [fit[:limit] for fit in fits]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model that has not converged is still a score
            estimator.fit(scaled(np.concatenate(taught)), np.repeat([1, 0], [len(part) for part in taught]))
        model = OutputScore(estimator, scaled)
        answers = np.repeat([1, 0], [len(part) for part in checks])
        quality = float(roc_auc_score(answers, model(np.concatenate(checks))))
        if best is None or quality > best[0]:
            best = quality, model
    assert best is not None
    return best[1]
