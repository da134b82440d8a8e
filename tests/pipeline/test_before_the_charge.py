"""Whatever can fail fails before the charge; what fails after it says so; the owner hears of repaired cells."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import pickle
import resource
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import adumbra as ad
from adumbra import pipeline, warm_up
from adumbra.common import memory
from adumbra.common.errors import AdumbraError
from adumbra.jupa import local
from adumbra.mechanisms.catalogue import build, catalogue, options
from adumbra.noise import add as noise
from adumbra.request import Request
from adumbra.tables.read import open_table
from adumbra.tables.table import Table
from adumbra.warm_up import MADE_UP_ROWS, made_up_table
from tests.conftest import finished, spawn

SCHEMA = ad.Schema.from_dict(
    {
        "table": {"name": "people"},
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "visits": {"kind": "number", "low": 0, "high": 9, "integer": True, "missing": 3},
            "smoker": {"kind": "flag"},
            "ward": {"kind": "category", "values": ["a", "b", "c"]},
            "outcome": {"kind": "category", "values": ["alive", "dead"], "role": "label"},
        },
    }
)
BUDGET = ad.Budget(1.0, 1e-6)


def people(count=400):
    """Columns that depend on each other, so that there is something to fit to that made-up rows need not have."""
    rng = np.random.default_rng(0)
    ward = rng.choice(list("abc"), count)
    return pl.DataFrame(
        {
            "age": rng.uniform(0, 110, count),
            "visits": rng.integers(0, 9, count),
            "smoker": ward == "a",
            "ward": ward.tolist(),
            "outcome": np.where(ward == "b", "dead", "alive").tolist(),
        }
    )


def ledger_in(folder):
    return ad.Ledger(folder / "budget.db")


def charges(ledger):
    return sum(entry.kind == "charge" for entry in ledger.entries()) if ledger.path.exists() else 0


@pytest.fixture
def cold(monkeypatch):
    """As in a process that has released nothing yet."""
    monkeypatch.setattr(warm_up, "_warm", set())


# ------------------------------------------------------------------------------------------- nothing new after it

PROBE = """
    import gc, json, sys
    import adumbra as ad
    from adumbra.privacy import charge
    from adumbra.mechanisms.catalogue import build, catalogue
    from tests.pipeline.test_before_the_charge import SCHEMA, people
    from numba.core.dispatcher import Dispatcher

    def compiled():
        found = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
        return {f"{d.py_func.__name__}{s}" for d in found for s in d.signatures}

    before = {}

    def checkpoint(name):
        if name == "charged":
            before.update(modules=set(sys.modules), compiled=compiled())

    charge.checkpoint = checkpoint
    late = {}
    for name in json.loads(sys.argv[1]):
        for delta in (1e-6, 0.0):
            if delta or catalogue()[name].deltas != "positive":
                ad.release(people(), SCHEMA, build(name, {}), ad.Budget(1.0, delta), csv=True)
                new = sorted(set(sys.modules) - before["modules"]) + sorted(compiled() - before["compiled"])
                late |= {f"{name} {delta}": new} if new else {}
    print(json.dumps(late))
"""


@pytest.mark.parametrize("names", [["hybrid"], [n for n in catalogue() if n != "auto"]], ids=len)
def test_nothing_is_imported_or_compiled_after_the_charge(names):
    """In a fresh process: for one mechanism alone, and for all of the catalogue one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROBE), json.dumps(names)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"ADUMBRA_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


