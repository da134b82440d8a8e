"""What both estimators ask of their caller: rows of numbers, and bounds that are declared, not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from adumbra import Release, api
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.declare.column import Column
from adumbra.declare.guarantee import Budget
from adumbra.declare.schema import Schema, TableInfo
from adumbra.families.contract import Mechanism

__all__ = ["DeclaredRows", "Settled", "declared_schema", "stand_in"]


# How messages of scikit-learn begin that name shapes, column names or types. Others may quote cells (text that is
# no number, a whole array of one dimension) and are replaced.
_NO_CELLS = (
    "Found array with",
    "Input X contains",
    "X has ",
    "The feature names",
    "Expected a 2-dimensional container",
)


class _NotATable(InputError, ValueError):
    """Bad rows; a ValueError too, since that is what callers of an estimator catch."""


@dataclass(frozen=True)
class Settled:
    """What `fit` settled, all of it public. Parameters set afterwards wait for the next `fit`."""

    schema: Schema
    budget: Budget
    seed: PublicSeed | str | int | None
    row_bound: float | None


class DeclaredRows(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]  # the same
    BaseEstimator,  # type: ignore[misc]  # the same
):
    """A transformer whose rows are checked without a word about their cells."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _checked(self, X: Any, *, reset: bool) -> Reals:
        try:
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64), dtype=np.float64)
        except ValueError as error:
            if str(error).startswith(_NO_CELLS):
                raise
        raise _NotATable(
            "a table of real numbers in two dimensions, a row for each person and a column for each feature",
            "text, complex numbers or another shape",
            "turn text into numbers; Complex data not supported; Reshape your data if it has one dimension",
        )

    def _columns(self) -> list[str]:
        """Names for the card: the features' own where they can serve."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        usable = bool(names) and all(names) and len(set(names)) == len(names)
        return names if usable else [f"x{i}" for i in range(self.n_features_in_)]

    def _release(self, rows: Reals, terms: Settled, mechanism: Mechanism, budget: Budget) -> Release:
        """Release `rows` in memory by a `mechanism` under a `budget`, on the `terms` of the last `fit`."""
        return api.release(
            rows,
            terms.schema,
            mechanism,
            budget,
            ledger=self.ledger,
            seed=terms.seed,
            row_bound=terms.row_bound,
            name=self.table_name,
        )

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    def _transformed(self, Z: Any) -> Reals:
        """Rows as `transform` returns them, or a refusal that quotes none of them."""
        try:
            rows = np.asarray(Z, dtype=np.float64)
        except (TypeError, ValueError):
            rows = np.empty(())
        if rows.ndim != 2 or rows.shape[1] != self._n_features_out:
            raise InputError(
                f"transformed rows of {self._n_features_out} numbers",
                f"shape {rows.shape}" if rows.ndim else "something else",
                "pass what this estimator's transform returned",
            )
        return rows


def stand_in(schema: Schema) -> Reals:
    """One made-up row of declared bounds: what is planned with it cannot depend on a private row."""
    return np.array([[column.low for column in schema.columns]], dtype=np.float64)


def declared_schema(names: list[str], low: ArrayLike, high: ArrayLike) -> Schema:
    """Number columns called `names`, with the declared bounds `low` and `high`: one for all, or one for each."""
    lows, highs = (_each(len(names), **bound) for bound in ({"low": low}, {"high": high}))
    for name, a, b in zip(names, lows, highs, strict=True):
        if not (np.isfinite(a) and np.isfinite(b) and a < b):
            raise InputError(
                f"finite bounds low < high for feature {name}", f"low = {a:g}, high = {b:g}", "declare its public range"
            )
    return Schema(
        TableInfo(),
        tuple(Column(n, "number", low=float(a), high=float(b)) for n, a, b in zip(names, lows, highs, strict=True)),
    )


def _each(count: int, **named: ArrayLike) -> Reals:
    """One bound for each feature, from one number or one for each."""
    ((name, bound),) = named.items()
    try:
        values = np.asarray(bound, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty((0, 0))
    if values.shape not in ((), (count,)):
        raise InputError(
            f"{name} as one number, or {count} numbers, one for each feature",
            "something else" if values.ndim == 2 else f"shape {values.shape}",
            f"declare the public bounds of the features in {name}",
        )
    return np.broadcast_to(values, (count,))
