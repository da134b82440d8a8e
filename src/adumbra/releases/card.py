"""The card: what a release promises, in words and numbers. Frozen, and the same after a JSON round trip."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Relation, Unit

__all__ = [
    "CARD_FORMAT",
    "FORMAT_1",
    "UTILITY_FORMAT",
    "UTILITY_FORMATS",
    "Card",
    "CardNoise",
    "CardSeed",
    "CardWords",
    "UtilityCard",
    "sentence",
]

CARD_FORMAT, FORMAT_1 = "adumbra-card/2", "adumbra-card/1"
UTILITY_FORMAT = "adumbra-utility-card/2"
_FIRST_UTILITY_FORMAT = "adumbra-utility-card/1"
UTILITY_FORMATS = (UTILITY_FORMAT, _FIRST_UTILITY_FORMAT)
"""What a utility card may say it is; those of an older format are read as the present one."""


class _Frozen(BaseModel):
    # protected_namespaces: a field may begin with "model_", which older versions of pydantic warn of
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class CardNoise(_Frozen):
    """The noise on the numbers of one measurement."""

    law: str
    scale: float
    standard_deviation: float
    """Of the noise on a number of weight 1, in encoded units."""
    parts: dict[str, float] = {}
    """Standard deviation of the noise on the numbers of each part of the answer."""
    grid_step: float
    steps: float
    sensitivity: float
    account: str
    slack: float


class CardSeed(_Frozen):
    """The public seed and where it came from."""

    value: str
    origin: str


class CardWords(_Frozen):
    """What the kind of a release says to people on its card, written at publication. No code reads it back."""

    row: str = "rows"
    """What the rows of the released table are."""
    facts: dict[str, Any] = {}
    """Values under labels for people, in order."""
    tables: dict[str, list[dict[str, Any]]] = {}
    """Small tables of what was found, by title."""
    row_bound: str | None = None
    """What bounds a row, where the owner gave no bound."""
    noise_unit: str = "encoded units"
    questions: tuple[str, ...] = ()
    """Paragraphs on what may be asked."""


class Card(_Frozen):
    """Everything an analyst or an auditor needs to read a release; all of it public."""

    format: Literal["adumbra-card/2", "adumbra-card/1"] = "adumbra-card/2"
    """As it was written; a card of format 1 is read as one of format 2 (`releases.format_1`)."""
    release_id: str
    created: str
    library: str
    table: str
    rows: int
    """Rows of the release."""
    table_rows: int | None = None
    """Rows of the table; None where their number is private."""
    mechanism: str
    kind: str
    """What the release is: the name of one of `adumbra.kinds`, which knows the type of `facts`."""
    choice: str | None = None
    """Why this mechanism, where it was chosen by rule."""
    title: str
    releases: str
    caution: str
    promise: str
    unit: str
    relation: str
    epsilon: float
    delta: float
    mu: float | None
    costs: dict[str, float | None]
    """Epsilon of this release at the same delta for every unit and relation; None where there is no finite one."""
    options: dict[str, Any]
    """All options of the mechanism, under their own names; of a file no more than its name."""
    facts: dict[str, Any]
    """What the kind of release needs to be read, as its own type says: `Release.facts` is of that type."""
    words: CardWords = CardWords()
    pictures: tuple[str, ...] = ()
    """Files of the release that are pictures."""
    measured: dict[str, dict[str, str]] = {}
    """For each line whose noisy sums are published: in which array each of their parts is."""
    noise: dict[str, CardNoise]
    """For each budget line, the noise on its numbers."""
    row_bound: float | None
    seed: CardSeed
    answers: tuple[str, ...]
    theorem: str
    differs: str
    references: tuple[str, ...]
    bibtex: tuple[str, ...]
    table_schema: dict[str, Any]
    ledger_head: str | None = None
    """Hash of the ledger up to and including this release's charge; None where it was charged to none."""
    files: dict[str, str]

    @property
    def neighbours(self) -> Neighbours:
        """Unit and relation as one value."""
        return Neighbours(Unit(self.unit), Relation(self.relation))

    @model_validator(mode="after")
    def _of_neighbours(self) -> Self:
        """A unit and a relation that there are, and that go together: without them no epsilon has a meaning."""
        try:
            _ = self.neighbours
        except InputError as error:
            raise ValueError(str(error)) from None
        return self


