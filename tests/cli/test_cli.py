"""Every command does what its contract says, in process and in a process of its own."""

from __future__ import annotations

import ast
import csv
import errno
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import adumbra
from adumbra.cli.output import print_frame
from adumbra.declare.schema import Schema
from adumbra.ledger.ledger import Ledger
from tests.conftest import SCHEMA, TABLE, Home, Result, finished, spawn

Cli = Callable[..., Result]

COMMANDS = [
    (),
    ("schema",),
    ("plan",),
    ("release",),
    ("verify",),
    ("mechanisms",),
    ("keygen",),
    ("audit",),
    ("evaluate",),
    ("basis",),
    ("dictionary",),
    ("answer",),
    ("ledger",),
    ("ledger", "show"),
    ("ledger", "check"),
    ("ledger", "cap"),
    ("jupa",),
    ("jupa", "fit"),
    ("jupa", "apply"),
    ("jupa", "reference"),
    ("jupa", "tradeoff"),
    *(("answer", "DIR", name) for name in (
        "distance", "neighbours", "count", "mean", "linear", "moment", "range", "workload", "reconstruct", "axes",
        "project", "marginal", "ask",
    )),
]  # fmt: skip
DEFAULT = ("--schema", "s.toml", "--epsilon", "1")
JOB = (*DEFAULT, "--mechanism", "dppro")


def release(cli: Cli, out: str, *more: object, job: tuple[str, ...] = JOB) -> Result:
    result = cli("release", "t.csv", *job, "--out", out, *more)
    assert result.code == 0, result.err
    return result


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words, "--help")
    assert result.code == 0
    assert result.out.startswith("Usage: adumbra")
    assert result.err == ""


def test_no_command_is_missing_from_the_help_test(cli: Cli) -> None:
    for group in ((), ("answer",), ("ledger",), ("jupa",)):
        listed = re.findall(r"^  ([a-z]+)  ", cli(*group, "--help").out.split("Commands:")[1], re.MULTILINE)
        tested = {words[-1] for words in COMMANDS if words and words[:-1] in (group, (*group, "DIR"))}
        assert set(listed) == tested


@pytest.mark.parametrize("command", ["release", "plan"])
def test_help_lists_every_mechanism_with_its_options_and_the_default(cli: Cli, command: str) -> None:
    out = cli(command, "--help").out
    for mechanism in json.loads(cli("mechanisms", "--json").out):
        (line,) = re.findall(rf"^  {mechanism['name']}: (.*)$", out, re.MULTILINE)
        assert line.split(", ") == ([f"--{name.replace('_', '-')}" for name in mechanism["options"]] or ["none"])
    assert re.search(r"--mechanism.*?default:\s+\(auto\)", out, re.DOTALL)


def test_the_catalogue_is_written_for_people(cli: Cli, home: Home) -> None:
    """Choices instead of Python's types, code as code, and something to read where there is nothing to list."""
    out = " ".join(cli("mechanisms", "--html", "m.html").out.split())
    assert "--result (axes, coordinates, approximation, samples)" in out and "--input (histogram, records)" in out
    assert "--result (coordinates, approximation)" in out and "--dimension (whole number)" in out
    assert not re.search(r"--[a-z-]+ \((str|int|float|bool|tuple|Result|PureNoise)\b", out)
    assert "answers those of the chosen mechanism" in out and "options none" in out
    page = (home.path / "m.html").read_text()
    assert "<code>adumbra plan</code>" in page and "`" not in page


