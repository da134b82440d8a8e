"""Sums over rows: no neighbour exceeds the bound, worst pairs reach it, answers are exact, noise is as calibrated.

Everything is measured on the whole numbers that `answer` returns for encoded rows, each part times its weight and step.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from adumbra.accounting import calibrate
from adumbra.accounting.accountant import epsilon_of
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, COUNT_STEPS, GRID, HALF, Block, Space
from adumbra.numerics.projections import ROUNDING, ProjectionKind, draw, gaussian_matrix
from adumbra.privacy import sensitivity
from adumbra.privacy.engine import Totals, _Running
from adumbra.privacy.meter import Meter, calibrated, preview_sd
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.cells import Cells, Groups, cell_count
from adumbra.queries.query import GaussianRecipe
from adumbra.queries.row_map import RowClip, RowMap
from adumbra.queries.scores import BALL, Linear, Lookup, Residuals, Scores
from adumbra.queries.second_moment import Gram, MomentsQuery, RowsAndGram, symmetric
from adumbra.queries.sums import CentreScale, Count, Sum, TablesQuery, Total
from adumbra.tables.clip import clip_rows
from tests.repeatable import repeatable  # noqa: F401

EVERY = Neighbours.every()
REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)
ZERO_OUT = Neighbours(Unit.ROW, Relation.ZERO_OUT)
ADD_REMOVE = Neighbours(Unit.ROW, Relation.ADD_REMOVE)
NORMS = {"l2": 2, "l1": 1}
NO_CELLS = Cells((), ())

"""Take the mark away with the defect: a mended one makes the run fail."""


def space_of(*kinds, row_bound=None) -> Space:
    """A column each: "number", "number:levels", "flag" or "category:values", and "=f" for a fallback."""
    blocks, start = [], 0
    for index, text in enumerate(kinds):
        text, _, fallback = text.partition("=")
        kind, _, size = text.partition(":")
        width = int(size) if kind == "category" else 1
        levels = int(size) if kind == "number" and size else None
        blocks.append(Block(f"c{index}", kind, start, width, int(fallback) if fallback else None, levels))
        start += width
    return Space(tuple(blocks), row_bound)


def empty_cell(block) -> np.ndarray:
    cell = np.zeros(block.width)
    if block.fallback is not None:
        if block.kind == "category":
            cell[block.fallback] = CATEGORY_STEPS
        else:
            cell[0] = block.fallback
    return cell


def cell_of(block, rng) -> np.ndarray:
    """A cell that is often empty or at an end of its range."""
    cell = np.zeros(block.width)
    if rng.random() < 0.15:
        return empty_cell(block)
    if block.kind == "category":
        cell[rng.integers(block.width)] = CATEGORY_STEPS
    elif block.kind == "flag" or rng.random() < 0.6:
        cell[0] = rng.choice([-HALF, HALF])
    else:
        cell[0] = rng.integers(-HALF, HALF + 1)
    return cell


def bounded(rows, space) -> np.ndarray:
    return clip_rows(rows, space.row_bound)[0] if space.row_bound is not None else np.asarray(rows, dtype=float)


def raw_rows(space, count, rng) -> np.ndarray:
    return np.array([np.concatenate([cell_of(b, rng) for b in space.blocks]) for _ in range(count)])


def empty_row(space) -> np.ndarray:
    return bounded(np.concatenate([empty_cell(b) for b in space.blocks])[None], space)


def features(query, rows) -> np.ndarray:
    """What each row adds to the measured vector, from the answer to that row alone."""
    return np.array([measured_vector(query, row[None]) for row in np.asarray(rows, dtype=float)])


def measured_vector(query, batch) -> np.ndarray:
    """The weighted vector: the answer's whole numbers, times weight and step of their part."""
    batch = np.asarray(batch, dtype=float)
    if isinstance(query, RowsAndGram):
        rows = query.map.mapped(batch) * query.map.answer_step
        return np.concatenate([rows.ravel(), measured_vector(query.gram, batch)])
    found = query.answer(batch)
    assert set(found) == {part.name for part in query.parts}
    for part in query.parts:
        assert found[part.name].shape == part.shape and np.array_equal(found[part.name], np.rint(found[part.name]))
    return np.concatenate([found[part.name].ravel() * (part.weight * part.step) for part in query.parts])


def bound(query, space, neighbours, norm="l2") -> float:
    return sensitivity.sensitivity(query, space, neighbours, norm)


def size(change, norm) -> float:
    return float(np.linalg.norm(change, ord=NORMS[norm], axis=-1).max())


# ---- the questions that are searched


def ball_scores(dimension, start=0, residuals=None) -> Scores:
    """Numbers in [-1, 1] as they are, cut to the unit ball."""
    coordinates = np.arange(start, start + dimension)
    return Scores(
        Linear(coordinates, np.zeros(dimension), np.full(dimension, float(HALF)), 1.0), NO_CELLS, (), 1.0, residuals
    )


def rich_scores(space) -> Scores:
    """Standardised numbers and looked-up categories, and what is left of them beside the centre of their class."""
    rng = np.random.default_rng(9)
    cells = Cells.even([b for b in space.blocks if b.kind == "category"], 4)
    lookups = tuple(Lookup(i, rng.normal(size=(n, n))) for i, n in enumerate(cells.counts))
    numbers = np.array([b.start for b in space.blocks if b.kind != "category"])
    linear = Linear(numbers, rng.normal(size=len(numbers)) * HALF / 4, np.full(len(numbers), HALF / 3), 2.5)
    groups = classes(space, 0)
    width = len(numbers) + sum(cells.counts)
    residuals = Residuals(rng.normal(size=(width, 6)), groups, rng.normal(size=(groups.count, 6)) / 4, 1.5)
    return Scores(linear, cells, lookups, 2.0, residuals)


def classes(space, *columns, bins=3) -> Groups:
    return Groups(Cells.even([space.blocks[i] for i in columns], bins))


WEIGHTS = [
    (math.sqrt(0.1), math.sqrt(0.45), math.sqrt(0.45)),
    (0.4, math.sqrt(0.48), 0.6),
    (1.0, 1.0, 1.0),
    (0.0, 1.0, 0.3),
    (0.2, 0.0, 1.0),
    (0.5, 1.0, 0.0),
    (3.0, 0.1, 0.1),
    (0.0, 0.5, 0.5),
]
LABELLED = ("category:3", "number", "number", "number")
MIXED = ("category:3", "number", "flag", "category:2", "number:5")
FALLING = ("category:3=1", "number=20000", "flag=32768", "category:2=0", "number:5=-32768")


def map_of(kind, space, dimension) -> RowMap:
    if kind == "identity":
        return RowMap(np.eye(space.width, dtype=np.int64), 1.0)
    projection = draw(ProjectionKind(kind), bytes(32), space, dimension)
    return RowMap(projection.matrix, projection.step)


def cases():
    """Name -> (query, space)."""
    for shape, kinds in (("mixed", MIXED), ("fallbacks", FALLING)):
        for row_bound in (None, HALF):
            s = space_of(*kinds, row_bound=row_bound)
            at = f"{shape}{'' if row_bound is None else ', clipped'}"
            cells = Cells.even(s.blocks, 4)
            yield f"count, {at}", Count(), s
            yield f"pooled tables, {at}", TablesQuery(cells), s
            yield f"grouped tables, {at}", TablesQuery(cells, classes(s, 0), 0.0, 0.7), s
            yield f"both tables, {at}", TablesQuery(cells, classes(s, 0, 2), 0.6, 1.3), s
            yield f"centre and scale, {at}", CentreScale(s.blocks), s
            for present in (0.25, math.sqrt(2.0), 3.0):
                yield f"centre, scale and {present:.2g} present, {at}", CentreScale(s.blocks, present), s
            yield f"moments, {at}", MomentsQuery(rich_scores(s), classes(s, 0), 0.4, 0.7, 0.6), s
            yield f"moments by class, {at}", MomentsQuery(rich_scores(s), classes(s, 2), 0.3, 0.6, 0.7, True), s
            yield f"moments without classes, {at}", MomentsQuery(rich_scores(s), None, 0.3, 0.6, 0.7), s
            yield f"gram, {at}", Gram(s.width), s
            yield f"gram by class, {at}", Gram(s.width, classes(s, 0), 0.5), s
            for kind, second in itertools.product(("identity", "orthogonal", "gaussian"), (0.3, 3.0)):
                yield f"rows by {kind} and {second} gram, {at}", RowsAndGram(map_of(kind, s, 3), second), s
    s = space_of(*LABELLED)
    for a, b, g in WEIGHTS:
        for groups, by_class in ((None, False), (classes(s, 0), False), (classes(s, 0), True)):
            name = f"moments {a:.2g}/{b:.2g}/{g:.2g}, {'one class' if groups is None else 'classes'}, {by_class}"
            yield name, MomentsQuery(ball_scores(3, 3), groups, a, b, g, by_class), s


