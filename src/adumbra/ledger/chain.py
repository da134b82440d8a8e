"""The chain of lines: walked, found whole or broken, and made longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError, Refused
from adumbra.ledger.lines import GENESIS, Entry, Line, Receipt, Unreadable, chained, read, standing, text_of, unread
from adumbra.ledger.running import Known, RunningTotals, known, known_from_all
from adumbra.ledger.storage import DamagedLedger, OpenLedger, StoredLedger, StoredRow

__all__ = ["Past", "all_read", "broken", "events_of", "senseless", "whole"]


@dataclass(frozen=True)
class Past:
    """An open ledger up to its end, and the running totals of the table that is about to get lines."""

    book: OpenLedger
    table: str
    known: Known

    @staticmethod
    def of(book: OpenLedger, name: str, table: str) -> Past:
        """By the notes of `book`; else from all its lines, which must be whole.

        `name` is what messages call the ledger. An event of `table` that means nothing is an InputError, since no sum
        can be stated then; one of another table is not looked at.
        """
        noted = known(book, table)
        if noted is not None:
            return Past(book, table, noted)
        rows = book.rows()
        lines = whole(book, rows, name)
        past = Past(book, table, known_from_all(rows, lines, table))
        if past.known.walked and past.known.walked.get(table, past.totals) is None:
            events_of(lines, table)  # says which line it is
        return past

    @property
    def totals(self) -> RunningTotals:
        """What the table has come to."""
        return self.known.totals

    def append(self, kind: str, bodies: list[dict[str, Any]]) -> list[Receipt]:
        """Add one line for each body, and note the totals with them."""
        number, digest, rows = self.known.count, self.known.hash, list[tuple[int, str, str]]()
        for body in bodies:
            number += 1
            line = text_of(number, kind, self.table, body)
            digest = chained(digest, line)
            rows.append((number, line, digest))
        self.book.append(rows)
        kept = [tuple(row) for row in self.book.rows(after=self.known.count)]
        if kept != rows or self.book.head() != (number, digest):
            raise DamagedLedger(
                "a ledger that keeps what is written to it",
                "lines that were written and are not there",
                "look at its storage (a trigger, a full or read-only copy); nothing was charged",
            )
        self.book.remember(self.known.notes(self.table, rows), forget=self.known.walked is not None)
        return [Receipt(number, digest) for number, _, digest in rows]


def about(line: Line, table: str) -> TypeGuard[Entry]:
    """Whether a line is about this table."""
    return isinstance(line, Entry) and line.table == table


def events_of(lines: list[Line], table: str) -> list[Event]:
    """What was done to a table, in order."""
    found = [line.event for line in lines if about(line, table)]
    return [event for event in found if event is not None]


def whole(book: StoredLedger, rows: Sequence[StoredRow], name: str, but: int | None = None) -> list[Line]:
    """All lines (`rows` of `book`, called `name`), or Refused when the chain is broken: it takes no more charges.

    A line that cannot be read may be about any table, so it stops everything, unless it is a cap that was withdrawn
    or is line `but`, which is about to be.
    """
    problems = broken(book, rows) + book.faults()
    if problems:
        raise Refused(
            "a ledger that passes its own check",
            f"{name}: {problems[0]}",
            "nothing was charged; find out who changed it and go back to a whole copy",
        )
    lines = [read(*row) for row in rows]
    all_read(lines, name, but)
    return lines


def broken(book: StoredLedger, rows: Sequence[StoredRow]) -> list[str]:
    """Walk the chain and compare it with the head: what was changed, one sentence each."""
    problems = []
    previous = GENESIS
    for place, (sequence, line, digest) in enumerate(rows, start=1):
        if sequence != place:
            problems.append(f"line {place} is missing or moved: another number stands in its place")
            break  # everything after is out of step as well
        if not isinstance(line, str) or chained(previous, line) != digest:
            problems.append(f"line {sequence} was changed: its hash does not follow from the line before")
        previous = str(digest)
    if book.head() != (len(rows), rows[-1][2] if rows else GENESIS):
        problems.append(f"the end was changed: {len(rows)} lines do not agree with the head of the ledger")
    return problems


def all_read(lines: list[Line], name: str, but: int | None = None) -> None:
    """Refused where any of `lines` cannot be read, but for line `but`; `name` is that of the ledger."""
    for bad in unread(lines):
        if bad.sequence != but:
            raise Refused("a ledger whose lines can be read", f"{name}: {_cannot_read(bad)}", _remedy(bad))


def _cannot_read(bad: Unreadable) -> str:
    return f"line {bad.sequence} cannot be read: {bad.why}"


def _remedy(bad: Unreadable) -> str:
    if bad.is_cap:
        return f"withdraw that cap with `adumbra ledger cap NAME --remove --line {bad.sequence}` and set it anew"
    return "nothing was charged; use a newer adumbra if that wrote it, else go back to a whole copy"


def senseless(lines: list[Line]) -> list[str]:
    """Lines that follow in the chain and mean nothing: unreadable ones, events and standing caps without sense."""
    problems = [f"{_cannot_read(bad)} ({_remedy(bad)})" for bad in unread(lines)]
    for entry in (line for line in lines if isinstance(line, Entry) and line.kind == "charge"):
        try:
            _ = entry.event
        except InputError as error:
            problems.append(f"line {entry.sequence} holds no event this version knows ({error.remedy})")
    for entry in standing(lines):
        try:
            _ = entry.cap
        except InputError as error:
            problems.append(f"line {entry.sequence} holds a cap that means nothing ({error.remedy})")
    return problems
