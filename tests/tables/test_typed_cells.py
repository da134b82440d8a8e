"""Cells of every kind: what is read, what is lost, what is clipped, and that a cell is the same wherever it is from."""

from __future__ import annotations

import csv
import datetime
import decimal
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.declare.column import Column
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import CATEGORY_STEPS, HALF
from adumbra.tables.encode import Repairs, decode_cells, encode
from adumbra.tables.read import open_table
from tests.declare.kinds import columns as any_column

D, DT, T, TD = datetime.date, datetime.datetime, datetime.time, datetime.timedelta
PARIS = zoneinfo.ZoneInfo("Europe/Paris")


def schema_of(column: Column, blank=()) -> Schema:
    return Schema(TableInfo(blank=blank), (column,))


def rows(source, column: Column) -> np.ndarray:
    table = open_table(source)
    return np.vstack([encode(block, schema_of(column)).values for block in table.blocks(["x"])])


def read_back(cells, column: Column, blank=()):
    """What a release of exactly these cells would hold, and the repairs."""
    schema = schema_of(column, blank)
    texts = cells if isinstance(cells, pl.Series) else [None if cell is None else str(cell) for cell in cells]
    found = encode(pl.DataFrame({"x": pl.Series(texts)}), schema)
    codes = column.cells.codes(found.values)
    codes = np.where(found.values.any(axis=1), codes, np.nan)
    return decode_cells(codes[:, None], schema)["x"].to_list(), found.repairs["x"]


# ---- what text is read as

DAYS = Column("x", "date", low=D(2019, 12, 1), high=D(2020, 12, 31))
GERMAN = Column("x", "date", low=D(2019, 12, 1), high=D(2020, 12, 31), format="%d.%m.%Y")
SWAPPED = Column("x", "date", low=D(2019, 12, 1), high=D(2020, 12, 31), format="%Y-%d-%m")
DIGITS = Column("x", "date", low=D(2019, 12, 1), high=D(2020, 12, 31), format="%Y%m%d")
ORDINAL_DAYS = Column("x", "date", low=D(2019, 12, 1), high=D(2020, 12, 31), format="%Y%j")
HOURS = Column("x", "datetime", low=DT(2020, 3, 1), high=DT(2020, 4, 1), step="hour")
IN_PARIS = Column("x", "datetime", low=DT(2020, 3, 1), high=DT(2020, 4, 1), step="hour", zone="Europe/Paris")
AUTUMN = Column("x", "datetime", low=DT(2020, 10, 24), high=DT(2020, 10, 27), step="minute", zone="Europe/Paris")
AMERICAN = Column("x", "datetime", low=DT(2020, 3, 1), high=DT(2020, 3, 9), step="minute", format="%m/%d/%Y %H:%M")
CLOCK = Column("x", "time", step="minute")
HHMM = Column("x", "time", step="minute", format="%H%M", type="int64")
SPANS = Column("x", "duration", low="-02:00:00", high="2d 00:00:00", step="minute")
SECONDS = Column("x", "duration", low="-02:00:00", high="06:00:00")
MINUTES = Column("x", "duration", low=0, high=7200, step="minute")

