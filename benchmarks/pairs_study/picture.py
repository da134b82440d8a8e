"""The picture of docs/mechanisms/pairs.md: one pair of columns on its way through one release.

    PYTHONPATH=benchmarks python -m pairs_study.picture DATA FILE.svg

Age and marital status of Adult (DATA holds adult.csv.gz), all 15 columns released at epsilon 1. The steps
are those of that very release. The last panel is the truth, which nobody but the owner has.
"""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

import adumbra as ad
import tables
from adumbra.common.types import Integers, Reals
from adumbra.models.column_cells import unit_edges
from adumbra.models.joint_layout import JointLayout
from adumbra.models.pair_model import PairModel
from adumbra.models.residual_tables import Residual
from adumbra.report.svg import path, picture, said

NUMBER, CATEGORY = "age", "marital_status"
LEFT, WIDE, CELL, STEP, TOP = 156, 360, 13, 130, 66
SHADES = 12
WORDS = (
    (
        "1  Tables of single columns",
        "Each column by itself, with noise. If the two were independent, their table would be this.",
    ),
    (
        "2  What is measured of the pair",
        "Its table less what the single columns tell, with noise: blue is more rows, orange fewer. Outlines: more than "
        "3 deviations of the noise.",
    ),
    (
        "3  Noise taken out",
        "What noise explains is gone, the single columns are added, no cell is below 0.",
    ),
    (
        "4  Rows",
        "Drawn column by column, then moved until the rows of the release have these tables, for all pairs at once.",
    ),
    ("The truth", "For comparison. It is no part of the release."),
)


class Watched:
    """One release, and what the model behind it was made of."""

    def __init__(self, frame: pl.DataFrame, schema: ad.Schema) -> None:
        fitted = PairModel.fitted

        def kept(layout: JointLayout, residuals: Mapping[Any, Residual], *rest: Any) -> PairModel:
            self.layout, self.residuals = layout, residuals
            self.model = fitted(layout, residuals, *rest)
            return self.model

        with mock.patch.object(PairModel, "fitted", staticmethod(kept)):
            self.rows = ad.release(frame, schema, "pairs", 1.0).table


def cells_of(frame: pl.DataFrame, schema: ad.Schema, layout: JointLayout, name: str) -> Integers:
    """The joint cell of each row in a column; no cell of these two is empty."""
    fine = layout.cells.cells
    place = [block.column for block in fine.blocks].index(name)
    column, merged = schema.column(name), layout.cells.merged[place]
    assert merged is not None
    if column.values:
        values = [str(value) for value in column.values]
        return merged[np.array([values.index(str(value)) for value in frame[name]])]
    edges = unit_edges(fine, place)
    assert edges is not None
    unit = (frame[name].to_numpy() - column.low) / (column.high - column.low)
    return merged[np.clip(np.searchsorted(edges, unit, side="right") - 1, 0, len(edges) - 2)]


def counted(frame: pl.DataFrame, schema: ad.Schema, layout: JointLayout, shape: tuple[int, int]) -> Reals:
    """The table of both columns, in shares."""
    both = [cells_of(frame, schema, layout, name) for name in (CATEGORY, NUMBER)]
    return np.bincount(both[0] * shape[1] + both[1], minlength=shape[0] * shape[1]).reshape(shape) / frame.height


def heat(table: Reals, top: float, most: float) -> list[str]:
    """A table as cells of one ink, the more the darker; what is below 0 in another."""
    out = []
    width = WIDE / table.shape[1]
    level = np.rint(np.sqrt(np.minimum(np.abs(table) / most, 1.0)) * SHADES).astype(int) * np.sign(table).astype(int)
    for shade in np.unique(level[level != 0]):
        places = np.argwhere(level == shade)
        shape = "".join(
            f"M{LEFT + x * width:.1f} {top + y * CELL:g}h{width:.2f}v{CELL}h-{width:.2f}z" for y, x in places
        )
        ink = "blue" if shade > 0 else "shade"
        out.append(path(shape, fill=ink, fill_opacity=abs(shade) / SHADES))
    right, floor = LEFT + WIDE, top + len(table) * CELL
    return [*out, path(f"M{LEFT} {top:g}H{right}V{floor:g}H{LEFT}z", stroke="faint", stroke_width=0.8)]


