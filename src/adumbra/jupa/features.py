"""Records as numbers, by what a PUBLIC table shows: its columns, categories, means and deviations.

Nothing is declared and nothing is read from private rows: the public table is the code book. A private record is coded
cell by cell, so its numbers depend on it alone, and the type of its column says nothing (`declare/spelling.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import one_of
from adumbra.declare.spelling import blank, canonical, distinct, key, numbers, places

__all__ = ["ENCODINGS", "Features", "Guard", "Target"]


ENCODINGS = ("onehot", "binary")
_MOST_CATEGORIES = 1000
_MOST_CLASSES = 1000


def _one_text_each(cells: pl.Series) -> pl.Series:
    """Cells of a public table as text, in one spelling where they are one cell: true where others say 1."""
    text = canonical(cells)
    first: dict[str | float, str] = {}
    for one in sorted(text.drop_nulls().unique().to_list(), reverse=True):
        first.setdefault(key(one), one)
    return text.replace({one: first[key(one)] for one in text.drop_nulls().unique().to_list()})


def _as_numbers(cells: pl.Series) -> Reals:
    """Numbers, NaN where there is none."""
    found = numbers(cells)
    return np.where(np.isfinite(found), found, np.nan)


@dataclass(frozen=True)
class Target:
    """One or more label columns as one label: every combination that the public table holds is a class."""

    columns: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...]

    @staticmethod
    def fit(frame: pl.DataFrame, columns: Sequence[str], what: str) -> Target:
        """The classes of a public table `frame`, in order of their text.

        A class is a combination of values of `columns`; `what` is "utility" or "privacy", for messages.
        """
        texts = [_column(frame, name, f"the {what} column") for name in columns]
        rows = list(zip(*(_one_text_each(text).to_list() for text in texts), strict=True))
        empty = sum(None in row for row in rows)
        if empty:
            raise InputError(
                f"a {what} label in every public record (nothing, ? and NA are none)",
                f"{empty} of {len(rows)} records without one",
                "leave those records out, or give the missing a name",
            )
        classes = tuple(sorted(set(rows)))
        if not 2 <= len(classes) <= _MOST_CLASSES:
            raise InputError(
                f"between 2 and {_MOST_CLASSES} classes of {' and '.join(columns)}",
                f"{len(classes)}",
                "choose a column with a few classes, or group its values first (a number into a few ranges)",
            )
        return Target(tuple(columns), classes)

    def of(self, frame: pl.DataFrame) -> Integers:
        """The class of every record; -1 where its labels are missing or not among the public ones."""
        found = [
            places(_column(frame, name, "the label column"), own).tolist()
            for name, own in zip(self.columns, self._own, strict=True)
        ]
        classes = {
            tuple(own.index(text) for own, text in zip(self._own, row, strict=True)): i
            for i, row in enumerate(self.classes)
        }
        return np.array([classes.get(row, -1) for row in zip(*found, strict=True)], dtype=np.int64)

    @property
    def _own(self) -> list[list[str]]:
        """For each column, the texts that its classes have."""
        return [sorted({row[i] for row in self.classes}) for i in range(len(self.columns))]

    def parts(self, joint: Integers) -> list[Integers]:
        """For each column, the class of that column alone: what equation (9) sums over."""
        out = []
        for i, own in enumerate(self._own):
            out.append(np.array([own.index(row[i]) for row in self.classes], dtype=np.int64)[joint])
        return out

    @property
    def names(self) -> list[str]:
        """Classes as text."""
        return [" / ".join(row) for row in self.classes]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"columns": list(self.columns), "classes": [list(row) for row in self.classes]}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> Target:
        """Read back what `to_dict` wrote."""
        target = Target(tuple(content["columns"]), tuple(tuple(row) for row in content["classes"]))
        if not all(distinct(own) for own in target._own):
            raise ValueError("classes that are one and the same cell")
        return target


def _column(frame: pl.DataFrame, name: str, what: str) -> pl.Series:
    if name not in frame.columns:
        raise InputError(f"{what} {name!r} in the table", "no column of that name", "check the spelling")
    return frame.get_column(name)


@dataclass(frozen=True, eq=False)
class Guard:
    """What is known of every number from some public records: its range, and what stands for a missing one.

    Models that left records out have a guard that left them out too: a value that only those records hold must mean to
    the model what any other unknown value means.
    """

    low: Reals
    high: Reals
    fill: Reals

    @staticmethod
    def of(rows: Reals) -> Guard:
        """Of public records; a number that none of them holds counts as 0."""
        known = np.isfinite(rows)
        count = np.maximum(known.sum(axis=0), 1)
        fill = np.where(known, rows, 0.0).sum(axis=0) / count
        low = np.where(known, rows, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)
        none = ~known.any(axis=0)
        return Guard(np.where(none, 0.0, low), np.where(none, 0.0, high), fill)

    def mend(self, rows: Reals) -> Reals:
        """Numbers outside the range count as its nearer end, missing ones as the mean."""
        return np.clip(np.where(np.isnan(rows), self.fill, rows), self.low, self.high)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As a plain array."""
        return {"guard": np.stack([self.low, self.high, self.fill])}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Guard:
        """Read back."""
        return Guard(*arrays["guard"])


