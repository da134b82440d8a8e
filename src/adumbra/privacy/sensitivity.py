"""How far one unit can move each query. Sensitivities are written here, those of histograms in `privacy.strategies`.

Every function returns an upper bound that holds for the matrix as rounded, computed from its integers and
nudged outward by `OUTWARD` wherever float64 had a say. Proofs: docs/proofs/row-map.md, docs/proofs/sums.md,
docs/proofs/second-moment.md. Brute force: tests/test_sensitivity.py, tests/test_sums.py and tests/test_second_moment.py
search for a pair of neighbours that exceeds the bound, and check that the known worst pair comes close.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.core.centred import Centred
from adumbra.core.errors import InputError
from adumbra.core.guarantee import Neighbours, Relation, Unit
from adumbra.core.histogram import Histogram, TailChoice, TailSize
from adumbra.core.query import RowMap
from adumbra.core.space import CATEGORY_STEPS, GRID, Block, Space
from adumbra.core.sums import CentreScale, Count, Gram, GramTimes, Moments, RowsAndGram, Sum, Tables, Total
from adumbra.privacy.strategies import histogram, tail_choice, tail_size

__all__ = ["OUTWARD", "Query", "bounds", "row_distance", "sensitivity"]

Query = RowMap | RowsAndGram | Sum

OUTWARD = 1.0 + 1e-9
"""Covers the rounding of float64 square roots and of the symmetric eigensolver (relative error below 1e-12)."""

_BOX_COORDINATES = 2000
"""Above this width the pairwise (d x d) bound is not worth its memory; the spectral one is used alone."""

_BOX_CATEGORIES = 120

Norm = Literal["l1", "l2"]
Matrix = NDArray[np.float64]


def sensitivity(query: Query, space: Space, neighbours: Neighbours, norm: Norm = "l2") -> float:
    """Largest change of the answer between neighbours, in the units of the measured vector (`core.sums`: weighted).

    A row map answers row by row, so the number of rows is part of its answer: it refuses `add-remove` by name.
    """
    if neighbours.unit is Unit.CELL and not isinstance(query, RowMap):
        # Changing a cell changes a row, so the bound for rows holds for cells. Emptying a cell does not empty the row:
        # it may be clipped to another, or change its class.
        neighbours = Neighbours(Unit.ROW, Relation.REPLACE)
    if isinstance(query, Sum):
        return _SUMS[type(query)](query, space, neighbours.relation, norm) * OUTWARD
    if neighbours.relation is Relation.ADD_REMOVE:
        raise InputError(
            "a relation under which the number of rows is public (replace or zero-out)",
            "relation add-remove for a row map, which publishes one row per person and so the row count",
            "use --relation replace, or a mechanism that releases no row per person",
        )
    if isinstance(query, RowsAndGram):
        return _rows_and_gram(query, space, neighbours.relation, norm) * OUTWARD
    if query.view is not None:
        return _of_view(query, query.view, space, neighbours, norm) * OUTWARD
    rounded = query.matrix.astype(np.float64)
    if neighbours.unit is Unit.ROW:
        bound = _row(rounded, space, neighbours.relation, norm)
    elif space.row_bound is None:
        bound = float(_cells(rounded, space, neighbours.relation, norm).max(initial=0.0))
    else:
        # Changing or emptying one cell of a clipped row turns the whole row: any two clipped rows may come out.
        bound = _row(rounded, space, Relation.REPLACE, norm)
    return bound * query.answer_step * OUTWARD


def bounds(query: Query, space: Space, norm: Norm) -> dict[str, float]:
    """Sensitivity for every pair of neighbours that has one; the others cost infinity and are left out."""
    summed = isinstance(query, Sum)
    finite = (n for n in Neighbours.every() if summed or n.relation is not Relation.ADD_REMOVE)
    return {str(n): sensitivity(query, space, n, norm) for n in finite}


def row_distance(space: Space, relation: Relation) -> float:
    """Largest L2 distance, in encoded units, between a row and its neighbour (before any map)."""
    return (space.emptied if relation is Relation.ZERO_OUT else space.span) / GRID * OUTWARD


def _of_view(query: RowMap, view: Centred, space: Space, neighbours: Neighbours, norm: Norm) -> float:
    """Rows are cut to a ball, which takes no two of them further apart, and no map of this kind lengthens a difference.

    Whole steps: a cut row is within one step in each coordinate (and a hair) of where the ball has it.
    """
    emptied = neighbours.relation is Relation.ZERO_OUT
    if neighbours.unit is Unit.ROW or space.row_bound is not None:  # a clipped row is another row
        apart = space.emptied if emptied and neighbours.unit is Unit.ROW else space.span
    else:
        squares = (block.emptied_squared if emptied else block.span_squared for block in space.blocks)
        apart = math.sqrt(max(squares, default=0))
    alone = neighbours.unit is Unit.ROW and emptied and _empties(view, space)
    moved = min(view.bound * (1.0 if alone else 2.0), apart + 2.0 * (math.sqrt(space.width) + 1.0)) / GRID
    return moved * (math.sqrt(query.dimension) if norm == "l1" else 1.0)


def _cells(matrix: Matrix, space: Space, relation: Relation, norm: Norm) -> Matrix:
    """For each column, how far the answer moves when only that cell changes (in integer steps)."""
    stretch = np.array([_stretch(block, relation) for block in space.blocks], dtype=np.float64)
    out: Matrix = np.maximum.reduceat(_norms(matrix, norm), space.starts) * stretch
    for index, block in enumerate(space.blocks):
        # An emptied category without a fallback moves by one row of the matrix, which is what `out` holds already.
        if block.kind == "category" and (relation is Relation.REPLACE or block.fallback is not None):
            out[index] = CATEGORY_STEPS * _widest_pair(matrix[block.start : block.stop], norm)
    return out


def _norms(rows: Matrix, norm: Norm) -> Matrix:
    if norm == "l1":
        return np.asarray(np.abs(rows).sum(axis=1))
    return np.asarray(np.sqrt(np.square(rows).sum(axis=1)))


def _widest_pair(rows: Matrix, norm: Norm) -> float:
    """Largest distance between two rows of a block, the zero row (empty cell) among them."""
    lengths = _norms(rows, norm)
    longest = float(lengths.max())
    if len(rows) > 4096:  # the pairwise table would not pay: a pair is at most twice the longest row apart
        return 2.0 * longest
    widest = longest
    for row in rows:
        widest = max(widest, float(_norms(rows - row, norm).max()))
    return widest


def _row(matrix: Matrix, space: Space, relation: Relation, norm: Norm) -> float:
    """Smallest of the valid bounds on the change of one whole row's answer (in integer steps)."""
    if not space.blocks:
        return 0.0
    distance = space.emptied if relation is Relation.ZERO_OUT else space.span
    spectral = distance * _operator_norm(matrix)
    if norm == "l1":
        # |v|_1 <= sqrt(k) |v|_2, and the triangle inequality over the cells
        spectral *= math.sqrt(matrix.shape[1])
        return float(min(spectral, _cells(matrix, space, relation, norm).sum()))
    cells = _cells(matrix, space, relation, norm)
    if space.has_fallback:  # emptying is then one replacement among others
        relation = Relation.REPLACE
    return float(min(spectral, cells.sum(), _box(matrix, space, relation, cells)))


