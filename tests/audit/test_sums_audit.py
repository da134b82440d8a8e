"""Try to refute the promise for sums over rows: an attacker with the worst pair of neighbours, through the real door.

Noise falls on each number by itself, so the classes of one measurement are as many independent runs: the row of each
class is the one or the other of the pair. Where the answer cannot be cut into classes, the door is opened again for
every run. The attacker knows the noise and takes the log-likelihood ratio, which is optimal; the thresholds are fixed
beforehand and the confidence is divided among them. As in tests/audit/test_audit.py, staying below the claim proves
nothing, so the bound must also come near it, and half the noise must be refuted.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from adumbra.accounting import calibrate
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, GRID, HALF
from adumbra.noise import add as noise
from adumbra.privacy import engine
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.second_moment import Gram, MomentsQuery, RowsAndGram
from adumbra.queries.sums import TablesQuery
from adumbra.tables.clip import clip_rows
from tests.audit.test_audit import lower_bound
from tests.queries.test_sums import ball_scores, classes, map_of, space_of, unit_pair
from tests.repeatable import repeatable  # noqa: F401

CLASSES = 6000
SPACE = space_of(f"number:{CLASSES}", "number", "number")
BOUNDED = space_of(f"number:{CLASSES}", "number", "number", row_bound=HALF)
BY_CLASS = Groups(Cells((SPACE.blocks[0],), (CLASSES,)))
LABELS = np.rint(-HALF + np.arange(CLASSES) * GRID / (CLASSES - 1))
THRESHOLDS = (0.25, 0.5, 0.75, 1.0)
"""Of the log-likelihood ratio, as shares of the claimed epsilon."""
REPLACE, ADD_REMOVE = (Neighbours(Unit.ROW, relation) for relation in (Relation.REPLACE, Relation.ADD_REMOVE))
HIGH_DELTA = 0.1
"""A delta at which the optimal event is frequent: a few thousand runs come near the exact epsilon."""


def measured(query, space, rows, promise):
    rows = np.asarray(rows, dtype=float)
    private = PrivateRows(space, len(rows), lambda: iter([rows]))
    meter = Meter(private, promise, {"a": 1.0}, lambda *_: None)
    return meter.measure("a", query), meter.done["a"].event


def ratio(values, one, other, event) -> np.ndarray:
    """Log-likelihood ratio of the two exact answers, run by run, in the measured vector's own units."""
    if event.noise == "laplace":
        return (np.abs(values - other) - np.abs(values - one)).sum(axis=1) / event.scale
    return ((values - (one + other) / 2) * (one - other)).sum(axis=1) / event.scale**2


def best_bound(under_one, under_other, promise) -> float:
    """Largest lower bound on epsilon over the thresholds, all of them valid together."""
    confidence = 1 - 1e-3 / len(THRESHOLDS)
    cuts = [share * promise.epsilon for share in THRESHOLDS]
    hits = [(int((under_one > cut).sum()), int((under_other > cut).sum())) for cut in cuts]
    return max(lower_bound(a, b, len(under_one), promise.delta, confidence) for a, b in hits)


