"""Pairs after the charge: whatever noisy numbers come, each measurement is the one planned, and a table comes out."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest

import adumbra as ad
from adumbra.common.randomness import PublicSeed
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.families.contract import Setting
from adumbra.mechanisms import pairs
from adumbra.mechanisms.pairs import Pairs
from adumbra.models.chained_regressions import WantedTable, fit_chain
from adumbra.privacy.meter import calibrated, check_countable
from adumbra.privacy.preview import NoisePreview
from adumbra.queries.query import SumAnswer

NUMBER, FLAG = {"kind": "number", "low": 0, "high": 1}, {"kind": "flag"}
NAMED = {"kind": "category", "values": list("abcde")}
ONLY = {"kind": "category", "values": ["x"], "missing": "x"}
SCHEMAS = {
    "one column": [NUMBER],
    "one value": [ONLY],
    "a label of one value": [{**ONLY, "role": "label"}, NAMED, {**NUMBER, "missing": 0}, FLAG],
    "all kinds": [
        {**NUMBER, "scale": "log", "low": 1, "high": 1000},
        {"kind": "number", "low": 0, "high": 99, "integer": True},
        {"kind": "date", "low": "2024-01-01", "high": "2024-01-31"},
        {"kind": "ordinal", "values": [1, 2, 3, 5, 8]},
        {**NAMED, "role": "label"},
        {**FLAG, "role": "group"},
    ],
    "wide": [NUMBER, FLAG] * 10,
}
ODD = {
    "nothing": lambda size, sd, rows: np.zeros(size),
    "too few": lambda size, sd, rows: np.full(size, -1000 * sd - rows),
    "too many": lambda size, sd, rows: np.full(size, 1e6 * (sd + rows)),
    "this and that": lambda size, sd, rows: np.where(np.arange(size) % 2, 30.0, -30.0) * sd,
    "all in one": lambda size, sd, rows: np.where(np.arange(size) == size // 2, 1e4 * (sd + rows), 0.0),
    "noise": lambda size, sd, rows: np.random.default_rng(1).standard_cauchy(size) * sd,
}


def schema_of(columns) -> ad.Schema:
    return ad.Schema.from_dict({"columns": {f"c{i}": column for i, column in enumerate(columns)}})


def setting_of(schema, promise, rows) -> Setting:
    space, seed = schema.space(), PublicSeed.given("x")
    known = None if promise.neighbours.relation is Relation.ADD_REMOVE else rows
    preview = NoisePreview(space, promise, rows, seed)
    return Setting(space, known, promise.neighbours, seed, preview, schema.labels, schema, promise.delta == 0)


class OddDoor:
    """Answers as `odd` says, but only what was planned, and what the meter would not refuse."""

    def __init__(self, mechanism, setting, promise, rows, odd) -> None:
        self.setting, self.promise, self.rows, self.odd = setting, promise, rows, odd
        self.shares, self.asked = mechanism.lines(setting), {}
        self.events = {line: self.calibrated(line, q).event for line, q in mechanism.queries(setting).items()}

    def calibrated(self, line, query):
        check_countable(query, self.rows)
        share = self.shares[line]
        return calibrated(query, self.setting.space, self.promise, share=share, rows=self.rows, fresh=False)

    def measure(self, line, query):
        found = self.calibrated(line, query)
        assert found.event == self.events.pop(line)
        self.asked[line] = query
        sds = {name: part.sd for name, part in found.parts.items()}
        return SumAnswer({p.name: self.odd(p.size, sds[p.name], self.rows).reshape(p.shape) for p in query.parts}, sds)


def drawn(schema, promise, rows, odd):
    setting, mechanism = setting_of(schema, promise, rows), Pairs(rows=30)
    door = OddDoor(mechanism, setting, promise, rows, odd)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draft = mechanism.run(door, setting)
        table = np.vstack(list(draft.batches))
    assert not door.events and table.shape == (30, len(setting.space.blocks))
    empty = np.isnan(table).any(axis=0)
    assert not any(lost and not block.keeps for lost, block in zip(empty, setting.space.blocks, strict=True))
    assert not {"NaN", "Infinity"} & set(draft.facts.model_dump_json().replace(":", " ").split())
    return door


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SCHEMAS))
def test_whatever_is_answered_what_was_planned_is_asked_and_a_table_comes_out(name, relation):
    cases = itertools.product([1e-6, 0.0], [(0, 0.01), (40, 1.0), (10**6, 1.0)], ODD.values())
    for place, (delta, (rows, epsilon), odd) in enumerate(cases):
        if name in ("one column", "a label of one value") or place % 7 == len(name) % 7:  # the others take longer
            drawn(schema_of(SCHEMAS[name]), Promise(epsilon, delta, Neighbours(Unit.ROW, relation)), rows, odd)


PROMISE = Promise(5.0, 1e-6, Neighbours(Unit.ROW, Relation.REPLACE))


def test_tables_of_three_columns_are_left_out_where_they_are_too_large_to_be_weighed():
    """Of 8e9 cells; a plan of it was an error, whoever asked for the mechanism."""
    values = [f"v{i}" for i in range(2000)]
    schema = schema_of([{"kind": "category", "values": values, "role": "group"}] * 3)
    query = Pairs().queries(setting_of(schema, PROMISE, 10**6))["joint tables"]
    assert [len(table) for table in query.tables] == [2, 2, 2]


def test_few_columns_are_measured_with_pairs_of_others():
    schema = schema_of([{**FLAG, "role": "group"}] * 8)
    query = Pairs().queries(setting_of(schema, PROMISE, 10**6))["joint tables"]
    assert {j for table in query.tables for j in table if len(table) == 3} == set(range(8))
    assert all(min(table) < 4 for table in query.tables if len(table) == 3)


@pytest.mark.parametrize("most", [2000, 20])
def test_more_cells_than_were_planned_are_not_asked_for_if_they_are_too_many(most, monkeypatch):
    """All rows at single values, which have a cell each: after the charge it is too late to refuse them."""
    schema = schema_of([*[NUMBER] * 6, {**NAMED, "role": "label"}])

    def spikes(size, sd, rows):
        return np.where(np.arange(size) % 2, rows / 25, rows / 500)

    plenty = drawn(schema, PROMISE, 10**6, spikes).asked["joint tables"]
    planned = Pairs(rows=30)._planned(setting_of(schema, PROMISE, 10**6))
    monkeypatch.setattr(pairs, "_MOST_NUMBERS", most)
    monkeypatch.setattr(Pairs, "_planned", lambda *_: planned)
    few = drawn(schema, PROMISE, 10**6, spikes).asked["joint tables"]
    assert few.held <= max(4 * most, 5000) and few.held < plenty.held / 3
    assert all(len(table) == 2 for table in few.tables) and any(len(table) == 3 for table in plenty.tables)


def test_a_fit_to_a_large_table_stays_within_the_memory_that_was_checked():
    """Before the charge it is seen whether there is room for so many arrays of the size of the largest answer."""
    size = 1100
    table = np.full((size, size), 0.5 / size**2) + np.eye(size) * 0.5 / size
    wanted = {(0, 1): WantedTable((0, 1), table, 1e-6)}
    even = np.full(size, 1 / size)
    fit_chain([2, 2], [np.full(2, 0.5)] * 2, {}, [0, 1], np.random.default_rng(0))  # compiles
    tracemalloc.start()
    fit_chain([size, size], [even, even], wanted, [0, 1], np.random.default_rng(0))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < Pairs.in_use * table.nbytes
