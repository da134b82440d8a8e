"""Every kind of utility-aware release: found in `release_kinds/` and in entry points, not listed anywhere.

A package outside adds a kind by an entry point of the group `adumbra.jupa_releases` that names its class:

    [project.entry-points."adumbra.jupa_releases"]
    mine = "my_package.mine:Mine"
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any

import adumbra.jupa.release_kinds
from adumbra.common.plugins import with_offered
from adumbra.common.validation import one_of
from adumbra.jupa.release_kind import JupaRelease, OptionNotes, notes_of

__all__ = ["ENTRY_POINTS", "DeclaredOption", "declared_options", "kind_named", "release_kinds", "users_of"]

ENTRY_POINTS = "adumbra.jupa_releases"


@cache
def release_kinds() -> Mapping[str, type[JupaRelease]]:
    """Name to class, in the order of their `place`, then of their names."""
    found: list[Any] = []
    for module in pkgutil.iter_modules(adumbra.jupa.release_kinds.__path__, "adumbra.jupa.release_kinds."):
        found += vars(importlib.import_module(module.name)).values()
    own = {value.name: value for value in found if _is_release(value)}
    kinds = with_offered(own, ENTRY_POINTS, _is_release, "a dataclass derived from JupaRelease")
    return dict(sorted(kinds.items(), key=lambda item: (item[1].place, item[0])))


def _is_release(value: Any) -> bool:
    """Whether it is a kind of release with all its parts."""
    derived = isinstance(value, type) and issubclass(value, JupaRelease) and not inspect.isabstract(value)
    return derived and dataclasses.is_dataclass(value)


def kind_named(name: str) -> type[JupaRelease]:
    """The kind of this name, or an error that lists them."""
    return release_kinds()[one_of(tuple(release_kinds()), release=name)]


def users_of(name: str) -> list[str]:
    """Names of the kinds that have an option."""
    return [kind.name for kind in release_kinds().values() if name in kind.__dataclass_fields__]


@dataclass(frozen=True)
class DeclaredOption:
    """An option as one or more kinds declare it, for whoever makes a form of it."""

    name: str
    type: Any
    default: Any
    notes: OptionNotes
    help: str
    """What it means, after the kinds that it is for; without them where it is for nearly all."""

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    def as_typed(self) -> tuple[Any, Any, str | None]:
        """For a command line: the type to parse, the default, and how to show the default if not as it is."""
        if typing.get_origin(self.type) is not tuple:
            return self.type, self.default, self.notes.default_words
        listed: Any = GenericAlias(list, typing.get_args(self.type)[0])
        if self.required:
            return listed, ..., None
        return listed | None, None, ", ".join(f"{value:g}" for value in self.default) or None


def declared_options() -> dict[str, DeclaredOption]:
    """Every option of every kind, once, in the order of the kinds; the first kind that has it says its default."""
    kinds = release_kinds().values()
    names = dict.fromkeys(field.name for kind in kinds for field in dataclasses.fields(kind))
    return {name: _declared(name, [kind for kind in kinds if name in kind.__dataclass_fields__]) for name in names}


def _declared(name: str, users: list[type[JupaRelease]]) -> DeclaredOption:
    fields = {kind.name: kind.__dataclass_fields__[name] for kind in users}
    helps: dict[str, list[str]] = {}
    for kind, field in fields.items():
        helps.setdefault(notes_of(field).help, []).append(kind)
    many = len(helps) == 1 and len(users) > len(release_kinds()) // 2
    said = [text if many else f"{', '.join(kinds)}: {text}" for text, kinds in helps.items()]
    first = next(iter(fields.values()))
    return DeclaredOption(name, typing.get_type_hints(users[0])[name], first.default, notes_of(first), "; ".join(said))