CASES = {name: (query, space) for name, query, space in cases()}
SUMS = {name: case for name, case in CASES.items() if isinstance(case[0], Sum)}


# ---- no neighbour exceeds the bound


def search(query, space, neighbours_of_unit, rows=60, seed=0) -> None:
    """Compare every pair (rows) or every change of one cell against the bound, for both norms and all relations."""
    rng = np.random.default_rng(seed)
    raw = raw_rows(space, rows, rng)
    found = features(query, bounded(raw, space))
    if neighbours_of_unit is Unit.ROW:
        changes = {
            Relation.REPLACE: (found[:, None] - found[None]).reshape(-1, found.shape[1]),
            Relation.ZERO_OUT: found - features(query, empty_row(space)),
            Relation.ADD_REMOVE: found,
        }
    else:
        others, emptied = raw.copy(), raw.copy()
        for row, (other, bare) in enumerate(zip(others, emptied, strict=True)):
            block = space.blocks[row % len(space.blocks)]
            other[block.start : block.stop] = cell_of(block, rng)
            bare[block.start : block.stop] = empty_cell(block)
        changes = {
            Relation.REPLACE: found - features(query, bounded(others, space)),
            Relation.ZERO_OUT: found - features(query, bounded(emptied, space)),
        }
    for relation, change in changes.items():
        if relation is Relation.ADD_REMOVE and isinstance(query, RowsAndGram):
            continue
        for norm in NORMS:
            most = bound(query, space, Neighbours(neighbours_of_unit, relation), norm)
            assert size(change, norm) <= most, f"{neighbours_of_unit}/{relation}, {norm}"


@pytest.mark.parametrize("name", list(CASES))
def test_no_neighbouring_row_exceeds_the_bound(name):
    search(*CASES[name], Unit.ROW)


@pytest.mark.parametrize("name", list(CASES))
def test_no_changed_cell_exceeds_the_bound(name):
    search(*CASES[name], Unit.CELL)


def test_emptying_a_cell_of_a_clipped_row_is_a_replacement():
    """The longest cell goes, and the rest of the row grows into its place: nearly orthogonal rows."""
    for fallbacks, kinds in ((False, ("number", "number")), (True, ("number=0", "number"))):
        space = space_of(*kinds, row_bound=HALF // 4)
        pair = bounded([[HALF, space.row_bound], [0, space.row_bound]], space)
        for query in (Gram(2), RowsAndGram(map_of("identity", space, 2), 8.0)):
            change = np.subtract(*features(query, pair))
            for norm in NORMS:
                assert size(change, norm) <= bound(query, space, Neighbours(Unit.CELL, Relation.ZERO_OUT), norm), (
                    f"{type(query).__name__}, {norm}, fallbacks {fallbacks}"
                )


def test_an_emptied_label_that_is_a_number_moves_the_row_to_another_class():
    space = space_of(*["number"] * 9)
    query = Gram(9, classes(space, 0))
    pair = np.full((2, 9), float(HALF))
    pair[1, 0] = 0
    for norm in NORMS:
        change = np.subtract(*features(query, pair))
        assert size(change, norm) <= bound(query, space, Neighbours(Unit.CELL, Relation.ZERO_OUT), norm)


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: "/".join(f"{x:.2g}" for x in w))
@pytest.mark.parametrize("grouped", [False, True])
def test_climbing_finds_no_violating_pair_of_moments(weights, grouped):
    """Nelder and Mead over both rows of a pair, on the whole numbers of the answer."""
    space = space_of(*LABELLED)
    query = MomentsQuery(ball_scores(3, 3), classes(space, 0) if grouped else None, *weights)
    rng = np.random.default_rng(5)

    def change(point, labels):
        rows = np.zeros((2, space.width))
        rows[:, 3:] = np.clip(np.rint(point.reshape(2, 3) * HALF), -HALF, HALF)
        rows[[0, 1], labels] = CATEGORY_STEPS
        return np.subtract(*features(query, rows))

    best = {"l2": 0.0, "l1": 0.0}
    for labels in ([0, 0], [0, 1]):
        for norm in NORMS:
            start = rng.normal(size=6)
            score = lambda p, norm=norm, labels=labels: -size(change(p, labels), norm)  # noqa: E731
            found = optimize.minimize(score, start, method="Nelder-Mead", options={"maxfev": 250, "xatol": 1e-3})
            best[norm] = max(best[norm], -found.fun)
    for norm in NORMS:
        assert best[norm] <= bound(query, space, REPLACE, norm)
    assert best["l2"] >= 0.9 * bound(query, space, REPLACE)


# ---- the worst pairs reach it


def reaches(query, space, one, other, neighbours, norm="l2", share=0.999) -> None:
    """The pair is within the bound and at least `share` of it; `other` None: the row is not there."""
    change = features(query, [one])[0] - (0.0 if other is None else features(query, [other])[0])
    most = bound(query, space, neighbours, norm)
    assert size(change, norm) <= most
    assert size(change, norm) >= share * most, f"{size(change, norm):.6g} of {most:.6g}"


def test_a_count_is_private_under_add_remove_alone():
    space = space_of("number")
    reaches(Count(), space, [0.0], None, ADD_REMOVE)
    assert bound(Count(), space, REPLACE) == bound(Count(), space, ZERO_OUT) == 0.0


@pytest.mark.parametrize(("pooled", "grouped"), [(1.0, 0.0), (0.0, 1.0), (0.6, 1.3)])
def test_worst_pair_of_tables(pooled, grouped):
    space = space_of("number", "number:5", "flag", "category:3")
    query = TablesQuery(Cells.even(space.blocks, 7), classes(space, 2), pooled, grouped)
    one = [HALF, HALF, HALF, CATEGORY_STEPS, 0, 0]
    other = [-HALF, -HALF, -HALF, 0, CATEGORY_STEPS, 0]
    for norm in NORMS:
        reaches(query, space, one, other, REPLACE, norm)
        reaches(query, space, one, None, ADD_REMOVE, norm)


