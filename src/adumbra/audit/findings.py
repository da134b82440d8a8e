"""What an audit found: one finding for each promise that was attacked."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from adumbra.report.document import Document, Mark, Part, Table, Text, Value

__all__ = ["NOT_REFUTED", "REFUTED", "WORDING", "AuditReport", "Finding", "Measured"]

REFUTED, NOT_REFUTED = "REFUTED", "not refuted"
WORDING = (
    "An audit can refute a promise, never prove it: 'not refuted' says only that these attacks, on these tables, "
    "with this many runs, found nothing."
)


@dataclass(frozen=True)
class Measured:
    """The attack's trade-off as measured: for growing thresholds, how often each table set off the alarm.

    `low` and `high` bound `power` (Clopper-Pearson, each threshold for itself): a picture, not the verdict.
    """

    false_alarms: tuple[float, ...]
    power: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Finding:
    """One promise under attack."""

    target: str
    """Name of a mechanism, or `published/NAME` and the reading of the paper."""
    neighbours: str
    """`row/replace`, ...: whose change was to be noticed."""
    pair: str
    """The two tables, in words."""
    epsilon: float
    """Claimed."""
    delta: float
    lower_bound: float
    """Epsilon is at least this, with the stated confidence. Method `gaussian`: that of Gaussian noise, which is what
    is promised then; where later measurements depend on earlier ones, the epsilon of this one pair may be less."""
    confidence: float
    method: str
    """The bound that gave it: threshold, gaussian, laplace, one-run, classifier."""
    runs: int
    """Draws of the mechanism on both tables together (canaries, in a one-run audit)."""
    seconds: float
    exact: float | None = None
    """Epsilon of this pair at this delta, if the noise is what it says it is; None where no formula gives it. Where
    later measurements depend on earlier ones it is worked out from the (quadratic) mean over the runs."""
    family: str = "approximate"
    """Shape of the claimed trade-off curve: approximate, gaussian or laplace."""
    measured: Measured | None = field(default=None, repr=False)
    note: str = ""

    @property
    def verdict(self) -> str:
        """In a word."""
        return REFUTED if self.lower_bound > self.epsilon else NOT_REFUTED

    def to_json(self) -> dict[str, Any]:
        """Plain values; `claimed` and `verdict` are what scripts look for. Infinity is written as a word."""
        out = dataclasses.asdict(self)
        out["claimed"] = out.pop("epsilon")
        out["verdict"] = self.verdict
        if out["exact"] == float("inf"):
            out["exact"] = "infinite"
        return out


@dataclass(frozen=True)
class AuditReport:
    """All findings of one audit. All lower bounds hold jointly at `confidence`."""

    findings: tuple[Finding, ...]
    confidence: float
    library: str

    @property
    def refuted(self) -> tuple[Finding, ...]:
        """Those whose promise cannot hold."""
        return tuple(finding for finding in self.findings if finding.verdict == REFUTED)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "wording": WORDING,
            "library": self.library,
            "confidence": self.confidence,
            "refuted": len(self.refuted),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def document(self) -> Document:
        """What was found, in short; `page_document` has the same at length and in pictures."""
        findings = tuple(enumerate(self.findings, 1))
        rows: list[dict[str, Value]] = [
            {
                "#": number,
                "target": found.target,
                "neighbours": found.neighbours,
                "claimed": f"{found.epsilon:g}",
                "delta": f"{found.delta:g}",
                "lower bound": f"{math.floor(found.lower_bound * 1000) / 1000:.3f}",
                "exact": "-" if found.exact is None else f"{found.exact:.4g}",
                "verdict": Mark(found.verdict, "bad" if found.verdict == REFUTED else "plain"),
                "method": found.method,
                "runs": found.runs,
                "s": f"{found.seconds:.1f}",
            }
            for number, found in findings
        ]
        pairs = tuple((number, "; ".join(t for t in (found.pair, found.note) if t)) for number, found in findings)
        above = [f for f in self.findings if f not in self.refuted and f.exact is not None and f.exact > f.epsilon]
        parts: list[Part] = [
            dataclasses.replace(Table.of(rows), long="target"),
            Table(("#", "which tables"), pairs, long="which tables"),
        ]
        if above:
            parts.append(
                Text(
                    f"{len(above)} more cannot hold by formula (exact above the claim), by too little for so many runs."
                )
            )
        parts.append(Text(f"All lower bounds hold at once with confidence {self.confidence:g}. {WORDING}"))
        title = f"audit: {len(self.findings)} attacks, {len(self.refuted)} claims refuted"
        return Document(title, tuple(parts), self.to_json())
