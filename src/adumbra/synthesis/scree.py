"""A released spectrum as a picture: components with error bars beside the edge of the noise, as SVG.

It holds its own colours on a white ground, no script, no style sheet and no font, so it looks the same in a viewer
of either colour scheme, in a page and on paper.
"""

from __future__ import annotations

import math
import textwrap
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adumbra.core.errors import InputError

__all__ = ["MOST", "scree_svg"]

MOST = 60
"""Components that one picture can show."""

Reals = NDArray[np.float64]

_WIDTH, _LEFT, _RIGHT, _HIGH = 720.0, 74.0, 98.0, 260.0
_TEXT, _QUIET, _LINE = "#1f242b", "#5b6570", "#dde1e6"
_STRONG, _FAINT, _EDGE = "#1f5fa8", "#98a1ab", "#b3541e"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    """The spectrum as released: 1 to 60 values with their intervals, the first `kept` of them in a strong colour.

    What lies below `edge`, where the noise's own spectrum ends, is shaded and grey. `real` is how many components
    exist if the intervals are right; if not given, those whose interval stays above 0.
    """
    seen, least, most = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (values, low, high))
    _check(seen, least, most, edge, kept)
    certain = int((least > 0).sum()) if real is None else real
    above = int((seen > edge).sum())
    lines = textwrap.wrap(_printable(title), 84) or [""]
    top = 24.0 + 19.0 * len(lines) + 36.0
    frame = _Frame(top, len(seen), *_range(seen, least, most, edge))
    height = top + _HIGH + 52.0
    words = f"{kept} kept, {above} above the edge of the noise, {certain} above the noise at 95 %"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:g}" height="{height:g}" '
        f'viewBox="0 0 {_WIDTH:g} {height:g}" font-family="system-ui, sans-serif" font-size="12" role="img" '
        f'aria-label="{_escaped(title)}. {words}.">',
        f"<title>{_escaped(title)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        *(
            f'<text x="16" y="{26 + 19 * i}" font-size="15" font-weight="600" fill="{_TEXT}">{_escaped(line)}</text>'
            for i, line in enumerate(lines)
        ),
        f'<text x="16" y="{top - 36:g}" fill="{_QUIET}">{words}</text>',
        *_legend(top - 14, {(i < kept, value > edge) for i, value in enumerate(seen.tolist())}),
        *frame.below(edge),
        *frame.axes(unit),
        *frame.edge(edge),
        *(
            part
            for i, (value, start, end) in enumerate(zip(seen.tolist(), least.tolist(), most.tolist(), strict=True))
            for part in frame.component(i, value, start, end, kept=i < kept, above=value > edge)
        ),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


