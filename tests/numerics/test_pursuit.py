"""Orthogonal matching pursuit: the atoms and numbers that scikit-learn finds, whatever the path, threads and units."""

from __future__ import annotations

import os
import threading
import tracemalloc
import warnings
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dct, idct
from sklearn.linear_model import orthogonal_mp_gram

from adumbra.common.errors import InputError
from adumbra.numerics import pursuit
from adumbra.numerics.operator_pursuit import MatrixOperator, pursue_operator
from adumbra.numerics.pursuit import pursue, pursue_gram
from adumbra.numerics.sparse_codes import SparseCodes


def dictionary(measurements, width, seed=0, shared=0.0):
    """Unit columns; with `shared`, that much of each is common to all."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(measurements, width)) + shared * rng.normal(size=(measurements, 1))
    return columns / np.linalg.norm(columns, axis=0)


def sparse_signals(matrix, count, atoms, noise=0.0, seed=1):
    rng = np.random.default_rng(seed)
    code = np.zeros((count, matrix.shape[1]))
    for row in code:
        row[rng.choice(matrix.shape[1], atoms, replace=False)] = rng.normal(size=atoms) + rng.choice([-2, 2], atoms)
    return code, code @ matrix.T + noise * rng.normal(size=(count, matrix.shape[0]))


def reference(matrix, signals, atoms, tolerance=None):
    """scikit-learn's coefficients, one row for each signal."""
    squares = None if tolerance is None else np.sum(signals**2, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it says so where a signal needs fewer atoms
        found = orthogonal_mp_gram(
            matrix.T @ matrix,
            matrix.T @ signals.T,
            n_nonzero_coefs=None if tolerance is not None else atoms,
            tol=tolerance,
            norms_squared=squares,
        )
    return found.reshape(matrix.shape[1], len(signals)).T


def same(one: SparseCodes, two: SparseCodes):
    """Equal bit by bit."""
    return all(
        getattr(one, name).tobytes() == getattr(two, name).tobytes()
        for name in ("support", "coefficients", "used", "residual")
    )


def textbook(matrix, signal, atoms, level=-1.0):
    """The definition, with a least-squares fit in every round."""
    lengths = np.linalg.norm(matrix, axis=0)
    chosen, code, rest = [], np.zeros(0), signal
    while len(chosen) < atoms and rest @ rest > level:
        scores = np.abs(matrix.T @ rest) / np.where(lengths > 0, lengths, np.inf)
        scores[chosen] = -1
        chosen.append(int(np.argmax(scores)))
        code = np.linalg.lstsq(matrix[:, chosen], signal, rcond=None)[0]
        rest = signal - matrix[:, chosen] @ code
    return chosen, code, float(rest @ rest)


CASES = {
    "random": (dictionary(40, 100), 0.0, 6),
    "noisy": (dictionary(40, 100), 0.5, 12),
    "correlated": (dictionary(60, 130, shared=3.0), 0.1, 8),
    "wider than a chunk": (dictionary(64, 300), 0.2, 10),
    "square": (dictionary(30, 30), 0.3, 5),
    "tall": (dictionary(90, 20), 0.3, 7),
}


# ---- the same as others


@pytest.mark.parametrize("case", CASES)
def test_atoms_and_numbers_are_those_of_scikit_learn(case):
    matrix, noise, atoms = CASES[case]
    _, signals = sparse_signals(matrix, 200, atoms, noise)
    theirs = reference(matrix, signals, atoms)
    ours = pursue(matrix, signals, atoms=atoms)
    gram = pursue_gram(matrix.T @ matrix, signals @ matrix, atoms=atoms)
    for found in (ours, gram):
        dense = found.dense(matrix.shape[1])
        assert np.array_equal(dense != 0, theirs != 0)
        assert np.abs(dense - theirs).max() < 1e-8
        assert found.used.tolist() == [atoms] * 200
    assert np.isnan(gram.residual).all()
    left = np.sum((signals - theirs @ matrix.T) ** 2, axis=1)
    assert np.allclose(ours.residual, left, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["noisy", "correlated", "wider than a chunk"])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
def test_the_noise_level_stops_where_scikit_learn_stops(case, share):
    matrix, noise, atoms = CASES[case]
    _, signals = sparse_signals(matrix, 120, atoms, noise)
    level = share * float(np.median(np.sum(signals**2, axis=1)))
    signals = signals[np.sum(signals**2, axis=1) > level]  # it takes one atom at least
    theirs = reference(matrix, signals, atoms, tolerance=level)
    most = min(matrix.shape[0], matrix.shape[1])
    squares = np.sum(signals**2, axis=1)
    for found in (
        pursue(matrix, signals, atoms=most, residual=level),
        pursue_gram(matrix.T @ matrix, signals @ matrix, squares, atoms=most, residual=level),
    ):
        dense = found.dense(matrix.shape[1])
        assert np.array_equal(dense != 0, theirs != 0)
        assert np.abs(dense - theirs).max() < 1e-8
        assert (found.residual <= level).all()
        assert len(set(found.used.tolist())) > 1
        assert np.array_equal(found.used, (theirs != 0).sum(axis=1))


def test_atoms_come_in_the_order_of_the_definition():
    matrix = dictionary(30, 70) * np.random.default_rng(5).uniform(0.01, 100, 70)
    _, signals = sparse_signals(matrix, 25, 5, noise=1.0)
    many = pursue(matrix, signals, atoms=9)
    for s, signal in enumerate(signals):
        chosen, code, left = textbook(matrix, signal, 9)
        few = pursue_operator(MatrixOperator(matrix), signal, atoms=9)
        for support, coefficients, residual in (
            (many.support[s], many.coefficients[s], many.residual[s]),
            (few.support[0], few.coefficients[0], few.residual[0]),
        ):
            assert support.tolist() == chosen
            assert np.allclose(coefficients, code, rtol=1e-8, atol=0)
            assert residual == pytest.approx(left, rel=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_an_operator_finds_what_the_matrix_finds(case):
    matrix, noise, atoms = CASES[case]
    _, signals = sparse_signals(matrix, 20, atoms, noise)
    level = 0.1 * float(np.median(np.sum(signals**2, axis=1)))
    for residual in (None, level):
        many = pursue(matrix, signals, atoms=atoms, residual=residual)
        for s, signal in enumerate(signals):
            one = pursue_operator(MatrixOperator(matrix), signal, atoms=atoms, residual=residual)
            assert one.support.tolist() == [many.support[s].tolist()]
            assert np.allclose(one.coefficients[0], many.coefficients[s], atol=1e-10)
            assert one.used[0] == many.used[s]
            assert one.residual[0] == pytest.approx(many.residual[s], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("residual", [None, 6.0])
def test_few_signals_take_the_way_without_a_gram_matrix(residual, monkeypatch):
    matrix = dictionary(30, 400)
    _, signals = sparse_signals(matrix, 3, 4, noise=0.1)
    short = pursue(matrix, signals, atoms=4, residual=residual, threads=2)
    monkeypatch.setattr(pursuit, "GEMV", 10**6)
    long = pursue(matrix, signals, atoms=4, residual=residual)
    assert (short.used.min() < 4) == (residual is not None)
    assert not same(short, long)  # the last bits tell that these were two ways
    assert np.array_equal(short.support, long.support)
    assert np.allclose(short.coefficients, long.coefficients, atol=1e-12)
    assert np.allclose(short.residual, long.residual, atol=1e-12)


# ---- properties


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    measurements=st.integers(2, 24),
    width=st.integers(2, 40),
    seed=st.integers(0, 10**6),
    shared=st.sampled_from([0.0, 1.0, 10.0]),
    data=st.data(),
)
def test_what_is_left_is_orthogonal_and_shrinks(measurements, width, seed, shared, data):
    rng = np.random.default_rng(seed)
    matrix = dictionary(measurements, width, seed, shared) * rng.uniform(0.1, 10, width)
    atoms = data.draw(st.integers(1, min(measurements, width)))
    signals = rng.normal(size=(40, measurements)) * 10.0 ** rng.integers(-3, 4, (40, 1))
    squares = np.sum(signals**2, axis=1)
    last, before = squares, np.empty((40, 0), np.int64)
    for most in range(1, atoms + 1):
        found = pursue(matrix, signals, atoms=most)
        rest = signals - found.dense(width) @ matrix.T
        assert np.allclose(np.sum(rest**2, axis=1), found.residual, rtol=1e-6, atol=1e-9 * squares)
        products = np.abs(rest @ matrix) / np.linalg.norm(matrix, axis=0)
        for s in range(40):
            chosen = found.support[s, : found.used[s]]
            assert len(set(chosen.tolist())) == found.used[s] and (chosen >= 0).all()
            assert (found.support[s, found.used[s] :] == -1).all()
            assert (found.coefficients[s, found.used[s] :] == 0).all()
            assert products[s, chosen].max() <= 1e-6 * np.sqrt(squares[s])
        assert (found.residual <= last * (1 + 1e-9)).all()
        assert np.array_equal(found.support[:, : most - 1], before)  # whatever may follow
        last, before = found.residual, found.support


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), power=st.integers(-40, 40))
def test_units_of_columns_and_signals_do_not_matter(seed, power):
    rng = np.random.default_rng(seed)
    matrix = dictionary(20, 50, seed)
    _, signals = sparse_signals(matrix, 30, 4, noise=0.1, seed=seed)
    units = 2.0 ** rng.integers(-30, 30, 50)
    plain = pursue(matrix, signals, atoms=6)
    found = pursue(matrix * units, signals * 2.0**power, atoms=6)
    assert np.array_equal(found.support, plain.support)
    assert np.allclose(found.coefficients * units[found.support] / 2.0**power, plain.coefficients, rtol=1e-9)
    gram = pursue_gram(matrix.T @ matrix * np.outer(units, units), signals @ matrix * units, atoms=6)
    assert np.array_equal(gram.support, plain.support)
    assert np.allclose(gram.coefficients * units[gram.support], plain.coefficients, rtol=1e-9)


