"""A storage written outside the package: the ledger holds all it promises in it, and no source file knows of it."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import adumbra as ad
from adumbra.common.errors import InputError, Refused
from adumbra.ledger.ledger import Ledger
from adumbra.ledger.lines import GENESIS
from tests.conftest import Home
from tests.ledger.test_ledger import CELL, ROW, charge, laplace

# --- a ledger in memory ----------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """What any storage keeps, as the ledger sees it while it is open."""

    lines: list[Any] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    number: int = 1
    read: list[int | None] = field(default_factory=list)

    def format(self) -> int:
        return self.number

    def head(self) -> tuple[object, object]:
        return len(self.lines), self.lines[-1][2] if self.lines else GENESIS

    def rows(self, after: int | None = None) -> list[Any]:
        self.read.append(after)
        return [tuple(line) for line in self.lines[after or 0 :]]

    def faults(self, *, thorough: bool = False) -> list[str]:
        return []

    def remembered(self, key: str) -> str | None:
        return self.notes.get(key)

    def append(self, rows: Sequence[tuple[int, str, str]]) -> None:
        self.lines += rows

    def remember(self, notes: Mapping[str, str], *, forget: bool) -> None:
        self.notes = {**({} if forget else self.notes), **notes}

    def raise_format(self, number: int) -> None:
        self.number = number


class InMemory:
    """For a program that ends when its budget does."""

    name = "memory"

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self._lock = threading.Lock()

    def exists(self) -> bool:
        return self.kept is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Kept]:
        if self.kept is None:
            raise InputError("an existing ledger", "none in memory", "charge something first")
        yield self.kept

    @contextlib.contextmanager
    def writing(self) -> Iterator[Kept]:
        with self._lock:
            draft = copy.deepcopy(self.kept or Kept())
            yield draft
            self.kept = draft


# --- a ledger of JSON lines ------------------------------------------------------------------------------------------


class JsonLines:
    """One line of JSON for each charge, whole or not at all; a lock beside it. It cannot tell who changed the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        return self._path.exists()

    def _read(self) -> Kept:
        kept = Kept()
        text = self._path.read_text() if self.exists() else ""
        for record in text.split("\n")[:-1]:  # what follows the last end of line was never finished
            found = json.loads(record)
            kept.append([tuple(row) for row in found["rows"]])
            kept.raise_format(found["format"])
        return kept

    @contextlib.contextmanager
    def reading(self) -> Iterator[Kept]:
        if not self.exists():
            raise InputError("an existing ledger", f"no file {self._path}", "charge something first")
        yield self._read()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Kept]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = self._read()
            before = len(kept.lines)
            yield kept
            whole = "".join(self._path.read_text().rpartition("\n")[:2]) if self.exists() else ""
            record = json.dumps({"format": kept.number, "rows": kept.lines[before:]})
            with self._path.open("w") as file:
                file.write(f"{whole}{record}\n")


def made(kind: str, folder: Path) -> InMemory | JsonLines:
    return InMemory() if kind == "memory" else JsonLines(folder / "ledger.jsonl")


KINDS = pytest.mark.parametrize("kind", ["memory", "json"])

# --- what a ledger promises ------------------------------------------------------------------------------------------


@KINDS
def test_caps_hold_in_any_storage(kind: str, tmp_path: Path) -> None:
    ledger = Ledger(made(kind, tmp_path))
    assert not ledger.exists()
    with pytest.raises(InputError, match="an existing ledger"):
        ledger.entries()
    ledger.set_cap("patients", ROW, 1.0, 0.0)
    for _ in range(10):
        charge(ledger, laplace(0.1))
    with pytest.raises(Refused, match="1 is already spent"):
        charge(ledger, laplace(0.1))
    charge(ledger, laplace(3.0), table="staff")
    assert len(ledger.entries()) == 12 and len(ledger.events("patients")) == 10
    assert ledger.spent("staff", ROW, 0.0) == 3.0
    ledger.remove_cap("patients", ROW)
    charge(ledger, laplace(0.1))
    assert ledger.caps("patients") == [] and ledger.check() == []
    with ledger.storage.reading() as book:
        assert book.format() == 2


@KINDS
def test_a_ledger_in_a_file_says_the_same(kind: str, tmp_path: Path) -> None:
    books = [Ledger(made(kind, tmp_path)), Ledger(tmp_path / "ledger.db")]
    for book in books:
        book.set_cap("patients", CELL, 0.5, 1e-6)
        for epsilon in (0.1, 0.3, 0.2):
            charge(book, laplace(epsilon))
    assert books[0].caps("patients") == books[1].caps("patients")
    assert books[0].events("patients") == books[1].events("patients")
    assert len({book.spent("patients", ROW, 1e-6) for book in books}) == 1


@KINDS
@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_changed_line_is_found_in_any_storage(kind: str, tmp_path: Path, line: int) -> None:
    storage = made(kind, tmp_path)
    ledger = Ledger(storage)
    for _ in range(3):
        charge(ledger, laplace(0.1))
    if isinstance(storage, InMemory):
        assert storage.kept is not None
        number, text, digest = storage.kept.lines[line]
        storage.kept.lines[line] = (number, text.replace("10.0", "90.0"), digest)
        storage.kept.notes.clear()  # whoever reaches into it must say so
    else:
        path = tmp_path / "ledger.jsonl"
        records = path.read_text().split("\n")
        records[line] = records[line].replace("10.0", "90.0")
        path.write_text("\n".join(records))
    assert f"line {line + 1} was changed" in ledger.check()[0]
    with pytest.raises(Refused, match="passes its own check"):
        charge(ledger, laplace(0.1))


