"""Private rows: the owner's side of the wall.

A `PrivateRows` holds a promise (its `space`) and a way to read the rows again, batch by batch. It shows nothing:
no repr of values, no array protocol, no iteration, no pickling. One accessor exists, `_for_the_meter`, and an
architecture test fails when any module but `privacy.meter` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from adumbra.core.space import Space

__all__ = ["PrivateRows"]

Batches = Callable[[], Iterator[NDArray[np.float64]]]


class PrivateRows:
    """Encoded, bounded rows that only the meter can read."""

    __slots__ = ("__open", "count", "space")

    def __init__(self, space: Space, count: int, open_batches: Batches) -> None:
        self.space = space
        self.count = count
        self.__open = open_batches

    def _for_the_meter(self) -> Iterator[NDArray[np.float64]]:
        """Read the rows from the start. Called by `privacy.meter` and by nothing else."""
        return self.__open()

    def _withheld(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("private rows leave through Meter.measure and through nothing else")

    __array__ = __iter__ = __getitem__ = __getstate__ = __reduce_ex__ = _withheld

    def __repr__(self) -> str:
        # how many rows there are is private under add-remove
        return f"PrivateRows({self.space.width} coordinates, rows withheld)"
