"""One column of a draft: what its cells are, tried in order."""

from __future__ import annotations

from adumbra.declare.column import writable
from adumbra.tables.drafting.finding import ColumnFinding
from adumbra.tables.drafting.look import Look
from adumbra.tables.drafting.moment_lines import moment_finding
from adumbra.tables.drafting.number_lines import number_finding
from adumbra.tables.drafting.text_lines import flag_finding, text_finding

__all__ = ["column_finding", "unreadable"]


def unreadable(name: str) -> ColumnFinding:
    """Lines for a column called `name` whose cells are no single values."""
    return ColumnFinding(
        name, Look(1), ["## lists, records or raw bytes: convert it, or leave it out", '# role = "drop"']
    )


Listed = tuple[tuple[str, ...], bool]


def column_finding(name: str, look: Look, *, settled: bool, listed: Listed | None = None) -> ColumnFinding:
    """Lines for the column called `name`, from what `look` has seen of it.

    `settled` says that its type was known before any row, as in a file with a schema of its own; `listed` has the
    values that the type itself lists, and whether their order counts.
    """
    if not writable(name):
        remark = "## no file can hold this name: give the column another, or leave it out"
        return ColumnFinding(name, look, [remark, '# role = "drop"'])
    if look.full == 0:
        return ColumnFinding(name, look, ["## no cell holds anything", '# role = "drop"'])
    found = flag_finding(name, look, settled=settled) or moment_finding(name, look)
    if found is not None:
        return found
    if look.numbers:
        return number_finding(name, look, settled=settled)
    return text_finding(name, look, listed)
