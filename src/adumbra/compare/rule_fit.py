"""How many rows of each table break the declared rules (owner's side: the true numbers are private)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from adumbra.common.interrupts import stop_if_asked
from adumbra.common.types import Integers
from adumbra.compare.comparison import MOST_SHOWN, more, share
from adumbra.compare.table_layout import compared_schema
from adumbra.declare.schema import Schema
from adumbra.report.document import Note, Section, Table
from adumbra.tables.encode import read_cells
from adumbra.tables.row_source import partition_rows
from adumbra.tables.table import Table as ReadTable

__all__ = ["ANY_RULE", "RuleFit", "rule_fits", "rules_section"]

ANY_RULE = "any of them"


@dataclass(frozen=True)
class RuleFit:
    """One rule (or any of them) in both tables: rows that break it, and their share."""

    rule: str
    truth_rows: int
    truth_share: float
    release_rows: int
    release_share: float


def rule_fits(schema: Schema, truth: ReadTable, release: ReadTable) -> tuple[RuleFit, ...]:
    """Every rule of the schema, over all rows; where there are several, first the rows that break any.

    `truth` and `release` are read batch by batch, each with the derived and dependent columns that it has: one that it
    lacks breaks nothing.
    """
    if not schema.rules:
        return ()
    texts = schema.rules.texts()
    rows = truth.count(), release.count()
    counts = [_broken(schema, table) for table in (truth, release)]
    fits = [
        RuleFit(text, int(a), int(a) / rows[0], int(b), int(b) / rows[1])
        for text, a, b in zip([ANY_RULE, *texts], *counts, strict=True)
    ]
    return tuple(fits if len(texts) > 1 else fits[1:])


def _broken(schema: Schema, table: ReadTable) -> Integers:
    """Rows that break any rule, then those that break each."""
    found = np.zeros(1 + len(schema.rules.texts()), dtype=np.int64)
    for frame in _cells(schema, table):
        broken = schema.rules.broken(frame).to_numpy().astype(np.bool_)
        found += [np.count_nonzero(broken.any(axis=1)), *np.count_nonzero(broken, axis=0)]
    return found


def _cells(schema: Schema, table: ReadTable) -> Iterator[pl.DataFrame]:
    """The table's cells as declared, batch by batch, of the columns that rules look at."""
    held, needed = compared_schema(schema, table), schema.rules.needs()
    own = Schema(schema.table, tuple(column for column in held.columns if column.name in needed))
    names = [column.name for column in held.measured]
    for frame in table.batches(names, partition_rows(len(names))):
        stop_if_asked()
        yield read_cells(frame, own)


def rules_section(fits: tuple[RuleFit, ...]) -> Section:
    """A table of the rules."""
    heads = ("rule", "truth: rows that break it", "share", "release: rows that break it", "share")
    rows = tuple(
        (fit.rule, fit.truth_rows, share(fit.truth_share), fit.release_rows, share(fit.release_share))
        for fit in fits[:MOST_SHOWN]
    )
    note = Note(
        "cells are read as the schema declares them (clipped to the range, rounded to the step), so a cell outside its "
        "range is judged at its end; a rule that an empty cell leaves open is not broken"
    )
    return Section("rules" + more(len(fits)), (Table(heads, rows), note))
