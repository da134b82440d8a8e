"""Tables I to IV of the JUPA paper beside ours, and which releases hold against an adversary that runs them itself.

    python benchmarks/jupa.py --data DIR --out DIR [--only tables|frontier] [--scenario har,adult-income,...]
                              [--label TEXT] [--repeats 5] [--workers 1] [--resume] [--quick]

Writes results.jsonl (one line for each finished piece; `--resume` goes on from it), results.csv (one number a line),
tables.md, frontier.md and frontier-SCENARIO.svg. DIR of `--data` holds har.parquet, adult.csv.gz and
bank_additional_full.csv.gz. With OMP_NUM_THREADS=1 and ADUMBRA_THREADS=1 workers do not get in each other's way.

Sampling as in the paper: 20 (HAR), 750 (Adult) and 410 (Bank) records of every pair of utility and privacy class, 40 %
to fit the release on (public), 20 % the owner's, 40 % for the service and the adversary; categories in binary code;
columns standardised on the public part; rho0 = 0.001 as an absolute number. Every repetition samples and splits anew.
Adult goes without the records that hold a `?`, Bank without those that hold `unknown`. What differs from the paper: a
support vector machine takes its C and gamma from 6 pairs by 3 folds, not from a 10-fold grid; the kernel of the fine
step is the one by which the most public records reach their target; its step is counted in bandwidths.

In the frontier the owner's and the adversary's part of Adult and HAR are larger (records that the paper leaves out),
so that a share of right answers is known to about a point; the public part has the paper's size.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from adumbra.audit.adversaries import ADVERSARIES, READER, WITHIN, SeededCoins, attack_jupa, train_and_score
from adumbra.audit.frontier_picture import frontier_svg
from adumbra.core.randomness import PublicSeed
from adumbra.jupa.features import Features, Target
from adumbra.jupa.model import fit_jupa
from adumbra.jupa.recipe import JupaRecipe
from adumbra.linalg.discriminant import Projection, fit_projection, floor_unit
from adumbra.linalg.mmd import FineStep, fit_fine_step

RHO0 = 1e-3  # the paper's, absolute
RHOS = (1.0, 1e2, 1e4)
SHARES = (0.4, 0.6)  # where the owner's part starts and ends
FRONTIER_FROM = 100  # repetitions of the frontier start here: none of its splits is one of the tables'
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A table of the paper: its file, its targets and what it printed."""

    table: str
    title: str
    file: str
    utility: str
    privacy: str
    each: int  # records of every pair of classes
    components: int
    extra: int  # further records of every pair for the owner, and as many for the adversary, in the frontier
    goal: float
    first: float  # what a first search found
    printed: dict[str, tuple[float, float, float, float]]  # utility coarse, fine; privacy coarse, fine


def printed(lines: str) -> dict[str, tuple[float, float, float, float]]:
    """The paper's numbers in the order of its rows."""
    rows = [tuple(map(float, line.split())) for line in lines.strip().splitlines()]
    return dict(zip(METHODS, rows, strict=True))  # type: ignore[arg-type] # four numbers each


METHODS = ("full", "random", "pca", "dca", "mdr", *(f"jupa {a:g} {b:g}" for a in RHOS for b in RHOS))
FIRST = ("jupa 1 1", "dca", "jupa 10000 10000", "mdr", "pca", "random")  # so that an early stop has every kind
FINE_REPEATS = 2  # of fine and adaptive where they are slow (HAR, full) or rows hardly differ (other rhos)
PRINTED_STEP = ("dca", "jupa 1 1")  # these also with the paper's own settings of the fine step

