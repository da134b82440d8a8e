"""Public cells: where a value falls in its column, and which class a row belongs to.

A number is divided into equal cells of its declared range, into cells that hold whole levels, or one cell per level; a
flag has two cells, a category one per value. All of it follows from the schema, or from numbers already published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, HALF, Block

__all__ = ["Cells", "Groups", "cell_count", "cut_after", "last_level"]


def cell_count(block: Block, bins: int, most_levels: int = 20) -> int:
    """Cells of a column: its values, its levels where they are few, else `bins` equal ones."""
    if block.kind == "category":
        return block.width
    if block.kind == "flag":
        return 2
    return block.levels if block.levels is not None and block.levels <= most_levels else bins


def cut_after(block: Block, levels: Integers | Reals) -> Reals:
    """Grid positions half a level above these `levels` of a number, from 0; of one without, half a grid step above."""
    return np.asarray(-HALF + (np.asarray(levels, dtype=np.float64) + 0.5) * (GRID / last_level(block)))


def last_level(block: Block) -> int:
    """The highest level of a number or flag, from 0; a number that is not stepped has every grid position for one."""
    if block.kind == "flag":
        return 1
    return GRID if block.levels is None else max(block.levels - 1, 1)


def _aligned(block: Block, most: int) -> Reals | None:
    """Cuts of a number into about `most` cells of as many levels each, and one for each spike; None for equal cells."""
    last = last_level(block)
    levels = np.unique(np.rint((np.array(block.spikes, dtype=np.float64) + HALF) * (last / GRID)))
    spiked = cut_after(block, np.concatenate([levels - 1, levels]))
    if block.levels is None:
        if not len(spiked):
            return None
        even = -HALF + np.arange(1, most) * (GRID / most)
    else:
        even = cut_after(block, np.rint(np.arange(1, most) * (block.levels / most)) - 1)
    cuts = np.unique(np.concatenate([even, spiked]))
    return np.asarray(cuts[(cuts > -HALF) & (cuts < HALF)])


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
            if block.kind == "set":
                raise ValueError("a set has no cell: a row may have several of its values")
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

    @staticmethod
    def aligned(blocks: Sequence[Block], most: Sequence[int], *, missing: bool = False) -> Cells:
        """Cells of the columns `blocks`, those of a number at most about as many as `most` says for it.

        A number of no more levels has a cell for each; else its cells hold whole levels, as many each as can be, and
        its spikes have cells of their own. With `missing`, columns that keep empty cells have one for them.
        """
        counts: list[int] = []
        cuts: list[Reals | None] = []
        for block, wanted in zip(blocks, most, strict=True):
            counts.append(cell_count(block, wanted, wanted))
            cuts.append(None)
            if block.kind == "number" and block.levels != counts[-1]:
                cuts[-1] = _aligned(block, wanted)
                counts[-1] = wanted if cuts[-1] is None else len(cuts[-1]) + 1
        return Cells(tuple(blocks), tuple(counts), tuple(cuts), tuple(missing and b.keeps for b in blocks))

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
            return np.concatenate([[-HALF], cut_after(self.blocks[index], np.arange(count - 1)), [HALF]])
        return np.linspace(-HALF, HALF, count + 1, dtype=np.float64)

    def level_positions(self, index: int) -> Reals | None:
        """Grid positions of the values a column can have, where they are few; None for a number cut into cells."""
        count = self.counts[index]
        if not self._by_level(index) or self._cuts(index) is not None:
            return None
        return self.levels_at(index, np.arange(count))

    def levels_at(self, index: int, levels: Integers) -> Reals:
        """Grid positions of these `levels` of a flag or number, as they are encoded: whole, and never 0."""
        found = np.rint(-HALF + levels * (GRID / last_level(self.blocks[index])))
        return np.asarray(np.where(found == 0, 1.0, found))

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
