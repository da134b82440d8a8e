"""A wish to stop is never lost: not in a finalizer, not in a library's callback; and it leaves no traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import FunctionType

import pytest

from adumbra import pipeline
from adumbra.cli.main import command
from adumbra.common import interrupts
from adumbra.common.errors import InputError
from adumbra.ledger.ledger import Ledger
from adumbra.privacy import charge
from tests.conftest import SCHEMA, TABLE, Home, finished, spawn

JOB = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "tables", "--rows", "50")


class Signalling:
    """Sends a signal while it is being thrown away, where Python cannot raise anything."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        for _ in range(1000):  # the handler runs between two steps of this function
            pass


def released(folder: Path, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Exit code of a release in this process, and charges of its ledger."""
    patch.chdir(folder)
    (folder / "t.csv").write_text(TABLE)
    (folder / "s.toml").write_text(SCHEMA)
    patch.setattr(sys, "argv", ["adumbra", *JOB, "--out", "r", "--ledger", "l.db"])
    code = command()
    ledger = folder / "l.db"
    charges = sum(entry.kind == "charge" for entry in Ledger(ledger).entries()) if ledger.exists() else 0
    return code, charges


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_finalizer_swallows_stops_before_the_charge(number, tmp_path, monkeypatch):
    real = pipeline.plan

    def planned(job):
        Signalling(number)
        return real(job)

    monkeypatch.setattr(pipeline, "plan", planned)
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    assert released(tmp_path, monkeypatch) == (130, 0)
    assert ignored == []
    assert not (tmp_path / "r").exists()


def test_an_interrupt_that_is_swallowed_after_the_charge_stops_between_batches(tmp_path, monkeypatch, capfd):
    real = charge.checkpoint

    def checkpoint(name):
        if name == "charged":
            Signalling(signal.SIGINT)
        real(name)

    monkeypatch.setattr(charge, "checkpoint", checkpoint)
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: pytest.fail("said to be ignored"))
    assert released(tmp_path, monkeypatch) == (130, 1)
    assert not (tmp_path / "r").exists()
    said = capfd.readouterr().err
    assert "no release was written. The charge stays in l.db (adumbra ledger show)" in said
    assert "Traceback" not in said and "ignored" not in said


def test_an_interrupt_swallowed_at_the_very_end_still_counts(tmp_path, monkeypatch, capfd):
    real = pipeline.checkpoint

    def checkpoint(name):
        if name == "released":
            Signalling(signal.SIGINT)
        real(name)

    monkeypatch.setattr(pipeline, "checkpoint", checkpoint)
    assert released(tmp_path, monkeypatch) == (130, 1)
    assert (tmp_path / "r").exists()
    assert "r is complete" in capfd.readouterr().err


def test_an_error_that_a_library_makes_of_an_interrupt_is_an_interrupt(tmp_path, monkeypatch, capfd):
    def planned(job):
        Signalling(signal.SIGINT)
        raise InputError("a readable file", "t.csv is damaged", "write it again")

    monkeypatch.setattr(pipeline, "plan", planned)
    assert released(tmp_path, monkeypatch) == (130, 0)
    assert "damaged" not in capfd.readouterr().err


def test_everything_is_as_it_was_afterwards():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with interrupts.listening():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        with pytest.raises(KeyboardInterrupt):  # a second one works as the first
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        assert interrupts.asked_to_stop()
        with pytest.raises(KeyboardInterrupt):
            interrupts.stop_if_asked()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before
    assert not interrupts.asked_to_stop()
    interrupts.stop_if_asked()


def _calls_detach() -> None:
    detach()  # type: ignore[name-defined]  # noqa: F821 - of the module that it is made a function of


def test_an_interrupt_inside_the_compiler_waits_until_it_is_done():
    steps: list[str] = []

    def detach() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
        steps.append("detached")

    names = {"__name__": "llvmlite.binding.module", "detach": detach}
    link = FunctionType(_calls_detach.__code__, names)
    with interrupts.listening():
        with pytest.raises(KeyboardInterrupt):
            link()
            steps.append("came back")
            time.sleep(5)
        assert steps == ["detached", "came back"]
        assert interrupts.asked_to_stop()
    time.sleep(0.1)  # nothing is tried again afterwards


_COMPILES = """
import os, signal, traceback
import llvmlite.binding.module as binding
from adumbra.cli import main
sent = []
def owned(self, name, value):
    stack = [frame.name for frame in traceback.extract_stack()]
    if name == "_owned" and not sent and "_compile_for_args" in stack:
        # the engine owns the module already; llvmlite does not know it yet
        sent.append(os.kill(os.getpid(), signal.SIGTERM))
        for _ in range(1000):
            pass
    object.__setattr__(self, name, value)
binding.ModuleRef.__setattr__ = owned
main.run()
"""


def test_an_interrupt_while_kernels_are_compiled_crashes_nothing(home: Home, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMPILES, *JOB, "--out", "r"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "MALLOC_PERTURB_": "165"},  # freed twice shows
        cwd=home.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted: no release was written" in done.stderr
    assert (home.charges(), home.leftovers()) == (0, [])


def test_an_interrupt_before_the_release_begins_says_that_nothing_was_charged(tmp_path, monkeypatch, capfd):
    def prepare(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "prepare", prepare)
    assert released(tmp_path, monkeypatch) == (130, 0)
    assert "no release was written. Nothing was charged" in capfd.readouterr().err


def test_an_interrupt_that_cannot_tell_names_the_ledger(tmp_path, monkeypatch, capfd):
    def release(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "release", release)
    assert released(tmp_path, monkeypatch) == (130, 0)
    assert "If it was charged, the charge stays in l.db" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "start", [("-m", "adumbra.cli.main"), ("-c", "from adumbra.cli.start import run; run()")], ids=["module", "command"]
)
def test_an_interrupt_while_the_command_line_is_loaded_is_quiet(start, number, tmp_path):
    """A library that is slow to load, and a signal while it does."""
    slow = f"import os, signal, time\nos.kill(os.getpid(), signal.{number.name})\ntime.sleep(9)\n"
    (tmp_path / "typer.py").write_text(slow)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *start, "--version"],
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_command_is_the_one_that_is_quiet():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"adumbra": "adumbra.cli.start:run"}


def test_importing_the_command_line_leaves_signals_alone():
    code = (
        "import signal\n"
        "before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "import adumbra.cli.main, adumbra.cli.start\n"
        "print(before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)])\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"


def test_signals_at_random_times(home: Home) -> None:
    """Exit code 130 and no traceback, whenever the signal comes; no release is there without its charge."""
    begun = time.monotonic()
    assert finished(spawn(home, *JOB, "--out", "whole")).code == 0
    took = time.monotonic() - begun
    draw = random.Random(20)
    for turn in range(10):
        number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
        process = spawn(home, *JOB, "--out", f"r{turn}")
        time.sleep(draw.uniform(0.3, 1.0) * took)
        process.send_signal(number)
        result = finished(process)
        assert result.code in (0, 130, -number), result.err
        if result.code != -number:  # Python was still loading the command line itself
            assert "Traceback" not in result.err and "ignored" not in result.err
        if result.code == 0:
            assert (home.path / f"r{turn}").exists()
    folders = sum((home.path / f"r{turn}").exists() for turn in range(10))
    assert 1 + folders <= home.charges() <= 11
    assert home.leftovers() == []
    assert Ledger(home.ledger).check() == []
