"""One declared column of a table: its kind, range or categories, each checked when the column is made.

An undeclared range is an error that says what to write, never a guess from the rows.
"""

from __future__ import annotations

import difflib
import json
import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from adumbra.common.errors import InputError
from adumbra.common.shown import shown_toml
from adumbra.common.validation import finite, said
from adumbra.declare.space import Kind
from adumbra.declare.spelling import Value
from adumbra.declare.spelling import key as key_of

__all__ = [
    "COLUMN_KEYS",
    "MAX_VALUES",
    "Column",
    "Role",
    "Value",
    "heading",
    "nearest",
    "repeated",
    "some_of",
    "toml_text",
    "type_name",
    "writable",
]

MAX_VALUES = 100_000
_CLOSEST = 2.0**-30  # narrower than this share of its own size, a range leaves too few digits for the grid
_SMALLEST, _LARGEST = 1e-290, 1e300
_MAX_INTEGER = 2**53

Role = Literal["label", "drop"]
_KINDS = ("number", "category", "flag")
_ROLES = ("label", "drop")
COLUMN_KEYS = ("kind", "low", "high", "integer", "missing", "values", "role")
_KEYS_OF_KIND: dict[str, tuple[str, ...]] = {
    "number": ("low", "high", "integer"),
    "category": ("values",),
    "flag": (),
}


