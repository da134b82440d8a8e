"""Principal components: axes with error bars, every person's row along them, or rows in the schema's columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from adumbra.common.types import Reals
from adumbra.compare.axes_fit import AxesCheck, ReleasedAxes, check_axes
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.compare.table_comparison import compare_tables
from adumbra.declare.space import GRID
from adumbra.kinds.attack_views import Sight, View, image_views, schema_row_views, sum_views
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.kinds.principal_components import PrincipalComponents
from adumbra.kinds.projected_rows import ENCODED_UNITS
from adumbra.kinds.reconstructed_rows import ALIGNED
from adumbra.kinds.synthetic_table import DRAWN
from adumbra.releases.card import CardWords
from adumbra.report.document import Section

__all__ = ["CENTRES", "AxesComparison", "ComponentFacts", "Components", "ComponentsFacts", "Result"]

Result = Literal["axes", "coordinates", "approximation", "samples"]
"""What the rows of the release are: one axis each; people along the axes; the same, or drawn rows, in the schema's
columns."""
_RESULTS: dict[Result, str] = {
    "axes": "axes: a row of this release is a principal axis",
    "coordinates": "coordinates: a row is a person's, along the axes, with noise",
    "approximation": "approximation: a row is a person's, along the axes, with noise, in the schema's own columns",
    "samples": "samples: rows drawn from the axes, no person's, in the schema's own columns",
}
CENTRES = {
    "measured": "the mean, measured with noise",
    "middle": "the middle of the declared ranges (0 for a category): the first axis may be the way from there to the "
    "rows",
}


class ComponentFacts(BaseModel):
    """One component that was kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    component: int
    variance: float
    variance_low: float
    variance_high: float
    measured: float
    share: float | None = None
    """Of the variance of all directions, where that was measured."""
    above_noise: bool
    axis_within_degrees: float | None = None
    """None where nothing is known of the angle."""


class ComponentsFacts(KindFacts):
    """Facts of principal components."""

    kind: ClassVar[str] = "components"
    result: Result
    components: int
    """Axes that were kept."""
    components_above_noise: int | None = None
    """None where the axes were not measured."""
    noise_edge: float | None = None
    axes_clipped_to: float | None = None
    """Length that rows were clipped to where axes were measured; None where they were not."""
    rows_clipped_to: float | None = None
    """Length that published rows were clipped to; None where they stayed whole or are not published."""
    row_line: str | None = None
    """Measurement of the rows, where they are published."""
    total_variance: float | None = None
    """Of all directions together, where it was measured."""
    sine_bound: float | None = None
    """On the largest angle to the true span, 95 %; 1 where nothing is known, None where nothing is stated."""
    centre: Literal["measured", "middle"] | None = None
    """What the axes are about; None where they were not measured."""
    basis: str | None = None
    """Where axes that were not measured came from, and their hash."""
    basis_sha256: str | None = None
    spectrum: tuple[ComponentFacts, ...] = ()
    """The components that were kept, where they were measured."""
    axes_bounded: bool = False
    """Whether the angle of each axis was looked into."""

    @property
    def clipped_to(self) -> float | None:
        """Length of the rows that the axes belong to."""
        return self.rows_clipped_to if self.axes_clipped_to is None else self.axes_clipped_to

    @property
    def angle(self) -> str | None:
        """The bound on the largest angle, in words."""
        if self.sine_bound is None:
            return None
        return "no bound" if self.sine_bound >= 1 else f"{math.degrees(math.asin(self.sine_bound)):.1f} degrees"

    def listed(self) -> list[dict[str, Any]]:
        """The components as rows of a table."""
        absent = {"share"} if self.total_variance is None else set()
        absent |= set() if self.axes_bounded else {"axis_within_degrees"}
        return [component.model_dump(exclude=absent) for component in self.spectrum]