def test_exact_signals_are_recovered_and_nothing_more():
    matrix = dictionary(64, 200)
    code, signals = sparse_signals(matrix, 300, 4)
    found = pursue(matrix, signals, atoms=20)
    assert (found.used == 4).mean() > 0.95  # greedy choice may take a detour
    right = found.used == 4
    assert np.abs(found.dense(200) - code)[right].max() < 1e-12
    assert (found.residual < 1e-12).all()
    for signal in signals[right][:50]:
        one = pursue_operator(MatrixOperator(matrix), signal, atoms=20)
        assert one.used[0] == 4 and one.residual[0] < 1e-28


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_no_bit(threads):
    matrix = dictionary(48, 150)
    _, signals = sparse_signals(matrix, 3 * pursuit.BLOCK + 17, 6, noise=0.3)
    assert same(pursue(matrix, signals, atoms=9, threads=1), pursue(matrix, signals, atoms=9, threads=threads))
    parts = matrix.T @ matrix, signals @ matrix, np.sum(signals**2, axis=1)
    one, more = (pursue_gram(*parts, atoms=9, residual=2.0, threads=each) for each in (1, threads))
    assert same(one, more)
    assert len(set(one.used.tolist())) > 1
    few = signals[:2], 1
    wide = np.tile(matrix, 3)
    assert same(*(pursue(wide, few[0], atoms=few[1], threads=each) for each in (1, threads)))