def test_worst_pair_of_centre_and_scale():
    space = space_of("number", "number", "flag", "category:3")
    query = CentreScale(space.blocks)
    one = [HALF, HALF, HALF, CATEGORY_STEPS, 0, 0]
    reaches(query, space, one, [-HALF, -HALF, -HALF, 0, CATEGORY_STEPS, 0], REPLACE)
    reaches(query, space, one, [-HALF // 2, -HALF // 2, -HALF, 0, CATEGORY_STEPS, 0], REPLACE, "l1")
    reaches(query, space, one, None, ADD_REMOVE)


def test_worst_pair_of_centre_and_scale_with_cells_that_are_there():
    """Counting them costs nothing up to sqrt(2) where rows are replaced; then an emptied number is the worst pair."""
    space = space_of("number", "number=7")
    one, other, empty = [HALF, HALF], [-HALF, -HALF], [0.0, -HALF]
    for weight in (0.25, 1.0, math.sqrt(2.0)):
        query = CentreScale(space.blocks, weight)
        assert query.counted == space.blocks[:1]
        assert bound(query, space, REPLACE) == bound(CentreScale(space.blocks), space, REPLACE)
        reaches(query, space, one, other, REPLACE)
        reaches(query, space, one, None, ADD_REMOVE)
    reaches(CentreScale(space.blocks, 3.0), space, one, empty, REPLACE)
    assert bound(CentreScale(space.blocks, 0.25), space, REPLACE, "l1") == bound(
        CentreScale(space.blocks), space, REPLACE, "l1"
    )
    reaches(CentreScale(space.blocks[:1], 1.0), space, one, empty, REPLACE, "l1")


def unit_pair(inner) -> list[list[float]]:
    """Two rows of two numbers with unit scores and this inner product, to the grid."""
    return [[HALF, 0.0], [round(inner * HALF), math.floor(math.sqrt(1 - inner**2) * HALF)]]


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: "/".join(f"{x:.2g}" for x in w))
def test_worst_pair_of_moments(weights):
    a, b, g = weights
    inner = -1.0 if b * b >= 2 * g * g else -b * b / (2 * g * g)
    label = [[CATEGORY_STEPS, 0.0], [0.0, CATEGORY_STEPS]]
    space = space_of("category:2", "number", "number")
    one, other = unit_pair(inner)
    reaches(MomentsQuery(ball_scores(2, 2), None, a, b, g), space, label[0] + one, label[0] + other, REPLACE)
    same = 2 * b * b * (1 - inner) + 2 * g * g * (1 - inner**2)
    for by_class in (False, True):
        query = MomentsQuery(ball_scores(2, 2), classes(space, 0), a, b, g, by_class)
        if same >= 2 * (a * a + b * b + g * g):
            reaches(query, space, label[0] + one, label[0] + other, REPLACE)
        else:
            one, other = unit_pair(0.0)
            reaches(query, space, label[0] + one, label[1] + other, REPLACE)
        reaches(query, space, label[0] + unit_pair(0.0)[0], None, ADD_REMOVE)


def test_a_tenth_and_twice_forty_five_hundredths_exceed_the_root_of_two():
    """Squares .1, .45, .45: the squared bound is 2.025, and a pair of one class reaches it."""
    a, b, g = (math.sqrt(w) for w in (0.1, 0.45, 0.45))
    space = space_of("category:2", "number", "number")
    query = MomentsQuery(ball_scores(2, 2), classes(space, 0), a, b, g)
    label = [CATEGORY_STEPS, 0.0]
    one, other = unit_pair(-0.5)
    change = np.subtract(*features(query, [label + one, label + other]))
    assert float(change @ change) == pytest.approx(2.025, abs=1e-3) and float(change @ change) > 2.02
    assert bound(query, space, REPLACE) ** 2 == pytest.approx(2.025, abs=1e-6)


def test_worst_pair_of_a_gram_in_a_ball_and_in_a_box():
    ball = space_of(*["number"] * 3, row_bound=HALF // 2)
    one, other = np.eye(3)[:2] * ball.row_bound
    box = space_of(*["number"] * 4)
    high, crossed = HALF * np.ones(4), HALF * np.array([1.0, 1.0, -1.0, -1.0])
    for query, space, pair in ((Gram(3, None, 0.7), ball, (one, other)), (Gram(4), box, (high, crossed))):
        reaches(query, space, *pair, REPLACE)
        reaches(query, space, pair[0], 0 * pair[0], ZERO_OUT)
        reaches(query, space, pair[0], None, ADD_REMOVE)
    reaches(Gram(4), box, high, None, ADD_REMOVE, "l1")
    falling = space_of("number=32768", "number=32768", "number=-32768", "number=-32768")
    reaches(Gram(4), falling, high, crossed, ZERO_OUT)
    labelled = space_of("category:2", "number", "number")
    pair = [CATEGORY_STEPS, 0, HALF, HALF], [0, CATEGORY_STEPS, HALF, HALF]
    reaches(Gram(4, classes(labelled, 0)), labelled, *pair, REPLACE)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("kind", ["identity", "orthogonal", "gaussian"])
def test_worst_pair_of_rows_and_gram(kind, share):
    """Rows whose difference lies along the map's longest direction, at the inner product that the weight asks for."""
    space = space_of(*["number"] * 4, row_bound=HALF)
    row_map = map_of(kind, space, 3)
    left, lengths, _ = np.linalg.svd(row_map.matrix * row_map.step)
    query = RowsAndGram(row_map, math.sqrt(share) * lengths[0] * GRID / HALF)
    inner = min(1.0, 1 / (2 * share))
    along, across = math.sqrt((1 + inner) / 2) * left[:, 0], math.sqrt((1 - inner) / 2) * left[:, 1]
    one, other = clip_rows(np.rint(np.array([across + along, across - along]) * HALF), HALF)[0]
    reaches(query, space, one, other, REPLACE)
    alone = clip_rows(np.rint(left[:, :1].T * HALF), HALF)[0][0]
    reaches(query, space, alone, 0 * alone, ZERO_OUT)
    for norm in NORMS:
        assert size(np.subtract(*features(query, [one, other])), norm) <= bound(query, space, REPLACE, norm)


def test_a_small_second_moment_is_free_and_a_large_one_is_not():
    """Antipodal rows, the worst for the rows, have one second moment."""
    space = space_of(*["number"] * 4, row_bound=HALF)
    row_map = map_of("identity", space, 4)
    alone = bound(row_map, space, REPLACE)
    to_weight = GRID / HALF
    assert bound(RowsAndGram(row_map, math.sqrt(0.5) * to_weight), space, REPLACE) == pytest.approx(alone, rel=1e-6)
    assert bound(RowsAndGram(row_map, math.sqrt(0.6) * to_weight), space, REPLACE) > alone * 1.003
    assert bound(RowsAndGram(row_map, 2 * to_weight), space, REPLACE) == pytest.approx(
        0.5 * math.sqrt(2 + 8 + 1 / 8), rel=1e-6
    )


def test_rows_and_gram_refuse_add_remove_by_name():
    query = RowsAndGram(map_of("identity", space_of("number"), 1), 1.0)
    with pytest.raises(InputError, match="add-remove"):
        bound(query, space_of("number"), ADD_REMOVE)
    assert "row/add-remove" not in sensitivity.bounds(query, space_of("number"), "l2")
    assert set(sensitivity.bounds(Count(), space_of("number"), "l2")) == {str(n) for n in EVERY}


@pytest.mark.parametrize("query", [CentreScale, Count, Gram, MomentsQuery, RowMap, RowsAndGram, TablesQuery])
def test_a_question_without_a_bound_of_its_own_is_not_answered(query):
    """A subclass may sum other features: it must not inherit a proof."""

    class Other(query):
        pass

    for neighbours in Neighbours.every():
        with pytest.raises(TypeError, match="no bound is known for Other"):
            sensitivity.sensitivity(object.__new__(Other), space_of("number"), neighbours)


class LooseClip(RowClip):
    """Might clip nothing."""


class LooseCells(Cells):
    """Might put a row into as many cells as it likes."""


def queries_of_variants(space: Space):
    cells, loose = Cells.even(space.blocks, 2), LooseCells(space.blocks, (2, 2))
    yield Gram(2, clip=LooseClip(GRID))
    yield RowMap(np.eye(2, dtype=np.int64), 1.0, clip=LooseClip(GRID))
    yield TablesQuery(loose)
    yield TablesQuery(cells, Groups(loose), grouped=1.0)


def test_a_query_made_of_a_variant_of_a_known_part_has_no_bound():
    """Bounds count on how a row is clipped, counted and scored: a variant of that must not inherit a proof either."""
    space = space_of("number", "number")
    for query in queries_of_variants(space):
        for neighbours in Neighbours.every():
            with pytest.raises(TypeError, match="no bound is known for a query made of Loose"):
                sensitivity.sensitivity(query, space, neighbours)


# ---- scores and cells


def lengths_squared(scores) -> list[int]:
    return [sum(int(v) ** 2 for v in row) for row in scores]


def wild_scores(rng, low, high) -> tuple[Scores, Space]:
    """Centres, scales, radius, limit, vectors and class centres of sizes from 10^low to 10^high."""
    space = space_of("category:3=2", "number", "number=-5", "flag", "category:4")

    def wild(*shape):
        return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(low, high, shape)

    cells = Cells.even([space.blocks[0], space.blocks[4], space.blocks[1]], 3)
    lookups = tuple(Lookup(i, wild(n, int(rng.integers(1, 4)))) for i, n in enumerate(cells.counts))
    linear = Linear(np.array([3, 4, 5]), wild(3), np.abs(wild(3)), float(np.abs(wild(1))[0]))
    groups = classes(space, 3)
    width = 3 + sum(lookup.vectors.shape[1] for lookup in lookups)
    residuals = Residuals(wild(width, 4), groups, wild(groups.count, 4), float(np.abs(wild(1))[0]))
    return Scores(linear, cells, lookups, float(np.abs(wild(1))[0]), residuals), space


@settings(max_examples=150, deadline=None, report_multiple_bugs=False)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(-2, 2), (-8, 8), (-100, 100), (-4, 0), (3, 6)]))
def test_scores_lie_in_the_ball_whatever_the_centre_and_the_scale(seed, sizes):
    rng = np.random.default_rng(seed)
    scores, space = wild_scores(rng, *sizes)
    rows = raw_rows(space, 12, rng)
    with np.errstate(over="ignore", under="ignore"):
        found = scores.of(rows)
    assert np.isfinite(found).all() and np.array_equal(found, np.rint(found))
    assert max(lengths_squared(found)) <= BALL**2


