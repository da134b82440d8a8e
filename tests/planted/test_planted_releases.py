"""Bugs planted in release folders, cards and messages, and the tests that notice."""

from __future__ import annotations

import re

import adumbra.common.errors
import adumbra.releases.folder
import adumbra.releases.signature
import adumbra.report.markdown
from tests.common import test_shown
from tests.planted.planting import assert_caught, bug, parametrized
from tests.releases import test_hostile_folder, test_release_folder
from tests.tables import test_read


def page_not_compared(patch):
    patch.setattr(adumbra.releases.folder._Folder, "_page", lambda self: "matches")


def errors_not_made_safe(patch):
    patch.setattr(adumbra.common.errors, "shown", lambda text: text)


def names_on_the_card_left_as_they_are(patch):
    patch.setattr(adumbra.report.markdown, "shown", lambda text: text)
    patch.setattr(adumbra.report.markdown, "_MARKS", re.compile("[|]"))


def small_order_keys_accepted(patch):
    patch.setattr(adumbra.releases.signature, "_binds_nobody", lambda raw: False)


def links_and_pipes_opened(patch):
    patch.setattr(adumbra.releases.folder, "irregular", lambda mode: None)
    patch.setattr(adumbra.releases.folder, "open_regular", lambda path: path.open("rb"))


CASES = [
    bug(page_not_compared, test_hostile_folder.test_a_card_edited_against_its_page_is_found),
    bug(page_not_compared, test_hostile_folder.test_a_utility_card_edited_against_its_page_is_found),
    bug(errors_not_made_safe, test_shown.test_an_error_shows_what_it_quotes_harmlessly, test_shown.HOSTILE),
    bug(errors_not_made_safe, test_shown.test_an_error_shows_what_it_quotes_harmlessly, test_shown.FORGED),
    bug(names_on_the_card_left_as_they_are, test_shown.test_names_are_inert_on_the_card),
    bug(names_on_the_card_left_as_they_are, test_shown.test_every_field_of_a_strange_card_is_inert),
    bug(small_order_keys_accepted, test_hostile_folder.test_no_key_of_small_order_is_taken),
    bug(small_order_keys_accepted, test_hostile_folder.test_no_key_with_another_spelling_is_taken),
    bug(
        links_and_pipes_opened,
        test_hostile_folder.test_what_is_no_regular_file_is_refused_at_once,
        "data.parquet",
        "link",
    ),
    bug(
        links_and_pipes_opened,
        test_hostile_folder.test_what_is_no_regular_file_is_refused_at_once,
        "model.npz",
        "link",
    ),
    bug(errors_not_made_safe, test_read.test_a_name_that_steers_the_terminal_is_escaped_in_the_error),
    bug(links_and_pipes_opened, test_release_folder.test_a_linked_file_is_not_read_as_one_of_the_folder),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
