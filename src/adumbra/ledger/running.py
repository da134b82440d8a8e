"""Running totals: what a charge must know of the lines before it, noted beside them.

A note is derived from the lines and stands for nothing by itself: it is believed only if the storage says that nothing
else was changed, if it agrees with the head, if its own hash is right and if this version of adumbra wrote it (another
may count otherwise). In all other cases the lines are read and counted. `differences` compares notes with a count.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adumbra.accounting.events import Composition
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours
from adumbra.ledger.lines import GENESIS, Cap, Entry, Line, chained, read, standing
from adumbra.ledger.storage import StoredLedger, StoredRow

__all__ = ["Known", "RunningTotals", "differences", "known", "known_from_all"]

_CHAIN = "chain"
_Parsed = tuple[StoredRow, Line]
"""A line as it is stored and what it says, so that no line need be parsed twice."""
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, ZeroDivisionError)


@dataclass(frozen=True)
class RunningTotals:
    """The caps in force of one table, as they are stored, and what all its events add up to."""

    caps: tuple[StoredRow, ...] = ()
    spent: dict[str, Composition] = field(default_factory=lambda: {str(n): Composition() for n in Neighbours.every()})

    def limits(self) -> list[Cap]:
        """The caps; one that means nothing is an InputError."""
        entries = [line for row in self.caps if isinstance(line := read(*row), Entry)]
        return [cap for entry in entries if (cap := entry.cap) is not None]

    def plus(self, added: Iterable[_Parsed]) -> RunningTotals:
        """With the lines `added` to the same table too; an event that means nothing is an InputError."""
        stored = {row[0]: (row, line) for row, line in (*_parsed(self.caps), *added)}
        lines = [line for _, line in stored.values()]
        events = [event for line in lines if isinstance(line, Entry) and (event := line.event) is not None]
        spent = {str(n): self.spent[str(n)].plus(events, n) for n in Neighbours.every()}
        return RunningTotals(tuple(stored[cap.sequence][0] for cap in standing(lines)), spent)

    def note(self, table: str) -> str:
        """As text, with a hash."""
        spent = {name: total.to_json() for name, total in self.spent.items()}
        return _sealed(table, {"caps": self.caps, "spent": spent})

    @staticmethod
    def of_note(table: str, note: str | None) -> RunningTotals | None:
        """Read back; None for a note that is not one."""
        found = _opened(table, note)
        try:
            caps = tuple((number, line, digest) for number, line, digest in found["caps"])
            spent = {str(n): Composition.from_json(found["spent"][str(n)]) for n in Neighbours.every()}
        except _UNREADABLE:
            return None
        return RunningTotals(caps, spent)


@dataclass(frozen=True)
class Known:
    """Where a ledger ends, which tables have a line, and the running totals of the one that is asked about.

    `walked` has the totals of every table where all lines were read, None for a table with an event that means
    nothing; it is itself None where the notes were believed.
    """

    count: int
    hash: str
    tables: frozenset[str]
    totals: RunningTotals
    walked: Mapping[str, RunningTotals | None] | None = None

    def notes(self, table: str, rows: Sequence[StoredRow]) -> dict[str, str]:
        """The notes that change when `rows`, lines of `table`, are added at the end: all, where all lines were read."""
        count, _, digest = rows[-1]
        after = {**(self.walked or {}), table: self.totals.plus(_parsed(rows))}
        if self.walked is not None and self.walked.get(table, self.totals) is None:
            after[table] = None
        # a table without totals has a note that cannot be read, so that its lines are read instead
        notes = {_key(name): "" if totals is None else totals.note(name) for name, totals in after.items()}
        return notes | {_CHAIN: _end(count, digest, self.tables | {table})}


def known(book: StoredLedger, table: str) -> Known | None:
    """What the notes of `book` say of a table; None where they cannot be believed, and all lines must be read."""
    if book.faults():
        return None
    found = _opened(_CHAIN, book.remembered(_CHAIN))
    try:
        count, digest, tables = int(found["count"]), str(found["hash"]), frozenset(map(str, found["tables"]))
    except _UNREADABLE:
        return None
    if count < 1 or book.head() != (count, digest) or not _ends(book, count, digest):
        return None
    # a table that is not among them has no line, so it has no note
    totals = RunningTotals.of_note(table, book.remembered(_key(table))) if table in tables else RunningTotals()
    return None if totals is None else Known(count, digest, tables, totals)


def _ends(book: StoredLedger, count: int, digest: str) -> bool:
    """Whether the last line is that of the head, and follows from the one before."""
    first = max(count - 1, 1)
    last = book.rows(after=first - 1)
    if [number for number, _, _ in last] != list(range(first, count + 1)):
        return False
    before = GENESIS if count == 1 else str(last[0][2])
    return last[-1][2] == digest == chained(before, str(last[-1][1]))


def known_from_all(rows: Sequence[StoredRow], lines: Sequence[Line], table: str) -> Known:
    """What all `rows` of a ledger say of `table`, without a note; `lines` are the same rows, parsed.

    Totals of a table with an event that means nothing count as none: `walked` says so.
    """
    tables = _counted(rows, lines)
    digest = str(rows[-1][2]) if rows else GENESIS
    return Known(len(rows), digest, frozenset(tables), tables.get(table) or RunningTotals(), tables)


def _counted(rows: Sequence[StoredRow], lines: Sequence[Line]) -> dict[str, RunningTotals | None]:
    """Running totals of every table, each line parsed once; None for a table with an event that means nothing."""
    tables: dict[str, list[_Parsed]] = {}
    for row, line in zip(rows, lines, strict=True):
        if isinstance(line, Entry):
            tables.setdefault(line.table, []).append((row, line))
    return {table: _totals(found) for table, found in tables.items()}


def _totals(found: list[_Parsed]) -> RunningTotals | None:
    try:
        return RunningTotals().plus(found)
    except InputError:
        return None


def _parsed(rows: Iterable[StoredRow]) -> list[_Parsed]:
    return [(row, read(*row)) for row in rows]


def differences(book: StoredLedger, rows: Sequence[StoredRow], lines: Sequence[Line]) -> list[str]:
    """Notes of `book` that would be believed and do not follow from its `rows`, parsed in `lines`: a sentence each."""
    return [
        f"the running totals of table {table!r} do not follow from its lines"
        for table, totals in _counted(rows, lines).items()
        if (noted := known(book, table)) is not None and noted.totals != totals
    ]


def _key(table: str) -> str:
    return f"table {json.dumps(table)}"


def _end(count: object, digest: object, tables: Iterable[str]) -> str:
    return _sealed(_CHAIN, {"count": count, "hash": digest, "tables": sorted(tables)})


def _sealed(key: str, what: object) -> str:
    text = json.dumps({"version": importlib.metadata.version("adumbra"), "what": what}, sort_keys=True)
    return hashlib.sha256((key + text).encode()).hexdigest() + text


def _opened(key: str, note: str | None) -> Any:
    """What was sealed; None for a note that was damaged, moved or written by another version."""
    if note is None or hashlib.sha256((key + note[64:]).encode("utf-8", "surrogateescape")).hexdigest() != note[:64]:
        return None
    found = json.loads(note[64:])
    return found["what"] if found["version"] == importlib.metadata.version("adumbra") else None
