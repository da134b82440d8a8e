"""Lines of a ledger: what one says, and whether it can be read at all.

Three kinds: a charge, a cap, and the withdrawal of a cap. A line is kept as canonical JSON and hashed together with
the hash of the line before. What stands in a file may have been written by anybody, so nothing here trusts a line:
one that adumbra cannot have written is `Unreadable`, with the reason.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from typing import Any, Literal

from adumbra.accounting.accountant import check_event
from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import between, positive
from adumbra.declare.guarantee import Neighbours

__all__ = [
    "GENESIS",
    "LONGEST_LINE",
    "Cap",
    "Entry",
    "Line",
    "Receipt",
    "Unreadable",
    "chained",
    "read",
    "standing",
    "text_of",
    "unread",
]

GENESIS = "0" * 64
"""The hash before the first line."""

LONGEST_LINE = 1 << 20
"""Bytes. A line of ours has a few hundred; a longer one is not looked at."""

_KINDS = ("charge", "cap", "withdrawal")
_DAMAGE = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading JSON of unknown making can raise."""


@dataclass(frozen=True)
class Receipt:
    """Proof that a line was written: its number and the hash of the ledger up to and including it."""

    sequence: int
    hash: str


@dataclass(frozen=True)
class Cap:
    """The most that may be spent on a table, for one unit and relation."""

    neighbours: Neighbours
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `body` holds what is particular to its kind."""

    sequence: int
    kind: Literal["charge", "cap", "withdrawal"]
    table: str
    time: str
    version: str
    body: dict[str, Any]
    hash: str

    @property
    def event(self) -> Event | None:
        """What was done, for a charge; None for another line.

        Lines of earlier versions hold a bound for add-remove also where the release published the number of rows. The
        line stays as it is, or its hash would not follow; the bound does not count.
        """
        if self.kind != "charge":
            return None
        try:
            promised = Neighbours.parse(self.body["promise"]["neighbours"])
            event = Event.from_json(self.body["event"]).within(promised)
            check_event(event)
        except (*_DAMAGE, InputError) as error:
            raise InputError(
                "an event this version knows",
                f"line {self.sequence} written by version {self.version}",
                "use that version or a newer one",
            ) from error
        return event

    @property
    def cap(self) -> Cap | None:
        """The limit that was set, for a cap; None for another line."""
        if self.kind != "cap":
            return None
        try:
            neighbours = Neighbours.parse(self.body["neighbours"])
            epsilon = positive(epsilon=self.body["epsilon"])
            delta = between(0.0, 1.0, "", delta=self.body["delta"])
        except (*_DAMAGE, InputError) as error:
            raise InputError(
                f"a cap of table {self.table!r} that means something",
                f"line {self.sequence}, which has no unit and relation, epsilon or delta that can be read",
                f"withdraw it with `adumbra ledger cap NAME --remove --line {self.sequence}` and set it anew",
            ) from error
        return Cap(neighbours, float(epsilon), float(delta))


@dataclass(frozen=True)
class Unreadable:
    """A line that adumbra cannot have written, and why. A cap among them can be withdrawn by its number."""

    sequence: int
    why: str
    is_cap: bool = False


Line = Entry | Unreadable


def text_of(sequence: int, kind: str, table: str, body: dict[str, Any]) -> str:
    """A new line as it is kept and hashed: its number `sequence`, its `kind` and `table`, and what is in its `body`."""
    whole = {
        "sequence": sequence,
        "kind": kind,
        "table": table,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "version": importlib.metadata.version("adumbra"),
        **body,
    }
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)


def chained(previous: str, line: str) -> str:
    """Hash of a line and of all before it; bytes that are no UTF-8 count as they are."""
    return hashlib.sha256((previous + line).encode("utf-8", "surrogateescape")).hexdigest()


def read(sequence: object, line: object, digest: object) -> Line:
    """What a stored `line` of number `sequence` and hash `digest` says, or why it cannot be read."""
    number = sequence if isinstance(sequence, int) else 0
    if line is None:
        return Unreadable(number, "it is empty or far too long")
    try:
        body = json.loads(line) if isinstance(line, str) else None
    except _DAMAGE:
        body = None
    is_cap = isinstance(body, dict) and body.get("kind") == "cap"
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()  # else it could not be shown
    except _DAMAGE:
        return Unreadable(number, "it holds what is no number or no text in UTF-8", is_cap)
    if not isinstance(body, dict):
        return Unreadable(number, "it is no JSON object")
    inside, common = body.pop("sequence", None), {key: body.pop(key, None) for key in ("kind", *_TEXTS)}
    if inside != sequence or isinstance(inside, bool):
        return Unreadable(number, "it holds another number than its own", is_cap)
    if common["kind"] not in _KINDS:
        return Unreadable(number, "its kind is unknown to this version")
    for key in _TEXTS:
        if not isinstance(common[key], str):
            return Unreadable(number, f"its {key} is no text", is_cap)
    missing = _missing(common["kind"], number, body)
    if missing is not None:
        return Unreadable(number, missing)
    return Entry(sequence=number, **common, body=body, hash=str(digest))


_TEXTS = ("table", "time", "version")


def _missing(kind: str, sequence: int, body: dict[str, Any]) -> str | None:
    """What a line of this kind must have and this one has not. A cap says it itself, so that it can be withdrawn."""
    if kind == "withdrawal":
        target = body.get("withdraws")
        sound = isinstance(target, int) and not isinstance(target, bool) and 0 < target < sequence
        return None if sound else "it does not say which line it withdraws"
    if kind == "charge":
        for key in ("release_id", "mechanism", "line"):
            if not isinstance(body.get(key), str):
                return f"its {key} is no text"
        for key in ("promise", "event"):
            if not isinstance(body.get(key), dict):
                return f"its {key} is missing"
    return None


def standing(lines: list[Line], table: str | None = None) -> list[Entry]:
    """The caps in force, of one table or of all: the newest for each unit and relation, unless it was withdrawn."""
    found: dict[tuple[str, str], Entry] = {}
    for line in lines:
        if not isinstance(line, Entry) or table not in (None, line.table):
            continue
        if line.kind == "cap":
            found[line.table, repr(line.body.get("neighbours"))] = line
        elif line.kind == "withdrawal":
            found = {key: cap for key, cap in found.items() if cap.sequence != line.body["withdraws"]}
    return list(found.values())


def unread(lines: list[Line]) -> list[Unreadable]:
    """Lines that cannot be read, but for caps that were withdrawn since."""
    gone = {line.body["withdraws"] for line in lines if isinstance(line, Entry) and line.kind == "withdrawal"}
    return [line for line in lines if isinstance(line, Unreadable) and not (line.is_cap and line.sequence in gone)]
