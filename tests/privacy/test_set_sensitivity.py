"""Brute force against the bounds of set columns: all pairs of sets, for every query that sees them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF, Block, Space
from adumbra.numerics.projections import ROUNDING, ProjectionKind, draw, gaussian_matrix
from adumbra.privacy.engine import BoundBroken, check_bounded
from adumbra.privacy.meter import _fresh_projections
from adumbra.privacy.sensitivity import row_distance, sensitivity
from adumbra.queries.cells import Cells
from adumbra.queries.item_totals import ItemsQuery
from adumbra.queries.query import GaussianRecipe
from adumbra.queries.row_map import RowClip, RowMap, contraction
from adumbra.queries.second_moment import Gram, GramTimes, RowsAndGram
from adumbra.queries.sums import CentreScale, Total
from tests.queries.test_sums import features

SIZES = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (4, 3), (6, 3)]
NORMS = {"l2": 2, "l1": 1}


def space_of(*kinds) -> Space:
    """Columns: (width, most) for a set, else a kind of one or more coordinates."""
    blocks, start = [], 0
    for index, kind in enumerate(kinds):
        name, width, most = ("set", *kind) if isinstance(kind, tuple) else (kind, 3 if kind == "category" else 1, 1)
        blocks.append(Block(f"c{index}", name, start, width, most=most))
        start += width
    return Space(tuple(blocks))


def cells_of(block) -> list[np.ndarray]:
    """Every cell that matters: all sets, all values, both ends of a number; the empty one first."""
    if block.kind == "set":
        sizes = range(min(block.most, block.width) + 1)
        chosen = [items for size in sizes for items in itertools.combinations(range(block.width), size)]
        return [np.isin(np.arange(block.width), items) * float(block.steps) for items in chosen]
    if block.kind == "category":
        return [np.zeros(block.width), *np.eye(block.width) * CATEGORY_STEPS]
    return [np.zeros(1), np.array([-HALF * 1.0]), np.array([HALF * 1.0])]


def every_row(space) -> np.ndarray:
    return np.array([np.concatenate(cells) for cells in itertools.product(*map(cells_of, space.blocks))])


def changes(found, empty) -> dict[Relation, np.ndarray]:
    return {
        Relation.REPLACE: (found[:, None] - found[None]).reshape(-1, *found.shape[1:]).reshape(len(found) ** 2, -1),
        Relation.ZERO_OUT: (found - empty).reshape(len(found), -1),
        Relation.ADD_REMOVE: found.reshape(len(found), -1),
    }


def share_reached(query, space, found, empty, relations=tuple(Relation)) -> dict[tuple[Relation, str], float]:
    """Of each bound the part that some pair reaches; none may exceed it."""
    out = {}
    for relation, change in changes(found, empty).items():
        if relation not in relations:
            continue
        for norm, order in NORMS.items():
            most = sensitivity(query, space, Neighbours(Unit.ROW, relation), norm)
            size = float(np.linalg.norm(change, order, axis=1).max())
            assert size <= most, f"{relation}, {norm}: {size:.9g} moved, {most:.9g} stated"
            out[relation, norm] = size / most if most else 1.0
    return out


@pytest.mark.parametrize(("width", "most"), SIZES)
def test_counts_of_items_move_by_the_bound_and_no_more(width, most):
    space = space_of("number", (width, most))
    query = ItemsQuery(space.blocks[1])
    rows = every_row(space)
    shares = share_reached(query, space, features(query, rows), features(query, rows[:1]))
    assert min(shares.values()) >= 1 - 2e-9, shares
    one, two = min(width, most), min(width, 2 * most)
    for norm, root in (("l1", float), ("l2", math.sqrt)):
        found = [sensitivity(query, space, Neighbours(Unit.ROW, r), norm) for r in Relation]
        wanted = {Relation.REPLACE: two, Relation.ZERO_OUT: one, Relation.ADD_REMOVE: one}
        assert found == pytest.approx([root(wanted[r]) for r in Relation], rel=2e-9)


def test_counts_of_a_category_with_a_fallback_are_replaced_when_emptied():
    block = Block("c", "category", 0, 3, 1)
    query, space = ItemsQuery(block), Space((block,))
    emptied = sensitivity(query, space, Neighbours(Unit.ROW, Relation.ZERO_OUT), "l1")
    assert emptied == pytest.approx(2.0)


@pytest.mark.parametrize(("width", "most"), SIZES)
def test_distances_between_sets_are_what_a_block_says(width, most):
    space = space_of((width, most))
    (block,) = space.blocks
    cells = np.array(cells_of(block))
    squares = np.square(cells[:, None] - cells[None]).sum(axis=2)
    assert squares.max() == block.span_squared <= GRID**2
    assert np.square(cells).sum(axis=1).max() == block.reach_squared == block.emptied_squared
    assert np.count_nonzero(cells, axis=1).max() == block.filled
    assert np.count_nonzero(cells[:, None] != cells[None], axis=2).max() == block.changed
    assert math.sqrt(squares.max()) / GRID <= row_distance(space, Relation.REPLACE)


mixed = st.lists(
    st.sampled_from(["number", "flag", "category", (3, 1), (3, 2), (4, 2), (2, 2), (5, 1)]), min_size=1, max_size=3
)


@settings(max_examples=60, deadline=None)
@given(mixed, st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_no_pair_of_rows_with_sets_exceeds_the_bound_of_a_map(kinds, dimension, seed):
    space = space_of(*kinds)
    matrix = np.random.default_rng(seed).integers(-300, 300, (space.width, dimension))
    query = RowMap(matrix, 0.25)
    rows = every_row(space)[:400]
    found = rows @ matrix * query.answer_step
    shares = share_reached(query, space, found, found[:1], (Relation.REPLACE, Relation.ZERO_OUT))
    assert max(shares.values()) >= 0.3
    for block in space.blocks:  # a cell alone
        cells = np.array(cells_of(block)) @ matrix[block.start : block.stop] * query.answer_step
        for norm, order in NORMS.items():
            for relation, change in (
                (Relation.REPLACE, cells[:, None] - cells[None]),
                (Relation.ZERO_OUT, cells),
            ):
                stated = sensitivity(query, space, Neighbours(Unit.CELL, relation), norm)
                assert np.linalg.norm(change, order, axis=-1).max() <= stated


@pytest.mark.parametrize(("width", "most"), SIZES)
def test_a_map_to_one_number_and_one_that_keeps_lengths_reach_their_bounds(width, most):
    space = space_of((width, most))
    rows = every_row(space)
    signed = np.array([[3], [-5], [2], [4], [-1], [7]])[:width]
    for matrix in (signed, np.eye(width, dtype=np.int64)):
        found = rows @ matrix / GRID
        shares = share_reached(RowMap(matrix, 1.0), space, found, found[:1], (Relation.REPLACE, Relation.ZERO_OUT))
        least = {
            norm: min(shares[relation, norm] for relation in (Relation.REPLACE, Relation.ZERO_OUT)) for norm in NORMS
        }
        assert least["l2"] >= 1 - 1e-6 and least["l1"] >= 1 - 1e-6, shares


@pytest.mark.parametrize("kind", list(ProjectionKind))
def test_projections_of_sets_stay_within_their_bounds(kind):
    space = space_of("number", (5, 2), "category", (4, 1))
    projection = draw(kind, bytes(32), space, 4)
    query = RowMap(projection.matrix, projection.step)
    found = every_row(space) @ projection.matrix * query.answer_step
    share_reached(query, space, found[::2], found[:1], (Relation.REPLACE, Relation.ZERO_OUT))


@pytest.mark.parametrize("kinds", [((4, 2),), ((3, 2), "number"), ((5, 2), "category")], ids=str)
def test_sums_and_second_moments_of_sets_stay_within_their_bounds(kinds):
    space = space_of(*kinds)
    rows = every_row(space)
    basis = contraction(np.linalg.qr(np.random.default_rng(1).normal(size=(space.width, 2)))[0], ROUNDING)
    clip = RowClip(int(space.reach) // 2)
    for query in (
        Total(space.width),
        Gram(space.width),
        Gram(space.width, clip=clip, triangle=True),
        GramTimes(basis, clip),
    ):
        found = features(query, rows)
        share_reached(query, space, found, features(query, rows[:1]))
    both = RowsAndGram(RowMap(np.eye(space.width, dtype=np.int64), 1.0), 0.7)
    found = features(both, rows)
    share_reached(both, space, found, features(both, rows[:1]), (Relation.REPLACE, Relation.ZERO_OUT))


def test_the_sum_of_rows_reaches_its_bound_where_rows_are_one_set():
    for width, most in SIZES:
        space = space_of((width, most))
        query = Total(width)
        rows = every_row(space)
        shares = share_reached(query, space, features(query, rows), features(query, rows[:1]))
        assert min(shares.values()) >= 1 - 1e-6, (width, most, shares)


def test_a_fresh_projection_counts_every_coordinate_that_a_set_can_change():
    """A set of ten changes twenty coordinates, each of which the rounding of the matrix may move."""
    for kind, changed in (((30, 10), 20), ((12, 10), 12), ("number", 1), ("category", 2)):
        space = space_of(kind)
        seed = PublicSeed.given("sets")
        query = RowMap(gaussian_matrix(seed.value, space.width, 3), ROUNDING, GaussianRecipe(seed, 3))
        for fresh in _fresh_projections(query, space).values():
            assert fresh.rounding == pytest.approx(fresh.distance * math.sqrt(changed * 3) * ROUNDING / 2)


def test_partial_sums_of_a_map_stay_below_what_it_states():
    space = space_of((6, 3), "number")
    matrix = np.random.default_rng(2).integers(-9, 10, (space.width, 3))
    largest = np.abs(every_row(space)[:, :, None] * matrix).sum(axis=1).max()
    assert largest <= RowMap(matrix, 1.0).largest_sum(space)


def test_the_door_refuses_a_set_longer_than_declared():
    space = space_of("number", (5, 2))
    (steps,) = {space.blocks[1].steps}
    good = np.array([[1.0, steps, 0, 0, steps, 0], [0, 0, 0, 0, 0, 0]])
    check_bounded(good, space)
    for bad in ([[1.0, steps, steps, 0, steps, 0]], [[1.0, steps + 1, 0, 0, 0, 0]], [[1.0, -steps, 0, 0, 0, 0]]):
        with pytest.raises(BoundBroken, match="declared range"):
            check_bounded(np.array(bad), space)


def test_a_set_has_no_cell_and_no_centre():
    space = space_of((5, 2))
    with pytest.raises(ValueError, match="a set has no cell"):
        Cells.even(space.blocks, 3)
    with pytest.raises(ValueError, match="a set has no cell"):
        CentreScale(space.blocks)
    with pytest.raises(ValueError, match="of a set"):
        ItemsQuery(space_of("number").blocks[0])
