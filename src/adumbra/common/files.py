"""Files that are what they seem, and files that are written whole or not at all.

Reading: a folder may come from anybody. A link in it would show another file of the reader's machine, and opening a
pipe would wait for ever, so only regular files are opened.

Writing: everything begins under a hidden name beside its place, `.NAME.adumbra-<16 hexadecimal digits>.partial`, and is
put there in one step at the end. A process that is killed leaves that name behind; it holds a lock as long as it lives,
so whoever next works in the same place can tell that nobody is behind it and removes it. The name must be one that no
other program gives: what only looks alike is somebody else's.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from adumbra.common.errors import InputError

__all__ = [
    "MOST_CARD_BYTES",
    "MOST_SCHEMA_BYTES",
    "claim_folder",
    "hold",
    "irregular",
    "json_document",
    "new_file",
    "open_regular",
    "partial_beside",
    "read_at_most",
    "remove_leftovers",
    "sync",
    "toml_document",
]


_LEFTOVER = re.compile(r"\..+\.adumbra-[0-9a-f]{16}\.partial", re.DOTALL)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def irregular(mode: int) -> str | None:
    """What a file of this mode is, if it is not a regular one."""
    kinds = (
        (stat.S_ISREG, None),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read, if it is a regular one; an OSError that says what it is if not. Never waits."""
    # Looked at before it is opened, since opening a device may do something; and after, since it may have been swapped.
    kind = irregular(path.lstat().st_mode)
    if kind is None:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _CAREFULLY)
        kind = irregular(os.fstat(descriptor).st_mode)
        if kind is None:
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    raise OSError(errno.EINVAL, f"{kind}, not a regular file")


@contextlib.contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write that appears under its name only when all of it is on the disk; on failure nothing is left.

    An existing file is never replaced. `private` ones can be read by their owner alone, others as the umask says.
    """
    made: list[Path] = []
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "exists")
        with _claimed_file(path, 0o600 if private else 0o666, made) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _put(made[-1], path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError("a place to write a new file", f"{path} ({reason})", "choose another name or place") from None
    finally:
        for partial in made:
            with contextlib.suppress(OSError):  # one whose name is too long was never there
                partial.unlink()
    with contextlib.suppress(OSError):  # the file is there; only a power cut now could lose its name
        sync(path.absolute().parent)


def _claimed_file(path: Path, mode: int, made: list[Path]) -> BinaryIO:
    """A new hidden file, locked. Its name is noted before it is made, so that an interrupt finds it."""
    remove_leftovers(path.absolute().parent)
    while True:
        made.append(partial_beside(path))
        descriptor = os.open(made[-1], os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        file = os.fdopen(descriptor, "w+b")
        _wait_for_lock(descriptor)
        if made[-1].exists():
            return file
        file.close()  # another process took it for a leftover in this very moment


def _put(partial: Path, path: Path) -> None:
    """Give the file its name, unless something got there first."""
    try:
        os.link(partial, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "exists") from None
        partial.rename(path)


def partial_beside(path: Path) -> Path:
    """A hidden name beside a place, for what is not finished."""
    return path.with_name(f".{path.name}.adumbra-{secrets.token_hex(8)}.partial")


def claim_folder(folder: Path) -> int | None:
    """Make a temporary folder, after tidying up behind killed processes; returns the lock that says we live."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    for _ in range(3):
        folder.mkdir(exist_ok=True)
        lock = hold(folder)
        if lock is not None and folder.exists():
            return lock
        # Another process took it for a leftover in this very moment, or this file system has no locks.
        if lock is not None:
            os.close(lock)
    folder.mkdir(exist_ok=True)
    return None


def remove_leftovers(parent: Path) -> None:
    """Remove what killed processes of this user left unfinished in a folder: the system let go of their locks."""
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        found = [entry.path for entry in entries if _LEFTOVER.fullmatch(entry.name)]
    for path in found:
        lock = hold(path)
        if lock is None:
            continue
        with contextlib.suppress(OSError):
            seen = os.fstat(lock)
            if seen.st_uid == os.geteuid() and stat.S_ISDIR(seen.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif seen.st_uid == os.geteuid() and stat.S_ISREG(seen.st_mode):
                Path(path).unlink()
        os.close(lock)


def hold(path: str | Path) -> int | None:
    """Hold a file or folder as long as this process lives; None if that cannot be."""
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY | _CAREFULLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _wait_for_lock(descriptor: int) -> None:
    with contextlib.suppress(ImportError, OSError):  # no locks here: then nobody tidies up either
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def sync(path: Path) -> None:
    """See to it that a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Text files that others wrote, read within limits: size, nesting and length of a number are looked at first.
#
# A parser that is handed a hostile text can take gigabytes (a TOML key of 50,000 dots), stop at Python's own limits (a
# number of 5,000 digits) or run out of stack (brackets in brackets). What passes here can do none of that.

MOST_SCHEMA_BYTES = 16 * 2**20
"""Of a schema file; 20,000 columns take about 1 MB."""
MOST_CARD_BYTES = 64 * 2**20
"""Of a card, which holds its schema and more."""
MOST_NESTED = 32
"""Brackets within brackets."""
MOST_PARTS = 16
"""Parts of a dotted key."""
MOST_WORD = 1000
"""Characters of a number or of a key without quotes."""

_TOML = re.compile(
    r'''(?P<text>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')'''
    r"|(?P<skip>\#[^\n]*+|[ \t]++)|(?P<word>[A-Za-z0-9_+-]++)|(?P<dot>\.)|(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<other>.)",
    re.DOTALL,
)
_JSON = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def read_at_most(path: Path, most: int, what: str) -> bytes:
    """The content of the file at `path`, refused above `most` bytes; `what` names it in the refusal.

    An `OSError` is the caller's.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{what} of at most {most // 2**10:,} kB", f"{path}, which is larger", "give a smaller file")
    return content


def toml_document(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Edge cases: a `ValueError` that says what is wrong, and no other exception."""
    text = text.removeprefix("\ufeff")
    _check_toml(text)
    return tomllib.loads(text)


def _check_toml(text: str) -> None:
    """Refuse what makes the parser slow, large or deep; everything else is the parser's to judge."""
    depth = dots = 0
    for token in _TOML.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots >= MOST_PARTS:
                raise ValueError(f"a key of more than {MOST_PARTS} parts ({_line(text, token.start())})")
        elif kind == "open":
            depth, dots = depth + 1, 0
            if depth > MOST_NESTED:
                raise ValueError(f"too many nested brackets ({_line(text, token.start())})")
        elif kind == "close":
            depth, dots = max(depth - 1, 0), 0
        elif kind == "word":
            if token.end() - token.start() > MOST_WORD:
                raise ValueError(
                    f"a number or name of more than {MOST_WORD:,} characters ({_line(text, token.start())})"
                )
        elif kind == "other":
            dots = 0


def _line(text: str, place: int) -> str:
    return f"at line {text.count(chr(10), 0, place) + 1}"


def json_document(content: bytes) -> Any:
    """The value of a JSON text. Edge cases: a `ValueError`, whatever is wrong with it."""
    depth = 0
    for token in _JSON.finditer(content):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth > MOST_NESTED:
                raise ValueError("too many nested brackets")
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return json.loads(content)
