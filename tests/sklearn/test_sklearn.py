"""The pipeline step: an ordinary scikit-learn transformer but for its noise, and the promise of a release."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import adumbra as ad
import adumbra.sklearn
from adumbra.accounting.calibrate import mu_for
from adumbra.noise import add as noise
from adumbra.sklearn import DPProTransformer
from tests.contents import contents, differing
from tests.house.test_docs import FENCE, run_python, text
from tests.repeatable import repeatable  # noqa: F401

LOW, HIGH = [0.0, -1.0, 10.0, 0.0], [1.0, 1.0, 50.0, 110.0]
ROW = ad.Neighbours(ad.Unit.ROW, ad.Relation.REPLACE)
TWICE_DIFFERS = "compares two transforms of the same rows; each draws its own noise. Run with the noise off below"

real_add_noise = noise.add_noise


def rows(count: int, seed: int = 0) -> np.ndarray:
    low, high = np.array(LOW), np.array(HIGH)
    return low + (high - low) * np.random.default_rng(seed).uniform(size=(count, 4))


def scaled(X: np.ndarray) -> np.ndarray:
    low, high = np.array(LOW), np.array(HIGH)
    return (np.clip(X, low, high) - (low + high) / 2) / (high - low)


def made(**changes: object) -> DPProTransformer:
    return DPProTransformer(**{"low": LOW, "high": HIGH, "dimension": 3, "seed": "tests", **changes})


@pytest.fixture
def silence(monkeypatch):
    """Turn the noise off."""
    monkeypatch.setattr(noise, "add_noise", lambda law, exact, t, step, threads=1: np.asarray(exact) * step)


# ---- scikit-learn's own contract


@parametrize_with_checks(
    [DPProTransformer()],
    expected_failed_checks=lambda _: dict.fromkeys(["check_estimators_pickle", "check_fit_idempotent"], TWICE_DIFFERS),
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


class WithoutNoise(DPProTransformer):
    """What would be released if there were no noise: a deterministic transformer, held to every check."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def test_with_the_noise_off_no_check_fails_and_none_is_excused(silence):
    results = check_estimator(WithoutNoise(seed="checks"), on_skip=None)
    by_status = {s: {r["check_name"] for r in results if r["status"] == s} for s in ("passed", "skipped", "failed")}
    assert not by_status["failed"]
    assert by_status["skipped"] <= {"check_array_api_input"}  # needs an environment variable
    wanted = {"check_estimators_pickle", "check_fit_idempotent", "check_methods_subset_invariance"}
    assert wanted <= by_status["passed"] and len(by_status["passed"]) > 40


def test_works_on_frames_and_names_its_columns():
    frame = pd.DataFrame(rows(6), columns=["a", "b", "c", "d"])
    private = made().set_output(transform="pandas")
    out = private.fit_transform(frame)
    assert list(out.columns) == ["dpprotransformer0", "dpprotransformer1", "dpprotransformer2"]
    assert list(private.get_feature_names_out()) == list(out.columns)
    assert list(private.feature_names_in_) == ["a", "b", "c", "d"]
    assert [c["name"] for c in private.card_.table_schema["columns"]] == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        private.transform(frame.rename(columns={"a": "z"}))
    assert made().fit_transform(pl.DataFrame(rows(6))).shape == (6, 3)


# ---- the promise


def noise_of(private: DPProTransformer, X: np.ndarray, released: np.ndarray) -> np.ndarray:
    return (released - scaled(X) @ private.matrix_).ravel() / private.sigma_


def plausible(draws: np.ndarray, scale: float) -> bool:
    return bool(kstest(draws / scale, "norm").pvalue > 1e-4)


@pytest.mark.parametrize("unit", ["row", "cell"])
@pytest.mark.parametrize("relation", ["replace", "zero-out"])
def test_noise_has_the_stated_scale(unit, relation):
    X = rows(2000)
    private = made(unit=unit, relation=relation)
    for released in (private.fit_transform(X), private.transform(X)):
        draws = noise_of(private, X, released)
        assert plausible(draws, 1.0)
        assert not plausible(draws, 2 / 3) and not plausible(draws, 3 / 2)


