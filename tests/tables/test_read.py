"""Reading tables: every format, hostile files, and no cell value in any message."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.tables import read, text
from adumbra.tables.read import give_back, open_table

SECRET = "SECRETCELL"


def write(folder: Path, content: bytes | str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(table, columns=None, size=16384):
    frames = list(table.batches(columns or table.columns, size))
    assert all(f.height <= size for f in frames)
    return pl.concat(frames).to_dict(as_series=False)


SAMPLE = 'a,b\n1,x\n2,"y, ""z""\n\U0001f40d"\n3,\n'
READ = {"a": ["1", "2", "3"], "b": ["x", 'y, "z"\n\U0001f40d', ""]}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_text_with_quotes_newlines_marks_and_endings(tmp_path, ending, mark, last):
    text = mark + SAMPLE.replace("\n", ending)
    table = open_table(write(tmp_path, text if last else text.removesuffix(ending)))
    assert (table.columns, table.name, table.native, table.count()) == (("a", "b"), "t", "polars", 3)
    assert table.types == {"a": "text", "b": "text"}
    got = rows(table)
    assert [cell.replace("\r\n", "\n") for cell in got["b"]] == READ["b"]
    assert rows(table) == got  # a second pass
    assert rows(table, ["b"], 1) == {"b": got["b"]}
    assert list(rows(table, ["b", "a"])) == ["b", "a"]


def test_packed_and_delimited_text(tmp_path):
    assert rows(open_table(write(tmp_path, gzip.compress(SAMPLE.encode()), "t.csv.gz"))) == READ
    with pa.CompressedOutputStream(str(tmp_path / "t.tsv.zst"), "zstd") as out:
        out.write(b"a\tb\n1\tx,;|\n")
    assert rows(open_table(tmp_path / "t.tsv.zst")) == {"a": ["1"], "b": ["x,;|"]}
    semicolons = write(tmp_path, "a;b\n1;2\n", "s.csv")
    assert rows(open_table(semicolons, delimiter=";")) == {"a": ["1"], "b": ["2"]}
    assert rows(open_table(write(tmp_path, "a\tb\n1\t2\n", "s.txt"), delimiter="tab")) == {
        "a": ["1"],
        "b": ["2"],
    }
    assert open_table(write(tmp_path, SAMPLE, "my.data.csv")).name == "my"


def test_types_are_never_guessed(tmp_path):
    table = open_table(write(tmp_path, "a,b\n007,NA\n1e3,null\n,true\n"))
    assert rows(table) == {"a": ["007", "1e3", ""], "b": ["NA", "null", "true"]}


def test_header_names_are_trimmed_and_odd_ones_kept(tmp_path):
    table = open_table(write(tmp_path, 'a, b,"c,""d""","e\nf",g.h,\U0001f40d\n1,2,3,4,5,6\n'))
    assert table.columns == ("a", "b", 'c,"d"', "e\nf", "g.h", "\U0001f40d")
    assert rows(table, ["e\nf"]) == {"e\nf": ["4"]}


def test_one_column_with_empty_cells(tmp_path):
    table = open_table(write(tmp_path, 'a\n1\n""\n2\n'))
    assert table.count() == 3
    assert rows(table) == {"a": ["1", "", "2"]}


def test_ten_thousand_columns(tmp_path):
    names = ",".join(f"column_{i}" for i in range(10_000))
    row = ",".join(["1234567.89"] * 10_000)
    table = open_table(write(tmp_path, "\n".join([names, *[row] * 20]) + "\n"))
    assert table.count() == 20
    assert next(table.batches(table.columns)).width == 10_000
    assert sum(frame.height for frame in table.batches(table.columns)) == 20
    assert sum(frame.height for frame in table.batches(["column_9999"])) == 20


def test_a_row_longer_than_a_block(tmp_path):
    table = open_table(write(tmp_path, "a,b\n1,2\n" + "3," + "x" * (9 * 2**20) + "\n4,5\n"))
    assert table.count() == 3
    assert [len(b) for b in rows(table)["b"]] == [1, 9 * 2**20, 1]


