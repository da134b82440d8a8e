"""What has been spent on a table: an append-only file that charges are written to before any noise is drawn.

One SQLite file. Each line holds its own number and the hash of everything before it, so an edited, removed or
moved line is found; a separate head remembers how many lines there are, so a cut-off end is found too. A
charge and the check against the caps happen in one exclusive transaction: two processes cannot both spend the
last of a budget, and a process that dies leaves a charge wholly there or wholly absent.

What the chain cannot show: a file put back from an older copy, or rewritten from end to end by somebody who
recomputes every hash. The receipt of a charge carries its hash; kept elsewhere, it pins the ledger up to that
line.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import secrets
import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from adumbra.core.checkpoint import checkpoint
from adumbra.core.errors import InputError, Refused
from adumbra.core.events import Event
from adumbra.core.guarantee import Neighbours, Promise
from adumbra.core.validation import between, positive
from adumbra.privacy.accounting import check_event, epsilon_of

__all__ = ["Entry", "Ledger", "Receipt"]

_APPLICATION_ID = 0x61646D62  # "admb" in the file header: tells our files from other SQLite files
_FORMAT = 1
_GENESIS = "0" * 64
_FLOAT_DUST = 1e-9  # a cap of 1 admits 1.000000001: float64 rounding must not refuse a budget spent exactly

_GUARDS = {
    f"{table}_{action.lower()}": f"CREATE TRIGGER {table}_{action.lower()} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for table, action in (("lines", "UPDATE"), ("lines", "DELETE"), ("head", "DELETE"))
}
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
    "CREATE TABLE lines (sequence INTEGER PRIMARY KEY, line TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"INSERT INTO head VALUES (1, 0, '{_GENESIS}')",
    *_GUARDS.values(),
)


@dataclass(frozen=True)
class Receipt:
    """Proof that a charge was written: its number and the hash of the ledger up to and including it."""

    sequence: int
    hash: str


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `body` holds what is particular to its kind."""

    sequence: int
    kind: Literal["charge", "cap"]
    table: str
    time: str
    version: str
    body: dict[str, Any]
    hash: str

    @property
    def event(self) -> Event | None:
        """What was done, for a charge; None for a cap."""
        if self.kind != "charge":
            return None
        try:
            return Event.from_json(self.body["event"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(
                "an event this version knows",
                f"line {self.sequence} written by version {self.version}",
                "use that version or a newer one",
            ) from error


class Ledger:
    """The ledger in one file. Nothing is opened before it is used; the first write creates it, mode 0600.

    Safe to share between threads and processes: every call opens its own connection. `patience` is how many
    seconds to wait for another process that is writing.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float = 60.0) -> None:
        self.path = Path(path)
        self.patience = patience

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def charge(
        self, *, table: str, release_id: str, mechanism: str, promise: Promise, events: Mapping[str, Event]
    ) -> list[Receipt]:
        """Write the charges of all lines of a release durably and together, or raise and write nothing.

        Guarantee: when this returns, the charges survive a crash, and no cap of the table is exceeded by all
        its events together, at the cap's own neighbours and delta. Raises Refused if a cap would be exceeded
        or if the ledger no longer passes its own check.
        """
        for event in events.values():
            check_event(event)
        stated = {
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "neighbours": str(promise.neighbours),
        }
        with self._writing() as db:
            past = [entry for entry in _whole(db, self.path) if entry.table == table]
            spent = [e for entry in past if (e := entry.event) is not None]
            for cap in _caps(past):
                _check_cap(cap, table, spent, list(events.values()))
            return [
                _append(
                    db,
                    "charge",
                    table,
                    {
                        "release_id": release_id,
                        "mechanism": mechanism,
                        "line": line,
                        "promise": stated,
                        "event": event.to_json(),
                    },
                )
                for line, event in events.items()
            ]

    def set_cap(self, table: str, neighbours: Neighbours, epsilon: float, delta: float) -> Receipt:
        """Declare the most that may ever be spent on a table; replaces an earlier cap for these neighbours.

        A cap below what is already spent is accepted and stops every further charge.
        """
        positive("give a positive finite epsilon, for example 1.0", epsilon=epsilon)
        between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
        body = {"neighbours": str(neighbours), "epsilon": float(epsilon), "delta": float(delta)}
        with self._writing() as db:
            _whole(db, self.path)
            return _append(db, "cap", table, body)

    def entries(self, table: str | None = None) -> list[Entry]:
        """Every line in order, or those of one table."""
        with self._reading() as db:
            found = [_entry(*row) for row in _rows(db)]
        return [entry for entry in found if table is None or entry.table == table]

    def tables(self) -> list[str]:
        """Names of all tables with a line, sorted."""
        return sorted({entry.table for entry in self.entries()})

    def events(self, table: str) -> list[Event]:
        """What was done to a table, in order."""
        return [event for entry in self.entries(table) if (event := entry.event) is not None]

    def spent(self, table: str, neighbours: Neighbours, delta: float) -> float:
        """Epsilon of all events of a table together; 0.0 for a table without charges."""
        return epsilon_of(self.events(table), neighbours, delta)

    def check(self) -> list[str]:
        """What is wrong with the ledger, one sentence each; empty when it is whole."""
        try:
            with self._reading() as db:
                damage = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
                problems = [] if damage == ["ok"] else [f"the file is damaged: {text}" for text in damage]
                return problems + _problems(db)
        except InputError as error:
            # It began as a ledger (or we would not know its format) and pages or tables of it are gone.
            if _name(error.__cause__).startswith(("SQLITE_CORRUPT", "SQLITE_ERROR")):
                return [f"the file is damaged: {error.__cause__}"]
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not _exists(self.path):
            raise InputError(
                "an existing ledger",
                f"no file {self.path}",
                "give the path of a ledger that a release was charged to",
            )
        with self._connected() as db:
            db.execute("BEGIN")  # one snapshot for all the reads of a call
            yield db

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not _exists(self.path):
            _create(self.path)
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            checkpoint("ledger-before-commit")
            db.execute("COMMIT")
        checkpoint("ledger-after-commit")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """An open connection to a file that is certainly a ledger; whatever was not committed is undone."""
        db = None
        try:
            db = _open(self.path, self.patience)
            if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
                raise _not_a_ledger(self.path)
            if db.execute("PRAGMA user_version").fetchone() != (_FORMAT,):
                raise InputError(
                    f"a ledger of format {_FORMAT}", f"another format in {self.path}", "use a newer adumbra"
                )
            yield db
        except sqlite3.Error as error:
            raise _explained(error, self.path, self.patience) from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged pages in its messages, which then are no text
            raise InputError("an undamaged ledger", f"{self.path}", "go back to a whole copy of the file") from error
        finally:
            if db is not None:
                db.close()  # rolls back an open transaction


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise InputError(
            "a path that can be looked at",
            f"{path}: {error.strerror}",
            "check the permissions of its folders",
        ) from error


def _open(path: Path, patience: float) -> sqlite3.Connection:
    # mode=rw never creates a file, and falls back to reading where the file may not be written.
    name = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    db = sqlite3.connect(name, uri=True, timeout=patience, isolation_level=None)
    # EXTRA also syncs the folder after the journal is gone: a power cut right after a charge cannot undo it.
    db.execute("PRAGMA synchronous = EXTRA")
    return db


def _create(path: Path) -> None:
    """Make an empty ledger beside `path` and give it its name in one step.

    So the name never stands for half a ledger; and an existing file, even an empty one, is never taken for a
    new ledger, which would forget what was spent.
    """
    draft = path.with_name(f".adumbra-{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.closing(_open(draft, 1.0)) as db:
            db.execute("BEGIN")
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("COMMIT")
        checkpoint("ledger-created")
        with contextlib.suppress(FileExistsError):  # another process was first: use its ledger
            os.link(draft, path)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise InputError(
            "a folder where the ledger can be created",
            f"{path}: {getattr(error, 'strerror', None) or error}",
            "give a path in an existing folder that you may write to",
        ) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink()


def _append(db: sqlite3.Connection, kind: str, table: str, body: dict[str, Any]) -> Receipt:
    """Add one line and move the head, inside the caller's transaction."""
    count, previous = db.execute("SELECT count, hash FROM head").fetchone()
    sequence = int(count) + 1
    line = _canonical(
        {
            "sequence": sequence,
            "kind": kind,
            "table": table,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "version": importlib.metadata.version("adumbra"),
            **body,
        }
    )
    new = _chained(previous, line)
    checkpoint("ledger-before-insert")
    db.execute("INSERT INTO lines VALUES (?, ?, ?)", (sequence, line, new))
    db.execute("UPDATE head SET count = ?, hash = ?", (sequence, new))
    return Receipt(sequence, new)


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _chained(previous: str, line: str) -> str:
    return hashlib.sha256((previous + line).encode()).hexdigest()


def _rows(db: sqlite3.Connection) -> list[tuple[Any, Any, Any]]:
    return db.execute("SELECT sequence, line, hash FROM lines ORDER BY sequence").fetchall()


def _entry(sequence: int, line: str, digest: str) -> Entry:
    try:
        body = json.loads(line)
        common = {key: body.pop(key) for key in ("kind", "table", "time", "version")}
        body.pop("sequence")
        if not all(isinstance(value, str) for value in common.values()):
            raise TypeError("kind, table, time and version are text")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(
            "a ledger whose lines can be read", f"a damaged line {sequence}", "run `adumbra ledger check`"
        ) from error
    return Entry(sequence=sequence, **common, body=body, hash=digest)


def _problems(db: sqlite3.Connection) -> list[str]:
    """Walk the chain and compare it with the head."""
    problems = []
    previous = _GENESIS
    rows = _rows(db)
    for place, (sequence, line, digest) in enumerate(rows, start=1):
        if sequence != place:
            problems.append(f"line {place} is missing or moved: number {sequence} stands in its place")
            break  # everything after is out of step as well
        try:
            inside = json.loads(line).get("sequence")
        except (TypeError, ValueError, AttributeError):
            inside = None
        if inside != sequence or _chained(previous, str(line)) != digest:
            problems.append(f"line {sequence} was changed: its hash does not follow from the line before")
        previous = str(digest)
    heads = db.execute("SELECT count, hash FROM head").fetchall()
    if heads != [(len(rows), rows[-1][2] if rows else _GENESIS)]:
        problems.append(f"the end was changed: {len(rows)} lines do not agree with the head of the ledger")
    guards = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
    problems += [f"the guard {name} was removed or changed" for name in _GUARDS if guards.get(name) != _GUARDS[name]]
    return problems


def _whole(db: sqlite3.Connection, path: Path) -> list[Entry]:
    """All entries, or Refused when the chain is broken: a tampered ledger takes no more charges."""
    problems = _problems(db)
    if problems:
        raise Refused(
            "a ledger that passes its own check",
            f"{path}: {problems[0]}",
            "nothing was charged; find out who changed it and go back to a whole copy",
        )
    return [_entry(*row) for row in _rows(db)]


def _caps(entries: list[Entry]) -> list[Entry]:
    """The newest cap for each kind of neighbours."""
    return list({entry.body["neighbours"]: entry for entry in entries if entry.kind == "cap"}.values())


def _check_cap(cap: Entry, table: str, spent: list[Event], asked: list[Event]) -> None:
    """Refuse when what is spent and what is asked for together cost more than the cap."""
    most, delta, neighbours = cap.body["epsilon"], cap.body["delta"], Neighbours.parse(cap.body["neighbours"])
    total = epsilon_of([*spent, *asked], neighbours, delta)
    if total <= most * (1.0 + _FLOAT_DUST):
        return
    before = epsilon_of(spent, neighbours, delta)
    cost = "no finite epsilon" if math.isinf(total) else f"epsilon {total:.6g}"
    raise Refused(
        f"at most epsilon {most:g} at delta {delta:g} ({neighbours}) for table {table!r}",
        f"{cost} with this release ({before:.6g} is already spent)",
        "nothing was charged; ask for less, or raise the cap if that is yours to decide",
    )


def _not_a_ledger(path: Path) -> InputError:
    return InputError("a ledger", f"{path}, which is some other file", "give the path of a ledger or a new path")


def _name(error: BaseException | None) -> str:
    return getattr(error, "sqlite_errorname", None) or ""


def _explained(error: sqlite3.Error, path: Path, patience: float) -> InputError:
    """Say what SQLite's error means to somebody who has never heard of SQLite."""
    name = _name(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return InputError(
            f"the ledger to be free within {patience:g} s",
            f"{path} in use by another process",
            "try again when the other release is done",
        )
    if name.startswith("SQLITE_NOTADB"):
        return _not_a_ledger(path)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return InputError(
            "a ledger that can be opened and written",
            f"{path}: {error}",
            "check that it is a file, and the permissions of the file and of its folder",
        )
    if name.startswith("SQLITE_CORRUPT"):
        return InputError("an undamaged ledger", f"{path}: {error}", "go back to a whole copy of the file")
    return InputError("a ledger that can be used", f"{path}: {error}", "check the disk and the file")
