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
import csv
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import adumbra as ad
from adumbra import pipeline
from adumbra.answer.queries import Dense, Queries
from adumbra.core.domain import Domain
from adumbra.core.mechanism import Setting
from adumbra.core.workload import Workload, random_ranges
from adumbra.linalg.pursuit import MatrixOperator, pursue_operator
from adumbra.linalg.sensing import KINDS
from adumbra.linalg.strategies import Linear, rebuilt
from adumbra.mechanisms.catalogue import build
from adumbra.published.csm import READINGS, csm, measurement_matrix
from adumbra.synthesis.decoders import threshold
from adumbra.synthesis.forecast import forecasts
from adumbra.synthesis.workloads import box_sums, gains
from adumbra.table.encode import encode
from adumbra.table.read import open_table

Reals = NDArray[np.float64]
Row = dict[str, Any]
QUERIES, DELTA, MU = 10_000, 1e-6, 0.05
STATED, STATED_RELEASES, GAINS = 40, 8, 1_000
FEWEST = BATCH = 20


# --------------------------------------------------------------------------------------------------------- the tables


@dataclass(frozen=True, eq=False)
class Study:
    """A table with its domain, the true counts of the cells, and the queries."""

    name: str
    frame: pl.DataFrame
    schema: ad.Schema
    bins: int
    domain: Domain
    counts: Reals
    ranges: Workload

    @staticmethod
    def of(name: str, frame: pl.DataFrame, columns: Row, bins: int) -> Study:
        """Count the cells as they will be counted."""
        schema = ad.Schema.from_dict({"table": {"name": name}, "columns": columns})
        domain = Domain.of(schema, schema.space(), bins=bins)
        cell = domain.groups.of(encode(frame, schema).values)
        counts = np.bincount(cell, minlength=domain.size).astype(np.float64)
        return Study(name, frame, schema, bins, domain, counts, random_ranges(domain.shape, QUERIES, seed=1))

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """The linear queries; 328 MB at 8,192 cells."""
        rng = np.random.Generator(np.random.Philox(2))
        return 2.0 * rng.random((QUERIES, self.domain.size), dtype=np.float32) - 1.0


def whole(most: int) -> Row:
    """A column of whole numbers from 0."""
    return {"kind": "number", "low": 0, "high": most, "integer": True}


def adult(data: Path | None, cells: int) -> Study:
    if data is None:  # made up, of about the same shape
        values = np.random.default_rng(0).gamma(3.2, 60_000.0, 48_842)
        frame = pl.DataFrame({"fnlwgt": np.minimum(values, 1e6).round()})
    else:
        frame = pl.read_csv(data / "adult.csv.gz").select("fnlwgt")
    return Study.of("adult", frame, {"fnlwgt": {"kind": "number", "low": 0, "high": 1_000_000}}, cells)


@lru_cache
def baskets(data: Path | None) -> NDArray[np.bool_]:
    """Which of the 13 most frequent items each basket holds, the most frequent first."""
    if data is None:
        rng = np.random.default_rng(0)
        return np.asarray(rng.random((88_162, 13)) < 0.6 / np.arange(1, 14) ** 1.2)
    lines = pl.read_csv(data / "retail.csv.gz")["items"].cast(pl.String).str.split(" ").to_list()
    found = [(row, int(item)) for row, items in enumerate(lines) for item in items]
    row, item = np.array(found).T
    top = np.argsort(-np.bincount(item), kind="stable")[:13]
    flags = np.zeros((len(lines), 13), dtype=np.bool_)
    for place, chosen in enumerate(top):
        flags[row[item == chosen], place] = True
    return flags


def retail(data: Path | None, cells: int) -> Study:
    bits = round(math.log2(cells))
    pattern = baskets(data)[:, :bits] @ (1 << np.arange(bits - 1, -1, -1))
    return Study.of("retail", pl.DataFrame({"pattern": pattern}), {"pattern": whole(cells - 1)}, cells)


