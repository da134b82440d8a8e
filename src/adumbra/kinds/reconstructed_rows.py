"""Reconstructed rows: one for each person, in the order of the table and in the schema's own columns."""

from __future__ import annotations

from typing import ClassVar, Literal

from adumbra.compare.comparison import Beside, Comparison
from adumbra.compare.table_comparison import compare_tables
from adumbra.kinds.attack_views import Sight, View, schema_row_views, sum_views
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.kinds.synthetic_table import ANY_TOOL
from adumbra.releases.card import CardWords

__all__ = ["ALIGNED", "ReconstructedRows", "ReconstructedRowsFacts"]

ALIGNED = (
    f"{ANY_TOOL} Each row was worked out from the noisy numbers of one person's row, in the order of the table, and "
    "is about that person; the spread of such rows is not that of the people."
)


class ReconstructedRowsFacts(KindFacts):
    """Facts of reconstructed rows."""

    kind: ClassVar[str] = "reconstructed_rows"
    row_aligned: Literal[True] = True
    reconstruction: str
    """How a row was worked out from noisy numbers."""
    projection: str
    dimension: int
    """Noisy numbers of each row."""
    ensemble: int = 1
    weight: float
    """Of the second moment beside the rows in the joint measurement."""


class ReconstructedRows(Kind[ReconstructedRowsFacts]):
    """Rows worked out from noisy projections, person by person."""

    name: ClassVar[str] = "reconstructed_rows"
    facts_type = ReconstructedRowsFacts

    def words(self, facts: ReconstructedRowsFacts) -> CardWords:
        """How rows were made."""
        told = {
            "rows are": "one for each person, in the order of the table",
            "reconstruction": facts.reconstruction,
            "projection": facts.projection,
            "noisy numbers of a row": facts.dimension,
            "projections of each row": facts.ensemble,
            "weight of the second moment": facts.weight,
        }
        return CardWords(facts=told, row_bound=WHOLE, questions=(ALIGNED,))

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """As tables."""
        return compare_tables(beside)

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """Each row at its own place, the nearest one, and the second moment that was measured with them."""
        rows = schema_row_views(content.table(), sight, row_aligned=True)
        return rows | sum_views(sight.measured(), sight.rows, sight.reference)