def test_half_noise_would_be_noticed(monkeypatch):
    monkeypatch.setattr(
        noise, "add_noise", lambda law, exact, t, step, **kw: real_add_noise(law, exact, t / 2, step, **kw)
    )
    X, private = rows(2000), made()
    assert not plausible(noise_of(private, X, private.fit_transform(X)), 1.0)


def test_sigma_follows_from_the_declared_ranges_alone():
    """Four features that span their ranges move a row by 2; a rotation keeps that."""
    private = made(dimension=4, epsilon=0.7, delta=1e-5).fit(rows(5))
    assert private.sigma_ == pytest.approx(2.0 / mu_for(0.7, 1e-5), rel=1e-3)
    assert private.sigma_ >= 2.0 / mu_for(0.7, 1e-5)
    private.transform(rows(500))
    assert private.sigma_ == pytest.approx(private.card_.noise["rows"].standard_deviation, rel=1e-9)
    emptied = made(dimension=4, relation="zero-out").fit(rows(5))
    assert emptied.sigma_ == pytest.approx(1.0 / mu_for(1.0, 1e-6), rel=1e-3)
    cell = made(unit="cell", projection="unit-row").fit(rows(5))
    assert cell.sigma_ == pytest.approx(1.0 / mu_for(1.0, 1e-6), rel=1e-3)
    shorter = made(dimension=4, row_bound=0.25).fit(rows(5))
    assert shorter.sigma_ == pytest.approx(0.5 / mu_for(1.0, 1e-6), rel=1e-3)


@pytest.mark.parametrize("dimension", [None, 2])
@pytest.mark.parametrize("unit", ["row", "cell"])
def test_fit_learns_nothing_from_cells(dimension, unit):
    one = made(dimension=dimension, unit=unit).fit(rows(5))
    other = made(dimension=dimension, unit=unit).fit(1e6 * rows(50, seed=1))
    assert np.array_equal(one.matrix_, other.matrix_)
    assert (one.sigma_, one.seed_) == (other.sigma_, other.seed_)
    assert differing(contents(one), contents(other)) == []  # nor does it keep anything


def test_scaling_never_looks_at_other_rows(silence):
    X = rows(8)
    changed = X.copy()
    changed[1:] = 1e3 * rows(7, seed=1)
    private = made().fit(X)
    before, after = private.transform(X), private.transform(changed)
    assert np.array_equal(before[0], after[0]) and not np.array_equal(before[1:], after[1:])
    assert np.array_equal(private.transform(X[:1])[0], before[0])
    np.testing.assert_allclose(before, scaled(X) @ private.matrix_, atol=1e-3)


def test_cells_outside_are_moved_to_the_bound(silence):
    private = made().fit(rows(3))
    np.testing.assert_array_equal(
        private.transform([[9.0, -9.0, 9.0, 999.0]]), private.transform([[1.0, -1.0, 10.0, 110.0]])
    )


def test_row_bound_clips_whole_rows(silence):
    bounded = made(row_bound=0.25, dimension=4).fit(rows(3))
    lengths = np.linalg.norm(bounded.transform(rows(50)), axis=1)  # a rotation keeps lengths
    assert lengths.max() <= 0.25 + 1e-4


def test_every_transform_draws_new_noise_on_one_matrix():
    X = rows(50)
    private = made(seed=None)
    first = private.fit_transform(X)
    matrix, sigma = private.matrix_, private.sigma_
    second = private.transform(X)
    assert not (first == second).any()
    assert private.matrix_ is matrix and private.sigma_ == sigma
    assert not np.array_equal(private.fit(X).matrix_, matrix)  # no seed given: the next fit draws another


@pytest.mark.parametrize("seed", [None, "tests"])
@pytest.mark.parametrize("projection", ["auto", "gaussian"])
def test_the_matrix_is_never_called_fresh(seed, projection):
    """It serves several transforms, so its noise must rest on the account that survives reuse."""
    private = made(seed=seed, projection=projection)
    for _ in range(2):
        private.fit_transform(rows(5))
        assert private.card_.noise["rows"].account == "per-matrix"
        assert private.card_.noise["rows"].standard_deviation == pytest.approx(private.sigma_, rel=1e-9)
    assert private.card_.seed.origin == ("given" if seed else "operating-system")
    assert private.card_.seed.value == private.seed_


