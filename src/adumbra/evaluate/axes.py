"""How well released principal axes match the truth (owner's side: the numbers are private)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adumbra.answer.release import Release
from adumbra.core.centred import Centred
from adumbra.core.schema import Schema
from adumbra.core.space import GRID
from adumbra.core.sums import Gram, symmetric
from adumbra.linalg.spectrum import leading, principal_angles, subspace_error
from adumbra.table.encode import encode
from adumbra.table.table import Table

__all__ = ["AxesCheck", "check_axes"]

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class AxesCheck:
    """Released axes beside those of the true rows, both about the centre of the release."""

    components: int
    captured: float
    """Variance along the released axes, as a share of the most that so many axes can hold (rows not cut)."""
    subspace_error: float
    """Of the released span against the true one of the rows as measured: 0 the same, 1 at right angles."""
    largest_angle: float
    """In degrees, between the same."""
    stated_angle: str | None
    """What the card said of it."""
    inside: float | None
    """Share of the true variances of the kept components that lie inside the error bars."""


def check_axes(release: Release, truth: Table, schema: Schema) -> AxesCheck:
    """Compare the axes of a release by lip, lop, analyze_gauss or power_method with those of the truth."""
    space, arrays, parameters = schema.space(), release.arrays, release.card.parameters
    axes: Reals = np.asarray(arrays["axes"], dtype=np.float64).T
    width, kept = axes.shape
    centre = arrays.get("mean")
    whole = Gram(width, view=Centred.about(centre, 4.0 * space.reach / GRID, space))
    cut = Gram(width, view=Centred.about(centre, parameters.get("rows cut to", 4.0 * space.reach / GRID), space))
    moments = [_moment(query, truth, schema) for query in (whole, cut)]
    best = float(leading(moments[0], kept)[0].sum())
    values, true_axes = leading(moments[1], kept)
    sines = principal_angles(axes, true_axes)
    inside = None
    if "spectrum_low" in arrays:
        low, high = arrays["spectrum_low"][:kept], arrays["spectrum_high"][:kept]
        inside = float(((low <= values) & (values <= high)).mean())
    return AxesCheck(
        components=kept,
        captured=float(np.trace(axes.T @ moments[0] @ axes)) / max(best, 1e-300),
        subspace_error=subspace_error(axes, true_axes),
        largest_angle=math.degrees(math.asin(min(float(sines.max()), 1.0))),
        stated_angle=parameters.get("largest angle to the true span, 95 %"),
        inside=inside,
    )


def _moment(query: Gram, truth: Table, schema: Schema) -> Reals:
    total: dict[str, Reals] = {}
    for frame in truth.batches([column.name for column in schema.released]):
        for name, part in query.answer(encode(frame, schema).values).items():
            total[name] = total.get(name, np.zeros(part.shape)) + part * query.parts[0].step
    return symmetric(total["diagonal"], total.get("upper")) / truth.count()
