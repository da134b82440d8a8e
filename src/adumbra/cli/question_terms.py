"""A question of any kind of release as it is typed: `--name value` for each term of the method that answers it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from adumbra.common.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from adumbra.result import Release

__all__ = ["answer_frame", "terms_of"]


def terms_of(release: Release, question: str, typed: Mapping[str, str]) -> dict[str, Any]:
    """What was `typed` for a `question`, each in the type that the answering method of this `release` declares.

    A question that the release does not answer gets no terms: asking it says what it does answer.
    """
    if question not in release.kind.questions:
        return {}
    try:
        method = getattr(release.kind.answers(release.content), release.kind.questions[question])
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise release.misfit() from None
    known = inspect.signature(method).parameters
    given = {name.replace("-", "_"): text for name, text in typed.items()}
    missing = [name for name, one in known.items() if one.default is one.empty and name not in given]
    if missing or given.keys() - known.keys():
        wrong = sorted(given.keys() - known.keys()) or missing
        raise InputError(
            f"the terms of {question}: {', '.join(map(_option, known)) or 'none'}",
            f"{'no ' if not given.keys() - known.keys() else ''}{_option(wrong[0])}",
            "give each as --name value; those without a default are needed",
        )
    hints = _hints(method)
    return {name: _read(text, hints.get(name, Any), _option(name)) for name, text in given.items()}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method)
    except NameError:  # of types that are imported for checkers only
        return {}


def _read(text: str, hint: Any, option: str) -> Any:
    """As text if the type takes text, else as JSON, else as a list with commas."""
    try:
        wanted: TypeAdapter[Any] = TypeAdapter(Any if hint is inspect.Parameter.empty else hint)
    except PydanticUserError:  # no type that text can be checked against: an array, say
        wanted = TypeAdapter(Any)
    for value in _readings(text, plain=hint in (Any, inspect.Parameter.empty)):
        try:
            return wanted.validate_python(value)
        except ValidationError:
            continue
    raise InputError(f"{option} as the question takes it", repr(text), "see the page of the package that answers it")


def _readings(text: str, *, plain: bool) -> Iterator[Any]:
    if not plain:
        yield text
    try:
        yield json.loads(text)
    except ValueError:
        yield text
    yield [part.strip() for part in text.split(",")]


def answer_frame(answer: Any) -> pl.DataFrame:
    """An answer as a table to print: a frame as it is, records one a row, anything else as a value."""
    import numpy as np
    import polars as pl

    if isinstance(answer, pl.DataFrame):
        return answer
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return pl.DataFrame([dataclasses.asdict(answer)])
    if isinstance(answer, Mapping):
        return pl.DataFrame([dict(answer)])
    values = answer.tolist() if isinstance(answer, np.ndarray | np.generic) else answer
    several = values if isinstance(values, list | tuple) else [values]
    if several and all(dataclasses.is_dataclass(one) for one in several):
        return pl.DataFrame([dataclasses.asdict(one) for one in several])
    return pl.DataFrame({"value": list(several)})
