"""What a plan foresees of the error of counts, beside what the door then hands out; and that it looks at shapes only.

Measured as `release` does, many times over, on small domains. Errors of ranges hang together (a wrong count is in many
of them), so a mean over releases settles slowly: tolerances are several standard errors wide and planted bugs in the
forecast (a factor of two in a variance) lie outside them.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra import pipeline
from adumbra.counting.workload import Workload, box_sums, gains, random_ranges
from adumbra.families.forecast import FEW_ATOMS, best_strategy, forecasts, quieter, sketch_size, workload_for
from adumbra.mechanisms.catalogue import build
from adumbra.numerics.strategies import Haar, Identity, Tree, Waves
from adumbra.queries.domain import Domain
from adumbra.rehearsal import rehearse
from adumbra.request import Request
from adumbra.tables.read import open_table
from tests.repeatable import repeatable  # noqa: F401

DELTAS = (0.0, 1e-6)
LINEAR = ("laplace", "privelet", "hierarchical")
SHAPES = {"one column": (37,), "two columns": (8, 6)}


def whole(cells: int) -> dict[str, object]:
    """A column of so many cells: with a fallback there is none for what is missing."""
    return {"kind": "number", "low": 0, "high": cells - 1, "integer": True, "missing": 0}


def table_of(shape, rows=60, seed=0, heavy=None):
    """A schema with one whole-number column for each axis, and rows: scattered, or all in the cells of `heavy`."""
    rng = np.random.default_rng(seed)
    schema = ad.Schema.from_dict({"columns": {f"c{i}": whole(n) for i, n in enumerate(shape)}})
    cell = rng.integers(0, math.prod(shape), rows) if heavy is None else rng.choice(heavy, rows)
    places = np.unravel_index(cell, shape)
    return pl.DataFrame({f"c{i}": place for i, place in enumerate(places)}), schema


def job_of(mechanism, frame, schema, epsilon=1.0, delta=0.0, relation=None):
    budget = ad.Budget(epsilon, delta, relation=relation)
    return pipeline.prepare(Request(open_table(frame), schema, mechanism, budget))


def domain_of(job) -> Domain:
    return Domain.of(job.schema, job.setting.space)


def truth_of(frame, shape) -> np.ndarray:
    cells = np.ravel_multi_index(tuple(frame[c].to_numpy() for c in frame.columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).astype(float)


def errors_of(job, truth, times):
    """Errors of all counts, release by release: (times, cells)."""
    drafts = rehearse(job, lambda meter: meter, times)
    return np.stack([np.concatenate(list(draft.batches))[:, -1] - truth for draft in drafts])


def single_cells(shape) -> Workload:
    low = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).astype(float)
    return Workload.boxes(shape, low, low + 1.0)


def mean_squares(errors, workload) -> np.ndarray:
    """Mean squared error of all queries, release by release."""
    return np.array([np.square(box_sums(each, workload)).mean() for each in errors])


def close(predicted, squares, widest=0.25):
    """Whether a predicted mean is within four standard errors of the measured one, which must be known well enough."""
    error = squares.std(ddof=1) / math.sqrt(len(squares))
    assert 4 * error < widest * predicted, "repeat more often"
    return abs(squares.mean() - predicted) < 4 * error


def forecast_of(job, name, atoms=None):
    return {f.mechanism: f for f in forecasts(job.setting, domain_of(job), atoms)}[name]


# ---- mechanisms whose estimate is linear: the forecast holds for every table


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", LINEAR)
def test_linear_forecasts_are_what_is_measured(name, shape, delta):
    frame, schema = table_of(shape)
    job = job_of(build(name, {}), frame, schema, delta=delta)
    errors = errors_of(job, truth_of(frame, shape), 400)
    found = forecast_of(job, name)
    assert close(found.ranges**2, mean_squares(errors, workload_for(shape)))
    # sixteen cells stand for all of them
    assert np.square(errors).mean() == pytest.approx(found.cells**2, rel=0.15)


@pytest.mark.parametrize("name", LINEAR)
def test_a_cell_for_what_is_missing_is_foreseen_too(name):
    """Ranges hold values only; trees and wavelets cover them and no more, so that their error is what it was."""
    frame, schema = table_of((32,))
    kept = ad.Schema.from_dict({"columns": {"c0": {k: v for k, v in whole(32).items() if k != "missing"}}})
    job, before = job_of(build(name, {}), frame, kept), job_of(build(name, {}), frame, schema)
    truth = np.append(truth_of(frame, (32,)), 0.0)
    found = forecast_of(job, name)
    assert close(found.ranges**2, mean_squares(errors_of(job, truth, 400), workload_for((33,), (0,))))
    assert found.ranges <= 1.02 * forecast_of(before, name).ranges
    assert found.numbers == forecast_of(before, name).numbers + 1


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", LINEAR)
def test_theory_of_dense_weights_is_what_is_measured(name, delta):
    shape = (24,)
    frame, schema = table_of(shape)
    job = job_of(build(name, {}), frame, schema, delta=delta)
    weights = np.random.default_rng(3).uniform(-1.0, 1.0, (300, 24))
    squares = np.square(errors_of(job, truth_of(frame, shape), 200) @ weights.T).mean(axis=1)
    (query,) = job.mechanism.queries(job.setting).values()
    sd = job.setting.preview(1.0, query)
    assert close(sd**2 * np.square(query.strategy.dual(weights)).sum(axis=1).mean(), squares, 0.3)


def test_the_error_does_not_depend_on_the_table():
    """The same noise, whatever is in the cells: forecasts of linear estimates need no assumption."""
    shape = (64,)
    for name in LINEAR:
        squares = []
        for heavy in (None, [3]):
            frame, schema = table_of(shape, heavy=heavy)
            job = job_of(build(name, {}), frame, schema)
            squares.append(np.square(errors_of(job, truth_of(frame, shape), 100)).mean())
        assert squares[0] == pytest.approx(squares[1], rel=0.15)


# ---- few cells hold all rows: what the forecasts of sparse and csm take for granted


@pytest.mark.parametrize("delta", DELTAS)
def test_sparse_forecast_holds_where_its_assumption_does(delta):
    shape, heavy = (256,), list(range(7, 256, 16))
    frame, schema = table_of(shape, rows=20_000, heavy=heavy)
    job = job_of(build("sparse", {}), frame, schema, delta=delta)
    errors = errors_of(job, truth_of(frame, shape), 150)
    found = forecast_of(job, "sparse", FEW_ATOMS)
    # only the cells that hold rows: what stands out by chance elsewhere comes on top, and is bounded below
    assert np.square(errors[:, heavy]).mean() == pytest.approx(found.cells**2 * 256 / 16, rel=0.2)
    assert np.square(errors).mean() < 3.5 * found.cells**2


@pytest.mark.parametrize("delta", DELTAS)
def test_csm_forecast_holds_where_its_assumption_does(delta):
    """A new sketch for every release. The middle one: with a sketch this small, one in some dozens loses a cell."""
    shape, heavy = (256,), np.random.default_rng(2).choice(256, 16, replace=False).tolist()
    frame, schema = table_of(shape, rows=20_000, heavy=heavy)
    truth = truth_of(frame, shape)
    squares = []
    for _ in range(25):
        job = job_of(build("csm", {}), frame, schema, delta=delta)
        squares.append(np.square(errors_of(job, truth, 1)[0, heavy]).sum() / 256)
    found = forecast_of(job, "csm", FEW_ATOMS)
    # least squares on 16 of m sketched atoms: a little more noise than on each by itself
    assert 0.8 < np.median(squares) / found.cells**2 < 1.6


def test_what_few_cells_do_not_hold_is_not_foreseen():
    """Few rows in each cell of one half never stand out; a forecast that takes 16 cells to hold all is far too low."""
    shape = (256,)
    frame = pl.DataFrame({"c0": np.repeat(np.arange(128), 20)})
    schema = ad.Schema.from_dict({"columns": {"c0": whole(256)}})
    job = job_of(build("sparse", {}), frame, schema, epsilon=0.5)
    squares = mean_squares(errors_of(job, truth_of(frame, shape), 20), workload_for(shape))
    found = forecast_of(job, "sparse")
    assert "16 cells hold all rows" in found.given
    assert squares.mean() > 100 * found.ranges**2


# ---- order


def test_every_rival_is_there_and_those_without_assumption_come_first_and_in_order():
    frame, schema = table_of((512,))
    job = job_of(build("laplace", {}), frame, schema)
    found = forecasts(job.setting, domain_of(job))
    assert {f.mechanism for f in found} == {"laplace", "privelet", "hierarchical", "sparse", "csm", "fourier"}
    assert [bool(f.given) for f in found] == [False] * 3 + [True] * 3
    assert [f.ranges for f in found[:3]] == sorted(f.ranges for f in found[:3])
    assert all(f.ranges > 0 and f.cells > 0 and f.numbers > 0 for f in found)


def test_long_ranges_want_trees_and_cells_want_counts():
    frame, schema = table_of((4096,))
    job = job_of(build("laplace", {}), frame, schema)
    found = {f.mechanism: f for f in forecasts(job.setting, domain_of(job))}
    assert found["hierarchical"].ranges < found["laplace"].ranges / 3
    assert found["privelet"].ranges < found["laplace"].ranges / 2
    assert found["laplace"].cells < min(found["hierarchical"].cells, found["privelet"].cells)


def test_few_cells_want_plain_counts():
    frame, schema = table_of((8,))
    job = job_of(build("laplace", {}), frame, schema)
    assert forecasts(job.setting, domain_of(job))[0].mechanism in ("laplace", "hierarchical")


def test_a_sketch_costs_about_as_many_times_the_variance_as_it_has_numbers_for_pure_epsilon_only():
    frame, schema = table_of((1024,))
    pure, gaussian = (job_of(build("laplace", {}), frame, schema, delta=delta) for delta in DELTAS)
    lost = (forecast_of(pure, "csm").ranges / forecast_of(pure, "sparse").ranges) ** 2
    numbers = forecast_of(pure, "csm").numbers
    assert numbers / 8 < lost < numbers
    alike = (forecast_of(gaussian, "csm").ranges / forecast_of(gaussian, "sparse").ranges) ** 2
    assert 0.9 < alike < 1.6


@pytest.mark.parametrize("delta", DELTAS)
def test_the_order_foreseen_is_the_order_measured(delta):
    shape = (256,)
    frame, schema = table_of(shape)
    found, measured = {}, {}
    for name in LINEAR:
        job = job_of(build(name, {}), frame, schema, delta=delta)
        found[name] = forecast_of(job, name).ranges
        measured[name] = mean_squares(errors_of(job, truth_of(frame, shape), 150), workload_for(shape)).mean()
    clear = [(a, b) for a in LINEAR for b in LINEAR if found[a] ** 2 < 0.6 * found[b] ** 2]
    assert clear
    assert all(measured[a] < measured[b] for a, b in clear)


def test_forecasts_scale_with_epsilon():
    frame, schema = table_of((256,))
    one, tenth = (job_of(build("laplace", {}), frame, schema, epsilon=e) for e in (1.0, 0.1))
    for name in (*LINEAR, "sparse", "csm", "fourier"):
        assert forecast_of(tenth, name).ranges == pytest.approx(10 * forecast_of(one, name).ranges, rel=0.01)


def test_the_best_tree_is_the_best():
    """No other number of branches has a smaller error for random ranges."""
    frame, schema = table_of((500,))
    job = job_of(build("hierarchical", {}), frame, schema)
    ranges = random_ranges((500,), 2000, seed=9)
    errors = {}
    for branching in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        tuned = job_of(build("hierarchical", {"branching": branching}), frame, schema)
        (query,) = tuned.mechanism.queries(tuned.setting).values()
        errors[branching] = tuned.setting.preview(1.0, query) * math.sqrt(
            np.square(gains(query.strategy, ranges)[0]).mean()
        )
    (query,) = job.mechanism.queries(job.setting).values()
    own = job.setting.preview(1.0, query) * math.sqrt(np.square(gains(query.strategy, ranges)[0]).mean())
    assert own <= 1.05 * min(errors.values())


# ---- from the shape alone


def test_sketch_size_is_a_formula_of_public_numbers():
    for cells in (1, 2, 16, 100, 4096, 2**20):
        for atoms in (1, 4, 16):
            wanted = 2 * atoms * math.log(max(cells / atoms, 1)) + atoms
            assert sketch_size(cells, atoms, False) == max(1, min(cells, math.ceil(wanted)))
            assert sketch_size(cells, atoms, True) == max(1, min(cells, math.ceil(2 * wanted)))
    assert sketch_size(2**20, 16, False) < 400


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("options", [{}, {"sensing": "sparse-signs"}, {"atoms": 5}], ids=["default", "sparse", "atoms"])
def test_the_sketch_of_csm_does_not_depend_on_the_table(options, delta):
    """Two tables of one shape, as different as can be: one row in a cell each, all rows in one cell."""
    numbers = set()
    for heavy in (None, [5]):
        frame, schema = table_of((512,), rows=100, heavy=heavy)
        job = job_of(build("csm", options), frame, schema, delta=delta)
        (query,) = job.mechanism.queries(job.setting).values()
        numbers.add(query.strategy.numbers)
    generous = bool(delta) or options.get("sensing") == "sparse-signs"
    assert numbers == {sketch_size(512, options.get("atoms", FEW_ATOMS), generous)}


def test_forecasts_do_not_depend_on_the_table():
    lists = []
    for heavy in (None, [5]):
        frame, schema = table_of((300,), rows=100, heavy=heavy)
        job = job_of(build("laplace", {}), frame, schema)
        lists.append(forecasts(job.setting, domain_of(job)))
    assert lists[0] == lists[1]


def test_forecasts_read_nothing(monkeypatch):
    """Under add-remove even the number of rows is private: any number gives the same list."""
    lists = []
    for rows in (1, 977):
        frame, schema = table_of((64,), rows=rows)
        job = job_of(build("laplace", {}), frame, schema, relation="add-remove")
        monkeypatch.setattr(type(job.table), "blocks", lambda *_: pytest.fail("the table was read"))
        lists.append(forecasts(job.setting, domain_of(job)))
    assert lists[0] == lists[1]


def test_quieter_takes_the_smaller():
    assert quieter({"laplace": 1.0, "l2-laplace": 2.0}.__getitem__) == "laplace"
    assert quieter({"laplace": 2.0, "l2-laplace": 1.0}.__getitem__) == "l2-laplace"


@pytest.mark.parametrize("bins", [None, 1], ids=["by value", "one bin"])
@pytest.mark.parametrize("shape", [(2,), (3, 2), (2, 2, 2)], ids=str)
def test_the_smallest_domains_have_forecasts(shape, bins):
    frame, schema = table_of(shape, rows=4)
    job = job_of(build("laplace", {"bins": bins}), frame, schema)
    found = forecasts(job.setting, Domain.of(schema, job.setting.space, bins=bins))
    assert len(found) == 6
    assert all(math.isfinite(f.ranges) and math.isfinite(f.cells) for f in found)


def test_gains_of_strategies_are_the_error_of_their_estimate():
    """By brute force: noise on one number at a time."""
    for strategy in (Identity((12,)), Haar((12,)), Tree((12,), 3), Tree((4, 3), 2), Waves((12,), 4)):
        ranges = random_ranges(strategy.shape, 25, seed=4)
        weights = ranges.dense(slice(None))
        effect = strategy.estimate(np.eye(strategy.numbers)) @ weights.T
        assert np.allclose(gains(strategy, ranges)[0] ** 2, np.square(effect).sum(axis=0))


def test_best_tree_takes_the_noise_into_account():
    """Where noise does not grow with levels the tree of most levels wins; where it grows fast, the flattest."""
    frame, schema = table_of((256,))
    domain = domain_of(job_of(build("laplace", {}), frame, schema))
    deep = best_strategy(Tree, domain, lambda tree: 1.0)
    flat = best_strategy(Tree, domain, lambda tree: 10.0 ** tree.levels(0))
    assert deep.levels(0) > flat.levels(0)
