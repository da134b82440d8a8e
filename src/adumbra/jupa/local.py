"""Local differential privacy for projected records, through the same door as every other release.

A record is projected by a public map and cut to a public box; both act on it alone, so that neighbouring tables become
neighbouring tables. What is left is an ordinary release of a narrow table (`mechanisms.noisy_rows`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.core.guarantee import Budget, Relation, Unit
from adumbra.core.schema import Schema
from adumbra.mechanisms.noisy_rows import NoisyRows
from adumbra.table.read import open_table

__all__ = ["job_of"]

Reals = NDArray[np.float64]


def job_of(
    rows: Reals, columns: tuple[str, ...], clip: float, epsilon: float, name: str, made_by: str | None = None
) -> pipeline.Job:
    """A release of projected records, each number cut to `clip` in size; everything is checked, nothing measured.

    `made_by` says on the card where the projection comes from.
    """
    box = {"kind": "number", "low": -clip, "high": clip}
    schema = Schema.from_dict({"columns": dict.fromkeys(columns, box)})
    table = open_table(pl.DataFrame(dict(zip(columns, np.clip(rows, -clip, clip).T, strict=True))))
    budget = Budget(epsilon, 0.0, Unit.ROW, Relation.REPLACE)
    return replace(pipeline.prepare(table, schema, NoisyRows(), budget, name=name), choice=made_by)
