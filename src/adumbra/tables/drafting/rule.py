"""A rule that may hold: it is tried on all rows before the owner is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from adumbra.declare.column import toml_text
from adumbra.tables.drafting.finding import ColumnFinding, question
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.drafting.words import rule_name

__all__ = ["EXCEPTIONS", "MaybeRule", "equals", "literal", "rule_lines"]

EXCEPTIONS = 0.001
"""Share of rows in which what is asked about may not hold: rows have errors."""


class MaybeRule(ABC):
    """What may always be so between some columns. `strength` says how much of a surprise it would be by chance."""

    columns: tuple[str, ...]
    strength: float = 0.0
    exceptions: float = EXCEPTIONS
    tried = 0
    wrong = 0

    @abstractmethod
    def add(self, cells: SomeRows) -> None:
        """Try it on some rows."""

    @abstractmethod
    def lines(self) -> list[str]:
        """The question, and the rule as a suggestion."""

    @property
    def holds(self) -> bool:
        """Whether it held in nearly all rows it speaks of."""
        return self.tried > 0 and self.wrong <= self.exceptions * self.tried

    def but(self) -> str:
        """How it is said that it did not hold everywhere."""
        return f" (not so in {self.wrong} of {self.tried:,} rows)" if self.wrong else ""


def rule_lines(asked: str, *checks: str) -> list[str]:
    """A question, and rules that would say yes to it."""
    lines = [question(asked)]
    for check in checks:
        lines += ["# [[rules]]", f"# check = {toml_text(check)}"]
    return lines


def literal(value: Any) -> str:
    """A value as rules write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return toml_text(value)


def equals(finding: ColumnFinding, value: Any) -> str:
    """The condition that a column has this value; None is for a cell that holds nothing."""
    name = rule_name(finding.name)
    return f"{name} is missing" if value is None else f"{name} = {literal(value)}"
