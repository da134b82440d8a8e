"""Lines of a draft on a column of text: categories, flags, sets, ids, names and free text."""

from __future__ import annotations

import polars as pl

from adumbra.declare.column import Value, writable
from adumbra.declare.spelling import answer, key
from adumbra.tables.drafting.finding import ColumnFinding, empty_cells, many_rows_remark, suggestion, toml
from adumbra.tables.drafting.look import MOST_VALUES, Look
from adumbra.tables.drafting.number_lines import repeated, stored_type
from adumbra.tables.drafting.words import like_blank, names_id, names_person

__all__ = ["flag_finding", "text_finding"]

_LISTED = 60
_STILL_SHOWN = 200
_COMMONEST = 50
_RARE = 0.02
_TRUTH = {"true", "false"}


def flag_finding(name: str, look: Look, *, settled: bool) -> ColumnFinding | None:
    """Lines for a column of yes and no; None if it is something else.

    `name` is the column's, `look` what was seen, `settled` as for `stored_type`.
    """
    said = {value: answer(value) for value in look.seen}
    digits = {value for value in said if isinstance(key(value), float) and value.lower() not in _TRUTH}
    if {said[value] for value in digits} == {False, True} and len(said) == len(digits) + 1:
        said = {value: said[value] for value in digits}  # 0, 1 and N: the word is not a no
    said = {value: word for value, word in said.items() if word is not None}
    others = [value for value in look.seen if value not in said]
    if look.kind != pl.Boolean and (
        look.many
        or set(said.values()) != {False, True}
        or (len(said) == 2 and len(digits) == 1)
        or not all(value in look.words for value in others)
        or len(others) > 1
        or not all(like_blank(value) or value.upper() == "N" for value in others)
    ):
        return None
    finding = ColumnFinding(name, look, ["## two values that read as yes and no", '# kind = "flag"'], "flag")
    finding.blank_words = others
    spelled: tuple[Value, ...] = (False, True)
    if len(said) == 2 and {value.lower() for value in said} != _TRUTH:
        words = sorted(said, key=lambda value: bool(said[value]))
        spelled = tuple(_plain(word) for word in words)
        finding.lines.append(suggestion("values", list(spelled)))
    finding.values = spelled
    finding.lines += empty_cells(look, sum(look.seen[other] for other in others))
    finding.lines += stored_type(look, settled=settled)
    return finding


def _plain(word: str) -> Value:
    size = key(word)
    return int(size) if isinstance(size, float) and word.lower() not in _TRUTH else word


def text_finding(name: str, look: Look, listed: tuple[tuple[str, ...], bool] | None = None) -> ColumnFinding:
    """Lines for a column called `name` of which `look` is known, and which is neither numbers nor moments nor flags.

    `listed` has the values that its own type lists, and whether their order counts.
    """
    if listed is not None and 0 < len(listed[0]) <= _STILL_SHOWN and not names_person(name):
        return _listed(name, look, *listed)
    unwritable = [text for text in look.seen if not writable(text)]  # cannot be declared: such a cell is unknown
    for text in unwritable:
        look.blank += look.seen.pop(text)
    if not look.seen and not look.many:
        return ColumnFinding(name, look, ["## no value that a file can hold", '# role = "drop"'])
    if not unwritable and look.items.listed(look.different):
        return _set(name, look)
    lines = _untold(name, look)
    return ColumnFinding(name, look, lines) if lines else _category(name, look)


