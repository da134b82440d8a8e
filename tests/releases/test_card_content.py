"""What a card says, and what it can hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.releases.card import sentence

ROW = Neighbours(Unit.ROW, Relation.REPLACE)


def test_the_promise_does_not_call_delta_the_probability_of_a_larger_change():
    assert "except with probability" not in sentence(1.0, 1e-6, ROW, "per-matrix", None)


NUMBER = {"kind": "number", "low": 0, "high": 1}


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda: ad.Tables(bins=np.int64(5), rows=np.int64(6)),
        lambda: ad.Moments(narrow=np.bool_(True), rows=6),
        lambda: ad.DPRP(projection="gaussian", dimension=np.int64(2), ensemble=np.int64(2)),
        lambda: ad.DPPro(dimension=np.int64(1)),
    ],
)
def test_numbers_of_numpy_do_not_stop_the_card(mechanism):
    schema = ad.Schema.from_dict({"columns": {"a": NUMBER, "b": NUMBER}})
    table = pl.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    assert ad.release(table, schema, mechanism(), ad.Budget(np.float32(1.0))).verify() == []