LOST, CLIPPED = "lost", "clipped"
READ = [
    (DAYS, "2020-02-29", D(2020, 2, 29)),
    (DAYS, " 2020-02-29 ", D(2020, 2, 29)),
    (DAYS, "2020-02-29T23:59:59.999", D(2020, 2, 29)),
    (DAYS, "2020-02-28T24:00", D(2020, 2, 29)),
    (DAYS, "2020-02-29 00:30:00+02:00", D(2020, 2, 29)),  # the day as it is written
    (DAYS, "2021-02-29", LOST),
    (DAYS, "0000-01-01", LOST),
    (DAYS, "29.02.2020", LOST),
    (DAYS, "20200229", LOST),
    (DAYS, "2020-2-29", LOST),
    (DAYS, "٢٠٢٠-٠٢-٢٩", LOST),
    (DAYS, "true", LOST),
    (DAYS, "2025-01-01", (D(2020, 12, 31), CLIPPED)),
    (DAYS, "1999-01-01", (D(2019, 12, 1), CLIPPED)),
    (GERMAN, "29.02.2020", D(2020, 2, 29)),
    (GERMAN, "2020-02-29", D(2020, 2, 29)),  # as a library writes a day of its own type
    (GERMAN, "2020-02-29 00:00:00", D(2020, 2, 29)),
    (SWAPPED, "2020-29-02", D(2020, 2, 29)),
    (SWAPPED, "2020-02-05", D(2020, 5, 2)),
    (SWAPPED, "2020-02-29", LOST),  # whose common form means another day
    (SWAPPED, "2020-02-29 00:00:00", D(2020, 2, 29)),
    (GERMAN, "29.02.20", LOST),
    (DIGITS, "20200229", D(2020, 2, 29)),
    (DIGITS, "20200229.0", D(2020, 2, 29)),
    (DIGITS, "2.0200229e7", D(2020, 2, 29)),
    (DIGITS, "20200230", LOST),
    (DIGITS, "-20200229", LOST),
    (ORDINAL_DAYS, "2020060", D(2020, 2, 29)),
    (HOURS, "2020-03-29T02:30:00", DT(2020, 3, 29, 2)),
    (HOURS, "2020-03-29 02:30", DT(2020, 3, 29, 2)),
    (HOURS, "2020-03-29", DT(2020, 3, 29)),
    (HOURS, "2020-03-29T02:30:00Z", DT(2020, 3, 29, 2)),
    (HOURS, "2020-03-29T02:30:00+02:00", DT(2020, 3, 29, 0)),
    (HOURS, "2020-03-29 02:30:00-05", DT(2020, 3, 29, 7)),
    (HOURS, "2020-03-29 02:30:00+0530", DT(2020, 3, 28, 21)),
    (HOURS, "2020-03-28T24:00:00", DT(2020, 3, 29)),
    (HOURS, "2020-03-29T24:00:01", LOST),
    (HOURS, "2020-03-29T02:60:00", LOST),
    (HOURS, "2020-03-29T02:59:60", LOST),
    (HOURS, "2020-04-01T00:59:59", DT(2020, 4, 1)),  # the last step is a whole one
    (HOURS, "2020-04-01T01:00:00", (DT(2020, 4, 1), CLIPPED)),
    (IN_PARIS, "2020-03-29T01:30:00Z", DT(2020, 3, 29, 3, tzinfo=PARIS)),
    (IN_PARIS, "2020-03-29T02:30:00", DT(2020, 3, 29, 3, tzinfo=PARIS)),  # a clock there never shows it
    (IN_PARIS, "2020-03-28T02:30:00", DT(2020, 3, 28, 2, tzinfo=PARIS)),
    (AUTUMN, "2020-10-25T00:30:00Z", DT(2020, 10, 25, 2, 30, tzinfo=PARIS)),
    (AUTUMN, "2020-10-25T01:30:00Z", DT(2020, 10, 25, 2, 30, tzinfo=PARIS)),  # shown twice: the first one
    (AMERICAN, "03/08/2020 14:05", DT(2020, 3, 8, 14, 5)),
    (AMERICAN, "2020-03-08 14:05:09+00:00", DT(2020, 3, 8, 14, 5)),
    (AMERICAN, "08/03/2020 14:05", (DT(2020, 3, 9), CLIPPED)),
    (AMERICAN, "13/03/2020 14:05", LOST),
    (CLOCK, "5:07", T(5, 7)),
    (CLOCK, "05:07:59.9", T(5, 7)),
    (CLOCK, "24:00", T(0)),
    (CLOCK, "24:01", LOST),
    (CLOCK, "12:60", LOST),
    (CLOCK, "2020-01-01 05:07:00", T(5, 7)),
    (CLOCK, "05:07:00+02:00", T(5, 7)),
    (CLOCK, "517", LOST),
    (HHMM, "517", T(5, 7 + 10)),
    (HHMM, "0517", T(5, 17)),
    (HHMM, "517.0", T(5, 17)),
    (HHMM, "5", T(0, 5)),
    (HHMM, "2400", T(0)),
    (HHMM, "1e3", T(10, 0)),
    (HHMM, "05:17:00", T(5, 17)),
    (HHMM, "2460", LOST),
    (HHMM, "517.5", LOST),
    (HHMM, "-517", LOST),
    (SPANS, "1d 04:00:00", TD(1, 4 * 3600)),
    (SPANS, "1 days 04:00:00", TD(1, 4 * 3600)),
    (SPANS, "1 day, 4:00:00", TD(1, 4 * 3600)),
    (SPANS, "P1DT4H", TD(1, 4 * 3600)),
    (SPANS, "PT28H0.000S", TD(1, 4 * 3600)),
    (SPANS, "28:00:00", TD(1, 4 * 3600)),
    (SPANS, "100800", TD(1, 4 * 3600)),
    (SPANS, "-1 days +23:00:00", TD(hours=-1)),
    (SPANS, "-1 day, 23:00:00", TD(hours=-1)),
    (SPANS, "-01:00:00", TD(hours=-1)),
    (SPANS, "-PT1H", TD(hours=-1)),
    (SECONDS, "-00:00:00.5", TD(seconds=-1)),  # in the step before it
    (SECONDS, "-0.5", TD(seconds=-1)),
    (SECONDS, "00:00:00.5", TD(0)),
    (SECONDS, "-1 days +23:59:59.500000", TD(seconds=-1)),
    (SPANS, "P", LOST),
    (SPANS, "-", LOST),
    (SPANS, "4 hours", LOST),
    (SPANS, "1d 4h", TD(1, 4 * 3600)),
    (SPANS, "-1h -30m", TD(minutes=-90)),
    (SECONDS, "-1s -500ms", TD(seconds=-2)),
    (SECONDS, "0µs", TD(0)),
    (SECONDS, "5m 61", LOST),
    (SPANS, "P1M", LOST),
    (SPANS, "9" * 400 + ":00:00", (TD(2), CLIPPED)),
    (SPANS, "-3 days", (TD(hours=-2), CLIPPED)),
    (MINUTES, "00:01:59", TD(minutes=1)),
]  # fmt: skip


