"""How far one row can move tables of several columns, and distances of such tables. Proofs: docs/proofs/pairs.md.

What is stated is a constant, so that cells, tables and weights may follow from earlier answers while the event charged
before is that of what is measured, to the last bit. Each query is worked out here from its whole factors, and one that
could move further than is stated is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from adumbra.declare.guarantee import Relation
from adumbra.numerics.least_products import least_sum
from adumbra.queries.joint_tables import MOST_REPLACED, TABLE_STEP, JointTablesQuery, TableDistances

__all__ = ["joint_moves", "joint_tables", "table_distances"]


def joint_tables(query: JointTablesQuery, space: Any, relation: Relation, norm: str) -> float:
    """How far one row moves the answers of `query` at most, by `relation` and `norm`, whatever the `space`.

    The constant that is stated for all such queries; ValueError for one that could move further.
    """
    if norm == "l1":
        if query.centred:
            raise ValueError("centred tables have no bound in L1: measure plain ones")
        one, two = 1.0, 2.0
    else:
        one, two = 1.0, MOST_REPLACED[query.relation] if query.centred else math.sqrt(2.0)
    moves = joint_moves(query, norm)
    if not (moves[0] <= one and moves[1] <= two):
        raise ValueError("tables that one row can move further than is stated")
    return one if relation is Relation.ADD_REMOVE else two


def joint_moves(query: JointTablesQuery, norm: str) -> tuple[float, float]:
    """How far a row that comes or goes, and one that is replaced, can move the answers of `query` in `norm`.

    The first is exact but for a root, the second an upper bound, and exact for as many columns as are enumerated.
    """
    found = _FOUND.setdefault(query, {})
    made_of = (norm, query.centred, query.factors, query.tables, query.cells.counts)
    if made_of not in found:
        found[made_of] = _centred(query) if query.centred else _plain(query, norm)
    return found[made_of]


_FOUND: WeakKeyDictionary[JointTablesQuery, dict[tuple[Any, ...], tuple[float, float]]] = WeakKeyDictionary()
"""As long as a query lives, which is asked about again and again, and for what it is made of: should that be changed
after all, its bound is worked out anew."""


def _plain(query: JointTablesQuery, norm: str) -> tuple[float, float]:
    """A one in one cell of each table, times its factor; of two rows in the same cell or in two."""
    if norm == "l1":
        one = sum(query.factors) * TABLE_STEP
        return one, 2.0 * one
    one = math.sqrt(Fraction(sum(factor**2 for factor in query.factors)) * Fraction(TABLE_STEP) ** 2)
    return one, math.sqrt(2.0) * one


def _centred(query: JointTablesQuery) -> tuple[float, float]:
    """For one row exactly, in whole numbers; for two from the least inner product they can have."""
    counts = query.cells.counts
    one = Fraction(0)
    squares = []
    for factor, table in zip(query.factors, query.tables, strict=True):
        cells = math.prod(counts[j] for j in table)
        square = Fraction(factor * cells) ** 2 * Fraction(TABLE_STEP) ** 2
        squares.append(float(square))
        one += square * Fraction(math.prod(counts[j] - 1 for j in table), cells)
    apart = 2.0 * (float(one) - least_sum(counts, query.tables, np.array(squares)))
    return math.sqrt(one), math.sqrt(apart)


def table_distances(query: TableDistances, space: Any, relation: Relation, norm: str) -> float:
    """How far one row moves all distances of `query` together, by `relation` and `norm`, whatever the `space`.

    A replaced row takes one from a count of a table and adds one to another: half the L1 distance moves by 1 at most,
    by 1/2 for a row that comes or goes. All of them together, of one weight, by no more, or the query is refused.
    """
    weight, candidates = Fraction(query.weight), len(query.tables)
    together = weight * candidates if norm == "l1" else weight**2 * candidates
    if together > 1:
        raise ValueError("distances that one row can move further than is stated")
    return 0.5 if relation is Relation.ADD_REMOVE else 1.0
