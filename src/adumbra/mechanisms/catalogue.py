"""The catalogue: every mechanism found in this folder or offered by an installed package, not listed anywhere.

A new file with a frozen dataclass that carries a `name` and a `run` (or, for a rule that picks one, a `choose`) is in
the catalogue, in the command line's help, in the docs and under the contract tests (tests/mechanisms/test_contract.py)
before its author writes a test. Another package adds a mechanism as an entry point of the group `adumbra.mechanisms`.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

import adumbra.mechanisms
from adumbra.common.errors import InputError
from adumbra.common.plugins import with_offered
from adumbra.common.validation import split_names
from adumbra.families.contract import Mechanism
from adumbra.report.document import Document, Facts, Section, Text, Value

__all__ = ["DEFAULT", "GROUP", "build", "catalogue", "catalogue_document", "options"]

DEFAULT = "auto"
GROUP = "adumbra.mechanisms"
"""Entry points by which other packages add mechanisms."""


@cache
def catalogue() -> Mapping[str, type[Mechanism]]:
    """Name to class, sorted."""
    found: dict[str, type[Mechanism]] = {}
    for module in pkgutil.iter_modules(adumbra.mechanisms.__path__, "adumbra.mechanisms."):
        for value in vars(importlib.import_module(module.name)).values():
            if _is_mechanism(value) and hasattr(value, "name"):
                found[value.name] = value
    return dict(sorted(with_offered(found, GROUP, _is_mechanism, "a dataclass with run or choose").items()))


def _is_mechanism(value: Any) -> bool:
    """Whether it can be listed and made; the contract suite checks the rest."""
    offers = hasattr(value, "run") or hasattr(value, "choose")
    return isinstance(value, type) and dataclasses.is_dataclass(value) and offers


def options(name: str) -> dict[str, dataclasses.Field[Any]]:
    """The public parameters of a mechanism, by name."""
    return {f.name: f for f in dataclasses.fields(_named(name))}  # type: ignore[arg-type] # all are dataclasses


def catalogue_document() -> Document:
    """What each mechanism releases, protects and can answer, one section each."""
    entries = [_entry(name) for name in catalogue()]
    sections = (
        Section(entry["name"], (Facts(tuple((key, _shown(key, entry)) for key in entry if key != "name"), None),))
        for entry in entries
    )
    return Document("Mechanisms", tuple(sections), entries)


def _entry(name: str) -> dict[str, Any]:
    mechanism = catalogue()[name]
    deltas = getattr(mechanism, "deltas", "any")  # a chooser has none of its own
    return {
        "name": name,
        "title": mechanism.title,
        "units": list(mechanism.units),
        "relations": list(mechanism.relations),
        "delta": {"any": "any", "zero": "0, whatever is allowed", "positive": "positive"}[deltas],
        "guarantee": mechanism.theorem,
        "releases": mechanism.releases,
        "suits": mechanism.suits,
        "caution": mechanism.caution,
        "answers": list(mechanism.answers),
        "options": {key: ", ".join(_choices(mechanism, key)) or words for key, words in _option_words(name).items()},
        "references": [reference.text for reference in mechanism.cites],
    }


def _choices(mechanism: type[Mechanism], option: str) -> tuple[str, ...]:
    """The words that an option takes, where it takes only some: `choices` of the mechanism, or a literal type."""
    named: tuple[str, ...] = getattr(mechanism, "choices", {}).get(option, ())
    if option == "result":
        named = named or getattr(mechanism, "results", ())
    hint = typing.get_type_hints(mechanism)[option]
    return named or (typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ())


def _option_words(name: str) -> dict[str, str]:
    """What each option takes, as one would write it on the command line."""
    hints = {key: str(typing.get_type_hints(_named(name))[key]) for key in options(name)}
    words = {"bool": "yes or no", "tuple[float": "X,Y,...", "tuple[str": "A,B,...", "int": "whole number"}
    words |= {"float": "number", "str": "text"}
    return {key: next((said for kind, said in words.items() if kind in hint), "text") for key, hint in hints.items()}


def _shown(key: str, entry: Mapping[str, Any]) -> Value:
    value = entry[key]
    if key == "answers" and not value:
        chooses = not hasattr(catalogue()[entry["name"]], "run")
        return "those of the chosen mechanism" if chooses else "none: what it releases is a table, for any tool"
    if isinstance(value, dict):
        return ", ".join(f"--{k.replace('_', '-')} ({v})" for k, v in value.items()) or "none"
    if isinstance(value, list):
        return value if any(", " in item for item in value) else ", ".join(value)
    return Text(value)


def build(name: str, parameters: Mapping[str, Any]) -> Mechanism:
    """Make a mechanism from text parameters, as typed on the command line.

    >>> build("dppro", {"dimension": "16"}).dimension
    16
    """
    cls = _named(name)
    hints = typing.get_type_hints(cls)
    known = options(name)
    parsed = {}
    for key, raw in parameters.items():
        field = key.replace("-", "_")
        if field not in known:
            near = get_close_matches(field, known, n=1)
            raise InputError(
                f"an option of {name}: {', '.join('--' + k.replace('_', '-') for k in known)}",
                f"--{key}",
                f"did you mean --{near[0]}?" if near else "see adumbra mechanisms",
            )
        value: Any = raw
        if isinstance(raw, str) and "tuple" in str(hints[field]):
            value = _listed(raw, f"--{key}", "str" in str(hints[field]))
        try:
            parsed[field] = TypeAdapter(hints[field]).validate_python(value)
        except ValidationError as error:
            raise InputError(f"--{key} {_wanted(hints[field])}", f"{raw!r}", error.errors()[0]["msg"].lower()) from None
    return cls(**parsed)


def _listed(text: str, option: str, names: bool) -> tuple[str, ...]:
    """What was written with commas: names of columns, each once, or numbers; an empty one is refused."""
    if names:
        return split_names(text, option)
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise InputError(
            f"{option} X,Y,...: numbers with commas between them",
            repr(text) if text.strip() else "nothing",
            f"give them, or leave {option} out",
        )
    return parts


def _named(name: str) -> type[Mechanism]:
    found = catalogue()
    if name not in found:
        near = get_close_matches(name, found, n=1)
        raise InputError(
            f"a mechanism of the catalogue ({', '.join(found)})",
            f"{name!r}",
            f"did you mean {near[0]}?" if near else "see adumbra mechanisms",
        )
    return found[name]


def _wanted(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(typing.get_args(hint))}"
    text = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    return "of type " + (text or str(hint).replace("typing.", "").replace(" | None", ""))
