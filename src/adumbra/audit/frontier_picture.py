"""The trade-off as a picture: what the service gets against what the best adversary gets, one mark a recipe, as SVG.

It holds its own colours on a white ground, no script, no style sheet and no font, so it looks the same in a viewer
of either colour scheme, in a page and on paper.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from adumbra.core.errors import InputError

__all__ = ["frontier_svg"]

_WIDTH, _LEFT, _RIGHT, _HIGH = 860.0, 70.0, 24.0, 440.0
_TEXT, _QUIET, _LINE, _BAND, _CHANCE = "#1f242b", "#5b6570", "#e3e6ea", "#2e7d4f", "#2e7d4f"
_SIZE = 5.5
# colours that stay apart for the colour-blind, and a shape of its own for each release
_KINDS = {
    "coarse": ("#5b6570", "circle"),
    "fine": ("#b3541e", "triangle"),
    "resample": ("#1f5fa8", "square"),
    "respond": ("#2a8fb8", "diamond"),
    "repair": ("#a0307f", "wedge"),
    "laplace": ("#8a6d00", "cross"),
}
_OTHER = ("#1f242b", "circle")

Box = tuple[float, float, float, float]


def frontier_svg(rows: Sequence[Mapping[str, Any]], *, chance: float, within: float, title: str) -> str:
    """Rows as marks: filled if they hold, open if not, with bars of one deviation; named, those that hold first.

    A row has `label`, `release`, `utility`, `utility_sd`, `worst`, `worst_sd` (shares; NaN for no bar) and `holds`. A
    row whose shares are no numbers (nothing was released) is named below the picture. Names that find no place without
    covering others are left out: the table has them all, and so has the mark for those who point at it.
    """
    drawn = [row for row in rows if math.isfinite(row["utility"]) and math.isfinite(row["worst"])]
    if not drawn:
        raise InputError("a recipe with a utility and an adversary", f"none in {len(rows)}", "measure one first")
    holding = [row for row in drawn if row["holds"]]
    best = max(holding, key=lambda row: float(row["utility"])) if holding else None
    lines = textwrap.wrap(_printable(title), 84) or [""]
    words = _summary(drawn, best, within)
    top = 24.0 + 19.0 * len(lines) + 40.0
    frame = _Frame(top, drawn, chance, within)
    leaders, names = frame.names(drawn, best)
    notes = _notes(rows, drawn, frame.floor + 80.0)
    height = frame.floor + 72.0 + 17.0 * len(notes)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:g}" height="{height:g}" '
        f'viewBox="0 0 {_WIDTH:g} {height:g}" font-family="system-ui, sans-serif" font-size="12" role="img" '
        f'aria-label="{_escaped(title)}. {_escaped(words)}.">',
        f"<title>{_escaped(title)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        *(
            f'<text x="16" y="{26 + 19 * i}" font-size="15" font-weight="600" fill="{_TEXT}">{_escaped(line)}</text>'
            for i, line in enumerate(lines)
        ),
        f'<text x="16" y="{top - 40:g}" fill="{_QUIET}">{_escaped(words)}</text>',
        *_legend(top - 15, drawn),
        *frame.ground(),
        *(part for row in drawn for part in frame.bars(row)),
        *leaders,
        *(part for row in drawn for part in frame.mark(row, best=row is best)),
        *names,
        *notes,
        "</svg>",
    ]
    return "\n".join(out) + "\n"


class _Frame:
    """Places of shares in the picture."""

    def __init__(self, top: float, rows: Sequence[Mapping[str, Any]], chance: float, within: float) -> None:
        self.top, self.floor = top, top + _HIGH
        self.right = _WIDTH - _RIGHT
        self.chance, self.limit = chance, chance + within
        across = [value for row in rows for value in _ends(row, "worst")]
        up = [value for row in rows for value in _ends(row, "utility")]
        self.low_x, self.high_x = _span([*across, chance, self.limit])
        self.low_y, self.high_y = _span(up)

    def x(self, share: float) -> float:
        """Of an adversary's accuracy."""
        return _LEFT + (self.right - _LEFT) * (share - self.low_x) / (self.high_x - self.low_x)

    def y(self, share: float) -> float:
        """Of a service's accuracy."""
        return self.floor - _HIGH * (share - self.low_y) / (self.high_y - self.low_y)

    def ground(self) -> list[str]:
        """Grid and its values, the band that counts as chance, chance itself, and what the axes mean."""
        start, end, chance = self.x(self.low_x), self.x(self.limit), self.x(self.chance)
        points = 100 * (self.limit - self.chance)
        out = [
            f'<rect class="band" x="{start:.1f}" y="{self.top:g}" width="{end - start:.1f}" height="{_HIGH:g}" '
            f'fill="{_BAND}" fill-opacity="0.10"/>'
        ]
        for tick, said in _ticks(self.low_x, self.high_x):
            x = self.x(tick)
            out.append(f'<path d="M{x:.1f} {self.top:g}V{self.floor:g}" stroke="{_LINE}" stroke-width="0.8"/>')
            out.append(f'<text x="{x:.1f}" y="{self.floor + 17:g}" text-anchor="middle" fill="{_QUIET}">{said}</text>')
        for tick, said in _ticks(self.low_y, self.high_y):
            y = self.y(tick)
            out.append(f'<path d="M{_LEFT:g} {y:.1f}H{self.right:g}" stroke="{_LINE}" stroke-width="0.8"/>')
            out.append(
                f'<text x="{_LEFT - 7:g}" y="{y:.1f}" dy="0.35em" text-anchor="end" fill="{_QUIET}">{said}</text>'
            )
        middle_x, middle_y = (_LEFT + self.right) / 2, self.top + _HIGH / 2
        return [
            *out,
            f'<path class="chance" d="M{chance:.1f} {self.top:g}V{self.floor:g}" stroke="{_CHANCE}" '
            'stroke-width="1.6" stroke-dasharray="6 4" fill="none"/>',
            f'<rect x="{_LEFT:g}" y="{self.top:g}" width="{self.right - _LEFT:g}" height="{_HIGH:g}" fill="none" '
            f'stroke="{_QUIET}" stroke-width="1"/>',
            f'<text x="{middle_x:g}" y="{self.floor + 39:g}" text-anchor="middle" fill="{_TEXT}">'
            "accuracy of the best adversary found</text>",
            f'<text x="16" y="{middle_y:g}" transform="rotate(-90 16 {middle_y:g})" text-anchor="middle" '
            f'fill="{_TEXT}">accuracy of the service</text>',
            f'<text x="{_LEFT:g}" y="{self.floor + 58:g}" fill="{_CHANCE}">dashed: chance, {100 * self.chance:.1f} %; '
            f"shaded: at most {points:g} points above it</text>",
        ]

    def bars(self, row: Mapping[str, Any]) -> list[str]:
        """One deviation each way, where there is one."""
        x, y, colour = self.x(row["worst"]), self.y(row["utility"]), _kind(row)[0]
        (left, right), (low, high) = _ends(row, "worst"), _ends(row, "utility")
        path = f"M{self.x(left):.1f} {y:.1f}H{self.x(right):.1f}" if right > left else ""
        path += f"M{x:.1f} {self.y(low):.1f}V{self.y(high):.1f}" if high > low else ""
        if not path:
            return []
        return [
            f'<path class="bar" d="{path}" stroke="{colour}" stroke-width="1.1" stroke-opacity="0.55" fill="none"/>'
        ]

    def mark(self, row: Mapping[str, Any], *, best: bool) -> list[str]:
        """The mark, with the numbers for those who point at it; the best has a ring."""
        x, y = self.x(row["worst"]), self.y(row["utility"])
        said = (
            f"{row['label']}: service {_percent(row['utility'], row['utility_sd'])}, "
            f"best adversary {_percent(row['worst'], row['worst_sd'])}"
        )
        ring = [
            f'<circle class="best" cx="{x:.1f}" cy="{y:.1f}" r="11" fill="none" stroke="{_TEXT}" stroke-width="1.6"/>'
        ]
        name = "mark holds" if row["holds"] else "mark leaks"
        return [
            _shape(_kind(row), x, y, filled=bool(row["holds"]), name=name, inside=f"<title>{_escaped(said)}</title>"),
            *(ring if best else []),
        ]

    def names(
        self,
        drawn: Sequence[Mapping[str, Any]],
        best: Mapping[str, Any] | None,
    ) -> tuple[list[str], list[str]]:
        """Names, those that hold and the most useful first, each at the nearest free place; thin lines to far ones."""
        reach = _SIZE + 3.5
        marks = [(self.x(row["worst"]), self.y(row["utility"])) for row in drawn]
        taken: list[Box] = [(x - reach, y - reach, x + reach, y + reach) for x, y in marks]
        leaders: list[str] = []
        names: list[str] = []
        for row in sorted(drawn, key=lambda row: (not row["holds"], -row["utility"])):
            own, first = (self.x(row["worst"]), self.y(row["utility"])), row is best
            words = f"best: {row['label']}" if first else str(row["label"])
            free = self._free(*own, 6.1 * len(words) * (1.08 if first else 1.0) + 4.0, taken)
            # a name that is nearer to another mark would be read as that one's: such places come last
            free.sort(key=lambda box: min(_apart(box, mark) for mark in marks) < _apart(box, own) - 0.1)
            if not free:
                continue
            taken.append(free[0])
            leaders += _leader(*own, free[0], doubtful=min(_apart(free[0], m) for m in marks) < _apart(free[0], own))
            names.append(_name(free[0], words, first=first, holds=bool(row["holds"])))
        return leaders, names

    def _free(self, x: float, y: float, wide: float, taken: Sequence[Box]) -> list[Box]:
        """Places for a name of this width near a mark, the nearest first."""
        out = []
        for far in (14.0, 22.0, 34.0, 50.0, 70.0, 95.0, 125.0, 160.0):
            for angle in (0, 180, 90, -90, 30, -30, 150, -150, 60, -60, 120, -120):
                dx, dy = far * math.cos(math.radians(angle)), far * math.sin(math.radians(angle))
                left = x + dx if dx > 1 else x + dx - wide if dx < -1 else x - wide / 2
                box = (left, y + dy - 7.0, left + wide, y + dy + 7.0)
                inside = box[0] > _LEFT + 2 and box[2] < self.right - 2
                if inside and box[1] > self.top + 2 and box[3] < self.floor - 2 and not _touches(box, taken):
                    out.append(box)
        return out


