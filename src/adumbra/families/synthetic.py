"""What all mechanisms that draw a table have in common: a label, a number of rows, and which promises they can make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adumbra.common.validation import settle
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Setting
from adumbra.families.row_count import UNKNOWN_ROWS, public_rows
from adumbra.models.columns import Columns, check_width, parse_label, rows_to_draw

__all__ = ["DrawnTable", "watchable"]

_FEW_ROWS = 10_000
"""A model trained on fewer drawn rows gains by more."""


@dataclass(frozen=True)
class DrawnTable:
    """The label (several: each combination makes a class) and how many rows to draw."""

    label: str | tuple[str, ...] = ()
    rows: int | None = None

    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ()
    deltas: ClassVar[Deltas] = "any"
    sets: ClassVar[bool] = True

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """One number among many rows in the middle of its range, where all measurements are most sensitive at once.

        A table has one cell that loses a count and one that wins it; scores are clipped to the ball at both ends of it.
        With the shared rows the first measurement finds a narrow scale, so that no end of the range falls inside the
        ball.

        Under zero-out once more with a label, a category and values for empty cells: an emptied row then changes its
        class and every cell, and costs as much as a replaced one.

        And for each relation a table of other kinds of cells, half of them empty, with a rule: a cell that is there
        against one that is not moves every table, the scores of being there, and the class.
        """
        schema = Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})
        shared = tuple({"a": str(0.45 + 0.1 * (i % 2))} for i in range(300))
        one, others = {"a": "1"}, {Relation.REPLACE: {"a": "0"}, Relation.ZERO_OUT: emptied({"a": "1"})}
        whys = {
            Relation.REPLACE: "a number moves from one end of its range to the other",
            Relation.ZERO_OUT: "a number at the end of its range is emptied",
            Relation.ADD_REMOVE: "a row at the end of the range is there or not",
        }
        single = (
            Challenge(Neighbours(Unit.ROW, relation), schema, one, others.get(relation), why, shared, {"rows": 20})
            for relation, why in whys.items()
        )
        return (*single, _emptied_into_another_class(), *(_there_or_not(relation) for relation in whys))

    def __post_init__(self) -> None:
        settle(self)
        object.__setattr__(self, "label", parse_label(self.label))
        rows_to_draw(self.rows, 0)  # refuses what is no number of rows

    def size(self, setting: Setting) -> tuple[int, int]:
        """Rows drawn, and columns."""
        return self.rows_drawn(setting, public_rows(setting) or UNKNOWN_ROWS), len(setting.space.blocks)

    def rows_drawn(self, setting: Setting, rows: float) -> int:
        """Rows to draw for a table of so many."""
        return rows_to_draw(self.rows, rows)

    def columns(self, setting: Setting) -> Columns:
        """Features and classes."""
        return Columns.split(setting.space, parse_label(self.label), setting.labels)

    def narrow_columns(self, setting: Setting) -> Columns:
        """The same where second moments of the features fit into memory; a wider table is refused."""
        columns = self.columns(setting)
        check_width(sum(block.width for block in columns.features))
        return columns

    def shape_to_expect(self, setting: Setting) -> list[tuple[str, str]]:
        """The first lines of an outlook."""
        columns, rows = self.columns(setting), public_rows(setting)
        drawn = "as many as the table has" if rows is None and self.rows is None else str(self.size(setting)[0])
        out = [
            ("rows drawn", drawn),
            ("classes", str(columns.declared) if columns.groups else "no label: one class"),
        ]
        if self.rows is None and rows is not None and rows < _FEW_ROWS:
            out.append(
                (
                    "more rows",
                    f"cost nothing: a model trained on so few drawn rows also learns their chance; --rows {_FEW_ROWS} "
                    "helps it",
                )
            )
        return out


def watchable(setting: Setting, columns: Columns) -> tuple[int, ...]:
    """Columns of whose absence a score may be taken, by public facts: not so many that scores become many more.

    `setting` says what is promised, `columns` are those to draw. None under pure epsilon, where each score more would
    be paid for: what is missing is then drawn by itself.
    """
    keeping = [j for j, block in enumerate(columns.features) if block.keeps]
    return tuple(keeping[: 0 if setting.pure else max(32, sum(b.width for b in columns.features) // 8)])


def _emptied_into_another_class() -> Challenge:
    schema = Schema.from_dict(
        {
            "columns": {
                "a": {"kind": "number", "low": 0, "high": 1, "missing": 0},
                "b": {"kind": "category", "values": ["x", "y", "z"], "missing": "x"},
                "ill": {"kind": "category", "values": ["no", "yes"], "missing": "no", "role": "label"},
            }
        }
    )
    one = {"a": "1", "b": "z", "ill": "yes"}
    return Challenge(
        Neighbours(Unit.ROW, Relation.ZERO_OUT),
        schema,
        one,
        emptied(one),
        "an emptied row gets other values in every column, its label among them",
        tuple({"a": str(0.45 + 0.1 * (i % 2)), "b": "y", "ill": ("no", "yes")[i % 2]} for i in range(300)),
        {"rows": 20},
    )


def _there_or_not(relation: Relation) -> Challenge:
    """Days, ordered codes, logarithms and labels that are there or not; ids and derived columns, which nobody reads.

    The row that differs breaks the rule, and half of the others do. Nothing of that may show: rules are for drawn rows.
    """
    schema = Schema.from_dict(
        {
            "columns": {
                "who": {"role": "id", "pattern": "@#"},
                "day": {"kind": "date", "low": "2024-01-01", "high": "2024-01-31"},
                "grade": {"kind": "ordinal", "values": [1, 2, 3, 5, 8]},
                "pay": {"kind": "number", "low": 0, "high": 100000, "scale": "log", "spikes": [0]},
                "ill": {"kind": "category", "values": ["no", "yes"], "role": "label"},
                "half": {"kind": "number", "low": 0, "high": 50000, "derived": "pay / 2"},
            },
            "rules": [{"check": "if ill = 'yes' then grade >= 3"}],
        }
    )
    there = {"who": "Z9", "day": "2024-01-31", "grade": "1", "pay": "100000", "ill": "yes", "half": "1"}
    middle = {"who": "A0", "day": "2024-01-16", "grade": "3", "pay": "300", "ill": "no", "half": "150"}
    gone = {"who": "A0", "day": None, "grade": None, "pay": None, "ill": "no", "half": "7"}
    whys = {
        Relation.REPLACE: "days, codes and a label that are there, in a row that breaks a rule, against empty cells",
        Relation.ZERO_OUT: "days, codes and a label of a row that breaks a rule are emptied",
        Relation.ADD_REMOVE: "a row of days, codes and a label that breaks a rule is there or not",
    }
    others = {Relation.REPLACE: {**gone, "ill": None}, Relation.ZERO_OUT: emptied(there)}
    shared = (middle, gone, {**middle, "ill": "yes", "grade": "2"}, {**gone, "ill": "yes"}) * 60
    return Challenge(
        Neighbours(Unit.ROW, relation), schema, there, others.get(relation), whys[relation], shared, {"rows": 20}
    )