@pytest.mark.parametrize("wide", [False, True])
def test_the_mechanism_has_run_on_made_up_rows_before_the_charge(wide, cold, tmp_path, monkeypatch):
    """Noise was drawn and a card was written before the ledger was touched; and private rows were not."""
    seen = []
    real_noise, real_charge, real_batches = noise.add_noise, ad.Ledger.charge, Table.batches

    def add_noise(law, exact, t, step, **kw):
        seen.append("noise")
        return real_noise(law, exact, t, step, **kw)

    def charge(self, **facts):
        seen.append("charge")
        return real_charge(self, **facts)

    def batches(self, columns, rows=16384):
        seen.append("private rows" if self.name == "private" else "made-up rows")
        return real_batches(self, columns, rows)

    monkeypatch.setattr(noise, "add_noise", add_noise)
    monkeypatch.setattr(ad.Ledger, "charge", charge)
    monkeypatch.setattr(Table, "batches", batches)
    number = {"kind": "number", "low": 0, "high": 1}
    schema = ad.Schema.from_dict({"columns": {f"c{i}": number for i in range(200)}}) if wide else SCHEMA
    frame = pl.DataFrame({f"c{i}": [0.5] * 30 for i in range(200)}) if wide else people()
    frame.write_csv(tmp_path / "private.csv")
    ad.release(tmp_path / "private.csv", schema, ad.Tables(rows=20), BUDGET, ledger=ledger_in(tmp_path))
    paid = seen.index("charge")
    assert seen[:paid] == ["made-up rows", "noise"]
    assert "private rows" in seen[paid:] and "noise" in seen[paid:] and "made-up rows" not in seen[paid:]


def test_a_mechanism_is_tried_though_another_of_the_same_options_was(cold, tmp_path, monkeypatch):
    """Frozen dataclasses of equal fields have one hash, whatever their class."""
    tried, real = [], warm_up._run_made_up
    monkeypatch.setattr(
        warm_up, "_run_made_up", lambda made, *rest: (tried.append(made.mechanism.name), real(made, *rest))
    )
    for name in ("hybrid", "pairs", "pairs", "hybrid"):
        ad.release(people(), SCHEMA, catalogue()[name](rows=5), BUDGET, ledger=ledger_in(tmp_path))
    assert hash(catalogue()["hybrid"]()) == hash(catalogue()["pairs"]()) and tried == ["hybrid", "pairs"]


@pytest.mark.parametrize("name", [n for n in catalogue() if n != "auto"])
def test_no_private_row_is_read_before_the_charge(name, cold, tmp_path, monkeypatch):
    opened = []
    job = pipeline.prepare(Request(open_table(people()), SCHEMA, build(name, {}), BUDGET))
    real = type(job.table).blocks
    monkeypatch.setattr(
        type(job.table),
        "blocks",
        lambda self, columns, rows=16384: (opened.append(self is job.table), real(self, columns, rows))[1],
    )

    def refuse(self, **facts):
        raise ad.Refused("a budget", "none", "nothing was charged")

    monkeypatch.setattr(ad.Ledger, "charge", refuse)
    with pytest.raises(ad.Refused):
        pipeline.release(job, tmp_path / "r", ledger=ledger_in(tmp_path))
    assert opened and not any(opened), "only made-up tables were read"
    assert list(tmp_path.iterdir()) == []


def test_a_made_up_table_holds_declared_cells_in_the_types_of_the_real_one():
    types = {"age": "text", "visits": "number", "smoker": "boolean", "ward": "text", "outcome": "text"}
    table = made_up_table(SCHEMA, types)
    (frame,) = table.batches(list(types))
    assert frame.height == table.count() == MADE_UP_ROWS
    assert table.types == types
    assert frame["ward"].drop_nulls().is_in(["a", "b", "c"]).all()
    assert frame["visits"].drop_nulls().is_between(0, 9).all()
    assert all(frame[name].null_count() == 1 for name in types)
    dates = ad.Schema.from_dict({"columns": {"day": {"kind": "category", "values": ["2020-01-01", "2020-01-02"]}}})
    assert made_up_table(dates, {"day": "time"}).types == {"day": "time"}


def test_a_fresh_seed_stays_fresh_for_the_release(cold):
    """The made-up run must not use up the claim: the card still has the account of a fresh projection."""
    card = ad.release(people(), SCHEMA, ad.DPPro(projection="gaussian"), BUDGET).card
    assert {line.account for line in card.noise.values()} == {"fresh-projection"}


