"""Tables of pairs and triples: exact answers, what is handed out, and noise of the scale that was paid for.

Neighbours, bounds and certificates: tests/privacy/test_joint_sensitivity.py.
"""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from adumbra.accounting import calibrate
from adumbra.accounting.accountant import epsilon_of
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, COUNT_STEPS, EXACT, HALF, WHOLE
from adumbra.privacy.engine import LocalThreads, SumPartial
from adumbra.privacy.meter import Meter, calibrated
from adumbra.queries.cells import Cells
from adumbra.queries.joint_tables import TABLE_STEP, JointCells, JointTablesQuery, TableDistances
from adumbra.queries.query import SumAnswer
from tests.queries.test_sums import (
    bounded,
    has_scale,
    private,
    raw_rows,
    residuals,
    space_of,
)
from tests.repeatable import repeatable  # noqa: F401

ADD_REMOVE = Neighbours(Unit.ROW, Relation.ADD_REMOVE)
REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)
KINDS = ("flag", "category:4", "number:5=1", "number", "category:5=2", "flag=1")
MERGED = (None, np.array([0, 1, 1, 0, 2]), None, np.array([1, 0, 0, 2]), np.array([0, 0, 1, 0, 1]), None)
SMALL = space_of(*KINDS)


def joint(space=SMALL, merged=MERGED, bins=3) -> JointCells:
    """Missing cells where they are kept, and some cells merged."""
    return JointCells(Cells.even(space.blocks, bins, missing=True), merged or (None,) * len(space.blocks))


def tables_of(columns, label=None) -> tuple[tuple[int, ...], ...]:
    """All pairs, and with a label its triples."""
    pairs = tuple(itertools.combinations(range(columns), 2))
    if label is None:
        return pairs
    return pairs + tuple(tuple(sorted((label, *pair))) for pair in pairs if label not in pair)


def weights_for(tables, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, len(tables))


def every(relation=Relation.REPLACE, centred=True, seed=0) -> JointTablesQuery:
    """Columns alone, pairs and triples of all kinds of columns."""
    tables = ((1,), (4,), *tables_of(6, 1), (0, 2, 5))
    return JointTablesQuery(joint(), tables, weights_for(tables, seed), relation, centred)


def far_from(rows, query) -> tuple[np.ndarray, ...]:
    """Expected tables that are none of whole counts."""
    rng = np.random.default_rng(8)
    return tuple(rng.uniform(0, 2 * len(rows) / math.prod(shape), shape) for shape in query.shapes)


def by_hand(query, rows) -> list[Fraction]:
    """The measured numbers row by row: outer products of what each column has, less 1/c in each cell if centred."""
    found = query.cells.of(rows)
    out = [np.full(math.prod(shape), Fraction(0), dtype=object) for shape in query.shapes]
    for row in found:
        for index, (table, shape) in enumerate(zip(query.tables, query.shapes, strict=True)):
            product = np.array([Fraction(1)], dtype=object)
            for j, count in zip(table, shape, strict=True):
                less = Fraction(1, count) if query.centred else Fraction(0)
                own = np.array([Fraction(int(cell == row[j])) - less for cell in range(count)], dtype=object)
                product = np.outer(product, own).ravel()
            out[index] = out[index] + product
    sizes = [math.prod(shape) if query.centred else 1 for shape in query.shapes]
    return [n * a * c for values, a, c in zip(out, query.factors, sizes, strict=True) for n in values]


# ---- cells


