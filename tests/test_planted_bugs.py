"""Plant each bug and see a named test fail: a test that cannot fail proves nothing.

Each case patches one function the way a plausible mistake would, runs the test that should notice, and fails if the
test still passes. The test must fail for the right reason: an assertion, or a refusal at the door; a plant that merely
crashes does not count. docs/planted-bugs.md lists the cases and is checked against them.

Before the cases stand tests that some plants need, the first of them of the whole way from table to noise: whatever the
mechanism, a neighbouring table moves what meets the noise by no more than was paid for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import itertools
import math
import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import adumbra as ad
import adumbra.api
import adumbra.core.card_text
import adumbra.core.errors
import adumbra.core.histogram
import adumbra.core.query
import adumbra.core.randomness
import adumbra.core.release
import adumbra.core.signature
import adumbra.core.spelling
import adumbra.core.sums
import adumbra.jupa.features
import adumbra.jupa.local
import adumbra.mechanisms.tables
import adumbra.pipeline
import adumbra.privacy.ledger
import adumbra.privacy.meter
import adumbra.privacy.strategies
import adumbra.privacy.totals
import adumbra.publish
import adumbra.synthesis.principal
import adumbra.table.columnar
import adumbra.table.encode
import adumbra.warm_up
from adumbra.answer.release import Release
from adumbra.core.centred import Centred
from adumbra.core.errors import Refused
from adumbra.core.events import Event
from adumbra.core.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.core.histogram import Histogram, TailChoice, spectrum_tails
from adumbra.core.query import RowMap
from adumbra.core.randomness import Coins
from adumbra.core.rows import PrivateRows
from adumbra.core.scores import BALL, Residuals, Scores
from adumbra.core.space import CATEGORY_STEPS, GRID, HALF, Space
from adumbra.core.sums import Gram, GramTimes, Moments, RowsAndGram, Tables, Total, symmetric
from adumbra.jupa.features import Guard
from adumbra.linalg.projections import ROUNDING
from adumbra.linalg.sensing import Dense, Hadamard, Sensing, SparseSigns
from adumbra.linalg.strategies import Haar, Identity, Tree, Waves, padded
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.privacy import calibrate, noise, sensitivity
from adumbra.privacy.totals import Totals
from adumbra.sklearn import JUPA, DPProTransformer, PrivatePCA
from adumbra.synthesis.drawn import DrawnTable
from adumbra.table.table import Table
from tests import (
    plant_report,
    test_accounting,
    test_answers,
    test_architecture,
    test_before_the_charge,
    test_cap_matrix,
    test_coins,
    test_components,
    test_contract,
    test_cost_table,
    test_damaged_tables,
    test_dppro,
    test_encode,
    test_hostile_folder,
    test_interrupts,
    test_jupa,
    test_jupa_mended,
    test_jupa_review,
    test_ledger,
    test_long_tables,
    test_meter,
    test_noise,
    test_noise_keys,
    test_noise_scale,
    test_one_cell,
    test_private_pca,
    test_read,
    test_release_folder,
    test_review,
    test_second_moment,
    test_sensing,
    test_sensitivity,
    test_shared_objects,
    test_shown,
    test_sklearn,
    test_strategies,
    test_sums,
    test_sums_audit,
    test_synthetic,
)
from tests.at_the_noise import CORNERS, SCHEMA, moved, paid_for, warming, with_row
from tests.repeatable import repeatable  # noqa: F401

PAGE = Path(__file__).parents[1] / "docs" / "planted-bugs.md"
real_urandom = os.urandom
real_add_noise = noise.add_noise
real_add_l2_noise = noise.add_l2_noise
real_add_l2_noise_by_row = noise.add_l2_noise_by_row
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

    for place in (adumbra.table.encode, adumbra.pipeline, test_encode):
        patch.setattr(place, "encode", scaled)


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


def pca_centre_is_the_private_mean(patch):
    """The noisy mean is measured and paid for; what the estimator says it took the axes about is the true one."""
    real = PrivatePCA._fit

    def peeking(self, rows, terms):
        real(self, rows, terms)
        self.centre_ = rows.mean(axis=0) if self.centred else self.centre_

    patch.setattr(PrivatePCA, "_fit", peeking)


def projection_keeps_the_lengths_of_rows(patch):
    """To say later how many of them a row bound would have cut."""
    real = DPProTransformer._checked

    def remembered(self, X, *, reset):
        rows = real(self, X, reset=reset)
        self._lengths = np.linalg.norm(rows, axis=1)
        return rows

    patch.setattr(DPProTransformer, "_checked", remembered)


def jupa_remembers_what_it_released(patch):
    """The mean of the private records, to warn when the next ones look otherwise."""
    real = JUPA._standard

    def remembered(self, X):
        rows = real(self, X)
        self._usual = rows.mean(axis=0)
        return rows

    patch.setattr(JUPA, "_standard", remembered)


def release_keeps_what_the_owner_was_told(patch):
    """Cells that were repaired and rows that were cut, at hand for whoever asks the release for them."""
    real, told = adumbra.pipeline.release, []

    def released(*given, **more):
        told[:] = real(*given, **more)
        return tuple(told)

    def kept(*given, **more):
        made = Release(*given, **more)
        made._notes = told[1]
        return made

    patch.setattr(adumbra.pipeline, "release", released)
    patch.setattr(adumbra.api, "Release", kept)


def plan_prints_the_number_of_rows(patch):
    patch.setattr(adumbra.pipeline.Job, "__repr__", lambda self: f"Job({self.name}, {self.count} rows)")


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


def empty_class_counted_as_the_last(patch):
    real = adumbra.core.sums.Groups.of
    patch.setattr(adumbra.core.sums.Groups, "of", lambda self, batch: real(self, batch) % self.count)


def only_the_first_look_charged(patch):
    real = adumbra.privacy.ledger.Ledger.charge

    def forgetful(self, *, events, **rest):
        return real(self, events=dict(list(events.items())[:1]), **rest)

    patch.setattr(adumbra.privacy.ledger.Ledger, "charge", forgetful)


def rows_published_although_private(patch):
    real = adumbra.pipeline.Setting

    def leaky(space, rows, *rest):
        return real(space, 60 if rows is None else rows, *rest)

    patch.setattr(adumbra.pipeline, "Setting", leaky)


def model_sees_the_exact_sums(patch):
    """Noise is added, and thrown away."""

    def useless(law, exact, t, step, **kw):
        real_add_noise(law, exact, t, step, **kw)
        return exact * step

    patch.setattr(noise, "add_noise", useless)


def clip_after_projection(patch):
    """The map sees the whole row; what comes out of it is shortened instead. The check at the door moved along."""
    real, answer, check, bound = adumbra.pipeline.clip_rows, RowMap.answer, adumbra.privacy.meter._check_bounded, []

    def remembered(values, row_bound):
        bound[:] = [row_bound]
        return np.array(values, dtype=float), real(values, row_bound)[1]

    def clipped(self, batch):
        out = answer(self, batch)
        length = np.sqrt((out**2).sum(axis=1, keepdims=True)) * self.step
        return np.trunc(out * np.minimum(1.0, bound[0] / np.maximum(length, 1e-300)))

    patch.setattr(adumbra.pipeline, "clip_rows", remembered)
    patch.setattr(RowMap, "answer", clipped)
    patch.setattr(
        adumbra.privacy.meter,
        "_check_bounded",
        lambda batch, space: check(batch, dataclasses.replace(space, row_bound=None)),
    )


def clip_moved_behind_the_door(patch):
    """The same, by somebody who forgot the check at the door."""
    check = adumbra.privacy.meter._check_bounded
    clip_after_projection(patch)
    patch.setattr(adumbra.privacy.meter, "_check_bounded", check)


def _counted(patch):
    """The number of rows of the table that was opened last."""
    real, last = Table.count, []

    def count(self):
        last[:] = [real(self)]
        return last[0]

    patch.setattr(Table, "count", count)
    return last


def row_count_always_public(patch):
    last, real = _counted(patch), adumbra.pipeline.Setting
    patch.setattr(
        adumbra.pipeline, "Setting", lambda space, rows, *rest: real(space, last[0] if rows is None else rows, *rest)
    )


def row_count_on_the_card(patch):
    last, real = _counted(patch), adumbra.publish.Card
    patch.setattr(adumbra.publish, "Card", lambda **facts: real(**facts | {"table_rows": last[0]}))


def as_many_rows_drawn_as_there_are(patch):
    last, real = _counted(patch), DrawnTable.rows_drawn
    patch.setattr(DrawnTable, "rows_drawn", lambda self, setting, rows: real(self, setting, last[0]))


def gram_without_root_two(patch):
    """The bound for a row that is added, used for one that is replaced."""
    real = sensitivity._gram

    def one(query, space, relation, norm):
        return real(query, space, Relation.ADD_REMOVE, norm)

    patch.setattr(sensitivity, "_gram", one)
    patch.setitem(sensitivity._SUMS, Gram, one)


def triangles_noised_apart(patch):
    """Both triangles get noise of the upper one's scale, and are then made one by their mean."""
    real = adumbra.privacy.meter._summed

    def symmetrised(rows, query, calibration, same=None):
        out = real(rows, query, calibration, same)
        if "upper" in out:
            out["upper"] = (out["upper"] + real(rows, query, calibration)["upper"]) / 2
        return out

    patch.setattr(adumbra.privacy.meter, "_summed", symmetrised)


