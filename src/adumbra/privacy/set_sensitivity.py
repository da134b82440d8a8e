"""How far one row can move queries of columns whose cells are sets. Proofs: docs/proofs/sums.md and row-map.md.

A cell holds at most `most` of `width` declared values. So it fills at most `filled` = min(width, most) coordinates, and
two cells differ in at most `changed` = min(width, 2 most).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.declare.guarantee import Relation
from adumbra.declare.space import Block, Space
from adumbra.queries.item_totals import ItemsQuery

__all__ = ["furthest_sets", "items"]

Norm = Literal["l1", "l2"]


def items(query: ItemsQuery, space: Space, relation: Relation, norm: Norm) -> float:
    """A row adds 1 to the count of each of its values; an emptied one to none. Exact for any width and `most`.

    `query` names the column, a block of `space`; `relation` says what another row may be; in L2 the root.
    """
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and query.block.keeps)
    counts = query.block.filled if alone else query.block.changed
    return float(counts) if norm == "l1" else math.sqrt(counts)


def furthest_sets(rows: NDArray[Any], block: Block, emptied: bool, norm: Norm) -> float:
    """Bound on the distance of what two sets add up to, of the `rows` of a matrix, one for each value of a `block`.

    The change is the sum of some rows less the sum of others, each at most `most`; with `emptied` there are no others.
    Three bounds hold, and the least is taken: the longest rows, end to end; the matrix's largest singular value times
    the length of the change of coordinates (L2; in L1 times the root of the answer's numbers); and number by number of
    the answer, the largest sums of each sign, which is exact where there is one number.
    """
    count = block.filled if emptied else block.changed
    lengths = np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt(np.square(rows).sum(axis=1))
    ends = float(np.sort(lengths)[::-1][:count].sum())
    small = rows.T @ rows if rows.shape[0] >= rows.shape[1] else rows @ rows.T
    spectral = math.sqrt(max(float(np.linalg.eigvalsh(small)[-1]), 0.0) * count)
    spectral *= math.sqrt(rows.shape[1]) if norm == "l1" else 1.0
    up, down = (_largest(np.maximum(sign * rows, 0.0), block.filled) for sign in (1.0, -1.0))
    numbers = np.maximum(up, down) if emptied else up + down
    by_number = float(numbers.sum()) if norm == "l1" else math.sqrt(float(np.square(numbers).sum()))
    return min(ends, spectral, by_number)


def _largest(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Sums of the largest so many of each column."""
    return np.asarray(np.sort(values, axis=0)[::-1][:count].sum(axis=0))
