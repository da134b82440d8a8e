"""What one pass over a column's numbers has seen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from adumbra.common.types import Reals
from adumbra.tables.drafting.words import BLANK_NUMBERS

__all__ = ["MOST_DECIMALS", "NumberLook"]

MOST_DECIMALS = 6
_STANDS_FOR_NOTHING = np.array(BLANK_NUMBERS)


@dataclass(repr=False, eq=False)
class NumberLook:
    """Range, digits and order of the numbers; those that may stand for nothing are counted apart."""

    cells: int = 0
    low: float = math.inf
    high: float = -math.inf
    apart: Counter[float] = field(default_factory=Counter)
    """How often each number came that people write where there is none; `low` and `high` leave them out."""
    decimals: int = 0
    """Digits after the point that all of them have at most; more than `MOST_DECIMALS` where they have more."""
    clock: bool = True
    """Whether all are hhmm, such as 517 and 1740."""
    counts_up: bool = True
    last: float = math.nan

    def add(self, found: Reals, *, short: bool = False) -> None:
        """Take in the numbers of one batch, all finite; `short` says that they have 32 bits."""
        if not len(found):
            return
        self.cells += len(found)
        odd = np.isin(found, _STANDS_FOR_NOTHING)
        for number, times in zip(*np.unique(found[odd], return_counts=True), strict=True):
            self.apart[float(number)] += int(times)
        plain = found[~odd] if odd.any() else found
        if len(plain):
            self.low, self.high = min(self.low, float(plain.min())), max(self.high, float(plain.max()))
        self._add_digits(found, short)
        if self.clock:
            self.clock = self.whole and bool(((found >= 0) & (found <= 2400) & (found % 100 < 60)).all())
        if self.counts_up:
            follows = math.isnan(self.last) or found[0] == self.last + 1
            self.counts_up = bool(follows and (found[1:] == found[:-1] + 1).all())
            self.last = float(found[-1])

    def _add_digits(self, found: Reals, short: bool) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for part in (found[:64], found):  # a few cells settle most columns
                exact = part.astype(np.float32) if short else part
                while self.decimals <= MOST_DECIMALS:
                    near = np.round(part, self.decimals)
                    if ((near.astype(np.float32) if short else near) == exact).all():
                        break
                    self.decimals += 1

    @property
    def whole(self) -> bool:
        """Whether all are whole numbers."""
        return self.decimals == 0

    def standing_apart(self, different: int) -> list[float]:
        """Numbers that may mean "nothing here": written so by habit, and clear of all others, `different` in number."""
        if not self.low <= self.high or different < 3:
            return []
        chosen = []
        for number, times in sorted(self.apart.items()):
            if number < 0:
                clear = self.low >= 0 and times > 1
                clear = clear and (number < -2 or (times >= 0.01 * self.cells and different > 10))
            else:
                clear = self.high < number / 2 and times > 1 and self.low >= -number / 2
            if clear and times < 0.98 * self.cells:
                chosen.append(number)
        return chosen

    def range(self, without: list[float]) -> tuple[float, float]:
        """The least and the greatest number but for those left out."""
        others = [number for number in self.apart if number not in without]
        return min([self.low, *others]), max([self.high, *others])
