"""Two neighbouring tables on which a mechanism's promise is put to the test.

Every mechanism brings its own: for each promise it can make, a pair that comes as close to breaking it as its theory
allows. `adumbra audit` attacks these pairs, and others that it derives from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.schema import Schema

__all__ = ["Challenge", "Row", "emptied"]

Row = Mapping[str, str | None]
"""A row as a text file has it: cell by column, None where it is empty."""


@dataclass(frozen=True, eq=False)
class Challenge:
    """Both tables have the `shared` rows, and then the row `one` or the row `other` (None: no row at all).

    Rows have a cell for every column that is measured, and may have one for others of the schema (ids, derived
    columns), which nothing may look at.
    """

    neighbours: Neighbours
    schema: Schema
    one: Row
    other: Row | None
    why: str
    """What makes the pair hard, in a few words."""
    shared: tuple[Row, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the mechanism."""
    row_bound: float | None = None
    fresh: bool = False
    """Draw the public seed anew for each run: what is promised then averages over projections."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"not a pair of neighbours ({self.neighbours}): {problem}")

    def tables(self) -> tuple[list[Row], list[Row]]:
        """All rows of both tables."""
        return [*self.shared, self.one], [*self.shared, *([] if self.other is None else [self.other])]

    def _problem(self) -> str | None:
        names = set(self.one)
        rows = [row for row in (*self.shared, self.one, self.other) if row is not None]
        measured, declared = {c.name for c in self.schema.measured}, {c.name for c in self.schema.columns}
        if any(set(row) != names for row in rows) or not measured <= names <= declared:
            return "rows need a cell for each column of the schema that is measured"
        unit, relation = self.neighbours.unit, self.neighbours.relation
        if (self.other is None) != (relation is Relation.ADD_REMOVE):
            return "one table has a row less under add-remove, and only there"
        if self.other is None:
            return None
        changed = [name for name in names if self.one[name] != self.other[name]]
        if unit is Unit.CELL and len(changed) > 1:
            return "more than one cell differs"
        if relation is Relation.ZERO_OUT and any(self.other[name] is not None for name in changed):
            return "the other row is not emptied"
        if unit is Unit.ROW and relation is Relation.ZERO_OUT and any(cell is not None for cell in self.other.values()):
            return "the other row is not empty"
        return None


def emptied(row: Row) -> Row:
    """The row with nothing in it."""
    return dict.fromkeys(row)
