"""Rules between columns: what every released row obeys.

Rules are declared, never read from the rows, so they are public and cost nothing. Columns that follow from others are
not measured at all; rows that are drawn are completed with them and brought to obey the rest
(`models/rule_repair.py`). A rule says what is impossible: a comparison with an empty cell is unknown, and an unknown
rule is not broken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.validation import said
from adumbra.declare.column import Column, nearest, some_of
from adumbra.declare.rules.combinations import Combinations, read_combinations, with_dependents
from adumbra.declare.rules.compile import prepared
from adumbra.declare.rules.parse import wrong
from adumbra.declare.rules.parts import Check, Limit, Step, TableLookup, disagrees, in_order, read_check, read_derived
from adumbra.declare.rules.rule_column import Declared, declared
from adumbra.declare.rules.typed import Typed
from adumbra.declare.rules.witness import connected, search, sources

__all__ = ["RuleGroup", "Rules"]

_KEYS = ("check", "columns", "rows")
_MOST_RULES = 1_000
_MOST_DROPPED = 40


@dataclass(frozen=True)
class RuleGroup:
    """Rules that share columns, directly or through others, and the measured columns they depend on."""

    columns: tuple[str, ...]
    limits: tuple[Limit, ...]
    sources: tuple[frozenset[str], ...]
    """The measured columns of each."""


@dataclass(frozen=True, eq=False)
class Rules:
    """All rules of a schema, checked when they are made.

    >>> ages = [Column("age", "number", low=0, high=110, integer=True), Column("adult", "flag")]
    >>> rules = Rules.of([{"check": "if age < 18 then adult = false"}], ages)
    >>> rules.broken(pl.DataFrame({"age": [3, 30, None], "adult": [True, True, True]})).to_series().to_list()
    [True, False, False]
    """

    given: tuple[Check | Combinations, ...] = ()
    """Rules in the order of the schema."""
    steps: tuple[Step, ...] = ()
    """What computes derived and dependent columns, in an order that works."""
    columns: Mapping[str, Declared] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    """Texts of rules that no row can break, where that is known: they say nothing."""

    @staticmethod
    def of(given: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Rules:
        """The rules that the [[rules]] of a schema and its derived columns state; `columns` are all of the schema."""
        seen = declared(columns)
        derivations = read_derived(seen)
        read = _read(given, seen)
        tables = [rule for rule in read if isinstance(rule, Combinations)]
        needs = {step.column.name: step.needs for step in derivations}
        in_order(derivations)
        places = [f"[[rules]] {index + 1}" for index, rule in enumerate(read) if isinstance(rule, Combinations)]
        chosen = iter(with_dependents(tables, needs, places))
        rules = tuple(next(chosen) if isinstance(rule, Combinations) else rule for rule in read)
        lookups = [
            TableLookup(seen[name], rule)
            for rule in rules
            if isinstance(rule, Combinations)
            for name in rule.dependents
        ]
        steps = in_order([*derivations, *lookups])
        parts = _RuleParts(rules, steps, {name: column for name, column in seen.items() if column.type})
        unmeasured = {step.column.name for step in steps}
        row = {c.name: _some_value(c) for c in seen.values() if c.role not in ("drop", "id")}
        found, idle = _settled(parts) if rules else ({}, ())
        row = {name: value for name, value in {**row, **found}.items() if name not in unmeasured}
        return Rules(rules, steps, seen, row, idle)

    def __bool__(self) -> bool:
        return bool(self.given or self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> str:
        derived = {step.column.name: step.column.derived for step in self.steps if step.column.derived}
        return json.dumps([self.to_list(), derived], sort_keys=True)

    @cached_property
    def unmeasured(self) -> frozenset[str]:
        """Derived and dependent columns: neither read nor measured."""
        return frozenset(step.column.name for step in self.steps)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Rules that a completed row can break."""
        return tuple(rule for rule in self.given if isinstance(rule, Check) or rule.limits)

    @property
    def groups(self) -> tuple[RuleGroup, ...]:
        """The limits in groups that share no measured column."""
        order = {name: index for index, name in enumerate(self.columns)}
        return tuple(
            RuleGroup(
                tuple(sorted(names, key=order.__getitem__)),
                limits,
                tuple(sources(limit.names, self.steps) for limit in limits),
            )
            for names, limits in connected(self.limits, self.steps)
        )

    def to_list(self) -> list[dict[str, Any]]:
        """The [[rules]] as plain JSON; derived columns are in the columns."""
        return [rule.to_dict() if isinstance(rule, Combinations) else {"check": rule.text} for rule in self.given]

    def needs(self) -> frozenset[str]:
        """Columns that any rule or derivation mentions."""
        found = [rule.names for rule in self.given] + [step.needs | {step.column.name} for step in self.steps]
        return frozenset[str]().union(*found)

    def texts(self) -> list[str]:
        """A line for each rule, in the order of the columns of `broken`."""
        order = list(self.columns)
        steps = sorted(self.steps, key=lambda step: order.index(step.column.name))
        lines: list[str] = []
        for text in [*(limit.text for limit in self.limits), *(step.text for step in steps)]:
            lines.append(text if text not in lines else f"{text} ({lines.count(text) + 1})")
        return lines

    def witness(self) -> dict[str, Any]:
        """One row of measured columns that obeys everything; found from the declarations, so it is public."""
        return dict(self.row)

    def complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with derived and dependent columns computed; empty where an input is, or where nothing fits."""
        if not self.steps:
            return frame
        work = self.work(frame, self.unmeasured)
        zoned = [_zoned(work[step.column.name], step.column) for step in self.steps]
        return frame.with_columns(zoned)

    def broken(self, frame: pl.DataFrame) -> pl.DataFrame:
        """For each rule, where a completed row breaks it.

        Derived and dependent columns that the frame has are compared with what they should be; those it has not are
        computed, and break nothing.
        """
        work = self.work(frame)
        order = list(self.columns)
        found = [limit.broken(work) for limit in self.limits]
        for step in sorted(self.steps, key=lambda step: order.index(step.column.name)):
            own = step.column.name in frame.columns
            found.append(disagrees(step, work) if own else pl.repeat(False, len(frame), eager=True))
        return pl.DataFrame([one.alias(text) for one, text in zip(found, self.texts(), strict=True)])

    def prepared(self, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Columns of a frame, each in the one type that rules are applied to."""
        return prepared(frame, [self.columns[name] for name in names])

    def work(self, frame: pl.DataFrame, anew: frozenset[str] = frozenset()) -> pl.DataFrame:
        """The columns that rules read, prepared; those that are not in the frame, or are `anew`, are computed."""
        own = self.needs() - anew - (self.unmeasured - set(frame.columns))
        work = prepared(frame, [self.columns[name] for name in self.columns if name in own])
        for step in self.steps:
            if step.column.name not in work.columns:
                work = work.with_columns(step.made(work).alias(step.column.name))
        return work


