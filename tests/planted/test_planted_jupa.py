"""Bugs planted in utility-aware releases, and the tests that notice."""

from __future__ import annotations

import numpy as np

import adumbra.jupa.local
from adumbra.jupa.features import Guard
from tests.jupa import test_jupa, test_jupa_promises
from tests.planted.planting import assert_caught, bug, parametrized


def left_out_values_known_all_the_same(patch):
    patch.setattr(Guard, "mend", lambda self, rows: np.where(np.isnan(rows), self.fill, rows))


def box_wider_than_its_noise(patch):
    own = adumbra.jupa.local.Budget
    patch.setattr(adumbra.jupa.local, "Budget", lambda epsilon, *rest: own(2 * epsilon, *rest))


CASES = [
    bug(
        left_out_values_known_all_the_same,
        test_jupa_promises.test_rare_categories_do_not_break_ranks,
        "kernel",
        "repair",
    ),
    bug(box_wider_than_its_noise, test_jupa.test_the_noise_has_the_scale_that_the_box_needs_and_no_other, 3, 1.5, 4.0),
    bug(
        left_out_values_known_all_the_same,
        test_jupa.test_a_guard_makes_one_thing_of_all_that_its_records_do_not_know,
    ),
    bug(box_wider_than_its_noise, test_jupa.test_no_record_moves_the_release_by_more_than_the_noise_covers),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
