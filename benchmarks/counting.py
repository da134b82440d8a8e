"""Counting queries: the error of every mechanism on 10,000 linear and 10,000 range queries, beside what was predicted.

    python benchmarks/counting.py --data DIR [--parts epsilon,ratio,domain,time,memory]
                                  [--sets adult,retail,tpce,spikes] [--out FOLDER] [--jobs 2] [--quick] [--report]

DIR holds the files of the public data sets; --quick makes up a table and takes a minute at most. Printed are Markdown
tables; --out also writes results.csv (a row for each setting) and pictures, and takes up again where an earlier run
into the same folder stopped; --report only prints and draws what is there.

epsilon  Mean squared error against epsilon, at 256 cells and compression ratio 0.4 (Figure 5 of the CSM paper).
ratio    Against the compression ratio, for every kind of sensing, at 256 cells (Figure 2).
domain   Against the number of cells, 128 to 8,192, at epsilon 0.1 and ratio 0.3 (Figure 3).
time     CPU seconds for a release and its answers, 128 to 8,192 cells, 64 to 256 queries (Figure 6).
memory   CPU seconds and peak memory at 2^20 cells: plan, release and 10,000 ranges, each in a process of its own.

Queries: `linear` has a weight for every cell, drawn evenly from -1 to 1 (the paper does not say how); `range` is a box
whose ends are drawn evenly along each axis. Both are the same for all mechanisms. Relation replace.

Tables, one row a person:

* adult: 48,842 rows; fnlwgt in N equal bins from 0 to 1,000,000, one ordered column. Smooth, most cells occupied.
* retail: 88,162 baskets; which of the k = log2 N most frequent items are in it, as a number of k bits (the most
  frequent is the highest bit), one ordered column. The list of items is taken as public.
* tpce: STAND-IN rows. Only the attributes and their sizes are those of TPC-E; 40,000 rows are made up: twelve kinds of
  trade, of skewed frequency, each with a home cell that a row leaves in each column with a chance of 1 in 20. Several
  columns, ordered and not.
* spikes: made up; 16 cells hold all of 40,000 rows. What the forecast of sparse and csm takes for granted.

Measured is the mean over releases, 20 or more: until its standard error is below --precision for both kinds of query
(half of it where the estimate is linear), --most releases are made or --seconds of CPU time are spent. Beside it stand
`theory`, where the estimate is linear: noise variance times the mean squared gain of these very queries, from the shape
and epsilon alone; `forecast`, what `adumbra plan` prints for a range, from the shape and epsilon alone too; `stated`,
the mean square of the standard errors that the first 8 releases state for these queries (linear: for the first 40, and
theory for the first 1,000; they hardly differ). `beyond` is the share of range answers that were further off than the
eta stated for mu = 0.05.

`published` is the paper's own algorithm with its noise: it promises less than it says (docs/proofs/published-csm.md)
and is drawn dashed, for comparison only. DPPro, a rival in the paper, answers no counting queries over cells;
PrivBayes, the other, is not here.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common.resume import read_rows, results_of, write_rows
from common.tables import say, some
from common.timing import peak_mb
from counting_study.pictures import error_picture, prediction_picture, ratio_picture
from counting_study.report import (
    beyond_table,
    error_tables,
    memory_table,
    outside,
    predictions,
    ratio_table,
    time_table,
)
from counting_study.sets import (
    DELTA,
    LINEAR,
    MECHANISMS,
    MU,
    QUERIES,
    SETS,
    SPARSE_IN,
    Reals,
    Row,
    Study,
    sensible,
    study_of,
    whole,
)
from numpy.typing import NDArray

import adumbra as ad
from adumbra import pipeline
from adumbra.counting.workload import box_sums, gains, random_ranges
from adumbra.families.contract import Setting
from adumbra.families.forecast import forecasts
from adumbra.kinds.conditions import DenseQuery, Queries
from adumbra.mechanisms.catalogue import build
from adumbra.models.sparse_recovery import threshold
from adumbra.numerics.operator_pursuit import MatrixOperator, pursue_operator
from adumbra.numerics.sensing import KINDS
from adumbra.numerics.strategies import LinearStrategy, rebuilt
from adumbra.published.csm_paper import READINGS, csm, measurement_matrix
from adumbra.rehearsal import rehearse
from adumbra.request import Request
from adumbra.tables.read import open_table

STATED, STATED_RELEASES, GAINS = 40, 8, 1_000
FEWEST = BATCH = 20


# ------------------------------------------------------------------------------------------------------ one setting


@dataclass(frozen=True)
class Case:
    """What is repeated."""

    part: str
    set: str
    cells: int
    mechanism: str
    epsilon: float
    delta: float = 0.0
    ratio: float | None = None
    sensing: str = ""

    def built(self, study: Study) -> Any:
        """The mechanism."""
        name, options = MECHANISMS[self.mechanism]
        if name == "csm" and self.mechanism != "csm own size":
            options = options | {"ratio": self.ratio} | ({"sensing": self.sensing} if self.sensing else {})
        return build(name, options | {"bins": study.bins})


@dataclass(frozen=True)
class Effort:
    """How often."""

    precision: float
    most: int
    seconds: float
    """Time for the releases of one setting, beyond the fewest."""


class Tally:
    """Squared errors of releases: mean over the queries of each, and which were beyond their eta."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.truth = box_sums(study.counts, study.ranges)
        self.ranges: list[float] = []
        self.linear: list[float] = []
        self._waiting: list[Reals] = []

    def add(self, counts: Reals) -> None:
        """One release; its linear queries wait for `settle`."""
        error = counts - self.study.counts
        self.ranges.append(float(np.square(box_sums(error, self.study.ranges)).mean()))
        self._waiting.append(error)

    def settle(self) -> None:
        """The linear queries of all releases that wait, block by block."""
        errors = np.stack(self._waiting, axis=1).astype(np.float32)
        answers = (self.study.weights @ errors).astype(np.float64)
        self.linear += np.square(answers).mean(axis=0).tolist()
        self._waiting = []

    def precise(self, wanted: float) -> bool:
        """Whether both means are known this well."""
        return all(relative(values) <= wanted for values in (self.ranges, self.linear))


