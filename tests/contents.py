"""All that can be got out of an object: what somebody finds in it who was sent it.

`contents` looks at attributes, public and private, at properties, closures, arrays and frames, all the way down, at how
the object prints, and at its pickle. Two objects with the same contents tell the same.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import inspect
import math
import pickle
import pickletools
import re
import types
import warnings
import weakref
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

OURS = ("adumbra", "sklearn", "tests")
"""Packages whose properties are read. Those of others (polars, pydantic) say what their attributes say."""
PRINTED = ("__repr__", "__str__", "_repr_html_")
_COUNTED = re.compile(r"sk-[a-z-]+-id-\d+| at 0x[0-9a-f]+")
"""scikit-learn numbers the pictures it draws; Python says where an object stands."""
ASKED = ("get_params", "get_feature_names_out")
"""What scikit-learn asks of an estimator; names of columns do not depend on a row."""


def contents(thing: Any) -> dict[str, str]:
    """Place and value, as text, of everything in an object; what cannot be read says why."""
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # properties that are going away in a library warn when they are read
        found |= dict(_within("", thing, set(), []))
        for name in PRINTED:
            if hasattr(thing, name):
                found[f".{name}()"] = _COUNTED.sub("", _text(_called(thing, name)))
        for name in ASKED:
            if hasattr(thing, name):
                found |= dict(_within(f".{name}()", _called(thing, name), set(), []))
        found |= _pickled(thing)
    return found


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Places where two contents are not the same."""
    return sorted(place for place in {*one, *other} if one.get(place) != other.get(place))


def reachable(thing: Any) -> list[Any]:
    """Every object that is held by this one, however deep, itself included."""
    kept: list[Any] = []
    for _ in _within("", thing, set(), kept):
        pass
    return kept


def _called(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name)()
    except Exception as problem:  # a refusal is part of what can be seen
        return f"{type(problem).__name__}: {problem}"


def _pickled(thing: Any) -> dict[str, str]:
    """What stands in its pickle, step by step: numbers, texts, bytes; or why there is none."""
    try:
        written = pickle.dumps(thing, protocol=4)
    except Exception as problem:
        return {"pickle": f"{type(problem).__name__}: {problem}"}
    steps = pickletools.genops(written)
    return {f"pickle[{i}]": f"{step.name} {_text(value)}" for i, (step, value, _) in enumerate(steps)}


def _text(value: Any) -> str:
    """A value that holds no others."""
    if isinstance(value, float):
        return value.hex() if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, None | bool | int | str | complex | PurePath | enum.Enum | np.generic):
        return repr(value)
    return type(value).__qualname__


def _array(array: np.ndarray) -> str:
    """An array of plain numbers, to the last bit."""
    return f"{array.dtype} {array.shape} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, one level down."""
    if isinstance(thing, np.ndarray):
        yield "[...]", thing.tolist()
    elif isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, types.FunctionType):
        cells = inspect.getclosurevars(thing).nonlocals
        yield from ((f".{name}", value) for name, value in cells.items())
        yield from ((f"({i})", value) for i, value in enumerate(thing.__defaults__ or ()))
        yield from ((f"({name})", value) for name, value in (thing.__kwdefaults__ or {}).items())
    elif isinstance(thing, types.MethodType):
        yield from ((".__self__", thing.__self__), (".__func__", thing.__func__))
    elif isinstance(thing, functools.partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    elif isinstance(thing, weakref.finalize):
        yield ".peek", (thing.peek() or (None,))[1:]  # the object itself is what is being looked at
    elif isinstance(thing, Collection):
        order = sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing
        yield from ((f"[{i}]", value) for i, value in enumerate(order))
    else:
        yield from _attributes(thing)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    kind = type(thing)
    for name, value in dict(getattr(thing, "__dict__", {})).items():
        yield f".{name}", value
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with contextlib.suppress(AttributeError):
                yield f".{name}", getattr(thing, name)
        if base.__module__.split(".")[0] in OURS:
            for name, value in vars(base).items():
                if isinstance(value, property | functools.cached_property):
                    try:
                        yield f".{name}", getattr(thing, name)
                    except Exception as problem:  # a refusal is part of what can be seen
                        yield f".{name}", f"{type(problem).__name__}: {problem}"


def _within(place: str, thing: Any, seen: set[int], kept: list[Any]) -> Iterator[tuple[str, str]]:
    kept.append(thing)  # what a property made must live on, or another object gets its id
    if isinstance(thing, None | bool | int | float | str | bytes | complex | PurePath | enum.Enum | np.generic):
        yield place, _text(thing)
    elif isinstance(thing, pl.DataFrame | pl.Series | pd.DataFrame | pd.Series | pa.Table):
        yield place, f"{type(thing).__qualname__} {thing.shape} {hashlib.sha256(_written(thing)).hexdigest()}"
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        yield place, _array(thing)
    elif isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
        yield place, getattr(thing, "__qualname__", thing.__name__)
    elif id(thing) not in seen:
        seen.add(id(thing))
        yield place, type(thing).__qualname__
        for name, part in _parts(thing):
            yield from _within(place + name, part, seen, kept)


def _written(frame: Any) -> bytes:
    if isinstance(frame, pl.Series | pd.Series):
        frame = frame.to_frame("series")
    table = frame if isinstance(frame, pa.Table) else frame.to_arrow() if isinstance(frame, pl.DataFrame) else None
    table = pa.Table.from_pandas(frame) if table is None else table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
