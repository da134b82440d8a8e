"""Pairs: tables of all columns, then of all pairs of them (and the label) as residuals; rows drawn to match."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import one_of
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge
from adumbra.families.column_tables import ColumnRounds, MeasuredColumns, fine_parts
from adumbra.families.contract import Draft, Measurer, Query, Reference, Setting, SumAnswer
from adumbra.families.pair_outlook import (
    PairOutlook,
    compared_columns,
    joint_facts,
    pair_outlook,
    supposed_columns,
)
from adumbra.families.row_count import (
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
from adumbra.mechanisms.bibliography import GAUSSIAN_DP
from adumbra.models.column_cells import equal_cells, first_cells
from adumbra.models.columns import Columns, drawing
from adumbra.models.joint_layout import JointLayout, supposed_layout
from adumbra.models.pair_model import PairModel
from adumbra.models.residual_tables import Residual, centred_table
from adumbra.queries.joint_tables import JointTablesQuery
from adumbra.queries.sums import TablesQuery

__all__ = ["CLEAR", "Pairs"]

_TABLES, _FINE, _JOINT = "tables", "fine tables", "joint tables"
_TABLE_SHARE = {"model": 0.2, "correlations": 0.2, "marginals": 0.5}
"""Share of the budget for tables of single columns, by need."""
_PARTS = ((10_000.0, 48), (300.0, 32), (100.0, 16), (0.0, 8))
"""Joint cells of a number for at least so many rows over the noise of a cell of a column's table."""
_MERGED_BELOW = 3.0
"""Values whose counts are below so many times their noise share a joint cell."""
_OF_LABEL, _OF_THREE = 2.0, 0.8
"""Weight of a table of the label and a column, beside the median of pairs; of the label and a pair, beside the pair."""
_MOST_COLUMNS = 160
_MOST_NUMBERS = 2**24
"""Of all joint tables as planned; with the cells that are found four times as many, which can still be held."""
_MOST_CENTRES = 4
"""Columns that are measured with pairs of others: the bound of a query tries all values of each of them."""
SUPPOSED_ROWS = 20_000
"""Of a table whose number of rows is private and not declared."""

CLEAR = 10.0
"""Clarity from which tables of all pairs tell more than moments do."""
_LEAST_CLEAR = 3.0
"""Below it, the label with each column is all that is measured, if there is a label."""
_THREE_FROM = 4.0
"""Clarity of tables of three columns from which the label is measured with pairs of others."""


