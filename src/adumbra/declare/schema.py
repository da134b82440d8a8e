"""What the owner declares about a table before anything is read: columns, kinds, ranges, categories.

The schema is the only source of ranges and categories. Reading them from the rows would give away the
extreme rows for free, so an undeclared range is an error that says what to write, never a guess. Everything
in a schema is public: it stands on the card of every release.

A missing, unknown or unreadable cell is kept as an empty one: 0 in all its coordinates, and empty again in a table that
is drawn. With a declared `missing` value it goes there instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from adumbra.common.errors import InputError
from adumbra.common.files import MOST_SCHEMA_BYTES, read_at_most, toml_document
from adumbra.common.validation import finite, path_of, said, table_name, written
from adumbra.declare.column import (
    COLUMN_KEYS,
    Column,
    check_blank_words,
    heading,
    nearest,
    repeated,
    some_of,
    toml_text,
    type_name,
)
from adumbra.declare.guarantee import Unit
from adumbra.declare.rules.rules import Rules
from adumbra.declare.space import GRID, Block, Space
from adumbra.declare.spelling import Value

__all__ = ["Schema", "TableInfo"]

_PUBLIC_KEYS = ("name", "unit", "rows", "blank")
_TABLE_KEYS = (*_PUBLIC_KEYS, "ledger")
_PARTS = ("table", "columns", "rules")
_MEANT = {
    "type": "kind",
    "dtype": "kind",
    "min": "low",
    "minimum": "low",
    "max": "high",
    "maximum": "high",
    "categories": "values",
    "levels": "values",
    "default": "missing",
}
"""Keys that other schemas have, and ours for the same."""
_MOST_STEPS = 2**40
"""Of a row bound: longer than any row, and its square is still exact where squares are added up."""


@dataclass(frozen=True)
class TableInfo:
    """Public facts about the table: its name, the protected unit, the number of rows if it is public.

    `blank` are words or numbers that stand for an empty cell in any column that does not declare them as values.
    `ledger` is where its releases are charged. It is a path on the owner's machine, so no card shows it.
    """

    name: str | None = None
    unit: Unit | None = None
    rows: int | None = None
    ledger: str | None = None
    blank: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if self.name is not None:
            table_name(self.name, "[table] name")
        if self.unit is not None:
            if not isinstance(self.unit, str) or self.unit not in tuple(Unit):
                raise InputError(
                    "[table] unit row or cell", f"unit = {said(self.unit)}", 'write unit = "row" (or "cell")'
                )
            object.__setattr__(self, "unit", Unit(self.unit))
        if self.rows is not None and (type(self.rows) is not int or not 1 <= self.rows < 2**63):
            raise InputError(
                "[table] rows as a whole number above 0", f"rows = {said(self.rows)}", "for example, write rows = 569"
            )
        expected, remedy = "[table] blank as a list of words or numbers", 'write blank = ["N"]'
        if not isinstance(self.blank, list | tuple):
            raise InputError(expected, type_name(self.blank), remedy)
        check_blank_words(self.blank, lambda got: InputError(expected, got, remedy))
        object.__setattr__(self, "blank", tuple(self.blank))
        if self.ledger is not None:
            written('for example, write ledger = "patients-ledger.db"', ledger=self.ledger)
            if not Path(self.ledger).is_absolute():
                raise InputError(
                    "[table] ledger as a whole path, where the schema is no file",
                    f"ledger = {self.ledger!r}",
                    "write the whole path, or load the schema from its file: a path is then meant from its folder",
                )


@dataclass(frozen=True)
class Schema:
    """The declared table. Making one checks it; the order of the columns is the order of the encoding.

    >>> schema = Schema.parse('[columns.age]\\nkind = "number"\\nlow = 0\\nhigh = 110')
    >>> schema.space(row_bound=0.25).row_bound
    16384
    """

    table: TableInfo
    columns: tuple[Column, ...]
    rules: Rules = field(default_factory=lambda: Rules.of((), ()))

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        twice = repeated(c.name for c in self.columns)
        if twice is not None:
            raise InputError("each column once in the schema", f"{twice!r} twice", "delete one of them")
        if not self.rules:  # derived columns are rules too
            object.__setattr__(self, "rules", Rules.of((), self.columns))
        for name in self.labels:
            if self.column(name).derived is not None or name in self.rules.unmeasured:
                remedy = f"delete role under {heading(name)}, or derive the other columns from it instead"
                raise InputError("a label that is measured", f"{name!r}, which follows from other columns", remedy)
        if not self.measured:
            raise InputError(
                "at least one released column",
                "none" if not self.columns else "only columns that are not read",
                "declare a column: [columns.age] with kind, low and high, for example",
            )

    @cached_property
    def released(self) -> tuple[Column, ...]:
        """Columns that are not dropped, in order."""
        return tuple(c for c in self.columns if c.role != "drop")

    @cached_property
    def measured(self) -> tuple[Column, ...]:
        """The released columns that are read: without ids, and without what follows from other columns."""
        return tuple(c for c in self.released if c.measured and c.name not in self.rules.unmeasured)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns with role "label"."""
        return tuple(c.name for c in self.columns if c.role == "label")

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the columns with role "group": others will be looked at by their values."""
        return tuple(c.name for c in self.columns if c.role == "group")

    def column(self, name: str) -> Column:
        """The declared column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError("a column of the schema", repr(name), f"use one of: {some_of(c.name for c in self.columns)}")

    @property
    def coordinates(self) -> list[str]:
        """A name for every encoded coordinate: the column, and the value for a category."""
        names: list[str] = []
        for column in self.measured:
            names += [f"{column.name}={v}" for v in column.values] if column.width > 1 else [column.name]
        return names

    def space(self, row_bound: float | None = None) -> Space:
        """Shape of encoded rows. `row_bound` is in encoded units and is rounded down to grid steps."""
        steps = None
        if row_bound is not None:
            if not (finite(row_bound) and 1 <= row_bound * GRID <= _MOST_STEPS):
                raise InputError(
                    f"a row bound from one grid step ({1 / GRID:g}) to {_MOST_STEPS / GRID:g}",
                    f"row bound = {said(row_bound)}",
                    "give another bound; a number that spans its range counts 1",
                )
            steps = math.floor(row_bound * GRID)
        blocks, start = [], 0
        for column in self.measured:
            cells = column.cells
            blocks.append(
                Block(
                    column.name, cells.block, start, cells.width, cells.fallback, cells.levels, cells.spikes, cells.most
                )
            )
            start += cells.width
        return Space(tuple(blocks), steps)

    def to_dict(self) -> dict[str, Any]:
        """What is public, as plain JSON values; columns are a list, so that sorting keys cannot reorder them."""
        table = {key: getattr(self.table, key) for key in _PUBLIC_KEYS if getattr(self.table, key) is not None}
        if "unit" in table:
            table["unit"] = table["unit"].value
        if table.pop("blank", ()):
            table["blank"] = list(self.table.blank)
        plain = {"table": table, "columns": [c.to_dict() for c in self.columns]}
        return plain | ({"rules": rules} if (rules := self.rules.to_list()) else {})

    def to_toml(self) -> str:
        """The schema file that loads as this schema."""
        plain = self.to_dict()
        if self.table.ledger is not None:
            plain["table"]["ledger"] = self.table.ledger
        lines = ["[table]", *(f"{k} = {toml_text(v)}" for k, v in plain["table"].items())]
        for column in plain["columns"]:
            name = column.pop("name")
            lines += ["", heading(name), *(f"{k} = {toml_text(v)}" for k, v in column.items())]
        for rule in plain.get("rules", ()):
            lines += ["", "[[rules]]", *(f"{k} = {toml_text(v)}" for k, v in rule.items())]
        return "\n".join(lines) + "\n"

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Schema:
        """Read `to_dict`, or the tables of a schema file. Unknown keys are refused by name."""
        if not isinstance(data, Mapping):
            raise InputError("a schema with columns", type_name(data), 'give {"columns": {...}}')
        _no_column_on_top(data)
        _only_known(data, _PARTS, "the schema")
        table, columns = data.get("table", {}), data.get("columns", {})
        if not isinstance(table, Mapping):
            raise InputError("[table] as a TOML table", type_name(table), 'write [table] and below it unit = "row"')
        _only_known(table, _TABLE_KEYS, "[table]")
        if isinstance(columns, Mapping):
            listed: list[tuple[Any, Any]] = list(columns.items())
        elif isinstance(columns, list) and all(isinstance(c, Mapping) for c in columns):
            listed = [(c.get("name"), {k: v for k, v in c.items() if k != "name"}) for c in columns]
        else:
            raise InputError("columns as TOML tables", type_name(columns), "write one [columns.NAME] for each column")
        made = tuple(_column(name, fields) for name, fields in listed)
        rules = data.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
            raise InputError("rules as TOML tables", type_name(rules), 'write [[rules]] and below it check = "..."')
        return Schema(TableInfo(**table), made, Rules.of(rules, made))

    @staticmethod
    def parse(text: str, folder: Path | None = None) -> Schema:
        """Read the text of a schema file (TOML). A path in it is meant from `folder`; without one it must be whole."""
        try:
            data = toml_document(text)
        except ValueError as error:
            raise InputError(
                "a schema in TOML", str(error), "correct that line, or draft a new file with `adumbra schema`"
            ) from None
        table = data.get("table")
        if folder is not None and isinstance(table, dict) and table.get("ledger") and isinstance(table["ledger"], str):
            table["ledger"] = str(folder.absolute() / table["ledger"])
        return Schema.from_dict(data)

    @staticmethod
    def load(path: str | Path) -> Schema:
        """Read a schema file."""
        place = path_of(path, "the path of a schema file")
        try:
            text = read_at_most(place, MOST_SCHEMA_BYTES, "a schema file").decode()
        except UnicodeDecodeError:
            raise InputError("a schema file in UTF-8", "other bytes", f"convert {place} to UTF-8") from None
        except FileNotFoundError:
            raise InputError(
                "a schema file", f"no file {place}", "draft one with `adumbra schema TABLE --out schema.toml`"
            ) from None
        except (OSError, ValueError) as error:  # a path with a null byte or half a surrogate pair is a ValueError
            raise InputError(
                "a schema file that can be read",
                f"{place}: {getattr(error, 'strerror', None) or 'no path of a file'}",
                "check the path and its permissions",
            ) from None
        return Schema.parse(text, place.parent)


def _column(name: Any, fields: Any) -> Column:
    if not isinstance(fields, Mapping):
        raise InputError(
            f"column {name!r} as a TOML table",
            type_name(fields),
            f"write {heading(str(name))} and its keys below",
        )
    _only_known(fields, COLUMN_KEYS, f"column {name!r}")
    given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in fields.items()}
    return Column(name, **given)


def _no_column_on_top(data: Mapping[str, Any]) -> None:
    """Refuse what is plainly a column where tables of a schema belong."""
    for key, fields in data.items():
        if key in _PARTS or not isinstance(key, str) or not isinstance(fields, Mapping):
            continue
        if any(name in (*COLUMN_KEYS, *_MEANT) and not isinstance(value, Mapping) for name, value in fields.items()):
            remedy = f"a column stands under columns: write {heading(key)}"
            raise InputError(f"the schema with keys among {', '.join(_PARTS)}", repr(key), remedy)


def _only_known(data: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in known:
            meant = _MEANT.get(key.lower()) if isinstance(key, str) else None
            hint = meant if meant in known else nearest(key, known)
            remedy = f"did you mean {hint}?" if hint else "delete it"
            raise InputError(f"{where} with keys among {', '.join(known)}", said(key), remedy)
