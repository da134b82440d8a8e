"""A mechanism and a kind of release from another package: released, answered, compared, attacked and audited."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.audit import attacks
from adumbra.kinds import kind
from adumbra.mechanisms import catalogue
from tests.kinds.outside import MeansComparison, MeansFacts, OutsideMeans

SCHEMA = ad.Schema.from_dict(
    {"columns": {name: {"kind": "number", "low": 0, "high": 1} for name in ("a", "b")}, "table": {"name": "t"}}
)
TOML = "".join(f'[columns.{n}]\nkind = "number"\nlow = 0\nhigh = 1\n' for n in "ab")


POINTS = """
[adumbra.kinds]
means = tests.kinds.outside:Means
[adumbra.mechanisms]
outside_means = tests.kinds.outside:OutsideMeans
"""
METADATA = "Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package that declares entry points, as far as Python can tell: workers of an audit find it too."""

    def place(points: str) -> None:
        folder = tmp_path / "site" / "outside-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(METADATA)
        (folder / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(folder.parent)
        _forget()

    yield place
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for found in (kind.kinds, catalogue.catalogue):
        found.cache_clear()


@pytest.fixture
def installed(install):
    install(POINTS)


def rows(seed: int, count: int = 200) -> pl.DataFrame:
    numbers = np.random.default_rng(seed).random((count, 2)) ** 2
    return pl.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1]})


def test_a_kind_and_a_mechanism_from_outside_do_all_that_ours_do(installed, tmp_path):
    made = catalogue.build("outside_means", {"digits": "6"})
    release = ad.release(rows(0), SCHEMA, made, ad.Budget(50.0, 1e-6), out=tmp_path / "r")
    assert release.verify() == [] and "| means | 2 |" in (tmp_path / "r" / "card.md").read_text()
    opened = ad.load(tmp_path / "r")
    assert opened.card.options == {"digits": 6} and opened.card.kind == "means"
    assert isinstance(opened.facts, MeansFacts) and opened.facts.coordinates == ("a", "b")
    truth = float(rows(0)["a"].mean()) - 0.5
    assert opened.mean("a") == opened.ask("mean", "a")
    assert abs(opened.mean("a").value - truth) < 6 * opened.mean("a").standard_error
    with pytest.raises(ad.InputError, match="which does not") as refused:
        opened.range("a", 0, 1)
    assert "ask it for one of: mean, largest" in str(refused.value)
    found = ad.evaluate_release(opened, rows(0))
    assert isinstance(found.comparison, MeansComparison) and max(found.errors.values()) < 0.05
    assert json.loads(found.to_json())["errors"].keys() == {"a", "b"}
    attack = attacks.membership(opened, rows(0), rows(1), most=60)
    assert "likelihood" in attack.details["right when choosing"]


def test_the_command_line_knows_them(installed, cli, home):
    rows(0).write_csv("truth.csv")
    rows(1).write_csv("holdout.csv")
    (home.path / "two.toml").write_text(TOML)
    done = cli("release", "truth.csv", "--schema", "two.toml", "--mechanism", "outside_means", "--epsilon", "5",
               "--digits", "6", "--out", "r")  # fmt: skip
    assert done.code == 0, done.err
    assert cli("verify", "r").code == 0
    answer = cli("answer", "r", "mean", "--column", "a", "--json")
    assert answer.code == 0 and "standard_error" in json.loads(answer.out)[0]
    asked = cli("answer", "r", "ask", "largest", "--top", "2", "--among", "a,b", "--json")
    assert asked.code == 0, asked.err
    values = [row["value"] for row in json.loads(asked.out)]
    assert len(values) == 2 and values == sorted(values, reverse=True)
    assert cli("answer", "r", "ask", "largest").out.startswith("value,standard_error")
    assert json.loads(cli("answer", "r", "ask", "mean", "--column", "a", "--json").out) == json.loads(answer.out)
    for words, said in {
        ("largest", "--tpo", "2"): "--top, --among",
        ("largest", "--top", "many"): "--top as the question takes it",
        ("mean",): "no --column",
        ("range", "--column", "a"): "which does not",
    }.items():
        refused = cli("answer", "r", "ask", *words)
        assert refused.code == 2 and said in refused.err
    report = cli("evaluate", "r", "--truth", "truth.csv")
    assert report.code == 0 and "coordinate" in report.out and "in encoded units" in report.out
    attacked = cli("audit", "r", "--truth", "truth.csv", "--holdout", "holdout.csv", "--json")
    assert attacked.code == 0, attacked.err
    audited = cli("audit", "outside_means", "--runs", 100, "--json")
    assert audited.code == 0, audited.err
    assert {finding["target"] for finding in json.loads(audited.out)["findings"]} == {"outside_means"}


def test_a_name_that_is_taken_is_refused(install):
    install("[adumbra.mechanisms]\nx = adumbra.mechanisms.dppro:DPPro\n")
    with pytest.raises(ad.InputError, match="called 'dppro' like another"):
        catalogue.catalogue()


def test_a_kind_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(ad.InputError, match="a kind of release that is known here"):
        ad.release(
            rows(0), SCHEMA, OutsideMeans(), ad.Budget(1.0), out=tmp_path / "r", ledger=ad.Ledger(tmp_path / "l")
        )
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "l").exists() or ad.Ledger(tmp_path / "l").entries() == []


def test_a_release_without_arrays_is_read_and_attacked(installed, tmp_path, monkeypatch):
    run = OutsideMeans.run
    monkeypatch.setattr(OutsideMeans, "run", lambda *given: dataclasses.replace(run(*given), arrays={}, measured={}))
    ad.release(rows(0), SCHEMA, OutsideMeans(), ad.Budget(50.0, 1e-6), out=tmp_path / "r")
    opened = ad.load(tmp_path / "r")
    assert opened.verify() == [] and opened.arrays == {}
    with pytest.raises(ad.InputError, match="no row can be distinguished"):  # and not that a file is missing
        attacks.membership(opened, rows(0), rows(1), most=60)
