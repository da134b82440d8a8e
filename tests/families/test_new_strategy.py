"""A strategy for histograms that is added from outside the package: the strategy, its bound, and nothing else.

Forecasts, the rule that chooses, the meter and the analyst's answers find it; without its bound nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.families.counting import LeastSquares
from adumbra.families.forecast import forecasts
from adumbra.mechanisms import catalogue
from adumbra.mechanisms.laplace import Laplace
from adumbra.numerics import strategy_base
from adumbra.numerics.strategy_base import Separable, rebuilt
from adumbra.pipeline import prepare
from adumbra.privacy import strategy_sensitivity
from adumbra.privacy.strategy_sensitivity import Moves, add_bound
from adumbra.request import Request
from adumbra.tables.read import open_table
from tests.families.test_forecast import domain_of, table_of
from tests.numerics.test_strategies import columns


def made():
    """Every count twice; the estimate is their mean."""

    @dataclass(frozen=True, eq=False)
    class Twice(Separable):
        kind: ClassVar[str] = "twice"
        mechanism: ClassVar[str] = "twice"
        shape: tuple[int, ...]

        @classmethod
        def candidates(cls, shape, plain, apart=()) -> Sequence[Self]:
            return (cls(shape),)

        def measured_along(self, axis):
            return 2 * self.shape[axis]

        def _forward(self, values, axis):
            return np.concatenate([values, values], axis=-1)

        def _backward(self, values, axis):
            return (values[..., : self.shape[axis]] + values[..., self.shape[axis] :]) / 2.0

        def axis_dual(self, weights, axis):
            return np.concatenate([weights, weights], axis=-1) / 2.0

        def describe(self):
            return "counts, twice"

    return Twice


def bound(strategy) -> Moves:
    """A row counts in 2^axes numbers; two rows in no number together."""
    entries = 2.0 ** len(strategy.shape)
    return Moves(entries, math.sqrt(entries), 2 * entries, math.sqrt(2 * entries))


def offered(strategy):
    """The mechanism that measures it: that of the plain counts, with this strategy."""

    @dataclass(frozen=True)
    class TwiceCounts(LeastSquares):
        name: ClassVar[str] = "twice"
        title: ClassVar[str] = "counts, twice"
        releases: ClassVar[str] = Laplace.releases
        suits: ClassVar[str] = Laplace.suits
        caution: ClassVar[str] = Laplace.caution
        theorem: ClassVar[str] = Laplace.theorem
        differs: ClassVar[str] = Laplace.differs
        cites: ClassVar[tuple[object, ...]] = Laplace.cites

        def strategy(self, setting):
            return strategy(self.domain(setting).shape)

    return TwiceCounts


@pytest.fixture
def twice():
    """The strategy, for one test."""
    strategy = made()
    yield strategy
    strategy_base.STRATEGIES.pop("twice", None)
    strategy_sensitivity._KNOWN.pop(strategy, None)


def job(mechanism, delta=0.0):
    frame, schema = table_of((8,))
    return prepare(Request(open_table(frame), schema, mechanism, ad.Budget(1.0, delta)))


def test_without_a_bound_nothing_is_measured(twice):
    with pytest.raises(TypeError, match="no bound is known for Twice"):
        ad.plan(*table_of((8,)), offered(twice)(), ad.Budget(1.0, 0.0))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_is_forecast_released_and_answered(twice, delta):
    add_bound(twice, bound)
    laplace = job(Laplace(), delta)
    found = {f.mechanism: f for f in forecasts(laplace.setting, domain_of(laplace))}
    # two numbers for each count: twice the L1 norm and sqrt(2) of the L2 norm, of which the mean takes sqrt(2) away
    assert found["twice"].ranges == pytest.approx(
        found["laplace"].ranges * (math.sqrt(2) if delta == 0 else 1), rel=1e-6
    )
    frame, schema = table_of((8,), rows=200)
    done = ad.release(frame, schema, offered(twice)(), ad.Budget(50.0, delta))
    answer = done.range("c0", 0, 3)
    assert abs(answer.value - frame.filter(pl.col("c0") <= 3).height) <= 8 * answer.standard_error


def test_the_rule_that_chooses_considers_it(twice, monkeypatch):
    add_bound(twice, lambda strategy: Moves(1e-3, 1e-3, 1e-3, 1e-3))  # as if it cost next to nothing
    offer = offered(twice)
    found = dict(catalogue.catalogue()) | {"twice": offer}
    monkeypatch.setattr(catalogue, "catalogue", lambda: found)
    monkeypatch.setattr("adumbra.mechanisms.histogram.catalogue", lambda: found)
    assert isinstance(job(ad.Histogram()).mechanism, offer)


def test_its_bound_is_reached_and_its_recipe_makes_it_again(twice):
    add_bound(twice, bound)
    strategy = twice((3, 2))
    whole = columns(strategy)
    assert np.abs(whole).sum(axis=1).max() == pytest.approx(bound(strategy).one_l1)
    assert type(rebuilt(strategy.recipe())) is twice and rebuilt(strategy.recipe()).shape == (3, 2)
    with pytest.raises(ValueError, match="already"):
        add_bound(twice, bound)
