"""What is handed on must not tell more than it promised: estimators, searches, releases, models.

Neighbouring tables get the same noisy answers. Whatever then differs between the objects that come out, in any
attribute, property, closure or byte of a pickle, went around the noise. Classes are found, not listed: a new one fails
here until it is looked at.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import itertools
import pickle
import pkgutil
import secrets
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

import adumbra as ad
import adumbra.sklearn
from adumbra.audit.adversaries import AdversaryReport
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.jupa.release_catalogue import release_kinds
from adumbra.mechanisms.catalogue import build
from adumbra.pipeline import Job, OwnerNotes, Plan
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.sklearn import JUPA, DPProTransformer, PrivatePCA, search_cost
from adumbra.tables.read import open_table
from adumbra.tables.schema_draft import draft_schema
from adumbra.tables.table import Table
from tests.at_the_noise import warming
from tests.contents import contents, differing, reachable
from tests.mechanisms.test_contract import NAMES, SCHEMA, answered, people, promises
from tests.privacy.test_meter import SPACE

LOW, HIGH = np.array([0.0, -1.0, 10.0]), np.array([1.0, 3.0, 50.0])
DATE = "2000-01-01T00:00:00+00:00"


# ---- neighbours


def rows(count=14, seed=0):
    return LOW + (HIGH - LOW) * np.random.default_rng(seed).uniform(0.1, 0.9, (count, 3))


def neighbouring_rows(relation):
    """Matrices that differ in one row: at the corner of its range, outside of it, in the middle, not there."""
    rest = rows()
    corner, outside, middle = (np.vstack([row, rest]) for row in (HIGH, 2 * HIGH, (LOW + HIGH) / 2))
    if relation == "add-remove":
        return [(corner, rest), (outside, rest)]
    return [(corner, middle), (outside, np.vstack([LOW, rest]))]


def neighbouring_tables(relation):
    """Tables that differ in one row; one of them has cells that the owner is told about."""
    rest = people(12)
    odd, plain, empty = (
        pl.DataFrame([row], schema=rest.schema)
        for row in (
            {"age": 977.25, "smoker": True, "ward": "elsewhere"},
            {"age": 0.0, "smoker": False, "ward": "a"},
            dict.fromkeys(rest.columns),
        )
    )
    other = {Relation.REPLACE: plain, Relation.ZERO_OUT: empty, Relation.ADD_REMOVE: rest[:0]}[Relation(relation)]
    return pl.concat([odd, rest]), pl.concat([other, rest])


def seen(make, *tables):
    """The contents of what is made of each table. All of them get the same noisy answers, names and dates."""
    found = []
    for table in tables:
        with pytest.MonkeyPatch.context() as patch:
            calls, names = itertools.count(), itertools.count()
            made_up = warming(patch)  # on the first table only: its answers must not shift the others

            def told(exact, step, calls=calls, made_up=made_up):
                rng = np.random.default_rng(0 if made_up else next(calls))
                return 40.0 * rng.random(np.shape(exact)) ** 3 + rng.normal(size=np.shape(exact))

            answered(patch, told)
            patch.setattr(secrets, "token_hex", lambda size, names=names: f"{next(names):0{2 * size}x}")
            for module in [m for name, m in list(sys.modules.items()) if name.startswith("adumbra.")]:
                if inspect.ismodule(vars(module).get("datetime")):
                    now = SimpleNamespace(now=lambda _: SimpleNamespace(isoformat=lambda **_: DATE))
                    patch.setattr(module, "datetime", SimpleNamespace(datetime=now, UTC=None))
            made = make(table)
            parts = made if isinstance(made, tuple) else (made,)
            every = [(i, contents(part)) for i, part in enumerate(parts)]
            found.append({f"{i}{place}": value for i, part in every for place, value in part.items()})
    return found


# ---- every class is looked at


def transformed(**parameters):
    """A `DPProTransformer` that was fitted and has transformed."""

    def make(table):
        step = DPProTransformer(low=LOW, high=HIGH, seed="shared", **parameters)
        return step, step.fit_transform(table), step.transform(table)

    return make


def reduced(release_rows=True, **parameters):
    """A `PrivatePCA` that was fitted, and has released rows where it may."""

    def make(table):
        step = PrivatePCA(low=LOW, high=HIGH, seed="shared", **parameters)
        if not release_rows:
            return step.fit(table)
        made = step.fit_transform(table)
        return step, made, step.inverse_transform(made), step.transform(rows(5, seed=9))

    return make


@functools.cache
def fitted_on_public(release):
    public, y, hidden = rows(60, seed=5), np.arange(60) % 2, np.arange(60) // 30
    return JUPA(release=release, seed="shared", **JUPA_OPTIONS[release]).fit(public, y, privacy=hidden)


def served(release):
    """A `JUPA` that was fitted on public records, whatever they are, and has released private ones.

    What it returns is not compared but for laplace: the other releases promise no differential privacy. How many
    records did not arrive is stated on their card, and here.
    """

    def make(table):
        step = copy.deepcopy(fitted_on_public(release))
        out = step.transform(table, privacy=np.arange(len(table)) % 2)
        step._last.clear()
        return (step, out) if release == "laplace" else step

    return make


JUPA_OPTIONS = {
    "coarse": {},
    "fine": {"fine_kernel": "rbf", "bandwidth": 1.0, "most_steps": 5},
    "resample": {"model": "linear"},
    "respond": {"model": "linear", "epsilon": 1.0},
    "repair": {"model": "linear", "bins": 2},
    "laplace": {"epsilon": 2.0},
}
ESTIMATORS = {
    DPProTransformer: {
        "rows": (transformed(dimension=2), "replace"),
        "bound": (transformed(row_bound=0.3, projection="gaussian"), "replace"),
        "zero-out": (transformed(relation="zero-out", dimension=2), "zero-out"),
        "cell": (transformed(unit="cell", delta=0.0), "replace"),
    },
    PrivatePCA: {
        **{name: (reduced(mechanism=name, n_components=2), "replace") for name in ("lip", "power_method")},
        "analyze_gauss": (reduced(row_bound=0.5), "replace"),
        "centred": (reduced(centred=True, n_components=2), "replace"),
        "lip centred": (reduced(mechanism="lip", centred=True), "zero-out"),
        "public rows": (reduced(transform_rows="public", n_components=2), "replace"),
        "zero-out": (reduced(relation="zero-out"), "zero-out"),
        "axes": (reduced(False, relation="add-remove"), "add-remove"),
        "axes centred": (reduced(False, relation="add-remove", centred=True), "add-remove"),
    },
    JUPA: {release: (served(release), "replace") for release in release_kinds()},
}
CASES = [(kind.__name__, case) for kind, cases in ESTIMATORS.items() for case in cases]


def test_every_estimator_is_looked_at():
    """scikit-learn's classes in `adumbra.sklearn`, but for what others are built on."""
    found = set()
    for module in pkgutil.iter_modules(adumbra.sklearn.__path__, "adumbra.sklearn."):
        members = vars(importlib.import_module(module.name)).values()
        found |= {m for m in members if inspect.isclass(m) and issubclass(m, BaseEstimator)}
    ours = {kind for kind in found if kind.__module__.startswith("adumbra.")}
    bases = {base for kind in ours for base in kind.__mro__[1:]}
    assert ours - bases == set(ESTIMATORS), "give the new class its cases in ESTIMATORS"


