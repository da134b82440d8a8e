"""Bugs planted in how cells of every kind are read, counted, ruled and written, and the tests that notice."""

from __future__ import annotations

import numpy as np
import polars as pl

import adumbra.families.column_tables
import adumbra.mechanisms.tables
import adumbra.models.denoising
import adumbra.privacy.sensitivity
import adumbra.request
import adumbra.tables.encode
import adumbra.tables.released_rows
import adumbra.tables.row_source
from adumbra.declare.guarantee import Relation
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.models.columns import drawing
from adumbra.models.rule_repair import obeying
from adumbra.queries.sums import TablesQuery, in_steps
from tests.mechanisms import test_contract
from tests.pipeline import test_kinds_of_cells
from tests.planted.planting import assert_caught, bug, parametrized
from tests.queries import test_missing_cells


def empty_cell_outside_its_range(patch):
    """What is missing stands beside the range, where everybody sees it, and further off than any bound knows."""
    real = adumbra.tables.encode._cells

    def beside(series, column, words, fallback, out):
        repairs = real(series, column, words, fallback, out)
        if column.cells.block == "number" and fallback is None:
            out[~out.any(axis=1)] = -GRID
        return repairs

    patch.setattr(adumbra.tables.encode, "_cells", beside)


def empty_cell_counted_as_a_value_too(patch):
    """In its own cell and in the first of the values, as if it were the lowest."""
    real = TablesQuery.partial

    def twice(self, batch):
        out, found = real(self, batch), self.cells.of(batch)
        if "pooled" in out:
            for start, count, cell in zip(self.cells.starts, self.cells.counts, found.T, strict=True):
                out["pooled"][start] += in_steps(np.array(np.count_nonzero(cell == count)))
        return out

    patch.setattr(TablesQuery, "partial", twice)


def empty_cell_weighed_by_its_neighbours(patch):
    """An empty cell takes the mean of its column's cells: one value then moves every row that has none."""
    real = adumbra.tables.encode.encode

    def imputed(frame, schema):
        encoded = real(frame, schema)
        for block in schema.space().blocks:
            if block.kind == "number" and block.keeps and len(encoded.values):
                column = encoded.values[:, block.start]
                if column.any():
                    column[column == 0] = np.rint(column[column != 0].mean()) or 1.0
        return encoded

    patch.setattr(adumbra.tables.row_source, "encode", imputed)


def empty_label_counted_in_two_classes(patch):
    """A row without a label is in the class of those, and in the first of the declared ones."""
    real = TablesQuery.partial

    def twice(self, batch):
        out = real(self, batch)
        if "grouped" in out and self.groups is not None:
            lost = batch[self.groups.of(batch) == self.groups.count - 1]
            plain = TablesQuery(self.cells)
            out["grouped"][0] += real(plain, lost)["pooled"]
        return out

    patch.setattr(TablesQuery, "partial", twice)


def emptied_cell_thought_nowhere(patch):
    """As it was before what is missing had a cell: an emptied row just goes."""
    place = adumbra.privacy.sensitivity
    real = place._tables

    def half(query, space, relation, norm):
        return real(query, space, Relation.ADD_REMOVE if relation is Relation.ZERO_OUT else relation, norm)

    patch.setitem(place._OF_A_ROW, TablesQuery, half)


def rules_applied_to_private_rows(patch):
    """Rows of the table are brought to obey before they are encoded: cells are exchanged, and one row moves others."""
    real = adumbra.tables.row_source._encoded

    def repaired(cells, schema, row_bound):
        encoded, shortened = real(cells, schema, row_bound)
        if schema.rules and isinstance(cells, pl.DataFrame) and len(cells) > 1:
            frame = adumbra.tables.encode.decode(encoded.values, schema)
            empty = {b.column: ~encoded.values[:, b.start : b.stop].any(axis=1) for b in schema.space().blocks}
            frame = frame.with_columns(pl.Series(n, frame[n]).set(pl.Series(gone), None) for n, gone in empty.items())
            seed = adumbra.PublicSeed.given("tidy")
            tidy = obeying(frame, schema.rules, drawing(seed, "private rows"))
            names = [column.name for column in schema.measured]
            stored = pl.DataFrame({n: schema.column(n).cells.store(tidy[n]) for n in names})
            encoded, shortened = real(stored, schema, row_bound)
        return encoded, shortened

    patch.setattr(adumbra.tables.row_source, "_encoded", repaired)


def derived_column_read_from_the_table(patch):
    """What follows from other columns is measured all the same."""
    patch.setattr(Schema, "measured", property(lambda self: tuple(c for c in self.released if c.role != "id")))


