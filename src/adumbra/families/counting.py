"""What all mechanisms that count the cells of a domain have in common: the domain, and a table of its cells."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adumbra.accounting.events import Event
from adumbra.common.errors import InputError
from adumbra.common.types import Reals
from adumbra.common.validation import at_least, settle
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.schema import Schema
from adumbra.declare.space import Space
from adumbra.families.challenge import Challenge, emptied
from adumbra.families.contract import Deltas, Draft, Measurer, Query, Setting, SumAnswer
from adumbra.families.forecast import Forecast, forecasts, linear_errors
from adumbra.kinds.counts import CountsFacts, DomainFacts
from adumbra.models.columns import parse_label
from adumbra.models.sparse_recovery import Decoded
from adumbra.numerics.strategies import Separable
from adumbra.queries.domain import Domain
from adumbra.queries.histograms import HistogramQuery, Strategy
from adumbra.queries.query import PureNoise

__all__ = [
    "COUNTS",
    "Counted",
    "LeastSquares",
    "OneMeasurement",
    "check_no_row_bound",
    "comparison",
    "domain_of",
    "draft_of",
    "rows_in_cells",
]

COUNTS = "counts"
"""The budget line of the measurement."""
_BATCH = 2**16


def domain_of(setting: Setting, columns: tuple[str, ...], bins: int | None) -> Domain:
    """The domain of these `columns` of the schema of `setting`, or of all where none are named.

    `bins` is the number of cells of a numeric column; None takes the default.
    """
    if setting.schema is None:
        raise ValueError("a domain needs a schema")
    check_no_row_bound(setting.space)
    return Domain.of(setting.schema, setting.space, columns, bins)


def check_no_row_bound(space: Space) -> None:
    """Refuse a row bound where rows are counted."""
    if space.row_bound is not None:
        raise InputError(
            "no row bound: a row that is clipped to a length falls into other cells than its own",
            "a row bound",
            "leave out --row-bound; a row counts once however long it is",
        )


def rows_in_cells(setting: Setting) -> float | None:
    """How many rows the cells of a domain hold together, where that is public: every row is in one of them."""
    return None if setting.rows is None else float(setting.rows)


@dataclass(frozen=True)
class Counted:
    """The columns whose cells are counted (all combinations of them), and the cells of a number."""

    columns: tuple[str, ...] = ()
    bins: int | None = None

    units: ClassVar[tuple[str, ...]] = ("row",)
    relations: ClassVar[tuple[str, ...]] = ("replace", "zero-out", "add-remove")
    answers: ClassVar[tuple[str, ...]] = ("range", "count", "marginal", "workload")
    deltas: ClassVar[Deltas] = "any"
    sets: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self)
        object.__setattr__(self, "columns", parse_label(self.columns, "--columns"))
        if self.bins is not None:
            at_least(1, "give at least one bin", bins=self.bins)

    @classmethod
    def challenges(cls) -> tuple[Challenge, ...]:
        """A row moves from the first cell of a column to the last: no node of a tree but the root holds both."""
        schema = Schema.from_dict({"columns": {"a": {"kind": "number", "low": 0, "high": 7, "integer": True}}})
        shared = tuple({"a": str(i % 8)} for i in range(40))
        one, others = {"a": "7"}, {Relation.REPLACE: {"a": "0"}, Relation.ZERO_OUT: emptied({"a": "7"})}
        whys = {
            Relation.REPLACE: "a row moves from the first cell to the last",
            Relation.ZERO_OUT: "a row in the last cell is emptied, and counts as missing",
            Relation.ADD_REMOVE: "a row in the last cell is there or not",
        }
        return tuple(
            Challenge(Neighbours(Unit.ROW, relation), schema, one, others.get(relation), why, shared, {"bins": 8})
            for relation, why in whys.items()
        )

    def domain(self, setting: Setting) -> Domain:
        """The cells."""
        return domain_of(setting, self.columns, self.bins)

    def size(self, setting: Setting) -> tuple[int, int]:
        """One row for each cell, and what was measured."""
        domain = self.domain(setting)
        return domain.size, 2 * len(domain.shape) + 2

    def expected(self, setting: Setting) -> list[tuple[str, str]]:
        """The first lines of an outlook."""
        domain = self.domain(setting)
        cells = " x ".join(
            f"{column.name} {n}" + ("" if domain.by_value(axis) else " bins") + (" and (missing)" if kept else "")
            for axis, (column, n, kept) in enumerate(
                zip(domain.columns, domain.values, domain.groups.cells.missing, strict=True)
            )
        )
        return [("cells", f"{domain.size}: {cells}")]


class OneMeasurement(Counted):
    """All of the budget on one strategy."""

    @abstractmethod
    def strategy(self, setting: Setting) -> Strategy:
        """What is measured; asked for several times, so kept by those for which making it takes long."""

    @abstractmethod
    def decoded(self, noisy: SumAnswer, setting: Setting) -> Decoded:
        """The counts."""

    @abstractmethod
    def facts(self, setting: Setting, decoded: Decoded) -> CountsFacts:
        """What was measured, and how the counts follow from it."""

    def law(self, setting: Setting) -> PureNoise:
        """Noise where the promise is pure epsilon."""
        return "laplace"

    def lines(self, setting: Setting) -> Mapping[str, float]:
        """One measurement."""
        return {COUNTS: 1.0}

    def queries(self, setting: Setting) -> Mapping[str, Query]:
        """The strategy, on the counts of the domain."""
        return {COUNTS: self._query(setting)}

    def _query(self, setting: Setting) -> HistogramQuery:
        return HistogramQuery(self.domain(setting).groups, self.strategy(setting), self.law(setting))

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """What every rival would err by in this `setting`; `promise` and `noise` are in its preview already."""
        found = forecasts(setting, self.domain(setting), getattr(self, "atoms", None))
        return [*self.expected(setting), *comparison(found, setting)]

    def run(self, door: Measurer, setting: Setting) -> Draft:
        """Measure, decode, list the cells."""
        noisy = door.measure(COUNTS, self._query(setting))
        decoded = self.decoded(noisy, setting)
        return draft_of(self.domain(setting), self.facts(setting, decoded), decoded, noisy)


class LeastSquares(OneMeasurement):
    """A strategy whose least-squares estimate is the answer, so that its error is known beforehand for every table."""

    @abstractmethod
    def strategy(self, setting: Setting) -> Separable:
        """What is measured."""

    def decoded(self, noisy: SumAnswer, setting: Setting) -> Decoded:
        """Least squares."""
        strategy = self.strategy(setting)
        counts = strategy.estimate(noisy.values["measured"])
        return Decoded(counts)

    def facts(self, setting: Setting, decoded: Decoded) -> CountsFacts:
        """The strategy, decoded by least squares."""
        recipe = self.strategy(setting).recipe()
        return CountsFacts(domain=DomainFacts(**self.domain(setting).facts()), decoder="linear", strategy=recipe)

    def outlook(self, setting: Setting, promise: Promise, noise: Mapping[str, Event]) -> list[tuple[str, str]]:
        """The error in this `setting` with this `noise`, and what every rival would err by under the same `promise`."""
        first, *others = super().outlook(setting, promise, noise)
        strategy = self.strategy(setting)
        far, near = linear_errors(strategy, noise[COUNTS].sd, self.domain(setting).apart)
        own = f"a range {far:.4g}, a cell {near:.4g}; {strategy.numbers} noisy numbers"
        return [first, ("error as planned", own), *others]


def comparison(found: list[Forecast], setting: Setting) -> list[tuple[str, str]]:
    """Lines for a plan: errors of a random range and of a cell, in rows."""
    rows = setting.rows
    return [
        (
            f"error with {each.mechanism}",
            f"a range {each.ranges:.4g}"
            + (f" ({each.ranges / rows:.2%} of rows)" if rows else "")
            + f", a cell {each.cells:.4g}; {each.numbers} noisy numbers"
            + (f"; if {each.given}" if each.given else ""),
        )
        for each in found
    ] + [("least error, whatever the table", _recommended(found))]


def _recommended(found: list[Forecast]) -> str:
    safe = [each for each in found if not each.given]
    ranges, cells = min(safe, key=lambda each: each.ranges), min(safe, key=lambda each: each.cells)
    return f"{ranges.mechanism} for ranges, {cells.mechanism} for single cells"


def draft_of(domain: Domain, facts: CountsFacts, decoded: Decoded, noisy: SumAnswer) -> Draft:
    """The table of the cells of a `domain` with their counts as `decoded`, its `facts`, and the `noisy` numbers."""
    names, cells, words = domain.listed()
    count = "count"
    while count in names:
        count += "_"
    return Draft(
        columns=(*names, count),
        batches=_batches(cells, decoded.counts),
        facts=facts,
        arrays={"measured": noisy.values["measured"], **decoded.arrays},
        measured={COUNTS: {"measured": "measured"}},
        answers=Counted.answers,
        words=words,
    )


def _batches(cells: Reals, counts: Reals) -> Iterator[Reals]:
    for start in range(0, max(len(counts), 1), _BATCH):
        part = slice(start, start + _BATCH)
        yield np.column_stack([cells[part], counts[part]])
