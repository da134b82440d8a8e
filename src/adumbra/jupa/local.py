"""Local differential privacy for projected records, through the same door as every other release.

A record is projected by a public map and clipped to a public box; both act on it alone, so that neighbouring tables
become neighbouring tables. What is left is an ordinary release of a narrow table (`mechanisms.noisy_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from adumbra import pipeline
from adumbra.common.types import Reals
from adumbra.declare.guarantee import Budget, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.ledger.ledger import Ledger
from adumbra.mechanisms.noisy_rows import NoisyRows
from adumbra.request import Request
from adumbra.tables.table import CellType, Table

__all__ = ["ProjectedTable", "job_for", "released_rows"]


class ProjectedTable(Table):
    """Projected records, each number clipped to `clip` in size; made batch by batch whenever they are read.

    `projected()` gives all of them, `records` in number, with a number for each of `columns`.
    """

    def __init__(
        self, projected: Callable[[], Iterator[Reals]], records: int, columns: tuple[str, ...], clip: float
    ) -> None:
        self.columns, self.clip = columns, clip
        self._projected, self._records = projected, records

    @property
    def types(self) -> dict[str, CellType]:
        """All of them are numbers."""
        return dict.fromkeys(self.columns, "number")

    def _rows(self) -> int:
        return self._records

    def _batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        for part in self._projected():
            for start in range(0, len(part), rows):
                clipped = np.clip(part[start : start + rows], -self.clip, self.clip)
                yield pl.DataFrame(dict(zip(self.columns, clipped.T, strict=True))).select(columns)


def job_for(table: ProjectedTable, epsilon: float, name: str, made_by: str | None = None) -> pipeline.Job:
    """A release of projected records under `epsilon` for each; everything is checked, nothing measured.

    `name` is the table's in the ledger; `made_by` says on the card where the projection comes from.
    """
    box = {"kind": "number", "low": -table.clip, "high": table.clip}
    schema = Schema.from_dict({"columns": dict.fromkeys(table.columns, box)})
    budget = Budget(epsilon, 0.0, Unit.ROW, Relation.REPLACE)
    return replace(pipeline.prepare(Request(table, schema, NoisyRows(), budget, name=name)), choice=made_by)


def released_rows(job: pipeline.Job, ledger: Ledger | None) -> Reals:
    """The numbers of a release that is charged to `ledger`, kept in memory."""
    released, _ = pipeline.release(job, None, ledger=ledger)
    return np.ascontiguousarray(released.table().to_numpy(), dtype=np.float64)
