"""Tables of single columns, measured once or twice: the second time in cells where the first found the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from adumbra.common.types import Reals
from adumbra.declare.space import Block
from adumbra.families.contract import Measurer, SumAnswer
from adumbra.models.column_cells import first_cells, mass_cells
from adumbra.models.denoising import denoised, joined, missing_shares, predicted_table_error
from adumbra.models.marginals import Marginal, marginals_of
from adumbra.models.sharpening import sharpened
from adumbra.queries.cells import Cells
from adumbra.queries.sums import TablesQuery

__all__ = ["ColumnRounds", "MeasuredColumns", "fine_parts"]

_MOST_PARTS = 256


def fine_parts(room: float) -> int:
    """Cells of a number in the second measurement, about; `room` is rows over the noise of a cell in the first."""
    return 8 if room < 100 else int(min(max(room / 6, 16), _MOST_PARTS))


@dataclass(frozen=True, eq=False)
class MeasuredColumns:
    """What one measurement of the columns (or two) tells: marginals, cells of the first, the noise of both together."""

    marginals: list[Marginal]
    cells: Cells
    sd: float
    error: float
    """Total variation of a column, mean, as predicted."""
    fine: Cells
    """Cells of the second, or of the first where there is no other."""
    second: SumAnswer | None = None


@dataclass(frozen=True, eq=False)
class ColumnRounds:
    """How columns (`blocks`) are measured: on which line first, and on which again; None for once only.

    `room` is the number of rows over the noise of a cell in the first measurement, `parts` how many cells a number has
    in the second, about. `again` makes its query, and `total` reads the table of all rows and its noise from the
    answer.
    """

    blocks: tuple[Block, ...]
    first: str
    second: str | None
    room: float
    parts: int
    again: Callable[[Cells], TablesQuery] = TablesQuery
    total: Callable[[SumAnswer], tuple[Reals, float]] = lambda noisy: (noisy.values["pooled"], noisy.sd("pooled"))

    def measured(
        self, door: Measurer, rows: float, answers: dict[str, SumAnswer], generator: np.random.Generator
    ) -> MeasuredColumns:
        """Measure through the `door`, in a table of so many `rows`; what was answered is added to `answers`.

        `generator` draws what the predicted error needs.
        """
        cells = first_cells(self.blocks, self.room)
        answers[self.first] = noisy = door.measure(self.first, TablesQuery(cells))
        counts, sd = noisy.values["pooled"], noisy.sd("pooled")
        found = denoised(counts, sd, rows, cells)
        error = predicted_table_error(found, sd, rows, cells, generator)
        marginals = marginals_of(self.blocks, found, cells)
        if self.second is None:
            return MeasuredColumns(marginals, cells, sd, error, cells)
        fine = mass_cells(cells, _quantiles(marginals), self.parts)
        answers[self.second] = again = door.measure(self.second, self.again(fine))
        pooled, pooled_sd = self.total(again)
        measured = [(counts, sd, cells), (pooled, pooled_sd, fine)]
        both_counts, sds = joined(*measured)
        found = denoised(both_counts, sds, rows, cells, missing_shares(measured, rows))
        marginals = sharpened(marginals_of(self.blocks, found, cells), sd, pooled, pooled_sd, rows, fine)
        both = (sd**-2 + pooled_sd**-2) ** -0.5
        return MeasuredColumns(marginals, cells, both, error * both / sd, fine, again)


def _quantiles(marginals: Sequence[Marginal]) -> list[Callable[[Reals], Reals]]:
    return [marginal.quantile for marginal in marginals]
