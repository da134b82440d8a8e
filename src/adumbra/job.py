"""A release on its way: what was checked and planned, and what its owner may want to know. Nothing is done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from adumbra.core.guarantee import Promise
from adumbra.core.mechanism import Mechanism, Query, Setting
from adumbra.core.schema import Schema
from adumbra.core.space import Space
from adumbra.privacy.meter import Calibration
from adumbra.table.encode import Repairs
from adumbra.table.table import Table

__all__ = ["Job", "OwnerNotes", "Plan"]


@dataclass
class OwnerNotes:
    """What the owner may want to know about the table. Private: never part of a release.

    `repairs` counts, for each released column, cells that were missing, unknown or out of range; `clipped_rows` counts
    rows that were longer than the row bound.
    """

    HEADING: ClassVar[str] = (
        "for the owner only (private, not in the release): cells that went to a fallback or were clipped"
    )

    repairs: dict[str, Repairs] = field(default_factory=dict)
    clipped_rows: int = 0

    def add(self, repairs: Mapping[str, Repairs]) -> None:
        """Count one batch."""
        for column, found in repairs.items():
            self.repairs[column] = self.repairs[column] + found if column in self.repairs else found

    def lines(self, most: int = 20) -> list[str]:
        """One line for each column with repaired cells, at most so many, and one for clipped rows; none if none."""
        changed = {column: r for column, r in self.repairs.items() if r.missing or r.unknown or r.clipped}
        found = [
            f"{column}: {r.missing} missing, {r.unknown} unknown, {r.clipped} out of range"
            for column, r in list(changed.items())[:most]
        ]
        found += [f"and {len(changed) - most} more columns"] * (len(changed) > most)
        return found + [f"rows clipped to the row bound: {self.clipped_rows}"] * bool(self.clipped_rows)


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


@dataclass(frozen=True)
class Plan:
    """What a release would do, from shape and schema alone. It holds the private table: the owner's own."""

    job: Job
    queries: Mapping[str, Query]
    shares: Mapping[str, float]
    calibrations: Mapping[str, Calibration]
    costs: Mapping[str, float | None]