def _apart(box: Box, spot: tuple[float, float]) -> float:
    """From a spot to the nearest point of a box."""
    x, y = spot
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


def _leader(x: float, y: float, box: Box, *, doubtful: bool) -> list[str]:
    """From a mark to a name that stands away from it, or nearer to another."""
    end, middle = min(max(x, box[0]), box[2]), (box[1] + box[3]) / 2
    if math.hypot(end - x, middle - y) <= 24.0 and not doubtful:
        return []
    return [
        f'<path class="leader" d="M{x:.1f} {y:.1f}L{end:.1f} {middle:.1f}" stroke="{_QUIET}" stroke-width="0.8" '
        'fill="none"/>'
    ]


def _name(box: Box, words: str, *, first: bool, holds: bool) -> str:
    """With a white rim, so that a line behind it does not strike it out."""
    weight = ' font-weight="600"' if first else ""
    kind, colour = ("name", _TEXT) if holds else ("other", _QUIET)
    return (
        f'<text class="{kind}" x="{box[0] + 2:.1f}" y="{(box[1] + box[3]) / 2 + 4:.1f}" font-size="11.5"{weight} '
        f'fill="{colour}" stroke="#ffffff" stroke-width="3" stroke-opacity="0.8" paint-order="stroke">'
        f"{_escaped(words)}</text>"
    )


