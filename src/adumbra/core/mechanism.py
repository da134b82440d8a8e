"""What a mechanism is: which query it asks, and what it makes of the noisy answer.

A mechanism is a frozen dataclass in one file of `mechanisms/`. Its class variables are the prose that the catalogue,
the help texts, the card and the docs are made of; its fields are public parameters. It never sees epsilon, delta,
a noise generator or a private row: `ask` gets the public space, `run` gets a door that hands out noisy numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from adumbra.core.events import Event
from adumbra.core.guarantee import Neighbours, Promise
from adumbra.core.query import RowMap
from adumbra.core.randomness import PublicSeed
from adumbra.core.space import Space

__all__ = ["Door", "Draft", "Mechanism", "Noisy", "Preview", "Reference", "Setting"]

Preview = Callable[[str, RowMap], float]
"""`preview(line, query)`: standard deviation that the meter would add, in encoded units. Public, free, no data."""


@dataclass(frozen=True)
class Reference:
    """A paper the mechanism rests on."""

    text: str
    bibtex: str


@dataclass(frozen=True)
class Setting:
    """Everything public that a mechanism may look at to make up its question."""

    space: Space
    rows: int
    neighbours: Neighbours
    seed: PublicSeed
    preview: Preview


class Noisy(Protocol):
    """What comes out of the door."""

    @property
    def batches(self) -> Iterator[NDArray[np.float64]]:
        """Noisy rows, once."""


class Door(Protocol):
    """The only thing a running mechanism can ask."""

    def measure(self, line: str, query: RowMap) -> Noisy:
        """Charge the line and answer the query with noise."""


@dataclass(frozen=True, eq=False)
class Draft:
    """What a mechanism wants published: columns and rows, public arrays, resolved parameters."""

    columns: tuple[str, ...]
    batches: Iterator[NDArray[np.float64]]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)


class Mechanism(Protocol):
    """The protocol every mechanism and baseline follows; `mechanisms.catalogue` finds them by it."""

    name: ClassVar[str]
    title: ClassVar[str]
    releases: ClassVar[str]
    suits: ClassVar[str]
    caution: ClassVar[str]
    theorem: ClassVar[str]
    differs: ClassVar[str]
    units: ClassVar[tuple[str, ...]]
    relations: ClassVar[tuple[str, ...]]
    answers: ClassVar[tuple[str, ...]]
    cites: ClassVar[tuple[Reference, ...]]

    @property
    def lines(self) -> Mapping[str, float]:
        """Budget lines and their shares."""

    def queries(self, setting: Setting) -> Mapping[str, RowMap]:
        """The query of each line, as `run` will ask it: what `plan` prints."""

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> Sequence[tuple[str, str]]:
        """What to expect, for `plan`: predicted errors, the paper's own scales. Label and text, from public facts."""

    def run(self, door: Door, setting: Setting) -> Draft:
        """Measure through the door and say what to publish."""
