"""Disjoint parts of public records, the same for the same seed, with every class in every part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adumbra.common.types import Integers

__all__ = ["folds", "parts", "public_generator"]


def public_generator(seed: bytes, purpose: str) -> np.random.Generator:
    """A generator for public choices; another purpose gives another stream."""
    digest = hashlib.sha256(seed + b"\0" + purpose.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def folds(seed: bytes, strata: NDArray[np.integer], count: int) -> Integers:
    """The number of a fold for every record, 0 .. `count` - 1; inside a stratum, folds differ by one record at most.

    `strata` has the class of each record; the same public `seed` gives the same folds. Standard stratified folds.

    >>> sorted(folds(b"s", np.zeros(5, dtype=int), 2).tolist())
    [0, 0, 0, 1, 1]
    """
    generator = public_generator(seed, f"{count} folds")
    out = np.empty(len(strata), dtype=np.int64)
    start = 0  # the next stratum goes on where the last one stopped, so that small strata do not pile up in fold 0
    for stratum in np.unique(strata):
        places = generator.permutation(np.flatnonzero(strata == stratum))
        out[places] = (start + np.arange(len(places))) % count
        start += len(places)
    return out


def parts(seed: bytes, strata: NDArray[np.integer], shares: Sequence[float]) -> list[Integers]:
    """Positions of the records of each part; inside a stratum the parts have their `shares` to within one record.

    `strata` has the class of each record; `shares` are in any unit; the same public `seed` gives the same parts.

    >>> [len(part) for part in parts(b"s", np.zeros(10, dtype=int), (0.4, 0.2, 0.4))]
    [4, 2, 4]
    """
    generator = public_generator(seed, f"parts {tuple(shares)}")
    ends = np.cumsum(shares) / np.sum(shares)
    found: list[list[Integers]] = [[] for _ in shares]
    for stratum in np.unique(strata):
        places = generator.permutation(np.flatnonzero(strata == stratum))
        pieces = np.split(places, np.rint(ends[:-1] * len(places)).astype(np.int64))
        for part, piece in zip(found, pieces, strict=True):
            part.append(piece)
    return [np.sort(np.concatenate(part)) if part else np.empty(0, dtype=np.int64) for part in found]
