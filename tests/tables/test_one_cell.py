"""One cell, one row: whatever library a table comes from, changing a cell changes how no other row is read.

A library gives a column a type that depends on all its cells, and changes it on account of one: pandas turns whole
numbers to floats and booleans to objects, a CSV reader turns either to text. Each reader here makes its column anew
from plain cells, as a user of that library would, so that the types are the library's own choice.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import CATEGORY_STEPS
from adumbra.jupa.features import Features, Target
from adumbra.tables.encode import Repairs, encode
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema
from tests.jupa.records import _fitted, _records

DAY, NEXT = datetime.date(2020, 1, 2), datetime.date(2020, 1, 3)
NOON = datetime.datetime(2020, 1, 3, 12)
MIDNIGHT = datetime.datetime(2020, 1, 2)
HOUR = datetime.timedelta(hours=1)


# ---- readers: plain cells as one column "x" of a table, in the types that the library chooses


def pandas_plain(cells, _):
    return pd.DataFrame({"x": cells})


def pandas_objects(cells, _):
    return pd.DataFrame({"x": pd.Series(cells, dtype=object)})


def pandas_nullable(cells, _):
    return pd.DataFrame({"x": cells}).convert_dtypes()


def pandas_arrow(cells, _):
    return pd.DataFrame({"x": cells}).convert_dtypes(dtype_backend="pyarrow")


def pandas_categories(cells, _):
    return pd.DataFrame({"x": pd.Series(cells, dtype="category")})


def pandas_32_bits(cells, _):
    column = pd.Series([np.float32(cell) if type(cell) is float else cell for cell in cells])
    return pd.DataFrame({"x": column.astype(np.float32) if column.dtype == np.float64 else column})


def pandas_read_csv(cells, _):
    return pd.read_csv(io.StringIO(as_csv(cells)), skip_blank_lines=False)


def polars_plain(cells, _):
    return pl.DataFrame({"x": pl.Series(cells, strict=False)})


def polars_categories(cells, _):
    return pl.DataFrame({"x": pl.Series(cells, strict=False).cast(pl.String).cast(pl.Categorical)})


def polars_enum(cells, _):
    text = pl.Series(cells, strict=False).cast(pl.String)
    return pl.DataFrame({"x": text.cast(pl.Enum(text.drop_nulls().unique()))})


def polars_read_csv(cells, _):
    return pl.read_csv(as_csv(cells).encode(), infer_schema_length=None, try_parse_dates=True)


def pyarrow_plain(cells, _):
    return pa.table({"x": pa.array(cells)})


def pyarrow_read_csv(cells, _):
    content = pa.BufferReader(as_csv(cells).encode())
    return pacsv.read_csv(content, parse_options=pacsv.ParseOptions(ignore_empty_lines=False))


def numpy_numbers(cells, _):
    array = np.array([math.nan if cell is None else cell for cell in cells])
    if array.dtype.kind not in "fiub":
        raise TypeError("an array of other things is refused, whatever it holds")
    return array[:, None]


def numpy_objects(cells, _):
    return pd.DataFrame(np.array(cells, dtype=object)[:, None], columns=["x"])


def numpy_texts(cells, _):
    return pd.DataFrame(np.array(cells).astype(str)[:, None], columns=["x"])


def csv_file(cells, folder):
    (folder / "t.csv").write_text(as_csv(cells))
    return folder / "t.csv"


def csv_file_of_pandas(cells, folder):
    pd.DataFrame({"x": cells}).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def parquet_file(cells, folder):
    polars_plain(cells, None).write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def arrow_file(cells, folder):
    polars_plain(cells, None).write_ipc(folder / "t.arrow")
    return folder / "t.arrow"


READERS = [
    pandas_plain, pandas_objects, pandas_nullable, pandas_arrow, pandas_categories, pandas_32_bits, pandas_read_csv,
    polars_plain, polars_categories, polars_enum, polars_read_csv, pyarrow_plain, pyarrow_read_csv,
    numpy_numbers, numpy_objects, numpy_texts, csv_file, csv_file_of_pandas, parquet_file, arrow_file,
]  # fmt: skip


def as_csv(cells) -> str:
    """As a program of its own would write them: each cell by itself."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_MINIMAL)
    writer.writerows([["x"], *([cell] for cell in cells)])
    return out.getvalue().replace('""', "")


# ---- what is declared, and columns that it reads


def category(*values):
    return Column("x", "category", values=values)