@pytest.mark.parametrize(("column", "text", "wanted"), READ, ids=lambda value: str(getattr(value, "kind", value))[:40])
def test_text_is_read_for_itself(column, text, wanted):
    clipped = isinstance(wanted, tuple)
    value = None if wanted == LOST else wanted[0] if clipped else wanted
    for beside in ([], ["junk"], [None], ["2020-03-03"], ["10"], ["7"] * 3):
        found, repairs = read_back([text, *beside], column)
        alone = read_back([text], column)[1]
        assert found[0] == value
        assert alone.clipped == clipped and alone.missing + alone.unknown == (wanted == LOST)
        assert repairs.clipped >= clipped


def test_numbers_are_on_their_step_and_clipped():
    tenths = Column("x", "number", low=0, high=110, decimals=1)
    assert read_back([0.8, 0.84, 0.86, "33.3", -4, 1e9, None, "x"], tenths) == (
        [0.8, 0.8, 0.9, 33.3, 0.0, 110.0, None, None], Repairs(1, 1, 2),
    )  # fmt: skip
    fives = Column("x", "number", low=-10, high=10, step=5)
    assert read_back([-10, -7, 0, 3, 4.9, 10], fives)[0] == [-10, -5, 0, 5, 5, 10]
    tail = Column("x", "number", low=0, high=1e6, scale="log", integer=True)
    assert read_back([0, 1, 2, 40, 1e6, 2e6], tail)[0] == [0, 1, 2, 40, 10**6, 10**6]


def test_codes_and_flags_come_back_as_they_are_declared():
    codes = Column("x", "ordinal", values=(1, 2, 3, 8, 15))
    assert read_back(["1", "08", 15.0, "4", None], codes) == ([1, 8, 15, None, None], Repairs(1, 1, 0))
    words = Column("x", "ordinal", values=("low", "mid", "high"), missing="mid")
    assert read_back(["high", " low", "LOW", ""], words)[0] == ["high", "low", "mid", "mid"]
    yes = Column("x", "flag", values=("no", "yes"))
    assert read_back(["yes", "TRUE", "0", "maybe", None], yes)[0] == ["yes", "yes", "no", None, None]
    twos = Column("x", "flag", values=(1, 2))  # 1 says yes elsewhere, but not here
    assert read_back(["1", 2.0, "yes", "0"], twos)[0] == [1, 2, None, None]


