"""What comes back is the kind of table that went in: types, values and steps, for every library and kind of cell."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adumbra as ad
from adumbra.common.csv_forms import FORMULA_SAFE
from adumbra.declare.schema import Schema
from adumbra.pipeline import OwnerNotes
from adumbra.releases.folder import ReleaseFolder
from adumbra.tables.encode import encode
from adumbra.tables.read import open_table
from adumbra.tables.released_rows import as_released, check_ids

D, DT, T, TD = datetime.date, datetime.datetime, datetime.time, datetime.timedelta
ROWS = 120
PARIS = "Europe/Paris"

NAIVE = pl.Datetime("us")
ZONED = pl.Datetime("us", PARIS)
SPAN = pl.Duration("us")
WORDS = ["low", "mid", "high"]

# name: what is declared; cells to draw from (native); type in polars, in pandas, in Arrow
TYPES = {
    "ordered": ({"kind": "ordinal", "values": WORDS, "type": "categorical"}, WORDS,
                pl.Enum(WORDS), pd.CategoricalDtype(WORDS, ordered=True), "dictionary"),
    "coded": ({"kind": "category", "values": ["z", "a b", "é"], "type": "categorical"}, ["z", "é"],
              pl.Enum(["z", "a b", "é"]), pd.CategoricalDtype(["z", "a b", "é"], ordered=False), "dictionary"),
    "word": ({"kind": "category", "values": ["z", "a"]}, ["z", "a"], pl.String, "str", pa.large_string()),
    "int8": ({"kind": "number", "low": -9, "high": 99, "integer": True, "type": "int8"}, [-9, 5, 99, None],
             pl.Int8, "Int8", pa.int8()),
    "int16": ({"kind": "number", "low": 0, "high": 999, "integer": True, "type": "int16", "missing": 7}, [0, 500, None],
              pl.Int16, "int16", pa.int16()),
    "int32": ({"kind": "number", "low": 0, "high": 50, "integer": True, "type": "int32"}, [0, 40, 50],
              pl.Int32, "Int32", pa.int32()),
    "int64": ({"kind": "number", "low": 0, "high": 110, "integer": True}, [0, 40, None], pl.Int64, "Int64", pa.int64()),
    "uint8": ({"kind": "number", "low": 0, "high": 255, "integer": True, "type": "uint8"}, [0, 255],
              pl.UInt8, "UInt8", pa.uint8()),
    "fives": ({"kind": "number", "low": -10, "high": 10, "step": 5}, [-10, 0, 5], pl.Int64, "Int64", pa.int64()),
    "float32": ({"kind": "number", "low": 0, "high": 1, "type": "float32"}, [0.0, 0.25, None],
                pl.Float32, "float32", pa.float32()),
    "float64": ({"kind": "number", "low": -1, "high": 1}, [-1.0, 0.1, None], pl.Float64, "float64", pa.float64()),
    "tenths": ({"kind": "number", "low": 0, "high": 110, "decimals": 1}, [0.8, 33.3, 110.0],
               pl.Float64, "float64", pa.float64()),
    "log": ({"kind": "number", "low": 0, "high": 100_000, "scale": "log", "integer": True}, [0, 40, 99_999],
            pl.Int64, "Int64", pa.int64()),
    "bool": ({"kind": "flag"}, [True, False, None], pl.Boolean, "boolean", pa.bool_()),
    "never empty": ({"kind": "flag", "missing": False}, [True, None], pl.Boolean, "bool", pa.bool_()),
    "yes no": ({"kind": "flag", "values": ["no", "yes"]}, ["no", "yes"], pl.String, "str", pa.large_string()),
    "0 1": ({"kind": "flag", "values": [0, 1], "type": "int8"}, [0, 1, None], pl.Int8, "Int8", pa.int8()),
    "codes": ({"kind": "number", "values": [1, 2, 8, 15]}, [1, 8, 15, None], pl.Int64, "Int64", pa.int64()),
    "date": ({"kind": "date", "low": "2019-12-01", "high": "2020-12-31"}, [D(2020, 2, 29), D(2019, 12, 1), None],
             pl.Date, "datetime64[us]", pa.date32()),
    "german": ({"kind": "date", "low": "2019-12-01", "high": "2020-12-31", "format": "%d.%m.%Y"},
               ["29.02.2020", "01.12.2019"], pl.String, "str", pa.large_string()),
    "moment": ({"kind": "datetime", "low": "2020-03-01", "high": "2020-04-01", "step": "hour"},
               [DT(2020, 3, 29, 2), DT(2020, 3, 1), None], NAIVE, "datetime64[us]", pa.timestamp("us")),
    "zoned": ({"kind": "datetime", "low": "2020-03-01", "high": "2020-04-01", "step": "hour", "zone": PARIS},
              [DT(2020, 3, 29, 5), DT(2020, 3, 1)], ZONED, f"datetime64[us, {PARIS}]", pa.timestamp("us", PARIS)),
    "time": ({"kind": "time", "step": "minute"}, [T(5, 7), T(23, 59), None], pl.Time, "object", pa.time64("ns")),
    "hhmm": ({"kind": "time", "step": "minute", "format": "%H%M", "type": "int64"}, [517, 2359, None],
             pl.Int64, "Int64", pa.int64()),
    "duration": ({"kind": "duration", "low": "-02:00:00", "high": "2d 00:00:00", "step": "minute"},
                 [TD(1), TD(hours=-1), None], SPAN, "timedelta64[us]", pa.duration("us")),
}  # fmt: skip
IDS = {"id": {"role": "id", "pattern": "P-@##"}, "number": {"role": "id"}}
SCHEMA = Schema.from_dict({"columns": IDS | {name: declared[0] for name, declared in TYPES.items()}})


def table() -> pl.DataFrame:
    generator = np.random.default_rng(3)
    columns = {"id": pl.Series(["private"] * ROWS), "number": pl.Series([7] * ROWS)}
    for name, (_, cells, *_) in TYPES.items():
        columns[name] = pl.Series([cells[i] for i in generator.integers(0, len(cells), ROWS)])
    frame = pl.DataFrame(columns)
    return frame.with_columns(frame["zoned"].dt.replace_time_zone(PARIS))


def as_pandas(frame, _):
    """As a user of pandas has it: numpy's types, objects and categories among them."""
    found = frame.to_pandas()
    found["ordered"] = pd.Categorical(found["ordered"], categories=WORDS, ordered=True)
    found["int64"] = found["int64"].astype("Int64")
    return found


