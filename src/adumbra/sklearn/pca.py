"""Private principal components as a pipeline step.

`PrivatePCA.fit` IS a release: of axes, with error bars. So is every `transform`: of the rows it is given, along those
axes, with noise of their own. There is no unpaid centring or scaling by the data: rows are taken about the middle
of the declared bounds, in units of their ranges.

Exact projections onto private axes are not private, whatever epsilon the axes were made with: each is a statement about
one person. So `transform` adds noise unless its caller declares that the rows are public, and `fit_transform`, whose
rows are the private ones, adds noise or refuses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from adumbra import api
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.common.validation import one_of, positive
from adumbra.declare.guarantee import DEFAULT_DELTA, Budget, Relation, Unit
from adumbra.declare.space import GRID
from adumbra.ledger.ledger import Ledger
from adumbra.mechanisms.analyze_gauss import AnalyzeGauss
from adumbra.mechanisms.lip import LIP
from adumbra.mechanisms.lop import LOP, GivenAxes
from adumbra.mechanisms.power_method import PowerMethod
from adumbra.releases.card import Card
from adumbra.sklearn.declared import DeclaredRows, Settled, declared_schema, stand_in

__all__ = ["PrivatePCA"]

Axes = AnalyzeGauss | LIP | PowerMethod

MECHANISMS: dict[str, type[Axes]] = {"analyze_gauss": AnalyzeGauss, "lip": LIP, "power_method": PowerMethod}
SAME, PRIVATE, PUBLIC = "same", "private", "public"


@dataclass(frozen=True)
class _Terms(Settled):
    """Those of the axes, and of rows along them."""

    axes: Axes
    rows_epsilon: float | None
    """Epsilon of a release of rows; None where they must not be released."""
    public_rows: bool

    @property
    def rows_budget(self) -> Budget:
        """Of one release of rows."""
        if self.rows_epsilon is None:
            raise InputError(
                "a budget for rows: without noise of their own, projections of private rows are not private",
                "transform_epsilon=None",
                "give transform_epsilon a number; or call fit alone and use its axes; or, for rows that are public, "
                f"transform_rows={PUBLIC!r}",
            )
        if self.budget.relation is Relation.ADD_REMOVE:
            raise InputError(
                "relation replace or zero-out: one row is released for each person, so their number is not private",
                f"relation {Relation.ADD_REMOVE.value}",
                "choose another relation, or call fit alone and use its axes",
            )
        return replace(self.budget, epsilon=self.rows_epsilon)


class PrivatePCA(DeclaredRows):
    """Principal axes with a privacy guarantee, and rows along them only with noise.

    Guarantee: what one `fit` learns is (epsilon, delta) differentially private for one row under `relation`; what one
    `transform` returns is (transform_epsilon, 0) differentially private for the rows it was given. `fit_transform` is
    both: a row pays epsilon for the axes and transform_epsilon for itself. `ledger` adds everything up;
    `adumbra.sklearn.search_cost` says beforehand what a grid search will come to.

    * `low`, `high`: DECLARED public bounds of the features, one number for all or one for each; required. They are
      never read from the data and must not be computed from it. Cells outside are moved to the nearer bound, silently.
    * `n_components`: a whole number; a share of the variance in (0, 1), to keep as few as hold it among those that
      exceed the noise; None is the mechanism's own choice (a share of 0.85; for power_method 5, which takes no
      share).
    * `epsilon`, `delta`: the promise of one `fit`. `mechanism`: "analyze_gauss" (needs delta > 0), "lip" (delta 0,
      whatever was allowed) or "power_method" (very many features).
    * `relation`: "replace" or "zero-out"; "add-remove" for axes alone. The unit is a row.
    * `centred`: measure the mean with noise first, for a fifth of epsilon, and take the axes about it (not for
      power_method); by default they are about the middle of the bounds, and the first axis may be the way to the rows.
    * `row_bound`: rows longer than this, in scaled units, are shortened to it; None is each mechanism's own length.
    * `transform_epsilon`: the promise of one `transform`; "same" is `epsilon`, None refuses to release rows.
    * `transform_rows`: "private", or "public": the caller declares that rows given to `transform` are public or stay,
      with all that is computed from them, where they are. `transform` then returns them without noise. It cannot tell
      whether that is true; training rows must not be passed. `fit_transform` adds noise all the same, or refuses.
    * `seed`: public (text, a whole number or a `PublicSeed`), for the directions the power method starts from; the
      noise has none.
    * `ledger`, `table_name`: where each `fit` and `transform` is charged before it is measured (a `Ledger` or its
      path), and under which name.

    After `fit`: `components_` (components x features, orthonormal, in scaled units), `n_components_`, `mean_` and
    `scale_` (middle and width of the declared bounds, in the features' own units), `centre_` (what the axes are about:
    `mean_`, or the noisy mean where `centred`; transformed rows are about `mean_` always), `explained_variance_` (the
    lift by the noise taken out; 0 where it drowns) with 95 % error bars `explained_variance_low_` and
    `explained_variance_high_`, `explained_variance_ratio_` (None for power_method, which measures no total),
    `noise_edge_` (variances below are noise), `components_above_noise_` (how many exceed it), `spectrum_` (variances as
    measured, of all directions or the first 40), `row_bound_` (length that rows were shortened to for the axes),
    `sigma_` (standard deviation of the noise on every number of a released row; None where none are released), `seed_`,
    `card_` (the statement that belongs to the axes). After a released `transform`: `transform_card_`.

    Scaled units: a feature is `(x - mean_) / scale_`, so one that moves across its range moves by 1. Variances are mean
    squares about `mean_`, of rows shortened to `row_bound_`. Where no `row_bound` is given that is short (the noise
    grows with its square) and most rows reach it: axes are then those of the rows' directions.

    Edge cases: NaN, infinities, text and sparse input are refused, at no cost. A ledger that is full raises `Refused`;
    if it had room for the axes of `fit_transform` only, the estimator is fitted and its axes can be used.

    >>> rows = np.random.default_rng(0).normal(50.0, [20.0, 2.0, 2.0], size=(1000, 3))
    >>> pca = PrivatePCA(low=0, high=100, n_components=1).fit(rows)
    >>> pca.components_.shape, pca.mean_.tolist(), pca.scale_.tolist()
    ((1, 3), [50.0, 50.0, 50.0], [100.0, 100.0, 100.0])
    >>> pca.transform(rows).shape  # another release
    (1000, 1)
    """

    _last_card: deque[Card]

    def __init__(
        self,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        n_components: int | float | None = None,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        mechanism: str = "analyze_gauss",
        relation: str = "replace",
        row_bound: float | None = None,
        transform_epsilon: float | str | None = SAME,
        transform_rows: str = PRIVATE,
        seed: PublicSeed | str | int | None = None,
        ledger: Ledger | str | Path | None = None,
        table_name: str = "table",
        centred: bool = False,
    ) -> None:
        self.low = low
        self.high = high
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.relation = relation
        self.row_bound = row_bound
        self.transform_epsilon = transform_epsilon
        self.transform_rows = transform_rows
        self.seed = seed
        self.ledger = ledger
        self.table_name = table_name
        self.centred = centred

    def fit(self, X: Any, y: Any = None) -> PrivatePCA:
        """Release principal axes of the rows of X, charged to the ledger if there is one. `y` is not used."""
        rows = self._checked(X, reset=True)
        self._fit(rows, self._settled())
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Reals:
        """Release axes, then the rows of X along them with noise: two releases of every row.

        Never the exact projections, whatever `transform_rows` says. What can be refused is refused before the first.
        """
        rows = self._checked(X, reset=True)
        terms = self._settled()
        _ = terms.rows_budget
        self._fit(rows, terms)
        return self._released(rows)

    def transform(self, X: Any) -> Reals:
        """Release the rows of X: scaled, along the axes, noisy, one row for each, in order.

        Every call draws new noise, spends transform_epsilon on these rows and is charged to the ledger if there is one.
        With `transform_rows="public"` they come back without noise and without a charge, shortened as released rows
        are, so that both lie in the same space.
        """
        check_is_fitted(self)
        rows = self._checked(X, reset=False)
        return self._exact(rows) if self._terms.public_rows else self._released(rows)

    def inverse_transform(self, Z: ArrayLike) -> Reals:
        """Transformed rows in the features' own units, moved into the declared bounds. Post-processing: it is free.

        Moving brings single rows nearer to the truth and pulls averages over noisy rows towards the middle; for those,
        average first.
        """
        check_is_fitted(self)
        rows = self._transformed(Z) @ self.components_
        bounds = self.scale_ / 2
        return np.asarray(np.clip(self.mean_ + rows * self.scale_, self.mean_ - bounds, self.mean_ + bounds))

    @property
    def transform_card_(self) -> Card:
        """The card of the rows released last: promise, noise, cost; nothing private."""
        # Kept in a holder made by `fit`, because pipelines expect `transform` to set no attribute.
        last: deque[Card] = getattr(self, "_last_card", deque())
        if not last:
            raise AttributeError("transform_card_ belongs to released rows; none have been released since fit")
        return last[0]

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _settled(self) -> _Terms:
        """Parameters, checked; nothing is measured."""
        one_of(tuple(MECHANISMS), mechanism=self.mechanism)
        one_of(tuple(Relation), relation=self.relation)
        one_of((PRIVATE, PUBLIC), transform_rows=self.transform_rows)
        if self.low is None or self.high is None:
            raise InputError(
                "declared public bounds of the features, low and high",
                "none" if self.low is None and self.high is None else "one of the two",
                "give low and high, one number for all features or one for each, from what is publicly known; bounds "
                "taken from the data (X.min()) would break the promise",
            )
        return _Terms(
            declared_schema(self._columns(), self.low, self.high),
            Budget(float(self.epsilon), float(self.delta), Unit.ROW, Relation(self.relation)),
            self.seed,
            None if self.row_bound is None else float(self.row_bound),
            self._axes(),
            rows_epsilon(self),
            self.transform_rows == PUBLIC,
        )

    def _axes(self) -> Axes:
        """The mechanism, with the number of components or the rule for it."""
        make, most = MECHANISMS[self.mechanism], self.n_features_in_
        more: dict[str, Any] = {"centred": True} if self.centred else {}
        if self.centred and issubclass(make, PowerMethod):
            raise InputError("centred=False for power_method", "centred=True", "use analyze_gauss or lip")
        wanted: Any = self.n_components  # numpy's numbers too
        if wanted is None:
            return make(**more)
        if isinstance(wanted, Integral) and wanted is not True:
            if not 1 <= int(wanted) <= most:
                raise InputError(
                    f"1 <= n_components <= {most}, the number of features",
                    f"n_components = {wanted}",
                    "give fewer, or None to let the noise decide",
                )
            return make(components=int(wanted), **more)
        if not issubclass(make, PowerMethod) and isinstance(wanted, Real) and 0.0 < float(wanted) < 1.0:
            return make(contribution=float(wanted), **more)
        raise InputError(
            "n_components as a whole number, None, or a share of the variance in (0, 1) (not for power_method)",
            f"n_components = {wanted!r}",
            "give one of these",
        )

    def _fit(self, rows: Reals, terms: _Terms) -> None:
        # a budget that rows cannot have is refused before the axes are paid for (at most 40 are chosen unasked)
        planned = self._planned(terms, LOP("dct", terms.axes.components or min(self.n_features_in_, 40)))
        done = self._release(rows, terms, terms.axes, terms.budget)
        arrays, found = done.arrays, done.facts
        low, high = (np.array([getattr(c, end) for c in terms.schema.columns]) for end in ("low", "high"))
        self._terms = terms
        self._last_card = deque(maxlen=1)
        self.card_ = done.card
        self.seed_ = done.card.seed.value
        self.mean_ = (low + high) / 2
        self.scale_ = high - low
        self.components_ = arrays["axes"]
        self.n_components_ = kept = len(self.components_)
        self.explained_variance_ = arrays["variances"]
        self.explained_variance_low_ = arrays["spectrum_low"][:kept]
        self.explained_variance_high_ = arrays["spectrum_high"][:kept]
        self.spectrum_ = arrays["spectrum"]
        self.noise_edge_ = float(arrays["noise_edge"])
        self.row_bound_ = float(found.axes_clipped_to)
        self.components_above_noise_ = int(found.components_above_noise)
        total = found.total_variance
        self.explained_variance_ratio_ = None if total is None else _shares(self.explained_variance_, total)
        centre = arrays["mean"] if found.centre == "measured" else None
        self.centre_ = self.mean_ if centre is None else self.mean_ + centre * self.scale_
        if terms.axes.components is None:  # the noise on a number depends on how many there are, not on the axes
            planned = self._planned(terms, self._basis())
        self.sigma_, self._rows_bound = planned

    def _planned(self, terms: _Terms, basis: LOP) -> tuple[float | None, float]:
        """Noise on a released number (None where none are released) and the length rows are shortened to."""
        allowed = terms.rows_epsilon is not None and terms.budget.relation is not Relation.ADD_REMOVE
        budget = terms.rows_budget if allowed else Budget(1.0, unit=Unit.ROW, relation=Relation.REPLACE)
        plan = api.plan(stand_in(terms.schema), terms.schema, basis, budget, row_bound=terms.row_bound)
        (query,), (noise,) = plan.queries.values(), plan.calibrations.values()
        rows = query.per_row
        if rows is None or rows.clip is None:  # rows of the row unit are asked for in no other way
            raise TypeError("rows along axes are a row map with a bound")
        return noise.event.sd if allowed else None, rows.clip.bound / GRID

    def _basis(self) -> LOP:
        """Rows along the fitted axes, which are public."""
        return LOP(basis=GivenAxes.of(self.components_), components=len(self.components_))

    def _released(self, rows: Reals) -> Reals:
        terms = self._terms
        done = self._release(rows, terms, self._basis(), terms.rows_budget)
        self._last_card.append(done.card)
        return np.ascontiguousarray(done.table.to_numpy(), dtype=np.float64)

    def _exact(self, rows: Reals) -> Reals:
        """What would be released, without the noise; for rows declared public."""
        scaled = np.clip((rows - self.mean_) / self.scale_, -0.5, 0.5)
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        shortened = scaled * np.minimum(1.0, self._rows_bound / np.maximum(lengths, 1e-300))
        return np.asarray(shortened @ self.components_.T)


def rows_epsilon(pca: PrivatePCA) -> float | None:
    """What one release of rows costs by these parameters; None where it is refused."""
    chosen = pca.transform_epsilon
    if chosen is None:
        return None
    if isinstance(chosen, str):
        one_of((SAME,), transform_epsilon=chosen)
        chosen = pca.epsilon
    return positive("give a positive number, 'same' or None", transform_epsilon=float(chosen))


def _shares(variances: Reals, total: float) -> Reals:
    """Of the measured total, which is noisy too: never more than all of it."""
    return np.clip(variances / max(total, 1e-300), 0.0, 1.0)
