"""What to expect of pairs of columns, for plans and cards: their error, and which dependence is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from adumbra.common.types import Reals
from adumbra.compare.compared_cells import CellCodes, ColumnCells
from adumbra.compare.table_layout import pair_cells
from adumbra.declare.schema import Schema
from adumbra.declare.space import Block
from adumbra.kinds.joint_facts import JointFacts
from adumbra.models.columns import Columns
from adumbra.models.joint_layout import JointLayout
from adumbra.models.pair_error import PairColumn, kept_above, predicted_pair_error, single_error
from adumbra.models.pair_model import PairModel
from adumbra.queries.joint_tables import JointCells, JointTablesQuery

__all__ = ["PairOutlook", "compared_columns", "joint_facts", "pair_outlook", "supposed_columns"]

_MOST_PAIRS = 1000
"""More are averaged over as many, evenly chosen."""
_POINTS = 64
"""Places within a joint cell that are looked up."""


@dataclass(frozen=True)
class PairOutlook:
    """What noise makes of the tables of pairs."""

    error: float
    """Total variation of a pair, mean: what `evaluate` will measure."""
    kept_above: float
    """About which dependence of a pair, as total variation from independence, is told from noise: the median."""
    least: float
    """The same for the pair that shows most."""
    most: float
    """And for the one that shows least."""
    pairs: int
    of_pairs: int

    def lines(self) -> list[tuple[str, str]]:
        """Label and text, for a plan."""
        return [
            ("pairs of columns measured", f"{self.pairs} of {self.of_pairs}"),
            (
                "a pair of columns",
                f"error of about {self.error:.2g} (total variation of its table, mean), for columns of usual shape",
            ),
            (
                "dependence that is kept",
                f"that of pairs with a total variation from independence above about {self.kept_above:.2g} (by numbers "
                f"of cells {self.least:.1g} to {self.most:.1g}); of others what follows from these",
            ),
        ]


def pair_outlook(
    columns: Sequence[PairColumn], tables: Sequence[tuple[int, ...]], sds: Sequence[float], rows: float
) -> PairOutlook | None:
    """What noise of these `sds` on `tables` makes of pairs of `columns`, for so many `rows`; None without a pair.

    Tables are positions of columns, and those of two columns count here. `sds` are in rows, one for each table.
    """
    found = [(table[0], table[1], sd) for table, sd in zip(tables, sds, strict=True) if len(table) == 2]
    if not found:
        return None
    chosen = [found[i] for i in np.linspace(0, len(found) - 1, min(len(found), _MOST_PAIRS)).astype(int)]
    errors = [predicted_pair_error(columns[a], columns[b], sd, rows) for a, b, sd in chosen]
    kept = [kept_above(columns[a], columns[b], sd, rows) for a, b, sd in chosen]
    every = len(columns) * (len(columns) - 1) // 2
    return PairOutlook(
        float(np.mean(errors)), float(np.median(kept)), float(min(kept)), float(max(kept)), len(found), every
    )


def supposed_columns(joint: JointCells, sd: float, rows: float) -> list[PairColumn]:
    """Columns of which only the number of `joint` cells is known, none of them empty anywhere.

    `sd` is that of the noise on the counts of a column by itself, of so many `rows`.
    """
    out = []
    for count, block, missing in zip(joint.counts, joint.cells.blocks, joint.cells.missing, strict=True):
        column = PairColumn.supposed(count - missing, ordered=block.kind == "number")
        out.append(replace(column, error=single_error(column, sd, rows)))
    return out


def compared_columns(layout: JointLayout, schema: Schema | None, error: float) -> list[PairColumn]:
    """Columns with this `layout`, and how their joint cells lie in those that `evaluate` will compare pairs by.

    `schema` has the columns by name; None, where nobody knows it, compares joint cells. `error` is the total variation
    of a column by itself.
    """
    out = []
    for j, (block, shares) in enumerate(zip(layout.cells.cells.blocks, layout.shares, strict=True)):
        if schema is None:
            out.append(PairColumn(shares, None, error))
            continue
        cut = pair_cells(schema.column(block.column))
        cells = np.repeat(np.arange(len(shares)), _POINTS)
        values = layout.values(j, cells, np.tile((np.arange(_POINTS) + 0.5) / _POINTS, len(shares)))
        both = np.zeros((cut.count, len(shares)))
        np.add.at(both, (_compared(cut, block, values), cells), 1 / _POINTS)
        out.append(PairColumn(shares, both, error))
    return out


def _compared(cut: ColumnCells, block: Block, values: Reals) -> CellCodes:
    """The cells of the comparison (`cut`) that `values` of a draft lie in; nan is an empty one."""
    if not block.by_place:
        return cut.of(np.nan_to_num(values)[:, None])
    # no row of zeros with a single one for each: with thousands of values these would fill the memory
    return cut.of_places(np.nan_to_num(values, nan=block.width).astype(np.int64))


def joint_facts(
    columns: Columns, model: PairModel, query: JointTablesQuery, sds: list[float], least: float
) -> JointFacts:
    """For the card: the tables of several `columns` that a `query` asked for, and what the `model` found in them.

    `sds` are those of the noise on the tables, in rows; `least` is the strength that a pair needs to be told from it.
    """
    names = [block.column for block in columns.features]
    of_pairs = [sd for table, sd in zip(query.tables, sds, strict=True) if len(table) == 2]
    of_three = [sd for table, sd in zip(query.tables, sds, strict=True) if len(table) == 3]
    return JointFacts(
        columns=tuple(names),
        cells=query.cells.counts,
        pairs=len(of_pairs),
        kept=sum(own.strength > 0 for own in model.pairs.values()),
        triples=len(of_three),
        kept_triples=len(model.triples),
        pair_sd=float(np.median(of_pairs)),
        triple_sd=float(np.median(of_three)) if of_three else None,
        kept_above=least,
        strongest=JointFacts.strongest_of((names[j], names[k], own.strength) for (j, k), own in model.pairs.items()),
    )
