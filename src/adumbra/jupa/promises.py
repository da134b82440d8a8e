"""What each release promises, and to whom: the words of cards, help texts and the guide."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adumbra.jupa.recipe import JupaRecipe

__all__ = ["TITLES", "Words", "words_of"]

TITLES = {
    "coarse": "projected records, as they are",
    "fine": "projected records, moved towards a random privacy class (heuristic)",
    "resample": "public records of the predicted utility class and a random privacy class",
    "respond": "public records of the predicted utility class and a privacy class by randomised response",
    "repair": "utility scores with the rank inside their privacy class, to a few bins",
    "laplace": "projected records with Laplace noise (local differential privacy)",
}
_NONE = "No differential privacy."


@dataclass(frozen=True)
class Words:
    """Title, promise, to whom it is made, and what to beware of."""

    title: str
    promise: str
    to_whom: str
    caution: str
    label_epsilon: float | None
    accuracy_bound: float | None
    told: float | None


def words_of(recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None) -> Words:
    """The words of a recipe, with its numbers."""
    promise, to_whom, caution = {
        "coarse": _coarse,
        "fine": _fine,
        "resample": _resample,
        "respond": _resample,
        "repair": _repair,
        "laplace": _laplace,
    }[recipe.release](recipe, utilities, privacies, bound, told)
    respond = recipe.release == "respond" and not recipe.equalise
    if respond:
        bound = None  # it would hold if predictions said nothing, and `told` says whether they do
    if recipe.release == "laplace":
        factor = math.exp(recipe.epsilon or 0.0)
        bound = factor / (factor + max(privacies, 2) - 1)
    return Words(TITLES[recipe.release], promise, to_whom, caution, recipe.epsilon if respond else None, bound, told)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _coarse(
    recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None
) -> tuple[str, ...]:
    return (
        f"{_NONE} Nothing is promised: a projection leaves out what lies off its {recipe.projection} directions, and "
        "nothing more. Whatever the released numbers say about the privacy target can be learnt from them.",
        "Nobody.",
        "Run adumbra audit jupa before you trust it: few components often hide a label, and sometimes do not.",
    )


def _fine(
    recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None
) -> tuple[str, ...]:
    return (
        f"{_NONE} Nothing is promised. The step is a heuristic against an adversary who learnt from unmoved records; "
        "one who moves records of their own by the same public rule and learns from those is not held back by it "
        "(the paper's Theorem 1 is false against them).",
        "Nobody.",
        "Records that did not reach their class are left out unless the recipe keeps them; which ones are left out may "
        "itself tell something.",
    )


def _resample(
    recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None
) -> tuple[str, ...]:
    bits = math.log2(utilities)
    common = (
        f"{_NONE} Of a record only its predicted utility class is told (one of {utilities}, at most {bits:.2g} bits); "
        "what is released is a public record of that class"
    )
    to_whom = "Every record, whatever the adversary knows, as far as the recipient can learn from the release alone."
    caution = (
        "The predicted utility class is disclosed by design. It is a classifier with extra steps: what it says about "
        "other attributes is what the utility class says about them."
    )
    if recipe.release == "respond":
        promise = (
            f"{common} and of a privacy class answered by randomised response. For the privacy label alone, given the "
            f"rest of the record: epsilon = {recipe.epsilon:g}, that is odds for or against a label change by at most "
            f"e^epsilon = {math.exp(recipe.epsilon or 0):.3g} times. If predictions say nothing about the label, no "
            f"guess among {privacies} equally likely classes is right more than {_percent(bound)} of the time; "
            f"from predictions alone it was {_percent(told)} on public records."
        )
        if recipe.equalise:
            promise = (
                f"{common} and of a privacy class answered by randomised response. Equalising looks at the label too, "
                "so no epsilon is stated for it: the response alone would have "
                f"epsilon = {recipe.epsilon:g}."
            )
            to_whom = "Records of the same population as the public ones, on average."
        return promise, to_whom, caution + " Releasing a record again adds its epsilon again."
    promise = f"{common} and of a privacy class drawn without looking at the record. "
    if recipe.equalise:
        promise += (
            "The prediction is equalised: for records of the population that the public ones were drawn from, a guess "
            f"among {privacies} equally likely privacy classes is right at most {_percent(bound)} of the time, on "
            "average over the draw of the public records. Nothing is promised for other populations, or for one person "
            "about whom more is known."
        )
        caution += " The bound holds for one release of a record; a second one draws another fold and tells more."
        return promise, "Records of the same population as the public ones, on average.", caution
    promise += (
        "What the released record says about the privacy label is what the predicted class says: on public records the "
        f"best guess from it, among {privacies} equally likely classes, was right {_percent(told)} of the time."
    )
    return promise, to_whom, caution


def _repair(
    recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None
) -> tuple[str, ...]:
    return (
        f"{_NONE} A distributional guarantee: of a record only one of {recipe.bins} bins of its rank among public "
        "records of its own privacy class is told. For records of the population that the public ones were drawn from, "
        f"a guess among {privacies} equally likely privacy classes is right at most {_percent(bound)} of the time, on "
        "average over the draw of the public records.",
        "Records of the same population as the public ones, on average; the owner must know their privacy class.",
        "It fails if private and public records come from different populations. More bins tell more. Where the "
        "score says nothing about the label, repairing it can only add a leak: try it with adumbra audit jupa. It "
        "holds for one release of a record; a second one draws another fold and tells more.",
    )


def _laplace(
    recipe: JupaRecipe, utilities: int, privacies: int, bound: float | None, told: float | None
) -> tuple[str, ...]:
    epsilon = recipe.epsilon or 0.0
    factor, privacies = math.exp(epsilon), max(privacies, 2)
    return (
        f"Local differential privacy, epsilon = {epsilon:g} and delta = 0 for one whole record (unit row, relation "
        f"replace): whatever its secret, a guess among {privacies} equally likely ones is right at most "
        f"{_percent(factor / (factor + privacies - 1))} of the time.",
        "Every record, whatever the adversary knows and whatever the secret.",
        "All noise falls on one record: at small epsilon little use is left.",
    )