def test_the_seed_repeats_the_matrix():
    one = made().fit(rows(3))
    assert np.array_equal(made(seed=one.seed_).fit(rows(3)).matrix_, one.matrix_)
    assert not np.array_equal(made(seed="other").fit(rows(3)).matrix_, one.matrix_)
    assert np.array_equal(made(seed=7).fit(rows(3)).matrix_, made(seed="7").fit(rows(3)).matrix_)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    private = made().fit(rows(3))
    sigma = private.sigma_
    private.set_params(epsilon=50.0, low=0.0, high=200.0).transform(rows(3))
    assert private.card_.epsilon == 1.0
    assert private.card_.noise["rows"].standard_deviation == pytest.approx(sigma, rel=1e-9)
    assert private.fit(rows(3)).sigma_ < sigma


# ---- nothing private stays or is said


def leaks(content: bytes, values: np.ndarray) -> bool:
    """Whether any of the numbers stands in the content: as bytes of either order, or written out."""
    forms = [f for v in values.ravel() for f in (v.tobytes(), v.tobytes()[::-1], repr(float(v))[:12].encode())]
    return any(form in content for form in forms)


def test_pickle_and_repr_hold_no_row():
    X, test = rows(20), rows(20, seed=1)
    private = made(ledger=ad.Ledger("nowhere.db")).fit(X).set_params(ledger=None)
    released = private.transform(test)
    content = pickle.dumps(private) + repr(private).encode() + private._repr_html_().encode()
    content += private.card_.model_dump_json().encode()
    for values in (X, test, scaled(X), scaled(test), scaled(test) @ private.matrix_, released):
        assert not leaks(content, values)
    again = pickle.loads(pickle.dumps(private))  # noqa: S301 - made one line above
    assert np.array_equal(again.matrix_, private.matrix_) and again.card_ == private.card_
    private.kept = X[:1]  # the check can fail
    assert leaks(pickle.dumps(private), X)


@pytest.mark.parametrize(
    "bad",
    [
        np.array([["0.5", "secret-7", "1", "2"]]),
        np.array([[0.5, "secret-7", 1.0, 2.0]], dtype=object),
        pd.DataFrame([[0.5, "secret-7", 1.0, 2.0]]),
        np.array([[0.5, 777.5 + 1j, 1.0, 2.0]]),
        np.array([0.5, 777.5, 1.0, 2.0]),
        np.float64(777.5),
        [[[777.5, 1.0]]],
        np.array([[777.5, np.nan, 1.0, 2.0]]),
        np.array([[777.5, np.inf, 1.0, 2.0]]),
        np.array([[777.5, 2.0]]),
        np.empty((0, 4)),
        sparse.csr_array(np.array([[777.5, 0.0, 1.0, 2.0]])),
    ],
)
def test_bad_rows_are_refused_without_a_cell_and_without_a_charge(bad, tmp_path):
    private = made(ledger=ad.Ledger(tmp_path / "ledger.db")).fit(rows(3))
    with pytest.raises((ValueError, TypeError)) as error:
        private.transform(bad)
    assert "secret" not in str(error.value) and "777" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None
    assert not (tmp_path / "ledger.db").exists() and not hasattr(private, "card_")


def test_sparse_rows_are_refused_by_name():
    with pytest.raises(TypeError, match=r"Sparse data.*toarray"):
        made().fit(sparse.csr_array(rows(3)))


# ---- refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": "person"}, "unit"),
        ({"relation": "swap"}, "relation"),
        ({"relation": "add-remove"}, "row count"),
        ({"unit": "cell", "row_bound": 1.0}, "row bound"),
        ({"row_bound": 0.0}, "row bound"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 5}, "dimension"),
        ({"projection": "haar"}, "projection"),
        ({"low": [0.0, 0.0]}, "low as one number, or 4"),
        ({"high": "wide"}, "high as one number"),
        ({"high": [[1.0, 2.0, 3.0, 4.0]]}, "high as one number"),
        ({"low": 5.0, "high": 5.0}, "low < high"),
        ({"low": -math.inf}, "finite"),
        ({"high": math.nan}, "finite"),
    ],
)
def test_parameters_that_promise_nothing_are_refused_at_fit(changes, words):
    with pytest.raises(ad.InputError, match=words):
        made(**changes).fit(rows(3))


