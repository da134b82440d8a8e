"""Private principal components as an estimator: scikit-learn's contract, no row without noise, every charge counted."""

from __future__ import annotations

import ast
import gc
import hashlib
import itertools
import math
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - the halving searches are not to be had without
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import adumbra as ad
import adumbra.sklearn
from adumbra import api
from adumbra.accounting.accountant import epsilon_of
from adumbra.noise import add as noise
from adumbra.sklearn import DPProTransformer, PrivatePCA, SearchCost, search_cost
from tests.house.test_docs import text
from tests.repeatable import repeatable  # noqa: F401

LOW, HIGH = np.array([0.0, -1.0, 10.0, 0.0]), np.array([1.0, 1.0, 50.0, 110.0])
MIDDLE, RANGE = (LOW + HIGH) / 2, HIGH - LOW
ROW = ad.Neighbours(ad.Unit.ROW, ad.Relation.REPLACE)
MECHANISMS = ["analyze_gauss", "lip", "power_method"]
TWICE_DIFFERS = "compares two transforms of the same rows; each draws its own noise. Run with the noise off below"


def rows(count: int, seed: int = 0, spread: float = 0.2) -> np.ndarray:
    """Two strong directions about a point beside the middle, within the bounds."""
    generator = np.random.default_rng(seed)
    mixing = np.array([[1.0, 0.8, 0.1, -0.2], [0.1, -0.2, 0.9, 0.7]])
    scaled = 0.1 + spread * generator.normal(size=(count, 2)) @ mixing + 0.02 * generator.normal(size=(count, 4))
    return MIDDLE + RANGE * np.clip(scaled, -0.5, 0.5)


def scaled(X: np.ndarray) -> np.ndarray:
    return (np.clip(X, LOW, HIGH) - MIDDLE) / RANGE


def shortened(X: np.ndarray, bound: float) -> np.ndarray:
    rows = scaled(X)
    return rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1, keepdims=True))


def made(**changes: object) -> PrivatePCA:
    return PrivatePCA(**{"low": LOW, "high": HIGH, "n_components": 2, "seed": "tests", **changes})


@pytest.fixture
def silence(monkeypatch):
    """Turn the noise off."""
    monkeypatch.setattr(noise, "add_noise", lambda law, exact, t, step, threads=1: np.asarray(exact) * step)
    monkeypatch.setattr(noise, "add_l2_noise", lambda arrays: [np.asarray(exact) * step for exact, _, step in arrays])
    monkeypatch.setattr(noise, "add_l2_noise_by_row", lambda exact, t, step, threads=1: np.asarray(exact) * step)