def test_without_a_command_it_shows_help(cli: Cli) -> None:
    result = cli()
    assert (result.code, result.out) == (2, "")
    assert "Commands:" in result.err
    assert cli("--version").out == f"adumbra {adumbra.__version__}\n"


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys, adumbra.cli.main; "
        "print([m for m in ('numpy', 'polars', 'pyarrow', 'numba', 'scipy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_public_names_for_people_and_for_type_checkers_agree() -> None:
    tree = ast.parse(Path(adumbra.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {
        alias.name: node.module.removeprefix("adumbra.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert declared == adumbra._HOMES  # type: ignore[attr-defined]
    for name in declared:
        assert getattr(adumbra, name).__name__ == name
        assert name in dir(adumbra)
    with pytest.raises(AttributeError, match="nonsense"):
        adumbra.nonsense  # type: ignore[attr-defined] # noqa: B018


# ---- schema


def test_a_draft_is_not_accepted_until_it_is_confirmed(cli: Cli, home: Home) -> None:
    assert cli("schema", "t.csv", "--out", "draft.toml").code == 0
    draft = (home.path / "draft.toml").read_text()
    assert cli("schema", "t.csv").out == draft
    assert json.loads(cli("schema", "t.csv", "--json").out)["draft"] == draft
    refused = cli("release", "t.csv", "--schema", "draft.toml", "--epsilon", "1", "--out", "r")
    assert refused.code == 2
    assert home.charges() == 0
    home.write("confirmed.toml", re.sub(r"^# ", "", draft, flags=re.MULTILINE))
    for mechanism in ("dppro", "auto"):
        words = ("--schema", "confirmed.toml", "--epsilon", "1", "--mechanism", mechanism, "--out", mechanism)
        assert cli("release", "t.csv", *words).code == 0


def test_a_draft_never_overwrites(cli: Cli, home: Home) -> None:
    result = cli("schema", "t.csv", "--out", "s.toml")
    assert result.code == 2
    assert home.schema.read_text() == SCHEMA


# ---- plan


def test_plan_in_json_says_what_would_happen(cli: Cli, home: Home) -> None:
    facts = json.loads(cli("plan", "t.csv", *JOB, "--json").out)
    assert (facts["rows"], facts["columns"], facts["coordinates"]) == (6, 4, 6)
    assert (facts["epsilon"], facts["delta"], facts["unit"], facts["relation"]) == (1, 1e-6, "row", "replace")
    (line,) = facts["lines"]
    assert line["sigma"] > 0
    assert line["sensitivity"] > 0
    assert facts["outlook"]
    assert facts["ledger_charges_before"] == 0
    assert facts["costs"]["row/replace"] <= 1 + 1e-6
    assert {p.name for p in home.path.iterdir()} == {"t.csv", "s.toml"}


def test_plan_uses_no_value_of_the_table(cli: Cli, home: Home) -> None:
    home.write("other.csv", "id,age,sex,smoker,outcome\n" + "9,1e308,nobody,?,\n" * 6)
    plans = [cli("plan", table, *JOB, "--seed", "public", "--name", "x", "--json") for table in ("t.csv", "other.csv")]
    assert plans[0] == plans[1]
    assert plans[0].code == 0


def test_plan_and_release_agree_on_the_noise(cli: Cli) -> None:
    more = ("--unit", "cell", "--seed", "public")
    planned = json.loads(cli("plan", "t.csv", *JOB, *more, "--json").out)
    card = json.loads(release(cli, "r", *more, "--json").out)
    assert card["noise"]["rows"]["standard_deviation"] == planned["lines"][0]["sigma"]
    assert card["costs"] == planned["costs"]


def test_plan_for_people(cli: Cli) -> None:
    release(cli, "r")
    out = cli("plan", "t.csv", *JOB).out
    assert "promise    epsilon 1, delta 1e-06, unit row, relation replace" in out
    assert "1 earlier and 1 of this release" in out


# ---- release, verify


def test_release_prints_the_card_it_wrote(cli: Cli, home: Home) -> None:
    result = release(cli, "r", "--csv")
    assert result.out.startswith("# Release of patients")
    assert f"released to r; charged to {home.ledger}, table patients" in result.err
    names = {p.name for p in (home.path / "r").iterdir()}
    assert names == {"card.json", "card.md", "data.csv", "data.parquet", "model.npz"}
    assert home.charges() == 1
    assert home.leftovers() == []


def test_release_in_json_is_the_card(cli: Cli, home: Home) -> None:
    printed = json.loads(release(cli, "deep/er/r", "--json").out)
    assert printed.pop("folder") == "deep/er/r"
    assert printed == json.loads((home.path / "deep/er/r/card.json").read_text())


def test_unit_and_relation_are_taken_from_options_then_schema(cli: Cli, home: Home) -> None:
    home.write("s.toml", SCHEMA.replace("[table]\n", '[table]\nunit = "cell"\n', 1))
    assert json.loads(release(cli, "a", "--json").out)["unit"] == "cell"
    card = json.loads(release(cli, "b", "--unit", "row", "--relation", "zero-out", "--json").out)
    assert (card["unit"], card["relation"]) == ("row", "zero-out")
    refused = cli("release", "t.csv", *JOB, "--relation", "add-remove", "--unit", "row", "--out", "c")
    assert refused.code == 2
    assert "row count" in refused.err


def test_mechanism_options_in_both_spellings(cli: Cli) -> None:
    for index, words in enumerate(
        (("--dimension", "3"), ("--dimension=3",), ("--expected", "2", "--projection", "signs"))
    ):
        card = json.loads(release(cli, f"r{index}", *words, "--json").out)
        assert index == 2 or card["options"]["dimension"] == 3
    assert card["options"]["projection"] == card["facts"]["projection"] == "signs"


def test_owner_notes_are_on_stderr_only(cli: Cli, home: Home) -> None:
    home.write("t.csv", TABLE + "7,999,X,maybe,\n")
    result = release(cli, "r", "--row-bound", "0.5")
    assert "age: 0 missing, 0 unknown, 1 out of range" in result.err
    assert "rows clipped" in result.err
    assert "unknown" not in result.out


def test_standard_input_and_compressed_tables(cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(TABLE.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert cli("release", "-", *JOB, "--out", "r").code == 0
    pl.read_csv(home.table).write_parquet(home.path / "t.parquet")
    assert cli("release", "t.parquet", *JOB, "--out", "q").code == 0
    assert cli("release", "*.parquet", *JOB, "--out", "p").code == 0


def test_signing(cli: Cli, home: Home) -> None:
    assert cli("keygen", "mine").code == 0
    assert (home.path / "mine").stat().st_mode & 0o777 == 0o600
    assert json.loads(cli("keygen", "other", "--json").out)["public_key"] == "other.pub"
    release(cli, "r", "--sign", "mine")
    assert "valid for the key it carries" in cli("verify", "r").out
    assert "valid for the key given" in cli("verify", "r", "--public-key", "mine.pub").out
    wrong = cli("verify", "r", "--public-key", "other.pub", "--json")
    assert wrong.code == 1
    assert json.loads(wrong.out)["verified"] is False
    release(cli, "unsigned")
    assert "signature: none" in cli("verify", "unsigned").out
    assert cli("verify", "unsigned", "--public-key", "mine.pub").code == 1
    for bad in (("--sign", "mine.pub"), ("--sign", "absent"), ("--sign", "t.csv")):
        assert cli("release", "t.csv", *JOB, "--out", "x", *bad).code == 2
    assert cli("verify", "r", "--public-key", "mine").code == 2
    assert cli("keygen", "mine").code == 2
    assert cli("keygen", "s.toml").code == 2
    assert home.schema.read_text() == SCHEMA


def test_half_a_key_pair_is_not_left(cli: Cli, home: Home) -> None:
    home.write("key.pub", "taken")
    assert cli("keygen", "key").code == 2
    assert not (home.path / "key").exists()
    assert (home.path / "key.pub").read_text() == "taken"


def test_verify_refuses_a_changed_folder(cli: Cli, home: Home) -> None:
    release(cli, "r")
    assert json.loads(cli("verify", "r", "--json").out) == {
        "folder": "r", "verified": True, "files": 3, "page": "matches", "page_checked": True,
        "signed": False, "fingerprint": None, "signer": None, "signer_proved": False, "problems": []
    }  # fmt: skip
    with (home.path / "r" / "data.parquet").open("ab") as file:
        file.write(b"x")
    result = cli("verify", "r")
    assert (result.code, result.out) == (1, "")
    assert "sha256 differs" in result.err
    assert cli("answer", "r", "distance", "--random", "1").code == 1


def test_a_cap_stops_the_release_before_anything_is_written(cli: Cli, home: Home) -> None:
    assert cli("ledger", "cap", "patients", "--epsilon", "1.1").code == 0
    release(cli, "a", "--seed", "s")  # a given seed costs its epsilon exactly; a fresh one may cost less
    before = home.ledger.read_bytes()
    refused = cli("release", "t.csv", *JOB, "--seed", "s", "--out", "new/b")
    assert refused.code == 1
    assert "nothing was charged" in refused.err
    assert home.ledger.read_bytes() == before
    assert {p.name for p in home.path.iterdir()} == {"t.csv", "s.toml", "adumbra-ledger.db", "a"}


def test_every_printed_epsilon_has_its_unit_and_relation(cli: Cli) -> None:
    printed = [
        cli("plan", "t.csv", *JOB),
        release(cli, "r", "--unit", "cell"),
        cli("ledger", "show"),
        cli("ledger", "cap", "patients", "--epsilon", "5"),
        cli("ledger", "show"),
    ]
    refused = cli("release", "t.csv", *JOB, "--epsilon", "9", "--out", "x")
    assert refused.code == 1
    lines = [line for result in printed for line in (result.out + result.err).splitlines()]
    for line in [*lines, refused.err]:  # an error is one statement on three lines
        if re.search(r"epsilon\W+[0-9]", line):
            assert re.search(r"row|cell", line), line
            assert re.search(r"replace|zero-out|add-remove", line), line


def test_json_epsilons_stand_beside_unit_and_relation(cli: Cli) -> None:
    for words in (
        ("plan", "t.csv", *JOB),
        ("release", "t.csv", *JOB, "--out", "r"),
        ("ledger", "cap", "x", "--epsilon", "1"),
    ):
        found = json.loads(cli(*words, "--json").out)
        assert {"epsilon", "delta", "unit", "relation"} <= set(found)


# ---- answer


def rows_of(result: Result) -> list[dict[str, str]]:
    assert result.code == 0, result.err
    return list(csv.DictReader(io.StringIO(result.out)))


def test_answers_carry_value_and_standard_error(cli: Cli, home: Home) -> None:
    release(cli, "r", "--dimension", "4")
    home.write("pairs.csv", "i,j\n0,1\n2,2\n5,0\n")
    pairs = rows_of(cli("answer", "r", "distance", "--pairs", "pairs.csv"))
    assert [(p["i"], p["j"]) for p in pairs] == [("0", "1"), ("2", "2"), ("5", "0")]
    assert list(pairs[0]) == ["i", "j", "squared_distance", "standard_error"]
    assert float(pairs[1]["squared_distance"]) == 0
    again = json.loads(cli("answer", "r", "distance", "--pairs", "pairs.csv", "--json").out)
    assert again[0]["squared_distance"] == float(pairs[0]["squared_distance"])
    assert len(rows_of(cli("answer", "r", "distance", "--random", "7"))) == 7
    near = json.loads(cli("answer", "r", "neighbours", "--row", "0", "--k", "3", "--json").out)
    assert len(near) == 3
    assert 0 not in {n["row"] for n in near}
    for words in (
        ("count", "--where", "sex=F"),
        ("count", "--where", "smoker=no"),
        ("mean", "--column", "age"),
        ("linear", "--weights", "age=1,smoker=-2.5"),
        ("moment", "--columns", "age,smoker"),
    ):
        for answer in json.loads(cli("answer", "r", *words, "--json").out):
            assert math.isfinite(answer["value"])
            assert answer["standard_error"] > 0
        assert {"value", "standard_error"} <= set(rows_of(cli("answer", "r", *words))[0])


def test_columns_of_pairs_may_stand_in_any_order(cli: Cli, home: Home) -> None:
    release(cli, "r")
    home.write("pairs.csv", "note,j,i\nx,1,0\n")
    (pair,) = rows_of(cli("answer", "r", "distance", "--pairs", "pairs.csv"))
    assert (pair["i"], pair["j"]) == ("0", "1")


def test_questions_this_release_cannot_answer_say_so(cli: Cli) -> None:
    release(cli, "r")
    for words in (("range", "--column", "age", "--from", "1", "--to", "2"), ("workload", "w.csv")):
        result = cli("answer", "r", *words)
        assert result.code == 2
        assert "distance" in result.err


def test_reconstruct_gives_the_schemas_columns(cli: Cli, home: Home) -> None:
    release(cli, "r")
    assert json.loads(cli("answer", "r", "reconstruct", "--out", "back.csv", "--json").out)["rows"] == 6
    assert cli("answer", "r", "reconstruct", "--out", "back.parquet").code == 0
    assert pl.read_csv(home.path / "back.csv").columns == ["age", "sex", "smoker", "outcome"]
    assert pl.read_parquet(home.path / "back.parquet").height == 6
    assert cli("answer", "r", "reconstruct", "--out", "back.csv").code == 2
    assert cli("answer", "r", "reconstruct", "--out", "back.xlsx").code == 2


# ---- mechanisms that release a table in the schema's own columns

DRAWN = ("auto", "hybrid", "moments", "pairs", "tables")
COLUMNS = ["age", "sex", "smoker", "outcome"]


@pytest.mark.parametrize("name", [*DRAWN, "dprp"])
def test_release_plan_verify_and_evaluate_of_each_mechanism(cli: Cli, home: Home, name: str) -> None:
    more = ("--mechanism", name, "--seed", "public", *(() if name == "dprp" else ("--rows", "60")))
    planned = json.loads(cli("plan", "t.csv", *DEFAULT, *more, "--json").out)
    assert home.charges() == 0
    card = json.loads(release(cli, "r", *more, "--csv", "--json").out)
    assert card["mechanism"] == planned["mechanism"] != "auto"
    assert card["rows"] == (6 if name == "dprp" else 60)
    assert card["table_rows"] == 6
    noise = {line["line"]: line["sigma"] for line in planned["lines"]}
    assert {line: found["standard_deviation"] for line, found in card["noise"].items()} == noise
    assert card["costs"] == planned["costs"]
    assert home.charges() == len(noise)
    table = pl.read_parquet(home.path / "r" / "data.parquet")
    assert table.columns == COLUMNS == pl.read_csv(home.path / "r" / "data.csv").columns
    assert set(table["outcome"]) <= {"alive", "dead"}
    assert cli("verify", "r").code == 0
    report = json.loads(cli("evaluate", "r", "--truth", "t.csv", "--json").out)
    assert [column["name"] for column in report["columns"]] == COLUMNS
    assert [label["label"] for label in report["labels"]] == ["outcome"]


@pytest.mark.parametrize("name", DRAWN)
def test_label_rows_and_a_private_number_of_rows(cli: Cli, home: Home, name: str) -> None:
    more = ("--mechanism", name, "--label", "sex,smoker", "--rows", "31", "--relation", "add-remove", "--json")
    planned = json.loads(cli("plan", "t.csv", *DEFAULT, *more).out)
    assert planned["rows"] is None
    assert planned["outlook"]["classes"] == "4"
    assert planned["costs"]["row/add-remove"] <= 1 + 1e-6
    card = json.loads(release(cli, "r", *more).out)
    assert (card["rows"], card["table_rows"], card["relation"]) == (31, None, "add-remove")
    assert card["options"]["label"] == card["facts"]["label"] == ["sex", "smoker"]
    assert "size" in card["noise"]
    assert pl.read_parquet(home.path / "r" / "data.parquet").height == 31
    words = cli("plan", "t.csv", *DEFAULT, *more[:-1]).out
    assert "a private number of rows" in words


@pytest.mark.parametrize(
    ("more", "chosen", "why"),
    [
        ((), "tables", "small table of categories and flags"),
        (("--need", "marginals"), "hybrid", "half of the budget on the tables"),
        (("--relation", "add-remove"), None, ""),
        (("--unit", "cell"), "dppro", "unit cell"),
        (("--row-bound", "1"), "dppro", "row bound"),
        (("--need", "aligned-rows"), "dppro", "one released row for each row"),
    ],
    ids=str,
)
def test_without_a_mechanism_a_public_rule_chooses_and_says_why(
    cli: Cli, more: tuple[str, ...], chosen: str | None, why: str
) -> None:
    facts = json.loads(cli("plan", "t.csv", *DEFAULT, *more, "--json").out)
    assert facts["mechanism"] in ({chosen} if chosen else set(DRAWN) - {"auto"})
    assert facts["choice"]
    assert why in facts["choice"]
    for out in (cli("plan", "t.csv", *DEFAULT, *more).out, release(cli, "r", *more, job=DEFAULT).out):
        assert facts["choice"] in out
        assert re.search(rf"mechanism\W+{facts['mechanism']}:", out)
    asked = json.loads(cli("plan", "t.csv", *DEFAULT, *more, "--mechanism", "auto", "--json").out)
    assert (asked["mechanism"], asked["choice"]) == (facts["mechanism"], facts["choice"])
    assert json.loads(cli("plan", "t.csv", *JOB, "--json").out)["choice"] is None


def test_a_handful_of_categories_gets_tables(cli: Cli, home: Home) -> None:
    category = '[columns.g]\nkind = "category"\nvalues = ["a", "b", "c"]\n'
    home.write("s.toml", category + '[columns.y]\nkind = "flag"\nrole = "label"\n')
    home.write("t.csv", "g,y\n" + "a,yes\nb,no\n" * 20)
    facts = json.loads(cli("plan", "t.csv", *DEFAULT, "--json").out)
    assert facts["mechanism"] == "tables"
    assert "fewer than 150 rows" in facts["choice"]


def test_the_rule_looks_at_no_value(cli: Cli, home: Home) -> None:
    home.write("other.csv", "id,age,sex,smoker,outcome\n" + "9,1e308,nobody,?,\n" * 6)
    for name in (*DRAWN, "dprp"):
        more = ("--mechanism", name, "--seed", "public", "--name", "x", "--json")
        plans = [cli("plan", table, *DEFAULT, *more) for table in ("t.csv", "other.csv")]
        assert plans[0] == plans[1]
        assert plans[0].code == 0


def test_a_flag_of_a_mechanism_takes_a_word(cli: Cli) -> None:
    for word, wanted in (("true", True), ("false", False)):
        more = ("--mechanism", "moments", "--narrow", word, "--rows", "20", "--json")
        assert json.loads(release(cli, word, *more).out)["options"]["narrow"] is wanted


# ---- ledger, mechanisms


def test_ledger_show_and_check(cli: Cli, home: Home) -> None:
    release(cli, "r")
    release(cli, "q", "--name", "other")
    shown = json.loads(cli("ledger", "show", "--json").out)
    assert len(shown["entries"]) == 2
    assert set(shown["totals"]) == {"patients", "other"}
    assert set(shown["totals"]["other"]) == {
        "row/replace", "row/zero-out", "row/add-remove", "cell/replace", "cell/zero-out"
    }  # fmt: skip
    one = json.loads(cli("ledger", "show", "--table", "other", "--delta", "1e-3", "--json").out)
    assert len(one["entries"]) == 1
    assert one["totals"]["other"]["row/replace"] < shown["totals"]["other"]["row/replace"]
    assert cli("ledger", "check").out == "whole: 2 lines, chain unbroken\n"
    assert json.loads(cli("ledger", "check", "--json").out)["whole"] is True
    damaged = home.write("damaged.db", home.ledger.read_bytes().replace(b'"epsilon":1.0', b'"epsilon":0.1'))
    assert cli("ledger", "check", "--ledger", damaged).code == 1
    result = cli("ledger", "check", "--ledger", damaged, "--json")
    assert (result.code, json.loads(result.out)["whole"]) == (1, False)
    assert cli("release", "t.csv", *JOB, "--out", "x", "--ledger", damaged).code == 1
    assert not (home.path / "x").exists()


def test_the_ledger_is_found_by_option_then_environment(cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADUMBRA_LEDGER", str(home.path / "named.db"))
    release(cli, "a")
    release(cli, "b", "--ledger", "given.db")
    assert not home.ledger.exists()
    assert len(json.loads(cli("ledger", "show", "--json").out)["entries"]) == 1
    assert len(json.loads(cli("ledger", "show", "--ledger", "given.db", "--json").out)["entries"]) == 1


def test_mechanisms(cli: Cli) -> None:
    found = json.loads(cli("mechanisms", "--json").out)
    assert [m["name"] for m in found] == [
        "analyze_gauss", "auto", "csm", "dppro", "dprp", "fourier", "hierarchical", "histogram", "hybrid", "items",
        "laplace", "lip", "lop", "moments", "noisy_rows", "pairs", "power_method", "privelet", "sparse",
        "tables",
    ]  # fmt: skip
    for mechanism in found:
        assert {"name", "units", "relations", "guarantee", "releases", "references"} <= set(mechanism)
        assert mechanism["name"] in cli("mechanisms").out


# ---- a process of its own


def test_the_whole_way_in_processes(home: Home) -> None:
    assert finished(spawn(home, "release", "t.csv", *JOB, "--out", "r")).code == 0
    answered = finished(spawn(home, "answer", "r", "distance", "--random", "2"))
    assert len(answered.out.splitlines()) == 3
    refused = finished(spawn(home, "release", "t.csv", *JOB, "--out", "r"))
    assert refused.code == 2
    assert refused.err.startswith("error: expected")


def test_a_reader_that_leaves_early_is_no_error(home: Home) -> None:
    process = spawn(home, "mechanisms", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_an_output_that_is_full_hides_nothing_that_was_done(home: Home, form: tuple[str, ...]) -> None:
    """Keys that were written, a cap that stands or is withdrawn."""
    cap = ("ledger", "cap", "patients")
    commands = {
        ("keygen", "key"): "the keys are written: key and key.pub",
        (*cap, "--epsilon", "1"): f"the cap stands in {home.ledger}",
        (*cap, "--remove"): f"the cap is withdrawn in {home.ledger}",
    }
    for words, said in commands.items():
        with Path("/dev/full").open("w") as full:
            python = [sys.executable, "-m", "adumbra.cli.main", *words, *form]
            done = subprocess.run(python, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 4
        assert said in done.stderr and "standard output" in done.stderr
    assert (home.path / "key").exists() and (home.path / "key.pub").exists()
    assert [entry.kind for entry in Ledger(home.ledger).entries()] == ["cap", "withdrawal"]


def test_a_utility_release_that_cannot_be_printed_says_that_nothing_was_charged(
    cli: Cli, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ("jupa", "fit", "t.csv", "--utility", "smoker", "--privacy", "sex", "--drop", "id", "--release", "coarse")
    assert cli(*fit, "--out", "m").code == 0

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("adumbra.cli.jupa_command.print_markdown", full)
    done = cli("jupa", "apply", "m", "t.csv", "--out", "r")
    assert done.code == 4
    assert "r is complete, and nothing was charged for it" in done.err
    assert (home.path / "r" / "card.json").exists() and home.charges() == 0


def test_answers_are_exact_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV is data: a letter that stdout has no place for is not replaced by something else. JSON has an escape."""
    page = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(page, encoding="ascii", errors="backslashreplace"))
    answers = pl.DataFrame({"größe": ["\U0001f600"], "standard error": [0.5]})
    with pytest.raises(adumbra.InputError, match="PYTHONIOENCODING=utf-8"):
        print_frame(answers, as_json=False)
    assert page.getvalue() == b""
    print_frame(answers, as_json=True)
    assert json.loads(page.getvalue()) == answers.to_dicts()


def test_a_defect_is_named_without_its_text(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Schema:
        raise RuntimeError("cell 4711")

    monkeypatch.setattr(Schema, "load", broken)
    result = cli("plan", "t.csv", *JOB)
    assert result.code == 3
    assert "RuntimeError" in result.err
    assert "4711" not in result.err
    monkeypatch.setenv("ADUMBRA_TRACEBACK", "1")
    assert "4711" in cli("plan", "t.csv", *JOB).err


def test_a_real_table(cli: Cli, home: Home, shared_data: Path) -> None:
    table = shared_data / "wdbc.csv.gz"
    assert cli("schema", table, "--out", "draft.toml").code == 0
    draft = (home.path / "draft.toml").read_text()
    home.write("real.toml", re.sub(r"^# ", "", draft, flags=re.MULTILINE))
    words = ("--schema", "real.toml", "--epsilon", "4", "--json")
    result = cli("release", table, *words, "--mechanism", "dppro", "--out", "r")
    assert result.code == 0, result.err
    assert json.loads(result.out)["rows"] == 569
    assert cli("verify", "r").code == 0
    drawn = cli("release", table, *words, "--rows", "700", "--out", "drawn")
    assert drawn.code == 0, drawn.err
    card = json.loads(drawn.out)
    assert (card["rows"], card["table_rows"]) == (700, 569)
    assert pl.read_parquet(home.path / "drawn" / "data.parquet").columns == pl.read_csv(table, n_rows=1).columns
