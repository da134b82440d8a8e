"""Kinds of cells: what a schema may declare of each, what is refused and in which words, files that say the same."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.cell_kinds.cell_kind import countable, level_at, on_grid
from adumbra.declare.column import CELL_KINDS, COLUMN_KEYS, TYPES, Column
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import GRID, HALF
from tests.declare.kinds import columns, schemas

YEAR = "low = 2020-01-01\nhigh = 2020-12-31"
WHOLE = 'kind = "number"\nlow = 0\nhigh = 10'


def parsed(body: str) -> Column:
    return Schema.parse(f"[columns.x]\n{body}\n").columns[0]


# ---- what is accepted, and the one form it is kept in

ACCEPTED = {
    "a day in TOML": (f'kind = "date"\n{YEAR}', {"low": "2020-01-01", "high": "2020-12-31", "step": "day"}),
    "a day as text": ('kind = "date"\nlow = "2020-01-01"\nhigh = "2020-12-31"', {"low": "2020-01-01"}),
    "days from a midnight": ('kind = "date"\nlow = 2020-01-01T00:00:00\nhigh = 2020-12-31', {"low": "2020-01-01"}),
    "a moment": (
        'kind = "datetime"\nlow = 2020-01-01T08:00:00\nhigh = "2020-01-02 08:00"',
        {"low": "2020-01-01T08:00:00", "high": "2020-01-02T08:00:00", "step": "second"},
    ),
    "a moment by the hour in a zone": (
        f'kind = "datetime"\n{YEAR}\nstep = "hour"\nzone = "Europe/Paris"',
        {"zone": "Europe/Paris", "step": "hour"},
    ),
    "the whole day": ('kind = "time"', {"low": "00:00:00", "high": "23:59:59", "step": "second"}),
    "the whole day by minutes": ('kind = "time"\nstep = "minute"\nhigh = "24:00"', {"high": "23:59:00"}),
    "a time in TOML": ('kind = "time"\nlow = 08:00:00\nhigh = "9:30"', {"low": "08:00:00", "high": "09:30:00"}),
    "a duration": ('kind = "duration"\nlow = 0\nhigh = "3d 04:00:00"', {"low": "00:00:00", "high": "3d 04:00:00"}),
    "ISO": ('kind = "duration"\nlow = "-PT4H"\nhigh = "P2DT1S"', {"low": "-04:00:00", "high": "2d 00:00:01"}),
    "spikes and missing of a date": (
        f'kind = "date"\n{YEAR}\nspikes = [2020-06-01, "2020-12-31"]\nmissing = 2020-02-29',
        {"spikes": ("2020-06-01", "2020-12-31"), "missing": "2020-02-29"},
    ),
    "a format of digits": ('kind = "time"\nformat = "%H%M"\nstep = "minute"\ntype = "int16"', {"type": "int16"}),
    "a step as fine as the format": ('kind = "time"\nformat = "%H%M"', {"step": "minute", "high": "23:59:00"}),
    "hours, minutes and seconds": ('kind = "time"\nformat = "%H:%M:%S"', {"step": "second"}),
    "a format of days": (f'kind = "date"\n{YEAR}\nformat = "%d.%m.%Y"', {"format": "%d.%m.%Y"}),
    "the day of the year": (f'kind = "date"\n{YEAR}\nformat = "%Y%j"\ntype = "int32"', {"format": "%Y%j"}),
    "decimals": (f"{WHOLE}\ndecimals = 1", {"decimals": 1}),
    "a step": (f"{WHOLE}\nstep = 0.1", {"step": 0.1}),
    "a logarithm": ('kind = "number"\nlow = 0\nhigh = 1e6\nscale = "log"', {"scale": "log"}),
    "codes of a number": ('kind = "number"\nvalues = [0, 25, 50]', {"kind": "ordinal", "values": (0, 25, 50)}),
    "words in order": ('kind = "ordinal"\nvalues = ["low", "high"]\ntype = "categorical"', {"type": "categorical"}),
    "words of a flag": ('kind = "flag"\nvalues = ["no", "yes"]\nmissing = "no"', {"missing": "no"}),
    "numbers of a flag": ('kind = "flag"\nvalues = [1, 2]\ntype = "uint8"', {"values": (1, 2)}),
    "keep": (f'{WHOLE}\nmissing = "keep"', {"missing": None}),
    "a word of a flag for nothing": ('kind = "flag"\nblank = ["N"]', {"blank": ("N",)}),
    "Keep": ('kind = "category"\nvalues = ["a"]\nmissing = "Keep"', {"missing": None}),
    "blanks": (f'{WHOLE}\nblank = [-9, "N", 0.5]', {"blank": (-9, "N", 0.5)}),
    "the largest that 8 bits hold": ('kind = "number"\nlow = -128\nhigh = 127\ninteger = true\ntype = "int8"', {}),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_and_kept_in_one_form(case):
    body, wanted = ACCEPTED[case]
    column = parsed(body)
    assert {key: getattr(column, key) for key in wanted} == wanted
    schema = Schema(TableInfo(), (column,))
    assert Schema.parse(schema.to_toml()) == schema


def test_an_id_keeps_its_pattern_and_a_dropped_column_nothing():
    schema = Schema.parse('[columns.a]\nrole="id"\npattern="P-##"\nkind="date"\n[columns.b]\nrole="drop"\npattern=3\n'
                          '[columns.c]\nkind="flag"\n'.replace("pattern=3", 'pattern="x"'))  # fmt: skip
    assert [c.to_dict() for c in schema.columns[:2]] == [
        {"name": "a", "role": "id", "pattern": "P-##"}, {"name": "b", "role": "drop"},
    ]  # fmt: skip
    assert [c.name for c in schema.released] == ["a", "c"] and [c.name for c in schema.measured] == ["c"]


# ---- what is refused, and what to write instead

REFUSED = {
    "date without low": ('kind="date"\nhigh=2020-01-01', "declared low.*known without looking.*2020-01-31"),
    "date without high": ('kind="date"\nlow=2020-01-01', "declared high.*2020-01-31"),
    "datetime without low": ('kind="datetime"', "declared low.*2020-01-31T10:00:00"),
    "duration without low": ('kind="duration"', 'declared low.*"3d 04:00:00"'),
    "low after high": ('kind="date"\nlow=2021-01-01\nhigh=2020-01-01', "low before high.*exchange them"),
    "low is high": ('kind="time"\nlow="10:00"\nhigh="10:00"', "low before high"),
    "a night": ('kind="time"\nlow="22:00"\nhigh="06:00"', "low before high"),
    "no such day": ('kind="date"\nlow="2021-02-29"\nhigh=2022-01-01', "low as a date.*2020-01-31"),
    "a day as a number": ('kind="date"\nlow=20200101\nhigh=2022-01-01', "low as a date"),
    "a date with a time": ('kind="date"\nlow=2020-01-01T10:00:00\nhigh=2022-01-01', "low as a date"),
    "an end with an offset": ('kind="datetime"\nlow=2020-01-01T10:00:00Z\nhigh=2022-01-01', "low as a datetime"),
    "parts of a second": ('kind="datetime"\nlow=2020-01-01T10:00:00.5\nhigh=2022-01-01', "low as a datetime"),
    "no such time": ('kind="time"\nlow="10:60"', 'low as a time.*"10:00"'),
    "a time after the day": ('kind="time"\nhigh="25:00"', "high as a time"),
    "low at the end of the day": ('kind="time"\nlow="24:00"', "low as a time"),
    "a duration in words": ('kind="duration"\nlow="two days"\nhigh="P3D"', "low as a duration"),
    "a duration of years": ('kind="duration"\nlow="PT0S"\nhigh="P1Y"', "high as a duration"),
    "an endless duration": (f'kind="duration"\nlow="PT0S"\nhigh="{"9" * 5000}:00"', "high as a duration"),
    "a duration of half a second": ('kind="duration"\nlow=0.5\nhigh=9', "low as a duration"),
    "step week": (f'kind="date"\n{YEAR}\nstep="week"', 'step day.*write step = "day"'),
    "step hour of a date": (f'kind="date"\n{YEAR}\nstep="hour"', "step day"),
    "step day of a time": ('kind="time"\nstep="day"', "step hour or minute or second"),
    "step as a number of seconds": ('kind="duration"\nlow=0\nhigh=60\nstep=15', 'step day or hour.*"second"'),
    "ends between steps": ('kind="duration"\nlow="00:30"\nhigh="03:00"\nstep="hour"', "whole steps .hour. from low"),
    "format without %": (f'kind="date"\n{YEAR}\nformat="iso"', "format as text, such as %d.%m.%Y"),
    "format without a year": (f'kind="date"\n{YEAR}\nformat="%d.%m"', "format that tells every day apart.*%Y"),
    "format of months": (f'kind="date"\n{YEAR}\nformat="%Y-%m"', "format that tells every day apart"),
    "format without minutes": (f'kind="datetime"\n{YEAR}\nstep="minute"\nformat="%Y-%m-%d"', "minute apart.*coarser"),
    "format without morning and evening": ('kind="time"\nstep="minute"\nformat="%I:%M"', "every minute apart"),
    "format of nothing": (f'kind="date"\n{YEAR}\nformat="%Q"', "format that tells every day apart"),
    "format that ends early": (f'kind="date"\n{YEAR}\nformat="%Y%m%d%"', "format that tells every day apart"),
    "format that forgets the century": ('kind="date"\nlow=1950-01-01\nhigh=2050-01-01\nformat="%d.%m.%y"', "apart"),
    "format of a number": (f"{WHOLE}\nformat='%d'", "no format for kind number.*delete format"),
    "format as a number": (f'kind="date"\n{YEAR}\nformat=8', "format as text"),
    "zone unknown": (f'kind="datetime"\n{YEAR}\nzone="Mars/Base"', 'known time zone.*write zone = "Europe/Paris"'),
    "zone of a date": (f'kind="date"\n{YEAR}\nzone="UTC"', "no zone for kind date"),
    "an end that the clock leaves out": (
        'kind="datetime"\nlow=2020-03-29T02:30:00\nhigh=2021-01-01\nzone="Europe/Paris"', "Europe/Paris.*leaves out"),
    "type of a date": (f'kind="date"\n{YEAR}\ntype="int32"', "type string.*digits alone"),
    "type too small for the digits": (f'kind="date"\n{YEAR}\nformat="%Y%m%d"\ntype="int16"', "type string or int32"),
    "missing outside the days": (f'kind="date"\n{YEAR}\nmissing=2019-12-31', "missing between low = 2020-01-01"),
    "missing no day": (f'kind="date"\n{YEAR}\nmissing="unknown"', "missing between.*delete it"),
    "spikes outside the days": (f'kind="date"\n{YEAR}\nspikes=[2020-06-01, 2022-01-01]', "spikes between low"),
    "spikes outside": (f"{WHOLE}\nspikes=[5, 11]", "spikes between low = 0 and high = 10.*spikes = 11"),
    "spikes as a number": (f"{WHOLE}\nspikes=5", r"spikes as a list.*write spikes = \[...\]"),
    "spikes of words": (f'{WHOLE}\nspikes=["0"]', "spikes as a number"),
    "spikes of a category": ('kind="category"\nvalues=["a"]\nspikes=["a"]', "no spikes for kind category"),
    "decimals below 0": (f"{WHOLE}\ndecimals=-1", "decimals from 0 to 12.*decimals = -1.*decimals = 1"),
    "decimals of a half": (f"{WHOLE}\ndecimals=1.5", "decimals from 0 to 12"),
    "decimals true": (f"{WHOLE}\ndecimals=true", "decimals from 0 to 12"),
    "a step that does not divide": (f"{WHOLE}\nstep=3", "range of whole steps.*step of 3"),
    "an empty list": ('kind="category"\nvalues=["a"]\nlow=[]', "no low for kind category"),
    "a step of 0": (f"{WHOLE}\nstep=0", "range of whole steps"),
    "a step below 0": (f"{WHOLE}\nstep=-1", "range of whole steps"),
    "a step longer than the range": (f"{WHOLE}\nstep=20", "range of whole steps"),
    "a step in words": (f'{WHOLE}\nstep="day"', "step as a number"),
    "integer and decimals": (f"{WHOLE}\ninteger=true\ndecimals=0", "one of integer, step, decimals.*integer and"),
    "step and decimals": (f"{WHOLE}\nstep=0.5\ndecimals=1", "one of integer, step, decimals.*keep one"),
    "scale": (f'{WHOLE}\nscale="sqrt"', 'scale log, or none.*write scale = "log"'),
    "a logarithm without end": ('kind="number"\nlow=1e-280\nhigh=1e280\nscale="log"', "for scale log"),
    "type too small": (f'{WHOLE[:-2]}1000\ninteger=true\ntype="int8"', "whole numbers from -128 to 127.*0 to 1000"),
    "type without signs": ('kind="number"\nlow=-1\nhigh=1\ninteger=true\ntype="uint8"', "whole numbers from 0 to 255"),
    "type of whole numbers for others": (f'{WHOLE}\ntype="int64"', "not all whole"),
    "type of text for a number": (f'{WHOLE}\ntype="string"', "a type of numbers.*int64 or float64"),
    "type too short": ('kind="number"\nlow=0\nhigh=1e100\ntype="float32"', 'type float32.*"float64"'),
    "type unknown": (f'{WHOLE}\ntype="integer"', 'type one of.*write type = "int'),
    "type that is a kind": (f'{WHOLE}\ntype="date"', "did you mean kind"),
    "type of numbers for words": ('kind="category"\nvalues=["a"]\ntype="int8"', "type string or categorical"),
    "type of words for numbers": ('kind="ordinal"\nvalues=[1, 2]\ntype="categorical"', "values of text.*quotes"),
    "values of a number with low": (f"{WHOLE}\nvalues=[0, 5]", "no values for kind number"),
    "ordinal without values": ('kind="ordinal"', "declared values"),
    "ordinal of one": ('kind="ordinal"\nvalues=[1]', "at least two values in order"),
    "three words of a flag": ('kind="flag"\nvalues=["a","b","c"]', 'two values.*3 values.*"no", "yes"'),
    "missing of a flag with words": ('kind="flag"\nvalues=["n","y"]\nmissing=true', "missing among"),
    "missing keep that is a value": ('kind="category"\nvalues=["keep", "b"]\nmissing="keep"', "mean one thing only"),
    "blank that is a value": ('kind="category"\nvalues=["a", "N"]\nblank=["N"]', "blank words that are no declared"),
    "blank that spells a value": ('kind="ordinal"\nvalues=[1, 2]\nblank=["01"]', "blank words that are no declared"),
    "blank that is a spike": (f"{WHOLE}\nspikes=[0]\nblank=[0.0]", "blank words that are no declared"),
    "blank as a word": (f'{WHOLE}\nblank="N"', "blank as a list"),
    "blank of nan": (f"{WHOLE}\nblank=[nan]", "blank as a list of words or numbers.*nan"),
    "blank of a day": (f'kind="date"\n{YEAR}\nblank=[1900-01-01]', "blank as a list of words or numbers"),
    "pattern without signs": ('role="id"\npattern="P"', "pattern with a # or a @.*P-#####"),
    "pattern as a number": ('role="id"\npattern=3', "pattern as text"),
    "pattern of no id": (f'{WHOLE}\npattern="P-#"', "no pattern for kind number"),
    "most of no set": (f"{WHOLE}\nmost=3", "no most for kind number"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_column_and_what_to_write(case):
    body, message = REFUSED[case]
    with pytest.raises(InputError, match=f"(?s){message}") as caught:
        Schema.parse(f'[columns.x]\n{body}\n[columns.other]\nkind="flag"\n')
    assert "'x'" in caught.value.expected and caught.value.got and caught.value.remedy


@pytest.mark.parametrize("blank", ["N", [True], [[]], [float("nan")], [10**400], {"a": 1}, None])
def test_blank_words_of_a_table_are_words_or_numbers(blank):
    with pytest.raises(InputError, match="blank as a list of words or numbers"):
        Schema.from_dict({"table": {"blank": blank}, "columns": {"x": {"kind": "flag"}}})


# ---- no value of any key ends in anything but a column or an InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["keep", "day", "%Y", "%H%M", "log", "UTC", "10:00", "2020-01-01", "P1D", "-1 days", 10**400, ""])
    | st.dates() | st.datetimes() | st.times() | st.sampled_from(TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
SOUND: dict[str, dict[str, object]] = {
    "number": {"low": 0, "high": 10},
    "category": {"values": ["a", "b"]},
    "flag": {},
    "ordinal": {"values": [1, 2, 3]},
    "date": {"low": "2020-01-01", "high": "2020-12-31"},
    "datetime": {"low": "2020-01-01", "high": "2020-12-31", "step": "hour"},
    "time": {"step": "minute"},
    "duration": {"low": 0, "high": 3600},
    "set": {"values": ["a", "b"], "most": 1},
}


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(SOUND)), st.dictionaries(st.sampled_from(COLUMN_KEYS), JSON, min_size=1, max_size=3))
@example("flag", {"type": ["int8"]})
@example("number", {"spikes": 3})
@example("duration", {"high": "9" * 5000 + ":00"})
@example("date", {"format": "%"})
@example("time", {"low": datetime.time(10, tzinfo=datetime.UTC)})
def test_any_value_of_any_key_is_a_column_or_an_input_error(kind, changed):
    fields = {"kind": kind, **SOUND[kind], **changed}
    try:
        schema = Schema.from_dict({"columns": {"x": fields, "y": {"kind": "flag"}}})
    except InputError as error:
        assert error.expected and error.got and error.remedy
        return
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert Schema.parse(schema.to_toml()) == schema


def test_every_kind_is_fuzzed():
    assert set(SOUND) == set(CELL_KINDS)


# ---- files say what the schema says


@settings(max_examples=200, deadline=None)
@given(schemas())
def test_schemas_of_all_kinds_survive_their_files(schema):
    assert Schema.parse(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True))) == schema
    assert hash(schema) == hash(Schema.parse(schema.to_toml()))


# ---- what the encoding rests on


@settings(max_examples=200, deadline=None)
@given(columns("x"))
def test_blocks_are_inside_the_grid_and_never_at_0(column):
    cells = column.cells
    if cells.fallback is not None and cells.block != "category":
        assert -HALF <= cells.fallback <= HALF and cells.fallback != 0
    assert all(-HALF <= spike <= HALF and spike != 0 for spike in cells.spikes)
    assert cells.levels is None or 2 <= cells.levels <= GRID


@pytest.mark.parametrize("levels", [2, 3, 4, 101, 366, 1440, 32767, 32768, 40000, 65534, 65536])
def test_levels_of_the_grid_are_told_apart(levels):
    assert countable(levels) == levels
    places = on_grid(np.arange(levels) / (levels - 1))
    assert len(np.unique(places)) == levels and not (places == 0).any()
    assert (level_at(places, levels) == np.arange(levels)).all()


@pytest.mark.parametrize("levels", [32769, 40001, 65535, 65537, 10**9])
def test_more_levels_than_the_grid_tells_apart_are_none(levels):
    assert countable(levels) is None
