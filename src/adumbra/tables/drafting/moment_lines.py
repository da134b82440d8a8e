"""Lines of a draft on a column of dates, times, datetimes or durations."""

from __future__ import annotations

import datetime

from adumbra.tables.drafting.finding import ColumnFinding, empty_cells, question, suggestion
from adumbra.tables.drafting.look import Look
from adumbra.tables.drafting.ranges import round_up

__all__ = ["moment_finding"]

_ISO = ("native", "%Y-%m-%d", "iso", "clock", "%H:%M", "%H:%M:%S")
_ORDER = ("date", "datetime", "time", "duration")


def moment_finding(name: str, look: Look) -> ColumnFinding | None:
    """Lines for a column called `name` whose cells are all moments, as `look` has seen; None if they are not.

    Digits alone (20200131) are a date only where nothing else speaks against it: the years are those of our time.
    """
    forms = sorted(look.moments, key=lambda form: _ORDER.index(form[0]))
    forms = [form for form in forms if form[1] != "%Y%m%d" or _our_time(look, form)]
    if not forms:
        return None
    kind, form = forms[0]
    finding = ColumnFinding(name, look, [], kind, form)
    finding.blank_words = list(look.words)
    finding.lines = [f'kind = "{kind}"'] if kind in ("date", "datetime") else [f'# kind = "{kind}"']
    if form not in _ISO:
        others = [other for same, other in forms[1:] if same == kind]
        if others:
            finding.lines.append(question(f"day or month first? {form} and {others[0]} both fit every cell"))
        finding.lines.append(suggestion("format", form))
    finding.lines += _rest(look, kind, form)
    finding.lines += empty_cells(look, look.words.total())
    return finding


def _our_time(look: Look, form: tuple[str, str]) -> bool:
    low, high = look.moment.ends(form)
    return low.year >= 1900 and high.year <= 2100 and look.full > 1


def _rest(look: Look, kind: str, form: str) -> list[str]:
    step = look.moment.step((kind, form))
    lines = []
    if kind == "date":
        first, last = look.moment.ends((kind, form))
        lines += [suggestion("low", datetime.date(first.year, 1, 1))]
        lines += [suggestion("high", datetime.date(last.year, 12, 31))]
    elif kind == "datetime":
        first, last = look.moment.ends((kind, form))
        end = datetime.datetime(min(last.year + 1, 9999), 1, 1)
        lines += [suggestion("low", datetime.datetime(first.year, 1, 1)), suggestion("high", end)]
    elif kind == "time":
        lines += ["## low and high: the whole day, unless you write others"]
    else:
        low, high = (look.moment.open or {})[kind, form]
        lines += [suggestion("low", _span(low, up=False)), suggestion("high", _span(high, up=True))]
    if kind in ("datetime", "time", "duration") and (step != "day" or kind == "datetime"):
        lines.append(suggestion("step", step))
    if look.moment.zone is not None:
        lines.append(f'zone = "{look.moment.zone}"')
    elif look.moment.offsets and kind == "datetime":
        lines.append(suggestion("zone", "UTC"))
    return lines


def _span(microseconds: int, *, up: bool) -> str:
    """A duration, rounded outward to a round number of seconds, minutes, hours or days."""
    seconds = abs(microseconds) / 1_000_000
    if seconds == 0 or (up == (microseconds < 0) and seconds < 86_400):
        return "00:00:00" if not (up and seconds == 0) else "00:00:01"
    unit = next(worth for worth in (86_400, 3600, 60, 1) if seconds >= worth or worth == 1)
    number = int(round_up(max(1.0, seconds / unit)))
    if up == (microseconds < 0):  # towards nothing
        return "00:00:00"
    days, rest = divmod(number * unit, 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return ("-" if microseconds < 0 else "") + (f"{days}d {clock}" if days else clock)
