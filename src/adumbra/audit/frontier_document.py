"""The trade-off of utility-aware releases as a document."""

from __future__ import annotations

from adumbra.audit.adversaries import STATEMENT
from adumbra.audit.utility_frontier import CAUTION, Frontier
from adumbra.report.document import Document, Note, Part, Table, Text, Value

__all__ = ["frontier_document"]


def frontier_document(found: Frontier) -> Document:
    """What was `found` of every recipe, in per cent right."""
    rows: list[dict[str, Value]] = [
        {
            "release": row["label"],
            "service": _with_sd(row["utility"], row["utility_sd"]),
            "retrained": _percent(row["retrained"]),
            "paper's adversary": _percent(row["papers"]),
            "worst adaptive": _with_sd(row["worst"], row["worst_sd"]),
            "chance": _percent(row["chance"]),
            "holds": bool(row["holds"]),
            "unreached": _percent(row["not_reached"]),
        }
        for row in found.table()
    ]
    served, hidden = ", ".join(found.utility), ", ".join(found.privacy)
    parts: list[Part] = [
        Table.of(rows),
        *(Note(f"not tried: {label} ({reason})") for label, reason in found.refused),
        Text(f"{STATEMENT} {CAUTION}"),
    ]
    return Document(f"serve {served}, hide {hidden}: per cent, means of fresh splits: {found.splits}", tuple(parts))


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f}"  # NaN where nothing was released


def _with_sd(share: float, deviation: float) -> str:
    return _percent(share) + ("" if deviation != deviation else f" ± {100 * deviation:.1f}")