@dataclass(frozen=True)
class _RuleParts:
    given: tuple[Check | Combinations, ...]
    steps: tuple[Step, ...]
    columns: Mapping[str, Declared]

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RuleParts) and self._key == other._key

    @cached_property
    def _key(self) -> str:  # by its text: to Python, (True, False) and (1, 0) are equal
        used = frozenset[str]().union(*(r.names for r in self.given), *(s.needs | {s.column.name} for s in self.steps))
        return repr((self.given, self.steps, [self.columns[name] for name in sorted(used)]))


def _zoned(cells: pl.Series, column: Declared) -> pl.Series:
    if column.type != "datetime" or column.zone is None:
        return cells
    return cells.dt.replace_time_zone(column.zone, ambiguous="earliest", non_existent="null")


def _read(given: Sequence[Mapping[str, Any]], columns: Mapping[str, Declared]) -> list[Check | Combinations]:
    if not isinstance(given, list | tuple) or len(given) > _MOST_RULES:
        got = f"{len(given):,}" if isinstance(given, list | tuple) else said(given)
        raise InputError(f"rules, a list of at most {_MOST_RULES:,} tables", got, "write [[rules]] before each")
    found: list[Check | Combinations] = []
    for index, rule in enumerate(given):
        where = f"[[rules]] {index + 1}"
        if not isinstance(rule, Mapping):
            raise wrong(where, "a TOML table", said(rule), 'write [[rules]] and below it check = "..."')
        for key in rule:
            if key not in _KEYS:
                hint = nearest(key, _KEYS)
                remedy = f"did you mean {hint}?" if hint else "delete it"
                raise wrong(where, f"keys among {', '.join(_KEYS)}", said(key), remedy)
        if ("check" in rule) == bool({"columns", "rows"} & set(rule)):
            raise wrong(where, "either check, or columns and rows", some_of(map(str, rule)) or "nothing", "write one")
        made = read_check(rule["check"], columns) if "check" in rule else read_combinations(rule, columns, where)
        if made in found:
            raise wrong(where, "each rule once", "one that stands above", "delete it")
        found.append(made)
    return found


def _some_value(column: Declared) -> Any:
    return None if not column.type else column.at(0) if column.levels else column.value_of(column.low)


@lru_cache(maxsize=64)
def _settled(parts: _RuleParts) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """A row that obeys the rules (or the error that there is none), and texts of rules that say nothing."""
    limits = [rule for rule in parts.given if isinstance(rule, Check) or rule.limits]
    row: dict[str, Any] = {}
    for _, members in connected(limits, parts.steps):
        found = search(members, parts.columns, parts.steps)
        if found.row is None:
            raise _contradiction(members, parts)
        row |= found.row
        for limit in members:
            _check_condition(limit, members, parts)
    return row, tuple(limit.text for limit in limits if isinstance(limit, Check) and _never(_not(limit.tree), parts))


def _not(tree: Typed) -> Typed:
    return Typed("not", "truth", (tree,))


def _never(tree: Typed, parts: _RuleParts, others: Sequence[Limit] = ()) -> bool:
    """Whether a condition cannot be true, as far as every possible row was considered."""
    found = search([*others, Check("", tree)], parts.columns, parts.steps)
    return found.row is None and found.complete


def _check_condition(limit: Limit, members: Sequence[Limit], parts: _RuleParts) -> None:
    """Refuse rules that together make the condition of one impossible: its rows would all have to be moved."""
    if not isinstance(limit, Check) or limit.tree.op != "implies":
        return
    condition = limit.tree.args[0]
    if _never(condition, parts, members) and not _never(condition, parts):
        raise InputError(
            "rules under which every condition can hold",
            f"none for that of {limit.text!r}",
            "correct the rules, or state plainly that the condition never holds",
        )


def _contradiction(members: Sequence[Limit], parts: _RuleParts) -> InputError:
    """The error of rules that no row obeys, with the smallest set of them that was found."""
    left = list(members)
    for limit in members[:_MOST_DROPPED]:
        fewer = [one for one in left if one is not limit]
        if fewer and search(fewer, parts.columns, parts.steps).row is None:
            left = fewer
    texts = "; ".join(repr(limit.text) for limit in left[:5])
    return InputError(
        "rules that some row can obey",
        f"none found for {texts}" + (f" and {len(left) - 5} more" if len(left) > 5 else ""),
        "correct one of them, or the ranges and values of their columns",
    )
