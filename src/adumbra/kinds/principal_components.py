"""What an analyst asks of released principal axes: which components, how sure, and where other rows lie along them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID

if TYPE_CHECKING:
    from adumbra.kinds.components import ComponentsFacts
    from adumbra.kinds.kind import Content

__all__ = ["PrincipalComponents"]


class PrincipalComponents:
    """The axes of a release by lip, lop, analyze_gauss or power_method."""

    def __init__(self, content: Content, facts: ComponentsFacts) -> None:
        arrays = content.arrays()
        self._schema = Schema.from_dict(content.card.table_schema)
        self._facts = facts
        self.axes: Reals = np.asarray(arrays["axes"], dtype=np.float64)
        centre = arrays["mean"] if facts.centre == "measured" else np.zeros(self.axes.shape[-1])
        self.mean: Reals = np.asarray(centre, dtype=np.float64)
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
        rows = self._facts.listed() or [{"component": i + 1} for i in range(len(self.axes))]
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
