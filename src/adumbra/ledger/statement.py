"""What stands in a ledger, as a document: its lines and, if it is whole, what was spent."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from adumbra.accounting.accountant import epsilon_of
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, promise_in_words
from adumbra.ledger.lines import Entry, Line
from adumbra.report.document import Document, Part, Section, Table, Text, Value

if TYPE_CHECKING:
    from adumbra.accounting.events import Event
    from adumbra.ledger.ledger import LedgerReport

__all__ = ["ledger_document"]

Costs = dict[str, dict[str, float | None]]


def ledger_document(report: LedgerReport, table: str | None, delta: float) -> Document:
    """A ledger's `report` of one `table` or (None) of all, with the epsilon spent at this `delta`.

    Of a ledger that is not whole there are only the lines: its totals cannot be trusted.
    """
    totals = None if report.problems else _totals(report, table, delta)
    if totals is not None and table is not None and table not in totals:
        known = ", ".join(sorted({e.table for e in report.entries})) or "none yet"
        raise InputError("a table of the ledger", f"{table!r}", f"use one of: {known}")
    # a line that cannot be read may be about this table too
    lines = [line for line in report.lines if not isinstance(line, Entry) or table in (None, line.table)]
    head = ("line", "time", "kind", "table", "what", "promise")
    parts: list[Part] = [Section("charges and caps", (Table(head, tuple(map(_cells, lines)), long="what"),))]
    if totals is not None:
        spent = tuple(
            (name, key, "no finite epsilon" if value is None else value)
            for name, costs in totals.items()
            for key, value in costs.items()
        )
        parts.append(Section(f"spent, at delta = {delta:g}", (Table(("table", "unit/relation", "epsilon"), spent),)))
        parts.append(Text(f"whole: {len(report.lines)} lines, chain unbroken"))
    data = {
        "delta": delta,
        "whole": not report.problems,
        "problems": report.problems,
        "entries": [dataclasses.asdict(line) for line in lines],
        "totals": totals,
    }
    return Document("ledger", tuple(parts), data)


def _totals(report: LedgerReport, table: str | None, delta: float) -> Costs:
    """Epsilon of each table for every unit and relation."""
    events: dict[str, list[Event]] = {}
    for entry in report.entries:
        if table in (None, entry.table):
            events.setdefault(entry.table, []).extend([] if entry.event is None else [entry.event])
    return {
        name: {str(n): _finite(epsilon_of(found, n, delta)) for n in Neighbours.every()}
        for name, found in sorted(events.items())
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cells(line: Line) -> tuple[Value, ...]:
    if not isinstance(line, Entry):
        return (line.sequence, "", "unreadable", "", line.why, "")
    return (line.sequence, line.time, line.kind, line.table, *_words(line))


def _words(entry: Entry) -> tuple[str, str]:
    """What a line did and what it promised."""
    body = entry.body
    if entry.kind == "withdrawal":
        return f"withdraws the cap of line {body['withdraws']}", ""
    promise = _promise(body["promise"] if entry.kind == "charge" else body)
    if entry.kind == "cap":
        return "cap", promise
    return f"{body['mechanism']} {body['line']}, release {body['release_id']}", promise


def _promise(stated: dict[str, object]) -> str:
    """A damaged line may hold anything."""
    epsilon, delta, neighbours = (stated.get(name) for name in ("epsilon", "delta", "neighbours"))
    if isinstance(epsilon, int | float) and isinstance(delta, int | float) and isinstance(neighbours, str):
        unit, _, relation = neighbours.partition("/")
        return promise_in_words(epsilon, delta, unit, relation)
    return f"epsilon {epsilon}, delta {delta}, {neighbours}"
