"""Joint tables and their distances: no neighbour moves them further than is stated, and the worst one as far.

Searches work on the whole numbers of tables with and without a row, among other rows, times step and weight.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, HALF
from adumbra.numerics import least_products
from adumbra.privacy import joint_sensitivity, sensitivity
from adumbra.privacy.meter import Meter
from adumbra.queries.cells import Cells
from adumbra.queries.joint_tables import TABLE_STEP, JointCells, JointTablesQuery, TableDistances
from tests.queries.test_joint_tables import SMALL, every, joint, tables_of, weights_for
from tests.queries.test_sums import (
    bounded,
    cell_of,
    empty_cell,
    empty_row,
    measured_vector,
    private,
    raw_rows,
    space_of,
)

# by hand: what is stated in L2 for centred tables made for a relation, when a row comes or goes and when it is replaced
STATED = {
    Relation.ADD_REMOVE: (1.0, 1.5),
    Relation.REPLACE: (1.0, math.sqrt(2)),
    Relation.ZERO_OUT: (1.0, math.sqrt(2)),
}
# name -> kinds of columns, joint cells (None: as they are), whether there are triples with the first column
SPACES = {
    "flags": (["flag=1"] * 5, None, False),
    "flags with a label": (["flag=1"] * 4, None, True),
    "two flags": (["flag=1"] * 2, None, False),
    "categories": (["category:4=0", "category:3=0", "category:2=1"], None, True),
    "all kinds, missing": (["flag", "category:2", "number:2"], None, True),
    "merged": (
        ["category:5", "number:4=1", "flag"],
        (np.array([0, 1, 1, 2, 2, 0]), np.array([0, 0, 0, 1]), None),
        True,
    ),
    "one cell": (["flag=1", "category:3", "flag=1"], (np.array([0, 0]), None, None), True),
}


def cell_values(block, cells, index):
    """One encoded value for every cell of a column, that of an empty one last where there is one."""
    for value in range(cells.counts[index]):
        cell = np.zeros(block.width)
        if block.kind == "category":
            cell[value] = CATEGORY_STEPS
        else:
            low, high = cells.edges(index)[value : value + 2]
            middle = (low + high) / 2 if block.kind == "number" else (-HALF, HALF)[value]
            cell[0] = np.rint(middle) or 1.0
        yield cell
    if cells.missing[index]:
        yield np.zeros(block.width)


def every_row(space, cells) -> np.ndarray:
    """A row for every combination of cells, before any are merged."""
    each = [list(cell_values(block, cells, index)) for index, block in enumerate(space.blocks)]
    return np.array([np.concatenate(some) for some in itertools.product(*each)])


def case(name, relation, centred=True):
    kinds, merged, labelled = SPACES[name]
    space = space_of(*kinds)
    cells = JointCells(Cells.even(space.blocks, 2, missing=True), merged or (None,) * len(kinds))
    tables = tables_of(len(kinds), 0 if labelled else None)
    return JointTablesQuery(cells, tables, weights_for(tables, 1), relation, centred), space


def moved(query, rows, among) -> np.ndarray:
    """What each row adds to the measured vector of a table of other rows."""
    without = measured_vector(query, among)
    return np.array([measured_vector(query, np.vstack([among, row])) - without for row in rows])


def furthest(found, norm="l2") -> tuple[float, float]:
    """The largest size of one row's move, and of the difference of two."""
    if norm == "l1":
        return np.abs(found).sum(axis=1).max(), max(np.abs(found - one).sum(axis=1).max() for one in found)
    squares = np.square(found).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * found @ found.T
    return math.sqrt(squares.max()), math.sqrt(max(apart.max(), 0.0))


# ---- every row of small spaces


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SPACES))
def test_the_worst_of_all_rows_moves_centred_tables_as_far_as_is_worked_out(name, relation):
    query, space = case(name, relation)
    rows = every_row(space, query.cells.cells)
    one, two = furthest(moved(query, rows, raw_rows(space, 9, np.random.default_rng(2))))
    assert one <= STATED[relation][0] and two <= STATED[relation][1]
    assert joint_sensitivity.joint_moves(query, "l2") == pytest.approx((one, two), rel=1e-6)
    assert max(one, two / STATED[relation][1]) >= 0.9999, "less noise would do"
    for neighbours in Neighbours.every():
        stated = STATED[relation][neighbours.relation is not Relation.ADD_REMOVE]
        assert sensitivity.sensitivity(query, space, neighbours) == stated * sensitivity.OUTWARD