def _untold(name: str, look: Look) -> list[str]:
    """Lines for a column whose values are no public list: ids, names, free text."""
    nearly = look.full >= 20 and look.different > 0.9 * look.full
    if look.shape.prose and (look.many or nearly):
        return ["## free text, which tells who the row is", '# role = "drop"']
    if names_person(name) and look.different > 1:
        why = ["## its name says that it holds names or addresses of people. A list of values is published"]
        return [*why, '# role = "drop"', *_alternative(look)]
    if look.own and look.full > 1 and (nearly or names_id(name)):
        pattern = look.shape.pattern if look.shape.room() >= look.full else None
        said = "## every row has its own value: an identifier tells who the row is; a release gets fresh ones"
        return [said, '# role = "id"', *([suggestion("pattern", pattern)] if pattern else [])]
    if nearly and not look.many:
        return [*many_rows_remark("nearly every row has its own value"), '# role = "drop"']
    if look.many:
        return [*many_rows_remark(repeated(look)), '# role = "drop"']
    commonest = max(look.seen.values()) / look.full
    if look.different > _LISTED and (commonest < _RARE or look.different > 0.5 * look.full):
        said = f"{repeated(look)}, none of them common: names?"
        return [*many_rows_remark(said), '# role = "drop"', *_alternative(look)]
    return []


def _alternative(look: Look) -> list[str]:
    """The values in a remark, where they are few enough to be read."""
    if look.different > _STILL_SHOWN or look.many:
        return []
    values = toml(_declared(look, []))
    return [f'## only if the whole list is public: kind = "category" and values = {values}']


def _declared(look: Look, without: list[str]) -> list[Value]:
    """The values in order, each in its commonest spelling."""
    spellings: dict[str | float, str] = {}
    for text, _ in sorted(look.seen.items(), key=lambda seen: (-seen[1], seen[0])):
        if text not in without and writable(text):
            spellings.setdefault(key(text), text)
    order = sorted(
        spellings.items(),
        key=lambda pair: (isinstance(pair[0], str), pair[0] if isinstance(pair[0], float) else 0.0, pair[1]),
    )
    return [text for _, text in order]


def _category(name: str, look: Look) -> ColumnFinding:
    finding = ColumnFinding(name, look, ['kind = "category"'], "category")
    finding.blank_words = [text for text in look.seen if like_blank(text)]
    values = _declared(look, finding.blank_words)
    if not values:
        finding.blank_words, values = [], _declared(look, [])
    finding.values = tuple(values)
    if len(values) == 1 and not finding.blank_words:
        finding.lines.append('## a constant: every cell that is there holds one value; role = "drop" leaves it out')
    if names_id(name) and not look.few:
        finding.lines += many_rows_remark(repeated(look))
    elif len(values) > _LISTED:
        finding.lines.append(f"## {len(values)} values: is the whole list public (a code book)? else group them")
    finding.lines.append(suggestion("values", values))
    finding.lines += empty_cells(look, sum(look.seen[word] for word in finding.blank_words))
    finding.lines += stored_type(look, settled=True)
    return finding


def _listed(name: str, look: Look, values: tuple[str, ...], ordered: bool) -> ColumnFinding:
    """A column whose type lists its values: all of them, in the order they have there."""
    kind = "ordinal" if ordered and len(values) > 1 else "category"
    finding = ColumnFinding(name, look, [f'kind = "{kind}"'], kind, values=values)
    finding.lines += [suggestion("values", list(values)), *empty_cells(look), 'type = "categorical"']
    return finding


def _set(name: str, look: Look) -> ColumnFinding:
    items = look.items
    finding = ColumnFinding(name, look, ['kind = "set"'], "set")
    values = sorted((item for item in items.items if writable(item)), key=_in_order)
    if len(values) > MOST_VALUES:
        number = len(values)
        common = [item for item, _ in sorted(items.items.items(), key=lambda seen: (-seen[1], seen[0]))]
        values = sorted((item for item in common if writable(item)), key=common.index)[:_COMMONEST]
        finding.lines.append(
            f"## {number:,} different items: list those of interest. These are the {_COMMONEST} commonest"
        )
        values.sort(key=_in_order)
    finding.values = tuple(values)
    finding.lines += [suggestion("values", values), suggestion("separator", items.separator)]
    finding.lines.append("## most: so many items of a cell count; more of them cost more noise")
    finding.lines.append(suggestion("most", min(items.most(), len(values))))
    finding.lines += empty_cells(look)
    return finding


def _in_order(item: str) -> tuple[bool, float, str]:
    size = key(item)
    return (isinstance(size, str), size if isinstance(size, float) else 0.0, item)
