"""Counting queries as people write them: conditions on columns, and workload files (CSV or JSON).

CSV has a row for each term: `query` (rows of one name add up), `weight`, and for a column of the domain NAME (a value)
or NAME_from and NAME_to (both included; either may be left out). An empty field sets no condition.

What is missing in a column is asked for with NAME= in a condition, null in JSON (None in Python), and anywhere with the
word (missing), unless that is a declared value. No range holds it.

JSON has {"queries": [...]}, each with a `name` and either `where` (with a `weight`), `terms` (a list of those), or
`cells`: a weight for every cell, in the order of the release's table.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.files import json_document, read_at_most
from adumbra.common.types import Reals
from adumbra.common.validation import finite, said
from adumbra.counting.workload import Workload
from adumbra.declare.column import Column
from adumbra.queries.domain import Domain

__all__ = [
    "MISSING",
    "DenseQuery",
    "Queries",
    "box_of",
    "checked_weight",
    "condition",
    "read_queries",
    "with_condition",
]


MISSING = "(missing)"
"""What is missing, in a condition and for people."""
_VALUES = str | datetime.date | datetime.time | datetime.timedelta
"""What a value may be, beside a number or a flag."""
_KEYS = {"name", "where", "weight", "terms", "cells"}
_LARGEST_WEIGHT, _SMALLEST_WEIGHT = 1e100, 1e-100
"""Beyond these the square of a weight, which a standard error needs, is no float any more."""
_MOST_BYTES = 256 * 2**20
_MOST_TERMS = 1_000_000
_HOW_JSON = 'write {"queries": [{"name": "a", "where": {"age": [30, 45], "sex": "F"}}]}, for example'


@dataclass(frozen=True, eq=False)
class DenseQuery:
    """A query with a weight of its own for every cell."""

    name: str
    weights: Reals


@dataclass(frozen=True, eq=False)
class Queries:
    """A workload: queries of boxes, and others."""

    names: tuple[str, ...]
    boxes: Workload | None
    dense: tuple[DenseQuery, ...] = ()


@dataclass(frozen=True)
class _Term:
    weight: float
    where: Mapping[str, Any]


def condition(text: str) -> tuple[str, str]:
    """COLUMN=VALUE or COLUMN=LOW..HIGH, or COLUMN= for what is missing, taken apart."""
    column, equals, value = text.partition("=")
    if not equals or not column:
        expected = "--where COLUMN=VALUE or COLUMN=LOW..HIGH (COLUMN= for what is missing)"
        raise InputError(expected, f"{text!r}", "put = between them")
    return column, value


def checked_weight(value: object, whose: str) -> float:
    """A weight whose square is a number too: 0, or from 1e-100 to 1e100 in size."""
    if not finite(value) or not (value == 0 or _SMALLEST_WEIGHT <= abs(cast(float, value)) <= _LARGEST_WEIGHT):
        raise InputError(
            f"{whose}: a finite weight of at most {_LARGEST_WEIGHT:g} in size, and of at least {_SMALLEST_WEIGHT:g}",
            said(value),
            "give an ordinary number",
        )
    return float(cast(float, value))


def with_condition(column: str, wanted: Any, where: Mapping[str, Any] | None) -> dict[str, Any]:
    """The conditions `where` (None: none yet) and one more: that `column` is as `wanted`, a value or a range.

    A column that has a condition already is refused.
    """
    if where and column in where:
        raise InputError("one condition per column", f"two of {column}", "leave one out")
    return {**(where or {}), column: wanted}


def box_of(domain: Domain, where: Mapping[str, Any]) -> tuple[Reals, Reals]:
    """Positions on every axis of the cells that fulfil all conditions.

    A condition is a value, or a range: a pair (low, high), or "low..high" for a number. An end that is None or left out
    is that of the column. None, "" and "(missing)" ask for what is missing.
    """
    low, high = np.zeros(len(domain.shape)), np.array(domain.shape, dtype=np.float64)
    for name, wanted in where.items():
        axis = domain.axis(name)
        low[axis], high[axis] = map(_snapped, _positions(domain, name, axis, wanted))
    return low, high


def _snapped(position: float) -> float:
    """A position this near to the edge of a cell is the edge: a range must not cut a cell by rounding."""
    whole = round(position)
    return float(whole) if abs(position - whole) < 1e-9 else position


def _positions(domain: Domain, name: str, axis: int, wanted: Any) -> tuple[float, float]:
    column = domain.columns[axis]
    if wanted is None or (isinstance(wanted, str) and _is_missing(wanted, column)):
        return domain.absent(name)
    if isinstance(wanted, str) and domain.ordered(axis) and ".." in wanted:
        ends = wanted.split("..")
        if len(ends) != 2:
            raise InputError(f"a range of {name} as LOW..HIGH", f"{wanted!r}", f"write {name}=30..45, for example")
        wanted = [end.strip() or None for end in ends]
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if len(wanted) != 2 or not all(end is None or finite(end) or isinstance(end, _VALUES) for end in wanted):
            got = " and ".join(map(said, wanted)) if len(wanted) == 2 else f"{len(wanted)} values"
            expected = f"two finite numbers (or values in order) for a range of {name}"
            raise InputError(expected, got, f'write "{name}": [30, 45], for example')
        return domain.between(name, *wanted)
    if not isinstance(wanted, bool | np.bool_ | _VALUES) and not finite(wanted):
        raise InputError(f"a value or a range of {name}", said(wanted), f'write "{name}": [30, 45], for example')
    if not domain.by_value(axis) and not domain.stepped(axis):
        raise InputError(
            f"a range of {name}, which was counted in bins", f"the single value {wanted}", f"write {name}=LOW..HIGH"
        )
    return domain.value(name, _text(wanted))


def _is_missing(text: str, column: Column) -> bool:
    return text.strip() in ("", MISSING) and text.strip() not in column.values


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def read_queries(given: str | Path | Iterable[Mapping[str, Any]] | Mapping[str, Any], domain: Domain) -> Queries:
    """The queries of a file, by its ending, or of a list of the kind that JSON holds.

    Edge cases: a file without a query, a weight that is no finite number, a condition that the domain cannot have, two
    queries of one name in JSON: an `InputError` that says which query.
    """
    if isinstance(given, str | Path):
        path = Path(given)
        kinds = {".csv": _from_csv, ".json": _from_json}
        if path.suffix.lower() not in kinds:
            raise InputError("a .csv or .json file of queries", f"{path}", "see the page on answers for both forms")
        return kinds[path.suffix.lower()](path, domain)
    return _from_list(given["queries"] if isinstance(given, Mapping) and "queries" in given else given, domain)


def _content(path: Path) -> bytes:
    try:
        return read_at_most(path, _MOST_BYTES, "a file of queries")
    except OSError as error:
        raise InputError("a file of queries", f"{path} ({error.strerror})", "give its path") from None


# ---- JSON


def _from_json(path: Path, domain: Domain) -> Queries:
    content = _content(path)
    try:
        found = json_document(content)
    except ValueError:
        raise InputError("a JSON document", f"{path}, which does not read as one", _HOW_JSON) from None
    if not isinstance(found, dict) or not isinstance(found.get("queries"), list):
        raise InputError('a JSON object with a list "queries"', f"{path} without one", _HOW_JSON)
    return _from_list(found["queries"], domain)


def _from_list(given: Any, domain: Domain) -> Queries:
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError("a list of queries", f"a {type(given).__name__}", _HOW_JSON)
    names: list[str] = []
    terms: list[list[_Term]] = []
    boxed: list[str] = []
    dense: list[DenseQuery] = []
    seen: set[str] = set()
    for index, query in enumerate(given):
        name = _query_name(query.get("name", index)) if isinstance(query, Mapping) else str(index)
        if name in seen:
            raise InputError("queries of different names", f"two of the name {name!r}", "give each its own")
        seen.add(name)
        names.append(name)
        if (
            not isinstance(query, Mapping)
            or not set(query) <= _KEYS
            or len({"where", "terms", "cells"} & set(query)) > 1
        ):
            raise InputError(
                f"query {name!r}: an object with name, and one of where, terms, cells", _kind(query), _HOW_JSON
            )
        if "cells" in query:
            dense.append(DenseQuery(name, _cells(name, query, domain)))
        else:
            boxed.append(name)
            terms.append(_terms(name, query))
    return _queries(names, boxed, terms, dense, domain)


def _query_name(name: Any) -> str:
    if not isinstance(name, str) and not finite(name):
        raise InputError("a name for every query, as text or a number", said(name), _HOW_JSON)
    return str(name)


def _kind(query: Any) -> str:
    if not isinstance(query, Mapping):
        return f"a {type(query).__name__}"
    unknown = sorted(str(key) for key in query if key not in _KEYS)
    return f"an unknown key {unknown[0]!r}" if unknown else "more than one of where, terms, cells"


def _cells(name: str, query: Mapping[str, Any], domain: Domain) -> Reals:
    if "weight" in query:
        raise InputError(f"query {name!r}: cells without a weight", "both", "multiply the weights of the cells")
    given = query["cells"]
    listed = list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else None
    if listed is None or len(listed) != domain.size:
        raise InputError(
            f"query {name!r}: {domain.size} finite weights, one for each cell",
            "other things" if listed is None else f"{len(listed)} of them",
            "list them in the order of the release's table",
        )
    return np.array([checked_weight(weight, f"query {name!r}") for weight in listed], dtype=np.float64)


def _terms(name: str, query: Mapping[str, Any]) -> list[_Term]:
    if "terms" not in query:
        return [_term(name, query)]
    if "weight" in query or not isinstance(query["terms"], Sequence) or not query["terms"]:
        raise InputError(
            f"query {name!r}: a list of terms, each with where and weight",
            "a weight beside them" if "weight" in query else "none",
            'write "terms": [{"weight": 1, "where": {"sex": "F"}}], for example',
        )
    return [_term(name, term) for term in query["terms"]]


def _term(name: str, term: Any) -> _Term:
    where = term.get("where", {}) if isinstance(term, Mapping) else None
    if not isinstance(where, Mapping) or not set(term) <= {"name", "where", "weight"}:
        raise InputError(f"query {name!r}: conditions by column", "something else", _HOW_JSON)
    return _Term(checked_weight(term.get("weight", 1.0), f"query {name!r}"), where)


# ---- CSV


def _from_csv(path: Path, domain: Domain) -> Queries:
    content = _content(path)
    try:
        frame = pl.read_csv(content, infer_schema=False)
    except (pl.exceptions.PolarsError, ValueError):
        raise InputError(
            "a CSV of queries with a header", f"{path}, which does not read as one", _how_csv(domain)
        ) from None
    for name in ("query", "weight"):
        if name in frame.columns and any(column.name == name for column in domain.columns):
            raise InputError(
                f"queries in JSON, where {name!r} can only be a column of the domain",
                f"a CSV with a column {name!r}",
                _HOW_JSON,
            )
    fields = {"query": ("query", ""), "weight": ("weight", "")}
    for column in domain.columns:
        fields |= {f"{column.name}_from": (column.name, "from"), f"{column.name}_to": (column.name, "to")}
    fields |= {column.name: (column.name, "") for column in domain.columns if column.name not in ("query", "weight")}
    for name in frame.columns:
        if name not in fields:
            raise InputError("columns that the domain has", f"a column {name!r} in {path}", _how_csv(domain))
    numbered: dict[str, int] = {}
    terms: list[list[_Term]] = []
    names = [str(i) for i in range(len(frame))]
    if "query" in frame.columns:
        given = frame["query"].to_list()
        if None in given or "" in given:
            raise InputError("a name for every query", f"none in row {_first_empty(given)}", "fill the column query")
        names = given
    for name, row in zip(names, frame.iter_rows(named=True), strict=True):
        place = numbered.setdefault(name, len(numbered))
        if place == len(terms):
            terms.append([])
        terms[place].append(_csv_term(name, row, fields))
    return _queries(list(numbered), list(numbered), terms, [], domain)


def _how_csv(domain: Domain) -> str:
    first = domain.columns[0].name
    columns = ", ".join(column.name for column in domain.columns[:10])
    return f"use query, weight, and NAME or NAME_from, NAME_to for: {columns}; for instance the header query,{first}"


def _first_empty(values: list[str | None]) -> int:
    return next(i for i, value in enumerate(values) if not value)


def _csv_term(name: str, row: Mapping[str, str | None], fields: Mapping[str, tuple[str, str]]) -> _Term:
    weight, where = 1.0, dict[str, Any]()
    for header, text in row.items():
        if not text or header == "query":
            continue
        if header == "weight":
            try:
                weight = float(text)
            except ValueError:
                weight = math.nan
            weight = checked_weight(weight if math.isfinite(weight) else text, f"query {name!r}")
            continue
        column, end = fields[header]
        if not end:
            if column in where:
                raise _twice(name, column)
            where[column] = text
            continue
        ends = where.setdefault(column, [None, None])
        if not isinstance(ends, list):
            raise _twice(name, column)
        ends[end == "to"] = text
    return _Term(weight, where)


def _twice(name: str, column: str) -> InputError:
    return InputError(f"query {name!r}: one condition per column", f"two of {column}", "leave one out")


# ---- both


def _queries(
    names: list[str], boxed: list[str], terms: list[list[_Term]], dense: list[DenseQuery], domain: Domain
) -> Queries:
    if not names:
        raise InputError("at least one query", "none", "write one")
    if (count := sum(map(len, terms))) > _MOST_TERMS:
        raise InputError(f"at most {_MOST_TERMS:,} terms in a workload", f"{count:,}", "split it into several files")
    if not boxed:
        return Queries(tuple(names), None, tuple(dense))
    lows, highs, weights, owners = [], [], [], []
    for index, (name, parts) in enumerate(zip(boxed, terms, strict=True)):
        for term in parts:
            try:
                low, high = box_of(domain, term.where)
            except InputError as error:
                raise InputError(f"query {name!r}: {error.expected}", error.got, error.remedy) from None
            lows.append(low)
            highs.append(high)
            weights.append(term.weight)
            owners.append(index)
    boxes = Workload(
        domain.shape, tuple(boxed), np.array(owners, dtype=np.int64), np.array(weights), np.array(lows), np.array(highs)
    )
    return Queries(tuple(names), boxes, tuple(dense))