def test_threads_are_those_asked_for(monkeypatch):
    seen = set()
    original = pursuit._pursue_block

    def noted(*arguments):
        seen.add(threading.get_ident())
        return original(*arguments)

    monkeypatch.setattr(pursuit, "_pursue_block", noted)
    matrix = dictionary(10, 20)
    signals = np.random.default_rng(0).normal(size=(40 * pursuit.BLOCK, 10))
    pursue(matrix, signals, atoms=3, threads=1)
    assert seen == {threading.get_ident()}
    monkeypatch.setenv("ADUMBRA_THREADS", "1")
    pursue(matrix, signals, atoms=3)
    assert seen == {threading.get_ident()}
    monkeypatch.setenv("ADUMBRA_THREADS", "2")
    pursue(matrix, signals, atoms=3)
    assert len(seen - {threading.get_ident()}) in (1, 2)
    monkeypatch.setenv("ADUMBRA_THREADS", "many")
    assert 1 <= pursuit._threads(None) <= 8
    monkeypatch.delenv("ADUMBRA_THREADS")
    assert pursuit._threads(None) == min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


# ---- where to stop


def test_a_signal_below_the_noise_level_gets_no_atom():
    matrix = dictionary(20, 30)
    signals = np.array([np.full(20, 0.1), np.full(20, 1.0)])
    for found in (
        pursue(matrix, signals, atoms=5, residual=0.3),
        pursue_gram(matrix.T @ matrix, signals @ matrix, np.sum(signals**2, axis=1), atoms=5, residual=0.3),
    ):
        assert found.used[0] == 0 and found.used[1] > 0
        assert found.residual[0] == pytest.approx(0.2)
    assert pursue_operator(MatrixOperator(matrix), signals[0], atoms=5, residual=0.3).used[0] == 0


