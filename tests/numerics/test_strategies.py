"""Strategies for counts: no row moves one further than its bound, worst pairs reach it, answers are exact.

Everything is measured on the whole numbers that `exact` returns for counts, times their step, or on what meets the
noise at the door. Strategies are made anew in each test, as bounds are remembered by the object. More about sketches:
tests/numerics/test_sensing.py.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import adumbra.queries.histograms
from adumbra.accounting import calibrate
from adumbra.audit.choices import log_chances
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, COUNT_STEPS, GRID, HALF, Space
from adumbra.noise import add as noise
from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.strategies import Haar, Identity, Tree, Waves, padded, rebuilt
from adumbra.privacy import sensitivity
from adumbra.privacy.meter import Meter, calibrated
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.histograms import HistogramQuery, TailChoice, TailSize
from tests.queries.test_sums import ask, empty_row, has_scale, residuals, space_of
from tests.repeatable import repeatable  # noqa: F401

ADD_REMOVE = Neighbours(Unit.ROW, Relation.ADD_REMOVE)
REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)
KEY = b"strategies of tests".ljust(32, b".")
SEPARABLE = {
    "identity": Identity,
    "haar": Haar,
    "tree of 2": lambda shape: Tree(shape, 2),
    "tree of 3": lambda shape: Tree(shape, 3),
    "tree of 16": lambda shape: Tree(shape, 16),
    "haar, first axis plain": lambda shape: Haar(shape, (0,)),
    "tree of 3, last axis plain": lambda shape: Tree(shape, 3, (len(shape) - 1,)),
    "haar, first axis with a cell apart": lambda shape: Haar(shape, (), longer(shape)[:1]),
    "tree of 2, all axes with a cell apart": lambda shape: Tree(shape, 2, (), longer(shape)),
    "tree of 3, a cell apart, last axis plain": lambda shape: Tree(shape, 3, (len(shape) - 1,), longer(shape[:-1])),
}
SHAPES = [(1,), (2,), (3,), (8,), (9,), (33,), (1, 1), (2, 1, 3), (4, 4), (5, 6), (2, 2, 2), (3, 4, 5), (17, 3)]


def longer(shape) -> tuple[int, ...]:
    """Axes that have a cell to set apart."""
    return tuple(axis for axis, cells in enumerate(shape) if cells > 1)


def domain(*counts) -> tuple[Groups, Space]:
    """A domain of categories, one for each count."""
    space = space_of(*(f"category:{n}" for n in counts))
    return Groups(Cells.even(space.blocks, 1)), space


def columns(strategy) -> np.ndarray:
    """What a row of each cell adds, a line for each cell, from the whole numbers that a count of one gives."""
    whole = [strategy.exact(count) for count in np.eye(strategy.cells)]
    assert all(np.array_equal(answer, np.rint(answer)) and answer.shape == (strategy.numbers,) for answer in whole)
    return np.array(whole) * strategy.step


def moved(found) -> dict[tuple[Relation, str], float]:
    """The most that a row can do, by looking at all cells, all pairs of cells, and at no cell."""
    out = {}
    there = np.vstack([found, np.zeros(found.shape[1])])
    for norm, order in (("l1", 1), ("l2", 2)):
        out[Relation.ADD_REMOVE, norm] = float(np.linalg.norm(found, order, axis=1).max())
        out[Relation.REPLACE, norm] = max(float(np.linalg.norm(there - row, order, axis=1).max()) for row in there)
    return out


def bounds_of(strategy) -> dict[tuple[Relation, str], float]:
    """What the library says, through the question."""
    groups, space = domain(strategy.cells)
    query = HistogramQuery(groups, strategy)
    return {
        (relation, norm): sensitivity.sensitivity(query, space, Neighbours(Unit.ROW, relation), norm)
        for relation in (Relation.ADD_REMOVE, Relation.REPLACE)
        for norm in ("l1", "l2")
    }


def share_reached(strategy) -> dict[tuple[Relation, str], float]:
    """Of each bound, the part that some row reaches; none may exceed it."""
    most, found = bounds_of(strategy), moved(columns(strategy))
    for case, size in found.items():
        assert size <= most[case], f"{size:.9g} moved, {most[case]:.9g} stated: {case}"
    return {case: size / most[case] for case, size in found.items()}


# ---- no row exceeds the bound, and some row reaches it


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", list(SEPARABLE))
def test_no_row_exceeds_the_bound_and_one_reaches_it(name, shape):
    """Counts, wavelets and trees: the formulas are exact, for both norms, added rows and replaced ones."""
    shares = share_reached(SEPARABLE[name](shape))
    assert min(shares.values()) >= 1 - 2e-9, shares


@settings(max_examples=25, deadline=None, derandomize=True, report_multiple_bugs=False)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["tree", "plain", "apart"])), min_size=1, max_size=3),
    st.integers(2, 9),
)
def test_bounds_are_exact_for_any_shape(axes, branching):
    """Of up to three axes, some of them plain, some with a cell apart."""
    shape = tuple(n + (what == "apart") for n, what in axes)
    plain, apart = (tuple(a for a, (_, what) in enumerate(axes) if what == wanted) for wanted in ("plain", "apart"))
    for strategy in (Identity(shape), Haar(shape, plain, apart), Tree(shape, branching, plain, apart)):
        assert min(share_reached(strategy).values()) >= 1 - 2e-9, strategy


@pytest.mark.parametrize("shape", [s for s in SHAPES if max(s) > 1], ids=str)
def test_the_first_and_the_last_cell_are_the_worst_pair(shape):
    """They lie in different halves, and under different children of the root, on every axis."""
    levels = [padded(n)[1] for n in shape if n > 1]
    entries = math.prod(1 + level for level in levels)
    for name, make in SEPARABLE.items():
        strategy = make(shape)
        if getattr(strategy, "apart", ()):  # the last cell is then outside the order, and nearer
            continue
        counts = np.zeros(strategy.cells)
        counts[0], counts[-1] = 1.0, -1.0
        change = strategy.exact(counts) * strategy.step
        most = bounds_of(strategy)
        assert np.abs(change).sum() == pytest.approx(most[Relation.REPLACE, "l1"], rel=2e-9)
        if name == "haar":
            assert np.abs(change).sum() == 2 * (entries - 2 ** (len(levels) - 1))
            assert float(change @ change) == 2 * entries


def test_halves_of_one_axis_alone_are_better_than_of_all_in_l1():
    """Two cells in one half of the second axis share more wavelets than the worst pair does; L2 does not see it."""
    strategy = Haar((4, 8))
    found = columns(strategy).reshape(4, 8, -1)
    assert np.abs(found[0, 0] - found[3, 7]).sum() == 2 * (3 * 4 - 2)
    assert np.abs(found[0, 0] - found[3, 1]).sum() == 2 * (3 * 4 - 4)
    assert np.abs(found[0, 0] - found[3, 0]).sum() == 2 * (3 * 4 - 4)
    assert np.linalg.norm(found[0, 0] - found[3, 0]) == pytest.approx(math.sqrt(2 * 12))


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 16, 27, 64])
def test_waves_stay_within_their_bound_whatever_is_kept(cells):
    """Both norms, every number of frequencies; with all of them kept the bound is nearly reached."""
    for kept in sorted({*range(0, cells // 2, max(1, cells // 12)), cells // 2}):
        shares = share_reached(Waves((cells,), kept))
        assert shares[Relation.ADD_REMOVE, "l2"] >= 0.99 * math.sqrt(min(2 * kept + 1, cells) / cells)
    assert shares[Relation.ADD_REMOVE, "l2"] >= 0.999
    assert cells == 1 or shares[Relation.REPLACE, "l2"] >= 0.85


@pytest.mark.parametrize("name", ["identity", "haar", "tree of 2", "waves", "hadamard", "sparse-signs"])
def test_a_domain_of_one_cell_still_has_rows_that_are_in_none(name):
    """A category of one value: rows have it or are empty, so a replaced row moves the one count there is."""
    groups, space = domain(1)
    makers = SEPARABLE | {
        "waves": lambda shape: Waves(shape, 0),
        "hadamard": lambda shape: sensing("hadamard", KEY, 1, 1),
        "sparse-signs": lambda shape: sensing("sparse-signs", KEY, 1, 3),
    }
    strategy = makers[name]((1,))
    assert min(share_reached(strategy).values()) > (0.7 if name == "waves" else 0.999)
    query = HistogramQuery(groups, strategy)
    there, empty = (query.answer(np.array([[cell]]))["measured"] for cell in (CATEGORY_STEPS, 0.0))
    assert not empty.any() and np.abs(there).max() * strategy.step > 0.1
    assert sensitivity.sensitivity(query, space, REPLACE) > 0.1


@pytest.mark.parametrize("query", [HistogramQuery, TailChoice, TailSize])
def test_a_question_without_a_bound_of_its_own_is_not_answered(query):
    class Other(query):
        pass

    with pytest.raises(TypeError, match="no bound is known for Other"):
        sensitivity.sensitivity(object.__new__(Other), space_of("number"), REPLACE)


def test_a_strategy_without_a_bound_of_its_own_is_not_answered():
    class Own:
        cells, numbers, step, largest = 3, 1, 1.0, 1.0

        def exact(self, counts):
            return counts[:1]

    groups, space = domain(3)
    with pytest.raises(TypeError, match="no bound"):
        sensitivity.sensitivity(HistogramQuery(groups, Own()), space, REPLACE)


def test_a_strategy_does_not_inherit_a_bound():
    """It may measure something else."""

    class Louder(Haar):
        def exact(self, counts):
            return 2 * super().exact(counts)

    groups, space = domain(4)
    with pytest.raises(TypeError, match="no bound"):
        sensitivity.sensitivity(HistogramQuery(groups, Louder((4,))), space, REPLACE)


def test_a_strategy_of_another_size_is_refused():
    groups, _ = domain(3, 2)
    with pytest.raises(ValueError, match="cells"):
        HistogramQuery(groups, Haar((5,)))


# ---- a row counts in one cell or none


MIXED = ("category:3", "flag", "number:4")
KINDS = {
    **SEPARABLE,
    "waves": lambda shape: Waves(shape, 3),
    **{
        kind: functools.partial(lambda kind, shape: sensing(kind, KEY, math.prod(shape), 8), kind)
        for kind in ("signs", "gaussian", "hadamard", "fourier", "sparse-signs")
    },
    "weighted signs": lambda shape: sensing("signs", KEY, math.prod(shape), 8, weights=(3.0, 1.0)),
    "weighted hadamard": lambda shape: sensing("hadamard", KEY, math.prod(shape), 8, weights=(1.0, 5.0, 2.0)),
}


def every_row(space) -> np.ndarray:
    """One row of each combination of values, the empty ones among them."""
    choices = []
    for block in space.blocks:
        if block.kind == "category":
            choices.append([*np.eye(block.width) * CATEGORY_STEPS, np.zeros(block.width)])
        elif block.kind == "flag":
            choices.append([np.array([float(v)]) for v in (-HALF, HALF, 0)])
        else:
            levels = np.rint(-HALF + np.arange(block.levels) * GRID / (block.levels - 1))
            choices.append([np.array([v]) for v in (*np.where(levels == 0, 1.0, levels), 0.0)])
    return np.array([np.concatenate(cells) for cells in itertools.product(*choices)])


def test_a_row_counts_in_one_cell_or_in_none():
    space = space_of(*MIXED)
    groups = Groups(Cells.even(space.blocks, 4))
    rows = every_row(space)
    whole = (rows[:, :3].max(axis=1) > 0) & (rows[:, 3:] != 0).all(axis=1)
    for query in (
        HistogramQuery(groups, Identity((3, 2, 4))),
        TailSize(groups, 1),
        TailChoice(groups, (0, 2), (0.0, 1.0)),
    ):
        counts = np.array([query.partial(row[None])["counts"] for row in rows])
        assert set(np.unique(counts)) == {0.0, 1.0}
        assert np.array_equal(counts.sum(axis=1), whole.astype(float))
        assert len(np.unique(counts[whole], axis=0)) == 24 == whole.sum()


def test_a_row_is_in_one_cell_where_every_column_has_one_for_what_is_missing():
    """Or a fallback: no row is nowhere, an emptied one least of all."""
    for kinds, cells in ((MIXED, 4 * 3 * 5), (("category:3=1", "flag", "number:4=1"), 3 * 3 * 4)):
        space = space_of(*kinds)
        groups = Groups(Cells.even(space.blocks, 4, missing=True))
        assert groups.count == cells
        rows = every_row(space)
        for start, fallback in () if kinds == MIXED else ((0, CATEGORY_STEPS), (4, 1.0)):
            rows = rows[(rows[:, start : start + (3 if start == 0 else 1)] != 0).any(axis=1)]  # encoding fills those
            assert fallback in empty_row(space)
        counts = np.array([HistogramQuery(groups, Identity((cells,))).partial(row[None])["counts"] for row in rows])
        assert np.array_equal(counts.sum(axis=1), np.ones(len(rows)))
        assert len(np.unique(counts, axis=0)) == cells == len(rows)
        assert (groups.of(empty_row(space)) >= 0).all()


@pytest.mark.parametrize("name", list(KINDS))
def test_an_answer_is_the_strategy_applied_to_all_rows(name):
    """In batches or not, in any order: the sum of what the rows add one by one."""
    space = space_of(*MIXED)
    query = HistogramQuery(Groups(Cells.even(space.blocks, 4)), KINDS[name]((3, 2, 4)))
    rng = np.random.default_rng(1)
    rows = every_row(space)[rng.integers(0, 60, 200)]
    whole = query.answer(rows)["measured"]
    assert np.array_equal(whole, sum(query.answer(row[None])["measured"] for row in rows))
    assert np.array_equal(whole, query.answer(rows[rng.permutation(200)])["measured"])


EMPTIED = {
    # columns, and whether a row that is emptied counts in some cell afterwards, where none is for what is missing
    ("number:5",): False,
    ("number:5=1",): True,
    ("category:3",): False,
    ("category:3=1",): True,
    ("flag", "number:3"): False,
    ("flag=32768", "number:3"): False,
    ("flag=32768", "number:3=32768"): True,
    ("category:2=0", "flag", "number:3"): False,
}


@pytest.mark.parametrize("missing", [False, True], ids=["no cell for it", "a cell for it"])
@pytest.mark.parametrize("kinds", list(EMPTIED), ids=", ".join)
def test_an_emptied_row_goes_or_changes_its_cell(kinds, missing):
    """It goes where a column is then empty and has no cell for that; one for what is missing, and a fallback, are."""
    space = space_of(*kinds)
    cells = Cells.even(space.blocks, 5, missing=missing)
    shape, stays = cells.sizes, missing or EMPTIED[kinds]
    apart = tuple(i for i, own in enumerate(cells.missing) if own)
    for strategy in (Identity(shape), Haar(shape, (), apart), sensing("signs", KEY, math.prod(shape), 9)):
        query = HistogramQuery(Groups(cells), strategy)
        empty = query.answer(empty_row(space))["measured"]
        assert empty.any() == stays
        found = np.array([query.answer(row[None])["measured"] - empty for row in every_row(space)]) * strategy.step
        for norm, order in (("l1", 1), ("l2", 2)):
            most = sensitivity.sensitivity(query, space, Neighbours(Unit.ROW, Relation.ZERO_OUT), norm)
            one = sensitivity.sensitivity(query, space, ADD_REMOVE, norm)
            size = float(np.linalg.norm(found, order, axis=1).max())
            assert size <= most and (stays or most == one)
            assert size >= (0.45 if missing else 0.7) * most  # the worst pair may be of two values


# ---- at the door


def at_the_door(query, space, rows, promise) -> tuple[str, np.ndarray]:
    """The law of the noise, and what it was added to in units of its scale."""
    heard = []

    def plain(law, exact, t, step, **_):
        heard.append((law, np.asarray(exact) / t))
        return np.asarray(exact) * step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "add_noise", plain)
        patch.setattr(noise, "add_l2_noise", lambda arrays: [plain("l2-laplace", *each) for each in arrays])
        ask(query, space, rows, promise)
    ((law, answer),) = heard
    return law, answer


PROMISES = {"gaussian": (2.0, 1e-6), "laplace": (2.0, 0.0), "l2-laplace": (2.0, 0.0)}
# of what is paid, the part that the worst replaced row takes at least: 1 where the bound is exact, less where it is not
TAKEN = {"waves": 0.25}


@pytest.mark.parametrize("law", list(PROMISES))
@pytest.mark.parametrize("name", list(KINDS))
def test_no_neighbouring_table_moves_an_answer_by_more_than_was_paid(name, law):
    """Through the meter: all tables that differ in one row, which may be another, be empty, or not be there."""
    space = space_of(*MIXED)
    epsilon, delta = PROMISES[law]
    pure = "l2-laplace" if law == "l2-laplace" else "laplace"
    kinds, rest = every_row(space), every_row(space)[[3, 3, 17, 40, 47]]
    kinds = kinds[[*range(0, 60, 7), 0, 18, 48, 53, 59]]
    paid = calibrate.mu_for(epsilon, delta) if delta else epsilon
    order = 1 if law == "laplace" else 2
    for missing, neighbours in itertools.product((False, True), Neighbours.every()):
        cells = Cells.even(space.blocks, 4, missing=missing)
        query = HistogramQuery(Groups(cells), KINDS[name](cells.sizes), pure)
        promise = Promise(epsilon, delta, neighbours)
        found = np.array([at_the_door(query, space, np.vstack([row, rest]), promise)[1] for row in kinds])
        heard, alone = at_the_door(query, space, rest, promise)
        assert heard == law
        if neighbours.relation is Relation.ADD_REMOVE:
            changes = found - alone
        elif neighbours == Neighbours(Unit.ROW, Relation.ZERO_OUT):
            empty = np.vstack([np.zeros(space.width), rest])
            changes = found - at_the_door(query, space, empty, promise)[1]
        else:  # changing or emptying a cell is one way to replace a row
            changes = (found[:, None] - found[None]).reshape(-1, found.shape[1])
        sizes = np.linalg.norm(changes, order, axis=1)
        assert sizes.max() <= paid, f"{neighbours}: {sizes.max():.6g} moved, {paid:.6g} paid"
        # what is missing is one cell, and the worst pair may be of two others
        fixed = missing and neighbours == Neighbours(Unit.ROW, Relation.ZERO_OUT)
        taken = TAKEN.get(name, 0.5 if fixed else 0.75)
        assert sizes.max() >= taken * paid, f"no power: {sizes.max():.6g} of {paid:.6g}"


# ---- answers are exact


def whole_matrix(strategy) -> list[list[int]]:
    """Entries of the strategy in whole steps, as Python numbers: a line for each cell."""
    return [[int(value) for value in strategy.exact(count)] for count in np.eye(strategy.cells)]


@pytest.mark.parametrize("name", list(KINDS))
def test_answers_are_exact_up_to_the_largest_table_that_is_let_in(name):
    """Counts whose sums come close to 2^53, and to 2^61, against whole numbers of any size."""
    strategy = KINDS[name]((3, 2, 4))
    query = HistogramQuery(domain(24)[0], strategy)
    matrix = whole_matrix(strategy)
    assert max(abs(entry) for column in matrix for entry in column) <= strategy.largest
    assert query.most_rows * strategy.largest < 2**61 <= (query.most_rows + 1) * strategy.largest
    rng = np.random.default_rng(2)
    for rows in (int((2**53 - 1) // strategy.largest), int(2**53 // strategy.largest) + 1, query.most_rows):
        tables = [rng.multinomial(rows, np.full(24, 1 / 24)), rng.multinomial(rows, rng.dirichlet(np.full(24, 0.2)))]
        tables += [np.eye(24, dtype=np.int64)[cell] * (rows - 1) for cell in (0, 13, 23)]
        for counts in tables:
            exact = [
                sum(int(c) * column[j] for c, column in zip(counts, matrix, strict=True))
                for j in range(strategy.numbers)
            ]
            found = query.finalize({"counts": counts.astype(float)})["measured"]
            assert [int(v) for v in found] == exact
            assert max(abs(v) for v in exact) < 2**53 or found.dtype == np.int64


@pytest.mark.parametrize("name", ["haar", "waves", "gaussian", "weighted hadamard"])
def test_a_table_too_large_to_be_exact_is_refused_before_the_charge(name):
    space = space_of(*MIXED)
    query = HistogramQuery(Groups(Cells.even(space.blocks, 4)), KINDS[name]((3, 2, 4)))

    def charge(line, event):
        raise AssertionError("charged")

    rows = PrivateRows(space, query.most_rows + 1, lambda: iter([]))
    with pytest.raises(InputError, match=f"at most {query.most_rows:,} rows"):
        Meter(rows, Promise(1.0, 0.0, REPLACE), {"a": 1.0}, charge).measure("a", query)


# ---- estimates


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", list(SEPARABLE))
def test_estimates_are_unbiased_and_duals_say_how_noise_enters(name, shape):
    """Without noise the counts come back; with it, a query moves by what its dual says."""
    strategy = SEPARABLE[name](shape)
    rng = np.random.default_rng(3)
    counts = rng.poisson(5, strategy.cells).astype(float)
    exact, shift = strategy.exact(counts) * strategy.step, rng.normal(size=strategy.numbers)
    assert np.allclose(strategy.estimate(exact), counts)
    weights = rng.normal(size=(3, strategy.cells))
    expected = weights @ counts + strategy.dual(weights) @ shift
    assert np.allclose(weights @ strategy.estimate(exact + shift), expected)
    assert np.allclose(strategy.estimate(np.stack([exact, shift])), [strategy.estimate(v) for v in (exact, shift)])
    again = rebuilt(strategy.recipe())
    assert type(again) is type(strategy) and np.array_equal(again.exact(counts), strategy.exact(counts))


@pytest.mark.parametrize(
    "strategy", [Haar((8,)), Haar((4, 2)), Tree((8,), 2), Tree((9,), 3), Tree((4, 16), 4)], ids=str
)
def test_estimates_are_least_squares_where_nothing_was_filled_up(strategy):
    matrix = columns(strategy).T
    measured = np.random.default_rng(4).normal(size=strategy.numbers)
    assert np.allclose(strategy.estimate(measured), np.linalg.lstsq(matrix, measured, rcond=None)[0])


@pytest.mark.parametrize("cells", [1, 2, 7, 8])
def test_waves_are_an_orthonormal_basis_that_can_be_cut_short(cells):
    counts = np.random.default_rng(5).poisson(5, cells).astype(float)
    for kept in range(cells // 2 + 1):
        waves = Waves((cells,), kept)
        left = counts - waves.estimate(waves.exact(counts) * waves.step)
        tail = adumbra.queries.histograms.spectrum_tails(counts)[kept]
        assert np.linalg.norm(left) == pytest.approx(tail, abs=1e-3)
        assert np.array_equal(rebuilt(waves.recipe()).exact(counts), waves.exact(counts))
    with pytest.raises(ValueError):
        Waves((cells,), cells // 2 + 1)


def test_a_tree_has_as_few_branches_as_its_levels_need():
    """Seventeen cells need three levels of sixteen branches, and then five of them are enough."""
    assert Tree((17,), 16).branches(0) == 5 and Tree((17,), 16).numbers == 1 + 5 + 25
    assert Tree((16,), 16).branches(0) == 16 and Tree((1,), 16).numbers == 1


def test_an_unknown_recipe_is_not_rebuilt():
    with pytest.raises(LookupError):
        rebuilt({"strategy": "other", "shape": [2]})


# ---- the noise


NOISY = {
    # name: strategy of 900 numbers or more, and its L1 and L2 bound under row/replace, worked out by hand
    "counts": (lambda: Identity((40, 25)), 2.0, math.sqrt(2.0)),
    "haar": (lambda: Haar((32, 32)), 2.0 * (36 - 2), math.sqrt(2.0 * 36)),
    "tree": (lambda: Tree((27, 27), 3), 2.0 * (16 - 1), math.sqrt(2.0 * 15)),
}


@pytest.mark.parametrize("law", list(PROMISES))
@pytest.mark.parametrize("name", list(NOISY))
def test_noise_of_an_answer_has_its_scale_and_no_other(name, law):
    """The scale is the bound, worked out by hand, over epsilon or mu; 2/3 and 3/2 of it do not fit."""
    make, l1, l2 = NOISY[name]
    epsilon, delta = PROMISES[law]
    strategy = make()
    groups, space = domain(*strategy.shape)
    query = HistogramQuery(groups, strategy, "l2-laplace" if law == "l2-laplace" else "laplace")
    rows = np.zeros((5, space.width))
    rows[:, 1] = rows[:, -1] = CATEGORY_STEPS
    promise = Promise(epsilon, delta, REPLACE)
    found, scale = residuals(query, space, promise, 60 if law == "l2-laplace" else 2, rows)
    most = (l1 if law == "laplace" else l2) / (calibrate.mu_for(epsilon, delta) if delta else epsilon)
    assert scale == pytest.approx(most, rel=1e-6)
    sample = found["measured"] / most
    if law != "l2-laplace":
        has_scale(sample.ravel(), "norm" if delta else "laplace")
        return
    lengths = np.linalg.norm(sample, axis=1)  # of m numbers: Gamma(m)
    fits = [stats.kstest(lengths * f, "gamma", (sample.shape[1],)).pvalue > 1e-3 for f in (2 / 3, 1.0, 3 / 2)]
    assert fits == [False, True, False]
    inner = (sample[0] @ sample[1]) / (lengths[0] * lengths[1])
    assert abs(inner) < 5 / math.sqrt(sample.shape[1])


# ---- lengths of tails


def tails(counts) -> np.ndarray:
    return adumbra.queries.histograms.spectrum_tails(np.asarray(counts, dtype=float))


def test_tails_are_lengths_of_what_the_waves_leave_out():
    """Against projections by matrices of cosines and sines."""
    for cells in (1, 2, 3, 8, 9):
        counts = np.random.default_rng(cells).poisson(4, cells).astype(float)
        for kept in range(cells // 2 + 1):
            place = np.arange(cells)
            rows = [np.cos(2 * np.pi * f * place / cells) for f in range(kept + 1)]
            rows += [np.sin(2 * np.pi * f * place / cells) for f in range(1, kept + 1)]
            basis = np.linalg.svd(np.array(rows).T, full_matrices=False)
            basis = basis[0][:, basis[1] > 1e-9]
            left = counts - basis @ (basis.T @ counts)
            assert tails(counts)[kept] == pytest.approx(np.linalg.norm(left), abs=1e-9)
        assert len(tails(counts)) == cells // 2 + 1


@pytest.mark.parametrize("cells", [2, 3, 4, 7, 16, 100])
def test_no_row_moves_a_tail_by_more_than_its_bound(cells):
    """Through the questions, in whole steps; a row alone in its cell, and two at opposite places, come near."""
    groups, space = domain(cells)
    rng = np.random.default_rng(cells)
    best = {Relation.ADD_REMOVE: 0.0, Relation.REPLACE: 0.0}
    kept = range(cells // 2 + 1)
    choice = TailChoice(groups, tuple(kept), tuple(float(k) for k in kept))
    for counts in (np.zeros(cells), rng.poisson(0.3, cells), rng.poisson(50, cells), np.eye(cells)[0] * 10.0**6):
        for one, other in itertools.product(rng.integers(0, cells, 4), repeat=2):
            added, replaced = counts + np.eye(cells)[one], counts + np.eye(cells)[other]
            for relation, pair in ((Relation.ADD_REMOVE, (added, counts)), (Relation.REPLACE, (added, replaced))):
                sizes = [np.array([TailSize(groups, k).finalize({"counts": c})["tail"][0] for k in kept]) for c in pair]
                scores = [choice.finalize({"counts": c})["scores"] for c in pair]
                assert np.array_equal(scores[0] - sizes[0], np.arange(len(kept)) * COUNT_STEPS)
                change = max(np.abs(np.subtract(*sizes)).max(), np.abs(np.subtract(*scores)).max()) / COUNT_STEPS
                best[relation] = max(best[relation], change)
    for relation, change in best.items():
        neighbours = Neighbours(Unit.ROW, relation)
        for norm in ("l1", "l2"):
            most = sensitivity.sensitivity(TailSize(groups, 1), space, neighbours, norm)
            assert change <= most
        assert sensitivity.sensitivity(choice, space, neighbours, "l1") == pytest.approx(2 * most)
    assert best[Relation.ADD_REMOVE] >= 0.6 * sensitivity.sensitivity(TailSize(groups, 1), space, ADD_REMOVE)


def test_two_opposite_cells_move_a_tail_by_the_root_of_two():
    """A lone row that crosses to where the waves run against it: (1, 0) against (0, 1) about (x, -x)."""
    groups, space = domain(2)
    found = [TailSize(groups, 0).finalize({"counts": np.array(c)})["tail"][0] for c in ([9.0, 3.0], [8.0, 4.0])]
    change = (found[0] - found[1]) / COUNT_STEPS
    most = sensitivity.sensitivity(TailSize(groups, 0), space, REPLACE)
    assert 0.998 * most <= change <= most


def test_an_emptied_row_moves_a_tail_like_a_replaced_one():
    """What is missing has a cell of its own, so a row that is emptied changes its cell: sqrt 2, not 1."""
    space = space_of("number")
    groups = Groups(Cells.even(space.blocks, 1, missing=True))
    rows = np.full((9, 1), -HALF, dtype=float)
    neighbours = Neighbours(Unit.ROW, Relation.ZERO_OUT)
    for query, pays in ((TailSize(groups, 0), 1), (TailChoice(groups, (0, 1), (0.0, 0.0)), 2)):
        found = [query.answer(table)[query.parts[0].name][0] for table in (rows, np.vstack([[[0.0]], rows[1:]]))]
        change = pays * (found[0] - found[1]) / COUNT_STEPS
        most = sensitivity.sensitivity(query, space, neighbours, "l1")
        assert 0.998 * most <= change <= most


@pytest.mark.parametrize(
    ("cells", "rows"),
    [
        (4096, 2**33),
        (2**16, 2**30),
        (2**20, 2**22),
        (2**20, 2**30),
        (1000003, 2**30),
    ],
)
def test_float64_moves_a_tail_by_less_than_a_step(cells, rows):
    """All rows in one cell, and one of them gone: the tail is known, up to the largest tables that are let in."""
    groups, space = domain(3)
    rows = min(rows, TailSize(groups, 0).most_rows)
    for total in (rows - 1, rows - 3, int(0.7 * rows)):
        pair = [tails(np.eye(1, cells)[0] * count) for count in (total, total - 1)]
        for kept in (0, 1, 5, 50):
            share = Fraction(cells - 2 * kept - 1, cells)
            true = [math.sqrt(share) * count for count in (total, total - 1)]
            change = np.floor(pair[0][kept] * COUNT_STEPS) - np.floor(pair[1][kept] * COUNT_STEPS)
            assert abs(change) / COUNT_STEPS <= sensitivity.sensitivity(TailSize(groups, 0), space, ADD_REMOVE)
            for found, exact in zip(pair, true, strict=True):
                assert abs(found[kept] - exact) <= 0.5 / COUNT_STEPS


# ---- the noisy choice


def law_of_the_choice(scores, t) -> np.ndarray:
    """Chances of each candidate to have the smallest score plus discrete Laplace noise, the first one where they tie.

    P(x) = (1 - q) / (1 + q) q^|x|, q = exp(-1 / t): summed over the noise of one candidate, times the chances that all
    others stay above it.
    """
    scores = np.asarray(scores, dtype=np.int64)
    reach = int(45 * t + np.ptp(scores)) + 2
    noises = np.arange(-reach, reach + 1)
    q = math.exp(-1 / t)
    mass = (1 - q) / (1 + q) * q ** np.abs(noises)

    def above(x):
        """P(noise >= x)."""
        return np.where(x > 0, q ** np.maximum(x, 0) / (1 + q), 1 - q ** np.maximum(1 - x, 0) / (1 + q))

    out = []
    for i, score in enumerate(scores):
        chance = mass.copy()
        for j, other in enumerate(scores):
            if j != i:  # an earlier one must be strictly above
                chance *= above(score + noises - other + (1 if j < i else 0))
        out.append(chance.sum())
    assert abs(sum(out) - 1) < 1e-9
    return np.array(out)


@pytest.mark.parametrize("t", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("scores", [(5,), (3, 3), (0, 4, 9), (7, 1, 1, 2), (20, 0, 3, 3, 11)])
def test_an_attacker_weighs_a_choice_by_its_law(scores, t):
    assert np.allclose(np.exp(log_chances(scores, t)), law_of_the_choice(scores, t), rtol=1e-9, atol=1e-15)


def test_an_attacker_weighs_a_choice_with_much_noise():
    """On a coarser grid, and still as it is: scores and noise a thousand times larger make the same choice."""
    fine, coarse = log_chances((0, 4000, 9000), 5000.0), log_chances((0, 4_000_000, 9_000_000), 5_000_000.0)
    assert np.allclose(np.exp(fine), np.exp(coarse), rtol=1e-3)


def test_the_law_of_the_choice_is_what_adding_up_all_noises_gives():
    """Three candidates, noises up to 30: every combination by itself."""
    t, scores = 1.3, [2, 0, 1]
    q = math.exp(-1 / t)
    each = np.arange(-30, 31)
    mass = (1 - q) / (1 + q) * q ** np.abs(each)
    grid = np.stack(np.meshgrid(*[each + s for s in scores], indexing="ij"))
    chances = mass[:, None, None] * mass[:, None] * mass
    winner = np.argmin(grid, axis=0)
    assert np.allclose([chances[winner == i].sum() for i in range(3)], law_of_the_choice(scores, t), atol=1e-8)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("candidates", [1, 2, 3, 7])
def test_no_change_of_scores_makes_a_choice_likelier_than_epsilon_allows(candidates, most):
    """Whole scores that move by at most `most`, in any directions, with noise of twice that over epsilon; ties too."""
    rng = np.random.default_rng(candidates)
    for epsilon, spread in itertools.product((0.3, 1.0, 3.0), (0, 2, 30)):
        t = 2 * most / epsilon
        for _ in range(12):
            scores = rng.integers(0, spread + 1, candidates)
            other = scores + rng.choice([-most, most, 0], candidates, p=[0.45, 0.45, 0.1])
            one, two = law_of_the_choice(scores, t), law_of_the_choice(other, t)
            likely = (one > 1e-12) & (two > 1e-12)
            assert np.abs(np.log(one[likely] / two[likely])).max() <= epsilon * (1 + 1e-6)
    if candidates > 1:  # a candidate far above all others, which comes down while they go up
        one, two = (law_of_the_choice([20 * most + up, *[-up] * (candidates - 1)], 2.0 * most) for up in (0, -most))
        assert math.log(two[0] / one[0]) >= 0.85


CANDIDATES, COSTS = (0, 1, 2), (0.0, 0.5, 1.25)


def choice_of(cells=5):
    groups, space = domain(cells)
    return TailChoice(groups, CANDIDATES, COSTS), space


def noise_of_the_choice(epsilon, neighbours=REPLACE) -> float:
    query, space = choice_of()
    return (
        calibrated(query, space, Promise(epsilon, 0.0, neighbours), share=1.0, rows=1, fresh=False)
        .parts["scores"]
        .steps
    )


@pytest.mark.parametrize("neighbours", [REPLACE, ADD_REMOVE], ids=str)
def test_choices_on_neighbouring_tables_are_as_likely_as_promised(neighbours):
    """All tables of up to three rows on five cells and their neighbours, at the noise that the meter calibrates."""
    query, _ = choice_of()
    epsilon = 1.0
    t = noise_of_the_choice(epsilon, neighbours)
    laws, tables = {}, list(itertools.product(range(4), repeat=5))
    tables = [c for c in tables if sum(c) <= 3] + [(9, 0, 0, 0, 0), (8, 1, 0, 0, 0), (8, 0, 1, 0, 0), (8, 0, 0, 0, 0)]
    for counts in tables:
        scores = query.finalize({"counts": np.array(counts, dtype=float)})["scores"]
        # scores in steps of a 32nd of a count: cut down, they move by no more than before and a step
        laws[counts] = law_of_the_choice(scores // 32, t / 32)
    worst = 0.0
    for one, other in itertools.combinations(laws, 2):
        change = np.subtract(one, other)
        rows = np.abs(change).sum()
        if rows == (1 if neighbours is ADD_REMOVE else 2) and (neighbours is ADD_REMOVE or change.sum() == 0):
            worst = max(worst, float(np.abs(np.log(laws[one] / laws[other])).max()))
    assert worst <= epsilon * (1 + 32 / COUNT_STEPS)
    assert worst >= 0.3 * epsilon, f"no power: {worst:.3g}"


def test_the_choice_has_the_noise_of_twice_a_score():
    """Worked out by hand: 2 (sqrt 2 and two steps) over epsilon."""
    for epsilon in (0.5, 2.0):
        expected = 2 * (math.sqrt(2.0) + 2 / COUNT_STEPS) / epsilon * COUNT_STEPS
        assert noise_of_the_choice(epsilon) == pytest.approx(expected, rel=1e-6)
    query, space = choice_of()
    with pytest.raises(ValueError, match="Laplace"):
        calibrated(query, space, Promise(1.0, 1e-6, REPLACE), share=1.0, rows=1, fresh=False)


def drawn_choices(runs=700, epsilon=3.0) -> tuple[np.ndarray, np.ndarray]:
    """How often each candidate came out at the door, and its scores there."""
    query, space = choice_of()
    counts = np.array([4, 0, 1, 0, 0])
    rows = np.repeat(np.eye(5) * CATEGORY_STEPS, counts, axis=0)
    promise = Promise(epsilon, 0.0, REPLACE)
    came = []
    for _ in range(runs):
        values = ask(query, space, rows, promise).values
        assert set(values) == {"choice"} and values["choice"].shape == (1,)
        came.append(int(values["choice"][0]))
    return np.bincount(came, minlength=3), query.finalize({"counts": counts.astype(float)})["scores"]


def test_choices_come_as_often_as_their_law_says():
    """At the door; with 2/3 or 3/2 of the noise they would not."""
    epsilon = 3.0
    found, scores = drawn_choices(epsilon=epsilon)
    t = 2 * (math.sqrt(2.0) + 2 / COUNT_STEPS) / epsilon * COUNT_STEPS
    fits = [
        stats.chisquare(found, law_of_the_choice(scores // 8, t * factor / 8) * found.sum()).pvalue > 1e-3
        for factor in (2 / 3, 1.0, 3 / 2)
    ]
    assert fits == [False, True, False]


def test_a_choice_hands_out_its_place_and_nothing_else():
    query, space = choice_of()
    noisy = ask(query, space, np.eye(5) * CATEGORY_STEPS, Promise(1.0, 0.0, REPLACE))
    assert set(noisy.values) == {"choice"}
    assert noisy.values["choice"].shape == (1,) and float(noisy.values["choice"][0]) in (0.0, 1.0, 2.0)
    (name,) = query.postprocess({"scores": np.array([3.0, 1.0, 1.0])})
    assert name == "choice"
    assert query.postprocess({"scores": np.array([3.0, 1.0, 1.0])})["choice"].tolist() == [1.0]


def test_candidates_are_frequencies_of_the_domain_each_with_a_cost():
    groups, _ = domain(6)
    for candidates, costs in (((), ()), ((1,), ()), ((4,), (0.0,))):
        with pytest.raises(ValueError):
            TailChoice(groups, candidates, costs)