@pytest.mark.parametrize("name", ["flags with a label", "categories", "all kinds, missing", "merged"])
def test_the_worst_of_all_rows_moves_plain_tables_as_far_as_is_stated(name):
    query, space = case(name, Relation.REPLACE, centred=False)
    found = moved(query, every_row(space, query.cells.cells), raw_rows(space, 9, np.random.default_rng(2)))
    one, two = furthest(found, "l1")
    assert one <= 1.0 and two <= 2.0
    assert (one, two) == pytest.approx((1.0, 2.0), rel=1e-6)
    assert furthest(found) == pytest.approx(joint_sensitivity.joint_moves(query, "l2"), rel=1e-6)
    assert joint_sensitivity.joint_moves(query, "l1") == pytest.approx((one, two), rel=1e-6)
    for norm, stated in (("l1", (1.0, 2.0)), ("l2", (1.0, math.sqrt(2)))):
        for neighbours in Neighbours.every():
            most = stated[neighbours.relation is not Relation.ADD_REMOVE] * sensitivity.OUTWARD
            assert sensitivity.sensitivity(query, space, neighbours, norm) == most


def test_every_row_moves_centred_tables_equally_far():
    """Which is why a row that comes or goes has an exact bound: nobody is in a rarer cell than another."""
    query, space = case("merged", Relation.ADD_REMOVE)
    lengths = np.linalg.norm(moved(query, every_row(space, query.cells.cells), np.zeros((0, space.width))), axis=1)
    assert lengths == pytest.approx(np.full(len(lengths), lengths[0]), rel=1e-12)


# ---- rows of larger ones


def search(query, space, seed, stated) -> None:
    """Rows, emptied rows, changed and emptied cells, among other rows, against what is stated."""
    rng = np.random.default_rng(seed)
    raw = raw_rows(space, 80, rng)
    among = bounded(raw_rows(space, 30, rng), space)
    found = moved(query, bounded(raw, space), among)
    one, two = furthest(found)
    assert one <= stated[0] and two <= stated[1]
    empty = moved(query, empty_row(space), among)
    assert np.linalg.norm(found - empty, axis=1).max() <= stated[1]
    others, emptied = raw.copy(), raw.copy()
    for index, (other, bare) in enumerate(zip(others, emptied, strict=True)):
        block = space.blocks[index % len(space.blocks)]
        other[block.start : block.stop] = cell_of(block, rng)
        bare[block.start : block.stop] = empty_cell(block)
    for changed in (others, emptied):
        assert np.linalg.norm(found - moved(query, bounded(changed, space), among), axis=1).max() <= stated[1]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("row_bound", [None, HALF // 2])
def test_no_neighbour_moves_joint_tables_further_than_is_stated(relation, row_bound):
    space = space_of(*("flag", "category:4", "number:5=1", "number", "category:5=2", "flag=1"), row_bound=row_bound)
    query = dataclasses.replace(every(relation), cells=joint(space))
    search(query, space, 3, STATED[relation])
    bound = sensitivity.sensitivity(query, space, Neighbours(Unit.CELL, Relation.ZERO_OUT))
    assert bound == STATED[relation][1] * sensitivity.OUTWARD


def worst_pair(query) -> float:
    """The furthest pair of rows that changing one column after another finds: by their answers, not by a formula."""
    space = space_of(*[f"category:{count}=0" for count in query.cells.counts])
    plain = JointCells(Cells.even(space.blocks, 1), (None,) * len(space.blocks))
    same = dataclasses.replace(query, cells=plain)
    assert same.factors == query.factors

    def apart(differing) -> float:
        rows = np.zeros((2, space.width))
        for block, other in zip(space.blocks, differing, strict=True):
            rows[0, block.start] = rows[1, block.start + int(other)] = CATEGORY_STEPS
        return float(np.linalg.norm(np.subtract(*(measured_vector(same, row[None]) for row in rows))))

    best = 0.0
    for seed in range(3):
        differing = np.random.default_rng(seed).random(len(space.blocks)) < 0.5
        differing &= np.array(query.cells.counts) > 1
        last = -1.0
        while (now := apart(differing)) > last + 1e-12:
            last = now
            for j, count in enumerate(query.cells.counts):
                turned = differing.copy()
                turned[j] = not turned[j]
                if count > 1 and apart(turned) > apart(differing):
                    differing = turned
        best = max(best, last)
    return best


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ADD_REMOVE])
@pytest.mark.parametrize(("columns", "label"), [(12, None), (9, 4), (18, None), (20, 19)])
def test_a_climb_over_pairs_of_rows_comes_near_and_not_over(columns, label, relation):
    """Up to 16 columns it reaches what is worked out; beyond it comes within 3 % of the certificate."""
    rng = np.random.default_rng(columns)
    space = space_of(*[f"category:{rng.choice([2, 2, 3, 5, 9])}=0" for _ in range(columns)])
    cells = JointCells(Cells.even(space.blocks, 1), (None,) * columns)
    tables = tables_of(columns, label)
    query = JointTablesQuery(cells, tables, weights_for(tables), relation)
    found, most = worst_pair(query), joint_sensitivity.joint_moves(query, "l2")[1]
    assert found <= STATED[relation][1]
    assert found <= most and found >= (1 - 1e-6 if columns <= 16 else 0.97) * most


