"""Counts of the values of a set column: in how many rows each is, and the noise they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.compare.counts_fit import CountsCheck, counts_fit
from adumbra.counting.tail_bounds import checked_mu, gaussian_eta, laplace_eta
from adumbra.declare.schema import Schema
from adumbra.declare.spelling import place
from adumbra.kinds.attack_views import MeasuredSum, Sight, View, sum_views
from adumbra.kinds.estimates import CountEstimate
from adumbra.kinds.kind import WHOLE, Content, Kind, KindFacts
from adumbra.queries.item_totals import ItemsQuery
from adumbra.releases.card import CardWords
from adumbra.report.document import Section
from adumbra.tables.row_source import RowSource

__all__ = ["ITEMS", "ItemAnswers", "ItemCounts", "ItemCountsComparison", "ItemCountsFacts"]

ITEMS = "items"
"""The budget line of the measurement, and its part."""


class ItemCountsFacts(KindFacts):
    """Facts of counted items."""

    kind: ClassVar[str] = "item_counts"
    row_aligned: Literal[False] = False
    column: str
    items: int
    """How many values were counted."""
    most: int
    """How many of them one row can have."""

    def query(self, schema: Schema) -> ItemsQuery:
        """What was measured."""
        return ItemsQuery(next(block for block in schema.space().blocks if block.column == self.column))


class ItemAnswers:
    """The analyst's view: counts of single items, and the largest of them."""

    def __init__(self, content: Content, facts: ItemCountsFacts) -> None:
        card = content.card
        self._column = facts.column
        self._values = Schema.from_dict(card.table_schema).column(facts.column).values
        self._counts: Reals = content.table().to_series(-1).to_numpy().astype(np.float64)
        self._noise = card.noise[ITEMS]
        if self._counts.shape != (len(self._values),):
            raise ValueError("other items than the card says")

    def count(self, column: str, value: Any, where: Mapping[str, Any] | None = None, mu: float = 0.05) -> CountEstimate:
        """Rows whose set holds this `value` of the `column`; off by more than eta with probability `mu`.

        Only single items were counted, so that `where` must be empty.
        """
        if column != self._column:
            raise InputError("the column that was counted", repr(column), f"use {self._column}")
        if where:
            raise InputError("one item", "further conditions", "leave them out: items were counted one by one")
        found = place(str(value), self._values)
        if found is None:
            raise InputError(f"one of the declared values of {column}", f"{value!r}", "see the schema on the card")
        return CountEstimate(float(self._counts[found]), self._sd, checked_mu(mu), self._eta(mu), "proved")

    def top(self, k: int = 10, mu: float = 0.05) -> pl.DataFrame:
        """The `k` largest counts: the item, value, standard_error, mu, eta, basis; each off by more with chance `mu`.

        The largest of many noisy counts are too large on average, by less than one standard error where counts lie
        further apart than that.
        """
        at_least(1, "ask for at least one item", k=k)
        order = np.argsort(-self._counts, kind="stable")[:k]
        return pl.DataFrame(
            {
                self._column: [self._values[i] for i in order],
                "value": self._counts[order],
                "standard_error": np.full(len(order), self._sd),
                "mu": np.full(len(order), checked_mu(mu)),
                "eta": np.full(len(order), self._eta(mu)),
                "basis": ["proved"] * len(order),
            }
        )

    def every(self, mu: float) -> pl.DataFrame:
        """All counts, in the order of the values."""
        return pl.DataFrame(
            {
                "value": self._counts,
                "standard_error": np.full(len(self._counts), self._sd),
                "eta": np.full(len(self._counts), self._eta(mu)),
            }
        )

    @property
    def _sd(self) -> float:
        return self._noise.parts[ITEMS]

    def _eta(self, mu: float) -> float:
        one, noise = np.ones(1), self._noise
        if noise.law == "gaussian":
            return float(gaussian_eta(one, noise.scale, noise.grid_step, mu)[0])
        return float(laplace_eta(one, one, noise.scale, noise.grid_step, mu)[0])


@dataclass(frozen=True)
class ItemCountsComparison(Comparison):
    """Counted items beside the truth."""

    counts: CountsCheck
    notes: tuple[str, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """One table."""
        return (self.counts.section(),)


class ItemCounts(Kind[ItemCountsFacts]):
    """Counted items."""

    name: ClassVar[str] = "item_counts"
    facts_type = ItemCountsFacts
    questions: ClassVar[dict[str, str]] = {"count": "count", "top": "top"}

    def answers(self, content: Content) -> ItemAnswers:
        """Single items, and the largest counts."""
        return ItemAnswers(content, self.facts(content.card))

    def words(self, facts: ItemCountsFacts) -> CardWords:
        """What was counted."""
        told = {"column": facts.column, "items": facts.items, "of one row at most": facts.most}
        return CardWords(row="items", facts=told, row_bound=WHOLE, noise_unit="rows")

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Every count, beside those of the true rows."""
        no_models(beside, "counted items")
        beside.progress("reading the truth", 0, 0)
        beside.truth_rows()
        query = self.facts(content.card).query(beside.schema)
        truth = np.zeros(query.block.width)
        for rows in RowSource(beside.schema, beside.truth).partitions():
            truth += query.answer(rows)[ITEMS] * query.parts[0].step
        mu = 0.05
        found = counts_fit("items", self.answers(content).every(mu), truth)
        return ItemCountsComparison(CountsCheck(len(truth), mu, (found,)), ("released rows are items",))

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """Everything that was measured together."""
        noise = {ITEMS: content.card.noise[ITEMS].parts[ITEMS]}
        seen = {ITEMS: content.arrays()["measured"]}
        measured = MeasuredSum(self.facts(content.card).query(sight.schema), seen, noise)
        return sum_views([measured], sight.rows, sight.reference)
