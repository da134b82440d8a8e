"""An audit as one page: a file that a browser shows offline, on a phone and on paper.

It repeats the report and adds nothing to it: every verdict is the finding's own. The pictures show what was measured
beside what was claimed; they are no verdict, and the page says so. Numbers are rounded so that the page never says
more than the audit does: lower bounds, shares and confidence down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

import numpy as np
from numpy.typing import NDArray

from adumbra.audit.findings import REFUTED, WORDING, Finding, Measured, Report
from adumbra.audit.tradeoff import claimed

__all__ = ["page"]

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]

# A panel, in units of its viewBox: the frame is WIDE x HIGH, with room for labels around it.
_LEFT, _TOP, _WIDE, _HIGH = 76.0, 30.0, 270.0, 240.0
_PANEL = f"0 0 {_LEFT + _WIDE + 18:g} {_TOP + _HIGH + 46:g}"
# The magnified panel is linear from 0 to its smallest decade (zero has no logarithm) on this part of its axis.
_NEAR_ZERO = 0.13
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
        f'<p class="wording">{_text(WORDING)}</p>',
        _summary(report),
        *([_table(findings)] if findings else []),
        _HOW_TO_READ,
        *(["<h2>The attacks in pictures</h2>", *pictures] if pictures else []),
        *([_repeat(command)] if command else []),
        f"<footer>Written by {_text(report.library)}.</footer>",
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


# ---------------------------------------------------------------------------------------------------------- words


def _text(value: object) -> str:
    """Escaped for text and attributes. What cannot be printed (controls, direction marks) shows as a box."""
    return escape("".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in str(value)))


def _promises(count: int) -> str:
    return f"{count} promise{'' if count == 1 else 's'}"


def _positional(value: float, digits: int = 3) -> str:
    """Without an exponent, which few people read, unless it is a very long number."""
    if not math.isfinite(value):
        return "infinite"
    if value and not 1e-9 < abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


def _short(value: float) -> str:
    """A claim as people write it: 1e-6, not 1e-06."""
    return f"{value:.12g}".replace("e-0", "e-").replace("e+0", "e+")


def _plain(value: float, places: int) -> str:
    """To so many places, without zeros at the end."""
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def _percent(share: float) -> str:
    """Of a measured frequency, to three digits."""
    return f"{_positional(100 * share)}%"


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
    shown = _positional(finding.exact, 4)
    return f'<strong class="over">{shown}, above the claim</strong>' if _above(finding) else shown


def _claim(finding: Finding) -> str:
    return f"epsilon {_short(finding.epsilon)}" + (f", delta {_short(finding.delta)}" if finding.delta else "")


def _verdict(finding: Finding) -> str:
    kind = "refuted" if finding.verdict == REFUTED else "standing"
    return f'<span class="verdict {kind}">{_text(finding.verdict)}</span>'


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
    names = (f"<strong>{_text(name)}</strong> ({_text(', '.join(seen))})" for name, seen in kinds.items())
    return f'<p class="audited">Audited: {"; ".join(names)}.</p>'


def _summary(report: Report) -> str:
    """The counts, and what the confidence is a confidence in."""
    count, refuted = len(report.findings), len(report.refuted)
    if not count:
        return '<p class="summary standing">0 promises attacked.</p>'
    bounds = "the lower bound holds" if count == 1 else f"all {count} lower bounds hold at once"
    words = [
        f"<strong>{_promises(count)} attacked, {refuted} refuted.</strong>",
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
        name = _text(finding.target).replace("/", "/<wbr>")
        cells = (
            _verdict(finding),
            f'<a href="#finding-{number}">{name}</a>' if _has_picture(finding) else name,
            _text(finding.neighbours),
            _text(finding.pair),
            _short(finding.epsilon)
            + (f' <br><span class="quiet">delta {_short(finding.delta)}</span>' if finding.delta else ""),
            _lower(finding),
            _exact(finding),
            _bar(finding),
            _text(finding.method),
            f"{finding.runs:,}",
            _positional(finding.seconds, 2) if finding.seconds < 10 else f"{finding.seconds:,.0f}",
        )
        row = "".join(
            f'<td role="cell" data-label="{head}" class="of-{head.split()[0]}"><div>{cell}</div></td>'
            for head, cell in zip(_COLUMNS, cells, strict=True)
        )
        out.append(f'<tbody role="rowgroup"><tr role="row">{row}</tr>')
        if finding.note:
            note = f'<td role="cell" colspan="{len(_COLUMNS)}">{_text(finding.note)}</td>'
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
        "<h2>Repeat it</h2><p>The noise is drawn anew each time, so the numbers will differ a little.</p>"
        f"<pre><code>{_text(command)}</code></pre>"
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

    seen = _in_order(finding.measured)
    words = _in_words(finding, seen, allowed)
    floor = _smallest_decade(finding, seen)
    title = f"{_text(finding.target)} <small>{_text(finding.neighbours)}: {_text(finding.pair)}</small>"
    panels = [
        _panel("All false alarms", words, seen, allowed, _as_it_is, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        _panel("Rare false alarms, magnified", words, seen, allowed, _magnified(floor), _decades(floor)),
    ]
    return "\n".join(
        [
            f'<figure id="finding-{number}"><h3>{_verdict(finding)} {title}</h3><div class="panels">',
            *panels,
            f"</div>{_LEGEND}<figcaption>{words}</figcaption></figure>",
        ]
    )


def _in_order(measured: Measured) -> Measured:
    """By false alarms, then by power, whichever way the thresholds went."""
    rows = zip(measured.false_alarms, measured.power, measured.low, measured.high, strict=True)
    return Measured(*zip(*sorted(rows), strict=True))


def _with_ends(seen: Measured) -> Measured:
    """An alarm that never rings and one that always does need no runs: every curve goes from one to the other."""
    rows = list(zip(seen.false_alarms, seen.power, seen.low, seen.high, strict=True))
    never = [] if rows[0][:2] == (0.0, 0.0) else [(0.0, 0.0, 0.0, 0.0)]
    always = [] if rows[-1][:2] == (1.0, 1.0) else [(1.0, 1.0, 1.0, 1.0)]
    return Measured(*zip(*never, *rows, *always, strict=True))


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
        f"{_percent(seen.power[at])} of the runs on the right table (band: {_percent(seen.low[at])} to "
        f"{_percent(seen.high[at])}) and in {_percent(seen.false_alarms[at])} of those on the wrong one; "
        f"the claim allows at most {_percent(float(limit[at]))} there{remark}. Epsilon is at least {_lower(finding)} "
        f"with {_confidence(finding.confidence)} confidence ({finding.method}): {finding.verdict}."
    )
    return _text(words)


def _panel(title: str, words: str, seen: Measured, allowed: Function, place: Function, ticks: list[float]) -> str:
    """One picture: forbidden region, grid, guessing, band, measured curve, claimed curve, from back to front."""
    grid = _grid(allowed)
    limit, line = allowed(grid), _with_ends(seen)
    across, low = _filled(line.false_alarms, line.low, grid)
    _, high = _filled(line.false_alarms, line.high, grid)
    there_and_back = np.concatenate([across, across[::-1]]), np.concatenate([low, high[::-1]])
    ends = np.array([0.0, 1.0])
    radius = 3 if len(seen.power) < 6 else 1.6
    out = [
        f'<svg class="panel" viewBox="{_PANEL}" role="img" aria-label="{_text(title)}. {words}">',
        f'<text class="title" x="{_LEFT:g}" y="18">{_text(title)}</text>',
        f'<path class="forbidden" d="{_path(np.append(grid, 0.0), np.append(limit, 1.0), place)}Z"/>',
        *_axes(place, ticks),
        f'<path class="guessing" d="{_path(ends, ends, place)}"/>',
        f'<path class="band" d="{_path(*there_and_back, place)}Z"/>',
        f'<path class="measured" d="{_path(*_filled(line.false_alarms, line.power, grid), place)}"/>',
        *(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in _points(seen, place)),
        f'<path class="claimed" d="{_path(grid, limit, place)}"/>',
        "</svg>",
    ]
    return "\n".join(out)


def _axes(place: Function, ticks: list[float]) -> list[str]:
    """Grid lines with their values, the frame, and what the axes mean."""
    right, bottom = _LEFT + _WIDE, _TOP + _HIGH
    out = []
    for tick, at in zip(ticks, place(np.array(ticks)), strict=True):
        x, y, label = _LEFT + _WIDE * at, bottom - _HIGH * at, _percent(tick) if tick else "0"
        out.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}V{bottom:g}M{_LEFT:g} {y:.1f}H{right:g}"/>')
        out.append(f'<text class="tick across" x="{x:.1f}" y="{bottom + 15:g}">{label}</text>')
        out.append(f'<text class="tick up" x="{_LEFT - 6:g}" y="{y:.1f}" dy="0.35em">{label}</text>')
    middle_x, middle_y = _LEFT + _WIDE / 2, _TOP + _HIGH / 2
    return [
        *out,
        f'<rect class="frame" x="{_LEFT:g}" y="{_TOP:g}" width="{_WIDE:g}" height="{_HIGH:g}"/>',
        f'<text class="axis" x="{middle_x:g}" y="{bottom + 36:g}">False alarms: it rang for the wrong table</text>',
        f'<text class="axis" x="12" y="{middle_y:g}" transform="rotate(-90 12 {middle_y:g})">'
        "Power: it rang for the right table</text>",
    ]


# -------------------------------------------------------------------------------------------------------- geometry


def _as_it_is(share: FloatArray) -> FloatArray:
    return share


def _magnified(floor: float) -> Function:
    """Logarithmic from `floor` to 1, linear below. Both axes use it, so guessing stays a straight line."""

    def place(share: FloatArray) -> FloatArray:
        logs = 1 - np.log10(np.maximum(share, floor)) / math.log10(floor)
        return np.where(share < floor, _NEAR_ZERO * share / floor, _NEAR_ZERO + (1 - _NEAR_ZERO) * logs)

    return place


def _smallest_decade(finding: Finding, seen: Measured) -> float:
    """Below the rarest alarms measured; an alarm that never rang falsely may do so up to about once in the runs."""
    rarest = min((x for x in (*seen.false_alarms, *seen.power) if x > 0), default=1.0)
    if any(x == 0 < y for x, y in zip(seen.false_alarms, seen.power, strict=True)):
        rarest = min(rarest, 2 / max(finding.runs, 2))
    last = min(8, max(2, math.ceil(-math.log10(rarest))))
    return 10.0 ** -(last + last % 2 if last > 5 else last)  # even where only every other decade is labelled


def _decades(floor: float) -> list[float]:
    """0 and the decades down to the floor; every other one if labels would touch."""
    last = round(-math.log10(floor))
    return [0.0, *(10.0**-power for power in range(last, -1, -1 if last < 6 else -2))]


def _grid(allowed: Function) -> FloatArray:
    """False alarms at which the claimed curve is drawn: dense at both ends, and its corner.

    An (epsilon, delta) claim has its corner where power and false alarms add up to 1; a grid alone would cut it off.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(allowed(np.array([middle]))[0]) + middle < 1 else (low, middle)
    return np.unique(np.concatenate([[0.0, high, 1.0], np.geomspace(1e-12, 1, 97), np.linspace(0, 1, 51)]))


