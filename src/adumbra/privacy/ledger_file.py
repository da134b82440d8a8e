"""The file of a ledger: opened, begun, read and added to. One SQLite file; the chain is walked here.

A separate head remembers how many lines there are, so a cut-off end is found too. Format 2 is format 1 with
withdrawals of caps: a ledger is raised to it by the first of them, so that an older adumbra, which would not
understand that line, refuses the file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adumbra.core.checkpoint import checkpoint
from adumbra.core.errors import InputError
from adumbra.privacy.ledger_lines import LONGEST_LINE, Entry, Line, Receipt, Unreadable, chained, read, text_of

__all__ = ["append", "begin", "broken", "connected", "damage", "exists", "lines_of", "raise_format", "unread"]

_APPLICATION_ID = 0x61646D62  # "admb" in the file header: tells our files from other SQLite files
_FORMATS = (1, 2)
_GENESIS = "0" * 64

_GUARDS = {
    f"{table}_{action.lower()}": f"CREATE TRIGGER {table}_{action.lower()} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for table, action in (("lines", "UPDATE"), ("lines", "DELETE"), ("head", "DELETE"))
}
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMATS[0]}",
    "CREATE TABLE lines (sequence INTEGER PRIMARY KEY, line TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"INSERT INTO head VALUES (1, 0, '{_GENESIS}')",
    *_GUARDS.values(),
)


def exists(path: Path) -> bool:
    """Whether anything stands there."""
    try:
        return path.exists()
    except OSError as error:
        raise InputError(
            "a path that can be looked at",
            f"{path}: {error.strerror}",
            "check the permissions of its folders",
        ) from error


@contextlib.contextmanager
def connected(path: Path, patience: float) -> Iterator[sqlite3.Connection]:
    """An open connection to a file that is certainly a ledger; whatever was not committed is undone."""
    db = None
    try:
        db = _open(path, patience)
        if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
            raise _not_a_ledger(path)
        if db.execute("PRAGMA user_version").fetchone()[0] not in _FORMATS:
            raise InputError(
                f"a ledger of format {' or '.join(map(str, _FORMATS))}",
                f"another format in {path}",
                "use a newer adumbra",
            )
        yield db
    except UnicodeDecodeError as error:  # SQLite quotes damaged pages in its messages, which then are no text
        raise InputError("an undamaged ledger", f"{path}", "go back to a whole copy of the file") from error
    except sqlite3.Error as error:
        raise _explained(error, path, patience) from error
    finally:
        if db is not None:
            db.close()  # rolls back an open transaction


def _open(path: Path, patience: float) -> sqlite3.Connection:
    # mode=rw never creates a file, and falls back to reading where the file may not be written.
    name = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    db = sqlite3.connect(name, uri=True, timeout=patience, isolation_level=None)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # whatever stands there can be read
    # EXTRA also syncs the folder after the journal is gone: a power cut right after a charge cannot undo it.
    db.execute("PRAGMA synchronous = EXTRA")
    return db


def begin(path: Path) -> bool:
    """Make an empty ledger beside `path` and give it its name in one step; False where another process was first.

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
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    except (OSError, ValueError, sqlite3.Error) as error:
        raise InputError(
            "a folder where the ledger can be created",
            f"{path}: {getattr(error, 'strerror', None) or error}",
            "give a path in an existing folder that you may write to",
        ) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink()
    return True


def append(db: sqlite3.Connection, kind: str, table: str, body: dict[str, Any]) -> Receipt:
    """Add one line and move the head, inside the caller's transaction."""
    count, previous = db.execute("SELECT count, hash FROM head").fetchone()
    sequence = int(count) + 1
    line = text_of(sequence, kind, table, body)
    new = chained(previous, line)
    checkpoint("ledger-before-insert")
    db.execute("INSERT INTO lines VALUES (?, ?, ?)", (sequence, line, new))
    db.execute("UPDATE head SET count = ?, hash = ?", (sequence, new))
    return Receipt(sequence, new)


def raise_format(db: sqlite3.Connection) -> None:
    """From now on an older adumbra refuses this ledger; inside the caller's transaction."""
    db.execute(f"PRAGMA user_version = {_FORMATS[-1]}")


def _rows(db: sqlite3.Connection) -> list[tuple[Any, Any, Any]]:
    """Lines and hashes as they stand; None for a line or a hash of a length that we never write."""
    return db.execute(
        "SELECT sequence, CASE WHEN length(CAST(line AS BLOB)) <= ? THEN line END, "
        "CASE WHEN length(CAST(hash AS BLOB)) = 64 THEN hash END FROM lines ORDER BY sequence",
        (LONGEST_LINE,),
    ).fetchall()


def lines_of(db: sqlite3.Connection) -> list[Line]:
    """Every line, readable or not."""
    return [read(*row) for row in _rows(db)]


def broken(db: sqlite3.Connection) -> list[str]:
    """Walk the chain and compare it with the head: what was changed, one sentence each."""
    problems = []
    previous = _GENESIS
    rows = _rows(db)
    for place, (sequence, line, digest) in enumerate(rows, start=1):
        if sequence != place:
            problems.append(f"line {place} is missing or moved: another number stands in its place")
            break  # everything after is out of step as well
        if not isinstance(line, str) or chained(previous, line) != digest:
            problems.append(f"line {sequence} was changed: its hash does not follow from the line before")
        previous = str(digest)
    heads = db.execute("SELECT count, hash FROM head").fetchall()
    if heads != [(len(rows), rows[-1][2] if rows else _GENESIS)]:
        problems.append(f"the end was changed: {len(rows)} lines do not agree with the head of the ledger")
    guards = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
    problems += [f"the guard {name} was removed or changed" for name in _GUARDS if guards.get(name) != _GUARDS[name]]
    return problems


def unread(lines: list[Line]) -> list[Unreadable]:
    """Lines that cannot be read, but for caps that were withdrawn since."""
    gone = {line.body["withdraws"] for line in lines if isinstance(line, Entry) and line.kind == "withdrawal"}
    return [line for line in lines if isinstance(line, Unreadable) and not (line.is_cap and line.sequence in gone)]


def damage(error: InputError) -> str | None:
    """What is wrong with a file that began as a ledger (or we would not know its format); None for another error."""
    cause = error.__cause__
    return f"the file is damaged: {cause}" if _name(cause).startswith(("SQLITE_CORRUPT", "SQLITE_ERROR")) else None


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
