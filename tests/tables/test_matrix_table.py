"""Tables of numbers at speed: arrays in, and compiled passes that give the very integers of the plain ones."""

from __future__ import annotations

import datetime
import threading
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import adumbra as ad
from adumbra import pipeline, rehearsal
from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF
from adumbra.numerics.integer_kernels import add_squares, one_thread_each
from adumbra.privacy import engine, meter
from adumbra.privacy.engine import LocalThreads, check_bounded
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.row_map import RowClip
from adumbra.queries.second_moment import Gram, symmetric
from adumbra.request import Request
from adumbra.tables import encode as encoding
from adumbra.tables.clip import clip_rows
from adumbra.tables.encode import Repairs, check_columns, encode
from adumbra.tables.matrix import MatrixTable
from adumbra.tables.read import open_table
from adumbra.tables.row_source import regrouped
from tests.privacy.test_sensitivity import make_space
from tests.queries.plain import answered_plainly, clipped_plainly

ODD = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, -5e-324, 2.0**53, 0.5, 1 / 3,
    0.5 / GRID, 1.5 / GRID, np.nextafter(1.0, 2), np.nextafter(-1.0, -2), np.nextafter(0.5 / GRID, 1),
]  # fmt: skip


def number(name: str, low: float, high: float, missing: float | None = None) -> Column:
    return Column(name, "number", low=low, high=high, missing=missing)


def schema_of(*columns: Column) -> Schema:
    return Schema(TableInfo(), columns)


def numbers(width: int, low: float = -1.0, high: float = 1.0) -> Schema:
    return schema_of(*(number(f"x{i}", low, high) for i in range(width)))


def same_bits(one, other) -> bool:
    return one.shape == other.shape and np.array_equal(
        np.ascontiguousarray(one).view(np.int64), np.ascontiguousarray(other).view(np.int64)
    )


# ---- encoding


def plainly(frame: pl.DataFrame, schema: Schema):
    """Column by column, without the compiled pass."""
    values = np.zeros((frame.height, len(schema.measured)))
    repairs = {}
    for i, (column, block) in enumerate(zip(schema.measured, schema.space().blocks, strict=True)):
        part = values[:, i : i + 1]
        repairs[column.name] = encoding._cells(frame[column.name], column, (), block.fallback, part)
    return values, repairs


@st.composite
def number_columns(draw):
    low = draw(st.sampled_from([-1.0, 0.0, -1e9, 1e-290, -4e299, 17.25, -0.1]))
    width = draw(st.sampled_from([1.0, 2.0, 0.3, 255.0, 1e6, 5e299, 3e-280])) + abs(low) * 2.0**-20
    missing = draw(st.sampled_from([None, 0.0, 0.25, 1.0]))
    return low, low + width, None if missing is None else min(low + missing * width, low + width)


