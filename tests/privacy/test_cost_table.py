"""The whole cost table of a card: every (unit, relation, epsilon) it states, not only the one that was promised.

A finite epsilon says that neighbours of that kind cannot be told apart but by the noise. So for each of them two
neighbouring tables are released with the same noisy answers: no public field of the two folders may differ, and what
the noise was added to may differ by no more than the event states for just these neighbours.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math

import pytest

import adumbra as ad
from adumbra.accounting.accountant import costs_of
from adumbra.accounting.events import Event
from adumbra.common.errors import Refused
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.ledger import ledger as ledgers
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.privacy.meter import calibrated
from tests.at_the_noise import CORNERS, SCHEMA, event_by_event, released, same_in_public, with_row
from tests.mechanisms import test_synthetic
from tests.queries import test_second_moment
from tests.queries.test_sums import SUMS

ADD_REMOVE = Neighbours(Unit.ROW, Relation.ADD_REMOVE)
FALLBACKS = ad.Schema.from_dict(
    {
        **test_synthetic.MIXED,
        "columns": {
            **test_synthetic.MIXED["columns"],
            "score": {"kind": "number", "low": -5.0, "high": 5.0, "missing": -5.0},
            "children": {"kind": "number", "low": 0, "high": 9, "integer": True, "missing": 0},
            "smoker": {"kind": "flag", "missing": False},
            "ward": {"kind": "category", "values": ["north", "south", "west"], "missing": "north"},
        },
    }
)
PERSON = CORNERS[1]
OTHERS = {
    "row/replace": [CORNERS[0]],
    "row/zero-out": [CORNERS[3]],
    "row/add-remove": [None],
    "cell/replace": [{**PERSON, "ill": "no"}, {**PERSON, "score": -5.0}],
    "cell/zero-out": [{**PERSON, "ward": None}, {**PERSON, "children": None}],
}
"""The one person's row in the neighbouring table; None: the row is not there."""
COUNTED = {"columns": ("children", "ward", "smoker")}
MADE = {
    **{name: (name, {}) for name in catalogue()},
    **{name: (name, COUNTED) for name in ("hierarchical", "histogram", "laplace", "privelet", "sparse")},
    "csm": ("csm", {**COUNTED, "sensing": "signs"}),
    "csm records": ("csm", {"input": "records"}),
    "fourier": ("fourier", COUNTED),
    "fourier, no waves": ("fourier", {"columns": ("children",), "bins": 2, "frequencies": 0}),
    "fourier, three waves": ("fourier", {**COUNTED, "frequencies": 3}),
    "dppro": ("dppro", {"dimension": 5}),
    **{name: (name, {"rows": 3}) for name in ("hybrid", "moments", "tables")},
    **{name: test_second_moment.VARIANTS[name] for name in ("lip rows", "lip about its mean", "lip by length", "lop")},
}
BOUNDED = ("dppro", "dprp", "lip", "power_method")
CASES = [
    *(
        (made, unit, relation, None)
        for made, (name, options) in MADE.items()
        for unit in catalogue()[name].units
        for relation in catalogue()[name].relations
        if relation != "add-remove" or (unit == "row" and made not in ("csm records", "lip rows"))
    ),
    *((made, "row", "replace", 0.4) for made in BOUNDED),
]


@pytest.mark.parametrize(("made", "unit", "relation", "row_bound"), CASES)
def test_every_stated_cost_holds_for_its_own_neighbours(made, unit, relation, row_bound):
    name, options = MADE[made]
    mechanism, promised = build(name, options), Neighbours(Unit(unit), Relation(relation))
    # under zero-out the other half of what can be declared: values for empty cells, and no delta
    half = promised.relation is Relation.ZERO_OUT
    pure = {"any": half, "zero": True, "positive": False}[getattr(mechanism, "deltas", "any")]
    budget = ad.Budget(2.0, 0.0 if pure else 1e-5, promised.unit, promised.relation)
    setting = (FALLBACKS if half else SCHEMA, mechanism, budget, row_bound)
    one = released(with_row(PERSON), *setting)
    card = one.folder.card
    assert card.costs == costs_of(one.events, card.delta), "the card states another cost than its events"
    stated = [key for key, epsilon in card.costs.items() if epsilon is not None]
    assert str(promised) in stated and set(card.costs) == set(OTHERS)
    for key in stated:
        for row in OTHERS[key]:
            other = released(with_row(row), *setting, like=one)
            same_in_public(one.folder, other.folder)
            for event, size in event_by_event(one, other):
                paid = event.sensitivity[key] / event.scale
                assert size <= paid * (1 + 1e-12), f"{key}: {size:.6g} moved, {paid:.6g} stated"


