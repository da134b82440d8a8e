"""The trade-off as a picture: what the service gets against what the best adversary gets, one mark per recipe."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from adumbra.common.errors import InputError
from adumbra.report.svg import (
    AxisScale,
    Frame,
    element,
    heading,
    legend,
    marker,
    path,
    picture,
    printable,
    round_ticks,
    said,
)

__all__ = ["frontier_svg"]

_WIDTH, _LEFT, _RIGHT, _HIGH = 860.0, 70.0, 24.0, 440.0
_SIZE = 5.5
_OTHER = ("text", "circle")

Box = tuple[float, float, float, float]
Row = Mapping[str, Any]


def frontier_svg(rows: Sequence[Row], *, chance: float, within: float, title: str) -> str:
    """`rows` as marks: filled if they hold, open if not, with bars of one deviation; named, those that hold first.

    A row has `label`, `release`, `utility`, `utility_sd`, `worst`, `worst_sd` (shares; NaN for no bar) and `holds`, and
    may have a `mark`, the colour and shape of its kind of release. A row whose shares are no numbers (nothing was
    released) is named below the picture. Names that find no place without covering others are left out: the table has
    them all, and so has the mark for those who point at it. The band from `chance` to so many points above it
    (`within`) is what counts as holding; `title` stands above all.
    """
    drawn = [row for row in rows if math.isfinite(row["utility"]) and math.isfinite(row["worst"])]
    if not drawn:
        raise InputError("a recipe with a utility and an adversary", f"none in {len(rows)}", "measure one first")
    holding = [row for row in drawn if row["holds"]]
    best = max(holding, key=lambda row: float(row["utility"])) if holding else None
    words = _summary(drawn, best, within)
    head, end = heading(title, words)
    floor = end + 40.0 + _HIGH
    across = _span([value for row in drawn for value in _ends(row, "worst")] + [chance, chance + within])
    up = _span([value for row in drawn for value in _ends(row, "utility")])
    frame = Frame(AxisScale.linear(_LEFT, _WIDTH - _RIGHT, *across), AxisScale.linear(floor, floor - _HIGH, *up))
    leaders, names = _names(frame, drawn, best)
    notes = _notes(rows, drawn, floor + 80.0)
    parts = [
        *head,
        *_legend(end + 25.0, drawn),
        *_ground(frame, chance, within, across, up),
        *(part for row in drawn for part in _bars(frame, row)),
        *leaders,
        *(part for row in drawn for part in _mark(frame, row, best=row is best)),
        *names,
        *notes,
    ]
    height = floor + 72.0 + 17.0 * len(notes)
    return picture(_WIDTH, height, parts, label=f"{title}. {words}.", title=title or "Trade-off")


def _ground(
    frame: Frame, chance: float, within: float, across: tuple[float, float], up: tuple[float, float]
) -> list[str]:
    """The band that counts as chance, the grid, chance itself, and what all of it means."""
    left, top, floor, middle = frame.x.start, frame.y.end, frame.y.start, frame.x(chance)
    words = f"dashed: chance, {100 * chance:.1f} %; shaded: at most {100 * within:g} points above it"
    return [
        element("rect", kind="band", x=left, y=top, width=frame.x(chance + within) - left, height=_HIGH,
                fill="green", fill_opacity=0.1),
        *frame.grid(_ticks(*across), _ticks(*up)),
        path(f"M{middle:.1f} {top:g}V{floor:g}", kind="chance", stroke="green", stroke_width=1.6,
             stroke_dasharray="6 4"),
        *frame.border("accuracy of the best adversary found", "accuracy of the service"),
        said(left, floor + 58, words, fill="green"),
    ]  # fmt: skip


def _bars(frame: Frame, row: Row) -> list[str]:
    """One deviation each way, where there is one."""
    x, y = _spot(frame, row)
    (left, right), (low, high) = _ends(row, "worst"), _ends(row, "utility")
    shape = f"M{frame.x(left):.1f} {y:.1f}H{frame.x(right):.1f}" if right > left else ""
    shape += f"M{x:.1f} {frame.y(low):.1f}V{frame.y(high):.1f}" if high > low else ""
    return [path(shape, kind="bar", stroke=_kind(row)[0], stroke_width=1.1, stroke_opacity=0.55)] if shape else []


def _mark(frame: Frame, row: Row, *, best: bool) -> list[str]:
    """The mark, with the numbers for those who point at it; the best has a ring."""
    x, y = _spot(frame, row)
    tip = (
        f"{row['label']}: service {_percent(row['utility'], row['utility_sd'])}, "
        f"best adversary {_percent(row['worst'], row['worst_sd'])}"
    )
    ink, shape = _kind(row)
    kind = "mark holds" if row["holds"] else "mark leaks"
    ring = element("circle", kind="best", cx=x, cy=y, r=11, fill="none", stroke="text", stroke_width=1.6)
    return [marker(x, y, shape=shape, ink=ink, filled=bool(row["holds"]), kind=kind, tip=tip), *([ring] * best)]


def _names(frame: Frame, drawn: Sequence[Row], best: Row | None) -> tuple[list[str], list[str]]:
    """Names, those that hold and the most useful first, each at the nearest free place; thin lines to far ones."""
    reach = _SIZE + 3.5
    marks = [_spot(frame, row) for row in drawn]
    taken: list[Box] = [(x - reach, y - reach, x + reach, y + reach) for x, y in marks]
    leaders: list[str] = []
    names: list[str] = []
    for row in sorted(drawn, key=lambda row: (not row["holds"], -row["utility"])):
        own, first = _spot(frame, row), row is best
        words = f"best: {row['label']}" if first else str(row["label"])
        free = _free(frame, own, 6.1 * len(words) * (1.08 if first else 1.0) + 4.0, taken)
        # a name that is nearer to another mark would be read as that one's: such places come last
        free.sort(key=lambda box: min(_apart(box, mark) for mark in marks) < _apart(box, own) - 0.1)
        if not free:
            continue
        taken.append(free[0])
        leaders += _leader(own, free[0], doubtful=min(_apart(free[0], m) for m in marks) < _apart(free[0], own))
        names.append(_name(free[0], words, first=first, holds=bool(row["holds"])))
    return leaders, names


def _free(frame: Frame, spot: tuple[float, float], wide: float, taken: Sequence[Box]) -> list[Box]:
    """Places for a name of this width near a mark, the nearest first."""
    x, y = spot
    out = []
    for far in (14.0, 22.0, 34.0, 50.0, 70.0, 95.0, 125.0, 160.0):
        for angle in (0, 180, 90, -90, 30, -30, 150, -150, 60, -60, 120, -120):
            dx, dy = far * math.cos(math.radians(angle)), far * math.sin(math.radians(angle))
            left = x + dx if dx > 1 else x + dx - wide if dx < -1 else x - wide / 2
            box = (left, y + dy - 7.0, left + wide, y + dy + 7.0)
            inside = box[0] > frame.x.start + 2 and box[2] < frame.x.end - 2
            if inside and box[1] > frame.y.end + 2 and box[3] < frame.y.start - 2 and not _touches(box, taken):
                out.append(box)
    return out


def _apart(box: Box, spot: tuple[float, float]) -> float:
    """From a spot to the nearest point of a box."""
    x, y = spot
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


def _leader(spot: tuple[float, float], box: Box, *, doubtful: bool) -> list[str]:
    """From a mark to a name that stands away from it, or nearer to another."""
    x, y = spot
    end, middle = min(max(x, box[0]), box[2]), (box[1] + box[3]) / 2
    if math.hypot(end - x, middle - y) <= 24.0 and not doubtful:
        return []
    return [path(f"M{x:.1f} {y:.1f}L{end:.1f} {middle:.1f}", kind="leader", stroke="quiet", stroke_width=0.8)]


def _name(box: Box, words: str, *, first: bool, holds: bool) -> str:
    """With a rim of the ground's colour, so that a line behind it does not strike it out."""
    kind, ink = ("name", "text") if holds else ("other", "quiet")
    return said(
        box[0] + 2, (box[1] + box[3]) / 2 + 4, words, kind=kind, font_size="11.5", font_weight="600" if first else None,
        fill=ink, stroke="ground", stroke_width=3, stroke_opacity=0.8, paint_order="stroke",
    )  # fmt: skip


