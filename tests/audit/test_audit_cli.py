"""`adumbra audit` as a user types it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from adumbra.mechanisms.catalogue import catalogue

FEW = ("--runs", 100)


def test_a_mechanism_is_audited_and_a_page_is_written(cli, home):
    page = "audit.html"
    found = cli("audit", "tables", "--relation", "replace", *FEW, "--out", page)
    assert found.code == 0, found.err
    for word in ("tables", "row/replace", "not refuted", "lower bound", "can refute a promise, never prove it"):
        assert word in found.out
    assert "page written" in found.err
    again = cli("audit", "tables", *FEW, "--out", page)
    assert again.code == 2 and "exists" in again.err


def test_json_has_what_scripts_look_for(cli):
    found = cli("audit", "dppro", "--unit", "cell", "--relation", "replace", "--delta", 0, *FEW, "--json")
    assert found.code == 0, found.err
    report = json.loads(found.out)
    assert report["refuted"] == 0 and report["confidence"] == 0.999
    methods = {f["method"] for f in report["findings"]}
    assert {"one-run", "classifier"} < methods
    for finding in report["findings"]:
        assert {"claimed", "lower_bound", "confidence", "runs", "verdict"} <= set(finding)
        assert finding["target"] == "dppro" and finding["neighbours"] == "cell/replace"


def test_a_papers_form_is_refuted_with_exit_code_one(cli):
    found = cli("audit", "csm", "--published", "--runs", 40_000)
    assert found.code == 1
    assert "REFUTED" in found.out and "not refuted" in found.out and "cannot hold" in found.err


def test_options_of_the_mechanism_are_taken(cli):
    found = cli("audit", "tables", "--relation", "replace", "--bins", 3, *FEW)
    assert found.code == 0, found.err
    assert cli("audit", "tables", "--bin", 3, *FEW).code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "adumbra audit --all"),
        (("tables", "--all"), "more than one"),
        (("tabels",), "did you mean tables?"),
        (("tables", "--published"), "a paper's form"),
        (("tables", "--unit", "cell"), "a promise that tables makes"),
        (("tables", "--epsilon", -1), "epsilon"),
        (("tables", "--delta", 2), "delta"),
        (("tables", "--runs", 3), "at least 100"),
        (("tables", "--confidence", 1), "confidence"),
        (("--all", "--unit", "cell"), "name a mechanism"),
        (("--attacks", "--out", "x.html"), "options that --attacks uses"),
        (("dppro", "--published", "--delta", 0), "delta"),
        (("no-such-folder", "--truth", "t.csv", "--holdout", "h.csv"), "release folder"),
        (("no-such-folder", "--truth", "t.csv"), "--holdout"),
        (("tables", "--out", "no/such/place/page.html", *FEW), "a folder that exists"),
    ],
)
def test_bad_usage_is_explained(cli, words, said):
    found = cli("audit", *words)
    assert found.code == 2, found
    assert said in found.err and "Traceback" not in found.err


def test_a_release_is_attacked_with_its_truth_and_a_holdout(cli, home):
    people = pl.DataFrame(
        {"age": [20.0 + i % 60 for i in range(240)], "ill": ["yes" if i % 3 else "no" for i in range(240)]}
    )
    people[:120].write_csv("truth.csv")
    people[120:].write_csv("holdout.csv")
    home.write(
        "schema.toml",
        '[table]\nname = "people"\n[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\n'
        '[columns.ill]\nkind = "category"\nvalues = ["no", "yes"]\n',
    )
    made = cli(
        "release",
        "truth.csv",
        "--schema",
        "schema.toml",
        "--epsilon",
        1,
        "--mechanism",
        "tables",
        "--rows",
        200,
        "--out",
        "release",
    )
    assert made.code == 0, made.err
    found = cli("audit", "release", "--truth", "truth.csv", "--holdout", "holdout.csv", "--column", "ill", "--json")
    assert found.code == 0, found.err
    assert "for the owner only" in found.err
    names = [attack["name"] for attack in json.loads(found.out)["attacks"]]
    assert names == ["membership", "attribute"]
    alone = cli("audit", "release")
    assert alone.code == 2 and "--truth and --holdout" in alone.err


def test_help_names_every_mechanism(cli):
    found = cli("audit", "--help")
    assert found.code == 0
    assert all(f"{name}:" in found.out for name in catalogue())
    assert "never" in found.out
