"""Bugs planted in the pipeline, and the tests that notice."""

from __future__ import annotations

import dataclasses
import signal

import numpy as np

import adumbra.ledger.ledger
import adumbra.pipeline
import adumbra.privacy.charge
import adumbra.privacy.engine
import adumbra.privacy.meter
import adumbra.publish
import adumbra.tables.row_source
import adumbra.warm_up
from adumbra.declare.guarantee import Relation
from adumbra.declare.space import HALF
from adumbra.queries.row_map import RowMap
from adumbra.tables.table import Table
from tests.house import test_architecture
from tests.mechanisms import test_contract, test_dppro, test_synthetic
from tests.pipeline import test_before_the_charge, test_interrupts, test_planned_and_charged, test_whole_way
from tests.planted.planting import assert_caught, bug, parametrized
from tests.releases import test_shared_objects


def skipped_row_clip(patch):
    patch.setattr(adumbra.tables.row_source, "clip_rows", lambda values, bound: (values, 0))


def skipped_range_clip(patch):
    real = adumbra.tables.row_source.encode

    def unclipped(frame, schema):
        encoded = real(frame, schema)
        wild = encoded.values.copy()
        wild[np.abs(wild) == HALF] *= 2
        return type(encoded)(wild, encoded.repairs)

    patch.setattr(adumbra.tables.row_source, "encode", unclipped)


def rows_published_although_private(patch):
    real = adumbra.pipeline.Setting

    def leaky(space, rows, *rest):
        return real(space, 60 if rows is None else rows, *rest)

    patch.setattr(adumbra.pipeline, "Setting", leaky)


def clip_after_projection(patch):
    """The map sees the whole row; what comes out of it is shortened instead. The check at the door moved along."""
    real, answer, check, bound = (
        adumbra.tables.row_source.clip_rows,
        RowMap.mapped,
        adumbra.privacy.engine.check_bounded,
        [],
    )

    def remembered(values, row_bound):
        bound[:] = [row_bound]
        return np.array(values, dtype=float), real(values, row_bound)[1]

    def clipped(self, batch):
        out = answer(self, batch)
        length = np.sqrt((out**2).sum(axis=1, keepdims=True)) * self.step
        return np.trunc(out * np.minimum(1.0, bound[0] / np.maximum(length, 1e-300)))

    patch.setattr(adumbra.tables.row_source, "clip_rows", remembered)
    patch.setattr(RowMap, "mapped", clipped)
    patch.setattr(
        adumbra.privacy.engine,
        "check_bounded",
        lambda batch, space: check(batch, dataclasses.replace(space, row_bound=None)),
    )


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


def owner_rehearses_the_real_table(patch):
    text = (
        test_architecture.MODULES["plan_document.py"]
        + "\n\ndef preview(job):\n    return list(rehearse(job, print, 3))\n"
    )
    patch.setitem(test_architecture.MODULES, "plan_document.py", text)


def warm_up_runs_the_real_table(patch):
    """A few of the real rows seem handier than made-up ones."""
    patch.setattr(adumbra.warm_up, "_made_up", lambda job, schema, types: job)


def charge_before_the_warm_up(patch):
    """The ledger first, then whatever can fail."""
    real, charge, late = adumbra.pipeline.warm_up, adumbra.ledger.ledger.Ledger.charge, []

    def charged(self, **facts):
        receipt = charge(self, **facts)
        while late:
            real(*late.pop())
        return receipt

    patch.setattr(adumbra.pipeline, "warm_up", lambda *given: late.append(given))
    patch.setattr(adumbra.ledger.ledger.Ledger, "charge", charged)


def interrupt_swallowed_in_a_callback(patch):
    """Nobody asks whether an interrupt was lost."""
    for place in (adumbra.pipeline, adumbra.privacy.charge, adumbra.tables.row_source):
        patch.setattr(place, "stop_if_asked", lambda: None)


def delta_of_the_owner_promised(patch):
    """What the owner allows is taken for what the mechanism promises."""
    patch.setattr(adumbra.pipeline, "promised_delta", lambda mechanism, delta: delta)


RELEASE_TELLS = test_shared_objects.test_a_release_tells_neighbours_apart_by_noisy_numbers_alone


PRIVATE_NUMBER = test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release


CASES = [
    bug(
        rows_published_although_private,
        test_synthetic.test_a_private_number_of_rows_is_estimated_and_not_printed,
        "tables",
    ),
    bug(row_count_always_public, test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release, "moments"),
    bug(row_count_on_the_card, test_contract.test_a_private_number_of_rows_is_nowhere_in_the_release, "tables"),
    bug(skipped_row_clip, test_dppro.test_row_clip_bounds_what_leaves),
    bug(skipped_range_clip, test_dppro.test_out_of_range_cells_are_clipped),
    bug(clip_after_projection, test_whole_way.test_rows_are_clipped_before_they_are_mapped),
    bug(
        clip_after_projection,
        test_whole_way.test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid,
        "dprp",
        Relation.REPLACE,
        0.4,
    ),
    bug(owner_rehearses_the_real_table, test_planned_and_charged.test_only_audits_measure_without_a_charge),
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
    bug(delta_of_the_owner_promised, test_contract.test_pure_epsilon_costs_what_it_says, "lip"),
    bug(delta_of_the_owner_promised, test_contract.test_pure_epsilon_costs_what_it_says, "analyze_gauss"),
    bug(row_count_always_public, RELEASE_TELLS, "moments", "add-remove"),
    bug(row_count_on_the_card, RELEASE_TELLS, "tables", "add-remove"),
    bug(rows_published_although_private, PRIVATE_NUMBER, "tables"),
]


@parametrized(CASES)
def test_a_planted_bug_is_caught(plant, test, arguments, tmp_path, record_property):
    assert_caught(plant, test, arguments, tmp_path, record_property)
