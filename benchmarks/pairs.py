"""Facts about pairs of columns: does what an analyst asks of two columns at once hold in a release?

    python benchmarks/pairs.py --data DIR [--sets nist10,nist24,adult,nltcs,br2000,bank,covid,flights,small]
                               [--epsilons 1,4] [--mechanisms auto,hybrid] [--releases 10] [--first-split 0]
                               [--small wdbc,dermatology,digits,waveform40,musk2,har] [--quick] [--out results.json]
                               [--sdmetrics PYTHON] [--sdnist PYTHON] [--show results.json,...]

Printed for each set: the truth beside the mean over the releases and its standard error; CPU seconds of a release, of
all threads; the load of the machine. A mechanism is written as in benchmarks/tables.py: hybrid:need=correlations.
--quick: two releases of 20,000 rows at most, and without DIR only what needs no file. --show prints the results of
earlier runs and runs nothing.

nist10, nist24  NIST's census rows (national 2019), the ten demographic columns of its reports, or all 24; add-remove,
                delta 1e-5, epsilon 1 and 10; a schema without and one with `rules`. The k-marginal score as SDNist
                computes it; rows that break SDNist's rules (pairs_study/nist.py has the list). Beside it stand the real
                rows drawn again and every column shuffled for itself. --sdnist scores the first release of each cell
                with SDNist itself.
adult, nltcs, br2000, bank
                80/20 splits, replace, delta 1e-4, epsilon 1 and 4, 20,000 rows drawn, the label declared, no rules:
                total variation in ten cells of equal width, correlations, models on the held-out fifth (truth: models
                of real rows); the questions of Adult are in pairs_study/learning.py.
                --sdmetrics also prints the quality score of SDMetrics for Adult, against the rows that were released.
covid, flights  Replace, delta 1e-6, epsilon 1, no label, no rules: means of groups beside the truth's.
small           benchmarks/tables.py's small sets, replace, delta 1e-4: a logistic regression and a forest.

Schemas stand for public code books: kinds, ranges and lists of values.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
from common.tables import say
from pairs_study import groups, learning, nist
from pairs_study.report import summary

import adumbra as ad
import tables
from adumbra.mechanisms.catalogue import build

Answers = dict[str, tuple[float, float]]
SETS = ("nist10", "nist24", *learning.SETS, "covid", "flights", "small")
SMALL = "wdbc,dermatology,digits,waveform40,musk2,har"
_QUICK_ROWS, _QUICK_RELEASES = 20_000, 2
logging.getLogger("adumbra.owner").setLevel(logging.ERROR)  # counts of empty cells, for every release
_JUDGE = Path(__file__).parent / "pairs_study" / "judge.py"


@dataclass(frozen=True)
class Case:
    """One release to make and to ask."""

    name: str
    variant: str
    frame: pl.DataFrame
    schema: ad.Schema
    budget: Callable[[float], ad.Budget]
    ask: Callable[[pl.DataFrame], Answers]
    rows: int | None = None


def nist_cases(name: str, given: argparse.Namespace) -> Iterator[Case]:
    """With and without rules."""
    frame = nist.table(given.data)
    columns = nist.TEN if name == "nist10" else tuple(frame.columns)
    frame = _few(frame.select(columns), given)
    for rules in (False, True):
        schema = ad.Schema.from_dict(nist.declared(given.data, columns, rules))
        ask = partial(nist.measured, frame, columns=columns)
        variant = "with rules" if rules else "no rules"
        yield Case(name, variant, frame, schema, lambda e: ad.Budget(e, nist.DELTA, relation="add-remove"), ask)


def group_case(name: str, given: argparse.Namespace) -> Case:
    """Without a label."""
    frame, schema = groups.table(name, given.data)
    frame = _few(frame, given)
    return Case(name, "", frame, schema, lambda e: ad.Budget(e, groups.DELTA), partial(groups.measured, name, frame))


def split_case(name: str, given: argparse.Namespace, split: int) -> Case:
    """One split of a table with a label."""
    most = _QUICK_ROWS if given.quick else None
    frame, _, schema, _ = learning.parts(name, given.data, split, most)
    ask = partial(learning.measured, name, given.data, split, most)
    return Case(name, "", frame, schema, lambda e: ad.Budget(e, learning.DELTA), ask, learning.ROWS)


def _few(frame: pl.DataFrame, given: argparse.Namespace) -> pl.DataFrame:
    return frame.sample(_QUICK_ROWS, seed=0) if given.quick and frame.height > _QUICK_ROWS else frame


def made(mechanism: str, case: Case, epsilon: float) -> tuple[ad.Release, float]:
    """A release, and its CPU seconds."""
    kind, _, options = mechanism.partition(":")
    parameters: dict[str, Any] = dict(part.split("=") for part in options.split(":") if part)
    if case.rows is not None:
        parameters.setdefault("rows", case.rows)
    started = time.process_time()
    done = ad.release(case.frame, case.schema, build(kind, parameters), case.budget(epsilon))
    return done, time.process_time() - started


def one(mechanism: str, case: Case, epsilon: float, number: int, given: argparse.Namespace) -> dict[str, Any]:
    """One release with its answers; a mechanism that refuses is told and loses no other."""
    row: dict[str, Any] = {"set": case.name, "variant": case.variant, "mechanism": mechanism, "epsilon": epsilon}
    row |= {"release": number, "load": os.getloadavg()[0]}
    try:
        done, seconds = made(mechanism, case, epsilon)
    except (ad.InputError, ValueError, RuntimeError) as error:
        say(f"{case.name} {case.variant} {mechanism} epsilon {epsilon:g}: {error}")
        return row | {"failed": str(error), "answers": {}}
    table = pl.DataFrame(done.table)
    answers = case.ask(table)
    if case.name == "adult" and epsilon == 1:
        answers |= _judged("sdmetrics", given.sdmetrics, case, table)
    if case.name.startswith("nist") and number == given.first_split:
        answers |= _judged("sdnist", given.sdnist, case, table, given.data / "nist")
    chosen = done.card.mechanism
    say(f"{case.name} {case.variant} {mechanism} ({chosen}) epsilon {epsilon:g} release {number}: {seconds:.1f} CPU s")
    return row | {"chosen": chosen, "cpu": seconds, "rows": table.height, "answers": answers}


def _judged(suite: str, python: str, case: Case, table: pl.DataFrame, truth: Path | None = None) -> Answers:
    """Scores of another suite, run by an interpreter that has it."""
    if not python:
        return {}
    with tempfile.TemporaryDirectory() as place:
        real, release = truth or Path(place) / "truth.csv", Path(place) / "release.csv"
        if truth is None:
            case.frame.write_csv(real)
        table.write_csv(release, null_value="N" if suite == "sdnist" else "")
        command = [python, str(_JUDGE), suite, str(real), str(release)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        say(f"{suite} failed: {run.stderr.strip().splitlines()[-1]}")
        return {}
    return {f"{suite}: {key}": (float("nan"), float(value)) for key, value in json.loads(run.stdout).items()}


def references(name: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """NIST's table drawn again and shuffled: what no release needs to beat, and what needs no relation."""
    frame = nist.table(given.data)
    columns = nist.TEN if name == "nist10" else tuple(frame.columns)
    frame = _few(frame.select(columns), given)
    for kind in ("drawn again", "shuffled"):
        for seed in range(3):
            found = nist.measured(frame, nist.reference(frame, columns, kind, seed), columns)
            yield {"set": name, "variant": "", "mechanism": kind, "epsilon": 0.0, "release": seed, "answers": found}


