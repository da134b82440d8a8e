"""How far one unit can move each query; histograms: `privacy.strategy_sensitivity`, joint tables: `joint_sensitivity`.

Every function returns an upper bound that holds for the matrix as rounded, computed from its integers and
nudged outward by `OUTWARD` wherever float64 had a say. Proofs: docs/proofs/row-map.md, sums.md, second-moment.md.
Brute force: tests/privacy/test_sensitivity.py, tests/queries/test_sums.py and tests/queries/test_second_moment.py
search for a pair of neighbours that exceeds the bound, and check that the known worst pair comes close.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, Block, Space
from adumbra.privacy.joint_sensitivity import joint_tables, table_distances
from adumbra.privacy.set_sensitivity import furthest_sets, items
from adumbra.privacy.strategy_sensitivity import histogram, tail_choice, tail_size
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.histograms import HistogramQuery, TailChoice, TailSize
from adumbra.queries.item_totals import ItemsQuery
from adumbra.queries.joint_tables import JointCells, JointTablesQuery, TableDistances
from adumbra.queries.query import Query
from adumbra.queries.row_map import RowClip, RowMap
from adumbra.queries.scores import Linear, Lookup, Residuals, Scores
from adumbra.queries.second_moment import Gram, GramTimes, MomentsQuery, RowsAndGram
from adumbra.queries.sums import CentreScale, Count, TablesQuery, Total

__all__ = ["OUTWARD", "bounds", "row_distance", "sensitivity"]

OUTWARD = 1.0 + 1e-9
"""Covers the rounding of float64 square roots and of the symmetric eigensolver (relative error below 1e-12)."""

_BOX_COORDINATES = 2000
"""Above this width the pairwise (d x d) bound is not worth its memory; the spectral one is used alone."""

_BOX_CATEGORIES = 120

Norm = Literal["l1", "l2"]
Matrix = NDArray[np.float64]


def sensitivity(query: Query, space: Space, neighbours: Neighbours, norm: Norm = "l2") -> float:
    """Largest change of the answer to `query` between `neighbours`, for rows of `space`, in `norm`.

    In the units of the measured vector (`queries.sums`: weighted). The bound is that of the query's very type, and of
    the very types it is made of: one that is not in the tables at the end of this file has none, and so gets no noise.
    A query that answers row by row
    has the number of rows for a part of its answer: it refuses `add-remove` by name.
    """
    if type(query) not in _OF_A_ROW:
        raise TypeError(f"no bound is known for {type(query).__name__}")
    _check_made_of(query)
    if neighbours.unit is Unit.CELL and type(query) in _OF_A_CELL:
        return _OF_A_CELL[type(query)](query, space, neighbours.relation, norm) * OUTWARD
    if neighbours.unit is Unit.CELL:
        # Changing a cell changes a row, so the bound for rows holds for cells. Emptying a cell does not empty the row:
        # it may be clipped to another, or change its class.
        neighbours = Neighbours(Unit.ROW, Relation.REPLACE)
    if query.per_row is not None and neighbours.relation is Relation.ADD_REMOVE:
        raise InputError(
            "a relation under which the number of rows is public (replace or zero-out)",
            "relation add-remove for a row map, which publishes one row per person and so the row count",
            "use --relation replace, or a mechanism that releases no row per person",
        )
    return _OF_A_ROW[type(query)](query, space, neighbours.relation, norm) * OUTWARD


def _check_made_of(whole: Any) -> None:
    """Refuse what a query is made of if it is a variant of what the bounds were proved for: it may clip otherwise."""
    for field in fields(whole):
        value = getattr(whole, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, _MADE_OF):
                if type(part) not in _MADE_OF:
                    raise TypeError(f"no bound is known for a query made of {type(part).__name__}")
                _check_made_of(part)


def bounds(query: Query, space: Space, norm: Norm) -> dict[str, float]:
    """Sensitivity of `query` in `norm` for every pair of neighbours that has one, for rows of `space`.

    The others cost infinity and are left out.
    """
    finite = (n for n in Neighbours.every() if query.per_row is None or n.relation is not Relation.ADD_REMOVE)
    return {str(n): sensitivity(query, space, n, norm) for n in finite}


def row_distance(space: Space, relation: Relation) -> float:
    """Largest L2 distance, in encoded units, between a row and its neighbour (before any map)."""
    return (space.emptied if relation is Relation.ZERO_OUT else space.span) / GRID * OUTWARD


def _row_map(query: RowMap, space: Space, relation: Relation, norm: Norm) -> float:
    if query.clip is not None:
        # a row that was clipped to the row bound is another row
        apart = space.emptied if relation is Relation.ZERO_OUT else space.span
        alone = relation is Relation.ZERO_OUT and _empties(query.clip, space)
        return _clipped_map(query, query.clip, space, apart, alone, norm)
    return _row(query.matrix.astype(np.float64), space, relation, norm) * query.answer_step


def _row_map_cell(query: RowMap, space: Space, relation: Relation, norm: Norm) -> float:
    if query.clip is not None:
        if space.row_bound is not None:
            return _clipped_map(query, query.clip, space, space.span, False, norm)
        emptied = relation is Relation.ZERO_OUT
        squares = (block.emptied_squared if emptied else block.span_squared for block in space.blocks)
        return _clipped_map(query, query.clip, space, math.sqrt(max(squares, default=0)), False, norm)
    rounded = query.matrix.astype(np.float64)
    if space.row_bound is not None:
        # Changing or emptying one cell of a clipped row turns the whole row: any two clipped rows may come out.
        return _row(rounded, space, Relation.REPLACE, norm) * query.answer_step
    return float(_cells(rounded, space, relation, norm).max(initial=0.0)) * query.answer_step


def _clipped_map(query: RowMap, clip: RowClip, space: Space, apart: float, alone: bool, norm: Norm) -> float:
    """Rows are clipped to a ball, which takes no two of them further apart, and no such map lengthens a difference.

    Two rows are at most `apart` before they are clipped; `alone` says that one of them is 0 afterwards. Whole steps: a
    clipped row is within one step in each coordinate, and one more for float64, of where the ball has it.
    """
    moved = min(clip.bound * (1.0 if alone else 2.0), apart + 2.0 * (math.sqrt(space.width) + 1.0)) / GRID
    return moved * (math.sqrt(query.dimension) if norm == "l1" else 1.0)


def _cells(matrix: Matrix, space: Space, relation: Relation, norm: Norm) -> Matrix:
    """For each column, how far the answer moves when only that cell changes (in integer steps)."""
    stretch = np.array([_stretch(block, relation) for block in space.blocks], dtype=np.float64)
    out: Matrix = np.maximum.reduceat(_norms(matrix, norm), space.starts) * stretch
    for index, block in enumerate(space.blocks):
        if block.kind == "set":
            emptied = relation is Relation.ZERO_OUT and block.keeps
            out[index] = block.steps * furthest_sets(matrix[block.start : block.stop], block, emptied, norm)
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
    categories = [i for i, b in enumerate(space.blocks) if b.by_place]
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
        plain = np.array([not b.by_place for b in space.blocks])
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
    sets = [i for i, b in enumerate(space.blocks) if b.kind == "set"]
    pairs[sets, :] = pairs[:, sets] = math.inf  # several values at once: only the limit holds
    return math.sqrt(float(np.minimum(pairs, limit).sum()))


def _stretch(block: Block, relation: Relation) -> int:
    if block.by_place:
        return block.steps
    return block.emptied if relation is Relation.ZERO_OUT else GRID


def _category_pair(gram: Matrix, a: Block, b: Block) -> float:
    """Largest |<R_i - R_l, R_p - R_q>| over i, l in one category and p, q in the other, in integer steps."""
    if a.width * a.width * b.width > 200_000:
        return math.inf
    inner = np.pad(gram[a.start : a.stop, b.start : b.stop], ((0, 1), (0, 1)))  # the empty cell of each
    change = inner[:, None, :] - inner[None, :, :]
    return float((change.max(axis=2) - change.min(axis=2)).max()) * CATEGORY_STEPS**2


def _tables(query: TablesQuery, space: Space, relation: Relation, norm: Norm) -> float:
    """Every column puts a one in one cell of each table; ones of two rows are in the same cell or in two.

    `hypot` has weights that share one budget (sqrt(1/2) and sqrt(1/2)) cost what the whole does, to the last bit: a
    later measurement may be split as the noisy number of rows suggests, and what it costs was charged before.
    """
    columns = len(query.cells.blocks)
    if norm == "l1":
        return columns * (query.pooled + query.grouped) * _twice(relation)
    return math.hypot(query.pooled, query.grouped) * math.sqrt(columns * _twice(relation))


def _centre_scale(query: CentreScale, space: Space, relation: Relation, norm: Norm) -> float:
    """For x, y in [-1, 1]: |(x, x^2) - (y, y^2)|_2 <= 2 and |.|_1 <= 9/4; a value that changes moves two cells.

    A number that is emptied, or whose row comes or goes, moves (x, x^2, w): at most sqrt(2 + w^2), and 2 + w.
    """
    counted, w = len(query.counted), query.present
    numbers = sum(block.kind == "number" for block in query.blocks) - counted
    others = len(query.blocks) - numbers - counted
    if norm == "l1":  # of flags and categories under add-remove half, and of numbers 2: less than this
        return numbers * 2.25 + counted * max(2.25, 2.0 + w) + others * 2.0 * math.sqrt(2.0)
    replaced = relation is not Relation.ADD_REMOVE
    one = max(4.0, 2.0 + w * w) if replaced else 2.0 + w * w
    return math.sqrt((numbers + others) * 2.0 * _twice(relation) + counted * one)


def _moments(query: MomentsQuery, space: Space, relation: Relation, norm: Norm) -> float:
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


def _empties(clip: RowClip | None, space: Space) -> bool:
    """Whether an emptied row adds nothing."""
    return not space.has_fallback and (clip is None or clip.keeps_empty)


def _total(query: Total, space: Space, relation: Relation, norm: Norm) -> float:
    """The row itself. A category fills one coordinate of a row, so two rows differ in at most two of its places.

    A set fills as many as it can hold.
    """
    moved = {Relation.REPLACE: space.span, Relation.ZERO_OUT: space.emptied, Relation.ADD_REMOVE: space.reach}[relation]
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and not space.has_fallback)
    places = sum(block.filled if alone else block.changed for block in space.blocks)
    return moved / GRID * (math.sqrt(places) if norm == "l1" else 1.0)


def _gram(query: Gram, space: Space, relation: Relation, norm: Norm) -> float:
    """|xx' - yy'|^2 = |x|^4 + |y|^4 - 2 <x,y>^2: at most twice the fourth power of the bound."""
    bound = (space.reach if query.clip is None else query.clip.bound) / GRID
    one = query.weight * bound**2
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and _empties(query.clip, space))
    if norm == "l1":
        if query.groups is None:
            return one * _triangle_l1(query.width, query.off_diagonal, alone)
        # one class loses a row's triangle, another wins one
        return one * _triangle_l1(query.width, query.off_diagonal, alone=True) * (1.0 if alone else 2.0)
    single = query.width == 1 and query.groups is None  # one square, between 0 and the bound's
    return one if alone or single else math.sqrt(2.0) * one


def _gram_times(query: GramTimes, space: Space, relation: Relation, norm: Norm) -> float:
    """(xx' - yy') Q for a Q that lengthens nothing, plus what rounding xQ to its grid can add for either row.

    xx' - yy' has one eigenvalue in [0, r^2] and one in [-r^2, 0]: norm at most r^2, Frobenius norm at most sqrt(2) r^2.
    """
    width, directions = (int(n) for n in query.basis.shape)
    bound = query.clip.bound / GRID
    alone = relation is Relation.ADD_REMOVE or (relation is Relation.ZERO_OUT and _empties(query.clip, space))
    # one row adds |x| |t|, and rounding towards zero makes t no longer than x Q
    rounding = 0.0 if alone else 2.0 * bound * (query.coarse / GRID) * math.sqrt(directions)
    whole = bound**2 * (1.0 if alone or directions == 1 else math.sqrt(2.0)) + rounding
    return whole * (math.sqrt(width * directions) if norm == "l1" else 1.0)


def _rows_and_gram(query: RowsAndGram, space: Space, relation: Relation, norm: Norm) -> float:
    """Both at the same pair: antipodal rows, the worst for the map, leave the second moment as it was.

    With s = |R|^2, unit rows at inner product -t and w = second^2 bound^2: s (2 + 2t) + 2w (1 - t^2).
    """
    if query.map.clip is not None:  # both halves would then see different rows, for which nothing is proved
        raise ValueError("rows beside a second moment are taken as they are, not clipped once more")
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


Bound = Callable[[Any, Space, Relation, Norm], float]

_OF_A_ROW: dict[type[Query], Bound] = {
    CentreScale: _centre_scale,
    Count: _count,
    Gram: _gram,
    GramTimes: _gram_times,
    HistogramQuery: histogram,
    ItemsQuery: items,
    JointTablesQuery: joint_tables,
    MomentsQuery: _moments,
    RowMap: _row_map,
    RowsAndGram: _rows_and_gram,
    TableDistances: table_distances,
    TablesQuery: _tables,
    TailChoice: tail_choice,
    TailSize: tail_size,
    Total: _total,
}
"""The one place that says how far a row can move each type of query."""

_OF_A_CELL: dict[type[Query], Bound] = {RowMap: _row_map_cell}
"""Types that have a bound of their own for a cell; for others that of a replaced row holds."""

_MADE_OF = (Cells, Gram, Groups, JointCells, Linear, Lookup, Residuals, RowClip, RowMap, Scores)
"""What queries are made of, and all that they count on when a row is clipped, counted or scored."""