@dataclass(frozen=True)
class _Code:
    """How one column becomes numbers: a number as it is, a category by its place."""

    name: str
    kind: str
    values: tuple[str, ...] = ()

    def width(self, encoding: str) -> int:
        if self.kind == "number":
            return 1
        return len(self.values) if encoding == "onehot" else max(1, (len(self.values) - 1).bit_length())

    def fill(self, cells: pl.Series, encoding: str, out: Reals) -> None:
        """Write the numbers of a column; a number that is missing is NaN, a category that is unknown is all zeros."""
        if self.kind == "number":
            out[:, 0] = _as_numbers(cells)
            return
        codes = places(cells, self.values)
        if encoding == "onehot":
            out[:] = codes[:, None] == np.arange(out.shape[1])
        else:
            out[:] = (codes[:, None] >= 0) & ((codes[:, None] >> np.arange(out.shape[1])) & 1 == 1)


@dataclass(frozen=True, eq=False)
class Features:
    """The code book: columns, how each is coded, and the public mean and deviation of every number."""

    codes: tuple[_Code, ...]
    encoding: str
    mean: Reals
    deviation: Reals

    @staticmethod
    def fit(frame: pl.DataFrame, *, columns: Sequence[str], encoding: str = "onehot") -> Features:
        """Learn the code book of these `columns` from a public table `frame`.

        A column whose every cell reads as a number is one; any other is a category of the values seen. `encoding` is
        how categories become numbers, one of `ENCODINGS`.
        """
        one_of(ENCODINGS, encoding=encoding)
        if not columns:
            raise InputError("a table with columns besides the targets", "none", "give a table with features")
        codes = tuple(_code(_column(frame, name, "the column")) for name in columns)
        width = sum(code.width(encoding) for code in codes)
        plain = Features(codes, encoding, np.zeros(width), np.ones(width))._raw(frame)
        if not len(plain):
            raise InputError("a public table with records", "none", "give one with records")
        mean = np.nanmean(plain, axis=0)
        deviation = np.nanstd(plain, axis=0)
        return Features(codes, encoding, mean, np.where(deviation > 1e-12, deviation, 1.0))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return [code.name for code in self.codes]

    @property
    def width(self) -> int:
        """Numbers that a record becomes."""
        return len(self.mean)

    def encode(self, frame: pl.DataFrame) -> Reals:
        """Records as standardised numbers: (x - mean) / deviation of the public table; NaN where a number is missing.

        A category that the public table does not hold has no place and is all zeros before standardising. What is
        missing or out of range is mended later, by a `Guard`.
        """
        return (self._raw(frame) - self.mean) / self.deviation

    def _raw(self, frame: pl.DataFrame) -> Reals:
        absent = [name for name in self.columns if name not in frame.columns]
        if absent:
            some = ", ".join(repr(name) for name in absent[:5])
            raise InputError(
                "every column of the public table in this one too", f"no {some}", "give a table with the same columns"
            )
        out = np.empty((frame.height, sum(code.width(self.encoding) for code in self.codes)))
        start = 0
        for code in self.codes:
            end = start + code.width(self.encoding)
            code.fill(frame.get_column(code.name), self.encoding, out[:, start:end])
            start = end
        return out

    def unread(self, frame: pl.DataFrame) -> dict[str, tuple[int, int]]:
        """For every column: empty cells, and others that hold no number or no category of the public table."""
        out = {}
        for code in self.codes:
            cells = frame.get_column(code.name)
            lost = np.isnan(_as_numbers(cells)) if code.kind == "number" else places(cells, code.values) < 0
            empty = int(np.count_nonzero(lost & blank(cells)))
            out[code.name] = empty, int(np.count_nonzero(lost)) - empty
        return out

    def is_number(self, name: str) -> bool:
        """Whether a column is read as numbers."""
        return any(code.name == name and code.kind == "number" for code in self.codes)

    def typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns of a PUBLIC table that are read, numbers as numbers and the rest as text.

        Whether a column comes out whole depends on all its cells: never give it private ones.
        """
        columns = []
        for code in self.codes:
            cells = frame.get_column(code.name)
            if code.kind == "number":
                found = pl.Series(code.name, _as_numbers(cells)).fill_nan(None)
                known = found.drop_nulls()
                whole = bool(((known == known.round()) & (known.abs() < 2**53)).all())
                columns.append(found.cast(pl.Int64) if whole else found)
            else:
                columns.append(_one_text_each(cells).alias(code.name))
        return pl.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        codes = [{"name": c.name, "kind": c.kind, "values": list(c.values)} for c in self.codes]
        return {
            "encoding": self.encoding,
            "columns": codes,
            "mean": self.mean.tolist(),
            "deviation": self.deviation.tolist(),
        }

    @staticmethod
    def from_dict(content: dict[str, Any]) -> Features:
        """Read back what `to_dict` wrote."""
        codes = tuple(_Code(c["name"], c["kind"], tuple(c["values"])) for c in content["columns"])
        mean, deviation = (np.array(content[key], dtype=np.float64) for key in ("mean", "deviation"))
        width = sum(code.width(content["encoding"]) for code in codes)
        known = {code.kind for code in codes} <= {"number", "category"} and content["encoding"] in ENCODINGS
        known = known and all(distinct(code.values) and (code.values or code.kind == "number") for code in codes)
        fits = mean.shape == deviation.shape == (width,) and np.isfinite(mean).all() and (deviation > 0).all()
        if not (known and fits and np.isfinite(deviation).all()):
            raise ValueError("a code book that does not fit together")
        return Features(codes, content["encoding"], mean, deviation)


def _code(cells: pl.Series) -> _Code:
    text = _one_text_each(cells)
    filled = text.is_not_null().to_numpy()
    if not filled.any():
        raise InputError("something in every column", f"column {cells.name!r} is empty", f"use --drop {cells.name}")
    if np.isfinite(numbers(cells, words=False)[filled]).all():  # true and false are a category
        return _Code(cells.name, "number")
    values = tuple(sorted(text.drop_nulls().unique().to_list()))
    if len(values) > _MOST_CATEGORIES:
        raise InputError(
            f"at most {_MOST_CATEGORIES} values of a text column",
            f"{len(values)} in {cells.name!r}",
            f"use --drop {cells.name}: a name or number of a person serves no purpose here",
        )
    return _Code(cells.name, "category", values)
