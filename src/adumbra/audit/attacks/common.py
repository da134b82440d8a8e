"""What the attacks share: the result, what a promise allows, and a table to attack.

Three facts turn a promise into a number that an attack can be held against. All are about one person (or bit) whose
secret is a fair coin that the attacker does not know, while everything else may be known:

* a guess of the coin is right with probability at most (e^epsilon + delta) / (1 + e^epsilon);
* with many such coins in one release, all guessed from the same noise, the number of right guesses is still at most
  that of independent guesses with this chance, but for a term of the order of coins times delta (`bounds.one_run`
  accounts for it). So binomial intervals are right here, although the guesses share their noise;
* a property that holds for a share q of people who are not in the table holds for at most
  min(e^epsilon q + delta, 1 - e^-epsilon (1 - q - delta)) of those who are.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from adumbra import pipeline
from adumbra.audit.bounds import clopper_pearson, one_run
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Integers, Reals
from adumbra.declare.guarantee import Budget, promise_in_words
from adumbra.declare.schema import Schema
from adumbra.families.contract import Chooser, Mechanism
from adumbra.ledger.ledger import Ledger
from adumbra.releases.card import Card
from adumbra.request import Request
from adumbra.result import Release
from adumbra.tables.read import open_table

__all__ = [
    "BEYOND",
    "FAILS",
    "WITHIN",
    "WORKS",
    "Attack",
    "Bits",
    "Clock",
    "Integers",
    "People",
    "Reals",
    "Rng",
    "allowed_guess",
    "allowed_share",
    "area",
    "digits",
    "generator",
    "interval",
    "judged",
    "paired",
    "promised",
    "released",
    "survey",
    "target_of",
]

Bits = NDArray[np.bool_]
Rng = np.random.Generator

BEYOND, WITHIN = "beyond the promise", "within the promise"
WORKS, FAILS = "works", "fails"
LEVELS = 17
"""Grey levels of a pixel of the digits."""


@dataclass(frozen=True)
class Attack:
    """What one attack on one target achieved."""

    name: str
    target: str
    success: float
    meaning: str
    """What `success` counts, in words."""
    chance: float
    """What guessing without this person's data gets."""
    allowed: float | None
    """The most that the promise allows; None where nothing is promised, or where the promise does not speak of it."""
    low: float
    high: float
    """Interval for `success`."""
    confidence: float
    runs: int
    """Guesses, draws or runs behind `success`."""
    seconds: float
    verdict: str
    """`beyond the promise` or `within the promise`; `works` or `fails` where nothing is promised."""
    explanation: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers, by name."""
    ours: bool = True
    """False for targets that are broken on purpose, to show that the attack works."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; infinity is written as a word."""
        return {key: _plain(value) for key, value in dataclasses.asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "infinite" if isinstance(value, float) and math.isinf(value) else value


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """So far."""
        return time.perf_counter() - self._start


def generator(seed: int) -> Rng:
    """The attacker's own randomness: which people are attacked, coins for ties, noise of broken targets.

    It has no part in any release.
    """
    return np.random.default_rng(seed)


def judged(promised_epsilon: float | None, *, broken: bool, works: bool) -> str:
    """The verdict: against the promise if there is one, against chance if not.

    `promised_epsilon` is None for a release without differential privacy. `broken`: a lower bound exceeds the promise.
    `works`: the attack does better than guessing.
    """
    if promised_epsilon is None:
        return WORKS if works else FAILS
    return BEYOND if broken else WITHIN


def promised(card: Card) -> float | None:
    """Epsilon of a release for replacing one person's whole row; None where there is no finite one."""
    return card.costs.get("row/replace")


def target_of(card: Card) -> str:
    """A release in a few words, with all that an epsilon needs beside it."""
    return f"{card.mechanism}, {promise_in_words(card.epsilon, card.delta, card.unit, card.relation)}"


def allowed_guess(epsilon: float, delta: float) -> float:
    """How often a fair coin that decides one person's row can be guessed.

    >>> round(allowed_guess(1.0, 0.0), 3)
    0.731
    """
    return min((1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)), 1.0)


def allowed_share(outside: float, epsilon: float, delta: float) -> float:
    """Largest share of people in the table of whom something may hold under (`epsilon`, `delta`)-differential privacy.

    `outside` is the share of people outside the table of whom it holds, from 0 to 1.

    >>> round(allowed_share(0.1, 1.0, 0.0), 3), round(allowed_share(0.9, 1.0, 0.0), 3)
    (0.272, 0.963)
    """
    factor = math.exp(min(epsilon, 700.0))
    return max(min(factor * outside + delta, 1.0 - (1.0 - outside - delta) / factor, 1.0), 0.0)


