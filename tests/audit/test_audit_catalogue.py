"""The audit of the catalogue: it has power, it stays below what holds, and it catches what is broken."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

import adumbra as ad
import adumbra.privacy.sensitivity as sensitivity
from adumbra.audit import neighbour_search
from adumbra.audit.audit_all import audit_catalogue, audit_mechanism, carried_out
from adumbra.audit.findings import NOT_REFUTED, REFUTED, AuditReport, Finding
from adumbra.audit.mechanism_attacks import Effort, Task, attack
from adumbra.audit.transcripts import canaries, encoded, runs, stated_loss, transcript
from adumbra.declare.guarantee import Budget, Neighbours, Relation, Unit
from adumbra.families.challenge import Challenge, emptied
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.noise import add as noise
from adumbra.privacy import meter
from adumbra.queries.second_moment import Gram, MomentsQuery
from adumbra.tables.read import Table
from tests.repeatable import repeatable  # noqa: F401

SMALL = Effort(150, 150, 0.0, canaries=2000, releases=90)
ENOUGH = Effort(1500, 1500, 0.0, canaries=20_000, releases=60)
FEWER = Effort(700, 700, 0.0, canaries=20_000, releases=60)
ROW_REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)


def index_of(name: str, neighbours: str, fresh: bool = False) -> int:
    found = catalogue()[name].challenges()
    return next(i for i, c in enumerate(found) if str(c.neighbours) == neighbours and c.fresh == fresh)


def task(name, neighbours="row/replace", kind="transcript", epsilon=4.0, delta=1e-6, effort=SMALL, **rest) -> Task:
    return Task(kind, name, index_of(name, neighbours), epsilon, delta, effort, **rest)


# ---- power, and no false alarm

TIGHT = {
    "tables, rows": task("tables", effort=ENOUGH),
    "tables, private number of rows, pure": task("tables", "row/add-remove", delta=0.0, effort=ENOUGH),
    "dppro, rows": task("dppro", effort=ENOUGH),
    "dppro, cells": task("dppro", "cell/replace", effort=ENOUGH),
    "dppro, cells, pure": task("dppro", "cell/replace", delta=0.0, effort=ENOUGH),
    "dppro, cells, one run": task("dppro", "cell/replace", "one-run", delta=0.0, effort=ENOUGH),
    "dppro, fresh projection": dataclasses.replace(
        task("dppro", effort=ENOUGH), challenge=index_of("dppro", "row/replace", fresh=True)
    ),
    "dprp, worst angle": task("dprp", effort=ENOUGH),
    "moments, private number of rows": task("moments", "row/add-remove", effort=ENOUGH),
    "lip": task("lip", delta=0.0, effort=FEWER),
    "lip, by length": task("lip", delta=0.0, effort=FEWER, options={"noise": "l2-laplace"}),
    "lip, private number of rows": task(
        "lip", "row/add-remove", delta=0.0, effort=dataclasses.replace(FEWER, transcripts=900, most=900)
    ),
    "lop, one run": task("lop", kind="one-run", delta=0.0, effort=ENOUGH),
    "lop, cells": task("lop", "cell/replace", delta=0.0, effort=FEWER),
    "analyze_gauss": task("analyze_gauss", effort=FEWER),
    "power_method": task("power_method", effort=FEWER),
}


@pytest.mark.parametrize("name", list(TIGHT))
def test_at_least_half_of_the_claim_is_reached_where_it_is_tight_and_never_more_than_it(name):
    found = attack(TIGHT[name])
    assert found.verdict == NOT_REFUTED
    assert found.epsilon / 2 <= found.lower_bound <= found.epsilon, found
    if found.exact is not None:
        assert found.exact == pytest.approx(found.epsilon, rel=0.03)  # theory says so too


@pytest.mark.parametrize("name", list(catalogue()))
def test_no_extreme_pair_costs_more_than_was_promised(name):
    """Exact arithmetic on the stated noise: hundreds of pairs for each promise, and a search from the worst."""
    done = set()
    for index, challenge in enumerate(catalogue()[name].challenges()):
        if challenge.neighbours in done or challenge.fresh:
            continue
        done.add(challenge.neighbours)
        deltas = {"any": (1e-6, 0.0), "zero": (0.0,), "positive": (1e-6,)}
        for delta in deltas[catalogue()[name].deltas] if name != "auto" else (1e-6,):
            chosen = Task("transcript", name, index, 4.0, delta, Effort(10, 10, 0.0, 10, 10))
            found = attack(chosen)
            assert found.verdict == NOT_REFUTED and found.exact is not None
            assert found.exact <= 4.0 * (1 + 1e-6), found
            assert int(found.note.split()[2]) > 50  # pairs


# ---- what is broken is caught


def half_noise(patch) -> None:
    plain, by_length, by_row = noise.add_noise, noise.add_l2_noise, noise.add_l2_noise_by_row
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **kw: plain(law, exact, t / 2, step, **kw))
    patch.setattr(noise, "add_l2_noise", lambda arrays: by_length([(exact, t / 2, step) for exact, t, step in arrays]))
    patch.setattr(noise, "add_l2_noise_by_row", lambda exact, t, step, **kw: by_row(exact, t / 2, step, **kw))


@pytest.mark.parametrize("name", ["tables", "dppro", "dprp", "lip", "analyze_gauss", "power_method"])
def test_half_the_noise_is_refuted(name, monkeypatch):
    half_noise(monkeypatch)
    effort = (
        dataclasses.replace(FEWER, transcripts=400, most=400) if name in ("analyze_gauss", "power_method") else ENOUGH
    )
    assert attack(task(name, effort=effort)).verdict == REFUTED


@pytest.mark.parametrize(("name", "neighbours"), [("dppro", "cell/replace"), ("lop", "row/replace")])
def test_half_the_noise_is_refuted_in_one_run(name, neighbours, monkeypatch):
    half_noise(monkeypatch)
    assert attack(task(name, neighbours, "one-run", delta=0.0, effort=ENOUGH)).verdict == REFUTED


def test_a_forgotten_factor_is_refuted_by_arithmetic_alone(monkeypatch):
    monkeypatch.setattr(sensitivity, "_twice", lambda relation: 1.0)
    found = attack(task("tables"))
    assert found.verdict == REFUTED and found.method == "exact"
    assert found.lower_bound > 5.0


def test_a_second_moment_without_its_root_of_two_is_refuted(monkeypatch):
    """The triangle off the diagonal counts once instead of twice: noise on it is too small by that root."""
    real = ad.queries.second_moment._matrix_parts  # type: ignore[attr-defined]

    def light(width, weight, *rest):
        parts = real(width, weight, *rest)
        return [dataclasses.replace(p, weight=p.weight * 2) if p.name == "upper" else p for p in parts]

    monkeypatch.setattr("adumbra.queries.second_moment._matrix_parts", light)
    for kind in (Gram, MomentsQuery):
        monkeypatch.setattr(kind, "parts", property(vars(kind)["parts"].func))
    assert attack(task("dprp")).verdict == REFUTED


def test_rows_that_were_not_clipped_are_refused_by_the_door(monkeypatch):
    """The audit cannot even be run on them: the door looks."""
    monkeypatch.setattr("adumbra.tables.row_source.clip_rows", lambda values, bound: (values, 0))
    with pytest.raises(RuntimeError, match="row bound"):
        attack(task("dprp"))


def test_a_private_number_of_rows_on_the_card_is_refuted(monkeypatch):
    real = ad.pipeline.Setting  # type: ignore[attr-defined]

    def leaky(space, rows, *rest):
        return real(space, counted["rows"] if rows is None else rows, *rest)

    counted: dict[str, int] = {}
    count = Table.count

    def noted(self) -> int:
        counted["rows"] = count(self)
        return counted["rows"]

    monkeypatch.setattr(Table, "count", noted)
    monkeypatch.setattr("adumbra.pipeline.Setting", leaky)
    found = attack(task("tables", "row/add-remove", "release", epsilon=0.5, confidence=0.999))
    assert found.verdict == REFUTED, found


def test_a_mechanism_that_peeks_is_refuted(monkeypatch):
    """Post-processing that looks at the rows: the noisy tables are swapped for nearly exact ones on the way out."""
    from adumbra.mechanisms import tables

    real = tables.measured_arrays
    exact: dict[str, np.ndarray] = {}
    add = noise.add_noise

    def spying(law, values, t, step, **kw):
        exact["seen"] = np.asarray(values, dtype=float) * step
        return add(law, values, t, step, **kw)

    monkeypatch.setattr(noise, "add_noise", spying)
    monkeypatch.setattr(tables, "measured_arrays", lambda answers: real(answers) | {"peek": exact["seen"]})
    found = attack(task("tables", kind="release", epsilon=0.5, confidence=0.999))
    assert found.verdict == REFUTED, found


@pytest.mark.parametrize(("name", "part", "factor"), [("tables", "grouped", 0.5), ("moments", "shares", 0.1)])
def test_too_little_noise_on_what_only_a_label_or_a_category_has_is_refuted(name, part, factor, monkeypatch):
    """The mechanism's own challenge is one number; classes and values exist on the table with all kinds only."""
    real = meter._steps

    def less(scale, of):
        return real(scale, of) * (factor if of.name == part else 1.0)

    monkeypatch.setattr(meter, "_steps", less)
    assert attack(task(name, kind="all kinds", effort=ENOUGH)).verdict == REFUTED