NUMBER, FLAG = Column("x", "number", low=0, high=4), Column("x", "flag")
DAYS = Column("x", "date", low="2020-01-01", high="2020-12-31")
GERMAN_DAYS = Column("x", "date", low="2020-01-01", high="2020-12-31", format="%d.%m.%Y")
DIGIT_DAYS = Column("x", "date", low="2020-01-01", high="2020-12-31", format="%Y%m%d", blank=("20200102",))
MOMENTS = Column("x", "datetime", low="2020-01-01", high="2020-12-31", step="minute")
ZONED = Column("x", "datetime", low="2020-01-01", high="2020-12-31", step="hour", zone="Asia/Tokyo")
CLOCK, DIGIT_CLOCK = Column("x", "time", step="minute"), Column("x", "time", step="minute", format="%H%M")
SPAN = Column("x", "duration", low="00:00:00", high="4d 00:00:00", step="minute")
LOG = Column("x", "number", low=0, high=10_000, scale="log")
BLANKS = Column("x", "number", low=0, high=100, blank=(-9, "N", "517"))
ORDERED, ORDERED_WORDS = (Column("x", "ordinal", values=v) for v in ((0, 25, 50, 100), ("0", "25.0", "50", "-9")))
NOES = Column("x", "flag", values=("no", "y"))
BOOLS, WHOLE, REALS = [True, False, True, True, False, True], [1, 0, 2, 1, 3, 0], [1.0, 0.1, 2.5, 1.0, 0.5, 0.0]
CASES = [
    (BOOLS, [NUMBER, FLAG, *(category(*values) for values in (("true", "false"), ("TRUE", "FALSE"), ("False", "True"),
                                                              (True, False), (0, 1), (1.0, 0.0), ("0", "1")))]),
    (WHOLE, [NUMBER, FLAG, *(category(*values) for values in ((0, 1, 2), (2.0, 1.0, 0.0), ("0", "1", "2"),
                                                              ("2.0", "1.0", "0.0"), (True, False),
                                                              ("true", "false", "absent")))]),
    (REALS, [NUMBER, FLAG, category(0.1, 0.5, 1.0, 2.5), category("0.1", "0.5", "1", "2.5"), category("x", "2.50")]),
    (["yes", "no", "Y", "TRUE", "0", "f"], [FLAG, category(True, False), category("yes", "no", "TRUE")]),
    (["1", "02", "3.0", "1e0", " 2 ", "+1"], [NUMBER, category("1", "2", "3"), category(1, 2, 3)]),
    (["01", "02", "01", "10", "02", "01"], [category("01", "02", "10")]),
    (["some", "none", "some", "n/a", "None", "some"], [category("some", "none", "n/a"), category("some", "None")]),
    (["TRUE", "FALSE", "TRUE", "TRUE", "FALSE", "TRUE"], [FLAG, category("TRUE", "FALSE", "maybe"), category(0, 1)]),
    *((base, [category("2020-01-02", "2020-01-03"), category("2020-01-02 00:00:00", "2020-01-03T12:00:00.000")])
      for base in ([DAY, NEXT, DAY, NEXT, DAY, NEXT], [MIDNIGHT, NOON, MIDNIGHT, NOON, MIDNIGHT, MIDNIGHT])),
]  # fmt: skip
KINDS = [  # of cells that a release knows
    *((base, [DAYS, GERMAN_DAYS, DIGIT_DAYS, MOMENTS, ZONED, CLOCK])
      for base in ([DAY, NEXT, DAY, NEXT, DAY, NEXT], [MIDNIGHT, NOON, MIDNIGHT, NOON, MIDNIGHT, MIDNIGHT],
                   ["2020-01-02", "2020-01-03T12:00", "2020-01-03 12:00:00Z", "2020-01-02", "03.01.2020", "20200103"],
                   [20200102, 20200103, 20200102, 20200103, 20200102, 20200102])),
    ([517, 1740, 5, 2400, 0, 959], [DIGIT_CLOCK, CLOCK, SPAN, LOG, BLANKS]),
    (["05:17", "17:40:00", "0517", "24:00", "5:17", "00:00"], [DIGIT_CLOCK, CLOCK, SPAN]),
    ([HOUR, 2 * HOUR, HOUR, HOUR / 2, 30 * HOUR, HOUR], [SPAN]),
    (["3d 04:00:00", "PT4H", "90", "-PT5M", "1 day", "00:30:00"], [SPAN]),
    ([0, 25, 50, -9, 25, 100], [ORDERED, ORDERED_WORDS, BLANKS, LOG]),
    ([0.0, 25.0, 0.5, -9.0, 99999.0, 100.0], [ORDERED, ORDERED_WORDS, BLANKS, LOG]),
    (["no", "N", "?", "y", "Y", "0"], [NOES, BLANKS, category("no", "N", "?")]),
]  # fmt: skip
OTHERS = [None, "junk", "", 7, 2.5, True, DAY, "TRUE", HOUR, "12:30"]


