"""Counts of the cells of a domain: an estimate for each, and the noisy numbers it was made from."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Integers, Reals
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.compare.counts_fit import CountsCheck, check_counts
from adumbra.declare.schema import Schema
from adumbra.kinds.attack_views import MeasuredSum, Sight, View, sum_views
from adumbra.kinds.counted_cells import CountedCells
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.numerics import strategies
from adumbra.numerics.seeded_sensing import sensing
from adumbra.numerics.sensing import Sensing
from adumbra.queries.domain import Domain
from adumbra.queries.histograms import HistogramQuery, Strategy
from adumbra.releases.card import Card, CardWords
from adumbra.report.document import Section

__all__ = ["Counts", "CountsComparison", "CountsFacts", "DomainFacts", "SketchFacts"]


# A sketch as a card describes it: enough to draw the same one again from the public seed.


class SketchFacts(BaseModel):
    """Which sketch, of how many numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sensing: str
    """The law of its matrix."""
    measurements: int
    cells: int
    nonzeros: int = 4
    """Entries of a column of sparse-signs."""
    weights: tuple[float, ...] = ()

    def told(self) -> dict[str, Any]:
        """For people."""
        out: dict[str, Any] = {
            "kind": self.sensing,
            "measurements": self.measurements,
            "ratio": self.measurements / self.cells,
        }
        out |= {"nonzeros": self.nonzeros} if self.sensing == "sparse-signs" else {}
        return out | ({"weights": list(self.weights)} if self.weights else {})

    def drawn(self, seed: bytes) -> Sensing:
        """The sketch itself."""
        return sensing(self.sensing, seed, self.cells, self.measurements, nonzeros=self.nonzeros, weights=self.weights)


_MOST_NUMBERS = 2**14
"""Measured numbers that an attacker weighs all together; of more he takes a row's own cell."""


class DomainFacts(BaseModel):
    """Which cells were counted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[str, ...]
    cells: tuple[int, ...]
    """Of each column, for its values."""
    missing: tuple[bool, ...] = ()
    """Which columns have one more cell, the last, for what is missing; nothing where an earlier release had none."""

    def told(self) -> dict[str, Any]:
        """For people."""
        kept = [name for name, own in zip(self.columns, self.missing, strict=False) if own]
        out: dict[str, Any] = {"columns": list(self.columns), "cells": list(self.cells)}
        return out | ({"and a cell (missing)": kept} if kept else {})


class CountsFacts(KindFacts):
    """Facts of counted cells."""

    kind: ClassVar[str] = "counts"
    row_aligned: Literal[False] = False
    line: str = "counts"
    """Of the measurement, and the part of it that was measured."""
    part: str = "measured"
    domain: DomainFacts
    decoder: Literal["linear", "sparse", "pursuit"]
    """How counts follow from the noisy numbers: least squares, few atoms of noisy counts, few atoms of a sketch."""
    strategy: dict[str, Any] | None = None
    """Recipe of what was measured (`numerics.strategies`)."""
    sketch: SketchFacts | None = None
    """What was measured, where that was a sketch."""
    frequencies: int | None = None
    tail: float = 0.0
    """Size of what lies beyond the frequencies kept, with the standard deviation of its noise."""
    tail_sd: float = 0.0
    dictionary: dict[str, Any] | None = None
    """Recipe of the dictionary (`numerics.dictionaries`)."""
    atoms_kept: int | None = None

    def cells_of(self, schema: Schema) -> Domain:
        """The domain."""
        return Domain.from_card(schema, self.domain.model_dump())

    def measured_by(self, card: Card) -> Strategy:
        """What was measured of the counts."""
        if self.sketch is not None:
            return self.sketch.drawn(PublicSeed.given(card.seed.value).value)
        return cast(Strategy, strategies.rebuilt(self.strategy or {}))


@dataclass(frozen=True)
class CountsComparison(Comparison):
    """Counts beside the truth."""

    counts: CountsCheck
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """One table."""
        return (self.counts.section(),)


class Counts(Kind[CountsFacts]):
    """Counted cells."""

    name: ClassVar[str] = "counts"
    facts_type = CountsFacts
    questions: ClassVar[dict[str, str]] = {
        "range": "range",
        "count": "count",
        "marginal": "marginal",
        "workload": "workload",
    }

    def answers(self, content: Content) -> CountedCells:
        """Ranges, counts, marginals, workloads."""
        return CountedCells(content, self.facts(content.card))

    def words(self, facts: CountsFacts) -> CardWords:
        """Domain, strategy, decoder."""
        told: dict[str, Any] = {"domain": facts.domain.told(), "decoder": facts.decoder}
        told |= {} if facts.strategy is None else {"strategy": facts.strategy}
        told |= {} if facts.sketch is None else {"sketch": facts.sketch.told()}
        if facts.frequencies is not None:
            told |= {"frequencies": facts.frequencies, "beyond them": facts.tail, "noise on that": facts.tail_sd}
        told |= {} if facts.atoms_kept is None else {"atoms kept": facts.atoms_kept}
        told |= {} if facts.dictionary is None else {"dictionary": facts.dictionary}
        return CardWords(row="cells", facts=told, row_bound=WHOLE, noise_unit="rows")

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Ranges and cells, fixed by the shape of the domain."""
        no_models(beside, "counted cells")
        beside.progress("reading the truth", 0, 0)
        beside.truth_rows()
        answers = self.answers(content)
        note = "ranges and cells are fixed by the shape of the domain; released rows are its cells"
        found = check_counts(answers.boxes, answers.domain, beside.truth, beside.schema)
        return CountsComparison(found, (note,))

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """The count of a row's own cell, and everything that was measured together."""
        facts, arrays = self.facts(content.card), content.arrays()
        domain = facts.cells_of(sight.schema)
        counts = content.table().to_series(-1).to_numpy().astype(np.float64)
        expected = _histogram(domain, sight.reference) * (sight.rows / max(len(sight.reference), 1))
        surplus = counts - expected
        out: dict[str, View] = {"own cell": functools.partial(_own_cell, domain, surplus)}
        if len(arrays["measured"]) > _MOST_NUMBERS:
            return out
        query = HistogramQuery(domain.groups, facts.measured_by(content.card))
        noise = {facts.part: content.card.noise[facts.line].parts[facts.part]}
        measured = MeasuredSum(query, {facts.part: arrays["measured"]}, noise)
        return out | sum_views([measured], sight.rows, sight.reference)


def _histogram(domain: Domain, rows: Reals) -> Reals:
    cell = domain.groups.of(rows)
    return np.bincount(cell[cell >= 0], minlength=domain.size).astype(np.float64)


def _own_cell(domain: Domain, surplus: Reals, rows: Reals, places: Integers) -> Reals:
    """How many more there are in each row's cell than the population makes one expect; 0 for a row in none."""
    cell = domain.groups.of(rows)
    return np.where(cell >= 0, surplus[cell], 0.0)