BAD_TEXT = {
    "empty": (b"", "is empty"),
    "only a mark": (b"\xef\xbb\xbf", "is empty"),
    "header only": (b"a,b\n", "no rows"),
    "header only, no newline": (b"a,b", "no rows"),
    "header and blank lines": (b"a,b\n\n\n", "no rows"),
    "blank first line": (b"\na,b\n1,2\n", "blank line"),
    "too many": (b"a,b\n1,2\n3,4,SECRETCELL\n", "2 cells in every row.*3 in row 3"),
    "too few": (b"a,b\n1,2\n\n3,4\nSECRETCELL\n", "2 cells in every row.*1 in row"),
    "same name twice": (b"a,b,a\n1,2,3\n", "'a' twice"),
    "same name but for spaces": (b"a, a\n1,2\n", "'a' twice"),
    "no name": (b"a,,c\n1,2,3\n", "column 2 of t has none"),
    "semicolons": (b"a;b\n1;2\n", "--delimiter ';'"),
    "tabs": (b"a\tb\n1\t2\n", "--delimiter tab"),
    "bars": (b"a|b\n1|2\n", "--delimiter '\\|'"),
    "latin header": (b"caf\xe9,b\n1,2\n", "UTF-8"),
    "latin cell": (b"a,b\n" + b"1,2\n" * 9999 + b"SECRETCELL,\xe9\n", "UTF-8"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
    "utf-16 without mark": ("a,b\n1,2\n".encode("utf-16-le"), "UTF-8"),
    "open quote": (b'a,b\n1,2\n3,"SECRETCELL\n4,5\n', "never closed"),
    "open quote in one column": (b'a\n1\n"SECRETCELL\n', "never closed"),
    "open quote at the end": (b'a,b\n1,2\n3,"', "never closed"),
    "open quote in the header": (b'a,"b\n1,2\n', "quotes|never closed"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text_is_refused_by_the_count_at_the_latest(tmp_path, case):
    content, message = BAD_TEXT[case]
    with pytest.raises(InputError, match=f"(?s){message}") as caught:
        open_table(write(tmp_path, content)).count()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_batches_are_checked_before_the_first_is_given(tmp_path):
    table = open_table(write(tmp_path, "a,b\n" + "1,2\n" * 100 + "3\n"))
    with pytest.raises(InputError, match="row 102"):
        table.batches(["a"], 10)
    with pytest.raises(InputError, match="'c'"):
        open_table(write(tmp_path, "a,b\n1,2\n")).batches(["c"])


def test_a_declared_delimiter_is_believed(tmp_path):
    path = write(tmp_path, "a;b\n1\n")
    assert open_table(path, delimiter=",").columns == ("a;b",)
    for bad in ("", ",,", '"', "\n", "\u00a6"):
        with pytest.raises(InputError, match="one character"):
            open_table(path, delimiter=bad)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zst", "t.parquet", "t.arrow", "t.feather"])
def test_damaged_files(tmp_path, name):
    write(tmp_path, b"not what it says it is, by any means", name)
    with pytest.raises(InputError, match="damaged"):
        open_table(tmp_path / name).count()


def test_files_cut_short(tmp_path):
    packed = gzip.compress(b"a,b\n" + b"".join(b"%d,2\n" % i for i in range(30_000)))
    frame = pa.table({"a": [str(i) for i in range(30_000)]})
    pq.write_table(frame, tmp_path / "t.parquet")
    feather.write_feather(frame, tmp_path / "t.feather")
    whole = {"t.csv.gz": packed} | {n: (tmp_path / n).read_bytes() for n in ("t.parquet", "t.feather")}
    for name, content in whole.items():
        for keep in (len(content) // 2, len(content) - 3):
            with pytest.raises(InputError, match="damaged"):
                open_table(write(tmp_path, content[:keep], name)).count()
    broken = bytearray(whole["t.parquet"])
    broken[2000:2400] = bytes(400)  # the footer is sound, a page is not
    with pytest.raises(InputError, match="damaged"):
        open_table(write(tmp_path, bytes(broken), "t.parquet")).count()


def test_places_that_are_no_tables(tmp_path):
    with pytest.raises(InputError, match="no file"):
        open_table(tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"directory.*parquet"):
        open_table(tmp_path)
    for name in ("t.xlsx", "t", "t.txt", "t.gz", "t.parquet.gz"):
        with pytest.raises(InputError, match="CSV, TSV, Parquet or Arrow"):
            open_table(write(tmp_path, "a,b\n1,2\n", name))
    with pytest.raises(InputError, match="none match"):
        open_table(str(tmp_path / "*.parquet"))
    with pytest.raises(InputError, match="Parquet files only"):
        open_table(str(tmp_path / "t.*"))


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "*" + "a" * 300, "a" * 300 + "/*.parquet", "**a", "a\0.csv"])
def test_names_that_no_file_can_have(tmp_path, name):
    with pytest.raises(InputError):
        open_table(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path):
    path = write(tmp_path, "a\n1\n")
    path.chmod(0)
    with pytest.raises(InputError, match="can be read"):
        open_table(path)


def test_standard_input_can_be_read_again(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    inputs = [SAMPLE.encode(), gzip.compress(SAMPLE.encode()), (tmp_path / "t.parquet").read_bytes()]
    for content in inputs:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        table = open_table("-")
        assert table.name == "table"
        assert rows(table) == rows(table)
        assert table.count() == (2 if content is inputs[2] else 3)
        first, second = table.batches(["a"], 1), table.batches(["a"], 1)
        assert next(first).equals(next(second))  # two readers do not disturb each other
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="empty"):
        open_table("-")


def spooled_to(monkeypatch):
    """The folders that temporary files are made in from here on."""
    folders, made = [], tempfile.TemporaryFile

    def watched(*arguments, dir=None, **options):
        folders.append(dir)
        return made(*arguments, dir=dir, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked anew, as in a new process
    return folders


def test_standard_input_is_copied_to_the_named_folder_only(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    folders = spooled_to(monkeypatch)
    for named, wanted in ((str(tmp_path / "mine"), str(tmp_path / "mine")), ("", "/tmp")):
        monkeypatch.setenv("TMPDIR", named)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.encode())))
        assert rows(open_table("-")) == READ
        assert folders.pop() == wanted


@pytest.mark.parametrize("place", ["absent", "file", "full"])
def test_standard_input_is_never_copied_elsewhere(tmp_path, monkeypatch, place):
    folders = spooled_to(monkeypatch)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.encode())))
    if place == "full":
        monkeypatch.setattr(shutil, "copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no room")))
    with pytest.raises(InputError, match="set TMPDIR to a folder"):
        open_table("-")
    assert folders == [str(tmp_path / place)]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


