"""A mechanism and a kind of release as another package would add them: one file, two entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import at_least, settle
from adumbra.compare.comparison import Beside, Comparison, no_models
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import GRID
from adumbra.families.challenge import Challenge
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Reference, Setting
from adumbra.families.row_count import measured_arrays, measured_names
from adumbra.kinds.attack_views import Sight, View, sum_views
from adumbra.kinds.estimates import Estimate
from adumbra.kinds.kind import Content, Kind, KindFacts
from adumbra.queries.sums import Total
from adumbra.releases.card import CardWords
from adumbra.report.document import Section, Table

Reals = NDArray[np.float64]
_LINE = "sums"


class MeansFacts(KindFacts):
    """Facts of means."""

    kind: ClassVar[str] = "means"
    row_aligned: Literal[False] = False
    coordinates: tuple[str, ...]
    standard_error: float


class MeansAnswers:
    """What an analyst may ask."""

    def __init__(self, content: Content, facts: MeansFacts) -> None:
        self._means = dict(zip(facts.coordinates, content.table()["mean"].to_list(), strict=True))
        self._error = facts.standard_error

    def mean(self, column: str) -> Estimate:
        """Of a number, in encoded units."""
        if column not in self._means:
            raise InputError(f"one of {', '.join(self._means)}", f"{column!r}", "ask for one of them")
        return Estimate(self._means[column], self._error)

    def largest(self, top: int = 1, among: tuple[str, ...] = ()) -> list[Estimate]:
        """The `top` largest means, of all or of those `among`: a question that no other kind has."""
        chosen = sorted((self._means[name] for name in among or self._means), reverse=True)
        return [Estimate(value, self._error) for value in chosen[:top]]


@dataclass(frozen=True)
class MeansComparison(Comparison):
    """Means beside the truth."""

    errors: dict[str, float]
    notes: tuple[str, ...] = ("in encoded units",)

    def sections(self) -> tuple[Section, ...]:
        """One table."""
        return (Section("means", (Table(("coordinate", "error"), tuple(self.errors.items())),)),)


class Means(Kind[MeansFacts]):
    """The mean of every coordinate."""

    name: ClassVar[str] = "means"
    facts_type = MeansFacts
    questions: ClassVar[Mapping[str, str]] = {"mean": "mean", "largest": "largest"}

    def answers(self, content: Content) -> MeansAnswers:
        """Means."""
        return MeansAnswers(content, self.facts(content.card))

    def words(self, facts: MeansFacts) -> CardWords:
        """For the card."""
        return CardWords(row="means", facts={"standard error of a mean": facts.standard_error})

    def compare(self, content: Content, beside: Beside) -> Comparison:
        """Mean by mean."""
        no_models(beside, "means")
        total = sum(encoded.sum(axis=0) for encoded in beside.true_rows())
        truth = np.asarray(total) / GRID / beside.truth_rows()
        released = content.table()["mean"].to_numpy()
        names = self.facts(content.card).coordinates
        return MeansComparison(dict(zip(names, np.abs(released - truth).tolist(), strict=True)))

    def views(self, content: Content, sight: Sight) -> dict[str, View]:
        """The sums."""
        return sum_views(sight.measured(), sight.rows, sight.reference)


@dataclass(frozen=True)
class OutsideMeans:
    """Means of all coordinates; `digits` of them are published."""

    digits: int = 9

    name: ClassVar[str] = "outside_means"
    title: ClassVar[str] = "means of all coordinates"
    releases: ClassVar[str] = "one noisy mean for each coordinate"
    suits: ClassVar[str] = "whoever wants means"
    caution: ClassVar[str] = "means and nothing else"
    theorem: ClassVar[str] = "Gaussian mechanism on a sum"
    differs: ClassVar[str] = "This mechanism is our own."
    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace",)
    answers: ClassVar[tuple[str, ...]] = ("mean", "largest")
    deltas: ClassVar[Deltas] = "any"
    cites: ClassVar[tuple[Reference, ...]] = ()

    def __post_init__(self) -> None:
        settle(self)
        at_least(1, "publish some", digits=self.digits)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A number moves across its range."""
        schema = Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}})
        shared = tuple({"a": "0.5"} for _ in range(20))
        ends = ({"a": "0"}, {"a": "1"})
        return (Challenge(Neighbours(Unit.ROW, Relation.REPLACE), schema, *ends, "from end to end", shared),)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One."""
        return {_LINE: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The sums."""
        return {_LINE: Total(setting.space.width)}

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each mean."""
        return setting.space.width, 1

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """Nothing."""
        return []

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure and divide."""
        noisy = door.measure(_LINE, Total(setting.space.width))
        rows = max(setting.rows or 1, 1)
        means = np.round(noisy.values["sums"] / rows, self.digits)
        names = setting.schema.coordinates if setting.schema else [str(i) for i in range(setting.space.width)]
        batches: list[Any] = [means[:, None]]
        return Draft(
            columns=("mean",),
            batches=iter(batches),
            facts=MeansFacts(coordinates=tuple(names), standard_error=noisy.sd("sums") / rows),
            arrays=measured_arrays({_LINE: noisy}),
            measured=measured_names({_LINE: noisy}),
        )