TPCE_SIZES = {"a1": 16, "a5": 16, "a8": 16, "a7": 8, "a12": 4, "a3": 2}
"""Attributes of TPC-E by their number, those of 16 bins first: the sizes are real, the rows are not."""
TPCE_COLUMNS = {
    128: ("a1", "a7"),
    256: ("a1", "a5"),
    512: ("a1", "a5", "a3"),
    1024: ("a1", "a5", "a12"),
    2048: ("a1", "a5", "a7"),
    4096: ("a1", "a5", "a8"),
    8192: ("a1", "a5", "a8", "a3"),
}


def tpce(data: Path | None, cells: int) -> Study:
    rng = np.random.default_rng(5)
    share = 1.0 / np.arange(1, 13) ** 1.3
    kind = rng.choice(12, 40_000, p=share / share.sum())
    values: Row = {}
    for name, size in TPCE_SIZES.items():
        home = rng.integers(0, size, 12)[kind]
        values[name] = np.where(rng.random(len(kind)) < 0.05, rng.integers(0, size, len(kind)), home)
    chosen = TPCE_COLUMNS[cells]
    columns = {
        name: whole(size - 1) if size == 16 else {"kind": "category", "values": list(range(size))}
        for name, size in TPCE_SIZES.items()
        if name in chosen
    }
    return Study.of("tpce", pl.DataFrame({name: values[name] for name in columns}), columns, 16)


def spikes(data: Path | None, cells: int) -> Study:
    rng = np.random.default_rng(6)
    places = rng.choice(cells, 16, replace=False)
    share = 1.0 / np.arange(1, 17)
    cell = places[rng.choice(16, 40_000, p=share / share.sum())]
    return Study.of("spikes", pl.DataFrame({"cell": cell}), {"cell": whole(cells - 1)}, cells)


SETS: dict[str, Callable[[Path | None, int], Study]] = {
    "adult": adult,
    "retail": retail,
    "tpce": tpce,
    "spikes": spikes,
}
TITLES = {
    "adult": "Adult (fnlwgt)",
    "retail": "Retail (patterns of items)",
    "tpce": "TPC-E domain, stand-in rows",
    "spikes": "made up: 16 occupied cells",
}
SPARSE_IN = {"adult": "dct", "retail": "identity", "tpce": "identity", "spikes": "identity"}
"""The dictionary of the ratio study, fixed by what the table is."""


@lru_cache(maxsize=2)
def study_of(name: str, data: Path | None, cells: int) -> Study:
    return SETS[name](data, cells)


# ------------------------------------------------------------------------------------------------------ one setting


MECHANISMS: dict[str, tuple[str, Row]] = {
    "laplace": ("laplace", {}),
    "privelet": ("privelet", {}),
    "hierarchical": ("hierarchical", {}),
    "fourier": ("fourier", {}),
    "sparse": ("sparse", {}),
    "sparse dct": ("sparse", {"dictionary": "dct"}),
    "sparse haar": ("sparse", {"dictionary": "haar"}),
    "csm": ("csm", {}),
    "csm dct": ("csm", {"dictionary": "dct"}),
    "csm haar": ("csm", {"dictionary": "haar"}),
    "csm own size": ("csm", {}),
}
"""csm has the paper's compression ratio, but for `own size`, which is our rule's."""
LINEAR = ("laplace", "privelet", "hierarchical")


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
        kept.append(float(done.card.parameters.get("atoms_kept", math.nan)))
        if case.mechanism == "hierarchical":  # what the rule chose, which is worked out anew for every release
            branching = done.card.parameters["strategy"]["branching"]
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
        strategy = rebuilt(done.card.parameters["strategy"])
        sd = done.card.noise["counts"].parts["measured"]
        by_range, by_weights = mean_gains(study, strategy)
        out |= {"theory_range": sd**2 * by_range, "theory_linear": sd**2 * by_weights}
    out["forecast_range"] = forecast(case, study)
    return out


def rehearsed(case: Case, study: Study, mechanism: Any, budget: ad.Budget) -> Iterator[Reals]:
    """Counts as a release would hold them, again and again; csm with a new sketch each time."""
    table, times = open_table(study.frame), 1 if case.mechanism.startswith("csm") else 1000
    while True:
        job = pipeline.prepare(table, study.schema, mechanism, budget)
        for draft in pipeline.rehearse(job, lambda meter: meter, times):
            yield np.concatenate(list(draft.batches))[:, -1]