# ---- the certificate


def some_terms(rng, columns, triples) -> tuple[list[int], list[tuple[int, ...]], np.ndarray]:
    """Counts, places and factors: all pairs, some single columns, and triples of one label, of several, of any."""
    counts = rng.choice([1, 2, 2, 2, 3, 5, 16], columns).tolist()
    places = list(itertools.combinations(range(columns), 2))
    places = [place for place in places if rng.random() < 0.8] + [(j,) for j in range(columns) if rng.random() < 0.3]
    for three in itertools.combinations(range(columns), 3):
        label = {"none": False, "one": 2 in three, "three": bool({0, 4, 5} & set(three)), "any": rng.random() < 0.4}
        if label[triples] and rng.random() < 0.7:
            places.append(three)
    return counts, places, rng.exponential(size=len(places)) ** 2


@pytest.mark.parametrize("triples", ["none", "one", "three", "any"])
def test_the_certificate_is_never_above_the_least_of_all_values(triples, monkeypatch):
    """Random terms of ten columns: all 2^10 values one by one, beside the bound for columns beyond enumeration."""
    rng = np.random.default_rng(len(triples))
    for trial in range(25):
        counts, places, squares = some_terms(rng, 10, triples)
        values = [(1 - 1 / c, -1 / c) if c > 1 else (0.0,) for c in counts]
        least = (
            min(
                sum(s * math.prod(g[j] for j in place) for s, place in zip(squares, places, strict=True))
                for g in itertools.product(*values)
            )
            if trial < 3
            else None
        )
        exact = least_products.least_sum(counts, places, squares)
        assert least is None or (exact == pytest.approx(least, abs=1e-8 * squares.sum()) and exact <= least)
        with monkeypatch.context() as patch:
            patch.setattr(least_products, "MOST_ENUMERATED", 0)
            bound = least_products.least_sum(counts, places, squares)
        high = [1 - 1 / c for c in counts]
        one = sum(s * math.prod(high[j] for j in place) for s, place in zip(squares, places, strict=True))
        assert bound <= exact + 1e-12 * one
        assert one - bound <= (1.06 if triples != "any" else 1.25) * (one - exact), "the certificate is loose"


def test_the_certificate_of_many_columns_is_above_every_value_found_and_near():
    """Up to 60 columns, descents from random starts: at most 3 % of the squared distance apart."""
    rng = np.random.default_rng(5)
    for columns, kinds, label, heavy in (
        (20, [2], None, 1.0),
        (40, [2, 3, 9, 32], None, 1.0),
        (60, [2], 7, 1.0),
        (30, [2, 5, 16], 3, 1.0),
        (20, [9, 16], 0, 30.0),  # the label alone makes the worst pair
    ):
        counts = rng.choice(kinds, columns)
        if label is not None:
            counts[label] = 2
        places = tables_of(columns, label)
        squares = rng.uniform(0.3, 3.0, len(places)) * [heavy if len(place) == 3 else 1.0 for place in places]
        high = 1.0 - 1.0 / counts
        one = sum(s * math.prod(high[list(place)]) for s, place in zip(squares, places, strict=True))
        apart = one - least_products.least_sum(counts.tolist(), places, squares)
        found = one - min(_descended(high, places, squares, rng) for _ in range(4))
        assert found <= apart <= 1.03 * found, (columns, kinds)
        if heavy == 1.0:
            each = zip(squares, places, strict=True)
            alone = sum(s * (math.prod(high[list(p)]) - _least_product(high[list(p)])) for s, p in each)
            assert apart <= 0.96 * alone, "no better than each table on its own"


