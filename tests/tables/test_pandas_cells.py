"""One cell of a pandas column changes its type, and how no other row is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import adumbra as ad
from adumbra.declare.spelling import canonical
from adumbra.tables import read
from adumbra.tables.encode import encode
from tests.privacy.test_row_bounds import blocks

ONE = ad.Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})


def encoded(table, schema):
    names = [column.name for column in schema.released]
    return np.vstack([encode(frame, schema).values for frame in read.open_table(table).batches(names)])


CODE_VALUES = ["1", "2", "3", "absent", "2020-01-01 00:00:00", "2020-01-02 00:00:00", "2020-01-03 00:00:00"]


CODES = ad.Schema.from_dict({"columns": {"g": {"kind": "category", "values": CODE_VALUES}}})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            pd.Series([1, 2, 3, 1]).astype("category"),
            pd.Series([1, None, 3, 1]).astype("category"),
            id="categories of whole numbers become floats when one is missing",
        ),
        pytest.param(
            pd.Series([1.0, 2.0, 3.0, 1.0]),
            pd.Series([1.0, "absent", 3.0, 1.0]),
            id="floats become objects when one is a word",
        ),
        pytest.param(
            pd.to_datetime(pd.Series(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-01"])),
            pd.Series([pd.Timestamp("2020-01-01"), "absent", pd.Timestamp("2020-01-03"), pd.Timestamp("2020-01-01")]),
            id="dates become objects when one is a word",
        ),
    ],
)
def test_changing_one_pandas_cell_moves_one_row_only(before, after):
    change = encoded(pd.DataFrame({"g": before}), CODES) - encoded(pd.DataFrame({"g": after}), CODES)
    assert np.flatnonzero(change.any(axis=1)).tolist() == [1]


@pytest.mark.parametrize("turned", ["dose", "b"])
def test_one_cell_of_text_changes_how_no_other_row_of_32_bits_is_read(turned):
    """pandas makes objects of a column with one text in it, and of numbers of 32 bits Python's own."""
    columns = {
        "dose": {"kind": "category", "values": [0.1, 0.2, 0.3]},
        "b": {"kind": "number", "low": 0, "high": 1},
    }
    schema = ad.Schema.from_dict({"columns": columns})
    one = pd.DataFrame({"dose": np.array([0.1, 0.2, 0.3, 0.1] * 50, dtype=np.float32), "b": np.full(200, 0.25)})
    other = one.astype({turned: object})
    other.loc[0, turned] = "unknown"
    a, b = blocks(one, schema), blocks(other, schema)
    assert (a[1:] == b[1:]).all() and (a[1:, :3].sum(axis=1) > 0).all()


def test_numbers_of_32_bits_among_text_are_read_like_a_column_of_them():
    value = np.float32(0.5 + 3.5 / 65536)
    plain = pd.DataFrame({"a": np.full(4, value)})
    mixed = pd.DataFrame({"a": pd.Series([value, value, value, "unknown"], dtype=object)})
    assert (blocks(plain, ONE)[:3] == blocks(mixed, ONE)[:3]).all()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"])
def test_a_column_of_moments_is_read_as_one_of_objects(unit, zone):
    """One word makes objects of it, which are spelled one by one."""
    moments = pd.Series(pd.to_datetime(np.random.default_rng(0).integers(-(10**18), 4 * 10**18, 200))).dt.as_unit(unit)
    moments[3] = pd.NaT
    column = moments if zone is None else moments.dt.tz_localize("UTC").dt.tz_convert(zone)
    same(column)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_column_of_durations_is_read_as_one_of_objects(unit):
    spans = pd.Series(pd.to_timedelta(np.random.default_rng(0).integers(-(10**17), 10**17, 200))).dt.as_unit(unit)
    spans[3] = pd.NaT
    same(spans)


def same(column):
    tables = [pd.DataFrame({"x": cells}) for cells in (column, column.astype(object))]
    native, objects = (canonical(next(read.open_table(table).batches(["x"]))["x"]).to_list() for table in tables)
    assert native == objects and native[3] is None


def test_a_year_that_no_calendar_has_is_an_empty_cell():
    column = pd.Series(np.array(["12000-01-01", "2020-01-01"], dtype="datetime64[s]"))
    table = read.open_table(pd.DataFrame({"x": column}))
    assert next(table.batches(["x"]))["x"].to_list() == [None, "2020-01-01 00:00:00"]