SHARED = {"Card", "CountEstimate", "Estimate", "JupaModel", "Release", "UtilityFolder"}
"""Made of a table, or of what was made of it, and handed on."""
OWNERS = {"Evaluation": ad.Evaluation, "OwnerNotes": OwnerNotes, "plan": Plan}
"""The owner's own, with what each public name gives."""
MAKERS = {"apply_jupa", "evaluate_release", "fit_jupa", "load", "release"}
FRAMES = {"project", "public_axes", "public_dictionary"}
"""Give plain frames and arrays, of public tables or of the reader's own rows."""
DECLARED = {"Budget", "JupaRecipe", "Ledger", "Neighbours", "PublicSeed", "Relation", "Schema", "Unit"}
"""Written by hand, from public knowledge; and the ledger, which is told promises and never a row."""


def test_every_public_name_is_shared_or_the_owners_or_never_sees_a_table():
    """A class that is new to the interface must be put where it belongs, and looked at here if it is handed on."""
    rest = set(ad._HOMES) - SHARED - set(OWNERS) - MAKERS - FRAMES - DECLARED
    home = {name: ad._HOMES[name].split(".")[0] for name in rest}
    told = {name for name in rest if inspect.isclass(found := getattr(ad, name)) and issubclass(found, Exception)}
    audits = {name for name in rest if home[name] == "audit"}  # of tables that they make up
    mechanisms = {name for name in rest if home[name] == "mechanisms"}  # public parameters alone
    assert rest - told - audits - mechanisms == set()
    assert set(adumbra.sklearn.__all__) == {kind.__name__ for kind in ESTIMATORS} | {"SearchCost", "search_cost"}


@pytest.mark.parametrize("kind", [*OWNERS.values(), Job, AdversaryReport], ids=lambda kind: kind.__name__)
def test_what_is_the_owners_says_so(kind):
    assert "owner" in inspect.getdoc(kind).lower()
    assert "private" in inspect.getdoc(kind).lower()


