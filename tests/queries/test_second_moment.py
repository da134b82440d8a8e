"""Second moments, their products with a few directions, rows along private axes: no neighbour exceeds the bound.

Searches work on the whole numbers that `answer` returns for encoded rows, each part times its weight and step. Then the
mechanisms as a whole: what they ask is what was planned, what they publish comes from noisy numbers alone, and the
noise has the scale that was paid for.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

import adumbra as ad
from adumbra.accounting import calibrate
from adumbra.audit import attacks
from adumbra.audit.transcripts import Witness
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF
from adumbra.mechanisms.catalogue import build
from adumbra.numerics.projections import ROUNDING
from adumbra.pipeline import prepare
from adumbra.privacy.meter import Meter, calibrated
from adumbra.privacy.private_rows import PrivateRows
from adumbra.privacy.sensitivity import bounds, sensitivity
from adumbra.queries.row_map import RowClip, RowMap, check_contraction, contraction
from adumbra.queries.second_moment import Gram, GramTimes, RowsAndGram
from adumbra.queries.sums import Total
from adumbra.rehearsal import rehearse
from adumbra.request import Request
from adumbra.tables.encode import encode
from adumbra.tables.read import open_table
from tests.at_the_noise import warming
from tests.mechanisms.test_contract import SCHEMA, answered, people, silenced
from tests.queries.plain import answered_plainly
from tests.queries.test_sums import (
    NORMS,
    bounded,
    cell_of,
    classes,
    empty_cell,
    has_scale,
    measured_vector,
    raw_rows,
    size,
    space_of,
)
from tests.repeatable import repeatable  # noqa: F401

ROW = {relation: Neighbours(Unit.ROW, relation) for relation in Relation}
CELL = {relation: Neighbours(Unit.CELL, relation) for relation in list(Relation)[:2]}
REPLACE, ZERO_OUT, ADD_REMOVE = ROW[Relation.REPLACE], ROW[Relation.ZERO_OUT], ROW[Relation.ADD_REMOVE]


def measured(query, row) -> np.ndarray:
    """What one row adds to the measured vector; of a row map, its answer."""
    batch = np.asarray(row, dtype=float)[None]
    return query.mapped(batch)[0] * query.answer_step if isinstance(query, RowMap) else measured_vector(query, batch)


def orthonormal(width, count, seed=0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, count)))[0]


# ---- no neighbour exceeds the bound


SPACES = {
    **{f"{d} numbers": ["number"] * d for d in range(1, 9)},
    "all kinds": ["category:3", "number", "flag", "category:2"],
    "fallbacks": ["category:3=1", "number=20000", "flag=32768", "number"],
}


def views(space):
    """Short, about as long as rows are, longer than any; about nothing, a place inside, a far corner."""
    rng = np.random.default_rng(space.width)
    reach = np.repeat(space.steps, space.widths)
    centres = {"": None, ", centred": np.rint(rng.uniform(-1, 1, space.width) * reach), ", cornered": -reach}
    for cut, length in (("short", 0.3), ("long", 3.0)):
        for name, centre in centres.items():
            bound = max(1, int(length * space.reach))
            yield f"{cut}{name}", RowClip(bound, None if centre is None else centre.astype(np.int64))


def bases(width):
    """1 to 4 directions: random, along the axes, waves (which see a row everywhere), nothing at all."""
    most = min(width, 4)
    waves = np.linalg.qr(np.cos(np.pi / width * np.outer(np.arange(width) + 0.5, np.arange(most))))[0]
    yield "1 random", orthonormal(width, 1, 1)
    yield "2 axes", np.eye(width, min(width, 2))
    yield "3 random", orthonormal(width, min(width, 3), 3)
    yield "4 waves", waves
    yield "nothing", np.zeros((width, 1))


def queries(space):
    width = space.width
    for triangle in (False, True):
        yield f"gram, {triangle}", Gram(width, triangle=triangle)
        yield f"gram by class, {triangle}", Gram(width, classes(space, 0), 0.7, triangle=triangle)
    yield "total", Total(width)
    for name, view in views(space):
        for triangle in (False, True):
            yield f"gram, {triangle}, {name}", Gram(width, weight=1.3, clip=view, triangle=triangle)
        yield f"gram by class, {name}", Gram(width, classes(space, 0), clip=view, triangle=True)
        for directions, basis in bases(width):
            if directions[0] in "14" or name == "short":
                yield f"gram times {directions}, {name}", GramTimes.of(basis, view)
                yield f"rows along {directions}, {name}", RowMap(contraction(basis, ROUNDING), ROUNDING, clip=view)


def neighbours_of(space, rng, count=14):
    """Pairs of rows, before clipping, for every unit and relation; the empty row and corners among them."""
    raw = raw_rows(space, count, rng)
    empty = np.concatenate([empty_cell(b) for b in space.blocks])
    yield REPLACE, [(a, b) for a, b in itertools.combinations([*raw, empty], 2)]
    yield ZERO_OUT, [(a, empty) for a in raw]
    yield ADD_REMOVE, [(a, None) for a in raw]
    for relation, neighbours in CELL.items():
        pairs = []
        for place, row in enumerate(raw):
            block, other = space.blocks[place % len(space.blocks)], row.copy()
            emptied = relation is Relation.ZERO_OUT
            other[block.start : block.stop] = empty_cell(block) if emptied else cell_of(block, rng)
            pairs.append((row, other))
        yield neighbours, pairs


def moved(query, space, pair, known) -> np.ndarray:
    """How far the answer moves; rows that were answered before are looked up."""
    out = []
    for row in pair:
        key = None if row is None else row.tobytes()
        if key not in known:
            known[key] = 0.0 if row is None else measured(query, bounded(row[None], space)[0])
        out.append(known[key])
    return out[0] - out[1]


def climbed(query, space, pair, neighbours, norm, rng, known, steps=12) -> float:
    """Make a pair of rows worse, a cell at a time."""
    best = size(moved(query, space, pair, known), norm)
    for _ in range(steps):
        new = [None if row is None else row.copy() for row in pair]
        side = 0 if neighbours.relation is not Relation.REPLACE else int(rng.integers(2))
        block = space.blocks[rng.integers(len(space.blocks))]
        cell = cell_of(block, rng)
        if block.kind == "number" and rng.random() < 0.5:
            near = new[side][block.start] + rng.normal() * HALF / 4
            cell = np.array([float(np.clip(np.rint(near), -HALF, HALF))])
        new[side][block.start : block.stop] = cell
        found = size(moved(query, space, new, known), norm)
        if found > best:
            best, pair = found, new
    return best


@pytest.mark.parametrize("row_bound", [None, HALF // 2], ids=["whole", "clipped"])
@pytest.mark.parametrize("kinds", list(SPACES))
def test_no_neighbour_exceeds_the_bound(kinds, row_bound):
    space = space_of(*SPACES[kinds], row_bound=row_bound)
    rng = np.random.default_rng(len(kinds))
    pairs = list(neighbours_of(space, rng))
    for name, query in queries(space):
        claimed = {norm: bounds(query, space, norm) for norm in NORMS}
        known = {}
        for neighbours, tried in pairs:
            if isinstance(query, RowMap) and neighbours is ADD_REMOVE:
                continue
            changes = np.array([moved(query, space, pair, known) for pair in tried])
            for norm in NORMS:
                sizes = np.linalg.norm(changes, ord=NORMS[norm], axis=1)
                worst = float(sizes.max())
                if neighbours.unit is Unit.ROW:
                    pair = tried[int(sizes.argmax())]
                    worst = max(worst, climbed(query, space, pair, neighbours, norm, rng, known))
                most = claimed[norm][str(neighbours)]
                assert worst <= most, f"{name}: {neighbours}, {norm}: {worst:.6g} > {most:.6g}"


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("kinds", ["1 numbers", "8 numbers", "all kinds", "fallbacks"])
def test_the_door_answers_what_the_query_says(kinds, threads, monkeypatch):
    """Rows are clipped and their products added up by compiled code: the same whole numbers, in any batches."""
    monkeypatch.setenv("ADUMBRA_THREADS", threads)
    silenced(monkeypatch)
    space, rng = space_of(*SPACES[kinds]), np.random.default_rng(3)
    rows = raw_rows(space, 53, rng)
    promise = Promise(1.0, 1e-6, REPLACE)
    for name, query in queries(space):
        for cuts in ([], [1, 20, 20, 47]):
            batches = np.split(rows, cuts)
            private = PrivateRows(space, 53, lambda batches=batches: iter(batches))
            noisy = Meter(private, promise, {"a": 1.0}, lambda *_: None).measure("a", query)
            if isinstance(query, RowMap):
                exact = answered_plainly(query, rows)["rows"]
                assert np.array_equal(np.concatenate(list(noisy.batches)), exact * query.answer_step), name
                continue
            exact = answered_plainly(query, rows)
            for part in query.parts:
                assert np.array_equal(noisy.values[part.name], exact[part.name] * part.step), f"{name}, {part.name}"


# ---- the worst pairs reach it


def reaches(query, space, one, other, neighbours, norm="l2", share=0.99) -> None:
    """The pair (encoded; None: no row) is within the bound and at least `share` of it."""
    change = measured(query, one) - (0.0 if other is None else measured(query, other))
    most = sensitivity(query, space, neighbours, norm)
    assert share * most <= size(change, norm) <= most, f"{size(change, norm):.6g} of {most:.6g}"


def sign_matrix(width, off) -> np.ndarray:
    """1 on the diagonal and off/2 beside it, with the signs [[+, +], [+, -]]."""
    first = np.arange(width) < width // 2
    signs = np.where(~first[:, None] & ~first[None], -1.0, 1.0)
    return np.where(np.eye(width, dtype=bool), signs, signs * off / 2)


def reached_constant(width, off) -> float:
    """The spread of eigenvalues of that matrix (docs/proofs/second-moment.md)."""
    return math.sqrt((2 - off + off * width / 2) ** 2 + off**2 * (width // 2) * (width - width // 2))


def ball(width, bound=HALF):
    """A space in which rows fill a ball of this many grid steps."""
    return space_of(*["number"] * width, row_bound=bound)


@pytest.mark.parametrize("triangle", [True, False])
@pytest.mark.parametrize("width", [2, 3, 5, 8, 60, 200])
def test_worst_pair_of_the_triangle(width, triangle):
    """Eigenvectors of the sign matrix: all of the bound for two columns, and nearly all for many."""
    space, query = ball(width), Gram(width, triangle=triangle)
    vectors = np.linalg.eigh(sign_matrix(width, query.off_diagonal))[1][:, [0, -1]]
    low, high = np.trunc(vectors.T * HALF)
    share = 0.99 if width in (2, 60, 200) else 0.95
    reaches(query, space, high, low, REPLACE, "l1", share)
    found = size(measured(query, high) - measured(query, low), "l1")
    assert found == pytest.approx(reached_constant(width, query.off_diagonal) / 4, rel=1e-3 * max(1, width / 20))


@pytest.mark.parametrize("width", [1, 2, 3, 8, 60])
def test_one_row_of_the_triangle(width):
    """(d + 1) / 2 in the plain triangle: for emptied and added rows, and for them alone."""
    space = ball(width, HALF // 2)
    even = np.full(width, math.floor(space.row_bound / math.sqrt(width)), dtype=float)
    first = np.eye(1, width)[0] * space.row_bound
    for query in (Gram(width, triangle=True), Gram(width), Gram(width, clip=RowClip(HALF // 2), triangle=True)):
        for row, norm in ((even, "l1"), (first, "l2")):
            reaches(query, space, row, 0 * row, ZERO_OUT, norm)
            reaches(query, space, row, None, ADD_REMOVE, norm)
    alone = sensitivity(Gram(width, triangle=True), space, ZERO_OUT, "l1")
    assert alone == pytest.approx((width + 1) / 2 / 16, rel=1e-6)
    replaced = sensitivity(Gram(width, triangle=True), space, REPLACE, "l1")
    assert replaced == pytest.approx(math.sqrt(width * (width + 3) / 2) / 16 if width > 1 else 1 / 16, rel=1e-6)


@pytest.mark.parametrize("off", [1.0, math.sqrt(2.0)])
@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_no_signs_are_worse_than_the_constant(width, off):
    """All sign matrices: the spread of their eigenvalues is the largest L1 change of the triangle, exactly."""
    places = list(itertools.combinations_with_replacement(range(width), 2))
    count = 2 ** (len(places) - 1)  # S and -S have one spread
    bits = (np.arange(count)[:, None] >> np.arange(len(places))) & 1
    matrices = np.zeros((count, width, width))
    for column, (i, j) in enumerate(places):
        matrices[:, i, j] = matrices[:, j, i] = (1 - 2 * bits[:, column]) * (1.0 if i == j else off / 2)
    values = np.linalg.eigvalsh(matrices)
    spread = float((np.maximum(values[:, -1], 0) - np.minimum(values[:, 0], 0)).max())
    claimed = sensitivity(Gram(width, triangle=off == 1.0), ball(width, GRID), REPLACE, "l1")
    claimed /= (ball(width, GRID).reach / GRID) ** 2
    assert spread <= claimed
    if off == 1.0:
        assert spread == pytest.approx(reached_constant(width, off), rel=1e-12)


def test_a_row_about_a_centre_that_is_emptied_is_a_replaced_one():
    """The empty row lies at minus the centre, on the other side of the ball and at right angles to a worst one."""
    space, bound = space_of("number", "number"), HALF // 4
    view = RowClip(bound, np.array([HALF, 0]))
    one, empty = np.array([HALF, HALF // 2], dtype=float), np.zeros(2)
    for query in (Gram(2, clip=view), GramTimes.of(np.eye(2), view)):
        reaches(query, space, one, empty, ZERO_OUT)
        assert sensitivity(query, space, ZERO_OUT) > 1.4 * sensitivity(query, space, ADD_REMOVE)
    other = np.array([HALF // 2 + HALF // 2 + HALF // 4, 0], dtype=float)
    reaches(RowMap(contraction(np.eye(2), ROUNDING), ROUNDING, clip=view), space, other, empty, ZERO_OUT)


@pytest.mark.parametrize("directions", [1, 2, 3, 4])
def test_worst_pair_of_products(directions):
    """At right angles within the span; along the only direction and across it."""
    width = 8
    space, view = ball(width), RowClip(HALF)
    basis = orthonormal(width, directions, 7)
    query = GramTimes.of(basis, view)
    across = np.linalg.svd(basis)[0][:, -1]
    one, other = basis[:, 0], (basis[:, 1] if directions > 1 else across)
    one, other = np.trunc(one * HALF), np.trunc(other * HALF)
    reaches(query, space, one, other, REPLACE)
    reaches(query, space, one, 0 * one, ZERO_OUT)
    reaches(query, space, one, None, ADD_REMOVE)


@pytest.mark.parametrize("directions", [2, 4])
def test_worst_pair_of_products_in_all_numbers(directions):
    """Halves of the coordinates, and directions along which both rows are everywhere as long: all numbers move."""
    width = 8
    half = np.arange(width) < width // 2
    rows = np.stack([half, ~half]) / math.sqrt(width / 2)
    seen = np.stack([np.ones(directions), np.where(np.arange(directions) % 2, -1.0, 1.0)]) / math.sqrt(directions)
    rest = np.linalg.svd(rows)[2][2:directions], np.linalg.svd(seen)[2][2:]
    basis = rows.T @ seen + rest[0].T @ rest[1]
    query, space = GramTimes.of(basis, RowClip(HALF)), ball(width)
    one, other = np.trunc(rows * HALF)
    reaches(query, space, one, other, REPLACE, "l1")
    even = np.trunc(basis.sum(axis=1) / math.sqrt(directions) * HALF)
    assert size(measured(query, even), "l1") <= sensitivity(query, space, ADD_REMOVE, "l1")


@pytest.mark.parametrize("directions", [1, 3])
def test_worst_pair_of_rows_along_axes(directions):
    """Antipodal rows; in L1 along the diagonal of the axes; values of a category where a ball would be too large."""
    width, space = 6, ball(6)
    basis = orthonormal(width, directions, 3)
    query = RowMap(contraction(basis, ROUNDING), ROUNDING, clip=RowClip(HALF))
    row = np.trunc(basis.sum(axis=1) / math.sqrt(directions) * HALF)
    for norm in NORMS:
        reaches(query, space, row, -row, REPLACE, norm)
        reaches(query, space, row, 0 * row, ZERO_OUT, norm)
    wards = space_of("category:3")
    along = np.array([[1.0], [-1.0], [0.0]]) / math.sqrt(2)
    query = RowMap(contraction(along, ROUNDING), ROUNDING, clip=RowClip(int(wards.reach)))
    reaches(query, wards, [CATEGORY_STEPS, 0, 0], [0, CATEGORY_STEPS, 0], REPLACE)
    assert sensitivity(query, wards, REPLACE) < 1.01 < 1.4 < 2 * wards.reach / GRID
    numbers = space_of(*["number"] * 9)
    query = RowMap(contraction(np.eye(9)[:, :1], ROUNDING), ROUNDING, clip=RowClip(2 * HALF))
    low, high = np.zeros(9), np.zeros(9)
    low[0], high[0] = -HALF, HALF
    reaches(query, numbers, low, high, CELL[Relation.REPLACE])


def test_worst_pair_of_a_total():
    corners = [HALF, HALF, HALF, CATEGORY_STEPS, 0, 0], [-HALF, -HALF, -HALF, 0, 0, CATEGORY_STEPS]
    space = space_of("number", "flag", "number", "category:3")
    for norm in NORMS:
        reaches(Total(6), space, *np.array(corners, dtype=float), REPLACE, norm, share=0.98)
        reaches(Total(6), space, np.array(corners[0], dtype=float), None, ADD_REMOVE, norm, share=0.98)
        reaches(Total(6), space, np.array(corners[0], dtype=float), np.zeros(6), ZERO_OUT, norm, share=0.98)


# ---- rows about a centre


@pytest.mark.parametrize("seed", range(4))
def test_rows_about_a_centre_are_whole_and_not_too_long_each_by_itself(seed):
    rng = np.random.default_rng(seed)
    space = space_of("category:3", "number", "flag", "number=9", "category:4")
    reach = np.repeat(space.steps, space.widths)
    for bound in (1, 2, 777, HALF, 100_003, 10**7):
        for centre in (None, np.rint(rng.uniform(-1, 1, space.width) * reach).astype(np.int64), reach.astype(np.int64)):
            view, rows = RowClip(bound, centre), raw_rows(space, 60, rng)
            cut = view.of(rows)
            assert np.array_equal(cut, np.rint(cut)) and np.abs(cut).max() <= view.largest
            assert max(sum(int(v) ** 2 for v in row) for row in cut) <= bound**2
            moved = rows if centre is None else rows - centre
            inside = np.linalg.norm(moved, axis=1) <= bound
            assert np.array_equal(cut[inside], moved[inside])
            # a step in each coordinate from the ball's own place: the bound for rows along axes counts on it
            wanted = moved * np.minimum(1.0, bound / np.maximum(np.linalg.norm(moved, axis=1), 1e-9))[:, None]
            assert np.linalg.norm(cut - wanted, axis=1).max() <= math.sqrt(space.width) + 1
            order = rng.permutation(60)
            assert np.array_equal(view.of(rows[order]), cut[order])
            assert np.array_equal(view.of(np.asfortranarray(rows)), cut)
            assert all(np.array_equal(view.of(rows[i : i + 1])[0], cut[i]) for i in range(60))


@pytest.mark.parametrize("kinds", ["2 numbers", "8 numbers", "all kinds", "fallbacks"])
def test_a_view_takes_no_two_rows_further_apart(kinds):
    """But for the cut to whole steps: what the bound of a single cell of a long row rests on."""
    space, rng = space_of(*SPACES[kinds]), np.random.default_rng(1)
    rows, width = raw_rows(space, 400, rng), space.width
    cells, empty = rows.copy(), np.concatenate([empty_cell(b) for b in space.blocks])
    for place, row in enumerate(cells):
        block = space.blocks[place % len(space.blocks)]
        row[block.start : block.stop] = cell_of(block, rng)
    others = {REPLACE: np.roll(rows, 1, axis=0), ZERO_OUT: np.tile(empty, (400, 1)), CELL[Relation.REPLACE]: cells}
    reach = np.repeat(space.steps, space.widths)
    for length, share in itertools.product((0.01, 0.3, 0.8, 1.2), (None, 0.4, -1.0)):
        view = RowClip(int(length * space.reach), None if share is None else (reach * share).astype(np.int64))
        whole = RowMap(contraction(np.eye(width), ROUNDING), ROUNDING, clip=view)
        for neighbours, other in others.items():
            moved = np.linalg.norm(view.of(rows) - view.of(other), axis=1)
            assert (moved <= np.linalg.norm(rows - other, axis=1) + 2 * (math.sqrt(width) + 1)).all()
            assert moved.max() / GRID <= sensitivity(whole, space, neighbours)


def test_clipped_rows_have_no_bound_beside_a_second_moment():
    row_map = RowMap(contraction(np.eye(2), ROUNDING), ROUNDING, clip=RowClip(HALF))
    with pytest.raises(ValueError, match="not clipped once more"):
        sensitivity(RowsAndGram(row_map, 1.0), space_of("number", "number"), REPLACE)


def test_a_view_keeps_its_own_centre_and_leaves_the_rows_alone():
    centre, rows = np.array([5, 6]), np.array([[100.0, 0.0]])
    view = RowClip(10, centre)
    before = view.of(rows)
    centre += 50
    assert np.array_equal(view.of(rows), before) and rows.tolist() == [[100.0, 0.0]]
    for bad in (lambda: RowClip(0), lambda: RowClip(5, np.array([CATEGORY_STEPS + 1]))):
        with pytest.raises(ValueError):
            bad()
    wild = RowClip.about(np.array([1e30, -1e30, 0.25]), 0.5, space_of("number", "category:2"))
    assert wild.centre.tolist() == [HALF, -CATEGORY_STEPS, GRID // 4] and wild.bound == HALF


# ---- directions that lengthen nothing


def lengthens_nothing(matrix, step) -> bool:
    """1/step^2 - M'M is not negative: elimination in fractions, exact."""
    count = matrix.shape[1]
    whole = [[int(v) for v in row] for row in matrix]
    limit = Fraction(1) / (Fraction(step) ** 2)
    left = [
        [Fraction(-sum(row[i] * row[j] for row in whole)) + (limit if i == j else 0) for j in range(count)]
        for i in range(count)
    ]
    for i in range(count):
        if left[i][i] < 0 or (left[i][i] == 0 and any(left[i])):
            return False
        for j in range(i + 1, count):
            factor = left[j][i] / left[i][i] if left[i][i] else 0
            left[j] = [a - factor * b for a, b in zip(left[j], left[i], strict=True)]
    return True


