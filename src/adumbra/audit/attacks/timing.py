"""Beside the release: does a refusal, or the clock, say something about a row?

The promise covers what is in the folder. A refusal is seen by whoever started the release, and a duration by whoever
can watch; neither is covered. `refusals` checks that no value of a cell decides whether, and in which words, a plan or
a release is refused. `durations` measures how well time tells two neighbouring tables apart, and says what it finds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from adumbra import pipeline
from adumbra.audit.attacks.common import FAILS, WORKS, Attack, Clock, area, generator, interval
from adumbra.common.errors import AdumbraError, InputError
from adumbra.common.randomness import PublicSeed
from adumbra.common.types import Reals
from adumbra.common.validation import at_least
from adumbra.declare.guarantee import Budget, Relation
from adumbra.declare.schema import Schema
from adumbra.families.contract import Mechanism
from adumbra.mechanisms.dppro import DPPro
from adumbra.mechanisms.tables import Tables
from adumbra.request import Request
from adumbra.tables.read import open_table

__all__ = ["FILES", "VALUES", "demonstrate", "durations", "refusals"]

_SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "children": {"kind": "number", "low": 0, "high": 10, "integer": True},
            "sex": {"kind": "category", "values": ["F", "M"]},
            "smoker": {"kind": "flag"},
            "outcome": {"kind": "category", "values": ["alive", "dead"], "role": "label"},
        }
    }
)
_NAMES = [column.name for column in _SCHEMA.released]
_ROW = {"age": "34", "children": "2", "sex": "F", "smoker": "yes", "outcome": "alive"}

_KINDS: tuple[tuple[Mechanism, Relation], ...] = (
    (DPPro(dimension=2), Relation.REPLACE),
    (Tables(rows=5), Relation.ADD_REMOVE),
)

VALUES: Mapping[str, str | None] = {
    "empty": "",
    "missing": None,
    "out of range": "-7",
    "far out of range": "1e308",
    "beyond float64": "1e999",
    "nan": "nan",
    "infinite": "-inf",
    "no number": "unknown",
    "half a number": "34 years",
    "other script": "三十四",
    "control characters": "3\t4\x01",
    "a separator": "3,4",
    "a line break": "3\n4",
    "a quote": '3"4',
    "very long": "3" * 20_000,
}
"""What a cell may hold, whatever its column's kind."""

FILES: Mapping[str, bytes] = {
    "quote left open": b'34,2,"F,yes,alive\n',
    "cell too many": b"34,2,F,yes,alive,dead\n",
    "cell too few": b"34,2,F,yes\n",
    "bytes that are no UTF-8": b"34,2,\xff,yes,alive\n",
}
"""Last lines that make a text file malformed."""


def _now() -> float:
    return time.perf_counter()


def _outcome(source: object, mechanism: Mechanism, relation: Relation = Relation.REPLACE) -> str:
    """What somebody sees who starts a release: the refusal in its words, or that it was done."""
    try:
        # a seed of its own, given, so that nothing differs but the table
        seed = PublicSeed.given("refusals")
        budget = Budget(1.0, relation=relation)
        job = pipeline.prepare(Request(open_table(source), _SCHEMA, mechanism, budget, seed=seed, name="t"))
        with TemporaryDirectory(prefix="adumbra-attack-") as folder:
            card = pipeline.release(job, Path(folder) / "r")[0].card
        return f"released: {card.rows} rows, {card.noise}"
    except AdumbraError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # any other exception is a finding too
        return f"{type(error).__name__}"


def _frame(rows: Sequence[Mapping[str, str | None]]) -> pl.DataFrame:
    return pl.DataFrame({n: [row[n] for row in rows] for n in _NAMES}, schema=dict.fromkeys(_NAMES, pl.String))


def refusals(*, rows: int = 12, each_column: bool = False, confidence: float = 0.95) -> Attack:
    """Put every value of `VALUES` into one person's cells, and compare what a release says.

    Guarantee: `success` is the share of these tables whose outcome (the refusal word by word, or the card's rows and
    noise) differs from that of the untouched table; any above 0 is a leak through refusals. All cells of the person
    get the value, or with `each_column` one after the other. A release plans first, so plans are covered. `details`
    lists what the shape of a file or the number of rows decides, which the values of well-formed cells do not.
    """
    clock = Clock()
    plain = [dict(_ROW) for _ in range(rows)]
    found: list[str] = []
    tried = 0
    places = [[name] for name in _NAMES] if each_column else [_NAMES]
    for kind, relation in _KINDS:
        usual = _outcome(_frame(plain), kind, relation)
        for label, cell in VALUES.items():
            for names in places:
                table = _frame([*plain[:-1], {**_ROW, **dict.fromkeys(names, cell)}])
                tried += 1
                if _outcome(table, kind, relation) != usual:
                    found.append(f"{kind.name}, {relation.value}: {label} in {', '.join(names)}")
    low, high = interval(len(found), tried, confidence)
    shapes = _shapes(rows)
    return Attack(
        name="refusals",
        target="what adumbra release refuses",
        success=len(found) / tried,
        meaning="share of odd values that change what a release says",
        chance=0.0,
        allowed=None,
        low=low,
        high=high,
        confidence=confidence,
        runs=tried,
        seconds=clock.seconds,
        verdict=WORKS if found else FAILS,
        explanation=(
            f"{len(found)} of {tried} releases of tables with an odd value in some cell get another answer than that "
            "of the untouched table; the shape of a file and the number of rows do decide refusals (see details)."
        ),
        details={"differing": found, **shapes},
    )