# ---- neighbours make the same


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_an_estimator_tells_neighbours_apart_by_noisy_numbers_alone(kind, case):
    """Before and after it has released: attributes, parameters, cards, pictures for notebooks, pickles."""
    make, relation = next(cases[case] for found, cases in ESTIMATORS.items() if found.__name__ == kind)
    for pair in neighbouring_rows(relation):
        assert differing(*seen(make, *pair)) == []


def test_a_search_tells_neighbours_apart_by_noisy_numbers_alone():
    """Scores, chosen parameters, the fitted pipeline: all of it was learnt from noisy rows and given labels."""
    y = np.arange(15) % 2

    def make(table):
        pipe = make_pipeline(PrivatePCA(low=LOW, high=HIGH, seed="shared"), LogisticRegression())
        search = GridSearchCV(pipe, {"privatepca__n_components": [1, 2]}, cv=KFold(3))
        cost = search_cost(search)
        search.fit(table, y)
        search.refit_time_ = 0.0
        for name in [name for name in search.cv_results_ if name.endswith("_time")]:
            del search.cv_results_[name]
        return search, cost

    for pair in neighbouring_rows("replace"):
        assert differing(*seen(make, *pair)) == []


def released(name, relation, place, **more):
    """A release at a place that is empty again for the next one, after all that it answers was looked at."""

    def make(table):
        shutil.rmtree(place, ignore_errors=True)
        budget = ad.Budget(2.0, 1e-5, Unit.ROW, Relation(relation))
        seed = ad.PublicSeed.given("shared")
        return ad.release(table, SCHEMA, build(name, {}), budget, seed=seed, out=place, **more)

    return make


@pytest.mark.parametrize(
    ("name", "relation"), [(name, relation) for name in NAMES for unit, relation in promises(name) if unit == "row"]
)
def test_a_release_tells_neighbours_apart_by_noisy_numbers_alone(name, relation, tmp_path):
    """The object that `adumbra.release` gives: card, arrays, table, what it keeps for answers, its pickle."""
    make = released(name, relation, tmp_path / "out")
    assert differing(*seen(make, *neighbouring_tables(relation))) == []


@pytest.mark.parametrize("kind", ["frame", "pandas", "file"])
def test_a_release_holds_neither_the_table_nor_the_way_to_it(kind, tmp_path):
    """Not the rows, not their number, not what the owner was told of them, not the file they came from."""
    table = neighbouring_tables("add-remove")[0]
    file = tmp_path / "secret-place" / "people.csv"
    file.parent.mkdir()
    table.write_csv(file)
    given = {"frame": table, "pandas": table.to_pandas(), "file": file}[kind]
    release = ad.release(given, SCHEMA, ad.Tables(rows=3), ad.Budget(1.0, relation=Relation.ADD_REMOVE))
    release.save(tmp_path / "saved")
    for found in (release, ad.load(tmp_path / "saved")):
        held = reachable(found)
        assert not [type(h) for h in held if isinstance(h, Table | Job | Plan | OwnerNotes | PrivateRows | Meter)]
        assert not any(h is given for h in held)
        said = "\n".join(contents(found).values()) + "\n".join(
            path.read_bytes().decode("latin-1") for path in sorted(found.path.iterdir())
        )
        assert "secret-place" not in said and "elsewhere" not in said and "977.25" not in said


@pytest.mark.parametrize("release", release_kinds())
def test_an_estimator_that_learnt_from_public_records_is_as_it_was_after_private_ones(release):
    make = served(release)
    before = contents(copy.deepcopy(fitted_on_public(release)))
    made = make(rows(9, seed=3))
    assert differing(before, contents(made[0] if isinstance(made, tuple) else made)) == []


@pytest.mark.parametrize("release", release_kinds())
def test_a_model_is_as_it_was_after_private_records(release, tmp_path):
    """Applying a model to private records leaves no trace of them in it."""
    rng = np.random.default_rng(1)
    public = pl.DataFrame(
        {"a": rng.normal(size=60), "b": rng.normal(size=60), "u": ["x", "y"] * 30, "s": ["p", "p", "q", "q"] * 15}
    )
    model = ad.fit_jupa(public, ad.JupaRecipe("u", "s", release=release, **JUPA_OPTIONS[release]), seed="shared")
    _ = model.words
    before, told = contents(model), []
    private = public.with_columns(pl.Series("a", rng.normal(3.0, size=60)), pl.Series("b", [None, 1e9] * 30))
    folder = ad.apply_jupa(model, private, tmp_path / "out", tell=told.append)
    assert differing(before, contents(model)) == []
    assert told and not any(line in "\n".join(contents(folder).values()) for line in told)
    assert not [h for h in reachable(folder) if isinstance(h, Table | Job | OwnerNotes) or h is private]


