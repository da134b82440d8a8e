"""NIST's excerpt of the American Community Survey (national 2019) and the questions asked of it.

The score is SDNist's k-marginal: 1000 times one less the mean, over all pairs of columns, of the total variation of
their table. PUMA, where it is among the columns, is part of every table; INDP (264 codes) is in none. Ages, incomes,
poverty ratios and weights count in 20 cells of equal mass in the truth, `N` being one more; densities in public cells
of equal width in the logarithm. It agrees with SDNist 2.4 to all digits printed (judge.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pairs_study.scores import Codes, k_marginal

DELTA = 1e-5
TEN = ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE")
"""The columns of NIST's reports on the demographic set of features."""
_RANKED = ("AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP")
_BINS = 20
_ORDERED = ("NOC", "NPF", "EDU", "PINCP_DECILE", "DENSITY")
_SPIKES = {"PINCP": [0], "POVPIP": [501], "WGTP": [0]}

_AGE = {  # SDNist's list of what no row can be, by its names; an adult is over 15 there
    "child_DVET": "AGEP < 15 AND DVET IS NOT NULL",
    "child_MSP": "AGEP < 15 AND MSP IS NOT NULL",
    "child_PINCP": "AGEP < 15 AND PINCP IS NOT NULL",
    "child_PINCP_DECILE": "AGEP < 15 AND PINCP_DECILE IS NOT NULL",
    "child_INDP": "AGEP < 15 AND INDP IS NOT NULL",
    "child_INDP_CAT": "AGEP < 15 AND INDP_CAT IS NOT NULL",
    "child_phd": "AGEP < 15 AND EDU >= 12",
    "toddler_DPHY": "AGEP < 5 AND DPHY IS NOT NULL",
    "toddler_DREM": "AGEP < 5 AND DREM IS NOT NULL",
    "toddler_diploma": "AGEP < 5 AND EDU >= 5",
    "infant_EDU": "AGEP < 3 AND EDU IS NOT NULL",
    "adult_N (MSP)": "AGEP > 15 AND MSP IS NULL",
    "adult_N (PINCP)": "AGEP > 15 AND PINCP IS NULL",
    "adult_N (PINCP_DECILE)": "AGEP > 15 AND PINCP_DECILE IS NULL",
    "adult_N (EDU)": "AGEP > 15 AND EDU IS NULL",
    "adult_N (DPHY)": "AGEP > 15 AND DPHY IS NULL",
    "adult_N (DREM)": "AGEP > 15 AND DREM IS NULL",
}
_OTHER = {
    "invalid_INDP_CAT": "(INDP IS NULL) <> (INDP_CAT IS NULL)",
    "too_many_children": "NOC >= NPF",
    "gq_own": "HOUSING_TYPE > 1 AND OWN_RENT > 0",
    "gq_h_family_NPF": "HOUSING_TYPE > 1 AND NPF IS NOT NULL",
    "gq_h_family_NOC": "HOUSING_TYPE > 1 AND NOC IS NOT NULL",
    "house_NOC": "HOUSING_TYPE = 1 AND NOC IS NULL",
    "house_OWN_RENT": "HOUSING_TYPE = 1 AND OWN_RENT = 0",
}

_RULES = (  # what the code book says of N and of group quarters
    "if AGEP < 15 then MSP is missing else MSP is not missing",
    "if AGEP < 15 then PINCP is missing else PINCP is not missing",
    "if AGEP < 15 then PINCP_DECILE is missing else PINCP_DECILE is not missing",
    "if AGEP < 15 then DVET is missing",
    "if AGEP < 15 then INDP is missing",
    "if AGEP < 3 then EDU is missing else EDU is not missing",
    "if AGEP < 5 then EDU is missing or EDU <= 4",
    "if AGEP < 15 then EDU is missing or EDU <= 11",
    "if AGEP < 5 then DPHY is missing else DPHY is not missing",
    "if AGEP < 5 then DREM is missing else DREM is not missing",
    "if HOUSING_TYPE = 1 then OWN_RENT in [1, 2] else OWN_RENT = 0",
    "if HOUSING_TYPE = 1 then NOC is not missing else NOC is missing",
    "if HOUSING_TYPE != 1 then NPF is missing",
    "NOC < NPF",
    "if HOUSING_TYPE = 1 then WGTP >= 1 else WGTP = 0",
)


