"""The one reader of encoded rows: partitions, notes, what is kept, what can be pickled."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.declare.space import GRID
from adumbra.tables import row_source
from adumbra.tables.encode import Repairs
from adumbra.tables.read import open_table
from adumbra.tables.row_source import RowSource, clipped_rows, encoded_rows, partition_rows

SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "x": {"kind": "number", "low": -1, "high": 1},
            "y": {"kind": "number", "low": -1, "high": 1},
            "ward": {"kind": "category", "values": ["a", "b"]},
        }
    }
)
RNG = np.random.default_rng(3)
FRAME = pl.DataFrame(
    {"x": RNG.uniform(-1.2, 1.2, 100), "y": RNG.uniform(-1, 1, 100), "ward": RNG.choice(["a", "b", "c"], 100).tolist()}
)
BOUND = GRID // 2


@pytest.fixture
def small_partitions(monkeypatch):
    monkeypatch.setattr(row_source, "partition_rows", lambda width: 16)


def test_partitions_are_of_one_size_whatever_the_file_looks_like(small_partitions, tmp_path):
    FRAME.write_parquet(tmp_path / "t.parquet", row_group_size=7)
    FRAME.write_csv(tmp_path / "t.csv")
    whole = RowSource.open(FRAME, SCHEMA).whole()
    for given in (FRAME, tmp_path / "t.parquet", tmp_path / "t.csv"):
        parts = list(RowSource.open(given, SCHEMA).partitions())
        assert [len(part) for part in parts] == [16] * 6 + [4]
        assert np.array_equal(np.concatenate(parts), whole)


def test_rows_are_clipped_to_the_bound_and_the_owner_is_told(small_partitions):
    source = RowSource(SCHEMA, open_table(FRAME), BOUND)
    rows = source.whole()
    assert (np.square(rows).sum(axis=1) <= BOUND**2).all()
    assert np.array_equal(rows, encoded_rows(FRAME, SCHEMA, BOUND))
    free = encoded_rows(FRAME, SCHEMA)
    assert np.array_equal(clipped_rows(free, BOUND), rows) and clipped_rows(free, None) is free
    assert source.notes.clipped_rows == int((np.square(free).sum(axis=1) > BOUND**2).sum()) > 0
    outside = int((FRAME["x"].abs() > 1).sum())
    unknown = int((FRAME["ward"] == "c").sum())
    assert source.notes.repairs == {
        "x": Repairs(clipped=outside),
        "y": Repairs(),
        "ward": Repairs(unknown=unknown),
    }
    _ = source.whole()
    assert source.notes.repairs["x"].clipped == outside  # each reading finds the same, and does not add up


def test_a_reading_that_was_broken_off_tells_nothing(small_partitions):
    source = RowSource(SCHEMA, open_table(FRAME), BOUND, keep=True)
    next(source.partitions())
    assert source.notes.repairs == {} and source._kept is None


@pytest.mark.parametrize(("keep", "room", "readings"), [(True, 2**28, 1), (True, 4 * 4 * 99, 2), (False, 2**28, 2)])
def test_a_small_table_is_read_once(keep, room, readings, small_partitions, monkeypatch):
    monkeypatch.setattr(row_source, "KEPT_BYTES", room)
    table, read = open_table(FRAME), []
    blocks = type(table).blocks
    monkeypatch.setattr(type(table), "blocks", lambda self, *given: read.append(given) or blocks(self, *given))
    source = RowSource(SCHEMA, table, BOUND, keep=keep)
    first, second = source.whole(), source.whole()
    assert np.array_equal(first, second) and second.dtype == np.float64 and len(read) == readings


@pytest.mark.parametrize("given", ["frame", "array", "file"])
def test_single_rows_are_those_of_the_whole(given, small_partitions, tmp_path):
    FRAME.write_csv(tmp_path / "t.csv")
    numbers = FRAME.select("x", "y")
    schema = (
        SCHEMA
        if given != "array"
        else ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": -1, "high": 1} for n in "xy"}})
    )
    source = RowSource.open({"frame": FRAME, "array": numbers.to_numpy(), "file": tmp_path / "t.csv"}[given], schema)
    places = np.array([99, 3, 3, 40, 0])
    assert np.array_equal(source.rows_at(places), source.whole()[places])
    assert source.rows_at(np.empty(0, dtype=np.int64)).shape == (0, schema.space().width)


def test_a_source_of_a_file_travels_as_the_way_to_it(small_partitions, tmp_path):
    FRAME.write_parquet(tmp_path / "part-1.parquet")
    FRAME.write_csv(tmp_path / "t.txt", separator=";")
    for given, delimiter in ((tmp_path / "part-*.parquet", None), (tmp_path / "t.txt", ";")):
        source = RowSource(SCHEMA, open_table(given, delimiter=delimiter), BOUND, keep=True)
        rows = source.whole()
        written = pickle.dumps(source)
        assert len(written) < 3000
        again = pickle.loads(written)  # noqa: S301 - made here
        assert np.array_equal(again.whole(), rows) and again.notes == source.notes and again.keep


def test_rows_in_memory_do_not_travel(tmp_path):
    for given in (FRAME, FRAME.to_pandas(), FRAME.to_arrow()):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            pickle.dumps(RowSource.open(given, SCHEMA))
    FRAME.write_csv(tmp_path / "t.csv")
    with pytest.raises(TypeError, match="private table"):
        pickle.dumps(open_table(tmp_path / "t.csv"))
    job = ad.plan(tmp_path / "t.csv", SCHEMA, ad.DPPro(dimension=1), ad.Budget(1.0, 1e-6)).job
    with pytest.raises(TypeError, match="private table"):
        pickle.dumps(job)
    assert str(len(FRAME)) not in repr(RowSource.open(FRAME, SCHEMA))


def test_other_columns_are_refused():
    with pytest.raises(ad.InputError, match="every released column"):
        RowSource.open(FRAME.drop("ward"), SCHEMA)


def test_a_partition_is_a_few_megabytes():
    for width in (0, 1, 30, 1000, 20_000, 10**7):
        assert 1 <= partition_rows(width) <= 8192 and partition_rows(width) * width * 8 <= max(2**26, width * 8)
