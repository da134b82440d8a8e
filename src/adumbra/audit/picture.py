"""Pictures of an audit: false alarms against power, what was measured beside what is claimed, as SVG.

Two panels share every function: one as it is, one magnified towards rare false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adumbra.audit.findings import Measured
from adumbra.common.types import Reals
from adumbra.report.svg import AxisScale, Frame, element, key, path, picture, positional, said

__all__ = ["LEGEND", "Function", "Reals", "in_order", "panels", "percent"]

Function = Callable[[Reals], Reals]
Style = dict[str, str | float | None]

# A panel: the frame is 270 x 240, with room for labels around it.
_LEFT, _TOP, _RIGHT, _FLOOR = 76.0, 30.0, 346.0, 270.0
# The magnified panel is linear from 0 to its smallest decade (zero has no logarithm) on this part of its axis.
_NEAR_ZERO = 0.13

_FORBIDDEN: Style = {"kind": "forbidden", "fill": "shade", "fill_opacity": 0.14}
_CLAIMED: Style = {"kind": "claimed", "stroke": "orange", "stroke_width": 2, "stroke_dasharray": "7 4"}
_GUESSING: Style = {
    "kind": "guessing", "stroke": "quiet", "stroke_width": 1.6, "stroke_dasharray": "1 4", "stroke_linecap": "round"
}  # fmt: skip
_BAND: Style = {
    "kind": "band", "fill": "blue", "fill_opacity": 0.25, "stroke": "blue", "stroke_opacity": 0.25, "stroke_width": 1
}  # fmt: skip
_MEASURED: Style = {"kind": "measured", "stroke": "blue", "stroke_width": 2.2, "stroke_linejoin": "round"}


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


def panels(words: str, seen: Measured, allowed: Function, runs: int) -> tuple[str, str]:
    """All false alarms, and the rare ones: what was `seen` in so many `runs` beside what is `allowed`.

    `words` say the same to those who cannot see it.
    """
    floor = _smallest_decade(runs, seen)
    return (
        _panel("All false alarms", words, seen, allowed, _as_it_is, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        _panel("Rare false alarms, magnified", words, seen, allowed, _magnified(floor), _decades(floor)),
    )


def _panel(title: str, words: str, seen: Measured, allowed: Function, place: Function, ticks: list[float]) -> str:
    """One picture: forbidden region, grid, guessing, band, measured curve, claimed curve, from back to front."""
    frame = Frame(AxisScale(_LEFT, _RIGHT, place), AxisScale(_FLOOR, _TOP, place))
    grid = _grid(allowed)
    limit, line = allowed(grid), _with_ends(seen)
    across, low = _filled(line.false_alarms, line.low, grid)
    _, high = _filled(line.false_alarms, line.high, grid)
    there_and_back = np.concatenate([across, across[::-1]]), np.concatenate([low, high[::-1]])
    labelled = [(tick, percent(tick) if tick else "0") for tick in ticks]
    spots = zip(frame.x.all(seen.false_alarms).tolist(), frame.y.all(seen.power).tolist(), strict=True)
    radius = 3.0 if len(seen.power) < 6 else 1.6
    parts = [
        said(_LEFT, 18, title, font_weight="600", kind="title"),
        path(frame.line(np.append(grid, 0.0), np.append(limit, 1.0)) + "Z", **_FORBIDDEN),
        *frame.grid(labelled, labelled),
        *frame.border("False alarms: it rang for the wrong table", "Power: it rang for the right table"),
        path(frame.line([0.0, 1.0], [0.0, 1.0]), **_GUESSING),
        path(frame.line(*there_and_back) + "Z", **_BAND),
        path(frame.line(*_filled(line.false_alarms, line.power, grid)), **_MEASURED),
        *(element("circle", kind="point", cx=x, cy=y, r=radius, fill="blue") for x, y in spots),
        path(frame.line(grid, limit), **_CLAIMED),
    ]
    return picture(_RIGHT + 18, _FLOOR + 46, parts, label=f"{title}. {words}", kind="panel")


def _as_it_is(share: Reals) -> Reals:
    return share


def _magnified(floor: float) -> Function:
    """Logarithmic from `floor` to 1, linear below. Both axes use it, so guessing stays a straight line."""

    def place(share: Reals) -> Reals:
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


def _grid(allowed: Function) -> Reals:
    """False alarms at which the claimed curve is drawn: dense at both ends, and its corner.

    An (epsilon, delta) claim has its corner where power and false alarms add up to 1; a grid alone would cut it off.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(allowed(np.array([middle]))[0]) + middle < 1 else (low, middle)
    return np.unique(np.concatenate([[0.0, high, 1.0], np.geomspace(1e-12, 1, 97), np.linspace(0, 1, 51)]))


def _filled(x: tuple[float, ...], y: tuple[float, ...], grid: Reals) -> tuple[Reals, Reals]:
    """The line through the points, with points of the grid between them: straight as it is, bent when magnified.

    A straight line between two magnified points would lie above what the attack did.
    """
    between = grid[(grid > x[0]) & (grid < x[-1]) & ~np.isin(grid, x)]
    across, up = np.concatenate([x, between]), np.concatenate([y, np.interp(between, x, y)])
    order = np.argsort(across, kind="stable")
    return across[order], up[order]


LEGEND = (
    (key(path("M1 7H27", **_MEASURED), element("circle", cx=14, cy=7, r=3, fill="blue")), "measured thresholds"),
    (key(path("M1 2H27V12H1Z", **_BAND)), "its 95% confidence band"),
    (key(path("M1 7H27", **_CLAIMED)), "the most that the claim allows"),
    (key(path("M1 1H27V13H1Z", **_FORBIDDEN)), "forbidden by the claim"),
    (key(path("M1 7H27", **_GUESSING)), "guessing"),
)
