"""Decoded rows as a release has them: with what follows from other columns, fresh ids, declared types, in order."""

from __future__ import annotations

import math
import re

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.declare.schema import Schema

__all__ = ["as_released", "check_ids"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def as_released(frame: pl.DataFrame, schema: Schema, first: int = 0) -> pl.DataFrame:
    """The released columns of rows whose measured columns were decoded, of which `first` came before.

    >>> schema = Schema.from_dict({"columns": {"id": {"role": "id", "pattern": "P-##"}, "ill": {"kind": "flag"}}})
    >>> as_released(pl.DataFrame({"ill": [True, None]}), schema).rows()
    [('P-00', True), ('P-01', None)]
    """
    if schema.rules:
        frame = schema.rules.complete(frame)
    columns = {}
    for column in schema.released:
        if column.role == "id":
            columns[column.name] = _ids(column, first, frame.height)
        else:
            columns[column.name] = column.cells.store(frame.get_column(column.name))
    return pl.DataFrame(columns)


def check_ids(schema: Schema, rows: int) -> None:
    """Refuse a pattern of ids that has fewer than there will be rows."""
    for column in schema.released:
        if column.role == "id" and column.pattern is not None and (most := _capacity(column.pattern)) < rows:
            raise InputError(
                f"column {column.name!r}: a pattern for {rows:,} ids",
                f"{column.pattern!r}, which has {most:,}",
                "write a pattern with more # (digits) or @ (letters), or ask for fewer --rows",
            )


def _capacity(pattern: str) -> int:
    return math.prod(10 if sign == "#" else 26 for sign in re.findall("[#@]", pattern))


def _ids(column: Column, first: int, rows: int) -> pl.Series:
    """Counted up from the first one of the pattern; without a pattern from 1.

    Where the pattern has fewer (how many rows there are may come out of the noise), what is left over stands before
    its first sign: no id comes twice.
    """
    number = np.arange(first, first + rows, dtype=np.int64)
    if column.pattern is None:
        return pl.Series(number + 1)
    parts: list[pl.Series | str] = []
    for sign in reversed(column.pattern):
        if sign == "#":
            number, digit = np.divmod(number, 10)
            parts.append(pl.Series(digit).cast(pl.String))
        elif sign == "@":
            number, letter = np.divmod(number, 26)
            parts.append(pl.Series(list(_LETTERS)).gather(letter))
        else:
            parts.append(sign)
    if number.any():
        over = pl.Series(number).cast(pl.String).set(pl.Series(number == 0), "")
        parts.insert(len(column.pattern) - min(map(column.pattern.find, _signs(column.pattern))), over)
    return pl.select(pl.concat_str(pl.lit(part) for part in reversed(parts))).to_series().cast(pl.String)


def _signs(pattern: str) -> set[str]:
    """Which of its signs stand for something."""
    return {"#", "@"} & set(pattern)
