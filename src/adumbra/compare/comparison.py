"""What every comparison of a release with the truth has in common: what it is made from, and how it is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Progress
from adumbra.declare.schema import Schema
from adumbra.report.document import Section
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = ["MOST_SHOWN", "Beside", "Comparison", "Progress", "more", "no_models", "share"]

MOST_SHOWN = 20
"""Lines of a table for people; machines get all."""


@dataclass(frozen=True, eq=False)
class Beside:
    """A release and the truth, opened and checked, before anything of them is read."""

    schema: Schema
    truth: Table
    truth_rows: Callable[[], int]
    """Counts the truth when asked; refuses a table that cannot be read."""
    made: Callable[[], Table]
    """The released rows as a table."""
    test: Callable[[], Table] | None
    """Held-out rows, where the owner gave some."""
    label: str | None
    """The label that the owner asked for."""
    progress: Progress

    def true_rows(self) -> Iterator[NDArray[np.float64]]:
        """The truth encoded as the release read it, in grid steps, batch by batch; no row bound is applied."""
        yield from RowSource(self.schema, self.truth).partitions()


class Comparison(ABC):
    """A release beside the truth: a frozen dataclass whose fields go into the report under their own names."""

    notes: tuple[str, ...]

    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """For people."""

    def to_dict(self) -> dict[str, Any]:
        """For machines: the fields, without the notes."""
        found = asdict(self)  # type: ignore[call-overload] # every comparison is a dataclass
        found.pop("notes")
        return dict(found)


def no_models(beside: Beside, what: str) -> None:
    """Refuse a test table and a label for a release of `what`, which no model learns from."""
    if beside.test is not None or beside.label is not None:
        raise InputError(
            f"neither --test nor --label for a release of {what}",
            "one of them",
            "leave it out: models are compared for rows in the schema's own columns",
        )


def share(value: float | None) -> str | None:
    """Four digits after the point, so that columns can be compared by eye."""
    return None if value is None else f"{value:.4f}"


def more(count: int) -> str:
    """What a title says of lines that are not shown."""
    return f" ({count - MOST_SHOWN} more in --json)" if count > MOST_SHOWN else ""