@pytest.mark.parametrize("size", [1e-290, 1e150, 1e300])
@pytest.mark.parametrize(
    "where", ["scale", "centre", "limit", "radius", "vectors", "matrix", "centres", "inner", "everything"]
)
def test_scores_of_absurd_size_are_refused_or_lie_in_the_ball(where, size):
    """A number of the row may never decide whether a release fails: refuse at once, or stay in the ball."""
    at = {
        name: (size if where in (name, "everything") else 1.0)
        for name in ("scale", "centre", "limit", "radius", "vectors", "matrix", "centres", "inner")
    }
    space = space_of("category:2", "number")
    groups = classes(space, 0)
    rows = np.array([[0, 0, 0], [CATEGORY_STEPS, 0, HALF], [0, CATEGORY_STEPS, -HALF], [0, CATEGORY_STEPS, 1]], float)
    try:
        scores = Scores(
            Linear(np.array([2]), np.array([at["centre"]]), np.array([at["scale"]]), at["limit"]),
            Cells.even(space.blocks[:1], 2),
            (Lookup(0, at["vectors"] * np.array([[1.0], [-1.0]])),),
            at["radius"],
            Residuals(
                at["matrix"] * np.eye(2), groups, at["centres"] * np.array([[-1.0, 1.0], [1.0, 0.0]]), at["inner"]
            ),
        )
    except (ValueError, InputError):
        return
    with np.errstate(all="ignore"):
        found = scores.of(rows)
    assert np.isfinite(found).all() and max(lengths_squared(found)) <= BALL**2


@pytest.mark.parametrize(
    ("scale", "limit", "radius"),
    [
        pytest.param(1.0, 1.0, 1e-310),
        (1e-310, math.inf, 1.0),
        pytest.param(1.0, 1e308, 0.5),
    ],
)
def test_scores_never_turn_into_nan(scale, limit, radius):
    """Infinity over infinity is not a number: a row must not decide whether the release fails once it was charged."""
    with np.errstate(all="ignore"):
        try:
            linear = Linear(np.array([0, 1]), np.array([0.0, -1e308]), np.full(2, scale), limit)
            found = Scores(linear, NO_CELLS, (), radius).of(np.array([[0.0, 0.0], [1.0, HALF]]))
        except (ValueError, InputError):
            return
    assert np.isfinite(found).all() and max(lengths_squared(found)) <= BALL**2


