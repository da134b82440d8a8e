"""One contract for every mechanism in the catalogue, found not listed."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.accounting.calibrate import eps_for
from adumbra.accounting.events import PURE
from adumbra.audit.transcripts import encoded, loss_of, stated_loss, transcript
from adumbra.declare.guarantee import Neighbours, Relation, Unit
from adumbra.mechanisms.catalogue import build, catalogue, options
from adumbra.noise import add as noise

NAMES = list(catalogue())
SCHEMA = ad.Schema.parse(
    """
    [table]
    name = "contract"
    [columns.age]
    kind = "number"
    low = 0
    high = 110
    [columns.smoker]
    kind = "flag"
    [columns.ward]
    kind = "category"
    values = ["a", "b", "c"]
    """
)


def people(count=60, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.uniform(0, 110, count),
            "smoker": rng.random(count) < 0.3,
            "ward": rng.choice(["a", "b", "c"], count).tolist(),
        }
    )


def promises(name):
    cls = catalogue()[name]
    return [
        (unit, relation)
        for unit in cls.units
        for relation in cls.relations
        if not (unit == "cell" and relation == "add-remove")
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_explains_itself(name):
    cls = catalogue()[name]
    assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen
    for attribute in ("title", "releases", "suits", "caution", "theorem", "differs"):
        assert len(getattr(cls, attribute)) > 20, attribute
    assert cls.__doc__ and all(field in cls.__doc__ for field in options(name))
    assert cls.cites and all(r.bibtex.startswith("@") for r in cls.cites)


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_brings_the_tables_that_come_closest_to_breaking_each_of_its_promises(name):
    """What `adumbra audit` attacks. A pair that costs less than half of what it might is not worth attacking."""
    assert hasattr(catalogue()[name], "challenges"), "see CONTRIBUTING.md, step 5, and mechanisms/dppro.py"
    challenges = catalogue()[name].challenges()
    assert {str(c.neighbours) for c in challenges} == {f"{unit}/{relation}" for unit, relation in promises(name)}
    for challenge in challenges:
        assert len(challenge.why) > 10
        budget = ad.Budget(4.0, 1e-6, challenge.neighbours.unit, challenge.neighbours.relation)
        costs = []
        for _ in range(3):  # what a second look costs may hang on what the first one found
            looks = transcript(build(name, challenge.options), challenge, budget)
            pair = encoded(challenge, differing=True)
            loss = stated_loss(looks, pair)
            for look in looks:  # what one look pays too little, another may pay too much: each by itself
                paid = look.event.sensitivity[str(challenge.neighbours)] / look.event.scale
                assert loss_of(look, pair) <= paid * (1 + 1e-9), f"{challenge.why}: {look.line} pays too little"
            costs.append(loss if looks[0].event.is_pure else eps_for(loss, 1e-6))
        cost = max(costs)
        if not challenge.fresh:  # there the cost of one projection may be above the average
            assert cost >= 2.0, f"{challenge.why}: epsilon {cost:.2f} of 4; bring a worse pair (families/challenge.py)"
            assert cost <= 4.0 * (1 + 1e-6), f"{challenge.why}: epsilon {cost:.2f} breaks a promise of 4"


@pytest.mark.parametrize("name", NAMES)
def test_every_promise_is_kept_on_the_card(name):
    for unit, relation in promises(name):
        budget = ad.Budget(2.0, 1e-5, Unit(unit), Relation(relation))
        release = ad.release(people(), SCHEMA, build(name, {}), budget)
        card = release.card
        assert release.verify() == []
        assert (card.unit, card.relation) == (unit, relation)
        stated = card.costs[f"{unit}/{relation}"]
        assert stated is not None and stated <= 2.0 * (1 + 1e-6)
        # The meter spends what it may. (A fresh projection is calibrated before its matrix is drawn; the matrix that
        # came out may happen to be cheaper.)
        if all(noise.account != "fresh-projection" for noise in card.noise.values()):
            assert stated >= 2.0 * 0.99


@pytest.mark.parametrize("name", NAMES)
def test_what_was_saved_is_what_is_read(name, tmp_path):
    """Whether the mechanism publishes arrays or none."""
    release = ad.release(people(), SCHEMA, build(name, {}), ad.Budget(2.0, 1e-5))
    held = release.arrays
    found = ad.load(release.save(tmp_path / "r")).arrays
    assert found.keys() == held.keys()
    assert all(np.array_equal(found[key], value, equal_nan=value.dtype.kind == "f") for key, value in held.items())


@pytest.mark.parametrize("name", NAMES)
def test_unsupported_neighbours_are_refused(name):
    cls = catalogue()[name]
    for neighbours in Neighbours.every():
        if neighbours.unit.value in cls.units and neighbours.relation.value in cls.relations:
            continue
        with pytest.raises(ad.InputError):
            ad.release(people(), SCHEMA, build(name, {}), ad.Budget(1.0, 1e-6, neighbours.unit, neighbours.relation))


def answered(patch, answer):
    """All noise goes through here: `answer(exact, step)` takes its place, whatever the law."""
    patch.setattr(noise, "add_noise", lambda law, exact, t, step, **_: answer(exact, step))
    patch.setattr(noise, "add_l2_noise", lambda arrays: [answer(exact, step) for exact, _, step in arrays])
    patch.setattr(noise, "add_l2_noise_by_row", lambda exact, t, step, **_: answer(exact, step))


def silenced(patch):
    """What leaves the door is the exact answer."""
    answered(patch, lambda exact, step: np.asarray(exact, dtype=float) * step)


def measured(release):
    """The noisy numbers themselves: the rows of a row-aligned release, the arrays called so of any other."""
    arrays = {key: value for key, value in release.arrays.items() if key.startswith("measured")}
    return arrays or {"rows": release.table.to_numpy()}


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_repeats_the_public_part_and_never_the_noise(name):
    budget = ad.Budget(1.0, 1e-6, Unit.ROW)
    one, two = (
        ad.release(people(), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("contract")) for _ in "ab"
    )
    if one.card.mechanism == "dppro":
        for key, value in one.arrays.items():
            assert np.array_equal(value, two.arrays[key])
    again = measured(two)
    for key, value in measured(one).items():
        both = min(len(value), len(again[key]))  # how many numbers there are may itself have been chosen privately
        assert (value[:both] == again[key][:both]).mean() < 0.01, key


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_it_equals_its_non_private_limit_and_with_noise_it_does_not(name, monkeypatch):
    """The mechanism is a function of the noisy answer and the public seed: with the noise off two runs agree."""
    budget = ad.Budget(1.0, 1e-6, Unit.ROW)
    with monkeypatch.context() as patch:
        silenced(patch)
        one, two = (ad.release(people(), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("x")) for _ in "ab")
        assert one.table.equals(two.table)
        exact = measured(one)
    real = measured(ad.release(people(), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("x")))
    for key, value in real.items():
        both = min(len(value), len(exact[key]))
        assert np.isclose(value[:both], exact[key][:both], rtol=1e-9, atol=1e-9).mean() < 0.01, key


@pytest.mark.parametrize("name", NAMES)
def test_batches_do_not_matter(name, monkeypatch):
    """The same rows in one batch or in many give the same exact answers."""
    silenced(monkeypatch)
    table = people(50)
    budget, seed = ad.Budget(1.0, 1e-6, Unit.ROW), ad.PublicSeed.given("x")
    whole = ad.release(table, SCHEMA, build(name, {}), budget, seed=seed).table
    from adumbra.tables.read import Table

    original = Table.batches
    monkeypatch.setattr(Table, "batches", lambda self, columns, rows=7: original(self, columns, 7))
    parts = ad.release(table, SCHEMA, build(name, {}), budget, seed=seed).table
    assert whole.equals(parts)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_planned_is_what_is_measured(name):
    """A second look's noise does not depend on what the first look found."""
    for unit, relation in promises(name):
        budget, seed = ad.Budget(2.0, 1e-5, Unit(unit), Relation(relation)), ad.PublicSeed.given("plan")
        planned = ad.plan(people(), SCHEMA, build(name, {}), budget, seed=seed)
        assert sum(planned.shares.values()) <= 1.0 + 1e-12
        release = ad.release(people(), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("plan"))
        assert set(release.card.noise) == set(planned.calibrations)
        for line, found in release.card.noise.items():
            event = planned.calibrations[line].event
            assert (found.scale, found.slack) == (event.scale, event.slack)
            assert found.sensitivity == event.sensitivity[f"{unit}/{relation}"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_people_are_as_many_as_progress_counts_to(name):
    """What goes along with the rows (a matrix, axes) is counted in columns."""
    unit, relation = promises(name)[0]
    budget = ad.Budget(2.0, 1e-5, Unit(unit), Relation(relation))
    for given in {"csm": [{}, {"input": "records"}], "lop": [{}, {"result": "approximation"}]}.get(name, [{}]):
        release = ad.release(people(), SCHEMA, build(name, given), budget)
        job = ad.plan(people(), SCHEMA, build(name, given), budget).job
        rows, columns = job.mechanism.size(job.setting)
        if release.facts.row_aligned:
            assert rows == release.card.rows == 60
            assert rows * columns >= sum(array.size for array in release.content.arrays().values())


@pytest.mark.parametrize("name", NAMES)
def test_pure_epsilon_costs_what_it_says(name):
    """Every mechanism keeps a promise without a delta, or refuses it; some promise nothing else."""
    deltas = getattr(catalogue()[name], "deltas", "any")
    if deltas == "positive":
        with pytest.raises(ad.InputError, match="a positive delta"):
            ad.plan(people(), SCHEMA, build(name, {}), ad.Budget(2.0, 0.0, Unit.ROW))
        return
    for allowed in (0.0, 1e-5) if deltas == "zero" else (0.0,):
        release = ad.release(people(), SCHEMA, build(name, {}), ad.Budget(2.0, allowed, Unit.ROW))
        assert release.verify() == []
        assert {found.law for found in release.card.noise.values()} <= set(PURE)
        assert release.card.delta == 0.0
        assert release.card.costs["row/replace"] == pytest.approx(2.0)


@pytest.mark.parametrize("name", [n for n in NAMES if "add-remove" in catalogue()[n].relations])
def test_a_private_number_of_rows_is_nowhere_in_the_release(name, monkeypatch):
    """With the noise off and one row more, only measured numbers may differ: no count slips past the door."""
    budget = ad.Budget(2.0, 1e-5, Unit.ROW, Relation.ADD_REMOVE)
    plans = [
        ad.plan(people(count), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("n")) for count in (60, 61)
    ]
    for printed in (repr, lambda planned: repr(planned.job)):
        assert len({re.sub(" at 0x[0-9a-f]+", "", printed(planned)) for planned in plans}) == 1
    # the same noisy numbers whatever the table: what then still differs between tables did not come through the door
    answered(monkeypatch, lambda exact, step: np.full(np.shape(exact), 40.0))
    releases = [
        ad.release(people(count), SCHEMA, build(name, {}), budget, seed=ad.PublicSeed.given("n")) for count in (60, 61)
    ]
    one, two = ({**r.card.model_dump(), "release_id": "", "created": "", "files": {}} for r in releases)
    assert one == two and one["table_rows"] is None
    assert releases[0].table.equals(releases[1].table)
