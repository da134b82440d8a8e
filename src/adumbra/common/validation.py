"""Argument checks, each naming the value it refuses.

Keyword form, so that the message carries the caller's own name: `positive(epsilon=epsilon)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import Any

from adumbra.common.errors import InputError

__all__ = [
    "at_least",
    "between",
    "finite",
    "is_whole",
    "names_once",
    "one_of",
    "path_of",
    "positive",
    "said",
    "settle",
    "split_names",
    "table_name",
    "written",
]

_DIGITS = 300
"""A whole number with more is said by its size: Python refuses to write very long ones."""
_LONGEST_NAME = 1000


def _only(named: Mapping[str, float]) -> tuple[str, float]:
    ((name, value),) = named.items()
    return name, value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def finite(value: object) -> bool:
    """Whether it is a number that a float can hold: no bool, no nan, no infinity, no 10^400.

    >>> finite(1), finite(10**400), finite("1")
    (True, False, False)
    """
    try:
        return _is_number(value) and math.isfinite(float(value))  # type: ignore[arg-type] # asked just before
    except OverflowError:
        return False


def is_whole(value: object) -> bool:
    """Whether it is a finite number without a fraction."""
    return finite(value) and float(value).is_integer()  # type: ignore[arg-type] # a finite number


def said(value: object) -> str:
    """A value in a message, as Python writes it; a whole number of very many digits only by how many.

    >>> said("a"), said(10**5000)
    ("'a'", 'a number of about 5001 digits')
    """
    if isinstance(value, int) and value.bit_length() > _DIGITS / math.log10(2.0):
        return f"a number of about {int(value.bit_length() * math.log10(2.0)) + 1} digits"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__}"
    return str(value) if _is_number(value) else repr(value)


def settle(options: Any) -> None:
    """Keep each option of a frozen dataclass in its declared type: 2.0 as the whole number 2, a list as a tuple.

    What is passed on as 2.0 would fail later, where a number of rows is asked for, or after the charge. What is no
    whole number is left for the option's own check, which says what it may be.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if field.type in ("int", "int | None") and is_whole(value):
            object.__setattr__(options, field.name, int(value))
        elif field.type == "tuple[float, ...]":
            object.__setattr__(options, field.name, _numbers(field.name, value))
        elif field.type == "bool":
            object.__setattr__(options, field.name, _flag(field.name, value))


def _numbers(name: str, value: object) -> tuple[float, ...]:
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if found is None or not all(map(_is_number, found)):
        raise InputError(f"{name} as a list of numbers", f"a {type(value).__name__}", f"write {name}=(1.0, 2.0)")
    return found


def _flag(name: str, value: object) -> bool:
    numpys = type(value).__name__ in ("bool", "bool_")  # by name: the command line comes here before it loads numpy
    if not (numpys or (_is_number(value) and value in (0, 1))):
        raise InputError(f"{name} as yes or no", f"a {type(value).__name__}", f"write {name}=True or {name}=False")
    return bool(value)


def path_of(given: object, expected: str) -> Path:
    """The path of a file or folder, from text or a path; what is neither is refused as not `expected`.

    >>> path_of("a/b", "a folder").name
    'b'
    """
    try:
        return Path(given)  # type: ignore[arg-type] # what it does not take is refused
    except TypeError:
        raise InputError(expected, f"a {type(given).__name__}", "give text or a pathlib.Path") from None


def table_name(name: object, option: str) -> str:
    """The name under which a table stands in the ledger and on the card: text, not empty, no novel."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        got = f"{len(name):,} characters" if isinstance(name, str) and name.strip() else said(name)
        raise InputError(
            f"{option} as text of at most {_LONGEST_NAME:,} characters", got, "give a short name, patients say"
        )
    return name


def split_names(text: str, option: str) -> tuple[str, ...]:
    """Names written with commas between them, each once; spaces around them do not count.

    Edge cases: an empty text or an empty name between two commas is refused, not passed over.

    >>> split_names("age, sex", "--columns")
    ('age', 'sex')
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(
            f"{option} A,B,...: names of columns with commas between them",
            repr(text) if text.strip() else "nothing",
            f"name the columns, or leave {option} out where it may be",
        )
    return names_once(names, option)


def names_once(names: Iterable[str], option: str) -> tuple[str, ...]:
    """The names, each of them text and none twice: whoever writes one twice meant another."""
    if not isinstance(names, Iterable):
        raise InputError(f"{option}: names of columns as text", f"a {type(names).__name__}", "name the columns")
    found = tuple(names)
    seen: set[str] = set()
    for name in found:
        if not isinstance(name, str) or not name:
            got = "an empty name" if isinstance(name, str) else type(name).__name__
            raise InputError(f"{option}: names of columns as text", got, "name the columns")
        if name in seen:
            raise InputError(f"each column once in {option}", f"{name!r} twice", "leave one out, or correct it")
        seen.add(name)
    return found


def positive(remedy: str = "give a positive finite number", /, **named: float) -> float:
    """Return the value if it is finite and above zero.

    >>> positive(epsilon=0.5)
    0.5
    """
    name, value = _only(named)
    if not (finite(value) and value > 0):
        raise InputError(f"{name} > 0 and finite", f"{name} = {said(value)}", remedy)
    return value


def between(low: float, high: float, remedy: str, /, **named: float) -> float:
    """Return the value if `low <= value < high`."""
    name, value = _only(named)
    if not (finite(value) and low <= value < high):
        raise InputError(f"{low:g} <= {name} < {high:g}", f"{name} = {said(value)}", remedy)
    return value


def at_least(low: int, remedy: str, most: int | None = None, /, **named: int) -> int:
    """Return the value if it is an integer of at least `low`, and of at most `most`."""
    name, value = _only(named)
    if not is_whole(value) or value < low or (most is not None and value > most):
        limits = f"{name} >= {low}" if most is None else f"{name} from {low} to {most:,}"
        raise InputError(f"a whole number {limits}", f"{name} = {said(value)}", remedy)
    return int(value)


def one_of(options: tuple[str, ...], /, **named: str) -> str:
    """Return the value if it is among the options."""
    ((name, value),) = named.items()
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} one of {', '.join(options)}", f"{name} = {said(value)}", "pick one of them")
    return value


def written(remedy: str, /, **named: str) -> str:
    """Return the value if it is text that a file can hold: not empty, of UTF-8, of at most 1,000 characters.

    >>> written("name the table", table="patients")
    'patients'
    """
    ((name, value),) = named.items()
    if not isinstance(value, str):
        raise InputError(f"{name} as text", type(value).__name__, remedy)
    if not 0 < len(value) <= _LONGEST_NAME:
        raise InputError(f"{name} of 1 to {_LONGEST_NAME} characters", f"{len(value)} characters", remedy)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} in UTF-8", f"{value!r}"[:80], remedy) from None
    return value