def test_a_private_number_of_rows_in_a_sentence_is_refuted(monkeypatch):
    real = ad.pipeline.Job  # type: ignore[attr-defined]

    def told(table, schema, mechanism, promise, setting, name, count, choice):
        return real(table, schema, mechanism, promise, setting, name, count, f"{choice}: a table of {count} rows")

    monkeypatch.setattr("adumbra.pipeline.Job", told)
    found = attack(task("tables", "row/add-remove", "release", epsilon=0.5, confidence=0.999))
    assert found.verdict == REFUTED, found


def test_sound_releases_are_not_refuted():
    for name in ("tables", "dppro", "lip"):
        assert attack(task(name, kind="release", epsilon=0.5)).verdict == NOT_REFUTED


# ---- promises without a delta, and with one only


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_mechanism_is_attacked_at_the_deltas_that_it_promises(delta, monkeypatch):
    """lip and lop promise delta 0 whatever is allowed; analyze_gauss promises nothing without one."""
    planned = []
    monkeypatch.setattr("adumbra.audit.audit_all.carried_out", lambda tasks, *_: planned.extend(tasks))
    audit_catalogue(4.0, delta, effort=SMALL)
    found = {name: {t.delta for t in planned if t.mechanism == name} for name in catalogue()}
    assert found["lip"] == found["lop"] == {0.0}
    assert found["analyze_gauss"] == ({delta} if delta else set())
    assert found["tables"] == found["power_method"] == {delta, 0.0}
    for name in ("lip", "lop", "tables", "power_method"):  # what believes nothing is asked once
        blind = [t for t in planned if t.mechanism == name and t.kind in ("numbers", "release")]
        assert len({t.delta for t in blind}) == 1
        assert {t.kind for t in blind} == {"numbers", "release"}
    planned.clear()
    audit_mechanism("lip", 4.0, delta, effort=SMALL)
    assert {t.delta for t in planned} == {0.0}
    if delta == 0:
        with pytest.raises(ad.InputError, match="a positive delta"):
            audit_mechanism("analyze_gauss", 4.0, 0.0, effort=SMALL)


