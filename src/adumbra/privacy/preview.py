"""The noise that a measurement would get, as a mechanism may ask for it: from public facts, free of charge."""

from __future__ import annotations

from dataclasses import dataclass, field

from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Promise
from adumbra.declare.space import Space
from adumbra.privacy.meter import preview_sd
from adumbra.queries.query import Query

__all__ = ["NoisePreview"]


@dataclass(frozen=True)
class NoisePreview:
    """What the meter would add to a number of weight 1, under this promise.

    `rows` is the number of rows of the table; it is private under add-remove, where no noise depends on it.
    """

    space: Space
    promise: Promise
    rows: int = field(repr=False)
    seed: PublicSeed

    def __call__(self, share: float, query: Query) -> float:
        """Standard deviation, if the query were asked on a line with this share of the budget."""
        fresh = self.seed.is_fresh
        return preview_sd(query, self.space, self.promise, share=share, rows=self.rows, fresh=fresh)
