"""`adumbra plan`: a dry run, printed."""

from __future__ import annotations

import math
from typing import Any

from adumbra.cli.output import print_table
from adumbra.core.space import GRID
from adumbra.pipeline import Plan
from adumbra.privacy.accounting import epsilon_of
from adumbra.privacy.ledger import Ledger

__all__ = ["plan_facts", "print_plan"]


def plan_facts(plan: Plan, ledger: Ledger, begun: bool) -> dict[str, Any]:
    """Everything a plan says, as plain values; a ledger that is not begun holds nothing."""
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
        "ledger": str(ledger.path),
        "ledger_is_new": not begun,
        "ledger_charges_before": len(spent),
        "ledger_epsilon_after": after if math.isfinite(after) else None,
    }


def print_plan(facts: dict[str, Any]) -> None:
    """The same for people."""
    rows = "a private number of" if facts["rows"] is None else facts["rows"]
    print_table(
        "plan: nothing measured, nothing charged",
        ("what", "value"),
        [
            ("table", f"{facts['table']}: {rows} rows, {facts['columns']} columns, "
                      f"{facts['coordinates']} encoded coordinates"),
            ("promise", f"epsilon {facts['epsilon']:g}, delta {facts['delta']:g}, unit {facts['unit']}, "
                        f"relation {facts['relation']}"),
            ("mechanism", f"{facts['mechanism']}: {facts['releases']}"),
            *([("why this one", facts["choice"])] if facts["choice"] else []),
            ("seed", facts["seed"]),
            ("row bound", "none given" if facts["row_bound"] is None
             else f"{facts['row_bound']:g} in encoded units"),
            ("ledger", facts["ledger"] + (" (new)" if facts["ledger_is_new"] else "")),
        ],
    )  # fmt: skip
    print_table(
        "measurements (sigma and sensitivity in encoded units, of counts in rows)",
        ("line", "share", "query", "noise", "sigma", "sensitivity", "account"),
        [
            tuple(line[key] for key in ("line", "share", "query", "noise", "sigma", "sensitivity", "account"))
            for line in facts["lines"]
        ],
    )
    print_table("what to expect", ("what", "value"), list(facts["outlook"].items()))
    print_table(
        f"what the ledger would hold, at delta = {facts['delta']:g}",
        ("unit/relation", "epsilon of this release"),
        [(key, "no finite epsilon" if cost is None else cost) for key, cost in facts["costs"].items()],
    )
    after = facts["ledger_epsilon_after"]
    before = facts["ledger_charges_before"]
    print_table(
        "",
        ("ledger afterwards", "total epsilon", "charges"),
        [
            (
                f"{facts['table']}, {facts['unit']}/{facts['relation']}, delta {facts['delta']:g}",
                "no finite epsilon" if after is None else after,
                f"{before} earlier and {len(facts['lines'])} of this release",
            )
        ],
    )