class _Frame:
    """Places of components and values in the picture."""

    def __init__(self, top: float, count: int, bottom: float, peak: float) -> None:
        self.top, self.count, self.low, self.peak = top, count, bottom, peak
        self.wide = _WIDTH - _LEFT - _RIGHT
        self.right, self.floor = _LEFT + self.wide, top + _HIGH
        self.ticks, self.power = _ticks(bottom, peak)

    def x(self, index: int) -> float:
        """The middle of a component's strip."""
        return _LEFT + (index + 0.5) * self.wide / self.count

    def y(self, value: float) -> float:
        """Linear, cut at the frame."""
        share = (value - self.low) / (self.peak - self.low)
        return self.floor - _HIGH * min(max(share, 0.0), 1.0)

    def below(self, edge: float) -> list[str]:
        """The shade below the edge: anything may hide there."""
        start = self.y(edge)
        return [
            f'<rect x="{_LEFT:g}" y="{start:.1f}" width="{self.wide:g}" height="{self.floor - start:.1f}" '
            f'fill="{_EDGE}" fill-opacity="0.09"/>'
        ]

    def edge(self, edge: float) -> list[str]:
        """The dashed line, named in the margin, where no component can cover the name; in the units of the axis."""
        y = self.y(edge)
        named, said = min(max(y, self.top + 12), self.floor - 18), _short(edge / 10.0**self.power)
        return [
            f'<path d="M{_LEFT:g} {y:.1f}H{self.right:g}" stroke="{_EDGE}" stroke-width="1.6" '
            'stroke-dasharray="6 4" fill="none"/>',
            f'<text x="{self.right + 7:g}" y="{named - 2:.1f}" fill="{_EDGE}">edge of the</text>',
            f'<text x="{self.right + 7:g}" y="{named + 13:.1f}" fill="{_EDGE}">noise: {said}</text>',
        ]

    def axes(self, unit: str) -> list[str]:
        """Grid lines with their values, the frame, numbers of components, and what the axes mean."""
        ticks, power = self.ticks, self.power
        step = ticks[1] - ticks[0]
        digits = max(0, -math.floor(math.log10(step) + 1e-9) + power)
        out = []
        for tick in ticks:
            y, label = self.y(tick), f"{tick / 10.0**power:.{digits}f}"
            label = label.lstrip("-") if float(label) == 0 else label.replace("-", "−")
            out.append(f'<path d="M{_LEFT:g} {y:.1f}H{self.right:g}" stroke="{_LINE}" stroke-width="0.8"/>')
            out.append(
                f'<text x="{_LEFT - 7:g}" y="{y:.1f}" dy="0.35em" text-anchor="end" fill="{_QUIET}">{label}</text>'
            )
        every = next(step for step in (1, 2, 5, 10) if self.count <= 20 * step)
        for number in range(1, self.count + 1):
            if number == 1 or number % every == 0:
                out.append(
                    f'<text x="{self.x(number - 1):.1f}" y="{self.floor + 17:g}" text-anchor="middle" '
                    f'fill="{_QUIET}">{number}</text>'
                )
        times = f" (× 10{str(power).translate(_SUPERSCRIPT)})" if power else ""
        middle_x, middle_y = _LEFT + self.wide / 2, self.top + _HIGH / 2
        return [
            *out,
            f'<rect x="{_LEFT:g}" y="{self.top:g}" width="{self.wide:g}" height="{_HIGH:g}" fill="none" '
            f'stroke="{_QUIET}" stroke-width="1"/>',
            f'<text x="{middle_x:g}" y="{self.floor + 38:g}" text-anchor="middle" fill="{_TEXT}">component</text>',
            f'<text x="18" y="{middle_y:g}" transform="rotate(-90 18 {middle_y:g})" text-anchor="middle" '
            f'fill="{_TEXT}">{_escaped(unit)}{times}</text>',
        ]

    def component(self, index: int, value: float, low: float, high: float, *, kept: bool, above: bool) -> list[str]:
        """Error bar and point, with the numbers for those who point at it."""
        x, y, bottom, top = self.x(index), self.y(value), self.y(low), self.y(high)
        colour = _STRONG if kept else _FAINT if not above else _TEXT
        half = 5.0 if self.count <= 30 else 3.0
        said = f"component {index + 1}: {_short(value)}, between {_short(low)} and {_short(high)}"
        return [
            f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}M{x - half:.1f} {bottom:.1f}h{2 * half:g}'
            f'M{x - half:.1f} {top:.1f}h{2 * half:g}" stroke="{colour}" stroke-width="1.4" fill="none"/>',
            _point(x, y, 4.5 if self.count <= 30 else 3.2, kept, above, f"<title>{said}</title>"),
        ]


def _point(x: float, y: float, radius: float, kept: bool, above: bool, inside: str = "") -> str:
    """Blue if kept, open if it could have been, grey below the edge; one that is kept although below has a blue rim."""
    fill = (_STRONG if kept else "#ffffff") if above else _FAINT
    stroke = _STRONG if kept else _TEXT if above else _FAINT
    name = " ".join(["point", "kept" if kept else "left", "above" if above else "below"])
    return (
        f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="1.8">{inside}</circle>'
    )


def _legend(y: float, used: set[tuple[bool, bool]]) -> list[str]:
    """What the points mean, of those kinds (kept or not, above the edge or not) that occur."""
    out, x = [], 22.0
    for words, kind, room in (
        ("kept", (True, True), 66.0),
        ("above the edge, not kept", (False, True), 188.0),
        ("below the edge, kept", (True, False), 160.0),
        ("below the edge", (False, False), 124.0),
    ):
        if kind in used:
            out.append(_point(x, y - 4, 4.5, *kind).replace('class="point', 'class="key'))
            out.append(f'<text x="{x + 10:g}" y="{y:g}" fill="{_QUIET}">{words}</text>')
            x += room
    return out


def _range(seen: Reals, low: Reals, high: Reals, edge: float) -> tuple[float, float]:
    """Values that the frame spans: 0 and the edge always, and a little air above."""
    bottom = min(0.0, float(seen.min()), float(low.min()))
    peak = max(float(seen.max()), float(high.max()), edge)
    if peak <= bottom:
        peak = bottom + 1.0
    return bottom * 1.06, peak + 0.06 * (peak - bottom)


def _ticks(low: float, high: float) -> tuple[list[float], int]:
    """Three to nine round values, and the power of ten to take out of their labels."""
    rough = (high - low) / 8
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * times for times in (1.0, 2.0, 5.0, 10.0) if base * times >= rough)
    ticks = [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    size = math.floor(math.log10(max(abs(low), abs(high))) + 1e-9)
    return ticks, 0 if -3 <= size <= 4 else size


def _short(value: float) -> str:
    """To three digits, without an exponent unless it is very small or large."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return np.format_float_positional(value, 3, unique=False, fractional=False, trim="-")


def _printable(words: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in words)


def _escaped(words: str) -> str:
    return escape(_printable(words))


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
