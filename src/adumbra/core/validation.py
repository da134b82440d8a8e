"""Argument checks, each naming the value it refuses.

Keyword form, so that the message carries the caller's own name: `positive(epsilon=epsilon)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

from adumbra.core.errors import InputError

__all__ = ["at_least", "between", "one_of", "positive", "written"]

_LONGEST_NAME = 1000


def _only(named: Mapping[str, float]) -> tuple[str, float]:
    ((name, value),) = named.items()
    return name, value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return _is_number(value) and math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        return False


def _shown(value: object) -> str:
    try:
        text = str(value)
    except ValueError:  # Python refuses to write out thousands of digits
        return "a number too long to write down"
    return text if len(text) <= 80 else text[:80] + " ..."


def positive(remedy: str = "give a positive finite number", /, **named: float) -> float:
    """Return the value if it is finite and above zero.

    >>> positive(epsilon=0.5)
    0.5
    """
    name, value = _only(named)
    if not (_is_finite(value) and value > 0):
        raise InputError(f"{name} > 0 and finite", f"{name} = {_shown(value)}", remedy)
    return value


def between(low: float, high: float, remedy: str, /, **named: float) -> float:
    """Return the value if `low <= value < high`."""
    name, value = _only(named)
    if not (_is_finite(value) and low <= value < high):
        raise InputError(f"{low:g} <= {name} < {high:g}", f"{name} = {_shown(value)}", remedy)
    return value


def at_least(low: int, remedy: str, /, **named: int) -> int:
    """Return the value if it is an integer of at least `low`."""
    name, value = _only(named)
    if not _is_finite(value) or int(value) != value or value < low:
        raise InputError(f"a whole number {name} >= {low}", f"{name} = {_shown(value)}", remedy)
    return int(value)


def one_of(options: tuple[str, ...], /, **named: str) -> str:
    """Return the value if it is among the options."""
    ((name, value),) = named.items()
    if value not in options:
        raise InputError(f"{name} one of {', '.join(options)}", f"{name} = {value!r}", "pick one of them")
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
