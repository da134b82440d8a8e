"""Encoding and clipping: bounds that hold for any cell, cell by cell, and the way back."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF
from adumbra.tables.clip import clip_rows
from adumbra.tables.encode import Repairs, check_columns, decode, encode
from adumbra.tables.read import open_table


def schema_of(*columns: Column) -> Schema:
    return Schema(TableInfo(), columns)


def steps(cells, column: Column, dtype=None) -> list:
    """Encoded cells of one column: numbers, or the position of the one coordinate that is set (None: empty)."""
    values = encode(pl.DataFrame({column.name: pl.Series(cells, dtype=dtype)}), schema_of(column)).values
    if column.kind != "category":
        return values[:, 0].tolist()
    assert set(np.unique(values)) <= {0.0, float(CATEGORY_STEPS)}
    assert (np.count_nonzero(values, axis=1) <= 1).all()
    return [int(np.argmax(row)) if row.any() else None for row in values]


AGE = Column("age", "number", low=0, high=100)


def test_numbers():
    cells = ["0", "100", " 50 ", "-1", "1e308", "-1e400", "inf", "", "nan", "abc", "1,5", None, "0x10"]
    got = encode(pl.DataFrame({"age": cells}), schema_of(AGE))
    assert got.values[:, 0].tolist() == [
        -HALF, HALF, 1, -HALF, HALF, -HALF, HALF, 0, 0, 0, 0, 0, 0,
    ]  # fmt: skip
    assert got.repairs == {"age": Repairs(missing=3, unknown=3, clipped=4)}
    assert got.values.dtype == np.float64
    with_fallback = Column("age", "number", low=0, high=100, missing=100)
    assert steps(["", "abc", None, "25"], with_fallback) == [HALF, HALF, HALF, -GRID // 4]


def test_numbers_of_every_type():
    for cells, dtype in (([25, None], pl.Int8), ([25, None], pl.UInt64), ([25.0, None], pl.Float32),
                         ([25.0, float("nan")], pl.Float64), ([decimal.Decimal(25), None], pl.Decimal(9, 2)),
                         (["25", "x"], pl.Categorical), (["25", "x"], pl.Enum(["25", "x"]))):  # fmt: skip
        assert steps(cells, AGE, dtype) == [-GRID // 4, 0], dtype
    assert steps([None, None], AGE, pl.Null) == [0, 0]
    assert steps([2**63, -(2**63)], AGE, pl.Int128) == [HALF, -HALF]


def test_ranges_at_the_edge_of_floating_point():
    for low, high in ((-4e299, 5e299), (0.0, 2e-290), (-1e9, -1e9 + 2), (1e15, 1e15 + 2e6), (-0.1, 0.3)):
        column = Column("x", "number", low=low, high=high)
        cells = [low, high, np.nextafter(low, -np.inf), np.nextafter(high, np.inf), 1e308, -1e308, np.inf, -np.inf]
        got = steps(cells, column)
        assert got == [-HALF, HALF, -HALF, HALF, HALF, -HALF, HALF, -HALF]
        back = decode(np.array([[-HALF], [HALF], [1e300], [-np.inf]]), schema_of(column))["x"].to_list()
        assert back == [low, high, high, low]


def test_flags():
    flag = Column("f", "flag")
    assert steps(["true", " YES ", "y", "T", "1", "1.0", "01"], flag) == [HALF] * 7
    assert steps(["false", "No", "n", "F", "0", "0.0", "-0"], flag) == [-HALF] * 7
    assert steps([True, False, None], flag) == [HALF, -HALF, 0]
    assert steps([1.0, 0.0, 2.0, float("nan"), None], flag) == [HALF, -HALF, 0, 0, 0]
    got = encode(pl.DataFrame({"f": ["maybe", "", None, "2"]}), schema_of(flag))
    assert got.repairs == {"f": Repairs(missing=2, unknown=2)}
    assert steps(["maybe", None], Column("f", "flag", missing=True)) == [HALF, HALF]
    assert steps(["maybe", None], Column("f", "flag", missing=False)) == [-HALF, -HALF]


def category(*values, missing=None):
    return Column("c", "category", values=values, missing=missing)


def test_categories():
    assert steps([" a", "b", "A", "", None, "c"], category("a", "b ")) == [0, 1, None, None, None, None]
    assert steps(["z", None, "a"], category("a", "b", missing="b")) == [1, 1, 0]
    assert steps(["", "x", None], category("x", "")) == [1, 0, None]  # the empty text may be declared
    assert steps(["\U0001f40d", 'q"'], category('q"', "\U0001f40d")) == [1, 0]
    got = encode(pl.DataFrame({"c": ["z", None, "a", " "]}), schema_of(category("a")))
    assert got.repairs == {"c": Repairs(missing=2, unknown=1)}


def test_numeric_categories_match_by_size():
    for values in ((2, 1), (2.0, 1.0), ("2", "1")):
        assert steps([1, 2, 3, None], category(*values)) == [1, 0, None, None]
        assert steps([1.0, 2.0, 1.5, float("nan")], category(*values)) == [1, 0, None, None]
    assert steps(["1", "1.0", " 1e0", "x", ""], category(2, 1)) == [1, 1, 1, None, None]
    assert steps([0.1, 0.5], category(0.5, 0.1), pl.Float32) == [1, 0]
    assert steps(["0.1", "-0.0"], category(0.0, 0.1)) == [1, 0]
    assert steps([1, 0], category("x", "1")) == [1, None]


def test_true_and_false_as_categories():
    assert steps([True, False, None], category(False, True)) == [1, 0, None]
    assert steps(["yes", "0", "?"], category(False, True)) == [1, 0, None]
    assert steps([True, False], category("False", "True")) == [1, 0]
    assert steps([True, False], category(0, 1)) == [1, 0]
    assert steps([True, False], category(True)) == [0, None]


def test_dates_as_categories():
    assert steps([datetime.date(2020, 1, 2)], category("2020-01-01", "2020-01-02")) == [1]


def test_cell_types_that_a_kind_cannot_read():
    bad = [(AGE, [[1]], None), (AGE, [b"x"], None), (Column("f", "flag"), [[True]], None),
           (category("a"), [["a"]], None), (category("a"), [{"a": 1}], None)]  # fmt: skip
    for column, cells, dtype in bad:
        with pytest.raises(InputError, match=f"'{column.name}'"):
            steps(cells, column, dtype)


def test_check_columns():
    schema = schema_of(AGE, Column("id", role="drop"), category("a"))
    check_columns(schema, ["c", "age", "id"])
    check_columns(schema, ["c", "age"], {"c": "text", "age": "number"})
    with pytest.raises(InputError, match="no 'age', 'c'"):
        check_columns(schema, ["id"])
    with pytest.raises(InputError, match=r"'new' undeclared.*role = \"drop\""):
        check_columns(schema, ["age", "c", "new"])
    with pytest.raises(InputError, match=r"'age'.*number.*other"):
        check_columns(schema, ["age", "c"], {"age": "other", "c": "text"})
    for kind in ("boolean", "time"):  # whose cells are unknown: one word among days would let them in as text
        check_columns(schema, ["age", "c"], {"age": kind, "c": "text"})
    with pytest.raises(InputError, match="'c'"):
        encode(pl.DataFrame({"age": [1]}), schema)


def test_pandas_missing_elsewhere_changes_no_other_cell():
    """A pandas column of whole numbers turns to floats, of booleans to objects, when one cell is missing."""
    schema = schema_of(Column("k", "category", values=("1", "2")), Column("f", "flag"))

    def first_row(frame):
        return encode(next(open_table(frame).batches(["k", "f"])), schema).values[0].tolist()

    full = pd.DataFrame({"k": [1, 2], "f": [True, False]})
    holed = pd.DataFrame({"k": [1, None], "f": [True, None]})
    assert first_row(full) == first_row(holed) == [CATEGORY_STEPS, 0, HALF]


# Round trips


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(1, 2**16 - 1), st.data())
def test_integers_come_back_exactly(low, width, data):
    column = Column("x", "number", low=low, high=low + width, integer=True)
    cells = data.draw(st.lists(st.integers(low, low + width), min_size=1, max_size=30))
    back = decode(encode(pl.DataFrame({"x": cells}), schema_of(column)).values, schema_of(column))
    assert back["x"].dtype == pl.Int64
    assert back["x"].to_list() == cells


def test_every_integer_of_the_widest_range_comes_back():
    column = Column("x", "number", low=-7, high=2**16 - 8, integer=True)
    cells = pl.Series("x", range(-7, 2**16 - 7))
    assert decode(encode(cells.to_frame(), schema_of(column)).values, schema_of(column))["x"].equals(cells)


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e7), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_floats_come_back_within_half_a_step_and_those_in_the_middle_within_one(low, width, shares):
    column = Column("x", "number", low=low, high=low + width)
    cells = np.clip(low + np.array(shares) * width, column.low, column.high)
    back = decode(encode(pl.DataFrame({"x": cells}), schema_of(column)).values, schema_of(column))["x"].to_numpy()
    step = (column.high - column.low) / GRID
    middle = np.abs(cells - (column.low + (column.high - column.low) / 2)) <= step * (0.5 + 1e-6)
    most = np.where(middle, 1.5, 0.5) * step  # 0 is for cells that are not there
    assert (np.abs(back - cells) <= most * (1 + 1e-6) + 1e-9 * abs(low) / GRID).all()
    assert column.low <= back.min() and back.max() <= column.high


def test_categories_and_flags_come_back_in_their_type():
    frame = pl.DataFrame({"s": ["b", "a"], "i": [3, 1], "f": [0.5, 2.0], "t": [True, False], "y": [False, True]})
    schema = schema_of(
        Column("s", "category", values=("a", "b")),
        Column("i", "category", values=(1, 2, 3)),
        Column("f", "category", values=(2.0, 0.5)),
        Column("t", "category", values=(True, False)),
        Column("y", "flag"),
    )
    encoded = encode(frame, schema)
    assert decode(encoded.values, schema).equals(frame)
    assert decode(encoded.values + np.random.default_rng(0).normal(0, 1000, encoded.values.shape), schema).equals(frame)
    assert decode(np.zeros((0, schema.space().width)), schema).schema == frame.schema
    assert "values" not in repr(encoded)  # private rows are not printed


def test_decode_refuses_other_shapes_and_nan():
    for bad in (np.zeros(3), np.zeros((2, 2)), np.array([[np.nan]])):
        with pytest.raises(InputError, match="decode"):
            decode(bad, schema_of(AGE))


# Properties on which the guarantee rests

VALUES = st.sampled_from([("a", "b", "c"), ("1", "2", "x"), (1, 2, 3), (0.5, 1.0), (True, False), ("",), ("only",)])
HOSTILE = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.sampled_from(["a", " b", "1", "1.0", "true", "NO", "nan", "-inf", "1e999", "-1e-999", "1e308", "\0", "0"]),
    st.floats(allow_nan=True).map(str),
    st.integers().map(str),
)


@st.composite
def declared(draw):
    made = []
    for position, kind in enumerate(
        draw(st.lists(st.sampled_from(["number", "category", "flag"]), min_size=1, max_size=5))
    ):
        name = f"c{position}"
        if kind == "number":
            low = draw(st.floats(-1e12, 1e12))
            high = low + max(1.0, abs(low) * 1e-6) * draw(st.floats(1, 1e6))
            made.append(Column(name, kind, low=low, high=high, missing=draw(st.sampled_from([None, low, high]))))
        elif kind == "category":
            values = draw(VALUES)
            made.append(Column(name, kind, values=values, missing=draw(st.sampled_from([None, values[-1]]))))
        else:
            made.append(Column(name, kind, missing=draw(st.sampled_from([None, True, False]))))
    return schema_of(*made)


def hostile_series(draw, height):
    kind = draw(st.sampled_from(["text", "float", "int", "float32"]))
    cell = {
        "text": HOSTILE,
        "float": st.none() | st.floats() | st.sampled_from([1.0, 2.0, 0.5]),
        "float32": st.none() | st.floats(width=32),
        "int": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    }[kind]
    dtype = {"text": pl.String, "float": pl.Float64, "float32": pl.Float32, "int": pl.Int64}[kind]
    return pl.Series(draw(st.lists(cell, min_size=height, max_size=height)), dtype=dtype)


@st.composite
def hostile(draw, least=0):
    schema = draw(declared())
    height = draw(st.integers(least, 8))
    return schema, pl.DataFrame({c.name: hostile_series(draw, height) for c in schema.columns})


@settings(max_examples=120, deadline=None)
@given(hostile())
def test_any_cell_is_encoded_within_its_block(case):
    schema, frame = case
    encoded = encode(frame, schema)
    space = schema.space()
    assert encoded.values.shape == (frame.height, space.width)
    assert np.array_equal(encoded.values, np.rint(encoded.values))
    for block in space.blocks:
        part = encoded.values[:, block.start : block.stop]
        assert ((part**2).sum(axis=1) <= block.reach**2).all()
        for one in part:
            assert (((part - one) ** 2).sum(axis=1) <= block.span_squared).all()
        repairs = encoded.repairs[block.column]
        assert 0 <= repairs.missing + repairs.unknown <= frame.height
        assert 0 <= repairs.clipped <= frame.height
    assert decode(encoded.values, schema).columns == [c.name for c in schema.columns]


@settings(max_examples=100, deadline=None)
@given(hostile(least=1), st.data())
def test_a_row_does_not_depend_on_other_rows(case, data):
    schema, frame = case
    whole = encode(frame, schema)
    cut = data.draw(st.integers(0, frame.height))
    parts = [encode(part, schema) for part in (frame[:cut], frame[cut:])]
    assert np.array_equal(whole.values, np.vstack([p.values for p in parts]))
    for name, repairs in whole.repairs.items():
        assert repairs == parts[0].repairs[name] + parts[1].repairs[name]
    shuffled = data.draw(st.permutations(range(frame.height)))
    assert np.array_equal(encode(frame[list(shuffled)], schema).values, whole.values[list(shuffled)])


def test_scaling_comes_from_the_schema_and_never_from_the_data():
    schema = Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 100}}})
    for other in (11.0, 55.0, 99.0, 1e9, None):
        rows = encode(pl.DataFrame({"age": [10.0, other]}), schema).values
        assert rows[0, 0] == round(-0.4 * GRID)


@settings(max_examples=100, deadline=None)
@given(hostile(least=1), st.data())
def test_one_cell_moves_only_its_own_block(case, data):
    schema, frame = case
    block = data.draw(st.sampled_from(schema.space().blocks))
    row = data.draw(st.integers(0, frame.height - 1))
    column = frame[block.column].to_list()
    donor = data.draw(st.sampled_from([*column, None]))
    changed = frame.with_columns(
        pl.Series(block.column, [donor if i == row else v for i, v in enumerate(column)], frame[block.column].dtype)
    )
    moved = np.argwhere(encode(frame, schema).values != encode(changed, schema).values)
    assert all(r == row and block.start <= c < block.stop for r, c in moved)


def test_each_cell_has_its_own_coordinates():
    """Every value of every column, one at a time, over a row of empty cells: all that moves is the block."""
    schema = schema_of(
        Column("n", "number", low=0, high=1),
        Column("c", "category", values=("a", "b", "c")),
        Column("f", "flag"),
        Column("d", "category", values=(1, 2)),
    )
    cells = {"n": ["0", "1"], "c": ["a", "b", "c"], "f": ["no", "yes"], "d": ["1", "2"]}
    touched = []
    for block in schema.space().blocks:
        for cell in cells[block.column]:
            frame = pl.DataFrame({name: [cell if name == block.column else ""] for name in cells})
            moved = np.flatnonzero(encode(frame, schema).values[0])
            assert len(moved) == 1 and block.start <= moved[0] < block.stop
            touched.append(int(moved[0]))
    assert touched == [0, 0, 1, 2, 3, 4, 4, 5, 6]


# Row clipping


def exact(row) -> int:
    return sum(int(v) ** 2 for v in row)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 200), st.integers(1, 2**21), st.integers(0, 2**32), st.sampled_from(["box", "equal", "near"]))
def test_clipped_rows_obey_the_bound_exactly(width, bound, seed, shape):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-HALF, HALF + 1, (6, width)).astype(float)
    if shape == "equal":
        rows = np.sign(rows) * rng.integers(0, HALF + 1, (6, 1))
    elif shape == "near":  # rows a step or so beyond the bound, where rounding is most tempted
        bound = int(np.sqrt((rows[0] ** 2).sum())) or 1
    clipped, count = clip_rows(rows, bound)
    assert all(exact(row) <= bound**2 for row in clipped)
    inside = [exact(row) <= bound**2 for row in rows]
    assert count == inside.count(False)
    assert np.array_equal(clipped[inside], rows[inside])
    assert (np.abs(clipped) <= np.abs(rows)).all() and (clipped * rows >= 0).all()
    assert np.array_equal(clipped, np.rint(clipped))
    for row, alone in zip(clipped, rows, strict=True):
        # Towards zero: no coordinate is larger than its exact share.
        share = bound / max(bound, np.sqrt(float(exact(alone))))
        assert (np.abs(row) <= np.abs(alone) * share * (1 + 1e-12)).all()
        assert np.array_equal(clip_rows(alone[None], bound)[0][0], row)
        assert exact(row) >= 0.98 * min(bound**2, exact(alone)) - 3 * width * bound  # no more is cut than needed


def test_bound_on_exact_multiples():
    """k times a row of norm `bound` must come back as that row or shorter, never longer."""
    for k in range(1, 400):
        rows = np.array([[3.0, 4.0], [-5.0, 12.0], [8.0, -15.0]]) * k
        for bound in (5, 13, 17, 10, 26):
            assert all(exact(r) <= bound**2 for r in clip_rows(rows, bound)[0])


def test_bound_where_floating_point_cannot_tell():
    """The square root of bound^2 + 1 rounds to the bound: only the exact check can see that the row is long."""
    bound = 94_000_000
    clipped, count = clip_rows(np.array([[bound, 1.0], [1.0, -bound], [bound, 0.0]]), bound)
    assert count == 2
    assert all(exact(row) <= bound**2 for row in clipped)


def test_clip_refuses_what_it_cannot_bound():
    for bad in (np.array([[0.5]]), np.array([[np.nan]]), np.array([[np.inf]]), np.array([1.0]), np.array([[2.0**27]])):
        with pytest.raises(InputError, match="encode the table first"):
            clip_rows(bad, 5)
    for bound in (0, -3, 2.5):
        with pytest.raises(InputError, match="row_bound"):
            clip_rows(np.zeros((1, 1)), bound)
    rows, count = clip_rows(np.zeros((0, 3)), 5)
    assert rows.shape == (0, 3) and count == 0
    given_rows = np.array([[30.0, 40.0]])
    clip_rows(given_rows, 5)
    assert given_rows.tolist() == [[30.0, 40.0]]  # the caller's rows are not touched
    assert clip_rows(given_rows, 2**40)[1] == 0


def test_real_table(shared_data):
    schema = Schema.parse(
        '[columns.age]\nkind="number"\nlow=0\nhigh=120\ninteger=true\n'
        '[columns.sex]\nkind="category"\nvalues=["Female","Male"]\n'
        '[columns.workclass]\nkind="category"\nvalues=["Private","State-gov"]\n'
        '[columns.income]\nkind="category"\nvalues=["<=50K",">50K"]\nrole="label"\n'
    )
    names = [c.name for c in schema.released]
    table = open_table(shared_data / "adult.csv.gz")
    totals = dict.fromkeys(names, Repairs())
    for batch in table.batches(names):
        encoded = encode(batch, schema)
        totals = {n: totals[n] + encoded.repairs[n] for n in names}
        back = decode(encoded.values, schema)
        assert back["age"].cast(pl.String).equals(batch["age"])
        assert back["income"].equals(batch["income"])
    assert totals["workclass"] == Repairs(missing=2799, unknown=48842 - 33906 - 1981 - 2799)  # 2799 are "?"
    assert totals["age"] == totals["income"] == Repairs()
