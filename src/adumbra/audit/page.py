"""An audit as one page: a file that a browser shows offline, on a phone and on paper.

It repeats the report and adds nothing to it: every verdict is the finding's own. The pictures show what was measured
beside what was claimed; they are no verdict, and the page says so. Numbers are rounded so that the page never says
more than the audit does: lower bounds, shares and confidence down.
"""

from __future__ import annotations

import math

import numpy as np

from adumbra.audit.findings import REFUTED, WORDING, Finding, Measured, Report
from adumbra.audit.picture import LEGEND, FloatArray, Function, escaped, in_order, panels, percent, positional
from adumbra.audit.tradeoff import claimed

__all__ = ["page"]

# The bar of the share: 100 % of the claim stands here, out of 100, so that a refuted claim can stick out.
_FULL = 70.0


def page(report: Report, command: str | None = None) -> str:
    """One self-contained HTML file: no script, nothing loaded from outside, light and dark.

    Refuted promises come first, otherwise the order is the report's. `command` is shown as the way to repeat the
    audit. Whatever text the report holds is escaped. An empty report gives a page that says that nothing was audited.
    """
    findings = sorted(report.findings, key=lambda finding: finding.verdict != REFUTED)
    pictures = [_picture(number, finding) for number, finding in enumerate(findings, 1) if _has_picture(finding)]
    refuted = f"{len(report.refuted)} of {_promises(len(findings))} refuted" if findings else "nothing was audited"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Privacy audit: {refuted}</title>",
        f"<style>{_STYLE}</style></head><body><main>",
        "<h1>Privacy audit</h1>",
        _audited(findings),
        f'<p class="wording">{escaped(WORDING)}</p>',
        _summary(report),
        *([_table(findings)] if findings else []),
        _HOW_TO_READ,
        *(["<h2>The attacks in pictures</h2>", *pictures] if pictures else []),
        *([_repeat(command)] if command else []),
        f"<footer>Written by {escaped(report.library)}.</footer>",
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


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


def _exact(finding: Finding) -> str:
    if finding.exact is None:
        return '<span class="quiet">no formula</span>'
    shown = positional(finding.exact, 4)
    return f'<strong class="over">{shown}, above the claim</strong>' if _above(finding) else shown


def _claim(finding: Finding) -> str:
    return f"epsilon {_short(finding.epsilon)}" + (f", delta {_short(finding.delta)}" if finding.delta else "")


def _verdict(finding: Finding) -> str:
    kind = "refuted" if finding.verdict == REFUTED else "standing"
    return f'<span class="verdict {kind}">{escaped(finding.verdict)}</span>'


# ---------------------------------------------------------------------------------------------------------- parts


def _audited(findings: list[Finding]) -> str:
    """What was attacked: each target once, with its kinds of neighbours."""
    if not findings:
        return "<p>Nothing was audited.</p>"
    kinds: dict[str, list[str]] = {}
    for finding in findings:
        seen = kinds.setdefault(finding.target, [])
        if finding.neighbours not in seen:
            seen.append(finding.neighbours)
    names = (f"<strong>{escaped(name)}</strong> ({escaped(', '.join(seen))})" for name, seen in kinds.items())
    return f'<p class="audited">Audited: {"; ".join(names)}.</p>'


def _summary(report: Report) -> str:
    """The counts, and what the confidence is a confidence in."""
    count, refuted = len(report.findings), len(report.refuted)
    if not count:
        return '<p class="summary standing">Nothing was attacked.</p>'
    bounds = "the lower bound holds" if count == 1 else f"all {count} lower bounds hold at once"
    words = [
        f"<strong>{count} attack{'' if count == 1 else 's'}, {refuted} refuted.</strong>",
        f"With {_confidence(report.confidence)} confidence {bounds}.",
    ]
    quiet = sum(_above(finding) for finding in report.findings)
    if quiet:
        words.append(
            f"Of those not refuted, {quiet} cannot hold by the formula (see <em>exact at this pair</em>), "
            "though sampling did not show it."
        )
    return f'<p class="summary {"refuted" if refuted or quiet else "standing"}">{" ".join(words)}</p>'


