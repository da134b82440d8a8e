"""Local differential privacy: each projected record with noise of its own, through the same door as every release.

A record is projected by a public map and cut to a public box; both act on it alone, so that neighbouring tables become
neighbouring tables. What is left is an ordinary release of a narrow table: rows as they are, with Laplace noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra import pipeline
from adumbra.core.challenge import Challenge
from adumbra.core.events import Event
from adumbra.core.guarantee import Budget, Neighbours, Promise, Relation, Unit
from adumbra.core.mechanism import Deltas, Door, Draft, Reference, Setting
from adumbra.core.query import RowMap
from adumbra.core.references import JUPA
from adumbra.core.schema import Schema
from adumbra.table.read import open_table

__all__ = ["NoisyRecords", "job_of", "simulated"]

Reals = NDArray[np.float64]
_LINE = "records"


@dataclass(frozen=True)
class NoisyRecords:
    """Rows of a narrow table as they are, with noise. `clip`: half the width of the box, in released units."""

    clip: float = 1.0

    name: ClassVar[str] = "jupa-laplace"
    title: ClassVar[str] = "projected records with noise of their own (local differential privacy)"
    releases: ClassVar[str] = "one noisy projected record per person, row-aligned"
    suits: ClassVar[str] = "a service that classifies records one by one, and no secret of the record may be told"
    caution: ClassVar[str] = (
        "one record bears all the noise: expect little use below epsilon 4 a component; the projection is public"
    )
    theorem: ClassVar[str] = "Laplace mechanism on the clipped projected record (docs/proofs/jupa.md)"
    differs: ClassVar[str] = (
        "The paper moves records towards a random class and calls the result private (its Theorem 1), which an "
        "adversary who simulates the step refutes. Here noise is added, and the promise is differential privacy."
    )
    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace",)
    answers: ClassVar[tuple[str, ...]] = ()
    deltas: ClassVar[Deltas] = "zero"
    cites: ClassVar[tuple[Reference, ...]] = (JUPA,)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A record moves from corner to corner of the box."""
        schema = _schema(("z1", "z2"), 1.0)
        low, high = {"z1": "-1", "z2": "-1"}, {"z1": "1", "z2": "1"}
        return (Challenge(Neighbours(Unit.ROW, Relation.REPLACE), schema, low, high, "from corner to corner"),)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """All of it."""
        return {_LINE: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, RowMap]:
        """The rows as they are."""
        return {_LINE: RowMap(np.eye(setting.space.width, dtype=np.int64), 1.0)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each."""
        return setting.rows or 0, setting.space.width

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """How large the noise is beside a record."""
        return [("noise on a component, in deviations of the public records", f"{2 * self.clip * noise[_LINE].sd:.4g}")]

    def run(self, door: Door, setting: Setting) -> Draft:
        """Measure, and put back into the units of the projection."""
        noisy = door.measure(_LINE, self.queries(setting)[_LINE])
        return Draft(
            columns=tuple(block.column for block in setting.space.blocks),
            batches=self._scaled(noisy.batches),
            parameters={"records cut to": self.clip},
        )

    def _scaled(self, batches: Iterator[Reals]) -> Iterator[Reals]:
        for batch in batches:
            yield 2 * self.clip * batch


def _schema(columns: tuple[str, ...], clip: float) -> Schema:
    return Schema.from_dict({"columns": {name: {"kind": "number", "low": -clip, "high": clip} for name in columns}})


def job_of(rows: Reals, columns: tuple[str, ...], clip: float, epsilon: float, name: str) -> pipeline.Job:
    """A release of projected records that has passed every check and measured nothing."""
    table = open_table(pl.DataFrame(dict(zip(columns, np.clip(rows, -clip, clip).T, strict=True))))
    budget = Budget(epsilon, 0.0, Unit.ROW, Relation.REPLACE)
    return pipeline.prepare(table, _schema(columns, clip), NoisyRecords(clip), budget, name=name)


def simulated(job: pipeline.Job) -> Reals:
    """What a release would hold; charges and writes nothing. For audits, never for private rows."""
    (draft,) = pipeline.rehearse(job, lambda meter: meter)
    return np.concatenate(list(draft.batches))