def _legend(y: float, rows: Sequence[Row]) -> list[str]:
    """The releases that occur, and what filled, open and bars mean."""
    used = {str(row["release"]): _kind(row) for row in rows}
    words = "filled: holds; open: does not; bars: one deviation"
    return [
        *legend(y, [(_key(*kind), name) for name, kind in used.items()]),
        said(_WIDTH - _RIGHT, y, words, text_anchor="end", fill="quiet"),
    ]


def _key(ink: str, shape: str) -> Callable[[float, float], str]:
    return lambda x, y: marker(x, y, shape=shape, ink=ink, kind="key")


def _notes(rows: Sequence[Row], drawn: Sequence[Row], y: float) -> list[str]:
    """Rows without a mark."""
    absent = [str(row["label"]) for row in rows if not any(row is one for one in drawn)]
    lines = textwrap.wrap(printable("Nothing released by: " + ", ".join(absent)), 120) if absent else []
    return [said(16, y + 17 * i, line, fill="quiet") for i, line in enumerate(lines)]


def _summary(rows: Sequence[Row], best: Row | None, within: float) -> str:
    count = sum(bool(row["holds"]) for row in rows)
    words = f"{count} of {len(rows)} within {100 * within:g} points of chance"
    if best is None:
        return words
    label = textwrap.shorten(printable(str(best["label"])), 80, placeholder="…")
    return f"{words}; best: {label}, {100 * best['utility']:.1f} %"


def _kind(row: Row) -> tuple[str, str]:
    return row.get("mark") or _OTHER


def _spot(frame: Frame, row: Row) -> tuple[float, float]:
    return frame.x(row["worst"]), frame.y(row["utility"])


def _ends(row: Row, key: str) -> tuple[float, float]:
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
    """Round percentages inside the axis; none below 0 or above 100."""
    ticks = round_ticks(max(0.0, 100 * low), min(100.0, 100 * high), most=10, least=1.0)
    return [(tick / 100, f"{tick:.0f} %") for tick in ticks]


def _touches(box: Box, taken: Iterable[Box]) -> bool:
    return any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)


def _percent(share: float, deviation: float) -> str:
    return f"{100 * share:.1f} %" + (f" ± {100 * deviation:.1f}" if math.isfinite(deviation) else "")