# ---- what is sent on by itself


def test_a_pickled_release_is_its_folder_and_no_more(tmp_path):
    """It opens the folder again, in another process too; one that lives in a temporary place must be saved first."""
    table = people(30)
    release = ad.release(table, SCHEMA, ad.Laplace(columns="ward"), ad.Budget(1.0), out=tmp_path / "out")
    _ = release.table, release.counted  # what it keeps to answer faster stays behind
    written = pickle.dumps(release)
    assert len(written) < 1000 and b"secret" not in written
    again = pickle.loads(written)  # noqa: S301 - made two lines above
    assert again.table.equals(release.table) and again.verify() == [] and again.card == release.card
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).card.release_id)"
    there = subprocess.run([sys.executable, "-c", code], input=written, capture_output=True, check=True)
    assert there.stdout.decode().strip() == release.card.release_id
    passing = ad.release(table, SCHEMA, ad.Tables(rows=3), ad.Budget(1.0))
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ad.InputError, match="save"):
            travel(passing)
    assert passing.table.height == 3  # and is none the worse for it


def test_a_pickled_release_gives_back_the_frames_it_gave(tmp_path):
    release = ad.release(people(9).to_pandas(), SCHEMA, ad.DPPro(dimension=2), ad.Budget(1.0), out=tmp_path / "out")
    again = pickle.loads(pickle.dumps(release))  # noqa: S301 - made here
    assert isinstance(again.table, pd.DataFrame) and again.table.equals(release.table)


def test_a_release_can_be_pickled_once_it_is_saved(tmp_path, monkeypatch):
    """As the saved folder, by its absolute place, whatever the current folder is then."""
    monkeypatch.chdir(tmp_path)
    release = ad.release(people(9).to_pandas(), SCHEMA, ad.DPPro(dimension=2), ad.Budget(1.0))
    release.save("saved")
    loaded = ad.load("saved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for found, frame in ((release, pd.DataFrame), (loaded, pl.DataFrame)):
        for again in (pickle.loads(pickle.dumps(found)), copy.copy(found)):  # noqa: S301 - made here
            assert again.path == tmp_path / "saved" and again.card == release.card
            assert isinstance(again.table, frame) and again.verify() == []


def test_a_pickled_release_is_refused_where_another_has_its_place(tmp_path):
    written = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        made = ad.release(people(9), SCHEMA, ad.DPPro(dimension=2), ad.Budget(1.0), out=tmp_path / "out")
        written.append(pickle.dumps(made))
    with pytest.raises(ad.Refused, match="the folder changed since it was pickled"):
        pickle.loads(written[0])  # noqa: S301 - made here
    assert pickle.loads(written[1]).verify() == []  # noqa: S301 - made here


def test_rows_and_meters_do_not_print_how_many_rows_there_are():
    """Private under add-remove; a traceback or a notebook would show it."""
    printed = []
    for count in (23456, 23457):
        rows = PrivateRows(SPACE, count, lambda: iter(()))
        meter = Meter(rows, Promise(1.0, 0.0, Neighbours.parse("row/add-remove")), {"a": 1.0}, lambda *_: None)
        printed.append((repr(rows), repr(meter)))
    assert printed[0] == printed[1]


@pytest.mark.parametrize("relation", list(Relation))
def test_a_plan_prints_no_row_and_no_private_number_of_rows(relation):
    """A plan is the owner's, and often the last line of a notebook cell."""
    one, other = (
        ad.plan(table, SCHEMA, ad.Moments(rows=3), ad.Budget(1.0, relation=relation), seed=ad.PublicSeed.given("p"))
        for table in neighbouring_tables(relation)
    )
    for show in (repr, str, lambda plan: repr(plan.job)):
        plain = [show(plan).replace(hex(id(plan.job.setting.preview)), "") for plan in (one, other)]
        assert plain[0] == plain[1]
    said = str(one)  # short enough to be read
    assert said.startswith("Plan(moments: epsilon 1, delta 1e-06, unit row, relation ") and len(said) < 600
    assert all(f"{line}: share {share:.4g}, gaussian" in said for line, share in one.shares.items())
    assert f"row/{relation.value} {one.costs[f'row/{relation.value}']:.4g}" in said
    for travel in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="private table"):
            travel(one)


def test_a_draft_of_a_schema_and_an_evaluation_say_that_they_are_private():
    table = people(30)
    assert "private" in draft_schema(open_table(table)).lower()
    report = ad.evaluate_release(ad.release(table, SCHEMA, ad.Tables(rows=9), ad.Budget(1.0)), table)
    assert "private" in repr(report).lower()
    assert next(iter(report.to_dict())) == "notice" and "PRIVATE" in report.to_json()