def _operator_norm(matrix: Matrix) -> float:
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return math.sqrt(max(float(np.linalg.eigvalsh(small)[-1]), 0.0))


def _box(matrix: Matrix, space: Space, relation: Relation, cells: Matrix) -> float:
    """`sqrt(sum over pairs of columns of the largest |<change of a, change of b>|)`.

    The change of a row is the sum of its cells' changes, so its squared norm is the sum of their inner products;
    each is bounded on its own, and by Cauchy-Schwarz never above `cells[a] * cells[b]`.
    """
    categories = [i for i, b in enumerate(space.blocks) if b.kind == "category"]
    if space.width > _BOX_COORDINATES or len(categories) > _BOX_CATEGORIES:
        return math.inf
    gram = matrix @ matrix.T
    count = len(space.blocks)
    limit = np.outer(cells, cells)
    if not categories:
        stretch = np.array([_stretch(b, relation) for b in space.blocks], dtype=float)
        return math.sqrt(float(np.minimum(np.abs(gram) * np.outer(stretch, stretch), limit).sum()))
    reach = np.array([_stretch(b, relation) for b in space.blocks], dtype=float)
    # Between plain columns: |G| times both ranges. For categories: spread of G over the block's values, with
    # the empty cell (0) among them, in each direction in turn.
    low = np.minimum(np.minimum.reduceat(gram, space.starts, axis=0), 0.0)
    high = np.maximum(np.maximum.reduceat(gram, space.starts, axis=0), 0.0)
    if relation is Relation.ZERO_OUT:
        side = np.maximum(high, -low)  # one value against empty
    else:
        plain = np.array([b.kind != "category" for b in space.blocks])
        side = np.where(plain[:, None], np.maximum(high, -low), high - low)
    pairs = np.empty((count, count))
    for index, block in enumerate(space.blocks):
        columns = side[:, block.start : block.stop]
        widest = columns.max(axis=1)
        if block.kind == "category" and relation is Relation.REPLACE:
            widest = 2.0 * widest  # a difference of two values; sharpened below where both are categories
        pairs[:, index] = widest * reach[index] * reach
    if relation is Relation.REPLACE:
        for a in categories:
            for b in categories:
                pairs[a, b] = min(pairs[a, b], _category_pair(gram, space.blocks[a], space.blocks[b]))
        plain_index = [i for i in range(count) if i not in set(categories)]
        for a in categories:  # the transposed table already has the sharp value for plain against category
            pairs[plain_index, a] = np.minimum(pairs[plain_index, a], pairs[a, plain_index])
    return math.sqrt(float(np.minimum(pairs, limit).sum()))


