"""Private records as a model reads them, batch by batch; and what their owner should hear of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import polars as pl

from adumbra.common.errors import InputError
from adumbra.jupa.model import KNOWN, JupaModel
from adumbra.tables.table import Table

__all__ = ["batches_of"]


def batches_of(
    opened: Table, model: JupaModel, tell: Callable[[str], None], rows: int = 16384
) -> Iterator[pl.DataFrame]:
    """The columns of the private table `opened` that `model` reads, at most `rows` records at a time.

    When all are read, `tell` gets what the owner should know of them.
    """
    wanted = model.features.columns + (list(model.recipe.privacy) if model.needs_privacy_label else [])
    absent = [name for name in wanted if name not in opened.columns]
    if absent:
        raise InputError(
            "every column that the model reads in the table",
            f"no {absent[0]!r}",
            "give a table with the columns of the public one"
            + ("; this release needs the privacy column too" if absent[0] in model.recipe.privacy else ""),
        )
    seen = _Seen(model)
    for frame in opened.batches(wanted, rows):
        seen.add(frame)
        yield frame
    for line in seen.lines():
        tell(line)


@dataclass
class _Seen:
    """Counts of what was not understood."""

    model: JupaModel
    unread: dict[str, tuple[int, int]] = field(default_factory=dict)
    known: float = 0.0
    count: int = 0
    unclassed: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        model = self.model
        for name, (empty, unknown) in model.features.unread(frame).items():
            before = self.unread.get(name, (0, 0))
            self.unread[name] = before[0] + empty, before[1] + unknown
        self.unclassed += int((model.privacy.of(frame) < 0).sum()) if model.needs_privacy_label else 0
        self.known += model.known_share(frame) * frame.height
        self.count += frame.height

    def lines(self) -> Iterator[str]:
        for name, (empty, unknown) in self.unread.items():
            if empty or unknown:
                yield f"  {name}: {empty} empty, {unknown} that the public table does not know"
            if unknown and empty + unknown == self.count and self.model.features.is_number(name):
                # reported, not refused: the release of a table that differs in one record would not be refused
                yield (
                    f"  {name}: no number in the whole table: is this the right column, written as in the public table?"
                )
        if self.unclassed:
            named = ", ".join(self.model.privacy.columns)
            yield f"  {named}: {self.unclassed} without a class of the public table, which got one at random"
        if self.known > KNOWN * self.count:
            yield (
                f"  {100 * self.known / self.count:.0f} % of the records read like public ones that the model was "
                "fitted on: is this the right table?"
            )
