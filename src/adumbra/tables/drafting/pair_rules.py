"""Likely rules between columns of few values: one follows from another, or one value brings another with it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from adumbra.common.types import Reals
from adumbra.tables.drafting.finding import ColumnFinding, question, suggestion, toml
from adumbra.tables.drafting.number_lines import whole_if_whole
from adumbra.tables.drafting.rule import EXCEPTIONS, MaybeRule, equals, rule_lines
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.drafting.words import rule_name

__all__ = ["Dependence", "Implication", "few_valued", "pair_rules"]

_MOST_COLUMNS = 60
_MOST_VALUES = 200
_COMMON = 0.95
_SURPRISE = 12.0
"""Natural logarithm of how improbable a rule must be by chance: thousands are tried."""
_LEAST_SHARE = 0.01
_LEAST_ROWS = 20


def few_valued(findings: Sequence[ColumnFinding]) -> list[ColumnFinding]:
    """Columns that have between two and some two hundred values."""
    kinds = ("category", "flag", "ordinal", "number", "date")
    fit = [f for f in findings if f.kind in kinds and not f.look.many]
    return [f for f in fit if 2 <= f.look.different <= _MOST_VALUES][:_MOST_COLUMNS]


class Dependence(MaybeRule):
    """One column follows from another: a public table of both says how."""

    exceptions = 0.0

    def __init__(self, source: ColumnFinding, target: ColumnFinding, strength: float) -> None:
        self.source, self.target = source, target
        self.columns, self.strength = (source.name, target.name), strength
        self._pairs: set[tuple[Any, Any]] = set()

    def add(self, cells: SomeRows) -> None:
        """Collect the pairs; a cell that is there beside one that is not speaks against it."""
        first, second = (cells.series(name) for name in self.columns)
        both = first.is_not_null() & second.is_not_null()
        self.tried += int(both.sum())
        self.wrong += int((first.is_null() != second.is_null()).sum())
        frame = pl.DataFrame({"a": first, "b": second}).filter(both).unique()
        if len(self._pairs) <= 2 * _MOST_VALUES:
            self._pairs |= set(frame.iter_rows())

    @property
    def holds(self) -> bool:
        """Whether no value of the source has two of the target."""
        few = self.wrong <= EXCEPTIONS * self.tried and len(self._pairs) <= _MOST_VALUES
        known = {a for a, _ in self._pairs}
        return few and self.tried > 0 and len(known) == len(self._pairs) == _levels(self.source)

    @property
    def mutual(self) -> bool:
        """Whether the source follows from the target as well."""
        return len({b for _, b in self._pairs}) == len(self._pairs)

    def lines(self) -> list[str]:
        """The public table, as a suggestion."""
        first, second = (rule_name(name) for name in self.columns)
        also = f", and {first} from {second}" if self.mutual else ""
        rows = [[_value(self.source, a), _value(self.target, b)] for a, b in sorted(self._pairs)]
        return [
            question(f"does {second} always follow from {first}{also}? then this table is public knowledge, and"),
            f"## {second} is looked up in it, not measured: write the table of the code book",
            "# [[rules]]",
            suggestion("columns", list(self.columns)),
            suggestion("rows", rows),
        ]


def _levels(finding: ColumnFinding) -> int:
    """How many values the suggestions allow: a table must say what follows from each."""
    if finding.values:
        return len(finding.values)
    if finding.kind != "number" or finding.low is None or finding.high is None:
        return 0
    return int(finding.high - finding.low) + 1


def _value(finding: ColumnFinding, cell: Any) -> Any:
    if finding.kind in ("category", "flag") or (finding.kind == "ordinal" and not finding.numeric):
        return finding.values[int(cell)]
    return whole_if_whole(cell) if isinstance(cell, float) else toml(cell) if finding.dated else cell


class Implication(MaybeRule):
    """One value of a column brings one of another with it; None stands for a cell that holds nothing."""

    def __init__(self, source: ColumnFinding, given: Any, target: ColumnFinding, then: Any, strength: float) -> None:
        self.source, self.given, self.target, self.then = source, given, target, then
        self.columns, self.strength = (source.name, target.name), strength

    def add(self, cells: SomeRows) -> None:
        """Count the rows with the one value, and those of them without the other."""
        here = self._are(cells.series(self.source.name), self.given)
        there = self._are(cells.series(self.target.name), self.then)
        if self.then is not None:  # an empty cell breaks no rule about values
            here = here & cells.series(self.target.name).is_not_null()
        self.tried += int(here.sum())
        self.wrong += int((here & ~there).sum())

    @staticmethod
    def _are(cells: pl.Series, value: Any) -> pl.Series:
        return cells.is_null() if value is None else (cells == value).fill_null(False)

    def lines(self) -> list[str]:
        """The rule, as a suggestion."""
        given = equals(self.source, None if self.given is None else _value(self.source, self.given))
        then = equals(self.target, None if self.then is None else _value(self.target, self.then))
        return rule_lines(f"is it always so that if {given} then {then}?{self.but()}", f"if {given} then {then}")


def pair_rules(cells: SomeRows, findings: Sequence[ColumnFinding]) -> tuple[list[Dependence], list[Implication]]:
    """Candidates among columns of few values, from a sample of rows in `cells`."""
    columns = few_valued(findings)
    values = {f.name: cells.series(f.name).drop_nulls().unique().sort().to_list() for f in columns}
    codes = {f.name: cells.codes(f.name, values[f.name]) for f in columns}
    following, bringing = list[Dependence](), list[Implication]()
    for first, second in itertools.combinations(columns, 2):
        size = len(values[second.name]) + 1
        table = np.bincount(
            codes[first.name] * size + codes[second.name], minlength=(len(values[first.name]) + 1) * size
        )
        counts = table.reshape(-1, size).astype(np.float64)
        for source, target, seen in ((first, second, counts), (second, first, counts.T)):
            strength = _follows(seen)
            if strength is not None:
                following.append(Dependence(source, target, strength))
            elif _speaks_of_values(source) and _speaks_of_values(target):
                bringing += _brings(source, target, seen, values)
    return following, bringing


def _speaks_of_values(finding: ColumnFinding) -> bool:
    return not finding.dated and (finding.kind != "number" or finding.look.few)


def _follows(seen: Reals) -> float | None:
    """How improbable it is that each row of counts has all in one place, or None where one has not; the last row and
    column are for empty cells."""
    inner, total = seen[:-1, :-1], seen.sum()
    odd = seen[-1, :-1].sum() + seen[:-1, -1].sum()
    times = inner.sum(axis=0)
    if (
        odd > EXCEPTIONS * total
        or (np.count_nonzero(inner, axis=1) > 1).any()
        or times.max(initial=0) > _COMMON * total
    ):
        return None
    if np.count_nonzero(times) < 2:
        return None
    share = times / times.sum()
    where = inner.argmax(axis=1)
    surprise = float((inner.sum(axis=1) * -np.log(np.maximum(share[where], 1e-300))).sum())
    return surprise if surprise > _SURPRISE + 5 * np.count_nonzero(inner.sum(axis=1)) else None


def _brings(
    source: ColumnFinding, target: ColumnFinding, seen: Reals, values: Mapping[str, list[Any]]
) -> list[Implication]:
    total = seen.sum()
    shares = seen.sum(axis=0) / total
    found = []
    for row, counts in enumerate(seen):
        times = counts.sum()
        place = int(counts.argmax())
        share = shares[place]
        if (
            times < max(_LEAST_SHARE * total, _LEAST_ROWS)
            or counts[place] < (1 - EXCEPTIONS) * times
            or share >= _COMMON
        ):
            continue
        strength = times * -math.log(max(share, 1e-300))
        given = values[source.name][row] if row < len(seen) - 1 else None
        then = values[target.name][place] if place < len(shares) - 1 else None
        if strength >= _SURPRISE and not (given is None and then is None):
            found.append(Implication(source, given, target, then, strength))
    return found
