"""Numbers that run over several powers of ten."""

from __future__ import annotations

import numpy as np

from adumbra.tables.drafting.finding import ColumnFinding, question
from adumbra.tables.drafting.some_rows import SomeRows

__all__ = ["tail_question"]

_POWERS = 300.0
_SPREAD = 10.0


def tail_question(finding: ColumnFinding, cells: SomeRows) -> list[str]:
    """A question on the scale of a number without negative cells, from a sample of rows in `cells`."""
    if finding.kind != "number" or finding.low is None or finding.low < 0:
        return []
    if finding.look.different <= 100 or not finding.look.number.low >= 0:
        return []
    found = cells.numbers(finding.name)
    found = found[found > 0]
    if len(found) < 100:
        return []
    tenth, half, most = np.quantile(found, [0.1, 0.5, 0.9])
    if finding.look.number.high < _POWERS * half or most < _SPREAD * tenth:
        return []
    return [question('a few large numbers, most of them small: would scale = "log" suit it?')]
