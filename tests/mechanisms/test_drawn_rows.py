"""How many rows are drawn, and that drawing them never fails."""

from __future__ import annotations

import polars as pl
import pytest

import adumbra as ad

NUMBER = {"kind": "number", "low": 0, "high": 1}


def test_true_is_no_number_of_rows():
    for make in (lambda: ad.Tables(rows=True), lambda: ad.Tables(bins=True), lambda: ad.Moments(rows=float("nan"))):
        with pytest.raises(ad.InputError):
            make()


def test_few_drawn_rows_of_many_classes_never_fail_in_the_draw():
    schema = ad.Schema.from_dict(
        {
            "columns": {f"c{i}": NUMBER for i in range(10)}
            | {"y": {"kind": "category", "values": [str(i) for i in range(10)], "role": "label"}}
        }
    )
    table = pl.DataFrame({f"c{i}": [0.2, 0.8] for i in range(10)} | {"y": ["0", "1"]})
    for seed in range(40):
        out = ad.release(
            table, schema, ad.Hybrid(rows=20 + seed), ad.Budget(60.0, 1e-4), seed=ad.PublicSeed.given(str(seed))
        )
        assert out.table.height == 20 + seed


def test_a_wild_noisy_number_of_rows_draws_no_absurd_table():
    from adumbra.models.columns import rows_to_draw

    assert rows_to_draw(None, 5e11) == 10_000_000
    assert rows_to_draw(None, -40.0) == 1
