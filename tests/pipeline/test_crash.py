"""Killed, interrupted and raced: no charge is lost, no cap is passed, and a release folder is whole or absent."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import adumbra
from adumbra.common.files import hold
from adumbra.declare.guarantee import Neighbours
from adumbra.ledger.ledger import Ledger
from adumbra.releases.folder import ReleaseFolder
from tests.conftest import TABLE, Home, Result, finished, spawn

Cli = Callable[..., Result]
JOB = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro")

# Where the process dies, and whether the charge must be there afterwards.
POINTS = {
    "ledger-created": False,
    "ledger-before-insert": False,
    "ledger-before-commit": False,
    "ledger-after-commit": True,
    "charged": True,
    "measured a batch": True,
    "before the rename": True,
    "released": True,
}


def test_every_checkpoint_of_the_source_is_tried() -> None:
    source = Path(adumbra.__file__).parent
    calls = re.compile(r"^(?!def |\s*>>>).*\bcheckpoint\(\"([^\"]+)\"\)", re.MULTILINE)
    found = {name for path in source.rglob("*.py") for name in calls.findall(path.read_text())}
    assert found == set(POINTS)


def is_sound(home: Home) -> None:
    """The ledger, if begun, is whole; every folder that is not hidden is a whole release."""
    if home.ledger.exists():
        assert Ledger(home.ledger).check() == []
    for folder in home.path.iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
            assert ReleaseFolder.open(folder).verify() == []


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point(cli: Cli, home: Home, point: str) -> None:
    killed = finished(spawn(home, *JOB, "--out", "r", ADUMBRA_TEST_KILL_AT=point))
    assert killed.code == -signal.SIGKILL
    is_sound(home)
    assert home.charges() == POINTS[point]
    assert (home.path / "r").exists() == (point == "released")
    again = cli(*JOB, "--out", "r2" if point == "released" else "r")
    assert again.code == 0, again.err
    is_sound(home)
    assert home.charges() == POINTS[point] + 1
    # what the killed process could not remove, the next one to the same place did
    assert [name for name in home.leftovers() if "partial" in name] == []


@pytest.mark.parametrize("point", ["ledger-before-commit", "ledger-after-commit", "charged", "measured a batch"])
def test_several_looks_are_charged_together_or_not_at_all(home: Home, point: str) -> None:
    killed = finished(spawn(home, *JOB, "--mechanism", "hybrid", "--out", "r", ADUMBRA_TEST_KILL_AT=point))
    assert killed.code == -signal.SIGKILL
    is_sound(home)
    entries = Ledger(home.ledger).entries() if home.ledger.exists() else []
    lines = [entry.body["line"] for entry in entries if entry.kind == "charge"]
    assert lines == (["tables", "moments", "moments of residuals"] if POINTS[point] else [])
    assert not (home.path / "r").exists()


def test_a_living_neighbour_is_not_tidied_away(cli: Cli, home: Home) -> None:
    """Two releases to one place: the folder of a running process is no leftover."""
    running = home.path / ".r.adumbra-0123456789abcdef.partial"
    dead = home.path / ".r.adumbra-fedcba9876543210.partial"
    for folder in (running, dead):
        folder.mkdir()
        (folder / "data.parquet").write_bytes(b"x")
    lock = hold(running)
    assert lock is not None
    assert cli(*JOB, "--out", "r").code == 0
    assert running.exists()
    assert not dead.exists()


def wait_for(home: Home, process_done: Callable[[], bool], charged: bool) -> None:
    """Until the release has begun: its temporary folder (and, if asked, its charge) is there."""
    while not process_done():
        if any(home.path.glob(".r.*.partial")) and (not charged or home.charges()):
            return
        time.sleep(0.01)


def slow_table(home: Home, rows: int = 1_000_000) -> None:
    home.write("t.csv", TABLE.splitlines()[0] + "\n" + "1,34,F,yes,alive\n" * rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle(home: Home, number: signal.Signals) -> None:
    slow_table(home, 3_000_000)  # so long that a busy machine is not done before the signal is sent
    process = spawn(home, *JOB, "--out", "r", "--csv")
    wait_for(home, lambda: process.poll() is not None, charged=True)
    process.send_signal(number)
    result = finished(process)
    assert result.code == 130, result.err
    assert "Traceback" not in result.err
    assert "no release was written" in result.err
    assert not (home.path / "r").exists()
    assert home.leftovers() == []
    assert home.charges() == 1
    is_sound(home)


@pytest.mark.parametrize("delay", [0.3, 0.9, 1.6])
def test_interrupted_at_any_time(home: Home, delay: float) -> None:
    """While libraries load, the table is read or noise is drawn: exit code 130, no traceback."""
    slow_table(home)
    process = spawn(home, *JOB, "--out", "r")
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    result = finished(process)
    assert home.leftovers() == []
    is_sound(home)
    if result.code == -signal.SIGINT:  # python was still loading the command line itself
        assert home.charges() == 0
    elif result.code != 0:  # on a fast machine it may be done already
        assert result.code == 130, result.err
        assert "Traceback" not in result.err
        assert not (home.path / "r").exists()


def test_four_at_once_under_a_cap(home: Home) -> None:
    row = Neighbours.parse("row/replace")
    cap = 1.6  # room for one or two releases of epsilon 1, never for four
    Ledger(home.ledger).set_cap("patients", row, cap, 1e-6)
    processes = [spawn(home, *JOB, "--seed", "s", "--out", f"r{i}", "--json") for i in range(4)]
    results = [finished(process) for process in processes]
    assert {r.code for r in results} == {0, 1}
    released = [i for i, r in enumerate(results) if r.code == 0]
    for i, result in enumerate(results):
        folder = home.path / f"r{i}"
        assert folder.exists() == (i in released)
        if i in released:
            assert ReleaseFolder.open(folder).verify() == []
            assert json.loads(result.out)["epsilon"] == 1
        else:
            assert "nothing was charged" in result.err
    ledger = Ledger(home.ledger)
    assert ledger.check() == []
    assert ledger.spent("patients", row, 1e-6) <= cap * (1 + 1e-9)
    ids = {e.body["release_id"] for e in ledger.entries() if e.kind == "charge"}
    assert ids == {ReleaseFolder.open(home.path / f"r{i}").card.release_id for i in released}
    assert home.leftovers() == []


def test_four_at_once_to_one_place(home: Home) -> None:
    processes = [spawn(home, *JOB, "--out", "r") for _ in range(4)]
    results = [finished(process) for process in processes]
    # who finds the place taken only after the charge says so; nobody else has spent anything
    first, *others = sorted(r.code for r in results)
    assert first == 0 and set(others) <= {2, 4}
    charged = {e.body["release_id"] for e in Ledger(home.ledger).entries() if e.kind == "charge"}
    assert len(charged) == 1 + others.count(4)
    assert not any("Traceback" in r.err for r in results)
    is_sound(home)
    assert home.leftovers() == []
