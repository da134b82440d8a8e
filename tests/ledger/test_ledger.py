"""The ledger: nothing lost, nothing overspent, nothing changed unnoticed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from adumbra.accounting.accountant import epsilon_of
from adumbra.accounting.events import Event, FreshProjection
from adumbra.common.errors import InputError, Refused
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.ledger import Entry, Ledger, Receipt

ROW = Neighbours.parse("row/replace")
CELL = Neighbours.parse("cell/replace")


def laplace(epsilon: float) -> Event:
    return Event("laplace", 1.0 / epsilon, {"row/replace": 1.0, "cell/replace": 0.1})


def charge(ledger: Ledger, event: Event, *, table: str = "patients", release: str = "r") -> Receipt:
    (receipt,) = ledger.charge(
        table=table,
        release_id=release,
        mechanism="dppro",
        promise=Promise(1.0, 1e-6, ROW),
        events={"rows": event},
    )
    return receipt


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db")


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Five lines: caps and charges of two tables."""
    ledger.set_cap("patients", ROW, 5.0, 1e-6)
    charge(ledger, laplace(0.5), release="one")
    charge(ledger, Event("gaussian", 4.0, {"row/replace": 1.0}, slack=1e-15), release="two")
    charge(ledger, laplace(0.25), table="staff", release="three")
    charge(ledger, laplace(0.125), release="four")
    return ledger


# --- what is written --------------------------------------------------------------------------------------


def test_a_charge_comes_back_as_it_went_in(ledger: Ledger) -> None:
    event = Event(
        "gaussian",
        1 / 3,
        {"row/replace": 0.1, "cell/replace": 0.01},
        {"row/replace": FreshProjection(16, 0.07, 1e-6)},
        2e-15,
    )
    receipt = charge(ledger, event, release="abc")
    (entry,) = ledger.entries()
    assert isinstance(entry, Entry)
    assert (receipt.sequence, receipt.hash) == (1, entry.hash)
    assert entry.event == event
    assert (entry.kind, entry.table, entry.body["release_id"]) == ("charge", "patients", "abc")
    assert (entry.body["mechanism"], entry.body["line"]) == ("dppro", "rows")
    assert entry.body["promise"] == {"epsilon": 1.0, "delta": 1e-6, "neighbours": "row/replace"}
    assert entry.time.endswith("+00:00")
    assert entry.version
    assert ledger.check() == []


def test_the_file_is_for_its_owner_only(filled: Ledger) -> None:
    assert stat.S_IMODE(filled.path.stat().st_mode) == 0o600
    assert [path.name for path in filled.path.parent.iterdir()] == ["budget.db"]


def test_tables_and_their_events_are_kept_apart(filled: Ledger) -> None:
    assert filled.tables() == ["patients", "staff"]
    assert len(filled.events("patients")) == 3
    assert filled.spent("staff", ROW, 0.0) == 0.25
    assert filled.spent("patients", ROW, 1e-6) == epsilon_of(filled.events("patients"), ROW, 1e-6)
    assert filled.spent("nobody", ROW, 1e-6) == 0.0
    assert [entry.kind for entry in filled.entries("patients")] == ["cap", "charge", "charge", "charge"]


# --- caps -------------------------------------------------------------------------------------------------


