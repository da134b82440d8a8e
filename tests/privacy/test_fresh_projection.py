"""A projection that nobody saw: claimed once, paid for the farthest rows, whatever matrix came out."""

from __future__ import annotations

import math
import os

import numpy as np
import polars as pl
import pytest

import adumbra as ad
import adumbra.privacy.meter
from adumbra.accounting import calibrate
from adumbra.accounting.accountant import delta_of, epsilon_of
from adumbra.accounting.calibrate import fresh_sigma_for, mu_for
from adumbra.accounting.events import Event, FreshProjection
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF
from adumbra.numerics.projections import ROUNDING
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.row_map import RowMap
from tests.privacy import test_meter, test_sensitivity

ROW = Neighbours(Unit.ROW, Relation.REPLACE)


ONE = ad.Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})


TWO = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": 0, "high": 1} for c in "ab"}})


def test_the_matrix_that_was_measured_for_is_the_one_that_is_multiplied():
    matrix = np.ones((1, 1), dtype=np.int64)
    rows = PrivateRows(ONE.space(), 200, lambda: iter([np.full((200, 1), float(HALF))]))
    meter = Meter(rows, Promise(1.0, 1e-6, Neighbours.parse("cell/replace")), {"rows": 1.0}, lambda line, event: None)
    try:
        noisy = meter.measure("rows", RowMap(matrix, 1.0))
        matrix *= 10**6
    except ValueError:  # a matrix that cannot be written to is as good
        return
    assert abs(float(next(noisy.batches).mean()) - 0.5) < 100.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_cannot_claim_its_parents_seed():
    seed = ad.PublicSeed.fresh()
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sender, b"1" if seed.claim_freshness() else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    claims = int(os.read(receiver, 1)) + seed.claim_freshness()
    os.close(receiver)
    os.close(sender)
    assert claims == 1


def test_a_matrix_shown_by_a_plan_is_not_accounted_as_fresh():
    seed, table = ad.PublicSeed.fresh(), pl.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    mechanism, budget = ad.DPPro(dimension=1, projection="gaussian"), ad.Budget(1.0)
    shown = ad.plan(table, TWO, mechanism, budget, seed=seed).queries["rows"].matrix
    done = ad.release(table, TWO, mechanism, budget, seed=seed)
    assert not np.array_equal(shown, done.arrays["matrix"]) or done.card.noise["rows"].account == "per-matrix"


def test_dimension_and_noise_of_a_fresh_projection_do_not_look_at_the_matrix():
    table = pl.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    found = set()
    for _ in range(5):
        plan = ad.plan(table, TWO, ad.DPPro(), ad.Budget(1.0))
        calibration = plan.calibrations["rows"]
        assert calibration.account == "fresh-projection"
        found.add((plan.queries["rows"].dimension, calibration.event.scale))
    assert len(found) == 1


def fresh_event(stretch):
    sigma = fresh_sigma_for(1.0, 1e-6, 1, 1.0)
    return Event("gaussian", sigma, {str(ROW): stretch}, {str(ROW): FreshProjection(1, 1.0, 0.0)})


def test_a_cap_holds_for_an_owner_who_spends_what_a_lucky_matrix_left_over():
    """One column, k = 1. If the matrix came out small, spend the rest with a second answer; else stop.

    The ledger calls both outcomes (1, 1e-6). The delta at epsilon 1, averaged over the matrix, is 1.97e-6.
    """
    allowed, sigma = mu_for(1.0, 1e-6), fresh_event(1.0).scale

    def left(own):
        return np.sqrt(max(allowed**2 - own**2, 0.0)) * (1 - 1e-9)

    def admitted(entry):
        second = Event("gaussian", 1 / left(entry / sigma), {str(ROW): 1.0})
        return epsilon_of([fresh_event(entry), second], ROW, 1e-6) <= 1.0

    topped = all(admitted(entry) for entry in (0.25, 0.5, 1.5))
    entries = np.linspace(0.0, 8.0, 4001)
    weights = np.exp(-(entries**2) / 2)
    total = 0.0
    for own, weight in zip(entries / sigma, weights / weights.sum(), strict=True):
        spent = float(np.hypot(own, left(own) if topped else 0.0))
        total += weight * delta_of([Event("gaussian", 1.0, {str(ROW): spent})], ROW, 1.0)
    assert total <= 1.01e-6


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
