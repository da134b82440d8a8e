"""The charge rule: all lines of a release are charged with the first, before any noise is drawn.

The meter calls the rule before it reads a row, with the line and the event it is about to measure. So a cap cannot
refuse the second measurement after the first was paid, and no measurement is made that differs from what was charged
for its line. What may have been written counts as spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.interrupts import checkpoint, stop_if_asked
from adumbra.declare.guarantee import Promise

__all__ = ["Charge", "ChargeBook", "ChargeFn", "PlannedCharge"]


class ChargeFn(Protocol):
    """What the meter calls before it measures a line."""

    def __call__(self, line: str, event: Event) -> None:
        """Record the charge of `event` on `line` durably, or raise and let nothing be measured."""


class _Hashed(Protocol):
    """A receipt: one line of a ledger."""

    @property
    def hash(self) -> str:
        """Of the ledger's chain up to this line."""


class ChargeBook(Protocol):
    """What the rule needs of a ledger."""

    def charge(
        self, *, table: str, release_id: str, mechanism: str, promise: Promise, events: Mapping[str, Event]
    ) -> Sequence[_Hashed]:
        """Record all `events` of a release in one step, durably, or raise and record none."""

    def may_hold(self, release_id: str, error: BaseException) -> bool:
        """Whether the charge of `release_id` may have been recorded although `charge` raised `error`."""


@dataclass(frozen=True)
class PlannedCharge:
    """A release as its ledger names it, and what was planned for each of its lines."""

    table: str
    release_id: str
    mechanism: str
    promise: Promise
    events: Mapping[str, Event]


class Charge:
    """Charges all planned lines together with the first that is measured."""

    def __init__(self, planned: PlannedCharge, ledger: ChargeBook | None) -> None:
        self._planned, self._ledger = planned, ledger
        self.charged: dict[str, Event] = {}
        """What counts as spent, line by line."""
        self.head: str | None = None
        """Hash of the ledger after the charge."""

    @property
    def recorded(self) -> bool:
        """Whether there is a ledger that holds the charge."""
        return self._ledger is not None

    def __call__(self, line: str, event: Event) -> None:
        """Charge everything if this is the first `line`; refuse an `event` that was not charged."""
        if not self.charged:
            self._charge({**self._planned.events, line: event})
            checkpoint("charged")
        if self.charged.get(line) != event:
            raise RuntimeError("a measurement differs from the one that was planned and charged")

    def _charge(self, events: dict[str, Event]) -> None:
        planned = self._planned
        stop_if_asked()
        try:
            if self._ledger is not None:
                receipts = self._ledger.charge(
                    table=planned.table,
                    release_id=planned.release_id,
                    mechanism=planned.mechanism,
                    promise=planned.promise,
                    events=events,
                )
                if len(receipts or ()) != len(events):  # a storage may have swallowed the refusal
                    raise InputError(
                        "a ledger that gives a receipt for every line it was charged",
                        f"{len(receipts or ())} receipts for {len(events)} lines",
                        "mend the storage of the ledger; nothing was measured",
                    )
                self.head = receipts[-1].hash
            self.charged.update(events)
        except BaseException as error:  # it may have come after the charge was written
            self.charged.update(events)
            if self._ledger is None or not self._ledger.may_hold(planned.release_id, error):
                self.charged.clear()
            raise
