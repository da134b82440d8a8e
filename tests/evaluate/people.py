"""A made-up table of people, and what one pass keeps of two tables."""

from __future__ import annotations

import numpy as np
import polars as pl

import adumbra as ad
from adumbra.compare.table_layout import CellLayout
from adumbra.compare.table_tally import Tally, read_tally
from adumbra.tables.read import open_table

SPEC = {
    "age": {"kind": "number", "low": 0, "high": 100, "missing": 45},
    "visits": {"kind": "number", "low": 0, "high": 9, "integer": True},
    "sex": {"kind": "category", "values": ["F", "M"]},
    "smoker": {"kind": "flag"},
    "outcome": {"kind": "category", "values": ["well", "ill", "dead"], "role": "label"},
}
SCHEMA = ad.Schema.from_dict({"table": {"name": "people"}, "columns": SPEC})


def people(count: int, seed: int = 0) -> pl.DataFrame:
    """Rows whose outcome depends on age and smoking, so that a model has something to learn."""
    rng = np.random.default_rng(seed)
    age, smoker = rng.uniform(0, 100, count), rng.random(count) < 0.4
    risk = age / 100 + 0.4 * smoker + 0.1 * rng.standard_normal(count)
    return pl.DataFrame(
        {
            "age": age,
            "visits": rng.integers(0, 10, count),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, count)],
            "smoker": smoker,
            "outcome": np.array(["well", "ill", "dead"])[np.digitize(risk, [0.5, 1.0])],
        }
    )


def tallies(
    truth: pl.DataFrame, release: pl.DataFrame, schema: ad.Schema = SCHEMA, keep: int = 0
) -> tuple[Tally, Tally]:
    """Both tables read by the schema."""
    layout = CellLayout(schema)
    return read_tally(open_table(truth), layout, keep), read_tally(open_table(release), layout, keep)
