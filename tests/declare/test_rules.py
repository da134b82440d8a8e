"""Rules between columns: the language, derived and dependent columns, contradictions, and whatever is not a rule."""

from __future__ import annotations

import datetime
import pickle
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.rules.literals import moment, moment_text
from adumbra.declare.rules.rules import Rules

DAY = datetime.date
LETTERS = ("A", "B", "C")
COLUMNS = (
    Column("age", "number", low=0, high=110, integer=True),
    Column("x", "number", low=-10, high=10),
    Column("price", "number", low=0, high=5, decimals=1),
    Column("sex", "category", values=("Male", "Female")),
    Column("relationship", "category", values=("Husband", "Wife", "Own-child", "Bachelor's friend")),
    Column("code", "category", values=(1, 2, 8)),
    Column("mood", "ordinal", values=("bad", "fair", "good")),
    Column("ill", "flag"),
    Column("smoker", "flag", values=("no", "yes")),
    Column("in", "date", low="2019-01-01", high="2021-12-31"),
    Column("out", "date", low="2019-01-01", high="2021-12-31"),
    Column("seen", "datetime", low="2019-01-01T00:00:00", high="2021-12-31T00:00:00"),
    Column("at", "time"),
    Column("stay", "duration", low="0d 00:00:00", high="100d 00:00:00"),
    Column("body.mass", "number", low=1, high=300),
    Column("letter", "category", values=LETTERS),
    Column("number", "number", low=1, high=3, integer=True),
    Column("patient", role="id"),
    Column("notes", role="drop"),
)
ITEMS = Column("items", "category", values=("a", "b"))
object.__setattr__(ITEMS, "kind", "set")
COLUMNS = (*COLUMNS, ITEMS)
ROW = {
    "age": 40,
    "x": -3.5,
    "price": 0.3,
    "sex": "Male",
    "relationship": "Husband",
    "code": 8,
    "mood": "fair",
    "ill": True,
    "smoker": "yes",
    "in": DAY(2020, 2, 28),
    "out": DAY(2020, 3, 1),
    "seen": datetime.datetime(2020, 2, 29, 13, 45),
    "at": datetime.time(8, 30),
    "stay": datetime.timedelta(days=2, hours=1),
    "body.mass": 80.5,
    "letter": "B",
    "number": 2,
}


def frame(**cells):
    """One row; cells that are given take the place of its own."""
    made = {name: [cells.get(name, value)] for name, value in ROW.items()}
    return pl.DataFrame(made, schema_overrides={k: pl.Series([ROW[k]]).dtype for k in ROW}, strict=False)


def check(text, **cells):
    """Whether the row breaks the rule."""
    return Rules.of([{"check": text}], COLUMNS).broken(frame(**cells)).item()


def derived(text, kind="number", row=None, **fields):
    """What a derived column is in the row."""
    fields = fields or {"low": -1000, "high": 3000}
    rules = Rules.of([], [*COLUMNS, Column("made", kind, derived=text, **fields)])
    return rules.complete(frame(**(row or {})))["made"].item()


OBEYED = [
    "age = 40",
    "age == 40.0",
    "age != 41 and not age = 39",
    "0 <= age <= 40 <= 40",
    "age > 39 or age > 100",
    "if age < 18 then sex = 'Female'",
    'if sex = "Male" then age >= 18',
    "sex in ['Male', 'Female']",
    "age not in [1, 2, 3]",
    "x in [-3.5, 2]",
    "relationship != 'Bachelor''s friend'",
    'relationship != "Bachelor\'s friend"',
    "code >= 2 and code in [8]",
    "mood >= 'fair' and mood < 'good'",
    "ill",
    "ill = true",
    "if smoker then age > 10",
    "smoker = true and smoker != 'no'",
    "`in` <= out",
    "`in` < '2020-02-29' < out",
    "out - `in` = days(2)",
    "out = `in` + days(2)",
    "seen >= '2020-02-29 13:45' and date(seen) <= out",
    "seen - datetime(`in`) > days(1)",
    "at < '12:00' and hour(at) = 8 and minute(at) = 30",
    "stay <= 'P3D' and stay > '2d 00:30:00' and stay / days(1) > 2",
    "stay <= 180000",
    "`body.mass` > 80",
    "weekday(out) = 7",
    "year(seen) = 2020 and month(seen) = 2",
    "day(seen) = 29",
    "hour(seen) = 13",
    "minute(seen) = 45",
    "price * 3 = 0.9",
    "price + 0.1 <= 0.4",
    "age // 7 = 5 and age % 7 = 5",
    "x // 1 = -4 and x % 1 = 0.5",
    "-age + 2 * (age - 10) = 20",
    "abs(x) = 3.5 and round(x) = -3 and round(x, 1) = -3.5",
    "min(age, x, 5) = x and max(age, 41) = 41",
    "age / 0 = 1",
    "if age is missing then ill else not ill is missing",
    "age is not missing",
    "(age = 40)",
    "time(seen) > at",
]