def _stretch(block: Block, relation: Relation) -> int:
    if block.kind == "category":
        return CATEGORY_STEPS
    return block.emptied if relation is Relation.ZERO_OUT else GRID


def _category_pair(gram: Matrix, a: Block, b: Block) -> float:
    """Largest |<R_i - R_l, R_p - R_q>| over i, l in one category and p, q in the other, in integer steps."""
    if a.width * a.width * b.width > 200_000:
        return math.inf
    inner = np.pad(gram[a.start : a.stop, b.start : b.stop], ((0, 1), (0, 1)))  # the empty cell of each
    change = inner[:, None, :] - inner[None, :, :]
    return float((change.max(axis=2) - change.min(axis=2)).max()) * CATEGORY_STEPS**2


def _tables(query: Tables, space: Space, relation: Relation, norm: Norm) -> float:
    """Every column puts a one in one cell of each table; ones of two rows are in the same cell or in two."""
    columns = len(query.cells.blocks)
    if norm == "l1":
        return columns * (query.pooled + query.grouped) * _twice(relation)
    return math.sqrt(columns * (query.pooled**2 + query.grouped**2) * _twice(relation))


def _centre_scale(query: CentreScale, space: Space, relation: Relation, norm: Norm) -> float:
    """For x, y in [-1, 1]: |(x, x^2) - (y, y^2)|_2 <= 2 and |.|_1 <= 9/4; a value that changes moves two cells."""
    numbers = sum(block.kind == "number" for block in query.blocks)
    others = len(query.blocks) - numbers
    if norm == "l1":
        return numbers * 2.25 + others * 2.0 * math.sqrt(2.0)  # add-remove: 2 and sqrt(2), less than this
    return math.sqrt(len(query.blocks) * 2.0 * _twice(relation))


def _moments(query: Moments, space: Space, relation: Relation, norm: Norm) -> float:
    """Supremum over pairs of scores in the unit ball and of classes (docs/proofs/sums.md).

    Two rows of different classes: at most 2 (a^2 + b^2 + g^2), at orthogonal unit scores. Two of one class, with unit
    scores at inner product t: 2 b^2 (1 - t) + 2 g^2 (1 - t^2), largest at t = -b^2 / (2 g^2) or at -1.
    """
    a, b, g, d = query.counts, query.sums, query.second, query.scores.dimension
    if norm == "l1":
        second = _triangle_l1(d, math.sqrt(2.0), relation is Relation.ADD_REMOVE or query.by_class)
        return (a + b * math.sqrt(d)) * _twice(relation) + g * second * (_twice(relation) if query.by_class else 1.0)
    if relation is Relation.ADD_REMOVE:
        return math.sqrt(a * a + b * b + g * g)
    same = 4 * b * b if b * b >= 2 * g * g else 2 * b * b + 2 * g * g + b**4 / (2 * g * g)
    different = 2 * (a * a + b * b + g * g) if query.groups is not None else 0.0
    return math.sqrt(max(same, different))


def _empties(view: Centred | None, space: Space) -> bool:
    """Whether an emptied row adds nothing."""
    return not space.has_fallback and (view is None or view.keeps_empty)


def _total(query: Total, space: Space, relation: Relation, norm: Norm) -> float:
    """The row itself. A category fills one coordinate of a row, so two rows differ in at most two of its places."""
    moved = {Relation.REPLACE: space.span, Relation.ZERO_OUT: space.emptied, Relation.ADD_REMOVE: space.reach}[relation]
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and not space.has_fallback)
    places = sum(min(block.width, 1 if alone else 2) for block in space.blocks)
    return moved / GRID * (math.sqrt(places) if norm == "l1" else 1.0)