def test_a_storage_that_vouches_for_itself_is_not_read_again() -> None:
    storage = InMemory()
    ledger = Ledger(storage)
    for _ in range(20):
        charge(ledger, laplace(0.1))
    assert storage.kept is not None
    # all lines, once; then the last two; and each time what was just written
    assert storage.kept.read == [None, 0, 0, 1, *(n for line in range(18) for n in (line, line + 2))]


@KINDS
def test_an_error_between_leaves_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(made(kind, tmp_path))
    charge(ledger, laplace(0.1))
    real = Kept.append

    def failing(self: Kept, rows: Sequence[tuple[int, str, str]]) -> None:
        real(self, rows[:1])
        raise OSError("no space left")

    def failing_later(self: Kept, notes: Mapping[str, str], *, forget: bool) -> None:
        raise OSError("no space left")

    for name, broken in (("append", failing), ("remember", failing_later)):
        with monkeypatch.context() as patch:
            patch.setattr(Kept, name, broken)
            if name == "append" and kind == "json":  # which appends when it reads as well
                continue
            with pytest.raises(OSError, match="no space"):
                charge(ledger, laplace(0.5))
        assert len(ledger.entries()) == 1 and ledger.check() == []
    charge(ledger, laplace(0.1))
    assert len(ledger.entries()) == 2 and ledger.check() == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_death_in_the_middle_of_a_record(tmp_path: Path, share: float) -> None:
    ledger, path = Ledger(JsonLines(tmp_path / "ledger.jsonl")), tmp_path / "ledger.jsonl"
    ledger.set_cap("patients", ROW, 0.25, 0.0)
    charge(ledger, laplace(0.1))
    whole = path.read_text()
    charge(ledger, laplace(0.1))
    record = path.read_text()[len(whole) :]
    path.write_text(whole + record[: int(share * len(record))])
    assert len(ledger.entries()) == 2 and ledger.check() == []
    charge(ledger, laplace(0.1))
    with pytest.raises(Refused):
        charge(ledger, laplace(0.1))
    assert ledger.spent("patients", ROW, 0.0) == pytest.approx(0.2) and ledger.check() == []


@KINDS
def test_threads_at_once_never_overspend(kind: str, tmp_path: Path) -> None:
    ledger = Ledger(made(kind, tmp_path))
    ledger.set_cap("patients", ROW, 0.5, 0.0)

    def spend() -> None:
        for _ in range(3):
            with contextlib.suppress(Refused):
                charge(ledger, laplace(0.1))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.events("patients")) == 5 and ledger.check() == []


@KINDS
def test_a_release_is_charged_to_any_storage(kind: str, home: Home) -> None:
    ledger = Ledger(made(kind, home.path))
    ledger.set_cap("t", "row/replace", 1.1, 1e-6)
    done = ad.release(home.table, home.schema, ad.DPPro(dimension=1), ad.Budget(1.0), ledger=ledger, name="t")
    last = ledger.entries()[-1]
    assert done.card.ledger_head == last.hash and last.body["release_id"] == done.card.release_id
    with pytest.raises(Refused, match=r"at most epsilon 1\.1"):
        ad.release(home.table, home.schema, ad.DPPro(dimension=1), ad.Budget(1.0), ledger=ledger, name="t")
    assert len(ledger.entries()) == 2 and ledger.check(expect=[str(done.card.ledger_head)]) == []


@pytest.mark.parametrize("given", [None, 5, object(), b"ledger.db"])
def test_what_is_no_storage_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="a path or a storage"):
        Ledger(given)


def test_a_ledger_that_is_no_file_has_a_name_and_no_path() -> None:
    ledger = Ledger(InMemory())
    assert ledger.name == "memory" and repr(ledger) == "Ledger('memory')"
    with pytest.raises(InputError, match="a ledger in a file"):
        _ = ledger.path


# --- storages that do not do their duty ------------------------------------------------------------------------------


class Swallowing(InMemory):
    """Takes every error for its own, a refusal too."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[Kept]:
        with contextlib.suppress(Exception), super().writing() as book:
            yield book


class Dropping(InMemory):
    """Says that lines were added, and adds none."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[Kept]:
        with super().writing() as book:
            book.append = lambda rows: None  # type: ignore[method-assign]  # the duty that is not done
            yield book


@pytest.mark.parametrize("storage", [Swallowing, Dropping])
def test_a_storage_that_loses_a_charge_gets_no_release(storage: type[InMemory]) -> None:
    kept = storage()
    ledger = Ledger(kept)
    if storage is Swallowing:
        ledger.set_cap("patients", ROW, 0.1, 0.0)
    schema = {"table": {"name": "patients"}, "columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
    with pytest.raises(InputError, match="a ledger that"):
        ad.release(pl.DataFrame({"age": [10, 20, 30]}), schema, "laplace", 1.0, delta=0.0, ledger=ledger)
    assert kept.kept is None or all("charge" not in line[1] for line in kept.kept.lines)


def test_a_cap_that_is_not_kept_is_not_set() -> None:
    ledger = Ledger(Dropping())
    with pytest.raises(InputError, match="a ledger that keeps what is written to it"):
        ledger.set_cap("patients", ROW, 1.0, 0.0)
    assert not ledger.exists()


def test_a_trigger_of_somebody_else_that_drops_lines_stops_every_charge(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    charge(ledger, laplace(0.1))
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as file, file:
        file.execute("CREATE TRIGGER yy BEFORE INSERT ON lines BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises((InputError, Refused)):
        charge(ledger, laplace(0.1))
    assert any("trigger of somebody else" in text for text in ledger.check())
