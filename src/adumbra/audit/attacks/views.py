"""What somebody who holds a release can work out about a candidate row, by the views that its kind has.

To know which questions the published sums answer, the mechanism is made again from the options on the card and run on
what it published.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from adumbra.common.errors import AdumbraError, InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Integers, Reals
from adumbra.declare.guarantee import Promise
from adumbra.declare.schema import Schema
from adumbra.declare.space import Space
from adumbra.families.contract import Mechanism, Query, Setting
from adumbra.kinds.attack_views import MeasuredSum, Sight, View
from adumbra.mechanisms.catalogue import build
from adumbra.privacy.preview import NoisePreview
from adumbra.queries.query import RowAnswers, SumAnswer
from adumbra.queries.sums import Count
from adumbra.releases.card import Card
from adumbra.result import Release
from adumbra.tables.row_source import encoded_rows

__all__ = ["encoded", "measured_sums", "space_of", "views"]


def space_of(card: Card) -> tuple[Schema, Space]:
    """Schema and shape of the encoded rows that a card describes."""
    schema = Schema.from_dict(card.table_schema)
    return schema, schema.space(card.row_bound)


def encoded(frame: pl.DataFrame, card: Card) -> Reals:
    """Rows as the release read them, in grid steps."""
    schema, space = space_of(card)
    return encoded_rows(frame, schema, space.row_bound)


def views(release: Release, rows: int, reference: Reals, mechanism: Mechanism | None = None) -> dict[str, View]:
    """All views of a `release` of a table of so many `rows`, by name; refused where there is none.

    `reference` are encoded rows of people who are certainly not in the table: they stand for the population.
    `mechanism` is only needed where the card does not say all that was asked (a basis in a file, for example, or a
    card of format 1).
    """
    content = release.content
    schema, space = space_of(content.card)
    measured = partial(measured_sums, content.card, content.arrays(), rows, mechanism)
    with release.reading():
        found = release.kind.views(content, Sight(schema, space, rows, reference, measured))
    if not found:
        raise InputError(
            "a release that says something about single rows, to attack it by",
            f"one of {content.card.mechanism} ({release.kind.name}), of which no row can be distinguished from another",
            "give the mechanism with its options, if its card does not name them all; else there is nothing to attack",
        )
    return {name: partial(_scored, release, view) for name, view in found.items()}


def _scored(release: Release, view: View, rows: Reals, places: Integers) -> Reals:
    """The scores of a view, which reads arrays and rows of the release no sooner than it is asked."""
    with release.reading():
        scores = np.asarray(view(rows, places))
        if scores.shape != (len(rows),) or scores.dtype.kind not in "fi":
            raise TypeError("no score for each row")
        return scores


class _Replay:
    """A door that answers with what was published, and notes the questions."""

    def __init__(self, card: Card, arrays: Mapping[str, Any], rows: int) -> None:
        self._card, self._arrays, self._rows = card, arrays, rows
        self.measured: list[MeasuredSum] = []

    def measure(self, line: str, query: Query) -> Any:
        """The setting that the mechanism had then."""
        empty, asked = RowAnswers(iter(())), query.summed
        if asked is None:
            return query.answered(empty, None)
        sds = self._card.noise[line].parts
        if isinstance(asked, Count):  # not published: an attacker who knows it is stronger than one who does not
            return query.answered(None, SumAnswer({"rows": np.array([float(self._rows)])}, sds))
        names = self._card.measured[line]
        values = {part.name: self._arrays[names[part.name]] for part in asked.parts}
        if any(values[part.name].shape != part.shape for part in asked.parts):
            raise LookupError("another question was asked")
        self.measured.append(MeasuredSum(asked, values, sds))
        # a forged array may hold complex numbers: they are found where rows are scored, not in the middle of a model
        return query.answered(empty, SumAnswer({name: np.real(value) for name, value in values.items()}, sds))


def measured_sums(card: Card, arrays: Mapping[str, Any], rows: int, mechanism: Mechanism | None) -> list[MeasuredSum]:
    """The sums behind a release; none where they are not published, or the options on the card do not make them.

    `arrays` are those of the release with this `card`, `rows` those of the table; `mechanism` stands in for the one
    that the card describes.
    """
    if not card.measured:
        return []
    schema, space = space_of(card)
    promise = Promise(card.epsilon, card.delta, card.neighbours)
    seed = PublicSeed.given(card.seed.value)
    preview = NoisePreview(space, promise, rows, seed)
    setting = Setting(space, card.table_rows, card.neighbours, seed, preview, schema.labels, schema, card.delta == 0.0)
    replay = _Replay(card, arrays, rows)
    try:
        (mechanism or build(card.mechanism, card.options)).run(replay, setting)
    except (LookupError, ValueError, TypeError, AdumbraError):
        return []
    return replay.measured