SCENARIOS = {
    "har": Scenario(
        "I",
        "HAR, K = 5, activity / subject",
        "har.parquet",
        "activity",
        "subject",
        20,
        5,
        8,
        96.0,
        96.9,
        printed("""
            97.22 66.94 62.78 3.33
            60.28 57.36 13.75 3.33
            84.72 73.33 30.28 3.75
            94.58 93.75 23.61 3.33
            91.67 88.75 22.92 4.58
            96.11 94.31 21.11 3.75
            95.83 93.47 20.28 3.61
            95.56 93.47 19.72 3.33
            94.44 93.33 20.00 3.33
            94.17 92.64 17.78 3.33
            93.75 92.36 16.67 3.33
            92.50 88.19 13.61 3.33
            89.58 86.39 12.50 3.33
            87.50 86.11 12.08 3.33"""),
    ),
    "adult-income": Scenario(
        "II",
        "Adult, K = 1, income / sex",
        "adult.csv.gz",
        "income",
        "sex",
        750,
        1,
        450,
        79.0,
        79.9,
        printed("""
            84.50 69.76 87.33 50.00
            58.33 50.50 59.17 50.00
            73.33 70.33 81.67 50.00
            80.00 73.50 56.00 50.00
            76.67 68.33 58.00 50.00
            82.50 75.33 55.50 50.00
            80.00 75.16 54.67 50.00
            78.33 74.33 54.67 50.00
            79.17 74.66 55.00 50.00
            77.50 74.00 54.50 50.00
            76.67 73.83 54.17 50.00
            76.00 73.67 53.17 50.00
            75.00 73.50 52.67 50.00
            72.00 66.83 51.17 50.00"""),
    ),
    "adult-gender": Scenario(
        "III",
        "Adult, K = 1, sex / income",
        "adult.csv.gz",
        "sex",
        "income",
        750,
        1,
        450,
        82.0,
        82.4,
        printed("""
            87.33 73.50 84.50 50.00
            59.17 59.17 58.33 50.00
            81.67 70.33 73.33 50.00
            87.50 80.50 53.17 50.00
            86.67 77.83 56.00 50.00
            88.00 82.50 57.17 50.00
            87.67 82.17 55.67 50.00
            87.50 82.17 55.50 50.00
            87.67 81.33 55.67 50.00
            86.67 81.17 54.67 50.00
            86.00 80.17 54.67 50.00
            87.00 80.33 54.33 50.00
            86.67 79.67 53.50 50.00
            85.67 78.67 52.67 50.00"""),
    ),
    "bank": Scenario(
        "IV",
        "Bank (additional), K = 1, y / marital",
        "bank_additional_full.csv.gz",
        "y",
        "marital",
        410,
        1,
        0,
        86.0,
        86.4,
        printed("""
            86.38 69.11 45.73 34.15
            60.57 54.88 39.23 33.33
            71.14 70.73 41.06 33.33
            84.76 78.66 38.01 33.33
            71.75 67.48 36.79 33.33
            86.38 81.30 39.63 33.33
            86.18 79.67 38.82 33.33
            85.37 78.66 38.41 33.33
            86.18 76.22 38.01 33.33
            85.98 75.61 37.60 33.33
            85.98 75.41 36.18 33.33
            85.37 75.20 36.99 33.33
            84.35 75.00 36.59 33.33
            83.13 74.59 35.77 33.33"""),
    ),
}


# ---- records


@cache
def records(file: str, data: str) -> pl.DataFrame:
    """The records that the paper sampled from: none with a cell that says it is missing, and no column `split`."""
    path = Path(data) / file
    frame = pl.read_parquet(path) if file.endswith("parquet") else pl.read_csv(path, infer_schema_length=None)
    absent = "unknown" if file.startswith("bank") else "?"
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    if texts:
        frame = frame.filter(~pl.any_horizontal(pl.col(texts).str.strip_chars() == absent))
    return frame.drop("split", strict=False)