_COLUMNS = (
    "verdict",
    "target",
    "neighbours",
    "pair",
    "claimed",
    "lower bound",
    "exact at this pair",
    "share of claim reached",
    "method",
    "runs",
    "seconds",
)


def _table(findings: list[Finding]) -> str:
    """One body for each finding: its row and, across the whole width, its note.

    On a phone a row becomes a list of labelled lines; the roles keep it a table for those who listen to it.
    """
    heads = "".join(f'<th role="columnheader" scope="col">{name}</th>' for name in _COLUMNS)
    out = [
        '<div class="scroll"><table role="table">',
        "<caption>Every promise that was attacked. Lower bound, exact and claimed are values of epsilon.</caption>",
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>',
    ]
    for number, finding in enumerate(findings, 1):
        name = escaped(finding.target).replace("/", "/<wbr>")
        cells = (
            _verdict(finding),
            f'<a href="#finding-{number}">{name}</a>' if _has_picture(finding) else name,
            escaped(finding.neighbours),
            escaped(finding.pair),
            _short(finding.epsilon)
            + (f' <br><span class="quiet">delta {_short(finding.delta)}</span>' if finding.delta else ""),
            _lower(finding),
            _exact(finding),
            _bar(finding),
            escaped(finding.method),
            f"{finding.runs:,}",
            positional(finding.seconds, 2) if finding.seconds < 10 else f"{finding.seconds:,.0f}",
        )
        row = "".join(
            f'<td role="cell" data-label="{head}" class="of-{head.split()[0]}"><div>{cell}</div></td>'
            for head, cell in zip(_COLUMNS, cells, strict=True)
        )
        out.append(f'<tbody role="rowgroup"><tr role="row">{row}</tr>')
        if finding.note:
            note = f'<td role="cell" colspan="{len(_COLUMNS)}">{escaped(finding.note)}</td>'
            out.append(f'<tr role="row" class="note">{note}</tr>')
        out.append("</tbody>")
    return "\n".join([*out, "</table></div>"])


def _bar(finding: Finding) -> str:
    """The share, with a mark where the claim stands. Drawn, not coloured in: paper drops backgrounds."""
    share = _share(finding)
    kind = "refuted" if finding.verdict == REFUTED else "standing"
    return (
        f'<svg class="bar" viewBox="0 0 100 12" aria-hidden="true"><rect class="track" y="3" width="100" height="6"/>'
        f'<rect class="{kind}" y="3" width="{min(100.0, _FULL * share):.1f}" height="6"/>'
        f'<path class="mark" d="M{_FULL:g} 0V12"/></svg> {_share_in_words(share)}'
    )


def _repeat(command: str) -> str:
    return (
        "<h2>Repeat it</h2><p>Where the noise is drawn anew, the numbers will differ a little.</p>"
        f"<pre><code>{escaped(command)}</code></pre>"
    )


# ------------------------------------------------------------------------------------------------------- pictures


def _has_picture(finding: Finding) -> bool:
    return finding.measured is not None and len(finding.measured.false_alarms) > 0


def _picture(number: int, finding: Finding) -> str:
    """Two panels, all false alarms and the rare ones, and the same in words."""
    assert finding.measured is not None
    curve = claimed(finding.family, finding.epsilon, finding.delta)

    def allowed(false_alarms: FloatArray) -> FloatArray:
        return np.clip(np.asarray(curve.power(false_alarms), dtype=np.float64), 0.0, 1.0)

    seen = in_order(finding.measured)
    words = _in_words(finding, seen, allowed)
    title = f"{escaped(finding.target)} <small>{escaped(finding.neighbours)}: {escaped(finding.pair)}</small>"
    return "\n".join(
        [
            f'<figure id="finding-{number}"><h3>{_verdict(finding)} {title}</h3><div class="panels">',
            *panels(words, seen, allowed, finding.runs),
            f"</div>{LEGEND}<figcaption>{words}</figcaption></figure>",
        ]
    )


