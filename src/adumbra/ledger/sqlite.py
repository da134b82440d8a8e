"""A ledger in one SQLite file: opened, begun, read and added to. What its lines mean is not known here.

A separate head remembers how many lines there are, so a cut-off end is found too. Format 2 is format 1 with
withdrawals of caps: a ledger is raised to it by the first of them, so that an older adumbra, which would not
understand that line, refuses the file.

Notes are kept in the same file and in the same transaction as the lines they are about, together with a time that is
then given to the file as that of its last change. Whoever changes the file in any way, with SQLite or without, changes
that time, and the notes are not believed any more. So it is where the time cannot be set, or not that exactly, and
where somebody gave the file a write-ahead log, beside which it keeps its time. What happens between the end of our
transaction and the setting of the time is not seen; `ledger check` reads all lines and sees it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from adumbra.common.errors import InputError
from adumbra.common.interrupts import checkpoint
from adumbra.ledger.lines import GENESIS, LONGEST_LINE
from adumbra.ledger.storage import DamagedLedger, StoredRow

__all__ = ["VARIABLE", "SqliteStorage", "from_environment", "make_folder", "of_the_user"]


# Which file is the ledger where nobody named one: a cap holds only if the next release finds it.

VARIABLE = "ADUMBRA_LEDGER"
_OLD = "adumbra-ledger.db"
"""The default of earlier versions, in whatever folder was the current one."""


def from_environment() -> Path | None:
    """The file that $ADUMBRA_LEDGER names; it must be the same wherever the command is run."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_absolute():
        raise InputError(
            f"${VARIABLE} with the whole path of the ledger",
            f"{named}, another file in every folder",
            f"write export {VARIABLE}={shlex.quote(str(path.absolute()))}, or name a file with --ledger",
        )
    return path


def of_the_user() -> Path:
    """One ledger per user, in the state directory of the system; refused while one of the old default stands here."""
    import platformdirs

    try:
        folder = platformdirs.user_state_path("adumbra", appauthor=False)
    except RuntimeError:  # so newer versions say that there is no home
        folder = Path()
    if not folder.is_absolute():
        raise InputError(
            "a home folder for the ledger of this user",
            "none with a whole path",
            f"set HOME or XDG_STATE_HOME to a whole path, or name the ledger with --ledger or ${VARIABLE}",
        )
    path = folder / "ledger.db"
    if os.path.lexists(_OLD):
        raise _left_behind(path)
    return path


def _left_behind(path: Path) -> InputError:
    """Two ledgers could be meant. Using either without a word would forget what the other holds."""
    got = f"none named, and an {_OLD} of an earlier version in this folder"
    name_it = f"name it with --ledger {_OLD}, or with [table] ledger in the schema"
    if os.path.lexists(path):
        return InputError(
            "to know which ledger is meant",
            f"{got}, while {path} exists too",
            f"{name_it}; once no table needs it under this name any more, rename it",
        )
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    move = f"adumbra ledger check --ledger {_OLD} && mkdir -p -m 700 {folder} && mv -n {_OLD} {file}"
    return InputError("to know which ledger is meant", got, f"make it the ledger of this user: {move}; or {name_it}")


def make_folder(folder: Path) -> None:
    """Make the state directory for its owner only, as the systems' conventions ask; others may be making it too."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        for parent in reversed(missing):
            with contextlib.suppress(FileExistsError):
                parent.mkdir(mode=0o700)
    except OSError as error:
        raise InputError(
            "a folder for the ledger of this user",
            f"{folder}: {error.strerror}",
            f"make it, or name the ledger with --ledger or ${VARIABLE}",
        ) from error


_APPLICATION_ID = 0x61646D62  # "admb" in the file header: tells our files from other SQLite files
_GUARDS = {
    f"{table}_{action.lower()}": f"CREATE TRIGGER {table}_{action.lower()} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for table, action in (("lines", "UPDATE"), ("lines", "DELETE"), ("head", "DELETE"))
}
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION_ID}",
    "PRAGMA user_version = 1",
    "CREATE TABLE lines (sequence INTEGER PRIMARY KEY, line TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"INSERT INTO head VALUES (1, 0, '{GENESIS}')",
    *_GUARDS.values(),
)
_NOTES = (
    "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, note TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS noted (one INTEGER PRIMARY KEY CHECK (one = 1), changed INTEGER NOT NULL)",
)
"""Made with the first note: files of earlier versions have none, and earlier versions do not look at them."""


class SqliteStorage:
    """The ledger in one file. Nothing is opened before it is used; the first write begins it, mode 0600.

    Safe to share between threads and processes: every call opens its own connection.

    * `path`: the file.
    * `patience`: how many seconds to wait for another process that is writing.
    * `on_new`: told the path when a new ledger was begun, before anything is written to it.
    * `makes_folder`: make the folder too, for its owner only.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        patience: float = 60.0,
        on_new: Callable[[Path], None] | None = None,
        makes_folder: bool = False,
    ) -> None:
        self.path = Path(path)
        self._patience, self._on_new, self._makes_folder = patience, on_new, makes_folder

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def exists(self) -> bool:
        """Whether anything stands there."""
        try:
            return self.path.exists()
        except OSError as error:
            raise InputError(
                "a path that can be looked at",
                f"{self.path}: {error.strerror}",
                "check the permissions of its folders",
            ) from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[_OpenFile]:
        """One snapshot for all the reads inside."""
        if not self.exists():
            raise InputError(
                "an existing ledger",
                f"no file {self.path}",
                "give the path of a ledger that a release was charged to",
            )
        with _connected(self.path, self._patience) as db:
            db.execute("BEGIN")
            yield _OpenFile(db, self.path)

    @contextlib.contextmanager
    def writing(self) -> Iterator[_OpenFile]:
        """One exclusive transaction, on disk when it ends."""
        if not self.exists():
            if self._makes_folder:
                make_folder(self.path.parent)
            if _begin(self.path) and self._on_new is not None:
                self._on_new(self.path)
        with _connected(self.path, self._patience) as db:
            db.execute("BEGIN IMMEDIATE")
            book = _OpenFile(db, self.path)
            yield book
            checkpoint("ledger-before-commit")
            db.execute("COMMIT")
            checkpoint("ledger-after-commit")
            book.settle()


