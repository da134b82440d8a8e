"""Caps: what may be asked for, how one is corrected, and a ledger pinned by the hash on a card."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import adumbra as ad
from adumbra.common.errors import InputError, Refused
from adumbra.declare.guarantee import Neighbours, Promise, Relation, Unit
from adumbra.ledger.ledger import Cap, Ledger
from adumbra.mechanisms.catalogue import build, catalogue
from tests.conftest import Home, Result
from tests.ledger.test_ledger import CELL, ROW, charge, laplace
from tests.ledger.test_ledger_content import BAD, CAP, written

Cli = Callable[..., Result]
RELEASE = ("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "dppro", "--seed", "s")
NO_TABLE = [None, 5, b"patients", Path("patients"), "", "\ud800", "x" * 1001, ["patients"]]
NO_NEIGHBOURS = [None, "", "nonsense", "row", "row/", "row/gone", "cell/add-remove", 5, ("row", "replace"), Unit.ROW]
NO_NUMBER = [None, "1", True, np.True_, float("nan"), float("inf"), 10**400, 10**5000, np.ones(1), np.array(1.0), 1j,
             Decimal(1), -1.0]  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db")


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", NO_TABLE, ids=lambda value: repr(value)[:20])
def test_a_table_must_be_named(ledger: Ledger, table: object) -> None:
    promise = Promise(1.0, 1e-6, ROW)
    for use in (
        lambda: ledger.set_cap(table, ROW, 1.0, 0.0),
        lambda: ledger.remove_cap(table, ROW),
        lambda: ledger.spent(table, ROW, 0.0),
        lambda: ledger.events(table),
        lambda: ledger.charge(
            table=table, release_id="r", mechanism="m", promise=promise, events={"rows": laplace(0.1)}
        ),
    ):
        with pytest.raises(InputError, match="table"):
            use()
    assert not ledger.path.exists()


@pytest.mark.parametrize("neighbours", NO_NEIGHBOURS, ids=repr)
def test_neighbours_must_mean_something(ledger: Ledger, neighbours: object) -> None:
    for use in (
        lambda: ledger.set_cap("patients", neighbours, 1.0, 0.0),
        lambda: ledger.spent("patients", neighbours, 0.0),
    ):
        with pytest.raises(InputError):
            use()
    assert not ledger.path.exists()


@pytest.mark.parametrize("number", NO_NUMBER, ids=lambda value: type(value).__name__)
def test_epsilon_and_delta_must_be_numbers(ledger: Ledger, number: object) -> None:
    for use in (
        lambda: ledger.set_cap("patients", ROW, number, 0.0),
        lambda: ledger.set_cap("patients", ROW, 1.0, number),
        lambda: ledger.spent("patients", ROW, number),
    ):
        with pytest.raises(InputError):
            use()
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 0), (np.float64(1.0), np.float32(0.0)), (np.int64(1), 0.0), (Fraction(1), Fraction(0))]
)
@pytest.mark.parametrize("neighbours", [ROW, "row/replace", Neighbours("row", "replace")])  # type: ignore[arg-type]
def test_what_means_the_same_is_the_same_cap(
    ledger: Ledger, epsilon: float, delta: float, neighbours: Neighbours | str
) -> None:
    ledger.set_cap("patients", neighbours, epsilon, delta)
    assert ledger.caps("patients") == [Cap(ROW, 1.0, 0.0)]
    assert ledger.spent("patients", neighbours, delta) == 0.0
    charge(ledger, laplace(0.9))
    with pytest.raises(Refused):
        charge(ledger, laplace(0.2))


@pytest.mark.parametrize("name", ["release_id", "mechanism", "line"])
@pytest.mark.parametrize("text", [None, "", 5, "\ud800"])
def test_a_charge_is_named_too(ledger: Ledger, name: str, text: object) -> None:
    words: dict[str, object] = {"release_id": "r", "mechanism": "m", "line": "rows"} | {name: text}
    line = words.pop("line")
    with pytest.raises(InputError, match=name):
        ledger.charge(table="t", promise=Promise(1.0, 1e-6, ROW), events={line: laplace(0.1)}, **words)
    with pytest.raises(InputError, match="events"):
        ledger.charge(table="t", release_id="r", mechanism="m", promise=Promise(1.0, 1e-6, ROW), events={})
    assert not ledger.path.exists()


def test_names_of_any_characters_are_told_apart(ledger: Ledger) -> None:
    names = ["a\nb", "a\x1b[2Jb", "\u202egnp", " ", "'; DROP TABLE lines", "名前", "x" * 1000]
    for name in names:
        charge(ledger, laplace(0.1), table=name)
    assert ledger.tables() == sorted(names)
    assert all(len(ledger.events(name)) == 1 for name in names) and ledger.check() == []


# --- correcting a cap ------------------------------------------------------------------------------------------------


def test_a_cap_is_raised_lowered_and_withdrawn_and_all_of_it_is_recorded(cli: Cli, home: Home) -> None:
    ledger = Ledger(home.ledger)
    for epsilon in ("0.1", "3", "0.2"):
        assert cli("ledger", "cap", "patients", "--epsilon", epsilon).code == 0
    assert cli(*RELEASE, "--out", "r").code == 1
    withdrawn = cli("ledger", "cap", "patients", "--remove")
    assert (withdrawn.code, withdrawn.out) == (0, "cap for patients withdrawn: row/replace\n")
    assert ledger.caps("patients") == []
    assert cli(*RELEASE, "--out", "r").code == 0
    assert [entry.kind for entry in ledger.entries()] == ["cap", "cap", "cap", "withdrawal", "charge"]
    assert "withdraws the cap of line 3" in cli("ledger", "show").out and ledger.check() == []
    again = cli("ledger", "cap", "patients", "--remove")  # those it replaced do not come back, so none stands
    assert again.code == 1 and "caps that stand: none" in again.err


def test_a_cap_below_what_is_spent_says_so(cli: Cli, home: Home) -> None:
    assert cli(*RELEASE, "--out", "r").code == 0
    spent = Ledger(home.ledger).spent("patients", Neighbours.of("row/replace"), 1e-6)
    above = cli("ledger", "cap", "patients", "--epsilon", spent + 1)
    below = cli("ledger", "cap", "patients", "--epsilon", spent / 2)
    assert above.code == below.code == 0 and "already spent" not in above.err
    assert f"epsilon {spent:.4g} at delta 1e-06 is already spent on patients (row/replace)" in below.err
    assert "every further release will be refused" in below.err and cli(*RELEASE, "--out", "s").code == 1


def test_only_the_cap_that_is_meant_is_withdrawn(ledger: Ledger) -> None:
    for table, neighbours in (("patients", ROW), ("patients", CELL), ("staff", ROW)):
        ledger.set_cap(table, neighbours, 0.3, 0.0)
    for wrong in (
        {"neighbours": "row/zero-out"},
        {"line": 3},  # of staff
        {"line": 4},
    ):
        with pytest.raises(Refused):
            ledger.remove_cap("patients", **wrong)
    with pytest.raises(InputError):
        ledger.remove_cap("patients")
    with pytest.raises(InputError):
        ledger.remove_cap("patients", ROW, line=1)
    ledger.remove_cap("patients", ROW)
    assert ledger.caps("patients") == [Cap(CELL, 0.3, 0.0)] and ledger.caps("staff") == [Cap(ROW, 0.3, 0.0)]
    charge(ledger, laplace(2.0))
    with pytest.raises(Refused, match="cell/replace"):
        charge(ledger, laplace(2.0))
    with pytest.raises(Refused):
        charge(ledger, laplace(2.0), table="staff")
    ledger.set_cap("patients", ROW, 2.5, 0.0)
    with pytest.raises(Refused, match="row/replace"):
        charge(ledger, laplace(0.9))


def test_a_charge_cannot_be_withdrawn(ledger: Ledger) -> None:
    charge(ledger, laplace(0.5))
    with pytest.raises(Refused):
        ledger.remove_cap("patients", line=1)
    assert ledger.spent("patients", ROW, 0.0) == 0.5


@pytest.mark.parametrize("name", [name for name in BAD if name.startswith("cap")])
def test_a_cap_without_meaning_is_withdrawn_by_its_number(cli: Cli, home: Home, name: str) -> None:
    """What an earlier version took for a cap, or somebody wrote: it stops its table until it is withdrawn."""
    ledger = written(home.ledger, BAD[name])
    assert cli(*RELEASE, "--out", "r").code in (1, 2)
    problem = cli("ledger", "check")
    assert problem.code == 1 and "ledger cap NAME --remove --line 2" in problem.err
    assert cli("ledger", "cap", "patients", "--remove", "--line", "2").code == 0
    assert cli("ledger", "check").code == 0 and cli("ledger", "show").code == 0
    assert cli(*RELEASE, "--out", "r").code == 0
    ledger.set_cap("patients", ROW, 1.1, 1e-6)
    assert cli(*RELEASE, "--out", "q").code == 1


def test_a_cap_that_can_be_told_is_corrected_by_setting_it(tmp_path: Path) -> None:
    ledger = written(tmp_path / "l.db", CAP | {"epsilon": "five"})
    with pytest.raises(InputError, match="line 2"):
        charge(ledger, laplace(0.1))
    ledger.set_cap("patients", ROW, 5.0, 1e-6)
    charge(ledger, laplace(0.1))
    assert ledger.check() == []


def test_an_older_version_refuses_a_ledger_with_a_withdrawal(ledger: Ledger) -> None:
    """It reads format 1 only, and would hold a withdrawn cap to be in force, or not know the line."""

    def form() -> int:
        db = sqlite3.connect(ledger.path)
        (found,) = db.execute("PRAGMA user_version").fetchone()
        db.close()
        return int(found)

    ledger.set_cap("patients", ROW, 1.0, 0.0)
    charge(ledger, laplace(0.1))
    assert form() == 1
    with pytest.raises(Refused):
        ledger.remove_cap("patients", CELL)
    assert form() == 1  # nothing was written
    ledger.remove_cap("patients", ROW)
    charge(ledger, laplace(5.0))
    assert form() == 2 and ledger.check() == []


@pytest.mark.parametrize(
    "words", [(), ("--epsilon", "1", "--remove"), ("--epsilon", "1", "--line", "1"), ("--line", "1")]
)
def test_one_thing_at_a_time(cli: Cli, home: Home, words: tuple[str, ...]) -> None:
    result = cli("ledger", "cap", "patients", *words)
    assert result.code == 2 and "to do: " in result.err and not home.ledger.exists()


def test_nothing_is_withdrawn_from_a_ledger_that_is_not_there(cli: Cli, home: Home) -> None:
    assert cli("ledger", "cap", "patients", "--remove").code == 2
    assert not home.ledger.exists()


# --- the hash on the card --------------------------------------------------------------------------------------------


def test_the_card_pins_the_ledger(cli: Cli, home: Home) -> None:
    for name in ("a", "b"):
        assert cli(*RELEASE, "--out", name).code == 0
        if name == "a":
            older = home.write("older.db", home.ledger.read_bytes())
    cards = [json.loads((home.path / name / "card.json").read_text()) for name in ("a", "b")]
    heads = [card["ledger_head"] for card in cards]
    assert heads == [entry.hash for entry in Ledger(home.ledger).entries()]
    for name, head in zip(("a", "b"), heads, strict=True):
        assert head in (home.path / name / "card.md").read_text()
    whole = cli("ledger", "check", "--expect", heads[0], "--expect", heads[1].upper())
    assert whole.code == 0
    assert (
        whole.out
        == f"whole: 2 lines, chain unbroken\npinned up to line 1: {heads[0]}\npinned up to line 2: {heads[1]}\n"
    )
    assert cli("ledger", "check", "--expect-card", "a", "--expect-card", "b").code == 0
    facts = json.loads(cli("ledger", "check", "--expect-card", "b", "--json").out)
    assert (facts["head"], facts["expected"], facts["lines"]) == (heads[1], {heads[1]: 2}, 2)
    # an older copy passes every check of its own
    assert cli("ledger", "check", "--ledger", older).code == 0
    for words in (("--expect", heads[1]), ("--expect-card", "b")):
        refused = cli("ledger", "check", "--ledger", older, *words)
        assert refused.code == 1 and f"no line has the hash {heads[1]}" in refused.err
    assert cli("ledger", "check", "--ledger", older, "--expect-card", "a").code == 0


def test_a_ledger_written_anew_does_not_hold_the_hash(ledger: Ledger, tmp_path: Path) -> None:
    receipt = charge(ledger, laplace(0.5))
    assert ledger.check(expect=[receipt.hash]) == [] == ledger.check(expect=receipt.hash)
    forged = Ledger(tmp_path / "forged.db")
    charge(forged, laplace(0.1))
    assert forged.check() == []
    assert forged.check(expect=[receipt.hash]) == [f"no line has the hash {receipt.hash}"]


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "0" * 63, "0" * 65])
def test_an_expected_hash_is_a_hash(cli: Cli, home: Home, text: str) -> None:
    Ledger(home.ledger).set_cap("x", ROW, 1.0, 0.0)
    result = cli("ledger", "check", "--expect", text)
    assert result.code == 2 and "64 hexadecimal" in result.err


def test_a_card_that_names_no_ledger_or_another_release(cli: Cli, home: Home) -> None:
    ad.release(home.table, home.schema, ad.DPPro(dimension=1), ad.Budget(1.0), out=home.path / "free")
    assert cli(*RELEASE, "--out", "r").code == 0
    assert cli("ledger", "check", "--expect-card", "free").code == 2
    assert cli("ledger", "check", "--expect-card", "nowhere").code == 2
    shutil.copytree(home.path / "r", home.path / "other")
    card = home.path / "other" / "card.json"
    card.write_text(card.read_text().replace(json.loads(card.read_text())["release_id"], "0" * 16))
    refused = cli("ledger", "check", "--expect-card", "other")
    assert refused.code == 1 and "is not the charge of release" in refused.err


@pytest.mark.parametrize("spelling", [str.upper, str.title, lambda head: f" {head}\n"])
def test_a_hash_spelt_otherwise_hides_no_other_release(cli: Cli, home: Home, spelling: Callable[[str], str]) -> None:
    assert cli(*RELEASE, "--out", "r").code == 0
    shutil.copytree(home.path / "r", home.path / "other")
    path = home.path / "other" / "card.json"
    card = json.loads(path.read_text())
    head = spelling(card["ledger_head"])
    path.write_text(json.dumps(card | {"ledger_head": head}))
    assert cli("ledger", "check", "--expect-card", "other").code == 0
    path.write_text(json.dumps(card | {"ledger_head": head, "release_id": "0" * 16}))
    for words in ((), ("--expect-card", "r")):  # nor does the release that it is the charge of
        refused = cli("ledger", "check", "--expect-card", "other", *words)
        assert refused.code == 1 and "is not the charge of release 0000000000000000" in refused.err


def test_a_cap_that_admits_nothing_more_is_remarked_on_at_once(cli: Cli, home: Home) -> None:
    """Rows were released under replace: that has no finite cost for add-remove, whatever the cap."""
    assert cli(*RELEASE, "--out", "r").code == 0
    (name,) = Ledger(home.ledger).tables()
    assert "no finite cost" not in cli("ledger", "cap", name, "--epsilon", "9").err
    for words in ((), ("--json",)):
        done = cli("ledger", "cap", name, "--epsilon", "9", "--relation", "add-remove", *words)
        assert done.code == 0
        assert (
            "no finite cost for row/add-remove at delta 1e-06: nothing more can be charged under this cap" in done.err
        )
    refused = cli(*RELEASE, "--out", "again")
    assert refused.code == 1 and "what is already spent has no finite epsilon there" in refused.err
    assert "--remove --unit row --relation add-remove" in refused.err
    for words in ("inf ", "ask for less", "raise the cap"):
        assert words not in refused.err
    assert cli("ledger", "cap", name, "--remove", "--unit", "row", "--relation", "add-remove").code == 0
    assert cli(*RELEASE, "--out", "again").code == 0


def test_a_release_without_finite_cost_is_told_the_neighbours_of_the_cap(cli: Cli, home: Home) -> None:
    name = ("--name", "patients")
    assert cli("ledger", "cap", "patients", "--epsilon", "9", "--relation", "add-remove").code == 0
    refused = cli(*RELEASE, *name, "--out", "r")
    assert refused.code == 1 and "no finite epsilon with this release (0 is already spent)" in refused.err
    assert "those neighbours (--unit row --relation add-remove)" in refused.err and "ask for less" not in refused.err


@pytest.mark.parametrize("seed", ["", "  "])
def test_an_empty_seed_is_refused_and_nothing_is_charged(cli: Cli, home: Home, seed: str) -> None:
    refused = cli(*RELEASE[:-1], seed, "--out", "r")
    assert refused.code == 2 and "an empty one" in refused.err and not home.ledger.exists()


def test_a_card_of_an_earlier_version_has_no_hash_and_loads(home: Home) -> None:
    done = ad.release(home.table, home.schema, ad.DPPro(dimension=1), ad.Budget(1.0), ledger=Ledger(home.ledger))
    old = {key: value for key, value in done.card.model_dump().items() if key != "ledger_head"}
    assert type(done.card).model_validate(old).ledger_head is None


ADD_REMOVE = [name for name, m in catalogue().items() if hasattr(m, "run") and Relation.ADD_REMOVE in m.relations]


@pytest.mark.parametrize("name", ADD_REMOVE)
def test_what_is_hashed_does_not_know_the_number_of_rows(name: str) -> None:
    """Under add-remove that number is private, and the hash on the card is of the events among other things."""
    columns: dict[str, object] = {n: {"kind": "number", "low": 0, "high": 1} for n in "ab"}
    schema = ad.Schema.from_dict({"columns": columns | {"c": {"kind": "category", "values": [0.5, 1.0]}}})
    budget = ad.Budget(1.0, 0.0 if build(name, {}).deltas == "zero" else 1e-6, relation=Relation.ADD_REMOVE)
    found = []
    for rows in (1, 2, 1000):
        table = np.full((rows, 3), 0.5)
        planned = ad.plan(table, schema, build(name, {}), budget, seed=ad.PublicSeed.given("same"))
        found.append({line: c.event.to_json() for line, c in planned.calibrations.items()})
    assert found[0] == found[1] == found[2]
