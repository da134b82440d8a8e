"""A plan as a document: what would be measured, with which noise, what to expect and what it would cost."""

from __future__ import annotations

import math
from typing import Any

from adumbra.accounting.accountant import epsilon_of
from adumbra.declare.in_words import unmeasured_in_words
from adumbra.declare.space import GRID
from adumbra.job import Plan
from adumbra.ledger.ledger import Ledger
from adumbra.report.document import Document, Facts, Section, Table

__all__ = ["plan_document"]

_MEASURED = ("line", "share", "query", "noise", "sigma", "sensitivity", "account")


def plan_document(plan: Plan, ledger: Ledger, begun: bool) -> Document:
    """A `plan`, and what it would add to the `ledger`; one that is not `begun` holds nothing."""
    facts = _facts(plan, ledger, begun)
    promise, rows = plan.job.promise, facts["rows"]
    bound = facts["row_bound"]
    about = [
        (
            "table",
            f"{facts['table']}: {'a private number of' if rows is None else rows} rows, {facts['columns']} columns, "
            f"{facts['coordinates']} encoded coordinates",
        ),
        ("promise", str(promise)),
        ("mechanism", f"{facts['mechanism']}: {facts['releases']}"),
        *([("why this one", facts["choice"])] if facts["choice"] else []),
        *([("not measured", facts["not_measured"])] if facts["not_measured"] else []),
        *([("rules", f"{facts['rules']}: rows that are drawn obey all of them")] if facts["rules"] else []),
        ("seed", facts["seed"]),
        ("row bound", "none given" if bound is None else f"{bound:g} in encoded units"),
        ("ledger", facts["ledger"] + (" (new)" if facts["ledger_is_new"] else "")),
    ]
    measured = Table(_MEASURED, tuple(tuple(line[key] for key in _MEASURED) for line in facts["lines"]))
    costs = Table(
        ("unit/relation", "epsilon of this release"),
        tuple((key, _epsilon(cost)) for key, cost in facts["costs"].items()),
    )
    after = (
        f"{facts['table']}, {promise.neighbours}, delta {promise.delta:g}",
        _epsilon(facts["ledger_epsilon_after"]),
        f"{facts['ledger_charges_before']} earlier and {len(facts['lines'])} of this release",
    )
    return Document(
        "plan: nothing measured, nothing charged",
        (
            Facts(tuple(about)),
            Section("measurements (sigma and sensitivity in encoded units, of counts in rows)", (measured,)),
            Section("what to expect", (Facts(tuple(facts["outlook"].items())),)),
            Section(
                f"what the ledger would hold, at delta = {promise.delta:g}",
                (costs, Table(("ledger afterwards", "total epsilon", "charges"), (after,))),
            ),
        ),
        facts,
    )


def _epsilon(value: float | None) -> str | float:
    return "no finite epsilon" if value is None else value


def _facts(plan: Plan, ledger: Ledger, begun: bool) -> dict[str, Any]:
    """Everything a plan says, as plain values."""
    job, promise = plan.job, plan.job.promise
    key = str(promise.neighbours)
    events = {line: calibration.event for line, calibration in plan.calibrations.items()}
    spent = ledger.events(job.name) if begun else []
    after = epsilon_of([*spent, *events.values()], promise.neighbours, promise.delta)
    bound = job.space.row_bound
    return {
        "table": job.name,
        "rows": job.setting.rows,
        "columns": len(job.space.blocks),
        "coordinates": job.space.width,
        "not_measured": unmeasured_in_words(job.schema),
        "rules": len(job.schema.rules.texts()),
        "mechanism": job.mechanism.name,
        "choice": job.choice,
        "releases": job.mechanism.releases,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "unit": promise.neighbours.unit.value,
        "relation": promise.neighbours.relation.value,
        "row_bound": None if bound is None else bound / GRID,
        "seed": job.setting.seed.origin,
        "lines": [
            {
                "line": line,
                "share": plan.shares[line],
                "query": plan.queries[line].describe(),
                "noise": event.noise,
                "sigma": event.sd,
                "sensitivity": event.sensitivity[key],
                "account": plan.calibrations[line].account,
                "slack": event.slack,
            }
            for line, event in events.items()
        ],
        "outlook": dict(job.mechanism.outlook(job.setting, promise, events)),
        "costs": dict(plan.costs),
        "ledger": ledger.name,
        "ledger_is_new": not begun,
        "ledger_charges_before": len(spent),
        "ledger_epsilon_after": after if math.isfinite(after) else None,
    }
