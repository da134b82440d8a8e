"""Likely rules of a table: candidates from a sample of rows, each tried on all rows, the strongest asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from adumbra.tables.drafting.finding import ColumnFinding, question, suggestion
from adumbra.tables.drafting.missing_rules import missing_rules
from adumbra.tables.drafting.number_rules import Derived, Order, derived_rules, order_rules
from adumbra.tables.drafting.pair_rules import Dependence, Implication, pair_rules
from adumbra.tables.drafting.rule import MaybeRule
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.matrix import Unnamed
from adumbra.tables.table import Table

__all__ = ["Question", "find_rules"]

_MOST = 10
_TRIED = 40
_LEAST_ROWS = 50


@dataclass(frozen=True)
class Question:
    """Lines that ask about a rule, for the column that may be computed, or for the end of the file."""

    lines: tuple[str, ...]
    column: str | None = None


def find_rules(table: Table, findings: Sequence[ColumnFinding], sample: pl.DataFrame) -> list[Question]:
    """What may always be so between the columns of `table`.

    `findings` say how its cells are read; `sample` has some of its rows, in which candidates are sought. Each is then
    tried on all rows.
    """
    usable = [f for f in findings if f.kind not in (None, "set", "time", "duration") and "`" not in f.name]
    if len(usable) < 2 or sample.height < _LEAST_ROWS:
        return []
    known = {f.name: f for f in usable}
    with np.errstate(over="ignore", invalid="ignore"):  # cells may be as large as numbers get
        return _chosen(_held(table, known, SomeRows(sample, known)))


def _held(table: Table, known: dict[str, ColumnFinding], cells: SomeRows) -> list[MaybeRule]:
    """Candidates from the sample that held in all rows of the table."""
    usable = list(known.values())
    computed = derived_rules(cells, usable)
    following, bringing = pair_rules(cells, usable)
    orders = order_rules(cells, usable)
    gaps = missing_rules(cells, usable)
    following = sorted(following, key=_nearest_first)[:_TRIED]
    bringing = sorted(bringing, key=lambda rule: -rule.strength)[: 2 * _TRIED]
    tried: list[MaybeRule] = [*computed, *following, *bringing, *orders, *gaps]
    asked = {name for rule in tried for name in rule.columns}
    unnamed = isinstance(table.columns, Unnamed)  # read whole, or not at all
    names = [name for name in table.columns if name in asked or (unnamed and asked)]
    for batch in table.batches(names) if names else ():
        rows = SomeRows(batch, known)
        for rule in tried:
            rule.add(rows)
    return [rule for rule in tried if rule.holds]


def _nearest_first(rule: Dependence) -> tuple[int, float]:
    """The source of fewest values says most clearly what follows."""
    return (rule.source.look.different, -rule.strength)


def _put_together(computed: Sequence[Derived]) -> tuple[list[Question], set[str], set[str]]:
    """Columns made of two others (a time as hhmm of its hour and minute): the parts are measured, the whole computed.

    With them, the columns that follow from others, and those that others follow from.
    """
    found, follow, lead = list[Question](), set[str](), set[str]()
    for high in computed:
        part, _, unit = high.text.rpartition(" // ")
        low = next((rule for rule in computed if part and rule.text == f"{part} % {unit}"), None)
        if low is None or {*high.columns, *low.columns} & (follow | lead):
            continue
        names = [name if name.isidentifier() else f"`{name}`" for name in (high.target.name, low.target.name)]
        text, whole = f"{names[0]} * {unit} + {names[1]}", high.sources[0]
        asked = f"is it always {text}? then it is computed, not measured"
        found.append(Question((question(asked), suggestion("derived", text)), whole))
        follow.add(whole)
        lead |= {high.target.name, low.target.name}
    return found, follow, lead


def _chosen(held: Sequence[MaybeRule]) -> list[Question]:
    """The strongest of each sort, such that no column follows from two others, nor from one that follows itself."""
    found, follow, lead = _put_together([rule for rule in held if isinstance(rule, Derived)])
    pairs, dependent = set[frozenset[str]](), 0
    for rule in held:
        if isinstance(rule, Derived) and not ({rule.target.name} & (follow | lead) or set(rule.sources) & follow):
            found.append(Question(tuple(rule.lines()), rule.target.name))
            follow.add(rule.target.name)
            lead |= set(rule.sources)
    for rule in held:
        if isinstance(rule, Dependence):
            source, target = rule.columns
            if target not in follow | lead and source not in follow and dependent < _MOST:
                found.append(Question(tuple(rule.lines())))
                dependent += 1
                follow.add(target)
                lead.add(source)
            pairs.add(frozenset(rule.columns))
    others = [rule for rule in held if not isinstance(rule, Derived | Dependence) and not set(rule.columns) & follow]
    for sort in (Order, Implication, MaybeRule):
        of_sort = [rule for rule in others if isinstance(rule, sort)]
        others = [rule for rule in others if not isinstance(rule, sort)]
        if sort is Implication:
            of_sort = [rule for rule in of_sort if frozenset(rule.columns) not in pairs]
        of_sort.sort(key=lambda rule: -rule.strength)
        found += [Question(tuple(rule.lines())) for rule in of_sort[:_MOST]]
    return found
