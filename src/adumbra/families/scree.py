"""A released spectrum as a picture: components with error bars beside the edge of the noise, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.report.svg import AxisScale, Frame, element, heading, legend, path, picture, positional, round_ticks, said

__all__ = ["MOST", "scree_svg"]

MOST = 60
"""Components that one picture can show."""


_WIDTH, _LEFT, _RIGHT, _HIGH = 720.0, 74.0, 130.0, 260.0
_LONGEST = 10  # letters of the number in the right margin
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_KINDS = {
    "kept": (True, True),
    "above the edge, not kept": (False, True),
    "below the edge, kept": (True, False),
    "below the edge": (False, False),
}
"""Of points: kept or not, above the edge of the noise or not."""


def scree_svg(
    values: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    edge: float,
    kept: int,
    *,
    title: str,
    unit: str = "variance",
    real: int | None = None,
) -> str:
    """The spectrum as released: 1 to 60 `values` with their intervals from `low` to `high`, under a `title`.

    The first `kept` of them have a strong colour. What lies below `edge`, where the noise's own spectrum ends, is
    shaded and grey. `unit` names the values. `real` is how many components exist if the intervals are right; if not
    given, those whose interval stays above 0.
    """
    seen, least, most = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (values, low, high))
    _check(seen, least, most, edge, kept)
    certain = int((least > 0).sum()) if real is None else real
    above = int((seen > edge).sum())
    words = f"{kept} kept, {above} above the edge of the noise, {certain} above the noise at 95 %"
    head, end = heading(title, words)
    span = _range(seen, least, most, edge)
    floor = end + 36.0 + _HIGH
    frame = Frame(
        AxisScale.linear(_LEFT, _WIDTH - _RIGHT, -0.5, len(seen) - 0.5), AxisScale(floor, floor - _HIGH, _within(*span))
    )
    used = {(i < kept, value > edge) for i, value in enumerate(seen.tolist())}
    size = 4.5 if len(seen) <= 30 else 3.2
    parts = [
        *head,
        *legend(end + 22.0, [(_key(*kind), name) for name, kind in _KINDS.items() if kind in used]),
        *_ground(frame, edge, span, len(seen), unit),
        *(
            part
            for i, ends in enumerate(zip(seen.tolist(), least.tolist(), most.tolist(), strict=True))
            for part in _component(frame, i, ends, size, kept=i < kept, above=ends[0] > edge)
        ),
    ]
    return picture(_WIDTH, floor + 52.0, parts, label=f"{title}. {words}.", title=title or "Spectrum")


def _within(low: float, high: float) -> Callable[[Reals], Reals]:
    """Linear, and nothing beyond the frame."""
    return lambda value: np.clip((value - low) / (high - low), 0.0, 1.0)


def _ground(frame: Frame, edge: float, span: tuple[float, float], count: int, unit: str) -> list[str]:
    """The axes, the shade below the edge, where anything may hide, and its name in the margin, where nothing covers it.

    A power of ten is taken out of labels that would be long without it.
    """
    ticks = round_ticks(*span)
    size = math.floor(math.log10(max(map(abs, span))) + 1e-9)
    power = 0 if -3 <= size <= 4 else size
    digits = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9) + power)
    up = []
    for tick in ticks:
        label = f"{tick / 10.0**power:.{digits}f}"
        up.append((tick, label.lstrip("-") if float(label) == 0 else label.replace("-", "−")))
    every = next(step for step in (1, 2, 5, 10) if count <= 20 * step)
    across = [(n - 1.0, str(n)) for n in range(1, count + 1) if n == 1 or n % every == 0]
    times = f" (× 10{str(power).translate(_SUPERSCRIPT)})" if power else ""
    y, floor, right = frame.y(edge), frame.y.start, frame.x.end
    named = min(max(y, frame.y.end + 12), floor - 18)
    told = positional(edge / 10.0**power)
    told = told if len(told) <= _LONGEST else f"{edge / 10.0**power:.3g}"
    return [
        element("rect", x=_LEFT, y=y, width=frame.wide, height=floor - y, fill="orange", fill_opacity=0.09),
        *frame.grid(across, up, upright=False),
        *frame.border("component", unit + times),
        path(f"M{_LEFT:g} {y:.1f}H{right:g}", stroke="orange", stroke_width=1.6, stroke_dasharray="6 4"),
        said(right + 7, named - 2, "edge of the", fill="orange"),
        said(right + 7, named + 13, f"noise: {told}", fill="orange"),
    ]


def _component(
    frame: Frame, index: int, ends: tuple[float, float, float], size: float, *, kept: bool, above: bool
) -> list[str]:
    """Error bar and point, with the numbers for those who point at it."""
    x = frame.x(index)
    y, bottom, top = (frame.y(value) for value in ends)
    half = 5.0 if size > 4 else 3.0
    value, low, high = map(positional, ends)
    bar = f"M{x:.1f} {bottom:.1f}V{top:.1f}" + "".join(
        f"M{x - half:.1f} {end:.1f}h{2 * half:g}" for end in (bottom, top)
    )
    tip = f"component {index + 1}: {value}, between {low} and {high}"
    return [
        path(bar, stroke="blue" if kept else "text" if above else "faint", stroke_width=1.4),
        _point(x, y, size, kept, above, element("title", tip)),
    ]


def _point(x: float, y: float, radius: float, kept: bool, above: bool, inside: str = "") -> str:
    """Blue if kept, open if it could have been, grey below the edge; one that is kept although below has a blue rim."""
    fill = ("blue" if kept else "ground") if above else "faint"
    stroke = "blue" if kept else "text" if above else "faint"
    name = " ".join(["point" if inside else "key", "kept" if kept else "left", "above" if above else "below"])
    return element("circle", inside, kind=name, cx=x, cy=y, r=radius, fill=fill, stroke=stroke, stroke_width=1.8)


def _key(kept: bool, above: bool) -> Callable[[float, float], str]:
    return lambda x, y: _point(x, y, 4.5, kept, above)


def _range(seen: Reals, low: Reals, high: Reals, edge: float) -> tuple[float, float]:
    """Values that the frame spans: 0 and the edge always, and a little air above."""
    bottom = min(0.0, float(seen.min()), float(low.min()))
    peak = max(float(seen.max()), float(high.max()), edge)
    if peak <= bottom:
        peak = bottom + 1.0
    return bottom * 1.06, peak + 0.06 * (peak - bottom)


def _check(seen: Reals, low: Reals, high: Reals, edge: float, kept: int) -> None:
    if not (seen.ndim == 1 and seen.shape == low.shape == high.shape and 1 <= len(seen) <= MOST):
        raise InputError(
            f"1 to {MOST} values, each with both ends of its interval",
            f"{seen.shape}, {low.shape}, {high.shape}",
            "show the first ones",
        )
    if not all(np.isfinite(part).all() for part in (seen, low, high, np.array([edge]))):
        raise InputError("finite numbers", "a spectrum or an edge with others", "look at what was released")
    if not 0 <= kept <= len(seen):
        raise InputError(f"0 to {len(seen)} kept components", str(kept), "count those that are shown")