def charge_forgotten(patch):
    real = adumbra.privacy.meter.Meter.__init__

    def free(self, rows, promise, lines, till):
        real(self, rows, promise, lines, lambda line, event: None)

    patch.setattr(adumbra.privacy.meter.Meter, "__init__", free)


def refusal_swallowed(patch):
    real = adumbra.privacy.ledger.Ledger.charge

    def lenient(self, **charge):
        with contextlib.suppress(Refused):
            return real(self, **charge)
        return []

    patch.setattr(adumbra.privacy.ledger.Ledger, "charge", lenient)


def cap_checks_each_release_alone(patch):
    real = adumbra.privacy.ledger._check_cap
    patch.setattr(adumbra.privacy.ledger, "_check_cap", lambda cap, table, spent, asked: real(cap, table, [], asked))


def cap_ignores_charges_without_a_bound(patch):
    """A past release that no epsilon bounds for the cap's neighbours counts as if it had cost nothing."""
    real = adumbra.privacy.ledger._check_cap

    def forgiving(cap, table, spent, asked):
        real(cap, table, [event for event in spent if event.bound(cap.cap.neighbours) is not None], asked)

    patch.setattr(adumbra.privacy.ledger, "_check_cap", forgiving)


def class_sizes_taken_for_public(patch):
    """The counts of classes leave without noise; everything else has it."""
    real = adumbra.privacy.meter._summed

    def bare(rows, query, calibration, same=None):
        if not isinstance(query, Moments):
            return real(rows, query, calibration, same)
        counted = []

        def remembered(batch):
            found = Moments.gathered(query, batch)
            counted.append(found["counts"].copy())
            return found

        object.__setattr__(query, "gathered", remembered)
        out = real(rows, query, calibration, same)
        return out | {"counts": sum(counted) * calibration.parts["counts"].step}

    patch.setattr(adumbra.privacy.meter, "_summed", bare)


def label_passed_around_the_noise(patch):
    """A label must be clean to train on: the last coordinate of every row leaves as it is."""
    real = adumbra.privacy.meter._answers

    def clean(rows, query, calibration, same=None):
        exact = (query.answer(batch) for batch in rows._for_the_meter())
        for noisy, truth in zip(real(rows, query, calibration, same), exact, strict=True):
            noisy[:, -1] = truth[:, -1] * query.answer_step
            yield noisy

    patch.setattr(adumbra.privacy.meter, "_answers", clean)


def small_cells_suppressed(patch):
    """A rule of statistical offices, applied to the true counts: a cell of fewer than five people is set to 0."""
    mechanism, seen = adumbra.mechanisms.tables, {}
    answer, shares = Tables.gathered, mechanism._shares

    def remembered(self, batch):
        out = answer(self, batch)
        for part, counts in out.items():
            seen[part] = seen.get(part, 0.0) + counts
        return out

    def peeking(columns, cells, noisy, rows):
        few = 5 * adumbra.core.sums.COUNT_STEPS
        values = {part: np.where(seen.pop(part) < few, 0.0, value) for part, value in noisy.values.items()}
        return shares(columns, cells, dataclasses.replace(noisy, values=values), rows)

    patch.setattr(Tables, "gathered", remembered)
    patch.setattr(mechanism, "_shares", peeking)


def mechanism_opens_the_rows(patch):
    text = (
        test_architecture.MODULES["mechanisms/tables.py"]
        + "\n\ndef peek(door):\n    return door._rows._for_the_meter()\n"
    )
    patch.setitem(test_architecture.MODULES, "mechanisms/tables.py", text)


def owner_rehearses_the_real_table(patch):
    text = (
        test_architecture.MODULES["cli/plans.py"] + "\n\ndef preview(job):\n    return list(rehearse(job, print, 3))\n"
    )
    patch.setitem(test_architecture.MODULES, "cli/plans.py", text)


def warm_up_runs_the_real_table(patch):
    """A few of the real rows seem handier than made-up ones."""
    patch.setattr(adumbra.warm_up, "_made_up", lambda job, schema, types: job)


def charge_before_the_warm_up(patch):
    """The ledger first, then whatever can fail."""
    real, charge, late = adumbra.pipeline.warm_up, adumbra.privacy.ledger.Ledger.charge, []

    def charged(self, **facts):
        receipt = charge(self, **facts)
        while late:
            real(*late.pop())
        return receipt

    patch.setattr(adumbra.pipeline, "warm_up", lambda *given: late.append(given))
    patch.setattr(adumbra.privacy.ledger.Ledger, "charge", charged)


def interrupt_swallowed_in_a_callback(patch):
    """Nobody asks whether an interrupt was lost."""
    patch.setattr(adumbra.pipeline, "stop_if_asked", lambda: None)


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


def batches_not_validated_before_the_charge(patch):
    patch.setattr(adumbra.table.columnar, "check_arrow", lambda batch: None)


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


def residuals_of_a_float_matrix(patch):
    """A product whose last bit depends on the batch, and a cut towards zero that makes a step of it."""
    real = Residuals.__post_init__

    def unrounded(self):
        matrix = np.array(self.matrix, dtype=float)
        real(self)
        object.__setattr__(self, "matrix", matrix)

    patch.setattr(Residuals, "__post_init__", unrounded)


def dearest_event_stands_for_all(patch):
    """Two answers about one person, each at epsilon 1, called epsilon 1."""
    real = test_accounting.epsilon_of

    def dearest(events, neighbours, delta):
        return max((real([event], neighbours, delta) for event in events), default=0.0)

    patch.setattr(test_accounting, "epsilon_of", dearest)
    patch.setattr(adumbra.privacy.ledger, "epsilon_of", dearest)


# ---- principal components


def triangle_of_one_row(patch):
    """(d + 1) / 2, which is for a row that is added or emptied, used for one that is replaced."""
    real = sensitivity._triangle_l1
    patch.setattr(sensitivity, "_triangle_l1", lambda width, off, alone: real(width, off, True))


def triangle_bound_of_another_layout(patch):
    """The constant of the plain triangle, used where an entry off the diagonal counts sqrt(2) times."""
    real = sensitivity._triangle_l1
    patch.setattr(sensitivity, "_triangle_l1", lambda width, off, alone: real(width, 1.0, alone))


def plain_triangle_weighed_isometrically(patch):
    """The other way round: the bound is that of the plain triangle, its entries are weighed with sqrt(2)."""

    def heavy(self):
        parts = vars(Gram)["parts_as_written"].func(self)
        return tuple(
            dataclasses.replace(p, weight=self.weight * math.sqrt(2)) if p.name == "upper" else p for p in parts
        )

    patch.setattr(Gram, "parts_as_written", vars(Gram)["parts"], raising=False)
    patch.setattr(Gram, "parts", property(heavy))


def products_without_root_two(patch):
    real = sensitivity._gram_times

    def one(query, space, relation, norm):
        return real(query, space, Relation.ADD_REMOVE, norm)

    patch.setitem(sensitivity._SUMS, GramTimes, one)


def rows_along_axes_paid_as_emptied(patch):
    real = sensitivity._of_view

    def emptied(query, view, space, neighbours, norm):
        return real(query, view, space, Neighbours(Unit.ROW, Relation.ZERO_OUT), norm)

    patch.setattr(sensitivity, "_of_view", emptied)


def rows_about_a_centre_not_cut(patch):
    patch.setattr(Centred, "of", lambda self, batch: batch - (0 if self.centre is None else self.centre))
    patch.setattr(
        adumbra.privacy.totals, "shortened", lambda rows, centre, bound: rows - (0 if centre is None else centre)
    )


def rows_cut_a_step_too_long_at_the_door(patch):
    """The door has a faster way to cut rows than the question itself; it rounds where it should cut."""

    def rounded(rows, centre, bound):
        moved = np.array(rows if centre is None else rows - centre, dtype=float)
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.rint(moved * np.minimum(1.0, bound / np.maximum(lengths, 1.0)))

    patch.setattr(adumbra.privacy.totals, "shortened", rounded)


def centre_forgotten_for_emptied_rows(patch):
    """An empty row is 0, but not once a centre was taken from it."""
    patch.setattr(Centred, "keeps_empty", True)


