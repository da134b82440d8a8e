"""Few rows: tables, moments and hybrid beside what `auto` picks, on small public and made-up tables.

    python benchmarks/small_tables.py --data DIR [--sets trajectories15,...] [--epsilon 1,4] [--splits 5]
                                      [--first-split 0] [--rows 3000] [--held-out] [--out results.csv]

Splits, releases and scores are those of `benchmarks/tables.py`: accuracy of the better of a default random forest and a
standardised logistic regression, trained on released rows, tested on real ones. The last column is how far what `auto`
picks is below the best of the three, beside the standard error of that difference. The rule of `auto` was made on the
tables without `--held-out`; those with it were looked at once, afterwards.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common.resume import write_rows
from common.tables import markdown
from sklearn.datasets import load_iris

import adumbra as ad
import tables
from adumbra.mechanisms.auto import Auto

Reader = Callable[[Path], tuple[pl.DataFrame, str]]
MECHANISMS = ("tables", "moments:narrow=true", "hybrid")


def _frame(columns: np.ndarray, classes: np.ndarray) -> tuple[pl.DataFrame, str]:
    data = {f"c{i:03d}": columns[:, i] for i in range(columns.shape[1])}
    return pl.DataFrame(data).with_columns(pl.Series("label", [f"k{k}" for k in classes])), "label"


def trajectories(rows: int, classes: int, points: int, spread: float, seed: int) -> Reader:
    """Smooth curves in the plane, one shape a class, sampled at some points: coordinates in [0, 1]."""

    def read(_: Path) -> tuple[pl.DataFrame, str]:
        rng, order = np.random.default_rng(seed), np.arange(1, 4)
        time, label = np.linspace(0, 1, points), np.arange(rows) % classes
        shapes = rng.normal(size=(classes, 2, 2, 3)) / order
        out = np.empty((rows, 2, points))
        for i, k in enumerate(label):
            shape = shapes[k] + spread * rng.normal(size=(2, 2, 3)) / order
            warped = time ** np.exp(spread * 0.5 * rng.normal()) + 0.15 * spread * rng.normal()
            waves = np.pi * order[:, None] * warped
            curve = np.einsum("xso,sop->xp", shape, np.stack([np.sin(waves), np.cos(waves)]))
            out[i] = curve * np.exp(0.3 * spread * rng.normal()) + spread * rng.normal(size=(2, 1))
        out = (out - out.min((0, 2), keepdims=True)) / np.ptp(out, axis=(0, 2), keepdims=True)
        return _frame(np.round(out.transpose(0, 2, 1).reshape(rows, -1), 5), label)

    return read


def clouds(rows: int, width: int, classes: int, apart: float, factors: int, seed: int) -> Reader:
    """Normal rows about class means in any direction, with some common factors."""

    def read(_: Path) -> tuple[pl.DataFrame, str]:
        rng, label = np.random.default_rng(seed), np.arange(rows) % classes
        loads = rng.normal(size=(factors, width)) * 0.7
        means = apart * rng.normal(size=(classes, width)) * np.sqrt(10 / width) / 2
        common = rng.normal(size=(rows, factors)) @ loads
        return _frame(means[label] + common + rng.normal(size=(rows, width)) * 0.7, label)

    return read


def choices(rows: int, width: int, values: int, classes: int, apart: float, tie: float, seed: int) -> Reader:
    """Categories (flags, if of two values) that go with the class and, by two common factors, with each other."""

    def read(_: Path) -> tuple[pl.DataFrame, str]:
        rng, label = np.random.default_rng(seed), np.arange(rows) % classes
        taste = rng.normal(size=(width, values)) * 0.7
        taste = taste + apart * rng.normal(size=(classes, width, values)) * (rng.random((1, width, 1)) < 0.6)
        common = np.zeros((rows, width, values))
        if tie:
            loads = tie * rng.normal(size=(2, width, values))
            common = np.einsum("nf,fdv->ndv", rng.normal(size=(rows, 2)), loads)
        picked = (taste[label] + common + rng.gumbel(size=(rows, width, values))).argmax(2)
        return _frame(
            picked.astype(float) if values == 2 else np.array([f"v{v}" for v in range(values)])[picked], label
        )

    return read


def sample(name: str, rows: int, seed: int = 1) -> Reader:
    """So many rows of a table of `benchmarks/tables.py`."""

    def read(data: Path) -> tuple[pl.DataFrame, str]:
        frame, label = tables.SETS[name](data)
        return frame.sample(rows, seed=seed), label

    return read


def named(file: str, columns: str, label: str, rows: int, seed: int = 1) -> Reader:
    """So many rows of the categories of a file, of which one is the label; its rarest values are left out."""

    def read(data: Path) -> tuple[pl.DataFrame, str]:
        frame = pl.read_csv(data / file, infer_schema_length=None)
        frame = frame.select(pl.col(c).cast(pl.String) for c in sorted(columns.split(), key=lambda c: c == label))
        often = frame[label].value_counts().filter(pl.col("count") > 0.01 * frame.height)[label]
        return frame.filter(pl.col(label).is_in(often.implode())).sample(rows, seed=seed), label

    return read


ADULT = ("adult.csv.gz", "workclass education marital_status occupation relationship race sex income")
BANK = ("bank_full.csv.gz", "job marital education default housing loan contact month poutcome y")
CENSUS = (
    "nist/national2019.csv.gz",
    "SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT INDP_CAT EDU PINCP_DECILE DVET DREM DPHY DEYE DEAR",
)
WHOLE = ("wdbc", "dermatology", "hcc", "ilpd", "coimbra", "caesarian", "cervical", "wine", "musk1")
MADE_ON: dict[str, Reader] = {
    **{name: tables.SETS[name] for name in WHOLE},
    "iris": tables._bunch(load_iris),
    **{f"waveform40_{n}": sample("waveform40", n) for n in (300, 600, 1000)},
    **{f"digits_{n}": sample("digits", n) for n in (400, 1000)},
    **{f"semeion_{n}": sample("semeion", n) for n in (500, 1100)},
    **{f"har_{n}": sample("har", n) for n in (300, 1000)},
    "covtype_700": sample("covtype", 700),
    "adult_600": sample("adult", 600),
    "bank_600": sample("bank", 600),
    "trajectories15": trajectories(360, 15, 45, 0.35, 1),
    "trajectories15b": trajectories(360, 15, 45, 0.6, 2),
    "trajectories10": trajectories(900, 10, 30, 0.5, 3),
    "trajectories5": trajectories(240, 5, 20, 0.5, 4),
    "trajectories20": trajectories(600, 20, 45, 0.35, 5),
    "clouds5": clouds(300, 20, 5, 1.0, 3, 6),
    "clouds20": clouds(1000, 50, 20, 1.2, 5, 7),
    "clouds6": clouds(900, 12, 6, 1.0, 3, 14),
    "choices8": choices(400, 20, 4, 8, 1.0, 1.0, 21),
    "choices3": choices(900, 20, 4, 3, 0.7, 1.2, 22),
    "choices10": choices(800, 30, 5, 10, 1.0, 0.0, 11),
    "flags12": choices(800, 60, 2, 12, 1.0, 0.0, 13),
    "adult_income_1000": named(*ADULT, "income", 1000),
    "adult_relationship_600": named(*ADULT, "relationship", 600),
    "bank_job_800": named(*BANK, "job", 800),
    "census_marital_500": named(*CENSUS, "MSP", 500),
    "census_tenure_400": named(*CENSUS, "OWN_RENT", 400),
}
HELD_OUT: dict[str, Reader] = {
    "waveform40_400": sample("waveform40", 400, 4),
    "digits_600": sample("digits", 600, 5),
    "semeion_800": sample("semeion", 800, 5),
    "har_600": sample("har", 600, 4),
    "adult_900": sample("adult", 900, 5),
    "bank_900": sample("bank", 900, 5),
    "musk2_900": sample("musk2", 900, 5),
    "trajectories15c": trajectories(360, 15, 45, 0.45, 51),
    "trajectories6": trajectories(500, 6, 20, 0.5, 52),
    "trajectories12": trajectories(300, 12, 30, 0.4, 53),
    "clouds8": clouds(700, 25, 8, 1.3, 4, 54),
    "clouds4": clouds(300, 15, 4, 1.2, 3, 55),
    "choices5": choices(500, 25, 3, 5, 1.0, 0.8, 56),
    "choices9": choices(900, 15, 5, 9, 1.0, 1.2, 57),
    "flags4": choices(500, 30, 2, 4, 0.8, 0.0, 58),
    "adult_income_500": named(*ADULT, "income", 500, 7),
    "adult_marital_500": named(*ADULT, "marital_status", 500, 7),
    "bank_education_500": named(*BANK, "education", 500, 7),
    "census_marital_900": named(*CENSUS, "MSP", 900, 7),
    "census_tenure_700": named(*CENSUS, "OWN_RENT", 700, 7),
    "census_education_800": named(*CENSUS, "EDU", 800, 7),
}


def scores(results: list[dict[str, Any]], mechanism: str) -> tuple[float, float]:
    """Mean accuracy of the better model over splits, and its standard error."""
    found = []
    for model in ("forest", "logistic"):
        each = [r["accuracy"] for r in results if (r["mechanism"], r["model"]) == (mechanism, model)]
        found.append((float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))))
    return max(found)


def summary(name: str, epsilon: float, results: list[dict[str, Any]], data: str) -> list[Any]:
    """One line of the table: each mechanism, and what the rule picks from the public facts alone."""
    frame, schema, _ = tables.load(name, data)
    job = ad.plan(frame.head(int(0.8 * frame.height)), schema, Auto(), ad.Budget(epsilon, tables.DELTA)).job
    found = {m: scores(results, m) for m in MECHANISMS}
    best = max(found, key=lambda m: found[m][0])
    shown = [f"{mean:.3f} ± {error:.3f}" for mean, error in found.values()]
    own = next((m for m in MECHANISMS if m.startswith(job.mechanism.name)), None)
    if own is None:
        return [name, f"{epsilon:g}", *shown, job.mechanism.name, "none of the three"]
    gap, error = found[own][0] - found[best][0], np.hypot(found[own][1], found[best][1])
    return [name, f"{epsilon:g}", *shown, job.mechanism.name, f"{gap:+.3f}" + (f" ± {error:.3f}" if gap else "")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="")
    parser.add_argument("--sets")
    parser.add_argument("--epsilon", default="1,4")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables.SETS |= MADE_ON | HELD_OUT
    results: list[dict[str, Any]] = []
    lines = []
    for name in options.sets.split(",") if options.sets else HELD_OUT if options.held_out else MADE_ON:
        for epsilon in map(float, options.epsilon.split(",")):
            found = []
            for split in range(options.first_split, options.first_split + options.splits):
                for mechanism in MECHANISMS:
                    found += tables.one((name, options.data, mechanism, epsilon, split, True, options.rows))
            results += found
            lines.append(summary(name, epsilon, found, options.data))
            print(lines[-1], file=sys.stderr, flush=True)
    if options.out is not None:
        write_rows(results, options.out)
    print(markdown(["set", "epsilon", "tables", "moments", "hybrid", "auto picks", "below the best"], lines))


if __name__ == "__main__":
    main()
