"""Teach the classifiers of `scoring.py` on public rows: scikit-learn learns, cross-validation chooses.

Scores of rows that a model was taught on are too good to be compared with those of fresh rows. `fit_folds` and
`out_of_fold` therefore score every row out of fold, by a model that was taught and tuned without its fold (Stone 1974,
"Cross-validatory choice and assessment of statistical predictions").
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least, one_of
from adumbra.jupa.scoring import (
    MODELS,
    BoostingModel,
    KernelModel,
    LinearModel,
    PublicModel,
    check_finite,
    inside,
    outputs_of,
)
from adumbra.numerics.splits import folds as split
from adumbra.numerics.splits import public_generator

__all__ = ["exported", "fit_folds", "fit_public_model", "out_of_fold"]

Setting = dict[str, float]

_COMPARED = 3000  # rows on which settings and kinds are compared
_FOLDS = 3
_RARE = 20  # rows of a class that a sample keeps, whatever its share
_MOST_ROWS = {"linear": 200_000, "kernel": 10_000, "boosting": 200_000}  # more are sampled
_KERNEL_WORK = 1e11  # rows^2 x columns: `auto` leaves the kernel out above it, half a minute or more
_BOOSTING_WORK = 3e8  # rows x sqrt(columns) x trees: the same, about a minute
_LEAST_SPREAD = 1e-12  # a column that varies less is constant

_SETTINGS: dict[str, tuple[Setting, ...]] = {  # the smoother ones first: they win a tie
    "linear": ({"C": 0.01}, {"C": 0.1}, {"C": 1.0}),
    "kernel": tuple({"C": c, "spread": g} for c in (1.0, 10.0) for g in (0.1, 0.3, 1.0)),
    "boosting": ({},),
}
_UNTRIED: dict[str, Setting] = {"linear": {"C": 0.1}, "kernel": {"C": 1.0, "spread": 0.3}, "boosting": {}}


def fit_public_model(kind: str, rows: ArrayLike, labels: ArrayLike, classes: int, *, seed: bytes) -> PublicModel:
    """Teach a model of this `kind` on public `rows` (n, d) with `labels` 0 .. `classes` - 1; `seed` decides folds.

    `linear` and `kernel` are tuned by 3-fold cross-validation on at most 3,000 rows (log-loss, errors); `boosting` has
    fixed settings. `auto` takes the kind with most right in a second one, the earlier of equals, and leaves out what
    would be slow: by a rule on sizes, not by the clock, so that it chooses the same again. The kernel is taught on
    at most 10,000 rows, the others on 200,000; a sample keeps the classes' shares. Two classes need rows. Where not
    even two classes have two rows nothing can be compared: settings are the middle ones and `auto` is linear.

    >>> rows = np.array([[0.0], [0.2], [0.1], [1.0], [1.2], [1.1]])
    >>> model = fit_public_model("linear", rows, [0, 0, 0, 1, 1, 1], 2, seed=b"s")
    >>> model.predict([[0.0], [1.0]]).tolist()
    [0, 1]
    """
    one_of(("auto", *MODELS), kind=kind)
    at_least(2, "name two classes or more", classes=classes)
    table, answers = _checked(rows, labels, classes)
    mean, scale = _standard(table)
    table = (table - mean) / scale
    sizes = np.bincount(answers, minlength=classes)
    comparable = int((sizes >= 2).sum()) >= 2  # then every fold leaves two classes to learn from
    accuracy = math.nan
    if not comparable:
        chosen = "linear" if kind == "auto" else kind
        setting = _UNTRIED[chosen]
    elif kind == "auto":
        names = [name for name in MODELS if _affordable(name, table, answers)]
        settings = [_tuned(name, table, answers, seed) for name in names]
        shares = [_validated(*pair, table, answers, seed) for pair in zip(names, settings, strict=True)]
        best = int(np.argmax(shares))
        chosen, setting, accuracy = names[best], settings[best], shares[best]
    else:
        chosen, setting = kind, _tuned(kind, table, answers, seed)
    table, answers = _sample(table, answers, _MOST_ROWS[chosen], seed)
    estimator = _taught(chosen, setting, table, answers, seed)
    return exported(estimator, classes, mean=mean, scale=scale, accuracy=accuracy)


def fit_folds(
    kind: str, rows: ArrayLike, labels: ArrayLike, classes: int, folds: NDArray[np.integer], *, seed: bytes
) -> list[PublicModel]:
    """A model for each number in `folds`, ascending, taught and tuned without the rows of that fold.

    `kind`, `rows`, `labels`, `classes` and `seed` as in `fit_public_model`.

    Guarantee: not even the kind that `auto` settles on, nor a mean, depends on the rows left out. A row of the fold and
    a fresh one of the same source are therefore exchangeable to its model. Scores of two folds may differ in scale.
    """
    table, answers = _checked(rows, labels, classes)
    numbers = _fold_numbers(folds, len(table))
    return [
        fit_public_model(kind, table[folds != n], answers[folds != n], classes, seed=seed + f"/fold {n}".encode())
        for n in numbers
    ]


def out_of_fold(
    kind: str, rows: ArrayLike, labels: ArrayLike, classes: int, folds: NDArray[np.integer], *, seed: bytes
) -> Reals:
    """Scores (n, classes), each row's from the model of `fit_folds` that saw nothing of its fold.

    `kind`, `rows`, `labels`, `classes`, `folds` and `seed` as in `fit_folds`.
    """
    table, answers = _checked(rows, labels, classes)
    out = np.empty((len(table), classes))
    models = fit_folds(kind, table, answers, classes, folds, seed=seed)
    for number, model in zip(_fold_numbers(folds, len(table)), models, strict=True):
        out[folds == number] = model.scores(table[folds == number])
    return out


def exported(
    estimator: Any,
    classes: int,
    *,
    mean: Reals | None = None,
    scale: Reals | None = None,
    accuracy: float = math.nan,
) -> PublicModel:
    """What a fitted scikit-learn `estimator` learnt, as a `PublicModel` of `accuracy` (NaN: not measured).

    Takes a `LogisticRegression` (lbfgs), an `SVC` with kernel="rbf" and gamma a number, or a
    `GradientBoostingClassifier` with its default start and loss, fitted on labels among 0 .. classes - 1. `mean` and
    `scale` are those its rows were standardised with. Guarantee: predictions are the estimator's (an `SVC`'s with
    break_ties=True); scores are its decision function, of two classes halved both ways.
    """
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    columns = int(estimator.n_features_in_)
    common: dict[str, Any] = {
        "classes": classes,
        "present": np.asarray(estimator.classes_, dtype=np.int64),
        "mean": np.zeros(columns) if mean is None else mean,
        "scale": np.ones(columns) if scale is None else scale,
        "accuracy": accuracy,
    }
    if isinstance(estimator, LogisticRegression):
        weights = np.array(estimator.coef_.T, dtype=np.float64, order="C")
        return LinearModel(**common, weights=weights, constants=estimator.intercept_.astype(np.float64))
    if isinstance(estimator, SVC) and estimator.kernel == "rbf" and not isinstance(estimator.gamma, str):
        return KernelModel(**common, **_support_vectors(estimator))
    if isinstance(estimator, GradientBoostingClassifier) and estimator.init is None and estimator.loss == "log_loss":
        return BoostingModel(**common, **_trees(estimator))
    raise InputError(
        "a logistic regression, an SVC (rbf, gamma a number) or a GradientBoostingClassifier",
        type(estimator).__name__,
        "fit one of those, or use fit_public_model",
    )


# ---- taking estimators apart


def _support_vectors(estimator: Any) -> dict[str, Any]:
    # scikit-learn turns the signs of a single pair round, so that positive means the second class; here it is the first
    sign = -1.0 if len(estimator.classes_) == 2 else 1.0
    return {
        "gamma": np.array(float(estimator.gamma)),
        "vectors": np.ascontiguousarray(estimator.support_vectors_, dtype=np.float64),
        "owner": np.repeat(np.arange(len(estimator.classes_)), estimator.n_support_).astype(np.int64),
        "weights": np.ascontiguousarray(sign * estimator.dual_coef_.T),
        "constants": sign * estimator.intercept_,
    }


def _trees(estimator: Any) -> dict[str, Any]:
    trees = [one.tree_ for one in estimator.estimators_.ravel()]
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    shares = estimator.init_.class_prior_

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    def moved(name: str) -> Integers:
        children = [getattr(tree, name) for tree in trees]
        return np.concatenate(
            [np.where(part < 0, -1, part + at) for part, at in zip(children, starts, strict=True)]
        ).astype(np.int64)

    logs = np.log(shares)
    return {
        "constants": logs[1:] - np.log1p(-shares[1:]) if len(shares) == 2 else logs - logs.mean(),
        "roots": starts.reshape(estimator.estimators_.shape).astype(np.int64),
        "feature": joined("feature").astype(np.int64),
        "threshold": joined("threshold").astype(np.float64),
        "left": moved("children_left"),
        "right": moved("children_right"),
        "value": estimator.learning_rate * joined("value")[:, 0, 0],
    }


# ---- teaching


def _taught(kind: str, setting: Setting, rows: Reals, labels: Integers, seed: bytes) -> Any:
    """A fitted scikit-learn estimator, for standardised rows."""
    # Imported here: scikit-learn takes a second, and applying a model does without.
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    estimator: Any
    if kind == "linear":
        estimator = LogisticRegression(C=setting["C"], max_iter=300)
    elif kind == "kernel":
        varying = max(1, int((rows.var(axis=0) > _LEAST_SPREAD).sum()))
        estimator = SVC(C=setting["C"], gamma=setting["spread"] / varying, break_ties=True, cache_size=500)
    else:
        stages = _stages(labels)
        estimator = GradientBoostingClassifier(
            n_estimators=stages,
            learning_rate=10.0 / stages,
            max_depth=4,
            subsample=0.5,
            max_features="sqrt",
            min_samples_leaf=5,
            random_state=int(public_generator(seed, "boosting").integers(1 << 31)),
        )
    with warnings.catch_warnings():  # a fit stopped after 300 steps is still a fit, and validation measures it
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(rows, labels)


def _stages(labels: Integers) -> int:
    """Fewer where each stage has a tree for every class: 200 for two classes, 100 for six, never below 40."""
    return int(np.clip(600 // len(np.unique(labels)), 40, 200))


def _affordable(kind: str, rows: Reals, labels: Integers) -> bool:
    """Whether `auto` tries a kind: linear always, the others up to a fixed amount of work."""
    count, columns = rows.shape
    if kind == "kernel":
        return bool(count <= _MOST_ROWS[kind] and count**2 * columns <= _KERNEL_WORK)
    if kind == "boosting":
        trees = _stages(labels) * outputs_of(np.unique(labels))
        return bool(min(count, _MOST_ROWS[kind]) * math.sqrt(columns) * trees <= _BOOSTING_WORK)
    return True


def _tuned(kind: str, rows: Reals, labels: Integers, seed: bytes) -> Setting:
    """The best setting by cross-validation."""
    settings = _SETTINGS[kind]
    if len(settings) == 1:
        return settings[0]
    costs = []
    for setting in settings:
        scores, answers = _crossed(kind, setting, rows, labels, seed + b"/tuning")
        # log-loss tells settings apart where a few hundred rows make errors equal; votes have none
        costs.append(1.0 - _right(scores, answers) if kind == "kernel" else _log_loss(scores, answers))
    return settings[int(np.argmin(costs))]


def _validated(kind: str, setting: Setting, rows: Reals, labels: Integers, seed: bytes) -> float:
    """The share a setting gets right, on other folds than it was tuned on: many settings are then no advantage."""
    return _right(*_crossed(kind, setting, rows, labels, seed + b"/comparing"))


def _crossed(kind: str, setting: Setting, rows: Reals, labels: Integers, seed: bytes) -> tuple[Reals, Integers]:
    """Scores of at most 3,000 rows, each from a model taught without its fold, and the labels they should give."""
    rows, labels = _sample(rows, labels, _COMPARED, seed)
    kept, answers = np.unique(labels, return_inverse=True)
    numbers = split(seed, answers, _FOLDS)
    scores = np.empty((len(rows), len(kept)))
    for number in range(_FOLDS):
        inside = numbers != number
        model = exported(_taught(kind, setting, rows[inside], answers[inside], seed), len(kept))
        scores[~inside] = model.scores(rows[~inside])
    return scores, answers


def _right(scores: Reals, labels: Integers) -> float:
    return float(np.mean(np.argmax(scores, axis=1) == labels))


def _log_loss(scores: Reals, labels: Integers) -> float:
    top = scores.max(axis=1)
    total = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    return float(np.mean(total - scores[np.arange(len(labels)), labels]))


def _sample(rows: Reals, labels: Integers, most: int, seed: bytes) -> tuple[Reals, Integers]:
    """At most about `most` rows: of every class its share, but 20 of a rare one, or all it has."""
    if len(rows) <= most:
        return rows, labels
    generator = public_generator(seed, f"sample of {most}")
    kept: list[Integers] = []
    for label in np.unique(labels):
        places = generator.permutation(np.flatnonzero(labels == label))
        kept.append(places[: max(_RARE, round(most * len(places) / len(rows)))])
    sample = np.sort(np.concatenate(kept))
    return rows[sample], labels[sample]


def _standard(rows: Reals) -> tuple[Reals, Reals]:
    scale = rows.std(axis=0)
    return rows.mean(axis=0), np.where(scale > _LEAST_SPREAD, scale, 1.0)


# ---- checks


def _checked(rows: ArrayLike, labels: ArrayLike, classes: int) -> tuple[Reals, Integers]:
    try:
        table = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("public rows of numbers", "something else", "encode them first") from None
    if table.ndim != 2 or not table.shape[1]:
        raise InputError("public rows of numbers, (n, d)", f"shape {table.shape}", "give one row for each record")
    check_finite(table)
    answers = _labels(labels, len(table), classes)
    if len(np.unique(answers)) < 2:
        raise InputError("public rows of two classes or more", "rows of fewer", "choose a target that varies")
    return table, answers


def _labels(labels: ArrayLike, count: int, classes: int) -> Integers:
    given = np.asarray(labels)
    if given.shape != (count,) or given.dtype.kind not in "iu" or not inside(given, 0, classes):
        got = f"{given.dtype} of shape {given.shape}"
        raise InputError(f"{count} whole numbers from 0 to {classes - 1} as labels", got, "give each row its class")
    return given.astype(np.int64)


def _fold_numbers(folds: NDArray[np.integer], count: int) -> list[int]:
    numbers = np.unique(folds)
    if np.shape(folds) != (count,) or len(numbers) < 2:
        got = f"{len(numbers)} folds for {np.size(folds)} rows"
        raise InputError(f"a fold for each of {count} rows, two folds or more", got, "split the rows into folds")
    return [int(number) for number in numbers]
