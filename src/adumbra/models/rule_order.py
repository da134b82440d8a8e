"""Orders between two columns, settled by sorting.

Where two columns have nearly the same distribution (admission and discharge within three years), few pairings obey
`discharge >= admission`, and exchange at random does not find them. Sorting both columns over the same rows does, if
any pairing can: each keeps exactly its values. So that as few rows as possible are touched, the broken ones are
sorted together with a few that obey, then with more, within classes first, until hardly anything is left. What is
left then takes the nearest cell that was drawn and obeys, which moves it very little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.declare.rules.compile import compiled
from adumbra.declare.rules.parts import Check, Limit
from adumbra.declare.rules.typed import Typed

__all__ = ["sort_orders"]

_SHIFT = 1e-3
"""How far cells may be from obeying, on average and as a share of their spread, before more rows are sorted."""


class _SortedRows(Protocol):
    """What is sorted: cells, where they come from, which rules are broken."""

    names: tuple[str, ...]
    limits: tuple[Limit, ...]
    cells: pl.DataFrame
    source: dict[str, Integers]
    broken: NDArray[np.bool_]
    generator: np.random.Generator

    def judged(self, source: Mapping[str, Integers], limits: Sequence[int]) -> NDArray[np.bool_]: ...

    @property
    def classes(self) -> Integers | None: ...


def sort_orders(rows: _SortedRows) -> bool:
    """Sort the columns of broken orders over as few rows as it takes; whether any rule was mended."""
    before = np.count_nonzero(rows.broken)
    for index, limit in enumerate(rows.limits):
        if isinstance(limit, Check):
            for lesser, greater in _orders(limit.tree):
                if set(rows.names) >= lesser.names | greater.names:
                    _sorted(rows, index, lesser, greater)
    return bool(np.count_nonzero(rows.broken) < before)


def _orders(tree: Typed) -> Iterator[tuple[Typed, Typed]]:
    """Pairs of one column each, of which the first must not be more than the second."""
    if tree.op == "and":
        for arg in tree.args:
            yield from _orders(arg)
    elif tree.op == "compare" and tree.value[0] in "<>" and tree.args[0].type != "text":
        first, second = tree.args if tree.value[0] == "<" else tree.args[::-1]
        if len(first.names) == len(second.names) == 1 and first.names != second.names:
            yield first, second


def _sorted(rows: _SortedRows, index: int, lesser: Typed, greater: Typed) -> None:
    """Sort one order: over the broken rows and ever more of the others.

    `rows` is what is sorted; `index` is the place of the rule; `lesser` and `greater` are its two sides.
    """
    (own,), (moved,) = lesser.names, greater.names
    keys = {name: _key(rows.cells, side) for name, side in ((own, lesser), (moved, greater))}
    obeying = rows.generator.permutation(np.flatnonzero(~rows.broken[index]))
    size = np.count_nonzero(rows.broken[index])
    while True:
        chosen = np.union1d(np.flatnonzero(rows.broken[index]), obeying[:size])
        chosen = chosen[~np.isnan(_depth(rows, chosen, (own, moved), keys, rows.source[moved][chosen]))]
        for classes in (rows.classes, None) if rows.classes is not None else (None,):
            _tried(rows, index, chosen, (own, moved), keys, classes)
        depth = np.nansum(_depth(rows, chosen, (own, moved), keys, rows.source[moved][chosen]))
        if size >= len(obeying) or depth <= _SHIFT * rows.broken.shape[1] * np.nanstd(keys[moved]):
            break
        size *= 2
    _nudged(rows, index, (own, moved), keys)


def _depth(
    rows: _SortedRows, chosen: Integers, names: tuple[str, str], keys: Mapping[str, Reals], cells: Integers
) -> Reals:
    """By how much each row breaks the order, 0 where it obeys, nan where a cell is empty.

    `rows` is what is sorted, `chosen` those in question; `names` are the two columns and `keys` their values; `cells`
    says where those of the second come from.
    """
    return np.maximum(keys[names[0]][rows.source[names[0]][chosen]] - keys[names[1]][cells], 0.0)


def _tried(
    rows: _SortedRows,
    index: int,
    chosen: Integers,
    names: tuple[str, str],
    keys: Mapping[str, Reals],
    classes: Integers | None,
) -> None:
    """Pair the cells of two columns by rank, and keep that if it mends.

    `rows` is what is sorted; `index` is the place of the rule; `chosen` are the rows that take part; `names` are the
    two columns and `keys` their values; within each of the `classes`, where there are any.
    """
    own, moved = names
    group = np.zeros(len(chosen)) if classes is None else classes[chosen]
    tie = rows.generator.random(len(chosen))
    places = [np.lexsort((tie, keys[name][rows.source[name][chosen]], group)) for name in (own, moved)]
    cells = rows.source[moved][chosen]
    paired = np.empty_like(cells)
    paired[places[0]] = cells[places[1]]
    before = rows.broken[:, chosen]
    after = rows.judged({name: at[chosen] for name, at in rows.source.items()} | {moved: paired}, _all(rows))
    fewer = np.count_nonzero(after) < np.count_nonzero(before)
    others = np.delete(after, index, axis=0).sum() <= np.delete(before, index, axis=0).sum()
    shallower = np.sum(_depth(rows, chosen, names, keys, paired)) < np.sum(_depth(rows, chosen, names, keys, cells)) / 2
    if fewer or (others and shallower):
        rows.source[moved][chosen] = paired
        rows.broken[:, chosen] = after


def _nudged(rows: _SortedRows, index: int, names: tuple[str, str], keys: Mapping[str, Reals]) -> None:
    """Give rows that are still broken the nearest cell of one of the two columns that was drawn and obeys.

    `rows` is what is sorted; `index` is the place of the rule; `names` are the two columns and `keys` their values.
    """
    lesser, greater = names
    for name, other, up in ((greater, lesser, True), (lesser, greater, False)):
        broken = np.flatnonzero(rows.broken[index])
        if up:
            broken = broken[rows.generator.random(len(broken)) < 0.5]
        drawn = keys[name][: rows.broken.shape[1]]
        order = np.argsort(drawn, kind="stable")
        order = order[~np.isnan(drawn[order])]
        wanted = keys[other][rows.source[other][broken]]
        strict = 0 if up else -1
        at = np.searchsorted(drawn[order], wanted, side="left" if up else "right") + strict
        inside = (at >= 0) & (at < len(order)) & ~np.isnan(wanted)
        broken, cells = broken[inside], order[at[inside]]
        source = {one: cells if one == name else where[broken] for one, where in rows.source.items()}
        if not len(broken):
            continue
        after = rows.judged(source, _all(rows))
        mended = ~after[index] & ~(after & ~rows.broken[:, broken]).any(axis=0)
        rows.source[name][broken[mended]] = cells[mended]
        rows.broken[:, broken[mended]] = after[:, mended]


def _all(rows: _SortedRows) -> range:
    return range(len(rows.limits))


def _key(cells: pl.DataFrame, side: Typed) -> Reals:
    """One side of an order as numbers, nan where it is empty."""
    made = cells.select(compiled(side).to_physical().cast(pl.Float64).fill_null(float("nan")).alias("key"))
    return made.to_series().to_numpy()
