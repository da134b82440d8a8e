"""Bugs planted in tables of pairs and triples, in their bounds and in distances of them, and the tests that notice."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import pytest

from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.numerics import least_products
from adumbra.privacy import joint_sensitivity, sensitivity
from adumbra.queries import joint_tables
from adumbra.queries.joint_tables import JointCells, JointTablesQuery, TableDistances
from tests.planted.planting import assert_caught, bug, parametrized
from tests.privacy import test_joint_sensitivity
from tests.queries import test_joint_tables

ADD_REMOVE = Neighbours(Unit.ROW, Relation.ADD_REMOVE)
REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)


def pair_counted_twice(patch):
    real = joint_tables._count

    def twice(columns, layout, out):
        real(columns, layout, out)
        real(columns, layout[:1], out)

    patch.setattr(joint_tables, "_count", twice)


def centred_by_the_datas_own_margins(patch):
    """Less what independence would have, instead of less the mean: better centred, and moved by every row's company."""

    def centred(table):
        total = max(int(table.sum()), 1)
        expected = table.sum(axis=tuple(range(1, table.ndim)))
        for axis in range(1, table.ndim):
            others = tuple(a for a in range(table.ndim) if a != axis)
            expected = np.multiply.outer(expected, table.sum(axis=others)) // total
        return table.size * (table - expected)

    patch.setattr(joint_tables, "_whole_centred", centred)


def margins_left_out_of_the_bound(patch):
    """1/c of a column instead of 1 - 1/c, wherever it is worked out."""

    def one(counts, tables, weights):
        low = [1.0 / count for count in counts]
        return sum(w * w * math.prod(low[j] for j in table) for w, table in zip(weights, tables, strict=True))

    def moves(query):
        square = one(query.cells.counts, query.tables, query.scales)
        return math.sqrt(square), math.sqrt(2.0 * square)

    def over(self, weights):
        return math.sqrt(one(self.cells.counts, self.tables, weights)) * (1.0 + 1e-9)

    patch.setattr(JointTablesQuery, "_over", over)
    patch.setattr(joint_sensitivity, "_centred", moves)


def rows_thought_never_opposite(patch):
    """As if inner products of two rows were not negative: root two of an added row."""
    for place in (joint_tables, joint_sensitivity):
        patch.setattr(place, "least_sum", lambda *_: 0.0)


def cells_merged_by_the_batch(patch):
    """Cells with few rows go together once the rows have been seen."""
    real = JointCells.of

    def of(self, batch):
        found = real(self, batch)
        for column, count in zip(found.T, self.counts, strict=True):
            column[np.bincount(column, minlength=count)[column] < 5] = 0
        return found

    patch.setattr(JointCells, "of", of)


def weights_not_normalised(patch):
    patch.setattr(JointTablesQuery, "_over", lambda self, weights: 1.0)


def stated_bound_taken_on_trust(patch):
    real = joint_sensitivity.joint_tables

    def trusted(query, space, relation, norm):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(joint_sensitivity, "joint_moves", lambda *_: (0.0, 0.0))
            return real(query, space, relation, norm)

    patch.setitem(sensitivity._OF_A_ROW, JointTablesQuery, trusted)


def bound_of_the_tables_at_hand(patch):
    """Closer than what is stated, and another for every choice of cells: what was charged is not what is measured."""

    def own(query, space, relation, norm):
        return joint_sensitivity.joint_moves(query, norm)[relation is not Relation.ADD_REMOVE]

    patch.setitem(sensitivity._OF_A_ROW, JointTablesQuery, own)


def replaced_tables_paid_as_added(patch):
    real = joint_sensitivity.joint_tables
    added = lambda query, space, relation, norm: real(query, space, Relation.ADD_REMOVE, norm)  # noqa: E731
    patch.setitem(sensitivity._OF_A_ROW, JointTablesQuery, added)


def centred_tables_bounded_in_l1_by_l2(patch):
    real = joint_sensitivity.joint_tables
    euclidean = lambda query, space, relation, norm: real(query, space, relation, "l2")  # noqa: E731
    patch.setitem(sensitivity._OF_A_ROW, JointTablesQuery, euclidean)


def diagonal_too_small(patch):
    """The matrix keeps negative eigenvalues, and what is called a bound is none."""
    real = least_products._lifting
    patch.setattr(least_products, "_lifting", lambda matrix, base: 0.5 * real(matrix, base))


def label_thought_the_same(patch):
    """Two rows of one label are not the worst pair."""
    real = least_products._reduced
    patch.setattr(
        least_products, "_reduced", lambda high, terms, given: real(high, terms, {j: float(high[j]) for j in given})
    )


def joint_tables_in_float64(patch):
    real = JointTablesQuery.finalize

    def finalize(self, total):
        return {name: np.asarray(value, np.float64) + 0.0 for name, value in real(self, total).items()}

    patch.setattr(JointTablesQuery, "finalize", finalize)


def replaced_distances_paid_as_added(patch):
    patch.setitem(sensitivity._OF_A_ROW, TableDistances, lambda *_: 0.5)


def distances_thought_free(patch):
    """They only choose which tables are measured."""
    patch.setitem(sensitivity._OF_A_ROW, TableDistances, lambda *_: 1e-6)


