"""How well released principal axes match the truth (owner's side: the numbers are private)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Reals
from adumbra.compare.comparison import share
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.numerics.spectrum import leading, principal_angles, subspace_error
from adumbra.queries.row_map import RowClip
from adumbra.queries.second_moment import Gram, symmetric
from adumbra.report.document import Section
from adumbra.report.document import Table as Shown
from adumbra.tables.row_source import RowSource
from adumbra.tables.table import Table

__all__ = ["AxesCheck", "ReleasedAxes", "check_axes"]


@dataclass(frozen=True, eq=False)
class ReleasedAxes:
    """Axes as a release has them, and what it says of the rows they were measured on."""

    axes: Reals
    """One row for each."""
    centre: Reals | None
    clipped_to: float | None
    """Length that rows were clipped to, in encoded units; None where they stayed whole."""
    stated_angle: str | None
    bars: tuple[Reals, Reals] | None
    """Both ends of the error bars of the variances."""


@dataclass(frozen=True)
class AxesCheck:
    """Released axes beside those of the true rows, both about the centre of the release."""

    components: int
    captured: float
    """Variance along the released axes, as a share of the most that so many axes can hold (rows not clipped)."""
    subspace_error: float
    """Of the released span against the true one of the rows as measured: 0 the same, 1 at right angles."""
    largest_angle: float
    """In degrees, between the same."""
    stated_angle: str | None
    """What the card said of it."""
    inside: float | None
    """Share of the true variances of the kept components that lie inside the error bars."""
    clipped_to: float | None = None
    """Length that the true rows were clipped to for the angles and variances; None: not clipped."""

    def section(self) -> Section:
        """Seen beside stated."""
        rows = (
            ("variance along them, of the most that so many can hold", share(self.captured), None),
            ("subspace error (0: the same span, 1: at right angles)", share(self.subspace_error), None),
            ("largest angle to the true span", f"{self.largest_angle:.1f} degrees", self.stated_angle),
            ("true variances inside the error bars", share(self.inside), None),
        )
        title = f"principal axes: {self.components} kept"
        return Section(title, (Shown(("what", "seen", "stated"), rows),))


def check_axes(released: ReleasedAxes, truth: Table, schema: Schema) -> AxesCheck:
    """Compare the axes of a release (`released`) with those of the true rows (`truth`, read by `schema`)."""
    space = schema.space()
    axes = released.axes.T
    width, kept = axes.shape
    unclipped = 4.0 * space.reach / GRID
    whole = Gram(width, clip=RowClip.about(released.centre, unclipped, space))
    as_measured = Gram(width, clip=RowClip.about(released.centre, released.clipped_to or unclipped, space))
    moments = _moments((whole, as_measured), truth, schema)
    best = float(leading(moments[0], kept)[0].sum())
    values, true_axes = leading(moments[1], kept)
    sines = principal_angles(axes, true_axes)
    inside = None
    if released.bars is not None:
        low, high = released.bars
        inside = float(((low <= values) & (values <= high)).mean())
    return AxesCheck(
        components=kept,
        captured=float(np.trace(axes.T @ moments[0] @ axes)) / max(best, 1e-300),
        subspace_error=subspace_error(axes, true_axes),
        largest_angle=math.degrees(math.asin(min(float(sines.max()), 1.0))),
        stated_angle=released.stated_angle,
        inside=inside,
        clipped_to=released.clipped_to,
    )


def _moments(queries: Sequence[Gram], truth: Table, schema: Schema) -> list[Reals]:
    """Mean second moments of the true rows, in one reading."""
    totals: list[dict[str, Reals]] = [{} for _ in queries]
    for rows in RowSource(schema, truth).partitions():
        for query, total in zip(queries, totals, strict=True):
            for name, part in query.answer(rows).items():
                total[name] = total.get(name, np.zeros(part.shape)) + part * query.parts[0].step
    return [symmetric(total["diagonal"], total.get("upper")) / truth.count() for total in totals]
