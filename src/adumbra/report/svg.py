"""One kit for figures: elements, scales, frames, legends and markers, as SVG.

A figure holds its own colours on a white ground, no script, no style sheet and no font of its own, so that it looks
the same in every viewer and on paper. It takes its colours from `INKS` by name: inside a page, the page's style sheet
finds them by their values and shows others where the reader's screen is dark.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from adumbra.common.shown import shown
from adumbra.common.types import Reals

__all__ = [
    "INKS",
    "NAMESPACE",
    "AxisScale",
    "Frame",
    "element",
    "escaped",
    "gauge",
    "heading",
    "key",
    "legend",
    "marker",
    "path",
    "picture",
    "positional",
    "printable",
    "round_ticks",
    "said",
]

INKS = {
    "ground": "#ffffff",
    "text": "#1b2026",
    "quiet": "#545e69",
    "line": "#d9dde2",
    "faint": "#98a1ab",
    "blue": "#1d5bb8",
    "teal": "#2a8fb8",
    "orange": "#a84b12",
    "shade": "#e8590c",
    "purple": "#a0307f",
    "olive": "#8a6d00",
    "green": "#2e7d4f",
    "red": "#b01f14",
    "slate": "#3a4654",
}
"""Colours on a light ground. Those of lines stay apart for the colour-blind (and have a shape or dash of their own)."""
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'

Ticks = Sequence[tuple[float, str]]
_PLACES = frozenset({"x", "y", "cx", "cy", "width", "height", "r"})


def printable(words: str) -> str:
    """Words without what cannot be seen or steers the reader's eye; a box stands in its place."""
    return "".join(c if c.isprintable() and shown(c) == c else " " if c.isspace() else "\ufffd" for c in words)


def escaped(value: object) -> str:
    """Escaped for text and attributes of SVG and HTML; what cannot be printed shows as a box."""
    return escape(printable(str(value)))


def positional(value: float, digits: int = 3) -> str:
    """Without an exponent, which few people read, unless it is a very long number."""
    if not math.isfinite(value):
        return "infinite"
    if value and not 1e-9 < abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


# ------------------------------------------------------------------------------------------------------- elements