def as_csv(frame, folder):
    frame.with_columns(frame["duration"].dt.total_seconds()).write_csv(folder / "t.csv")
    return folder / "t.csv"


def as_parquet(frame, folder):
    frame.write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


SOURCES = {
    "polars": lambda frame, _: frame,
    "pandas": as_pandas,
    "pyarrow": lambda frame, _: frame.to_arrow(),
    "csv": as_csv,
    "parquet": as_parquet,
}


def released(source, folder, **terms):
    given = SOURCES[source](table(), folder)
    return ad.release(given, SCHEMA, "tables", 40.0, options={"rows": 200}, **terms)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return released("polars", tmp_path_factory.mktemp("one"))


def polars_types() -> dict[str, pl.DataType]:
    return {"id": pl.String, "number": pl.Int64} | {name: found[2] for name, found in TYPES.items()}


@pytest.mark.parametrize("source", SOURCES)
def test_a_release_has_the_types_of_its_schema(source, tmp_path):
    """In the frame that comes back, in memory and in the folder, whichever library the table is from."""
    notes = OwnerNotes()
    kept = released(source, tmp_path, notes=notes)
    for name, found in notes.repairs.items():  # every cell of every source was read
        assert (found.missing, found.unknown, found.clipped) == (table()[name].null_count(), 0, 0), name
    assert dict(kept.record.table().schema) == polars_types()
    if source == "pandas":
        frame = kept.table
        text = "str" if pd.__version__ >= "3" else "object"
        for name, (*_, wanted, _) in TYPES.items():
            assert frame[name].dtype == (text if wanted == "str" else wanted), name
        assert frame["id"].dtype == text and frame["number"].dtype == "int64"
        assert list(frame["ordered"].cat.categories) == WORDS
    elif source == "pyarrow":
        for name, (*_, wanted) in TYPES.items():
            kind = kept.table.schema.field(name).type
            assert pa.types.is_dictionary(kind) if wanted == "dictionary" else kind == wanted, name
    else:
        assert dict(kept.table.schema) == polars_types()
    inside(kept.record.table())


def inside(frame: pl.DataFrame) -> None:
    """Every cell is one that the schema can mean: it is read without a repair, on its step, and written the same."""
    measured = [column.name for column in SCHEMA.measured]
    encoded = encode(frame[measured], SCHEMA)
    assert frame.height == 200 and (frame["id"].n_unique(), frame["number"].to_list()) == (200, list(range(1, 201)))
    assert frame["id"].str.contains(r"^P-[A-Z]\d\d$").all() and frame["id"][0] == "P-A00"
    start = 0
    for column in SCHEMA.measured:
        cells, part = frame[column.name], encoded.values[:, start : start + column.width]
        start += column.width
        found = encoded.repairs[column.name]
        assert (found.unknown, found.clipped) == (0, 0), column.name
        assert found.missing == cells.null_count() and (found.missing == 0 or column.missing is None), column.name
        codes = np.where(part.any(axis=1), column.cells.codes(part), np.nan)
        if column.cells.levels is not None or column.cells.block != "number":
            assert column.cells.store(column.cells.write(codes)).to_list() == cells.to_list(), column.name


