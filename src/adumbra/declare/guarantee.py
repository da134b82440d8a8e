"""What is protected (unit), against which neighbour (relation), and how much of it may be spent (budget)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum

from adumbra.common.errors import InputError
from adumbra.common.validation import between, one_of, positive

__all__ = ["DEFAULT_DELTA", "Budget", "Neighbours", "Promise", "Relation", "Unit", "promise_in_words"]

DEFAULT_DELTA = 1e-6


class Unit(StrEnum):
    """Whose change must not be noticed: a whole row (one person) or a single cell (one value of one person)."""

    ROW = "row"
    CELL = "cell"


class Relation(StrEnum):
    """How two neighbouring tables differ in that unit."""

    REPLACE = "replace"
    ZERO_OUT = "zero-out"
    ADD_REMOVE = "add-remove"


@dataclass(frozen=True, order=True)
class Neighbours:
    """A unit and a relation: the pair of words without which no epsilon has a meaning.

    >>> str(Neighbours(Unit.ROW, Relation.REPLACE))
    'row/replace'
    >>> Neighbours.parse("cell/zero-out").unit
    <Unit.CELL: 'cell'>
    """

    unit: Unit
    relation: Relation

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", Unit(one_of(tuple(Unit), unit=self.unit)))
        object.__setattr__(self, "relation", Relation(one_of(tuple(Relation), relation=self.relation)))
        if self.unit is Unit.CELL and self.relation is Relation.ADD_REMOVE:
            raise InputError(
                "a relation that makes sense for one cell (replace or zero-out)",
                "unit cell with relation add-remove",
                "a cell cannot be added or removed; use --relation replace or --unit row",
            )

    def __str__(self) -> str:
        return f"{self.unit.value}/{self.relation.value}"

    @staticmethod
    @functools.cache  # a ledger asks for each of its lines; what is refused is not kept, so only a few can be
    def parse(text: str) -> Neighbours:
        """Read back what `str` wrote."""
        unit, _, relation = text.partition("/")
        return Neighbours(Unit(unit), Relation(relation))

    @staticmethod
    def of(given: Neighbours | str) -> Neighbours:
        """Neighbours, or their name, as a caller gave them; anything else is refused.

        >>> Neighbours.of("row/replace") == Neighbours.of(Neighbours(Unit.ROW, Relation.REPLACE))
        True
        """
        try:
            if isinstance(given, Neighbours):
                return Neighbours(Unit(given.unit), Relation(given.relation))
            if isinstance(given, str):
                return Neighbours.parse(given)
        except ValueError:
            pass
        raise InputError(
            "neighbours: a unit and a relation",
            f"{given!r}"[:80],
            f"use one of: {', '.join(map(str, Neighbours.every()))}",
        )

    @staticmethod
    def every() -> tuple[Neighbours, ...]:
        """Every meaningful combination, strongest promise first."""
        return tuple(
            Neighbours(unit, relation)
            for unit in Unit
            for relation in (Relation.REPLACE, Relation.ZERO_OUT, Relation.ADD_REMOVE)
            if not (unit is Unit.CELL and relation is Relation.ADD_REMOVE)
        )


@dataclass(frozen=True)
class Budget:
    """What one release may spend.

    `unit` and `relation` left at None are taken from the schema (`[table] unit = ...`), then from the
    defaults `row` and `replace`. `delta = 0` asks for pure epsilon (Laplace noise).

    >>> Budget(epsilon=1.0).delta
    1e-06
    """

    epsilon: float
    delta: float = DEFAULT_DELTA
    unit: Unit | None = None
    relation: Relation | None = None

    def __post_init__(self) -> None:
        positive("give a positive finite epsilon, for example 1.0", epsilon=self.epsilon)
        between(
            0.0,
            1.0,
            "give a delta well below 1/rows, for example 1e-6, or 0 for pure epsilon",
            delta=self.delta,
        )
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.unit is not None:
            object.__setattr__(self, "unit", Unit(one_of(tuple(Unit), unit=self.unit)))
        if self.relation is not None:
            object.__setattr__(self, "relation", Relation(one_of(tuple(Relation), relation=self.relation)))


@dataclass(frozen=True)
class Promise:
    """A budget with nothing left open: the sentence the card will state.

    >>> print(Promise(1.0, 1e-6, Neighbours(Unit.ROW, Relation.REPLACE)))
    epsilon 1, delta 1e-06, unit row, relation replace
    """

    epsilon: float
    delta: float
    neighbours: Neighbours

    def __str__(self) -> str:
        return promise_in_words(self.epsilon, self.delta, self.neighbours.unit, self.neighbours.relation)


def promise_in_words(epsilon: float, delta: float, unit: str, relation: str) -> str:
    """`epsilon` and `delta` with the `unit` and `relation` without which they have no meaning, as everywhere shown.

    What stands on a card of somebody else may be neither a unit nor a relation: make it harmless first.
    """
    return f"epsilon {epsilon:g}, delta {delta:g}, unit {unit}, relation {relation}"
