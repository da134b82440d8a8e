"""One request, in many forms: each gives the same job, whoever asks; what cannot be meant is refused at no cost."""

from __future__ import annotations

import inspect
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adumbra as ad
from adumbra import pipeline
from adumbra.cli.main import command
from adumbra.cli.release_command import Asked
from adumbra.request import WORDS, Request, RequestTerms, ledger_of, schema_of, seed_of
from adumbra.sklearn import DPProTransformer, PrivatePCA
from tests.conftest import SCHEMA, Home

DECLARED = tomllib.loads(SCHEMA)
PARSED = ad.Schema.from_dict(DECLARED)


def planned(home: Home, **changed: Any) -> dict[str, Any]:
    """What a plan says, in values that can be compared."""
    asked: dict[str, Any] = {
        "table": home.table,
        "schema": PARSED,
        "mechanism": ad.Histogram(columns=("age", "sex")),
        "budget": ad.Budget(1.0, 1e-6, ad.Unit.ROW, ad.Relation.ZERO_OUT),
        "seed": ad.PublicSeed.given("7"),
    }
    plan = ad.plan(**(asked | changed))
    job = plan.job
    return {
        "mechanism": job.mechanism,
        "promise": job.promise,
        "schema": job.schema,
        "name": job.name,
        "seed": job.setting.seed,
        "bound": job.space.row_bound,
        "events": {line: found.event for line, found in plan.calibrations.items()},
        "costs": dict(plan.costs),
    }


