"""Options that several commands share, declared once: a frozen dataclass, whose fields become the commands' options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any

__all__ = ["grouped"]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which each field of a dataclass among its parameters is an argument or option.

    The command itself is called with the dataclass. What must be given comes first, as in every signature.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    places: dict[str, str] = {}
    found: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            found.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        of_fields = typing.get_type_hints(groups[parameter.name], include_extras=True)
        for part in inspect.signature(groups[parameter.name]).parameters.values():
            found.append(part.replace(annotation=of_fields[part.name]))
            places[part.name] = parameter.name
    found.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    @wraps(command)
    def run(**given: Any) -> None:
        parts: dict[str, dict[str, Any]] = {name: {} for name in groups}
        for name in places.keys() & given.keys():
            parts[places[name]][name] = given.pop(name)
        command(**given, **{name: groups[name](**values) for name, values in parts.items()})

    del run.__wrapped__  # its own signature is the one to be read
    run.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined] # as `inspect` looks for it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
    return run