def test_wide_tables_are_tried_with_a_few_columns():
    number = {"kind": "number", "low": 0, "high": 1}
    columns = {f"c{i}": number for i in range(900)} | {
        "whole": number | {"integer": True},
        "flag": {"kind": "flag"},
        "y": {"kind": "category", "values": ["u", "v"], "role": "label"},
        "named": number,
    }
    wide = ad.Schema.from_dict({"columns": columns})
    few = warm_up.narrowed(wide, ad.Histogram(columns=("named", "c800")))
    assert {"whole", "flag", "y", "named", "c800", "c0"} <= {column.name for column in few.columns}
    assert few.space().width < 150
    assert warm_up.narrowed(SCHEMA, ad.Tables()) is SCHEMA


# ----------------------------------------------------------------------------------------- failures, before and after


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()], ids=repr)
def test_what_fails_at_the_first_noise_costs_nothing(cold, tmp_path, monkeypatch, error):
    """A compiled function that cannot be written to a full cache, or memory that is not there."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(noise, "add_noise", fail)
    ledger = ledger_in(tmp_path)
    with pytest.raises((ad.InputError, MemoryError)):
        ad.release(people(), SCHEMA, ad.Tables(), BUDGET, ledger=ledger, out=tmp_path / "r")
    assert charges(ledger) == 0
    assert [p.name for p in tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EIO, "Input/output error"), ad.AfterCharge),
        (MemoryError(), ad.AfterCharge),
        (ad.InputError("a table", "another", "keep it still"), ad.AfterCharge),
        (RuntimeError("a defect"), RuntimeError),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_what_fails_after_the_charge_says_so(tmp_path, monkeypatch, error, kind):
    def fail(*_, **__):
        raise error

    ledger = ledger_in(tmp_path)
    for out in (None, tmp_path / "warm"):  # warm: the next failure is that of the release itself
        ad.release(people(), SCHEMA, ad.Tables(rows=9), BUDGET, out=out)
    monkeypatch.setattr(noise, "add_noise", fail)
    with pytest.raises(kind) as caught:
        ad.release(people(), SCHEMA, ad.Tables(rows=9), BUDGET, ledger=ledger, out=tmp_path / "r")
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "the charge stays, and no release was written" in said
    assert isinstance(caught.value, ad.AdumbraError) == (kind is ad.AfterCharge)
    assert charges(ledger) == 1
    assert not (tmp_path / "r").exists()
    with pytest.raises(kind) as caught:
        ad.release(people(), SCHEMA, ad.Tables(rows=9), BUDGET)
    assert "count it as spent" in " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize(
    ("error", "code"),
    [(lambda: OSError(errno.EIO, "Input/output error"), 4), (MemoryError, 4), (lambda: KeyError("HIV+"), 3)],
)
def test_exit_codes_after_the_charge(cli, home, monkeypatch, error, code):
    words = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "tables")
    assert cli(*words, "--out", "first").code == 0

    def fail(*_, **__):
        raise error()

    monkeypatch.setattr(noise, "add_noise", fail)
    result = cli(*words, "--out", "r")
    assert result.code == code
    assert "the charge stays, and no release was written" in result.err
    assert "HIV" not in result.err
    assert home.charges() == 2
    monkeypatch.setattr(warm_up, "_warm", set())
    result = cli(*words, "--out", "r")
    assert result.code == (2 if code == 4 else 3)
    assert home.charges() == 2
    assert "nothing was charged" not in result.err  # a defect does not know what was done before it
    assert ("if a release was charged, adumbra ledger show tells" in result.err) == (code == 3)


def test_an_output_that_is_full_does_not_undo_a_release(home):
    words = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro", "--out")
    python = [sys.executable, "-m", "adumbra.cli.main", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*python, "r"], cwd=home.path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
        assert done.returncode == 4
        assert "r is complete" in done.stderr
        assert "nothing was" not in done.stderr
        # notes are no result: a full disk behind them changes nothing
        done = subprocess.run(
            [*python, "r2"], cwd=home.path, stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )
        assert done.returncode == 0
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *python, "r3"], cwd=home.path, check=False)
    assert closed.returncode == 0  # nobody reads it
    piped = subprocess.run(
        ["sh", "-c", '"$@" | true; exit ${PIPESTATUS:-0}', "sh", *python, "r4"], cwd=home.path, check=False
    )
    assert piped.returncode == 0
    assert all(ad.load(home.path / name).verify() == [] for name in ("r", "r2", "r3", "r4"))
    assert home.charges() == 4


WORDS = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro")


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["card", "json"])
def test_an_output_without_a_place_for_a_letter_does_not_undo_a_release(home, form):
    done = finished(spawn(home, *WORDS, "--name", "größe", "--out", "r", *form, PYTHONIOENCODING="ascii:strict"))
    assert (done.code, home.charges()) == (0, 1), done.err
    assert "gr\\xf6\\xdfe" in done.err and "released to r" in done.err
    if form:
        assert json.loads(done.out)["table"] == "größe"
    else:
        assert "gr\\xf6\\xdfe" in done.out


def test_whatever_fails_while_the_card_is_printed_comes_after_the_charge(cli, home, monkeypatch):
    def fail(text):
        raise UnicodeEncodeError("ascii", "HIV+", 0, 1, "no place")

    monkeypatch.setattr("adumbra.cli.release_command.print_markdown", fail)
    done = cli(*WORDS, "--out", "r")
    assert done.code == 4
    assert "r is complete, and what was charged for it stays" in done.err
    assert "HIV" not in done.err


def test_a_terminal_that_goes_away_does_not_undo_a_release(home):
    ours, theirs = os.openpty()
    os.close(ours)  # from now on writing to the other end is an input/output error
    done = subprocess.run(
        [sys.executable, "-m", "adumbra.cli.main", *WORDS, "--out", "r"],
        cwd=home.path,
        env=os.environ | {"FORCE_COLOR": "1", "ADUMBRA_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, home.charges()) == (0, 1)
    assert ad.load(home.path / "r").verify() == []


@pytest.mark.parametrize("after", [True, False], ids=["after the commit", "before the commit"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lambda: OSError(errno.EIO, "Input/output error"), 4),
        (lambda: ad.InputError("a ledger that can be closed", "none", "look after the disk"), 4),
        (KeyboardInterrupt, 130),
        (lambda: KeyError("HIV+"), 3),
    ],
    ids=["OSError", "InputError", "KeyboardInterrupt", "KeyError"],
)
def test_a_charge_that_was_written_counts_whatever_comes_after_it(cli, home, monkeypatch, error, code, after):
    """An error between the ledger's commit and the next step of the release."""
    assert cli(*WORDS, "--out", "first").code == 0
    real = ad.Ledger.charge

    def charge(self, **facts):
        if after:
            real(self, **facts)
        raise error()

    monkeypatch.setattr(ad.Ledger, "charge", charge)
    done = cli(*WORDS, "--out", "r")
    assert home.charges() == 1 + after
    assert done.code == (2 if code == 4 and not after else code)
    said = f"The charge stays in {home.ledger}" if code == 130 else "the charge stays, and no release was written"
    assert (said in done.err) == after
    assert not (home.path / "r").exists()


