"""How many different values a column holds, and whether any comes twice, in bounded memory.

Values are hashed; those whose hash is below a threshold are counted exactly. The threshold halves whenever more
are kept than there is room for. As long as it never did, what is known is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["Distinct"]

_ALL = 2**64 - 1


class Distinct:
    """Hashes of values, each with how often it came; at most `room` of them are kept."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._halved = 0
        self._hashes: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._times: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._held = 0

    def add(self, values: pl.Series, times: pl.Series) -> None:
        """Take in the different values of one batch, `times` saying how often each came."""
        found, counts = self._below(values.hash().to_numpy(), times.cast(pl.Int64).to_numpy())
        self._waiting.append((found, counts))
        self._held += len(found)
        if self._held > self._room:
            self._merge()

    def _below(self, hashes: NDArray[Any], times: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        keep = hashes <= np.uint64(_ALL >> self._halved)
        return hashes[keep].astype(np.uint64), times[keep].astype(np.int64)

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *(found for found, _ in self._waiting)])
        times = np.concatenate([self._times, *(counts for _, counts in self._waiting)])
        self._waiting, self._held = [], 0
        self._hashes, place = np.unique(hashes, return_inverse=True)
        self._times = np.bincount(place, weights=times, minlength=len(self._hashes)).astype(np.int64)
        while len(self._hashes) > self._room:
            self._halved += 1
            self._hashes, self._times = self._below(self._hashes, self._times)

    @property
    def exact(self) -> bool:
        """Whether every value was counted."""
        self._merge()
        return self._halved == 0

    @property
    def number(self) -> int:
        """How many different values there are; an estimate unless `exact`."""
        self._merge()
        return len(self._hashes) << self._halved

    @property
    def repeat(self) -> bool:
        """Whether some value is known to have come twice."""
        self._merge()
        return bool((self._times > 1).any())
