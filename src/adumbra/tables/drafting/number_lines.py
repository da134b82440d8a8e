"""Lines of a draft on a column of numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import polars as pl

from adumbra.common.errors import InputError
from adumbra.declare.column import Column
from adumbra.tables.drafting.finding import ColumnFinding, empty_cells, many_rows_remark, question, suggestion, toml
from adumbra.tables.drafting.look import Look
from adumbra.tables.drafting.number_look import MOST_DECIMALS
from adumbra.tables.drafting.ranges import outward, years
from adumbra.tables.drafting.words import known_range, names_clock, names_id

__all__ = ["blank_lines", "number_finding", "stored_type", "whole_if_whole"]

_MOST_CODES = 20
_SPIKE = 0.05
_MOST_MINUTES = 60
_YEARS = (1900, 2100)
_MOST_SPIKES = 5
_PLAIN = (pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Null, pl.Object)


def stored_type(look: Look, *, settled: bool) -> list[str]:
    """The type its cells have in the table, where a release would choose another.

    Written out if `settled`: known before any row. Where one empty cell would have made it another, the rows had a
    say in it.
    """
    kind = look.kind
    if kind is None or kind in _PLAIN:
        return []
    if kind in (pl.Categorical, pl.Enum):
        return ['type = "categorical"']
    if kind.is_integer() or kind == pl.Float32:
        return [f'{"" if settled or kind == pl.Float32 else "# "}type = "{str(kind).lower()}"']
    return []


def whole_if_whole(number: float) -> int | float:
    """A whole number without a point."""
    return int(number) if float(number).is_integer() and abs(number) <= 2**53 else number


def blank_lines(finding: ColumnFinding, in_table: frozenset[str]) -> list[str]:
    """Lines on the words and numbers that may mean "nothing here", but for those that stand under [table]."""
    words = [word for word in finding.blank_words if word not in in_table]
    found = [*words, *(whole_if_whole(number) for number in finding.blank_numbers)]
    if not found:
        return []
    said = ", ".join(toml(word) for word in found)
    besides = "" if finding.kind in ("category", "ordinal", "flag") and not finding.blank_numbers else " in the range"
    instead = f"put it {besides.strip()}" if besides else "add it to values"
    verb = "does it mean" if len(found) == 1 else "do they mean"
    return [question(f'{said}: {verb} "nothing here"? else delete this line and {instead}'), suggestion("blank", found)]


def number_finding(name: str, look: Look, *, settled: bool) -> ColumnFinding:
    """Lines for a column of numbers called `name`, of which `look` is known; `settled` as for `stored_type`."""
    if look.rows > 1 and look.number.whole and not look.words:
        lines = _identifier(name, look)
        if lines:
            return ColumnFinding(name, look, lines)
    finding = ColumnFinding(name, look, [], "number")
    finding.blank_words = list(look.words)
    finding.blank_numbers = look.number.standing_apart(look.different)
    sizes = look.sizes()
    for number in finding.blank_numbers:
        sizes.pop(number, None)
    decimals = look.number.decimals if look.number.decimals <= MOST_DECIMALS else None
    seen = look.number.range(finding.blank_numbers)
    if _codes(look, sizes):
        _ordinal(finding, sizes)
    else:
        _range(finding, sizes, seen, decimals)
    if finding.kind is not None:
        blanks = sum(look.words.values()) + sum(look.number.apart[number] for number in finding.blank_numbers)
        finding.lines += [*empty_cells(look, blanks), *stored_type(look, settled=settled)]
    return finding


def _identifier(name: str, look: Look) -> list[str]:
    """Lines for numbers that count the rows, or whose name says that they identify."""
    if look.number.counts_up and look.full > 1:
        return ["## whole numbers that count the rows: an identifier", '# role = "id"']
    if not names_id(name) or (look.few and not look.own):
        return []
    if look.own:
        pattern = [suggestion("pattern", look.shape.pattern)] if look.shape.pattern else []
        said = "## every row has its own value: an identifier tells who the row is; a release gets fresh ones"
        return [said, '# role = "id"', *pattern]
    if not look.many and look.different < 3:
        return []
    return [*many_rows_remark(repeated(look)), '# role = "drop"']


def repeated(look: Look) -> str:
    """How many values there are, in round terms, and that they repeat."""
    if not look.distinct.exact and not look.distinct.repeat:
        return "very many values, perhaps one in every row"
    number = look.different
    unit = 10 ** max(0, len(str(number)) - 2)
    said = f"about {round(number / unit) * unit:,} values" if number >= 100 else f"{number} values"
    times = look.full / max(1, number)
    return f"{said} in {look.full:,} rows, which repeat" + (f" about {times:.0f} times" if times >= 2 else "")


def _codes(look: Look, sizes: Counter[float]) -> bool:
    """Whether the numbers are few, whole and far apart: codes, of which no other exists."""
    if look.many or not look.number.whole or not 3 <= len(sizes) <= _MOST_CODES:
        return False
    low, high = min(sizes), max(sizes)
    common = min(sizes.values()) >= max(5, sizes.total() // 1000)  # rare ones are the tail of a count
    return common and high - low + 1 >= 1.5 * len(sizes) and sizes.total() >= 30 * len(sizes) and high < 10_000


def _ordinal(finding: ColumnFinding, sizes: Counter[float]) -> None:
    finding.kind = "ordinal"
    finding.values = tuple(whole_if_whole(size) for size in sorted(sizes))
    finding.lines = [
        'kind = "ordinal"',
        "## few whole numbers with gaps between them, in order: codes? If their order means nothing, write",
        '## kind = "category"; if numbers between them can be, write kind = "number", low and high',
        suggestion("values", list(finding.values)),
    ]


def _range(finding: ColumnFinding, sizes: Counter[float], seen: tuple[float, float], decimals: int | None) -> None:
    low, high = (0.0, 2400.0) if _clock(finding.name, finding.look, sizes) else _suggested(finding.name, seen, decimals)
    whole = decimals == 0 and max(-low, high) <= 2**53
    if whole:
        low, high = math.floor(low), math.ceil(high)
    try:
        Column(finding.name, "number", low=low, high=high, integer=whole)
    except InputError:
        finding.kind = None
        finding.lines = ["## numbers too large or too close for one grid", '# role = "drop"']
        return
    finding.low, finding.high = low, high
    lines = ['kind = "number"', *(["integer = true"] if whole else [])]
    lines += _remarks(finding.name, finding.look, sizes, whole=whole)
    lines += [suggestion("low", whole_if_whole(low)), suggestion("high", whole_if_whole(high))]
    if not whole and decimals:
        lines.append(suggestion("decimals", decimals))
    found = _spikes(finding.look, sizes)
    finding.lines = [*lines, *([suggestion("spikes", found)] if found else [])]


def _suggested(name: str, seen: tuple[float, float], decimals: int | None) -> tuple[float, float]:
    low, high = seen
    known = known_range(name, low, high)
    if known is not None:
        return known
    if decimals == 0 and low >= _YEARS[0] and high <= _YEARS[1]:
        return years(low, high)
    return outward(low, high, decimals)


def _remarks(name: str, look: Look, sizes: Counter[float], *, whole: bool) -> list[str]:
    low, high = look.number.range([])
    if look.different == 1:
        return ['## a constant: every cell that is there holds one value; role = "drop" leaves the column out']
    if _clock(name, look, sizes):
        return [question('times of day as hhmm? then write kind = "time" and format = "%H%M" instead')]
    days = low >= 19_000_101 and high <= 21_001_231 and ("date", "%Y%m%d") in (look.moment.open or {})
    if days:
        return [question('days as yyyymmdd? then write kind = "date", format = "%Y%m%d", low and high instead')]
    if whole and names_id(name) is False and look.own and look.full >= 100 and not look.number.counts_up:
        return ['## every row has its own value: if it is an identifier, write role = "id" instead']
    if look.many or len(sizes) < 2 or sizes.total() < 10 * len(sizes) or known_range(name, low, high) is not None:
        return []
    return _few(look, sizes, whole=whole)


def _few(look: Look, sizes: Counter[float], *, whole: bool) -> list[str]:
    """Remarks on numbers that may be codes: few of them, or few of those that could be."""
    low, high = min(sizes), max(sizes)
    if whole and low >= _YEARS[0] and high <= _YEARS[1]:
        return []
    if whole and len(sizes) <= _MOST_CODES:
        values = toml([whole_if_whole(size) for size in sorted(sizes)])
        return [f'## few whole numbers: codes? then write kind = "ordinal" (or "category") and values = {values}']
    often = sizes.total() >= 30 * len(sizes) and max(sizes.values()) < 0.2 * sizes.total()
    if not often or look.number.decimals > MOST_DECIMALS:
        return []
    if whole and high - low + 1 >= 10 * len(sizes):
        said = f"## only {len(sizes)} different numbers between low and high: codes? then write"
        return [said, '## kind = "category" (or "ordinal") and values = [...], all of them']
    if not whole and (high - low) * 10**look.number.decimals + 1 >= 3 * len(sizes) and len(sizes) <= _MOST_CODES:
        values = toml([whole_if_whole(size) for size in sorted(sizes)])
        return [f'## few different numbers: can no other be? then write kind = "ordinal" and values = {values}']
    return []


def _clock(name: str, look: Look, sizes: Counter[float]) -> bool:
    """Whether the numbers are times of day as hhmm: by their name, or because all stop short of every hundred."""
    if not look.number.clock or look.different <= 50 or look.number.high <= 100:
        return False
    return names_clock(name) or (len(sizes) > 300 and look.number.high > 2000)


def _spikes(look: Look, sizes: Counter[float]) -> list[int | float]:
    """Values that many cells hold while those around them are rare."""
    cells = look.number.cells
    if look.different <= _MOST_MINUTES or cells < 100:
        return []
    order = sorted(sizes)
    found = []
    for place, size in enumerate(order):
        around = [sizes[order[near]] for near in range(max(0, place - 4), min(len(order), place + 5)) if near != place]
        # of many values only the common ones are known, and they stand out by that
        rare = look.many or statistics.median(around) < sizes[size] / 3
        if sizes[size] > _SPIKE * cells and rare:
            found.append(size)
    common = sorted(found, key=lambda size: -sizes[size])[:_MOST_SPIKES]
    return [whole_if_whole(size) for size in sorted(common)]
