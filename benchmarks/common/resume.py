"""A long study keeps each result as it comes, and takes up where it stopped."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from common.tables import Row, as_csv, say

Case = TypeVar("Case")


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """All rows as CSV, in one step: a run that is stopped leaves the old file or the new one."""
    partial = file.with_suffix(".partial")
    partial.write_text(as_csv(rows), encoding="utf-8", newline="")
    partial.replace(file)


def read_rows(file: Path, texts: Collection[str], whole: Collection[str], empty: Collection[str] = ()) -> list[Row]:
    """Rows of a CSV file: `texts` as they are, `whole` as integers, the rest as floats; `empty` may be None."""
    rows = []
    with file.open(newline="", encoding="utf-8") as source:
        for line in csv.DictReader(source):
            row: Row = {}
            for key, value in line.items():
                if key in texts:
                    row[key] = value
                elif value != "":
                    row[key] = int(value) if key in whole else float(value)
                elif key in empty:
                    row[key] = None
            rows.append(row)
    return rows


def finished(path: Path) -> list[Row]:
    """Results of an earlier run, one JSON document a line; a line that was cut off counts as not done."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def results_of(work: Callable[..., Row], cases: Sequence[Case], jobs: int, *given: Any) -> Iterator[tuple[Case, Row]]:
    """Each case with its result as it comes, from `jobs` processes; one that fails is told, and loses no other."""
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(work, case, *given): case for case in cases}
        for future in as_completed(waiting):
            try:
                yield waiting[future], future.result()
            except Exception as failure:
                say(f"{waiting[future]}: {failure!r}")
