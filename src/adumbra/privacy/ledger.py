"""What has been spent on a table: an append-only file that charges are written to before any noise is drawn.

One SQLite file. Each line holds its own number and the hash of everything before it, so an edited, removed or
moved line is found. A charge and the check against the caps happen in one exclusive transaction: two processes
cannot both spend the last of a budget, and a process that dies leaves a charge wholly there or wholly absent.

What the chain cannot show by itself: a file put back from an older copy, or rewritten from end to end by somebody
who recomputes every hash. The hash of a charge stands on the card of its release; `check(expect=...)` asks whether
that line is still there, and pins the ledger up to it.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adumbra.core.checkpoint import checkpoint
from adumbra.core.errors import AdumbraError, InputError, Refused
from adumbra.core.events import Event
from adumbra.core.guarantee import Neighbours, Promise
from adumbra.core.validation import at_least, between, positive, written
from adumbra.privacy import ledger_file as file
from adumbra.privacy import ledger_place as place
from adumbra.privacy.accounting import check_event, epsilon_of
from adumbra.privacy.ledger_lines import Cap, Entry, Line, Receipt, Unreadable, standing

__all__ = ["Cap", "Entry", "Ledger", "Receipt", "Report", "Unreadable"]

_FLOAT_DUST = 1e-9  # a cap of 1 admits 1.000000001: float64 rounding must not refuse a budget spent exactly
_NAME_IT = "give the table's name as `adumbra ledger show` prints it"


@dataclass(frozen=True)
class Report:
    """All that stands in a ledger, and what is wrong with it: nothing, if it may be trusted."""

    lines: list[Line]
    problems: list[str]

    @property
    def entries(self) -> list[Entry]:
        """The lines that can be read."""
        return [line for line in self.lines if isinstance(line, Entry)]


class Ledger:
    """The ledger in one file. Nothing is opened before it is used; the first write begins it, mode 0600.

    Safe to share between threads and processes: every call opens its own connection. `patience` is how many
    seconds to wait for another process that is writing. `on_new` is told the path when a new ledger was begun,
    before anything is written to it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        patience: float = 60.0,
        on_new: Callable[[Path], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.patience = patience
        self.on_new = on_new
        self._makes_folder = False

    @classmethod
    def default(cls, *, patience: float = 60.0, on_new: Callable[[Path], None] | None = None) -> Ledger:
        """The ledger of this user: the file in $ADUMBRA_LEDGER, else one in the state directory of the system.

        The same wherever it is called. Refused where an `adumbra-ledger.db` stands in the current folder, the
        default of earlier versions: what was spent there must not be forgotten.
        """
        named = place.from_environment()
        ledger = cls(named or place.of_the_user(), patience=patience, on_new=on_new)
        ledger._makes_folder = named is None
        return ledger

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
        events = {line: event.within(promise.neighbours) for line, event in events.items()}
        written("name the table", table=table)
        written("give the release an id", release_id=release_id)
        written("name the mechanism", mechanism=mechanism)
        at_least(1, "charge at least one event", events=len(events))
        for line, event in events.items():
            written("name each line of the release", line=line)
            check_event(event)
        stated = {
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "neighbours": str(promise.neighbours),
        }
        with self._writing() as db:
            past = _whole(db, self.path)
            spent = _events(past, table)
            for cap in standing(past, table):
                _check_cap(cap, table, spent, list(events.values()))
            return [
                file.append(
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

    def set_cap(self, table: str, neighbours: Neighbours | str, epsilon: float, delta: float) -> Receipt:
        """Declare the most that may ever be spent on a table; replaces an earlier cap for these neighbours.

        A cap below what is already spent is accepted and stops every further charge. Where no cap could admit more,
        because the past has no finite cost for these neighbours, a warning says so.
        """
        written(_NAME_IT, table=table)
        kind = Neighbours.of(neighbours)
        positive("give a positive finite epsilon, for example 1.0", epsilon=epsilon)
        between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
        body = {"neighbours": str(kind), "epsilon": float(epsilon), "delta": float(delta), "salt": secrets.token_hex(8)}
        with self._writing() as db:
            spent = epsilon_of(_events(_whole(db, self.path), table), kind, float(delta))
            receipt = file.append(db, "cap", table, body)
        if math.isinf(spent):
            warnings.warn(
                f"what was already released of {table} has no finite cost for {kind} at delta {delta:g}: nothing "
                "more can be charged under this cap",
                stacklevel=2,
            )
        return receipt

    def remove_cap(self, table: str, neighbours: Neighbours | str | None = None, *, line: int | None = None) -> Receipt:
        """Withdraw the cap of a table for these neighbours, or the one of that line, which may be unreadable.

        The withdrawal is a line like any other: the cap stays in the record. Raises Refused if no such cap stands.
        """
        written(_NAME_IT, table=table)
        if (neighbours is None) == (line is None):
            raise InputError("neighbours or a line", "both or neither", "say which cap is to go in one way")
        kind = None if neighbours is None else str(Neighbours.of(neighbours))
        number = None if line is None else at_least(1, "give the number that `ledger show` prints", line=line)
        if not file.exists(self.path):
            raise _no_file(self.path)
        with self._writing() as db:
            lines = _whole(db, self.path, but=number)
            caps = {cap.sequence: cap.body.get("neighbours") for cap in standing(lines, table)}
            nameless = {bad.sequence for bad in file.unread(lines) if bad.is_cap}
            if number is None:
                gone = [n for n, what in caps.items() if what == kind]
            else:
                gone = [n for n in (*caps, *nameless) if n == number]
            if not gone:
                stand = ", ".join(f"{what} (line {n})" for n, what in caps.items()) or "none"
                wanted = f"for {kind}" if number is None else f"in line {number}"
                raise Refused(
                    f"a cap of table {table!r} {wanted} that stands",
                    f"caps that stand: {stand}",
                    "nothing was changed; see `adumbra ledger show`",
                )
            file.raise_format(db)
            return file.append(db, "withdrawal", table, {"withdraws": gone[0], "salt": secrets.token_hex(8)})

    def caps(self, table: str) -> list[Cap]:
        """The caps in force for a table."""
        with self._reading() as db:
            found = standing(_whole(db, self.path), written(_NAME_IT, table=table))
        return [cap for entry in found if (cap := entry.cap) is not None]

    def entries(self, table: str | None = None) -> list[Entry]:
        """Every line in order, or those of one table; the chain is not looked at."""
        with self._reading() as db:
            lines = file.lines_of(db)
        _all_read(lines, self.path)
        return [line for line in lines if isinstance(line, Entry) and table in (None, line.table)]

    def may_hold(self, release_id: str, error: BaseException) -> bool:
        """Whether a release was charged, or may have been, when `charge` ended with this error.

        An answer of no came before anything was written. After others the ledger is asked; if it cannot be, a charge
        counts as made, unless the error said itself that this is no ledger to write to.
        """
        if isinstance(error, Refused):
            return False
        try:
            if not file.exists(self.path):
                return False
            return any(entry.body.get("release_id") == release_id for entry in self.entries())
        except AdumbraError:
            return not isinstance(error, InputError)

    def tables(self) -> list[str]:
        """Names of all tables with a line, sorted."""
        return sorted({entry.table for entry in self.entries()})

    def events(self, table: str) -> list[Event]:
        """What was done to a table, in order. Refused when the chain is broken: something may be missing."""
        written(_NAME_IT, table=table)
        with self._reading() as db:
            return _events(_whole(db, self.path), table)

    def spent(self, table: str, neighbours: Neighbours | str, delta: float) -> float:
        """Epsilon of all events of a table together; 0.0 for a table without charges."""
        kind = Neighbours.of(neighbours)
        between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
        return epsilon_of(self.events(table), kind, float(delta))

    def check(self, *, expect: Iterable[str] = ()) -> list[str]:
        """What is wrong with the ledger, one sentence each; empty when it is whole.

        `expect` are hashes kept elsewhere, on cards of releases: each must be that of a line.
        """
        wanted = [_hash(text) for text in ([expect] if isinstance(expect, str) else expect)]
        found = self.report()
        held = {entry.hash for entry in found.entries}
        return found.problems + [f"no line has the hash {text}" for text in wanted if text not in held]

    def report(self) -> Report:
        """Everything that stands in the ledger, as far as it can be read, and all that is wrong with it."""
        try:
            with self._reading() as db:
                state = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
                problems = [] if state == ["ok"] else [f"the file is damaged: {text}" for text in state]
                lines = file.lines_of(db)
                return Report(lines, problems + (file.broken(db) or _senseless(lines)))
        except InputError as error:
            found = file.damage(error)
            if found is None:
                raise
            return Report([], [found])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not file.exists(self.path):
            raise _no_file(self.path)
        with file.connected(self.path, self.patience) as db:
            db.execute("BEGIN")  # one snapshot for all the reads of a call
            yield db

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not file.exists(self.path):
            if self._makes_folder:
                place.make_folder(self.path.parent)
            if file.begin(self.path) and self.on_new is not None:
                self.on_new(self.path)
        with file.connected(self.path, self.patience) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            checkpoint("ledger-before-commit")
            db.execute("COMMIT")
        checkpoint("ledger-after-commit")


def _no_file(path: Path) -> InputError:
    return InputError(
        "an existing ledger", f"no file {path}", "give the path of a ledger that a release was charged to"
    )


def _hash(text: str) -> str:
    if not (isinstance(text, str) and re.fullmatch(r"[0-9a-fA-F]{64}", text.strip())):
        raise InputError("a hash of 64 hexadecimal digits", f"{text!r}"[:80], "copy ledger_head from the card")
    return text.strip().lower()


def _events(lines: list[Line], table: str) -> list[Event]:
    found = [line.event for line in lines if isinstance(line, Entry) and line.table == table]
    return [event for event in found if event is not None]


def _whole(db: sqlite3.Connection, path: Path, but: int | None = None) -> list[Line]:
    """All lines, or Refused when the chain is broken: a tampered ledger takes no more charges.

    A line that cannot be read may be about any table, so it stops everything, unless it is a cap that was withdrawn
    or is line `but`, which is about to be.
    """
    problems = file.broken(db)
    if problems:
        raise Refused(
            "a ledger that passes its own check",
            f"{path}: {problems[0]}",
            "nothing was charged; find out who changed it and go back to a whole copy",
        )
    lines = file.lines_of(db)
    _all_read(lines, path, but)
    return lines


def _all_read(lines: list[Line], path: Path, but: int | None = None) -> None:
    for bad in file.unread(lines):
        if bad.sequence != but:
            raise Refused("a ledger whose lines can be read", f"{path}: {_cannot_read(bad)}", _remedy(bad))


def _cannot_read(bad: Unreadable) -> str:
    return f"line {bad.sequence} cannot be read: {bad.why}"


def _remedy(bad: Unreadable) -> str:
    if bad.is_cap:
        return f"withdraw that cap with `adumbra ledger cap NAME --remove --line {bad.sequence}` and set it anew"
    return "nothing was charged; use a newer adumbra if that wrote it, else go back to a whole copy"


def _senseless(lines: list[Line]) -> list[str]:
    """Lines that follow in the chain and mean nothing: unreadable ones, events and standing caps without sense."""
    problems = [f"{_cannot_read(bad)} ({_remedy(bad)})" for bad in file.unread(lines)]
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


def _check_cap(cap: Entry, table: str, spent: list[Event], asked: list[Event]) -> None:
    """Refuse when what is spent and what is asked for together cost more than the cap."""
    limit = cap.cap
    if limit is None:
        raise RuntimeError("a line that is no cap was taken for one")
    total = epsilon_of([*spent, *asked], limit.neighbours, limit.delta)
    if total <= limit.epsilon * (1.0 + _FLOAT_DUST):
        return
    before = epsilon_of(spent, limit.neighbours, limit.delta)
    options = f"--unit {limit.neighbours.unit.value} --relation {limit.neighbours.relation.value}"
    withdraw = f"withdraw the cap (adumbra ledger cap NAME --remove {options}) if that is yours to decide"
    if math.isinf(before):  # neither a smaller release nor a larger cap would help
        got = f"what is already spent has no finite epsilon there ({limit.neighbours})"
        remedy = f"nothing was charged, and nothing can be under this cap; {withdraw}"
        remedy += "; one at a delta above 0 may hold" * (limit.delta == 0)
    elif math.isinf(total):
        got = f"no finite epsilon with this release ({before:.6g} is already spent)"
        options += " --delta 0" * (limit.delta == 0)  # which noise of any other promise does not keep
        remedy = f"nothing was charged; release with a promise for those neighbours ({options}), or {withdraw}"
    else:
        got = f"epsilon {total:.6g} with this release ({before:.6g} is already spent)"
        remedy = "nothing was charged; ask for less, or raise the cap if that is yours to decide"
    raise Refused(
        f"at most epsilon {limit.epsilon:g} at delta {limit.delta:g} ({limit.neighbours}) for table {table!r}",
        got,
        remedy,
    )
