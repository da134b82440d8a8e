"""Answers from a release: unbiased, with standard errors that hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.compare.distance_fit import check_distances
from adumbra.declare.guarantee import Unit
from adumbra.tables.read import open_table
from tests.mechanisms.test_contract import SCHEMA, people
from tests.mechanisms.test_dppro import CELL_BUDGET, ROW_BUDGET, WIDE, wide
from tests.repeatable import repeatable  # noqa: F401


def distances(release, table, pairs):
    """Released beside true distances."""
    return check_distances(release.kind.answers(release.content), open_table(table), WIDE, pairs)


def check_unbiased(unit, epsilon, dimension=12):
    table = wide(4000)
    release = ad.release(table, WIDE, ad.DPPro(dimension=dimension), ad.Budget(epsilon, 1e-6, Unit(unit)))
    check = distances(release, table, release.random_pairs(10_000))
    assert abs(check.mean_error) < 4.5 * check.mean_error_standard_error
    assert 0.93 <= check.coverage <= 0.97
    return check


def test_distances_are_unbiased_and_intervals_cover():
    for unit in ("cell", "row"):
        for epsilon in (1.0, 8.0):
            check_unbiased(unit, epsilon)


def test_intervals_cover_when_the_projection_dominates():
    """Almost no noise and few dimensions: the spread comes from the projection, averaged over many of them."""
    table, inside, total = wide(300), 0.0, 0
    for index in range(40):
        seed = ad.PublicSeed.given(f"projection {index}")
        release = ad.release(table, WIDE, ad.DPPro(dimension=8), ad.Budget(70.0, 1e-3, Unit.CELL), seed=seed)
        inside += distances(release, table, release.random_pairs(300, seed=index)).coverage
        total += 1
    assert 0.92 <= inside / total <= 0.98


@pytest.mark.parametrize("bands", [(1.0, 20.0), (2.0, 8.0, 30.0)])
def test_bands_estimate_the_same_distances(bands):
    table = wide(3000)
    release = ad.release(table, WIDE, ad.DPPro(bands=bands), ad.Budget(8.0, 1e-6, Unit.CELL))
    check = distances(release, table, release.random_pairs(8000))
    assert abs(check.mean_error) < 4.5 * check.mean_error_standard_error
    assert 0.925 <= check.coverage <= 0.975


def test_laplace_distances_cover():
    table = wide(3000)
    release = ad.release(table, WIDE, ad.DPPro(dimension=12), ad.Budget(4.0, 0.0, Unit.CELL))
    check = distances(release, table, release.random_pairs(8000))
    assert abs(check.mean_error) < 4.5 * check.mean_error_standard_error
    assert 0.93 <= check.coverage <= 0.975


def test_a_row_is_at_distance_zero_of_itself():
    answer = ad.release(wide(20), WIDE, ad.DPPro(dimension=4), CELL_BUDGET).distances([(3, 3), (1, 2)])
    assert answer.row(0) == (3, 3, 0.0, 0.0)
    assert answer["standard_error"][1] > 0


def test_matrix_and_blocks_agree_with_pairs():
    release = ad.release(wide(50), WIDE, ad.DPPro(dimension=4), CELL_BUDGET)
    matrix = release.distance_matrix(clip=False)
    pairs = [(i, j) for i in range(50) for j in range(50)]
    assert np.allclose(matrix.ravel(), release.distances(pairs)["squared_distance"], atol=1e-6)
    assert (np.diag(matrix) == 0).all() and np.array_equal(matrix, matrix.T)
    assert (release.distance_matrix() >= 0).all()


def test_clustering_takes_the_matrix():
    from sklearn.cluster import AgglomerativeClustering

    rng = np.random.default_rng(0)
    half = rng.random((40, 40)) * 0.1
    table = pl.DataFrame({f"c{i}": np.concatenate([half[:, i], 1 - half[:, i]]) for i in range(40)})
    release = ad.release(table, WIDE, ad.DPPro(dimension=20), ad.Budget(30.0, 1e-5, Unit.CELL))
    labels = AgglomerativeClustering(2, metric="precomputed", linkage="average").fit_predict(release.distance_matrix())
    agreement = (labels == np.repeat([0, 1], 40)).mean()
    assert max(agreement, 1 - agreement) > 0.95


def test_neighbours_are_the_nearest_by_estimate():
    release = ad.release(wide(60), WIDE, ad.DPPro(dimension=4), CELL_BUDGET)
    found = release.neighbours(5, 7)
    row = release.distance_matrix(clip=False)[5]
    row[5] = np.inf
    assert found["row"].to_list() == np.argsort(row, kind="stable")[:7].tolist()


def test_near_rows_are_found_when_the_noise_is_small():
    table = pl.concat([wide(30, seed=1), wide(30, seed=1)])
    release = ad.release(table, WIDE, ad.DPPro(dimension=40), ad.Budget(70.0, 1e-3, Unit.CELL))
    hits = sum(release.neighbours(i, 3)["row"].to_list().count(i + 30) for i in range(30))
    assert hits >= 28


MIXED = ad.Schema.from_dict(
    {
        "columns": {
            **{f"n{i}": {"kind": "number", "low": -1, "high": 3} for i in range(12)},
            "smoker": {"kind": "flag"},
            "ward": {"kind": "category", "values": ["a", "b", "c"]},
        }
    }
)


def mixed(count=400):
    rng = np.random.default_rng(4)
    numbers = {f"n{i}": rng.beta(2, 5, count) * 4 - 1 for i in range(12)}
    return pl.DataFrame(
        numbers | {"smoker": rng.random(count) < 0.3, "ward": rng.choice(["a", "b", "c"], count).tolist()}
    )


@pytest.mark.parametrize(
    ("dimension", "projection"),
    [(2, "unit-row"), (8, "unit-row"), (8, "gaussian"), (8, "sparse-signs"), (20, "gaussian"), (8, "orthogonal")],
)
def test_means_and_counts_are_unbiased_with_honest_errors(dimension, projection):
    table = mixed()
    mechanism = ad.DPPro(dimension=dimension, projection=projection)
    means, wards, smokers = [], [], []
    for _ in range(60):
        release = ad.release(table, MIXED, mechanism, ad.Budget(20.0, 1e-4, Unit.CELL))
        for answer, truth, out in (
            (release.mean("n3"), table["n3"].mean(), means),
            (release.count("ward", "b"), (table["ward"] == "b").sum(), wards),
            (release.count("smoker", "yes"), table["smoker"].sum(), smokers),
        ):
            out.append((answer.value - truth, answer.standard_error))
    for out in (means, wards, smokers):
        error, spread = np.array(out).T
        assert abs(error.mean()) < 5 * error.std() / np.sqrt(len(error))
        assert (np.abs(error) <= 1.96 * spread).mean() >= 0.85
        assert 0.6 < np.sqrt((spread**2).mean()) / error.std() < 2.0


def test_linear_is_the_weighted_sum_of_means():
    release = ad.release(people(300), SCHEMA, ad.DPPro(dimension=2), CELL_BUDGET)
    both = release.linear({"age": 2.0, "smoker": -3.0})
    assert both.value == pytest.approx(2 * release.mean("age").value - 3 * release.mean("smoker").value)


@pytest.mark.parametrize("projection", ["unit-row", "gaussian", "signs", "sparse-signs", "orthogonal"])
def test_covariance_is_unbiased_with_honest_errors(projection):
    rng = np.random.default_rng(2)
    base = rng.random(3000)
    values = np.column_stack([base, 0.7 * base + 0.3 * rng.random(3000), *rng.random((10, 3000))])
    names = [f"c{i}" for i in range(12)]
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": 0, "high": 1} for n in names}})
    table = pl.DataFrame({n: values[:, i] for i, n in enumerate(names)})
    truth = np.cov(values.T, ddof=0)
    rows = []
    for _ in range(40):
        release = ad.release(
            table, schema, ad.DPPro(dimension=6, projection=projection), ad.Budget(20.0, 1e-4, Unit.CELL)
        )
        answer = release.covariance(["c0", "c1"])
        rows.append((answer["value"].to_numpy(), answer["standard_error"].to_numpy()))
    value, spread = np.array(rows).transpose(1, 0, 2)
    want = np.array([truth[0, 0], truth[0, 1], truth[1, 1]])
    error = value - want
    assert (np.abs(error.mean(axis=0)) < 5 * error.std(axis=0) / np.sqrt(len(error))).all()
    ratio = np.sqrt((spread**2).mean(axis=0)) / error.std(axis=0)
    assert ((ratio > 0.5) & (ratio < 2.5)).all(), ratio


def test_reconstruction_keeps_types_and_finds_the_rows_when_noise_is_small():
    table = people(200)
    release = ad.release(
        table, SCHEMA, ad.DPPro(dimension=5, projection="orthogonal"), ad.Budget(75.0, 1e-3, Unit.CELL)
    )
    back = release.reconstruct()
    assert back.columns == ["age", "smoker", "ward"] and back["smoker"].dtype == pl.Boolean
    assert (back["ward"] == table["ward"]).mean() > 0.9
    assert np.corrcoef(back["age"], table["age"])[0, 1] > 0.9


def test_bad_questions_are_refused():
    release = ad.release(people(30), SCHEMA, ad.DPPro(dimension=2), CELL_BUDGET)
    single = ad.release(people(30), SCHEMA, ad.DPPro(dimension=1), ROW_BUDGET)
    for ask in (
        lambda: release.distances([(0, 30)]),
        lambda: release.distances([(-1, 3)]),
        lambda: release.neighbours(0, 30),
        lambda: release.neighbours(99, 1),
        lambda: release.mean("ward"),
        lambda: release.mean("nobody"),
        lambda: release.count("ward", "z"),
        lambda: release.count("age", "3"),
        lambda: release.covariance(["age", "ward"]),
        lambda: single.covariance(["age"]),
    ):
        with pytest.raises(ad.InputError):
            ask()


def test_save_and_load_round_trip(tmp_path):
    release = ad.release(people(30), SCHEMA, ad.DPPro(dimension=2), CELL_BUDGET)
    release.save(tmp_path / "out")
    again = ad.load(tmp_path / "out")
    assert again.card == release.card and again.table.equals(release.table)
    assert again.distances([(0, 1)]).equals(release.distances([(0, 1)]))
    with pytest.raises(ad.InputError, match="exists"):
        release.save(tmp_path / "out")


def test_what_is_no_question_or_no_part_of_one_is_refused():
    rows = ad.release(people(), SCHEMA, ad.DPPro(dimension=2), CELL_BUDGET)
    cells = ad.release(people(), SCHEMA, ad.Histogram(columns=("age",)), ad.Budget(1.0, 1e-6))
    for wrong in (
        lambda: rows.ask([]),
        lambda: rows.ask(None),
        lambda: rows.ask("mean"),
        lambda: rows.ask("mean", "age", place=1),
        lambda: cells.ask("count"),
        lambda: rows.neighbours("x", 3),
        lambda: rows.neighbours(1.5, 3),
        lambda: rows.neighbours(0, 1.5),
        lambda: rows.neighbours(0, None),
        lambda: rows.distances("x"),
        lambda: rows.distances(None),
        lambda: rows.distances([1, 2, 3]),
        lambda: rows.distances([(0, 1.5)]),
        lambda: rows.distances([(0, float("nan"))]),
        lambda: rows.linear("x"),
        lambda: rows.linear(5),
        lambda: rows.covariance(1.5),
        lambda: cells.marginal(5),
    ):
        with pytest.raises(ad.InputError):
            wrong()
    assert rows.distances([]).height == 0
    assert rows.distances([(0.0, 1.0)]).equals(rows.distances(np.array([[0, 1]])))
    assert rows.neighbours(0.0, 2.0).equals(rows.neighbours(0, 2))