def element(name: str, inside: str = "", /, **attributes: str | float | None) -> str:
    """An element of this name around what is `inside`, which is SVG already.

    Of `attributes`, `kind` is the class, an underscore stands for a hyphen, colours are names of `INKS`, and None
    leaves one out. Their values are escaped.

    >>> element("circle", cx=1.26, cy=2, r=3, fill="blue", kind="point")
    '<circle cx="1.3" cy="2" r="3" fill="#1d5bb8" class="point"/>'
    """
    written = "".join(
        f' {"class" if key == "kind" else key.replace("_", "-")}="{_attribute(key, value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _attribute(key: str, value: str | float) -> str:
    if isinstance(value, str):
        return escaped(INKS.get(value, value) if key in ("fill", "stroke") else value)
    return f"{value:.{1 if key in _PLACES else 2}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def said(x: float, y: float, words: str, **attributes: str | float | None) -> str:
    """A text element of `words` at `x` and `y`, in pixels from the upper left corner.

    Other attributes as SVG names them; by default the colour of text.
    """
    return element("text", escaped(words), x=x, y=y, **{"fill": "text", **attributes})


def path(shape: str, **attributes: str | float | None) -> str:
    """A path; by default not filled."""
    return element("path", "", d=shape, **{"fill": "none", **attributes})


def picture(
    width: float, height: float, parts: Iterable[str], *, label: str, title: str = "", kind: str | None = None
) -> str:
    """The whole SVG of `width` by `height`, whose `label` says in words what its `parts` show.

    With a `title` it stands alone as a file, on a ground of its own; without, it is a panel of a figure, whose `kind`
    is its class.
    """
    alone = [
        element("title", escaped(title)),
        element("rect", width=width, height=height, fill="ground"),
    ]
    inside = "\n".join([*(alone if title else []), *parts])
    view = f"0 0 {width:g} {height:g}"
    drawn = element(
        "svg", f"\n{inside}\n", kind=kind, width=width, height=height, viewBox=view,
        font_family="system-ui, sans-serif", font_size="12", role="img", aria_label=label,
    )  # fmt: skip
    return drawn.replace("<svg", f"<svg{NAMESPACE}", 1) + "\n"


# --------------------------------------------------------------------------------------------------------- frames


@dataclass(frozen=True, eq=False)
class AxisScale:
    """Values of an axis to places of the picture: `share` takes a value to 0 (`start`) ... 1 (`end`)."""

    start: float
    end: float
    share: Callable[[Reals], Reals]

    @classmethod
    def linear(cls, start: float, end: float, low: float, high: float) -> AxisScale:
        """From the value `low` at the place `start` to the value `high` at the place `end`, evenly."""
        return cls(start, end, lambda value: (value - low) / (high - low))

    def __call__(self, value: float) -> float:
        """The place of one value."""
        return float(self.all([value])[0])

    def all(self, values: ArrayLike) -> Reals:
        """The places of many."""
        return self.start + (self.end - self.start) * self.share(np.asarray(values, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Frame:
    """The part of a picture between its axes."""

    x: AxisScale
    y: AxisScale

    @property
    def wide(self) -> float:
        """From left to right."""
        return self.x.end - self.x.start

    @property
    def high(self) -> float:
        """From top to bottom."""
        return self.y.start - self.y.end

    def grid(self, across: Ticks, up: Ticks, *, upright: bool = True) -> list[str]:
        """Ticks `across` and `up`, each a value and its label, with lines through the frame.

        `upright` lines are left out where what stands side by side is counted, not measured.
        """
        left, right, top, floor = self.x.start, self.x.end, self.y.end, self.y.start
        out = []
        for value, label in across:
            x = self.x(value)
            out += [path(f"M{x:.1f} {top:g}V{floor:g}", stroke="line", stroke_width=0.8, kind="grid")] * upright
            out.append(said(x, floor + 16, label, fill="quiet", text_anchor="middle", kind="tick across"))
        for value, label in up:
            y = self.y(value)
            out.append(path(f"M{left:g} {y:.1f}H{right:g}", stroke="line", stroke_width=0.8, kind="grid"))
            out.append(said(left - 7, y, label, dy="0.35em", fill="quiet", text_anchor="end", kind="tick up"))
        return out

    def border(self, across: str, up: str) -> list[str]:
        """The frame itself, and what the axes `across` and `up` mean."""
        x, y, edge = self.x.start + self.wide / 2, self.y.end + self.high / 2, self.x.start - 56
        place = {"x": self.x.start, "y": self.y.end, "width": self.wide, "height": self.high}
        return [
            element("rect", **place, fill="none", stroke="quiet", stroke_width=1, kind="frame"),
            said(x, self.y.start + 38, across, text_anchor="middle", kind="axis"),
            said(edge, y, up, transform=f"rotate(-90 {edge:g} {y:g})", text_anchor="middle", kind="axis"),
        ]

    def line(self, across: ArrayLike, up: ArrayLike) -> str:
        """The shape of a line through these values, without points that round to the one before."""
        spots = [f"{x:.1f} {y:.1f}" for x, y in zip(self.x.all(across).tolist(), self.y.all(up).tolist(), strict=True)]
        return "M" + "L".join(spot for spot, before in zip(spots, ["", *spots], strict=False) if spot != before)


def round_ticks(low: float, high: float, *, most: int = 8, least: float = 0.0) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between `low` and `high`: at most about `most` steps.

    A step is `least` or more.

    >>> round_ticks(0.0, 37.0), round_ticks(49.2, 51.1, least=1.0)
    ([0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0], [50.0, 51.0])
    """
    rough = max((high - low) / most, least)
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * times for times in (1.0, 2.0, 5.0, 10.0) if base * times >= rough * (1 - 1e-9))
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


# ------------------------------------------------------------------------------------------- headings and legends


def heading(title: str, summary: str) -> tuple[list[str], float]:
    """The first lines of a picture that stands alone, `title` (in several, if long) and `summary`; where they end."""
    lines = textwrap.wrap(printable(title), 84) or [""]
    end = 24.0 + 19.0 * len(lines)
    parts = [said(16, 26 + 19 * i, line, font_size="15", font_weight="600") for i, line in enumerate(lines)]
    return [*parts, said(16, end, summary, fill="quiet")], end


def legend(y: float, keys: Iterable[tuple[Callable[[float, float], str], str]]) -> list[str]:
    """One line at height `y` of what draws a key at a place, and of its meaning."""
    out, x = [], 22.0
    for drawn, words in keys:
        out += [drawn(x, y - 4), said(x + 10, y, words, fill="quiet")]
        x += 36.0 + 6.4 * len(words)
    return out


def key(*parts: str) -> str:
    """What stands before a meaning in the legend of a figure: a small picture of 28 by 14."""
    return element("svg", "".join(parts), viewBox="0 0 28 14", kind="key", aria_hidden="true")


def gauge(share: float, ink: str) -> str:
    """A bar as long as a share, with a mark where it is full: 1 stands before the end, so that more can stick out."""
    full = 70.0
    return element(
        "svg",
        element("rect", y=3, width=100, height=6, fill="line")
        + element("rect", y=3, width=min(100.0, full * share), height=6, fill=ink)
        + path(f"M{full:g} 0V12", stroke="text", stroke_width=2),
        viewBox="0 0 100 12",
        kind="bar",
        aria_hidden="true",
    )  # drawn, not coloured in: paper drops backgrounds


_SHAPES: dict[str, Callable[[float, float, float], str]] = {
    "square": lambda x, y, s: f"M{x - 0.84 * s:.1f} {y - 0.84 * s:.1f}h{1.67 * s:.1f}v{1.67 * s:.1f}h{-1.67 * s:.1f}Z",
    "diamond": lambda x, y, s: f"M{x:.1f} {y - s - 1:.1f}l{s:g} {s + 1:g}l{-s:g} {s + 1:g}l{-s:g} {-s - 1:g}Z",
    "triangle": lambda x, y, s: f"M{x:.1f} {y - s - 0.5:.1f}l{s + 0.5:g} {2 * s:g}h{-2 * s - 1:g}Z",
    "wedge": lambda x, y, s: f"M{x:.1f} {y + s + 0.5:.1f}l{s + 0.5:g} {-2 * s:g}h{-2 * s - 1:g}Z",
    "cross": lambda x, y, s: (
        f"M{x - 0.84 * s:.1f} {y - 0.84 * s:.1f}l{1.67 * s:.1f} {1.67 * s:.1f}"
        f"M{x - 0.84 * s:.1f} {y + 0.84 * s:.1f}l{1.67 * s:.1f} {-1.67 * s:.1f}"
    ),
}


def marker(
    x: float,
    y: float,
    *,
    shape: str,
    ink: str,
    filled: bool = True,
    kind: str = "point",
    tip: str = "",
    size: float = 5.5,
) -> str:
    """A mark at `x`, `y` in the colour `ink`, open if not `filled`.

    `shape` is circle, square, diamond, triangle, wedge or cross; `kind` is its class, `tip` what is shown to those who
    point at it, `size` about half its width. A cross has no inside, so it is thick or thin.
    """
    inside = element("title", escaped(tip)) if tip else ""
    style: dict[str, str | float | None] = {
        "kind": kind,
        "fill": ink if filled else "ground",
        "stroke": ink,
        "stroke_width": 3.2 if shape == "cross" and filled else 1.6,
    }
    if shape == "circle":
        return element("circle", inside, cx=x, cy=y, r=size - 0.5, **style)
    return element("path", inside, d=_SHAPES[shape](x, y, size), **style)
