"""How alike two drawn rows are, in the columns that tell most about a given one.

Rows that exchange a cell should differ little in what goes with it. Which columns that is, is seen from a sample of the
drawn rows (their mutual information in a few cells each), so nothing but drawn rows is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals

__all__ = ["Likeness"]

_SAMPLE = 4_000
_CELLS = 8
_FINE = 64
_NEAREST = 4
"""Columns that decide how alike two rows are."""


class Likeness:
    """Distances of rows: for a column, in the few others that tell most about it."""

    def __init__(self, frame: pl.DataFrame, names: Sequence[str], generator: np.random.Generator) -> None:
        """Look at a sample of the `frame`; `names` are the columns whose cells are to move."""
        size = min(_SAMPLE, len(frame))
        sample = frame[np.sort(generator.choice(len(frame), size, replace=False))]
        coarse = {name: _coarse(sample[name]) for name in frame.columns}
        self.related = {name: _related(name, coarse) for name in names}
        used = {other for others in self.related.values() for other, _ in others}
        self.features = {name: _feature(frame[name], sample[name]) for name in used}

    def distance(
        self,
        name: str,
        first: Integers,
        second: Integers,
        source: Mapping[str, Integers],
        apart: frozenset[str] = frozenset(),
    ) -> NDArray[np.float32]:
        """How far rows are from each other for an exchange of one column.

        `name` is the column; `first` and `second` are the rows; `source` says where the cells of a column come from
        that has been exchanged already; columns `apart` do not count.
        """
        total = np.zeros(len(first), dtype=np.float32)
        for other, weight in self.related[name]:
            if other in apart:
                continue
            feature, ordered = self.features[other]
            at = source.get(other)
            a, b = (feature[rows if at is None else at[rows]] for rows in (first, second))
            total += weight * (np.minimum(np.abs(a - b), 1.0) if ordered else (a != b).astype(np.float32))
        return total


def _related(name: str, coarse: Mapping[str, Integers]) -> list[tuple[str, np.float32]]:
    """The columns that tell most about one, beyond what chance alone would."""
    own = coarse[name]
    found = [(_information(own, cells), other) for other, cells in coarse.items() if other != name]
    best = sorted((one for one in found if one[0] > 0), key=lambda one: (-one[0], one[1]))[:_NEAREST]
    return [(other, np.float32(information / best[0][0])) for information, other in best]


def _information(a: Integers, b: Integers) -> float:
    """Mutual information of two columns of cells, less what independent ones would show."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)
    share = table / len(a)
    expected = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    there = share > 0
    seen = float((share[there] * np.log(share[there] / expected[there])).sum())
    return float(seen - (table.shape[0] - 1) * (table.shape[1] - 1) / len(a))


def _numbers(cells: pl.Series) -> Reals | None:
    """Numbers and moments as numbers, nan where empty; None where cells have no order."""
    kind = cells.dtype
    if kind.is_numeric() or kind.is_temporal():
        return cells.to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return None


def _coarse(cells: pl.Series) -> Integers:
    """Cells by number: equal shares of numbers, the most frequent words; the last is for empty ones."""
    found = _numbers(cells)
    if found is not None:
        there = found[~np.isnan(found)]
        edges = np.unique(np.quantile(there, np.linspace(0, 1, _CELLS + 1)[1:-1])) if len(there) else np.zeros(0)
        return np.where(np.isnan(found), len(edges) + 1, np.searchsorted(edges, found, side="right"))
    words = _words(cells)
    common = [word for word in words.value_counts(sort=True)[words.name] if word is not None][: 2 * _CELLS]
    if not common:
        return np.zeros(len(cells), dtype=np.int64)
    codes = words.replace_strict(common, list(range(len(common))), default=len(common), return_dtype=pl.Int64)
    return codes.fill_null(len(common) + 1).to_numpy()


def _feature(cells: pl.Series, sample: pl.Series) -> tuple[NDArray[np.float32], bool]:
    """A column as numbers that can be compared, and whether their differences say how far apart cells are."""
    found = _numbers(cells)
    if found is not None:
        seen = _numbers(sample)
        there = seen[~np.isnan(seen)] if seen is not None else np.zeros(0)
        edges = np.unique(np.quantile(there, np.linspace(0, 1, _FINE + 1))) if len(there) else np.zeros(1)
        at = np.searchsorted(edges, found) / len(edges)
        return np.where(np.isnan(found), 3.0, at).astype(np.float32), True
    words = _words(cells)
    known = words.drop_nulls().unique(maintain_order=True)
    if not len(known):
        return np.zeros(len(cells), dtype=np.float32), False
    codes = words.replace_strict(known, list(range(len(known))), default=None, return_dtype=pl.Int64)
    return codes.fill_null(-1).to_numpy().astype(np.float32), False


def _words(cells: pl.Series) -> pl.Series:
    return (
        cells.cast(pl.String, strict=False)
        if not isinstance(cells.dtype, pl.List)
        else cells.list.len().cast(pl.String)
    )
