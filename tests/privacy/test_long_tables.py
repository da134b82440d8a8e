"""Sums stay exact however long a table is, and no table that exists is refused for its length.

Under add-remove a refusal that depends on the number of rows is one that a single person can decide. So totals leave
float64 before they could round, and meet their noise in 64-bit integers.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import CATEGORY_STEPS, EXACT, HALF, WHOLE
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.noise import add as noise
from adumbra.noise.l2_laplace import L2Sampler
from adumbra.noise.lattice import Sampler
from adumbra.privacy import meter
from adumbra.privacy.engine import LocalThreads, Totals
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.cells import Cells, Groups
from adumbra.queries.histograms import HistogramQuery, TailChoice, TailSize
from adumbra.queries.item_totals import ItemsQuery
from adumbra.queries.joint_tables import JointTablesQuery, TableDistances
from adumbra.queries.row_map import RowClip
from adumbra.queries.second_moment import Gram, GramTimes, MomentsQuery
from adumbra.queries.sums import CentreScale, Count, Sum, Total
from tests.numerics.test_strategies import KINDS, domain
from tests.queries.test_joint_tables import every, joint
from tests.queries.test_sums import SUMS, bounded, raw_rows, space_of

MANY = 2**28
"""No question refuses a table of so many rows (268 million)."""
FARTHEST = RowClip(4 * CATEGORY_STEPS, np.full(2, -CATEGORY_STEPS))
"""A clip in which one row adds as much to a second moment as in any."""


def plain_total(query, rows):
    return query.finalize(query.partial(np.asarray(rows, dtype=float)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", list(SUMS))
def test_a_total_of_many_partials_is_the_total(name, threads, monkeypatch):
    """Whatever is added up, by however many workers, and wherever a partial total is full."""
    query, space = SUMS[name]
    rows = bounded(raw_rows(space, 101, np.random.default_rng(6)), space)
    wanted = plain_total(query, rows)
    monkeypatch.setenv("ADUMBRA_THREADS", str(threads))
    for most in (1, 7, 40, 100, 101):
        monkeypatch.setattr(type(query), "exact_rows", most)
        found = query.finalize(
            meter._total(PrivateRows(space, 101, lambda: iter(np.split(rows, [13, 14]))), query, LocalThreads())
        )
        for part in query.parts:
            assert np.array_equal(found[part.name], wanted[part.name]), (part.name, most)
            assert (found[part.name].dtype == np.int64) == (most < 101)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_moment_beyond_2_to_the_53_is_exact(workers):
    """A million rows as far out as rows can be: the last bits, which float64 would round away, are there.

    With two workers neither of them is full: what is too much is both together.
    """
    one, two = (float(CATEGORY_STEPS), 0.0), (float(CATEGORY_STEPS) - 1, 1.0)
    query = Gram(2, clip=FARTHEST)
    count = query.exact_rows + 100
    each = count // 2 - 1 + (count - count // 2) % 2  # an odd number of rows with an odd square is left
    totals = Totals(query, 2)
    batches = [np.tile(one, (each, 1)), np.tile(two, (count - each, 1))]
    if workers == 1:
        for batch in batches:
            totals.add(batch)
    else:
        first = totals._idle.pop()
        totals.add(batches[0])
        second = totals._idle.pop()
        totals._idle.append(first)
        totals.add(batches[1])
        totals._idle.append(second)
    found = query.finalize(totals.found())
    (a, b), (c, d) = ([int(x) + CATEGORY_STEPS for x in row] for row in (one, two))
    exact = [each * a * a + (count - each) * c * c, each * a * b + (count - each) * c * d]
    assert exact[0] > 2**53 and exact[0] % 2 == 1  # so no float64 holds it
    assert [int(found["diagonal"][0]), int(found["upper"][0])] == exact


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("draw", [-3, 1, 2**40 + 1])
def test_noise_meets_a_long_sum_in_integers(sign, draw, monkeypatch):
    """2^53 + 1 is no float64, 2^53 + 2 is: a sum of rounded numbers would be another."""

    def drawn(self, *given):
        given[-1][...] = draw

    monkeypatch.setattr(Sampler, "draw", drawn)
    monkeypatch.setattr(L2Sampler, "draw", drawn)
    exact = sign * np.array([[2**53 + 1, 2**54 + 3, 2**60 - 1, WHOLE - 2**42]])
    wanted = [float(int(v) + draw) / 8 for v in exact[0]]
    assert noise.add_noise("gaussian", exact, 1e3, 1 / 8)[0].tolist() == wanted
    assert noise.add_noise("laplace", exact, 1e3, 1 / 8)[0].tolist() == wanted
    assert noise.add_l2_noise([(exact, 1e3, 1 / 8)])[0][0].tolist() == wanted
    assert noise.add_l2_noise_by_row(exact, 1e3, 1 / 8)[0].tolist() == wanted


def test_the_door_publishes_a_sum_beyond_2_to_the_53(monkeypatch):
    """All the way: rows that are added up in partial totals, integers, noise."""
    space = space_of("number", "number")
    query = Gram(2)
    monkeypatch.setattr(Gram, "exact_rows", 10)
    heard = []
    real = noise.add_noise

    def hear(law, exact, t, step, **kw):
        heard.append(exact)
        return real(law, exact, t, step, **kw)

    monkeypatch.setattr(noise, "add_noise", hear)
    rows = np.random.default_rng(1).integers(-HALF, HALF + 1, (41, 2)).astype(float)
    promise = Promise(1.0, 1e-6, Neighbours(Unit.ROW, Relation.ADD_REMOVE))
    door = meter.Meter(PrivateRows(space, 41, lambda: iter([rows])), promise, {"a": 1.0}, lambda *_: None)
    door.measure("a", query)
    assert [part.dtype for part in heard] == [np.int64, np.int64]
    assert heard[0].tolist() == np.square(rows).sum(axis=0).tolist()


def questions():
    """One of every kind, as far out as each can be."""
    blocks = space_of("number", "category:3")
    groups = Groups(Cells.even(blocks.blocks, 2))
    yield from (query for query, _ in SUMS.values())
    yield from (HistogramQuery(domain(24)[0], KINDS[name]((3, 2, 4))) for name in KINDS)
    yield from (Gram(2, clip=FARTHEST), Gram(2, Groups(Cells.even(blocks.blocks[1:], 1)), clip=FARTHEST))
    yield from (GramTimes.of(np.eye(2)[:, :1], FARTHEST), Count(), Total(4), CentreScale(blocks.blocks))
    yield ItemsQuery(blocks.blocks[1])
    yield from (TailSize(groups, 1), TailChoice(groups, (0, 1), (0.0, 1.0)))
    yield from (every(), every(Relation.ADD_REMOVE), every(centred=False))
    yield JointTablesQuery(joint(), ((0, 5),), np.ones(1), Relation.ADD_REMOVE)
    yield TableDistances(joint(), ((0, 1),), (np.ones((3, 3)),))


def test_no_question_refuses_a_table_that_exists():
    kinds = set()
    for query in questions():
        kinds.add(type(query))
        assert query.most_rows >= MANY - 1, query.describe()
        meter.check_countable(query, MANY - 1)
        with pytest.raises(InputError, match=f"at most {query.most_rows:,} rows"):
            meter.check_countable(query, query.most_rows + 1)
        if query.linear:  # and what is let in stays within what noise can be added to
            assert query.most_rows * max(part.largest for part in query.parts) < WHOLE
            assert (
                isinstance(query, HistogramQuery | JointTablesQuery)
                or query.exact_rows * max(part.largest for part in query.parts) < EXACT
            )
    every = {
        kind for kind in _below(Sum) if kind.__module__.startswith("adumbra.") and not kind.__name__.startswith("_")
    }
    assert kinds >= every, "a new kind of question: is it exact for long tables?"
    assert MomentsQuery in kinds


def _below(kind):
    for own in kind.__subclasses__():
        yield own
        yield from _below(own)


SUMMED = [name for name, cls in catalogue().items() if "add-remove" in cls.relations]
OPTIONS = {"lip": {"centred": "yes"}, "analyze_gauss": {"centred": "yes"}, "power_method": {}}


@pytest.mark.parametrize("name", SUMMED)
def test_a_plan_under_add_remove_does_not_depend_on_the_number_of_rows(name):
    """While sums had to stay below 2^53, some were refused from 1,048,619 rows on."""
    columns = {"a": {"kind": "number", "low": 0, "high": 1}, "b": {"kind": "category", "values": ["x", "y"]}}
    columns |= {f"c{i}": {"kind": "number", "low": 0, "high": 1} for i in range(30)}
    schema = ad.Schema.from_dict({"columns": columns})
    if "columns" in {field.name for field in dataclasses.fields(catalogue()[name])}:
        options = {"columns": ("b",) if name == "items" else ("a", "b"), **OPTIONS.get(name, {})}
    else:
        options = OPTIONS.get(name, {})
    deltas = getattr(catalogue()[name], "deltas", "any")
    budget = ad.Budget(1.0, 0.0 if deltas == "zero" else 1e-6, Unit.ROW, Relation.ADD_REMOVE)
    plans, bound = [], 2.5 if name in OPTIONS else None  # rows so long that a second moment grows as fast as it can
    for count in (3, 9_000_000):
        frame = pl.DataFrame({key: pl.repeat(None, count, dtype=pl.Null, eager=True) for key in columns})
        plans.append(
            ad.plan(frame, schema, build(name, options), budget, seed=ad.PublicSeed.given("long"), row_bound=bound)
        )
    one, two = ({line: c.event for line, c in plan.calibrations.items()} for plan in plans)
    assert one == two and plans[0].costs == plans[1].costs
