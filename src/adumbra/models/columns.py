"""The columns of a table to be drawn: which are features, which are the label, and how a drawn row is written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least, names_once
from adumbra.declare.column import nearest, some_of
from adumbra.declare.space import Block, Space
from adumbra.models.shrinkage import clear_counts
from adumbra.queries.cells import Cells, Groups, cell_count

__all__ = [
    "MOST_CLASSES",
    "MOST_COORDINATES",
    "MOST_ROWS",
    "Columns",
    "check_width",
    "classes_to_draw",
    "drawing",
    "in_batches",
    "parse_label",
    "rows_to_draw",
]


MOST_CLASSES = 64
"""A label with more values than this is treated like any other column."""
MOST_COORDINATES = 16_000
MOST_ROWS = 10**8
_MOST_UNASKED_ROWS = 10**7  # a noisy number of rows may be absurd
_BATCH = 2**23  # numbers drawn at a time


@dataclass(frozen=True, eq=False)
class Columns:
    """Features and classes.

    A label that is a category, a flag or a small whole number makes classes; several labels make a class of each
    combination. A number as a label (a target to regress on) stays among the features, where its relation to all
    others is kept like theirs.
    """

    space: Space
    features: tuple[Block, ...]
    groups: Groups | None

    @staticmethod
    def split(space: Space, label: tuple[str, ...], declared: tuple[str, ...]) -> Columns:
        """The columns of `space`, split by the names in `label`, or where that is empty by those in `declared`.

        `label` is what the user named, and an unknown name is refused; `declared` is what the schema calls a label,
        which is left among the features where it would make too many classes.
        """
        known = {block.column: block for block in space.blocks}
        for name in label:
            if name not in known:
                hint = nearest(name, tuple(known))
                remedy = f"did you mean {hint!r}? " if hint else ""
                raise InputError(
                    "a label among the released columns", repr(name), f"{remedy}use one of: {some_of(known)}"
                )
            if known[name].kind == "set":
                raise InputError("a label with one value in a cell", f"{name!r}, a set", "name another column")
        chosen = [known[name] for name in dict.fromkeys(label or declared) if name in known]
        makes_classes = [block for block in chosen if _classes(block) is not None]
        counts = [_classes(block) or 1 for block in makes_classes]
        if math.prod(counts) > MOST_CLASSES:
            if label:
                raise InputError(
                    f"labels with at most {MOST_CLASSES} combinations of values",
                    f"{math.prod(counts)} combinations",
                    "name fewer labels with --label; the others are released like any column",
                )
            makes_classes = []
        single = tuple(block for block in space.blocks if block.kind != "set")  # sets are drawn beside all others
        if not single:
            remedy = "declare another column, or count the values of a set with --mechanism items"
            raise InputError("a column with one value in a cell", "sets alone", remedy)
        features = tuple(block for block in single if block not in makes_classes)
        if not features:  # nothing else to release: the label is then a column like any other
            features, makes_classes = single, []
        if not makes_classes:
            return Columns(space, features, None)
        counts = [_classes(block) or 1 for block in makes_classes]
        missing = tuple(block.keeps for block in makes_classes)
        if math.prod(count + kept for count, kept in zip(counts, missing, strict=True)) > 2 * MOST_CLASSES:
            missing = ()  # rows without a label then belong to no class, and none are drawn
        return Columns(space, features, Groups(Cells(tuple(makes_classes), tuple(counts), missing=missing)))

    @property
    def classes(self) -> int:
        """Number of classes, those of rows without a label among them; 1 without a label."""
        return 1 if self.groups is None else self.groups.count

    @property
    def declared(self) -> int:
        """Number of classes of rows that have every label."""
        return 1 if self.groups is None else math.prod(self.groups.cells.counts)

    def likely(self, counts: Reals, sd: float) -> Integers:
        """Which classes there are: those that are declared, and of rows without a label those clear of the noise.

        `counts` are the noisy sizes of the classes, `sd` the standard deviation of their noise.
        """
        if self.groups is None:
            return np.zeros(1, dtype=np.int64)
        labels = self.groups.values_of(np.arange(self.classes))
        whole = (labels < np.array(self.groups.cells.counts)).all(axis=1)
        return np.flatnonzero(whole | (clear_counts(counts, sd, self.classes - self.declared) > 0))

    @property
    def label(self) -> list[str]:
        """Names of the columns that make the classes."""
        return [] if self.groups is None else [block.column for block in self.groups.cells.blocks]

    def written(self, features: dict[str, Reals], group: Integers) -> Reals:
        """Rows as a draft wants them: grid steps of numbers and flags, positions of categories, in schema order.

        Of an empty cell nan, also of a label; of a set 0, until it is drawn.
        """
        out = np.zeros((len(self.space.blocks), len(group)))
        labels = None if self.groups is None else self.groups.values_of(group)
        for index, block in enumerate(self.space.blocks):
            if block.column in features:
                out[index] = features[block.column]
            elif labels is not None and self.groups is not None and block in self.groups.cells.blocks:
                place = self.groups.cells.blocks.index(block)
                cell = labels[:, place].astype(np.float64)
                cell[labels[:, place] == self.groups.cells.counts[place]] = np.nan
                positions = self.groups.cells.level_positions(place)
                if positions is not None:
                    there = ~np.isnan(cell)
                    cell[there] = positions[cell[there].astype(np.int64)]
                out[index] = cell
        return out.T


def _classes(block: Block) -> int | None:
    """How many classes a label makes; None if it makes none."""
    if block.kind == "set":
        return None
    if block.kind == "number":
        return block.levels if block.levels is not None and block.levels <= MOST_CLASSES else None
    return cell_count(block, 1) if cell_count(block, 1) <= MOST_CLASSES else None


def parse_label(label: str | Sequence[str] | None, option: str = "--label") -> tuple[str, ...]:
    """A name, several, or none, each once; the command line writes several with commas."""
    if label is None:
        return ()
    if not isinstance(label, str | Sequence):
        raise InputError(f"{option}: names of columns as text", f"a {type(label).__name__}", "name the columns")
    return names_once((label,) if isinstance(label, str) else label, option)


def rows_to_draw(asked: int | None, rows: float) -> int:
    """As many as `asked`; where that is None as many as the table has.

    `rows` is the number of rows of the table, perhaps a noisy one.

    >>> rows_to_draw(None, 569), rows_to_draw(None, 48842.3), rows_to_draw(100_000, 569)
    (569, 48842, 100000)
    """
    if asked is None:
        return max(1, round(min(rows, _MOST_UNASKED_ROWS)))
    at_least(1, "ask for at least one row", rows=asked)
    if asked > MOST_ROWS:
        raise InputError(f"at most {MOST_ROWS} rows", f"{asked}", "ask for fewer --rows")
    return asked


def classes_to_draw(sizes: Integers, generator: np.random.Generator) -> NDArray[np.uint8]:
    """The class of every row, in random order; a byte each, since there may be many rows."""
    groups = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
    generator.shuffle(groups)
    return groups


def check_width(width: int) -> None:
    """Refuse more coordinates than a second moment can be held for, before anything is built."""
    if width > MOST_COORDINATES:
        raise InputError(
            f"at most {MOST_COORDINATES} encoded coordinates (a value of a category is one) for a second moment",
            f"{width}",
            "drop columns or values, or use --mechanism tables",
        )


def drawing(seed: PublicSeed, purpose: str) -> np.random.Generator:
    """Draws from a model that may be published: repeatable from the public seed, so that anyone can redraw them.

    This has no part in any privacy claim. Noise on private numbers comes from the meter and from nowhere else.
    """
    key = hashlib.sha256(seed.value + b"/draw/" + purpose.encode()).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key[:16], dtype=np.uint64)))


def in_batches(rows: int, width: int) -> Iterator[int]:
    """Sizes of the batches in which so many rows of so many numbers are drawn."""
    size = max(1, _BATCH // max(width, 1))
    while rows > 0:
        yield min(size, rows)
        rows -= size
