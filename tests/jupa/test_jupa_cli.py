"""`adumbra jupa fit`, `apply`, `tradeoff` and `adumbra audit jupa`, as a steward types them; and the estimator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import adumbra as ad
from adumbra.audit.utility_audit import audit_bundled, audit_jupa, bundled_records, label_epsilon_at_least
from adumbra.cli import jupa_command
from adumbra.releases.folder import ReleaseFolder, UtilityFolder, open_folder
from adumbra.sklearn import JUPA
from tests.cli.test_cli import Cli

TARGETS = ("--utility", "buys", "--privacy", "sex")


def shoppers(count: int, seed: int) -> pl.DataFrame:
    """Two features tell who buys, one tells the sex; a town that tells nothing."""
    rng = np.random.default_rng(seed)
    buys, sex = rng.integers(0, 2, count), rng.integers(0, 2, count)
    return pl.DataFrame(
        {
            "visits": rng.normal(2.0 * buys, 1.0),
            "basket": rng.normal(1.0 * buys, 1.0) + 3,
            "height": rng.normal(2.5 * sex, 1.0),
            "town": rng.choice(["Ulm", "Bonn"], count),
            "buys": np.where(buys == 1, "yes", "no"),
            "sex": np.where(sex == 1, "m", "f"),
        }
    )


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shoppers(400, 0).write_csv("public.csv")
    shoppers(150, 1).write_csv("private.csv")
    shoppers(150, 1).drop("buys", "sex").write_parquet("unlabelled.parquet")
    shoppers(300, 2).write_csv("labelled.csv")
    return tmp_path


# ---------------------------------------------------------------------------------------------------- command line


def test_the_options_of_a_recipe_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever walks over all commands (help, completion) does not make every recipe, which loads numerics."""
    made: list[object] = []
    form = jupa_command._recipe_form
    monkeypatch.setattr(jupa_command, "_recipe_form", lambda taken: (made.append(taken), form(taken))[1])
    fit = typer.main.get_command(jupa_command.app).commands["fit"]  # type: ignore[attr-defined] # it is a group
    assert "utility" not in [one.name for one in fit.params] and made == []
    context = fit.make_context("fit", ["--help"], resilient_parsing=True)
    names = [one.name for one in fit.get_params(context)]
    assert names[:3] == ["public", "out", "utility"] and names[-1] == "help" and len(set(names)) == len(names)
    assert names == [one.name for one in fit.get_params(context)] and made == [None]


@pytest.mark.parametrize(
    "options",
    [
        ("--release", "coarse"),
        ("--release", "fine", "--bandwidth", "1"),
        ("--release", "resample", "--model", "linear"),
        ("--release", "resample", "--whole", "--model", "linear"),
        ("--release", "resample", "--equalise", "--model", "linear"),
        ("--release", "respond", "--epsilon", "0.5", "--model", "linear"),
        ("--release", "repair", "--bins", "4", "--model", "linear"),
    ],
    ids=lambda words: " ".join(words[1:]),
)
def test_fit_then_apply(cli: Cli, tables: Path, options: tuple[str, ...]) -> None:
    fitted = cli("jupa", "fit", "public.csv", *TARGETS, *options, "--out", "model", "--json")
    assert fitted.code == 0, fitted.err
    assert json.loads(fitted.out)["promise"].startswith("No differential privacy.")
    done = cli("jupa", "apply", "model", "private.csv", "--out", "released", "--csv")
    assert done.code == 0, done.err
    first = next(line for line in done.out.splitlines() if line.startswith(">"))
    assert first.startswith("> **No differential privacy.**")
    folder = open_folder("released")
    assert isinstance(folder, UtilityFolder) and folder.verify() == []
    assert not folder.card.differential_privacy and folder.card.table_rows == 150
    assert folder.table().height == folder.card.rows
    assert pl.read_csv("released/data.csv").height == folder.card.rows
    assert cli("verify", "released").code == 0
    assert not Path("adumbra-ledger.db").exists()
    if "--whole" in options:
        assert folder.table().columns == ["visits", "basket", "height", "town"]
        public = pl.read_csv("public.csv").rows()
        known = {row[:4] for row in public}
        assert all(row in known for row in folder.table().rows())  # only public records leave