def test_memory_and_folder_agree(one, tmp_path):
    before = one.record.table()
    csv = released("polars", tmp_path, csv=True)
    held = csv.record.table()
    csv.save(tmp_path / "kept")
    opened = ReleaseFolder.open(tmp_path / "kept").table()
    assert opened.equals(held, null_equal=True) and dict(opened.schema) == dict(held.schema) == dict(before.schema)
    arrow = pq.read_table(tmp_path / "kept" / "data.parquet")
    for name, (*_, wanted) in TYPES.items():
        kind = arrow.schema.field(name).type
        assert pa.types.is_dictionary(kind) if wanted == "dictionary" else kind == wanted, name
    assert arrow["coded"].chunk(0).dictionary.to_pylist() == ["z", "a b", "é"]
    again = open_table(tmp_path / "kept" / "data.csv")
    measured = [column.name for column in SCHEMA.measured]
    text = pl.concat(again.batches(measured))
    assert (encode(text, SCHEMA).values == encode(held[measured], SCHEMA).values).all()
    lines = (tmp_path / "kept" / "data.csv").read_text().splitlines()
    assert lines[0].split(",")[:4] == ["id", "number", "ordered", "coded"]
    assert "e+" not in "".join(lines[1:]) and ".000000" not in "".join(lines)


def test_a_safe_csv_reads_as_the_same_times(tmp_path):
    schema = {"columns": {"span": {"kind": "duration", "low": "-PT1H", "high": "PT1H", "step": "minute"}}}
    frame = pl.DataFrame({"span": [TD(minutes=-5), TD(minutes=5), None] * 20})
    kept = ad.release(frame, schema, "tables", 40.0, options={"rows": 50}, csv=FORMULA_SAFE, out=tmp_path / "out")
    text = (tmp_path / "out" / "data.csv").read_text()
    assert "\"'-PT" in text and '"PT' in text and kept.table["span"].dtype == SPAN


def test_types_follow_the_schema_and_not_the_cells():
    """Tables of other cells, none of them empty or all of them, come back in the same types."""
    empty = table().with_columns(pl.lit(None).cast(kind).alias(name) for name, kind in table().schema.items())
    full = table().fill_null(strategy="forward").fill_null(strategy="backward")
    kinds = []
    for frame in (empty, full, full.head(1)):
        kept = ad.release(frame.to_pandas(), SCHEMA, "tables", 40.0, options={"rows": 40})
        kinds.append((dict(kept.record.table().schema), kept.table.dtypes.to_dict()))
    assert kinds[0] == kinds[1] == kinds[2]


def test_ids_are_fresh_and_never_come_twice():
    schema = Schema.from_dict({"columns": {"id": {"role": "id", "pattern": "@-#"}, "ill": {"kind": "flag"}}})
    check_ids(schema, 260)
    with pytest.raises(ad.InputError, match=r"'id': a pattern for 261 ids.*has 260.*more #"):
        check_ids(schema, 261)
    ids = as_released(pl.DataFrame({"ill": [True] * 600}), schema)["id"]
    assert ids[:2].to_list() == ["A-0", "A-1"] and ids[259:262].to_list() == ["Z-9", "1A-0", "1A-1"]
    assert ids.n_unique() == 600
    later = as_released(pl.DataFrame({"ill": [True] * 100}), schema, 500)["id"]
    assert later.to_list() == ids[500:].to_list()
    assert as_released(pl.DataFrame({"ill": pl.Series([], dtype=pl.Boolean)}), schema)["id"].dtype == pl.String


def test_ids_that_run_out_are_refused_before_anything_is_charged(tmp_path):
    schema = {"columns": {"id": {"role": "id", "pattern": "P-#"}, "ill": {"kind": "flag"}}}
    frame = pl.DataFrame({"id": ["a"] * 50, "ill": [True] * 50})
    ledger = ad.Ledger(tmp_path / "ledger.jsonl")
    for relation in ("replace", "add-remove"):
        with pytest.raises(ad.InputError, match="a pattern for 11 ids"):
            ad.release(frame, schema, "tables", 1.0, relation=relation, options={"rows": 11}, ledger=ledger, name="t")
    assert not (tmp_path / "ledger.jsonl").exists() or not ledger.entries("t")
    ad.release(frame, schema, "dppro", 1.0, options={"dimension": 1})  # which releases no ids


def test_nothing_of_an_id_or_a_dropped_column_is_read():
    """Whatever they hold, and though a dropped one is not there at all."""
    schema = {"columns": {"id": {"role": "id"}, "note": {"role": "drop"}, "ill": {"kind": "flag"}}}
    odd = pl.DataFrame({"id": [[1], [2]], "note": [{"a": 1}, None], "ill": [True, False]})
    for frame in (odd, odd.drop("note"), odd.drop("note", "id")):
        kept = ad.release(frame, schema, "tables", 40.0, options={"rows": 10})
        assert kept.table.columns == ["id", "ill"] and kept.table["id"].to_list() == list(range(1, 11))