class _OpenFile:
    """The file inside a transaction."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self._path = db, path
        self._changed: int | None = None

    def format(self) -> object:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def head(self) -> tuple[object, object] | None:
        heads = self._db.execute("SELECT count, hash FROM head").fetchall()
        return heads[0] if len(heads) == 1 else None

    def rows(self, after: int | None = None) -> Sequence[StoredRow]:
        """Lines and hashes as they stand; None for a line or a hash of a length that we never write."""
        return self._db.execute(
            "SELECT sequence, CASE WHEN length(CAST(line AS BLOB)) <= ? THEN line END, "
            "CASE WHEN length(CAST(hash AS BLOB)) = 64 THEN hash END FROM lines "
            f"{'' if after is None else 'WHERE sequence > ? '}ORDER BY sequence",
            (LONGEST_LINE,) if after is None else (LONGEST_LINE, after),
        ).fetchall()

    def faults(self, *, thorough: bool = False) -> list[str]:
        state = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check(5)")] if thorough else ["ok"]
        damage = [] if state == ["ok"] else [f"the file is damaged: {text}" for text in state]
        guards = dict(self._db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
        damage += [f"there is a trigger of somebody else's: {name}" for name in guards if name not in _GUARDS]
        return damage + [
            f"the guard {name} was removed or changed" for name in _GUARDS if guards.get(name) != _GUARDS[name]
        ]

    def remembered(self, key: str) -> str | None:
        try:
            if self._db.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
                return None  # with a write-ahead log the file itself keeps its time when it is changed
            noted = self._db.execute("SELECT changed FROM noted").fetchall()
            if noted != [(self._path.stat().st_mtime_ns,)]:
                return None
            found = self._db.execute("SELECT note FROM notes WHERE name = ?", (key,)).fetchone()
        except (sqlite3.OperationalError, OSError):  # there are no such tables: nothing was ever noted
            return None
        return found[0] if found is not None and isinstance(found[0], str) else None

    def append(self, rows: Sequence[tuple[int, str, str]]) -> None:
        for number, line, digest in rows:
            checkpoint("ledger-before-insert")
            self._db.execute("INSERT INTO lines VALUES (?, ?, ?)", (number, line, digest))
            self._db.execute("UPDATE head SET count = ?, hash = ?", (number, digest))

    def remember(self, notes: Mapping[str, str], *, forget: bool) -> None:
        for statement in _NOTES:
            self._db.execute(statement)
        if forget:
            self._db.execute("DELETE FROM notes")
        self._db.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())
        # Whole microseconds, as coarse as file systems in use keep them; a change of the file in the same one would
        # have to happen in it exactly, since the system's clock counts on in steps of its own.
        self._changed = time.time_ns() // 1000 * 1000
        self._db.execute("INSERT OR REPLACE INTO noted VALUES (1, ?)", (self._changed,))

    def raise_format(self, number: int) -> None:
        self._db.execute(f"PRAGMA user_version = {int(number)}")

    def settle(self) -> None:
        """Give the file the time that was noted. Where that is not allowed, the notes will not be believed."""
        if self._changed is not None:
            with contextlib.suppress(OSError):
                os.utime(self._path, ns=(self._changed, self._changed))


@contextlib.contextmanager
def _connected(path: Path, patience: float) -> Iterator[sqlite3.Connection]:
    """An open connection to a file that is certainly a ledger; whatever was not committed is undone."""
    db = None
    try:
        db = _open(path, patience)
        if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
            raise _not_a_ledger(path)
        yield db
    except UnicodeDecodeError as error:  # SQLite quotes damaged pages in its messages, which then are no text
        raise DamagedLedger("an undamaged ledger", f"{path}", "go back to a whole copy of the file") from error
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


def _begin(path: Path) -> bool:
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


def _not_a_ledger(path: Path) -> InputError:
    return InputError("a ledger", f"{path}, which is some other file", "give the path of a ledger or a new path")


def _explained(error: sqlite3.Error, path: Path, patience: float) -> InputError:
    """Say what SQLite's error means to somebody who has never heard of SQLite."""
    name = getattr(error, "sqlite_errorname", None) or ""
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
        return DamagedLedger("an undamaged ledger", f"{path}: {error}", "go back to a whole copy of the file")
    kind = DamagedLedger if name.startswith("SQLITE_ERROR") else InputError  # a table of ours that is not there
    return kind("a ledger that can be used", f"{path}: {error}", "check the disk and the file")
