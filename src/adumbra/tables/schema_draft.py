"""A first schema file for a table, for its owner to finish.

Names and likely kinds are written out. Everything that could only be known by looking at the rows (ranges,
categories, forms of dates, which column is a yes/no flag, rules) is a commented suggestion. Such a draft does not
load: the owner confirms each suggestion from public knowledge by deleting its "# ", or writes a better one. So
nothing read from private rows gets into a release unseen.

Lines that begin with "## " are remarks and questions; lines that begin with "# " are suggestions.
"""

from __future__ import annotations

from collections import Counter

from adumbra.declare.column import heading
from adumbra.tables.drafting.column_lines import column_finding, unreadable
from adumbra.tables.drafting.confirmed import column_loads, loads, most_that_load
from adumbra.tables.drafting.finding import ColumnFinding, question, suggestion, toml
from adumbra.tables.drafting.look import Look
from adumbra.tables.drafting.number_lines import blank_lines
from adumbra.tables.drafting.rule_search import Question, find_rules
from adumbra.tables.drafting.sample import Sample
from adumbra.tables.drafting.some_rows import SomeRows
from adumbra.tables.drafting.tails import tail_question
from adumbra.tables.table import Table

__all__ = ["draft_schema"]

_ROOM = 2**22
"""Hashes of values that are kept for all columns together."""
_SHARED_BLANK = 3

_HEAD = """\
## Draft: this file does not load before you have finished it.
##
## Lines that begin with a single # are suggestions. They were READ FROM THE PRIVATE ROWS, and everything in
## a schema is published. Confirm each from public knowledge (a code book, a form, physics) by deleting its
## "# ", or write a better value. low and high are rounded outward from the rows; write what the code book says.
## A question asks whether something is always so, or only in these rows: delete what follows it if it is not.
##
## kind = "number", "date" and "datetime" need low and high; "category", "ordinal" and "set" need values.
## An empty cell is released as an empty cell; missing = VALUE puts that value there instead.
## role = "label" marks what an analyst will predict; role = "id" gives fresh ids; role = "drop" leaves a column out.

[table]
unit = "row"
"""


def draft_schema(table: Table) -> str:
    """Text of a schema file with names and kinds; the rest as commented suggestions.

    Guarantee: `Schema.parse` refuses the text as it stands. Deleting every leading "# " gives a file that
    loads, if any column is worth releasing. The text is private until its owner has confirmed it.
    """
    names = [name for name in table.columns if table.types[name] != "other"]
    room = min(2**18, max(1024, _ROOM // max(1, len(names))))
    looks = {name: Look(room) for name in names}
    rows = table.count()
    sample = Sample(rows, len(names))
    for batch in table.batches(names) if names else ():
        sample.add(batch)
        for name in names:
            looks[name].add(batch.get_column(name))
    settled, listed = table.native != "pandas", table.categories
    findings = [
        column_finding(name, looks[name], settled=settled, listed=listed.get(name))
        if name in looks
        else unreadable(name)
        for name in table.columns
    ]
    # what is a list in its own type can be read as a set, and as nothing else
    findings = [f if f.kind == "set" or table.types[f.name] != "list" else unreadable(f.name) for f in findings]
    kept = sample.frame()
    shared = _shared_blanks(findings)
    head = _HEAD + "\n".join(_table_lines(table.name, rows, shared)) + "\n"
    cells = SomeRows(kept, {finding.name: finding for finding in findings})
    columns = {f.name: _sound(f, [*f.lines, *blank_lines(f, shared), *tail_question(f, cells)]) for f in findings}
    questions = find_rules(table, findings, kept)
    return _assembled(head, columns, _that_load(head, columns, questions))


def _sound(finding: ColumnFinding, lines: list[str]) -> list[str]:
    """The lines of a column, or others if they would not load: odd values may break what a schema asks for."""
    if column_loads(finding.name, lines):
        return lines
    finding.kind = None
    return ["## its values fit no kind that a schema knows", '# role = "drop"']


def _that_load(head: str, columns: dict[str, list[str]], questions: list[Question]) -> list[Question]:
    if not loads(_assembled(head, columns, [])):
        return []  # no column is worth releasing
    return most_that_load(questions, lambda some: loads(_assembled(head, columns, some)))


def _assembled(head: str, columns: dict[str, list[str]], questions: list[Question]) -> str:
    """The whole file: questions on a column stand with it, those between columns at the end."""
    own = {name: [line for q in questions if q.column == name for line in q.lines] for name in columns}
    parts = [head, *("\n".join([heading(name), *lines, *own[name]]) + "\n" for name, lines in columns.items())]
    return "\n".join([*parts, *("\n".join(q.lines) + "\n" for q in questions if q.column is None)])


def _shared_blanks(findings: list[ColumnFinding]) -> frozenset[str]:
    """Words that may mean "nothing here" in several columns: declared once, for the table."""
    times = Counter(word for finding in findings for word in finding.blank_words)
    return frozenset(word for word, number in times.items() if number >= _SHARED_BLANK)


def _table_lines(name: str, rows: int, shared: frozenset[str]) -> list[str]:
    lines = [suggestion("name", name), suggestion("rows", rows)]
    if shared:
        said = ", ".join(toml(word) for word in sorted(shared))
        lines += [question(f'{said} in several columns: does it mean "nothing here"? else it is a value')]
        lines += [suggestion("blank", sorted(shared))]
    return lines
