"""Types that every room uses, defined once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Integers", "Progress", "Reals", "silent"]

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


def silent(what: str, done: int, total: int) -> None:
    """A `Progress` that says nothing of `what` is `done` out of `total`."""
