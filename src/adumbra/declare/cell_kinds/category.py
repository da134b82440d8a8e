"""Categories, ordered codes and flags: cells that hold one of a few declared values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from adumbra.common.types import Integers, Reals
from adumbra.common.validation import said
from adumbra.declare.cell_kinds.cell_kind import CellKind, CellsRead, fits_type, level_at, on_grid, wrong
from adumbra.declare.space import CATEGORY_STEPS, HALF
from adumbra.declare.spelling import Value, answers, emptied, places
from adumbra.declare.spelling import key as key_of

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = ["MAX_VALUES", "Category", "Flag", "Ordinal", "check_values", "repeated", "written"]

MAX_VALUES = 100_000


class Category(CellKind):
    """One of the declared values, in no order."""

    name = "category"
    block = "category"
    keys = ("values",)

    @staticmethod
    def check(column: Column) -> None:
        """Values of one type, told apart however a reader types them; a fallback among them."""
        check_values(column)

    @property
    def width(self) -> int:
        """One for each value."""
        return len(self.column.values)

    @property
    def fallback(self) -> int | None:
        """The position of the value."""
        return None if self.column.missing is None else self.column.values.index(self.column.missing)

    def read(self, cells: pl.Series) -> CellsRead:
        """One coordinate is set: that of the value."""
        code = places(cells, self.column.values)
        lost = code < 0
        values = np.zeros((len(code), self.width))
        rows = np.flatnonzero(~lost)
        values[rows, code[rows]] = CATEGORY_STEPS
        return CellsRead(values, lost)

    def write(self, codes: Reals) -> pl.Series:
        """The values at these positions."""
        return written(self.column.values, np.where(np.isnan(codes), -1, codes))

    def codes(self, rows: Reals) -> Reals:
        """The largest coordinate; the first of equals."""
        return np.asarray(rows.argmax(axis=1), dtype=np.float64)

    def examples(self) -> tuple[Any, ...]:
        """The first values, and the last."""
        return (*self.column.values[:3], self.column.values[-1])


class Ordinal(CellKind):
    """One of the declared values, which are in order: neighbours are near each other, and equally far."""

    name = "ordinal"
    block = "number"
    keys = ("values",)

    @staticmethod
    def check(column: Column) -> None:
        """At least two values."""
        check_values(column)
        if len(column.values) < 2:
            raise wrong(column, "at least two values in order", "one", "declare it as a category, or drop it,")

    @property
    def levels(self) -> int:
        """One for each value."""
        return len(self.column.values)

    @property
    def range(self) -> tuple[float, float] | None:
        """The first and the last value, where values are numbers that rise by equal steps."""
        values = self.column.values
        if isinstance(values[0], str):
            return None
        apart = np.diff(np.array(values, dtype=np.float64))
        return (float(values[0]), float(values[-1])) if bool((apart == apart[0]).all()) and apart[0] > 0 else None

    def read(self, cells: pl.Series) -> CellsRead:
        """The place of the value, from the first to the last."""
        code = places(cells, self.column.values)
        lost = code < 0
        steps = on_grid(np.where(lost, 0, code) / (self.levels - 1))
        return CellsRead(np.where(lost, 0.0, steps)[:, None], lost)

    def write(self, codes: Reals) -> pl.Series:
        """The values nearest to these steps."""
        empty = np.isnan(codes)
        return written(self.column.values, np.where(empty, -1, level_at(np.where(empty, 0.0, codes), self.levels)))

    def examples(self) -> tuple[Any, ...]:
        """Both ends, and what follows them."""
        values = self.column.values
        return tuple(dict.fromkeys((values[0], values[-1], values[1], values[-2])))


class Flag(CellKind):
    """No or yes, in whatever two words are declared; without any, in those that say so (0, 1, no, yes, ...)."""

    name = "flag"
    block = "flag"
    keys = ("values",)

    @staticmethod
    def check(column: Column) -> None:
        """Two values, or none."""
        if column.values:
            check_values(column)
            if len(column.values) != 2:
                got = f"{len(column.values)} values"
                raise wrong(column, "two values, how no and yes are written", got, 'write values = ["no", "yes"],')
        if column.missing is not None and not isinstance(column.missing, bool) and not column.values:
            raise wrong(column, "missing true or false", f"missing = {said(column.missing)}", "write missing = false")
        if column.type is not None and not column.values:
            fits_type(column, 0, 1, True)

    @cached_property
    def _both(self) -> tuple[Value, Value]:
        """How no and yes are written."""
        return cast(tuple[Value, Value], self.column.values or (False, True))

    @property
    def range(self) -> tuple[float, float]:
        """No is 0, yes is 1."""
        return 0.0, 1.0

    @property
    def fallback(self) -> int | None:
        """Of the declared word."""
        if self.column.missing is None:
            return None
        return HALF if self.column.missing == self._both[1] else -HALF

    def read(self, cells: pl.Series) -> CellsRead:
        """Half the grid below or above 0; a declared word first, then any word that says no or yes."""
        said_so = answers(cells)
        if self.column.values:
            declared = places(cells, self.column.values)
            plain = all(_answer_of(value) == place for place, value in enumerate(self.column.values))
            said_so = np.where(declared < 0, said_so, declared) if plain else declared
        lost = said_so < 0
        return CellsRead(np.where(lost, 0.0, np.where(said_so == 1, HALF, -HALF))[:, None], lost)

    def write(self, codes: Reals) -> pl.Series:
        """Yes above 0."""
        return written(self._both, np.where(np.isnan(codes), -1, codes > 0))

    def examples(self) -> tuple[Any, ...]:
        """Both."""
        return self._both


def _answer_of(value: Value) -> int:
    """0 where a value says no, 1 where it says yes, -1 where it says neither."""
    return int(answers(pl.Series([value]))[0])


def written(values: tuple[Value, ...], places_of: Reals | Integers) -> pl.Series:
    """The values at these places, in their own type; nothing where a place is -1."""
    at = np.clip(places_of, -1, len(values) - 1).astype(np.int64)
    found = pl.Series(list(values))
    if bool((at >= 0).all()):
        return found.gather(at)
    return emptied(found.gather(pl.Series(np.maximum(at, 0))), at < 0)


def check_values(column: Column) -> None:
    """Declared values: some, of one type, each once; and a fallback that is one of them."""
    if column.values and not isinstance(column.values, tuple | list):
        raise wrong(column, "values as a list", f"a {type(column.values).__name__}", 'write values = ["...", "..."]')
    if not column.values:
        raise wrong(
            column,
            "declared values",
            "none",
            'write values = ["...", "..."], known without looking at the rows '
            "(a draft's suggestion must be confirmed),",
        )
    if len(column.values) > MAX_VALUES:
        got = f"{len(column.values):,}"
        raise wrong(column, f"at most {MAX_VALUES:,} values", got, 'group them, or write role = "drop"')
    column.settle(values=_one_type(column, tuple(column.values)))
    for value in column.values:
        if isinstance(value, str):
            column.check_writable("values", value)
    twice = repeated(_written(v) for v in column.values)
    if twice is not None:
        raise wrong(column, "each value once", f"{twice!r} twice (spaces around it do not count)", "delete one")
    _check_distinct(column)
    _check_type(column)
    if column.missing is not None:
        same = [v for v in column.values if _alike(v, column.missing)]
        if not same:
            raise wrong(
                column,
                "missing among the declared values",
                f"missing = {said(column.missing)}",
                'write one of the values as missing, or "keep", or delete it,',
            )
        column.settle(missing=same[0])


def _check_type(column: Column) -> None:
    kind = column.type
    if kind is None or kind in ("string", "categorical"):
        if kind is not None and not isinstance(column.values[0], str):
            raise wrong(column, f"values of text for type {kind}", "other values", "put quotes around them")
        return
    if isinstance(column.values[0], str):
        raise wrong(column, "type string or categorical", f"type = {said(kind)}", "correct type")
    numbers = [float(v) for v in column.values]
    fits_type(column, min(numbers), max(numbers), all(v.is_integer() for v in numbers))


def _check_distinct(column: Column) -> None:
    """Refuse values that a reader which gives the column another type could not tell apart."""
    same = repeated(key_of(v) for v in column.values)
    if isinstance(same, str):
        raise wrong(column, "values that spell different moments", f"two that spell {same!r}", "delete one")
    if same is not None:
        got = (
            f"two that spell {same} (true is read as 1 and false as 0)" if same in (0, 1) else f"two that spell {same}"
        )
        raise wrong(column, "values that spell different numbers", got, "delete one, or declare another word")


def _one_type(column: Column, values: tuple[object, ...]) -> tuple[Value, ...]:
    types = {type(v) for v in values}
    if types <= {int, float} and not all(_representable(cast(float, v)) for v in values):
        raise wrong(column, "finite values", "nan, an infinity or a number too large", "delete it")
    if types == {int, float}:  # [0, 0.5, 1] is how people write it
        values, types = tuple(float(cast(float, v)) for v in values), {float}
    if len(types) > 1 or not types <= {str, int, float, bool}:
        names = ", ".join(sorted(t.__name__ for t in types))
        raise wrong(
            column,
            "values of one type (text, numbers, or true and false)",
            f"types {names}",
            "put quotes around all of them or around none",
        )
    return cast(tuple[Value, ...], values)


def repeated(keys: Iterable[str | float]) -> str | float | None:
    """The first key that comes a second time, if any does."""
    seen: set[str | float] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _representable(value: float) -> bool:
    return -(2**63) <= value < 2**63 if isinstance(value, int) else math.isfinite(value)


def _written(value: Value) -> str | float:
    """A value as it stands in the schema, without spaces around it."""
    return value.strip() if isinstance(value, str) else float(value)


def _alike(value: Value, other: object) -> bool:
    if isinstance(value, str | bool) or isinstance(other, str | bool):
        return type(value) is type(other) and _written(value) == _written(other)
    return type(other) in (int, float) and _representable(cast(float, other)) and value == other