def _shape(kind: tuple[str, str], x: float, y: float, *, filled: bool, name: str, inside: str = "") -> str:
    """Filled in its colour or white inside; a cross has no inside, so it is thick or thin."""
    colour, shape = kind
    size = _SIZE
    wide = 3.2 if shape == "cross" and filled else 1.6
    style = f'class="{name}" fill="{colour if filled else "#ffffff"}" stroke="{colour}" stroke-width="{wide:g}"'
    if shape == "circle":
        return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{size - 0.5:g}">{inside}</circle>'
    path = {
        "square": f"M{x - 4.6:.1f} {y - 4.6:.1f}h9.2v9.2h-9.2Z",
        "diamond": f"M{x:.1f} {y - size - 1:.1f}l{size:g} {size + 1:g}l{-size:g} {size + 1:g}l{-size:g} {-size - 1:g}Z",
        "triangle": f"M{x:.1f} {y - size - 0.5:.1f}l{size + 0.5:g} {2 * size:g}h{-2 * size - 1:g}Z",
        "wedge": f"M{x:.1f} {y + size + 0.5:.1f}l{size + 0.5:g} {-2 * size:g}h{-2 * size - 1:g}Z",
        "cross": f"M{x - 4.6:.1f} {y - 4.6:.1f}l9.2 9.2M{x - 4.6:.1f} {y + 4.6:.1f}l9.2 -9.2",
    }[shape]
    return f'<path {style} d="{path}">{inside}</path>'


