"""The card of a utility-aware release as a document and as its page (card.md): what is not promised comes first."""

from __future__ import annotations

from adumbra.releases.card import UtilityCard
from adumbra.report.document import Document, Facts, Note, Section, Table, Text, Value, Verbatim
from adumbra.report.markdown import markdown

__all__ = ["utility_card_document", "utility_card_markdown"]


def utility_card_markdown(card: UtilityCard) -> str:
    """The text of card.md."""
    return markdown(utility_card_document(card))


def utility_card_document(card: UtilityCard) -> Document:
    """Everything shown comes from the card."""
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
    files = Table(("file", "sha256"), tuple((name, Verbatim(digest)) for name, digest in card.files.items()))
    return Document(
        f"Utility-aware release of {card.table}",
        (
            Note(rest, lead=f"{first}."),
            Note(card.to_whom, lead="To whom:"),
            Facts(tuple(facts)),
            Section("What an adversary can do", (adversary,)),
            Section("References", (Text(f"Proof: {card.theorem}."), *(Text(one) for one in card.references))),
            Section("Files", (files, Text("Check them with `adumbra verify`."))),
        ),
        data=card.model_dump(mode="json"),
    )
