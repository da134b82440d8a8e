"""Noisy random projections of rows as a pipeline step.

`DPProTransformer.transform` IS a release: each call draws new noise and spends the whole budget on the rows it is
given. `fit` spends nothing, because it learns nothing from a cell: the ranges are declared, the projection is drawn
from a public seed, and the noise follows from both.

Train and test rows must land in the same space, so one matrix serves every transform. That rules out the
fresh-projection account, which holds for a matrix used once; the noise here always rests on the per-matrix account,
also when the operating system drew the seed. The noise is then the same for every call, and `sigma_` is one number.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from adumbra import api
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import DEFAULT_DELTA, Budget, Relation, Unit
from adumbra.ledger.ledger import Ledger
from adumbra.mechanisms.dppro import DPPro
from adumbra.releases.card import Card
from adumbra.sklearn.declared import DeclaredRows, Settled, declared_schema, stand_in

__all__ = ["DPProTransformer"]


@dataclass(frozen=True)
class _ProjectionTerms(Settled):
    """Those of the projection."""

    mechanism: DPPro


class DPProTransformer(DeclaredRows):
    """Noisy random projections of rows, by DPPro, as a pipeline step.

    Guarantee: what one `transform` returns is (epsilon, delta) differentially private for the unit and relation, for
    the rows it was given. Transforming a person's row m times is m releases of it; `ledger` adds them up. Everything
    computed from the result (a classifier, a grid search over later steps) costs nothing more.

    * `low`, `high`: DECLARED public bounds of the features, one number for all or one for each. They are never read
      from the data and must not be computed from it. Cells outside are moved to the nearer bound, silently.
    * `epsilon`, `delta`, `unit` ("row" or "cell"), `relation` ("replace" or "zero-out"): the promise of one
      `transform`. `delta=0` asks for pure epsilon.
    * `dimension`: numbers per row; None chooses it from the ranges and the promise. `projection`: as in `DPPro`.
    * `row_bound`: clip whole rows to this length, in scaled units (row unit only).
    * `seed`: text, a whole number or a `PublicSeed` from which the public matrix is drawn; None draws one from the
      operating system at every `fit`. The noise has no seed: two transforms of the same rows differ.
    * `ledger`, `table_name`: where each `transform` is charged before any noise is drawn (a `Ledger` or its path), and
      under which name.

    After `fit`: `n_features_in_`, `feature_names_in_` (if the columns have names), `seed_` (64 hex digits),
    `matrix_` (features x dimension), `sigma_` (standard deviation of the noise on every number returned). After
    `transform`: `card_`, the statement that belongs to the rows returned last.

    Scaled units: a feature is `(x - middle) / (high - low)`, so one that moves across its range moves by 1.

    Edge cases: NaN, infinities, text and sparse input are refused, at no cost. A ledger that is full raises `Refused`.

    >>> rows = np.array([[34.0, 1.0], [71.0, 0.0], [8.0, 0.0]])
    >>> private = DPProTransformer(low=[0, 0], high=[110, 1], epsilon=4.0, dimension=2, seed="study 1")
    >>> private.fit_transform(rows).shape
    (3, 2)
    >>> f"{private.sigma_:.3f}"
    '1.688'
    """

    _last_card: deque[Card]

    def __init__(
        self,
        low: ArrayLike = 0.0,
        high: ArrayLike = 1.0,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        unit: str = "row",
        relation: str = "replace",
        dimension: int | None = None,
        projection: str = "auto",
        row_bound: float | None = None,
        seed: PublicSeed | str | int | None = None,
        ledger: Ledger | str | Path | None = None,
        table_name: str = "table",
    ) -> None:
        self.low = low
        self.high = high
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.dimension = dimension
        self.projection = projection
        self.row_bound = row_bound
        self.seed = seed
        self.ledger = ledger
        self.table_name = table_name

    def fit(self, X: Any, y: Any = None) -> DPProTransformer:
        """Note the number and names of the features and draw the public matrix; no cell is used, nothing is spent."""
        self._checked(X, reset=True)
        one_of(tuple(Unit), unit=self.unit)
        one_of(tuple(Relation), relation=self.relation)
        schema = declared_schema(self._columns(), self.low, self.high)
        budget = Budget(float(self.epsilon), float(self.delta), Unit(self.unit), Relation(self.relation))
        # A copy of a fresh seed has no claim to freshness: the matrix will be used again.
        seed = copy.copy(PublicSeed.fresh() if self.seed is None else self.seed)
        row_bound = None if self.row_bound is None else float(self.row_bound)
        mechanism = DPPro(self.dimension, projection=self.projection)
        plan = api.plan(stand_in(schema), schema, mechanism, budget, seed=seed, row_bound=row_bound)
        (query,), (noise,) = plan.queries.values(), plan.calibrations.values()
        rows = query.per_row
        if rows is None:  # DPPro asks nothing else
            raise TypeError("a projection is a row map")
        chosen = DPPro(rows.dimension, projection=self.projection)
        self._terms = _ProjectionTerms(schema, budget, plan.job.setting.seed, row_bound, chosen)
        self._last_card = deque(maxlen=1)
        self.seed_ = plan.job.setting.seed.hex
        self.matrix_ = rows.matrix * rows.step
        self.sigma_ = noise.event.sd
        return self

    def transform(self, X: Any) -> Reals:
        """Release the rows of X: scaled, projected and noisy, one row for each, in order.

        Every call draws new noise, spends the whole budget on these rows, and is charged to the ledger if there is one.
        """
        check_is_fitted(self)
        rows = self._checked(X, reset=False)
        terms = self._terms
        done = self._release(rows, terms, terms.mechanism, terms.budget)
        self._last_card.append(done.card)
        return np.ascontiguousarray(done.table.to_numpy(), dtype=np.float64)

    @property
    def card_(self) -> Card:
        """The card of the last `transform`: promise, noise, cost for other units; nothing private."""
        # Kept in a holder made by `fit`, because pipelines expect `transform` to set no attribute.
        last: deque[Card] = getattr(self, "_last_card", deque())
        if not last:
            raise AttributeError("card_ belongs to a transform; nothing has been transformed since fit")
        return last[0]

    def squared_distances(self, Z1: ArrayLike, Z2: ArrayLike | None = None) -> Reals:
        """Unbiased estimates of squared distances, in scaled units, between transformed rows: (rows, other rows).

        Without `Z2`, all pairs of `Z1`, with zeros on the diagonal. Estimates can be negative: clipping them at zero
        would push averages up. Single pairs are mostly noise at small epsilon; averages over many pairs are not.
        Post-processing: it costs nothing.
        """
        check_is_fitted(self)
        ours = self._transformed(Z1)
        same = Z2 is None or Z2 is Z1
        others = ours if same else self._transformed(Z2)
        # The noise of two rows adds 2 sd^2 to the square of each coordinate's difference.
        out = np.asarray(cdist(ours, others, "sqeuclidean") - 2.0 * self._n_features_out * self.sigma_**2)
        if same:
            np.fill_diagonal(out, 0.0)
        return out

    @property
    def _n_features_out(self) -> int:
        return int(self.matrix_.shape[1])
