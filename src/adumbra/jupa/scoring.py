"""Classifiers taught on public rows and kept as plain arrays.

Somebody who applies a model to private records must be able to read it: there is no pickle, nothing that could run,
only numbers whose use is written out here. `learning/classifiers.py` has scikit-learn do the teaching and takes what it
learnt out of its documented attributes; from there on scikit-learn is not needed. Three kinds:

- `linear`: multinomial logistic regression. Scores are log-odds.
- `kernel`: support vectors under exp(-gamma |x - y|^2). Scores of two classes are half the decision value each way; of
  more, the votes of all pairs, with the sum of their confidences inside (-1/3, 1/3) to part equal votes.
- `boosting`: small trees added up. Scores are log-odds.

Guarantees: the same rows, labels and seed give the same model on the same machine. The scores of a row depend on that
row and the model alone, to the last bit, whatever rows stand beside it. Nothing here is private or protects anything:
a model must never be taught on private rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.numerics.integer_kernels import compiled

__all__ = [
    "MODELS",
    "BoostingModel",
    "KernelModel",
    "LinearModel",
    "PublicModel",
    "check_finite",
    "inside",
    "lead",
    "outputs_of",
]


MODELS = ("linear", "kernel", "boosting")

_BLOCK = 512  # rows scored at a time
_FARTHEST = 1e30  # standard deviations from the mean; what lies beyond counts as this, so that no score is NaN


@dataclass(frozen=True, eq=False)
class PublicModel(ABC):
    """A classifier for labels 0 .. classes - 1, made of arrays; see `fit_public_model` and `from_arrays`."""

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
            check_finite(block)
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
        kind = str(arrays.get("kind", ""))
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
class LinearModel(PublicModel):
    """Log-odds that are linear in the columns."""

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
        outputs = outputs_of(self.present)
        if self.weights.shape != (self.columns, outputs) or self.constants.shape != (outputs,):
            raise _broken("weights of another shape")


@dataclass(frozen=True, eq=False)
class KernelModel(PublicModel):
    """Support vectors under exp(-gamma |x - y|^2), one decision for each pair of classes."""

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
        if not inside(self.owner, 0, count):
            raise _broken("a support vector of no class")


@dataclass(frozen=True, eq=False)
class BoostingModel(PublicModel):
    """Log-odds that are sums of small trees."""

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
        outputs = outputs_of(self.present)
        if any(part.shape != (size,) for part in nodes) or self.constants.shape != (outputs,):
            raise _broken("trees of another shape")
        if self.roots.ndim != 2 or self.roots.shape[1] != outputs or not inside(self.roots, 0, size):
            raise _broken("trees that begin nowhere")
        inner = np.flatnonzero(self.left >= 0)
        for child in (self.left[inner], self.right[inner]):  # later than the parent, so that every walk ends
            if not inside(child, 0, size) or bool((child <= inner).any()):
                raise _broken("a branch that leads nowhere")
        if not inside(self.feature[inner], 0, self.columns):
            raise _broken("a branch on a column that is not there")


_CLASSES: dict[str, type[PublicModel]] = {made.kind: made for made in (LinearModel, KernelModel, BoostingModel)}
_COMMON = ("classes", "present", "mean", "scale", "accuracy")


def lead(scores: Reals, labels: Integers) -> Reals:
    """The score of each row's label less the best other score: above 0 where the label is predicted."""
    places = np.arange(len(scores))
    others = scores.copy()
    others[places, labels] = -np.inf
    return np.asarray(scores[places, labels] - others.max(axis=1))


# ---- checks


def check_finite(rows: Reals) -> None:
    """Refuse rows with a number that is not finite."""
    if not bool(np.isfinite(rows).all()):
        raise InputError("finite numbers", "NaN or infinity among them", "fill or drop empty cells when encoding")


def inside(numbers: NDArray[Any], low: int, high: int) -> bool:
    """Whether all `numbers` are at least `low` and below `high`."""
    return not numbers.size or bool(low <= numbers.min() and numbers.max() < high)


def _vector(given: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(given, dtype=dtype, order="C")
    if array.ndim != 1:
        raise ValueError
    return array


def outputs_of(present: Integers) -> int:
    """Numbers that a model of so many classes works out: one for two classes, else one for each."""
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
