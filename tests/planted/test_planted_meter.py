"""Bugs planted in the meter, and the tests that notice."""

from __future__ import annotations

import numpy as np

import adumbra.privacy.engine
import adumbra.privacy.meter
from adumbra.declare.guarantee import Relation
from adumbra.noise import add as noise
from adumbra.privacy.engine import Totals
from adumbra.queries.row_map import RowClip
from adumbra.queries.second_moment import MomentsQuery
from tests.mechanisms import test_contract, test_dppro, test_synthetic
from tests.pipeline import test_changed_table, test_refused_before_the_charge, test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.planted.test_planted_pipeline import clip_after_projection
from tests.privacy import test_engine, test_long_tables, test_meter
from tests.queries import test_second_moment, test_sums


def charge_after_measuring(patch):
    real = adumbra.privacy.meter.Meter.measure

    def late(self, line, query):
        charge, self._charge = self._charge, lambda *_: None
        noisy = real(self, line, query)
        batches = list(noisy.batches)
        charge(line, self.done[line].event)
        return type(noisy)(iter(batches))

    patch.setattr(adumbra.privacy.meter.Meter, "measure", late)


def line_spent_twice(patch):
    real = adumbra.privacy.meter.Meter.measure

    def generous(self, line, query):
        lines = dict(self._open)
        noisy = real(self, line, query)
        self._open.update(lines)
        return noisy

    patch.setattr(adumbra.privacy.meter.Meter, "measure", generous)


def door_does_not_look(patch):
    patch.setattr(adumbra.privacy.engine, "check_bounded", lambda batch, space: None)


def rows_taken_as_an_engine_gives_them(patch):
    patch.setattr(adumbra.privacy.meter._Noised, "taken", lambda found: getattr(found, "rows", found))


def folded_rows_not_counted(patch):
    def total(rows, query, engine, same=None):
        found = dict(engine.fold(adumbra.privacy.engine.SumPartial(query, rows.space), rows._for_the_meter()))
        found.pop(adumbra.privacy.engine.FOLDED, None)
        return found

    patch.setattr(adumbra.privacy.meter, "_total", total)


def noise_for_each_batch(patch):
    def summed(rows, query, calibration, *_):
        law, out = calibration.event.noise, {part.name: np.zeros(part.shape) for part in query.parts}
        for answer in map(query.answer, rows._for_the_meter()):
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


def looks_share_their_key(patch):
    """One key a release, and a counter that starts anew with every look."""
    real, counted = adumbra.privacy.meter.Meter.measure, [0]

    def measure(self, line, query):
        counted[0] = 0
        return real(self, line, query)

    def key():
        counted[0] += 1
        return counted[0].to_bytes(32, "big")

    patch.setattr(adumbra.privacy.meter.Meter, "measure", measure)
    patch.setattr(noise, "operating_system_key", key)


def clip_moved_behind_the_door(patch):
    """The same, by somebody who forgot the check at the door."""
    check = adumbra.privacy.engine.check_bounded
    clip_after_projection(patch)
    patch.setattr(adumbra.privacy.engine, "check_bounded", check)


def triangles_noised_apart(patch):
    """Both triangles get noise of the upper one's scale, and are then made one by their mean."""
    real = adumbra.privacy.meter._summed

    def symmetrised(rows, query, calibration, engine, same=None):
        out = real(rows, query, calibration, engine, same)
        if "upper" in out:
            out["upper"] = (out["upper"] + real(rows, query, calibration, engine)["upper"]) / 2
        return out

    patch.setattr(adumbra.privacy.meter, "_summed", symmetrised)


def charge_forgotten(patch):
    real = adumbra.privacy.meter.Meter.__init__

    def free(self, rows, promise, lines, charge, engine=None):
        real(self, rows, promise, lines, lambda line, event: None, engine)

    patch.setattr(adumbra.privacy.meter.Meter, "__init__", free)


def class_sizes_taken_for_public(patch):
    """The counts of classes leave without noise; everything else has it."""
    real = adumbra.privacy.meter._summed

    def bare(rows, query, calibration, *rest):
        if not isinstance(query, MomentsQuery):
            return real(rows, query, calibration, *rest)
        counted = []

        def remembered(batch):
            found = MomentsQuery.partial(query, batch)
            counted.append(found["counts"].copy())
            return found

        object.__setattr__(query, "partial", remembered)
        out = real(rows, query, calibration, *rest)
        return out | {"counts": sum(counted) * calibration.parts["counts"].step}

    patch.setattr(adumbra.privacy.meter, "_summed", bare)


def label_passed_around_the_noise(patch):
    """A label must be clean to train on: the last coordinate of every row leaves as it is."""
    real = adumbra.privacy.meter._answers

    def clean(rows, query, calibration, *rest):
        exact = (query.mapped(batch) for batch in rows._for_the_meter())
        for noisy, truth in zip(real(rows, query, calibration, *rest), exact, strict=True):
            noisy[:, -1] = truth[:, -1] * query.answer_step
            yield noisy

    patch.setattr(adumbra.privacy.meter, "_answers", clean)


