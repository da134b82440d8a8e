"""Auto: which mechanism, by a rule that reads public facts only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from adumbra.common.validation import one_of, settle
from adumbra.declare.guarantee import Unit
from adumbra.families.challenge import Challenge
from adumbra.families.contract import Mechanism, Reference, Setting
from adumbra.families.row_count import public_rows
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.hybrid import Hybrid
from adumbra.mechanisms.moments import Moments
from adumbra.mechanisms.pairs import CLEAR, Pairs
from adumbra.mechanisms.tables import Tables
from adumbra.models.column_cells import equal_cells, form_of
from adumbra.models.columns import MOST_COORDINATES, Columns, parse_label, rows_to_draw
from adumbra.queries.sums import TablesQuery

__all__ = ["Auto"]

_NEEDS = ("model", "correlations", "marginals", "aligned-rows")
_FEW_ROWS = 150
_SMALL = 1000
_CLEAR, _TABLES_CLEAR = 15.0, 8.0  # above, hybrid does as well as moments, and as tables
_MANY_CLASSES = 6


@dataclass(frozen=True)
class Auto:
    """Parameters, all public.

    * `need`: what the release is for: model (train one on it), correlations, marginals, or aligned-rows (one released
      row for each row of the table).
    * `label`: the column to predict (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has.
    """

    need: str = "model"
    label: str | tuple[str, ...] = ()
    rows: int | None = None

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"need": _NEEDS}
    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "the mechanism that suits, by a public rule"
    releases: ClassVar[str] = "what the chosen mechanism releases; `adumbra plan` names it and says why"
    suits: ClassVar[str] = "use this by default: the rule reads public facts only, never the rows"
    caution: ClassVar[str] = "the rule knows the table's shape, not its content: another mechanism may do better"
    theorem: ClassVar[str] = "that of the chosen mechanism; the choice itself costs nothing"
    differs: ClassVar[str] = (
        "This mechanism is our own: a rule from measurements on public tables (docs/mechanisms/auto.md)."
    )
    units: ClassVar[tuple[str, ...]] = ("row", "cell")
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ()
    sets: ClassVar[bool] = True
    cites: ClassVar[tuple[Reference, ...]] = Hybrid.cites

    def __post_init__(self) -> None:
        settle(self)
        one_of(_NEEDS, need=self.need)
        object.__setattr__(self, "label", parse_label(self.label))
        rows_to_draw(self.rows, 0)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """Those of the mechanisms it chooses."""
        cells = [c for c in DPPro.challenges() if c.neighbours.unit is Unit.CELL]
        return (*Hybrid.challenges(), *(replace(c, options={}) for c in cells))

    def choose(self, setting: Setting) -> tuple[Mechanism, str]:
        """The mechanism, and why, in a sentence."""
        if self.need == "aligned-rows":
            return DPPro(), "you need one released row for each row: DPPro keeps distances between them"
        if setting.neighbours.unit is Unit.CELL:
            return DPPro(), "unit cell: DPPro is the mechanism whose noise gets smaller for single cells"
        if setting.space.row_bound is not None:
            return DPPro(), "a row bound was given: DPPro is the mechanism that measures rows as they are bounded"
        return self._drawing(setting)

    def _drawing(self, setting: Setting) -> tuple[Mechanism, str]:
        columns = Columns.split(setting.space, parse_label(self.label), setting.labels)
        rows = public_rows(setting) or _SMALL  # of one that says nothing of its size it is taken to be no small table
        if sum(block.width for block in columns.features) > MOST_COORDINATES:
            return Tables(self.label, self.rows), (
                f"more than {MOST_COORDINATES} values and columns: tables are what can be held"
            )
        if self.need == "model" and columns.groups is not None and rows < _SMALL:
            found = self._small(setting, columns, rows)
            if found is not None:
                return found
        need = self.need if self.need != "model" or columns.groups is not None else "correlations"
        pairs = Pairs(self.label, self.rows, need)
        if (clarity := pairs.clarity(setting)) >= CLEAR:
            return pairs, (
                f"rows enough to measure every pair of columns: a usual cell holds {clarity:.2g} times the noise of a "
                f"count (at least {CLEAR:g})"
            )
        reasons = {
            "model": "tables for the columns, moments for how classes differ and columns are correlated",
            "correlations": "a table of each column and correlations, with most of the budget on correlations",
            "marginals": "a table of each column and correlations, with half of the budget on the tables",
        }
        return Hybrid(self.label, self.rows, need), reasons[need]

    def _small(self, setting: Setting, columns: Columns, rows: float) -> tuple[Mechanism, str] | None:
        """What a table of so few rows can bear, if that is less than the hybrid; from kinds, classes and noise."""
        count, clarity = len(columns.features), _clarity(setting, columns, rows)
        named = sum(block.kind != "number" or block.levels == 2 for block in columns.features)
        noisy = f"whose class means have a signal-to-noise ratio of {clarity:.2g}"
        if 3 * named >= 2 * count and (rows < _FEW_ROWS or clarity < _TABLES_CLEAR):
            small = f"{noisy} (below {_TABLES_CLEAR:g})" if rows >= _FEW_ROWS else f"fewer than {_FEW_ROWS} rows"
            return Tables(self.label, self.rows), (
                f"a small table of categories and flags, {small}: tables of the label with each column are all it "
                "can bear"
            )
        plain = sum(form_of(block) == "number" for block in columns.features)
        many = columns.declared >= _MANY_CLASSES and 2 * plain > count
        if clarity < _CLEAR and 2 * named <= count and not many:
            return Moments(self.label, self.rows, narrow=True), (
                f"a small table of numbers, {noisy} (below {_CLEAR:g}): moments spend nothing on the shapes of columns"
            )
        return None


def _clarity(setting: Setting, columns: Columns, rows: float) -> float:
    """Signal-to-noise ratio of class means: rows per class over the noise of a mean, in deviations of a column."""
    noise = setting.preview(1.0, TablesQuery(equal_cells(columns.features, 10)))
    mu = math.sqrt(2.0 * len(columns.features)) / noise
    width = sum(block.width if form_of(block) == "values" else 1 for block in columns.features)
    return rows * mu * math.sqrt(0.8 / width) / columns.declared