def made(reader, cells, folder):
    """The column as a table, None where the library itself cannot hold these cells together or loses them.

    polars makes numbers of days that stand beside a number, and words of its own of durations beside text: no reader of
    its column can know (docs/pitfalls.md). Nor can one that 32 bits were too few for a day of eight digits.
    """
    if reader is pandas_32_bits and any(type(cell) in (int, float) and abs(cell) > 2**24 for cell in cells):
        return None
    try:
        table = open_table(reader(cells, folder))
    except (TypeError, ValueError, pa.ArrowException, pl.exceptions.PolarsError):
        return None
    if reader in (polars_plain, parquet_file, arrow_file, polars_categories, polars_enum):
        kinds = {isinstance(cell, datetime.date) for cell in cells if cell is not None}
        if len(kinds) > 1 and not any(isinstance(cell, str) for cell in cells):
            return None
        if len({isinstance(cell, datetime.timedelta) for cell in cells if cell is not None}) > 1:
            return None
    return table


def neighbours(reader, folder, ways, cases):
    """Each column of plain cells, read in the `ways` that suit it, and again with its second cell changed."""
    for base, columns in cases:
        table = made(reader, base, folder)
        if table is None:
            continue
        found = [(what, read, attempt(read, table)) for what, read in ways(base, columns)]
        for other in [*OTHERS, base[2]]:
            changed = made(reader, [base[0], other, *base[2:]], folder)
            for what, read, before in found if changed is not None else ():
                yield before, attempt(read, changed), f"{what}: {base[1]!r} to {other!r} among {base}"


def attempt(read, table) -> bytes | None:
    """All rows but the second, bit by bit; None where the table is refused, which must not depend on its cells."""
    try:
        return np.delete(read(table), 1, axis=0).tobytes()
    except InputError:
        return None


def released(base, columns):
    """Encoded as a release, an evaluation and an audit encode them."""
    for column in columns:
        schema = Schema(TableInfo(), (column,))
        yield f"{column.kind} {column.values}", lambda table, schema=schema: encoded(table, schema)


def encoded(table, schema) -> np.ndarray:
    return np.vstack([encode(block, schema).values for block in table.blocks(["x"])])


def utility_aware(base, columns):
    """Coded as JUPA codes private records, by public tables that hold the same cells in other types."""
    place = [cells for cells, _ in CASES].index(base)
    if place not in FITTED:
        FITTED[place] = list(fitted_books(base))
    return FITTED[place]


FITTED: dict[int, list] = {}


def fitted_books(base):
    text = pl.DataFrame({"x": pl.Series([str(cell) for cell in base] + ["1", "0"])})
    for public in (pl.DataFrame({"x": pl.Series(base)}), pl.DataFrame({"x": ["maybe", *text["x"]]})):
        book = Features.fit(public, columns=["x"])
        yield f"features {book.codes}", lambda table, book=book: book.encode(next(table.batches(["x"])))
    target = Target.fit(text.filter(~pl.col("x").is_in(["none", "None", "n/a", "?"])), ["x"], "utility")
    yield f"target {target.classes}", lambda table: target.of(next(table.batches(["x"])))[:, None]


def check_no_other_row_moves(reader, folder, ways, cases):
    tried = 0
    for before, after, what in neighbours(reader, folder, ways, cases):
        assert before == after, f"{reader.__name__}, {what}: other rows moved"
        tried += 1
    assert tried > 40


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_one_cell_changes_how_no_other_row_is_read(reader, tmp_path):
    check_no_other_row_moves(reader, tmp_path, released, [*CASES, *KINDS])


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_one_cell_changes_no_other_record_for_jupa(reader, tmp_path):
    check_no_other_row_moves(reader, tmp_path, utility_aware, CASES)


# ---- one cell in all its forms