BLANKS = [
    (Column("x", "number", low=-100, high=100, integer=True, blank=(-9, "N")), ["-9", "-9.0", "N", "n", 5, "?"],
     [None, None, None, None, 5, None]),
    (Column("x", "number", low=-100, high=100, integer=True, blank=(-9, "-9.0", -9.0)), [-9, 5], [None, 5]),
    (Column("x", "ordinal", values=(1, 2), blank=(9,)), ["9", 9, 1], [None, None, 1]),
    (Column("x", "category", values=("a", "?"), blank=("b", " b ")), ["b", "?", "a"], [None, "?", "a"]),
    (Column("x", "flag", blank=("N",)), ["N", "0", "y"], [None, False, True]),
    (Column("x", "date", low="2020-01-01", high="2020-12-31", blank=("9999-12-31",)), ["9999-12-31", "2020-01-02"],
     [None, D(2020, 1, 2)]),
    (Column("x", "duration", low=0, high=100, blank=(-1, 99)), ["-1", "99", "00:01:00"], [None, None, TD(minutes=1)]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "cells", "wanted"), BLANKS, ids=lambda value: str(getattr(value, "kind", ""))[:40])
def test_declared_words_and_numbers_for_nothing(column, cells, wanted):
    text = pl.Series([str(cell) for cell in cells])
    for dtype in (pl.String, pl.Categorical, pl.Enum(list(dict.fromkeys(text)))):
        assert read_back(text.cast(dtype), column)[0] == wanted
    plain = Column("x", column.kind, **{key: getattr(column, key) for key in ("low", "high", "values", "integer")})
    assert read_back(text, plain, column.blank)[0] == wanted  # said for the whole table instead
    imputed = {"number": 7.0, "ordinal": 2, "category": "a", "flag": True, "date": "2020-05-05", "duration": 5}
    fields = {key: getattr(column, key) for key in ("low", "high", "values", "blank", "integer")}
    filled, repairs = read_back(text, Column("x", column.kind, missing=imputed[column.kind], **fields))
    assert None not in filled and repairs.missing + repairs.unknown == wanted.count(None)


def test_numbers_for_nothing_are_nothing_in_native_columns_too():
    column = Column("x", "number", low=-100, high=100, blank=(-9,))
    for cells in (np.array([-9, 5, 0]), np.array([-9.0, 5, 0], dtype=np.float32)):
        assert rows(pd.DataFrame({"x": cells}), column)[0, 0] == rows(pl.DataFrame({"x": cells}), column)[0, 0] == 0
        assert encode(cells[:, None], schema_of(column)).values[0, 0] == 0


def test_a_declared_fallback_has_its_own_form_beside_a_format():
    column = Column("x", "date", low="2020-01-01", high="2020-12-31", format="%d.%m.%Y", missing="2020-07-01")
    assert read_back(["01.02.2020", "?", None], column)[0] == [D(2020, 2, 1), D(2020, 7, 1), D(2020, 7, 1)]


# ---- whichever library a cell comes from

