"""Public cells: where a value falls in its column, and which class a row belongs to.

A number is divided into equal cells of its declared range, or one cell per level where it is a small whole number; a
flag has two cells, a category one per value. All of it follows from the schema, or from numbers already published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, HALF, Block

__all__ = ["Cells", "Groups", "cell_count"]


def cell_count(block: Block, bins: int, most_levels: int = 20) -> int:
    """Cells of a column: its values, its levels where they are few, else `bins` equal ones."""
    if block.kind == "category":
        return block.width
    if block.kind == "flag":
        return 2
    return block.levels if block.levels is not None and block.levels <= most_levels else bins


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of some columns.

    `cuts` replaces the equal cells of a number by cells between these grid positions (ascending); everything else
    keeps the cells its kind gives it. `counts` are cells of values; a column that is `missing` has one more, the last,
    for cells that are not there. Without it such a cell is nowhere.
    """

    blocks: tuple[Block, ...]
    counts: tuple[int, ...]
    cuts: tuple[Reals | None, ...] = field(default=())
    missing: tuple[bool, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.blocks) != len(self.counts) or (self.cuts and len(self.cuts) != len(self.blocks)):
            raise ValueError("one count, and one set of cuts or none, for each column")
        object.__setattr__(self, "missing", tuple(self.missing) or (False,) * len(self.blocks))
        if len(self.missing) != len(self.blocks):
            raise ValueError("a cell for what is missing, or none, for each column")
        for block, count in zip(self.blocks, self.counts, strict=True):
            if count < 1 or (block.kind != "number" and count != cell_count(block, 1)):
                raise ValueError(f"column {block.column!r} cannot have {count} cells")
        own: list[Reals | None] = []
        for block, count, cuts in zip(self.blocks, self.counts, self.cuts, strict=False):
            if cuts is not None:
                if block.kind != "number" or len(cuts) != count - 1 or not bool((np.diff(cuts) >= 0).all()):
                    raise ValueError("cuts are for numbers, ascending, one fewer than the cells")
                cuts = np.array(cuts, dtype=np.float64)
                cuts.setflags(write=False)
            own.append(cuts)
        object.__setattr__(self, "cuts", tuple(own))

    @staticmethod
    def even(blocks: Sequence[Block], bins: int, most_levels: int = 20, *, missing: bool = False) -> Cells:
        """Cells of the columns `blocks`: one per value, but `bins` equal ones for numbers.

        A number of at most `most_levels` declared levels has a cell per level. With `missing`, columns that keep empty
        cells have one for them.
        """
        counts = tuple(cell_count(b, bins, most_levels) for b in blocks)
        return Cells(tuple(blocks), counts, missing=tuple(missing and b.keeps for b in blocks))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column, that for empty ones among them."""
        return tuple(count + missing for count, missing in zip(self.counts, self.missing, strict=True))

    @property
    def total(self) -> int:
        """Cells of all columns together."""
        return sum(self.sizes)

    @property
    def starts(self) -> Integers:
        """Position of each column's first cell in a list of all cells."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.int64)

    def of(self, batch: Reals) -> Integers:
        """The cell of every value, one column for each block; of an empty one its own cell, or -1 where it has none."""
        out = np.empty((len(batch), len(self.blocks)), dtype=np.int64)
        plain = [i for i, b in enumerate(self.blocks) if b.kind != "category" and self._cuts(i) is None]
        if plain:
            values = batch[:, [self.blocks[i].start for i in plain]]
            counts = np.array([self.counts[i] for i in plain])
            leveled = np.array([self._by_level(i) for i in plain])
            # a level sits in the middle of its cell, the ends of a range at the outer edges of theirs
            steps = np.where(leveled, counts - 1, counts) / GRID
            found = np.floor((values + HALF) * steps + np.where(leveled, 0.5, 0.0)).astype(np.int64)
            empty = np.array([self._empty(i) for i in plain])
            out[:, plain] = np.where(values == 0, empty, np.clip(found, 0, counts - 1))
        for i, block in enumerate(self.blocks):
            if block.kind == "category":
                part = batch[:, block.start : block.stop]
                out[:, i] = np.where(part.max(axis=1) > 0, part.argmax(axis=1), self._empty(i))
            elif (cuts := self._cuts(i)) is not None:
                values = batch[:, block.start]
                out[:, i] = np.where(values == 0, self._empty(i), np.searchsorted(cuts, values, side="right"))
        return out

    def _empty(self, index: int) -> int:
        return self.counts[index] if self.missing[index] else -1

    def edges(self, index: int) -> Reals:
        """Grid positions of the ends of a number's cells, one more than the cells."""
        cuts, count = self._cuts(index), self.counts[index]
        if cuts is not None:
            return np.concatenate([[-HALF], cuts, [HALF]])
        if self._by_level(index):
            middles = (np.arange(count + 1, dtype=np.float64) - 0.5) * GRID / max(count - 1, 1)
            return np.clip(-HALF + middles, -HALF, HALF)
        return np.linspace(-HALF, HALF, count + 1, dtype=np.float64)

    def level_positions(self, index: int) -> Reals | None:
        """Grid positions of the values a column can have, where they are few; None for a number cut into cells."""
        count = self.counts[index]
        if not self._by_level(index) or self._cuts(index) is not None:
            return None
        return np.linspace(-HALF, HALF, count, dtype=np.float64)

    def _cuts(self, index: int) -> Reals | None:
        return self.cuts[index] if self.cuts else None

    def _by_level(self, index: int) -> bool:
        block = self.blocks[index]
        return block.kind == "flag" or (block.levels is not None and block.levels == self.counts[index])


@dataclass(frozen=True, eq=False)
class Groups:
    """The class of a row: the value of a label column, or the combination of several; an empty label may be one too."""

    cells: Cells

    @property
    def count(self) -> int:
        """Number of classes."""
        return math.prod(self.cells.sizes)

    def of(self, batch: Reals) -> Integers:
        """The class of every row; -1 where a label is empty and has no cell for that."""
        cells = self.cells.of(batch)
        out = np.zeros(len(batch), dtype=np.int64)
        for column, count in zip(cells.T, self.cells.sizes, strict=True):
            out = out * count + column
        return np.where((cells < 0).any(axis=1), -1, out)

    def values_of(self, groups: Integers) -> Integers:
        """Back to one cell for each label column."""
        out = np.empty((len(groups), len(self.cells.sizes)), dtype=np.int64)
        rest = groups
        for index in range(len(self.cells.sizes) - 1, -1, -1):
            rest, out[:, index] = np.divmod(rest, self.cells.sizes[index])
        return out
