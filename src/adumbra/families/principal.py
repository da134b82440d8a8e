"""What all private principal components have in common: how many, with which error bars, and what is published of them.

A mechanism of the family measures the second moment of the rows (or its product with a few directions) and hands a
`Spectrum` to `published`. Rows are taken about the middle of the declared ranges: no centre and no scale is read from
the table. What follows from the noisy numbers is post-processing, the number of components included.

| result | what it is | measurements |
|---|---|---|
| axes | one row for each component: variance, error bars, loadings | once |
| coordinates | every person's row along the axes, with noise of its own | twice |
| approximation | the same, back in the schema's columns | twice |
| samples | rows drawn from the private mean and covariance | twice |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, between, finite, one_of, settle
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID, Space
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Setting, SumAnswer
from adumbra.families.row_count import measured_arrays, measured_names, with_size, with_size_query
from adumbra.families.scree import scree_svg
from adumbra.kinds.components import ComponentFacts, ComponentsFacts, Result
from adumbra.numerics.projections import ROUNDING
from adumbra.queries.query import PureNoise
from adumbra.queries.row_map import RowClip, RowMap, contraction

__all__ = ["SHOWN", "PrincipalAxes", "Spectrum", "cells_of", "even_length", "length_of", "level", "per_row"]

ROWS = "rows"
SHOWN = 40
"""Eigenvalues on the card and in the picture."""
_COUNT_SDS = 2.3
"""A noisy number of rows is off by more than this many deviations 4 times in 100, Laplace noise or Gaussian."""


def even_length(space: Space) -> float:
    """Root mean square length of rows drawn evenly from the declared ranges, in encoded units."""
    even = {"number": 1 / 12, "flag": 1 / 4, "category": 1 / 2}
    return math.sqrt(sum(even[block.kind] for block in space.blocks))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Axes and what is known of them, all of it public."""

    axes: Reals
    """Orthonormal, one row for each component."""
    values: Reals
    """RowAnswersvariances, the largest first; at least as many as axes."""
    low: Reals
    high: Reals
    """Error bars of the values."""
    variances: Reals
    """Of the kept components, the lift by the noise taken out."""
    edge: float
    """Where the spectrum of the noise alone ends."""
    real: int
    """Components that exceed the noise."""
    sine: float | None
    """Bound on the sine of the largest angle between the axes' span and the true one; None where none is known."""
    axis_sines: Reals | None
    """The same for each axis alone."""
    trace: float | None
    """Variance of all directions together, where it was measured."""
    mean: Reals | None = None
    """In encoded units, where it was measured."""
    rows: float = 1.0
    """Of the table, perhaps a noisy number."""


