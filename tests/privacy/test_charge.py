"""The charge rule: all lines with the first, before any noise; what may have been written counts as spent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.privacy.charge import Charge, PlannedCharge

PROMISE = Promise(1.0, 1e-6, Neighbours.parse("row/replace"))
ONE, TWO, OTHER = (Event("gaussian", scale, {"row/replace": 1.0}) for scale in (2.0, 3.0, 4.0))


class Book:
    """A ledger that does what it is told."""

    def __init__(self, error=None, held=False):
        self.lines, self.error, self.held = [], error, held

    def charge(self, *, table, release_id, mechanism, promise, events):
        if self.error is not None:
            raise self.error
        self.lines.append((table, release_id, mechanism, promise, dict(events)))
        return [SimpleNamespace(hash=line) for line in events]

    def may_hold(self, release_id, error):
        return self.held


def rule(ledger):
    return Charge(PlannedCharge("t", "r", "m", PROMISE, {"a": ONE, "b": TWO}), ledger)


def test_all_lines_are_charged_with_the_first_and_once():
    book = Book()
    charge = rule(book)
    charge("b", TWO)
    assert book.lines == [("t", "r", "m", PROMISE, {"a": ONE, "b": TWO})]
    charge("a", ONE)
    assert len(book.lines) == 1 and charge.charged == {"a": ONE, "b": TWO} and charge.head == "b"


def test_a_later_measurement_that_differs_is_refused():
    for ledger in (Book(), None):
        charge = rule(ledger)
        charge("a", ONE)
        with pytest.raises(RuntimeError, match="differs"):
            charge("b", OTHER)
        with pytest.raises(RuntimeError, match="differs"):
            charge("c", TWO)


def test_what_is_measured_first_is_what_is_charged():
    book = Book()
    rule(book)("a", OTHER)
    assert book.lines[0][-1] == {"a": OTHER, "b": TWO}


@pytest.mark.parametrize("receipts", [None, [], [SimpleNamespace(hash="a")]])
def test_a_charge_without_a_receipt_for_every_line_is_none(receipts):
    book = Book()
    book.charge = lambda **_: receipts
    charge = rule(book)
    with pytest.raises(InputError, match="a receipt for every line"):
        charge("a", ONE)
    assert charge.charged == {} and charge.head is None


@pytest.mark.parametrize("error", [ValueError("refused"), KeyboardInterrupt()])
@pytest.mark.parametrize("held", [True, False])
def test_what_may_have_been_written_counts_as_spent(error, held):
    charge = rule(Book(error, held))
    with pytest.raises(type(error)):
        charge("a", ONE)
    assert bool(charge.charged) is held
    if not held:  # nothing is remembered: the next line asks the ledger again
        with pytest.raises(type(error)):
            charge("b", TWO)


def test_without_a_ledger_everything_counts_as_spent():
    charge = rule(None)
    charge("a", ONE)
    assert charge.charged == {"a": ONE, "b": TWO} and charge.head is None and not charge.recorded
