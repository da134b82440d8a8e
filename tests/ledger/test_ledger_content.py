"""Ledgers that somebody else wrote: the chain is right and a line means nothing. Never a defect of ours, never free."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adumbra.common.errors import AdumbraError, InputError, Refused
from adumbra.ledger.ledger import Entry, Ledger, Unreadable
from adumbra.ledger.lines import LONGEST_LINE, chained
from tests.conftest import Home, Result
from tests.ledger.test_ledger import ROW, charge, laplace, tamper

Cli = Callable[..., Result]
JOB = ("t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro", "--seed", "s")
COMMON: dict[str, Any] = {"table": "patients", "time": "2026-01-01T00:00:00.000+00:00", "version": "0.1.0"}
CHARGE: dict[str, Any] = COMMON | {
    "kind": "charge",
    "release_id": "r",
    "mechanism": "dppro",
    "line": "rows",
    "promise": {"epsilon": 1.0, "delta": 1e-6, "neighbours": "row/replace"},
    "event": {"noise": "laplace", "scale": 2.0, "sensitivity": {"row/replace": 1.0}, "slack": 0.0},
}
CAP: dict[str, Any] = COMMON | {"kind": "cap", "neighbours": "row/replace", "epsilon": 5.0, "delta": 1e-6}


def without(line: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != key}


def event(**changes: Any) -> dict[str, Any]:
    return CHARGE | {"event": CHARGE["event"] | changes}


def projected(**changes: Any) -> dict[str, Any]:
    fresh = {"dimension": 4, "distance": 1.0, "rounding": 0.0} | changes
    return event(noise="gaussian", fresh={"row/replace": fresh})


NESTED = '{"a":' * 100_000 + "1" + "}" * 100_000

BAD: dict[str, Any] = {
    # name: the line in the middle, as an object or as raw text or bytes
    "table a number": CHARGE | {"table": 5},
    "table nothing": CHARGE | {"table": None},
    "table a list": CHARGE | {"table": ["patients"]},
    "table missing": without(CHARGE, "table"),
    "table half a character": CHARGE | {"table": "\ud800"},
    "cap for a number": CAP | {"table": 5},
    "kind unknown": CHARGE | {"kind": "gift"},
    "kind a list": CHARGE | {"kind": ["charge"]},
    "kind missing": without(CHARGE, "kind"),
    "time a number": CHARGE | {"time": 5},
    "version missing": without(CHARGE, "version"),
    "release missing": without(CHARGE, "release_id"),
    "mechanism a list": CHARGE | {"mechanism": [1]},
    "promise text": CHARGE | {"promise": "epsilon 1"},
    "promise not a number": CHARGE | {"promise": {"epsilon": float("nan")}},
    "event missing": without(CHARGE, "event"),
    "event a list": CHARGE | {"event": []},
    "event empty": CHARGE | {"event": {}},
    "noise unknown": event(noise="cauchy"),
    "noise a list": event(noise=["laplace"]),
    "scale text": event(scale="two"),
    "scale zero": event(scale=0),
    "scale endless": CHARGE | {"event": CHARGE["event"] | {"scale": float("inf")}},
    "scale a long number": event(scale=10**400),
    "sensitivity a list": event(sensitivity=[1.0]),
    "sensitivity a map": event(sensitivity={"row/replace": {}}),
    "sensitivity below zero": event(sensitivity={"row/replace": -1.0}),
    "numbers a long number": event(numbers=10**400),
    "fresh text": event(fresh="yes"),
    "fresh dimension text": projected(dimension="four"),
    "fresh dimension a long number": projected(dimension=10**400),
    "fresh without distance": event(noise="gaussian", fresh={"row/replace": {"dimension": 4}}),
    "cap without neighbours": without(CAP, "neighbours"),
    "cap of nonsense": CAP | {"neighbours": "nonsense"},
    "cap of a cell that comes and goes": CAP | {"neighbours": "cell/add-remove"},
    "cap of a number": CAP | {"neighbours": 7},
    "cap text": CAP | {"epsilon": "five"},
    "cap true": CAP | {"epsilon": True},
    "cap nothing": CAP | {"epsilon": None},
    "cap below zero": CAP | {"epsilon": -1.0},
    "cap not a number": CAP | {"epsilon": float("nan")},
    "cap for half a character": CAP | {"table": "\ud800"},
    "cap delta one": CAP | {"delta": 1.0},
    "cap delta missing": without(CAP, "delta"),
    "withdrawal of nothing": COMMON | {"kind": "withdrawal"},
    "withdrawal of itself": COMMON | {"kind": "withdrawal", "withdraws": 2},
    "withdrawal of text": COMMON | {"kind": "withdrawal", "withdraws": "1"},
    "no object": "[1,2]",
    "no JSON": "once upon a time",
    "empty": "",
    "nested": NESTED,
    "nested inside": json.dumps(CHARGE | {"sequence": 2})[:-1] + ',"x":' + NESTED + "}",
    "number of 5,000 digits": json.dumps(CHARGE | {"sequence": 2})[:-1] + ',"x":' + "9" * 5000 + "}",
    "far too long": json.dumps(CHARGE | {"sequence": 2, "mechanism": "x" * (LONGEST_LINE + 1)}),
    "no UTF-8": b'{"table":"\xff\xfe"}',
    "no UTF-8 in a name": json.dumps(CHARGE | {"sequence": 2}).encode().replace(b"patients", b"pat\xffents"),
    "another number": CHARGE | {"sequence": 3},
    "its number true": CHARGE | {"sequence": True},
    "its number text": CHARGE | {"sequence": "2"},
    "without a number": json.dumps(CHARGE),
}  # fmt: skip


def written(path: Path, *lines: Any) -> Ledger:
    """A ledger with a sound chain, whatever its lines say."""
    ledger = Ledger(path)
    ledger.set_cap("somebody else", ROW, 5.0, 1e-6)  # makes the file; the first of its lines
    db = sqlite3.connect(path, isolation_level=None)
    (previous,) = db.execute("SELECT hash FROM head").fetchone()
    for sequence, line in enumerate(lines, start=2):
        text = line if isinstance(line, str | bytes) else json.dumps({"sequence": sequence} | line)
        text = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
        previous = chained(previous, text)
        stored = text.encode("utf-8", "surrogateescape")
        db.execute("INSERT INTO lines VALUES (?, CAST(? AS TEXT), ?)", (sequence, stored, previous))
        db.execute("UPDATE head SET count = ?, hash = ?", (sequence, previous))
    db.close()
    return ledger


def told(result: Result) -> None:
    """The answer is no, or the input is bad; said in three parts; and no defect."""
    assert result.code in (1, 2), result.err
    for part in ("error: expected", "       got ", "       to do: "):
        assert part in result.err


def test_lines_made_by_hand_are_taken_for_what_they_say(tmp_path: Path) -> None:
    ledger = written(tmp_path / "l.db", CHARGE, CAP, projected())
    assert ledger.check() == []
    assert ledger.spent("patients", ROW, 1e-6) > 0.5


@pytest.mark.parametrize("name", BAD)
def test_a_line_without_meaning(cli: Cli, home: Home, name: str) -> None:
    ledger = written(home.ledger, BAD[name], CHARGE)
    before = home.ledger.read_bytes()
    shown = cli("ledger", "show", "--json")
    told(shown)
    assert shown.code == 1
    facts = json.loads(shown.out)
    assert facts["whole"] is False and facts["totals"] is None and "line 2 " in " ".join(facts["problems"])
    assert len(facts["entries"]) == 3  # what can be read is shown
    for words in (("ledger", "show"), ("ledger", "show", "--table", "patients"), ("ledger", "check")):
        result = cli(*words)
        told(result)
        assert result.code == 1 and "line 2 " in result.err
    for use in (
        lambda: ledger.spent("patients", ROW, 1e-6),
        lambda: charge(ledger, laplace(0.01)),
        lambda: ledger.caps("patients"),
    ):
        try:
            use()
        except AdumbraError as error:
            assert "2" in error.got
    if not name.startswith("cap"):  # a cap that means nothing leaves what was spent
        with pytest.raises(AdumbraError):
            ledger.spent("patients", ROW, 1e-6)
    with pytest.raises(AdumbraError):
        charge(ledger, laplace(0.01))
    assert home.ledger.read_bytes() == before


@pytest.mark.parametrize("name", ["table a number", "event a list", "cap of nonsense", "nested", "no UTF-8"])
def test_no_command_passes_it_by(cli: Cli, home: Home, name: str) -> None:
    written(home.ledger, BAD[name])
    before = home.ledger.read_bytes()
    told(cli("release", *JOB, "--out", "r"))
    assert not (home.path / "r").exists()
    if name.startswith("cap"):
        assert cli("plan", *JOB).code == 0  # a plan asks no cap
    else:
        told(cli("plan", *JOB))
        told(cli("ledger", "cap", "patients", "--epsilon", "2") if name != "event a list" else cli("ledger", "check"))
    assert home.ledger.read_bytes() == before


def test_a_broken_chain_gives_no_totals_and_shows_what_can_be_read(cli: Cli, home: Home) -> None:
    ledger = Ledger(home.ledger)
    for _ in range(3):
        charge(ledger, laplace(0.1))
    tamper(home.ledger, "DELETE FROM lines WHERE sequence = 2")
    shown = cli("ledger", "show")
    told(shown)
    assert shown.code == 1 and "charges and caps" in shown.out and "spent, at delta" not in shown.out
    assert "line 2 is missing" in shown.err
    assert json.loads(cli("ledger", "show", "--json").out)["totals"] is None
    for refused in (cli("plan", *JOB), cli("release", *JOB, "--out", "r")):
        told(refused)
        assert refused.code == 1
    for use in (lambda: ledger.spent("patients", ROW, 1e-6), lambda: ledger.events("patients")):
        with pytest.raises(Refused):
            use()


@pytest.mark.parametrize("delta", ["nan", "1", "-1", "inf"])
def test_totals_at_no_delta(cli: Cli, home: Home, delta: str) -> None:
    written(home.ledger, BAD["kind unknown"])
    told(cli("ledger", "show", "--delta", delta, "--json"))


def test_hashes_and_numbers_of_another_kind(cli: Cli, home: Home) -> None:
    """A table of lines that was made anew, without the types of ours."""
    Ledger(home.ledger).set_cap("x", ROW, 1.0, 0.0)
    db = sqlite3.connect(home.ledger, isolation_level=None)
    db.execute("DROP TABLE lines")
    db.execute("CREATE TABLE lines (sequence, line, hash)")
    db.executemany(
        "INSERT INTO lines VALUES (?, ?, ?)",
        [(None, 5, None), ("one", b"\xff", b"\xff" * 64), (2.5, "{}", 7), (1, '{"sequence":1}', "x" * 64)],
    )
    db.close()
    for words in (("show",), ("show", "--json"), ("check",), ("check", "--json"), ("cap", "x", "--epsilon", "1")):
        told(cli("ledger", *words))


# --- the class of what is read ---------------------------------------------------------------------------------------


def test_a_report_holds_every_line_and_says_what_is_wrong(tmp_path: Path) -> None:
    report = written(tmp_path / "l.db", CHARGE, BAD["kind unknown"], CAP).report()
    assert [type(line) for line in report.lines] == [Entry, Entry, Unreadable, Entry]
    assert [entry.sequence for entry in report.entries] == [1, 2, 4]
    (problem,) = report.problems
    assert problem.startswith("line 3 cannot be read: its kind is unknown")


@pytest.mark.parametrize("name", BAD)
def test_a_cap_is_written_or_refused_and_said_so(cli: Cli, home: Home, name: str) -> None:
    ledger = written(home.ledger, BAD[name])
    before = len(ledger.report().lines)
    result = cli("ledger", "cap", "patients", "--epsilon", "2")
    assert result.code in (0, 1, 2), result.err
    assert len(ledger.report().lines) == before + (result.code == 0)


def test_a_cap_without_meaning_of_another_table_stops_nothing(tmp_path: Path) -> None:
    ledger = written(tmp_path / "l.db", CAP | {"neighbours": "nonsense", "table": "staff"})
    charge(ledger, laplace(0.1))
    with pytest.raises(InputError, match="line 2"):
        charge(ledger, laplace(0.1), table="staff")
