"""Every table of `tests/bad_inputs.py`: the right exit code, three phrases, nothing spent or left behind."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.cli.main import command
from adumbra.common.files import MOST_NESTED, MOST_PARTS, json_document, toml_document
from adumbra.counting.workload import Workload
from adumbra.declare.column import Column
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.jupa.recipe import JupaRecipe
from adumbra.result import Release
from tests.bad_inputs import CARDS, COMMANDS, SIGNATURES, Case
from tests.cli.test_bad_input import OPTIONS, OTHER_MECHANISMS, SCHEMAS, TABLES, Cli, explained
from tests.conftest import SCHEMA, TABLE, Home

MADE = {
    "rows": ad.DPPro(dimension=2),
    "cells": ad.Histogram(columns=("age", "sex"), bins=8),
    "axes": ad.AnalyzeGauss(),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders that questions are put to; nobody may change them."""
    place = tmp_path_factory.mktemp("releases")
    (place / "t.csv").write_text(TABLE)
    schema = ad.Schema.parse(SCHEMA)
    for name, mechanism in MADE.items():
        ad.release(place / "t.csv", schema, mechanism, ad.Budget(1.0), out=place / name)
    return {name: place / name for name in MADE}


def content(home: Home) -> dict[str, bytes]:
    """Everything in the folder but a ledger that was begun without a charge."""
    return {p.name: p.read_bytes() for p in home.path.iterdir() if p != home.ledger and p.is_file()} | {
        p.name: b"" for p in home.path.iterdir() if p.is_dir()
    }


def test_the_list_does_not_shrink() -> None:
    old = len(TABLES) + len(SCHEMAS) + len(OPTIONS) + len(OTHER_MECHANISMS)
    assert len({(case.words, *case.files.items()) for case in COMMANDS}) == len(COMMANDS) >= 400
    assert len(COMMANDS) + len(CARDS) + len(SIGNATURES) + len(CALLS) + old >= 800


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case.name)
def test_bad_input(cli: Cli, home: Home, releases: dict[str, Path], case: Case) -> None:
    for name, data in case.files.items():
        home.write(name, data)
    before = content(home)
    said = explained(cli(*(word.format(**releases) if word[:1] == "{" else word for word in case.words)), case.code)
    assert case.phrase in said
    assert "defect" not in said
    assert len(said) < 10_000
    assert home.charges() == 0
    assert content(home) == before


@pytest.mark.parametrize("case", CARDS)
def test_bad_cards(cli: Cli, home: Home, releases: dict[str, Path], case: str) -> None:
    phrase, data = CARDS[case]
    shutil.copytree(releases["rows"], home.path / "r")
    (home.path / "r" / "card.json").write_bytes(data)
    for words in (("verify", "r"), ("answer", "r", "distance", "--random", "1"), ("evaluate", "r", "--truth", "t.csv")):
        assert phrase in explained(cli(*words))


@pytest.mark.parametrize("case", SIGNATURES)
def test_bad_signatures(cli: Cli, home: Home, releases: dict[str, Path], case: str) -> None:
    shutil.copytree(releases["rows"], home.path / "r")
    (home.path / "r" / "card.sig").write_bytes(SIGNATURES[case])
    for words in (("verify", "r"), ("answer", "r", "distance", "--random", "1")):
        assert "does not read as a signature" in explained(cli(*words), code=1)


# ---- Python

FRAME = pl.DataFrame({"age": [34, 71], "sex": ["F", "M"]})
COLUMNS: dict[str, Any] = {
    "age": {"kind": "number", "low": 0, "high": 110},
    "sex": {"kind": "category", "values": ["F", "M"]},
}
PLAIN = ad.Schema.from_dict({"columns": COLUMNS})
BUDGET = ad.Budget(1.0)
HUGE = 10**5000


def _with(**fields: Any) -> Callable[[], object]:
    return lambda: ad.Schema.from_dict({"columns": {"age": COLUMNS["age"] | fields}})


def _release(**given: Any) -> Callable[[], object]:
    usual: dict[str, Any] = {"table": FRAME, "schema": PLAIN, "mechanism": ad.DPPro(dimension=1), "budget": BUDGET}
    return lambda: ad.release(**(usual | given))


