"""Shared small things: a tiny table with its schema, the command line in and out of process, the real data."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adumbra.cli.main import command
from adumbra.ledger.ledger import Ledger
from tests.plant_report import pytest_terminal_summary as pytest_terminal_summary

TABLE = """id,age,sex,smoker,outcome
1,34,F,yes,alive
2,71,M,no,dead
3,8,F,no,alive
4,52,M,yes,alive
5,45,F,no,dead
6,29,M,yes,alive
"""
SCHEMA = """[table]
name = "patients"
[columns.id]
role = "drop"
[columns.age]
kind = "number"
low = 0
high = 110
missing = 40
[columns.sex]
kind = "category"
values = ["F", "M"]
[columns.smoker]
kind = "flag"
[columns.outcome]
kind = "category"
values = ["alive", "dead"]
role = "label"
"""


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Home:
    """A folder with a tiny table; every command of a test runs in it."""

    path: Path
    table: Path
    schema: Path
    ledger: Path
    before: set[str] = field(default_factory=set)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def charges(self) -> int:
        """Charges in the ledger; 0 where there is none yet."""
        if not self.ledger.exists():
            return 0
        return sum(entry.kind == "charge" for entry in Ledger(self.ledger).entries())

    def leftovers(self) -> list[str]:
        """Hidden or temporary things that a command should have removed."""
        return [p.name for p in self.path.iterdir() if p.name.startswith(".") or "partial" in p.name]


@pytest.fixture(scope="session")
def nobodys_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(autouse=True)
def no_ledger_of_the_user(nobodys_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test runs, it finds no ledger of the person who runs it, and leaves none."""
    monkeypatch.delenv("ADUMBRA_LEDGER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(nobodys_state / secrets.token_hex(8)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    found = Home(tmp_path, tmp_path / "t.csv", tmp_path / "s.toml", tmp_path / "adumbra-ledger.db")
    monkeypatch.setenv("ADUMBRA_LEDGER", str(found.ledger))
    found.write("t.csv", TABLE)
    found.write("s.toml", SCHEMA)
    return found


@pytest.fixture
def cli(home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process, as the entry point does."""

    def call(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["adumbra", *map(str, words)])
        capfd.readouterr()
        code = command()
        printed = capfd.readouterr()
        return Result(code, printed.out, printed.err)

    return call


def spawn(home: Home, *words: object, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "adumbra.cli.main", *map(str, words)],
        cwd=home.path,
        env=os.environ | {"ADUMBRA_THREADS": "1"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> Result:
    """Wait for it and collect."""
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real tables, where they are at hand."""
    path = Path(__file__).parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the shared data folder is not here")
    return path
