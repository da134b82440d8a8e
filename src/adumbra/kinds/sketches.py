"""A sketch as a card describes it: enough to draw the same one again from the public seed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.sensing import Sensing

__all__ = ["SketchFacts"]


class SketchFacts(BaseModel):
    """Which sketch, of how many numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sensing: str
    """The law of its matrix."""
    measurements: int
    cells: int
    nonzeros: int = 4
    """Entries of a column of sparse-signs."""
    weights: tuple[float, ...] = ()

    def told(self) -> dict[str, Any]:
        """For people."""
        out: dict[str, Any] = {
            "kind": self.sensing,
            "measurements": self.measurements,
            "ratio": self.measurements / self.cells,
        }
        out |= {"nonzeros": self.nonzeros} if self.sensing == "sparse-signs" else {}
        return out | ({"weights": list(self.weights)} if self.weights else {})

    def drawn(self, seed: bytes) -> Sensing:
        """The sketch itself."""
        return sensing(self.sensing, seed, self.cells, self.measurements, nonzeros=self.nonzeros, weights=self.weights)
