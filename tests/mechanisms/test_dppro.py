"""DPPro end to end: resolution of its parameters, promises, exactness, bands."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.declare.guarantee import Promise, Relation, Unit
from adumbra.declare.space import GRID
from adumbra.noise import add as noise
from adumbra.numerics.projections import ProjectionKind
from adumbra.privacy.meter import calibrated
from adumbra.published import dppro_paper as published
from tests.mechanisms.test_contract import SCHEMA, people
from tests.privacy.test_meter import CELL, unit_map

CELL_BUDGET = ad.Budget(1.0, 1e-6, Unit.CELL)
ROW_BUDGET = ad.Budget(1.0, 1e-6, Unit.ROW)
WIDE = ad.Schema.from_dict({"columns": {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(40)}})


def wide(count=200, seed=0):
    values = np.random.default_rng(seed).random((count, 40))
    return pl.DataFrame({f"c{i}": values[:, i] for i in range(40)})


def exact_release(patch, *arguments, **options):
    """A release with the noise switched off: what the noise was added to."""
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **_: np.asarray(exact, dtype=float) * step)
    return ad.release(*arguments, **options)


def test_auto_projection_follows_unit_and_seed():
    given = ad.PublicSeed.given("x")
    cases = ((CELL_BUDGET, None, "unit-row"), (ROW_BUDGET, None, "gaussian"), (ROW_BUDGET, given, "orthogonal"))
    for budget, seed, kind in cases:
        card = ad.release(wide(), WIDE, ad.DPPro(dimension=4), budget, seed=seed).card
        assert card.facts["projection"] == kind
        account = card.noise["rows"].account
        assert account == ("fresh-projection" if kind == "gaussian" else "per-matrix")


@pytest.mark.parametrize("kind", list(ProjectionKind))
@pytest.mark.parametrize("budget", [CELL_BUDGET, ROW_BUDGET, ad.Budget(1.0, 0.0, Unit.CELL)], ids=str)
def test_every_projection_under_every_promise(kind, budget):
    release = ad.release(wide(), WIDE, ad.DPPro(dimension=8, projection=kind.value), budget)
    assert release.table.shape == (200, 8)
    assert release.card.costs[str(release.card.neighbours)] <= 1.0 + 1e-6
    assert np.isfinite(release.distances([(0, 1)])["standard_error"][0])


def test_released_rows_are_the_projection_of_the_encoded_rows(monkeypatch):
    release = exact_release(monkeypatch, wide(), WIDE, ad.DPPro(dimension=6), CELL_BUDGET)
    matrix = release.arrays["matrix"] * release.arrays["step"]
    rows = np.rint((wide().to_numpy() - 0.5) * GRID) / GRID
    assert np.allclose(release.table.to_numpy(), rows @ matrix, atol=1e-12)


def test_dimension_is_chosen_for_a_public_distance_and_grows_with_epsilon():
    small = ad.plan(wide(), WIDE, ad.DPPro(expected=20.0), CELL_BUDGET).queries["rows"].dimension
    large = ad.plan(wide(), WIDE, ad.DPPro(expected=20.0), ad.Budget(8.0, 1e-6, Unit.CELL)).queries["rows"].dimension
    assert 1 <= small < large <= 40
    sigma = (
        ad.plan(wide(), WIDE, ad.DPPro(dimension=large), ad.Budget(8.0, 1e-6, Unit.CELL)).calibrations["rows"].event.sd
    )
    assert large == pytest.approx(20.0 / (2 * sigma**2), rel=0.35)  # Lemma 5, on the grid of candidates


def test_dimension_does_not_depend_on_the_data():
    one = ad.plan(wide(seed=1), WIDE, ad.DPPro(), CELL_BUDGET, seed=ad.PublicSeed.given("s"))
    two = ad.plan(wide(seed=2) * 0.0, WIDE, ad.DPPro(), CELL_BUDGET, seed=ad.PublicSeed.given("s"))
    assert np.array_equal(one.queries["rows"].matrix, two.queries["rows"].matrix)
    assert one.calibrations["rows"].event == two.calibrations["rows"].event


@pytest.mark.parametrize("budget", [CELL_BUDGET, ROW_BUDGET, ad.Budget(8.0, 1e-6, Unit.CELL)], ids=str)
def test_bands_share_one_budget(budget):
    release = ad.release(wide(), WIDE, ad.DPPro(bands=(1.0, 10.0, 40.0)), budget)
    bands = release.card.facts["bands"]
    assert len(bands) == 3 and sum(b["share"] for b in bands) == pytest.approx(1.0)
    assert release.table.width == sum(b["dimension"] for b in bands)
    assert release.card.costs[str(release.card.neighbours)] <= budget.epsilon * (1 + 1e-6)


def test_row_clip_bounds_what_leaves():
    table = pl.DataFrame({f"c{i}": [0.0, 1.0, 0.5] for i in range(40)})
    release = ad.release(table, WIDE, ad.DPPro(dimension=3), ROW_BUDGET, row_bound=1.0)
    assert release.card.row_bound == 1.0
    assert release.card.noise["rows"].sensitivity < 2.1 * 10


def test_out_of_range_cells_are_clipped():
    calm = pl.DataFrame({f"c{i}": [0.0, 1.0] for i in range(40)})
    wild = pl.DataFrame({f"c{i}": [-1e308, float("inf")] for i in range(40)})
    seed = ad.PublicSeed.given("clip")
    with pytest.MonkeyPatch.context() as patch:
        one = exact_release(patch, calm, WIDE, ad.DPPro(dimension=5), CELL_BUDGET, seed=seed).table
        two = exact_release(patch, wild, WIDE, ad.DPPro(dimension=5), CELL_BUDGET, seed=seed).table
    assert one.equals(two)


def test_row_map_under_add_remove_is_refused_and_leaks_no_row_count():
    promise = Promise(1.0, 1e-6, ad.Neighbours(Unit.ROW, Relation.ADD_REMOVE))
    for count in (10, 11):
        with pytest.raises(ad.InputError, match="add-remove") as refusal:
            ad.release(people(count), SCHEMA, ad.DPPro(), ad.Budget(1.0, 1e-6, Unit.ROW, Relation.ADD_REMOVE))
        assert str(count) not in str(refusal.value)
    with pytest.raises(ad.InputError, match="add-remove"):
        calibrated(unit_map(), unit_map_space(), promise, share=1.0, rows=10, fresh=False)


def unit_map_space():
    from tests.privacy.test_meter import SPACE

    return SPACE


def test_slack_of_the_sampler_is_inside_delta():
    event = calibrated(unit_map(), unit_map_space(), CELL, share=1.0, rows=10**6, fresh=False).event
    assert event.slack >= 4 * 10**6 * 2 * 6e-58  # at least the normal tail beyond 16 standard deviations, per draw
    assert event.slack < 1e-30


def test_pure_epsilon_needs_no_delta():
    release = ad.release(wide(), WIDE, ad.DPPro(dimension=4), ad.Budget(2.0, 0.0, Unit.CELL))
    card = release.card
    assert card.noise["rows"].law == "laplace" and card.noise["rows"].slack == 0.0
    assert card.costs["cell/replace"] == pytest.approx(2.0, rel=1e-6)
    assert "delta" not in card.promise.split("A person")[0]


def test_cell_release_is_listed_at_its_row_cost(tmp_path):
    ledger = ad.Ledger(tmp_path / "l.db")
    release = ad.release(wide(), WIDE, ad.DPPro(dimension=8), CELL_BUDGET, ledger=ledger, name="w")
    row = release.card.costs["row/replace"]
    assert row > 5 * release.card.costs["cell/replace"]
    assert ledger.spent("w", ad.Neighbours(Unit.ROW, Relation.REPLACE), 1e-6) == pytest.approx(row)
    assert f"{row:.3g}" in release.card.promise


@pytest.mark.parametrize(
    "bad",
    [
        {"dimension": 0},
        {"expected": -1.0},
        {"projection": "magic"},
        {"bands": (1.0, 2.0), "dimension": 4},
        {"bands": (0.0,)},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ad.InputError):
        ad.DPPro(**bad)


def test_the_default_dimension_is_at_least_16_or_the_whole_table():
    few = ad.plan(people(5), SCHEMA, ad.DPPro(), CELL_BUDGET).queries["rows"].dimension
    many = ad.plan(wide(), WIDE, ad.DPPro(), CELL_BUDGET).queries["rows"].dimension
    asked = ad.plan(wide(), WIDE, ad.DPPro(expected=5.0), CELL_BUDGET).queries["rows"].dimension
    assert (few, many) == (5, 16) and asked < 16


def test_a_senseless_dimension_is_refused():
    with pytest.raises(ad.InputError, match="at most 1024"):
        ad.plan(people(5), SCHEMA, ad.DPPro(dimension=99_999, projection="gaussian"), CELL_BUDGET)


def test_ten_thousand_columns():
    names = [f"c{i}" for i in range(10_000)]
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "flag"} for n in names}})
    table = pl.DataFrame({n: [True, False, True] for n in names})
    for budget in (CELL_BUDGET, ROW_BUDGET):
        assert ad.release(table, schema, ad.DPPro(dimension=8), budget).table.shape == (3, 8)


def test_one_row():
    release = ad.release(people(1), SCHEMA, ad.DPPro(), CELL_BUDGET)
    assert release.table.height == 1
    with pytest.raises(ad.InputError, match="two rows"):
        release.random_pairs(1)


def test_frames_come_back_in_their_library():
    import pandas as pd
    import pyarrow as pa

    frame = people(5)
    for table, kind in ((frame, pl.DataFrame), (frame.to_pandas(), pd.DataFrame), (frame.to_arrow(), pa.Table)):
        release = ad.release(table, SCHEMA, ad.DPPro(dimension=2), CELL_BUDGET)
        assert isinstance(release.table, kind)
        assert isinstance(release.reconstruct(), kind)


def test_published_algorithm_is_the_papers():
    rng = np.random.default_rng(0)
    table = (rng.random((400, 30)) < 0.3).astype(float)
    matrix, released, sigma = published.dppro(table, 1.0, 1e-6, 16, rng)
    theta = np.linalg.norm(matrix, axis=1).max()
    assert sigma == pytest.approx(theta * np.sqrt(2 * (np.log(1 / 2e-6) + 1)))
    _, loose, _ = published.dppro(table, 1.0, 1e-6, 400, rng, sigma=0.1)
    truth = ((table[3] - table[9]) ** 2).sum()
    assert published.squared_distance(loose, 3, 9, 0.1) == pytest.approx(truth, abs=6)
    assert released.shape == (400, 16) and published.best_dimension(8.0, 2.0) == 1.0


def test_the_dimension_is_chosen_without_looking_at_the_matrix():
    """On a table with wide categories a lucky matrix hides changes; choosing k by it would bias distances."""
    budget = ad.Budget(2.0, 1e-6, Unit.CELL)
    chosen = {
        ad.plan(people(20), SCHEMA, ad.DPPro(expected=2.0), budget, seed=ad.PublicSeed.given(str(i)))
        .queries["rows"]
        .dimension
        for i in range(25)
    }
    assert len(chosen) == 1


def test_distances_are_unbiased_over_planned_matrices():
    z = np.array([1.0, 1.0, 0.7071, -0.7071, 0.0])
    budget = ad.Budget(1.0, 1e-6, Unit.CELL)
    seen = []
    for index in range(400):
        query = ad.plan(
            people(5), SCHEMA, ad.DPPro(expected=2.0), budget, seed=ad.PublicSeed.given(f"b{index}")
        ).queries["rows"]
        image = z @ (query.matrix * query.step)
        seen.append(image @ image)
    assert abs(np.mean(seen) - z @ z) < 4 * np.std(seen) / np.sqrt(len(seen))