@settings(max_examples=120, deadline=None)
@given(st.lists(number_columns(), min_size=1, max_size=9), st.integers(0, 2**32), st.integers(0, 7))
def test_compiled_encoding_gives_the_same_bits(columns, seed, rows):
    schema = schema_of(*(number(f"x{i}", *column) for i, column in enumerate(columns)))
    rng = np.random.default_rng(seed)
    low, high = (np.array([c[k] for c in columns]) for k in (0, 1))
    cells = low + (high - low) * rng.uniform(-0.2, 1.2, (rows, len(columns)))
    ties = low + (high - low) * (rng.integers(0, 2 * GRID, cells.shape) / (2 * GRID))
    cells = np.where(rng.random(cells.shape) < 0.3, ties, cells)
    cells = np.where(rng.random(cells.shape) < 0.3, rng.choice(ODD, cells.shape), cells)
    frame = pl.DataFrame(dict(zip((c.name for c in schema.columns), cells.T, strict=True)))
    values, repairs = plainly(frame, schema)
    for given_cells in (frame, cells, np.asfortranarray(cells)):
        found = encode(given_cells, schema)
        assert same_bits(found.values, values)
        assert found.repairs == repairs
    for i in range(rows):  # each row by itself
        assert same_bits(encode(cells[i : i + 1], schema).values, values[i : i + 1])


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, ">f8", np.int8, np.uint8, np.int64, np.uint64, np.longdouble, ">i4"]
)
def test_arrays_of_every_type_are_read_as_their_numbers(dtype):
    rng = np.random.default_rng(1)
    array = rng.integers(0, 100, (30, 3)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        array /= np.dtype(dtype).type(7)
    schema = schema_of(*(number(f"x{i}", 3, 77.5) for i in range(3)))
    frame = pl.DataFrame(array.astype(np.float64), schema=["x0", "x1", "x2"], orient="row")
    (block,) = MatrixTable(array).blocks(["x0", "x1", "x2"])
    assert same_bits(encode(block, schema).values, plainly(frame, schema)[0])
    (batch,) = MatrixTable(array).batches(["x0", "x1", "x2"])
    assert same_bits(encode(batch, schema).values, plainly(frame, schema)[0])


def test_frames_with_integers_missing_cells_and_decimals():
    frame = pl.DataFrame(
        {
            "x0": pl.Series([1, None, 2**53 + 1], dtype=pl.Int64),
            "x1": pl.Series([0.5, float("nan"), None], dtype=pl.Float32),
            "x2": pl.Series(["0.25", None, "9"]).cast(pl.Decimal(9, 2)),
        }
    )
    schema = schema_of(number("x0", 0, 4), number("x1", 0, 1, missing=1.0), number("x2", 0, 1))
    found = encode(frame, schema)
    values, repairs = plainly(frame, schema)
    assert same_bits(found.values, values) and found.repairs == repairs
    assert found.values.tolist() == [[-HALF / 2, 1, -HALF / 2], [0, HALF, 0], [HALF, HALF, HALF]]
    assert found.repairs == {"x0": Repairs(1, 0, 1), "x1": Repairs(2, 0, 0), "x2": Repairs(1, 0, 1)}


def test_numbers_beside_text_flags_and_categories_keep_their_places():
    schema = schema_of(
        Column("c", "category", values=("a", "b")),
        number("x", 0, 1),
        number("text", 0, 1),
        Column("f", "flag"),
        number("y", -1, 1, missing=1.0),
    )
    frame = pl.DataFrame(
        {"y": [0.0, None], "extra": [1, 2], "c": ["b", "z"], "x": [1.5, 0.5], "text": ["1", "?"], "f": [True, None]}
    )
    found = encode(frame, schema)
    assert found.values.tolist() == [[0, CATEGORY_STEPS, HALF, HALF, HALF, 1], [0, 0, 1, 0, 0, HALF]]
    assert list(found.repairs) == ["c", "x", "text", "f", "y"]
    assert found.repairs == {
        "c": Repairs(0, 1, 0),
        "x": Repairs(0, 0, 1),
        "text": Repairs(1, 0, 0),
        "f": Repairs(1, 0, 0),
        "y": Repairs(1, 0, 0),
    }
    with pytest.raises(InputError, match="no 'x'"):
        encode(frame.drop("x"), schema)
    with pytest.raises(InputError, match="type list"):
        encode(frame.with_columns(pl.Series("x", [[1.5], [0.5]])), schema)
    days = encode(frame.with_columns(pl.Series("x", [datetime.date(2020, 1, 1)] * 2)), schema)
    assert days.repairs["x"] == Repairs(0, 2, 0)


# ---- clipping and views


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32), st.sampled_from(["box", "multiples", "near"]))
def test_compiled_clipping_gives_the_same_bits(width, seed, shape):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-HALF, HALF + 1, (5, width)).astype(float)
    bound = int(rng.integers(1, 2**18))
    if shape == "multiples":  # products that round up to whole numbers
        rows = rng.integers(-4, 5, (5, width)) * rng.integers(1, 5000, (5, 1)).astype(float)
        bound = int(rng.integers(1, 20))
    elif shape == "near":
        bound = max(1, int(np.sqrt((rows[0] ** 2).sum())))
    expected, cut = clipped_plainly(rows, bound)
    found, count = clip_rows(rows, bound)
    assert same_bits(found, expected) and count == cut
    assert same_bits(clip_rows(np.asfortranarray(rows), bound)[0], expected)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_clipped_rows_about_a_centre_have_the_same_bits(width, seed, centred, tight):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-HALF, HALF + 1, (6, width)).astype(float)
    if tight:
        rows = rng.integers(-4, 5, (6, width)) * rng.integers(1, 5000, (6, 1)).astype(float)
    centre = rng.integers(-HALF, HALF + 1, width) if centred else None
    clip = RowClip(int(rng.integers(1, 20 if tight else 2**18)), centre)
    before = rows.copy()
    expected = clipped_plainly(rows if centre is None else rows - centre, clip.bound)[0]
    assert same_bits(clip.of(rows) + 0.0, expected + 0.0)
    assert np.array_equal(rows, before)


