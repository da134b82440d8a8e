"""Combinations of values that a table may hold, given as a public table, and columns that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from adumbra.common.validation import said
from adumbra.declare.column import nearest, repeated, some_of
from adumbra.declare.rules.check import known_column
from adumbra.declare.rules.literals import TEMPORAL, moment, moment_text
from adumbra.declare.rules.parse import wrong
from adumbra.declare.rules.rule_column import Declared

__all__ = ["Combinations", "read_combinations", "with_dependents"]

_MOST_ROWS = 100_000
_MOST_COLUMNS = 12
_MOST_LEVELS = 65_536


@dataclass(frozen=True)
class Combinations:
    """The rows of a public table. `dependents` follow from the other columns and are looked up."""

    columns: tuple[Declared, ...]
    rows: tuple[tuple[Any, ...], ...]
    dependents: tuple[str, ...] = ()

    @property
    def determinants(self) -> tuple[Declared, ...]:
        """Columns that do not follow from the others."""
        return tuple(column for column in self.columns if column.name not in self.dependents)

    @property
    def names(self) -> frozenset[str]:
        """Columns whose combination must be listed."""
        return frozenset(column.name for column in self.determinants)

    @property
    def text(self) -> str:
        """The rule in one line."""
        known = len(set(self.projected([column.name for column in self.determinants])))
        return f"{', '.join(column.name for column in self.determinants)}: one of {known:,} combinations"

    @property
    def limits(self) -> bool:
        """Whether a row can break it once the dependents were looked up: one determinant has all its values listed."""
        return len(self.determinants) > 1

    def projected(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows, of these columns only."""
        places = [index for index, column in enumerate(self.columns) if column.name in names]
        return [tuple(row[place] for place in places) for row in self.rows]

    def frame(self, names: Sequence[str]) -> pl.DataFrame:
        """The distinct combinations of these columns, each in the type rules hold it in."""
        chosen = [column for column in self.columns if column.name in names]
        series = []
        for column in chosen:
            cells = [row[0] for row in self.projected([column.name])]
            series.append(pl.Series(column.name, cells, dtype=column.dtype))
        return pl.DataFrame(series).unique(maintain_order=True)

    def broken(self, work: pl.DataFrame) -> pl.Series:
        """Where a prepared row has a combination that is not listed; an empty cell leaves it unknown."""
        keys = [column.name for column in self.determinants]
        found = self._joined(work, self.frame(keys).with_columns(_listed=pl.lit(True)))["_listed"]
        there = work.select(pl.all_horizontal(pl.col(key).is_not_null() for key in keys)).to_series()
        return there & found.is_null()

    def looked_up(self, work: pl.DataFrame, name: str) -> pl.Series:
        """The dependent column of that name, for prepared rows."""
        keys = [column.name for column in self.determinants]
        return self._joined(work, self.frame([*keys, name]))[name]

    def _joined(self, work: pl.DataFrame, listed: pl.DataFrame) -> pl.DataFrame:
        keys = [column.name for column in self.determinants]
        alike = [pl.col(c.name).cast(pl.Float64) for c in self.determinants if c.type == "number"]
        left = work.select(keys).with_columns(alike)
        return left.join(listed.with_columns(alike), on=keys, how="left", maintain_order="left")

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a schema."""
        rows = [[moment_text(cell) for cell in row] for row in self.rows]
        return {"columns": [column.name for column in self.columns], "rows": rows}


def read_combinations(given: Mapping[str, Any], columns: Mapping[str, Declared], where: str) -> Combinations:
    """Combinations as a schema gives them: `given` has columns and rows; `columns` are all; `where` begins errors."""
    names, rows = given.get("columns"), given.get("rows")
    if not isinstance(names, list | tuple) or not 2 <= len(names) <= _MOST_COLUMNS:
        got = f"{len(names)}" if isinstance(names, list | tuple) else said(names)
        raise wrong(where, f"columns, a list of 2 to {_MOST_COLUMNS} names", got, 'write columns = ["a", "b"]')
    chosen = tuple(known_column(name, columns, where) for name in names)
    twice = repeated(map(str, names))
    if twice is not None:
        raise wrong(where, "each column once", f"{twice!r} twice", "delete one")
    if not isinstance(rows, list | tuple) or not 1 <= len(rows) <= _MOST_ROWS:
        got = f"{len(rows):,}" if isinstance(rows, list | tuple) else said(rows)
        raise wrong(where, f"rows, a list of 1 to {_MOST_ROWS:,} lists", got, 'write rows = [["A", 1], ["B", 2]]')
    found: dict[tuple[Any, ...], None] = {}
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != len(chosen):
            got = f"{len(row)} of them" if isinstance(row, list | tuple) else said(row)
            raise wrong(where, f"{len(chosen)} values in each row", got, "write a value for each column")
        found[tuple(_value(cell, column, where) for cell, column in zip(row, chosen, strict=True))] = None
    return Combinations(chosen, tuple(found))


def _value(cell: Any, column: Declared, where: str) -> Any:
    if isinstance(cell, bool) and column.kind == "flag" and column.values:
        return column.values[int(cell)]
    if column.type in TEMPORAL:
        cell = moment(column.type, cell)
    elif isinstance(cell, str):
        cell = cell.strip()
    types = {"text": str, "truth": bool, "number": int | float}.get(column.type, object)
    fits = cell is not None and isinstance(cell, types) and (column.type == "truth" or not isinstance(cell, bool))
    if not fits or not column.has(cell):
        hint = nearest(cell, tuple(map(str, column.values))) if isinstance(cell, str) else None
        some = f"write one of: {some_of(map(str, column.values))}" if column.values else "write one in its range"
        raise wrong(
            where,
            f"declared values of {column.name!r} in the rows",
            said(cell),
            f"did you mean {hint!r}?" if hint else some,
        )
    return float(cell) if column.type == "number" and column.dtype == pl.Float64 else cell


def with_dependents(
    tables: Sequence[Combinations], needs: dict[str, frozenset[str]], where: Sequence[str]
) -> list[Combinations]:
    """The tables with their dependents chosen: the last columns that follow from the others.

    `tables` are as they were read; `needs` says of every derived column what it is computed from, and dependents are
    added to it; `where` begins the errors of each table. A label is never dependent: its classes are what is measured.
    """
    found = []
    for table, place in zip(tables, where, strict=True):
        left = [column.name for column in table.columns]
        for column in reversed(table.columns):
            others = [name for name in left if name != column.name]
            if not others or column.derived or column.name in needs or column.role == "label":
                continue
            if len(set(table.projected(others))) == len(table.rows) and not _reaches(others, column.name, needs):
                left = others
        dependents = tuple(column.name for column in table.columns if column.name not in left)
        for name in dependents:
            needs[name] = frozenset(left)
        chosen = Combinations(table.columns, table.rows, dependents)
        _check_determinants(chosen, place)
        found.append(chosen)
    return found


def _reaches(start: Sequence[str], goal: str, needs: Mapping[str, frozenset[str]]) -> bool:
    """Whether some of the columns is computed from the one in question."""
    seen: set[str] = set()
    open_ = list(start)
    while open_:
        name = open_.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            open_ += needs.get(name, ())
    return False


def _check_determinants(table: Combinations, where: str) -> None:
    for column in table.determinants:
        if column.levels is None:
            raise wrong(
                where,
                "combinations of values that can be counted",
                f"{column.name!r}, a number of any size",
                "declare it integer, or with step, decimals or values; or leave it out of the rule",
            )
    if table.limits:
        return
    column = table.determinants[0]
    levels = column.levels or 0
    listed = {row[0] for row in table.projected([column.name])}
    absent = [] if levels > _MOST_LEVELS else [v for v in map(column.at, range(levels)) if v not in listed]
    if absent or levels > _MOST_LEVELS:
        raise wrong(
            where,
            f"a row for every declared value of {column.name!r}",
            f"none for {some_of(map(str, absent), 5)}" if absent else f"{levels:,} declared values",
            "add the rows, or delete the values from the column",
        )
