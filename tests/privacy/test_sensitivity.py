"""Brute force against privacy/sensitivity.py: no pair of neighbours may exceed the bound, worst pairs come close."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF, Block, Space
from adumbra.numerics.projections import ProjectionKind, draw
from adumbra.privacy.sensitivity import bounds, row_distance, sensitivity
from adumbra.queries.row_map import RowMap
from adumbra.tables.clip import clip_rows

REPLACE_ROW = Neighbours(Unit.ROW, Relation.REPLACE)
REPLACE_CELL = Neighbours(Unit.CELL, Relation.REPLACE)
ZERO_ROW = Neighbours(Unit.ROW, Relation.ZERO_OUT)
ZERO_CELL = Neighbours(Unit.CELL, Relation.ZERO_OUT)


def make_space(kinds: list[tuple[str, int]], row_bound: int | None = None) -> Space:
    blocks, start = [], 0
    for index, (kind, width) in enumerate(kinds):
        blocks.append(Block(f"c{index}", kind, start, width))
        start += width
    return Space(tuple(blocks), row_bound)


def cell_values(block: Block, rng: np.random.Generator | None = None) -> list[np.ndarray]:
    """The extreme values of a cell, the empty one among them, and with a generator some inner ones."""
    values = [np.zeros(block.width)]
    if block.kind == "category":
        values += [CATEGORY_STEPS * np.eye(block.width)[i] for i in range(block.width)]
    else:
        values += [np.array([float(HALF)]), np.array([-float(HALF)])]
        if rng is not None and block.kind == "number":
            values.append(np.array([float(rng.integers(-HALF, HALF + 1))]))
    return values


def all_rows(space: Space) -> np.ndarray:
    return np.array([np.concatenate(cells) for cells in itertools.product(*(cell_values(b) for b in space.blocks))])


kinds = st.lists(
    st.one_of(st.just(("number", 1)), st.just(("flag", 1)), st.tuples(st.just("category"), st.integers(1, 4))),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_pair_of_rows_exceeds_the_bound(kinds, dimension, seed):
    space = make_space(kinds)
    matrix = np.random.default_rng(seed).integers(-300, 300, (space.width, dimension))
    query = RowMap(matrix, 0.25)
    answers = all_rows(space) @ matrix * query.answer_step
    changes = answers[:, None] - answers[None]
    for norm, order in (("l2", 2), ("l1", 1)):
        size = np.linalg.norm(changes, ord=order, axis=-1).max()
        assert size <= sensitivity(query, space, REPLACE_ROW, norm)
        zero = np.linalg.norm(answers, ord=order, axis=-1).max()
        assert zero <= sensitivity(query, space, ZERO_ROW, norm)


@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_cell_change_exceeds_the_bound_and_the_worst_reaches_it(kinds, dimension, seed):
    space = make_space(kinds)
    matrix = np.random.default_rng(seed).integers(-300, 300, (space.width, dimension))
    query = RowMap(matrix, 1.0)
    for norm, order in (("l2", 2), ("l1", 1)):
        worst, emptied = 0.0, 0.0
        for block in space.blocks:
            images = np.array(cell_values(block)) @ matrix[block.start : block.stop] * query.answer_step
            worst = max(worst, np.linalg.norm(images[:, None] - images[None], ord=order, axis=-1).max())
            emptied = max(emptied, np.linalg.norm(images, ord=order, axis=-1).max())
        assert worst <= sensitivity(query, space, REPLACE_CELL, norm) <= worst * (1 + 1e-6) + 1e-12
        assert emptied <= sensitivity(query, space, ZERO_CELL, norm) <= emptied * (1 + 1e-6) + 1e-12


def test_row_bound_is_close_to_the_worst_pair():
    """With a matrix of one column every cell's worst change adds up: the box bound is exact there."""
    space = make_space([("number", 1), ("category", 3), ("flag", 1)])
    matrix = np.array([[3], [5], [-2], [1], [-4]])
    answers = all_rows(space) @ matrix / GRID
    worst = np.abs(answers[:, None] - answers[None]).max()
    assert 0.999 * sensitivity(RowMap(matrix, 1.0), space, REPLACE_ROW) <= worst


def test_ball_domain_reaches_the_spectral_bound():
    """With a tight row bound the top singular direction attains it (antipodal pair)."""
    rng = np.random.default_rng(3)
    bound = HALF // 8
    space = make_space([("number", 1)] * 12, row_bound=bound)
    matrix = rng.integers(-200, 200, (12, 4))
    top = np.linalg.svd(matrix)[0][:, 0]
    row = np.trunc(top * bound)
    change = np.linalg.norm(2 * row @ matrix) / GRID
    claimed = sensitivity(RowMap(matrix, 1.0), space, REPLACE_ROW)
    assert 0.9 * claimed <= change <= claimed


