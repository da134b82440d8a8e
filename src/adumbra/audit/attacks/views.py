"""What somebody who holds a release can work out about a candidate row: one score for each way of looking.

A view scores rows: the larger, the more it looks as if this row were in the table. Sums are looked at by likelihood:
the mechanism is run again on what it published, so that the questions it asked are known exactly; a row's own
contribution to each answer is then compared with what the answer has too much.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from scipy.special import logsumexp

from adumbra.answer.release import Release
from adumbra.audit.attacks.common import Integers, Reals
from adumbra.core.card import Card
from adumbra.core.errors import AdumbraError
from adumbra.core.guarantee import Promise
from adumbra.core.mechanism import Mechanism, Query, Setting
from adumbra.core.query import RowMap
from adumbra.core.randomness import PublicSeed
from adumbra.core.release import ReleaseFolder
from adumbra.core.schema import Schema
from adumbra.core.space import GRID, Space
from adumbra.core.sums import Count, RowsAndGram, Sum
from adumbra.mechanisms.catalogue import catalogue
from adumbra.privacy.meter import preview_sd
from adumbra.table.bound import clip_rows
from adumbra.table.encode import encode

__all__ = ["View", "clipped", "encoded", "space_of", "views"]

View = Callable[[Reals, Integers], Reals]
"""`view(rows, places)`: a score for each encoded row; `places` is where in the table it would stand."""

_MOST_NUMBERS = 4 * 10**7
_MOST_BINS = 64
_LESS_NOISE = (0.1, 0.01, 0.001)


def space_of(card: Card) -> tuple[Schema, Space]:
    """Schema and shape of the encoded rows that a card describes."""
    schema = Schema.from_dict(card.table_schema)
    return schema, schema.space(card.row_bound)


def encoded(frame: pl.DataFrame, card: Card) -> Reals:
    """Rows as the release read them, in grid steps."""
    schema, space = space_of(card)
    return clipped(encode(frame, schema).values, space)


def clipped(rows: Reals, space: Space) -> Reals:
    """Rows within the bound of the release, if it has one."""
    return rows if space.row_bound is None else clip_rows(rows, space.row_bound)[0]


def views(release: Release, rows: int, reference: Reals, mechanism: Mechanism | None = None) -> dict[str, View]:
    """All views of a release of a table of so many rows, by name.

    `reference` are encoded rows of people who are certainly not in the table: they stand for the population.
    `mechanism` is only needed where the card does not say all that was asked (bins given by hand, say).
    """
    card, arrays = release.card, release.arrays
    seen = ReleaseFolder.open(release.path).table()  # whatever library the owner's frame was of
    out: dict[str, View] = {}
    if "matrix" in arrays:
        out |= _projected(card, seen.to_numpy(), arrays, reference)
    else:
        out |= _rows(card, seen)
    looks = _looks(card, arrays, rows, mechanism)
    if looks:
        out |= _sums(looks, rows, reference)
    return out


# ---- noisy projected rows


def _projected(card: Card, seen: Reals, arrays: Mapping[str, Any], reference: Reals) -> dict[str, View]:
    matrix = arrays["matrix"] * float(arrays["step"]) / GRID
    (noise,) = card.noise.values()

    def fit(rows: Reals, noisy: Reals) -> Reals:
        """Log-likelihood of noisy rows for the rows behind them; both broadcast."""
        if noise.law == "laplace":
            return np.asarray(-np.abs(rows - noisy).sum(axis=-1) / noise.scale)
        return np.asarray(-np.square(rows - noisy).sum(axis=-1) / (2 * noise.scale**2))

    people = reference @ matrix
    batch = max(1, 2**22 // max(people.size, 1))
    pieces = [seen[start : start + batch] for start in range(0, len(seen), batch)]
    anybody = np.concatenate([logsumexp(fit(people[:, None], piece[None]), axis=0) for piece in pieces])

    def own_place(rows: Reals, places: Integers) -> Reals:
        return fit(rows @ matrix, seen[places])

    def any_place(rows: Reals, places: Integers) -> Reals:
        return np.array([logsumexp(fit(row, seen) - anybody) for row in rows @ matrix])

    def best_match(rows: Reals, places: Integers) -> Reals:
        return np.array([fit(row, seen).max() for row in rows @ matrix])

    return {"own place": own_place, "any place": any_place, "best match": best_match}


# ---- rows in the schema's own columns


def _rows(card: Card, frame: pl.DataFrame) -> dict[str, View]:
    seen = encoded(frame, card) / GRID
    lengths = np.square(seen).sum(axis=1)

    def nearest(rows: Reals, places: Integers) -> Reals:
        scaled = rows / GRID
        best = np.empty(len(rows))
        for start in range(0, len(rows), 64):
            part = scaled[start : start + 64]
            best[start : start + 64] = (lengths - 2 * part @ seen.T).min(axis=1)
        return np.asarray(-(best + np.square(scaled).sum(axis=1)))

    def own_place(rows: Reals, places: Integers) -> Reals:
        return np.asarray(-np.square(rows / GRID - seen[places]).sum(axis=1))

    found: dict[str, View] = {"nearest row": nearest}
    if "row-aligned" in card.releases:
        found["own place"] = own_place
    return found


# ---- sums


@dataclass(frozen=True, eq=False)
class _Look:
    """A sum that was asked, the noisy answer, and the noise on each part."""

    query: Sum
    values: Mapping[str, Reals]
    sds: Mapping[str, float]

    def contributions(self, rows: Reals) -> Reals:
        """What each row adds to the answer, in units of the noise."""
        return np.stack([self._vector(self.query.answer(row[None]), exact=True) for row in rows])

    @property
    def seen(self) -> Reals:
        """The answer, in the same units."""
        return self._vector(self.values, exact=False)

    def _vector(self, answer: Mapping[str, Reals], exact: bool) -> Reals:
        return np.concatenate(
            [
                np.asarray(answer[part.name]).ravel() * ((part.step if exact else 1.0) / self.sds[part.name])
                for part in self.query.parts
            ]
        )


class _Replay:
    """A door that answers with what was published, and notes the questions."""

    def __init__(self, card: Card, arrays: Mapping[str, Any], rows: int) -> None:
        self._card, self._arrays, self._rows = card, arrays, rows
        self.looks: list[_Look] = []

    def measure(self, line: str, query: Query) -> Any:
        """What the mechanism was told then."""
        if isinstance(query, RowMap):
            return SimpleNamespace(batches=iter(()))
        sds = self._card.noise[line].parts
        if isinstance(query, Count):  # not published: an attacker who knows it is stronger than one who does not
            return SimpleNamespace(values={"rows": np.array([float(self._rows)])}, sd=sds.__getitem__)
        asked = query.gram if isinstance(query, RowsAndGram) else query
        stem = f"measured_{line.replace(' ', '_')}_"
        values = {part.name: self._arrays[stem + part.name] for part in asked.parts}
        if any(values[part.name].shape != part.shape for part in asked.parts):
            raise LookupError("another question was asked")
        self.looks.append(_Look(asked, values, sds))
        told = SimpleNamespace(values=values, sd=sds.__getitem__)
        return told if isinstance(query, Sum) else SimpleNamespace(rows=SimpleNamespace(batches=iter(())), gram=told)


def _looks(card: Card, arrays: Mapping[str, Any], rows: int, mechanism: Mechanism | None) -> list[_Look]:
    """The sums behind a release; none where they are not published, or cannot be told from the card."""
    if not any(name.startswith("measured_") for name in arrays):
        return []
    _, space = space_of(card)
    promise = Promise(card.epsilon, card.delta, card.neighbours)
    seed = PublicSeed.given(card.seed.value)

    def preview(share: float, query: Query) -> float:
        return preview_sd(query, space, promise, share=share, rows=rows, fresh=False)

    schema = Schema.from_dict(card.table_schema)
    setting = Setting(space, card.table_rows, card.neighbours, seed, preview, schema.labels, schema, card.delta == 0.0)
    for candidate in [mechanism] if mechanism is not None else _candidates(card):
        replay = _Replay(card, arrays, rows)
        try:
            candidate.run(replay, setting)
        except (LookupError, ValueError, AdumbraError):
            continue
        return replay.looks
    return []


def _candidates(card: Card) -> list[Mechanism]:
    """The mechanism as its card describes it; where bins are not on the card, with every number of them."""
    made = catalogue().get(card.mechanism)
    if made is None:
        return []
    names = {f.name for f in dataclasses.fields(made)}  # type: ignore[arg-type] # all are dataclasses
    known = {name: _tuple(value) for name, value in card.parameters.items() if name in names}
    if known.get("projection") == "none":
        known.pop("dimension", None)
        known.pop("ensemble", None)
    if "rows" in names:
        known["rows"] = card.rows
    try:
        plain = [made(**known)]
    except (AdumbraError, TypeError):
        return []
    guessed = range(1, _MOST_BINS + 1) if "bins" in names else ()
    return plain + [made(**(known | {"bins": bins})) for bins in guessed]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Contributions:
    """What rows add to all answers; several views ask for the same rows, so the last ones are kept."""

    def __init__(self, looks: list[_Look]) -> None:
        self._looks = looks
        self._kept: dict[bytes, Reals] = {}

    def of(self, rows: Reals) -> Reals:
        """One row of numbers for each, in units of the noise."""
        key = hashlib.sha256(rows.tobytes()).digest()
        if key not in self._kept:
            found = np.concatenate([look.contributions(rows) for look in self._looks], axis=1)
            if sum(kept.size for kept in self._kept.values()) + found.size > _MOST_NUMBERS:
                self._kept.clear()
            self._kept[key] = found
        return self._kept[key]


def _sums(looks: list[_Look], rows: int, reference: Reals) -> dict[str, View]:
    """Views of all answers together.

    Before anything is known of a candidate, the answer is that of `rows` people like the reference, give or take: its
    mean is theirs, its covariance is theirs, the noise and the error of the mean together. A candidate moves the mean
    by what he adds beyond the average person. `likelihood` compares both; `inner product` leaves the covariance out.
    An audit does not take the stated noise on trust: the others suppose that there is less of it.
    """
    size = sum(look.query.size for look in looks)
    contributions = _Contributions(looks)
    own = contributions.of(reference[: max(_MOST_NUMBERS // (2 * max(size, 1)), 2)])
    mean = own.mean(axis=0)
    surplus = np.concatenate([look.seen for look in looks]) - rows * mean
    people = len(own)
    spread = (own - mean) * np.sqrt((rows + rows**2 / people) / max(people - 1, 1))
    gram, along_spread = spread @ spread.T, spread @ surplus

    def likelihood_for(part: float) -> View:
        """With this part of the stated noise."""
        # inverse of part^2 + spread' spread, applied without ever building it
        inner = np.linalg.inv(part**2 * np.eye(people) + gram)
        direction = (surplus - spread.T @ (inner @ along_spread)) / part**2

        def likelihood(candidates: Reals, places: Integers) -> Reals:
            change = contributions.of(candidates) - mean
            along = change @ spread.T
            size = (np.square(change).sum(axis=1) - ((along @ inner) * along).sum(axis=1)) / part**2
            return np.asarray(change @ direction - size / 2)

        return likelihood

    def inner_product(candidates: Reals, places: Integers) -> Reals:
        return np.asarray((contributions.of(candidates) - mean) @ surplus)

    found: dict[str, View] = {"likelihood": likelihood_for(1.0), "inner product": inner_product}
    return found | {f"likelihood at {part:g} of the noise": likelihood_for(part) for part in _LESS_NOISE}