def test_a_row_that_is_still_too_long_is_cut_again():
    """The square root of bound^2 + 1 rounds to the bound: the first cut changes nothing."""
    bound = 94_000_000
    rows = np.array([[bound, 1.0], [1.0, -bound], [bound, 0.0]])
    for found in (RowClip(bound).of(rows), clip_rows(rows, bound)[0]):
        assert all(sum(int(v) ** 2 for v in row) <= bound**2 for row in found)
        assert same_bits(found, clipped_plainly(rows, bound)[0])
    many = np.array([[3.0, 4.0]]) * np.arange(1, 3000)[:, None]
    for bound in (5, 10, 25, 35):
        assert same_bits(RowClip(bound).of(many), clipped_plainly(many, bound)[0])


# ---- the check at the door


def refused(batch, space) -> str | None:
    try:
        check_bounded(batch, space)
    except RuntimeError as error:
        return str(error)
    return None


DOOR = make_space(
    [("number", 1)] * 3 + [("category", 3), ("flag", 1), ("category", 1), ("number", 1)], row_bound=3 * HALF
)


@pytest.mark.parametrize("row", [0, 5, 8])
@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        *((place, value, why)
          for place in (0, 1, 2, 6, 8)
          for value, why in ((HALF + 1, "range"), (-HALF - 1, "range"), (0.5, "grid"), (np.nan, "grid"),
                             (np.inf, "range"), (-np.inf, "range"), (1e300, "range"), (5e-324, "grid"))),
        *((place, value, why)
          for place in (3, 4, 5, 7)
          for value, why in ((CATEGORY_STEPS + 1, "range"), (-1, "range"), (-CATEGORY_STEPS, "range"), (0.25, "grid"),
                             (np.nan, "grid"), (np.inf, "range"))),
    ],
)  # fmt: skip
def test_one_bad_cell_anywhere_is_refused(row, place, value, why):
    batch = np.zeros((9, DOOR.width))
    assert refused(batch, DOOR) is None
    batch[row, place] = value
    assert why in (refused(batch, DOOR) or "")
    assert why in (refused(np.asfortranarray(batch), DOOR) or "")
    assert why in (refused(np.repeat(batch, 2, axis=0)[::2], DOOR) or "")


def test_the_door_knows_crowded_categories_long_rows_and_wrong_shapes():
    batch = np.zeros((4, DOOR.width))
    batch[3, [3, 5]] = 1, 1
    assert "range" in (refused(batch, DOOR) or "")
    batch[3, [3, 5]] = CATEGORY_STEPS, 0
    batch[2, [3, 4]] = 0, -0.0
    assert refused(batch, DOOR) is None
    batch[:] = 0
    batch[1, [0, 1, 2, 6, 8]] = HALF
    batch[1, 4] = CATEGORY_STEPS
    space = make_space([("number", 1)] * 9, row_bound=3 * HALF)
    full = np.full((2, 9), float(HALF))
    assert refused(full, space) is None  # exactly on the bound
    assert "row bound" in (refused(full, make_space([("number", 1)] * 9, row_bound=3 * HALF - 1)) or "")
    assert refused(full[:, :8], space) and refused(np.zeros((2, 10)), space)
    assert refused(full.astype(np.float32), space)
    assert refused(np.zeros((0, 9)), space) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_door_agrees_with_a_plain_reading_of_its_rules(seed):
    rng = np.random.default_rng(seed)
    batch = np.zeros((3, DOOR.width))
    batch[:, [0, 1, 2, 6, 8]] = rng.integers(-HALF, HALF + 1, (3, 5))
    for start, width in ((3, 3), (7, 1)):
        for i in range(3):
            batch[i, start + rng.integers(width)] = rng.choice([0, CATEGORY_STEPS, 17])
    if rng.random() < 0.5:
        batch[rng.integers(3), rng.integers(DOOR.width)] = rng.choice([-1, 0.5, HALF, HALF + 1, -HALF - 1, 46341])
    good = True
    for row in batch:
        for block in DOOR.blocks:
            cell = row[block.start : block.stop]
            good &= bool((cell == np.rint(cell)).all() and (np.abs(cell) <= block.reach).all())
            good &= block.kind != "category" or (np.count_nonzero(cell) <= 1 and bool((cell >= 0).all()))
        good &= sum(int(v) ** 2 for v in row) <= DOOR.row_bound**2
    assert (refused(batch, DOOR) is None) == good