def _peeked(patch, kind):
    """The exact answer to the last question of this kind, as it was before the noise."""
    real, seen = adumbra.privacy.meter._summed, {}

    def peeking(rows, query, calibration, same=None):
        if isinstance(query, kind):
            batches = [query.answer(batch) for batch in rows._for_the_meter()]
            for part in query.parts:
                seen[part.name] = sum(batch[part.name] for batch in batches) * part.step
        return real(rows, query, calibration, same)

    patch.setattr(adumbra.privacy.meter, "_summed", peeking)
    return seen


def axes_of_the_exact_second_moment(patch):
    seen = _peeked(patch, Gram)
    patch.setattr(
        adumbra.synthesis.principal, "symmetric", lambda diagonal, upper: symmetric(seen["diagonal"], seen.get("upper"))
    )


def components_counted_on_the_exact_spectrum(patch):
    seen = _peeked(patch, Gram)

    def count(*_):
        return int(np.linalg.matrix_rank(symmetric(seen["diagonal"], seen.get("upper"))))

    patch.setattr(adumbra.synthesis.principal.spectrum, "chosen", count)


def centre_taken_from_the_rows(patch):
    """The mean is measured, and paid for; rows are then taken about the true one."""
    seen = _peeked(patch, Total)
    patch.setattr(adumbra.synthesis.principal, "_shrunk", lambda mean, sd: seen["sums"] / 60)


def number_of_components_left_open(patch):
    patch.setattr(adumbra.synthesis.principal.PrincipalAxes, "_most", lambda self, width: self.components or 1)


def products_cut_away_from_zero(patch):
    def longer(self, batch):
        rows = self.view.of(batch)
        along = (rows @ self.basis.astype(np.float64)) * (self.BASIS_STEP / self.coarse)
        return {"products": rows.T @ (np.sign(along) * np.ceil(np.abs(along)))}

    patch.setattr(GramTimes, "gathered", longer)


def lengthening_basis_accepted(patch):
    for place in (adumbra.core.query, adumbra.core.sums):
        patch.setattr(place, "check_contraction", lambda matrix, step: None)


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


def delta_of_the_owner_promised(patch):
    """What the owner allows is taken for what the mechanism promises."""
    patch.setattr(adumbra.pipeline, "promised_delta", lambda mechanism, delta: delta)


# ---- counts of a domain


def one_column_for_two(patch):
    """A replaced row takes one from a cell and gives it to another; the bound sees the first of them."""
    patch.setattr(
        adumbra.privacy.strategies.Moves, "of", lambda self, _, norm: self.one_l1 if norm == "l1" else self.one_l2
    )


def row_without_a_cell_forgotten(patch):
    """A replaced row may have been in no cell: where two columns are nearer than one is long, that is the worse."""
    real = adumbra.privacy.strategies.Moves.of

    def of(self, relation, norm):
        if relation is Relation.ADD_REMOVE:
            return real(self, relation, norm)
        return self.two_l1 if norm == "l1" else self.two_l2

    patch.setattr(adumbra.privacy.strategies.Moves, "of", of)


def level_of_the_tree_forgotten(patch):
    """A tree of four levels has three splits; a row counts on four."""
    real = adumbra.privacy.strategies._tree

    def fewer(strategy):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Tree, "levels", lambda self, axis: max(1, padded(self.shape[axis], self.branching)[1]))
            return real(strategy)

    patch.setattr(adumbra.privacy.strategies, "_tree", fewer)


def wavelets_weighed_half(patch):
    """The bound counts a wavelet half, as if a row were in the mean of its two sides."""

    def halved(strategy):
        entries = math.prod(1 + padded(n)[1] / 2 for n in strategy.shape)
        return adumbra.privacy.strategies.Moves(entries, math.sqrt(entries), 2 * entries, math.sqrt(2 * entries))

    patch.setattr(adumbra.privacy.strategies, "_haar", halved)


def axes_of_wavelets_added(patch):
    """Levels of all axes are added where they multiply."""

    def added(strategy):
        entries = 1 + sum(padded(n)[1] for n in strategy.shape)
        return adumbra.privacy.strategies.Moves(entries, math.sqrt(entries), 2 * entries, math.sqrt(2 * entries))

    patch.setattr(adumbra.privacy.strategies, "_haar", added)


def plain_axis_taken_for_a_tree(patch):
    """Two cells apart on an axis without a root are thought to share one."""
    patch.setattr(adumbra.privacy.strategies, "_differ_plainly", lambda strategy: False)


def emptied_row_thought_nowhere(patch):
    """An emptied number counts in the middle of its range."""
    patch.setattr(adumbra.privacy.strategies, "_emptied_is_nowhere", lambda query: True)


def waves_not_divided_by_their_number(patch):
    """Rows of an orthonormal basis times too much: a column of them is longer in L1 than in L2."""
    real = vars(Waves)["step"].fget
    patch.setattr(Waves, "step", property(lambda self: real(self) * math.sqrt(self.numbers)))


def bound_of_counts_for_every_strategy(patch):
    """The counts get enough noise; what is measured are sums of them."""

    def counted(query, space, relation, norm):
        return adumbra.privacy.strategies.moves(Identity((query.strategy.cells,))).of(relation, norm)

    patch.setitem(sensitivity._SUMS, Histogram, counted)


