"""Likely rules in a draft: what is asked, that it holds in the rows, and that a confirmed draft loads with it."""

from __future__ import annotations

import datetime
import re

import numpy as np
import polars as pl
import pytest

from adumbra.common.errors import InputError
from adumbra.declare.schema import Schema
from adumbra.tables.drafting.confirmed import most_that_load
from adumbra.tables.drafting.sample import Sample
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema

N = 3000
RNG = np.random.default_rng(11)


def draft_of(**columns: object) -> str:
    draft = draft_schema(open_table(pl.DataFrame(columns, strict=False)))
    with pytest.raises(InputError):
        Schema.parse(draft)
    Schema.parse(re.sub(r"(?m)^# ", "", draft))
    return draft


def checks(draft: str) -> list[str]:
    return re.findall(r'(?m)^# check = "(.*)"$', draft)


def derived(draft: str) -> dict[str, str]:
    columns = [part.split("]", 1) for part in draft.split("[columns.")[1:]]
    found = {name: re.search(r'(?m)^# derived = "(.*)"$', lines) for name, lines in columns}
    return {name: match[1] for name, match in found.items() if match}


def test_every_rule_follows_a_question():
    kind = RNG.integers(0, 4, N)
    draft = draft_of(a=[f"a{k}" for k in kind], b=[f"b{k // 2}" for k in kind], c=[None if k == 1 else k for k in kind])
    lines = draft.splitlines()
    assert "# [[rules]]" in lines
    for place, line in enumerate(lines):
        if line == "# [[rules]]":
            asked = next(before for before in reversed(lines[:place]) if not before.startswith("# "))
            assert asked.startswith("## ")
    assert draft.rindex("[columns.") < draft.index("# [[rules]]")


def test_a_column_that_follows_from_another_is_a_public_table():
    codes = RNG.integers(0, 4, N)
    draft = draft_of(school=[f"s{k}" for k in codes], years=[k + 7 for k in codes.tolist()], x=RNG.normal(size=N))
    assert "does years always follow from school, and school from years?" in draft
    assert '# columns = ["school", "years"]\n# rows = [["s0", 7], ["s1", 8], ["s2", 9], ["s3", 10]]' in draft
    assert not checks(draft)  # the table says it all
    one_way = draft_of(ward=[f"w{k}" for k in codes], house=[f"h{k // 2}" for k in codes])
    assert "does house always follow from ward? then" in one_way and '["w3", "h1"]' in one_way
    assert one_way.count("# columns") == 1


def test_one_exception_is_no_dependence():
    codes = RNG.integers(0, 4, N)
    years = [*(codes[:-1] + 7).tolist(), 7 if codes[-1] != 0 else 8]
    assert "# columns" not in draft_of(school=[f"s{k}" for k in codes], years=years)


def test_computed_columns():
    when = [datetime.date(2020, 3, 1) + datetime.timedelta(days=int(d)) for d in RNG.integers(0, 400, N)]
    clock = RNG.integers(0, 24, N) * 100 + RNG.integers(0, 60, N)
    left, right = RNG.integers(0, 500, N), RNG.integers(0, 500, N)
    draft = draft_of(
        sched=clock, hour=clock // 100, minute=clock % 100, left=left, right=right, total=left + right,
        when=when, month=[d.month for d in when], year=[d.year for d in when],
    )  # fmt: skip
    found = derived(draft)
    assert found == {
        "sched": "hour * 100 + minute", "total": "left + right",
        "month": "month(when)", "year": "year(when)",
    }  # fmt: skip
    assert draft.count("then it is computed, not measured") == len(found)


def test_a_date_that_counts_days():
    day = RNG.integers(0, 300, N)
    dates = [(datetime.date(2020, 3, 1) + datetime.timedelta(days=int(d))).isoformat() for d in day]
    assert "# derived = \"date('2020-03-01') + days(pan_day)\"" in draft_of(pan_day=day, test_date=dates)