@pytest.mark.parametrize("text", OBEYED)
def test_a_row_that_obeys(text):
    assert check(text) is False


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("age = 40", {"age": 41}),
        ("age = 40", {"age": 39}),
        ("0 <= x <= 3", {"x": -1.0}),
        ("if relationship = 'Husband' then sex = 'Male'", {"sex": "Female"}),
        ("mood >= 'fair'", {"mood": "bad"}),
        ("if smoker then age > 10", {"age": 9}),
        ("out >= `in`", {"out": DAY(2020, 2, 27)}),
        ("not (sex = 'Male' and age > 30)", {}),
        ("if age is missing then ill = false", {"age": None}),
        ("age is not missing", {"age": None}),
        ("price = 0.3", {"price": 0.4}),
        ("code in [1, 2]", {}),
    ],
)
def test_a_row_that_breaks_it(text, cells):
    assert check(text, **cells) is True


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("age = 40", {"age": None}),
        ("age != 40", {"age": None}),
        ("age in [1, 2]", {"age": None}),
        ("age not in [1, 2]", {"age": None}),
        ("not (age = 1)", {"age": None}),
        ("out >= `in`", {"in": None}),
        ("min(age, 60) > 50", {"age": None}),
        ("if age > 3 then ill = false", {"age": None}),
        ("mood > 'fair'", {"mood": None}),
        ("x = 1", {"x": float("nan")}),
    ],
)
def test_what_is_unknown_is_not_broken(text, cells):
    assert check(text, **cells) is False


def test_a_condition_that_is_false_decides_even_if_the_rest_is_unknown():
    assert check("age > 50 and x > 0", x=None) is True
    assert check("age = 40 or x > 0", x=None) is False


@pytest.mark.parametrize(
    ("text", "kind", "fields", "made"),
    [
        ("age // 7", "number", {"low": 0, "high": 20, "integer": True}, 5),
        ("age / 7", "number", {"low": 0, "high": 20, "integer": True}, 6),
        ("age / 7", "number", {"low": 0, "high": 20, "decimals": 2}, 5.71),
        ("age / 7", "number", {"low": 0, "high": 5}, None),
        ("age / (age - 40)", "number", {"low": 0, "high": 5}, None),
        ("age % 3 + 7", "ordinal", {"values": (7, 8)}, 8),
        ("age % 3 + 6", "ordinal", {"values": (6, 8)}, None),
        ("if age < 18 then 'child' else 'adult'", "category", {"values": ("child", "adult")}, "adult"),
        ("if age < 18 then 'a' else if age < 65 then 'b' else 'c'", "category", {"values": ("a", "b", "c")}, "b"),
        ("age >= 18", "flag", {}, True),
        ("age >= 18", "flag", {"values": ("no", "yes")}, "yes"),
        ("age < 18", "flag", {"values": (0, 1)}, 0),
        ("date('2020-03-01') + days(age)", "date", {"low": "2020-01-01", "high": "2020-12-31"}, DAY(2020, 4, 10)),
        ("date('2020-03-01') + days(age)", "date", {"low": "2020-01-01", "high": "2020-04-09"}, None),
        ("date(seen)", "date", {"low": "2019-01-01", "high": "2021-12-31"}, DAY(2020, 2, 29)),
        ("out - `in`", "duration", {"low": "0d 00:00:00", "high": "99d 00:00:00"}, datetime.timedelta(days=2)),
        (
            "seen + hours(1)",
            "datetime",
            {"low": "2019-01-01", "high": "2022-12-31"},
            ROW["seen"] + datetime.timedelta(hours=1),
        ),
        ("letter", "category", {"values": ("A", "B")}, "B"),
    ],
)
def test_derived_columns(text, kind, fields, made):
    found = derived(text, kind, **fields) if fields else Rules.of([], [*COLUMNS, Column("made", kind, derived=text)])
    found = found.complete(frame())["made"].item() if isinstance(found, Rules) else found
    assert found == made
    assert type(found) is type(made)