@cache
def table(data: Path) -> pl.DataFrame:
    """All 24 columns, `N` being an empty cell."""
    frame = pl.read_csv(data / "nist" / "national2019.csv.gz", null_values=["N"], infer_schema_length=None)
    return frame.with_columns(pl.col("PINCP").cast(pl.Int64))


def declared(data: Path, columns: Sequence[str], rules: bool) -> dict[str, Any]:
    """NIST's public schema of these columns, with or without what its code book says of two columns at once."""
    book = json.loads((data / "nist" / "national2019.json").read_text(encoding="utf-8"))["schema"]
    frame = table(data)
    found = {}
    for name in columns:
        if name == "DENSITY":  # of each area, known to everybody
            found[name] = {"kind": "ordinal", "values": sorted(frame[name].unique().to_list())}
        elif "values" in book[name]:
            words = [word for word in book[name]["values"] if word != "N"]
            values = words if name == "PUMA" else [int(word) for word in words]
            found[name] = {"kind": "ordinal" if name in _ORDERED else "category", "values": values}
        else:
            low, high = int(book[name]["min"]), int(book[name]["max"])
            found[name] = {"kind": "number", "low": low, "high": high, "integer": True}
            found[name] |= {"spikes": _SPIKES[name]} if name in _SPIKES else {}
    out: dict[str, Any] = {"table": {"name": "national2019"}, "columns": found}
    if rules:
        known = set(columns)
        checks = [{"check": rule} for rule in _RULES if _names(rule) <= known]
        out["rules"] = checks + [
            {
                "columns": list(pair),
                "rows": [list(row) for row in frame.select(pair).unique().drop_nulls().sort(pair).rows()],
            }
            for pair in (("PUMA", "DENSITY"), ("INDP", "INDP_CAT"))
            if known.issuperset(pair)
        ]
    return out


def _names(rule: str) -> set[str]:
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in rule).split()
    return {word for word in words if word.isupper()}


def coded(frame: pl.DataFrame, truth: pl.DataFrame, columns: Sequence[str]) -> tuple[Codes, list[int]]:
    """The cells that the score counts."""
    parts, sizes = [], []
    for name in columns:
        series = frame[name]
        if name in _RANKED:
            edges = _ranks(truth[name])
            found = np.searchsorted(edges, series.fill_null(0).to_numpy(), side="left")
            size = len(edges) + 1
        elif name == "DENSITY":
            edges = np.concatenate([[150.0], np.logspace(1, np.log10(52864.7 + 500), 21)[8:-1]])
            found, size = np.searchsorted(edges, series.to_numpy().astype(int), side="left"), len(edges) + 1
        else:
            values = sorted(truth[name].drop_nulls().unique().to_list())
            place = {value: index for index, value in enumerate(values)}
            found = np.array([place.get(v, len(values)) for v in series.to_list()])
            size = len(values) + 1  # declared values that the truth has not
        parts.append(np.where(series.is_null().to_numpy(), size, found))
        sizes.append(size + 1)
    return np.stack(parts, 1).astype(np.int64), sizes


def _ranks(series: pl.Series) -> np.ndarray:
    """The upper ends of all cells but the last: cells by the mean rank of a value among all."""
    known = series.drop_nulls()
    cell = np.minimum((_BINS * known.rank("average").to_numpy() / len(known)).astype(int), _BINS - 1)
    values = known.to_numpy()
    return np.array([int(values[cell == c].max()) for c in np.unique(cell)[:-1]])


