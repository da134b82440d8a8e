"""The noisy power method: the second moment times a few directions, round by round; no d x d matrix is ever formed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Promise
from adumbra.declare.space import GRID, Space
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.principal import PrincipalAxes, Spectrum, level, per_row
from adumbra.families.row_count import counted_rows
from adumbra.models.columns import drawing
from adumbra.queries.second_moment import GramTimes

__all__ = ["PowerMethod"]

_MOST_ROUNDS = 6
_UNASKED = 5
_LATER = 2.5
"""Each round gets this much more of the budget than the one before: what the last one adds is never averaged out."""


@dataclass(frozen=True)
class PowerMethod(PrincipalAxes):
    """Parameters, all public.

    * `components`: how many to keep; default: 5, or all there are.
    * `rounds`: how often the directions are multiplied by the second moment; each is a measurement with its share of
      the budget.
    * `oversample`: further directions that are carried along, so that the kept ones come out sooner.
    * `result`: axes, coordinates (every row along the axes, with noise) or approximation (the same in the schema's
      columns).
    * `axes_share`: share of the budget for the axes where rows are published too.
    """

    rounds: int = 3
    oversample: int = 15

    name: ClassVar[str] = "power_method"
    title: ClassVar[str] = "principal axes by noisy subspace iteration"
    releases: ClassVar[str] = "principal axes with error bars; or noisy rows along them"
    suits: ClassVar[str] = "a few components of very many columns, where a matrix of columns x columns is too large"
    caution: ClassVar[str] = (
        "where the whole second moment fits into memory analyze_gauss has less noise; the last axes are the least "
        "certain; each round reads the table again"
    )
    theorem: ClassVar[str] = (
        "Gaussian or Laplace mechanism on X'XQ for any Q that lengthens nothing, composed adaptively "
        "(docs/proofs/second-moment.md)"
    )
    differs: ClassVar[str] = (
        "The paper bounds single entries of the second moment and lets the noise grow with the largest entry of the "
        "directions. Here rows are bounded, so that every round has the same sensitivity, sqrt(2) times the squared "
        "bound, whatever the directions are; the noise is exact integers and the directions are rounded before use."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Hardt, Price (2014), The Noisy Power Method: A Meta Algorithm with Applications, NeurIPS",
            "@inproceedings{hardt2014noisy, title={The Noisy Power Method: A Meta Algorithm with Applications}, "
            "author={Hardt, Moritz and Price, Eric}, booktitle={NeurIPS}, year={2014}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, "give a number of rounds from 1 to 6", rounds=self.rounds)
        at_least(0, "give the further directions, 0 or more", oversample=self.oversample)
        if self.rounds > _MOST_ROUNDS:
            raise InputError(f"at most {_MOST_ROUNDS} rounds", f"rounds = {self.rounds}", "give fewer --rounds")

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """A line for each round, and the rows where they are published."""
        weights = [_LATER**i for i in range(self.rounds)]
        return self._with_rows(setting, {_round(i): w / sum(weights) for i, w in enumerate(weights)})

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Every round; the first directions stand in for later ones."""
        first = GramTimes.of(self._start(setting), self.axes_clip(setting.space))
        return self._with_row_query(setting, {_round(i): first for i in range(self.rounds)})

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """How large a variance must be to be found under the `noise` in this `setting`, whatever the `promise`."""
        width, carried = setting.space.width, self._carried(setting.space)
        out = [*self.rows_to_expect(noise), *self.remarks(setting)]
        if setting.rows:
            edge = noise[_round(self.rounds - 1)].sd * (math.sqrt(width) + math.sqrt(carried)) / setting.rows
            out.insert(0, ("noise of the last round", f"hides variances below {edge:.3g}; {self.bound_text(setting)}"))
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Multiply, make orthonormal, again; at last the axes within the span that was found."""
        (rows, spread), directions = counted_rows(door, setting), self._start(setting)
        clip = self.axes_clip(setting.space)
        measured: dict[str, SumAnswer] = {}
        product, seen = directions, directions
        for i in range(self.rounds):
            seen = directions
            measured[_round(i)] = noisy = door.measure(_round(i), GramTimes.of(seen, clip))
            product = noisy.values["products"] / rows
            directions = np.linalg.qr(product)[0]
        most = (clip.bound / GRID) ** 2
        found = self._spectrum(seen, product, noisy.sd("products") / rows, rows, spread, most)
        return self.published(door, setting, found, measured)

    def _spectrum(self, seen: Reals, product: Reals, sd: float, rows: float, spread: float, most: float) -> Spectrum:
        """Axes of the last product: it is the second moment on the span of `seen`, with noise."""
        width, carried = seen.shape
        kept = min(self.components or _UNASKED, carried)
        left, values, _ = np.linalg.svd(product, full_matrices=False)
        # |A Q + N| and |A Q| differ by at most |N| in every singular value, and those of A Q are at most those of A
        norm = sd * (math.sqrt(width) + math.sqrt(carried) + math.sqrt(-2.0 * math.log(1.0 - level(spread))))
        low, high = per_row(np.maximum(values - norm, 0.0), values + norm, rows, spread)
        if carried < width:  # the directions may have missed some of a variance
            high = _left_over(low, most)
        largest = left[np.abs(left).argmax(axis=0), np.arange(carried)]
        axes = (left * np.where(largest < 0, -1.0, 1.0)).T[:kept]
        edge = sd * (math.sqrt(width) + math.sqrt(carried))
        debiased = np.sqrt(np.maximum(values[:kept] ** 2 - sd**2 * width, 0.0))
        return Spectrum(
            axes=np.ascontiguousarray(axes),
            values=values,
            low=low,
            high=high,
            variances=np.where(values[:kept] > edge, debiased, 0.0),
            edge=edge,
            real=int((values > norm).sum()),
            sine=None,
            axis_sines=None,
            trace=None,
        )

    def _carried(self, space: Space) -> int:
        kept = self._checked(space.width) if self.components is not None else _UNASKED
        return min(kept + self.oversample, space.width)

    def _start(self, setting: Setting) -> Reals:
        generator = drawing(setting.seed, "power method")
        draws = generator.standard_normal((setting.space.width, self._carried(setting.space)))
        return np.asarray(np.linalg.qr(draws)[0])


def _left_over(low: Reals, most: float) -> Reals:
    """How large each variance can be: all together are at most the squared length of a row."""
    others = low.sum() - low
    return np.asarray(np.maximum(np.minimum(most / np.arange(1, len(low) + 1), most - others), low))


def _round(index: int) -> str:
    return f"round {index + 1}"