def test_derived_columns_are_empty_where_an_input_is():
    assert derived("age + x", row={"x": None}) is None
    assert derived("if age < 18 then 1 else 2", row={"age": None}) is None
    assert derived("if age is missing then 1 else 2", row={"age": None}) == 1


def test_derived_columns_follow_each_other_in_any_order():
    chain = [Column(n, "number", low=0, high=999, derived=d) for n, d in (("c", "b + 1"), ("b", "a * 2"), ("a", "age"))]
    rules = Rules.of([{"check": "c > 0"}], [*chain, *COLUMNS])
    assert rules.complete(frame()).select("a", "b", "c").row(0) == (40, 80, 81)
    assert rules.unmeasured == {"a", "b", "c"}
    assert rules.needs() == {"a", "b", "c", "age"}


def test_a_datetime_of_a_zone_is_read_by_its_clock():
    columns = [
        Column("seen", "datetime", low="2019-01-01", high="2021-12-31", zone="Europe/Paris"),
        Column("later", "datetime", low="2019-01-01", high="2021-12-31", zone="Europe/Paris", derived="seen + days(1)"),
    ]
    noon = pl.Series("seen", [datetime.datetime(2020, 7, 1, 10)]).dt.replace_time_zone("UTC")
    done = Rules.of([{"check": "hour(seen) = 12"}], columns).complete(noon.to_frame())
    assert done["later"].dtype == pl.Datetime("us", "Europe/Paris")
    assert done["later"].dt.convert_time_zone("UTC").dt.replace_time_zone(None).item() == datetime.datetime(
        2020, 7, 2, 10
    )
    assert not Rules.of([{"check": "hour(seen) = 12"}], columns).broken(noon.to_frame())["hour(seen) = 12"].item()


def test_small_unsigned_numbers_do_not_wrap():
    rules = Rules.of([{"check": "number - age < 0"}], COLUMNS)
    cells = pl.DataFrame({"number": [2], "age": [40]}, schema={"number": pl.UInt8, "age": pl.UInt8})
    assert rules.broken(cells).item() is False


# ------------------------------------------------------------------------------------------------------ combinations


