"""Residuals of a row depend on that row alone."""

from __future__ import annotations

import numpy as np

from adumbra.declare.space import HALF
from adumbra.queries.scores import BALL, Residuals
from tests.queries import test_sums


def test_residuals_on_the_edge_of_a_step_depend_on_their_row_alone():
    """The radius puts a row's residual on a whole step, as its product comes out in company."""
    rng = np.random.default_rng(0)
    rows = np.rint(rng.normal(size=(40, 12)) * HALF / 5)
    given = Residuals(rng.normal(size=(12, 1)), None, np.zeros((1, 1)), 1.0)
    whole = test_sums.ball_scores(12, 0).of(rows)
    for company in (2, 3, 5, 8, 13, 40):
        together = (whole[:company] @ given.matrix)[:, 0] / BALL
        for row in range(company):
            residuals = Residuals(given.matrix, None, np.zeros((1, 1)), 2 * abs(float(together[row])))
            scores = test_sums.ball_scores(12, 0, residuals)
            assert np.array_equal(scores.of(rows[:company])[row], scores.of(rows[row : row + 1])[0]), (company, row)
