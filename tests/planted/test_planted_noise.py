"""Bugs planted in samplers, keys and coins, and the tests that notice."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import threading
from types import SimpleNamespace

import numpy as np

import adumbra.common.randomness
import adumbra.privacy.meter
from adumbra.accounting import calibrate
from adumbra.common.randomness import Coins
from adumbra.noise import add as noise
from tests.common import test_coins
from tests.mechanisms import test_contract, test_dppro
from tests.noise import test_noise, test_noise_keys, test_noise_scale
from tests.numerics import test_strategies
from tests.pipeline import test_refused_before_the_charge
from tests.planted.planting import assert_caught, bug, parametrized
from tests.privacy import test_cost_table, test_long_tables, test_meter
from tests.queries import test_second_moment, test_sums

real_urandom = os.urandom


real_add_noise = noise.add_noise


real_add_l2_noise = noise.add_l2_noise


real_add_l2_noise_by_row = noise.add_l2_noise_by_row


def half_noise(patch):
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **kw: real_add_noise(law, exact, t / 2, step, **kw))


def two_thirds_noise(patch):
    patch.setattr(noise, "add_noise", lambda law, e, t, step, **kw: real_add_noise(law, e, t * 2 / 3, step, **kw))


def half_sigma(patch):
    real = calibrate.mu_for
    patch.setattr(calibrate, "mu_for", lambda epsilon, delta: 2 * real(epsilon, delta))


def same_noise_twice(patch):
    patch.setattr(noise, "operating_system_key", lambda: b"0" * 32)


def key_of_16_bits(patch):
    """32 bytes, of which two are random: as good to look at as any other noise."""
    real = noise.operating_system_key
    patch.setattr(noise, "operating_system_key", lambda: real()[:2] + bytes(30))


def key_kept_by_the_process(patch):
    """One key a process, and a counter for the calls: nothing repeats until somebody forks."""
    patch.setattr(os, "urandom", real_urandom)  # entropy that forks do not share
    root, calls = os.urandom(32), itertools.count()
    patch.setattr(noise, "operating_system_key", lambda: hashlib.sha256(root + next(calls).to_bytes(8, "big")).digest())


def generator_kept_by_the_thread(patch):
    """A generator a thread, which goes on where it stopped: fast, and copied by a fork."""
    patch.setattr(os, "urandom", real_urandom)
    stream, key, kept = noise.KeyStream, noise.operating_system_key, threading.local()

    def own(_):
        if not hasattr(kept, "stream"):
            kept.stream = stream(key())
        return kept.stream

    patch.setattr(noise, "KeyStream", own)
    patch.setattr(noise, "operating_system_key", lambda: b"")


def noise_shared_between_rows(patch):
    def shared(law, exact, t, step, **kw):
        one = real_add_noise(law, np.zeros((1, exact.shape[1])), t, step, **kw)
        return exact * step + one

    patch.setattr(noise, "add_noise", shared)


def slack_forgotten(patch):
    patch.setattr(noise, "gaussian_slack_per_draw", lambda: 0.0)


def all_parts_one_noise(patch):
    patch.setattr(noise, "operating_system_key", lambda: b"0" * 32)


def model_sees_the_exact_sums(patch):
    """Noise is added, and thrown away."""

    def useless(law, exact, t, step, **kw):
        real_add_noise(law, exact, t, step, **kw)
        return exact * step

    patch.setattr(noise, "add_noise", useless)


def coordinates_without_noise(patch):
    patch.setattr(noise, "add_l2_noise_by_row", lambda exact, t, step, **_: np.asarray(exact, dtype=float) * step)


def half_l2_noise(patch):
    patch.setattr(noise, "add_l2_noise", lambda arrays: real_add_l2_noise([(e, t / 2, step) for e, t, step in arrays]))
    patch.setattr(noise, "add_l2_noise_by_row", lambda e, t, step, **kw: real_add_l2_noise_by_row(e, t / 2, step, **kw))


def one_length_for_all_rows(patch):
    """Every row has a direction of its own, and the length of the first."""

    def shared(exact, t, step, **kw):
        found = real_add_l2_noise_by_row(exact, t, step, **kw) - exact * step
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return exact * step + found * lengths[0] / np.maximum(lengths, 1e-300)

    patch.setattr(noise, "add_l2_noise_by_row", shared)


def each_part_a_length_of_its_own(patch):
    patch.setattr(noise, "add_l2_noise", lambda arrays: [real_add_l2_noise([one])[0] for one in arrays])


def scale_truncated_to_whole_steps(patch):
    real = adumbra.privacy.meter._steps
    patch.setattr(adumbra.privacy.meter, "_steps", lambda scale, part: float(math.floor(real(scale, part))))


def scale_truncated_by_the_sampler(patch):
    """A table for whole scales only, which are fewer to build; Gaussian noise alone."""

    def shorter(law, exact, t, step, **kw):
        return real_add_noise(law, exact, float(math.floor(t)) if law == "gaussian" else t, step, **kw)

    patch.setattr(noise, "add_noise", shorter)


def noise_added_to_a_long_sum_in_float64(patch):
    def rounded(exact, drawn, step, out):
        out[...] = (exact.astype(np.float64) + drawn) * step
        return True

    patch.setattr(noise, "_finish", rounded)


def response_too_truthful(patch):
    patch.setattr(adumbra.common.randomness, "math", SimpleNamespace(exp=lambda epsilon: math.exp(1.5 * epsilon)))


def response_weight_rounded_up(patch):
    patch.setattr(
        adumbra.common.randomness, "math", SimpleNamespace(exp=lambda epsilon: math.exp(epsilon) * (1 + 2**-29))
    )


def coins_favour_low_sides(patch):
    def biased(self, sides, size):
        bits = np.frombuffer(os.urandom(size), dtype=np.uint8).astype(np.int64) & 3
        return bits % sides

    patch.setattr(Coins, "below", biased)


EVERY_COST = test_cost_table.test_every_stated_cost_holds_for_its_own_neighbours


SCALE = test_noise_scale.test_the_scale_that_reaches_the_sampler_is_the_charged_one


CALLS_SHARE_NOTHING = test_noise_keys.test_rows_columns_and_calls_share_nothing


CASES = [
    bug(model_sees_the_exact_sums, test_contract.test_the_seed_repeats_the_public_part_and_never_the_noise, "hybrid"),
    bug(half_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(half_noise, test_meter.test_laplace_noise_has_the_calibrated_scale_and_no_other),
    bug(half_noise, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(two_thirds_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(half_sigma, test_meter.test_calibration_costs_what_was_promised, 1.0, test_meter.CELL.neighbours),
    bug(half_sigma, test_sums.test_calibration_costs_what_was_promised, test_sums.COSTED[0]),
    bug(same_noise_twice, test_meter.test_noise_is_never_shared_between_rows_columns_batches_or_runs),
    bug(same_noise_twice, test_contract.test_the_seed_repeats_the_public_part_and_never_the_noise, "dppro"),
    bug(key_of_16_bits, test_noise_keys.test_a_key_is_all_of_32_bytes_of_the_operating_system),
    bug(key_of_16_bits, test_noise_keys.test_each_bit_of_the_key_changes_every_number, "gaussian"),
    bug(key_kept_by_the_process, test_noise_keys.test_a_key_is_all_of_32_bytes_of_the_operating_system),
    bug(key_kept_by_the_process, test_noise_keys.test_forks_share_nothing_with_each_other_or_with_their_parent),
    bug(key_kept_by_the_process, test_noise.test_a_forked_child_draws_other_noise),
    bug(generator_kept_by_the_thread, test_noise_keys.test_every_call_takes_a_new_key_in_every_thread),
    bug(generator_kept_by_the_thread, test_noise_keys.test_forks_share_nothing_with_each_other_or_with_their_parent),
    bug(generator_kept_by_the_thread, test_noise.test_a_forked_child_draws_other_noise),
    bug(noise_shared_between_rows, test_meter.test_noise_is_never_shared_between_rows_columns_batches_or_runs),
    bug(slack_forgotten, test_dppro.test_slack_of_the_sampler_is_inside_delta),
    bug(all_parts_one_noise, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(coordinates_without_noise, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lop"),
    bug(coordinates_without_noise, test_second_moment.test_the_row_space_attack_fails_on_sound_coordinates, "lip"),
    bug(half_l2_noise, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lip by length"),
    bug(half_l2_noise, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lip rows"),
    bug(one_length_for_all_rows, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lop"),
    bug(
        each_part_a_length_of_its_own,
        test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other,
        "lip by length",
    ),
    bug(half_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "counts", "laplace"),
    bug(half_l2_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "haar", "l2-laplace"),
    bug(two_thirds_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "tree", "gaussian"),
    bug(half_noise, test_strategies.test_choices_come_as_often_as_their_law_says),
    bug(response_too_truthful, test_coins.test_answers_follow_the_law_and_no_other_scale, 1.0, 3),
    bug(
        response_too_truthful,
        test_coins.test_no_answer_is_likelier_than_promised_from_one_truth_than_from_another,
        1.0,
        3,
    ),
    bug(
        response_weight_rounded_up,
        test_coins.test_no_answer_is_likelier_than_promised_from_one_truth_than_from_another,
        1.0,
        3,
    ),
    bug(coins_favour_low_sides, test_coins.test_every_side_is_equally_likely, 3),
    bug(scale_truncated_to_whole_steps, SCALE, "both tables, mixed", "gaussian"),
    bug(scale_truncated_to_whole_steps, SCALE, "row map", "l2-laplace"),
    bug(scale_truncated_to_whole_steps, EVERY_COST, "tables", "row", "replace", None),
    bug(scale_truncated_by_the_sampler, SCALE, "both tables, mixed", "gaussian"),
    bug(scale_truncated_by_the_sampler, SCALE, "row map", "gaussian"),
    bug(noise_added_to_a_long_sum_in_float64, test_long_tables.test_noise_meets_a_long_sum_in_integers, 1, 1),
    bug(
        noise_added_to_a_long_sum_in_float64,
        test_noise.test_noise_does_not_depend_on_the_answer,
        "gaussian",
        np.int64,
        2.0**57,
    ),
    bug(
        scale_truncated_by_the_sampler, test_meter.test_the_noise_is_tabled_for_the_scale_of_the_event, test_meter.CELL
    ),
    bug(slack_forgotten, test_refused_before_the_charge.test_lines_leave_room_for_each_others_slack),
    bug(all_parts_one_noise, CALLS_SHARE_NOTHING, "gaussian"),
    bug(noise_shared_between_rows, CALLS_SHARE_NOTHING, "gaussian"),
    bug(one_length_for_all_rows, test_noise_keys.test_every_row_has_a_length_of_its_own),
    bug(response_weight_rounded_up, test_coins.test_weights_beside_whole_numbers_are_not_rounded_up, 2),
    bug(coins_favour_low_sides, CALLS_SHARE_NOTHING, "sides"),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
