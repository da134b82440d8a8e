"""Caps against everything that can have been charged before: all laws, bounds, units and relations.

A charge is accepted if and only if all events of the table together, old and new, cost no more than the cap at its own
neighbours and delta. A past event without a bound for them costs infinitely much, and so does everything after it.
"""

from __future__ import annotations

import contextlib
import math

import pytest

from adumbra.accounting.accountant import epsilon_of
from adumbra.accounting.events import Event, FreshProjection
from adumbra.common.errors import Refused
from adumbra.declare.guarantee import Neighbours, Promise
from adumbra.ledger.ledger import Ledger

EVERY = [str(n) for n in Neighbours.every()]
DELTA = 1e-6


def event(law: str, bounded: tuple[str, ...]) -> Event:
    """One answer of that law, with a bound for these neighbours and for no others; rows cost more than cells."""
    bounds = {name: 1.0 if name.startswith("row") else 0.25 for name in bounded}
    if law == "gaussian":
        return Event("gaussian", 8.0, bounds)
    if law == "fresh":
        projections = {n: FreshProjection(8, b, 0.0) for n, b in bounds.items() if n.startswith("row")}
        return Event("gaussian", 8.0, bounds, projections)
    return Event("laplace", 8.0, bounds) if law == "laplace" else Event("l2-laplace", 8.0, bounds, numbers=3)


LAWS = ("gaussian", "fresh", "laplace", "l2-laplace")
BOUNDED = {
    "all": tuple(EVERY),
    "none": (),
    **{f"only {name}": (name,) for name in EVERY},
    **{f"all but {name}": tuple(n for n in EVERY if n != name) for name in EVERY},
}


def spend(ledger: Ledger, table: str, asked: Event) -> bool:
    """Whether the charge was accepted; a refusal leaves no line."""
    before = ledger.entries() if ledger.path.exists() else []
    try:
        ledger.charge(
            table=table,
            release_id="r",
            mechanism="m",
            promise=Promise(1.0, DELTA, Neighbours.parse("row/add-remove")),  # under which every bound counts
            events={"line": asked},
        )
    except Refused:
        assert ledger.entries() == before
        return False
    return True


@pytest.mark.parametrize("bounded", BOUNDED)
@pytest.mark.parametrize("past", LAWS)
def test_a_cap_counts_every_past_charge(past, bounded, ledger):
    """Past law and bounds by cap: a new charge of every law, at a cap that just holds it and at one that does not."""
    first = event(past, BOUNDED[bounded])
    for number, name in enumerate(EVERY):
        neighbours = Neighbours.parse(name)
        new = LAWS[(number + list(BOUNDED).index(bounded)) % len(LAWS)]  # all of them, over the bounds
        asked = event(new, tuple(EVERY))
        table = f"{name} then {new}"
        assert spend(ledger, table, first)
        total = epsilon_of([first, asked], neighbours, DELTA)
        assert math.isfinite(total) == (name in BOUNDED[bounded])
        if math.isinf(total):
            with pytest.warns(UserWarning, match="nothing more"):
                ledger.set_cap(table, neighbours, 1e12, DELTA)
            assert not spend(ledger, table, asked)
            continue
        ledger.set_cap(table, neighbours, total * (1 - 1e-6), DELTA)
        assert not spend(ledger, table, asked)
        ledger.set_cap(table, neighbours, total, DELTA)
        assert spend(ledger, table, asked)
        assert not spend(ledger, table, asked)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("new", LAWS)
def test_a_new_charge_without_a_bound_is_refused_whatever_came_before(new, name, ledger):
    neighbours = Neighbours.parse(name)
    for past in (None, *LAWS):
        table = f"after {past}"
        if past is not None:
            assert spend(ledger, table, event(past, tuple(EVERY)))
        ledger.set_cap(table, neighbours, 1e12, DELTA)
        assert not spend(ledger, table, event(new, BOUNDED[f"all but {name}"]))
        assert spend(ledger, table, event(new, (name,)))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("past", LAWS)
def test_a_pure_cap_admits_pure_noise_only(past, name, ledger):
    neighbours = Neighbours.parse(name)
    pure = past in ("laplace", "l2-laplace")
    asked = event("laplace", tuple(EVERY))
    assert spend(ledger, "t", event(past, tuple(EVERY)))
    with contextlib.nullcontext() if pure else pytest.warns(UserWarning, match="at delta 0: nothing more"):
        ledger.set_cap("t", neighbours, 1e12, 0.0)
    assert spend(ledger, "t", asked) == pure
    assert not spend(ledger, "t", event("gaussian", tuple(EVERY)))


@pytest.mark.parametrize("capped", EVERY)
def test_each_cap_asks_about_its_own_neighbours(capped, ledger):
    """Two caps: one that holds everything, and one that past charges have passed already."""
    only = event("laplace", (capped,))
    assert spend(ledger, "t", only)
    ledger.set_cap("t", Neighbours.parse(capped), 1e12, DELTA)
    assert spend(ledger, "t", only)
    for name in EVERY:
        if name != capped:
            with pytest.warns(UserWarning, match="nothing more"):
                ledger.set_cap("t", Neighbours.parse(name), 1e12, DELTA)
            assert not spend(ledger, "t", event("laplace", tuple(EVERY)))
            ledger.remove_cap("t", Neighbours.parse(name))
    assert spend(ledger, "t", only)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "budget.db")
