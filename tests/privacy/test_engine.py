"""Engines: what a partition gives can be pickled and sent away, and any engine finds the same exact totals."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra import pipeline
from adumbra.common.errors import InputError
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.declare.space import HALF
from adumbra.families.contract import Chooser
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.noise import add as noise
from adumbra.privacy import meter
from adumbra.privacy.engine import LocalThreads, RowPartial, SumPartial, merged
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.queries.row_map import RowClip, RowMap
from adumbra.queries.second_moment import RowsAndGram
from adumbra.request import Request
from adumbra.tables.read import open_table
from tests.mechanisms import test_synthetic
from tests.queries.plain import answered_plainly
from tests.queries.test_sums import SUMS, bounded, map_of, raw_rows, space_of

REPLACE = Neighbours.parse("row/replace")


class Pickling:
    """An engine from outside the package: each partial goes through a pickle; partitions of a sum in reverse order."""

    def map(self, partial, finish, partitions):
        for partition in partitions:
            yield finish(sent(partial)(sent(partition)))

    def fold(self, partial, partitions):
        found = [sent(partial)(partition) for partition in partitions]
        return functools.reduce(merged, reversed(found), partial.nothing())


class Processes(Pickling):
    """Two processes; noise is drawn here."""

    def __init__(self, pool):
        self._pool = pool

    def map(self, partial, finish, partitions):
        return map(finish, self._pool.map(partial, partitions))

    def fold(self, partial, partitions):
        return functools.reduce(merged, self._pool.map(partial, partitions), partial.nothing())


class Forgetful(LocalThreads):
    """Leaves out partitions."""

    def map(self, partial, finish, partitions):
        return super().map(partial, finish, list(partitions)[:-1])

    def fold(self, partial, partitions):
        return super().fold(partial, iter([next(iter(partitions))]))


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield Processes(pool)


def sent(thing):
    """What arrives elsewhere."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own


def private(rows, space):
    return PrivateRows(space, len(rows), lambda: iter(np.array_split(rows, 4)))


def engines(request, name):
    return {"pickling": Pickling, "threads": LocalThreads, "processes": lambda: request.getfixturevalue("processes")}[
        name
    ]()


@pytest.mark.parametrize("engine", ["pickling", "processes", "threads"])
def test_every_engine_finds_the_same_exact_totals(engine, request, monkeypatch):
    monkeypatch.setenv("ADUMBRA_THREADS", "3")
    made = engines(request, engine)
    for name, (query, space) in SUMS.items():
        rows = bounded(raw_rows(space, 61, np.random.default_rng(4)), space)
        found = query.finalize(meter._total(private(rows, space), query, made))
        for part, value in answered_plainly(query, rows).items():
            assert found[part].astype(np.int64).tolist() == value.astype(np.int64).tolist(), (name, part)


@pytest.mark.parametrize("engine", ["pickling", "processes"])
def test_rows_come_in_order_and_noise_is_drawn_in_this_process(engine, request, monkeypatch):
    space, heard = space_of("number", "number", "number"), []

    def silent(law, exact, t, step, **_):
        heard.append(exact)
        return np.asarray(exact, dtype=float) * step

    monkeypatch.setattr(noise, "add_noise", silent)
    rows = raw_rows(space, 50, np.random.default_rng(2))
    query = RowsAndGram(map_of("identity", space, 3), 1.0)
    promise = Promise(1.0, 1e-6, REPLACE)
    noisy = Meter(private(rows, space), promise, {"a": 1.0}, lambda *_: None, engines(request, engine)).measure(
        "a", query
    )
    seen = np.concatenate(list(noisy.rows.batches))
    assert np.array_equal(seen, query.map.mapped(rows) * query.map.answer_step)
    assert len(heard) == 2 + 4  # diagonal and upper triangle once, rows partition by partition


@pytest.mark.parametrize("query", [RowMap(np.eye(2, dtype=np.int64), 1.0), SUMS["gram, mixed"][0]], ids=["rows", "sum"])
def test_an_engine_that_does_not_read_all_rows_is_found_out(query):
    space = space_of("number", "number") if isinstance(query, RowMap) else SUMS["gram, mixed"][1]
    rows = bounded(raw_rows(space, 12, np.random.default_rng(3)), space)
    door = Meter(private(rows, space), Promise(1.0, 1e-6, REPLACE), {"a": 1.0}, lambda *_: None, Forgetful())
    with pytest.raises((InputError, RuntimeError), match="row"):
        list(getattr(door.measure("a", query), "batches", ()))


class Exact(LocalThreads):
    """Hands rows back without their noise."""

    def map(self, partial, finish, partitions):
        return map(partial, partitions)


class Copying(LocalThreads):
    """Adds noise once, and hands the same noisy rows back for two partitions."""

    def map(self, partial, finish, partitions):
        first, *rest = partitions
        noisy = finish(partial(first))
        return iter([noisy] * (1 + len(rest)))


class Retrying(LocalThreads):
    """Works on a partition again after a worker was lost, and counts both."""

    def map(self, partial, finish, partitions):
        for partition in partitions:
            yield finish(partial(partition))
            yield finish(partial(partition))

    def fold(self, partial, partitions):
        total = partial.nothing()
        for partition in partitions:
            total = merged(merged(total, partial(partition)), partial(partition))
        return total


class Broken(LocalThreads):
    """Says what it met."""

    def map(self, partial, finish, partitions):
        raise ValueError(f"a worker died at {next(iter(partitions)).tolist()}")

    fold = map


ROWS_QUERY, SUM_QUERY = RowMap(np.eye(2, dtype=np.int64), 1.0), SUMS["gram, mixed"][0]


