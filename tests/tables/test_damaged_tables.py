"""Tables that are damaged, hostile or odd: found while the rows are counted, before anything is charged."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
import warnings
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adumbra.common.array_files import load_array, load_arrays
from adumbra.common.errors import InputError
from adumbra.releases.folder import ReleaseFolder
from adumbra.tables import text
from adumbra.tables.read import open_table

SECRET = "SECRETCELL"


def buffers(kind: pa.DataType, length: int, *parts: bytes, words: list[str] | None = None) -> pa.Array:
    """An array of raw parts, which nobody checks."""
    cells = [None, *(pa.py_buffer(part) for part in parts)]
    if words is None:
        return pa.Array.from_buffers(kind, length, cells)
    return pa.DictionaryArray.from_arrays(pa.Array.from_buffers(kind.index_type, length, cells), words, safe=False)


def whole(*numbers: int, width: int = 4) -> bytes:
    return b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)


# The first two are harmless to whoever does not check: they are read as something else.
DAMAGED = {
    "bytes that are no text": buffers(pa.string(), 2, whole(0, 10, 12), SECRET.encode() + b"\xff\xfe"),
    "a number of too many digits": buffers(pa.decimal128(3, 0), 2, whole(10**9, 1, width=16)),
    "text outside its cells": buffers(pa.string(), 2, whole(0, 2**20, 10), SECRET.encode()),
    "text that ends before it begins": buffers(pa.string(), 2, whole(0, 9, 3), SECRET.encode()),
    "large text outside its cells": buffers(pa.large_string(), 2, whole(0, 2**40, 10, width=8), SECRET.encode()),
    "a code without a word": buffers(pa.dictionary(pa.int32(), pa.string()), 2, whole(0, 7), words=[SECRET]),
    "a code below the words": buffers(pa.dictionary(pa.int32(), pa.string()), 2, whole(0, -7), words=[SECRET]),
}


def as_file(tmp_path, table: pa.Table, how: str):
    """The table as one of its sources."""
    if how == "memory":
        return table
    if how == "pandas":
        return pd.DataFrame({name: pd.Series(table[name], dtype=pd.ArrowDtype(table[name].type)) for name in "ab"})
    path = tmp_path / "t.arrow"
    with (pa.ipc.new_file if how == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("how", ["file", "stream", "memory", "pandas"])
def test_damage_is_found_by_the_count(how, damage, tmp_path):
    table = pa.table({"a": DAMAGED[damage], "b": pa.array([1, 2])})
    opened = open_table(as_file(tmp_path, table, how))
    with pytest.raises(InputError, match="damaged") as error:
        opened.count()
    assert SECRET not in str(error.value)
    with pytest.raises(InputError, match="damaged"):
        opened.batches(["b"])


@pytest.mark.parametrize("damage", ["bytes that are no text", "a code without a word"])
def test_a_damaged_table_costs_nothing(cli, home, damage):
    path = as_file(home.path, pa.table({"a": DAMAGED[damage], "b": pa.array([1, 2])}), "file")
    home.write("s.toml", '[columns.a]\nkind = "category"\nvalues = ["x"]\n[columns.b]\nrole = "drop"\n')
    words = ("--mechanism", "laplace", "--epsilon", 1, "--ledger", home.ledger, "--out", home.path / "out")
    found = cli("release", path, "--schema", home.schema, *words)
    assert (found.code, home.charges(), (home.path / "out").exists()) == (2, 0, False)
    assert "damaged" in found.err
    assert SECRET not in found.err + found.out


@pytest.mark.parametrize("how", ["file", "stream", "memory"])
def test_a_table_that_changes_after_the_count_is_refused_and_harms_nobody(tmp_path, how):
    good = pa.table({"a": pa.array(["x" * 10, "yz"]), "b": pa.array([1, 2])})
    source = as_file(tmp_path, good, how)
    table = open_table(source)
    assert table.count() == 2
    bad = pa.table({"a": DAMAGED["text outside its cells"], "b": pa.array([1, 2])})
    if how == "memory":
        table._frame = bad
    else:
        as_file(tmp_path, bad, how)
    with pytest.raises(InputError, match="changed while it was read"):
        list(table.batches(["a"]))


def test_parquet_text_that_is_no_text(tmp_path):
    cells = pa.array([SECRET.encode() + b"\xff", b"x"]).view(pa.string())  # which does not look at them
    pq.write_table(pa.table({"a": cells}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="damaged") as error:
        open_table(tmp_path / "t.parquet").count()
    assert SECRET not in str(error.value)


# ---- columns without plain cells


def odd_columns():
    few = pa.array([1, 2], pa.int8())
    union = pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [few])
    return {
        "dense union": union,
        "sparse union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [few]),
        "list of unions": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), union),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "b"])),
        "list view": pa.array([[1], [2]], pa.list_view(pa.int8())),
        "list of lists": pa.array([[[1]], [[2]]]),
        "map": pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int8())),
        "record": pa.array([{"x": 1}] * 2),
        "interval": pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval()),
        "raw": pa.array([b"x", b"y"]),
        "fixed": pa.array([b"abcd"] * 2, pa.binary(4)),
        "coded times": pa.array([datetime.time(1), datetime.time(2)]).dictionary_encode(),
        "uuid": pa.array([b"0123456789abcdef"] * 2, pa.uuid()),
        "unknown zone": pa.array([1, 2], pa.timestamp("us", "Nowhere/None")),
    }


@pytest.mark.parametrize("kind", odd_columns())
def test_columns_without_plain_cells_can_be_dropped_and_not_read(tmp_path, cli, home, kind):
    table = pa.table({"a": odd_columns()[kind], "b": pa.array(["x", "y"])})
    path = as_file(home.path, table, "file")
    for source in (path, table):
        opened = open_table(source)
        assert (opened.types, opened.count()) == ({"a": "other", "b": "text"}, 2)
        assert pl.concat(opened.batches(["b"])).to_dict(as_series=False) == {"b": ["x", "y"]}
        with pytest.raises(InputError, match="'a' with plain cells"):
            opened.batches(["a"])
    category = '[columns.b]\nkind = "category"\nvalues = ["x", "y"]\n'
    home.write("s.toml", '[columns.a]\nkind = "category"\nvalues = ["x"]\n' + category)
    assert cli("plan", path, "--schema", home.schema, "--epsilon", 1, "--mechanism", "laplace").code == 2
    home.write("s.toml", '[columns.a]\nrole = "drop"\n' + category)
    assert cli("plan", path, "--schema", home.schema, "--epsilon", 1, "--mechanism", "laplace").code == 0
    assert cli("schema", path).code == 0


def test_a_name_that_is_no_text_is_refused(tmp_path, cli):
    path = as_file(tmp_path, pa.table({"name": pa.array([1]), "b": pa.array([2])}), "file")
    path.write_bytes(path.read_bytes().replace(b"name", b"na\xff\xfe"))
    found = cli("schema", path)
    assert found.code == 2
    assert "damaged" in found.err


def test_names_and_remarks_do_not_change_how_cells_are_read(tmp_path):
    remarks = {"ARROW:extension:name": "no.such.type", "_PL_ENUM_VALUES": "1;x", "x": "\0"}
    schema = pa.schema([pa.field("a\0b", pa.string(), metadata=remarks), pa.field("a\0c", pa.string())])
    table = pa.table([["x", "y"], ["z", None]], schema=schema.with_metadata({"pandas": "{"}))
    for source in (table, as_file(tmp_path, table, "file"), as_file(tmp_path, table, "stream")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = pl.concat(open_table(source).batches(["a\0b", "a\0c"]))
        assert frame.to_dict(as_series=False) == {"a\0b": ["x", "y"], "a\0c": ["z", None]}


# ---- cells that a library cannot write


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")], ids=str)
def test_days_outside_the_calendar_are_missing_cells(tmp_path, kind):
    most = 2**31 - 1 if kind == pa.date32() else 2**62
    table = pa.table({"a": pa.array([0, most, -most, None], pa.int32() if most < 2**32 else pa.int64()).cast(kind)})
    pq.write_table(table, tmp_path / "t.parquet")
    sources = [table, as_file(tmp_path, table, "file"), tmp_path / "t.parquet", pl.from_arrow(table)]
    for source in sources:
        frame = pl.concat(open_table(source).batches(["a"]))
        assert frame["a"].is_null().to_list() == [False, True, True, True]
        assert frame["a"].cast(pl.String)[0].startswith("1970-01-01")
    arrow = pd.DataFrame({"a": pd.Series(table["a"], dtype=pd.ArrowDtype(kind))})
    frame = pl.concat(open_table(arrow).batches(["a"], 2))
    assert frame["a"].is_null().to_list()[:2] == [False, True]


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_outside_the_day_are_missing_cells(tmp_path, kind):
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    table = pa.table({"a": pa.array([3600 * second, 86400 * second, -1, None], kind), "b": [1, 2, 3, 4]})
    arrow = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(table["a"])})
    for source in (table, as_file(tmp_path, table, "file"), as_file(tmp_path, table, "stream"), arrow):
        opened = open_table(source)
        assert pl.concat(opened.batches(["a"]))["a"].to_list() == [datetime.time(1), None, None, None]


def test_half_a_surrogate_pair_in_memory_is_read():
    frame = pd.DataFrame({"a": pd.Series(["x", "\ud800y", None], dtype=object)})
    assert pl.concat(open_table(frame).batches(["a"]))["a"].to_list() == ["x", "?y", None]


# ---- files that hold more than they seem


def test_a_header_without_end_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_LARGEST_HEADER", 2**16)
    for name, content in (("t.csv", b"x" * 2**22), ("u.csv", b'"' + b"x\n" * 2**21)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="does not end"):
            open_table(tmp_path / name)
    (tmp_path / "v.csv").write_bytes(b"a,b\n" + b"1,2\n" * 2**16)
    assert open_table(tmp_path / "v.csv").count() == 2**16


def claimed(shape: tuple[int, ...], content: bytes) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue() + content


@pytest.mark.parametrize("shape", [(10**12,), (10**9, 10**9), (3,), (1,), (2**64,), (-2,)])
def test_an_array_is_as_long_as_it_claims_or_refused(tmp_path, shape):
    content = claimed(shape, bytes(16))
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"length|array"):
        load_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(ValueError, match=r"length|array"):
        load_arrays(tmp_path / "a.npz")


def test_packed_arrays_are_refused_and_plain_ones_read(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array(["x", "yz"]), "c": np.float32(2)}
    np.savez(tmp_path / "plain.npz", allow_pickle=False, **arrays)
    read = load_arrays(tmp_path / "plain.npz")
    assert list(read) == list(arrays)
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
    np.savez_compressed(tmp_path / "packed.npz", a=np.zeros(10**6))
    with pytest.raises(ValueError, match="more in it than the file has bytes"):
        load_arrays(tmp_path / "packed.npz")
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="length"):
        load_array(tmp_path / "o.npy")


def test_a_model_that_claims_too_much_is_an_error_of_ours(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("a.npy", claimed((10**10,), b""))
    with pytest.raises(InputError, match=r"readable model\.npz"):
        card = SimpleNamespace(files={"model.npz": ""})
        ReleaseFolder(tmp_path, card, "").arrays()  # type: ignore[arg-type] # no more of a card is looked at


# ---- panics

PANIC = "pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date).cast(pl.String)"


def test_a_panic_while_reading_is_an_error_of_ours():
    from adumbra.tables.table import reading

    with pytest.raises(InputError, match="t is damaged"), reading("t", "Arrow file"):
        pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date).cast(pl.String)
    with pytest.raises(KeyboardInterrupt), reading("t", "Arrow file"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("asked", [False, True])
def test_a_panic_at_the_edge_is_a_defect_and_its_text_is_not_shown(home, asked):
    """Whatever a library panics about stands in its own message, which it writes to stderr by itself."""
    script = f"""
import os, sys
import polars as pl
import adumbra.tables.read
from adumbra.cli import main
def panics(*_, **__):
    os.write(2, b"{SECRET}")
    {PANIC}
adumbra.tables.read.open_table = panics
sys.argv = ["adumbra", "schema", "t.csv"]
main.run()
"""
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path)} | ({"ADUMBRA_TRACEBACK": "1"} if asked else {})
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=home.path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 3, done.stderr
    assert "this is a defect" in done.stderr
    assert "Panicked at" in done.stderr
    assert done.stdout == ""
    for shown in (SECRET, "panicked at", "Traceback"):
        assert (shown in done.stderr) is asked
