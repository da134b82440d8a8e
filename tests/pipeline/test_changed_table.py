"""Rows are read twice: a table that changed in between is refused, one that did not is not."""

from __future__ import annotations

import contextlib

import numpy as np
import polars as pl
import pytest

import adumbra as ad
import adumbra.privacy.meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.second_moment import RowsAndGram
from tests.queries import test_sums

NUMBER = {"kind": "number", "low": 0, "high": 1}


@pytest.mark.parametrize("cell", [0.499999, 0.5, 0.500001])
def test_a_cell_just_below_the_middle_does_not_look_like_a_changed_table(cell):
    """It encodes to -0.0, which the rows kept for a second look had as 0.0: the release failed on that one cell."""
    out = ad.release(
        pl.DataFrame({"a": [0.1, cell, 0.9]}),
        ad.Schema.from_dict({"columns": {"a": NUMBER}}),
        ad.DPRP(),
        ad.Budget(1.0),
    )
    assert out.table.height == 3


def test_a_table_that_changes_between_rows_and_second_moment_is_refused():
    """One row, another value: both halves were calibrated at one pair of tables, so they must have seen one table."""
    space = test_sums.space_of("number")
    for values, same in (([5.0, 6.0], False), ([5.0, 5.0], True)):
        told = iter(values)
        rows = PrivateRows(space, 1, lambda told=told: iter([np.full((1, 1), next(told))]))
        meter = adumbra.privacy.meter.Meter(rows, test_sums.WEAK, {"a": 1.0}, lambda *_: None)
        noisy = meter.measure("a", RowsAndGram(test_sums.map_of("identity", space, 1), 1.0))
        with contextlib.nullcontext() if same else pytest.raises(ad.InputError, match="changed"):
            list(noisy.rows.batches)
