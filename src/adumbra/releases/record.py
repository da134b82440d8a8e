"""A release wherever it is kept, and one that is kept in memory.

A `ReleaseRecord` has a card, rows, arrays and a way to check them. There are two: `ReleaseFolder`, which somebody
wrote to disk and anybody may have changed since, and `ReleaseInMemory`, which this process made and nobody else has.
Answers, evaluations and audits take either. All of it may be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.csv_forms import Csv
from adumbra.releases.card import Card
from adumbra.releases.folder import Verification
from adumbra.releases.signature import PublicKey, keys_of

__all__ = ["ReleaseInMemory", "ReleaseRecord"]


class ReleaseRecord(Protocol):
    """A release as everything that works on one sees it."""

    @property
    def card(self) -> Card:
        """The statement that travels with it."""

    def table(self) -> pl.DataFrame:
        """The released rows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays; the caller's own."""

    def data(self) -> Path | pl.DataFrame:
        """What the rows can be read from batch by batch: their file, or the frame that is in memory anyway."""

    def examine(self, public_key: PublicKey | None = None) -> Verification:
        """What is proved of it, and what is not; with a key, its holder must have signed."""

    def verify(self, public_key: PublicKey | None = None) -> list[str]:
        """Problems found; none means that it is as its card says."""

    def demand(self, public_key: PublicKey | None = None) -> None:
        """Raise `Refused` where there are problems."""


@dataclass(frozen=True, eq=False)
class ReleaseInMemory:
    """A release that was made in this process and not written yet.

    Its card lists no files, because there are none; they are hashed, and the card signed, when it is saved. What is
    saved is what was published: the text of the card as it then was, and arrays that cannot be written to. Whoever
    edits the dictionaries of `card` edits his own copy of the statement.
    """

    card: Card
    rows: pl.DataFrame = field(repr=False)
    public: Mapping[str, NDArray[Any]] = field(repr=False)
    """The public arrays."""
    pictures: Mapping[str, str] = field(repr=False)
    """SVG texts by file name."""
    csv: Csv = False
    """Whether and how a data.csv will be written beside the rows."""
    _stated: str = field(init=False, repr=False)
    """The card's text at publication."""

    def __post_init__(self) -> None:
        public = {name: np.array(array) for name, array in self.public.items()}
        for array in public.values():
            array.flags.writeable = False
        object.__setattr__(self, "public", MappingProxyType(public))
        object.__setattr__(self, "pictures", MappingProxyType(dict(self.pictures)))
        object.__setattr__(self, "_stated", self.card.model_dump_json())

    def as_published(self) -> Card:
        """The card as it was when the release was made, whatever became of `card` since."""
        return Card.model_validate_json(self._stated)

    def table(self) -> pl.DataFrame:
        """The released rows."""
        return self.rows.clone()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays; the caller's own."""
        return {name: np.array(array) for name, array in self.public.items()}

    def data(self) -> pl.DataFrame:
        """The released rows, which are in memory anyway."""
        return self.table()

    def examine(self, public_key: PublicKey | None = None) -> Verification:
        """Nobody could change it; but nobody signed it either."""
        problems = () if keys_of(public_key) is None else ("the release is not signed: it is not saved yet",)
        return Verification(0, "not checked: it is not written yet", False, None, problems)

    def verify(self, public_key: PublicKey | None = None) -> list[str]:
        """Problems found: none, unless somebody must have signed."""
        return list(self.examine(public_key).problems)

    def demand(self, public_key: PublicKey | None = None) -> None:
        """Refuse it where somebody must have signed."""
        found = self.examine(public_key)
        if found.problems:
            raise found.refusal()