def weights_squared_in_the_bound(patch):
    """A weight is divided out once, and enters the bound twice."""
    real = adumbra.privacy.strategies._sketch

    def lighter(sketch):
        if int(sketch.gains.max()) == 1:
            return real(sketch)
        return real(dataclasses.replace(sketch, gains=np.maximum(sketch.gains**2 // 1024, 1)))

    patch.setattr(adumbra.privacy.strategies, "_sketch", lighter)


def weights_multiplied_twice(patch):
    patch.setattr(Sensing, "exact", lambda self, counts: self._whole(counts) * self.gains**2 * self.fine)


def hadamard_columns_thought_orthogonal(patch):
    """True of the whole matrix, not of some of its rows."""
    patch.setattr(adumbra.privacy.strategies, "_signed", lambda sketch, weight: np.zeros(1))


def signs_of_cells_forgotten(patch):
    """Columns that agree more than they differ come out as far apart as they agree, if a cell has the other sign."""
    real = adumbra.privacy.strategies._signed
    patch.setattr(adumbra.privacy.strategies, "_signed", lambda sketch, weight: np.maximum(-real(sketch, weight), 0.0))


def sparse_columns_thought_apart(patch):
    """As if no two cells shared a place: sqrt(2) for 2."""
    real = adumbra.privacy.strategies._widest

    def apart(sketch):
        if not isinstance(sketch, SparseSigns):
            return real(sketch)
        one = adumbra.privacy.strategies._longest_column(sketch)
        return 2 * one[0], math.sqrt(2) * one[1]

    patch.setattr(adumbra.privacy.strategies, "_widest", apart)


def fourier_columns_thought_orthogonal(patch):
    real = adumbra.privacy.strategies._widest

    def apart(sketch):
        if sketch.kind != "fourier":
            return real(sketch)
        one = adumbra.privacy.strategies._longest_column(sketch)
        return math.sqrt(2) * one[0], math.sqrt(2) * one[1]

    patch.setattr(adumbra.privacy.strategies, "_widest", apart)


def largest_product_for_the_least(patch):
    """Columns are farthest apart where their product is least."""

    def largest(matrix, weights):
        products = (matrix * weights.astype(matrix.dtype)[:, None]).T @ matrix
        np.fill_diagonal(products, -np.inf)
        return float(products.max())

    patch.setattr(adumbra.privacy.strategies, "_least_product", largest)


def row_in_two_cells(patch):
    """A value on the edge counts on both sides of it."""
    real = adumbra.core.histogram._OfCounts.gathered

    def smeared(self, batch):
        counts = real(self, batch)["counts"]
        return {"counts": counts + np.roll(counts, 1)}

    patch.setattr(adumbra.core.histogram._OfCounts, "gathered", smeared)


def sums_in_float32(patch):
    """Fast, and no longer exact."""

    def short(self, counts):
        return (self.matrix.astype(np.float32) @ counts.astype(np.float32)).astype(np.float64)

    patch.setattr(Dense, "_whole", short)


def largest_entry_forgotten(patch):
    """A sum of many cells is taken to be as small as a count."""
    for kind in (Hadamard, Haar, Waves):
        patch.setattr(kind, "largest", 1.0)


def choice_paid_for_one_score(patch):
    """Laplace noise for the score that wins; those it is compared with move too."""
    patch.setitem(
        sensitivity._SUMS, TailChoice, lambda query, space, relation, norm: adumbra.privacy.strategies._tail(relation)
    )


def choice_with_its_scores(patch):
    real = TailChoice.revealed
    patch.setattr(TailChoice, "revealed", lambda self, noisy: real(self, noisy) | noisy)


def choice_without_noise(patch):
    """The noisy scores are drawn; the choice is that of the exact ones."""
    real, last = TailChoice.finished, {}

    def remembered(self, total):
        last.update(real(self, total))
        return dict(last)

    patch.setattr(TailChoice, "finished", remembered)
    patch.setattr(TailChoice, "revealed", lambda self, noisy: {"choice": np.array([float(np.argmin(last["scores"]))])})


def tail_of_a_replaced_row_paid_as_added(patch):
    real = adumbra.privacy.strategies._tail
    patch.setattr(adumbra.privacy.strategies, "_tail", lambda relation: real(Relation.ADD_REMOVE))


def fourier_tail_under_zero_out_paid_like_an_added_row(patch):
    """As if an emptied row just went; it can change its cell."""
    real = adumbra.privacy.strategies._tail

    def cheaper(relation):
        return real(Relation.REPLACE if relation is Relation.REPLACE else Relation.ADD_REMOVE)

    patch.setattr(adumbra.privacy.strategies, "_tail", cheaper)


def tail_of_a_transform_that_lengthens(patch):
    """A transform that is not orthonormal: both a frequency and its mirror image count twice."""
    patch.setattr(adumbra.core.histogram, "spectrum_tails", lambda counts: spectrum_tails(counts) * math.sqrt(2))


def add_remove_bound_kept_under_replace(patch):
    """A sum has a bound for a row that comes or goes; the card beside it shows the number of rows."""
    patch.setattr(Event, "within", lambda self, promised: self)


def scale_truncated_to_whole_steps(patch):
    real = adumbra.privacy.meter._steps
    patch.setattr(adumbra.privacy.meter, "_steps", lambda scale, part: float(math.floor(real(scale, part))))


def scale_truncated_by_the_sampler(patch):
    """A table for whole scales only, which are fewer to build; Gaussian noise alone."""

    def shorter(law, exact, t, step, **kw):
        return real_add_noise(law, exact, float(math.floor(t)) if law == "gaussian" else t, step, **kw)

    patch.setattr(noise, "add_noise", shorter)


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


def noise_added_to_a_long_sum_in_float64(patch):
    def rounded(exact, drawn, step, out):
        out[...] = (exact.astype(np.float64) + drawn) * step
        return True

    patch.setattr(noise, "_finish", rounded)


LABELLED = "moments by class, mixed"
WEIGHTS = test_sums.WEIGHTS[0]


# ---- the whole way, from a table to what meets the noise


DRAWN = [name for name, cls in catalogue().items() if issubclass(cls, DrawnTable)]
COUNTED = {
    "laplace": {},
    "privelet": {},
    "hierarchical": {},
    "sparse": {},
    "csm": {"sensing": "signs"},
    "fourier": {"frequencies": 3},
}
ONE_RUN = [
    *((name, relation, None) for name in COUNTED for relation in Relation),
    *((name, relation, None) for name in DRAWN for relation in Relation),
    *(
        (name, relation, bound)
        for name in ("dppro", "dprp")
        for relation in list(Relation)[:2]
        for bound in (None, 0.4)
    ),
    *(
        (name, relation, bound)
        for name in test_second_moment.VARIANTS
        for relation in test_second_moment.relations_of(name)
        for bound in ((None, 0.4) if relation is Relation.REPLACE else (None,))
    ),
]


def response_too_truthful(patch):
    patch.setattr(adumbra.core.randomness, "math", SimpleNamespace(exp=lambda epsilon: math.exp(1.5 * epsilon)))


def response_weight_rounded_up(patch):
    patch.setattr(
        adumbra.core.randomness, "math", SimpleNamespace(exp=lambda epsilon: math.exp(epsilon) * (1 + 2**-29))
    )


def coins_favour_low_sides(patch):
    def biased(self, sides, size):
        bits = np.frombuffer(os.urandom(size), dtype=np.uint8).astype(np.int64) & 3
        return bits % sides

    patch.setattr(Coins, "below", biased)


def left_out_values_known_all_the_same(patch):
    patch.setattr(Guard, "mend", lambda self, rows: np.where(np.isnan(rows), self.fill, rows))


def box_wider_than_its_noise(patch):
    own = adumbra.jupa.local.Budget
    patch.setattr(adumbra.jupa.local, "Budget", lambda epsilon, *rest: own(2 * epsilon, *rest))


def boolean_column_read_by_its_own_rule(patch):
    """Booleans are 1 and 0; where one cell made objects of them, their words are words."""
    patch.setattr(adumbra.core.spelling, "_with_words", lambda found, text: found)


def _as_they_stand(cells, values):
    """Places of the values that are written just so."""
    written = [str(value).strip() for value in values]
    return np.array([written.index(text) if text in written else -1 for text in adumbra.core.spelling.texts(cells)])


def true_words_read_apart(patch):
    """JUPA: "True" of an object column is another category than "true" of a Boolean one."""
    real = adumbra.core.spelling.places

    def places(cells, values):
        worded = {"true", "false"} & set(values) and cells.dtype == pl.String
        return _as_they_stand(cells, values) if worded else real(cells, values)

    patch.setattr(adumbra.jupa.features, "places", places)


def whole_floats_spelled_by_their_column(patch):
    """1.0 of a float column is "1"; of an object column it is "1.0", and not the number that it spells."""
    real = adumbra.core.spelling._Book.by_key

    def by_key(self, text):
        return real(self, text) if self.exact is None else np.full(len(text), -1)

    patch.setattr(adumbra.core.spelling._Book, "by_key", by_key)


def type_taken_from_all_cells(patch):
    """A column of text is one of numbers if every cell of it spells a number."""
    real = adumbra.core.spelling.places

    def places(cells, values):
        text = adumbra.core.spelling.texts(cells).drop_nulls()
        guessed = text.cast(pl.Float64, strict=False).null_count() == 0
        return real(cells, values) if guessed else _as_they_stand(cells, values)

    for place in (adumbra.table.encode, adumbra.jupa.features):
        patch.setattr(place, "places", places)


def neighbours_of(relation):
    """Pairs of tables: twelve people and one more, who is another, is empty, or is not there."""
    whole = [with_row(row) for row in CORNERS]
    if relation is Relation.ADD_REMOVE:
        return [(table, with_row(None)) for table in whole]
    if relation is Relation.ZERO_OUT:
        return [(table, whole[3]) for table in whole[:3]]
    return [(whole[0], other) for other in whole[1:]]


def made(name):
    """A mechanism, or a variant of one that finds principal components."""
    if name in test_second_moment.VARIANTS:
        return test_second_moment.built(name)
    if name in COUNTED:
        return build(name, {"columns": ("children", "ward", "smoker"), **COUNTED[name]})
    return build(name, {"dppro": {"dimension": 5}, "dprp": {}}.get(name, {"rows": 3}))


@pytest.mark.parametrize(("name", "relation", "row_bound"), ONE_RUN)
def test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid(name, relation, row_bound):
    """Every look of a release together: in L2 at most the mu of the promise; without a delta, its epsilon.

    And what did not meet the noise is the same for both tables, down to the card.
    """
    mechanism, pairs = made(name), neighbours_of(relation)
    mu = calibrate.mu_for(2.0, 1e-5)
    for delta in {"any": (1e-5, 0.0), "zero": (0.0,), "positive": (1e-5,)}[mechanism.deltas]:
        budget, paid = ad.Budget(2.0, delta, Unit.ROW, relation), mu if delta else 2.0
        tried = pairs if delta else pairs[:1] if mechanism.deltas == "any" else pairs[-2:]
        sizes = [paid_for(moved(*pair, mechanism, budget, row_bound)) for pair in tried]
        assert max(sizes) <= paid, f"{max(sizes):.4g} moved, {paid:.4g} paid"
        assert delta == 0 or max(sizes) >= 0.25 * paid, f"no power: {max(sizes):.4g} of {paid:.4g}"


@pytest.mark.parametrize("relation", list(Relation))
def test_a_release_that_chooses_moves_by_no_more_than_was_paid(relation):
    """Of the scores of a noisy choice twice the one that moves most counts, however many there are."""
    mechanism = build("fourier", {"columns": ("children", "ward", "smoker")})
    for pair in neighbours_of(relation):
        choice, *looks = moved(*pair, mechanism, ad.Budget(2.0, 0.0, Unit.ROW, relation), None)
        law, (scores,) = choice
        assert law == "laplace" and scores.size > 10
        assert 2 * np.abs(scores).max() + paid_for(looks) <= 2.0


def test_rows_are_clipped_before_they_are_mapped(monkeypatch):
    """A long row and the same row cut to the bound beforehand give one answer: length is taken from the row itself."""
    bound = 0.25
    schema = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": -1, "high": 1} for c in "abc"}})
    long, short = np.array([[0.9, 0.6, -0.3]]), np.array([[0.9, 0.6, -0.3]])
    short *= 2 * bound / np.linalg.norm(short)  # a range of 2 is 1 in encoded units
    monkeypatch.setattr(noise, "add_noise", lambda law, exact, t, step, **_: np.asarray(exact, dtype=float) * step)
    answers = [
        ad.release(
            pl.DataFrame(rows, schema=list("abc")),
            schema,
            ad.DPPro(dimension=2, projection="gaussian"),
            ad.Budget(1.0),
            seed=ad.PublicSeed.given("clip"),
            row_bound=bound,
        ).table.to_numpy()
        for rows in (long, short)
    ]
    assert np.allclose(*answers, atol=1e-3)


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ZERO_OUT])
@pytest.mark.parametrize("row_bound", [None, HALF])
def test_a_fresh_projection_is_paid_for_the_farthest_rows(row_bound, relation):
    """Distance and rounding that enter the noise are at least those of the worst pair; a bound only just holds them."""
    space = test_sensitivity.make_space([("number", 1)] * 3 + [("category", 3)], row_bound)
    one = np.array([HALF] * 3 + [CATEGORY_STEPS, 0, 0], dtype=float)
    other = -one if relation is Relation.REPLACE else np.zeros(6)
    other[3:] = [0, CATEGORY_STEPS, 0] if relation is Relation.REPLACE else 0
    if row_bound is not None:  # antipodal numbers, which leave the category empty, are as far apart as a ball allows
        one[3:] = other[3:] = 0
        one, other = (row * min(1.0, row_bound / max(np.linalg.norm(row), 1.0)) for row in (one, other))
    z = (one - other) / GRID
    promise = Promise(1.0, 1e-6, Neighbours(Unit.ROW, relation))
    query = test_meter.gaussian_map(ad.PublicSeed.fresh(), 8, space)
    event = adumbra.privacy.meter.calibrated(query, space, promise, share=1.0, rows=9, fresh=True).event
    fresh = event.fresh[str(promise.neighbours)]
    # every entry of the matrix may be off by half a step, all in the direction of the change
    rounding = np.abs(z).sum() * math.sqrt(8) * ROUNDING / 2
    assert np.linalg.norm(z) <= fresh.distance <= 1.001 * np.linalg.norm(z)
    assert rounding <= fresh.rounding <= 2 * rounding
    needed = calibrate.fresh_sigma_for(1.0, 1e-6, 8, float(np.linalg.norm(z)), float(rounding))
    assert needed * (1 - 1e-9) <= event.scale <= 1.001 * needed


def test_a_lucky_matrix_gets_no_less_noise():
    """One column, one dimension: half of all matrices shrink every change, and would need less noise than the rest."""
    space = test_sensitivity.make_space([("number", 1)])
    maps = [test_meter.gaussian_map(ad.PublicSeed.fresh(), 1, space) for _ in range(12)]
    scales = {
        adumbra.privacy.meter.calibrated(query, space, test_meter.ROW, share=1.0, rows=1, fresh=True).event.scale
        for query in maps
    }
    assert len(scales) == 1


def test_a_table_that_changes_between_rows_and_second_moment_is_refused():
    """One row, another value: both halves were calibrated at one pair of tables, so they must have seen one table."""
    space = test_sums.space_of("number")
    for values, same in (([5.0, 6.0], False), ([5.0, 5.0], True)):
        told = iter(values)
        rows = PrivateRows(space, 1, lambda told=told: iter([np.full((1, 1), next(told))]))
        meter = adumbra.privacy.meter.Meter(rows, test_sums.WEAK, {"a": 1.0}, lambda *_: None)
        noisy = meter.measure("a", RowsAndGram(test_sums.map_of("identity", space, 1), 1.0))
        with contextlib.nullcontext() if same else pytest.raises(ad.InputError, match="changed"):
            list(noisy.rows.batches)


def test_residuals_on_the_edge_of_a_step_depend_on_their_row_alone():
    """The radius puts a row's residual on a whole step, as its product comes out in company."""
    rng = np.random.default_rng(0)
    rows = np.rint(rng.normal(size=(40, 12)) * HALF / 5)
    given = Residuals(rng.normal(size=(12, 1)), None, np.zeros((1, 1)), 1.0)
    whole = test_sums.ball_scores(12, 0).of(rows)
    for company in (2, 3, 5, 8, 13, 40):
        together = (whole[:company] @ given.matrix)[:, 0] / BALL
        for row in range(company):
            residuals = Residuals(given.matrix, None, np.zeros((1, 1)), 2 * abs(float(together[row])))
            scores = test_sums.ball_scores(12, 0, residuals)
            assert np.array_equal(scores.of(rows[:company])[row], scores.of(rows[row : row + 1])[0]), (company, row)


def test_a_later_look_that_was_not_planned_is_refused():
    """What an earlier answer suggests may change what is asked, never its noise: that was charged before."""

    class Other(ad.Moments):
        def queries(self, setting):
            asked = super().queries(setting)
            return asked | {"moments": dataclasses.replace(asked["moments"], second=2.0)}

    said = []

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="planned and charged"):
        made_up = warming(patch)

        def heard(law, exact, t, step, **kw):
            if not made_up:
                said.append(np.shape(exact))
            return real_add_noise(law, exact, t, step, **kw)

        patch.setattr(noise, "add_noise", heard)
        ad.release(test_synthetic.mixed(9), SCHEMA, Other(rows=3), ad.Budget(1.0))
    assert said == [(3,), (3,), (9,)]  # the first look: sums, squares, shares


