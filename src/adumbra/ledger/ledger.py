"""What has been spent on a table: an append-only record that charges are written to before any noise is drawn.

Here is what lines mean; where they are kept is a storage's business (`ledger/storage.py`; a SQLite file unless another
is given). Each line holds its own number and the hash of everything before it, so an edited, removed or moved line is
found. A charge and the check against the caps happen in one exclusive transaction: two processes cannot both spend the
last of a budget, and a process that dies leaves a charge wholly there or wholly absent.

A charge needs of the past the caps in force and the sums that its events come to. Both are noted beside the lines
(`ledger/running.py`), so that a charge need not read them all; where the notes cannot be believed, it does.

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
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adumbra.accounting.accountant import at_most, check_event, epsilon_of, epsilon_of_all
from adumbra.accounting.events import Composition, Event
from adumbra.common.errors import AdumbraError, InputError, Refused
from adumbra.common.validation import at_least, between, positive, written
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.chain import Past, all_read, broken, events_of, senseless, whole
from adumbra.ledger.lines import Cap, Entry, Line, Receipt, Unreadable, read, standing, unread
from adumbra.ledger.running import differences, known_from_all
from adumbra.ledger.sqlite import SqliteStorage, from_environment, of_the_user
from adumbra.ledger.storage import DamagedLedger, LedgerStorage, OpenLedger, StoredLedger

__all__ = ["Cap", "Entry", "Ledger", "LedgerReport", "Receipt", "Unreadable"]

_FORMATS = (1, 2)
_FLOAT_DUST = 1e-9  # a cap of 1 admits 1.000000001: float64 rounding must not refuse a budget spent exactly
_NAME_IT = "give the table's name as `adumbra ledger show` prints it"


@dataclass(frozen=True)
class LedgerReport:
    """All that stands in a ledger, and what is wrong with it: nothing, if it may be trusted."""

    lines: list[Line]
    problems: list[str]

    @property
    def entries(self) -> list[Entry]:
        """The lines that can be read."""
        return [line for line in self.lines if isinstance(line, Entry)]


class Ledger:
    """The ledger in a file, `Ledger(path)`, or in any other storage, `Ledger(storage)`.

    Safe to share between threads and processes as far as its storage is; a file is. Of a file: `patience` is how many
    seconds to wait for another process that is writing; `on_new` is told the path when a new ledger was begun, before
    anything is written to it. Nothing is opened before it is used.
    """

    def __init__(
        self,
        storage: LedgerStorage | str | os.PathLike[str],
        *,
        patience: float = 60.0,
        on_new: Callable[[Path], None] | None = None,
    ) -> None:
        if isinstance(storage, str | os.PathLike):
            storage = SqliteStorage(storage, patience=patience, on_new=on_new)
        elif not isinstance(storage, LedgerStorage):
            raise InputError("a path or a storage for the ledger", f"a {type(storage).__name__}", "give Ledger(path)")
        self.storage = storage

    @classmethod
    def default(cls, *, patience: float = 60.0, on_new: Callable[[Path], None] | None = None) -> Ledger:
        """The ledger of this user: the file in $ADUMBRA_LEDGER, else one in the state directory of the system.

        The same wherever it is called. Refused where an `adumbra-ledger.db` stands in the current folder, the
        default of earlier versions: what was spent there must not be forgotten.
        """
        named = from_environment()
        path = named or of_the_user()
        return cls(SqliteStorage(path, patience=patience, on_new=on_new, makes_folder=named is None))

    @property
    def name(self) -> str:
        """What to call it in messages: the path of a file."""
        return self.storage.name

    @property
    def path(self) -> Path:
        """The file of a ledger that is one."""
        if not isinstance(self.storage, SqliteStorage):
            raise InputError("a ledger in a file", self.name, "ask for its name instead")
        return self.storage.path

    def exists(self) -> bool:
        """Whether it was begun."""
        return self.storage.exists()

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def charge(
        self, *, table: str, release_id: str, mechanism: str, promise: Promise, events: Mapping[str, Event]
    ) -> list[Receipt]:
        """Write the charges of all lines of a release durably and together, or raise and write nothing.

        `table` is the name that the charges are added up under; `release_id` and `mechanism` say what was released and
        how; `promise` is what its card states; `events` has one event per line of the release, by the line's name.

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
        bodies = [
            {
                "release_id": release_id,
                "mechanism": mechanism,
                "line": line,
                "promise": stated,
                "event": event.to_json(),
            }
            for line, event in events.items()
        ]
        with self._writing() as book:
            past = Past.of(book, self.name, table)
            for cap in past.totals.limits():
                _check_cap(cap, table, past.totals.spent[str(cap.neighbours)], list(events.values()))
            return past.append("charge", bodies)

    def set_cap(self, table: str, neighbours: Neighbours | str, epsilon: float, delta: float) -> Receipt:
        """Declare the most that may ever be spent on `table`; replaces an earlier cap for these `neighbours`.

        All charges together may cost `epsilon` > 0 at this `delta`, from 0 (pure) to below 1.
        A cap below what is already spent is accepted and stops every further charge. Where no cap could admit more,
        because the past has no finite cost for these neighbours, a warning says so.
        """
        written(_NAME_IT, table=table)
        kind = Neighbours.of(neighbours)
        positive("give a positive finite epsilon, for example 1.0", epsilon=epsilon)
        between(0.0, 1.0, "give a delta below 1, for example 1e-6", delta=delta)
        body = {"neighbours": str(kind), "epsilon": float(epsilon), "delta": float(delta), "salt": secrets.token_hex(8)}
        with self._writing() as book:
            past = Past.of(book, self.name, table)
            spent = epsilon_of_all(past.totals.spent[str(kind)], float(delta))
            (receipt,) = past.append("cap", [body])
        if math.isinf(spent):
            warnings.warn(
                f"what was already released of {table} has no finite cost for {kind} at delta {delta:g}: nothing "
                "more can be charged under this cap",
                stacklevel=2,
            )
        return receipt

    def remove_cap(self, table: str, neighbours: Neighbours | str | None = None, *, line: int | None = None) -> Receipt:
        """Withdraw the cap of `table` for these `neighbours`, or the one of `line`, which may be unreadable.

        Exactly one of `neighbours` and `line`, a number that `ledger show` prints, is given; the other is None.
        The withdrawal is a line like any other: the cap stays in the record. Raises Refused if no such cap stands.
        """
        written(_NAME_IT, table=table)
        if (neighbours is None) == (line is None):
            raise InputError("neighbours or a line", "both or neither", "say which cap is to go in one way")
        kind = None if neighbours is None else str(Neighbours.of(neighbours))
        number = None if line is None else at_least(1, "give the number that `ledger show` prints", line=line)
        with self._reading():
            pass  # a ledger that is not there is not begun for this
        with self._writing() as book:
            rows = book.rows()
            lines = whole(book, rows, self.name, but=number)
            caps = {cap.sequence: cap.body.get("neighbours") for cap in standing(lines, table)}
            nameless = {bad.sequence for bad in unread(lines) if bad.is_cap}
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
            book.raise_format(_FORMATS[-1])
            body = {"withdraws": gone[0], "salt": secrets.token_hex(8)}
            (receipt,) = Past(book, table, known_from_all(rows, lines, table)).append("withdrawal", [body])
            return receipt

    def caps(self, table: str) -> list[Cap]:
        """The caps in force for a table."""
        with self._reading() as book:
            found = standing(whole(book, book.rows(), self.name), written(_NAME_IT, table=table))
        return [cap for entry in found if (cap := entry.cap) is not None]

    def entries(self, table: str | None = None) -> list[Entry]:
        """Every line in order, or those of one table; the chain is not looked at."""
        with self._reading() as book:
            lines = [read(*row) for row in book.rows()]
        all_read(lines, self.name)
        return [line for line in lines if isinstance(line, Entry) and table in (None, line.table)]

    def may_hold(self, release_id: str, error: BaseException) -> bool:
        """Whether a release was charged, or may have been, when `charge` ended with this error.

        An answer of no came before anything was written. After others the ledger is asked; if it cannot be, a charge
        counts as made, unless the error said itself that this is no ledger to write to.
        """
        if isinstance(error, Refused):
            return False
        try:
            if not self.exists():
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
        with self._reading() as book:
            return events_of(whole(book, book.rows(), self.name), table)

    def spent(self, table: str, neighbours: Neighbours | str, delta: float) -> float:
        """Epsilon of all events of `table` together for these `neighbours` at this `delta`; 0.0 without charges."""
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

    def report(self) -> LedgerReport:
        """Everything that stands in the ledger, as far as it can be read, and all that is wrong with it."""
        try:
            with self._reading() as book:
                problems, rows = book.faults(thorough=True), book.rows()
                lines = [read(*row) for row in rows]
                problems += broken(book, rows)
                return LedgerReport(lines, problems or senseless(lines) or differences(book, rows, lines))
        except DamagedLedger as error:
            return LedgerReport([], [f"it is damaged: {error.got}"])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[StoredLedger]:
        with self.storage.reading() as book:
            self._check_format(book)
            yield book

    @contextlib.contextmanager
    def _writing(self) -> Iterator[OpenLedger]:
        with self.storage.writing() as book:
            self._check_format(book)
            yield book

    def _check_format(self, book: StoredLedger) -> None:
        if book.format() not in _FORMATS:
            raise InputError(
                f"a ledger of format {' or '.join(map(str, _FORMATS))}",
                f"another format in {self.name}",
                "use a newer adumbra",
            )


def _hash(text: str) -> str:
    if not (isinstance(text, str) and re.fullmatch(r"[0-9a-fA-F]{64}", text.strip())):
        raise InputError("a hash of 64 hexadecimal digits", f"{text!r}"[:80], "copy ledger_head from the card")
    return text.strip().lower()


def _check_cap(limit: Cap, table: str, spent: Composition, asked: list[Event]) -> None:
    """Refuse when what is spent and what is asked for together cost more than the cap."""
    together = spent.plus(asked, limit.neighbours)
    if at_most(together, limit.epsilon * (1.0 + _FLOAT_DUST), limit.delta):
        return
    total, before = (epsilon_of_all(events, limit.delta) for events in (together, spent))
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
