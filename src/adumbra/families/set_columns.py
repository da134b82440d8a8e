"""Set columns of a table that is drawn: their items are counted on a line of their own, and drawn by themselves.

An item comes out as often as it was counted, and no row has more than declared. Sets are independent of all other
columns, and items of each other but for that limit (`models/sets.py`): counts of single items say no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.declare.cell_kinds.item_set import ItemSet
from adumbra.declare.space import Block
from adumbra.families.contract import Draft, Measurer, Query, Setting
from adumbra.families.row_count import measured_arrays, measured_names
from adumbra.models.columns import drawing
from adumbra.models.sets import drawn_sets, fitted_chances, item_shares
from adumbra.queries.item_totals import ItemsQuery

__all__ = ["beside_sets", "with_set_queries", "with_sets"]

_SHARE = 0.1
"""Of the budget, for each set column."""
_MOST = 2
"""Set columns of a table that is drawn: each has a line, and lines are few."""


def _lines(setting: Setting) -> dict[str, Block]:
    """The line of each set column."""
    sets = [block for block in setting.space.blocks if block.kind == "set"]
    if len(sets) > _MOST:
        raise InputError(
            f"at most {_MOST} set columns in a table that is drawn",
            f"{len(sets)}",
            'write role = "drop" for some of them, or count their values with --mechanism items',
        )
    return {f"items {place + 1}": block for place, block in enumerate(sets)}


def with_sets(setting: Setting, lines: Mapping[str, float]) -> dict[str, float]:
    """The lines, and one for the items of each set column."""
    sets = _lines(setting)
    left = 1.0 - _SHARE * len(sets)
    return {line: share * left for line, share in lines.items()} | dict.fromkeys(sets, _SHARE)


def with_set_queries(setting: Setting, queries: Mapping[str, Query]) -> dict[str, Query]:
    """The queries, and those for the items of set columns."""
    return dict(queries) | {line: ItemsQuery(block) for line, block in _lines(setting).items()}


def beside_sets(door: Measurer, setting: Setting, rows: float, draft: Draft) -> Draft:
    """The `draft` of all other columns with the set columns drawn beside them.

    Their items are counted through the `door`, in a table of so many `rows`; `setting` has the columns and the seed.
    """
    lines = _lines(setting)
    if not lines or setting.schema is None:
        return draft
    answers = {line: door.measure(line, ItemsQuery(block)) for line, block in lines.items()}
    chances, words = {}, {}
    for line, block in lines.items():
        shares = item_shares(answers[line].values["items"], rows, block.most)
        chances[block.column] = fitted_chances(shares, block.most)
        words[block.column] = list[str | None]()
    return replace(
        draft,
        batches=_filled(setting, draft.batches, chances, words),
        arrays=draft.arrays | measured_arrays(answers),
        measured=draft.measured | measured_names(answers),
        words=words,
    )


def _filled(
    setting: Setting, batches: Iterator[Reals], chances: Mapping[str, Reals], words: Mapping[str, list[str | None]]
) -> Iterator[Reals]:
    """The batches with the place of every drawn set among `words`, which grow by those that are new."""
    assert setting.schema is not None
    columns = [setting.schema.column(name) for name in chances]
    at = [next(i for i, block in enumerate(setting.space.blocks) if block.column == name) for name in chances]
    generator = drawing(setting.seed, "sets")
    known: dict[str, dict[str | None, int]] = {name: {} for name in chances}
    for batch in batches:
        for column, place in zip(columns, at, strict=True):
            cells = cast(ItemSet, column.cells)
            held = drawn_sets(chances[column.name], cells.most, len(batch), generator)
            batch[:, place] = _places(cells.write_sets(held), known[column.name], words[column.name])
        yield batch


def _places(texts: pl.Series, known: dict[str | None, int], words: list[str | None]) -> Reals:
    for text in texts.unique(maintain_order=True).to_list():
        if text not in known:
            known[text] = len(words)
            words.append(text)
    return np.array([known[text] for text in texts.to_list()], dtype=np.float64)