def sampled(scenario: Scenario, data: str, repeat: int, extra: int = 0) -> list[pl.DataFrame]:
    """Public part, owner's part, adversary's part: disjoint, with every pair of classes equally often in each."""
    frame = records(scenario.file, data)
    pairs = frame.select(scenario.utility, scenario.privacy).with_row_index("at")
    generator = np.random.default_rng([7, repeat])
    start, end = (round(share * scenario.each) for share in SHARES)
    found: list[list[np.ndarray]] = [[], [], []]
    for _, group in sorted(pairs.group_by(scenario.utility, scenario.privacy), key=lambda item: item[0]):
        places = generator.permutation(group["at"].to_numpy())
        used, more = places[: scenario.each], places[scenario.each : scenario.each + 2 * extra]
        for part, piece in zip(
            found,
            (used[:start], np.r_[used[start:end], more[:extra]], np.r_[used[end:], more[extra:]]),
            strict=True,
        ):
            part.append(piece)
    return [frame[generator.permutation(np.concatenate(part))] for part in found]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Coded records with their classes."""

    rows: np.ndarray
    utility: np.ndarray
    privacy: np.ndarray


@cache
def coded(name: str, data: str, repeat: int) -> list[Part]:
    """The three parts of one repetition of a table, coded and standardised by the public one."""
    scenario = SCENARIOS[name]
    frames = sampled(scenario, data, repeat)
    targets = (scenario.utility, scenario.privacy)
    features = Features.fit(frames[0], columns=[c for c in frames[0].columns if c not in targets], encoding="binary")
    utility, privacy = (Target.fit(frames[0], [column], "target") for column in targets)
    return [Part(features.encode(frame), utility.of(frame), privacy.of(frame)) for frame in frames]


# ---- tables


def machine(rows: np.ndarray, labels: np.ndarray, quick: bool) -> Any:
    """The papers' classifier, trained: an RBF support vector machine with cross-validated C and gamma."""
    columns = rows.shape[1]
    model = make_pipeline(StandardScaler(), SVC(cache_size=500))
    wide = columns > 100  # every fit takes seconds there, and C hardly matters
    grid = {
        "svc__C": [2.0] if quick else [10.0] if wide else [0.5, 10.0],
        "svc__gamma": [g / columns for g in ((1.0,) if quick else (0.3, 1.0) if wide else (0.25, 1.0, 5.0))],
    }
    if quick:
        return model.set_params(svc__C=2.0, svc__gamma=1.0 / columns).fit(rows, labels)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return GridSearchCV(model, grid, cv=folds).fit(rows, labels)


def projection(method: str, public: Part, components: int, seed: bytes) -> Projection:
    """What a row of the tables projects with; the paper's absolute rho0 in our unit."""
    kind, *weights = method.split()
    kind = {"full": "none"}.get(kind, kind)
    given: dict[str, Any] = {"rho1": float(weights[0]), "rho1_prime": float(weights[1])} if weights else {}
    targets = [public.utility], [public.privacy]
    rho0 = 1e-3
    if kind in ("jupa", "dca", "mdr"):
        rho0 = RHO0 / floor_unit(kind, public.rows, *targets, rho1=given.get("rho1", 1.0))
    return fit_projection(kind, public.rows, *targets, components, rho0=rho0, seed=seed, **given)


def table_cell(name: str, data: str, method: str, repeat: int, quick: bool) -> Row:
    """One method on one repetition: coarse and fine, the papers' adversary and adaptive ones."""
    scenario = SCENARIOS[name]
    public, owner, own = coded(name, data, repeat)
    seed = f"{name} {repeat}".encode()
    fitted = projection(method, public, scenario.components, seed)
    z, z_owner, z_own = (fitted.apply(part.rows) for part in (public, owner, own))
    wide = z.shape[1] > 100
    models = ("forest",) if wide or quick else ("forest", "boosting")
    service, adversary = (machine(z_own, labels, quick) for labels in (own.utility, own.privacy))
    classes = int(public.privacy.max()) + 1
    out: Row = {"columns": public.rows.shape[1], "records": len(z_owner), "chance": 1 / classes}
    out["utility coarse"] = float(np.mean(service.predict(z_owner) == owner.utility))
    out["privacy coarse"] = float(np.mean(adversary.predict(z_owner) == owner.privacy))
    few = method not in FIRST and (method != "full" or name == "har")
    if few and repeat >= FINE_REPEATS:
        return out
    out["coarse svm"] = out["privacy coarse"]
    for model, share in train_and_score(z_own, own.privacy, z_owner, owner.privacy, models, quick).items():
        out[f"coarse {model}"] = share

    def attacked(step: FineStep, tag: str) -> None:
        """Every record is released, also those that did not reach their target: the paper knows no other way."""
        coins = SeededCoins(repeat)
        targets = coins.below(classes, len(z_owner))
        moved = step.move(z_owner, targets)
        copies = 1 if classes > 10 or quick else 2
        simulated = np.vstack([step.move(z_own, coins.below(classes, len(z_own))).rows for _ in range(copies)])
        sources = np.tile(np.arange(len(z_own)), copies)
        guess = adversary.predict(moved.rows)
        out[f"utility {tag}"] = float(np.mean(service.predict(moved.rows) == owner.utility))
        out[f"privacy {tag}"] = float(np.mean(guess == owner.privacy))
        out[f"{tag} guesses the target"] = float(np.mean(guess == targets))
        out[f"{tag} not reached"] = float(np.mean(~moved.reached))
        out[f"{tag} steps"] = float(np.median(moved.steps))
        out[f"{tag} kernel"] = f"{step.kernel} {step.bandwidth:.3g}"
        labels = own.privacy[sources]
        found = train_and_score(
            simulated, labels, moved.rows, owner.privacy, ("svm", *models), quick or wide, groups=sources
        )
        for model, share in found.items():
            out[f"{tag} {model}"] = share

    fixed: dict[str, Any] = {"kernel": "rbf", "bandwidth": 1.0, "most_steps": 60} if wide or quick else {}
    attacked(fit_fine_step(z, public.privacy, classes, seed=seed, **fixed), "fine")
    if method in PRINTED_STEP and not quick:
        step = fit_fine_step(z, public.privacy, classes, seed=seed, kernel="rbf", by="label")
        scale = step.bandwidth**2
        attacked(dataclasses.replace(step, step=0.1 / scale, damping=1e-3 * scale), "printed step")
    for tag in ("coarse", "fine", "printed step"):
        shares = [out[f"{tag} {model}"] for model in ("svm", *models) if f"{tag} {model}" in out]
        if shares:
            out[f"{tag} worst"] = max(shares)
    return out


