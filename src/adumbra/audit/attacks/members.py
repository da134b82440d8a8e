"""Who was in the table?

Chance decided who is in the table and who is in the holdout. So is the design here: people in the table are paired with
people in the holdout, and each pair is a coin that decided which of the two is in. The attacker sees the release, knows
both rows of every pair, and says which. He chooses the best of his views on a third of the pairs, where he knows the
coins, and is tested on the others. Under a promise of epsilon for replacing one row every coin is guessed right with
probability at most e^epsilon / (1 + e^epsilon) (and delta), and the count of right guesses is at most that of
independent ones, even though all are made from the same release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adumbra.audit.attacks.common import (
    Attack,
    Clock,
    Rng,
    allowed_guess,
    allowed_share,
    area,
    digits,
    generator,
    interval,
    judged,
    paired,
    promised,
    released,
    target_of,
)
from adumbra.audit.attacks.views import space_of, views
from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Budget
from adumbra.families.contract import Mechanism
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.dprp import DPRP
from adumbra.mechanisms.hybrid import Hybrid
from adumbra.mechanisms.moments import Moments
from adumbra.mechanisms.tables import Tables
from adumbra.releases.card import Card
from adumbra.result import Release, load
from adumbra.tables.row_source import RowSource, clipped_rows

__all__ = ["PartneredRows", "demonstrate", "membership", "pairs_of"]

_FEWEST = 12
_REFERENCE = 5
"""The better the population is known, the clearer the signal of a single person."""


@dataclass(frozen=True, eq=False)
class PartneredRows:
    """Encoded rows of people in the table, each with a partner who is not; and others who are not, for reference.

    No row bound has been applied yet.
    """

    inside: Reals
    outside: Reals
    places: Integers
    """Where in the table each person of `inside` stands."""
    reference: Reals
    rows: int
    """Rows of the table."""

    @property
    def choosing(self) -> int:
        """How many pairs, the first ones, serve to choose."""
        return len(self.inside) // 3


def pairs_of(card: Card, truth: Any, holdout: Any, most: int, seed: int) -> PartneredRows:
    """Read both tables as the release did and pair people off at random, at most `most` of them.

    At least half of the holdout is kept for reference, and of a large one (`_REFERENCE` times `most`) no more.
    """
    at_least(_FEWEST, "attack more people", most=most)
    rng = generator(seed)
    inside, rows, places = _sample(card, truth, "truth", most, rng)
    others, _, _ = _sample(card, holdout, "holdout", (1 + _REFERENCE) * most, rng)
    count = min(len(inside), len(others) // 2)
    if count < _FEWEST:
        raise InputError(
            f"at least {_FEWEST} rows in the truth and {2 * _FEWEST} in the holdout",
            f"{rows} and {len(others)}",
            "an attack on fewer people shows nothing",
        )
    return PartneredRows(inside[:count], others[:count], places[:count], others[count:], rows)


def _sample(card: Card, source: Any, what: str, most: int, rng: Rng) -> tuple[Reals, int, Integers]:
    """Some rows in random order, how many there are, and where they stood."""
    given = RowSource.open(source, space_of(card)[0])
    rows = given.table.count()
    if what == "truth" and card.table_rows is not None and rows != card.table_rows:
        raise InputError(
            f"the table of the release, with {card.table_rows} rows", f"{rows} rows", "give the table it was made from"
        )
    places = rng.permutation(rows)[:most]
    return given.rows_at(places), rows, places


def membership(
    release: Release | str | Path,
    truth: Any,
    holdout: Any,
    *,
    mechanism: Mechanism | None = None,
    most: int = 300,
    confidence: float = 0.95,
    seed: int = 0,
) -> Attack:
    """Tell people of the table (`truth`) from people who are not in it (`holdout`), by a `release`.

    At most so many people (`most`) are attacked, drawn by `seed`; intervals hold with `confidence`.

    Guarantee: if chance decided who is in the truth and who in the holdout, `beyond the promise` says, at the stated
    confidence, that the release does not keep its promise. If it did not (the holdout is of another year, for
    example), the attack may see the difference of the tables instead of the people, and says nothing about the
    release.

    Edge cases: `within the promise` proves nothing. An average over people: one odd person may be far easier to spot.
    A release whose row cost is not finite promises nothing here, and the verdict is `works` or `fails`. `mechanism` is
    needed only where the card does not tell what was asked; without it such a release is attacked by its rows alone.
    The result is private: it was made from the truth, and names nobody.
    """
    clock = Clock()
    opened = release if isinstance(release, Release) else load(release)
    card = opened.card
    pairs = pairs_of(card, truth, holdout, most, seed)
    rng = generator(seed + 1)
    _, space = space_of(card)
    reference, inside, outside = (
        clipped_rows(rows, space.row_bound) for rows in (pairs.reference, pairs.inside, pairs.outside)
    )
    found = views(opened, pairs.rows, reference, mechanism)
    scores = {n: (v(inside, pairs.places), v(outside, pairs.places)) for n, v in found.items()}
    return _told_apart(card, scores, pairs.choosing, confidence, rng, clock)


def _told_apart(
    card: Card, scores: Mapping[str, tuple[Reals, Reals]], choosing: int, confidence: float, rng: Rng, clock: Clock
) -> Attack:
    """The best view by the first pairs (`choosing` of them), judged by the others."""
    first, rest = slice(0, choosing), slice(choosing, None)
    best = max(scores, key=lambda n: _right(*(s[first] for s in scores[n])))
    inside, outside = (s[rest] for s in scores[best])
    ties = inside == outside
    hits = int((inside > outside).sum() + (rng.random(int(ties.sum())) < 0.5).sum())
    runs = len(inside)
    low, high = interval(hits, runs, confidence)
    epsilon = promised(card)
    broken, bound = paired(inside, outside, epsilon, card.delta, confidence, rng)
    caught = {
        f"caught at {share:.0%} false alarms": _caught(
            inside, outside, float(np.quantile(scores[best][1][first], 1 - share, method="higher")), card, confidence
        )
        for share in (0.01, 0.1)
    }
    return Attack(
        name="membership",
        target=target_of(card),
        success=hits / runs,
        meaning="share of pairs in which the person who was in the table was named",
        chance=0.5,
        allowed=None if epsilon is None else allowed_guess(epsilon, card.delta),
        low=low,
        high=high,
        confidence=confidence,
        runs=runs,
        seconds=clock.seconds,
        verdict=judged(epsilon, broken=broken, works=low > 0.5),
        explanation=(
            f"Of two people, one of them in the table, the release names the right one in {hits} of {runs} pairs "
            f"(best view: {best}); averaged over people, and an audit only if chance decided who is in the table."
        ),
        details={
            "view": best,
            "auc": area(inside, outside),
            "epsilon at least": bound,
            "epsilon promised (row/replace)": epsilon,
            "right when choosing": {n: _right(*(s[first] for s in scores[n])) for n in scores},
            **caught,
        },
    )


def _caught(inside: Reals, outside: Reals, threshold: float, card: Card, confidence: float) -> dict[str, Any]:
    """How many score above a threshold on either side, and how many the promise allows."""
    runs, epsilon = len(inside), promised(card)
    caught, alarms = int((inside > threshold).sum()), int((outside > threshold).sum())
    most_alarms = interval(alarms, runs, confidence)[1]
    return {
        "caught": caught / runs,
        "interval": interval(caught, runs, confidence),
        "false alarms": alarms / runs,
        "at most": most_alarms,
        "allowed": None if epsilon is None else allowed_share(most_alarms, epsilon, card.delta),
    }


def _right(inside: Reals, outside: Reals) -> float:
    return float((inside > outside).mean() + (inside == outside).mean() / 2)


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """Membership in releases of scikit-learn's digits: a strict promise, and one that allows nearly everything."""
    rng = generator(seed)
    people = digits(200, 600, 16, rng)
    kinds: list[Mechanism] = [Moments(rows=2000), DPPro()]
    if deep:
        kinds += [Tables(rows=2000), Hybrid(rows=2000), DPRP()]
    return tuple(
        membership(
            released(people.truth, people.schema, kind, Budget(epsilon)), people.truth, people.holdout, seed=seed
        )
        for kind in kinds
        for epsilon in (1.0, 64.0)
    )
