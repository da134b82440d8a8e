"""Likely rules between numbers and dates: one computed from others, one never above another."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Reals
from adumbra.tables.drafting.finding import ColumnFinding, question, suggestion
from adumbra.tables.drafting.rule import EXCEPTIONS, MaybeRule, rule_lines
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.drafting.words import rule_name, tokens, word_set

__all__ = ["Derived", "Order", "derived_rules", "order_rules"]

_MOST_COLUMNS = 30
_FIRST = 256
_LEAST_ROWS = 30
_LEAST_VALUES = 5
_TWO = (("//", 100.0), ("%", 100.0), ("//", 60.0), ("%", 60.0), ("//", 10.0), ("//", 1000.0))
_PARTS = {"year": (1, 9999), "month": (1, 12), "day": (1, 31), "weekday": (1, 7), "hour": (0, 23), "minute": (0, 59)}
_OF_DAYS = ("year", "month", "day", "weekday")
_BY_CHANCE = 0.05
_OFTEN_BY_CHANCE = 0.2
_MOST_ORDERS = 10
_ENDS = (
    word_set("min minimum low lower least first start begin from before early earliest open admission birth in"),
    word_set("max maximum high upper most last end finish to after late latest close discharge death out total"),
)

Compute = Callable[[SomeRows], Reals]


class Derived(MaybeRule):
    """A column that is computed from others."""

    exceptions = 0.0

    def __init__(self, target: ColumnFinding, sources: tuple[ColumnFinding, ...], text: str, compute: Compute) -> None:
        self.target, self.text, self._compute = target, text, compute
        self.columns = (target.name, *(source.name for source in sources))
        self.sources = tuple(source.name for source in sources)

    def add(self, cells: SomeRows) -> None:
        """Count rows where it is something else, and those where only one side is empty."""
        given, found = cells.numbers(self.target.name), self._compute(cells)
        both = ~np.isnan(given) & ~np.isnan(found)
        self.tried += int(both.sum())
        self.wrong += int((~_same(given[both], found[both])).sum())
        self.wrong += max(0, int((np.isnan(given) != np.isnan(found)).sum()) - int(EXCEPTIONS * len(cells)))

    def lines(self) -> list[str]:
        """For the column's own lines."""
        asked = f"is it always {self.text}? then it is computed, not measured"
        return [question(asked), suggestion("derived", self.text)]


def _same(given: Reals, found: Reals) -> NDArray[np.bool_]:
    return np.asarray(np.abs(given - found) <= 1e-9 * np.maximum(1.0, np.abs(given)))


def derived_rules(cells: SomeRows, findings: Sequence[ColumnFinding]) -> list[Derived]:
    """Columns that simple arithmetic makes of others, or that are a part of a date, in a sample of rows in `cells`."""
    wide = [f for f in findings if f.numeric and f.look.different >= _LEAST_VALUES]
    wide = [f for f in wide if f.look.number.decimals <= 6][:_MOST_COLUMNS]
    days = [f for f in findings if f.dated][:_MOST_COLUMNS]
    found = [*_from_dates(cells, days, findings), *_from_one(cells, wide), *_from_two(cells, wide)]
    return [rule for rule in found if _fits(rule, cells)]


def _fits(rule: Derived, cells: SomeRows) -> bool:
    rule.add(cells)
    fits = rule.holds and rule.tried >= _LEAST_ROWS
    rule.tried = rule.wrong = 0
    return fits


def _from_dates(cells: SomeRows, days: Sequence[ColumnFinding], findings: Sequence[ColumnFinding]) -> list[Derived]:
    found = []
    for day in days:
        name = rule_name(day.name)
        for target in findings:
            if not target.numeric or not target.look.number.whole:
                continue
            if day.kind == "date" and target.look.different >= _LEAST_VALUES:
                found += _shifted(cells, day, target)
            low, high = target.look.number.range([])
            for part, (least, most) in _PARTS.items():
                named = part in tokens(target.name) or target.look.different > 2
                if named and least <= low and high <= most and (day.kind == "datetime" or part in _OF_DAYS):
                    found.append(Derived(target, (day,), f"{part}({name})", _part_of(day, part)))
    return found


def _part_of(day: ColumnFinding, part: str) -> Compute:
    def compute(cells: SomeRows) -> Reals:
        found = getattr(cells.series(day.name).dt, part)()
        return np.array(found.cast(float).to_numpy(), dtype=np.float64)

    return compute


def _shifted(cells: SomeRows, day: ColumnFinding, number: ColumnFinding) -> list[Derived]:
    """A date that counts days from a start."""
    apart = cells.numbers(day.name) - cells.numbers(number.name)
    apart = apart[~np.isnan(apart)]
    if len(apart) < _LEAST_ROWS or (apart != apart[0]).any() or not -700_000 < apart[0] < 2_900_000:
        return []
    start, first = datetime.date(1970, 1, 1) + datetime.timedelta(days=int(apart[0])), apart[0]
    text = f"date('{start.isoformat()}') + days({rule_name(number.name)})"
    return [Derived(day, (number,), text, lambda cells: cells.numbers(number.name) + first)]