# ---- frontier


def recipes(name: str) -> dict[str, JupaRecipe]:
    """What is tried: every kind of release, with the options that matter to it; what may hold comes first.

    The kind of public model is not chosen again on every split, which would take most of the time: support vectors for
    HAR and boosted trees elsewhere predicted best on other splits.
    """
    scenario = SCENARIOS[name]
    k = scenario.components
    several = name == "har"  # utility classes: a rank repair needs two
    model = "kernel" if several else "boosting"

    def made(release: str, **options: Any) -> JupaRecipe:
        if release in ("resample", "respond", "repair"):
            options["model"] = model
        return JupaRecipe((scenario.utility,), (scenario.privacy,), release=release, **options)

    found = {"resample": made("resample"), "resample, equalised": made("resample", equalise=True)}
    for bins in () if several else (2, 4, 6):
        found[f"repair, {bins} bins"] = made("repair", bins=bins)
    found[f"coarse, K={k}"] = made("coarse", components=k)
    found[f"fine, K={k}"] = made("fine", components=k)
    for more in (2, 10) if several else (3,):
        found[f"coarse, K={more}"] = made("coarse", components=more)
    found[f"coarse, K={k}, rho0=10"] = made("coarse", components=k, rho0=10.0)
    found[f"coarse pca, K={k}"] = made("coarse", projection="pca", components=k)
    if not several:  # 561 columns for every adversary
        found["resample whole records, equalised"] = made("resample", equalise=True, whole=True)
    found["respond, epsilon=1"] = made("respond", epsilon=1.0)
    found[f"laplace, K={k}, epsilon=4"] = made("laplace", components=k, epsilon=4.0)
    return found


QUICK = ("dca", "jupa 1 1", "resample", "coarse, K=1", "repair, 2 bins")  # methods and recipes


@cache
def fitted_services(name: str, repeat: int) -> dict[bytes, Any]:
    """Classifiers on unperturbed records, which several recipes of one split share."""
    return {}


def frontier_cell(name: str, data: str, label: str, repeat: int, quick: bool) -> Row:
    """One recipe on one split: the service against the worst adversary found."""
    scenario = SCENARIOS[name]
    public, owner, own = sampled(scenario, data, FRONTIER_FROM + repeat, 0 if quick else scenario.extra)
    model = fit_jupa(public, recipes(name)[label], seed=PublicSeed.given(f"{name} {repeat}"))
    shared = fitted_services(name, repeat)
    report = attack_jupa(model, own, owner, coins=SeededCoins(repeat), quick=quick, trained=shared)
    out: Row = {
        "chance": report.chance,
        "utility": report.utility,
        "retrained": report.retrained,
        "papers": report.papers,
        "worst": report.worst,
        "not reached": report.not_reached,
        "records": report.records,
    }
    out |= {f"adaptive {kind}": share for kind, share in report.adaptive.items()}
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in out.items()}


# ---- running