def test_a_finding_states_the_delta_that_is_promised():
    found = attack(task("lop", kind="one-run", delta=1e-6))
    assert found.delta == 0.0 and found.verdict == NOT_REFUTED


# ---- pairs


@pytest.mark.parametrize("neighbours", [str(n) for n in Neighbours.every()])
def test_extreme_pairs_are_neighbours_and_of_every_kind(neighbours):
    """`Challenge` refuses a pair that is none, so making them is the test."""
    base = neighbour_search.mixed(Neighbours.parse(neighbours))
    found = neighbour_search.extremes(base)
    assert len(found) >= 9
    cells = {cell for c in found for row in (c.one, c.other or {}) for cell in row.values()}
    assert None in cells and "1e30" in cells and "no such value" in cells
    assert any(not c.shared for c in found)  # a single row
    if neighbours == "row/replace":
        whys = " ".join(c.why for c in found)
        for kind in ("lowest corner", "highest corner", "first axis", "last axis", "nothing in it", "out of range"):
            assert kind in whys
        assert "leading direction" in whys


def test_a_search_finds_the_worst_corner():
    """The cost counts differing cells by a secret weight: climbing must find the pair that differs in all."""
    base = neighbour_search.mixed(ROW_REPLACE)
    same = dataclasses.replace(base, other=dict(base.one))

    def cost(candidate: Challenge) -> float:
        change = encoded(candidate, differing=True)
        return float(np.abs(change.one - change.other).sum())

    worst = neighbour_search.searched(same, cost)
    assert cost(same) == 0 and cost(worst) >= 0.99 * cost(base)


@pytest.mark.parametrize(
    ("neighbours", "change"),
    [
        ("cell/replace", {"one": {"a": "1", "b": "1"}, "other": {"a": "0", "b": "0"}}),
        ("row/zero-out", {"other": {"a": "0", "b": None}}),
        ("cell/zero-out", {"one": {"a": "1", "b": "1"}, "other": {"a": "0", "b": "1"}}),
        ("row/replace", {"other": None}),
        ("row/add-remove", {"other": {"a": "0", "b": "0"}}),
        ("row/replace", {"one": {"a": "1"}}),
    ],
)
def test_what_is_no_pair_of_neighbours_is_refused(neighbours, change):
    good = {"one": {"a": "1", "b": "0"}, "other": {"a": "0", "b": "0"}}
    number = {"kind": "number", "low": 0, "high": 1}
    schema = ad.Schema.from_dict({"columns": {"a": number, "b": number}})
    with pytest.raises(ValueError, match="not a pair"):
        Challenge(Neighbours.parse(neighbours), schema, **(good | change), why="none")