def test_scores_keep_directions_and_inner_points():
    found = ball_scores(2).of(np.array([[HALF, HALF], [HALF // 2, 0], [-HALF, 0], [HALF // 4, -HALF // 4]], float))
    assert found.tolist() == [[11585, 11585], [BALL // 2, 0], [-BALL, 0], [BALL // 4, -BALL // 4]]


@pytest.mark.parametrize("seed", range(5))
def test_a_rows_scores_depend_on_that_row_alone(seed):
    """The same whole numbers in any company, at any place of a batch, in any order of memory."""
    rng = np.random.default_rng(seed)
    scores, space = wild_scores(rng, -2, 1)
    rows = raw_rows(space, 101, rng)
    whole = scores.of(rows)
    order = rng.permutation(101)
    assert np.array_equal(scores.of(rows[order]), whole[order])
    assert np.array_equal(scores.of(np.asfortranarray(rows)), whole)
    for start, stop in ((0, 1), (3, 4), (1, 101), (7, 12), (50, 83)):
        assert np.array_equal(scores.of(rows[start:stop]), whole[start:stop])


def test_residuals_depend_on_that_row_alone():
    """A product of floats is rounded by its place in the batch, and cutting towards zero makes a step of the last bit.

    Under add-remove, a row that goes moves all others to other places: they must not change.
    """
    rng = np.random.default_rng(0)
    rows = np.rint(rng.normal(size=(60, 12)) * HALF / 5)
    matrix = rng.normal(size=(12, 1))
    for company in range(2, 60):
        scores = np.clip(rows / HALF, -1, 1)
        scores = scores / np.maximum(np.sqrt(np.einsum("ij,ij->i", scores, scores)), 1.0)[:, None]
        together = (scores[:company] @ matrix)[:, 0]
        for row in range(company):
            # half of the radius exactly, if rounded as in company; a hair beside it if rounded otherwise
            radius = 2 * abs(float(together[row]))
            query = ball_scores(12, 0, Residuals(matrix, None, np.zeros((1, 1)), radius))
            assert np.array_equal(query.of(rows[:company])[row], query.of(rows[row : row + 1])[0]), (company, row)


def test_scores_keep_their_own_numbers():
    """What is measured is what was given: a later change of the arrays changes nothing."""
    centre, scale, vectors = np.zeros(1), np.full(1, float(HALF)), np.eye(2)
    space = space_of("category:2", "number")
    cells = Cells.even(space.blocks[:1], 2)
    scores = Scores(Linear(np.array([2]), centre, scale, 1.0), cells, (Lookup(0, vectors),), 2.0)
    row = np.array([[CATEGORY_STEPS, 0.0, HALF / 2]])
    before = scores.of(row)
    centre += 100.0
    scale *= 0.01
    vectors *= 50.0
    assert np.array_equal(scores.of(row), before)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError):
            Linear(np.array([0]), np.array([bad]), np.ones(1), 1.0)
        with pytest.raises(ValueError):
            Lookup(0, np.array([[bad]]))


def test_an_empty_cell_has_no_score_but_that_of_being_empty():
    space = space_of("number", "category:2", "number")
    cells = Cells(space.blocks[1:], (2, 1), missing=(False, True))
    linear = Linear(np.array([0]), np.array([5000.0]), np.array([1000.0]), 9.0)
    lookups = (Lookup(0, np.array([[1.0], [-1.0]])), Lookup(1, np.array([[-0.25], [2.0]])))
    scores = Scores(linear, cells, lookups, 100.0)
    rows = np.array([[0.0, 0, 0, 0], [1.0, 0, CATEGORY_STEPS, 7], [5000.0, CATEGORY_STEPS, 0, -7]])
    found = scores.of(rows) / BALL * 100
    assert found == pytest.approx(np.array([[0, 0, 2.0], [-4.999, -1, -0.25], [0, 1, -0.25]]), abs=0.01)


def test_the_event_of_a_sum_does_not_depend_on_how_many_numbers_it_has():
    """What is charged before the first measurement is what is measured, be the cells as many as they will."""
    space = space_of("number", "number:5000", "category:3")
    for neighbours, delta in itertools.product((REPLACE, ADD_REMOVE), (1e-6, 0.0)):
        promise = Promise(1.0, delta, neighbours)
        few, many = (
            calibrated(
                TablesQuery(Cells.aligned(space.blocks, [n] * 3)), space, promise, share=0.5, rows=9, fresh=False
            )
            for n in (3, 400)
        )
        assert few.event == many.event
    scores = [ball_scores(n) for n in (2, 3)]
    events = [
        calibrated(
            MomentsQuery(s, None, 0.3, 0.6, 0.7), space, Promise(1.0, 1e-6, REPLACE), share=0.5, rows=9, fresh=False
        )
        for s in scores
    ]
    assert events[0].event == events[1].event


POSITIONS = np.delete(np.arange(-HALF, HALF + 1, dtype=np.float64), HALF)[:, None]  # 0 is no value


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 20, 40])
def test_every_grid_position_is_in_one_equal_cell(count):
    cells = Cells.even([Block("x", "number", 0, 1)], count)
    found, edges = cells.of(POSITIONS)[:, 0], cells.edges(0)
    assert found.min() == 0 and found.max() == count - 1 and (np.diff(found) >= 0).all()
    inside = (edges[found] <= POSITIONS[:, 0]) & ((POSITIONS[:, 0] < edges[found + 1]) | (found == count - 1))
    assert inside.all() and len(edges) == count + 1 and cells.level_positions(0) is None
    assert TablesQuery(cells).answer(POSITIONS)["pooled"].sum() == len(POSITIONS) * COUNT_STEPS
    assert np.ptp(np.bincount(found)) <= 2


@pytest.mark.parametrize("levels", [2, 3, 5, 11, 20])
def test_every_level_is_in_the_middle_of_its_cell(levels):
    cells = Cells.even([Block("x", "number", 0, 1, levels=levels)], 10)
    assert cells.counts == (levels,)
    at = cells.level_positions(0)
    assert np.array_equal(at, np.rint(at)) and (at != 0).all()
    assert cells.of(at[:, None])[:, 0].tolist() == list(range(levels))
    width = GRID / (levels - 1)
    near = np.rint(at + 0.49 * width), np.rint(at - 0.49 * width)
    for moved in near:
        assert cells.of(np.clip(moved, -HALF, HALF)[:, None])[:, 0].tolist() == list(range(levels))
    found, edges = cells.of(POSITIONS)[:, 0], cells.edges(0)
    assert found.min() == 0 and found.max() == levels - 1 and (np.diff(found) >= 0).all()
    assert ((edges[found] <= POSITIONS[:, 0]) & (POSITIONS[:, 0] <= edges[found + 1])).all()
    assert np.abs((edges[1:-2] + edges[2:-1]) / 2 - cells.level_positions(0)[1:-1]).max(initial=0.0) <= 1


def test_cuts_make_the_cells():
    cuts = np.array([-20000.0, -20000.0, 0.0, 12345.5])
    block = Block("x", "number", 0, 1, levels=5)
    cells = Cells((block,), (5,), (cuts,))
    cuts[:] = 0
    found = cells.of(POSITIONS)[:, 0]
    assert sorted(set(found.tolist())) == [0, 2, 3, 4]
    assert [int(cells.of(np.array([[p]]))[0, 0]) for p in (-20001, -20000, -1, 0, 1, 12346)] == [0, 2, 2, -1, 3, 4]
    assert cells.edges(0).tolist() == [-HALF, -20000.0, -20000.0, 0.0, 12345.5, HALF]
    for bad in (np.array([1.0, 0.0, 2.0, 3.0]), np.array([1.0])):
        with pytest.raises(ValueError):
            Cells((block,), (5,), (bad,))
    with pytest.raises(ValueError):
        Cells((Block("f", "flag", 0, 1),), (2,), (np.array([0.0]),))


def test_cut_cells_are_not_levels():
    cells = Cells((Block("x", "number", 0, 1, levels=3),), (3,), (np.array([-9.0, 9.0]),))
    assert cells.level_positions(0) is None


def test_what_is_empty_has_no_cell_and_no_class():
    space = space_of("flag", "category:3", "number")
    cells = Cells.even(space.blocks, 4)
    batch = np.array([[0, 0, 0, 0, 0], [HALF, 0, 0, 1, HALF], [-HALF, CATEGORY_STEPS, 0, 0, -HALF], [1, 0, 7, 0, -1]])
    assert cells.of(batch.astype(float)).tolist() == [[-1, -1, -1], [1, 2, 3], [0, 0, 0], [1, 1, 1]]
    assert Groups(cells).of(batch.astype(float)).tolist() == [-1, (1 * 3 + 2) * 4 + 3, 0, (1 * 3 + 1) * 4 + 1]
    assert [cell_count(b, 4) for b in space.blocks] == [2, 3, 4]
    groups = Groups(cells)
    assert groups.count == 24 and len(np.unique(groups.values_of(np.arange(24)), axis=0)) == 24
    assert (groups.values_of(np.array([5 * 4 + 3])) == [[1, 2, 3]]).all()


def test_what_is_empty_may_have_a_cell_and_a_class():
    space = space_of("flag", "category:3", "number", "number=5")
    cells = Cells.even(space.blocks, 4, missing=True)
    assert cells.missing == (True, True, True, False) and cells.sizes == (3, 4, 5, 4)
    batch = np.array([[0.0, 0, 0, 0, 0, 0], [HALF, 0, 0, CATEGORY_STEPS, HALF, 1]])
    assert cells.of(batch).tolist() == [[2, 3, 4, -1], [1, 2, 3, 2]]
    labels = Groups(Cells.even(space.blocks[:2], 4, missing=True))
    assert labels.count == 12 and labels.of(batch).tolist() == [2 * 4 + 3, 1 * 4 + 2]
    assert labels.values_of(np.array([11])).tolist() == [[2, 3]]
    counts = TablesQuery(cells).answer(batch)["pooled"] / COUNT_STEPS
    assert counts.sum() == 7 and counts[[2, 6, 11]].tolist() == [1, 1, 1]


@given(
    st.integers(1, 70_000) | st.none(),
    st.integers(1, 300),
    st.lists(st.integers(-HALF, HALF), max_size=4),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_level_is_in_one_cell_of_whole_levels_and_spikes_are_alone(levels, most, spikes, missing):
    """The cells of a number: in order, all levels in one each, as many levels as in any other; a spike by itself."""
    levels = None if levels is None else min(levels, 60_000)
    if levels is not None and levels > HALF and levels % 2:
        levels -= 1  # the middle one would be moved onto its neighbour: no column has so many, if they are odd
    last = GRID if levels is None else max(levels - 1, 1)
    at = np.rint(-HALF + np.arange(last + 1 if levels is None else levels) * (GRID / last))
    at = np.where(at == 0, 1.0, at)
    declared = tuple(int(at[np.abs(at - spike).argmin()]) for spike in spikes)
    block = Block("x", "number", 0, 1, levels=levels, spikes=declared)
    cells = Cells.aligned([block], [most], missing=missing)
    found = cells.of(at[:, None])[:, 0]
    assert found.min() >= 0 and found.max() == cells.counts[0] - 1 and (np.diff(found) >= 0).all()
    held = np.bincount(found, minlength=cells.counts[0])
    for spike in declared:
        assert len(np.unique(at[found == cells.of(np.array([[float(spike)]]))[0, 0]])) == 1
    if not declared and levels is not None:
        assert held.min() >= 1 and held.max() - held.min() <= 1 and cells.counts[0] == min(most, levels)
    assert cells.of(np.zeros((1, 1)))[0, 0] == (cells.counts[0] if missing else -1)
    assert TablesQuery(cells).answer(at[:, None])["pooled"].sum() == len(at) * COUNT_STEPS


def test_a_column_of_spikes_and_missing_cells_costs_what_any_column_does():
    """A row is in one cell of a column, whatever cells there are."""
    space = Space((Block("x", "number", 0, 1, levels=2000, spikes=(-HALF, 20_000)), Block("y", "flag", 1, 1)))
    plain, rich = Cells.even(space.blocks, 10), Cells.aligned(space.blocks, [300, 1], missing=True)
    for norm, relation in itertools.product(NORMS, (REPLACE, ZERO_OUT, ADD_REMOVE)):
        assert bound(TablesQuery(rich), space, relation, norm) == bound(TablesQuery(plain), space, relation, norm)
        reaches(TablesQuery(rich), space, [HALF, HALF], None if relation is ADD_REMOVE else [0.0, 0.0], relation, norm)


# ---- answers are exact


@pytest.mark.parametrize("name", list(SUMS))
def test_batches_do_not_matter(name):
    query, space = SUMS[name]
    rng = np.random.default_rng(4)
    rows = bounded(raw_rows(space, 50, rng), space)
    whole = query.answer(rows)
    for cuts in ([], [0, 1, 2], [17, 17, 40], list(range(50))):
        total = {part.name: np.zeros(part.shape) for part in query.parts}
        for batch in np.split(rows, cuts):
            for part, value in query.answer(batch).items():
                total[part] += value
        assert all(np.array_equal(total[part.name], whole[part.name]) for part in query.parts)


def slow_class(row, groups) -> int:
    """The class by its definition: place of each label's value, mixed radix."""
    out = 0
    for block, count in zip(groups.cells.blocks, groups.cells.counts, strict=True):
        place = slow_cell(row, block, count)
        if place < 0:
            return -1
        out = out * count + place
    return out


def slow_cell(row, block, count) -> int:
    part = [int(v) for v in row[block.start : block.stop]]
    if block.kind == "category":
        return next((i for i, v in enumerate(part) if v), -1)
    if part[0] == 0:
        return -1
    if block.kind == "flag":
        return int(part[0] > 0)
    if block.levels == count:
        return (2 * (part[0] + HALF) * (count - 1) + GRID) // (2 * GRID)
    return min((part[0] + HALF) * count // GRID, count - 1)


def slow_answer(query, rows) -> dict[str, list]:
    """Whole-number loops over rows and coordinates, from the definition of each sum."""
    if isinstance(query, Count):
        return {"rows": [len(rows) * COUNT_STEPS]}
    out = {part.name: np.zeros(part.shape, dtype=object) for part in query.parts}
    score = query.scores.of(rows) if isinstance(query, MomentsQuery) else rows
    by_class = isinstance(query, Gram) or (isinstance(query, MomentsQuery) and query.by_class)
    for row, x in zip(rows, score, strict=True):
        x = [int(v) for v in x]
        groups = getattr(query, "groups", None)
        label = 0 if groups is None else slow_class(row, groups)
        if isinstance(query, TablesQuery | CentreScale):
            blocks = query.cells.blocks if isinstance(query, TablesQuery) else query._others.blocks
            counts = query.cells.counts if isinstance(query, TablesQuery) else query._others.counts
            start = 0
            for block, count in zip(blocks, counts, strict=True):
                place = slow_cell(row, block, count)
                for part in {"pooled", "shares"} & set(out):
                    out[part][start + place] += COUNT_STEPS * (place >= 0)
                if "grouped" in out and place >= 0 and label >= 0:
                    out["grouped"][label, start + place] += COUNT_STEPS
                start += count
        if isinstance(query, CentreScale):
            for place, block in enumerate(b for b in query.blocks if b.kind == "number"):
                out["sums"][place] += x[block.start]
                out["squares"][place] += x[block.start] ** 2
            for place, block in enumerate(query.counted):
                out["present"][place] += COUNT_STEPS * (x[block.start] != 0)
        if "counts" in out and label >= 0:
            out["counts"][label] += COUNT_STEPS
        if isinstance(query, MomentsQuery) and "sums" in out and label >= 0:
            out["sums"][label] += np.array(x, dtype=object)
        if "diagonal" in out:
            pairs = list(itertools.combinations(range(len(x)), 2))
            diagonal, upper = [v * v for v in x], [x[i] * x[j] for i, j in pairs]
            split = by_class and groups is not None
            for part, values in (("diagonal", diagonal), ("upper", upper)):
                if split and label >= 0:
                    out[part][label] += np.array(values, dtype=object)
                elif not split:
                    target = out[part] if out[part].ndim == 1 else out[part][0]
                    target += np.array(values, dtype=object)
    return out


@pytest.mark.parametrize("name", list(SUMS))
def test_answers_are_what_the_definition_says(name):
    query, space = SUMS[name]
    rows = bounded(raw_rows(space, 25, np.random.default_rng(8)), space)
    slow = slow_answer(query, rows)
    for part, value in query.answer(rows).items():
        assert np.array_equal(value, np.array(slow[part], dtype=float)), part


def test_sums_stay_exact_at_their_largest():
    """Full rows, all of one sign: no lower bit is lost."""
    rows = np.tile([float(CATEGORY_STEPS), float(HALF)], (20_000, 1))
    found = Gram(2).answer(rows)
    assert [int(v) for v in found["diagonal"]] == [20_000 * CATEGORY_STEPS**2, 20_000 * HALF**2]
    assert int(found["upper"][0]) == 20_000 * CATEGORY_STEPS * HALF
    assert np.array_equal(symmetric(found["diagonal"], found["upper"]), rows.T @ rows)


@pytest.mark.parametrize("name", list(SUMS))
def test_no_row_adds_more_than_is_stated(name):
    """`Part.largest` is what the check for exact sums rests on."""
    query, space = SUMS[name]
    for row in bounded(raw_rows(space, 30, np.random.default_rng(2)), space):
        for part in query.parts:
            assert np.abs(query.answer(row[None])[part.name]).max(initial=0.0) <= part.largest


# ---- through the door


WEAK = Promise(1.0, 1e-6, REPLACE)


def private(rows, space, batches=3) -> PrivateRows:
    rows = np.asarray(rows, dtype=float)
    return PrivateRows(space, len(rows), lambda: iter(np.array_split(rows, batches)))


def ask(query, space, rows, promise=WEAK):
    return ask_as_calibrated(query, space, rows, promise)[0]


def ask_as_calibrated(query, space, rows, promise=WEAK):
    """The noisy answer, and the noise that was charged for."""
    meter = Meter(private(rows, space), promise, {"a": 1.0}, lambda *_: None)
    return meter.measure("a", query), meter.done["a"]


WIDE = space_of("number:40", *["number"] * 11)
BY_40 = Groups(Cells((WIDE.blocks[0],), (40,)))
SQUARES = (0.4, 0.7, 0.6)
# name -> query, space, its L2 bound under row/replace, and the weight of each part: written out here by hand
NOISY = {
    "tables": (
        TablesQuery(Cells((WIDE.blocks[1],), (1200,)), BY_40, 0.5, 2.0),
        WIDE,
        math.sqrt(2 * (0.25 + 4)),
        {"pooled": 0.5, "grouped": 2.0},
    ),
    "centre and scale": (
        CentreScale(space_of(*["number"] * 40, *["flag"] * 20).blocks),
        space_of(*["number"] * 40, *["flag"] * 20),
        2 * math.sqrt(60),
        {"sums": 1.0, "squares": 1.0, "shares": math.sqrt(2)},
    ),
    "moments": (
        MomentsQuery(ball_scores(11, 1), BY_40, *SQUARES),
        WIDE,
        math.sqrt(max(2 * (0.16 + 0.49 + 0.36), 2 * 0.49 + 2 * 0.36 + 0.49**2 / 0.72)),
        {"counts": 0.4, "sums": 0.7, "diagonal": 0.6, "upper": 0.6 * math.sqrt(2)},
    ),
    "moments by class": (
        MomentsQuery(ball_scores(11, 1), BY_40, *SQUARES, True),
        WIDE,
        math.sqrt(max(2 * (0.16 + 0.49 + 0.36), 2 * 0.49 + 2 * 0.36 + 0.49**2 / 0.72)),
        {"counts": 0.4, "sums": 0.7, "diagonal": 0.6, "upper": 0.6 * math.sqrt(2)},
    ),
    "gram": (Gram(12, None, 0.5), WIDE, math.sqrt(2) * 0.5 * 12 / 4, {"diagonal": 0.5, "upper": 0.5 * math.sqrt(2)}),
    "gram by class": (
        Gram(12, BY_40, 3.0),
        WIDE,
        math.sqrt(2) * 3 * 12 / 4,
        {"diagonal": 3.0, "upper": 3.0 * math.sqrt(2)},
    ),
}


def residuals(query, space, promise, runs, rows) -> tuple[dict[str, np.ndarray], float]:
    """Noise of each part, a line for each run: what came out less the exact answer."""
    exact = query.answer(rows)
    out = {part.name: [] for part in query.parts}
    for _ in range(runs):
        noisy, calibration = ask_as_calibrated(query, space, rows, promise)
        for part in query.parts:
            out[part.name].append((noisy.values[part.name] - exact[part.name] * part.step).ravel())
            assert noisy.sd(part.name) == pytest.approx(calibration.event.sd / part.weight)
    return {name: np.array(values) for name, values in out.items()}, calibration.event.scale


def fits(sample, law) -> bool:
    """Whether a sample looks like the law at scale 1, by its distribution and by its mean size."""
    spread = 1.0 if law == "laplace" else math.sqrt(math.pi / 2 - 1)
    mean = np.abs(sample).mean() / (1.0 if law == "laplace" else math.sqrt(2 / math.pi))
    return stats.kstest(sample, law).pvalue > 1e-4 and abs(mean - 1) < 4.5 * spread / math.sqrt(len(sample))


def has_scale(sample, law) -> None:
    """The law at scale 1 fits; at 2/3 and at 3/2 it does not."""
    assert [fits(sample * factor, law) for factor in (2 / 3, 1.0, 3 / 2)] == [False, True, False]


def enough(query, least=900) -> int:
    return -(-least // min(part.size for part in query.parts))


@pytest.mark.parametrize("name", list(NOISY))
def test_noise_of_every_part_has_its_scale_and_no_other(name):
    """sigma is the bound over mu; a part of weight w gets sigma / w; an off-diagonal entry sigma / (w sqrt 2)."""
    query, space, most, weights = NOISY[name]
    rows = raw_rows(space, 7, np.random.default_rng(3))
    sigma = most / calibrate.mu_for(1.0, 1e-6)
    found, scale = residuals(query, space, WEAK, enough(query), rows)
    assert scale == pytest.approx(sigma, rel=1e-6) and set(found) == set(weights)
    for part, sample in found.items():
        has_scale(sample.ravel() * weights[part] / sigma, "norm")
    joined = [sample.ravel() * weights[part] / sigma for part, sample in found.items()]
    for one, other in itertools.combinations(joined, 2):
        length = min(len(one), len(other))
        assert abs(float(one[:length] @ other[:length])) < 5 * math.sqrt(length), "parts share noise"
    for sample in found.values():
        if len(sample) > 1:
            flat = [(s / s.std()) for s in sample[:2]]
            assert abs(float(flat[0] @ flat[1])) < 5 * math.sqrt(len(flat[0])), "runs share noise"


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_looks_of_one_release_share_no_noise(delta):
    """Two lines of one meter, three questions of the same size: what one got says nothing about the other."""
    space = space_of("number:2000", "number")
    query = TablesQuery(Cells((space.blocks[0],), (2000,)))
    private = PrivateRows(space, 0, lambda: iter([np.zeros((0, 2))]))
    meter = Meter(
        private, Promise(1.0, delta, Neighbours(Unit.ROW, Relation.REPLACE)), {"a": 0.5, "b": 0.5}, lambda *_: None
    )
    one, other = (meter.measure(line, query).values["pooled"] for line in "ab")
    assert not np.isin(one, other[other != 0]).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(2000)


@pytest.mark.parametrize("name", ["tables", "moments", "gram"])
def test_pure_epsilon_gets_laplace_noise(name):
    query, space, _, weights = NOISY[name]
    promise = Promise(1.0, 0.0, REPLACE)
    rows = raw_rows(space, 7, np.random.default_rng(3))
    found, scale = residuals(query, space, promise, enough(query), rows)
    assert scale == pytest.approx(bound(query, space, REPLACE, "l1"), rel=1e-6)
    for part, sample in found.items():
        has_scale(sample.ravel() * weights[part] / scale, "laplace")
    event = calibrated(query, space, promise, share=1.0, rows=7, fresh=False).event
    assert event.noise == "laplace" and epsilon_of([event], REPLACE, 0.0) == pytest.approx(1.0, rel=1e-6)


def test_noise_of_a_count():
    promise = Promise(1.0, 1e-6, ADD_REMOVE)
    space = space_of("number")
    sigma = 1 / calibrate.mu_for(1.0, 1e-6)
    values = [float(ask(Count(), space, np.zeros((9, 1)), promise).values["rows"][0]) for _ in range(300)]
    has_scale((np.array(values) - 9) / sigma, "norm")


def test_noise_of_rows_and_gram_is_calibrated_together():
    """w = 4: mu^2 sigma^2 = s B^2 (2 + 2w + 1/(2w)), one scale for the rows and, over its weight, for the gram."""
    space = space_of(*["number"] * 20, row_bound=HALF)
    second = 2.0 * GRID / HALF
    query = RowsAndGram(map_of("identity", space, 20), second)
    sigma = 0.5 * math.sqrt(2 + 8 + 1 / 8) / calibrate.mu_for(1.0, 1e-6)
    values = bounded(raw_rows(space, 50, np.random.default_rng(1)), space)
    samples = {"rows": [], "diagonal": [], "upper": []}
    for _ in range(45):
        noisy = ask(query, space, values)
        samples["rows"].append((np.concatenate(list(noisy.rows.batches)) - values / GRID).ravel() / sigma)
        exact = query.gram.answer(values)
        for part, weight in (("diagonal", second), ("upper", second * math.sqrt(2))):
            change = noisy.gram.values[part] - exact[part] / GRID**2
            samples[part].append(change.ravel() * weight / sigma)
    assert noisy.gram.sd("upper") == pytest.approx(sigma / second / math.sqrt(2), rel=1e-6)
    for sample in samples.values():
        has_scale(np.concatenate(sample), "norm")
    assert abs(float(samples["rows"][0][:20] @ samples["diagonal"][0])) < 5 * math.sqrt(20)


def test_answers_leave_on_the_grid_of_their_part():
    query, space, _, _ = NOISY["moments"]
    noisy = ask(query, space, raw_rows(space, 20, np.random.default_rng(0)))
    for part in query.parts:
        steps = noisy.values[part.name] / part.step
        assert np.array_equal(steps, np.rint(steps))


def promises(query, space):
    for neighbours in EVERY:
        if isinstance(query, RowsAndGram) and neighbours.relation is Relation.ADD_REMOVE:
            continue
        if space.row_bound is None or neighbours.unit is Unit.ROW:
            yield neighbours


COSTED = [name for name in CASES if "count" not in name and "0.3 gram" not in name]


@pytest.mark.parametrize("name", COSTED[::3])
def test_calibration_costs_what_was_promised(name):
    """One line with the whole budget; two that share it 3 : 7, which together cost the promise."""
    query, space = CASES[name]
    for neighbours in promises(query, space):
        for epsilon, delta in ((0.1, 1e-9), (3.0, 1e-5), (1.0, 0.0)):
            promise = Promise(epsilon, delta, neighbours)
            make = functools.partial(calibrated, query, space, promise, rows=1000, fresh=False)
            whole = make(share=1.0)
            assert whole.account == ("pure" if delta == 0 else "sum" if isinstance(query, Sum) else "per-matrix")
            for events in ([whole.event], [make(share=0.3).event, make(share=0.7).event]):
                cost = epsilon_of(events, neighbours, delta)
                assert cost <= epsilon * (1 + 1e-9)
                assert cost == pytest.approx(epsilon, rel=1e-6)
            sd = preview_sd(query, space, promise, share=1.0, rows=1000, fresh=False)
            assert sd == pytest.approx(whole.event.sd)


def test_a_look_at_scores_costs_the_same_whatever_they_are():
    """A plan can state the noise of a second look before the first has been taken."""
    scales = set()
    for seed in range(4):
        scores, space = wild_scores(np.random.default_rng(seed), -3, 3)
        shape = tuple(lookup.vectors.shape for lookup in scores.lookups)
        query = MomentsQuery(scores, classes(space, 0), 0.4, 0.7, 0.6)
        scales.add(calibrated(query, space, WEAK, share=1.0, rows=9, fresh=False).event.scale)
        assert shape
    assert len(scales) == 1


def test_a_sum_is_charged_before_any_row_is_read():
    space, read = space_of("number"), []

    def batches():
        read.append(True)
        yield np.zeros((1, 1))

    def charge(line, event):
        assert not read and event.noise == "gaussian"

    for query in (TablesQuery(Cells.even(space.blocks, 3)), RowsAndGram(map_of("identity", space, 1), 1.0)):
        read.clear()
        Meter(PrivateRows(space, 1, batches), WEAK, {"a": 1.0}, charge).measure("a", query)
        assert read

    def refuse(line, event):
        raise InputError("a", "b", "c")

    read.clear()
    with pytest.raises(InputError):
        Meter(PrivateRows(space, 1, batches), WEAK, {"a": 1.0}, refuse).measure("a", Gram(1))
    assert not read


def test_a_line_of_a_sum_is_spent_once():
    charges = []
    meter = Meter(
        private(np.zeros((4, 1)), space_of("number")), WEAK, {"a": 0.5, "b": 0.5}, lambda *c: charges.append(c)
    )
    meter.measure("a", Gram(1))
    with pytest.raises(ValueError, match="already spent"):
        meter.measure("a", Gram(1))
    meter.measure("b", Count())
    assert [line for line, _ in charges] == ["a", "b"] and set(meter.done) == {"a", "b"}


def test_a_table_that_changes_between_passes_is_refused():
    space = space_of("number")
    sizes = iter([3, 2, 3])
    rows = PrivateRows(space, 3, lambda: iter([np.zeros((next(sizes), 1))]))
    lines = {"a": 0.3, "b": 0.3, "c": 0.4}
    meter = Meter(rows, WEAK, lines, lambda *_: None)
    meter.measure("a", Gram(1))
    with pytest.raises(InputError, match="changed"):
        meter.measure("b", Gram(1))
    sizes = iter([3, 4])
    joint = Meter(PrivateRows(space, 3, lambda: iter([np.zeros((next(sizes), 1))])), WEAK, {"a": 1.0}, lambda *_: None)
    noisy = joint.measure("a", RowsAndGram(map_of("identity", space, 1), 1.0))
    with pytest.raises(InputError, match="changed"):
        list(noisy.rows.batches)


def test_rows_that_break_their_bound_are_not_summed():
    space = space_of("number", "category:2")
    for bad in ([HALF + 1, 0, 0], [0.5, 0, 0], [0, CATEGORY_STEPS, 1], [np.nan, 0, 0]):
        for query in (Gram(3), TablesQuery(Cells.even(space.blocks, 3)), CentreScale(space.blocks)):
            with pytest.raises(RuntimeError, match="at the door"):
                ask(query, space, [bad])


def test_sums_that_could_lose_a_bit_are_refused_before_the_charge():
    space = space_of("number")

    def charge(line, event):
        raise AssertionError("charged")

    assert Gram(1).most_rows <= 2**30 + 50_000
    rows = PrivateRows(space, Gram(1).most_rows + 1, lambda: iter([]))
    with pytest.raises(InputError, match="exact"):
        Meter(rows, WEAK, {"a": 1.0}, charge).measure("a", Gram(1))


def test_a_sum_too_large_for_memory_is_refused_before_the_charge():
    """A row map leaves batch by batch; a sum is held whole, so the most that can be drawn is far too much for it."""
    space = space_of(*["number:4000"] * 3)
    cells = Cells.even(space.blocks, 10, 4096)

    def charge(line, event):
        raise AssertionError("charged")

    with pytest.raises(InputError):
        Meter(private(np.zeros((1, 3)), space), WEAK, {"a": 1.0}, charge).measure(
            "a", TablesQuery(cells, Groups(cells), 0.0, 1.0)
        )


def test_the_parts_of_a_sum_are_not_empty():
    """A table of no rows has the answer 0; the noise has its full scale."""
    space = space_of("number", "category:2")
    noisy = ask(MomentsQuery(ball_scores(1), classes(space, 1), 0.4, 0.7, 0.6), space, np.zeros((0, 3)))
    assert {name: value.shape for name, value in noisy.values.items()} == {
        "counts": (2,),
        "sums": (2, 1),
        "diagonal": (1,),
    }
    assert np.abs(noisy.values["counts"]).max() > 1e-3


# ---- questions that make no sense


@pytest.mark.parametrize("tiny", [1e-170, 1e-200, 5e-324])
def test_no_weight_is_too_small_for_its_bound(tiny):
    """A square that underflows must not make a bound of 0: refuse, or keep the bound."""
    space = space_of("category:2", "number", "number")
    label = [CATEGORY_STEPS, 0.0]
    one, other = unit_pair(-1.0)
    makers = (
        lambda: MomentsQuery(ball_scores(2, 2), None, 0.0, tiny, 0.0),
        lambda: MomentsQuery(ball_scores(2, 2), None, 0.0, tiny, tiny),
        lambda: TablesQuery(Cells.even(space.blocks, 3), None, tiny, 0.0),
    )
    for make in makers:
        try:
            query = make()
            claimed = calibrated(query, space, WEAK, share=1.0, rows=2, fresh=False)
        except (ValueError, InputError):
            continue
        for part in query.parts:
            assert claimed.parts[part.name].sd > 0.5, "next to no noise"
        if isinstance(query, MomentsQuery):
            scaled = {
                p.name: query.answer(np.array([label + one]))[p.name] - query.answer(np.array([label + other]))[p.name]
                for p in query.parts
            }
            assert any(np.abs(v).max() > 0 for v in scaled.values()) and claimed.event.bound(REPLACE) > 0


def test_a_question_without_parts_is_refused_when_it_is_made_or_asked():
    """Never with an arithmetic error: all weights 0, or no columns."""
    space = space_of("number")
    makers = (
        lambda: Gram(1, None, 0.0),
        lambda: RowsAndGram(map_of("identity", space, 1), 0.0),
        lambda: MomentsQuery(ball_scores(1), None, 0.0, 0.0, 0.0),
        lambda: TablesQuery(Cells.even(space.blocks, 3), None, 0.0, 0.0),
        lambda: CentreScale(()),
        lambda: MomentsQuery(ball_scores(1), None, 1.0, 1e90, 1e100),
    )
    for make in makers:
        try:
            query = make()
        except (ValueError, InputError):
            continue
        try:
            calibrated(query, space, WEAK, share=1.0, rows=1, fresh=False)
        except InputError:
            continue
        except Exception as failure:
            raise AssertionError(f"{make}: {failure!r}") from failure


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_weights_are_finite_and_not_negative(weight):
    space = space_of("number")
    for make in (
        lambda: TablesQuery(Cells.even(space.blocks, 3), None, weight),
        lambda: MomentsQuery(ball_scores(1), None, weight, 1.0, 1.0),
        lambda: MomentsQuery(ball_scores(1), None, 1.0, weight, 1.0),
        lambda: MomentsQuery(ball_scores(1), None, 1.0, 1.0, weight),
        lambda: RowsAndGram(map_of("identity", space, 1), weight),
        lambda: Gram(1, None, weight).parts,
    ):
        with pytest.raises(ValueError):
            make()


def test_a_map_that_was_published_with_a_gram_is_not_fresh_again():
    space = space_of(*["number"] * 5)
    seed = PublicSeed.fresh()
    row_map = RowMap(gaussian_matrix(seed.value, 5, 3), ROUNDING, GaussianRecipe(seed, 3))
    ask(RowsAndGram(row_map, 1.0), space, np.zeros((2, 5)))
    assert ask_as_calibrated(row_map, space, np.zeros((2, 5)))[1].account == "per-matrix"


def test_full_totals_add_up_in_integers():
    """The largest that float64 holds, twice, and one more: a sum that float64 does not hold."""
    totals = Totals(Count(), 1)
    for number in (2**53 - 1, 2**53 - 1, 1):
        totals._empty(_Running({"sums": np.array([float(number)])}))
    assert totals._whole["sums"].tolist() == [2**54 - 1]


def test_a_plan_calls_a_sum_a_sum():
    assert Total(3).describe() == "sums of 3 coordinates"