def test_no_column_is_computed_from_one_that_is_computed():
    first = RNG.integers(0, 10**6, N)
    draft = draft_of(a=first, b=first // 100, c=first // 100 // 100)
    found = derived(draft)
    assert "a" not in found and all("b" not in text and "c" not in text for text in found.values())


def test_orders():
    start = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in RNG.integers(0, 300, N)]
    end = [day + datetime.timedelta(days=int(d)) for day, d in zip(start, RNG.integers(0, 300, N), strict=True)]
    low, more = RNG.integers(50, 100, N), RNG.integers(0, 50, N)
    draft = draft_of(admission=start, discharge=end, min_pulse=low, max_pulse=low + more, other=RNG.integers(0, 150, N))
    assert sorted(checks(draft)) == ["discharge >= admission", "max_pulse >= min_pulse"]


def test_disjoint_ranges_are_no_order():
    assert not checks(draft_of(min_x=RNG.integers(0, 50, N), max_x=RNG.integers(60, 90, N)))


def test_implications():
    relation = RNG.choice(["Husband", "Wife", "Child"], N)
    sex = np.where(
        relation == "Husband", "Male", np.where(relation == "Wife", "Female", RNG.choice(["Male", "Female"], N))
    )
    draft = draft_of(relation=relation, sex=sex)
    assert "if relation = 'Husband' then sex = 'Male'" in checks(draft)
    assert "if relation = 'Wife' then sex = 'Female'" in checks(draft)
    assert "question: is it always so that if relation = 'Husband' then sex = 'Male'?" in draft


def test_a_rare_exception_is_told_and_a_common_value_is_no_rule():
    a = RNG.choice(["x", "y"], N)
    b = np.where(a == "x", "p", RNG.choice(["p", "q"], N))
    b[np.flatnonzero(a == "x")[0]] = "q"
    draft = draft_of(a=a, b=b)
    assert "if a = 'x' then b = 'p'" in checks(draft) and re.search(r"not so in 1 of 1,\d+ rows", draft)
    assert not checks(draft_of(a=a, b=np.where(RNG.random(N) < 0.001, "q", "p")))


def test_cells_missing_together_and_where_a_number_is_small():
    age, gone = RNG.integers(0, 90, N), RNG.random(N) < 0.1
    draft = draft_of(
        age=age,
        dep_time=[None if g else int(a) for g, a in zip(gone, RNG.integers(0, 999, N), strict=True)],
        dep_delay=[None if g else float(a) for g, a in zip(gone, RNG.normal(size=N), strict=True)],
        income=[None if a < 15 else int(a) * 7 for a in age],
    )
    found = checks(draft)
    assert "are dep_time and dep_delay always missing together?" in draft
    assert "if dep_time is missing then dep_delay is missing" in found
    assert "if dep_delay is missing then dep_time is missing" in found
    assert "if age < 15 then income is missing" in found


def test_odd_names_stand_in_backticks_and_quotes_are_doubled():
    a = RNG.choice(["it's", "y", "z"], N)
    draft = draft_of(**{"a b": a, "c`d": a, "if": np.where(a == "it's", "p", RNG.choice(["p", "q"], N))})
    assert "if `a b` = 'it''s' then `if` = 'p'" in checks(draft) and "c`d`" not in draft


def test_unrelated_columns_are_not_asked_about():
    columns = {f"c{i}": RNG.choice(["u", "v", "w", None], 200) for i in range(8)}
    columns |= {f"n{i}": RNG.integers(0, 40, 200) for i in range(8)}
    draft = draft_of(**columns)
    assert not checks(draft) and "derived" not in draft and "[[rules]]" not in draft


def test_dropped_columns_have_no_rules():
    who = RNG.integers(0, 40, N)
    draft = draft_of(last_name=[f"n{w}" for w in who], house=[f"h{w % 4}" for w in who])
    assert "[[rules]]" not in draft


def test_a_sample_is_even_and_bounded():
    sample = Sample(100_000, 3)
    for start in range(0, 100_000, 7001):
        sample.add(pl.DataFrame({"a": range(start, min(start + 7001, 100_000))}))
    assert sample.frame()["a"].to_list() == list(range(0, 100_000, 5))


def test_as_many_questions_stay_as_load_together():
    assert most_that_load([1, 2, 3, 4, 5], lambda some: 3 not in some) == [1, 2, 4, 5]
    assert most_that_load([1, 2, 3, 4], lambda some: not {2, 4} <= set(some)) == [1, 2, 3]
    assert most_that_load([1], lambda some: False) == []
