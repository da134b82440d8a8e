"""Sets of declared values in one cell: which of them a cell holds, at most so many.

A row of a table of baskets is one cell that names several items. What counts of it is decided by that cell and public
facts alone: declared items, each once, and of more than `most` the first ones in the order in which they are declared.
So one row holds at most `most` items whatever is written in it, which is what every bound on such a column rests on
(docs/proofs/sums.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from adumbra.common.types import Reals
from adumbra.declare.spelling import Value, places, texts

__all__ = ["cut", "mentioned", "set_places"]


def set_places(cells: pl.Series, values: Sequence[Value], separator: str, most: int) -> Reals:
    """Which of the declared `values` every cell holds: a row of 0 and 1 for each.

    A cell is text, its items parted by `separator`, or a list. Spaces around items do not count; what is not declared
    is left out, and so is a second mention. Of more than `most` items the first in declared order stay.

    >>> set_places(pl.Series(["b a", "c, b", None, "a a x"]), ("a", "b", "c"), " ", 2).tolist()
    [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> set_places(pl.Series([["c", "b", "a"], []]), ("a", "b", "c"), " ", 2).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return cut(mentioned(cells, values, separator), most)


def mentioned(cells: pl.Series, values: Sequence[Value], separator: str) -> Reals:
    """The same before it is cut: all declared `values` that each of the `cells` names, parted by the `separator`."""
    held = np.zeros((len(cells), len(values)))
    kind = cells.dtype
    if isinstance(kind, pl.List | pl.Array):
        items = cells.cast(pl.List(kind.inner))
    else:
        items = texts(cells).str.split(separator.strip() or separator)
    frame = pl.DataFrame({"row": np.arange(len(cells)), "item": items}).explode("item").drop_nulls()
    if frame.height:
        code = places(frame.get_column("item"), values)
        known = code >= 0
        held[frame.get_column("row").to_numpy()[known], code[known]] = 1.0
    return held


def cut(held: Reals, most: int) -> Reals:
    """Of each row of 0 and 1 the first `most` ones."""
    return np.where(np.cumsum(held, axis=1) <= most, held, 0.0)
