"""Projected rows: every person's row through a random matrix, with noise (dppro; csm with input records)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from adumbra.common.errors import InputError
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.compare.distance_fit import DistanceCheck, check_distances
from adumbra.declare.space import GRID
from adumbra.kinds.attack_views import Sight, View, image_views
from adumbra.kinds.counts import SketchFacts
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.kinds.projection_answers import ProjectedAnswers
from adumbra.numerics.projections import ProjectionKind
from adumbra.releases.card import CardWords
from adumbra.report.document import Section

__all__ = ["ENCODED_UNITS", "Band", "DistanceComparison", "ProjectedRows", "ProjectedRowsFacts"]

ENCODED_UNITS = (
    "Encoded units: a number or flag that moves across its declared range, and a category that changes, each count 1 "
    "in a squared distance."
)
_PAIRS = 2000


class Band(BaseModel):
    """One projection of those that stand side by side."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: int
    share: float
    """Of the squared length of a row that this band gets."""
    expected: float | None = None
    """Squared distance that the dimension was chosen for."""


class ProjectedRowsFacts(KindFacts):
    """Facts of projected rows."""

    kind: ClassVar[str] = "projected_rows"
    row_aligned: Literal[True] = True
    line: str = "rows"
    """Of the measurement."""
    projection: ProjectionKind
    """The law of the matrix, by which distances are kept."""
    bands: tuple[Band, ...]
    dictionary: dict[str, Any] | None = None
    """Recipe of the dictionary that rows are sparse in, where they are reconstructed by matching pursuit."""
    atoms: int | None = None
    """Atoms of a row at most."""
    sketch: SketchFacts | None = None

    @property
    def dimension(self) -> int:
        """Numbers of a released row."""
        return sum(band.dimension for band in self.bands)


@dataclass(frozen=True)
class DistanceComparison(Comparison):
    """Estimated beside true distances."""

    distances: DistanceCheck
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """One table."""
        return (self.distances.section(),)


class ProjectedRows(Kind[ProjectedRowsFacts]):
    """Rows through a matrix."""

    name: ClassVar[str] = "projected_rows"
    facts_type = ProjectedRowsFacts
    questions: ClassVar[dict[str, str]] = {
        "distance": "distances",
        "neighbours": "neighbours",
        "count": "count",
        "mean": "mean",
        "linear": "linear",
        "moment": "covariance",
        "reconstruct": "reconstruct",
    }

    def answers(self, content: Content) -> ProjectedAnswers:
        """Distances, sums, moments, rows."""
        return ProjectedAnswers(content, self.facts(content.card))

    def words(self, facts: ProjectedRowsFacts) -> CardWords:
        """The projection."""
        told: dict[str, Any] = {
            "rows are": "one for each person, in the order of the table",
            "projection": facts.projection.value,
            "dimension": facts.dimension,
            "bands": [band.model_dump(exclude_none=True) for band in facts.bands],
        }
        told |= {} if facts.sketch is None else {"sketch": facts.sketch.told()}
        told |= {} if facts.dictionary is None else {"dictionary": facts.dictionary}
        return CardWords(facts=told, row_bound=WHOLE, questions=(ENCODED_UNITS,))

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Squared distances of fixed pairs: the rows are aligned with the truth, in another space."""
        no_models(beside, "projected rows")
        card = content.card
        beside.progress("reading the truth", 0, 0)
        rows = beside.truth_rows()
        if rows != card.rows:
            raise InputError(
                f"the table that the release was made from, with {card.rows} rows",
                f"{rows} rows",
                "give that table: released and true rows are compared by their number",
            )
        answers = self.answers(content)
        pairs = answers.random_pairs(_PAIRS)
        beside.progress("comparing distances", 0, 0)
        notes: tuple[str, ...] = (f"squared distances of {_PAIRS} fixed random pairs of rows, in encoded units",)
        if card.row_bound is not None:
            notes += ("rows were clipped to the row bound before the release; that counts as error here",)
        return DistanceComparison(check_distances(answers, beside.truth, beside.schema, pairs), notes)

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """Each row at its own place, or any."""
        facts, arrays = self.facts(content.card), content.arrays()
        matrix = arrays["matrix"] * float(arrays["step"]) / GRID
        noise, seen = content.card.noise[facts.line], content.table().to_numpy()
        return image_views(seen, lambda rows: np.asarray(rows @ matrix), noise, sight.reference)