def later_look_gets_what_an_earlier_one_says(patch):
    """The share of a second look is what the first look says it deserves."""
    real = adumbra.privacy.meter.Meter.measure

    def greedy(self, line, query):
        noisy = real(self, line, query)
        for left in self._open:
            self._open[left] *= 1.0 + 0.1 * float(abs(np.tanh(noisy.values["sums"][0])))
        return noisy

    patch.setattr(adumbra.privacy.meter.Meter, "measure", greedy)


def changed_table_not_noticed(patch):
    patch.setattr(adumbra.privacy.meter._SameTable, "done", lambda self: True)


def rows_cut_a_step_too_long_at_the_door(patch):
    """A clipped row is rounded to the nearest whole steps where it should be rounded towards zero."""

    def rounded(self, rows):
        moved = np.array(rows if self.centre is None else rows - self.centre, dtype=float)
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.rint(moved * np.minimum(1.0, self.bound / np.maximum(lengths, 1.0)))

    patch.setattr(RowClip, "of", rounded)


def partial_totals_added_in_float64(patch):
    """Rounded beyond 2^53, and cast to integers too late."""

    def rounded(self, partial):
        for name, value in partial.numbers.items():
            total = value + self._whole[name].astype(np.float64) if name in self._whole else value
            self._whole[name] = total.astype(np.int64)
            value[...] = 0.0
        partial.rows = 0

    patch.setattr(Totals, "_empty", rounded)


def partial_totals_of_32_bits(patch):
    """They wrap around."""
    real = Totals._empty

    def wrapped(self, partial):
        for value in partial.numbers.values():
            value[...] = value.astype(np.int64).astype(np.int32)
        real(self, partial)

    patch.setattr(Totals, "_empty", wrapped)


# second tests, in another file where one was to be had: two that fail are harder to break together
NO_NEIGHBOUR = test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid


BAD_ENGINE = test_engine.test_an_engine_that_leaves_out_noise_or_counts_rows_twice_is_refused
BAD_ENGINE_RELEASES = test_engine.test_an_engine_that_does_not_work_is_found_out_before_the_charge
CASES = [
    bug(clip_moved_behind_the_door, test_dppro.test_row_clip_bounds_what_leaves),
    bug(charge_after_measuring, test_meter.test_charge_comes_before_any_row_is_read),
    bug(charge_forgotten, test_synthetic.test_a_cap_refuses_all_looks_or_none, "tables"),
    bug(charge_forgotten, test_refused_before_the_charge.test_a_refused_charge_cannot_be_passed_by),
    bug(line_spent_twice, test_meter.test_a_line_is_spent_once_and_answers_are_read_once),
    bug(line_spent_twice, test_sums.test_a_line_of_a_sum_is_spent_once),
    bug(later_look_gets_what_an_earlier_one_says, test_contract.test_what_is_planned_is_what_is_measured, "moments"),
    bug(
        changed_table_not_noticed,
        test_changed_table.test_a_table_that_changes_between_rows_and_second_moment_is_refused,
    ),
    bug(door_does_not_look, test_meter.test_unclipped_rows_never_get_out),
    bug(triangles_noised_apart, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "gram"),
    bug(triangles_noised_apart, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(class_sizes_taken_for_public, test_synthetic.test_the_rows_are_drawn_from_published_numbers_alone, "moments"),
    bug(class_sizes_taken_for_public, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(label_passed_around_the_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(noise_for_each_batch, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "tables"),
    bug(half_noise_on_one_part, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(half_noise_on_one_part, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(looks_share_their_key, test_sums.test_looks_of_one_release_share_no_noise, 1e-6),
    bug(
        rows_cut_a_step_too_long_at_the_door,
        test_second_moment.test_the_door_answers_what_the_query_says,
        "all kinds",
        "1",
    ),
    bug(looks_share_their_key, test_second_moment.test_rounds_of_the_power_method_share_no_noise),
    bug(partial_totals_added_in_float64, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 1),
    bug(partial_totals_added_in_float64, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 2),
    bug(partial_totals_of_32_bits, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 1),
    bug(partial_totals_of_32_bits, test_long_tables.test_a_total_of_many_partials_is_the_total, "gram, mixed", 1),
    bug(partial_totals_added_in_float64, test_sums.test_full_totals_add_up_in_integers),
    bug(clip_moved_behind_the_door, NO_NEIGHBOUR, "dppro", Relation.REPLACE, 0.4),
    bug(charge_after_measuring, test_meter.test_refused_charge_reads_nothing),
    bug(later_look_gets_what_an_earlier_one_says, NO_NEIGHBOUR, "moments", Relation.REPLACE, None),
    bug(door_does_not_look, test_sums.test_rows_that_break_their_bound_are_not_summed),
    bug(noise_for_each_batch, test_sums.test_noise_of_a_count),
    bug(rows_taken_as_an_engine_gives_them, BAD_ENGINE, test_engine.Exact, test_engine.ROWS_QUERY),
    bug(rows_taken_as_an_engine_gives_them, BAD_ENGINE_RELEASES, test_engine.Exact, "dppro"),
    bug(folded_rows_not_counted, BAD_ENGINE, test_engine.Retrying, test_engine.SUM_QUERY),
    bug(folded_rows_not_counted, BAD_ENGINE_RELEASES, test_engine.Retrying, "histogram"),
    bug(triangles_noised_apart, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lip"),
    bug(rows_cut_a_step_too_long_at_the_door, NO_NEIGHBOUR, "analyze_gauss", Relation.ZERO_OUT, None),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