class Watched(io.BytesIO):
    """Bytes that arrive slowly and count the reads under way and those after `over` is set."""

    busy = late = 0
    over = False

    def read(self, size=-1):
        self.late += self.over
        self.busy += 1
        time.sleep(0.02)
        try:
            return super().read(size)
        finally:
            self.busy -= 1


@pytest.mark.parametrize("ending", ["closed", "dropped", "bad row"])
def test_no_reader_outlives_its_batches(monkeypatch, ending):
    """The CSV reader reads ahead in a thread of its own: it must be done with the file when we are."""
    monkeypatch.setattr(text, "_BLOCK", 4096)
    bad = b"1,2,3\n" if ending == "bad row" else b""
    content = b"a,b\n" + b"1,2\n" * 3_000 + bad + b"1,2\n" * 47_000
    opened = []

    def opener():
        opened.append(Watched(content))
        return pa.PythonFile(opened[-1], "r")

    table = text.TextTable(opener, "t", None, ",", guessed=False)
    if ending == "bad row":
        with pytest.raises(InputError, match="row 3002"):
            table.count()
    else:
        batches = table.batches(["a"], 100)
        assert next(batches).height == 100
        if ending == "closed":
            batches.close()
        del batches
    last = opened[-1]
    assert last.busy == 0
    last.over = True
    time.sleep(0.1)
    assert last.late == 0
    assert last.closed


TYPED = pa.table(
    {
        "n": pa.array([1, None, 3]),
        "f": pa.array([0.5, float("nan"), None]),
        "t": pa.array(["x", None, "z"]),
        "d": pa.array(["p", "q", "p"]).dictionary_encode(),
        "b": pa.array([True, None, False]),
        "day": pa.array([0, 1, 2], pa.date32()),
        "nothing": pa.nulls(3),
        "list": pa.array([[1], [], None]),
        "raw": pa.array([b"SECRETCELL", b"", None]),
        "codes": pa.array([1, 2, 1]).dictionary_encode(),
    }
)
TYPES = {"n": "number", "f": "number", "t": "text", "d": "text", "b": "boolean", "day": "time",
         "nothing": "text", "list": "list", "raw": "other"}  # fmt: skip


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow", "stream.arrow", "frame", "polars"])
def test_typed_tables(tmp_path, name):
    if name == "t.parquet":
        pq.write_table(TYPED, tmp_path / name, row_group_size=2)
    elif name == "t.feather":
        feather.write_feather(TYPED, tmp_path / name)
    elif name.endswith(".arrow"):
        new = pa.ipc.new_stream if name == "stream.arrow" else pa.ipc.new_file
        with new(str(tmp_path / name), TYPED.schema) as writer:
            writer.write_table(TYPED, max_chunksize=2)
    source = {"frame": TYPED, "polars": pl.from_arrow(TYPED.drop_columns("codes"))}.get(name, tmp_path / name)
    table = open_table(source)
    assert table.count() == 3
    assert {name: kind for name, kind in table.types.items() if name != "codes"} == TYPES
    good = [c for c in table.columns if table.types[c] != "other"]
    assert rows(table, good, 1)["t"] == ["x", None, "z"]
    assert rows(table, ["d", "n"]) == {"d": ["p", "q", "p"], "n": [1, None, 3]}
    for bad in ("raw",):
        with pytest.raises(InputError, match=f"'{bad}' with plain cells"):
            table.batches([bad])


