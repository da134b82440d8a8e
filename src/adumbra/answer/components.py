"""What an analyst asks of released principal axes: which components, how sure, and where other rows lie along them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.core.errors import InputError
from adumbra.core.release import ReleaseFolder
from adumbra.core.schema import Schema
from adumbra.core.space import GRID
from adumbra.core.validation import at_least

__all__ = ["PrincipalComponents"]

Reals = NDArray[np.float64]


class PrincipalComponents:
    """The axes of a release by lip, lop, analyze_gauss or power_method."""

    def __init__(self, folder: ReleaseFolder) -> None:
        arrays = folder.arrays()
        if "axes" not in arrays:
            raise InputError(
                "a release with principal axes (lip, lop, analyze_gauss, power_method)",
                f"one of {folder.card.mechanism}",
                f"ask it for {', '.join(folder.card.answers)}"
                if folder.card.answers
                else "it holds a table of the schema's own columns: read its data.parquet with any tool",
            )
        self._schema = Schema.from_dict(folder.card.table_schema)
        self._rows: list[dict[str, Any]] = folder.card.tables.get("Components", [])
        self.axes: Reals = np.asarray(arrays["axes"], dtype=np.float64)
        self.mean: Reals = np.asarray(arrays.get("mean", np.zeros(self.axes.shape[1])), dtype=np.float64)
        self._names = self._schema.coordinates
        if self.axes.ndim != 2 or self.axes.shape[1] != len(self._names) or self.mean.shape != (len(self._names),):
            raise InputError(
                f"axes of {len(self._names)} numbers, one for each encoded coordinate",
                f"shape {self.axes.shape}",
                "run adumbra verify; get the folder again from its owner",
            )

    def components(self, top: int = 3) -> pl.DataFrame:
        """One row for each component: its variance with error bars, and its `top` largest loadings."""
        at_least(0, "ask for 0 or more loadings", top=top)
        rows = self._rows or [{"component": i + 1} for i in range(len(self.axes))]
        out = []
        for row, axis in zip(rows, self.axes, strict=True):
            leading = np.argsort(-np.abs(axis))[:top]
            loadings = ", ".join(f"{self._names[i]} {axis[i]:+.2f}" for i in leading)
            out.append({**row, **({"largest loadings": loadings} if top else {})})
        return pl.DataFrame(out)

    def loadings(self) -> pl.DataFrame:
        """Coordinates down, components across."""
        columns = {f"pc{i + 1}": axis for i, axis in enumerate(self.axes)}
        return pl.DataFrame({"coordinate": self._names, **columns})

    @property
    def schema(self) -> Schema:
        """Of the table whose axes they are."""
        return self._schema

    def along(self, encoded: Reals) -> Reals:
        """Encoded rows (in grid steps) along the axes, about the mean where one was measured."""
        return np.asarray((encoded / GRID - self.mean) @ self.axes.T)