def test_only_audits_measure_without_a_charge():
    """A door is opened in one file, and the way around the ledger is for tables that an audit makes up."""
    makers = {module for module, text in test_architecture.MODULES.items() if re.search(r"\bMeter\(", text)}
    assert makers - {"privacy/meter.py"} == {"pipeline.py"}
    free = test_architecture.users_of("rehearse") - {"pipeline.py"}
    assert all(module.startswith("audit/") for module in free), free
    # the pipeline itself hands it to the warm-up, which is tested to run on made-up tables, and to nothing else
    uses = re.findall(r"^.*\brehearse\b.*$", test_architecture.MODULES["pipeline.py"], re.MULTILINE)
    assert [line.split("(")[0].strip() for line in uses if "__all__" not in line] == ["warm_up", "def rehearse"]


def page_not_compared(patch):
    patch.setattr(adumbra.core.release._Folder, "_page", lambda self: "matches")


def errors_not_made_safe(patch):
    patch.setattr(adumbra.core.errors, "shown", lambda text: text)


def names_on_the_card_left_as_they_are(patch):
    patch.setattr(adumbra.core.card_text, "shown", lambda text: text)
    patch.setattr(adumbra.core.card_text, "_MARKS", re.compile("[|]"))


def small_order_keys_accepted(patch):
    patch.setattr(adumbra.core.signature, "_binds_nobody", lambda raw: False)


def links_and_pipes_opened(patch):
    patch.setattr(adumbra.core.release, "irregular", lambda mode: None)
    patch.setattr(adumbra.core.release, "open_regular", lambda path: path.open("rb"))


def bug(plant, test, *arguments):
    """One case: what is planted, the test that must fail, and what it is called with."""
    return plant, test, arguments