def test_a_cap_refuses_and_writes_nothing(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    for _ in range(10):
        charge(ledger, laplace(0.1))
    before = ledger.path.read_bytes()
    with pytest.raises(Refused) as refusal:
        charge(ledger, laplace(0.1))
    assert ledger.path.read_bytes() == before
    for part in ("epsilon 1 ", "row/replace", "1.1", "1 is already spent", "nothing was charged"):
        assert part in str(refusal.value)
    charge(ledger, laplace(9.0), table="staff")


def test_the_composition_counts_not_each_release(ledger: Ledger) -> None:
    event = Event("gaussian", 2.0, {"row/replace": 1.0})
    one, two = (epsilon_of([event] * n, ROW, 1e-6) for n in (1, 2))
    ledger.set_cap("patients", ROW, (one + two) / 2, 1e-6)
    charge(ledger, event)
    with pytest.raises(Refused):
        charge(ledger, event)


def test_a_budget_can_be_spent_exactly(ledger: Ledger) -> None:
    event = Event("gaussian", 3.3, {"row/replace": 1.0})
    ledger.set_cap("patients", ROW, epsilon_of([event] * 3, ROW, 1e-6), 1e-6)
    for _ in range(3):
        charge(ledger, event)
    with pytest.raises(Refused):
        charge(ledger, Event("gaussian", 1e3, {"row/replace": 1.0}))


def test_cell_releases_consume_a_row_cap(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    cheap_per_cell = Event("laplace", 1.0, {"cell/replace": 0.01, "row/replace": 0.6})
    charge(ledger, cheap_per_cell)
    assert ledger.spent("patients", CELL, 0.0) == pytest.approx(0.01)
    assert ledger.spent("patients", ROW, 0.0) == pytest.approx(0.6)
    with pytest.raises(Refused):
        charge(ledger, cheap_per_cell)


def test_an_event_without_a_row_bound_meets_a_row_cap_as_infinite(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 100.0, 1e-6)
    with pytest.raises(Refused, match="no finite epsilon"):
        charge(ledger, Event("laplace", 1.0, {"cell/replace": 0.01}))


@pytest.mark.parametrize("unit", ["row", "cell"])
def test_a_past_charge_without_a_bound_meets_a_cap_as_infinite(unit: str, ledger: Ledger) -> None:
    """However small the new charge and however large the cap that was set after it."""
    other = "cell/replace" if unit == "row" else "row/replace"
    charge(ledger, Event("laplace", 1.0, {other: 0.01}))
    with pytest.warns(UserWarning, match=f"no finite cost for {unit}/replace at delta 1e-06: nothing more"):
        ledger.set_cap("patients", Neighbours.parse(f"{unit}/replace"), 1e9, 1e-6)
    with pytest.raises(Refused, match="already spent has no finite epsilon there") as refused:
        charge(ledger, Event("laplace", 1e6, {"row/replace": 1.0, "cell/replace": 0.1}))
    assert f"--remove --unit {unit} --relation replace" in refused.value.remedy
    assert "ask for less" not in refused.value.remedy and "raise" not in refused.value.remedy


def test_the_newest_cap_holds_and_every_kind_of_neighbours_has_its_own(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 0.1, 0.0)
    with pytest.raises(Refused):
        charge(ledger, laplace(0.5))
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    charge(ledger, laplace(0.5))
    ledger.set_cap("patients", CELL, 0.06, 0.0)  # 0.05 of it is spent already
    with pytest.raises(Refused, match="cell/replace"):
        charge(ledger, laplace(0.2))
    ledger.set_cap("patients", ROW, 0.4, 0.0)  # below what is spent: stops everything
    with pytest.raises(Refused, match="row/replace"):
        charge(ledger, laplace(0.001))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.0, 0.0), (float("nan"), 0.0), (float("inf"), 0.0), (1.0, 1.0), (1.0, float("nan"))],
)
def test_caps_must_mean_something(ledger: Ledger, epsilon: float, delta: float) -> None:
    with pytest.raises(InputError):
        ledger.set_cap("patients", ROW, epsilon, delta)
    assert not ledger.path.exists()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_an_event_without_meaning_is_refused_before_the_file_exists(ledger: Ledger, scale: float) -> None:
    with pytest.raises(InputError):
        charge(ledger, Event("gaussian", scale, {"row/replace": 1.0}))
    assert not ledger.path.exists()


# --- tampering --------------------------------------------------------------------------------------------


def tamper(path: Path, *statements: str) -> None:
    """Edit behind the ledger's back and put its guards back, so that only the edit can be noticed."""
    db = sqlite3.connect(path, isolation_level=None)
    guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        db.execute(statement)
    for _, sql in guards:
        db.execute(sql)
    db.close()