def positions(cells, *values) -> list[int | None]:
    """Which declared value each cell is, each in a pandas column of its own."""
    schema = Schema(TableInfo(), (category(*values),))
    rows = [encoded(open_table(pd.DataFrame({"x": [cell]})), schema)[0] for cell in cells]
    return [int(row.argmax()) if row.any() else None for row in rows]


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6).map(float) | st.sampled_from([2.0**53, 1e300, -0.0]))
def test_every_form_of_a_number_is_one_cell(number):
    forms = [number, np.float64(number), repr(number), f" {number!r}", decimal.Decimal(number), f"{number:.17e}"]
    if number.is_integer() and abs(number) <= 2**53:
        forms += [int(number), str(int(number)), f"{int(number)}.0", np.int64(number)]
    for values in ((1e9, number), ("1e9", repr(number)), ("absent", repr(number))):
        assert positions(forms, *values) == [1] * len(forms)


def test_whole_numbers_that_a_float_cannot_tell_apart_are_one_cell():
    """pandas makes floats of whole numbers when a cell is empty, and these are then equal."""
    assert positions([2**53, 2**53 + 1, float(2**53), str(2**53 + 1)], str(2**53), "0") == [0] * 4
    with pytest.raises(InputError, match="different numbers"):
        category(str(2**53), str(2**53 + 1))


def test_every_form_of_a_moment_is_one_cell():
    paris = datetime.timezone(datetime.timedelta(hours=1))
    forms = [DAY, MIDNIGHT, pd.Timestamp(MIDNIGHT), np.datetime64("2020-01-02"), "2020-01-02", "2020-01-02T00:00",
             "2020-01-02 00:00:00.000"]  # fmt: skip
    for values in (("2020-01-02", "x"), ("2020-01-02 00:00:00", "x"), ("2020-01-02T00:00:00.000000", "x")):
        assert positions(forms, *values) == [0] * len(forms)
    aware = [MIDNIGHT.replace(tzinfo=paris), "2020-01-01 23:00:00Z", "2020-01-02 01:30:00.0+02:30"]
    assert positions(aware, "2020-01-01T23:00+00:00", "x") == [0] * len(aware)
    assert positions(aware, "2020-01-02", "2020-01-01") == [None] * len(aware)
    unlike = ["2020-01-02 00:00:00.5", "2020-13-99 00:00:00+01:00", "12:00", datetime.time(0, 0)]
    assert positions(unlike, "2020-01-02", "x") == [None] * len(unlike)
    for unit in ("ms", "us", "ns"):
        table = open_table(pl.DataFrame({"x": pl.Series([MIDNIGHT], dtype=pl.Datetime(unit))}))
        assert encoded(table, Schema(TableInfo(), (category("x", "2020-01-02"),))).tolist() == [[0, CATEGORY_STEPS]]
    with pytest.raises(InputError, match="different moments"):
        category("2020-01-02", "2020-01-02 00:00:00")


def test_every_form_of_a_duration_is_one_cell():
    """pandas writes a file of them in one way, and in another if a word stands among them."""
    for span, forms in (
        (datetime.timedelta(hours=1), ["1:00:00", "01:00:00", "0 days 01:00:00", "01:00:00.000"]),
        (datetime.timedelta(1, 4 * 3600), ["1 day, 4:00:00", "1 days 04:00:00", "1d 04:00:00", "1 days +04:00:00"]),
        (datetime.timedelta(hours=-1), ["-1 day, 23:00:00", "-1 days +23:00:00", "-01:00:00"]),
    ):
        cells = [span, pd.Timedelta(span), np.timedelta64(span), *forms]
        for value in forms:
            assert positions(cells, value, "x") == [0] * len(cells)
            for unit in ("ms", "us", "ns"):
                table = open_table(pl.DataFrame({"x": pl.Series([span], dtype=pl.Duration(unit))}))
                assert encoded(table, Schema(TableInfo(), (category("x", value),))).tolist() == [[0, CATEGORY_STEPS]]
    with pytest.raises(InputError, match="different moments"):
        category("1:00:00", "0 days 01:00:00")


def test_true_and_false_are_one_and_zero():
    forms = [True, np.bool_(True), "True", "TRUE", " true", 1, 1.0, "1", "1.0", "01"]
    for values in (("true", "false"), ("TRUE", "x"), (1, 0), (1.0, 2.0), ("1", "2"), (True, False)):
        assert positions(forms, *values) == [0] * len(forms)
    assert positions(["yes", "y", "t"], True, False) == [0] * 3
    assert positions(["yes", "y", "t"], "true", "false") == positions(["yes", "y", "t"], 1, 0) == [None] * 3
    for values in (("true", "True"), ("1", "true"), ("0", "x", "FALSE")):
        with pytest.raises(InputError, match="different numbers"):
            category(*values)


