"""A synthetic table: rows in the schema's own columns, drawn from a model; none of them is anybody's."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from adumbra.compare.comparison import Beside, Comparison
from adumbra.compare.table_comparison import compare_tables
from adumbra.kinds.attack_views import Sight, View, schema_row_views, sum_views
from adumbra.kinds.joint_facts import JointFacts
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.releases.card import CardWords

__all__ = ["ANY_TOOL", "DRAWN", "PredictedError", "SyntheticTable", "SyntheticTableFacts"]

ANY_TOOL = "Anything that is asked of a table: its columns are those of the schema, and any tool reads it."
DRAWN = f"{ANY_TOOL} Its rows are drawn, so a standard error worked out as if they were people is too small."


class PredictedError(BaseModel):
    """What the noise alone will make of the errors that `evaluate` measures."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    marginal_tv: float | None = None
    """Total variation of a column, mean."""
    pair_tv: float | None = None
    """Total variation of the joint table of two columns, mean."""
    correlation: float | None = None
    """Error of a correlation, mean."""

    def known(self) -> dict[str, float]:
        """Those that were predicted."""
        return {name: value for name, value in self.model_dump().items() if value is not None}


class SyntheticTableFacts(KindFacts):
    """Facts of a table that was drawn."""

    kind: ClassVar[str] = "synthetic_table"
    drawn: ClassVar[bool] = True
    row_aligned: Literal[False] = False
    label: tuple[str, ...] = ()
    """Columns whose combinations of values make the classes."""
    classes: int = 1
    cells: int | None = None
    """Of all one-way tables together, where those were measured."""
    bins: int | None = None
    """Cells of a number."""
    joint: JointFacts | None = None
    """What was measured of several columns together, where anything was."""
    predicted_error: PredictedError = PredictedError()


class SyntheticTable(Kind[SyntheticTableFacts]):
    """Rows drawn from a model."""

    name: ClassVar[str] = "synthetic_table"
    facts_type = SyntheticTableFacts

    def words(self, facts: SyntheticTableFacts) -> CardWords:
        """Classes, cells, and what the noise will do."""
        told: dict[str, Any] = {"label": list(facts.label) or "none", "classes": facts.classes}
        told |= {} if facts.cells is None else {"cells": facts.cells}
        told |= {} if facts.bins is None else {"cells of a number": facts.bins}
        told |= {} if facts.joint is None else facts.joint.told()
        if predicted := facts.predicted_error.known():
            told["predicted error"] = predicted
        tables = {} if facts.joint is None else facts.joint.tables()
        return CardWords(facts=told, tables=tables, row_bound=WHOLE, questions=(DRAWN,))

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """As tables."""
        return compare_tables(beside, self.facts(content.card).predicted_error.known())

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """The nearest row, and the sums that the model was made from."""
        rows = schema_row_views(content.table(), sight, row_aligned=False)
        return rows | sum_views(sight.measured(), sight.rows, sight.reference)
