"""The card as a page people can read (card.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from adumbra.releases.card import Card, CardNoise
from adumbra.report.markdown import cell, code, one_line, prose, shows

__all__ = ["card_markdown", "files_section"]

_ACCOUNTS = {
    "per-matrix": "holds for the published matrix, however it was chosen",
    "fresh-projection": "holds on average over a matrix drawn afresh for this release",
    "sum": "",
    "pure": "pure epsilon, delta is 0",
}
"""What to know of the proof a sensitivity rests on; that of a sum holds for any rows, which needs no words."""


def card_markdown(card: Card) -> str:
    """Markdown, promise first.

    Everything printed comes from the card, so the page cannot say more than the card does.
    """
    mu = "" if card.mu is None else f" (mu = {card.mu:.4g})"
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
        f"| {one_line(card.words.row)} | {card.rows} |",
        f"| rows of the table | {'private' if card.table_rows is None else card.table_rows} |",
        f"| mechanism | {one_line(card.mechanism)}: {prose(card.title)} |",
        *([f"| why this mechanism | {one_line(card.choice)} |"] if card.choice else []),
        f"| care | {prose(card.caution)} |",
        *(f"| {one_line(name)} | {cell(value)} |" for name, value in card.words.facts.items()),
    ]
    for line, noise in card.noise.items():
        lines += [
            f"| noise on {code(line)} | {one_line(noise.law)}, {_deviations(noise, card.words.noise_unit)} |",
            f"| sensitivity of {code(line)} | {noise.sensitivity:.4g}{_account(noise)} |",
            f"| sampler | integers on a grid of {noise.grid_step:.3g}; slack {noise.slack:.2g}, inside delta |",
        ]
    lines += [
        *_row_bound(card),
        f"| facts for programs | {code(card.kind)} in card.json, sha256 {code(_digest(card))} |",
        f"| public seed | {code(card.seed.value)} ({one_line(card.seed.origin)}) |",
        f"| release | {one_line(f'{card.release_id}, {card.created}, {card.library}')} |",
        *([f"| ledger after the charge | {code(card.ledger_head)} |"] if card.ledger_head else []),
        "",
        *(line for title, rows in card.words.tables.items() for line in _table(title, rows)),
        *(f"![{name.rpartition('.')[0]}]({name})\n" for name in card.pictures if shows(name)),
        *_costs(card),
        "## What an analyst may ask",
        "",
        *([", ".join(map(code, card.answers)) + ": see `adumbra answer --help`.", ""] if card.answers else []),
        *(line for paragraph in card.words.questions for line in (prose(paragraph), "")),
        *_options(card),
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


def _costs(card: Card) -> list[str]:
    lines = [
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
    return [*lines, ""]


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
    return [] if card.words.row_bound is None else [f"| row bound | {prose(card.words.row_bound)} |"]


def _options(card: Card) -> list[str]:
    head = ["## Options of the mechanism", ""]
    if not card.options:
        return [*head, "It has none.", ""]
    shown = ((code(name), "not given" if value in (None, []) else cell(value)) for name, value in card.options.items())
    return [*head, "| option | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in shown), ""]


def _digest(card: Card) -> str:
    """Of all that programs read of the kind, so that a page and a card that differ in it can be distinguished."""
    read = card.model_dump(mode="json", include={"kind", "facts", "measured"})
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


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


def _account(noise: CardNoise) -> str:
    words = _ACCOUNTS[noise.account]
    return f" ({words})" if words else ""


def _deviations(noise: CardNoise, unit: str) -> str:
    if len(noise.parts) <= 1:
        return f"standard deviation {noise.standard_deviation:.4g} in {one_line(unit)}"
    return "standard deviation " + ", ".join(f"{sd:.4g} on {one_line(part)}" for part, sd in noise.parts.items())
