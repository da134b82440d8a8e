"""Tables: label by column tables in one measurement; rows drawn with columns independent given the class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Promise
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.row_count import (
    UNKNOWN_ROWS,
    known_rows,
    measured_arrays,
    measured_names,
    public_rows,
    with_size,
    with_size_query,
)
from adumbra.families.set_columns import beside_sets, with_set_queries, with_sets
from adumbra.families.synthetic import DrawnTable
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.models.column_cells import drawn_in, equal_cells, levels_with_room
from adumbra.models.columns import Columns, classes_to_draw, drawing, in_batches
from adumbra.models.denoising import centred, missing_shares
from adumbra.models.shrinkage import apportion, onto_simplex
from adumbra.queries.cells import Cells
from adumbra.queries.domain import MOST_BINS
from adumbra.queries.sums import TablesQuery

__all__ = ["Tables"]

_LINE = "tables"
_ROOM = ((100.0, 16), (25.0, 8), (0.0, 4))
"""Cells of a number for at least so many rows a class over the noise of one cell."""


@dataclass(frozen=True)
class Tables(DrawnTable):
    """Parameters, all public.

    * `label`: the column whose classes get their own tables (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has.
    * `bins`: cells of a number; default: 4, 8 or 16, by rows a class over the noise of one cell (below 25, below 100,
      more), in whole levels. Flags, categories and as many levels of a number as that leaves room for have a cell
      each.
    """

    bins: int | None = None

    name: ClassVar[str] = "tables"
    title: ClassVar[str] = "label by column tables, measured once, then sampled"
    releases: ClassVar[str] = "a synthetic table of any number of rows, and the noisy tables it was drawn from"
    suits: ClassVar[str] = "very small tables; single columns and their relation to the label; any mix of kinds"
    caution: ClassVar[str] = (
        "synthetic rows, not people: no row stands for a person; columns are related through the label only, so "
        "correlations within a class are gone"
    )
    theorem: ClassVar[str] = "Gaussian mechanism (Balle and Wang 2018, Theorem 8) on one vector of counts"
    differs: ClassVar[str] = (
        "This mechanism is our own: the simplest design that works, and one to beat. All tables are one measurement, "
        "whose noise grows with the root of the number of columns; classes add nothing to it."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Balle, Wang (2018), Improving the Gaussian Mechanism for Differential Privacy, ICML, Theorem 8",
            "@inproceedings{balle2018improving, title={Improving the {Gaussian} Mechanism for Differential Privacy}, "
            "author={Balle, Borja and Wang, Yu-Xiang}, booktitle={ICML}, year={2018}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bins is not None:
            at_least(1, "give from one bin up to that many", MOST_BINS, bins=self.bins)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One measurement."""
        return with_sets(setting, with_size(setting, {_LINE: 1.0}))

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """All tables; where the number of rows is private, with as many cells as there may be."""
        columns = self.columns(setting)
        rows = math.inf if setting.rows is None else setting.rows
        return with_set_queries(
            setting, with_size_query(setting, {_LINE: _query(columns, self._cells(setting, columns, rows))})
        )

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The `noise` on a share in this `setting`, whatever the `promise`."""
        columns = self.columns(setting)
        cells = self._cells(setting, columns, public_rows(setting) or UNKNOWN_ROWS)
        out = [*self.shape_to_expect(setting), ("cells", f"{cells.total} in {len(cells.blocks)} columns")]
        if setting.rows:
            sd = noise[_LINE].sd / setting.rows * columns.declared
            out.append(("share of a cell in a class", f"noise of sd {sd:.3g}, if classes are of equal size"))
        return out

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure, clean, draw."""
        columns = self.columns(setting)
        rows = known_rows(door, setting)
        cells = self._cells(setting, columns, rows)
        noisy = door.measure(_LINE, _query(columns, cells))
        found = _ClassShares.of(columns, cells, noisy, rows)
        drawn = self.rows_drawn(setting, rows)
        sd = noisy.sd(_part(columns)) * math.sqrt(len(found.classes)) / rows
        draft = Draft(
            columns=None,
            batches=_draw(columns, cells, found, drawn, setting),
            facts=SyntheticTableFacts(
                label=tuple(columns.label),
                classes=len(found.classes),
                cells=cells.total,
                predicted_error=PredictedError(
                    # half the sum over a column's cells of the mean size of their noise
                    marginal_tv=min(sd * math.sqrt(2 / math.pi) / 2 * cells.total / len(cells.blocks), 1.0)
                ),
            ),
            arrays=measured_arrays({_LINE: noisy}),
            measured=measured_names({_LINE: noisy}),
        )
        return beside_sets(door, setting, rows, draft)

    def _cells(self, setting: Setting, columns: Columns, rows: float) -> Cells:
        if self.bins is not None:
            return equal_cells(columns.features, self.bins, missing=True)
        noise = setting.preview(1.0, _query(columns, equal_cells(columns.features, 4)))
        room = rows / (columns.declared * noise)
        bins = next(bins for least, bins in _ROOM if room >= least)
        levels = levels_with_room(room, len(columns.features) * columns.classes)
        return equal_cells(columns.features, bins, levels, missing=True)


def _part(columns: Columns) -> str:
    return "pooled" if columns.groups is None else "grouped"


def _query(columns: Columns, cells: Cells) -> TablesQuery:
    if columns.groups is None:
        return TablesQuery(cells)
    return TablesQuery(cells, columns.groups, pooled=0.0, grouped=1.0)


@dataclass(frozen=True, eq=False)
class _ClassShares:
    """Which classes there are, their sizes, and for each column a table (class x cell) of shares."""

    classes: Integers
    sizes: Reals
    tables: list[Reals]

    @staticmethod
    def of(columns: Columns, cells: Cells, noisy: SumAnswer, rows: float) -> _ClassShares:
        counted, sd = np.atleast_2d(noisy.values[_part(columns)]), noisy.sd(_part(columns))
        # every column counts every class: their mean has the least noise; and no class vanishes because of it
        sizes = counted.sum(axis=1) / len(cells.blocks)
        classes = columns.likely(sizes, sd * math.sqrt(cells.total) / len(cells.blocks))
        missing = missing_shares([(counted.sum(axis=0), sd * math.sqrt(len(counted)), cells)], rows)
        sizes, counted = sizes[classes], counted[classes]
        sizes = np.maximum(onto_simplex(sizes, rows), max(2.0, 0.002 * rows))
        sizes = sizes * (rows / sizes.sum())
        tables = []
        for start, size, empty, share in zip(cells.starts, cells.sizes, cells.missing, missing, strict=True):
            kept = size - (empty and share == 0)  # where next to nothing is missing, nothing is
            tables.append(onto_simplex(centred(counted[:, start : start + kept] / sizes[:, None])))
        return _ClassShares(classes, sizes, tables)


def _draw(columns: Columns, cells: Cells, found: _ClassShares, rows: int, setting: Setting) -> Iterator[Reals]:
    generator = drawing(setting.seed, "tables")
    groups = classes_to_draw(apportion(found.sizes, rows), generator)
    start = 0
    for size in in_batches(rows, len(columns.features)):
        group = groups[start : start + size].astype(np.int64)
        start += size
        features = {}
        for j, (block, table) in enumerate(zip(columns.features, found.tables, strict=True)):
            cell = _cells_drawn(np.cumsum(table, axis=1), group, generator.random(size))
            features[block.column] = drawn_in(cells, j, cell, generator.random(size))
        yield columns.written(features, found.classes[group])


def _cells_drawn(below: Reals, group: NDArray[np.int64], u: Reals) -> NDArray[np.int64]:
    """A cell for each row, by the shares of its class (`below`: class x cell, cumulated)."""
    out = np.empty(len(group), dtype=np.int64)
    for index, shares in enumerate(below):
        members = group == index
        out[members] = np.searchsorted(shares, u[members], side="right")
    return out.clip(0, below.shape[1] - 1)