@dataclass(frozen=True)
class AxesComparison(Comparison):
    """Released beside true axes."""

    axes: AxesCheck
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """One table."""
        return (self.axes.section(),)


class Components(Kind[ComponentsFacts]):
    """Principal axes and what lies along them."""

    name: ClassVar[str] = "components"
    facts_type = ComponentsFacts
    questions: ClassVar[dict[str, str]] = {"axes": "components"}

    def answers(self, content: Content) -> PrincipalComponents:
        """Axes, variances, loadings."""
        return PrincipalComponents(content, self.facts(content.card))

    def words(self, facts: ComponentsFacts) -> CardWords:
        """What was found of the spectrum."""
        told: dict[str, Any] = {"result": _RESULTS[facts.result]}
        more = {
            "components": None if facts.result == "axes" else facts.components,  # else they are the rows
            "components above the noise": facts.components_above_noise,
            "noise edge": facts.noise_edge,
            "axes from rows clipped to": facts.axes_clipped_to,
            "published rows clipped to": facts.rows_clipped_to,
            "variance of all directions": facts.total_variance,
            "largest angle to the true span, 95 %": facts.angle,
            "axes are about": None if facts.centre is None else CENTRES[facts.centre],
            "basis": facts.basis,
            "basis sha256": facts.basis_sha256,
        }
        told |= {label: value for label, value in more.items() if value is not None}
        questions = {"approximation": (ENCODED_UNITS, ALIGNED), "samples": (ENCODED_UNITS, DRAWN)}
        return CardWords(
            row="components" if facts.result == "axes" else "rows",
            facts=told,
            tables={"Components": facts.listed()} if facts.spectrum else {},
            row_bound=WHOLE if facts.clipped_to is None else None,
            questions=questions.get(facts.result, (ENCODED_UNITS,)),
        )

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Rows in the schema's columns as tables, anything else by the axes."""
        facts = self.facts(content.card)
        if facts.result in ("approximation", "samples"):
            return compare_tables(beside)
        no_models(beside, "principal axes")
        arrays, kept = content.arrays(), facts.components
        beside.progress("reading the truth", 0, 0)
        beside.truth_rows()
        measured = facts.components_above_noise is not None
        released = ReleasedAxes(
            axes=np.asarray(arrays["axes"], dtype=np.float64),
            centre=arrays["mean"] if facts.centre == "measured" else None,
            clipped_to=facts.clipped_to,
            stated_angle=facts.angle,
            bars=(arrays["spectrum_low"][:kept], arrays["spectrum_high"][:kept]) if measured else None,
        )
        clipped = "not clipped" if facts.clipped_to is None else f"clipped to a length of {facts.clipped_to:.3g}"
        note = f"axes about the centre of the release; angles and variances are of rows {clipped}, as the card says"
        return AxesComparison(check_axes(released, beside.truth, beside.schema), (note,))

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """People's rows where they are published, and the sums that the axes were made from."""
        facts, axes = self.facts(content.card), content.arrays()["axes"]

        def along(rows: Reals) -> Reals:
            return np.asarray(_shortened(rows, facts.rows_clipped_to) @ axes.T)

        out: dict[str, View] = {}
        if facts.result == "coordinates" and facts.row_line is not None:
            noise, seen = content.card.noise[facts.row_line], content.table().to_numpy()
            out = image_views(seen, along, noise, sight.reference)
        elif facts.result == "approximation":
            out = schema_row_views(content.table(), sight, facts.row_aligned, lambda rows: along(rows) @ axes)
        elif facts.result == "samples":
            out = schema_row_views(content.table(), sight, facts.row_aligned)
        return out | sum_views(sight.measured(), sight.rows, sight.reference)


def _shortened(rows: Reals, bound: float | None) -> Reals:
    """Encoded rows in encoded units, no longer than the bound."""
    scaled = rows / GRID
    if bound is None:
        return np.asarray(scaled)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled * np.minimum(1.0, bound / np.maximum(lengths, 1e-300)))