@dataclass(frozen=True)
class PrincipalAxes:
    """Parameters of the whole family; mechanisms add their own."""

    components: int | None = None
    result: Result = "axes"
    axes_share: float = 0.5

    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ("axes",)
    deltas: ClassVar[Deltas] = "any"
    results: ClassVar[tuple[str, ...]] = ("axes", "coordinates", "approximation")

    def __post_init__(self) -> None:
        settle(self)
        one_of(self.results, result=self.result)
        if self.components is not None:
            at_least(1, "give the number of components to keep", components=self.components)
        if finite(self.axes_share) and self.axes_share == 0:
            raise InputError("axes_share > 0", "axes_share = 0", "give a share, or use lop with a public basis")
        between(0.0, 1.0, "give the share of the budget for the axes, for example 0.5", axes_share=self.axes_share)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """Two rows at right angles on the bound, and one that goes."""
        number = {"kind": "number", "low": -1, "high": 1}
        schema = Schema.from_dict({"columns": {"a": number, "b": number}})
        one, other, whole = cls._worst_rows()
        shared = tuple({"a": str(0.3 * (-1) ** i), "b": str(0.2 * (-1) ** (i // 2))} for i in range(40))
        whys = {
            Relation.REPLACE: "two rows at right angles on the bound",
            Relation.ZERO_OUT: "a row on the bound is emptied",
            Relation.ADD_REMOVE: "a row on the bound is there or not",
        }
        pairs = {
            Relation.REPLACE: (one, other),
            Relation.ZERO_OUT: (whole, emptied(whole)),
            Relation.ADD_REMOVE: (whole, None),
        }
        return tuple(
            Challenge(
                Neighbours(Unit.ROW, Relation(relation)),
                schema,
                *pairs[Relation(relation)],
                whys[Relation(relation)],
                shared,
                row_bound=0.5,
            )
            for relation in cls.relations
        )

    @classmethod
    def _worst_rows(cls) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """A pair for replaced rows and one row that goes, in two columns; encoded, they are 1 long."""
        one, other = {"a": "1", "b": "0"}, {"a": "0", "b": "1"}
        return one, other, one

    def axes_clip(self, space: Space, mean: Reals | None = None) -> RowClip:
        """Rows as the axes see them: clipped to the owner's bound, or to a quarter of the length of evenly drawn rows.

        Short: for the direction of a row its length does not matter, while the noise grows with its square. Samples
        need lengths too.
        """
        share = 1.0 if self.result == "samples" else 0.25
        return RowClip.about(mean, length_of(space, share, 1.0 if mean is None else 2.0), space)

    def rows_clip(self, space: Space) -> RowClip:
        """Rows as they are published: clipped to the owner's bound, or to the length of evenly drawn rows."""
        return RowClip.about(None, length_of(space, 1.0), space)

    @property
    def _by_row(self) -> bool:
        return self.result in ("coordinates", "approximation")

    def _with_rows(self, setting: Setting, lines: Mapping[str, float]) -> dict[str, float]:
        """Lines of the axes, and the one for the rows where they are published."""
        if not self._by_row:
            return with_size(setting, lines)
        if setting.rows is None:
            raise InputError(
                "a result without a row for each person (axes, samples) under add-remove",
                f"result {self.result}",
                "use --result axes or samples, or --relation replace",
            )
        return {line: share * self.axes_share for line, share in lines.items()} | {ROWS: 1 - self.axes_share}

    def _with_row_query(self, setting: Setting, queries: Mapping[str, Query]) -> dict[str, Query]:
        if not self._by_row:
            return with_size_query(setting, queries)
        kept = self._most(setting.space.width)
        return dict(queries) | {ROWS: self._row_map(np.eye(setting.space.width, kept), setting.space)}

    def _most(self, width: int) -> int:
        """Directions of a row that will be published: fixed beforehand, since the noise depends on them."""
        if self.components is None:
            raise InputError(
                f"a number of components for result {self.result}: the noise on a row depends on it",
                "none",
                "give --components (the axes of a first release can tell how many)",
            )
        return self._checked(width)

    def _checked(self, width: int) -> int:
        kept = self.components or 1
        if kept > width:
            raise InputError(f"at most {width} components", f"components = {kept}", "give fewer --components")
        return kept

    def _row_map(self, columns: Reals, space: Space) -> RowMap:
        return RowMap(contraction(columns, ROUNDING), ROUNDING, clip=self.rows_clip(space), pure=self._row_law())

    def _row_law(self) -> PureNoise:
        return "laplace"

    def size(self, setting: Setting) -> tuple[int, int]:
        """Rows of what is published, and columns, the measured numbers spread over them."""
        width = setting.space.width
        kept = min(self.components or 10, width)
        rows = max(setting.rows or 1, 1) if self._by_row else kept
        return rows, (kept if self.result == "coordinates" else width) + width * width // rows

    def expected(
        self, setting: Setting, diagonal: float, off_diagonal: float, noise: Mapping[str, Event]
    ) -> list[tuple[str, str]]:
        """An outlook: where the spectrum of the noise will end, beside the most that a row can hold.

        `diagonal` and `off_diagonal` are standard deviations of the noise on entries of the second moment, summed over
        the rows of `setting`; `noise` is that of each line.
        """
        out = [*self.rows_to_expect(noise), *self.remarks(setting)]
        if setting.rows:
            edge = 2 * off_diagonal * math.sqrt(setting.space.width) / setting.rows
            out.insert(
                0,
                (
                    "noise edge",
                    f"variances below {edge:.3g} cannot be distinguished from noise; {self.bound_text(setting)}",
                ),
            )
        return out

    def rows_to_expect(self, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """An outlook of the rows, where they are published."""
        if ROWS not in noise:
            return []
        return [("noise on a row", f"sd {noise[ROWS].sd:.3g} on each coordinate")]

    def remarks(self, setting: Setting) -> list[tuple[str, str]]:
        """What an owner may not expect."""
        if not setting.labels:
            return []
        return [
            ("label", f"{', '.join(setting.labels)} takes part in the axes like any column; role drop leaves it out")
        ]

    def bound_text(self, setting: Setting) -> str:
        """What a row can be."""
        reach = self.axes_clip(setting.space).bound / GRID
        return f"all variances together are at most {reach**2:.3g} (rows are clipped to a length of {reach:.3g})"

    def published(self, door: Measurer, setting: Setting, found: Spectrum, noisy: Mapping[str, SumAnswer]) -> Draft:
        """The draft of whatever `result` asks for of these axes.

        `door` measures the rows where they are published, in the space of `setting`; `found` are the axes and
        variances, `noisy` the measured sums they were computed from, which are published too.
        """
        arrays: dict[str, NDArray[Any]] = measured_arrays(noisy) | {
            "axes": found.axes,
            "variances": found.variances,
            "spectrum": found.values,
            "spectrum_low": found.low,
            "spectrum_high": found.high,
            "noise_edge": np.asarray(found.edge),
        }
        if found.mean is not None:
            arrays["mean"] = found.mean
        columns, batches = self._rows_of(door, setting, found)
        return Draft(
            columns,
            batches,
            self._facts(found, setting.space),
            arrays,
            measured=measured_names(noisy),
            pictures={"scree.svg": lambda: _picture(found)},
        )

    def _facts(self, found: Spectrum, space: Space) -> ComponentsFacts:
        return ComponentsFacts(
            row_aligned=self._by_row,
            result=self.result,
            components=len(found.axes),
            components_above_noise=found.real,
            noise_edge=found.edge,
            axes_clipped_to=self.axes_clip(space, found.mean).bound / GRID,
            rows_clipped_to=self.rows_clip(space).bound / GRID if self._by_row else None,
            row_line=ROWS if self._by_row else None,
            total_variance=found.trace,
            sine_bound=None if found.sine is None else min(found.sine, 1.0),
            centre="middle" if found.mean is None else "measured",
            spectrum=_components(found),
            axes_bounded=found.axis_sines is not None,
        )

    def _rows_of(
        self, door: Measurer, setting: Setting, found: Spectrum
    ) -> tuple[tuple[str, ...] | None, Iterator[Reals]]:
        if self.result == "axes":
            return _axes_table(setting, found)
        noisy = door.measure(ROWS, self._row_map(found.axes.T, setting.space))
        if self.result == "coordinates":
            return tuple(f"pc{i + 1}" for i in range(len(found.axes))), noisy.batches
        return None, (cells_of(setting.space, batch @ found.axes) for batch in noisy.batches)


def level(spread: float) -> float:
    """What the bound on the noise must hold by for bars of 95 %: more, where the number of rows is noisy too."""
    return 0.95 if spread == 0.0 else 0.99


def per_row(low: Reals, high: Reals, rows: float, spread: float) -> tuple[Reals, Reals]:
    """Widen error bars of per-row values for the uncertainty of the noisy row count.

    `low` and `high` are the ends, already divided by `rows`, the count as measured; `spread` is its standard deviation,
    0 where the count is public.
    """
    off = _COUNT_SDS * spread
    return low * (rows / (rows + off)), high * (rows / max(rows - off, 1.0))


def length_of(space: Space, share: float, most: float = 1.0) -> float:
    """The owner's row bound, or this share of the length of evenly drawn rows; never more than a row can be.

    `most`: how often the longest row about the middle of the ranges fits into the longest about the centre.
    """
    if space.row_bound is not None:
        return min(space.row_bound / GRID, most * space.reach / GRID)
    return min(share * even_length(space), space.reach / GRID)


def _coordinates(setting: Setting) -> list[str]:
    if setting.schema is not None:
        return setting.schema.coordinates
    return [f"x{i}" for i in range(setting.space.width)]


def _axes_table(setting: Setting, found: Spectrum) -> tuple[tuple[str, ...], Iterator[Reals]]:
    kept = len(found.axes)
    names: dict[str, None] = {}
    for name in (*_coordinates(setting), "variance", "variance_low", "variance_high"):
        while name in names:  # a column may be called so, or like the value of another
            name += "_"
        names[name] = None
    *loadings, variance, low, high = names
    numbers = np.column_stack([found.variances, found.low[:kept], found.high[:kept], found.axes])
    return (variance, low, high, *loadings), iter([numbers])


def _components(found: Spectrum) -> tuple[ComponentFacts, ...]:
    total = None if found.trace is None else max(found.trace, 1e-300)
    return tuple(
        ComponentFacts(
            component=i + 1,
            variance=float(found.variances[i]),
            variance_low=float(found.low[i]),
            variance_high=float(found.high[i]),
            measured=float(found.values[i]),
            share=None if total is None else min(float(found.variances[i]) / total, 1.0),
            above_noise=i < found.real,
            axis_within_degrees=None if found.axis_sines is None else _degrees(float(found.axis_sines[i])),
        )
        for i in range(len(found.axes))
    )


def _degrees(sine: float) -> float | None:
    """The angle, None where nothing is known of it."""
    return None if sine >= 1.0 else round(math.degrees(math.asin(sine)), 1)


def _picture(found: Spectrum) -> str:
    shown = min(len(found.values), SHOWN)
    return scree_svg(
        found.values[:shown],
        found.low[:shown],
        found.high[:shown],
        found.edge,
        min(len(found.axes), shown),
        title="Variance of each component, with the edge of the noise",
    )


def cells_of(space: Space, rows: Reals) -> Reals:
    """Encoded rows as cells of the schema: grid steps, or the position of a category's value."""
    steps = rows * GRID
    return np.stack(
        [
            steps[:, b.start : b.stop].argmax(axis=1) if b.kind == "category" else steps[:, b.start]
            for b in space.blocks
        ],
        axis=1,
    )