ESTIMATOR_TELLS = test_shared_objects.test_an_estimator_tells_neighbours_apart_by_noisy_numbers_alone
RELEASE_TELLS = test_shared_objects.test_a_release_tells_neighbours_apart_by_noisy_numbers_alone
ONE_CELL = test_one_cell.test_one_cell_changes_how_no_other_row_is_read
ONE_RECORD = test_one_cell.test_one_cell_changes_no_other_record_for_jupa
TYPED = (test_one_cell.numpy_numbers,)  # never text
EVERY_COST = test_cost_table.test_every_stated_cost_holds_for_its_own_neighbours
WORST_TABLES = test_contract.test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises
SCALE = test_noise_scale.test_the_scale_that_reaches_the_sampler_is_the_charged_one
AT_THE_DOOR = test_strategies.test_no_neighbouring_table_moves_an_answer_by_more_than_was_paid
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
    bug(only_the_first_look_charged, test_synthetic.test_a_cap_refuses_all_looks_or_none, "moments"),
    bug(
        rows_published_although_private,
        test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed,
        "tables",
    ),
    bug(row_count_always_public, test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release, "moments"),
    bug(row_count_on_the_card, test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release, "tables"),
    bug(
        as_many_rows_drawn_as_there_are,
        test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed,
        "tables",
    ),
    bug(model_sees_the_exact_sums, test_contract.test_the_seed_repeats_the_public_part_and_never_the_noise, "hybrid"),
    bug(half_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(half_noise, test_meter.test_laplace_noise_has_the_calibrated_scale_and_no_other),
    bug(half_noise, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(two_thirds_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(half_sigma, test_meter.test_calibration_costs_what_was_promised, 1.0, test_meter.CELL.neighbours),
    bug(half_sigma, test_sums.test_calibration_costs_what_was_promised, test_sums.COSTED[0]),
    bug(skipped_row_clip, test_dppro.test_row_clip_bounds_what_leaves),
    bug(skipped_range_clip, test_dppro.test_out_of_range_cells_are_clipped),
    bug(clip_moved_behind_the_door, test_dppro.test_row_clip_bounds_what_leaves),
    bug(clip_after_projection, test_rows_are_clipped_before_they_are_mapped),
    bug(
        clip_after_projection,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        0.4,
    ),
    bug(bound_read_from_data, test_encode.test_scaling_comes_from_the_schema_and_never_from_the_data),
    bug(
        bound_read_from_data,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "tables",
        Relation.ADD_REMOVE,
        None,
    ),
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
    bug(
        pca_centre_is_the_private_mean,
        test_private_pca.test_the_centre_is_the_declared_middle_or_the_mean_that_was_released,
        "analyze_gauss",
        True,
    ),
    bug(pca_centre_is_the_private_mean, ESTIMATOR_TELLS, "PrivatePCA", "centred"),
    bug(projection_keeps_the_lengths_of_rows, test_sklearn.test_fit_learns_nothing_from_cells, 2, "row"),
    bug(projection_keeps_the_lengths_of_rows, ESTIMATOR_TELLS, "DPProTransformer", "rows"),
    bug(jupa_remembers_what_it_released, ESTIMATOR_TELLS, "JUPA", "coarse"),
    bug(
        jupa_remembers_what_it_released,
        test_shared_objects.test_an_estimator_that_learnt_from_public_records_is_as_it_was_after_private_ones,
        "laplace",
    ),
    bug(release_keeps_what_the_owner_was_told, RELEASE_TELLS, "tables", "replace"),
    bug(
        release_keeps_what_the_owner_was_told,
        test_shared_objects.test_a_release_holds_neither_the_table_nor_the_way_to_it,
        "frame",
    ),
    bug(
        plan_prints_the_number_of_rows,
        test_shared_objects.test_a_plan_prints_no_row_and_no_private_number_of_rows,
        Relation.ADD_REMOVE,
    ),
    bug(noise_shared_between_rows, test_meter.test_noise_is_never_shared_between_rows_columns_batches_or_runs),
    bug(one_hot_as_one_column, test_sensitivity.test_one_hot_change_counts_both_coordinates),
    bug(one_hot_as_one_column, test_sensitivity.test_no_cell_change_exceeds_the_bound_and_the_worst_reaches_it),
    bug(add_remove_as_replace, test_sensitivity.test_row_map_refuses_add_remove_by_name),
    bug(add_remove_as_replace, test_dppro.test_row_map_under_add_remove_is_refused_and_leaks_no_row_count),
    bug(replace_as_zero_out, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    bug(
        replace_as_zero_out,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        0.4,
    ),
    bug(span_ignores_a_column, test_sensitivity.test_no_pair_of_rows_exceeds_the_bound),
    bug(charge_after_measuring, test_meter.test_charge_comes_before_any_row_is_read),
    bug(charge_forgotten, test_synthetic.test_a_cap_refuses_all_looks_or_none, "tables"),
    bug(charge_forgotten, test_review.test_a_refused_charge_cannot_be_passed_by),
    bug(refusal_swallowed, test_synthetic.test_a_cap_refuses_all_looks_or_none, "tables"),
    bug(refusal_swallowed, test_review.test_a_refused_charge_cannot_be_passed_by),
    bug(owner_rehearses_the_real_table, test_only_audits_measure_without_a_charge),
    bug(warm_up_runs_the_real_table, test_before_the_charge.test_no_private_row_is_read_before_the_charge, "tables"),
    bug(
        warm_up_runs_the_real_table,
        test_before_the_charge.test_the_mechanism_has_run_on_made_up_rows_before_the_charge,
        False,
    ),
    bug(
        charge_before_the_warm_up,
        test_before_the_charge.test_the_mechanism_has_run_on_made_up_rows_before_the_charge,
        False,
    ),
    bug(charge_before_the_warm_up, test_before_the_charge.test_too_little_memory_is_refused_before_the_charge),
    bug(
        interrupt_swallowed_in_a_callback,
        test_interrupts.test_an_interrupt_that_a_finalizer_swallows_stops_before_the_charge,
        signal.SIGINT,
    ),
    bug(
        interrupt_swallowed_in_a_callback,
        test_interrupts.test_an_interrupt_that_is_swallowed_after_the_charge_stops_between_batches,
    ),
    bug(cap_checks_each_release_alone, test_ledger.test_the_composition_counts_not_each_release),
    bug(cap_checks_each_release_alone, test_cap_matrix.test_a_cap_counts_every_past_charge, "gaussian", "all"),
    bug(
        cap_ignores_charges_without_a_bound,
        test_ledger.test_a_past_charge_without_a_bound_meets_a_cap_as_infinite,
        "row",
    ),
    bug(
        cap_ignores_charges_without_a_bound,
        test_cap_matrix.test_a_cap_counts_every_past_charge,
        "fresh",
        "only cell/zero-out",
    ),
    bug(dearest_event_stands_for_all, test_accounting.test_gaussian_answers_compose_as_one, 1.0, 1e-6),
    bug(dearest_event_stands_for_all, test_ledger.test_the_composition_counts_not_each_release),
    bug(line_spent_twice, test_meter.test_a_line_is_spent_once_and_answers_are_read_once),
    bug(line_spent_twice, test_sums.test_a_line_of_a_sum_is_spent_once),
    bug(later_look_gets_what_an_earlier_one_says, test_contract.test_what_is_planned_is_what_is_measured, "moments"),
    bug(seed_always_fresh, test_meter.test_fresh_seed_gets_the_mixture_once_and_reuse_gets_per_matrix),
    bug(seed_always_fresh, test_meter.test_given_seed_never_gets_the_mixture),
    bug(
        fresh_rows_taken_for_emptied_ones, test_a_fresh_projection_is_paid_for_the_farthest_rows, None, Relation.REPLACE
    ),
    bug(fresh_matrix_taken_for_exact, test_a_fresh_projection_is_paid_for_the_farthest_rows, HALF, Relation.REPLACE),
    bug(smaller_account_taken, test_a_lucky_matrix_gets_no_less_noise),
    bug(changed_table_not_noticed, test_a_table_that_changes_between_rows_and_second_moment_is_refused),
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
    bug(residuals_of_a_float_matrix, test_residuals_on_the_edge_of_a_step_depend_on_their_row_alone),
    bug(door_does_not_look, test_meter.test_unclipped_rows_never_get_out),
    bug(slack_forgotten, test_dppro.test_slack_of_the_sampler_is_inside_delta),
    bug(distance_not_debiased, test_answers.test_distances_are_unbiased_and_intervals_cover),
    bug(error_without_projection, test_answers.test_intervals_cover_when_the_projection_dominates),
    bug(root_two_for_all_weights, test_sums.test_a_tenth_and_twice_forty_five_hundredths_exceed_the_root_of_two),
    bug(root_two_for_all_weights, test_sums.test_worst_pair_of_moments, WEIGHTS),
    bug(root_two_for_all_weights, test_sums.test_climbing_finds_no_violating_pair_of_moments, WEIGHTS, True),
    bug(gram_without_root_two, test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    bug(gram_without_root_two, test_sums.test_no_neighbouring_row_exceeds_the_bound, "gram, mixed, clipped"),
    bug(gram_without_root_two, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "gram"),
    bug(upper_triangle_weighed(1.0), test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "gram"),
    bug(upper_triangle_weighed(1.0), test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    bug(upper_triangle_weighed(2.0), test_sums.test_worst_pair_of_a_gram_in_a_ball_and_in_a_box),
    bug(upper_triangle_weighed(2.0), test_sums.test_no_neighbouring_row_exceeds_the_bound, "gram, mixed"),
    bug(triangles_noised_apart, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "gram"),
    bug(triangles_noised_apart, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(scores_not_clipped, test_sums.test_scores_lie_in_the_ball_whatever_the_centre_and_the_scale),
    bug(scores_not_clipped, test_sums.test_scores_keep_directions_and_inner_points),
    bug(scores_not_clipped, test_sums.test_climbing_finds_no_violating_pair_of_moments, WEIGHTS, True),
    bug(
        scores_not_clipped,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "moments",
        Relation.ADD_REMOVE,
        None,
    ),
    bug(added_row_for_a_replaced_one, test_sums.test_worst_pair_of_tables, 1.0, 0.0),
    bug(added_row_for_a_replaced_one, test_sums.test_worst_pair_of_centre_and_scale),
    bug(added_row_for_a_replaced_one, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "tables"),
    bug(
        added_row_for_a_replaced_one,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
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
    bug(class_sizes_taken_for_public, test_synthetic.test_the_rows_are_drawn_from_published_numbers_alone, "moments"),
    bug(class_sizes_taken_for_public, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(label_passed_around_the_noise, test_meter.test_noise_has_the_calibrated_scale_and_no_other),
    bug(small_cells_suppressed, test_synthetic.test_the_rows_are_drawn_from_published_numbers_alone, "tables"),
    bug(mechanism_opens_the_rows, test_architecture.test_only_the_meter_reads_private_rows),
    bug(grouped_table_not_counted, test_sums.test_worst_pair_of_tables, 0.6, 1.3),
    bug(grouped_table_not_counted, test_sums_audit.test_the_claim_is_not_refuted_and_the_attack_has_power, "tables"),
    bug(gram_thought_free, test_sums.test_worst_pair_of_rows_and_gram, "identity", 4.0),
    bug(gram_thought_free, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(
        gram_thought_free,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        None,
    ),
    bug(noise_for_each_batch, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "tables"),
    bug(half_noise_on_one_part, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(half_noise_on_one_part, test_sums.test_noise_of_rows_and_gram_is_calibrated_together),
    bug(looks_share_their_key, test_sums.test_looks_of_one_release_share_no_noise, 1e-6),
    bug(all_parts_one_noise, test_sums.test_noise_of_every_part_has_its_scale_and_no_other, "moments"),
    bug(empty_class_counted_as_the_last, test_sums.test_answers_are_what_the_definition_says, LABELLED),
    bug(empty_class_counted_as_the_last, test_sums.test_empty_flags_and_categories_have_no_cell_and_no_class),
    bug(triangle_of_one_row, test_second_moment.test_worst_pair_of_the_triangle, 8, True),
    bug(triangle_of_one_row, test_second_moment.test_no_signs_are_worse_than_the_constant, 4, 1.0),
    bug(triangle_bound_of_another_layout, test_second_moment.test_worst_pair_of_the_triangle, 8, False),
    bug(plain_triangle_weighed_isometrically, test_second_moment.test_worst_pair_of_the_triangle, 8, True),
    bug(gram_without_root_two, test_second_moment.test_no_neighbour_exceeds_the_bound, "8 numbers", HALF // 2),
    bug(products_without_root_two, test_second_moment.test_worst_pair_of_products, 2),
    bug(products_without_root_two, test_second_moment.test_worst_pair_of_products_in_all_numbers, 2),
    bug(rows_along_axes_paid_as_emptied, test_second_moment.test_worst_pair_of_rows_along_axes, 3),
    bug(
        rows_about_a_centre_not_cut,
        test_second_moment.test_rows_about_a_centre_are_whole_and_not_too_long_each_by_itself,
        0,
    ),
    bug(
        rows_about_a_centre_not_cut,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "analyze_gauss",
        Relation.ZERO_OUT,
        None,
    ),
    bug(
        rows_cut_a_step_too_long_at_the_door,
        test_second_moment.test_the_door_answers_what_the_query_says,
        "all kinds",
        "1",
    ),
    bug(
        centre_forgotten_for_emptied_rows,
        test_second_moment.test_a_row_about_a_centre_that_is_emptied_is_a_replaced_one,
    ),
    bug(
        axes_of_the_exact_second_moment,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "analyze_gauss",
    ),
    bug(
        components_counted_on_the_exact_spectrum,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "lip",
    ),
    bug(
        centre_taken_from_the_rows,
        test_second_moment.test_what_is_published_comes_from_noisy_numbers_alone,
        "analyze_gauss about its mean",
    ),
    bug(
        centre_taken_from_the_rows,
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "lip about its mean",
        Relation.REPLACE,
        None,
    ),
    bug(
        number_of_components_left_open,
        test_second_moment.test_rows_that_are_published_need_a_number_of_components_that_was_fixed_beforehand,
    ),
    bug(looks_share_their_key, test_second_moment.test_rounds_of_the_power_method_share_no_noise),
    bug(
        products_cut_away_from_zero,
        test_second_moment.test_what_a_row_sees_is_never_longer_than_the_row,
    ),
    bug(products_cut_away_from_zero, test_second_moment.test_products_are_exact_in_any_company, 3, HALF),
    bug(lengthening_basis_accepted, test_second_moment.test_a_basis_that_lengthens_rows_is_refused),
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
    bug(delta_of_the_owner_promised, test_contract.test_pure_epsilon_costs_what_it_says, "lip"),
    bug(delta_of_the_owner_promised, test_contract.test_pure_epsilon_costs_what_it_says, "analyze_gauss"),
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
    bug(emptied_row_thought_nowhere, test_strategies.test_an_emptied_row_goes_or_changes_its_cell, ("number:5",)),
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
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
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
        test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
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
    bug(half_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "counts", "laplace"),
    bug(half_l2_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "haar", "l2-laplace"),
    bug(two_thirds_noise, test_strategies.test_noise_of_an_answer_has_its_scale_and_no_other, "tree", "gaussian"),
    bug(half_noise, test_strategies.test_choices_come_as_often_as_their_law_says),
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
    bug(fourier_tail_under_zero_out_paid_like_an_added_row, WORST_TABLES, "fourier"),
    bug(
        fourier_tail_under_zero_out_paid_like_an_added_row,
        test_strategies.test_an_emptied_row_moves_a_tail_like_a_replaced_one,
    ),
    bug(fourier_tail_under_zero_out_paid_like_an_added_row, EVERY_COST, "fourier, no waves", "row", "zero-out", None),
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
    bug(scale_truncated_to_whole_steps, SCALE, "both tables, mixed", "gaussian"),
    bug(scale_truncated_to_whole_steps, SCALE, "row map", "l2-laplace"),
    bug(scale_truncated_to_whole_steps, EVERY_COST, "tables", "row", "replace", None),
    bug(scale_truncated_by_the_sampler, SCALE, "both tables, mixed", "gaussian"),
    bug(scale_truncated_by_the_sampler, SCALE, "row map", "gaussian"),
    bug(partial_totals_added_in_float64, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 1),
    bug(partial_totals_added_in_float64, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 2),
    bug(partial_totals_of_32_bits, test_long_tables.test_a_second_moment_beyond_2_to_the_53_is_exact, 1),
    bug(partial_totals_of_32_bits, test_long_tables.test_a_total_of_many_partials_is_the_total, "gram, mixed", 1),
    bug(noise_added_to_a_long_sum_in_float64, test_long_tables.test_noise_meets_a_long_sum_in_integers, 1, 1),
    bug(
        noise_added_to_a_long_sum_in_float64,
        test_noise.test_noise_does_not_depend_on_the_answer,
        "gaussian",
        np.int64,
        2.0**57,
    ),
    bug(
        left_out_values_known_all_the_same,
        test_jupa_mended.test_rare_categories_do_not_break_ranks,
        "kernel",
        "repair",
    ),
    bug(box_wider_than_its_noise, test_jupa.test_the_noise_has_the_scale_that_the_box_needs_and_no_other, 3, 1.5, 4.0),
    bug(boolean_column_read_by_its_own_rule, test_one_cell.test_true_and_false_are_one_and_zero),
    bug(boolean_column_read_by_its_own_rule, ONE_CELL, test_one_cell.pandas_plain),
    bug(boolean_column_read_by_its_own_rule, ONE_RECORD, test_one_cell.pandas_plain),
    bug(true_words_read_apart, ONE_RECORD, test_one_cell.pandas_plain),
    bug(true_words_read_apart, test_jupa_review.test_true_and_false_mean_the_same_however_they_are_written),
    bug(whole_floats_spelled_by_their_column, test_one_cell.test_every_form_of_a_number_is_one_cell),
    bug(whole_floats_spelled_by_their_column, ONE_CELL, test_one_cell.pandas_plain),
    bug(whole_floats_spelled_by_their_column, ONE_RECORD, test_one_cell.pandas_plain),
    *(bug(type_taken_from_all_cells, ONE_CELL, reader) for reader in test_one_cell.READERS if reader not in TYPED),
    *(bug(type_taken_from_all_cells, ONE_RECORD, reader) for reader in test_one_cell.READERS if reader not in TYPED),
]


def name_of(test):
    return f"{test.__module__.replace('.', '/')}.py::{test.__name__}"


def called(test, arguments, tmp_path):
    """Call a test as the suite would, with the fixtures it names."""
    fixtures = {"tmp_path": lambda: tmp_path, "ledger": lambda: ad.Ledger(tmp_path / "budget.db")}
    fixtures["cold"] = lambda: adumbra.warm_up._warm.clear()
    fixtures["capfd"] = lambda: SimpleNamespace(readouterr=lambda: SimpleNamespace(out="", err=""))
    own = getattr(getattr(test, "hypothesis", None), "inner_test", None)  # takes its arguments from hypothesis
    wanted = [] if own else list(inspect.signature(test).parameters)[len(arguments) :]
    with pytest.MonkeyPatch.context() as patch:
        test(*arguments, **{name: patch if name == "monkeypatch" else fixtures[name]() for name in wanted})


# second tests, in another file where one was to be had: two that fail are harder to break together
NO_NEIGHBOUR = test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid
CALLS_SHARE_NOTHING = test_noise_keys.test_rows_columns_and_calls_share_nothing
ROW_EXCEEDS = test_strategies.test_no_row_exceeds_the_bound_and_one_reaches_it
FORMULAS_HOLD = test_sensing.test_formulas_hold_and_come_as_near_as_stated
ANY_SKETCH = test_sensing.test_no_sketch_of_any_signs_and_weights_exceeds_its_bound
BRINGS_WORST = test_contract.test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises
PRIVATE_NUMBER = test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release
NO_COMPONENTS = ("analyze_gauss", {"result": "coordinates"}, "number of components")
CASES += [
    bug(partial_totals_added_in_float64, test_sums.test_full_totals_add_up_in_integers),
    bug(
        scale_truncated_by_the_sampler, test_meter.test_the_noise_is_tabled_for_the_scale_of_the_event, test_meter.CELL
    ),
    bug(errors_not_made_safe, test_read.test_a_name_that_steers_the_terminal_is_escaped_in_the_error),
    bug(links_and_pipes_opened, test_release_folder.test_a_linked_file_is_not_read_as_one_of_the_folder),
    bug(clip_moved_behind_the_door, NO_NEIGHBOUR, "dppro", Relation.REPLACE, 0.4),
    bug(span_ignores_a_column, test_review.test_no_corner_of_a_large_mixed_space_exceeds_the_row_bound),
    bug(charge_after_measuring, test_meter.test_refused_charge_reads_nothing),
    bug(cap_checks_each_release_alone, test_sklearn.test_a_full_ledger_gives_no_rows),
    bug(only_the_first_look_charged, test_private_pca.test_every_fit_and_every_transform_is_charged, "power_method"),
    bug(later_look_gets_what_an_earlier_one_says, NO_NEIGHBOUR, "moments", Relation.REPLACE, None),
    bug(smaller_account_taken, test_review.test_dimension_and_noise_of_a_fresh_projection_do_not_look_at_the_matrix),
    bug(seed_always_fresh, test_review.test_a_matrix_shown_by_a_plan_is_not_accounted_as_fresh),
    bug(door_does_not_look, test_sums.test_rows_that_break_their_bound_are_not_summed),
    bug(slack_forgotten, test_review.test_lines_leave_room_for_each_others_slack),
    bug(distance_not_debiased, test_answers.test_laplace_distances_cover),
    bug(error_without_projection, test_answers.test_means_and_counts_are_unbiased_with_honest_errors, 2, "unit-row"),
    bug(row_count_always_public, RELEASE_TELLS, "moments", "add-remove"),
    bug(row_count_on_the_card, RELEASE_TELLS, "tables", "add-remove"),
    bug(rows_published_although_private, PRIVATE_NUMBER, "tables"),
    bug(plan_prints_the_number_of_rows, PRIVATE_NUMBER, "tables"),
    bug(small_cells_suppressed, RELEASE_TELLS, "tables", "replace"),
    bug(noise_for_each_batch, test_sums.test_noise_of_a_count),
    bug(all_parts_one_noise, CALLS_SHARE_NOTHING, "gaussian"),
    bug(noise_shared_between_rows, CALLS_SHARE_NOTHING, "gaussian"),
    bug(root_two_for_all_weights, NO_NEIGHBOUR, "hybrid", Relation.REPLACE, None),
    bug(triangles_noised_apart, test_second_moment.test_noise_of_a_mechanism_has_its_scale_and_no_other, "lip"),
    bug(triangle_bound_of_another_layout, test_second_moment.test_one_row_of_the_triangle, 2),
    bug(plain_triangle_weighed_isometrically, test_second_moment.test_one_row_of_the_triangle, 2),
    bug(rows_cut_a_step_too_long_at_the_door, NO_NEIGHBOUR, "analyze_gauss", Relation.ZERO_OUT, None),
    bug(centre_forgotten_for_emptied_rows, NO_NEIGHBOUR, "analyze_gauss about its mean", Relation.ZERO_OUT, None),
    bug(axes_of_the_exact_second_moment, RELEASE_TELLS, "analyze_gauss", "replace"),
    bug(
        number_of_components_left_open,
        test_components.test_bad_options_are_refused_and_nothing_is_charged,
        *NO_COMPONENTS,
    ),
    bug(one_length_for_all_rows, test_noise_keys.test_every_row_has_a_length_of_its_own),
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
    bug(response_weight_rounded_up, test_coins.test_weights_beside_whole_numbers_are_not_rounded_up, 2),
    bug(coins_favour_low_sides, CALLS_SHARE_NOTHING, "sides"),
    bug(
        left_out_values_known_all_the_same,
        test_jupa.test_a_guard_makes_one_thing_of_all_that_its_records_do_not_know,
    ),
    bug(box_wider_than_its_noise, test_jupa.test_no_record_moves_the_release_by_more_than_the_noise_covers),
]


@pytest.mark.parametrize(
    ("plant", "test", "arguments"), CASES, ids=[f"{plant.__name__}-{test.__name__}" for plant, test, _ in CASES]
)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    record_property(plant_report.CASE, (plant.__name__, name_of(test)))
    caught = None
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        try:
            called(test, arguments, tmp_path)
        except (Exception, pytest.fail.Exception) as failure:
            caught = failure
    assert caught is not None, f"{plant.__name__} went unnoticed"
    noticed = isinstance(caught, AssertionError | pytest.fail.Exception)
    refused = isinstance(caught, RuntimeError) and re.search(
        r"at the door|differs from the one that was pl|more than the promised epsilon", str(caught)
    )
    assert noticed or refused, f"{plant.__name__} crashed the test instead of failing it: {caught!r}"


@pytest.mark.parametrize("test", dict.fromkeys(test for _, test, _ in CASES), ids=lambda test: test.__name__)
def test_a_catching_test_is_called_as_the_suite_calls_it(test):
    """So that it passes without a plant: the suite runs it with these very arguments."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    # the decorator nearest to the function comes first in the list; each gives one or several arguments
    allowed = {}
    for mark in marks:
        names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
        values = [v if len(names) > 1 else (v,) for v in (getattr(v, "values", v) for v in mark.args[1])]
        for place, name in enumerate(names):
            allowed[name] = [value[place] for value in values]
    parameters = list(inspect.signature(test).parameters)
    for used in (arguments for _, other, arguments in CASES if other is test):
        assert len(used) == len(allowed)
        for name, value in zip(parameters, used, strict=False):
            assert value in allowed[name], f"{test.__name__} is never run with {name} = {value!r}"


# ---- the page


REQUIRED = (
    "half noise",
    "clip skipped",
    "clip after projection",
    "n leaked",
    "bound from data",
    "seed reused",
    "noise shared between rows",
    "one-hot as one column",
    "wrong relation",
    "second moment without sqrt(2)",
    "off-diagonal noise unsymmetrised",
    "budget line spent twice",
    "ledger bypassed",
    "label unprotected",
    "post-processing that peeks",
)


def page_rows():
    """First cell, planted functions, tests: of every row of the page's tables."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and "`" in cells[1]:
            yield cells[0], re.findall(r"`(\w[\w.]*)`", cells[1]), re.findall(r"`([\w/.]+::\w+)`", cells[2])


def test_the_page_lists_what_is_planted_and_what_catches_it():
    listed = {}
    for what, plants, tests in page_rows():
        (plant,) = plants
        assert plant not in listed, f"{plant} stands twice"
        listed[plant] = tests
        assert what and tests, f"{plant}: what is broken, and by what is it caught?"
    planted = {}
    for plant, test, _ in CASES:
        planted.setdefault(plant.__name__, {})[name_of(test)] = None
    assert {plant: sorted(tests) for plant, tests in listed.items()} == {
        plant: sorted(tests) for plant, tests in planted.items()
    }


def test_the_mistakes_that_must_be_caught_are_all_planted():
    assert {what.split(":")[0] for what, _, _ in page_rows()} >= set(REQUIRED)
