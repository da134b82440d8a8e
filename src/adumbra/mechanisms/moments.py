"""Moments: centre and scale are measured, then counts, sums and the second moment; then any number of rows is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.types import Reals
from adumbra.declare.guarantee import Promise
from adumbra.declare.space import CATEGORY_STEPS, HALF
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.row_count import known_rows, measured_arrays, measured_names, with_size, with_size_query
from adumbra.families.synthetic import DrawnTable
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.mechanisms.bibliography import ANALYZE_GAUSS
from adumbra.models.columns import (
    Columns,
    classes_to_draw,
    drawing,
    in_batches,
)
from adumbra.models.shrinkage import (
    apportion,
    class_counts,
    onto_simplex,
    predicted_correlation_error,
    shrunk_to,
    soft_spectrum,
    stein_means,
)
from adumbra.queries.cells import Cells
from adumbra.queries.scores import Linear, Scores
from adumbra.queries.second_moment import MomentsQuery, symmetric
from adumbra.queries.sums import CentreScale

__all__ = ["Moments"]

_CENTRE, _MOMENTS = "centre and scale", "moments"
_SECOND = 0.6
"""Weight of the second moment; those of counts and sums follow (binomial: sensitivity exactly sqrt 2)."""
_RADIUS = 0.7
_LIMIT = 4.0
_FLAT = 0.02  # variance below which a value of a category is treated as if it had this one


@dataclass(frozen=True)
class Moments(DrawnTable):
    """Parameters, all public.

    * `label`: the column whose classes get their own means (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has, at least 40,000 (10,000 if it is wide).
    * `narrow`: leave columns narrower by what clipping to the ball took. Fewer drawn values then fall outside their
      range, which helps a model trained on them; means, spreads and shares of columns are worse.
    """

    narrow: bool = False

    name: ClassVar[str] = "moments"
    title: ClassVar[str] = "class means and one covariance, measured once, then sampled"
    releases: ClassVar[str] = "a synthetic table of any number of rows, and the noisy moments it was drawn from"
    suits: ClassVar[str] = "training a model on numeric tables; correlations; tables wider than they are long"
    caution: ClassVar[str] = (
        "synthetic rows, not people: no row stands for a person; skewed or many-peaked columns come out bell-shaped"
    )
    theorem: ClassVar[str] = (
        "Gaussian mechanism (Balle and Wang 2018, Theorem 8), composed adaptively; docs/proofs/sums.md"
    )
    differs: ClassVar[str] = (
        "This mechanism is our own. It drops DPRP's rows, which carry little at small epsilon, and spends all on "
        "moments of rows whose centre and scale were themselves measured privately."
    )
    cites: ClassVar[tuple[Reference, ...]] = (ANALYZE_GAUSS,)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """A fifth of the budget for centre and scale, the rest for the moments."""
        return with_size(setting, {_CENTRE: 0.2, _MOMENTS: 0.8})

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Both measurements; the second with the middle of the ranges for a centre."""
        columns = self.narrow_columns(setting)
        stand_in = _ScoreScale.of_ranges(columns)
        return with_size_query(
            setting, {_CENTRE: CentreScale(columns.features), _MOMENTS: _second_query(columns, stand_in)}
        )

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """How much of the covariance will exceed the `noise` in this `setting`, whatever the `promise`."""
        columns = self.narrow_columns(setting)
        width = sum(b.width for b in columns.features)
        out = self.shape_to_expect(setting)
        if setting.rows:
            sd = noise[_MOMENTS].sd / (_SECOND * math.sqrt(2.0)) / setting.rows * _RADIUS**2 * width
            edge = 2 * sd * math.sqrt(width)
            out.append(
                (
                    "correlations",
                    f"noise of sd {sd:.3g} on each; of {width} directions those that hold more than {edge / width:.1%} "
                    "of the variance are kept",
                )
            )
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Two measurements, a model, rows."""
        columns = self.narrow_columns(setting)
        rows = known_rows(door, setting)
        centred = door.measure(_CENTRE, CentreScale(columns.features))
        scale = _ScoreScale.measured(columns, centred, rows)
        noisy = door.measure(_MOMENTS, _second_query(columns, scale))
        model = _fit(scale, noisy, rows, self.narrow)
        drawn = self.rows_drawn(setting, rows)
        answers = {_CENTRE: centred, _MOMENTS: noisy}
        return Draft(
            columns=None,
            batches=_draw(columns, scale, model, drawn, setting),
            facts=SyntheticTableFacts(
                label=tuple(columns.label),
                classes=columns.classes,
                predicted_error=PredictedError(correlation=model.correlation_error),
            ),
            arrays=measured_arrays(answers)
            | {"score_centre": scale.centre, "score_scale": scale.scale, "score_radius": np.asarray(scale.radius)},
            measured=measured_names(answers),
        )


@dataclass(frozen=True, eq=False)
class _ScoreScale:
    """Centre and scale of every feature coordinate, in grid steps, and the radius of the ball of scores."""

    coordinates: NDArray[np.int64]
    centre: Reals
    scale: Reals
    total: float
    """Variance of all scores together, if the first measurement is right."""

    @property
    def radius(self) -> float:
        return _RADIUS * math.sqrt(self.total)

    @staticmethod
    def of_ranges(columns: Columns) -> _ScoreScale:
        """From the schema alone."""
        coordinates = _coordinates(columns)
        return _ScoreScale(
            coordinates, np.zeros(len(coordinates)), np.full(len(coordinates), float(HALF)), float(len(coordinates))
        )

    @staticmethod
    def measured(columns: Columns, noisy: SumAnswer, rows: float) -> _ScoreScale:
        """From the first measurement, with shrinkage to the common value."""
        centre: dict[str, Reals] = {}
        variance: dict[str, Reals] = {}
        if "sums" in noisy.values:
            names = [b.column for b in columns.features if b.kind == "number"]
            noise = (noisy.sd("sums") / rows) ** 2
            means = np.clip(noisy.values["sums"] / rows, -1.0, 1.0)
            means = shrunk_to(float(means.mean()), means, noise)
            spread = np.clip(noisy.values["squares"] / rows - means**2, 0.0, 1.0)
            common = max(float(spread.mean()), 1e-3)
            spread = np.maximum(shrunk_to(common, spread, noise), 0.1 * common)
            centre |= dict(zip(names, means * HALF, strict=True))
            variance |= dict(zip(names, spread * HALF**2, strict=True))
        others = Cells.even([b for b in columns.features if b.kind != "number"], 1)
        for block, start, count in zip(others.blocks, others.starts, others.counts, strict=True):
            counted = noisy.values["shares"][start : start + count] / rows
            shares = onto_simplex(counted + (1.0 - counted.sum()) / count)
            flat = np.maximum(shares * (1 - shares), _FLAT)
            if block.kind == "flag":
                centre[block.column] = np.array([(2 * shares[1] - 1) * HALF])
                variance[block.column] = np.array([4 * flat[1] * HALF**2])
            else:
                centre[block.column] = shares * CATEGORY_STEPS
                variance[block.column] = flat * max(count - 1, 1) * CATEGORY_STEPS**2
        total = sum(1.0 if b.kind != "category" else b.width / max(b.width - 1, 1) for b in columns.features)
        return _ScoreScale(
            _coordinates(columns),
            np.concatenate([np.atleast_1d(centre[b.column]) for b in columns.features]),
            np.sqrt(np.concatenate([np.atleast_1d(variance[b.column]) for b in columns.features])),
            total,
        )


@dataclass(frozen=True, eq=False)
class _MomentModel:
    counts: Reals
    means: Reals
    root: Reals
    correlation_error: float


def _coordinates(columns: Columns) -> NDArray[np.int64]:
    return np.concatenate([np.arange(b.start, b.stop) for b in columns.features])


def _second_query(columns: Columns, scale: _ScoreScale) -> MomentsQuery:
    linear = Linear(scale.coordinates, scale.centre, scale.scale, np.asarray(_LIMIT))
    scores = Scores(linear, Cells((), ()), (), scale.radius)
    g = _SECOND
    return MomentsQuery(scores, columns.groups, counts=1 - g, sums=math.sqrt(2 * g * (1 - g)), second=g)


def _fit(scale: _ScoreScale, noisy: SumAnswer, rows: float, narrow: bool) -> _MomentModel:
    """Class shares, class means and the covariance within classes, in units of scores."""
    values, radius = noisy.values, scale.radius
    counts = class_counts(values["counts"], noisy.sd("counts"), rows)
    centre, deviations = stein_means(values["sums"] * radius, counts, noisy.sd("sums") * radius)
    means = centre + deviations
    shares = counts / counts.sum()
    second = symmetric(values["diagonal"], values.get("upper")) * (radius**2 / rows)
    sd = noisy.sd("diagonal") / math.sqrt(2.0) * radius**2 / rows
    vectors, kept = soft_spectrum(second - (means.T * shares) @ means, sd)
    # Rows were clipped to the ball: what that took from their spread (known from the first measurement) is given back.
    spread = float(kept.sum() + shares @ (deviations**2).sum(axis=1))
    stretch = 1.0 if narrow else math.sqrt(min(max(scale.total / max(spread, 1e-6), 1.0), 4.0))
    between = (deviations.T * shares) @ deviations
    fitted = (vectors * kept) @ vectors.T + between
    expected = predicted_correlation_error(second - np.outer(centre, centre), sd, fitted, len(counts) + 2)
    return _MomentModel(counts, means * stretch, (vectors * np.sqrt(kept)).T * stretch, expected)


def _draw(columns: Columns, scale: _ScoreScale, model: _MomentModel, rows: int, setting: Setting) -> Iterator[Reals]:
    generator = drawing(setting.seed, "moments")
    groups = classes_to_draw(apportion(model.counts, rows), generator)
    start = 0
    for size in in_batches(rows, len(scale.centre)):
        group = groups[start : start + size].astype(np.int64)
        start += size
        scores = model.means[group] + generator.standard_normal((size, len(scale.centre))) @ model.root
        steps = scores * scale.scale + scale.centre
        features, place = {}, 0
        for block in columns.features:
            part = steps[:, place : place + block.width]
            place += block.width
            features[block.column] = part.argmax(axis=1) if block.kind == "category" else part[:, 0]
        yield columns.written(features, group)