PAIRS = {"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2], ["C", 2]]}


def test_a_column_that_follows_from_others_is_looked_up():
    rules = Rules.of([PAIRS], COLUMNS)
    assert rules.unmeasured == {"number"}
    cells = pl.DataFrame({"letter": ["B", "A", None]})
    assert rules.complete(cells)["number"].to_list() == [2, 1, None]
    own = cells.with_columns(number=pl.Series([1, 1, 1]))
    assert rules.broken(own)["number follows from letter"].to_list() == [True, False, False]
    assert rules.broken(cells)["number follows from letter"].to_list() == [False, False, False]


def test_the_last_column_that_can_follow_does_and_labels_never_do():
    both_ways = {"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2], ["C", 3]]}
    assert Rules.of([both_ways], COLUMNS).unmeasured == {"number"}
    labelled = [
        Column("letter", "category", values=LETTERS),
        Column("number", "number", low=1, high=3, integer=True, role="label"),
    ]
    assert Rules.of([both_ways], labelled).unmeasured == {"letter"}


def test_a_chain_of_tables_is_looked_up_one_after_the_other():
    names = ("city", "state", "land")
    columns = [Column(name, "category", values=tuple(name + str(i) for i in range(3))) for name in names]
    rows = [
        [["city0", "state0"], ["city1", "state0"], ["city2", "state1"]],
        [["state0", "land0"], ["state1", "land0"], ["state2", "land1"]],
    ]
    rules = Rules.of([{"columns": list(names[i : i + 2]), "rows": rows[i]} for i in (1, 0)], columns)
    assert rules.unmeasured == {"state", "land"}
    assert rules.complete(pl.DataFrame({"city": ["city2"]})).row(0) == ("city2", "state1", "land0")


def test_combinations_that_are_not_listed_are_impossible():
    pairs = {"columns": ["letter", "number"], "rows": [["A", 1], ["A", 2], ["B", 1], ["B", 2], ["C", 3]]}
    rules = Rules.of([pairs], COLUMNS)
    assert not rules.unmeasured
    cells = pl.DataFrame({"letter": ["A", "A", "C", None], "number": [1, 3, 3, 3]})
    assert rules.broken(cells).to_series().to_list() == [False, True, False, False]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2]]}, "none for 'C'"),
        ({"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2], ["D", 2]]}, "'D'"),
        ({"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2], ["C", 4]]}, "4"),
        ({"columns": ["letter", "number"], "rows": [["A", 1], ["B", 2], ["C", 1.5]]}, "1.5"),
        ({"columns": ["letter", "number"], "rows": [["A", 1], ["B"]]}, "2 values in each row"),
        ({"columns": ["letter", "number"], "rows": []}, "rows"),
        ({"columns": ["letter", "number"]}, "rows"),
        ({"columns": ["letter"], "rows": [["A"]]}, "2 to 12"),
        ({"columns": ["letter", "letter"], "rows": [["A", "A"]]}, "twice"),
        ({"columns": ["letter", "numbr"], "rows": [["A", 1]]}, "did you mean 'number'"),
        ({"columns": ["letter", "patient"], "rows": [["A", 1]]}, 'role = "id"'),
        ({"columns": ["x", "letter"], "rows": [[1.5, "A"], [1.5, "B"], [2.5, "A"]]}, "a number of any size"),
        ({"columns": ["sex", "relationship"], "rows": [["Male", "Husbend"]]}, "did you mean 'Husband'"),
        ({"columns": "letter", "rows": 3}, "columns"),
    ],
)
def test_tables_that_are_wrong(rule, said):
    with pytest.raises(InputError) as error:
        Rules.of([rule], COLUMNS)
    assert said in str(error.value)


# ------------------------------------------------------------------------------------------- what is wrong, and says so


MALFORMED = [
    "", " ", "age", "age =", "= 3", "age = = 3", "age 3", "age = 3 4", "(age = 3", "age = 3)", "age in 3",
    "age in []", "age in [1, 2", "age in [1 2]", "age in [x]", "age not 3", "age is 3", "age is not",
    "if age = 3", "then age = 3", "if age = 3 then", "if then age = 3", "age = 3 and", "or age = 3", "not",
    "age = 'forty'", "sex = Male", "sex = 'male '", "sex = 3", "sex < 'Male'", "sex = true", "ill = 'yes'",
    "ill = 1", "ill < true", "age > 111", "age = 1.5", "age = -1", "code = 3", "`in` > '2020-02-30'",
    "`in` > 20200101", "`in` > '2025-01-01'", "`in` < seen", "at > '25:00'", "in < out", "stay > 'long'",
    "age + sex = 3", "age + ill = 3", "`in` + 3 > out", "'2020-01-01' + days(1) > out", "-sex = 3",
    "min(age) = 3", "days(`in`) = stay", "year(age) = 3", "hour(`in`) = 3", "round(x, 99) = 1",
    "round(x, age) = 1", "price = 0.35", "mood > 'great'", "smoker = 'maybe'", "patient = 3", "notes = 'x'",
    "items = 'a'", "1 = 1", "true", "3 < 4", "age ! 3", "age = 3 ; x = 1", "age & 3", "age = 0x10", "age = 1_0",
    "age = 1e999", "age = 99999999999999999999", "body.mass > 3", "age = 'it''s", "`age = 3", "AGE = 3",
    "if age = 3 THEN ill", "age => 3", "age = [3]", "date() = out", "weekday('2020-01-01') = 3", "abs(sex) = 3",
    "max(age, out) = 3", "if age = 3 then 4", "age and ill", "3 in [3]", "`patient` is missing",
    "at + hours(1) > '10:00'", "date('2020-01-01') > '2020-01-32'", "\x00", "\ud800", "age = \u0663",
]  # fmt: skip
ATTACKS = [
    "__import__('os').system('true')", "age.__class__", "().__class__.__bases__", "eval('1')", "exec('1')",
    "open('/etc/passwd')", "lambda: 1", "[x for x in age]", "age ** 999999 > 1", "9**9**9**9 > age",
    "(" * 5000 + "age" + ")" * 5000, "not " * 100_000 + "ill", "-" * 2900 + "sex = 1",
    "age = " + "+".join(["1"] * 2000), "age = 1" + " or age = 1" * 5000,
    "age * 9007199254740992 * 9007199254740992 > 1", "age" * 100_000, "if ill then " * 500 + "ill", "f'{age}'",
    "age := 3", "age @ 3 = 1", "b'x' = sex", "print(1)", "age if ill else x", "*age", "...", "age; import os",
    "days(9e15) > stay", "out + days(age * 1000000) > out", "min(" * 400 + "age",
    "age in [" + "1," * 9000 + "1]", "'" + "a" * 30_000 + "' = sex",
]  # fmt: skip


REFUSED = [*MALFORMED, *ATTACKS, None, 3, ["age = 3"], {"a": 1}, b"age = 3", 0.5, True]


@pytest.mark.parametrize("text", REFUSED, ids=[f"{index}" for index in range(len(REFUSED))])
def test_what_is_no_rule_is_refused_with_a_word_on_what_to_write(text):
    with pytest.raises(InputError):
        Rules.of([{"check": text}], COLUMNS)
    if text not in ("1 = 1", "true", "3 < 4"):
        with pytest.raises(InputError):
            Rules.of([], [*COLUMNS, _unchecked("made", text)])


def _unchecked(name, text):
    column = Column(name, "category", values=("u", "v"))
    object.__setattr__(column, "derived", text if text is not None else 3)
    return column


def test_a_long_chain_does_not_reach_the_end_of_the_stack():
    limit = sys.getrecursionlimit()
    Rules.of([{"check": " and ".join(["age != 3"] * 500)}], COLUMNS)
    Rules.of([{"check": "not " * 1000 + "ill"}], COLUMNS)
    assert sys.getrecursionlimit() == limit


PIECES = (
    "+ - * / // % ( ) [ ] , < > = if then else and not in is missing age sex 'Male' 3 0.5 days `in` out min ill true"
)
PIECES = PIECES.split()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_any_words_are_a_rule_or_an_input_error(words):
    try:
        rules = Rules.of([{"check": " ".join(words)}], COLUMNS)
    except InputError:
        return
    assert rules.broken(frame()).shape == (1, 1)
    assert rules.broken(rules.complete(_witness_frame(rules))).row(0) == (False,)


def _witness_frame(rules):
    return pl.DataFrame({k: [v] for k, v in rules.witness().items()}, schema_overrides=frame().schema, strict=False)


@pytest.mark.parametrize(
    ("given_rules", "said"),
    [
        ([{"chek": "age = 3"}], "did you mean check"),
        ([{"check": "age = 3", "rows": []}], "either check, or columns and rows"),
        ([{}], "either check, or columns and rows"),
        (["age = 3"], "a TOML table"),
        ("age = 3", "a list"),
        ([{"check": "age = 3"}, {"check": "age  =  3"}], "each rule once"),
        ([{"check": "relationship = 'Husbnd'"}], "did you mean 'Husband'"),
        ([{"check": "agee = 3"}], "did you mean 'age'"),
        ([{"check": "`in` < seen"}], "write date(...)"),
        ([{"check": "sex < 'Male'"}], 'kind = "ordinal"'),
        ([{"check": "ill = 1"}], "true or false"),
        ([{"check": "patient = 3"}], 'role = "id"'),
        ([{"check": "notes = 3"}], 'role = "drop"'),
    ],
)
def test_messages_say_what_to_write(given_rules, said):
    with pytest.raises(InputError) as error:
        Rules.of(given_rules, COLUMNS)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("a", "b"), ("b", "a")], "'a', 'b'"),
        ([("a", "a + 1")], "its own name"),
        ([("a", "3")], "a constant"),
        ([("a", "sex")], "a text"),
        ([("a", "age + 2000")], "all outside"),
        ([("a", "if age < 3 then 4")], "else"),
        ([("a", "if age < 3 then 4 else 'x'")], "a number"),
        ([("a", "age < 3")], "a truth"),
    ],
)
def test_derivations_that_are_wrong(columns, said):
    made = [Column(name, "number", low=0, high=999, derived=text) for name, text in columns]
    with pytest.raises(InputError) as error:
        Rules.of([], [*COLUMNS, *made])
    assert said in str(error.value)