CELLS = {
    "number": (Column("x", "number", low=-10, high=110, decimals=1), [0.5, 99.5, -10.0, 110.0, 33.25, 1e6]),
    "whole": (Column("x", "number", low=0, high=110, integer=True), [0, 55, 40, 110, 3000, -1]),
    "log": (Column("x", "number", low=0, high=1e6, scale="log"), [0.0, 1.5, 1e3, 1e6, 7.25]),
    "hhmm": (HHMM, [517, 1740, 0, 2400, 2359, 9999]),
    "ymd": (DIGITS, [20200229, 20191201, 20201231, 20200230]),
    "codes": (Column("x", "ordinal", values=(0, 25, 50)), [0, 25, 50, 26]),
    "flag": (Column("x", "flag"), [True, False, True]),
    "flag words": (Column("x", "flag", values=("no", "yes")), ["no", "yes", "No", "true"]),
    "category": (Column("x", "category", values=("b", "a", "c d")), ["a", "b", "c d", "e"]),
    "words": (Column("x", "ordinal", values=("low", "mid", "high"), type="categorical"), ["low", "high", "mid", "x"]),
    "date": (DAYS, [D(2020, 2, 29), D(2019, 12, 1), D(2020, 12, 31), D(1999, 1, 1)]),
    "date of a format": (GERMAN, [D(2020, 2, 29), D(2019, 12, 1), D(2020, 12, 31)]),
    "date of moments": (DAYS, [DT(2020, 2, 29, 23, 59, 59, 999999), DT(2020, 1, 2), DT(1969, 1, 1, 0, 0, 0, 1)]),
    "date of zoned moments": (DAYS, [DT(2020, 2, 29, 0, 30, tzinfo=PARIS), DT(2020, 7, 1, 23, 30, tzinfo=PARIS)]),
    "datetime": (HOURS, [DT(2020, 3, 29, 2, 30), DT(2020, 3, 1), DT(2020, 3, 5, 11, 59, 59, 999999)]),
    "datetime of days": (HOURS, [D(2020, 3, 29), D(2020, 3, 1), D(2021, 3, 1)]),
    "datetime of a format": (AMERICAN, [DT(2020, 3, 8, 14, 5), DT(2020, 3, 1), DT(2020, 3, 5, 11, 59, 59)]),
    "zoned in UTC": (HOURS, [DT(2020, 3, 29, 3, 30, tzinfo=PARIS), DT(2020, 3, 2, tzinfo=PARIS)]),
    "zoned in Paris": (IN_PARIS, [DT(2020, 3, 29, 3, 30, tzinfo=PARIS), DT(2020, 3, 2, tzinfo=PARIS)]),
    "time": (CLOCK, [T(5, 7), T(0), T(23, 59, 59, 999999)]),
    "time of moments": (CLOCK, [DT(2020, 3, 29, 2, 30), DT(2020, 3, 1), DT(1969, 3, 5, 11, 59, 59, 5)]),
    "time of days": (CLOCK, [D(2020, 3, 29), D(2020, 3, 1)]),
    "hhmm of times": (HHMM, [T(5, 17), T(0), T(23, 59)]),
    "duration": (SECONDS, [TD(1, 4 * 3600), TD(hours=-1), TD(seconds=-0.5), TD(microseconds=500), TD(0), TD(9)]),
    "duration of numbers": (SECONDS, [0, 3600, -0.5, 100.75, 1e9]),
    "duration of times": (SECONDS, [T(5, 17), T(0), T(23, 59, 59, 5)]),
    "category of moments": (Column("x", "category", values=("2020-02-29", "2020-01-02 10:00:00")),
                            [DT(2020, 2, 29), DT(2020, 1, 2, 10), DT(2020, 1, 2)]),
}  # fmt: skip


def from_polars(cells, _):
    return pl.DataFrame({"x": pl.Series(cells, strict=False)})


def from_polars_categories(cells, _):
    if not all(isinstance(cell, str | None) for cell in cells):
        return None
    return pl.DataFrame({"x": pl.Series(cells, dtype=pl.Categorical)})


def from_pyarrow(cells, _):
    return pa.table({"x": pa.array(cells)})


def from_pandas(cells, _):
    return pd.DataFrame({"x": cells})


def from_pandas_objects(cells, _):
    return pd.DataFrame({"x": pd.Series(cells, dtype=object)})


def from_pandas_nullable(cells, _):
    return pd.DataFrame({"x": cells}).convert_dtypes()


def from_pandas_arrow(cells, _):
    return pd.DataFrame({"x": pd.array(pa.array(cells), dtype=pd.ArrowDtype(pa.array(cells).type))})


def from_pandas_categories(cells, _):
    return pd.DataFrame({"x": pd.Categorical(cells)})