# ---- transcripts


def test_the_likelihood_ratio_of_right_noise_has_its_law():
    """N(mu^2/2, mu^2) on table one, N(-mu^2/2, mu^2) on the other: the score is the optimal one."""
    challenge = catalogue()["tables"].challenges()[0]
    made = runs(build("tables", challenge.options), challenge, Budget(4.0, 1e-6, Unit.ROW), 1500)
    for scores, sign in ((made.one, 1), (made.other, -1)):
        assert scores.mean() == pytest.approx(sign * made.stated**2 / 2, abs=4 * made.stated / math.sqrt(1500))
        assert scores.std() == pytest.approx(made.stated, rel=0.08)


def test_a_transcript_holds_every_look():
    challenge = catalogue()["hybrid"].challenges()[2]
    budget = Budget(4.0, 1e-6, Unit.ROW, Relation.ADD_REMOVE)
    mechanism = build("hybrid", challenge.options)
    looks = transcript(mechanism, challenge, budget)
    planned = ad.plan(pl.DataFrame({"a": [0.5] * 301}), challenge.schema, mechanism, budget)
    assert [look.line for look in looks] == list(planned.queries)
    assert stated_loss(looks, encoded(challenge)) == pytest.approx(
        stated_loss(looks, encoded(challenge, differing=True))
    )


def test_canaries_need_rows():
    challenge = catalogue()["tables"].challenges()[0]
    coins = np.random.default_rng(0)
    assert canaries(build("tables", challenge.options), challenge, Budget(4.0, 1e-6, Unit.ROW), 50, coins) is None


# ---- reports


def test_options_reach_the_mechanism_and_bad_ones_are_refused():
    report = audit_mechanism(
        "dppro",
        4.0,
        0.0,
        unit=Unit.CELL,
        relation=Relation.REPLACE,
        options={"dimension": "3"},
        effort=SMALL,
        workers=1,
    )
    assert not report.refuted and {f.target for f in report.findings} == {"dppro"}
    with pytest.raises(ad.InputError, match="an option of dppro"):
        audit_mechanism("dppro", 4.0, 0.0, options={"dimensions": "3"}, workers=1)
    with pytest.raises(ad.InputError, match="a promise that tables makes"):
        audit_mechanism("tables", 4.0, 0.0, unit=Unit.CELL, workers=1)
    with pytest.raises(ad.InputError, match="epsilon"):
        audit_mechanism("tables", -1.0, 0.0, workers=1)
    with pytest.raises(ad.InputError, match="confidence"):
        carried_out([task("tables")], 1.0, workers=1)


def test_confidence_is_shared_among_the_findings():
    report = carried_out([task("dppro", "cell/replace", "one-run", delta=0.0)] * 4, 0.98, workers=1)
    assert [f.confidence for f in report.findings] == pytest.approx([0.995] * 4)


def test_a_report_says_what_it_may_and_in_json_too():
    base = Finding("x", "row/replace", "p", 1.0, 1e-6, 0.5, 0.99, "threshold", 10, 0.1, exact=math.inf)
    worse = dataclasses.replace(base, lower_bound=1.1)
    report = AuditReport((base, worse), 0.99, "adumbra")
    assert [f.verdict for f in report.findings] == [NOT_REFUTED, REFUTED] and report.refuted == (worse,)
    plain = report.to_json()
    assert "never prove" in plain["wording"] and plain["refuted"] == 1
    found = plain["findings"][0]
    assert {"claimed", "lower_bound", "confidence", "runs", "verdict"} <= set(found) and found["exact"] == "infinite"


def test_an_emptied_row_has_nothing():
    assert emptied({"a": "1", "b": None}) == {"a": None, "b": None}


def test_runs_whose_later_looks_have_other_parts_are_compared_all_the_same():
    """A second look is split by class or not, as the noisy number of rows has it: of 828 rows every second time."""
    found = catalogue()["hybrid"].challenges()
    labelled = next(c for c in found if c.schema.labels and c.neighbours.relation is Relation.ADD_REMOVE)
    many = dataclasses.replace(labelled, shared=labelled.shared[:1] * 828)
    budget, mechanism = Budget(4.0, 1e-6, Unit.ROW, Relation.ADD_REMOVE), build("hybrid", labelled.options)
    looks = {len(transcript(mechanism, many, budget)[2].query.parts) for _ in range(25)}
    assert looks == {1, 2}
    made = runs(mechanism, many, budget, 12)
    assert made.parts_one.shape == made.parts_other.shape
    assert made.parts_one.sum(axis=1) == pytest.approx(made.one)
