"""What was done to the private rows, recorded so that its cost can be derived for any delta.

An event says what happened in the mechanism's own numbers; `accounting.accountant` says what it costs. The
meanings below never change once a ledger holds them, and an unknown kind of noise is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from adumbra.declare.guarantee import Neighbours, Relation, Unit

__all__ = ["LAWS", "PURE", "Event", "FreshProjection", "Law"]

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
