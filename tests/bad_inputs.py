"""Tables of bad input: a name, what is asked, the files it needs, and a phrase that the answer must hold.

Options stand beside a job or a question that is fine without them; files replace those of the tiny table. A case is
one invocation that no other case repeats.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.conftest import SCHEMA

DIGITS = "9" * 5000
LONG = "x" * 3000
JOB = ("--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro")
WITHOUT_MECHANISM = JOB[:-2]


@dataclass(frozen=True)
class Case:
    """One invocation. `{rows}`, `{cells}` and `{axes}` in its words stand for folders of releases."""

    name: str
    words: tuple[str, ...]
    phrase: str
    files: dict[str, bytes] = field(default_factory=dict)
    code: int = 2


# ---- schemas


def _schema(name: str, phrase: str, old: str, new: str) -> Case:
    assert old in SCHEMA
    return _text(name, phrase, SCHEMA.replace(old, new))


def _text(name: str, phrase: str, content: str | bytes) -> Case:
    data = content if isinstance(content, bytes) else content.encode()
    return Case(f"schema: {name}", ("release", "t.csv", *JOB, "--out", "r"), phrase, {"s.toml": data})


LOW, HIGH, VALUES, MISSING = "low = 0", "high = 110", '["F", "M"]', "missing = 40"
DOTS = ".".join("a" * 50_000)
SCHEMAS = [
    *(
        _schema(f"5,000 digits as {k}", "1,000 characters", old, f"{old.split(' = ')[0]} = {DIGITS}")
        for k, old in (("low", LOW), ("high", HIGH), ("missing", MISSING))
    ),
    _schema("5,000 digits below 0", "1,000 characters", LOW, f"low = -{DIGITS}"),
    _schema("5,000 hexadecimal digits", "1,000 characters", LOW, f"low = 0x{'f' * 5000}"),
    _schema("a fraction of 5,000 digits", "1,000 characters", LOW, f"low = 0.{DIGITS}"),
    _schema("an exponent of 5,000 digits", "1,000 characters", LOW, f"low = 1e{DIGITS}"),
    _schema("5,000 digits as a value", "1,000 characters", VALUES, f"[{DIGITS}, 1]"),
    _schema("5,000 digits as rows", "1,000 characters", "[table]", f"[table]\nrows = {DIGITS}"),
    _schema("900 digits as low", "a finite low", LOW, f"low = {'9' * 900}"),
    _schema("900 digits as a value", "finite values", VALUES, f"[{'9' * 900}, 1]"),
    _schema("900 digits beside a fraction", "finite values", VALUES, f"[{'9' * 900}, 1.5]"),
    _schema("900 digits as rows", "[table] rows", "[table]", f"[table]\nrows = {'9' * 900}"),
    _schema("900 digits as the missing category", "missing among", VALUES, f"[0, 1]\nmissing = {'9' * 900}"),
    _schema("10^400 below 0", "a finite low", LOW, f"low = -{10**400}"),
    _text("a key of 50,000 dots", "more than 16 parts", f"{SCHEMA}{DOTS} = 1\n"),
    _text("a section of 50,000 dots", "more than 16 parts", f"{SCHEMA}[{DOTS}]\n"),
    _text("50,000 dots between spaces", "more than 16 parts", f"{SCHEMA}{DOTS.replace('.', ' . ')} = 1\n"),
    _text("50,000 dots between quotes", "more than 16 parts", SCHEMA + '."a"'.join(['"a"'] * 50_000) + " = 1\n"),
    _text("50,000 dots in braces", "more than 16 parts", f"x = {{{DOTS} = 1}}\n{SCHEMA}"),
    _text("nested brackets", "nested brackets", f"x = {'[' * 5000}"),
    _text("nested brackets that close", "nested brackets", f"x = {'[' * 40}{']' * 40}\n{SCHEMA}"),
    _text("nested braces", "nested brackets", f"x = {'{a = ' * 5000}"),
    _text("17 MB", "at most 16,384 kB", SCHEMA + "#" + "x" * 17 * 2**20),
    _text("a key of 5,000 characters", "1,000 characters", f"{SCHEMA}{'x' * 5000} = 1\n"),
    _text("a quoted key of 5,000 characters", "(5,002 characters)", f'{SCHEMA}"{"x" * 5000}" = 1\n'),
    _text("a nul byte", "a schema in TOML", SCHEMA + "\0"),
    _text("utf-16", "in UTF-8", SCHEMA.encode("utf-16")),
    _text("returns instead of newlines", "a schema in TOML", SCHEMA.replace("\n", "\r")),
    _text("a column twice", "a schema in TOML", f'{SCHEMA}[columns.age]\nkind = "flag"\n'),
    _text("open text", "a schema in TOML", SCHEMA + 'x = "a'),
    _text("columns as a number", "columns as TOML tables", "columns = 1"),
    _text("columns as text", "columns as TOML tables", 'columns = "age"'),
    _text("columns as a list of numbers", "columns as TOML tables", "columns = [1, 2]"),
    _text("a column in a list without a name", "a column name", 'columns = [{kind = "flag"}]'),
    _text("a column in a list named 1", "a column name", 'columns = [{name = 1, kind = "flag"}]'),
    _text("a column that is a number", "as a TOML table", "[columns]\nage = 1"),
    _text("a column that is a list", "as a TOML table", '[[columns.age]]\nkind = "flag"'),
    _text("a column without a name", "a column name", '[columns.""]\nkind = "flag"'),
    _text("table as a list", "[table] as a TOML table", f"table = [1]\n{SCHEMA.split(chr(10), 2)[2]}"),
    _text("table as a list of tables", "[table] as a TOML table", SCHEMA.replace("[table]", "[[table]]")),
    _schema("a date as low", "low as a number", LOW, "low = 2020-01-01"),
    _schema("text as low", "low as a number", LOW, 'low = "0"'),
    _schema("true as low", "low as a number", LOW, "low = true"),
    _schema("a list as low", "low as a number", LOW, "low = [0]"),
    _schema("a table as high", "high as a number", HIGH, "high = {a = 1}"),
    _schema("low beyond a float", "a finite low", LOW, "low = -1e400"),
    _schema("a range beyond a float", "high - low between", LOW, "low = -1.7e308"),
    _schema("a range of nothing", "low < high", HIGH, "high = 0"),
    _schema("a range of almost nothing", "high - low between", HIGH, "high = 5e-324"),
    _schema(
        "a range too narrow for its place",
        "further apart",
        "low = 0\nhigh = 110\nmissing = 40",
        "low = 1e15\nhigh = 1000000000000001",
    ),
    _schema("whole numbers beyond 2^53", "at most 2^53", HIGH, "high = 1e20\ninteger = true"),
    _schema("whole numbers that begin at a half", "whole low and high", LOW, "low = 0.5\ninteger = true"),
    _schema("integer as text", "integer true or false", LOW, 'low = 0\ninteger = "yes"'),
    _schema("integer as a list", "integer true or false", LOW, "low = 0\ninteger = []"),
    _schema("missing outside the range", "missing between", MISSING, "missing = 200"),
    _schema("missing nan", "a finite missing", MISSING, "missing = nan"),
    _schema("missing as a list", "missing as a number", MISSING, "missing = [1]"),
    _schema("values as text", "values as a list", VALUES, '"FM"'),
    _schema("values as a table", "values as a list", VALUES, "{a = 1}"),
    _schema("values true", "values as a list", VALUES, "true"),
    _schema("no values", "declared values", VALUES, "[]"),
    _schema("values in lists", "values of one type", VALUES, '[["F"], ["M"]]'),
    _schema("dates as values", "values of one type", VALUES, "[2020-01-01]"),
    _schema("values of two types", "values of one type", VALUES, '["F", 1]'),
    _schema("nan as a value", "finite values", VALUES, "[nan, 1.0]"),
    _schema("a value twice", "each value once", VALUES, '["F", "F"]'),
    _schema("a value twice but for spaces", "each value once", VALUES, '["F", " F "]'),
    _schema("a number spelled twice", "spell different numbers", VALUES, '["1", "1.0"]'),
    _schema("100,001 values", "at most 100,000 values", VALUES, json.dumps([f"v{i}" for i in range(100_001)])),
    _schema("a missing category that is none", "missing among", VALUES, '["F"]\nmissing = "Q"'),
    _schema("a list as the missing category", "missing among", VALUES, '["F"]\nmissing = ["F"]'),
    _schema("a date as the missing category", "missing among", VALUES, '["F"]\nmissing = 2020-01-01'),
    _schema("a number as the missing flag", "missing true or false", 'kind = "flag"', 'kind = "flag"\nmissing = 1'),
    _schema("kind as a list", "kind one of", '"category"', '["category"]'),
    _schema("kind as a table", "kind one of", '"category"', "{a = 1}"),
    _schema("kind as a number", "kind one of", '"category"', "1"),
    _schema("role as a list", "role one of", '"label"', '["label"]'),
    _schema("role of another name", "role one of", '"label"', '"target"'),
    _schema("low for a category", "no low for kind category", VALUES, '["F", "M"]\nlow = 0'),
    _schema("values for a number", "no values for kind number", LOW, "low = 0\nvalues = [1]"),
    _schema("unit as a list", "unit row or cell", "[table]", '[table]\nunit = ["row"]'),
    _schema("unit as a table", "unit row or cell", "[table]", "[table]\nunit = {a = 1}"),
    _schema("rows as text", "[table] rows", "[table]", '[table]\nrows = "6"'),
    _schema("no rows", "[table] rows", "[table]", "[table]\nrows = 0"),
    _schema("rows below 0", "[table] rows", "[table]", "[table]\nrows = -1"),
    _schema("half a row", "[table] rows", "[table]", "[table]\nrows = 6.5"),
    _schema("an empty table name", "[table] name", '"patients"', '""'),
    _schema("a table name of spaces", "[table] name", '"patients"', '"   "'),
    _schema("a table name of 3,000 characters", "at most 1,000", '"patients"', f'"{LONG}"'),
    _schema("a number as table name", "[table] name", '"patients"', "1"),
]

# ---- options of jobs


def _option(phrase: str, *words: str, mechanism: str = "dppro") -> Case:
    shown = " ".join(word if len(word) < 40 else f"{word[:20]}..." for word in words)
    job = (*WITHOUT_MECHANISM, "--mechanism", mechanism)
    return Case(f"release by {mechanism}: {shown}", ("release", "t.csv", *job, "--out", "r", *words), phrase)


OPTIONS = [
    *(_option("a row bound from one grid step", "--row-bound", b) for b in ("1e300", "1e308", "1e20", "1e-300", "2e7")),
    *(_option("row_bound > 0", "--row-bound", b) for b in ("-1e308", "-0")),
    *(_option("--row-bound", "--row-bound", b) for b in ("", " ", "é", "1,5")),
    *(_option("epsilon > 0", "--epsilon", e) for e in ("-1e308", "-0", DIGITS)),
    *(_option("--epsilon", "--epsilon", e) for e in ("é", " ", "1,0", "0x10", LONG)),
    *(_option("delta < 1", "--delta", d) for d in ("1e308", "-0.5", DIGITS)),
    *(_option("--delta", "--delta", d) for d in ("", "é", "1e-6,")),
    *(_option("--name as text", "--name", n) for n in ("", " ", LONG)),
    *(_option("dimension", "--dimension", d) for d in ("1e308", "nan", "100000000000000000000", DIGITS, "é", " ")),
    *(_option("--expected", "--expected", e) for e in ("é", "")),
    *(_option("expected", "--expected", e) for e in ("1e300", "1e308", "inf", "0")),
    *(_option("--bands", "--bands", b) for b in ("", ",", "1,,2", "1,", "é")),
    *(_option("expected", "--bands", b) for b in ("1e300,1", "nan,1", "-1,1", "0")),
    *(_option("--unit", "--unit", u) for u in ("", "ROW ", "row,cell")),
    *(_option("--relation", "--relation", u) for u in ("", "é", "replace,zero-out")),
    _option("a schema file", "--schema", ""),
    _option("a schema file", "--schema", LONG),
    _option("an Ed25519 private key", "--sign", ""),
    _option("an Ed25519 private key", "--sign", "t.csv"),
    _option("an Ed25519 private key", "--sign", "."),
    *(
        _option("names of columns", "--label", v, mechanism=m)
        for m in ("moments", "auto")
        for v in ("", " ", ",", "sex,", ",sex")
    ),
    *(_option("each column once", "--label", "sex,sex", mechanism=m) for m in ("moments", "tables", "hybrid", "auto")),
    _option("a label among", "--label", "\x1b[2J", mechanism="moments"),
    *(
        _option("names of columns", "--columns", v, mechanism=m)
        for m in ("histogram", "csm")
        for v in ("", " ", ",", "age,", "age,,sex")
    ),
    *(
        _option("each column once", "--columns", "age,age", mechanism=m)
        for m in ("histogram", "hierarchical", "fourier", "privelet", "sparse", "csm")
    ),
    _option("each column once", "--columns", "age, age ", mechanism="histogram"),
    _option("columns of the schema", "--columns", "nobody", mechanism="histogram"),
    _option("columns of the schema", "--columns", "id", mechanism="histogram"),
    *(_option("bins", "--bins", b, mechanism="histogram") for b in ("0", "-1", "1e308", "nan", DIGITS, "99999")),
    *(_option("bins", "--bins", b, mechanism="tables") for b in ("10000000", "1e308", DIGITS, "nan", "")),
    *(_option("rows", "--rows", n, mechanism="moments") for n in ("1e308", "nan", DIGITS, "100000000000000000000", "")),
    *(_option("ratio", "--ratio", r, mechanism="csm") for r in ("0", "-1", "1.5", "nan", "inf", "1e308", "é")),
    *(_option("nonzeros", "--nonzeros", n, mechanism="csm") for n in ("-1", "1e308", DIGITS, "")),
    *(_option("weights", "--weights", w, mechanism="csm") for w in ("", ",", "1,,2", "é")),
    *(_option("sensing", "--sensing", s, mechanism="csm") for s in ("", "magic")),
    *(_option("noise", "--noise", s, mechanism="csm") for s in ("", "magic")),
    *(_option("a dictionary", "--dictionary", d, mechanism="csm") for d in ("", ".", "magic", "a.NPY")),
    *(_option("--dictionary that exists", "--dictionary", "absent.npy", mechanism=m) for m in ("csm", "sparse")),
    *(_option("a basis", "--basis", b, mechanism="lop") for b in ("", ".", "magic")),
    _option("--basis that exists", "--basis", "absent.npy", mechanism="lop"),
    *(_option("components", "--components", c, mechanism="lop") for c in ("0", "-1", "7", "1e308", DIGITS)),
    *(_option("frequencies", "--frequencies", f, mechanism="fourier") for f in ("-1", "nan", DIGITS, "é")),
    *(_option("branching", "--branching", b, mechanism="hierarchical") for b in ("0", "1", "-1", "nan", DIGITS)),
    *(_option("rounds", "--rounds", r, mechanism="power_method") for r in ("0", "-1", "1e308", DIGITS)),
    *(_option("oversample", "--oversample", r, mechanism="power_method") for r in ("-1", "nan", DIGITS)),
    *(_option("need", "--need", n, mechanism="hybrid") for n in ("", "everything", "model,model")),
]

# ---- questions to releases


def _ask(phrase: str, release: str, *words: str) -> Case:
    shown = " ".join(word if len(word) < 40 else f"{word[:20]}..." for word in words)
    return Case(f"answer from {release}: {shown}", ("answer", f"{{{release}}}", *words), phrase)


QUESTIONS = [
    *(
        _ask("random from 1 to 1,000,000", "rows", "distance", "--random", n)
        for n in ("0", "-1", "1000001", "10000000", "100000000000000000000", "9223372036854775808")
    ),
    *(_ask("--random", "rows", "distance", "--random", n) for n in ("1e20", "nan", "", "é", DIGITS)),
    *(_ask("seed", "rows", "distance", "--random", "3", "--seed", n) for n in ("-1", "1e20", "nan", "")),
    *(
        _ask("row", "rows", "neighbours", "--k", "1", "--row", n)
        for n in ("-1", "6", "100000000000000000000", "9223372036854775807", "nan", "")
    ),
    *(
        _ask("k", "rows", "neighbours", "--row", "0", "--k", n)
        for n in ("0", "-1", "6", "100000000000000000000", "nan")
    ),
    *(_ask("mu <", "rows", "count", "--where", "sex=F", "--mu", m) for m in ("0", "1", "-1", "nan", "inf", "1e308")),
    *(
        _ask("at most 1e+100", "rows", "linear", "--weights", f"age={w}")
        for w in ("1e300", "1e308", "-1e308", "1e-300", "1e101")
    ),
    *(
        _ask("--weights", "rows", "linear", "--weights", w)
        for w in (
            "",
            ",",
            "age",
            "age=",
            "=1",
            "age=1,",
            ",age=1",
            "age=nan",
            f"age={'9' * 400}",
            "age=1e400",
            "age=x,smoker=1",
        )
    ),
    _ask("each column once", "rows", "linear", "--weights", "age=1,age=2"),
    _ask("each column once", "rows", "linear", "--weights", "age=1, age =2"),
    *(
        _ask("names of columns", "rows", "moment", "--columns", c)
        for c in ("", " ", ",", "age,", ",age", "age,,smoker")
    ),
    _ask("each column once", "rows", "moment", "--columns", "age,age"),
    _ask("each column once", "rows", "moment", "--columns", "age, age"),
    *(_ask("'", "rows", "moment", "--columns", c) for c in ("nobody", "age,nobody", "id", LONG)),
    *(_ask("'", "rows", "mean", "--column", c) for c in ("", " ", "age,age", "é", LONG)),
    *(_ask("--where COLUMN=VALUE", "rows", "count", "--where", c) for c in ("", " ", "sex", "=F", LONG)),
    *(_ask("sex", "rows", "count", "--where", c) for c in ("sex=", "sex=F F", "sex=F,M", "sex=\x1b[2J")),
    *(_ask("a release that answers range", "rows", "range", "--column", "age", "--from", v) for v in ("1",)),
    _ask("a release that answers marginal", "rows", "marginal", "--columns", "sex"),
    _ask("a release that answers workload", "rows", "workload", "absent.csv"),
    _ask("a new .csv or .parquet file", "rows", "reconstruct", "--out", ""),
    _ask("a new .csv or .parquet file", "rows", "reconstruct", "--out", "x.txt"),
    _ask("a place to write", "rows", "reconstruct", "--out", f"{'x' * 300}.csv"),
    *(
        _ask("a range of age that begins", "cells", "range", "--column", "age", "--from", a, "--to", b)
        for a, b in (("50", "10"), ("1", "-1"), ("1e300", "1"))
    ),
    *(
        _ask("values of age as declared", "cells", "range", "--column", "age", "--from", a, "--to", b)
        for a, b in (("111", "120"), ("-9", "-1"), ("1e300", "1e301"), ("-1e308", "-1"))
    ),
    *(
        _ask("a number for age", "cells", "range", "--column", "age", "--from", v)
        for v in ("nan", "inf", "-inf", DIGITS)
    ),
    *(_ask("a number for age", "cells", "range", "--column", "age", "--to", v) for v in ("nan", "-inf")),
    *(_ask("a number for age", "cells", "range", "--column", "age", "--from", v) for v in ("", "é", "1,5")),
    _ask("neither", "cells", "range", "--column", "age"),
    *(
        _ask("a column of the domain", "cells", "range", "--column", c, "--from", "1")
        for c in ("", "nobody", "smoker", LONG)
    ),
    _ask("a column in order for a range", "cells", "range", "--column", "sex", "--from", "1"),
    _ask("one condition per column", "cells", "range", "--column", "age", "--from", "1", "--where", "age=1..2"),
    *(
        _ask("age", "cells", "count", "--where", w)
        for w in (
            "age=",
            "age=5..1",
            "age=nan..1",
            "age=1..inf",
            "age=1..2..3",
            "age=200..300",
            "age=x..y",
            "age=40",
            f"age=0..{DIGITS}",
        )
    ),
    _ask("one of the declared values", "cells", "count", "--where", "sex=F..M"),
    _ask("one condition per column", "cells", "count", "--where", "sex=F", "--where", "sex=M"),
    *(
        _ask("mu <", "cells", c, *w, "--mu", m)
        for c, w in (("count", ("--where", "sex=F")), ("marginal", ("--columns", "sex")))
        for m in ("0", "1", "nan", "-1", "1e-300")
    ),
    *(_ask("names of columns", "cells", "marginal", "--columns", c) for c in ("", ",", "sex,")),
    _ask("each column once", "cells", "marginal", "--columns", "sex,sex"),
    _ask("each column once", "cells", "marginal", "--columns", "age,sex,age"),
    *(_ask("a column of the domain", "cells", "marginal", "--columns", c) for c in ("nobody", "sex,nobody", "smoker")),
    _ask("a release that answers distance", "cells", "distance", "--random", "1"),
    *(_ask("top", "axes", "axes", "--top", n) for n in ("-1", "nan", "")),
    _ask("rows of the release's columns", "axes", "project", "p.csv", "--out", "x.csv"),
    _ask("a new .csv or .parquet file", "axes", "project", "t.csv", "--out", "t.csv"),
]

# ---- workloads


def _workload(name: str, phrase: str, content: Any, kind: str = "json") -> Case:
    data = (
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    file = f"q.{kind}"
    return Case(f"workload: {name} ({kind})", ("answer", "{cells}", "workload", file), phrase, {file: data})


def _query(**parts: Any) -> dict[str, Any]:
    return {"queries": [parts]}


AGES = {"age": [10, 40]}
WORKLOADS = [
    *(
        _workload(f"weight {w}", "at most 1e+100", _query(where=AGES, weight=w))
        for w in (1e308, -1e308, 1e300, 1e155, 1e101, 1e-320, 1e-150)
    ),
    *(
        _workload(f"weight {str(w)[:20]}", "a finite weight", _query(where=AGES, weight=w))
        for w in (10**400, -(10**4000), "1", None, True, [1], float("nan"), float("inf"))
    ),
    *(
        _workload(f"two terms of weight {w:g}", "at most 1e+100", _query(terms=[{"where": AGES, "weight": w}] * 2))
        for w in (1e308, 1e-200)
    ),
    *(
        _workload(f"cells of {str(w)[:20]}", "a finite weight", _query(cells=[w] * 24))
        for w in (1e308, 10**400, "1", None, True)
    ),
    _workload("too few cells", "24 finite weights", _query(cells=[1])),
    _workload("cells in lists", "24 finite weights", _query(cells=[[1] * 24])),
    _workload("cells as an object", "24 finite weights", _query(cells={"a": 1})),
    _workload("cells as text", "24 finite weights", _query(cells="1" * 24)),
    _workload("cells with a weight", "cells without a weight", _query(cells=[1] * 24, weight=2)),
    *(
        _workload(f"a range to {str(v)[:20]}", "two finite numbers", _query(where={"age": [0, v]}))
        for v in (10**400, True, [1], float("nan"), float("inf"))
    ),
    _workload("a range of one end", "two finite numbers", _query(where={"age": [1]})),
    _workload("a range of three ends", "two finite numbers", _query(where={"age": [1, 2, 3]})),
    _workload("a range upside down", "a range of age that begins", _query(where={"age": [40, 10]})),
    _workload("a range outside", "as declared", _query(where={"age": [200, 300]})),
    *(
        _workload(f"the value {str(v)[:20]}", "a value or a range", _query(where={"age": v}))
        for v in (10**400, {"a": 1})
    ),
    _workload("what is missing where nothing was", "no cell was counted", _query(where={"age": None})),
    _workload("conditions as a list", "conditions by column", _query(where=[1])),
    _workload("conditions as text", "conditions by column", _query(where="age")),
    _workload("an unknown column", "a column of the domain", _query(where={"nobody": 1})),
    _workload("an unknown value", "declared values", _query(where={"sex": "Q"})),
    _workload("no terms", "a list of terms", _query(terms=[])),
    _workload("terms as a number", "a list of terms", _query(terms=1)),
    _workload("a number as a term", "conditions by column", _query(terms=[1])),
    _workload("both terms and conditions", "one of where, terms, cells", _query(terms=[], where={})),
    _workload("an unknown key", "an unknown key", _query(when={})),
    *(
        _workload(f"the name {str(n)[:20]}", "a name for every query", _query(name=n, where=AGES))
        for n in (None, True, [1], 10**400)
    ),
    _workload("two of one name", "different names", {"queries": [{"name": "a"}, {"name": "a"}]}),
    _workload("a query that is a number", "an object with name", {"queries": [1]}),
    _workload("no query", "at least one query", {"queries": []}),
    _workload("a number of queries", 'a list "queries"', {"queries": 5}),
    _workload("a list", 'a list "queries"', [1, 2]),
    _workload("nothing", "a JSON document", ""),
    _workload("brackets", "a JSON document", "[" * 100_000),
    _workload("nested conditions", "a JSON document", '{"queries": [{"where": ' + "[" * 500 + "]" * 500 + "}]}"),
    _workload("5,000 digits", "a JSON document", '{"queries": [{"where": {"age": [1, ' + DIGITS + "]}}]}"),
    _workload("utf-16 cut short", "a JSON document", b"\xff\xfe{\0}"),
    *(
        _workload(f"weight {w}", "weight", f"query,weight,age_from\na,{w},1\n", "csv")
        for w in ("1e308", "1e300", "-1e200", "1e-300", "nan", "inf", "x", DIGITS)
    ),
    *(
        _workload(f"from {v[:9]}", "a number for age", f"query,age_from\na,{v}\n", "csv")
        for v in ("nan", "inf", "x", "1e999", DIGITS)
    ),
    _workload("upside down", "a range of age that begins", "query,age_from,age_to\na,40,10\n", "csv"),
    _workload("an unknown column", "columns that the domain has", "query,nobody\na,1\n", "csv"),
    _workload("a query without a name", "a name for every query", "query,age_from\n,1\n", "csv"),
    _workload("a value and a range", "one condition per column", "query,age,age_from\na,1,1\n", "csv"),
    _workload("a header only", "at least one query", "query,age_from\n", "csv"),
    _workload("nothing", "a CSV of queries", "", "csv"),
    _workload("nul bytes", "columns that the domain has", b"\0\1\2", "csv"),
    _workload("rows of other lengths", "a CSV of queries", "query,age_from\na,1,2,3\n", "csv"),
    _workload("another ending", "a .csv or .json file", "query\n", "txt"),
]

# ---- matrices in files


def npy(descr: Any, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """A .npy file whose header may say anything."""
    head = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def _of(value: float) -> bytes:
    return npy("<f8", (2, 6), np.full(12, value).tobytes())


MATRICES: dict[str, tuple[str, bytes]] = {
    "nothing": ("real numbers", b""),
    "text": ("real numbers", b"hello"),
    "8 TB by its header": ("real numbers", npy("<f8", (10**9, 10**3))),
    "a header beyond all memory": ("real numbers", npy("<f8", (10**12, 10**12))),
    "sides below 0": ("real numbers", npy("<f8", (-1, 6))),
    "objects": ("real numbers", npy("|O", (2, 6), b"\0" * 96)),
    "words": ("real numbers", npy("<U5", (2, 6), b"\0" * 240)),
    "complex numbers": ("real numbers", npy("<c16", (2, 6), b"\0" * 192)),
    "dates": ("real numbers", npy("<M8[s]", (2, 6), b"\0" * 96)),
    "records": ("real numbers", npy([("a", "<f8")], (2, 6), b"\0" * 96)),
    "one dimension": ("two dimensions", npy("<f8", (6,), b"\0" * 48)),
    "three dimensions": ("two dimensions", npy("<f8", (1, 1, 6), b"\0" * 48)),
    "too few bytes": ("real numbers", npy("<f8", (2, 6), b"\0" * 10)),
    "a header of brackets": ("real numbers", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535),
    "an unknown version": ("real numbers", b"\x93NUMPY\x09\x00"),
    "a pickle": ("real numbers", b"\x80\x04K\x01."),
    "nan": ("finite numbers", _of(np.nan)),
    "infinity": ("finite numbers", _of(np.inf)),
    "1e308": ("finite numbers", _of(1e308)),
}
FILES = [
    Case(
        f"matrix: {name}, as {option}",
        ("release", "t.csv", *WITHOUT_MECHANISM, "--mechanism", mechanism, option, "a.npy", "--out", "r"),
        phrase,
        {"a.npy": content},
    )
    for name, (phrase, content) in MATRICES.items()
    for mechanism, option in (("lop", "--basis"), ("csm", "--dictionary"))
]

# ---- the other commands


def _other(phrase: str, *words: str, **files: str) -> Case:
    shown = " ".join(word if len(word) < 40 else f"{word[:20]}..." for word in words)
    return Case(shown, words, phrase, {name.replace("_", "."): text.encode() for name, text in files.items()})


LEARN = ("dictionary", "t.csv", "--schema", "s.toml", "--out", "a.npy")
FIT = ("jupa", "fit", "t.csv", "--utility", "outcome", "--privacy", "sex", "--drop", "id", "--out", "m", "--release")
OTHERS = [
    *(_other("atoms", *LEARN, "--atoms", n) for n in ("0", "-1", "nan", "1e20", DIGITS)),
    *(_other("sparsity", *LEARN, "--sparsity", n) for n in ("0", "-1", "nan", DIGITS)),
    *(_other("bins", *LEARN, "--columns", "age", "--bins", n) for n in ("0", "-1", "nan", "99999", DIGITS)),
    *(_other("names of columns", *LEARN, "--columns", c) for c in ("", ",", "sex,", " ")),
    _other("each column once", *LEARN, "--columns", "sex,sex"),
    _other("columns of the schema", *LEARN, "--columns", "nobody"),
    *(_other("input one of", *LEARN, "--input", i) for i in ("", "magic", "records,histogram")),
    _other("input histogram", *LEARN, "--input", "records", "--bins", "4"),
    _other("input histogram", *LEARN, "--input", "records", "--columns", "sex"),
    *(_other("a new .npy file", *LEARN[:-1], o) for o in ("", ".", "t.csv", "a.txt")),
    *(
        _other("a", "basis", "t.csv", "--schema", "s.toml", "--out", "a.npy", "--components", n)
        for n in ("0", "-1", "7", "nan", DIGITS)
    ),
    *(_other("a new .npy file", "basis", "t.csv", "--schema", "s.toml", "--out", o) for o in ("", "x", "s.toml")),
    *(
        _other("", "jupa", "fit", "t.csv", "--utility", u, "--privacy", "sex", "--out", "m")
        for u in ("", " ", "nobody", "outcome,outcome")
    ),
    _other("each target column once", *FIT, "coarse", "--utility", "outcome"),
    _other("each target column once", *FIT, "coarse", "--utility", "sex"),
    _other("each target column once", *FIT, "coarse", "--drop", "id"),
    _other("columns of the table to drop", *FIT, "coarse", "--drop", ""),
    *(_other("components", *FIT, "coarse", "--components", n) for n in ("0", "-1", "nan", DIGITS)),
    *(_other("rho0", *FIT, "coarse", "--rho0", n) for n in ("-1", "nan", "inf", "1e300", "")),
    *(_other("rho1", *FIT, "coarse", "--rho1", n) for n in ("-1", "nan", "1e300")),
    *(_other("projection", *FIT, "coarse", "--projection", n) for n in ("", "magic")),
    *(_other("kernel", *FIT, "coarse", "--kernel", n) for n in ("", "magic")),
    *(_other("landmarks", *FIT, "coarse", "--kernel", "rbf", "--landmarks", n) for n in ("0", "-1", "nan")),
    *(_other("encoding", *FIT, "coarse", "--encoding", n) for n in ("", "magic")),
    *(_other("release", *FIT, n) for n in ("", "magic", "coarse,fine")),
    *(_other("pool", *FIT, "resample", "--pool", n) for n in ("0", "-1", "1.5", "nan", "1e300")),
    *(_other("model", *FIT, "resample", "--model", n) for n in ("", "magic")),
    *(_other("bins", *FIT, "repair", "--bins", n) for n in ("0", "1", "nan")),
    *(_other("epsilon", *FIT, "laplace", "--epsilon", n) for n in ("0", "-1", "nan", "inf", "21", "1e300")),
    *(_other("clip", *FIT, "laplace", "--epsilon", "1", "--clip", n) for n in ("0", "-1", "nan")),
    *(_other("step", *FIT, "fine", "--step", n) for n in ("0", "-1", "nan", "inf")),
    *(_other("bandwidth", *FIT, "fine", "--bandwidth", n) for n in ("0", "-1", "nan")),
    *(_other("most_steps", *FIT, "fine", "--most-steps", n) for n in ("0", "-1")),
    *(_other("a model folder", "jupa", "apply", m, "t.csv", "--out", "o") for m in ("", ".", "absent", "t.csv")),
    *(_other("a release folder", "evaluate", f, "--truth", "t.csv") for f in ("", ".", "absent", "t.csv", LONG)),
    *(_other("epsilon", "ledger", "cap", "patients", "--epsilon", e) for e in ("0", "nan", "inf", "", "é")),
    *(_other("delta", "ledger", "cap", "patients", "--epsilon", "1", "--delta", d) for d in ("1", "-1", "nan", "")),
    *(_other("epsilon", "audit", "laplace", "--runs", "1000", "--epsilon", e) for e in ("0", "-1", "nan", "")),
    *(_other("delta", "audit", "laplace", "--runs", "1000", "--delta", d) for d in ("1", "-1", "nan")),
    *(
        _other("confidence", "audit", "laplace", "--runs", "1000", "--confidence", c)
        for c in ("0", "1", "-1", "nan", "")
    ),
    *(_other("runs", "audit", "laplace", "--runs", r) for r in ("0", "-1", "nan", "")),
    *(_other("mechanism", "audit", m) for m in ("magic", "hybrid,dppro", "\x1b[2J")),
    _other("with a release folder", "audit", ""),
    _other("File name too long", "audit", LONG),
    _other("--column", "audit", "laplace", "--column", "age"),
    _other("--model and --records together", "audit", "jupa", "--model", "m"),
    *(_other("new files FILE", "keygen", f) for f in ("", ".", "..", "/", "absent/k", "t.csv", "k" * 300)),
    *(_other("a release folder", "verify", f) for f in ("", "/", "s.toml", LONG)),
    *(_other("", "schema", "t.csv", "--out", o) for o in ("", ".", "t.csv", "absent/s.toml", "x" * 300)),
]

# ---- cards and signatures

CARDS: dict[str, tuple[str, bytes]] = {
    "brackets": ("does not read as one", b"[" * 100_000),
    "braces": ("does not read as one", b'{"a":' * 100_000),
    "forty brackets": ("does not read as one", b"[" * 40 + b"]" * 40),
    "5,000 digits": ("does not read as one", b'{"format": ' + DIGITS.encode() + b"}"),
    "65 MB": ("more than 67108864 bytes", b" " * 65 * 2**20),
    "utf-16": ("does not read as one", '{"a": 1}'.encode("utf-16")),
    "null": ("does not read as one", b"null"),
    "a number": ("does not read as one", b"1"),
    "text": ("does not read as one", b'"a"'),
    "nul bytes": ("does not read as one", b"\0" * 100),
    "an object": ("does not read as one", b"{}"),
}
SIGNATURES: dict[str, bytes] = {
    "brackets": b"[" * 100_000,
    "5,000 digits": b'{"public_key": ' + DIGITS.encode() + b"}",
    "100 kB": b" " * 100_000 + b"{}",
    "null": b"null",
    "a list": b"[]",
    "numbers": b'{"public_key": 1, "signature": 2}',
    "a short key": b'{"public_key": "00", "signature": "00"}',
    "no hexadecimal": b'{"public_key": "zz", "signature": "zz"}',
    "other bytes": b"\xff\xfe",
    "nothing": b"",
}
COMMANDS = [*SCHEMAS, *OPTIONS, *QUESTIONS, *WORKLOADS, *FILES, *OTHERS]