def test_nothing_before_fit():
    with pytest.raises(NotFittedError):
        made().transform(rows(3))
    with pytest.raises(NotFittedError):
        made().squared_distances(rows(3))
    with pytest.raises(AttributeError, match="nothing has been transformed"):
        _ = made().fit(rows(3)).card_


# ---- the ledger


def charges(ledger: ad.Ledger) -> int:
    return sum(entry.kind == "charge" for entry in ledger.entries())


def test_every_transform_is_charged_and_fit_is_not(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    private = made(ledger=ledger, table_name="people").fit(rows(5))
    assert not ledger.path.exists()
    private.transform(rows(5))
    assert charges(ledger) == 1 and ledger.tables() == ["people"]
    assert ledger.spent("people", ROW, 1e-6) == pytest.approx(1.0, rel=1e-6)
    private.fit_transform(rows(5))
    assert charges(ledger) == 2
    twice = ledger.spent("people", ROW, 1e-6)
    assert 1.0 < twice < 2.0  # Gaussian noise composes better than by adding
    clone(private).set_params(table_name="others").fit_transform(rows(5))
    assert ledger.spent("people", ROW, 1e-6) == twice


def test_a_full_ledger_gives_no_rows(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    ledger.set_cap("table", ROW, 1.2, 1e-6)
    private = made(ledger=ledger)
    private.fit_transform(rows(5))
    card = private.card_
    with pytest.raises(ad.Refused):
        private.transform(rows(5))
    assert private.card_ is card and charges(ledger) == 1


def test_a_grid_search_is_charged_for_every_fold_and_candidate(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    X = rows(60)
    y = (X[:, 0] > 0.5).astype(int)
    pipe = make_pipeline(made(ledger=ledger, epsilon=8.0), LogisticRegression())
    search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=3, error_score="raise")
    search.fit(X, y)
    assert charges(ledger) == 2 * 3 * 2 + 1  # train and test part of each fold, for each candidate; the refit
    search.predict(X)
    assert charges(ledger) == 14
    ledger.set_cap("table", ROW, 1.0, 1e-6)
    with pytest.raises(ad.Refused):
        search.fit(X, y)


# ---- answers


def test_squared_distances_are_unbiased():
    X = np.array([[0.0, -1.0, 10.0, 0.0], [1.0, 1.0, 10.0, 0.0]])
    private = made(dimension=4, epsilon=8.0, delta=1e-3)  # a rotation: no error but the noise
    Z = private.fit_transform(np.repeat(X, 400, axis=0))
    found = private.squared_distances(Z)
    assert found.shape == (800, 800) and not np.diag(found).any() and np.array_equal(found, found.T)
    across = private.squared_distances(Z[:400], Z[400:])
    # Rows are reused over pairs, so the error of the average is that of the two group means and variances.
    error = 2 * private.sigma_**2 * math.sqrt(4 / 400) + 2 * math.sqrt(2.0) * private.sigma_ / math.sqrt(200)
    assert across.mean() == pytest.approx(2.0, abs=3 * error)
    within = found[:400, :400].sum() / (400 * 399)
    assert within == pytest.approx(0.0, abs=3 * error)
    assert error < private.sigma_**2  # forgetting the correction would be noticed: it is 8 sigma^2
    again = private.transform(np.repeat(X, 400, axis=0))
    assert np.trace(private.squared_distances(Z, again)) / 800 == pytest.approx(0.0, abs=3 * error)


def test_squared_distances_take_transformed_rows_only():
    private = made().fit(rows(3))
    with pytest.raises(ad.InputError, match="transformed rows of 3 numbers"):
        private.squared_distances(rows(3))


# ---- loading and documentation


def test_scikit_learn_is_loaded_on_demand():
    code = (
        "import sys, adumbra as ad; before = 'sklearn' in sys.modules; "
        "print(before, ad.sklearn.DPProTransformer.__name__, 'sklearn' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False DPProTransformer True\n"
    assert ad.sklearn is adumbra.sklearn


def test_the_page_runs_and_names_every_parameter(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_python("docs/sklearn.md")
    printed = capsys.readouterr().out
    shown = [body for language, body in FENCE.findall(text("docs/sklearn.md")) if language == "text"]
    assert shown and all(body in printed for body in shown)
    assert all(f"`{name}`" in text("docs/sklearn.md") for name in DPProTransformer().get_params())