def test_cells_that_python_cannot_write_are_unknown_and_never_an_error():
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    odd = pd.Series([Broken(), 10**5000, "\ud800", complex(1, 2), object, "b"], dtype=object)
    rows = encoded(open_table(pd.DataFrame({"x": odd})), Schema(TableInfo(), (category("a", "b"),)))
    assert rows.tolist() == [*[[0, 0]] * 5, [0, CATEGORY_STEPS]]


# ---- one vocabulary


NOTHING = ["", "?", "-", ".", "NA", "n/a", "#N/A", "<NA>", "NaN", "NaT", "NULL", "None"]


@pytest.mark.parametrize("word", NOTHING)
def test_a_word_for_nothing_is_nothing_to_everybody(word):
    frame = pl.DataFrame({"x": [word, "some", "more", "some"]})
    for column in (category("some", "more"), NUMBER, FLAG):
        assert encode(frame[:1], Schema(TableInfo(), (column,))).repairs == {"x": Repairs(missing=1)}
    assert '# values = ["more", "some"]' in draft_schema(open_table(frame))
    book = Features.fit(frame, columns=["x"])
    assert book.codes[0].values == ("more", "some")
    assert book.unread(frame[:1]) == {"x": (1, 0)}
    with pytest.raises(InputError, match="1 of 4 records without one"):
        Target.fit(frame, ["x"], "utility")


@pytest.mark.parametrize("word", NOTHING)
def test_a_declared_word_is_a_value(word):
    schema = Schema(TableInfo(), (category("some", word),))
    found = encode(pl.DataFrame({"x": [word, "some", None]}), schema)
    assert found.values.tolist() == [[0, CATEGORY_STEPS], [CATEGORY_STEPS, 0], [0, 0]]
    assert found.repairs == {"x": Repairs(missing=1)}


def test_a_draft_declares_one_spelling_of_a_value_and_loads():
    frame = pl.DataFrame({"x": ["007", "7", "007", "x", "x", "x"], "f": ["Yes", "0", "yes", "no", "1", None]})
    draft = draft_schema(open_table(frame))
    assert '# values = ["007", "x"]' in draft and draft.count('# kind = "flag"') == 1
    schema = Schema.parse("\n".join(line.removeprefix("# ") for line in draft.splitlines()))
    assert encode(frame, schema).repairs == {"x": Repairs(), "f": Repairs(missing=1)}


# ---- no refusal for what a private cell holds


def test_a_laplace_release_of_unreadable_numbers_is_not_refused(tmp_path):
    public = _records(200, 8)
    model = _fitted(public, release="laplace", epsilon=1.0)
    words = public.head(5).with_columns(a=pl.lit("abc"))
    one = words.with_columns(a=pl.Series(["0.5", *words["a"][1:]]))
    told: list[str] = []
    for name, table in (("none", words), ("one", one)):
        ad.apply_jupa(model, table, tmp_path / name, ledger=ad.Ledger(tmp_path / "ledger.jsonl"), tell=told.append)
    assert sum("no number in the whole table" in line for line in told) == 1


def test_no_type_that_pandas_chooses_is_refused():
    """A column of dates is refused nowhere that one word among them would let it pass."""
    for column in (NUMBER, FLAG, category("2020-01-02", "x")):
        schema = Schema(TableInfo(), (column,))
        away = datetime.timedelta(days=1)
        for cells in ([MIDNIGHT] * 3, [MIDNIGHT, "word", MIDNIGHT], [True] * 3, [True, None, True], [away] * 3):
            ad.plan(pd.DataFrame({"x": cells}), schema, ad.DPPro(dimension=1), ad.Budget(1.0, 1e-6))


# ---- no table is refused, and none let in, for one cell


def surrogates(cells):
    return pd.DataFrame({"x": pd.Series(cells, dtype="string[python]")})


def decimals(*cells):
    return [decimal.Decimal(cell) for cell in cells]


def clock(kind, *seconds):
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    return pa.array([None if second is None else second * ticks for second in seconds], kind)


def pandas_of(array):
    return pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(array)})


