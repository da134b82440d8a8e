"""Drafted schemas: refused as they stand, loadable once every suggestion is confirmed."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adumbra.common.errors import InputError
from adumbra.declare.schema import Schema
from adumbra.tables.encode import check_columns, encode
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema


def confirmed(draft: str) -> Schema:
    return Schema.parse(re.sub(r"(?m)^# ", "", draft))


def test_a_draft_is_refused_until_confirmed():
    frame = pl.DataFrame(
        {
            "age": ["34", "51", "?"],
            "bmi": [20.5, 31.25, None],
            "sex": ["F", "M", "F"],
            "smoker": ["yes", "no", ""],
            "ok": [True, False, True],
            "row_id": ["k1", "k2", "k3"],
            "visit": [1, 2, 3],
            "tags": [["a"], [], ["b"]],
            "empty": ["", "", None],
        }
    )
    draft = draft_schema(open_table(frame))
    with pytest.raises(InputError, match=r"'age'.*declared low"):
        Schema.parse(draft)
    schema = confirmed(draft)
    kinds = {c.name: c.kind for c in schema.columns}
    assert kinds == {
        "age": "number", "bmi": "number", "sex": "category", "smoker": "flag", "ok": "flag",
        "row_id": None, "visit": None, "tags": None, "empty": None,
    }  # fmt: skip
    assert {c.name for c in schema.columns if c.role == "drop"} == {"tags", "empty"}
    assert {c.name: c.pattern for c in schema.columns if c.role == "id"} == {"row_id": "k#", "visit": None}
    assert schema.column("age").integer and not schema.column("bmi").integer
    assert schema.column("sex").values == ("F", "M")
    assert schema.table.rows == 3


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [True, False]}),
        pl.DataFrame({"a": ["yes", "no"]}),
        pl.DataFrame({"a": [1.5, 2.5]}),
        pl.DataFrame({"a": ["x", "y"]}),
        pl.DataFrame({"a": ["0", "1"], "b": ["1", "0"]}),
    ],
)
def test_no_draft_loads_by_itself(frame):
    """Not even one made of flags alone, which need no range: their kind was seen in the rows too."""
    draft = draft_schema(open_table(frame))
    with pytest.raises(InputError):
        Schema.parse(draft)
    confirmed(draft)


def test_what_was_seen_stands_only_in_suggestions():
    frame = pl.DataFrame({"city": ["Sentinelburg", "Otherville"], "pay": [98765.25, 12345.5]})
    for line in draft_schema(open_table(frame)).splitlines():
        if not line.startswith("#"):
            assert "Sentinelburg" not in line and not re.search(r"\d", line), line


def test_ranges_are_rounded_outward():
    frame = pl.DataFrame({"a": [17.3, 88.9], "b": [1234567, 7654321], "c": [0.00123, 0.00456], "d": [5, 5]})
    schema = confirmed(draft_schema(open_table(frame)))
    assert (schema.column("a").low, schema.column("a").high) == (10.0, 90.0)
    assert (schema.column("b").low, schema.column("b").high) == (1000000, 8000000)
    assert (schema.column("c").low, schema.column("c").high) == (0.001, 0.005)
    assert schema.column("d").low < 5 < schema.column("d").high
    encoded = encode(frame, schema)
    assert all(r.clipped == 0 for r in encoded.repairs.values())


SEVERAL = 'several rows, and unit = "row" protects one of them'


@pytest.mark.parametrize("patients", [400, 6000])
def test_an_identifier_that_may_repeat_is_not_called_one_value_a_row(patients):
    """400 values are all seen, 6,000 are not; both name people with several rows."""
    ids = [7 * (i % patients) for i in range(2 * patients)]
    frame = pl.DataFrame({"subject_id": ids, "code": [f"p{i}" for i in ids], "visit_id": [i % 3 for i in ids]})
    draft = draft_schema(open_table(frame))
    number, text, codes = draft.split("[columns.")[1:]
    assert SEVERAL in number and 'role = "drop"' in number and "every row has its own" not in draft
    assert SEVERAL in text and 'role = "drop"' in text and "values = " not in text
    assert SEVERAL not in codes and "few whole numbers" in codes
    assert "# values" in draft_schema(open_table(pl.DataFrame({"subject_id": ["a", "b", "a"]})))


def test_a_text_identifier_that_repeats_keeps_its_values_and_gets_the_remark():
    draft = draft_schema(open_table(pl.DataFrame({"subject_id": [f"p{i % 30}" for i in range(90)]})))
    assert SEVERAL in draft and "# values" in draft


def test_few_whole_numbers_are_few():
    frame = pl.DataFrame({"weight": [13 * i % 10_007 for i in range(5000)], "grade": [i % 4 for i in range(5000)]})
    weight, grade = draft_schema(open_table(frame)).split("[columns.")[1:]
    assert "few whole numbers" not in weight and "few whole numbers" in grade


def test_identifiers_are_hinted():
    frame = pl.DataFrame(
        {
            "name": [f"person {i}" for i in range(2000)],
            "customer_id": [str(7919 * i % 100003) for i in range(2000)],
            "n": range(2000),
            "x": [i % 50 for i in range(2000)],
        }
    )
    draft = draft_schema(open_table(frame))
    assert not re.search(r"person \d", draft)
    roles = {c.name: c.role for c in confirmed(draft).columns}
    assert roles == {"name": "drop", "customer_id": "id", "n": "id", "x": None}


ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(ODD, min_size=1, max_size=4, unique=True),
    st.lists(ODD | st.sampled_from(['"', "a#b", "\n# x = 1", "'''", "\\", "]", "\x7f", "1e400", "nan"]), max_size=6),
    st.lists(st.none() | st.floats() | st.sampled_from([1e308, -1e308, 1e-310]), min_size=1, max_size=6),
)
def test_odd_names_and_values_make_valid_drafts(names, texts, numbers):
    height = max(len(texts), len(numbers))
    frame = pl.DataFrame(
        {
            **{name: (texts + [""] * height)[:height] for name in names},
            "\u2400numbers": pl.Series((numbers + [None] * height)[:height], dtype=pl.Float64),
            "\u2400flag": pl.Series([i % 2 == 0 for i in range(height)]),
        }
    )
    table = open_table(frame)
    draft = draft_schema(table)
    with pytest.raises(InputError):
        Schema.parse(draft)
    schema = confirmed(draft)
    assert [c.name for c in schema.columns] == frame.columns
    check_columns(schema, table.columns, table.types)
    encode(frame, schema)


@pytest.mark.parametrize(
    "name",
    ["adult.csv.gz", "wdbc.csv.gz", "dermatology.csv.gz", "hcc_survival.csv.gz", "bank_full.csv.gz",
     "bank_additional_full.csv.gz", "cervical_cancer.csv.gz", "musk_v1.parquet", "covid_tests.csv.gz",
     "flights.parquet", "nist/national2019.csv.gz", "secom_431.parquet"],
)  # fmt: skip
def test_real_tables(shared_data, name):
    table = open_table(shared_data / name)
    draft = draft_schema(table)
    with pytest.raises(InputError):
        Schema.parse(draft)
    schema = confirmed(draft)
    assert [c.name for c in schema.columns] == list(table.columns)
    check_columns(schema, table.columns, table.types)
    batch = next(table.batches([c.name for c in schema.released]))
    assert all(r.clipped == 0 for r in encode(batch, schema).repairs.values())
    assert Schema.parse(schema.to_toml()) == schema


def test_what_no_file_can_hold_is_not_suggested():
    frame = pl.DataFrame({"a\0": ["x", "y", "x"], "b": ["u", "v\0", "u"], "c": ["\0", "\0", "\0"]})
    schema = confirmed(draft_schema(open_table(frame)))
    assert [(c.name, c.values) for c in schema.released] == [("b", ("u",))]


def test_an_array_has_a_draft_too():
    rows = np.random.default_rng(3).integers(0, 50, (400, 3)).astype(float)
    rows[:, 2] = rows[:, 0] + rows[:, 1]
    draft = draft_schema(open_table(rows))
    assert '# derived = "`column 1` + `column 2`"' in draft
    assert len(confirmed(draft).columns) == 3


def test_digits_that_begin_with_0_stay_as_they_are():
    draft = draft_schema(
        open_table(pl.DataFrame({"zip": ["00501", "10001", "02134"] * 90, "n": ["7", "12", "3"] * 90}))
    )
    zip_code, number = draft.split("[columns.")[1:]
    assert '# values = ["00501", "02134", "10001"]' in zip_code and 'kind = "number"' in number


def test_flights(shared_data):
    """What owners complained of: exact extremes, a year from 1000 to 3100, remarks that are not true."""
    draft = draft_schema(open_table(shared_data / "flights.parquet"))
    parts = {part.split("]")[0]: part for part in draft.split("[columns.")[1:]}
    assert "# low = 2010\n# high = 2020" in parts["year"] and "few whole" not in parts["year"]
    assert "about 4,000 values in 334,264 rows" in parts["tailnum"] and "every row has its own" not in draft
    assert "few whole numbers" not in parts["flight"] and not re.search(r"(?m)^#? ?missing", draft)
    assert '# derived = "hour * 100 + minute"' in parts["sched_dep_time"]
    assert 'kind = "datetime"' in parts["time_hour"] and 'zone = "UTC"' in parts["time_hour"]
    assert 'format = "%H%M"' in parts["dep_time"]
    assert '# check = "if dep_time is missing then dep_delay is missing"' in draft


def test_covid(shared_data):
    draft = draft_schema(open_table(shared_data / "covid_tests.csv.gz"))
    parts = {part.split("]")[0]: part for part in draft.split("[columns.")[1:]}
    assert '# role = "drop"' in parts["fake_first_name"] and "values =" not in parts["fake_first_name"]
    assert '# role = "drop"' in parts["subject_id"] and SEVERAL in parts["subject_id"]
    assert "# derived = \"date('2020-03-01') + days(pan_day)\"" in parts["test_date"]
    assert "# decimals = 1" in parts["age"] and "# spikes = [45]" in parts["ct_result"]


def test_baskets(shared_data):
    draft = draft_schema(open_table(shared_data / "retail.csv.gz"))
    assert 'kind = "set"' in draft and "16,470 different items" in draft and '# separator = " "' in draft


def test_lists_are_drafted_as_sets_or_left_out():
    generator = np.random.default_rng(1)
    baskets = [sorted({f"item{i}" for i in generator.integers(0, 6, size)}) for size in generator.integers(1, 5, 400)]
    frame = pl.DataFrame({"basket": baskets, "pair": [["x"]] * 400, "ill": [True, False] * 200})
    draft = draft_schema(open_table(frame))
    schema = Schema.parse("\n".join(line.removeprefix("# ") for line in draft.splitlines()))
    assert (schema.column("basket").kind, schema.column("pair").role) == ("set", "drop")
    assert encode(frame, schema).repairs["basket"].unknown == 0
