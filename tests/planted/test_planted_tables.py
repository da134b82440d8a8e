"""Bugs planted in readers and encoding, and the tests that notice."""

from __future__ import annotations

import numpy as np
import polars as pl

import adumbra.declare.cell_kinds.category
import adumbra.declare.cell_kinds.item_set
import adumbra.declare.item_sets
import adumbra.declare.spelling
import adumbra.jupa.features
import adumbra.pipeline
import adumbra.privacy.engine
import adumbra.tables.columnar
import adumbra.tables.encode
import adumbra.tables.row_source
from adumbra.declare.guarantee import Relation
from adumbra.declare.space import HALF
from tests.declare import test_item_sets
from tests.jupa import test_jupa_columns
from tests.mechanisms import test_items
from tests.pipeline import test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.tables import test_damaged_tables, test_encode, test_one_cell


def bound_read_from_data(patch):
    real = adumbra.tables.encode.encode

    def scaled(frame, schema):
        encoded = real(frame, schema)
        largest = np.abs(encoded.values).max(axis=0, initial=1.0)
        return type(encoded)(np.rint(encoded.values * (HALF / np.maximum(largest, 1.0))), encoded.repairs)

    for place in (adumbra.tables.encode, adumbra.tables.row_source, test_encode):
        patch.setattr(place, "encode", scaled)


def batches_not_validated_before_the_charge(patch):
    patch.setattr(adumbra.tables.columnar, "check_arrow", lambda batch: None)


def boolean_column_read_by_its_own_rule(patch):
    """Booleans are 1 and 0; where one cell made objects of them, their words are words."""
    patch.setattr(adumbra.declare.spelling, "_with_words", lambda found, text: found)


def _as_they_stand(cells, values):
    """Places of the values that are written just so."""
    written = [str(value).strip() for value in values]
    return np.array([written.index(text) if text in written else -1 for text in adumbra.declare.spelling.texts(cells)])


def true_words_read_apart(patch):
    """JUPA: "True" of an object column is another category than "true" of a Boolean one."""
    real = adumbra.declare.spelling.places

    def places(cells, values):
        worded = {"true", "false"} & set(values) and cells.dtype == pl.String
        return _as_they_stand(cells, values) if worded else real(cells, values)

    patch.setattr(adumbra.jupa.features, "places", places)


def whole_floats_spelled_by_their_column(patch):
    """1.0 of a float column is "1"; of an object column it is "1.0", and not the number that it spells."""
    real = adumbra.declare.spelling._Book.by_key

    def by_key(self, text):
        return real(self, text) if self.exact is None else np.full(len(text), -1)

    patch.setattr(adumbra.declare.spelling._Book, "by_key", by_key)


def type_taken_from_all_cells(patch):
    """A column of text is one of numbers if every cell of it spells a number."""
    real = adumbra.declare.spelling.places

    def places(cells, values):
        text = adumbra.declare.spelling.texts(cells).drop_nulls()
        guessed = text.cast(pl.Float64, strict=False).null_count() == 0
        return real(cells, values) if guessed else _as_they_stand(cells, values)

    for place in (adumbra.declare.cell_kinds.category, adumbra.tables.encode, adumbra.jupa.features):
        patch.setattr(place, "places", places)


ONE_CELL = test_one_cell.test_one_cell_changes_how_no_other_row_is_read


ONE_RECORD = test_one_cell.test_one_cell_changes_no_other_record_for_jupa


TYPED = (test_one_cell.numpy_numbers,)  # never text


def set_longer_than_declared(patch):
    """The cut to so many values is skipped: what a row adds is as long as its cell."""
    for place in (adumbra.declare.item_sets, adumbra.declare.cell_kinds.item_set):
        patch.setattr(place, "cut", lambda held, most: held)


def set_longer_than_declared_at_an_open_door(patch):
    """The same, and nobody looks at the rows again before they are counted."""
    set_longer_than_declared(patch)
    patch.setattr(adumbra.privacy.engine, "check_bounded", lambda batch, space: None)


CASES = [
    bug(bound_read_from_data, test_encode.test_scaling_comes_from_the_schema_and_never_from_the_data),
    bug(
        bound_read_from_data,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "tables",
        Relation.ADD_REMOVE,
        None,
    ),
    bug(
        batches_not_validated_before_the_charge,
        test_damaged_tables.test_damage_is_found_by_the_count,
        "file",
        "bytes that are no text",
    ),
    bug(
        batches_not_validated_before_the_charge,
        test_damaged_tables.test_damage_is_found_by_the_count,
        "memory",
        "a number of too many digits",
    ),
    bug(batches_not_validated_before_the_charge, test_damaged_tables.test_parquet_text_that_is_no_text),
    bug(set_longer_than_declared, test_item_sets.test_every_cell_is_read_by_itself_as_the_definition_says),
    bug(set_longer_than_declared, test_item_sets.test_a_column_of_sets_is_encoded_and_its_repairs_are_counted),
    bug(
        set_longer_than_declared_at_an_open_door,
        test_item_sets.test_of_too_many_the_first_in_declared_order_stay_wherever_they_stand,
    ),
    *(
        bug(plant, test_items.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid, budget)
        for plant in (set_longer_than_declared, set_longer_than_declared_at_an_open_door)
        for budget in test_items.BUDGETS[::2]
    ),
    bug(boolean_column_read_by_its_own_rule, test_one_cell.test_true_and_false_are_one_and_zero),
    bug(boolean_column_read_by_its_own_rule, ONE_CELL, test_one_cell.pandas_plain),
    bug(boolean_column_read_by_its_own_rule, ONE_RECORD, test_one_cell.pandas_plain),
    bug(true_words_read_apart, ONE_RECORD, test_one_cell.pandas_plain),
    bug(true_words_read_apart, test_jupa_columns.test_true_and_false_mean_the_same_however_they_are_written),
    bug(whole_floats_spelled_by_their_column, test_one_cell.test_every_form_of_a_number_is_one_cell),
    bug(whole_floats_spelled_by_their_column, ONE_CELL, test_one_cell.pandas_plain),
    bug(whole_floats_spelled_by_their_column, ONE_RECORD, test_one_cell.pandas_plain),
    *(bug(type_taken_from_all_cells, ONE_CELL, reader) for reader in test_one_cell.READERS if reader not in TYPED),
    *(bug(type_taken_from_all_cells, ONE_RECORD, reader) for reader in test_one_cell.READERS if reader not in TYPED),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
