"""A release without a folder: no file is touched until it is saved, and saving writes what would have been written."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import adumbra as ad
from adumbra import pipeline, warm_up
from adumbra.audit.attacks.members import membership
from adumbra.evaluate.report import evaluate_release
from adumbra.mechanisms.catalogue import build
from adumbra.releases.folder import ReleaseFolder
from adumbra.releases.record import ReleaseInMemory
from adumbra.releases.signature import read_public_key
from adumbra.sklearn import DPProTransformer, PrivatePCA

SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "sex": {"kind": "category", "values": ["f", "m", "x"]},
            "smoker": {"kind": "flag"},
        }
    }
)
RNG = np.random.default_rng(5)
PEOPLE = pl.DataFrame(
    {
        "age": RNG.uniform(0, 110, 60).round(1),
        "sex": RNG.choice(["f", "m", "x"], 60).tolist(),
        "smoker": (RNG.random(60) < 0.4).tolist(),
    }
)
BUDGET = ad.Budget(2.0, 1e-6)
MADE = {
    "hybrid": {"rows": 7},
    "pairs": {"rows": 7},
    "tables": {"rows": 7},
    "dppro": {"dimension": 2},
    "analyze_gauss": {"components": 2},
    "lop": {"components": 2},
    "histogram": {"columns": ("sex", "smoker")},
    "laplace": {"columns": ("sex",)},
}

_watching: list[list[tuple[str, object]]] = []


def _hook(event, arguments):
    if _watching and event == "open":
        _watching[-1].append((str(arguments[0]), arguments[1] if arguments[1] is not None else arguments[2]))


sys.addaudithook(_hook)  # for the life of the process; it notes nothing outside `opened`


@contextlib.contextmanager
def opened():
    """Every file that Python opens, and how."""
    found: list[tuple[str, object]] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


def of_the_system(name: str) -> bool:
    """What says how much memory is left."""
    return name.startswith(("/proc/", "/sys/fs/cgroup"))


def writes(mode: object) -> bool:
    if isinstance(mode, int):
        return bool(mode & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return any(letter in str(mode) for letter in "wax+")


def test_the_watch_sees_a_file_that_is_written(tmp_path):
    with opened() as seen:
        (tmp_path / "x").write_text("x")
        os.close(os.open(tmp_path / "y", os.O_CREAT | os.O_WRONLY))
    assert [writes(mode) for _, mode in seen] == [True, True]
    with opened() as seen:
        ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET, out=tmp_path / "r")
    assert any(writes(mode) for _, mode in seen)


@pytest.mark.parametrize("name", MADE)
def test_a_release_without_a_folder_opens_no_file(name, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mechanism = build(name, MADE[name])
    ad.release(PEOPLE, SCHEMA, mechanism, BUDGET)  # libraries are imported, code is compiled
    with opened() as seen:
        done = ad.release(PEOPLE, SCHEMA, mechanism, BUDGET)
        _ = done.table, done.arrays, done.card, done.verify()
    assert [name for name, _ in seen if not of_the_system(name)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("components", [None, 2])
@pytest.mark.parametrize("mechanism", ["analyze_gauss", "lip", "power_method"])
def test_fitting_components_opens_no_file(mechanism, components, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = RNG.uniform(0, 1, (200, 4))

    def fit():
        pca = PrivatePCA(low=0, high=1, n_components=components, mechanism=mechanism, epsilon=4.0).fit(rows)
        pca.transform(rows)
        DPProTransformer(low=0, high=1, dimension=2).fit_transform(rows)

    fit()
    with opened() as seen:
        fit()
    assert [name for name, _ in seen if not of_the_system(name)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MADE)
def test_saving_writes_the_folder_that_the_card_describes(name, tmp_path):
    """Nothing of the release changes by it, but that its card lists the files."""
    done = ad.release(PEOPLE, SCHEMA, build(name, MADE[name]), BUDGET, csv=True)
    assert isinstance(done.record, ReleaseInMemory) and done.card.files == {} and done.verify() == []
    card, table, arrays = done.card, done.table, done.arrays
    assert done.save(tmp_path / "r") == tmp_path / "r"
    for found in (done, ad.load(tmp_path / "r")):
        assert isinstance(found.record, ReleaseFolder) and found.path == tmp_path / "r" and found.verify() == []
        assert found.card.model_copy(update={"files": {}}) == card
        assert found.table.equals(table) and pl.read_csv(tmp_path / "r" / "data.csv").height == table.height
        kept = found.arrays if arrays else {}
        assert kept.keys() == arrays.keys()
        assert all(kept[n].dtype == a.dtype and np.array_equal(kept[n], a) for n, a in arrays.items())
    assert set(done.card.files) == {p.name for p in (tmp_path / "r").iterdir()} - {"card.json"}
    assert pickle.loads(pickle.dumps(done)).card == done.card  # noqa: S301 - made here
    with pytest.raises(ad.InputError, match="exists"):
        done.save(tmp_path / "r")
    assert ad.load(done.save(tmp_path / "again")).verify() == []


@pytest.mark.parametrize("name", MADE)
def test_a_folder_has_the_same_files_whether_it_was_written_at_once_or_saved(name, tmp_path):
    mechanism, seed = build(name, MADE[name]), ad.PublicSeed.given("same")
    at_once = ad.release(PEOPLE, SCHEMA, mechanism, BUDGET, seed=seed, out=tmp_path / "at once")
    ad.release(PEOPLE, SCHEMA, mechanism, BUDGET, seed=seed).save(tmp_path / "saved")
    saved = ad.load(tmp_path / "saved")
    assert sorted(at_once.card.files) == sorted(saved.card.files)
    assert at_once.table.schema == saved.table.schema and at_once.table.height == saved.table.height
    plain = {"release_id", "created", "files", "facts", "words"}  # the rest depends on no noise
    assert at_once.card.model_dump(exclude=plain) == saved.card.model_dump(exclude=plain)
    assert at_once.card == ad.load(tmp_path / "at once").card  # the card in hand is the one that was written


def test_a_release_in_memory_has_no_folder_and_is_not_copied(tmp_path):
    done = ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET)
    with pytest.raises(ad.InputError, match=r"release\.save"):
        _ = done.path
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ad.InputError, match=r"release\.save"):
            travel(done)
    done.arrays["matrix"][:] = 0  # the caller's own
    assert done.arrays["matrix"].any()


def test_a_release_is_signed_when_it_is_saved(home, cli, tmp_path):
    assert cli("keygen", "mine").code == 0
    public = read_public_key("mine.pub")
    with pytest.raises(ad.InputError, match=r"release\.save"):
        ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET, signing_key="mine")
    done = ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET)
    assert done.verify(public) == ["the release is not signed: it is not saved yet"]
    with pytest.raises(ad.Refused, match="not signed"):
        done.demand(public)
    done.save("r", signing_key="mine")
    assert done.verify(public) == [] and ad.load("r", public).card == done.card
    with pytest.raises(ad.InputError, match="signing_key"):
        done.save("r2", signing_key="mine")


def test_what_was_edited_in_memory_is_not_what_is_saved(tmp_path):
    """The card's dictionaries and the arrays are in the caller's hands; what is signed is what was published."""
    made = ad.release(PEOPLE, SCHEMA, build("histogram", MADE["histogram"]), BUDGET)
    stated, measured = made.card.model_dump(mode="json"), made.arrays["measured"]
    made.card.costs["row/replace"] = 0.001
    made.card.noise.clear()
    made.card.facts["decoder"] = "sparse"
    made.arrays["measured"][:] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        made.record.public["measured"][:] = 0.0
    with pytest.raises(TypeError):
        made.record.public["measured"] = measured * 0.0
    opened = ad.load(made.save(tmp_path / "r"))
    assert opened.verify() == []
    assert opened.card.model_dump(mode="json") | {"files": {}} == stated
    assert np.array_equal(opened.arrays["measured"], measured)
    assert made.card.costs == opened.card.costs


@pytest.mark.parametrize("name", ["hybrid", "dppro", "analyze_gauss", "histogram"])
def test_answers_and_evaluations_are_those_of_the_saved_release(name, tmp_path):
    done = ad.release(PEOPLE, SCHEMA, build(name, MADE[name]), BUDGET)
    ask = {
        "dppro": lambda r: r.distances([(0, 1)]).rows(),
        "analyze_gauss": lambda r: r.axes().rows(),
        "histogram": lambda r: r.marginal(["sex"]).rows(),
        "hybrid": lambda r: r.table.rows(),
    }[name]
    before = ask(done), evaluate_release(done, PEOPLE).to_dict()
    done.save(tmp_path / "r")
    loaded = ad.load(tmp_path / "r")
    assert before == (ask(loaded), evaluate_release(loaded, PEOPLE).to_dict())


def test_an_attack_takes_a_release_in_memory(tmp_path):
    people = pl.concat([PEOPLE] * 3)
    done = ad.release(people, SCHEMA, ad.DPPro(dimension=2), BUDGET)
    before = membership(done, people, people, most=20)
    done.save(tmp_path / "r")
    assert membership(tmp_path / "r", people, people, most=20).success == before.success


def test_a_table_of_any_library_comes_back_in_it():
    done = ad.release(PEOPLE.to_pandas(), SCHEMA, ad.Tables(rows=4), BUDGET)
    assert type(done.table).__module__.startswith("pandas") and len(done.table) == 4


def test_memory_is_asked_for_the_rows_that_are_held(monkeypatch, tmp_path):
    """Before the charge; a folder needs room on its disk instead."""
    ledger = ad.Ledger(tmp_path / "l.db")
    big = ad.Tables(rows=2_000_000)
    planned = ad.plan(PEOPLE, SCHEMA, big, BUDGET)
    needed = [warm_up.bytes_needed(planned, 2, held=held) for held in (False, True)]
    assert needed[1] - needed[0] == 16 * 2_000_000 * 3
    monkeypatch.setattr("adumbra.common.memory.available_memory", lambda threads=0: sum(needed) // 2)
    with pytest.raises(ad.InputError, match="free memory"):
        ad.release(PEOPLE, SCHEMA, big, BUDGET, ledger=ledger)
    assert not ledger.path.exists()


def test_the_disk_is_asked_only_where_there_is_a_folder(monkeypatch, tmp_path):
    def full(place):
        raise AssertionError("nobody writes to a disk")

    monkeypatch.setattr("shutil.disk_usage", full)
    assert ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET).table.height == 60
    with pytest.raises(AssertionError):
        ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET, out=tmp_path / "r")


def test_a_failure_after_the_charge_says_that_nothing_was_written(monkeypatch, tmp_path):
    ledger = ad.Ledger(tmp_path / "l.db")

    def fails(*arguments, **more):
        raise OSError("no card")

    ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET)
    monkeypatch.setattr("adumbra.publish.as_read", fails)
    with pytest.raises(ad.AfterCharge, match="no release was written"):
        ad.release(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET, ledger=ledger)
    assert len(ledger.events("table")) == 1


def test_a_release_of_no_rows_can_be_saved(tmp_path):
    """Under add-remove a table may be drawn as empty; it has its columns all the same."""
    card = ad.release(PEOPLE, SCHEMA, ad.Tables(rows=4), BUDGET).card
    empty = ReleaseInMemory(card, pl.DataFrame({"age": np.empty(0)}), {}, {})
    ad.Release(empty).save(tmp_path / "r")
    assert ad.load(tmp_path / "r").table.schema == {"age": pl.Float64} and ad.load(tmp_path / "r").verify() == []


def test_a_folder_is_still_written_batch_by_batch(monkeypatch, tmp_path):
    """A release with `out` holds no more than a batch: each is on its way to the file before the next is made."""
    monkeypatch.setattr("adumbra.tables.row_source.partition_rows", lambda width: 16)
    ad.release(
        PEOPLE,
        SCHEMA,
        ad.DPPro(dimension=1),
        BUDGET,
        out=tmp_path / "r",
    )
    groups = pq.ParquetFile(tmp_path / "r" / "data.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [16, 16, 16, 12]


def test_the_pipeline_gives_either(tmp_path: Path):
    job = ad.plan(PEOPLE, SCHEMA, ad.DPPro(dimension=1), BUDGET).job
    assert isinstance(pipeline.release(job, None)[0], ReleaseInMemory)
    assert isinstance(pipeline.release(job, tmp_path / "r")[0], ReleaseFolder)
