"""Small made-up records for tests of utility-aware releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from adumbra.audit.adversaries import SeededCoins
from adumbra.common.randomness import PublicSeed
from adumbra.jupa.model import JupaModel, fit_jupa
from adumbra.jupa.recipe import JupaRecipe

SEED = PublicSeed.given("review")


def _records(rows: int, seed: int, *, rare: float = 0.5, shown: float = 0.0, unequal: float = 0.0) -> pl.DataFrame:
    """u shows in column a; s is 1 for a share `rare`, shows in column b, and shifts the rates of u."""
    rng = np.random.default_rng(seed)
    s = (rng.random(rows) < rare).astype(np.int64)
    u = (rng.random(rows) < 0.5 + unequal * (2 * s - 1)).astype(np.int64)
    x = rng.normal(size=(rows, 3))
    x[:, 0] += 2.5 * u
    x[:, 1] += shown * s
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "u": u, "s": s})


def _fitted(public: pl.DataFrame, **options: Any) -> JupaModel:
    if options.get("release", "resample") in ("resample", "respond", "repair"):
        options = {"model": "linear"} | options
    return fit_jupa(public, JupaRecipe(("u",), ("s",), **options), seed=SEED)


def _guessed(model: JupaModel, private: pl.DataFrame) -> float:
    """Accuracy, for equally likely classes, of the best guess from what a row shows."""
    told = model.told_by(model.release_rows(private, SeededCoins(1)).rows)
    assert told is not None
    s = model.labels_of(private, "privacy")
    rates = [np.bincount(told[s == k], minlength=told.max() + 1) / (s == k).sum() for k in range(s.max() + 1)]
    return float(np.max(rates, axis=0).sum() / len(rates))