def _least_product(high) -> float:
    return min(math.prod(some) for some in itertools.product(*((h, h - 1.0) for h in high)))


def _descended(high, places, squares, rng) -> float:
    """The sum where no single change lowers it, from a random start."""
    padded = np.array([[*place, *[len(high)] * (3 - len(place))] for place in places])
    g = np.append(high - rng.integers(0, 2, len(high)), 1.0)
    total = lambda: float(squares @ g[padded].prod(axis=1))  # noqa: E731
    now, last = total(), math.inf
    while now < last:
        last = now
        for j in rng.permutation(len(high)):
            before = g[j]
            g[j] = 2 * high[j] - 1 - before
            now = min(now, total())
            if total() > now:
                g[j] = before
    return now


def test_a_diagonal_that_is_too_small_is_never_used():
    """The bound rests on a matrix without a negative eigenvalue, also where float64 rounds."""
    rng = np.random.default_rng(6)
    for size in (2, 3, 17, 50):
        matrix = rng.exponential(size=(size, size)) * 10.0 ** rng.uniform(-6, 6, (size, 1))
        matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
        for base in (np.ones(size), rng.uniform(1e-3, 1, size)):
            diagonal = least_products._lifting(matrix, base)
            assert np.linalg.eigvalsh((matrix + np.diag(diagonal)) / np.sqrt(np.outer(base, base)))[0] > 0


# ---- what is not what it says


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("centred", [True, False])
def test_tables_that_state_too_little_are_refused_before_the_charge(relation, centred):
    """Weights are not trusted to be normalised: a thousandth more and nothing is charged or read."""
    query = every(relation, centred)
    query.__dict__["factors"] = tuple(math.ceil(1.001 * factor) for factor in query.factors)
    charged, promise = [], Promise(1.0, 1e-6 if centred else 0.0, Neighbours(Unit.ROW, Relation.ADD_REMOVE))
    door = Meter(private(np.zeros((5, SMALL.width)), SMALL), promise, {"a": 1.0}, lambda *e: charged.append(e))
    with pytest.raises(ValueError, match="further than is stated"):
        door.measure("a", query)
    assert not charged
    door.measure("a", every(relation, centred))
    assert len(charged) == 1


def test_weights_for_another_relation_are_refused():
    """As large as add-remove alone would allow: 1 for a row that comes or goes, but 1.63 for a replaced one."""
    query, space = case("flags with a label", Relation.ADD_REMOVE)
    one, _ = joint_sensitivity.joint_moves(query, "l2")
    larger = dataclasses.replace(query)
    larger.__dict__["factors"] = tuple(int(factor / one * (1 - 1e-9)) for factor in query.factors)
    moves = joint_sensitivity.joint_moves(larger, "l2")
    assert moves[0] <= 1.0 and moves[1] > 1.5
    for neighbours in Neighbours.every():
        with pytest.raises(ValueError, match="further than is stated"):
            sensitivity.sensitivity(larger, space, neighbours)


def test_centred_tables_have_no_bound_in_l1():
    charged = []
    promise = Promise(1.0, 0.0, Neighbours(Unit.ROW, Relation.REPLACE))
    door = Meter(private(np.zeros((5, SMALL.width)), SMALL), promise, {"a": 1.0}, lambda *e: charged.append(e))
    with pytest.raises(ValueError, match="L1"):
        door.measure("a", every())
    assert not charged


def test_variants_of_cells_and_queries_have_no_bound():
    class Merging(JointCells):
        pass

    class Counting(Cells):
        pass

    class Doubled(JointTablesQuery):
        pass

    neighbours = Neighbours(Unit.ROW, Relation.REPLACE)
    plain = joint()
    for query in (
        dataclasses.replace(every(), cells=Merging(plain.cells, plain.merged)),
        dataclasses.replace(
            every(),
            cells=JointCells(Counting(plain.cells.blocks, plain.cells.counts, (), plain.cells.missing), plain.merged),
        ),
        Doubled(plain, ((0, 1),), np.ones(1), Relation.REPLACE),
        TableDistances(Merging(plain.cells, plain.merged), ((0, 1),), (np.ones((3, 3)),)),
    ):
        with pytest.raises(TypeError, match="no bound is known"):
            sensitivity.sensitivity(query, SMALL, neighbours)


