"""Moments: centre and scale are measured, then counts, sums and the second moment; then any number of rows is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.types import Integers, Reals
from adumbra.declare.guarantee import Promise
from adumbra.declare.space import CATEGORY_STEPS, HALF, Block
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.row_count import known_rows, measured_arrays, measured_names, with_size, with_size_query
from adumbra.families.set_columns import beside_sets, with_set_queries, with_sets
from adumbra.families.synthetic import DrawnTable, watchable
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.mechanisms.bibliography import ANALYZE_GAUSS
from adumbra.models.column_cells import on_levels
from adumbra.models.columns import Columns, classes_to_draw, drawing, in_batches
from adumbra.models.score_layout import presence_lookup
from adumbra.models.shrinkage import (
    apportion,
    class_counts,
    clear_counts,
    onto_simplex,
    predicted_correlation_error,
    shrunk_to,
    soft_spectrum,
    stein_means,
)
from adumbra.queries.cells import Cells
from adumbra.queries.scores import Linear, Lookup, Scores
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
    * `rows`: rows to draw; default: as many as the table has.
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
        return with_sets(setting, with_size(setting, {_CENTRE: 0.2, _MOMENTS: 0.8}))

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Both measurements; the second with the middle of the ranges for a centre."""
        columns = self.narrow_columns(setting)
        stand_in = _ScoreScale.of_ranges(columns, watchable(setting, columns))
        return with_set_queries(
            setting,
            with_size_query(
                setting, {_CENTRE: _first_query(setting, columns), _MOMENTS: _second_query(columns, stand_in)}
            ),
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
        centred = door.measure(_CENTRE, _first_query(setting, columns))
        scale = _ScoreScale.measured(columns, centred, rows, len(watchable(setting, columns)))
        noisy = door.measure(_MOMENTS, _second_query(columns, scale))
        classes = columns.likely(noisy.values["counts"], noisy.sd("counts"))
        model = _fit(scale, noisy, classes, rows, self.narrow)
        drawn = self.rows_drawn(setting, rows)
        answers = {_CENTRE: centred, _MOMENTS: noisy}
        draft = Draft(
            columns=None,
            batches=_draw(columns, scale, model, drawn, setting),
            facts=SyntheticTableFacts(
                label=tuple(columns.label),
                classes=len(classes),
                predicted_error=PredictedError(correlation=model.correlation_error),
            ),
            arrays=measured_arrays(answers)
            | {"score_centre": scale.centre, "score_scale": scale.scale, "score_radius": np.asarray(scale.radius)},
            measured=measured_names(answers),
        )
        return beside_sets(door, setting, rows, draft)


@dataclass(frozen=True, eq=False)
class _ScoreScale:
    """Centre and scale of every coordinate, in grid steps, in the order of scores; and what is missing of each column.

    Numbers and flags come first, then categories, then for the columns `watched` whether they are there.
    """

    blocks: tuple[Block, ...]
    centre: Reals
    scale: Reals
    total: float
    """Variance of all scores together, if the first measurement is right."""
    missing: Reals
    watched: tuple[int, ...]

    @property
    def radius(self) -> float:
        return _RADIUS * math.sqrt(self.total)

    @cached_property
    def starts(self) -> dict[int, int]:
        """Where each column's scores begin."""
        order, at, out = _order(self.blocks), 0, {}
        for j in order:
            out[j], at = at, at + self.blocks[j].width
        return out

    @property
    def presence(self) -> dict[int, int]:
        """Where the score stands of whether a column is there, for those that are watched."""
        return {j: len(self.centre) + place for place, j in enumerate(self.watched)}

    @staticmethod
    def of_ranges(columns: Columns, watched: tuple[int, ...]) -> _ScoreScale:
        """From the schema alone; of the columns `watched` half is missing."""
        width = sum(block.width for block in columns.features)
        half = np.full(len(columns.features), 0.5)
        return _ScoreScale(columns.features, np.zeros(width), np.full(width, float(HALF)), float(width), half, watched)

    @staticmethod
    def measured(columns: Columns, noisy: SumAnswer, rows: float, most: int) -> _ScoreScale:
        """From the first measurement, with shrinkage to the common value; at most so many columns are watched."""
        missing = _missing(columns, noisy, rows)
        blocks = columns.features
        centre: dict[int, Reals] = {}
        variance: dict[int, Reals] = {}
        if "sums" in noisy.values:
            numbers = [j for j, b in enumerate(blocks) if b.kind == "number"]
            there = rows * (1 - missing[numbers])
            noise = float(np.mean((noisy.sd("sums") / there) ** 2))
            means = np.clip(noisy.values["sums"] / there, -1.0, 1.0)
            means = shrunk_to(float(means.mean()), means, noise)
            spread = np.clip(noisy.values["squares"] / there - means**2, 0.0, 1.0)
            common = max(float(spread.mean()), 1e-3)
            spread = np.maximum(shrunk_to(common, spread, noise), 0.1 * common)
            centre |= {j: np.array([mean * HALF]) for j, mean in zip(numbers, means, strict=True)}
            variance |= {j: np.array([own * HALF**2]) for j, own in zip(numbers, spread, strict=True)}
        for j, counted in _counted_values(columns, noisy):
            count, counted = len(counted), counted / (rows * (1 - missing[j]))
            shares = onto_simplex(counted + (1.0 - counted.sum()) / count)
            flat = np.maximum(shares * (1 - shares), _FLAT)
            if blocks[j].kind == "flag":
                centre[j] = np.array([(2 * shares[1] - 1) * HALF])
                variance[j] = np.array([4 * flat[1] * HALF**2])
            else:
                centre[j] = shares * CATEGORY_STEPS
                variance[j] = flat * max(count - 1, 1) * CATEGORY_STEPS**2
        each = np.array([1.0 if b.kind != "category" else b.width / max(b.width - 1, 1) for b in blocks])
        empty = [j for j in np.argsort(-missing, kind="stable") if missing[j] > 0]
        watched = tuple(sorted(int(j) for j in empty[:most]))
        return _ScoreScale(
            blocks,
            np.concatenate([centre[j] for j in _order(blocks)]),
            np.sqrt(np.concatenate([variance[j] for j in _order(blocks)])),
            float(each @ (1 - missing)) + len(watched),
            missing,
            watched,
        )


@dataclass(frozen=True, eq=False)
class _MomentModel:
    classes: Integers
    counts: Reals
    means: Reals
    root: Reals
    correlation_error: float


def _order(blocks: tuple[Block, ...]) -> list[int]:
    """Numbers and flags first: categories are looked up."""
    return sorted(range(len(blocks)), key=lambda j: blocks[j].kind == "category")


def _counted_values(columns: Columns, noisy: SumAnswer) -> Iterator[tuple[int, Reals]]:
    """Flags and categories with the noisy counts of their values."""
    others = [j for j, b in enumerate(columns.features) if b.kind != "number"]
    cells = Cells.even([columns.features[j] for j in others], 1)
    for j, start, count in zip(others, cells.starts, cells.counts, strict=True):
        yield j, noisy.values["shares"][start : start + count]


def _missing(columns: Columns, noisy: SumAnswer, rows: float) -> Reals:
    """The share of each column that is empty, where that is clear of the noise; else 0."""
    out, tests = np.zeros(len(columns.features)), len(columns.features)
    if "present" in noisy.values:
        numbers = [j for j, b in enumerate(columns.features) if b.kind == "number" and b.keeps]
        out[numbers] = clear_counts(rows - noisy.values["present"], noisy.sd("present"), tests)
    for j, counted in _counted_values(columns, noisy):
        if columns.features[j].keeps:
            sd = noisy.sd("shares") * math.sqrt(len(counted))
            out[j] = float(clear_counts(np.array([rows - counted.sum()]), sd, tests)[0])
    return np.minimum(out / rows, 0.995)


def _first_query(setting: Setting, columns: Columns) -> CentreScale:
    """How many numbers are there comes for nothing where rows are replaced, and is cheap where they come and go."""
    if setting.pure:
        return CentreScale(columns.features, 0.25)
    return CentreScale(columns.features, 0.5 if setting.rows is None else math.sqrt(2.0))


def _second_query(columns: Columns, scale: _ScoreScale) -> MomentsQuery:
    blocks = columns.features
    plain = [j for j in _order(blocks) if blocks[j].kind != "category"]
    named = [j for j in _order(blocks) if blocks[j].kind == "category"]
    own = slice(0, len(plain))
    starts = np.array([blocks[j].start for j in plain], dtype=np.int64)
    linear = Linear(starts, scale.centre[own], scale.scale[own], np.asarray(_LIMIT))
    counts, vectors = [], []
    for j in named:
        part = slice(scale.starts[j], scale.starts[j] + blocks[j].width)
        counts.append(blocks[j].width)
        from_centre = np.eye(blocks[j].width) * CATEGORY_STEPS - scale.centre[part]
        vectors.append(np.clip(from_centre / scale.scale[part], -_LIMIT, _LIMIT))
    for j in scale.watched:
        share = float(scale.missing[j])
        states = np.array([[-share], [1 - share]]) / math.sqrt(max(share * (1 - share), _FLAT))
        count, both = presence_lookup(blocks[j], np.clip(states, -_LIMIT, _LIMIT))
        counts.append(count)
        vectors.append(both)
    missing = tuple(place >= len(named) for place in range(len(counts)))
    cells = Cells(tuple(blocks[j] for j in (*named, *scale.watched)), tuple(counts), missing=missing)
    scores = Scores(linear, cells, tuple(Lookup(place, each) for place, each in enumerate(vectors)), scale.radius)
    g = _SECOND
    return MomentsQuery(scores, columns.groups, counts=1 - g, sums=math.sqrt(2 * g * (1 - g)), second=g)


def _fit(scale: _ScoreScale, noisy: SumAnswer, classes: Integers, rows: float, narrow: bool) -> _MomentModel:
    """Shares of these classes, their means and the covariance within them, in units of scores."""
    values, radius = noisy.values, scale.radius
    counts = class_counts(values["counts"][classes], noisy.sd("counts"), rows)
    centre, deviations = stein_means(values["sums"][classes] * radius, counts, noisy.sd("sums") * radius)
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
    return _MomentModel(classes, counts, means * stretch, (vectors * np.sqrt(kept)).T * stretch, expected)


def _draw(columns: Columns, scale: _ScoreScale, model: _MomentModel, rows: int, setting: Setting) -> Iterator[Reals]:
    generator = drawing(setting.seed, "moments")
    groups = classes_to_draw(apportion(model.counts, rows), generator)
    start = 0
    for size in in_batches(rows, len(model.root)):
        group = groups[start : start + size].astype(np.int64)
        start += size
        scores = model.means[group] + generator.standard_normal((size, len(model.root))) @ model.root
        # an empty cell was measured as a score of 0: the values of the others are further from it
        features = {}
        for j, block in enumerate(columns.features):
            part = slice(scale.starts[j], scale.starts[j] + block.width)
            stretch = 1 / math.sqrt(1 - scale.missing[j])
            steps = scores[:, part] * (scale.scale[part] * stretch) + scale.centre[part]
            named = block.kind == "category"
            column = steps.argmax(axis=1).astype(np.float64) if named else on_levels(block, steps[:, 0])
            lost = round(float(scale.missing[j]) * size)
            if lost:  # those of the highest score, whose share is then what was measured
                own = scores[:, scale.presence[j]] if j in scale.presence else generator.random(size)
                column[np.argpartition(own, size - lost)[size - lost :]] = np.nan
            features[block.column] = column
        yield columns.written(features, model.classes[group])