class UtilityCard(_Frozen):
    """The card of a utility-aware release: it serves one purpose, hides another, and is not differentially private."""

    format: str = UTILITY_FORMAT
    differential_privacy: Literal[False] = False
    release_id: str
    created: str
    library: str
    table: str
    rows: int
    """Records released."""
    table_rows: int
    not_reached: int | None
    """Records that could not be moved to the class drawn for them; None where the kind moves none."""
    kind: str
    """Name of the kind of release."""
    options: dict[str, Any]
    """The recipe: targets, and all options of the kind. `JupaRecipe.from_dict` reads it."""
    shown: dict[str, Any]
    """What the page says of options and data; for people."""
    title: str
    promise: str
    to_whom: str
    caution: str
    label_epsilon: float | None
    """Epsilon of randomised response for the privacy label alone, where there is one."""
    accuracy_bound: float | None
    """Most that a guess among equally likely privacy classes can be right, on the terms of `promise`."""
    told_by_prediction: float | None
    """The same of the best guess from the predicted utility class alone, as counted on public records."""
    utility: dict[str, list[str]]
    """Utility columns, and the classes of all of them together."""
    privacy: dict[str, list[str]]
    model_sha256: str
    seed: CardSeed
    theorem: str
    references: tuple[str, ...]
    bibtex: tuple[str, ...]
    files: dict[str, str]

    @model_validator(mode="before")
    @classmethod
    def _of_format_1(cls, content: Any) -> Any:
        """A card of format 1 had the options that were used among what is shown; others had their defaults."""
        if not isinstance(content, dict) or content.get("format") != _FIRST_UTILITY_FORMAT:
            return content
        old = dict(content)
        shown = old.pop("recipe", None)
        if not isinstance(shown, dict) or "kind" in old or "options" in old or "shown" in old:
            raise ValueError("no card of format 1")
        options = {name: value for name, value in shown.items() if name not in ("columns", "public records")}
        if "keep_unreached" not in options:  # the one kind that left records out had this option
            old["not_reached"] = None
        return {"kind": old.pop("release", None), **old, "format": UTILITY_FORMAT, "options": options, "shown": shown}


_WHO = {
    Unit.ROW: ("one person's whole row", "every other row of the table", "row"),
    Unit.CELL: ("a single value of one person", "every other cell of the table, the same person's too,", "value"),
}
_CHANGE = {
    Relation.REPLACE: ("had been any other that the schema allows", "between two possible {}s"),
    Relation.ZERO_OUT: ("had been empty", "whether the {} was there or empty"),
    Relation.ADD_REMOVE: ("had not been there", "whether the {} was there"),
}


def sentence(epsilon: float, delta: float, neighbours: Neighbours, account: str, row_epsilon: float | None) -> str:
    """What an attacker who knows everything else can and cannot learn, in plain words.

    The promise is `epsilon` and `delta` for `neighbours`. Delta is added to the likelihood of every conclusion. It is
    not the probability that the factor is exceeded: for Gaussian noise that probability is several times delta.
    `account` is "per-matrix", or "fresh-projection" where the promise counts a secret projection as noise.
    `row_epsilon` is what a whole row gets where the unit is a cell; None if nothing finite.

    >>> n = Neighbours(Unit.ROW, Relation.REPLACE)
    >>> sentence(1.0, 1e-6, n, "per-matrix", None)[:78]
    "Someone who knows every other row of the table cannot be sure of one person's "
    """
    factor = math.exp(epsilon)
    odds = f"{factor:.2f}" if factor < 100 else f"{factor:.3g}"
    guess = min(100.0 * (factor + delta) / (1.0 + factor), 100.0)
    digits = 1 if guess < 99 else min(2 + int(epsilon / 2.3), 12)
    right = min(math.ceil(guess * 10**digits) / 10**digits, 100.0)
    who, knows, what = _WHO[neighbours.unit]
    change, question = _CHANGE[neighbours.relation]
    extra = f", plus delta = {delta:g}" if delta > 0 else ""
    text = (
        f"Someone who knows {knows} cannot be sure of {who}: anything that this release shows them would have been "
        f"nearly as likely if that {what} {change}. Nearly means: at most e^epsilon = {odds} "
        f"times{extra}; a guess {question.format(what)} that stood at 50:50 is then right at most {right:.{digits}f}% "
        "of the time. "
    )
    if neighbours.relation is not Relation.ADD_REMOVE:
        text += "They do learn the number of rows, the schema and everything on this card. "
    if neighbours.unit is Unit.CELL:
        whole = (
            "no finite epsilon"
            if row_epsilon is None
            else (f"epsilon {row_epsilon:.3g} (unit row, relation {neighbours.relation.value})")
        )
        less = "less" if row_epsilon is None or row_epsilon > epsilon * 1.001 else "no more than that"
        text += f"A person's whole row is protected {less} by this release: {whole} at the same delta. "
    if account == "fresh-projection":
        text += (
            "This holds for neighbours fixed before the projection was drawn; the projection came from the operating "
            "system for this release and must not be used again. "
        )
    return text + (
        "What follows about people from the population as a whole (that the table shows smokers fall ill) is not "
        "hidden, nor is it meant to be."
    )
