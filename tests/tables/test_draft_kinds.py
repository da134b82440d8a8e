"""What a draft recognises, column by column: the kinds, ids, sets, blanks, spikes, ranges and types."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.column import CELL_KINDS
from adumbra.declare.schema import Schema
from adumbra.tables.drafting.distinct import Distinct
from adumbra.tables.drafting.ranges import outward, years
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema


def confirmed(draft: str) -> Schema:
    return Schema.parse(re.sub(r"(?m)^# ", "", draft))


def section(cells: Any, name: str = "x") -> str:
    """What the draft says of one column, beside another that is always there."""
    frame = pl.DataFrame({name: cells}) if not isinstance(cells, pl.Series) else cells.alias(name).to_frame()
    frame = frame.with_columns(pl.Series("other_", [f"{i % 3}z" for i in range(frame.height)]))
    draft = draft_schema(open_table(frame))
    with pytest.raises(InputError):
        Schema.parse(draft)
    if f'kind = "{"set"}"' not in draft or "set" in CELL_KINDS:
        confirmed(draft)
    return draft.split("[columns.")[1].split("\n", 1)[1]


RNG = np.random.default_rng(5)
DAYS = [datetime.date(2019, 3, 1) + datetime.timedelta(days=i % 500) for i in range(600)]


def clock_numbers() -> list[int]:
    return [int(h) * 100 + int(m) for h, m in zip(RNG.integers(0, 24, 600), RNG.integers(0, 60, 600), strict=True)]


NUMBERS: dict[str, tuple[Any, list[str], list[str]]] = {
    "whole": ([17 + i % 74 for i in range(900)], ["integer = true", "# low = 10", "# high = 90"], ["decimals", "few"]),
    "one decimal": ([i % 400 / 10 for i in range(900)], ["# decimals = 1"], ["integer"]),
    "three decimals as text": ([f"{i / 1000:.3f}" for i in range(900)], ["# decimals = 3"], []),
    "any number": (list(RNG.normal(size=900)), ["# low = "], ["decimals", "integer"]),
    "year": ([2013] * 90, ["# low = 2010", "# high = 2020", "a constant"], ["1000", "3100", "few whole"]),
    "years": ([1987 + i % 30 for i in range(900)], ["# low = 1980", "# high = 2020"], []),
    "few": ([i % 4 for i in range(90)], ["few whole numbers", "values = [0, 1, 2, 3]", "# low = 0", "# high = 3"], []),
    "codes with gaps": (
        [[1, 2, 3, 8, 15, 16][i % 6] for i in range(900)],
        ['kind = "ordinal"', "# values = [1, 2, 3, 8, 15, 16]", 'kind = "category"'],
        ["# low"],
    ),
    "the tail of a count is no code": ([*[i % 5 for i in range(900)], 19], ['kind = "number"'], ['\nkind = "ordinal"']),
    "quarters": ([[0, 25, 50, 75, 100][i % 5] for i in range(900)], ["# values = [0, 25, 50, 75, 100]"], []),
    "many values": ([13 * i % 10_007 for i in range(5000)], ["integer = true"], ["few", "values"]),
    "a spike": ([*[0] * 500, *range(1, 500)], ["# spikes = [0]"], []),
    "two spikes": ([*[0] * 300, *[40] * 300, *range(1, 500)], ["# spikes = [0, 40]"], []),
    "a smooth peak is no spike": (list(RNG.normal(0, 8, 3000).round()), ["integer = true"], ["spikes"]),
    "a long tail": (list(np.exp(RNG.normal(3, 2.5, 3000)).round(2)), ['scale = "log"'], ['# scale = "log"']),
    "no tail": ([i % 1000 for i in range(3000)], [], ["log"]),
    "blank words": ([["N", "12", "7", "30"][i % 4] for i in range(900)], ['kind = "number"', '# blank = ["N"]'], []),
    "blank numbers": ([*range(1, 80), *[-9] * 9], ["# blank = [-9]", "# low = 0"], ["-9\n# high"]),
    "999": ([*range(1, 80), *[999] * 9], ["# blank = [999]", "# high = 80"], []),
    "999 among others": ([*range(1, 1500), 999, 999], ["# high = 1600"], ["blank"]),
    "-1 and 1": ([[-1, 1][i % 2] for i in range(90)], ["# low = -1", "# high = 1"], ["blank"]),
    "months": ([1 + i % 12 for i in range(90)], [], ["few"]),
    "hhmm": (clock_numbers(), [], ['format = "%H%M" instead\n# format']),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers(case):
    cells, there, not_there = NUMBERS[case]
    said = section(cells, {"months": "month", "hhmm": "dep_time"}.get(case, "x"))
    assert 'kind = "number"' in said or 'kind = "ordinal"' in said
    for text in there:
        assert text in said, said
    for text in not_there:
        assert text not in said, said


def test_what_a_name_says_of_a_number_is_taken_before_the_rows():
    assert "# low = 1\n# high = 31" in section([1 + i % 28 for i in range(300)], "day")
    assert "# low = 0\n# high = 110" in section([18 + i % 60 for i in range(300)], "age")
    assert "# high = 110" not in section([18 + i % 120 for i in range(300)], "age")
    assert 'format = "%H%M"' in section(clock_numbers(), "dep_time")
    assert 'format = "%H%M"' not in section([100 + i % 60 for i in range(300)])


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.sampled_from([0, 1, 2, 6, None]))
def test_ranges_hold_what_was_seen(low, width, decimals):
    if decimals is not None:
        low, width = round(low, decimals), round(width, decimals)
    high = low + width
    start, end = outward(low, high, decimals)
    assert start <= low + 1e-9 * abs(low) and end >= high - 1e-9 * abs(high)
    assert end - start <= 2 * width + 10.0 ** -(decimals or 0) * 10 or width == 0


@given(st.integers(1900, 2100), st.integers(0, 100))
def test_years_are_whole_decades(first, more):
    low, high = years(first, first + more)
    assert low <= first and high >= first + more and low % 10 == high % 10 == 0 and low < high <= first + more + 10


MOMENTS: dict[str, tuple[Any, list[str]]] = {
    "native days": (DAYS, ['kind = "date"', "# low = 2019-01-01", "# high = 2020-12-31"]),
    "ISO days": ([d.isoformat() for d in DAYS], ['kind = "date"', "# low = 2019-01-01", "# high = 2020-12-31"]),
    "days with dots": ([d.strftime("%d.%m.%Y") for d in DAYS], ['kind = "date"', '# format = "%d.%m.%Y"']),
    "American days": ([d.strftime("%m/%d/%Y") for d in DAYS], ['# format = "%m/%d/%Y"']),
    "days with slashes": ([d.strftime("%d/%m/%Y") for d in DAYS], ['# format = "%d/%m/%Y"']),
    "days either way": (
        [f"0{1 + i % 9}/0{1 + i % 8}/2020" for i in range(90)],
        ["question: day or month first? %m/%d/%Y and %d/%m/%Y both fit", '# format = "%m/%d/%Y"'],
    ),
    "digits": ([d.strftime("%Y%m%d") for d in DAYS], ['kind = "date"', '# format = "%Y%m%d"']),
    "a word besides": ([*[d.isoformat() for d in DAYS], "unknown"], ['kind = "date"', '# blank = ["unknown"]']),
    "moments": (
        [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=7 * i) for i in range(90)],
        ['kind = "datetime"', "# low = 2020-01-01T00:00:00", "# high = 2021-01-01T00:00:00", '# step = "hour"'],
    ),
    "moments as text": ([f"2020-01-{1 + i % 28:02} 10:{i % 60:02}:07" for i in range(90)], ['# step = "second"']),
    "moments to the minute": ([f"2020-01-{1 + i % 28:02}T10:{i % 60:02}" for i in range(90)], ['# step = "minute"']),
    "moments of another form": (
        [f"{1 + i % 28:02}/01/2020 10:{i % 60:02}:00" for i in range(90)],
        ['kind = "datetime"', '# format = "%d/%m/%Y %H:%M:%S"', '# step = "minute"'],
    ),
    "moments with offsets": ([f"2020-01-{1 + i % 28:02}T10:00:00Z" for i in range(90)], ['# zone = "UTC"']),
    "clocks": ([f"{i % 24:02}:{i % 60:02}" for i in range(90)], ['# kind = "time"', '# step = "minute"']),
    "clocks with seconds": (
        [f"{i % 24:02}:{i % 60:02}:09" for i in range(90)],
        ['# kind = "time"', '# step = "second"'],
    ),
    "native clocks": ([datetime.time(i % 24, i % 60) for i in range(90)], ['# kind = "time"', '# step = "minute"']),
    "long spans": ([f"{20 + i}:{i % 60:02}:00" for i in range(90)], ['# kind = "duration"', '# step = "minute"']),
    "spans of days": ([f"{i % 9}d 04:00:00" for i in range(90)], ['# kind = "duration"', '# high = "10d 00:00:00"']),
    "ISO spans": ([f"PT{i % 9 + 1}H" for i in range(90)], ['# kind = "duration"', '# step = "hour"']),
}


@pytest.mark.parametrize("case", MOMENTS)
def test_moments(case):
    cells, there = MOMENTS[case]
    said = section(cells)
    for text in there:
        assert text in said, said
    assert "values = " not in said


def test_a_zone_is_part_of_the_type():
    moments = pl.Series([datetime.datetime(2020, 1, 1, i % 24) for i in range(90)])
    assert '\nzone = "Europe/Paris"' in section(moments.dt.replace_time_zone("Europe/Paris"))


FIRST_NAMES = [f"{a}{b}" for a in ("Ada", "Ben", "Cy", "Dot", "Eve", "Fay", "Gus") for b in range(120)]
TEXTS: dict[str, tuple[str, list[str], list[str], list[str]]] = {
    "ids": ("x", [f"P-{i:05}" for i in range(300)], ['# role = "id"', '# pattern = "P-#####"', "every row"], ["kind"]),
    "ids with letters": ("x", [f"{'ABCD'[i % 4]}{i:03}x" for i in range(300)], ['# pattern = "@###x"'], []),
    "ids of two shapes": ("x", [f"P{i}" for i in range(300)], ['# role = "id"'], ["pattern"]),
    "repeated ids": (
        "tail",
        [f"N{i % 1500}" for i in range(9000)],
        ['# role = "drop"', "about 1,500 values in 9,000 rows", 'several rows, and unit = "row" protects one of them'],
        ["every row has its own"],
    ),
    "persons by number": ("subject", [f"{i % 30}" for i in range(900)], ['# role = "drop"', 'unit = "row"'], ["kind"]),
    "names": ("first_name", [FIRST_NAMES[i % 831] for i in range(9000)], ['# role = "drop"'], ["Ada", "values ="]),
    "few last names": ("last_name", [f"n{i % 27}x" for i in range(900)], ['# role = "drop"', "only if the whole"], []),
    "names by another name": ("who", [FIRST_NAMES[i % 831] for i in range(9000)], ['# role = "drop"'], ["Ada"]),
    "addresses": ("email", [f"a{i}@b.org" for i in range(300)], ['# role = "drop"'], ["a1@"]),
    "free text": (
        "x",
        [f"the patient said on day {i} that it was better than before" for i in range(300)],
        ["free text", '# role = "drop"'],
        ["better"],
    ),
    "categories": ("x", ["red", "blue"] * 90, ['kind = "category"', '# values = ["blue", "red"]'], []),
    "unknown": ("x", ["red", "blue", "unknown"] * 9, ['# values = ["blue", "red"]', '# blank = ["unknown"]'], []),
    "north": ("x", ["N", "S", "E", "W"] * 9, ['# values = ["E", "N", "S", "W"]'], ["blank"]),
    "many categories": ("x", [f"c{int(i**0.5)}" for i in range(9000)], ["is the whole list public"], ["role"]),
    "words of a flag": ("x", ["n", "y"] * 9, ['# kind = "flag"', '# values = ["n", "y"]'], ['\nkind']),
    "yes and no": ("x", ["Yes", "No"] * 9, ['# kind = "flag"', '# values = ["No", "Yes"]'], []),
    "true and false": ("x", ["true", "false"] * 9, ['# kind = "flag"'], ["values = "]),
    "0 and 1": ("x", ["0", "1"] * 9, ['# kind = "flag"', "# values = [0, 1]"], []),
    "0, 1 and N": ("x", ["0", "1", "N"] * 9, ['# kind = "flag"', "# values = [0, 1]", '# blank = ["N"]'], []),
    "a flag of which some is unknown": ("x", ["no", "yes", "unknown"] * 9, ['# values = ["no", "yes"]', "blank"], []),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case):
    name, cells, there, not_there = TEXTS[case]
    said = section(cells, name)
    for text in there:
        assert text in said, said
    for text in not_there:
        assert text not in said, said


def baskets(mark: str, items: int, rows: int = 2000) -> list[str]:
    drawn = [RNG.choice(items, size=1 + int(RNG.integers(0, 6)), replace=False) for _ in range(rows)]
    return [mark.join(f"i{item}" for item in sorted(cells)) for cells in drawn]


@pytest.mark.parametrize("mark", [" ", ",", ";", "|"])
def test_sets(mark):
    said = section(baskets(mark, 40))
    assert 'kind = "set"' in said and f'# separator = "{mark}"' in said
    assert "# most = 10" in said and said.count('"i') == 40


def test_of_very_many_items_the_commonest_are_shown():
    said = section([f"i{i % 10} i{10 + i % 3001}" + " i7000" * (i % 2) + " i8000" * (i % 3 > 0) for i in range(20_000)])
    assert 'kind = "set"' in said and "different items: list those of interest" in said
    assert len(re.findall(r'"i\d+"', said)) == 50


def test_words_with_spaces_are_no_sets():
    said = section(["day surgery", "emergency room", "ward of the day", "day clinic"] * 90)
    assert 'kind = "category"' in said and "separator" not in said


def test_every_row_has_its_own_value_only_if_that_is_known():
    same = [f"v{i}" for i in range(40_000)]
    assert "every row has its own value" in section(same)
    assert "every row has its own value" not in section([*same[:-1], "v0"])


def test_a_count_of_values_in_bounded_memory():
    small, large = Distinct(1000), Distinct(10**6)
    for start in range(0, 50_000, 5000):
        values = pl.Series([f"v{i}" for i in range(start, start + 5000)])
        for distinct in (small, large):
            distinct.add(values, pl.Series([1] * 5000))
    assert large.exact and large.number == 50_000 and not large.repeat
    assert not small.exact and 40_000 < small.number < 60_000 and not small.repeat


TYPES = {
    "int16": (pl.Series(range(90), dtype=pl.Int16) * 3 % 50, '\ntype = "int16"'),
    "int64": (pl.Series(range(90), dtype=pl.Int64) * 3 % 50, None),
    "float32": (pl.Series(np.linspace(0, 1, 90), dtype=pl.Float32), '\ntype = "float32"'),
    "whole floats": (pl.Series([float(i * 3 % 50) for i in range(90)]), None),
    "categorical": (pl.Series(["a", "b"] * 45, dtype=pl.Categorical), '\ntype = "categorical"'),
    "enumeration": (pl.Series(["b", "a"] * 45, dtype=pl.Enum(["b", "a", "c"])), '# values = ["b", "a", "c"]\ntype'),
}


@pytest.mark.parametrize("case", TYPES)
def test_types(case):
    cells, line = TYPES[case]
    said = section(cells)
    assert line in said if line is not None else "type" not in said


def test_types_of_pandas_that_an_empty_cell_would_change_are_suggestions():
    frame = pd.DataFrame({"a": np.arange(90, dtype=np.int16) * 3 % 50, "b": np.linspace(0, 1, 90, dtype=np.float32)})
    frame["c"] = pd.Categorical(["low", "high", "high"] * 30, categories=["low", "middle", "high"], ordered=True)
    frame["d"] = pd.Series([1.0, 2.0, None] * 30)
    a, b, c, d = draft_schema(open_table(frame)).split("[columns.")[1:]
    assert '\n# type = "int16"' in a and '\ntype = "float32"' in b and "integer = true" in d and "type" not in d
    assert 'kind = "ordinal"' in c and '# values = ["low", "middle", "high"]\ntype = "categorical"' in c
    table = pa.table({"a": pa.array(["x", "y"] * 45).dictionary_encode()})
    assert '\ntype = "categorical"' in draft_schema(open_table(table))


def test_no_imputation_is_suggested():
    frame = pl.DataFrame({"a": [1, 2, None] * 90, "b": ["x", None, "y"] * 90, "c": [True, None, False] * 90})
    draft = draft_schema(open_table(frame))
    assert not re.search(r"(?m)^#? ?missing", draft)
    assert draft.count("about 33 % of the cells are empty: they are kept as empty cells") == 3


def test_a_word_for_nothing_in_many_columns_is_declared_once():
    frame = pl.DataFrame({name: ["1", "2", "7", "N"] * 90 for name in "abc"})
    draft = draft_schema(open_table(frame))
    assert draft.count('# blank = ["N"]') == 1 and draft.index("blank") < draft.index("[columns")
    assert confirmed(draft).table.blank == ("N",)


ANY = st.one_of(
    st.lists(st.sampled_from(["2020-01-02", "2021-12-31", "unknown", "", "N"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["1", "2", "-9", "999", "N", "?", "2.5"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["a b", "b c", "a", "a b c", "c"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["10:00", "23:59", "24:00", "7:5"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["P1D", "PT4H", "30:00:00", "1d 04:00:00"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["yes", "no", "0", "1", "N", "unknown"]), min_size=1, max_size=40),
    st.lists(st.sampled_from(["9999-12-31", "0001-01-01", "31.12.9999"]), min_size=1, max_size=40),
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=40),
    st.lists(st.none() | st.dates(), min_size=1, max_size=40),
    st.lists(st.none() | st.times(), min_size=1, max_size=40),
    st.lists(st.none() | st.datetimes(), min_size=1, max_size=40),
    st.lists(st.none() | st.booleans(), min_size=1, max_size=40),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ANY, min_size=1, max_size=4), st.integers(1, 3))
def test_whatever_the_cells_a_confirmed_draft_loads(columns, copies):
    height = max(map(len, columns)) * copies
    frame = pl.DataFrame({f"c{i}": (cells * height)[:height] for i, cells in enumerate(columns)}, strict=False)
    frame = frame.with_columns(pl.Series("last", [i / 7 for i in range(height)]))
    draft = draft_schema(open_table(frame))
    with pytest.raises(InputError):
        Schema.parse(draft)
    assert [c.name for c in confirmed(draft).columns] == frame.columns