def relative(values: list[float]) -> float:
    """Standard error of a mean, as a share of it."""
    found = np.array(values)
    return float(found.std(ddof=1) / math.sqrt(len(found)) / max(found.mean(), 1e-300))


def measured(case: Case, data: Path | None, effort: Effort) -> Row:
    """Release until the mean squared errors are known well enough."""
    study = study_of(case.set, data, case.cells)
    tally, row = Tally(study), asdict(case)
    if case.mechanism.startswith("published"):
        row |= published(case, study, tally)
    else:
        row |= released(case, study, tally, effort)
    return row | {
        "releases": len(tally.ranges),
        "range": float(np.mean(tally.ranges)),
        "range_se": relative(tally.ranges),
        "linear": float(np.mean(tally.linear)),
        "linear_se": relative(tally.linear),
    }


def released(case: Case, study: Study, tally: Tally, effort: Effort) -> Row:
    """The first few as folders with their answers; then the same measurements without the folder."""
    budget, mechanism = ad.Budget(case.epsilon, case.delta), case.built(study)
    few = linear_queries(study.weights[:STATED])
    stated_ranges, stated_linear, beyond, etas, kept, seconds = [], [], [], [], [], []
    started = time.process_time()
    for _ in range(STATED_RELEASES):
        before = time.perf_counter()
        done = ad.release(study.frame, study.schema, mechanism, budget)
        counted = done.counted
        seconds.append(time.perf_counter() - before)
        tally.add(counted.counts)
        answers = counted.boxes(study.ranges, MU)
        stated_ranges.append(np.square(answers["standard_error"].to_numpy()).mean())
        off = np.abs(answers["value"].to_numpy() - tally.truth)
        beyond.append((off > answers["eta"].to_numpy()).mean())
        etas.append(answers["eta"].to_numpy().mean())
        stated_linear.append(np.square(counted.workload(few, MU)["standard_error"].to_numpy()).mean())
        kept.append(float(math.nan if done.facts.atoms_kept is None else done.facts.atoms_kept))
        if case.mechanism == "hierarchical":  # what the rule chose, which is worked out anew for every release
            branching = done.facts.strategy["branching"]
            mechanism = build("hierarchical", {"bins": study.bins, "branching": branching})
    again = rehearsed(case, study, mechanism, budget)
    while True:
        while len(tally.ranges) < FEWEST or len(tally.ranges) % BATCH:
            tally.add(next(again))
        tally.settle()
        count, spent = len(tally.ranges), time.process_time() - started
        wanted = effort.precision / (2.0 if case.mechanism in LINEAR else 1.0)  # where theory should hold to the digit
        if count >= effort.most or tally.precise(wanted) or spent > effort.seconds:
            break
        tally.add(next(again))
    out: Row = {
        "seconds": min(seconds),
        "atoms_kept": float(np.mean(kept)),
        "stated_range": float(np.mean(stated_ranges)),
        "stated_linear": float(np.mean(stated_linear)),
        "beyond": float(np.mean(beyond)),
        "eta": float(np.mean(etas)),
    }
    if case.mechanism in LINEAR:
        strategy = rebuilt(done.facts.strategy)
        sd = done.card.noise["counts"].parts["measured"]
        by_range, by_weights = mean_gains(study, strategy)
        out |= {"theory_range": sd**2 * by_range, "theory_linear": sd**2 * by_weights}
    out["forecast_range"] = forecast(case, study)
    return out


