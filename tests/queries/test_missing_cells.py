"""Cells that are missing: in one cell of every table, in one class, and nowhere else; bounds and noise as without them.

Rows come from cells of every kind, encoded as a release encodes them: both ends, the middle, spikes, what cannot be
read and nothing at all, in all combinations that differ.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest

from adumbra.accounting import calibrate
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import COUNT_STEPS, GRID, HALF
from adumbra.models.column_cells import equal_cells, first_cells, mass_cells
from adumbra.models.marginals import Marginal, flat_marginals
from adumbra.models.score_layout import ScoreLayout
from adumbra.privacy.meter import calibrated
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.scores import BALL
from adumbra.queries.second_moment import MomentsQuery
from adumbra.queries.sums import CentreScale, TablesQuery
from adumbra.tables.row_source import encoded_rows
from tests.queries.test_sums import NORMS, WEAK, bound, enough, features, has_scale, reaches, residuals, size
from tests.repeatable import repeatable  # noqa: F401

REPLACE, ZERO_OUT, ADD_REMOVE = (
    Neighbours(Unit.ROW, relation) for relation in (Relation.REPLACE, Relation.ZERO_OUT, Relation.ADD_REMOVE)
)
KINDS = {
    "number": ({"kind": "number", "low": 0, "high": 1}, ["0", "1", "0.5", "1e30", "x"]),
    "whole": ({"kind": "number", "low": 0, "high": 40, "integer": True, "spikes": [0, 20]}, ["0", "40", "20", "-7"]),
    "tenths": ({"kind": "number", "low": 0, "high": 3, "decimals": 1}, ["0", "3", "1.5", "0.04"]),
    "log": ({"kind": "number", "low": 0, "high": 9999, "scale": "log", "spikes": [0]}, ["0", "9999", "99", "-1"]),
    "blank": ({"kind": "number", "low": -10, "high": 10, "blank": [-9, "N"]}, ["-10", "10", "-9", "N", "0"]),
    "code": ({"kind": "ordinal", "values": [1, 2, 3, 8, 15, 16]}, ["1", "16", "3", "4"]),
    "word": ({"kind": "ordinal", "values": ["low", "fair", "high"]}, ["low", "high", "fair", "?"]),
    "flag": ({"kind": "flag", "values": ["n", "y"]}, ["n", "y", "maybe"]),
    "category": ({"kind": "category", "values": ["a", "b", "c"]}, ["a", "b", "c", "d"]),
    "date": ({"kind": "date", "low": "2020-01-01", "high": "2020-12-31"}, ["2020-01-01", "2020-12-31", "2020-13-01"]),
    "moment": (
        {"kind": "datetime", "low": "2020-01-01", "high": "2020-01-03", "step": "hour"},
        ["2020-01-01", "2020-01-03T00:00", "2020-01-02 00:30", "soon"],
    ),
    "time": ({"kind": "time", "step": "minute"}, ["00:00", "23:59", "12:00", "25:00"]),
    "duration": ({"kind": "duration", "low": "00:00:00", "high": "01:00:00"}, ["00:00:00", "01:00:00", "PT30M"]),
}
MISSING = (None, "x", "N", "-9", "4", "?", "maybe", "d", "2020-13-01", "soon", "25:00")
"""Which of the cells above hold nothing that their column can read (but for those that it declares)."""


def schema_of(*kinds: str, label: str | None = None, **more) -> Schema:
    columns = {kind: {**KINDS[kind][0], **more} for kind in kinds}
    if label is not None:
        columns[label]["role"] = "label"
    return Schema.from_dict({"columns": columns})


def every_row(schema: Schema, bound: int | None = None, most: int = 3000) -> np.ndarray:
    """All combinations of the columns' cells, encoded; of many, some that were drawn."""
    choices = [[None, *KINDS[column.name][1]] for column in schema.measured]
    if math.prod(map(len, choices)) <= most:
        rows = list(itertools.product(*choices))
    else:
        rng = np.random.default_rng(0)
        corners = [[cells[end] for cells in choices] for end in (0, 1, 2)]
        rows = [*corners, *([cells[rng.integers(len(cells))] for cells in choices] for _ in range(most))]
    names = [column.name for column in schema.measured]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return encoded_rows(frame, schema, bound)


def labels_of(schema: Schema) -> Groups:
    """Classes of the last column, one for an empty label among them."""
    return Groups(Cells.even([schema.space().blocks[-1]], 2, missing=True))