def test_every_row_is_in_one_cell_of_each_column():
    """Empty, merged, clipped to nothing: by the value of that row alone."""
    for bound in (None, HALF // 2, 3):
        space = space_of(*KINDS, row_bound=bound)
        rows = bounded(raw_rows(space, 300, np.random.default_rng(1)), space)
        rows[0] = 0.0
        cells = joint(space)
        found = cells.of(rows)
        assert found.shape == (300, 6) and found.min() >= 0 and (found < np.array(cells.counts)).all()
        assert np.array_equal(found, np.concatenate([cells.of(row[None]) for row in rows]))
    assert joint().counts == (3, 3, 5, 3, 2, 2)
    assert np.array_equal(np.unique(joint().of(raw_rows(SMALL, 900, np.random.default_rng(2)))[:, 1]), [0, 1, 2])


def test_cells_are_merged_as_they_are_told():
    rows = np.zeros((4, SMALL.width))
    rows[0, 1 + 0] = rows[1, 1 + 3] = rows[2, 1 + 1] = CATEGORY_STEPS  # the fourth is empty, and has a cell for that
    assert joint().of(rows)[:, 1].tolist() == [0, 0, 1, 2]
    plain = joint(merged=(None,) * 6)
    assert plain.of(rows)[:, 1].tolist() == [0, 3, 1, 4] and plain.counts == (3, 5, 5, 4, 5, 2)


@pytest.mark.parametrize(
    ("merged", "missing"),
    [
        ((None,), True),
        ((None, None), False),
        ((np.array([0, 2, 1]), None), True),
        ((np.array([0, 2, 1, 3]), None), True),
        ((np.array([0, 2, 2, 4, 1]), None), True),
        ((np.array([-1, 0, 1, 1, 1]), None), True),
        ((np.array([0.5, 0, 1, 1, 1]), None), True),
        ((np.full(5, 1), None), True),
    ],
)
def test_cells_that_leave_a_row_nowhere_are_refused(merged, missing):
    space = space_of("category:4", "flag=1")
    with pytest.raises(ValueError):
        JointCells(Cells.even(space.blocks, 2, missing=missing), merged)
    JointCells(Cells.even(space.blocks, 2, missing=True), (np.array([0, 2, 2, 3, 1]), None))


@pytest.mark.parametrize(
    "tables", [(), ((),), ((0, 1), (0, 1)), ((1, 0),), ((0, 0),), ((0, 6),), ((-1, 2),), ((0, 1, 2, 3),)]
)
def test_tables_are_of_one_to_three_columns_and_each_once(tables):
    for make in (
        lambda: JointTablesQuery(joint(), tables, np.ones(len(tables)), Relation.REPLACE),
        lambda: TableDistances(joint(), tables, (np.ones((3, 3)),) * len(tables)),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf], [1.0, 1e-12]])
def test_every_table_has_a_weight_that_counts(weights):
    with pytest.raises(ValueError):
        JointTablesQuery(joint(), ((0, 1), (0, 2)), np.array(weights), Relation.REPLACE)


def test_a_query_keeps_what_it_was_given():
    """Neither the weights nor the cells can be changed behind a bound that was worked out."""
    weights, merged = np.ones(2), np.array([0, 1, 1, 0, 2])
    query = JointTablesQuery(joint(merged=(None, merged, *(None,) * 4)), ((0, 1), (0, 2)), weights, Relation.REPLACE)
    factors = query.factors
    weights[0], merged[0] = 9.0, 2
    assert query.weights[0] == 1.0 and query.cells.merged[1][0] == 0
    for own in (query.weights, query.cells.merged[1]):
        with pytest.raises(ValueError):
            own[0] = 5
    again = pickle.loads(pickle.dumps(query))  # noqa: S301
    assert again.factors == factors and again.tables == query.tables


# ---- answers


@pytest.mark.parametrize("centred", [True, False])
def test_joint_tables_are_what_the_definition_says(centred):
    query = every(centred=centred)
    rows = raw_rows(SMALL, 23, np.random.default_rng(4))
    found = query.finalize(query.partial(rows))["tables"]
    assert found.dtype == np.int64 and found.tolist() == by_hand(query, rows)
    assert np.array_equal(query.answer(rows)["tables"], found.astype(np.float64))
    assert np.abs(query.answer(rows[:1])["tables"]).max() <= query.parts[0].largest


