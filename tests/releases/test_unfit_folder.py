"""A folder whose hashes fit and whose content does not: an error of the folder's (exit code 2), no defect of ours."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import adumbra as ad
from adumbra.mechanisms.catalogue import build
from tests.conftest import Home, Result

Cli = Callable[..., Result]
SCHEMA = ad.Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "weight": {"kind": "number", "low": 0, "high": 1},
            "sex": {"kind": "category", "values": ["m", "f"]},
            "ill": {"kind": "flag"},
        }
    }
)
OPTIONS: dict[str, dict[str, Any]] = {"histogram": {"columns": ("age", "sex"), "bins": 8}, "dppro": {"dimension": 2}}
RANGE = ("answer", "d", "range", "--column", "age", "--from", "1", "--to", "50")
COUNT = ("answer", "d", "count", "--where", "sex=m")
NEIGHBOURS = ("answer", "d", "neighbours", "--row", "0")
AXES = ("answer", "d", "axes")
EVALUATE = ("evaluate", "d", "--truth", "truth.csv")
AUDIT = ("audit", "d", "--truth", "truth.csv", "--holdout", "holdout.csv")


def people(seed: int, count: int = 80) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 100, count),
            "weight": rng.random(count),
            "sex": rng.choice(["m", "f"], count),
            "ill": rng.random(count) < 0.4,
        }
    )


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place = tmp_path_factory.mktemp("genuine")

    def made(name: str) -> Path:
        if not (place / name).exists():
            ad.release(people(0), SCHEMA, build(name, OPTIONS.get(name, {})), ad.Budget(5.0), out=place / name, seed=1)
        return place / name

    return made


def forged(
    source: Path,
    place: Path,
    card: Callable[[dict[str, Any]], object] = bool,
    arrays: Callable[[dict[str, Any]], object] = bool,
    rows: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
) -> None:
    """The folder with other content, and a card that says so: nothing is wrong with its hashes."""
    shutil.copytree(source, place)
    stated = json.loads((source / "card.json").read_text())
    card(stated)
    with np.load(source / "model.npz") as found:
        held = dict(found)
    arrays(held)
    np.savez(place / "model.npz", **held)
    if rows is not None:
        rows(pl.read_parquet(source / "data.parquet")).write_parquet(place / "data.parquet")
    stated["library"] = "adumbra 0.0.1"  # whose page need not be ours
    stated["files"] = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in stated["files"]}
    (place / "card.json").write_text(json.dumps(stated))


def fact(*path: Any) -> dict[str, Any]:
    """A fact on the card, set to the last of these."""

    def change(card: dict[str, Any]) -> None:
        place = card["facts"]
        for step in path[:-2]:
            place = place[step]
        place[path[-2]] = path[-1]

    return {"card": change}


def array(name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {"arrays": lambda held: held.update({name: change(held[name])})}


def first(count: int) -> dict[str, Any]:
    return {"rows": lambda frame: frame.head(count)}


def text(_: Any) -> Any:
    return np.array("s")


LISTS = {"rows": lambda frame: frame.with_columns(pl.lit([[1]]).alias(frame.columns[0]))}
WORDS = {"rows": lambda frame: frame.select(pl.all().cast(pl.String))}
CASES: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("privelet", RANGE, fact("strategy", "shape", 3)),
    ("privelet", COUNT, fact("strategy", "plain", 1)),
    ("privelet", RANGE, fact("strategy", "strategy", [[]])),
    ("histogram", EVALUATE, fact("domain", "cells", 1, 3)),
    ("histogram", EVALUATE, first(1)),
    ("histogram", EVALUATE, array("measured", text)),
    ("histogram", AUDIT, first(0)),
    ("lop", AUDIT, WORDS),
    ("lop", EVALUATE, array("axes", np.ravel)),
    ("lop", EVALUATE, array("axes", lambda axes: axes * np.nan)),
    ("noisy_rows", EVALUATE, first(0)),
    ("noisy_rows", EVALUATE, array("width", text)),
    ("noisy_rows", AUDIT, first(1)),
    ("tables", AUDIT, array("measured_tables_pooled", lambda held: held.astype(complex))),
    ("dprp", AUDIT, first(1)),
    ("dppro", NEIGHBOURS, LISTS),
    ("dppro", EVALUATE, array("step", text)),
    ("dppro", AUDIT, array("step", lambda step: np.zeros(2))),
    ("dppro", AUDIT, array("matrix", lambda matrix: matrix[:1])),
    ("analyze_gauss", EVALUATE, array("spectrum_high", lambda high: np.array(["a"] * len(high)))),
    ("analyze_gauss", AXES, array("axes", lambda axes: axes[:1])),
]


@pytest.mark.parametrize(("mechanism", "words", "change"), CASES)
def test_content_that_does_not_fit_is_the_folders_fault(
    cli: Cli, home: Home, genuine: Callable[[str], Path], mechanism: str, words: tuple[str, ...], change: dict[str, Any]
) -> None:
    people(0).write_csv("truth.csv")
    people(1).write_csv("holdout.csv")
    forged(genuine(mechanism), home.path / "d", **change)
    assert cli("verify", "d").code == 0
    done = cli(*words)
    assert (done.code, done.out) == (2, ""), done.err
    assert "a card and files that fit together" in done.err


@pytest.mark.parametrize(
    "wrong", [{"unit": ""}, {"relation": "x"}, {"unit": 3}, {"unit": "cell", "relation": "add-remove"}]
)
def test_a_card_of_no_unit_or_relation_is_refused_when_it_is_read(
    tmp_path: Path, genuine: Callable[[str], Path], wrong: dict[str, Any]
) -> None:
    forged(genuine("tables"), tmp_path / "d", card=lambda card: card.update(wrong))
    with pytest.raises(ad.InputError, match="does not read as one"):
        ad.load(tmp_path / "d")


def test_what_fails_over_a_release_of_our_own_stays_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ad.release(people(0), SCHEMA, build("tables", {}), ad.Budget(5.0))

    def fails(*given: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(type(made.kind), "compare", fails)
    with pytest.raises(ValueError, match="a defect"):
        ad.evaluate_release(made, people(0))
    assert "in memory" in made.misfit().got