@dataclass(frozen=True)
class Column:
    """One column of the table, checked when it is made.

    A number needs `low` and `high`; a category needs `values`; a flag needs nothing. A column with
    role "drop" is never read, and keeps nothing but its name.

    >>> Column("age", "number", low=0, high=110, missing=40).width
    1
    >>> Column("sex", "category", values=("F", "M")).width
    2
    """

    name: str
    kind: Kind | None = None
    low: float | None = None
    high: float | None = None
    integer: bool = False
    missing: Value | None = None
    values: tuple[Value, ...] = field(default=())
    role: Role | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("a column name that is not empty", said(self.name), "name every column")
        self._check_words()
        if self.role == "drop":
            for key, empty in (
                ("low", None),
                ("high", None),
                ("missing", None),
                ("values", ()),
                ("kind", None),
            ):
                object.__setattr__(self, key, empty)
            object.__setattr__(self, "integer", False)
            return
        self._check_writable("a name", self.name)
        if self.kind is None:
            raise self._error(
                "a kind",
                "none",
                'write kind = "number", "category" or "flag", or role = "drop" to leave it out',
            )
        self._check_stray_keys()
        check = {"number": self._check_number, "category": self._check_category, "flag": self._check_flag}
        check[self.kind]()

    @property
    def width(self) -> int:
        """Number of encoded coordinates (0 for a dropped column)."""
        if self.kind is None:
            return 0
        return len(self.values) if self.kind == "category" else 1

    @property
    def value_type(self) -> type[str] | type[int] | type[float] | type[bool]:
        """Type of a category's values."""
        return type(self.values[0])

    def to_dict(self) -> dict[str, Any]:
        """Declared fields only, as plain JSON values."""
        out: dict[str, Any] = {"name": self.name}
        for key in COLUMN_KEYS:
            value = getattr(self, key)
            if value is None or value == () or (key == "integer" and not value):
                continue
            out[key] = list(value) if isinstance(value, tuple) else value
        return out

    def _error(self, expected: str, got: str, remedy: str) -> InputError:
        return InputError(f"column {self.name!r}: {expected}", got, f"{remedy} under {heading(self.name)}")

    def _check_words(self) -> None:
        words: tuple[tuple[str, object, tuple[str, ...]], ...] = (
            ("kind", self.kind, _KINDS),
            ("role", self.role, _ROLES),
        )
        for key, word, known in words:
            if word is not None and word not in known:
                hint = nearest(word, known)
                raise self._error(
                    f"{key} one of {', '.join(known)}",
                    f"{key} = {said(word)}",
                    f'write {key} = "{hint or known[0]}"',
                )
        if not isinstance(self.integer, bool):
            raise self._error("integer true or false", f"integer = {said(self.integer)}", "write integer = true")

    def _check_writable(self, what: str, text: str) -> None:
        """Refuse a null byte or half of a surrogate pair: no release that holds one could be written."""
        if not writable(text):
            got = "a null byte, or half of a surrogate pair"
            raise InputError(f"column {self.name!r}: {what} that a file can hold", got, "write it without")

    def _check_stray_keys(self) -> None:
        allowed = _KEYS_OF_KIND[str(self.kind)]
        given = {
            "low": self.low is not None,
            "high": self.high is not None,
            "integer": self.integer,
            "values": bool(self.values),
        }
        for key, present in given.items():
            if present and key not in allowed:
                raise self._error(
                    f"no {key} for kind {self.kind}", f"{key} declared", f"delete {key}, or correct the kind,"
                )

    def _check_number(self) -> None:
        for key in ("low", "high"):
            object.__setattr__(self, key, self._finite(key, getattr(self, key)))
        low, high = cast(float, self.low), cast(float, self.high)
        if not low < high:
            raise self._error("low < high", f"low = {low:g}, high = {high:g}", "write the smaller one as low")
        width = high - low
        if not _SMALLEST < width < _LARGEST:
            raise self._error(
                f"high - low between {_SMALLEST:g} and {_LARGEST:g}",
                f"low = {low:g}, high = {high:g}",
                "write the range that the column can really take, or change its unit of measure,",
            )
        if width < _CLOSEST * max(abs(low), abs(high)):
            raise self._error(
                "low and high further apart for their size",
                f"low = {low!r}, high = {high!r}",
                "measure the column from a nearer origin (subtract a public constant), or widen the range",
            )
        if self.integer and not all(v.is_integer() and abs(v) <= _MAX_INTEGER for v in (low, high)):
            raise self._error(
                "whole low and high (at most 2^53) for integer = true",
                f"low = {low!r}, high = {high!r}",
                "write whole numbers, or delete integer,",
            )
        if self.missing is not None:
            missing = self._finite("missing", self.missing)
            if not low <= missing <= high:
                raise self._error(
                    f"missing between low = {low:g} and high = {high:g}",
                    f"missing = {missing:g}",
                    "write a missing inside the range, or delete it (an empty cell is its middle),",
                )
            object.__setattr__(self, "missing", missing)

    def _finite(self, key: str, value: object) -> float:
        if value is None:
            raise self._error(
                f"a declared {key}",
                "none",
                f"write {key} = a number known without looking at the rows (a draft's suggestion must be confirmed)",
            )
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise self._error(f"{key} as a number", type_name(value), f"for example, write {key} = 0")
        if not finite(value):
            raise self._error(f"a finite {key}", f"{key} = {said(value)}", f"write {key} = an ordinary number")
        return float(value) + 0.0  # -0.0 becomes 0.0, so that equal schemas print alike

    def _check_category(self) -> None:
        if self.values and not isinstance(self.values, tuple | list):
            raise self._error("values as a list", type_name(self.values), 'write values = ["...", "..."]')
        if not self.values:
            raise self._error(
                "declared values",
                "none",
                'write values = ["...", "..."], known without looking at the rows '
                "(a draft's suggestion must be confirmed),",
            )
        if len(self.values) > MAX_VALUES:
            raise self._error(
                f"at most {MAX_VALUES:,} values",
                f"{len(self.values):,}",
                'group them, or write role = "drop"',
            )
        object.__setattr__(self, "values", self._one_type(tuple(self.values)))
        for value in self.values if self.value_type is str else ():
            self._check_writable("values", cast(str, value))
        twice = repeated(_written(v) for v in self.values)
        if twice is not None:
            raise self._error("each value once", f"{twice!r} twice (spaces around it do not count)", "delete one")
        self._check_distinct()
        if self.missing is not None:
            same = [v for v in self.values if _alike(v, self.missing)]
            if not same:
                raise self._error(
                    "missing among the declared values",
                    f"missing = {said(self.missing)}",
                    "write one of the values as missing, or delete it (an empty cell belongs to none),",
                )
            object.__setattr__(self, "missing", same[0])

    def _check_distinct(self) -> None:
        """Refuse values that a reader which gives the column another type could not tell apart."""
        same = repeated(key_of(v) for v in self.values)
        if isinstance(same, str):
            raise self._error("values that spell different moments", f"two that spell {same!r}", "delete one")
        if same is not None:
            got = (
                f"two that spell {same} (true is read as 1 and false as 0)"
                if same in (0, 1)
                else f"two that spell {same}"
            )
            raise self._error("values that spell different numbers", got, "delete one, or declare another word")

    def _one_type(self, values: tuple[object, ...]) -> tuple[Value, ...]:
        types = {type(v) for v in values}
        if types <= {int, float} and not all(_representable(cast(float, v)) for v in values):
            raise self._error("finite values", "nan, an infinity or a number too large", "delete it")
        if types == {int, float}:  # [0, 0.5, 1] is how people write it
            values, types = tuple(float(cast(float, v)) for v in values), {float}
        if len(types) > 1 or not types <= {str, int, float, bool}:
            names = ", ".join(sorted(t.__name__ for t in types))
            raise self._error(
                "values of one type (text, numbers, or true and false)",
                f"types {names}",
                "put quotes around all of them or around none",
            )
        return cast(tuple[Value, ...], values)

    def _check_flag(self) -> None:
        if self.missing is not None and not isinstance(self.missing, bool):
            raise self._error("missing true or false", f"missing = {said(self.missing)}", "write missing = false")


