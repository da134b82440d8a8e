"""Pictures of an audit: false alarms against power, what was measured beside what is claimed, as SVG.

Two panels share every function: one as it is, one magnified towards rare false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

import numpy as np
from numpy.typing import NDArray

from adumbra.audit.findings import Measured

__all__ = ["LEGEND", "FloatArray", "Function", "escaped", "in_order", "panels", "percent", "positional"]

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]

# A panel, in units of its viewBox: the frame is WIDE x HIGH, with room for labels around it.
_LEFT, _TOP, _WIDE, _HIGH = 76.0, 30.0, 270.0, 240.0
_PANEL = f"0 0 {_LEFT + _WIDE + 18:g} {_TOP + _HIGH + 46:g}"
# The magnified panel is linear from 0 to its smallest decade (zero has no logarithm) on this part of its axis.
_NEAR_ZERO = 0.13


def escaped(value: object) -> str:
    """Escaped for text and attributes. What cannot be printed (controls, direction marks) shows as a box."""
    return escape("".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in str(value)))


def positional(value: float, digits: int = 3) -> str:
    """Without an exponent, which few people read, unless it is a very long number."""
    if not math.isfinite(value):
        return "infinite"
    if value and not 1e-9 < abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


def percent(share: float) -> str:
    """Of a measured frequency, to three digits."""
    return f"{positional(100 * share)}%"


def in_order(measured: Measured) -> Measured:
    """By false alarms, then by power, whichever way the thresholds went."""
    rows = zip(measured.false_alarms, measured.power, measured.low, measured.high, strict=True)
    return Measured(*zip(*sorted(rows), strict=True))


def _with_ends(seen: Measured) -> Measured:
    """An alarm that never rings and one that always does need no runs: every curve goes from one to the other."""
    rows = list(zip(seen.false_alarms, seen.power, seen.low, seen.high, strict=True))
    never = [] if rows[0][:2] == (0.0, 0.0) else [(0.0, 0.0, 0.0, 0.0)]
    always = [] if rows[-1][:2] == (1.0, 1.0) else [(1.0, 1.0, 1.0, 1.0)]
    return Measured(*zip(*never, *rows, *always, strict=True))


def panels(words: str, seen: Measured, allowed: Function, runs: int) -> list[str]:
    """All false alarms, and the rare ones; `words` say the same to those who cannot see it."""
    floor = _smallest_decade(runs, seen)
    return [
        _panel("All false alarms", words, seen, allowed, _as_it_is, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        _panel("Rare false alarms, magnified", words, seen, allowed, _magnified(floor), _decades(floor)),
    ]


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
        f'<svg class="panel" viewBox="{_PANEL}" role="img" aria-label="{escaped(title)}. {words}">',
        f'<text class="title" x="{_LEFT:g}" y="18">{escaped(title)}</text>',
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
        x, y, label = _LEFT + _WIDE * at, bottom - _HIGH * at, percent(tick) if tick else "0"
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


def _as_it_is(share: FloatArray) -> FloatArray:
    return share


def _magnified(floor: float) -> Function:
    """Logarithmic from `floor` to 1, linear below. Both axes use it, so guessing stays a straight line."""

    def place(share: FloatArray) -> FloatArray:
        logs = 1 - np.log10(np.maximum(share, floor)) / math.log10(floor)
        return np.where(share < floor, _NEAR_ZERO * share / floor, _NEAR_ZERO + (1 - _NEAR_ZERO) * logs)

    return place


def _smallest_decade(runs: int, seen: Measured) -> float:
    """Below the rarest alarms measured; an alarm that never rang falsely may do so up to about once in the runs."""
    rarest = min((x for x in (*seen.false_alarms, *seen.power) if x > 0), default=1.0)
    if any(x == 0 < y for x, y in zip(seen.false_alarms, seen.power, strict=True)):
        rarest = min(rarest, 2 / max(runs, 2))
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


def _key(kind: str, shape: str, words: str, more: str = "") -> str:
    drawing = f'<path class="{kind}" d="{shape}"/>{more}'
    return f'<li><svg class="key" viewBox="0 0 28 14" aria-hidden="true">{drawing}</svg>{words}</li>'


LEGEND = (
    '<ul class="legend">'
    + _key("measured", "M1 7H27", "measured thresholds", '<circle class="point" cx="14" cy="7" r="3"/>')
    + _key("band", "M1 2H27V12H1Z", "its 95% confidence band")
    + _key("claimed", "M1 7H27", "the most that the claim allows")
    + _key("forbidden", "M1 1H27V13H1Z", "forbidden by the claim")
    + _key("guessing", "M1 7H27", "guessing")
    + "</ul>"
)