# ---- second moments


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 7), (50, 5), (1030, 33), (0, 4)])
def test_squares_are_added_exactly_to_the_upper_triangle_alone(shape):
    rng = np.random.default_rng(2)
    rows = rng.integers(-HALF, HALF + 1, shape).astype(float)
    begin = rng.integers(-(2**40), 2**40, (shape[1], shape[1])).astype(float)
    exact = rows.astype(np.int64).T @ rows.astype(np.int64)
    for each in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], np.repeat(rows, 2, axis=1)[:, ::2]):
        total = begin.copy()
        add_squares(each, total)
        assert np.array_equal(np.triu(total), np.triu(begin + exact))
        assert np.array_equal(np.tril(total, -1), np.tril(begin, -1))


def test_squares_are_added_to_nothing_but_a_square_of_their_width():
    rows = np.ones((2, 3))
    frozen = np.zeros((3, 3))
    frozen.setflags(write=False)
    for total in (np.zeros((2, 2)), np.zeros((4, 4)), np.zeros((3, 4))[:, :3], np.zeros((3, 3), np.float32), frozen):
        with pytest.raises(ValueError, match="contiguous square"):
            add_squares(rows, total)


def test_squares_without_the_library_are_the_same(monkeypatch):
    rows = np.random.default_rng(3).integers(-HALF, HALF + 1, (40, 6)).astype(float)
    one, other = np.zeros((6, 6)), np.zeros((6, 6))
    add_squares(rows, one)
    monkeypatch.setattr("adumbra.numerics.integer_kernels._SYRK", None)
    add_squares(rows, other)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("width", [1, 2, 3, 127, 128, 129, 300])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_triangles_and_back(width, lead):
    rng = np.random.default_rng(4)
    half = rng.integers(-(2**50), 2**50, (*lead, width, width)).astype(float)
    whole = np.triu(half) + np.swapaxes(np.triu(half, 1), -1, -2)
    parts = Gram(width).finalize({"matrix": half})  # what lies below the diagonal is not read
    mask = np.triu(np.ones((width, width), dtype=bool), 1)
    assert np.array_equal(parts["diagonal"], np.diagonal(half, axis1=-2, axis2=-1))
    assert width == 1 or np.array_equal(parts["upper"], half[..., mask])
    assert np.array_equal(symmetric(parts["diagonal"], parts.get("upper")), whole)


SPACE = make_space([("number", 1)] * 6 + [("category", 2)])


def private(rows, size=700):
    return PrivateRows(SPACE, len(rows), lambda: (rows[i : i + size] for i in range(0, len(rows), size)))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("running", [2**29, 0], ids=["a total each", "one total"])
def test_totals_of_all_workers_are_the_sum_over_all_rows(threads, running, monkeypatch):
    monkeypatch.setenv("ADUMBRA_THREADS", str(threads))
    monkeypatch.setattr(engine, "_RUNNING_BYTES", running)
    rng = np.random.default_rng(5)
    rows = rng.integers(-HALF, HALF + 1, (7001, SPACE.width)).astype(float)
    rows[:, 6:] = np.eye(2)[rng.integers(0, 2, len(rows))] * CATEGORY_STEPS
    groups = Groups(Cells.even(SPACE.blocks[6:], 1))
    centre = rng.integers(-HALF, HALF + 1, SPACE.width)
    for query in (
        Gram(SPACE.width),
        Gram(SPACE.width, clip=RowClip(HALF)),
        Gram(SPACE.width, clip=RowClip(HALF, centre)),
        Gram(SPACE.width, groups, clip=RowClip(GRID, centre)),
    ):
        found = query.finalize(meter._total(private(rows), query, LocalThreads()))
        for name, value in answered_plainly(query, rows).items():
            assert np.array_equal(found[name], value), name


@pytest.mark.parametrize(("running", "most"), [(2**29, 3), (0, 1)])
def test_there_is_at_most_one_total_for_each_worker(running, most, monkeypatch):
    monkeypatch.setenv("ADUMBRA_THREADS", "3")
    monkeypatch.setattr(engine, "_RUNNING_BYTES", running)
    made, real = [], Gram.partial
    monkeypatch.setattr(Gram, "partial", lambda self, batch: made.append(len(batch)) or real(self, batch))
    meter._total(private(np.zeros((9000, SPACE.width)), 100), Gram(SPACE.width), LocalThreads())
    assert set(made) == {0} and len(made) <= most