def test_a_ledger_that_cannot_be_asked_counts_as_charged(cli, home, monkeypatch):
    assert cli(*WORDS, "--out", "first").code == 0
    with monkeypatch.context() as patch:

        def charge(self, **facts):
            home.ledger.write_bytes(b"no ledger any more")
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(ad.Ledger, "charge", charge)
        assert cli(*WORDS, "--out", "r").code == 4
    assert cli(*WORDS, "--out", "r").code == 2  # the ledger itself said that nothing could be written to it


def test_laplace_records_fail_before_the_charge_too(cold, tmp_path, monkeypatch):
    table = local.ProjectedTable(lambda: iter([np.zeros((20, 2))]), 20, ("z1", "z2"), 2.0)
    job = local.job_for(table, 1.0, "records")
    monkeypatch.setattr(noise, "add_noise", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    ledger = ledger_in(tmp_path)
    with pytest.raises(MemoryError):
        pipeline.release(job, tmp_path / "r", ledger=ledger)
    assert charges(ledger) == 0


# ------------------------------------------------------------------------------------------------- the machine's limits


def test_too_little_memory_is_refused_before_the_charge(cold, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda threads=0: 20_000_000)
    ledger = ledger_in(tmp_path)
    with pytest.raises(AdumbraError, match="MB of free memory") as caught:
        ad.release(people(), SCHEMA, ad.Tables(), BUDGET, ledger=ledger, out=tmp_path / "r")
    assert isinstance(caught.value, ad.InputError)
    assert "nothing was charged" in caught.value.remedy
    assert charges(ledger) == 0
    monkeypatch.setattr(memory, "available_memory", lambda threads=0: None)  # nobody says: nothing is refused
    ad.release(people(), SCHEMA, ad.Tables(), BUDGET, ledger=ledger, out=tmp_path / "r")
    assert charges(ledger) == 1


def test_memory_is_estimated_from_public_facts_alone():
    """Under add-remove the number of rows is private: two tables of other lengths are refused alike."""
    private = ad.Budget(1.0, 1e-6, relation=ad.Relation.ADD_REMOVE)
    needed = {n: warm_up.bytes_needed(ad.plan(people(n), SCHEMA, ad.Hybrid(), private), 2) for n in (400, 40_000)}
    assert needed[400] == needed[40_000]
    public = {n: warm_up.bytes_needed(ad.plan(people(n), SCHEMA, ad.Hybrid(), BUDGET), 2) for n in (400, 400_000)}
    assert public[400] < public[400_000] < 2**30


def test_what_the_system_says_about_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    monkeypatch.setattr(memory, "_CONTROL", tmp_path / "groups")
    assert memory.available_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 1000 kB\n")
    assert memory.available_memory() == 5000 * 1024
    inner = tmp_path / "groups" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("1:cpu:/x\n0::/a/b\n")
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("100\n")
    assert memory.available_memory() == 5000 * 1024
    (inner.parent / "memory.max").write_text("3000000\n")
    (inner.parent / "memory.current").write_text("2500000\n")
    (inner.parent / "memory.stat").write_text("anon 1\ninactive_file 300000\nactive_file 200000\n")
    assert memory.available_memory() == 1_000_000
    (tmp_path / "self" / "statm").write_text("1000 1 1 1 1 1 1\n")
    page = resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1000 * page + 900_000, -1))
    assert memory.available_memory() == 900_000
    assert memory.available_memory(threads=4) == 0