def quantile(share):
    """Of a column with a spike in the middle and a long tail."""
    return np.where(share < 0.5, 0.5, 0.5 + (share - 0.5) ** 3)


def tables_of(schema: Schema) -> dict[str, TablesQuery]:
    """Tables as mechanisms ask for them, with a cell for what is missing wherever it is kept."""
    blocks, groups = schema.space().blocks, labels_of(schema)
    first = first_cells(blocks, 1000.0)
    found = {
        "of equal cells": TablesQuery(equal_cells(blocks, 4, missing=True)),
        "of levels": TablesQuery(first),
        "of a few rows": TablesQuery(first_cells(blocks, 1.0)),
        "by mass": TablesQuery(mass_cells(first, [quantile] * len(blocks), 12), groups, 0.6, 0.8),
        "by class": TablesQuery(first, groups, 0.0, 1.0),
        "of values alone": TablesQuery(Cells.even(blocks, 5)),
    }
    for name, query in found.items():
        assert name == "of values alone" or query.cells.missing == tuple(block.keeps for block in blocks)
    return found


def presence_scores(schema: Schema, share: float = 0.3) -> MomentsQuery:
    """Moments with a score for every column that says whether its cell is there, as `hybrid` takes them."""
    blocks = schema.space().blocks
    marginals = [Marginal.of(m.form, m.shares, m.edges, m.levels, share) for m in flat_marginals(blocks)]
    watched = tuple(place for place, block in enumerate(blocks) if block.keeps)
    layout = ScoreLayout(blocks, tuple(marginals), watched)
    return MomentsQuery(layout.scores, labels_of(schema), 0.4, math.sqrt(0.48), 0.6)


GROUPS = [
    ("number", "category"), ("whole", "word"), ("tenths", "flag"), ("log", "category"), ("blank", "code"),
    ("date", "flag"), ("moment", "category"), ("time", "word"), ("duration", "flag"),
    ("log", "date", "code", "category"), tuple(KINDS),
]  # fmt: skip


# ---- what an empty cell is


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_cell_is_0_just_where_nothing_can_be_read(kind):
    """0 is empty, and no value is: so a value in the very middle of its range is a step above it."""
    schema = schema_of(kind)
    declared = {str(value) for value in schema.column(kind).values}
    cells = [None, *KINDS[kind][1]]
    rows = encoded_rows(pl.DataFrame({kind: pl.Series(cells, dtype=pl.String)}), schema)
    for cell, row in zip(cells, rows, strict=True):
        empty = cell not in declared and cell in MISSING and not (kind == "whole" and cell == "-7")
        assert (not row.any()) == empty, cell
    block = schema.space().blocks[0]
    assert np.abs(rows).max() <= block.reach and np.array_equal(rows, np.rint(rows))


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_cell_of_any_kind_leaves_its_bounds_or_stops_a_release(kind):
    """Whatever stands in it, in whatever script: a cell that cannot be read is empty, and says nothing by an error."""
    odd = ["", " ", "١٢", "１２:３０", "٣:٠٠", "२०२०-०१-०१", "²", "½", "P٣D", "٣d", "nan", "-inf", "1e400", "9" * 400]
    odd += ["0x10", "\x00", "TRUE", "a" * 5000, "9" * 400 + "d", "PT" + "9" * 400 + "S", "-P1D", "24:00", "23:59:60"]
    odd += ["9999-12-31", "0000-00-00", "-0001-01-01", "2020-01-01T24:00", "2020-01-01T10:00:00+99:99"]
    schema, cells = schema_of(kind), [*KINDS[kind][1], *odd]
    block = schema.space().blocks[0]
    whole = encoded_rows(pl.DataFrame({kind: cells}), schema)
    assert np.abs(whole).max() <= block.reach and np.array_equal(whole, np.rint(whole))
    for cell, row in zip(cells, whole, strict=True):
        assert np.array_equal(encoded_rows(pl.DataFrame({kind: [cell]}), schema)[0], row), cell


