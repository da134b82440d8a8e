"""Private rows: the owner's side of the wall.

A `PrivateRows` holds a promise (its `space`) and the row source behind it, which can be read again and again,
partition by partition. It shows nothing: no repr of values, no array protocol, no iteration, no pickling. One accessor
exists, `_for_the_meter`, and an architecture test fails when any module but `privacy.meter` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from adumbra.declare.space import Space

__all__ = ["PrivateRows"]

Partitions = Callable[[], Iterator[NDArray[np.float64]]]
"""Reads the rows from the start: `RowSource.partitions`."""


class PrivateRows:
    """Encoded, bounded rows that only the meter can read."""

    __slots__ = ("__open", "count", "space")

    def __init__(self, space: Space, count: int, partitions: Partitions) -> None:
        """Rows of this `space`, `count` of them; `partitions` reads them (`RowSource.partitions`)."""
        self.space = space
        self.count = count
        self.__open = partitions

    def _for_the_meter(self) -> Iterator[NDArray[np.float64]]:
        """Read the rows from the start. Called by `privacy.meter` and by nothing else."""
        return self.__open()

    def _withheld(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("private rows leave through Meter.measure and through nothing else")

    __array__ = __iter__ = __getitem__ = __getstate__ = __reduce_ex__ = _withheld

    def __repr__(self) -> str:
        # how many rows there are is private under add-remove
        return f"PrivateRows({self.space.width} coordinates, rows withheld)"