def test_a_centred_table_leaves_the_margins_out():
    """Along every column it sums to 0, whatever the rows."""
    query = every()
    tables = query.each(query.finalize(query.partial(raw_rows(SMALL, 50, np.random.default_rng(5))))["tables"])
    for table in tables:
        assert all(not table.sum(axis=axis).any() for axis in range(table.ndim))
    assert any(table.any() for table in tables)


@pytest.mark.parametrize("name", ["tables", "distances"])
def test_joint_tables_in_any_batches_are_the_same(name):
    query = every()
    rows = raw_rows(SMALL, 400, np.random.default_rng(6))
    if name == "distances":
        query = TableDistances(query.cells, query.tables, far_from(rows, query))
    whole = query.finalize(query.partial(rows))[name]
    for sizes in ([1] * 400, [399, 1], [0, 150, 250], [7] * 57 + [1]):
        total = query.partial(rows[:0])
        for batch in np.split(rows, np.cumsum(sizes)[:-1]):
            query.add_partial(batch, total)
        assert np.array_equal(query.finalize(total)[name], whole)
    assert np.array_equal(query.finalize(query.partial(rows[::-1]))[name], whole)
    folded = dict(LocalThreads().fold(SumPartial(query, SMALL), np.array_split(rows, 9)))
    assert np.array_equal(query.finalize({"counts": folded["counts"]})[name], whole)