@pytest.mark.parametrize("kinds", GROUPS, ids=" ".join)
@pytest.mark.parametrize("clip", [None, 1, 700, HALF])
def test_every_row_is_in_one_cell_of_each_column_and_in_one_class(kinds, clip):
    """Also one that was clipped to so little that its coordinates were rounded to 0: it then counts as empty."""
    schema = schema_of(*kinds)
    rows = every_row(schema, clip)
    for name, query in tables_of(schema).items():
        cells = query.cells.of(rows)
        low = np.where(query.cells.missing, 0, -1)
        assert (cells >= low).all() and (cells < query.cells.sizes).all(), name
        empty = np.array([~rows[:, b.start : b.stop].any(axis=1) for b in query.cells.blocks]).T
        assert np.array_equal(cells == np.where(query.cells.missing, query.cells.counts, -1), empty), name
        if query.pooled:
            counts = np.split(query.answer(rows)["pooled"] / COUNT_STEPS, query.cells.starts[1:])
            there = np.where(query.cells.missing, len(rows), len(rows) - empty.sum(axis=0))
            assert [found.sum() for found in counts] == there.tolist(), name
    group = labels_of(schema).of(rows)
    assert group.min() >= 0 and group.max() < labels_of(schema).count
    assert np.array_equal(group == labels_of(schema).count - 1, ~rows[:, schema.space().blocks[-1].start :].any(axis=1))


# ---- no neighbour exceeds the bound, and the worst reach it


def searched(query, schema: Schema, clip: int | None, most: int = 150) -> dict[Neighbours, np.ndarray]:
    """What neighbours differ by: all pairs of some rows; each of them against the empty one; each of them."""
    space = schema.space(None if clip is None else clip / GRID)
    rows = every_row(schema, clip, most)
    found = features(query, rows)
    nothing = pl.DataFrame({c.name: pl.Series([None], dtype=pl.String) for c in schema.measured})
    empty = features(query, encoded_rows(nothing, schema, clip))
    pairs = (found[:, None] - found[None]).reshape(-1, found.shape[1])
    for neighbours, change in ((REPLACE, pairs), (ZERO_OUT, found - empty), (ADD_REMOVE, found)):
        for norm in NORMS:
            stated = bound(query, space, neighbours, norm)
            assert size(change, norm) <= stated, f"{neighbours}, {norm}: {size(change, norm):.6g} of {stated:.6g}"
    return {REPLACE: pairs, ZERO_OUT: found - empty, ADD_REMOVE: found}


@pytest.mark.parametrize("kinds", GROUPS, ids=" ".join)
@pytest.mark.parametrize("clip", [None, 700])
def test_no_neighbour_moves_tables_with_missing_cells_further_than_stated(kinds, clip):
    schema = schema_of(*kinds)
    for name, query in tables_of(schema).items():
        changes = searched(query, schema, clip)
        if clip is None and name != "of values alone":  # exact: some pair differs in every column, and in its class
            space = schema.space()
            for neighbours, change in changes.items():
                for norm in NORMS:
                    reached = size(change, norm) / bound(query, space, neighbours, norm)
                    assert reached >= (0.999 if len(kinds) < 5 else 0.85), f"{name}, {neighbours}, {norm}: {reached}"


@pytest.mark.parametrize("kinds", GROUPS, ids=" ".join)
@pytest.mark.parametrize("clip", [None, 700])
def test_no_neighbour_moves_what_is_there_and_its_scores_further_than_stated(kinds, clip):
    schema = schema_of(*kinds)
    query = presence_scores(schema)
    lengths = (query.scores.of(every_row(schema, clip)) ** 2).sum(axis=1)
    assert lengths.max() <= BALL**2
    searched(query, schema, clip, most=60)
    for weight in (0.3, 1.0, math.sqrt(2), 3.0):
        searched(CentreScale(schema.space().blocks, present=weight), schema, clip)


def test_a_cell_that_is_emptied_moves_a_table_as_far_as_one_that_is_replaced():
    """It leaves a cell and enters the one for what is missing: twice a count, in every column and in the class."""
    schema = schema_of("date", "code", "log", "category")
    space, query = schema.space(), tables_of(schema)["by mass"]
    ends = pl.DataFrame({column.name: KINDS[column.name][1][1:2] for column in schema.measured})
    full, none = encoded_rows(ends, schema)[0], np.zeros(space.width)
    for norm in NORMS:
        reaches(query, space, full, none, ZERO_OUT, norm)
        reaches(query, space, full, none, REPLACE, norm)
        reaches(query, space, none, None, ADD_REMOVE, norm)  # an empty row counts as much as any


