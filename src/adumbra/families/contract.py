"""What a mechanism is: which query it asks, and what it makes of the noisy answer.

A mechanism is a frozen dataclass in one file of `mechanisms/`. Its class variables are the prose that the catalogue,
the help texts, the card and the docs are made of; its fields are public parameters. It never sees epsilon, delta,
a noise generator or a private row: `queries` gets public facts, `run` gets a `Measurer` that hands out noisy numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.declare.column import Value
from adumbra.declare.guarantee import Neighbours, Promise, Relation
from adumbra.declare.schema import Schema
from adumbra.declare.space import Space
from adumbra.families.challenge import Challenge
from adumbra.kinds.kind import KindFacts
from adumbra.queries.query import JointAnswer, Query, RowAnswers, SumAnswer

__all__ = [
    "Chooser",
    "Deltas",
    "Draft",
    "JointAnswer",
    "Measurer",
    "Mechanism",
    "Preview",
    "Query",
    "Reference",
    "RowAnswers",
    "Setting",
    "SumAnswer",
    "check_sets",
    "check_supported",
    "promised_delta",
    "public_options",
]

Answer = TypeVar("Answer")
Deltas = Literal["any", "zero", "positive"]
Preview = Callable[[float, Query], float]
"""`preview(share, query)`: standard deviation that the meter would add to a number of weight 1, if the query were asked
on a line with this share of the budget. Public, free, no data."""


@dataclass(frozen=True)
class Reference:
    """A paper the mechanism rests on."""

    text: str
    bibtex: str


@dataclass(frozen=True)
class Setting:
    """Everything public that a mechanism may look at to make up its question."""

    space: Space
    rows: int | None
    """Rows of the table; None where their number is private (relation add-remove)."""
    neighbours: Neighbours
    seed: PublicSeed
    preview: Preview
    labels: tuple[str, ...] = ()
    """Columns the schema calls a label."""
    schema: Schema | None = None
    """What the owner declared; None where a setting is made up from a card."""
    pure: bool = False
    """Whether delta is 0, so that noise has Laplace tails."""


class Measurer(Protocol):
    """The only thing a running mechanism can ask: the meter, or what stands for it in a rehearsal or a replay."""

    def measure(self, line: str, query: Query[Answer]) -> Answer:
        """The noisy answer to `query`, measured on a budget `line` and charged."""


@dataclass(frozen=True, eq=False)
class Draft:
    """What a mechanism wants published: rows, the facts of their kind, public arrays.

    With `columns` the batches hold one number for each of them; for a column with `words` that is the place of a word
    in their list. Without, the rows are a table of the schema: one number
    for each of its released columns, in grid steps for a number or flag and the position of the value for a category.
    """

    columns: tuple[str, ...] | None
    batches: Iterator[Reals]
    facts: KindFacts
    """What the release is: their type decides its kind."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    measured: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each line whose noisy sums are published: in which array each of their parts is."""
    pictures: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What draws the SVG pictures for the card, by file name."""
    answers: tuple[str, ...] | None = None
    """What an analyst may ask, where it is less than the mechanism's `answers`."""
    words: Mapping[str, Sequence[Value | None]] = field(default_factory=dict)
    """For columns that hold no numbers: what the numbers of the batches stand for."""


def public_options(mechanism: Mechanism) -> dict[str, Any]:
    """All options of a mechanism for its card, in types that JSON has; of a file no more than its name.

    `catalogue.build` makes the same mechanism of them again, as long as none of them is a file.
    """
    shown: dict[str, Any] = getattr(mechanism, "shown_options", dict)()
    options = {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}  # type: ignore[arg-type] # all are dataclasses
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (options | shown).items()}


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
    deltas: ClassVar[Deltas]
    """Which promises it can make: any delta; pure epsilon whatever delta was allowed; only a positive delta."""
    cites: ClassVar[tuple[Reference, ...]]

    @classmethod
    def challenges(cls) -> Sequence[Challenge]:
        """For every promise it can make, neighbouring tables that come closest to breaking it; for audits."""

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """Budget lines and their shares."""

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The query of each line: what `plan` prints, and what the noise and the charge are worked out from.

        A line that depends on what an earlier one found stands here with public placeholders: its noise must not depend
        on them.
        """

    def size(self, setting: Setting) -> tuple[int, int]:
        """Rows and columns of what it will publish (a guess where the number of rows is private)."""

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> Sequence[tuple[str, str]]:
        """What to expect, for `plan`: predicted errors, the paper's own scales. Label and text, from public facts.

        `setting` has the space, the number of rows if public, and a preview of the noise; `promise` is what will be
        kept; `noise` the calibrated noise of each line of `queries`.
        """

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure through the door and say what to publish."""


@runtime_checkable
class Chooser(Protocol):
    """A stand-in that picks a mechanism from public facts."""

    name: ClassVar[str]

    @classmethod
    def challenges(cls) -> Sequence[Challenge]:
        """As for a mechanism."""

    def choose(self, setting: Setting) -> tuple[Mechanism, str]:
        """The mechanism, and why, in a sentence."""


def check_supported(mechanism: Mechanism, neighbours: Neighbours) -> None:
    """Refuse a unit or relation the mechanism has no bound for."""
    if neighbours.relation.value not in mechanism.relations:
        reason = (
            "it publishes one row per person, so the row count cannot be private"
            if neighbours.relation is Relation.ADD_REMOVE
            else "it has no bound under that relation"
        )
        raise InputError(
            f"a relation {mechanism.name} supports ({', '.join(mechanism.relations)})",
            f"relation {neighbours.relation.value}: {reason}",
            "pass one of them with --relation",
        )
    if neighbours.unit.value not in mechanism.units:
        raise InputError(
            f"a unit {mechanism.name} supports ({', '.join(mechanism.units)})",
            f"unit {neighbours.unit.value}",
            "pass one of them with --unit",
        )


def check_sets(mechanism: Mechanism | Chooser, space: Space) -> None:
    """Refuse columns whose cells are sets, but for mechanisms that say they take them (`sets`, beside the others)."""
    column = next((block.column for block in space.blocks if block.kind == "set"), None)
    if column is not None and not getattr(mechanism, "sets", False):
        raise InputError(
            f"columns with one value in a cell for {mechanism.name}",
            f"{column!r}, a set",
            f'write role = "drop" for it in the schema, or count its values with --mechanism items --columns {column}',
        )


def promised_delta(mechanism: Mechanism, delta: float) -> float:
    """The delta a release by this mechanism promises where its owner allows `delta`."""
    if mechanism.deltas == "zero":
        return 0.0
    if mechanism.deltas == "positive" and delta == 0.0:
        raise InputError(
            f"a positive delta for {mechanism.name}, whose noise is Gaussian",
            "delta = 0",
            "give a delta such as 1e-6, or use a mechanism of pure epsilon (lip, lop)",
        )
    return delta