def test_a_row_that_breaks_its_bound_stops_every_worker(monkeypatch):
    monkeypatch.setenv("ADUMBRA_THREADS", "3")
    rows = np.zeros((9000, SPACE.width))
    rows[-1, 0] = HALF + 1
    with pytest.raises(RuntimeError, match="at the door"):
        meter._total(private(rows), Gram(SPACE.width), LocalThreads())
    with pytest.raises(InputError, match="rows"):
        meter._total(PrivateRows(SPACE, 5, lambda: iter([rows[:4]])), Gram(SPACE.width), LocalThreads())


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_threads_are_given_back_whoever_leaves_last():
    with threadpool_limits(2, user_api="blas"):  # whatever the environment says
        _threads_are_given_back()


def _threads_are_given_back():
    before = blas_threads()
    assert 2 in before
    seen = []
    for ours_leaves_first in (True, False):
        entered, leave, left, end = threading.Barrier(2), *(threading.Event() for _ in range(3))

        def other(entered=entered, leave=leave, left=left, end=end):
            with one_thread_each():
                entered.wait()
                leave.wait()
            left.set()
            end.wait()
            seen.append(blas_threads())

        helper = threading.Thread(target=other)
        with one_thread_each():
            assert set(blas_threads()) == {1}
            helper.start()
            entered.wait()
            if not ours_leaves_first:
                leave.set()
                left.wait()
        assert blas_threads() == before
        leave.set()
        left.wait()
        end.set()
        helper.join()
        newcomer = threading.Thread(target=lambda: seen.append(blas_threads()))
        newcomer.start()
        newcomer.join()
        assert blas_threads() == before
    assert seen == [before] * 4
    with pytest.raises(ValueError, match="x"), one_thread_each():
        raise ValueError("x")
    assert blas_threads() == before


# ---- arrays as tables


