"""The missing cell: what does a release tell about one value of a person whose other values are known?

The attacker knows a person's row but for one cell. He has a model of the population (trained on people who are not in
the table) and the release; he completes the row with every possible value and takes the one that fits both best. He
does the same for people who are not in the table. What he learns about these is what the release says about the
population; it is not hidden, nor is it meant to be. Only what he gets right more often about people in the table is a
leak, and the promise bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from adumbra.audit.attacks.common import (
    Attack,
    Clock,
    People,
    Rng,
    allowed_share,
    digits,
    generator,
    interval,
    judged,
    paired,
    promised,
    released,
    survey,
    target_of,
)
from adumbra.audit.attacks.members import pairs_of
from adumbra.audit.attacks.views import space_of, views
from adumbra.common.errors import InputError
from adumbra.common.types import Integers, Reals
from adumbra.declare.guarantee import Budget
from adumbra.declare.space import CATEGORY_STEPS, HALF, Block, Space
from adumbra.families.contract import Mechanism
from adumbra.kinds.attack_views import View
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.dprp import DPRP
from adumbra.mechanisms.moments import Moments
from adumbra.mechanisms.tables import Tables
from adumbra.queries.cells import Cells
from adumbra.releases.card import Card
from adumbra.result import Release, load
from adumbra.tables.row_source import clipped_rows

__all__ = ["attribute", "demonstrate"]

_MOST_VALUES = 20
_QUARTERS = 4
_TRUST = (0.01, 0.1, 1.0, 10.0, 1e3, 1e6, 1e9)
"""How much weight the release may get beside the model of the population; a lot supposes less noise than stated."""


@dataclass(frozen=True, eq=False)
class _Values:
    """The values that a missing cell is guessed among: those it can have, or quarters of a number."""

    block: Block
    fillings: Reals
    """One row of coordinates for each value."""
    cuts: Reals | None

    @staticmethod
    def of(block: Block, reference: Reals) -> _Values:
        if block.kind == "category":
            if block.width > _MOST_VALUES:
                raise InputError(
                    f"a column of at most {_MOST_VALUES} values", f"{block.column!r} has {block.width}", "take another"
                )
            return _Values(block, np.eye(block.width) * CATEGORY_STEPS, None)
        if block.kind == "flag":
            return _Values(block, np.array([[-HALF], [HALF]], dtype=np.float64), None)
        column = reference[_there(block, reference), block.start]
        column = column if len(column) else np.ones(1)
        cuts = np.unique(np.quantile(column, np.arange(1, _QUARTERS) / _QUARTERS))
        place = np.searchsorted(cuts, column, side="right")
        ends = np.concatenate([[-HALF], cuts, [HALF]])
        middles = [
            float(np.median(column[place == i])) if (place == i).any() else float(ends[i : i + 2].mean())
            for i in range(len(cuts) + 1)
        ]
        return _Values(block, np.rint(middles)[:, None], cuts)

    def known(self, rows: Reals) -> Integers:
        """The right answer for each row; -1 for an empty cell."""
        if self.cuts is not None:
            place = np.searchsorted(self.cuts, rows[:, self.block.start], side="right").astype(np.int64)
            return np.where(_there(self.block, rows), place, -1)
        return Cells.even([self.block], 1).of(rows)[:, 0]

    def completed(self, rows: Reals, value: int, space: Space) -> Reals:
        """The rows with this value in the cell."""
        out = rows.copy()
        out[:, self.block.start : self.block.stop] = self.fillings[value]
        return clipped_rows(out, space.row_bound)


def _there(block: Block, rows: Reals) -> NDArray[np.bool_]:
    """Whose cell is not empty: 0 is no value of a number."""
    return np.asarray(rows[:, block.start] != 0)


def attribute(
    release: Release | str | Path,
    truth: Any,
    holdout: Any,
    column: str,
    *,
    mechanism: Mechanism | None = None,
    most: int = 120,
    confidence: float = 0.95,
    seed: int = 0,
) -> Attack:
    """Guess one cell of people whose other cells are known, by a `release` and a model of the population.

    The cell is that of `column`; people are drawn from `truth` and `holdout`, at most so many (`most`), by `seed`, and
    intervals hold with `confidence`. `mechanism` is needed only where the card does not tell what was asked.

    `chance` is how often the same guesser is right about people who are not in the table, `details["without the
    release"]` how often the model alone is right about those who are. `allowed` follows from `chance` and the promise.

    Guarantee: as for `membership`. The verdict looks at pairs in which the guesser is right about one person only: if
    that is the one in the table far too often, the promise is broken.

    Edge cases: numbers are guessed by quarter of the population; people whose cell is empty count as wrong guesses;
    columns of more than 20 values are refused.
    """
    clock = Clock()
    opened = release if isinstance(release, Release) else load(release)
    card = opened.card
    _, space = space_of(card)
    block = _block(space, column)
    pairs = pairs_of(card, truth, holdout, most, seed)
    rng = generator(seed + 1)
    values = _Values.of(block, pairs.reference)
    model = _CellGuesser(values, pairs.reference, seed)
    sides = [_Side(pairs.inside, pairs.places, values, model), _Side(pairs.outside, pairs.places, values, model)]
    guesses = _guesses(
        sides, views(opened, pairs.rows, clipped_rows(pairs.reference, space.row_bound), mechanism), space
    )
    alone = sides[0].right(np.zeros_like(sides[0].prior), 0.0)[pairs.choosing :]
    found = _guessed(card, guesses, pairs.choosing, alone, confidence, rng)
    details = {**found.details, "values": len(values.fillings)}
    return replace(found, target=f"{found.target}: {column}", seconds=clock.seconds, details=details)


def _guessed(
    card: Card,
    guesses: Mapping[tuple[str, float], list[Reals]],
    choosing: int,
    alone: Reals,
    confidence: float,
    rng: Rng,
) -> Attack:
    """The best view and trust by the first people (`choosing`), judged by the others beside the model `alone`."""
    first, rest = slice(0, choosing), slice(choosing, None)
    best = max(guesses, key=lambda way: float(guesses[way][0][first].mean()))
    inside, outside = (right[rest] for right in guesses[best])
    runs, hits = len(inside), int(inside.sum())
    low, high = interval(hits, runs, confidence)
    epsilon = promised(card)
    chance = float(outside.mean())
    broken, bound = paired(inside, outside, epsilon, card.delta, confidence, rng)
    works = paired(inside, outside, 0.0, 0.0, confidence, rng)[0]
    return Attack(
        name="attribute",
        target=target_of(card),
        success=hits / runs,
        meaning="share of people in the table whose missing cell was guessed",
        chance=chance,
        allowed=None if epsilon is None else allowed_share(chance, epsilon, card.delta),
        low=low,
        high=high,
        confidence=confidence,
        runs=runs,
        seconds=0.0,
        verdict=judged(epsilon, broken=broken, works=works),
        explanation=(
            f"With the release the missing cell is guessed for {hits / runs:.0%} of the people in the table, for "
            f"{chance:.0%} of those who are not, and for {alone.mean():.0%} without the release; the leak is the first "
            "less the second."
        ),
        details={
            "view": best[0],
            "trust in the release": best[1],
            "leak": hits / runs - chance,
            "without the release": float(alone.mean()),
            "right about one of a pair": [int((inside > outside).sum()), int((inside < outside).sum())],
            "epsilon at least": bound,
            "epsilon promised (row/replace)": epsilon,
        },
    )


def _block(space: Space, column: str) -> Block:
    for block in space.blocks:
        if block.column == column:
            return block
    raise InputError("a released column", repr(column), f"use one of: {[b.column for b in space.blocks[:10]]}")


class _CellGuesser:
    """What the rest of a row says about the cell, learned from people who are not in the table."""

    def __init__(self, values: _Values, reference: Reals, seed: int) -> None:
        self._values = values
        known = values.known(reference)
        rows = self._others(reference)
        self._forest = RandomForestClassifier(100, min_samples_leaf=2, random_state=seed, n_jobs=1)
        self._forest.fit(rows[known >= 0], known[known >= 0])

    def _others(self, rows: Reals) -> Reals:
        return np.delete(rows, np.s_[self._values.block.start : self._values.block.stop], axis=1)

    def log_chances(self, rows: Reals) -> Reals:
        """For each row and value; no value is impossible."""
        count = len(self._values.fillings)
        out = np.zeros((len(rows), count))
        out[:, self._forest.classes_] = self._forest.predict_proba(self._others(rows))
        return np.asarray(np.log((out * 100 + 1) / (100 + count)))


class _Side:
    """People on one side of the pairs, with their cells hidden."""

    def __init__(self, rows: Reals, places: Integers, values: _Values, model: _CellGuesser) -> None:
        self._rows, self._places, self._values = rows, places, values
        self._known = values.known(rows)
        self.prior = model.log_chances(rows)

    def fits(self, view: View, space: Space) -> Reals:
        """The view's score of every completion."""
        count = len(self._values.fillings)
        return np.stack([view(self._values.completed(self._rows, v, space), self._places) for v in range(count)], 1)

    def right(self, fits: Reals, trust: float) -> Reals:
        """1 where the guess is right."""
        guess = np.argmax(self.prior + trust * (fits - fits.max(axis=1, keepdims=True)), axis=1)
        return np.asarray(guess == self._known, dtype=np.float64)


def _guesses(sides: Sequence[_Side], found: Mapping[str, View], space: Space) -> dict[tuple[str, float], list[Reals]]:
    """For every view and trust in it, who on each side was guessed right."""
    guesses = {}
    for name, view in found.items():
        fits = [side.fits(view, space) for side in sides]
        for trust in _TRUST:
            guesses[name, trust] = [side.right(fit, trust) for side, fit in zip(sides, fits, strict=True)]
    return guesses


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """A secret answer, in sums and in projected rows: a strict promise, and one that allows nearly everything."""
    rng = generator(seed)
    images, many, few = digits(150, 500, 16, rng), survey(150, 500, 150, rng), survey(150, 500, 5, rng)
    cases: list[tuple[Mechanism, People, str]] = [
        (Tables(rows=100), many, "secret"),
        (DPPro(), few, "secret"),
    ]
    if deep:
        cases += [(Moments(rows=100), few, "secret"), (DPRP(), images, "p27"), (DPPro(), images, "digit")]
    return tuple(
        attribute(
            released(people.truth, people.schema, kind, Budget(epsilon)),
            people.truth,
            people.holdout,
            column,
            most=150,
            seed=seed,
        )
        for kind, people, column in cases
        for epsilon in (1.0, 64.0)
    )