def _shapes(rows: int) -> dict[str, object]:
    """Refusals that do depend on the table: a malformed file, and no rows at all."""
    kind = Tables(rows=5)
    lines = ",".join(_NAMES).encode() + b"\n" + (",".join(_ROW.values()).encode() + b"\n") * (rows - 1)
    said = {}
    with TemporaryDirectory(prefix="adumbra-attack-") as folder:
        path = Path(folder) / "t.csv"
        for label, last in FILES.items():
            path.write_bytes(lines + last)
            said[label] = _outcome(path, kind)
    empty = {
        relation.value: _outcome(_frame([]), kind, relation) for relation in (Relation.REPLACE, Relation.ADD_REMOVE)
    }
    declared = Schema.from_dict({"table": {"rows": rows + 1}} | {"columns": _SCHEMA.to_dict()["columns"]})
    try:
        pipeline.prepare(Request(open_table(_frame([_ROW] * rows)), declared, kind, Budget(1.0)))
        counted = "accepted"
    except AdumbraError as error:
        counted = str(error)
    return {"malformed files": said, "no rows": empty, "another number of rows than declared": counted}


def durations(*, rows: int = 400, runs: int = 15, odd: int = 1, confidence: float = 0.95, seed: int = 0) -> Attack:
    """Tell two tables apart by how long their releases take: `odd` of `rows` people have only unreadable cells.

    Runs come in pairs, in random order. `success` is how often the release of the odd table took longer. Not
    repeatable: it measures this machine, now, with whatever else runs on it. Nothing is promised about time, so the
    verdict is `works` if the interval excludes one half. `fails` says only that so few runs did not show it.
    """
    at_least(1, "time at least one pair of runs", runs=runs)
    if not 1 <= odd <= rows:
        raise InputError(f"1 to {rows} odd rows", f"odd = {odd}", "give no more odd rows than rows")
    clock, rng = Clock(), generator(seed)
    strange = dict.fromkeys(_NAMES, "no such thing " * 20)
    tables = [_frame([_ROW] * rows), _frame([_ROW] * (rows - odd) + [strange] * odd)]
    kind = Tables(rows=5)
    took = np.zeros((runs, 2))
    for _ in range(2):  # the first runs compile and load
        _outcome(tables[1], kind)
    for run in range(runs):
        for which in rng.permutation(2):
            start = _now()
            _outcome(tables[which], kind)
            took[run, which] = _now() - start
    return _timed(took, rows, odd, confidence, clock)


def _timed(took: Reals, rows: int, odd: int, confidence: float, clock: Clock) -> Attack:
    runs = len(took)
    hits = int((took[:, 1] > took[:, 0]).sum())
    low, high = interval(hits, runs, confidence)
    curve = area(took[:, 1], took[:, 0])
    middle = np.median(took, axis=0) * 1000
    return Attack(
        name="durations",
        target=f"time of a release of {rows} rows, {odd} of them unreadable or none",
        success=hits / runs,
        meaning="share of pairs of runs in which the table with unreadable cells took longer",
        chance=0.5,
        allowed=None,
        low=low,
        high=high,
        confidence=confidence,
        runs=2 * runs,
        seconds=clock.seconds,
        verdict=WORKS if low > 0.5 or high < 0.5 else FAILS,
        explanation=(
            f"Medians of {middle[0]:.1f} and {middle[1]:.1f} ms, area under the curve {curve:.2f}: time is not part of "
            "the promise, and this is what it shows here."
        ),
        details={"auc": curve, "median ms": [float(m) for m in middle]},
    )


def demonstrate(deep: bool = False, seed: int = 0) -> tuple[Attack, ...]:
    """Refusals; and the clock on neighbours, and on tables that differ in every row."""
    runs = 200 if deep else 15
    return (
        refusals(each_column=deep),
        durations(runs=runs, seed=seed),
        durations(runs=runs, odd=400, seed=seed),
    )
