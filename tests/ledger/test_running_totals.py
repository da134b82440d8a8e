"""Sums kept beside the lines: a charge reads no more than it must, and never believes a sum that might be wrong."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

from adumbra.accounting.accountant import at_most, composed, epsilon_of, epsilon_of_all
from adumbra.accounting.events import Composition, Event, FreshProjection
from adumbra.common.errors import AdumbraError, InputError, Refused
from adumbra.declare.guarantee import Neighbours
from adumbra.ledger import running
from adumbra.ledger.ledger import Ledger
from adumbra.ledger.sqlite import _OpenFile
from tests.ledger.test_ledger import CELL, ROW, charge, laplace, start, tamper
from tests.ledger.test_ledger_content import CHARGE, event, written

GAUSSIAN = Event("gaussian", 4.0, {"row/replace": 1.0, "cell/replace": 0.3}, slack=1e-18)
FRESH = Event("gaussian", 9.0, {"row/replace": 1.0}, {"row/replace": FreshProjection(8, 1.0, 1e-6)}, 1e-18)
CELLS_ONLY = Event("laplace", 5.0, {"cell/replace": 1.0})
EVENTS = [laplace(0.1), laplace(0.3), GAUSSIAN, FRESH, CELLS_ONLY]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db")


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """After which line lines were read, call by call; None is all of them."""
    seen: list[int | None] = []
    real = _OpenFile.rows

    def rows(self: _OpenFile, after: int | None = None) -> object:
        seen.append(after)
        return real(self, after)

    monkeypatch.setattr(_OpenFile, "rows", rows)
    return seen


def edited(path: Path, *statements: str, keep_time: bool) -> None:
    """Change the file behind the ledger's back; `keep_time`: and hide it."""
    before = path.stat()
    tamper(path, *statements)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_charge_reads_the_end_and_not_the_past(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.set_cap("patients", ROW, 50.0, 1e-6)
    for _ in range(5):
        charge(ledger, laplace(0.1))
    seen = reads(monkeypatch)
    charge(ledger, GAUSSIAN)
    charge(ledger, laplace(0.2), table="staff")
    ledger.set_cap("staff", ROW, 5.0, 1e-6)
    charge(Ledger(ledger.path), laplace(0.1))  # nor would another process
    assert seen == [4, 6, 5, 7, 6, 8, 7, 9]  # the end, and what was just written
    ledger.remove_cap("staff", ROW)
    charge(ledger, laplace(0.1), table="staff")
    assert seen[8:] == [None, 10, 9, 11]
    assert ledger.check() == []


def test_a_cap_counts_what_was_noted(ledger: Ledger) -> None:
    one = Event("gaussian", 2.0, {"row/replace": 1.0})
    three, four = (epsilon_of([one] * n, ROW, 1e-6) for n in (3, 4))
    ledger.set_cap("patients", ROW, (three + four) / 2, 1e-6)
    for _ in range(3):
        charge(ledger, one)
    with pytest.raises(Refused, match="is already spent"):
        charge(ledger, one)
    assert len(ledger.events("patients")) == 3
    assert ledger.check() == []


def done(book: Ledger, what: str, table: str, asked: Event, cap: tuple[Neighbours, float, float]) -> str:
    """Do one thing to a ledger: what it said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if what == "charge":
                charge(book, asked, table=table)
            elif what == "cap":
                book.set_cap(table, *cap)
            else:
                book.remove_cap(table, cap[0])
    except AdumbraError as error:
        return str(error)
    return "done"


@pytest.mark.parametrize("seed", range(3))
def test_notes_lead_to_the_decisions_of_the_lines(tmp_path: Path, seed: int) -> None:
    """Charges, caps and withdrawals at random: one ledger goes by its notes, one by all its lines."""
    coin = random.Random(seed)
    noting, reading = Ledger(tmp_path / "noting.db"), Ledger(tmp_path / "reading.db")
    said = []
    for _ in range(40):
        job = (
            coin.choices(["charge", "cap", "withdraw"], (12, 3, 1))[0],
            coin.choice(["patients", "staff"]),
            coin.choices(EVENTS, (4, 3, 4, 2, 0.2))[0],
            (coin.choice([ROW, CELL]), coin.choice([0.5, 2.0, 6.0]), coin.choice([0.0, 1e-6])),
        )
        if reading.path.exists():
            os.utime(reading.path)  # notes are not believed any more
        said.append(done(noting, *job))
        assert done(reading, *job).replace("reading.db", "noting.db") == said[-1]
    assert 0 < said.count("done") < 40
    assert noting.check() == reading.check() == []
    assert [(e.kind, e.table) for e in noting.entries()] == [(e.kind, e.table) for e in reading.entries()]


# --- when notes are not believed -------------------------------------------------------------------------------------


def test_a_changed_line_is_seen_by_the_next_charge(ledger: Ledger) -> None:
    for _ in range(5):
        charge(ledger, laplace(0.1))
    edited(ledger.path, "UPDATE lines SET line = replace(line, '10.0', '90.0') WHERE sequence = 2", keep_time=False)
    with pytest.raises(Refused, match="line 2 was changed"):
        charge(ledger, laplace(0.1))


def test_a_changed_line_that_is_hidden_lowers_no_sum_and_is_found(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    for _ in range(10):
        charge(ledger, laplace(0.1))
    edited(ledger.path, "UPDATE lines SET line = replace(line, '10.0', '90.0') WHERE sequence < 9", keep_time=True)
    with pytest.raises(Refused, match="already spent"):
        charge(ledger, laplace(0.1))
    assert "line 2 was changed" in ledger.check()[0]


def test_changed_sums_are_not_believed_and_if_hidden_are_found(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    with ledger.storage.reading() as book:
        empty = book.remembered('table "patients"')
    for _ in range(10):
        charge(ledger, laplace(0.1))
    forged = f"UPDATE notes SET note = '{empty}' WHERE name LIKE 'table%'"
    edited(ledger.path, forged, keep_time=False)
    with pytest.raises(Refused, match="already spent"):
        charge(ledger, laplace(0.1))
    edited(ledger.path, keep_time=False)
    charge(ledger, laplace(0.1), table="staff")  # notes all of it anew
    edited(ledger.path, forged, keep_time=True)
    assert ledger.check() == ["the running totals of table 'patients' do not follow from its lines"]
    edited(ledger.path, keep_time=False)
    charge(ledger, laplace(0.1), table="staff")
    edited(ledger.path, "UPDATE notes SET note = replace(note, '0.1', '0.01')", keep_time=True)
    with pytest.raises(Refused, match="already spent"):  # its hash is wrong: the lines are read
        charge(ledger, laplace(0.1))


def test_bytes_written_without_sqlite_are_looked_at(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    charge(ledger, laplace(0.1))
    ledger.path.write_bytes(ledger.path.read_bytes())
    seen = reads(monkeypatch)
    charge(ledger, laplace(0.1))
    charge(ledger, laplace(0.1))
    assert seen == [None, 1, 0, 2]


@pytest.mark.parametrize("hidden", [False, True])
def test_lines_of_an_earlier_version_count(tmp_path: Path, hidden: bool) -> None:
    """Which writes no notes and leaves those that are there."""
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_cap("somebody else", ROW, 5.0, 1e-6)
    before = ledger.path.stat()
    ledger.path.unlink()
    ledger = written(tmp_path / "l.db", CHARGE, CHARGE)  # epsilon 1 in all, after a line that was noted
    if hidden:
        os.utime(ledger.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ledger.set_cap("patients", ROW, 1.2, 0.0)
    charge(ledger, laplace(0.15))
    with pytest.raises(Refused):
        charge(ledger, laplace(0.15))
    assert ledger.check() == []


def test_sums_of_another_version_are_counted_anew(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(running.importlib.metadata, "version", lambda name: "0.0.1")
        charge(ledger, laplace(0.1))
    seen = reads(monkeypatch)
    charge(ledger, laplace(0.1))
    assert seen == [None, 1]


def test_a_file_without_times_is_read_whole(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refused)
    ledger.set_cap("patients", ROW, 0.25, 0.0)
    seen = reads(monkeypatch)
    charge(ledger, laplace(0.1))
    charge(ledger, laplace(0.1))
    with pytest.raises(Refused):
        charge(ledger, laplace(0.1))
    assert seen == [None, 1, None, 2, None]
    assert ledger.check() == []


def test_death_between_the_charge_and_the_time(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.set_cap("patients", ROW, 0.25, 0.0)
    process = start(ledger.path, "doomed", 1, "ledger-after-commit")
    process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    seen = reads(monkeypatch)
    charge(ledger, laplace(0.1))
    with pytest.raises(Refused):
        charge(ledger, laplace(0.1))
    assert seen == [None, 2, 1]
    assert ledger.check() == []


def test_a_file_of_an_earlier_version_gets_notes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    charge(ledger, laplace(0.1))
    tamper(ledger.path, "DROP TABLE notes", "DROP TABLE noted")
    assert ledger.check() == []
    seen = reads(monkeypatch)
    for _ in range(2):
        charge(ledger, laplace(0.1))
    assert seen == [None, 1, 0, 2]
    db = sqlite3.connect(ledger.path)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()


def test_an_event_without_meaning_stops_its_own_table_only(tmp_path: Path) -> None:
    ledger = written(tmp_path / "l.db", event(noise="cauchy"))
    for _ in range(2):  # by the lines, then by the notes
        charge(ledger, laplace(0.1), table="staff")
        with pytest.raises(InputError, match="line 2"):
            charge(ledger, laplace(0.1))
        with pytest.raises(InputError, match="line 2"):
            ledger.set_cap("patients", ROW, 1.0, 0.0)


# --- the sums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [ROW, CELL, Neighbours.parse("row/add-remove")], ids=str)
def test_sums_do_not_depend_on_order_or_on_how_they_grew(neighbours: Neighbours) -> None:
    events = [laplace(0.1), GAUSSIAN, laplace(0.3), FRESH, GAUSSIAN, laplace(0.1), FRESH] * 3
    at_once = Composition().plus(events, neighbours)
    grown = Composition()
    for one in events[::-1]:
        grown = Composition.from_json(grown.plus([one], neighbours).to_json())
    assert grown == at_once == composed(events, neighbours)
    assert epsilon_of_all(grown, 1e-6) == epsilon_of(events, neighbours, 1e-6)


def test_sums_are_exact() -> None:
    tiny, huge = Event("gaussian", 1e9, {"row/replace": 1.0}), Event("gaussian", 1e-3, {"row/replace": 1.0})
    total = Composition().plus([huge] + [tiny] * 1000, ROW)
    assert total.squares == Fraction((1.0 / 1e-3) ** 2) + 1000 * Fraction((1.0 / 1e9) ** 2)


def test_no_bound_stays_no_bound() -> None:
    total = Composition().plus([CELLS_ONLY], ROW).plus([laplace(0.1)] * 5, ROW)
    assert not total.bounded and not at_most(total, 1e300, 0.5)
    assert Composition().plus([Event("gaussian", 1e-200, {"row/replace": 1.0})], ROW).bounded is False


@pytest.mark.parametrize("events", [[laplace(0.2)] * 3, [laplace(0.2), GAUSSIAN], [FRESH, FRESH], [CELLS_ONLY], []])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_at_most_says_what_epsilon_says(events: list[Event], delta: float) -> None:
    total, epsilon = composed(events, ROW), epsilon_of(events, ROW, delta)
    for limit in (0.1, 0.5, 0.61, 3.0, epsilon):
        with contextlib.suppress(InputError):
            assert at_most(total, limit, delta) == (epsilon <= limit)