def _from_one(cells: SomeRows, columns: Sequence[ColumnFinding]) -> list[Derived]:
    found = []
    for source, target in itertools.permutations(columns, 2):
        name = rule_name(source.name)
        given, wanted = cells.numbers(source.name)[:_FIRST], cells.numbers(target.name)[:_FIRST]
        both = ~np.isnan(given) & ~np.isnan(wanted)
        if not both.any():
            continue
        given, wanted = given[both], wanted[both]
        if _same(given, wanted).all() and columns.index(source) < columns.index(target):
            found.append(Derived(target, (source,), name, _copy(source.name)))
        for mark, by in _TWO:
            if _same(given // by if mark == "//" else given % by, wanted).all():
                found.append(Derived(target, (source,), f"{name} {mark} {by:g}", _divided(source.name, mark, by)))
    return found


def _copy(name: str) -> Compute:
    return lambda cells: cells.numbers(name)


def _divided(name: str, mark: str, by: float) -> Compute:
    def compute(cells: SomeRows) -> Reals:
        return cells.numbers(name) // by if mark == "//" else cells.numbers(name) % by

    return compute


def _from_two(cells: SomeRows, columns: Sequence[ColumnFinding]) -> list[Derived]:
    """One column that is the sum or the difference of two others."""
    if len(columns) < 3:
        return []
    first = np.array([cells.numbers(column.name)[:_FIRST] for column in columns])
    there = ~np.isnan(first)
    found = []
    for one, two in itertools.combinations(range(len(columns)), 2):
        total = first[one] + first[two]
        near = np.abs(first - total) <= 1e-9 * np.maximum(1.0, np.abs(total))
        rows = there & there[one] & there[two]
        fits = (near | ~rows).all(axis=1) & (rows.sum(axis=1) >= _LEAST_ROWS)
        for place in np.flatnonzero(fits):
            if place not in (one, two) and _both_count(first[one], first[two]):
                found.append(_sum(columns[int(place)], columns[one], columns[two]))
    return found


def _both_count(one: Reals, two: Reals) -> bool:
    return all(np.count_nonzero(np.nan_to_num(part)) > 0.05 * len(part) for part in (one, two))


def _sum(total: ColumnFinding, one: ColumnFinding, two: ColumnFinding) -> Derived:
    names = one.name, two.name
    text = f"{rule_name(one.name)} + {rule_name(two.name)}"
    return Derived(total, (one, two), text, lambda cells: cells.numbers(names[0]) + cells.numbers(names[1]))


class Order(MaybeRule):
    """A column that is never above another."""

    def __init__(self, low: ColumnFinding, high: ColumnFinding, strength: float) -> None:
        self.low, self.high, self.strength = low, high, strength
        self.columns = (low.name, high.name)

    def add(self, cells: SomeRows) -> None:
        """Count the rows where both are there, and those of them where it is above."""
        low, high = (cells.numbers(name) for name in self.columns)
        both = ~np.isnan(low) & ~np.isnan(high)
        self.tried += int(both.sum())
        self.wrong += int((low[both] > high[both]).sum())

    def lines(self) -> list[str]:
        """The rule, as a suggestion."""
        low, high = (rule_name(name) for name in self.columns)
        return rule_lines(f"is {high} never below {low}?{self.but()}", f"{high} >= {low}")


def order_rules(cells: SomeRows, findings: Sequence[ColumnFinding]) -> list[Order]:
    """Pairs of one unit of measure in which one is never above the other, though it often would be by chance."""
    groups = [
        [f for f in findings if f.kind == "date"],
        [f for f in findings if f.kind == "datetime"],
        [f for f in findings if f.numeric and f.look.different > 2],
    ]
    found: list[Order] = []
    for group in groups:
        for low, high in itertools.permutations(group[:_MOST_COLUMNS], 2):
            strength = _ordered(cells.numbers(low.name), cells.numbers(high.name))
            if strength is None or not (low.dated or _one_unit(low, high)):
                continue
            rule = Order(low, high, strength)
            if not low.dated and not _opposites(low.name, high.name):
                if strength < _OFTEN_BY_CHANCE:
                    continue
                rule.exceptions = 0.0
            found.append(rule)
    found.sort(key=lambda rule: -rule.strength)
    return _not_implied(found)[: 2 * _MOST_ORDERS]


def _ordered(low: Reals, high: Reals) -> float | None:
    """In how many rows it would be otherwise if the two were unrelated; None if it is otherwise in this table."""
    both = ~np.isnan(low) & ~np.isnan(high)
    low, high = low[both], high[both]
    if len(low) < _LEAST_ROWS or (low > high).mean() > EXCEPTIONS or (low == high).mean() > 0.98:
        return None
    chance = float(1 - np.searchsorted(np.sort(low), high, side="right").mean() / len(low))
    return chance if chance >= _BY_CHANCE else None


def _one_unit(low: ColumnFinding, high: ColumnFinding) -> bool:
    """Whether names speak for a common unit of measure, and ranges do not speak against it."""
    shared = set(tokens(low.name)) & set(tokens(high.name)) - {"number", "num", "of", "n", "is", "the"}
    if not shared or low.look.number.whole != high.look.number.whole:
        return False
    wide, narrow = sorted([_width(low), _width(high)], reverse=True)
    return narrow > 0 and wide / narrow < 10


def _opposites(one: str, other: str) -> bool:
    """Whether two names differ in words for the two ends of one thing."""
    words = [set(tokens(one)), set(tokens(other))]
    apart = [words[0] - words[1], words[1] - words[0]]
    return any(apart[a] & _ENDS[0] and apart[1 - a] & _ENDS[1] for a in (0, 1))


def _width(finding: ColumnFinding) -> float:
    low, high = finding.look.number.range(finding.blank_numbers)
    return high - low


def _not_implied(found: list[Order]) -> list[Order]:
    """Without those that follow from two others."""
    pairs = {rule.columns for rule in found}
    middle = {name for pair in pairs for name in pair}
    return [
        rule
        for rule in found
        if not any((rule.low.name, name) in pairs and (name, rule.high.name) in pairs for name in middle)
    ]
