"""Plant each bug and see a named test fail: a test that cannot fail proves nothing.

Each case patches one function the way a plausible mistake would, runs the test that should notice, and fails if the
test still passes.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest

import adumbra.core.sums
import adumbra.pipeline
import adumbra.privacy.ledger
import adumbra.privacy.meter
import adumbra.table.encode
from adumbra.core.guarantee import Neighbours, Relation, Unit
from adumbra.core.scores import BALL, Scores
from adumbra.core.space import GRID, HALF, Space
from adumbra.core.sums import Gram, Moments, Tables
from adumbra.privacy import calibrate, noise, sensitivity
from tests import (
    test_answers,
    test_contract,
    test_dppro,
    test_encode,
    test_meter,
    test_sensitivity,
    test_sums,
    test_sums_audit,
    test_synthetic,
)

real_add_noise = noise.add_noise
real_sensitivity = sensitivity.sensitivity


def half_noise(patch):
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **kw: real_add_noise(law, exact, t / 2, step, **kw))


def two_thirds_noise(patch):
    patch.setattr(noise, "add_noise", lambda law, e, t, step, **kw: real_add_noise(law, e, t * 2 / 3, step, **kw))


def half_sigma(patch):
    real = calibrate.mu_for
    patch.setattr(calibrate, "mu_for", lambda epsilon, delta: 2 * real(epsilon, delta))


def skipped_row_clip(patch):
    patch.setattr(adumbra.pipeline, "clip_rows", lambda values, bound: (values, 0))


def skipped_range_clip(patch):
    real = adumbra.pipeline.encode

    def unclipped(frame, schema):
        encoded = real(frame, schema)
        wild = encoded.values.copy()
        wild[np.abs(wild) == HALF] *= 2
        return type(encoded)(wild, encoded.repairs)

    patch.setattr(adumbra.pipeline, "encode", unclipped)


def bound_read_from_data(patch):
    real = adumbra.table.encode.encode

    def scaled(frame, schema):
        encoded = real(frame, schema)
        largest = np.abs(encoded.values).max(axis=0, initial=1.0)
        return type(encoded)(np.rint(encoded.values * (HALF / np.maximum(largest, 1.0))), encoded.repairs)

    patch.setattr(adumbra.table.encode, "encode", scaled)
    patch.setattr(test_encode, "encode", scaled)


def same_noise_twice(patch):
    patch.setattr(noise, "operating_system_key", lambda: b"0" * 32)


def noise_shared_between_rows(patch):
    def shared(law, exact, t, step, **kw):
        one = real_add_noise(law, np.zeros((1, exact.shape[1])), t, step, **kw)
        return exact * step + one

    patch.setattr(noise, "add_noise", shared)


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

    patch.setattr(test_sensitivity, "sensitivity", weaker)


def span_ignores_a_column(patch):
    patch.setattr(Space, "span", property(lambda self: 0.5 * GRID))
    patch.setattr(Space, "reach", property(lambda self: 0.25 * GRID))
    patch.setattr(sensitivity, "_box", lambda *_: np.inf)


def charge_after_measuring(patch):
    real = adumbra.privacy.meter.Meter.measure

    def late(self, line, query):
        till, self._till = self._till, lambda *_: None
        noisy = real(self, line, query)
        batches = list(noisy.batches)
        till(line, noisy.calibration.event)
        return type(noisy)(iter(batches), noisy.dimension, noisy.rows, noisy.calibration)

    patch.setattr(adumbra.privacy.meter.Meter, "measure", late)


def line_spent_twice(patch):
    real = adumbra.privacy.meter.Meter.measure

    def generous(self, line, query):
        lines = dict(self._open)
        noisy = real(self, line, query)
        self._open.update(lines)
        return noisy

    patch.setattr(adumbra.privacy.meter.Meter, "measure", generous)


def seed_always_fresh(patch):
    patch.setattr(test_meter.PublicSeed, "claim_freshness", lambda self: True)


def door_does_not_look(patch):
    patch.setattr(adumbra.privacy.meter, "_check_bounded", lambda batch, space: None)


def slack_forgotten(patch):
    patch.setattr(noise, "gaussian_slack_per_draw", lambda: 0.0)


def distance_not_debiased(patch):
    from adumbra.answer.projected import _Band

    def raw(self, i, j):
        change = self.rows[i] - self.rows[j]
        return (change**2).sum(axis=1)

    patch.setattr(_Band, "squared", raw)


def error_without_projection(patch):
    from adumbra.answer import projected

    patch.setattr(projected, "projection_factor", lambda *_: 0.0)


def root_two_for_all_weights(patch):
    def assumed(query, space, relation, norm):
        return math.sqrt(2.0 * (query.counts**2 + query.sums**2 + query.second**2))

    patch.setitem(sensitivity._SUMS, Moments, assumed)


def upper_triangle_weighed(factor):
    """An entry off the diagonal stands for two: its weight is sqrt(2) times the diagonal's."""

    def plant(patch):
        real = adumbra.core.sums._matrix_parts

        def other(width, weight, *rest):
            parts = real(width, weight, *rest)
            return [dataclasses.replace(p, weight=weight * factor) if p.name == "upper" else p for p in parts]

        patch.setattr(adumbra.core.sums, "_matrix_parts", other)
        for kind in (Gram, Moments):  # queries that other tests made before remember their parts
            patch.setattr(kind, "parts", property(vars(kind)["parts"].func))

    plant.__name__ = f"upper_triangle_weighed_{factor}"
    return plant


