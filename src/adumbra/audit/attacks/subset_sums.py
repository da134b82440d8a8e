"""Too many answers: a secret column, reconstructed from sums over known subsets.

A table has a secret yes or no for each person, and many columns that the attacker knows. "How many of those with a yes
in column j have a yes in the secret?" is a subset sum; with enough of them the secret is the solution of a system of
equations, unless the noise grows with the number of answers (Dinur and Nissim 2003). Here the questions are asked
through `tables`: one release answers all of them from one budget. Released again and again, the noise averages out and
the secret comes out as the total epsilon grows, at the pace the promise allows; a cap in the ledger stops it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adumbra.audit.attacks.common import (
    Attack,
    Bits,
    Clock,
    People,
    Rng,
    allowed_guess,
    generator,
    interval,
    judged,
    paired,
    released,
    survey,
)
from adumbra.common.errors import Refused
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, one_of, positive
from adumbra.declare.guarantee import Budget, Neighbours, Relation, Unit
from adumbra.ledger.ledger import Ledger
from adumbra.mechanisms.tables import Tables

__all__ = ["demonstrate", "from_careless_answers", "from_releases"]

_DELTA = 1e-6
_NEIGHBOURS = Neighbours(Unit.ROW, Relation.REPLACE)
_NAME = "survey"


def _solved(questions: Reals, answers: Reals) -> Reals:
    """Least squares for a column of 0 and 1; above one half is a yes."""
    # ridge of one: fewer questions than people, or heavy noise, then pull to one half instead of blowing up
    people = questions.shape[1]
    residual = answers - questions.sum(axis=1) / 2
    gram = questions.T @ questions + np.eye(people)
    return np.asarray(np.linalg.solve(gram, questions.T @ residual))


def _result(
    target: str,
    secret: Bits,
    guess: Reals,
    epsilon: float | None,
    clock: Clock,
    confidence: float,
    rng: Rng,
    **more: float,
) -> Attack:
    hits, people = int(((guess > 0) == secret).sum()), len(secret)
    low, high = interval(hits, people, confidence)
    right = np.where(secret, guess, -guess)
    broken, bound = paired(right, -right, epsilon, _DELTA, confidence, rng)
    allowed = None if epsilon is None else allowed_guess(epsilon, _DELTA)
    limit = "nothing is promised" if allowed is None else f"the epsilon spent in all allows {allowed:.1%}"
    return Attack(
        name="reconstruction",
        target=target,
        success=hits / people,
        meaning="share of the secret bits guessed right",
        chance=0.5,
        allowed=allowed,
        low=low,
        high=high,
        confidence=confidence,
        runs=people,
        seconds=clock.seconds,
        verdict=judged(epsilon, broken=broken, works=low > 0.5),
        ours=epsilon is not None,
        explanation=f"{hits} of {people} secret bits come out right; {limit}.",
        details={"epsilon at least": bound, "epsilon spent": epsilon} | more,
    )


def from_careless_answers(
    kind: str = "bounded",
    *,
    people: int = 200,
    questions: int = 800,
    size: float = 2.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Attack:
    """Reconstruct from answers that are not paid for together.

    `bounded`: every answer is off by at most `size`. `each`: every answer gets Laplace noise for an epsilon of 1 / size
    of its own, and nobody adds up.
    """
    one_of(("bounded", "each"), kind=kind)
    positive(size=size)
    clock, rng = Clock(), generator(seed)
    secret = rng.random(people) < 0.5
    asked = (rng.random((questions, people)) < 0.5).astype(np.float64)
    noise = rng.uniform(-size, size, questions) if kind == "bounded" else rng.laplace(0.0, size, questions)
    said = "off by at most" if kind == "bounded" else "each with Laplace noise of scale"
    target = f"{questions} sums over {people} people, {said} {size:g}"
    return _result(target, secret, _solved(asked, asked @ secret + noise), None, clock, confidence, rng)


def from_releases(
    times: Sequence[int] = (1, 4, 16),
    *,
    epsilon: float = 1.0,
    cap: float | None = None,
    people: int = 200,
    questions: int = 400,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Attack, ...]:
    """Reconstruct from releases of one table, made again and again; one result for each number of `times`.

    Each release has `epsilon` for a table of `people` rows and `questions` columns; `confidence` is that of the stated
    success, `seed` that of the made-up table. All are charged to one ledger. With `cap` (row/replace, the same delta)
    the ledger refuses what would exceed it, and the attacker keeps what he has: later results then repeat it.
    """
    at_least(1, "release at least once", times=min(times, default=0))
    rng = generator(seed)
    asked_of = survey(people, 0, questions, rng)
    secret = asked_of.truth["secret"].to_numpy()
    known = asked_of.truth.drop("secret").to_numpy()
    asked = np.concatenate([known.T, ~known.T]).astype(np.float64)
    total = np.zeros(2 * questions)
    out: list[Attack] = []
    done, refused = 0, 0
    with tempfile.TemporaryDirectory(prefix="adumbra-attack-") as folder:
        ledger = Ledger(Path(folder) / "ledger.db")
        if cap is not None:
            ledger.set_cap(_NAME, _NEIGHBOURS, cap, _DELTA)
        for wanted in times:
            clock = Clock()
            while done < wanted and not refused:
                try:
                    total += _answered(asked_of, asked, Budget(epsilon, _DELTA), ledger)
                except Refused:
                    refused = done + 1
                    break
                done += 1
            spent = ledger.spent(_NAME, _NEIGHBOURS, _DELTA)
            answers = total / (2 * max(done, 1))
            capped = f", cap {cap:g}" if cap is not None else ""
            promise = f"epsilon {epsilon:g} each{capped}, delta {_DELTA:g}, {_NEIGHBOURS}"
            target = f"{questions} questions through tables, released {done} times, {promise}"
            more = {"releases": float(done), "refused at": float(refused)}
            guess = _solved(asked, answers) if done else np.zeros(people)
            out.append(_result(target, secret, guess, spent, clock, confidence, rng, **more))
    return tuple(out)


def _answered(asked_of: People, asked: Reals, budget: Budget, ledger: Ledger) -> Reals:
    """One release, charged to the ledger, as twice the answer to every question."""
    release = released(asked_of.truth, asked_of.schema, Tables(rows=1), budget, ledger=ledger, name=_NAME)
    # (class, column, answer), both of them no, yes or missing: those with a yes in the secret, less those with a no
    counts = release.arrays["measured_tables_grouped"].reshape(3, len(asked) // 2, 3)
    yes = np.concatenate([counts[1, :, 1], counts[1, :, 0]])
    return np.asarray(yes + asked.sum(axis=1) - np.concatenate([counts[0, :, 1], counts[0, :, 0]]))


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """Careless answers, answers from one budget, from growing budgets, and with a cap."""
    return (
        from_careless_answers("bounded", seed=seed),
        from_careless_answers("each", seed=seed),
        *from_releases((1, 4, 16, 64, 256) if deep else (1,), seed=seed),
        *from_releases((1, 4, 16), epsilon=4.0, seed=seed),
        *from_releases((16,), epsilon=4.0, cap=8.0, seed=seed),
    )
