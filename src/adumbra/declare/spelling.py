"""How a cell is read, whatever type its column has: one rule for releases, drafts, evaluation, audits and JUPA.

A library gives a column a type that depends on all its cells: one empty cell turns whole numbers to floats and
booleans to objects, one word turns either to text. So the type must not decide what a cell means. Cells that any
reader may turn into each other are one cell here:

* numbers are equal by size, however written: 1, 1.0, "1", "01", "1e0" (as 64-bit floats);
* true and false, as booleans or as words in any case, are the numbers 1 and 0;
* a date is that day's midnight; moments and durations are equal however they are written (`declare/time_spelling.py`);
* any other text is itself, without the spaces around it.

`key` says which cells are one. docs/schema.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adumbra.common.types import Integers, Reals
from adumbra.declare.time_spelling import is_timed, moment_text, moment_texts, span_texts, timed_text

__all__ = [
    "BLANK",
    "Value",
    "answer",
    "answers",
    "blank",
    "canonical",
    "distinct",
    "emptied",
    "key",
    "number_texts",
    "numbers",
    "place",
    "places",
    "spelled",
    "texts",
]

BLANK = ("", "?", "-", ".", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none")
"""Words, in any case, that say that a cell holds nothing; one that a schema declares is a value all the same."""
_YES, _NO = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_WORDS = pl.Enum([*_NO, *_YES])

Value = str | int | float | bool


# ------------------------------------------------------------------------------------------------ one cell at a time


def key(value: Value) -> str | float:
    """What two cells must differ in to be told apart: the number that one is or spells, or its text.

    >>> key(" 01 ") == key(1.0) == key("TRUE") == key(True) == 1.0
    True
    >>> key("2020-01-02T00:00:00.000"), key("yes"), key("nan")
    ('2020-01-02', 'yes', 'nan')
    """
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    number = _spelled_number(text)
    return moment_text(text) if number is None else number


def _spelled_number(text: str) -> float | None:
    try:
        number = float(text) if text.isascii() and "_" not in text else np.nan
    except ValueError:
        return None
    return None if np.isnan(number) else number


def answer(text: str) -> bool | None:
    """Whether a word or a number says yes (1) or no (0); None where it says neither.

    >>> answer(" Yes"), answer("0.0"), answer("maybe")
    (True, False, None)
    """
    word = text.strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    number = key(word)
    return bool(number) if number in (0.0, 1.0) else None


def place(text: str, values: Sequence[Value]) -> int | None:
    """Position of the declared value that a text means, None if it is none of them."""
    found = int(places(pl.Series([text]), values)[0])
    return None if found < 0 else found


def spelled(cell: object) -> str:
    """The text of a cell of a column that may hold anything; it depends on nothing but the cell, and never fails."""
    if isinstance(cell, complex | np.complexfloating) and cell.imag == 0:
        cell = float(cell.real)  # one cell with an imaginary part makes the other numbers of its column complex
    if isinstance(cell, np.floating):  # of 32 bits, str() would write fewer digits than a column of them holds
        return repr(float(cell))
    try:
        text = timed_text(cell) or _ends_alike(str(cell))
        text.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which no file can hold
        return text.encode(errors="replace").decode()
    except Exception:  # whatever the cell's own class raises, or a whole number of more digits than Python writes
        return "\ufffd"
    return text


_INTERVAL = re.compile(r"([(\[])(-?\d+)(?:\.0)?, (-?\d+)(?:\.0)?([)\]])", re.ASCII)


def _ends_alike(text: str) -> str:
    """An interval without the points of whole ends: one cell of another kind gives them to its whole column.

    >>> _ends_alike("(0.0, 1.0]"), _ends_alike("(0, 1]"), _ends_alike("(0.5, 1.0]")
    ('(0, 1]', '(0, 1]', '(0.5, 1.0]')
    """
    found = _INTERVAL.fullmatch(text)
    return text if found is None else f"{found[1]}{found[2]}, {found[3]}{found[4]}"


# -------------------------------------------------------------------------------------------------- columns of cells


def texts(cells: pl.Series) -> pl.Series:
    """Cells as trimmed text, nothing where there is none; what is text already keeps its spelling."""
    kind = cells.dtype
    if kind.is_numeric():
        return number_texts(pl.Series(numbers(cells), nan_to_null=True))
    if kind == pl.Time:
        return moment_texts(cells.dt.to_string("%H:%M:%S%.f"))
    if isinstance(kind, pl.Duration):
        return span_texts(cells)
    if isinstance(kind, pl.List | pl.Array):  # of items, which only a set reads one by one
        items = cells.cast(pl.List(pl.String))
        return items.list.join(",", ignore_nulls=True).str.strip_chars()
    text = cells if kind == pl.String else cells.cast(pl.String)
    return moment_texts(text) if kind == pl.Datetime else text.str.strip_chars()


def number_texts(found: pl.Series) -> pl.Series:
    """Numbers (of 64 bits) as text, whole ones without a point.

    >>> number_texts(pl.Series([517.0, 0.5, None])).to_list()
    ['517', '0.5', None]
    """
    whole = (found.is_finite() & (found == found.round()) & (found.abs() < 2**53)).fill_null(False)
    short = found.zip_with(whole, pl.Series([None], dtype=pl.Float64)).cast(pl.Int64).cast(pl.String)
    return short.zip_with(whole, found.cast(pl.String))


def canonical(cells: pl.Series) -> pl.Series:
    """Cells in one spelling each, nothing where they are blank: equal texts mean equal cells, for people to read."""
    text = texts(cells)
    found = pl.Series(_parsed(text), nan_to_null=True)
    word = text.str.to_lowercase()
    text = moment_texts(text).zip_with(~word.is_in(["true", "false"]).fill_null(False), word)
    text = number_texts(found).zip_with(found.is_not_null(), text)
    return emptied(text, word.is_in(BLANK).fill_null(False))


def emptied(cells: pl.Series, gone: pl.Series | NDArray[np.bool_]) -> pl.Series:
    """The cells, nothing where one is `gone`: for every type, also in versions whose `Series.set` knows but a few."""
    return cells.zip_with(~pl.Series(gone), pl.Series([None], dtype=cells.dtype))


def _parsed(text: pl.Series) -> Reals:
    return np.array(text.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)


def numbers(cells: pl.Series, *, words: bool = True) -> Reals:
    """Cells as numbers, nan where there is none. Without `words`, true and false are none either."""
    kind = cells.dtype
    if kind.is_decimal():
        return _parsed(cells.cast(pl.String))  # a cast would divide, and round otherwise than the text reads
    if kind.is_numeric() or kind == pl.Boolean:
        if kind == pl.Boolean and not words:
            return np.full(len(cells), np.nan)
        return np.array(cells.cast(pl.Float64).to_numpy(), dtype=np.float64)
    if kind.is_temporal():
        return np.full(len(cells), np.nan)
    text = texts(cells)
    found = _parsed(text)
    return _with_words(found, text) if words else found


def _with_words(found: Reals, text: pl.Series) -> Reals:
    """Numbers, with 1 and 0 where a text says true and false."""
    left = np.isnan(found)
    if left.any():
        word = text.filter(pl.Series(left)).str.to_lowercase()
        said = word.replace_strict(["false", "true"], [0.0, 1.0], default=None, return_dtype=pl.Float64)
        found[left] = said.to_numpy()
    return found


def answers(cells: pl.Series) -> Integers:
    """1 for yes, 0 for no, -1 for neither."""
    kind = cells.dtype
    if kind.is_numeric() or kind == pl.Boolean or kind.is_temporal():
        return _ones_and_zeros(numbers(cells))
    text = texts(cells)
    code = _physical(text.str.to_lowercase().cast(_WORDS, strict=False))
    said = np.where(code < 0, -1, code >= len(_NO)).astype(np.int64)
    left = code < 0
    if left.any():
        said[left] = _ones_and_zeros(_parsed(text.filter(pl.Series(left))))
    return said


def _ones_and_zeros(found: Reals) -> Integers:
    return np.where(found == 1, 1, np.where(found == 0, 0, -1))


def _physical(codes: pl.Series) -> Integers:
    found = codes.to_physical()
    found = found.cast(pl.Int64).fill_null(-1) if found.null_count() else found
    return found.to_numpy().astype(np.int64)


def blank(cells: pl.Series) -> NDArray[np.bool_]:
    """Which cells hold nothing, or a word that says so."""
    if cells.dtype.is_float():
        return np.asarray(cells.is_null() | cells.is_nan().fill_null(False))
    if cells.dtype.is_numeric() or cells.dtype == pl.Boolean or cells.dtype.is_temporal():
        return np.asarray(cells.is_null())
    if isinstance(cells.dtype, pl.List | pl.Array):
        return np.asarray(cells.is_null() | (cells.cast(pl.List(cells.dtype.inner)).list.len() == 0).fill_null(True))
    return np.asarray(texts(cells).str.to_lowercase().is_in(BLANK).fill_null(True))


def places(cells: pl.Series, values: Sequence[Value]) -> Integers:
    """Position of each cell's value among declared ones of one type, -1 for none. Their keys must differ.

    A blank word that is declared is a value. Declared true and false are met by every word for yes and no.
    """
    book = _book(isinstance(values[0], bool), tuple(values))
    if book.both is not None:
        said = answers(cells)
        return np.where(said < 0, -1, book.both[said])
    kind = cells.dtype
    if kind.is_numeric() or kind == pl.Boolean:
        return book.by_number(numbers(cells))
    text = texts(cells)
    if book.exact is None:
        return book.by_key(text)
    code = _physical(text.cast(book.exact, strict=False))
    left = code < 0
    if left.any():
        code[left] = book.by_key(text.filter(pl.Series(left)))
    return code


def distinct(values: Iterable[Value]) -> bool:
    """Whether no two values are one cell."""
    keys = [key(value) for value in values]
    return len(set(keys)) == len(keys)


@dataclass(frozen=True, eq=False)
class _Book:
    """Declared values, ready to be looked up."""

    exact: pl.Enum | None
    """Their texts, where they are text: nearly every cell is one of them as it stands."""
    moments: pl.Enum | None
    """The keys of all, where some is a moment."""
    sizes: tuple[tuple[Reals, Integers], ...]
    """Their numbers in order, and whose each is; then the same as 32 bits keep them: 0.1 there is not 0.1 in 64."""
    both: Integers | None
    """Where no and yes are, if true and false are declared."""

    def by_number(self, found: Reals) -> Integers:
        """The value that each number is.

        The column's own type must not decide: one cell of text turns a column of 32 bits into objects.
        """
        code = np.full(len(found), -1, dtype=np.int64)
        for keys, owner in self.sizes:
            if len(keys):
                at = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
                code = np.where((code < 0) & (keys[at] == found), owner[at], code)
        return code

    def by_key(self, text: pl.Series) -> Integers:
        """The value that each text is, though written in another way."""
        code = self.by_number(_with_words(_parsed(text), text))
        if self.moments is not None:
            code = np.where(code < 0, _physical(moment_texts(text).cast(self.moments, strict=False)), code)
        return code


@lru_cache(maxsize=256)
def _book(truths: bool, values: tuple[Value, ...]) -> _Book:
    if truths:  # told apart: to Python, (True, False) and (1, 0) are equal
        both = [values.index(said) if said in values else -1 for said in (False, True)]
        return _Book(None, None, (), np.array(both, dtype=np.int64))
    keys = [key(value) for value in values]
    exact = np.array([k if isinstance(k, float) else np.nan for k in keys])
    with np.errstate(over="ignore"):
        short = exact.astype(np.float32).astype(np.float64)
    short = np.where(np.isfinite(short) & (exact != np.rint(exact)), short, np.nan)  # whole numbers mean themselves
    sizes = tuple(_in_order(numbers) for numbers in (exact, short))
    words = [value.strip() for value in values if isinstance(value, str)]
    if not words:
        return _Book(None, None, sizes, None)
    timed = any(isinstance(k, str) and is_timed(k) for k in keys)
    return _Book(pl.Enum(words), pl.Enum([str(k) for k in keys]) if timed else None, sizes, None)


def _in_order(found: Reals) -> tuple[Reals, Integers]:
    """Numbers in order without those that are none, and where each was."""
    owner = np.argsort(found, kind="stable")
    owner = owner[~np.isnan(found[owner])]
    return found[owner], owner