def small(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The small sets of benchmarks/tables.py, by the better of two models."""
    sets = given.small.split(",") if not given.quick else ["wdbc"]
    for name in sets:
        for split in range(given.first_split, given.first_split + given.releases):
            true = tables.one((name, str(given.data), "real", 0.0, split, True, None))
            for mechanism in given.mechanisms.split(","):
                for epsilon in _epsilons("small", given):
                    row = {"set": "small", "variant": name, "mechanism": mechanism, "epsilon": epsilon}
                    row |= {"release": split, "load": os.getloadavg()[0]}
                    try:
                        found = tables.one((name, str(given.data), mechanism, epsilon, split, True, None))
                    except (ad.InputError, ValueError, RuntimeError) as error:
                        say(f"{name} {mechanism} epsilon {epsilon:g}: {error}")
                        yield row | {"failed": str(error), "answers": {}}
                        continue
                    answers = {
                        f"{name}: {r['model']}": (t["accuracy"], r["accuracy"])
                        for t, r in zip(true, found, strict=True)
                    }
                    say(f"small {name} {mechanism} epsilon {epsilon:g} split {split}: {found[0]['cpu']:.1f} CPU s")
                    yield row | {"cpu": found[0]["cpu"], "chosen": found[0]["chosen"], "answers": answers}


def _epsilons(name: str, given: argparse.Namespace) -> list[float]:
    usual = "1,10" if name.startswith("nist") else "1" if name in ("covid", "flights") else "1,4"
    return [float(e) for e in (given.epsilons or usual).split(",")]


def run(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every release of every set."""
    for name in given.sets.split(","):
        if name not in SETS:
            raise SystemExit(f"no set {name}: one of {', '.join(SETS)}")
        if name == "small":
            yield from small(given)
            continue
        if name.startswith("nist"):
            yield from references(name, given)
        for number in range(given.first_split, given.first_split + given.releases):
            if name.startswith("nist"):
                cases = list(nist_cases(name, given))
            else:
                cases = [split_case(name, given, number) if name in learning.SETS else group_case(name, given)]
            for case in cases:
                for mechanism in given.mechanisms.split(","):
                    for epsilon in _epsilons(name, given):
                        yield one(mechanism, case, epsilon, number, given)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the public data sets")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--epsilons", default="", help="for every set; default: 1,10 for NIST's, 1 for groups, else 1,4"
    )
    parser.add_argument("--mechanisms", default="auto")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--small", default=SMALL)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", default="", help="result files of earlier runs")
    own = sys.executable if find_spec("sdmetrics") else ""
    parser.add_argument("--sdmetrics", default=own, help="an interpreter that has sdmetrics; default: this one")
    parser.add_argument("--sdnist", default=sys.executable if find_spec("sdnist") else "")
    return parser.parse_args()


def main() -> None:
    """Run the study and print its tables."""
    given = _options()
    if given.show:
        print(summary([row for file in given.show.split(",") for row in json.loads(Path(file).read_text())]))
        return
    if given.quick:
        given.releases = _QUICK_RELEASES
    if given.data is None:
        if not given.quick:
            raise SystemExit("--data: the folder with the public data sets")
        given.sets, given.data = "small", Path()
    for suite in ("sdmetrics", "sdnist"):
        if not getattr(given, suite):
            say(f"{suite} is not installed here: its score is left out (--{suite} PYTHON)")
    found = []
    for row in run(given):
        found.append(row)
        if given.out is not None:
            given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(summary(found))
    print(f"\n{given.releases} releases each, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