def _legend(y: float, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The releases that occur, and what filled, open and bars mean."""
    out, x = [], 22.0
    for release in dict.fromkeys([*_KINDS, *(str(row["release"]) for row in rows)]):
        if any(row["release"] == release for row in rows):
            out.append(_shape(_KINDS.get(release, _OTHER), x, y - 4, filled=True, name="key"))
            out.append(f'<text x="{x + 10:g}" y="{y:g}" fill="{_QUIET}">{_escaped(release)}</text>')
            x += 36.0 + 6.4 * len(release)
    words = "filled: holds; open: does not; bars: one deviation"
    out.append(f'<text x="{_WIDTH - _RIGHT:g}" y="{y:g}" text-anchor="end" fill="{_QUIET}">{words}</text>')
    return out


def _notes(rows: Sequence[Mapping[str, Any]], drawn: Sequence[Mapping[str, Any]], y: float) -> list[str]:
    """Rows without a mark."""
    absent = [str(row["label"]) for row in rows if not any(row is one for one in drawn)]
    lines = textwrap.wrap(_printable("Nothing released by: " + ", ".join(absent)), 120) if absent else []
    return [f'<text x="16" y="{y + 17 * i:g}" fill="{_QUIET}">{_escaped(line)}</text>' for i, line in enumerate(lines)]


def _summary(rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None, within: float) -> str:
    count = sum(bool(row["holds"]) for row in rows)
    said = f"{count} of {len(rows)} within {100 * within:g} points of chance"
    if best is None:
        return said
    label = textwrap.shorten(_printable(str(best["label"])), 80, placeholder="…")
    return f"{said}; best: {label}, {100 * best['utility']:.1f} %"


def _kind(row: Mapping[str, Any]) -> tuple[str, str]:
    return _KINDS.get(str(row["release"]), _OTHER)


def _ends(row: Mapping[str, Any], key: str) -> tuple[float, float]:
    """A share less and plus its deviation; itself twice where there is none."""
    value, around = float(row[key]), float(row[f"{key}_sd"])
    around = around if math.isfinite(around) else 0.0
    return max(0.0, value - around), min(1.0, value + around)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The shares that an axis shows: all of them, with air, and never less than 4 points."""
    low, high = min(values), max(values)
    air = max(0.06 * (high - low), 0.01, (0.04 - (high - low)) / 2)
    return low - air, high + air


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round percentages inside the axis, at most ten; none below 0 or above 100."""
    step = next(step for step in (1, 2, 5, 10, 20, 50) if 100 * (high - low) <= 10 * step)
    first, last = math.ceil(max(0.0, 100 * low) / step), math.floor(min(100.0, 100 * high) / step)
    return [(step * i / 100, f"{step * i} %") for i in range(first, last + 1)]


def _touches(box: Box, taken: Iterable[Box]) -> bool:
    return any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)


def _percent(share: float, deviation: float) -> str:
    return f"{100 * share:.1f} %" + (f" ± {100 * deviation:.1f}" if math.isfinite(deviation) else "")


def _printable(words: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in words)


def _escaped(words: str) -> str:
    return escape(_printable(words))