def _gram(query: Gram, space: Space, relation: Relation, norm: Norm) -> float:
    """|xx' - yy'|^2 = |x|^4 + |y|^4 - 2 <x,y>^2: at most twice the fourth power of the bound."""
    bound = (space.reach if query.view is None else query.view.bound) / GRID
    one = query.weight * bound**2
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and _empties(query.view, space))
    if norm == "l1":
        if query.groups is None:
            return one * _triangle_l1(query.width, query.off_diagonal, alone)
        # one class loses a row's triangle, another wins one
        return one * _triangle_l1(query.width, query.off_diagonal, alone=True) * (1.0 if alone else 2.0)
    single = query.width == 1 and query.groups is None  # one square, between 0 and the bound's
    return one if alone or single else math.sqrt(2.0) * one


def _gram_times(query: GramTimes, space: Space, relation: Relation, norm: Norm) -> float:
    """(xx' - yy') Q for a Q that lengthens nothing, plus what cutting xQ to its grid can add for either row.

    xx' - yy' has one eigenvalue in [0, r^2] and one in [-r^2, 0]: norm at most r^2, Frobenius norm at most sqrt(2) r^2.
    """
    width, directions = (int(n) for n in query.basis.shape)
    bound = query.view.bound / GRID
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and _empties(query.view, space))
    # one row adds |x| |t|, and cutting towards zero makes t no longer than x Q
    cut = 0.0 if alone else 2.0 * bound * (query.coarse / GRID) * math.sqrt(directions)
    whole = bound**2 * (1.0 if alone or directions == 1 else math.sqrt(2.0)) + cut
    return whole * (math.sqrt(width * directions) if norm == "l1" else 1.0)


def _rows_and_gram(query: RowsAndGram, space: Space, relation: Relation, norm: Norm) -> float:
    """Both at the same pair: antipodal rows, the worst for the map, leave the second moment as it was.

    With s = |R|^2, unit rows at inner product -t and w = second^2 bound^2: s (2 + 2t) + 2w (1 - t^2).
    """
    if query.map.view is not None:  # both halves would then see different rows, for which nothing is proved
        raise ValueError("rows beside a second moment are taken as they are, without a view")
    row = Neighbours(Unit.ROW, relation)
    if norm == "l1":
        return sensitivity(query.map, space, row, norm) + _gram(query.gram, space, relation, norm)
    apart = math.hypot(sensitivity(query.map, space, row), _gram(query.gram, space, relation, norm))
    bound = space.reach / GRID
    s = (_operator_norm(query.map.matrix.astype(np.float64)) * query.map.step) ** 2
    w = (query.second * bound) ** 2
    if relation is Relation.ZERO_OUT and not space.has_fallback:
        return min(apart, bound * math.sqrt(s + w))
    return min(apart, bound * math.sqrt(4 * s if w <= s / 2 else 2 * s + 2 * w + s * s / (2 * w)))


def _count(query: Count, space: Space, relation: Relation, norm: Norm) -> float:
    return 1.0 if relation is Relation.ADD_REMOVE else 0.0


def _twice(relation: Relation) -> float:
    """A replaced row takes its features away and brings others; an emptied one brings those of an empty row."""
    return 1.0 if relation is Relation.ADD_REMOVE else 2.0


def _triangle_l1(width: int, off_diagonal: float, alone: bool) -> float:
    """Largest sum over the triangle of |xx' - yy'|, entries off the diagonal counting `off_diagonal` each; unit rows.

    One row alone: |x|^2 + off (|x|_1^2 - |x|^2) / 2, with |x|_1^2 <= width. Two rows: the largest spread of eigenvalues
    of W over signs of its entries, 1 on the diagonal and off/2 beside it, at most sqrt(2) |W| (Frobenius).
    """
    one = 1.0 + off_diagonal * (width - 1) / 2
    if alone or width == 1:  # a single square lies between 0 and 1
        return one
    return min(2.0 * one, math.sqrt(2.0 * (width + width * (width - 1) * off_diagonal**2 / 4)))


_SUMS: dict[type, Callable[[Any, Space, Relation, Norm], float]] = {
    CentreScale: _centre_scale,
    Count: _count,
    Gram: _gram,
    GramTimes: _gram_times,
    Histogram: histogram,
    Moments: _moments,
    Tables: _tables,
    TailChoice: tail_choice,
    TailSize: tail_size,
    Total: _total,
}
