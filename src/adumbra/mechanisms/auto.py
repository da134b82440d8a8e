"""Auto: which mechanism, by a rule that looks at public facts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adumbra.core.guarantee import Unit
from adumbra.core.mechanism import Mechanism, Reference, Setting
from adumbra.core.validation import one_of
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.hybrid import Hybrid
from adumbra.mechanisms.tables import Tables
from adumbra.synthesis.columns import Columns, parse_label, rows_to_draw

__all__ = ["Auto"]

_NEEDS = ("model", "correlations", "marginals", "aligned-rows")
_FEW_ROWS = 150
_UNKNOWN_ROWS = 1000


@dataclass(frozen=True)
class Auto:
    """Parameters, all public.

    * `need`: what the release is for: model (train one on it), correlations, marginals, or aligned-rows (one released
      row for each row of the table).
    * `label`: the column to predict (several: each combination); default: the schema's labels.
    * `rows`: rows to draw; default: as many as the table has, at least 10,000.
    """

    need: str = "model"
    label: str | tuple[str, ...] = ()
    rows: int | None = None

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "the mechanism that suits, by a public rule"
    releases: ClassVar[str] = "what the chosen mechanism releases; `adumbra plan` names it and says why"
    suits: ClassVar[str] = "whoever has no reason to choose; the rule never looks at the rows"
    caution: ClassVar[str] = "the rule knows the table's shape, not its content: another mechanism may do better"
    theorem: ClassVar[str] = "that of the chosen mechanism; the choice itself costs nothing"
    differs: ClassVar[str] = "From no paper: a rule from measurements on public tables (docs/mechanisms/auto.md)."
    units: ClassVar[tuple[str, ...]] = ("row", "cell")
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ()
    cites: ClassVar[tuple[Reference, ...]] = Hybrid.cites

    def __post_init__(self) -> None:
        one_of(_NEEDS, need=self.need)
        object.__setattr__(self, "label", parse_label(self.label))
        rows_to_draw(self.rows, 0)

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
        rows = setting.rows or _UNKNOWN_ROWS
        if rows < _FEW_ROWS and columns.groups is not None:
            return (
                Tables(self.label, self.rows),
                f"{rows} rows are too few for correlations: tables of the label with each column are all they can bear",
            )
        return Hybrid(self.label, self.rows), "tables for the columns and moments for how they hang together"
