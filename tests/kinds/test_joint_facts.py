"""What was measured of pairs and triples stands on the card of a drawn table, in types and in words."""

from __future__ import annotations

import json

import polars as pl
import pytest

import adumbra as ad
from adumbra.kinds.joint_facts import JointFacts
from adumbra.kinds.kind import kind_named
from adumbra.kinds.synthetic_table import PredictedError, SyntheticTableFacts
from adumbra.releases.card_page import card_document, card_markdown
from adumbra.report.html import html_page

NAMES = tuple(f"c{i}" for i in range(24))
JOINT = JointFacts(
    columns=NAMES,
    cells=(2, 32, *[7] * 22),
    pairs=276,
    kept=218,
    triples=253,
    kept_triples=12,
    pair_sd=81.234,
    triple_sd=140.5,
    kept_above=0.0151,
    strongest=JointFacts.strongest_of(
        (a, b, (i + 7 * j) / 1000) for i, a in enumerate(NAMES) for j, b in enumerate(NAMES) if i < j
    ),
)
FACTS = SyntheticTableFacts(joint=JOINT, predicted_error=PredictedError(marginal_tv=0.01, pair_tv=0.0234))


@pytest.fixture
def card() -> ad.Card:
    schema = ad.Schema.from_dict({"columns": {name: {"kind": "flag"} for name in NAMES}})
    rows = pl.DataFrame({name: [True, False] * 30 for name in NAMES})
    made = ad.release(rows, schema, ad.Tables(rows=5), ad.Budget(1.0)).card
    words = kind_named("synthetic_table").words(FACTS)
    return made.model_copy(update={"facts": FACTS.model_dump(mode="json"), "words": words})


def test_strongest_pairs_come_first_and_are_few():
    assert len(JOINT.strongest) == 20
    assert [pair.strength for pair in JOINT.strongest] == sorted((p.strength for p in JOINT.strongest), reverse=True)
    assert (JOINT.strongest[0].a, JOINT.strongest[0].b) == ("c22", "c23")
    assert JointFacts.strongest_of([("a", "b", 0.0)]) == ()


def test_facts_come_back_from_a_card(card):
    read = ad.Card.model_validate_json(card.model_dump_json())
    assert kind_named(read.kind).facts(read) == FACTS


def test_cards_from_before_pairs_were_measured_open(card):
    old = json.loads(card.model_dump_json())
    del old["facts"]["joint"], old["facts"]["predicted_error"]["pair_tv"]
    facts = kind_named("synthetic_table").facts(ad.Card.model_validate(old))
    assert facts.joint is None and facts.predicted_error.known() == {"marginal_tv": 0.01}
    words = kind_named("synthetic_table").words(facts)
    assert words.tables == {} and "measured jointly" not in words.facts


def test_a_card_that_says_something_else_is_refused(card):
    for change in ({"pairs": "many"}, {"odd": 1}, {"strongest": [{"a": "x"}]}):
        facts = {**card.facts, "joint": {**card.facts["joint"], **change}}
        with pytest.raises(ad.InputError, match="facts of its kind"):
            kind_named("synthetic_table").facts(card.model_copy(update={"facts": facts}))


def test_the_page_says_what_was_measured_and_lists_the_strongest_pairs(card):
    for page in (card_markdown(card), html_page(card_document(card))):
        for text in (
            "all 276 pairs of 24 columns, 2 to 32 cells each; 218 of them hold more than noise",
            "standard deviation 81.23 rows",
            "at least about 0.015 from that of independent columns",
            "253 tables; 12 hold more than noise, noise of standard deviation 140.5 rows",
            "Pairs of columns that depend on each other most",
            "0.183",
            "0.0234",
        ):
            assert text in page, text


def test_words_for_a_part_of_the_pairs_and_no_triples():
    told = JointFacts(columns=NAMES[:5], cells=(3,) * 5, pairs=4, kept=4, pair_sd=2.0).told()
    assert told["measured jointly"].startswith("4 of 10 pairs of 5 columns, 3 cells each; 4 of them")
    assert set(told) == {"measured jointly", "noise on a count of a pair"}