def _plan(**given: Any) -> Callable[[], object]:
    usual: dict[str, Any] = {"table": FRAME, "schema": PLAIN, "mechanism": ad.DPPro(dimension=1), "budget": BUDGET}
    return lambda: ad.plan(**(usual | given))


CALLS: dict[str, Callable[[], object]] = {
    **{
        f"Budget({e!r})": lambda e=e: ad.Budget(e)
        for e in (0, -1, float("nan"), float("inf"), "1", None, True, [1], 10**400)
    },
    "Budget of 5,001 digits": lambda: ad.Budget(HUGE),
    **{f"Budget(1, {d!r})": lambda d=d: ad.Budget(1.0, d) for d in (1, -1, float("nan"), "0", None, True, 10**400)},
    **{f"Budget(unit={u!r})": lambda u=u: ad.Budget(1.0, unit=u) for u in ("person", "", 1, ["row"])},
    **{f"Budget(relation={r!r})": lambda r=r: ad.Budget(1.0, relation=r) for r in ("swap", "", 1, ["replace"])},
    "Neighbours of words that no cell can have": lambda: Neighbours("cell", "add-remove"),  # type: ignore[arg-type]
    "Neighbours of an unknown unit": lambda: Neighbours("person", Relation.REPLACE),  # type: ignore[arg-type]
    "Neighbours of an unknown relation": lambda: Neighbours(Unit.ROW, "swap"),  # type: ignore[arg-type]
    **{f"PublicSeed.given({s!r})": lambda s=s: ad.PublicSeed.given(s) for s in (1, None, b"a", 1.5, ["a"])},
    **{f"PublicSeed({s!r})": lambda s=s: ad.PublicSeed(s, "given") for s in (b"", b"a" * 31, "a" * 32, 1, None)},
    **{
        f"Schema.from_dict({d!r})": lambda d=d: ad.Schema.from_dict(d)
        for d in (
            None,
            1,
            "columns",
            [],
            {},
            {"columns": 1},
            {"columns": {}},
            {"columns": [1]},
            {"columns": {"a": 1}},
            {"columns": {"a": {}}},
            {"columns": {1: {"kind": "flag"}}},
            {"table": 1},
            {"tabel": {}},
            {1: 2},
        )
    },
    **{f"low = {v!r}": _with(low=v) for v in ("0", None, [0], True, float("nan"), float("-inf"), -(10**400))},
    "low of 5,001 digits": _with(low=-HUGE),
    "missing of 5,001 digits": _with(missing=HUGE),
    "a key of 5,001 digits": lambda: ad.Schema.from_dict({"columns": {"age": COLUMNS["age"] | {HUGE: 1}}}),
    "rows of 5,001 digits": lambda: ad.Schema.from_dict({"table": {"rows": HUGE}, "columns": COLUMNS}),
    "a category missing of 5,001 digits": lambda: Column("a", "category", values=(0, 1), missing=HUGE),
    "category values of 5,001 digits": lambda: Column("a", "category", values=(HUGE, 1.5)),
    "a name that is a number": lambda: Column(1, "flag"),  # type: ignore[arg-type]
    "kind of 5,001 digits": lambda: Column("a", HUGE),  # type: ignore[arg-type]
    **{
        f"Schema.space({b!r})": lambda b=b: PLAIN.space(b)
        for b in (0.0, -1.0, 1e300, 1e308, float("nan"), float("inf"), "1", True, 10**400)
    },
    **{
        f"DPPro(dimension={d!r})": lambda d=d: ad.DPPro(dimension=d)
        for d in (0, -1, 1.5, "2", True, float("nan"), 10**400)
    },
    "DPPro of 5,001 dimensions' digits": lambda: ad.DPPro(dimension=-HUGE),
    **{f"DPPro(expected={e!r})": lambda e=e: ad.DPPro(expected=e) for e in (0, -1, 1e300, float("nan"), "1")},
    **{
        f"Histogram(columns={c!r})": lambda c=c: ad.Histogram(columns=c)
        for c in (("age", "age"), ("",), "", (1,), 1, ["age", "age"])
    },
    **{f"Histogram(bins={b!r})": lambda b=b: ad.Histogram(bins=b) for b in (0, -1, 1.5, "8", True)},
    **{f"Moments(label={v!r})": lambda v=v: ad.Moments(label=v) for v in ("", ("a", "a"), (1,), 1)},
    **{f"Moments(rows={v!r})": lambda v=v: ad.Moments(rows=v) for v in (0, -1, 1.5, "8", True, 10**20)},
    **{f"release(budget={b!r})": _release(budget=b) for b in (0.0, None, "1")},
    **{f"release(mechanism={m!r})": _release(mechanism=m) for m in ("dpro", "", ad.DPPro, 1)},
    **{f"release(schema={s!r})": _release(schema=s) for s in (None, 1, "absent.toml", "", {"columns": []})},
    **{f"release(seed={s!r})": _release(seed=s) for s in ("", 1.5, True, b"a" * 32)},
    **{f"release(ledger={v!r})": _release(ledger=v) for v in (b"l.db", 1)},
    **{f"release(row_bound={v!r})": _release(row_bound=v) for v in (0, -1, 1e300, 1e308, float("nan"), "1")},
    **{f"release(name={v!r})": _release(name=v) for v in ("", " ", 1, "x" * 2000)},
    **{f"release(out={v!r})": _release(out=v) for v in (1, ".", b"r")},
    **{f"release(signing_key={v!r})": _release(signing_key=v) for v in (1, "absent.pem", b"k")},
    **{f"plan(budget={b!r})": _plan(budget=b) for b in (-1.0, None)},
    **{f"plan(mechanism={m!r})": _plan(mechanism=m) for m in ("dpro", ad.DPPro)},
    **{f"plan(schema={s!r})": _plan(schema=s) for s in (None, 1)},
    **{f"plan(row_bound={v!r})": _plan(row_bound=v) for v in (1e300, "1")},
    "plan(seed)": _plan(seed=1.5),
    "JupaRecipe twice": lambda: JupaRecipe(("a",), ("b", "b")),
    **{
        f"JupaRecipe(rho0={v!r})": lambda v=v: JupaRecipe(("a",), ("b",), rho0=v)
        for v in (-1, "1", None, 1e300, 10**400)
    },
    **{f"JupaRecipe(release={v!r})": lambda v=v: JupaRecipe(("a",), ("b",), release=v) for v in (1, "", "corse")},
    "public_axes of nothing": lambda: ad.public_axes(FRAME, PLAIN, 0),
    "public_axes of a wrong schema": lambda: ad.public_axes(FRAME, 1),  # type: ignore[arg-type]
    "public_dictionary of a column twice": lambda: ad.public_dictionary(FRAME, PLAIN, columns=["sex", "sex"]),
    "public_dictionary of records in bins": lambda: ad.public_dictionary(FRAME, PLAIN, input="records", bins=4),
}


