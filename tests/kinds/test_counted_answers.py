"""Answers from counted cells: what they ask, how far off they say they are, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import adumbra as ad
from adumbra.counting.workload import Workload, box_sums, random_ranges
from adumbra.declare.space import HALF
from adumbra.evaluate.report import evaluate_release
from adumbra.kinds.conditions import box_of, read_queries
from adumbra.kinds.counts import DomainFacts
from adumbra.numerics import strategies
from adumbra.queries.domain import Domain
from adumbra.result import Release
from adumbra.tables.encode import encode
from tests.conftest import Home, Result
from tests.repeatable import repeatable

__all__ = ["repeatable"]

Reals = NDArray[np.float64]

SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "number", "low": 20, "high": 59, "integer": True},
            "sex": {"kind": "category", "values": ["F", "M", "X"]},
            "hours": {"kind": "number", "low": 0, "high": 80},
            "smoker": {"kind": "flag"},
        }
    }
)


def people(rows: int = 4000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": np.clip(20 + rng.gamma(3.0, 5.0, rows), 20, 59).astype(int),
            "sex": rng.choice(["F", "M", "X"], rows, p=[0.5, 0.4, 0.1]),
            "hours": np.clip(rng.normal(40.0, 12.0, rows), 0.0, 80.0),
            "smoker": rng.random(rows) < 0.3,
        }
    )


PEOPLE = people()
SURE = 1e-6
"""A mu so small that a test may take eta for certain."""
EVERY = {
    "laplace": ad.Laplace,
    "privelet": ad.Privelet,
    "hierarchical": ad.Hierarchical,
    "fourier": ad.Fourier,
    "sparse": ad.Sparse,
    "csm": ad.CSM,
}


def made(mechanism: Any, epsilon: float = 1.0, delta: float = 0.0, table: pl.DataFrame = PEOPLE) -> Release:
    return ad.release(table, SCHEMA, mechanism, ad.Budget(epsilon=epsilon, delta=delta, unit="row"))


def true_counts(domain: Domain, table: pl.DataFrame = PEOPLE) -> Reals:
    cell = domain.groups.of(encode(table, SCHEMA).values)
    return np.bincount(cell[cell >= 0], minlength=domain.size).astype(np.float64)


# ---- what is asked: with hardly any noise, answers are the counts that polars finds


@pytest.fixture(scope="module")
def nearly_exact() -> Release:
    return made(ad.Laplace(("age", "sex", "smoker")), epsilon=80.0)


@pytest.mark.parametrize("name", ["laplace", "privelet", "hierarchical"])
def test_ranges_and_counts_are_those_of_the_table(name: str) -> None:
    release = made(EVERY[name](("age", "sex", "smoker")), epsilon=80.0)
    age, sex, smoker = pl.col("age"), pl.col("sex"), pl.col("smoker")
    for answer, rows in (
        (release.range("age", 30, 45, mu=SURE), age.is_between(30, 45)),
        (release.range("age", low=41, mu=SURE), age >= 41),
        (release.range("age", high=24.9, mu=SURE), age <= 24),
        (release.range("age", 30, 45, where={"sex": "F"}, mu=SURE), age.is_between(30, 45) & (sex == "F")),
        (
            release.range("age", 30, 30, where={"smoker": True, "sex": "M"}, mu=SURE),
            (age == 30) & smoker & (sex == "M"),
        ),
        (release.count("sex", "X", mu=SURE), sex == "X"),
        (release.count("smoker", "no", where={"age": (20, 25)}, mu=SURE), ~smoker & (age <= 25)),
        (release.count("age", 33, mu=SURE), age == 33),
    ):
        wanted = len(PEOPLE.filter(rows))
        assert abs(answer.value - wanted) <= answer.eta
        assert answer.standard_error < 5
        assert (answer.mu, answer.basis) == (SURE, "proved")


def test_a_range_beyond_the_declared_one_is_refused(nearly_exact: Release) -> None:
    """Rows with such values were counted at the nearest end, so that 0 would not be the truth."""
    for ends in ({"low": 70, "high": 80}, {"low": 70}, {"high": 3}):
        with pytest.raises(ad.InputError, match="as declared"):
            nearly_exact.range("age", **ends)


def test_a_range_that_cuts_bins_counts_them_in_part_and_proves_nothing() -> None:
    release = made(ad.Laplace(("hours",), 16), epsilon=80.0)
    whole, cut = release.range("hours", 30, 45), release.range("hours", 32, 46)
    assert (whole.basis, cut.basis) == ("proved", "estimated")
    wanted = len(PEOPLE.filter(pl.col("hours").is_between(32, 46)))
    assert cut.standard_error > 3 * whole.standard_error
    assert abs(cut.value - wanted) < 4 * cut.standard_error


def test_the_error_of_cut_bins_is_that_of_rows_spread_evenly() -> None:
    rng = np.random.default_rng(3)
    z = []
    for _ in range(12):
        table = PEOPLE.with_columns(hours=pl.Series(rng.uniform(0, 80, len(PEOPLE))))
        release = made(ad.Laplace(("hours",), 8), epsilon=80.0, table=table)
        for low, high in rng.uniform((0, 45), (35, 80), (20, 2)):
            answer = release.range("hours", low, high)
            wanted = len(table.filter(pl.col("hours").is_between(low, high)))
            z.append((answer.value - wanted) / answer.standard_error)
    assert 0.8 < float(np.std(z)) < 1.2


def test_marginals_add_up_and_name_their_cells(nearly_exact: Release) -> None:
    frame = nearly_exact.marginal(["sex", "age"], SURE)
    assert frame.columns == ["sex", "age", "value", "standard_error", "mu", "eta", "basis"]
    assert (len(frame), frame["sex"].unique().sort().to_list()) == (164, [None, "F", "M", "X"])
    wanted = PEOPLE.group_by("sex", "age").len()
    joined = frame.join(wanted, on=["sex", "age"], how="left", nulls_equal=True).with_columns(
        pl.col("len").fill_null(0)
    )
    assert ((joined["value"] - joined["len"]).abs() <= joined["eta"]).all()
    one = nearly_exact.range("age", 31, 31, where={"sex": "M"})
    row = frame.row(by_predicate=(pl.col("sex") == "M") & (pl.col("age") == 31), named=True)
    assert row["value"] == pytest.approx(one.value)
    assert row["standard_error"] == pytest.approx(one.standard_error)
    other_way = nearly_exact.marginal(["age", "sex"]).sort("sex", "age")
    assert other_way["value"].to_list() == pytest.approx(frame.sort("sex", "age")["value"].to_list())
    bins = made(ad.Laplace(("hours", "smoker"), 8), epsilon=80.0).marginal("hours")
    assert bins.columns[:2] == ["hours_from", "hours_to"]
    assert bins["hours_to"].to_list() == [*(10.0 * i for i in range(1, 9)), None]


@pytest.mark.parametrize("name", list(EVERY))
def test_every_way_to_ask_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    release = made(EVERY[name](("age", "sex")))
    single = release.range("age", 30, 45, where={"sex": "F"})
    csv = tmp_path / "w.csv"
    csv.write_text("query,weight,age_from,age_to,sex\nhalves,1,30,37,F\none,,30,45,F\nhalves,1,38,45,F\nwhole,2,,,\n")
    weights = np.zeros((41, 4))
    weights[10:26, 0] = 1.0
    given = {
        "queries": [
            {"name": "cells", "cells": weights.reshape(-1).tolist()},
            {"name": "one", "where": {"age": [30, 45], "sex": "F"}},
            {"name": "halves", "terms": [{"where": {"age": ages, "sex": "F"}} for ages in ([30, 37], "38..45")]},
        ]
    }
    file = tmp_path / "w.json"
    file.write_text(json.dumps(given))
    by_csv, by_json, by_list = release.workload(csv), release.workload(file), release.workload(given["queries"])
    assert by_csv["query"].to_list() == ["halves", "one", "whole"]
    assert by_json["query"].to_list() == ["cells", "one", "halves"]
    assert by_json.equals(by_list)
    for row in [*by_csv.filter(pl.col("query") != "whole").rows(named=True), *by_json.rows(named=True)]:
        assert row["value"] == pytest.approx(single.value)
        assert row["standard_error"] == pytest.approx(single.standard_error)
        assert row["eta"] == pytest.approx(single.eta, rel=1e-6)
        assert row["basis"] == single.basis
    total = by_csv.row(by_predicate=pl.col("query") == "whole", named=True)
    assert total["value"] == pytest.approx(2 * release.counted.counts.sum())


@pytest.mark.parametrize("name", list(EVERY))
def test_three_times_a_query_has_three_times_its_error(name: str) -> None:
    release = made(EVERY[name](("age", "sex")))
    where = {"age": (30, 45)}
    weights = np.zeros((41, 4))
    weights[10:26] = -3.0
    asked = release.workload(
        [
            {"where": where},
            {"where": where, "weight": -3},
            {"terms": [{"where": where}, {"where": where, "weight": 2}]},
            {"cells": weights.reshape(-1)},
        ]
    )
    for column in ("standard_error", "eta"):
        assert asked[column][1:].to_numpy() == pytest.approx(3 * asked[column][0], rel=1e-6)


def test_the_noise_of_pursued_atoms_is_that_of_their_covariance() -> None:
    release = made(ad.CSM(("age", "sex"), ratio=0.3, sensing="sparse-signs"), delta=1e-6)
    arrays = release.arrays
    inside = np.isin(arrays["support"] // 4, np.arange(10, 26)).astype(float)
    noise = inside @ arrays["covariance"] @ inside
    plain = inside @ np.diag(np.diag(arrays["covariance"])) @ inside
    assert abs(noise / plain - 1.0) > 0.01  # or the test would not see a covariance that is ignored
    sizes, left = arrays["missing_sizes"], np.sqrt(arrays["missing_squares"])
    missing = float(np.interp(np.log(64.0), np.log(sizes), left)) ** 2
    assert release.range("age", 30, 45).standard_error == pytest.approx(np.sqrt(noise + missing), rel=1e-6)


def test_weights_may_have_any_sign() -> None:
    release = made(ad.Hierarchical(("age", "sex")))
    frame = release.workload([{"terms": [{"where": {"sex": "F"}}, {"where": {"sex": "M"}, "weight": -1}]}])
    parts = [release.count("sex", sex) for sex in "FM"]
    assert frame["value"][0] == pytest.approx(parts[0].value - parts[1].value)
    # cells of different sexes share no number here, so their errors are independent
    assert frame["standard_error"][0] == pytest.approx(np.hypot(*(part.standard_error for part in parts)))
    assert frame["query"].to_list() == ["0"]


# ---- how far off: many releases of one table


def errors_of(
    mechanism: Any, delta: float, releases: int, workload: Workload, mu: float, table: pl.DataFrame = PEOPLE
) -> tuple[Reals, Reals, set[str]]:
    """(error over standard error, error over eta) of every query of every release; 0 where both are 0."""
    found, within, basis = [], [], set()
    for _ in range(releases):
        release = made(mechanism, delta=delta, table=table)
        truth = box_sums(true_counts(release.counted.domain, table), workload)
        frame = release.counted.boxes(workload, mu)
        off = frame["value"].to_numpy() - truth
        for into, column in ((found, "standard_error"), (within, "eta")):
            stated = frame[column].to_numpy()
            into.append(off / np.where((stated == 0.0) & (off == 0.0), 1.0, stated))
        basis |= set(frame["basis"])
    return np.array(found), np.array(within), basis


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", ["laplace", "privelet", "hierarchical"])
def test_standard_errors_of_linear_decoders_are_exact_and_eta_holds(name: str, delta: float) -> None:
    workload = random_ranges((41, 4), 60, seed=2, within=(40, 3))
    z, share, basis = errors_of(EVERY[name](("age", "sex")), delta, 30, workload, 0.2)
    assert basis == {"proved"}
    assert abs(float(z.mean())) < 0.2
    assert 0.88 < float(z.std()) < 1.12
    missed = float((np.abs(share) > 1.0).mean())
    assert 0.1 < missed < 0.23


def test_standard_errors_of_fourier_hold_what_it_left_out() -> None:
    workload = random_ranges((41,), 60, seed=2, within=(40,))
    for kept in (2, 5):
        z, share, basis = errors_of(ad.Fourier(("age",), frequencies=kept), 0.0, 25, workload, 0.05)
        assert basis == {"estimated"}
        assert 0.7 < float(np.sqrt(np.square(z).mean())) < 1.3
        assert float((np.abs(share) > 1.0).mean()) < 0.1


@pytest.mark.parametrize("dictionary", ["identity", "haar", "dct"])
def test_standard_errors_of_sparse_are_about_right(dictionary: str) -> None:
    workload = random_ranges((41, 4), 60, seed=2, within=(40, 3))
    z, _, basis = errors_of(ad.Sparse(("age", "sex"), dictionary=dictionary), 0.0, 25, workload, 0.05)
    assert basis == {"estimated"}
    assert 0.6 < float(np.sqrt(np.square(z).mean())) < 1.8  # cells by themselves: 1.55, by chance 0.05 more or less


def test_standard_errors_of_csm_are_about_right_where_few_cells_hold_all_rows() -> None:
    few = PEOPLE.with_columns(age=pl.col("age") % 5 * 6 + 22, sex=pl.lit("M"))
    workload = random_ranges((41, 4), 60, seed=2, within=(40, 3))
    mechanism = ad.CSM(("age", "sex"), sensing="gaussian", ratio=0.5)
    z, share, basis = errors_of(mechanism, 1e-6, 25, workload, 0.05, few)
    assert basis == {"estimated"}
    assert float((np.abs(share) > 1.0).mean()) < 0.15
    assert 0.3 < float(np.sqrt(np.square(z).mean())) < 1.6


def test_eta_grows_as_mu_falls() -> None:
    for name, mechanism in EVERY.items():
        release = made(mechanism(("age", "sex")))
        etas = [release.range("age", 25, 44, mu=mu).eta for mu in (0.2, 0.05, 0.01)]
        assert etas == sorted(etas), name
        assert etas[0] > 0.0, name


# ---- many, and large


def test_ten_thousand_ranges_of_many_cells_take_seconds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = ad.Schema.from_dict({"columns": {"x": {"kind": "number", "low": 0, "high": 8192}}})
    table = pl.DataFrame({"x": rng.uniform(0, 8192, 2000)})
    ends = np.sort(rng.integers(0, 8193, (10_000, 2)), axis=1)
    file = tmp_path / "w.csv"
    pl.DataFrame({"x_from": ends[:, 0], "x_to": ends[:, 1]}).write_csv(file)
    release = ad.release(table, schema, ad.Privelet(bins=8192), ad.Budget(epsilon=1.0, unit="row"))
    frame = release.workload(file)
    assert (len(frame), frame["query"][17], set(frame["basis"])) == (10_000, "17", {"proved"})
    running = np.concatenate([[0.0], np.cumsum(release.counted.counts)])
    assert frame["value"].to_numpy() == pytest.approx(running[ends[:, 1]] - running[ends[:, 0]], abs=1e-6)


# ---- what is refused, and how it reads


def test_conditions_that_the_domain_cannot_have(nearly_exact: Release) -> None:
    for words, ask in {
        "begins before it ends": lambda: nearly_exact.range("age", 45, 30),
        "a smallest value": lambda: nearly_exact.range("age"),
        "column of the domain": lambda: nearly_exact.range("hours", 1, 2),
        "column in order for a range": lambda: nearly_exact.range("sex", 1, 2),
        "declared values of sex": lambda: nearly_exact.count("sex", "Q"),
        "yes or no": lambda: nearly_exact.count("smoker", "perhaps"),
        "one condition per column": lambda: nearly_exact.range("age", 1, 2, where={"age": 30}),
        "a number for age": lambda: nearly_exact.count("age", "old"),
        "mu": lambda: nearly_exact.range("age", 30, 45, mu=1.5),
        "at least one column": lambda: nearly_exact.marginal([]),
        "'name'": lambda: nearly_exact.marginal(["sex", "name"]),
    }.items():
        with pytest.raises(ad.InputError, match=words):
            ask()
    binned = made(ad.Laplace(("hours",), 8))
    with pytest.raises(ad.InputError, match="counted in bins"):
        binned.count("hours", 40)


WRONG_FILES = {
    "empty.csv": ("", "CSV of queries"),
    "no_rows.csv": ("query,age\n", "at least one query"),
    "unknown.csv": ("query,height\na,3\n", "'height'"),
    "weight.csv": ("query,weight,age\nbad,nan,30\n", "'bad': a finite weight"),
    "word.csv": ("query,weight,age\nbad,much,30\n", "'bad': a finite weight"),
    "value.csv": ("query,sex\ngood,F\nbad,Q\n", "'bad': one of the declared values"),
    "order.csv": ("query,age_from,age_to\ngood,30,40\nbad,40,30\n", "'bad': a range of age"),
    "number.csv": ("query,age_from\nbad,old\n", "'bad': a number for age"),
    "both.csv": ("query,age,age_to\nbad,30,40\n", "'bad': one condition per column"),
    "nameless.csv": ("query,age\ngood,30\n,31\n", "row 1"),
    "ragged.csv": ("query,age\na,30,40,50\n", "CSV of queries"),
    "bytes.csv": (b"\xff\xfe\x00query\n1\n", "a column"),
    "broken.json": ("{", "JSON document"),
    "list.json": ("[]", 'list "queries"'),
    "none.json": ('{"queries": []}', "at least one query"),
    "twice.json": ('{"queries": [{"name": "a"}, {"name": "a"}]}', "two of the name 'a'"),
    "key.json": ('{"queries": [{"name": "bad", "wher": {}}]}', "'bad': an object"),
    "two.json": ('{"queries": [{"name": "bad", "where": {}, "terms": []}]}', "'bad': an object"),
    "text.json": ('{"queries": ["bad"]}', "'0': an object"),
    "short.json": ('{"queries": [{"name": "bad", "cells": [1, 2]}]}', "'bad': 492 finite weights"),
    "nan.json": ('{"queries": [{"name": "bad", "cells": [' + "NaN," * 491 + "1]}]}", "'bad': a finite weight"),
    "infinite.json": ('{"queries": [{"name": "bad", "weight": Infinity}]}', "'bad': a finite weight"),
    "flag.json": ('{"queries": [{"name": "bad", "weight": true}]}', "'bad': a finite weight"),
    "ends.json": ('{"queries": [{"name": "bad", "where": {"age": [1, 2, 3]}}]}', "'bad': two finite numbers"),
    "deep.json": ('{"queries": [{"name": "bad", "where": {"age": {"from": 1}}}]}', "'bad': a value or a range"),
    "where.json": ('{"queries": [{"name": "bad", "where": [1]}]}', "'bad': conditions by column"),
    "terms.json": ('{"queries": [{"name": "bad", "terms": []}]}', "'bad': a list of terms"),
    "term.json": ('{"queries": [{"name": "bad", "terms": [3]}]}', "'bad': conditions by column"),
    "other.txt": ("query,age\na,30\n", "a .csv or .json file"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_wrong_files_say_which_query(name: str, nearly_exact: Release, tmp_path: Path) -> None:
    content, words = WRONG_FILES[name]
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ad.InputError) as refusal:
        nearly_exact.workload(file)
    assert words in refusal.value.expected + refusal.value.got


def test_a_file_that_is_not_there(nearly_exact: Release) -> None:
    with pytest.raises(ad.InputError, match="No such file"):
        nearly_exact.workload("nowhere.csv")
    with pytest.raises(ad.InputError, match="list of queries"):
        nearly_exact.workload({"name": "a"})


def test_columns_named_like_the_words_of_a_file_are_told_apart() -> None:
    schema = ad.Schema.from_dict({"columns": {"weight": {"kind": "number", "low": 0, "high": 9, "integer": True}}})
    domain = Domain.of(schema, schema.space(None))
    assert box_of(domain, {"weight": "3..5"}) == (np.array([3.0]), np.array([6.0]))
    found = read_queries([{"where": {"weight": [3, None]}, "weight": 2}], domain)
    assert found.boxes is not None
    assert (found.boxes.low.item(), found.boxes.high.item(), found.boxes.weight.item()) == (3.0, 10.0, 2.0)


def test_a_folder_whose_files_do_not_fit_says_so(tmp_path: Path) -> None:
    release = made(ad.Laplace(("sex",)))
    folder = release.save(tmp_path / "r")
    pl.read_parquet(folder / "data.parquet").head(2).write_parquet(folder / "data.parquet")
    with pytest.raises(ad.InputError, match="fit together"):
        ad.load(folder).count("sex", "F")


def test_cards_of_earlier_releases_describe_domains_without_cells_for_what_is_missing(tmp_path: Path) -> None:
    """Their facts do not speak of them, and neither do the recipes of their trees and wavelets."""
    facts = DomainFacts.model_validate({"columns": ["age", "sex"], "cells": [40, 3]})
    domain = Domain.from_card(SCHEMA, facts.model_dump())
    assert domain.shape == domain.values == (40, 3) and domain.apart == ()
    with pytest.raises(ad.InputError, match="no cell was counted"):
        box_of(domain, {"sex": None})
    wide = ad.Schema.from_dict({"columns": {"code": {"kind": "number", "low": 0, "high": 9999, "integer": True}}})
    before = Domain.from_card(wide, {"columns": ["code"], "cells": [64]})
    after = Domain.from_card(wide, {"columns": ["code"], "cells": [64], "missing": [True]})
    assert before.between("code", 0, 9999) == after.between("code", 0, 9999) == (0.0, 64.0)
    assert np.array_equal(before.groups.cells.edges(0), np.linspace(-HALF, HALF, 65))  # as it was counted
    assert strategies.rebuilt({"strategy": "haar", "shape": [8], "plain": []}).numbers == 8
    assert strategies.rebuilt({"strategy": "tree", "shape": [8], "branching": 2, "plain": []}).numbers == 15
    # a folder as an earlier version wrote it: counts of 3 values, a card that says no more
    fallback = ad.Schema.from_dict(
        {"columns": {"sex": {"kind": "category", "values": ["F", "M", "X"], "missing": "X"}}}
    )
    folder = ad.release(PEOPLE.select("sex"), fallback, ad.Hierarchical(), ad.Budget(80.0)).save(tmp_path / "r")
    card = json.loads((folder / "card.json").read_text())
    del card["facts"]["domain"]["missing"], card["facts"]["strategy"]["apart"]
    for column in card["table_schema"]["columns"]:
        del column["missing"]
    (folder / "card.json").write_text(json.dumps(card))
    old = ad.load(folder)
    assert old.count("sex", "F").value == pytest.approx(len(PEOPLE.filter(pl.col("sex") == "F")), abs=5)
    assert old.marginal("sex")["sex"].to_list() == ["F", "M", "X"]


def test_a_marginal_of_too_many_cells_is_refused() -> None:
    schema = ad.Schema.from_dict({"columns": {n: {"kind": "number", "low": 0, "high": 1} for n in "xy"}})
    table = pl.DataFrame({"x": [0.5, 0.2], "y": [0.5, 0.2]})
    release = ad.release(table, schema, ad.Laplace(bins=256), ad.Budget(epsilon=1.0, unit="row"))
    with pytest.raises(ad.InputError, match="16384 cells"):
        release.marginal(["x", "y"])
    assert len(release.marginal(["x"])) == 257


# ---- the command line


def counted(cli: Any, home: Home, *more: object) -> None:
    result = cli("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--mechanism", "laplace", "--columns",
                 "age,sex", "--bins", "22", "--out", "r", *more)  # fmt: skip
    assert result.code == 0, result.err


def answered(result: Result) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)
    return found


def test_answers_on_the_command_line(cli: Any, home: Home) -> None:
    counted(cli, home)
    (one,) = answered(cli("answer", "r", "range", "--column", "age", "--from", 30, "--to", 45, "--json"))
    assert set(one) == {"value", "standard_error", "mu", "eta", "basis"}
    (less,) = answered(
        cli("answer", "r", "range", "--column", "age", "--to", 45, "--where", "sex=F", "--mu", 0.2, "--json")
    )
    assert (less["mu"], less["basis"]) == (0.2, "proved")
    (both,) = answered(cli("answer", "r", "count", "--where", "sex=F", "--where", "age=..45", "--mu", 0.2, "--json"))
    assert both == less
    marginal = answered(cli("answer", "r", "marginal", "--columns", "sex", "--json"))
    assert [row["sex"] for row in marginal] == ["F", "M", None]
    home.write("w.csv", "query,sex\nwomen,F\nmen,M\n")
    asked = answered(cli("answer", "r", "workload", "w.csv", "--json"))
    assert [row["value"] for row in asked] == pytest.approx([row["value"] for row in marginal[:2]])
    unknown = [
        answered(cli("answer", "r", "count", "--where", f"sex={word}", "--json"))[0]["value"]
        for word in ("", "(missing)")
    ]
    home.write("m.csv", "query,sex\nunknown,(missing)\n")
    unknown += [row["value"] for row in answered(cli("answer", "r", "workload", "m.csv", "--json"))]
    assert unknown == pytest.approx([marginal[2]["value"]] * 3)
    assert cli("answer", "r", "workload", "w.csv", "--out", "a.csv").code == 0
    assert pl.read_csv(home.path / "a.csv")["query"].to_list() == ["women", "men"]
    assert cli("answer", "r", "workload", "w.csv", "--out", "a.csv").code == 2


def test_the_command_line_refuses_what_the_release_cannot_say(cli: Any, home: Home) -> None:
    counted(cli, home)
    home.write("bad.json", '{"queries": [{"name": "tall", "where": {"height": 3}}]}')
    for words, wanted in (
        (("range", "--column", "age"), "neither"),
        (("range", "--column", "age", "--from", 9, "--to", 3), "swap"),
        (("range", "--column", "age", "--from", 3, "--where", "sex"), "put ="),
        (("count", "--where", "sex=F", "--where", "sex=M"), "one condition per column"),
        (("marginal", "--columns", "smoker"), "use one of: age, sex"),
        (("workload", "bad.json"), "'tall'"),
        (("mean", "--column", "age"), "range, count, marginal, workload"),
    ):
        result = cli("answer", "r", *words)
        assert result.code == 2
        assert wanted in result.err


def test_releases_of_another_kind_say_what_they_answer(cli: Any, home: Home) -> None:
    assert cli("release", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--mechanism", "dppro", "--out", "r").code == 0
    for words in (("range", "--column", "age", "--from", 1), ("marginal", "--columns", "age"), ("workload", "w.csv")):
        result = cli("answer", "r", *words)
        assert (result.code, "dppro, which does not" in result.err, "distance" in result.err) == (2, True, True)
    several = cli("answer", "r", "count", "--where", "sex=F", "--where", "smoker=yes")
    assert (several.code, "counted cells" in several.err) == (2, True)
    assert cli("answer", "r", "count", "--where", "sex=F").code == 0


# ---- the owner's report


def test_evaluate_sets_seen_beside_stated_errors() -> None:
    for mechanism in (ad.Laplace(("age", "sex")), ad.Hierarchical(("age", "sex")), ad.Fourier(("age", "sex"))):
        check = evaluate_release(made(mechanism), PEOPLE).counts
        assert check is not None
        assert (check.cells, [fit.what for fit in check.fits]) == (164, ["random ranges", "single cells"])
        for fit in check.fits:
            assert fit.queries == 1000
            assert 0.4 < fit.error / fit.stated_error < 1.8
            assert fit.within_eta > 0.8
        assert check.fits[1].mean_truth == pytest.approx(len(PEOPLE) / 164, rel=0.2)
    with pytest.raises(ad.InputError, match="counted cells"):
        evaluate_release(made(ad.Laplace(("age",))), PEOPLE, label="sex")
