"""Classifiers taught on public rows and kept as plain arrays.

Somebody who applies a model to private records must be able to read it: there is no pickle, nothing that could run,
only numbers whose use is written out here. scikit-learn does the teaching; `exported` takes what it learnt out of its
documented attributes, and from there on scikit-learn is not needed. Three kinds:

- `linear`: multinomial logistic regression. Scores are log-odds.
- `kernel`: support vectors under exp(-gamma |x - y|^2). Scores of two classes are half the decision value each way; of
  more, the votes of all pairs, with the sum of their confidences inside (-1/3, 1/3) to part equal votes.
- `boosting`: small trees added up. Scores are log-odds.

Guarantees: the same rows, labels and seed give the same model on the same machine. The scores of a row depend on that
row and the model alone, to the last bit, whatever rows stand beside it. Nothing here is private or protects anything:
a model must never be taught on private rows.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adumbra.core.errors import InputError
from adumbra.core.validation import at_least, one_of
from adumbra.linalg.rows import compiled
from adumbra.linalg.splits import folds as split
from adumbra.linalg.splits import public_generator

__all__ = ["MODELS", "PublicModel", "exported", "fit_folds", "fit_public_model", "lead", "out_of_fold"]

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Setting = dict[str, float]

MODELS = ("linear", "kernel", "boosting")

_BLOCK = 512  # rows scored at a time
_COMPARED = 3000  # rows on which settings and kinds are compared
_FOLDS = 3
_RARE = 20  # rows of a class that a sample keeps, whatever its share
_MOST_ROWS = {"linear": 200_000, "kernel": 10_000, "boosting": 200_000}  # more are sampled
_KERNEL_WORK = 1e11  # rows^2 x columns: `auto` leaves the kernel out above it, half a minute or more
_BOOSTING_WORK = 3e8  # rows x sqrt(columns) x trees: the same, about a minute
_FARTHEST = 1e30  # standard deviations from the mean; what lies beyond counts as this, so that no score is NaN
_LEAST_SPREAD = 1e-12  # a column that varies less is constant

_SETTINGS: dict[str, tuple[Setting, ...]] = {  # the smoother ones first: they win a tie
    "linear": ({"C": 0.01}, {"C": 0.1}, {"C": 1.0}),
    "kernel": tuple({"C": c, "spread": g} for c in (1.0, 10.0) for g in (0.1, 0.3, 1.0)),
    "boosting": ({},),
}
_UNTRIED: dict[str, Setting] = {"linear": {"C": 0.1}, "kernel": {"C": 1.0, "spread": 0.3}, "boosting": {}}


@dataclass(frozen=True, eq=False)
class PublicModel(ABC):
    """A classifier for labels 0 .. classes - 1, made of arrays. `fit_public_model` and `from_arrays` make them."""

    kind: ClassVar[str]
    learnt: ClassVar[dict[str, Any]]
    """Names and number types of the arrays that this kind adds."""

    classes: int
    present: Integers
    """Classes among the rows it was taught on, ascending. Any other scores 1 below the lowest of a row's scores."""
    mean: Reals
    """Of each column; a row is first standardised."""
    scale: Reals
    accuracy: float
    """Share of public rows that such models got right in cross-validation; NaN unless `auto` compared kinds."""

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return len(self.mean)

    def scores(self, rows: ArrayLike) -> Reals:
        """Scores (n, classes), comparable over the classes of a row; the highest is the prediction.

        Of two classes the second score less the first is the log-odds or the decision value. Edge cases: no rows give
        no scores; a number that is not finite is refused. Memory beyond rows and result is that of 512 rows.
        """
        given = np.asarray(rows)
        if given.ndim != 2 or given.shape[1] != self.columns or given.dtype.kind not in "fiub":
            got = f"{given.dtype} of shape {given.shape}"
            raise InputError(f"rows of {self.columns} numbers", got, "encode them as the public rows were")
        out = np.empty((len(given), self.classes))
        for start in range(0, len(given), _BLOCK):
            block = given[start : start + _BLOCK].astype(np.float64)
            _finite(block)
            with np.errstate(over="ignore"):
                standard = np.clip((block - self.mean) / self.scale, -_FARTHEST, _FARTHEST)
            raw = self._raw(np.ascontiguousarray(standard))
            part = out[start : start + _BLOCK]
            part[:] = raw.min(axis=1, keepdims=True) - 1.0
            part[:, self.present] = raw
        return out

    def predict(self, rows: ArrayLike) -> Integers:
        """The class of the highest score; of equal ones the first."""
        return np.asarray(np.argmax(self.scores(rows), axis=1), dtype=np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for `np.savez`; `from_arrays` takes it back, and no pickle is needed."""
        common = {
            "kind": np.array(self.kind),
            "classes": np.array(self.classes),
            "present": self.present,
            "mean": self.mean,
            "scale": self.scale,
            "accuracy": np.array(self.accuracy),
        }
        return common | {name: getattr(self, name) for name in self.learnt}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> PublicModel:
        """The model that gave these arrays. Guarantee: arrays that do not fit together are refused, not evaluated."""
        kind = str(arrays["kind"]) if "kind" in arrays else ""
        made = _CLASSES.get(kind)
        if made is None:
            raise _broken("a kind that is none of " + ", ".join(MODELS))
        missing = sorted({*_COMMON, *made.learnt} - set(arrays))
        if missing:
            raise _broken(f"no {', '.join(missing)}")
        try:
            common: dict[str, Any] = {
                "classes": int(arrays["classes"]),
                "present": _vector(arrays["present"], np.int64),
                "mean": _vector(arrays["mean"]),
                "scale": _vector(arrays["scale"]),
                "accuracy": float(arrays["accuracy"]),
            }
            learnt: dict[str, Any] = {
                name: np.asarray(arrays[name], dtype=dtype, order="C") for name, dtype in made.learnt.items()
            }
        except (TypeError, ValueError):
            raise _broken("an array of another kind or shape") from None
        model = made(**common, **learnt)
        model._check_common()
        model._check()
        return model

    def _check_common(self) -> None:
        if not all(np.isfinite(getattr(self, name)).all() for name in self.learnt):
            raise _broken("numbers that are not finite")
        seen = self.present
        if not (self.classes >= len(seen) >= 2 and seen[0] >= 0 and seen[-1] < self.classes):
            raise _broken("classes that are not there")
        if bool((np.diff(seen) <= 0).any()):
            raise _broken("classes out of order")
        if self.mean.shape != self.scale.shape or not (np.isfinite(self.mean).all() and (self.scale > 0).all()):
            raise _broken("means and scales that do not fit")

    @abstractmethod
    def _raw(self, rows: Reals) -> Reals:
        """Scores of the classes that are present, for standardised rows."""

    @abstractmethod
    def _check(self) -> None:
        """Refuse arrays of this kind that do not fit together."""


@dataclass(frozen=True, eq=False)
class _Linear(PublicModel):
    kind = "linear"
    learnt: ClassVar[dict[str, Any]] = {"weights": np.float64, "constants": np.float64}

    weights: Reals
    """(columns, 1) where two classes are present, else (columns, present)."""
    constants: Reals

    def _raw(self, rows: Reals) -> Reals:
        out = np.empty((len(rows), len(self.constants)))
        _add_products(rows, self.weights, self.constants, out)
        return _both_ways(out[:, 0]) if len(self.present) == 2 else out

    def _check(self) -> None:
        outputs = _outputs(self.present)
        if self.weights.shape != (self.columns, outputs) or self.constants.shape != (outputs,):
            raise _broken("weights of another shape")


@dataclass(frozen=True, eq=False)
class _Kernel(PublicModel):
    kind = "kernel"
    learnt: ClassVar[dict[str, Any]] = {
        "gamma": np.float64,
        "vectors": np.float64,
        "owner": np.int64,
        "weights": np.float64,
        "constants": np.float64,
    }

    gamma: Reals
    vectors: Reals
    """(vectors, columns), standardised."""
    owner: Integers
    """The place in `present` of each vector's class."""
    weights: Reals
    """(vectors, present - 1): against each of the other classes, in their order."""
    constants: Reals
    """Of each pair of classes, (0, 1), (0, 2), ..., (1, 2), ...; a positive decision is a vote for the first."""

    def _raw(self, rows: Reals) -> Reals:
        count = len(self.present)
        pairs = np.zeros((count, count), dtype=np.int64)
        first, second = np.triu_indices(count, 1)
        pairs[first, second] = pairs[second, first] = np.arange(len(first))
        out = np.tile(self.constants, (len(rows), 1))
        _add_kernels(rows, self.vectors, float(self.gamma), self.owner, self.weights, pairs, out)
        if count == 2:
            return _both_ways(-out[:, 0])
        votes = np.zeros((len(rows), count))
        confidence = np.zeros((len(rows), count))
        for pair, (i, j) in enumerate(zip(first, second, strict=True)):
            lost = out[:, pair] < 0
            votes[:, i] += ~lost
            votes[:, j] += lost
            confidence[:, i] += out[:, pair]
            confidence[:, j] -= out[:, pair]
        return np.asarray(votes + confidence / (3.0 * (np.abs(confidence) + 1.0)))

    def _check(self) -> None:
        count, size = len(self.present), len(self.vectors)
        shapes = self.vectors.shape == (size, self.columns) and self.owner.shape == (size,) and self.gamma.shape == ()
        if not shapes or self.weights.shape != (size, count - 1) or self.constants.shape != (count * (count - 1) // 2,):
            raise _broken("support vectors of another shape")
        if not _inside(self.owner, 0, count):
            raise _broken("a support vector of no class")


@dataclass(frozen=True, eq=False)
class _Boosting(PublicModel):
    kind = "boosting"
    learnt: ClassVar[dict[str, Any]] = {
        "constants": np.float64,
        "roots": np.int64,
        "feature": np.int64,
        "threshold": np.float64,
        "left": np.int64,
        "right": np.int64,
        "value": np.float64,
    }

    constants: Reals
    roots: Integers
    """(stages, 1) where two classes are present, else (stages, present): where each tree begins."""
    feature: Integers
    threshold: Reals
    left: Integers
    """Where a row goes whose feature is at most the threshold, as float32; -1 in a leaf. Children follow parents."""
    right: Integers
    value: Reals
    """What a leaf adds."""

    def _raw(self, rows: Reals) -> Reals:
        narrow = rows.astype(np.float32)
        out = np.tile(self.constants, (len(rows), 1))
        _add_trees(narrow, self.roots, self.feature, self.threshold, self.left, self.right, self.value, out)
        return _both_ways(out[:, 0]) if len(self.present) == 2 else out

    def _check(self) -> None:
        size = len(self.feature)
        nodes = (self.feature, self.threshold, self.left, self.right, self.value)
        outputs = _outputs(self.present)
        if any(part.shape != (size,) for part in nodes) or self.constants.shape != (outputs,):
            raise _broken("trees of another shape")
        if self.roots.ndim != 2 or self.roots.shape[1] != outputs or not _inside(self.roots, 0, size):
            raise _broken("trees that begin nowhere")
        inner = np.flatnonzero(self.left >= 0)
        for child in (self.left[inner], self.right[inner]):  # later than the parent, so that every walk ends
            if not _inside(child, 0, size) or bool((child <= inner).any()):
                raise _broken("a branch that leads nowhere")
        if not _inside(self.feature[inner], 0, self.columns):
            raise _broken("a branch on a column that is not there")


_CLASSES: dict[str, type[PublicModel]] = {made.kind: made for made in (_Linear, _Kernel, _Boosting)}
_COMMON = ("classes", "present", "mean", "scale", "accuracy")


def fit_public_model(kind: str, rows: ArrayLike, labels: ArrayLike, classes: int, *, seed: bytes) -> PublicModel:
    """Teach a model of this kind on public rows (n, d) with labels 0 .. classes - 1.

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
    """A model for each fold number, ascending, taught and tuned without that fold's rows.

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
    """Scores (n, classes), each row's from the model of `fit_folds` that saw nothing of its fold."""
    table, answers = _checked(rows, labels, classes)
    out = np.empty((len(table), classes))
    models = fit_folds(kind, table, answers, classes, folds, seed=seed)
    for number, model in zip(_fold_numbers(folds, len(table)), models, strict=True):
        out[folds == number] = model.scores(table[folds == number])
    return out


def lead(scores: Reals, labels: Integers) -> Reals:
    """The score of each row's label less the best other score: above 0 where the label is predicted."""
    places = np.arange(len(scores))
    others = scores.copy()
    others[places, labels] = -np.inf
    return np.asarray(scores[places, labels] - others.max(axis=1))


def exported(
    estimator: Any,
    classes: int,
    *,
    mean: Reals | None = None,
    scale: Reals | None = None,
    accuracy: float = math.nan,
) -> PublicModel:
    """What a fitted scikit-learn classifier learnt, as a `PublicModel`.

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
        return _Linear(**common, weights=weights, constants=estimator.intercept_.astype(np.float64))
    if isinstance(estimator, SVC) and estimator.kernel == "rbf" and not isinstance(estimator.gamma, str):
        return _Kernel(**common, **_support_vectors(estimator))
    if isinstance(estimator, GradientBoostingClassifier) and estimator.init is None and estimator.loss == "log_loss":
        return _Boosting(**common, **_trees(estimator))
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
        trees = _stages(labels) * _outputs(np.unique(labels))
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
    _finite(table)
    answers = _labels(labels, len(table), classes)
    if len(np.unique(answers)) < 2:
        raise InputError("public rows of two classes or more", "rows of fewer", "choose a target that varies")
    return table, answers


def _labels(labels: ArrayLike, count: int, classes: int) -> Integers:
    given = np.asarray(labels)
    if given.shape != (count,) or given.dtype.kind not in "iu" or not _inside(given, 0, classes):
        got = f"{given.dtype} of shape {given.shape}"
        raise InputError(f"{count} whole numbers from 0 to {classes - 1} as labels", got, "give each row its class")
    return given.astype(np.int64)


def _fold_numbers(folds: NDArray[np.integer], count: int) -> list[int]:
    numbers = np.unique(folds)
    if np.shape(folds) != (count,) or len(numbers) < 2:
        got = f"{len(numbers)} folds for {np.size(folds)} rows"
        raise InputError(f"a fold for each of {count} rows, two folds or more", got, "split the rows into folds")
    return [int(number) for number in numbers]


def _finite(rows: Reals) -> None:
    if not bool(np.isfinite(rows).all()):
        raise InputError("finite numbers", "NaN or infinity among them", "fill or drop empty cells when encoding")


def _inside(numbers: NDArray[Any], low: int, high: int) -> bool:
    return not numbers.size or bool(low <= numbers.min() and numbers.max() < high)


def _vector(given: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(given, dtype=dtype, order="C")
    if array.ndim != 1:
        raise ValueError
    return array


def _outputs(present: Integers) -> int:
    return 1 if len(present) == 2 else len(present)


def _both_ways(decision: Reals) -> Reals:
    return np.stack([-0.5 * decision, 0.5 * decision], axis=1)


def _broken(what: str) -> InputError:
    return InputError("the arrays of a public model", what, "use those that arrays() gave, unchanged")


# ---- scoring, row by row


@compiled
def _add_products(rows: Any, weights: Any, constants: Any, out: Any) -> None:
    for i in range(rows.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = constants[k]
        for j in range(rows.shape[1]):
            for k in range(out.shape[1]):
                out[i, k] += rows[i, j] * weights[j, k]


def _any_order(function: Any) -> Any:
    """Compile with leave to add in any order, fixed once compiled: the same for every row."""
    return compiled(function, fastmath={"reassoc"})


@_any_order
def _squared_distance(one: Any, other: Any) -> Any:
    total = 0.0
    for j in range(one.size):
        gap = one[j] - other[j]
        total += gap * gap
    return total


@compiled
def _add_kernels(rows: Any, vectors: Any, gamma: Any, owner: Any, weights: Any, pairs: Any, out: Any) -> None:
    # vectors outside, so that they are read from memory once for a whole block of rows
    for v in range(vectors.shape[0]):
        mine = owner[v]
        for i in range(rows.shape[0]):
            near = np.exp(-gamma * _squared_distance(rows[i], vectors[v]))
            for k in range(weights.shape[1]):
                other = k if k < mine else k + 1
                out[i, pairs[mine, other]] += weights[v, k] * near


@compiled
def _add_trees(
    rows: Any, roots: Any, feature: Any, threshold: Any, left: Any, right: Any, value: Any, out: Any
) -> None:
    for i in range(rows.shape[0]):
        for stage in range(roots.shape[0]):
            for k in range(roots.shape[1]):
                node = roots[stage, k]
                while left[node] >= 0:
                    node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                out[i, k] += value[node]