PARTS = {"unit": "row", "relation": "zero-out"}
FORMS: dict[str, dict[str, Any]] = {
    "table as text": {"table": "t.csv"},
    "table as a frame": {"table": "frame", "name": "patients"},
    "schema as a dictionary": {"schema": DECLARED},
    "schema as a path": {"schema": Path("s.toml")},
    "schema as text": {"schema": "s.toml"},
    "mechanism by name": {"mechanism": "histogram", "options": {"columns": ("age", "sex")}},
    "options as a list": {"mechanism": "histogram", "options": {"columns": ["age", "sex"]}},
    "options as typed": {"mechanism": "histogram", "options": {"columns": "age, sex"}},
    "no options": {"options": None},
    "budget as a number": {"budget": 1.0, **PARTS},
    "budget as a whole number": {"budget": 1, **PARTS, "delta": 1e-6},
    "budget of numpy": {"budget": np.float64(1.0), **PARTS, "delta": np.float64(1e-6)},
    "unit and relation as they are": {"budget": 1.0, "unit": ad.Unit.ROW, "relation": ad.Relation.ZERO_OUT},
    "unit and relation in the budget as text": {"budget": ad.Budget(1.0, unit="row", relation="zero-out")},  # type: ignore[arg-type]
    "seed as a number": {"seed": 7},
    "seed of numpy": {"seed": np.int64(7)},
    "seed as text": {"seed": "7"},
    "a ledger as text": {"ledger": "book.db"},
    "a ledger as a path": {"ledger": Path("book.db")},
    "what only a release needs": {"out": "r", "csv": "formula-safe"},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_plan(home: Home, form: str) -> None:
    changed = dict(FORMS[form])
    if changed.get("table") == "frame":
        changed["table"] = pl.read_csv(home.table, infer_schema=False)
    assert planned(home, **changed) == planned(home)
    assert sorted(p.name for p in home.path.iterdir()) == ["s.toml", "t.csv"]


def test_a_row_bound_may_be_a_whole_number(home: Home) -> None:
    bounds = {Request.of("t.csv", "s.toml", "dppro", 1.0, row_bound=bound).row_bound for bound in (1, 1.0)}
    assert bounds == {1}


def test_the_default_mechanism_is_that_of_the_command_line(home: Home) -> None:
    default = ad.plan("t.csv", "s.toml", budget=1.0).job
    assert default.choice is not None
    assert default.mechanism == ad.plan("t.csv", PARSED, ad.Auto(), ad.Budget(1.0)).job.mechanism
    assert default.promise.delta == 1e-6 and str(default.promise.neighbours) == "row/replace"


def test_the_unit_of_the_schema_holds_unless_another_is_given(home: Home) -> None:
    by_cell = DECLARED | {"table": {"unit": "cell"}}
    assert str(Request.of("t.csv", by_cell, "dppro", 1.0).promise.neighbours) == "cell/replace"
    assert str(Request.of("t.csv", by_cell, "dppro", 1.0, unit="row").promise.neighbours) == "row/replace"


def test_a_short_call_releases_and_charges(home: Home) -> None:
    done = ad.release("t.csv", "s.toml", "tables", 1.0, options={"rows": 20}, ledger="book.db", out="r", csv=True)
    assert done.table.height == 20
    assert (home.path / "r" / "data.csv").exists()
    (total,) = {entry.table for entry in ad.Ledger("book.db").entries()}
    assert total == "patients"
    assert ad.load("r").card == ad.load(Path("r")).card
    assert ad.evaluate_release("r", "t.csv").notice == ad.evaluate_release(Path("r"), Path("t.csv")).notice


def test_the_ledger_of_the_schema_is_taken_where_none_is_given(home: Home) -> None:
    kept = DECLARED | {"table": {"ledger": str(home.path / "own.db")}}
    named = Request.of("t.csv", kept, "tables", 1.0).ledger
    assert named is not None and named.path == home.path / "own.db"
    other = Request.of("t.csv", kept, "tables", 1.0, ledger="other.db").ledger
    assert other is not None and other.path == Path("other.db")
    assert Request.of("t.csv", DECLARED, "tables", 1.0).ledger is None


NONSENSE: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no budget": ({"budget": None}, "epsilon as a number, or a Budget", "none", "budget=1.0"),
    "a budget as text": ({"budget": "1.0"}, "epsilon as a number, or a Budget", "a str", "budget=1.0"),
    "a budget of yes": ({"budget": True}, "epsilon as a number, or a Budget", "a bool", "budget=1.0"),
    "a budget that is no budget": ({"budget": -1.0}, "epsilon > 0", "epsilon = -1.0", "positive finite epsilon"),
    "delta twice": (
        {"budget": ad.Budget(1.0), "delta": 0.0}, "delta inside the Budget", "delta beside a Budget", "Budget(epsilon"
    ),
    "delta of 2": ({"delta": 2.0}, "0 <= delta < 1", "delta = 2.0", "well below 1/rows"),
    "unit": ({"unit": "house"}, "unit one of row, cell", "unit = 'house'", "pick one"),
    "unit of 3": ({"unit": 3}, "unit one of row, cell", "unit = 3", "pick one"),
    "relation": ({"relation": "swap"}, "relation one of replace", "relation = 'swap'", "pick one"),
    "a pair without a sense": (
        {"unit": "cell", "relation": "add-remove"}, "a relation that makes sense", "unit cell", "--unit row"
    ),
    "an unknown mechanism": ({"mechanism": "hybird"}, "a mechanism of the catalogue", "'hybird'", "mean hybrid?"),
    "a budget for a mechanism": ({"mechanism": 1.0}, "a mechanism, such as", "1.0", "name the budget: budget="),
    "a class": ({"mechanism": ad.Hybrid}, "a mechanism, such as Hybrid()", "Hybrid", '"auto" or Hybrid()'),
    "an unknown option": ({"options": {"bin": 3}}, "an option of tables", "--bin", "did you mean --bins?"),
    "a bad option": ({"options": {"bins": "x"}}, "--bins of type int", "'x'", "valid integer"),
    "options that are none": ({"options": [1]}, "options of the mechanism", "a list", "options={"),
    "options without a name": (
        {"mechanism": ad.Tables(), "options": {"rows": 9}}, "options beside the name", "beside a Tables", "where"
    ),
    "a schema of a number": ({"schema": 3}, "a Schema, its dictionary, or the path", "a int", "pathlib.Path"),
    "a schema that is not there": ({"schema": "no.toml"}, "a schema file", "no file no.toml", "draft one"),
    "a schema with a wrong key": ({"schema": {"colums": {}}}, "the schema with keys", "'colums'", "mean columns?"),
    "a table that is not there": ({"table": "no.csv"}, "a table file", "no.csv", "check the path"),
    "a table of a number": ({"table": 3}, "a path or a data frame", "a int", "give one of these"),
    "a delimiter of a number": ({"delimiter": 3}, "a delimiter of one character", "a int", 'delimiter=";"'),
    "a seed with a fraction": ({"seed": 1.5}, "a PublicSeed, text or a whole number", "a float", "seed="),
    "a seed of yes": ({"seed": True}, "a PublicSeed, text or a whole number", "a bool", "seed="),
    "an endless seed": ({"seed": 10**5000}, "a PublicSeed, text or a whole number", "5001 digits", "seed="),
    "an empty seed": ({"seed": " "}, "a seed as text", "an empty one", "leave it out"),
    "a row bound below 0": ({"row_bound": -1.0}, "row_bound > 0", "row_bound = -1.0", "positive row bound"),
    "a row bound as text": ({"row_bound": "1"}, "row_bound > 0", "row_bound = '1'", "positive row bound"),
    "a name of a number": ({"name": 3}, "--name as text", "3", "short name"),
    "a ledger of a number": ({"ledger": 3}, "a Ledger, or the path of its file", "a int", "pathlib.Path"),
    "an out of a number": ({"out": 3}, "a folder to create", "a int", "pathlib.Path"),
    "an out that is there": ({"out": "t.csv"}, "", "t.csv", ""),
    "a csv of a number": ({"csv": 3}, "csv = True, False or 'formula-safe'", "3", "choose one"),
    "a key of a number": ({"signing_key": 3}, "the path of an Ed25519 private key", "a int", "pathlib.Path"),
    "a key that is none": ({"signing_key": "t.csv"}, "an Ed25519 private key in PEM", "t.csv", "adumbra keygen"),
    "an unknown part": ({"sed": 7}, "a part of a request: options, delta", "sed", "did you mean seed?"),
}  # fmt: skip


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("call", [ad.plan, ad.release], ids=["plan", "release"])
def test_what_cannot_be_meant_is_refused_at_no_cost(home: Home, what: str, call: Any) -> None:
    changed, expected, got, remedy = NONSENSE[what]
    asked = {"table": "t.csv", "schema": "s.toml", "mechanism": "tables", "budget": 1.0, "ledger": home.ledger}
    with pytest.raises(ad.InputError) as refused:
        call(**(asked | changed))
    assert expected in refused.value.expected
    assert got in refused.value.got
    assert remedy in refused.value.remedy
    assert sorted(p.name for p in home.path.iterdir()) == ["s.toml", "t.csv"]