def test_counted_cells_that_are_emptied_reach_their_bound():
    """(x, x^2, w) goes: the root of 2 + w^2 where that is more than 2, and 2 + w."""
    schema = schema_of("number", "log", "date")
    space = schema.space()
    query = CentreScale(space.blocks, present=2.0)
    full, none = np.full(3, float(HALF)), np.zeros(3)
    for neighbours, other in ((REPLACE, none), (ZERO_OUT, none), (ADD_REMOVE, None)):
        reaches(query, space, full, other, neighbours)
        reaches(query, space, full, other, neighbours, "l1")


# ---- what is charged


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("relation", list(Relation))
def test_tables_split_by_class_cost_to_the_last_bit_what_they_cost_together(relation, delta):
    """A later look is split or not as a noisy number of rows suggests: it was charged before that was known."""
    half = math.sqrt(0.5) if delta else 0.5
    promise = Promise(1.0, delta, Neighbours(Unit.ROW, relation))
    for columns in range(1, 60):
        schema = Schema.from_dict({"columns": {f"c{i}": {"kind": "flag"} for i in range(columns)}})
        cells = equal_cells(schema.space().blocks, 4, missing=True)
        both = TablesQuery(cells, labels_of(schema), half, half), TablesQuery(cells)
        events = [calibrated(q, schema.space(), promise, share=0.1, rows=9, fresh=False).event for q in both]
        assert events[0] == events[1], columns


# ---- noise


def levelled(levels: int, columns: int) -> Schema:
    number = {"kind": "number", "low": 0, "high": levels - 1, "integer": True}
    return Schema.from_dict({"columns": {f"c{place}": number for place in range(columns)}})


def test_noise_of_tables_with_missing_cells_has_its_scale_and_no_other():
    """Of the cells for values and of those for what is missing, by themselves."""
    schema = levelled(2, 450)
    space = schema.space()
    query = TablesQuery(equal_cells(space.blocks, 2, missing=True))
    assert query.cells.total == 3 * 450
    rng = np.random.default_rng(1)
    rows = rng.choice([-HALF, HALF, 0], (40, 450)).astype(float)
    sigma = math.sqrt(2 * 450) / calibrate.mu_for(1.0, 1e-6)
    found, scale = residuals(query, space, WEAK, 2, rows)
    assert scale == pytest.approx(sigma, rel=1e-6)
    sample = found["pooled"].reshape(2, 450, 3) / sigma
    has_scale(sample[:, :, 2].ravel(), "norm")
    has_scale(sample[:, :, :2].ravel(), "norm")


def test_noise_of_an_empty_label_has_its_scale_and_no_other():
    """A class of its own for rows without a label, with the noise of any class."""
    schema = levelled(2, 60)
    space = schema.space()
    groups = Groups(Cells.even(space.blocks[-1:], 2, missing=True))
    query = TablesQuery(equal_cells(space.blocks, 2, missing=True), groups, 0.6, 0.8)
    assert groups.count == 3
    rows = np.random.default_rng(1).choice([-HALF, HALF, 0], (40, 60)).astype(float)
    sigma = math.sqrt(2 * 60) / calibrate.mu_for(1.0, 1e-6)
    found, scale = residuals(query, space, WEAK, 6, rows)
    assert scale == pytest.approx(sigma, rel=1e-6)
    has_scale(found["grouped"].reshape(6, 3, 180)[:, 2].ravel() * 0.8 / sigma, "norm")
    has_scale(found["pooled"].ravel() * 0.6 / sigma, "norm")


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_noise_of_presence_scores_has_its_scale_and_no_other(delta):
    schema = schema_of("number", "whole", "log", "blank", "date", "category")
    space, query = schema.space(), presence_scores(schema)
    watched = 6
    columns = query.scores.dimension
    most = math.sqrt(max(2 * (0.16 + 0.48 + 0.36), 2 * 0.48 + 2 * 0.36 + 0.48**2 / 0.72))
    promise = Promise(1.0, delta, REPLACE)
    scale = most / calibrate.mu_for(1.0, 1e-6) if delta else bound(query, space, REPLACE, "l1")
    runs = max(enough(query, 240), 900 // (4 * watched))
    found, charged = residuals(query, space, promise, runs, every_row(schema, most=30))
    assert charged == pytest.approx(scale, rel=1e-6)
    sums = found["sums"].reshape(runs, -1, columns)[:, :, -watched:]
    has_scale(sums.ravel() * math.sqrt(0.48) / scale, "norm" if delta else "laplace")