def rehearsed(case: Case, study: Study, mechanism: Any, budget: ad.Budget) -> Iterator[Reals]:
    """Counts as a release would hold them, again and again; csm with a new sketch each time."""
    table, times = open_table(study.frame), 1 if case.mechanism.startswith("csm") else 1000
    while True:
        job = pipeline.prepare(Request(table, study.schema, mechanism, budget))
        for draft in rehearse(job, lambda meter: meter, times):
            yield np.concatenate(list(draft.batches))[:, -1]


def linear_queries(weights: NDArray[np.float32]) -> Queries:
    """As a workload."""
    names = tuple(map(str, range(len(weights))))
    return Queries(names, None, tuple(map(DenseQuery, names, weights.astype(np.float64))))


_GAINS: dict[tuple[str, int, str], tuple[float, float]] = {}


def mean_gains(study: Study, strategy: LinearStrategy) -> tuple[float, float]:
    """Mean squared gain of the ranges and of the linear queries; kept, since epsilon does not enter."""
    key = (study.name, study.domain.size, repr(strategy.recipe()))
    if key not in _GAINS:
        by_range = float(np.square(gains(strategy, study.ranges)[0]).mean())
        duals = [strategy.dual(row[None].astype(np.float64)) for row in study.weights[:GAINS]]
        _GAINS[key] = by_range, float(np.square(duals).sum()) / GAINS
    return _GAINS[key]


def setting_of(case: Case, study: Study) -> Setting:
    """What a mechanism may know: shape, epsilon, delta."""
    budget = ad.Budget(case.epsilon, case.delta)
    return pipeline.prepare(Request(open_table(study.frame), study.schema, build("laplace", {}), budget)).setting


_FORECASTS: dict[tuple[str, int, float, float], dict[str, float]] = {}


def forecast(case: Case, study: Study) -> float:
    """Mean squared error of a range by `adumbra plan`; not a number where it says nothing of this variant."""
    known = {"laplace", "privelet", "hierarchical", "fourier", "sparse", "csm own size"}
    if case.mechanism not in known:
        return math.nan
    key = (case.set, case.cells, case.epsilon, case.delta)
    if key not in _FORECASTS:
        found = forecasts(setting_of(case, study), study.domain)
        _FORECASTS[key] = {f.mechanism: f.ranges for f in found}
    return _FORECASTS[key][MECHANISMS[case.mechanism][0]] ** 2