@dataclass(frozen=True)
class Pairs(DrawnTable):
    """Parameters, all public.

    * `label`: the column that is measured with every pair of others (several: each of them); default: the schema's
      labels. Columns of role group are treated like it, four of all these at most.
    * `rows`: rows to draw; default: as many as the table has.
    * `need`: what matters most: model (a classifier trained on the rows), correlations (then no column is measured with
      pairs of others), or marginals.
    """

    need: str = "model"

    in_use: ClassVar[int] = 36
    """Arrays of the size of the joint tables that are in use at once: 34 in the fit of two columns of many values."""
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"need": tuple(_TABLE_SHARE)}
    name: ClassVar[str] = "pairs"
    title: ClassVar[str] = "tables of columns and of all pairs of columns, then rows that match them"
    releases: ClassVar[str] = "a synthetic table of any number of rows, and the noisy tables behind it"
    suits: ClassVar[str] = "facts about two columns: shares by group, means by group, combinations that cannot be"
    caution: ClassVar[str] = (
        "synthetic rows, not people: no row stands for a person; what three columns tell beyond their pairs is not "
        "kept, but for the label with two others; needs rows enough for the cells of a pair of columns"
    )
    theorem: ClassVar[str] = "Gaussian mechanism (Balle and Wang 2018, Theorem 8), measurements composed adaptively"
    differs: ClassVar[str] = (
        "This mechanism is our own. Tables of pairs are measured without their margins, which other tables tell and "
        "which would be paid for again; no graph is chosen, and no clique of it grows too large."
    )
    cites: ClassVar[tuple[Reference, ...]] = (
        GAUSSIAN_DP,
        Reference(
            "Xiao, He, Zhang, Kifer (2023), An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex "
            "Loss Functions, NeurIPS: residuals as a basis of marginals",
            "@inproceedings{xiao2023optimal, title={An Optimal and Scalable Matrix Mechanism for Noisy Marginals under "
            "Convex Loss Functions}, author={Xiao, Yingtai and He, Guanlin and Zhang, Danfeng and Kifer, Daniel}, "
            "booktitle={NeurIPS}, year={2023}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(tuple(_TABLE_SHARE), need=self.need)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """Those of all drawn tables, and rows that move tables of pairs by nearly all that is stated.

        Two rows are furthest apart there when about half of their columns differ, the label among them; one that comes
        or goes moves tables of enough columns by as much wherever it lies.
        """
        return (*super().challenges(), _of_categories(Relation.REPLACE), _of_categories(Relation.ADD_REMOVE))

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """A fifth for tables of single columns, in two rounds; the rest for pairs."""
        return with_sets(setting, with_size(setting, self._planned(setting).shares))

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """Every measurement, the later ones with placeholders for what the earlier ones will have found."""
        planned = self._planned(setting)
        first = first_cells(planned.columns.features, math.inf)
        queries: dict[str, Query] = {_TABLES: TablesQuery(first), _FINE: TablesQuery(first), _JOINT: planned.query}
        return with_set_queries(setting, with_size_query(setting, queries))

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The `noise` on shares and on pairs in this `setting`, whatever the `promise`."""
        out, rows, expected = self.shape_to_expect(setting), public_rows(setting), self.expected(setting, noise)
        if rows and expected is not None:
            sd = f"noise of sd {noise[_TABLES].sd / rows:.3g}, before smoothing across cells and columns"
            out += [("share of a cell of a column", sd), *expected.lines()]
        return out

    def expected(self, setting: Setting, noise: Mapping[str, Event]) -> PairOutlook | None:
        """What `noise` will make of pairs of columns in this `setting`; None where the number of rows is private."""
        planned, rows = self._planned(setting), public_rows(setting)
        if not rows:
            return None
        columns = supposed_columns(planned.query.cells, _together(noise, _TABLES, _FINE), rows)
        return pair_outlook(columns, planned.query.tables, planned.query.sds(noise[_JOINT].sd), rows)

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Tables of columns, then of pairs, then rows."""
        planned, rows = self._planned(setting), known_rows(door, setting)
        columns, label = planned.columns, planned.label
        answers: dict[str, SumAnswer] = {}
        found = planned.rounds(setting, rows).measured(door, rows, answers, drawing(setting.seed, "pairs tables"))
        layout = _found_layout(found, rows, (*label, *planned.centres))
        query = planned.asked(setting, layout, rows)
        answers[_JOINT] = noisy = door.measure(_JOINT, query)
        residuals = _residuals(query, noisy, rows)
        generator = drawing(setting.seed, "pairs")
        model = PairModel.fitted(layout, residuals, tuple(dict.fromkeys((*label, *planned.centres))), generator)
        sds = [residuals[places].sd * rows for places in query.tables]
        expected = pair_outlook(compared_columns(layout, setting.schema, found.error), query.tables, sds, rows)
        draft = Draft(
            columns=None,
            batches=model.batches(columns, self.rows_drawn(setting, rows), generator),
            facts=SyntheticTableFacts(
                label=tuple(columns.features[j].column for j in label),
                classes=math.prod(layout.cells.counts[j] for j in label),
                cells=found.cells.total,
                predicted_error=PredictedError(
                    marginal_tv=found.error, pair_tv=None if expected is None else expected.error
                ),
                joint=None if expected is None else joint_facts(columns, model, query, sds, expected.kept_above),
            ),
            arrays=measured_arrays(answers),
            measured=measured_names(answers),
        )
        return beside_sets(door, setting, rows, draft)

    def clarity(self, setting: Setting) -> float:
        """How clearly pairs will be seen: rows in a usual cell of a column over the noise of a count.

        The mean over pairs, from public facts; 0 for a table too wide to measure all. Where a model of K classes is
        wanted, over K^2 / 2: each has a K-th of the rows, for tables of which there are K times as many.
        """
        columns, rows = self._columns(setting)[0], public_rows(setting) or SUPPOSED_ROWS
        layout = _supposed(setting, columns, rows, self.need)
        if layout is None:
            return 0.0
        classes = self.columns(setting).declared if self.need == "model" else 1
        seen = _clarity(setting, _query(setting, layout, ()), 1 - _TABLE_SHARE[self.need], rows, 2)
        return seen / max(classes**2 / 2, 1.0)

    def _columns(self, setting: Setting) -> tuple[Columns, tuple[int, ...]]:
        """All columns that have one value in a cell, as features; and the positions of the labels among them."""
        columns = Columns(setting.space, tuple(block for block in setting.space.blocks if block.kind != "set"), None)
        return columns, _places(columns, self.columns(setting).label)

    @lru_cache(maxsize=4)  # noqa: B019 - keys are public and few, and plan, outlook and run ask the same
    def _planned(self, setting: Setting) -> _JointPlan:
        """Fixed before anything is measured: where the number of rows is private, as for a table of some size."""
        columns, label = self._columns(setting)
        rows = public_rows(setting) or SUPPOSED_ROWS
        layout = _supposed(setting, columns, rows, self.need)
        if layout is None:
            raise InputError(
                f"at most {_MOST_COLUMNS} columns, and {_MOST_NUMBERS:.1e} cells in tables of two, for pairs",
                f"{len(columns.features)} columns",
                "use --mechanism hybrid, or drop columns",
            )
        for_pairs = 1 - _TABLE_SHARE[self.need]
        groups = () if setting.schema is None else _places(columns, setting.schema.groups)
        favoured = (label if self.need == "model" else ()) + groups
        centres = () if setting.pure else _held_centres(layout, favoured[:_MOST_CENTRES], _MOST_NUMBERS)
        query = _query(setting, layout, centres, favoured)
        while centres and _clarity(setting, query, for_pairs, rows, 3) < _THREE_FROM:
            centres = centres[:-1]
            query = _query(setting, layout, centres, favoured)
        shares = {_TABLES: (1 - for_pairs) / 2, _FINE: (1 - for_pairs) / 2, _JOINT: for_pairs}
        return _JointPlan(columns, label, favoured, centres, shares, query)


@dataclass(frozen=True, eq=False)
class _JointPlan:
    """What follows from public facts."""

    columns: Columns
    label: tuple[int, ...]
    favoured: tuple[int, ...]
    """Labels and groups, whose tables with other columns weigh more."""
    centres: tuple[int, ...]
    """Those of them that are measured with every pair of other columns."""
    shares: Mapping[str, float]
    query: JointTablesQuery
    """Of all pairs, as it might look."""

    def asked(self, setting: Setting, layout: JointLayout, rows: float) -> JointTablesQuery:
        """What is asked of a table of so many `rows`, be it a noisy number: no bound depends on it.

        One that turns out to have too few for pairs is asked for its label with each column, and for nothing else.
        """
        centres = _held_centres(layout, self.centres, 4 * _MOST_NUMBERS)
        query = _query(setting, layout, centres, self.favoured)
        if self.favoured and _clarity(setting, query, self.shares[_JOINT], rows, 2) < _LEAST_CLEAR:
            return _query(setting, layout, (), self.favoured, only=True)
        return query

    def rounds(self, setting: Setting, rows: float) -> ColumnRounds:
        """How single columns are measured in a table of so many `rows`."""
        features = self.columns.features
        room = rows / setting.preview(self.shares[_TABLES], TablesQuery(equal_cells(features, 10)))
        return ColumnRounds(features, _TABLES, _FINE, room, fine_parts(room))


def _of_categories(relation: Relation) -> Challenge:
    names = [f"c{j}" for j in range(6)]
    columns = {name: {"kind": "category", "values": list("vwxyz")} for name in names}
    label = {"kind": "category", "values": ["no", "yes"], "role": "label"}
    one: dict[str, str | None] = {**dict.fromkeys(names, "z"), "ill": "yes"}
    apart = {Relation.REPLACE: {**one, **dict.fromkeys(names[::2], "v"), "ill": "no"}}
    whys = {
        Relation.REPLACE: "two rows that differ in half of their columns and in the label",
        Relation.ADD_REMOVE: "a row of many categories is there or not",
    }
    rows = ({name: "vwxyz"[(i // (j + 1)) % 5] for j, name in enumerate(names)} for i in range(150))
    return Challenge(
        Neighbours(Unit.ROW, relation),
        Schema.from_dict({"columns": {**columns, "ill": label}}),
        one,
        apart.get(relation),
        whys[relation],
        tuple({**row, "ill": ("no", "yes")[i % 2]} for i, row in enumerate(rows)),
        {"rows": 20},
    )


def _together(noise: Mapping[str, Event], *lines: str) -> float:
    """The sd of the mean of what was measured on several `lines`, each counting by its precision."""
    return math.sqrt(1 / sum(noise[line].sd ** -2 for line in lines if line in noise))


def _places(columns: Columns, names: Collection[str]) -> tuple[int, ...]:
    return tuple(j for j, block in enumerate(columns.features) if block.column in names)


def _parts(room: float) -> int:
    return next(parts for least, parts in _PARTS if room >= least)


def _supposed(setting: Setting, columns: Columns, rows: float, need: str) -> JointLayout | None:
    """Joint cells as there may be; None where there would be too many."""
    if len(columns.features) > _MOST_COLUMNS:
        return None
    room = rows / setting.preview(_TABLE_SHARE[need], TablesQuery(equal_cells(columns.features, 10)))
    layout = supposed_layout(columns.features, _parts(room))
    return layout if _numbers(layout, ()) <= _MOST_NUMBERS else None


def _found_layout(found: MeasuredColumns, rows: float, whole: tuple[int, ...]) -> JointLayout:
    """Joint cells of the columns as they were `found`, as fine as `rows` allow and memory holds.

    A plan supposes cells, and with them how many numbers there are. Where rows lie at many single values, or are many
    more than were declared, there are more cells: a measurement too large would be refused after it was charged.
    """
    least = _MERGED_BELOW * found.sd / rows
    for parts in (parts for _, parts in _PARTS if parts <= _parts(rows / found.sd)):
        layout = JointLayout.of(found.fine, found.marginals, parts, least, whole)
        if _numbers(layout, ()) <= 4 * _MOST_NUMBERS:
            break
    return layout


def _numbers(layout: JointLayout, centres: tuple[int, ...]) -> float:
    """How many numbers all pairs have, and each of the `centres` with all pairs of others."""
    counts = np.array(layout.cells.counts, dtype=np.float64)

    def of_pairs(own: Reals) -> float:
        return float(own.sum() ** 2 - (own**2).sum()) / 2

    return of_pairs(counts) + sum(float(counts[j]) * of_pairs(np.delete(counts, j)) for j in centres)


def _held_centres(layout: JointLayout, centres: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The first of the `centres`, as many as have no more than so many numbers; one of a single cell tells nothing."""
    centres = tuple(j for j in centres if layout.cells.counts[j] > 1)
    while centres and _numbers(layout, centres) > most:
        centres = centres[:-1]
    return centres


def _query(
    setting: Setting, layout: JointLayout, centres: tuple[int, ...], label: tuple[int, ...] = (), *, only: bool = False
) -> JointTablesQuery:
    """All pairs, those of the `label` with more weight, and each of the `centres` with all pairs of others.

    With `only`, pairs of the label and no others.

    Equal noise on all entries would leave tables of few cells clearer than they need be: the weight grows with the
    cells, by as much as makes the error of all tables together least.
    """
    counts = layout.cells.counts
    taking = [j for j, count in enumerate(counts) if count > 1]
    if len(taking) < 2 or (
        only and not set(label) & set(taking)
    ):  # there is no pair, but a measurement that was planned is made
        return JointTablesQuery(layout.cells, ((0,),), np.ones(1), setting.neighbours.relation, not setting.pure)
    chosen = set(label) if only else set(taking)
    part = 1 - 1 / np.array(counts, dtype=np.float64)
    weights = {
        (j, k): (counts[j] * counts[k] / math.sqrt(max(part[j] * part[k], 0.25))) ** (1 / 3)
        for place, j in enumerate(taking)
        for k in taking[place + 1 :]
        if chosen & {j, k}
    }
    usual = float(np.median(list(weights.values())))
    tables: dict[tuple[int, ...], float] = {}
    for pair, weight in weights.items():
        tables[pair] = _OF_LABEL * usual if set(label) & set(pair) else weight
    for centre in centres:
        for pair, weight in weights.items():
            if centre not in pair:
                tables.setdefault(tuple(sorted((centre, *pair))), _OF_THREE * weight)
    own = np.array(list(tables.values()))
    return JointTablesQuery(layout.cells, tuple(tables), own, setting.neighbours.relation, centred=not setting.pure)


def _clarity(setting: Setting, query: JointTablesQuery, share: float, rows: float, columns: int) -> float:
    """Rows of an average cell over the noise of a count, mean over tables of so many `columns`; 0 if there are none."""
    sds = query.sds(setting.preview(share, query))
    own = [
        rows / (sd * math.sqrt(math.prod(shape)))
        for table, shape, sd in zip(query.tables, query.shapes, sds, strict=True)
        if len(table) == columns
    ]
    return float(np.mean(own)) if own else 0.0


def _residuals(query: JointTablesQuery, noisy: SumAnswer, rows: float) -> dict[tuple[int, ...], Residual]:
    """What was measured, in shares; of plain tables what is left without their margins."""
    return {
        places: Residual(centred_table(table / rows), sd / rows)
        for places, (table, sd) in zip(query.tables, query.read(noisy), strict=True)
    }