CELLS: dict[str, Callable[[str, str, str, int, bool], Row]] = {"tables": table_cell, "frontier": frontier_cell}
Job = tuple[str, str, str, int]  # part, scenario, method or recipe, repetition


def run(job: Job, data: str, quick: bool) -> Row:
    """A finished piece with its name and its cost."""
    warnings.filterwarnings("ignore", module="sklearn|numpy")
    part, name, label, repeat = job
    started = time.perf_counter()
    found = CELLS[part](name, data, label, repeat, quick)
    return {"part": part, "scenario": name, "label": label, "repeat": repeat, **found} | {
        "seconds": round(time.perf_counter() - started, 1)
    }


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Everything to do, what matters most first."""
    names = options.scenario.split(",")
    for part in [options.only] if options.only else list(CELLS):
        for most in (True, False):  # all repetitions of what matters, then all of the rest
            for repeat in range(options.repeats):
                for name in names:
                    every = list(METHODS if part == "tables" else recipes(name))
                    if options.quick and part == "frontier" and name in ("har", "adult-gender"):
                        continue  # their public models alone take half of the minute
                    first = FIRST if part == "tables" else every[: 4 if name == "har" else 7]
                    for label in every:
                        skipped = (options.quick and label not in QUICK) or options.label not in label
                        if (label in first) == most and not skipped:
                            yield part, name, label, repeat


def done(path: Path) -> list[Row]:
    """What an earlier run finished; a line that was cut off counts as not done."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


# ---- reports


def spread(rows: Sequence[Row], measure: str) -> tuple[float, float, int]:
    """Mean and standard deviation over repetitions, in per cent, and how many."""
    values = [100 * row[measure] for row in rows if measure in row and row[measure] is not None]
    if not values:
        return math.nan, math.nan, 0
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan, len(values)


def shown(rows: Sequence[Row], measure: str) -> str:
    """`mean ± sd`."""
    mean, deviation, count = spread(rows, measure)
    return "-" if not count else f"{mean:.1f}" if count == 1 else f"{mean:.1f} ± {deviation:.1f}"


def strongest(rows: Sequence[Row], tag: str) -> float:
    """The highest mean over repetitions of one kind of adversary."""
    return max((spread(rows, f"{tag} {model}")[0] for model in (*ADVERSARIES, READER)), key=_known)


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def near_chance(rows: Sequence[Row], share: float, chance: float) -> bool:
    """At most two standard errors above chance, by the number of records in all repetitions."""
    error = math.sqrt(chance * (1 - chance) / sum(row["records"] for row in rows if "utility fine" in row))
    return share / 100 <= chance + 2 * error


