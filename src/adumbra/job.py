"""A release on its way: what was checked and planned. Nothing is done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adumbra.declare.guarantee import Promise
from adumbra.declare.schema import Schema
from adumbra.declare.space import Space
from adumbra.families.contract import Mechanism, Query, Setting
from adumbra.privacy.meter import Calibration
from adumbra.tables.row_source import OwnerNotes, RowSource
from adumbra.tables.table import Table

__all__ = ["Job", "Plan"]


@dataclass(frozen=True, eq=False)
class Job:
    """A release that has passed every check and measured nothing. It holds the private table: the owner's own."""

    table: Table = field(repr=False)
    schema: Schema
    mechanism: Mechanism
    promise: Promise
    setting: Setting
    name: str
    count: int = field(repr=False)
    """Rows of the table: private under add-remove, and used only to check that the table did not change."""
    choice: str | None = None
    """Why this mechanism, where it was chosen by rule."""

    @property
    def space(self) -> Space:
        """The encoded rows' public shape."""
        return self.setting.space


@dataclass(frozen=True, repr=False)
class Plan:
    """What a release would do, from shape and schema alone. It holds the private table: the owner's own."""

    job: Job
    queries: Mapping[str, Query]
    shares: Mapping[str, float]
    calibrations: Mapping[str, Calibration]
    costs: Mapping[str, float | None]

    @property
    def readings(self) -> int:
        """How often the rows are read: once for each measurement, twice for rows measured with their second moment."""
        return sum(query.readings for query in self.queries.values())

    def owner_notes(self) -> OwnerNotes:
        """Counts of cells that are missing, cannot be read or would be clipped: private, and free.

        A wrong date format or blank word shows here, before anything is charged.
        """
        source = RowSource(self.job.schema, self.job.table, self.job.space.row_bound)
        for _ in source.partitions():
            pass
        return source.notes

    def __repr__(self) -> str:
        """Mechanism, promise, lines and costs: public facts, never the table or its number of rows."""
        lines = [
            f"{line}: share {self.shares[line]:.4g}, {found.event.noise} noise of sd {found.event.sd:.4g}"
            for line, found in self.calibrations.items()
        ]
        costs = [f"{key} {'no finite cost' if cost is None else f'{cost:.4g}'}" for key, cost in self.costs.items()]
        return "\n  ".join(
            [f"Plan({self.job.mechanism.name}: {self.job.promise}", *lines, f"epsilon for {', '.join(costs)})"]
        )
