"""Which scores a row has, where they stand, and what they are expected to vary by.

Numbers come first, then what is looked up: other columns, and for columns that are sometimes empty whether they are.
An empty cell has 0, its mean, for the scores of its value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import Block
from adumbra.models.column_cells import LEVELS
from adumbra.models.marginals import Marginal
from adumbra.queries.cells import Cells, cell_count
from adumbra.queries.scores import Linear, Lookup, Scores

__all__ = ["RADIUS", "ScoreLayout", "presence_lookup"]

RADIUS = 0.8
"""Of the ball, over the root of the total variance."""


def presence_lookup(block: Block, vectors: Reals) -> tuple[int, Reals]:
    """The cells of a column's values, and a vector for each and for what is missing, from one for either state.

    `block` is the column, `vectors` those of a cell that is there and of one that is not.
    """
    count = 1 if block.kind == "number" else cell_count(block, 1)
    return count, np.concatenate([np.repeat(vectors[:1], count, axis=0), vectors[1:]])


@dataclass(frozen=True, eq=False)
class ScoreLayout:
    """The scores of columns (`blocks`) with these `marginals`; those in `watched` also have one for being there."""

    blocks: tuple[Block, ...]
    marginals: tuple[Marginal, ...]
    watched: tuple[int, ...] = ()

    @cached_property
    def _numbers(self) -> list[int]:
        return [j for j, m in enumerate(self.marginals) if m.form == "number"]

    @cached_property
    def _others(self) -> list[int]:
        return [j for j, m in enumerate(self.marginals) if m.form != "number"]

    @cached_property
    def positions(self) -> Integers:
        """Where each column's scores begin."""
        order = [*self._numbers, *self._others]
        widths = np.array([self.marginals[j].width for j in order], dtype=np.int64)
        out = np.empty(len(order), dtype=np.int64)
        out[order] = np.cumsum(widths) - widths
        return out

    @property
    def presence(self) -> dict[int, int]:
        """Where the score stands of whether a column is there, for those that are watched."""
        start = sum(m.width for m in self.marginals)
        return {j: start + place for place, j in enumerate(self.watched)}

    @cached_property
    def variances(self) -> Reals:
        """The variance of every score."""
        own = [self.marginals[j].variances for j in (*self._numbers, *self._others)]
        return np.concatenate([*own, *(self.marginals[j].presence.variances for j in self.watched)])

    @property
    def total(self) -> float:
        """That of all together."""
        return float(self.variances.sum())

    @cached_property
    def scores(self) -> Scores:
        """What is measured: rows in a ball whose radius follows from the total variance."""
        linear = np.array([self.marginals[j].linear() for j in self._numbers]).reshape(-1, 3)
        coordinates = np.array([self.blocks[j].start for j in self._numbers], dtype=np.int64)
        counts = [cell_count(self.blocks[j], 1, LEVELS) for j in self._others]
        vectors = [self.marginals[j].vectors for j in self._others]
        for j in self.watched:
            count, both = presence_lookup(self.blocks[j], self.marginals[j].presence.vectors)
            counts.append(count)
            vectors.append(both)
        cells = Cells(
            tuple(self.blocks[j] for j in (*self._others, *self.watched)),
            tuple(counts),
            missing=tuple(place >= len(self._others) for place in range(len(counts))),
        )
        lookups = tuple(Lookup(place, each) for place, each in enumerate(vectors))
        radius = RADIUS * math.sqrt(self.total)
        return Scores(Linear(coordinates, linear[:, 0], linear[:, 1], linear[:, 2]), cells, lookups, radius)