# ----------------------------------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    ("texts", "guilty"),
    [
        (["age < 3", "sex = 'Male'", "age > 5", "x > 0"], ["age < 3", "age > 5"]),
        (["`in` < out", "out < `in`", "age > 5"], ["`in` < out", "out < `in`"]),
        (["age < age"], ["age < age"]),
        (["age = number * 50", "number = 3"], ["age = number * 50", "number = 3"]),
        (["ill", "not ill", "age is missing"], ["ill", "not ill"]),
        (["age is missing", "age is not missing"], ["age is missing", "age is not missing"]),
        (["mood > 'fair'", "mood < 'good'"], ["mood > 'fair'", "mood < 'good'"]),
    ],
)
def test_contradictions_name_the_rules_that_cannot_all_hold(texts, guilty):
    with pytest.raises(InputError) as error:
        Rules.of([{"check": text} for text in texts], COLUMNS)
    assert "rules that some row can obey" in error.value.expected
    assert [text for text in texts if repr(text) in error.value.got] == guilty


def test_a_condition_that_other_rules_make_impossible_is_a_contradiction_too():
    rules = [{"check": f"if relationship = 'Husband' then sex = '{sex}'"} for sex in ("Male", "Female")]
    with pytest.raises(InputError, match="every condition can hold"):
        Rules.of(rules, COLUMNS)


