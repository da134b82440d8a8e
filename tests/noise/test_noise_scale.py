"""The scale that reaches the sampler is the charged one, to the last bit.

Statistics cannot see a scale that is a little too small: of 16 steps, rounded down to whole ones, a thirtieth part is
lost on average. So nothing is drawn here and looked at; the number itself is followed from the event that was charged
to the table that noise is drawn from.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from adumbra.accounting import calibrate
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.declare.space import HALF
from adumbra.noise import add as noise
from adumbra.noise.l2_laplace import L2Sampler
from adumbra.noise.lattice_tables import GaussianTable, LaplaceTable
from adumbra.numerics.integer_kernels import worker_threads
from adumbra.privacy.meter import Meter
from adumbra.privacy.private_rows import PrivateRows
from adumbra.privacy.sensitivity import sensitivity
from adumbra.queries.histograms import HistogramQuery, TailChoice, TailSize
from adumbra.queries.joint_tables import TableDistances
from adumbra.queries.row_map import RowClip, RowMap, contraction
from adumbra.queries.second_moment import GramTimes, RowsAndGram
from adumbra.queries.sums import Sum, Total
from tests.numerics.test_strategies import KINDS, domain
from tests.queries.test_joint_tables import SMALL, every, joint
from tests.queries.test_sums import CASES, MIXED, bounded, map_of, raw_rows, space_of

REPLACE = Neighbours(Unit.ROW, Relation.REPLACE)
DELTA = 1e-6
LAWS = ("gaussian", "laplace", "l2-laplace")


def asked():
    """Every kind of question: name -> (query, space)."""
    yield from ((name, case) for name, case in CASES.items() if name.endswith((", mixed", "fallbacks, clipped")))
    space = space_of(*MIXED)
    yield "total", (Total(space.width), space)
    yield "row map", (map_of("gaussian", space, 3), space)
    short = RowClip(HALF, np.zeros(space.width, dtype=np.int64))
    yield "row map of a view", (RowMap(contraction(np.eye(space.width), 2.0**-18), 2.0**-18, clip=short), space)
    yield "products", (GramTimes.of(np.eye(space.width)[:, :2], short), space)
    groups, cells = domain(24)
    for name, make in KINDS.items():
        yield f"histogram by {name}", (HistogramQuery(groups, make((3, 2, 4))), cells)
    yield "size of a tail", (TailSize(groups, 3), cells)
    yield "choice", (TailChoice(groups, (0, 1, 5), (0.0, 3.5, 9.25)), cells)
    yield "joint tables", (every(), SMALL)
    yield "joint tables, plain", (every(centred=False), SMALL)
    yield "distances", (TableDistances(joint(), ((0, 1), (1, 2)), (np.ones((3, 3)), np.ones((3, 5))), "l1"), SMALL)


QUERIES = dict(asked())


def with_law(query, law):
    """The question as it is asked for noise of this law, and the promise; None where it has no proof for it."""
    promise = Promise(0.7, DELTA if law == "gaussian" else 0.0, REPLACE)
    if law == "gaussian":
        return (None if isinstance(query, TailChoice) else query), promise
    if law == "l2-laplace":
        fields = {f.name for f in dataclasses.fields(query)}
        return (dataclasses.replace(query, pure=law) if "pure" in fields else None), promise
    return (None if getattr(query, "centred", False) else query), promise


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", list(QUERIES))
def test_the_scale_that_reaches_the_sampler_is_the_charged_one(name, law, monkeypatch):
    query, space = QUERIES[name]
    query, promise = with_law(query, law)
    if query is None:
        return
    reached, charged = [], []
    for kind, table in (("gaussian", GaussianTable), ("laplace", LaplaceTable)):
        real = table.build

        def build(t, kind=kind, real=real):
            made = real(t)
            reached.append((kind, made.t))
            return made

        monkeypatch.setattr(noise, table.__name__, type(table.__name__, (), {"build": staticmethod(build)}))
    drawn = L2Sampler.draw

    def draw(self, lengths, t, out):
        reached.append(("l2-laplace", t))
        drawn(self, lengths, t, out)

    monkeypatch.setattr(L2Sampler, "draw", draw)
    monkeypatch.setenv("ADUMBRA_THREADS", "1")
    assert worker_threads() == 1
    rows = bounded(raw_rows(space, 3, np.random.default_rng(0)), space)
    door = Meter(
        PrivateRows(space, 3, lambda: iter([rows])), promise, {"a": 0.3, "b": 0.7}, lambda *e: charged.append(e)
    )
    found = door.measure("a", query)
    parts = list(query.parts) if isinstance(query, Sum) else []
    if not isinstance(query, Sum):
        list((found.rows if isinstance(query, RowsAndGram) else found).batches)
    ((_, event),) = charged
    assert event.noise == law
    steps = [event.scale / part.weight / part.step for part in parts]
    if isinstance(query, RowsAndGram):  # the second moment first, then the rows
        steps = [event.scale / part.weight / part.step for part in query.gram.parts] + [
            event.scale / query.map.answer_step
        ]
    elif isinstance(query, RowMap):
        steps = [event.scale / query.answer_step]
    assert reached == [(law, t) for t in steps]
    # and the charged one is what the promise needs: a hair more, never less
    most = sensitivity(query, space, REPLACE, "l1" if law == "laplace" else "l2")
    needed = most / (0.3 * 0.7) if law != "gaussian" else most / (calibrate.mu_for(0.7, DELTA) * math.sqrt(0.3))
    least = 16.0 * max(event.scale / t for t in steps)  # in the units of the scale, one step of the coarsest part
    assert max(needed, least) * (1 - 1e-9) <= event.scale <= max(needed, least) * (1 + 1e-6)
