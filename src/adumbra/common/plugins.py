"""This package and others: what it calls itself, and what others offer by the entry points they declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

from adumbra.common.errors import InputError

__all__ = ["library", "loaded", "offered", "with_offered"]


def offered(group: str) -> Iterator[tuple[str, Any]]:
    """Name and object of every entry point of a group, in the order of their names."""
    for point in _points(group):
        yield point.name, loaded(point)


def _points(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _owner(point: EntryPoint) -> str:
    """The package that an entry point belongs to."""
    return "a package" if point.dist is None else point.dist.name


def loaded(point: EntryPoint) -> Any:
    """What an entry point names; a package that cannot be loaded is named, for it is not ours to mend."""
    try:
        return point.load()
    except Exception as error:
        raise InputError(
            f"installed packages that can be loaded as {point.group}",
            f"{_owner(point)}: {point.name} = {point.value} ({type(error).__name__})",
            "update or remove that package, or tell its author",
        ) from error


def with_offered(own: Mapping[str, Any], group: str, fits: Callable[[Any], bool], wanted: str) -> dict[str, Any]:
    """What this package has (`own`) and what others offer in `group`, each under its own `name`.

    What is offered must be what the group is for: `fits` tells, and `wanted` says it in words. One that is not would
    stop every command that lists the group. A name that is taken is refused: a mechanism that stood in for another
    would be released under its name.
    """
    found = dict(own)
    for point in _points(group):
        value = loaded(point)
        if not fits(value):
            raise InputError(
                f"installed packages that offer {wanted} as {group}",
                f"{_owner(point)}: {point.name} = {point.value}, which is none",
                "update or remove that package, or tell its author",
            )
        name = getattr(value, "name", None)
        if not isinstance(name, str) or name in found:
            raise InputError(
                f"a new name for what an installed package offers as {group}",
                f"{point.name!r}, which " + ("has none" if name is None else f"is called {name!r} like another"),
                "remove that package, or tell its author",
            )
        found[name] = value
    return found


# What this library calls itself on what it writes.


@cache  # the version is read from a file of the installation, once
def library() -> str:
    """Name and version.

    >>> library().split()[0]
    'adumbra'
    """
    return f"adumbra {version('adumbra')}"