def by_class(values, query, joined, steps=False) -> np.ndarray:
    """One line for each run: all numbers of a class (or of `joined` classes in a row), weighted."""
    parts = [p for p in query.parts if p.shape[0] == CLASSES]
    scaled = [values[p.name].reshape(CLASSES, -1) * p.weight * (p.step if steps else 1.0) for p in parts]
    return np.concatenate(scaled, axis=1).reshape(CLASSES // joined, -1)


def attacked_by_class(name) -> tuple[float, Promise]:
    """Lower bound on epsilon from one measurement of each table."""
    query, space, tables, neighbours, joined, delta = BY_CLASSES[name]
    promise = Promise(2.0, delta, neighbours)
    exact = [by_class(query.answer(np.asarray(rows, dtype=float)), query, joined, steps=True) for rows in tables]
    told = (exact[0] != exact[1]).any(axis=1)
    ratios = []
    for rows in tables:
        noisy, event = measured(query, space, rows, promise)
        ratios.append(ratio(by_class(noisy.values, query, joined), *exact, event)[told])
    return best_bound(*ratios, promise), promise


def labelled(row, chosen=slice(None)) -> np.ndarray:
    """The same two numbers in each of the chosen classes."""
    labels = LABELS[chosen]
    return np.column_stack([labels, np.tile(row, (len(labels), 1))])


def orthogonal_in_a_class() -> tuple[np.ndarray, np.ndarray]:
    """Rows of length HALF, at right angles although both carry the label, where that leaves room for it."""
    label = LABELS / HALF
    length = np.sqrt(np.maximum(1 - label**2, 1e-9))
    half = np.arccos(np.clip(-((label / length) ** 2), -1, 1)) / 2
    pair = []
    for sign in (1, -1):
        rows = np.column_stack([label, length * np.cos(half), sign * length * np.sin(half)]) * HALF
        pair.append(clip_rows(np.rint(rows), HALF)[0])
    return pair[0], pair[1]


def middle(rows) -> np.ndarray:
    """Only the classes whose label leaves room for a right angle."""
    return rows[np.abs(LABELS) < 0.7 * HALF]


def roots(*squares) -> list[float]:
    return [math.sqrt(square) for square in squares]


EVEN, ODD = slice(0, None, 2), slice(1, None, 2)
CELLS = Cells.even(SPACE.blocks[1:], 4)
GRAM_PAIR = orthogonal_in_a_class()
NOBODY = np.zeros((0, 3))
# query, space, the two tables, neighbours, classes in a run, delta
BY_CLASSES = {
    "moments, one class": (
        MomentsQuery(ball_scores(2, 1), BY_CLASS, *roots(0.1, 0.45, 0.45), True),
        SPACE,
        [labelled(row) for row in unit_pair(-0.5)],
        REPLACE,
        1,
        HIGH_DELTA,
    ),
    "moments, two classes": (
        MomentsQuery(ball_scores(2, 1), BY_CLASS, *roots(0.8, 0.1, 0.1), True),
        SPACE,
        [labelled(unit_pair(0.0)[0], EVEN), labelled(unit_pair(0.0)[1], ODD)],
        REPLACE,
        2,
        HIGH_DELTA,
    ),
    "moments, added": (
        MomentsQuery(ball_scores(2, 1), BY_CLASS, *roots(0.8, 0.1, 0.1), True),
        SPACE,
        [labelled(unit_pair(0.0)[0]), NOBODY],
        ADD_REMOVE,
        1,
        HIGH_DELTA,
    ),
    "tables": (
        TablesQuery(CELLS, BY_CLASS, 0.2, 1.0),
        SPACE,
        [labelled([-HALF, HALF]), labelled([HALF, -HALF])],
        REPLACE,
        1,
        HIGH_DELTA,
    ),
    "tables, two classes": (
        TablesQuery(CELLS, BY_CLASS, 0.0, 1.0),
        SPACE,
        [labelled([HALF, HALF], EVEN), labelled([HALF, HALF], ODD)],
        REPLACE,
        2,
        HIGH_DELTA,
    ),
    "tables, pure": (
        TablesQuery(CELLS, BY_CLASS, 0.0, 1.0),
        SPACE,
        [labelled([-HALF, HALF]), labelled([HALF, -HALF])],
        REPLACE,
        1,
        0.0,
    ),
    "gram": (Gram(3, BY_CLASS, 2.0), BOUNDED, [middle(rows) for rows in GRAM_PAIR], REPLACE, 1, HIGH_DELTA),
    "gram, added": (Gram(3, BY_CLASS), BOUNDED, [GRAM_PAIR[0], NOBODY], ADD_REMOVE, 1, HIGH_DELTA),
}


@pytest.mark.parametrize("name", list(BY_CLASSES))
def test_the_claim_is_not_refuted_and_the_attack_has_power(name):
    found, promise = attacked_by_class(name)
    assert found <= promise.epsilon, f"REFUTED: {name} claims {promise.epsilon}, at least {found:.3f}"
    assert found >= 0.5 * promise.epsilon, f"no power: {found:.3f}"


def test_the_rows_of_the_gram_are_at_right_angles():
    one, other = (middle(rows) for rows in GRAM_PAIR)
    assert len(one) > CLASSES / 2 and np.array_equal(one[:, 0], other[:, 0])
    assert np.abs((one * other).sum(axis=1)).max() < 1e-3 * HALF**2
    assert np.linalg.norm(one, axis=1).min() > 0.999 * HALF


def halve(patch) -> None:
    real = noise.add_noise
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **kw: real(law, exact, t / 2, step, **kw))


