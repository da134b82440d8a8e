"""Principal axes from one noisy second moment: what lip and analyze_gauss have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Law
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import between
from adumbra.declare.space import Space
from adumbra.families.contract import Draft, Measurer, Query, Setting, SumAnswer
from adumbra.families.principal import SHOWN, PrincipalAxes, Spectrum, cells_of, level, per_row
from adumbra.families.row_count import UNKNOWN_ROWS, counted_rows, public_rows
from adumbra.kinds.components import CENTRES
from adumbra.models.columns import check_width, drawing, in_batches, rows_to_draw
from adumbra.numerics import spectrum
from adumbra.numerics.spectrum import SymmetricNoise
from adumbra.queries.second_moment import Gram, symmetric
from adumbra.queries.sums import Total

__all__ = ["MEAN", "MOMENT", "SecondMomentAxes"]

MEAN, MOMENT = "mean", "second moment"
_MEAN_SHARE = 0.2


@dataclass(frozen=True)
class SecondMomentAxes(PrincipalAxes):
    """Axes from one noisy second moment, about the middle of the ranges or about a mean that was measured before."""

    contribution: float = 0.85
    rows: int | None = None
    centred: bool = False

    results: ClassVar[tuple[str, ...]] = ("axes", "coordinates", "approximation", "samples")

    def __post_init__(self) -> None:
        super().__post_init__()
        share = "give the share of the variance to keep, for example 0.85"
        between(0.0, 1.0 + 1e-12, share, contribution=self.contribution)
        if self.rows is not None and self.result != "samples":
            raise InputError("rows with result samples only", f"result {self.result}", "leave --rows out")
        if self.rows is not None:
            rows_to_draw(self.rows, 0)  # refuses what is no number of rows
        if not isinstance(self.centred, bool):
            raise InputError("centred as true or false", f"centred = {self.centred!r}", "give one of the two")

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """The mean where it is subtracted, the second moment, and the rows where they are published."""
        if not self._with_mean:
            return self._with_rows(setting, {MOMENT: 1.0})
        return self._with_rows(setting, {MEAN: _MEAN_SHARE, MOMENT: 1 - _MEAN_SHARE})

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The middle of the ranges stands in for the mean, directions for the axes."""
        space = setting.space
        stand_in = np.zeros(space.width) if self._with_mean else None
        queries: dict[str, Query] = {MEAN: self._mean_query(space)} if self._with_mean else {}
        return self._with_row_query(setting, queries | {MOMENT: self._moment_query(space, stand_in)})

    @property
    def _with_mean(self) -> bool:
        return self.centred or self.result == "samples"

    def _mean_query(self, space: Space) -> Total:
        return Total(space.width)

    def _moment_query(self, space: Space, mean: Reals | None) -> Gram:
        check_width(space.width)
        self._checked(space.width)
        return Gram(space.width, clip=self.axes_clip(space, mean))

    def size(self, setting: Setting) -> tuple[int, int]:
        """As for the family; or the rows drawn."""
        if self.result == "samples":
            rows = rows_to_draw(self.rows, public_rows(setting) or UNKNOWN_ROWS)
            return rows, len(setting.space.blocks) + setting.space.width**2 // rows
        return super().size(setting)

    def remarks(self, setting: Setting) -> list[tuple[str, str]]:
        """What an owner may not expect."""
        return [*super().remarks(setting), ("axes are about", CENTRES["measured" if self._with_mean else "middle"])]

    def _rows_of(
        self, door: Measurer, setting: Setting, found: Spectrum
    ) -> tuple[tuple[str, ...] | None, Iterator[Reals]]:
        if self.result == "samples":
            return None, _samples(setting, found, rows_to_draw(self.rows, found.rows))
        return super()._rows_of(door, setting, found)

    def _law(self) -> Law:
        return "gaussian"

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """One measurement or two, an eigendecomposition, and what is published of it."""
        (rows, spread), space = counted_rows(door, setting), setting.space
        mean, answers = None, dict[str, SumAnswer]()
        if self._with_mean:
            answers[MEAN] = door.measure(MEAN, self._mean_query(space))
            mean = _shrunk(answers[MEAN].values["sums"] / rows, answers[MEAN].sd("sums") / rows)
        answers[MOMENT] = noisy = door.measure(MOMENT, self._moment_query(space, mean))
        return self.published(door, setting, self._spectrum(noisy, rows, spread, mean), answers)

    def _spectrum(self, noisy: SumAnswer, rows: float, spread: float, mean: Reals | None) -> Spectrum:
        matrix = symmetric(noisy.values["diagonal"], noisy.values.get("upper"))
        matrix /= rows
        width = len(matrix)
        off = noisy.sd("upper") if width > 1 else noisy.sd("diagonal")
        noise = SymmetricNoise(self._law(), width, noisy.sd("diagonal") / rows, off / rows)
        norm, trace = noise.norm(level(spread)), float(np.trace(matrix))
        shown = min(width, max(SHOWN, (self.components or 0) + 1))
        found, vectors = spectrum.leading(matrix, shown)
        real = spectrum.components_above(found, norm)
        kept = self.components or max(1, min(spectrum.chosen(found, trace, noise, self.contribution), real))
        low, high = per_row(*spectrum.interval(found, norm), rows, spread)
        return Spectrum(
            axes=np.ascontiguousarray(vectors[:, :kept].T),
            values=found,
            low=low,
            high=high,
            variances=spectrum.debiased(found[:kept], noise),
            edge=noise.edge,
            real=real,
            sine=spectrum.angle_bound(found, kept, norm, width) if kept < len(found) else None,
            axis_sines=spectrum.axis_bounds(found, norm, width),
            trace=trace,
            mean=mean,
            rows=rows,
        )


def _shrunk(mean: Reals, sd: float) -> Reals:
    """A measured mean, pulled to the middle of the ranges by as much as noise explains of its length."""
    seen = float(mean @ mean)
    return mean * max(0.0, 1.0 - max(len(mean) - 2, 0) * sd**2 / max(seen, 1e-300))


def _samples(setting: Setting, found: Spectrum, rows: int) -> Iterator[Reals]:
    """Rows of the measured mean, the kept variances along the axes and the rest of the trace spread evenly."""
    generator = drawing(setting.seed, "principal components")
    width, kept = setting.space.width, len(found.axes)
    rest = max((found.trace or 0.0) - float(found.variances.sum()), 0.0) / max(width - kept, 1)
    spread = np.sqrt(np.maximum(found.variances, 0.0))
    mean = np.zeros(width) if found.mean is None else found.mean
    for size in in_batches(rows, width):
        even = generator.standard_normal((size, width)) * math.sqrt(rest)
        along = generator.standard_normal((size, kept)) * spread
        yield cells_of(setting.space, mean + even - (even @ found.axes.T) @ found.axes + along @ found.axes)