def test_some_two_rows_have_no_positive_inner_product():
    """So a replaced row moves at least root two of an added one, and weights made for replace do for both."""
    rng = np.random.default_rng(12)
    for _ in range(20):
        assert least_products.least_sum(*some_terms(rng, 8, "any")) <= 1e-12


def test_a_query_that_was_changed_is_not_known_by_its_old_bound():
    for centred, norm in ((True, "l2"), (False, "l2"), (False, "l1")):
        query, space = case("merged", Relation.REPLACE, centred)
        sensitivity.bounds(query, space, norm)
        vars(query)["factors"] = tuple(2 * factor for factor in query.factors)
        with pytest.raises(ValueError, match="further than is stated"):
            sensitivity.bounds(query, space, norm)


def test_bounds_are_worked_out_once(monkeypatch):
    """A plan asks for every pair of neighbours, again and again."""
    query = every()
    joint_sensitivity.joint_moves(query, "l2")
    monkeypatch.setattr(joint_sensitivity, "least_sum", None)
    assert sensitivity.bounds(query, SMALL, "l2") == sensitivity.bounds(query, SMALL, "l2")


# ---- distances


def scores_for(tables, cells, norm="l2", seed=0) -> TableDistances:
    rng = np.random.default_rng(seed)
    shapes = [[cells.counts[j] for j in table] for table in tables]
    return TableDistances(cells, tables, tuple(rng.uniform(0, 6, shape) for shape in shapes), norm)


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_no_neighbour_moves_distances_further_than_is_stated(norm):
    """All rows of a small space, come, gone and replaced, among others and near the expected counts: reached too."""
    space = space_of("flag=1", "category:3", "category:2=0")
    cells = JointCells(Cells.even(space.blocks, 1, missing=True), (None, np.array([0, 1, 2, 2]), None))
    rows = every_row(space, cells.cells)
    order = {"l2": 2, "l1": 1}[norm]
    best = [0.0, 0.0]
    for seed in range(4):
        tables = (((0, 1), (0, 2), (1, 2), (0, 1, 2)), ((0, 1),), ((1,), (0, 2)), ((0, 1), (1, 2)))[seed]
        query = scores_for(tables, cells, norm, seed)
        found = moved(query, rows, raw_rows(space, 12, np.random.default_rng(seed)))
        one = np.linalg.norm(found, ord=order, axis=1).max()
        two = max(np.linalg.norm(found - other, ord=order, axis=1).max() for other in found)
        best = [max(best[0], one), max(best[1], two)]
        assert one <= 0.5 * sensitivity.OUTWARD and two <= sensitivity.OUTWARD
        for neighbours in Neighbours.every():
            stated = 0.5 if neighbours.relation is Relation.ADD_REMOVE else 1.0
            assert sensitivity.sensitivity(query, space, neighbours, norm) == stated * sensitivity.OUTWARD
    assert best == pytest.approx([0.5, 1.0], rel=1e-6)


def test_distances_share_one_weight_however_many_there_are():
    cells = joint()
    for tables in (tables_of(6, 1), tables_of(6), tables_of(3), ((0, 1),)):
        count = len(tables)
        assert scores_for(tables, cells).weight == pytest.approx(1 / math.sqrt(count), rel=1e-12)
        assert scores_for(tables, cells, "l1").weight == pytest.approx(1 / count, rel=1e-12)
        for norm in ("l1", "l2"):
            heavy = scores_for(tables, cells, norm)
            heavy.__dict__["weight"] = heavy.weight * 1.0001
            with pytest.raises(ValueError, match="further than is stated"):
                sensitivity.sensitivity(heavy, SMALL, Neighbours(Unit.ROW, Relation.REPLACE), norm)
    many = scores_for(tables_of(6), cells)
    with pytest.raises(ValueError, match="further than is stated"):  # made for L2, they are more in L1
        sensitivity.sensitivity(many, SMALL, Neighbours(Unit.ROW, Relation.REPLACE), "l1")


def test_one_step_stands_for_what_it_says():
    assert TABLE_STEP == 2.0**-30
    query = every()
    assert query.scales.tolist() == [
        a * math.prod(s) * 2.0**-30 for a, s in zip(query.factors, query.shapes, strict=True)
    ]