def table(name: str, rows: Sequence[Row]) -> str:
    """One table of the paper: printed / ours, with the adaptive adversaries and the share not reached."""
    scenario = SCENARIOS[name]
    by = {m: [r for r in rows if r["label"] == m] for m in METHODS}
    by = {m: found for m, found in by.items() if found}
    heads = ["method (rho1 rho1')", "n", "utility coarse: printed / ours", "utility fine: printed / ours"]
    heads += ["privacy coarse, papers' adversary: printed / ours", "privacy coarse, adaptive worst"]
    heads += ["privacy fine, papers' adversary: printed / ours", "privacy fine, adaptive svm / forest / boosting"]
    heads += ["privacy fine, adaptive worst", "not reached"]
    lines = []
    for method, found in by.items():
        numbers = scenario.printed[method]
        fine = sum("utility fine" in row for row in found)
        adaptive = " / ".join(
            "-" if not count else f"{mean:.1f}"
            for mean, _, count in (spread(found, f"fine {model}") for model in ADVERSARIES)
        )
        lines.append(
            [
                method,
                f"{len(found)}" if fine == len(found) else f"{len(found)}, fine and adaptive {fine}",
                f"{numbers[0]:.1f} / {shown(found, 'utility coarse')}",
                f"{numbers[1]:.1f} / {shown(found, 'utility fine')}",
                f"{numbers[2]:.1f} / {shown(found, 'privacy coarse')}",
                shown(found, "coarse worst"),
                f"{numbers[3]:.1f} / {shown(found, 'privacy fine')}",
                adaptive,
                shown(found, "fine worst"),
                shown(found, "fine not reached"),
            ]
        )
    chance = next(iter(by.values()))[0]["chance"]
    text = [f"### Table {scenario.table}: {scenario.title} (chance {100 * chance:.1f})", "", markdown(heads, lines), ""]
    moved = {method: found for method, found in by.items() if any("utility fine" in row for row in found)}
    shares = {
        "papers' adversary": {method: spread(found, "privacy fine")[0] for method, found in moved.items()},
        "adaptive adversary": {method: strongest(found, "fine") for method, found in moved.items()},
    }
    for who, of in shares.items():
        fails = [f"{method} {of[method]:.1f}" for method in moved if not near_chance(moved[method], of[method], chance)]
        verdict = "holds for every row" if not fails else f"does NOT hold for {len(fails)} of {len(moved)} rows"
        text.append(f'- "Fine = random guess", {who}: {verdict}{": " * bool(fails)}{", ".join(fails)}.')
    for method in ("dca", "jupa 1 1"):
        if method in by:
            ours, was = spread(by[method], "utility coarse")[0], scenario.printed[method][0]
            verdict = "within" if abs(ours - was) <= 4 else "NOT within"
            text.append(f"- Coarse utility of {method}: {ours:.1f}, printed {was:.1f}: {verdict} 4 points.")
    for method in PRINTED_STEP:
        found = [row for row in by.get(method, ()) if "utility printed step" in row]
        if found:
            text.append(
                f"- Fine step with the paper's settings (alpha 0.1, RBF, bandwidth by its label rule), {method}: "
                f"utility {shown(found, 'utility printed step')}, papers' adversary "
                f"{shown(found, 'privacy printed step')}, adaptive worst {shown(found, 'printed step worst')}, "
                f"not reached {shown(found, 'printed step not reached')}."
            )
    return "\n".join(text)


TABLES_HEAD = """# Tables I to IV of the JUPA paper beside ours

Per cent, mean ± standard deviation over n repetitions with fresh samples and splits. "Papers' adversary": a support
vector machine trained on unperturbed records. "Adaptive": trained on releases that the adversary made itself from its
own labelled records; "worst" is the highest of three on the owner's records, which alone adds about a point. A line
"does NOT hold" lists rows whose mean (for the adaptive one: the highest mean of a kind of model) is more than two
standard errors above chance. "Not reached": share of records whose label never became the random target; they are
counted as released here, as in the paper. Full-dimensional rows of HAR: RBF of one bandwidth, no boosting."""


def tables_page(rows: Sequence[Row]) -> str:
    """All tables."""
    parts = [TABLES_HEAD]
    for name in SCENARIOS:
        found = [row for row in rows if row["scenario"] == name]
        if found:
            parts.append(table(name, found))
    return "\n\n".join(parts) + "\n"


def points(name: str, rows: Sequence[Row]) -> list[Row]:
    """One point of the picture for each recipe, in shares; those that hold first, best service first."""
    found = []
    for label in dict.fromkeys(row["label"] for row in rows):
        own = [row for row in rows if row["label"] == label]
        point: Row = {"label": label, "release": recipes(name)[label].release, "rows": own}
        for measure in ("utility", "worst"):
            mean, deviation, _ = spread(own, measure)
            point |= {measure: mean / 100, f"{measure}_sd": deviation / 100}
        point["chance"] = float(np.mean([row["chance"] for row in own]))
        found.append(point | {"holds": point["worst"] <= point["chance"] + WITHIN + 1e-9})
    return sorted(found, key=lambda point: (not point["holds"], -_known(point["utility"])))


FRONTIER_HEAD = """# Which releases hold

Per cent, mean ± standard deviation over n fresh splits. Service: trained on unperturbed records. A release holds if
the worst adaptive adversary (highest of SVM, forest, boosting and one that reads pools and bins off a row, on the
owner's records; mean over splits) is at most 3 points above chance. "Strongest kind" is the highest mean of one kind of
adversary: the same without the point that choosing the highest on each split adds. Records that the fine step could
not bring to their target are not released here. The best of several recipes is favoured by chance."""


