"""Rows of a model of pairs and triples: in batches that no number of threads changes, values as columns have them."""

from __future__ import annotations

import numpy as np
import pytest

from adumbra.declare.space import GRID, Block, Space
from adumbra.models.columns import Columns
from adumbra.models.denoising import ColumnTables
from adumbra.models.joint_layout import JointLayout
from adumbra.models.marginals import marginals_of
from adumbra.models.pair_model import PairModel
from adumbra.models.residual_tables import Residual, centred_table
from adumbra.queries.cells import Cells

BLOCKS = (
    Block("n", "number", 0, 1, fallback=0),
    Block("w", "category", 1, 4, fallback=0),
    Block("f", "flag", 5, 1, fallback=0),
)
COLUMNS = Columns(Space(BLOCKS), BLOCKS, None)


def layout_of(parts=8):
    cells = Cells.aligned(BLOCKS, [parts, 1, 1])
    even = [np.full(count, 1 / count) for count in cells.counts]
    return JointLayout.of(cells, marginals_of(BLOCKS, ColumnTables(even, np.zeros(3)), cells), parts, 0.0)


def fitted(tables, sd=1e-5, first=(), layout=None):
    rng = np.random.default_rng(0)
    residuals = {
        places: Residual(centred_table(table) + centred_table(rng.normal(0, sd, table.shape)), sd)
        for places, table in tables.items()
    }
    return PairModel.fitted(layout or layout_of(), residuals, first, np.random.default_rng(1))


def related():
    """The word is the quarter the number is in; the flag is its parity."""
    one, two = np.zeros((8, 4)), np.zeros((4, 2))
    one[np.arange(8), np.arange(8) // 2] = 1 / 8
    two[np.arange(4), np.arange(4) % 2] = 1 / 4
    return {(0, 1): one, (1, 2): two, (0, 2): one @ (two * 4)}


def test_batches_are_the_same_whatever_the_threads_and_as_many_rows_as_asked_for(monkeypatch):
    model = fitted(related())
    drawn = {}
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("ADUMBRA_THREADS", threads)
        drawn[threads] = list(model.batches(COLUMNS, 200_000, np.random.default_rng(5)))
    assert [len(batch) for batch in drawn["1"]] == [65_536, 65_536, 68_928], (
        "bounded memory, and no last one of few rows"
    )
    for other in ("2", "3"):
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(drawn["1"], drawn[other], strict=True))
    assert not np.array_equal(drawn["1"][0], drawn["1"][1]), "each with a stream of its own"
    for rows in (0, 1, 98_303, 98_304):
        assert sum(len(batch) for batch in model.batches(COLUMNS, rows, np.random.default_rng(5))) == rows


def test_values_follow_their_tables():
    rows = np.concatenate(list(fitted(related()).batches(COLUMNS, 20_000, np.random.default_rng(2))))
    number, word, flag = rows[:, 0] / GRID + 0.5, rows[:, 1], rows[:, 2]
    assert (np.clip(number * 4, 0, 3.999).astype(int) == word).mean() > 0.99
    assert ((flag > 0) == (word % 2 == 1)).mean() > 0.99
    assert np.histogram(number, 8, (0, 1))[0] / 20_000 == pytest.approx(np.full(8, 1 / 8), abs=0.01)


def test_noise_alone_keeps_nothing_and_draws_independent_columns():
    model = fitted(
        {places: np.full(shape, 1 / np.prod(shape)) for places, shape in (((0, 1), (8, 4)), ((1, 2), (4, 2)))}
    )
    assert not model.targets and not model.couplings
    cells = model.drawn(20_000, np.random.default_rng(3), 12)
    table = np.histogram2d(cells[:, 0], cells[:, 1], (8, 4))[0] / 20_000
    assert table == pytest.approx(np.full((8, 4), 1 / 32), abs=0.006)


def test_a_table_of_three_is_kept_wherever_its_leading_column_stands():
    """The flag is decided by word and number together, and by neither alone."""
    table = np.zeros((8, 4, 2))
    for i in range(8):
        for j in range(4):
            table[i, j, (i + j) % 2] = 1 / 32
    for first in ((2,), (1,), (0,), ()):
        model = fitted({(0, 1, 2): table}, first=first)
        assert list(model.triples) == [(0, 1, 2)] and not model.pairs
        cells = model.drawn(10_000, np.random.default_rng(4), 12)
        assert ((cells[:, 0] + cells[:, 1]) % 2 == cells[:, 2]).mean() > 0.95
        assert not first or model.chain.order[0] == first[0]