@pytest.fixture
def same_noise(monkeypatch):
    """A function that starts the noise from its beginning."""

    def restart() -> None:
        counter = itertools.count()

        def stream(size: int) -> bytes:
            parts = (hashlib.sha256(f"again/{next(counter)}".encode()).digest() for _ in range(-(-size // 32)))
            return b"".join(parts)[:size]

        monkeypatch.setattr(os, "urandom", stream)

    return restart


# ---- scikit-learn's own contract


@parametrize_with_checks(
    [PrivatePCA(low=-10, high=10)],
    expected_failed_checks=lambda _: dict.fromkeys(["check_estimators_pickle", "check_fit_idempotent"], TWICE_DIFFERS),
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


class WithoutNoise(PrivatePCA):
    """What would be released if there were no noise: a deterministic transformer, held to every check."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def test_with_the_noise_off_no_check_fails_and_none_is_excused(silence):
    results = check_estimator(WithoutNoise(low=-10, high=10, seed="checks"), on_skip=None)
    by_status = {s: {r["check_name"] for r in results if r["status"] == s} for s in ("passed", "skipped", "failed")}
    assert not by_status["failed"]
    assert by_status["skipped"] <= {"check_array_api_input"}  # needs an environment variable
    wanted = {"check_estimators_pickle", "check_fit_idempotent", "check_transformer_general"}
    assert wanted <= by_status["passed"] and len(by_status["passed"]) > 40


def test_works_on_frames_and_names_its_columns():
    frame = pd.DataFrame(rows(30), columns=["a", "b", "c", "d"])
    pca = made().set_output(transform="pandas")
    out = pca.fit_transform(frame)
    assert list(out.columns) == ["privatepca0", "privatepca1"] == list(pca.get_feature_names_out())
    assert list(pca.transform(frame).columns) == list(out.columns)
    assert list(pca.feature_names_in_) == ["a", "b", "c", "d"] and pca.n_features_in_ == 4
    assert [c["name"] for c in pca.card_.table_schema["columns"]] == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        pca.transform(frame.rename(columns={"a": "z"}))


# ---- what is found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_axes_are_those_of_the_rows_about_the_public_middle(mechanism, silence):
    X = rows(500)
    pca = made(mechanism=mechanism, row_bound=0.8).fit(X)
    moment = shortened(X, 0.8).T @ shortened(X, 0.8) / len(X)
    values, vectors = np.linalg.eigh(moment)
    assert np.abs(pca.components_ @ vectors[:, ::-1][:, :2]).diagonal() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(pca.spectrum_[:2], values[::-1][:2], rtol=1e-2)
    assert pca.row_bound_ == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_error_bars_hold_the_variances(mechanism):
    """All bars of a fit at once, in nearly all of 15 fits; and they are no wider than they must be to say something."""
    X = rows(4000)
    held, widths = 0, []
    for _ in range(15):
        pca = made(mechanism=mechanism, row_bound=0.5).fit(X)
        moment = shortened(X, pca.row_bound_).T @ shortened(X, pca.row_bound_) / len(X)
        true = np.linalg.eigvalsh(moment)[::-1][:2]
        held += bool(((pca.explained_variance_low_ <= true) & (true <= pca.explained_variance_high_)).all())
        assert (pca.explained_variance_low_ <= pca.explained_variance_).all()
        assert (pca.explained_variance_ <= pca.explained_variance_high_).all()
        widths.append(pca.explained_variance_high_[0] - pca.explained_variance_low_[0])
    assert held >= 13
    assert np.mean(widths) < 0.5 * true[0] and pca.noise_edge_ < true[0]
    assert pca.components_above_noise_ >= 1 and pca.card_.facts["components_above_noise"] >= 1


def test_shares_of_the_variance_where_the_total_is_measured(silence):
    X = rows(3000)
    whole = made(n_components=4, epsilon=50.0).fit(X)
    assert whole.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=0.02)
    assert (np.diff(whole.explained_variance_ratio_) <= 0).all() and (whole.explained_variance_ratio_ >= 0).all()
    assert made(mechanism="power_method").fit(X).explained_variance_ratio_ is None


@pytest.mark.parametrize("mechanism", ["analyze_gauss", "lip"])
def test_number_of_components_as_number_share_or_by_the_noise(mechanism):
    X = rows(20_000)
    assert made(mechanism=mechanism, n_components=np.int64(3)).fit(X).n_components_ == 3
    for wanted, share in ((0.3, 0.3), (0.9, 0.9), (None, 0.85)):
        pca = made(mechanism=mechanism, n_components=wanted, epsilon=50.0).fit(X)
        values = np.linalg.eigvalsh(shortened(X, pca.row_bound_).T @ shortened(X, pca.row_bound_))[::-1]
        expected = 1 + int(np.searchsorted(np.cumsum(values) / values.sum(), share))
        assert pca.n_components_ == expected == len(pca.components_) == pca.transform(X[:3]).shape[1]
    assert expected == 2


def test_the_power_method_takes_a_number_only():
    assert made(mechanism="power_method", n_components=None).fit(rows(10)).n_components_ == 4  # no more than features
    with pytest.raises(ad.InputError, match=r"not for power_method\); got n_components = 0\.5"):
        made(mechanism="power_method", n_components=0.5).fit(rows(10))


# ---- nothing but the second moment of declared units


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_centre_and_scale_never_look_at_the_table(mechanism):
    X = rows(50)
    first = made(mechanism=mechanism).fit(X)
    for table in (X[:1], MIDDLE + (X - MIDDLE) / 7, np.clip(X + RANGE / 9, LOW, HIGH), X * 0 + HIGH):
        pca = made(mechanism=mechanism)
        pca.fit_transform(table)
        assert pca.mean_.tolist() == MIDDLE.tolist() and pca.scale_.tolist() == RANGE.tolist()
        assert (pca.row_bound_, pca._rows_bound) == (first.row_bound_, first._rows_bound)
        assert pca.sigma_ == pytest.approx(first.sigma_, rel=1e-4)  # the axes are rounded to a grid


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
@pytest.mark.parametrize("centred", [False, True])
def test_the_centre_is_the_declared_middle_or_the_mean_that_was_released(mechanism, centred, monkeypatch):
    """Never the mean of the rows, which is as private as they are."""
    made_of, real = [], api.release
    monkeypatch.setattr(api, "release", lambda *given, **more: made_of.append(real(*given, **more)) or made_of[-1])
    X = rows(40)
    pca = made(mechanism=mechanism, centred=centred).fit(X)
    (released,) = made_of
    expected = MIDDLE + released.arrays["mean"] * RANGE if centred else MIDDLE
    assert np.array_equal(pca.centre_, expected)
    assert not np.isclose(pca.centre_, X.mean(axis=0), rtol=1e-9).any()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_axes_respond_only_through_the_second_moment(mechanism, same_noise):
    """Rows mirrored at the middle move the mean and every quantile; with the same noise not a bit may change."""
    X = rows(400)
    mirrored = X.copy()
    mirrored[::3] = 2 * MIDDLE - mirrored[::3]
    assert np.abs(mirrored.mean(axis=0) - X.mean(axis=0)).min() > 0.01
    found = []
    made(mechanism=mechanism, row_bound=2.0, epsilon=20.0).fit(X)  # only the first of a kind draws noise to warm up
    for table in (X, mirrored, mirrored[::-1], MIDDLE + 0.9 * (X - MIDDLE)):
        same_noise()
        found.append(made(mechanism=mechanism, row_bound=2.0, epsilon=20.0).fit(table))
    for other in found[1:3]:
        assert np.array_equal(found[0].components_, other.components_)
        assert np.array_equal(found[0].spectrum_, other.spectrum_)
    assert not np.isin(found[3].spectrum_, found[0].spectrum_).any()


def test_features_are_not_standardised(silence):
    """A feature squeezed to a tenth of its spread loses its say; scaled by the data it would keep it."""
    X = rows(400)
    squeezed = X.copy()
    squeezed[:, 2] = MIDDLE[2] + (X[:, 2] - MIDDLE[2]) / 10
    loadings = [np.abs(made(row_bound=2.0).fit(table).components_[:, 2]).max() for table in (X, squeezed)]
    assert loadings[1] < 0.3 * loadings[0]


def test_released_rows_depend_on_no_other_row(silence):
    X = rows(40)
    pca = made().fit(X)
    other = X.copy()
    other[1:] = rows(39, seed=5)
    assert np.array_equal(pca.transform(X)[0], pca.transform(other)[0])
    assert np.array_equal(pca.transform(X[:1])[0], pca.transform(X)[0])


# ---- rows come back with noise, or not at all


def noise_in(pca: PrivatePCA, X: np.ndarray, Z: np.ndarray) -> float:
    """Spread of what was added, in units of the stated standard deviation."""
    return float((Z - shortened(X, pca._rows_bound) @ pca.components_.T).std() / pca.sigma_)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("transform_rows", ["private", "public"])
@pytest.mark.parametrize("relation", ["replace", "zero-out"])
def test_training_rows_never_come_back_raw(mechanism, transform_rows, relation):
    X = rows(3000)
    pca = made(mechanism=mechanism, transform_rows=transform_rows, relation=relation, epsilon=8.0)
    assert noise_in(pca, X, pca.fit_transform(X)) == pytest.approx(1.0, abs=0.06)
    piped = make_pipeline(clone(pca), "passthrough")
    assert noise_in(piped[0], X, piped.fit_transform(X)) == pytest.approx(1.0, abs=0.06)
    if transform_rows == "private":
        assert noise_in(pca, X, pca.transform(X)) == pytest.approx(1.0, abs=0.06)


def test_noise_of_rows_follows_from_declarations_alone():
    """By length: a row moves by at most twice the bound, and a number gets sqrt(k + 1) times that over epsilon."""
    pca = made(row_bound=0.5, epsilon=1.0, transform_epsilon=4.0).fit(rows(30))
    assert pca.sigma_ == pytest.approx(2 * 0.5 / 4.0 * math.sqrt(3.0), rel=1e-3)
    assert pca.sigma_ >= 2 * 0.499 / 4.0 * math.sqrt(3.0)
    assert made(row_bound=0.5, epsilon=4.0).fit(rows(500, seed=3)).sigma_ == pytest.approx(pca.sigma_, rel=1e-6)
    pca.transform(rows(30))
    assert pca.transform_card_.noise["rows"].standard_deviation == pytest.approx(pca.sigma_, rel=1e-9)
    assert (pca.transform_card_.epsilon, pca.transform_card_.delta, pca.card_.epsilon) == (4.0, 0.0, 1.0)
    emptied = made(row_bound=0.5, relation="zero-out", transform_epsilon=4.0).fit(rows(30))
    assert emptied.sigma_ == pytest.approx(pca.sigma_ / 2, rel=1e-3)


def test_public_rows_lie_where_released_ones_lie(silence):
    """Without noise both ways agree, cells beyond the bounds and long rows included."""
    X, wild = rows(50), np.array([[9.0, -9.0, 99.0, 999.0], [0.0, 1.0, 10.0, 110.0]])
    for bound in (None, 0.3):
        exact = made(transform_rows="public", row_bound=bound).fit(X)
        released = made(row_bound=bound).fit(X)
        for table in (rows(50, seed=2), wild):
            np.testing.assert_allclose(exact.transform(table), released.transform(table), atol=2e-4)


def test_without_a_budget_for_rows_none_come_back(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    pca = made(transform_epsilon=None, ledger=ledger)
    with pytest.raises(ad.InputError, match="transform_epsilon a number"):
        pca.fit_transform(rows(30))
    assert not ledger.path.exists() and not hasattr(pca, "components_")  # refused before anything was paid
    pca.fit(rows(30))
    assert pca.sigma_ is None and len(releases(ledger)) == 1
    with pytest.raises(ad.InputError, match="not private"):
        pca.transform(rows(30))
    public = made(transform_epsilon=None, transform_rows="public", ledger=ledger)
    with pytest.raises(ad.InputError, match="not private"):
        public.fit_transform(rows(30))
    with pytest.raises(ad.InputError, match="not private"):
        make_pipeline(public, LogisticRegression()).fit(rows(30), np.arange(30) % 2)
    exact = public.fit(rows(30)).transform(rows(5, seed=1))
    np.testing.assert_allclose(exact, shortened(rows(5, seed=1), public._rows_bound) @ public.components_.T)
    assert len(releases(ledger)) == 2 and not hasattr(public, "transform_card_")


def test_axes_alone_where_the_number_of_rows_is_private(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    pca = made(relation="add-remove", ledger=ledger)
    with pytest.raises(ad.InputError, match="relation replace or zero-out"):
        pca.fit_transform(rows(300))
    assert not ledger.path.exists()
    pca.fit(rows(300))
    assert pca.components_.shape == (2, 4) and pca.sigma_ is None and pca.card_.table_rows is None
    with pytest.raises(ad.InputError, match="relation replace or zero-out"):
        pca.transform(rows(300))
    assert b"300" not in pickle.dumps((pca.card_.options, pca.card_.facts, pca.card_.words))


def test_every_call_draws_new_noise():
    X = rows(60)
    pca = made(seed=None)
    first = pca.fit_transform(X)
    axes = pca.components_
    assert not (first == pca.transform(X)).any() and pca.components_ is axes
    assert not np.array_equal(pca.fit(X).components_, axes)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    pca = made().fit(rows(30))
    sigma = pca.sigma_
    pca.set_params(epsilon=50.0, transform_rows="public", low=0.0, high=200.0).transform(rows(30))
    assert pca.transform_card_.epsilon == 1.0 and pca.sigma_ == sigma
    assert pca.inverse_transform(np.zeros((1, 2))).tolist() == [MIDDLE.tolist()]
    assert pca.fit(rows(30)).sigma_ < sigma


# ---- back to the features' own units


def test_inverse_transform_goes_back_and_stays_within_the_bounds(silence):
    X = rows(40, spread=0.1)
    pca = made(n_components=4, row_bound=2.0).fit(X)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, atol=2e-3 * RANGE.max())
    wild = pca.inverse_transform(1e6 * np.random.default_rng(0).normal(size=(50, 4)))
    assert (wild >= LOW).all() and (wild <= HIGH).all() and (wild == HIGH).any() and (wild == LOW).any()
    few = made(row_bound=2.0).fit(X)
    assert np.abs(few.inverse_transform(few.transform(X)) - X).mean() < 0.05 * RANGE.max()


def test_inverse_transform_looks_at_public_numbers_only():
    X = rows(200)
    pca = made(n_components=4, row_bound=2.0, epsilon=2.0)
    back = pca.inverse_transform(pca.fit_transform(X))
    again = pickle.loads(pickle.dumps(pca))  # noqa: S301 - made here
    Z = np.random.default_rng(0).normal(size=(5, 4))
    expected = np.clip(MIDDLE + Z @ pca.components_ * RANGE, LOW, HIGH)
    np.testing.assert_allclose(again.inverse_transform(Z), expected)
    assert np.corrcoef(back[:, 0], X[:, 0])[0, 1] < 0.5 and not (back == X).all(axis=1).any()


@pytest.mark.parametrize("bad", [[[1.0]], [1.0, 2.0], "secret-7", [["secret-7", "1"]], [[[1.0, 2.0]]]])
def test_inverse_transform_takes_transformed_rows_only(bad):
    with pytest.raises(ad.InputError, match="transformed rows of 2 numbers") as error:
        made().fit(rows(10)).inverse_transform(bad)
    assert "secret" not in str(error.value)


# ---- nothing private stays or is said


def leaks(content: bytes, values: np.ndarray) -> bool:
    """Whether any of the numbers stands in the content: as bytes of either order or size, or written out."""
    numbers = values.ravel()
    forms = [f for v in numbers for f in (v.tobytes(), v.tobytes()[::-1], np.float32(v).tobytes())]
    return any(form in content for form in forms) or any(repr(float(v))[:10].encode() in content for v in numbers)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_pickle_and_repr_hold_no_row(mechanism, tmp_path):
    X, test = rows(25, spread=0.1), rows(25, seed=1, spread=0.1)  # no cell on a bound, which is public
    for transform_rows in ("private", "public"):
        pca = made(mechanism=mechanism, transform_rows=transform_rows, ledger=ad.Ledger(tmp_path / "ledger.db"))
        released = [pca.fit_transform(X), pca.transform(test)]
        pca.inverse_transform(released[0])
        content = pickle.dumps(pca) + repr(pca).encode() + str(vars(pca)).encode() + pca._repr_html_().encode()
        content += pca.card_.model_dump_json().encode() + pca.transform_card_.model_dump_json().encode()
        content += (tmp_path / "ledger.db").read_bytes()
        private = [v for table in (X, test) for v in (table, scaled(table), scaled(table) @ pca.components_.T)]
        private += [shortened(table, pca._rows_bound) @ pca.components_.T for table in (X, test)]
        for values in (*private, X.mean(axis=0), X.std(axis=0), X.min(axis=0), X.max(axis=0), *released):
            assert not leaks(content, values)
        again = pickle.loads(pickle.dumps(pca))  # noqa: S301 - made one line above
        assert np.array_equal(again.components_, pca.components_) and again.card_ == pca.card_
        pca.kept = X[:1] @ np.eye(4)  # the check can fail
        assert leaks(pickle.dumps(pca), X)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pca = made()
    pca.fit_transform(rows(20))
    pca.transform(rows(20))
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_the_axes_that_rows_are_taken_along_are_the_fitted_ones(monkeypatch):
    """They travel as numbers, in no file."""
    seen, real = [], api.release

    def watched(table, schema, mechanism, *args, **kwargs):
        if mechanism.name == "lop":
            seen.append(mechanism.basis.array)
        return real(table, schema, mechanism, *args, **kwargs)

    monkeypatch.setattr(api, "release", watched)
    pca = made()
    pca.fit_transform(rows(20))
    pca.transform(rows(20))
    assert len(seen) == 2 and all(np.array_equal(axes, pca.components_) for axes in seen)


@pytest.mark.parametrize(
    "bad",
    [
        np.array([["0.5", "secret-7", "1", "2"]]),
        np.array([[0.5, "secret-7", 1.0, 2.0]], dtype=object),
        pd.DataFrame([[0.5, "secret-7", 1.0, 2.0]]),
        np.array([[0.5, 777.5 + 1j, 1.0, 2.0]]),
        np.array([0.5, 777.5, 1.0, 2.0]),
        np.array([[777.5, np.nan, 1.0, 2.0]]),
        np.array([[777.5, np.inf, 1.0, 2.0]]),
        np.empty((0, 4)),
        sparse.csr_array(np.array([[777.5, 0.0, 1.0, 2.0]])),
    ],
)
@pytest.mark.parametrize("step", ["fit", "fit_transform", "transform"])
def test_bad_rows_are_refused_without_a_cell_and_without_a_charge(bad, step, tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    pca = made().fit(rows(30)).set_params(ledger=ledger)
    with pytest.raises((ValueError, TypeError)) as error:
        getattr(pca, step)(bad)
    assert "secret" not in str(error.value) and "777" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None
    assert not ledger.path.exists()


# ---- refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": None, "high": None}, r"declared public bounds.*got none.*X\.min"),
        ({"low": None}, "one of the two"),
        ({"high": None}, "one of the two"),
        ({"low": [0.0, 0.0]}, "low as one number, or 4"),
        ({"low": 5.0, "high": 5.0}, "low < high"),
        ({"high": math.nan}, "finite"),
        ({"mechanism": "pca"}, "mechanism one of analyze_gauss, lip, power_method"),
        ({"relation": "swap"}, "relation"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "positive delta for analyze_gauss"),
        ({"delta": 1.0}, "delta"),
        ({"row_bound": 0.0}, "row bound"),
        ({"n_components": 0}, "1 <= n_components <= 4"),
        ({"n_components": 5}, "1 <= n_components <= 4"),
        ({"n_components": 1.0}, "n_components as a whole number, None, or a share"),
        ({"n_components": True}, "n_components as a whole number"),
        ({"n_components": "mle"}, "n_components as a whole number"),
        ({"transform_epsilon": 0.0}, "transform_epsilon"),
        ({"transform_epsilon": "all"}, "transform_epsilon one of same"),
        ({"transform_rows": "mine"}, "transform_rows one of private, public"),
    ],
)
def test_parameters_that_promise_nothing_are_refused_before_a_charge(changes, words, tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    for step in ("fit", "fit_transform"):
        with pytest.raises(ad.InputError, match=words):
            getattr(made(ledger=ledger, **changes), step)(rows(30))
    assert not ledger.path.exists()


def test_a_newcomer_who_declares_nothing_is_told():
    with pytest.raises(ad.InputError, match="declared public bounds"):
        PrivatePCA().fit(rows(30))


def test_nothing_before_fit():
    for method in ("transform", "inverse_transform", "get_feature_names_out"):
        with pytest.raises(NotFittedError):
            getattr(made(), method)(*([] if method.startswith("get") else [rows(3)]))
    with pytest.raises(AttributeError, match="none have been released"):
        _ = made().fit(rows(30)).transform_card_


# ---- the ledger


def releases(ledger: ad.Ledger) -> list[str]:
    """Names of the mechanisms, one for each release."""
    return list({e.body["release_id"]: e.body["mechanism"] for e in ledger.entries() if e.kind == "charge"}.values())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_fit_and_every_transform_is_charged(mechanism, tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    pca = made(ledger=ledger, table_name="people", mechanism=mechanism, transform_epsilon=0.5)
    pca.fit(rows(30))
    assert releases(ledger) == [mechanism] and ledger.tables() == ["people"]
    assert ledger.spent("people", ROW, 1e-6) == pytest.approx(1.0, rel=1e-5)
    pca.transform(rows(30))
    assert releases(ledger) == [mechanism, "lop"]
    both = ledger.spent("people", ROW, 1e-6)
    assert 1.0 < both <= 1.5 + 1e-6
    pca.fit_transform(rows(30))
    assert releases(ledger) == [mechanism, "lop"] * 2
    pca.inverse_transform(np.zeros((3, 2)))
    pca.set_params(transform_rows="public").fit(rows(30)).transform(rows(30))
    assert releases(ledger) == [mechanism, "lop"] * 2 + [mechanism]
    clone(pca).set_params(table_name="others").fit(rows(30))
    assert ledger.tables() == ["others", "people"]


def test_a_full_ledger_gives_no_rows_and_keeps_the_axes(tmp_path):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    ledger.set_cap("table", ROW, 1.2, 1e-6)
    pca = made(ledger=ledger)
    with pytest.raises(ad.Refused):
        pca.fit_transform(rows(30))
    assert releases(ledger) == ["analyze_gauss"] and pca.components_.shape == (2, 4)
    assert not hasattr(pca, "transform_card_")
    with pytest.raises(ad.Refused):
        pca.fit(rows(30))


# ---- what a search costs


class Watch:
    """Notes for every release which rows were in it."""

    def __init__(self, monkeypatch, ledger: ad.Ledger) -> None:
        self.ledger, self.rows = ledger, dict[str, set[float]]()
        real = api.release

        def watched(table, *args, **kwargs):
            done = real(table, *args, **kwargs)
            self.rows[done.card.release_id] = set(np.asarray(table)[:, 0].tolist())
            return done

        monkeypatch.setattr(api, "release", watched)

    def dearest(self, X: np.ndarray, delta: float) -> tuple[int, float]:
        """The most releases that hold the same row, and the most that those of one row cost it together."""
        events: dict[str, list[object]] = {}
        for entry in self.ledger.entries():
            events.setdefault(entry.body["release_id"], []).append(entry.event)
        kinds = {frozenset(name for name, held in self.rows.items() if row in held) for row in X[:, 0]}
        most = sorted(kinds, key=len)[-6:]
        return len(most[-1]), max(epsilon_of([e for n in kind for e in events[n]], ROW, delta) for kind in most)


def dearest(results: dict) -> int:
    """Which candidate to fit again, so that the table spends as much as it can."""

    def price(candidate: dict) -> float:
        step = candidate.get("pca")
        named = sum(value for name, value in candidate.items() if name.endswith("epsilon"))
        return step.epsilon if isinstance(step, PrivatePCA) else named

    return max(range(len(results["params"])), key=lambda i: price(results["params"][i]))


def searches() -> Iterator[tuple[str, object]]:
    pca, model = made(n_components=1, epsilon=0.5, transform_epsilon=0.25), LogisticRegression()
    pipe = Pipeline([("pca", pca), ("model", model)])
    yield "components", GridSearchCV(pipe, {"pca__n_components": [1, 2]}, cv=3)
    yield "epsilons", GridSearchCV(pipe, {"pca__epsilon": [0.2, 0.7]}, cv=2, refit=dearest)
    yield "budgets of rows", GridSearchCV(pipe, {"pca__transform_epsilon": [0.3, 0.1]}, cv=2, refit=dearest)
    yield "mechanisms", GridSearchCV(pipe, {"pca__mechanism": MECHANISMS}, cv=2)
    yield "train scores", GridSearchCV(pipe, {"pca__n_components": [1, 2]}, cv=2, return_train_score=True)
    yield "no refit", GridSearchCV(pipe, {"pca__n_components": [1, 2]}, cv=KFold(3), refit=False)
    yield "two ways of scoring", GridSearchCV(pipe, {}, cv=2, scoring=["accuracy", "roc_auc"], refit="roc_auc")
    yield "repeated", GridSearchCV(pipe, {}, cv=RepeatedKFold(n_splits=2, n_repeats=2, random_state=0))
    yield "passed by", GridSearchCV(pipe, {"pca": ["passthrough", pca, made(epsilon=0.1)]}, cv=2, refit=dearest)
    yield (
        "a sample",
        RandomizedSearchCV(pipe, {"pca__epsilon": [0.1, 0.2, 0.4]}, n_iter=2, cv=2, random_state=3, refit=dearest),
    )
    yield "a sample of C", RandomizedSearchCV(pipe, {"model__C": [0.1, 1.0, 2.0]}, n_iter=2, cv=2)
    projection = DPProTransformer(low=LOW, high=HIGH, epsilon=0.5, dimension=2, seed="tests")
    yield (
        "dppro",
        GridSearchCV(
            Pipeline([("pca", projection), ("model", model)]), {"pca__epsilon": [0.1, 0.2]}, cv=2, refit=dearest
        ),
    )
    union = FeatureUnion([("one", pca), ("other", projection)])
    yield "union", GridSearchCV(Pipeline([("both", union), ("model", model)]), {}, cv=2)
    part = ColumnTransformer([("pca", made(n_components=1, low=LOW[:2], high=HIGH[:2]), [0, 1])])
    yield "columns", GridSearchCV(Pipeline([("part", part), ("model", model)]), {}, cv=2)

    def spread(fitted, X, y):
        return fitted.transform(X).var()

    yield "alone", GridSearchCV(pca, {"n_components": [1, 2]}, cv=2, scoring=spread)
    yield "columns alone", GridSearchCV(part, {}, cv=2, scoring=spread)  # fitting these transforms
    yield "union alone", GridSearchCV(union, {}, cv=2, scoring=spread)  # and these does not
    yield "nested", GridSearchCV(Pipeline([("in", Pipeline([("pca", pca)])), ("model", model)]), {}, cv=2)


def charged_to(search, ledger: ad.Ledger):
    """The same search with the ledger in every private step, those among its candidates too."""

    def charged(value):
        if isinstance(value, PrivatePCA | DPProTransformer):
            value.set_params(ledger=ledger)
        elif hasattr(value, "get_params"):
            for part in value.get_params().values():
                charged(part)
        elif isinstance(value, list):
            for part in value:
                charged(part)
        elif isinstance(value, dict):
            charged(list(value.values()))

    charged(search)
    return search.set_params(error_score="raise")


@pytest.mark.parametrize("name", [name for name, _ in searches()])
def test_the_cost_of_a_search_is_what_the_ledger_says(name, tmp_path, monkeypatch):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    search = charged_to(dict(searches())[name], ledger)
    told = search_cost(search)
    assert not ledger.path.exists()  # nothing is fitted
    X = rows(24)
    watch = Watch(monkeypatch, ledger)
    search.fit(X, np.arange(24) % 2)
    assert told.releases == len(releases(ledger)) == len(watch.rows)
    count, epsilon = watch.dearest(X, told.delta)
    assert count == told.releases_of_a_row < told.releases and told.epsilon < told.ledger_epsilon
    spent = ledger.spent("table", ROW, told.delta)
    if name == "mechanisms":  # fitted again is the best, not the dearest
        assert 0.8 * told.epsilon < epsilon <= told.epsilon and 0.8 * told.ledger_epsilon < spent <= told.ledger_epsilon
    else:
        assert (epsilon, spent) == (pytest.approx(told.epsilon, rel=1e-6), pytest.approx(told.ledger_epsilon, rel=1e-6))


@pytest.mark.parametrize(
    "search",
    [
        HalvingGridSearchCV(
            make_pipeline(made(), LogisticRegression()), {"privatepca__epsilon": [0.1, 0.2, 0.3]}, cv=2
        ),
        HalvingRandomSearchCV(
            make_pipeline(made(), LogisticRegression()),
            {"privatepca__epsilon": [0.1, 0.2, 0.3, 0.4]},
            n_candidates=4,
            factor=2,
            cv=2,
            random_state=0,
        ),
        GridSearchCV(
            make_pipeline(made(), LogisticRegression()), {}, cv=ShuffleSplit(n_splits=4, test_size=0.5, random_state=0)
        ),
        GridSearchCV(
            make_pipeline(made(), LogisticRegression()), {}, cv=2, scoring=["accuracy", "f1"], refit="f1"
        ),  # both ask for the same predictions
    ],
    ids=["halving", "halving a sample", "overlapping splits", "scores that share"],
)
def test_other_searches_cost_at_most_what_is_told(search, tmp_path, monkeypatch):
    ledger = ad.Ledger(tmp_path / "ledger.db")
    search = charged_to(clone(search), ledger)
    told = search_cost(search)
    X = rows(60)
    watch = Watch(monkeypatch, ledger)
    search.fit(X, np.arange(60) % 2)
    count, epsilon = watch.dearest(X, told.delta)
    assert count <= told.releases_of_a_row <= told.releases and len(watch.rows) <= told.releases
    assert epsilon <= told.epsilon <= 3 * epsilon
    assert ledger.spent("table", ROW, told.delta) <= told.ledger_epsilon <= 2 * ledger.spent("table", ROW, told.delta)


def test_pure_epsilons_add_up():
    search = GridSearchCV(make_pipeline(made(mechanism="lip"), LogisticRegression()), {}, cv=5)
    told = search_cost(search)
    assert (told.delta, told.epsilon, told.ledger_epsilon) == (0.0, pytest.approx(11.0), pytest.approx(17.0))
    assert search_cost(search, delta=1e-6).epsilon < 11.0
    assert search_cost(search.set_params(cv=None)) == told
    assert search_cost(search.set_params(refit=False)).epsilon == pytest.approx(9.0)


def test_the_cost_is_said_in_words():
    told = search_cost(
        GridSearchCV(
            make_pipeline(made(mechanism="lip"), LogisticRegression()), {"logisticregression__C": [1, 2]}, cv=5
        )
    )
    assert isinstance(told, SearchCost)
    assert str(told) == (
        "2 candidates x 5 folds: 32 releases, of which a row is part of 20.\n"
        "One row pays epsilon 20 at delta 0 (row/replace); a ledger under one name will say 32."
    )
    with pytest.raises(AttributeError):
        told.epsilon = 0.0
    rounded = SearchCost(1, 2, 3, 3, 1.00001, 12.345, 0.0, "row/replace")
    assert "epsilon 1.01 " in str(rounded) and str(rounded).endswith("12.4.")  # never less than it is


def test_scores_without_noise_are_pointed_out():
    search = GridSearchCV(make_pipeline(made(transform_rows="public"), LogisticRegression()), {}, cv=5)
    told = search_cost(search)
    assert told.releases == 12 and any("no epsilon covers the scores" in note for note in told.notes)
    assert "no epsilon covers" in str(told)
    assert search_cost(GridSearchCV(make_pipeline(made(), LogisticRegression()), {}, cv=5)).notes == ()


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (GridSearchCV(LogisticRegression(), {}), "no private step"),
        (make_pipeline(made(), LogisticRegression()), "a search with param_grid"),
        (GridSearchCV(make_pipeline(made(relation="add-remove"), LogisticRegression()), {}), "change folds"),
        (GridSearchCV(make_pipeline(made(transform_epsilon=None), LogisticRegression()), {}), "releases the rows"),
        (GridSearchCV(make_pipeline(made(mechanism="pca"), LogisticRegression()), {}), "mechanism one of"),
        (GridSearchCV(make_pipeline(made(delta=0.0), LogisticRegression()), {}), "positive delta"),
        (GridSearchCV(BaggingClassifier(make_pipeline(made(), LogisticRegression())), {}), "inside BaggingClassifier"),
        (
            GridSearchCV(
                make_pipeline(made(), LogisticRegression()), {"privatepca__relation": ["replace", "zero-out"]}
            ),
            "same unit and relation",
        ),
        (
            GridSearchCV(make_pipeline(made(), LogisticRegression()), {}, cv=LeaveOneOut()),
            "does not depend on the data",
        ),
        (GridSearchCV(make_pipeline(made(), LogisticRegression()), {}, cv=iter([])), "using them up"),
        (
            RandomizedSearchCV(
                make_pipeline(made(), LogisticRegression()), {"privatepca__epsilon": [0.1, 0.2]}, n_iter=1
            ),
            "random_state",
        ),
        (
            RandomizedSearchCV(Pipeline([("a", "passthrough"), ("b", made())]), {"a": [made(), made()]}, n_iter=1),
            "random_state",
        ),
        (
            HalvingRandomSearchCV(make_pipeline(made(), LogisticRegression()), {"logisticregression__C": [1, 2]}),
            "known beforehand",
        ),
        (
            HalvingGridSearchCV(
                make_pipeline(made(), LogisticRegression()),
                {"logisticregression__C": [1, 2]},
                resource="privatepca__n_components",
                max_resources=4,
            ),
            "no parameter of a private step",
        ),
    ],
)
def test_searches_whose_cost_cannot_be_told_are_refused(search, words):
    with pytest.raises(ad.InputError, match=words):
        search_cost(search)


def test_a_pipeline_with_private_axes_learns(tmp_path):
    """What all of this is for: at a large epsilon a classifier along private axes finds the class."""
    X = rows(3000)
    y = (scaled(X)[:, 0] > 0.1).astype(int)
    pipe = make_pipeline(made(epsilon=2.0, transform_epsilon=20.0), LogisticRegression())
    search = GridSearchCV(pipe, {"privatepca__n_components": [1, 2]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.75
    public = make_pipeline(made(epsilon=2.0, transform_epsilon=20.0, transform_rows="public"), LogisticRegression())
    assert public.fit(X, y).score(rows(500, seed=1), scaled(rows(500, seed=1))[:, 0] > 0.1) > 0.8


# ---- the wall, and documentation


ROOMS = ("common", "declare", "queries", "mechanisms", "families", "releases", "sklearn")
SERVED = ("ledger.ledger", "accounting.accountant", "accounting.calibrate", "accounting.events")


def test_estimators_reach_rows_through_release_alone():
    folder = Path(adumbra.sklearn.__file__).parent
    allowed = {"adumbra", *(f"adumbra.{m}" for m in SERVED)}
    # utility-aware releases have rules of their own; who attacks them needs no private row
    utility = {"adumbra.audit.adversaries", "adumbra.numerics.integer_kernels", "adumbra.job"}
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adumbra"):
                inside = node.module.startswith(tuple(f"adumbra.{room}." for room in ROOMS))
                served = file.name == "jupa_estimator.py" and (
                    node.module in utility or node.module.startswith("adumbra.jupa")
                )
                assert inside or served or node.module in allowed, f"{file.name} imports {node.module}"


def test_the_page_names_every_parameter_and_attribute():
    page = text("docs/sklearn.md")
    fitted = made().fit(rows(10))
    names = [*PrivatePCA().get_params(), *(name for name in vars(fitted) if name.endswith("_")), "transform_card_"]
    missing = [name for name in names if f"`{name}`" not in page]
    assert not missing, f"docs/sklearn.md says nothing of {missing}"
    assert "search_cost" in page
