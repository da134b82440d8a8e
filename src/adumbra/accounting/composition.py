"""What all events of a table add up to, kept so that one more can be added without the others.

Of the past, `accounting.accountant` needs for one unit and relation: the sum of mu^2 of its Gaussian answers, which
compose exactly (Dong, Roth, Su, "Gaussian Differential Privacy", Journal of the Royal Statistical Society Series B,
2022); the costs of its pure answers and the laws of its fresh projections, each with how often it occurred; the summed
slack of its samplers. Sums are exact fractions: a composition does not depend on the order of its events, and one that
grew event by event equals one that is counted anew, to the last bit. So a stored composition can be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from adumbra.accounting.events import Event, FreshProjection
from adumbra.declare.guarantee import Neighbours

__all__ = ["Composition"]

_MOST_COST = 1e100  # of one answer in units of its noise; more is called infinite, before its square overflows
_NOTHING = Fraction(0)

Projected = tuple[FreshProjection, float]
"""A fresh projection and the scale of the noise on it."""


@dataclass(frozen=True)
class Composition:
    """Events that were checked (`check_event`), added up for one unit and relation.

    * `bounded`: whether every event has a bound for these neighbours; without, nothing else counts.
    * `squares`: sum of mu^2 of Gaussian answers whose matrix was fixed.
    * `losses`: epsilon of a pure answer -> how many there were.
    * `fresh`: fresh projection -> how many there were.
    * `slack`: total-variation distance of all samplers together.
    * `gaussian`: whether any answer that can be noticed was not pure, however small its mu^2.
    """

    bounded: bool = True
    squares: Fraction = _NOTHING
    losses: Mapping[float, int] = field(default_factory=dict)
    fresh: Mapping[Projected, int] = field(default_factory=dict)
    slack: Fraction = _NOTHING
    gaussian: bool = False

    def plus(self, events: Iterable[Event], neighbours: Neighbours) -> Composition:
        """With these `events` too, as far as `neighbours` can notice them."""
        bounded, gaussian, squares, slack = self.bounded, self.gaussian, self.squares, self.slack
        losses, fresh, name = Counter(self.losses), Counter(self.fresh), str(neighbours)
        alike = Counter[float]()  # mu^2 of Gaussian answers: adding fractions is slow, and many answers cost the same
        for event in events:
            bound = event.sensitivity.get(name)
            if bound == 0.0:
                continue
            projection = event.fresh.get(name)
            moved = 0.0 if projection is None else projection.distance + projection.rounding
            if bound is None or max(bound, moved) / event.scale > _MOST_COST:
                bounded = False
                continue
            if event.slack:
                slack += Fraction(event.slack)
            if event.is_pure:
                losses[bound / event.scale] += 1
                continue
            gaussian = True
            if projection is None:
                alike[(bound / event.scale) ** 2] += 1
            else:
                # Always averaged over the matrix, even when the one drawn was lucky: an account that looked at
                # the matrix would let an owner spend what luck left over, and a cap would admit twice its delta.
                fresh[projection, event.scale] += 1
        squares += sum((Fraction(square) * count for square, count in alike.items()), _NOTHING)
        return Composition(bounded, squares, dict(losses), dict(fresh), slack, gaussian)

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes an equal composition."""
        return {
            "bounded": self.bounded,
            "squares": str(self.squares),
            "losses": sorted([cost, count] for cost, count in self.losses.items()),
            "fresh": sorted(
                [p.dimension, p.distance, p.rounding, scale, count] for (p, scale), count in self.fresh.items()
            ),
            "slack": str(self.slack),
            "gaussian": self.gaussian,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Composition:
        """Read back `to_json`."""
        return Composition(
            bounded=bool(data["bounded"]),
            squares=Fraction(data["squares"]),
            losses={float(cost): int(count) for cost, count in data["losses"]},
            fresh={(FreshProjection(int(k), float(d), float(r)), float(s)): int(n) for k, d, r, s, n in data["fresh"]},
            slack=Fraction(data["slack"]),
            gaussian=bool(data["gaussian"]),
        )
