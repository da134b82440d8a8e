"""Noisy coordinates: every person's own row with noise, numbers in the table's own units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from adumbra.common.errors import InputError
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.kinds.attack_views import Sight, View, encoded_units, image_views
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.releases.card import CardWords
from adumbra.report.document import Section, Table

__all__ = ["CoordinateFit", "NoisyComparison", "NoisyCoordinates", "NoisyCoordinatesFacts"]


class NoisyCoordinatesFacts(KindFacts):
    """Facts of noisy coordinates."""

    kind: ClassVar[str] = "noisy_coordinates"
    row_aligned: Literal[True] = True
    coordinates: int
    """Numbers of a row."""
    line: str = "rows"
    """Of the measurement."""


@dataclass(frozen=True)
class CoordinateFit:
    """One coordinate of the released rows beside the true ones."""

    coordinate: str
    error: float
    """Root mean square over rows."""
    stated_error: float
    truth_mean: float
    release_mean: float


@dataclass(frozen=True)
class NoisyComparison(Comparison):
    """Noisy rows beside the true ones, row by row, in the table's own units."""

    coordinates: tuple[CoordinateFit, ...]
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """One line for each coordinate."""
        heads = ("coordinate", "error (root mean square)", "stated", "mean: truth", "release")
        rows = tuple((c.coordinate, c.error, c.stated_error, c.truth_mean, c.release_mean) for c in self.coordinates)
        return (Section("rows, coordinate by coordinate", (Table(heads, rows),)),)


class NoisyCoordinates(Kind[NoisyCoordinatesFacts]):
    """Rows as they are, each with noise of its own."""

    name: ClassVar[str] = "noisy_coordinates"
    facts_type = NoisyCoordinatesFacts

    def words(self, facts: NoisyCoordinatesFacts) -> CardWords:
        """What a row is."""
        asked = "Each row is one person's own, with noise: any tool reads it; allow for the noise stated above."
        told = {"rows are": "one for each person, in the order of the table", "coordinates": facts.coordinates}
        return CardWords(facts=told, row_bound=WHOLE, questions=(asked,))

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Every noisy number beside the true one; in two passes, batch by batch."""
        no_models(beside, "noisy rows")
        card, facts, arrays = content.card, self.facts(content.card), content.arrays()
        beside.progress("reading the truth", 0, 0)
        if beside.truth_rows() != card.rows:
            raise InputError(
                f"the table that the release was made from, with {card.rows} rows",
                f"{beside.truth_rows()} rows",
                "give that table: released and true rows are compared by their number",
            )
        seen = content.table().to_numpy().astype(np.float64)
        squares, totals, start = np.zeros(facts.coordinates), np.zeros(facts.coordinates), 0
        for encoded in beside.true_rows():
            true = arrays["middle"] + encoded_units(encoded) * arrays["width"]
            squares += np.square(seen[start : start + len(true)] - true).sum(axis=0)
            totals += true.sum(axis=0)
            start += len(true)
        stated = np.abs(arrays["width"]) * card.noise[facts.line].standard_deviation
        rows = max(card.rows, 1)
        fits = tuple(
            CoordinateFit(name, math.sqrt(float(squares[i] / rows)), float(stated[i]), float(totals[i] / rows),
                          float(seen[:, i].mean()))
            for i, name in enumerate(beside.schema.coordinates)
        )  # fmt: skip
        notes: tuple[str, ...] = (
            "released and true rows are compared by their number: numbers in the units of the table, flags and "
            "categories as they are encoded (a flag from -0.5 to 0.5, a category as 0 or 0.707 for each value)",
        )
        if card.row_bound is not None:
            notes += ("rows were clipped to the row bound before the release; that counts as error here",)
        return NoisyComparison(fits, notes)

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """Each row at its own place, or any."""
        facts, arrays = self.facts(content.card), content.arrays()
        seen = (content.table().to_numpy() - arrays["middle"]) / arrays["width"]
        noise = content.card.noise[facts.line]
        return image_views(seen, encoded_units, noise, sight.reference)