@pytest.mark.parametrize("repeats", [1, 40])
def test_zero_signals_and_zero_columns(repeats):
    matrix = dictionary(12, 20)
    matrix[:, [0, 7]] = 0.0
    matrix[:, 3] *= 1e-200  # its square is no number any more
    _, signals = sparse_signals(matrix, repeats, 3, noise=0.5)
    signals = np.vstack([np.zeros(12), signals])
    found = pursue(matrix, signals, atoms=12)
    gram = pursue_gram(matrix.T @ matrix, signals @ matrix, atoms=12)
    for each in (found, gram):
        assert each.used[0] == 0 and not each.dense(20)[0].any()
        assert (each.used[1:] == 12).all()
        assert not np.isin(each.support, [0, 3, 7]).any()
    assert (found.residual < 1e-10).all()
    nothing = pursue(np.zeros((4, 6)), np.ones((repeats, 4)), atoms=3)
    assert not nothing.used.any() and (nothing.residual == 4).all()


@pytest.mark.parametrize("repeats", [1, 40])
def test_dependent_columns_are_not_chosen(repeats):
    """Three directions in six dimensions, however many columns there are."""
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(6, 3)) @ rng.normal(size=(3, 90))
    signals = rng.normal(size=(repeats, 6))
    found = pursue(matrix, signals, atoms=6)
    assert (found.used <= 3).all() and found.used.max() == 3
    gram = pursue_gram(matrix.T @ matrix, signals @ matrix, atoms=6)
    assert np.array_equal(found.support, gram.support)
    for s in range(repeats):
        assert np.linalg.matrix_rank(matrix[:, found.support[s, : found.used[s]]]) == found.used[s]
        best = signals[s] - matrix @ (np.linalg.pinv(matrix) @ signals[s])
        assert found.residual[s] == pytest.approx(best @ best, abs=1e-10)


def test_a_column_that_only_rounding_keeps_outside_the_span_ends_it():
    """The last two columns differ from the first by less than can be told; noise would make their numbers huge."""
    near = np.array([[1.0, 1.0, 1.0], [0.0, 1e-7, 0.0], [0.0, 0.0, 1e-7]])
    signal = np.array([0.0, 1.0, -0.5])
    for found in (
        pursue(near, signal[None], atoms=3),
        pursue(near, np.tile(signal, (5, 1)), atoms=3),
        pursue_gram(near.T @ near, signal[None] @ near, atoms=3),
        pursue_operator(MatrixOperator(near), signal, atoms=3),
    ):
        assert (found.used == 1).all() and (found.support[:, 0] == 1).all()
        assert np.abs(found.coefficients).max() < 1


