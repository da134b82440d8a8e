"""The schema file: what is accepted, what is refused and in which words, and the round trip."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra.common.errors import InputError
from adumbra.declare.column import MAX_VALUES, Column
from adumbra.declare.guarantee import Unit
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.space import GRID
from adumbra.declare.spelling import key

EXAMPLE = """
[table]
unit = "row"
rows = 569
[columns.age]
kind = "number"
low = 0
high = 110
missing = 40
[columns.sex]
kind = "category"
values = ["F", "M"]
[columns.smoker]
kind = "flag"
[columns.outcome]
kind = "category"
values = ["alive", "dead"]
role = "label"
[columns.id]
role = "drop"
"""


def test_example_of_the_interface():
    schema = Schema.parse(EXAMPLE)
    assert schema.table == TableInfo(unit=Unit.ROW, rows=569)
    assert [c.name for c in schema.released] == ["age", "sex", "smoker", "outcome"]
    assert [(b.start, b.width, b.kind) for b in schema.space().blocks] == [
        (0, 1, "number"), (1, 2, "category"), (3, 1, "flag"), (4, 2, "category"),
    ]  # fmt: skip
    assert schema.column("age").missing == 40.0
    assert schema.column("outcome").role == "label"
    with pytest.raises(InputError, match="'agee'"):
        schema.column("agee")


def test_row_bound_is_rounded_down_to_grid_steps():
    schema = Schema.parse(EXAMPLE)
    assert schema.space().row_bound is None
    assert schema.space(1.0).row_bound == GRID
    assert schema.space(math.nextafter(1.0, 0)).row_bound == GRID - 1
    for bad in (0.0, -1.0, math.nan, math.inf, 0.5 / GRID):
        with pytest.raises(InputError, match="row bound"):
            schema.space(bad)


def section(body: str, name: str = "x") -> str:
    return f"[columns.{name}]\n{body}\n"


REFUSED = {
    "no low": ('kind="number"\nhigh=1', "'x'.*declared low.*known without looking"),
    "no high": ('kind="number"\nlow=1', "'x'.*declared high"),
    "no values": ('kind="category"', "'x'.*declared values.*known without looking"),
    "empty values": ('kind="category"\nvalues=[]', "'x'.*declared values"),
    "no kind": ("", "'x'.*kind"),
    "low = high": ('kind="number"\nlow=1\nhigh=1', "'x'.*low < high"),
    "low > high": ('kind="number"\nlow=2\nhigh=1', "'x'.*low < high"),
    "nan": ('kind="number"\nlow=nan\nhigh=1', "'x'.*finite low"),
    "inf": ('kind="number"\nlow=0\nhigh=inf', "'x'.*finite high"),
    "huge whole": (f'kind="number"\nlow=0\nhigh=1{"0" * 400}', "'x'.*finite high"),
    "far apart": ('kind="number"\nlow=-1e308\nhigh=1e308', "'x'.*high - low between"),
    "tiny": ('kind="number"\nlow=0\nhigh=1e-320', "'x'.*high - low between"),
    "close": ('kind="number"\nlow=1e15\nhigh=1000000000000001', "'x'.*further apart"),
    "text low": ('kind="number"\nlow="0"\nhigh=1', "'x'.*low as a number"),
    "true low": ('kind="number"\nlow=true\nhigh=2', "'x'.*low as a number"),
    "date low": ('kind="number"\nlow=2020-01-01\nhigh=2', "'x'.*low as a number"),
    "integer ends": ('kind="number"\nlow=0.5\nhigh=2\ninteger=true', "'x'.*whole low and high"),
    "integer huge": ('kind="number"\nlow=0\nhigh=1e17\ninteger=true', "'x'.*whole low and high"),
    "integer text": ('kind="number"\nlow=0\nhigh=1\ninteger="yes"', "'x'.*integer true or false"),
    "missing outside": ('kind="number"\nlow=0\nhigh=1\nmissing=2', "'x'.*missing between"),
    "missing text": ('kind="number"\nlow=0\nhigh=1\nmissing="0"', "'x'.*missing as a number"),
    "missing nan": ('kind="number"\nlow=0\nhigh=1\nmissing=nan', "'x'.*finite missing"),
    "missing unknown": ('kind="category"\nvalues=["a"]\nmissing="b"', "'x'.*missing among"),
    "missing other type": ('kind="category"\nvalues=["1"]\nmissing=1', "'x'.*missing among"),
    "missing true of 1": ('kind="category"\nvalues=[1]\nmissing=true', "'x'.*missing among"),
    "missing of flag": ('kind="flag"\nmissing="no"', "'x'.*missing true or false"),
    "twice": ('kind="category"\nvalues=["a","b","a"]', "'x'.*each value once.*'a'"),
    "twice but for spaces": ('kind="category"\nvalues=["a"," a"]', "'x'.*each value once"),
    "twice in size": ('kind="category"\nvalues=[1,1.0]', "'x'.*each value once"),
    "indistinct integers": (f'kind="category"\nvalues=[{2**53},{2**53 + 1}]', "'x'.*each value once"),
    "mixed": ('kind="category"\nvalues=["a",1]', "'x'.*one type"),
    "mixed true": ('kind="category"\nvalues=[true,1]', "'x'.*one type"),
    "nested": ('kind="category"\nvalues=[["a"],["b"]]', "'x'.*one type"),
    "dates": ('kind="category"\nvalues=[2020-01-01]', "'x'.*one type"),
    "values nan": ('kind="category"\nvalues=[0.5,nan]', "'x'.*finite values"),
    "values huge": (f'kind="category"\nvalues=[{2**63}]', "'x'.*finite values"),
    "values text": ('kind="category"\nvalues="ab"', "'x'.*values as a list"),
    "flag with low": ('kind="flag"\nlow=0', "'x'.*no low for kind flag"),
    "number with values": ('kind="number"\nlow=0\nhigh=1\nvalues=[1]', "'x'.*no values for kind number"),
    "category with low": ('kind="category"\nvalues=["a"]\nlow=0', "'x'.*no low for kind category"),
    "unknown kind": ('kind="numbr"', "'x'.*kind one of.*write kind = \"number\""),
    "kind as number": ("kind=1", "'x'.*kind one of"),
    "kind as list": ('kind=["number"]', "'x'.*kind one of"),
    "unknown role": ('kind="flag"\nrole="lable"', "'x'.*role one of.*\"label\""),
    "key of another schema": ('type="number"\nlow=0\nhigh=1', "'x'.*'type'.*did you mean kind"),
    "its lower end": ('kind="number"\nminimum=0\nhigh=1', "'x'.*'minimum'.*did you mean low"),
    "unknown key": ('kind="number"\nlow=0\nhi=1', "'x'.*'hi'.*did you mean high"),
    "only dropped": ('role="drop"', "at least one released column"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_column_and_what_to_write(case):
    body, message = REFUSED[case]
    with pytest.raises(InputError, match=f"(?s){message}") as caught:
        Schema.parse(section(body))
    assert caught.value.expected and caught.value.got and caught.value.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "released column"),
        ("[columns]", "released column"),
        ("[column.x]\nkind='flag'", "'column'.*did you mean columns"),
        ("[age]\nkind='number'\nlow=0\nhigh=1", r"'age'.*stands under columns: write \[columns.age\]"),
        ("[label]\ntype='flag'", r"'label'.*stands under columns: write \[columns.label\]"),
        ("[table]\nrow=3\n" + section("kind='flag'"), "'row'.*did you mean rows"),
        ("[table]\nrows=0\n" + section("kind='flag'"), "rows as a whole number"),
        ("[table]\nrows=true\n" + section("kind='flag'"), "rows as a whole number"),
        ("[table]\nrows=1.5\n" + section("kind='flag'"), "rows as a whole number"),
        ("[table]\nunit='user'\n" + section("kind='flag'"), "unit row or cell"),
        ("[table]\nunit=['row']\n" + section("kind='flag'"), "unit row or cell"),
        ("[table]\nname=3\n" + section("kind='flag'"), "name as text"),
        ("table=3\n" + section("kind='flag'"), "table.*as a TOML table"),
        ("columns=3", "columns as TOML tables"),
        ("columns.x=3", "'x' as a TOML table"),
        ('[columns.""]\nkind="flag"', "name that is not empty"),
        (section("kind='flag'") * 2, "schema in TOML"),
        ("x = ", "schema in TOML"),
        ("x = " + "[" * 5000, "TOML"),
    ],
)
def test_refused_files(text, message):
    with pytest.raises(InputError, match=f"(?s){message}"):
        Schema.parse(text)


def test_refused_column_lists():
    with pytest.raises(InputError, match="'a' twice"):
        Schema.from_dict({"columns": [{"name": "a", "kind": "flag"}, {"name": "a", "kind": "flag"}]})
    with pytest.raises(InputError, match="not empty"):
        Schema.from_dict({"columns": [{"kind": "flag"}]})
    with pytest.raises(InputError, match="columns as TOML tables"):
        Schema.from_dict({"columns": ["a"]})


def test_number_of_values_is_limited():
    Column("x", "category", values=tuple(range(MAX_VALUES)))
    with pytest.raises(InputError, match="at most 100,000 values"):
        Column("x", "category", values=tuple(range(MAX_VALUES + 1)))


def test_load(tmp_path):
    good = tmp_path / "s.toml"
    good.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert Schema.load(good) == Schema.load(str(good)) == Schema.parse(EXAMPLE)
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(InputError, match="UTF-8"):
        Schema.load(tmp_path / "latin.toml")
    with pytest.raises(InputError, match="no file"):
        Schema.load(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="directory"):
        Schema.load(tmp_path)


def test_a_dropped_column_keeps_nothing_but_its_name():
    column = Column("id", "number", low=3.0, high=math.nan, integer=True, missing="x", values=(1,), role="drop")
    assert column == Column("id", role="drop")
    assert column.to_dict() == {"name": "id", "role": "drop"}
    assert column.width == 0


def test_order_of_columns_survives_sorted_keys():
    schema = Schema.parse(section('kind="flag"', "z") + section('kind="flag"', "a"))
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True)))
    assert [c.name for c in again.columns] == ["z", "a"]


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
TEXTS = st.lists(NAMES, min_size=1, max_size=5, unique_by=key).map(tuple)
NUMBERS = st.floats(-1e9, 1e9)


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(["number", "category", "flag", "drop"]))
    if kind == "drop":
        return Column(name, role="drop")
    role = draw(st.sampled_from([None, "label"]))
    if kind == "flag":
        return Column(name, "flag", missing=draw(st.none() | st.booleans()), role=role)
    if kind == "number":
        low = draw(NUMBERS)
        high = low + draw(st.floats(10, 1e12))
        missing = draw(st.none() | st.floats(low, high))
        return Column(name, "number", low=low, high=high, missing=missing, role=role)
    values = draw(
        TEXTS
        | st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=5, unique=True).map(tuple)
        | st.lists(NUMBERS, min_size=1, max_size=5, unique=True).map(tuple)
        | st.sampled_from([(True, False), (False, True), (True,)])
    )
    return Column(name, "category", values=values, missing=draw(st.none() | st.sampled_from(values)), role=role)


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    made = [draw(columns(name)) for name in names]
    if all(c.role == "drop" for c in made):
        made[0] = Column(names[0], "flag")
    info = TableInfo(
        draw(st.none() | NAMES.filter(str.strip)),
        draw(st.none() | st.sampled_from(list(Unit))),
        draw(st.none() | st.just(7)),
    )
    return Schema(info, tuple(made))


@settings(max_examples=150, deadline=None)
@given(schemas())
def test_round_trips(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True))) == schema
    assert Schema.parse(schema.to_toml()) == schema
    space = schema.space()
    assert space.width == sum(c.width for c in schema.released)
    assert [b.column for b in space.blocks] == [c.name for c in schema.released]


def test_values_that_spell_one_number_are_refused():
    with pytest.raises(ad.InputError, match="different numbers"):
        ad.Schema.from_dict({"columns": {"a": {"kind": "category", "values": ["01", "1", "2"]}}})
    ad.Schema.from_dict({"columns": {"a": {"kind": "category", "values": ["nan", "NaN", "1_0", "10", "x"]}}})
