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
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common.resume import finished, results_of
from common.tables import say
from jupa_study.report import report
from jupa_study.scenarios import (
    FINE_REPEATS,
    FIRST,
    FRONTIER_FROM,
    METHODS,
    PRINTED_STEP,
    RHO0,
    SCENARIOS,
    SHARES,
    Row,
    Scenario,
    recipes,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from adumbra.audit.adversaries import SeededCoins, attack_jupa, train_and_score
from adumbra.common.randomness import PublicSeed
from adumbra.jupa.features import Features, Target
from adumbra.jupa.learning.discriminant import FittedProjection, fit_projection, floor_unit
from adumbra.jupa.learning.kernel_choice import fit_fine_step
from adumbra.jupa.learning.mmd import FineStep
from adumbra.jupa.model import fit_jupa

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


def projection(method: str, public: Part, components: int, seed: bytes) -> FittedProjection:
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


# ---- reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the public data sets")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=tuple(CELLS))
    parser.add_argument("--scenario", default=",".join(SCENARIOS))
    parser.add_argument("--label", default="", help="only methods and recipes whose name holds this")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep what results.jsonl holds and do the rest")
    parser.add_argument("--quick", action="store_true", help="one repetition of a few methods; under a minute")
    options = parser.parse_args()
    if options.data is None or options.out is None:
        if not options.quick:
            parser.error("give the folder of the data sets with --data, and one for the results with --out")
        print("needs the data sets, with --data, and --out: nothing done")
        return
    if options.quick:
        options.repeats = 1
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "results.jsonl"
    results = finished(kept) if options.resume else []
    kept.write_text("".join(json.dumps(row) + "\n" for row in results))
    have = {(row["part"], row["scenario"], row["label"], row["repeat"]) for row in results}
    todo = [job for job in jobs(options) if job not in have]
    with kept.open("a") as file:
        for count, (job, row) in enumerate(results_of(run, todo, options.workers, options.data, options.quick), 1):
            results.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            say(f"{count}/{len(todo)} {' '.join(map(str, job))} {row['seconds']} s")
    report(results, options.out)
    for page in ("tables.md", "frontier.md"):
        if (options.out / page).exists():
            print((options.out / page).read_text())


if __name__ == "__main__":
    main()
