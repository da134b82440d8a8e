"""All that is in a release, as numbers: what a classifier learns from that knows nothing of the mechanism."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adumbra.releases.record import ReleaseRecord

__all__ = ["content"]

_MOST_OF_AN_ARRAY = 400
_FIRST_ROWS = 5
_OF_CHANCE = {"release_id", "created", "files", "seed"}
"""What is new on every card: a name, a date, hashes of the files."""


def content(folder: ReleaseRecord) -> NDArray[np.float64]:
    """All that is in a release, as numbers: the card's, the arrays', the table's size, columns and first rows."""
    found = [*_card_numbers(folder.card.model_dump(exclude=_OF_CHANCE))]
    for _, array in sorted(folder.arrays().items()):
        found += [float(array.size), *np.asarray(array, dtype=np.float64).ravel()[:_MOST_OF_AN_ARRAY]]
    table = folder.table()
    found.append(float(len(table)))
    for column in table.columns:
        values = table[column]
        found += [float(zlib.crc32(str(values.dtype).encode()) % 1009), float(values.null_count())]
        if not values.dtype.is_numeric():
            values = values.cast(str).fill_null("").hash(seed=0) % 1009  # a number for each text, the same every time
        numbers = values.cast(float).fill_null(-1.0).to_numpy()
        first = np.zeros(_FIRST_ROWS)
        first[: len(numbers)] = numbers[:_FIRST_ROWS]
        spread = [numbers.mean(), numbers.std(), numbers.min(), numbers.max()] if len(numbers) else [0.0] * 4
        found += [*spread, *first]
    return np.nan_to_num(np.array(found, dtype=np.float64))


def _card_numbers(value: Any) -> Iterator[float]:
    """Every number and text on the card, in order."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _card_numbers(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _card_numbers(item)
    elif isinstance(value, str):
        yield float(zlib.crc32(value.encode()) % 1009)  # a number for each text, the same every time
    elif isinstance(value, int | float) and math.isfinite(value):
        yield float(value)
