"""Dictionaries learnt from public signals: planted atoms are found, real histograms need fewer of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adumbra.common.errors import InputError
from adumbra.models import dictionary_learning as learnt
from adumbra.models.dictionary_learning import learn_dictionary, training_signals
from adumbra.numerics.dictionaries import dictionary
from adumbra.numerics.pursuit import pursue


def unit(columns: np.ndarray) -> np.ndarray:
    return columns / np.linalg.norm(columns, axis=0)


def planted(seed: int, cells: int = 16, atoms: int = 24, signals: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """A dictionary, and signals of two of its atoms each with a little noise."""
    rng = np.random.default_rng(seed)
    phi = unit(rng.normal(size=(cells, atoms)))
    weights = np.zeros((signals, atoms))
    for row in weights:
        row[rng.choice(atoms, 2, replace=False)] = rng.choice([-1, 1], 2) * rng.uniform(0.5, 1.5, 2)
    return phi, weights @ phi.T + 0.01 * rng.normal(size=(signals, cells))


def error(atoms: np.ndarray, signals: np.ndarray, sparsity: int) -> float:
    return float(pursue(atoms, signals, atoms=sparsity).residual.sum())


def test_planted_atoms_are_found():
    """Most of them: a search like this ends with some pairs of atoms mixed, other ones from other starts."""

    def found(rounds: int) -> list[float]:
        shares = []
        for seed in range(4):
            phi, signals = planted(seed)
            atoms = learn_dictionary(signals, 24, 2, rounds=rounds, seed=seed)
            shares.append((np.abs(phi.T @ atoms).max(axis=1) > 0.99).mean())
        return shares

    assert np.mean(found(0)) < 0.1
    assert np.mean(found(30)) > 0.75


@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (12, 12)], ids=str)
@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_never_worse_than_the_start(shape, rounds):
    signals = np.random.default_rng(3).exponential(size=shape)
    start = learn_dictionary(signals, 10, 3, rounds=0)
    rows = {tuple(row.round(9)) for row in unit(signals.T).T}
    assert all(tuple(column.round(9)) in rows for column in start.T)
    atoms = learn_dictionary(signals, 10, 3, rounds=rounds)
    assert atoms.shape == (shape[1], 10) and atoms.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)
    assert error(atoms, signals, 3) <= error(start, signals, 3) * (1 + 1e-9)
    if rounds == 7:
        assert error(atoms, signals, 3) < 0.9 * error(start, signals, 3)


def test_the_best_round_is_the_one_returned(monkeypatch):
    """A round that makes things worse is not what comes back."""
    signals = np.random.default_rng(4).normal(size=(40, 8))
    turned = learnt._turned
    rounds = []

    def spoilt(atoms, rows, weights, left):
        rounds.append(1)
        out = turned(atoms, rows, weights, left)
        return out if len(rounds) < 3 else np.repeat(out[:1], len(out), axis=0)

    expected = learn_dictionary(signals, 12, 2, rounds=2)
    monkeypatch.setattr(learnt, "_turned", spoilt)
    np.testing.assert_allclose(learn_dictionary(signals, 12, 2, rounds=5), expected, atol=1e-12)


def test_a_round_of_turns_describes_the_signals_better_by_the_same_atoms():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(80, 9))
    atoms = unit(rng.normal(size=(9, 6))).T
    weights = pursue(atoms.T, rows, atoms=2).dense(6)
    used = weights != 0
    left = rows - weights @ atoms
    before = (left**2).sum()
    turned = learnt._turned(atoms, rows, weights, left)
    np.testing.assert_allclose(left, rows - weights @ turned, atol=1e-12)
    assert (left**2).sum() < 0.95 * before
    np.testing.assert_allclose(left[used[:, 5]] @ turned[5], 0, atol=1e-12)  # no better weight of the last one
    assert not weights[~used].any()


def test_unused_atoms_become_the_signals_described_worst():
    """Fifty times the same signal at the start leaves two of three atoms unused."""
    signals = np.vstack([np.tile([1.0, 0, 0, 0], (50, 1)), [[0, 0.1, 0, 0], [0, 0, 5, 0], [0, 0, 0, 3]]])
    found = learn_dictionary(signals, 3, 1, rounds=1)
    assert learn_dictionary(signals, 3, 1, rounds=0).argmax(axis=0).tolist() == [0, 0, 0]
    np.testing.assert_allclose(found, np.eye(4)[:, [0, 2, 3]], atol=1e-12)


def test_the_same_arguments_give_the_same_atoms():
    _, signals = planted(6, signals=200)
    kept = signals.copy()
    once = learn_dictionary(signals, 20, 2, rounds=3)
    assert (learn_dictionary(signals, 20, 2, rounds=3, seed=0) == once).all()
    assert not (learn_dictionary(signals, 20, 2, rounds=3, seed=1) == once).all()
    assert (signals == kept).all()


def test_few_signals_of_many_cells_are_learnt_in_their_span():
    """A rotation into more cells than signals rotates the atoms, and changes nothing else."""
    rng = np.random.default_rng(7)
    signals = rng.normal(size=(40, 12))
    turn = np.linalg.qr(rng.normal(size=(300, 12)))[0]
    small = learn_dictionary(signals, 15, 3, rounds=4)
    np.testing.assert_allclose(learn_dictionary(signals @ turn.T, 15, 3, rounds=4), turn @ small, atol=1e-8)


def test_zero_signals_are_ignored():
    signals = np.random.default_rng(8).normal(size=(9, 5))
    with_zeros = np.insert(signals, [0, 4, 9], 0.0, axis=0)
    assert (learn_dictionary(with_zeros, 6, 2) == learn_dictionary(signals, 6, 2)).all()


@pytest.mark.parametrize(
    "signals, atoms, sparsity",
    [
        (np.ones(4), 1, 1),
        (np.full((3, 3), np.nan), 2, 1),
        (np.eye(3), 4, 1),
        (np.diag([1.0, 1.0, 0.0]), 3, 1),
        (np.eye(3), 0, 1),
        (np.eye(3), 2, 3),
        (np.ones((9, 2)), 5, 3),
        (np.eye(3), 2, 0),
    ],
)
def test_what_cannot_be_learnt_is_refused(signals, atoms, sparsity):
    with pytest.raises(InputError):
        learn_dictionary(signals, atoms, sparsity)


def by_hand(cells, counts, domain, least):
    """The same histograms, one row at a time."""
    shape = [counts[c] for c in domain]
    whole, parts = np.zeros(shape), {}
    for row in cells.tolist():
        place = tuple(row[c] for c in domain)
        if min(place) < 0:
            continue
        whole[place] += 1
        for column in set(range(len(counts))) - set(domain):
            if row[column] >= 0:
                parts.setdefault((column, row[column]), np.zeros(shape))[place] += 1
    found = [whole, *(parts[key] for key in sorted(parts) if parts[key].sum() >= least)]
    return np.array([h.ravel() / np.sqrt((h**2).sum()) for h in found])


@pytest.mark.parametrize("domain", [(0,), (2, 0), (0, 2), (1, 3, 2), (0, 1, 2, 3)], ids=str)
def test_training_signals_are_the_conditional_histograms(domain):
    rng = np.random.default_rng(9)
    counts = (4, 3, 5, 2)
    cells = np.column_stack([rng.integers(-1, n, size=150) for n in counts])
    cells[:, 1] = np.where(rng.random(150) < 0.8, 0, cells[:, 1])  # so that some cells have too few rows
    for least in (1, 20, 40):
        found = training_signals(cells, counts, domain, least)
        np.testing.assert_allclose(found, by_hand(cells, counts, domain, least), atol=1e-14)
    np.testing.assert_allclose(training_signals(cells, counts, domain), by_hand(cells, counts, domain, 20), atol=1e-14)


def test_the_number_of_rows_that_counts_is_of_rows_in_the_domain():
    """Nineteen of twenty-one rows have a cell in the domain: too few; with one more they are enough."""
    cells = np.zeros((21, 2), dtype=int)
    cells[:2, 0] = -1
    assert training_signals(cells, (3, 2), (0,)).tolist() == [[1, 0, 0]]
    assert training_signals(cells[1:], (3, 2), (0,)).shape == (1, 3)
    assert training_signals(np.vstack([cells, cells[2:3]]), (3, 2), (0,)).shape == (2, 3)


@pytest.mark.parametrize(
    "cells, counts, domain",
    [
        (np.zeros((5, 2)), (3, 2), (0,)),
        (np.zeros((5, 2), dtype=int), (3,), (0,)),
        (np.zeros(5, dtype=int), (3,), (0,)),
        (np.zeros((5, 2), dtype=int), (3, 0), (0,)),
        (np.full((5, 2), 2), (3, 2), (0,)),
        (np.full((5, 2), -2), (3, 2), (0,)),
        (np.zeros((5, 2), dtype=int), (3, 2), ()),
        (np.zeros((5, 2), dtype=int), (3, 2), (0, 0)),
        (np.zeros((5, 2), dtype=int), (3, 2), (2,)),
        (np.zeros((5, 2), dtype=int), (3, 2), (-1,)),
        (np.zeros((0, 2), dtype=int), (3, 2), (0,)),
        (np.full((5, 2), -1), (3, 2), (0,)),
        (np.zeros((5, 2), dtype=int), (1 << 20, 2), (0, 1)),
        (np.arange(400).reshape(-1, 2).repeat(20, axis=0), (1 << 20, 400), (0,)),
    ],
)
def test_cells_that_make_no_histogram_are_refused(cells, counts, domain):
    with pytest.raises(InputError):
        training_signals(cells, counts, domain)


EDUCATION = [
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college"),
    *("Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
]


def adult(path) -> tuple[np.ndarray, tuple[int, ...]]:
    """Age and education, in their order, and eight more columns."""
    table = pl.read_csv(path / "adult.csv.gz")
    columns = [np.clip(table["age"].to_numpy() - 17, 0, 73), np.array([EDUCATION.index(x) for x in table["education"]])]
    for name in ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "income"):
        columns.append(np.unique(table[name].to_numpy().astype(str), return_inverse=True)[1])
    columns.append(np.clip(table["hours_per_week"].to_numpy() // 5, 0, 19))
    cells = np.column_stack(columns).astype(np.int64)
    return cells, (74, 16, *(int(cells[:, j].max()) + 1 for j in range(2, cells.shape[1])))


def atoms_needed(name: str, shape, signal: np.ndarray, share: float, matrix: np.ndarray | None = None) -> int:
    """Atoms until what is left is this share of the squared length; one more than 100 if they do not do."""
    found = dictionary(name, shape, matrix)
    most = min(100, found.atoms)
    code = pursue(found.synthesis(np.eye(found.atoms)).T, signal[None], atoms=most, residual=share * signal @ signal)
    return int(code.used[0]) if code.residual[0] <= share * signal @ signal else 101


def test_another_half_of_adult_needs_fewer_learnt_atoms(shared_data):
    """Age by education, from rows of other people; also where the public rows are all of women, the private of men."""
    cells, counts = adult(shared_data)
    halves = np.random.default_rng(11).permutation(len(cells)) % 2 == 0
    women = cells[:, 7] == cells[:, 7].min()
    assert 0.3 < women.mean() < 0.4
    for public, share in ((halves, 0.05), (women, 0.10)):
        signals = training_signals(cells[public], counts, (0, 1))
        atoms = learn_dictionary(signals, len(signals) // 2, 6, rounds=10)
        private = training_signals(cells[~public][:, :2], counts[:2], (0, 1))[0]
        learnt_ones = atoms_needed("learnt", (74, 16), private, share, atoms)
        fixed = [atoms_needed(name, (74, 16), private, share) for name in ("dct", "identity")]
        assert learnt_ones <= 5
        assert min(fixed) >= 5 * learnt_ones


def test_histograms_given_a_column_not_seen_need_fewer_too(shared_data):
    """Six atoms, learnt without occupation, describe the occupations of the other half far better than six others."""
    cells, counts = adult(shared_data)
    halves = np.random.default_rng(12).permutation(len(cells)) % 2 == 0
    seen = [j for j in range(len(counts)) if j != 4]
    signals = training_signals(cells[halves][:, seen], [counts[j] for j in seen], (0, 1))
    private = training_signals(cells[~halves][:, [0, 1, 4]], [counts[j] for j in (0, 1, 4)], (0, 1))[1:]
    assert len(private) > 10
    learnt_ones = error(learn_dictionary(signals, len(signals) // 2, 6), private, 6)
    for name in ("dct", "haar", "identity"):
        found = dictionary(name, (74, 16))
        assert learnt_ones < 0.5 * error(found.synthesis(np.eye(found.atoms)).T, private, 6)
