"""The cells in which columns are counted: a level each where the noise allows, whole levels together where it does not.

A column is of one of three forms:

| form | which | cells | scores |
|---|---|---|---|
| `number` | numbers with many values | one a level, or parts of the range | one: the standardised value |
| `levels` | flags, two-valued categories, small whole numbers | one a level | one: the normal score of the level |
| `values` | other categories | one a value | one a value: the standardised indicator |

Values of a number are counted in units of its range: from 0 to 1, and half a level beyond at either end, so that a cell
that holds k levels is k levels wide wherever it lies. A number that is not stepped has every position of the grid for a
level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import GRID, HALF, Block
from adumbra.queries.cells import Cells, cell_count, cut_after, last_level

__all__ = [
    "LEVELS",
    "Form",
    "alike",
    "as_cells",
    "by_value",
    "drawn_in",
    "equal_cells",
    "first_cells",
    "form_of",
    "levels_with_room",
    "mass_cells",
    "on_levels",
    "unit_edges",
    "unit_step",
]

Form = Literal["number", "levels", "values"]

LEVELS = 20
"""A number of no more levels is treated as levels."""
_ROOM_A_LEVEL = 5.0
_MOST_LEVEL_CELLS = 400
_MOST_CELLS = 2**17
"""Of all columns together, where cells are as many as the noise allows."""


def form_of(block: Block) -> Form:
    """How a column is treated."""
    if block.kind == "flag" or (block.kind == "category" and block.width == 2):
        return "levels"
    if block.kind == "category":
        return "values"
    return "levels" if block.levels is not None and block.levels <= LEVELS else "number"


def equal_cells(blocks: Sequence[Block], bins: int, most_levels: float = LEVELS, *, missing: bool = False) -> Cells:
    """Cells of the columns `blocks`: one for each level of a number of at most `most_levels`, else about `bins`.

    Those hold whole levels. With `missing`, columns that keep empty cells have one for them.
    """
    most = [cell_count(b, bins, int(most_levels)) if b.kind == "number" else 1 for b in blocks]
    return Cells.aligned(blocks, most, missing=missing)


def first_cells(blocks: Sequence[Block], room: float) -> Cells:
    """Cells of a first measurement at columns `blocks`, where `room` is the number of rows over the noise of a cell.

    A cell for each level of a number as long as noise is small beside an average one; else 10, 20 or 40 cells of whole
    levels. Every column that keeps empty cells has one for them.
    """
    bins = 10 if room < 100 else 20 if room < 400 else 40
    return equal_cells(blocks, bins, levels_with_room(room, len(blocks)), missing=True)


def levels_with_room(room: float, columns: int) -> float:
    """How many levels may have a cell each, where `room` is rows over the noise of a cell, in so many `columns`."""
    return max(LEVELS, min(room / _ROOM_A_LEVEL, _MOST_LEVEL_CELLS, _MOST_CELLS // max(columns, 1)))


def mass_cells(first: Cells, quantiles: Sequence[Callable[[Reals], Reals]] | None, parts: int) -> Cells:
    """Cells for a second measurement, of about equal released mass: resolution goes where the column is.

    `first` are the cells of the first measurement. Columns that had one for each value have the same again; any
    other number gets about `parts` cells, in whole levels; a level that holds as much as half of one, a declared
    spike and either end of the range have a cell of their own. `quantiles` are those of the columns; where they are
    None, cells are of equal width.
    """
    counts: list[int] = []
    cuts: list[Reals | None] = []
    for index, block in enumerate(first.blocks):
        if by_value(first, index):
            counts.append(first.counts[index])
            cuts.append(None)
            continue
        halves = np.arange(1, 2 * parts) / (2 * parts)
        last = last_level(block)
        at = halves if quantiles is None else quantiles[index](halves)
        level = np.clip(np.floor(at * last + 0.5), 0, last)
        heavy = level[1:][np.diff(level) == 0]
        alone = np.concatenate([heavy, np.rint((np.array(block.spikes, dtype=np.float64) + HALF) * (last / GRID))])
        alone = np.concatenate([alone, [0.0, float(last)]])
        after = np.unique(np.concatenate([level[1::2], alone, alone - 1]))
        inner = cut_after(block, after[(after >= 0) & (after < last)])
        cuts.append(inner)
        counts.append(len(inner) + 1)
    return Cells(first.blocks, tuple(counts), tuple(cuts), first.missing)


def by_value(cells: Cells, index: int) -> bool:
    """Whether a column has a cell for each of its values."""
    return form_of(cells.blocks[index]) != "number" or cells.level_positions(index) is not None


def alike(cells: Cells) -> list[tuple[bool, int, Integers]]:
    """Columns whose tables can be read together: (in order, number of cells, which columns)."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for index, (block, count) in enumerate(zip(cells.blocks, cells.counts, strict=True)):
        groups.setdefault((form_of(block) != "values", count), []).append(index)
    return [(ordered, count, np.array(members)) for (ordered, count), members in groups.items()]


def unit_step(block: Block) -> float:
    """The width of a level."""
    return 1.0 / last_level(block)


def unit_edges(cells: Cells, index: int) -> Reals | None:
    """Ends of a number's cells, in units of its range; None for the rest."""
    block = cells.blocks[index]
    if form_of(block) != "number":
        return None
    edges = cells.edges(index) / GRID + 0.5
    edges[[0, -1]] = -unit_step(block) / 2, 1 + unit_step(block) / 2
    return edges


def on_levels(block: Block, steps: Reals) -> Reals:
    """Grid steps of a number or flag as they are encoded: on the nearest level where it has levels, and never 0.

    `block` is the column, `steps` lie anywhere; nan stays.
    """
    steps = np.clip(steps, -HALF, HALF)
    if block.levels is not None or block.kind == "flag":
        last = last_level(block)
        steps = np.rint(-HALF + np.rint((steps + HALF) * (last / GRID)) * (GRID / last))
    return np.asarray(np.where(steps == 0, 1.0, steps))


def drawn_in(cells: Cells, index: int, cell: Integers, u: Reals) -> Reals:
    """Values of column `index` in these cells, as a draft wants them: nan in that for empty ones.

    A value is as likely as any other in its cell; `u` has a number from 0 to 1 for each. `cells` are those of all
    columns.
    """
    block, count = cells.blocks[index], cells.counts[index]
    empty, cell = cell >= count, np.minimum(cell, count - 1)
    if block.kind == "category":
        return np.where(empty, np.nan, cell)
    positions = cells.level_positions(index)
    if positions is not None:
        return np.where(empty, np.nan, positions[cell])
    edges = unit_edges(cells, index)
    assert edges is not None
    width = np.diff(edges)
    inside = np.where(width[cell] < 1.5 / GRID, 0.5, u)
    return np.where(empty, np.nan, on_levels(block, (edges[cell] + inside * width[cell] - 0.5) * GRID))


def as_cells(values: Reals, cells: Cells, index: int) -> Integers:
    """The cell, among those of column `index` of `cells`, of `values` as a marginal's quantiles give them."""
    if form_of(cells.blocks[index]) != "number":
        return values.astype(np.int64)
    inner = cells.edges(index)[1:-1]
    return np.searchsorted(inner, (values - 0.5) * GRID, side="right")