def outlined(where: Reals, top: float) -> str:
    """A frame around each cell that is true."""
    width = WIDE / where.shape[1]
    places = np.argwhere(where)
    shape = "".join(f"M{LEFT + x * width:.1f} {top + y * CELL:g}h{width:.2f}v{CELL}h-{width:.2f}z" for y, x in places)
    return path(shape, stroke="text", stroke_width=0.7)


def panel(number: int, names: Sequence[str], ages: Sequence[tuple[int, str]], cells: int) -> list[str]:
    """What stands around a table."""
    top = TOP + number * STEP
    out = [
        said(LEFT - 8, top + CELL * (i + 0.75), name, text_anchor="end", fill="quiet") for i, name in enumerate(names)
    ]
    floor = top + CELL * len(names) + 14
    out += [said(LEFT + place * WIDE / cells, floor, age, fill="quiet", font_size="11") for place, age in ages]
    title, words = WORDS[number]
    x = LEFT + WIDE + 24
    out.append(said(x, top + 12, title, font_weight="600", font_size="14"))
    lines = textwrap.wrap(words, 44)
    return [*out, *(said(x, top + 32 + 17 * i, line, fill="quiet", font_size="13") for i, line in enumerate(lines))]


def main() -> None:
    """Draw it."""
    logging.getLogger("adumbra.owner").setLevel(logging.ERROR)
    frame, schema, _ = tables.load("adult", sys.argv[1])
    seen = Watched(frame, schema)
    columns = [block.column for block in seen.layout.cells.cells.blocks]
    pair = columns.index(NUMBER), columns.index(CATEGORY)
    measured, found = seen.residuals[pair], seen.model.pairs[pair]
    alone = np.outer(seen.layout.shares[pair[1]], seen.layout.shares[pair[0]])
    shape = alone.shape
    true = counted(frame, schema, seen.layout, shape)
    beyond = (measured.table - (alone - _means(alone)).T).T
    shown = [alone, beyond, found.shares.T, counted(seen.rows, schema, seen.layout, shape), true]
    names = [str(value) for value in schema.column(CATEGORY).values]
    if len(names) != shape[0]:
        raise SystemExit("rare values share a cell in this release: draw again")
    own = cells_of(frame, schema, seen.layout, NUMBER)
    firsts = [int(frame[NUMBER].filter(pl.Series(own == cell)).min()) for cell in range(shape[1])]  # type: ignore[arg-type]
    ages = [(place, f"{age}" + (" years" if place == 0 else "")) for place, age in enumerate(firsts) if place % 6 == 0]
    parts = [said(16, 28, "Two columns on their way through a release", font_size="16", font_weight="600")]
    about = (
        f"Adult, {frame.height:,} rows, {frame.width} columns, epsilon 1. Each panel: age across, in cells of about "
        "equal mass, marital status down."
    )
    parts.append(said(16, 47, about, fill="quiet"))
    most = float(true.max())
    for number, table in enumerate(shown):
        top = TOP + number * STEP
        parts += heat(table, top, most) + panel(number, names, ages, shape[1])
        if number == 1:
            parts.append(outlined(np.abs(table) > 3 * measured.sd, top))
    label = (
        "Five tables of age and marital status: independent, measured, without noise, of the drawn rows, and the truth."
    )
    drawn = picture(
        860, TOP + len(shown) * STEP - 12, parts, label=label, title="Two columns on their way through a release"
    )
    Path(sys.argv[2]).write_text(drawn, encoding="utf-8")


def _means(table: Reals) -> Reals:
    return table.mean(axis=0) + table.mean(axis=1, keepdims=True) - table.mean()


if __name__ == "__main__":
    main()
