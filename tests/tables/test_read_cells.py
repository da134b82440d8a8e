"""Cells of a table as the schema declares them: one reader for every spelling, and nothing put on the grid."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from adumbra.declare.schema import Schema
from adumbra.tables.encode import decode_cells, encode, read_cells

CASES: list[tuple[dict[str, Any], list[str | None], list[Any]]] = [
    ({"kind": "number", "low": 0, "high": 3}, ["0.123456789", "7", "", "x"], [0.123456789, 3.0, None, None]),
    ({"kind": "number", "low": 0, "high": 3, "missing": 1}, ["2", "", None, "x"], [2.0, 1.0, 1.0, 1.0]),
    (
        {"kind": "number", "low": 0, "high": 1_000_000, "integer": True, "blank": [-9]},
        ["123457", "123457.4", "-9", "-8"],
        [123_457, 123_457, None, 0],
    ),
    ({"kind": "number", "low": 0, "high": 9000, "decimals": 2, "scale": "log"}, ["0.3", "8999.994"], [0.3, 8999.99]),
    ({"kind": "flag", "values": ["n", "y"], "missing": "n"}, ["y", "n", ""], ["y", "n", "n"]),
    ({"kind": "flag"}, ["yes", "0", ""], [True, False, None]),
    ({"kind": "category", "values": [1, 2]}, ["1.0", "2", "3"], [1, 2, None]),
    ({"kind": "ordinal", "values": ["low", "high"]}, ["high ", "low", None], ["high", "low", None]),
    (
        {"kind": "date", "low": "2020-01-01", "high": "2020-12-31", "format": "%d.%m.%Y"},
        ["31.12.2020", "01.01.2030", "2020-01-01"],
        [dt.date(2020, 12, 31), dt.date(2020, 12, 31), dt.date(2020, 1, 1)],
    ),
    (
        {"kind": "datetime", "low": "1990-01-01", "high": "2030-01-01", "missing": "2000-01-01T00:00:01"},
        ["2020-02-03T04:05:06", ""],
        [dt.datetime(2020, 2, 3, 4, 5, 6), dt.datetime(2000, 1, 1, 0, 0, 1)],
    ),
    ({"kind": "time", "format": "%H%M"}, ["517", "2400", "2575"], [dt.time(5, 17), dt.time(0, 0), None]),
    ({"kind": "time"}, ["05:17:08", "24:00", "5:7", None], [dt.time(5, 17, 8), dt.time(0, 0), None, None]),
    ({"kind": "duration", "low": 0, "high": "400d"}, ["P300DT1S", "9"], [dt.timedelta(300, 1), dt.timedelta(0, 9)]),
]


@pytest.mark.parametrize(("spec", "cells", "wanted"), CASES)
def test_cells_as_declared(spec, cells, wanted):
    schema = Schema.from_dict({"columns": {"x": spec}})
    frame = pl.DataFrame({"x": pl.Series(cells, dtype=pl.String)})
    found = read_cells(frame, schema)
    assert found["x"].to_list() == wanted
    # the same cells are empty as in what is measured, and the same types come out
    codes = encode(frame, schema).values
    there = [cell is not None for cell in wanted]
    assert codes.any(axis=1).tolist() == there
    assert found["x"].dtype == decode_cells(schema.columns[0].cells.codes(codes)[:, None], schema)["x"].dtype
    assert read_cells(found, schema)["x"].to_list() == wanted or spec.get("blank")