def _filled(x: tuple[float, ...], y: tuple[float, ...], grid: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The line through the points, with points of the grid between them: straight as it is, bent when magnified.

    A straight line between two magnified points would lie above what the attack did.
    """
    between = grid[(grid > x[0]) & (grid < x[-1]) & ~np.isin(grid, x)]
    across, up = np.concatenate([x, between]), np.concatenate([y, np.interp(between, x, y)])
    order = np.argsort(across, kind="stable")
    return across[order], up[order]


def _points(seen: Measured, place: Function) -> list[tuple[float, float]]:
    x, y = place(np.array(seen.false_alarms)), place(np.array(seen.power))
    return [(_LEFT + _WIDE * a, _TOP + _HIGH * (1 - b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _path(x: FloatArray, y: FloatArray, place: Function) -> str:
    """Shares to a path of the panel, without points that round to the one before."""
    across, up = _LEFT + _WIDE * place(x), _TOP + _HIGH * (1 - place(y))
    spots = [f"{a:.1f} {b:.1f}" for a, b in zip(across.tolist(), up.tolist(), strict=True)]
    return "M" + "L".join(spot for spot, before in zip(spots, ["", *spots], strict=False) if spot != before)


# ------------------------------------------------------------------------------------------------------ fixed text


def _key(kind: str, shape: str, words: str, more: str = "") -> str:
    drawing = f'<path class="{kind}" d="{shape}"/>{more}'
    return f'<li><svg class="key" viewBox="0 0 28 14" aria-hidden="true">{drawing}</svg>{words}</li>'


_LEGEND = (
    '<ul class="legend">'
    + _key("measured", "M1 7H27", "measured thresholds", '<circle class="point" cx="14" cy="7" r="3"/>')
    + _key("band", "M1 2H27V12H1Z", "its confidence band")
    + _key("claimed", "M1 7H27", "the most that the claim allows")
    + _key("forbidden", "M1 1H27V13H1Z", "forbidden by the claim")
    + _key("guessing", "M1 7H27", "guessing")
    + "</ul>"
)

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
