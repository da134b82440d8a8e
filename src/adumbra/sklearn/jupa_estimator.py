"""Utility-aware releases as a pipeline step: serve one label, hide another. No differential privacy but for laplace.

`fit` learns from PUBLIC records; `transform` releases records. The service's own model comes after it in the pipeline.
"""

from __future__ import annotations

import inspect
from collections import deque
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from adumbra.audit.adversaries import AdversaryReport, attack_jupa
from adumbra.common.errors import InputError
from adumbra.common.randomness import Coins, CoinsLike, PublicSeed
from adumbra.common.types import Integers, Reals
from adumbra.job import Job
from adumbra.jupa.local import released_rows
from adumbra.jupa.model import Released
from adumbra.jupa.ranks import Public
from adumbra.jupa.recipe import JupaRecipe, recipe_options
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.jupa.release_kind import ChargedRelease, FittedRelease, Outcome
from adumbra.jupa.release_kinds.coarse import Coarse
from adumbra.numerics.integer_kernels import one_thread_each

__all__ = ["JUPA"]


_RENAMED = {"components": "n_components"}
"""Options that scikit-learn has another name for."""
_OF_TABLES = ("utility", "privacy", "encoding", "drop", "source")
"""Keywords of a recipe that arrays have no use for, or that have one value only."""


def _signature() -> inspect.Signature:
    """The parameters of the estimator: options as recipes and kinds of release declare them, then its own."""
    defaults: dict[str, Any] = {"n_components": None}
    for one in recipe_options():
        if one.name not in _OF_TABLES:
            alone = isinstance(one.default, tuple) and len(one.default) == 1
            defaults[_RENAMED.get(one.name, one.name)] = one.default[0] if alone else one.default
    defaults |= {"release": Coarse.name, "seed": None, "ledger": None, "table_name": "records"}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
    return inspect.Signature([inspect.Parameter("self", kind), *own])


class _BadLabels(InputError, ValueError):
    """Bad labels; a ValueError too, since that is what callers of an estimator catch."""


