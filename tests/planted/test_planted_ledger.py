"""Bugs planted in the ledger, and the tests that notice."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from types import SimpleNamespace

import adumbra.ledger.chain
import adumbra.ledger.ledger
import adumbra.ledger.running
import adumbra.ledger.sqlite
import adumbra.privacy.charge
from adumbra.accounting.events import Composition
from adumbra.common.errors import InputError, Refused
from tests.ledger import test_cap_matrix, test_ledger, test_running_totals, test_storage
from tests.mechanisms import test_synthetic
from tests.pipeline import test_refused_before_the_charge
from tests.planted.planting import assert_caught, bug, parametrized
from tests.privacy import test_charge
from tests.sklearn import test_private_pca, test_sklearn


def only_the_first_look_charged(patch):
    real = adumbra.ledger.ledger.Ledger.charge

    def forgetful(self, *, events, **rest):
        return real(self, events=dict(list(events.items())[:1]), **rest)

    patch.setattr(adumbra.ledger.ledger.Ledger, "charge", forgetful)


def written_lines_not_read_back(patch):
    real = adumbra.ledger.chain.Past.append

    def append(self, kind, bodies):
        written = []
        book = SimpleNamespace(remember=self.book.remember, rows=lambda after: written[-1])
        book.head = lambda: (written[-1][-1][0], written[-1][-1][2])
        book.append = lambda rows: (written.append(rows), self.book.append(rows))
        return real(dataclasses.replace(self, book=book), kind, bodies)

    patch.setattr(adumbra.ledger.chain.Past, "append", append)


def receipts_not_counted(patch):
    real = adumbra.privacy.charge.Charge._charge

    def believing(self, events):
        try:
            real(self, events)
        except InputError as error:
            if "a receipt for every line" not in str(error):
                raise
            self.charged.update(events)

    patch.setattr(adumbra.privacy.charge.Charge, "_charge", believing)


def refusal_swallowed(patch):
    real = adumbra.ledger.ledger.Ledger.charge

    def lenient(self, **charge):
        with contextlib.suppress(Refused):
            return real(self, **charge)
        return []

    patch.setattr(adumbra.ledger.ledger.Ledger, "charge", lenient)


def cap_checks_each_release_alone(patch):
    real = adumbra.ledger.ledger._check_cap
    patch.setattr(
        adumbra.ledger.ledger, "_check_cap", lambda cap, table, spent, asked: real(cap, table, Composition(), asked)
    )


def cap_ignores_charges_without_a_bound(patch):
    """A past release that no epsilon bounds for the cap's neighbours counts as if it had cost nothing."""
    real = adumbra.ledger.ledger._check_cap

    def forgiving(cap, table, spent, asked):
        real(cap, table, dataclasses.replace(spent, bounded=True), asked)

    patch.setattr(adumbra.ledger.ledger, "_check_cap", forgiving)


def charges_left_out_of_the_running_totals(patch):
    """Lines are written and the sums beside them stay as they were."""
    real = adumbra.ledger.running.RunningTotals.plus

    def frozen(self, rows):
        return dataclasses.replace(real(self, rows), spent=self.spent)

    patch.setattr(adumbra.ledger.running.RunningTotals, "plus", frozen)


def notes_believed_whatever_happened_to_the_file(patch):
    """The sums are taken as they are noted, although somebody changed the lines."""

    def trusting(self, key):
        with contextlib.suppress(sqlite3.OperationalError):  # nothing was noted yet
            found = self._db.execute("SELECT note FROM notes WHERE name = ?", (key,)).fetchone()
            return found and found[0]

    patch.setattr(adumbra.ledger.sqlite._OpenFile, "remembered", trusting)


LOSES = test_storage.test_a_storage_that_loses_a_charge_gets_no_release
CASES = [
    bug(written_lines_not_read_back, LOSES, test_storage.Dropping),
    bug(written_lines_not_read_back, test_storage.test_a_cap_that_is_not_kept_is_not_set),
    bug(receipts_not_counted, LOSES, test_storage.Swallowing),
    bug(receipts_not_counted, test_charge.test_a_charge_without_a_receipt_for_every_line_is_none, None),
    bug(charges_left_out_of_the_running_totals, test_running_totals.test_a_cap_counts_what_was_noted),
    bug(charges_left_out_of_the_running_totals, test_ledger.test_a_budget_can_be_spent_exactly),
    bug(
        notes_believed_whatever_happened_to_the_file,
        test_running_totals.test_changed_sums_are_not_believed_and_if_hidden_are_found,
    ),
    bug(
        notes_believed_whatever_happened_to_the_file,
        test_running_totals.test_a_changed_line_is_seen_by_the_next_charge,
    ),
    bug(only_the_first_look_charged, test_synthetic.test_a_cap_refuses_all_looks_or_none, "moments"),
    bug(refusal_swallowed, test_synthetic.test_a_cap_refuses_all_looks_or_none, "tables"),
    bug(refusal_swallowed, test_refused_before_the_charge.test_a_refused_charge_cannot_be_passed_by),
    bug(cap_checks_each_release_alone, test_ledger.test_the_composition_counts_not_each_release),
    bug(cap_checks_each_release_alone, test_cap_matrix.test_a_cap_counts_every_past_charge, "gaussian", "all"),
    bug(
        cap_ignores_charges_without_a_bound,
        test_ledger.test_a_past_charge_without_a_bound_meets_a_cap_as_infinite,
        "row",
    ),
    bug(
        cap_ignores_charges_without_a_bound,
        test_cap_matrix.test_a_cap_counts_every_past_charge,
        "fresh",
        "only cell/zero-out",
    ),
    bug(cap_checks_each_release_alone, test_sklearn.test_a_full_ledger_gives_no_rows),
    bug(only_the_first_look_charged, test_private_pca.test_every_fit_and_every_transform_is_charged, "power_method"),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