@pytest.mark.parametrize("step", [ROUNDING, GramTimes.BASIS_STEP])
@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 1), (7, 7), (8, 3), (500, 4), (5000, 2)], ids=lambda s: f"{s[0]}x{s[1]}"
)
def test_rounded_directions_lengthen_no_row(shape, step):
    waves = np.cos(np.pi / shape[0] * np.outer(np.arange(shape[0]) + 0.5, np.arange(shape[1])))
    for basis in (orthonormal(*shape), np.eye(*shape), waves / np.linalg.norm(waves, axis=0)):
        matrix = contraction(basis, step)
        assert lengthens_nothing(matrix, step)
        lengths = np.linalg.svd(matrix * step, compute_uv=False)
        assert lengths.min() > 1 - step * math.sqrt(basis.size) - 1e-8, "shrunk by more than a hair"


def test_directions_of_extreme_shapes_lengthen_no_row():
    for shape in ((2000, 300), (300, 300)):
        matrix = contraction(orthonormal(*shape), ROUNDING)
        assert np.linalg.norm(matrix * ROUNDING, 2) <= 1.0


def test_a_basis_that_lengthens_rows_is_refused():
    basis = orthonormal(6, 3)
    for factor in (1 + 1e-6, 1.5, 100.0):
        longer = np.rint(basis * factor / GramTimes.BASIS_STEP).astype(np.int64)
        with pytest.raises(ValueError, match="lengthens"):
            GramTimes(longer, RowClip(HALF))
        with pytest.raises(ValueError, match="lengthens"):
            check_contraction(longer, GramTimes.BASIS_STEP)
        with pytest.raises(ValueError, match="lengthens"):
            RowMap(np.rint(basis * factor / ROUNDING).astype(np.int64), ROUNDING, clip=RowClip(HALF))
    slanted = np.array([[1.0, 1.0], [0.0, 0.0]])  # each column is 1 long, and a row along both is lengthened
    with pytest.raises(ValueError, match="lengthens"):
        contraction(slanted, ROUNDING)