def scores_not_clipped(patch):
    patch.setattr(Scores, "of", lambda self, batch: np.trunc(self.linear.of(batch) * (BALL / self.radius)))


def added_row_for_a_replaced_one(patch):
    patch.setattr(sensitivity, "_twice", lambda relation: 1.0)


def class_change_ignored(patch):
    def same_class(query, space, relation, norm):
        b, g = query.sums, query.second
        return 2 * b if b * b >= 2 * g * g else math.sqrt(2 * b * b + 2 * g * g + b**4 / (2 * g * g))

    patch.setitem(sensitivity._SUMS, Moments, same_class)


def grouped_table_not_counted(patch):
    real = sensitivity._tables

    def pooled_only(query, *rest):
        return real(Tables(query.cells, query.groups, query.pooled, 0.0), *rest)

    patch.setitem(sensitivity._SUMS, Tables, pooled_only)


def gram_thought_free(patch):
    def rows_only(query, space, relation, norm):
        return real_sensitivity(query.map, space, Neighbours(Unit.ROW, relation), norm)

    patch.setattr(sensitivity, "_rows_and_gram", rows_only)


def noise_for_each_batch(patch):
    def summed(rows, query, calibration):
        law, out = calibration.event.noise, {part.name: np.zeros(part.shape) for part in query.parts}
        for answer in adumbra.privacy.meter._each_batch(rows, query.answer):
            for part in query.parts:
                steps = calibration.parts[part.name].steps
                out[part.name] += noise.add_noise(law, answer[part.name], steps, part.step)
        return out

    patch.setattr(adumbra.privacy.meter, "_summed", summed)


def half_noise_on_one_part(patch):
    real = adumbra.privacy.meter._steps
    patch.setattr(
        adumbra.privacy.meter, "_steps", lambda scale, part: real(scale, part) / (2 if part.name == "upper" else 1)
    )


def all_parts_one_noise(patch):
    patch.setattr(noise, "operating_system_key", lambda: b"0" * 32)


def empty_class_counted_as_the_last(patch):
    real = adumbra.core.sums.Groups.of
    patch.setattr(adumbra.core.sums.Groups, "of", lambda self, batch: real(self, batch) % self.count)


WEIGHTS = test_sums.WEIGHTS[0]
LABELLED = "moments by class, mixed"


def only_the_first_look_charged(patch):
    real = adumbra.privacy.ledger.Ledger.charge

    def forgetful(self, *, events, **rest):
        return real(self, events=dict(list(events.items())[:1]), **rest)

    patch.setattr(adumbra.privacy.ledger.Ledger, "charge", forgetful)


def rows_published_although_private(patch):
    real = adumbra.pipeline.Setting

    def leaky(space, rows, neighbours, seed, preview, labels):
        return real(space, 60 if rows is None else rows, neighbours, seed, preview, labels)

    patch.setattr(adumbra.pipeline, "Setting", leaky)


def model_sees_the_exact_sums(patch):
    """Noise is added, and thrown away."""

    def useless(law, exact, t, step, **kw):
        real_add_noise(law, exact, t, step, **kw)
        return exact * step

    patch.setattr(noise, "add_noise", useless)


def _cap_case():
    with tempfile.TemporaryDirectory() as place:
        test_synthetic.test_a_cap_refuses_all_looks_or_none("moments", Path(place))


