"""Cards as documents, and as the page people read (card.md). Everything shown comes from the card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from adumbra.releases.card import Card, CardNoise, UtilityCard
from adumbra.report.document import Document, Facts, Figure, Note, Part, Section, Table, Text, Value, Verbatim
from adumbra.report.markdown import markdown

__all__ = ["card_document", "card_markdown"]

_ACCOUNTS = {
    "per-matrix": "holds for the published matrix, however it was chosen",
    "fresh-projection": "holds on average over a matrix drawn afresh for this release",
    "sum": "",
    "pure": "pure epsilon, delta is 0",
}
"""What to know of the proof a sensitivity rests on; that of a sum holds for any rows, which needs no words."""


def card_markdown(card: Card | UtilityCard) -> str:
    """The text of card.md."""
    return markdown(card_document(card))


def card_document(card: Card | UtilityCard, pictures: Mapping[str, str] | None = None) -> Document:
    """What a release promises, or does not promise, first.

    `card` may be of either type; `pictures` are the texts of its SVG files by name, for renderers that draw them.
    """
    if isinstance(card, UtilityCard):
        return Document(f"Utility-aware release of {card.table}", _utility_parts(card), card.model_dump(mode="json"))
    return Document(f"Release of {card.table}", tuple(_parts(card, pictures or {})), card.model_dump(mode="json"))


# ------------------------------------------------------------------------------------- differential privacy


def _parts(card: Card, pictures: Mapping[str, str]) -> Iterator[Part]:
    mu = "" if card.mu is None else f" (mu = {card.mu:.4g})"
    promised = f"epsilon = {card.epsilon:g}, delta = {card.delta:g}{mu}, unit {card.unit}, relation {card.relation}."
    yield Note(card.promise, lead=promised)
    yield Facts(tuple(_facts(card)))
    for title, rows in card.words.tables.items():
        yield Section(title, (Table.of([{head: _brief(value) for head, value in row.items()} for row in rows]),))
    for name in card.pictures:
        drawn = partial(str, pictures.get(name, ""))
        yield Figure(name.rpartition(".")[0], drawn, f"{name}: a picture of what was found.")
    costs = Table(
        ("unit", "relation", "epsilon"),
        tuple(
            (*key.split("/", 1), "none is finite" if cost is None else f"{cost:.4g}")
            for key, cost in card.costs.items()
        ),
        f"Epsilon of this same release at delta = {card.delta:g}:",
    )
    yield Section("What it costs in other units", (costs,))
    yield Section("What an analyst may ask", tuple(_questions(card)))
    options = tuple(
        (Text(f"`{name}`"), "not given" if value in (None, []) else _brief(value))
        for name, value in card.options.items()
    )
    chosen = Table(("option", "value"), options) if options else Text("It has none.")
    yield Section("Options of the mechanism", (chosen,))
    references = (Text(f"Theorem: {card.theorem}."), *map(Text, card.references))
    yield Section("How this differs from the paper", (Text(card.differs), *references))
    yield _files(card)


def _facts(card: Card) -> Iterator[tuple[str | Text, Value]]:
    yield "what it is", Text(card.releases)
    yield card.words.row, card.rows
    yield "rows of the table", "private" if card.table_rows is None else card.table_rows
    yield "mechanism", Text(f"{card.mechanism}: {card.title}")
    if card.choice:
        yield "why this mechanism", card.choice
    yield "care", Text(card.caution)
    for name, value in card.words.facts.items():
        yield name, _brief(value)
    for line, noise in card.noise.items():
        yield Text(f"noise on `{line}`"), f"{noise.law}, {_deviations(noise, card.words.noise_unit)}"
        account = _ACCOUNTS[noise.account]
        yield Text(f"sensitivity of `{line}`"), f"{noise.sensitivity:.4g}{f' ({account})' if account else ''}"
        yield "sampler", f"integers on a grid of {noise.grid_step:.3g}; slack {noise.slack:.2g}, inside delta"
    if card.row_bound is not None:
        yield "row bound", f"{card.row_bound}"
    elif card.words.row_bound is not None:
        yield "row bound", Text(card.words.row_bound)
    yield "facts for programs", Text(f"`{card.kind}` in card.json, sha256 `{_digest(card)}`")
    yield "public seed", [Verbatim(card.seed.value), card.seed.origin]
    yield "release", f"{card.release_id}, {card.created}, {card.library}"
    if card.ledger_head:
        yield "ledger after the charge", Verbatim(card.ledger_head)


def _questions(card: Card) -> Iterator[Part]:
    if card.answers:
        yield Text(", ".join(f"`{name}`" for name in card.answers) + ": see `adumbra answer --help`.")
    yield from map(Text, card.words.questions)


def _brief(value: Any) -> Any:
    """A value of a card for people: four digits, and None is no bound."""
    if value is None:
        return "no bound"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return {str(key): _brief(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_brief(item) for item in value]
    return value


def _digest(card: Card) -> str:
    """Of all that programs read of the kind, so that a page and a card that differ in it can be distinguished."""
    read = card.model_dump(mode="json", include={"kind", "facts", "measured"})
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _deviations(noise: CardNoise, unit: str) -> str:
    if len(noise.parts) <= 1:
        return f"standard deviation {noise.standard_deviation:.4g} in {unit}"
    return "standard deviation " + ", ".join(f"{sd:.4g} on {part}" for part, sd in noise.parts.items())


def _files(card: Card | UtilityCard) -> Section:
    files = Table(("file", "sha256"), tuple((name, Verbatim(digest)) for name, digest in card.files.items()))
    return Section("Files", (files, Text("Check them with `adumbra verify`.")))


# ------------------------------------------------------------------------------------ utility-aware releases


def _utility_parts(card: UtilityCard) -> tuple[Part, ...]:
    first, _, rest = card.promise.partition(". ")
    utility, privacy = card.utility, card.privacy
    facts: list[tuple[str, Value]] = [
        ("what it is", Text(card.title)),
        ("serves", f"{', '.join(utility['columns'])} ({len(utility['classes'])} classes)"),
        ("hides", f"{', '.join(privacy['columns'])} ({len(privacy['classes'])} classes)"),
        ("records", f"{card.rows} of {card.table_rows}"),
        *([("did not reach their class", card.not_reached)] if card.not_reached is not None else []),
        ("care", Text(card.caution)),
        *([("epsilon of the label alone", card.label_epsilon)] if card.label_epsilon is not None else []),
        *((name.replace("_", " "), value) for name, value in card.shown.items() if value is not None and value != []),
        ("public seed", [Verbatim(card.seed.value), card.seed.origin]),
        ("model hash (sha256)", Verbatim(card.model_sha256)),
        ("release id", f"{card.release_id}, {card.created}, {card.library}"),
    ]
    adversary = Text(
        "The model is public: anybody can apply it to labelled records of their own and learn from the result. "
        "`adumbra audit jupa --model MODEL --records LABELLED` does so and prints how often the privacy class is "
        "guessed, beside the guesses of an adversary who does not bother."
    )
    return (
        Note(rest, lead=f"{first}."),
        Note(card.to_whom, lead="To whom:"),
        Facts(tuple(facts)),
        Section("What an adversary can do", (adversary,)),
        Section("References", (Text(f"Proof: {card.theorem}."), *(Text(one) for one in card.references))),
        _files(card),
    )
