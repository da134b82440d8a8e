"""Likely rules on cells that hold nothing: together with others, or where a number is small or large."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adumbra.common.types import Reals
from adumbra.tables.drafting.finding import ColumnFinding
from adumbra.tables.drafting.number_lines import whole_if_whole
from adumbra.tables.drafting.rule import EXCEPTIONS, MaybeRule, rule_lines
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.drafting.words import rule_name

__all__ = ["Also", "Beyond", "Together", "missing_rules"]

_MOST_COLUMNS = 60
_MOST_RULES = 10
_MOST_TOGETHER = 30
_SURPRISE = 12.0
_LEAST_SHARE = 0.002
_COMMON = 0.95


class Together(MaybeRule):
    """Columns that hold nothing in the same rows."""

    def __init__(self, columns: tuple[str, ...], strength: float) -> None:
        self.columns, self.strength = columns, strength

    def add(self, cells: SomeRows) -> None:
        """Count the rows where one of them holds nothing, and those of them where another holds something."""
        gone = np.array([cells.missing(name) for name in self.columns])
        self.tried += int(gone.any(axis=0).sum())
        self.wrong += int((gone.any(axis=0) & ~gone.all(axis=0)).sum())

    def lines(self) -> list[str]:
        """Two rules for each but the first."""
        first, *others = (rule_name(name) for name in self.columns)
        checks = []
        for other in others:
            checks.append(f"if {first} is missing then {other} is missing")
            checks.append(f"if {other} is missing then {first} is missing")
        said = f"{', '.join([first, *others[:-1]])} and {others[-1]}"
        return rule_lines(f"are {said} always missing together?{self.but()}", *checks)


class Also(MaybeRule):
    """Where one column holds nothing, another holds nothing either."""

    def __init__(self, first: ColumnFinding, second: ColumnFinding, strength: float) -> None:
        self.columns, self.strength = (first.name, second.name), strength

    def add(self, cells: SomeRows) -> None:
        """Count the rows where the first holds nothing, and those of them where the second holds something."""
        first, second = (cells.missing(name) for name in self.columns)
        self.tried += int(first.sum())
        self.wrong += int((first & ~second).sum())

    def lines(self) -> list[str]:
        """The rule, as a suggestion."""
        first, second = (rule_name(name) for name in self.columns)
        asked = f"is {second} always missing where {first} is?{self.but()}"
        return rule_lines(asked, f"if {first} is missing then {second} is missing")


class Beyond(MaybeRule):
    """A column that holds nothing where a number is below (or above) some value."""

    def __init__(
        self, number: ColumnFinding, bound: float, target: ColumnFinding, *, below: bool, strength: float
    ) -> None:
        self.number, self.bound, self.target, self.below, self.strength = number, bound, target, below, strength
        self.columns = (number.name, target.name)

    def add(self, cells: SomeRows) -> None:
        """Count the rows beyond the value, and those of them with a cell that is there."""
        found = cells.numbers(self.number.name)
        with np.errstate(invalid="ignore"):
            beyond = found < self.bound if self.below else found > self.bound
        self.tried += int(beyond.sum())
        self.wrong += int((beyond & ~cells.missing(self.target.name)).sum())

    def lines(self) -> list[str]:
        """The rule, as a suggestion."""
        bound = whole_if_whole(self.bound)
        given = f"{rule_name(self.number.name)} {'<' if self.below else '>'} {bound}"
        then = f"{rule_name(self.target.name)} is missing"
        return rule_lines(f"is it always so that if {given} then {then}?{self.but()}", f"if {given} then {then}")


def missing_rules(cells: SomeRows, findings: Sequence[ColumnFinding]) -> list[MaybeRule]:
    """Candidates from a sample of rows in `cells`."""
    shares = {f.name: float(cells.missing(f.name).mean()) for f in findings if f.kind is not None}
    gaps = [f for f in findings if _LEAST_SHARE <= shares.get(f.name, 0.0) <= 1 - _LEAST_SHARE]
    widest = sorted(gaps, key=lambda f: -shares[f.name])[:_MOST_COLUMNS]
    gaps = [f for f in gaps if f in widest]
    mutual, heads = _groups(cells, gaps, shares)
    found: list[MaybeRule] = [*mutual, *_one_way(cells, heads, shares), *_beyond(cells, heads, findings, shares)]
    found.sort(key=lambda rule: -rule.strength)
    return found[: 2 * _MOST_RULES]


def _groups(
    cells: SomeRows, gaps: Sequence[ColumnFinding], shares: dict[str, float]
) -> tuple[list[Together], list[ColumnFinding]]:
    """Columns that are missing together; and one of each group, or of its own."""
    groups = list[list[ColumnFinding]]()
    for column in gaps:
        gone = cells.missing(column.name)
        for group in groups:
            head = cells.missing(group[0].name)
            if (gone != head).sum() <= EXCEPTIONS * (gone | head).sum():
                group.append(column)
                break
        else:
            groups.append([column])
    found = []
    for group in groups:
        times = int(cells.missing(group[0].name).sum())
        strength = _strength(times, shares[group[0].name])
        if len(group) > 1 and strength >= _SURPRISE:
            found.append(Together(tuple(f.name for f in group[:_MOST_TOGETHER]), strength))
    return found, [group[0] for group in groups]


def _strength(times: int, share: float) -> float:
    return times * -math.log(max(min(share, 1.0), 1e-300))


def _one_way(cells: SomeRows, heads: Sequence[ColumnFinding], shares: dict[str, float]) -> list[Also]:
    found = []
    for first in heads:
        gone = cells.missing(first.name)
        times = int(gone.sum())
        for second in heads:
            if second is first or shares[second.name] > _COMMON:
                continue
            odd = int((gone & ~cells.missing(second.name)).sum())
            strength = _strength(times, shares[second.name])
            if odd <= EXCEPTIONS * times and strength >= _SURPRISE and times >= 10:
                found.append(Also(first, second, strength))
    pairs = {rule.columns for rule in found}
    names = [f.name for f in heads]
    return [
        rule
        for rule in found
        if not any((rule.columns[0], name) in pairs and (name, rule.columns[1]) in pairs for name in names)
    ]


def _beyond(
    cells: SomeRows, heads: Sequence[ColumnFinding], findings: Sequence[ColumnFinding], shares: dict[str, float]
) -> list[Beyond]:
    found = []
    numbers = [f for f in findings if f.kind == "number" and f.look.different > 10][:20]
    for target in heads:
        share = shares[target.name]
        there = ~cells.missing(target.name)
        for number in numbers if share <= _COMMON else []:
            sizes = cells.numbers(number.name)
            full = sizes[there & ~np.isnan(sizes)]
            if number.name == target.name or not len(full) or np.isnan(sizes).mean() > share / 2:
                continue
            for below in (True, False):
                with np.errstate(invalid="ignore"):
                    beyond = sizes[sizes < full.min()] if below else sizes[sizes > full.max()]
                strength = _strength(len(beyond), share)
                if len(beyond) >= 0.5 * share * len(cells) and strength >= _SURPRISE and _counted(number, full):
                    # as near as can be to the cells that are empty: nothing is known of what lies between
                    bound = float(beyond.max()) + 1 if below else float(beyond.min()) - 1
                    found.append(Beyond(number, bound, target, below=below, strength=strength))
    return found


def _counted(number: ColumnFinding, sizes: Reals) -> bool:
    return number.look.number.whole and float(np.abs(sizes).max()) <= 2**53
