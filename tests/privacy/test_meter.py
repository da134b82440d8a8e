"""The door: charged before measured, once a line, noise as calibrated, bounds checked where the noise is added."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from adumbra.accounting import calibrate
from adumbra.accounting.accountant import epsilon_of
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import GRID, HALF
from adumbra.noise import add as noise
from adumbra.numerics.projections import ROUNDING, ProjectionKind, draw, gaussian_matrix
from adumbra.privacy.meter import Meter, calibrated
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.query import GaussianRecipe
from adumbra.queries.row_map import RowMap
from tests.privacy.test_sensitivity import make_space
from tests.repeatable import repeatable  # noqa: F401

SPACE = make_space([("number", 1)] * 5 + [("category", 3)])
CELL = Promise(1.0, 1e-6, Neighbours(Unit.CELL, Relation.REPLACE))
ROW = Promise(1.0, 1e-6, Neighbours(Unit.ROW, Relation.REPLACE))


def unit_map(space=SPACE, k=4, key=bytes(32)):
    projection = draw(ProjectionKind.UNIT_ROW, key, space, k)
    return RowMap(projection.matrix, projection.step)


def rows_of(values, space=SPACE):
    values = np.asarray(values, dtype=float)
    return PrivateRows(space, len(values), lambda: iter(np.array_split(values, max(1, len(values) // 1000))))


def empty_rows(count, space=SPACE):
    return rows_of(np.zeros((count, space.width)), space)


class Charges:
    def __init__(self):
        self.charges = []

    def __call__(self, line, event):
        self.charges.append((line, event))


def measured(rows, query, promise=CELL, charge=None, lines=None):
    meter = Meter(rows, promise, lines or {"rows": 1.0}, charge or Charges())
    noisy = meter.measure("rows", query)
    return np.concatenate(list(noisy.batches)), meter.done["rows"]


def test_charge_comes_before_any_row_is_read():
    read = []

    def batches():
        read.append(True)
        yield np.zeros((1, SPACE.width))

    def charge(line, event):
        assert not read

    noisy = Meter(PrivateRows(SPACE, 1, batches), CELL, {"rows": 1.0}, charge).measure("rows", unit_map())
    assert not read
    list(noisy.batches)
    assert read


@pytest.mark.parametrize("promise", [CELL, ROW])
def test_the_noise_is_tabled_for_the_scale_of_the_event(promise, monkeypatch):
    """To the last bit: a scale cut to whole steps is less noise than was charged for."""
    asked = []
    real = noise.GaussianTable.build
    monkeypatch.setattr(noise.GaussianTable, "build", lambda t: asked.append(t) or real(t))
    _, calibration = measured(empty_rows(3), unit_map(), promise)
    part = calibration.parts["rows"]
    assert asked.count(part.steps) == 1
    assert part.steps * part.step == pytest.approx(calibration.event.scale, rel=1e-12)
    assert part.steps != round(part.steps)


def test_refused_charge_reads_nothing():
    def batches():
        raise AssertionError("rows were read although the charge was refused")

    def charge(line, event):
        raise InputError("a", "b", "c")

    with pytest.raises(InputError):
        Meter(PrivateRows(SPACE, 1, batches), CELL, {"rows": 1.0}, charge).measure("rows", unit_map())


def test_a_line_is_spent_once_and_answers_are_read_once():
    charge = Charges()
    meter = Meter(empty_rows(10), CELL, {"rows": 1.0}, charge)
    noisy = meter.measure("rows", unit_map())
    with pytest.raises(ValueError, match="already spent"):
        meter.measure("rows", unit_map())
    assert len(list(noisy.batches)) == 1
    assert list(noisy.batches) == []
    assert len(charge.charges) == 1


def test_shares_must_not_exceed_the_budget():
    with pytest.raises(ValueError, match="shares"):
        Meter(empty_rows(1), CELL, {"a": 0.7, "b": 0.7}, Charges())


def test_noise_has_the_calibrated_scale_and_no_other():
    values, calibration = measured(empty_rows(20_000), unit_map())
    sample = values.ravel() / calibration.event.scale
    assert stats.kstest(sample, "norm").pvalue > 1e-4
    assert stats.kstest(sample * 1.5, "norm").pvalue < 1e-9
    assert stats.kstest(sample / 1.5, "norm").pvalue < 1e-9


def test_laplace_noise_has_the_calibrated_scale_and_no_other():
    pure = Promise(1.0, 0.0, CELL.neighbours)
    values, calibration = measured(empty_rows(20_000), unit_map(), pure)
    assert calibration.event.noise == "laplace"
    sample = values.ravel() / calibration.event.scale
    assert stats.kstest(sample, "laplace").pvalue > 1e-4
    assert stats.kstest(sample * 1.5, "laplace").pvalue < 1e-9
    assert stats.kstest(sample / 1.5, "laplace").pvalue < 1e-9
    assert epsilon_of([calibration.event], pure.neighbours, 0.0) == pytest.approx(1.0, rel=1e-6)


def test_noise_is_never_shared_between_rows_columns_batches_or_runs():
    first, calibration = measured(empty_rows(5_000), unit_map())
    second, _ = measured(empty_rows(5_000), unit_map())
    scale = calibration.event.scale
    assert len(np.unique(first)) > 0.999 * first.size
    assert not np.isin(first, second).any()
    for a, b in (
        (first[1:], first[:-1]),
        (first[1000:], first[:-1000]),
        (first[:, 1:], first[:, :-1]),
        (first, second),
    ):
        assert abs((a * b).sum() / scale**2) < 5 * np.sqrt(a.size)


def test_answer_is_the_exact_product_plus_noise():
    rng = np.random.default_rng(0)
    values = np.zeros((3000, SPACE.width))
    values[:, :5] = rng.integers(-HALF, HALF + 1, (3000, 5))
    query = unit_map()
    noisy, calibration = measured(rows_of(values), query, Promise(60.0, 1e-3, CELL.neighbours))
    exact = values @ query.matrix * query.answer_step
    residual = (noisy - exact) / calibration.event.scale
    assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-4
    steps = noisy / query.answer_step
    assert np.array_equal(steps, np.rint(steps)), "released numbers must lie on the public grid"


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 8.0])
@pytest.mark.parametrize(
    "neighbours", [n for n in Neighbours.every() if n.relation is not Relation.ADD_REMOVE], ids=str
)
def test_calibration_costs_what_was_promised(epsilon, neighbours):
    for delta in (1e-9, 1e-4):
        promise = Promise(epsilon, delta, neighbours)
        event = calibrated(unit_map(), SPACE, promise, share=1.0, rows=1000, fresh=False).event
        cost = epsilon_of([event], neighbours, delta)
        assert cost <= epsilon * (1 + 1e-9)
        assert cost == pytest.approx(epsilon, rel=1e-6)


def test_lines_share_the_budget_exactly():
    shares = {"a": 0.3, "b": 0.7}
    events = [
        calibrated(unit_map(), SPACE, CELL, share=share, rows=100, fresh=False).event for share in shares.values()
    ]
    assert epsilon_of(events, CELL.neighbours, CELL.delta) == pytest.approx(1.0, rel=1e-6)


def test_sigma_at_most_the_stated_share_of_the_papers():
    space = make_space([("number", 1)] * 50)
    query = unit_map(space, 16)
    theta = np.linalg.norm(query.matrix * query.step, axis=1).max()
    for epsilon, delta, most in ((1.0, 1e-6, 0.80), (0.1, 1e-4, 0.60)):
        promise = Promise(epsilon, delta, CELL.neighbours)
        sigma = calibrated(query, space, promise, share=1.0, rows=1000, fresh=False).event.scale
        assert sigma <= most * calibrate.paper_sigma(epsilon, delta, theta)


# ---- fresh projections


def gaussian_map(seed, k=8, space=SPACE):
    return RowMap(gaussian_matrix(seed.value, space.width, k), ROUNDING, GaussianRecipe(seed, k))


def test_fresh_seed_gets_the_mixture_once_and_reuse_gets_per_matrix():
    seed = PublicSeed.fresh()
    query = gaussian_map(seed)
    _, first = measured(empty_rows(5), query, ROW)
    _, again = measured(empty_rows(5), query, ROW)
    assert first.account == "fresh-projection" and "row/replace" in first.event.fresh
    assert again.account == "per-matrix" and not again.event.fresh
    assert first.event.scale < again.event.scale
    assert epsilon_of([first.event], ROW.neighbours, 1e-6) <= 1.0 + 1e-9


def test_given_seed_never_gets_the_mixture():
    _, calibration = measured(empty_rows(5), gaussian_map(PublicSeed.given("me")), ROW)
    assert calibration.account == "per-matrix"


def test_a_matrix_that_is_not_its_recipes_gets_per_matrix():
    seed = PublicSeed.fresh()
    query = gaussian_map(seed)
    forged = RowMap(query.matrix * 3, ROUNDING, GaussianRecipe(seed, 8))
    _, calibration = measured(empty_rows(5), forged, ROW)
    assert calibration.account == "per-matrix"


def test_fresh_scale_does_not_depend_on_the_matrix_drawn():
    scales = {measured(empty_rows(5), gaussian_map(PublicSeed.fresh()), ROW)[1].event.scale for _ in range(4)}
    assert len(scales) == 1


def test_cell_unit_never_uses_the_mixture():
    _, calibration = measured(empty_rows(5), gaussian_map(PublicSeed.fresh()), CELL)
    assert calibration.account == "per-matrix" and not calibration.event.fresh


# ---- what the door refuses


def test_add_remove_is_refused_by_name_and_nothing_is_charged():
    charge = Charges()
    promise = Promise(1.0, 1e-6, Neighbours(Unit.ROW, Relation.ADD_REMOVE))
    with pytest.raises(InputError, match="add-remove"):
        Meter(empty_rows(5), promise, {"rows": 1.0}, charge).measure("rows", unit_map())
    assert not charge.charges


def test_row_bound_with_cell_unit_is_refused():
    space = make_space([("number", 1)] * 5, row_bound=GRID)
    with pytest.raises(InputError, match="unit cell"):
        measured(empty_rows(5, space), unit_map(space), CELL)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([[HALF + 1, 0, 0, 0, 0, 0, 0, 0]], id="number out of range"),
        pytest.param([[0.5, 0, 0, 0, 0, 0, 0, 0]], id="off the grid"),
        pytest.param([[0, 0, 0, 0, 0, 46340, 46340, 0]], id="two categories at once"),
        pytest.param([[0, 0, 0, 0, 0, 46341, 0, 0]], id="category too far"),
        pytest.param([[np.nan, 0, 0, 0, 0, 0, 0, 0]], id="nan"),
    ],
)
def test_rows_that_break_their_bound_never_get_out(bad):
    with pytest.raises(RuntimeError, match="at the door"):
        measured(rows_of(bad), unit_map())


def test_unclipped_rows_never_get_out():
    space = make_space([("number", 1)] * 5, row_bound=HALF)
    with pytest.raises(RuntimeError, match="row bound"):
        measured(rows_of([[HALF, HALF, 0, 0, 0]], space), unit_map(space), ROW)


def test_a_table_that_changes_while_read_is_refused():
    rows = PrivateRows(SPACE, 7, lambda: iter([np.zeros((5, SPACE.width))]))
    with pytest.raises(InputError, match="rows"):
        measured(rows, unit_map())


def test_sums_beyond_53_bits_are_refused():
    query = RowMap(np.full((SPACE.width, 1), 2**40, dtype=np.int64), 2.0**-40)
    with pytest.raises(InputError, match="exact"):
        measured(empty_rows(1), query)


def test_meaningless_epsilon_is_refused():
    with pytest.raises(InputError, match="at most 80"):
        measured(empty_rows(1), unit_map(), Promise(100.0, 1e-6, CELL.neighbours))


# ---- private rows show nothing


def test_private_rows_show_nothing():
    import copy
    import pickle

    rows = rows_of([[1, 2, 3, 4, 5, 0, 0, 0]])
    assert "withheld" in repr(rows)
    for peek in (np.asarray, list, iter, copy.copy, copy.deepcopy, pickle.dumps, lambda r: r[0], vars):
        with pytest.raises(TypeError):
            peek(rows)
    assert not any(word == "1" for word in repr(rows).split())
