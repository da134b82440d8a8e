"""An audit as one page: a file that a browser shows offline, on a phone and on paper.

It repeats the report and adds nothing to it: every verdict is the finding's own. The pictures show what was measured
beside what was claimed; they are no verdict, and the page says so. Numbers are rounded so that the page never says
more than the audit does: lower bounds, shares and confidence down.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from adumbra.audit.findings import REFUTED, WORDING, AuditReport, Finding, Measured
from adumbra.audit.hypothesis_curves import claimed
from adumbra.audit.picture import LEGEND, Function, in_order, panels, percent
from adumbra.common.types import Reals
from adumbra.report.document import (
    Document,
    Facts,
    Figure,
    Gauge,
    Link,
    Mark,
    Note,
    Part,
    Section,
    Table,
    Text,
    Tone,
    Value,
    Verbatim,
)
from adumbra.report.svg import positional

__all__ = ["page_document"]


def page_document(report: AuditReport, command: str | None = None) -> Document:
    """The `report` with its pictures, and how to read it; `command` is shown as the way to repeat the audit.

    Refuted promises come first, otherwise the order is the report's. An empty report gives a page that says that
    nothing was audited.
    """
    findings = sorted(report.findings, key=lambda finding: finding.verdict != REFUTED)
    pictures = [_picture(number, finding) for number, finding in enumerate(findings, 1) if _has_picture(finding)]
    refuted = f"{len(report.refuted)} of {_promises(len(findings))} refuted" if findings else "nothing was audited"
    repeat = (Text("Where the noise is drawn anew, the numbers will differ a little."), Verbatim(command or ""))
    parts: list[Part] = [
        Text(_audited(findings)),
        Note(WORDING),
        _summary(report),
        *([_table(findings)] if findings else []),
        _HOW_TO_READ,
        *([Section("The attacks in pictures", tuple(pictures))] if pictures else []),
        *([Section("Repeat it", repeat)] if command else []),
        Text(f"Written by {report.library}."),
    ]
    return Document(f"Privacy audit: {refuted}", tuple(parts), report.to_json())


# ---------------------------------------------------------------------------------------------------------- words


def _promises(count: int) -> str:
    return f"{count} promise{'' if count == 1 else 's'}"


def _short(value: float) -> str:
    """A claim as people write it: 1e-6, not 1e-06."""
    return f"{value:.12g}".replace("e-0", "e-").replace("e+0", "e+")


def _plain(value: float, places: int) -> str:
    """To so many places, without zeros at the end."""
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def _confidence(confidence: float) -> str:
    """Rounded down: 0.99999 is not 100%. The small nudge keeps 0.95 from becoming 94.99%."""
    places = 2 if confidence >= 1 else max(2, math.ceil(-math.log10(1 - confidence)))
    return f"{_plain(math.floor(confidence * 10.0 ** (places + 2) + 1e-6) / 10.0**places, places)}%"


def _lower(finding: Finding) -> str:
    """The bound, rounded down, with as many digits as it takes to stay above a claim that it refutes."""
    value = finding.lower_bound
    if not math.isfinite(value):
        return "infinite"
    for places in range(3, 16):
        shown = math.floor(value * 10**places) / 10**places
        if finding.verdict != REFUTED or shown > finding.epsilon:
            return _plain(shown, places)
    return repr(value)


def _share(finding: Finding) -> float:
    """Of the claim, by the lower bound. A claim of 0 is reached by nothing, or infinitely exceeded."""
    if finding.epsilon > 0:
        return finding.lower_bound / finding.epsilon
    return math.inf if finding.lower_bound > 0 else 0.0


def _share_in_words(share: float) -> str:
    if not math.isfinite(share):
        return "infinite"
    if 1 < share < 1.01:
        return "over 100%"
    return f"{math.floor(100 * share):,}%"


def _above(finding: Finding) -> bool:
    """The formula refutes what sampling did not: a reader must not take `not refuted` for a pass."""
    return finding.verdict != REFUTED and finding.exact is not None and finding.exact > finding.epsilon * (1 + 1e-6)


def _exact(finding: Finding) -> Value:
    if finding.exact is None:
        return "no formula"
    shown = positional(finding.exact, 4)
    return Mark(f"{shown}, above the claim", "bad") if _above(finding) else shown


def _claim(finding: Finding) -> str:
    return f"epsilon {_short(finding.epsilon)}" + (f", delta {_short(finding.delta)}" if finding.delta else "")


def _tone(finding: Finding) -> Tone:
    return "bad" if finding.verdict == REFUTED else "plain"


# ---------------------------------------------------------------------------------------------------------- parts


def _audited(findings: list[Finding]) -> str:
    """What was attacked: each target once, with its kinds of neighbours."""
    if not findings:
        return "Nothing was audited."
    kinds: dict[str, list[str]] = {}
    for finding in findings:
        seen = kinds.setdefault(finding.target, [])
        if finding.neighbours not in seen:
            seen.append(finding.neighbours)
    return "Audited: " + "; ".join(f"{name} ({', '.join(seen)})" for name, seen in kinds.items()) + "."


def _summary(report: AuditReport) -> Note:
    """The counts, and what the confidence is a confidence in."""
    count, refuted = len(report.findings), len(report.refuted)
    if not count:
        return Note("Nothing was attacked.")
    bounds = "the lower bound holds" if count == 1 else f"all {count} lower bounds hold at once"
    words = f"With {_confidence(report.confidence)} confidence {bounds}."
    quiet = sum(_above(finding) for finding in report.findings)
    if quiet:
        words += (
            f" Of those not refuted, {quiet} cannot hold by the formula (see the column `exact at this pair`), "
            "though sampling did not show it."
        )
    lead = f"{count} attack{'' if count == 1 else 's'}, {refuted} refuted."
    return Note(words, "caution" if refuted or quiet else "note", lead)


def _table(findings: list[Finding]) -> Table:
    rows: list[dict[str, Value]] = [
        {
            "verdict": Mark(finding.verdict, _tone(finding)),
            "target": Link(finding.target, f"finding-{number}") if _has_picture(finding) else finding.target,
            "neighbours": finding.neighbours,
            "pair": finding.pair,
            "claimed": [_short(finding.epsilon), *([f"delta {_short(finding.delta)}"] if finding.delta else [])],
            "lower bound": _lower(finding),
            "exact at this pair": _exact(finding),
            "share of claim reached": Gauge(_share_in_words(_share(finding)), _share(finding), _tone(finding)),
            "method": finding.method,
            "runs": f"{finding.runs:,}",
            "seconds": positional(finding.seconds, 2) if finding.seconds < 10 else f"{finding.seconds:,.0f}",
        }
        for number, finding in enumerate(findings, 1)
    ]
    caption = "Every promise that was attacked. Lower bound, exact and claimed are values of epsilon."
    return dataclasses.replace(Table.of(rows, caption), notes=tuple(finding.note for finding in findings))


# ------------------------------------------------------------------------------------------------------- pictures


def _has_picture(finding: Finding) -> bool:
    return finding.measured is not None and len(finding.measured.false_alarms) > 0


def _picture(number: int, finding: Finding) -> Figure:
    """Two panels, all false alarms and the rare ones, and the same in words."""
    assert finding.measured is not None
    curve = claimed(finding.family, finding.epsilon, finding.delta)

    def allowed(false_alarms: Reals) -> Reals:
        return np.clip(np.asarray(curve.power(false_alarms), dtype=np.float64), 0.0, 1.0)

    seen = in_order(finding.measured)
    words = _in_words(finding, seen, allowed)
    return Figure(
        f"finding-{number}",
        lambda: panels(words, seen, allowed, finding.runs),
        words,
        title=f"{finding.target}, {finding.neighbours}: {finding.pair}",
        mark=Mark(finding.verdict, _tone(finding)),
        legend=LEGEND,
    )


def _in_words(finding: Finding, seen: Measured, allowed: Function) -> str:
    """What the picture shows, at its most telling threshold.

    For a refuted claim that is where the lower end of the band rises most above it. Otherwise, or where the band
    stays below (a fit sees more than any one threshold), it is where power exceeds false alarms most.
    """
    limit = allowed(np.array(seen.false_alarms))
    excess = np.array(seen.low) - limit
    use_excess = finding.verdict == REFUTED and excess.max() > 0
    at = int(np.argmax(excess if use_excess else np.array(seen.power) - np.array(seen.false_alarms)))
    remark = ""
    if finding.verdict == REFUTED and not use_excess:
        remark = "; what refutes it lies between the thresholds drawn, or in all of them together"
    elif finding.verdict != REFUTED and excess[at] > 0:
        remark = (
            "; the band lies above that, but leaves room for luck in the power only, while the bound must hold for more"
        )
    elif finding.verdict != REFUTED and seen.power[at] > limit[at]:
        remark = ", and so small an excess can be luck"
    return (
        f"Claimed: {_claim(finding)} ({finding.family} curve). At its most telling threshold the alarm rang in "
        f"{percent(seen.power[at])} of the runs on the right table (band: {percent(seen.low[at])} to "
        f"{percent(seen.high[at])}) and in {percent(seen.false_alarms[at])} of those on the wrong one; "
        f"the claim allows at most {percent(float(limit[at]))} there{remark}. Epsilon is at least {_lower(finding)} "
        f"with {_confidence(finding.confidence)} confidence ({finding.method}): {finding.verdict}."
    )


# ------------------------------------------------------------------------------------------------------ fixed text


_HOW_TO_READ = Section(
    "How to read this",
    (
        Text(
            "A release promises that it is hard to tell from it whether a table or its neighbour (the same table with "
            "one row or one cell changed) was behind it. Epsilon says how well anyone can at most tell; delta is a "
            "small extra allowance. An audit picks two neighbouring tables, runs the mechanism many times on both, "
            "and counts how often it can tell which was which."
        ),
        Facts(
            (
                ("claimed", "the epsilon (and delta) that was promised."),
                (
                    "lower bound",
                    "epsilon is at least this, by the counts, with the confidence stated above. If it exceeds the "
                    "claim, the promise is REFUTED. Bad luck refutes a promise that holds only as often as the "
                    "confidence leaves room for.",
                ),
                (
                    "exact at this pair",
                    "what the formula gives for these two tables if the noise is what it says it is. No attack on "
                    "this pair can get beyond it. Other pairs may have more.",
                ),
                (
                    "share of claim reached",
                    "lower bound over claim; the mark on the bar is 100%. A long bar that stops before the mark is a "
                    "good sign: the attack is strong and the promise stood. A short bar says little, either way.",
                ),
                (
                    "neighbours",
                    "unit and relation: what may change between the two tables (a row or a cell), and how (replaced, "
                    "emptied, added or removed).",
                ),
                (
                    "method",
                    Text(
                        "`threshold`: one alarm, counted on both tables. `gaussian`, `laplace`: the counts against "
                        "the whole curve of that noise. `classifier`: the alarm was learned from other runs. "
                        "`one-run`: many planted rows in a single run; runs are then planted rows."
                    ),
                ),
            )
        ),
        Text(
            "In a picture, an alarm rings when a run looks like the right table. Along the bottom: how often it rang "
            "for the wrong table. Upwards: how often it rang for the right one. Guessing gets the dotted diagonal; "
            "the claim allows nothing above the dashed line. A band that rises well into the forbidden region is what "
            "a broken promise looks like. The verdict is not read off the picture: the lower bound also counts the "
            "luck in the false alarms, which at the left edge rest on few runs, and the band holds for each threshold "
            "by itself. The second panel shows the same with both axes by powers of ten, and evenly between 0 and the "
            "first of them."
        ),
    ),
    folded=True,
)