def test_joint_tables_of_more_rows_than_float64_holds_stay_exact():
    """Numbers up to 2^61, on counts made up: all rows in one cell, or dealt; as python's integers have them."""
    for query in (every(), every(centred=False), every(Relation.ADD_REMOVE)):
        rows, cells = query.most_rows, query.ends[-1]
        assert 2**28 <= rows < int(EXACT) and rows * int(query.parts[0].largest) < WHOLE
        for counts in (np.zeros(cells, np.int64), np.random.default_rng(7).integers(0, rows // cells, cells)):
            if not counts.any():
                counts[[end - 1 for end in query.ends]] = rows
            found = query.finalize({"counts": counts})["tables"]
            for table, given, factor in zip(query.each(found), query.each(counts), query.factors, strict=True):
                wanted = given.astype(object)
                for axis, count in enumerate(given.shape if query.centred else ()):
                    wanted = count * wanted - wanted.sum(axis=axis, keepdims=True)
                assert np.array_equal(table.astype(object), factor * wanted)
        assert np.abs(query.finalize({"counts": np.where(np.arange(cells) == 0, rows, 0)})["tables"]).max() > EXACT


def test_as_many_rows_are_exact_whatever_cells_tables_and_weights():
    """A plan is made with other cells: what it took must not be refused after the charge."""
    found = [query for relation in Relation for centred in (True, False) for query in variants(relation, centred)]
    assert {query.most_rows for query in found} == {2**29 - 1}
    assert all(query.most_rows * int(query.parts[0].largest) < WHOLE for query in found)


def test_distances_are_half_of_what_counts_and_expected_ones_differ_by():
    query = every()
    rows = raw_rows(SMALL, 37, np.random.default_rng(9))
    expected = far_from(rows, query)
    scores = TableDistances(query.cells, query.tables, expected)
    found = query.cells.of(rows)
    wanted = []
    for table, aim in zip(query.tables, expected, strict=True):
        counts = dict.fromkeys(np.ndindex(*aim.shape), 0)
        for row in found:
            counts[tuple(row[list(table)].tolist())] += 1
        wanted.append(sum(abs(counts[cell] - round(aim[cell] * COUNT_STEPS) / COUNT_STEPS) for cell in counts) / 2)
    part = scores.parts[0]
    assert (scores.answer(rows)["distances"] * part.step).tolist() == wanted
    assert not scores.linear and scores.parts[0].name == "distances"
    assert (
        scores.describe()
        == "distances from expected tables of 2 columns, 15 pairs and 11 triples of 6 columns, "
        + (f"{query.ends[-1]:,} cells")
    )


def test_distances_of_long_tables_stay_exact():
    cells = joint()
    shape = (3, 3)
    scores = TableDistances(cells, ((0, 1),), (np.full(shape, 2.0**36),))
    counts = np.zeros(9, np.int64)
    counts[4] = scores.most_rows
    found = scores.finalize({"counts": counts})["distances"].tolist()
    assert found == [(8 * 2**36 + scores.most_rows - 2**36) * COUNT_STEPS] and found[0] < WHOLE


@pytest.mark.parametrize(
    "expected",
    [(), (np.ones((3, 2)),), (np.full((3, 3), -1.0),), (np.full((3, 3), np.nan),), (np.full((3, 3), 2.0**50),)],
)
def test_expected_tables_are_numbers_of_rows(expected):
    with pytest.raises(ValueError):
        TableDistances(joint(), ((0, 1),), expected)
    with pytest.raises(ValueError):
        TableDistances(joint(), ((0, 1),), (np.ones((3, 3)),), norm="l3")


# ---- what is handed out


@pytest.mark.parametrize("centred", [True, False])
def test_what_is_read_are_counts_and_their_noise(centred):
    query = every(centred=centred)
    rows = raw_rows(SMALL, 60, np.random.default_rng(10))
    exact = SumAnswer({"tables": query.answer(rows)["tables"] * TABLE_STEP}, {"tables": 3.0})
    found = query.cells.of(rows)
    for (table, sd), places, factor in zip(query.read(exact), query.tables, query.factors, strict=True):
        counts = np.zeros([query.cells.counts[j] for j in places])
        np.add.at(counts, tuple(found[:, list(places)].T), 1.0)
        cells = counts.size if centred else 1
        if centred:
            for axis in range(counts.ndim):
                counts = counts - counts.mean(axis=axis, keepdims=True)
        assert table == pytest.approx(counts, abs=1e-9)
        assert sd == pytest.approx(3.0 / (factor * cells * TABLE_STEP), rel=1e-12)
    assert query.sds(3.0) == [sd for _, sd in query.read(exact)]
    kind = "centred tables" if centred else "tables"
    assert query.describe() == f"{kind} of 2 columns, 15 pairs and 11 triples of 6 columns, {query.ends[-1]:,} cells"
    pair = JointTablesQuery(joint(), ((0, 1),), np.ones(1), Relation.REPLACE)
    assert pair.describe() == "centred tables of 1 pair of 2 columns, 9 cells"


def test_noise_along_the_margins_is_taken_away():
    """What is left is centred, and has prod f of the variance that every entry was given."""
    space = space_of("category:30=0", "category:40=0")
    cells = JointCells(Cells.even(space.blocks, 1), (None, None))
    query = JointTablesQuery(cells, ((0, 1),), np.ones(1), Relation.ADD_REMOVE)
    rng = np.random.default_rng(11)
    ((table, sd),) = query.read(SumAnswer({"tables": rng.normal(size=1200)}, {"tables": 1.0}))
    assert np.abs(table.sum(axis=0)).max() < 1e-9 and np.abs(table.sum(axis=1)).max() < 1e-9
    assert table.std() / sd == pytest.approx(math.sqrt(29 / 30 * 39 / 40), rel=0.06)


# ---- noise

WIDE = space_of("category:30=0", "category:40=0", "flag=1")
# name -> query, promised neighbours, what is stated for them, and how much more a pair counts than is stated
NOISY = {
    "pair, replace": (((0, 1),), Relation.REPLACE, REPLACE, math.sqrt(2)),
    "pair, add-remove": (((0, 1),), Relation.ADD_REMOVE, ADD_REMOVE, 1.0),
    "pair made for add-remove, replace": (((0, 1),), Relation.ADD_REMOVE, REPLACE, 1.5),
    "triple, add-remove": (((0, 1), (0, 1, 2)), Relation.ADD_REMOVE, ADD_REMOVE, 1.0),
}


def wide(tables, relation, centred=True) -> JointTablesQuery:
    cells = JointCells(Cells.even(WIDE.blocks, 1), (None,) * 3)
    return JointTablesQuery(cells, tables, np.ones(len(tables)), relation, centred)


@pytest.mark.parametrize("name", list(NOISY))
def test_noise_of_joint_tables_has_its_scale_and_no_other(name):
    tables, relation, neighbours, stated = NOISY[name]
    query = wide(tables, relation)
    sigma = stated / calibrate.mu_for(1.0, 1e-6)
    promise = Promise(1.0, 1e-6, neighbours)
    rows = raw_rows(WIDE, 50, np.random.default_rng(3))
    found, scale = residuals(query, WIDE, promise, 2, rows)
    assert scale == pytest.approx(sigma, rel=1e-6)
    has_scale(found["tables"].ravel() / sigma, "norm")
    one, other = found["tables"] / sigma
    assert abs(float(one @ other)) < 5 * math.sqrt(len(one)), "runs share noise"
    event = calibrated(query, WIDE, promise, share=1.0, rows=50, fresh=False).event
    assert epsilon_of([event], neighbours, 1e-6) <= 1.0


def test_noise_of_a_pair_in_rows_is_what_its_worst_pair_of_rows_needs():
    """29/30 39/40 of a weight squared comes and goes; replaced in both columns, 2 (ff - 1/30 1/40); by hand."""
    f = 29 / 30 * 39 / 40
    apart = 2 * (f + max(29 / 30 / 40, 39 / 40 / 30, -1 / 1200))
    for relation, neighbours, needed in ((Relation.ADD_REMOVE, ADD_REMOVE, f), (Relation.REPLACE, REPLACE, apart)):
        door = Meter(private(np.zeros((0, 71)), WIDE), Promise(1.0, 1e-6, neighbours), {"a": 1.0}, lambda *_: None)
        query = wide(((0, 1),), relation)
        ((_, sd),) = query.read(door.measure("a", query))
        assert sd == pytest.approx(math.sqrt(needed) / calibrate.mu_for(1.0, 1e-6), rel=1e-4)


@pytest.mark.parametrize(("neighbours", "stated"), [(REPLACE, 2.0), (ADD_REMOVE, 1.0)])
def test_pure_epsilon_measures_plain_tables(neighbours, stated):
    query = wide(((0, 1), (0, 2)), neighbours.relation, centred=False)
    promise = Promise(1.0, 0.0, neighbours)
    rows = raw_rows(WIDE, 50, np.random.default_rng(3))
    found, scale = residuals(query, WIDE, promise, 2, rows)
    assert scale == pytest.approx(stated, rel=1e-6) and sum(query.factors) * TABLE_STEP == pytest.approx(1.0, rel=1e-6)
    has_scale(found["tables"].ravel() / scale, "laplace")
    with pytest.raises(ValueError, match="L1"):
        calibrated(wide(((0, 1),), neighbours.relation), WIDE, promise, share=1.0, rows=50, fresh=False)
    event = calibrated(query, WIDE, promise, share=1.0, rows=50, fresh=False).event
    assert event.noise == "laplace" and epsilon_of([event], neighbours, 0.0) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("neighbours", "delta", "stated"),
    [(REPLACE, 1e-6, 1.0), (ADD_REMOVE, 1e-6, 0.5), (REPLACE, 0.0, 1.0), (ADD_REMOVE, 0.0, 0.5)],
)
def test_noise_of_distances_has_its_scale_and_no_other(neighbours, delta, stated):
    """Of 300 tables: sqrt(300) times the noise of one on each distance, or 300 times."""
    tables = tables_of(25)
    space = space_of(*["flag=1"] * 25)
    cells = JointCells(Cells.even(space.blocks, 1), (None,) * 25)
    rows = raw_rows(space, 20, np.random.default_rng(3))
    query = TableDistances(cells, tables, (np.full((2, 2), 5.0),) * 300, "l2" if delta else "l1")
    found, scale = residuals(query, space, Promise(1.0, delta, neighbours), 3, rows)
    wanted = stated / calibrate.mu_for(1.0, delta) if delta else stated
    assert scale == pytest.approx(wanted, rel=1e-6)
    each = wanted * (math.sqrt(300) if delta else 300)
    has_scale(found["distances"].ravel() / each, "norm" if delta else "laplace")


# ---- what may follow from earlier answers


def variants(relation, centred):
    """Queries of other cells, other tables, other weights, and of other sizes."""
    yield every(relation, centred)
    yield every(relation, centred, seed=5)
    yield JointTablesQuery(joint(merged=None, bins=9), tables_of(6), np.ones(15), relation, centred)
    yield JointTablesQuery(joint(), ((0, 5),), np.full(1, 7.5), relation, centred)
    yield JointTablesQuery(joint(), tables_of(6, 5), np.logspace(0, 3, 25), relation, centred)
    yield JointTablesQuery(joint(), tuple(itertools.combinations(range(6), 3)), np.ones(20), relation, centred)
    yield JointTablesQuery(joint(), ((0,), (3,)), np.array([1.0, 3.0]), relation, centred)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("neighbours", Neighbours.every(), ids=str)
def test_the_event_is_the_same_whatever_cells_tables_and_weights(neighbours, delta):
    promise = Promise(0.7, delta, neighbours)
    for relation in Relation:
        queries = variants(relation, centred=delta > 0)
        events = [calibrated(q, SMALL, promise, share=0.8, rows=9, fresh=False).event for q in queries]
        assert len(events) == 7 and len({str(event.to_json()) for event in events}) == 1
    cells = joint()
    events = []
    for tables in (tables_of(6), tables_of(6, 2), ((0, 1),), tables_of(3)):
        expected = tuple(np.ones([cells.counts[j] for j in table]) for table in tables)
        scores = TableDistances(cells, tables, expected, "l2" if delta else "l1")
        events.append(calibrated(scores, SMALL, promise, share=0.2, rows=9, fresh=False).event)
    assert len({str(event.to_json()) for event in events}) == 1


@pytest.mark.parametrize("relation", list(Relation))
def test_weights_are_as_large_as_the_relation_allows(relation):
    """By hand for pairs of equal flags: f = 1/2, and two rows differ most in half of the columns."""
    for columns in (2, 3, 4, 9, 12):
        space = space_of(*["flag=1"] * columns)
        cells = JointCells(Cells.even(space.blocks, 1), (None,) * columns)
        query = JointTablesQuery(cells, tables_of(columns), np.ones(math.comb(columns, 2)), relation)
        pairs, split = math.comb(columns, 2), columns // 2 * (columns - columns // 2)
        one, two = pairs / 4, 2 * (pairs + split - (pairs - split)) / 4
        limit = 1.5 if relation is Relation.ADD_REMOVE else math.sqrt(2)
        wanted = 1 / max(math.sqrt(one), math.sqrt(two) / limit)
        assert query.scales == pytest.approx(np.full(pairs, wanted), rel=1e-6)
        assert query.sds(2.0) == pytest.approx([2.0 / wanted] * pairs, rel=1e-6)


def test_weights_stay_in_proportion():
    tables = tables_of(6, 1)
    wanted = weights_for(tables, 3)
    for centred in (True, False):
        scales = JointTablesQuery(joint(), tables, wanted, Relation.REPLACE, centred).scales
        assert scales / scales[0] == pytest.approx(wanted / wanted[0], rel=1e-5)


def test_a_column_of_one_cell_has_empty_tables():
    cells = joint(merged=(np.zeros(3, np.int64), *(None,) * 5))
    query = JointTablesQuery(cells, ((0, 1), (0, 2)), np.ones(2), Relation.REPLACE)
    found = query.answer(raw_rows(SMALL, 9, np.random.default_rng(0)))["tables"]
    assert not found.any() and query.most_rows >= 2**28
    beside = JointTablesQuery(cells, ((0, 1), (1, 2)), np.array([100.0, 1.0]), Relation.REPLACE)
    alone = JointTablesQuery(cells, ((1, 2),), np.ones(1), Relation.REPLACE)
    assert beside.factors[1:] == alone.factors, "it takes nothing from the others"
