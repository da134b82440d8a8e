"""What every linear strategy for a histogram can do, and how one is made again from its recipe.

`recipe` writes a strategy down in plain values; `rebuilt` makes it again. Exact answers are whole numbers (`queries.
histograms.Strategy`); how far a row can move them is known to `privacy.strategy_sensitivity`, by type.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

import numpy as np

from adumbra.common.types import Reals
from adumbra.declare.space import COUNT_STEPS

__all__ = ["STRATEGIES", "LinearStrategy", "Separable", "padded", "rebuilt"]


STRATEGIES: dict[str, type[LinearStrategy]] = {}
"""Every kind whose module was imported, by its name in a recipe."""


def padded(cells: int, branching: int = 2) -> tuple[int, int]:
    """The least power of `branching` that holds so many cells, and its exponent.

    >>> padded(256), padded(100), padded(17, 4), padded(1)
    ((256, 8), (128, 7), (64, 3), (1, 0))
    """
    size, levels = 1, 0
    while size < cells:
        size, levels = size * branching, levels + 1
    return size, levels


class LinearStrategy(ABC):
    """A strategy whose estimate of the counts is linear in what was measured.

    An estimated query w is then its exact value plus <v, noise> for a vector v, its dual; `dual` finds it.
    """

    kind: ClassVar[str]
    """Name in a recipe; a class that has one can be rebuilt from its recipe."""
    mechanism: ClassVar[str | None] = None
    """The mechanism that measures it, where its error follows from the shape and the noise alone, for every table."""

    shape: tuple[int, ...]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            STRATEGIES[cls.kind] = cls

    @classmethod
    def candidates(cls, shape: tuple[int, ...], plain: tuple[int, ...], apart: tuple[int, ...] = ()) -> Sequence[Self]:
        """Those of the kind to choose from for a domain of this `shape`.

        Its axes in `plain` have no order; of those in `apart` the last cell is outside the order (what is missing).
        """
        return ()

    def entering(self, axis: int, low: Reals, high: Reals) -> tuple[Reals, Reals] | None:
        """How noise enters ranges from `low` to `high` along an `axis`: sum of squares and largest entry of the dual.

        In time that does not grow with the cells; None where only `dual` is known.
        """
        return None

    @property
    def cells(self) -> int:
        """Cells of the domain."""
        return math.prod(self.shape)

    @property
    @abstractmethod
    def numbers(self) -> int:
        """Numbers measured."""

    @property
    @abstractmethod
    def step(self) -> float:
        """What one whole step of an answer stands for."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """Most that one count adds to any number on the way, in steps."""

    @abstractmethod
    def exact(self, counts: Reals) -> Reals:
        """All numbers of these counts, in whole steps: exact while `largest` times the rows stays below 2^53."""

    @abstractmethod
    def estimate(self, measured: Reals) -> Reals:
        """Least-squares counts of all cells, in C order; vectorised over leading axes."""

    @abstractmethod
    def dual(self, weights: Reals) -> Reals:
        """(..., cells) weights of queries -> (..., numbers): how the noise enters each of them."""

    def recipe(self) -> dict[str, Any]:
        """Plain values to make it again from."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type] # all are
        return {"strategy": self.kind} | {n: list(v) if isinstance(v, tuple) else v for n, v in facts.items()}

    @abstractmethod
    def describe(self) -> str:
        """A few words for a plan."""


class Separable(LinearStrategy):
    """A Kronecker product over the axes of the domain."""

    @property
    def step(self) -> float:
        """One step of a count."""
        return 1.0 / COUNT_STEPS

    @property
    def largest(self) -> float:
        """Every entry is -1, 0 or 1."""
        return float(COUNT_STEPS)

    @abstractmethod
    def measured_along(self, axis: int) -> int:
        """Numbers measured along an axis."""

    @abstractmethod
    def _forward(self, values: Reals, axis: int) -> Reals:
        """Measure along the last axis of an array, which is axis number `axis` of the domain."""

    @abstractmethod
    def _backward(self, values: Reals, axis: int) -> Reals:
        """Least-squares cells along the last axis."""

    @abstractmethod
    def axis_dual(self, weights: Reals, axis: int) -> Reals:
        """(..., cells of the axis) -> (..., numbers along it)."""

    @property
    def numbers(self) -> int:
        """Numbers measured."""
        return math.prod(self.measured_along(axis) for axis in range(len(self.shape)))

    def exact(self, counts: Reals) -> Reals:
        """All numbers, in whole steps. Only sums and differences of whole numbers."""
        return self._along_all(counts * COUNT_STEPS, self.shape, self._forward)

    def estimate(self, measured: Reals) -> Reals:
        """Least-squares counts."""
        sizes = tuple(self.measured_along(axis) for axis in range(len(self.shape)))
        return self._along_all(measured, sizes, self._backward)

    def dual(self, weights: Reals) -> Reals:
        """How the noise enters queries with any weights."""
        return self._along_all(weights, self.shape, self.axis_dual)

    def _along_all(self, values: Reals, sizes: tuple[int, ...], step: Any) -> Reals:
        lead = values.shape[:-1]
        out = values.reshape(*lead, *sizes)
        for axis in range(len(sizes)):
            place = len(lead) + axis
            out = np.moveaxis(step(np.moveaxis(out, place, -1), axis), -1, place)
        return np.ascontiguousarray(out).reshape(*lead, -1)


def rebuilt(recipe: Mapping[str, Any]) -> LinearStrategy:
    """The strategy that wrote this recipe down."""
    named = recipe["strategy"]
    kind = STRATEGIES.get(named) if isinstance(named, str) else None
    if kind is None:
        raise LookupError(f"no strategy {named!r}")
    declared = fields(kind)  # type: ignore[arg-type] # all are dataclasses
    given = [field for field in declared if field.name in recipe or field.default is MISSING]  # older ones say less
    return kind(**{field.name: _settled(field.name, field.type, recipe[field.name]) for field in given})


def _settled(name: str, declared: object, value: Any) -> Any:
    """A value of a recipe in the declared type of its field: one number, or a list of them."""
    listed = str(declared).startswith("tuple")
    items = value if isinstance(value, list | tuple) else [value]
    if listed != isinstance(value, list | tuple) or not all(type(item) is int for item in items):
        raise LookupError(f"no {declared} for {name}")  # the recipe is of something else
    return tuple(items) if listed else items[0]