LONG = decimal.Decimal("1" + "0" * 40)
SPAN = datetime.timedelta(days=1)
ODD_FRAMES = {
    "an imaginary part": (lambda odd: pandas_plain([1.0, 1j if odd else 3.0, 2.0], None)),
    "a long float": (lambda odd: pandas_plain([np.float32(1), np.longdouble(3) if odd else np.float32(3)], None)),
    "a long decimal in Arrow": (lambda odd: pa.table({"x": [*decimals("1", "2.5"), LONG if odd else None]})),
    "a long decimal in polars": (
        lambda odd: polars_plain([*decimals("1", "2.5"), LONG if odd else decimal.Decimal(1)], None)
    ),
    "half a surrogate pair": (lambda odd: surrogates(["1", "\ud800" if odd else "2"])),
    **{
        f"midnight at the end of the day, {kind}": (
            lambda odd, kind=kind: pa.table({"x": clock(kind, 3600, 86400 if odd else None)})
        )
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    },
    "the same in pandas": (lambda odd: pandas_of(clock(pa.time64("us"), 3600, 86400 if odd else None))),
    **{
        f"{type(cell).__name__} among objects": (
            lambda odd, cell=cell: pandas_objects(["1", "2", cell if odd else "3"], None)
        )
        for cell in ([1], (1,), {"a": 1}, {1}, b"1", bytearray(b"1"), memoryview(b"1"), np.array([1, 2]))
    },
    **{
        f"a word among {name}": (lambda odd, cell=cell: pandas_plain([cell, "word" if odd else cell, cell], None))
        for name, cell in (("periods", pd.Period("2020-01")), ("intervals", pd.Interval(0, 1)), ("spans", SPAN))
    },
    "a word in a sparse column": (
        lambda odd: pd.DataFrame({"x": pd.arrays.SparseArray([1.0, "word" if odd else 0.0, 2.0])})
    ),
    **{
        f"a word among {cell!r} of Arrow in pandas": (
            lambda odd, cell=cell: pandas_objects([cell, "word"], None) if odd else pandas_of(pa.array([cell, cell]))
        )
        for cell in (MIDNIGHT, DAY, datetime.time(12), SPAN)
    },
    **{
        f"a word among {cell!r} in polars": (lambda odd, cell=cell: polars_plain([cell, "word" if odd else cell], None))
        for cell in (DAY, datetime.time(12))
    },
}


@pytest.mark.parametrize("odd", ODD_FRAMES)
def test_one_odd_cell_decides_no_refusal(odd):
    """Read with the odd cell and without it, for every kind, by releases and by JUPA; the first row stays the same."""
    for column in (NUMBER, FLAG, category("1", "2", "2020-01-02"), category("01:00", "12:00", "2020-01")):
        schema = Schema(TableInfo(), (column,))
        first = []
        for frame in map(ODD_FRAMES[odd], (False, True)):
            ad.plan(frame, schema, ad.DPPro(dimension=1), ad.Budget(1.0, 1e-6))
            first.append(encoded(open_table(frame), schema)[0].tolist())
        assert first[0] == first[1]
    book = Features.fit(pl.DataFrame({"x": ["1", "2", "2020-01-02", "01:00:00"]}), columns=["x"])
    codes = [book.encode(next(open_table(ODD_FRAMES[odd](any_)).batches(["x"])))[0].tolist() for any_ in (False, True)]
    assert codes[0] == codes[1]


def test_what_cannot_be_read_is_an_unknown_cell():
    """The owner hears of it: a container or a day is no number and no answer, and not missing either."""
    frames = [pandas_objects([[1], b"1"], None), pandas_plain([1j, 2j], None)]
    frames += [polars_plain(cells, None) for cells in ([DAY, NEXT], [MIDNIGHT, NOON], [datetime.time(1)] * 2)]
    for column in (NUMBER, FLAG, category("1", "2")):
        schema = Schema(TableInfo(), (column,))
        for frame in frames:
            assert encode(next(open_table(frame).blocks(["x"])), schema).repairs == {"x": Repairs(unknown=2)}


@pytest.mark.parametrize("other", [None, pd.Interval(0.5, 1.5), "elsewhere"])
def test_one_interval_changes_no_other(other):
    """A missing or a fractional interval gives the whole ends of all others a point."""
    values = ["(0, 1]", "(1, 2]"]
    schema = Schema.from_dict({"columns": {"x": {"kind": "category", "values": values}}})

    def rows(cells):
        table = open_table(pd.DataFrame({"x": pd.Series(cells)}))
        return np.vstack([encode(batch, schema).values for batch in table.blocks(["x"])])

    plain = [pd.Interval(i % 2, i % 2 + 1) for i in range(6)]
    before, after = rows(plain), rows([other, *plain[1:]])
    assert before.any(axis=1).all()
    assert np.array_equal(before[1:], after[1:])