LIMITED = """
    import resource, sys
    def address_space():
        return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    import io, adumbra.cli.main, adumbra.pipeline, adumbra.mechanisms.catalogue, polars, pyarrow.csv
    # the libraries' own threads: one that cannot start any waits for ever while it reads
    polars.DataFrame({"a": ["1"]}).with_columns(polars.col("a").cast(polars.Float64))
    list(pyarrow.csv.open_csv(io.BytesIO(b"a\\n1\\n")))
    room = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + room, resource.RLIM_INFINITY))
    adumbra.cli.main.run()
"""


@pytest.mark.parametrize("room", [400, 3000])
def test_a_limit_on_memory_costs_nothing_or_nothing_fails(home, room):
    """With too little room a release is refused (exit code 2) and nothing is charged; with enough it is done.

    Wide enough that the release needs much more than its plan: what libraries reserve on the way differs by machine.
    """
    columns = "".join(f'[columns.c{i}]\nkind = "number"\nlow = 0\nhigh = 1\n' for i in range(2000))
    home.write("wide.toml", columns)
    header, row = ",".join(f"c{i}" for i in range(2000)), ",".join(["0.5"] * 2000)
    home.write("wide.csv", "\n".join([header, *[row] * 300]) + "\n")
    words = ["release", "wide.csv", "--schema", "wide.toml", "--epsilon", "1", "--mechanism", "moments", "--rows", "50"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(room << 20), *words, "--out", "r"],
        cwd=home.path,
        env=os.environ | {"ADUMBRA_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == (2 if room == 400 else 0), done.stderr
    assert ("of free memory for the release" in done.stderr) == (room == 400), done.stderr
    assert bool(home.charges()) == (done.returncode == 0) == (home.path / "r").exists()


@pytest.mark.parametrize("place", ["read-only", "full"])
def test_a_compiled_cache_that_takes_nothing_costs_nothing(home, place):
    """A cache folder that may not be written, or that is full: the release works, or fails before the charge."""
    folder = home.path / "cache"
    folder.mkdir()
    limit = ""
    if place == "read-only":
        folder.chmod(0o555)
    else:
        limit = "import numba.core.caching as c\n"
        limit += "def full(self, name, data): raise OSError(28, 'No space left on device')\n"
        limit += "c.IndexDataCacheFile._save_data = full\n"
    words = ["release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro", "--out", "r"]
    done = subprocess.run(
        [sys.executable, "-c", f"{limit}from adumbra.cli.main import run; run()", *words],
        cwd=home.path,
        env=os.environ | {"ADUMBRA_THREADS": "1", "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr
    assert bool(home.charges()) == (done.returncode == 0) == (home.path / "r").exists()


def test_threads_that_cannot_start_are_found_before_the_charge(cold, tmp_path, monkeypatch):
    import threading

    monkeypatch.setenv("ADUMBRA_THREADS", "3")
    real, started = threading.Thread.start, []

    def start(self):
        started.append(self)
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    ledger = ledger_in(tmp_path)
    with pytest.raises(ad.InputError, match="3 threads at once"):
        ad.release(people(), SCHEMA, ad.Tables(), BUDGET, ledger=ledger)
    assert charges(ledger) == 0
    assert not any(thread.is_alive() for thread in started)


# -------------------------------------------------------------------------------------------- the owner's notes


def test_the_owner_hears_of_repaired_cells_and_nobody_else(tmp_path, caplog):
    odd = people().with_columns(pl.lit("nowhere").alias("ward"), pl.lit(300.0).alias("age"))
    with caplog.at_level(logging.WARNING, logger="adumbra.owner"):
        release = ad.release(odd, SCHEMA, ad.Tables(rows=9), BUDGET, out=tmp_path / "r")
    (record,) = caplog.records
    assert "ward: 0 missing, 400 unknown, 0 out of range" in record.getMessage()
    assert "age: 0 missing, 0 unknown, 400 out of range" in record.getMessage()
    assert "for the owner only" in record.getMessage()
    shared = (
        repr(vars(release))
        + repr(release)
        + "".join(file.read_text(errors="replace") for file in (tmp_path / "r").iterdir())
    )
    assert "unknown, " not in shared and "OwnerNotes" not in shared
    caplog.clear()
    notes = ad.OwnerNotes()
    release = ad.release(odd, SCHEMA, ad.Tables(rows=9), BUDGET, notes=notes)
    assert not caplog.records, "whoever asks for the notes gets them, and nobody else"
    assert notes.repairs["ward"].unknown == 400 and notes.repairs["age"].clipped == 400
    assert notes not in gc.get_referents(release)
    ad.release(people(), SCHEMA, ad.Tables(rows=9), BUDGET, notes=notes)
    assert notes.lines() == []


def test_an_error_after_the_charge_travels_between_processes():
    error = ad.AfterCharge("this", "that", "do so")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.expected, again.got, again.remedy, again.exit_code) == ("this", "that", "do so", 4)
    assert not isinstance(again, ad.InputError)


# ------------------------------------------------------------------------------------------------- options in Python


WHOLE = [
    (name, key)
    for name, mechanism in catalogue().items()
    for key, hint in typing.get_type_hints(mechanism).items()
    if key in options(name) and hint in (int, int | None)
]
NEEDED = {
    "ensemble": {"projection": "gaussian"},
    "dimension": {"projection": "gaussian"},
    "rank": {"reconstruction": "pseudo-inverse"},
    "rows": {"result": "samples"},
}


@pytest.mark.parametrize(("name", "key"), WHOLE)
def test_a_whole_number_is_kept_as_one_and_a_fraction_refused(name, key):
    needed = {k: v for k, v in NEEDED.get(key, {}).items() if k in options(name)}
    for given in (2.0, np.float64(2), np.int64(2)):
        made = catalogue()[name](**needed, **{key: given})
        assert type(getattr(made, key)) is int and hash(made) == hash(catalogue()[name](**needed, **{key: 2}))
    for wrong in (2.5, "2", True, [2]):
        with pytest.raises(ad.InputError, match=key):
            catalogue()[name](**needed, **{key: wrong})


def test_every_option_that_is_a_whole_number_is_tried():
    assert len(WHOLE) > 25 and {"rows", "bins", "branching", "frequencies", "dimension"} <= {key for _, key in WHOLE}


@pytest.mark.parametrize("name", ["tables", "moments", "hybrid", "pairs"])
def test_rows_as_a_float_are_drawn(name, cold, tmp_path):
    mechanism = catalogue()[name](rows=20.0)
    assert ad.release(people(), SCHEMA, mechanism, BUDGET, ledger=ledger_in(tmp_path)).table.height == 20


def test_lists_of_numbers_are_kept_as_tuples():
    assert ad.CSM(weights=[0.5, 1]).weights == (0.5, 1) and ad.CSM(weights=np.ones(2)).weights == (1.0, 1.0)
    assert hash(ad.DPPro(bands=[1.0])) == hash(ad.DPPro(bands=(1.0,)))
    for wrong in (0.5, "0.5", ["a"], None):
        for made in (lambda value: ad.CSM(weights=value), lambda value: ad.DPPro(bands=value)):
            with pytest.raises(ad.InputError, match="list of numbers"):
                made(wrong)


# ------------------------------------------------------------------------------------- names that cannot be written


@pytest.mark.parametrize("odd", ["a\0b", "a\ud800"], ids=["null byte", "half a surrogate pair"])
def test_what_no_file_can_hold_is_refused_in_names_and_values(odd):
    number = {"kind": "number", "low": 0, "high": 1}
    for columns in ({odd: number}, {"c": {"kind": "category", "values": ["x", odd]}}):
        with pytest.raises(ad.InputError, match="that a file can hold"):
            ad.Schema.from_dict({"columns": columns})
    assert ad.Schema.from_dict({"columns": {"c": number, odd: {"role": "drop"}}}).released[0].name == "c"


def test_all_names_of_a_wide_table_are_written_before_the_charge(cold, tmp_path, monkeypatch):
    """The made-up table has a few columns only."""
    number = {"kind": "number", "low": 0, "high": 1}
    schema = ad.Schema.from_dict({"columns": {f"c{i}": number for i in range(200)}})
    frame = pl.DataFrame({f"c{i}": [0.5, 0.2] for i in range(200)})
    write = pq.ParquetWriter.write_table

    def fails(self, table, *rest):
        if "c199" in table.column_names:
            raise ValueError("no such name")
        return write(self, table, *rest)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    ledger = ledger_in(tmp_path)
    with pytest.raises(ValueError, match="no such name"):
        ad.release(frame, schema, ad.Tables(rows=5), BUDGET, ledger=ledger, out=tmp_path / "r")
    assert charges(ledger) == 0