def test_parquet_glob(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"a.b": [i], "a": [str(i)]}), tmp_path / f"p{i}.parquet")
    table = open_table(str(tmp_path / "p*.parquet"))
    assert table.count() == 3
    assert rows(table, ["a"]) == {"a": ["0", "1", "2"]}
    assert rows(table, ["a.b"]) == {"a.b": [0, 1, 2]}
    pq.write_table(pa.table({"a.b": ["x"], "a": ["y"]}), tmp_path / "p9.parquet")
    with pytest.raises(InputError, match=r"file 4.*differs"):
        open_table(str(tmp_path / "p*.parquet"))


def test_parquet_names_and_rows_are_checked(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'a' twice"):
        open_table(tmp_path / "t.parquet")
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "u.parquet")
    with pytest.raises(InputError, match="no rows"):
        open_table(tmp_path / "u.parquet").count()


def test_frames_come_back_in_their_library():
    plain = {"a": [1, 2, 3], "b": ["x", None, "z"]}
    for frame, native in ((pd.DataFrame(plain), "pandas"), (pl.DataFrame(plain), "polars"),
                          (pl.LazyFrame(plain), "polars"), (pa.table(plain), "pyarrow")):  # fmt: skip
        table = open_table(frame)
        assert (table.native, table.name, table.count(), table.columns) == (native, "table", 3, ("a", "b"))
        assert rows(table, None, 2) == plain
        back = give_back(next(table.batches(["a"])), table.native)
        assert type(back).__module__.split(".")[0] == native


def test_names_are_no_patterns(tmp_path):
    plain = {"a": [1], "*": [2], "^a.*$": [3]}
    pq.write_table(pa.table(plain), tmp_path / "t.parquet")
    for source in (pd.DataFrame(plain), pl.DataFrame(plain), pa.table(plain), tmp_path / "t.parquet"):
        assert rows(open_table(source), ["^a.*$", "*"]) == {"^a.*$": [3], "*": [2]}


def test_pandas_cells_become_text_one_by_one():
    frame = pd.DataFrame({"o": pd.Series([1, "z", None, True, 2.5], dtype=object),
                          "c": pd.Categorical([1, 2, 1, None, 2]),
                          "l": [[1], None, 2, 3, 4]})  # fmt: skip
    frame.index = pd.Index([9] * 5)
    table = open_table(frame)
    assert rows(table) == rows(table, None, 1) == {
        "o": ["1", "z", None, "True", "2.5"], "c": ["1", "2", "1", None, "2"], "l": ["[1]", None, "2", "3", "4"]
    }  # fmt: skip
    assert set(table.types.values()) == {"text"}


def test_bad_frames():
    with pytest.raises(InputError, match="data frame"):
        open_table([1, 2])
    with pytest.raises(InputError, match="'a' twice"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="'a' twice"):
        open_table(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(InputError, match="as text"):
        open_table(pd.DataFrame([[1, 2]]))
    with pytest.raises(InputError, match="has none"):
        open_table(pl.DataFrame())
    with pytest.raises(InputError, match="no rows"):
        open_table(pl.DataFrame({"a": []})).count()


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8))
def test_any_text_survives_the_file(tmp_path_factory, cells):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    pl.DataFrame({"a": [a for a, _ in cells], "b": [b for _, b in cells]}).write_csv(path, quote_style="always")
    table = open_table(path)
    assert table.count() == len(cells)
    assert list(zip(*rows(table).values(), strict=True)) == cells


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text('a,"\n\r;1 \ufeff', max_size=40).map(str.encode))
def test_hostile_bytes_give_a_table_or_an_error_of_ours(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "hostile.csv"
    path.write_bytes(content)
    try:
        table = open_table(path)
        count = table.count()
    except InputError:
        return
    assert sum(f.height for f in table.batches(table.columns, 2)) == count > 0


def test_real_tables(shared_data):
    sizes = {"adult.csv.gz": (48842, 16), "wdbc.csv.gz": (569, 31), "musk_v1.parquet": (476, 169)}
    for name, (height, width) in sizes.items():
        table = open_table(shared_data / name)
        assert (table.count(), len(table.columns)) == (height, width)
        assert sum(f.height for f in table.batches(table.columns[:3])) == height


def test_a_name_that_steers_the_terminal_is_escaped_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        open_table(tmp_path / "\x1b[2Jverified\u202e.csv")
    assert "\x1b" not in str(caught.value) and "\u202e" not in str(caught.value)
    assert "verified" in str(caught.value)


def test_emptying_a_cell_of_a_one_column_file_keeps_the_row(tmp_path):
    counts = []
    for name, cell in (("full", "0.5"), ("emptied", "")):
        (tmp_path / f"{name}.csv").write_text(f"a\n0.25\n{cell}\n0.75\n")
        counts.append(read.open_table(tmp_path / f"{name}.csv").count())
    assert counts == [3, 3]