CASES = [
    (only_the_first_look_charged, _cap_case),
    (
        rows_published_although_private,
        lambda: test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed("tables"),
    ),
    (
        model_sees_the_exact_sums,
        lambda: test_contract.test_the_seed_repeats_the_public_part_and_never_the_noise("hybrid"),
    ),
    (half_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    (half_noise, test_meter.test_laplace_noise_has_the_calibrated_scale_and_no_other),
    (two_thirds_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    (half_sigma, lambda: test_meter.test_calibration_costs_what_was_promised(1.0, test_meter.CELL.neighbours)),
    (skipped_row_clip, test_dppro.test_row_clip_bounds_what_leaves),
    (skipped_range_clip, test_dppro.test_out_of_range_cells_are_clipped),
    (bound_read_from_data, test_encode.test_scaling_comes_from_the_schema_and_never_from_the_data),
    (same_noise_twice, test_meter.test_noise_is_never_shared_between_rows_columns_batches_or_runs),
    (same_noise_twice, lambda: test_contract.test_the_seed_repeats_the_public_part_and_never_the_noise("dppro")),
    (noise_shared_between_rows, test_meter.test_noise_is_never_shared_between_rows_columns_batches_or_runs),
    (one_hot_as_one_column, test_sensitivity.test_one_hot_change_counts_both_coordinates),
    (one_hot_as_one_column, test_sensitivity.test_no_cell_change_exceeds_the_bound_and_the_worst_reaches_it),
    (add_remove_as_replace, test_sensitivity.test_row_map_refuses_add_remove_by_name),
    (add_remove_as_replace, test_dppro.test_row_map_under_add_remove_is_refused_and_leaks_no_row_count),
    (replace_as_zero_out, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    (span_ignores_a_column, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    (charge_after_measuring, test_meter.test_charge_comes_before_any_row_is_read),
    (line_spent_twice, test_meter.test_a_line_is_spent_once_and_answers_are_read_once),
    (seed_always_fresh, test_meter.test_fresh_seed_gets_the_mixture_once_and_reuse_gets_per_matrix),
    (seed_always_fresh, test_meter.test_given_seed_never_gets_the_mixture),
    (door_does_not_look, test_meter.test_unclipped_rows_never_get_out),
    (slack_forgotten, test_dppro.test_slack_of_the_sampler_is_inside_delta),
    (distance_not_debiased, test_answers.test_distances_are_unbiased_and_intervals_cover),
    (error_without_projection, test_answers.test_intervals_cover_when_the_projection_dominates),
    (root_two_for_all_weights, test_sums.test_a_tenth_and_twice_forty_five_hundredths_exceed_the_root_of_two),
    (root_two_for_all_weights, lambda: test_sums.test_worst_pair_of_moments(WEIGHTS)),
    (root_two_for_all_weights, lambda: test_sums.test_climbing_finds_no_violating_pair_of_moments(WEIGHTS, True)),
    (upper_triangle_weighed(1.0), lambda: test_sums.test_noise_of_every_part_has_its_scale_and_no_other("gram")),
    (upper_triangle_weighed(1.0), test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    (upper_triangle_weighed(2.0), test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    (upper_triangle_weighed(2.0), lambda: test_sums.test_no_neighbouring_row_exceeds_the_bound("gram, mixed")),
    (scores_not_clipped, test_sums.test_scores_lie_in_the_ball_whatever_the_centre_and_the_scale),
    (scores_not_clipped, test_sums.test_scores_keep_directions_and_inner_points),
    (scores_not_clipped, lambda: test_sums.test_climbing_finds_no_violating_pair_of_moments(WEIGHTS, True)),
    (added_row_for_a_replaced_one, lambda: test_sums.test_worst_pair_of_tables(1.0, 0.0)),
    (added_row_for_a_replaced_one, test_sums.test_worst_pair_of_centre_and_scale),
    (
        added_row_for_a_replaced_one,
        lambda: test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power("tables"),
    ),
    (class_change_ignored, lambda: test_sums.test_worst_pair_of_moments((3.0, 0.1, 0.1))),
    (
        class_change_ignored,
        lambda: test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power("moments, two classes"),
    ),
    (grouped_table_not_counted, lambda: test_sums.test_worst_pair_of_tables(0.6, 1.3)),
    (
        grouped_table_not_counted,
        lambda: test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power("tables"),
    ),
    (gram_thought_free, lambda: test_sums.test_worst_pair_of_rows_and_gram("identity", 4.0)),
    (gram_thought_free, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    (noise_for_each_batch, lambda: test_sums.test_noise_of_every_part_has_its_scale_and_no_other("tables")),
    (half_noise_on_one_part, lambda: test_sums.test_noise_of_every_part_has_its_scale_and_no_other("moments")),
    (half_noise_on_one_part, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    (all_parts_one_noise, lambda: test_sums.test_noise_of_every_part_has_its_scale_and_no_other("moments")),
    (empty_class_counted_as_the_last, lambda: test_sums.test_answers_are_what_the_definition_says(LABELLED)),
    (empty_class_counted_as_the_last, test_sums.test_empty_flags_and_categories_have_no_cell_and_no_class),
]


@pytest.mark.parametrize(
    ("plant", "test"), CASES, ids=[f"{plant.__name__}-{getattr(test, '__name__', 'case')}" for plant, test in CASES]
)
def test_a_planted_bug_is_caught(plant, test, monkeypatch):
    caught = None
    with monkeypatch.context() as patch:
        plant(patch)
        try:
            test()
        except (Exception, pytest.fail.Exception) as failure:
            caught = failure
    assert caught is not None, f"{plant.__name__} went unnoticed"
