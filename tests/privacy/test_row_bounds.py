"""Rows that are as far apart as can be stay inside their bound: emptied cells, clipped rows, large mixed tables."""

from __future__ import annotations

import numpy as np
import polars as pl

import adumbra as ad
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF, Block, Space
from adumbra.privacy.sensitivity import bounds, sensitivity
from adumbra.queries.row_map import RowMap
from adumbra.tables import read
from adumbra.tables.clip import clip_rows
from adumbra.tables.encode import encode

TWO = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": 0, "high": 1} for c in "ab"}})


def identity(width):
    return RowMap(np.eye(width, dtype=np.int64), 1.0)


def test_emptying_a_cell_with_a_fallback_stays_inside_the_zero_out_bound():
    schema = ad.Schema.from_dict(
        {
            "columns": {
                "n": {"kind": "number", "low": 0, "high": 100, "missing": 0},
                "c": {"kind": "category", "values": ["x", "y"], "missing": "x"},
            }
        }
    )
    full, emptied = encode(pl.DataFrame({"n": ["100", ""], "c": ["y", ""]}), schema).values
    try:
        done = ad.release(
            pl.DataFrame({"n": [100.0], "c": ["y"]}),
            schema,
            ad.DPPro(dimension=3, projection="orthogonal"),
            ad.Budget(1.0, relation="zero-out"),
            seed=ad.PublicSeed.given("review"),
        )
    except ad.InputError:  # refusing the relation for such a schema is sound too
        return
    matrix = done.arrays["matrix"] * float(done.arrays["step"])
    moved = np.linalg.norm((full - emptied) @ matrix) / GRID  # 1.414
    assert moved <= done.card.noise["rows"].sensitivity  # 0.866


def test_zeroing_one_cell_of_a_clipped_row_stays_inside_its_recorded_bound():
    space = TWO.space(row_bound=0.1)
    full, zeroed = clip_rows(np.array([[HALF, 6553], [0, 6553]]), space.row_bound)[0]
    moved = np.linalg.norm(full - zeroed) / GRID  # 0.127
    assert moved <= bounds(identity(2), space, "l2")["cell/zero-out"]  # 0.100


def test_no_corner_of_a_large_mixed_space_exceeds_the_row_bound():
    """Climb to a locally worst pair of rows; correlated and one-sided matrices, up to 150 categories, few outputs."""
    rng = np.random.default_rng(20)
    for trial in range(60):
        blocks, start = [], 0
        for index in range(int(rng.integers(1, 30))):
            kind = str(rng.choice(["number", "category"]))
            width = 1 if kind == "number" else int(rng.choice([1, 2, 3, 8, 30, 150]))
            blocks.append(Block(str(index), kind, start, width))
            start += width
        outputs = int(rng.choice([1, 2, 5, 12]))
        matrix = rng.normal(size=(start, outputs))
        if trial % 3 == 1:  # nearly one direction
            matrix = rng.normal(size=(start, 1)) * rng.normal(size=outputs) + 0.001 * matrix
        elif trial % 3 == 2:  # nearly equal rows
            matrix = rng.normal(size=outputs) + 0.01 * matrix
        query = RowMap(np.rint(matrix * 2**16).astype(np.int64), 1.0)
        for relation in (Relation.REPLACE, Relation.ZERO_OUT):
            for norm in ("l1", "l2"):
                bound = sensitivity(query, Space(tuple(blocks)), Neighbours(Unit.ROW, relation), norm)
                found = climbed(query.matrix.astype(float), blocks, relation, norm, rng) * query.answer_step
                assert found <= bound


def climbed(matrix, blocks, relation, norm, rng):
    """Largest change found by moving every cell to its best corner for the present direction, again and again."""
    best = 0.0
    for _ in range(4):
        direction = rng.normal(size=matrix.shape[1])
        for _ in range(6):
            change = sum(corner(matrix[b.start : b.stop], b, direction, relation) for b in blocks)
            best = max(best, float(np.abs(change).sum() if norm == "l1" else np.linalg.norm(change)))
            direction = np.where(change >= 0, 1.0, -1.0) if norm == "l1" else change
    return best


def corner(rows, block, direction, relation):
    with_empty = np.vstack([rows, np.zeros(rows.shape[1])])
    gain = with_empty @ direction
    if block.kind == "category":
        low = -1 if relation is Relation.ZERO_OUT else int(gain.argmin())
        return CATEGORY_STEPS * (with_empty[int(gain.argmax())] - with_empty[low])
    size = HALF if relation is Relation.ZERO_OUT else GRID
    return size * (1.0 if gain[0] >= 0 else -1.0) * rows[0]


def blocks(frame, schema):
    names = [column.name for column in schema.released]
    return np.vstack([encode(block, schema).values for block in read.open_table(frame).blocks(names, 64)])