def test_of_equal_columns_the_first_is_chosen():
    matrix = np.array([[0.0, 1.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    signals = np.tile([3.0, 3.0], (20, 1))
    found = pursue(matrix, signals, atoms=2)
    assert found.support.tolist() == [[1, 4]] * 20
    wide = np.zeros((2, 700))
    wide[0, [300, 301, 699]] = [-1, 1, 1]
    for count in (1, 100):  # without and with the Gram matrix
        assert (pursue(wide, signals[:1].repeat(count, 0), atoms=1).support == 300).all()
    assert pursue_gram(np.eye(5), np.array([[1.0, -2, 2, -2, 0]]), atoms=3).support.tolist() == [[1, 2, 3]]


def test_correlation_stops_at_what_noise_would_reach():
    matrix = dictionary(50, 120) * np.linspace(0.1, 5, 120)
    _, signals = sparse_signals(matrix, 1, 5, noise=0.02)
    lengths = np.linalg.norm(matrix, axis=0)
    full = pursue_operator(MatrixOperator(matrix), signals[0], atoms=20)
    used = set()
    for level in (1e9, 3.0, 1.0, 0.1, 0.05, 0.0):
        found = pursue_operator(MatrixOperator(matrix), signals[0], atoms=20, correlation=level)
        used.add(k := int(found.used[0]))
        assert found.support[0, :k].tolist() == full.support[0, :k].tolist()
        for done in range(k + 1):
            chosen = full.support[0, :done]
            code = np.linalg.lstsq(matrix[:, chosen], signals[0], rcond=None)[0]
            high = np.max(np.abs((signals[0] - matrix[:, chosen] @ code) @ matrix) / lengths)
            assert (high > level) if done < k else (high <= level or k == 20)
    assert {0, 20} < used


# ---- operators


class Waves:
    """Some rows of the inverse cosine transform: columns are waves seen at few places."""

    def __init__(self, width, places):
        self.places = places
        self.shape = (len(places), width)
        frequencies = np.arange(width)
        total = np.zeros(width)
        for place in places:
            total += np.cos(np.pi * (2 * place + 1) * frequencies / (2 * width)) ** 2
        total[0] /= 2
        self.lengths = np.sqrt(total * 2 / width)

    def correlate(self, residual):
        spread = np.zeros(self.shape[1])
        spread[self.places] = residual
        return dct(spread, norm="ortho")

    def column(self, atom):
        unit = np.zeros(self.shape[1])
        unit[atom] = 1.0
        return idct(unit, norm="ortho")[self.places]


def test_a_fast_transform_is_decoded_without_its_matrix():
    width, measurements, atoms = 2**13, 400, 30
    rng = np.random.default_rng(3)
    waves = Waves(width, np.sort(rng.choice(width, measurements, replace=False)))
    assert np.linalg.norm(waves.column(77)) == pytest.approx(waves.lengths[77])
    truth = rng.choice(width, atoms, replace=False)
    code = rng.normal(size=atoms) + rng.choice([-3, 3], atoms)
    signal = sum(c * waves.column(int(a)) for a, c in zip(truth, code, strict=True))
    steps = []
    tracemalloc.start()
    found = pursue_operator(waves, signal, atoms=60, progress=lambda *step: steps.append(step))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (3 * 60 * measurements + 12 * width) < 8 * width * measurements / 10
    k = int(found.used[0])
    assert k <= 60 and found.residual[0] < 1e-20
    dense = found.dense(width)[0]
    assert set(np.flatnonzero(np.abs(dense) > 1e-6)) == set(truth.tolist())
    assert np.allclose(dense[truth], code, atol=1e-8)
    assert steps == [("pursuit", done, 60) for done in range(1, k + 1)]


def test_an_operator_is_asked_as_little_as_possible():
    matrix = dictionary(30, 60)
    calls = []

    class Counted(MatrixOperator):
        def correlate(self, residual):
            calls.append("correlate")
            return super().correlate(residual)

        def column(self, atom):
            calls.append(atom)
            return super().column(atom)

    found = pursue_operator(Counted(matrix), np.arange(30.0), atoms=7)
    assert calls == [call for atom in found.support[0].tolist() for call in ("correlate", atom)]


def test_what_an_operator_is_asked_about_is_orthogonal_to_nearly_dependent_columns():
    """All columns within a ten-thousandth of one direction: one pass of Gram-Schmidt would lose digits."""
    matrix = dictionary(40, 60, shared=1e4)
    signal = np.random.default_rng(9).normal(size=40)
    worst = []

    class Watched(MatrixOperator):
        chosen: ClassVar[list[int]] = []

        def correlate(self, residual):
            products = super().correlate(residual)
            worst.extend(np.abs(products[self.chosen]) / np.linalg.norm(residual))
            return products

        def column(self, atom):
            self.chosen.append(atom)
            return super().column(atom)

    found = pursue_operator(Watched(matrix), signal, atoms=25)
    assert found.used[0] == 25 and len(worst) == 300
    assert max(worst) < 1e-13
    exact = np.linalg.lstsq(matrix[:, found.support[0]], signal, rcond=None)[0]
    assert np.allclose(found.coefficients[0], exact, rtol=1e-7)


# ---- arguments


EYE = np.eye(4)
WRONG = {
    "signals of another length": lambda: pursue(EYE, np.ones((2, 3)), atoms=1),
    "a signal that is no row": lambda: pursue(EYE, np.ones(4), atoms=1),
    "a matrix with one dimension": lambda: pursue(np.ones(4), np.ones((1, 4)), atoms=1),
    "no number in the matrix": lambda: pursue(np.full((4, 4), np.nan), np.ones((1, 4)), atoms=1),
    "no number in a signal": lambda: pursue(EYE, np.full((9, 4), np.inf), atoms=1),
    "text": lambda: pursue(np.full((4, 4), "a"), np.ones((1, 4)), atoms=1),
    "complex numbers": lambda: pursue(EYE, np.ones((1, 4), complex), atoms=1),
    "ragged rows": lambda: pursue([[1.0, 2.0], [3.0]], np.ones((1, 2)), atoms=1),
    "squares too large": lambda: pursue(EYE, np.full((1, 4), 1e200), atoms=1),
    "columns too long": lambda: pursue(EYE * 1e200, np.ones((9, 4)), atoms=1),
    "no atoms": lambda: pursue(EYE, np.ones((1, 4)), atoms=0),
    "half an atom": lambda: pursue(EYE, np.ones((1, 4)), atoms=1.5),
    "more atoms than measurements": lambda: pursue(np.ones((2, 9)), np.ones((1, 2)), atoms=3),
    "more atoms than columns": lambda: pursue(np.ones((9, 2)), np.ones((1, 9)), atoms=3),
    "a noise level below 0": lambda: pursue(EYE, np.ones((1, 4)), atoms=1, residual=-1.0),
    "a noise level that is none": lambda: pursue(EYE, np.ones((1, 4)), atoms=1, residual=float("nan")),
    "a noise level in words": lambda: pursue(EYE, np.ones((1, 4)), atoms=1, residual="low"),
    "no threads": lambda: pursue(EYE, np.ones((1, 4)), atoms=1, threads=0),
    "a Gram matrix that is not square": lambda: pursue_gram(np.ones((3, 4)), np.ones((1, 4)), atoms=1),
    "a Gram matrix that is not symmetric": lambda: pursue_gram(EYE + np.eye(4, k=1) / 2, np.ones((1, 4)), atoms=1),
    "a Gram matrix of no columns": lambda: pursue_gram(EYE + 2 * np.eye(4)[::-1], np.ones((1, 4)), atoms=1),
    "a negative length": lambda: pursue_gram(-EYE, np.ones((1, 4)), atoms=1),
    "products by columns": lambda: pursue_gram(EYE, np.ones((4, 1)), atoms=1),
    "a product that is no number": lambda: pursue_gram(EYE, np.array([[1, 2, 3, np.nan]]), atoms=1),
    "an infinite product": lambda: pursue_gram(EYE, np.array([[1, -np.inf, 3, 4]]), atoms=1),
    "more atoms than the Gram matrix": lambda: pursue_gram(EYE, np.ones((1, 4)), atoms=5),
    "a noise level without lengths": lambda: pursue_gram(EYE, np.ones((1, 4)), atoms=1, residual=1.0),
    "too few lengths": lambda: pursue_gram(EYE, np.ones((2, 4)), np.ones(1), atoms=1),
    "a length below 0": lambda: pursue_gram(EYE, np.ones((1, 4)), -np.ones(1), atoms=1),
    "an operator and another signal": lambda: pursue_operator(MatrixOperator(EYE), np.ones(3), atoms=1),
    "an operator and too many atoms": lambda: pursue_operator(MatrixOperator(EYE), np.ones(4), atoms=5),
    "an operator and no number": lambda: pursue_operator(MatrixOperator(EYE), np.full(4, np.nan), atoms=1),
    "a correlation below 0": lambda: pursue_operator(MatrixOperator(EYE), np.ones(4), atoms=1, correlation=-1),
    "an operator's wrong lengths": lambda: pursue_operator(Broken(lengths=np.ones(3)), np.ones(4), atoms=1),
    "an operator's negative lengths": lambda: pursue_operator(Broken(lengths=-np.ones(4)), np.ones(4), atoms=1),
    "an operator's wrong products": lambda: pursue_operator(Broken(products=np.ones(3)), np.ones(4), atoms=1),
    "an operator's lost products": lambda: pursue_operator(Broken(products=np.full(4, np.nan)), np.ones(4), atoms=1),
    "an operator's wrong column": lambda: pursue_operator(Broken(column=np.ones(3)), np.ones(4), atoms=1),
    "an operator's lost column": lambda: pursue_operator(Broken(column=np.full(4, np.nan)), np.ones(4), atoms=1),
    "fewer atoms than were found": lambda: pursue(EYE, np.eye(4)[3:], atoms=1).dense(3),
}


class Broken(MatrixOperator):
    def __init__(self, lengths=None, products=None, column=None):
        super().__init__(EYE)
        self.lengths = self.lengths if lengths is None else lengths
        self.products, self.vector = products, column

    def correlate(self, residual):
        return super().correlate(residual) if self.products is None else self.products

    def column(self, atom):
        return super().column(atom) if self.vector is None else self.vector


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case):
    with pytest.raises(InputError):
        WRONG[case]()


def test_a_bad_product_is_found_in_any_block_and_by_its_signal():
    products = np.ones((5 * pursuit.BLOCK, 6))
    products[3 * pursuit.BLOCK + 5, 2] = np.nan
    products[4 * pursuit.BLOCK, 0] = np.inf
    for threads in (1, 3):
        with pytest.raises(InputError, match=f"in signal {3 * pursuit.BLOCK + 5};"):
            pursue_gram(np.eye(6), products, atoms=2, threads=threads)


def test_arguments_are_left_alone_and_any_layout_will_do():
    matrix = dictionary(20, 40) * 3
    _, signals = sparse_signals(matrix, 30, 4, noise=0.1)
    kept = matrix.copy(), signals.copy()
    plain = pursue(matrix, signals, atoms=5)
    assert np.array_equal(matrix, kept[0]) and np.array_equal(signals, kept[1])
    assert same(plain, pursue(np.asfortranarray(matrix), np.repeat(signals, 2, axis=0)[::2], atoms=5))
    whole = np.rint(matrix * 100).astype(np.int64), np.rint(signals * 100).astype(np.int32)
    assert same(pursue(*whole, atoms=5), pursue(*(part.astype(float) for part in whole), atoms=5))
    gram, products = matrix.T @ matrix, signals @ matrix
    kept = gram.copy(), products.copy()
    found = pursue_gram(gram, products, atoms=5)
    assert np.array_equal(gram, kept[0]) and np.array_equal(products, kept[1])
    assert same(found, pursue_gram(np.asfortranarray(gram), np.asfortranarray(products), atoms=5))


def test_no_signals_give_an_empty_result():
    for found in (pursue(EYE, np.empty((0, 4)), atoms=2), pursue_gram(EYE, np.empty((0, 4)), atoms=2)):
        assert found.support.shape == found.coefficients.shape == (0, 2)
        assert found.used.shape == found.residual.shape == (0,)
        assert found.dense(4).shape == (0, 4)


def test_as_many_atoms_as_measurements_leave_nothing():
    matrix = dictionary(8, 8)
    signals = np.random.default_rng(0).normal(size=(50, 8))
    found = pursue(matrix, signals, atoms=8)
    assert np.allclose(found.dense(8) @ matrix.T, signals, atol=1e-9)
    assert (found.residual < 1e-12).all() and (found.residual >= 0).all()