@pytest.mark.parametrize("promised", Neighbours.every(), ids=str)
def test_an_event_has_no_bound_for_a_relation_that_its_release_breaks(promised):
    """Whatever a sum alone would allow: only a release under add-remove keeps its number of rows to itself."""
    for query, space in SUMS.values():
        if promised.unit is Unit.CELL and space.row_bound is not None:
            continue
        event = calibrated(query, space, Promise(1.0, 1e-6, promised), share=1.0, rows=9, fresh=False).event
        every = {str(neighbours) for neighbours in Neighbours.every()}
        assert set(event.sensitivity) == (every if promised == ADD_REMOVE else every - {str(ADD_REMOVE)})


@pytest.mark.parametrize("promised", Neighbours.every(), ids=str)
def test_a_cap_for_add_remove_refuses_what_publishes_the_number_of_rows(promised, tmp_path):
    """Before and after it was spent; and plan, card and ledger say the same."""
    book = ad.Ledger(tmp_path / "budget.db")
    name = "tables" if promised.unit is Unit.ROW else "dppro"
    budget = ad.Budget(1.0, 1e-6, promised.unit, promised.relation)
    mechanism, table = build(name, {}), test_synthetic.mixed(9)
    release = ad.release(table, SCHEMA, mechanism, budget, ledger=book)
    keeps = promised == ADD_REMOVE
    costs = [
        ad.plan(table, SCHEMA, mechanism, budget).costs[str(ADD_REMOVE)],
        release.card.costs[str(ADD_REMOVE)],
        book.spent("mixed", ADD_REMOVE, 1e-6),
    ]
    assert [cost is not None and math.isfinite(cost) for cost in costs] == [keeps] * 3
    with admitting(keeps):
        book.set_cap("mixed", ADD_REMOVE, 50.0, 1e-6)
    more = {"table": "mixed", "release_id": "x", "mechanism": "tables"}
    asked = {"a": Event("gaussian", 9.0, {str(n): 1.0 for n in Neighbours.every()})}
    if keeps:
        book.charge(**more, promise=Promise(1.0, 1e-6, ADD_REMOVE), events=asked)
    else:
        for promise in (promised, ADD_REMOVE):  # what is spent stays without a bound, whatever comes after
            with pytest.raises(Refused, match="no finite epsilon"):
                book.charge(**more, promise=Promise(1.0, 1e-6, promise), events=asked)


def admitting(more):
    """A cap that is set while more can still be charged under it, or one that warns that nothing can."""
    return contextlib.nullcontext() if more else pytest.warns(UserWarning, match="nothing more can be charged")


@pytest.mark.parametrize("promised", Neighbours.every(), ids=str)
def test_a_line_of_an_earlier_version_counts_only_what_its_release_kept(promised, tmp_path, monkeypatch):
    """Such lines hold a bound for add-remove under any promise. The file stays as it is; the bound does not count."""
    book = ad.Ledger(tmp_path / "budget.db")
    charged = Event("gaussian", 9.0, {str(n): 1.0 for n in Neighbours.every()})
    with monkeypatch.context() as patch:
        patch.setattr(Event, "within", lambda self, promised: self, raising=False)
        patch.setattr(importlib.metadata, "version", lambda name: "0.0.1")
        book.charge(
            table="t",
            release_id="x",
            mechanism="tables",
            promise=Promise(1.0, 1e-6, promised),
            events={"counts": charged},
        )
    (line,) = book.entries("t")
    assert line.body["event"]["sensitivity"][str(ADD_REMOVE)] == 1.0
    assert book.check() == []
    assert math.isfinite(book.spent("t", ADD_REMOVE, 1e-6)) == (promised == ADD_REMOVE)
    for neighbours in set(Neighbours.every()) - {ADD_REMOVE}:
        assert book.spent("t", neighbours, 1e-6) == ledgers.epsilon_of([charged], neighbours, 1e-6)
    with admitting(promised == ADD_REMOVE):
        book.set_cap("t", ADD_REMOVE, 50.0, 1e-6)
    again = {"table": "t", "release_id": "y", "mechanism": "tables", "promise": Promise(1.0, 1e-6, ADD_REMOVE)}
    if promised == ADD_REMOVE:
        book.charge(**again, events={"counts": charged})
    else:
        with pytest.raises(Refused, match="no finite epsilon"):
            book.charge(**again, events={"counts": charged})
    assert book.check() == []
    assert json.loads(json.dumps(book.entries("t")[0].body)) == line.body