def test_laplace_is_differentially_private_and_charged(cli: Cli, tables: Path) -> None:
    assert cli("jupa", "fit", "public.csv", *TARGETS, "--release", "laplace", "--epsilon", "2", "--out", "m").code == 0
    done = cli("jupa", "apply", "m", "unlabelled.parquet", "--out", "r", "--json")
    assert done.code == 0, done.err
    assert "new ledger" in done.err
    card = json.loads(done.out)
    assert (card["epsilon"], card["delta"], card["mechanism"], card["unit"]) == (2.0, 0.0, "noisy_rows", "row")
    assert isinstance(open_folder("r"), ReleaseFolder)
    (entry,) = json.loads(cli("ledger", "show", "--json").out)["entries"]
    assert entry["body"]["mechanism"] == "noisy_rows"
    assert entry["hash"] == card["ledger_head"]


def test_a_release_that_needs_the_label_says_so_and_one_that_does_not_never_reads_it(cli: Cli, tables: Path) -> None:
    fit = ("jupa", "fit", "public.csv", *TARGETS, "--model", "linear")
    assert cli(*fit, "--release", "repair", "--out", "repair").code == 0
    result = cli("jupa", "apply", "repair", "unlabelled.parquet", "--out", "r")
    assert result.code == 2 and "privacy column" in result.err and not Path("r").exists()
    assert cli(*fit, "--out", "resample").code == 0
    assert cli("jupa", "apply", "resample", "unlabelled.parquet", "--out", "r").code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--release", "fine", "--source", "true"), "equation 10"),
        (("--release", "coarse", "--bins", "3"), "bins only with release repair"),
        (("--release", "respond"), "an epsilon"),
        (("--release", "respond", "--epsilon", "0"), "epsilon > 0"),
        (("--components", "2", "--projection", "dca"), "component"),
        (("--rho0", "-1"), "rho0"),
        (("--release", "nothing"), "release one of"),
        (("--drop", "nowhere"), "nowhere"),
        (("--utility", "sex"), "each target column once"),
        (("--privacy", "town2"), "town2"),
        (("--rho1", "1", "--rho1", "2"), "one rho1"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_nothing_is_written(
    cli: Cli, tables: Path, words: tuple[str, ...], expected: str
) -> None:
    result = cli("jupa", "fit", "public.csv", *TARGETS, *words, "--out", "model")
    assert result.code == 2, result.out
    assert expected in result.err
    assert "Traceback" not in result.err
    assert not Path("model").exists()


def test_bad_input_to_apply_writes_nothing(cli: Cli, tables: Path) -> None:
    assert (
        cli("jupa", "fit", "public.csv", *TARGETS, "--release", "repair", "--model", "linear", "--out", "m").code == 0
    )
    shoppers(20, 3).with_columns(pl.lit("x").alias("sex")).write_csv("strange.csv")
    result = cli("jupa", "apply", "m", "strange.csv", "--out", "told")  # what cells hold refuses nothing
    assert result.code == 0 and "sex: 20 without a class of the public table" in result.err
    for model in ("public.csv", "nowhere"):
        assert cli("jupa", "apply", model, "private.csv", "--out", "r").code == 2
    Path("m/model.npz").write_bytes(b"PK broken")
    result = cli("jupa", "apply", "m", "private.csv", "--out", "r")
    assert result.code == 2 and "fit it again" in result.err and not Path("r").exists()
    result = cli("jupa", "apply", "m", "private.csv", "--out", "m")
    assert result.code == 2 and "exists" in result.err


def test_a_utility_aware_release_is_no_answerable_one(cli: Cli, tables: Path) -> None:
    cli("jupa", "fit", "public.csv", *TARGETS, "--release", "coarse", "--out", "m")
    cli("jupa", "apply", "m", "private.csv", "--out", "r")
    result = cli("answer", "r", "mean", "--column", "z1")
    assert result.code == 2 and "without that promise" in result.err
    with pytest.raises(ad.InputError):
        UtilityFolder.open("m")
    Path("r/data.parquet").write_bytes(b"")
    assert cli("verify", "r").code == 1


def test_tradeoff_prints_a_table_and_writes_a_picture(cli: Cli, tables: Path) -> None:
    shoppers(200, 0).write_csv("small.csv")
    done = cli("jupa", "tradeoff", "small.csv", *TARGETS, "--splits", "1", "--quick", "--model", "linear", "--out", "t")
    assert done.code == 0, done.err
    assert "worst adaptive" in done.out and "chance" in done.out and "lower bound" in done.out
    assert Path("t/tradeoff.svg").read_text().startswith("<svg")
    assert len(json.loads(Path("t/tradeoff.json").read_text())["rows"]) >= 5
    assert cli("jupa", "tradeoff", "public.csv", *TARGETS, "--out", "t").code == 2


# ---------------------------------------------------------------------------------------------------------- audit


def test_audit_of_a_model_shows_both_adversaries(cli: Cli, tables: Path) -> None:
    cli("jupa", "fit", "public.csv", *TARGETS, "--release", "coarse", "--projection", "pca", "--components", "3",
        "--out", "m")  # fmt: skip
    done = cli("audit", "jupa", "--model", "m", "--records", "labelled.csv", "--json")
    (one,) = json.loads(done.out)["audits"]
    assert done.code == 0 and one["verdict"] == "no promise" and one["worst"] > 0.8  # height tells the sex
    assert {"papers", "adaptive", "chance", "standard_error", "not_reached"} <= set(one)
    assert cli("audit", "jupa", "--model", "m").code == 2
    assert cli("audit", "jupa", "--out", "page.html").code == 2


def test_audit_refutes_a_promise_that_does_not_hold(tables: Path) -> None:
    """A population in which ranks mean something else: the average-case promise fails, and the audit says so."""
    recipe = ad.JupaRecipe("buys", "sex", release="repair", model="linear")
    model = ad.fit_jupa("public.csv", recipe, seed=ad.PublicSeed.given("a"))
    honest = audit_jupa(model, shoppers(600, 5), quick=True)
    assert honest.verdict == "not refuted"
    moved = shoppers(600, 5).with_columns(
        pl.when(pl.col("sex") == "m").then(pl.col("visits") + 6).otherwise(pl.col("visits") - 6).alias("visits")
    )
    assert audit_jupa(model, moved, quick=True).verdict == "REFUTED"


def test_audit_finds_a_label_answered_too_truthfully(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = ad.JupaRecipe("buys", "sex", release="respond", epsilon=1.0, model="linear")
    model = ad.fit_jupa("public.csv", recipe, seed=ad.PublicSeed.given("a"))
    bound = label_epsilon_at_least(model, shoppers(100, 6), 1e-4)
    assert 0.8 < bound <= 1.0
    from adumbra.common.randomness import randomised_response

    monkeypatch.setattr(
        "adumbra.jupa.release_kinds.resample.randomised_response", lambda e, *rest: randomised_response(1.5 * e, *rest)
    )
    assert label_epsilon_at_least(model, shoppers(100, 6), 1e-4) > 1.0
    monkeypatch.setattr(
        "adumbra.jupa.release_kinds.resample.randomised_response", lambda e, *rest: randomised_response(e / 1.5, *rest)
    )
    assert label_epsilon_at_least(model, shoppers(100, 6), 1e-4) < 0.75


def test_the_bundled_audit_has_a_line_for_every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adumbra.audit.utility_audit.bundled_records", lambda: bundled_records()[::5])
    found = audit_bundled(1.0)
    assert {one.adversaries.release for one in found} == {"coarse", "fine", "resample", "respond", "repair", "laplace"}
    assert not any(one.verdict == "REFUTED" for one in found)
    by_title = {one.title: one.adversaries for one in found}
    assert by_title["coarse, K = 5"].worst > 0.75  # nothing is hidden
    assert by_title["repair, 2 bins"].worst < 0.62


# -------------------------------------------------------------------------------------------------- scikit-learn


@parametrize_with_checks([JUPA(seed="checks")])
def test_the_estimator_is_one(estimator, check):
    check(estimator)


def arrays(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    frame = shoppers(count, seed)
    return frame["visits", "basket", "height"].to_numpy(), frame["buys"].to_numpy(), frame["sex"].to_numpy()


@pytest.mark.parametrize(
    "options",
    [
        {"release": "fine", "bandwidth": 1.0},
        {"release": "resample", "model": "linear"},
        {"release": "resample", "equalise": True, "model": "linear"},
        {"release": "respond", "epsilon": 1.0, "model": "linear"},
        {"release": "repair", "model": "linear"},
        {"release": "laplace", "epsilon": 4.0},
    ],
    ids=lambda o: " ".join(str(v) for v in o.values()),
)
def test_the_estimator_releases_as_the_command_does(options):
    X, y, s = arrays(300, 0)
    made = JUPA(seed=1, **options).fit(X, y, privacy=s)
    assert made.promise_.startswith("Local" if options["release"] == "laplace" else "No differential privacy.")
    Z = made.transform(X[:100], privacy=s[:100])
    assert np.isnan(Z).all(axis=1).sum() == made.not_reached_ or options["release"] != "fine"
    assert Z.shape == (100, 1) and not np.array_equal(Z, made.transform(X[:100], privacy=s[:100]))
    report = made.audit(*arrays(300, 7), quick=True)
    assert 0.0 <= report.worst <= 1.0 and report.utility > 0.5


def test_the_estimator_in_a_pipeline_and_its_refusals(tmp_path):
    X, y, s = arrays(300, 0)
    chain = make_pipeline(JUPA(projection="dca"), LogisticRegression()).fit(X, y)  # dca has no use for a privacy label
    assert chain.score(*arrays(200, 1)[:2]) > 0.8
    with pytest.raises(ValueError, match="privacy label"):
        JUPA(release="repair").fit(X, y)
    repaired = JUPA(release="repair", model="linear").fit(X, y, privacy=s)
    with pytest.raises(ValueError, match="privacy label"):
        repaired.transform(X)
    with pytest.raises(ValueError, match="others"):
        repaired.transform(X[:2], privacy=["f", "other"])
    ledger = ad.Ledger(tmp_path / "book.db")
    noisy = JUPA(release="laplace", epsilon=1.0, ledger=ledger, table_name="people").fit(X, y, privacy=s)
    noisy.transform(X)
    assert len(ledger.entries()) == 1
    two = JUPA(rho1=[1.0, 2.0]).fit(X, y, privacy=np.column_stack([s, y]))
    assert two.components_.shape == (3, 1)


def test_a_service_trains_on_public_records_in_the_same_coordinates(cli: Cli, tables: Path) -> None:
    cli("jupa", "fit", "public.csv", *TARGETS, "--model", "linear", "--out", "m")
    assert cli("jupa", "reference", "m", "public.csv", "--out", "r.parquet").code == 0
    found = pl.read_parquet("r.parquet")
    assert found.columns == ["z1", "buys", "sex"] and found.height == 400
    cli("jupa", "apply", "m", "private.csv", "--out", "released")
    service = LogisticRegression().fit(found[["z1"]].to_numpy(), found["buys"].to_numpy())
    released = ad.UtilityFolder.open("released").table()
    assert service.score(released.to_numpy(), shoppers(150, 1)["buys"].to_numpy()) > 0.75
    assert cli("jupa", "reference", "m", "public.csv", "--out", "r.parquet").code == 2


def test_the_owner_hears_of_cells_that_were_not_understood_and_of_the_wrong_table(cli: Cli, tables: Path) -> None:
    cli("jupa", "fit", "public.csv", *TARGETS, "--release", "coarse", "--out", "m")
    odd = shoppers(100, 4).with_columns(
        pl.when(pl.int_range(100) < 7).then(pl.lit("Rome")).otherwise(pl.col("town")).alias("town"),
        pl.when(pl.int_range(100) < 3).then(None).otherwise(pl.col("visits")).alias("visits"),
    )
    odd.write_csv("odd.csv")
    done = cli("jupa", "apply", "m", "odd.csv", "--out", "one")
    assert done.code == 0
    assert "for the owner only" in done.err
    assert "town: 0 empty, 7 that" in done.err and "visits: 3 empty, 0 that" in done.err
    assert "Rome" not in Path("one/card.json").read_text()
    assert "100 % of the records read like public ones" in cli("jupa", "apply", "m", "public.csv", "--out", "two").err
    assert "same ones" in cli("audit", "jupa", "--model", "m", "--records", "public.csv").err
    shoppers(50, 4).with_columns(pl.lit("many").alias("visits")).write_csv("words.csv")
    done = cli("jupa", "apply", "m", "words.csv", "--out", "three")  # refused, it would tell what the cells hold
    assert done.code == 0 and "visits: no number in the whole table" in done.err


def test_seeds_from_python_are_as_simple_as_on_the_command_line(tables: Path) -> None:
    recipe = ad.JupaRecipe("buys", "sex", release="coarse")
    assert (
        ad.fit_jupa("public.csv", recipe, seed=1).fingerprint()
        == ad.fit_jupa("public.csv", recipe, seed="1").fingerprint()
    )
    assert "serves buys" in repr(ad.fit_jupa("public.csv", recipe, seed=1))
    lone = shoppers(1, 9).with_columns(pl.lit("x").alias("sex"), pl.lit("no").alias("buys"))
    with pytest.raises(ad.InputError, match="1 of 6 pairs without one: yes with x"):
        ad.fit_jupa(pl.concat([shoppers(100, 0), lone]), ad.JupaRecipe("buys", "sex"))