def missing_decided_by_exact_counts(patch):
    """Whether a column has empty cells at all is seen from the true counts."""
    real, seen = TablesQuery.partial, {}

    def remembered(self, batch):
        out, found = real(self, batch), self.cells.of(batch)
        for block, count, cell in zip(self.cells.blocks, self.cells.counts, found.T, strict=True):
            seen[block.column] = float(np.count_nonzero(cell == count)) / max(len(batch), 1)
        return out

    patch.setattr(TablesQuery, "partial", remembered)

    def exact(looks, rows):
        cells = looks[0][2]
        return np.array([min(seen.get(block.column, 0.0), 0.9) for block in cells.blocks])

    for place in (adumbra.models.denoising, adumbra.families.column_tables, adumbra.mechanisms.tables):
        patch.setattr(place, "missing_shares", exact)


def ids_taken_from_the_table(patch):
    """The released ids are those of people, since the pattern asks for some."""
    held = {}
    opened, made = adumbra.request._table, adumbra.tables.released_rows._ids

    def remembered(given, delimiter):
        if isinstance(given, pl.DataFrame):
            held["frame"] = given
        return opened(given, delimiter)

    def taken(column, first, rows):
        own, frame = made(column, first, rows), held.get("frame")
        if frame is None or column.name not in frame.columns:
            return own
        found = frame[column.name].cast(pl.String).slice(first, rows)
        return pl.concat([found.fill_null(""), own.cast(pl.String).slice(len(found))])

    patch.setattr(adumbra.request, "_table", remembered)
    patch.setattr(adumbra.tables.released_rows, "_ids", taken)


MOVES = test_kinds_of_cells.test_no_neighbour_moves_any_kind_of_cell_by_more_than_was_paid
UNREAD = test_kinds_of_cells.test_what_is_not_measured_is_not_read
UNRULED = test_kinds_of_cells.test_rules_touch_no_private_row
SEARCHED = test_missing_cells.test_no_neighbour_moves_tables_with_missing_cells_further_than_stated
IN_ONE = test_missing_cells.test_every_row_is_in_one_cell_of_each_column_and_in_one_class
SMALL, MANY = ("number", "category"), tuple(test_missing_cells.KINDS)
REPLACE, ZERO_OUT, ADD_REMOVE = Relation.REPLACE, Relation.ZERO_OUT, Relation.ADD_REMOVE

CASES = [
    bug(empty_cell_outside_its_range, test_missing_cells.test_a_cell_is_0_just_where_nothing_can_be_read, "date"),
    bug(empty_cell_outside_its_range, MOVES, "tables", REPLACE),
    bug(empty_cell_counted_as_a_value_too, IN_ONE, SMALL, None),
    bug(empty_cell_counted_as_a_value_too, SEARCHED, SMALL, None),
    bug(
        empty_cell_counted_as_a_value_too,
        test_contract.test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises,
        "tables",
    ),
    bug(
        empty_cell_weighed_by_its_neighbours, test_missing_cells.test_a_cell_is_0_just_where_nothing_can_be_read, "log"
    ),
    bug(empty_cell_weighed_by_its_neighbours, MOVES, "moments", ADD_REMOVE),
    bug(empty_label_counted_in_two_classes, SEARCHED, SMALL, None),
    bug(empty_label_counted_in_two_classes, MOVES, "tables", ADD_REMOVE),
    bug(emptied_cell_thought_nowhere, SEARCHED, MANY, None),
    bug(emptied_cell_thought_nowhere, MOVES, "tables", ZERO_OUT),
    bug(rules_applied_to_private_rows, UNRULED, "tables", REPLACE),
    bug(rules_applied_to_private_rows, MOVES, "tables", REPLACE),
    bug(derived_column_read_from_the_table, UNREAD, "tables"),
    bug(derived_column_read_from_the_table, UNREAD, "hybrid"),
    bug(derived_column_read_from_the_table, test_kinds_of_cells.test_what_is_computed_costs_nothing),
    bug(
        missing_decided_by_exact_counts, test_kinds_of_cells.test_what_is_missing_is_decided_by_noisy_numbers, "tables"
    ),
    bug(missing_decided_by_exact_counts, MOVES, "tables", ZERO_OUT),
    bug(ids_taken_from_the_table, UNREAD, "tables"),
    bug(ids_taken_from_the_table, test_kinds_of_cells.test_ids_are_fresh_and_say_nothing_but_their_place, "hybrid"),
]


@parametrized(CASES)
def test_planted_bugs_are_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