def frontier_page(rows: Sequence[Row]) -> str:
    """For each scenario what was tried, and whether the goal was met by a release that holds."""
    parts = [FRONTIER_HEAD]
    heads = ["release", "n", "service", "service retrained", "papers' adversary", "worst adaptive", "strongest kind"]
    heads += ["not reached", "holds"]
    for name, scenario in SCENARIOS.items():
        found = points(name, [row for row in rows if row["scenario"] == name])
        if not found:
            continue
        lines = []
        for point in found:
            each = [f"{100 * row['worst']:.1f}" for row in point["rows"] if row["worst"] is not None]
            lines.append(
                [
                    point["label"],
                    str(len(point["rows"])),
                    shown(point["rows"], "utility"),
                    shown(point["rows"], "retrained"),
                    shown(point["rows"], "papers"),
                    f"{shown(point['rows'], 'worst')} ({', '.join(each)})",
                    f"{strongest(point['rows'], 'adaptive'):.1f}",
                    shown(point["rows"], "not reached"),
                    "yes" if point["holds"] else "no",
                ]
            )
        most = max(len(point["rows"]) for point in found)
        best = next(point for point in found if len(point["rows"]) == most)  # not one that ran less often
        chance = 100 * best["chance"]
        verdict = (
            f"Best that holds: {best['label']}, service {100 * best['utility']:.1f}, "
            f"worst adversary {100 * best['worst']:.1f}; goal {scenario.goal:g} "
            f"{'reached' if 100 * best['utility'] >= scenario.goal else 'NOT reached'} "
            f"(a first search found {scenario.first})."
            if best["holds"]
            else f"Nothing tried holds; goal {scenario.goal:g}."
        )
        head = f"## {scenario.title} (chance {chance:.1f}, holds up to {chance + 100 * WITHIN:.1f})"
        parts.append(f"{head}\n\n{markdown(heads, lines)}\n\n{verdict}")
    return "\n\n".join(parts) + "\n"


def tidy(rows: Sequence[Row], path: Path) -> None:
    """One number a line: part, scenario, label, repetition, measure, value."""
    keys = ("part", "scenario", "label", "repeat")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*keys, "measure", "value"])
        for row in rows:
            for measure, value in row.items():
                if measure not in keys:
                    writer.writerow([*(row[key] for key in keys), measure, value])


def report(rows: Sequence[Row], out: Path) -> None:
    """Write everything that there are results for."""
    rows = sorted(rows, key=lambda row: (row["part"], row["scenario"], row["label"], row["repeat"]))
    tidy(rows, out / "results.csv")
    tables, found = ([row for row in rows if row["part"] == part] for part in CELLS)
    if tables:
        (out / "tables.md").write_text(tables_page(tables))
    if found:
        (out / "frontier.md").write_text(frontier_page(found))
        for name, scenario in SCENARIOS.items():
            drawn = points(name, [row for row in found if row["scenario"] == name])
            if drawn:
                picture = frontier_svg(drawn, chance=drawn[0]["chance"], within=WITHIN, title=scenario.title)
                (out / f"frontier-{name}.svg").write_text(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the public data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=tuple(CELLS))
    parser.add_argument("--scenario", default=",".join(SCENARIOS))
    parser.add_argument("--label", default="", help="only methods and recipes whose name holds this")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep what results.jsonl holds and do the rest")
    parser.add_argument("--quick", action="store_true", help="one repetition of a few methods; under a minute")
    options = parser.parse_args()
    if options.quick:
        options.repeats = 1
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "results.jsonl"
    results = done(kept) if options.resume else []
    kept.write_text("".join(json.dumps(row) + "\n" for row in results))
    have = {(row["part"], row["scenario"], row["label"], row["repeat"]) for row in results}
    todo = [job for job in jobs(options) if job not in have]
    with ProcessPoolExecutor(options.workers) as pool, kept.open("a") as file:
        waiting = {pool.submit(run, job, options.data, options.quick): job for job in todo}
        for count, future in enumerate(as_completed(waiting), 1):
            try:
                row = future.result()
            except Exception as failure:  # one piece must not lose the others
                print(f"{waiting[future]}: {failure!r}", file=sys.stderr, flush=True)
                continue
            results.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{count}/{len(todo)} {' '.join(map(str, waiting[future]))} {row['seconds']} s", file=sys.stderr)
    report(results, options.out)
    for page in ("tables.md", "frontier.md"):
        if (options.out / page).exists():
            print((options.out / page).read_text())


if __name__ == "__main__":
    main()
