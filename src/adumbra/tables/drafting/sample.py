"""A bounded sample of rows, taken evenly over the table by position."""

from __future__ import annotations

import polars as pl

__all__ = ["Sample"]

_MOST_ROWS = 20_000
_MOST_CELLS = 4_000_000


class Sample:
    """Every so many-th of `rows` rows of `columns` columns."""

    def __init__(self, rows: int, columns: int) -> None:
        most = min(_MOST_ROWS, max(1000, _MOST_CELLS // max(1, columns)))
        self._step = max(1, -(-rows // most))
        self._seen = 0
        self._parts: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame) -> None:
        """Take the next rows of the table."""
        first = -self._seen % self._step
        self._seen += batch.height
        if first < batch.height:
            self._parts.append(_apart(batch[first :: self._step]) if self._step > 1 else batch)

    def frame(self) -> pl.DataFrame:
        """The rows that were kept."""
        return pl.concat(self._parts) if self._parts else pl.DataFrame()


def _apart(rows: pl.DataFrame) -> pl.DataFrame:
    """The same rows in memory of their own: texts would hold on to those of the whole batch."""
    texts = [column for column in rows.get_columns() if column.dtype == pl.String]
    return rows.with_columns(pl.Series(column.name, column.to_list(), dtype=pl.String) for column in texts)
