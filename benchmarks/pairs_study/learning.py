"""Tables with a label: what models learn from a release, how pairs of columns fare, and what one asks of Adult."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from pairs_study.scores import fidelity, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

import adumbra as ad
import tables

DELTA = 1e-4
ROWS = 20_000
"""Rows drawn, the same for all sets and mechanisms."""
SETS = ("adult", "nltcs", "br2000", "bank")
_MARRIED = ("Married-civ-spouse", "Married-AF-spouse")


@cache
def parts(name: str, data: Path, split: int, most: int | None) -> tuple[pl.DataFrame, pl.DataFrame, ad.Schema, str]:
    """Four fifths to release, a fifth to judge models by, the public schema and the label."""
    frame, schema, label = tables.load(name, str(data))
    if most is not None and frame.height > most:
        frame = frame.sample(most, seed=split, shuffle=True)
    known, held = train_test_split(
        np.arange(frame.height), test_size=0.2, stratify=frame[label].to_numpy(), random_state=20_000 + split
    )
    return frame[known], frame[held], schema, label


def models(train: pl.DataFrame, test: pl.DataFrame, schema: ad.Schema, label: str) -> dict[str, float]:
    """Accuracy of a logistic regression and of boosted trees on real rows, and the trees' average precision."""
    (x, y), (test_x, test_y) = tables.features(train, schema, label), tables.features(test, schema, label)
    out = {"LR": tables.scored("logistic", x, y, test_x, test_y)[0]}
    classes = len(schema.column(label).values)
    chance = np.zeros((len(test_y), classes))
    if len(np.unique(y)) < 2:
        chance[:, y[0]] = 1.0
    else:
        trees = HistGradientBoostingClassifier(random_state=0, max_iter=100, early_stopping=False).fit(x, y)
        chance[:, trees.classes_] = trees.predict_proba(test_x)
    wanted = [1] if classes == 2 else [c for c in range(classes) if (test_y == c).any()]
    precision = float(np.mean([average_precision_score(test_y == c, chance[:, c]) for c in wanted]))
    return out | {"HGB": float((chance.argmax(1) == test_y).mean()), "HGB AUPRC": precision}


@cache
def true_models(name: str, data: Path, split: int, most: int | None) -> dict[str, float]:
    """The same of models that were trained on the real rows."""
    return models(*parts(name, data, split, most))


def measured(name: str, data: Path, split: int, most: int | None, made: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Every answer beside the truth's."""
    train, test, schema, label = parts(name, data, split, most)
    out = {key: (0.0, value) for key, value in fidelity(train, made, schema, label).items()}
    out["correlation error"] = (0.0, tables.fidelity(train, made, schema, label)[0])
    true, found = true_models(name, data, split, most), models(made, test, schema, label)
    out |= {key: (true[key], found[key]) for key in true}
    if name == "adult":
        valid = train.select("education", "education_num").unique()
        asked = [adult(frame, valid) for frame in (train, made)]
        out |= {key: (asked[0][key], asked[1][key]) for key in asked[0]}
    return out


def _share(frame: pl.DataFrame, of: pl.Expr, among: pl.Expr | None = None) -> float:
    rows = frame if among is None else frame.filter(among)
    return float("nan") if not rows.height else 100.0 * float(rows.select(of.fill_null(False).mean()).item())


def adult(frame: pl.DataFrame, valid: pl.DataFrame) -> dict[str, float]:
    """What anybody sees first in a released Adult, and what a study of pay would conclude.

    The regression is a plain one of income above 50K on age, years of education, hours, capital gain, being married
    (Married-civ-spouse) and being male, without penalty.
    """
    husband, wife = pl.col("relationship") == "Husband", pl.col("relationship") == "Wife"
    male, rich = pl.col("sex") == "Male", pl.col("income") == ">50K"
    married = pl.col("marital_status") == "Married-civ-spouse"
    nowhere = pl.col("occupation") == "?"
    kept = frame.join(valid, on=["education", "education_num"], how="semi").height / frame.height
    out = {
        "valid pairs of education and education_num, %": 100.0 * kept,
        "female husbands, % of husbands": _share(frame, ~male, husband),
        "male wives, % of wives": _share(frame, male, wife),
        "unmarried husbands, % of husbands": _share(frame, ~pl.col("marital_status").is_in(_MARRIED), husband),
        "above 50K, married men less married women, points": _share(frame, rich, married & male)
        - _share(frame, rich, married & ~male),
        "workclass missing where occupation is, %": _share(frame, pl.col("workclass") == "?", nowhere),
        "above 50K, women, %": _share(frame, rich, ~male),
        "above 50K, doctorates, %": _share(frame, rich, pl.col("education") == "Doctorate"),
        "above 50K, Amer-Indian-Eskimo, %": _share(frame, rich, pl.col("race") == "Amer-Indian-Eskimo"),
        "mean age of the widowed": _mean(frame.filter(pl.col("marital_status") == "Widowed"), "age"),
        "mean age of the never married": _mean(frame.filter(pl.col("marital_status") == "Never-married"), "age"),
        "mean hours, men less women": _mean(frame.filter(male), "hours_per_week")
        - _mean(frame.filter(~male), "hours_per_week"),
    }
    numbers = ("age", "education_num", "hours_per_week", "capital_gain")
    x = frame.select(*[pl.col(c).cast(pl.Float64) for c in numbers], married.cast(pl.Float64), male.cast(pl.Float64))
    fitted = logit(x.to_numpy(), frame.select(rich.cast(pl.Float64)).to_series().to_numpy())
    return out | {"logit: male": float(fitted[6]), "logit: married": float(fitted[5])}


def _mean(frame: pl.DataFrame, column: str) -> float:
    found = frame[column].mean()
    return float("nan") if found is None else float(found)  # type: ignore[arg-type] # of numbers
