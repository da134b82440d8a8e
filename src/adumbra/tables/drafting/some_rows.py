"""Rows as rules see them: cells read as the findings say, with nothing where they hold nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.declare.spelling import blank, emptied, numbers, places, texts
from adumbra.tables.drafting.finding import ColumnFinding
from adumbra.tables.drafting.moment_look import parsed

__all__ = ["SomeRows"]


class SomeRows:
    """Some rows of the table; each column is read once, when it is asked for."""

    def __init__(self, frame: pl.DataFrame, findings: Mapping[str, ColumnFinding]) -> None:
        self._frame, self._findings = frame, findings
        self._read: dict[str, pl.Series] = {}
        self._missing: dict[str, NDArray[np.bool_]] = {}
        self._numbers: dict[str, Reals] = {}

    def __len__(self) -> int:
        return self._frame.height

    def series(self, name: str) -> pl.Series:
        """Numbers, moments, or positions among the declared values; null where a cell holds nothing."""
        if name not in self._read:
            self._read[name] = self._cells(self._findings[name], self._frame.get_column(name)).alias(name)
        return self._read[name]

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Which cells hold nothing."""
        if name not in self._missing:
            self._missing[name] = np.asarray(self.series(name).is_null())
        return self._missing[name]

    def numbers(self, name: str) -> Reals:
        """Cells as numbers (days or microseconds of moments), nan where they hold nothing."""
        if name not in self._numbers:
            found = self.series(name)
            if found.dtype.is_temporal():
                found = found.to_physical()
            self._numbers[name] = np.array(found.cast(pl.Float64).to_numpy(), dtype=np.float64)
        return self._numbers[name]

    def codes(self, name: str, values: list[Any]) -> Integers:
        """Position of each cell among `values` of its column in order, and one more for a cell that holds nothing."""
        found = self.series(name)
        given = pl.Series(values, dtype=found.dtype)
        places = found.replace_strict(given, pl.Series(range(len(values)), dtype=pl.Int64), default=len(values))
        return np.array(places.fill_null(len(values)).to_numpy(), dtype=np.int64)

    @staticmethod
    def _cells(finding: ColumnFinding, cells: pl.Series) -> pl.Series:
        nothing = pl.Series(blank(cells))
        if finding.blank_words and not cells.dtype.is_numeric():
            nothing = nothing | texts(cells).is_in(finding.blank_words).fill_null(False)
        if finding.kind in ("category", "flag") or (finding.kind == "ordinal" and not finding.numeric):
            found = pl.Series(places(cells, finding.values))
            return emptied(found, nothing | (found < 0))
        if finding.kind in ("date", "datetime", "time", "duration"):
            if finding.form != "native":
                moments = parsed(texts(cells), finding.kind, str(finding.form))
            else:
                moments = cells.dt.replace_time_zone(None) if isinstance(cells.dtype, pl.Datetime) else cells
            if isinstance(moments.dtype, pl.Datetime):
                moments = moments.dt.cast_time_unit("us")
            return emptied(moments, nothing)
        found = pl.Series(numbers(cells, words=False), nan_to_null=True)
        if finding.blank_numbers:
            nothing = nothing | found.is_in(finding.blank_numbers).fill_null(False)
        return emptied(found, nothing)