def heading(name: str) -> str:
    """The line that opens a column's section, quoted where the name needs it.

    >>> print(heading("age"), heading("body.mass"))
    [columns.age] [columns."body.mass"]
    """
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return f"[columns.{name if bare else toml_text(name)}]"


def toml_text(value: Value | list[Any]) -> str:
    r"""One value as TOML on one line, whatever characters it holds.

    >>> toml_text(["a\n", 1, True, 0.5, 40.0])
    '["a\\n", 1, true, 0.5, 40.0]'
    """
    if isinstance(value, list):
        return "[" + ", ".join(toml_text(v) for v in value) + "]"
    if isinstance(value, str):
        # JSON and TOML escape alike; what nobody would see, or would steer a terminal, is escaped too.
        return shown_toml(json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def writable(text: str) -> bool:
    """Whether every file of a release can hold the text, as a value or in a column's name."""
    return "\0" not in text and text.encode(errors="replace").decode() == text


def nearest(word: object, known: tuple[str, ...]) -> str | None:
    """The known word that was probably meant, if any is near."""
    close = difflib.get_close_matches(word.lower() if isinstance(word, str) else said(word), known, n=1, cutoff=0.5)
    return close[0] if close else None


def some_of(names: Iterable[str], most: int = 10) -> str:
    """The first names in quotes, and how many more there are.

    >>> some_of(["age", "sex", "ward"], 2)
    "'age', 'sex' and 1 more"
    """
    listed = list(names)
    return ", ".join(map(repr, listed[:most])) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def repeated(keys: Iterable[str | float]) -> str | float | None:
    """The first key that comes a second time, if any does."""
    seen: set[str | float] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _representable(value: float) -> bool:
    return -(2**63) <= value < 2**63 if isinstance(value, int) else math.isfinite(value)


def _written(value: Value) -> str | float:
    """A value as it stands in the schema, without spaces around it."""
    return value.strip() if isinstance(value, str) else float(value)


def _alike(value: Value, other: object) -> bool:
    if isinstance(value, str | bool) or isinstance(other, str | bool):
        return type(value) is type(other) and _written(value) == _written(other)
    return type(other) in (int, float) and _representable(cast(float, other)) and value == other


def type_name(value: object) -> str:
    """The type of a value in a message that must not show the value."""
    return f"a {type(value).__name__}"
