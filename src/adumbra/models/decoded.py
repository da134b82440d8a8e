"""What a decoder of noisy counts hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Decoded"]


@dataclass(frozen=True, eq=False)
class Decoded:
    """Estimated counts of all cells, and what the model should hold beside them."""

    counts: NDArray[np.float64]
    atoms_kept: int | None = None
    """Where the counts are put together of few atoms."""
    pursued: bool = False
    """Whether those were found one by one."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
