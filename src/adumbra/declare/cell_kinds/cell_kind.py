"""What every kind of cell can do: check its declaration, say how it is encoded, read cells and write them again.

A kind of cell is a type in one file of this package, entered in `declare/column.py`. Whatever it is, its cells are
encoded as one of four primitive blocks (`declare/space.py`), so that queries, bounds and mechanisms know those four
and nothing else: a day, an ordered code and a time of day are numbers of equally spaced values.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import finite, said
from adumbra.declare.space import GRID, HALF, MOST_LEVELS, Kind

if TYPE_CHECKING:
    from adumbra.declare.column import Column

__all__ = [
    "CellKind",
    "CellsRead",
    "countable",
    "finite_number",
    "fits_type",
    "level_at",
    "nearest_steps",
    "not_at_0",
    "on_grid",
    "stored_type",
    "wrong",
]

_TYPES: dict[str, type[pl.DataType]] = {
    "int8": pl.Int8,
    "int16": pl.Int16,
    "int32": pl.Int32,
    "int64": pl.Int64,
    "uint8": pl.UInt8,
    "uint16": pl.UInt16,
    "uint32": pl.UInt32,
    "uint64": pl.UInt64,
    "float32": pl.Float32,
    "float64": pl.Float64,
    "boolean": pl.Boolean,
    "string": pl.String,
}
_LARGEST_32 = 3e38
_WHOLE_TYPES = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, eq=False)
class CellsRead:
    """Cells in encoded form, a row each: 0 where one is `lost` (and not yet put to a fallback).

    `clipped` counts those that were outside what is declared.
    """

    values: Reals
    lost: NDArray[np.bool_]
    clipped: int = 0


class CellKind(ABC):
    """A kind of cell, as one column declares it; made only of columns whose declaration was checked."""

    name: ClassVar[str]
    """What the schema calls it."""
    block: ClassVar[Kind]
    """The primitive that its cells are encoded as."""
    keys: ClassVar[tuple[str, ...]]
    """What may be declared of it, beside what may be of any column."""

    def __init__(self, column: Column) -> None:
        self.column = column

    @staticmethod
    @abstractmethod
    def check(column: Column) -> None:
        """Refuse a wrong declaration; put what is declared into its one form."""

    @property
    def width(self) -> int:
        """Encoded coordinates."""
        return 1

    @property
    def levels(self) -> int | None:
        """Equally spaced values of a number; None where they are not, or too many."""
        return None

    @property
    def spikes(self) -> tuple[int, ...]:
        """Grid positions of the values declared to be common."""
        return ()

    @property
    def most(self) -> int:
        """Values that one cell can hold."""
        return 1

    @property
    def fallback(self) -> int | None:
        """Where an empty cell goes (`Block.fallback`); None where it stays empty."""
        if self.column.missing is None:
            return None
        read = self.read(pl.Series([self.column.missing]))
        return int(read.values[0, 0])

    @property
    def range(self) -> tuple[float, float] | None:
        """Both ends, as numbers that means and quantiles can be told in; None where cells have no order."""
        return None

    @property
    def linear(self) -> bool:
        """Whether grid steps rise with the numbers of `range` in a straight line, so that means can be read off."""
        return self.range is not None

    @abstractmethod
    def read(self, cells: pl.Series) -> CellsRead:
        """Cells in grid steps, each for itself whatever the others are."""

    @abstractmethod
    def write(self, codes: Reals) -> pl.Series:
        """Cells from one number each: grid steps of a number or flag, the position of a value; nan is an empty cell."""

    def exact(self, cells: pl.Series) -> pl.Series:
        """Cells as `write` gives them, clipped and on their step, but not rounded to the grid; empty where one is lost.

        For looking at cells as they are declared. What is measured is what `read` reads.
        """
        found = self.read(cells)
        return self.write(np.where(found.lost, np.nan, self.codes(found.values)))

    def store(self, cells: pl.Series) -> pl.Series:
        """Cells from `write` as the release has them: of the declared `type`, where there is one."""
        kind = self.column.type
        if kind is None:
            return cells
        if kind == "categorical":
            return cells.cast(pl.Enum([str(value) for value in self.column.values]))
        return cells.cast(_TYPES[kind])

    def codes(self, rows: Reals) -> Reals:
        """One number for each row of encoded coordinates, or of real numbers near them, as `write` takes it."""
        return rows[:, 0]

    def tell(self, value: float) -> float | str:
        """A number of `range` (a mean, a quantile) for people."""
        return value

    def share_of(self, value: object, half_steps: int = 0) -> float | None:
        """Where a value lies on the grid: 0 at one end, 1 at the other, infinite beyond them; None if it is none.

        A value of a step stands for what is recorded as it: -1 and 1 `half_steps` ask for where that begins and ends.
        """
        read = self.read(pl.Series([value], strict=False))
        if read.lost[0]:
            return None
        if self.levels is None:
            return float(read.values[0, 0] / GRID + 0.5)
        last = max(self.levels - 1, 1)
        return (int(level_at(read.values[:, 0], self.levels)[0]) + 0.5 * half_steps) / last

    def spread(self, count: int) -> pl.Series:
        """So many public cells from one end to the other, or all values in turn."""
        if self.block == "category":
            return self.write(np.arange(count, dtype=np.float64) % self.width)
        return self.write(np.linspace(-HALF, HALF, count))

    @abstractmethod
    def examples(self) -> tuple[Any, ...]:
        """A few public cells, both ends among them, that a made-up table or a search for neighbours may hold."""


def wrong(column: Column, expected: str, got: str, remedy: str) -> InputError:
    """The error of a declaration of `column`: what was `expected`, what was `got`, and the `remedy`."""
    return column.error(expected, got, remedy)


def finite_number(column: Column, key: str, value: object) -> float:
    """The `value` that a `column` declares under a `key`, as a number, or the error that says what to write."""
    if value is None:
        raise wrong(
            column,
            f"a declared {key}",
            "none",
            f"write {key} = a number known without looking at the rows (a draft's suggestion must be confirmed)",
        )
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong(column, f"{key} as a number", f"a {type(value).__name__}", f"for example, write {key} = 0")
    if not finite(value):
        raise wrong(column, f"a finite {key}", f"{key} = {said(value)}", f"write {key} = an ordinary number")
    return float(value) + 0.0  # -0.0 becomes 0.0, so that equal schemas print alike


def on_grid(share: Reals) -> Reals:
    """Grid steps of shares of a range (0 to 1); what is not there (nan) stays nan. No value is at 0."""
    return not_at_0(np.rint((share - 0.5) * GRID))


def not_at_0(steps: Reals) -> Reals:
    """Grid steps inside the grid; a value in the very middle is one step above it, since 0 is no value."""
    steps = np.clip(steps, -HALF, HALF)
    return np.where(steps == 0, 1.0, steps)


def level_at(codes: Reals, levels: int) -> Integers:
    """The nearest of so many equally spaced values, from grid steps without nan."""
    place = np.rint((np.clip(codes, -HALF, HALF) / GRID + 0.5) * max(levels - 1, 0))
    return place.astype(np.int64)


def countable(levels: float) -> int | None:
    """A number of levels that the grid keeps apart, though none is at 0; None for more.

    An odd number of them has one in the very middle, which is moved by a step: its neighbour must be further away.

    >>> countable(65536), countable(65535), countable(32767)
    (65536, None, 32767)
    """
    most = MOST_LEVELS if levels % 2 == 0 else MOST_LEVELS // 2
    return int(levels) if levels <= most else None


def fits_type(column: Column, low: float, high: float, whole: bool) -> None:
    """Refuse a declared `type` that cannot hold the values of `column`, from `low` to `high`, `whole` or not."""
    kind = column.type
    if kind == "float32" and max(abs(low), abs(high)) > (2**24 if whole else _LARGEST_32):
        got = f"{low:g} to {high:g}"
        raise wrong(column, "numbers that 32 bits hold, for type float32", got, 'write type = "float64"')
    if kind in ("float32", "float64"):
        return
    if kind in _WHOLE_TYPES:
        sign, bits = _WHOLE_TYPES[str(kind)]
        least, most = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if whole and least <= low and high <= most:
            return
        expected = f"whole numbers from {least} to {most} for type {kind}"
        raise wrong(column, expected, f"{low:g} to {high:g}" + ("" if whole else ", not all whole"), "correct type")
    if kind == "boolean" and whole and low >= 0 and high <= 1:
        return
    raise wrong(column, "a type of numbers", f"type = {said(kind)}", "write int64 or float64, or delete type,")


def stored_type(name: str) -> type[pl.DataType]:
    """The type of a frame that a declared `type` means."""
    return _TYPES[name]


def nearest_steps(value: float) -> float:
    """Whole, if it is but for the last bits of a division."""
    whole = float(math.floor(value + 0.5))
    return whole if abs(value - whole) <= 1e-6 * max(1.0, abs(whole)) and abs(value - whole) < 1e-3 else value
