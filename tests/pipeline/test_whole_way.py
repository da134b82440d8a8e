"""The whole way from table to noise: a neighbouring table moves what meets the noise by no more than was paid for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.accounting import calibrate
from adumbra.declare.guarantee import Relation, Unit
from adumbra.families.synthetic import DrawnTable
from adumbra.mechanisms.catalogue import build, catalogue
from adumbra.noise import add as noise
from tests.at_the_noise import CORNERS, moved, paid_for, with_row
from tests.queries import test_second_moment

DRAWN = [name for name, cls in catalogue().items() if issubclass(cls, DrawnTable)]


COUNTED = {
    "laplace": {},
    "privelet": {},
    "hierarchical": {},
    "sparse": {},
    "csm": {"sensing": "signs"},
    "fourier": {"frequencies": 3},
}


ONE_RUN = [
    *((name, relation, None) for name in COUNTED for relation in Relation),
    *((name, relation, None) for name in DRAWN for relation in Relation),
    *(
        (name, relation, bound)
        for name in ("dppro", "dprp")
        for relation in list(Relation)[:2]
        for bound in (None, 0.4)
    ),
    *(
        (name, relation, bound)
        for name in test_second_moment.VARIANTS
        for relation in test_second_moment.relations_of(name)
        for bound in ((None, 0.4) if relation is Relation.REPLACE else (None,))
    ),
]


def neighbours_of(relation):
    """Pairs of tables: twelve people and one more, who is another, is empty, or is not there."""
    whole = [with_row(row) for row in CORNERS]
    if relation is Relation.ADD_REMOVE:
        return [(table, with_row(None)) for table in whole]
    if relation is Relation.ZERO_OUT:
        return [(table, whole[3]) for table in whole[:3]]
    return [(whole[0], other) for other in whole[1:]]


def made(name):
    """A mechanism, or a variant of one that finds principal components."""
    if name in test_second_moment.VARIANTS:
        return test_second_moment.built(name)
    if name in COUNTED:
        return build(name, {"columns": ("children", "ward", "smoker"), **COUNTED[name]})
    return build(name, {"dppro": {"dimension": 5}, "dprp": {}}.get(name, {"rows": 3}))


@pytest.mark.parametrize(("name", "relation", "row_bound"), ONE_RUN)
def test_no_neighbour_moves_what_meets_the_noise_by_more_than_was_paid(name, relation, row_bound):
    """Every look of a release together: in L2 at most the mu of the promise; without a delta, its epsilon.

    And what did not meet the noise is the same for both tables, down to the card.
    """
    mechanism, pairs = made(name), neighbours_of(relation)
    mu = calibrate.mu_for(2.0, 1e-5)
    for delta in {"any": (1e-5, 0.0), "zero": (0.0,), "positive": (1e-5,)}[mechanism.deltas]:
        budget, paid = ad.Budget(2.0, delta, Unit.ROW, relation), mu if delta else 2.0
        tried = pairs if delta else pairs[:1] if mechanism.deltas == "any" else pairs[-2:]
        sizes = [paid_for(moved(*pair, mechanism, budget, row_bound)) for pair in tried]
        assert max(sizes) <= paid, f"{max(sizes):.4g} moved, {paid:.4g} paid"
        assert delta == 0 or max(sizes) >= 0.25 * paid, f"no power: {max(sizes):.4g} of {paid:.4g}"


@pytest.mark.parametrize("relation", list(Relation))
def test_a_release_that_chooses_moves_by_no_more_than_was_paid(relation):
    """Of the scores of a noisy choice twice the one that moves most counts, however many there are."""
    mechanism = build("fourier", {"columns": ("children", "ward", "smoker")})
    for pair in neighbours_of(relation):
        choice, *looks = moved(*pair, mechanism, ad.Budget(2.0, 0.0, Unit.ROW, relation), None)
        law, (scores,) = choice
        assert law == "laplace" and scores.size > 10
        assert 2 * np.abs(scores).max() + paid_for(looks) <= 2.0


def test_rows_are_clipped_before_they_are_mapped(monkeypatch):
    """A long row and the same row cut to the bound beforehand give one answer: length is taken from the row itself."""
    bound = 0.25
    schema = ad.Schema.from_dict({"columns": {c: {"kind": "number", "low": -1, "high": 1} for c in "abc"}})
    long, short = np.array([[0.9, 0.6, -0.3]]), np.array([[0.9, 0.6, -0.3]])
    short *= 2 * bound / np.linalg.norm(short)  # a range of 2 is 1 in encoded units
    monkeypatch.setattr(noise, "add_noise", lambda law, exact, t, step, **_: np.asarray(exact, dtype=float) * step)
    answers = [
        ad.release(
            pl.DataFrame(rows, schema=list("abc")),
            schema,
            ad.DPPro(dimension=2, projection="gaussian"),
            ad.Budget(1.0),
            seed=ad.PublicSeed.given("clip"),
            row_bound=bound,
        ).table.to_numpy()
        for rows in (long, short)
    ]
    assert np.allclose(*answers, atol=1e-3)