def paired(
    inside: Reals, outside: Reals, epsilon: float | None, delta: float, confidence: float, rng: Rng
) -> tuple[bool, float]:
    """Whether scores of people in the table, beside those of their partners who are not, break a promise.

    Each pair is a coin: chance decided which of the two is in. The one with the larger score is guessed to be in; equal
    scores are no guess. `inside` and `outside` are the scores, partners at the same place. `epsilon` (None: no promise)
    and `delta` are promised; `confidence` is that of the bound, `rng` hides which of a pair is which. Returns the
    answer and the lower bound on epsilon that the guesses give.
    """
    order = np.sign((inside > outside).astype(np.float64) - (inside < outside))
    guesses = int(np.count_nonzero(order))
    if not guesses:
        return False, 0.0
    secrets = rng.random(len(order)) < 0.5
    one_sided = 1.0 - (1.0 - confidence) / 2
    # who abstains follows from the release and the two rows, not from the coin: given the release, nothing is chosen
    bound = one_run(order * np.where(secrets, 1.0, -1.0), secrets, "approximate", delta, one_sided, guesses).epsilon
    return epsilon is not None and bound > epsilon, bound


def area(scores: Reals, others: Reals) -> float:
    """Area under the curve: chance that a score exceeds one of the others, ties counting half.

    >>> area(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    0.625
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, scores, side="left") + np.searchsorted(ordered, scores, side="right")
    return float(below.mean() / (2 * len(others)))


def interval(hits: int, runs: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson interval of a probability, for `hits` in `runs` at this `confidence`; (0, 1) without a run."""
    return clopper_pearson(hits, runs, confidence) if runs else (0.0, 1.0)


def released(
    frame: pl.DataFrame,
    schema: Schema,
    mechanism: Mechanism | Chooser,
    budget: Budget,
    *,
    ledger: Ledger | None = None,
    seed: PublicSeed | None = None,
    name: str = "attacked",
) -> Release:
    """A release by the real pipeline, in memory.

    `frame` is the table, whose columns `schema` declares; `mechanism` and `budget` as for `adumbra.release`. `ledger`
    is charged under the table's `name`, None charges nothing; `seed` decides public choices, None draws one.
    """
    job = pipeline.prepare(Request(open_table(frame), schema, mechanism, budget, name=name, seed=seed))
    return Release(pipeline.release(job, None, ledger=ledger)[0])


@dataclass(frozen=True, eq=False)
class People:
    """People in a table, and people of the same kind who are not."""

    schema: Schema
    truth: pl.DataFrame
    holdout: pl.DataFrame


def survey(rows: int, held_out: int, questions: int, rng: Rng) -> People:
    """Random yes-no answers that everybody knows, and a secret one that is independent of them.

    `rows` people are in the table and `held_out` are not; each answers `questions` besides the secret one. `rng` draws
    all.
    """
    answers = rng.random((rows + held_out, questions + 1)) < 0.5
    frame = pl.DataFrame({"secret": answers[:, 0]} | {f"q{j}": answers[:, j + 1] for j in range(questions)})
    columns: dict[str, dict[str, str]] = {name: {"kind": "flag"} for name in frame.columns}
    columns["secret"]["role"] = "label"
    return People(Schema.from_dict({"columns": columns}), frame.head(rows), frame.slice(rows))


def digits(rows: int, held_out: int, pixels: int, rng: Rng) -> People:
    """Scikit-learn's handwritten digits (1797): the `pixels` in the middle of each image, and which digit it is.

    Chance decides who is in the table.
    """
    values, labels = _digits()
    middle = np.argsort(-np.minimum(*_to_edge()), kind="stable")[:pixels]
    order = rng.permutation(len(values))[: rows + held_out]
    frame = pl.DataFrame({f"p{i}": values[order, i] for i in sorted(middle)}).with_columns(
        digit=pl.Series(labels[order]).cast(pl.String)
    )
    columns: dict[str, dict[str, Any]] = {
        name: {"kind": "number", "low": 0, "high": LEVELS - 1, "integer": True} for name in frame.columns[:-1]
    }
    columns["digit"] = {"kind": "category", "values": [str(i) for i in range(10)], "role": "label"}
    schema = Schema.from_dict({"columns": columns})
    return People(schema, frame.head(rows), frame.slice(rows))


def _to_edge() -> tuple[Integers, Integers]:
    """Distance of each pixel to the nearest edge, down and across."""
    down, across = np.divmod(np.arange(64), 8)
    return np.minimum(down, 7 - down), np.minimum(across, 7 - across)


@cache
def _digits() -> tuple[Integers, Integers]:
    data = load_digits()
    return np.asarray(data.data, dtype=np.int64), np.asarray(data.target, dtype=np.int64)