def test_tampering_with_nothing_is_not_reported(filled: Ledger) -> None:
    tamper(filled.path)
    assert filled.check() == []


@pytest.mark.parametrize("statement", ["UPDATE lines SET line = ''", "DELETE FROM lines", "DELETE FROM head"])
def test_the_guards_refuse_plain_edits(filled: Ledger, statement: str) -> None:
    db = sqlite3.connect(filled.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    db.close()


@pytest.mark.parametrize("sequence", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "change",
    [
        "sequence = 77",
        "line = line || ' '",
        f"hash = '{'a' * 64}'",
        "line = CAST(line AS BLOB)",
        "line = 'x'",
    ],
)
def test_every_column_of_every_line(filled: Ledger, sequence: int, change: str) -> None:
    tamper(filled.path, f"UPDATE lines SET {change} WHERE sequence = {sequence}")
    assert filled.check()
    with pytest.raises(Refused):
        charge(filled, laplace(0.01))


@pytest.mark.parametrize("sequence", [1, 2, 3, 4, 5])
def test_every_field_of_every_line(filled: Ledger, sequence: int) -> None:
    db = sqlite3.connect(filled.path)
    (line,) = db.execute("SELECT line FROM lines WHERE sequence = ?", (sequence,)).fetchone()
    db.close()
    original = filled.path.read_bytes()
    for key in json.loads(line):
        fields = json.loads(line)
        fields[key] = 123
        text = json.dumps(fields, sort_keys=True, separators=(",", ":")).replace("'", "''")
        tamper(filled.path, f"UPDATE lines SET line = '{text}' WHERE sequence = {sequence}")
        assert filled.check(), key
        filled.path.write_bytes(original)
    assert filled.check() == []


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM lines WHERE sequence = 1",),
        ("DELETE FROM lines WHERE sequence = 3",),
        (
            "DELETE FROM lines WHERE sequence = 3",
            "UPDATE lines SET sequence = sequence - 1 WHERE sequence > 3",
        ),
        ("DELETE FROM lines WHERE sequence = 5",),
        ("DELETE FROM lines",),
        (
            "UPDATE lines SET sequence = 99 WHERE sequence = 2",
            "UPDATE lines SET sequence = 2 WHERE sequence = 3",
            "UPDATE lines SET sequence = 3 WHERE sequence = 99",
        ),
        ("INSERT INTO lines SELECT 6, line, hash FROM lines WHERE sequence = 5",),
        ("UPDATE head SET count = 4",),
        (f"UPDATE head SET hash = '{'b' * 64}'",),
        ("DELETE FROM head",),
    ],
)
def test_removed_moved_and_added_lines(filled: Ledger, statements: tuple[str, ...]) -> None:
    tamper(filled.path, *statements)
    assert filled.check()


@pytest.mark.parametrize("table", ["lines", "head"])
def test_a_dropped_table(filled: Ledger, table: str) -> None:
    db = sqlite3.connect(filled.path, isolation_level=None)
    db.execute(f"DROP TABLE {table}")
    db.close()
    assert filled.check()
    with pytest.raises(InputError):
        charge(filled, laplace(0.01))


def test_a_truncated_end_with_a_matching_head_count(filled: Ledger) -> None:
    tamper(filled.path, "DELETE FROM lines WHERE sequence = 5", "UPDATE head SET count = 4")
    assert filled.check()


def test_a_forged_line_that_continues_the_chain_disagrees_with_the_head(filled: Ledger) -> None:
    last = filled.entries()[-1]
    line = json.dumps({"sequence": 6, "kind": "cap", "table": "patients"}, sort_keys=True)
    forged = hashlib.sha256((last.hash + line).encode()).hexdigest()
    tamper(filled.path, f"INSERT INTO lines VALUES (6, '{line}', '{forged}')")
    assert filled.check()


def test_each_hash_is_of_the_line_and_of_all_before(filled: Ledger) -> None:
    db = sqlite3.connect(filled.path)
    previous = "0" * 64
    for line, digest in db.execute("SELECT line, hash FROM lines ORDER BY sequence"):
        assert digest == hashlib.sha256((previous + line).encode()).hexdigest()
        previous = digest
    assert db.execute("SELECT count, hash FROM head").fetchone() == (5, previous)
    db.close()