def _in_words(finding: Finding, seen: Measured, allowed: Function) -> str:
    """What the picture shows, at its most telling threshold; escaped.

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
    words = (
        f"Claimed: {_claim(finding)} ({finding.family} curve). At its most telling threshold the alarm rang in "
        f"{percent(seen.power[at])} of the runs on the right table (band: {percent(seen.low[at])} to "
        f"{percent(seen.high[at])}) and in {percent(seen.false_alarms[at])} of those on the wrong one; "
        f"the claim allows at most {percent(float(limit[at]))} there{remark}. Epsilon is at least {_lower(finding)} "
        f"with {_confidence(finding.confidence)} confidence ({finding.method}): {finding.verdict}."
    )
    return escaped(words)


# ------------------------------------------------------------------------------------------------------ fixed text


_HOW_TO_READ = """<details><summary>How to read this</summary>
<p>A release promises that it is hard to tell from it whether a table or its neighbour (the same table with one row or
one cell changed) was behind it. Epsilon says how well anyone can at most tell; delta is a small extra allowance. An
audit picks two neighbouring tables, runs the mechanism many times on both, and counts how often it can tell which was
which.</p>
<dl>
<dt>claimed</dt><dd>the epsilon (and delta) that was promised.</dd>
<dt>lower bound</dt><dd>epsilon is at least this, by the counts, with the confidence stated above. If it exceeds the
claim, the promise is <strong>REFUTED</strong>. Bad luck refutes a promise that holds only as often as the confidence
leaves room for.</dd>
<dt>exact at this pair</dt><dd>what the formula gives for these two tables if the noise is what it says it is. No attack
on this pair can get beyond it. Other pairs may have more.</dd>
<dt>share of claim reached</dt><dd>lower bound over claim; the mark on the bar is 100%. A long bar that stops before the
mark is a good sign: the attack is strong and the promise stood. A short bar says little, either way.</dd>
<dt>neighbours</dt><dd>unit and relation: what may change between the two tables (a row or a cell), and how (replaced,
emptied, added or removed).</dd>
<dt>method</dt><dd><em>threshold</em>: one alarm, counted on both tables. <em>gaussian</em>, <em>laplace</em>: the
counts against the whole curve of that noise. <em>classifier</em>: the alarm was learned from other runs.
<em>one-run</em>: many planted rows in a single run; runs are then planted rows.</dd>
</dl>
<p>In a picture, an alarm rings when a run looks like the right table. Along the bottom: how often it rang for the
wrong table. Upwards: how often it rang for the right one. Guessing gets the dotted diagonal; the claim allows nothing
above the dashed line. A band that rises well into the forbidden region is what a broken promise looks like. The
verdict is not read off the picture: the lower bound also counts the luck in the false alarms, which at the left edge
rest on few runs, and the band holds for each threshold by itself. The second panel shows the same with both axes by
powers of ten, and evenly between 0 and the first of them.</p>
</details>"""

_STYLE = """
:root{--page:#fbfbf9;--card:#fff;--text:#1b2026;--quiet:#545e69;--line:#d9dde2;--blue:#1d5bb8;--orange:#9a4a00;
--red:#b01f14;--red-soft:#fdeeec;--slate:#3a4654;--slate-soft:#eef1f4;--shade:#e8590c}
@media screen and (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1b1f25;--text:#e7e9ec;--quiet:#a7b0bb;
--line:#3a424c;--blue:#86b6ff;--orange:#f2a65f;--red:#ff9086;--red-soft:#3a1b19;--slate:#c9d0d9;--slate-soft:#272d35;
--shade:#ff8a3d}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:1.5rem 1.25rem 3rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.3rem;margin:2.2rem 0 .6rem}
h3{font-size:1.05rem;margin:0 0 .6rem;overflow-wrap:anywhere}
h3 small{font-weight:400;color:var(--quiet);font-size:.9rem}
p,dl{max-width:75ch}
.audited{overflow-wrap:anywhere}
.wording{border-left:4px solid var(--slate);padding:.1rem 0 .1rem .9rem;margin:1rem 0;font-style:italic}
.summary{border:1px solid;border-radius:8px;padding:.7rem 1rem;margin:1rem 0;max-width:none}
.summary strong{font-size:1.15rem;margin-right:.3em}
.quiet{color:var(--quiet)}
.over{color:var(--red)}
.verdict,.summary{background:var(--slate-soft);color:var(--slate);border-color:currentColor}
.verdict.refuted,.summary.refuted{background:var(--red-soft);color:var(--red)}
.verdict{display:inline-block;border:1px solid;border-radius:99px;padding:0 .6em;font-size:.82rem;font-weight:600;
white-space:nowrap}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.84rem;line-height:1.4}
caption{text-align:left;color:var(--quiet);padding:.6rem .7rem .3rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .42rem}
th:first-child,td:first-child{padding-left:.7rem}
th{font-weight:600;color:var(--quiet);vertical-align:bottom;line-height:1.25}
tbody{border-top:1px solid var(--line);break-inside:avoid}
td.of-claimed,td.of-lower,td.of-exact,td.of-runs,td.of-seconds{font-variant-numeric:tabular-nums}
td.of-target,td.of-pair,tr.note td{overflow-wrap:anywhere}
td.of-target{min-width:7.5em}td.of-pair{min-width:9.5em}
td.of-target,td.of-lower{font-weight:600}
td.of-claimed .quiet{white-space:nowrap}
tr.note td{padding-top:0;color:var(--quiet)}
a{color:inherit;text-decoration-color:var(--quiet);text-underline-offset:.15em}
.bar{width:76px;height:10px;vertical-align:baseline}
.bar .track{fill:var(--line)}.bar .refuted{fill:var(--red)}.bar .standing{fill:var(--slate)}
.mark{stroke:var(--text);stroke-width:2}
details{margin:1.2rem 0;border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;background:var(--card)}
summary{cursor:pointer;font-weight:600}
dt{font-weight:600}dd{margin:0 0 .5rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;
margin:.4rem 0 .6rem;font-size:.84rem;color:var(--quiet)}
.legend li{display:flex;align-items:center;gap:.45rem}
.key{width:28px;height:14px;flex:none}
figure{margin:0 0 1.2rem;padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:8px;
break-inside:avoid}
.panels{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem}
.panel{flex:1 1 300px;min-width:0;max-width:480px;height:auto}
figcaption{font-size:.92rem;margin-top:.5rem;max-width:95ch;overflow-wrap:anywhere}
.panel text{fill:var(--text);font:11px system-ui,sans-serif}
.panel text.title{font-weight:600;font-size:12px}
.panel text.tick{fill:var(--quiet);font-size:10.5px}
.across,.axis{text-anchor:middle}.up{text-anchor:end}
path{fill:none}
.grid{stroke:var(--line);stroke-width:.7}
.frame{fill:none;stroke:var(--quiet);stroke-width:1}
path.forbidden{fill:var(--shade);fill-opacity:.14}
path.claimed{stroke:var(--orange);stroke-width:2;stroke-dasharray:7 4}
path.guessing{stroke:var(--quiet);stroke-width:1.6;stroke-dasharray:1 4;stroke-linecap:round}
path.band{fill:var(--blue);fill-opacity:.25;stroke:var(--blue);stroke-opacity:.25;stroke-width:1}
path.measured{stroke:var(--blue);stroke-width:2.2;stroke-linejoin:round}
.point{fill:var(--blue)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem 1rem;overflow-x:auto;
white-space:pre-wrap;overflow-wrap:anywhere}
footer{margin-top:2rem;color:var(--quiet);font-size:.9rem}
@media screen and (max-width:760px){
main{padding:1rem .8rem 2rem}
table,caption,tbody,tr,td{display:block}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tbody{padding:.5rem .7rem}
th,td,td:first-child{display:flex;gap:.8rem;padding:.12rem 0}
td::before{content:attr(data-label);flex:0 0 11em;color:var(--quiet);font-weight:400}
td>div{min-width:0;flex:1}
td br{display:none}
tr.note td,tr.note td:first-child{display:block;padding-top:.3rem}tr.note td::before{content:none}
figure{padding:.7rem .5rem}
}
@media print{
@page{margin:14mm}
:root{--page:#fff}
html,body{font-size:10pt}
main{max-width:none;padding:0}
.scroll{overflow:visible;border:0}
table{font-size:7pt}th,td{padding:.3rem .2rem}
td .verdict{font-size:7pt;padding:0 .4em}
.bar{width:36px}
details::details-content{content-visibility:visible;block-size:auto}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