def test_columns_of_an_array_are_named_by_the_schema():
    array = np.random.default_rng(6).uniform(-1, 1, (50, 3))
    schema = schema_of(number("a", -1, 1), Column("id", role="drop"), number("b", -1, 1), number("c", -1, 1))
    table = open_table(array)
    check_columns(schema, table.columns, table.types)
    assert [frame.columns for frame in table.batches(["a", "b", "c"], 20)] == [["a", "b", "c"]] * 3
    done = ad.release(array, schema, ad.DPPro(dimension=2), ad.Budget(1.0, 1e-6))
    assert done.card.table_rows == 50 and done.table.shape == (50, 2)
    for wrong in (array[:, :2], np.hstack([array, array[:, :1]])):
        with pytest.raises(InputError, match="an array of 3 columns"):
            ad.release(wrong, schema, ad.DPPro(dimension=2), ad.Budget(1.0, 1e-6))


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros(3), "two dimensions"),
        (np.zeros((2, 2, 2)), "two dimensions"),
        (np.array([["1"]]), "array of numbers"),
        (np.array([[1]], dtype=object), "array of numbers"),
        (np.array([[1j]]), "array of numbers"),
        (np.zeros((2, 0)), "columns"),
        (np.zeros((0, 1)), "rows"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(array, why):
    with pytest.raises(InputError, match=why):
        ad.release(array, numbers(1), ad.DPPro(dimension=1), ad.Budget(1.0, 1e-6))


def test_arrays_serve_flags_and_categories_too():
    schema = schema_of(Column("f", "flag"), Column("c", "category", values=(1, 2)), number("x", 0, 2))
    found = encode(next(open_table(np.array([[1, 2, 2], [0, 3, 1]])).blocks(["f", "c", "x"])), schema)
    assert found.values.tolist() == [[HALF, 0, CATEGORY_STEPS, HALF], [-HALF, 0, 0, 1]]
    assert found.repairs["c"] == Repairs(0, 1, 0)
    flags = schema_of(Column("f", "flag"), Column("g", "flag"))
    (block,) = open_table(np.array([[True, False]])).blocks(["f", "g"])
    assert encode(block, flags).values.tolist() == [[HALF, -HALF]]


def test_masked_cells_are_missing_and_never_read():
    array = np.ma.MaskedArray(np.array([[0.5, 9.0], [1.0, -1.0]]), mask=[[False, True], [False, False]])
    (block,) = open_table(array).blocks(["x0", "x1"])
    found = encode(block, numbers(2))
    assert found.values.tolist() == [[HALF / 2, 0], [HALF, -HALF]]
    assert found.repairs == {"x0": Repairs(), "x1": Repairs(missing=1)}


def test_an_array_is_read_where_it_lies(tmp_path):
    array = np.random.default_rng(7).uniform(-1, 1, (100, 4))
    assert all(np.shares_memory(block, array) for block in open_table(array).blocks(list("abcd"), 30))
    np.save(tmp_path / "a.npy", array)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    joined = np.concatenate(list(open_table(mapped).blocks(list("abcd"), 30)))
    assert np.array_equal(joined, array)
    turned = np.concatenate(list(open_table(np.asfortranarray(array)[::2]).blocks(list("abcd"), 30)))
    assert np.array_equal(turned, array[::2])


def test_batches_of_one_size_are_not_copied():
    batches = [np.arange(6.0).reshape(3, 2) + i for i in range(4)]
    assert all(np.shares_memory(a, b) for a, b in zip(regrouped(iter(batches), 3), batches, strict=True))
    joined = list(regrouped(iter([batches[0][:1], batches[1], batches[2][:0], batches[3]]), 3))
    assert [len(b) for b in joined] == [3, 3, 1]
    assert np.array_equal(np.concatenate(joined), np.concatenate([batches[0][:1], batches[1], batches[3]]))


def exact_rows(source, schema, row_bound=None):
    """What the meter would read, and what the owner is told."""
    mechanism = ad.DPPro(dimension=1)
    job = pipeline.prepare(Request(open_table(source), schema, mechanism, ad.Budget(1.0, 1e-6), row_bound=row_bound))
    notes = pipeline.OwnerNotes()
    rows = np.concatenate(list(rehearsal._private_rows(job, notes, 1)._for_the_meter()))
    return rows, notes


def test_arrays_and_frames_of_every_library_give_the_same_rows_and_notes():
    rng = np.random.default_rng(8)
    array = rng.normal(0, 0.6, (9000, 5))
    array[rng.random(array.shape) < 0.05] = np.nan
    names = [f"x{i}" for i in range(5)]
    schema = schema_of(*(number(name, -1, 1, missing=0.5 if name == "x3" else None) for name in names))
    frame = pl.DataFrame(array, schema=names, orient="row")
    expected, repairs = plainly(frame, schema)
    bounded, cut = clip_rows(expected, GRID)
    for bound, rows, count in ((None, expected, 0), (1.0, bounded, cut)):
        for source in (
            array,
            frame,
            frame.to_pandas(),
            frame.to_pandas().convert_dtypes(),
            frame.to_arrow(),
            frame.select(reversed(names)),
        ):
            found, notes = exact_rows(source, schema, bound)
            assert same_bits(found + 0.0, rows + 0.0)
            assert notes.repairs == repairs and notes.clipped_rows == count


def test_pandas_columns_of_several_types_keep_their_numbers():
    frame = pd.DataFrame({"x0": [1, 2**53 + 1], "x1": np.array([0.1, 0.2], np.float32), "x2": [np.nan, 1.0]})
    schema = schema_of(number("x0", 0, 2.0**54), number("x1", 0, 1), number("x2", 0, 1))
    expected, repairs = plainly(pl.from_pandas(frame), schema)
    found, notes = exact_rows(frame, schema)
    assert same_bits(found, expected) and notes.repairs == repairs
    mixed = frame.assign(x1=["0.1", "wide"])
    assert exact_rows(mixed, schema)[1].repairs["x1"] == Repairs(unknown=1)


def test_repairs_are_counted_over_all_batches():
    array = np.zeros((20_000, 3))
    array[[0, 9000, 19_999], 1] = 5.0
    array[15_000, 2] = np.nan
    _, notes = exact_rows(array, numbers(3))
    assert notes.repairs == {"x0": Repairs(), "x1": Repairs(clipped=3), "x2": Repairs(missing=1)}


def test_a_second_moment_needs_no_copy_of_the_table():
    array = np.random.default_rng(9).uniform(-1, 1, (60_000, 160))
    schema = numbers(160)
    job = pipeline.prepare(Request(open_table(array), schema, ad.DPPro(dimension=1), ad.Budget(1.0, 1e-6)))
    query = Gram(160, clip=RowClip(GRID))

    def measure():
        return meter._total(rehearsal._private_rows(job, pipeline.OwnerNotes(), 1), query, LocalThreads())["matrix"]

    measure()
    tracemalloc.start()
    try:
        found = measure()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.75 * array.nbytes
    rows = query.clip.of(encode(array[:2000], schema).values)
    assert found[0, 0] > (rows[:, 0] ** 2).sum()
