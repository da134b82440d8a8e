"""Cells of columns for tables of several: about equal mass, what is rare together, what is missing apart.

They follow from released tables of single columns, and within a joint cell a value has the distribution it has there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Integers, Reals
from adumbra.declare.space import Block
from adumbra.models.column_cells import first_cells, form_of, unit_edges
from adumbra.models.denoising import ColumnTables
from adumbra.models.marginals import Marginal, expected_shares, marginals_of
from adumbra.models.quantile_decoder import as_steps
from adumbra.queries.cells import Cells
from adumbra.queries.joint_tables import JointCells

__all__ = ["JointLayout", "supposed_layout"]

_TAIL = 8
"""Cells at least, of a number whose rows are mostly at a few values, for all others."""
_LEAST = 1e-6
_SUPPOSED_MISSING = 0.05


@dataclass(frozen=True, eq=False)
class JointLayout:
    """Joint cells, the share of each, and the marginals that say how values lie within them."""

    cells: JointCells
    shares: tuple[Reals, ...]
    marginals: tuple[Marginal, ...]
    ordered: tuple[int, ...]
    """How many joint cells of each column are in order; 0 for a category."""

    @staticmethod
    def of(
        fine: Cells, marginals: Sequence[Marginal], parts: int, least: float, whole: Sequence[int] = ()
    ) -> JointLayout:
        """About `parts` cells for each number, of the `fine` ones that the `marginals` of columns were measured in.

        None of those is divided: a table of single columns says nothing of where in it the rows are. A share below
        `least` is not told apart from its neighbours, but for values of the columns in `whole`.
        """
        merged: list[Integers] = []
        in_order: list[int] = []
        shares: list[Reals] = []
        for j, marginal in enumerate(marginals):
            own = _fine_shares(fine, j, marginal)
            cut = 0.0 if j in whole else least
            ordered = form_of(fine.blocks[j]) != "values"
            values = own[: fine.counts[j]]
            joint = _in_order(values, _mass(values, parts), cut) if ordered else _rare(values, cut)
            in_order.append(int(joint.max()) + 1 if ordered else 0)
            if fine.missing[j]:
                # a share of empty cells that is lost in the noise is no cell: they are counted with the commonest
                alone = marginal.missing > 0
                joint = np.append(joint, joint.max() + 1 if alone else joint[int(values.argmax())])
            merged.append(joint)
            found = np.maximum(np.bincount(joint, weights=own), _LEAST)
            shares.append(found / found.sum())
        return JointLayout(JointCells(fine, tuple(merged)), tuple(shares), tuple(marginals), tuple(in_order))

    def values(self, j: int, cell: Integers, u: Reals) -> Reals:
        """Values of column `j` in these joint cells, as a draft wants them; `u` has a number from 0 to 1 for each."""
        fine, joint, marginal = self.cells.cells, self.cells.merged[j], self.marginals[j]
        assert joint is not None
        block = fine.blocks[j]
        own = _fine_shares(fine, j, marginal)
        count = fine.counts[j]
        missing = int(joint[count]) if fine.missing[j] and marginal.missing > 0 else -1
        out = np.full(len(cell), np.nan)
        edges = unit_edges(fine, j)
        below = np.concatenate([[0.0], np.cumsum(own[:count] / max(own[:count].sum(), 1e-300))])
        if edges is not None and marginal.edges is not None:
            below = np.interp(edges, marginal.edges, marginal.below)
            below[[0, -1]] = 0.0, 1.0
        for q in np.unique(cell):
            if q == missing:
                continue
            rows = np.flatnonzero(cell == q)
            members = np.flatnonzero(joint[:count] == q)
            mass = np.diff(below)[members]
            mass = mass if mass.sum() > 0 else np.full(len(members), 1.0)
            ends = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
            which = np.clip(np.searchsorted(ends, u[rows], side="right") - 1, 0, len(members) - 1)
            inside = (u[rows] - ends[which]) / np.maximum(np.diff(ends)[which], 1e-300)
            if form_of(block) == "values" or marginal.edges is None:
                out[rows] = members[which]
            else:
                low, high = below[members[which]], below[members[which] + 1]
                out[rows] = marginal.quantile(np.clip(low + inside * (high - low), 0.0, 1.0 - 1e-12))
        return as_steps(block, out)


def supposed_layout(blocks: Sequence[Block], parts: int) -> JointLayout:
    """As it may be for columns of which nothing is known, with about `parts` cells for each number of `blocks`."""
    cells = first_cells(blocks, math.inf)
    even = [np.full(count, 1.0 / count) for count in cells.counts]
    lost = np.array([_SUPPOSED_MISSING if missing else 0.0 for missing in cells.missing])
    return JointLayout.of(cells, marginals_of(blocks, ColumnTables(even, lost), cells), parts, 0.0)


def _fine_shares(fine: Cells, j: int, marginal: Marginal) -> Reals:
    own = expected_shares(marginal, unit_edges(fine, j)) * (1 - marginal.missing)
    return np.append(own, marginal.missing) if fine.missing[j] else own


def _mass(shares: Reals, parts: int) -> float:
    """What a cell should hold: a part of the column, less where most of it is in a few values."""
    if len(shares) <= parts:
        return 0.0
    rest = float(shares[shares < 1 / parts].sum())
    return min(1 / parts, rest / _TAIL)


def _in_order(shares: Reals, wanted: float, least: float) -> Integers:
    """Neighbouring cells together until each joint one of these `shares` holds about what is `wanted`, or more alone.

    None holds less than `least`.
    """
    out = np.zeros(len(shares), dtype=np.int64)
    cell, held = 0, 0.0
    for i, share in enumerate(shares):
        if i and held >= least and held > 0 and (held + share / 2 >= wanted or share >= wanted):
            cell, held = cell + 1, 0.0
        out[i] = cell
        held += share
    if cell and held < max(least, wanted / 2):  # too little is left over for a cell of its own
        out[out == cell] = cell - 1
    return out


def _rare(shares: Reals, least: float) -> Integers:
    """Values that hold less than `least` share one cell, if there are two of them or more."""
    small = shares < least
    if small.sum() < 2 or small.all():
        return np.arange(len(shares))
    out = np.empty(len(shares), dtype=np.int64)
    out[~small] = np.arange(int((~small).sum()))
    out[small] = int((~small).sum())
    return out
