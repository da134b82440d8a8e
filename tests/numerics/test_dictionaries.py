"""Dictionaries against matrices written out in full, and the relations that hold at any size."""

from __future__ import annotations

import json
import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from adumbra.common.errors import InputError
from adumbra.numerics.dictionaries import LARGEST, NAMES, dictionary, rebuilt
from adumbra.numerics.fast_transforms import hadamard

FIXED = tuple(name for name in NAMES if name != "learnt")
SMALL = [(1,), (2,), (3,), (8,), (5, 7), (2, 2), (2, 3, 4), (2, 2, 3, 2), (1, 5, 1), (4, 1, 2), (2, 2, 2, 2, 2), (9, 2)]
LARGE = [(LARGEST,), (1 << 10, 1 << 10), (2,) * 20, (73, 16, 41, 15)]

shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
many = settings(max_examples=60, deadline=None, derandomize=True)


def cosines(size: int) -> np.ndarray:
    """Columns are the DCT-II functions, from their definition."""
    cells = np.arange(size)
    out = np.array([[math.cos(math.pi * (i + 0.5) * k / size) for k in range(size)] for i in cells])
    return out / np.sqrt((out**2).sum(axis=0))


def wavelets(size: int) -> np.ndarray:
    """Columns are the Haar functions, by the recursion: the coarser ones stretched, then the finest."""
    if size == 1:
        return np.ones((1, 1))
    half = wavelets(size // 2)
    return np.hstack([np.kron(half, [[1.0], [1.0]]), np.kron(np.eye(size // 2), [[1.0], [-1.0]])]) / math.sqrt(2)


def one_axis(name: str, size: int) -> np.ndarray:
    whole = 1 << (size - 1).bit_length()
    if name == "identity":
        return np.eye(size)
    if name == "dct":
        return cosines(size)
    if name == "haar":
        return wavelets(whole)[:size]
    return linalg.hadamard(whole)[:size] / math.sqrt(whole)


def written_out(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return reduce(np.kron, [one_axis(name, size) for size in shape])


def made(name: str, shape: tuple[int, ...]):
    """The dictionary of this name; a learnt one from numbers of no meaning."""
    if name != "learnt":
        return dictionary(name, shape)
    return dictionary(name, shape, np.random.default_rng(7).normal(size=(math.prod(shape), 6)))


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("name", FIXED)
def test_it_is_the_matrix_written_out(name, shape):
    phi, found = written_out(name, shape), dictionary(name, shape)
    assert (found.name, found.cells, found.atoms) == (name, *phi.shape)
    np.testing.assert_allclose(found.synthesis(np.eye(found.atoms)).T, phi, atol=1e-14)
    np.testing.assert_allclose(found.analysis(np.eye(found.cells)), phi, atol=1e-14)
    np.testing.assert_allclose(np.stack([found.atom(i) for i in range(found.atoms)], axis=1), phi, atol=1e-14)
    np.testing.assert_allclose(found.lengths, np.linalg.norm(phi, axis=0), atol=1e-14)


@many
@given(shapes, st.sampled_from(NAMES), st.integers(0, 2**32))
def test_analysis_is_the_transpose_of_synthesis(shape, name, seed):
    found = made(name, shape)
    rng = np.random.default_rng(seed)
    c, x = rng.normal(size=(2, 3, found.atoms)), rng.normal(size=(2, 3, found.cells))
    one = (found.synthesis(c) * x).sum(axis=-1)
    np.testing.assert_allclose(one, (c * found.analysis(x)).sum(axis=-1), atol=1e-11)


@many
@given(shapes, st.sampled_from(FIXED), st.integers(0, 2**32))
def test_what_was_taken_apart_can_be_put_together(shape, name, seed):
    found = dictionary(name, shape)
    x = np.random.default_rng(seed).normal(size=(2, found.cells))
    parts = found.analysis(x)
    np.testing.assert_allclose(found.synthesis(parts), x, atol=1e-12)
    np.testing.assert_allclose((parts**2).sum(axis=-1), (x**2).sum(axis=-1), rtol=1e-12)
    if found.atoms == found.cells:
        assert (found.lengths == 1).all()
        np.testing.assert_allclose(found.analysis(found.synthesis(x)), x, atol=1e-12)


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("name", FIXED)
def test_the_same_at_a_million_cells(name, shape):
    found = dictionary(name, shape)
    rng = np.random.default_rng(1)
    c, x = rng.normal(size=found.atoms), rng.normal(size=found.cells)
    parts = found.analysis(x)
    assert found.synthesis(c) @ x == pytest.approx(c @ parts, abs=1e-7)
    np.testing.assert_allclose(found.synthesis(parts), x, atol=1e-11)
    for index in (0, 1, found.atoms // 3, found.atoms - 1):
        unit = np.zeros(found.atoms)
        unit[index] = 1
        atom = found.atom(index)
        np.testing.assert_allclose(found.synthesis(unit), atom, atol=1e-13)
        assert atom @ x == pytest.approx(parts[index], abs=1e-9)
        assert np.linalg.norm(atom) == pytest.approx(found.lengths[index], abs=1e-11)
    assert (found.lengths**2).sum() == pytest.approx(found.cells)  # the trace of Phi Phi' = I


@pytest.mark.parametrize("shape", [(3,), (5, 7), (9, 2)], ids=str)
def test_atoms_of_no_cell_have_no_length(shape):
    """A solver divides by lengths: those of missing atoms must be exactly 0, not a small number."""
    found = dictionary("haar", shape)
    missing = np.array([not found.atom(i).any() for i in range(found.atoms)])
    assert missing.any() == (shape != (3,))
    assert (found.lengths[missing] == 0).all() and (found.lengths[~missing] > 0.1).all()
    assert (found.lengths <= 1).all()
    assert not found.analysis(np.ones(found.cells))[missing].any()


@pytest.mark.parametrize("name", NAMES)
def test_batches_are_their_signals(name):
    """Leading axes of any number and memory order, whole numbers, and empty batches; what is given stays as it was."""
    found = made(name, (3, 2, 2))
    rng = np.random.default_rng(3)
    for width, transform in ((found.cells, found.analysis), (found.atoms, found.synthesis)):
        given = rng.integers(-9, 9, size=(4, 2, width)).astype(float)
        kept = given.copy()
        out = transform(given)
        assert out.dtype == np.float64 and out.shape[:2] == (4, 2)
        for i in np.ndindex(4, 2):
            np.testing.assert_allclose(out[i], transform(given[i]), atol=1e-13)
        np.testing.assert_allclose(transform(np.asfortranarray(given)), out, atol=1e-13)
        np.testing.assert_allclose(transform(given[::-1, :, ::-1][::-1, :, ::-1]), out, atol=1e-13)
        np.testing.assert_allclose(transform(given.astype(np.int64)), out, atol=1e-13)
        assert transform(given[:0]).shape == (0, 2, out.shape[-1])
        assert (given == kept).all()
        out[...] = np.nan
        assert (given == kept).all()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_handed_out_can_change_it(name):
    found = made(name, (5,))
    before = found.atom(1).copy()
    found.atom(1)[:] = 7
    assert (found.atom(1) == before).all()
    with pytest.raises(ValueError, match="read-only"):
        found.lengths[0] = 7


@many
@given(st.lists(st.integers(1, 5), max_size=2), st.integers(0, 9), st.lists(st.integers(1, 5), max_size=2), st.data())
def test_hadamard_along_any_axis_is_exact(before, bits, after, data):
    shape = (*before, 1 << bits, *after)
    axis = len(before) - data.draw(st.sampled_from([0, len(shape)]))
    values = np.random.default_rng(bits).integers(-(2**53 >> bits), (2**53 >> bits) + 1, size=shape).astype(float)
    matrix = linalg.hadamard(1 << bits).astype(int)
    expected = np.moveaxis(np.tensordot(matrix, values.astype(int), axes=(1, len(before))), 0, len(before))
    backwards = values[..., ::-1].copy()[..., ::-1]  # not contiguous
    assert hadamard(values, axis) is values
    assert (values == expected).all()
    assert hadamard(backwards, axis) is backwards
    assert (backwards == expected).all()


@pytest.mark.parametrize("shape, axis", [((1 << 20,), 0), ((64, 1 << 14), 0), ((3, 1 << 15), 1), ((1 << 15, 3), 0)])
def test_hadamard_across_blocks_is_exact(shape, axis):
    """Axes longer than what is held in the cache, by single rows of the matrix and by doing it twice."""
    values = np.random.default_rng(5).integers(-8, 9, size=shape).astype(float)
    found = hadamard(values.copy(), axis)
    cells = np.arange(shape[axis])
    for row in (0, 1, 5, shape[axis] // 2, shape[axis] - 1, shape[axis] // 3):
        signs = 1.0 - 2.0 * (np.bitwise_count(cells & row) & 1)
        assert (np.take(found, row, axis) == np.tensordot(signs, values, axes=(0, axis))).all()
    assert (hadamard(found, axis) == values * shape[axis]).all()


def test_hadamard_of_nothing_and_refusals():
    assert hadamard(np.zeros((0, 4))).shape == (0, 4)
    assert hadamard(np.zeros((4, 0)), axis=0).shape == (4, 0)
    sealed = np.ones(4)
    sealed.flags.writeable = False
    for values, axis in [(np.ones(3), 0), (np.ones(0), 0), (np.ones(4, dtype=int), 0), (sealed, 0), ([1.0, 2.0], 0)]:
        with pytest.raises(InputError):
            hadamard(values, axis)
    with pytest.raises(InputError, match="axis 1"):
        hadamard(np.ones(4), 1)


def test_learnt_columns_have_length_one():
    matrix = np.array([[3.0, 0.0], [4.0, -2.0]])
    found = dictionary("learnt", (2,), matrix)
    np.testing.assert_allclose(found.synthesis(np.eye(2)), [[0.6, 0.8], [0.0, -1.0]], atol=1e-15)
    np.testing.assert_allclose(found.analysis(np.array([1.0, 1.0])), [1.4, -1.0], atol=1e-15)
    assert found.lengths.tolist() == [1, 1]
    matrix[:] = 7  # what was given is the caller's
    np.testing.assert_allclose(found.atom(0), [0.6, 0.8], atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_rebuilds_it(name):
    found = made(name, (3, 1, 4))
    recipe = json.loads(json.dumps(found.recipe()))
    matrix = found.synthesis(np.eye(found.atoms)).T.copy() if name == "learnt" else None
    again = rebuilt(recipe, matrix)
    x = np.random.default_rng(2).normal(size=12)
    assert (again.analysis(x) == found.analysis(x)).all()
    assert again.recipe() == recipe
    with pytest.raises(InputError):
        rebuilt(recipe | {"extra": 1}, matrix)
    with pytest.raises(InputError):
        rebuilt({"name": name}, matrix)


def test_a_recipe_refuses_another_matrix():
    matrix = np.random.default_rng(4).normal(size=(12, 5))
    recipe = dictionary("learnt", (3, 4), matrix).recipe()
    assert set(recipe) == {"name", "shape", "sha256"}
    rebuilt(recipe, matrix)  # before it was normalised
    changed = matrix.copy()
    changed[0, 0] = np.nextafter(changed[0, 0], 9) * (1 + 1e-12)
    exchanged = matrix / np.linalg.norm(matrix, axis=0)
    exchanged[[10, 11]] = exchanged[[11, 10]]
    for other in (changed, exchanged, matrix[:, ::-1], matrix[::-1], None):
        with pytest.raises(InputError):
            rebuilt(recipe, other)


@pytest.mark.parametrize(
    "name, shape, matrix",
    [
        ("fourier", (4,), None),
        ("dct", (), None),
        ("dct", (0, 3), None),
        ("dct", (2.5,), None),
        ("haar", (LARGEST, 2), None),
        ("learnt", (4,), None),
        ("haar", (4,), np.eye(4)),
        ("learnt", (4,), np.eye(3)),
        ("learnt", (4,), np.ones(4)),
        ("learnt", (4,), np.ones((4, 0))),
        ("learnt", (2,), np.array([[1.0, 0.0], [1.0, 0.0]])),
        ("learnt", (2,), np.array([[1.0, np.nan], [1.0, 0.0]])),
    ],
)
def test_what_is_not_a_dictionary_is_refused(name, shape, matrix):
    with pytest.raises(InputError):
        dictionary(name, shape, matrix)


@pytest.mark.parametrize("name", NAMES)
def test_signals_of_another_size_are_refused(name):
    found = made(name, (3, 4))
    for wrong in (np.ones(found.cells + 1), np.ones((found.cells, 2)), np.float64(1)):
        with pytest.raises(InputError, match="12 cells"):
            found.analysis(wrong)
    with pytest.raises(InputError, match="coefficients"):
        found.synthesis(np.ones(found.atoms - 1))
    for index in (-1, found.atoms):
        with pytest.raises(InputError, match="an atom from 0"):
            found.atom(index)
