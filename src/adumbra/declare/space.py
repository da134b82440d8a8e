"""The public shape of encoded rows: which columns occupy which coordinates, and how far each can move.

Encoded rows are integers: coordinate values count steps of `1 / GRID`. One step of the grid is about 1.5e-5
of a column's declared range. With integers every sum below 2^53 is exact in any order, so the noise meets
exactly the number whose sensitivity was proved (docs/proofs/grid.md).

| kind | coordinates | values, in grid steps |
|---|---|---|
| number | 1 | -GRID/2 (declared low) .. GRID/2 (declared high), never 0 |
| flag | 1 | -GRID/2 (no) or GRID/2 (yes) |
| category | one per declared value | CATEGORY_STEPS at the cell's value, 0 elsewhere |
| set | one per declared value | `set_steps(most)` at each of the cell's values, at most `most` of them, 0 elsewhere |

An empty cell (missing, unknown) takes its column's declared fallback; with none declared it is 0 in all its
coordinates, and no value is: a number in the very middle of its range is one step above it. So whoever reads an
encoded row can tell whether a cell was there. In encoded units a number or flag that moves across its whole range, and
a category that changes, each move by a squared distance of 1 (the category slightly less: CATEGORY_STEPS is rounded
towards zero), and so does a set that is exchanged for another without a common value. A set of at most one value is a
category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CATEGORY_STEPS",
    "COUNT_STEPS",
    "EXACT",
    "GRID",
    "HALF",
    "MOST_LEVELS",
    "WHOLE",
    "Block",
    "Kind",
    "Space",
    "set_steps",
]

GRID = 2**16
HALF = GRID // 2
COUNT_STEPS = 1024
"""Integer steps of a count of one, so that noise well below one count can be drawn."""
EXACT = 2.0**53
"""Integers below this are exact in float64, and so is every sum of them that stays below it."""
WHOLE = 2**61
"""Answers below this meet their noise in 64-bit integers, and nothing overflows (`noise.add`)."""
CATEGORY_STEPS = math.isqrt(GRID * GRID // 2)  # floor(GRID / sqrt(2)) = 46340
MOST_LEVELS = GRID
"""Equally spaced values that the grid keeps apart; a column of more is treated like any other number."""

Kind = Literal["number", "flag", "category", "set"]


def set_steps(most: int) -> int:
    """Grid steps of a value that is in a set of at most so many: floor(GRID / sqrt(2 most)).

    >>> set_steps(1) == CATEGORY_STEPS, set_steps(10)
    (True, 14654)
    """
    return math.isqrt(GRID * GRID // (2 * most))


@dataclass(frozen=True)
class Block:
    """The coordinates `start .. start + width - 1` that one column of the table occupies."""

    column: str
    kind: Kind
    start: int
    width: int
    fallback: int | None = None
    """Where an empty cell goes: grid steps (number, flag) or the position of a value (category); None: to 0."""
    levels: int | None = None
    """How many equally spaced values a number can be (whole numbers, codes, days); None where it is not stepped, or
    where there are more than `MOST_LEVELS`."""
    spikes: tuple[int, ...] = ()
    """Grid positions of values that are declared to be common: each gets a cell of its own."""
    most: int = 1
    """Values that one cell of a set can hold."""

    @property
    def keeps(self) -> bool:
        """Whether an empty cell is a state of its own, to be released as one."""
        return self.fallback is None

    @property
    def stop(self) -> int:
        """One past the last coordinate."""
        return self.start + self.width

    @property
    def by_place(self) -> bool:
        """Whether every declared value has a coordinate of its own: a category or a set."""
        return self.kind in ("category", "set")

    @property
    def steps(self) -> int:
        """Largest size of one coordinate, in grid steps."""
        return set_steps(self.most) if self.by_place else HALF

    @property
    def filled(self) -> int:
        """Coordinates of one cell that are not 0, at most."""
        return min(self.width, self.most)

    @property
    def changed(self) -> int:
        """Coordinates in which two cells differ, at most."""
        return min(self.width, 2 * self.most)

    @property
    def reach(self) -> float:
        """Largest L2 norm of the cell, in grid steps."""
        return math.sqrt(self.reach_squared)

    @property
    def reach_squared(self) -> int:
        """Its square, a whole number."""
        return self.filled * self.steps**2

    @property
    def span_squared(self) -> int:
        """Largest squared L2 distance between two values of the cell, in grid steps, the empty cell included."""
        return self.changed * self.steps**2 if self.by_place else GRID * GRID

    @property
    def emptied(self) -> int:
        """Largest change of a number or flag when it is emptied, in grid steps."""
        return HALF + abs(self.fallback or 0)

    @property
    def emptied_squared(self) -> int:
        """Largest squared L2 distance between a value of the cell and the empty cell, in grid steps."""
        if not self.by_place:
            return self.emptied**2
        return self.reach_squared if self.fallback is None else self.span_squared


@dataclass(frozen=True)
class Space:
    """All blocks in order, and the bound that every row has been clipped to.

    `row_bound` (grid steps) is None when rows are bounded only by their cells' ranges. Clipping a row couples
    its cells, so a space with a row bound refuses the cell unit.
    """

    blocks: tuple[Block, ...]
    row_bound: int | None = None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First coordinate of each block."""
        return np.array([block.start for block in self.blocks], dtype=np.int64)

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """`Block.steps` of each block: the most that one of its coordinates can be."""
        return np.array([block.steps for block in self.blocks], dtype=np.float64)

    @cached_property
    def filled(self) -> NDArray[np.int64]:
        """`Block.filled` of each block."""
        return np.array([block.filled for block in self.blocks], dtype=np.int64)

    @cached_property
    def by_place(self) -> NDArray[np.bool_]:
        """`Block.by_place` of each block."""
        return np.array([block.by_place for block in self.blocks], dtype=np.bool_)

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Coordinates of each block."""
        return np.array([block.width for block in self.blocks], dtype=np.int64)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return self.blocks[-1].stop if self.blocks else 0

    @property
    def reach(self) -> float:
        """Upper bound on the L2 norm of a row, in grid steps."""
        cells = math.sqrt(sum(b.reach_squared for b in self.blocks)) * (1 + 1e-12)
        return cells if self.row_bound is None else min(cells, float(self.row_bound))

    @property
    def has_fallback(self) -> bool:
        """Whether some empty cell goes elsewhere than to 0."""
        return any(block.fallback is not None for block in self.blocks)

    @property
    def emptied(self) -> float:
        """Upper bound on the L2 distance between a row and the empty row, in grid steps."""
        cells = math.sqrt(sum(b.emptied_squared for b in self.blocks)) * (1 + 1e-12)
        if self.row_bound is None:
            return cells
        return min(cells, (2.0 if self.has_fallback else 1.0) * self.row_bound)

    @property
    def span(self) -> float:
        """Upper bound on the L2 distance between two rows, in grid steps."""
        cells = math.sqrt(sum(b.span_squared for b in self.blocks)) * (1 + 1e-12)
        return cells if self.row_bound is None else min(cells, 2.0 * self.row_bound)
