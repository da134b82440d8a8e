"""Text cells seen as a whole: the shape they share, how long they are, and the items they list."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import polars as pl

from adumbra.tables.drafting.words import stop_words

__all__ = ["ItemLook", "ShapeLook"]

_SEPARATORS = (";", "|", ",", " ")
_MOST_ITEMS = 50_000
_MOST_LENGTHS = 1000


@dataclass(repr=False, eq=False)
class ShapeLook:
    """The shape of all cells: '#' for a digit, '@' for a letter A-Z, all else as it is; and their lengths."""

    shape: str | None = None
    one: bool = True
    letters: dict[int, str | None] = field(default_factory=dict)
    """Where a letter A-Z stands: which one, if it is the same in all cells."""
    cells: int = 0
    characters: int = 0
    spaced: int = 0

    def add(self, cells: pl.Series, times: pl.Series) -> None:
        """Take in the different texts of one batch and how often each came."""
        lengths = cells.str.len_chars()
        self.cells += int(times.sum())
        self.characters += int((lengths * times).sum())
        self.spaced += int(times.filter(cells.str.contains(r"\S\s+\S")).sum())
        if not self.one:
            return
        for part in (cells.head(64), cells):  # a few cells settle most columns
            shapes = part.str.replace_all("[0-9]", "#").str.replace_all("[A-Z]", "@").unique()
            odd = part.str.contains("[#@]").any()
            known = shapes[0] if self.shape is None else self.shape
            self.one = not odd and len(shapes) == 1 and shapes[0] == known and len(known) <= 60
            self.shape = known if self.one else None
            if not self.one:
                return
        for place in (place for place, sign in enumerate(self.shape or "") if sign == "@"):
            here = cells.str.slice(place, 1).unique()
            same = len(here) == 1 and self.letters.get(place, here[0]) == here[0]
            self.letters[place] = here[0] if same else None

    @property
    def pattern(self) -> str | None:
        """The shape, if all cells have one that leaves something to be drawn; a letter that never changes stays."""
        if not self.one or not self.shape:
            return None
        kept = "".join(self.letters.get(place) or sign for place, sign in enumerate(self.shape))
        return kept if "#" in kept or "@" in kept else None

    def room(self) -> int:
        """How many different ids the pattern can write."""
        shape = self.pattern or ""
        return int(10 ** shape.count("#") * 26 ** shape.count("@"))

    @property
    def prose(self) -> bool:
        """Whether the cells read as sentences rather than as names of things."""
        return self.cells > 0 and self.characters > 30 * self.cells and self.spaced > 0.5 * self.cells


@dataclass(repr=False, eq=False)
class ItemLook:
    """Items of cells that list several by one separator."""

    separator: str | None = None
    open: bool = True
    items: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    """How many cells list so many items."""
    twice: int = 0
    """Cells that list an item twice."""

    def add(self, cells: pl.Series, times: pl.Series) -> None:
        """Take in the different texts of one batch and how often each came."""
        if not self.open:
            return
        if self.separator is None:
            self._choose(cells)
        if self.separator is None:
            return
        parts = cells.str.split(self.separator)
        listed = pl.DataFrame({"cell": parts, "times": times.cast(pl.Int64)}).with_row_index("place")
        items = listed.explode("cell").with_columns(pl.col("cell").str.strip_chars()).filter(pl.col("cell") != "")
        once = items.group_by("place", "times").agg(pl.len(), own=pl.col("cell").n_unique())
        for length, number in once.group_by("len").agg(pl.col("times").sum()).iter_rows():
            self.lengths[min(length, _MOST_LENGTHS)] += number
        self.twice += int(once.filter(pl.col("own") < pl.col("len"))["times"].sum())
        counts = items.group_by("cell").agg(pl.col("times").sum())
        if len(counts) > _MOST_ITEMS:
            self.open = False
            return
        for item, number in counts.iter_rows():
            self.items[item] += number
        if len(self.items) > _MOST_ITEMS or self.twice > 0.02 * self.cells + 5:
            self.open = False
            self.items.clear()

    def _choose(self, cells: pl.Series) -> None:
        for mark in _SEPARATORS:
            if int(cells.str.contains(mark, literal=True).sum()) > 0.2 * len(cells):
                self.separator = mark
                return
        self.open = len(cells) < 20

    @property
    def cells(self) -> int:
        """Cells that list something."""
        return self.lengths.total()

    def listed(self, different: int) -> bool:
        """Whether the items are a better account of the column than its `different` whole cells."""
        if not self.open or self.separator is None or len(self.items) < 3:
            return False
        blunt = self.separator == " "
        several = self.cells - self.lengths[1]
        if several < 0.2 * self.cells or len(self.lengths) < (3 if blunt else 2):
            return False
        if different < (50 if blunt else 5) or 1.5 * len(self.items) > different:
            return False
        if blunt and (stop_words(set(self.items)) or self.lengths[1] + several < 100):
            return False
        repeats, whole = self.items.total() / len(self.items), self.cells / different
        return repeats >= 5 and repeats >= 3 * whole

    def most(self) -> int:
        """How many items nine cells in ten have at most, rounded up so that it is nobody's number."""
        below, wanted = 0, 0.9 * self.cells
        for length in sorted(self.lengths):
            below += self.lengths[length]
            if below >= wanted:
                break
        steps = (2, 3, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000)
        return next(step for step in steps if step >= min(length, len(self.items), 1000))
