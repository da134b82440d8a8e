"""Declared columns and schemas of every kind, as hypothesis draws them."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st

from adumbra.declare.column import Column
from adumbra.declare.guarantee import Unit
from adumbra.declare.schema import Schema, TableInfo
from adumbra.declare.spelling import key

__all__ = ["NAMES", "columns", "schemas"]

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
_WORDS = st.lists(st.text("abcdefgh ", min_size=1, max_size=5).filter(str.strip), min_size=2, max_size=6,
                  unique_by=lambda v: v.strip()).map(tuple)  # fmt: skip
_CODES = st.lists(st.integers(-100, 1000), min_size=2, max_size=6, unique=True).map(tuple)
_EPOCH = datetime.datetime(1970, 1, 1)
_ZONES = st.sampled_from([None, "UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
_SIZE = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}


def _number(draw: Any) -> dict[str, Any]:
    low = draw(st.integers(-1000, 1000))
    how = draw(st.sampled_from([{}, {"integer": True}, {"decimals": 0}, {"decimals": 2}, {"step": 0.25}, {"step": 5}]))
    high = low + draw(st.integers(1, 400)) * 5
    inside = st.integers(low, high).map(float)
    kinds = ["float64", "float32", None] + (["int16", "int64"] if how in ({"integer": True}, {"decimals": 0}) else [])
    return how | {
        "low": low,
        "high": high,
        "missing": draw(st.none() | inside),
        "spikes": tuple(draw(st.lists(inside, max_size=2))),
        "scale": draw(st.sampled_from([None, None, "log"])),
        "type": draw(st.sampled_from(kinds)),
    }


def _values(draw: Any) -> dict[str, Any]:
    values = draw(_WORDS | _CODES)
    words = isinstance(values[0], str)
    kinds = [None, "string", "categorical"] if words else [None, "int16", "int64", "float32"]
    return {
        "values": values,
        "missing": draw(st.none() | st.sampled_from(values)),
        "type": draw(st.sampled_from(kinds)),
    }


def _flag(draw: Any) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"missing": draw(st.none() | st.booleans()), "type": draw(st.sampled_from([None, "int8", "boolean"]))}
    found = _values(draw)
    kept = found["values"][:2]
    return found | {"values": kept, "missing": None if found["missing"] not in kept else found["missing"]}


def _timed(draw: Any, kind: str) -> dict[str, Any]:
    steps = {"date": ["day"], "time": ["hour", "minute", "second"]}.get(kind, list(_SIZE))
    step = draw(st.sampled_from(steps))
    most = {"date": 40_000, "time": (86400 // _SIZE[step]) - 1}.get(kind, 70_000)
    last = draw(st.integers(1, most))
    start = {"time": 0, "duration": draw(st.integers(-100_000, 100_000))}.get(kind, 86400 * draw(st.integers(0, 8000)))
    at = draw(st.lists(st.integers(0, last), max_size=3))

    def told(level: int) -> Any:
        seconds = start + level * _SIZE[step]
        if kind == "duration":
            return seconds
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
        return {"date": moment.date(), "time": moment.time(), "datetime": moment}[kind]

    found: dict[str, Any] = {"low": told(0), "high": told(last), "step": step, "spikes": tuple(map(told, at[1:]))}
    if at:
        found["missing"] = told(at[0])
    if kind == "date":
        found["format"] = draw(st.sampled_from([None, "%d.%m.%Y", "%Y%m%d"]))
        found["type"] = draw(st.sampled_from(["int64", None] if found["format"] == "%Y%m%d" else ["string", None]))
    return found


@st.composite
def columns(draw: Any, name: str) -> Column:
    """A column of any kind that is read."""
    kinds = ["number", "category", "ordinal", "flag", "date", "datetime", "time", "duration"]
    kind = draw(st.sampled_from(kinds))
    if kind in ("category", "ordinal"):
        found = _values(draw)
    elif kind in ("number", "flag"):
        found = _number(draw) if kind == "number" else _flag(draw)
    else:
        found = _timed(draw, kind)
    if kind == "datetime":
        zone = draw(_ZONES)
        midnight = found["step"] == "day"  # which some clocks leave out, but none of these
        found["zone"] = zone if midnight else None
    taken = {key(v) for v in (*found.get("values", ()), *found.get("spikes", ())) if isinstance(v, str | int | float)}
    words = draw(st.lists(st.sampled_from(["N", -9, "?", -7.5]), max_size=2, unique=True))
    return Column(name, kind, role=draw(st.sampled_from([None, "label"])), **found,
                  blank=tuple(word for word in words if key(word) not in taken))  # fmt: skip


@st.composite
def schemas(draw: Any) -> Schema:
    """A few columns, at least one of which is read."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    made = [draw(columns(names[0]))]
    for name in names[1:]:
        other = st.just(Column(name, role="drop")) | st.sampled_from([None, "P-###", "@@#"]).map(
            lambda pattern, name=name: Column(name, role="id", pattern=pattern)
        )
        made.append(draw(columns(name) | other))
    info = TableInfo(
        draw(st.none() | NAMES.filter(str.strip)),
        draw(st.none() | st.sampled_from(list(Unit))),
        draw(st.none() | st.just(7)),
        blank=tuple(draw(st.lists(st.sampled_from(["?", "NA", -1]), max_size=2, unique=True))),
    )
    return Schema(info, tuple(made))