def distances_paid_for_one(patch):
    """Each has the noise of one, however many there are."""
    alone = cached_property(lambda self: 1.0)
    alone.__set_name__(TableDistances, "weight")
    patch.setattr(TableDistances, "weight", alone)
    stated = lambda query, space, relation, norm: 0.5 if relation is Relation.ADD_REMOVE else 1.0  # noqa: E731
    patch.setitem(sensitivity._OF_A_ROW, TableDistances, stated)


DEFINED = test_joint_tables.test_joint_tables_are_what_the_definition_says
BATCHES = test_joint_tables.test_joint_tables_in_any_batches_are_the_same
EVENT = test_joint_tables.test_the_event_is_the_same_whatever_cells_tables_and_weights
LARGE = test_joint_tables.test_weights_are_as_large_as_the_relation_allows
NOISE = test_joint_tables.test_noise_of_joint_tables_has_its_scale_and_no_other
PURE = test_joint_tables.test_pure_epsilon_measures_plain_tables
SCORES = test_joint_tables.test_noise_of_distances_has_its_scale_and_no_other
ALL_ROWS = test_joint_sensitivity.test_the_worst_of_all_rows_moves_centred_tables_as_far_as_is_worked_out
CERTIFIED = test_joint_sensitivity.test_the_certificate_is_never_above_the_least_of_all_values
CLIMB = test_joint_sensitivity.test_a_climb_over_pairs_of_rows_comes_near_and_not_over
NEIGHBOUR = test_joint_sensitivity.test_no_neighbour_moves_joint_tables_further_than_is_stated
MANY = test_joint_sensitivity.test_the_certificate_of_many_columns_is_above_every_value_found_and_near
DISTANCES = test_joint_sensitivity.test_no_neighbour_moves_distances_further_than_is_stated
TOO_LITTLE = test_joint_sensitivity.test_tables_that_state_too_little_are_refused_before_the_charge
NO_L1 = test_joint_sensitivity.test_centred_tables_have_no_bound_in_l1

CASES = [
    bug(pair_counted_twice, DEFINED, True),
    bug(pair_counted_twice, ALL_ROWS, "flags", Relation.REPLACE),
    bug(centred_by_the_datas_own_margins, DEFINED, True),
    bug(centred_by_the_datas_own_margins, ALL_ROWS, "categories", Relation.ADD_REMOVE),
    bug(margins_left_out_of_the_bound, ALL_ROWS, "categories", Relation.REPLACE),
    bug(margins_left_out_of_the_bound, NEIGHBOUR, Relation.ADD_REMOVE, None),
    bug(
        margins_left_out_of_the_bound,
        test_joint_tables.test_noise_of_a_pair_in_rows_is_what_its_worst_pair_of_rows_needs,
    ),
    bug(rows_thought_never_opposite, ALL_ROWS, "flags", Relation.REPLACE),
    bug(rows_thought_never_opposite, LARGE, Relation.REPLACE),
    bug(rows_thought_never_opposite, CLIMB, 12, None, Relation.REPLACE),
    bug(cells_merged_by_the_batch, BATCHES, "tables"),
    bug(cells_merged_by_the_batch, test_joint_tables.test_every_row_is_in_one_cell_of_each_column),
    bug(cells_merged_by_the_batch, ALL_ROWS, "categories", Relation.REPLACE),
    bug(weights_not_normalised, LARGE, Relation.ADD_REMOVE),
    bug(weights_not_normalised, ALL_ROWS, "merged", Relation.ADD_REMOVE),
    bug(stated_bound_taken_on_trust, TOO_LITTLE, Relation.REPLACE, True),
    bug(stated_bound_taken_on_trust, test_joint_sensitivity.test_weights_for_another_relation_are_refused),
    bug(bound_of_the_tables_at_hand, EVENT, REPLACE, 1e-6),
    bug(bound_of_the_tables_at_hand, ALL_ROWS, "merged", Relation.REPLACE),
    bug(replaced_tables_paid_as_added, ALL_ROWS, "two flags", Relation.REPLACE),
    bug(replaced_tables_paid_as_added, NOISE, "pair, replace"),
    bug(replaced_tables_paid_as_added, PURE, REPLACE, 2.0),
    bug(centred_tables_bounded_in_l1_by_l2, NO_L1),
    bug(centred_tables_bounded_in_l1_by_l2, PURE, REPLACE, 2.0),
    bug(diagonal_too_small, CERTIFIED, "none"),
    bug(diagonal_too_small, test_joint_sensitivity.test_a_diagonal_that_is_too_small_is_never_used),
    bug(diagonal_too_small, MANY),
    bug(label_thought_the_same, CERTIFIED, "one"),
    bug(label_thought_the_same, MANY),
    bug(joint_tables_in_float64, DEFINED, False),
    bug(joint_tables_in_float64, test_joint_tables.test_joint_tables_of_more_rows_than_float64_holds_stay_exact),
    bug(replaced_distances_paid_as_added, DISTANCES, "l2"),
    bug(replaced_distances_paid_as_added, SCORES, REPLACE, 1e-6, 1.0),
    bug(distances_thought_free, DISTANCES, "l1"),
    bug(distances_thought_free, SCORES, ADD_REMOVE, 0.0, 0.5),
    bug(distances_paid_for_one, DISTANCES, "l2"),
    bug(distances_paid_for_one, test_joint_sensitivity.test_distances_share_one_weight_however_many_there_are),
    bug(distances_paid_for_one, SCORES, REPLACE, 0.0, 1.0),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
