"""Small charts with a logarithmic x axis, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0b5394", "#b45f06", "#38761d", "#741b47", "#666666", "#bf9000", "#0f7b7b")


DASHES = ("7 4", "2 3", "10 3 2 3")


Curve = list[tuple[float, float, float]]
"""Points with their standard deviation."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A small chart with a logarithmic x axis."""

    title: str
    x_name: str
    y_name: str
    curves: dict[str, Curve]
    levels: dict[str, float]
    """Horizontal lines."""
    log: bool = False

    def drawn(self, left: float, top: float, wide: float = 330.0, high: float = 210.0) -> str:
        """As SVG, its frame at this place."""
        points = [p for curve in self.curves.values() for p in curve]
        xs = sorted({p[0] for p in points})
        low, high_x = math.log10(xs[0]), math.log10(xs[-1])
        ends = [y for _, y, sd in points for y in ((y - sd, y + sd) if not self.log else (y,))]
        ends += list(self.levels.values())
        bottom, ceiling = (min(ends), max(ends)) if self.log else (min(0.0, *ends), max(1.0, *ends))
        if self.log:
            bottom, ceiling = 10.0 ** math.floor(math.log10(bottom)), 10.0 ** math.ceil(math.log10(ceiling))

        def across(x: float) -> float:
            return left + wide * (math.log10(x) - low) / max(high_x - low, 1e-9)

        def up(y: float) -> float:
            share = (
                (math.log10(y) - math.log10(bottom)) / max(math.log10(ceiling) - math.log10(bottom), 1e-9)
                if self.log
                else (y - bottom) / (ceiling - bottom)
            )
            return top + high * (1 - share)

        out = [
            f'<text x="{left}" y="{top - 12}" font-weight="bold">{escape(self.title)}</text>',
            f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>',
            f'<text x="{left + wide / 2}" y="{top + high + 34}" text-anchor="middle">{escape(self.x_name)}</text>',
            f'<text transform="translate({left - 46} {top + high / 2}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y_name)}</text>",
        ]
        taken = -math.inf
        for x in xs:
            if across(x) - taken > 12 + 6 * len(f"{x:g}"):  # no number on top of another
                taken = across(x)
                out.append(f'<text x="{taken:.1f}" y="{top + high + 16}" text-anchor="middle">{x:g}</text>')
        if self.log:
            first, last = round(math.log10(bottom)), round(math.log10(ceiling))
            ticks = [10.0**i for i in range(first, last + 1, max(1, (last - first) // 5))]
        else:
            ticks = [0.2 * i for i in range(math.ceil(bottom / 0.2), math.floor(ceiling / 0.2) + 1)]
        for y in ticks:
            out.append(
                f'<line x1="{left}" x2="{left + wide}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#e5e5e5"/>'
                f'<text x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>'
            )
        for dash, y in zip(DASHES, self.levels.values(), strict=False):
            out.append(
                f'<line x1="{left}" x2="{left + wide}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#444" '
                f'stroke-dasharray="{dash}"/>'
            )
        for colour, curve in zip(COLOURS, self.curves.values(), strict=False):
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _ in curve)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            for x, y, sd in curve:
                out.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.6" fill="{colour}"/>')
                if sd > 0 and not self.log:
                    out.append(
                        f'<line x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{up(y - sd):.1f}" '
                        f'y2="{up(y + sd):.1f}" stroke="{colour}"/>'
                    )
        legend = [
            (name, f'stroke="{colour}" stroke-width="4"') for colour, name in zip(COLOURS, self.curves, strict=False)
        ]
        legend += [
            (name, f'stroke="#444" stroke-dasharray="{dash}"') for dash, name in zip(DASHES, self.levels, strict=False)
        ]
        for i, (name, look) in enumerate(legend):
            x, y = left + wide + 10, top + 10 + 16 * i
            out.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" {look}/>')
            out.append(f'<text x="{x + 28}" y="{y}">{escape(name)}</text>')
        return "\n".join(out)


def sheet(panels: Sequence[Panel], across: int) -> str:
    """Panels side by side on white, as one SVG."""
    wide, high = 540, 300
    rows = -(-len(panels) // across)
    parts = [p.drawn(70 + wide * (i % across), 40 + high * (i // across)) for i, p in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide * across} {high * rows}" '
        f'width="{wide * across}" height="{high * rows}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
