"""The card as a page people can read (card.md).

Names and values on a card come from its owner, and a card may come from anybody: whatever would be markup in Markdown
or HTML is escaped, so that a table called `</td><script>` is shown as that and does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from adumbra.core.card import Card, CardNoise
from adumbra.core.shown import shown

__all__ = ["card_markdown", "cell", "code", "files_section", "one_line", "prose"]

_ACCOUNTS = {
    "per-matrix": "holds for the published matrix, however it was chosen",
    "fresh-projection": "holds on average over a matrix drawn afresh for this release",
    "sum": "holds for any rows, whatever else was measured before",
    "pure": "pure epsilon, delta is 0",
}


def card_markdown(card: Card) -> str:
    """Markdown, promise first.

    Everything printed comes from the card, so the page cannot say more than the card does.
    """
    mu = "" if card.mu is None else f" (mu = {card.mu:.4g})"
    domain, table_rows = card.parameters.get("domain"), card.table_rows or "private"
    lines = [
        f"# Release of {one_line(card.table)}",
        "",
        f"> **epsilon = {card.epsilon:g}, delta = {card.delta:g}**{mu}, unit **{one_line(card.unit)}**, "
        f"relation **{one_line(card.relation)}**",
        ">",
        f"> {prose(card.promise)}",
        "",
        "| | |",
        "|---|---|",
        f"| what it is | {prose(card.releases)} |",
        f"| {'rows' if domain is None else 'cells'} | {card.rows} |",
        *([] if card.table_rows == card.rows and domain is None else [f"| rows of the table | {table_rows} |"]),
        f"| mechanism | {one_line(card.mechanism)}: {prose(card.title)} |",
        *([f"| why this mechanism | {one_line(card.choice)} |"] if card.choice else []),
        f"| care | {prose(card.caution)} |",
        *(f"| {one_line(name)} | {cell(value)} |" for name, value in card.parameters.items()),
    ]
    for line, noise in card.noise.items():
        lines += [
            f"| noise on {code(line)} | {one_line(noise.law)}, {_deviations(noise)} |",
            f"| sensitivity of {code(line)} | {noise.sensitivity:.4g} ({_ACCOUNTS[noise.account]}) |",
            f"| sampler | integers on a grid of {noise.grid_step:.3g}; slack {noise.slack:.2g}, inside delta |",
        ]
    lines += [
        *_row_bound(card),
        f"| public seed | {code(card.seed.value)} ({one_line(card.seed.origin)}) |",
        f"| release | {one_line(f'{card.release_id}, {card.created}, {card.library}')} |",
        *([f"| ledger after the charge | {code(card.ledger_head)} |"] if card.ledger_head else []),
        "",
        *(line for title, rows in card.tables.items() for line in _table(title, rows)),
        *(f"![{name.rpartition('.')[0]}]({name})\n" for name in card.pictures if _FILE_NAME.fullmatch(name)),
        "## What it costs in other units",
        "",
        f"Epsilon of this same release at delta = {card.delta:g}:",
        "",
        "| unit | relation | epsilon |",
        "|---|---|---|",
    ]
    for key, cost in card.costs.items():
        unit, _, relation = key.partition("/")
        lines.append(
            f"| {one_line(unit)} | {one_line(relation)} | {'none is finite' if cost is None else f'{cost:.4g}'} |"
        )
    lines += [
        "",
        "## What an analyst may ask",
        "",
        *_questions(card),
        "",
        "## How this differs from the paper",
        "",
        prose(card.differs),
        "",
        f"Theorem: {prose(card.theorem)}.",
        "",
        *(f"- {prose(reference)}" for reference in card.references),
        "",
        *files_section(card.files),
    ]
    return "\n".join(lines)


def files_section(files: Mapping[str, str]) -> list[str]:
    """The last lines of a card: every file and its hash."""
    return [
        "## Files",
        "",
        "| file | sha256 |",
        "|---|---|",
        *(f"| {one_line(name)} | {code(digest)} |" for name, digest in files.items()),
        "",
        "Check them with `adumbra verify`.",
        "",
    ]


def _row_bound(card: Card) -> list[str]:
    if card.row_bound is not None:
        return [f"| row bound | {card.row_bound} |"]
    cut = any(name.endswith("rows cut to") for name in card.parameters)  # which says it all
    return [] if cut else ["| row bound | none: cells are bounded by their ranges |"]


def _table(title: str, rows: list[dict[str, Any]]) -> list[str]:
    heads = list(rows[0]) if rows else []
    return [
        f"## {one_line(title)}",
        "",
        "| " + " | ".join(one_line(head) for head in heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(cell(row[head]) for head in heads) + " |" for row in rows),
        "",
    ]


def _questions(card: Card) -> list[str]:
    if not card.answers and "coordinates" in card.parameters:
        return ["Each row is one person's own, with noise: any tool reads it; allow for the noise stated above."]
    if not card.answers:
        return [
            "Anything that is asked of a table: its columns are those of the schema, and any tool reads it. Its rows "
            "are drawn, so a standard error worked out as if they were people is too small."
        ]
    asked = ", ".join(map(code, card.answers)) + ": see `adumbra answer --help`."
    if "domain" in card.parameters:
        return [asked]
    return [
        asked,
        "",
        "Encoded units: a number or flag that moves across its declared range, and a category that changes, each "
        "count 1 in a squared distance.",
    ]


def _deviations(noise: CardNoise) -> str:
    if len(noise.parts) <= 1:
        # what is measured of a histogram is a sum of counts
        units = "rows" if "measured" in noise.parts else "encoded units"
        return f"standard deviation {noise.standard_deviation:.4g} in {units}"
    return "standard deviation " + ", ".join(f"{sd:.4g} on {one_line(part)}" for part, sd in noise.parts.items())


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "no bound"
    if isinstance(value, list):
        return "; ".join(cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{one_line(key)} {cell(item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else one_line(str(value))


_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.svg")
"""A picture that may be shown: a file of the folder, and no address."""
_MARKS = re.compile(
    r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|(?i:(?<=https)|(?<=http)|(?<=ftp))(?=:)|(?i:(?<=www))(?=\.)"
)
"""What Markdown would take for markup; an underscore inside a word is none. Addresses become no links."""
_TAGS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def one_line(text: str) -> str:
    r"""A name or value of the owner as plain text in Markdown: it breaks no table and starts no markup.

    >>> print(one_line("a|b"), one_line("</td><b>"), one_line("[x](javascript:y)"), one_line("patient_age"))
    a\|b &lt;/td&gt;&lt;b&gt; \[x\](javascript:y) patient_age
    """
    plain = _MARKS.sub(r"\\\g<0>", shown(" ".join(text.split())))
    return re.sub("[&<>]", lambda match: _TAGS[match[0]], plain)


def code(text: str) -> str:
    """A short value in the type of code; as plain text if it holds what would end the code or the cell."""
    flat = shown(" ".join(text.split()))
    return f"`{flat}`" if flat and not set(flat) & set("`|<&") else one_line(text)


def prose(text: str) -> str:
    """A sentence of the library's own, which may hold code: no other markup, whoever wrote the card."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a mark without its fellow
        parts = [text]
    plain = "".join(one_line(f".{part}.")[1:-1] if i % 2 == 0 else code(part) for i, part in enumerate(parts))
    return re.sub(r"^[#+=-]", r"\\\g<0>", plain)  # which would begin a heading or a list