def test_errors_are_those_of_the_command_line(home: Home, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    for changed, words in (
        ({"mechanism": "hybird"}, ("--mechanism", "hybird")),
        ({"schema": "no.toml"}, ("--schema", "no.toml")),
        ({"budget": 0.0}, ("--epsilon", "0")),
        ({"delta": 1.0}, ("--delta", "1")),
        ({"unit": "cell", "relation": "add-remove"}, ("--unit", "cell", "--relation", "add-remove")),
        ({"row_bound": -1.0}, ("--row-bound", "-1")),
        ({"seed": " "}, ("--seed", " ")),
        ({"options": {"bin": 3}}, ("--bin", "3")),
    ):
        asked: dict[str, Any] = {"table": "t.csv", "schema": "s.toml", "mechanism": "tables", "budget": 1.0}
        with pytest.raises(ad.InputError) as refused:
            ad.plan(**(asked | changed))
        typed = ["plan", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "tables", *words]
        monkeypatch.setattr(sys, "argv", ["adumbra", *typed])
        assert command() == 2
        printed = capfd.readouterr().err
        for part in (refused.value.expected, refused.value.got, refused.value.remedy):
            assert part in printed


# ---- whoever asks


class Stopped(Exception):
    """Instead of a release."""


@pytest.fixture
def seen(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that were made; nothing is released."""
    found: list[Request] = []
    real = pipeline.prepare

    def prepare(request: Request, *more: Any) -> pipeline.Job:
        found.append(request)
        return real(request, *more)

    def stop(*_: Any, **__: Any) -> None:
        raise Stopped

    monkeypatch.setattr(pipeline, "prepare", prepare)
    monkeypatch.setattr(pipeline, "release", stop)
    return found


NUMBERS = '[columns.x0]\nkind = "number"\nlow = -1\nhigh = 3\n[columns.x1]\nkind = "number"\nlow = 0\nhigh = 1\n'


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    epsilon=st.floats(0.1, 10.0),
    delta=st.sampled_from([0.0, 1e-9, 1e-6, 1e-3]),
    unit=st.sampled_from(["row", "cell"]),
    relation=st.sampled_from(["replace", "zero-out"]),
    seed=st.one_of(st.integers(-(10**20), 10**20), st.sampled_from(["study 1", "0" * 64])),
    row_bound=st.one_of(st.none(), st.floats(0.1, 2.0)),
    name=st.sampled_from(["table", "people", "Mäuse"]),
    dimension=st.integers(1, 2),
)
def test_command_line_python_and_scikit_learn_make_equal_requests(
    seen: list[Request], home: Home, **asked: Any
) -> None:
    asked["row_bound"] = None if asked["unit"] == "cell" else asked["row_bound"]
    home.write("n.csv", "x0,x1\n0,1\n2,0\n")
    home.write("n.toml", NUMBERS)
    rows, seed, name, dimension = np.array([[0.0, 1.0], [2.0, 0.0]]), asked["seed"], asked["name"], asked["dimension"]
    promise = {key: asked[key] for key in ("delta", "unit", "relation", "row_bound")}
    seen.clear()

    with pytest.raises(Stopped):
        ad.release(
            rows, "n.toml", "dppro", asked["epsilon"], seed=seed, name=name, options={"dimension": dimension}, **promise
        )
    budget = ad.Budget(asked["epsilon"], asked["delta"], asked["unit"], asked["relation"])
    with pytest.raises(Stopped):
        ad.release(
            "n.csv", tomllib.loads(NUMBERS), ad.DPPro(dimension), budget,
            seed=ad.PublicSeed.given(str(seed)), name=name, row_bound=asked["row_bound"],
        )  # fmt: skip
    options = {"epsilon": asked["epsilon"], "mechanism": "dppro", "seed": seed, "name": name, "dimension": dimension}
    words = [f"--{k.replace('_', '-')}={v}" for k, v in (options | promise).items() if v is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["adumbra", "release", "n.csv", "--schema=n.toml", "--out=r", *words])
        command()
    step = DPProTransformer(
        [-1, 0], [3, 1], asked["epsilon"], seed=seed, table_name=name, dimension=dimension, **promise
    )
    with pytest.raises(Stopped):
        step.fit(rows).transform(rows)

    python, objects, typed, _, fitted = seen
    assert python == objects == replace(typed, out=None) == fitted
    assert typed.out == Path("r")
    assert hash(python.seed) == hash(fitted.seed)


def test_principal_components_ask_for_the_same(seen: list[Request]) -> None:
    rows = np.array([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(Stopped):
        PrivatePCA([-1, 0], [3, 1], 1, epsilon=2.0, seed=7, ledger="book.db").fit(rows)
    asked = seen[-1]
    assert asked == Request.of(
        rows, ad.Schema.parse(NUMBERS), "analyze_gauss", 2.0, options={"components": 1}, seed="7", name="table"
    )
    assert asked.ledger is not None and asked.ledger.path == Path("book.db")


def test_estimators_charge_a_ledger_that_is_given_as_a_path(home: Home) -> None:
    rows = np.random.default_rng(0).uniform(size=(30, 2))
    for ledger in ("book.db", Path("book.db"), ad.Ledger("book.db")):
        DPProTransformer(ledger=ledger, seed=3, dimension=1).fit_transform(rows)
    assert len(ad.Ledger("book.db").entries("table")) == 3
    with pytest.raises(ad.InputError, match="a Ledger, or the path"):
        DPProTransformer(ledger=3, dimension=1).fit_transform(rows)  # type: ignore[arg-type]


# ---- one list of parts


def test_python_and_command_line_know_the_same_parts() -> None:
    terms = set(RequestTerms.__annotations__)
    assert terms - {"options", "delta", "unit", "relation", "delimiter"} == {f.name for f in fields(Request)} - {
        "table", "schema", "mechanism", "budget"
    }  # fmt: skip
    typed = {f.name for f in fields(Asked)}
    assert terms - {"options", "out", "csv", "signing_key"} | {"table", "schema", "mechanism", "epsilon"} == typed - {
        "label", "rows"
    }  # fmt: skip
    assert set(WORDS) == terms - {"options"} | {"table", "schema", "mechanism", "epsilon"}


@pytest.mark.parametrize("call", [ad.plan, ad.release], ids=["plan", "release"])
def test_signatures_and_help_name_every_part(call: Any) -> None:
    shown = inspect.signature(call).parameters
    assert set(RequestTerms.__annotations__) <= set(shown)
    assert all(shown[name].kind is inspect.Parameter.KEYWORD_ONLY for name in RequestTerms.__annotations__)
    if call is ad.release:
        assert all(f"`{name}`" in call.__doc__ for name in shown if name != "options") and "`options`" in call.__doc__


def test_what_is_settled_stays_as_it_is() -> None:
    ledger, seed = ad.Ledger("book.db"), ad.PublicSeed.fresh()
    assert ledger_of(ledger) is ledger and ledger_of(None) is None
    assert seed_of(seed) is seed and seed_of(None) is None and seed.is_fresh
    assert schema_of(PARSED) is PARSED


def test_a_request_says_nothing_of_its_table(home: Home) -> None:
    asked = Request.of(
        pl.DataFrame({"age": [34], "sex": ["F"], "smoker": [True], "outcome": ["dead"]}), DECLARED, budget=1
    )
    assert "34" not in repr(asked).split("columns=")[0]
    assert "table=" not in repr(asked).split("schema=")[0]


@pytest.mark.parametrize(
    "wrong", [{"notes": 5}, {"notes": []}, {"notes": ad.OwnerNotes}, {"engine": "x"}, {"engine": object()}]
)
def test_notes_and_engines_that_are_none_are_refused_before_the_charge(home: Home, wrong: dict[str, Any]) -> None:
    with pytest.raises(ad.InputError):
        ad.release("t.csv", "s.toml", "tables", 1.0, options={"rows": 5}, ledger="l.db", **wrong)
    assert not Path("l.db").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda home: ad.Schema.load(5),  # type: ignore[arg-type]
        lambda home: ad.Schema.load("a\0b"),
        lambda home: ad.Schema.load("\ud800"),
        lambda home: schema_of("a\0b"),
        lambda home: seed_of("\ud800"),
        lambda home: ad.plan(home.table, PARSED, np.float64(1.0), 1.0),  # type: ignore[arg-type] # has a choose
        lambda home: ad.plan(home.table, PARSED, np.array([1.0]), 1.0),  # type: ignore[arg-type]
        lambda home: ad.CSM(ratio="x"),  # type: ignore[arg-type]
        lambda home: ad.CSM(ratio=np.array([1, 2])),  # type: ignore[arg-type]
        lambda home: ad.AnalyzeGauss(axes_share=np.array([1, 2])),  # type: ignore[arg-type]
        lambda home: ad.Moments(narrow=[]),  # type: ignore[arg-type]
        lambda home: ad.Moments(narrow="yes"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_three_parts(home: Home, wrong: Any) -> None:
    with pytest.raises(ad.InputError):
        wrong(home)


def test_yes_and_no_of_numpy_are_yes_and_no() -> None:
    assert ad.Moments(narrow=np.True_) == ad.Moments(narrow=True)  # type: ignore[arg-type]
    assert ad.Moments(narrow=0).narrow is False