def published(case: Case, study: Study, tally: Tally) -> Row:
    """The paper's algorithm with one reading of its noise, decoded as ours is."""
    reading = case.mechanism.removeprefix("published ")
    rng = np.random.default_rng(7)
    numbers = math.ceil((case.ratio or 1.0) * case.cells)
    for _ in range(FEWEST):
        matrix = measurement_matrix(numbers, case.cells, rng)
        noisy, scale = csm(study.counts, case.epsilon, matrix, rng, reading)
        cut = threshold(scale * math.sqrt(2.0), case.cells, laplace=False)
        most = max(1, numbers // 3)
        found = pursue_operator(MatrixOperator(matrix), noisy, atoms=most, correlation=cut)
        tally.add(found.dense(case.cells)[0])
    tally.settle()
    return {}


# ------------------------------------------------------------------------------------------------------- the parts


def epsilon_cases(sets: Sequence[str], quick: bool) -> list[Case]:
    cells, out = 256, []
    plan = {0.0: (0.1, 1.0) if quick else (0.1, 0.2, 0.5, 1.0), DELTA: () if quick else (0.1, 0.3, 1.0)}
    names = [m for m in MECHANISMS if not (quick and m in ("csm haar", "sparse haar"))]
    for delta, epsilons in plan.items():
        for name in sets:
            for epsilon in epsilons:
                for mechanism in names:
                    if not sensible(name, mechanism, delta):
                        continue
                    ratio = 0.4 if mechanism.startswith("csm") and mechanism != "csm own size" else None
                    out.append(Case("epsilon", name, cells, mechanism, epsilon, delta, ratio))
                if not delta:
                    out += [Case("epsilon", name, cells, f"published {r}", epsilon, 0.0, 0.4) for r in READINGS]
    return out


def ratio_cases(sets: Sequence[str], quick: bool) -> list[Case]:
    out = []
    ratios = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
    for name in sets:
        mechanism = "csm dct" if SPARSE_IN[name] == "dct" else "csm"
        for delta, epsilon, kinds in (
            (0.0, 1.0, KINDS),
            (0.0, 0.1, ("hadamard",)),
            (DELTA, 1.0, KINDS),
        ):
            out += [Case("ratio", name, 256, mechanism, epsilon, delta, r, k) for k in kinds for r in ratios]
    return out


def domain_cases(sets: Sequence[str], quick: bool) -> list[Case]:
    out = []
    for delta, sizes in ((0.0, (128, 512, 2048, 8192)), (DELTA, (512, 8192))):
        for cells in sizes:
            for name in sets:
                for mechanism in MECHANISMS:
                    if not sensible(name, mechanism, delta) or mechanism == "csm haar":
                        continue
                    ratio = 0.3 if mechanism.startswith("csm") and mechanism != "csm own size" else None
                    out.append(Case("domain", name, cells, mechanism, 0.1, delta, ratio))
                if not delta and cells <= 512:
                    out.append(Case("domain", name, cells, f"published {READINGS[0]}", 0.1, 0.0, 0.3))
    return out


CASES = {"epsilon": epsilon_cases, "ratio": ratio_cases, "domain": domain_cases}


def times(data: Path | None) -> Iterator[Row]:
    """CPU seconds from the table to the answers, at epsilon 0.1, ratio 0.3, without the first run, which compiles."""
    for cells in (128, 256, 512, 1024, 2048, 4096, 8192):
        study = study_of("adult", data, cells)
        for sensing in ("hadamard", "sparse-signs"):
            for repeat in range(3):
                before = time.process_time()
                mechanism = build("csm", {"bins": study.bins, "ratio": 0.3, "sensing": sensing, "dictionary": "dct"})
                done = ad.release(study.frame, study.schema, mechanism, ad.Budget(0.1)).counted
                made = time.process_time() - before
                for count in (64, 128, 256):
                    before = time.process_time()
                    done.boxes(random_ranges(study.domain.shape, count), MU)
                    done.workload(linear_queries(study.weights[:count]), MU)
                    answered = time.process_time() - before
                    facts = {"part": "time", "set": "adult", "cells": cells, "sensing": sensing, "queries": count}
                    if repeat:
                        yield facts | {"release_seconds": made, "answer_seconds": answered}
        say(f"time {cells}")


LARGE = ("laplace", "privelet", "hierarchical", "sparse", "csm", "csm, delta 1e-6")


def large(title: str) -> None:
    """2^20 cells, in a process of its own: prints CPU seconds of plan, release and answers, and the peak of memory."""
    rng = np.random.default_rng(8)
    share = 1.0 / np.arange(1, 17)
    cell = rng.choice(2**20, 16, replace=False)[rng.choice(16, 100_000, p=share / share.sum())]
    frame = pl.DataFrame({"a": cell // 1024, "b": cell % 1024})
    study_counts = np.bincount(cell, minlength=2**20).astype(np.float64)
    schema = ad.Schema.from_dict({"table": {"name": "large"}, "columns": {"a": whole(1023), "b": whole(1023)}})
    ranges = random_ranges((1024, 1024), QUERIES, seed=1)
    mechanism = build(title.split(",")[0], {"bins": 1024})
    budget = ad.Budget(1.0, DELTA if "delta" in title else 0.0)
    start = peak_mb()
    marks = [time.process_time()]
    ad.plan(frame, schema, mechanism, budget)
    marks.append(time.process_time())
    done = ad.release(frame, schema, mechanism, budget)
    marks.append(time.process_time())
    answers = done.counted.boxes(ranges, MU)
    marks.append(time.process_time())
    error = answers["value"].to_numpy() - box_sums(study_counts, ranges)
    stated = float(np.square(answers["standard_error"].to_numpy()).mean())
    numbers = len(done.arrays["measured"])
    print(*np.diff(marks).tolist(), start, peak_mb(), float(np.square(error).mean()), stated, numbers)


def memory() -> Iterator[Row]:
    names = ("plan_seconds", "release_seconds", "answer_seconds", "start_mb", "peak_mb", "range", "stated", "numbers")
    for title in LARGE:
        done = subprocess.run(
            [sys.executable, __file__, "--large", title], capture_output=True, text=True, check=True, timeout=3600
        )
        found = dict(zip(names, map(float, done.stdout.split()), strict=True))
        yield {"part": "memory", "cells": 2**20, "mechanism": title} | found
        say(f"memory {title}")


# ----------------------------------------------------------------------------------------------------------- the run


def run_cases(
    cases: list[Case], data: Path | None, effort: Effort, jobs: int, done: list[Row], file: Path | None
) -> None:
    """Measure what is not measured yet, and keep it as it comes."""
    known = {tuple(r.get(f) for f in Case.__dataclass_fields__) for r in done}
    left = [c for c in cases if tuple(asdict(c).values()) not in known]

    def keep(row: Row, count: int) -> None:
        done.append(row)
        if file is not None:
            write_rows(done, file)
        if count % 20 == 0 or count == len(left):
            say(f"{count} of {len(left)}: {row['part']} {row['set']} {row['cells']} {row['mechanism']}")

    if jobs == 1:
        found = ((case, measured(case, data, effort)) for case in left)
    else:
        found = results_of(measured, left, jobs, data, effort)
    for count, (_, row) in enumerate(found, 1):
        keep(row, count)


TEXTS = ("part", "set", "mechanism", "sensing")


def report(rows: list[Row], out: Path | None) -> str:
    parts = {r["part"] for r in rows}
    texts = []
    if "epsilon" in parts:
        texts.append(error_tables(rows, "epsilon", "epsilon"))
    if "domain" in parts:
        texts.append(error_tables(rows, "domain", "cells"))
    if parts & {"epsilon", "domain"}:
        texts += [predictions(rows), beyond_table(rows), outside(rows)]
    if "ratio" in parts:
        texts.append(ratio_table(rows))
    if "time" in parts:
        texts.append(time_table(rows))
    if "memory" in parts:
        texts.append(memory_table(rows))
    if out is not None:
        for part, against in (("epsilon", "epsilon"), ("domain", "cells")):
            for delta, name in ((0.0, "pure"), (DELTA, "gaussian")):
                if some(rows, part=part, delta=delta):
                    error_picture(rows, part, against, delta, out / f"counting-{part}-{name}.png")
        if "ratio" in parts:
            ratio_picture(rows, out / "counting-ratio.png")
        if parts & {"epsilon", "domain"}:
            prediction_picture(rows, out / "counting-predicted.png")
    return "\n\n".join(texts)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path)
    options.add_argument("--parts", default="epsilon,ratio,domain,time,memory")
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument("--out", type=Path)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--precision", type=float, default=0.08)
    options.add_argument("--most", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=20.0, help="for the releases of a setting, beyond the fewest")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--report", action="store_true", help="print what an earlier run found")
    options.add_argument("--large", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.large is not None:
        large(given.large)
        return
    if given.out is not None and find_spec("matplotlib") is None:  # said now, not after hours of work
        options.error("--out draws pictures with matplotlib, which is not installed; install it or leave --out out")
    parts, sets = given.parts.split(","), given.sets.split(",")
    effort = Effort(given.precision, given.most, given.seconds)
    if given.quick:
        parts, sets, effort = ["epsilon"], ["spikes"], Effort(0.2, FEWEST, 2.0)
    elif given.data is None and not given.report:
        options.error("--data DIR, or --quick")
    file = None
    rows: list[Row] = []
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        file = given.out / "results.csv"
        rows = read_rows(file, TEXTS, ("cells", "releases", "queries"), ("ratio",)) if file.exists() else []
    if not given.report:
        for part in parts:
            if part in CASES:
                run_cases(CASES[part](sets, given.quick), given.data, effort, given.jobs, rows, file)
            elif not some(rows, part=part):
                rows += list(times(given.data) if part == "time" else memory())
                if file is not None:
                    write_rows(rows, file)
    print(report(rows, given.out))


if __name__ == "__main__":
    main()
