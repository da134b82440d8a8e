"""Pairs of columns in the owner's report: every distance by brute force, and what stands beside it."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.compare import table_layout
from adumbra.compare.table_layout import CellLayout
from adumbra.compare.two_way_fit import two_way_fit
from tests.evaluate.people import SPEC, people, tallies


def by_hand(rows: pl.DataFrame, name: str) -> list[object]:
    return np.minimum(rows["age"].to_numpy() // 10, 9).tolist() if name == "age" else rows[name].to_list()


def joint(rows: pl.DataFrame, one: str, other: str) -> dict[object, float]:
    cells = list(zip(by_hand(rows, one), by_hand(rows, other), strict=True))
    return {cell: cells.count(cell) / len(cells) for cell in set(cells)}


def apart(rows: pl.DataFrame, one: str, other: str) -> dict[object, float]:
    first, second = by_hand(rows, one), by_hand(rows, other)
    return {(x, y): first.count(x) * second.count(y) / len(rows) ** 2 for x in set(first) for y in set(second)}


def distance(a: dict[object, float], b: dict[object, float]) -> float:
    return sum(abs(a.get(cell, 0) - b.get(cell, 0)) for cell in a.keys() | b.keys()) / 2


def test_two_way_tables_against_brute_force():
    a, b = people(500, 1), people(300, 2)
    found = two_way_fit(*tallies(a, b))
    wanted = {pair: distance(joint(a, *pair), joint(b, *pair)) for pair in combinations(SPEC, 2)}
    alone = {pair: distance(joint(a, *pair), apart(b, *pair)) for pair in combinations(SPEC, 2)}
    assert found.pairs == found.of_pairs == 10
    assert found.mean == pytest.approx(np.mean(list(wanted.values())))
    assert found.max == pytest.approx(max(wanted.values()))
    assert found.independent == pytest.approx(np.mean(list(alone.values())))
    assert [p.error for p in found.worst] == pytest.approx(sorted(wanted.values(), reverse=True))
    for p in found.worst:
        assert (p.error, p.independent) == pytest.approx((wanted[p.a, p.b], alone[p.a, p.b]))


def test_a_pair_that_was_not_kept_is_as_far_off_as_independence():
    rows = people(4000)
    release = rows.with_columns(pl.col("outcome").shuffle(seed=1))
    found = two_way_fit(*tallies(rows, release))
    worst = found.worst[0]
    assert {worst.a, worst.b} == {"age", "outcome"} and worst.error > 0.3
    assert worst.error == pytest.approx(worst.independent, abs=0.02)
    kept = next(p for p in two_way_fit(*tallies(rows, people(4000, 1))).worst if (p.a, p.b) == (worst.a, worst.b))
    assert kept.error < 0.1 and kept.independent == pytest.approx(worst.independent, abs=0.03)


def test_chance_is_what_rows_drawn_from_the_truth_are_off_by():
    truth = people(3000)
    drawn = [two_way_fit(*tallies(truth, truth.sample(400, with_replacement=True, seed=i))) for i in range(30)]
    seen = np.mean([fit.mean for fit in drawn])
    assert drawn[0].chance == pytest.approx(seen, rel=0.03)
    assert drawn[0].chance > 1.5 * two_way_fit(*tallies(truth, truth)).chance > 0


def test_a_table_of_one_row_and_cells_of_all_rows_have_a_chance_too():
    one = pl.DataFrame({"a": ["x"], "b": ["u"]})
    spec = {"a": {"kind": "category", "values": ["x", "y"]}, "b": {"kind": "category", "values": ["u"]}}
    schema = ad.Schema.from_dict({"columns": spec})
    found = two_way_fit(*tallies(one, one, schema))
    assert (found.mean, found.independent, found.chance) == (0.0, 0.0, 0.0)
    both = pl.DataFrame({"a": ["x", "y"], "b": ["u", "u"]})
    assert two_way_fit(*tallies(both, one, schema)).chance == pytest.approx(0.5)  # one row is never half and half


def test_cells_of_pairs_are_those_of_the_columns_while_these_are_few():
    spikes = {"kind": "number", "low": 0, "high": 1000, "spikes": [0, 40]}
    many = {**spikes, "spikes": list(range(11))}
    spec = {
        "n": {"kind": "number", "low": 0, "high": 1},
        "s": spikes,
        "m": many,
        "c": {"kind": "category", "values": [f"v{k}" for k in range(41)]},
        "l": {"kind": "category", "values": ["a", "b"], "role": "label"},
    }
    layout = CellLayout(ad.Schema.from_dict({"columns": spec}))
    assert [cells.count for cells in layout.pair_cells] == [11, 13, 11, 21, 3]
    assert [cells.count for cells in layout.cells] == [11, 13, 22, 42, 3]


def test_many_columns_are_compared_by_a_sample_of_pairs_and_said_so(make, monkeypatch):
    monkeypatch.setattr(table_layout, "_MAX_PAIRS", 4)
    rows = people(200)
    found = ad.evaluate_release(make(rows), rows)
    assert (found.two_way.pairs, found.two_way.of_pairs) == (4, 10)
    assert any("4 of 10 pairs" in text for text in found.notes)


def test_the_report_shows_the_worst_pairs_and_what_was_predicted(make, cli, home):
    truth = people(300, 1)
    folder = make(people(200, 3), predicted_error={"marginal_tv": 0.03, "pair_tv": 0.0789})
    found = ad.evaluate_release(folder, truth)
    assert found.predicted == {"marginal_tv": 0.03, "pair_tv": 0.0789}
    plain = json.loads(found.to_json())["two_way"]
    assert set(plain) == {"mean", "max", "independent", "chance", "pairs", "of_pairs", "worst"}
    assert set(plain["worst"][0]) == {"a", "b", "error", "independent", "chance"}
    truth.write_csv("truth.csv")
    done = cli("evaluate", folder, "--truth", "truth.csv", "--html", "report.html")
    page = (home.path / "report.html").read_text(encoding="utf-8")
    fit = found.two_way
    text = " ".join(done.out.split())
    assert f"total variation of a pair of columns, mean of 10 {fit.mean:.4f} 0.0789" in text
    for shown in (text, page):
        assert "pairs of columns that are off most" in shown and "were they independent" in shown
        assert all(f"{value:.4f}" in shown for value in (fit.max, fit.independent, fit.chance, fit.worst[4].chance))