def scores(truth: pl.DataFrame, release: pl.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """The k-marginal score, and that of all triples."""
    scored = [name for name in columns if name != "INDP"]
    (one, sizes), (two, _) = coded(truth, truth, scored), coded(release, truth, scored)
    area = scored.index("PUMA") if "PUMA" in scored else None
    out = {"k-marginal": k_marginal(one, two, sizes, 2, area)}
    if area is None:
        return out | {"k-marginal, k = 3": k_marginal(one, two, sizes, 3)}
    keep = [j for j in range(len(scored)) if j != area]
    few = [sizes[j] for j in keep]
    return out | {
        "k-marginal, areas pooled": k_marginal(one[:, keep], two[:, keep], few, 2),
        "k-marginal, k = 3, areas pooled": k_marginal(one[:, keep], two[:, keep], few, 3),
    }


def broken(frame: pl.DataFrame) -> dict[str, float]:
    """Shares of rows, %, that are impossible by the rules of SDNist that speak of these columns."""
    known = set(frame.columns)
    out = {}
    for words, rules in (("an age rule (SDNist)", _AGE), ("any rule (SDNist)", _AGE | _OTHER)):
        found = [pl.sql_expr(rule).fill_null(False) for rule in rules.values() if _columns(rule) <= known]
        out[f"rows that break {words}, %"] = 100.0 * float(frame.select(pl.any_horizontal(found).mean()).item())
    return out


def _columns(rule: str) -> set[str]:
    return _names(rule) - {"AND", "OR", "IS", "NOT", "NULL"}


def asked(frame: pl.DataFrame) -> dict[str, float]:
    """What an analyst asks of the ten columns."""
    widowed, adult = pl.col("MSP") == 3, pl.col("AGEP") >= 25
    degree, top = pl.col("EDU") >= 9, pl.col("PINCP_DECILE") >= 8

    def share(of: pl.Expr, among: pl.Expr) -> float:
        rows = frame.filter(among)
        return float("nan") if not rows.height else 100.0 * float(rows.select(of.fill_null(False).mean()).item())

    return {
        "mean age of the widowed": _number(frame.filter(widowed)["AGEP"].mean()),
        "women among the widowed, %": share(pl.col("SEX") == 2, widowed),
        "top fifth of incomes, adults with a degree, %": share(top, adult & degree),
        "top fifth of incomes, adults without, %": share(top, adult & ~degree),
        "men less women in the top fifth, adults with a degree, points": share(
            top, adult & degree & (pl.col("SEX") == 1)
        )
        - share(top, adult & degree & (pl.col("SEX") == 2)),
        "owners among Black adults, %": share(pl.col("OWN_RENT") == 1, adult & (pl.col("RAC1P") == 2)),
        "owners among White adults, %": share(pl.col("OWN_RENT") == 1, adult & (pl.col("RAC1P") == 1)),
        "MSP is missing, %": 100.0 * frame["MSP"].null_count() / frame.height,
        "MSP and PINCP_DECILE missing together, % of MSP missing": share(
            pl.col("PINCP_DECILE").is_null(), pl.col("MSP").is_null()
        ),
        "vision difficulty from 75 on, %": share(pl.col("DEYE") == 1, pl.col("AGEP") >= 75),
    }


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def reference(truth: pl.DataFrame, columns: Sequence[str], kind: str, seed: int) -> pl.DataFrame:
    """What needs no release: rows drawn again from the real ones, or every column shuffled for itself."""
    if kind == "drawn again":
        return truth.sample(truth.height, with_replacement=True, seed=seed)
    return pl.DataFrame([truth[name].shuffle(seed=seed * 100 + place) for place, name in enumerate(columns)])


def measured(truth: pl.DataFrame, release: pl.DataFrame, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Every answer beside the truth's."""
    out = {key: (1000.0, value) for key, value in scores(truth, release, columns).items()}
    for ask in (broken, asked):
        true, found = ask(truth), ask(release)
        out |= {key: (true[key], found[key]) for key in true}
    return out