def linear_queries(weights: NDArray[np.float32]) -> Queries:
    """As a workload."""
    names = tuple(map(str, range(len(weights))))
    return Queries(names, None, tuple(map(Dense, names, weights.astype(np.float64))))


_GAINS: dict[tuple[str, int, str], tuple[float, float]] = {}


def mean_gains(study: Study, strategy: Linear) -> tuple[float, float]:
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
    return pipeline.prepare(open_table(study.frame), study.schema, build("laplace", {}), budget).setting


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


def sensible(name: str, mechanism: str, delta: float) -> bool:
    """Not a dictionary for smooth tables on the two that are not, nor fourier twice: its delta is always 0."""
    rough = name in ("tpce", "spikes") and mechanism in ("csm dct", "csm haar", "sparse dct")
    return not rough and not (delta and mechanism == "fourier")


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
    start = peak()
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
    print(*np.diff(marks).tolist(), start, peak(), float(np.square(error).mean()), stated, numbers)


def peak() -> float:
    """MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def memory() -> Iterator[Row]:
    names = ("plan_seconds", "release_seconds", "answer_seconds", "start_mb", "peak_mb", "range", "stated", "numbers")
    for title in LARGE:
        done = subprocess.run(
            [sys.executable, __file__, "--large", title], capture_output=True, text=True, check=True, timeout=3600
        )
        found = dict(zip(names, map(float, done.stdout.split()), strict=True))
        yield {"part": "memory", "cells": 2**20, "mechanism": title} | found
        say(f"memory {title}")


# ------------------------------------------------------------------------------------------------ tables and pictures


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}" if value < 999.5 else f"{value:.1e}".replace("e+0", "e")


def some(rows: list[Row], **wanted: Any) -> list[Row]:
    return [r for r in rows if all(r.get(key) == value for key, value in wanted.items())]


def error_tables(rows: list[Row], part: str, against: str) -> str:
    """Mean squared errors for both kinds of query: in each cell those of all values of `against`, in order."""
    out = []
    for delta in sorted({r["delta"] for r in some(rows, part=part)}):
        ours = some(rows, part=part, delta=delta)
        values = sorted({r[against] for r in ours})
        sets = [name for name in SETS if some(ours, set=name)]
        for kind in ("range", "linear"):
            lines = []
            for title in [*MECHANISMS, *(f"published {r}" for r in READINGS)]:
                cells = []
                for name in sets:
                    found = {r[against]: r[kind] for r in some(ours, set=name, mechanism=title)}
                    shown = [number(found[v]) for v in values if v in found and sensible(name, title, delta)]
                    cells.append(" / ".join(shown) or "-")
                if set(cells) != {"-"}:
                    lines.append([f"*{title}*" if title.startswith("published") else title, *cells])
            listed = ", ".join(f"{v:g}" for v in values)
            heading = f"### {kind} queries, delta {delta:g}, {against} {listed}"
            out.append(f"{heading}\n\n{table(['mechanism', *sets], lines)}")
    return "\n\n".join(out)


def ratio_table(rows: list[Row]) -> str:
    ours = some(rows, part="ratio")
    ratios = sorted({r["ratio"] for r in ours})
    lines = []
    for name in SETS:
        for delta, epsilon, sensing in sorted({(r["delta"], r["epsilon"], r["sensing"]) for r in ours}):
            found = {
                r["ratio"]: r["range"] for r in some(ours, set=name, delta=delta, epsilon=epsilon, sensing=sensing)
            }
            if found:
                shown = [number(found.get(ratio, math.nan)) for ratio in ratios]
                lines.append([name, f"{delta:g}", f"{epsilon:g}", sensing, *shown])
    heads = ["table", "delta", "epsilon", "sensing", *(f"ratio {r:g}" for r in ratios)]
    return f"### range queries against the compression ratio, 256 cells\n\n{table(heads, lines)}"


def predictions(rows: list[Row], parts: Sequence[str] = ("epsilon", "domain")) -> str:
    """Predicted over measured, smallest, middle and largest of all settings; and how many are within 20 %."""
    lines = []
    ours = [r for r in rows if r["part"] in parts and sensible(r["set"], r["mechanism"], r["delta"])]
    for title in MECHANISMS:
        for delta in (0.0, DELTA):
            for which in ("theory", "forecast", "stated"):
                for kind in ("range", "linear"):
                    key = f"{which}_{kind}"
                    pairs = [(r[key], r[kind]) for r in some(ours, mechanism=title, delta=delta) if key in r]
                    ratios = np.array([p / m for p, m in pairs if math.isfinite(p) and m > 0])
                    if len(ratios):
                        inside = int(((ratios >= 0.8) & (ratios <= 1.2)).sum())
                        ends = " / ".join(number(float(v)) for v in np.quantile(ratios, (0.0, 0.5, 1.0)))
                        lines.append([title, f"{delta:g}", which, kind, ends, f"{inside} of {len(ratios)}"])
    heads = ["mechanism", "delta", "prediction", "queries", "predicted / measured: least / middle / most"]
    return "### Predicted over measured\n\n" + table([*heads, "within 20 %"], lines)


def outside(rows: list[Row]) -> str:
    """Every setting in which what the release states is off by more than a fifth."""
    lines = []
    for r in rows:
        if r["part"] not in ("epsilon", "domain") or r["mechanism"].startswith("published"):
            continue
        for kind in ("range", "linear"):
            ratio = r[f"stated_{kind}"] / max(r[kind], 1e-300)
            if math.isfinite(ratio) and not 0.8 <= ratio <= 1.2 and sensible(r["set"], r["mechanism"], r["delta"]):
                facts = [r["part"], r["set"], r["cells"], r["mechanism"], f"{r['epsilon']:g}", f"{r['delta']:g}"]
                kept = "-" if math.isnan(r["atoms_kept"]) else f"{r['atoms_kept']:.0f}"
                lines.append([*facts, kind, f"{ratio:.2f}", f"{r[f'{kind}_se']:.0%}", kept])
    heads = ["part", "table", "cells", "mechanism", "epsilon", "delta", "queries", "stated / measured"]
    return "### Stated errors off by more than 20 %\n\n" + table([*heads, "its standard error", "atoms kept"], lines)


def beyond_table(rows: list[Row]) -> str:
    lines = []
    for title in MECHANISMS:
        for delta in (0.0, DELTA):
            ours = [r for r in some(rows, mechanism=title, delta=delta) if r["part"] in ("epsilon", "domain")]
            shares = [r["beyond"] for r in ours if math.isfinite(r["beyond"]) and sensible(r["set"], title, delta)]
            if shares:
                lines.append([title, f"{delta:g}", f"{np.mean(shares):.3f}", f"{max(shares):.3f}"])
    heads = ["mechanism", "delta", "share of ranges beyond eta, mean", "most"]
    return "### Beyond the stated eta (mu = 0.05)\n\n" + table(heads, lines)


def time_table(rows: list[Row]) -> str:
    ours, lines = some(rows, part="time"), []
    for sensing in dict.fromkeys(r["sensing"] for r in ours):
        for cells in sorted({r["cells"] for r in ours}):
            made = [r["release_seconds"] for r in some(ours, cells=cells, sensing=sensing)]
            answered = [
                f"{min(r['answer_seconds'] for r in some(ours, cells=cells, sensing=sensing, queries=q)):.3f}"
                for q in (64, 128, 256)
            ]
            lines.append([sensing, cells, f"{min(made):.2f}", *answered])
    heads = ["sensing", "cells", "release", "64 + 64 queries", "128 + 128", "256 + 256"]
    return "### CPU seconds (csm, dct, ratio 0.3, epsilon 0.1)\n\n" + table(heads, lines)


def memory_table(rows: list[Row]) -> str:
    lines = [
        [
            r["mechanism"],
            f"{r['numbers']:.0f}",
            *(f"{r[key]:.1f}" for key in ("plan_seconds", "release_seconds", "answer_seconds")),
            f"{r['peak_mb']:.0f}",
            f"{r['peak_mb'] - r['start_mb']:.0f}",
            number(r["range"]),
            number(r["stated"]),
        ]
        for r in some(rows, part="memory")
    ]
    heads = [
        "mechanism",
        "noisy numbers",
        "plan, s",
        "release, s",
        "10,000 ranges, s",
        "peak, MB",
        "of it above the start",
    ]
    return "### 2^20 cells (1,024 x 1,024)\n\n" + table([*heads, "MSE of a range", "stated"], lines)


COLOURS = {
    "laplace": "#666666",
    "privelet": "#0b5394",
    "hierarchical": "#0f9d9d",
    "fourier": "#8e44ad",
    "sparse": "#38761d",
    "csm": "#cc0000",
    "published": "#e69138",
}
MARKS = {"": ("o", "-"), "dct": ("s", "--"), "haar": ("^", "-."), "own size": ("D", ":")}
SENSING_COLOURS = dict(zip(KINDS, ("#0b5394", "#8e44ad", "#cc0000", "#0f9d9d", "#38761d"), strict=True))


THEORY: Row = {"color": "black", "lw": 1.8, "ls": (0, (0.6, 1.4)), "zorder": 5}


def look(title: str) -> Row:
    """One colour a mechanism; the mark and the line say which dictionary."""
    name, _, variant = title.partition(" ")
    if name == "published":
        return {"color": COLOURS[name], "ls": "--", "lw": 1.0, "alpha": 0.9, "marker": "x", "ms": 4}
    mark, line = MARKS[variant]
    return {"color": COLOURS[name], "marker": mark, "ms": 4, "ls": line, "lw": 1.3}


def error_picture(rows: list[Row], part: str, against: str, delta: float, file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = some(rows, part=part, delta=delta)
    sets = [s for s in SETS if some(ours, set=s)]
    figure, axes = plt.subplots(2, len(sets), figsize=(3.2 * len(sets) + 2.8, 7), squeeze=False, sharex=True)
    shown: Row = {}
    for column, name in enumerate(sets):
        for line, kind in enumerate(("range", "linear")):
            axis = axes[line][column]
            for title in [*MECHANISMS, *(f"published {r}" for r in READINGS)]:
                found = sorted(some(ours, set=name, mechanism=title), key=lambda r: r[against])
                if not found or not sensible(name, title, delta):
                    continue
                xs = [r[against] for r in found]
                label = title
                if title.startswith("published"):
                    label = title.replace("published ", "published: ").replace("-", " ")
                    if READINGS[2] not in title:
                        label += "\n(promises less than it says)"
                shown[label] = axis.plot(xs, [r[kind] for r in found], label=label, **look(title))[0]
                if title in LINEAR:
                    theory = axis.plot(xs, [r[f"theory_{kind}"] for r in found], **THEORY)
                    shown["theory (linear estimates)"] = theory[0]
            axis.set_xscale("log", base=2 if against == "cells" else 10)
            axis.set_yscale("log")
            axis.grid(True, which="major", alpha=0.3)
            if line == 0:
                axis.set_title(TITLES[name], fontsize=10)
            if column == 0:
                axis.set_ylabel(f"mean squared error, {kind} queries")
            if line == 1:
                axis.set_xlabel("cells" if against == "cells" else against)
            if against == "epsilon":
                ticks = sorted({r[against] for r in ours})
                axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
                axis.minorticks_off()
    shown = {label: shown[label] for label in sorted(shown, key=lambda text: "theory" in text)}
    figure.legend(list(shown.values()), list(shown), loc="center right", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.8 / (3.2 * len(sets) + 2.8), 1))
    figure.savefig(file, dpi=80)
    plt.close(figure)


def ratio_picture(rows: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = some(rows, part="ratio")
    sets = [s for s in SETS if some(ours, set=s)]
    figure, axes = plt.subplots(2, len(sets), figsize=(3.3 * len(sets) + 2.0, 6.5), squeeze=False, sharex=True)
    shown: Row = {}
    for column, name in enumerate(sets):
        for line, (delta, title) in enumerate(((0.0, "pure epsilon"), (DELTA, "delta 1e-6, Gaussian noise"))):
            axis = axes[line][column]
            for epsilon, width in ((1.0, 1.5), (0.1, 0.9)):
                for kind in KINDS:
                    found = sorted(
                        some(ours, set=name, delta=delta, epsilon=epsilon, sensing=kind), key=lambda r: r["ratio"]
                    )
                    if found:
                        style = {1.0: "-", 0.1: ":"}[epsilon]
                        xs, ys = [r["ratio"] for r in found], [r["range"] for r in found]
                        curve = axis.plot(xs, ys, style, color=SENSING_COLOURS[kind], lw=width, marker="o", ms=3)
                        shown[f"{kind}, epsilon {epsilon:g}"] = curve[0]
            axis.set_yscale("log")
            axis.grid(True, alpha=0.3)
            if line == 0:
                axis.set_title(f"{TITLES[name]}\n({SPARSE_IN[name]})", fontsize=10)
            else:
                axis.set_xlabel("compression ratio")
            if column == 0:
                axis.set_ylabel(f"MSE of ranges, {title}")
    figure.legend(list(shown.values()), list(shown), loc="center right", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1 - 2.0 / (3.3 * len(sets) + 2.0), 1))
    figure.savefig(file, dpi=80)
    plt.close(figure)


def prediction_picture(rows: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ours = [r for r in rows if r["part"] in ("epsilon", "domain") and not r["mechanism"].startswith("published")]
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6))
    panels = (
        ("theory: linear estimates,\nfrom shape and epsilon alone", "theory", ("range", "linear")),
        ("forecast of a range (adumbra plan),\nfrom shape and epsilon alone", "forecast", ("range",)),
        ("what the releases themselves state", "stated", ("range", "linear")),
    )
    for axis, (title, which, kinds) in zip(axes, panels, strict=True):
        for name in COLOURS:
            points = [
                (r[kind], r[f"{which}_{kind}"])
                for r in ours
                for kind in kinds
                if r["mechanism"].split(" ")[0] == name and math.isfinite(r.get(f"{which}_{kind}", math.nan))
            ]
            if points:
                xs, ys = np.array(points).T
                shown = np.clip(ys / xs, 1e-3, 10.0)
                axis.plot(xs, shown, ".", ms=4, color=COLOURS[name], label=name, alpha=0.7)
        axis.axhspan(0.8, 1.2, color="#cccccc", alpha=0.5, zorder=0)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(8e-4, 12)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("measured mean squared error")
        axis.grid(True, alpha=0.3)
        axis.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("predicted / measured (grey: within 20 %;\nbelow 0.001 drawn there)")
    figure.tight_layout()
    figure.savefig(file, dpi=80)
    plt.close(figure)


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
            write(done, file)
        if count % 20 == 0 or count == len(left):
            say(f"{count} of {len(left)}: {row['part']} {row['set']} {row['cells']} {row['mechanism']}")

    if jobs == 1:
        for count, case in enumerate(left, 1):
            keep(measured(case, data, effort), count)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(measured, case, data, effort) for case in left]
        for count, found in enumerate(as_completed(waiting), 1):
            keep(found.result(), count)


def write(rows: list[Row], file: Path) -> None:
    names = list(dict.fromkeys(key for row in rows for key in row))
    partial = file.with_suffix(".partial")
    with partial.open("w", newline="") as out:
        writer = csv.DictWriter(out, names)
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(file)


TEXTS = ("part", "set", "mechanism", "sensing")


def read(file: Path) -> list[Row]:
    with file.open(newline="") as source:
        rows = []
        for line in csv.DictReader(source):
            row: Row = {}
            for key, value in line.items():
                if key in TEXTS:
                    row[key] = value
                elif value != "":
                    row[key] = int(value) if key in ("cells", "releases", "queries") else float(value)
                elif key == "ratio":
                    row[key] = None
            rows.append(row)
    return rows


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
        rows = read(file) if file.exists() else []
    if not given.report:
        for part in parts:
            if part in CASES:
                run_cases(CASES[part](sets, given.quick), given.data, effort, given.jobs, rows, file)
            elif not some(rows, part=part):
                rows += list(times(given.data) if part == "time" else memory())
                if file is not None:
                    write(rows, file)
    print(report(rows, given.out))


if __name__ == "__main__":
    main()
