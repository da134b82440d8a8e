"""Random sketches: no row moves one further than its bound, by the search over all pairs or by formula; sums are exact.

The formulas are for sketches too large to search. Here they are forced upon small ones, where the search can tell.
Sketches are made anew in each test: bounds are remembered by the object.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adumbra.privacy.strategy_sensitivity
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Relation
from adumbra.numerics.seeded_sensing import gains_of, sensing
from adumbra.numerics.sensing import KINDS, DenseSensing, FourierSensing, Hadamard, SparseSigns
from adumbra.numerics.strategies import padded
from adumbra.privacy.strategy_sensitivity import moves
from tests.numerics.test_strategies import columns, moved
from tests.repeatable import repeatable  # noqa: F401

WEIGHTS = {"equal": (), "two": (3.0, 1.0), "many": (1.0, 0.02, 0.5, 0.31, 0.9), "lone": (1.0, *[0.001] * 15)}
# limits of the searches, forced down so that a sketch is bounded by formula
WAYS = {
    "search": {},
    "formula": {"_ALL_PAIRS": 0},
    "formula, entries not looked up": {"_ALL_PAIRS": 0, "_LOOKED_UP": 0},
    "formula, no products": {"_ALL_PAIRS": 0, "_PRODUCTS": 0},
}
# of the bound for a replaced row, the part that some pair of 100 cells reaches with 40 sums: L1, L2; rounded down
REACHED = {
    ("signs", "formula"): (1.0, 1.0),
    ("gaussian", "formula"): (0.82, 1.0),
    ("hadamard", "formula"): (1.0, 1.0),
    ("fourier", "formula"): (0.88, 0.999),
    ("sparse-signs", "formula"): (1.0, 0.93),
    ("signs", "formula, no products"): (0.82, 0.9),
    ("gaussian", "formula, no products"): (0.82, 0.87),
}


def key(name) -> bytes:
    return hashlib.sha256(str(name).encode()).digest()


def shares(sketch, way) -> dict[tuple[Relation, str], float]:
    """The part of each bound that some row reaches, by looking at all of them; none may exceed it."""
    found = moved(columns(sketch))
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in WAYS[way].items():
            patch.setattr(adumbra.privacy.strategy_sensitivity, name, limit)
        adumbra.privacy.strategy_sensitivity._FOUND.clear()
        most = moves(sketch)
    adumbra.privacy.strategy_sensitivity._FOUND.clear()
    out = {}
    for (relation, norm), size in found.items():
        stated = most.of(relation, norm)
        assert size <= stated * (1 + 1e-12), f"{size:.9g} moved, {stated:.9g} stated: {relation}, {norm}, {way}"
        out[relation, norm] = size / stated
    return out


def drawn(kind, weights="equal", cells=100, numbers=40):
    return sensing(kind, key(kind), cells, numbers, weights=WEIGHTS[weights])


# ---- how far a row moves them


@pytest.mark.parametrize("weights", list(WEIGHTS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_over_all_pairs_is_exact(kind, weights):
    assert min(shares(drawn(kind, weights), "search").values()) >= 1 - 1e-12


@pytest.mark.parametrize("way", [way for way in WAYS if way != "search"])
@pytest.mark.parametrize("weights", list(WEIGHTS))
@pytest.mark.parametrize("kind", KINDS)
def test_formulas_hold_and_come_as_near_as_stated(kind, weights, way):
    found = shares(drawn(kind, weights), way)
    looked_up = kind != "fourier" or "looked up" not in way
    for norm in ("l1", "l2"):
        assert found[Relation.ADD_REMOVE, norm] >= (1 - 1e-12 if looked_up else 0.6)
    if weights == "equal":
        l1, l2 = REACHED.get((kind, way), REACHED[kind, "formula"])
        reached = found[Relation.REPLACE, "l1"], found[Relation.REPLACE, "l2"]
        assert reached[0] >= l1 * (1 - 2e-9) and reached[1] >= l2 * (1 - 2e-9), reached


@settings(max_examples=40, deadline=None, derandomize=True, report_multiple_bugs=False)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 24))
def test_no_sketch_of_any_size_exceeds_its_bound(seed, cells, numbers):
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        if kind == "fourier" and cells < 3:
            continue
        weights = rng.uniform(
            0.001, 1.0, int(rng.integers(0, min(numbers, padded(cells)[0], 2 * ((cells - 1) // 2)) + 1))
        )
        sketch = sensing(kind, key(seed), cells, numbers, nonzeros=int(rng.integers(1, 6)), weights=weights)
        for way in WAYS:
            if kind != "hadamard" or cells > 1 or way == "search":
                shares(sketch, way)


def wild(kind, rng):
    """A sketch whose signs and weights are not drawn as the library would: few signs, one large weight, all alike."""
    cells, numbers = int(rng.integers(2, 34)), int(rng.integers(1, 12))
    gains = rng.choice([1, 2, 1000, 1024], numbers) if rng.random() < 0.7 else np.ones(numbers, dtype=np.int64)
    gains[0] = max(gains[0], gains.max())
    flips = rng.choice([-1, 1], cells, p=[0.1, 0.9]) if rng.random() < 0.5 else np.ones(cells, dtype=np.int64)
    if kind == "signs":
        matrix = rng.choice([-1, 1], (numbers, cells), p=[0.2, 0.8]).astype(np.int32)
        return DenseSensing(matrix, 1 / math.sqrt(numbers), kind, gains)
    if kind == "gaussian":  # columns of all lengths
        return DenseSensing(rng.integers(-300, 300, (numbers, cells)).astype(np.int32), 0.01, kind, gains)
    if kind == "hadamard":
        size = padded(cells)[0]
        rows = np.sort(rng.permutation(size)[: min(numbers, size)])
        return Hadamard(cells, rows, flips, gains[: len(rows)])
    if kind == "fourier":
        most = max(1, (cells - 1) // 2)
        frequencies = 1 + np.sort(rng.permutation(most)[: min(numbers, most)])
        return FourierSensing(
            max(cells, 3), frequencies, np.resize(flips, max(cells, 3)), np.resize(gains, 2 * len(frequencies))
        )
    q = int(rng.integers(1, numbers + 1))
    places = np.array([np.sort(rng.permutation(numbers)[:q]) for _ in range(cells)])
    places[1] = places[0]
    signs = rng.choice([-1, 1], (cells, q))
    signs[1] = -signs[0]  # the worst pair there can be
    return SparseSigns(cells, numbers, places, signs, gains)


@pytest.mark.parametrize("kind", KINDS)
def test_no_sketch_of_any_signs_and_weights_exceeds_its_bound(kind):
    """Also those that nobody would draw: two sparse columns of opposite signs, one weight for all, no signs."""
    rng = np.random.default_rng(11)
    best = 0.0
    for _ in range(40):
        sketch = wild(kind, rng)
        for way in WAYS:
            found = shares(sketch, way)
            best = max(best, min(found.values())) if way == "formula" else best
    assert best >= (0.6 if kind == "fourier" else 0.999 if kind != "gaussian" else 0.9)


def test_a_pair_of_sparse_columns_can_be_twice_as_far_apart_as_they_are_long():
    """Same places, opposite signs: not sqrt(2), which is for columns without a common place."""
    places, signs = np.array([[0, 3], [0, 3], [1, 2]]), np.array([[1, 1], [-1, -1], [1, 1]])
    sketch = SparseSigns(3, 4, places, signs, np.ones(4, dtype=np.int64))
    for way in ("search", "formula"):
        assert shares(sketch, way)[Relation.REPLACE, "l2"] == pytest.approx(1.0, rel=1e-12)
    assert moved(columns(sketch))[Relation.REPLACE, "l2"] == pytest.approx(2.0)


def test_all_rows_of_a_hadamard_matrix_have_the_bound_of_orthogonal_columns():
    """Nothing is left of the maximum: any two columns are orthogonal, sqrt(2) apart."""
    sketch = sensing("hadamard", key("all"), 16, 16)
    assert shares(sketch, "formula")[Relation.REPLACE, "l2"] == pytest.approx(1.0)
    assert moves(sketch).two_l2 == pytest.approx(math.sqrt(2))
    adumbra.privacy.strategy_sensitivity._FOUND.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_makes_a_row_count_less(kind):
    """Weights of 1 and less never raise a bound, and lower it."""
    equal, weighted = (moves(drawn(kind, weights)) for weights in ("equal", "two"))
    for relation in (Relation.ADD_REMOVE, Relation.REPLACE):
        assert weighted.of(relation, "l1") < 0.8 * equal.of(relation, "l1")


def test_large_sketches_are_bounded_by_formula_and_in_time():
    """At sizes that are used, the formula is nearly sqrt(2) or 2 times one column."""
    for kind, least, most in (("hadamard", 1.41, 1.6), ("fourier", 1.41, 1.7), ("sparse-signs", 2.0, 2.0)):
        found = moves(sensing(kind, key("large"), 2**13, 512))
        assert found.one_l2 == pytest.approx(1.0, abs=1e-2)
        assert least <= found.two_l2 <= most * (1 + 1e-2), (kind, found)
    adumbra.privacy.strategy_sensitivity._FOUND.clear()


# ---- what they measure


@pytest.mark.parametrize("weights", list(WEIGHTS))
@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_apply_a_sketch_agree(kind, weights):
    """Whole sums, columns, the map for decoders and its transpose."""
    sketch = drawn(kind, weights)
    rng = np.random.default_rng(0)
    counts, sums = rng.poisson(3, 100).astype(float), rng.normal(size=sketch.numbers)
    exact = sketch.exact(counts)
    listed = sketch.columns(np.arange(100)) * (sketch.unit * sketch.weights)[:, None]
    assert np.array_equal(exact, np.rint(exact)) and sketch.cells == 100
    assert np.allclose(columns(sketch).T, listed, rtol=1e-12)
    assert np.allclose(exact * sketch.step, listed @ counts, rtol=1e-9)
    assert np.allclose(exact * sketch.step, sketch.forward(counts), atol=2e-3)
    assert sketch.forward(counts) @ sums == pytest.approx(counts @ sketch.adjoint(sums), rel=1e-5)
    assert np.abs(columns(sketch) / sketch.step).max() <= sketch.largest


@pytest.mark.parametrize("kind", KINDS)
def test_columns_have_length_one(kind):
    sketch = drawn(kind)
    lengths = np.linalg.norm(columns(sketch), axis=1)
    assert np.allclose(lengths, 1.0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_follows_from_its_key(kind):
    one, same, other = (sensing(kind, key(name), 50, 12) for name in ("a", "a", "b"))
    assert np.array_equal(columns(one), columns(same)) and not np.array_equal(columns(one), columns(other))
    balance = columns(sensing(kind, key("a"), 300, 40))
    assert abs(np.sign(balance).sum()) < 6 * math.sqrt(np.count_nonzero(balance))


def test_no_row_and_no_place_is_drawn_twice():
    """The formulas rest on it."""
    for seed in range(5):
        assert len(np.unique(sensing("hadamard", key(seed), 50, 40).rows)) == 40
        frequencies = sensing("fourier", key(seed), 50, 40).frequencies
        assert len(np.unique(frequencies)) == 20 and frequencies.min() >= 1 and frequencies.max() <= 24
        places = sensing("sparse-signs", key(seed), 50, 7, nonzeros=3).places
        assert all(len(set(row)) == 3 for row in places.tolist()) and places.min() >= 0 and places.max() <= 6
    assert sensing("hadamard", key(0), 5, 100).numbers == 8
    assert sensing("fourier", key(0), 5, 100).numbers == 4
    assert sensing("sparse-signs", key(0), 5, 2, nonzeros=9).places.shape == (5, 2)


def test_arrays_of_a_sketch_cannot_be_changed():
    """Its bound is remembered."""
    for kind in KINDS:
        for value in vars(drawn(kind)).values():
            assert not (isinstance(value, np.ndarray) and value.flags.writeable), kind


def test_weights_are_spread_over_the_rows_and_the_largest_is_one():
    assert gains_of((), 3).tolist() == [1, 1, 1] == gains_of((0.7, 0.7), 3).tolist()
    assert gains_of((2.0, 1.0), 5).tolist() == [1024, 1024, 1024, 512, 512]
    assert gains_of((1.0, 1e-9), 2).tolist() == [1024, 1]
    sketch = sensing("signs", key(0), 4, 4, weights=(2.0, 1.0))
    assert sketch.weights.tolist() == [1.0, 1.0, 0.5, 0.5]
    assert np.abs(columns(sketch)).tolist() == [[0.5, 0.5, 0.25, 0.25]] * 4


@pytest.mark.parametrize("weights", [(-1.0,), (0.0, 1.0), (math.nan,), (math.inf, 1.0), (1.0,) * 9])
def test_weights_that_make_no_sense_are_refused(weights):
    with pytest.raises(InputError, match="weights"):
        sensing("hadamard", key(0), 20, 8, weights=weights)


def test_a_sketch_that_cannot_be_drawn_is_refused():
    for kind in ("signs", "gaussian"):
        with pytest.raises(InputError, match="held in memory"):
            sensing(kind, key(0), 2**20, 65)
    with pytest.raises(InputError, match="3 cells"):
        sensing("fourier", key(0), 2, 2)
