"""The card of a utility-aware release as a page: what is not promised comes first."""

from __future__ import annotations

from adumbra.core.card import UtilityCard
from adumbra.core.card_text import cell, code, files_section, one_line, prose

__all__ = ["utility_card_markdown"]


def utility_card_markdown(card: UtilityCard) -> str:
    """Markdown; everything printed comes from the card."""
    first, _, rest = card.promise.partition(". ")
    lines = [
        f"# Utility-aware release of {one_line(card.table)}",
        "",
        f"> **{prose(first)}.** {prose(rest)}",
        ">",
        f"> To whom: {prose(card.to_whom)}",
        "",
        "| | |",
        "|---|---|",
        f"| what it is | {prose(card.title)} |",
        f"| serves | {one_line(', '.join(card.utility['columns']))} ({len(card.utility['classes'])} classes) |",
        f"| hides | {one_line(', '.join(card.privacy['columns']))} ({len(card.privacy['classes'])} classes) |",
        f"| records | {card.rows} of {card.table_rows} |",
        *([f"| did not reach their class | {card.not_reached} |"] if card.release == "fine" else []),
        f"| care | {prose(card.caution)} |",
        *([f"| epsilon of the label alone | {card.label_epsilon:g} |"] if card.label_epsilon is not None else []),
        *(f"| {one_line(name.replace('_', ' '))} | {cell(value)} |" for name, value in _said(card)),
        f"| public seed | {code(card.seed.value)} ({one_line(card.seed.origin)}) |",
        f"| model hash | sha256 {code(card.model_sha256)} |",
        f"| release id | {one_line(f'{card.release_id}, {card.created}, {card.library}')} |",
        "",
        "## What an adversary can do",
        "",
        "The model is public: anybody can apply it to labelled records of their own and learn from the result. "
        "`adumbra audit jupa --model MODEL --records LABELLED` does so and prints how often the privacy class is "
        "guessed, beside the guesses of an adversary who does not bother.",
        "",
        "## References",
        "",
        f"Proof: {prose(card.theorem)}.",
        "",
        *(f"- {prose(reference)}" for reference in card.references),
        "",
        *files_section(card.files),
    ]
    return "\n".join(lines)


def _said(card: UtilityCard) -> list[tuple[str, object]]:
    """Options that say something."""
    return [(name, value) for name, value in card.recipe.items() if value is not None and value != []]
