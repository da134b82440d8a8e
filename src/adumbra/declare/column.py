"""One declared column of a table: what its cells are, each declaration checked when the column is made.

An undeclared range is an error that says what to write, never a guess from the rows. What a kind of cell needs, and how
it is read and written, stands in `declare/cell_kinds`, a file each.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from adumbra.common.errors import InputError
from adumbra.common.shown import shown_toml
from adumbra.common.validation import finite, said
from adumbra.declare.cell_kinds.calendar import Date, Datetime, Duration, TimeOfDay
from adumbra.declare.cell_kinds.category import MAX_VALUES, Category, Flag, Ordinal, repeated
from adumbra.declare.cell_kinds.cell_kind import CellKind
from adumbra.declare.cell_kinds.item_set import ItemSet
from adumbra.declare.cell_kinds.number import Number
from adumbra.declare.spelling import Value
from adumbra.declare.spelling import key as key_of

__all__ = [
    "CELL_KINDS",
    "COLUMN_KEYS",
    "KEEP",
    "MAX_VALUES",
    "Column",
    "Role",
    "Value",
    "check_blank_words",
    "heading",
    "nearest",
    "repeated",
    "some_of",
    "toml_text",
    "type_name",
    "writable",
]

CELL_KINDS: dict[str, type[CellKind]] = {
    kind.name: kind for kind in (Number, Category, Flag, Ordinal, Date, Datetime, TimeOfDay, Duration, ItemSet)
}
"""Every kind of cell, by the word that the schema has for it."""
KEEP = "keep"
"""What `missing` says, where nothing else is said: an empty cell stays empty."""
TYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
    "boolean",
    "string",
    "categorical",
)

Role = Literal["label", "group", "drop", "id"]
_ROLES = ("label", "group", "drop", "id")
COLUMN_KEYS = (
    "kind",
    "low",
    "high",
    "integer",
    "step",
    "decimals",
    "scale",
    "format",
    "zone",
    "values",
    "most",
    "separator",
    "spikes",
    "missing",
    "blank",
    "type",
    "role",
    "pattern",
    "derived",
)
_TEXTS = ("text", "string", "str", "object", "nominal", "enum")
"""What other schemas call a column of words."""
_OF_ANY = ("kind", "missing", "blank", "type", "role", "derived")
_LISTS = ("values", "spikes", "blank")
_BLANK = 'write blank = ["N"]'


@dataclass(frozen=True)
class Column:
    """One column of the table, checked when it is made.

    A number needs `low` and `high`; a category needs `values`; a flag needs nothing (docs/schema.md has the rest). A
    column with role "drop" is never read, and keeps nothing but its name; one with role "id" is never read either, and
    is released with fresh ids.

    >>> Column("age", "number", low=0, high=110, missing=40).width
    1
    >>> Column("sex", "category", values=("F", "M")).width
    2
    """

    name: str
    kind: str | None = None
    low: Any = None
    high: Any = None
    integer: bool = False
    missing: Any = None
    """Where an empty cell goes; None where it is kept as one, which the schema writes as "keep"."""
    values: tuple[Value, ...] = field(default=())
    role: Role | None = None
    step: Any = None
    decimals: int | None = None
    scale: str | None = None
    format: str | None = None
    zone: str | None = None
    most: int | None = None
    separator: str | None = None
    spikes: tuple[Any, ...] = field(default=())
    blank: tuple[Value, ...] = field(default=())
    type: str | None = None
    pattern: str | None = None
    derived: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("a column name that is not empty", said(self.name), "name every column")
        if self.kind == "number" and self.values and self.low is None and self.high is None:  # ordered codes
            self.settle(kind="ordinal")
        self._check_words()
        if self.role == "drop" or self.role == "id":
            self._check_unread()
            return
        self.check_writable("a name", self.name)
        if self.kind is None:
            raise self.error(
                "a kind",
                "none",
                f'write kind = one of {", ".join(CELL_KINDS)}, or role = "drop" to leave it out',
            )
        self._check_stray_keys()
        for key in _LISTS:
            if not isinstance(getattr(self, key), list | tuple):
                raise self.error(f"{key} as a list", type_name(getattr(self, key)), f"write {key} = [...]")
            self.settle(**{key: tuple(getattr(self, key))})
        self._check_keep()
        CELL_KINDS[self.kind].check(self)
        self._check_blank()

    @cached_property
    def cells(self) -> CellKind:
        """What its cells are."""
        return CELL_KINDS[str(self.kind)](self)

    @property
    def measured(self) -> bool:
        """Whether its cells are read: it comes out, and is neither an id nor computed from other columns."""
        return self.kind is not None and self.derived is None

    @property
    def width(self) -> int:
        """Number of encoded coordinates (0 for a column that is not read)."""
        return self.cells.width if self.measured else 0

    @property
    def value_type(self) -> Any:
        """Type of a category's values."""
        return type(self.values[0])

    def to_dict(self) -> dict[str, Any]:
        """Declared fields only, as plain JSON values."""
        out: dict[str, Any] = {"name": self.name}
        for key in COLUMN_KEYS:
            value = getattr(self, key)
            if _is_declared(key, value):
                out[key] = list(value) if isinstance(value, tuple) else value
        return out

    def settle(self, **fields: Any) -> None:
        """Put declared fields into their one form, while the column is being made."""
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    def error(self, expected: str, got: str, remedy: str) -> InputError:
        """The error of a declaration of this column: what was `expected`, what was `got`, and the `remedy`."""
        return InputError(f"column {self.name!r}: {expected}", got, f"{remedy} under {heading(self.name)}")

    def check_writable(self, what: str, text: str) -> None:
        """Refuse a null byte or half of a surrogate pair: no release that holds one could be written."""
        if not writable(text):
            got = "a null byte, or half of a surrogate pair"
            raise InputError(f"column {self.name!r}: {what} that a file can hold", got, "write it without")

    def _check_words(self) -> None:
        words: tuple[tuple[str, object, tuple[str, ...]], ...] = (
            ("kind", self.kind, tuple(CELL_KINDS)),
            ("role", self.role, _ROLES),
            ("type", self.type, TYPES),
        )
        for key, word, known in words:
            if key == "type" and isinstance(word, str) and word in CELL_KINDS:  # as other schemas call it
                raise self.error("a kind", f"'type' = {said(word)}", f'did you mean kind = "{word}"?')
            if word is not None and word not in known:
                hint = "category" if key == "kind" and word in _TEXTS else nearest(word, known)
                raise self.error(
                    f"{key} one of {', '.join(known)}",
                    f"{key} = {said(word)}",
                    f'write {key} = "{hint or known[0]}"',
                )
        if not isinstance(self.integer, bool):
            raise self.error("integer true or false", f"integer = {said(self.integer)}", "write integer = true")
        for key in ("derived", "pattern", "separator", "format", "zone", "scale"):
            text = getattr(self, key)
            if text is not None and not isinstance(text, str):
                raise self.error(f"{key} as text", type_name(text), f'write {key} = "..."')

    def _check_unread(self) -> None:
        """A column that is not read keeps its name, and the pattern of its ids."""
        if self.derived is not None:
            raise self.error(f"no role {self.role} for a derived column", "both", "delete one of them")
        for key in COLUMN_KEYS:
            if key not in ("role", "pattern"):
                self.settle(**{key: () if key in _LISTS else False if key == "integer" else None})
        if self.role == "drop":
            self.settle(pattern=None)
            return
        self.check_writable("a name", self.name)
        if self.pattern is not None:
            self.check_writable("a pattern", self.pattern)
            if "#" not in self.pattern and "@" not in self.pattern:
                remedy = 'write pattern = "P-#####": # stands for a digit, @ for a letter'
                raise self.error("a pattern with a # or a @", f"pattern = {self.pattern!r}", remedy)

    def _check_stray_keys(self) -> None:
        allowed = (*CELL_KINDS[str(self.kind)].keys, *_OF_ANY)
        for key in COLUMN_KEYS:
            value = getattr(self, key)
            if _is_declared(key, value) and key not in allowed:
                raise self.error(
                    f"no {key} for kind {self.kind}", f"{key} declared", f"delete {key}, or correct the kind,"
                )

    def _check_keep(self) -> None:
        if not isinstance(self.missing, str) or self.missing.strip().lower() != KEEP:
            return
        if any(isinstance(value, str) and value.strip().lower() == KEEP for value in self.values):
            got = f"missing = {self.missing!r}, which is a declared value too"
            raise self.error("a missing that can mean one thing only", got, "delete missing, or rename the value,")
        self.settle(missing=None)

    def _check_blank(self) -> None:
        """Words for an empty cell: text or numbers, none of them a declared value."""
        check_blank_words(self.blank, lambda got: self.error("blank as a list of words or numbers", got, _BLANK))
        declared = {key_of(value) for value in (*self.values, *self.spikes)}
        both = [word for word in self.blank if key_of(word) in declared]
        if both:
            raise self.error("blank words that are no declared values", said(both[0]), "delete one of them")


def _is_declared(key: str, value: object) -> bool:
    """Whether a key of a column says something."""
    return value is not None and not (key in _LISTS and value == ()) and not (key == "integer" and value is False)


def check_blank_words(words: Iterable[object], error: Callable[[str], InputError]) -> None:
    """Refuse `words` for an empty cell that are neither text nor finite numbers, with the `error` of what one is."""
    for word in words:
        if type(word) not in (str, int, float):
            raise error(type_name(word))
        if not isinstance(word, str) and not finite(word):
            raise error("nan, an infinity or a number too large")


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


def type_name(value: object) -> str:
    """The type of a value in a message that must not show the value."""
    return f"a {type(value).__name__}"
