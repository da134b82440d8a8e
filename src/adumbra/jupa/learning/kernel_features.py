"""Features whose inner products are nearly a kernel's.

Williams and Seeger (2001), "Using the Nystroem method to speed up kernel machines".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.jupa.learning.row_blocks import (
    as_table,
    damaged,
    map_rows,
    row_blocks,
    seeded_generator,
    stored_array,
    too_large,
)

__all__ = ["FEATURE_KERNELS", "KernelMap", "kernel_map"]


FEATURE_KERNELS = ("rbf", "laplacian", "polynomial")
_COPY = 1e-11  # a share of the landmarks' kernel that one which repeats others adds


@dataclass(frozen=True, eq=False)
class KernelMap:
    """Features whose inner products are nearly the kernel's: exact between landmarks, close near them.

    The landmarks are rows of the public table and are stored as they are.
    """

    kernel: str
    gamma: float
    landmarks: Reals
    weights: Reals

    def apply(self, rows: ArrayLike) -> Reals:
        """The features of the rows: at most one for each landmark."""
        return map_rows(rows, self.landmarks.shape[1], self.weights.shape[1], self._apply)

    def _apply(self, block: Reals) -> Reals:
        return _kernel(self.kernel, self.gamma, block, self.landmarks) @ self.weights

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `from_arrays` needs, for a file."""
        return {
            "kernel": np.array(self.kernel),
            "gamma": np.array(self.gamma),
            "landmarks": self.landmarks,
            "weights": self.weights,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> KernelMap:
        """The map that `arrays` was called on."""
        gamma, landmarks, weights = (stored_array(arrays, name) for name in ("gamma", "landmarks", "weights"))
        kernel = str(arrays.get("kernel", ""))
        if kernel not in FEATURE_KERNELS:
            raise damaged("no known kernel")
        if gamma.shape != () or landmarks.ndim != 2 or weights.ndim != 2 or len(landmarks) != len(weights):
            raise damaged("arrays whose shapes do not fit")
        if not gamma > 0:
            raise damaged("a gamma that is not positive")
        return cls(kernel, float(gamma), landmarks, weights)


def kernel_map(kernel: str, rows: ArrayLike, landmarks: int, gamma: float | None, seed: bytes) -> KernelMap:
    """Nystroem features of a `kernel` from `landmarks` public `rows`, chosen by `seed` (all if there are fewer).

    rbf is exp(-gamma |x - y|^2), laplacian exp(-gamma sum |x_j - y_j|), polynomial (1 + gamma x'y)^3. `gamma` is
    1 / (number of columns) unless given. Landmarks that add nothing (duplicates) add no feature.
    """
    if kernel not in FEATURE_KERNELS:
        raise InputError(
            f"a kernel out of {', '.join(FEATURE_KERNELS)}", repr(kernel), "choose one of these; linear needs no map"
        )
    table = as_table(rows)
    if landmarks < 1:
        raise InputError("at least one landmark", str(landmarks), "ask for some hundreds")
    if gamma is None:
        gamma = 1.0 / table.shape[1]
    if not (gamma > 0 and math.isfinite(gamma)):
        raise InputError("a gamma above 0", str(gamma), "leave it out for 1 / (number of columns)")
    order = seeded_generator(seed, b"landmarks").permutation(len(table))
    chosen = next(row_blocks(table[np.sort(order[:landmarks])], whole=True))
    values, vectors = scipy.linalg.eigh(_kernel(kernel, gamma, chosen, chosen))
    real = values > values[-1] * _COPY
    return KernelMap(kernel, float(gamma), chosen, vectors[:, real] / np.sqrt(values[real]))


@np.errstate(over="ignore", invalid="ignore")
def _kernel(kernel: str, gamma: float, rows: Reals, landmarks: Reals) -> Reals:
    if kernel == "laplacian":
        found = np.exp(-gamma * cdist(rows, landmarks, "cityblock"))
    elif kernel == "polynomial":
        found = (1.0 + gamma * (rows @ landmarks.T)) ** 3
    else:
        squared = (rows**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2.0 * (rows @ landmarks.T)
        found = np.exp(-gamma * np.maximum(squared, 0.0))
    if not np.isfinite(found).all():
        raise too_large()
    return np.asarray(found)
