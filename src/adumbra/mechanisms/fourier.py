"""Fourier: the lowest frequencies of the counts, as many as a private choice finds worth their noise (EFPA)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Promise, Relation
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Reference, Setting
from adumbra.families.counting import COUNTS, Counted, comparison, draft_of
from adumbra.families.forecast import forecasts
from adumbra.kinds.counts import CountsFacts, DomainFacts
from adumbra.models.sparse_recovery import Decoded
from adumbra.numerics.strategies import Waves
from adumbra.queries.domain import Domain
from adumbra.queries.histograms import HistogramQuery, TailChoice, TailSize

__all__ = ["Fourier"]

_CHOICE, _TAIL = "choice", "tail"
_SHARES = {_CHOICE: 0.15, _TAIL: 0.05, COUNTS: 0.8}
_SHARES_CHOSEN = {_TAIL: 0.05, COUNTS: 0.95}
_MOST_PRODUCTS = 2**30
"""Coefficients times cells, at most."""
_LARGEST_COST = 2.0**40
"""In rows: scores, in steps of a thousandth, then stay whole numbers in float64."""


@dataclass(frozen=True)
class Fourier(Counted):
    """Parameters, all public.

    * `columns`: the columns whose cells are counted, in all combinations; default: all.
    * `bins`: cells of a number; default: 64, or one for each value of a whole number with at most 4,096.
    * `frequencies`: how many to keep; default: chosen privately, for 15 % of the budget.
    """

    frequencies: int | None = None

    name: ClassVar[str] = "fourier"
    title: ClassVar[str] = "noisy low frequencies of the counts, their number chosen privately"
    releases: ClassVar[str] = "a smooth estimated count for every cell of a domain, and how much the waves leave out"
    suits: ClassVar[str] = "one ordered column whose histogram is smooth, at small epsilon"
    caution: ClassVar[str] = (
        "spikes and steps are smoothed away; the size of what is lost is measured, where it lies is not; delta is 0 "
        "whatever was allowed"
    )
    theorem: ClassVar[str] = (
        "noisy minimum for the number of frequencies, Laplace mechanism on their coefficients (Acs, Castelluccia, Chen "
        "2012, Theorem 1; docs/proofs/strategies.md)"
    )
    differs: ClassVar[str] = (
        "From the paper: the number of frequencies is chosen by noisy minimum instead of the exponential mechanism, "
        "with 15 % of the budget instead of half; 5 % measure what the waves leave out, so that standard errors can "
        "count it. Several columns are taken as one, in the order of their cells."
    )
    deltas: ClassVar[Deltas] = "zero"
    cites: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "Acs, Castelluccia, Chen (2012), Differentially Private Histogram Publishing through Lossy Compression, "
            "ICDM (EFPA)",
            "@inproceedings{acs2012differentially, title={Differentially Private Histogram Publishing through Lossy "
            "Compression}, author={Acs, Gergely and Castelluccia, Claude and Chen, Rui}, booktitle={ICDM}, "
            "year={2012}}",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frequencies is not None:
            at_least(0, "keep none, or some, frequencies", frequencies=self.frequencies)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """All waves of few cells: of eight where a row moves by three of them; of two, where it comes or goes.

        And with the number of waves left to the private choice, in a table that leans to one of two cells: a row that
        leaves it moves the tail, and so a score, by as much as a row can.
        """
        eight, two = ({"bins": bins, "frequencies": bins // 2} for bins in (8, 2))
        given = [
            replace(c, options=eight, other={"a": "4"}, why="a row moves by three cells of eight, seen by all waves")
            if c.neighbours.relation is Relation.REPLACE
            else replace(c, options=eight if c.neighbours.relation is Relation.ZERO_OUT else two)
            for c in super().challenges()
        ]
        low, high = {"a": "0"}, {"a": "7"}
        others = {Relation.REPLACE: high, Relation.ZERO_OUT: emptied(low), Relation.ADD_REMOVE: None}
        chosen = [
            replace(
                c,
                options={"bins": 2},
                shared=(low,) * 300,
                one=low,
                other=others[c.neighbours.relation],
                why="a row leaves the larger of two cells, and the number of waves is chosen",
            )
            for c in given
        ]
        return (*given, *chosen)

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """Choice, tail, coefficients."""
        return _SHARES if self.frequencies is None else _SHARES_CHOSEN

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """With a stand-in for the number of frequencies, which the noise does not depend on."""
        domain = self.domain(setting)
        kept = 0 if self.frequencies is None else self._given(domain)
        choice = {_CHOICE: self._choice(setting, domain)} if self.frequencies is None else {}
        return {**choice, _TAIL: TailSize(domain.groups, kept), COUNTS: self._waves(domain, kept)}

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """Candidates in this `setting`, and what rivals would err by under its `promise` and `noise`."""
        domain = self.domain(setting)
        kept = "chosen privately" if self.frequencies is None else str(self._given(domain))
        return [*self.expected(setting), ("frequencies", kept), *comparison(forecasts(setting, domain), setting)]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Choose, measure, transform back."""
        domain = self.domain(setting)
        if self.frequencies is None:
            choice = self._choice(setting, domain)
            kept = choice.candidates[int(door.measure(_CHOICE, choice).values["choice"][0])]
        else:
            kept = self._given(domain)
        tail = door.measure(_TAIL, TailSize(domain.groups, kept))
        query = self._waves(domain, kept)
        noisy = door.measure(COUNTS, query)
        assert isinstance(query.strategy, Waves)
        facts = CountsFacts(
            domain=DomainFacts(**domain.facts()),
            decoder="linear",
            strategy=query.strategy.recipe(),
            frequencies=kept,
            tail=float(tail.values["tail"][0]),
            tail_sd=tail.sd("tail"),
        )
        return draft_of(domain, facts, Decoded(query.strategy.estimate(noisy.values["measured"])), noisy)

    def _waves(self, domain: Domain, kept: int) -> HistogramQuery:
        return HistogramQuery(domain.groups, Waves(domain.shape, kept))

    def _most(self, domain: Domain) -> int:
        return min(domain.size // 2, max(0, (_MOST_PRODUCTS // domain.size - 1) // 2))

    def _given(self, domain: Domain) -> int:
        assert self.frequencies is not None
        if self.frequencies > self._most(domain):
            raise InputError(
                f"at most {self._most(domain)} frequencies of {domain.size} cells",
                f"frequencies = {self.frequencies}",
                "keep fewer",
            )
        return self.frequencies

    def _choice(self, setting: Setting, domain: Domain) -> TailChoice:
        """All numbers of frequencies while they are few, then in steps of a tenth; the cost is the noise they bring."""
        candidates, kept = [0], 0
        while kept < self._most(domain):
            kept = min(max(kept + 1, math.floor(kept * 1.1)), self._most(domain))
            candidates.append(kept)
        sd = setting.preview(_SHARES[COUNTS], self._waves(domain, 0))
        # coefficients are measured over a divisor, so each gets that times the noise
        waves = [Waves(domain.shape, kept) for kept in candidates]
        costs = tuple(sd * each.divisor * math.sqrt(each.numbers) for each in waves)
        if max(costs) > _LARGEST_COST:
            raise InputError(
                "noise beside which scores can be distinguished",
                f"a cost of {max(costs):.3g} rows",
                "give a larger epsilon",
            )
        return TailChoice(domain.groups, tuple(candidates), costs)