@pytest.mark.parametrize("case", CALLS)
def test_bad_arguments_in_python(home: Home, case: str) -> None:
    before = content(home)
    with pytest.raises(ad.InputError) as found:
        CALLS[case]()
    assert all(part.strip() for part in (found.value.expected, found.value.got, found.value.remedy))
    assert content(home) == before


QUERIES: dict[str, Callable[[Release], object]] = {
    "a weight of 10^400": lambda r: r.workload([{"where": {"age": (1, 2)}, "weight": 10**400}]),
    "a range to 10^400": lambda r: r.range("age", 0, 10**400),
    "a range to text": lambda r: r.range("age", 0, "forty"),  # type: ignore[arg-type]
    "a value of 5,001 digits": lambda r: r.count("age", HUGE),
    "a mu as text": lambda r: r.count("sex", "F", mu="0.05"),  # type: ignore[arg-type]
    "a marginal of a column twice": lambda r: r.marginal(["sex", "sex"]),
    "a marginal of a number": lambda r: r.marginal([1]),  # type: ignore[list-item]
    "a workload that is a number": lambda r: r.workload(1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", QUERIES)
def test_bad_questions_in_python(releases: dict[str, Path], case: str) -> None:
    with pytest.raises(ad.InputError):
        QUERIES[case](ad.load(releases["cells"]))


def test_bad_pairs_and_weights_in_python(releases: dict[str, Path]) -> None:
    release = ad.load(releases["rows"])
    for count in (0, 10**7, 10**20, "3", True):
        with pytest.raises(ad.InputError):
            release.random_pairs(count)  # type: ignore[arg-type]
    for weight in (1e300, 10**400, "1", None, float("nan")):
        with pytest.raises(ad.InputError):
            release.linear({"age": weight})  # type: ignore[dict-item]
    with pytest.raises(ad.InputError):
        release.covariance(["age", "age"])


# ---- what the limits let through


def test_limits_do_not_touch_ordinary_schemas() -> None:
    """Dots, brackets and digits within text and comments are no keys, no nesting, no numbers."""
    value = ".".join(str(i) for i in range(200)) + "[" * 100
    lines = [
        "# " + "a." * 100 + "[" * 100 + "9" * 5000,
        "[columns.oid]",
        'kind = "category"',
        f'values = ["{value}", \'{value}x\', """{value}\n"y\\"" """, \'\'\'{value}\'z\'\'\', "{"9" * 3000}"]',
        '[columns."' + "a." * 100 + '"]',
        'kind = "flag"',
        "[columns.n]",
        'kind = "number"',
        "low = -0.5",
        "high = 1.5e3",
    ]
    schema = ad.Schema.parse("\n".join(lines))
    assert [c.name for c in schema.columns] == ["oid", "a." * 100, "n"]
    assert len(schema.columns[0].values) == 5
    assert toml_document(".".join("a" * MOST_PARTS) + " = 1")
    assert json_document(b"[" * MOST_NESTED + b'"[[["' + b"]" * MOST_NESTED)
    for text in (".".join("a" * (MOST_PARTS + 1)) + " = 1", f"x = {'[' * (MOST_NESTED + 1)}"):
        with pytest.raises(ValueError, match=r"parts|nested"):
            toml_document(text)


def test_a_schema_of_twenty_thousand_columns_loads(tmp_path: Path) -> None:
    text = "".join(f'[columns.c{i}]\nkind = "number"\nlow = 0\nhigh = 1.5\n' for i in range(20_000))
    (tmp_path / "s.toml").write_text(text)
    assert len(ad.Schema.load(tmp_path / "s.toml").columns) == 20_000


def test_a_query_of_many_terms_is_added_up_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, 9, (40, 2, 2)), axis=2).astype(float)
    query = np.repeat([0, 1], 20)
    workload = Workload((8, 8), ("a", "b"), query, rng.normal(size=40), ends[:, :, 0], ends[:, :, 1])
    whole = workload.dense(slice(0, 2))
    monkeypatch.setattr("adumbra.counting.workload._HELD", 64 * 3)
    np.testing.assert_allclose(workload.dense(slice(0, 2)), whole)
    np.testing.assert_allclose(workload.dense(slice(1, 2)), whole[1:])


# ---- the name of the program, and a benchmark that needs a library


@pytest.mark.parametrize("name", ["adumbra", "/usr/bin/python -m pytest", "/x/__main__.py", "main.py", ""])
def test_the_program_calls_itself_adumbra(
    home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    for words in (["release"], ["answer", "r", "distnace"], ["ledger", "cap"]):
        monkeypatch.setattr(sys, "argv", [name, *words])
        assert command() == 2
        said = capfd.readouterr().err
        assert f"adumbra {words[0]}" in said
        assert name in ("", "adumbra") or name not in said
    monkeypatch.setattr(sys, "argv", [name, "release", "--help"])
    assert command() == 0
    assert "Usage: adumbra release" in capfd.readouterr().out


def test_a_benchmark_that_draws_looks_for_its_library_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "benchmarks" / "counting.py"
    spec = importlib.util.spec_from_file_location("counting_benchmark", file)
    assert spec is not None and spec.loader is not None
    counting = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "counting_benchmark", counting)
    monkeypatch.syspath_prepend(str(file.parent))
    spec.loader.exec_module(counting)
    monkeypatch.setattr(counting, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["counting.py", "--quick", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        counting.main()
    assert stopped.value.code == 2
    assert "matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
