"""Bugs planted in histograms, strategies and sketches, and the tests that notice."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import adumbra.queries.histograms
from adumbra.declare.guarantee import Relation
from adumbra.numerics.sensing import DenseSensing, Hadamard, Sensing, SparseSigns
from adumbra.numerics.strategies import Haar, Identity, Tree, Waves, padded
from adumbra.privacy import sensitivity, strategy_sensitivity
from adumbra.queries.histograms import HistogramQuery, TailChoice, spectrum_tails
from tests.mechanisms import test_contract
from tests.numerics import test_sensing, test_strategies
from tests.pipeline import test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.privacy import test_cost_table


def one_column_for_two(patch):
    """A replaced row takes one from a cell and gives it to another; the bound sees the first of them."""
    patch.setattr(
        strategy_sensitivity.Moves,
        "of",
        lambda self, _, norm: self.one_l1 if norm == "l1" else self.one_l2,
    )


def row_without_a_cell_forgotten(patch):
    """A replaced row may have been in no cell: where two columns are nearer than one is long, that is the worse."""
    real = strategy_sensitivity.Moves.of

    def of(self, relation, norm):
        if relation is Relation.ADD_REMOVE:
            return real(self, relation, norm)
        return self.two_l1 if norm == "l1" else self.two_l2

    patch.setattr(strategy_sensitivity.Moves, "of", of)


def level_of_the_tree_forgotten(patch):
    """A tree of four levels has three splits; a row counts on four."""
    real = strategy_sensitivity._tree

    def fewer(strategy):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Tree, "levels", lambda self, axis: max(1, padded(self.shape[axis], self.branching)[1]))
            return real(strategy)

    patch.setattr(strategy_sensitivity, "_tree", fewer)


def wavelets_weighed_half(patch):
    """The bound counts a wavelet half, as if a row were in the mean of its two sides."""

    def halved(strategy):
        entries = math.prod(1 + padded(n)[1] / 2 for n in strategy.shape)
        return strategy_sensitivity.Moves(entries, math.sqrt(entries), 2 * entries, math.sqrt(2 * entries))

    patch.setattr(strategy_sensitivity, "_haar", halved)


def axes_of_wavelets_added(patch):
    """Levels of all axes are added where they multiply."""

    def added(strategy):
        entries = 1 + sum(padded(n)[1] for n in strategy.shape)
        return strategy_sensitivity.Moves(entries, math.sqrt(entries), 2 * entries, math.sqrt(2 * entries))

    patch.setattr(strategy_sensitivity, "_haar", added)


def plain_axis_taken_for_a_tree(patch):
    """Two cells apart on an axis without a root are thought to share one."""
    patch.setattr(strategy_sensitivity, "_differ_plainly", lambda strategy: False)


def emptied_row_thought_nowhere(patch):
    """An emptied row counts in the cell for what is missing."""
    patch.setattr(strategy_sensitivity, "_emptied_is_nowhere", lambda query: True)


def waves_not_divided_by_their_number(patch):
    """Rows of an orthonormal basis times too much: a column of them is longer in L1 than in L2."""
    real = vars(Waves)["step"].fget
    patch.setattr(Waves, "step", property(lambda self: real(self) * math.sqrt(self.numbers)))


def bound_of_counts_for_every_strategy(patch):
    """The counts get enough noise; what is measured are sums of them."""

    def counted(query, space, relation, norm):
        return strategy_sensitivity.moves(Identity((query.strategy.cells,))).of(relation, norm)

    patch.setitem(sensitivity._OF_A_ROW, HistogramQuery, counted)


def weights_squared_in_the_bound(patch):
    """A weight is divided out once, and enters the bound twice."""
    real = strategy_sensitivity._sketch

    def lighter(sketch):
        if int(sketch.gains.max()) == 1:
            return real(sketch)
        return real(dataclasses.replace(sketch, gains=np.maximum(sketch.gains**2 // 1024, 1)))

    patch.setattr(strategy_sensitivity, "_sketch", lighter)


def weights_multiplied_twice(patch):
    patch.setattr(Sensing, "exact", lambda self, counts: self._whole(counts) * self.gains**2 * self.fine)


def hadamard_columns_thought_orthogonal(patch):
    """True of the whole matrix, not of some of its rows."""
    patch.setattr(strategy_sensitivity, "_signed", lambda sketch, weight: np.zeros(1))


def signs_of_cells_forgotten(patch):
    """Columns that agree more than they differ come out as far apart as they agree, if a cell has the other sign."""
    real = strategy_sensitivity._signed
    patch.setattr(strategy_sensitivity, "_signed", lambda sketch, weight: np.maximum(-real(sketch, weight), 0.0))


def sparse_columns_thought_apart(patch):
    """As if no two cells shared a place: sqrt(2) for 2."""
    real = strategy_sensitivity._widest

    def apart(sketch):
        if not isinstance(sketch, SparseSigns):
            return real(sketch)
        one = strategy_sensitivity._longest_column(sketch)
        return 2 * one[0], math.sqrt(2) * one[1]

    patch.setattr(strategy_sensitivity, "_widest", apart)


def fourier_columns_thought_orthogonal(patch):
    real = strategy_sensitivity._widest

    def apart(sketch):
        if sketch.kind != "fourier":
            return real(sketch)
        one = strategy_sensitivity._longest_column(sketch)
        return math.sqrt(2) * one[0], math.sqrt(2) * one[1]

    patch.setattr(strategy_sensitivity, "_widest", apart)


def largest_product_for_the_least(patch):
    """Columns are farthest apart where their product is least."""

    def largest(matrix, weights):
        products = (matrix * weights.astype(matrix.dtype)[:, None]).T @ matrix
        np.fill_diagonal(products, -np.inf)
        return float(products.max())

    patch.setattr(strategy_sensitivity, "_least_product", largest)


def row_in_two_cells(patch):
    """A value on the edge counts on both sides of it."""
    real = adumbra.queries.histograms._OfCounts.partial

    def smeared(self, batch):
        counts = real(self, batch)["counts"]
        return {"counts": counts + np.roll(counts, 1)}

    patch.setattr(adumbra.queries.histograms._OfCounts, "partial", smeared)


def sums_in_float32(patch):
    """Fast, and no longer exact."""

    def short(self, counts):
        return (self.matrix.astype(np.float32) @ counts.astype(np.float32)).astype(np.float64)

    patch.setattr(DenseSensing, "_whole", short)


def largest_entry_forgotten(patch):
    """A sum of many cells is taken to be as small as a count."""
    for kind in (Hadamard, Haar, Waves):
        patch.setattr(kind, "largest", 1.0)


def choice_paid_for_one_score(patch):
    """Laplace noise for the score that wins; those it is compared with move too."""
    patch.setitem(
        sensitivity._OF_A_ROW,
        TailChoice,
        lambda query, space, relation, norm: strategy_sensitivity._tail(relation),
    )


def choice_with_its_scores(patch):
    real = TailChoice.postprocess
    patch.setattr(TailChoice, "postprocess", lambda self, noisy: real(self, noisy) | noisy)


def choice_without_noise(patch):
    """The noisy scores are drawn; the choice is that of the exact ones."""
    real, last = TailChoice.finalize, {}

    def remembered(self, total):
        last.update(real(self, total))
        return dict(last)

    patch.setattr(TailChoice, "finalize", remembered)
    patch.setattr(
        TailChoice, "postprocess", lambda self, noisy: {"choice": np.array([float(np.argmin(last["scores"]))])}
    )


def tail_of_a_replaced_row_paid_as_added(patch):
    real = strategy_sensitivity._tail
    patch.setattr(strategy_sensitivity, "_tail", lambda relation: real(Relation.ADD_REMOVE))


def fourier_tail_under_zero_out_paid_like_an_added_row(patch):
    """As if an emptied row just went; it can change its cell."""
    real = strategy_sensitivity._tail

    def cheaper(relation):
        return real(Relation.REPLACE if relation is Relation.REPLACE else Relation.ADD_REMOVE)

    patch.setattr(strategy_sensitivity, "_tail", cheaper)


def tail_of_a_transform_that_lengthens(patch):
    """A transform that is not orthonormal: both a frequency and its mirror image count twice."""
    patch.setattr(adumbra.queries.histograms, "spectrum_tails", lambda counts: spectrum_tails(counts) * math.sqrt(2))


EVERY_COST = test_cost_table.test_every_stated_cost_holds_for_its_own_neighbours


WORST_TABLES = test_contract.test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises


AT_THE_DOOR = test_strategies.test_no_neighbouring_table_moves_an_answer_by_more_than_was_paid


# second tests, in another file where one was to be had: two that fail are harder to break together
NO_NEIGHBOUR = test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid


ROW_EXCEEDS = test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it


FORMULAS_HOLD = test_sensing.test_formulas_hold_and_come_as_near_as_stated


ANY_SKETCH = test_sensing.test_no_sketch_of_any_signs_and_weights_exceeds_its_bound


BRINGS_WORST = test_contract.test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises


CASES = [
    bug(one_column_for_two, test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it, "identity", (8,)),
    bug(one_column_for_two, test_strategies.test_the_first_and_the_last_cell_are_the_worst_pair, (4, 4)),
    bug(one_column_for_two, AT_THE_DOOR, "tree of 3", "gaussian"),
    bug(one_column_for_two, AT_THE_DOOR, "hadamard", "laplace"),
    bug(
        row_without_a_cell_forgotten,
        test_strategies.test_a_domain_of_one_cell_still_has_rows_that_are_in_none,
        "hadamard",
    ),
    bug(
        level_of_the_tree_forgotten, test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it, "tree of 2", (9,)
    ),
    bug(level_of_the_tree_forgotten, test_strategies.test_bounds_are_exact_for_any_shape),
    bug(level_of_the_tree_forgotten, AT_THE_DOOR, "tree of 16", "laplace"),
    bug(wavelets_weighed_half, test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it, "haar", (8,)),
    bug(wavelets_weighed_half, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "haar", "laplace"),
    bug(axes_of_wavelets_added, test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it, "haar", (5, 6)),
    bug(axes_of_wavelets_added, AT_THE_DOOR, "haar", "gaussian"),
    bug(plain_axis_taken_for_a_tree, test_strategies.test_bounds_are_exact_for_any_shape),
    bug(
        plain_axis_taken_for_a_tree,
        test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it,
        "haar, first axis plain",
        (5, 6),
    ),
    bug(
        emptied_row_thought_nowhere,
        test_strategies.test_an_emptied_row_goes_or_changes_its_cell,
        ("number:5",),
        True,
    ),
    bug(waves_not_divided_by_their_number, test_strategies.test_waves_stay_within_their_bound_whatever_is_kept, 16),
    bug(bound_of_counts_for_every_strategy, AT_THE_DOOR, "haar", "l2-laplace"),
    bug(bound_of_counts_for_every_strategy, AT_THE_DOOR, "signs", "laplace"),
    bug(
        bound_of_counts_for_every_strategy,
        test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other,
        "tree",
        "gaussian",
    ),
    bug(
        bound_of_counts_for_every_strategy,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "privelet",
        Relation.REPLACE,
        None,
    ),
    bug(weights_squared_in_the_bound, test_sensing.test_the_search_over_all_pairs_is_exact, "gaussian", "many"),
    bug(
        weights_squared_in_the_bound,
        test_sensing.test_formulas_hold_and_come_as_near_as_stated,
        "sparse-signs",
        "two",
        "formula",
    ),
    bug(weights_squared_in_the_bound, AT_THE_DOOR, "weighted hadamard", "laplace"),
    bug(weights_multiplied_twice, test_sensing.test_all_ways_to_apply_a_sketch_agree, "fourier", "two"),
    bug(weights_multiplied_twice, AT_THE_DOOR, "weighted signs", "laplace"),
    bug(
        hadamard_columns_thought_orthogonal,
        test_sensing.test_formulas_hold_and_come_as_near_as_stated,
        "hadamard",
        "equal",
        "formula",
    ),
    bug(hadamard_columns_thought_orthogonal, test_sensing.test_no_sketch_of_any_size_exceeds_its_bound),
    bug(signs_of_cells_forgotten, test_sensing.test_no_sketch_of_any_size_exceeds_its_bound),
    bug(
        sparse_columns_thought_apart,
        test_sensing.test_a_pair_of_sparse_columns_can_be_twice_as_far_apart_as_they_are_long,
    ),
    bug(
        sparse_columns_thought_apart,
        test_sensing.test_no_sketch_of_any_signs_and_weights_exceeds_its_bound,
        "sparse-signs",
    ),
    bug(
        fourier_columns_thought_orthogonal,
        test_sensing.test_formulas_hold_and_come_as_near_as_stated,
        "fourier",
        "equal",
        "formula",
    ),
    bug(
        largest_product_for_the_least,
        test_sensing.test_formulas_hold_and_come_as_near_as_stated,
        "signs",
        "many",
        "formula",
    ),
    bug(row_in_two_cells, test_strategies.test_a_row_counts_in_one_cell_or_in_none),
    bug(row_in_two_cells, AT_THE_DOOR, "identity", "laplace"),
    bug(
        row_in_two_cells,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "laplace",
        Relation.ADD_REMOVE,
        None,
    ),
    bug(
        sums_in_float32,
        test_strategies.test_answers_are_exact_up_to_the_largest_table_that_is_let_in,
        "gaussian",
    ),
    bug(
        largest_entry_forgotten,
        test_strategies.test_answers_are_exact_up_to_the_largest_table_that_is_let_in,
        "haar",
    ),
    bug(choice_paid_for_one_score, test_strategies.test_choices_come_as_often_as_their_law_says),
    bug(choice_paid_for_one_score, test_strategies.test_the_choice_has_the_noise_of_twice_a_score),
    bug(choice_with_its_scores, test_strategies.test_a_choice_hands_out_its_place_and_nothing_else),
    bug(choice_without_noise, test_strategies.test_choices_come_as_often_as_their_law_says),
    bug(
        tail_of_a_replaced_row_paid_as_added,
        test_strategies.test_two_opposite_cells_move_a_tail_by_the_root_of_two,
    ),
    bug(tail_of_a_replaced_row_paid_as_added, WORST_TABLES, "fourier"),
    bug(tail_of_a_transform_that_lengthens, test_strategies.test_no_row_moves_a_tail_by_more_than_its_bound, 100),
    bug(tail_of_a_transform_that_lengthens, test_strategies.test_tails_are_lengths_of_what_the_waves_leave_out),
    bug(fourier_tail_under_zero_out_paid_like_an_added_row, WORST_TABLES, "fourier"),
    bug(
        fourier_tail_under_zero_out_paid_like_an_added_row,
        test_strategies.test_an_emptied_row_moves_a_tail_like_a_replaced_one,
    ),
    bug(fourier_tail_under_zero_out_paid_like_an_added_row, EVERY_COST, "fourier, no waves", "row", "zero-out", None),
    bug(one_column_for_two, NO_NEIGHBOUR, "laplace", Relation.REPLACE, None),
    bug(row_without_a_cell_forgotten, ROW_EXCEEDS, "identity", (1,)),
    bug(level_of_the_tree_forgotten, NO_NEIGHBOUR, "hierarchical", Relation.REPLACE, None),
    bug(wavelets_weighed_half, BRINGS_WORST, "privelet"),
    bug(plain_axis_taken_for_a_tree, NO_NEIGHBOUR, "privelet", Relation.REPLACE, None),
    bug(emptied_row_thought_nowhere, BRINGS_WORST, "laplace"),
    bug(waves_not_divided_by_their_number, NO_NEIGHBOUR, "fourier", Relation.ZERO_OUT, None),
    bug(signs_of_cells_forgotten, FORMULAS_HOLD, "hadamard", "two", "formula"),
    bug(fourier_columns_thought_orthogonal, ANY_SKETCH, "fourier"),
    bug(largest_product_for_the_least, ANY_SKETCH, "signs"),
    bug(choice_with_its_scores, test_strategies.test_choices_come_as_often_as_their_law_says),
    bug(tail_of_a_replaced_row_paid_as_added, test_strategies.test_no_row_moves_a_tail_by_more_than_its_bound, 2),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