class JUPA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]  # the same
    BaseEstimator,  # type: ignore[misc]  # the same
):
    """Records that serve the label `y` and hide the label `privacy`.

    No differential privacy, except with `release="laplace"`; `promise_` says what holds, `audit` tries to refute it.

    * `n_components`: K; None takes the classes of `y` less one. `projection`: jupa, dca, mdr, ruca, pca, random, none.
      `rho0` relative to trace/d, `rho1`, `rho1_prime`: one number, or one for each privacy label. `kernel`: linear,
      rbf, laplacian, polynomial on `landmarks` public records.
    * `release`: coarse, fine, resample, respond, repair, laplace; its options as in `adumbra.JupaRecipe`.
    * `seed`: text or a whole number from which public choices are drawn; None draws one at every `fit`. What protects a
      record has no seed: two transforms of the same records differ.
    * `ledger`, `table_name`: where a laplace release is charged.

    `fit(X, y, privacy=...)` takes PUBLIC records with both labels; `privacy` has one column for each privacy label.
    Without it only projections that need none are made (`release="coarse"`), with the privacy terms left out.
    `transform(X, privacy=...)` takes the owner's records; respond, repair and equalise need their privacy label.
    A record that the fine step could not move to its class is not released: its row is NaN (`keep_unreached=True`
    releases it all the same). Features are standardised by the public records.

    After `fit`: `n_features_in_`, `feature_names_in_`, `promise_`, `accuracy_bound_` (None where nothing is promised),
    `components_` (features x K, of standardised or kernel features; not for repair), `classes_`, `privacy_classes_`,
    `seed_`. After `transform`: `not_reached_`.

    >>> rng = np.random.default_rng(0)
    >>> X, y, s = rng.normal(size=(60, 3)), np.arange(60) % 2, np.arange(60) // 30
    >>> JUPA(n_components=1).fit(X, y, privacy=s).transform(X).shape
    (60, 1)
    """

    _last: deque[int]
    _step: FittedRelease

    def __init__(self, *args: Any, **options: Any) -> None:
        bound = self._SIGNATURE.bind(self, *args, **options)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    _SIGNATURE = _signature()
    __init__.__signature__ = _SIGNATURE  # type: ignore[attr-defined] # scikit-learn reads parameters from it

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.non_deterministic = release_kinds().get(self.release, Coarse).random
        return tags

    def _recipe(self, targets: int) -> JupaRecipe:
        names = ("privacy",) if targets < 2 else tuple(f"privacy{i + 1}" for i in range(targets))
        asked = (one.name for one in recipe_options() if one.name not in _OF_TABLES)
        options = {name: getattr(self, _RENAMED.get(name, name)) for name in asked}
        return JupaRecipe(("utility",), names, **options)

    def fit(self, X: Any, y: Any, privacy: ArrayLike | None = None) -> JUPA:
        """Learn from PUBLIC records and both their labels. Never give it the private ones.

        `X` has a row per record, `y` its utility label, `privacy` its privacy labels, one column for each; None only
        for a release that learns no privacy label.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        hidden = _columns(privacy, len(rows))
        recipe = self._recipe(hidden.shape[1])
        if not hidden.shape[1] and recipe.kind.learns_privacy:
            raise _BadLabels(
                f"the privacy label of the public records for release {recipe.release}",
                "none",
                "call fit(X, y, privacy=labels)",
            )
        self.classes_, utility = np.unique(labels, return_inverse=True)
        parts = [np.unique(column, return_inverse=True)[1].astype(np.int64) for column in hidden.T]
        each = [tuple(row) for row in hidden.tolist()]
        self.privacy_classes_ = sorted(set(each), key=repr) if hidden.shape[1] else []
        joint = np.array([self.privacy_classes_.index(row) for row in each] if hidden.shape[1] else [0] * len(rows))
        seed = PublicSeed.fresh() if self.seed is None else PublicSeed.given(str(self.seed))
        self._mean = rows.mean(axis=0)
        deviation = rows.std(axis=0)
        self._deviation = np.where(deviation > 1e-12, deviation, 1.0)
        public = Public(
            (rows - self._mean) / self._deviation,
            utility.astype(np.int64),
            joint.astype(np.int64),
            [utility.astype(np.int64)],
            parts,
            len(self.classes_),
            max(len(self.privacy_classes_), 1),
            seed.value,
        )
        with one_thread_each():
            self._fitted_recipe, self._step = recipe, recipe.kind.fit(public)
        self._last = deque(maxlen=1)
        self.seed_ = seed.hex
        words = self._step.statement(len(self.classes_), public.privacies)
        self.promise_, self.accuracy_bound_ = words.promise, words.accuracy_bound
        if self._step.directions is not None:
            self.components_ = self._step.directions
        return self

    def transform(self, X: Any, privacy: ArrayLike | None = None) -> Reals:
        """Release records, one row for each, in order; a row of NaN is a record that was not released."""
        check_is_fitted(self)
        rows = self._standard(X)
        if isinstance(self._step, ChargedRelease):
            plain = self._step.unperturbed(rows)
            job = self._step.job(lambda: iter([plain]), len(plain), self.table_name)
            noisy = released_rows(job, self.ledger)
            self._last.append(0)
            return noisy
        out = self._released(rows, privacy, Coins())
        full = np.full((len(rows), out.rows.shape[1]), np.nan)
        full[out.kept] = out.rows
        self._last.append(out.not_reached)
        return full

    def fit_transform(self, X: Any, y: Any = None, privacy: ArrayLike | None = None) -> Reals:
        """Learn from PUBLIC records and release the same ones; private records are for `transform` alone.

        `X`, `y` and `privacy` as for `fit`.
        """
        return self.fit(X, y, privacy=privacy).transform(X, privacy=privacy)

    def unperturbed(self, X: Any) -> Reals:
        """What the same records look like without protection: what a service trains on."""
        check_is_fitted(self)
        return self._step.unperturbed(self._standard(X))

    def audit(self, X: Any, y: ArrayLike, privacy: ArrayLike, *, quick: bool = False) -> AdversaryReport:
        """Adversaries against this release, on labelled records that it was not fitted on.

        A third of the records, every third, is attacked; the adversary learns from the others.

        `X`, `y` and `privacy` as for `fit`, the privacy label required. `quick` tries fewer adversaries and parameters.
        """
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        frame = pl.DataFrame({f"x{i}": column for i, column in enumerate(rows.T)}).with_columns(
            pl.Series("utility", self._told(y)),
            pl.Series("privacy", self._hidden(privacy, len(rows))),
        )
        third = np.arange(len(rows)) % 3 == 0
        return attack_jupa(_Simulated(self), frame.filter(~third), frame.filter(third), quick=quick)

    def _told(self, y: ArrayLike) -> Integers:
        places = {label: i for i, label in enumerate(self.classes_.tolist())}
        found = np.array([places.get(label, -1) for label in column_or_1d(y).tolist()], dtype=np.int64)
        if (found < 0).any():
            raise _BadLabels(
                "labels that the estimator was fitted on", f"{int((found < 0).sum())} others", "leave those records out"
            )
        return found

    @property
    def not_reached_(self) -> int:
        """Records of the last `transform` that the fine step could not move to their class."""
        last: deque[int] = getattr(self, "_last", deque())
        if not last:
            raise AttributeError("not_reached_ belongs to a transform; nothing has been transformed since fit")
        return last[0]

    def _standard(self, X: Any) -> Reals:
        rows = np.asarray(validate_data(self, X, reset=False, dtype=np.float64), dtype=np.float64)
        return np.asarray((rows - self._mean) / self._deviation)

    def _released(self, rows: Reals, privacy: ArrayLike | None, coins: CoinsLike) -> Outcome:
        hidden = self._hidden(privacy, len(rows)) if self._fitted_recipe.kind.needs_privacy_label else None
        return self._step.apply(rows, hidden, coins, None)

    def _hidden(self, privacy: ArrayLike | None, count: int) -> Integers:
        if privacy is None:
            raise _BadLabels(
                "the privacy label of every record, which this release looks at",
                "none",
                "call transform(X, privacy=labels), or choose release='resample'",
            )
        given = _columns(privacy, count)
        places = {row: i for i, row in enumerate(self.privacy_classes_)}
        found = np.array([places.get(tuple(row), -1) for row in given.tolist()], dtype=np.int64)
        if (found < 0).any():
            raise _BadLabels(
                "privacy labels of the public records only",
                f"{int((found < 0).sum())} others",
                "leave those records out",
            )
        return found

    @property
    def _n_features_out(self) -> int:
        return len(self._step.columns)


class _Simulated:
    """A fitted estimator as adversaries see it: records as frames with both labels."""

    def __init__(self, estimator: JUPA) -> None:
        self._estimator = estimator

    @property
    def recipe(self) -> JupaRecipe:
        """Its options."""
        return self._estimator._fitted_recipe

    def labels_of(self, frame: pl.DataFrame, which: str, /) -> Integers:
        """The class of every record."""
        return frame[which].to_numpy()

    def _rows(self, frame: pl.DataFrame) -> Reals:
        return self._estimator._standard(frame.drop("utility", "privacy").to_numpy())

    def unperturbed(self, frame: pl.DataFrame, /) -> Reals:
        """Without protection."""
        return self._estimator._step.unperturbed(self._rows(frame))

    def told_by(self, released: Reals) -> Integers | None:
        """What anybody can read off a released row."""
        return self._estimator._step.told_by(released)

    def release_rows(self, frame: pl.DataFrame, coins: CoinsLike, /) -> Released:
        """One release."""
        estimator, recipe = self._estimator, self.recipe
        columns = estimator._step.columns
        privacy = frame["privacy"].to_numpy() if recipe.kind.needs_privacy_label else None
        out = estimator._step.apply(self._rows(frame), privacy, coins, None)
        return Released(out.rows, out.kept, out.not_reached, columns, frame)

    def charged_job(self, frame: pl.DataFrame) -> Job | None:
        """The release of these records that would be charged; None where none would be."""
        step = self._estimator._step
        if not isinstance(step, ChargedRelease):
            return None
        plain = self.unperturbed(frame)
        return step.job(lambda: iter([plain]), len(plain), "records")


def _columns(privacy: ArrayLike | None, count: int) -> NDArray[Any]:
    """Privacy labels as columns; none where there are none."""
    if privacy is None:
        return np.empty((count, 0))
    found = np.asarray(privacy)
    found = found[:, None] if found.ndim == 1 else found
    if found.dtype.kind in "fOc" and any(cell is None or cell != cell for cell in found.ravel().tolist()):
        raise _BadLabels("a privacy label for every record", "records without one", "leave those records out")
    if found.ndim != 2 or len(found) != count:
        raise _BadLabels(
            f"a privacy label for each of {count} records", f"shape {np.shape(privacy)}", "give one a record"
        )
    return found
