"""Words and tables for people."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]


def say(text: str) -> None:
    """Tell how far a run is, beside what it prints."""
    print(text, file=sys.stderr, flush=True)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV, with a column for every key that one of them has."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def some(rows: list[Row], **wanted: Any) -> list[Row]:
    """Those with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def pick(rows: list[Row], measure: str, **wanted: Any) -> NDArray[np.float64]:
    """One measure of those with these values."""
    return np.array([row[measure] for row in some(rows, **wanted)])


def mean_and_sd(values: NDArray[np.float64]) -> str:
    """Mean ± standard deviation."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) if len(values) > 1 else 0.0:.3f}" if len(values) else "-"
