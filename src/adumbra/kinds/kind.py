"""What a kind of release is: the type of its facts, what it answers, says, is compared by, and shows an attacker.

A release has one kind, named on its card. A kind is a class in one file: of this folder, or of any installed package
that declares it as an entry point of the group `adumbra.kinds`. Mechanisms hand over the kind's own facts; everything
that is later asked of the release is asked of its kind.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

import adumbra.kinds
from adumbra.common.errors import InputError
from adumbra.common.plugins import with_offered
from adumbra.compare.comparison import Beside, Comparison
from adumbra.kinds.attack_views import Sight, View
from adumbra.releases.card import Card, CardWords

__all__ = ["GROUP", "Content", "Kind", "KindFacts", "kind_named", "kinds"]

GROUP = "adumbra.kinds"
"""Entry points by which other packages add kinds."""
WHOLE = "none: cells are bounded by their ranges"


class Content(Protocol):
    """A release as a kind reads it, wherever it is kept."""

    @property
    def card(self) -> Card:
        """The statement that travels with it."""

    def table(self) -> pl.DataFrame:
        """The released rows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The public arrays."""


class KindFacts(BaseModel):
    """What a release of some kind needs to be read; all of it public. Each kind has its own, with every field typed."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    kind: ClassVar[str]
    """Name of the kind."""
    drawn: ClassVar[bool] = False
    """Whether its rows are drawn from a model, so that cells may be exchanged between them."""
    row_aligned: bool = False
    """Whether released row i was made from row i of the table."""


F = TypeVar("F", bound=KindFacts)


class Kind(ABC, Generic[F]):
    """A kind of release. Everything but `facts_type`, `words` and `compare` may be left as it is here."""

    name: ClassVar[str]
    facts_type: type[F]
    questions: ClassVar[Mapping[str, str]] = {}
    """What an analyst may ask, and the method of `answers` that tells."""

    def facts(self, card: Card) -> F:
        """The facts on a card, as their own type; a card that was changed may hold others, and is refused."""
        try:
            return self.facts_type.model_validate(card.facts)
        except (ValidationError, RecursionError):
            raise InputError(
                f"a card with the facts of its kind, {self.name}",
                "other facts, or some that are missing",
                "run adumbra verify; get the folder again from its owner",
            ) from None

    def answers(self, content: Content) -> Any:
        """What answers `questions`, by methods."""
        raise NotImplementedError(f"{self.name} answers no questions")

    @abstractmethod
    def words(self, facts: F) -> CardWords:
        """Its part of the card, for people."""

    @abstractmethod
    def compare(self, content: Content, beside: Beside) -> Comparison:
        """The release beside the truth."""

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """What an attacker can score rows by; none where the release holds nothing about single rows."""
        return {}


@cache
def kinds() -> Mapping[str, Kind[Any]]:
    """Every kind of this folder and of other packages, by name."""
    own: dict[str, Kind[Any]] = {}
    for module in pkgutil.iter_modules(adumbra.kinds.__path__, "adumbra.kinds."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Kind) and not inspect.isabstract(value):
                own[value.name] = value()
    found = with_offered(own, GROUP, _is_kind, "a whole Kind")
    return {name: value() if isinstance(value, type) else value for name, value in sorted(found.items())}


def _is_kind(value: object) -> bool:
    """Whether another package offers a kind, or a class that makes one."""
    return isinstance(value, Kind) or (
        isinstance(value, type) and issubclass(value, Kind) and not inspect.isabstract(value)
    )


def kind_named(name: str) -> Kind[Any]:
    """The kind of this name."""
    found = kinds().get(name)
    if found is None:
        raise InputError(
            f"a kind of release that is known here ({', '.join(kinds())})",
            repr(name[:80]),
            "install the package that its owner used, or a newer adumbra",
        )
    return found
