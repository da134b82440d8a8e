"""What was done to the private rows, recorded so that its cost can be derived for any delta, and what it adds up to.

An event says what happened in the mechanism's own numbers; `accounting.accountant` says what it costs. The
meanings below never change once a ledger holds them, and an unknown kind of noise is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from adumbra.declare.guarantee import Neighbours, Relation, Unit

__all__ = ["LAWS", "PURE", "Composition", "Event", "FreshProjection", "Law"]


Law = Literal["gaussian", "laplace", "l2-laplace"]
LAWS: tuple[Law, ...] = ("gaussian", "laplace", "l2-laplace")
PURE: tuple[Law, ...] = ("laplace", "l2-laplace")
"""Laws whose cost is a plain epsilon, at delta 0."""
_ROW_COUNT = str(Neighbours(Unit.ROW, Relation.ADD_REMOVE))
"""The neighbours that a published number of rows tells apart."""


@dataclass(frozen=True, order=True)
class FreshProjection:
    """Why a Gaussian event may cost less than its worst-case matrix says.

    The public matrix had iid N(0, 1/dimension) entries drawn from operating-system entropy after the table
    was fixed and never used before. For a fixed pair of tables whose differing row moves by at most
    `distance` (L2), the projected change is at most `distance * sqrt(chi2_dimension / dimension) + rounding`,
    where `rounding` covers the matrix having been rounded to its grid.
    """

    dimension: int
    distance: float
    rounding: float


@dataclass(frozen=True)
class Event:
    """One noisy answer.

    * `noise`: "gaussian" (iid N(0, scale^2) on every number of the answer, rounded to a grid), "laplace"
      (iid two-sided geometric of that scale) or "l2-laplace" (a vector whose likelihood falls by at most e^(-|z|/scale)
      over an L2 distance |z|; docs/proofs/noise-l2-laplace.md).
    * `scale`: standard deviation or Laplace scale, in the units of the answer.
    * `sensitivity`: for each pair of neighbours ("row/replace", ...), the largest change of the answer: L1 for
      laplace, L2 for the others. A pair of neighbours that is absent has no finite bound: its cost is infinite. So is
      one that the release as a whole tells apart (`within`).
    * `fresh`: neighbours for which the tighter fresh-projection account holds too.
    * `slack`: total-variation distance between the noise drawn and the noise named, summed over all draws.
    * `numbers`: for l2-laplace, how many numbers share one length.
    """

    noise: Law
    scale: float
    sensitivity: dict[str, float]
    fresh: dict[str, FreshProjection] = field(default_factory=dict)
    slack: float = 0.0
    numbers: int = 0

    def bound(self, neighbours: Neighbours) -> float | None:
        """Sensitivity for these neighbours, or None where it is unbounded."""
        return self.sensitivity.get(str(neighbours))

    def within(self, promised: Neighbours) -> Event:
        """What counts of it as part of a release that promises these neighbours, whatever the answer alone would allow.

        Only a release under add-remove keeps the number of rows to itself. Any other publishes it, so a row that comes
        or goes is seen without looking at the answer, and there is no bound for it.
        """
        if promised.relation is Relation.ADD_REMOVE or _ROW_COUNT not in self.sensitivity:
            return self
        return replace(self, sensitivity={key: value for key, value in self.sensitivity.items() if key != _ROW_COUNT})

    @property
    def sd(self) -> float:
        """Standard deviation of the noise on each number."""
        if self.noise == "gaussian":
            return self.scale
        return self.scale * math.sqrt(2.0 if self.noise == "laplace" else self.numbers + 1.0)

    @property
    def is_pure(self) -> bool:
        """Whether its cost is a plain epsilon, at delta 0."""
        return self.noise in PURE

    def to_json(self) -> dict[str, Any]:
        """Plain values, in a fixed order, for the ledger's hash chain and the card."""
        out: dict[str, Any] = {
            "noise": self.noise,
            "scale": self.scale,
            "sensitivity": dict(sorted(self.sensitivity.items())),
        }
        if self.fresh:
            out["fresh"] = {
                key: {"dimension": f.dimension, "distance": f.distance, "rounding": f.rounding}
                for key, f in sorted(self.fresh.items())
            }
        if self.numbers:
            out["numbers"] = self.numbers
        out["slack"] = self.slack
        return out

    @staticmethod
    def from_json(data: dict[str, Any]) -> Event:
        """Read back `to_json`; an unknown kind of noise is refused rather than guessed."""
        if data["noise"] not in LAWS:
            raise ValueError(f"unknown noise {data['noise']!r}")
        return Event(
            noise=data["noise"],
            scale=float(data["scale"]),
            sensitivity={k: float(v) for k, v in data["sensitivity"].items()},
            fresh={
                k: FreshProjection(int(v["dimension"]), float(v["distance"]), float(v["rounding"]))
                for k, v in data.get("fresh", {}).items()
            },
            slack=float(data["slack"]),
            numbers=int(data.get("numbers", 0)),
        )


# What all events of a table add up to, kept so that one more can be added without the others.
#
# Of the past, `accounting.accountant` needs for one unit and relation: the sum of mu^2 of its Gaussian answers, which
# compose exactly (Dong, Roth, Su, "Gaussian Differential Privacy", Journal of the Royal Statistical Society Series B,
# 2022); the costs of its pure answers and the laws of its fresh projections, each with how often it occurred; the
# summed slack of its samplers. Sums are exact fractions: a composition does not depend on the order of its events, and
# one that grew event by event equals one that is counted anew, to the last bit. So a stored composition can be checked.

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
