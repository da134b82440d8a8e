"""A domain: the cells of one declared column, or of a cross-product of several, and where a value falls in them.

A column that keeps empty cells has one more cell, the last, for what is missing, so that every row is in one cell.

A position along a column is counted in cells, from 0 to their number: cell c reaches from c to c + 1. Where cells are
bins of a number, a position may fall inside one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.validation import at_least
from adumbra.declare.cell_kinds.number import Number
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema
from adumbra.declare.space import HALF, Block, Space
from adumbra.queries.cells import Cells, Groups, cell_count
from adumbra.queries.histograms import LARGEST_DOMAIN

__all__ = ["DEFAULT_BINS", "MOST_BINS", "Domain"]

MOST_BINS = 2**14
"""Of one number: a cell is then four positions of the grid wide, so that rounding to it moves few values across."""
MOST_COLUMNS = 32
DEFAULT_BINS = 64
"""Cells of a number that is not a small whole number, where nothing was asked for."""
_NEAR = 1e-6
"""Of a level: what float64 may take from a value on it."""
_DEFAULT_LEVELS = 4096
"""A number of at most so many values has a cell for each, where nothing was asked for."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Columns and their cells, in C order: the last column changes fastest."""

    columns: tuple[Column, ...]
    groups: Groups

    @staticmethod
    def of(schema: Schema, space: Space, names: Sequence[str] = (), bins: int | None = None) -> Domain:
        """Of the columns named, or all; a number has `bins` equal cells, or one for each of few whole numbers."""
        blocks = {block.column: block for block in space.blocks}
        for name in names:
            if name not in blocks:
                raise InputError(
                    "columns of the schema that are released",
                    repr(name),
                    f"use some of: {', '.join(list(blocks)[:10])}",
                )
        if bins is not None:
            at_least(1, "give at least one bin", bins=bins)
        if bins is not None and bins > MOST_BINS:
            raise InputError(
                f"at most {MOST_BINS} bins of a number, whose values are kept to 2^16 positions",
                f"{bins} bins",
                "ask for fewer --bins; larger domains are combinations of columns, such as two parts of a code",
            )
        chosen = [blocks[name] for name in dict.fromkeys(names or blocks)]
        several = [block.column for block in chosen if block.kind == "set"]
        if several:
            raise InputError(
                "columns with one value in a cell, so that a row is in one cell",
                f"{several[0]!r}, a set",
                f"count its values with --mechanism items --columns {several[0]}, or name other --columns",
            )
        if len(chosen) > MOST_COLUMNS:
            raise InputError(
                f"at most {MOST_COLUMNS} columns in a domain", f"{len(chosen)}", "name fewer with --columns A,B"
            )
        counts = [cell_count(b, bins or DEFAULT_BINS, _DEFAULT_LEVELS if bins is None else bins) for b in chosen]
        cells = _cells(chosen, counts, [b.keeps for b in chosen])
        if math.prod(cells.sizes) > LARGEST_DOMAIN:
            sizes = ", ".join(f"{b.column} {n}" for b, n in zip(chosen[:10], cells.sizes, strict=False))
            raise InputError(
                f"a domain of at most {LARGEST_DOMAIN} cells",
                f"{_product(cells.sizes)} cells ({sizes}{', ...' if len(chosen) > 10 else ''})",
                "name fewer columns with --columns A,B, or ask for fewer --bins; a column with missing = VALUE in the "
                "schema has no cell for what is missing",
            )
        return Domain(tuple(schema.column(b.column) for b in chosen), Groups(cells))

    @staticmethod
    def from_card(schema: Schema, facts: Mapping[str, Any]) -> Domain:
        """The domain that `facts` describes; those of earlier releases know of no cells for what is missing."""
        blocks = {block.column: block for block in schema.space(None).blocks}
        chosen, missing = [blocks[name] for name in facts["columns"]], facts.get("missing") or ()
        if not missing:  # and bins of many whole numbers were equal
            chosen = [replace(b, levels=None) if (b.levels or 0) > _DEFAULT_LEVELS else b for b in chosen]
        cells = _cells(chosen, [int(n) for n in facts["cells"]], [bool(own) for own in missing])
        return Domain(tuple(schema.column(name) for name in facts["columns"]), Groups(cells))

    def facts(self) -> dict[str, Any]:
        """For the card."""
        cells = self.groups.cells
        names = [column.name for column in self.columns]
        return {"columns": names, "cells": list(cells.counts), "missing": list(cells.missing)}

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column, that for what is missing among them."""
        return self.groups.cells.sizes

    @property
    def values(self) -> tuple[int, ...]:
        """Cells of each column that hold values."""
        return self.groups.cells.counts

    def some(self, axes: Sequence[int]) -> Domain:
        """The domain of some of the columns, in the order of their axes."""
        whole = self.groups.cells
        cells = Cells(
            tuple(whole.blocks[axis] for axis in axes),
            tuple(whole.counts[axis] for axis in axes),
            tuple(whole.cuts[axis] for axis in axes),
            tuple(whole.missing[axis] for axis in axes),
        )
        return Domain(tuple(self.columns[axis] for axis in axes), Groups(cells))

    @property
    def size(self) -> int:
        """Cells of the domain."""
        return self.groups.count

    @property
    def unordered(self) -> tuple[int, ...]:
        """Axes of categories and flags, along which nobody asks for ranges."""
        return tuple(axis for axis in range(len(self.columns)) if not self.ordered(axis))

    @property
    def apart(self) -> tuple[int, ...]:
        """Axes of numbers that end in a cell for what is missing, which no range holds."""
        missing = self.groups.cells.missing
        return tuple(axis for axis, own in enumerate(missing) if own and axis not in self.unordered)

    def axis(self, name: str) -> int:
        """Which axis a column is."""
        for index, column in enumerate(self.columns):
            if column.name == name:
                return index
        raise InputError(
            "a column of the domain that was counted",
            repr(name),
            f"use one of: {', '.join(column.name for column in self.columns)}",
        )

    def ordered(self, axis: int) -> bool:
        """Whether the values of a column are in an order, so that ranges of them can be asked for."""
        return self.groups.cells.blocks[axis].kind == "number"

    def between(self, name: str, low: object, high: object) -> tuple[float, float]:
        """Positions of the values from `low` to `high`, both included; what is missing is in no range.

        An end that is None is that of the column.
        """
        axis = self.axis(name)
        column, count, block = self.columns[axis], self.values[axis], self.groups.cells.blocks[axis]
        if not self.ordered(axis):
            raise InputError("a column in order for a range", f"{name}, a {column.kind}", f"write {name}=VALUE instead")
        start, stop = self._share(axis, low, -1), self._share(axis, high, 1)
        if start > stop:
            raise InputError(f"a range of {name} that begins before it ends", f"{low} to {high}", "swap them")
        if stop < 0 or start > 1:
            least, most = column.cells.examples()[:2]
            raise InputError(
                f"values of {name} as declared, from {_short(least)} to {_short(most)}",
                f"{'...' if low is None else low} to {'...' if high is None else high}",
                "others were moved to the nearest end when they were counted",
            )
        if block.levels is None:  # a value of a step stands for what is recorded as it
            start, stop = self._share(axis, low, -1, -1), self._share(axis, high, 1, 1)
            start, stop = max(start, 0.0) * count, min(stop, 1.0) * count
            return (start, stop) if start <= stop else (0.0, 0.0)
        last = block.levels - 1
        first, final = math.ceil(max(start, 0.0) * last - _NEAR), math.floor(min(stop, 1.0) * last + _NEAR)
        edges = _first_of_bins(block, count)
        ends = np.interp(
            [first, final + 1.0], np.arange(count + 1.0) if edges is None else edges, np.arange(count + 1.0)
        )
        return (float(ends[0]), float(ends[1])) if first <= final else (0.0, 0.0)

    def _share(self, axis: int, value: object, side: int, half_steps: int = 0) -> float:
        """Where an end of a range lies on the grid, from 0 to 1 and beyond; one left open is at that of its `side`."""
        if value is None:
            return side * math.inf
        cells = self.columns[axis].cells
        found = cells.share_of(value, half_steps)
        if found is None:
            name, example = self.columns[axis].name, cells.examples()[0]
            raise InputError(f"a {cells.name} for {name}", f"{value!r}", f"for example, write {name}={_short(example)}")
        return found

    def value(self, name: str, text: object) -> tuple[float, float]:
        """Positions of one value: of a category, a flag, or a number that has a cell for each value."""
        axis = self.axis(name)
        column = self.columns[axis]
        if self.ordered(axis):
            return self.between(name, text, text)
        read = column.cells.read(pl.Series([text], strict=False))
        if read.lost[0]:
            if column.cells.block == "flag":
                raise InputError(f"yes or no for the flag {name}", f"{text!r}", "write yes or no")
            raise InputError(f"one of the declared values of {name}", f"{text!r}", "see the schema on the card")
        code = column.cells.codes(read.values)[0]
        place = float(code > 0) if column.cells.block == "flag" else float(code)
        return place, place + 1.0

    def absent(self, name: str) -> tuple[float, float]:
        """Positions of what is missing in a column."""
        axis = self.axis(name)
        if not self.groups.cells.missing[axis]:
            raise InputError(
                f"a value of {name}: no cell was counted for what is missing",
                "what is missing",
                "ask for values; a later release counts missing cells where the schema does not say missing = VALUE",
            )
        return float(self.values[axis]), float(self.shape[axis])

    def by_value(self, axis: int) -> bool:
        """Whether each cell of a column is one value."""
        return self.groups.cells.level_positions(axis) is not None or not self.ordered(axis)

    def stepped(self, axis: int) -> bool:
        """Whether the values of a column are so far apart that one of them can be asked for."""
        cells = self.columns[axis].cells
        return not isinstance(cells, Number) or cells.step is not None

    def listed(self) -> tuple[tuple[str, ...], NDArray[np.float64], dict[str, list[Any]]]:
        """All cells, one a row, for a release: names, numbers, and for each of the columns what its numbers stand for.

        A value has one column; a bin two, where it begins and where it ends; what is missing is None. No two have the
        same name, whatever the columns are called.
        """
        names: list[str] = []
        taken = {column.name for column in self.columns}

        def free(name: str) -> str:
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        parts: list[NDArray[np.float64]] = []
        words: dict[str, list[Any]] = {}
        places = np.unravel_index(np.arange(self.size), self.shape)
        for axis, (column, place) in enumerate(zip(self.columns, places, strict=True)):
            said = self._said(axis)
            own = [column.name] if len(said) == 1 else [free(f"{column.name}_from"), free(f"{column.name}_to")]
            names += own
            parts += [place.astype(np.float64)] * len(own)
            nothing = [None] * self.groups.cells.missing[axis]
            words |= {name: [*values, *nothing] for name, values in zip(own, said, strict=True)}
        return tuple(names), np.stack(parts, axis=1), words

    def _said(self, axis: int) -> list[list[Any]]:
        """What the cells of a column stand for: their values, or the first and the last of each.

        Where values are not stepped, a bin ends where the next one begins.
        """
        cells, count, block = self.columns[axis].cells, self.values[axis], self.groups.cells.blocks[axis]
        if block.kind == "category":
            return [cells.write(np.arange(count, dtype=np.float64)).to_list()]
        first_of = _first_of_bins(block, count)
        if first_of is not None:
            at = 2 * HALF / ((block.levels or 2) - 1)
            return [cells.write(levels * at - HALF).to_list() for levels in (first_of[:-1], first_of[1:] - 1)]
        if self.by_value(axis):
            return [cells.write(np.linspace(-HALF, HALF, count)).to_list()]
        edges = cells.write(self.groups.cells.edges(axis)).to_list()
        return [edges[:-1], edges[1:]]


def _first_of_bins(block: Block, count: int) -> NDArray[np.float64] | None:
    """For bins of few whole numbers: the first of each, counted from the lowest, and one past the last of all."""
    if block.kind != "number" or block.levels is None or block.levels <= count:
        return None
    return np.floor(np.arange(count + 1.0) * block.levels / count + 0.5)


def _cells(blocks: Sequence[Block], counts: Sequence[int], missing: Sequence[bool]) -> Cells:
    """Equal cells; those of whole numbers end between two of them, so that none is cut."""
    cuts: list[NDArray[np.float64] | None] = []
    for block, count in zip(blocks, counts, strict=True):
        first_of = _first_of_bins(block, count)
        levels = block.levels or 2
        cuts.append(None if first_of is None else (first_of[1:-1] - 0.5) * (2.0 * HALF / (levels - 1)) - HALF)
    return Cells(tuple(blocks), tuple(counts), tuple(cuts), tuple(missing))


def _product(counts: Sequence[int]) -> str:
    size = math.prod(counts)
    return str(size) if size < 10**9 else f"about 10^{len(str(size)) - 1}"


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
