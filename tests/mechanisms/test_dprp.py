"""DPRP in its sound form, end to end."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.accounting import calibrate
from adumbra.declare.space import GRID
from adumbra.mechanisms.dprp import DPRP
from adumbra.noise import add as noise
from adumbra.queries.row_map import RowMap

KINDS = ("posterior-draw", "wiener", "moment-matched", "pseudo-inverse")
SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            **{f"c{i}": {"kind": "number", "low": -1, "high": 1, "missing": 0.25} for i in range(6)},
            "g": {"kind": "category", "values": ["a", "b"], "role": "label"},
        }
    }
)


def people(rows=500, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.random(rows) < 0.5
    common = rng.normal(size=rows) * 0.4 + np.where(label, 0.4, -0.4)
    x = np.clip(common[:, None] * 0.8 + rng.normal(size=(rows, 6)) * 0.1, -1, 1)
    frame = pl.DataFrame(x, schema=[f"c{i}" for i in range(6)])
    return frame.with_columns(pl.Series("g", np.where(label, "b", "a").tolist()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("projection", [{}, {"projection": "gaussian", "dimension": 20}, {"projection": "orthogonal"}])
def test_every_reconstruction_gives_one_typed_row_per_person(kind, projection):
    out = ad.release(people(60), SCHEMA, DPRP(reconstruction=kind, **projection), ad.Budget(4.0, 1e-5))
    assert out.table.columns == [c.name for c in SCHEMA.released] and out.table.height == 60
    assert out.table["c0"].is_between(-1, 1).all() and set(out.table["g"]) <= {"a", "b"}
    assert out.verify() == [] and out.card.costs["row/replace"] == pytest.approx(4.0, rel=1e-5)


def squared_error(kind, epsilon, **more):
    truth = people()
    out = ad.release(truth, SCHEMA, DPRP(reconstruction=kind, **more), ad.Budget(epsilon, 1e-5)).table
    names = [f"c{i}" for i in range(6)]
    return float(((truth[names].to_numpy() - out[names].to_numpy()) ** 2).sum(axis=1).mean())


def exactly(frame, mechanism, monkeypatch, schema=SCHEMA):
    with monkeypatch.context() as patch:
        patch.setattr(noise, "add_noise", lambda law, exact, t, step, **_: np.asarray(exact, dtype=float) * step)
        return ad.release(frame, schema, mechanism, ad.Budget(1.0, 1e-5)).table


@pytest.mark.parametrize("projection", [{}, {"projection": "gaussian", "dimension": 20}, {"projection": "orthogonal"}])
def test_without_noise_and_with_all_directions_rows_come_back(projection, monkeypatch):
    truth = people(80)
    out = exactly(truth, DPRP("pseudo-inverse", rank=8, **projection), monkeypatch)
    assert out["g"].equals(truth["g"])
    assert out.drop("g").to_numpy() == pytest.approx(truth.drop("g").to_numpy(), abs=1e-4)


def test_rows_get_nearer_as_epsilon_grows():
    errors = [squared_error("wiener", epsilon, weight=0.5) for epsilon in (1.0, 8.0, 70.0)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.4 * errors[0]


def test_wiener_is_nearest_and_the_pseudo_inverse_far_off():
    errors = {kind: squared_error(kind, 4.0) for kind in KINDS}
    assert min(errors, key=errors.get) == "wiener"
    assert errors["pseudo-inverse"] > 1.5 * errors["wiener"]


def test_a_posterior_draw_keeps_correlations_where_wiener_shrinks():
    truth = people(3000)
    spread = truth["c0"].std()
    draws = ad.release(truth, SCHEMA, DPRP(), ad.Budget(8.0, 1e-5)).table
    flat = ad.release(truth, SCHEMA, DPRP(reconstruction="wiener"), ad.Budget(8.0, 1e-5)).table
    assert flat["c0"].std() < 0.9 * spread
    assert draws["c0"].std() == pytest.approx(spread, rel=0.25)
    assert np.corrcoef(draws["c0"], draws["c1"])[0, 1] > 0.5


def test_a_second_moment_up_to_half_the_weight_is_free_and_more_costs_what_the_formula_says():
    frame, budget = people(50), ad.Budget(1.0, 1e-5)
    mu = calibrate.mu_for(1.0, 1e-5)
    bound = SCHEMA.space().reach / GRID
    for weight in (0.1, 0.5, 1.0, 4.0):
        (calibration,) = ad.plan(frame, SCHEMA, DPRP(weight=weight), budget).calibrations.values()
        squared = 4.0 if weight <= 0.5 else 2 + 2 * weight + 1 / (2 * weight)
        assert calibration.event.scale <= bound * math.sqrt(squared) / mu * (1 + 1e-6)
    signed = ad.Schema.from_dict(
        {"columns": {f"c{i}": {"kind": "number", "low": -1, "high": 1} for i in range(6)} | {"g": {"role": "drop"}}}
    )
    free, rows_only = (
        ad.plan(frame, signed, DPRP(weight=w), budget).calibrations.popitem()[1].event.scale for w in (0.5, 1e-6)
    )
    assert free == pytest.approx(rows_only, rel=1e-9)


def test_an_ensemble_is_one_measurement_of_stacked_projections():
    planned = ad.plan(people(30), SCHEMA, DPRP(projection="gaussian", dimension=5, ensemble=3), ad.Budget(1.0))
    (query,) = planned.queries.values()
    assert isinstance(query.map, RowMap) and query.map.dimension == 15
    out = ad.release(
        people(30),
        SCHEMA,
        DPRP("pseudo-inverse", "gaussian", dimension=5, rank=2, ensemble=3),
        ad.Budget(4.0, 1e-5),
    )
    assert out.table.height == 30


@pytest.mark.parametrize(
    "bad",
    [
        {"reconstruction": "magic"},
        {"projection": "none", "dimension": 4},
        {"ensemble": 2},
        {"weight": 0.0},
        {"rank": 3},
        {"dimension": 0, "projection": "gaussian"},
    ],
)
def test_parameters_that_do_not_fit_are_refused(bad):
    with pytest.raises(ad.InputError):
        DPRP(**bad)


def test_a_rank_or_dimension_beyond_the_table_is_refused_before_any_charge(tmp_path):
    ledger = ad.Ledger(tmp_path / "l.db")
    for mechanism in (DPRP("pseudo-inverse", rank=99), DPRP(projection="gaussian", dimension=10**6)):
        with pytest.raises(ad.InputError):
            ad.release(people(20), SCHEMA, mechanism, ad.Budget(1.0), ledger=ledger)
    assert not (tmp_path / "l.db").exists()


def test_missing_cells_go_to_the_declared_constant_and_never_to_a_mean(monkeypatch):
    """The paper imputes column means, so one person moves every imputed cell. Here a missing cell is a constant."""
    frame = people(40).with_columns(pl.when(pl.int_range(40) < 20).then(None).otherwise(pl.col("c0")).alias("c0"))
    out = exactly(frame, DPRP("pseudo-inverse", rank=8), monkeypatch)
    assert out["c0"].head(20).to_numpy() == pytest.approx(np.full(20, 0.25), abs=1e-4)