@pytest.mark.parametrize("name", list(BY_CLASSES))
def test_half_the_noise_would_be_refuted(name, monkeypatch):
    halve(monkeypatch)
    found, promise = attacked_by_class(name)
    assert found > promise.epsilon, f"half the noise went unnoticed: {found:.3f}"


# ---- answers that cannot be cut into classes: one measurement for each run

RUNS = 2000


class AtOnce:
    """In place of a pool of threads: a thousand short runs would mostly start threads."""

    def __init__(self, workers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, work, batch):
        done = engine.Future()
        done.set_result(work(batch))
        return done


def vector(noisy, query) -> np.ndarray:
    """The measured vector of one run, weighted."""
    if isinstance(query, RowsAndGram):
        return np.concatenate([np.concatenate(list(noisy.rows.batches)).ravel(), vector(noisy.gram, query.gram)])
    return np.concatenate([noisy.values[part.name].ravel() * part.weight for part in query.parts])


def exact_vector(query, rows) -> np.ndarray:
    rows = np.asarray(rows, dtype=float)
    if isinstance(query, RowsAndGram):
        answer = query.map.mapped(rows) * query.map.answer_step
        return np.concatenate([answer.ravel(), exact_vector(query.gram, rows)])
    return np.concatenate([query.answer(rows)[p.name].ravel() * p.weight * p.step for p in query.parts])


def attacked_in_turn(name, patch) -> tuple[float, Promise]:
    query, space, tables = IN_TURN[name]
    promise = Promise(2.0, HIGH_DELTA, REPLACE)
    patch.setattr(engine, "ThreadPoolExecutor", AtOnce)
    patch.setattr(calibrate, "mu_for", functools.cache(calibrate.mu_for))
    exact = [exact_vector(query, rows) for rows in tables]
    ratios = []
    for rows in tables:
        seen = [measured(query, space, rows, promise) for _ in range(RUNS)]
        ratios.append(ratio(np.array([vector(noisy, query) for noisy, _ in seen]), *exact, seen[0][1]))
    return best_bound(*ratios, promise), promise


BALL_SPACE = space_of("number", "number", row_bound=HALF)
LABEL_SPACE = space_of("category:2", "number", "number")
LABEL = [CATEGORY_STEPS, 0.0]
REST = [[0.0, 0.0], [HALF, 0.0]]
# w = 4: the inner product of the worst pair is -1/8; w = 1/2: antipodal rows
IN_TURN = {
    f"rows and gram, w = {w}": (
        RowsAndGram(map_of("identity", BALL_SPACE, 2), math.sqrt(w) * GRID / HALF),
        BALL_SPACE,
        [[*REST, row] for row in np.trunc(np.array(unit_pair(-min(1.0, 1 / (2 * w)))) * (1 - 1e-4))],
    )
    for w in (0.5, 4.0)
} | {
    "pooled moments": (
        MomentsQuery(ball_scores(2, 2), classes(LABEL_SPACE, 0), *roots(0.1, 0.45, 0.45)),
        LABEL_SPACE,
        [[[0.0, CATEGORY_STEPS, HALF, 0.0], [*LABEL, *row]] for row in unit_pair(-0.5)],
    ),
}


@pytest.mark.parametrize("name", list(IN_TURN))
def test_joint_and_pooled_claims_are_not_refuted(name, monkeypatch):
    found, promise = attacked_in_turn(name, monkeypatch)
    assert found <= promise.epsilon, f"REFUTED: {name} claims {promise.epsilon}, at least {found:.3f}"
    assert found >= 0.5 * promise.epsilon, f"no power: {found:.3f}"


def test_half_the_joint_noise_would_be_refuted(monkeypatch):
    halve(monkeypatch)
    found, promise = attacked_in_turn("rows and gram, w = 4.0", monkeypatch)
    assert found > promise.epsilon