@settings(max_examples=30, deadline=None)
@given(kinds, st.integers(0, 2**32 - 1), st.integers(100, 2 * GRID))
def test_clipped_rows_stay_inside_the_bound(kinds, seed, bound):
    rng = np.random.default_rng(seed)
    space = make_space(kinds, row_bound=bound)
    matrix = rng.integers(-300, 300, (space.width, 3))
    query = RowMap(matrix, 1.0)
    rows, _ = clip_rows(all_rows(space), bound)
    answers = rows @ matrix * query.answer_step
    assert np.linalg.norm(answers[:, None] - answers[None], axis=-1).max() <= sensitivity(query, space, REPLACE_ROW)
    assert np.linalg.norm(answers, axis=-1).max() <= sensitivity(query, space, ZERO_ROW)
    # a cell change under clipping can move the whole row, so the cell bound is the row bound
    assert sensitivity(query, space, REPLACE_CELL) == sensitivity(query, space, REPLACE_ROW)


@pytest.mark.parametrize("kind", list(ProjectionKind))
def test_search_for_a_violating_neighbour_on_real_projections(kind):
    """Hill climbing over rows of a mixed space, from several starts, for each projection."""
    space = make_space([("number", 1)] * 6 + [("flag", 1)] * 4 + [("category", 5), ("category", 3)])
    projection = draw(kind, bytes(32), space, 8)
    query = RowMap(projection.matrix, projection.step)
    claimed = sensitivity(query, space, REPLACE_ROW)
    matrix = projection.matrix * query.answer_step
    rng = np.random.default_rng(1)
    best = 0.0
    for _ in range(8):
        cells = [[v[rng.integers(len(v))] for v in map(cell_values, space.blocks)] for _ in range(2)]
        for _sweep in range(6):
            for side in (0, 1):
                for index, block in enumerate(space.blocks):
                    scores = []
                    for value in cell_values(block, rng):
                        cells[side][index] = value
                        change = (np.concatenate(cells[0]) - np.concatenate(cells[1])) @ matrix
                        scores.append((np.linalg.norm(change), value))
                    top, cells[side][index] = max(scores, key=lambda s: s[0])
                    best = max(best, top)
    assert best <= claimed
    assert best >= 0.5 * claimed


def test_one_hot_change_counts_both_coordinates():
    """The paper's theta_2 is the longest row; a category change moves two rows of the matrix at once."""
    space = make_space([("category", 10)])
    projection = draw(ProjectionKind.UNIT_ROW, bytes(32), space, 16)
    query = RowMap(projection.matrix, projection.step)
    longest = np.linalg.norm(projection.matrix * projection.step, axis=1).max()
    assert sensitivity(query, space, REPLACE_CELL) > 1.3 * longest * CATEGORY_STEPS / GRID


def test_unit_rows_have_cell_sensitivity_one():
    space = make_space([("number", 1)] * 20 + [("category", 7), ("flag", 1)])
    projection = draw(ProjectionKind.UNIT_ROW, bytes(32), space, 16)
    assert sensitivity(RowMap(projection.matrix, projection.step), space, REPLACE_CELL) == pytest.approx(1.0, abs=1e-4)


def test_row_map_refuses_add_remove_by_name():
    space = make_space([("number", 1)])
    query = RowMap(np.ones((1, 1), dtype=np.int64), 1.0)
    with pytest.raises(InputError, match="add-remove"):
        sensitivity(query, space, Neighbours(Unit.ROW, Relation.ADD_REMOVE))
    assert "row/add-remove" not in bounds(query, space, "l2")


def test_row_distance_is_the_diameter():
    space = make_space([("number", 1), ("flag", 1), ("category", 4)])
    rows = all_rows(space) / GRID
    widest = np.linalg.norm(rows[:, None] - rows[None], axis=-1).max()
    assert widest <= row_distance(space, Relation.REPLACE) <= widest * (1 + 1e-6)
    longest = np.linalg.norm(rows, axis=-1).max()
    assert longest <= row_distance(space, Relation.ZERO_OUT) <= longest * (1 + 1e-6)


def test_wide_spaces_fall_back_to_the_spectral_bound():
    space = make_space([("number", 1)] * 2500)
    projection = draw(ProjectionKind.SIGNS, bytes(32), space, 4)
    query = RowMap(projection.matrix, projection.step)
    rng = np.random.default_rng(0)
    change = GRID * np.sign(rng.normal(size=2500)) @ projection.matrix * query.answer_step
    assert np.linalg.norm(change) <= sensitivity(query, space, REPLACE_ROW)


def test_huge_category_uses_twice_the_longest_row():
    space = make_space([("category", 5000)])
    projection = draw(ProjectionKind.UNIT_ROW, bytes(32), space, 4)
    query = RowMap(projection.matrix, projection.step)
    rows = projection.matrix * query.answer_step * CATEGORY_STEPS
    far = max(np.linalg.norm(rows - rows[0], axis=1).max(), np.linalg.norm(rows - rows[-1], axis=1).max())
    assert far <= sensitivity(query, space, REPLACE_CELL)