def test_a_changed_line_with_its_hash_made_to_fit_breaks_the_next(filled: Ledger) -> None:
    first, second = filled.entries()[:2]
    line = json.dumps({"sequence": 2, "kind": "cap", "table": "x", "time": "", "version": "", "by": second.hash})
    fitted = hashlib.sha256((first.hash + line).encode()).hexdigest()
    tamper(filled.path, f"UPDATE lines SET line = '{line}', hash = '{fitted}' WHERE sequence = 2")
    assert filled.check() == ["line 3 was changed: its hash does not follow from the line before"]


def test_a_removed_guard_is_reported(filled: Ledger) -> None:
    db = sqlite3.connect(filled.path)
    db.execute("DROP TRIGGER lines_delete")
    db.commit()
    db.close()
    assert filled.check() == ["the guard lines_delete was removed or changed"]


def test_a_file_damaged_in_the_middle(filled: Ledger) -> None:
    content = bytearray(filled.path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    filled.path.write_bytes(content)
    assert filled.check()
    with pytest.raises((InputError, Refused)):
        charge(filled, laplace(0.01))


# --- files that are not there, not ours, not free ---------------------------------------------------------


def test_reading_a_missing_ledger_says_so_and_creates_nothing(ledger: Ledger) -> None:
    for read in (ledger.entries, ledger.check, ledger.tables, lambda: ledger.spent("patients", ROW, 1e-6)):
        with pytest.raises(InputError, match="existing ledger"):
            read()
    assert list(ledger.path.parent.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello, this is a text file\n" * 100, b"SQLite format 3\0" + b"\0" * 200])
def test_a_file_that_is_no_ledger(ledger: Ledger, content: bytes) -> None:
    ledger.path.write_bytes(content)
    for use in (ledger.check, ledger.entries, lambda: charge(ledger, laplace(0.1))):
        with pytest.raises(InputError):
            use()
    assert ledger.path.read_bytes() == content


def test_another_sqlite_file_is_no_ledger(ledger: Ledger) -> None:
    db = sqlite3.connect(ledger.path)
    db.execute("CREATE TABLE lines (sequence, line, hash)")
    db.commit()
    db.close()
    with pytest.raises(InputError, match="some other file"):
        charge(ledger, laplace(0.1))


@pytest.mark.parametrize("name", [".", "missing/budget.db", "file/budget.db", "nul\0byte.db", "n" * 300])
def test_impossible_paths(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    ledger = Ledger(tmp_path / name)
    with pytest.raises(InputError) as error:
        charge(ledger, laplace(0.1))
    assert error.value.remedy
    with pytest.raises(InputError):
        ledger.entries()
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_a_path_with_signs_that_mean_something_in_addresses(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "bud?get #1 100%.db")
    charge(ledger, laplace(0.1))
    assert len(ledger.entries()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bud?get #1 100%.db"]


def test_a_ledger_somebody_else_holds(filled: Ledger) -> None:
    holder = sqlite3.connect(filled.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    impatient = Ledger(filled.path, patience=0.05)
    with pytest.raises(InputError, match="another process"):
        charge(impatient, laplace(0.1))
    assert len(impatient.entries()) == 5  # reading needs no lock of that kind
    holder.close()
    charge(impatient, laplace(0.1))


AS_NOBODY = """
import importlib.metadata, os, sys
from adumbra.common.errors import InputError
from adumbra.accounting.events import Event
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.ledger import Ledger
importlib.metadata.version("adumbra")  # nobody may not be able to read the installed packages
if os.geteuid() == 0:
    os.setuid(65534)
ledger = Ledger(sys.argv[1])
assert len(ledger.entries()) == 1 and ledger.check() == []
try:
    ledger.charge(table="t", release_id="r", mechanism="m", events={"l": Event("laplace", 1.0, {})},
                  promise=Promise(1.0, 0.0, Neighbours.parse("row/replace")))
except InputError as error:
    assert "permission" in error.remedy, error
else:
    raise SystemExit("a read-only ledger was written")
"""


def test_a_read_only_ledger_can_be_read_but_not_charged() -> None:
    folder = Path(tempfile.mkdtemp(prefix="adumbra-test-"))  # not tmp_path: nobody may not enter that
    try:
        ledger = Ledger(folder / "budget.db")
        charge(ledger, laplace(0.1))
        ledger.path.chmod(0o444)
        folder.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(ledger.path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    finally:
        folder.chmod(0o700)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


# --- many at once, and sudden death -----------------------------------------------------------------------

CHARGE = """
import sys
from adumbra.common.errors import Refused
from adumbra.accounting.events import Event
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.ledger import Ledger
path, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(path)
print("ready", flush=True)
sys.stdin.readline()
for i in range(times):
    try:
        ledger.charge(table="patients", release_id=f"{name}-{i}", mechanism="m",
                      promise=Promise(0.1, 0.0, Neighbours.parse("row/replace")),
                      events={"l": Event("laplace", 10.0, {"row/replace": 1.0})})
        print(f"{name}-{i}", flush=True)
    except Refused:
        pass
"""


def start(path: Path, name: str, times: int, kill_at: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHARGE, str(path), name, str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ADUMBRA_TEST_KILL_AT": kill_at},
    )


def race(path: Path, processes: int, times: int) -> list[str]:
    """Let the processes charge at once; the charges they say were accepted."""
    outputs: list[str] = []
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(start(path, f"p{i}", times)) for i in range(processes)]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        waiting = [
            threading.Thread(target=lambda p=process: outputs.append(p.communicate("go\n")[0])) for process in running
        ]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
    assert all(process.returncode == 0 for process in running)
    return [name for output in outputs for name in output.split()]


@pytest.mark.parametrize(("processes", "times"), [(2, 8), (8, 3)])
def test_processes_at_once_never_overspend_and_lose_nothing(ledger: Ledger, processes: int, times: int) -> None:
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    accepted = race(ledger.path, processes, times)
    written = [entry.body["release_id"] for entry in ledger.entries() if entry.kind == "charge"]
    assert len(accepted) == 10
    assert sorted(accepted) == sorted(written)
    assert ledger.spent("patients", ROW, 0.0) <= 1.0 + 1e-9
    assert ledger.check() == []


def test_processes_that_all_want_to_create_the_ledger(ledger: Ledger) -> None:
    accepted = race(ledger.path, 4, 2)
    assert len(accepted) == 8
    assert len(ledger.entries()) == 8
    assert ledger.check() == []
    assert [path.name for path in ledger.path.parent.iterdir()] == ["budget.db"]


@pytest.mark.parametrize(
    ("place", "there"),
    [("ledger-before-insert", False), ("ledger-before-commit", False), ("ledger-after-commit", True)],
)
def test_death_leaves_a_charge_wholly_there_or_wholly_absent(filled: Ledger, place: str, there: bool) -> None:
    process = start(filled.path, "doomed", 1, place)
    output, _ = process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    assert "doomed" not in output
    assert filled.check() == []
    assert len(filled.entries()) == (6 if there else 5)
    charge(filled, laplace(0.1))  # and life goes on
    assert filled.check() == []


def test_death_while_the_ledger_is_created(ledger: Ledger) -> None:
    process = start(ledger.path, "doomed", 1, "ledger-created")
    process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    assert not ledger.path.exists()
    charge(ledger, laplace(0.1))
    assert ledger.check() == []


def test_threads_at_once(ledger: Ledger) -> None:
    ledger.set_cap("patients", ROW, 0.5, 0.0)
    refused: list[Refused] = []

    def spend() -> None:
        for _ in range(3):
            try:
                charge(ledger, laplace(0.1))
            except Refused as error:
                refused.append(error)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.events("patients")) == 5
    assert len(refused) == 7
    assert ledger.check() == []