def test_a_basis_cannot_be_changed_afterwards():
    given = contraction(orthonormal(4, 2), GramTimes.BASIS_STEP)
    query = GramTimes(given, RowClip(HALF))
    before = query.basis.copy()
    given *= 3
    assert np.array_equal(query.basis, before)
    with pytest.raises(ValueError):
        query.basis[0, 0] = 7


# ---- products are exact


def slow_products(query, rows) -> np.ndarray:
    """The definition in fractions: a row adds x t, t being x Q cut towards zero."""
    out = [[0] * query.basis.shape[1] for _ in range(query.basis.shape[0])]
    for row in query.clip.of(rows):
        x = [int(v) for v in row]
        for j in range(query.basis.shape[1]):
            along = sum(Fraction(v) * int(q) for v, q in zip(x, query.basis[:, j], strict=True))
            t = int(along * Fraction(query.BASIS_STEP) / Fraction(query.coarse))
            for i, v in enumerate(x):
                out[i][j] += v * t
    return np.array(out, dtype=float)


@pytest.mark.parametrize("bound", [5, HALF // 3, HALF, 2 * HALF, 2**20, 2**24 + 1])
@pytest.mark.parametrize("directions", [1, 3])
def test_products_are_exact_in_any_company(directions, bound):
    space, rng = space_of("category:3", *["number"] * 9), np.random.default_rng(bound)
    for basis in (orthonormal(12, directions, 5), np.eye(12, directions), orthonormal(12, directions) * 2.0**-10):
        query = GramTimes.of(basis, RowClip(bound, np.arange(12) * 1000))
        rows = raw_rows(space, 30, rng)
        whole = query.answer(rows)["products"]
        assert np.array_equal(whole, slow_products(query, rows))
        order = rng.permutation(30)
        assert np.array_equal(query.answer(rows[order])["products"], whole)
        for cuts in ([1], [7, 8], list(range(30))):
            assert np.array_equal(sum(query.answer(batch)["products"] for batch in np.split(rows, cuts)), whole)
        assert np.abs(whole).max() <= 30 * query.parts[0].largest


def test_what_a_row_sees_is_never_longer_than_the_row():
    """Cut towards zero: also where a hair less than a whole step is left over in all directions."""
    for directions, bound in itertools.product((1, 4, 9, 16), (7, 101, HALF - 1, HALF + 1, 3 * HALF + 1)):
        query, space = GramTimes.of(np.eye(16, directions), RowClip(bound)), ball(16, bound)
        for used in range(1, directions + 1):
            row = np.zeros(16)
            row[:used] = math.floor(bound / math.sqrt(used))
            cut = query.clip.of(row[None])[0]
            found = query.answer(row[None])["products"]
            seen = found[0] / max(cut[0], 1.0) * query.coarse
            assert np.linalg.norm(seen) <= np.linalg.norm(cut)
            assert size(measured(query, row), "l2") <= sensitivity(query, space, ADD_REMOVE)


# ---- noise does not depend on what was found


def test_a_round_costs_the_same_whatever_the_directions_are():
    space, view = space_of(*["number"] * 6, row_bound=HALF), RowClip(HALF)
    for neighbours, delta in itertools.product((REPLACE, ZERO_OUT), (1e-6, 0.0)):
        promise = Promise(1.0, delta, neighbours)
        for maker in (
            lambda basis: GramTimes.of(basis, view),
            lambda basis: RowMap(contraction(basis, ROUNDING), ROUNDING, clip=view),
            lambda basis: RowMap(contraction(basis, ROUNDING), ROUNDING, clip=view, pure="l2-laplace"),
        ):
            events = [
                calibrated(maker(basis), space, promise, share=0.5, rows=9, fresh=False).event
                for basis in (*(orthonormal(6, 3, seed) for seed in range(3)), np.eye(6, 3), np.zeros((6, 3)))
            ]
            assert all(event == events[0] for event in events)


def test_a_second_moment_costs_the_same_whatever_the_centre_is():
    """Also where it stands in for a centre that is not known yet: a centre of 0 is a centre."""
    space = space_of(*["number"] * 6)
    for neighbours in ROW.values():
        events = [
            calibrated(
                Gram(6, clip=RowClip.about(centre, 0.4, space), triangle=True),
                space,
                Promise(1.0, 0.0, neighbours),
                share=1.0,
                rows=9,
                fresh=False,
            ).event
            for centre in (np.zeros(6), np.full(6, 0.3), np.full(6, -9.0))
        ]
        assert all(event == events[0] for event in events)


# ---- the mechanisms as a whole

VARIANTS = {
    "lip": ("lip", {}),
    "lip by length": ("lip", {"noise": "l2-laplace", "components": "2"}),
    "lip about its mean": ("lip", {"centred": "yes"}),
    "lip by length about its mean": ("lip", {"noise": "l2-laplace", "centred": "yes"}),
    "lip rows": ("lip", {"result": "coordinates", "components": "2"}),
    "lip rows, independent": ("lip", {"result": "approximation", "components": "3", "row_noise": "laplace"}),
    "lip samples": ("lip", {"result": "samples", "rows": "20"}),
    "lop": ("lop", {"components": "3"}),
    "lop in columns": ("lop", {"components": "2", "result": "approximation", "row_noise": "laplace"}),
    "analyze_gauss": ("analyze_gauss", {}),
    "analyze_gauss rows": ("analyze_gauss", {"result": "coordinates", "components": "2", "axes_share": "0.3"}),
    "analyze_gauss about its mean": ("analyze_gauss", {"centred": "yes", "components": "2"}),
    "analyze_gauss samples": ("analyze_gauss", {"result": "samples", "rows": "20"}),
    "power_method": ("power_method", {"components": "2"}),
    "power_method rows": ("power_method", {"components": "1", "rounds": "2", "result": "coordinates"}),
}
SEED = "second moment"


def built(variant):
    return build(*VARIANTS[variant])


def relations_of(variant):
    """Relations under which the variant can be asked for: one that publishes rows shows how many there are."""
    name, options = VARIANTS[variant]
    by_row = options.get("result") in ("coordinates", "approximation") or name == "lop"
    return list(Relation)[:2] if by_row else list(Relation)


def other_people(count=60):
    """As unlike `people` as there is: all alike, at the ends of their ranges or empty."""
    rows = [{"age": 110.0, "smoker": True, "ward": "c"}, {"age": None, "smoker": None, "ward": None}]
    return pl.DataFrame(rows * (count // 2), schema=people(1).schema)


def published(release):
    """All that is in a release but its name and date."""
    card = {**release.card.model_dump(), "release_id": "", "created": "", "files": {}}
    drawn = dict(release.record.pictures)
    return card, {key: value.tolist() for key, value in release.arrays.items()}, release.table.to_dicts(), drawn


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_what_is_published_comes_from_noisy_numbers_alone(variant):
    """Two tables that share no row and get the same noisy answers: nothing else may differ."""
    for relation in relations_of(variant):
        found = []
        for table in (people(60), other_people(60)):
            calls = itertools.count()

            with pytest.MonkeyPatch.context() as patch:
                made_up = warming(patch)

                def told(exact, step, calls=calls, made_up=made_up):
                    rng = np.random.default_rng(0 if made_up else next(calls))
                    return 40.0 * rng.random(np.shape(exact)) ** 3 + rng.normal(size=np.shape(exact))

                answered(patch, told)
                budget, seed = ad.Budget(2.0, 1e-5, Unit.ROW, relation), ad.PublicSeed.given(SEED)
                found.append(published(ad.release(table, SCHEMA, built(variant), budget, seed=seed)))
        assert found[0] == found[1]


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_planned_noise_is_the_noise_of_the_run_whatever_the_table(variant):
    for relation in relations_of(variant):
        budget = ad.Budget(3.0, 1e-5, Unit.ROW, relation)
        planned = ad.plan(people(60), SCHEMA, built(variant), budget, seed=ad.PublicSeed.given(SEED))
        for table in (people(60), other_people(60)):
            looks = looked(built(variant), table, budget)
            assert {look.line: look.event for look in looks} == {
                line: calibration.event for line, calibration in planned.calibrations.items()
            }


def looked(mechanism, table, budget, times=None, schema=SCHEMA):
    """Everything noisy that one run saw; or that each of several did."""
    job = prepare(Request(open_table(table), schema, mechanism, budget, seed=ad.PublicSeed.given(SEED)))
    witnesses = []

    def watched(meter):
        witnesses.append(Witness(meter))
        return witnesses[-1]

    for draft in rehearse(job, watched, times or 1):
        for _ in draft.batches:
            pass
    runs = [witness.measurements for witness in witnesses]
    return runs[0] if times is None else runs


def exact_vector(query, rows) -> np.ndarray:
    """The exact answer, as the noisy one stands in a look."""
    if isinstance(query, RowMap):
        return (query.mapped(rows) * query.answer_step).ravel()
    return measured_vector(query, rows)


NUMBERS = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": -1, "high": 1} for i in range(12)}})
TABLE = pl.DataFrame(np.random.default_rng(2).uniform(-1, 1, (300, 12)), schema=[f"c{i}" for i in range(12)])
SHORT = math.sqrt(12 / 12) / 4
LONG = math.sqrt(12 / 12)
"""Rows of twelve numbers, drawn evenly, are about 1 long; axes see a quarter of that."""
MU = calibrate.mu_for(1.0, 1e-6)
# by hand: what is asked, the law, and its scale for each line
SCALES = {
    "lip": ("lip", {}, {"second moment": ("laplace", SHORT**2 * math.sqrt(12 * 15 / 2))}),
    "lip by length": ("lip", {"noise": "l2-laplace"}, {"second moment": ("l2-laplace", SHORT**2 * math.sqrt(2))}),
    "lip rows": (
        "lip",
        {"result": "coordinates", "components": "4"},
        {
            "second moment": ("laplace", 2 * SHORT**2 * math.sqrt(12 * 15 / 2)),
            "rows": ("l2-laplace", 2 * 2 * LONG),
        },
    ),
    "lip rows, independent": (
        "lip",
        {"result": "coordinates", "components": "4", "row_noise": "laplace"},
        {"rows": ("laplace", 2 * 2 * LONG * math.sqrt(4))},
    ),
    "lop": ("lop", {"components": "3"}, {"rows": ("l2-laplace", 2 * LONG)}),
    "analyze_gauss": ("analyze_gauss", {}, {"second moment": ("gaussian", SHORT**2 * math.sqrt(2) / MU)}),
    "analyze_gauss about its mean": (
        "analyze_gauss",
        {"centred": "yes"},
        {
            "mean": ("gaussian", math.sqrt(12) / (MU * math.sqrt(0.2))),
            "second moment": ("gaussian", SHORT**2 * math.sqrt(2) / (MU * math.sqrt(0.8))),
        },
    ),
    "power_method": ("power_method", {"components": "2", "rounds": "1"}, {"round 1": ("gaussian", None)}),
}


@pytest.mark.parametrize("name", list(SCALES))
def test_noise_of_a_mechanism_has_its_scale_and_no_other(name):
    """Through the real door: what came out less the exact answer has the law and the scale worked out by hand."""
    kind, options, lines = SCALES[name]
    rows = encode(TABLE, NUMBERS).values
    # a sum by length has one length a run, so many runs are needed to know its law
    times = 200 if name == "lip by length" else 40 if "mean" in lines else 14
    runs = looked(build(kind, options), TABLE, ad.Budget(1.0, 1e-6), times, NUMBERS)
    for line, (law, scale) in lines.items():
        looks = [look for run in runs for look in run if look.line == line]
        events = {(look.event.noise, look.event.scale) for look in looks}
        assert len(events) == 1 and looks[0].event.noise == law
        if scale is None:  # a product is cut to a coarse grid, for which there is a hair more
            scale = SHORT**2 * math.sqrt(2) / MU
            assert scale < looks[0].event.scale < 1.001 * scale
        else:
            assert looks[0].event.scale == pytest.approx(scale, rel=1e-4)
        noises = np.array([look.vector - exact_vector(look.query, rows) for look in looks]) / scale
        if law == "l2-laplace":
            numbers = looks[0].event.numbers
            lengths = np.linalg.norm(noises.reshape(-1, numbers), axis=1)
            fits = [stats.kstest(lengths * f, stats.gamma(numbers).cdf).pvalue > 1e-4 for f in (2 / 3, 1.0, 3 / 2)]
            assert fits == [False, True, False]
            # one length says nothing about the next
            if len(lengths) > 100:
                assert abs(np.corrcoef(lengths[:-1], lengths[1:])[0, 1]) < 5 / math.sqrt(len(lengths))
        else:
            has_scale(noises.ravel(), "laplace" if law == "laplace" else "norm")


def test_rounds_of_the_power_method_share_no_noise():
    rows = encode(TABLE, NUMBERS).values
    mechanism = build("power_method", {"components": "12", "rounds": "3", "oversample": "0"})
    for delta in (1e-6, 0.0):
        looks = looked(mechanism, TABLE, ad.Budget(1.0, delta), schema=NUMBERS)
        noises = [(look.vector - exact_vector(look.query, rows)) / look.event.sd for look in looks]
        for one, other in itertools.combinations(noises, 2):
            assert abs(float(np.corrcoef(one, other)[0, 1])) < 5 / math.sqrt(len(one))


def test_rows_that_are_published_need_a_number_of_components_that_was_fixed_beforehand():
    """Their noise depends on it; a number chosen from the noisy spectrum would make the noise depend on the table."""
    for name in ("lip", "analyze_gauss"):
        with pytest.raises(ad.InputError, match="number of components"):
            ad.plan(people(), SCHEMA, build(name, {"result": "coordinates"}), ad.Budget(1.0, 1e-6))
    for name in ("lip", "analyze_gauss", "power_method"):
        budget = ad.Budget(1.0, 1e-6, relation=Relation.ADD_REMOVE)
        with pytest.raises(ad.InputError, match="add-remove"):
            ad.plan(people(), SCHEMA, build(name, {"result": "coordinates", "components": "2"}), budget)


def test_the_whole_of_lip_costs_what_its_looks_cost_together():
    """epsilon_1 for the second moment and epsilon_2 for the rows; delta 0 though more was allowed."""
    mechanism = build("lip", {"result": "coordinates", "components": "2", "axes_share": "0.25"})
    plan = ad.plan(people(), SCHEMA, mechanism, ad.Budget(2.0, 1e-5))
    costs = {
        line: calibration.event.sensitivity["row/replace"] / calibration.event.scale
        for line, calibration in plan.calibrations.items()
    }
    assert costs == pytest.approx({"second moment": 0.5, "rows": 1.5})
    assert plan.costs["row/replace"] == pytest.approx(2.0) and plan.job.promise.delta == 0.0


# ---- an attack that works on the published forms


@pytest.mark.parametrize("target", ["lip", "lop"])
def test_the_row_space_attack_fails_on_sound_coordinates(target):
    """What gives every pixel away in the papers' own forms, and here too where the noise on the rows is left out."""
    paper = attacks.row_space(f"published/{target}", epsilon=1.0, rows=100)
    assert paper.success == 1.0 and paper.verdict == attacks.BEYOND
    sound = attacks.row_space(target, epsilon=1.0, rows=150)
    assert sound.verdict == attacks.WITHIN and sound.ours
    assert sound.success < sound.details["right without the release"] + 0.1
    with pytest.MonkeyPatch.context() as patch:
        silenced(patch)
        bare = attacks.row_space(target, epsilon=1.0, rows=100)
    assert bare.verdict == attacks.BEYOND and bare.success > 0.9
