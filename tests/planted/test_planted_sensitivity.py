"""Bugs planted in bounds and accounting, and the tests that notice."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

import adumbra.ledger.ledger
import adumbra.privacy.meter
from adumbra.accounting.events import Composition, Event
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.space import GRID, HALF, Block, Space
from adumbra.privacy import sensitivity, set_sensitivity
from adumbra.queries.item_totals import ItemsQuery
from adumbra.queries.row_map import RowMap
from adumbra.queries.second_moment import Gram, GramTimes, MomentsQuery, RowsAndGram
from adumbra.queries.sums import TablesQuery
from tests.accounting import test_accountant
from tests.audit import test_sums_audit
from tests.ledger import test_ledger
from tests.mechanisms import test_dppro, test_items
from tests.pipeline import test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.privacy import (
    test_cost_table,
    test_fresh_projection,
    test_meter,
    test_row_bounds,
    test_sensitivity,
    test_set_sensitivity,
)
from tests.queries import test_second_moment, test_sums

real_sensitivity = sensitivity.sensitivity


def one_hot_as_one_column(patch):
    patch.setattr(sensitivity, "_widest_pair", lambda rows, norm: float(sensitivity._norms(rows, norm).max()))


def add_remove_as_replace(patch):
    def lenient(query, space, neighbours, norm="l2"):
        return real_sensitivity(query, space, Neighbours(neighbours.unit, Relation.REPLACE), norm)

    def every(query, space, norm):
        return {str(n): lenient(query, space, n, norm) for n in Neighbours.every()}

    patch.setattr(sensitivity, "sensitivity", lenient)
    patch.setattr(adumbra.privacy.meter, "bounds", every)
    patch.setattr(test_sensitivity, "bounds", every)
    patch.setattr(adumbra.privacy.meter, "sensitivity", lenient)
    patch.setattr(test_sensitivity, "sensitivity", lenient)


def replace_as_zero_out(patch):
    def weaker(query, space, neighbours, norm="l2"):
        return real_sensitivity(query, space, Neighbours(neighbours.unit, Relation.ZERO_OUT), norm)

    def every(query, space, norm):
        return {
            str(n): weaker(query, space, n, norm) for n in Neighbours.every() if n.relation is not Relation.ADD_REMOVE
        }

    patch.setattr(test_sensitivity, "sensitivity", weaker)
    patch.setattr(adumbra.privacy.meter, "sensitivity", weaker)
    patch.setattr(adumbra.privacy.meter, "bounds", every)


def span_ignores_a_column(patch):
    patch.setattr(Space, "span", property(lambda self: 0.5 * GRID))
    patch.setattr(Space, "reach", property(lambda self: 0.25 * GRID))
    patch.setattr(sensitivity, "_box", lambda *_: np.inf)


def seed_always_fresh(patch):
    patch.setattr(test_meter.PublicSeed, "claim_freshness", lambda self: True)


def root_two_for_all_weights(patch):
    def assumed(query, space, relation, norm):
        return math.sqrt(2.0 * (query.counts**2 + query.sums**2 + query.second**2))

    patch.setitem(sensitivity._OF_A_ROW, MomentsQuery, assumed)


def added_row_for_a_replaced_one(patch):
    patch.setattr(sensitivity, "_twice", lambda relation: 1.0)


def class_change_ignored(patch):
    def same_class(query, space, relation, norm):
        b, g = query.sums, query.second
        return 2 * b if b * b >= 2 * g * g else math.sqrt(2 * b * b + 2 * g * g + b**4 / (2 * g * g))

    patch.setitem(sensitivity._OF_A_ROW, MomentsQuery, same_class)


def grouped_table_not_counted(patch):
    real = sensitivity._tables

    def pooled_only(query, *rest):
        return real(TablesQuery(query.cells, query.groups, query.pooled, 0.0), *rest)

    patch.setitem(sensitivity._OF_A_ROW, TablesQuery, pooled_only)


def gram_thought_free(patch):
    def rows_only(query, space, relation, norm):
        return real_sensitivity(query.map, space, Neighbours(Unit.ROW, relation), norm)

    patch.setitem(sensitivity._OF_A_ROW, RowsAndGram, rows_only)


def gram_without_root_two(patch):
    """The bound for a row that is added, used for one that is replaced."""
    real = sensitivity._gram

    def one(query, space, relation, norm):
        return real(query, space, Relation.ADD_REMOVE, norm)

    patch.setattr(sensitivity, "_gram", one)
    patch.setitem(sensitivity._OF_A_ROW, Gram, one)


def replaced_set_paid_as_added(patch):
    """A basket that is exchanged takes its items away and brings others."""

    def one(query, space, relation, norm):
        return set_sensitivity.items(query, space, Relation.ADD_REMOVE, norm)

    patch.setitem(sensitivity._OF_A_ROW, ItemsQuery, one)


def set_taken_for_a_category(patch):
    """As if a cell held one value."""
    for name, values in (("filled", 1), ("changed", 2)):
        patch.setattr(Block, name, property(lambda self, values=values: min(self.width, values)))


def fresh_rows_taken_for_emptied_ones(patch):
    real = adumbra.privacy.meter.row_distance
    patch.setattr(adumbra.privacy.meter, "row_distance", lambda space, relation: real(space, Relation.ZERO_OUT))


def fresh_matrix_taken_for_exact(patch):
    real = adumbra.privacy.meter._fresh_projections

    def exact(query, space):
        return {key: dataclasses.replace(fresh, rounding=0.0) for key, fresh in real(query, space).items()}

    patch.setattr(adumbra.privacy.meter, "_fresh_projections", exact)


def smaller_account_taken(patch):
    """Of two true sentences, about this matrix and about all of them, the one that asks for less noise."""
    real = adumbra.privacy.meter._scale

    def luckier(query, space, promise, share, rows, fresh):
        found = [real(query, space, promise, share, rows, account) for account in {fresh, False}]
        return min(found, key=lambda scale: scale.scale)

    patch.setattr(adumbra.privacy.meter, "_scale", luckier)


def dearest_event_stands_for_all(patch):
    """Two answers about one person, each at epsilon 1, called epsilon 1."""
    real = Composition.plus

    def dearest(self, events, neighbours):
        parts = [self, *(real(Composition(), [event], neighbours) for event in events)]
        return dataclasses.replace(real(self, events, neighbours), squares=max(part.squares for part in parts))

    patch.setattr(Composition, "plus", dearest)


def triangle_of_one_row(patch):
    """(d + 1) / 2, which is for a row that is added or emptied, used for one that is replaced."""
    real = sensitivity._triangle_l1
    patch.setattr(sensitivity, "_triangle_l1", lambda width, off, alone: real(width, off, True))


def triangle_bound_of_another_layout(patch):
    """The constant of the plain triangle, used where an entry off the diagonal counts sqrt(2) times."""
    real = sensitivity._triangle_l1
    patch.setattr(sensitivity, "_triangle_l1", lambda width, off, alone: real(width, 1.0, alone))


def products_without_root_two(patch):
    real = sensitivity._gram_times

    def one(query, space, relation, norm):
        return real(query, space, Relation.ADD_REMOVE, norm)

    patch.setitem(sensitivity._OF_A_ROW, GramTimes, one)


def rows_along_axes_paid_as_emptied(patch):
    real = sensitivity._row_map

    def emptied(query, space, relation, norm):
        return real(query, space, relation if query.clip is None else Relation.ZERO_OUT, norm)

    patch.setitem(sensitivity._OF_A_ROW, RowMap, emptied)
    patch.setitem(sensitivity._OF_A_CELL, RowMap, emptied)


def add_remove_bound_kept_under_replace(patch):
    """A sum has a bound for a row that comes or goes; the card beside it shows the number of rows."""
    patch.setattr(Event, "within", lambda self, promised: self)


WEIGHTS = test_sums.WEIGHTS[0]


EVERY_COST = test_cost_table.test_every_stated_cost_holds_for_its_own_neighbours


# second tests, in another file where one was to be had: two that fail are harder to break together
NO_NEIGHBOUR = test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid


CASES = [
    bug(replaced_set_paid_as_added, test_set_sensitivity.test_counts_of_items_move_by_the_bound_and_no_more, 4, 2),
    bug(
        replaced_set_paid_as_added,
        test_items.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        test_items.BUDGETS[0],
    ),
    bug(
        replaced_set_paid_as_added,
        test_items.test_noise_of_the_counts_has_its_scale_and_no_other,
        Relation.REPLACE,
        6,
        6,
    ),
    bug(set_taken_for_a_category, test_set_sensitivity.test_counts_of_items_move_by_the_bound_and_no_more, 4, 2),
    bug(set_taken_for_a_category, test_set_sensitivity.test_distances_between_sets_are_what_a_block_says, 4, 2),
    bug(
        set_taken_for_a_category,
        test_items.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        test_items.BUDGETS[3],
    ),
    bug(one_hot_as_one_column, test_sensitivity.test_one_hot_change_counts_both_coordinates),
    bug(one_hot_as_one_column, test_sensitivity.test_no_cell_change_exceeds_the_bound_and_the_worst_reaches_it),
    bug(add_remove_as_replace, test_sensitivity.test_row_map_refuses_add_remove_by_name),
    bug(add_remove_as_replace, test_dppro.test_row_map_under_add_remove_is_refused_and_leaks_no_row_count),
    bug(replace_as_zero_out, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    bug(
        replace_as_zero_out,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        0.4,
    ),
    bug(span_ignores_a_column, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    bug(dearest_event_stands_for_all, test_accountant.test_gaussian_answers_compose_as_one, 1.0, 1e-6),
    bug(dearest_event_stands_for_all, test_ledger.test_the_composition_counts_not_each_release),
    bug(seed_always_fresh, test_meter.test_fresh_seed_gets_the_mixture_once_and_reuse_gets_per_matrix),
    bug(seed_always_fresh, test_meter.test_given_seed_never_gets_the_mixture),
    bug(
        fresh_rows_taken_for_emptied_ones,
        test_fresh_projection.test_a_fresh_projection_is_paid_for_the_farthest_rows,
        None,
        Relation.REPLACE,
    ),
    bug(
        fresh_matrix_taken_for_exact,
        test_fresh_projection.test_a_fresh_projection_is_paid_for_the_farthest_rows,
        HALF,
        Relation.REPLACE,
    ),
    bug(smaller_account_taken, test_fresh_projection.test_a_lucky_matrix_gets_no_less_noise),
    bug(root_two_for_all_weights, test_sums.test_a_tenth_and_twice_forty_five_hundredths_exceed_the_root_of_two),
    bug(root_two_for_all_weights, test_sums.test_worst_pair_of_moments, WEIGHTS),
    bug(root_two_for_all_weights, test_sums.test_climbing_finds_no_violating_pair_of_moments, WEIGHTS, True),
    bug(gram_without_root_two, test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    bug(gram_without_root_two, test_sums.test_no_neighbouring_row_exceeds_the_bound, "gram, mixed, clipped"),
    bug(gram_without_root_two, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "gram"),
    bug(added_row_for_a_replaced_one, test_sums.test_worst_pair_of_tables, 1.0, 0.0),
    bug(added_row_for_a_replaced_one, test_sums.test_worst_pair_of_centre_and_scale),
    bug(added_row_for_a_replaced_one, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "tables"),
    bug(
        added_row_for_a_replaced_one,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "tables",
        Relation.REPLACE,
        None,
    ),
    bug(class_change_ignored, test_sums.test_worst_pair_of_moments, (3.0, 0.1, 0.1)),
    bug(
        class_change_ignored,
        test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power,
        "moments, two classes",
    ),
    bug(grouped_table_not_counted, test_sums.test_worst_pair_of_tables, 0.6, 1.3),
    bug(grouped_table_not_counted, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "tables"),
    bug(gram_thought_free, test_sums.test_worst_pair_of_rows_and_gram, "identity", 4.0),
    bug(gram_thought_free, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(
        gram_thought_free,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        None,
    ),
    bug(triangle_of_one_row, test_second_moment.test_worst_pair_of_the_triangle, 8, True),
    bug(triangle_of_one_row, test_second_moment.test_no_signs_are_worse_than_the_constant, 4, 1.0),
    bug(triangle_bound_of_another_layout, test_second_moment.test_worst_pair_of_the_triangle, 8, False),
    bug(gram_without_root_two, test_second_moment.test_no_neighbour_exceeds_the_bound, "8 numbers", HALF // 2),
    bug(products_without_root_two, test_second_moment.test_worst_pair_of_products, 2),
    bug(products_without_root_two, test_second_moment.test_worst_pair_of_products_in_all_numbers, 2),
    bug(rows_along_axes_paid_as_emptied, test_second_moment.test_worst_pair_of_rows_along_axes, 3),
    bug(add_remove_bound_kept_under_replace, EVERY_COST, "tables", "row", "replace", None),
    bug(add_remove_bound_kept_under_replace, EVERY_COST, "lip", "row", "zero-out", None),
    bug(
        add_remove_bound_kept_under_replace,
        test_cost_table.test_an_event_has_no_bound_for_a_relation_that_its_release_breaks,
        Neighbours(Unit.CELL, Relation.REPLACE),
    ),
    bug(
        add_remove_bound_kept_under_replace,
        test_cost_table.test_a_cap_for_add_remove_refuses_what_publishes_the_number_of_rows,
        Neighbours(Unit.ROW, Relation.REPLACE),
    ),
    bug(
        add_remove_bound_kept_under_replace,
        test_cost_table.test_a_line_of_an_earlier_version_counts_only_what_its_release_kept,
        Neighbours(Unit.ROW, Relation.ZERO_OUT),
    ),
    bug(span_ignores_a_column, test_row_bounds.test_no_corner_of_a_large_mixed_space_exceeds_the_row_bound),
    bug(
        smaller_account_taken,
        test_fresh_projection.test_dimension_and_noise_of_a_fresh_projection_do_not_look_at_the_matrix,
    ),
    bug(seed_always_fresh, test_fresh_projection.test_a_matrix_shown_by_a_plan_is_not_accounted_as_fresh),
    bug(root_two_for_all_weights, NO_NEIGHBOUR, "hybrid", Relation.REPLACE, None),
    bug(triangle_bound_of_another_layout, test_second_moment.test_one_row_of_the_triangle, 2),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
