"""Where the ledger is: the same one from every folder, announced when it is new, never an old one left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

import adumbra as ad
from adumbra.common.errors import InputError
from adumbra.declare.schema import Schema
from adumbra.ledger.ledger import Ledger
from tests.conftest import SCHEMA, Home, Result
from tests.ledger.test_ledger import charge, laplace

Cli = Callable[..., Result]
OLD = "adumbra-ledger.db"
RELEASE = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro", "--seed", "s")
PLAN = ("plan", *RELEASE[1:])


@pytest.fixture
def place(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing named: the ledger of a user who has none yet."""
    monkeypatch.delenv("ADUMBRA_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", str(home.path / "state home"))
    return home.path / "state home" / "adumbra" / "ledger.db"


def lines(path: Path) -> int:
    return len(Ledger(path).entries()) if path.exists() else 0


def schema_naming(home: Home, ledger: str, file: str = "s.toml") -> None:
    home.write(file, SCHEMA.replace("[table]\n", f"[table]\nledger = {json.dumps(ledger)}\n", 1))


# --- one ledger, wherever one stands ---------------------------------------------------------------------------------


def test_a_cap_holds_in_another_folder(cli: Cli, home: Home, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("ledger", "cap", "patients", "--epsilon", "0.5").code == 0
    other = home.path / "other"
    other.mkdir()
    for name in ("t.csv", "s.toml"):
        shutil.copy(home.path / name, other / name)
    monkeypatch.chdir(other)
    refused = cli(*RELEASE, "--out", "r")
    assert refused.code == 1 and "at most epsilon 0.5" in refused.err
    assert sorted(p.name for p in other.iterdir()) == ["s.toml", "t.csv"]
    assert lines(place) == 1
    assert not (home.path / OLD).exists()


def test_the_folder_and_the_file_are_for_their_owner_only(cli: Cli, place: Path) -> None:
    before = os.umask(0)
    try:
        assert cli("ledger", "cap", "patients", "--epsilon", "5").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    for folder in (place.parent, place.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [p.name for p in place.parent.iterdir()] == ["ledger.db"]


def test_a_new_ledger_is_announced_and_an_old_one_is_not(cli: Cli, place: Path) -> None:
    said = f"new ledger {place}"
    planned = cli(*PLAN)
    assert planned.code == 0 and said in planned.err and f"{place} (new)" in planned.out
    assert json.loads(cli(*PLAN, "--json").out)["ledger_is_new"] is True
    assert not place.parent.exists()  # a plan begins nothing
    first = cli(*RELEASE, "--out", "a")
    assert first.code == 0 and said in first.err
    again = [cli(*PLAN), cli(*RELEASE, "--out", "b"), cli("ledger", "cap", "patients", "--epsilon", "5")]
    assert [result.code for result in again] == [0, 0, 0]
    assert not any("new ledger" in result.err + result.out for result in again)
    facts = json.loads(cli(*PLAN, "--json").out)
    assert (facts["ledger"], facts["ledger_is_new"], facts["ledger_charges_before"]) == (str(place), False, 2)


@pytest.mark.parametrize("words", [("ledger", "cap", "x", "--epsilon", "1"), (*RELEASE, "--out", "r")])
def test_a_named_ledger_is_announced_too(cli: Cli, home: Home, words: tuple[str, ...]) -> None:
    assert f"new ledger {home.path / 'mine.db'}" in cli(*words, "--ledger", home.path / "mine.db").err


def test_a_cap_under_a_name_without_charges_is_remarked_on(cli: Cli) -> None:
    assert "mind the spelling" in cli("ledger", "cap", "patient", "--epsilon", "5").err
    assert cli(*RELEASE, "--out", "r").code == 0
    assert "mind the spelling" not in cli("ledger", "cap", "patients", "--epsilon", "5").err


# --- which one -------------------------------------------------------------------------------------------------------


def test_option_then_schema_then_environment_then_user(
    cli: Cli, home: Home, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, declared, exported = (home.path / f"{name}.db" for name in ("option", "schema", "environment"))
    assert cli(*RELEASE, "--out", "a").code == 0
    monkeypatch.setenv("ADUMBRA_LEDGER", str(exported))
    assert cli(*RELEASE, "--out", "b").code == 0
    schema_naming(home, str(declared))
    assert cli(*RELEASE, "--out", "c").code == 0
    assert cli(*RELEASE, "--out", "d", "--ledger", named).code == 0
    assert [lines(path) for path in (place, exported, declared, named)] == [1, 1, 1, 1]
    assert json.loads(cli(*PLAN, "--json").out)["ledger"] == str(declared)


def test_a_ledger_of_the_schema_is_meant_from_the_folder_of_the_schema(
    cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.path / "declared").mkdir()
    schema_naming(home, "spent.db", "declared/s.toml")
    ledger = home.path / "declared" / "spent.db"
    words = [word if word != "s.toml" else "declared/s.toml" for word in RELEASE]
    assert cli("ledger", "cap", "patients", "--epsilon", "1.1", "--schema", "declared/s.toml").code == 0
    assert cli(*words, "--out", "a").code == 0
    monkeypatch.chdir(home.path / "declared")
    refused = cli("release", "../t.csv", "--schema", "s.toml", *RELEASE[4:], "--out", "b")
    assert refused.code == 1 and lines(ledger) == 2 and not home.ledger.exists()
    for command in ("show", "check"):
        shown = cli("ledger", command, "--schema", "s.toml")
        assert shown.code == 0 and "whole: 2 lines" in shown.out


def test_where_the_ledger_is_stays_with_the_owner(cli: Cli, home: Home) -> None:
    """The schema stands on the card; the path in it is a fact about the owner's machine."""
    schema_naming(home, str(home.path / "whereabouts.db"))
    assert cli(*RELEASE, "--out", "r").code == 0
    assert lines(home.path / "whereabouts.db") == 1
    for file in (home.path / "r").iterdir():
        assert b"whereabouts" not in file.read_bytes()
    schema = Schema.load(home.schema)
    assert "ledger" not in schema.to_dict()["table"]
    assert Schema.parse(schema.to_toml()) == schema


@pytest.mark.parametrize("ledger", ["spent.db", "", 5, ["a"], "x" * 2000])
def test_a_ledger_of_a_schema_that_cannot_be_meant(ledger: object) -> None:
    columns = {"a": {"kind": "flag"}}
    with pytest.raises(InputError) as error:
        Schema.from_dict({"table": {"ledger": ledger}, "columns": columns})
    assert "ledger" in error.value.expected


def test_from_python_the_ledger_of_the_schema_is_charged(home: Home) -> None:
    schema_naming(home, "spent.db")
    budget = ad.Budget(1.0)
    done = ad.release(home.table, home.schema, ad.DPPro(dimension=1), budget)
    (entry,) = Ledger(home.path / "spent.db").entries()
    assert (entry.body["release_id"], entry.hash) == (done.card.release_id, done.card.ledger_head)
    ad.release(home.table, home.schema, ad.DPPro(dimension=1), budget, ledger=Ledger(home.path / "given.db"))
    assert [lines(home.path / name) for name in ("spent.db", "given.db")] == [1, 1]


def test_without_any_ledger_the_card_has_no_hash(home: Home) -> None:
    card = ad.release(home.table, home.schema, ad.DPPro(dimension=1), ad.Budget(1.0)).card
    assert card.ledger_head is None and not home.ledger.exists()


def test_the_default_from_python(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []
    ledger = Ledger.default(on_new=begun.append)
    assert ledger.path == place and not place.parent.exists()
    charge(ledger, laplace(0.1))
    charge(Ledger.default(on_new=begun.append), laplace(0.1))
    assert begun == [place] and lines(place) == 2
    monkeypatch.setenv("ADUMBRA_LEDGER", str(place.parent / "other.db"))
    assert Ledger.default().path == place.parent / "other.db"


@pytest.mark.parametrize("named", ["ledger.db", "./ledger.db", "~/ledger.db"])
def test_a_variable_that_means_another_file_in_every_folder(
    cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("ADUMBRA_LEDGER", named)
    for words in (PLAN, (*RELEASE, "--out", "r"), ("ledger", "cap", "x", "--epsilon", "1"), ("ledger", "show")):
        result = cli(*words)
        assert result.code == 2 and "whole path" in result.err and "to do:" in result.err
    assert {p.name for p in home.path.iterdir()} == {"t.csv", "s.toml"}


@pytest.mark.parametrize("answer", [Path("~/.local/state/adumbra"), RuntimeError("no home")])
def test_a_user_without_a_home(place: Path, monkeypatch: pytest.MonkeyPatch, answer: Path | Exception) -> None:
    def homeless(*_: object, **__: object) -> Path:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(platformdirs, "user_state_path", homeless)
    with pytest.raises(InputError, match="none with a whole path"):
        Ledger.default()


def test_a_state_folder_that_cannot_be_made(cli: Cli, home: Home, place: Path) -> None:
    home.write("state home", "a file where the folder should be")
    result = cli("ledger", "cap", "x", "--epsilon", "1")
    assert result.code == 2 and "to do:" in result.err


# --- the old default -------------------------------------------------------------------------------------------------


def test_an_old_ledger_in_the_folder_is_never_passed_by(cli: Cli, home: Home, place: Path) -> None:
    charge(Ledger(home.ledger), laplace(0.1))
    before = home.ledger.read_bytes()
    for words in (
        PLAN,
        (*RELEASE, "--out", "r"),
        ("ledger", "cap", "patients", "--epsilon", "1"),
        ("ledger", "show"),
        ("ledger", "check"),
    ):
        result = cli(*words)
        assert (result.code, result.out) == (2, "")
        for part in ("expected to know which ledger", f"an {OLD} of an earlier version", "to do:", "--ledger", "mv -n"):
            assert part in result.err
    assert home.ledger.read_bytes() == before and not place.exists() and not (home.path / "r").exists()
    with pytest.raises(InputError):
        Ledger.default()
    assert cli(*RELEASE, "--out", "r", "--ledger", OLD).code == 0  # named, it is used
    assert lines(home.ledger) == 2


def test_the_command_that_moves_an_old_ledger_works(cli: Cli, home: Home, place: Path) -> None:
    charge(Ledger(home.ledger), laplace(0.1))
    (move,) = re.findall(r"(mkdir .* && mv -n .*?); or", cli("ledger", "show").err)
    assert subprocess.run(move, shell=True, cwd=home.path).returncode == 0
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert not home.ledger.exists() and lines(place) == 1
    assert cli("ledger", "check").code == 0


def test_where_both_stand_nothing_is_moved_onto_the_other(cli: Cli, home: Home, place: Path) -> None:
    assert cli("ledger", "cap", "patients", "--epsilon", "1").code == 0
    charge(Ledger(home.ledger), laplace(0.1))
    result = cli("ledger", "show")
    assert result.code == 2 and "exists too" in result.err and "mv " not in result.err


# --- many at once ----------------------------------------------------------------------------------------------------


def test_all_who_begin_at_once_get_one_ledger(place: Path) -> None:
    begun: list[Path] = []
    failed: list[Exception] = []
    together = threading.Barrier(8)

    def spend() -> None:
        ledger = Ledger.default(on_new=begun.append)
        together.wait()
        try:
            charge(ledger, laplace(0.1))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and begun == [place] and lines(place) == 8
    assert Ledger(place).check() == []
