"""Counts of the values of a set column: in how many rows each of them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Reals
from adumbra.declare.space import COUNT_STEPS, Block
from adumbra.queries.query import Part, PureNoise
from adumbra.queries.sums import Sum, in_steps

__all__ = ["ItemsQuery"]


@dataclass(frozen=True, eq=False)
class ItemsQuery(Sum):
    """One count for each declared value of a column whose cells are sets (`Block.most` values at most, each once).

    A category is a set of at most one.
    """

    block: Block
    pure: PureNoise = "laplace"

    def __post_init__(self) -> None:
        if not self.block.by_place:
            raise ValueError("items are counted of a set, or of a category")

    @property
    def parts(self) -> tuple[Part, ...]:
        """`items`, one number for each value."""
        return (Part("items", (self.block.width,), 1.0, 1 / COUNT_STEPS, COUNT_STEPS),)

    def partial(self, batch: Reals) -> dict[str, Reals]:
        """Counts, in steps."""
        held = batch[:, self.block.start : self.block.stop] > 0
        return {"items": in_steps(np.count_nonzero(held, axis=0).astype(np.int64))}

    def describe(self) -> str:
        """A few words for a plan."""
        return f"counts of {self.block.width} items, at most {self.block.most} in a row"
