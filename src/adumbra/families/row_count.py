"""The number of rows where it is private: a first small measurement of it, for mechanisms that divide by it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from adumbra.families.contract import Measurer, Query, Setting, SumAnswer
from adumbra.queries.sums import Count

__all__ = [
    "UNKNOWN_ROWS",
    "counted_rows",
    "known_rows",
    "measured_arrays",
    "measured_names",
    "public_rows",
    "with_size",
    "with_size_query",
]

_SIZE = "size"
_SHARE = 0.02
UNKNOWN_ROWS = 50_000
"""Stands in for the number of rows where none is public, in what a plan expects of memory and of what is published."""


def with_size(setting: Setting, lines: Mapping[str, float]) -> dict[str, float]:
    """The lines, and a small one for the number of rows where that is private."""
    if setting.rows is not None:
        return dict(lines)
    return {_SIZE: _SHARE} | {line: share * (1 - _SHARE) for line, share in lines.items()}


def with_size_query(setting: Setting, queries: Mapping[str, Query]) -> dict[str, Query]:
    """The queries, and the one for the number of rows where that is private."""
    return dict(queries) if setting.rows is not None else {_SIZE: Count()} | dict(queries)


def known_rows(door: Measurer, setting: Setting) -> float:
    """The number of rows: public, or measured now; at least 1, to divide by."""
    return counted_rows(door, setting)[0]


def counted_rows(door: Measurer, setting: Setting) -> tuple[float, float]:
    """The same, and the standard deviation of its noise."""
    if setting.rows is not None:
        return float(max(setting.rows, 1)), 0.0
    size = door.measure(_SIZE, Count())
    return max(float(size.values["rows"][0]), 1.0), size.sd("rows")


def public_rows(setting: Setting) -> int | None:
    """The number of rows as far as it is public: known, or declared in the schema; for rules fixed before all else."""
    if setting.rows is not None or setting.schema is None:
        return setting.rows
    return setting.schema.table.rows


def measured_arrays(answers: Mapping[str, SumAnswer]) -> dict[str, NDArray[np.float64]]:
    """The noisy numbers of each line, under their names in the release."""
    names = measured_names(answers)
    return {names[line][part]: values for line, answer in answers.items() for part, values in answer.values.items()}


def measured_names(answers: Mapping[str, SumAnswer]) -> dict[str, dict[str, str]]:
    """The name of each part of each line: `measured_LINE_PART`."""
    return {
        line: {part: f"measured_{line.replace(' ', '_')}_{part}" for part in answer.values}
        for line, answer in answers.items()
    }