def from_pandas_moments(cells, unit):
    if not all(type(cell) is DT or cell is None for cell in cells):
        return None
    return pd.DataFrame({"x": pd.to_datetime(pd.Series(cells)).dt.as_unit("ns")})


def from_pandas_spans(cells, _):
    if not all(isinstance(cell, TD | None) for cell in cells):
        return None
    return pd.DataFrame({"x": pd.to_timedelta(pd.Series(cells)).dt.as_unit("ns")})


def from_parquet(cells, folder):
    pq.write_table(pa.table({"x": pa.array(cells)}), folder / "t.parquet")
    return folder / "t.parquet"


def from_pandas_parquet(cells, folder):
    if any(isinstance(cell, TD | DT) for cell in cells):
        return None  # pandas itself writes other cells
    from_pandas_categories(cells, None).to_parquet(folder / "p.parquet")
    return folder / "p.parquet"


def from_arrow_file(cells, folder):
    from_polars(cells, None).write_ipc(folder / "t.arrow")
    return folder / "t.arrow"


def from_csv(cells, folder):
    """As Python writes them."""
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x", "y"], *([cell, 1] for cell in cells)])
    return folder / "t.csv"


def from_pandas_csv(cells, folder):
    pd.DataFrame({"x": cells}).assign(y=1).to_csv(folder / "p.csv", index=False)
    return folder / "p.csv"


LIBRARIES = [
    from_polars, from_polars_categories, from_pyarrow, from_pandas, from_pandas_objects, from_pandas_nullable,
    from_pandas_arrow, from_pandas_categories, from_pandas_moments, from_pandas_spans, from_parquet,
    from_pandas_parquet, from_arrow_file, from_csv, from_pandas_csv,
]  # fmt: skip


def table_of(library, cells, folder):
    """The table; None where the library itself does not hold these cells."""
    try:
        return library(cells, folder)
    except (TypeError, ValueError, NotImplementedError, pa.ArrowException, pl.exceptions.PolarsError):
        return None


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("case", CELLS)
def test_a_cell_is_the_same_from_every_library_and_beside_any_other(case, library, tmp_path):
    """Each by itself, all together, with an empty one, with a word: polars' reading of one cell is the measure."""
    column, cells = CELLS[case]
    measure = [rows(pl.DataFrame({"x": [cell]}), column)[0].tolist() for cell in cells]
    tried = 0
    for beside in ([], [None], ["word"], [cells[0]] * 3):
        table = table_of(library, [*cells, *beside], tmp_path)
        if table is None:
            continue
        found = rows(table, column)
        assert found[: len(cells)].tolist() == measure, beside
        assert not any(cell == "word" and row.any() for cell, row in zip([*cells, *beside], found, strict=True))
        tried += 1
    for cell, wanted in zip(cells, measure, strict=True):
        table = table_of(library, [cell], tmp_path)
        assert table is None or rows(table, column)[0].tolist() == wanted
    if not tried:
        pytest.skip("the library has no column of such cells")


def test_decimals_and_categories_of_numbers_are_numbers(tmp_path):
    column, cells = CELLS["number"]
    exact = [decimal.Decimal(str(cell)) for cell in cells]
    measure = rows(pl.DataFrame({"x": cells}), column)
    coded = pa.table({"x": pa.array(cells).dictionary_encode()})
    for table in (pa.table({"x": exact}), pl.DataFrame({"x": exact}), pd.DataFrame({"x": exact}), coded):
        assert (rows(table, column) == measure).all()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_unit_of_native_time_is_read(unit):
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    spans = pa.array([3600 * ticks, -3600 * ticks, None], pa.duration(unit))
    assert open_table(pa.table({"x": spans})).types == {"x": "time"}
    wanted = rows(pl.DataFrame({"x": ["01:00:00", "-01:00:00", None]}), SPANS).tolist()
    assert rows(pa.table({"x": spans}), SPANS).tolist() == wanted
    assert rows(pd.DataFrame({"x": spans.to_pandas()}), SPANS).tolist() == wanted
    moment = int((DT(2020, 3, 29, 2) - DT(1970, 1, 1)).total_seconds())
    for zone, column in ((None, HOURS), ("UTC", HOURS), ("Europe/Paris", IN_PARIS)):
        cells = pa.array([moment * ticks], pa.timestamp(unit, zone))
        text = "2020-03-29T02:00:00" + ("Z" if zone else "")
        assert rows(pa.table({"x": cells}), column).tolist() == rows(pl.DataFrame({"x": [text]}), column).tolist()