@pytest.mark.parametrize(
    ("engine", "query"),
    [(Exact, ROWS_QUERY), (Copying, ROWS_QUERY), (Retrying, ROWS_QUERY), (Retrying, SUM_QUERY), (Broken, ROWS_QUERY)],
    ids=["exact-rows", "copied-rows", "rows-twice", "sum-twice", "broken"],
)
def test_an_engine_that_leaves_out_noise_or_counts_rows_twice_is_refused(engine, query):
    space = space_of("number", "number") if query is ROWS_QUERY else SUMS["gram, mixed"][1]
    rows = bounded(raw_rows(space, 12, np.random.default_rng(3)), space)
    door = Meter(private(rows, space), Promise(1.0, 1e-6, REPLACE), {"a": 1.0}, lambda *_: None, engine())
    seen = 0
    with pytest.raises(InputError, match="an engine that works on every row once") as refused:
        for batch in getattr(door.measure("a", query), "batches", ()):
            seen += len(batch)
    assert seen <= len(rows) and (seen == 0 or engine is not Exact)
    assert "died" not in str(refused.value)


@pytest.mark.parametrize("mechanism", ["dppro", "histogram"])
@pytest.mark.parametrize("engine", [Exact, Retrying, Broken])
def test_an_engine_that_does_not_work_is_found_out_before_the_charge(engine, mechanism, tmp_path):
    table = pl.DataFrame({"age": [10, 20, 30, 40] * 5})
    schema = {"columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
    ledger = ad.Ledger(tmp_path / "l.db")
    if engine is Exact and mechanism == "histogram":
        pytest.skip("a sum gets its noise in the meter")
    with pytest.raises(InputError, match="an engine that works on every row once"):
        ad.release(table, schema, mechanism, 1.0, ledger=ledger, engine=engine())
    assert not ledger.exists() or ledger.entries() == []


class Unreliable(LocalThreads):
    """Works until it is needed."""

    def __init__(self):
        self.calls = 0

    def fold(self, partial, partitions):
        self.calls += 1
        if self.calls > 1:
            raise ValueError("a worker died at age 40")
        return super().fold(partial, partitions)


def test_an_engine_that_fails_after_the_charge_says_so_and_quotes_nothing(tmp_path):
    table = pl.DataFrame({"age": [10, 20, 30, 40] * 5})
    schema = {"columns": {"age": {"kind": "number", "low": 0, "high": 110}}}
    ledger = ad.Ledger(tmp_path / "l.db")
    with pytest.raises(ad.AfterCharge, match="the charge stays") as failed:
        ad.release(table, schema, "histogram", 1.0, ledger=ledger, engine=Unreliable())
    assert "40" not in str(failed.value) and len(ledger.entries()) == 1


@pytest.mark.parametrize("engine", ["pickling", "processes"])
def test_rows_that_break_their_bound_are_refused_wherever_they_are_worked_on(engine, request):
    query, space = SUMS["gram, mixed"]
    rows = np.full((8, space.width), HALF + 1.0)
    with pytest.raises(RuntimeError, match="at the door"):
        meter._total(private(rows, space), query, engines(request, engine))


def test_partial_results_of_two_queries_are_not_added_up():
    with pytest.raises(RuntimeError, match="two different queries"):
        merged({"a": np.zeros(2)}, {"a": np.zeros(3)})


def jobs():
    """A release of every mechanism, of every kind of promise that it makes."""
    kept = ["age", "smoker", "ward", "ill"]
    table = test_synthetic.mixed(40, seed=5).select(kept)
    schema = ad.Schema.from_dict({"columns": {name: test_synthetic.MIXED["columns"][name] for name in kept}})
    for name in catalogue():
        mechanism = build(name, {})
        deltas = (1e-6,) if isinstance(mechanism, Chooser) or mechanism.deltas == "positive" else (1e-6, 0.0)
        for delta in deltas:
            for unit in ("row",) if isinstance(mechanism, Chooser) else mechanism.units:
                budget = ad.Budget(1.0, delta, ad.Unit(unit), ad.Relation.REPLACE)
                yield name, pipeline.prepare(Request(open_table(table), schema, mechanism, budget, name="t"))


def test_what_a_partition_gives_can_be_pickled_for_all_queries_of_all_mechanisms():
    seen = set()
    for name, job in jobs():
        rows = np.zeros((3, job.space.width))
        for query in job.mechanism.queries(job.setting).values():
            if query.per_row is not None:
                partial = RowPartial(query.per_row, job.space)
                assert np.array_equal(sent(partial)(rows), partial(rows)), name
            if query.summed is not None:
                summed = SumPartial(query.summed, job.space)
                again, here = sent(summed)(rows), summed(rows)
                assert again.keys() == here.keys() and all(np.array_equal(again[k], here[k]) for k in here), name
            assert query.readings == (query.per_row is not None) + (query.summed is not None)
            seen.add(name)
    assert seen >= set(catalogue()) - {"auto", "histogram"}


def test_a_release_takes_an_engine():
    table = pl.DataFrame({"a": [0.1, 0.5, 0.9], "b": [0.3, 0.2, 0.8]})
    schema = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": 0, "high": 1} for c in "ab"}})
    used = []

    class Counting(LocalThreads):
        def fold(self, partial, partitions):
            used.append(partial.query.describe())
            return super().fold(partial, partitions)

    ad.release(table, schema, ad.AnalyzeGauss(), ad.Budget(1.0, 1e-6), engine=Counting())
    assert used == ["second moment of 2 coordinates"] * 2  # the made-up table first: it fails there, if at all


def test_a_clip_needs_no_more_than_its_numbers_to_be_sent():
    clip = RowClip(5, np.array([1, 2]))
    rows = np.array([[30.0, 40.0], [1.0, 2.0]])
    assert np.array_equal(sent(clip).of(rows), clip.of(rows))