@pytest.mark.parametrize(
    "texts",
    [
        ["age = number * 20 + 7", "number >= 2"],
        ["`in` < out", "out - `in` < days(3)", "weekday(`in`) = 3"],
        ["seen > '2020-05-05 12:00'", "date(seen) <= '2020-05-05'"],
        ["x * 2 = 7.25"],
        ["age is missing", "if age is missing then ill"],
        ["0 <= x", "x < `body.mass`", "`body.mass` < price"],
        ["stay > '3d 00:00:00'", "stay < '3d 00:00:02'"],
        ["age // 10 = 7 and age % 10 = 3"],
    ],
)
def test_a_witness_obeys_all(texts):
    rules = Rules.of([{"check": text} for text in texts], COLUMNS)
    assert set(rules.witness()) == {column.name for column in COLUMNS if column.role is None}
    assert not any(rules.broken(_witness_frame(rules)).row(0))


def test_rules_that_say_nothing_are_known():
    rules = Rules.of([{"check": t} for t in ("number <= 3", "number < 3", "if number > 3 then ill")], COLUMNS)
    assert rules.idle == ("number <= 3", "if number > 3 then ill")


# ---------------------------------------------------------------------------------------------------------- as a whole


def test_rules_are_written_as_they_are_read():
    given_rules = [
        {"check": "if  age < 3\n then sex = 'Male'"},
        PAIRS,
        {"columns": ["mood", "in"], "rows": [["bad", DAY(2020, 1, 1)], ["fair", "2020-01-02"], ["good", "2020-01-03"]]},
    ]
    rules = Rules.of(given_rules, COLUMNS)
    assert Rules.of(rules.to_list(), COLUMNS) == rules
    assert hash(Rules.of(rules.to_list(), COLUMNS)) == hash(rules)
    assert rules.to_list()[2]["rows"][0] == ["bad", "2020-01-01"]
    assert pickle.loads(pickle.dumps(rules)) == rules  # noqa: S301 # our own bytes
    assert rules.texts() == rules.broken(frame()).columns
    assert rules and not Rules.of([], COLUMNS) and not Rules()


def test_blanks_inside_quotes_stay():
    columns = [Column("w", "category", values=("a  b", "a b"))]
    assert Rules.of([{"check": "w  =  'a  b'"}], columns).to_list() == [{"check": "w = 'a  b'"}]


def test_a_frame_without_a_column_that_is_needed_is_refused():
    with pytest.raises(InputError, match="age"):
        Rules.of([{"check": "age = 3"}], COLUMNS).broken(pl.DataFrame({"x": [1.0]}))


def test_no_rows_are_no_problem():
    rules = Rules.of([{"check": "age = 3"}, PAIRS], [*COLUMNS, Column("made", "flag", derived="age < 3")])
    assert rules.broken(rules.complete(frame().clear())).height == 0


def test_true_and_1_are_told_apart():
    """To Python (True, False) equals (1, 0): what was found for one must not be taken for the other."""
    for values in ((True, False), (1, 0)):
        rules = Rules.of([{"check": "a = b"}], [Column(n, "category", values=values) for n in "ab"])
        assert type(rules.witness()["a"]) is type(values[0])


@pytest.mark.parametrize(
    "kind, text", [("date", "2020-01-31"), ("datetime", "2020-01-31T10:00:00"), ("time", "10:00:00")]
)
def test_moments_are_written_as_they_are_read(kind, text):
    assert moment_text(moment(kind, text)) == text


@pytest.mark.parametrize("text", ["P1DT2H", "1d 02:00:00", "26:00:00", "26:00", 93600, "PT93600S"])
def test_durations_have_many_spellings(text):
    assert moment("duration", text) == datetime.timedelta(hours=26)
    assert moment("duration", moment_text(moment("duration", text))) == datetime.timedelta(hours=26)
