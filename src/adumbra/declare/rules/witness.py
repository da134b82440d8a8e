"""A row that obeys every rule, found from the declarations alone; without one, the rules contradict each other.

Columns are added one at a time to a frame of candidate rows, and rows that break a rule are left out as soon as its
columns are there. Candidates are declared values, ends of ranges, constants of the rules and their neighbours, what an
equality asks for, and a few in between. Rows with an empty cell obey nearly everything, so a cell is left empty only
where some rule speaks of missing cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from adumbra.common.types import Reals
from adumbra.declare.rules.combinations import Combinations
from adumbra.declare.rules.compile import compiled, finished
from adumbra.declare.rules.literals import micros
from adumbra.declare.rules.parts import Check, Limit, Step
from adumbra.declare.rules.rule_column import Declared
from adumbra.declare.rules.typed import Typed, walk

__all__ = ["Found", "connected", "search", "sources"]

_BEAM = 4_000
_FEW = 60
"""Values of a column that are all tried."""
_MOST = 200_000
"""Rows that are tried at once where the first candidates were too few: whole columns of many values, or fine grids."""
_TRIES = 3
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Found:
    """What a search came to: a row, or none; and whether every possible row was considered."""

    row: Mapping[str, Any] | None
    complete: bool


def sources(names: frozenset[str], steps: Sequence[Step]) -> frozenset[str]:
    """The measured columns that these follow from; `steps` are in order."""
    found = set(names)
    for step in reversed(steps):
        if step.column.name in found:
            found.remove(step.column.name)
            found |= step.needs
    return frozenset(found)


def connected(limits: Sequence[Limit], steps: Sequence[Step]) -> list[tuple[frozenset[str], tuple[Limit, ...]]]:
    """Limits in groups that share no measured column, each with its measured columns."""
    groups: list[tuple[frozenset[str], tuple[Limit, ...]]] = []
    for limit in limits:
        names = sources(limit.names, steps)
        members: tuple[Limit, ...] = ()
        apart = []
        for group in groups:
            if group[0] & names:
                names, members = names | group[0], members + group[1]
            else:
                apart.append(group)
        groups = [*apart, (names, (*members, limit))]
    return groups


def search(limits: Sequence[Limit], columns: Mapping[str, Declared], steps: Sequence[Step]) -> Found:
    """A row of measured columns that obeys the `limits`; `columns` are all, `steps` compute those not measured."""
    names = frozenset[str]().union(*(sources(limit.names, steps) for limit in limits))
    found = Found(None, True)
    for seed in range(_TRIES):
        found = _Search(tuple(limits), columns, tuple(steps), seed).run(names)
        if found.row is not None or found.complete:
            break
    return found


class _Search:
    def __init__(
        self, limits: tuple[Limit, ...], columns: Mapping[str, Declared], steps: tuple[Step, ...], seed: int
    ) -> None:
        self.limits, self.columns, self.steps, self.seed = limits, columns, steps, seed
        self.trees = [node for limit in limits if isinstance(limit, Check) for node in walk(limit.tree)]
        used = frozenset[str]().union(*(limit.names for limit in limits))
        used |= frozenset[str]().union(*(s.needs | {s.column.name} for s in steps if s.column.name in used))
        steps_used = [s for s in steps if s.column.name in used or sources(used, steps) >= s.needs]
        self.trees += [node for s in steps_used if hasattr(s, "tree") for node in walk(s.tree)]
        self.tables = [limit for limit in limits if isinstance(limit, Combinations)]
        asked = frozenset[str]().union(*(node.names for node in self.trees if node.op == "missing"))
        self.empty = sources(asked, steps)
        columns_here = len(frozenset[str]().union(*(sources(limit.names, steps) for limit in limits)))
        self.few = max(_FEW, int(_MOST ** (1 / max(columns_here, 1)))) if seed else _FEW
        self.complete = True

    def run(self, names: frozenset[str]) -> Found:
        frame = pl.DataFrame({"_": [0]})
        waiting, to_do = list(self.limits), list(self.steps)
        for name in self.order(names):
            frame = self.extended(frame, self.columns[name])
            there = frozenset(frame.columns)
            for step in [s for s in to_do if s.needs <= there]:
                frame = frame.with_columns(step.made(frame).alias(step.column.name))
                there |= {step.column.name}
                to_do.remove(step)
            for limit in [one for one in waiting if one.names <= there]:
                frame = frame.filter(~limit.broken(frame))
                waiting.remove(limit)
            if len(frame) > _BEAM:
                self.complete = False
                frame = frame[np.unique((self.spread(_BEAM) * len(frame)).astype(np.int64))]
            if not len(frame):
                return Found(None, self.complete)
        empty = frame.select(pl.sum_horizontal(pl.col(n).is_null() for n in sorted(names))).to_series()
        row = frame.row(int(empty.arg_min() or 0), named=True)
        return Found({name: row[name] for name in sorted(names)}, self.complete)

    def spread(self, count: int) -> Reals:
        """Points between 0 and 1 in no pattern that a rule could share, others for every seed; nothing is drawn."""
        points = (np.arange(count) + 0.5) * _GOLDEN + self.seed * 0.37
        return np.asarray(points - np.floor(points))

    def order(self, names: frozenset[str]) -> list[str]:
        """Columns so that each shares a rule with those before it, where it can."""
        groups = [sources(limit.names, self.steps) for limit in self.limits]
        done: list[str] = []
        left = sorted(names, key=lambda n: (-sum(n in g for g in groups), n))
        while left:
            tied = [n for n in left if any(n in g and g & set(done) for g in groups)]
            # the column that completes most rules goes first, so that rows are left out early
            best = max(tied or left, key=lambda n: sum(n in g and g <= {n, *done} for g in groups))
            done.append(best)
            left.remove(best)
        return done

    def extended(self, frame: pl.DataFrame, column: Declared) -> pl.DataFrame:
        """The rows with every candidate for one more column."""
        table = next((t for t in self.tables if column.name in t.names), None)
        if table is not None:
            keys = [c.name for c in table.determinants if c.name in frame.columns]
            listed = table.frame([*keys, column.name])
            joined = frame.join(listed, on=keys, how="inner") if keys else frame.join(listed, how="cross")
            return joined.select(*frame.columns, column.name)
        values: list[Any] = list(self.candidates(column))
        if column.name in self.empty and column.keeps:
            values.append(None)
        found = [frame.join(pl.DataFrame(pl.Series(column.name, values, dtype=column.dtype)), how="cross")]
        found += [frame.with_columns(made.alias(column.name)) for made in self.asked(frame, column)]
        return pl.concat([found[0], *(one.filter(pl.col(column.name).is_not_null()) for one in found[1:])]).unique(
            maintain_order=True
        )

    def candidates(self, column: Declared) -> list[Any]:
        levels = column.levels
        if levels is not None and levels <= self.few:
            return [column.at(index) for index in range(levels)]
        constants = [v for node in self.trees for v in _constants(node, column.type)]
        if column.values:
            mentioned = [v for v in dict.fromkeys(constants) if column.has(v)]
            return [*mentioned, *[v for v in column.values if v not in mentioned][:3]]
        self.complete = False
        step = column.step or (column.high - column.low) / 1024
        marks = [column.low, column.high, (column.low + column.high) / 2, *map(micros, constants)]
        reach = range(-4, 5)
        numbers = [mark + k * step for mark in marks for k in reach]
        numbers += list(column.low + (column.high - column.low) * self.spread(60))
        if self.seed:  # a grid of round numbers
            spacing = 2.0 ** math.ceil(math.log2((column.high - column.low) / self.few))
            numbers += list(np.arange(math.ceil(column.low / spacing), column.high / spacing) * spacing)
        if column.step is not None:
            numbers = [column.low + round((n - column.low) / step) * step for n in numbers]
        values = [column.value_of(n) for n in numbers if column.low <= n <= column.high]
        return [v for v in dict.fromkeys(values) if column.has(v)]

    def asked(self, frame: pl.DataFrame, column: Declared) -> Iterator[pl.Expr]:
        """What a comparison with columns that are there asks of this one: the same, a little less, a little more."""
        there = frozenset(frame.columns)
        for node in self.trees:
            if node.op != "compare":
                continue
            for own, other in (node.args, node.args[::-1]):
                if own.column is not None and own.column.name == column.name and other.names and other.names <= there:
                    made = compiled(other)
                    yield finished(made, column) if column.type not in ("text", "truth") else made
                    for moved in _moved(made, column):
                        yield finished(moved, column)


def _moved(made: pl.Expr, column: Declared) -> list[pl.Expr]:
    step = column.step or (column.high - column.low) / 1024
    if column.type == "number":
        return [made - step, made + step]
    if column.type in ("datetime", "date", "duration"):
        length = pl.duration(microseconds=round(step))
        return [made - length, made + length]
    return []


def _constants(node: Typed, kind: str) -> list[Any]:
    if node.op == "literal" and node.type == kind:
        return [node.value]
    if node.op == "in" and node.args[0].type == kind:
        return list(node.value)
    return []