def test_days_of_64_bits_are_read():
    table = pa.table({"x": pa.array([D(2020, 2, 29), None], pa.date64())})
    assert rows(table, DAYS).tolist() == rows(pl.DataFrame({"x": ["2020-02-29", None]}), DAYS).tolist()


def test_the_last_microsecond_of_a_far_second_belongs_to_it():
    column = Column("x", "datetime", low=DT(9999, 1, 1), high=DT(9999, 1, 1, 0, 1))
    cells = pl.Series([DT(9999, 1, 1, 0, 0, 9, 999999)])
    assert read_back(cells, column)[0] == [DT(9999, 1, 1, 0, 0, 9)]


def test_a_day_that_a_country_left_out_is_not_an_empty_cell():
    column = Column("x", "datetime", low=DT(2011, 12, 29), high=DT(2012, 1, 2), step="hour", zone="Pacific/Apia")
    assert column.cells.write(np.linspace(-HALF, HALF, 97)).null_count() == 0


# ---- writing undoes reading, and 0 is an empty cell


@settings(max_examples=150, deadline=None)
@given(any_column("x"), st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_what_is_written_reads_as_itself(column, places):
    """Every level of every kind, in its own type and in the type it is released in."""
    cells = column.cells
    if cells.block == "category":
        codes = np.array(places, dtype=np.float64) % cells.width
    elif cells.block == "flag":
        codes = np.where(np.array(places) % 2, HALF, -HALF).astype(np.float64)
    elif cells.levels is not None:
        codes = np.array(places) % cells.levels * (2 * HALF / (cells.levels - 1)) - HALF
    else:
        codes = np.linspace(-HALF, HALF, len(places))
    written = cells.write(np.append(codes, np.nan))
    read = cells.read(written)
    assert not read.lost[:-1].any() and read.lost[-1] and read.clipped == 0
    assert (read.values[-1] == 0).all() and read.values[:-1].any(axis=1).all()
    if cells.levels is not None or cells.block != "number":
        assert cells.write(np.append(cells.codes(read.values)[:-1], np.nan)).to_list() == written.to_list()
    stored = cells.store(written)
    if column.type != "float32":
        assert (cells.read(stored).values == read.values).all()
        assert (
            cells.read(pl.Series([None if c is None else str(c) for c in stored.to_list()])).values == read.values
        ).all()


GARBAGE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(
    ["24:00", "2400", "-1 days +25:00:00", "P1D", "2020-02-30", "1e999", "-1e999", "nan", "?", "٣", "9" * 400,
     "12:00:00+99:99", "9999-12-31T23:59:59+99:99", "0001-01-01T00:00:00+23:59", "2020-01-01T00:00:00+00:00:59"]
) | st.dates() | st.datetimes() | st.times() | st.timedeltas()  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(any_column("x"), st.lists(GARBAGE, min_size=1, max_size=6))
def test_any_cell_is_whole_inside_its_bounds_and_0_only_when_it_is_empty(column, cells):
    schema = schema_of(column)
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    table = open_table(frame)
    values = np.vstack([encode(block, schema).values for block in table.blocks(["x"])])
    block = schema.space().blocks[0]
    assert (values == np.rint(values)).all()
    assert block.kind == "category" or (np.abs(values) <= HALF).all()
    if block.kind == "category":
        assert np.isin(values, [0, CATEGORY_STEPS]).all() and (np.count_nonzero(values, axis=1) <= 1).all()
    text = next(table.batches(["x"]))["x"]
    for i in range(len(cells)):
        alone = encode(pl.DataFrame({"x": text[i : i + 1]}), schema)
        assert (alone.values[0] == values[i]).all()
        lost = alone.repairs["x"].missing + alone.repairs["x"].unknown
        assert values[i].any() == (not lost or column.missing is not None)
